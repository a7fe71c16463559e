/* What the readers of all formats do with an image: sizes, memory, channels. */
#include "images/images.h"

#include <stddef.h>
#include <stdio.h>

void kn_image_stored(kn_image *image, int channels) {
    if (image->size >= offsetof(kn_image, file_channels) + sizeof image->file_channels)
        image->file_channels = channels;
}

kn_status kn_image_take(const kn_allocator *allocator, uint64_t width, uint64_t height, uint64_t max_pixels,
                        kn_image *image, char *message, size_t size) {
    if (width == 0 || height == 0 || width > max_pixels / height) {
        snprintf(message, size, "%llu by %llu pixels; expected 1 to %llu in total", (unsigned long long)width,
                 (unsigned long long)height, (unsigned long long)max_pixels);
        return KN_ERROR_UNSUPPORTED;
    }
    size_t bytes = (size_t)(width * height) * (size_t)image->channels;
    image->pixels = allocator->resize(allocator->user, NULL, bytes);
    if (!image->pixels) {
        snprintf(message, size, "out of memory for %zu bytes of pixels", bytes);
        return KN_ERROR_MEMORY;
    }
    image->width = (int64_t)width;
    image->height = (int64_t)height;
    return KN_OK;
}
