/* Draws one sample of `digits`: deforms the glyph's strokes, places them, adds clutter, contrast and
 * noise. */
#include "data/digits_private.h"

#include <string.h>

#include "data/made_private.h"

#define UNIT 64    /* design units are stored in 64ths */
#define PIXEL 256  /* fixed-point pixels */
#define BASE 9362  /* 2^14 * (PIXEL * 20 / 140) / UNIT: a glyph is 20 pixels high at scale 1 */
#define CONTROLS 6 /* the elastic field is a quadratic B-spline over 6 x 6 control vectors */
#define FIELD_X 40 /* its cells in design units */
#define FIELD_Y 50
#define FIELD_LEFT 30 /* how far it extends beyond the box of a glyph */
#define FAR 0x7fffffff

/* ---- geometry -------------------------------------------------------------------- */

/* From 64ths of a design unit to fixed-point pixels: matrix entries in 2^-14. */
typedef struct placement {
    int64_t xx, xy, yx, yy;
    int x, y;
} placement;

/* Scaling (1024ths), then slant (1024ths), then rotation by `turns`, then translation to (x, y). */
static placement place(int turns, int slant, int scale_x, int scale_y, int x, int y) {
    int64_t sine = kn_made_sine(turns), cosine = kn_made_sine(turns + 256);
    int64_t wide = (int64_t)BASE * scale_x / 1024, high = (int64_t)BASE * scale_y / 1024;
    int64_t leaning = wide * slant / 1024;
    return (placement){
        .xx = cosine * wide / 16384,
        .xy = (cosine * leaning - sine * high) / 16384,
        .yx = sine * wide / 16384,
        .yy = (sine * leaning + cosine * high) / 16384,
        .x = x,
        .y = y,
    };
}

/* (CONTROLS, CONTROLS, 2) displacements in 64ths of a design unit. */
typedef struct field {
    int vectors[CONTROLS][CONTROLS][2];
} field;

static void random_field(kn_choices *random, int reach, field *out) {
    for (int row = 0; row < CONTROLS; row++)
        for (int column = 0; column < CONTROLS; column++)
            for (int axis = 0; axis < 2; axis++)
                out->vectors[row][column][axis] = kn_choose(random, -reach, reach);
}

/* The three weights (sum 2^16) and the index of the first control of a quadratic B-spline at `position`, in
 * 64ths of a design unit from the field's edge. */
static int spline(int position, int cell, int weights[3]) {
    int limit = (CONTROLS - 2) * cell * UNIT - 1;
    int clamped = position < 0 ? 0 : position > limit ? limit : position;
    int first = clamped / (cell * UNIT);
    int t = clamped % (cell * UNIT) * 256 / (cell * UNIT);
    weights[0] = (256 - t) * (256 - t) / 2;
    weights[2] = t * t / 2;
    weights[1] = 65536 - weights[0] - weights[2];
    return first;
}

static kn_digits_point bend(const field *bending, kn_digits_point point) {
    int across[3], down[3];
    int column = spline(point.x + FIELD_LEFT * UNIT, FIELD_X, across);
    int row = spline(point.y + FIELD_LEFT * UNIT, FIELD_Y, down);
    int64_t moved[2] = {0, 0};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            for (int axis = 0; axis < 2; axis++)
                moved[axis] +=
                    (int64_t)down[i] * across[j] / 65536 * bending->vectors[row + i][column + j][axis];
    return (kn_digits_point){point.x + (int)(moved[0] / 65536), point.y + (int)(moved[1] / 65536)};
}

/* Design units to fixed-point pixels, in place. */
static void place_outline(kn_digits_outline *outline, const field *bending, const placement *where) {
    for (int i = 0; i < outline->first[outline->strokes]; i++) {
        kn_digits_point point = {outline->points[i].x * UNIT, outline->points[i].y * UNIT};
        point = bend(bending, point);
        int64_t x = point.x - 50 * UNIT, y = point.y - 70 * UNIT;
        outline->points[i].x = where->x + (int)((where->xx * x + where->xy * y) / 16384);
        outline->points[i].y = where->y + (int)((where->yx * x + where->yy * y) / 16384);
    }
}

