/* Sounds as samples: inside of the data room only. */
#ifndef KN_SOUNDS_H
#define KN_SOUNDS_H

#include "data/sample_files.h"

enum { KN_SINC_ZEROS = 16, KN_SINC_STEPS = 512 };

/* Half of a windowed sinc, KN_SINC_STEPS values from one zero to the next; 0 at its end, and one more for
 * reading between. */
typedef struct kn_sinc {
    float values[KN_SINC_ZEROS * KN_SINC_STEPS + 2];
} kn_sinc;
void kn_sinc_make(kn_sinc *sinc);
/* How many of `available` numbers decide about the first `count` at the other rate. */
uint64_t kn_sinc_reach(uint32_t from_rate, uint32_t to_rate, uint64_t count, uint64_t available);
/* out is (count): what `from`, (available), is at another rate, from its begin on; zeros follow where it
 * ends. What the new rate cannot hold is left out. */
void kn_sinc_resample(const kn_sinc *sinc, const float *from, uint64_t available, uint32_t from_rate,
                      uint32_t to_rate, float *out, uint64_t count);

/* What a job of sounds goes by. */
typedef struct kn_sound_options {
    uint64_t rate, length; /* samples a second, and of each sound; 0: as the first file has it */
    kn_sinc sinc;
} kn_sound_options;
extern const kn_sample_kind kn_sample_sounds;

#endif
