/* Prints a plan: for each device a line per step, then the memory (print_memory.c). */
#include <string.h>

#include "run/run_private.h"

/* 1536 as "1.5 k", followed by `unit`. */
static void add_amount(kn_text *text, double amount, const char *unit) {
    static const char *const prefixes[] = {"", "k", "M", "G", "T"};
    size_t prefix = 0;
    while (amount >= 1000 && prefix + 1 < KN_COUNT_OF(prefixes)) {
        amount /= 1000;
        prefix++;
    }
    kn_text_fixed(text, amount, prefix ? 1 : 0);
    kn_text_format(text, " %s%s", prefixes[prefix], unit);
}

/* Pads with spaces to `width` columns from `start`, plus one. */
static void pad(kn_text *text, size_t start, size_t width) {
    do
        kn_text_add(text, " ");
    while (!text->failed && text->length < start + width + 1);
}

/* The first value that a step writes; for a send, share or store step, the value that it reads. */
static const kn_value *written_by(const kn_step *step) {
    const bool takes_away = kn_step_is_outgoing(step->kind);
    for (int a = 0; a < step->argument_count; a++)
        if (step->arguments[a].kind == KN_ARGUMENT_VALUE && step->arguments[a].value &&
            (step->arguments[a].writes || takes_away))
            return step->arguments[a].value;
    return NULL;
}

static bool is_transfer(const kn_step *step) {
    return step->kind == KN_STEP_SEND || step->kind == KN_STEP_RECEIVE;
}

static void add_kernel(const kn_executable *part, const kn_step *step, kn_text *text) {
    if (step->kind == KN_STEP_KERNEL)
        kn_text_format(text, "%s:%s", step->file, step->kernel);
    else if (step->kind == KN_STEP_PRODUCT)
        kn_text_add(text, kn_product_library());
    else if (is_transfer(step))
        kn_text_format(text, "%s %s", step->kind == KN_STEP_SEND ? "to" : "from",
                       kn_context_device_name_at(part->head->context, kn_transfer_device(step->node)));
    else if (step->kind == KN_STEP_SHARE || step->kind == KN_STEP_TOTAL)
        kn_text_add(text, step->kind == KN_STEP_SHARE ? "to the workers" : "from the workers");
    else if (step->kind == KN_STEP_LOAD || step->kind == KN_STEP_STORE)
        kn_text_add(text, step->kind == KN_STEP_LOAD ? "from host memory" : "to host memory");
    else
        kn_text_add(text, step->kind == KN_STEP_COPY ? "copy" : "fill");
}

/* The position of a part's step among the steps of all parts. */
static int position_of(const kn_executable *part, int step) {
    return part->positions ? part->positions[step] : step;
}

typedef struct columns {
    size_t label, kernel, shape;
} columns;

/* Writes a step's line; with `widths` NULL, only measures column widths into `measured`. */
static void add_step(const kn_executable *executable, int position, const columns *widths, columns *measured,
                     kn_text *text) {
    const kn_step *step = executable->steps[position].step;
    const kn_value *value = written_by(step);
    kn_text_format(text, "%4d  ", position_of(executable, position));
    size_t start = text->length;
    kn_text_add(text, step->label ? step->label : "");
    if (measured && text->length - start > measured->label) measured->label = text->length - start;
    if (widths) pad(text, start, widths->label);
    start = text->length;
    add_kernel(executable, step, text);
    if (measured && text->length - start > measured->kernel) measured->kernel = text->length - start;
    if (widths) pad(text, start, widths->kernel);
    start = text->length;
    if (value) {
        kn_shape_text(executable->graph, &value->shape, text);
        kn_text_add(text, value->layout == KN_LAYOUT_BLOCKED ? " blocked" : " plain");
    }
    if (measured && text->length - start > measured->shape) measured->shape = text->length - start;
    if (!widths) return;
    pad(text, start, widths->shape);
    add_amount(text, executable->steps[position].cost.flops, "FLOP");
    kn_text_add(text, ", ");
    add_amount(text, executable->steps[position].cost.bytes, "B");
    if (executable->steps[position].once) kn_text_add(text, ", once");
    if (step->tuned) kn_text_format(text, ", tuned: %s", step->tuned);
    kn_text_add(text, "\n");
}

enum { MAX_NAMED = 64 };

/* Prints what the plan stores in a type: the bytes of the results that have memory, and their operators. For
 * float32, only results that could have 16 bits, which excludes scalars, vectors and updates. */
