/* The tests of the data module. */
#include "data_tests.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static pthread_mutex_t watching = PTHREAD_MUTEX_INITIALIZER;

static void *watched_resize(void *user, void *pointer, size_t bytes) {
    watcher *state = user;
    pthread_mutex_lock(&watching);
    void *moved = NULL;
    if (bytes == 0) {
        state->live -= pointer != NULL;
        free(pointer);
    } else if (++state->calls != state->fail_at) {
        moved = realloc(pointer, bytes);
        if (!pointer && moved) {
            state->live++;
            memset(moved, 0xA5, bytes);
        }
    }
    pthread_mutex_unlock(&watching);
    return moved;
}

static void watched_write(void *user, kn_log_level level, const char *message) {
    watcher *state = user;
    strncpy(state->message, message, sizeof state->message - 1);
}

void add_file(const char *folder, const char *name, const void *bytes, size_t count) {
    char path[600];
    kn_error error = {0};
    test_path(path, sizeof path, folder, name);
    for (char *slash = strchr(path + strlen(folder) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
    if (kn_file_write(NULL, path, bytes, count, &error) != KN_OK) fail_msg("%s", error.text);
}

kn_dataset_params watched(watcher *state) {
    kn_dataset_params params = KN_DATASET_DEFAULTS;
    params.allocator = (kn_allocator){state, watched_resize};
    params.log = (kn_logger){state, KN_LOG_ERROR, watched_write};
    return params;
}

size_t watcher_calls(const watcher *state) {
    pthread_mutex_lock(&watching);
    size_t calls = state->calls;
    pthread_mutex_unlock(&watching);
    return calls;
}

static kn_status read_plain(void *user, const kn_allocator *allocator, const void *bytes, size_t count,
                            uint64_t most, kn_image *image, char *message, size_t message_bytes) {
    const uint8_t *file = bytes;
    (void)user;
    if (count != 4 || file[0] != 'I' || (uint64_t)file[1] * file[2] > most) {
        snprintf(message, message_bytes, "no I");
        return KN_ERROR_FORMAT;
    }
    size_t pixels = (size_t)file[1] * file[2] * (size_t)image->channels;
    image->pixels = allocator->resize(allocator->user, NULL, pixels);
    if (!image->pixels) return KN_ERROR_MEMORY;
    memset(image->pixels, file[3], pixels);
    image->width = file[1];
    image->height = file[2];
    return KN_OK;
}

const kn_image_reader plain_pictures = {NULL, read_plain};

void assert_usable(const kn_dataset *dataset) {
    if (kn_dataset_status(dataset) != KN_OK) fail_msg("%s", kn_dataset_error(dataset));
    assert_string_equal(kn_dataset_error(dataset), "");
}

void assert_failed(kn_dataset *dataset, kn_status status, const char *part) {
    assert_non_null(dataset);
    if (kn_dataset_status(dataset) != status || !strstr(kn_dataset_error(dataset), part))
        fail_msg("%s, \"%s\"; expected %s, \"%s\"", kn_status_name(kn_dataset_status(dataset)),
                 kn_dataset_error(dataset), kn_status_name(status), part);
    assert_int_equal(kn_dataset_count(dataset), 0);
    kn_dataset_destroy(&dataset);
}

sample_arrays arrays_make(uint64_t count, int classes) {
    sample_arrays arrays = {malloc((size_t)count * 3 * sizeof(float) + 1), malloc((size_t)count + 1), count};
    assert_non_null(arrays.x);
    assert_non_null(arrays.y);
    for (uint64_t i = 0; i < count; i++) {
        for (int j = 0; j < 3; j++)
            arrays.x[i * 3 + (uint64_t)j] = (float)(i * 10 + (uint64_t)j);
        arrays.y[i] = (uint8_t)(i % (uint64_t)classes);
    }
    return arrays;
}

void arrays_free(sample_arrays *arrays) {
    free(arrays->x);
    free(arrays->y);
}

kn_dataset *arrays_open(const kn_dataset_params *params, const sample_arrays *arrays, int classes) {
    kn_dataset_array fields[2] = {
        {.name = "x",
         .info = {KN_FLOAT32, 1, {3}},
         .data = arrays->x,
         .bytes = (size_t)arrays->count * 12,
         .as = KN_FLOAT32},
        {.name = "y",
         .info = {KN_UINT8, 0, {0}},
         .data = arrays->y,
         .bytes = (size_t)arrays->count,
         .as = KN_INT32},
    };
    return kn_dataset_create_from_arrays(arrays->count, fields, 2, classes, params);
}

int main(void) {
    return test_digits() + test_made() + test_texts() + test_chats() + test_tables() + test_image_folders() +
           test_image_archives() + test_sounds() + test_datasets() + test_splits() + test_loaders() +
           test_augment() + test_mixing() + test_file_sources() + test_more_files() + test_npy_file() +
           test_onnx_file() + test_safetensors_file();
}
