/* GGUF: a header, key-value pairs, descriptions of tensors, and the aligned bytes of the tensors. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "formats/formats_private.h"

enum {
    MAGIC_BYTES = 4,
    KEY_MAX = 65535,   /* bytes of a key or name, as the format has it */
    PARTS_MAX = 65535, /* the format has a uint16 */
    RANK_MAX = 4,
    PAIR_BYTES = 8 + 4 + 1,       /* at least, of a key with its value */
    TENSOR_BYTES = 8 + 4 + 4 + 8, /* at least, of a description */
};

static const struct {
    const char *name;
    int bytes; /* 0: strings and arrays */
} kinds[] = {
    [KN_GGUF_UINT8] = {"uint8", 1},     [KN_GGUF_INT8] = {"int8", 1},     [KN_GGUF_UINT16] = {"uint16", 2},
    [KN_GGUF_INT16] = {"int16", 2},     [KN_GGUF_UINT32] = {"uint32", 4}, [KN_GGUF_INT32] = {"int32", 4},
    [KN_GGUF_FLOAT32] = {"float32", 4}, [KN_GGUF_BOOL] = {"bool", 1},     [KN_GGUF_STRING] = {"string", 0},
    [KN_GGUF_ARRAY] = {"array", 0},     [KN_GGUF_UINT64] = {"uint64", 8}, [KN_GGUF_INT64] = {"int64", 8},
    [KN_GGUF_FLOAT64] = {"float64", 8},
};

const char *kn_gguf_kind_name(kn_gguf_kind kind) {
    return (size_t)kind < KN_COUNT_OF(kinds) ? kinds[kind].name : "unknown";
}

int kn_gguf_kind_bytes(kn_gguf_kind kind) {
    return (size_t)kind < KN_COUNT_OF(kinds) ? kinds[kind].bytes : 0;
}

/* The state of reading one file. A failed read returns zeros, and all later reads too. */
typedef struct reader {
    const char *name;
    const uint8_t *bytes;
    uint64_t count, at;
    kn_gguf *file;
    kn_error *error;
    kn_status status;
} reader;

static uint64_t left(const reader *in) {
    return in->count - in->at;
}

static void refuse(reader *in, const char *what) {
    if (in->status != KN_OK) return;
    in->status = kn_fail(in->error, KN_ERROR_FORMAT, "%s: byte %" PRIu64 ": %s", in->name, in->at, what);
}

static const uint8_t *take(reader *in, uint64_t count) {
    if (in->status == KN_OK && count > left(in)) refuse(in, "the file ends within the header");
    if (in->status != KN_OK) return NULL;
    const uint8_t *bytes = in->bytes + in->at;
    in->at += count;
    return bytes;
}

static uint64_t take_number(reader *in, int bytes) {
    const uint8_t *at = take(in, (uint64_t)bytes);
    return at ? kn_little_uint(at, bytes) : 0;
}

/* The bytes of a string. */
static kn_gguf_text take_string(reader *in) {
    uint64_t count = take_number(in, 8);
    const uint8_t *bytes = take(in, count);
    return bytes ? (kn_gguf_text){(const char *)bytes, count} : (kn_gguf_text){"", 0};
}

/* A key or a tensor's name, terminated, in the arena. */
static const char *take_name(reader *in) {
    kn_gguf_text text = take_string(in);
    if (in->status != KN_OK) return NULL;
    if (text.count > KEY_MAX || memchr(text.bytes, '\0', (size_t)text.count)) {
        refuse(in, "a key or name is longer than 65535 bytes or contains a zero byte");
        return NULL;
    }
    char *name = kn_arena_take(&in->file->arena, (size_t)text.count + 1, 1);
    if (!name)
        in->status = kn_fail_memory(in->error, (size_t)text.count + 1);
    else
        memcpy(name, text.bytes, (size_t)text.count);
    return name;
}

/* A count of items of at least `bytes` bytes each, which bounds the memory that a hostile file can request.
 */
static size_t take_count(reader *in, int bytes, const char *what) {
    uint64_t count = take_number(in, 8);
    if (in->status == KN_OK && count > left(in) / (uint64_t)bytes)
        in->status = kn_fail(in->error, KN_ERROR_FORMAT,
                             "%s: byte %" PRIu64 ": %" PRIu64 " %s in a file of %" PRIu64
                             " bytes: truncated or damaged",
                             in->name, in->at - 8, count, what, in->count);
    return in->status == KN_OK ? (size_t)count : 0;
}

