/* Writes a plan's programs and launches into a folder, for other programs to compile and examine. */
#include <inttypes.h>
#include <string.h>

#include "run/run_private.h"

typedef struct writing {
    const kn_executable *head;
    const char *folder;
    kn_step_programs lists[KN_CONTEXT_MAX_DEVICES]; /* by part */
    int first[KN_CONTEXT_MAX_DEVICES];              /* the number of a part's first program */
    int program_count;
    kn_error *error;
} writing;

static kn_status write_file(const writing *all, const kn_text *text, const char *format, int number) {
    const kn_host *host = &all->head->host;
    kn_text path;
    kn_text_init(&path, host);
    kn_text_format(&path, "%s/", all->folder);
    if (number >= 0) kn_text_format(&path, "%03d", number);
    kn_text_add(&path, format);
    kn_status status = kn_text_failed(&path) || kn_text_failed(text)
                           ? kn_fail_memory(all->error, text->length)
                           : kn_file_write(host, path.data, text->data, text->length, all->error);
    kn_text_finish(&path);
    return status;
}

/* Writes NNN.cl and NNN.options for each program of a part. */
static kn_status write_programs(writing *all, int part) {
    const kn_executable *executable = all->head->parts[part];
    kn_step_programs *list = &all->lists[part];
    kn_status status = kn_step_programs_list(executable, KN_PROGRAMS_KERNEL, list, all->error);
    kn_text text, options;
    kn_text_init(&text, &executable->host);
    kn_text_init(&options, &executable->host);
    all->first[part] = all->program_count;
    for (size_t i = 0; i < list->count && status == KN_OK; i++) {
        kn_text_clear(&text);
        kn_text_clear(&options);
        status = kn_program_write(executable->context, &list->requests[i], &text, &options, all->error);
        kn_text_add(&options, "\n");
        if (status == KN_OK) status = write_file(all, &text, ".cl", all->program_count);
        if (status == KN_OK) status = write_file(all, &options, ".options", all->program_count++);
    }
    kn_text_finish(&text);
    kn_text_finish(&options);
    return status;
}

/* ---- launches ----------------------------------------------------------------------------------------- */

static void add_sizes(kn_text *text, const char *name, const size_t *sizes, int count) {
    kn_text_format(text, ", \"%s\": [", name);
    for (int i = 0; i < 3; i++)
        kn_text_format(text, "%s%zu", i ? ", " : "", i < count ? sizes[i] : 1);
    kn_text_add(text, "]");
}

static uint64_t memory_bytes(const kn_executable *part, const kn_argument *argument) {
    uint64_t bytes = 0;
    if (argument->kind == KN_ARGUMENT_SCRATCH) return part->plan.scratches[argument->integer].bytes;
    return argument->value && kn_value_bytes(argument->value, &bytes) ? bytes : 0;
}

static void add_argument(const kn_executable *part, const kn_argument *argument, kn_text *text) {
    kn_text_add(text, "{\"name\": ");
    kn_text_json(text, argument->name ? argument->name : "");
    switch (argument->kind) {
    case KN_ARGUMENT_VALUE:
    case KN_ARGUMENT_SCRATCH:
        kn_text_format(text, ", \"bytes\": %" PRIu64 ", \"reads\": %s, \"writes\": %s",
                       memory_bytes(part, argument), argument->reads ? "true" : "false",
                       argument->writes ? "true" : "false");
        break;
    case KN_ARGUMENT_FLOAT:
    case KN_ARGUMENT_NUMBER:
        kn_text_add(text, ", \"value\": ");
        kn_text_json_number(text, argument->number);
        break;
    case KN_ARGUMENT_PRESENT: /* known when memory is attached */
        break;
    case KN_ARGUMENT_LOCAL:
        kn_text_format(text, ", \"local\": %" PRId64, argument->integer);
        break;
    case KN_ARGUMENT_INT:
    case KN_ARGUMENT_INDEX:
    case KN_ARGUMENT_UINT:
        kn_text_format(text, ", \"value\": %" PRId64, argument->integer);
        break;
    }
    kn_text_add(text, "}");
}

