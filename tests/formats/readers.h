/* Each reader as one function of bytes, for the mutation test and the fuzzers: the result is traversed, then
 * released. */
#ifndef KN_TESTS_READERS_H
#define KN_TESTS_READERS_H

#include <stdbool.h>

#include "formats/formats.h"

enum { INFLATED_LIMIT = 1 << 16 };

kn_status read_npy(const kn_host *host, const uint8_t *bytes, uint64_t count, kn_error *error);
kn_status read_idx(const kn_host *host, const uint8_t *bytes, uint64_t count, kn_error *error);
kn_status read_zip(const kn_host *host, const uint8_t *bytes, uint64_t count, kn_error *error);
kn_status read_cifar(const kn_host *host, const uint8_t *bytes, uint64_t count, kn_error *error);
kn_status read_wave(const kn_host *host, const uint8_t *bytes, uint64_t count, kn_error *error);
kn_status read_csv(const kn_host *host, const uint8_t *bytes, uint64_t count, kn_error *error);
kn_status read_gzip(const kn_host *host, const uint8_t *bytes, uint64_t count, kn_error *error);
kn_status read_json(const kn_host *host, const uint8_t *bytes, uint64_t count, kn_error *error);
kn_status read_safetensors(const kn_host *host, const uint8_t *bytes, uint64_t count, kn_error *error);
kn_status read_gguf(const kn_host *host, const uint8_t *bytes, uint64_t count, kn_error *error);
/* A network as text or with weights. */
kn_status read_caffe(const kn_host *host, const uint8_t *bytes, uint64_t count, kn_error *error);
/* A model. */
kn_status read_onnx(const kn_host *host, const uint8_t *bytes, uint64_t count, kn_error *error);
/* A value of any kind; KN_OK if the bytes are valid for one kind. */
kn_status read_onnx_value(const kn_host *host, const uint8_t *bytes, uint64_t count, kn_error *error);

/* Set if a reader returned KN_OK and its result is inconsistent. */
extern bool reader_inconsistent;

#endif
