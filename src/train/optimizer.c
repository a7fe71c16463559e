/* The update as a graph: gradients, their accumulation and clipping, weight decay, the optimizer's rule,
 * moving averages. Everything except norms is pointwise: the planner fuses each update into one kernel and
 * groups the updates of many parameters into few launches. */
#include <stdio.h>

#include "ops/ops.h"
#include "train/optimizer.h"

static kn_value *control(kn_graph *graph, const char *name, kn_dtype dtype, kn_state_role role) {
    const kn_shape scalar = {.dtype = dtype};
    kn_value *known = kn_graph_find(graph, name);
    return known ? known : kn_state_add(graph, name, &scalar, role, NULL);
}

static kn_value *scalar_of(const kn_update *update, kn_train_scalar scalar, int setting) {
    char name[KN_TRAIN_NAME_BYTES];
    kn_train_scalar_name(scalar, setting, name);
    update->settings[setting].needs |= 1u << scalar;
    return control(update->graph, name, KN_FLOAT32,
                   kn_train_is_of_run(scalar) ? KN_STATE_PASSING : KN_STATE_CONTROL);
}

kn_value *kn_update_scalar(const kn_update *update, kn_train_scalar scalar) {
    return scalar_of(update, scalar, 0);
}

kn_value *kn_update_own_scalar(const kn_update_part *part, kn_train_scalar scalar) {
    return scalar_of(part->update, scalar, part->setting);
}

bool kn_train_state_name(const char *owner, const char *kind, char name[KN_TRAIN_STATE_BYTES]) {
    const int length = snprintf(name, KN_TRAIN_STATE_BYTES, "%s.%s", owner, kind);
    return length >= 0 && length < KN_TRAIN_STATE_BYTES;
}

kn_value *kn_update_state_of(kn_value *owner, const char *kind, const kn_shape *shape, double start) {
    char name[KN_TRAIN_STATE_BYTES];
    const kn_initializer begins = {KN_INITIALIZER_FILL, start};
    if (kn_value_failed(owner)) return owner;
    kn_train_state_name(owner->name, kind, name);
    return kn_state_add(owner->graph, name, shape, KN_STATE_OPTIMIZER, &begins);
}

kn_value *kn_update_state(const kn_update_part *part, const char *kind, double start) {
    kn_value *state = kn_update_state_of(part->parameter, kind, &part->own->shape, start);
    return kn_update_spread_state(part, state, &part->parameter->shape);
}

void kn_update_set(const kn_update *update, kn_value *state, kn_value *value) {
    if (kn_update_store(update, state, value)) return;
    kn_assign(update->graph, state, update->go ? kn_where(update->go, value, state) : value);
}

/* The average starts with the first weights and then moves towards the current weights by a fraction: a = a +
 * rest (p - a). */
void kn_update_average(const kn_update_part *part, kn_value *average, kn_value *value) {
    kn_value *closer = kn_add(average, kn_mul(part->update->rest, kn_sub(value, average)));
    kn_update_set(part->update, average, closer);
}

void kn_update_set_parameter(const kn_update_part *part, kn_value *value) {
    const kn_update *update = part->update;
    kn_value *average = NULL;
    const bool spread = part->spread != KN_SPREAD_ALL;
    if (!spread) kn_update_set(update, part->parameter, value);
    if (update->rest)
        average = kn_update_state_of(part->parameter, KN_TRAIN_AVERAGE, &part->parameter->shape, 0);
    if (spread) {
        *part->fresh = update->go ? kn_where(update->go, value, part->own) : value;
        *part->average = average;
    } else if (average) {
        kn_update_average(part, average, value);
    }
}

/* ---- gradients ------------------------------------------------------------------------------ */

/* The running sum of the gradients of an update's steps, each divided by the number of steps. */
static void accumulate(kn_update *update, kn_update_part *parts, size_t count) {
    uint64_t steps = update->params->accumulate;
    if (steps < 2) return;
    kn_value *zero = kn_scalar(update->graph, 0);
    kn_value *first = kn_greater(kn_update_scalar(update, KN_TRAIN_FIRST), zero);
    for (size_t i = 0; i < count; i++) {
        kn_value *sum = kn_update_state(&parts[i], "gradient", 0);
        kn_value *scaled = kn_scale(parts[i].gradient, 1 / (double)steps);
        /* In the first step, the old sum is ignored, even if it is NaN. */
        parts[i].gradient = kn_where(first, scaled, kn_add(sum, scaled));
        kn_assign(update->graph, sum,
                  update->more ? kn_where(update->more, sum, parts[i].gradient) : parts[i].gradient);
    }
}

