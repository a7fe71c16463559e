/* The data set `digits`: the class of each sample, and the sample. */
#include "data/digits_private.h"

#include "data/made_private.h"

uint64_t kn_digits_count(bool test) {
    return test ? KN_DIGITS_TEST : KN_DIGITS_TRAIN;
}

int kn_digits_label(bool test, uint64_t sample) {
    return kn_made_label(kn_made_key(test, "digits.label"), sample, KN_DIGITS_CLASSES);
}

void kn_digits_image(bool test, uint64_t sample, uint8_t *image) {
    kn_digits_draw(kn_made_key(test, "digits.image"), sample, kn_digits_label(test, sample), image);
}

static void make(bool test, uint64_t sample, void *x) {
    kn_digits_image(test, sample, x);
}

static void answer(bool test, uint64_t sample, void *y) {
    *(uint8_t *)y = (uint8_t)kn_digits_label(test, sample);
}

const kn_made_kind kn_made_digits = {
    .word = "digits",
    .train = KN_DIGITS_TRAIN,
    .test = KN_DIGITS_TEST,
    .classes = KN_DIGITS_CLASSES,
    .x = {KN_UINT8, 3, {1, KN_DIGITS_SIDE, KN_DIGITS_SIDE}},
    .y = {KN_UINT8, 0, {0}},
    .x_scale = 1.0 / 255,
    .make = make,
    .answer = answer,
};
