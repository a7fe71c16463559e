/* Shared by the layer files: macros for arguments, helpers for layers that can share another layer's
 * parameters, and the layers of layers_weights.c, layers_norm.c and layers_pool.c. */
#ifndef KN_LAYERS_PRIVATE_H
#define KN_LAYERS_PRIVATE_H

#include "models/models_private.h"

#define WHOLE(word, about, ...)                                                                              \
    { .name = word, .kind = KN_OPTION_WHOLE, .least = 1, .help = about, __VA_ARGS__ }
#define PAIR(word, about, ...)                                                                               \
    {                                                                                                        \
        .name = word, .kind = KN_OPTION_WHOLES, .least_count = 1, .most_count = 2, .least = 1,               \
        .help = about, __VA_ARGS__                                                                           \
    }
#define SIDES(word, about, ...)                                                                              \
    {                                                                                                        \
        .name = word, .kind = KN_OPTION_WHOLES, .least_count = 1, .most_count = 4, .help = about,            \
        .usual = "0", __VA_ARGS__                                                                            \
    }
#define NUMBER(word, about, ...)                                                                             \
    { .name = word, .kind = KN_OPTION_NUMBER, .help = about, __VA_ARGS__ }
#define FLAG(word, about, ...)                                                                               \
    { .name = word, .kind = KN_OPTION_FLAG, .help = about, __VA_ARGS__ }
#define REQUIRED .by_position = true, .required = true
#define BY_POSITION .by_position = true

/* Parameter `part` of layer call->share; NULL if that layer has none. */
kn_value *kn_shared(kn_layer_call *call, const char *part);
/* The shared weight, which must have `rank` dimensions and, if given, `units` rows. NULL after a mistake. */
kn_value *kn_shared_weight(kn_layer_call *call, int rank, const kn_option_value *units);

/* Copies one number or two; a second 0 repeats the first. */
void kn_copy_pair(const kn_option_value *value, int64_t pair[2]);
/* Copies one number for all sides, two for height and width, or four: top, left, bottom, right. */
void kn_copy_sides(const kn_option_value *value, int64_t sides[4]);

extern const kn_option kn_linear_arguments[2];
extern const kn_option kn_conv_arguments[7];
extern const kn_option kn_transpose_arguments[8];
extern const kn_option kn_norm_arguments[3];
extern const kn_option kn_group_norm_arguments[3];
extern const kn_option kn_instance_norm_arguments[2];
extern const kn_option kn_local_norm_arguments[4];
extern const kn_option kn_layer_norm_arguments[2];
extern const kn_option kn_rms_norm_arguments[1];
extern const kn_option kn_embedding_arguments[2];
extern const kn_option kn_max_pool_arguments[5];
extern const kn_option kn_average_pool_arguments[5];
extern const kn_option kn_power_pool_arguments[5];
extern const kn_option kn_adaptive_arguments[1];

kn_value *kn_build_linear(kn_layer_call *call);
kn_value *kn_build_conv(kn_layer_call *call);
kn_value *kn_build_conv_transpose(kn_layer_call *call);
kn_value *kn_build_batch_norm(kn_layer_call *call);
kn_value *kn_build_group_norm(kn_layer_call *call);
kn_value *kn_build_instance_norm(kn_layer_call *call);
kn_value *kn_build_local_norm(kn_layer_call *call);
kn_value *kn_build_standardize(kn_layer_call *call);
kn_value *kn_build_layer_norm(kn_layer_call *call);
kn_value *kn_build_rms_norm(kn_layer_call *call);
kn_value *kn_build_embedding(kn_layer_call *call);
kn_value *kn_build_max_pool(kn_layer_call *call);
kn_value *kn_build_average_pool(kn_layer_call *call);
kn_value *kn_build_power_pool(kn_layer_call *call);
kn_value *kn_build_adaptive_max_pool(kn_layer_call *call);
kn_value *kn_build_adaptive_average_pool(kn_layer_call *call);
kn_value *kn_build_global_average_pool(kn_layer_call *call);
kn_value *kn_build_global_max_pool(kn_layer_call *call);

#endif