/* The sum of squares of all gradients, a scalar. turn: 0 for the first use, 1 for the second. */
static kn_value *square_norm(const kn_update_part *parts, size_t count, int turn) {
    kn_value *sum = NULL;
    for (size_t i = 0; i < count; i++) {
        kn_value *own = kn_update_square_sum(&parts[i], turn);
        sum = sum ? kn_add(sum, own) : own;
    }
    return sum;
}

/* Decides whether this step updates: it must be the last accumulated step and, if requested, have finite
 * gradients. x - x is 0 for finite x and NaN otherwise, and NaN equals nothing. */
static void decide(kn_update *update, kn_value *square) {
    kn_value *wrong = square ? kn_sub(square, square) : NULL;
    kn_value *wait = update->params->accumulate > 1 ? kn_update_scalar(update, KN_TRAIN_WAIT) : NULL;
    kn_value *more = update->more ? kn_update_scalar(update, KN_TRAIN_MORE) : NULL;
    wait = wait && more ? kn_add(wait, more) : wait ? wait : more;
    if (!wrong && !wait) return;
    if (update->scale) kn_loss_scale_follow(update, kn_equal(wrong, kn_scalar(update->graph, 0)), wait);
    update->go = kn_equal(wrong && wait ? kn_add(wrong, wait)
                          : wrong       ? wrong
                                        : wait,
                          kn_scalar(update->graph, 0));
}

static void clip(kn_update *update, kn_update_part *parts, size_t count) {
    const kn_trainer_params *params = update->params;
    const bool skips = params->skip_not_finite || update->scale;
    kn_value *square = NULL;
    /* Clipping would hide non-finite gradients. */
    if (skips || (params->clip_norm > 0 && !(params->clip_value > 0))) square = square_norm(parts, count, 0);
    decide(update, skips ? square : NULL);
    update->after = update->go;
    if (params->clip_value > 0) {
        for (size_t i = 0; i < count; i++)
            parts[i].gradient = kn_clip(parts[i].gradient, -params->clip_value, params->clip_value);
        if (params->clip_norm > 0) square = square_norm(parts, count, 1);
    }
    if (!(params->clip_norm > 0)) return;
    kn_value *norm = kn_shift(kn_sqrt(square), 1e-6);
    kn_value *scale =
        kn_min(kn_scalar(update->graph, 1), kn_div(kn_scalar(update->graph, params->clip_norm), norm));
    for (size_t i = 0; i < count; i++)
        parts[i].gradient = kn_mul(parts[i].gradient, scale);
    update->after = scale;
}

/* ---- the update ----------------------------------------------------------------------------- */

/* Weight decay as part of the gradient. */
static void add_decay(kn_update_part *part) {
    const kn_update *update = part->update;
    if (!update->decays || kn_optimizer_row_of(update->params->optimizer)->decays) return;
    /* One expression for all settings, so that their updates can run in one launch. */
    kn_value *pull = update->differ ? kn_mul(part->own, kn_update_own_scalar(part, KN_TRAIN_DECAY))
                                    : kn_scale(part->own, update->settings[part->setting].weight_decay);
    part->gradient = kn_add(part->gradient, pull);
}

static kn_value *count_up(kn_graph *graph, kn_value *counter) {
    const uint32_t one = 1;
    const kn_shape scalar = {.dtype = KN_UINT32};
    return kn_add(counter, kn_constant_add(graph, &scalar, &one, sizeof one));
}

static void count_step(const kn_update *update) {
    kn_value *counter = kn_step_counter(update->graph), *next = count_up(update->graph, counter);
    kn_assign(update->graph, counter, update->more ? kn_where(update->more, counter, next) : next);
}

