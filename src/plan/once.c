/* What need not be done in each run: the results of what depends on states alone, as long as nobody writes
 * to these. Inference packs weights and joins the numbers of a batch norm in the first run; the results
 * stay.
 *
 * What pointwise work makes larger is not among them: weights are stored narrow to save memory, which their
 * wide numbers, kept, would take again. These are made anew in each run.
 *
 * kn_find_invariant tells it of values before kernels are chosen, by the graph; kn_pass_once of steps, by the
 * memory that they touch, so that whatever the passes between them did is seen. */
#include "plan/plan_private.h"

/* Below so many bytes read it is small, whatever is made of it. */
enum { LEAST_NARROW = 4096 };

static bool is_widened(uint64_t read, uint64_t written) {
    return read >= LEAST_NARROW && written / 3 >= read / 2;
}

/* ---- values ----------------------------------------------------------------------------------------- */

static bool all_invariant(const kn_making *making, const kn_node *node) {
    for (int i = 0; i < node->input_count; i++)
        if (node->inputs[i] && !making->invariant[node->inputs[i]->id]) return false;
    return true;
}

static bool widens(const kn_node *node) {
    uint64_t read = 0, written = 0, bytes;
    if (node->op->class != KN_CLASS_POINTWISE) return false;
    for (int i = 0; i < node->input_count; i++)
        if (node->inputs[i] && kn_value_bytes(node->inputs[i], &bytes)) read += bytes;
    for (int i = 0; i < node->output_count; i++)
        if (kn_value_bytes(node->outputs[i], &bytes)) written += bytes;
    return is_widened(read, written);
}

kn_status kn_find_invariant(kn_making *making) {
    const kn_graph *graph = making->graph;
    making->invariant = kn_arena_take(making->arena, graph->value_count + 1, sizeof *making->invariant);
    if (!making->invariant) return kn_fail_memory(making->error, graph->value_count);
    for (size_t i = 0; i < graph->value_count; i++)
        making->invariant[i] =
            graph->values[i]->kind == KN_VALUE_STATE || graph->values[i]->kind == KN_VALUE_CONSTANT;
    for (size_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->op->class == KN_CLASS_ASSIGN)
            making->invariant[graph->nodes[i]->inputs[0]->id] = false;
    for (size_t i = 0; i < graph->node_count; i++) {
        const kn_node *node = graph->nodes[i];
        bool invariant = all_invariant(making, node) && !widens(node) && !kn_node_is_receive(node);
        for (int k = 0; k < node->output_count; k++)
            if (node->op->class != KN_CLASS_ASSIGN) making->invariant[node->outputs[k]->id] = invariant;
    }
    return KN_OK;
}

/* ---- steps ------------------------------------------------------------------------------------------ */

typedef struct once_pass {
    kn_making *making;
    bool *invariant;         /* by value id, of memory roots: only steps that run once write it */
    bool *invariant_scratch; /* by the emitter's number */
} once_pass;

static bool *invariant_of(const once_pass *pass, const kn_argument *argument) {
    if (argument->kind == KN_ARGUMENT_SCRATCH) return &pass->invariant_scratch[argument->integer];
    if (argument->kind != KN_ARGUMENT_VALUE || !argument->value) return NULL;
    return &pass->invariant[kn_memory_root(pass->making, argument->value)->id];
}

static bool step_widens(const kn_step *step) {
    uint64_t read = 0, written = 0, bytes;
    if (!step->node || step->node->op->class != KN_CLASS_POINTWISE) return false;
    for (int a = 0; a < step->argument_count; a++) {
        const kn_argument *argument = &step->arguments[a];
        if (argument->kind != KN_ARGUMENT_VALUE || !argument->value) continue;
        if (!kn_value_bytes(argument->value, &bytes)) continue;
        if (argument->reads) read += bytes;
        if (argument->writes) written += bytes;
    }
    return is_widened(read, written);
}