/* ---- ink --------------------------------------------------------------------------- */

static int square_root(int value) {
    int root = 0;
    for (int bit = 1 << 15; bit > 0; bit /= 2) {
        int64_t tried = root + bit;
        if (tried * tried <= value) root = (int)tried;
    }
    return root;
}

/* Reduces `squares`, the squared distances of pixel centres to the ink, by one segment. */
static void measure(kn_digits_point from, kn_digits_point to, int reach, int squares[KN_DIGITS_PIXELS]) {
    int left = kn_made_clamp((from.x < to.x ? from.x : to.x) - reach, 0, KN_DIGITS_SIDE * PIXEL) / PIXEL;
    int right =
        kn_made_clamp((from.x > to.x ? from.x : to.x) + reach, -PIXEL, (KN_DIGITS_SIDE - 1) * PIXEL) / PIXEL;
    int top = kn_made_clamp((from.y < to.y ? from.y : to.y) - reach, 0, KN_DIGITS_SIDE * PIXEL) / PIXEL;
    int bottom =
        kn_made_clamp((from.y > to.y ? from.y : to.y) + reach, -PIXEL, (KN_DIGITS_SIDE - 1) * PIXEL) / PIXEL;
    int dx = to.x - from.x, dy = to.y - from.y;
    int length = dx * dx + dy * dy;
    for (int row = top; row <= bottom; row++) {
        for (int column = left; column <= right; column++) {
            int x = column * PIXEL + PIXEL / 2 - from.x, y = row * PIXEL + PIXEL / 2 - from.y;
            int along = x * dx + y * dy;
            if (along >= length) {
                x -= dx;
                y -= dy;
            } else if (along > 0) {
                int fraction = (int)((int64_t)along * 4096 / length);
                x -= dx * fraction / 4096;
                y -= dy * fraction / 4096;
            }
            int square = x * x + y * y;
            int *nearest = &squares[row * KN_DIGITS_SIDE + column];
            if (square < *nearest) *nearest = square;
        }
    }
}

/* Increases `cover` (0 to 256 per pixel) by a pen of the given radius along the points. */
static void ink(const kn_digits_point *points, int count, int radius, int softness, int strength,
                int cover[KN_DIGITS_PIXELS]) {
    int squares[KN_DIGITS_PIXELS];
    int reach = radius + softness;
    for (int i = 0; i < KN_DIGITS_PIXELS; i++)
        squares[i] = FAR;
    for (int i = 0; i + 1 < count; i++)
        measure(points[i], points[i + 1], reach, squares);
    for (int i = 0; i < KN_DIGITS_PIXELS; i++) {
        if (squares[i] > reach * reach) continue;
        int fraction = (radius + softness / 2 - square_root(squares[i])) * 256 / softness;
        int covered = kn_made_clamp(fraction, 0, 256) * strength / 256;
        if (covered > cover[i]) cover[i] = covered;
    }
}

static void ink_outline(const kn_digits_outline *outline, int radius, int softness, int strength,
                        int cover[KN_DIGITS_PIXELS]) {
    for (int stroke = 0; stroke < outline->strokes; stroke++)
        ink(outline->points + outline->first[stroke], outline->first[stroke + 1] - outline->first[stroke],
            radius, softness, strength, cover);
}

/* ---- one sample ------------------------------------------------------------------------ */

/* Part of a neighbouring glyph at the left or right edge. */
static void draw_neighbour(kn_choices *random, int cover[KN_DIGITS_PIXELS]) {
    kn_digits_outline outline;
    field bending;
    int digit = kn_choose(random, 0, KN_DIGITS_CLASSES - 1);
    kn_digits_outline_of(digit, kn_choose(random, 0, kn_digits_style_count(digit) - 1), &outline);
    random_field(random, 8 * UNIT, &bending);
    int away = kn_choose(random, 15 * PIXEL, 18 * PIXEL);
    int x = 14 * PIXEL + (kn_choose_chance(random, 50) ? away : -away);
    int y = 14 * PIXEL + kn_choose_spread(random, 5 * PIXEL);
    int turns = kn_choose_spread(random, 60), slant = kn_choose_spread(random, 250);
    int scale_x = kn_choose(random, 700, 1000), scale_y = kn_choose(random, 700, 1000);
    placement where = place(turns, slant, scale_x, scale_y, x, y);
    place_outline(&outline, &bending, &where);
    int radius = kn_choose(random, 150, 330), strength = kn_choose(random, 110, 230);
    ink_outline(&outline, radius, 320, strength, cover);
}

