/* Convolutions of 8-bit images by 8-bit filters on wide-vector devices: steps for cl/conv/bytes.cl. For
 * other devices, the planner substitutes nodes that convolve floats or multiply matrices of integers. */
#include "ops/build.h"
#include "ops/conv/conv.h"
#include "ops/conv/window.h"
#include "ops/lowering.h"
#include "ops/ops.h"
#include "ops/shape/shape.h"
#include "ops/shape_rule.h"

/* As in the kernel: filters of a tile, KN_SUMS, KN_TAPS, vectors of a tile. */
enum { BLOCK = 6, SUMS = 512, TAPS = 1024, VECTORS = 2 };
/* Measured to be faster than a convolution of floats only with vectors of this width, and with at least this
 * many channels and filters in a group: 1.7 times with filters of 3x3, but 0.5 to 0.9 times in depthwise and
 * first layers. */
enum { WIDTH = 8, FEWEST = 4 };

/* ---- the row ------------------------------------------------------------------------------------------- */

/* x is (N,C,H,W), weight (K,C/groups,R,S), x_zero (), weight_zero () or (K); the result is float32 (N,K,P,Q).
 */
static kn_status shape(kn_shape_call *call) {
    for (int i = 0; i < call->input_count; i++) {
        const kn_value *value = call->inputs[i];
        if (value ? !kn_is_byte(value->shape.dtype) : i < 2)
            return kn_shape_fail(call, KN_ERROR_DTYPE, "input %d is %s; expected int8 or uint8", i,
                                 value ? kn_shape_words_of(call, i) : "missing");
        const int64_t count = value ? kn_shape_elements(&value->shape) : 1;
        if (i < 2 || count == 1) continue;
        if (i == 2 || value->shape.rank != 1 || value->shape.dims[0] != call->inputs[1]->shape.dims[0])
            return kn_shape_fail(call, KN_ERROR_SHAPE, "zero point %d is %s; expected a scalar%s", i - 2,
                                 kn_shape_words_of(call, i), i == 2 ? "" : " or one per filter");
    }
    for (int i = 2; i < call->input_count; i++)
        if (call->inputs[i] && call->inputs[i]->shape.dtype != call->inputs[i - 2]->shape.dtype)
            return kn_shape_fail(call, KN_ERROR_DTYPE, "zero point %d is %s; expected %s", i - 2,
                                 kn_shape_words_of(call, i), kn_dtype_name(call->inputs[i - 2]->shape.dtype));
    return kn_conv_shape(call, KN_FLOAT32);
}

static kn_value *zero_of(const kn_node *node, int input) {
    return node->input_count > input ? node->inputs[input] : NULL;
}

/* x - zero as float32. A zero point per filter is (K). */
static kn_value *without_zero(kn_value *x, kn_value *zero) {
    x = kn_cast(x, KN_FLOAT32);
    if (!zero) return x;
    zero = kn_cast(zero, KN_FLOAT32);
    const bool single = kn_shape_elements(&zero->shape) == 1;
    return kn_sub(x, kn_reshape_to(zero, single ? 0 : 4, (kn_dim[]){zero->shape.dims[0], 1, 1, 1}));
}

static kn_status substitute(kn_graph *graph, const kn_node *node, kn_value **results) {
    kn_conv_form form;
    kn_conv_describe(node, &form);
    kn_conv_params params = {.size = sizeof params,
                             .stride = {form.stride[0], form.stride[1]},
                             .dilation = {form.dilation[0], form.dilation[1]},
                             .groups = form.groups,
                             .all_padding = true};
    for (int i = 0; i < 4; i++)
        params.padding[i] = form.padding[i];
    kn_value *x = node->inputs[0], *filter = node->inputs[1];
    if (kn_attribute_of(node, "whole")->integer)
        results[0] =
            kn_cast(kn_conv2d_integer(x, filter, zero_of(node, 2), zero_of(node, 3), &params), KN_FLOAT32);
    else
        results[0] = kn_conv2d(without_zero(x, zero_of(node, 2)), without_zero(filter, zero_of(node, 3)),
                               NULL, &params);
    return kn_graph_status(graph);
}

/* ---- lowering ------------------------------------------------------------------------------------------ */

