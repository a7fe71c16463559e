/* Optimizers, written as pointwise graphs: the planner fuses each update into one kernel and joins the
 * updates of many parameters into few launches. Every state has the shape of its parameter. */
#include <stdio.h>

#include <koine/operators.h>

#include "ops/ops.h"
#include "train/train.h"

typedef struct update {
    const kn_trainer_params *params;
    kn_graph *graph;
    kn_value *rate, *root, *shrink; /* scalars */
    kn_value *gradient_scale;       /* scalar, NULL: 1 */
    kn_value *finite;               /* bool scalar, NULL: update whatever comes */
} update;

static kn_value *control(kn_graph *graph, const char *name) {
    const kn_shape scalar = {.dtype = KN_FLOAT32};
    kn_value *known = kn_graph_find(graph, name);
    return known ? known : kn_state_add(graph, name, &scalar, KN_STATE_CONTROL, NULL);
}

static kn_value *moment(kn_graph *graph, const kn_value *parameter, const char *kind) {
    char name[300];
    snprintf(name, sizeof name, "%s.%s", parameter->name, kind);
    return kn_state_add(graph, name, &parameter->shape, KN_STATE_OPTIMIZER, NULL);
}

/* Writes the new value of a state, unless the step's gradients are not finite. */
static void set(const update *updating, kn_value *state, kn_value *value) {
    kn_assign(updating->graph, state, updating->finite ? kn_where(updating->finite, value, state) : value);
}

/* v = momentum v + g;  p = p - rate v, with Nesterov p - rate (g + momentum v). */
static void update_sgd(const update *updating, kn_value *parameter, kn_value *gradient) {
    const kn_trainer_params *params = updating->params;
    kn_value *direction = gradient;
    if (params->momentum != 0) {
        kn_value *velocity = moment(updating->graph, parameter, "momentum");
        kn_value *next = kn_add(kn_scale(velocity, params->momentum), gradient);
        direction = params->nesterov ? kn_add(gradient, kn_scale(next, params->momentum)) : next;
        set(updating, velocity, next);
    }
    set(updating, parameter, kn_sub(parameter, kn_mul(updating->rate, direction)));
}

/* m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g g;  p = p - rate m / (sqrt(v) root + epsilon), where rate and
 * root hold the corrections of the first steps. */
static void update_adam(const update *updating, kn_value *parameter, kn_value *gradient) {
    const kn_trainer_params *params = updating->params;
    kn_value *first = moment(updating->graph, parameter, "moment1");
    kn_value *second = moment(updating->graph, parameter, "moment2");
    kn_value *mean = kn_add(kn_scale(first, params->beta1), kn_scale(gradient, 1 - params->beta1));
    kn_value *square =
        kn_add(kn_scale(second, params->beta2), kn_scale(kn_mul(gradient, gradient), 1 - params->beta2));
    kn_value *size = kn_shift(kn_mul(kn_sqrt(square), updating->root), params->epsilon);
    kn_value *start = parameter;
    if (params->optimizer == KN_ADAMW && params->weight_decay != 0)
        start = kn_mul(parameter, updating->shrink);
    set(updating, first, mean);
    set(updating, second, square);
    set(updating, parameter, kn_sub(start, kn_mul(updating->rate, kn_div(mean, size))));
}

/* The sum of the squares of all gradients, a scalar. */
static kn_value *square_norm(kn_value *const *gradients, size_t count) {
    kn_value *sum = NULL;
    for (size_t i = 0; i < count; i++) {
        if (!gradients[i]) continue;
        kn_value *part = kn_sum(kn_mul(gradients[i], gradients[i]), NULL, false);
        sum = sum ? kn_add(sum, part) : part;
    }
    return sum;
}

static void watch_norm(update *updating, kn_value *const *gradients, size_t count) {
    const kn_trainer_params *params = updating->params;
    if (!(params->clip_norm > 0) && !params->skip_not_finite) return;
    kn_value *square = square_norm(gradients, count);
    if (!square) return;
    if (params->clip_norm > 0) {
        kn_value *norm = kn_shift(kn_sqrt(square), 1e-6);
        updating->gradient_scale = kn_min(kn_number(updating->graph, 1),
                                          kn_div(kn_number(updating->graph, params->clip_norm), norm));
    }
    /* x - x is 0 for finite x and NaN otherwise, and NaN equals nothing. */
    if (params->skip_not_finite)
        updating->finite = kn_equal(kn_sub(square, square), kn_number(updating->graph, 0));
}

static void count_step(kn_graph *graph) {
    const uint32_t one = 1;
    const kn_shape scalar = {.dtype = KN_UINT32};
    kn_value *counter = kn_step_counter(graph);
    kn_assign(graph, counter, kn_add(counter, kn_constant_add(graph, &scalar, &one, sizeof one)));
}

static void update_all(update *updating, kn_value *const *parameters, kn_value **gradients, size_t count) {
    const kn_trainer_params *params = updating->params;
    bool coupled = params->weight_decay != 0 && params->optimizer != KN_ADAMW;
    watch_norm(updating, gradients, count);
    for (size_t i = 0; i < count; i++) {
        kn_value *gradient = gradients[i];
        if (!gradient) continue;
        if (updating->gradient_scale) gradient = kn_mul(gradient, updating->gradient_scale);
        if (coupled) gradient = kn_add(gradient, kn_scale(parameters[i], params->weight_decay));
        if (params->optimizer == KN_SGD)
            update_sgd(updating, parameters[i], gradient);
        else
            update_adam(updating, parameters[i], gradient);
    }
}

kn_status kn_optimizer_extend(const kn_trainer_params *params, kn_graph *bound, kn_value *loss,
                              kn_error *error) {
    update updating = {.params = params, .graph = bound};
    size_t count = 0;
    kn_value **parameters = kn_arena_take(&bound->arena, bound->value_count + 1, sizeof *parameters);
    kn_value **gradients = kn_arena_take(&bound->arena, bound->value_count + 1, sizeof *gradients);
    if (!parameters || !gradients) return kn_fail_memory(error, bound->value_count * sizeof *parameters);
    for (size_t i = 0; i < bound->value_count; i++) {
        kn_value *value = bound->values[i];
        if (value->kind == KN_VALUE_STATE && value->role == KN_STATE_PARAMETER && !value->frozen &&
            value->shape.dtype == KN_FLOAT32)
            parameters[count++] = value;
    }
    kn_status status = kn_graph_gradient(bound, loss, parameters, count, gradients, error);
    if (status != KN_OK) return status;
    size_t reached = 0;
    for (size_t i = 0; i < count; i++)
        reached += gradients[i] != NULL;
    if (!reached)
        return kn_fail(
            error, KN_ERROR_ARGUMENT,
            "the loss '%s' depends on no parameter that may be trained: expected at least one layer "
            "with weights, not frozen, between the inputs and the loss",
            loss->name);
    updating.rate = control(bound, KN_TRAIN_RATE);
    if (params->optimizer != KN_SGD) updating.root = control(bound, KN_TRAIN_ROOT);
    if (params->optimizer == KN_ADAMW && params->weight_decay != 0)
        updating.shrink = control(bound, KN_TRAIN_SHRINK);
    update_all(&updating, parameters, gradients, count);
    count_step(bound);
    if (bound->error.status != KN_OK) return kn_fail(error, bound->error.status, "%s", bound->error.text);
    return KN_OK;
}
