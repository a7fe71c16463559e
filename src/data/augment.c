/* Random changes of samples as they are copied into a batch. All random numbers come from the sample's key,
 * so results do not depend on threads or timing. */
#include "data/augment.h"

#include <math.h>
#include <string.h>

/* Indices in the sample's random stream: append new kinds at the end, so that existing results do not
 * change. */
enum {
    DRAW_FLIP,
    DRAW_CROP_Y,
    DRAW_CROP_X,
    DRAW_ANGLE,
    DRAW_BRIGHTNESS,
    DRAW_CONTRAST,
    DRAW_HOLE_Y,
    DRAW_HOLE_X,
    DRAW_SHIFT,
    DRAW_SCALE,
    DRAW_SHEAR,
    DRAW_SATURATION,
    DRAW_HUE
};
static const double pi = 3.14159265358979323846;

static bool turns(const kn_augmentation *how) {
    return how->rotation != 0 || how->scale != 0 || how->shear != 0;
}

static bool moves(const kn_augmentation *how) {
    return how->flip || how->crop || how->shift || turns(how);
}

static bool shades(const kn_augmentation *how) {
    return how->brightness != 0 || how->contrast != 0;
}

static bool colours(const kn_augmentation *how) {
    return how->saturation != 0 || how->hue != 0;
}

/* Invalid numbers count as a request, so that they are refused later. */
bool kn_augments(const kn_augmentation *how) {
    return moves(how) || how->cutout || shades(how) || colours(how) || how->noise != 0;
}

static bool at_most(double value, double most) {
    return value >= 0 && value <= most;
}

kn_status kn_augment_check(const kn_augmentation *how, const kn_tensor_info *x, const kn_tensor_info *y,
                           kn_error *error) {
    if (!kn_augments(how)) return KN_OK;
    if (!at_most(how->rotation, 180) || !at_most(how->brightness, 1) || !at_most(how->contrast, 1) ||
        !at_most(how->noise, 1e6) || !at_most(how->scale, 0.9) || !at_most(how->shear, 80) ||
        !at_most(how->saturation, 1) || !at_most(how->hue, 180))
        return kn_fail(error, KN_ERROR_ARGUMENT,
                       "augmentation: expected a rotation and a hue from 0 to 180 degrees, a shear from 0 to "
                       "80, brightness, contrast and saturation from 0 to 1, a scale from 0 to 0.9, noise "
                       "from 0 to 1000000");
    bool picture = how->flip || how->crop || how->cutout || turns(how) || shades(how) || colours(how);
    if (x->dtype != KN_FLOAT32 || x->rank < 1 || (picture && x->rank != 3))
        return kn_fail(error, KN_ERROR_SHAPE, "augmentation: the input is %s of rank %d; expected float32%s",
                       kn_array_type_name(x->dtype), x->rank,
                       picture ? " images (channels,height,width)" : "");
    if (colours(how) && x->shape[0] != 3)
        return kn_fail(error, KN_ERROR_SHAPE,
                       "augmentation: images of %lld channels; saturation and hue need 3",
                       (long long)x->shape[0]);
    if (y && y->rank >= 2 && moves(how))
        return kn_fail(error, KN_ERROR_SHAPE,
                       "augmentation: the target has positions, which would not move with the input; only "
                       "cutout, brightness, contrast, saturation, hue and noise keep positions");
    if (x->rank == 3 && (how->crop > x->shape[1] || how->crop > x->shape[2]))
        return kn_fail(error, KN_ERROR_ARGUMENT, "augmentation: crop=%u; expected at most the image's side",
                       (unsigned)how->crop);
    if (how->shift > x->shape[x->rank - 1])
        return kn_fail(error, KN_ERROR_ARGUMENT,
                       "augmentation: shift=%u; expected at most the sample's length %lld",
                       (unsigned)how->shift, (long long)x->shape[x->rank - 1]);
    return KN_OK;
}

/* An integer from -most to most. */
static int64_t drawn_step(uint64_t key, uint64_t index, uint32_t most) {
    return (int64_t)kn_random_below(key, index, 2 * most + 1) - (int64_t)most;
}

/* A number from -most to most. */
static float drawn_part(uint64_t key, uint64_t index, double most) {
    return (float)most * (2 * kn_random_uniform(key, index) - 1);
}

