/* The joint pass: small, independent steps that run the same code on different values become one launch, such
 * as the products of queries, keys and values in a language model that generates text token by token.
 *
 * Part p of the launch is in work-items p of dimension 2. The kernel (kn_step.joint) selects the arguments of
 * its part by KN_JOINT_SELECT (cl/common/joint.cl). It ignores work-items beyond its counts, since parts may
 * differ in size. */
#include <string.h>

#include "plan/plan_private.h"

/* MAX_PARTS: steps per launch. MAX_DISTANCE: how many steps apart they may be. MAX_WORK: a step with more
 * FLOPs or bytes runs so much longer than a launch takes that sharing a launch gains nothing. */
enum { MAX_PARTS = 4, MAX_DISTANCE = 16, MAX_WORK = 64 << 20, MAX_ARGUMENT_BYTES = KN_ARGUMENT_BYTES - 64 };

/* Of a node's only step. */
static kn_cost cost_of(const kn_step *step) {
    kn_cost cost = step->cost;
    if (step->node && cost.flops <= 0 && cost.bytes <= 0) kn_node_cost(step->node, &cost);
    return cost;
}

static bool is_possible(const kn_planner *planner, int s) {
    const kn_step *step = planner->emitter.steps[s];
    const int *group = planner->step_group, last = planner->emitter.step_count - 1;
    if (!step->joint || step->dimensions > 2) return false;
    /* Not after a step that prepares something for it. */
    if ((s > 0 && group[s - 1] == group[s]) || (s < last && group[s + 1] == group[s])) return false;
    const kn_cost cost = cost_of(step);
    if (cost.flops > MAX_WORK || cost.bytes > MAX_WORK) return false;
    for (int i = 0; i < step->argument_count; i++) {
        const kn_argument *argument = &step->arguments[i];
        if (!argument->name) return false;
        switch (argument->kind) {
        case KN_ARGUMENT_VALUE:
            if (!argument->value) return false;
            break;
        case KN_ARGUMENT_INT:
        case KN_ARGUMENT_INDEX:
        case KN_ARGUMENT_FLOAT:
        case KN_ARGUMENT_UINT:
            break;
        default:
            return false;
        }
    }
    return true;
}

static bool are_similar(const kn_step *one, const kn_step *other) {
    if (strcmp(one->joint, other->joint) || strcmp(one->prelude, other->prelude) ||
        one->argument_count != other->argument_count || one->any_local != other->any_local)
        return false;
    for (int i = 0; i < 2; i++)
        if (one->local[i] != other->local[i] && !one->any_local) return false;
    for (int i = 0; i < one->argument_count; i++) {
        const kn_argument *left = &one->arguments[i], *right = &other->arguments[i];
        if (left->kind != right->kind || strcmp(left->name, right->name) || left->reads != right->reads ||
            left->writes != right->writes)
            return false;
        if (left->value && left->value->shape.dtype != right->value->shape.dtype) return false;
    }
    return true;
}

/* Whether steps `first` to `first` + `count` and step `step` access the same memory. */
static bool conflicts(kn_planner *planner, int first, int count, const kn_step *step) {
    for (int s = first; s < first + count; s++)
        if (kn_steps_conflict(planner, planner->emitter.steps[s], step)) return true;
    return false;
}

/* Moves step `from` to `to` < `from`. */
static void move_up(const kn_planner *planner, int from, int to) {
    kn_step **steps = planner->emitter.steps, *step = steps[from];
    const int group = planner->step_group[from];
    memmove(steps + to + 1, steps + to, (size_t)(from - to) * sizeof *steps);
    memmove(planner->step_group + to + 1, planner->step_group + to,
            (size_t)(from - to) * sizeof *planner->step_group);
    steps[to] = step;
    planner->step_group[to] = group;
}

/* Moves step `other` after the `count` steps from `first`, or them before it, over steps that are
 * independent. Returns the first of all, or -1 if they cannot meet. */
static int meet(kn_planner *planner, int first, int count, int other) {
    kn_step *const *steps = planner->emitter.steps;
    const int between = other - first - count;
    bool down = true;
    if (conflicts(planner, first, count, steps[other])) return -1;
    if (!conflicts(planner, first + count, between, steps[other])) {
        move_up(planner, other, first + count);
        return first;
    }
    for (int s = first; s < first + count && down; s++)
        down = !conflicts(planner, first + count, between, steps[s]);
    for (int s = first + count; s < other && down; s++)
        move_up(planner, s, s - count);
    return down ? first + between : -1;
}

/* ---- the launch -----------------------------------------------------------------------------------------
 */

static bool is_same(const kn_argument *one, const kn_argument *other) {
    return one->value == other->value && one->integer == other->integer && one->number == other->number;
}

static void add_argument(kn_step *step, const char *name, const kn_argument *argument) {
    kn_argument named = *argument;
    named.name = name;
    named.macro = NULL;
    kn_step_argument(step, named);
}

