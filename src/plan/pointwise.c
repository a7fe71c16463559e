/* Lowers a pointwise group to one generated kernel that traverses a space once, reads each operand once, and
 * writes the results that are needed outside the group. The code comes from the expressions of the rows and
 * is inserted through macros into cl/pointwise/pointwise.cl. It depends on the expressions and on which
 * operands are broadcast, not on sizes, so that few programs are compiled. */
#include <stdio.h>
#include <string.h>

#include "plan/plan_private.h"

enum { MAX_OPERANDS = 32, MAX_AXES = KN_MAX_RANK + 1, MAX_ITEMS = 262144 };

typedef struct kernel_operand {
    kn_value *value;   /* value that is read; also written if `written` reuses its memory */
    kn_value *written; /* NULL: only read */
    int64_t strides[MAX_AXES];
} kernel_operand;

typedef struct kernel_text {
    kn_planner *planner;
    kn_group *group;
    kernel_operand operands[MAX_OPERANDS];
    int count;
    bool overflow;
    bool random;
    bool small;                       /* some values are of storage-only types (cl/common/small_float.cl) */
    int64_t random_strides[MAX_AXES]; /* from positions to the row-major index of an element, which selects
                                         its random number */
    int64_t sizes[MAX_AXES];
    int axes;
    int lanes; /* of the body being written: 1, or the vector width */
    kn_text row, body, vector_body;
} kernel_text;

const char *kn_pointwise_type(kn_dtype dtype) {
    switch (dtype) {
    case KN_BOOL:
    case KN_INT8:
    case KN_INT16:
    case KN_UINT8:
    case KN_UINT16:
        return "int";
    case KN_FLOAT16:
    case KN_BFLOAT16:
    case KN_SMALL_FLOATS:
        return "float"; /* 16-bit and 8-bit types are only for storage */
    default:
        return kn_opencl_type(dtype);
    }
}

/* The type in which an expression is computed: the type of the first input that is not bool; a derivative
 * uses the type of its result. Ignores the last input of a random row, the step counter. */
static kn_dtype compute_dtype(const kn_node *node) {
    if (node->derivative) return node->outputs[0]->shape.dtype;
    int count = node->op->random ? node->input_count - 1 : node->input_count;
    for (int i = 0; i < count; i++)
        if (node->inputs[i] && node->inputs[i]->shape.dtype != KN_BOOL) return node->inputs[i]->shape.dtype;
    return KN_INT32;
}

static void add_operand(void *user, kn_value *value) {
    kernel_text *kernel = user;
    if (kernel->count == MAX_OPERANDS)
        kernel->overflow = true;
    else
        kernel->operands[kernel->count++] = (kernel_operand){.value = value};
}

/* A written value reuses the memory of an operand if allowed; otherwise it becomes an operand. */
static void add_written(void *user, kn_value *value) {
    kernel_text *kernel = user;
    for (int i = 0; i < kernel->count; i++) {
        kernel_operand *operand = &kernel->operands[i];
        if (operand->written || !kn_shape_same(&operand->value->shape, &kernel->group->space)) continue;
        if (!kn_reuse_memory(kernel->planner, kernel->group, operand->value, value)) continue;
        operand->written = value;
        return;
    }
    if (kernel->count == MAX_OPERANDS)
        kernel->overflow = true;
    else
        kernel->operands[kernel->count++] = (kernel_operand){.value = value, .written = value};
}

static bool is_contiguous(const int64_t *strides, int axis, int64_t size) {
    return strides[axis] == strides[axis + 1] * size;
}

/* Removes entry `axis` from a list of `count`. */
static void drop_axis(int64_t *list, int axis, int count) {
    for (int a = axis; a < count - 1; a++)
        list[a] = list[a + 1];
}