/* Sizes as named in the kernel. */
typedef struct bytes {
    kn_conv_form form;
    int64_t channels, outputs, blocks; /* of a group */
    int64_t pairs, step[2], phases[2], rows, pitch, plane;
    int64_t item_rows, item_columns, item_blocks, item_lines;
} bytes;

/* Filters of one pixel read only the pixels at the stride, which become one row. */
static void flatten(bytes *made) {
    kn_conv_form *form = &made->form;
    if (form->filter_height * form->filter_width > 1 || form->stride[0] * form->stride[1] > 1) return;
    for (int i = 0; i < 4; i++)
        if (form->padding[i]) return;
    form->width *= form->height;
    form->out_width *= form->out_height;
    form->height = form->out_height = 1;
}

static bool describe(const kn_target *target, const kn_node *node, bytes *made) {
    kn_conv_form *form = &made->form;
    kn_conv_describe(node, form);
    if (form->channels == 0 || form->outputs == 0 || kn_elements_of(node->outputs[0]) == 0) return false;
    flatten(made);
    made->channels = form->channels / form->groups;
    made->outputs = form->outputs / form->groups;
    made->blocks = kn_divide_up(made->outputs, BLOCK);
    made->pairs = kn_divide_up(made->channels, 2);
    const int64_t reach[2] = {(form->filter_height - 1) * form->dilation[0],
                              (form->filter_width - 1) * form->dilation[1]};
    for (int axis = 0; axis < 2; axis++) {
        made->step[axis] = form->stride[axis];
        made->phases[axis] = reach[axis] + 1 < form->stride[axis] ? reach[axis] + 1 : form->stride[axis];
    }
    made->rows = form->out_height + reach[0] / made->step[0];
    made->pitch = form->out_width + reach[1] / made->step[1];
    const int64_t tile = VECTORS * target->vector_width;
    /* Planes whose distance is not a power of two share fewer cache lines. */
    made->plane = kn_round_up(made->phases[0] * made->phases[1] * made->rows * made->pitch, tile);
    if (made->plane / tile % 2 == 0) made->plane += tile;
    if (form->filter_height * form->filter_width > TAPS ||
        made->plane * made->pairs * form->groups * form->images > INT32_MAX / 4)
        return false;
    made->item_columns = form->out_width < SUMS ? form->out_width : SUMS;
    made->item_rows =
        made->item_columns < form->out_width ? 1 : (SUMS - made->item_columns) / made->pitch + 1;
    if (made->item_rows > form->out_height) made->item_rows = form->out_height;
    /* Several items per unit, in blocks of filters if there are few pixels. */
    const int64_t items = 4 * target->compute_units;
    const int64_t bands = form->images * kn_divide_up(form->out_height, made->item_rows) *
                          kn_divide_up(form->out_width, made->item_columns);
    made->item_blocks = made->blocks;
    if (bands * form->groups < items)
        made->item_blocks = kn_divide_up(made->blocks, kn_divide_up(items, bands * form->groups));
    const int64_t lines = made->phases[0] * made->rows, planes = form->images * form->groups * made->pairs;
    made->item_lines = planes >= items ? lines : kn_divide_up(lines, kn_divide_up(items, planes));
    return true;
}

static bool accepts(const kn_target *target, const kn_node *node) {
    bytes made;
    return kn_has_vectors(target) && target->vector_width == WIDTH && describe(target, node, &made) &&
           made.channels >= FEWEST && made.outputs >= FEWEST;
}

static kn_step *begin(kn_lowering *lowering, const char *kernel) {
    const kn_node *node = lowering->node;
    kn_step *step = kn_step_begin(lowering, "conv/bytes.cl", kernel);
    kn_step_define_type(step, "KN_T", node->inputs[0]->shape.dtype);
    kn_step_define_type(step, "KN_FILTER_T", node->inputs[1]->shape.dtype);
    return step;
}

static void define_vectors(kn_step *step, const kn_lowering *lowering) {
    KN_STEP_DEFINE(step, {"KN_WIDTH", lowering->target->vector_width}, {"KN_VECTORS", VECTORS});
}

