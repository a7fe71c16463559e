/* Resamples sound to another rate with a windowed sinc. */
#include "data/sounds.h"

#include <math.h>

/* The cutoff frequency, as a fraction of the Nyquist frequency. */
static const double kept = 0.95, pi = 3.14159265358979323846;

void kn_sinc_make(kn_sinc *sinc) {
    for (int i = 0; i < KN_SINC_ZEROS * KN_SINC_STEPS; i++) {
        double at = (double)i / KN_SINC_STEPS, fall = cos(pi * at / (2 * KN_SINC_ZEROS));
        sinc->values[i] = (float)(i == 0 ? 1 : sin(pi * at) / (pi * at) * fall * fall);
    }
    sinc->values[KN_SINC_ZEROS * KN_SINC_STEPS] = sinc->values[KN_SINC_ZEROS * KN_SINC_STEPS + 1] = 0;
}

/* Zeros of the sinc per source sample. */
static double density(uint32_t from_rate, uint32_t to_rate) {
    return kept * (to_rate < from_rate ? (double)to_rate / from_rate : 1);
}

uint64_t kn_sinc_reach(uint32_t from_rate, uint32_t to_rate, uint64_t count, uint64_t available) {
    double last = (double)count * from_rate / to_rate;
    if (from_rate != to_rate) last += KN_SINC_ZEROS / density(from_rate, to_rate) + 1;
    return last < (double)available ? (uint64_t)ceil(last) : available;
}

void kn_sinc_resample(const kn_sinc *sinc, const float *from, uint64_t available, uint32_t from_rate,
                      uint32_t to_rate, float *out, uint64_t count) {
    if (from_rate == to_rate) {
        for (uint64_t i = 0; i < count; i++)
            out[i] = i < available ? from[i] : 0;
        return;
    }
    const double step = density(from_rate, to_rate), reach = KN_SINC_ZEROS / step;
    for (uint64_t i = 0; i < count; i++) {
        /* Integer and fractional parts are kept separate, so that precision does not fall over a long
         * sound. */
        const uint64_t before = i * from_rate / to_rate;
        const double part = (double)(i * from_rate % to_rate) / to_rate, middle = (double)before + part;
        const double low = ceil(middle - reach), high = floor(middle + reach);
        const uint64_t first = low > 0 ? (uint64_t)low : 0;
        const uint64_t end = high < (double)available ? (uint64_t)high + 1 : available;
        double sum = 0;
        for (uint64_t j = first; j < end && j < available; j++) {
            const double at = fabs(((double)j - (double)before) - part) * step * KN_SINC_STEPS;
            const int64_t whole = (int64_t)at;
            if (whole >= KN_SINC_ZEROS * KN_SINC_STEPS) continue;
            const float near = sinc->values[whole], far = sinc->values[whole + 1];
            sum += (double)from[j] * ((double)near + (at - (double)whole) * ((double)far - (double)near));
        }
        out[i] = (float)(sum * step);
    }
}
