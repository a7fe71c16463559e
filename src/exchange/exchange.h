/* The door of the exchange room: models that other programs made, and models for other programs.
 * Only the command is above this room, and it uses the public headers alone. */
#ifndef KN_EXCHANGE_DOOR_H
#define KN_EXCHANGE_DOOR_H

#include "models/models.h"

/* Each fills in what a model's origin is; table.c lists them for the room below. */
extern const kn_model_origin kn_onnx_origin, kn_caffe_origin;

#endif
