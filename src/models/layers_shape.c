/* Layers without parameters, all builders of the public API that are not rows of the operator table: shapes,
 * selected and repeated elements, reductions, distances, and losses of several values. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "models/layers_private.h"

#define AXES(about, ...)                                                                                     \
    {                                                                                                        \
        .name = "axes", .kind = KN_OPTION_WHOLES, .by_position = true, .most_count = 8, .least = -8,         \
        .help = about, __VA_ARGS__                                                                           \
    }

/* A list in the form of the public API: "1,-1". */
static const char *list_text(const kn_option_value *value, char *text, size_t bytes) {
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

static const kn_option squeeze_arguments[] = {
    AXES("axes of size 1 to remove; the batch is axis 0", .usual = "all")};
static const kn_option unsqueeze_arguments[] = {
    AXES("positions of the new axes in the result; the batch is axis 0", .required = true)};
static const kn_option tile_arguments[] = {
    OPTION("times", WHOLES, "repeats along each of the last axes: 2x3", REQUIRED, .most_count = 8)};
static const kn_option repeat_arguments[] = {
    OPTION("times", WHOLE, "repeats of each element", REQUIRED),
    OPTION("axis", WHOLE, "axis", .least = -8, .most = 7, .usual = "-1"),
};
static const kn_option block_arguments[] = {
    OPTION("block", WHOLE, "height and width of a pixel block", REQUIRED, .least = 1),
    OPTION("order", WORD, "the outer axis among the deep channels: channels, as in pixel shuffle, or pixels",
           .words = "channels pixels", .usual = "channels"),
};
static const kn_option triangle_arguments[] = {
    OPTION("diagonal", WHOLE, "last diagonal that is kept; 1 is the diagonal above the main one", BY_POSITION,
           .least = -INT32_MAX, .usual = "0")};

static kn_value *build_squeeze(kn_layer_call *call) {
    char axes[128];
    return kn_squeeze(call->inputs[0], list_text(&call->values[0], axes, sizeof axes));
}
static kn_value *build_unsqueeze(kn_layer_call *call) {
    char axes[128];
    return kn_unsqueeze(call->inputs[0], list_text(&call->values[0], axes, sizeof axes));
}
static kn_value *build_tile(kn_layer_call *call) {
    char times[256];
    return kn_tile(call->inputs[0], list_text(&call->values[0], times, sizeof times));
}
static kn_value *build_repeat(kn_layer_call *call) {
    return kn_repeat(call->inputs[0], call->values[1].given ? (int)call->values[1].whole : -1,
                     call->values[0].whole);
}
static bool channels_first(const kn_layer_call *call) {
    static const char *const words[] = {"channels", "pixels"};
    return word_of(&call->values[1], words, 2) == 0;
}
static kn_value *build_depth_to_space(kn_layer_call *call) {
    return kn_depth_to_space(call->inputs[0], call->values[0].whole, channels_first(call));
}
static kn_value *build_space_to_depth(kn_layer_call *call) {
    return kn_space_to_depth(call->inputs[0], call->values[0].whole, channels_first(call));
}
static kn_value *build_tril(kn_layer_call *call) {
    return kn_tril(call->inputs[0], call->values[0].whole);
}
static kn_value *build_triu(kn_layer_call *call) {
    return kn_triu(call->inputs[0], call->values[0].whole);
}

/* ---- sums of products ---------------------------------------------------------------------------------- */

static const kn_option einsum_arguments[] = {
    OPTION("equation", TEXT, "one letter per axis of each value: equation=bij,bjk->bik", .required = true)};

static kn_value *build_einsum(kn_layer_call *call) {
    return kn_einsum(call->values[0].text, call->inputs, (size_t)call->input_count);
}

/* ---- images -------------------------------------------------------------------------------------------- */

static const kn_option image_size_arguments[] = {
    OPTION("size", WHOLES, "new height and width: 32 or 24x32", REQUIRED, .least_count = 1, .most_count = 2,
           .least = 1),
    OPTION("mode", WORD, "interpolation", .words = "nearest linear cubic", .usual = "nearest"),
    OPTION("coordinates", WORD, "coordinate mapping between the images",
           .words = "half_pixel align_corners asymmetric", .usual = "half_pixel"),
    OPTION("rounding", WORD, "rounding to the nearest pixel",
           .words = "round_prefer_floor round_prefer_ceil floor ceil", .usual = "round_prefer_floor"),
};
static const kn_option mode_padding_arguments[] = {
    OPTION("padding", WHOLES, "padding: all sides, or height,width, or top,left,bottom,right", REQUIRED,
           .least_count = 1, .most_count = 4),
    OPTION("mode", WORD, "mirror at the edges, repeat the edges, or wrap around",
           .words = "reflect edge wrap", .usual = "reflect"),
};

/* x is (...,H,W). */
static kn_value *build_image_size(kn_layer_call *call) {
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
static kn_value *build_mode_padding(kn_layer_call *call) {
    static const char *const modes[] = {"reflect", "edge", "wrap"};
    const kn_option_value *given = &call->values[0];
    int64_t sides[4], amounts[16] = {0};
    int rank = kn_value_rank(call->inputs[0]), count = 0;
    for (int i = 0; i < 4; i++)
        sides[i] = given->list[given->count == 1 ? 0 : given->count == 2 ? i % 2 : i < given->count ? i : 0];
    if (rank < 2)
        return kn_layer_mistake(call, "found a value with fewer than two axes; expected (...,height,width)");
    for (int i = 0; i < 4; i++)
        amounts[(i < 2 ? 0 : rank) + rank - 2 + i % 2] = sides[i];
    char text[512] = "";
    for (size_t length = 0; count < 2 * rank; count++)
        length += (size_t)snprintf(text + length, sizeof text - length, count ? ",%" PRId64 : "%" PRId64,
                                   amounts[count]);
    return kn_pad_with_mode(call->inputs[0], text, (kn_pad_mode)word_of(&call->values[1], modes, 3));
}

/* ---- indices ------------------------------------------------------------------------------------------- */

static const kn_option place_arguments[] = {
    OPTION("axis", WHOLE, "axis", BY_POSITION, .least = -8, .most = 7, .usual = "-1"),
    OPTION("keep", FLAG, "keep the axis with size 1", .usual = "no"),
};
static const kn_option one_hot_arguments[] = {
    OPTION("classes", WHOLE, "size of the new axis", REQUIRED, .least = 1),
    OPTION("axis", WHOLE, "its position in the result", .least = -8, .most = 7, .usual = "-1"),
};

static const kn_option gather_nd_arguments[] = {
    OPTION("batch", WHOLE, "number of leading axes that both inputs share, including the batch", .least = 0,
           .most = 7, .usual = "1"),
};

static int axis_or_last(const kn_option_value *value) {
    return value->given ? (int)value->whole : -1;
}
static kn_value *build_argmax(kn_layer_call *call) {
    return kn_argmax(call->inputs[0], axis_or_last(&call->values[0]), call->values[1].flag);
}
static kn_value *build_argmin(kn_layer_call *call) {
    return kn_argmin(call->inputs[0], axis_or_last(&call->values[0]), call->values[1].flag);
}
static kn_value *build_one_hot(kn_layer_call *call) {
    return kn_one_hot(call->inputs[0], call->values[0].whole, axis_or_last(&call->values[1]), 1, 0);
}
/* x is (N,...), indices are (N,...,K). */
static kn_value *build_gather_nd(kn_layer_call *call) {
    const kn_option_value *batch = &call->values[0];
    return kn_gather_nd_batches(call->inputs[0], call->inputs[1], batch->given ? (int)batch->whole : 1);
}

/* ---- reductions and distances ------------------------------------------------------------------------ */

static const kn_option measure_arguments[] = {
    OPTION("axes", WHOLES, "axes to reduce; the batch is axis 0", BY_POSITION, .most_count = 8, .least = -8,
           .usual = "all"),
    OPTION("keep", FLAG, "keep reduced axes with size 1", .usual = "no"),
};
static const kn_option stack_arguments[] = {
    OPTION("axis", WHOLE, "position of the new axis", .least = -8, .most = 7, .usual = "1"),
};

/* x has any shape; without axes, the result is a scalar. */
#define MEASURE(name)                                                                                        \
    static kn_value *build_##name(kn_layer_call *call) {                                                     \
        char axes[128];                                                                                      \
        bool given = call->values[0].given;                                                                  \
        list_text(&call->values[0], axes, sizeof axes);                                                      \
        return kn_##name(call->inputs[0], given ? axes : NULL, call->values[1].flag);                        \
    }
MEASURE(reduce_prod)
MEASURE(reduce_l1)
MEASURE(reduce_l2)
MEASURE(reduce_sum_square)
MEASURE(reduce_log_sum)
MEASURE(reduce_log_sum_exp)

/* All inputs have the same shape; the batch remains axis 0. */
static kn_value *build_stack(kn_layer_call *call) {
    const kn_option_value *axis = &call->values[0];
    return kn_stack(call->inputs, (size_t)call->input_count, axis->given ? (int)axis->whole : 1);
}

/* x and y are (...,D), the result (...). */
static kn_value *build_cosine_similarity(kn_layer_call *call) {
    return kn_cosine_similarity(call->inputs[0], call->inputs[1]);
}

/* ---- losses of several values --------------------------------------------------------------------------
 *
 * A model whose result is such a loss is trained on it. Losses of one output against a target are in the
 * table of loss.c. */

static const kn_option apart_arguments[] = {
    NUMBER("margin", "required distance", .by_position = true, .usual = "1")};
static const kn_option least_arguments[] = {NUMBER("margin", "tolerance", .by_position = true, .usual = "0")};

/* x and y are (...,D), target (...) is 1 or -1; the result is a scalar. */
static kn_value *build_cosine_embedding(kn_layer_call *call) {
    return kn_cosine_embedding(call->inputs[0], call->inputs[1], call->inputs[2], call->values[0].number);
}

/* All three inputs are (...,D). */
static kn_value *build_triplet_margin(kn_layer_call *call) {
    return kn_triplet_margin(call->inputs[0], call->inputs[1], call->inputs[2], call->values[0].number);
}

/* All three inputs have the same shape. */
static kn_value *build_margin_ranking(kn_layer_call *call) {
    return kn_margin_ranking(call->inputs[0], call->inputs[1], call->inputs[2], call->values[0].number);
}

static const kn_layer_row rows[] = {
    {.name = "einsum",
     .help = "Einstein summation",
     .least_inputs = 1,
     .most_inputs = KN_MAX_INPUTS,
     ARGUMENTS(einsum_arguments),
     .build = build_einsum},
    {.name = "gather_nd",
     .help = "elements or slices of x at indices (...,K)",
     .least_inputs = 2,
     .most_inputs = 2,
     ARGUMENTS(gather_nd_arguments),
     .build = build_gather_nd},
    LAYER("squeeze", "removes axes of size 1", NULL, squeeze_arguments, build_squeeze),
    LAYER("unsqueeze", "inserts axes of size 1", "expand_dims", unsqueeze_arguments, build_unsqueeze),
    LAYER("tile", "repeats the value along its last axes", NULL, tile_arguments, build_tile),
    LAYER("repeat_elements", "repeats each element along an axis", "repeat_interleave", repeat_arguments,
          build_repeat),
    LAYER("depth_to_space", "channels become pixels: (N,C*b*b,H,W) to (N,C,H*b,W*b)",
          "pixel_shuffle pixelshuffle", block_arguments, build_depth_to_space),
    LAYER("space_to_depth", "pixels become channels: (N,C,H*b,W*b) to (N,C*b*b,H,W)", "pixel_unshuffle",
          block_arguments, build_space_to_depth),
    LAYER("tril", "lower triangle of the last two axes, 0 above", NULL, triangle_arguments, build_tril),
    LAYER("triu", "upper triangle of the last two axes, 0 below", NULL, triangle_arguments, build_triu),
    LAYER("upsample", "resizes images", "interpolate resize2d", image_size_arguments, build_image_size),
    LAYER("padimage", "pads images with their own pixels", "reflect_pad reflection_pad replication_pad",
          mode_padding_arguments, build_mode_padding),
    LAYER("argmax", "index of the largest element along an axis, int32", NULL, place_arguments, build_argmax),
    LAYER("argmin", "index of the smallest element along an axis, int32", NULL, place_arguments,
          build_argmin),
    LAYER("one_hot", "1 at the index, 0 elsewhere, along a new axis", "onehot", one_hot_arguments,
          build_one_hot),
    LAYER("reduce_prod", "products along axes", "prod", measure_arguments, build_reduce_prod),
    LAYER("reduce_l1", "sums of absolute values along axes", NULL, measure_arguments, build_reduce_l1),
    LAYER("reduce_l2", "roots of the sums of squares along axes", "norm", measure_arguments, build_reduce_l2),
    LAYER("reduce_sum_square", "sums of squares along axes", NULL, measure_arguments,
          build_reduce_sum_square),
    LAYER("reduce_log_sum", "logarithms of sums along axes", NULL, measure_arguments, build_reduce_log_sum),
    LAYER("reduce_log_sum_exp", "logarithms of sums of exponentials along axes", "logsumexp",
          measure_arguments, build_reduce_log_sum_exp),
    {.name = "stack",
     .help = "joins values of equal shape along a new axis",
     .least_inputs = 1,
     .most_inputs = KN_MAX_INPUTS,
     ARGUMENTS(stack_arguments),
     .build = build_stack},
    {.name = "cosine_similarity",
     .help = "cosine similarity of rows (...,D) of two values",
     .least_inputs = 2,
     .most_inputs = 2,
     .build = build_cosine_similarity},
    {.name = "cosine_embedding",
     .help = "loss: rows of the first two values are similar where the third is 1, dissimilar where -1",
     .least_inputs = 3,
     .most_inputs = 3,
     ARGUMENTS(least_arguments),
     .build = build_cosine_embedding},
    {.name = "triplet_margin",
     .help = "loss: rows of the first value are nearer to the second than to the third",
     .least_inputs = 3,
     .most_inputs = 3,
     ARGUMENTS(apart_arguments),
     .build = build_triplet_margin},
    {.name = "margin_ranking",
     .help = "loss: the first value is above the second where the third is 1, below where -1",
     .least_inputs = 3,
     .most_inputs = 3,
     ARGUMENTS(least_arguments),
     .build = build_margin_ranking},
};
const kn_layer_family kn_shape_layers = {rows, (int)KN_COUNT_OF(rows)};
