/* safetensors: eight bytes with the length of a header, the header (JSON), the contiguous tensors. */
#include "formats/formats_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Enough for a hundred thousand tensors; bounds the memory that a hostile file can request. */
#define HEADER_MAX 25000000u
#define LENGTH_BYTES 8
#define JSON_DEPTH 4

static const struct {
    const char *name;
    kn_dtype type;
} types[] = {
    {"F32", KN_FLOAT32},
    {"F64", KN_FLOAT64},
    {"F16", KN_FLOAT16},
    {"BF16", KN_BFLOAT16},
    {"I64", KN_INT64},
    {"I32", KN_INT32},
    {"I16", KN_INT16},
    {"I8", KN_INT8},
    {"U64", KN_UINT64},
    {"U32", KN_UINT32},
    {"U16", KN_UINT16},
    {"U8", KN_UINT8},
    {"BOOL", KN_BOOL},
    {"F8_E4M3", KN_FLOAT8E4M3FN},
    {"F8_E5M2", KN_FLOAT8E5M2},
    {"F8_E8M0", KN_FLOAT8E8M0},
    {"F8_E4M3FNUZ", KN_FLOAT8E4M3FNUZ},
    {"F8_E5M2FNUZ", KN_FLOAT8E5M2FNUZ},
};

const char *kn_safetensors_type_name(kn_dtype type) {
    for (size_t i = 0; i < KN_COUNT_OF(types); i++)
        if (types[i].type == type) return types[i].name;
    return NULL;
}

/* The state of reading. */
typedef struct reader {
    const kn_host *host;
    const char *name;
    const uint8_t *data; /* after the header */
    uint64_t data_count;
    kn_safetensors *file;
    kn_error *error;
} reader;

/* The file offset of a value in the header. */
static unsigned long long offset_of(const kn_json *value) {
    return value->offset + LENGTH_BYTES;
}

static kn_status refuse(reader *in, const kn_json *tensor, const kn_json *value, const char *expected) {
    return kn_fail(in->error, KN_ERROR_FORMAT, "%s: tensor \"%s\": byte %llu: found %s, expected %s",
                   in->name, tensor->key, offset_of(value), kn_json_kind_name(value->kind), expected);
}

/* Keys are used as C strings. */
static kn_status check_text(reader *in, const kn_json *owner, const char *text, size_t length) {
    if (!memchr(text, '\0', length)) return KN_OK;
    return kn_fail(in->error, KN_ERROR_FORMAT, "%s: byte %llu: a zero character in \"%s\"", in->name,
                   offset_of(owner), text);
}

static kn_status read_metadata(reader *in, const kn_json *map) {
    if (map->kind != KN_JSON_OBJECT) return refuse(in, map, map, "an object of strings");
    in->file->metadata = kn_arena_take(&in->file->arena, map->count, sizeof *in->file->metadata);
    if (!in->file->metadata) return kn_fail_memory(in->error, map->count * sizeof *in->file->metadata);
    for (const kn_json *entry = map->first; entry; entry = entry->next) {
        if (entry->kind != KN_JSON_STRING) return refuse(in, map, entry, "a string");
        kn_status status = check_text(in, entry, entry->key, entry->key_length);
        if (status == KN_OK) status = check_text(in, entry, entry->text, entry->length);
        if (status != KN_OK) return status;
        if (strcmp(entry->key, KN_SAFETENSORS_CHECKSUM) == 0) in->file->checksum_at = offset_of(entry) + 1;
        in->file->metadata[in->file->metadata_count++] = (kn_text_pair){entry->key, entry->text};
    }
    return KN_OK;
}

static kn_status read_type(reader *in, const kn_json *entry, const kn_json *value, kn_dtype *type) {
    if (value->kind != KN_JSON_STRING) return refuse(in, entry, value, "the name of a type");
    for (size_t i = 0; i < KN_COUNT_OF(types); i++)
        if (strcmp(value->text, types[i].name) == 0) {
            *type = types[i].type;
            return KN_OK;
        }
    char found[KN_QUOTE_BYTES];
    return kn_fail(
        in->error, KN_ERROR_UNSUPPORTED,
        "%s: tensor \"%s\": byte %llu: type %s; expected one of F64 F32 F16 BF16 I64 I32 I16 I8 U64 "
        "U32 U16 U8 BOOL F8_E4M3 F8_E5M2 F8_E8M0 F8_E4M3FNUZ F8_E5M2FNUZ",
        in->name, entry->key, offset_of(value), kn_quote(value->text, value->length, found));
}

static kn_status read_shape(reader *in, const kn_json *entry, const kn_json *value, kn_array *array) {
    if (value->kind != KN_JSON_ARRAY) return refuse(in, entry, value, "an array of dimensions");
    if (value->count > KN_MAX_RANK)
        return kn_fail(in->error, KN_ERROR_UNSUPPORTED,
                       "%s: tensor \"%s\": byte %llu: %zu dimensions; at most %d are supported", in->name,
                       entry->key, offset_of(value), value->count, KN_MAX_RANK);
    for (const kn_json *length = value->first; length; length = length->next) {
        int64_t number;
        if (!kn_json_int64(length, &number) || number < 0)
            return refuse(in, entry, length, "a dimension: an integer from 0 to 2^63 - 1");
        array->shape[array->rank++] = number;
    }
    return KN_OK;
}

