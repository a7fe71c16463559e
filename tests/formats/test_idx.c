/* IDX files, uncompressed and compressed. */
#include "formats_tests.h"

#include <stdlib.h>
#include <string.h>

TEST(types_are_read) {
    static const struct {
        uint8_t code;
        kn_dtype type;
        const char *data;
        double value;
    } cases[] = {
        {0x08, KN_UINT8, "\xfe", 254},           {0x09, KN_INT8, "\xfe", -2},
        {0x0b, KN_INT16, "\xff\xfe", -2},        {0x0c, KN_INT32, "\xff\xff\xff\xfe", -2},
        {0x0d, KN_FLOAT32, "\x3f\xc0\0\0", 1.5}, {0x0e, KN_FLOAT64, "\xbf\xf8\0\0\0\0\0\0", -1.5},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        size_t size = kn_array_type_bytes(cases[i].type);
        uint8_t bytes[24] = {0, 0, cases[i].code, 1, 0, 0, 0, 2};
        memcpy(bytes + 8 + size, cases[i].data, size);
        kn_array array;
        kn_error error = {0};
        assert_fine(kn_idx_read(NULL, "x", bytes, 8 + 2 * size, &array, &error), &error);
        assert_int_equal(array.type, cases[i].type);
        assert_int_equal(array.count, 2);
        assert_true(kn_array_number(&array, 0) == 0);
        assert_true(kn_array_number(&array, 1) == cases[i].value);
        kn_array_finish(NULL, &array);
    }
}

TEST(faults_are_named) {
    static const struct {
        const char *bytes;
        size_t count;
        kn_status status;
        const char *part;
    } cases[] = {
        {"\0\0", 2, KN_ERROR_FORMAT, "2 bytes, too short"},
        {"\1\0\10\1\0\0\0\0", 8, KN_ERROR_FORMAT, "byte 0: found 01 00"},
        {"\0\0\12\1\0\0\0\0", 8, KN_ERROR_FORMAT, "byte 2: type 0a"},
        {"\0\0\10\11\0\0\0\0", 8, KN_ERROR_UNSUPPORTED, "9 dimensions"},
        {"\0\0\10\3\0\0\0\1\0\0\0\1", 12, KN_ERROR_FORMAT, "within its header of 16 bytes"},
        {"\0\0\10\1\0\0\0\2a", 9, KN_ERROR_FORMAT, "shape (2,) of uint8 needs 2 bytes after byte 8, found 1"},
        {"\0\0\10\1\0\0\0\1ab", 10, KN_ERROR_FORMAT, "needs 1 bytes after byte 8, found 2"},
        {"\0\0\10\3\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 16, KN_ERROR_FORMAT,
         "exceeds the address space"},
        {"\0\0\16\1\xff\xff\xff\xff", 8, KN_ERROR_FORMAT, "needs 34359738360 bytes"},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        kn_array array;
        kn_error error = {0};
        assert_refused(
            kn_idx_read(NULL, "x", (const uint8_t *)cases[i].bytes, cases[i].count, &array, &error), &error,
            cases[i].status, cases[i].part);
    }
}

TEST(files_are_opened) {
    static const uint8_t plain[] = {0, 0, 11, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 7, 1, 0};
    char *folder = test_folder_make(), path[512];
    size_t count;
    uint8_t *packed = pack(plain, sizeof plain, &count);
    const struct {
        const char *name;
        const void *bytes;
        size_t count;
    } files[] = {{"plain", plain, sizeof plain}, {"packed", packed, count}};
    for (size_t i = 0; i < 2; i++) {
        failing memory = {0};
        kn_host host = failing_host(&memory);
        kn_error error = {0};
        kn_array_file file;
        assert_fine(kn_file_write(NULL, test_path(path, sizeof path, folder, files[i].name), files[i].bytes,
                                  files[i].count, &error),
                    &error);
        assert_fine(kn_idx_open(&host, path, &file, &error), &error);
        assert_int_equal(file.array.rank, 2);
        assert_true(kn_array_number(&file.array, 0) == 7 && kn_array_number(&file.array, 1) == 256);
        kn_array_file_close(&host, &file);
        assert_int_equal(memory.live, 0);
        /* Truncated: the error names the file, and nothing leaks. */
        assert_fine(kn_file_write(NULL, path, files[i].bytes, files[i].count - 1, &error), &error);
        assert_refused(kn_idx_open(&host, path, &file, &error), &error, KN_ERROR_FORMAT, path);
        assert_int_equal(memory.live, 0);
    }
    free(packed);
    test_folder_remove(folder);
}

TEST_FILE(test_idx, NULL, NULL)
