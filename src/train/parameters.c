/* The parameters of a trainer: defaults, checks of their combinations (config.c checks single values), copies
 * of the data they point to, and the group of each parameter. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "train/optimizer.h"
#include "train/trainer_private.h"

const char *kn_moments_name(kn_moments moments) {
#define KN_MOMENTS_ROW(name, number, text) [number] = text,
    static const char *const names[] = {KN_MOMENTS_LIST(KN_MOMENTS_ROW)};
    return (unsigned)moments < KN_COUNT_OF(names) ? names[moments] : NULL;
}

KN_DEFINE_INIT(kn_trainer_params, KN_TRAINER_DEFAULTS)

void kn_trainer_params_choose(kn_trainer_params *params, kn_optimizer optimizer) {
    if (!params) return;
    params->optimizer = optimizer;
    const kn_optimizer_row *row = kn_optimizer_row_of(optimizer);
    if (!row) return; /* kn_trainer_create reports it */
    params->learning_rate = row->usual.learning_rate;
    params->momentum = row->usual.momentum;
    params->beta1 = row->usual.beta1;
    params->beta2 = row->usual.beta2;
    params->epsilon = row->usual.epsilon;
    params->weight_decay = row->usual.weight_decay;
}

/* ---- checks -------------------------------------------------------------------------------------------- */

static kn_status check_rule(const kn_trainer_params *params, kn_error *error) {
    if (params->moments != KN_MOMENTS_FLOAT32 && params->optimizer == KN_OPTIMIZER_RMSPROP &&
        params->centered)
        return kn_fail(error, KN_ERROR_ARGUMENT,
                       "`centered` needs the difference of two moments, which must be float32 and "
                       "are %s: unset `centered`, or store float32",
                       kn_moments_name(params->moments));
    if (params->offload_optimizer && params->shard_optimizer)
        return kn_fail(error, KN_ERROR_UNSUPPORTED,
                       "moments are on several devices in parts (shard_optimizer), or in host memory "
                       "(offload_optimizer): use only one of the two");
    if (params->gradient_dtype != KN_FLOAT32 && params->sum_any_order)
        return kn_fail(
            error, KN_ERROR_ARGUMENT,
            "gradients exchanged as %s cannot be added by the communicator, which only adds float32: "
            "leave gradient_dtype or sum_any_order out",
            kn_dtype_name(params->gradient_dtype));
    if (params->nesterov && (params->momentum == 0 || params->dampening != 0))
        return kn_fail(error, KN_ERROR_ARGUMENT,
                       "Nesterov momentum needs a momentum above 0 and no dampening; they are %g and %g",
                       params->momentum, params->dampening);
    return KN_OK;
}

/* Checks parameters of training in rounds. */
static kn_status check_rounds(const kn_trainer_params *params, kn_error *error) {
    const char *other = params->shard_optimizer                ? "shard_optimizer"
                        : params->sync_batch_norm              ? "sync_batch_norm"
                        : params->sum_any_order                ? "sum_any_order"
                        : params->gradient_dtype != KN_FLOAT32 ? "gradient_dtype"
                                                               : NULL;
    if (!params->sync_every) return KN_OK;
    if (params->sync_every % params->accumulate)
        return kn_fail(error, KN_ERROR_ARGUMENT,
                       "a round of %llu steps (sync_every) would end within an update of %llu steps "
                       "(accumulate); expected a multiple of that, such as %llu",
                       (unsigned long long)params->sync_every, (unsigned long long)params->accumulate,
                       (unsigned long long)(params->sync_every / params->accumulate + 1) *
                           params->accumulate);
    if (!other) return KN_OK;
    return kn_fail(
        error, KN_ERROR_UNSUPPORTED,
        "%s concerns the exchange between workers in each step, but with sync_every they take %llu steps "
        "without exchange: the two are mutually exclusive",
        other, (unsigned long long)params->sync_every);
}

static kn_status check_schedule(const kn_trainer_params *params, kn_error *error) {
    if (params->milestone_count && !params->milestones)
        return kn_fail(error, KN_ERROR_ARGUMENT, "%zu milestones, but their list is NULL",
                       params->milestone_count);
    for (size_t i = 1; i < params->milestone_count; i++)
        if (params->milestones[i] < params->milestones[i - 1])
            return kn_fail(
                error, KN_ERROR_ARGUMENT, "milestone %zu is %llu, after %llu; expected ascending milestones",
                i, (unsigned long long)params->milestones[i], (unsigned long long)params->milestones[i - 1]);
    return KN_OK;
}

/* ---- groups -------------------------------------------------------------------------------------------- */

/* The caller's group at `position`; structs of the calling program may be shorter or longer than this
 * library's. */
static const void *group_at(const kn_trainer_params *params, size_t position) {
    return (const char *)params->groups + position * params->groups[0].size;
}

