/* The choose pass: a variant for each node whose operator has kernels. */
#include <string.h>

#include "plan/plan_private.h"

/* `tile`: of the tuned choice; 0: chosen by the shape. */
static bool is_right(const kn_planner *planner, const kn_node *node, const kn_variant *variant, int tile) {
    const kn_plan_request *request = planner->request;
    return request->judge && request->judge->variant_is_right(request->device, node->op, variant, node,
                                                              tile ? tile : planner->switches->tile);
}

/* Whether its error is allowed. Asked first, since what a variant accepts may need a probe of the device. */
static bool is_allowed(const kn_planner *planner, const kn_variant *variant) {
    return !variant->choice.fast || planner->target->fast_math;
}

static bool is_accepted(const kn_planner *planner, const kn_node *node, const kn_variant *variant) {
    return !variant->choice.accepts || variant->choice.accepts(planner->target, node);
}

/* Whether data prepared from the node's last input, such as packed weights, can be kept from run to run. */
static bool may_prepare(const kn_planner *planner, const kn_node *node) {
    const kn_value *last = node->input_count ? node->inputs[node->input_count - 1] : NULL;
    return planner->request->keeps && last && planner->invariant[last->id];
}

/* Whether a variant with a larger error pays off for this node. */
static bool pays(const kn_planner *planner, const kn_node *node, const kn_variant *variant) {
    return !variant->choice.fast || !variant->choice.pays ||
           variant->choice.pays(planner->target, node, may_prepare(planner, node));
}

/* Whether the device must compute a variant right before it is used: one that is doubtful or has a larger
 * error and, with many threads, every one that has another below it. The last of a row is plain: a work-item
 * for each result. */
static bool needs_trial(const kn_planner *planner, const kn_node *node, const kn_variant *variant) {
    if (variant->choice.doubtful || variant->choice.fast) return true;
    return planner->request->judge && planner->switches->programs != KN_PROGRAMS_NONE &&
           !planner->target->wide_vector && variant != &node->op->variants[node->op->variant_count - 1];
}

/* Whether a variant may be used for a node, regardless of speed, if it is right. */
static bool suits(const kn_planner *planner, const kn_node *node, const kn_variant *variant) {
    return is_allowed(planner, variant) && (!variant->choice.prepares || may_prepare(planner, node)) &&
           is_accepted(planner, node, variant);
}

/* `tile`: as is_right has it. */
static bool is_trusted(const kn_planner *planner, const kn_node *node, const kn_variant *variant, int tile) {
    return !needs_trial(planner, node, variant) || is_right(planner, node, variant, tile);
}

/* Whether the rule would take it, if no variant before it did. */
static bool is_next(const kn_planner *planner, const kn_node *node, const kn_variant *variant) {
    return suits(planner, node, variant) && pays(planner, node, variant) &&
           is_trusted(planner, node, variant, 0);
}

/* Whether variant `measured` is faster than the one that would be chosen without it. */
static bool is_faster(kn_planner *planner, const kn_node *node, int measured) {
    const kn_plan_request *request = planner->request;
    const kn_operator *row = node->op;
    for (int i = measured + 1; i < row->variant_count; i++)
        if (is_next(planner, node, &row->variants[i]))
            return request->judge && request->judge->variant_is_faster(
                                         request->device, node, &row->variants[measured], &row->variants[i]);
    return true;
}

/* The accepted variant with this name; NULL: none. */
static const kn_variant *find_accepted(const kn_planner *planner, const kn_node *node, const char *name) {
    for (int i = 0; i < node->op->variant_count; i++) {
        const kn_variant *variant = &node->op->variants[i];
        if (!strcmp(variant->name, name) && is_accepted(planner, node, variant)) return variant;
    }
    return NULL;
}

/* The variant that the switches force for the node's row, or prefer for all rows; NULL: none. *name: the name
 * of the variant forced for the row, or NULL. */
static const kn_variant *find_forced(const kn_planner *planner, const kn_node *node, const char **name) {
    const kn_switches *switches = planner->switches;
    const kn_variant *preferred = NULL;
    *name = NULL;
    for (int i = 0; i < switches->forced_count; i++) {
        const char *variant = switches->forced[i].variant;
        if (switches->forced[i].row == node->op) {
            *name = variant;
            return find_accepted(planner, node, variant);
        }
        if (!switches->forced[i].row && !preferred) preferred = find_accepted(planner, node, variant);
    }
    return preferred;
}

/* Takes the choice that was measured to be the fastest for nodes like this one, if it may be used. */
static void take_tuned(kn_planner *planner, const kn_tuning *tuning, kn_chosen *chosen) {
    const kn_plan_request *request = planner->request;
    int tile = 0;
    const kn_variant *variant = request->judge ? request->judge->tuned(request->device, tuning, &tile) : NULL;
    if (!variant || !suits(planner, tuning->node, variant) ||
        !is_trusted(planner, tuning->node, variant, tile))
        return;
    *chosen = (kn_chosen){variant, tile, true};
}

static kn_status choose(kn_planner *planner, const kn_node *node, kn_chosen *chosen) {
    const kn_plan_request *request = planner->request;
    const kn_operator *row = node->op;
    const kn_tuning tuning = {node, planner->target, may_prepare(planner, node)};
    const char *forced;
    chosen->variant = find_forced(planner, node, &forced);
    if (chosen->variant) return KN_OK;
    if (forced)
        return kn_fail(planner->error, KN_ERROR_NOT_FOUND,
                       "%s '%s': the kernel '%s' does not take these shapes on this device", row->name,
                       node->name, forced);
    if (planner->switches->tuning == KN_TUNING_USED) take_tuned(planner, &tuning, chosen);
    for (int i = 0; i < row->variant_count && !chosen->variant; i++) {
        const kn_variant *variant = &row->variants[i];
        if (is_next(planner, node, variant) && (!variant->choice.measured || is_faster(planner, node, i)))
            chosen->variant = variant;
    }
    if (chosen->variant && planner->switches->tuning == KN_TUNING_NOTED && request->judge)
        request->judge->note(request->device, &tuning, chosen->variant);
    if (chosen->variant) return KN_OK;
    return kn_fail(planner->error, KN_ERROR_UNSUPPORTED,
                   "%s '%s': no kernel takes these shapes and types on this device", row->name, node->name);
}

kn_status kn_pass_choose(kn_planner *planner) {
    kn_graph *graph = planner->graph;
    planner->chosen = kn_arena_take(planner->arena, graph->node_count + 1, sizeof *planner->chosen);
    if (!planner->chosen) return kn_fail_memory(planner->error, graph->node_count * sizeof *planner->chosen);
    for (size_t i = 0; i < graph->node_count; i++) {
        kn_node *node = graph->nodes[i];
        planner->work++;
        /* The compute type is the stored type, but for types of 16 bits. */
        node->compute = node->output_count ? node->outputs[0]->shape.dtype : KN_FLOAT32;
        if (kn_is_half(node->compute)) node->compute = KN_FLOAT32;
        node->accumulate = node->compute;
        if (node->op->class != KN_CLASS_KERNEL) continue;
        kn_status status = choose(planner, node, &planner->chosen[i]);
        if (status != KN_OK) return status;
    }
    return KN_OK;
}
