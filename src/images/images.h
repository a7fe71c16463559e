/* The door of the images room: what reads one format. See kn_image_reader for what they do. */
#ifndef KN_IMAGES_H
#define KN_IMAGES_H

#include <koine/images.h>

kn_status kn_read_jpeg(const kn_allocator *allocator, const void *bytes, size_t count, uint64_t most_pixels,
                       kn_image *image, char *message, size_t message_bytes);
kn_status kn_read_png(const kn_allocator *allocator, const void *bytes, size_t count, uint64_t most_pixels,
                      kn_image *image, char *message, size_t message_bytes);

/* See kn_archive_reader. */
kn_status kn_read_archive(const kn_allocator *allocator, const char *path, uint64_t most_bytes,
                          const kn_archive_visitor *visitor, char *message, size_t message_bytes);

/* Notes how many channels the file has, where the caller's struct has a place for it. */
void kn_image_stored(kn_image *image, int channels);
/* Checks a picture's size and takes the memory for it, or says why not. */
kn_status kn_image_take(const kn_allocator *allocator, uint64_t width, uint64_t height, uint64_t most_pixels,
                        kn_image *image, char *message, size_t message_bytes);

#endif
