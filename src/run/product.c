/* Matrix products by the device's matrix library. */
#include "run/run_private.h"

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

bool kn_product_scratch(void *context, const kn_library_product *product, uint64_t *bytes) {
    const kn_product_request request = request_of(product);
    return kn_product_workspace(context, &request, bytes, NULL) == KN_OK;
}

kn_status kn_executable_product(const kn_executable *executable, const kn_memory *memory,
                                const kn_ready_step *ready, kn_error *error) {
    const kn_step *step = ready->step;
    kn_product_request request = request_of(&step->product);
    request.a = kn_executable_buffer(executable, memory, step->arguments[0].value);
    request.b = kn_executable_buffer(executable, memory, step->arguments[1].value);
    request.result = kn_executable_buffer(executable, memory, step->arguments[2].value);
    if (step->argument_count > 3) request.workspace = executable->scratch_buffers[step->arguments[3].integer];
    request.flops = ready->cost.flops;
    request.bytes = ready->cost.bytes;
    return kn_product_run(executable->context, &request, step->label, error);
}
