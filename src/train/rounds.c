/* Training in rounds (kn_trainer_params.sync_every): each worker takes steps without exchange, on its samples
 * and its copy of the parameters. At the end of a round the workers exchange their changes since its
 * beginning, and all continue from the same parameters, after one step of SGD with Nesterov momentum along
 * the mean change, as in DiLoCo (Douillard et al. 2023). Running statistics and moving averages become their
 * means. All of it is computed on the host, since rounds are rare. */
#include <stdio.h>
#include <string.h>

#include "train/trainer_private.h"

/* Numbers that are exchanged at once; a larger value is exchanged separately. */
enum { BUCKET = 1 << 20 };
/* The state PARAMETER.outer, only on the host: the momentum of the changes. */
#define OUTER "outer"

/* A float32 state that becomes equal on all workers. */
struct kn_round_value {
    char *name;
    kn_tensor_info info;
    uint64_t count;
    bool trained; /* otherwise it becomes the mean */
    bool average; /* the moving average of the preceding value */
    float *start; /* its numbers at the beginning of the round */
};

static kn_status fail_states(kn_trainer *trainer) {
    return kn_fail(&trainer->error, KN_ERROR_INTERNAL, "a round of sync_every: %s",
                   kn_states_error(trainer->states));
}

/* ---- the beginning ------------------------------------------------------------------------------- */

static kn_status add_value(kn_trainer *trainer, const char *name, bool trained) {
    kn_rounds *rounds = &trainer->rounds;
    kn_round_value value = {.trained = trained};
    uint64_t bytes;
    if (!kn_states_info(trainer->states, name, &value.info) || !kn_tensor_bytes(&value.info, &bytes) ||
        !bytes)
        return KN_OK;
    value.count = bytes / sizeof *value.start;
    if (!kn_reserve(&trainer->host, (void **)&rounds->values, &rounds->capacity, rounds->count + 1,
                    sizeof *rounds->values))
        return kn_fail_memory(&trainer->error, sizeof value);
    value.name = kn_copy_text(&trainer->host, name);
    value.start = kn_allocate(&trainer->host, (size_t)value.count, sizeof *value.start);
    rounds->values[rounds->count++] = value;
    return value.name && value.start ? KN_OK : kn_fail_memory(&trainer->error, (size_t)bytes);
}

/* In the order of the graph, which is the same on all workers. */
static kn_status list_values(kn_trainer *trainer) {
    const kn_graph *graph = trainer->loss->graph;
    kn_status status = KN_OK;
    for (size_t i = 0; i < graph->value_count && status == KN_OK; i++) {
        const kn_value *value = graph->values[i];
        char average[KN_TRAIN_STATE_BYTES];
        const bool trained = kn_trainer_trains(&trainer->params, value);
        const bool statistic = value->kind == KN_VALUE_STATE && value->role == KN_STATE_STATISTIC &&
                               value->shape.dtype == KN_FLOAT32;
        if (trained || statistic) status = add_value(trainer, value->name, trained);
        if (trained && status == KN_OK && trainer->params.average > 0 &&
            kn_train_state_name(value->name, KN_TRAIN_AVERAGE, average)) {
            const size_t before = trainer->rounds.count;
            status = add_value(trainer, average, false);
            if (trainer->rounds.count > before) trainer->rounds.values[before].average = true;
        }
    }
    if (status != KN_OK) kn_rounds_close(trainer);
    return status;
}

kn_status kn_rounds_begin(kn_trainer *trainer) {
    kn_rounds *rounds = &trainer->rounds;
    if (!trainer->params.sync_every || rounds->steps) return KN_OK;
    kn_status status = rounds->count ? KN_OK : list_values(trainer);
    for (size_t i = 0; i < rounds->count && status == KN_OK; i++) {
        kn_round_value *value = &rounds->values[i];
        if (kn_states_get(trainer->states, value->name, value->start, (size_t)value->count * sizeof(float)) !=
            KN_OK)
            status = fail_states(trainer);
    }
    return status;
}

/* ---- the end ------------------------------------------------------------------------------------- */

/* Workers that end rounds after different steps would wait for each other, or mix values. *averaged: whether
 * the moving averages of all workers have begun. */