/* x is (planes,height,width), elements of `size` bytes: moved down and right, with zeros shifted in. */
static void move(uint8_t *x, size_t size, int64_t planes, int64_t height, int64_t width, int64_t down,
                 int64_t right, uint8_t *scratch) {
    const int64_t rows = height - (down < 0 ? -down : down), columns = width - (right < 0 ? -right : right);
    const int64_t to = (down > 0 ? down : 0) * width + (right > 0 ? right : 0);
    const int64_t from = (down < 0 ? -down : 0) * width + (right < 0 ? -right : 0);
    memcpy(scratch, x, (size_t)(planes * height * width) * size);
    memset(x, 0, (size_t)(planes * height * width) * size);
    for (int64_t plane = 0; plane < planes && columns > 0; plane++)
        for (int64_t row = 0; row < rows; row++) {
            const int64_t begin = (plane * height + row) * width;
            memcpy(x + (size_t)(begin + to) * size, scratch + (size_t)(begin + from) * size,
                   (size_t)columns * size);
        }
}

/* x is (rows,width), elements of `size` bytes */
static inline void flip_elements(uint8_t *x, size_t size, int64_t rows, int64_t width) {
    uint8_t kept[sizeof(float)];
    for (int64_t row = 0; row < rows; row++)
        for (int64_t i = 0; i < width / 2; i++) {
            uint8_t *left = x + (size_t)(row * width + i) * size,
                    *right = x + (size_t)((row + 1) * width - 1 - i) * size;
            memcpy(kept, left, size);
            memcpy(left, right, size);
            memcpy(right, kept, size);
        }
}

/* The same loop for element sizes that the compiler knows. */
static void flip(uint8_t *x, size_t size, int64_t rows, int64_t width) {
    if (size == 1)
        flip_elements(x, 1, rows, width);
    else
        flip_elements(x, sizeof(float), rows, width);
}

static float pixel(const float *plane, int64_t height, int64_t width, int64_t row, int64_t column) {
    return row >= 0 && row < height && column >= 0 && column < width ? plane[row * width + column] : 0;
}

/* x is (planes,height,width): sheared, scaled and rotated about its centre, with bilinear interpolation and
 * zeros outside. */
static void warp(float *x, int64_t planes, int64_t height, int64_t width, float degrees, float scale,
                 float lean, float *scratch) {
    const double angle = (double)degrees * pi / 180;
    const float sine = (float)sin(angle) / scale, cosine = (float)cos(angle) / scale;
    const float slope = (float)tan((double)lean * pi / 180);
    const float middle_y = (float)(height - 1) / 2, middle_x = (float)(width - 1) / 2;
    memcpy(scratch, x, (size_t)(planes * height * width) * sizeof *x);
    for (int64_t row = 0; row < height; row++)
        for (int64_t column = 0; column < width; column++) {
            float dy = (float)row - middle_y, dx = (float)column - middle_x;
            float from_y = middle_y + cosine * dy - sine * dx;
            float from_x = middle_x + sine * dy + cosine * dx - slope * (from_y - middle_y);
            float top = floorf(from_y), left = floorf(from_x), down = from_y - top, right = from_x - left;
            int64_t y = (int64_t)top, z = (int64_t)left;
            for (int64_t plane = 0; plane < planes; plane++) {
                const float *from = scratch + plane * height * width;
                x[(plane * height + row) * width + column] =
                    (1 - down) * ((1 - right) * pixel(from, height, width, y, z) +
                                  right * pixel(from, height, width, y, z + 1)) +
                    down * ((1 - right) * pixel(from, height, width, y + 1, z) +
                            right * pixel(from, height, width, y + 1, z + 1));
            }
        }
}

/* Multiplies brightness, and the distance from the mean. */
static void shade(float *x, int64_t count, float brightness, float contrast) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += x[i];
    const float mean = (float)(sum / (double)count);
    for (int64_t i = 0; i < count; i++)
        x[i] = (mean + (x[i] - mean) * (1 + contrast)) * (1 + brightness);
}

/* x is (3,pixels): multiplies the distance from grey by `saturation` and rotates colours about the grey
 * axis. */
