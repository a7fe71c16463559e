/* The sums pass: launches that only add parts, such as those of split gradients of weights, are postponed
 * until a step needs one of their results, and then merged into one launch. */
#include <string.h>

#include "ops/ops.h"
#include "plan/plan_private.h"

/* Postponed sums: all of the types of `first`. */
typedef struct waiting_sums {
    kn_step *first;
    int group; /* group of the last sum */
    int count;
    kn_part_sum sums[KN_MAX_SUMS];
} waiting_sums;

static bool can_join(const waiting_sums *waiting, const kn_step *step) {
    return waiting->count == 0 || (waiting->count + step->sum_count <= KN_MAX_SUMS &&
                                   !strcmp(step->prelude, waiting->first->prelude));
}

static void join(waiting_sums *waiting, kn_step *step, int group) {
    if (waiting->count == 0) waiting->first = step;
    waiting->group = group;
    memcpy(waiting->sums + waiting->count, step->sums, (size_t)step->sum_count * sizeof *step->sums);
    waiting->count += step->sum_count;
}

static bool touches(kn_planner *planner, const kn_step *step, const waiting_sums *waiting) {
    for (int a = 0; a < step->argument_count; a++) {
        planner->work++;
        const kn_argument *argument = &step->arguments[a];
        const kn_value *root = argument->kind == KN_ARGUMENT_VALUE && argument->value
                                   ? kn_memory_root(planner, argument->value)
                                   : NULL;
        for (int i = 0; i < waiting->count; i++)
            if ((root && root == kn_memory_root(planner, waiting->sums[i].result)) ||
                (argument->kind == KN_ARGUMENT_SCRATCH && argument->integer == waiting->sums[i].partials &&
                 !step->sum_count))
                return true;
    }
    return false;
}

static bool is_pointwise(const kn_step *step) {
    return step->kind == KN_STEP_KERNEL && !strcmp(step->file, "pointwise/pointwise.cl");
}

/* Whether step s needs a sum or, if it begins a run of pointwise steps, whether a step of the run needs one:
 * the bucket pass merges such a run, so nothing may be inserted into it. */
static bool needs(kn_planner *planner, int s, bool begins, const waiting_sums *waiting) {
    kn_step *const *steps = planner->emitter.steps;
    if (touches(planner, steps[s], waiting)) return true;
    for (int next = s + 1; begins && next < planner->emitter.step_count && is_pointwise(steps[next]); next++)
        if (touches(planner, steps[next], waiting)) return true;
    return false;
}

/* Adds one step for the postponed sums, after the steps so far. */
static kn_status end_waiting(kn_planner *planner, waiting_sums *waiting, int *kept) {
    if (waiting->count == 0) return KN_OK;
    kn_step *step = waiting->first;
    if (waiting->count > step->sum_count) {
        step = kn_merged_step(planner, step, waiting->count);
        if (!step) return planner->error->status;
        kn_step_sums(step, planner->target, waiting->sums, waiting->count);
        kn_status status = kn_step_complete(step, planner->target, planner->error);
        if (status != KN_OK) return status;
    }
    planner->step_group[*kept] = waiting->group;
    planner->emitter.steps[(*kept)++] = step;
    waiting->count = 0;
    return KN_OK;
}

kn_status kn_pass_sums(kn_planner *planner) {
    waiting_sums waiting = {.count = 0};
    kn_status status = KN_OK;
    int kept = 0;
    bool in_run = false;
    for (int s = 0; s < planner->emitter.step_count && status == KN_OK; s++) {
        kn_step *step = planner->emitter.steps[s];
        int group = planner->step_group[s];
        planner->work++;
        if (step->given) continue;
        /* Steps that run once are not merged with steps that run each time. */
        bool waits = step->sum_count > 0 && !planner->invariant[step->sums[0].result->id];
        bool begins = is_pointwise(step) && !in_run;
        in_run = is_pointwise(step);
        if (needs(planner, s, begins, &waiting) || (waits && !can_join(&waiting, step)))
            status = end_waiting(planner, &waiting, &kept);
        if (status != KN_OK) break;
        if (!waits) {
            planner->step_group[kept] = group;
            planner->emitter.steps[kept++] = step;
            continue;
        }
        join(&waiting, step, group);
    }
    if (status == KN_OK) status = end_waiting(planner, &waiting, &kept);
    if (status == KN_OK) planner->emitter.step_count = kept;
    return status;
}
