/* The test groups of the data module, and their helpers. */
#ifndef KN_DATA_TESTS_H
#define KN_DATA_TESTS_H

#include "support.h"

#include "data/data.h"

/* Each runs one group and returns the number of failed tests. */
int test_digits(void);
int test_made(void);
int test_texts(void);
int test_chats(void);
int test_tables(void);
int test_image_folders(void);
int test_image_archives(void);
int test_sounds(void);
int test_datasets(void);
int test_splits(void);
int test_loaders(void);
int test_augment(void);
int test_mixing(void);
int test_file_sources(void);
int test_more_files(void);
int test_npy_file(void);
int test_onnx_file(void);
int test_safetensors_file(void);

/* Writes FOLDER/name; creates missing folders. */
void add_file(const char *folder, const char *name, const void *bytes, size_t count);

/* Parameters that use an allocator that fails, and keep the last message. */
kn_dataset_params watched(failing *state);

/* Reads files with 'I', width, height and the value of all pixels. */
extern const kn_image_reader plain_pictures;

/* Fails the test unless the dataset is valid. */
void assert_usable(const kn_dataset *dataset);
/* Fails the test unless the dataset has images with these values of all pixels, and these labels. */
void expect_samples(const kn_dataset *dataset, int count, const uint8_t *values, const int32_t *labels);
/* Fails the test unless the dataset has that status and `part` occurs in its error; destroys it. */
void assert_failed(kn_dataset *dataset, kn_status status, const char *part);

/* A dataset of `count` samples: "x" is 3 floats, sample * 10 + 0, 1, 2; "y" is sample % classes. */
typedef struct sample_arrays {
    float *x;
    uint8_t *y;
    uint64_t count;
} sample_arrays;
sample_arrays arrays_make(uint64_t count, int classes);
void arrays_free(sample_arrays *arrays);
kn_dataset *arrays_open(const kn_dataset_params *params, const sample_arrays *arrays, int classes);

#endif
