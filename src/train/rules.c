/* The rule of each optimizer as a pointwise graph. p is the parameter, g its gradient, r the learning
 * rate. */
#include "train/optimizer.h"

#include <string.h>

/* A decay rate of the rule: a constant of its kernels, or two scalars if it may change. */
typedef struct decay {
    double kept;
    kn_value *changing, *complement; /* NULL: a constant */
} decay;

static decay decay_of(const kn_update_part *part, double kept, kn_train_scalar scalar) {
    decay own = {.kept = kept};
    if (!part->update->params->variable_momentum) return own;
    own.changing = kn_update_own_scalar(part, scalar);
    own.complement = kn_update_own_scalar(part, (kn_train_scalar)(scalar + 1));
    return own;
}

/* The momentum, or beta1. */
static decay first_decay(const kn_update_part *part) {
    return decay_of(part, kn_optimizer_momentum(part->update->params), KN_TRAIN_KEPT1);
}

static decay second_decay(const kn_update_part *part) {
    return decay_of(part, part->update->params->beta2, KN_TRAIN_KEPT2);
}

/* kept * rate */
static kn_value *decayed(kn_value *kept, decay rate) {
    return rate.changing ? kn_mul(kept, rate.changing) : kn_scale(kept, rate.kept);
}

/* kept * rate + fresh * (1 - rate) */
static kn_value *blend(kn_value *kept, kn_value *fresh, decay rate) {
    kn_value *enters = rate.complement ? kn_mul(fresh, rate.complement) : kn_scale(fresh, 1 - rate.kept);
    return kn_add(decayed(kept, rate), enters);
}

/* A bias correction: one for all parameters unless betas may differ. */
static kn_value *correction(const kn_update_part *part, kn_train_scalar scalar) {
    return part->update->params->variable_momentum ? kn_update_own_scalar(part, scalar)
                                                   : kn_update_scalar(part->update, scalar);
}

static kn_value *square_of(kn_value *x) {
    return kn_mul(x, x);
}

/* p = p - r * direction, starting from p or from p after weight decay. */
static void descend(const kn_update_part *part, kn_value *from, kn_value *direction) {
    kn_value *rate = kn_update_own_scalar(part, KN_TRAIN_RATE);
    kn_update_set_parameter(part, kn_sub(from, kn_mul(rate, direction)));
}

/* Decoupled weight decay: p (1 - r decay). */
static kn_value *shrunk(const kn_update_part *part) {
    if (!part->update->decays) return part->own;
    return kn_mul(part->own, kn_update_own_scalar(part, KN_TRAIN_SHRINK));
}

static bool has_momentum(const kn_trainer_params *params) {
    return params->momentum != 0 || params->variable_momentum;
}

/* v = momentum v + (1 - dampening) g, undampened in the first update;  p = p - r v, with Nesterov p - r (g +
 * momentum v).
 */
static void sgd(const kn_update_part *part) {
    const kn_trainer_params *params = part->update->params;
    kn_value *direction = part->gradient;
    if (has_momentum(params)) {
        kn_value *velocity = kn_update_moment(part, "momentum"), *enters = part->gradient;
        if (params->dampening != 0) enters = kn_mul(enters, kn_update_scalar(part->update, KN_TRAIN_GAIN));
        const decay rate = first_decay(part);
        kn_value *next = kn_add(decayed(velocity, rate), enters);
        direction = params->nesterov ? kn_add(part->gradient, decayed(next, rate)) : next;
        kn_update_set(part->update, velocity, next);
    }
    descend(part, part->own, direction);
}

/* m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g g;  p = p - r m / (sqrt(v) root + epsilon), where r and root
 * include the bias corrections. AMSGrad divides by the largest v so far. */
static void adam(const kn_update_part *part) {
    const kn_trainer_params *params = part->update->params;
    kn_value *first = kn_update_moment(part, "moment1");
    kn_value *second = kn_update_square(part, "moment2", 0);
    kn_value *mean = blend(first, part->gradient, first_decay(part));
    kn_value *square = blend(second, square_of(part->gradient), second_decay(part)), *divisor = square;
    if (params->amsgrad) {
        kn_value *largest = kn_update_square(part, "moment2_max", 0);
        divisor = kn_max(largest, square);
        kn_update_set(part->update, largest, divisor);
    }
    kn_value *root = correction(part, KN_TRAIN_ROOT);
    kn_value *size = kn_shift(kn_mul(kn_sqrt(divisor), root), params->epsilon);
    kn_update_set(part->update, first, mean);
    kn_update_set(part->update, second, square);
    descend(part, kn_optimizer_row_of(params->optimizer)->decays ? shrunk(part) : part->own,
            kn_div(mean, size));
}

