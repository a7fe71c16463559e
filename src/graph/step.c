/* Steps: operators set their arguments by name; they are checked, and put in the kernel's order, at the end.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "graph/graph_private.h"

/* The maximum number of elements with 32-bit indices: kernels compute indices beyond the end before they
 * compare them, by up to a tile, or the number of work-items of a pointwise kernel, at most 2^18. */
enum { MAX_NARROW_ELEMENTS = INT32_MAX - (1 << 20) };

/* One or more lines of a prelude. */
struct kn_step_define {
    const char *text;
    struct kn_step_define *next;
};

const char *kn_opencl_type(kn_dtype dtype) {
    switch (dtype) {
    case KN_FLOAT32:
        return "float";
    case KN_FLOAT64:
        return "double";
    case KN_FLOAT16:
        return "half";
    case KN_BFLOAT16:
        return "ushort"; /* the bits of bfloat16, which OpenCL C lacks */
    case KN_INT8:
        return "char";
    case KN_INT16:
        return "short";
    case KN_INT32:
        return "int";
    case KN_INT64:
        return "long";
    case KN_UINT8:
    case KN_BOOL:
    case KN_SMALL_FLOATS: /* their bits */
        return "uchar";
    case KN_UINT16:
        return "ushort";
    case KN_UINT32:
        return "uint";
    case KN_UINT64:
        return "ulong";
    }
    return "void";
}

/* ---- the emitter --------------------------------------------------------------------------------- */

void kn_emitter_init(kn_emitter *emitter, kn_arena *arena, const kn_host *host, const kn_target *target,
                     kn_error *error) {
    *emitter = (kn_emitter){.arena = arena, .host = host, .target = target, .error = error};
}

void kn_emitter_finish(kn_emitter *emitter) {
    kn_release(emitter->host, emitter->steps);
    kn_release(emitter->host, emitter->scratch_bytes);
    emitter->steps = NULL;
    emitter->scratch_bytes = NULL;
    emitter->step_count = emitter->step_capacity = 0;
    emitter->scratch_count = emitter->scratch_capacity = 0;
}

static bool reserve(kn_emitter *emitter, void **items, int *capacity, int count, size_t size) {
    size_t room = (size_t)*capacity;
    if (count >= INT32_MAX / 2 || !kn_reserve(emitter->host, items, &room, (size_t)count + 1, size))
        return false;
    *capacity = (int)room;
    return true;
}

int kn_emit_scratch(kn_lowering *lowering, uint64_t bytes) {
    kn_emitter *emitter = lowering->emitter;
    void *list = emitter->scratch_bytes;
    /* kn_step_end detects an id outside the list, so callers need not check. */
    if (!reserve(emitter, &list, &emitter->scratch_capacity, emitter->scratch_count,
                 sizeof *emitter->scratch_bytes))
        return -1;
    emitter->scratch_bytes = list;
    emitter->scratch_bytes[emitter->scratch_count] = bytes;
    return emitter->scratch_count++;
}

/* ---- beginning ------------------------------------------------------------------------------------- */

static void fail(kn_step *step, kn_status status, const char *problem) {
    if (step->failed != KN_OK) return;
    step->failed = status;
    step->problem = problem;
}

static void add_define(kn_step *step, kn_arena *arena, const char *text) {
    struct kn_step_define *define = text ? kn_arena_take(arena, 1, sizeof *define) : NULL;
    if (!define) {
        fail(step, KN_ERROR_MEMORY, NULL);
        return;
    }
    define->text = text;
    if (step->last_define)
        step->last_define->next = define;
    else
        step->defines = define;
    step->last_define = define;
}

