/* The tests of the formats module. */
#include "formats_tests.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

kn_host failing_host(failing *state) {
    kn_host host = kn_host_defaults();
    host.allocator = failing_allocator(state);
    return host;
}

void assert_fine(kn_status status, const kn_error *error) {
    if (status != KN_OK) fail_msg("%s: %s", kn_status_name(status), error->text);
}

void assert_refused(kn_status status, kn_error *error, kn_status expected, const char *part) {
    if (status != expected || error->status != status || !strstr(error->text, part))
        fail_msg("%s, \"%s\"; expected %s, \"%s\"", kn_status_name(status), error->text,
                 kn_status_name(expected), part);
    kn_error_clear(error);
}

uint8_t *pack(const void *bytes, size_t count, size_t *packed) {
    z_stream stream = {0};
    size_t room = count + 1024;
    uint8_t *result = malloc(room);
    assert_non_null(result);
    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    stream.next_in = (Bytef *)(uintptr_t)bytes;
    stream.avail_in = (uInt)count;
    stream.next_out = result;
    stream.avail_out = (uInt)room;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    *packed = room - stream.avail_out;
    deflateEnd(&stream);
    return result;
}

int main(void) {
    return test_arrays() + test_npy() + test_idx() + test_zip() + test_wave() + test_csv() + test_caffe() +
           test_events() + test_blocks() + test_gguf() + test_gzip() + test_json() + test_onnx() +
           test_onnx_tensor() + test_onnx_writer() + test_safetensors() + test_mutations();
}
