/* The once pass: finds steps that need not run again until a state that they read changes. It examines the
 * memory that steps access, so it does not rely on information from earlier passes. */
#include "plan/plan_private.h"

/* ---- steps ------------------------------------------------------------------------------------------ */

typedef struct once_pass {
    kn_planner *planner;
    bool *invariant;         /* by value id, of memory roots: written only by steps that run once */
    bool *invariant_scratch; /* by scratch id */
} once_pass;

static bool *invariant_of(const once_pass *pass, const kn_argument *argument) {
    if (argument->kind == KN_ARGUMENT_SCRATCH) return &pass->invariant_scratch[argument->integer];
    if (argument->kind != KN_ARGUMENT_VALUE || !argument->value) return NULL;
    return &pass->invariant[kn_memory_root(pass->planner, argument->value)->id];
}

static bool step_widens(const kn_planner *planner, const kn_step *step) {
    uint64_t read = 0, written = 0, bytes;
    if (step->node && step->node->op->transient) return true;
    if (planner->keeps_widened || !step->node || step->node->op->class != KN_CLASS_POINTWISE) return false;
    for (int a = 0; a < step->argument_count; a++) {
        const kn_argument *argument = &step->arguments[a];
        if (argument->kind != KN_ARGUMENT_VALUE || !argument->value) continue;
        if (!kn_value_bytes(argument->value, &bytes)) continue;
        if (argument->reads) read += bytes;
        if (argument->writes) written += bytes;
    }
    return kn_is_widened(read, written);
}

/* Initially all memory is invariant except inputs and states that are written. */
static void begin(const once_pass *pass) {
    const kn_planner *planner = pass->planner;
    for (size_t i = 0; i < planner->graph->value_count; i++)
        pass->invariant[i] = planner->graph->values[i]->kind != KN_VALUE_INPUT;
    for (int i = 0; i < planner->emitter.scratch_count; i++)
        pass->invariant_scratch[i] = true;
    for (int s = 0; s < planner->emitter.step_count; s++) {
        const kn_step *step = planner->emitter.steps[s];
        bool transfers = step->kind >= KN_STEP_SEND;
        planner->once[s] = !transfers && !step_widens(planner, step);
        for (int a = 0; a < step->argument_count; a++) {
            const kn_argument *argument = &step->arguments[a];
            if (argument->kind == KN_ARGUMENT_VALUE && argument->value && argument->writes &&
                kn_memory_root(planner, argument->value)->kind == KN_VALUE_STATE)
                *invariant_of(pass, argument) = false;
        }
    }
}

/* A step that accesses memory that is not invariant runs each time, and what it writes is not invariant.
 * Returns whether anything changed. */
static bool propagate(const once_pass *pass) {
    kn_planner *planner = pass->planner;
    bool changed = false;
    for (int s = 0; s < planner->emitter.step_count; s++) {
        const kn_step *step = planner->emitter.steps[s];
        planner->work++;
        for (int a = 0; a < step->argument_count && planner->once[s]; a++) {
            const bool *invariant = invariant_of(pass, &step->arguments[a]);
            if (invariant && !*invariant) planner->once[s] = false;
        }
        for (int a = 0; a < step->argument_count && !planner->once[s]; a++) {
            bool *invariant = step->arguments[a].writes ? invariant_of(pass, &step->arguments[a]) : NULL;
            changed = changed || (invariant && *invariant);
            if (invariant) *invariant = false;
        }
    }
    return changed;
}

kn_status kn_pass_once(kn_planner *planner) {
    once_pass pass = {.planner = planner};
    size_t steps = (size_t)planner->emitter.step_count, values = planner->graph->value_count;
    planner->once = kn_arena_take(planner->arena, steps + 1, sizeof(bool));
    pass.invariant = kn_arena_take(planner->arena, values + 1, sizeof(bool));
    pass.invariant_scratch =
        kn_arena_take(planner->arena, (size_t)planner->emitter.scratch_count + 1, sizeof(bool));
    if (!planner->once || !pass.invariant || !pass.invariant_scratch)
        return kn_fail_memory(planner->error, steps + values);
    if (!planner->request->keeps) return KN_OK;
    begin(&pass);
    while (propagate(&pass))
        ;
    return KN_OK;
}

/* ---- memory ----------------------------------------------------------------------------------------- */

static kn_placement *placement_of(const kn_planner *planner, const kn_argument *argument) {
    if (argument->kind == KN_ARGUMENT_SCRATCH) return &planner->scratches[argument->integer];
    if (argument->kind != KN_ARGUMENT_VALUE || !argument->value) return NULL;
    return &planner->placements[planner->placements[argument->value->id].root->id];
}

void kn_once_keep(kn_planner *planner) {
    const kn_emitter *emitter = &planner->emitter;
    for (int s = 0; s < emitter->step_count; s++)
        for (int a = 0; a < emitter->steps[s]->argument_count && planner->once[s]; a++) {
            const kn_argument *argument = &emitter->steps[s]->arguments[a];
            kn_placement *placement = placement_of(planner, argument);
            if (placement && placement->storage == KN_STORAGE_SCRATCH && argument->writes)
                placement->invariant = true;
        }
    for (int s = 0; s < emitter->step_count; s++)
        for (int a = 0; a < emitter->steps[s]->argument_count; a++) {
            kn_placement *placement = placement_of(planner, &emitter->steps[s]->arguments[a]);
            if (!placement || !placement->invariant || placement->kept) continue;
            /* Read in each run, or by the caller after it. */
            placement->kept = !planner->once[s] || placement->last == emitter->step_count;
        }
    for (size_t i = 0; i < planner->placement_count + (size_t)emitter->scratch_count; i++) {
        kn_placement *placement = i < planner->placement_count
                                      ? &planner->placements[i]
                                      : &planner->scratches[i - planner->placement_count];
        if (!placement->kept) continue;
        placement->first = 0;
        placement->last = emitter->step_count;
    }
}
