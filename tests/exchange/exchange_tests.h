/* Helpers of the tests of the exchange module. */
#ifndef KN_EXCHANGE_TESTS_H
#define KN_EXCHANGE_TESTS_H

#include "../models/models_tests.h"

int test_caffe(void);
int test_folders(void);
int test_onnx(void);
int test_onnx_bind(void);
int test_onnx_train(void);
int test_onnx_export(void);
int test_onnx_pointwise(void);
int test_onnx_random(void);
int test_onnx_rows(void);
int test_onnx_runtime(void);
int test_onnx_sizes(void);
int test_onnx_types(void);

#endif
