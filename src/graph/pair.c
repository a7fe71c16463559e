/* Two independent steps as one launch. */
#include <stdio.h>
#include <string.h>

#include "graph/graph_private.h"

static bool is_memory(const kn_argument *argument) {
    return argument->kind == KN_ARGUMENT_VALUE || argument->kind == KN_ARGUMENT_SCRATCH;
}

bool kn_steps_can_pair(const kn_step *one, const kn_step *other) {
    if (!one->pair || !other->pair || strcmp(one->pair, other->pair) ||
        strcmp(one->prelude, other->prelude) || one->argument_count != other->argument_count ||
        one->global[1] != other->global[1])
        return false;
    kn_step pair = *one;
    pair.kernel = one->pair;
    for (int i = 0; i < one->argument_count; i++) {
        const kn_argument *left = &one->arguments[i], *right = &other->arguments[i];
        char name[64];
        if (left->kind != right->kind || strcmp(left->name, right->name)) return false;
        if (is_memory(left) || left->integer == right->integer) continue;
        snprintf(name, sizeof name, "other_%s", right->name);
        if (!kn_step_parameter(&pair, name, true)) return false;
    }
    return true;
}

kn_status kn_step_pair(kn_step *one, const kn_step *other, const kn_target *target, kn_step **pair,
                       kn_error *error) {
    kn_step *step = kn_arena_copy(one->arena, one, 1, sizeof *step);
    if (!step) return kn_fail_memory(error, sizeof *step);
    step->kernel = one->pair;
    step->pair = NULL;
    step->label = kn_arena_format(one->arena, "%s and 1 more", one->label);
    if (!step->label) return kn_fail_memory(error, 0);
    step->arguments = NULL;
    step->argument_count = step->argument_capacity = 0;
    for (int i = 0; i < one->argument_count; i++)
        kn_step_argument(step, one->arguments[i]);
    for (int i = 0; i < other->argument_count; i++) {
        kn_argument argument = other->arguments[i];
        argument.name = kn_step_name(step, "other_%s", argument.name);
        if (is_memory(&argument) || (argument.name && kn_step_parameter(step, argument.name, true)))
            kn_step_argument(step, argument);
    }
    step->cost.flops += other->cost.flops;
    step->cost.bytes += other->cost.bytes;
    kn_step_size3(step, (const size_t[]){one->global[0], (one->global[1] + 1) / 2, 2},
                  (const size_t[]){1, 1, 1});
    *pair = step;
    return kn_step_complete(step, target, error);
}
