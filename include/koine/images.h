/* Image files, in a separate library, libkoine-images, so that libkoine needs no image library.
 *
 *     kn_dataset_params params = KN_DATASET_DEFAULTS;
 *     params.images = kn_images_reader();
 *     params.archives = kn_images_archives(); // where images may be in a .zip or .tar
 *     kn_dataset *photos = kn_dataset_open("images:photos,size=64", &params);
 *
 * Thread-safe. */
#ifndef KOINE_IMAGES_H
#define KOINE_IMAGES_H

#include <koine/data.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Reads JPEG and PNG, as far as libjpeg and libpng were available when this library was built; other files
 * are refused with a message that says what is missing. */
KN_API kn_image_reader kn_images_reader(void);
/* Reads .tar, .tar.gz and .zip if libarchive was available when this library was built. */
KN_API kn_archive_reader kn_images_archives(void);

#ifdef __cplusplus
}
#endif
#endif