/* ---- metadata ------------------------------------------------------------------------ */

static kn_gguf_kind take_kind(reader *in) {
    uint64_t number = take_number(in, 4);
    if (in->status == KN_OK && number >= KN_COUNT_OF(kinds))
        in->status = kn_fail(in->error, KN_ERROR_FORMAT,
                             "%s: byte %" PRIu64 ": a value of type %" PRIu64 ", expected 0 to %zu", in->name,
                             in->at - 4, number, KN_COUNT_OF(kinds) - 1);
    return in->status == KN_OK ? (kn_gguf_kind)number : KN_GGUF_UINT8;
}

static void read_strings(reader *in, kn_gguf_value *value) {
    uint64_t *offsets = kn_arena_take(&in->file->arena, (size_t)value->count, sizeof *offsets);
    if (!offsets) {
        in->status = kn_fail_memory_for(in->error, value->key, value->count, sizeof *offsets);
        return;
    }
    for (uint64_t i = 0; i < value->count && in->status == KN_OK; i++) {
        offsets[i] = in->at + 8 - (uint64_t)(value->bytes - in->bytes);
        take_string(in);
    }
    value->offsets = offsets;
}

static void read_array(reader *in, kn_gguf_value *value) {
    value->array = true;
    value->kind = take_kind(in);
    if (value->kind == KN_GGUF_ARRAY) refuse(in, "an array of arrays");
    int bytes = kinds[value->kind].bytes;
    value->count = take_count(in, bytes ? bytes : 8, "elements");
    value->bytes = in->bytes + in->at;
    if (in->status != KN_OK) return;
    if (value->kind == KN_GGUF_STRING)
        read_strings(in, value);
    else
        take(in, value->count * (uint64_t)bytes);
}

static void read_value(reader *in, kn_gguf_value *value) {
    value->key = take_name(in);
    value->kind = take_kind(in);
    value->count = 1;
    value->bytes = in->bytes + in->at;
    if (in->status != KN_OK) return;
    if (value->kind == KN_GGUF_ARRAY)
        read_array(in, value);
    else if (value->kind == KN_GGUF_STRING)
        take_string(in);
    else
        take(in, (uint64_t)kinds[value->kind].bytes);
}

static void remember(reader *in, kn_map *map, const char *name, void *item) {
    if (in->status != KN_OK) return;
    if (kn_map_has(map, name, strlen(name)))
        in->status = kn_fail(in->error, KN_ERROR_FORMAT, "%s: \"%.200s\" occurs twice", in->name, name);
    else if (!kn_map_put_text(map, name, item))
        in->status = kn_fail_memory(in->error, strlen(name));
}

static void read_values(reader *in, size_t count) {
    kn_gguf *file = in->file;
    file->values = kn_arena_take(&file->arena, count, sizeof *file->values);
    if (!file->values) in->status = kn_fail_memory_for(in->error, "metadata", count, sizeof *file->values);
    for (size_t i = 0; i < count && in->status == KN_OK; i++) {
        read_value(in, &file->values[i]);
        remember(in, &file->values_by_key, file->values[i].key, &file->values[i]);
        file->value_count = i + 1;
    }
}

/* ---- tensors ------------------------------------------------------------------------- */

/* Sets the number of elements and the number of bytes; offset is that within the data. */
static void measure(reader *in, kn_gguf_tensor *tensor) {
    int64_t row = tensor->rank ? tensor->shape[tensor->rank - 1] : 1;
    bool fits = true;
    tensor->count = 1;
    for (int i = 0; i < tensor->rank; i++) {
        uint64_t size = (uint64_t)tensor->shape[i];
        fits = fits && tensor->shape[i] >= 0 && (size == 0 || tensor->count <= INT64_MAX / size);
        if (fits) tensor->count *= size;
    }
    const kn_block_type *block = tensor->storage;
    if (fits && block && row % block->weights != 0)
        in->status = kn_fail(in->error, KN_ERROR_FORMAT,
                             "%s: tensor \"%.200s\": rows of %" PRId64 " elements, but %s has blocks of %d",
                             in->name, tensor->name, row, block->name, block->weights);
    uint64_t blocks = fits && block ? tensor->count / (uint64_t)block->weights : 0;
    if (!fits || (block && blocks > INT64_MAX / (uint64_t)block->bytes))
        in->status = kn_fail(in->error, KN_ERROR_FORMAT,
                             "%s: tensor \"%.200s\": a size is negative or the number of elements too large",
                             in->name, tensor->name);
    else if (block)
        tensor->byte_count = blocks * (uint64_t)block->bytes;
}