/* Merges neighbouring axes that every operand traverses like a single axis. */
static void merge_axes(kernel_text *kernel) {
    for (int a = kernel->axes - 2; a >= 0; a--) {
        int64_t outer = kernel->sizes[a], inner = kernel->sizes[a + 1];
        bool mergeable = !kernel->random || is_contiguous(kernel->random_strides, a, inner);
        for (int i = 0; i < kernel->count && mergeable; i++)
            mergeable = is_contiguous(kernel->operands[i].strides, a, inner);
        if (!mergeable && outer != 1 && inner != 1) continue;
        int gone = inner == 1 ? a + 1 : a; /* the axis whose stride is dropped */
        drop_axis(kernel->random_strides, gone, kernel->axes);
        for (int i = 0; i < kernel->count; i++)
            drop_axis(kernel->operands[i].strides, gone, kernel->axes);
        drop_axis(kernel->sizes, a, kernel->axes);
        kernel->sizes[a] = outer * inner;
        kernel->axes--;
    }
}

static void find_axes(kernel_text *kernel) {
    const kn_group *group = kernel->group;
    const kn_target *target = kernel->planner->target;
    /* The strides of the space itself, as a plain value, give row-major indices. */
    kn_value plain = {.shape = group->space};
    kernel->axes =
        kn_value_strides(target, &plain, &group->space, group->layout, kernel->sizes, kernel->random_strides);
    for (int i = 0; i < kernel->count; i++) {
        int64_t sizes[MAX_AXES];
        kn_value_strides(target, kernel->operands[i].value, &group->space, group->layout, sizes,
                         kernel->operands[i].strides);
    }
    if (!kernel->axes) {
        kernel->axes = 1;
        kernel->sizes[0] = 1;
        kernel->random_strides[0] = 0;
        for (int i = 0; i < kernel->count; i++)
            kernel->operands[i].strides[0] = 0;
    }
    merge_axes(kernel);
}

/* Writes the offset of element j of the current row: "p3_o + j * p3_i". */
static void write_offset(const kernel_text *kernel, const char *prefix, int number, int64_t stride,
                         kn_text *text) {
    if (kernel->axes > 1) kn_text_format(text, "%s%d_o + ", prefix, number);
    if (stride == 0)
        kn_text_add(text, "0");
    else if (stride == 1)
        kn_text_add(text, "j");
    else
        kn_text_format(text, "j * %s%d_i", prefix, number);
}

static void write_beginning(kernel_text *kernel, const char *prefix, int number) {
    int inner = kernel->axes - 1;
    if (inner == 0) return;
    kn_text_format(&kernel->row, " const KN_INDEX %s%d_o = ", prefix, number);
    for (int a = 0; a < inner; a++)
        kn_text_format(&kernel->row, "%sa%d * %s%d_%d", a ? " + " : "", a, prefix, number, a);
    kn_text_add(&kernel->row, ";");
}

static void write_row(kernel_text *kernel) {
    int inner = kernel->axes - 1;
    if (inner) {
        kn_text_add(&kernel->row, "KN_INDEX rest = row;");
        for (int a = inner - 1; a > 0; a--)
            kn_text_format(&kernel->row, " const KN_INDEX a%d = rest %% size%d; rest /= size%d;", a, a, a);
        kn_text_add(&kernel->row, " const KN_INDEX a0 = rest;");
    }
    if (kernel->random) write_beginning(kernel, "u", 0);
    for (int i = 0; i < kernel->count; i++)
        write_beginning(kernel, "p", i);
}

/* Writes the last arguments of the functions in cl/common/small_float.cl, and the closing parenthesis. */
static void write_facts(kernel_text *kernel, const kn_small_float *small, kn_text *body) {
    char facts[KN_SMALL_FACTS];
    kn_text_format(body, ", %s)", kn_small_float_facts(small, facts));
    kernel->small = true;
}

