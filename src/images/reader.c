/* Detects the format of a file and calls its reader. */
#include "images/images.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

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

#if !defined(KN_HAVE_JPEG) || !defined(KN_HAVE_PNG) || !defined(KN_HAVE_ARCHIVE)
static kn_status missing(const char *format, const char *library, const char *package, char *message,
                         size_t size) {
    snprintf(
        message, size,
        "is %s, which this build of Koine cannot read: install the headers of %s (%s on Debian and Ubuntu) "
        "and rebuild",
        format, library, package);
    return KN_ERROR_UNSUPPORTED;
}
#endif

static kn_status read_image(void *user, const kn_allocator *allocator, const void *bytes, size_t count,
                            uint64_t max_pixels, kn_image *image, char *message, size_t size) {
    static const unsigned char jpeg[] = {0xff, 0xd8, 0xff},
                               png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    (void)user;
    if (!allocator || !image || !message || !bytes || (image->channels != 1 && image->channels != 3))
        return KN_ERROR_ARGUMENT;
    image->pixels = NULL;
    if (count > sizeof jpeg && memcmp(bytes, jpeg, sizeof jpeg) == 0)
#ifdef KN_HAVE_JPEG
        return kn_read_jpeg(allocator, bytes, count, max_pixels, image, message, size);
#else
        return missing("a JPEG file", "libjpeg-turbo", "libjpeg-dev", message, size);
#endif
    if (count > sizeof png && memcmp(bytes, png, sizeof png) == 0)
#ifdef KN_HAVE_PNG
        return kn_read_png(allocator, bytes, count, max_pixels, image, message, size);
#else
        return missing("a PNG file", "libpng", "libpng-dev", message, size);
#endif
    snprintf(message, size, "is neither JPEG nor PNG, judging by its first bytes");
    return KN_ERROR_FORMAT;
}

kn_image_reader kn_images_reader(void) {
    return (kn_image_reader){0, read_image};
}

static kn_status read_archive(void *user, const kn_allocator *allocator, const char *path, uint64_t max_bytes,
                              const kn_archive_visitor *visitor, char *message, size_t size) {
    (void)user;
    if (!allocator || !path || !visitor || !message) return KN_ERROR_ARGUMENT;
#ifdef KN_HAVE_ARCHIVE
    return kn_read_archive(allocator, path, max_bytes, visitor, message, size);
#else
    return missing("is not a folder, perhaps an archive", "libarchive", "libarchive-dev", message, size);
#endif
}

kn_archive_reader kn_images_archives(void) {
    return (kn_archive_reader){0, read_archive};
}
