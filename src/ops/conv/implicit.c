/* Convolutions on many-thread devices, or on a matrix unit: steps for cl/conv/implicit.cl,
 * implicit_data.cl and implicit_weight.cl. */
#include "ops/conv/conv.h"
#include "ops/lowering.h"

/* Whether an operand varies along a row of the result: four results of a work-item would access it with
 * gaps. */
static bool epilogue_varies(const kn_epilogue *epilogue) {
    for (int i = 0; epilogue && i < epilogue->operand_count; i++)
        if (epilogue->operands[i].strides[2]) return true;
    return false;
}

/* The most taps whose bits fit into a word. */
enum { TAP_BITS = 32 };

static bool has_small_sides(const kn_lowering *lowering) {
    if (lowering->target->wide_indices) return false;
    for (int i = 0; i < 2; i++) {
        const kn_value *side = lowering->node->inputs[i];
        if ((uint64_t)kn_elements_of(side) * kn_dtype_bytes(side->shape.dtype) > UINT32_MAX) return false;
    }
    return true;
}

/* Slices of nine contain the nine taps of an output: its filters for all channels are contiguous in
 * memory. */
enum { NINE_TAPS = 9 };

/* Whether the data gradient has such slices. They do not change results, since the order of summation is the
 * same. */
static bool takes_nine(const kn_node *node, const kn_product *product) {
    kn_conv_form form;
    kn_conv_describe(node, &form);
    return node->op == &kn_row_conv2d_data && !product->unit && product->slice == NINE_TAPS - 1 &&
           product->items == (size_t)product->tile_m && form.filter_height * form.filter_width == NINE_TAPS &&
           form.stride[0] == 1 && form.stride[1] == 1 && form.channels / form.groups % product->tile_m == 0 &&
           (product->parts == 1 || product->part_depth % NINE_TAPS == 0);
}

/* Adjacent pixels of a plane, channels of a pixel's weight and taps of a filter are contiguous in memory;
 * this chooses what the sides of the product load together. */
static void define(kn_step *step, const kn_lowering *lowering, const kn_product *product) {
    kn_conv_form form;
    kn_conv_describe(lowering->node, &form);
    const bool forward = lowering->node->op == &kn_row_conv2d,
               data = lowering->node->op == &kn_row_conv2d_data;
    const int64_t channels = form.channels / form.groups, taps = form.filter_height * form.filter_width;
    const int64_t pixels = form.out_height * form.out_width;
    const bool strided = form.stride[0] > 1 || form.stride[1] > 1;
    const int64_t left = forward ? channels * taps : !data ? pixels : taps == 1 ? channels : 1;
    const int64_t result = forward   ? pixels
                           : !data   ? channels * taps
                           : strided ? 1
                                     : form.height * form.width;
    kn_product_define(step, product);
    KN_STEP_DEFINE(step, {"KN_LEFT_VECTOR", kn_product_vector(product, left)},
                   {"KN_RIGHT_VECTOR", kn_conv_is_pointwise(&form) ? kn_product_vector(product, pixels) : 1});
    const bool singly = !product->unit && product->parts == 1 && epilogue_varies(lowering->epilogue);
    KN_STEP_DEFINE(step, {"KN_RESULT_VECTOR", singly || result % 4 ? 1 : 4});
    if (!product->unit && has_small_sides(lowering)) KN_STEP_DEFINE(step, {"KN_SMALL_SIDES", 1});
    if (!product->unit && (forward || data) && taps <= TAP_BITS) KN_STEP_DEFINE(step, {"KN_TAP_BITS", 1});
    if (data) {
        /* The taps of a filter are along the sum. */
        KN_STEP_DEFINE(step, {"KN_LEFT_ACROSS", taps == 1}, {"KN_STRIDED", strided});
        if (product->slice == NINE_TAPS) KN_STEP_DEFINE(step, {"KN_LEFT_NINE", 1});
    }
}

/* The most taps that a phase of a stride has, along one axis. */
static int64_t phase_taps(int64_t filter, int64_t stride, int64_t dilation) {
    int64_t step = 1;
    while (step * dilation % stride != 0)
        step++;
    return kn_divide_up(filter, step);
}

/* The phases of a stride; the data gradient has a product for each. */
static int64_t phases_of(const kn_node *node, const kn_conv_form *form) {
    return node->op == &kn_row_conv2d_data ? form->stride[0] * form->stride[1] : 1;
}

