/* Public to other modules: the reader of each format. See kn_image_reader for the contract. */
#ifndef KN_IMAGES_H
#define KN_IMAGES_H

#include <koine/images.h>

kn_status kn_read_jpeg(const kn_allocator *allocator, const void *bytes, size_t count, uint64_t max_pixels,
                       kn_image *image, char *message, size_t size);
kn_status kn_read_png(const kn_allocator *allocator, const void *bytes, size_t count, uint64_t max_pixels,
                      kn_image *image, char *message, size_t size);

/* See kn_archive_reader. */
kn_status kn_read_archive(const kn_allocator *allocator, const char *path, uint64_t max_bytes,
                          const kn_archive_visitor *visitor, char *message, size_t size);

/* Records the number of channels in the file, if the caller's version of the struct has the field. */
void kn_image_stored(kn_image *image, int channels);
/* Checks an image's size and allocates its pixels, or writes the reason for a failure to `message`. */
kn_status kn_image_take(const kn_allocator *allocator, uint64_t width, uint64_t height, uint64_t max_pixels,
                        kn_image *image, char *message, size_t size);

#endif
