/* The device in words that operators understand, and products for its library in the device's words. */
#include "plan/run_private.h"

static kn_product_request request_of(const kn_library_product *product) {
    return (kn_product_request){.bytes_each = (int)kn_dtype_bytes(product->dtype),
                                .transpose_a = product->transpose_a,
                                .transpose_b = product->transpose_b,
                                .m = product->m,
                                .n = product->n,
                                .k = product->k,
                                .batches = product->batches,
                                .a_stride = product->a_stride,
                                .b_stride = product->b_stride};
}

static bool product_scratch(void *library, const kn_library_product *product, uint64_t *bytes) {
    const kn_product_request request = request_of(product);
    return kn_product_workspace(library, &request, bytes, NULL) == KN_OK;
}

kn_status kn_plan_product(const kn_plan *plan, const kn_memory *memory, const kn_ready_step *ready,
                          kn_error *error) {
    const kn_step *step = ready->step;
    kn_product_request request = request_of(&step->product);
    request.a = kn_plan_buffer(plan, memory, step->arguments[0].value);
    request.b = kn_plan_buffer(plan, memory, step->arguments[1].value);
    request.result = kn_plan_buffer(plan, memory, step->arguments[2].value);
    if (step->argument_count > 3) request.workspace = plan->scratch_buffers[step->arguments[3].integer];
    request.flops = ready->cost.flops;
    request.bytes = ready->cost.bytes;
    return kn_product_run(plan->context, &request, step->label, error);
}

void kn_target_of(kn_context *context, kn_target *target) {
    const kn_capabilities *device = kn_context_capabilities(context);
    *target = (kn_target){
        .wide_vector = device->wide_vector,
        .vector_width = device->vector_width,
        .vector_registers = device->vector_registers,
        .compute_units = device->compute_units,
        .work_group_items = device->work_group_items,
        .local_bytes = device->local_bytes,
        .integer_dot = device->integer_dot,
        .wide_indices = kn_context_wide_indices(context),
        .product_scratch = kn_product_library() ? product_scratch : NULL,
        .library = context,
    };
}

static kn_status refuse(const kn_context *context, const kn_node *node, const kn_value *value,
                        kn_error *error) {
    return kn_fail(error, KN_ERROR_UNSUPPORTED,
                   "%s '%s': '%s' is float64, and %s does not compute with 64-bit floats%s; use float32",
                   node->op->name, node->name, value->name, kn_context_device(context)->name,
                   kn_context_capabilities(context)->double_claimed ? " rightly" : "");
}

kn_status kn_check_types(const kn_context *context, const kn_graph *graph, kn_error *error) {
    if (kn_context_capabilities(context)->double_precision) return KN_OK;
    for (size_t i = 0; i < graph->node_count; i++) {
        const kn_node *node = graph->nodes[i];
        if (node->op->class == KN_CLASS_VIEW) continue;
        for (int k = 0; k < node->input_count; k++)
            if (node->inputs[k] && node->inputs[k]->shape.dtype == KN_FLOAT64)
                return refuse(context, node, node->inputs[k], error);
        for (int k = 0; k < node->output_count; k++)
            if (node->outputs[k]->shape.dtype == KN_FLOAT64)
                return refuse(context, node, node->outputs[k], error);
    }
    return KN_OK;
}