/* v = b2 v + (1 - b2) g g;  d = g / (sqrt(v) + epsilon);  p = p - r d, or with momentum u = momentum u + d.
 * Centred: v minus the square of the mean gradient. */
static void rmsprop(const kn_update_part *part) {
    const kn_trainer_params *params = part->update->params;
    kn_value *second = kn_update_square(part, "moment2", 0);
    kn_value *square = blend(second, square_of(part->gradient), second_decay(part)), *variance = square;
    kn_update_set(part->update, second, square);
    if (params->centered) {
        kn_value *first = kn_update_moment(part, "moment1");
        kn_value *mean = blend(first, part->gradient, second_decay(part));
        variance = kn_sub(square, square_of(mean));
        kn_update_set(part->update, first, mean);
    }
    kn_value *direction = kn_div(part->gradient, kn_shift(kn_sqrt(variance), params->epsilon));
    if (has_momentum(params)) {
        kn_value *velocity = kn_update_moment(part, "momentum");
        direction = kn_add(decayed(velocity, first_decay(part)), direction);
        kn_update_set(part->update, velocity, direction);
    }
    descend(part, part->own, direction);
}

/* s = s + g g;  p = p - r g / (sqrt(s) + epsilon) */
static void adagrad(const kn_update_part *part) {
    const kn_trainer_params *params = part->update->params;
    kn_value *sum = kn_update_square(part, "sum", params->accumulator);
    kn_value *next = kn_add(sum, square_of(part->gradient));
    kn_update_set(part->update, sum, next);
    descend(part, part->own, kn_div(part->gradient, kn_shift(kn_sqrt(next), params->epsilon)));
}

/* v = b2 v + (1 - b2) g g;  d = g sqrt(w + epsilon) / sqrt(v + epsilon);  w = b2 w + (1 - b2) d d;  p = p - r
 * d */
static void adadelta(const kn_update_part *part) {
    const kn_trainer_params *params = part->update->params;
    kn_value *second = kn_update_square(part, "moment2", 0), *steps = kn_update_square(part, "delta", 0);
    kn_value *square = blend(second, square_of(part->gradient), second_decay(part));
    kn_value *size = kn_sqrt(kn_shift(square, params->epsilon));
    kn_value *direction = kn_mul(kn_div(kn_sqrt(kn_shift(steps, params->epsilon)), size), part->gradient);
    kn_update_set(part->update, second, square);
    kn_update_set(part->update, steps, blend(steps, square_of(direction), second_decay(part)));
    descend(part, part->own, direction);
}

/* Adam's direction d (with both corrections) plus decay p, scaled to the norm of p: p = p - r |p| / |d| d, or
 * p - r d if a norm is 0. */
static void lamb(const kn_update_part *part) {
    const kn_trainer_params *params = part->update->params;
    kn_graph *graph = part->update->graph;
    kn_value *first = kn_update_moment(part, "moment1"), *second = kn_update_square(part, "moment2", 0);
    kn_value *mean = blend(first, part->gradient, first_decay(part));
    kn_value *square = blend(second, square_of(part->gradient), second_decay(part));
    kn_value *root = correction(part, KN_TRAIN_ROOT);
    kn_value *size = kn_shift(kn_mul(kn_sqrt(square), root), params->epsilon);
    kn_value *direction = kn_div(kn_mul(mean, correction(part, KN_TRAIN_MEAN)), size);
    if (part->update->decays)
        direction = kn_add(direction, kn_mul(part->own, kn_update_own_scalar(part, KN_TRAIN_DECAY)));
    kn_update_set(part->update, first, mean);
    kn_update_set(part->update, second, square);
    kn_value *own = kn_update_norm(part, part->own), *other = kn_update_norm(part, direction);
    kn_value *zero = kn_scalar(graph, 0), *one = kn_scalar(graph, 1);
    kn_value *trust = kn_where(kn_greater(kn_mul(own, other), zero), kn_div(own, other), one);
    descend(part, part->own, kn_mul(trust, direction));
}

/* p = p (1 - r decay) - r sign(u), u = b1 m + (1 - b1) g;  m = b2 m + (1 - b2) g, computed as u + (b2 - b1)
 * (m - g), so that the readers of u are fused with it. */