/* Whether the filters have a zero point each. */
static int64_t zero_step(const kn_node *node) {
    return zero_of(node, 3) && kn_elements_of(zero_of(node, 3)) > 1;
}

static kn_status lower_lines(kn_lowering *lowering, const bytes *made, int lines) {
    const kn_conv_form *form = &made->form;
    kn_step *step = begin(lowering, "kn_conv_bytes_lines");
    define_vectors(step, lowering);
    kn_step_scratch(step, "lines", lines);
    kn_step_bind_values(step, lowering);
    KN_STEP_SET(step, {"channels", made->channels}, {"height", form->height}, {"width", form->width},
                {"pairs", made->pairs}, {"plane", made->plane}, {"phases_y", made->phases[0]},
                {"phases_x", made->phases[1]}, {"rows", made->rows}, {"pitch", made->pitch},
                {"step_y", made->step[0]}, {"step_x", made->step[1]}, {"pad_top", form->padding[0]},
                {"pad_left", form->padding[1]}, {"item_lines", made->item_lines});
    kn_step_size_wide(step, form->groups * made->pairs,
                      kn_divide_up(made->phases[0] * made->rows, made->item_lines), form->images);
    return kn_step_end(step, lowering);
}

static kn_status lower_filter(kn_lowering *lowering, const bytes *made, int packed) {
    const kn_conv_form *form = &made->form;
    kn_step *step = begin(lowering, "kn_conv_bytes_filter");
    define_vectors(step, lowering);
    kn_step_scratch(step, "packed", packed);
    kn_step_bind_values(step, lowering);
    KN_STEP_SET(step, {"channels", made->channels}, {"outputs", made->outputs},
                {"taps", form->filter_height * form->filter_width}, {"pairs", made->pairs},
                {"zero_step", zero_step(lowering->node)});
    kn_step_size_wide(step, made->blocks, form->groups, 1);
    return kn_step_end(step, lowering);
}

static kn_status lower(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    if (kn_elements_of(lowering->result) == 0) return KN_OK;
    bytes made;
    if (!describe(lowering->target, node, &made))
        return kn_fail(lowering->error, KN_ERROR_UNSUPPORTED, "conv2d_bytes '%s': this size is not supported",
                       node->name);
    const kn_conv_form *form = &made.form;
    const int64_t ints = form->images * form->groups * made.pairs * made.plane,
                  weights = form->groups * made.blocks * BLOCK * form->filter_height * form->filter_width *
                            made.pairs;
    const int packed = kn_emit_scratch(lowering, (uint64_t)weights * sizeof(int32_t));
    const int lines = kn_emit_scratch(lowering, (uint64_t)(ints + VECTORS * lowering->target->vector_width) *
                                                    sizeof(int32_t));
    kn_status status = lower_filter(lowering, &made, packed);
    if (status == KN_OK) status = lower_lines(lowering, &made, lines);
    if (status != KN_OK) return status;
    kn_step *step = begin(lowering, "kn_conv_bytes");
    define_vectors(step, lowering);
    kn_step_read_scratch(step, "lines", lines);
    kn_step_read_scratch(step, "filter", packed);
    kn_step_write(step, "y", lowering->result);
    KN_STEP_SET(step, {"outputs", made.outputs}, {"out_height", form->out_height},
                {"out_width", form->out_width}, {"filter_height", form->filter_height},
                {"filter_width", form->filter_width}, {"pairs", made.pairs}, {"plane", made.plane},
                {"phases_x", made.phases[1]}, {"rows", made.rows}, {"pitch", made.pitch},
                {"step_y", made.step[0]}, {"step_x", made.step[1]}, {"dilation_y", form->dilation[0]},
                {"dilation_x", form->dilation[1]}, {"item_rows", made.item_rows},
                {"item_columns", made.item_columns}, {"item_blocks", made.item_blocks});
    kn_step_cost_of_node(step, lowering);
    kn_step_epilogue(step, lowering);
    kn_step_size_wide(step,
                      kn_divide_up(form->out_height, made.item_rows) *
                          kn_divide_up(form->out_width, made.item_columns),
                      form->groups * kn_divide_up(made.blocks, made.item_blocks), form->images);
    return kn_step_end(step, lowering);
}

