/* Convolutions of blocked 16-bit images on a matrix unit, on many-thread devices: steps for
 * cl/conv/blocked.cl and cl/conv/blocked_weight.cl. */
#include "ops/conv/conv.h"
#include "ops/lowering.h"
#include "ops/ops.h"

enum {
    PACKED_PLACES = 16,    /* positions of weights that a work-group packs for a gradient, of 64 bytes each */
    PACKED_NUMBERS = 1024, /* elements that it packs, if a filter has at most an eighth as many */
    LARGEST_FILTER = 512   /* filters whose eight sources are in local memory */
};

static const char *file_of(const kn_node *node) {
    return node->op == &kn_row_conv2d_weight ? "conv/blocked_weight.cl" : "conv/blocked.cl";
}

bool kn_conv_blocked_accepts(const kn_target *target, const kn_node *node) {
    kn_conv_form form;
    kn_conv_describe(node, &form);
    return form.groups == 1 && form.channels % KN_BLOCK_OF_THREADS == 0 &&
           form.outputs % KN_BLOCK_OF_THREADS == 0 &&
           form.filter_height * form.filter_width <= LARGEST_FILTER &&
           kn_is_half(node->inputs[0]->shape.dtype) && kn_takes_kernel_types(target, node) &&
           kn_elements_of(node->inputs[0]) > 0 && kn_elements_of(node->inputs[1]) > 0 &&
           (node->op != &kn_row_conv2d_weight || kn_is_half(node->inputs[1]->shape.dtype)) &&
           kn_product_unit(target, node, file_of(node), KN_PRODUCT_MATRIX) != KN_MATRIX_UNIT_NONE;
}

/* 1x1 filters whose source has no padding: no pixel is outside the image. */
static bool stays_inside(const kn_conv_form *form) {
    return form->filter_height == 1 && form->filter_width == 1 && form->padding[0] == 0 &&
           form->padding[1] == 0 && form->padding[2] == 0 && form->padding[3] == 0;
}

/* depth: the length of every sum is a multiple of it. */
static void define_common(kn_step *step, const kn_product *product, const kn_conv_form *form, int64_t depth) {
    kn_product_define(step, product);
    KN_STEP_DEFINE(step, {"KN_POINTWISE", stays_inside(form)}, {"KN_TAIL", depth % product->slice != 0});
}

/* ---- forward, and the gradient of the data ---------------------------------------------------------- */

static void define_image(kn_step *step, const kn_lowering *lowering, const kn_product *product) {
    kn_conv_form form;
    kn_conv_describe(lowering->node, &form);
    const bool data = lowering->node->op == &kn_row_conv2d_data;
    /* The phases of a stride have different numbers of taps. */
    define_common(step, product, &form, data ? form.outputs : product->depth);
    KN_STEP_DEFINE(step, {"KN_DATA", data}, {"KN_STRIDED", form.stride[0] > 1 || form.stride[1] > 1},
                   {"KN_HALF_packed", kn_half_kind(lowering->node->inputs[0]->shape.dtype)});
}

/* Adds the parts of the result, a block of eight at a time. */
static kn_status add_parts(kn_lowering *lowering, const kn_product *product) {
    const kn_shape *shape = &lowering->result->shape;
    const int64_t elements = kn_elements_of(lowering->result);
    if (product->parts <= 1) return KN_OK;
    kn_step *step = kn_step_begin(lowering, product->file, "kn_sum_blocked");
    kn_step_types(step, lowering->node, KN_FLOAT32);
    kn_step_scratch(step, "partials", product->partials);
    kn_step_write(step, "result", lowering->result);
    KN_STEP_SET(step, {"vectors", elements / KN_BLOCK_OF_THREADS}, {"parts", product->parts},
                {"blocks", shape->dims[1] / KN_BLOCK_OF_THREADS},
                {"pixels", shape->dims[2] * shape->dims[3]});
    kn_step_epilogue(step, lowering);
    kn_product_cost_of_sum(step, lowering, product, elements);
    kn_step_size_free(step, elements / KN_BLOCK_OF_THREADS, lowering->target);
    return kn_step_end(step, lowering);
}

void kn_step_packs(kn_step *step, const kn_filter_pack *packs, int count) {
    static const kn_filter_pack absent = {.group_sources = 1, .group_places = 1};
    int64_t groups = 0, numbers = 0;
    for (int i = 0; i < KN_MAX_PACKS; i++) {
        const kn_filter_pack *pack = i < count ? &packs[i] : &absent;
        const int64_t own =
            kn_divide_up(pack->places, pack->group_places) * kn_divide_up(pack->sources, pack->group_sources);
        kn_step_read(step, "weight#", pack->weight);
        if (i < count)
            kn_step_scratch(step, "packed#", pack->packed);
        else
            kn_step_read(step, "packed#", NULL);
        KN_STEP_SET(step, {"sources#", pack->sources}, {"places#", pack->places},
                    {"source_stride#", pack->source_stride}, {"group_stride#", pack->group_stride},
                    {"groups#", own});
        groups += own;
        numbers += pack->sources * pack->places;
    }
    kn_step_cost(step, 0, (double)numbers * 6);
    if (!step) return;
    kn_step_size1(step, (size_t)groups * step->local[0], step->local[0]);
    kn_filter_pack *kept = kn_arena_copy(step->arena, packs, (size_t)count, sizeof *packs);
    step->packs = kept;
    step->pack_count = kept ? count : 0;
}

