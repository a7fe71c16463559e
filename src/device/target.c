/* A context for a device that is described by a text file (docs/targets.md) and need not exist: it can only
 * be planned for. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "device/device_private.h"

enum { MIN_ALIGNMENT = 64, FILE_LIMIT = 1 << 16 };
static const char first_line[] = "koine-target 1";

typedef struct description {
    char name[128], register_option[128];
    int64_t kind, language; /* indices in their lists of words */
    int64_t compute_units, clock_mhz, work_group_items, vector_width, vector_registers, alignment,
        item_registers;
    int64_t local_bytes, memory_bytes, largest_block_bytes;
    double peak_gflops, bandwidth;
    bool double_precision, integer_dot, shares_memory, local_is_global;
    bool matrix[KN_MATRIX_UNIT_LAST + 1]; /* by unit */
} description;

/* ---- fields of a file ---------------------------------------------------------------------------------- */

typedef enum field_kind {
    FIELD_TEXT,
    FIELD_COUNT,
    FIELD_BYTES,
    FIELD_NUMBER,
    FIELD_CHOICE,
    FIELD_SET
} field_kind;

typedef struct field {
    const char *key;
    field_kind kind;
    bool needed;
    size_t offset;        /* offset in the description */
    int64_t least, most;  /* of counts and bytes */
    const char *expected; /* for messages */
} field;

#define AT(member) offsetof(description, member)
static const field fields[] = {
    {"name", FIELD_TEXT, true, AT(name), 0, 0, "the device's name, at most 127 bytes"},
    {"kernels", FIELD_CHOICE, true, AT(kind), 0, 0, "gpu or cpu"},
    {"compute_units", FIELD_COUNT, true, AT(compute_units), 1, 1 << 16, "an integer from 1 to 65536"},
    {"clock_mhz", FIELD_COUNT, false, AT(clock_mhz), 1, 100000, "an integer from 1 to 100000"},
    {"work_group_items", FIELD_COUNT, true, AT(work_group_items), 1, 1 << 16, "an integer from 1 to 65536"},
    {"local_memory", FIELD_BYTES, true, AT(local_bytes), 0, 1 << 30, "bytes up to 1GiB, such as 48KiB"},
    {"memory", FIELD_BYTES, true, AT(memory_bytes), 1, INT64_MAX, "bytes, such as 16GiB"},
    {"largest_allocation", FIELD_BYTES, true, AT(largest_block_bytes), 1, INT64_MAX, "bytes, such as 4GiB"},
    {"alignment", FIELD_BYTES, false, AT(alignment), 1, 1 << 20, "a power of two up to 1MiB"},
    {"opencl_c", FIELD_CHOICE, false, AT(language), 0, 0, "1.2, 2.0 or 3.0"},
    {"capabilities", FIELD_SET, false, 0, 0, 0,
     "some of double, integer_dot, shared_memory, global_local_memory, mma, wmma, wmma12, mfma, dpas8, "
     "dpas16, amx, mma8"},
    {"vector_width", FIELD_COUNT, false, AT(vector_width), 4, 16, "4, 8 or 16"},
    {"vector_registers", FIELD_COUNT, false, AT(vector_registers), 1, 1024, "an integer from 1 to 1024"},
    {"item_registers", FIELD_COUNT, false, AT(item_registers), 16, 4096, "an integer from 16 to 4096"},
    {"register_option", FIELD_TEXT, false, AT(register_option), 0, 0, "an option, at most 127 bytes"},
    {"peak_gflops", FIELD_NUMBER, false, AT(peak_gflops), 0, 0, "a number above 0"},
    {"bandwidth_gbytes", FIELD_NUMBER, false, AT(bandwidth), 0, 0, "a number above 0"},
};
enum { FIELDS = KN_COUNT_OF(fields) };

static const char *const kinds[] = {"gpu", "cpu", NULL};
static const char *const languages[] = {"1.2", "2.0", "3.0", NULL};
static const struct {
    const char *word;
    size_t offset;
} capabilities[] = {{"double", AT(double_precision)},
                    {"integer_dot", AT(integer_dot)},
                    {"shared_memory", AT(shares_memory)},
                    {"global_local_memory", AT(local_is_global)},
                    {"mma", AT(matrix) + KN_MATRIX_UNIT_MMA * sizeof(bool)},
                    {"wmma", AT(matrix) + KN_MATRIX_UNIT_WMMA * sizeof(bool)},
                    {"wmma12", AT(matrix) + KN_MATRIX_UNIT_WMMA12 * sizeof(bool)},
                    {"mfma", AT(matrix) + KN_MATRIX_UNIT_MFMA * sizeof(bool)},
                    {"dpas8", AT(matrix) + KN_MATRIX_UNIT_DPAS8 * sizeof(bool)},
                    {"dpas16", AT(matrix) + KN_MATRIX_UNIT_DPAS16 * sizeof(bool)},
                    {"amx", AT(matrix) + KN_MATRIX_UNIT_AMX * sizeof(bool)},
                    {"mma8", AT(matrix) + KN_MATRIX_UNIT_MMA8 * sizeof(bool)}};

