/* tones: eight commands of one second each, spoken by a simple voice: a source (glottal pulses, or noise)
 * through three resonators. Pitch, head size, tempo, level, position and background noise vary between
 * samples. */
#include "data/made_private.h"

enum { RATE = 8000, CLASSES = 8, PIECES = 6, PERIOD = 40, ONE = 16384 };

/* A sustained sound: resonances in Hz, strengths in percent. */
typedef struct piece {
    int first, second; /* resonances of the voice */
    int voice, breath; /* levels of the pulses and the noise */
    int hiss;          /* resonance of the noise */
    int milliseconds;  /* duration at a usual tempo */
} piece;

/* Four pairs of words with the same sounds in a different order: the set of sounds does not distinguish them.
 */
static const piece sound_n = {270, 1250, 50, 0, 2000, 110}, sound_o = {480, 900, 100, 0, 2000, 180},
                   sound_e = {540, 1800, 100, 0, 2000, 140}, sound_l = {360, 1050, 60, 0, 2000, 100},
                   sound_s = {450, 1400, 0, 60, 3400, 130}, sound_f = {540, 1500, 0, 30, 2300, 110},
                   sound_t = {500, 1600, 0, 70, 3000, 25}, sound_p = {500, 900, 0, 60, 900, 25},
                   still = {500, 1300, 0, 0, 2000, 50};
static const piece *const words[CLASSES][PIECES] = {
    {&sound_n, &sound_o},                                     /* no */
    {&sound_o, &sound_n},                                     /* on */
    {&sound_s, &still, &sound_t, &sound_o, &still, &sound_p}, /* stop */
    {&sound_p, &sound_o, &still, &sound_t, &still, &sound_s}, /* pots */
    {&sound_l, &sound_e, &sound_f, &still, &sound_t},         /* left */
    {&sound_f, &sound_e, &sound_l, &still, &sound_t},         /* felt */
    {&sound_n, &sound_e, &still, &sound_t},                   /* net */
    {&sound_t, &still, &sound_e, &sound_n},                   /* ten */
};

/* Two poles: out = gain * in + near * (previous) - far * (the one before), all in 2^-14. */
typedef struct resonator {
    int64_t gain, near, far;
    int64_t before, earlier; /* 256ths */
} resonator;

/* Sets a gain of 1 at 0 Hz. */
static void tune(resonator *self, int frequency, int width) {
    /* exp(-pi * width / rate), approximately: 1 - x + x * x / 2 */
    int64_t x = (int64_t)width * 51472 / RATE, radius = ONE - x + x * x / (2 * ONE);
    frequency = kn_made_clamp(frequency, 100, RATE / 2 - 200);
    self->near = 2 * radius * kn_made_sine(frequency * 1024 / RATE + 256) / ONE;
    self->far = radius * radius / ONE;
    self->gain = ONE - self->near + self->far;
}

static int64_t ring(resonator *self, int64_t in) {
    int64_t out = (self->gain * in + self->near * self->before - self->far * self->earlier) / ONE;
    self->earlier = self->before;
    self->before = out;
    return out;
}

/* How one sample is spoken. */
typedef struct speaker {
    int pitch, fall;     /* Hz at the beginning, and the decrease towards the end */
    int head;            /* 1024ths: factor of the resonances */
    int lengths[PIECES]; /* of each piece, in samples */
    int strength;        /* percent */
} speaker;

static int glide(int from, int to, int at, int length) {
    return at >= length ? to : from + (to - from) * at / length;
}

/* Adds the word from sample `begin` on; returns where it ends. sound is (8000), 256 times a 16-bit
 * amplitude. */
