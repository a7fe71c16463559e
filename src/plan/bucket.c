/* The bucket pass: consecutive pointwise steps that run the same code on different values, such as the
 * updates of many parameters, are merged into one launch with a set of arguments for each. */
#include <string.h>

#include "plan/plan_private.h"

/* Every device allows 1024 bytes of kernel arguments; a few are left to the driver. */
enum { MAX_SETS = 16, MAX_ARGUMENT_BYTES = 960 };

/* Only steps whose arguments are a count and pointers: pointwise kernels over one axis. */
static bool is_mergeable(const kn_step *step) {
    if (step->kind != KN_STEP_KERNEL || strcmp(step->file, "pointwise/pointwise.cl") ||
        strcmp(step->kernel, "pointwise"))
        return false;
    for (int i = 0; i < step->argument_count; i++)
        if (step->arguments[i].kind != (i ? KN_ARGUMENT_VALUE : KN_ARGUMENT_INDEX)) return false;
    return step->dimensions == 1 && step->global[0] > 0;
}

static bool conflicts(const kn_planner *planner, const kn_step *left, const kn_step *right) {
    for (int i = 1; i < left->argument_count; i++)
        for (int j = 1; j < right->argument_count; j++) {
            const kn_argument *one = &left->arguments[i], *other = &right->arguments[j];
            if ((one->writes || other->writes) &&
                kn_memory_root(planner, one->value) == kn_memory_root(planner, other->value))
                return true;
        }
    return false;
}

static bool can_merge(const kn_planner *planner, kn_step *const *steps, int count, const kn_step *next) {
    if (count == MAX_SETS || !is_mergeable(next) || strcmp(steps[0]->prelude, next->prelude)) return false;
    if ((count + 1) * next->argument_count * 8 > MAX_ARGUMENT_BYTES) return false;
    for (int i = 0; i < count; i++)
        if (conflicts(planner, steps[i], next)) return false;
    return true;
}

static kn_status write_prelude(kn_planner *planner, kn_step *const *steps, int count, kn_text *text) {
    kn_text_add(text, steps[0]->prelude);
    kn_text_add(text, "#define KN_BUCKET_PARAMETERS ");
    for (int s = 0; s < count; s++) {
        kn_text_format(text, "%sconst KN_INDEX count%d", s ? ", " : "", s);
        for (int i = 1; i < steps[s]->argument_count; i++) {
            const kn_argument *argument = &steps[s]->arguments[i];
            kn_text_format(text, ", global %s%s *restrict q%d_%d", argument->writes ? "" : "const ",
                           kn_opencl_type(argument->value->shape.dtype), s, i);
        }
    }
    kn_text_add(text, "\n#define KN_BUCKET_CALLS ");
    for (int s = 0; s < count; s++) {
        kn_text_format(text, "kn_walk(count%d", s);
        for (int i = 1; i < steps[s]->argument_count; i++)
            kn_text_format(text, ", q%d_%d", s, i);
        kn_text_add(text, "); ");
    }
    kn_text_add(text, "\n");
    return kn_text_failed(text) ? kn_fail_memory(planner->error, text->length) : KN_OK;
}

static kn_status merge(kn_planner *planner, kn_step *const *steps, int count, kn_step **merged) {
    kn_step *step = kn_arena_copy(planner->arena, steps[0], 1, sizeof *step);
    int arguments = 0;
    for (int s = 0; s < count; s++)
        arguments += steps[s]->argument_count;
    kn_argument *all = kn_arena_take(planner->arena, (size_t)arguments, sizeof *all);
    if (!step || !all) return kn_fail_memory(planner->error, sizeof *step + (size_t)arguments * sizeof *all);
    step->arguments = all;
    step->argument_count = step->argument_capacity = arguments;
    step->cost = (kn_cost){0, 0};
    for (int s = 0; s < count; s++) {
        memcpy(all, steps[s]->arguments, (size_t)steps[s]->argument_count * sizeof *all);
        all += steps[s]->argument_count;
        step->cost.flops += steps[s]->cost.flops;
        step->cost.bytes += steps[s]->cost.bytes;
        if (steps[s]->global[0] > step->global[0]) step->global[0] = steps[s]->global[0];
    }
    kn_text text;
    kn_text_init(&text, planner->host);
    kn_status status = write_prelude(planner, steps, count, &text);
    if (status == KN_OK) {
        step->prelude = kn_arena_text(planner->arena, text.data);
        step->label = kn_arena_format(planner->arena, "%s and %d more", steps[0]->label, count - 1);
        step->kernel = "pointwise_bucket";
        if (!step->prelude || !step->label) status = kn_fail_memory(planner->error, text.length);
    }
    kn_text_finish(&text);
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
        /* The merged step takes the position of the last of them. */
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