static kn_status copy_groups(kn_trainer *trainer) {
    kn_trainer_params *params = &trainer->params;
    kn_error *error = &trainer->error;
    size_t count = params->group_count, settings = 2 * (count + 1);
    if (count && (!params->groups || params->groups[0].size < sizeof(size_t) + sizeof(char *)))
        return kn_fail(error, KN_ERROR_ARGUMENT, "%zu parameter groups, but their list is NULL or has size 0",
                       count);
    trainer->groups = kn_allocate(&trainer->host, count + 1, sizeof *trainer->groups);
    trainer->settings = kn_allocate(&trainer->host, settings, sizeof *trainer->settings);
    if (!trainer->groups || !trainer->settings)
        return kn_fail_memory(error, settings * sizeof *trainer->settings);
    trainer->setting_count = settings;
    for (size_t i = 0; i < count; i++) {
        kn_parameter_group group = KN_PARAMETER_GROUP_DEFAULTS;
        if (KN_PARAMS_TAKE(kn_parameter_group, &group, group_at(params, i), error) != KN_OK)
            return error->status;
        if (!group.pattern || !(group.rate_factor >= 0) || isinf(group.rate_factor) ||
            !(group.weight_decay >= 0 || group.weight_decay == -1) || isinf(group.weight_decay))
            return kn_fail(error, KN_ERROR_ARGUMENT,
                           "group '%s' has a factor of %g and a weight decay of %g; expected a pattern, "
                           "numbers of at least 0, or -1 for the trainer's weight decay",
                           group.pattern ? group.pattern : "NULL", group.rate_factor, group.weight_decay);
        group.pattern = kn_copy_text(&trainer->host, group.pattern);
        if (!group.pattern) return kn_fail_memory(error, 64);
        if (group.weight_decay < 0) group.weight_decay = params->weight_decay;
        trainer->groups[i] = group;
    }
    for (size_t i = 0; i < settings; i++) {
        const kn_parameter_group *group = i >= 2 ? &trainer->groups[i / 2 - 1] : NULL;
        double decay = group ? group->weight_decay : params->weight_decay;
        trainer->settings[i] = (kn_update_setting){.rate_factor = group ? group->rate_factor : 1,
                                                   .weight_decay = i % 2 ? 0 : decay,
                                                   .momentum = kn_optimizer_momentum(params),
                                                   .beta2 = params->beta2};
    }
    params->groups = trainer->groups;
    return KN_OK;
}

int kn_trainer_setting_of(const kn_trainer_params *params, const kn_value *parameter) {
    int setting = 0;
    for (size_t i = params->group_count; i-- > 0 && !setting;) {
        if (!kn_pattern_fits(params->groups[i].pattern, parameter->name)) continue;
        if (params->groups[i].frozen) return -1;
        setting = 2 * (int)(i + 1);
    }
    return setting + (params->decay_matrices_only && parameter->shape.rank < 2);
}

bool kn_trainer_trains(const kn_trainer_params *params, const kn_value *value) {
    return value->kind == KN_VALUE_STATE && value->role == KN_STATE_PARAMETER && !value->frozen &&
           value->shape.dtype == KN_FLOAT32 && kn_trainer_setting_of(params, value) >= 0;
}

/* NULL if the value is not a parameter. */
static const char *parameter_name(const kn_value *value) {
    return value && value->kind == KN_VALUE_STATE && value->role == KN_STATE_PARAMETER ? value->name : NULL;
}

/* Whether the pattern matches a parameter that a needed node reads, or the loss itself; otherwise *example is
 * the first such parameter. */
static bool fits_some(const char *pattern, const kn_value *loss, const bool *needed, const char **example) {
    const kn_graph *graph = loss->graph;
    *example = parameter_name(loss);
    if (*example && kn_pattern_fits(pattern, *example)) return true;
    for (size_t i = 0; i < graph->node_count; i++)
        for (int k = 0; k < graph->nodes[i]->input_count && needed[i]; k++) {
            const char *name = parameter_name(graph->nodes[i]->inputs[k]);
            if (name && !*example) *example = name;
            if (name && kn_pattern_fits(pattern, name)) return true;
        }
    return false;
}

kn_status kn_trainer_check_groups(kn_trainer *trainer, kn_value *loss) {
    if (!trainer->params.group_count) return KN_OK;
    bool *needed = kn_allocate(&trainer->host, loss->graph->node_count + 1, sizeof *needed);
    kn_status status = needed ? kn_graph_needed(loss->graph, loss, needed, &trainer->error)
                              : kn_fail_memory(&trainer->error, loss->graph->node_count);
    for (size_t i = 0; i < trainer->params.group_count && status == KN_OK; i++) {
        const char *pattern = trainer->groups[i].pattern, *example = NULL;
        if (!fits_some(pattern, loss, needed, &example))
            status =
                kn_fail(&trainer->error, KN_ERROR_ARGUMENT,
                        "group '%s' matches none of the parameters that the loss depends on; expected "
                        "one of their names, such as '%s', where * matches any characters and ? matches one",
                        pattern, example ? example : "(there are none)");
    }
    kn_release(&trainer->host, needed);
    return status;
}

/* ---- copying -------------------------------------------------------------------------------- */