kn_step *kn_step_new(kn_lowering *lowering, kn_step_kind kind) {
    kn_arena *arena = lowering->emitter->arena;
    const kn_node *node = lowering->node;
    kn_step *step = kn_arena_take(arena, 1, sizeof *step);
    if (!step) return NULL;
    step->arena = arena;
    step->kind = kind;
    step->node = node;
    if (!node)
        step->label = kind == KN_STEP_COPY ? "copy" : kind == KN_STEP_FILL ? "fill" : "kernel";
    else
        step->label =
            kn_arena_format(arena, node->derivative ? "%s gradient %s" : "%s %s", node->op->name, node->name);
    if (step->label && lowering->producer)
        step->label = kn_arena_format(arena, "%s with %s", step->label, lowering->producer->node->name);
    if (!step->label) fail(step, KN_ERROR_MEMORY, NULL);
    return step;
}

kn_step *kn_step_begin(kn_lowering *lowering, const char *file, const char *kernel) {
    kn_step *step = kn_step_new(lowering, KN_STEP_KERNEL);
    if (!step) return NULL;
    step->file = kn_arena_text(step->arena, file);
    step->kernel = kn_arena_text(step->arena, kernel);
    if (!step->file || !step->kernel) fail(step, KN_ERROR_MEMORY, NULL);
    step->wide_indices = lowering->emitter->target->wide_indices;
    if (step->file && step->kernel) step->signature = kn_step_signature(step);
    add_define(step, step->arena, step->wide_indices ? "#define KN_INDEX long\n" : "#define KN_INDEX int\n");
    return step;
}

/* ---- the prelude ------------------------------------------------------------------------------------- */

void kn_step_language(kn_step *step, const char *language) {
    if (step) step->language = language;
}

/* A define is a single line of any length. */
void kn_step_define(kn_step *step, const char *name, const char *format, ...) {
    if (!step) return;
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    size_t before = strlen("#define  ") + strlen(name);
    char *line = length < 0 ? NULL : kn_arena_take(step->arena, before + (size_t)length + 2, 1);
    if (line) {
        snprintf(line, before + 1, "#define %s ", name);
        vsnprintf(line + before, (size_t)length + 1, format, again);
        if (strchr(line, '\n')) fail(step, KN_ERROR_INTERNAL, "a define must be a single line");
        line[before + (size_t)length] = '\n';
    }
    va_end(again);
    va_end(arguments);
    add_define(step, step->arena, line);
}

void kn_step_define_numbers(kn_step *step, const kn_number *numbers, size_t count) {
    for (size_t i = 0; i < count; i++)
        kn_step_define(step, numbers[i].name, "%" PRId64, numbers[i].value);
}

void kn_step_define_number(kn_step *step, const char *name, double number) {
    kn_text text;
    if (!step) return;
    kn_text_init(&text, step->arena->host);
    kn_expression_literal(number, "float", &text);
    if (kn_text_failed(&text))
        fail(step, KN_ERROR_MEMORY, NULL);
    else
        kn_step_define(step, name, "%s", text.data);
    kn_text_finish(&text);
}

void kn_step_define_type(kn_step *step, const char *name, kn_dtype dtype) {
    kn_step_define(step, name, "%s", kn_opencl_type(dtype));
}

/* ---- arguments ---------------------------------------------------------------------------------------- */

void kn_step_argument(kn_step *step, kn_argument argument) {
    if (!step) return;
    if (step->argument_count == step->argument_capacity) {
        int capacity = step->argument_capacity ? 2 * step->argument_capacity : 16;
        kn_argument *arguments = kn_arena_take(step->arena, (size_t)capacity, sizeof *arguments);
        if (!arguments) {
            fail(step, KN_ERROR_MEMORY, NULL);
            return;
        }
        if (step->argument_count)
            memcpy(arguments, step->arguments, (size_t)step->argument_count * sizeof *arguments);
        step->arguments = arguments;
        step->argument_capacity = capacity;
    }
    argument.macro = step->generating;
    step->arguments[step->argument_count++] = argument;
}