static void colour(float *x, int64_t pixels, float saturation, float degrees) {
    const double angle = (double)degrees * pi / 180;
    const float along = (float)((1 - cos(angle)) / 3), own = along + (float)cos(angle),
                side = (float)(sin(angle) / sqrt(3));
    for (int64_t i = 0; i < pixels; i++) {
        float r = x[i], g = x[pixels + i], b = x[2 * pixels + i];
        const float grey = 0.299f * r + 0.587f * g + 0.114f * b;
        r = grey + (r - grey) * (1 + saturation);
        g = grey + (g - grey) * (1 + saturation);
        b = grey + (b - grey) * (1 + saturation);
        x[i] = own * r + (along - side) * g + (along + side) * b;
        x[pixels + i] = (along + side) * r + own * g + (along - side) * b;
        x[2 * pixels + i] = (along - side) * r + (along + side) * g + own * b;
    }
}

/* x is (planes,height,width), elements of `size` bytes: sets a square around a position to 0, clipped at the
 * borders. */
static void cut_out(uint8_t *x, size_t size, int64_t planes, int64_t height, int64_t width, int64_t row,
                    int64_t column, int64_t side) {
    int64_t top = row - side / 2, left = column - side / 2, bottom = top + side, right = left + side;
    if (top < 0) top = 0;
    if (left < 0) left = 0;
    if (bottom > height) bottom = height;
    if (right > width) right = width;
    for (int64_t plane = 0; plane < planes; plane++)
        for (int64_t r = top; r < bottom; r++)
            memset(x + (size_t)((plane * height + r) * width + left) * size, 0,
                   (size_t)(right - left) * size);
}

bool kn_augmentation_keeps_bytes(const kn_augmentation *augmentation) {
    kn_augmentation how = KN_AUGMENTATION_DEFAULTS;
    kn_error unused = {0};
    if (KN_PARAMS_TAKE(kn_augmentation, &how, augmentation, &unused) != KN_OK) return false;
    return !turns(&how) && !shades(&how) && !colours(&how) && how.noise == 0 && !kn_mixes(&how);
}

void kn_augment(const kn_augmentation *how, const kn_tensor_info *info, uint64_t key, bool as_bytes,
                void *sample, void *scratch) {
    const size_t size = as_bytes ? 1 : sizeof(float);
    float *x = sample; /* as floats */
    const int64_t width = info->shape[info->rank - 1];
    int64_t count = 1;
    for (int d = 0; d < info->rank; d++)
        count *= info->shape[d];
    if (count == 0) return;
    const int64_t height = info->rank == 3 ? info->shape[1] : 1, planes = count / (height * width);
    if (how->shift)
        move(sample, size, count / width, 1, width, 0, drawn_step(key, DRAW_SHIFT, how->shift), scratch);
    if (how->crop)
        move(sample, size, planes, height, width, drawn_step(key, DRAW_CROP_Y, how->crop),
             drawn_step(key, DRAW_CROP_X, how->crop), scratch);
    if (how->flip && kn_random_below(key, DRAW_FLIP, 2)) flip(sample, size, planes * height, width);
    if (turns(how))
        warp(x, planes, height, width, drawn_part(key, DRAW_ANGLE, how->rotation),
             1 + drawn_part(key, DRAW_SCALE, how->scale), drawn_part(key, DRAW_SHEAR, how->shear), scratch);
    if (shades(how))
        shade(x, count, drawn_part(key, DRAW_BRIGHTNESS, how->brightness),
              drawn_part(key, DRAW_CONTRAST, how->contrast));
    if (colours(how))
        colour(x, height * width, drawn_part(key, DRAW_SATURATION, how->saturation),
               drawn_part(key, DRAW_HUE, how->hue));
    if (how->cutout)
        cut_out(sample, size, planes, height, width, kn_random_below(key, DRAW_HOLE_Y, (uint32_t)height),
                kn_random_below(key, DRAW_HOLE_X, (uint32_t)width), how->cutout);
    if (how->noise > 0) {
        const uint64_t own = kn_hash_text(key, "noise");
        for (int64_t i = 0; i < count; i++)
            x[i] += (float)how->noise * kn_random_normal(own, (uint64_t)i);
    }
}