static void read_tensor(reader *in, kn_gguf_tensor *tensor, uint64_t *offset) {
    tensor->name = take_name(in);
    uint64_t rank = take_number(in, 4);
    if (in->status == KN_OK && rank > RANK_MAX) refuse(in, "a tensor with more than 4 dimensions");
    if (in->status != KN_OK) return;
    tensor->rank = (int)rank;
    for (int i = tensor->rank - 1; i >= 0; i--)
        tensor->shape[i] = (int64_t)take_number(in, 8);
    tensor->type = (int)(uint32_t)take_number(in, 4);
    *offset = take_number(in, 8);
    tensor->storage = kn_block_type_find(tensor->type);
    if (in->status == KN_OK) measure(in, tensor);
}

/* Sets the bytes of a tensor at an offset from `data`, the beginning of the data in the file. */
static void place(reader *in, kn_gguf_tensor *tensor, uint64_t data, uint64_t offset, uint64_t alignment) {
    uint64_t bytes = tensor->byte_count;
    if (offset % alignment != 0)
        in->status = kn_fail(in->error, KN_ERROR_FORMAT,
                             "%s: tensor \"%.200s\": offset %" PRIu64 " is not a multiple of %" PRIu64,
                             in->name, tensor->name, offset, alignment);
    else if (bytes > 0 && (data > in->count || bytes > in->count - data || offset > in->count - data - bytes))
        in->status = kn_fail(in->error, KN_ERROR_FORMAT,
                             "%s: tensor \"%.200s\": %" PRIu64 " bytes at %" PRIu64 " + %" PRIu64
                             " in a file of %" PRIu64 " bytes: truncated or damaged",
                             in->name, tensor->name, bytes, data, offset, in->count);
    else if (tensor->storage)
        tensor->bytes = in->bytes + (bytes > 0 ? data + offset : 0);
}

static void read_tensors(reader *in, size_t count) {
    kn_gguf *file = in->file;
    uint64_t *offsets = kn_arena_take(&file->arena, count, sizeof *offsets);
    file->tensors = kn_arena_take(&file->arena, count, sizeof *file->tensors);
    if (!offsets || !file->tensors)
        in->status = kn_fail_memory_for(in->error, "tensors", count, sizeof *file->tensors);
    for (size_t i = 0; i < count && in->status == KN_OK; i++) {
        read_tensor(in, &file->tensors[i], &offsets[i]);
        remember(in, &file->tensors_by_name, file->tensors[i].name, &file->tensors[i]);
        file->tensor_count = i + 1;
    }
    int64_t alignment = 32;
    if (in->status == KN_OK)
        in->status = kn_gguf_integer(file, "general.alignment", 1, 1 << 30, &alignment, in->error);
    if (in->status == KN_OK && alignment & (alignment - 1))
        in->status =
            kn_fail(in->error, KN_ERROR_FORMAT,
                    "%s: general.alignment is %" PRId64 ", expected a power of two", in->name, alignment);
    uint64_t data = kn_align_up(in->at, (uint64_t)alignment);
    for (size_t i = 0; i < count && in->status == KN_OK; i++)
        place(in, &file->tensors[i], data, offsets[i], (uint64_t)alignment);
}

/* ---- files --------------------------------------------------------------------------- */

bool kn_gguf_is(const uint8_t *bytes, uint64_t count) {
    return count >= MAGIC_BYTES && memcmp(bytes, "GGUF", MAGIC_BYTES) == 0;
}

