/* The test groups of the formats module, and their helpers. */
#ifndef KN_FORMATS_TESTS_H
#define KN_FORMATS_TESTS_H

#include "support.h"

#include "readers.h"

/* Each runs one group and returns the number of failed tests. */
int test_arrays(void);
int test_npy(void);
int test_caffe(void);
int test_csv(void);
int test_idx(void);
int test_wave(void);
int test_zip(void);
int test_events(void);
int test_blocks(void);
int test_gguf(void);
int test_gzip(void);
int test_json(void);
int test_onnx(void);
int test_onnx_tensor(void);
int test_onnx_writer(void);
int test_safetensors(void);
int test_mutations(void);

/* A host with the allocator. */
kn_host failing_host(failing *state);

/* Fails the test unless the status is KN_OK. */
void assert_fine(kn_status status, const kn_error *error);
/* Fails the test unless the status is `status` and `part` occurs in the message. Clears the error. */
void assert_refused(kn_status status, kn_error *error, kn_status expected, const char *part);

/* Data compressed by gzip, and its length; the caller frees it. */
uint8_t *pack(const void *bytes, size_t count, size_t *packed);

#endif