/* Adds argument i of the steps: once if it is the same for all; else one for each part, among which `select`
 * chooses. */
static void add_arguments(kn_step *step, kn_step *const *parts, int count, int i, kn_text *select) {
    const kn_argument *first = &parts[0]->arguments[i];
    bool same = true;
    for (int p = 1; p < count; p++)
        same = same && is_same(first, &parts[p]->arguments[i]);
    if (same) {
        add_argument(step, first->name, first);
        return;
    }
    if (first->value)
        kn_text_format(select, "global %s%s *%s = ", first->writes ? "" : "const ",
                       kn_opencl_type(first->value->shape.dtype), first->name);
    else
        kn_text_format(select, "const %s %s = ", kn_step_number_type(first->kind), first->name);
    for (int p = 0; p < count; p++) {
        const char *name = kn_step_name(step, "j%d_%s", p, first->name);
        add_argument(step, name, &parts[p]->arguments[i]);
        if (p < count - 1)
            kn_text_format(select, "get_global_id(2) == %d ? %s : ", p, name);
        else
            kn_text_format(select, "%s; ", name);
    }
}

static kn_status merge(kn_planner *planner, kn_step *const *parts, int count, kn_step **merged) {
    kn_step *step = kn_merged_step(planner, parts[0], count);
    size_t global[3] = {1, 1, (size_t)count}, local[3];
    if (!step) return planner->error->status;
    const kn_step *largest = parts[0];
    kn_text select;
    kn_text_init(&select, planner->host);
    step->kernel = parts[0]->joint;
    step->joint = NULL;
    kn_step_generate(step, "KN_JOINT");
    for (int i = 0; i < parts[0]->argument_count; i++)
        add_arguments(step, parts, count, i, &select);
    kn_step_generated(step, "");
    /* The file may have other kernels in the program. */
    kn_step_define(step, kn_step_name(step, "KN_JOINT_%s", parts[0]->kernel), "1");
    kn_step_define(step, "KN_JOINT_SELECT", "%s", kn_text_failed(&select) ? "" : select.data);
    step->cost = (kn_cost){0};
    for (int p = 0; p < count; p++) {
        const kn_cost cost = cost_of(parts[p]);
        step->cost.flops += cost.flops;
        step->cost.bytes += cost.bytes;
        if (parts[p]->global[0] > largest->global[0]) largest = parts[p];
        for (int i = 0; i < 2; i++)
            if (parts[p]->global[i] > global[i]) global[i] = parts[p]->global[i];
    }
    memcpy(local, largest->local, sizeof local);
    local[1] = local[2] = local[0] ? 1 : 0;
    if (largest->dimensions > 1) local[1] = largest->local[1];
    kn_step_size3(step, global, local);
    const kn_status status = kn_text_failed(&select)
                                 ? kn_fail_memory(planner->error, select.length)
                                 : kn_step_complete(step, planner->target, planner->error);
    kn_text_finish(&select);
    *merged = step;
    return status;
}

static size_t joint_bytes(const kn_planner *planner, int first, int count) {
    size_t bytes = 0;
    for (int s = first; s < first + count; s++)
        bytes += kn_step_argument_bytes(planner->emitter.steps[s]);
    return bytes;
}

/* Looks for steps that can be computed with step `first`. *count is their number with it, and the first is
 * returned. */
static int collect(kn_planner *planner, int first, int *count) {
    *count = 1;
    for (int s = first + 1; s < planner->emitter.step_count && *count < MAX_PARTS; s++) {
        planner->work++;
        if (s - first >= MAX_DISTANCE) break;
        if (!is_possible(planner, s) ||
            !are_similar(planner->emitter.steps[first], planner->emitter.steps[s]) ||
            joint_bytes(planner, first, *count) + kn_step_argument_bytes(planner->emitter.steps[s]) >
                MAX_ARGUMENT_BYTES)
            continue;
        const int place = meet(planner, first, *count, s);
        if (place < 0) continue;
        first = place;
        ++*count;
    }
    return first;
}

kn_status kn_pass_joint(kn_planner *planner) {
    kn_emitter *emitter = &planner->emitter;
    kn_status status = KN_OK;
    if (planner->switches->separate_launches) return KN_OK;
    for (int s = 0; s < emitter->step_count && status == KN_OK; s++) {
        int count = 0;
        planner->work++;
        if (!is_possible(planner, s)) continue;
        const int first = collect(planner, s, &count);
        if (count == 1) continue;
        kn_step *step = NULL;
        status = merge(planner, emitter->steps + first, count, &step);
        if (status != KN_OK) break;
        const int rest = emitter->step_count - first - count;
        emitter->steps[first] = step;
        memmove(emitter->steps + first + 1, emitter->steps + first + count,
                (size_t)rest * sizeof *emitter->steps);
        memmove(planner->step_group + first + 1, planner->step_group + first + count,
                (size_t)rest * sizeof *planner->step_group);
        emitter->step_count -= count - 1;
        s--; /* a step from after these may be here now */
    }
    return status;
}
