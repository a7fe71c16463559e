/* Parses augmentations as users write them: "flip,crop=4,mix-up=0.2". */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "data/augment.h"

enum { MAX_COUNT = 1 << 20, WORD_BYTES = 32 };

typedef enum way_kind { WAY_PLAIN, WAY_COUNT, WAY_NUMBER } way_kind;
typedef struct way {
    const char *word;
    way_kind kind;
    size_t offset; /* in kn_augmentation: of a bool, a uint32_t or a double */
} way;
#define PLACE(field) offsetof(kn_augmentation, field)
static const way ways[] = {
    {"flip", WAY_PLAIN, PLACE(flip)},
    {"crop", WAY_COUNT, PLACE(crop)},
    {"shift", WAY_COUNT, PLACE(shift)},
    {"rotate", WAY_NUMBER, PLACE(rotation)},
    {"scale", WAY_NUMBER, PLACE(scale)},
    {"shear", WAY_NUMBER, PLACE(shear)},
    {"brightness", WAY_NUMBER, PLACE(brightness)},
    {"contrast", WAY_NUMBER, PLACE(contrast)},
    {"saturation", WAY_NUMBER, PLACE(saturation)},
    {"hue", WAY_NUMBER, PLACE(hue)},
    {"cutout", WAY_COUNT, PLACE(cutout)},
    {"noise", WAY_NUMBER, PLACE(noise)},
    {"mix-up", WAY_NUMBER, PLACE(mix_up)},
    {"cut-mix", WAY_NUMBER, PLACE(cut_mix)},
};

static const way *find(const char *word, size_t length) {
    for (size_t i = 0; i < KN_COUNT_OF(ways); i++)
        if (strlen(ways[i].word) == length && !memcmp(ways[i].word, word, length)) return &ways[i];
    return NULL;
}

static kn_status unknown(const char *word, size_t length, kn_error *error) {
    const char *words[KN_COUNT_OF(ways)];
    char all[200] = "", found[WORD_BYTES] = "";
    for (size_t i = 0; i < KN_COUNT_OF(ways); i++) {
        words[i] = ways[i].word;
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? ", " : "", words[i]);
    }
    memcpy(found, word, length < sizeof found ? length : sizeof found - 1);
    const char *near = kn_nearest_word(found, words, KN_COUNT_OF(ways));
    return kn_fail(error, KN_ERROR_ARGUMENT, "'%s' is not an augmentation; expected %s, or none%s%s%s", found,
                   all, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* Parses one word of `length` characters. */
static kn_status read_word(const char *text, size_t length, kn_augmentation *into, kn_error *error) {
    const char *equals = memchr(text, '=', length), *end = NULL;
    const size_t name = equals ? (size_t)(equals - text) : length, digits = equals ? length - name - 1 : 0;
    char number[WORD_BYTES] = "";
    double value = 0;
    const way *found = find(text, name);
    if (!found) return unknown(text, name, error);
    uint8_t *member = (uint8_t *)into + found->offset;
    if (found->kind == WAY_PLAIN) {
        if (equals) return kn_fail(error, KN_ERROR_ARGUMENT, "%s takes no number", found->word);
        *(bool *)(void *)member = true;
        return KN_OK;
    }
    if (digits > 0 && digits < sizeof number) memcpy(number, equals + 1, digits);
    const bool whole = found->kind == WAY_COUNT;
    if (!kn_parse_double(number, &end, &value) || *end || !(value > 0) ||
        (whole && !(value <= MAX_COUNT && (double)(uint32_t)value == value)))
        return kn_fail(error, KN_ERROR_ARGUMENT, "'%s' needs %s above 0, such as %s=%s", found->word,
                       whole ? "an integer" : "a number", found->word, whole ? "4" : "0.2");
    if (whole)
        *(uint32_t *)(void *)member = (uint32_t)value;
    else
        *(double *)(void *)member = value;
    return KN_OK;
}

kn_status kn_augmentation_read(const char *text, kn_augmentation *augmentation, char *message, size_t size) {
    kn_error error = {0};
    kn_augmentation own = KN_AUGMENTATION_DEFAULTS;
    if (!text || !augmentation) {
        kn_fail(&error, KN_ERROR_ARGUMENT, "kn_augmentation_read: the text or the augmentation is NULL");
    } else if (KN_PARAMS_TAKE(kn_augmentation, &own, augmentation, &error) == KN_OK) {
        for (const char *at = strcmp(text, "none") ? text : NULL; at && error.status == KN_OK;) {
            const size_t length = strcspn(at, ",");
            read_word(at, length, &own, &error);
            at = at[length] ? at + length + 1 : NULL;
        }
        if (error.status == KN_OK) KN_RESULT_GIVE(kn_augmentation, augmentation, &own);
    }
    if (message && size) snprintf(message, size, "%s", error.text);
    return error.status;
}
