/* npy: files as NumPy and Koine write them, and invalid ones. */
#include "formats_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file of the given version with that header text (padded as NumPy does) and data; the caller frees it. */
static uint8_t *make_file(int version, const char *header, const void *data, size_t data_count,
                          size_t *count) {
    size_t begin = version == 1 ? 10 : 12, length = strlen(header);
    size_t whole = (begin + length + 1 + 63) / 64 * 64;
    uint8_t *bytes = calloc(1, whole + data_count + 1);
    assert_non_null(bytes);
    memcpy(bytes, "\x93NUMPY", 6);
    bytes[6] = (uint8_t)version;
    size_t field = whole - begin;
    for (size_t i = 0; i < begin - 8; i++)
        bytes[8 + i] = (uint8_t)(field >> (8 * i));
    memset(bytes + begin, ' ', field);
    memcpy(bytes + begin, header, length);
    bytes[whole - 1] = '\n';
    if (data_count > 0) memcpy(bytes + whole, data, data_count);
    *count = whole + data_count;
    return bytes;
}

TEST(numbers_are_read) {
    static const struct {
        int version;
        const char *type;
        kn_dtype read;
        const char *data;
        size_t size;
        double first, second;
    } cases[] = {
        {1, "<f4", KN_FLOAT32, "\0\0\xc0\x3f\0\0\0\xc0", 4, 1.5, -2},
        {2, ">f4", KN_FLOAT32, "\x3f\xc0\0\0\xc0\0\0\0", 4, 1.5, -2},
        {3, "<f8", KN_FLOAT64, "\0\0\0\0\0\0\xf8\x3f\0\0\0\0\0\0\0\xc0", 8, 1.5, -2},
        {1, ">f8", KN_FLOAT64, "\x3f\xf8\0\0\0\0\0\0\xc0\0\0\0\0\0\0\0", 8, 1.5, -2},
        {1, "<f2", KN_FLOAT16, "\0\x3e\0\xc0", 2, 1.5, -2},
        {1, "|i1", KN_INT8, "\5\xfe", 1, 5, -2},
        {1, "<i2", KN_INT16, "\5\0\xfe\xff", 2, 5, -2},
        {1, ">i2", KN_INT16, "\0\5\xff\xfe", 2, 5, -2},
        {1, "<i4", KN_INT32, "\5\0\0\0\xfe\xff\xff\xff", 4, 5, -2},
        {1, ">i8", KN_INT64, "\0\0\0\0\0\0\0\5\xff\xff\xff\xff\xff\xff\xff\xfe", 8, 5, -2},
        {1, "|u1", KN_UINT8, "\5\xfe", 1, 5, 254},
        {1, ">u2", KN_UINT16, "\0\5\xff\xfe", 2, 5, 65534},
        {1, "<u4", KN_UINT32, "\5\0\0\0\xfe\xff\xff\xff", 4, 5, 4294967294.0},
        {1, "<u8", KN_UINT64, "\5\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0", 8, 5, 4294967296.0},
        {1, "|b1", KN_BOOL, "\0\1", 1, 0, 1},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        char header[128];
        size_t count;
        snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (2,), }",
                 cases[i].type);
        uint8_t *bytes = make_file(cases[i].version, header, cases[i].data, 2 * cases[i].size, &count);
        kn_array array;
        kn_error error = {0};
        assert_fine(kn_npy_read(NULL, "x.npy", bytes, count, &array, &error), &error);
        assert_int_equal(array.type, cases[i].read);
        assert_int_equal(array.rank, 1);
        assert_int_equal(array.shape[0], 2);
        assert_int_equal(array.byte_count, 2 * cases[i].size);
        assert_true(kn_array_number(&array, 0) == cases[i].first);
        assert_true(kn_array_number(&array, 1) == cases[i].second);
        /* Bytes in the right order are not copied. */
        assert_int_equal(array.owned == NULL, cases[i].type[0] != '>');
        kn_array_finish(NULL, &array);
        free(bytes);
    }
}

