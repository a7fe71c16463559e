/* Shared by the data sets that the library generates. */
#include "data/made_private.h"

/* 16384 * sin over a quarter turn in 64 steps. */
static const int16_t quarter[65] = {
    0,     402,   804,   1205,  1606,  2006,  2404,  2801,  3196,  3590,  3981,  4370,  4756,
    5139,  5520,  5897,  6270,  6639,  7005,  7366,  7723,  8076,  8423,  8765,  9102,  9434,
    9760,  10080, 10394, 10702, 11003, 11297, 11585, 11866, 12140, 12406, 12665, 12916, 13160,
    13395, 13623, 13842, 14053, 14256, 14449, 14635, 14811, 14978, 15137, 15286, 15426, 15557,
    15679, 15791, 15893, 15986, 16069, 16143, 16207, 16261, 16305, 16340, 16364, 16379, 16384,
};

int kn_made_sine(int turns) {
    int angle = turns % 1024;
    if (angle < 0) angle += 1024;
    int half = angle % 512;
    int rising = half <= 256 ? half : 512 - half;
    int low = quarter[rising / 4];
    int value = rising % 4 == 0 ? low : low + (quarter[rising / 4 + 1] - low) * (rising % 4) / 4;
    return angle < 512 ? value : -value;
}

uint64_t kn_made_key(bool test, const char *what) {
    return kn_random_key(test ? 2 : 1, what);
}

int kn_made_label(uint64_t key, uint64_t sample, int classes) {
    uint64_t row = sample / (uint64_t)classes;
    uint8_t order[16];
    for (int i = 0; i < classes; i++)
        order[i] = (uint8_t)i;
    for (int i = classes - 1; i > 0; i--) {
        int other = (int)kn_random_below(key, row * 16 + (uint64_t)i, (uint32_t)i + 1);
        uint8_t kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    return order[sample % (uint64_t)classes];
}
