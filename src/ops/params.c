/* The functions that set the parameters of layers and operators to their defaults. */
#include "base/base.h"

#include <koine/operators.h>

KN_DEFINE_INIT(kn_linear_params, KN_LINEAR_DEFAULTS)
KN_DEFINE_INIT(kn_conv_params, KN_CONV_DEFAULTS)
KN_DEFINE_INIT(kn_batch_norm_params, KN_BATCH_NORM_DEFAULTS)
KN_DEFINE_INIT(kn_recurrent_params, KN_RECURRENT_DEFAULTS)
KN_DEFINE_INIT(kn_norm_params, KN_NORM_DEFAULTS)
KN_DEFINE_INIT(kn_local_norm_params, KN_LOCAL_NORM_DEFAULTS)
KN_DEFINE_INIT(kn_spectrogram_params, KN_SPECTROGRAM_DEFAULTS)
KN_DEFINE_INIT(kn_embedding_params, KN_EMBEDDING_DEFAULTS)
KN_DEFINE_INIT(kn_attention_params, KN_ATTENTION_DEFAULTS)
KN_DEFINE_INIT(kn_rotary_params, KN_ROTARY_DEFAULTS)
KN_DEFINE_INIT(kn_pool_params, KN_POOL_DEFAULTS)
KN_DEFINE_INIT(kn_resize_params, KN_RESIZE_DEFAULTS)
KN_DEFINE_INIT(kn_cross_entropy_params, KN_CROSS_ENTROPY_DEFAULTS)
KN_DEFINE_INIT(kn_ctc_params, KN_CTC_DEFAULTS)
