/* Renumbers the classes of samples by the class names of a model. */
#include "data/dataset_private.h"

#include <stdio.h>
#include <string.h>

/* The names in a text, one per line. */
typedef struct wanted_names {
    const char **names;
    size_t count;
    bool numbers; /* each name is its own index: the classes have no names */
} wanted_names;

static kn_status read_names(kn_arena *arena, const char *lines, wanted_names *wanted, kn_error *error) {
    *wanted = (wanted_names){.count = 1, .numbers = true};
    char *at = kn_arena_text(arena, lines);
    for (const char *c = lines; *c; c++)
        wanted->count += *c == '\n';
    wanted->names = kn_arena_take(arena, wanted->count, sizeof *wanted->names);
    if (!at || !wanted->names) return kn_fail_memory(error, strlen(lines));
    for (size_t i = 0; i < wanted->count; i++) {
        char number[24], *end = at + strcspn(at, "\n");
        snprintf(number, sizeof number, "%zu", i);
        wanted->names[i] = at;
        at = end + (*end != '\0');
        *end = '\0';
        wanted->numbers = wanted->numbers && strcmp(wanted->names[i], number) == 0;
    }
    return KN_OK;
}

static kn_status fail_class(const char *data, const char *name, const wanted_names *wanted, kn_error *error) {
    char list[400] = "";
    size_t used = 0, i = 0;
    for (; i < wanted->count && used + strlen(wanted->names[i]) + 8 < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", wanted->names[i]);
    return kn_fail(error, KN_ERROR_NOT_FOUND,
                   "data \"%s\": class \"%s\" is not among the %zu classes of the model, %s%s; "
                   "rename it, or remove its samples",
                   data, name, wanted->count, list, i < wanted->count ? " …" : "");
}

/* indices[class of the store]: the index of the class among the wanted ones; sets *by_name to false if there
 * are no common names and the wanted names are only numbers. */
static kn_status find_indices(const kn_sample_store *store, const char *data, const wanted_names *wanted,
                              int32_t *indices, bool *by_name, kn_error *error) {
    kn_map numbers;
    kn_status status = KN_OK;
    const char *missing = NULL;
    kn_map_init(&numbers, &store->host);
    for (size_t i = wanted->count; i-- > 0 && status == KN_OK;) /* of two equal names, the first counts */
        if (!kn_map_put_text(&numbers, wanted->names[i], &wanted->names[i]))
            status = kn_fail_memory(error, wanted->count);
    *by_name = !wanted->numbers;
    for (int i = 0; i < store->classes && status == KN_OK; i++) {
        const char **found = kn_map_get_text(&numbers, store->class_names[i]);
        if (found) *by_name = true;
        if (found) indices[i] = (int32_t)(found - wanted->names);
        if (!found && !missing) missing = store->class_names[i];
    }
    kn_map_finish(&numbers);
    return status == KN_OK && *by_name && missing ? fail_class(data, missing, wanted, error) : status;
}

/* Renumbers a field of classes, in a new block. */
static kn_status renumber(kn_sample_store *store, size_t index, const int32_t *indices, kn_error *error) {
    kn_sample_field *field = &store->fields[index];
    const size_t count = (size_t)store->count * (size_t)field->elements;
    size_t block = 0;
    while (block < KN_SAMPLE_STORE_FILES && store->blocks[block])
        block++;
    if (block == KN_SAMPLE_STORE_FILES)
        return kn_fail(error, KN_ERROR_UNSUPPORTED, "field \"%s\": too many blocks to renumber classes",
                       field->name);
    int32_t *labels = store->blocks[block] = kn_allocate(&store->host, count + 1, sizeof *labels);
    if (!labels) return kn_fail_memory(error, (count + 1) * sizeof *labels);
    const kn_dataset all = {.host = store->host, .store = store, .count = store->count};
    kn_status status = kn_dataset_gather(&all, index, NULL, store->count, false, labels, error);
    if (status != KN_OK) return status;
    for (size_t i = 0; i < count; i++)
        labels[i] = indices[labels[i]];
    field->stored = KN_INT32;
    field->stored_bytes = field->step_bytes = (size_t)field->elements * sizeof *labels;
    field->bytes = (const uint8_t *)labels;
    return KN_OK;
}

kn_status kn_sample_store_match_classes(kn_sample_store *store, const char *data, const char *lines,
                                        kn_error *error) {
    if (!store || !store->class_names || !store->classes) return KN_OK;
    kn_arena arena;
    kn_arena_init(&arena, &store->host);
    wanted_names wanted;
    bool by_name = false, same = true;
    kn_status status = read_names(&arena, lines, &wanted, error);
    int32_t *indices =
        status == KN_OK ? kn_arena_take(&arena, (size_t)store->classes + 1, sizeof *indices) : NULL;
    if (status == KN_OK && !indices) status = kn_fail_memory(error, (size_t)store->classes * sizeof *indices);
    if (status == KN_OK) status = find_indices(store, data, &wanted, indices, &by_name, error);
    for (int i = 0; i < store->classes && status == KN_OK; i++)
        same = same && indices[i] == i;
    for (size_t i = 0; i < store->field_count && status == KN_OK && by_name && !same; i++)
        if (store->fields[i].is_label) status = renumber(store, i, indices, error);
    if (status == KN_OK && by_name) {
        char **before = store->class_names;
        status = kn_sample_store_name_classes(store, wanted.names, wanted.count, error);
        if (status != KN_OK) store->class_names = NULL;
        kn_release(&store->host, before);
    }
    kn_arena_finish(&arena);
    return status;
}