static void write_loads(kernel_text *kernel, kn_text *body) {
    for (int i = 0; i < kernel->count; i++) {
        const kernel_operand *operand = &kernel->operands[i];
        int64_t stride = operand->strides[kernel->axes - 1];
        kn_dtype dtype = operand->value->shape.dtype;
        if (operand->written == operand->value) continue;
        const int half = kn_half_kind(dtype);
        const kn_small_float *small = kn_small_float_of(dtype);
        /* Other operands are the same in all lanes. */
        const bool byte = kn_is_byte(dtype);
        bool whole = kernel->lanes > 1 && (half || small || byte || dtype == KN_FLOAT32);
        if (whole)
            kn_text_format(body, "const float%d x%d = ", kernel->lanes, i);
        else
            kn_text_format(body, "const %s x%d = ", kn_pointwise_type(dtype), i);
        if (whole && stride && half)
            kn_text_format(body, "KN_READ_VECTOR_AS(%d, 0, p%d + ", half, i);
        else if (whole && stride && small)
            kn_text_format(body, "kn_from_small_vector(convert_uint%d(vload%d(0, p%d + ", kernel->lanes,
                           kernel->lanes, i);
        else if (whole && stride && byte)
            kn_text_format(body, "convert_float%d(vload%d(0, p%d + ", kernel->lanes, kernel->lanes, i);
        else if (whole && stride)
            kn_text_format(body, "vload%d(0, p%d + ", kernel->lanes, i);
        else if (half)
            kn_text_format(body, "KN_READ_AS(%d, p%d + ", half, i);
        else
            kn_text_format(body, small ? "kn_from_small(p%d[" : whole && byte ? "(float)p%d[" : "p%d[", i);
        write_offset(kernel, "p", i, stride, body);
        kn_text_add(body, whole && stride && (small || byte) ? "))" : half || (whole && stride) ? ")" : "]");
        if (small) write_facts(kernel, small, body);
        kn_text_add(body, "; ");
    }
}

/* Writes the variable of a value: v of a member, x of an operand. */
static void name_of(const kernel_text *kernel, const kn_value *value, kn_text *text) {
    for (int m = 0; m < kernel->group->member_count; m++)
        if (kernel->group->members[m]->outputs[0] == value) {
            kn_text_format(text, "v%d", m);
            return;
        }
    for (int i = 0; i < kernel->count; i++)
        if (kernel->operands[i].value == value) {
            kn_text_format(text, "x%d", i);
            return;
        }
}

kn_value *kn_pointwise_named_input(const kn_node *node, const char *name) {
    int forward = node->derivative ? node->input_count - 2 : node->input_count;
    if (!strcmp(name, "x")) return forward > 0 ? node->inputs[0] : NULL;
    if (!strcmp(name, "y")) return forward > 1 ? node->inputs[1] : NULL;
    if (!strcmp(name, "z")) return forward > 2 ? node->inputs[2] : NULL;
    if (!strcmp(name, "r") && node->derivative) return node->inputs[forward];
    if (!strcmp(name, "g") && node->derivative) return node->inputs[forward + 1];
    return NULL;
}

kn_status kn_pointwise_expression(kn_planner *planner, const kn_node *node, kn_expression **expression) {
    const kn_operator *row = node->op;
    const char *text = node->derivative ? row->by[node->derivative - 1] : row->value;
    if (!text)
        return kn_fail(planner->error, KN_ERROR_INTERNAL, "%s '%s' has no expression", row->name, node->name);
    return kn_expression_parse(planner->arena, text, expression, planner->error);
}