static void add_stored(const kn_executable *executable, kn_dtype type, kn_text *text) {
    const kn_operator *seen[MAX_NAMED];
    int count = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < executable->plan.placement_count; i++) {
        const kn_placement *placement = &executable->plan.placements[i];
        const kn_value *value = executable->graph->values[i];
        if (placement->root != value || placement->last < 0 || value->kind != KN_VALUE_RESULT) continue;
        if (value->shape.dtype != type || (type == KN_FLOAT32 && (value->shape.rank < 2 || value->wanted)))
            continue;
        bytes += placement->bytes;
        int known = 0;
        while (known < count && seen[known] != value->producer->op)
            known++;
        if (known == count && count < MAX_NAMED) seen[count++] = value->producer->op;
    }
    kn_text_format(text, "  %-10s%15llu bytes", kn_dtype_name(type), (unsigned long long)bytes);
    for (int i = 0; i < count; i++)
        kn_text_format(text, "%s%s", i ? ", " : "  of ", seen[i]->name);
    kn_text_add(text, "\n");
}

/* Prints how many steps that multiply matrices in tiles use the matrix unit: in 16 bits or TF32, in split
 * float32, or in 8-bit integers. */
static void add_products(const kn_executable *executable, kn_text *text) {
    int with = 0, split = 0, integers = 0, without = 0;
    for (int i = 0; i < executable->plan.step_count; i++) {
        const kn_step_tiles *tiles = &executable->steps[i].step->tiles;
        if (tiles->integers) {
            integers += tiles->matrix;
            continue;
        }
        with += tiles->tile_rows && tiles->matrix && !tiles->split;
        split += tiles->tile_rows && tiles->split;
        without += tiles->tile_rows && !tiles->matrix;
    }
    const kn_precision precision = executable->precision;
    if (integers)
        kn_text_format(text, "matrix products: %d of 8-bit integers on matrix unit %s\n", integers,
                       kn_matrix_unit_name(kn_context_matrix_unit_for(executable->context, KN_INT8)));
    if (split)
        kn_text_format(
            text, "matrix products: %d in float32 as three of bfloat16 on matrix unit %s\n", split,
            kn_matrix_unit_name(kn_context_matrix_unit(executable->context, KN_PRECISION_BFLOAT16)));
    if (precision == KN_PRECISION_FLOAT32) return;
    const kn_matrix_unit unit = kn_context_matrix_unit(executable->context, precision);
    if (precision == KN_PRECISION_TF32 && !unit)
        kn_text_add(text, "matrix products: in float32, since the device has no matrix unit for tf32\n");
    else if (unit && (precision == KN_PRECISION_TF32 || with + without))
        kn_text_format(text, "matrix products: %d in %s on matrix unit %s, %d in float32\n", with,
                       kn_precision_name(precision), kn_matrix_unit_name(unit), without);
}

static void add_precision(const kn_executable *executable, kn_text *text) {
    add_products(executable, text);
    const kn_dtype type = kn_precision_type(executable->precision);
    if (type == KN_FLOAT32) return;
    kn_text_add(text, "results stored in\n");
    add_stored(executable, type, text);
    add_stored(executable, KN_FLOAT32, text);
}

static void add_part(const kn_executable *executable, kn_text *text) {
    columns widths = {0, 0, 0};
    kn_text line;
    kn_text_init(&line, &executable->host);
    for (int i = 0; i < executable->plan.step_count; i++) {
        kn_text_clear(&line);
        add_step(executable, i, NULL, &widths, &line);
    }
    if (kn_text_failed(&line)) text->failed = true;
    kn_text_finish(&line);
    for (int i = 0; i < executable->plan.step_count; i++)
        add_step(executable, i, &widths, NULL, text);
    kn_text_format(text, "%d step%s, %d kernel%s, %d conversion%s, ", executable->info.steps,
                   executable->info.steps == 1 ? "" : "s", executable->info.kernels,
                   executable->info.kernels == 1 ? "" : "s", executable->info.conversions,
                   executable->info.conversions == 1 ? "" : "s");
    add_amount(text, executable->info.flops, "FLOP");
    kn_text_add(text, executable->fast_math ? ", fast math\n" : ", exact math\n");
    add_precision(executable, text);
    kn_print_memory(executable, text);
}

void kn_executable_print(const kn_executable *executable, kn_text *text) {
    bool explained = false;
    for (int i = 0; i < executable->part_count; i++) {
        const char *why = executable->parts[i]->plan.why;
        explained = explained || why;
        if (why) kn_text_add(text, why);
    }
    if (explained) return;
    if (executable->part_count == 1) {
        add_part(executable, text);
        return;
    }
    for (int i = 0; i < executable->part_count; i++) {
        if (!executable->parts[i]->plan.step_count) continue;
        kn_text_format(text, "device %s: %s\n", kn_context_device_name_at(executable->context, i),
                       kn_context_device(executable->parts[i]->context)->name);
        add_part(executable->parts[i], text);
    }
    kn_text_format(text, "%d transfer%s between devices, ", executable->total.transfers,
                   executable->total.transfers == 1 ? "" : "s");
    add_amount(text, (double)executable->total.transfer_bytes, "B");
    kn_text_add(text, "\n");
}

