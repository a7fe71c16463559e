/* Images as samples, shared by folders and archives of them. Private to the data module. */
#ifndef KN_PICTURES_PRIVATE_H
#define KN_PICTURES_PRIVATE_H

#include <stdatomic.h>

#include "data/sample_files.h"

typedef struct kn_image_options {
    uint64_t size[2]; /* width and height; 0: unspecified */
    bool grey, colour;
} kn_image_options;

/* Counts of the images read, and of images with different channels or sizes in their files. */
typedef struct kn_picture_changes {
    atomic_ullong read, greyed, coloured, resized;
} kn_picture_changes;

/* The job's `own` is a kn_picture_changes. */
extern const kn_sample_kind kn_sample_pictures;

/* By the file name's extension. */
bool kn_picture_is(const char *name);
/* Decodes an image at its own size. */
kn_status kn_picture_read(const kn_host *host, const kn_source_options *options,
                          const kn_sample_file *picture, int channels, kn_image *image, kn_error *error);
/* The samples' shape: as requested, otherwise as the model expects; false if it depends on the first image.
 */
bool kn_pictures_shape(const kn_image_options *asked, const kn_source_options *options,
                       kn_tensor_info *sample);
/* Checks the shape, which comes from `image` if that is not NULL. */
kn_status kn_pictures_check_shape(kn_tensor_info *sample, const kn_image *image, kn_error *error);

#endif
