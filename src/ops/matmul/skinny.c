/* Memory-bound matrix products on wide-vector devices: steps for cl/matmul/skinny.cl. */
#include "ops/lowering.h"
#include "ops/matmul/matmul.h"

/* The same as in cl/matmul/skinny.cl. */
enum { FEW = 8, STRETCH = 512, SHALLOW = 16, NEAR = 4096 };
/* The fewest columns of weights (K,N) that pay; the length of sums that few columns should split among cores;
 * the length of sums that a single accumulator should not exceed, to limit the error. */
enum { MIN_COLUMNS = 64, LONG = 1024, LONGEST = 8192 };

kn_skinny kn_matmul_skinny_kind(const kn_node *node) {
    kn_matmul_form form;
    kn_matmul_describe(node, &form);
    /* As if batches could always be merged: the kind must not depend on the epilogue, and also works for
     * fewer rows. */
    kn_matmul_merge_batches(&form, NULL);
    const bool few = form.m <= FEW && !form.transpose_a;
    if (form.transpose_b) return few ? KN_SKINNY_ALONG : KN_SKINNY_NOT;
    if (form.n < MIN_COLUMNS) return KN_SKINNY_NOT;
    if (few && form.k < (form.n >= STRETCH ? LONGEST : LONG)) return KN_SKINNY_ACROSS;
    return form.k <= SHALLOW ? KN_SKINNY_SHALLOW : KN_SKINNY_NOT;
}

static kn_step *begin(kn_lowering *lowering, const kn_matmul_form *form, const char *kernel) {
    kn_step *step = kn_step_begin(lowering, "matmul/skinny.cl", kernel);
    KN_STEP_DEFINE(step, {"KN_WIDTH", lowering->target->vector_width});
    kn_step_bind_values(step, lowering);
    kn_matmul_bind(step, form, 2);
    return step;
}

/* Few rows times weights (N,K) or (K,N): each weight is read once, in place. */
static kn_status lower_few(kn_lowering *lowering, const kn_matmul_form *form, bool along) {
    const int64_t width = lowering->target->vector_width, units = lowering->target->compute_units;
    int64_t columns = kn_round_up(kn_divide_up(form->n, 8 * units), along ? width : 2 * width);
    if (!along && columns > STRETCH) columns = STRETCH;
    kn_step *step = begin(lowering, form, along ? "kn_matmul_along" : "kn_matmul_across");
    KN_STEP_SET(step, {"item_columns", columns});
    kn_step_epilogue(step, lowering);
    kn_step_size_wide(step, kn_divide_up(form->n, columns), 1, form->batches);
    return kn_step_end(step, lowering);
}

/* Short sums: writing the result is most of the work. */
static kn_status lower_shallow(kn_lowering *lowering, const kn_matmul_form *form) {
    const int64_t least = 4 * (int64_t)lowering->target->vector_width,
                  units = lowering->target->compute_units;
    const int64_t depth = form->k > 0 ? form->k : 1;
    int64_t columns = NEAR / depth / least * least;
    if (columns < least) columns = least;
    if (columns > form->n) columns = kn_round_up(form->n, least);
    const int64_t stretches = kn_divide_up(form->n, columns) * form->batches;
    const int64_t rows = kn_round_up(kn_divide_up(form->m, kn_divide_up(8 * units, stretches)), 2);
    kn_step *step = begin(lowering, form, "kn_matmul_shallow");
    KN_STEP_SET(step, {"item_rows", rows}, {"item_columns", columns},
                {"streams", kn_is_streamed(lowering->result) && !kn_is_half(lowering->result->shape.dtype)});
    kn_step_epilogue(step, lowering);
    kn_step_size_wide(step, kn_divide_up(form->n, columns), kn_divide_up(form->m, rows), form->batches);
    return kn_step_end(step, lowering);
}

kn_status kn_matmul_skinny_lower(kn_lowering *lowering, kn_skinny kind) {
    kn_matmul_form form;
    kn_matmul_describe(lowering->node, &form);
    kn_matmul_merge_batches(&form, lowering->epilogue);
    return kind == KN_SKINNY_SHALLOW ? lower_shallow(lowering, &form)
                                     : lower_few(lowering, &form, kind == KN_SKINNY_ALONG);
}