static kn_status compare_rounds(kn_trainer *trainer, bool *averaged) {
    typedef struct place {
        uint64_t steps, done, averaged;
    } place;
    const kn_communicator *all = trainer->params.communicator;
    const place own = {trainer->rounds.steps, trainer->steps, kn_average_updates(trainer)};
    *averaged = own.averaged > 0;
    if (!all || all->ranks < 2) return KN_OK;
    place *places = kn_allocate(&trainer->host, (size_t)all->ranks, sizeof *places);
    if (!places) return kn_fail_memory(&trainer->error, (size_t)all->ranks * sizeof *places);
    kn_status status =
        kn_communicator_fail(all, kn_all_gather(all, &own, places, sizeof own), &trainer->error);
    for (int r = 0; r < all->ranks && status == KN_OK; r++) {
        *averaged = *averaged && places[r].averaged > 0;
        if (places[r].steps != own.steps || places[r].done != own.done)
            status =
                kn_fail(&trainer->error, KN_ERROR_ARGUMENT,
                        "rank %d ends a round of %llu steps after step %llu, but rank %d a round of %llu "
                        "after step %llu; expected the same sync_every and the same calls of all workers",
                        r, (unsigned long long)places[r].steps, (unsigned long long)places[r].done, all->rank,
                        (unsigned long long)own.steps, (unsigned long long)own.done);
    }
    kn_release(&trainer->host, places);
    return status;
}

/* A step of SGD with Nesterov momentum as in PyTorch. `change` becomes the new numbers, `momentum` is read
 * and written; NULL: none. */
static void step_outer(const kn_round_value *value, double rate, double share, float *change,
                       float *momentum) {
    const float factor = (float)rate, kept = (float)share;
    for (uint64_t i = 0; i < value->count; i++) {
        float step = change[i];
        if (momentum) {
            momentum[i] = kept * momentum[i] + change[i];
            step += kept * momentum[i];
        }
        change[i] = value->start[i] - factor * step;
    }
}

/* `change`: the mean over the workers of the start minus the current numbers; overwritten. momentum: memory
 * for as many numbers. */
static kn_status set_value(kn_trainer *trainer, const kn_round_value *value, float *change, float *momentum) {
    const kn_trainer_params *params = &trainer->params;
    kn_states *states = trainer->states;
    const size_t bytes = (size_t)value->count * sizeof *change;
    char name[KN_TRAIN_STATE_BYTES];
    const bool moves = value->trained && params->outer_momentum > 0;
    if (moves && !kn_train_state_name(value->name, OUTER, name))
        return kn_fail(&trainer->error, KN_ERROR_UNSUPPORTED, "the name '%s' is too long", value->name);
    if (moves && kn_states_info(states, name, NULL) && kn_states_get(states, name, momentum, bytes) != KN_OK)
        return fail_states(trainer);
    step_outer(value, value->trained ? params->outer_rate : 1, params->outer_momentum, change,
               moves ? momentum : NULL);
    if ((moves && kn_states_set(states, name, &value->info, momentum, bytes) != KN_OK) ||
        kn_states_set(states, value->name, NULL, change, bytes) != KN_OK)
        return fail_states(trainer);
    return KN_OK;
}

/* This worker's change, times its fraction of the samples of the round. */
static kn_status read_change(kn_trainer *trainer, const kn_round_value *value, float weight, float *change) {
    if (kn_states_get(trainer->states, value->name, change, (size_t)value->count * sizeof *change) != KN_OK)
        return fail_states(trainer);
    for (uint64_t i = 0; i < value->count; i++)
        change[i] = (value->start[i] - change[i]) * weight;
    return KN_OK;
}

/* Makes values from `first` on equal, as many as are exchanged at once. Returns the index of the next value
 * in *next. */
static kn_status end_bucket(kn_trainer *trainer, size_t first, size_t *next) {
    const kn_rounds *rounds = &trainer->rounds;
    const kn_communicator *all = trainer->params.communicator;
    const float weight = rounds->all > 0 ? (float)(rounds->own / rounds->all) : 0;
    uint64_t count = rounds->values[first].count;
    size_t end = first + 1;
    for (; end < rounds->count && count + rounds->values[end].count <= BUCKET; end++)
        count += rounds->values[end].count;
    *next = end;
    float *changes = kn_allocate(&trainer->host, 2 * (size_t)count, sizeof *changes);
    if (!changes) return kn_fail_memory(&trainer->error, 2 * (size_t)count * sizeof *changes);
    kn_status status = KN_OK;
    float *at = changes;
    for (size_t i = first; i < end && status == KN_OK; at += rounds->values[i++].count)
        status = read_change(trainer, &rounds->values[i], weight, at);
    if (status == KN_OK && all && all->ranks > 1)
        status = kn_communicator_fail(all, kn_all_reduce(all, changes, (size_t)count), &trainer->error);
    at = changes;
    for (size_t i = first; i < end && status == KN_OK; at += rounds->values[i++].count)
        status = set_value(trainer, &rounds->values[i], at, at + count);
    kn_release(&trainer->host, changes);
    return status;
}