kn_product kn_conv_product(const kn_target *target, const kn_node *node, const kn_conv_form *form,
                           const char *file, kn_product_way way) {
    const bool forward = node->op == &kn_row_conv2d, data = node->op == &kn_row_conv2d_data;
    const int64_t channels = form->channels / form->groups, outputs = form->outputs / form->groups;
    const int64_t taps = form->filter_height * form->filter_width;
    const int64_t pixels = form->images * kn_divide_up(form->height, form->stride[0]) *
                           kn_divide_up(form->width, form->stride[1]);
    const int64_t out_pixels = form->images * form->out_height * form->out_width;
    kn_product product = {.file = file,
                          .way = way,
                          .unit = kn_product_unit(target, node, file, way),
                          .batches = form->groups * phases_of(node, form)};
    product.rows = data ? channels : outputs;
    product.columns = forward ? out_pixels : data ? pixels : channels * taps;
    product.depth = forward ? channels * taps : out_pixels;
    if (data)
        product.depth = outputs * phase_taps(form->filter_height, form->stride[0], form->dilation[0]) *
                        phase_taps(form->filter_width, form->stride[1], form->dilation[1]);
    return product;
}

void kn_conv_report_phases(kn_product *product, const kn_node *node, const kn_conv_form *form) {
    if (node->op != &kn_row_conv2d_data) return;
    product->depth = kn_divide_up(form->outputs / form->groups * form->filter_height * form->filter_width,
                                  phases_of(node, form));
    product->part_depth = kn_divide_up(product->depth, product->parts);
}

static const char *file_of(const kn_node *node) {
    return node->op == &kn_row_conv2d        ? "conv/implicit.cl"
           : node->op == &kn_row_conv2d_data ? "conv/implicit_data.cl"
                                             : "conv/implicit_weight.cl";
}

/* For pixels outside the image its kernels load the first pixels instead. */
static bool unit_accepts(const kn_target *target, const kn_node *node, kn_product_way way) {
    return kn_takes_kernel_types(target, node) && kn_elements_of(node->inputs[0]) > 0 &&
           kn_elements_of(node->inputs[1]) > 0 &&
           kn_product_unit(target, node, file_of(node), way) != KN_MATRIX_UNIT_NONE;
}

bool kn_conv_matrix_accepts(const kn_target *target, const kn_node *node) {
    return unit_accepts(target, node, KN_PRODUCT_MATRIX);
}

bool kn_conv_matrix_split_accepts(const kn_target *target, const kn_node *node) {
    return unit_accepts(target, node, KN_PRODUCT_SPLIT);
}

bool kn_conv_direct_accepts(const kn_target *target, const kn_node *node) {
    return target->local_is_global && !target->wide_vector && kn_takes_kernel_types(target, node);
}

kn_status kn_conv_implicit_lower(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    const kn_product_way way = (kn_product_way)lowering->config;
    const kn_shape *result = &node->outputs[0]->shape;
    bool forward = node->op == &kn_row_conv2d, data = node->op == &kn_row_conv2d_data;
    int64_t elements = kn_elements_of(lowering->result);
    if (elements == 0) return KN_OK;
    kn_conv_form form;
    kn_conv_describe(node, &form);
    kn_product product = kn_conv_product(lowering->target, node, &form, file_of(node), way);
    kn_product_plan(lowering, &product, elements);
    if (takes_nine(node, &product)) product.slice = NINE_TAPS;
    kn_step *step = kn_step_begin(lowering, product.file,
                                  forward ? "kn_conv"
                                  : data  ? "kn_conv_data"
                                          : "kn_conv_weight");
    define(step, lowering, &product);
    kn_step_bind_values(step, lowering);
    kn_product_bind(step, &product);
    kn_conv_bind(step, &form);
    if (forward) {
        KN_STEP_SET(step, {"taps_multiplier", kn_divide_multiplier(form.filter_height * form.filter_width)},
                    {"width_multiplier", kn_divide_multiplier(form.filter_width)});
    } else if (!data) {
        KN_STEP_SET(step, {"pixels_multiplier", kn_divide_multiplier(form.out_height * form.out_width)},
                    {"width_multiplier", kn_divide_multiplier(form.out_width)});
    }
    kn_step_epilogue(step, lowering);
    kn_conv_report_phases(&product, node, &form);
    kn_step_cost_of_node(step, lowering);
    kn_product_size(step, &product);
    kn_status status = kn_step_end(step, lowering);
    if (status != KN_OK) return status;
    return kn_product_finish(lowering, &product, define, elements, result->dims[1],
                             result->dims[2] * result->dims[3]);
}
