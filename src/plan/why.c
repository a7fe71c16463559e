/* Explains the choice of a node's kernels (`koine plan --why`): all variants in their order, and for each why
 * it is not used, or what it would launch. */
#include <string.h>

#include "plan/plan_private.h"

/* `name`: the node's name, its name without ".product", or "OPERATOR NAME" as plans print it. */
static bool is_meant(const kn_node *node, const char *name) {
    const size_t row = strlen(node->op->name), length = strlen(name);
    if (!strncmp(name, node->op->name, row) && name[row] == ' ') return !strcmp(name + row + 1, node->name);
    return !strncmp(node->name, name, length) &&
           (!node->name[length] || !strcmp(node->name + length, ".product"));
}

static kn_matrix_unit some_unit(void *device, kn_dtype type) {
    (void)type;
    return *(const kn_matrix_unit *)device;
}

/* How a device or a node would differ from the present one. */
typedef struct difference {
    bool kind, unit;   /* a CPU instead of a GPU or the reverse; any matrix unit */
    bool halves, tf32; /* 16 bits for all values that the variant can read or write so; TF32 */
    bool global;       /* local memory is a part of global memory */
} difference;

/* Copies values, with 16 bits instead of float32 where `halves` has a bit. */
static void copy_values(kn_value *const *values, int count, unsigned halves, kn_value *copies,
                        kn_value **pointers) {
    for (int i = 0; i < count; i++) {
        pointers[i] = values[i] ? &copies[i] : NULL;
        if (!values[i]) continue;
        copies[i] = *values[i];
        if (halves >> i & 1 && copies[i].shape.dtype == KN_FLOAT32) copies[i].shape.dtype = KN_BFLOAT16;
    }
}

static bool accepts_on(const kn_target *target, const kn_node *node, const kn_variant *variant,
                       difference with) {
    enum { INPUTS = 8 };
    kn_value inputs[INPUTS], outputs[KN_MAX_OUTPUTS], *read[INPUTS], *written[KN_MAX_OUTPUTS];
    kn_node copy = *node;
    if (node->input_count > INPUTS) return false;
    const kn_halves halves = with.halves ? variant->promise.halves : (kn_halves){0, 0};
    copy_values(node->inputs, node->input_count, halves.inputs, inputs, read);
    copy_values(node->outputs, node->output_count, halves.results, outputs, written);
    copy.inputs = read;
    copy.outputs = written;
    copy.tf32 = node->tf32 || with.tf32;
    return variant->choice.accepts(target, &copy);
}

static bool accepts_with(const kn_planner *planner, const kn_node *node, const kn_variant *variant,
                         difference with) {
    kn_target target = *planner->target;
    if (with.kind) {
        target.wide_vector = !target.wide_vector;
        if (target.vector_width < 4) target.vector_width = 16;
        if (target.vector_registers < 16) target.vector_registers = 32;
        if (target.work_group_items < 256) target.work_group_items = 256;
        if (target.local_bytes < 32 << 10) target.local_bytes = 32 << 10;
        target.group_limit = NULL;
        target.refused_tiles = NULL;
    }
    if (with.global) target.local_is_global = true;
    if (!with.unit) return accepts_on(&target, node, variant, with);
    for (int unit = KN_MATRIX_UNIT_MMA; unit <= KN_MATRIX_UNIT_LAST; unit++) {
        kn_matrix_unit some = (kn_matrix_unit)unit;
        if (target.wide_vector != (some == KN_MATRIX_UNIT_AMX)) continue;
        target.matrix_unit = some_unit;
        target.device = &some;
        target.group_limit = NULL;
        target.refused_tiles = NULL;
        target.item_registers = NULL;
        if (accepts_on(&target, node, variant, with)) return true;
    }
    return false;
}

/* Why a variant's `accepts` refuses the node: the fewest differences of device and node with which it would
 * not. */
static void add_reason_of_node(const kn_planner *planner, const kn_node *node, const kn_variant *variant,
                               kn_text *text) {
    static const difference all[] = {
        {.kind = true},
        {.unit = true},
        {.halves = true},
        {.tf32 = true},
        {.global = true},
        {.kind = true, .global = true},
        {.kind = true, .unit = true},
        {.kind = true, .halves = true},
        {.unit = true, .halves = true},
        {.unit = true, .tf32 = true},
        {.kind = true, .unit = true, .halves = true},
        {.kind = true, .unit = true, .tf32 = true},
    };
    for (size_t i = 0; i < KN_COUNT_OF(all); i++) {
        const difference with = all[i];
        if (!accepts_with(planner, node, variant, with)) continue;
        const bool only_kind = !with.unit && !with.halves && !with.tf32 && !with.global;
        if (with.kind)
            kn_text_format(text, "for %s%s", planner->target->wide_vector ? "GPUs" : "CPUs",
                           only_kind ? "" : " with");
        else
            kn_text_add(text, "needs");
        if (with.global) kn_text_add(text, " local memory that is a part of global memory");
        if (with.unit) kn_text_add(text, " a matrix unit");
        if (with.unit && (with.halves || with.tf32)) kn_text_add(text, " and");
        if (with.halves || with.tf32) kn_text_add(text, with.tf32 ? " TF32" : " 16-bit values");
        return;
    }
    kn_text_add(text, "does not support these shapes or types");
}

