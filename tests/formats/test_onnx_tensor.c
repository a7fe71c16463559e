/* ONNX tensors: each type in each field that may hold it, external data, single values in a file. */
#include "formats_tests.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "onnx_bytes.h"

static kn_status read_tensor(const made *bytes, kn_onnx_value_file *file, kn_error *error) {
    return kn_onnx_value_read(NULL, "some.pb", bytes->bytes, bytes->count, KN_ONNX_TENSOR, file, error);
}

/* Field numbers of a tensor. */
enum { FLOATS = 4, INT32S = 5, STRINGS = 6, INT64S = 7, RAW = 9, DOUBLES = 10, UINT64S = 11 };

static void elements_are_packed_from_any_field(void **state) {
    static const struct {
        kn_onnx_type type;
        uint32_t field, length;
        const char *data; /* of the field */
        size_t data_count;
        const char *packed;
        size_t packed_count;
        double last;
    } cases[] = {
        {KN_ONNX_FLOAT32, FLOATS, 2, "\0\0\0\0\0\0\x80\x3f", 8, "\0\0\0\0\0\0\x80\x3f", 8, 1},
        {KN_ONNX_COMPLEX64, FLOATS, 1, "\0\0\x80\x3f\0\0\0\0", 8, "\0\0\x80\x3f\0\0\0\0", 8, 1},
        {KN_ONNX_FLOAT64, DOUBLES, 1, "\0\0\0\0\0\0\xf0\x3f", 8, "\0\0\0\0\0\0\xf0\x3f", 8, 1},
        {KN_ONNX_INT64, INT64S, 2, "\1\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", 11,
         "\1\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff", 16, -1},
        {KN_ONNX_UINT64, UINT64S, 1, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", 10,
         "\xff\xff\xff\xff\xff\xff\xff\xff", 8, 0x1p64},
        {KN_ONNX_UINT32, UINT64S, 1, "\xff\xff\xff\xff\x0f", 5, "\xff\xff\xff\xff", 4, 4294967295.0},
        {KN_ONNX_INT32, INT32S, 1, "\xfe\xff\xff\xff\xff\xff\xff\xff\xff\1", 10, "\xfe\xff\xff\xff", 4, -2},
        {KN_ONNX_INT16, INT32S, 1, "\xfe\xff\xff\xff\x0f", 5, "\xfe\xff", 2, -2},
        {KN_ONNX_UINT16, INT32S, 1, "\xff\xff\3", 3, "\xff\xff", 2, 65535},
        {KN_ONNX_INT8, INT32S, 1, "\x80\xff\xff\xff\xff\xff\xff\xff\xff\1", 10, "\x80", 1, -128},
        {KN_ONNX_UINT8, INT32S, 2, "\7\xff\1", 3, "\7\xff", 2, 255},
        {KN_ONNX_BOOL, INT32S, 3, "\1\0\1", 3, "\1\0\1", 3, 1},
        {KN_ONNX_FLOAT16, INT32S, 2, "\x80\x78\x80\xf8\1", 5, "\0\x3c\0\x7c", 4, INFINITY},
        {KN_ONNX_BFLOAT16, INT32S, 1, "\x80\x7f", 2, "\x80\x3f", 2, 1},
        {KN_ONNX_FLOAT8E4M3FN, INT32S, 1, "\xb8\1", 2, "\xb8", 1, -1},
        {KN_ONNX_FLOAT8E4M3FNUZ, INT32S, 1, "\x40", 1, "\x40", 1, 1},
        {KN_ONNX_FLOAT8E5M2, INT32S, 1, "\x7c", 1, "\x7c", 1, INFINITY},
        {KN_ONNX_FLOAT8E5M2FNUZ, INT32S, 1, "\x40", 1, "\x40", 1, 1},
        {KN_ONNX_FLOAT8E8M0, INT32S, 1, "\x80\1", 2, "\x80", 1, 2},
        {KN_ONNX_INT4, INT32S, 3, "\x21\x0f", 2, "\x21\x0f", 2, -1},
        {KN_ONNX_UINT4, INT32S, 2, "\xf1\1", 2, "\xf1", 1, 15},
        {KN_ONNX_FLOAT4E2M1, INT32S, 2, "\x71", 1, "\x71", 1, 6},
        {KN_ONNX_INT2, INT32S, 3, "\x2c", 1, "\x2c", 1, -2},
        {KN_ONNX_UINT2, INT32S, 5, "\xe4\1\2", 3, "\xe4\2", 2, 2},
        {KN_ONNX_FLOAT6E2M3, INT32S, 4, "\1\2\3\x1f", 4, "\x81\x30\x7c", 3, 7.5},
        {KN_ONNX_FLOAT6E3M2, INT32S, 2, "\1\x3f", 2, "\xc1\x0f", 2, -28},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++)
        for (int raw = 0; raw < 2; raw++) {
            made bytes = {.count = 0};
            add_number(add_number(&bytes, 1, cases[i].length), 2, cases[i].type);
            if (raw)
                add_packet(&bytes, RAW, cases[i].packed, cases[i].packed_count);
            else
                add_packet(&bytes, cases[i].field, cases[i].data, cases[i].data_count);
            kn_onnx_value_file file;
            kn_error error = {0};
            assert_fine(read_tensor(&bytes, &file, &error), &error);
            const kn_onnx_tensor *tensor = file.value.tensor;
            assert_int_equal(tensor->count, cases[i].length);
            if (tensor->byte_count != cases[i].packed_count ||
                memcmp(tensor->bytes, cases[i].packed, cases[i].packed_count) != 0 ||
                kn_onnx_tensor_number(tensor, tensor->count - 1) != cases[i].last)
                fail_msg("%s %s: %g", kn_onnx_type_name(tensor->type), raw ? "raw" : "in its field",
                         kn_onnx_tensor_number(tensor, tensor->count - 1));
            kn_onnx_value_close(NULL, &file);
        }
}

