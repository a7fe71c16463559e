/* Calls each implemented function of ONNX Runtime's C interface, with its errors: test-onnxruntime LIBRARY
 * [original]. The second word says that the library is ONNX Runtime's own, of which all this must be true,
 * too, except what is marked as Koine's. */
#ifndef KN_TESTS_ORT_INTERFACE_H
#define KN_TESTS_ORT_INTERFACE_H

#include "models.h"
#include "onnxruntime/interface.h"
#include "support.h"

/* Of the library; `original`: it is ONNX Runtime's own. */
extern const OrtApi *api;
extern const OrtApiBase *base;
extern bool original;
extern OrtEnv *env;
extern OrtAllocator *allocator;
extern OrtMemoryInfo *memory;

void succeeds_at(OrtStatus *status, const char *file, int line);
#define succeeds(call) succeeds_at(call, __FILE__, __LINE__)
/* The call fails with this code, and a message that contains the word. */
void fails_at(OrtStatus *status, OrtErrorCode code, const char *word, const char *file, int line);
#define fails(call, code) fails_at(call, code, "", __FILE__, __LINE__)
#define fails_with(call, code, word) fails_at(call, code, word, __FILE__, __LINE__)

OrtSession *open_bytes(const made *model, const OrtSessionOptions *options);
/* A tensor of rank 0, 1 (a) or 2 (a,b) on the caller's memory. */
OrtValue *tensor(void *data, size_t bytes, int rank, int64_t a, int64_t b, ONNXTensorElementDataType type);
OrtValue *floats(float *data, int64_t a, int64_t b);
const float *numbers(const OrtValue *value);
/* The tensor has the shape (), (a) or (a,b). */
void has_shape(const OrtValue *value, size_t rank, int64_t a, int64_t b);
/* A run with one input and one output. */
OrtStatus *run1(OrtSession *session, const OrtRunOptions *options, const char *input, const OrtValue *x,
                const char *output, OrtValue **y);

/* The groups of tests. */
#define run_group(name, tests)                                                                               \
    cmocka_run_group_tests_name(original ? "onnxruntime original " name : "onnxruntime " name, tests, NULL,  \
                                NULL)
int test_table(void);
int test_environment(void);
int test_values(void);
int test_sessions(void);
int test_runs(void);
int test_strings(void);
int test_initializers(void);
int test_sequences(void);
int test_profiles(void);

#endif