/* ---- values ------------------------------------------------------------------------------------------- */

static bool read_text(const char *value, char name[128]) {
    size_t length = strlen(value);
    if (length == 0 || length > 127) return false;
    memcpy(name, value, length + 1);
    return true;
}

/* Reads an integer; for bytes, with an optional unit. */
static bool read_count(const field *row, const char *value, int64_t *number) {
    static const char *const units[] = {"", "KiB", "MiB", "GiB"};
    const char *end;
    if (!kn_is_digit(value[0]) || !kn_parse_int64(value, &end, number)) return false;
    int unit = 0, last = row->kind == FIELD_BYTES ? 3 : 0;
    while (unit < last && strcmp(end, units[unit]))
        unit++;
    if (strcmp(end, units[unit]) || *number > INT64_MAX >> (10 * unit)) return false;
    *number <<= 10 * unit;
    return *number >= row->least && *number <= row->most;
}

static bool read_number(const char *value, double *number) {
    const char *end;
    return kn_parse_double(value, &end, number) && !*end && *number > 0 && *number < 1e12;
}

static bool read_choice(const char *value, const char *const *words, int64_t *chosen) {
    for (*chosen = 0; words[*chosen]; ++*chosen)
        if (!strcmp(value, words[*chosen])) return true;
    return false;
}

/* Sets a flag for each word of `value`, separated by spaces. */
static bool read_capabilities(const char *value, char *base) {
    while (*value) {
        size_t length = strcspn(value, " \t"), i = 0;
        while (i < KN_COUNT_OF(capabilities) &&
               (strlen(capabilities[i].word) != length || memcmp(value, capabilities[i].word, length)))
            i++;
        if (i == KN_COUNT_OF(capabilities)) return false;
        *(bool *)(base + capabilities[i].offset) = true;
        value += length;
        value += strspn(value, " \t");
    }
    return true;
}

static bool read_value(const field *row, const char *value, description *target) {
    char *base = (char *)target;
    void *member = base + row->offset;
    switch (row->kind) {
    case FIELD_TEXT:
        return read_text(value, member);
    case FIELD_COUNT:
    case FIELD_BYTES:
        return read_count(row, value, member);
    case FIELD_NUMBER:
        return read_number(value, member);
    case FIELD_CHOICE:
        return read_choice(value, member == &target->kind ? kinds : languages, member);
    case FIELD_SET:
        return read_capabilities(value, base);
    }
    return false;
}

static bool power_of_two(int64_t number) {
    return number > 0 && (number & (number - 1)) == 0;
}

/* ---- lines -------------------------------------------------------------------------------------------- */

typedef struct reading {
    const char *path;
    int line;          /* from 1 */
    int given[FIELDS]; /* line of each field; 0: not given yet */
    description *target;
    kn_error *error;
} reading;

static kn_status unknown_key(const reading *state, const char *key) {
    const char *keys[FIELDS];
    for (int i = 0; i < FIELDS; i++)
        keys[i] = fields[i].key;
    const char *near = kn_nearest_word(key, keys, FIELDS);
    return kn_fail(state->error, KN_ERROR_FORMAT, "%s line %d: found '%.40s'; expected %s%s", state->path,
                   state->line, key, near ? "perhaps " : "one of the words of a target file, such as ",
                   near ? near : fields[0].key);
}

/* Reads a line "key value" without surrounding spaces. */
static kn_status read_line(reading *state, char *line) {
    char *value = line + strcspn(line, " \t");
    if (*value) *value++ = '\0';
    value += strspn(value, " \t");
    int i = 0;
    while (i < FIELDS && strcmp(line, fields[i].key))
        i++;
    if (i == FIELDS) return unknown_key(state, line);
    if (state->given[i])
        return kn_fail(state->error, KN_ERROR_FORMAT,
                       "%s line %d: %s is given again; expected it once, but line "
                       "%d already has it",
                       state->path, state->line, line, state->given[i]);
    state->given[i] = state->line;
    bool right = read_value(&fields[i], value, state->target);
    if (!strcmp(line, "alignment")) right = right && power_of_two(state->target->alignment);
    if (!strcmp(line, "vector_width")) right = right && power_of_two(state->target->vector_width);
    if (right) return KN_OK;
    return kn_fail(state->error, KN_ERROR_FORMAT, "%s line %d: %s is '%.40s'; expected %s", state->path,
                   state->line, line, value, fields[i].expected);
}

/* Reads lines in place. Text after # is a comment. */
static kn_status read_lines(reading *state, char *text) {
    kn_status status = KN_OK;
    while (text && status == KN_OK) {
        char *line = text, *newline = strchr(text, '\n');
        if (newline) *newline = '\0';
        text = newline ? newline + 1 : NULL;
        state->line++;
        line[strcspn(line, "#")] = '\0';
        while (kn_is_blank(*line))
            line++;
        size_t length = strlen(line);
        while (length && kn_is_blank(line[length - 1]))
            line[--length] = '\0';
        if (state->line == 1) {
            if (strcmp(line, first_line))
                status = kn_fail(state->error, KN_ERROR_FORMAT,
                                 "%s line 1: found '%.40s'; expected '%s', the first line of target files",
                                 state->path, line, first_line);
        } else if (length) {
            status = read_line(state, line);
        }
    }
    return status;
}