/* Reads the numbers of tensors and of values. */
static void read_start(reader *in, size_t *tensors, size_t *values) {
    if (!kn_gguf_is(in->bytes, in->count)) {
        refuse(in, "the file does not begin with \"GGUF\": not a GGUF file");
        return;
    }
    take(in, MAGIC_BYTES);
    uint32_t version = (uint32_t)take_number(in, 4);
    if (in->status == KN_OK && version != 2 && version != 3)
        in->status =
            kn_fail(in->error, KN_ERROR_UNSUPPORTED, "%s: GGUF version %u%s; expected 2 or 3, little-endian",
                    in->name, (unsigned)version, version & 0xffff ? "" : ", which is a big-endian file");
    *tensors = take_count(in, TENSOR_BYTES, "tensors");
    *values = take_count(in, PAIR_BYTES, "key-value pairs");
}

kn_status kn_gguf_read(const kn_host *host, const char *name, const uint8_t *bytes, uint64_t count,
                       kn_gguf *file, kn_error *error) {
    *file = (kn_gguf){.values = NULL};
    kn_arena_init(&file->arena, host);
    kn_map_init(&file->values_by_key, host);
    kn_map_init(&file->tensors_by_name, host);
    reader in = {.name = name, .bytes = bytes, .count = count, .file = file, .error = error};
    size_t tensors = 0, values = 0;
    file->name = kn_arena_text(&file->arena, name);
    if (!file->name) in.status = kn_fail_memory(error, strlen(name));
    if (in.status == KN_OK) read_start(&in, &tensors, &values);
    if (in.status == KN_OK) read_values(&in, values);
    if (in.status == KN_OK) read_tensors(&in, tensors);
    if (in.status != KN_OK) kn_gguf_close(host, file);
    return in.status;
}

/* The path of part `number` of `count`, counted from 0: the first part's path ends with -00001-of-00003.gguf
 * or so. NULL with the error set. */
static char *part_path(kn_gguf *file, int64_t number, int64_t count, kn_error *error) {
    char end[48];
    snprintf(end, sizeof end, "-%05d-of-%05d.gguf", 1, (int)count);
    size_t length = strlen(file->name), ending = strlen(end);
    if (length < ending || strcmp(file->name + length - ending, end) != 0) {
        kn_fail(error, KN_ERROR_FORMAT,
                "%s: the first of %" PRId64 " parts; expected a name that ends with %s, to find the others",
                file->name, count, end);
        return NULL;
    }
    snprintf(end, sizeof end, "-%05d-of-%05d.gguf", (int)number + 1, (int)count);
    char *path = kn_arena_format(&file->arena, "%.*s%s", (int)(length - ending), file->name, end);
    if (!path) kn_fail_memory(error, length);
    return path;
}

static kn_status open_one(const kn_host *host, const char *path, kn_gguf *file, kn_error *error) {
    *file = (kn_gguf){.values = NULL};
    kn_shared_file *shared;
    kn_status status = kn_shared_file_open(path, &shared, error);
    if (status != KN_OK) return status;
    const kn_file_view *view = kn_shared_file_view(shared);
    status = kn_gguf_read(host, path, view->bytes, view->count, file, error);
    if (status != KN_OK) {
        kn_shared_file_release(&shared);
        return status;
    }
    file->shared = shared;
    for (size_t i = 0; i < file->tensor_count; i++)
        file->tensors[i].file = shared;
    return KN_OK;
}

/* Checks a part's number and the number of parts, which for the first may be absent. */
static kn_status check_part(const kn_gguf *file, int64_t expected, int64_t *count, kn_error *error) {
    int64_t number = 0, parts = *count;
    kn_status status = kn_gguf_integer(file, "split.no", 0, PARTS_MAX, &number, error);
    if (status == KN_OK) status = kn_gguf_integer(file, "split.count", 0, PARTS_MAX, &parts, error);
    if (status == KN_OK && (number != expected || (expected > 0 && parts != *count)))
        status = kn_fail(error, KN_ERROR_FORMAT,
                         "%s: part %" PRId64 " of %" PRId64 ", expected part %" PRId64 "%s", file->name,
                         number + 1, parts, expected + 1, expected ? "" : ": open the first part");
    *count = parts;
    return status;
}