static void add_tiles(const kn_step_tiles *tiles, kn_text *text) {
    kn_text_format(text,
                   ", \"tiles\": {\"rows\": %" PRId64 ", \"columns\": %" PRId64 ", \"depth\": %" PRId64
                   ", \"batches\": %" PRId64 ", \"tile\": [%d, %d, %d], \"products\": %d, \"parts\": %" PRId64
                   ", \"part_depth\": %" PRId64 ", \"split\": %s}",
                   tiles->rows, tiles->columns, tiles->depth, tiles->batches, tiles->tile_rows,
                   tiles->tile_columns, tiles->tile_depth, tiles->products, tiles->parts, tiles->part_depth,
                   tiles->split ? "true" : "false");
}

static void add_launch(const writing *all, int device, const kn_ready_step *ready, int position,
                       kn_text *text) {
    const kn_executable *part = all->head->parts[device];
    const kn_step *step = ready->step;
    kn_launch launch = {.dimensions = 0};
    const kn_capabilities *can = kn_context_capabilities(part->context);
    kn_step_launch(step, can->work_group_items, can->wide_vector, &launch);
    kn_text_add(text, ", \"kernel\": ");
    kn_text_json(text, step->kernel);
    kn_text_format(text, ", \"program\": \"%03d\"",
                   all->first[device] + all->lists[device].program_of[position]);
    add_sizes(text, "global", launch.global, launch.dimensions);
    add_sizes(text, "local", launch.local, launch.dimensions);
    kn_text_add(text, ", \"arguments\": [");
    for (int a = 0; a < step->argument_count; a++) {
        if (a) kn_text_add(text, ", ");
        add_argument(part, &step->arguments[a], text);
    }
    kn_text_add(text, "]");
    if (step->tiles.tile_rows) add_tiles(&step->tiles, text);
}

/* Writes a line of launches.jsonl. */
static void add_step(const writing *all, int number, kn_text *text) {
    const kn_executable *head = all->head;
    const kn_part_step at = head->order ? head->order[number] : (kn_part_step){0, number};
    const kn_ready_step *ready = &head->parts[at.device]->steps[at.step];
    static const char *const kinds[] = {
        [KN_STEP_KERNEL] = "kernel",   [KN_STEP_COPY] = "copy",   [KN_STEP_FILL] = "fill",
        [KN_STEP_PRODUCT] = "product", [KN_STEP_SEND] = "send",   [KN_STEP_RECEIVE] = "receive",
        [KN_STEP_SHARE] = "share",     [KN_STEP_TOTAL] = "total", [KN_STEP_LOAD] = "load",
        [KN_STEP_STORE] = "store"};
    kn_text_format(text, "{\"step\": %d, \"label\": ", number);
    kn_text_json(text, ready->step->label ? ready->step->label : "");
    kn_text_format(text, ", \"kind\": \"%s\", \"once\": %s, \"device\": ", kinds[ready->step->kind],
                   ready->once ? "true" : "false");
    kn_text_json(text, kn_context_device_name_at(head->context, at.device));
    kn_text_add(text, ", \"flops\": ");
    kn_text_json_number(text, ready->cost.flops);
    kn_text_add(text, ", \"bytes\": ");
    kn_text_json_number(text, ready->cost.bytes);
    if (ready->step->kind == KN_STEP_KERNEL)
        add_launch(all, at.device, ready, at.step, text);
    else
        kn_text_format(text, ", \"moved\": %" PRIu64, ready->bytes);
    kn_text_add(text, "}\n");
}

kn_status kn_executable_write(const kn_executable *executable, const char *folder, kn_error *error) {
    writing all = {.head = executable, .folder = folder, .error = error};
    kn_text text;
    kn_text_init(&text, &executable->host);
    kn_status status = kn_folder_make(&executable->host, folder, error);
    for (int i = 0; i < executable->part_count && status == KN_OK; i++)
        status = write_programs(&all, i);
    for (int i = 0; i < executable->total.steps && status == KN_OK; i++)
        add_step(&all, i, &text);
    if (status == KN_OK) status = write_file(&all, &text, "launches.jsonl", -1);
    for (int i = 0; i < executable->part_count; i++)
        if (all.lists[i].requests) kn_step_programs_finish(&all.lists[i], &executable->host);
    kn_text_finish(&text);
    return status;
}
