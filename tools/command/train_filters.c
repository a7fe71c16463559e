/* The filters of a first layer as an image, for TensorBoard and the report. */
#include <math.h>
#include <stdlib.h>

#include "train.h"

enum { FILTERS = 64, ZOOM = 6, GAP = 2 };

float *parameter_numbers(kn_states *states, const kn_value *parameter, size_t *count) {
    size_t elements = 1;
    if (kn_value_dtype(parameter) != KN_FLOAT32) return NULL;
    for (int d = 0; d < kn_value_rank(parameter); d++) {
        int64_t length = kn_value_dimension(parameter, d);
        if (length <= 0 || elements > SIZE_MAX / sizeof(float) / (size_t)length) return NULL;
        elements *= (size_t)length;
    }
    float *numbers = malloc(elements * sizeof *numbers);
    *count = elements;
    if (numbers &&
        kn_states_get(states, kn_value_name(parameter), numbers, elements * sizeof *numbers) == KN_OK)
        return numbers;
    free(numbers);
    return NULL;
}

bool parameter_is_filters(const kn_value *parameter) {
    if (kn_value_rank(parameter) != 4) return false;
    int64_t channels = kn_value_dimension(parameter, 1), height = kn_value_dimension(parameter, 2),
            width = kn_value_dimension(parameter, 3);
    return (channels == 1 || channels == 3) && height > 1 && height <= 32 && width > 1 && width <= 32;
}

/* weight is (O,C,H,W) with C 1 or 3. */
uint8_t *filters_picture(const kn_value *parameter, const float *weight, int size[3]) {
    int64_t all = kn_value_dimension(parameter, 0), shape[3];
    for (int d = 0; d < 3; d++)
        shape[d] = kn_value_dimension(parameter, d + 1);
    int channels = (int)shape[0], height = (int)shape[1], width = (int)shape[2],
        count = all < FILTERS ? (int)all : FILTERS, columns = (int)ceil(sqrt(count)),
        rows = (count + columns - 1) / columns, wide = columns * (width * ZOOM + GAP) + GAP,
        high = rows * (height * ZOOM + GAP) + GAP;
    size_t pixels = (size_t)wide * (size_t)high * (size_t)channels, plane = (size_t)height * (size_t)width;
    uint8_t *picture = calloc(pixels, 1);
    float most = 1e-30f;
    for (size_t i = 0; i < (size_t)count * (size_t)channels * plane; i++)
        if (isfinite(weight[i])) most = fmaxf(most, fabsf(weight[i]));
    for (int o = 0; picture && o < count; o++)
        for (int c = 0; c < channels; c++)
            for (int y = 0; y < height * ZOOM; y++)
                for (int x = 0; x < width * ZOOM; x++) {
                    float number = weight[((size_t)o * (size_t)channels + (size_t)c) * plane +
                                          (size_t)(y / ZOOM) * (size_t)width + (size_t)(x / ZOOM)];
                    size_t down = (size_t)(o / columns * (height * ZOOM + GAP) + GAP + y),
                           right = (size_t)(o % columns * (width * ZOOM + GAP) + GAP + x);
                    /* 0 maps to grey. */
                    if (isfinite(number))
                        picture[(down * (size_t)wide + right) * (size_t)channels + (size_t)c] =
                            (uint8_t)(127.5f + 127.4f * number / most);
                }
    size[0] = high;
    size[1] = wide;
    size[2] = channels;
    return picture;
}
