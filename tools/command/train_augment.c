/* --augment: what is changed at random in the samples to train on. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "train.h"

enum { WORDS = 8, MOST_PIXELS = 1 << 20 };
static const char *const words[WORDS] = {"flip", "crop", "shift", "rotate", "brightness", "contrast", "cutout", "noise"};

/* Where the number of a word goes; flip has none. */
static uint32_t *count_of(kn_augmentation *into, int word) {
    return word == 1 ? &into->crop : word == 2 ? &into->shift : word == 6 ? &into->cutout : NULL;
}

static double *number_of(kn_augmentation *into, int word) {
    double *const numbers[WORDS] = {[3] = &into->rotation,
                                    [4] = &into->brightness,
                                    [5] = &into->contrast,
                                    [7] = &into->noise};
    return numbers[word];
}

/* "crop=4"; says what makes no sense and answers false. */
static bool read_word(char *text, kn_augmentation *into) {
    char *equals = strchr(text, '='), *end = NULL;
    if (equals) *equals = '\0';
    int word = option_choice("augment", text, words, WORDS);
    if (word < 0) return false;
    uint32_t *count = count_of(into, word);
    double *number = number_of(into, word), value = equals ? strtod(equals + 1, &end) : 0;
    if (!count && !number) {
        into->flip = true;
        return !equals || command_misuse("--augment: flip takes no number") == EXIT_DONE;
    }
    bool whole = value >= 0 && value <= MOST_PIXELS && (double)(uint32_t)value == value;
    if (!equals || end == equals + 1 || *end || !(value > 0) || (count && !whole))
        return command_misuse("--augment: '%s' needs a %s above 0, such as %s=%s", text,
                              count ? "whole number" : "number", text, count ? "4" : "0.2") == EXIT_DONE;
    if (count) *count = (uint32_t)value;
    if (number) *number = value;
    return true;
}

int train_augment_check(const char *text, kn_augmentation *into) {
    *into = (kn_augmentation)KN_AUGMENTATION_DEFAULTS;
    if (!text) return EXIT_DONE;
    char *copy = malloc(strlen(text) + 1);
    if (!copy) return command_fail("out of memory");
    strcpy(copy, text);
    bool fine = true;
    for (char *at = copy, *comma; at && fine; at = comma ? comma + 1 : NULL) {
        comma = strchr(at, ',');
        if (comma) *comma = '\0';
        fine = read_word(at, into);
    }
    free(copy);
    return fine ? EXIT_DONE : EXIT_USAGE;
}
