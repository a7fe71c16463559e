/* Opens the inputs of koine infer by file type. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <koine/images.h>

#include "infer_input.h"
#include "infer_streams.h"
#include "training.h"

/* Samples being added to an input. */
typedef struct part {
    const char *path, *shown; /* name in messages */
    kn_tensor_info info;
    char *data;
    double scale;        /* if not 0, the data is uint8 and fed with this scale */
    kn_dataset *dataset; /* the dataset of the samples; or NULL */
    uint64_t limit;      /* limit on the number of samples; 0: none */
} part;

static bool ends(const char *path, const char *const endings[]) {
    for (; *endings; endings++)
        if (path_ends(path, *endings, true)) return true;
    return false;
}

static const char *const rows[] = {".npy", ".csv", NULL}, *const tables[] = {".csv", NULL},
                         *const arrays[] = {".npy", NULL}, *const sounds[] = {".wav", ".wave", NULL},
                         *const pictures[] = {".jpg", ".jpeg", ".png", NULL},
                         *const archives[] = {".zip", ".tar", ".tar.gz", ".tgz", NULL};

static bool is_folder(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

const char *sizes_text(const kn_tensor_info *info, int first, char *text, size_t room) {
    text[0] = 0;
    for (int d = first; d < info->rank; d++)
        snprintf(text + strlen(text), room - strlen(text), "%s%lld", d > first ? "," : "",
                 (long long)info->shape[d]);
    return text;
}

/* Reports the library's error with the name that the user gave. Returns false. */
static bool fail_part(const part *read, const char *message, const char *more) {
    const char *place = read->path == read->shown ? NULL : strstr(message, read->path);
    if (!place) return command_error("%s%s", message, more);
    return command_error("%.*s%s%s%s", (int)(place - message), message, read->shown,
                         place + strlen(read->path), more);
}

static bool check_shape(const kn_value *value, const part *read) {
    const kn_tensor_info *info = &read->info;
    char wanted[160], found[160];
    bool fits = info->rank == kn_value_rank(value) && info->rank > 0;
    for (int d = 1; fits && d < info->rank; d++)
        fits = kn_value_dimension(value, d) < 0 || kn_value_dimension(value, d) == info->shape[d];
    if (fits) return true;
    kn_value_shape_text(value, wanted, sizeof wanted);
    return command_error("'%s' is (%s), but the model's input '%s' is (%s)", read->shown,
                         sizes_text(info, 0, found, sizeof found), kn_value_name(value), wanted);
}

/* ---- tables, images and sounds: datasets without targets ------------------------------------ */

/* Copies the first samples, which need `bytes`, as a loader delivers them. */
static bool copy_samples(part *read, size_t bytes) {
    const kn_loader_params params = {.size = sizeof params, .batch = 64, .no_shuffle = true, .bytes = true};
    kn_loader *loader = kn_loader_create(read->dataset, &params);
    kn_batch batch = KN_BATCH_DEFAULTS;
    bool fine = true;
    for (size_t at = 0; at < bytes && fine; at += fine ? batch.feeds[0].bytes : 0) {
        fine = kn_loader_status(loader) == KN_OK && kn_loader_next(loader, &batch) == KN_OK;
        const size_t left = bytes - at, got = fine ? batch.feeds[0].bytes : 0;
        if (fine) memcpy(read->data + at, batch.feeds[0].data, got < left ? got : left);
    }
    if (!fine) command_fail("%s: %s", read->shown, loader ? kn_loader_error(loader) : "out of memory");
    kn_loader_destroy(&loader);
    return fine;
}

/* `source` is the data source for the files at the path; NULL: the path is a data spec. */
static bool open_dataset(part *read, const kn_dataset_params *params, const char *source) {
    size_t length = (source ? strlen(source) : 0) + strlen(read->path) + 2;
    char *spec = malloc(length);
    if (!spec) return command_error("out of memory");
    snprintf(spec, length, "%s%s%s", source ? source : "", source ? ":" : "", read->path);
    read->dataset = kn_dataset_open(spec, params);
    free(spec);
    if (kn_dataset_status(read->dataset) != KN_OK)
        return source
                   ? fail_part(read, read->dataset ? kn_dataset_error(read->dataset) : "out of memory", "")
                   : command_error("%s", read->dataset ? kn_dataset_error(read->dataset) : "out of memory");
    if (source || !kn_dataset_has_test(read->dataset)) return true;
    kn_dataset *test = kn_dataset_test(read->dataset);
    kn_dataset_destroy(&read->dataset);
    read->dataset = test;
    return test || command_error("out of memory");
}

static bool read_dataset(part *read, const kn_dataset_params *params, const char *source) {
    kn_dataset_field field = KN_DATASET_FIELD_DEFAULTS;
    if (!open_dataset(read, params, source)) return false;
    kn_dataset *dataset = read->dataset;
    print_skipped(dataset, read->shown);
    uint64_t count = kn_dataset_count(dataset);
    if (read->limit && read->limit < count) count = read->limit;
    kn_dataset_field_at(dataset, 0, &field);
    read->scale = field.scale;
    const size_t bytes = (size_t)count * (field.scale != 0 ? field.bytes / sizeof(float) : field.bytes);
    read->info = (kn_tensor_info){
        field.scale != 0 ? KN_UINT8 : field.info.dtype, field.info.rank + 1, {(int64_t)count}};
    memcpy(read->info.shape + 1, field.info.shape, (size_t)field.info.rank * sizeof *field.info.shape);
    read->data = malloc(bytes + 1);
    if (!read->data)
        return command_error("out of memory for %llu samples of %s", (unsigned long long)count, read->shown);
    return copy_samples(read, bytes);
}

static bool read_samples(const infer_input *input, part *read, const char *source) {
    kn_dataset_params params;
    kn_tensor_info sample;
    kn_dataset_params_init(&params);
    params.inputs_only = source != NULL;
    params.expected = value_sample(input->value, &sample) ? &sample : NULL;
    params.columns = kn_model_metadata(input->model, "data.columns");
    params.sample_rate = model_rate(input->model);
    params.images = kn_images_reader();
    params.archives = kn_images_archives();
    params.skip_bad = input->skip_bad;
    if (!read_dataset(read, &params, source) || !check_shape(input->value, read)) return false;
    const kn_dtype dtype = read->scale != 0 ? KN_FLOAT32 : read->info.dtype;
    return dtype == kn_value_dtype(input->value) ||
           command_error("'%s' is %s, but the model's input '%s' is %s", read->shown, kn_dtype_name(dtype),
                         kn_value_name(input->value), kn_dtype_name(kn_value_dtype(input->value)));
}

/* ---- arrays ----------------------------------------------------------------------------------------- */

/* Converts to the model's element type. Bytes for a float32 input stay bytes and are scaled by 1/255, as in
 * datasets. */
static bool convert(const kn_value *value, part *read, const kn_npy_file *array) {
    uint64_t elements = 0;
    const bool as_bytes = read->info.dtype == KN_UINT8 && kn_value_dtype(value) == KN_FLOAT32;
    const kn_dtype dtype = as_bytes ? KN_UINT8 : kn_value_dtype(value);
    bool fine = kn_tensor_elements(&read->info, &elements);
    size_t bytes = (size_t)elements * kn_dtype_bytes(dtype);
    read->data = fine ? malloc(bytes + 1) : NULL;
    if (!read->data || kn_npy_file_copy(array, dtype, read->data, bytes) != KN_OK)
        return command_error("'%s' could not be converted to %s, the type of the model's input '%s'",
                             read->shown, kn_dtype_name(dtype), kn_value_name(value));
    read->scale = as_bytes ? 1.0f / 255.0f : 0;
    read->info.dtype = dtype;
    return true;
}

static bool read_array(const kn_value *value, part *read) {
    kn_npy_file *array = kn_npy_file_open(read->path, NULL);
    bool fine = kn_npy_file_status(array) == KN_OK;
    if (!fine)
        fail_part(
            read, array ? kn_npy_file_error(array) : "out of memory",
            array && !ends(read->path, arrays)
                ? ". Expected arrays, X.npy, tables, X.csv, images (.jpg, .png), sounds (.wav), archives "
                  "(.zip, .tar) and folders, and - for standard input"
                : "");
    if (fine) kn_npy_file_info(array, &read->info);
    fine = fine && check_shape(value, read) && convert(value, read, array);
    kn_npy_file_destroy(&array);
    return fine;
}

/* ---- file types ----------------------------------------------------------------------------------- */

static bool read_part(const infer_input *input, part *read) {
    /* The model determines what a folder or an archive contains. */
    const bool many = is_folder(read->path) || ends(read->path, archives),
               planes = kn_value_rank(input->value) == 4;
    const bool sound = ends(read->path, sounds) || (many && !planes);
    const bool picture = ends(read->path, pictures) || (many && planes);
    if (sound || picture) return read_samples(input, read, sound ? "wav" : "images");
    if (!ends(read->path, tables)) return read_array(input->value, read);
    if (kn_model_metadata(input->model, "data.columns") && input->value == kn_model_input_at(input->model, 0))
        return read_samples(input, read, "csv");
    return numbers_read(input->value, read->path, read->shown, &read->info, &read->data);
}

/* Dequantizes bytes with a scale to float32. */
static bool widen(kn_tensor_info *info, char **data, double *scale) {
    uint64_t elements = 0;
    if (*scale == 0) return true;
    float *numbers =
        kn_tensor_elements(info, &elements) ? malloc((size_t)elements * sizeof *numbers + 1) : NULL;
    if (!numbers) return command_error("out of memory for the input");
    for (uint64_t i = 0; i < elements; i++)
        numbers[i] = (float)*scale * (float)((const uint8_t *)*data)[i];
    free(*data);
    *data = (char *)numbers;
    *scale = 0;
    info->dtype = KN_FLOAT32;
    return true;
}

/* Appends to the existing samples. */
static bool append(infer_input *input, part *read) {
    if (input->info.rank && input->scale != read->scale &&
        (!widen(&input->info, &input->data, &input->scale) || !widen(&read->info, &read->data, &read->scale)))
        return false;
    const uint64_t old = input->info.rank ? (uint64_t)input->info.shape[0] : 0,
                   count = (uint64_t)read->info.shape[0];
    kn_tensor_info sample = read->info;
    uint64_t bytes = 0;
    char own[160], other[160];
    if (old && memcmp(input->info.shape + 1, read->info.shape + 1,
                      (size_t)(read->info.rank - 1) * sizeof *sample.shape))
        return command_error("'%s' has samples of (%s), but the inputs before it of (%s)", read->shown,
                             sizes_text(&read->info, 1, own, sizeof own),
                             sizes_text(&input->info, 1, other, sizeof other));
    sample.shape[0] = 1;
    bool fine = kn_tensor_bytes(&sample, &bytes);
    char *data = fine ? realloc(input->data, (size_t)(old + count) * (size_t)bytes + 1) : NULL;
    if (data) input->data = data;
    char **names = data ? realloc(input->names, (size_t)(old + count + 1) * sizeof *names) : NULL;
    if (!names) return command_error("out of memory for %llu samples", (unsigned long long)(old + count));
    input->names = names;
    input->info = read->info;
    input->scale = read->scale;
    input->info.shape[0] = (int64_t)(old + count);
    if (count) memcpy(input->data + (size_t)old * (size_t)bytes, read->data, (size_t)count * (size_t)bytes);
    for (uint64_t i = 0; i < count; i++) {
        /* Samples from standard input have no file name. */
        const char *name = read->path == read->shown ? kn_dataset_sample_name(read->dataset, i) : NULL;
        names[old + i] = name ? malloc(strlen(name) + 1) : NULL;
        if (names[old + i]) strcpy(names[old + i], name);
    }
    return true;
}

/* Appends a part and frees its remaining data. */
static bool keep_part(infer_input *input, part *read, bool good) {
    good = good && append(input, read);
    if (good && !input->table && kn_dataset_columns(read->dataset)) {
        input->table = read->dataset;
        read->dataset = NULL;
    }
    free(read->data);
    kn_dataset_destroy(&read->dataset);
    return good;
}

static bool add_file(infer_input *input, const char *path, const char *shown) {
    part read = {.path = path, .shown = shown};
    const bool there =
        access(path, R_OK) == 0 || command_error("cannot open \"%s\": %s", shown, strerror(errno));
    return keep_part(input, &read, there && read_part(input, &read));
}

bool input_add_data(infer_input *input, const char *spec, uint64_t limit) {
    part read = {.path = spec, .shown = spec, .limit = limit};
    return keep_part(input, &read, read_samples(input, &read, NULL));
}

static int is_row_file(const struct dirent *entry) {
    return entry->d_name[0] != '.' && ends(entry->d_name, rows);
}

/* Arrays and tables in alphabetical order; if there are none, files with one sample each. */
static bool add_folder(infer_input *input, const char *path) {
    struct dirent **entries = NULL;
    char file[4096];
    bool fine = true;
    int count = scandir(path, &entries, is_row_file, alphasort);
    if (count <= 0) fine = add_file(input, path, path);
    for (int i = 0; i < count; i++) {
        snprintf(file, sizeof file, "%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/",
                 entries[i]->d_name);
        fine = fine && add_file(input, file, file);
        free(entries[i]);
    }
    free(entries);
    return fine;
}

bool input_add(infer_input *input, const char *path) {
    char kept[STREAM_PATH];
    if (strcmp(path, "-")) return is_folder(path) ? add_folder(input, path) : add_file(input, path, path);
    if (!stream_keep(kept)) return false;
    bool fine = add_file(input, kept, "standard input");
    unlink(kept);
    return fine;
}

void input_close(infer_input *input) {
    for (int64_t i = 0; input->names && i < input->info.shape[0]; i++)
        free(input->names[i]);
    free(input->names);
    free(input->data);
    kn_dataset_destroy(&input->table);
}