TEST(fortran_order_is_transposed) {
    /* numpy.asfortranarray(numpy.arange(24).reshape(2, 3, 4)), big endian */
    uint8_t data[48];
    int next = 0;
    for (int k = 0; k < 4; k++)
        for (int j = 0; j < 3; j++)
            for (int i = 0; i < 2; i++) {
                data[next++] = 0;
                data[next++] = (uint8_t)(i * 12 + j * 4 + k);
            }
    size_t count;
    uint8_t *bytes = make_file(1, "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3, 4), }", data,
                               sizeof data, &count);
    kn_array array;
    kn_error error = {0};
    assert_fine(kn_npy_read(NULL, "x.npy", bytes, count, &array, &error), &error);
    assert_int_equal(array.count, 24);
    for (uint64_t i = 0; i < 24; i++)
        assert_true(kn_array_number(&array, i) == (double)i);
    kn_array_finish(NULL, &array);
    free(bytes);
    /* With one dimension both orders are the same. */
    bytes = make_file(1, "{'descr': '<i2', 'fortran_order': True, 'shape': (1, 24, 1), }", data, sizeof data,
                      &count);
    assert_fine(kn_npy_read(NULL, "x.npy", bytes, count, &array, &error), &error);
    assert_null(array.owned);
    free(bytes);
}

TEST(headers_may_vary) {
    static const char *const headers[] = {
        "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 1), }",
        "{\"shape\":(2,1),\"descr\":\"<i2\",\"fortran_order\":False}",
        " { 'shape' : ( 2L , 1L ) , 'fortran_order' : False , 'descr' : '<i2' } ",
    };
    for (size_t i = 0; i < KN_COUNT_OF(headers); i++) {
        size_t count;
        uint8_t *bytes = make_file(1 + (int)i, headers[i], "\1\0\2\0", 4, &count);
        kn_array array;
        kn_error error = {0};
        assert_fine(kn_npy_read(NULL, "x.npy", bytes, count, &array, &error), &error);
        assert_int_equal(array.rank, 2);
        assert_true(kn_array_number(&array, 1) == 2);
        free(bytes);
    }
    static const struct {
        const char *shape;
        int rank;
        uint64_t count;
    } shapes[] = {{"()", 0, 1}, {"(0,)", 1, 0}, {"(3, 0, 2)", 3, 0}, {"(1, 1, 1, 1, 1, 1, 1, 1)", 8, 1}};
    for (size_t i = 0; i < KN_COUNT_OF(shapes); i++) {
        char header[160];
        size_t count;
        snprintf(header, sizeof header, "{'descr': '|u1', 'fortran_order': True, 'shape': %s}",
                 shapes[i].shape);
        uint8_t *bytes = make_file(1, header, "\7", (size_t)shapes[i].count, &count);
        kn_array array;
        kn_error error = {0};
        assert_fine(kn_npy_read(NULL, "x.npy", bytes, count, &array, &error), &error);
        assert_int_equal(array.rank, shapes[i].rank);
        assert_int_equal(array.count, shapes[i].count);
        free(bytes);
    }
}

TEST(wrong_headers_are_explained) {
    static const struct {
        const char *header;
        kn_status status;
        const char *part;
    } cases[] = {
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (2,)}", KN_ERROR_UNSUPPORTED,
         "byte 20: found \"'<c8'"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", KN_ERROR_UNSUPPORTED,
         "a type such as"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (2,)}", KN_ERROR_UNSUPPORTED, "a type such as"},
        {"{'descr': '<f4', 'fortran_order': 1, 'shape': (2,)}", KN_ERROR_FORMAT, "True or False"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 2}", KN_ERROR_FORMAT, "(60000, 28, 28)"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", KN_ERROR_FORMAT, "a dimension"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}", KN_ERROR_FORMAT, "',' or ')'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}", KN_ERROR_FORMAT,
         "below 2^63"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807,)}", KN_ERROR_FORMAT,
         "exceeds the address space"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", KN_ERROR_FORMAT,
         "at most 8"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", KN_ERROR_FORMAT,
         "needs 12 bytes after byte 128, found 8"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", KN_ERROR_FORMAT,
         "needs 4 bytes after byte 128, found 8"},
        {"{'descr': '<f4', 'fortran_order': False}", KN_ERROR_FORMAT, "each once"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", KN_ERROR_FORMAT,
         "each once"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}", KN_ERROR_FORMAT,
         "found \"'x': 1"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} more", KN_ERROR_FORMAT, "up to the end"},
        {"{'descr: '<f4'", KN_ERROR_FORMAT, "'"},
        {"['descr']", KN_ERROR_FORMAT, "'{'"},
        {"", KN_ERROR_FORMAT, "'{'"},
        {"{'descr'\1\xff: 0}", KN_ERROR_FORMAT, "\\x01\\xff: 0"},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        size_t count;
        uint8_t *bytes = make_file(1, cases[i].header, "12345678", 8, &count);
        kn_array array;
        kn_error error = {0};
        assert_refused(kn_npy_read(NULL, "bad.npy", bytes, count, &array, &error), &error, cases[i].status,
                       cases[i].part);
        assert_null(array.owned);
        assert_int_equal(kn_npy_read(NULL, "bad.npy", bytes, count, &array, NULL), cases[i].status);
        free(bytes);
    }
}

