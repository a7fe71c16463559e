/* What the parts of koine-onnx-test share. Public headers of the library only. */
#ifndef KOINE_ONNX_TEST_H
#define KOINE_ONNX_TEST_H

#include <stdbool.h>
#include <stddef.h>

#include <koine/koine.h>

typedef enum test_verdict {
    VERDICT_PASS,
    VERDICT_FAIL,        /* computed, and not what is expected */
    VERDICT_ERROR,       /* a file cannot be read, or computing failed */
    VERDICT_UNSUPPORTED, /* an operator, an opset or a type that Koine does not have */
    VERDICT_SKIP,        /* there is nothing to compute or to compare */
    VERDICT_COUNT,
} test_verdict;

enum { REASON_ROOM = 400, PATH_ROOM = 1024 };

typedef struct test_outcome {
    test_verdict verdict;
    char reason[REASON_ROOM]; /* one line without tabs; "" where it passed */
} test_outcome;

/* Sets verdict and reason, made one line, and returns false. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
bool conclude(test_outcome *outcome, test_verdict verdict, const char *format, ...);
/* FOLDER/NAME; false, with a reason, if it does not fit. */
bool join(test_outcome *outcome, char path[PATH_ROOM], const char *folder, const char *name);

/* Runs the case in a folder: model.onnx, and all test_data_set_N. Outputs are written below `outputs`, unless
 * that is NULL, as NAME/test_data_set_N/output_K.pb. */
void run_case(kn_context *context, const char *folder, const char *name, const char *outputs,
              test_outcome *outcome);

/* Whether an output is as the tensor in a file: type and shape exactly, numbers within 1e-3 of the expected
 * and 1e-7, and strings exactly, whose numbers in the model are `data` if `texts`. Otherwise a reason. */
bool compare_output(const kn_onnx_tensor_file *file, const char *name, const kn_tensor_info *info,
                    const void *data, const kn_model *texts, test_outcome *outcome);

#endif