static kn_status read_offsets(reader *in, const kn_json *entry, const kn_json *value, kn_array *array) {
    int64_t begin, end;
    if (value->kind != KN_JSON_ARRAY || value->count != 2 || !kn_json_int64(value->first, &begin) ||
        !kn_json_int64(value->first->next, &end))
        return refuse(in, entry, value, "two integers");
    if (begin < 0 || end < begin || (uint64_t)end > in->data_count)
        return kn_fail(
            in->error, KN_ERROR_FORMAT,
            "%s: tensor \"%s\": byte %llu: data_offsets [%lld, %lld], expected a range within [0, %llu]",
            in->name, entry->key, offset_of(value), (long long)begin, (long long)end,
            (unsigned long long)in->data_count);
    char shape[200];
    if (!kn_array_measure(array) || array->byte_count != (uint64_t)(end - begin))
        return kn_fail(
            in->error, KN_ERROR_FORMAT,
            "%s: tensor \"%s\": byte %llu: data_offsets span %lld bytes, but shape %s of %s needs %s",
            in->name, entry->key, offset_of(value), (long long)(end - begin),
            kn_array_shape_text(array, shape, sizeof shape), kn_array_type_name(array->type),
            kn_array_measure(array) ? "another number" : "more than the address space");
    array->bytes = in->data + begin;
    return KN_OK;
}

static kn_status read_tensor(reader *in, const kn_json *entry) {
    kn_status status = check_text(in, entry, entry->key, entry->key_length);
    if (status != KN_OK) return status;
    const kn_json *type = kn_json_member(entry, "dtype"), *shape = kn_json_member(entry, "shape");
    const kn_json *offsets = kn_json_member(entry, "data_offsets");
    if (!type || !shape || !offsets || entry->count != 3)
        return refuse(in, entry, entry, "an object with dtype, shape and data_offsets");
    kn_safetensor *tensor = &in->file->tensors[in->file->count];
    tensor->name = entry->key;
    status = read_type(in, entry, type, &tensor->array.type);
    if (status == KN_OK) status = read_shape(in, entry, shape, &tensor->array);
    if (status == KN_OK) status = read_offsets(in, entry, offsets, &tensor->array);
    if (status != KN_OK) return status;
    if (!kn_map_put_text(&in->file->by_name, tensor->name, tensor))
        return kn_fail_memory(in->error, strlen(tensor->name));
    in->file->count++;
    return KN_OK;
}

static int by_place(const void *left, const void *right) {
    const kn_safetensor *a = *(const kn_safetensor *const *)left, *b = *(const kn_safetensor *const *)right;
    uintptr_t begin_a = (uintptr_t)a->array.bytes, begin_b = (uintptr_t)b->array.bytes;
    if (begin_a != begin_b) return begin_a < begin_b ? -1 : 1;
    /* An empty tensor sorts before one that begins at the same offset. */
    return a->array.byte_count < b->array.byte_count ? -1 : a->array.byte_count > b->array.byte_count;
}

/* Checks that the tensors cover the data without gaps or overlap. */
static kn_status check_tiling(reader *in) {
    size_t count = in->file->count;
    if (count == 0 && in->data_count == 0) return KN_OK;
    const kn_safetensor **order = kn_allocate(in->host, count > 0 ? count : 1, sizeof *order);
    if (!order) return kn_fail_memory(in->error, count * sizeof *order);
    for (size_t i = 0; i < count; i++)
        order[i] = &in->file->tensors[i];
    qsort(order, count, sizeof *order, by_place);
    uint64_t end = 0;
    kn_status status = KN_OK;
    for (size_t i = 0; i < count && status == KN_OK; i++) {
        uint64_t begin = (uint64_t)((const uint8_t *)order[i]->array.bytes - in->data);
        if (begin != end)
            status = kn_fail(in->error, KN_ERROR_FORMAT,
                             "%s: tensor \"%s\": begins at byte %llu of the data, expected %llu: tensors %s",
                             in->name, order[i]->name, (unsigned long long)begin, (unsigned long long)end,
                             begin < end ? "overlap" : "leave a gap");
        end = begin + order[i]->array.byte_count;
    }
    if (status == KN_OK && end != in->data_count)
        status = kn_fail(in->error, KN_ERROR_FORMAT,
                         "%s: the tensors end at byte %llu of the data, but the file at %llu", in->name,
                         (unsigned long long)end, (unsigned long long)in->data_count);
    kn_release(in->host, order);
    return status;
}

static kn_status read_header(reader *in, const kn_json *root) {
    if (root->kind != KN_JSON_OBJECT)
        return kn_fail(in->error, KN_ERROR_FORMAT, "%s: byte %d: found %s, expected the header, an object",
                       in->name, LENGTH_BYTES, kn_json_kind_name(root->kind));
    in->file->tensors = kn_arena_take(&in->file->arena, root->count, sizeof *in->file->tensors);
    if (!in->file->tensors) return kn_fail_memory(in->error, root->count * sizeof *in->file->tensors);
    for (const kn_json *entry = root->first; entry; entry = entry->next) {
        bool metadata = strcmp(entry->key, "__metadata__") == 0 && entry->key_length == 12;
        kn_status status = metadata ? read_metadata(in, entry) : read_tensor(in, entry);
        if (status != KN_OK) return status;
    }
    return check_tiling(in);
}