/* For a 16-bit value, defines its type for the kernels of a cl/ file (cl/common/storage.cl). */
static void add_value(kn_step *step, const char *name, kn_value *value, bool reads, bool writes) {
    const kn_argument argument = {
        .name = name, .kind = KN_ARGUMENT_VALUE, .value = value, .reads = reads, .writes = writes};
    kn_step_argument(step, argument);
    if (!step || !name || !value || step->generating || step->source || !kn_is_half(value->shape.dtype) ||
        strchr(name, '#'))
        return;
    char macro[64];
    snprintf(macro, sizeof macro, "KN_HALF_%s", name);
    kn_step_define(step, macro, "%d", kn_half_kind(value->shape.dtype));
}

void kn_step_read(kn_step *step, const char *name, kn_value *value) {
    add_value(step, name, value, true, false);
}

void kn_step_write(kn_step *step, const char *name, kn_value *value) {
    add_value(step, name, value, false, true);
}

void kn_step_update(kn_step *step, const char *name, kn_value *value) {
    add_value(step, name, value, true, true);
}

void kn_step_scratch(kn_step *step, const char *name, int scratch) {
    kn_step_argument(
        step,
        (kn_argument){
            .name = name, .kind = KN_ARGUMENT_SCRATCH, .integer = scratch, .reads = true, .writes = true});
    if (step && scratch < 0) fail(step, KN_ERROR_MEMORY, NULL);
}

void kn_step_read_scratch(kn_step *step, const char *name, int scratch) {
    kn_step_argument(
        step, (kn_argument){.name = name, .kind = KN_ARGUMENT_SCRATCH, .integer = scratch, .reads = true});
    if (step && scratch < 0) fail(step, KN_ERROR_MEMORY, NULL);
}

void kn_step_int(kn_step *step, const char *name, int64_t number) {
    kn_step_argument(step, (kn_argument){.name = name, .kind = KN_ARGUMENT_INT, .integer = number});
    if (step && (number > INT32_MAX || number < INT32_MIN))
        fail(step, KN_ERROR_UNSUPPORTED, "a kernel argument does not fit in 32 bits");
}

void kn_step_index(kn_step *step, const char *name, int64_t number) {
    kn_step_argument(step, (kn_argument){.name = name, .kind = KN_ARGUMENT_INDEX, .integer = number});
    if (step && !step->wide_indices && (number > INT32_MAX || number < INT32_MIN))
        fail(step, KN_ERROR_UNSUPPORTED, "a size or a stride does not fit in 32 bits; enable 64-bit indices");
}

void kn_step_float(kn_step *step, const char *name, double number) {
    kn_step_argument(step, (kn_argument){.name = name, .kind = KN_ARGUMENT_FLOAT, .number = number});
}

void kn_step_number(kn_step *step, const char *name, kn_dtype dtype, double number) {
    const kn_argument_kind kind = dtype == KN_FLOAT32 ? KN_ARGUMENT_FLOAT : KN_ARGUMENT_NUMBER;
    kn_step_argument(step, (kn_argument){.name = name, .kind = kind, .number = number, .dtype = dtype});
}

void kn_step_uint(kn_step *step, const char *name, uint32_t number) {
    kn_step_argument(step, (kn_argument){.name = name, .kind = KN_ARGUMENT_UINT, .integer = number});
}

void kn_step_local(kn_step *step, const char *name, size_t bytes) {
    kn_step_argument(step, (kn_argument){.name = name, .kind = KN_ARGUMENT_LOCAL, .integer = (int64_t)bytes});
}

void kn_step_present(kn_step *step) {
    kn_step_argument(step, (kn_argument){.name = "present", .kind = KN_ARGUMENT_PRESENT});
}

/* ---- by name -------------------------------------------------------------------------------------- */

static bool is_set(const kn_step *step, const char *name) {
    for (int i = 0; i < step->argument_count; i++)
        if (step->arguments[i].name && !strcmp(step->arguments[i].name, name)) return true;
    return false;
}

