/* Pictures into a store: decoded by several threads, and kept as bytes of one size. */
#include "data/pictures_private.h"

#include <string.h>

enum { MOST_THREADS = 16, MOST_SIDE = 16384 };
static const uint64_t most_pixels = 1ull << 26;

bool kn_picture_is(const char *name) {
    static const char *const endings[] = {".jpg", ".jpeg", ".png"};
    size_t length = strlen(name);
    for (size_t e = 0; e < KN_COUNT_OF(endings); e++) {
        size_t own = strlen(endings[e]), same = 0;
        while (length > own && same < own && (name[length - own + same] | 0x20) == (endings[e][same] | 0x20))
            same++;
        if (same == own) return true;
    }
    return false;
}

kn_status kn_picture_read(const kn_host *host, const kn_source_options *options, const kn_picture *picture, int channels,
                          kn_image *image, kn_error *error) {
    const kn_image_reader *reader = &options->images;
    uint8_t *bytes = NULL;
    uint64_t count = picture->count;
    char message[300] = "";
    *image = (kn_image){.size = sizeof *image, .channels = channels};
    if (!picture->bytes) {
        kn_status status = kn_file_read(host, picture->name, KN_PICTURE_BYTES, &bytes, &count, error);
        if (status != KN_OK) return status;
    }
    kn_status status = reader->read(reader->user, &host->allocator, picture->bytes ? picture->bytes : bytes,
                                    (size_t)count, most_pixels, image, message, sizeof message);
    kn_release(host, bytes);
    if (status == KN_OK &&
        (!image->pixels || image->width < 1 || image->height < 1 || image->channels != channels)) {
        status = KN_ERROR_FORMAT;
        strcpy(message, "the reader of pictures gave none");
    }
    return status == KN_OK ? KN_OK : kn_fail(error, status, "%s: %s", picture->name, message);
}

/* ---- one size for all ----------------------------------------------------------------------- */

bool kn_pictures_shape(const kn_image_options *asked, const kn_source_options *options, kn_tensor_info *sample) {
    const kn_tensor_info *wanted = options->wanted;
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
    if (sample->shape[1] < 1 || sample->shape[2] < 1 || sample->shape[1] > MOST_SIDE ||
        sample->shape[2] > MOST_SIDE)
        return kn_fail(error, KN_ERROR_ARGUMENT, "pictures of %lld by %lld pixels, expected 1 to %d each way",
                       (long long)sample->shape[2], (long long)sample->shape[1], MOST_SIDE);
    return KN_OK;
}

kn_store *kn_pictures_store(const kn_host *host, const kn_pictures *from, const kn_tensor_info *sample,
                            const char *const *classes, size_t count, const kn_source_options *options,
                            kn_error *error) {
    kn_store *store = kn_store_create(host, error);
    if (!store) return NULL;
    const kn_tensor_info label = {KN_INT32, 0, {0}};
    kn_store_field *x = NULL, *y = NULL;
    store->count = from->count < options->most_samples ? from->count : options->most_samples;
    kn_status status = kn_store_add(store, "x", sample, KN_FLOAT32, 1.0 / 255, &x, error);
    if (status == KN_OK) status = kn_store_add(store, "y", &label, KN_INT32, 1, &y, error);
    if (status == KN_OK) {
        store->blocks[0] = kn_allocate(host, (size_t)store->count, x->stored_bytes);
        store->blocks[1] = kn_allocate(host, (size_t)store->count, sizeof(int32_t));
        if (!store->blocks[0] || !store->blocks[1])
            status = kn_fail_memory(error, (size_t)store->count * x->stored_bytes);
        else
            status = kn_store_name_classes(store, classes, count, error);
    }
    if (status != KN_OK) {
        kn_store_leave(store);
        return NULL;
    }
    x->bytes = store->blocks[0];
    y->bytes = store->blocks[1];
    y->is_label = true;
    return store;
}

/* ---- decoding --------------------------------------------------------------------------------- */

/* All that a thread needs. */
typedef struct share {
    kn_store *store;
    kn_pictures *from;
    const uint64_t *which;
    const kn_source_options *options;
    uint64_t first, step, count, failed; /* which it reads; the one where it stopped */
    kn_error error;
} share;