static void numbers_need_not_be_packed(void **state) {
    made bytes = {.count = 0};
    add_number(add_number(add_number(&bytes, 1, 3), 1, 1), 2, KN_ONNX_FLOAT32);
    add_float(add_packet(add_float(&bytes, FLOATS, 1), FLOATS, "\0\0\0\x40", 4), FLOATS, 3);
    kn_onnx_value_file file;
    kn_error error = {0};
    assert_fine(read_tensor(&bytes, &file, &error), &error);
    assert_int_equal(file.value.tensor->rank, 2);
    for (int i = 0; i < 3; i++)
        assert_true(kn_onnx_tensor_number(file.value.tensor, (uint64_t)i) == i + 1);
    kn_onnx_value_close(NULL, &file);
    bytes.count = 0;
    add_number(add_packet(&bytes, 1, "\2", 1), 2, KN_ONNX_STRING);
    add_packet(add_text(&bytes, STRINGS, "\xff"), STRINGS, "a\0b", 3);
    assert_fine(read_tensor(&bytes, &file, &error), &error);
    assert_null(file.value.tensor->bytes);
    assert_int_equal(file.value.tensor->strings[1].count, 3);
    kn_onnx_value_close(NULL, &file);
}

static void special_numbers(void **state) {
    static const struct {
        kn_onnx_type type;
        const char *bytes;
        double value;
    } cases[] = {
        {KN_ONNX_FLOAT8E4M3FN, "\x7f", NAN},     {KN_ONNX_FLOAT8E4M3FN, "\x7e", 448},
        {KN_ONNX_FLOAT8E4M3FN, "\x01", 0x1p-9},  {KN_ONNX_FLOAT8E4M3FNUZ, "\x80", NAN},
        {KN_ONNX_FLOAT8E4M3FNUZ, "\x7f", 240},   {KN_ONNX_FLOAT8E5M2, "\x7f", NAN},
        {KN_ONNX_FLOAT8E5M2, "\x7b", 57344},     {KN_ONNX_FLOAT8E5M2FNUZ, "\x80", NAN},
        {KN_ONNX_FLOAT8E5M2FNUZ, "\x7f", 57344}, {KN_ONNX_FLOAT8E5M2FNUZ, "\x01", 0x1p-17},
        {KN_ONNX_FLOAT8E8M0, "\xff", NAN},       {KN_ONNX_FLOAT8E8M0, "\0", 0x1p-127},
        {KN_ONNX_FLOAT16, "\1\0", 0x1p-24},      {KN_ONNX_BFLOAT16, "\xc0\x7f", NAN},
        {KN_ONNX_FLOAT6E3M2, "\x01", 0.0625},    {KN_ONNX_FLOAT6E2M3, "\x21", -0.125},
        {KN_ONNX_FLOAT4E2M1, "\x09", -0.5},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        kn_onnx_tensor tensor = {.type = cases[i].type, .bytes = (const uint8_t *)cases[i].bytes};
        assert_true(kn_onnx_tensor_measure(&tensor));
        double value = kn_onnx_tensor_number(&tensor, 0);
        if (value != cases[i].value && !(isnan(value) && isnan(cases[i].value)))
            fail_msg("%s, case %zu: %g", kn_onnx_type_name(cases[i].type), i, value);
    }
}

