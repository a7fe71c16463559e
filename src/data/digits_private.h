/* The data set `digits`. Private to the data module. All arithmetic is on integers, so that every machine
 * draws the same bytes.
 *
 * There are three scales: design units (a glyph is in a box of 100 by 140, y down), fixed-point pixels (256
 * per pixel) and turns (1024 per full turn). */
#ifndef KN_DIGITS_PRIVATE_H
#define KN_DIGITS_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#define KN_DIGITS_SIDE 28
#define KN_DIGITS_PIXELS (KN_DIGITS_SIDE * KN_DIGITS_SIDE)
#define KN_DIGITS_CLASSES 10
#define KN_DIGITS_TRAIN 50000
#define KN_DIGITS_TEST 10000

/* ---- the dataset (digits.c) --------------------------------------------------------
 *
 * Each sample depends only on its number, so samples can be generated in any order and on any number of
 * threads. */

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

/* The number of styles of a digit. */
int kn_digits_style_count(int digit);
/* The outline of a digit in design units. */
void kn_digits_outline_of(int digit, int style, kn_digits_outline *outline);

/* ---- drawing (digits_draw.c) ------------------------------------------------- */

/* Draws one sample from the random stream of `key`: image is (28,28), bright ink on a dark ground. */
void kn_digits_draw(uint64_t key, uint64_t sample, int digit, uint8_t *image);

#endif