static kn_status lower_plain(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    const int64_t elements = kn_elements_of(lowering->result);
    if (elements == 0) return KN_OK;
    kn_conv_form form;
    kn_conv_describe(node, &form);
    kn_step *step = begin(lowering, "kn_conv_bytes_plain");
    kn_step_bind_values(step, lowering);
    KN_STEP_SET(step, {"elements", elements}, {"zero_step", zero_step(node)});
    kn_conv_bind(step, &form);
    kn_step_size_free(step, elements, lowering->target);
    return kn_step_end(step, lowering);
}

#define BYTES "0..255"
#define SIGNED "-128..127"
#define ALL_BYTES                                                                                            \
    { BYTES, SIGNED, BYTES, SIGNED }

KN_OPERATOR(
    conv2d_bytes,
    .help = "convolution of 8-bit images x (N,C,H,W) with 8-bit filters (K,C/groups,R,S), minus their zero "
            "points, added in int32 and converted to float32",
    KN_ATTRIBUTES(KN_INTS("stride", "1", "stride of the window: one number, or height,width"),
                  KN_INTS("padding", "0",
                          "zero padding: one number for all sides, height,width, or top,left,bottom,right"),
                  KN_INTS("dilation", "1", "distance between the filter's taps"),
                  KN_INT("groups", 1, "groups of channels that are convolved independently"),
                  KN_BOOLEAN("same", 0,
                             "pads so that the output size is the input size / stride, rounded up"),
                  KN_BOOLEAN("same_lower", 0, "the same, with an odd line of padding above or on the left"),
                  KN_BOOLEAN("whole", 0, "adds integers on all devices, also where floats are faster")),
    .min_inputs = 2, .max_inputs = 4, .input_names = {"x", "filter", "x_zero", "filter_zero"},
    .output_names = {"y"}, .shape = shape, .reference = kn_conv_reference, .cost = kn_conv_cost,
    .substitute = substitute,
    KN_VARIANTS({.name = "pairs",
                 .choice.accepts = accepts,
                 .choice.doubtful = true,
                 .lower = lower,
                 .promise.takes_epilogue = true,
                 .promise.stores_bytes = true},
                {.name = "plain", .lower = lower_plain}),
    KN_CASES({.inputs = {"uint8 2,4,5,4", "int8 5,4,3,3", "uint8", "int8"},
              .ranges = ALL_BYTES,
              .attributes = "padding=1",
              .smallest = true},
             {.inputs = {"uint8 1,5,19,23", "int8 7,5,7,7", "uint8", "int8 7"},
              .ranges = ALL_BYTES,
              .attributes = "stride=2 padding=3"},
             {.inputs = {"int8 1,8,9,7", "uint8 12,4,3,2", "int8"},
              .ranges = {SIGNED, BYTES, SIGNED},
              .attributes = "stride=2,3 padding=2,0,1,1 dilation=1,2 groups=2"},
             {.inputs = {"uint8 2,9,12,31", "int8 9,1,3,3", "uint8"},
              .ranges = ALL_BYTES,
              .attributes = "padding=1 groups=9"},
             {.inputs = {"uint8 1,12,11,11", "uint8 8,6,5,4", "-", "uint8 8"},
              .ranges = {BYTES, BYTES, NULL, BYTES},
              .attributes = "stride=3,2 same=1 groups=2"},
             {.inputs = {"uint8 2,5,25,29", "int8 13,5,1,1", "uint8"}, .ranges = ALL_BYTES},
             {.inputs = {"uint8 1,4,7,9", "int8 6,4,1,1", "uint8", "int8 6"},
              .ranges = ALL_BYTES,
              .attributes = "stride=2,3"},
             {.inputs = {"uint8 1,4,2,1300", "int8 4,4,1,64"},
              .ranges = ALL_BYTES,
              .attributes = "stride=1,2 padding=0,31"},
             {.inputs = {"int8 1,70,6,5", "int8 8,70,3,3", "int8", "int8"},
              .ranges = {"-128..-128", "127..127", "127..127", "-128..-128"},
              .attributes = "padding=1"},
             {.inputs = {"uint8 0,4,5,4", "int8 4,4,3,3"}, .ranges = ALL_BYTES}));
