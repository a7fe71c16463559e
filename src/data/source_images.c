/* Pictures in folders and archives: what stands behind the word. */
#include "data/pictures_private.h"

enum { MOST_SIDE = 16384 };

kn_status kn_source_images(kn_dataset *dataset, const char *rest, const kn_source_options *options) {
    kn_image_options asked = {{0, 0}, false, false};
    const kn_spec_option known[] = {{"size", KN_SPEC_SIZE, asked.size},
                                    {"grey", KN_SPEC_FLAG, &asked.grey},
                                    {"colour", KN_SPEC_FLAG, &asked.colour}};
    kn_error *error = &dataset->error;
    char *path;
    kn_status status = kn_spec_read(&dataset->host, "images", rest, &path, known, KN_COUNT_OF(known), error);
    if (status != KN_OK) return status;
    if (asked.size[0] > MOST_SIDE || asked.size[1] > MOST_SIDE)
        kn_fail(error, KN_ERROR_ARGUMENT, "data \"images%s\": a size is at most %d each way", rest,
                MOST_SIDE);
    else if (asked.grey && asked.colour)
        kn_fail(error, KN_ERROR_ARGUMENT, "data \"images%s\": either grey or colour was expected", rest);
    else if (!path || !kn_path_exists(path))
        kn_fail(error, KN_ERROR_FILE, "data \"images%s\": there is no such folder or archive", rest);
    else if (!options->images.read)
        kn_fail(error, KN_ERROR_UNSUPPORTED,
                "data \"images%s\": nothing to read pictures with: set `images` of the parameters, to "
                "kn_images_reader() of libkoine-images for example",
                rest);
    if (error->status == KN_OK) {
        kn_sample_job job = {.kind = &kn_sample_pictures, .options = options};
        job.known = kn_pictures_shape(&asked, options, &job.sample);
        if (!job.known || kn_pictures_check_shape(&job.sample, NULL, error) == KN_OK) {
            if (kn_path_is_folder(path) || kn_picture_is(path))
                kn_sample_files_open(dataset, path, &job);
            else
                kn_sample_archive_open(dataset, path, &job);
        }
    }
    kn_release(&dataset->host, path);
    return error->status;
}
