/* The layout pass: chooses the layout of each value. Variants declare the layouts that they read and write. A
 * pointwise group writes blocked images if it reads one, and reads plain images through strides. On
 * many-thread devices, images are blocked if a matrix unit multiplies them in 16 bits, as are images computed
 * from blocked ones. If a value does not have the layout that a variant needs, a conversion is inserted, at
 * most one per value. For tests, the switch "images=blocked" makes variants that support any layout use
 * blocked images where possible. */
#include <string.h>

#include "ops/ops.h"
#include "plan/plan_private.h"

typedef struct layout_pass {
    kn_planner *planner;
    kn_group **ordered; /* the groups, including inserted conversions */
    int count, capacity;
    kn_value **converted; /* by value id: its copy in the other layout */
    size_t converted_count;
    bool prefers_blocked;
} layout_pass;

bool kn_can_block(const kn_target *target, const kn_shape *shape) {
    int width = kn_block_width(target);
    /* On many-thread devices, norms assign a work-item to each channel of a block. */
    if (!target->wide_vector && target->work_group_items < (uint64_t)width) return false;
    return shape->rank == 4 && width > 1 && shape->dims[1] > 0 && shape->dims[1] % width == 0;
}

/* With wide vectors the conversion kernels move only 4-byte elements. */
static bool can_convert(const kn_target *target, const kn_value *value) {
    return !target->wide_vector || kn_dtype_bytes(value->shape.dtype) == 4;
}

static kn_status push(layout_pass *pass, kn_group *group) {
    size_t capacity = (size_t)pass->capacity;
    if (!kn_reserve(pass->planner->host, (void **)&pass->ordered, &capacity, (size_t)pass->count + 1,
                    sizeof *pass->ordered))
        return kn_fail_memory(pass->planner->error, capacity * sizeof *pass->ordered);
    pass->capacity = (int)capacity;
    pass->planner->work++;
    pass->ordered[pass->count++] = group;
    return KN_OK;
}

/* *result: the value in the other layout, converted before the current group. */
static kn_status convert(layout_pass *pass, kn_value *value, kn_value **result) {
    kn_planner *planner = pass->planner;
    if ((size_t)value->id < pass->converted_count && pass->converted[value->id]) {
        *result = pass->converted[value->id];
        return KN_OK;
    }
    const kn_operator *row = kn_layout_row;
    kn_value *copy = kn_node_add(planner->graph, row, NULL, &value, 1, NULL);
    if (kn_value_failed(copy)) return kn_error_copy(planner->error, &planner->graph->error);
    copy->layout = value->layout == KN_LAYOUT_PLAIN ? KN_LAYOUT_BLOCKED : KN_LAYOUT_PLAIN;
    copy->producer->compute = copy->producer->accumulate = copy->shape.dtype;
    kn_group *group = kn_arena_take(planner->arena, 1, sizeof *group);
    if (!group) return kn_fail_memory(planner->error, sizeof *group);
    group->anchor = copy->producer;
    group->variant = &row->variants[0];
    planner->conversions++;
    if ((size_t)value->id < pass->converted_count) pass->converted[value->id] = copy;
    *result = copy;
    return push(pass, group);
}

/* Gives input `position` of a node this layout. Values under views must be plain. */
static kn_status require_layout(layout_pass *pass, kn_node *node, int position, kn_layout layout) {
    kn_value *value = node->inputs[position];
    if (!value) return KN_OK;
    if (value->kind == KN_VALUE_RESULT && value->producer->op->class == KN_CLASS_VIEW) {
        kn_status status = require_layout(pass, value->producer, 0, KN_LAYOUT_PLAIN);
        if (status != KN_OK || layout == KN_LAYOUT_PLAIN) return status;
    }
    if (value->layout == layout || kn_layouts_agree(value)) return KN_OK;
    kn_value *copy = NULL;
    kn_status status = convert(pass, value, &copy);
    if (status != KN_OK) return status;
    node->inputs[position] = copy;
    return KN_OK;
}

static bool is_whole_image(const kn_shape *space, const kn_value *value) {
    return value->shape.rank == 4 && kn_shape_same(space, &value->shape);
}

/* An epilogue of blocked images loads vectors of channels, so operands that vary between the channels and
 * between the pixels of an image are blocked too, even if all images share them: (1,C,H,W). Other operands,
 * such as (C,1,1), have contiguous channels. The fuse pass admits no others. */
static kn_layout operand_layout(const kn_shape *space, const kn_value *value, kn_layout layout) {
    if (value->shape.rank != 4) return KN_LAYOUT_PLAIN;
    for (int d = 1; d < 4; d++)
        if (value->shape.dims[d] != space->dims[d]) return KN_LAYOUT_PLAIN;
    return layout;
}

static kn_status lay_out_epilogue(layout_pass *pass, kn_group *group, kn_layout layout) {
    kn_planner *planner = pass->planner;
    const kn_shape *space = &group->anchor->outputs[0]->shape;
    for (int m = 0; m < group->member_count; m++) {
        kn_node *member = group->members[m];
        member->outputs[0]->layout = layout;
        for (int i = 0; i < member->input_count; i++) {
            kn_value *value = member->inputs[i];
            if (!value || (value->producer && (size_t)value->producer->id < planner->group_of_count &&
                           planner->group_of[value->producer->id] == group))
                continue;
            kn_status status = require_layout(pass, member, i, operand_layout(space, value, layout));
            if (status != KN_OK) return status;
        }
    }
    return KN_OK;
}

