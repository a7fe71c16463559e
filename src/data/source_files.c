/* Datasets in files: a folder of IDX files, and pairs of npy files. */
#include "data/dataset_private.h"

#include <string.h>

/* ---- arrays as fields ----------------------------------------------------------------- */

static bool is_integer(kn_dtype type) {
    return type != KN_FLOAT32 && type != KN_FLOAT64 && type != KN_FLOAT16 && type != KN_BFLOAT16 &&
           !kn_is_small_float(type);
}

/* The sample shape of an array whose first dimension is the sample. Grey images without a channel dimension,
 * (N,H,W) of bytes, get one. */
static kn_tensor_info sample_of(const kn_array *array, bool picture) {
    kn_tensor_info info = {.dtype = array->type};
    if (picture && array->type == KN_UINT8 && array->rank == 3) info.shape[info.rank++] = 1;
    for (int i = 1; i < array->rank; i++)
        info.shape[info.rank++] = array->shape[i];
    return info;
}

static kn_status add_x(kn_sample_store *store, const char *path, const kn_array *array, bool tokens,
                       kn_error *error) {
    if (array->rank == 0)
        return kn_fail(error, KN_ERROR_SHAPE, "%s: found a scalar, expected an array of samples", path);
    if ((uint64_t)array->shape[0] > UINT32_MAX)
        return kn_fail(error, KN_ERROR_UNSUPPORTED, "%s: %lld samples; at most 4294967295 are supported",
                       path, (long long)array->shape[0]);
    store->count = (uint64_t)array->shape[0];
    tokens = tokens && is_integer(array->type);
    kn_tensor_info sample = sample_of(array, !tokens);
    kn_sample_field *field;
    double scale = !tokens && array->type == KN_UINT8 ? 1.0 / 255 : 1;
    kn_status status =
        kn_sample_store_add(store, "x", &sample, tokens ? KN_INT32 : KN_FLOAT32, scale, &field, error);
    if (status == KN_OK) field->bytes = array->bytes;
    return status == KN_OK ? KN_OK : kn_fail_in(error, "%s", path);
}

/* Class indices are integers, one per sample, not negative; *classes is the largest plus 1. */
static bool holds_classes(const kn_array *array, int *classes) {
    if (!is_integer(array->type) || array->rank < 1 || array->count != (uint64_t)array->shape[0] ||
        array->count == 0)
        return false;
    double largest = 0;
    for (uint64_t i = 0; i < array->count; i++) {
        double value = kn_array_number(array, i);
        if (value < 0 || value >= KN_CLASSES_MAX) return false;
        if (value > largest) largest = value;
    }
    *classes = (int)largest + 1;
    return true;
}

static kn_status add_y(kn_sample_store *store, const char *x_path, const char *path, const kn_array *array,
                       bool whole_numbers, kn_error *error) {
    if (array->rank == 0 || (uint64_t)array->shape[0] != store->count)
        return kn_fail(error, KN_ERROR_SHAPE, "%s has %lld samples but %s has %llu; expected the same number",
                       path, array->rank == 0 ? 1 : (long long)array->shape[0], x_path,
                       (unsigned long long)store->count);
    bool labels = holds_classes(array, &store->classes);
    kn_tensor_info sample = sample_of(array, false);
    if (labels) sample.rank = 0;
    kn_sample_field *field;
    bool whole = labels || (whole_numbers && is_integer(array->type));
    kn_status status =
        kn_sample_store_add(store, "y", &sample, whole ? KN_INT32 : KN_FLOAT32, 1, &field, error);
    if (status != KN_OK) return kn_fail_in(error, "%s", path);
    field->bytes = array->bytes;
    field->is_label = labels;
    return KN_OK;
}

kn_status kn_sample_store_add_pair(kn_sample_store *store, const char *x_path, const char *y_path,
                                   const kn_source_options *options, kn_error *error) {
    bool tokens = options->tokens, labels = tokens || options->labels;
    kn_status status = add_x(store, x_path, &store->files[0].array, tokens, error);
    if (status == KN_OK) status = add_y(store, x_path, y_path, &store->files[1].array, labels, error);
    if (status == KN_OK && labels) status = kn_sample_store_check(store, error);
    if (status == KN_OK && store->count == 0)
        status = kn_fail(error, KN_ERROR_SHAPE, "%s has no samples", x_path);
    if (status == KN_OK && store->count > options->max_samples) store->count = options->max_samples;
    return status;
}

/* ---- npy ------------------------------------------------------------------------------------ */

/* Finds the comma between two paths: the first one with an existing file on either side, because paths may
 * contain commas; NULL if there is none. Modifies paths. */
static char *find_comma(char *paths) {
    char *first = strchr(paths, ',');
    for (char *comma = first; comma; comma = strchr(comma + 1, ',')) {
        *comma = '\0';
        bool both = kn_path_exists(paths) && kn_path_exists(comma + 1);
        *comma = ',';
        if (both) return comma;
    }
    return first;
}

