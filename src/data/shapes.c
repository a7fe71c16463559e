/* shapes: RGB images of five outlines in two textures, at any position and angle, in any colours, on a
 * faintly textured ground. Neither position nor colour distinguishes the ten classes. */
#include "data/made_private.h"

#include <stdlib.h>

enum { SIDE = 32, PIXELS = SIDE * SIDE, CLASSES = 10, OUTLINES = 5, UNIT = 1024, PIXEL = 256 };

/* Whether (u, v), in 1024ths of the outline's radius with v down, is inside. */
static bool inside(int outline, int u, int v) {
    int square = u * u + v * v;
    switch (outline) {
    case 0: /* disc */
        return square < 900 * 900;
    case 1: /* square */
        return abs(u) < 780 && abs(v) < 780;
    case 2: /* triangle */
        return v < 520 && 1500 * u < 866 * (v + 1040) && -1500 * u < 866 * (v + 1040);
    case 3: /* cross */
        return (abs(u) < 330 && abs(v) < 980) || (abs(v) < 330 && abs(u) < 980);
    default: /* ring */
        return square > 520 * 520 && square < 980 * 980;
    }
}

/* A texture repeats every `period` 256ths of a pixel along its axes. */
typedef struct texture {
    int sine, cosine, period, phase;
    bool spotted;
} texture;

static texture choose_texture(kn_choices *random, bool spotted) {
    int turns = kn_choose(random, 0, 1023), period = kn_choose(random, 18 * PIXEL / 4, 26 * PIXEL / 4);
    return (texture){.sine = kn_made_sine(turns),
                     .cosine = kn_made_sine(turns + 256),
                     .period = period,
                     .phase = kn_choose(random, 0, period - 1),
                     .spotted = spotted};
}

/* Whether the position (x, y), in 256ths of a pixel, has the texture's second colour. */
static bool marked(const texture *self, int x, int y) {
    /* Add 16 periods, so that nothing is negative. */
    int along = (x * self->cosine + y * self->sine) / 16384 + self->phase + 16 * self->period;
    along = along % self->period * UNIT / self->period;
    if (!self->spotted) return along < UNIT / 2;
    int across = (y * self->cosine - x * self->sine) / 16384 + self->phase + 16 * self->period;
    across = across % self->period * UNIT / self->period;
    int u = along - UNIT / 2, v = across - UNIT / 2;
    return u * u + v * v < 400 * 400;
}

typedef struct colour {
    int parts[3];
} colour;

static int difference(const colour *one, const colour *other) {
    int sum = 0;
    for (int i = 0; i < 3; i++)
        sum += abs(one->parts[i] - other->parts[i]);
    return sum;
}

/* Draws a colour that differs from two others; the last attempt if none does. */
static colour choose_colour(kn_choices *random, const colour *one, const colour *other, int least) {
    colour made;
    for (int tries = 0; tries < 12; tries++) {
        for (int i = 0; i < 3; i++)
            made.parts[i] = kn_choose(random, 20, 235);
        if (difference(&made, one) >= least && difference(&made, other) >= least) break;
    }
    return made;
}

/* image is (3,32,32); figure, if not NULL, is (32,32): 1 where most of a pixel is inside the outline. */
static void draw(kn_choices *random, int class, uint8_t *image, uint8_t *figure) {
    colour grey = {{128, 128, 128}};
    colour ground = choose_colour(random, &grey, &grey, 0);
    colour first = choose_colour(random, &ground, &ground, 150);
    colour second = choose_colour(random, &ground, &first, 150);
    int outline = class % OUTLINES, turns = kn_choose(random, 0, 1023);
    int sine = kn_made_sine(turns), cosine = kn_made_sine(turns + 256);
    int radius = kn_choose(random, 19 * PIXEL / 2, 27 * PIXEL / 2); /* 9.5 to 13.5 pixels */
    int room = SIDE * PIXEL / 2 - 2 * PIXEL - radius * 3 / 4;
    int x = SIDE * PIXEL / 2 + kn_choose(random, -room, room);
    int y = SIDE * PIXEL / 2 + kn_choose(random, -room, room);
    texture own = choose_texture(random, class >= OUTLINES);
    bool faint = kn_choose_chance(random, 50);
    texture background = choose_texture(random, faint);
    int depth = kn_choose(random, 0, 36), slope_x = kn_choose_spread(random, 32),
        slope_y = kn_choose_spread(random, 32), grain = kn_choose(random, 4, 30);
    for (int i = 0; i < PIXELS; i++) {
        int sums[3] = {0, 0, 0}, parts_within = 0;
        int column = i % SIDE, row = i / SIDE;
        int change = (slope_x * (column - SIDE / 2) + slope_y * (row - SIDE / 2)) / 16;
        if (marked(&background, column * PIXEL - x, row * PIXEL - y)) change += depth;
        for (int part = 0; part < 4; part++) {
            int dx = column * PIXEL + PIXEL / 4 + part % 2 * PIXEL / 2 - x;
            int dy = row * PIXEL + PIXEL / 4 + part / 2 * PIXEL / 2 - y;
            int u = (dx * cosine + dy * sine) / 16384 * UNIT / radius;
            int v = (dy * cosine - dx * sine) / 16384 * UNIT / radius;
            bool within = inside(outline, u, v);
            parts_within += within;
            const colour *shown = !within ? &ground : marked(&own, dx, dy) ? &second : &first;
            for (int c = 0; c < 3; c++)
                sums[c] += kn_made_clamp(shown->parts[c] + (within ? 0 : change), 0, 255);
        }
        if (figure) figure[i] = parts_within > 2;
        /* Ten bits per channel: a triangular distribution. */
        uint32_t bits = kn_choose_word(random);
        for (int c = 0; c < 3; c++, bits >>= 10) {
            int speck = ((int)(bits & 31) + (int)(bits >> 5 & 31) - 31) * grain / 31;
            image[c * PIXELS + i] = (uint8_t)kn_made_clamp(sums[c] / 4 + speck, 0, 255);
        }
    }
}

static int label_of(bool test, uint64_t sample) {
    return kn_made_label(kn_made_key(test, "shapes.label"), sample, CLASSES);
}

static void draw_sample(bool test, uint64_t sample, uint8_t *image, uint8_t *figure) {
    kn_choices random = kn_choices_of(kn_made_key(test, "shapes.image"), sample);
    draw(&random, label_of(test, sample), image, figure);
}

static void make(bool test, uint64_t sample, void *x) {
    draw_sample(test, sample, x, NULL);
}

static void answer(bool test, uint64_t sample, void *y) {
    *(uint8_t *)y = (uint8_t)label_of(test, sample);
}

const kn_made_kind kn_made_shapes = {
    .word = "shapes",
    .train = 20000,
    .test = 4000,
    .classes = CLASSES,
    .x = {KN_UINT8, 3, {3, SIDE, SIDE}},
    .y = {KN_UINT8, 0, {0}},
    .x_scale = 1.0 / 255,
    .make = make,
    .answer = answer,
};

/* The same images; the target is the class of each pixel: figure or ground. */
static void answer_figure(bool test, uint64_t sample, void *y) {
    uint8_t image[3 * PIXELS];
    draw_sample(test, sample, image, y);
}

const kn_made_kind kn_made_figures = {
    .word = "figures",
    .train = 4000,
    .test = 1000,
    .classes = 2,
    .x = {KN_UINT8, 3, {3, SIDE, SIDE}},
    .y = {KN_UINT8, 2, {SIDE, SIDE}},
    .x_scale = 1.0 / 255,
    .make = make,
    .answer = answer_figure,
};
