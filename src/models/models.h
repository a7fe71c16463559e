/* The door of the models room: networks as texts, as files with weights, and the zoo.
 * Nothing stands above this room but the command, which sees the public header only. */
#ifndef KN_MODELS_DOOR_H
#define KN_MODELS_DOOR_H

#include <koine/model.h>

#include "base/base.h"

#endif