/* ---- single steps -------------------------------------------------------------------------------- */

/* Whether a step writes to the memory of `root` or, if that is NULL, to scratch memory `scratch`. */
static bool writes_to(const kn_ready_step *ready, const kn_value *root, int64_t scratch) {
    const kn_step *step = ready->step;
    if (root && ready->target == root) return true;
    for (int a = 0; a < step->argument_count; a++) {
        const kn_argument *argument = &step->arguments[a];
        if (!argument->writes) continue;
        if (argument->kind == KN_ARGUMENT_SCRATCH && !root && argument->integer == scratch) return true;
        if (argument->kind == KN_ARGUMENT_VALUE && root && argument->value &&
            kn_value_root(argument->value) == root)
            return true;
    }
    return false;
}

static void add_input(kn_plan_step *result, int position) {
    int at = result->input_count;
    for (int i = 0; i < result->input_count; i++)
        if (result->inputs[i] == position) return;
    if (result->input_count == KN_PLAN_STEP_MAX_INPUTS) return;
    for (; at > 0 && result->inputs[at - 1] > position; at--)
        result->inputs[at] = result->inputs[at - 1];
    result->inputs[at] = position;
    result->input_count++;
}

/* Adds the last step before this one that wrote the memory. */
static void add_writer(const kn_executable *executable, int position, const kn_value *root, int64_t scratch,
                       kn_plan_step *result) {
    for (int i = position - 1; i >= 0; i--)
        if (writes_to(&executable->steps[i], root, scratch)) {
            add_input(result, i);
            return;
        }
}

/* The position, among the steps of all parts, of the send step for a receive step. */
static int sender_of(const kn_executable *executable, const kn_step *receive) {
    int position = 0;
    for (; position < executable->total.steps; position++) {
        const kn_part_step *at = &executable->order[position];
        const kn_step *step = executable->parts[at->device]->steps[at->step].step;
        if (step->kind == KN_STEP_SEND && kn_transfer_of(step->node) == kn_transfer_of(receive->node)) break;
    }
    return position;
}

/* Adds the steps that a step of a part reads from, by position among the steps of all parts. */
static void add_inputs(const kn_executable *part, int position, kn_plan_step *result) {
    const kn_ready_step *ready = &part->steps[position];
    const kn_step *step = ready->step;
    if (ready->source) add_writer(part, position, ready->source, 0, result);
    for (int a = 0; a < step->argument_count; a++) {
        const kn_argument *argument = &step->arguments[a];
        if (!argument->reads) continue;
        if (argument->kind == KN_ARGUMENT_SCRATCH)
            add_writer(part, position, NULL, argument->integer, result);
        else if (argument->kind == KN_ARGUMENT_VALUE && argument->value)
            add_writer(part, position, kn_value_root(argument->value), 0, result);
    }
    for (int i = 0; i < result->input_count; i++)
        result->inputs[i] = position_of(part, result->inputs[i]);
    if (step->kind == KN_STEP_RECEIVE) add_input(result, sender_of(part->head, step));
}

static void keep(char *target, size_t room, kn_text *text) {
    size_t count = text->length < room ? text->length : room - 1;
    if (!text->failed && text->data) memcpy(target, text->data, count);
    target[text->failed || !text->data ? 0 : count] = '\0';
    kn_text_clear(text);
}

kn_status kn_executable_describe_step(const kn_executable *executable, size_t position,
                                      kn_plan_step *result) {
    if (position >= (size_t)executable->total.steps) return KN_ERROR_NOT_FOUND;
    const kn_part_step at =
        executable->order ? executable->order[position] : (kn_part_step){0, (int)position};
    const kn_executable *part = executable->parts[at.device];
    const kn_ready_step *ready = &part->steps[at.step];
    const kn_step *step = ready->step;
    const kn_value *value = written_by(step);
    kn_text text;
    *result = (kn_plan_step){
        .size = result->size, .flops = ready->cost.flops, .bytes = ready->cost.bytes, .once = ready->once};
    kn_text_init(&text, &executable->host);
    kn_text_add(&text, step->label ? step->label : "");
    keep(result->label, sizeof result->label, &text);
    add_kernel(part, step, &text);
    keep(result->kernel, sizeof result->kernel, &text);
    if (value) kn_shape_text(part->graph, &value->shape, &text);
    keep(result->shape, sizeof result->shape, &text);
    kn_text_add(&text, kn_context_device_name_at(executable->context, at.device));
    keep(result->device, sizeof result->device, &text);
    bool failed = text.failed;
    kn_text_finish(&text);
    if (failed) return KN_ERROR_MEMORY;
    add_inputs(part, at.step, result);
    return KN_OK;
}
