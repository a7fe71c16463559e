#include "readers.h"

#include <string.h>

bool reader_inconsistent;

static volatile uint64_t seen; /* so that no read is left out as useless */

static void look_at(const void *bytes, uint64_t count) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++)
        sum += ((const uint8_t *)bytes)[i];
    seen += sum;
}

/* Every byte of the array is there, and its numbers agree. */
static void look_at_array(const kn_array *array) {
    kn_array again = *array;
    if (!kn_array_measure(&again) || again.count != array->count || again.byte_count != array->byte_count)
        reader_inconsistent = true;
    look_at(array->bytes, array->byte_count);
    for (uint64_t i = 0; i < array->count && i < 64; i++)
        seen += kn_array_number(array, i) > 0;
}

kn_status read_npy(const kn_host *host, const uint8_t *bytes, uint64_t count, kn_error *error) {
    kn_array array;
    kn_status status = kn_npy_read(host, "some.npy", bytes, count, &array, error);
    if (status == KN_OK) look_at_array(&array);
    if (status != KN_OK && array.owned) reader_inconsistent = true;
    kn_array_finish(host, &array);
    return status;
}

kn_status read_idx(const kn_host *host, const uint8_t *bytes, uint64_t count, kn_error *error) {
    kn_array array;
    kn_status status = kn_idx_read(host, "some-idx3-ubyte", bytes, count, &array, error);
    if (status == KN_OK) look_at_array(&array);
    if (status != KN_OK && array.owned) reader_inconsistent = true;
    kn_array_finish(host, &array);
    return status;
}

kn_status read_gzip(const kn_host *host, const uint8_t *bytes, uint64_t count, kn_error *error) {
    uint8_t *inflated;
    uint64_t inflated_count;
    kn_status status =
        kn_gzip_inflate(host, "some.gz", bytes, count, INFLATED_LIMIT, &inflated, &inflated_count, error);
    if (status == KN_OK) {
        if (inflated_count > INFLATED_LIMIT || inflated[inflated_count] != 0) reader_inconsistent = true;
        look_at(inflated, inflated_count);
        kn_release(host, inflated);
    } else if (inflated) {
        reader_inconsistent = true;
    }
    return status;
}

static void look_at_json(const kn_json *value, int depth) {
    size_t count = 0;
    for (const kn_json *item = value->first; item; item = item->next) {
        count++;
        if ((value->kind == KN_JSON_OBJECT) != (item->key != NULL)) reader_inconsistent = true;
        if (item->key) look_at(item->key, item->key_length + 1);
        look_at_json(item, depth + 1);
    }
    bool text = value->kind == KN_JSON_NUMBER || value->kind == KN_JSON_STRING;
    if (count != value->count || depth > 20 || text != (value->text != NULL)) reader_inconsistent = true;
    if (text) {
        look_at(value->text, value->length + 1);
        if (value->text[value->length] != '\0') reader_inconsistent = true;
    }
    int64_t number;
    seen += kn_json_int64(value, &number);
}

kn_status read_json(const kn_host *host, const uint8_t *bytes, uint64_t count, kn_error *error) {
    kn_arena arena;
    kn_arena_init(&arena, host);
    kn_json *root;
    kn_status status = kn_json_read(&arena, "some.json", bytes, count, 1 << 20, 20, &root, error);
    if ((status == KN_OK) != (root != NULL)) reader_inconsistent = true;
    if (root) look_at_json(root, 0);
    kn_arena_finish(&arena);
    return status;
}

kn_status read_safetensors(const kn_host *host, const uint8_t *bytes, uint64_t count, kn_error *error) {
    kn_safetensors file;
    kn_status status = kn_safetensors_read(host, "some.safetensors", bytes, count, &file, error);
    if (status != KN_OK && (file.tensors || file.count > 0)) reader_inconsistent = true;
    if (status != KN_OK) return status;
    uint64_t total = 0;
    for (size_t i = 0; i < file.count; i++) {
        look_at_array(&file.tensors[i].array);
        total += file.tensors[i].array.byte_count;
        if (kn_safetensors_find(&file, file.tensors[i].name) != &file.tensors[i]) reader_inconsistent = true;
    }
    if (total > count) reader_inconsistent = true;
    for (size_t i = 0; i < file.metadata_count; i++)
        if (kn_safetensors_metadata(&file, file.metadata[i].key) == NULL) reader_inconsistent = true;
    kn_safetensors_close(host, &file);
    return status;
}
