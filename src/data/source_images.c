/* Images in folders and archives: parses the spec and opens them. */
#include "data/pictures_private.h"

#include <stdio.h>

enum { MAX_SIDE = 16384 };

static void add_change(kn_text *text, bool asked, uint64_t count, uint64_t all, const char *what) {
    if (!asked && count)
        kn_text_format(text, "%s%llu of %llu %s", text->length ? ", " : "images: ", (unsigned long long)count,
                       (unsigned long long)all, what);
}

/* Reports conversions that were not requested. */
static kn_status report_changes(kn_sample_store *store, const kn_image_options *asked,
                                const kn_sample_job *job, const kn_picture_changes *changes,
                                kn_error *error) {
    const uint64_t all = changes->read;
    char sizes[80];
    kn_text text;
    kn_text_init(&text, &store->host);
    snprintf(sizes, sizeof sizes, "scaled to %lldx%lld pixels", (long long)job->sample.shape[2],
             (long long)job->sample.shape[1]);
    add_change(&text, asked->grey, changes->greyed, all, "converted from RGB to grey");
    add_change(&text, asked->colour, changes->coloured, all, "converted from grey to RGB");
    add_change(&text, asked->size[0] != 0, changes->resized, all, sizes);
    const bool changed = text.length > 0, failed = kn_text_failed(&text);
    if (changed && !failed) store->about = kn_text_take(&text);
    kn_text_finish(&text);
    return failed ? kn_fail_memory(error, sizeof sizes) : KN_OK;
}

static kn_status open_images(kn_dataset *dataset, const char *rest, const kn_source_options *options) {
    kn_image_options asked = {{0, 0}, false, false};
    const kn_spec_option known[] = {{"size", KN_SPEC_SIZE, asked.size},
                                    {"grey", KN_SPEC_FLAG, &asked.grey},
                                    {"colour", KN_SPEC_FLAG, &asked.colour}};
    kn_error *error = &dataset->error;
    char *path;
    kn_status status = kn_spec_read(&dataset->host, "images", rest, &path, known, KN_COUNT_OF(known), error);
    if (status != KN_OK) return status;
    if (asked.size[0] > MAX_SIDE || asked.size[1] > MAX_SIDE)
        kn_fail(error, KN_ERROR_ARGUMENT, "data \"images%s\": expected at most %d pixels per side", rest,
                MAX_SIDE);
    else if (asked.grey && asked.colour)
        kn_fail(error, KN_ERROR_ARGUMENT, "data \"images%s\": expected either grey or colour, not both",
                rest);
    else if (!path || !kn_path_exists(path))
        kn_fail(error, KN_ERROR_FILE, "data \"images%s\": the folder or archive does not exist", rest);
    else if (!options->images.read)
        kn_fail(error, KN_ERROR_UNSUPPORTED,
                "data \"images%s\": there is no image reader: set `images` of the parameters, for example to "
                "kn_images_reader() of libkoine-images",
                rest);
    if (error->status == KN_OK) {
        kn_picture_changes changes = {0};
        kn_sample_job job = {
            .kind = &kn_sample_pictures, .options = options, .own = &changes, .own_bytes = sizeof changes};
        job.known = kn_pictures_shape(&asked, options, &job.sample);
        if (!job.known || kn_pictures_check_shape(&job.sample, NULL, error) == KN_OK) {
            if (kn_path_is_folder(path) || kn_picture_is(path))
                kn_sample_files_open(dataset, path, &job);
            else
                kn_sample_archive_open(dataset, path, &job);
            if (error->status == KN_OK && dataset->store)
                report_changes(dataset->store, &asked, &job, &changes, error);
        }
    }
    kn_release(&dataset->host, path);
    return error->status;
}

const kn_source_row kn_data_source_images = {
    .name = "images",
    .usage = "images:PATH[,size=WIDTHxHEIGHT][,grey]",
    .text = "JPEG and PNG: one folder per class, or train/ and test/ or val/ with one folder per class;\n"
            "the centre of each image is scaled to the size (as the model expects, else that of the\n"
            "first); a .tar, .tar.gz or .zip with such folders is read in place",
    .open = open_images};
