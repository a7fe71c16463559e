/* Pictures in folders: a folder for each class, or train/ and test/ or val/ with a folder for each class. All
 * are read when the data set is opened, by several threads, and kept as bytes of one size. */
#include "data/dataset_private.h"

#include <string.h>

enum { MOST_THREADS = 16, MOST_SIDE = 16384 };
static const uint64_t most_file = 1ull << 28, most_pixels = 1ull << 26;

typedef struct picture {
    const char *path;
    int class;
} picture;

typedef struct part {
    picture *pictures;
    uint64_t count;
} part;

typedef struct image_options {
    uint64_t size[2]; /* width and height; 0: not said */
    bool grey, colour;
} image_options;

/* All that a thread needs. */
typedef struct share {
    const kn_host *host;
    const kn_image_reader *reader;
    const part *from;
    const kn_tensor_info *sample; /* (channels,height,width) */
    size_t sample_bytes;
    uint8_t *pixels;
    uint64_t first, step, failed; /* which it reads; the one where it stopped */
    kn_error error;
} share;

/* ---- finding ---------------------------------------------------------------------------- */

static bool is_picture(const char *name) {
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

static kn_status find_class(kn_arena *arena, const char *folder, int class, part *found, size_t *capacity,
                            kn_error *error) {
    char **names;
    size_t count;
    kn_status status = kn_folder_list(arena, folder, &names, &count, error);
    for (size_t i = 0; i < count && status == KN_OK; i++) {
        if (!is_picture(names[i])) continue;
        const char *path = kn_path_join(arena, folder, names[i]);
        if (!path || !kn_reserve(arena->host, (void **)&found->pictures, capacity, (size_t)found->count + 1,
                                 sizeof *found->pictures))
            status = kn_fail_memory(error, (size_t)found->count * sizeof *found->pictures);
        else
            found->pictures[found->count++] = (picture){path, class};
    }
    return status;
}

/* The folders in `folder`, which are the classes. */
static kn_status find_classes(kn_arena *arena, const char *folder, char ***classes, size_t *count,
                              kn_error *error) {
    char **names;
    size_t all;
    kn_status status = kn_folder_list(arena, folder, &names, &all, error);
    *count = 0;
    for (size_t i = 0; i < all && status == KN_OK; i++) {
        const char *path = kn_path_join(arena, folder, names[i]);
        if (!path) status = kn_fail_memory(error, strlen(folder));
        if (path && kn_path_is_folder(path)) names[(*count)++] = names[i];
    }
    *classes = names;
    if (status == KN_OK && (*count == 0 || *count > KN_CLASSES_MAX))
        return kn_fail(error, KN_ERROR_NOT_FOUND, "\"%s\" has %zu folders, one for each class was expected",
                       folder, *count);
    return status;
}

/* Pictures of the classes that are known from the training part. */
static kn_status find_part(kn_arena *arena, const char *folder, char **classes, size_t count, part *found,
                           kn_error *error) {
    char **names;
    size_t own, capacity = 0;
    kn_status status = find_classes(arena, folder, &names, &own, error);
    for (size_t i = 0; i < own && status == KN_OK; i++) {
        size_t class = 0;
        while (class < count && strcmp(classes[class], names[i]) != 0)
            class ++;
        const char *path = kn_path_join(arena, folder, names[i]);
        if (class == count)
            status = kn_fail(error, KN_ERROR_NOT_FOUND,
                             "\"%s\" has a folder \"%s\", which the training part has not", folder, names[i]);
        else
            status = path ? find_class(arena, path, (int)class, found, &capacity, error)
                          : kn_fail_memory(error, 1);
    }
    if (status == KN_OK && found->count == 0)
        status =
            kn_fail(error, KN_ERROR_NOT_FOUND, "the folders in \"%s\" hold no .jpg, .jpeg or .png", folder);
    if (status == KN_OK && found->count > UINT32_MAX)
        status = kn_fail(error, KN_ERROR_UNSUPPORTED, "\"%s\" holds more than 4294967295 pictures", folder);
    return status;
}

/* ---- reading ------------------------------------------------------------------------------ */

/* A picture as it is in its file. */
static kn_status read_picture(const kn_host *host, const kn_image_reader *reader, const char *path,
                              int channels, kn_image *image, kn_error *error) {
    uint8_t *bytes;
    uint64_t count;
    char message[300] = "";
    *image = (kn_image){.size = sizeof *image, .channels = channels};
    kn_status status = kn_file_read(host, path, most_file, &bytes, &count, error);
    if (status != KN_OK) return status;
    status = reader->read(reader->user, &host->allocator, bytes, (size_t)count, most_pixels, image, message,
                          sizeof message);
    kn_release(host, bytes);
    if (status == KN_OK &&
        (!image->pixels || image->width < 1 || image->height < 1 || image->channels != channels)) {
        status = KN_ERROR_FORMAT;
        strcpy(message, "the reader of pictures gave none");
    }
    return status == KN_OK ? KN_OK : kn_fail(error, status, "%s: %s", path, message);
}

static void read_share(void *argument) {
    share *own = argument;
    for (uint64_t i = own->first; i < own->from->count; i += own->step) {
        kn_image image;
        const int64_t *shape = own->sample->shape;
        own->failed = i;
        if (read_picture(own->host, own->reader, own->from->pictures[i].path, (int)shape[0], &image,
                         &own->error) != KN_OK)
            return;
        kn_status status = kn_image_fit(own->host, &image, shape[2], shape[1],
                                        own->pixels + i * own->sample_bytes, &own->error);
        kn_release(own->host, image.pixels);
        if (status != KN_OK) return;
    }
    own->failed = UINT64_MAX;
}

/* Several threads; of several errors the one of the first picture is told. */
static kn_status read_all(const kn_host *host, const share *how, kn_error *error) {
    share shares[MOST_THREADS];
    kn_thread *running[MOST_THREADS] = {NULL};
    int threads = kn_processor_count();
    if (threads < 1) threads = 1;
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    for (int t = 0; t < threads; t++) {
        shares[t] = *how;
        shares[t].first = (uint64_t)t;
        shares[t].step = (uint64_t)threads;
        if (t > 0) running[t] = kn_thread_start(host, read_share, &shares[t]);
    }
    for (int t = 0; t < threads; t++)
        if (!running[t]) read_share(&shares[t]); /* the first, and what no thread could be had for */
    for (int t = 1; t < threads; t++)
        if (running[t]) kn_thread_join(host, &running[t]);
    const share *first = &shares[0];
    for (int t = 1; t < threads; t++)
        if (shares[t].failed < first->failed) first = &shares[t];
    if (first->failed == UINT64_MAX) return KN_OK;
    *error = first->error;
    return error->status;
}

/* ---- stores --------------------------------------------------------------------------------- */

static kn_store *make_store(const kn_host *host, const part *from, const kn_tensor_info *sample,
                            char **classes, size_t count, const kn_source_options *options, kn_error *error) {
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
            status = kn_store_name_classes(store, (const char *const *)classes, count, error);
    }
    if (status == KN_OK) {
        const part few = {from->pictures, store->count};
        const share how = {.host = host,
                           .reader = &options->images,
                           .from = &few,
                           .sample = sample,
                           .sample_bytes = x->stored_bytes,
                           .pixels = store->blocks[0]};
        status = read_all(host, &how, error);
    }
    if (status != KN_OK) {
        kn_store_leave(store);
        return NULL;
    }
    for (uint64_t i = 0; i < store->count; i++)
        ((int32_t *)store->blocks[1])[i] = from->pictures[i].class;
    x->bytes = store->blocks[0];
    y->bytes = store->blocks[1];
    y->is_label = true;
    return store;
}

