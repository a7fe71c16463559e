/* libFuzzer's entry to data from files: a line of options, then the bytes of the file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../fuzz_file.h"

#include <koine/data.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

enum { OPTIONS = 200, SAMPLES = 3 };
static const char *const kinds[] = {"csv:", "text:", "npz:", "wav:", "npy:"};

/* Reads the first samples of each field. */
static void read_some(const kn_dataset *data) {
    kn_dataset_field field = KN_DATASET_FIELD_DEFAULTS;
    for (size_t i = 0; kn_dataset_field_at(data, i, &field); i++) {
        uint64_t some = kn_dataset_count(data) < SAMPLES ? kn_dataset_count(data) : SAMPLES;
        if (field.bytes > 1 << 24) continue;
        void *numbers = malloc(some * field.bytes + 1);
        if (numbers) (void)kn_dataset_read(data, NULL, some, i, numbers, (size_t)some * field.bytes, NULL, 0);
        free(numbers);
    }
}

static void open_and_read(const kn_dataset_params *params, const char *word) {
    kn_dataset *data = kn_dataset_open(word, params);
    if (!data) return;
    if ((kn_dataset_status(data) == KN_OK) != (kn_dataset_error(data)[0] == '\0')) abort();
    if (kn_dataset_status(data) == KN_OK) read_some(data);
    kn_dataset_destroy(&data);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    const uint8_t *end = count ? memchr(bytes, '\n', count) : NULL;
    if (!end || end == bytes || end - bytes > OPTIONS) return 0;
    char options[OPTIONS + 1], word[OPTIONS + 64];
    size_t length = (size_t)(end - bytes) - 1, left = count - length - 2;
    memcpy(options, bytes + 1, length);
    options[length] = '\0';
    const char *path = fuzz_file(end + 1, left);
    if (!path) return 0;
    kn_dataset_params params = KN_DATASET_DEFAULTS;
    snprintf(word, sizeof word, "%s%s%s", kinds[bytes[0] % (sizeof kinds / sizeof *kinds)], path, options);
    open_and_read(&params, word);
    /* The same file with what a model stores about its data. */
    snprintf(word, sizeof word, "text:%s", path);
    params.vocabulary = options;
    open_and_read(&params, word);
    snprintf(word, sizeof word, "csv:%s", path);
    params = (kn_dataset_params)KN_DATASET_DEFAULTS;
    params.columns = options;
    open_and_read(&params, word);
    return 0;
}