/* Copies the data that params point to and the trainer reads later. */
static kn_status copy_session(kn_trainer *trainer) {
    kn_session_params *running = &trainer->running;
    *running = (kn_session_params)KN_SESSION_DEFAULTS;
    kn_status status = KN_PARAMS_TAKE(kn_session_params, running, trainer->params.session, &trainer->error);
    trainer->params.session = NULL;
    if (status != KN_OK || !running->switches) return status;
    running->switches = trainer->switches = kn_copy_text(&trainer->host, running->switches);
    return trainer->switches ? KN_OK : kn_fail_memory(&trainer->error, 64);
}

static kn_status copy_milestones(kn_trainer *trainer) {
    kn_trainer_params *own = &trainer->params;
    if (!own->milestone_count) return KN_OK;
    trainer->milestones = kn_allocate(&trainer->host, own->milestone_count, sizeof *trainer->milestones);
    if (!trainer->milestones)
        return kn_fail_memory(&trainer->error, own->milestone_count * sizeof *trainer->milestones);
    memcpy(trainer->milestones, own->milestones, own->milestone_count * sizeof *trainer->milestones);
    own->milestones = trainer->milestones;
    return KN_OK;
}

/* Determines which shards this worker computes. */
static kn_status deal_shards(kn_trainer *trainer) {
    kn_trainer_params *own = &trainer->params;
    const kn_communicator *communicator = own->communicator;
    if (communicator && !kn_has_size(communicator))
        return kn_fail(&trainer->error, KN_ERROR_ARGUMENT,
                       "the communicator has size 0; expected that of the struct");
    const int ranks = communicator ? communicator->ranks : 1;
    int shards = own->shards;
    if (!shards) {
        shards = ranks & (ranks - 1) ? 16 : ranks;
        while (shards < ranks && shards < KN_MAX_SHARDS)
            shards *= 2;
    }
    kn_status status = kn_shards_deal(&trainer->shards, shards, ranks, communicator ? communicator->rank : 0,
                                      own->shard_counts, &trainer->error);
    own->shard_counts = NULL;
    if (status == KN_OK && own->sync_batch_norm && shards != ranks)
        status =
            kn_fail(&trainer->error, KN_ERROR_UNSUPPORTED,
                    "sync_batch_norm needs all shards of a batch at once, but %d shards are computed by "
                    "%d worker%s, one after the other; expected as many shards as workers, a power of two",
                    shards, ranks, ranks == 1 ? "" : "s");
    if (status == KN_OK && own->sync_batch_norm && own->micro_batch)
        status = kn_fail(&trainer->error, KN_ERROR_UNSUPPORTED,
                         "sync_batch_norm needs all samples of a shard at once, and micro_batch cuts it into "
                         "parts of %llu: use only one of the two",
                         (unsigned long long)own->micro_batch);
    if (shards == 1 && !own->micro_batch) trainer->shards.count = 0;
    trainer->dealt = trainer->shards;
    /* In rounds, a worker computes its samples at once, as if it were the only worker, but with different
     * random numbers. */
    if (own->sync_every)
        trainer->shards = (kn_shards){.count = ranks > 1 || own->micro_batch, .ranks = 1, .firsts = {0, 1}};
    return status;
}

/* Checks params that have their size and defaults. */
static kn_status check(kn_trainer_params *params, kn_error *error) {
    if (!params->accumulate) params->accumulate = 1;
    kn_status status = kn_trainer_check_settings(params, error);
    if (status == KN_OK) status = check_rule(params, error);
    if (status == KN_OK) status = check_rounds(params, error);
    return status == KN_OK ? check_schedule(params, error) : status;
}

kn_status kn_trainer_params_check(const kn_trainer_params *params, char *message, size_t size) {
    kn_error error = {.status = KN_OK};
    kn_trainer_params own = KN_TRAINER_DEFAULTS;
    if (KN_PARAMS_TAKE(kn_trainer_params, &own, params, &error) == KN_OK) check(&own, &error);
    if (message) snprintf(message, size, "%s", error.text);
    return error.status;
}

kn_status kn_trainer_take_params(kn_trainer *trainer, const kn_trainer_params *params) {
    kn_trainer_params *own = &trainer->params;
    kn_trainer_params_init(own);
    kn_error *error = &trainer->error;
    kn_status status = KN_PARAMS_TAKE(kn_trainer_params, own, params, error);
    if (status == KN_OK) status = check(own, error);
    if (status == KN_OK && own->extra_count && !own->extra)
        status =
            kn_fail(error, KN_ERROR_ARGUMENT, "%zu extra values, but their list is NULL", own->extra_count);
    if (status == KN_OK) status = copy_session(trainer);
    if (status == KN_OK) status = copy_groups(trainer);
    if (status == KN_OK) status = deal_shards(trainer);
    return status == KN_OK ? copy_milestones(trainer) : status;
}

void kn_trainer_release_params(kn_trainer *trainer) {
    for (size_t i = 0; i < trainer->params.group_count && trainer->groups; i++)
        kn_release(&trainer->host, (char *)(uintptr_t)trainer->groups[i].pattern);
    kn_release(&trainer->host, trainer->groups);
    kn_release(&trainer->host, trainer->settings);
    kn_release(&trainer->host, trainer->milestones);
    kn_release(&trainer->host, trainer->switches);
    kn_release(&trainer->host, trainer->feeds);
}