/* Short faint strokes at random positions. */
static void draw_scratches(kn_choices *random, int count, int cover[KN_DIGITS_PIXELS]) {
    for (int i = 0; i < count; i++) {
        kn_digits_point ends[2];
        ends[0].x = kn_choose(random, 0, KN_DIGITS_SIDE * PIXEL);
        ends[0].y = kn_choose(random, 0, KN_DIGITS_SIDE * PIXEL);
        ends[1].x = ends[0].x + kn_choose_spread(random, 7 * PIXEL);
        ends[1].y = ends[0].y + kn_choose_spread(random, 7 * PIXEL);
        int radius = kn_choose(random, 70, 170);
        int strength = kn_choose(random, 60, 190);
        ink(ends, 2, radius, 300, strength, cover);
    }
}

void kn_digits_draw(uint64_t key, uint64_t sample, int digit, uint8_t *image) {
    kn_choices random = kn_choices_of(key, sample);
    int cover[KN_DIGITS_PIXELS], clutter[KN_DIGITS_PIXELS];
    memset(cover, 0, sizeof cover);
    memset(clutter, 0, sizeof clutter);

    kn_digits_outline outline;
    field bending;
    kn_digits_outline_of(digit, kn_choose(&random, 0, kn_digits_style_count(digit) - 1), &outline);
    random_field(&random, 16 * UNIT, &bending);
    /* One random draw per statement, because C leaves the evaluation order of arguments open. */
    int turns = kn_choose_spread(&random, 42), slant = kn_choose_spread(&random, 250);
    int scale = kn_choose(&random, 840, 1120);
    int scale_x = scale + kn_choose_spread(&random, 140), scale_y = scale + kn_choose_spread(&random, 120);
    int x = 14 * PIXEL + kn_choose_spread(&random, 13 * PIXEL / 4),
        y = 14 * PIXEL + kn_choose_spread(&random, 13 * PIXEL / 4);
    placement where = place(turns, slant, scale_x, scale_y, x, y);
    place_outline(&outline, &bending, &where);
    int radius = kn_choose(&random, 150, 400), softness = kn_choose(&random, 256, 420);
    ink_outline(&outline, radius, softness, 256, cover);
    if (kn_choose_chance(&random, 20)) draw_neighbour(&random, clutter);
    draw_scratches(&random, kn_choose(&random, 0, 3), clutter);

    int paper = kn_choose(&random, 0, 32), bright = kn_choose(&random, 200, 255);
    int slope_x = kn_choose_spread(&random, 3 * 16),
        slope_y = kn_choose_spread(&random, 3 * 16); /* 16ths per pixel */
    int grain = kn_choose(&random, 2, 14);
    uint32_t bits = 0;
    for (int i = 0; i < KN_DIGITS_PIXELS; i++) {
        int column = i % KN_DIGITS_SIDE - 14, row = i / KN_DIGITS_SIDE - 14;
        int covered = clutter[i] > cover[i] ? clutter[i] : cover[i];
        int ground = paper + (slope_x * column + slope_y * row) / 16;
        /* Two bytes per pixel: a triangular distribution of standard deviation 104, scaled to `grain`. */
        bits = i % 2 == 0 ? kn_choose_word(&random) : bits >> 16;
        int speck = ((int)(bits & 255) + (int)(bits >> 8 & 255) - 255) * grain / 104;
        image[i] = (uint8_t)kn_made_clamp(ground + (bright - ground) * covered / 256 + speck, 0, 255);
    }
}
