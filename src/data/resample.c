/* Resamples images to one size: crops the centre and scales it with a triangle filter two result pixels wide,
 * or two source pixels when enlarging. */
#include "data/dataset_private.h"

#include <math.h>

enum { ONE = 1 << 14 };

/* The filter along one axis: result i is the sum of weights[i * most ...] times the pixels from first[i]. */
typedef struct axis {
    int64_t from, most; /* number of source pixels; of weights per result */
    int64_t *first, *count;
    int32_t *weights; /* the sum is 2^14 for each result */
} axis;

static void axis_finish(const kn_host *host, axis *self) {
    kn_release(host, self->first);
    kn_release(host, self->weights);
}

/* Maps the centre `seen` of `from` pixels to `to` pixels. */
static bool axis_make(const kn_host *host, int64_t from, double seen, int64_t to, axis *self) {
    double step = seen / (double)to, reach = step > 1 ? step : 1, begin = ((double)from - seen) / 2;
    self->from = from;
    self->most = (int64_t)ceil(2 * reach) + 2;
    self->first = kn_allocate(host, (size_t)to * 2, sizeof *self->first);
    self->weights = kn_allocate(host, (size_t)to * (size_t)self->most, sizeof *self->weights);
    if (!self->first || !self->weights) return false;
    self->count = self->first + to;
    for (int64_t i = 0; i < to; i++) {
        double middle = begin + ((double)i + 0.5) * step, sum = 0;
        int64_t low = (int64_t)floor(middle - reach), high = (int64_t)ceil(middle + reach);
        if (low < 0) low = 0;
        if (high > from) high = from;
        if (high > low + self->most) high = low + self->most;
        int32_t *weights = self->weights + i * self->most, left = ONE;
        for (int64_t j = low; j < high; j++)
            sum += fmax(0, 1 - fabs((double)j + 0.5 - middle) / reach);
        for (int64_t j = low; j < high; j++) {
            weights[j - low] = (int32_t)(fmax(0, 1 - fabs((double)j + 0.5 - middle) / reach) / sum * ONE);
            left -= weights[j - low];
        }
        weights[(high - low) / 2] += left; /* compensate for rounding */
        self->first[i] = low;
        self->count[i] = high - low;
    }
    return true;
}

/* Computes one result from pixels that are `stride` apart. */
static uint8_t mix(const axis *self, int64_t i, const uint8_t *pixels, int64_t stride) {
    int32_t sum = ONE / 2;
    for (int64_t j = 0; j < self->count[i]; j++)
        sum += self->weights[i * self->most + j] * pixels[(self->first[i] + j) * stride];
    return (uint8_t)(sum < 0 ? 0 : sum >= 256 * ONE ? 255 : sum / ONE);
}

/* rows is (image height, width): one channel after scaling along the rows. */
static void scale(const kn_image *image, const axis *across, const axis *down, int64_t width, int64_t height,
                  uint8_t *rows, uint8_t *out) {
    for (int c = 0; c < image->channels; c++) {
        for (int64_t y = down->first[0]; y < down->first[height - 1] + down->count[height - 1]; y++)
            for (int64_t x = 0; x < width; x++)
                rows[y * width + x] =
                    mix(across, x, image->pixels + y * image->width * image->channels + c, image->channels);
        for (int64_t y = 0; y < height; y++)
            for (int64_t x = 0; x < width; x++)
                out[(c * height + y) * width + x] = mix(down, y, rows + x, width);
    }
}

kn_status kn_image_fit(const kn_host *host, const kn_image *image, int64_t width, int64_t height,
                       uint8_t *out, kn_error *error) {
    if (image->width == width && image->height == height) {
        for (int64_t i = 0; i < width * height; i++)
            for (int c = 0; c < image->channels; c++)
                out[c * width * height + i] = image->pixels[i * image->channels + c];
        return KN_OK;
    }
    double across_seen = (double)image->height * (double)width / (double)height,
           down_seen = (double)image->height;
    if (across_seen > (double)image->width) {
        down_seen = (double)image->width * (double)height / (double)width;
        across_seen = (double)image->width;
    }
    axis across = {0}, down = {0};
    uint8_t *rows = kn_allocate(host, (size_t)image->height * (size_t)width, 1);
    kn_status status = KN_OK;
    if (rows && axis_make(host, image->width, across_seen, width, &across) &&
        axis_make(host, image->height, down_seen, height, &down))
        scale(image, &across, &down, width, height, rows, out);
    else
        status = kn_fail_memory_for(error, "a resized image", (uint64_t)image->height, (size_t)width);
    axis_finish(host, &across);
    axis_finish(host, &down);
    kn_release(host, rows);
    return status;
}
