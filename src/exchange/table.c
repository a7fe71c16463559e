/* The origins of models, in the order in which they try to recognize a file. */
#include "exchange/exchange.h"

const kn_model_origin *const kn_model_origins[] = {&kn_saved_origin,  &kn_gguf_origin,  &kn_onnx_origin,
                                                   &kn_folder_origin, &kn_caffe_origin, &kn_text_origin};
const int kn_model_origin_count = (int)KN_COUNT_OF(kn_model_origins);
