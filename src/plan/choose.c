/* The choose pass: selects a variant for each node whose operator has kernels. */
#include <string.h>

#include "plan/plan_private.h"

/* `tile`: from tuning; 0: chosen by shape. */
static bool is_right(const kn_planner *planner, const kn_node *node, const kn_variant *variant, int tile) {
    const kn_plan_request *request = planner->request;
    return request->verdicts && request->verdicts->variant_is_right(request->device, node, variant,
                                                                    tile ? tile : planner->switches->tile);
}

/* Whether data prepared from the node's input, such as packed weights, can persist between runs. */
static bool may_prepare(const kn_planner *planner, const kn_node *node) {
    const kn_value *prepared = node->input_count ? node->inputs[kn_prepared_input(node->input_count)] : NULL;
    return planner->request->keeps && prepared && planner->invariant[prepared->id];
}

static bool is_accepted(const kn_planner *planner, const kn_node *node, const kn_variant *variant) {
    if (!kn_node_takes_halves(node, variant->promise.halves)) return false;
    return !variant->choice.accepts || variant->choice.accepts(planner->target, node);
}

/* Whether the device must compute a variant correctly before it is used: doubtful variants, variants with a
 * larger error and, on many-thread devices, every variant except a row's last, which is plain: a work-item
 * for each result. */
static bool needs_trial(const kn_planner *planner, const kn_node *node, const kn_variant *variant) {
    if (variant->choice.doubtful || variant->choice.fast) return true;
    return planner->request->verdicts && planner->switches->programs != KN_PROGRAMS_NONE &&
           !planner->target->wide_vector && variant != &node->op->variants[node->op->variant_count - 1];
}

/* `tile`: see is_right. */
static bool is_trusted(const kn_planner *planner, const kn_node *node, const kn_variant *variant, int tile) {
    return !needs_trial(planner, node, variant) || is_right(planner, node, variant, tile);
}

/* Whether it reads blocked images on many-thread devices. */
static bool takes_blocks(const kn_planner *planner, const kn_variant *variant) {
    return !planner->target->wide_vector && variant->promise.inputs[0] == KN_LAYOUT_BLOCKED;
}

/* Why a variant may not be used for a node, regardless of speed, provided that it is right. Whether its error
 * is allowed is checked first, since `accepts` may need to probe the device. */
static kn_refusal suitability(const kn_planner *planner, const kn_node *node, const kn_variant *variant,
                              bool plain) {
    const kn_choice *choice = &variant->choice;
    if (plain && takes_blocks(planner, variant)) return KN_REFUSED_LAYOUT;
    if (choice->fast && !planner->target->fast_math) return KN_REFUSED_ERROR;
    if (choice->prepares && !may_prepare(planner, node)) return KN_REFUSED_CHANGES;
    if (!kn_node_takes_halves(node, variant->promise.halves)) return KN_REFUSED_TYPES;
    return is_accepted(planner, node, variant) ? KN_NOT_REFUSED : KN_REFUSED_NODE;
}

kn_refusal kn_variant_refusal(const kn_planner *planner, const kn_node *node, const kn_variant *variant,
                              bool plain) {
    const kn_choice *choice = &variant->choice;
    const kn_refusal refusal = suitability(planner, node, variant, plain);
    if (refusal) return refusal;
    if (choice->fast && choice->pays &&
        !choice->pays(planner->target, node, variant->config, may_prepare(planner, node)))
        return KN_REFUSED_WORK;
    return is_trusted(planner, node, variant, 0) ? KN_NOT_REFUSED : KN_REFUSED_WRONG;
}

/* The first variant from `first` that the rule selects; NULL: none. A measured variant must be faster than
 * the variant that would be selected without it. plain: exclude variants that read blocked images on
 * many-thread devices. */