static kn_status check_whole(const reading *state) {
    const description *target = state->target;
    for (int i = 0; i < FIELDS; i++)
        if (fields[i].needed && !state->given[i])
            return kn_fail(state->error, KN_ERROR_FORMAT, "%s: a line '%s' is missing; expected %s",
                           state->path, fields[i].key, fields[i].expected);
    if (target->kind == 1 && (!target->vector_width || !target->vector_registers))
        return kn_fail(state->error, KN_ERROR_FORMAT,
                       "%s: kernels is cpu; expected lines 'vector_width' and 'vector_registers' too",
                       state->path);
    if (target->integer_dot && target->language < 2)
        return kn_fail(state->error, KN_ERROR_FORMAT,
                       "%s: capabilities has integer_dot; expected 'opencl_c 3.0' too, which declares it",
                       state->path);
    return KN_OK;
}

static kn_status read_file(const kn_host *host, const char *path, description *target, kn_error *error) {
    reading state = {.path = path, .target = target, .error = error};
    uint8_t *bytes = NULL;
    uint64_t count = 0;
    kn_status status = kn_file_read(host, path, FILE_LIMIT, &bytes, &count, error);
    if (status == KN_OK && memchr(bytes, 0, (size_t)count))
        status =
            kn_fail(error, KN_ERROR_FORMAT, "%s has a zero byte; expected the text of a target file", path);
    if (status == KN_OK) status = read_lines(&state, (char *)bytes);
    if (status == KN_OK) status = check_whole(&state);
    kn_release(host, bytes);
    return status;
}

/* ---- the context ---------------------------------------------------------------------------------- */

static void fill_info(const description *target, kn_device_info *info) {
    *info = (kn_device_info){.size = sizeof *info,
                             .type = target->kind == 1 ? KN_DEVICE_CPU : KN_DEVICE_GPU,
                             .platform = "described by a file",
                             .version = "OpenCL 1.2",
                             .compute_units = (int)target->compute_units,
                             .clock_mhz = (int)target->clock_mhz,
                             .memory_bytes = (uint64_t)target->memory_bytes,
                             .largest_block_bytes = (uint64_t)target->largest_block_bytes,
                             .local_bytes = (uint64_t)target->local_bytes,
                             .shares_memory = target->shares_memory};
    memcpy(info->name, target->name, sizeof target->name);
}

static void fill_capabilities(kn_context *context, const description *target) {
    const uint64_t limit = context->largest_block_bytes, largest = (uint64_t)target->largest_block_bytes;
    context->capabilities = (kn_capabilities){
        .size = sizeof context->capabilities,
        .vector_registers = target->vector_registers ? (int)target->vector_registers : 16,
        .item_registers = (int)target->item_registers,
        .compute_units = (int)target->compute_units,
        .used_units = (int)target->compute_units,
        .work_group_items = (size_t)target->work_group_items,
        .local_bytes = (uint64_t)target->local_bytes,
        .memory_bytes = (uint64_t)target->memory_bytes,
        .largest_block_bytes = limit && limit < largest ? limit : largest,
        .alignment_bytes = target->alignment > MIN_ALIGNMENT ? (uint32_t)target->alignment : MIN_ALIGNMENT,
        .shares_memory = target->shares_memory,
        .local_is_global = target->local_is_global,
        .double_precision = target->double_precision,
        .integer_dot = target->integer_dot,
        .double_claimed = target->double_precision,
        .integer_dot_claimed = target->integer_dot};
    for (int unit = 1; unit <= KN_MATRIX_UNIT_LAST; unit++)
        if (target->matrix[unit]) context->matrix_stated = (kn_matrix_unit)unit;
    kn_context_set_kind(context, target->kind == 1, target->vector_width ? (int)target->vector_width : 1);
}

void kn_context_describe(kn_context *context, const char *path) {
    description target = {.kind = 0};
    if (read_file(&context->host, path, &target, &context->failure) != KN_OK) return;
    context->described = true;
    context->stated =
        (kn_limits){.size = sizeof context->stated, .gflops = target.peak_gflops, .gbytes = target.bandwidth};
    fill_info(&target, &context->found.info);
    memcpy(context->stated_option, target.register_option, sizeof context->stated_option);
    if (context->stated_option[0]) context->register_option = context->stated_option;
    snprintf(context->found.language, sizeof context->found.language, "OpenCL C %s",
             languages[target.language]);
    fill_capabilities(context, &target);
}

kn_status kn_fail_described(const kn_context *context, kn_error *error) {
    return kn_fail(error, KN_ERROR_CANCELLED,
                   "%s is only described by a file, so nothing can run on it; it can only be planned for",
                   context->found.info.name);
}

bool kn_context_is_described(const kn_context *context) {
    return context->described;
}
