/* Detects the format of a file and calls its reader. */
#include "images/images.h"

#include <stdio.h>
#include <string.h>

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
