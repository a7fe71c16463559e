/* The choose pass: a variant for each node that has kernels of its own. */
#include <string.h>

#include "plan/plan_private.h"

const char *kn_forced(const char *list, const char *what, size_t *length) {
    size_t what_length = strlen(what);
    while (list && *list) {
        const char *end = strchr(list, ',');
        size_t item = end ? (size_t)(end - list) : strlen(list);
        if (item > what_length + 1 && !strncmp(list, what, what_length) && list[what_length] == '=') {
            *length = item - what_length - 1;
            return list + what_length + 1;
        }
        list = end ? end + 1 : NULL;
    }
    return NULL;
}

static bool is_named(const char *name, const char *text, size_t length) {
    return strlen(name) == length && !strncmp(name, text, length);
}

bool kn_is_forced(const char *list, const char *what, const char *name) {
    size_t length = 0;
    const char *forced = kn_forced(list, what, &length);
    return forced && is_named(name, forced, length);
}

static bool is_accepted(const kn_making *making, const kn_node *node, const kn_variant *variant) {
    return !variant->accepts || variant->accepts(&making->target, node);
}

/* Whether what a variant makes of the node's last input need not be made again in each run. */
static bool may_prepare(const kn_making *making, const kn_node *node) {
    const kn_value *last = node->inputs[node->input_count - 1];
    return making->keeps && last && making->invariant[last->id];
}

/* Whether a variant with a larger error is allowed and pays, and its error for this node is seen small. */
static bool is_fast_enough(kn_making *making, const kn_node *node, const kn_variant *variant) {
    return making->target.fast_math &&
           (!variant->pays || variant->pays(&making->target, node, may_prepare(making, node))) &&
           kn_variant_believed(making->context, node->op, variant, node);
}

/* Whether a variant may be taken for a node, leaving out whether others are faster. */
static bool suits(kn_making *making, const kn_node *node, const kn_variant *variant) {
    if (variant->prepares && !may_prepare(making, node)) return false;
    if (!is_accepted(making, node, variant)) return false;
    if (variant->fast) return is_fast_enough(making, node, variant);
    return !variant->doubtful || kn_variant_believed(making->context, node->op, variant, node);
}

/* Whether variant `own` is faster than the one that would be taken without it. */
static bool is_faster(kn_making *making, const kn_node *node, int own) {
    const kn_operator *row = node->op;
    for (int i = own + 1; i < row->variant_count; i++)
        if (suits(making, node, &row->variants[i]))
            return kn_variant_is_faster(making->context, node, &row->variants[own], &row->variants[i]);
    return true;
}

static kn_status choose(kn_making *making, const kn_node *node, const kn_variant **chosen) {
    const kn_operator *row = node->op;
    size_t length = 0;
    const char *forced = kn_forced(making->variants, row->name, &length);
    /* "*=NAME" prefers a variant of that name for all rows that have one that fits. */
    const char *preferred = forced ? NULL : kn_forced(making->variants, "*", &length);
    for (int i = 0; i < row->variant_count && preferred; i++) {
        const kn_variant *variant = &row->variants[i];
        if (!is_named(variant->name, preferred, length) || !is_accepted(making, node, variant)) continue;
        *chosen = variant;
        return KN_OK;
    }
    for (int i = 0; i < row->variant_count; i++) {
        const kn_variant *variant = &row->variants[i];
        if (forced ? !is_named(variant->name, forced, length) || !is_accepted(making, node, variant)
                   : !suits(making, node, variant))
            continue;
        if (variant->measured && !forced && !is_faster(making, node, i)) continue;
        *chosen = variant;
        return KN_OK;
    }
    if (forced)
        return kn_fail(making->error, KN_ERROR_NOT_FOUND,
                       "%s '%s': there is no kernel '%.*s' that takes these shapes on this device", row->name,
                       node->name, (int)length, forced);
    return kn_fail(making->error, KN_ERROR_UNSUPPORTED,
                   "%s '%s': no kernel takes these shapes and types on this device", row->name, node->name);
}

kn_status kn_pass_choose(kn_making *making) {
    kn_graph *graph = making->graph;
    kn_status status = kn_find_invariant(making);
    if (status != KN_OK) return status;
    making->chosen_count = graph->node_count;
    making->chosen = kn_arena_take(making->arena, graph->node_count + 1, sizeof *making->chosen);
    if (!making->chosen) return kn_fail_memory(making->error, graph->node_count * sizeof *making->chosen);
    for (size_t i = 0; i < graph->node_count; i++) {
        kn_node *node = graph->nodes[i];
        making->work++;
        /* One precision exists so far: what is stored is what is computed with. */
        node->compute = node->output_count ? node->outputs[0]->shape.dtype : KN_FLOAT32;
        node->accumulate = node->compute;
        if (node->op->class != KN_CLASS_KERNEL) continue;
        status = choose(making, node, &making->chosen[i]);
        if (status != KN_OK) return status;
    }
    return KN_OK;
}
