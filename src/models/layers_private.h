/* Shared by the layer files: macros for arguments and rows, and helpers for layers that can share another
 * layer's parameters. */
#ifndef KN_LAYERS_PRIVATE_H
#define KN_LAYERS_PRIVATE_H

#include "models/models_private.h"

#define OPTION(word, sort, about, ...)                                                                       \
    { .name = word, .kind = KN_OPTION_##sort, .help = about, __VA_ARGS__ }
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
#define ARGUMENTS(list) .arguments = list, .argument_count = (int)KN_COUNT_OF(list)
#define ONE_INPUT .least_inputs = 1, .most_inputs = 1
/* A layer with one input and without parameters. */
#define LAYER(word, about, others, list, function)                                                           \
    { .name = word, .help = about, .also = others, ONE_INPUT, ARGUMENTS(list), .build = function }
/* A layer with one input that accepts these common arguments of layers with parameters. */
#define LAYER_WITH(word, about, others, list, common, function)                                              \
    {                                                                                                        \
        .name = word, .help = about, .also = others, ONE_INPUT, ARGUMENTS(list), .takes = common,            \
        .build = function                                                                                    \
    }
#define WITH_WEIGHTS KN_TAKES_INIT | KN_TAKES_BIAS_INIT | KN_TAKES_SHARE | KN_TAKES_FREEZE

/* kn_mistake for the layer's word; returns NULL. */
kn_value *kn_layer_mistake(const kn_layer_call *call, const char *format, ...) KN_PRINTF(2, 3);
/* Parameter `part` of layer call->share; NULL if that layer has none. */
kn_value *kn_shared(kn_layer_call *call, const char *part);
/* The shared weight, which must have `rank` dimensions and, if given, `units` rows. NULL after a mistake. */
kn_value *kn_shared_weight(kn_layer_call *call, int rank, const kn_option_value *units);

/* Copies one number or two; a second 0 repeats the first. */
void kn_copy_pair(const kn_option_value *value, int64_t pair[2]);
/* Copies one number for all sides, two for height and width, or four: top, left, bottom, right. */
void kn_copy_sides(const kn_option_value *value, int64_t sides[4]);

/* A family of layers: the rows of one file. */
typedef struct kn_layer_family {
    const kn_layer_row *rows;
    int count;
} kn_layer_family;
extern const kn_layer_family kn_weights_layers, kn_norm_layers, kn_recurrent_layers, kn_pool_layers,
    kn_shape_layers, kn_sound_layers;

#endif
