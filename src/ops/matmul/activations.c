/* Activations rounded to 8 bits: in each group of 32 along the last axis, which shares a scale, to multiples
 * of the largest magnitude / 127 (cl/common/activations.cl). */
#include <math.h>

#include "ops/build.h"
#include "ops/lowering.h"
#include "ops/matmul/matmul.h"
#include "ops/shape_rule.h"

extern const kn_operator kn_row_round_activations;

enum { GROUP = 32, CHUNK = 32 }; /* elements of a group; groups per work-item of wide-vector devices */

static void round_group(const double *x, double *rounded) {
    double largest = 0;
    bool finite = true;
    for (int i = 0; i < GROUP; i++) {
        if (!isfinite(x[i])) finite = false;
        if (fabs(x[i]) > largest) largest = fabs(x[i]);
    }
    const bool some = largest >= 0x1p-100;
    /* In float32, as kernels. */
    const float scale = some ? (float)largest * 0x1.020408p-7f : 0;
    const float inverse = some ? 127.0f / (float)largest : 0;
    for (int i = 0; i < GROUP; i++)
        rounded[i] = finite ? (double)(rintf((float)x[i] * inverse) * scale) : NAN;
}

void kn_activations_round(const double *x, int64_t count, double *rounded) {
    for (int64_t i = 0; i < count; i += GROUP)
        round_group(x + i, rounded + i);
}

static kn_status shape(kn_shape_call *call) {
    const kn_shape *x = &call->inputs[0]->shape;
    if (kn_shape_float_input(call, 0)) return call->error->status;
    if (x->dtype == KN_FLOAT64 || x->rank < 1 || x->dims[x->rank - 1] % GROUP)
        return kn_shape_fail(call, KN_ERROR_SHAPE, "x is %s; expected float32 with rows of a multiple of %d",
                             kn_shape_words_of(call, 0), GROUP);
    call->outputs[0] = *x;
    return KN_OK;
}

static kn_status reference(kn_reference_call *call) {
    kn_activations_round(call->inputs[0].data, call->inputs[0].elements, call->outputs[0].data);
    return KN_OK;
}

static kn_status lower(kn_lowering *lowering) {
    const int64_t count = kn_elements_of(lowering->result) / GROUP;
    const int64_t chunk = lowering->target->wide_vector ? CHUNK : 1;
    kn_step *step = kn_step_begin(lowering, "matmul/activations.cl", "kn_round_activations");
    kn_step_bind_values(step, lowering);
    KN_STEP_SET(step, {"count", count}, {"chunk", chunk});
    kn_step_size_free(step, kn_divide_up(count, chunk), lowering->target);
    return kn_step_end(step, lowering);
}

KN_OPERATOR(round_activations,
            .help = "x rounded to 8 bits, in groups of 32 that share a scale; in products only",
            .min_inputs = 1, .max_inputs = 1, .input_names = {"x"}, .output_names = {"y"}, .backward = true,
            .wrong = kn_nothing_wrong, .matrices = true, .shape = shape, .reference = reference,
            KN_VARIANTS({.name = "plain", .lower = lower, .promise.halves = {1, 1}}),
            KN_CASES({.inputs = {"7,96"}, .no_gradient = true, .smallest = true},
                     {.inputs = {"3,5,1056"}, .ranges = {"-1000..1000"}, .no_gradient = true},
                     {.inputs = {"2,320"}, .ranges = {"special"}, .no_gradient = true},
                     {.inputs = {"0,64"}, .no_gradient = true}));

kn_value *kn_round_activations(kn_value *x) {
    return kn_build(&kn_row_round_activations, &x, 1, NULL);
}