/* The tensors of all parts as one list. */
static kn_status join(kn_gguf *file, kn_error *error) {
    size_t total = file->tensor_count, done = total;
    for (size_t i = 0; i < file->part_count; i++)
        total += file->parts[i].tensor_count;
    int64_t declared = (int64_t)total;
    kn_status status = kn_gguf_integer(file, "split.tensors.count", 0, INT32_MAX, &declared, error);
    if (status != KN_OK) return status;
    if (declared != (int64_t)total)
        return kn_fail(error, KN_ERROR_FORMAT, "%s: its parts have %zu tensors, expected %" PRId64,
                       file->name, total, declared);
    kn_gguf_tensor *all = kn_arena_take(&file->arena, total, sizeof *all);
    if (!all) return kn_fail_memory_for(error, "tensors", total, sizeof *all);
    reader in = {.name = file->name, .file = file, .error = error};
    memcpy(all, file->tensors, done * sizeof *all);
    for (size_t i = 0; i < file->part_count; i++) {
        memcpy(all + done, file->parts[i].tensors, file->parts[i].tensor_count * sizeof *all);
        done += file->parts[i].tensor_count;
    }
    for (size_t i = 0; i < total; i++)
        if (i < file->tensor_count) {
            /* Its place in the longer list. */
            if (!kn_map_put_text(&file->tensors_by_name, all[i].name, &all[i]))
                return kn_fail_memory(error, strlen(all[i].name));
        } else {
            remember(&in, &file->tensors_by_name, all[i].name, &all[i]);
        }
    file->tensors = all;
    file->tensor_count = total;
    return in.status;
}

static kn_status open_parts(const kn_host *host, kn_gguf *file, int64_t count, kn_error *error) {
    kn_status status = KN_OK;
    file->parts = kn_arena_take(&file->arena, (size_t)count - 1, sizeof *file->parts);
    if (!file->parts) return kn_fail_memory_for(error, "parts", (uint64_t)count - 1, sizeof *file->parts);
    for (int64_t i = 1; i < count && status == KN_OK; i++) {
        const char *path = part_path(file, i, count, error);
        if (!path) return error->status;
        status = open_one(host, path, &file->parts[i - 1], error);
        if (status != KN_OK) return status;
        file->part_count++;
        status = check_part(&file->parts[i - 1], i, &count, error);
    }
    return status == KN_OK ? join(file, error) : status;
}

kn_status kn_gguf_open(const kn_host *host, const char *path, kn_gguf *file, kn_error *error) {
    kn_status status = open_one(host, path, file, error);
    if (status != KN_OK) return status;
    int64_t parts = 1;
    status = check_part(file, 0, &parts, error);
    if (status == KN_OK && parts > 1) status = open_parts(host, file, parts, error);
    if (status != KN_OK) kn_gguf_close(host, file);
    return status;
}

void kn_gguf_close(const kn_host *host, kn_gguf *file) {
    if (!file) return;
    for (size_t i = 0; i < file->part_count; i++)
        kn_gguf_close(host, &file->parts[i]);
    kn_shared_file *shared = file->shared;
    /* A zeroed structure has neither. */
    if (file->arena.host || file->arena.blocks) kn_arena_finish(&file->arena);
    if (file->values_by_key.entries || file->values_by_key.slots) kn_map_finish(&file->values_by_key);
    if (file->tensors_by_name.entries || file->tensors_by_name.slots) kn_map_finish(&file->tensors_by_name);
    kn_shared_file_release(&shared);
    *file = (kn_gguf){.values = NULL};
}

/* ---- values -------------------------------------------------------------------------- */

const kn_gguf_value *kn_gguf_find(const kn_gguf *file, const char *key) {
    return file->value_count > 0 ? kn_map_get_text(&file->values_by_key, key) : NULL;
}

const kn_gguf_tensor *kn_gguf_tensor_find(const kn_gguf *file, const char *name) {
    return file->tensor_count > 0 ? kn_map_get_text(&file->tensors_by_name, name) : NULL;
}

bool kn_gguf_integer_at(const kn_gguf_value *value, uint64_t index, int64_t *number) {
    int bytes = kinds[value->kind].bytes;
    if (index >= value->count || bytes == 0) return false;
    uint64_t bits = kn_little_uint(value->bytes + index * (uint64_t)bytes, bytes);
    switch (value->kind) {
    case KN_GGUF_UINT8:
    case KN_GGUF_UINT16:
    case KN_GGUF_UINT32:
        *number = (int64_t)bits;
        return true;
    case KN_GGUF_INT8:
        *number = (int8_t)bits;
        return true;
    case KN_GGUF_INT16:
        *number = (int16_t)bits;
        return true;
    case KN_GGUF_INT32:
        *number = (int32_t)bits;
        return true;
    case KN_GGUF_UINT64:
        if (bits > INT64_MAX) return false;
        *number = (int64_t)bits;
        return true;
    case KN_GGUF_INT64:
        *number = (int64_t)bits;
        return true;
    default:
        return false;
    }
}

