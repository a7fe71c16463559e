/* Public to other modules: model files of other programs. Only the command is above this module, and it uses
 * only the public headers. */
#ifndef KN_EXCHANGE_DOOR_H
#define KN_EXCHANGE_DOOR_H

#include "models/models.h"

/* The origins of models; table.c lists them for the models module. */
extern const kn_model_origin kn_onnx_origin, kn_caffe_origin, kn_gguf_origin, kn_folder_origin;

#endif
