/* Layers that move, select and repeat elements: builders of the public API that are not rows of the operator
 * table. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "models/layers_shape.h"

#define AXES(about, ...)                                                                                     \
    {                                                                                                        \
        .name = "axes", .kind = KN_OPTION_WHOLES, .by_position = true, .most_count = 8, .least = -8,         \
        .help = about, __VA_ARGS__                                                                           \
    }

const char *kn_option_list_text(const kn_option_value *value, char *text, size_t bytes) {
    size_t length = 0;
    text[0] = '\0';
    for (int i = 0; i < value->count && length < bytes; i++)
        length +=
            (size_t)snprintf(text + length, bytes - length, i ? ",%" PRId64 : "%" PRId64, value->list[i]);
    return text;
}

/* The index of the given word in an option's list; 0 if none was given. */
static int word_of(const kn_option_value *value, const char *const *words, int count) {
    for (int i = 0; i < count && value->given; i++)
        if (!strcmp(words[i], value->text)) return i;
    return 0;
}

/* ---- shapes -------------------------------------------------------------------------------------------- */

const kn_option kn_squeeze_arguments[1] = {
    AXES("axes of size 1 to remove; the batch is axis 0", .usual = "all")};
const kn_option kn_unsqueeze_arguments[1] = {
    AXES("positions of the new axes in the result; the batch is axis 0", .required = true)};
const kn_option kn_tile_arguments[1] = {{.name = "times",
                                         .kind = KN_OPTION_WHOLES,
                                         .by_position = true,
                                         .required = true,
                                         .most_count = 8,
                                         .help = "repeats along each of the last axes: 2x3"}};
const kn_option kn_repeat_arguments[2] = {
    {.name = "times",
     .kind = KN_OPTION_WHOLE,
     .by_position = true,
     .required = true,
     .help = "repeats of each element"},
    {.name = "axis", .kind = KN_OPTION_WHOLE, .least = -8, .most = 7, .usual = "-1", .help = "axis"},
};
const kn_option kn_block_arguments[2] = {
    {.name = "block",
     .kind = KN_OPTION_WHOLE,
     .by_position = true,
     .required = true,
     .least = 1,
     .help = "height and width of a pixel block"},
    {.name = "order",
     .kind = KN_OPTION_WORD,
     .words = "channels pixels",
     .usual = "channels",
     .help = "the outer axis among the deep channels: channels, as in pixel shuffle, or pixels"},
};
const kn_option kn_triangle_arguments[1] = {
    {.name = "diagonal",
     .kind = KN_OPTION_WHOLE,
     .by_position = true,
     .least = -INT32_MAX,
     .usual = "0",
     .help = "last diagonal that is kept; 1 is the diagonal above the main one"}};

kn_value *kn_build_squeeze(kn_layer_call *call) {
    char axes[128];
    return kn_squeeze(call->inputs[0], kn_option_list_text(&call->values[0], axes, sizeof axes));
}
kn_value *kn_build_unsqueeze(kn_layer_call *call) {
    char axes[128];
    return kn_unsqueeze(call->inputs[0], kn_option_list_text(&call->values[0], axes, sizeof axes));
}
kn_value *kn_build_tile(kn_layer_call *call) {
    char times[256];
    return kn_tile(call->inputs[0], kn_option_list_text(&call->values[0], times, sizeof times));
}
kn_value *kn_build_repeat(kn_layer_call *call) {
    return kn_repeat(call->inputs[0], call->values[1].given ? (int)call->values[1].whole : -1,
                     call->values[0].whole);
}
static bool channels_first(const kn_layer_call *call) {
    static const char *const words[] = {"channels", "pixels"};
    return word_of(&call->values[1], words, 2) == 0;
}
kn_value *kn_build_depth_to_space(kn_layer_call *call) {
    return kn_depth_to_space(call->inputs[0], call->values[0].whole, channels_first(call));
}
kn_value *kn_build_space_to_depth(kn_layer_call *call) {
    return kn_space_to_depth(call->inputs[0], call->values[0].whole, channels_first(call));
}
kn_value *kn_build_tril(kn_layer_call *call) {
    return kn_tril(call->inputs[0], call->values[0].whole);
}
kn_value *kn_build_triu(kn_layer_call *call) {
    return kn_triu(call->inputs[0], call->values[0].whole);
}

/* ---- sums of products ---------------------------------------------------------------------------------- */

const kn_option kn_einsum_arguments[1] = {
    {.name = "equation",
     .kind = KN_OPTION_TEXT,
     .required = true,
     .help = "one letter per axis of each value: equation=bij,bjk->bik"}};

kn_value *kn_build_einsum(kn_layer_call *call) {
    return kn_einsum(call->values[0].text, call->inputs, (size_t)call->input_count);
}

/* ---- images -------------------------------------------------------------------------------------------- */