/* *packed: scratch memory with the weight (targets,taps,sources) in the type of the images. */
static kn_status pack(kn_lowering *lowering, const kn_conv_form *form, int *packed) {
    const kn_node *node = lowering->node;
    const bool data = node->op == &kn_row_conv2d_data;
    const int64_t numbers = kn_elements_of(node->inputs[1]), taps = form->filter_height * form->filter_width;
    /* A 1x1 filter already has this order, except for the gradient. */
    const int64_t sources = data ? form->outputs : taps == 1 ? numbers : form->channels;
    kn_filter_pack pack = {.weight = node->inputs[1],
                           .sources = sources,
                           .places = numbers / sources,
                           .group_places = data ? PACKED_PLACES : taps,
                           .source_stride = data ? numbers / sources : taps,
                           .group_stride = data ? PACKED_PLACES : form->channels * taps};
    pack.group_sources = PACKED_NUMBERS / pack.group_places / KN_BLOCK_OF_THREADS * KN_BLOCK_OF_THREADS;
    if (pack.group_sources < KN_BLOCK_OF_THREADS) pack.group_sources = KN_BLOCK_OF_THREADS;
    const size_t items =
        kn_group_items_for(lowering->target, "conv/blocked.cl", PACKED_NUMBERS / KN_BLOCK_OF_THREADS, 256);
    *packed = pack.packed = kn_emit_scratch(lowering, 2 * (uint64_t)numbers);
    kn_step *step = kn_step_begin(lowering, "conv/blocked.cl", "kn_pack_blocked");
    kn_step_types(step, node, KN_FLOAT32);
    KN_STEP_DEFINE(step, {"KN_HALF_weight", kn_half_kind(node->inputs[1]->shape.dtype)},
                   {"KN_HALF_packed", kn_half_kind(node->inputs[0]->shape.dtype)}, {"KN_PACK_ITEMS", items},
                   {"KN_SOURCES", pack.group_sources}, {"KN_PLACES", pack.group_places});
    kn_step_size1(step, items, items);
    kn_step_packs(step, &pack, 1);
    return kn_step_end(step, lowering);
}

static kn_status lower_image(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    const bool data = node->op == &kn_row_conv2d_data;
    kn_conv_form form;
    kn_conv_describe(node, &form);
    const int64_t elements = kn_elements_of(lowering->result);
    if (elements == 0) return KN_OK;
    kn_product product = kn_conv_product(lowering->target, node, &form, file_of(node), KN_PRODUCT_MATRIX);
    kn_product_plan(lowering, &product, elements);
    int packed = 0;
    kn_status status = pack(lowering, &form, &packed);
    if (status != KN_OK) return status;
    kn_step *step = kn_step_begin(lowering, product.file, "kn_conv_blocked");
    define_image(step, lowering, &product);
    kn_step_read(step, "source", node->inputs[0]);
    kn_step_read_scratch(step, "packed", packed);
    kn_step_write(step, "result", lowering->result);
    kn_product_bind(step, &product);
    KN_STEP_SET(step, {"sources", data ? form.outputs : form.channels},
                {"source_height", data ? form.out_height : form.height},
                {"source_width", data ? form.out_width : form.width},
                {"targets", data ? form.channels : form.outputs},
                {"target_height", data ? form.height : form.out_height},
                {"target_width", data ? form.width : form.out_width});
    kn_conv_bind(step, &form);
    kn_step_epilogue(step, lowering);
    kn_step_cost_of_node(step, lowering);
    kn_conv_report_phases(&product, node, &form);
    kn_product_size(step, &product);
    status = kn_step_end(step, lowering);
    return status == KN_OK ? add_parts(lowering, &product) : status;
}

/* ---- the gradient of the weight --------------------------------------------------------------------- */

static void define_weight(kn_step *step, const kn_lowering *lowering, const kn_product *product) {
    kn_conv_form form;
    kn_conv_describe(lowering->node, &form);
    define_common(step, product, &form, product->depth);
    KN_STEP_DEFINE(step, {"KN_VECTOR", kn_product_vector(product, KN_BLOCK_OF_THREADS)},
                   {"KN_RESULT_VECTOR", form.filter_height * form.filter_width == 1 ? 4 : 1});
}

static kn_status lower_weight(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    const kn_shape *result = &node->outputs[0]->shape;
    kn_conv_form form;
    kn_conv_describe(node, &form);
    const int64_t elements = kn_elements_of(lowering->result);
    if (elements == 0) return KN_OK;
    kn_product product = kn_conv_product(lowering->target, node, &form, file_of(node), KN_PRODUCT_MATRIX);
    kn_product_plan(lowering, &product, elements);
    kn_step *step = kn_step_begin(lowering, product.file, "kn_conv_blocked_weight");
    define_weight(step, lowering, &product);
    kn_step_bind_values(step, lowering);
    kn_product_bind(step, &product);
    KN_STEP_SET(step, {"depth", product.depth},
                {"step_images", product.slice / (form.out_height * form.out_width)},
                {"step_y", product.slice / form.out_width % form.out_height},
                {"step_x", product.slice % form.out_width});
    kn_conv_bind(step, &form);
    kn_step_epilogue(step, lowering);
    kn_step_cost_of_node(step, lowering);
    kn_product_size(step, &product);
    kn_status status = kn_step_end(step, lowering);
    if (status != KN_OK) return status;
    return kn_product_finish(lowering, &product, define_weight, elements, result->dims[1],
                             result->dims[2] * result->dims[3]);
}

kn_status kn_conv_blocked_lower(kn_lowering *lowering) {
    return lowering->node->op == &kn_row_conv2d_weight ? lower_weight(lowering) : lower_image(lowering);
}
