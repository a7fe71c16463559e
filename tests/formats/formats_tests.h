/* The groups of the formats room's tests, and what they share. */
#ifndef KN_FORMATS_TESTS_H
#define KN_FORMATS_TESTS_H

#include "support.h"

#include "readers.h"

/* Each runs one group and answers the number of its tests that failed. */
int test_arrays(void);
int test_npy(void);
int test_caffe(void);
int test_csv(void);
int test_idx(void);
int test_wave(void);
int test_zip(void);
int test_events(void);
int test_gzip(void);
int test_json(void);
int test_onnx(void);
int test_onnx_tensor(void);
int test_onnx_writer(void);
int test_safetensors(void);
int test_mutations(void);

/* An allocator that counts, remembers the largest sum of bytes held at once, and
 * fails at call number `fail_at` (from 1 on; 0 for never). */
typedef struct meter {
    size_t calls, fail_at, live, bytes, peak;
} meter;
kn_host metered_host(meter *state);

/* Fails the test unless the status is KN_OK. */
void assert_fine(kn_status status, const kn_error *error);
/* Fails unless the status is `status` and the text has `part` in it. Clears the error. */
void assert_refused(kn_status status, kn_error *error, kn_status expected, const char *part);

/* gzip data, and its length; to be freed. */
uint8_t *pack(const void *bytes, size_t count, size_t *packed);

#endif