/* Of each type, with few and with many infinities; the bytes are not aligned. */
static void finite_tensors(void **state) {
    enum { MOST = 40, ROUNDS = 60 };
    uint32_t drawn = 5;
    int counts[2] = {0, 0};
    for (int type = KN_ONNX_FLOAT32; type <= KN_ONNX_FLOAT6E3M2; type++) {
        for (int64_t round = 0; round < ROUNDS; round++) {
            uint8_t bytes[1 + 16 * MOST];
            const int64_t length = round % MOST;
            kn_onnx_tensor tensor = {
                .type = (kn_onnx_type)type, .bytes = bytes + 1, .rank = 1, .shape = &length};
            if (type == KN_ONNX_STRING) continue;
            for (size_t i = 0; i < sizeof bytes; i++) {
                drawn = drawn * 1664525 + 1013904223;
                bytes[i] = (uint8_t)(drawn >> 24);
                if (round % 2) bytes[i] &= 0x3f;
            }
            assert_true(kn_onnx_tensor_measure(&tensor));
            bool finite = true;
            for (uint64_t i = 0; i < tensor.count; i++)
                finite = finite && isfinite(kn_onnx_tensor_number(&tensor, i));
            if (kn_onnx_tensor_finite(&tensor) != finite)
                fail_msg("%s, round %d", kn_onnx_type_name(tensor.type), (int)round);
            counts[finite] += type == KN_ONNX_FLOAT32 || type == KN_ONNX_FLOAT16 || type == KN_ONNX_BFLOAT16;
        }
    }
    assert_true(counts[0] > ROUNDS / 6 && counts[1] > ROUNDS / 2);
}

static void inconsistent_tensors_are_refused(void **state) {
    static const struct {
        uint64_t length, type;
        uint32_t field;
        const char *data;
        size_t data_count;
        const char *words;
    } cases[] = {
        {2, KN_ONNX_FLOAT32, FLOATS, "abcd", 4, "1 numbers in float_data; type float32 and the shape need 2"},
        {1, KN_ONNX_FLOAT32, RAW, "abcde", 5, "5 bytes in raw_data"},
        {1, KN_ONNX_INT64, FLOATS, "abcd", 4, "elements of type int64 in float_data; expected int64_data"},
        {1, KN_ONNX_STRING, RAW, "abcd", 4, "elements of type string in raw_data"},
        {1, KN_ONNX_INT8, INT32S, "\x80\2", 2, "a number that its type cannot represent"},
        {1, KN_ONNX_UINT32, UINT64S, "\x80\x80\x80\x80\x10", 5, "a number that its type cannot represent"},
        {1, KN_ONNX_FLOAT6E2M3, INT32S, "\x40", 1, "a number that its type cannot represent"},
        {1, 0, RAW, "a", 1, "element type 0"},
        {1, 29, RAW, "a", 1, "element type 29"},
        {(uint64_t)-1, KN_ONNX_INT8, RAW, "a", 1, "a dimension is negative"},
        {1ull << 62, KN_ONNX_FLOAT32, RAW, "a", 1, "the size overflows"},
        {1ull << 40, KN_ONNX_FLOAT32, RAW, "a", 1, "1 bytes in raw_data"},
        {1ull << 40, KN_ONNX_STRING, STRINGS, "a", 1, "1 numbers in string_data"},
        {1, KN_ONNX_INT64, INT64S, "\x80", 1, "the number is truncated or too long"},
        {1, KN_ONNX_INT8, 14, "", 0, "field 14 is length-delimited bytes; expected a varint"},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        made bytes = {.count = 0};
        add_number(add_number(&bytes, 1, cases[i].length), 2, cases[i].type);
        add_packet(&bytes, cases[i].field, cases[i].data, cases[i].data_count);
        kn_onnx_value_file file;
        kn_error error = {0};
        assert_refused(read_tensor(&bytes, &file, &error), &error, KN_ERROR_FORMAT, cases[i].words);
    }
    made bytes = {.count = 0};
    add_packet(add_packet(add_number(&bytes, 2, 1), RAW, "abcd", 4), FLOATS, "abcd", 4);
    kn_onnx_value_file file;
    kn_error error = {0};
    assert_refused(read_tensor(&bytes, &file, &error), &error, KN_ERROR_FORMAT,
                   "both in float_data and in raw_data");
    bytes.count = 0;
    assert_refused(read_tensor(add_text(&bytes, 3, ""), &file, &error), &error, KN_ERROR_UNSUPPORTED,
                   "has segments");
}