static const kn_variant *first_by_rule(const kn_planner *planner, const kn_node *node, int first,
                                       bool plain) {
    const kn_plan_request *request = planner->request;
    for (int i = first; i < node->op->variant_count; i++) {
        const kn_variant *variant = &node->op->variants[i];
        if (kn_variant_refusal(planner, node, variant, plain)) continue;
        if (!variant->choice.measured) return variant;
        const kn_variant *other = first_by_rule(planner, node, i + 1, plain);
        const bool faster = !other || (request->verdicts && request->verdicts->variant_is_faster(
                                                                request->device, node, variant, other));
        return faster ? variant : other;
    }
    return NULL;
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

/* Uses the variant that measured fastest for nodes like this one, if allowed. */
static void take_tuned(kn_planner *planner, const kn_tuning *tuning, bool plain, kn_chosen *chosen) {
    const kn_plan_request *request = planner->request;
    int tile = 0;
    const kn_variant *variant =
        request->verdicts ? request->verdicts->tuned(request->device, tuning, &tile) : NULL;
    if (!variant || suitability(planner, tuning->node, variant, plain) ||
        !is_trusted(planner, tuning->node, variant, tile))
        return;
    *chosen = (kn_chosen){variant, tile, true};
}

/* plain: see first_by_rule; does not affect forced variants. */
static kn_status choose(kn_planner *planner, const kn_node *node, bool plain, kn_chosen *chosen) {
    const kn_tuning tuning = {node, planner->target, may_prepare(planner, node)};
    const char *forced;
    chosen->variant = find_forced(planner, node, &forced);
    if (chosen->variant) return KN_OK;
    if (forced)
        return kn_fail(planner->error, KN_ERROR_NOT_FOUND,
                       "%s '%s': the kernel '%s' does not support these shapes on this device",
                       node->op->name, node->name, forced);
    if (planner->switches->tuning == KN_TUNING_USED) take_tuned(planner, &tuning, plain, chosen);
    if (!chosen->variant) chosen->variant = first_by_rule(planner, node, 0, plain);
    if (chosen->variant) return KN_OK;
    return kn_fail(planner->error, KN_ERROR_UNSUPPORTED,
                   "%s '%s': no kernel supports these shapes and types on this device", node->op->name,
                   node->name);
}

/* The elements of a node's images that could be blocked on many-thread devices. */
static double blockable(const kn_planner *planner, kn_value *const *values, int count) {
    double elements = 0;
    for (int i = 0; i < count; i++)
        if (values[i] && kn_is_half(values[i]->shape.dtype) &&
            kn_can_block(planner->target, &values[i]->shape))
            elements += (double)kn_shape_elements(&values[i]->shape);
    return elements;
}

/* On many-thread devices, images are blocked if kernels prefer that, except in networks that alternate them
 * with kernels that accept only plain images, such as depthwise convolutions, where images would be converted
 * again and again. */
static bool conversions_pay(kn_planner *planner) {
    double blocked = 0, plain = 0;
    if (planner->target->wide_vector || planner->switches->blocked_images) return true;
    for (size_t i = 0; i < planner->graph->node_count; i++) {
        const kn_node *node = planner->graph->nodes[i];
        const kn_variant *variant = planner->chosen[i].variant;
        planner->work++;
        if (!variant || variant->promise.any) continue;
        const double elements = blockable(planner, node->inputs, node->input_count) +
                                blockable(planner, node->outputs, node->output_count);
        *(takes_blocks(planner, variant) ? &blocked : &plain) += elements;
    }
    return 2 * plain <= blocked;
}

static kn_status choose_all(kn_planner *planner, bool plain) {
    kn_graph *graph = planner->graph;
    for (size_t i = 0; i < graph->node_count; i++) {
        kn_node *node = graph->nodes[i];
        const kn_variant *before = planner->chosen[i].variant;
        if (node->op->class != KN_CLASS_KERNEL || (plain && !takes_blocks(planner, before))) continue;
        planner->chosen[i] = (kn_chosen){0};
        kn_status status = choose(planner, node, plain, &planner->chosen[i]);
        if (status != KN_OK) return status;
    }
    return KN_OK;
}

/* Reports the rule's choice for each node to the tuner. */
static void note_choices(const kn_planner *planner) {
    const kn_plan_request *request = planner->request;
    if (planner->switches->tuning != KN_TUNING_NOTED || !request->verdicts) return;
    for (size_t i = 0; i < planner->graph->node_count; i++) {
        const kn_node *node = planner->graph->nodes[i];
        const kn_tuning tuning = {node, planner->target, may_prepare(planner, node)};
        const char *forced;
        if (node->op->class == KN_CLASS_KERNEL && !find_forced(planner, node, &forced))
            request->verdicts->note(request->device, &tuning, planner->chosen[i].variant);
    }
}

kn_status kn_pass_choose(kn_planner *planner) {
    kn_graph *graph = planner->graph;
    planner->chosen = kn_arena_take(planner->arena, graph->node_count + 1, sizeof *planner->chosen);
    if (!planner->chosen) return kn_fail_memory(planner->error, graph->node_count * sizeof *planner->chosen);
    for (size_t i = 0; i < graph->node_count; i++) {
        kn_node *node = graph->nodes[i];
        planner->work++;
        /* The compute type is the stored type, except for 16-bit types. */
        node->compute = node->output_count ? node->outputs[0]->shape.dtype : KN_FLOAT32;
        if (kn_is_half(node->compute)) node->compute = KN_FLOAT32;
        node->accumulate = node->compute;
    }
    kn_status status = choose_all(planner, false);
    planner->plain_images = status == KN_OK && !conversions_pay(planner);
    if (planner->plain_images) status = choose_all(planner, true);
    if (status == KN_OK) note_choices(planner);
    return status;
}
