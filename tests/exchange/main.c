/* The tests of the exchange module. */
#include "exchange_tests.h"

int main(void) {
    return (test_caffe() + test_folders() + test_onnx() + test_onnx_bind() + test_onnx_train() +
            test_onnx_export() + test_onnx_pointwise() + test_onnx_random() + test_onnx_rows() +
            test_onnx_runtime() + test_onnx_sizes() + test_onnx_types()) != 0;
}
