/* Matrix products by CLBlast, if Koine was built with it. */
#include "device/device_private.h"

#ifdef KN_CLBLAST

#include <clblast_c.h>

const char *kn_product_library(void) {
    return "clblast";
}

static kn_status fail_product(const kn_context *context, CLBlastStatusCode code,
                              const kn_product_request *request, kn_error *error) {
    /* The library returns OpenCL's codes, and its own codes below -1000. */
    const char *advice = code > -1000 ? kn_cl_name((cl_int)code) : "see its list of status codes";
    kn_status status = code == CLBlastTempBufferAllocFailure || code == CLBlastInsufficientMemoryTemp
                           ? KN_ERROR_DEVICE_MEMORY
                           : KN_ERROR_DEVICE;
    return kn_fail(error, status,
                   "the CLBlast product (%lld,%lld) by (%lld,%lld) failed on %s with code %d (%s)",
                   (long long)request->m, (long long)request->k, (long long)request->k, (long long)request->n,
                   context->found.info.name, (int)code, advice);
}

static size_t row_of_a(const kn_product_request *request) {
    return (size_t)(request->transpose_a ? request->m : request->k);
}
static size_t row_of_b(const kn_product_request *request) {
    return (size_t)(request->transpose_b ? request->k : request->n);
}
static CLBlastTranspose transposed(bool yes) {
    return yes ? CLBlastTransposeYes : CLBlastTransposeNo;
}

/* The library's kernels use 32-bit indices. */
static bool is_supported(const kn_product_request *request) {
    const int64_t sizes[3] = {request->m, request->n, request->k};
    for (int i = 0; i < 3; i++)
        if (sizes[i] < 1 || sizes[i] > INT32_MAX) return false;
    for (int i = 0; i < 3; i++)
        if (sizes[i] * sizes[(i + 1) % 3] > INT32_MAX / 2) return false;
    return request->bytes_each == 4 || request->bytes_each == 8;
}

kn_status kn_product_workspace(kn_context *context, const kn_product_request *request, uint64_t *bytes,
                               kn_error *error) {
    size_t size = 0;
    *bytes = 0;
    if (!is_supported(request))
        return kn_fail(error, KN_ERROR_UNSUPPORTED,
                       "CLBlast does not support a product of these sizes and this type");
    CLBlastStatusCode (*ask)(CLBlastLayout, CLBlastTranspose, CLBlastTranspose, size_t, size_t, size_t,
                             size_t, size_t, size_t, size_t, size_t, size_t, cl_command_queue *, size_t *) =
        request->bytes_each == 8 ? CLBlastDGemmTempBufferSize : CLBlastSGemmTempBufferSize;
    CLBlastStatusCode code =
        ask(CLBlastLayoutRowMajor, transposed(request->transpose_a), transposed(request->transpose_b),
            (size_t)request->m, (size_t)request->n, (size_t)request->k, 0, row_of_a(request), 0,
            row_of_b(request), 0, (size_t)request->n, &context->queues[KN_QUEUE_COMPUTE], &size);
    if (code != CLBlastSuccess) return fail_product(context, code, request, error);
    *bytes = size;
    return KN_OK;
}

static CLBlastStatusCode enqueue(kn_context *context, const kn_product_request *request, int64_t batch,
                                 cl_event *event) {
    CLBlastTranspose a = transposed(request->transpose_a), b = transposed(request->transpose_b);
    size_t m = (size_t)request->m, n = (size_t)request->n, k = (size_t)request->k;
    size_t a_first = (size_t)(batch * request->a_stride), b_first = (size_t)(batch * request->b_stride);
    cl_mem workspace = request->workspace ? request->workspace->view : NULL;
    cl_command_queue *queue = &context->queues[KN_QUEUE_COMPUTE];
    if (request->bytes_each == 8)
        return CLBlastDgemmWithTempBuffer(CLBlastLayoutRowMajor, a, b, m, n, k, 1, request->a->view, a_first,
                                          row_of_a(request), request->b->view, b_first, row_of_b(request), 0,
                                          request->result->view, (size_t)batch * m * n, n, queue, event,
                                          workspace);
    return CLBlastSgemmWithTempBuffer(CLBlastLayoutRowMajor, a, b, m, n, k, 1, request->a->view, a_first,
                                      row_of_a(request), request->b->view, b_first, row_of_b(request), 0,
                                      request->result->view, (size_t)batch * m * n, n, queue, event,
                                      workspace);
}

kn_status kn_product_run(kn_context *context, const kn_product_request *request, const char *label,
                         kn_error *error) {
    if (!request->a || !request->b || !request->result || !request->a->view || !request->b->view ||
        !request->result->view)
        return kn_fail(error, KN_ERROR_ARGUMENT,
                       "a product's buffer is not aligned for kernels; copy it first");
    context->used_products = true;
    for (int64_t batch = 0; batch < request->batches; batch++) {
        cl_event event = NULL;
        CLBlastStatusCode code = enqueue(context, request, batch, context->records ? &event : NULL);
        if (code != CLBlastSuccess) return fail_product(context, code, request, error);
        if (!event) continue;
        /* The event belongs to the library's last kernel. */
        const kn_timeline_entry work = {.label = label,
                                        .kernel = "clblast",
                                        .queue = KN_QUEUE_COMPUTE,
                                        .flops = request->flops / (double)request->batches,
                                        .bytes = request->bytes / (double)request->batches};
        kn_timeline_note(context, &work, event);
        clReleaseEvent(event);
    }
    return KN_OK;
}

/* Other contexts that use the library only have to recompile. */
void kn_products_release(kn_context *context) {
    if (context->used_products) CLBlastClearCache();
}

#else

const char *kn_product_library(void) {
    return NULL;
}

kn_status kn_product_workspace(kn_context *context, const kn_product_request *request, uint64_t *bytes,
                               kn_error *error) {
    *bytes = 0;
    return kn_fail(error, KN_ERROR_UNSUPPORTED, "Koine was built without a matrix product library");
}

kn_status kn_product_run(kn_context *context, const kn_product_request *request, const char *label,
                         kn_error *error) {
    return kn_fail(error, KN_ERROR_UNSUPPORTED, "Koine was built without a matrix product library");
}

void kn_products_release(kn_context *context) {
    (void)context;
}

#endif