static kn_status open_npy(kn_dataset *dataset, const char *rest, const kn_source_options *options) {
    const char *paths = rest + 1;
    const kn_host *host = &dataset->host;
    kn_error *error = &dataset->error;
    char *x_path = kn_copy_text(host, paths);
    if (!x_path) return kn_fail_memory(error, strlen(paths) + 1);
    char *comma = find_comma(x_path);
    kn_sample_store *store = NULL;
    if (!comma || comma == x_path || comma[1] == '\0') {
        kn_fail(error, KN_ERROR_ARGUMENT, "data \"npy:%s\": expected two files, npy:X.npy,Y.npy", paths);
    } else {
        *comma = '\0';
        store = kn_sample_store_create(host, error);
        kn_status status = error->status;
        if (status == KN_OK) status = kn_npy_open(host, x_path, &store->files[0], error);
        if (status == KN_OK) status = kn_npy_open(host, comma + 1, &store->files[1], error);
        if (status == KN_OK) kn_sample_store_add_pair(store, x_path, comma + 1, options, error);
    }
    kn_release(host, x_path);
    if (error->status == KN_OK)
        dataset->store = store;
    else
        kn_sample_store_leave(store);
    return error->status;
}

/* ---- IDX ---------------------------------------------------------------------------------------- */

/* Finds FOLDER/PART-images-idx3-ubyte or similar, plain or gzipped; NULL if there is none. */
static const char *find_file(kn_arena *arena, const char *folder, const char *part, const char *what) {
    static const char *const separators[] = {"-", "."}, *const endings[] = {"", ".gz"};
    for (size_t s = 0; s < KN_COUNT_OF(separators); s++)
        for (size_t e = 0; e < KN_COUNT_OF(endings); e++) {
            const char *name = kn_arena_format(arena, "%s-%s%sidx%d-ubyte%s", part, what, separators[s],
                                               strcmp(what, "images") == 0 ? 3 : 1, endings[e]);
            const char *path = name ? kn_path_join(arena, folder, name) : NULL;
            if (path && kn_path_exists(path)) return path;
        }
    return NULL;
}

/* *store stays NULL if the folder has no file of this part. */
static kn_status open_part(const kn_host *host, kn_arena *arena, const char *folder, const char *part,
                           const kn_source_options *options, kn_sample_store **store, kn_error *error) {
    const char *images = find_file(arena, folder, part, "images"),
               *labels = find_file(arena, folder, part, "labels");
    *store = NULL;
    if (!images && !labels) return KN_OK;
    if (!images || !labels)
        return kn_fail(error, KN_ERROR_NOT_FOUND, "%s is present, but %s/%s-%s-ubyte (or .gz) is missing",
                       images ? images : labels, folder, part, images ? "labels-idx1" : "images-idx3");
    kn_sample_store *made = kn_sample_store_create(host, error);
    if (!made) return error->status;
    kn_status status = kn_idx_open(host, images, &made->files[0], error);
    if (status == KN_OK) status = kn_idx_open(host, labels, &made->files[1], error);
    if (status == KN_OK) status = kn_sample_store_add_pair(made, images, labels, options, error);
    if (status != KN_OK)
        kn_sample_store_leave(made);
    else
        *store = made;
    return status;
}

kn_status kn_sample_store_match_parts(const char *folder, kn_sample_store *train, kn_sample_store *test,
                                      kn_error *error) {
    const kn_sample_field *x = &train->fields[0], *other = &test->fields[0];
    if (x->read.rank != other->read.rank ||
        memcmp(x->read.shape, other->read.shape, (size_t)x->read.rank * sizeof x->read.shape[0]) != 0 ||
        train->fields[1].read.dtype != test->fields[1].read.dtype ||
        train->fields[1].elements != test->fields[1].elements)
        return kn_fail(error, KN_ERROR_SHAPE,
                       "%s: samples of the training and test parts have different shapes", folder);
    int classes = train->classes > test->classes ? train->classes : test->classes;
    train->classes = test->classes = classes;
    return KN_OK;
}

kn_status kn_dataset_take_parts(kn_dataset *dataset, kn_sample_store *train, kn_sample_store *test,
                                kn_status status) {
    if (status != KN_OK) {
        kn_sample_store_leave(train);
        kn_sample_store_leave(test);
        return status;
    }
    dataset->store = train ? train : test;
    dataset->test = train ? test : NULL;
    return KN_OK;
}

static kn_status open_idx(kn_dataset *dataset, const char *rest, const kn_source_options *options) {
    const char *folder = rest + 1;
    const kn_host *host = &dataset->host;
    kn_error *error = &dataset->error;
    if (!kn_path_is_folder(folder))
        return kn_fail(error, KN_ERROR_FILE, "data \"idx:%s\": the folder does not exist", folder);
    kn_arena arena;
    kn_arena_init(&arena, host);
    kn_sample_store *train, *test = NULL;
    kn_status status = open_part(host, &arena, folder, "train", options, &train, error);
    if (status == KN_OK) status = open_part(host, &arena, folder, "t10k", options, &test, error);
    kn_arena_finish(&arena);
    if (status == KN_OK && !train && !test)
        status = kn_fail(error, KN_ERROR_NOT_FOUND,
                         "data \"idx:%s\": expected train-images-idx3-ubyte and train-labels-idx1-ubyte, or "
                         "t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, plain or with .gz",
                         folder);
    if (status == KN_OK && train && test) status = kn_sample_store_match_parts(folder, train, test, error);
    return kn_dataset_take_parts(dataset, train, test, status);
}

const kn_source_row kn_data_source_idx = {
    .name = "idx",
    .usage = "idx:FOLDER",
    .text = "the four files of MNIST and similar data sets, plain or with .gz; one of the two parts\n"
            "suffices",
    .open = open_idx};

const kn_source_row kn_data_source_npy = {
    .name = "npy",
    .usage = "npy:X.npy,Y.npy",
    .text = "inputs and targets written by numpy.save; for models that read tokens, such as gpt,\n"
            "both are integers (samples,length)",
    .open = open_npy};
