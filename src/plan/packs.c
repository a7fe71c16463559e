/* The packs pass: launches that only pack filters for convolutions are merged. Filters change once per
 * training step, so a launch can pack those of several later convolutions too. */
#include <string.h>

#include "ops/ops.h"
#include "plan/plan_private.h"

/* Kinds of packing launches that are collected at the same time, and the bytes that a launch packs at most:
 * packed filters are in memory from their launch to their convolution. */
enum { MAX_KINDS = 4, MAX_BYTES = 16 << 20 };

/* The filters that step `at` will pack. */
typedef struct collected_packs {
    int at, count;
    uint64_t bytes;
    kn_filter_pack packs[KN_MAX_PACKS];
} collected_packs;

typedef struct packs_pass {
    kn_planner *planner;
    int *written;  /* by value id, of memory roots: 1 + the last step so far that writes it */
    bool *changes; /* by value id, of memory roots: a state that a step writes */
    collected_packs kinds[MAX_KINDS];
    int kind_count;
} packs_pass;

static kn_value *root_of(const kn_planner *planner, const kn_argument *argument) {
    return argument->kind == KN_ARGUMENT_VALUE && argument->value ? kn_memory_root(planner, argument->value)
                                                                  : NULL;
}

static void find_changes(const packs_pass *pass) {
    const kn_emitter *emitter = &pass->planner->emitter;
    for (int s = 0; s < emitter->step_count; s++)
        for (int a = 0; a < emitter->steps[s]->argument_count; a++) {
            const kn_argument *argument = &emitter->steps[s]->arguments[a];
            const kn_value *root = argument->writes ? root_of(pass->planner, argument) : NULL;
            pass->planner->work++;
            if (root && root->kind == KN_VALUE_STATE) pass->changes[root->id] = true;
        }
}

static void note_writes(const packs_pass *pass, int s) {
    const kn_step *step = pass->planner->emitter.steps[s];
    for (int a = 0; a < step->argument_count; a++) {
        const kn_value *root = step->arguments[a].writes ? root_of(pass->planner, &step->arguments[a]) : NULL;
        pass->planner->work++;
        if (root) pass->written[root->id] = s + 1;
    }
}

/* Whether the filter has its value before step `at`. Filters that do not change are packed only once. */
static bool can_move(const packs_pass *pass, const kn_step *step, int at) {
    const kn_value *root = kn_memory_root(pass->planner, step->packs[0].weight);
    return pass->changes[root->id] && pass->written[root->id] <= at;
}

static kn_status end_kind(packs_pass *pass, int kind) {
    kn_planner *planner = pass->planner;
    kn_step **steps = planner->emitter.steps;
    const collected_packs packs = pass->kinds[kind];
    pass->kinds[kind] = pass->kinds[--pass->kind_count];
    if (packs.count == 1) return KN_OK;
    kn_step *step = kn_merged_step(planner, steps[packs.at], packs.count);
    if (!step) return planner->error->status;
    kn_step_packs(step, packs.packs, packs.count);
    steps[packs.at] = step;
    return kn_step_complete(step, planner->target, planner->error);
}

/* *joined: step s, which packs one filter, became a part of an earlier step. */
static kn_status collect(packs_pass *pass, int s, bool *joined) {
    kn_planner *planner = pass->planner;
    kn_step *const *steps = planner->emitter.steps;
    const uint64_t bytes = planner->emitter.scratch_bytes[steps[s]->packs[0].packed];
    int kind = 0;
    kn_status status = KN_OK;
    while (kind < pass->kind_count && strcmp(steps[pass->kinds[kind].at]->prelude, steps[s]->prelude) != 0)
        kind++;
    collected_packs *packs = &pass->kinds[kind];
    *joined = kind < pass->kind_count && packs->count < KN_MAX_PACKS && packs->bytes + bytes <= MAX_BYTES &&
              can_move(pass, steps[s], packs->at);
    if (*joined) {
        packs->packs[packs->count++] = steps[s]->packs[0];
        packs->bytes += bytes;
        return KN_OK;
    }
    if (kind < pass->kind_count || kind == MAX_KINDS) status = end_kind(pass, kind < MAX_KINDS ? kind : 0);
    packs = &pass->kinds[pass->kind_count++];
    *packs = (collected_packs){.at = s, .count = 1, .bytes = bytes, .packs = {steps[s]->packs[0]}};
    return status;
}

kn_status kn_pass_packs(kn_planner *planner) {
    packs_pass pass = {.planner = planner};
    kn_step **steps = planner->emitter.steps;
    const size_t values = planner->graph->value_count;
    int kept = 0;
    kn_status status = KN_OK;
    pass.written = kn_arena_take(planner->arena, values + 1, sizeof *pass.written);
    pass.changes = kn_arena_take(planner->arena, values + 1, sizeof *pass.changes);
    if (planner->switches->separate_packs) return KN_OK;
    if (!pass.written || !pass.changes) return kn_fail_memory(planner->error, values);
    find_changes(&pass);
    for (int s = 0; s < planner->emitter.step_count && status == KN_OK; s++) {
        bool joined = false;
        planner->work++;
        if (steps[s]->pack_count == 1) status = collect(&pass, s, &joined);
        if (joined)
            steps[s] = NULL;
        else
            note_writes(&pass, s);
    }
    while (pass.kind_count && status == KN_OK)
        status = end_kind(&pass, 0);
    if (status != KN_OK) return status;
    for (int s = 0; s < planner->emitter.step_count; s++) {
        if (!steps[s]) continue;
        planner->step_group[kept] = planner->step_group[s];
        steps[kept++] = steps[s];
    }
    planner->emitter.step_count = kept;
    return KN_OK;
}
