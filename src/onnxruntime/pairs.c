/* Texts by key. */
#include <stdlib.h>
#include <string.h>

#include "onnxruntime/onnxruntime.h"

char *ort_copy_text(const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = malloc(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

OrtStatus *ort_replace_text(char **text, const char *other) {
    char *copy = ort_copy_text(other);
    if (!copy) return ort_no_memory();
    free(*text);
    *text = copy;
    return NULL;
}

static size_t find(const ort_pairs *pairs, const char *key) {
    size_t i = 0;
    while (i < pairs->count && strcmp(pairs->keys[i], key))
        i++;
    return i;
}

/* Makes room for one more text. */
static bool grow(char ***texts, size_t count) {
    char **grown = realloc(*texts, (count + 1) * sizeof *grown);
    if (grown) *texts = grown;
    return grown != NULL;
}

bool ort_pairs_put(ort_pairs *pairs, const char *key, const char *value) {
    size_t at = find(pairs, key);
    char *text = ort_copy_text(value), *name = NULL;
    if (text && at < pairs->count) {
        free(pairs->values[at]);
        pairs->values[at] = text;
        return true;
    }
    if (!text || !(name = ort_copy_text(key)) || !grow(&pairs->keys, at) || !grow(&pairs->values, at)) {
        free(text);
        free(name);
        return false;
    }
    pairs->keys[at] = name;
    pairs->values[at] = text;
    pairs->count++;
    return true;
}

const char *ort_pairs_get(const ort_pairs *pairs, const char *key) {
    size_t at = find(pairs, key);
    return at < pairs->count ? pairs->values[at] : NULL;
}

bool ort_pairs_copy(const ort_pairs *pairs, ort_pairs *copy) {
    for (size_t i = 0; i < pairs->count; i++)
        if (!ort_pairs_put(copy, pairs->keys[i], pairs->values[i])) return false;
    return true;
}

void ort_pairs_clear(ort_pairs *pairs) {
    for (size_t i = 0; i < pairs->count; i++) {
        free(pairs->keys[i]);
        free(pairs->values[i]);
    }
    free(pairs->keys);
    free(pairs->values);
    *pairs = (ort_pairs){.count = 0};
}

void ort_CreateKeyValuePairs(OrtKeyValuePairs **out) {
    if (out) *out = calloc(1, sizeof **out);
}

void ort_AddKeyValuePair(OrtKeyValuePairs *pairs, const char *key, const char *value) {
    if (pairs && key && *key && value) ort_pairs_put(pairs, key, value);
}

const char *ort_GetKeyValue(const OrtKeyValuePairs *pairs, const char *key) {
    return pairs && key ? ort_pairs_get(pairs, key) : NULL;
}

void ort_GetKeyValuePairs(const OrtKeyValuePairs *pairs, const char *const **keys, const char *const **values,
                          size_t *count) {
    if (keys) *keys = pairs ? (const char *const *)pairs->keys : NULL;
    if (values) *values = pairs ? (const char *const *)pairs->values : NULL;
    if (count) *count = pairs ? pairs->count : 0;
}

void ort_RemoveKeyValuePair(OrtKeyValuePairs *pairs, const char *key) {
    size_t at = pairs && key ? find(pairs, key) : 0;
    if (!pairs || !key || at == pairs->count) return;
    free(pairs->keys[at]);
    free(pairs->values[at]);
    pairs->count--;
    memmove(pairs->keys + at, pairs->keys + at + 1, (pairs->count - at) * sizeof *pairs->keys);
    memmove(pairs->values + at, pairs->values + at + 1, (pairs->count - at) * sizeof *pairs->values);
}

void ort_ReleaseKeyValuePairs(OrtKeyValuePairs *pairs) {
    if (pairs) ort_pairs_clear(pairs);
    free(pairs);
}