/* Sets a number as the kernel declares its parameter. */
static void set_number(kn_step *step, const kn_number *number, char kind) {
    if (kind == 'i')
        kn_step_int(step, number->name, number->value);
    else if (kind == 'x')
        kn_step_index(step, number->name, number->value);
    else if (kind == 'u' && number->value >= 0 && number->value <= UINT32_MAX)
        kn_step_uint(step, number->name, (uint32_t)number->value);
    else if (kind == 'u')
        fail(step, KN_ERROR_UNSUPPORTED, "a kernel argument does not fit in 32 bits");
    else
        fail(step, KN_ERROR_INTERNAL,
             kn_arena_format(step->arena, "the kernel %s of %s takes no integer '%s'", step->kernel,
                             step->file, number->name));
}

void kn_step_set_numbers(kn_step *step, const kn_number *numbers, size_t count) {
    for (size_t i = 0; step && i < count; i++)
        set_number(step, &numbers[i], kn_step_parameter(step, numbers[i].name, false));
}

void kn_step_bind_numbers(kn_step *step, const kn_number *numbers, size_t count) {
    for (size_t i = 0; step && i < count; i++) {
        const char kind = kn_step_parameter(step, numbers[i].name, true);
        const bool is_integer = kind == 'i' || kind == 'x' || kind == 'u';
        if (is_integer && !is_set(step, numbers[i].name)) set_number(step, &numbers[i], kind);
    }
}

static bool is_called(const char *name, size_t length, const char *text) {
    return text && strlen(text) == length && !memcmp(name, text, length);
}

void kn_step_bind_values(kn_step *step, const kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    const char *word = NULL;
    char kind = 0;
    for (size_t length = 0; step && (word = kn_step_next_memory(step, word, &length, &kind));) {
        for (int i = 0; i < KN_MAX_NAMES; i++) {
            const char *input = node->op->input_names[i], *output = node->op->output_names[i];
            if (kind == 'c' && is_called(word, length, input) && !is_set(step, input))
                kn_step_read(step, input, i < node->input_count ? node->inputs[i] : NULL);
            if (!is_called(word, length, output) || is_set(step, output)) continue;
            kn_value *value = i == 0 ? lowering->result : node->outputs[i];
            add_value(step, output, value, kind == 'c', kind != 'c');
        }
    }
    if (step && kn_step_parameter(step, "present", true) && !is_set(step, "present")) kn_step_present(step);
}

/* ---- generated parameters -------------------------------------------------------------------------- */

const char *kn_step_name(kn_step *step, const char *format, ...) {
    if (!step) return NULL;
    char name[64];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof name)
        fail(step, KN_ERROR_INTERNAL, "the name of a parameter is too long");
    const char *kept = kn_arena_text(step->arena, name);
    if (!kept) fail(step, KN_ERROR_MEMORY, NULL);
    return kept;
}

const char *kn_step_number_type(kn_argument_kind kind) {
    switch (kind) {
    case KN_ARGUMENT_INT:
        return "int";
    case KN_ARGUMENT_UINT:
        return "uint";
    case KN_ARGUMENT_FLOAT:
        return "float";
    default:
        return "KN_INDEX";
    }
}

void kn_step_generate(kn_step *step, const char *macro) {
    if (step) step->generating = macro;
}

void kn_step_generated(kn_step *step, const char *qualifier) {
    if (!step) return;
    const char *macro = step->generating;
    kn_text parameters, names;
    kn_text_init(&parameters, step->arena->host);
    kn_text_init(&names, step->arena->host);
    for (int i = 0; i < step->argument_count && step->failed == KN_OK; i++) {
        const kn_argument *argument = &step->arguments[i];
        if (!argument->macro || strcmp(argument->macro, macro)) continue;
        if (argument->kind == KN_ARGUMENT_VALUE)
            kn_text_format(&parameters, "%sglobal %s%s *%s %s", i ? ", " : "",
                           argument->writes ? "" : "const ", kn_opencl_type(argument->value->shape.dtype),
                           qualifier, argument->name);
        else
            kn_text_format(&parameters, "%sconst %s %s", i ? ", " : "", kn_step_number_type(argument->kind),
                           argument->name);
        kn_text_format(&names, "%s%s", i ? ", " : "", argument->name);
    }
    if (kn_text_failed(&parameters) || kn_text_failed(&names)) {
        fail(step, KN_ERROR_MEMORY, NULL);
    } else {
        char name[64];
        snprintf(name, sizeof name, "%s_PARAMETERS", macro);
        kn_step_define(step, name, "%s", parameters.data);
        snprintf(name, sizeof name, "%s_ARGUMENTS", macro);
        kn_step_define(step, name, "%s", names.data);
    }
    kn_text_finish(&parameters);
    kn_text_finish(&names);
    step->generating = NULL;
}

