/* Reads PNG with libpng; transparent images are composed on white. */
#include "images/images.h"

#include <stdio.h>
#include <string.h>

#include <png.h>

/* Converts RGB to grey like JPEG does, in place: libpng's conversion differs. */
static void make_grey(kn_image *image) {
    for (int64_t i = 0; i < image->width * image->height; i++) {
        const uint8_t *colour = image->pixels + 3 * i;
        image->pixels[i] = (uint8_t)((299 * colour[0] + 587 * colour[1] + 114 * colour[2] + 500) / 1000);
    }
}

kn_status kn_read_png(const kn_allocator *allocator, const void *bytes, size_t count, uint64_t max_pixels,
                      kn_image *image, char *message, size_t size) {
    png_image file;
    memset(&file, 0, sizeof file);
    file.version = PNG_IMAGE_VERSION;
    const png_color white = {255, 255, 255};
    const int channels = image->channels;
    kn_status status = KN_ERROR_FORMAT;
    if (png_image_begin_read_from_memory(&file, bytes, count)) {
        kn_image_stored(image, file.format & PNG_FORMAT_FLAG_COLOR ? 3 : 1);
        file.format = PNG_FORMAT_RGB;
        image->channels = 3;
        status = kn_image_take(allocator, file.width, file.height, max_pixels, image, message, size);
        image->channels = channels;
        if (status == KN_OK && !png_image_finish_read(&file, &white, image->pixels, 0, NULL))
            status = KN_ERROR_FORMAT;
    }
    if (status == KN_OK) {
        if (channels == 1) make_grey(image);
        return KN_OK;
    }
    if (status == KN_ERROR_FORMAT) snprintf(message, size, "not an intact PNG: %s", file.message);
    png_image_free(&file);
    if (image->pixels) {
        allocator->resize(allocator->user, image->pixels, 0);
        image->pixels = NULL;
    }
    return status;
}
