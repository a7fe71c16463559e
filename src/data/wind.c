/* wind: the wind speed from pressure, altitude, temperature and the time of the year.
 *
 *     p = (pressure - 1013 hPa) / 15 hPa      a = altitude / 1 km
 *     t = (temperature - 10 degrees) / 12 degrees     s, c = sine and cosine of the time of the year
 *     speed = 9.5 - 0.9 p + 1.0 a + 1.8 (a - 1.5) c + 1.3 p t + 1.1 s t + 0.7 p p        (m/s, 0 at least)
 *
 * plus noise of four equal parts, with a standard deviation of 0.9 m/s in total. One value in 25 is missing.
 * Only the first three terms are linear. */
#include "data/made_private.h"

/* Tenths of hPa, metres, tenths of a degree Celsius, day of the year. */
const int kn_wind_low[KN_WIND_INPUTS] = {9870, 0, -110, 0},
          kn_wind_high[KN_WIND_INPUTS] = {10390, 3000, 310, 364};

int kn_wind_speed(const int inputs[KN_WIND_INPUTS]) {
    /* In thousandths, including products. */
    int p = (inputs[KN_WIND_PRESSURE] - 10130) * 1000 / 150, a = inputs[KN_WIND_ALTITUDE];
    int t = (inputs[KN_WIND_TEMPERATURE] - 100) * 1000 / 120;
    int turns = inputs[KN_WIND_DAY] * 1024 / 365;
    int s = kn_made_sine(turns) * 1000 / 16384, c = kn_made_sine(turns + 256) * 1000 / 16384;
    int speed = 9500 - 9 * p / 10 + a + 18 * ((a - 1500) * c / 1000) / 10 + 13 * (p * t / 1000) / 10 +
                11 * (s * t / 1000) / 10 + 7 * (p * p / 1000) / 10;
    return speed < 0 ? 0 : speed;
}

void kn_wind_sample(bool test, uint64_t sample, int inputs[KN_WIND_INPUTS], bool missing[KN_WIND_INPUTS],
                    int *speed) {
    kn_choices random = kn_choices_of(kn_made_key(test, "wind"), sample);
    for (int i = 0; i < KN_WIND_INPUTS; i++)
        inputs[i] = kn_choose(&random, kn_wind_low[i], kn_wind_high[i]);
    for (int i = 0; i < KN_WIND_INPUTS; i++)
        missing[i] = kn_choose_chance(&random, 4);
    *speed = kn_wind_speed(inputs);
    /* Each of the four parts has a standard deviation of 779 / sqrt(3) = 450. */
    for (int i = 0; i < 4; i++)
        *speed += kn_choose(&random, -779, 779);
}

/* x is (8): the four inputs, in 1024ths of a standard deviation from their mean, 0 if missing; then a flag
 * for each, 1024 if it is missing. */
static void make(bool test, uint64_t sample, void *x) {
    int16_t *out = x;
    int inputs[KN_WIND_INPUTS], speed;
    bool missing[KN_WIND_INPUTS];
    kn_wind_sample(test, sample, inputs, missing, &speed);
    for (int i = 0; i < KN_WIND_INPUTS; i++) {
        int middle = (kn_wind_low[i] + kn_wind_high[i]) / 2, width = kn_wind_high[i] - kn_wind_low[i];
        /* The standard deviation of a uniform distribution is its width over sqrt(12). */
        out[i] = (int16_t)(missing[i] ? 0 : (inputs[i] - middle) * 3547 / width);
        out[KN_WIND_INPUTS + i] = missing[i] ? 1024 : 0;
    }
}

/* y is (1): the speed in mm/s. */
static void answer(bool test, uint64_t sample, void *y) {
    int inputs[KN_WIND_INPUTS], speed;
    bool missing[KN_WIND_INPUTS];
    kn_wind_sample(test, sample, inputs, missing, &speed);
    *(int32_t *)y = speed;
}

const kn_made_kind kn_made_wind = {
    .word = "wind",
    .train = 20000,
    .test = 5000,
    .explainable = 0.821,
    .x = {KN_INT16, 1, {2 * KN_WIND_INPUTS}},
    .y = {KN_INT32, 1, {1}},
    .x_scale = 1.0 / 1024,
    .y_scale = 1.0 / 1000,
    .make = make,
    .answer = answer,
};
