/* Images as samples: bytes of one size. */
#include "data/pictures_private.h"

#include <string.h>

enum { MAX_SIDE = 16384 };
static const uint64_t max_pixels = 1ull << 26;

bool kn_picture_is(const char *name) {
    return kn_name_ends(name, ".jpg") || kn_name_ends(name, ".jpeg") || kn_name_ends(name, ".png");
}

kn_status kn_picture_read(const kn_host *host, const kn_source_options *options,
                          const kn_sample_file *picture, int channels, kn_image *image, kn_error *error) {
    const kn_image_reader *reader = &options->images;
    const uint8_t *bytes;
    uint8_t *owned;
    uint64_t count;
    char message[300] = "";
    *image = (kn_image){.size = sizeof *image, .channels = channels};
    kn_status status = kn_sample_file_bytes(host, picture, &bytes, &count, &owned, error);
    if (status != KN_OK) return status;
    status = reader->read(reader->user, &host->allocator, bytes, (size_t)count, max_pixels, image, message,
                          sizeof message);
    kn_release(host, owned);
    if (status == KN_OK &&
        (!image->pixels || image->width < 1 || image->height < 1 || image->channels != channels)) {
        status = KN_ERROR_FORMAT;
        strcpy(message, "the image reader returned no image");
    }
    return status == KN_OK ? KN_OK : kn_fail(error, status, "%s: %s", picture->name, message);
}

/* ---- one size for all samples ------------------------------------------------------------------- */

bool kn_pictures_shape(const kn_image_options *asked, const kn_source_options *options,
                       kn_tensor_info *sample) {
    const kn_tensor_info *wanted = options->expected;
    bool known = wanted && wanted->rank == 3 && (wanted->shape[0] == 1 || wanted->shape[0] == 3);
    int channels = asked->grey ? 1 : asked->colour || !known ? 3 : (int)wanted->shape[0];
    *sample = (kn_tensor_info){KN_UINT8, 3, {channels, (int64_t)asked->size[1], (int64_t)asked->size[0]}};
    if (asked->size[0] == 0 && known) {
        sample->shape[1] = wanted->shape[1];
        sample->shape[2] = wanted->shape[2];
    }
    return asked->size[0] != 0 || known;
}

kn_status kn_pictures_check_shape(kn_tensor_info *sample, const kn_image *image, kn_error *error) {
    if (image) {
        sample->shape[1] = image->height;
        sample->shape[2] = image->width;
    }
    if (sample->shape[1] < 1 || sample->shape[2] < 1 || sample->shape[1] > MAX_SIDE ||
        sample->shape[2] > MAX_SIDE)
        return kn_fail(error, KN_ERROR_ARGUMENT, "images of %lld by %lld pixels; expected 1 to %d per side",
                       (long long)sample->shape[2], (long long)sample->shape[1], MAX_SIDE);
    return KN_OK;
}

/* ---- decoding ------------------------------------------------------------------------------------ */

/* Takes the size of the first image. */
static kn_status measure(const kn_host *host, kn_sample_job *job, const kn_sample_file *file,
                         kn_error *error) {
    kn_image image;
    kn_status status = kn_picture_read(host, job->options, file, (int)job->sample.shape[0], &image, error);
    if (status != KN_OK) return status;
    kn_release(host, image.pixels);
    return kn_pictures_check_shape(&job->sample, &image, error);
}

static void note(kn_picture_changes *changes, const kn_image *image, const int64_t *shape) {
    atomic_fetch_add(&changes->read, 1);
    if (image->file_channels == 3 && image->channels == 1) atomic_fetch_add(&changes->greyed, 1);
    if (image->file_channels == 1 && image->channels == 3) atomic_fetch_add(&changes->coloured, 1);
    if (image->height != shape[1] || image->width != shape[2]) atomic_fetch_add(&changes->resized, 1);
}

/* out is (channels,height,width) */
static kn_status read(const kn_host *host, const kn_sample_job *job, const kn_sample_file *file, void *out,
                      kn_error *error) {
    const int64_t *shape = job->sample.shape;
    kn_image image;
    kn_status status = kn_picture_read(host, job->options, file, (int)shape[0], &image, error);
    if (status != KN_OK) return status;
    note(job->own, &image, shape);
    status = kn_image_fit(host, &image, shape[2], shape[1], out, error);
    kn_release(host, image.pixels);
    return status;
}

const kn_sample_kind kn_sample_pictures = {.what = "images",
                                           .endings = ".jpg, .jpeg or .png",
                                           .is = kn_picture_is,
                                           .measure = measure,
                                           .read = read,
                                           .scale = 1.0 / 255};
