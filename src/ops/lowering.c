/* What variants of all families support, and their launch sizes. */
#include "ops/lowering.h"

bool kn_on_wide_vector(const kn_target *target, const kn_node *node) {
    return target->wide_vector;
}

bool kn_has_vectors(const kn_target *target) {
    const int width = target->vector_width;
    return target->wide_vector && (width == 4 || width == 8 || width == 16);
}

bool kn_has_float_vectors(const kn_target *target, const kn_node *node) {
    return kn_has_vectors(target) && node->outputs[0]->shape.dtype == KN_FLOAT32;
}

bool kn_takes_kernel_types(const kn_target *target, const kn_node *node) {
    (void)target;
    return kn_has_kernels(node->outputs[0]->shape.dtype);
}

bool kn_takes_kernel_types_wide(const kn_target *target, const kn_node *node) {
    return target->wide_vector && kn_takes_kernel_types(target, node);
}

bool kn_takes_stored_types(const kn_target *target, const kn_node *node) {
    (void)target;
    kn_dtype dtype = node->outputs[0]->shape.dtype;
    return dtype != KN_FLOAT16 && dtype != KN_BFLOAT16;
}

bool kn_takes_stored_types_wide(const kn_target *target, const kn_node *node) {
    return target->wide_vector && kn_takes_stored_types(target, node);
}

kn_lanes kn_lanes_of(const kn_shape *shape, int axis) {
    kn_lanes lanes = {1, shape->dims[axis], 1};
    for (int i = 0; i < shape->rank; i++) {
        if (i < axis) lanes.outer *= shape->dims[i];
        if (i > axis) lanes.inner *= shape->dims[i];
    }
    return lanes;
}

int kn_axis_of(const kn_node *node, int rank) {
    int64_t axis = kn_attribute_of(node, "axis")->integer;
    return (int)(axis < 0 ? axis + rank : axis);
}

kn_dtype kn_accumulator(const kn_node *node, kn_dtype dtype) {
    if (!kn_dtype_is_float(dtype) || dtype == KN_FLOAT64) return dtype;
    return node->accumulate == KN_FLOAT64 ? KN_FLOAT64 : KN_FLOAT32;
}

bool kn_is_read(const kn_value *value) {
    for (size_t i = 0; i < value->graph->node_count; i++)
        for (int j = 0; j < value->graph->nodes[i]->input_count; j++)
            if (value->graph->nodes[i]->inputs[j] == value) return true;
    return false;
}

bool kn_is_read_by_one(const kn_value *value) {
    int readers = value->wanted;
    for (size_t i = 0; i < value->graph->node_count; i++)
        for (int j = 0; j < value->graph->nodes[i]->input_count; j++)
            readers += value->graph->nodes[i]->inputs[j] == value;
    return readers == 1;
}

enum { STREAMED_BYTES = 4 << 20 };

bool kn_is_streamed(const kn_value *value) {
    return kn_elements_of(value) * (int64_t)kn_dtype_bytes(value->shape.dtype) >= STREAMED_BYTES;
}

void kn_cost_set(const kn_node *node, double flops, kn_cost *cost) {
    cost->flops = flops;
    cost->bytes = 0;
    for (int i = 0; i < node->input_count + node->output_count; i++) {
        const kn_value *value =
            i < node->input_count ? node->inputs[i] : node->outputs[i - node->input_count];
        if (value) cost->bytes += (double)kn_elements_of(value) * (double)kn_dtype_bytes(value->shape.dtype);
    }
}

size_t kn_power_of_two(int64_t number, size_t limit) {
    size_t power = 1;
    while (power < limit && (int64_t)power < number)
        power *= 2;
    return power;
}

size_t kn_group_limit(const kn_target *target, const char *file) {
    size_t found = target->group_limit ? target->group_limit(target->device, file) : 0;
    return found && found < target->work_group_items ? found : target->work_group_items;
}

bool kn_tile_is_refused(const kn_target *target, const char *file, int tile) {
    return target->refused_tiles && target->refused_tiles(target->device, file) >> tile & 1;
}

