/* Generated data. Private to the data module.
 *
 * All arithmetic is on integers. Division rounds towards zero, and negative numbers are never shifted, so
 * that every machine generates the same bytes. A sample depends only on its part and its number, so samples
 * can be generated in any order and on any number of threads. */
#ifndef KN_MADE_PRIVATE_H
#define KN_MADE_PRIVATE_H

#include <koine/tensor.h>

#include "base/base.h"

/* ---- random choices ------------------------------------------------------------ */

/* The random words of one sample: each sample has 4096 blocks of a stream to itself, so that samples are
 * independent. */
typedef struct kn_choices {
    uint64_t key, block;
    uint32_t words[4];
    int used;
} kn_choices;

static inline kn_choices kn_choices_of(uint64_t key, uint64_t sample) {
    return (kn_choices){.key = key, .block = sample * 4096, .used = 4};
}

static inline uint32_t kn_choose_word(kn_choices *random) {
    if (random->used == 4) {
        kn_philox(random->key, random->block, random->words);
        random->block += 1;
        random->used = 0;
    }
    return random->words[random->used++];
}

/* An integer in [low, high]. */
static inline int kn_choose(kn_choices *random, int low, int high) {
    uint64_t width = (uint64_t)(high - low) + 1;
    return low + (int)((kn_choose_word(random) * width) >> 32);
}

/* In [-reach, reach], with a triangular distribution. */
static inline int kn_choose_spread(kn_choices *random, int reach) {
    int first = kn_choose(random, -reach, reach);
    return (first + kn_choose(random, -reach, reach)) / 2;
}

static inline bool kn_choose_chance(kn_choices *random, int percent) {
    return kn_choose(random, 0, 99) < percent;
}

static inline int kn_made_clamp(int value, int low, int high) {
    return value < low ? low : value > high ? high : value;
}

/* ---- common parts (made.c) ---------------------------------------------------------- */

/* 16384 * sin(turns / 1024 of a full turn). */
int kn_made_sine(int turns);
/* The key of a stream of one part. Changing these keys, or what is drawn from them, creates a different data
 * set, which needs a new name. */
uint64_t kn_made_key(bool test, const char *what);
/* Classes have equal size: each run of as many samples as there are classes (at most 16) contains one of each
 * class. */
int kn_made_label(uint64_t key, uint64_t sample, int classes);

/* ---- the kinds ----------------------------------------------------------------------- */

typedef struct kn_made_kind {
    const char *word;
    uint64_t train, test; /* samples */
    int classes;          /* 0: the target is a number */
    double explainable;   /* fraction of the target's variance that can be explained; 0: unknown */
    kn_tensor_info x, y;  /* one sample as stored */
    double x_scale, y_scale;
    uint64_t rate; /* of sounds: samples per second */
    void (*make)(bool test, uint64_t sample, void *x);
    void (*answer)(bool test, uint64_t sample, void *y);
} kn_made_kind;

extern const kn_made_kind kn_made_digits, kn_made_shapes, kn_made_figures, kn_made_wind, kn_made_tones;

/* ---- wind (wind.c) -------------------------------------------------------------------- */

enum { KN_WIND_PRESSURE, KN_WIND_ALTITUDE, KN_WIND_TEMPERATURE, KN_WIND_DAY, KN_WIND_INPUTS };

/* The speed without noise, in mm/s, from pressure (tenths of hPa), altitude (m), temperature (tenths of a
 * degree Celsius) and day of the year. */
int kn_wind_speed(const int inputs[KN_WIND_INPUTS]);
/* Each input is uniformly distributed from its low to its high end, independent of the others. */
extern const int kn_wind_low[KN_WIND_INPUTS], kn_wind_high[KN_WIND_INPUTS];
/* One sample: inputs, which of them are missing, and the speed with noise. */
void kn_wind_sample(bool test, uint64_t sample, int inputs[KN_WIND_INPUTS], bool missing[KN_WIND_INPUTS],
                    int *speed);

/* ---- text (sentences.c) ------------------------------------------------------------------ */

/* One sentence followed by a space or a newline; returns its length. */
enum { KN_SENTENCE_MAX = 2048 };
int kn_made_sentence(bool test, uint64_t number, char text[KN_SENTENCE_MAX]);

#endif
