/* Koine's side of the plugin: models from memory are checked, opened and run. */
#ifndef KN_ORT_ENGINE_H
#define KN_ORT_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "onnxruntime/interface.h"

typedef struct engine_failure {
    OrtErrorCode code;
    char message[4096];
} engine_failure;

/* Values of the provider options that session.c reads; NULL: the default. */
typedef struct engine_options {
    char *device, *precision, *math, *cache;
} engine_options;

/* How much of a model Koine can compute. */
typedef enum engine_verdict {
    ENGINE_FITS,
    ENGINE_LACKS_VALUE, /* if the value whose name is the message were known; "": if sizes were */
    ENGINE_REFUSES,     /* the message has the reason */
} engine_verdict;
/* Opens a model, without a device. */
engine_verdict engine_check(const void *bytes, size_t count, engine_failure *failure);

/* Whether Koine has a type of elements with the same bytes. */
bool engine_has_type(ONNXTensorElementDataType type);
/* Of `count` elements of a type; 0 if it has no size. */
size_t engine_bytes(ONNXTensorElementDataType type, size_t count);
size_t engine_max_rank(void);
/* Keeps devices open until the last release. */
void engine_begin(void);
void engine_end(void);

/* A model on a device. */
typedef struct engine engine;
/* Takes ownership of `memory`, from malloc, even on failure; the model's `count` bytes are in it. NULL on
 * failure. */
engine *engine_open(void *memory, const void *bytes, size_t count, const engine_options *options,
                    engine_failure *failure);
void engine_release(engine *own);

typedef struct engine_input {
    const void *data;
    const int64_t *sizes;
    size_t rank, bytes;
    ONNXTensorElementDataType type;
} engine_input;
/* Gives memory for an output; an error is the caller's own. */
typedef bool (*engine_memory)(void *user, size_t output, const int64_t *sizes, size_t rank, void **data);
/* Inputs and outputs are all of the model's, in its order. May be called from several threads. */
bool engine_run(engine *own, const engine_input *inputs, engine_memory memory, void *user,
                engine_failure *failure);

#endif