size_t kn_group_items(const kn_target *target, const char *file) {
    size_t items = 1, limit = kn_group_limit(target, file);
    while (items < 256 && items * 2 <= limit)
        items *= 2;
    return items;
}

size_t kn_group_items_for(const kn_target *target, const char *file, int64_t number, size_t most) {
    size_t limit = kn_group_items(target, file);
    if (!target->wide_vector && number < 32) number = 32;
    return kn_power_of_two(number, most < limit ? most : limit);
}

void kn_step_size_free(kn_step *step, int64_t items, const kn_target *target) {
    kn_step_size1(step, (size_t)(target->wide_vector ? items : kn_round_up(items, 64)), 0);
}

void kn_step_size_wide(kn_step *step, int64_t a, int64_t b, int64_t c) {
    kn_step_size3(step, (size_t[3]){(size_t)a, (size_t)b, (size_t)c}, (size_t[3]){1, 1, 1});
}

void kn_step_lanes(kn_step *step, const kn_target *target, int64_t results, int64_t parts, size_t lanes,
                   size_t items) {
    KN_STEP_DEFINE(step, {"KN_LANES", lanes});
    if (lanes == 1) {
        size_t rounded = (size_t)(target->wide_vector ? results : kn_round_up(results, 64));
        kn_step_size2(step, rounded, (size_t)parts, 0, 0);
    } else {
        int64_t groups = kn_divide_up(results, (int64_t)(items / lanes));
        KN_STEP_DEFINE(step, {"KN_ITEMS", items});
        kn_step_size2(step, (size_t)groups * items, (size_t)parts, items, 1);
    }
}

void kn_step_epilogue_sizes(kn_step *step, const kn_shape *shape) {
    const kn_dim *dims = shape->dims;
    const int rank = shape->rank;
    KN_STEP_SET(step,
                {"middle_size", rank == 4  ? dims[1]
                                : rank > 1 ? dims[rank - 2]
                                           : 1},
                {"inner_size", rank == 4 ? dims[2] * dims[3] : dims[rank - 1]});
}

int64_t kn_wide_vectors(int64_t width, int64_t columns) {
    int64_t most = width == 8 ? 2 : 4, vectors = kn_divide_up(columns, width);
    return vectors < most ? vectors : most;
}

/* Whether the value, or a view of it, is an argument of a step. */
static bool touches(const kn_step *step, const kn_value *value) {
    for (int a = 0; a < step->argument_count; a++) {
        const kn_value *at = step->arguments[a].value;
        while (at && at != value && at->producer && at->producer->op->class == KN_CLASS_VIEW)
            at = at->producer->inputs[0];
        if (at == value) return true;
    }
    return false;
}

bool kn_take_sum(kn_lowering *lowering, const kn_value *value, int64_t vector, kn_part_sum *sum) {
    enum { SHORTLY = 16 };
    const kn_emitter *emitter = lowering->emitter;
    if (value->shape.dtype != KN_FLOAT32 || lowering->target->wide_vector) return false;
    for (int s = emitter->step_count - 1; s >= 0 && s >= emitter->step_count - SHORTLY; s--) {
        kn_step *step = emitter->steps[s];
        const kn_part_sum *found = step->sum_count == 1 ? step->sums : NULL;
        if (found && found->result == value && !step->given &&
            (found->offset | found->stride) % vector == 0 &&
            kn_accumulator(step->node, KN_FLOAT32) == kn_accumulator(lowering->node, KN_FLOAT32)) {
            *sum = *found;
            step->given = true;
            return true;
        }
        if (touches(step, value)) return false;
    }
    return false;
}

void kn_step_types(kn_step *step, const kn_node *node, kn_dtype type) {
    if (kn_is_half(type)) type = KN_FLOAT32;
    kn_step_define_type(step, "KN_T", type);
    kn_step_define_type(step, "KN_A", kn_accumulator(node, type));
}