kn_status kn_safetensors_read(const kn_host *host, const char *name, const uint8_t *bytes, uint64_t count,
                              kn_safetensors *file, kn_error *error) {
    *file = (kn_safetensors){.tensors = NULL};
    if (count < LENGTH_BYTES)
        return kn_fail(error, KN_ERROR_FORMAT, "%s: %llu bytes, too short for a safetensors file", name,
                       (unsigned long long)count);
    uint64_t length = kn_little_uint(bytes, LENGTH_BYTES);
    if (length > count - LENGTH_BYTES || length > HEADER_MAX)
        return kn_fail(error, KN_ERROR_FORMAT,
                       "%s: byte 0: a header of %llu bytes; expected at most the %llu that follow (and %u): "
                       "not a safetensors file, or truncated",
                       name, (unsigned long long)length, (unsigned long long)(count - LENGTH_BYTES),
                       HEADER_MAX);
    if (length < 2 || bytes[LENGTH_BYTES] != '{')
        return kn_fail(error, KN_ERROR_FORMAT,
                       "%s: byte 8: the header does not begin with '{': not a safetensors file", name);
    file->bytes = bytes;
    file->byte_count = count;
    kn_arena_init(&file->arena, host);
    kn_map_init(&file->by_name, host);
    reader in = {.host = host,
                 .name = name,
                 .data = bytes + LENGTH_BYTES + length,
                 .data_count = count - LENGTH_BYTES - length,
                 .file = file,
                 .error = error};
    kn_json *root;
    kn_status status =
        kn_json_read(&file->arena, name, bytes + LENGTH_BYTES, length, HEADER_MAX, JSON_DEPTH, &root, error);
    if (status == KN_OK) status = read_header(&in, root);
    if (status != KN_OK) kn_safetensors_close(host, file);
    return status;
}

kn_status kn_safetensors_open(const kn_host *host, const char *path, kn_safetensors *file, kn_error *error) {
    *file = (kn_safetensors){.tensors = NULL};
    kn_file_view view;
    kn_status status = kn_file_open_view(host, path, &view, error);
    if (status != KN_OK) return status;
    status = kn_safetensors_read(host, path, view.bytes, view.count, file, error);
    if (status != KN_OK)
        kn_file_close_view(host, &view);
    else
        file->view = view;
    return status;
}

void kn_safetensors_close(const kn_host *host, kn_safetensors *file) {
    if (!file) return;
    /* A zeroed structure has neither. */
    if (file->arena.host || file->arena.blocks) kn_arena_finish(&file->arena);
    if (file->by_name.entries || file->by_name.slots) kn_map_finish(&file->by_name);
    if (file->view.bytes) kn_file_close_view(host, &file->view);
    *file = (kn_safetensors){.tensors = NULL};
}

const kn_safetensor *kn_safetensors_find(const kn_safetensors *file, const char *name) {
    return file->count > 0 ? kn_map_get_text(&file->by_name, name) : NULL;
}

const char *kn_safetensors_metadata(const kn_safetensors *file, const char *key) {
    for (size_t i = 0; i < file->metadata_count; i++)
        if (strcmp(file->metadata[i].key, key) == 0) return file->metadata[i].value;
    return NULL;
}

kn_status kn_safetensors_check(const kn_safetensors *file, const char *name, kn_error *error) {
    const size_t digits = strlen(KN_SAFETENSORS_NO_CHECKSUM);
    const char *said = kn_safetensors_metadata(file, KN_SAFETENSORS_CHECKSUM);
    uint64_t at = file->checksum_at;
    char found[24];
    if (!said) return KN_OK;
    /* As written, without escapes, which would change the length. */
    if (strlen(said) != digits || at > file->byte_count - digits || memcmp(file->bytes + at, said, digits))
        return kn_fail(error, KN_ERROR_FORMAT, "%s: the checksum (%s) does not have %zu digits", name,
                       KN_SAFETENSORS_CHECKSUM, digits);
    uint64_t hash = kn_hash_bytes(KN_HASH_START, file->bytes, (size_t)at);
    hash = kn_hash_text(hash, KN_SAFETENSORS_NO_CHECKSUM);
    hash = kn_hash_bytes(hash, file->bytes + at + digits, (size_t)(file->byte_count - at - digits));
    snprintf(found, sizeof found, "%016llx", (unsigned long long)hash);
    if (strcmp(found, said) == 0) return KN_OK;
    return kn_fail(error, KN_ERROR_FORMAT,
                   "%s: the checksum of its bytes is %s, but it declares %s: the file was damaged or "
                   "modified after it was written (remove %s from the metadata of a file that you modify)",
                   name, found, said, KN_SAFETENSORS_CHECKSUM);
}
