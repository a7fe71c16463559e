/* Epilogues: writes the pointwise nodes after a matrix product or convolution as macros for its kernel (see
 * step.h). */
#include <stdio.h>
#include <string.h>

#include "plan/plan_private.h"

typedef struct epilogue_names {
    const kn_group *group;
    const kn_epilogue *epilogue;
} epilogue_names;

static void name_of(const void *user, const kn_value *value, kn_text *text) {
    const epilogue_names *naming = user;
    if (value == naming->group->anchor->outputs[0]) {
        kn_text_add(text, "v");
        return;
    }
    for (int m = 0; m < naming->group->member_count; m++)
        if (naming->group->members[m]->outputs[0] == value) {
            kn_text_format(text, "v%d", m);
            return;
        }
    for (int i = 0; i < naming->epilogue->operand_count; i++)
        if (naming->epilogue->operands[i].value == value) {
            kn_text_format(text, "x%d", i);
            return;
        }
}

static bool is_inside(const kn_group *group, const kn_value *value) {
    if (value == group->anchor->outputs[0]) return true;
    for (int m = 0; m < group->member_count; m++)
        if (group->members[m]->outputs[0] == value) return true;
    return false;
}

static bool find_operands(const kn_group *group, kn_epilogue *epilogue) {
    if (group->between) {
        epilogue->operands[0].value = group->between;
        epilogue->operands[0].written = true;
        epilogue->operand_count = 1;
    }
    for (int m = 0; m < group->member_count; m++)
        for (int i = 0; i < group->members[m]->input_count; i++) {
            kn_value *value = group->members[m]->inputs[i];
            if (!value || is_inside(group, value)) continue;
            bool known = false;
            for (int k = 0; k < epilogue->operand_count; k++)
                known = known || epilogue->operands[k].value == value;
            if (known) continue;
            if (epilogue->operand_count == KN_EPILOGUE_OPERANDS) return false;
            epilogue->operands[epilogue->operand_count++].value = value;
        }
    return true;
}

/* The strides of an operand along the outer, middle and inner axis of the anchor's result. */
static void find_strides(const kn_planner *planner, const kn_group *group, kn_value *value,
                         int64_t strides[3]) {
    const kn_value *result = group->anchor->outputs[0];
    int64_t sizes[KN_MAX_RANK + 1], own_strides[KN_MAX_RANK + 1];
    int axes = kn_value_strides(planner->target, value, &result->shape, result->layout, sizes, own_strides);
    if (result->layout == KN_LAYOUT_BLOCKED) {
        strides[0] = own_strides[0];
        /* Between blocks of channels; with a single block any stride works, but 0 would mean that all
         * channels are equal. */
        strides[1] = own_strides[1] ? own_strides[1] : own_strides[4] ? sizes[4] : 0;
        strides[2] = own_strides[3] ? own_strides[3] : own_strides[2];
        return;
    }
    bool image = axes == 4 && !group->anchor->op->matrices;
    int middle = image ? 1 : axes - 2, inner = image ? 2 : axes - 1;
    int starts[4] = {0, middle > 0 ? middle : 0, inner > 0 ? inner : 0, axes};
    for (int axis = 0; axis < 3; axis++) {
        strides[axis] = 0;
        /* The axis merges dimensions: its stride is the stride of the last dimension with more than one
         * element. */
        for (int d = starts[axis]; d < starts[axis + 1]; d++)
            if (own_strides[d]) strides[axis] = own_strides[d];
    }
}

/* Stores an intermediate result, which is in variable `name`, if other groups read it. */
static void write_between(const kn_epilogue *epilogue, const kn_value *value, const char *name,
                          kn_text *text) {
    for (int i = 0; i < epilogue->operand_count; i++)
        if (epilogue->operands[i].written && epilogue->operands[i].value == value)
            kn_text_format(text, " *x%d = %s;", i, name);
}