/* At first all memory is invariant but inputs and states that are written. */
static void begin(const once_pass *pass) {
    const kn_making *making = pass->making;
    for (size_t i = 0; i < making->graph->value_count; i++)
        pass->invariant[i] = making->graph->values[i]->kind != KN_VALUE_INPUT;
    for (int i = 0; i < making->emitter.scratch_count; i++)
        pass->invariant_scratch[i] = true;
    for (int s = 0; s < making->emitter.step_count; s++) {
        const kn_step *step = making->emitter.steps[s];
        bool transfers = step->kind == KN_STEP_SEND || step->kind == KN_STEP_RECEIVE;
        making->once[s] = !transfers && !step_widens(step);
        for (int a = 0; a < step->argument_count; a++) {
            const kn_argument *argument = &step->arguments[a];
            if (argument->kind == KN_ARGUMENT_VALUE && argument->value && argument->writes &&
                kn_memory_root(making, argument->value)->kind == KN_VALUE_STATE)
                *invariant_of(pass, argument) = false;
        }
    }
}

/* A step that touches what is not invariant runs each time, and what it writes is not invariant. */
static bool spread(const once_pass *pass) {
    kn_making *making = pass->making;
    bool changed = false;
    for (int s = 0; s < making->emitter.step_count; s++) {
        const kn_step *step = making->emitter.steps[s];
        making->work++;
        for (int a = 0; a < step->argument_count && making->once[s]; a++) {
            const bool *invariant = invariant_of(pass, &step->arguments[a]);
            if (invariant && !*invariant) making->once[s] = false;
        }
        for (int a = 0; a < step->argument_count && !making->once[s]; a++) {
            bool *invariant = step->arguments[a].writes ? invariant_of(pass, &step->arguments[a]) : NULL;
            changed = changed || (invariant && *invariant);
            if (invariant) *invariant = false;
        }
    }
    return changed;
}

kn_status kn_pass_once(kn_making *making) {
    once_pass pass = {.making = making};
    size_t steps = (size_t)making->emitter.step_count, values = making->graph->value_count;
    making->once = kn_arena_take(making->arena, steps + 1, sizeof(bool));
    pass.invariant = kn_arena_take(making->arena, values + 1, sizeof(bool));
    pass.invariant_scratch =
        kn_arena_take(making->arena, (size_t)making->emitter.scratch_count + 1, sizeof(bool));
    if (!making->once || !pass.invariant || !pass.invariant_scratch)
        return kn_fail_memory(making->error, steps + values);
    if (!making->keeps) return KN_OK;
    begin(&pass);
    while (spread(&pass))
        ;
    return KN_OK;
}

/* ---- memory ----------------------------------------------------------------------------------------- */

static kn_placement *placement_of(const kn_making *making, const kn_argument *argument) {
    if (argument->kind == KN_ARGUMENT_SCRATCH) return &making->scratches[argument->integer];
    if (argument->kind != KN_ARGUMENT_VALUE || !argument->value) return NULL;
    return &making->placements[making->placements[argument->value->id].root->id];
}

void kn_once_keep(kn_making *making) {
    const kn_emitter *emitter = &making->emitter;
    for (int s = 0; s < emitter->step_count; s++)
        for (int a = 0; a < emitter->steps[s]->argument_count && making->once[s]; a++) {
            const kn_argument *argument = &emitter->steps[s]->arguments[a];
            kn_placement *placement = placement_of(making, argument);
            if (placement && placement->home == KN_HOME_SCRATCH && argument->writes)
                placement->invariant = true;
        }
    for (int s = 0; s < emitter->step_count; s++)
        for (int a = 0; a < emitter->steps[s]->argument_count; a++) {
            kn_placement *placement = placement_of(making, &emitter->steps[s]->arguments[a]);
            if (!placement || !placement->invariant || placement->kept) continue;
            /* Read in each run, or by the caller after it. */
            placement->kept = !making->once[s] || placement->last == emitter->step_count;
        }
    for (size_t i = 0; i < making->placement_count + (size_t)emitter->scratch_count; i++) {
        kn_placement *placement = i < making->placement_count
                                      ? &making->placements[i]
                                      : &making->scratches[i - making->placement_count];
        if (!placement->kept) continue;
        placement->first = 0;
        placement->last = emitter->step_count;
    }
}
