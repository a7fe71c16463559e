/* The layout pass: how each value lies in memory. Variants say what they read and write; pointwise
 * groups follow what they read, and read the other layout through its strides; a conversion is inserted
 * where a variant needs a layout that the value does not have, once per value. The switch
 * "images=blocked" makes those that take any layout block what they can, for tests. */
#include <string.h>

#include "ops/ops.h"
#include "plan/plan_private.h"

typedef struct layout_pass {
    kn_planner *planner;
    kn_group **ordered; /* the groups with the conversions between them */
    int count, capacity;
    kn_value **converted; /* by value id: its copy in the other layout */
    size_t converted_count;
    bool prefers_blocked;
} layout_pass;

/* x is (N,C,H,W) with C a multiple of the vector width: the only values that may be blocked. */
static bool can_block(const kn_planner *planner, const kn_shape *shape) {
    int width = planner->target->vector_width;
    return shape->rank == 4 && width > 1 && shape->dims[1] > 0 && shape->dims[1] % width == 0;
}

/* Only numbers of four bytes are converted. */
static bool can_convert(const kn_value *value) {
    return kn_dtype_bytes(value->shape.dtype) == 4;
}

static kn_status push(layout_pass *layouting, kn_group *group) {
    size_t capacity = (size_t)layouting->capacity;
    if (!kn_reserve(layouting->planner->host, (void **)&layouting->ordered, &capacity,
                    (size_t)layouting->count + 1, sizeof *layouting->ordered))
        return kn_fail_memory(layouting->planner->error, capacity * sizeof *layouting->ordered);
    layouting->capacity = (int)capacity;
    layouting->planner->work++;
    layouting->ordered[layouting->count++] = group;
    return KN_OK;
}

/* The value in the other layout, by a conversion put in front of the current group. */
static kn_status convert(layout_pass *layouting, kn_value *value, kn_value **result) {
    kn_planner *planner = layouting->planner;
    if ((size_t)value->id < layouting->converted_count && layouting->converted[value->id]) {
        *result = layouting->converted[value->id];
        return KN_OK;
    }
    const kn_operator *row = kn_layout_row;
    kn_value *copy = kn_node_add(planner->graph, row, NULL, &value, 1, NULL);
    if (kn_value_failed(copy))
        return kn_fail(planner->error, planner->graph->error.status, "%s", planner->graph->error.text);
    copy->layout = value->layout == KN_LAYOUT_PLAIN ? KN_LAYOUT_BLOCKED : KN_LAYOUT_PLAIN;
    copy->producer->compute = copy->producer->accumulate = copy->shape.dtype;
    kn_group *group = kn_arena_take(planner->arena, 1, sizeof *group);
    if (!group) return kn_fail_memory(planner->error, sizeof *group);
    group->anchor = copy->producer;
    group->variant = &row->variants[0];
    planner->conversions++;
    if ((size_t)value->id < layouting->converted_count) layouting->converted[value->id] = copy;
    *result = copy;
    return push(layouting, group);
}

/* Makes input `position` of a node have a layout. Views need plain memory under them. */
static kn_status need(layout_pass *layouting, kn_node *node, int position, kn_layout layout) {
    kn_value *value = node->inputs[position];
    if (!value) return KN_OK;
    if (value->kind == KN_VALUE_RESULT && value->producer->op->class == KN_CLASS_VIEW) {
        kn_status status = need(layouting, value->producer, 0, KN_LAYOUT_PLAIN);
        if (status != KN_OK || layout == KN_LAYOUT_PLAIN) return status;
    }
    if (value->layout == layout || kn_lies_alike(value)) return KN_OK;
    kn_value *copy = NULL;
    kn_status status = convert(layouting, value, &copy);
    if (status != KN_OK) return status;
    node->inputs[position] = copy;
    return KN_OK;
}

static bool is_whole_image(const kn_shape *space, const kn_value *value) {
    return value->shape.rank == 4 && kn_shape_same(space, &value->shape);
}

static kn_status settle_epilogue(layout_pass *layouting, kn_group *group, kn_layout layout) {
    kn_planner *planner = layouting->planner;
    const kn_shape *space = &group->anchor->outputs[0]->shape;
    for (int m = 0; m < group->member_count; m++) {
        kn_node *member = group->members[m];
        member->outputs[0]->layout = layout;
        for (int i = 0; i < member->input_count; i++) {
            kn_value *value = member->inputs[i];
            if (!value || (value->producer && (size_t)value->producer->id < planner->group_of_count &&
                           planner->group_of[value->producer->id] == group))
                continue;
            kn_layout wanted = is_whole_image(space, value) ? layout : KN_LAYOUT_PLAIN;
            kn_status status = need(layouting, member, i, wanted);
            if (status != KN_OK) return status;
        }
    }
    return KN_OK;
}