/* The samples' shape: what was asked for, else what the model reads, else as the first picture is. */
static kn_status choose_sample(const kn_host *host, const image_options *asked,
                               const kn_source_options *options, const char *first, kn_tensor_info *sample,
                               kn_error *error) {
    const kn_tensor_info *wanted = options->wanted;
    bool known = wanted && wanted->rank == 3 && (wanted->shape[0] == 1 || wanted->shape[0] == 3);
    int channels = asked->grey ? 1 : asked->colour || !known ? 3 : (int)wanted->shape[0];
    *sample = (kn_tensor_info){KN_UINT8, 3, {channels, (int64_t)asked->size[1], (int64_t)asked->size[0]}};
    if (asked->size[0] == 0 && known) {
        sample->shape[1] = wanted->shape[1];
        sample->shape[2] = wanted->shape[2];
    } else if (asked->size[0] == 0) {
        kn_image image;
        kn_status status = read_picture(host, &options->images, first, channels, &image, error);
        if (status != KN_OK) return status;
        sample->shape[1] = image.height;
        sample->shape[2] = image.width;
        kn_release(host, image.pixels);
    }
    if (sample->shape[1] < 1 || sample->shape[2] < 1 || sample->shape[1] > MOST_SIDE ||
        sample->shape[2] > MOST_SIDE)
        return kn_fail(error, KN_ERROR_ARGUMENT, "pictures of %lld by %lld pixels, expected 1 to %d each way",
                       (long long)sample->shape[2], (long long)sample->shape[1], MOST_SIDE);
    return KN_OK;
}

