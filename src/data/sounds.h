/* Sounds as samples. Private to the data module. */
#ifndef KN_SOUNDS_H
#define KN_SOUNDS_H

#include "data/sample_files.h"

enum { KN_SINC_ZEROS = 16, KN_SINC_STEPS = 512 };

/* Half of a windowed sinc, with KN_SINC_STEPS values per zero crossing; it ends with 0, and one more value
 * for interpolation. */
typedef struct kn_sinc {
    float values[KN_SINC_ZEROS * KN_SINC_STEPS + 2];
} kn_sinc;
void kn_sinc_make(kn_sinc *sinc);
/* How many of `available` samples determine the first `count` at the other rate. */
uint64_t kn_sinc_reach(uint32_t from_rate, uint32_t to_rate, uint64_t count, uint64_t available);
/* out is (count): `from`, (available), resampled from its beginning and padded with zeros. Frequencies above
 * the new rate's limit are removed. */
void kn_sinc_resample(const kn_sinc *sinc, const float *from, uint64_t available, uint32_t from_rate,
                      uint32_t to_rate, float *out, uint64_t count);

/* The options of a job for sounds. */
typedef struct kn_sound_options {
    uint64_t rate, length; /* samples per second, and per sound; 0: as in the first file */
    kn_sinc sinc;
} kn_sound_options;
extern const kn_sample_kind kn_sample_sounds;

#endif
