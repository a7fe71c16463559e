/* Pictures in folders: a folder for each class, or train/ and test/ or val/ with a folder for each class. All
 * are read when the data set is opened. */
#include "data/pictures_private.h"

#include <string.h>

enum { MOST_SIDE = 16384 };

/* ---- finding ---------------------------------------------------------------------------- */

static kn_status find_class(kn_arena *arena, const char *folder, int class, kn_pictures *found, size_t *capacity,
                            kn_error *error) {
    char **names;
    size_t count;
    kn_status status = kn_folder_list(arena, folder, &names, &count, error);
    for (size_t i = 0; i < count && status == KN_OK; i++) {
        if (!kn_picture_is(names[i])) continue;
        const char *path = kn_path_join(arena, folder, names[i]);
        if (!path || !kn_reserve(arena->host, (void **)&found->pictures, capacity, (size_t)found->count + 1,
                                 sizeof *found->pictures))
            status = kn_fail_memory(error, (size_t)found->count * sizeof *found->pictures);
        else
            found->pictures[found->count++] = (kn_picture){.name = path, .class = class};
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
static kn_status find_part(kn_arena *arena, const char *folder, char **classes, size_t count, kn_pictures *found,
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

/* As large as the first picture that can be read, where nothing else says how large. */
static kn_status choose_sample(const kn_host *host, const kn_image_options *asked, const kn_source_options *options,
                               const kn_pictures *from, kn_tensor_info *sample, kn_error *error) {
    if (kn_pictures_shape(asked, options, sample)) return kn_pictures_check_shape(sample, NULL, error);
    for (uint64_t i = 0; i < from->count; i++) {
        kn_image image;
        kn_status status =
            kn_picture_read(host, options, &from->pictures[i], (int)sample->shape[0], &image, error);
        if (status == KN_OK) {
            kn_release(host, image.pixels);
            return kn_pictures_check_shape(sample, &image, error);
        }
        if (!options->skip_bad || status == KN_ERROR_MEMORY || i + 1 == from->count) return status;
        kn_error_clear(error);
    }
    return KN_OK;
}

static kn_store *read_part(const kn_host *host, kn_pictures *from, const kn_tensor_info *sample, char **classes,
                           size_t count, const kn_source_options *options, kn_error *error) {
    kn_store *store =
        kn_pictures_store(host, from, sample, (const char *const *)classes, count, options, error);
    if (!store) return NULL;
    kn_status status = kn_pictures_decode(store, from, NULL, store->count, options, error);
    if (status == KN_OK) status = kn_pictures_finish(store, from, error);
    if (status == KN_OK) return store;
    kn_store_leave(store);
    return NULL;
}

static kn_status open_folder(kn_dataset *dataset, kn_arena *arena, const char *folder,
                             const kn_image_options *asked, const kn_source_options *options) {
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
    kn_pictures parts[2] = {{NULL, 0}, {NULL, 0}};
    kn_tensor_info sample;
    kn_status status = find_classes(arena, train, &classes, &count, error);
    if (status == KN_OK) status = find_part(arena, train, classes, count, &parts[0], error);
    if (status == KN_OK && test) status = find_part(arena, test, classes, count, &parts[1], error);
    if (status == KN_OK) status = choose_sample(host, asked, options, &parts[0], &sample, error);
    if (status == KN_OK)
        dataset->store = read_part(host, &parts[0], &sample, classes, count, options, error);
    if (dataset->store && test)
        dataset->test = read_part(host, &parts[1], &sample, classes, count, options, error);
    for (int i = 0; i < 2; i++)
        kn_pictures_release(host, &parts[i]);
    return error->status;
}

kn_status kn_source_images(kn_dataset *dataset, const char *rest, const kn_source_options *options) {
    kn_image_options asked = {{0, 0}, false, false};
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
    else if (!path || !kn_path_exists(path))
        kn_fail(error, KN_ERROR_FILE, "data \"images%s\": there is no such folder or archive", rest);
    else if (!options->images.read)
        kn_fail(error, KN_ERROR_UNSUPPORTED,
                "data \"images%s\": nothing to read pictures with: set `images` of the parameters, to "
                "kn_images_reader() of libkoine-images for example",
                rest);
    else if (!kn_path_is_folder(path))
        kn_source_archive(dataset, path, &asked, options);
    else
        open_folder(dataset, &arena, path, &asked, options);
    kn_arena_finish(&arena);
    kn_release(&dataset->host, path);
    return error->status;
}
