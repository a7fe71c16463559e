/* The pairs pass: two independent steps that leave compute units idle become one launch, if they have a
 * kernel for that (kn_step.pair): the two directions of a recurrent layer. */
#include <string.h>

#include "plan/plan_private.h"

/* The second step is searched for among this many steps after the first. */
enum { MAX_DISTANCE = 64 };

static bool share_memory(const kn_planner *planner, const kn_argument *one, const kn_argument *other) {
    if (one->kind != other->kind) return false;
    if (one->kind == KN_ARGUMENT_SCRATCH) return one->integer == other->integer;
    return one->kind == KN_ARGUMENT_VALUE && one->value && other->value &&
           kn_memory_root(planner, one->value) == kn_memory_root(planner, other->value);
}

bool kn_steps_conflict(kn_planner *planner, const kn_step *one, const kn_step *other) {
    planner->work++;
    for (int i = 0; i < one->argument_count; i++)
        for (int j = 0; j < other->argument_count; j++) {
            const kn_argument *left = &one->arguments[i], *right = &other->arguments[j];
            if ((left->writes || right->writes) && share_memory(planner, left, right)) return true;
        }
    return false;
}

/* The steps from `first` to `last`, in any order, and `step`. */
static bool conflict_with(kn_planner *planner, int first, int last, const kn_step *step) {
    for (int s = first; s <= last; s++)
        if (kn_steps_conflict(planner, planner->emitter.steps[s], step)) return true;
    return false;
}

/* The first step of the group of step s, such as one that packs weights. */
static int first_of_group(const kn_planner *planner, int s) {
    while (s > 0 && planner->step_group[s - 1] == planner->step_group[s])
        s--;
    return s;
}

/* Where step `one` and the group of step `other` can be computed together: before the step that is returned;
 * 0: nowhere. `one` may move past steps that are independent of it, the group before independent steps. */
static int meeting_place(kn_planner *planner, int one, int other) {
    kn_step *const *steps = planner->emitter.steps;
    const int first = first_of_group(planner, other);
    int place = one + 1;
    if (first <= one || conflict_with(planner, first, other, steps[one])) return 0;
    while (place < first && !kn_steps_conflict(planner, steps[one], steps[place]))
        place++;
    for (int s = first; s <= other; s++)
        if (place < first && conflict_with(planner, place, first - 1, steps[s])) return 0;
    return place;
}

/* Moves `count` steps from `from` to `to`, with their groups. */
static void move(kn_planner *planner, int from, int count, int to) {
    for (; from > to; from--) {
        kn_step **steps = planner->emitter.steps, *step = steps[from - 1];
        const int group = planner->step_group[from - 1];
        memmove(steps + from - 1, steps + from, (size_t)count * sizeof *steps);
        memmove(planner->step_group + from - 1, planner->step_group + from,
                (size_t)count * sizeof *planner->step_group);
        steps[from - 1 + count] = step;
        planner->step_group[from - 1 + count] = group;
    }
}

/* Replaces step `other` by both, and removes step `one`. */
static kn_status merge(kn_planner *planner, int one, int other, int place) {
    kn_emitter *emitter = &planner->emitter;
    kn_step *pair;
    kn_status status =
        kn_step_pair(emitter->steps[one], emitter->steps[other], planner->target, &pair, planner->error);
    if (status != KN_OK) return status;
    const int first = first_of_group(planner, other), count = other - first + 1;
    emitter->steps[other] = pair;
    move(planner, first, count, place);
    const size_t rest = (size_t)(emitter->step_count - one - 1);
    memmove(emitter->steps + one, emitter->steps + one + 1, rest * sizeof *emitter->steps);
    memmove(planner->step_group + one, planner->step_group + one + 1, rest * sizeof *planner->step_group);
    emitter->step_count--;
    return KN_OK;
}

kn_status kn_pass_pairs(kn_planner *planner) {
    const kn_emitter *emitter = &planner->emitter;
    kn_status status = KN_OK;
    for (int one = 0; one < emitter->step_count && status == KN_OK; one++) {
        planner->work++;
        if (!emitter->steps[one]->pair) continue;
        int place = 0, other = one;
        while (!place && ++other < emitter->step_count && other - one <= MAX_DISTANCE)
            if (emitter->steps[other]->pair && kn_steps_can_pair(emitter->steps[one], emitter->steps[other]))
                place = meeting_place(planner, one, other);
        if (place) {
            status = merge(planner, one, other, place);
            one--;
        }
    }
    return status;
}