static kn_status open_folder(kn_dataset *dataset, kn_arena *arena, const char *folder,
                             const image_options *asked, const kn_source_options *options) {
    static const char *const others[] = {"test", "val"};
    kn_error *error = &dataset->error;
    const kn_host *host = &dataset->host;
    const char *train = kn_path_join(arena, folder, "train"), *test = NULL;
    if (!train) return kn_fail_memory(error, strlen(folder));
    if (!kn_path_is_folder(train)) train = folder;
    for (size_t i = 0; i < KN_COUNT_OF(others) && !test && train != folder; i++) {
        test = kn_path_join(arena, folder, others[i]);
        if (test && !kn_path_is_folder(test)) test = NULL;
    }
    char **classes;
    size_t count;
    part parts[2] = {{0}};
    kn_tensor_info sample;
    kn_status status = find_classes(arena, train, &classes, &count, error);
    if (status == KN_OK) status = find_part(arena, train, classes, count, &parts[0], error);
    if (status == KN_OK && test) status = find_part(arena, test, classes, count, &parts[1], error);
    if (status == KN_OK)
        status = choose_sample(host, asked, options, parts[0].pictures[0].path, &sample, error);
    if (status == KN_OK)
        dataset->store = make_store(host, &parts[0], &sample, classes, count, options, error);
    if (dataset->store && test)
        dataset->test = make_store(host, &parts[1], &sample, classes, count, options, error);
    for (int i = 0; i < 2; i++)
        kn_release(host, parts[i].pictures);
    return error->status;
}

kn_status kn_source_images(kn_dataset *dataset, const char *rest, const kn_source_options *options) {
    image_options asked = {{0, 0}, false, false};
    const kn_spec_option known[] = {{"size", KN_SPEC_SIZE, asked.size},
                                    {"grey", KN_SPEC_FLAG, &asked.grey},
                                    {"colour", KN_SPEC_FLAG, &asked.colour}};
    kn_error *error = &dataset->error;
    char *path;
    kn_arena arena;
    kn_status status = kn_spec_read(&dataset->host, "images", rest, &path, known, KN_COUNT_OF(known), error);
    if (status != KN_OK) return status;
    kn_arena_init(&arena, &dataset->host);
    if (asked.size[0] > MOST_SIDE || asked.size[1] > MOST_SIDE)
        kn_fail(error, KN_ERROR_ARGUMENT, "data \"images%s\": a size is at most %d each way", rest,
                MOST_SIDE);
    else if (asked.grey && asked.colour)
        kn_fail(error, KN_ERROR_ARGUMENT, "data \"images%s\": either grey or colour was expected", rest);
    else if (!path || !kn_path_is_folder(path))
        kn_fail(error, KN_ERROR_FILE, "data \"images%s\": there is no such folder", rest);
    else if (!options->images.read)
        kn_fail(error, KN_ERROR_UNSUPPORTED,
                "data \"images%s\": nothing to read pictures with: set `images` of the parameters, to "
                "kn_images_reader() of libkoine-images for example",
                rest);
    else
        open_folder(dataset, &arena, path, &asked, options);
    kn_arena_finish(&arena);
    kn_release(&dataset->host, path);
    return error->status;
}
