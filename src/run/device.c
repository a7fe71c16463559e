/* Describes devices to plans and operators. */
#include "run/run_private.h"

static int item_registers(void *context) {
    return kn_context_item_registers(context);
}

static kn_matrix_unit matrix_unit(void *context, kn_dtype type) {
    return kn_context_matrix_unit_for(context, type);
}

void kn_target_of(kn_context *context, kn_target *target) {
    const kn_capabilities *device = kn_context_capabilities(context);
    *target = (kn_target){
        .wide_vector = device->wide_vector,
        .vector_width = device->vector_width,
        .vector_registers = device->vector_registers,
        .compute_units = device->compute_units,
        .work_group_items = device->work_group_items,
        .group_limit = kn_groups_limit,
        .refused_tiles = kn_groups_refused_tiles,
        .item_registers = item_registers,
        .matrix_unit = matrix_unit,
        .emulates_matrix_unit = kn_context_emulates_matrix_unit(context),
        .device = context,
        .local_bytes = device->local_bytes,
        .local_is_global = device->local_is_global,
        .integer_dot = device->integer_dot,
        .byte_products = kn_context_byte_products(context),
        .wide_indices = kn_context_wide_indices(context),
        .alignment_bytes = device->alignment_bytes,
        .largest_block_bytes = device->largest_block_bytes,
        .product_scratch =
            kn_product_library() && !kn_context_is_described(context) ? kn_product_scratch : NULL,
        .library = context,
    };
}

/* The device that has a state; -1: none yet. */
static int device_of_state(const void *user, const kn_value *state) {
    const kn_states *states = user;
    kn_context *context = (kn_context *)kn_states_context(states);
    const kn_state *known = kn_states_find(states, state->name);
    for (size_t i = 0; known && known->context && i < kn_context_device_count(context); i++)
        if (kn_context_device_at(context, i) == known->context) return i;
    return -1;
}

void kn_devices_of(kn_context *context, const kn_states *states, kn_plan_devices *devices) {
    *devices = (kn_plan_devices){.host = kn_context_host(context),
                                 .count = kn_context_device_count(context),
                                 .home = device_of_state,
                                 .user = states};
    for (int i = 0; i < devices->count; i++)
        devices->names[i] = kn_context_device_name_at(context, i);
}

static kn_status fail_float64(const kn_context *context, const kn_node *node, const kn_value *value,
                              kn_error *error) {
    return kn_fail(error, KN_ERROR_UNSUPPORTED,
                   "%s '%s': '%s' is float64, and %s does not compute with 64-bit floats%s; use float32",
                   node->op->name, node->name, value->name, kn_context_device(context)->name,
                   kn_context_capabilities(context)->double_claimed ? " correctly" : "");
}

kn_status kn_check_types(const kn_context *context, const kn_graph *graph, kn_error *error) {
    if (kn_context_capabilities(context)->double_precision) return KN_OK;
    for (size_t i = 0; i < graph->node_count; i++) {
        const kn_node *node = graph->nodes[i];
        if (node->op->class == KN_CLASS_VIEW) continue;
        for (int k = 0; k < node->input_count; k++)
            if (node->inputs[k] && node->inputs[k]->shape.dtype == KN_FLOAT64)
                return fail_float64(context, node, node->inputs[k], error);
        for (int k = 0; k < node->output_count; k++)
            if (node->outputs[k]->shape.dtype == KN_FLOAT64)
                return fail_float64(context, node, node->outputs[k], error);
    }
    return KN_OK;
}