/* The layout of all rank-4 values of a node that takes any: blocked as soon as one of its inputs is. */
static kn_layout common_layout(const layout_pass *layouting, const kn_node *node) {
    bool blocked = layouting->prefers_blocked;
    for (int i = 0; i < node->input_count; i++) {
        const kn_value *value = node->inputs[i];
        if (!value || value->shape.rank != 4) continue;
        if (!can_block(layouting->planner, &value->shape)) return KN_LAYOUT_PLAIN;
        if (!can_convert(value) && value->layout == KN_LAYOUT_PLAIN) return KN_LAYOUT_PLAIN;
        blocked = blocked || value->layout == KN_LAYOUT_BLOCKED;
    }
    return blocked ? KN_LAYOUT_BLOCKED : KN_LAYOUT_PLAIN;
}

static kn_status settle_anchor(layout_pass *layouting, kn_group *group) {
    kn_node *node = group->anchor;
    const kn_variant *variant = group->variant;
    if (!variant) { /* an assign: states are plain */
        kn_status status = KN_OK;
        for (int i = 0; i < node->input_count && status == KN_OK; i++)
            status = need(layouting, node, i, KN_LAYOUT_PLAIN);
        return status;
    }
    kn_layout common = variant->promise.any ? common_layout(layouting, node) : KN_LAYOUT_PLAIN;
    for (int i = 0; i < node->input_count; i++) {
        kn_layout layout =
            i < (int)KN_COUNT_OF(variant->promise.inputs) ? variant->promise.inputs[i] : KN_LAYOUT_PLAIN;
        if (variant->promise.any && node->inputs[i] && node->inputs[i]->shape.rank == 4) layout = common;
        kn_status status = need(layouting, node, i, layout);
        if (status != KN_OK) return status;
    }
    for (int i = 0; i < node->output_count; i++) {
        kn_layout layout =
            i < (int)KN_COUNT_OF(variant->promise.outputs) ? variant->promise.outputs[i] : KN_LAYOUT_PLAIN;
        if (variant->promise.any && node->outputs[i]->shape.rank == 4) layout = common;
        node->outputs[i]->layout = layout;
    }
    return settle_epilogue(layouting, group, node->outputs[0]->layout);
}

static kn_status settle_pointwise(layout_pass *layouting, kn_group *group) {
    bool blocked = false;
    for (int m = 0; m < group->member_count; m++)
        for (int i = 0; i < group->members[m]->input_count; i++) {
            kn_value *value = group->members[m]->inputs[i];
            if (value && value->layout == KN_LAYOUT_BLOCKED && is_whole_image(&group->space, value))
                blocked = true;
        }
    group->layout = blocked ? KN_LAYOUT_BLOCKED : KN_LAYOUT_PLAIN;
    for (int m = 0; m < group->member_count; m++) {
        kn_node *member = group->members[m];
        member->outputs[0]->layout = group->layout;
        for (int i = 0; i < member->input_count; i++) {
            kn_value *value = member->inputs[i];
            /* Only whole images are read through strides; what hides behind a view must be plain. */
            bool view =
                value && value->kind == KN_VALUE_RESULT && value->producer->op->class == KN_CLASS_VIEW;
            if (!value || (!view && (value->layout == KN_LAYOUT_PLAIN || group->space.rank == 4))) continue;
            kn_status status = need(layouting, member, i, KN_LAYOUT_PLAIN);
            if (status != KN_OK) return status;
        }
    }
    return KN_OK;
}

kn_status kn_pass_layout(kn_planner *planner) {
    layout_pass layouting = {.planner = planner, .converted_count = planner->graph->value_count};
    layouting.converted =
        kn_arena_take(planner->arena, layouting.converted_count + 1, sizeof *layouting.converted);
    if (!layouting.converted) return kn_fail_memory(planner->error, layouting.converted_count * 8);
    layouting.prefers_blocked = planner->switches->blocked_images;
    kn_status status = KN_OK;
    for (int i = 0; i < planner->group_count && status == KN_OK; i++) {
        kn_group *group = planner->groups[i];
        status = group->anchor ? settle_anchor(&layouting, group) : settle_pointwise(&layouting, group);
        if (status == KN_OK) status = push(&layouting, group);
    }
    for (size_t i = 0; i < planner->wanted_count && status == KN_OK; i++) {
        kn_node reader = {.inputs = &planner->wanted[i], .input_count = 1};
        status = need(&layouting, &reader, 0, KN_LAYOUT_PLAIN);
        if (status == KN_OK) planner->wanted[i]->wanted = true;
    }
    if (status != KN_OK) {
        kn_release(planner->host, layouting.ordered);
        return status;
    }
    kn_release(planner->host, planner->groups);
    planner->groups = layouting.ordered;
    planner->group_count = layouting.count;
    planner->group_capacity = layouting.capacity;
    for (int i = 0; i < planner->group_count; i++)
        planner->groups[i]->id = i;
    return KN_OK;
}