kn_status kn_pointwise_write(kn_planner *planner, const kn_node *node, const char *type,
                             void (*name)(const void *user, const kn_value *value, kn_text *text),
                             const void *user, const char *uniform, kn_text *body) {
    kn_expression *expression = NULL;
    kn_status status = kn_pointwise_expression(planner, node, &expression);
    if (status != KN_OK) return status;
    const char *replacements[32] = {NULL};
    kn_text names[32];
    int count = kn_expression_name_count(expression);
    if (count > 32)
        return kn_fail(planner->error, KN_ERROR_INTERNAL, "%s reads too many names", node->op->name);
    for (int i = 0; i < count; i++) {
        const char *word = kn_expression_name(expression, i);
        kn_text_init(&names[i], planner->host);
        kn_value *value = kn_pointwise_named_input(node, word);
        if (value)
            name(user, value, &names[i]);
        else if (!strcmp(word, "uniform") && uniform)
            kn_text_add(&names[i], uniform);
        else {
            const kn_operator *row = node->op;
            for (int a = 0; a < row->attribute_count; a++)
                if (!strcmp(row->attributes[a].name, word)) {
                    bool real = row->attributes[a].kind == KN_ATTRIBUTE_FLOAT;
                    double number = real ? node->attributes[a].number : (double)node->attributes[a].integer;
                    kn_expression_literal(number, type, &names[i]);
                }
        }
        if (!names[i].length)
            status =
                kn_fail(planner->error, KN_ERROR_INTERNAL, "%s '%s': the expression reads unknown name '%s'",
                        node->op->name, node->name, word);
        if (kn_text_failed(&names[i])) status = kn_fail_memory(planner->error, 64);
        replacements[i] = names[i].data;
    }
    if (status == KN_OK) kn_expression_print(expression, type, replacements, body);
    for (int i = 0; i < count; i++)
        kn_text_finish(&names[i]);
    return status;
}

static void operand_name(const void *user, const kn_value *value, kn_text *text) {
    name_of(user, value, text);
}

/* Writes, after the value that a node stores in a storage-only type, how it is rounded. Only casts compute
 * values; other nodes move them. */
static void write_rounding(const kn_node *node, kn_text *body) {
    const kn_attribute_value *saturate = kn_attribute_in(node->op, node->attributes, "saturate");
    const kn_attribute_value *round = kn_attribute_in(node->op, node->attributes, "round");
    kn_text_format(body, ", %d, %d", saturate ? (int)saturate->integer : 0,
                   round ? (int)round->integer : KN_POWER_DOWN);
}

/* Writes the conversion of a vector to the vector of an 8-bit type, up to the value: the integer wraps
 * around. */
static void write_narrowing(const kernel_text *kernel, kn_dtype dtype, kn_text *body) {
    const int lanes = kernel->lanes;
    kn_text_format(body, "convert_%schar%d(convert_int%d(", dtype == KN_UINT8 ? "u" : "", lanes, lanes);
}

/* The casts, up to the parenthesis, that make an int wrap around like the narrower stored integer; NULL: none
 * needed. */
static const char *wrap_of(kn_dtype dtype) {
    switch (dtype) {
    case KN_INT8:
        return "(char)(int)(";
    case KN_UINT8:
        return "(uchar)(int)(";
    case KN_INT16:
        return "(short)(int)(";
    case KN_UINT16:
        return "(ushort)(int)(";
    default:
        return NULL;
    }
}