static kn_status write_function(kn_planner *planner, const kn_group *group, const kn_epilogue *epilogue,
                                const char *type, const char *ending, kn_text *text) {
    epilogue_names naming = {.group = group, .epilogue = epilogue};
    kn_text_format(text, "static %s %s%s(const %s v", type, epilogue->function, ending, type);
    for (int i = 0; i < epilogue->operand_count; i++)
        if (epilogue->operands[i].written)
            kn_text_format(text, ", global %s *x%d", type, i);
        else
            kn_text_format(text, ", const %s x%d", type, i);
    kn_text_add(text, ") {");
    write_between(epilogue, group->anchor->outputs[0], "v", text);
    for (int m = 0; m < group->member_count; m++) {
        kn_text_format(text, " const %s v%d = ", type, m);
        kn_status status = kn_pointwise_write(planner, group->members[m], type, name_of, &naming, NULL, text);
        if (status != KN_OK) return status;
        kn_text_add(text, ";");
        char name[16];
        snprintf(name, sizeof name, "v%d", m);
        write_between(epilogue, group->members[m]->outputs[0], name, text);
    }
    kn_text_format(text, " return v%d; }\n", group->member_count - 1);
    return KN_OK;
}

/* The offset of an operand's element for one result. */
static void write_offset(const char *operand, int i, kn_text *text) {
    kn_text_format(text, "(outer) * %s%d_outer + (middle) * %s%d_middle + (inner) * %s%d_inner", operand, i,
                   operand, i, operand, i);
}

static void write_scalar_macro(const kn_epilogue *epilogue, kn_text *text) {
    const char *e = epilogue->operand;
    kn_text_format(text, "#define %s(v, outer, middle, inner) %s(v", epilogue->macro, epilogue->function);
    for (int i = 0; i < epilogue->operand_count; i++) {
        const int half = kn_half_kind(epilogue->operands[i].value->shape.dtype);
        const bool written = epilogue->operands[i].written;
        if (half && !written)
            kn_text_format(text, ", KN_READ_AS(%d, %s%d + ", half, e, i);
        else
            kn_text_format(text, written ? ", %s%d + (" : ", %s%d[", e, i);
        write_offset(e, i, text);
        kn_text_add(text, half || written ? ")" : "]");
    }
    kn_text_add(text, ")\n");
}

/* Four results along the inner axis, starting at a multiple of 4: an operand either repeats, or has
 * contiguous elements that start at a multiple of 4. */
static void write_4_macro(const kn_epilogue *epilogue, kn_text *text) {
    const char *e = epilogue->operand;
    kn_text_format(text, "#define %s_4(v, outer, middle, inner) %s_4(v", epilogue->macro, epilogue->function);
    for (int i = 0; i < epilogue->operand_count; i++) {
        const int half = kn_half_kind(epilogue->operands[i].value->shape.dtype);
        if (epilogue->operands[i].written)
            kn_text_format(text, ", (global float4 *)(%s%d + ", e, i);
        else
            kn_text_format(text,
                           epilogue->operands[i].strides[2] ? ", KN_READ_4_AS(%d, %s%d + "
                                                            : ", (float4)KN_READ_AS(%d, %s%d + ",
                           half, e, i);
        write_offset(e, i, text);
        kn_text_add(text, ")");
    }
    kn_text_add(text, ")\n");
}

/* Strides 0, 1 and the vector width are constants, which saves a multiplication per vector of results; other
 * strides are arguments, so that one program serves all sizes. */
static void write_stride(const kn_epilogue *epilogue, int operand, int axis, int width, kn_text *text) {
    int64_t stride = epilogue->operands[operand].strides[axis];
    if (axis > 0 && (stride == 0 || stride == 1 || stride == width))
        kn_text_format(text, "%d", (int)stride);
    else
        kn_text_format(text, "%s%d_%s", epilogue->operand, operand, kn_epilogue_axes[axis]);
}

/* Writes the offset of a vector of an operand: "(outer) * … + (middle) * … + (inner) * …". */
static void write_vector_offset(const kn_epilogue *epilogue, int operand, bool blocked, int width,
                                kn_text *text) {
    kn_text_add(text, "(outer) * ");
    write_stride(epilogue, operand, 0, width, text);
    kn_text_add(text, " + (middle) ");
    if (blocked) kn_text_format(text, "/ %d ", width);
    kn_text_add(text, "* ");
    write_stride(epilogue, operand, 1, width, text);
    kn_text_add(text, " + (inner) * ");
    write_stride(epilogue, operand, 2, width, text);
}

