/* Public header of the verify module: compares operators on a device with their references, and defines the
 * verdicts that planning needs (kn_device_verdicts in run/run.h). The public API is koine/verify.h. */
#ifndef KN_VERIFY_DOOR_H
#define KN_VERIFY_DOOR_H

#include <koine/verify.h>

#endif