static void tensors_become_arrays(void **state) {
    const int64_t shape[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    kn_onnx_tensor tensor = {
        .type = KN_ONNX_INT16, .rank = 2, .shape = shape, .bytes = (const uint8_t *)"\1\2"};
    assert_true(kn_onnx_tensor_measure(&tensor));
    kn_array array;
    kn_error error = {0};
    assert_fine(kn_onnx_tensor_array(NULL, &tensor, &array, &error), &error);
    assert_int_equal(array.type, KN_INT16);
    assert_true(kn_array_number(&array, 0) == 513);
    kn_array_finish(NULL, &array);
    /* Types below a byte are unpacked to a byte each: 4 bits 1, 2, -1, and 2 bits 1, 2, 3, 0, 1. */
    tensor = (kn_onnx_tensor){
        .type = KN_ONNX_INT4, .rank = 1, .shape = (int64_t[]){3}, .bytes = (const uint8_t *)"\x21\x0f"};
    assert_true(kn_onnx_tensor_measure(&tensor));
    assert_fine(kn_onnx_tensor_array(NULL, &tensor, &array, &error), &error);
    assert_int_equal(array.type, KN_INT8);
    assert_int_equal(array.byte_count, 3);
    assert_memory_equal(array.bytes, "\1\2\xff", 3);
    kn_array_finish(NULL, &array);
    tensor = (kn_onnx_tensor){
        .type = KN_ONNX_UINT2, .rank = 1, .shape = (int64_t[]){5}, .bytes = (const uint8_t *)"\x39\1"};
    assert_true(kn_onnx_tensor_measure(&tensor));
    assert_fine(kn_onnx_tensor_array(NULL, &tensor, &array, &error), &error);
    assert_int_equal(array.type, KN_UINT8);
    assert_memory_equal(array.bytes, "\1\2\3\0\1", 5);
    kn_array_finish(NULL, &array);
    tensor.shape = shape;
    tensor.rank = 9;
    assert_refused(kn_onnx_tensor_array(NULL, &tensor, &array, &error), &error, KN_ERROR_UNSUPPORTED,
                   "9 dimensions");
    tensor.type = KN_ONNX_FLOAT6E2M3;
    assert_refused(kn_onnx_tensor_array(NULL, &tensor, &array, &error), &error, KN_ERROR_UNSUPPORTED,
                   "type float6e2m3");
    /* Floats of 4 bits keep them, each in a byte, and are packed again. */
    tensor = (kn_onnx_tensor){
        .type = KN_ONNX_FLOAT4E2M1, .rank = 1, .shape = (int64_t[]){3}, .bytes = (const uint8_t *)"\x9f\x07"};
    assert_true(kn_onnx_tensor_measure(&tensor));
    assert_fine(kn_onnx_tensor_array(NULL, &tensor, &array, &error), &error);
    assert_int_equal(array.type, KN_FLOAT4E2M1);
    assert_memory_equal(array.bytes, "\x0f\x09\x07", 3);
    assert_true(kn_array_number(&array, 1) == -0.5);
    kn_onnx_pack(array.type, array.owned, array.count);
    assert_memory_equal(array.bytes, "\x9f\x07", 2);
    kn_array_finish(NULL, &array);
    kn_dtype dtype;
    for (int i = 0; i < 30; i++)
        if (kn_onnx_type_to((kn_onnx_type)i, &dtype) && kn_onnx_type_bits((kn_onnx_type)i) >= 8) {
            assert_int_equal(kn_onnx_type_from(dtype), i);
            assert_int_equal(kn_onnx_type_bits((kn_onnx_type)i), 8 * kn_array_type_bytes(dtype));
        }
}

/* ---- external data ------------------------------------------------------------------- */

/* A model with one int8 tensor of four elements in another file. */
static void make_external(made *model, const char *location, const char *offset, const char *length) {
    made tensor = {.count = 0}, graph = {.count = 0};
    add_text(add_number(add_number(add_number(&tensor, 1, 4), 2, KN_ONNX_INT8), 14, 1), 8, "w");
    if (location) add_pair(&tensor, 13, "location", location);
    if (offset) add_pair(&tensor, 13, "offset", offset);
    if (length) add_pair(&tensor, 13, "length", length);
    make_small_model(model, add_message(&graph, 5, &tensor));
}

static void write_file(const char *folder, const char *name, const void *bytes, size_t count) {
    kn_host host = kn_host_defaults();
    char path[512];
    test_path(path, sizeof path, folder, name);
    assert_int_equal(kn_file_write(&host, path, bytes, count, NULL), KN_OK);
}

static void external_data_is_found(void **state) {
    char *folder = test_folder_make(), path[512];
    assert_int_equal(mkdir(test_path(path, sizeof path, folder, "deep"), 0700), 0);
    write_file(folder, "deep/w.bin", "0123456789", 10);
    made bytes;
    make_external(&bytes, "deep/w.bin", "3", "4");
    write_file(folder, "model.onnx", bytes.bytes, bytes.count);
    failing memory = {0};
    kn_host host = failing_host(&memory);
    kn_onnx_model model;
    kn_error error = {0};
    assert_fine(kn_onnx_open(&host, test_path(path, sizeof path, folder, "model.onnx"), &model, &error),
                &error);
    assert_memory_equal(model.graph.initializers[0].bytes, "3456", 4);
    assert_true(model.graph.initializers[0].external);
    kn_onnx_close(&host, &model);
    assert_int_equal(memory.live, 0);
    test_folder_remove(folder);
}

static void external_data_stays_in_the_folder(void **state) {
    static const struct {
        const char *location, *offset, *length;
        kn_status status;
        const char *words;
    } cases[] = {
        {"../w.bin", NULL, NULL, KN_ERROR_FILE, "expected the path of a file within"},
        {"inside/../../w.bin", NULL, NULL, KN_ERROR_FILE, "expected the path of a file within"},
        {"/etc/passwd", NULL, NULL, KN_ERROR_FILE, "expected the path of a file within"},
        {"./w.bin", NULL, NULL, KN_ERROR_FILE, "expected the path of a file within"},
        {"inside//w.bin", NULL, NULL, KN_ERROR_FILE, "expected the path of a file within"},
        {"link.bin", NULL, NULL, KN_ERROR_FILE, "a symbolic link"},
        {"out/w.bin", NULL, NULL, KN_ERROR_FILE, "w.bin"},
        {"missing.bin", NULL, NULL, KN_ERROR_FILE, "missing.bin"},
        {"sub", NULL, NULL, KN_ERROR_FILE, "it is a folder"},
        {NULL, NULL, NULL, KN_ERROR_FORMAT, "are declared as external data"},
        {NULL, "0", NULL, KN_ERROR_FORMAT, "has no location"},
        {"w.bin", "-1", NULL, KN_ERROR_FORMAT, "is not a number"},
        {"w.bin", "1x", NULL, KN_ERROR_FORMAT, "is not a number"},
        {"w.bin", "7", NULL, KN_ERROR_FORMAT, "bytes 7 to 11 of \"w.bin\", which has 10"},
        {"w.bin", "9223372036854775807", NULL, KN_ERROR_FORMAT, "which has 10"},
        {"w.bin", "0", "5", KN_ERROR_FORMAT, "5 bytes of external data, but its type and shape need 4"},
    };
    char *outer = test_folder_make(), path[512], target[512], folder[512];
    assert_int_equal(mkdir(test_path(folder, sizeof folder, outer, "inside"), 0700), 0);
    assert_int_equal(mkdir(test_path(path, sizeof path, folder, "sub"), 0700), 0);
    write_file(outer, "w.bin", "0123456789", 10);
    write_file(folder, "w.bin", "0123456789", 10);
    test_path(target, sizeof target, outer, "w.bin");
    assert_int_equal(symlink(target, test_path(path, sizeof path, folder, "link.bin")), 0);
    assert_int_equal(symlink(outer, test_path(path, sizeof path, folder, "out")), 0);
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        made bytes;
        make_external(&bytes, cases[i].location, cases[i].offset, cases[i].length);
        failing memory = {0};
        kn_host host = failing_host(&memory);
        kn_onnx_model model;
        kn_error error = {0};
        assert_refused(kn_onnx_read(&host, "x", bytes.bytes, bytes.count, folder, &model, &error), &error,
                       cases[i].status, cases[i].words);
        assert_int_equal(memory.live, 0);
    }
    made bytes;
    make_external(&bytes, "w.bin", NULL, NULL);
    kn_onnx_model model;
    kn_error error = {0};
    assert_refused(kn_onnx_read(NULL, "x", bytes.bytes, bytes.count, NULL, &model, &error), &error,
                   KN_ERROR_UNSUPPORTED, "external data is not supported here");
    test_folder_remove(outer);
}