static const char *reason_of(kn_refusal refusal) {
    switch (refusal) {
    case KN_NOT_REFUSED:
    case KN_REFUSED_NODE:
        break;
    case KN_REFUSED_LAYOUT:
        return "reads blocked images, whose conversions would cost more in this network";
    case KN_REFUSED_ERROR:
        return "has a larger error; only with fast math";
    case KN_REFUSED_CHANGES:
        return "prepares an input that may change in each run";
    case KN_REFUSED_TYPES:
        return "does not read or write these 16-bit types";
    case KN_REFUSED_WORK:
        return "its estimated work, with transforms, is not less";
    case KN_REFUSED_WRONG:
        return "the device failed its trial";
    }
    return "";
}

static bool is_forced(const kn_planner *planner, const kn_node *node, const kn_variant *variant) {
    const kn_switches *switches = planner->switches;
    for (int i = 0; i < switches->forced_count; i++)
        if ((!switches->forced[i].row || switches->forced[i].row == node->op) &&
            !strcmp(switches->forced[i].variant, variant->name))
            return true;
    return false;
}

/* What a variant launches for the node without an epilogue and with plain images. */
static void add_launches(kn_planner *planner, const kn_node *node, const kn_variant *variant, kn_text *text) {
    kn_emitter emitter;
    kn_error error = {.status = KN_OK};
    uint64_t scratch = 0;
    kn_emitter_init(&emitter, planner->arena, planner->host, planner->target, &error);
    kn_lowering lowering = {.target = planner->target,
                            .node = node,
                            .emitter = &emitter,
                            .result = node->outputs[0],
                            .error = &error};
    if (kn_variant_lower(variant, &lowering) == KN_OK) {
        for (int i = 0; i < emitter.scratch_count; i++)
            scratch += emitter.scratch_bytes[i];
        kn_text_format(text, "; %d step%s, %llu bytes of scratch memory", emitter.step_count,
                       emitter.step_count == 1 ? "" : "s", (unsigned long long)scratch);
    }
    kn_emitter_finish(&emitter);
}

static void add_variant(kn_planner *planner, const kn_node *node, const kn_variant *variant, int width,
                        kn_text *text) {
    const kn_chosen *chosen = &planner->chosen[node->id];
    const kn_refusal refusal = kn_variant_refusal(planner, node, variant, planner->plain_images);
    kn_text_format(text, "  %-*s  ", width, variant->name);
    if (variant == chosen->variant)
        kn_text_add(text, is_forced(planner, node, variant) ? "used: forced"
                          : chosen->tuned                   ? "used: the fastest when tuned"
                                                            : "used: the first that is possible");
    else if (refusal == KN_REFUSED_NODE)
        add_reason_of_node(planner, node, variant, text);
    else if (refusal)
        kn_text_add(text, reason_of(refusal));
    else if (variant->choice.measured && variant < chosen->variant)
        kn_text_add(text, "possible, but not faster when measured");
    else
        kn_text_add(text, "possible");
    if (variant == chosen->variant || !refusal) add_launches(planner, node, variant, text);
    kn_text_add(text, "\n");
}

static void explain(kn_planner *planner, const kn_node *node, kn_text *text) {
    kn_cost cost;
    int width = 0;
    kn_node_cost(node, &cost);
    kn_text_format(text, "%s %s: ", node->op->name, node->name);
    kn_shape_text(planner->graph, &node->outputs[0]->shape, text);
    for (int i = 0; i < node->input_count; i++) {
        if (!node->inputs[i]) continue;
        kn_text_add(text, i ? ", " : " from ");
        kn_shape_text(planner->graph, &node->inputs[i]->shape, text);
    }
    kn_text_add(text, "\n  ");
    kn_text_fixed(text, cost.flops * 1e-6, 3);
    kn_text_add(text, " MFLOP and ");
    kn_text_fixed(text, cost.bytes * 1e-6, 3);
    kn_text_add(text, " MB by the direct method; kernels in the order in which they are considered:\n");
    for (int i = 0; i < node->op->variant_count; i++) {
        const int length = (int)strlen(node->op->variants[i].name);
        width = length > width ? length : width;
    }
    for (int i = 0; i < node->op->variant_count; i++)
        add_variant(planner, node, &node->op->variants[i], width, text);
}

kn_status kn_explain_choices(kn_planner *planner) {
    kn_text text;
    kn_text_init(&text, planner->host);
    for (size_t i = 0; i < planner->graph->node_count; i++)
        if (planner->chosen[i].variant && is_meant(planner->graph->nodes[i], planner->switches->why))
            explain(planner, planner->graph->nodes[i], &text);
    planner->why = text.failed ? NULL : kn_arena_text(planner->arena, text.data ? text.data : "");
    kn_text_finish(&text);
    return planner->why ? KN_OK : kn_fail_memory(planner->error, 256);
}
