/* The door of the verify room: operators on a device against their references, and what plans ask of a device
 * (kn_device_judge in run/run.h is filled in here). The public side is koine/verify.h. */
#ifndef KN_VERIFY_DOOR_H
#define KN_VERIFY_DOOR_H

#include <koine/verify.h>

#endif