static kn_status write_member(kernel_text *kernel, int position, kn_text *body) {
    kn_planner *planner = kernel->planner;
    const kn_node *node = kernel->group->members[position];
    const kn_value *result = node->outputs[0];
    char uniform[64] = "", vector[16];
    const char *type = kn_pointwise_type(compute_dtype(node));
    const char *result_type = kn_pointwise_type(result->shape.dtype);
    if (kernel->lanes > 1) {
        snprintf(vector, sizeof vector, "float%d", kernel->lanes);
        type = result_type = vector;
    }
    if (node->op->random) {
        /* The step counter is the last input of the forward node. */
        const kn_value *step =
            node->inputs[(node->derivative ? node->input_count - 2 : node->input_count) - 1];
        int64_t stride = kernel->random_strides[kernel->axes - 1];
        bool one = kernel->lanes == 1;
        kn_text_format(body, "const %s u%d = %s(((ulong)h%d << 32 | l%d)%s", one ? "float" : vector, position,
                       one ? "kn_uniform" : "kn_uniforms", position, position,
                       one ? ", " : " + KN_PHILOX_STEP * ");
        name_of(kernel, step, body);
        kn_text_add(body, ", ");
        write_offset(kernel, "u", 0, stride, body);
        kn_text_format(body, one ? "); " : stride > 1 ? ", u0_i); " : ", %d); ", (int)stride);
        snprintf(uniform, sizeof uniform, "u%d", position);
    }
    const int half = kn_half_kind(result->shape.dtype);
    const kn_small_float *small = kn_small_float_of(result->shape.dtype);
    /* In vectors, 8-bit numbers are floats. */
    const bool narrows = kernel->lanes > 1 && kn_is_byte(result->shape.dtype);
    const char *wrap = narrows ? NULL : wrap_of(result->shape.dtype);
    const char *rounds = half == 1            ? "kn_as_half"
                         : half == 2          ? "kn_as_bfloat"
                         : wrap               ? wrap
                         : !small             ? ""
                         : kernel->lanes == 1 ? "kn_as_small("
                                              : "kn_as_small_vector(";
    kn_text_format(body, "const %s v%d = %s%s", result_type, position, rounds,
                   !half                ? ""
                   : kernel->lanes == 1 ? "("
                                        : "_vector(");
    if (narrows) {
        kn_text_format(body, "convert_float%d(", kernel->lanes);
        write_narrowing(kernel, result->shape.dtype, body);
    }
    kn_status status =
        kn_pointwise_write(planner, node, type, operand_name, kernel, uniform[0] ? uniform : NULL, body);
    if (small) {
        write_rounding(node, body);
        write_facts(kernel, small, body);
    }
    kn_text_add(body, result->shape.dtype == KN_BOOL ? " != 0; "
                      : narrows                      ? "))); "
                      : half || wrap                 ? "); "
                                                     : "; ");
    for (int i = 0; i < kernel->count; i++) {
        const kernel_operand *operand = &kernel->operands[i];
        if (operand->written != result) continue;
        if (half)
            kn_text_format(body,
                           kernel->lanes == 1 ? "KN_WRITE_AS(%d, v%d, p%d + "
                                              : "KN_WRITE_VECTOR_AS(%d, v%d, 0, p%d + ",
                           half, position, i);
        else if (kernel->lanes == 1)
            kn_text_format(body, "p%d[", i);
        else if (small) {
            kn_text_format(body, "vstore%d(convert_uchar%d(kn_to_small_vector(v%d, 0, %d", kernel->lanes,
                           kernel->lanes, position, KN_POWER_DOWN);
            write_facts(kernel, small, body);
            kn_text_format(body, "), 0, p%d + ", i);
        } else if (narrows) {
            kn_text_format(body, "vstore%d(", kernel->lanes);
            write_narrowing(kernel, result->shape.dtype, body);
            kn_text_format(body, "v%d)), 0, p%d + ", position, i);
        } else
            kn_text_format(body, "kn_store%d(v%d, p%d + ", kernel->lanes, position, i);
        write_offset(kernel, "p", i, operand->strides[kernel->axes - 1], body);
        if (small && kernel->lanes == 1) {
            kn_text_format(body, "] = kn_to_small(v%d, 0, %d", position, KN_POWER_DOWN);
            write_facts(kernel, small, body);
            kn_text_add(body, "; ");
        } else if (kernel->lanes == 1 && !half) {
            kn_text_format(body, "] = v%d; ", position);
        } else {
            kn_text_add(body, "); ");
        }
    }
    return status;
}

/* Whether a body calls a function that compilers do not vectorize in scalar code although they provide vector
 * versions. */
static bool calls_functions(const char *body) {
    static const char *const functions[] = {
        "exp(",   "expm1(", "log(",  "log1p(", "sin(", "cos(", "tan(",
        "atan2(", "sinh(",  "cosh(", "tanh(",  "erf(", "pow("}; /* also matches asin( and so on */
    for (size_t i = 0; i < KN_COUNT_OF(functions); i++)
        if (strstr(body, functions[i])) return true;
    return false;
}

/* Whether a vector body can read and write the type as float, which excludes 8-bit powers of two. */
static bool is_float(kn_dtype dtype) {
    const kn_small_float *small = kn_small_float_of(dtype);
    return dtype == KN_FLOAT32 || kn_is_half(dtype) || (small && small->mantissa_bits > 0);
}

