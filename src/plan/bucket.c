/* The bucket pass: merges consecutive pointwise steps that run the same code on different values, such as the
 * updates of many parameters, into one launch with a set of arguments for each. */
#include <string.h>

#include "plan/plan_private.h"

/* Leave a few bytes of arguments to the driver. */
enum { MAX_SETS = 16, MAX_ARGUMENT_BYTES = KN_ARGUMENT_BYTES - 64 };

/* Only steps whose arguments are a count, pointers, and keys of random numbers: pointwise kernels over one
 * axis. */
static bool is_mergeable(const kn_step *step) {
    if (step->kind != KN_STEP_KERNEL || strcmp(step->file, "pointwise/pointwise.cl") ||
        strcmp(step->kernel, "pointwise"))
        return false;
    for (int i = 0; i < step->argument_count; i++) {
        const kn_argument_kind kind = step->arguments[i].kind;
        if (i ? kind != KN_ARGUMENT_VALUE && kind != KN_ARGUMENT_UINT : kind != KN_ARGUMENT_INDEX)
            return false;
    }
    return step->dimensions == 1 && step->global[0] > 0;
}

static bool can_merge(kn_planner *planner, kn_step *const *steps, int count, const kn_step *next) {
    if (count == MAX_SETS || !is_mergeable(next) || strcmp(steps[0]->prelude, next->prelude)) return false;
    if ((count + 1) * next->argument_count * KN_POINTER_BYTES > MAX_ARGUMENT_BYTES) return false;
    for (int i = 0; i < count; i++)
        if (kn_steps_conflict(planner, steps[i], next)) return false;
    return true;
}

/* Argument i of step s becomes parameter q<s>_<i>, and its count count<s>; the kernel calls the body for each
 * step. */
static void add_sets(kn_step *step, kn_step *const *steps, int count, kn_text *calls) {
    kn_step_generate(step, "KN_BUCKET");
    for (int s = 0; s < count; s++) {
        kn_step_index(step, kn_step_name(step, "count%d", s), steps[s]->arguments[0].integer);
        kn_text_format(calls, "kn_walk(count%d", s);
        for (int i = 1; i < steps[s]->argument_count; i++) {
            const kn_argument *argument = &steps[s]->arguments[i];
            const char *name = kn_step_name(step, "q%d_%d", s, i);
            if (argument->kind == KN_ARGUMENT_UINT)
                kn_step_uint(step, name, (uint32_t)argument->integer);
            else if (!argument->writes)
                kn_step_read(step, name, argument->value);
            else if (!argument->reads)
                kn_step_write(step, name, argument->value);
            else
                kn_step_update(step, name, argument->value);
            kn_text_format(calls, ", q%d_%d", s, i);
        }
        kn_text_add(calls, "); ");
    }
    kn_step_generated(step, "restrict");
}

kn_step *kn_merged_step(kn_planner *planner, const kn_step *first, int count) {
    kn_step *step = kn_arena_copy(planner->arena, first, 1, sizeof *step);
    const char *label = kn_arena_format(planner->arena, "%s and %d more", first->label, count - 1);
    if (!step || !label) {
        kn_fail_memory(planner->error, sizeof *step);
        return NULL;
    }
    step->label = label;
    step->arguments = NULL;
    step->argument_count = step->argument_capacity = 0;
    return step;
}

static kn_status merge(kn_planner *planner, kn_step *const *steps, int count, kn_step **merged) {
    kn_step *step = kn_merged_step(planner, steps[0], count);
    if (!step) return planner->error->status;
    step->kernel = "pointwise_bucket";
    for (int s = 1; s < count; s++) {
        step->cost.flops += steps[s]->cost.flops;
        step->cost.bytes += steps[s]->cost.bytes;
        if (steps[s]->global[0] > step->global[0]) step->global[0] = steps[s]->global[0];
    }
    kn_text calls;
    kn_text_init(&calls, planner->host);
    add_sets(step, steps, count, &calls);
    kn_step_define(step, "KN_BUCKET_CALLS", "%s", kn_text_failed(&calls) ? "" : calls.data);
    kn_status status = kn_text_failed(&calls) ? kn_fail_memory(planner->error, calls.length)
                                              : kn_step_complete(step, planner->target, planner->error);
    kn_text_finish(&calls);
    *merged = step;
    return status;
}

kn_status kn_pass_bucket(kn_planner *planner) {
    kn_step **steps = planner->emitter.steps;
    int count = planner->emitter.step_count, kept = 0;
    for (int i = 0; i < count;) {
        int run = 1;
        planner->work++;
        if (is_mergeable(steps[i]))
            while (i + run < count && can_merge(planner, steps + i, run, steps[i + run]))
                run++;
        /* The merged step takes the position of its last step. */
        int group = planner->step_group[i + run - 1];
        kn_step *step = steps[i];
        if (run > 1) {
            kn_status status = merge(planner, steps + i, run, &step);
            if (status != KN_OK) return status;
        }
        i += run;
        steps[kept] = step;
        planner->step_group[kept++] = group;
    }
    planner->emitter.step_count = kept;
    return KN_OK;
}
