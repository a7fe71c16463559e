/* The default data, `digits`: inside of the data room only. All arithmetic is
 * on integers, so that every machine draws the same bytes.
 *
 * Three scales are used: design units (a glyph stands in a box of 100 by 140,
 * y down), fixed pixels (256 to a pixel) and turns (1024 to a full turn). */
#ifndef KN_DIGITS_PRIVATE_H
#define KN_DIGITS_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#define KN_DIGITS_SIDE 28
#define KN_DIGITS_PIXELS (KN_DIGITS_SIDE * KN_DIGITS_SIDE)
#define KN_DIGITS_CLASSES 10
#define KN_DIGITS_TRAIN 50000
#define KN_DIGITS_TEST 10000

/* ---- the data set (digits.c) --------------------------------------------------
 * Every sample depends on its number alone, so they may be made in any order and
 * on any number of threads. */

uint64_t kn_digits_count(bool test);
int kn_digits_label(bool test, uint64_t sample);
/* image is (28,28). */
void kn_digits_image(bool test, uint64_t sample, uint8_t *image);

/* ---- glyphs (digits_glyphs.c) ---------------------------------------------- */

#define KN_DIGITS_POINTS_MAX 128
#define KN_DIGITS_STROKES_MAX 4

typedef struct kn_digits_point {
    int x, y;
} kn_digits_point;

/* Strokes as polylines: stroke i has the points [first[i], first[i + 1]). */
typedef struct kn_digits_outline {
    kn_digits_point points[KN_DIGITS_POINTS_MAX];
    int first[KN_DIGITS_STROKES_MAX + 1];
    int strokes;
} kn_digits_outline;

/* How many ways of writing the digit there are. */
int kn_digits_style_count(int digit);
/* The digit in design units. */
void kn_digits_outline_of(int digit, int style, kn_digits_outline *outline);

/* ---- drawing (digits_draw.c) ------------------------------------------------- */

/* Draws one sample from the stream of `key`: image is (28,28), ink bright on dark. */
void kn_digits_draw(uint64_t key, uint64_t sample, int digit, uint8_t *image);

#endif