/* Whether a vector body can compute a node: with floats, or a cast from or to 8-bit integers, which floats
 * represent. */
static bool has_vector_types(const kn_node *node) {
    const kn_dtype from = compute_dtype(node), to = node->outputs[0]->shape.dtype;
    const bool casts = node->op->identity == KN_IDENTITY_ALWAYS && !node->derivative;
    return (is_float(from) || (casts && kn_is_byte(from))) && (is_float(to) || (casts && kn_is_byte(to)));
}

static bool counts_steps(const kernel_operand *operand, int64_t stride) {
    return operand->value->shape.dtype == KN_UINT32 && stride == 0 && !operand->written;
}

/* Whether to write a vector body too: if it helps, and all operands (except the step counter of random
 * numbers) are floats of at most 32 bits or 8-bit integers, contiguous or broadcast along the row. */
static bool wants_vectors(const kernel_text *kernel) {
    const kn_target *target = kernel->planner->target;
    int width = target->vector_width;
    bool narrow = false;
    if (!target->wide_vector || (width != 4 && width != 8 && width != 16)) return false;
    for (int i = 0; i < kernel->count; i++) {
        const kernel_operand *operand = &kernel->operands[i];
        int64_t stride = operand->strides[kernel->axes - 1];
        if (kernel->random && counts_steps(operand, stride)) continue;
        const kn_dtype dtype = operand->value->shape.dtype;
        if ((!is_float(dtype) && !kn_is_byte(dtype)) || stride > 1 || (operand->written && stride != 1))
            return false;
        narrow = narrow || kn_is_half(dtype) || kn_is_byte(dtype);
    }
    for (int i = 0; i < kernel->group->member_count; i++) {
        if (!has_vector_types(kernel->group->members[i])) return false;
    }
    return narrow || kernel->random || (kernel->body.data && calls_functions(kernel->body.data));
}

static kn_status write_body(kernel_text *kernel, int lanes, kn_text *body) {
    kn_status status = KN_OK;
    kernel->lanes = lanes;
    write_loads(kernel, body);
    for (int i = 0; i < kernel->group->member_count && status == KN_OK; i++)
        status = write_member(kernel, i, body);
    return status;
}

static void add_strides(kn_step *step, const kernel_text *kernel, const char *prefix, int number,
                        const int64_t *strides) {
    int inner = kernel->axes - 1;
    for (int a = 0; a < inner; a++)
        kn_step_index(step, kn_step_name(step, "%s%d_%d", prefix, number, a), strides[a]);
    if (strides[inner] > 1) kn_step_index(step, kn_step_name(step, "%s%d_i", prefix, number), strides[inner]);
}

/* Passes the halves of the keys of random numbers as arguments, so that the code is the same for all keys. */
static void add_keys(kn_step *step, const kernel_text *kernel) {
    for (int m = 0; m < kernel->group->member_count; m++) {
        const kn_node *node = kernel->group->members[m];
        if (!node->op->random) continue;
        kn_step_uint(step, kn_step_name(step, "l%d", m), (uint32_t)node->random_key);
        kn_step_uint(step, kn_step_name(step, "h%d", m), (uint32_t)(node->random_key >> 32));
    }
}

/* Adds the sizes of the axes except the first, and pointers with their strides; counts the bytes moved. */
static void add_arguments(kn_step *step, const kernel_text *kernel) {
    kn_step_generate(step, "KN");
    for (int a = 1; a < kernel->axes; a++)
        kn_step_index(step, kn_step_name(step, "size%d", a), kernel->sizes[a]);
    if (kernel->random) add_strides(step, kernel, "u", 0, kernel->random_strides);
    add_keys(step, kernel);
    for (int i = 0; i < kernel->count; i++) {
        const kernel_operand *operand = &kernel->operands[i];
        const char *name = kn_step_name(step, "p%d", i);
        if (!operand->written)
            kn_step_read(step, name, operand->value);
        else if (operand->written == operand->value)
            kn_step_write(step, name, operand->value);
        else
            kn_step_update(step, name, operand->written);
        add_strides(step, kernel, "p", i, operand->strides);
        double size = (double)kn_shape_elements(&operand->value->shape) *
                      (double)kn_dtype_bytes(operand->value->shape.dtype);
        step->cost.bytes += operand->written && operand->written != operand->value ? 2 * size : size;
    }
    kn_step_generated(step, "KN_RESTRICT");
}