bool kn_gguf_real_at(const kn_gguf_value *value, uint64_t index, double *number) {
    int64_t integer;
    if (kn_gguf_integer_at(value, index, &integer)) {
        *number = (double)integer;
        return true;
    }
    if (index >= value->count) return false;
    if (value->kind == KN_GGUF_FLOAT32) {
        uint32_t bits = (uint32_t)kn_little_uint(value->bytes + index * 4, 4);
        float narrow;
        memcpy(&narrow, &bits, sizeof narrow);
        *number = (double)narrow;
        return true;
    }
    if (value->kind == KN_GGUF_FLOAT64) {
        uint64_t bits = kn_little_uint(value->bytes + index * 8, 8);
        memcpy(number, &bits, sizeof bits);
        return true;
    }
    return false;
}

bool kn_gguf_bool_at(const kn_gguf_value *value, uint64_t index, bool *truth) {
    if (value->kind != KN_GGUF_BOOL || index >= value->count) return false;
    *truth = value->bytes[index] != 0;
    return true;
}

bool kn_gguf_text_at(const kn_gguf_value *value, uint64_t index, kn_gguf_text *text) {
    if (value->kind != KN_GGUF_STRING || index >= value->count) return false;
    /* Offsets point to the bytes, after the length. */
    const uint8_t *at = value->bytes + (value->array ? value->offsets[index] : 8);
    *text = (kn_gguf_text){(const char *)at, kn_little_uint(at - 8, 8)};
    return true;
}

static kn_status wrong(const kn_gguf *file, const kn_gguf_value *value, const char *expected,
                       kn_error *error) {
    return kn_fail(error, KN_ERROR_FORMAT, "%s: the value of \"%.200s\" is %s%s, expected %s", file->name,
                   value->key, value->array ? "an array of " : "", kn_gguf_kind_name(value->kind), expected);
}

kn_status kn_gguf_integer(const kn_gguf *file, const char *key, int64_t minimum, int64_t maximum,
                          int64_t *number, kn_error *error) {
    const kn_gguf_value *value = kn_gguf_find(file, key);
    int64_t found;
    if (!value) return KN_OK;
    if (value->array || !kn_gguf_integer_at(value, 0, &found)) return wrong(file, value, "an integer", error);
    if (found < minimum || found > maximum)
        return kn_fail(error, KN_ERROR_FORMAT,
                       "%s: the value of \"%.200s\" is %" PRId64 ", expected %" PRId64 " to %" PRId64,
                       file->name, key, found, minimum, maximum);
    *number = found;
    return KN_OK;
}

kn_status kn_gguf_real(const kn_gguf *file, const char *key, double minimum, double maximum, double *number,
                       kn_error *error) {
    const kn_gguf_value *value = kn_gguf_find(file, key);
    double found;
    if (!value) return KN_OK;
    if (value->array || !kn_gguf_real_at(value, 0, &found)) return wrong(file, value, "a number", error);
    if (!(found >= minimum && found <= maximum))
        return kn_fail(error, KN_ERROR_FORMAT, "%s: the value of \"%.200s\" is %g, expected %g to %g",
                       file->name, key, found, minimum, maximum);
    *number = found;
    return KN_OK;
}

kn_status kn_gguf_bool(const kn_gguf *file, const char *key, bool *truth, kn_error *error) {
    const kn_gguf_value *value = kn_gguf_find(file, key);
    if (!value || (!value->array && kn_gguf_bool_at(value, 0, truth))) return KN_OK;
    return wrong(file, value, "true or false", error);
}

kn_status kn_gguf_string(const kn_gguf *file, const char *key, kn_gguf_text *text, kn_error *error) {
    const kn_gguf_value *value = kn_gguf_find(file, key);
    if (!value || (!value->array && kn_gguf_text_at(value, 0, text))) return KN_OK;
    return wrong(file, value, "a string", error);
}