/* ---- costs and epilogues --------------------------------------------------------------------------- */

void kn_step_cost(kn_step *step, double flops, double bytes) {
    if (step) step->cost = (kn_cost){.flops = flops, .bytes = bytes};
}

void kn_step_cost_of_node(kn_step *step, const kn_lowering *lowering) {
    if (step) kn_node_cost(lowering->node, &step->cost);
}

const char *const kn_epilogue_axes[3] = {"outer", "middle", "inner"};

void kn_step_tile(kn_step *step, const kn_step_tiles *tiles) {
    if (step) step->tiles = *tiles;
}

static void add_epilogue(kn_step *step, const kn_epilogue *epilogue) {
    if (!step || !epilogue) return;
    kn_step_generate(step, epilogue->macro);
    for (int i = 0; i < epilogue->operand_count; i++) {
        const char *name = kn_step_name(step, "%s%d", epilogue->operand, i);
        if (epilogue->operands[i].written)
            kn_step_write(step, name, epilogue->operands[i].value);
        else
            kn_step_read(step, name, epilogue->operands[i].value);
        for (int j = 0; j < 3; j++)
            kn_step_index(step, kn_step_name(step, "%s%d_%s", epilogue->operand, i, kn_epilogue_axes[j]),
                          epilogue->operands[i].strides[j]);
    }
    kn_step_generated(step, "restrict");
    add_define(step, step->arena, epilogue->prelude);
}

void kn_step_epilogue(kn_step *step, const kn_lowering *lowering) {
    add_epilogue(step, lowering->epilogue);
}

