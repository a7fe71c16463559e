/* The default data: which digit each sample shows, and the sample itself. */
#include "data/digits_private.h"

#include "base/base.h"

static uint64_t stream(bool test, const char *what) {
    /* A change of any of these numbers or of the drawing is another data set: give it another name. */
    return kn_random_key(test ? 2 : 1, what);
}

uint64_t kn_digits_count(bool test) {
    return test ? KN_DIGITS_TEST : KN_DIGITS_TRAIN;
}

int kn_digits_label(bool test, uint64_t sample) {
    /* Ten samples in a row show the ten digits in some order, so the classes are equally large. */
    uint64_t key = stream(test, "digits.label"), row = sample / KN_DIGITS_CLASSES;
    uint8_t order[KN_DIGITS_CLASSES];
    for (int i = 0; i < KN_DIGITS_CLASSES; i++)
        order[i] = (uint8_t)i;
    for (int i = KN_DIGITS_CLASSES - 1; i > 0; i--) {
        int other = (int)kn_random_below(key, row * 16 + (uint64_t)i, (uint32_t)i + 1);
        uint8_t kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    return order[sample % KN_DIGITS_CLASSES];
}

void kn_digits_image(bool test, uint64_t sample, uint8_t *image) {
    kn_digits_draw(stream(test, "digits.image"), sample, kn_digits_label(test, sample), image);
}