const kn_option kn_image_size_arguments[4] = {
    {.name = "size",
     .kind = KN_OPTION_WHOLES,
     .by_position = true,
     .required = true,
     .least_count = 1,
     .most_count = 2,
     .least = 1,
     .help = "new height and width: 32 or 24x32"},
    {.name = "mode",
     .kind = KN_OPTION_WORD,
     .words = "nearest linear cubic",
     .usual = "nearest",
     .help = "interpolation"},
    {.name = "coordinates",
     .kind = KN_OPTION_WORD,
     .words = "half_pixel align_corners asymmetric",
     .usual = "half_pixel",
     .help = "coordinate mapping between the images"},
    {.name = "rounding",
     .kind = KN_OPTION_WORD,
     .words = "round_prefer_floor round_prefer_ceil floor ceil",
     .usual = "round_prefer_floor",
     .help = "rounding to the nearest pixel"},
};
const kn_option kn_mode_padding_arguments[2] = {
    {.name = "padding",
     .kind = KN_OPTION_WHOLES,
     .by_position = true,
     .required = true,
     .least_count = 1,
     .most_count = 4,
     .help = "padding: all sides, or height,width, or top,left,bottom,right"},
    {.name = "mode",
     .kind = KN_OPTION_WORD,
     .words = "reflect edge wrap",
     .usual = "reflect",
     .help = "mirror at the edges, repeat the edges, or wrap around"},
};

/* x is (...,H,W). */
kn_value *kn_build_image_size(kn_layer_call *call) {
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    static const char *const coordinates[] = {"half_pixel", "align_corners", "asymmetric"};
    static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
    const kn_option_value *values = call->values;
    kn_resize_params params;
    kn_resize_params_init(&params);
    params.mode = (kn_resize_mode)word_of(&values[1], modes, 3);
    params.coordinates = (kn_resize_coordinates)word_of(&values[2], coordinates, 3);
    params.rounding = (kn_resize_rounding)word_of(&values[3], roundings, 4);
    return kn_resize_image(call->inputs[0], values[0].list[0], values[0].list[values[0].count - 1], &params);
}

/* x is (...,H,W). */
kn_value *kn_build_mode_padding(kn_layer_call *call) {
    static const char *const modes[] = {"reflect", "edge", "wrap"};
    const kn_option_value *given = &call->values[0];
    int64_t sides[4], amounts[16] = {0};
    int rank = kn_value_rank(call->inputs[0]), count = 0;
    for (int i = 0; i < 4; i++)
        sides[i] = given->list[given->count == 1 ? 0 : given->count == 2 ? i % 2 : i < given->count ? i : 0];
    if (rank < 2) {
        kn_mistake(call->model, call->line, call->line->word.column,
                   "found a value with fewer than two axes; expected (...,height,width)");
        return NULL;
    }
    for (int i = 0; i < 4; i++)
        amounts[(i < 2 ? 0 : rank) + rank - 2 + i % 2] = sides[i];
    char text[512] = "";
    for (size_t length = 0; count < 2 * rank; count++)
        length += (size_t)snprintf(text + length, sizeof text - length, count ? ",%" PRId64 : "%" PRId64,
                                   amounts[count]);
    return kn_pad_with_mode(call->inputs[0], text, (kn_pad_mode)word_of(&call->values[1], modes, 3));
}

/* ---- indices ------------------------------------------------------------------------------------------- */

const kn_option kn_place_arguments[2] = {
    {.name = "axis",
     .kind = KN_OPTION_WHOLE,
     .by_position = true,
     .least = -8,
     .most = 7,
     .usual = "-1",
     .help = "axis"},
    {.name = "keep", .kind = KN_OPTION_FLAG, .usual = "no", .help = "keep the axis with size 1"},
};
const kn_option kn_one_hot_arguments[2] = {
    {.name = "classes",
     .kind = KN_OPTION_WHOLE,
     .by_position = true,
     .required = true,
     .least = 1,
     .help = "size of the new axis"},
    {.name = "axis",
     .kind = KN_OPTION_WHOLE,
     .least = -8,
     .most = 7,
     .usual = "-1",
     .help = "its position in the result"},
};

const kn_option kn_gather_nd_arguments[1] = {
    {.name = "batch",
     .kind = KN_OPTION_WHOLE,
     .least = 0,
     .most = 7,
     .usual = "1",
     .help = "number of leading axes that both inputs share, including the batch"},
};

static int axis_or_last(const kn_option_value *value) {
    return value->given ? (int)value->whole : -1;
}
kn_value *kn_build_argmax(kn_layer_call *call) {
    return kn_argmax(call->inputs[0], axis_or_last(&call->values[0]), call->values[1].flag);
}
kn_value *kn_build_argmin(kn_layer_call *call) {
    return kn_argmin(call->inputs[0], axis_or_last(&call->values[0]), call->values[1].flag);
}
kn_value *kn_build_one_hot(kn_layer_call *call) {
    return kn_one_hot(call->inputs[0], call->values[0].whole, axis_or_last(&call->values[1]), 1, 0);
}
/* x is (N,...), indices are (N,...,K). */
kn_value *kn_build_gather_nd(kn_layer_call *call) {
    const kn_option_value *batch = &call->values[0];
    return kn_gather_nd_batches(call->inputs[0], call->inputs[1], batch->given ? (int)batch->whole : 1);
}