static int say(kn_choices *random, const piece *const word[PIECES], const speaker *who, int begin,
               int32_t sound[RATE]) {
    resonator voice[3] = {{0}}, hiss = {0};
    piece before = *word[0];
    int at = begin, phase = 0, pitch = who->pitch;
    int64_t soft = 0;
    for (int p = 0; p < PIECES && word[p]; p++) {
        const piece *now = word[p];
        int length = who->lengths[p];
        for (int i = 0; i < length && at < RATE; i++, at++) {
            if (i % PERIOD == 0) {
                int first = glide(before.first, now->first, i, 320),
                    second = glide(before.second, now->second, i, 400);
                tune(&voice[0], first * who->head / 1024, 80);
                tune(&voice[1], second * who->head / 1024, 110);
                tune(&voice[2], 2600 * who->head / 1024, 170);
                tune(&hiss, glide(before.hiss, now->hiss, i, 200) * who->head / 1024, 700);
                pitch = who->pitch - who->fall * (at - begin) / RATE;
            }
            /* A pulse at the beginning of each period, smoothed by a low-pass filter. */
            phase += pitch;
            int64_t pulse = 0;
            if (phase >= RATE) {
                phase -= RATE;
                pulse = 2000000;
            }
            soft += (pulse - soft) / 6;
            uint32_t bits = kn_choose_word(random);
            int64_t noise = ((int64_t)(bits & 0xffff) + (int64_t)(bits >> 16) - 65535) * 24;
            int64_t loud = soft * glide(before.voice, now->voice, i, 120) / 100;
            int64_t breath = noise * glide(before.breath, now->breath, i, 60) / 100;
            int64_t out = ring(&voice[2], ring(&voice[1], ring(&voice[0], loud))) + ring(&hiss, breath) / 10;
            out = out * who->strength / 100;
            sound[at] += (int32_t)(out < -0x3fffffff ? -0x3fffffff : out > 0x3fffffff ? 0x3fffffff : out);
        }
        before = *now;
    }
    return at;
}

/* Chooses a random speaker for the word; returns the length in samples. Durations vary freely, so that they
 * reveal little. */
static int choose_speaker(kn_choices *random, const piece *const word[PIECES], int strength, speaker *who) {
    int length = 0, tempo = kn_choose(random, 720, 1150);
    *who = (speaker){.strength = strength};
    who->pitch = kn_choose(random, 85, 240);
    who->fall = kn_choose(random, -20, 60);
    who->head = kn_choose(random, 880, 1200);
    for (int p = 0; p < PIECES && word[p]; p++) {
        int held = word[p]->voice > 0 || word[p]->milliseconds > 100 ? kn_choose(random, 480, 1700) : 1024;
        who->lengths[p] = word[p]->milliseconds * (RATE / 1000) * tempo / 1024 * held / 1024;
        length += who->lengths[p];
    }
    return length;
}

/* wave is (8000). A second speaker says a random word more quietly in the background. */
static void record(kn_choices *random, int class, int16_t *wave) {
    int32_t sound[RATE] = {0};
    speaker who;
    int background = kn_choose(random, 0, CLASSES - 1),
        length = choose_speaker(random, words[class], 100, &who);
    say(random, words[class], &who, kn_choose(random, 0, RATE - length - 1), sound);
    length = choose_speaker(random, words[background], kn_choose(random, 15, 45), &who);
    say(random, words[background], &who, kn_choose(random, 0, RATE - length - 1), sound);
    int64_t largest = 1;
    for (int i = 0; i < RATE; i++)
        if (largest < (sound[i] < 0 ? -sound[i] : sound[i])) largest = sound[i] < 0 ? -sound[i] : sound[i];
    int level = kn_choose(random, 3000, 26000), noise = kn_choose(random, 8, 80) * level / 1000;
    int hum = kn_choose(random, 0, 40) * level / 1000, tone = kn_choose(random, 50, 400),
        phase = kn_choose(random, 0, 1023);
    uint32_t bits = 0;
    for (int i = 0; i < RATE; i++) {
        bits = i % 2 == 0 ? kn_choose_word(random) : bits >> 16;
        int speck = ((int)(bits & 255) + (int)(bits >> 8 & 255) - 255) * noise / 255;
        int buzz = kn_made_sine(phase + i * tone * 16 / 125) * hum / ONE; /* 1024 / 8000 */
        wave[i] =
            (int16_t)kn_made_clamp((int)((int64_t)sound[i] * level / largest) + speck + buzz, -32767, 32767);
    }
}

static int label_of(bool test, uint64_t sample) {
    return kn_made_label(kn_made_key(test, "tones.label"), sample, CLASSES);
}

static void make(bool test, uint64_t sample, void *x) {
    kn_choices random = kn_choices_of(kn_made_key(test, "tones.sound"), sample);
    record(&random, label_of(test, sample), x);
}

static void answer(bool test, uint64_t sample, void *y) {
    *(uint8_t *)y = (uint8_t)label_of(test, sample);
}

const kn_made_kind kn_made_tones = {
    .word = "tones",
    .train = 8000,
    .test = 2000,
    .classes = CLASSES,
    .x = {KN_INT16, 2, {1, RATE}},
    .y = {KN_UINT8, 0, {0}},
    .x_scale = 1.0 / 32768,
    .rate = RATE,
    .make = make,
    .answer = answer,
};