/* aligned: vectors of operands are aligned to their size. */
static void write_vector_macro(const kn_epilogue *epilogue, bool blocked, bool aligned, int width,
                               kn_text *text) {
    kn_text_format(text, "#define %s_VECTOR(v, outer, middle, inner) %s_vector(v", epilogue->macro,
                   epilogue->function);
    for (int i = 0; i < epilogue->operand_count; i++) {
        bool varies = epilogue->operands[i].strides[blocked ? 1 : 2] != 0;
        const int half = kn_half_kind(epilogue->operands[i].value->shape.dtype);
        if (varies && aligned)
            kn_text_format(text, ", KN_READ_%d_AS(%d, %s%d + (", width, half, epilogue->operand, i);
        else if (varies && half)
            kn_text_format(text, ", KN_READ_VECTOR_AS(%d, 0, %s%d + (", half, epilogue->operand, i);
        else if (varies)
            kn_text_format(text, ", vload%d(0, %s%d + (", width, epilogue->operand, i);
        else if (half)
            kn_text_format(text, ", (float%d)KN_READ_AS(%d, %s%d + (", width, half, epilogue->operand, i);
        else
            kn_text_format(text, ", (float%d)(%s%d[", width, epilogue->operand, i);
        write_vector_offset(epilogue, i, blocked, width, text);
        kn_text_add(text, varies || half ? "))" : "])");
    }
    /* An operand that varies along only one axis is small enough to stay in cache. */
    kn_text_format(text, ")\n#define %s_PREFETCH(outer, middle, inner)", epilogue->macro);
    for (int i = 0; i < epilogue->operand_count; i++) {
        if (!epilogue->operands[i].strides[1] || !epilogue->operands[i].strides[2]) continue;
        kn_text_format(text, " KN_PREFETCH(%s%d + (", epilogue->operand, i);
        write_vector_offset(epilogue, i, blocked, width, text);
        kn_text_add(text, "))");
    }
    kn_text_add(text, "\n");
}

kn_status kn_make_epilogue(kn_planner *planner, const kn_group *group, bool of_producer,
                           kn_epilogue *epilogue) {
    /* Different names, so that both can be defined in one program. */
    *epilogue = of_producer ? (kn_epilogue){"KN_PRODUCER", "kn_producer", "b", .prelude = ""}
                            : (kn_epilogue){"KN_EPILOGUE", "kn_epilogue", "e", .prelude = ""};
    if (!find_operands(group, epilogue))
        return kn_fail(planner->error, KN_ERROR_INTERNAL, "an epilogue has more than %d operands",
                       KN_EPILOGUE_OPERANDS);
    bool blocked = group->anchor->outputs[0]->layout == KN_LAYOUT_BLOCKED;
    kn_text text;
    kn_text_init(&text, planner->host);
    for (int i = 0; i < epilogue->operand_count; i++)
        find_strides(planner, group, epilogue->operands[i].value, epilogue->operands[i].strides);
    kn_status status = KN_OK;
    if (!blocked) {
        status = write_function(planner, group, epilogue, "float", "", &text);
        write_scalar_macro(epilogue, &text);
        if (status == KN_OK) status = write_function(planner, group, epilogue, "float4", "_4", &text);
        write_4_macro(epilogue, &text);
    }
    const bool wide = planner->target->wide_vector;
    const int width = kn_block_width(planner->target);
    if (status == KN_OK && (wide ? width > 1 : blocked)) {
        const char *type = width == 16 ? "float16" : width == 8 ? "float8" : "float4";
        status = write_function(planner, group, epilogue, type, "_vector", &text);
        write_vector_macro(epilogue, blocked, !wide, width, &text);
    }
    const kn_dtype stored = kn_group_result(group)->shape.dtype;
    if (kn_is_byte(stored)) kn_text_format(&text, "#define KN_RESULT_T %s\n", kn_opencl_type(stored));
    if (status == KN_OK && kn_text_failed(&text)) status = kn_fail_memory(planner->error, text.length);
    if (status == KN_OK) {
        epilogue->prelude = kn_arena_text(planner->arena, text.data);
        if (!epilogue->prelude) status = kn_fail_memory(planner->error, text.length);
    }
    kn_text_finish(&text);
    return status;
}