TEST(wrong_magic_is_explained) {
    kn_array array;
    kn_error error = {0};
    const uint8_t *nothing = (const uint8_t *)"";
    assert_refused(kn_npy_read(NULL, "a", nothing, 0, &array, &error), &error, KN_ERROR_FORMAT, "a: byte 0");
    assert_refused(kn_npy_read(NULL, "a", (const uint8_t *)"PK\3\4      ", 10, &array, &error), &error,
                   KN_ERROR_FORMAT, "not an npy file");
    assert_refused(kn_npy_read(NULL, "a", (const uint8_t *)"\x93NUMPY\4\0  ", 10, &array, &error), &error,
                   KN_ERROR_UNSUPPORTED, "version 4.0");
    assert_refused(kn_npy_read(NULL, "a", (const uint8_t *)"\x93NUMPY\2\0  ", 10, &array, &error), &error,
                   KN_ERROR_FORMAT, "before its header");
    assert_refused(
        kn_npy_read(NULL, "a", (const uint8_t *)"\x93NUMPY\2\0\xff\xff\xff\xff{", 13, &array, &error), &error,
        KN_ERROR_FORMAT, "header of 4294967295 bytes, but the file has 1 more");
}

TEST(written_files_are_read) {
    static const kn_dtype types[] = {KN_FLOAT32, KN_FLOAT64, KN_FLOAT16, KN_INT8,   KN_INT16,  KN_INT32,
                                     KN_INT64,   KN_UINT8,   KN_UINT16,  KN_UINT32, KN_UINT64, KN_BOOL};
    static const uint8_t data[48] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    char *folder = test_folder_make(), path[512];
    test_path(path, sizeof path, folder, "x.npy");
    for (size_t i = 0; i < KN_COUNT_OF(types); i++) {
        failing memory = {0};
        kn_host host = failing_host(&memory);
        kn_error error = {0};
        kn_array array = {.type = types[i], .rank = 2, .shape = {3, 2}, .bytes = data};
        kn_array_file file;
        assert_fine(kn_npy_write(&host, path, &array, &error), &error);
        assert_fine(kn_npy_open(&host, path, &file, &error), &error);
        assert_int_equal(file.array.type, types[i]);
        assert_int_equal(file.array.rank, 2);
        assert_int_equal(file.array.count, 6);
        assert_memory_equal(file.array.bytes, data, file.array.byte_count);
        assert_int_equal((uintptr_t)file.array.bytes % 64, 0);
        kn_array_file_close(&host, &file);
        assert_int_equal(memory.live, 0);
    }
    kn_error error = {0};
    kn_array array = {.type = KN_BFLOAT16, .rank = 1, .shape = {1}, .bytes = data};
    assert_refused(kn_npy_write(NULL, path, &array, &error), &error, KN_ERROR_UNSUPPORTED, "bfloat16");
    array = (kn_array){.type = KN_UINT8, .rank = 1, .shape = {-1}, .bytes = data};
    assert_refused(kn_npy_write(NULL, path, &array, &error), &error, KN_ERROR_ARGUMENT,
                   "is invalid or overflows");
    kn_array_file file;
    assert_fine(kn_npy_open(NULL, path, &file, &error), &error); /* the existing file is unchanged */
    kn_array_file_close(NULL, &file);
    assert_refused(kn_npy_open(NULL, folder, &file, &error), &error, KN_ERROR_FILE, folder);
    test_folder_remove(folder);
}

TEST(header_is_as_numpy_writes_it) {
    char *folder = test_folder_make(), path[512];
    kn_error error = {0};
    kn_array array = {.type = KN_UINT8, .rank = 1, .shape = {3}, .bytes = "abc"};
    uint8_t *bytes;
    uint64_t count;
    assert_fine(kn_npy_write(NULL, test_path(path, sizeof path, folder, "x.npy"), &array, &error), &error);
    assert_fine(kn_file_read(NULL, path, 1000, &bytes, &count, &error), &error);
    static const char expected[] =
        "\x93NUMPY\1\0v\0{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }";
    assert_int_equal(count, 131);
    assert_memory_equal(bytes, expected, sizeof expected - 1);
    assert_memory_equal(bytes + 125, "  \nabc", 6);
    kn_release(NULL, bytes);
    test_folder_remove(folder);
}

TEST_FILE(test_npy, NULL, NULL)