static kn_status emit(kernel_text *kernel) {
    kn_planner *planner = kernel->planner;
    const kn_target *target = planner->target;
    kn_group *group = kernel->group;
    kn_node *last = group->members[group->member_count - 1];
    kn_lowering lowering = {.target = target,
                            .node = last,
                            .emitter = &planner->emitter,
                            .result = last->outputs[0],
                            .error = planner->error};
    kn_step *step = kn_step_begin(&lowering, "pointwise/pointwise.cl", "pointwise");
    if (!step) return kn_fail_memory(planner->error, sizeof *step);
    int64_t count = kn_shape_elements(&group->space);
    step->cost.flops = (double)count * group->member_count;
    kn_step_define(step, "KN_CHUNKS", "%d", target->wide_vector);
    kn_step_define(step, "KN_RANK", "%d", kernel->axes);
    kn_step_define(step, "KN_RANDOM", "%d", kernel->random);
    if (kernel->small) kn_step_define(step, "KN_SMALL_FLOATS", "1");
    kn_step_index(step, "count", count);
    add_arguments(step, kernel);
    kn_step_define(step, "KN_ROW", "%s", kernel->row.data);
    kn_step_define(step, "KN_BODY", "%s", kernel->body.data);
    if (kernel->vector_body.length) {
        kn_step_define(step, "KN_WIDTH", "%d", target->vector_width);
        kn_step_define(step, "KN_VECTOR_BODY", "%s", kernel->vector_body.data);
    }
    if (target->wide_vector) {
        size_t chunks = (size_t)(count / 4096);
        kn_step_size1(step, count ? chunks < 1 ? 1 : chunks > 16 ? 16 : chunks : 0, 1);
    } else {
        kn_step_define(step, "KN_STRIDE", "%d", MAX_ITEMS);
        kn_step_size1(step, count > MAX_ITEMS ? MAX_ITEMS : (size_t)count, 0);
    }
    return kn_step_end(step, &lowering);
}

kn_status kn_lower_pointwise(kn_planner *planner, kn_group *group) {
    kernel_text kernel = {.planner = planner, .group = group};
    kn_group_reads(planner, group, add_operand, &kernel);
    kn_group_writes(planner, group, add_written, &kernel);
    if (kernel.overflow)
        return kn_fail(planner->error, KN_ERROR_INTERNAL, "a pointwise kernel has more than %d operands",
                       MAX_OPERANDS);
    for (int i = 0; i < group->member_count; i++)
        kernel.random = kernel.random || group->members[i]->op->random;
    kn_text *texts[] = {&kernel.row, &kernel.body, &kernel.vector_body};
    for (size_t i = 0; i < KN_COUNT_OF(texts); i++)
        kn_text_init(texts[i], planner->host);
    find_axes(&kernel);
    write_row(&kernel);
    kn_status status = write_body(&kernel, 1, &kernel.body);
    if (status == KN_OK && wants_vectors(&kernel))
        status = write_body(&kernel, planner->target->vector_width, &kernel.vector_body);
    for (size_t i = 0; i < KN_COUNT_OF(texts); i++)
        if (status == KN_OK && kn_text_failed(texts[i])) status = kn_fail_memory(planner->error, 256);
    if (status == KN_OK) status = emit(&kernel);
    for (size_t i = 0; i < KN_COUNT_OF(texts); i++)
        kn_text_finish(texts[i]);
    return status;
}