/* An average that has not begun on some worker is 0 there: all workers begin it with the new weights. */
static kn_status begin_averages(kn_trainer *trainer) {
    const kn_rounds *rounds = &trainer->rounds;
    kn_status status = KN_OK;
    for (size_t i = 1; i < rounds->count && status == KN_OK; i++) {
        const kn_round_value *value = &rounds->values[i];
        const size_t bytes = (size_t)value->count * sizeof *value->start;
        if (value->average &&
            (kn_states_get(trainer->states, value[-1].name, value->start, bytes) != KN_OK ||
             kn_states_set(trainer->states, value->name, NULL, value->start, bytes) != KN_OK))
            status = fail_states(trainer);
    }
    return status;
}

static void forget_steps(kn_rounds *rounds) {
    rounds->steps = 0;
    rounds->own = rounds->all = 0;
}

kn_status kn_rounds_end(kn_trainer *trainer) {
    kn_rounds *rounds = &trainer->rounds;
    bool averaged;
    if (!trainer->params.sync_every) return KN_OK;
    kn_status status = compare_rounds(trainer, &averaged);
    if (!rounds->steps || status != KN_OK) return status;
    status = kn_average_check(trainer, "a round of sync_every ends");
    if (status != KN_OK) return status;
    for (size_t at = 0; at < rounds->count && status == KN_OK;)
        status = end_bucket(trainer, at, &at);
    if (status == KN_OK && !averaged) status = begin_averages(trainer);
    forget_steps(rounds);
    return status;
}

/* The suffix of a state of a trained parameter, such as "moment1"; NULL: not such a state. */
static const char *suffix_of(const kn_trainer *trainer, const char *name) {
    const kn_graph *graph = trainer->loss->graph;
    char owner[KN_TRAIN_STATE_BYTES];
    snprintf(owner, sizeof owner, "%s", name);
    char *dot = kn_graph_find(graph, name) ? NULL : strrchr(owner, '.');
    for (; dot; dot = strrchr(owner, '.')) {
        *dot = '\0';
        const kn_value *value = kn_graph_find(graph, owner);
        if (value && kn_trainer_trains(&trainer->params, value)) return name + (dot - owner) + 1;
    }
    return NULL;
}

kn_round_kind kn_rounds_kind(const kn_trainer *trainer, const char *state) {
    const char *suffix = suffix_of(trainer, state);
    if (suffix && !strcmp(suffix, OUTER)) return KN_ROUND_OUTER;
    const bool own = suffix ? strcmp(suffix, KN_TRAIN_AVERAGE) != 0
                            : !strncmp(state, KN_TRAIN_LOSS_SCALE, strlen(KN_TRAIN_LOSS_SCALE)) ||
                                  !strcmp(state, KN_TRAIN_AVERAGED);
    return own ? KN_ROUND_OWN : KN_ROUND_EQUAL;
}

/* The samples of a batch that this worker computes, without samples that it computes for nothing. */
static uint64_t counted_samples(const kn_shards *dealt, uint64_t count) {
    uint64_t first, own = 0;
    double weight;
    if (!dealt->count) return count;
    for (int shard = dealt->firsts[dealt->rank]; shard < dealt->firsts[dealt->rank + 1]; shard++) {
        const uint64_t samples = kn_shard_samples(dealt->count, shard, count, &first, &weight);
        if (weight > 0) own += samples;
    }
    return own;
}

kn_status kn_rounds_count(kn_trainer *trainer, uint64_t count) {
    kn_rounds *rounds = &trainer->rounds;
    if (!trainer->params.sync_every) return KN_OK;
    rounds->steps++;
    rounds->all += (double)count;
    rounds->own += (double)counted_samples(&trainer->dealt, count);
    return rounds->steps < trainer->params.sync_every ? KN_OK : kn_rounds_end(trainer);
}

uint64_t kn_trainer_local_steps(const kn_trainer *trainer) {
    return trainer ? trainer->rounds.steps : 0;
}

void kn_rounds_recall(kn_trainer *trainer) {
    kn_rounds *rounds = &trainer->rounds;
    forget_steps(rounds);
    rounds->recalls = true;
    rounds->collected = false;
}

void kn_rounds_close(kn_trainer *trainer) {
    kn_rounds *rounds = &trainer->rounds;
    for (size_t i = 0; i < rounds->count; i++) {
        kn_release(&trainer->host, rounds->values[i].name);
        kn_release(&trainer->host, rounds->values[i].start);
    }
    kn_release(&trainer->host, rounds->values);
    *rounds = (kn_rounds){.values = NULL};
}