static kn_status decode(const share *own, uint64_t index, kn_error *error) {
    const kn_store_field *x = &own->store->fields[0];
    const kn_host *host = &own->store->host;
    kn_picture *picture = &own->from->pictures[index];
    const int64_t *shape = x->read.shape;
    kn_image image;
    kn_status status = kn_picture_read(host, own->options, picture, (int)shape[0], &image, error);
    kn_release(host, picture->bytes);
    picture->bytes = NULL;
    if (status != KN_OK) return status;
    status = kn_image_fit(host, &image, shape[2], shape[1],
                          (uint8_t *)own->store->blocks[0] + index * x->stored_bytes, error);
    kn_release(host, image.pixels);
    return status;
}

static void decode_share(void *argument) {
    share *own = argument;
    for (uint64_t i = own->first; i < own->count; i += own->step) {
        uint64_t index = own->which ? own->which[i] : i;
        kn_status status = decode(own, index, &own->error);
        own->failed = i;
        /* Whoever skips what is broken does not mean what there was no memory for. */
        if (status != KN_OK && (!own->options->skip_bad || status == KN_ERROR_MEMORY)) return;
        if (status != KN_OK) {
            kn_picture *picture = &own->from->pictures[index];
            picture->reason = kn_copy_text(&own->store->host, own->error.text);
            kn_error_clear(&own->error);
            if (!picture->reason) {
                kn_fail_memory(&own->error, sizeof own->error.text);
                return;
            }
        }
    }
    own->failed = UINT64_MAX;
}

kn_status kn_pictures_decode(kn_store *store, kn_pictures *from, const uint64_t *which, uint64_t count,
                             const kn_source_options *options, kn_error *error) {
    share shares[MOST_THREADS];
    kn_thread *running[MOST_THREADS] = {NULL};
    int threads = kn_processor_count();
    if (threads < 1) threads = 1;
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    for (int t = 0; t < threads; t++) {
        shares[t] = (share){.store = store,
                            .from = from,
                            .which = which,
                            .options = options,
                            .first = (uint64_t)t,
                            .step = (uint64_t)threads,
                            .count = count};
        if (t > 0) running[t] = kn_thread_start(&store->host, decode_share, &shares[t]);
    }
    for (int t = 0; t < threads; t++)
        if (!running[t]) decode_share(&shares[t]); /* the first, and what no thread could be had for */
    for (int t = 1; t < threads; t++)
        if (running[t]) kn_thread_join(&store->host, &running[t]);
    const share *first = &shares[0];
    for (int t = 1; t < threads; t++)
        if (shares[t].failed < first->failed) first = &shares[t];
    if (first->failed == UINT64_MAX) return KN_OK;
    *error = first->error;
    return error->status;
}

kn_status kn_pictures_finish(kn_store *store, const kn_pictures *from, kn_error *error) {
    const size_t bytes = store->fields[0].stored_bytes;
    uint8_t *pixels = store->blocks[0];
    int32_t *labels = store->blocks[1];
    kn_text text;
    uint64_t kept = 0;
    const char *first = NULL;
    kn_text_init(&text, &store->host);
    for (uint64_t i = 0; i < store->count; i++) {
        const kn_picture *picture = &from->pictures[i];
        if (picture->reason) {
            if (!first) first = picture->reason;
            kn_text_format(&text, "%s%s", store->left_out ? "\n" : "", picture->reason);
            store->left_out++;
            continue;
        }
        if (kept < i) memmove(pixels + kept * bytes, pixels + i * bytes, bytes);
        labels[kept++] = picture->class;
    }
    if (store->left_out && !kn_text_failed(&text)) store->left_out_text = kn_copy_text(&store->host, text.data);
    kn_text_finish(&text);
    if (store->left_out && !store->left_out_text) return kn_fail_memory(error, (size_t)store->left_out * 100);
    if (store->count > 0 && kept == 0)
        return kn_fail(error, KN_ERROR_FORMAT, "none of %llu pictures could be read, the first: %s",
                       (unsigned long long)store->count, first);
    store->count = kept;
    return KN_OK;
}

void kn_pictures_release(const kn_host *host, kn_pictures *pictures) {
    for (uint64_t i = 0; i < pictures->count; i++) {
        kn_release(host, pictures->pictures[i].bytes);
        kn_release(host, pictures->pictures[i].reason);
    }
    kn_release(host, pictures->pictures);
    *pictures = (kn_pictures){NULL, 0};
}