/* The factor of new weights in the average: 1 until weights have entered it, then the usual fraction. */
static void begin_average(kn_update *update) {
    if (!(update->params->average > 0)) return;
    const uint32_t zero = 0;
    const kn_shape scalar = {.dtype = KN_UINT32};
    kn_value *averaged = control(update->graph, KN_TRAIN_AVERAGED, KN_UINT32, KN_STATE_CONTROL);
    kn_value *none = kn_equal(averaged, kn_constant_add(update->graph, &scalar, &zero, sizeof zero));
    update->rest =
        kn_where(none, kn_scalar(update->graph, 1), kn_scalar(update->graph, 1 - update->params->average));
    kn_update_set(update, averaged, count_up(update->graph, averaged));
}

static void update_all(kn_update *update, kn_update_part *parts, size_t count) {
    if (update->scale) kn_loss_scale_undo(update, parts, count);
    accumulate(update, parts, count);
    clip(update, parts, count);
    begin_average(update);
    for (size_t i = 0; i < count; i++) {
        add_decay(&parts[i]);
        kn_update_by_rule(&parts[i]);
    }
    kn_update_gather(update, parts, count);
    count_step(update);
}

/* Determines which properties the settings in use share. */
static void compare_settings(kn_update *update, const kn_update_part *parts, size_t count) {
    for (size_t i = 0; i < count; i++) {
        double decay = update->settings[parts[i].setting].weight_decay;
        update->decays = update->decays || decay != 0;
        update->differ = update->differ || decay != update->settings[parts[0].setting].weight_decay;
    }
}

kn_status kn_optimizer_extend(const kn_trainer_params *params, kn_update_setting *settings,
                              kn_precision precision, const kn_shards *shards, kn_graph *bound,
                              kn_value **values, size_t value_count, kn_error *error) {
    kn_update update = {.params = params, .settings = settings, .graph = bound, .shards = shards};
    kn_value *loss = values[0];
    size_t count = 0, reached = 0;
    kn_value **parameters = kn_arena_take(&bound->arena, bound->value_count + 1, sizeof *parameters);
    kn_value **gradients = kn_arena_take(&bound->arena, bound->value_count + 1, sizeof *gradients);
    kn_update_part *parts = kn_arena_take(&bound->arena, bound->value_count + 1, sizeof *parts);
    kn_value **fresh = kn_arena_take(&bound->arena, 2 * bound->value_count + 2, sizeof *fresh);
    if (!parameters || !gradients || !parts || !fresh)
        return kn_fail_memory(error, bound->value_count * sizeof *parts);
    for (size_t i = 0; i < bound->value_count; i++)
        if (kn_trainer_trains(params, bound->values[i])) parameters[count++] = bound->values[i];
    if (shards) kn_shards_prepare(&update);
    kn_value *scaled = loss;
    if (shards) scaled = kn_mul(scaled, kn_update_scalar(&update, KN_TRAIN_WEIGHT));
    if (precision == KN_PRECISION_FLOAT16) scaled = kn_loss_scale(&update, scaled);
    kn_status status = kn_graph_gradient(bound, scaled, parameters, count, gradients, error);
    if (status == KN_OK && shards && params->sync_batch_norm)
        status = kn_sync_norms(&update, kn_update_scalar(&update, KN_TRAIN_WEIGHT),
                               kn_update_scalar(&update, KN_TRAIN_RATIO), values, value_count, gradients,
                               count, error);
    if (status != KN_OK) return status;
    for (size_t i = 0; i < count; i++) {
        if (!gradients[i]) continue;
        parts[reached++] = (kn_update_part){.update = &update,
                                            .parameter = parameters[i],
                                            .gradient = gradients[i],
                                            .found = gradients[i],
                                            .fresh = &fresh[2 * reached],
                                            .average = &fresh[2 * reached + 1],
                                            .setting = kn_trainer_setting_of(params, parameters[i])};
    }
    if (!reached)
        return kn_fail(error, KN_ERROR_ARGUMENT,
                       "loss '%s' does not depend on a trainable parameter: expected at least one layer "
                       "with weights that are not frozen between the inputs and the loss",
                       loss->name);
    compare_settings(&update, parts, reached);
    status = kn_update_find_tables(bound, parts, reached, error);
    if (status == KN_OK) status = kn_update_spread(&update, parts, reached, error);
    if (status == KN_OK && shards)
        status = kn_shards_share(&update, values, value_count, parts, reached, error);
    if (status != KN_OK) return status;
    update_all(&update, parts, reached);
    if (bound->error.status != KN_OK) return kn_error_copy(error, &bound->error);
    return KN_OK;
}
