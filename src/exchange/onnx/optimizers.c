/* Nodes that compute one optimizer step: learning rate, step number, then lists of values, gradients and
 * moments. */
#include "exchange/onnx/import.h"

#define DOMAIN "ai.onnx.preview.training"

typedef struct step {
    kn_import_call *call;
    kn_value *rate, *number; /* number: count of earlier steps, in floating point */
    int count;
    double norm;
} step;

/* Checks that there are `kinds` inputs per value. */
static kn_status begin(kn_import_call *call, int kinds, step *s) {
    *s = (step){.call = call,
                .norm = kn_import_float(call, "norm_coefficient", 0),
                .count = (call->input_count - 2) / kinds};
    s->rate = kn_import_in(call, 0);
    s->number = kn_import_in(call, 1);
    if (s->count < 1 || call->input_count != 2 + kinds * s->count ||
        call->output_count != (kinds - 1) * s->count)
        return kn_import_fail(call, KN_ERROR_FORMAT, "has %d inputs and %d outputs, which do not match",
                              call->input_count, call->output_count);
    s->number = kn_import_cast(s->number, s->rate->shape.dtype);
    return kn_import_status(call);
}

/* The input of a kind for value i: 0 the value, 1 its gradient with weight decay, 2 and 3 its moments. */
static kn_value *of_kind(const step *s, int kind, int i) {
    kn_value *value = kn_import_in(s->call, 2 + kind * s->count + i);
    if (kind != 1 || s->norm == 0) return value;
    return kn_add(value, kn_scale(kn_import_in(s->call, 2 + i), s->norm));
}

static kn_value *later(const step *s) {
    return kn_greater(s->number, kn_import_scalar(s->call->import, s->number->shape.dtype, 0));
}

static kn_value *number_of(const step *s, double number) {
    return kn_import_scalar(s->call->import, s->number->shape.dtype, number);
}

static kn_status adagrad(kn_import_call *call) {
    step s;
    if (begin(call, 3, &s) != KN_OK) return kn_import_status(call);
    double epsilon = kn_import_float(call, "epsilon", 0), decay = kn_import_float(call, "decay_factor", 0);
    kn_value *rate = kn_div(s.rate, kn_shift(kn_scale(s.number, decay), 1));
    for (int i = 0; i < s.count; i++) {
        kn_value *x = of_kind(&s, 0, i), *g = of_kind(&s, 1, i), *h = of_kind(&s, 2, i);
        h = kn_add(h, kn_mul(g, g));
        x = kn_sub(x, kn_div(kn_mul(rate, g), kn_shift(kn_sqrt(h), epsilon)));
        kn_import_put(call, i, x);
        kn_import_put(call, s.count + i, h);
    }
    return kn_import_status(call);
}

static kn_status adam(kn_import_call *call) {
    step s;
    if (begin(call, 4, &s) != KN_OK) return kn_import_status(call);
    double alpha = kn_import_float(call, "alpha", 0.9), beta = kn_import_float(call, "beta", 0.999);
    double epsilon = kn_import_float(call, "epsilon", 0),
           post = kn_import_float(call, "norm_coefficient_post", 0);
    kn_value *first = kn_shift(kn_neg(kn_pow(number_of(&s, alpha), s.number)), 1);
    kn_value *second = kn_shift(kn_neg(kn_pow(number_of(&s, beta), s.number)), 1);
    kn_value *rate = kn_where(later(&s), kn_div(kn_mul(s.rate, kn_sqrt(second)), first), s.rate);
    for (int i = 0; i < s.count; i++) {
        kn_value *x = of_kind(&s, 0, i), *g = of_kind(&s, 1, i), *v = of_kind(&s, 2, i),
                 *h = of_kind(&s, 3, i);
        v = kn_add(kn_scale(v, alpha), kn_scale(g, 1 - alpha));
        h = kn_add(kn_scale(h, beta), kn_scale(kn_mul(g, g), 1 - beta));
        x = kn_sub(x, kn_mul(rate, kn_div(v, kn_shift(kn_sqrt(h), epsilon))));
        if (post != 0) x = kn_scale(x, 1 - post);
        kn_import_put(call, i, x);
        kn_import_put(call, s.count + i, v);
        kn_import_put(call, 2 * s.count + i, h);
    }
    return kn_import_status(call);
}

static kn_status momentum(kn_import_call *call) {
    step s;
    if (begin(call, 3, &s) != KN_OK) return kn_import_status(call);
    double alpha = kn_import_float(call, "alpha", 0), beta = kn_import_float(call, "beta", 0);
    bool nesterov = !strcmp(kn_import_string(call, "mode", "standard"), "nesterov");
    kn_value *factor = kn_where(later(&s), number_of(&s, beta), number_of(&s, 1));
    for (int i = 0; i < s.count; i++) {
        kn_value *x = of_kind(&s, 0, i), *g = of_kind(&s, 1, i), *v = of_kind(&s, 2, i);
        v = kn_add(kn_scale(v, alpha), kn_mul(factor, g));
        kn_value *way = nesterov ? kn_add(g, kn_scale(v, alpha)) : v;
        x = kn_sub(x, kn_mul(s.rate, way));
        kn_import_put(call, i, x);
        kn_import_put(call, s.count + i, v);
    }
    return kn_import_status(call);
}

const kn_import_row kn_import_optimizers[] = {
    {.type = "Adagrad", .domain = DOMAIN, .build = adagrad},
    {.type = "Adam", .domain = DOMAIN, .build = adam},
    {.type = "Momentum", .domain = DOMAIN, .build = momentum},
};
const int kn_import_optimizers_count = (int)KN_COUNT_OF(kn_import_optimizers);