void kn_step_producer(kn_step *step, const kn_lowering *lowering) {
    add_epilogue(step, lowering->producer->epilogue);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* Rounds the global size up to a multiple of the local size, if that is chosen. */
static void round_up(kn_step *step) {
    for (int i = 0; i < 3; i++) {
        if (step->local[i] == 0) continue;
        size_t rest = step->global[i] % step->local[i];
        if (rest == 0) continue;
        if (step->global[i] > SIZE_MAX - (step->local[i] - rest))
            fail(step, KN_ERROR_UNSUPPORTED, "its number of work-items overflows");
        else
            step->global[i] += step->local[i] - rest;
    }
}

static void set_size(kn_step *step, int dimensions, const size_t *global, const size_t *local) {
    if (!step) return;
    step->dimensions = dimensions;
    for (int i = 0; i < 3; i++) {
        step->global[i] = i < dimensions ? global[i] : 1;
        step->local[i] = i < dimensions ? local[i] : 1;
    }
    round_up(step);
}

void kn_step_size1(kn_step *step, size_t global, size_t local) {
    set_size(step, 1, &global, &local);
}

void kn_step_size2(kn_step *step, size_t global0, size_t global1, size_t local0, size_t local1) {
    set_size(step, 2, (size_t[]){global0, global1}, (size_t[]){local0, local1});
}

void kn_step_size3(kn_step *step, const size_t global[3], const size_t local[3]) {
    set_size(step, 3, global, local);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Work-group size if the lowering leaves it open: two waves of the narrowest GPUs, one of the widest. */
enum { OPEN_ITEMS = 64 };

/* Chooses the local size if the lowering leaves it open: as many items as possible along the first dimension,
 * then along the next. */
static void choose_groups(kn_step *step, const kn_target *target) {
    size_t left = 1;
    if (step->source || target->wide_vector) return;
    for (int i = 0; i < step->dimensions; i++)
        if (step->local[i]) return;
    while (left < OPEN_ITEMS && left * 2 <= target->work_group_items)
        left *= 2;
    step->any_local = true;
    for (int i = 0; i < step->dimensions; i++) {
        for (step->local[i] = 1; step->local[i] < left && step->local[i] < step->global[i];)
            step->local[i] *= 2;
        left /= step->local[i];
    }
    round_up(step);
}

/* GPU drivers launch at most KN_MOST_GROUPS groups along the second and third dimensions. */
static void limit_groups(kn_step *step, const kn_target *target) {
    for (int i = 0; i < 3; i++)
        step->cut[i] = 1;
    if (target->wide_vector) return;
    for (int i = 1; i < step->dimensions; i++) {
        size_t groups = step->global[i] / (step->local[i] ? step->local[i] : 1);
        if (groups > KN_MOST_GROUPS && step->source)
            fail(step, KN_ERROR_UNSUPPORTED,
                 "more than 65,535 work-groups along the second or third dimension; use the first dimension "
                 "for more of them");
        step->cut[i] = groups > 0 ? (groups - 1) / KN_MOST_GROUPS + 1 : 1;
    }
}

static kn_status check_values(const kn_step *step, kn_error *error) {
    for (int i = 0; i < step->argument_count; i++) {
        const kn_argument *argument = &step->arguments[i];
        if (argument->kind != KN_ARGUMENT_VALUE || !argument->value) continue;
        const kn_value *value = argument->value;
        int64_t elements = kn_shape_elements(&value->shape);
        if (elements < 0)
            return kn_fail(error, KN_ERROR_INTERNAL, "%s: the size of '%s' is unknown", step->label,
                           value->name);
        if (elements > MAX_NARROW_ELEMENTS && step->kind == KN_STEP_KERNEL && !step->wide_indices)
            return kn_fail(
                error, KN_ERROR_UNSUPPORTED,
                "%s: '%s' has %" PRId64
                " elements, but 32-bit indices reach only %d; use a smaller batch, or enable 64-bit indices",
                step->label, value->name, elements, (int)MAX_NARROW_ELEMENTS);
    }
    return KN_OK;
}

size_t kn_step_argument_bytes(const kn_step *step) {
    size_t bytes = 0;
    for (int i = 0; i < step->argument_count; i++)
        switch (step->arguments[i].kind) {
        case KN_ARGUMENT_INT:
        case KN_ARGUMENT_UINT:
        case KN_ARGUMENT_FLOAT:
        case KN_ARGUMENT_PRESENT:
            bytes += 4;
            break;
        case KN_ARGUMENT_NUMBER:
            bytes += kn_dtype_bytes(step->arguments[i].dtype);
            break;
        case KN_ARGUMENT_INDEX:
            bytes += step->wide_indices ? 8 : 4;
            break;
        default:
            bytes += KN_POINTER_BYTES;
        }
    return bytes;
}

static kn_status check_argument_bytes(const kn_step *step, kn_error *error) {
    size_t bytes = kn_step_argument_bytes(step);
    if (bytes <= KN_ARGUMENT_BYTES) return KN_OK;
    return kn_fail(error, KN_ERROR_UNSUPPORTED,
                   "%s: the kernel %s has %zu bytes of arguments; devices allow %d", step->label,
                   step->kernel, bytes, KN_ARGUMENT_BYTES);
}

static kn_status check_groups(const kn_step *step, const kn_target *target, kn_error *error) {
    size_t items = 1;
    uint64_t local_bytes = 0;
    bool chosen = false, left = false;
    for (int i = 0; i < step->dimensions; i++) {
        chosen = chosen || step->local[i] > 0;
        left = left || step->local[i] == 0;
        if (step->local[i] && items > SIZE_MAX / step->local[i])
            items = SIZE_MAX;
        else
            items *= step->local[i] ? step->local[i] : 1;
    }
    for (int i = 0; i < step->argument_count; i++)
        if (step->arguments[i].kind == KN_ARGUMENT_LOCAL) local_bytes += (uint64_t)step->arguments[i].integer;
    if (step->dimensions < 1)
        return kn_fail(error, KN_ERROR_INTERNAL, "%s: the kernel %s has no global size", step->label,
                       step->kernel);
    if (chosen && left)
        return kn_fail(error, KN_ERROR_INTERNAL, "%s: kernel %s: give all local sizes or none", step->label,
                       step->kernel);
    if (target->work_group_items && items > target->work_group_items)
        return kn_fail(error, KN_ERROR_UNSUPPORTED,
                       "%s: the kernel %s needs %zu work-items per work-group; the device supports %zu",
                       step->label, step->kernel, items, target->work_group_items);
    if (target->local_bytes && local_bytes > target->local_bytes)
        return kn_fail(error, KN_ERROR_UNSUPPORTED,
                       "%s: the kernel %s needs %" PRIu64 " bytes of local memory; the device has %" PRIu64,
                       step->label, step->kernel, local_bytes, target->local_bytes);
    return KN_OK;
}

/* Joins the language and the defines in the arena. */
static bool build_prelude(kn_step *step) {
    static const char before[] = "// language: ";
    size_t length = step->language ? strlen(before) + strlen(step->language) + 1 : 0;
    size_t first = length;
    for (const struct kn_step_define *define = step->defines; define; define = define->next)
        length += strlen(define->text);
    char *prelude = kn_arena_take(step->arena, length + 1, 1), *end = prelude;
    if (!prelude) return false;
    if (step->language) snprintf(prelude, length + 1, "%s%s\n", before, step->language);
    end += first;
    for (const struct kn_step_define *define = step->defines; define; define = define->next) {
        size_t piece = strlen(define->text);
        memcpy(end, define->text, piece);
        end += piece;
    }
    step->prelude = prelude;
    return true;
}

static bool launches_nothing(const kn_step *step) {
    for (int i = 0; i < step->dimensions; i++)
        if (step->global[i] == 0) return true;
    return false;
}

kn_status kn_step_complete(kn_step *step, const kn_target *target, kn_error *error) {
    if (step->kind == KN_STEP_KERNEL) {
        choose_groups(step, target);
        limit_groups(step, target);
    }
    if (step->failed == KN_ERROR_MEMORY)
        return kn_fail(error, step->failed, "%s: out of host memory", step->label ? step->label : "a step");
    if (step->failed != KN_OK) return kn_fail(error, step->failed, "%s: %s", step->label, step->problem);
    kn_status status = check_values(step, error);
    if (status == KN_OK && step->kind == KN_STEP_KERNEL) status = check_groups(step, target, error);
    if (status == KN_OK && step->kind == KN_STEP_KERNEL) status = check_argument_bytes(step, error);
    if (status == KN_OK && step->kind == KN_STEP_KERNEL && !step->source)
        status = kn_step_order_arguments(step, error);
    if (status == KN_OK && !build_prelude(step)) status = kn_fail_memory(error, sizeof *step);
    return status;
}

kn_status kn_step_end(kn_step *step, kn_lowering *lowering) {
    kn_emitter *emitter = lowering->emitter;
    kn_error *error = lowering->error ? lowering->error : emitter->error;
    if (!step) return kn_fail_memory(error, sizeof *step);
    kn_status status = kn_step_complete(step, emitter->target, error);
    if (status != KN_OK || launches_nothing(step)) return status;
    void *steps = emitter->steps;
    if (!reserve(emitter, &steps, &emitter->step_capacity, emitter->step_count, sizeof *emitter->steps))
        return kn_fail_memory(error, sizeof *step);
    emitter->steps = steps;
    emitter->steps[emitter->step_count++] = step;
    return KN_OK;
}