static void lion(const kn_update_part *part) {
    kn_value *first = kn_update_moment(part, "moment1");
    const decay towards_rate = first_decay(part), next_rate = second_decay(part);
    kn_value *towards = blend(first, part->gradient, towards_rate);
    kn_value *back = kn_sub(first, part->gradient);
    back = next_rate.changing ? kn_mul(back, kn_sub(next_rate.changing, towards_rate.changing))
                              : kn_scale(back, next_rate.kept - towards_rate.kept);
    /* 0, or NaN where `towards` is not finite. */
    kn_value *zero = kn_sub(towards, towards);
    kn_value *below = kn_where(kn_less(towards, zero), kn_shift(zero, -1), zero);
    kn_value *sign = kn_where(kn_greater(towards, zero), kn_shift(zero, 1), below);
    kn_update_set(part->update, first, kn_add(towards, back));
    descend(part, shrunk(part), sign);
}

/* ---- the optimizers ---------------------------------------------------------------------------------- */

/* `usual`: learning rate, momentum, beta1, beta2, epsilon, weight decay. */
static const kn_optimizer_row rows[] = {
    [KN_OPTIMIZER_SGD] = {.name = "sgd",
                          .rule = sgd,
                          .reads = "momentum dampening nesterov",
                          .usual = {0.01, 0.9, 0.9, 0.999, 1e-8, 0}},
    [KN_OPTIMIZER_ADAM] = {.name = "adam",
                           .rule = adam,
                           .reads = "beta1 beta2 epsilon amsgrad",
                           .rate = KN_RATE_CORRECTED,
                           .usual = {0.001, 0.9, 0.9, 0.999, 1e-8, 0}},
    [KN_OPTIMIZER_ADAMW] = {.name = "adamw",
                            .rule = adam,
                            .reads = "beta1 beta2 epsilon amsgrad",
                            .rate = KN_RATE_CORRECTED,
                            .decays = true,
                            .usual = {0.001, 0.9, 0.9, 0.999, 1e-8, 0.01}},
    [KN_OPTIMIZER_RMSPROP] = {.name = "rmsprop",
                              .rule = rmsprop,
                              .reads = "momentum beta2 epsilon centered",
                              .usual = {0.01, 0, 0.9, 0.99, 1e-8, 0}},
    [KN_OPTIMIZER_ADAGRAD] = {.name = "adagrad",
                              .rule = adagrad,
                              .reads = "epsilon rate_decay accumulator",
                              .rate = KN_RATE_DECAYED,
                              .usual = {0.01, 0, 0.9, 0.999, 1e-10, 0}},
    [KN_OPTIMIZER_ADADELTA] = {.name = "adadelta",
                               .rule = adadelta,
                               .reads = "beta2 epsilon",
                               .usual = {1, 0, 0.9, 0.9, 1e-6, 0}},
    [KN_OPTIMIZER_LAMB] = {.name = "lamb",
                           .rule = lamb,
                           .reads = "beta1 beta2 epsilon",
                           .decays = true,
                           .usual = {0.001, 0, 0.9, 0.999, 1e-6, 0.01}},
    [KN_OPTIMIZER_LION] = {.name = "lion",
                           .rule = lion,
                           .reads = "beta1 beta2",
                           .decays = true,
                           .usual = {0.0001, 0, 0.9, 0.99, 1e-8, 0}},
};

const kn_optimizer_row *kn_optimizer_row_of(kn_optimizer optimizer) {
    return (unsigned)optimizer < KN_COUNT_OF(rows) ? &rows[optimizer] : NULL;
}

double kn_optimizer_momentum(const kn_trainer_params *params) {
    return kn_optimizer_reads(params->optimizer, "momentum") ? params->momentum : params->beta1;
}

size_t kn_optimizer_count(void) {
    return KN_COUNT_OF(rows);
}

const char *kn_optimizer_name(kn_optimizer optimizer) {
    const kn_optimizer_row *row = kn_optimizer_row_of(optimizer);
    return row ? row->name : NULL;
}

bool kn_optimizer_reads(kn_optimizer optimizer, const char *field) {
    const kn_optimizer_row *row = kn_optimizer_row_of(optimizer);
    const size_t length = field ? strlen(field) : 0;
    for (const char *at = row && length ? row->reads : ""; *at; at += *at == ' ') {
        const size_t own = strcspn(at, " ");
        if (own == length && !memcmp(at, field, length)) return true;
        at += own;
    }
    return false;
}

void kn_update_by_rule(const kn_update_part *part) {
    rows[part->update->params->optimizer].rule(part);
}