/* ---- values --------------------------------------------------------------------------- */

static void values_hold_values(void **state) {
    made sequence = {.count = 0}, optional = {.count = 0};
    add_tensor(add_tensor(add_number(add_text(&sequence, 1, "s"), 2, 1), 3, "a", 2), 3, "b", 0);
    add_message(add_number(&optional, 2, 3), 5, &sequence);
    failing memory = {0};
    kn_host host = failing_host(&memory);
    kn_onnx_value_file file;
    kn_error error = {0};
    assert_fine(
        kn_onnx_value_read(&host, "x", optional.bytes, optional.count, KN_ONNX_OPTIONAL, &file, &error),
        &error);
    assert_int_equal(file.value.count, 1);
    assert_int_equal(file.value.item_kind, KN_ONNX_SEQUENCE);
    const kn_onnx_value *inner = &file.value.items[0];
    assert_string_equal(inner->name, "s");
    assert_int_equal(inner->count, 2);
    assert_string_equal(inner->items[0].name, "a");
    assert_int_equal(inner->items[0].tensor->count, 2);
    kn_onnx_value_close(&host, &file);
    kn_onnx_value_close(&host, &file);
    /* An empty optional; its kind is known. */
    assert_fine(kn_onnx_value_read(&host, "x", (const uint8_t *)"\x10\1", 2, KN_ONNX_OPTIONAL, &file, &error),
                &error);
    assert_int_equal(file.value.count, 0);
    assert_int_equal(file.value.item_kind, KN_ONNX_TENSOR);
    kn_onnx_value_close(&host, &file);
    made two = {.count = 0};
    add_tensor(add_tensor(add_number(&two, 2, 1), 3, "a", 1), 3, "b", 1);
    assert_refused(kn_onnx_value_read(&host, "x", two.bytes, two.count, KN_ONNX_OPTIONAL, &file, &error),
                   &error, KN_ERROR_FORMAT, "an optional contains 2 values");
    add_message(&two, 5, &sequence);
    assert_refused(kn_onnx_value_read(&host, "x", two.bytes, two.count, KN_ONNX_SEQUENCE, &file, &error),
                   &error, KN_ERROR_FORMAT, "contains a different kind");
    assert_refused(
        kn_onnx_value_read(&host, "x", (const uint8_t *)"\x10\4", 2, KN_ONNX_SEQUENCE, &file, &error), &error,
        KN_ERROR_UNSUPPORTED, "maps are not supported");
    assert_refused(kn_onnx_value_read(&host, "x", NULL, 0, KN_ONNX_MAP, &file, &error), &error,
                   KN_ERROR_UNSUPPORTED, "a map is not supported");
    made deep = {.count = 0};
    for (int i = 0; i < 200; i++) {
        made outer = {.count = 0};
        deep = *add_message(add_number(&outer, 2, 3), 5, &deep);
    }
    assert_refused(kn_onnx_value_read(&host, "x", deep.bytes, deep.count, KN_ONNX_SEQUENCE, &file, &error),
                   &error, KN_ERROR_FORMAT, "values are nested");
    assert_int_equal(memory.live, 0);
}

int test_onnx_tensor(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_are_packed_from_any_field),
        cmocka_unit_test(numbers_need_not_be_packed),
        cmocka_unit_test(special_numbers),
        cmocka_unit_test(finite_tensors),
        cmocka_unit_test(inconsistent_tensors_are_refused),
        cmocka_unit_test(tensors_become_arrays),
        cmocka_unit_test(external_data_is_found),
        cmocka_unit_test(external_data_stays_in_the_folder),
        cmocka_unit_test(values_hold_values),
    };
    return cmocka_run_group_tests_name("onnx tensors", tests, NULL, NULL);
}
