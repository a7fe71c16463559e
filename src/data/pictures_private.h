/* Pictures on their way from files into a store: what folders and archives of them have in common. */
#ifndef KN_PICTURES_PRIVATE_H
#define KN_PICTURES_PRIVATE_H

#include "data/dataset_private.h"

typedef struct kn_picture {
    const char *name; /* for messages, and the path where there are no bytes */
    int class;
    void *bytes; /* the file's, where it was read before; released once they are decoded */
    size_t count;
    char *reason; /* why it was left out; NULL: it was not */
} kn_picture;

typedef struct kn_pictures {
    kn_picture *pictures;
    uint64_t count;
} kn_pictures;

typedef struct kn_image_options {
    uint64_t size[2]; /* width and height; 0: not said */
    bool grey, colour;
} kn_image_options;

/* No file with a picture is larger. */
#define KN_PICTURE_BYTES ((uint64_t)1 << 28)

/* By the end of the name. */
bool kn_picture_is(const char *name);
/* As it is in its file. */
kn_status kn_picture_read(const kn_host *host, const kn_source_options *options, const kn_picture *picture, int channels,
                          kn_image *image, kn_error *error);
/* The samples' shape: what was asked for, else what the model reads; false where the first picture has to tell. */
bool kn_pictures_shape(const kn_image_options *asked, const kn_source_options *options, kn_tensor_info *sample);
/* Checks the shape, after it was taken from `image` where that is not NULL. */
kn_status kn_pictures_check_shape(kn_tensor_info *sample, const kn_image *image, kn_error *error);

/* Room for the pictures of a part, (channels,height,width) each. NULL with the error set. */
kn_store *kn_pictures_store(const kn_host *host, const kn_pictures *from, const kn_tensor_info *sample,
                            const char *const *classes, size_t count, const kn_source_options *options,
                            kn_error *error);
/* Decodes `count` pictures, those at `which` (NULL: from the first on), by several threads. One that cannot be read is
 * an error, the first of them, or is left out where the options say so. */
kn_status kn_pictures_decode(kn_store *store, kn_pictures *from, const uint64_t *which, uint64_t count,
                             const kn_source_options *options, kn_error *error);
/* Closes the gaps of what was left out, and sets the labels. */
kn_status kn_pictures_finish(kn_store *store, const kn_pictures *from, kn_error *error);
/* Releases the pictures and what they hold. */
void kn_pictures_release(const kn_host *host, kn_pictures *pictures);

/* ---- archives (source_archive.c) ------------------------------------------------------------ */

kn_status kn_source_archive(kn_dataset *dataset, const char *path, const kn_image_options *asked,
                            const kn_source_options *options);

#endif