/* The layout of all images of a node that supports any layout: blocked if an input is and all can be. */
static kn_layout common_layout(const layout_pass *pass, const kn_node *node) {
    bool blocked = pass->prefers_blocked;
    for (int i = 0; i < node->input_count; i++) {
        const kn_value *value = node->inputs[i];
        if (!value || value->shape.rank != 4) continue;
        if (!kn_can_block(pass->planner->target, &value->shape)) return KN_LAYOUT_PLAIN;
        if (!can_convert(pass->planner->target, value) && value->layout == KN_LAYOUT_PLAIN)
            return KN_LAYOUT_PLAIN;
        blocked = blocked || value->layout == KN_LAYOUT_BLOCKED;
    }
    return blocked ? KN_LAYOUT_BLOCKED : KN_LAYOUT_PLAIN;
}

static kn_status lay_out_anchor(layout_pass *pass, kn_group *group) {
    kn_node *node = group->anchor;
    const kn_variant *variant = group->variant;
    if (!variant) { /* an assign: states are plain */
        kn_status status = KN_OK;
        for (int i = 0; i < node->input_count && status == KN_OK; i++)
            status = require_layout(pass, node, i, KN_LAYOUT_PLAIN);
        return status;
    }
    kn_layout common = variant->promise.any ? common_layout(pass, node) : KN_LAYOUT_PLAIN;
    for (int i = 0; i < node->input_count; i++) {
        kn_layout layout =
            i < (int)KN_COUNT_OF(variant->promise.inputs) ? variant->promise.inputs[i] : KN_LAYOUT_PLAIN;
        if (variant->promise.any && node->inputs[i] && node->inputs[i]->shape.rank == 4) layout = common;
        kn_status status = require_layout(pass, node, i, layout);
        if (status != KN_OK) return status;
    }
    for (int i = 0; i < node->output_count; i++) {
        kn_layout layout =
            i < (int)KN_COUNT_OF(variant->promise.outputs) ? variant->promise.outputs[i] : KN_LAYOUT_PLAIN;
        if (variant->promise.any && node->outputs[i]->shape.rank == 4) layout = common;
        node->outputs[i]->layout = layout;
    }
    return lay_out_epilogue(pass, group, node->outputs[0]->layout);
}

typedef struct results_check {
    const kn_target *target;
    bool convertible;
} results_check;

static void check_result(void *user, kn_value *value) {
    results_check *check = user;
    check->convertible = check->convertible && can_convert(check->target, value);
}

/* Whether all results that a pointwise group stores could be made plain for their readers. */
static bool may_be_blocked(const layout_pass *pass, const kn_group *group) {
    results_check check = {pass->planner->target, true};
    kn_group_writes(pass->planner, group, check_result, &check);
    return check.convertible;
}

static kn_status lay_out_pointwise(layout_pass *pass, kn_group *group) {
    bool blocked = false;
    for (int m = 0; m < group->member_count; m++)
        for (int i = 0; i < group->members[m]->input_count; i++) {
            kn_value *value = group->members[m]->inputs[i];
            if (value && value->layout == KN_LAYOUT_BLOCKED && is_whole_image(&group->space, value))
                blocked = true;
        }
    blocked = blocked && may_be_blocked(pass, group);
    group->layout = blocked ? KN_LAYOUT_BLOCKED : KN_LAYOUT_PLAIN;
    for (int m = 0; m < group->member_count; m++) {
        kn_node *member = group->members[m];
        member->outputs[0]->layout = group->layout;
        for (int i = 0; i < member->input_count; i++) {
            kn_value *value = member->inputs[i];
            /* A blocked group reads any image through strides. A value under a view must be plain, and so
             * must an input of a plain group, whose axes do not split the channels. */
            bool view =
                value && value->kind == KN_VALUE_RESULT && value->producer->op->class == KN_CLASS_VIEW;
            if (!value || (!view && (value->layout == KN_LAYOUT_PLAIN || blocked))) continue;
            kn_status status = require_layout(pass, member, i, KN_LAYOUT_PLAIN);
            if (status != KN_OK) return status;
        }
    }
    return KN_OK;
}

kn_status kn_pass_layout(kn_planner *planner) {
    layout_pass pass = {.planner = planner, .converted_count = planner->graph->value_count};
    pass.converted = kn_arena_take(planner->arena, pass.converted_count + 1, sizeof *pass.converted);
    if (!pass.converted) return kn_fail_memory(planner->error, pass.converted_count * 8);
    pass.prefers_blocked = planner->switches->blocked_images;
    kn_status status = KN_OK;
    for (int i = 0; i < planner->group_count && status == KN_OK; i++) {
        kn_group *group = planner->groups[i];
        status = group->anchor ? lay_out_anchor(&pass, group) : lay_out_pointwise(&pass, group);
        if (status == KN_OK) status = push(&pass, group);
    }
    for (size_t i = 0; i < planner->wanted_count && status == KN_OK; i++) {
        kn_node reader = {.inputs = &planner->wanted[i], .input_count = 1};
        status = require_layout(&pass, &reader, 0, KN_LAYOUT_PLAIN);
        if (status == KN_OK) planner->wanted[i]->wanted = true;
    }
    if (status != KN_OK) {
        kn_release(planner->host, pass.ordered);
        return status;
    }
    kn_release(planner->host, planner->groups);
    planner->groups = pass.ordered;
    planner->group_count = pass.count;
    planner->group_capacity = pass.capacity;
    for (int i = 0; i < planner->group_count; i++)
        planner->groups[i]->id = i;
    return KN_OK;
}
