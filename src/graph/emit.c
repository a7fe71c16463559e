/* Steps without a kernel of cl/: copies, fills, transfers, and products by a library. */
#include "graph/graph_private.h"

kn_status kn_emit_copy(kn_lowering *lowering, kn_value *from, kn_value *to) {
    if (kn_shape_elements(&from->shape) == 0) return KN_OK;
    kn_step *step = kn_step_new(lowering, KN_STEP_COPY);
    kn_step_read(step, NULL, from);
    kn_step_write(step, NULL, to);
    return kn_step_end(step, lowering);
}

kn_status kn_emit_product(kn_lowering *lowering, const kn_library_product *product, kn_value *a, kn_value *b,
                          kn_value *result) {
    const kn_target *target = lowering->target;
    uint64_t bytes = 0;
    if (!target->product_scratch || !target->product_scratch(target->library, product, &bytes))
        return kn_fail(lowering->error, KN_ERROR_UNSUPPORTED,
                       "the matrix product library does not support this product");
    kn_step *step = kn_step_new(lowering, KN_STEP_PRODUCT);
    if (step) step->product = *product;
    kn_step_read(step, NULL, a);
    kn_step_read(step, NULL, b);
    kn_step_write(step, NULL, result);
    if (bytes) kn_step_scratch(step, NULL, kn_emit_scratch(lowering, bytes));
    return kn_step_end(step, lowering);
}

kn_status kn_emit_fill_zero(kn_lowering *lowering, kn_value *value) {
    if (kn_shape_elements(&value->shape) == 0) return KN_OK;
    kn_step *step = kn_step_new(lowering, KN_STEP_FILL);
    kn_step_write(step, NULL, value);
    return kn_step_end(step, lowering);
}

/* Emits a step that only reads or only writes a value. */
static kn_status emit_transfer(kn_lowering *lowering, kn_step_kind kind, kn_value *read, kn_value *written) {
    kn_step *step = kn_step_new(lowering, kind);
    if (read) kn_step_read(step, NULL, read);
    if (written) kn_step_write(step, NULL, written);
    return kn_step_end(step, lowering);
}

kn_status kn_emit_send(kn_lowering *lowering, kn_value *value) {
    return emit_transfer(lowering, KN_STEP_SEND, value, NULL);
}

kn_status kn_emit_receive(kn_lowering *lowering, kn_value *value) {
    return emit_transfer(lowering, KN_STEP_RECEIVE, NULL, value);
}

kn_status kn_emit_share(kn_lowering *lowering, kn_value *value) {
    return emit_transfer(lowering, KN_STEP_SHARE, value, NULL);
}

kn_status kn_emit_total(kn_lowering *lowering, kn_value *old, kn_value *value) {
    return emit_transfer(lowering, KN_STEP_TOTAL, old, value);
}

kn_status kn_emit_load(kn_lowering *lowering, kn_value *value) {
    return emit_transfer(lowering, KN_STEP_LOAD, NULL, value);
}

kn_status kn_emit_store(kn_lowering *lowering, kn_value *value) {
    return emit_transfer(lowering, KN_STEP_STORE, value, NULL);
}
