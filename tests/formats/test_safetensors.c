/* safetensors: files written and read, and invalid headers. */
#include "formats_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file with that header and `data_count` bytes 0, 1, 2, ...; the caller frees it. */
static uint8_t *make_file(const char *header, size_t data_count, size_t *count) {
    size_t length = strlen(header);
    *count = 8 + length + data_count;
    uint8_t *bytes = malloc(*count);
    assert_non_null(bytes);
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)((uint64_t)length >> (8 * i));
    memcpy(bytes + 8, header, length);
    for (size_t i = 0; i < data_count; i++)
        bytes[8 + length + i] = (uint8_t)i;
    return bytes;
}

TEST(tensors_are_read) {
    /* As the reference library writes it: padded with blanks, with keys in any order. */
    static const char header[] = "{\"__metadata__\":{\"format\":\"pt\",\"n\\u00f6te\":\"\"},"
                                 "\"b\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[4,12]},"
                                 "\"none\":{\"data_offsets\":[4,4],\"shape\":[0,7],\"dtype\":\"I64\"},"
                                 "\"a\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[12,14]},"
                                 "\"first\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}   ";
    size_t count;
    uint8_t *bytes = make_file(header, 14, &count);
    failing memory = {0};
    kn_host host = failing_host(&memory);
    kn_safetensors file;
    kn_error error = {0};
    assert_fine(kn_safetensors_read(&host, "x", bytes, count, &file, &error), &error);
    assert_int_equal(file.count, 4);
    assert_string_equal(file.tensors[0].name, "b");
    assert_int_equal(file.metadata_count, 2);
    assert_string_equal(kn_safetensors_metadata(&file, "format"), "pt");
    assert_string_equal(kn_safetensors_metadata(&file, "n\xc3\xb6te"), "");
    assert_null(kn_safetensors_metadata(&file, "other"));
    assert_null(kn_safetensors_find(&file, "other"));
    const kn_safetensor *b = kn_safetensors_find(&file, "b");
    assert_int_equal(b->array.type, KN_FLOAT32);
    assert_int_equal(b->array.rank, 2);
    assert_int_equal(b->array.byte_count, 8);
    assert_int_equal(((const uint8_t *)b->array.bytes)[0], 4);
    assert_int_equal(kn_safetensors_find(&file, "a")->array.count, 1);
    assert_int_equal(kn_safetensors_find(&file, "none")->array.count, 0);
    kn_safetensors_close(&host, &file);
    kn_safetensors_close(&host, &file);
    assert_int_equal(memory.live, 0);
    free(bytes);
}

TEST(all_types_are_known) {
    static const struct {
        const char *name;
        kn_dtype type;
    } cases[] = {
        {"F64", KN_FLOAT64},
        {"F32", KN_FLOAT32},
        {"F16", KN_FLOAT16},
        {"BF16", KN_BFLOAT16},
        {"I64", KN_INT64},
        {"I32", KN_INT32},
        {"I16", KN_INT16},
        {"I8", KN_INT8},
        {"U64", KN_UINT64},
        {"U32", KN_UINT32},
        {"U16", KN_UINT16},
        {"U8", KN_UINT8},
        {"BOOL", KN_BOOL},
        {"F8_E4M3", KN_FLOAT8E4M3FN},
        {"F8_E5M2", KN_FLOAT8E5M2},
        {"F8_E8M0", KN_FLOAT8E8M0},
        {"F8_E4M3FNUZ", KN_FLOAT8E4M3FNUZ},
        {"F8_E5M2FNUZ", KN_FLOAT8E5M2FNUZ},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        size_t size = kn_array_type_bytes(cases[i].type), count;
        kn_text header;
        kn_text_init(&header, NULL);
        kn_text_format(&header, "{\"t\":{\"dtype\":\"%s\",\"shape\":[3],\"data_offsets\":[0,%zu]}}",
                       cases[i].name, 3 * size);
        uint8_t *bytes = make_file(header.data, 3 * size, &count);
        kn_safetensors file;
        kn_error error = {0};
        assert_fine(kn_safetensors_read(NULL, "x", bytes, count, &file, &error), &error);
        assert_int_equal(file.tensors[0].array.type, cases[i].type);
        kn_safetensors_close(NULL, &file);
        kn_text_finish(&header);
        free(bytes);
    }
}

#define T(name, shape, begin, end)                                                                           \
    "\"" name "\":{\"dtype\":\"U8\",\"shape\":[" shape "],\"data_offsets\":[" #begin "," #end "]}"

TEST(inconsistent_headers_are_refused) {
    static const struct {
        const char *header;
        kn_status status;
        const char *part;
    } cases[] = {
        {"{" T("a", "4", 0, 4) "," T("b", "4", 3, 7) "}", KN_ERROR_FORMAT,
         "tensor \"b\": begins at byte 3 of the data, expected 4: tensors overlap"},
        {"{" T("a", "8", 0, 8) "," T("b", "4", 2, 6) "}", KN_ERROR_FORMAT, "overlap"},
        {"{" T("a", "3", 0, 3) "," T("b", "4", 4, 8) "}", KN_ERROR_FORMAT,
         "tensor \"b\": begins at byte 4 of the data, expected 3: tensors leave a gap"},
        {"{" T("a", "4", 4, 8) "}", KN_ERROR_FORMAT, "leave a gap"},
        {"{" T("a", "7", 0, 7) "}", KN_ERROR_FORMAT,
         "the tensors end at byte 7 of the data, but the file at 8"},
        {"{}", KN_ERROR_FORMAT, "the tensors end at byte 0"},
        {"{" T("a", "9", 0, 9) "}", KN_ERROR_FORMAT, "data_offsets [0, 9], expected a range within [0, 8]"},
        {"{" T("a", "8", 8, 0) "}", KN_ERROR_FORMAT, "data_offsets [8, 0]"},
        {"{" T("a", "8", -8, 0) "}", KN_ERROR_FORMAT, "data_offsets [-8, 0]"},
        {"{" T("a", "8", 0, 9223372036854775808) "}", KN_ERROR_FORMAT, "expected two integers"},
        {"{" T("a", "8", 0, 8.0) "}", KN_ERROR_FORMAT, "expected two integers"},
        {"{" T("a", "7", 0, 8) "}", KN_ERROR_FORMAT, "data_offsets span 8 bytes, but shape (7,) of uint8"},
        {"{" T("a", "4294967296,4294967296", 0, 0) "}", KN_ERROR_FORMAT, "more than the address space"},
        {"{" T("a", "9223372036854775808", 0, 8) "}", KN_ERROR_FORMAT, "a dimension"},
        {"{" T("a", "-8", 0, 8) "}", KN_ERROR_FORMAT, "a dimension"},
        {"{" T("a", "1,1,1,1,1,1,1,1,8", 0, 8) "}", KN_ERROR_UNSUPPORTED, "9 dimensions"},
        {"{" T("a", "8", 0, 8) "," T("a", "8", 0, 8) "}", KN_ERROR_FORMAT, "distinct keys"},
        {"{" T("a\\u0000b", "8", 0, 8) "}", KN_ERROR_FORMAT, "a zero character"},
        {"{\"__metadata__\":{\"k\":\"a\\u0000b\"}," T("a", "8", 0, 8) "}", KN_ERROR_FORMAT,
         "a zero character"},
        {"{\"__metadata__\":{\"k\":1}," T("a", "8", 0, 8) "}", KN_ERROR_FORMAT,
         "found a number, expected a string"},
        {"{\"__metadata__\":[]," T("a", "8", 0, 8) "}", KN_ERROR_FORMAT, "an object of strings"},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[16],\"data_offsets\":[0,8]}}", KN_ERROR_UNSUPPORTED,
         "type \"F4\""},
        {"{\"a\":{\"dtype\":8,\"shape\":[8],\"data_offsets\":[0,8]}}", KN_ERROR_FORMAT,
         "byte 22: found a number, expected the name of a type"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":8,\"data_offsets\":[0,8]}}", KN_ERROR_FORMAT,
         "an array of dimensions"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[8]}}", KN_ERROR_FORMAT, "dtype, shape and data_offsets"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8],\"more\":0}}", KN_ERROR_FORMAT,
         "dtype, shape and data_offsets"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[[8]],\"data_offsets\":[0,8]}}", KN_ERROR_FORMAT,
         "found an array"},
        {"{\"a\":[[[[[]]]]]}", KN_ERROR_FORMAT, "no deeper nesting"},
        {"{\"a\":1}", KN_ERROR_FORMAT, "tensor \"a\": byte 13: found a number"},
        {"{\"a\":", KN_ERROR_FORMAT, "the text ends here"},
        {"[]", KN_ERROR_FORMAT, "does not begin with '{'"},
        {" {}", KN_ERROR_FORMAT, "does not begin with '{'"},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        size_t count;
        uint8_t *bytes = make_file(cases[i].header, 8, &count);
        failing memory = {0};
        kn_host host = failing_host(&memory);
        kn_safetensors file;
        kn_error error = {0};
        assert_refused(kn_safetensors_read(&host, "x", bytes, count, &file, &error), &error, cases[i].status,
                       cases[i].part);
        assert_null(file.tensors);
        assert_int_equal(memory.live, 0);
        free(bytes);
    }
    kn_safetensors file;
    kn_error error = {0};
    assert_refused(kn_safetensors_read(NULL, "x", (const uint8_t *)"1234567", 7, &file, &error), &error,
                   KN_ERROR_FORMAT, "7 bytes, too short");
    assert_refused(kn_safetensors_read(NULL, "x", (const uint8_t *)"\3\0\0\0\0\0\0\0{}", 10, &file, &error),
                   &error, KN_ERROR_FORMAT, "a header of 3 bytes; expected at most the 2");
    assert_refused(kn_safetensors_read(NULL, "x", (const uint8_t *)"\377\377\377\377\377\377\377\377{}", 10,
                                       &file, &error),
                   &error, KN_ERROR_FORMAT, "18446744073709551615");
    assert_fine(kn_safetensors_read(NULL, "x", (const uint8_t *)"\2\0\0\0\0\0\0\0{}", 10, &file, &error),
                &error);
    assert_int_equal(file.count, 0);
    kn_safetensors_close(NULL, &file);
}

TEST(written_files_are_read) {
    static const float weights[6] = {1, 2, 3, 4, 5, 6};
    static const uint8_t flags[3] = {1, 0, 1};
    const kn_safetensor tensors[] = {
        {"layer.weight", {.type = KN_FLOAT32, .rank = 2, .shape = {2, 3}, .bytes = weights}},
        {"empty", {.type = KN_INT64, .rank = 1, .shape = {0}}},
        {"flags \"\xc3\xa9\"", {.type = KN_BOOL, .rank = 1, .shape = {3}, .bytes = flags}},
    };
    const kn_text_pair metadata[] = {{"model", "koine 1\nmodel lenet\n"}, {"step", "17"}};
    char *folder = test_folder_make(), path[512];
    test_path(path, sizeof path, folder, "m.safetensors");
    failing memory = {0};
    kn_host host = failing_host(&memory);
    kn_error error = {0};
    kn_safetensors file;
    assert_fine(kn_safetensors_write(&host, path, tensors, 3, metadata, 2, &error), &error);
    assert_fine(kn_safetensors_open(&host, path, &file, &error), &error);
    assert_int_equal(file.count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(file.tensors[i].name, tensors[i].name);
        assert_int_equal(file.tensors[i].array.type, tensors[i].array.type);
        assert_int_equal(file.tensors[i].array.rank, tensors[i].array.rank);
    }
    assert_memory_equal(file.tensors[0].array.bytes, weights, sizeof weights);
    assert_memory_equal(file.tensors[2].array.bytes, flags, sizeof flags);
    assert_int_equal((uintptr_t)file.tensors[0].array.bytes % 8, 0);
    assert_string_equal(kn_safetensors_metadata(&file, "model"), metadata[0].value);
    kn_safetensors_close(&host, &file);
    assert_fine(kn_safetensors_write(&host, path, NULL, 0, NULL, 0, &error), &error);
    assert_fine(kn_safetensors_open(&host, path, &file, &error), &error);
    assert_int_equal(file.count + file.metadata_count, 0);
    kn_safetensors_close(&host, &file);
    assert_int_equal(memory.live, 0);
    test_folder_remove(folder);
}

TEST(failed_writes_leave_no_file) {
    static const uint8_t data[8] = {0};
    const kn_safetensor tensors[] = {{"a", {.type = KN_UINT8, .rank = 1, .shape = {4}, .bytes = data}},
                                     {"b", {.type = KN_FLOAT32, .rank = 0, .bytes = data}}};
    char *folder = test_folder_make(), path[512];
    test_path(path, sizeof path, folder, "m.safetensors");
    kn_error error = {0};
    kn_safetensors_writer *writer;
    assert_fine(kn_safetensors_writer_open(NULL, path, tensors, 2, NULL, 0, &writer, &error), &error);
    assert_fine(kn_safetensors_writer_add(writer, data, 3, &error), &error);
    assert_fine(kn_safetensors_writer_add(writer, data, 4, &error), &error);
    assert_refused(kn_safetensors_writer_add(writer, data, 2, &error), &error, KN_ERROR_ARGUMENT,
                   "1 bytes more");
    assert_refused(kn_safetensors_writer_commit(&writer, &error), &error, KN_ERROR_ARGUMENT,
                   "got 7 bytes of tensors, but 8 were declared");
    assert_null(writer);
    assert_false(kn_path_exists(path));
    assert_fine(kn_safetensors_writer_open(NULL, path, tensors, 2, NULL, 0, &writer, &error), &error);
    kn_safetensors_writer_abandon(&writer);
    assert_null(writer);
    kn_safetensors_writer_abandon(&writer);
    kn_safetensors_writer_abandon(NULL);
    assert_false(kn_path_exists(path));
    assert_fine(kn_safetensors_writer_open(NULL, path, tensors, 2, NULL, 0, &writer, &error), &error);
    assert_fine(kn_safetensors_writer_add(writer, data, 8, &error), &error);
    assert_fine(kn_safetensors_writer_commit(&writer, &error), &error);
    assert_true(kn_path_exists(path));
    test_folder_remove(folder);
}

TEST(wrong_tensors_are_refused) {
    kn_safetensor pair[2] = {{"a", {.type = KN_UINT8, .rank = 1, .shape = {0}}},
                             {"a", {.type = KN_UINT8, .rank = 1, .shape = {0}}}};
    const kn_text_pair twice[] = {{"k", "1"}, {"k", "2"}};
    kn_error error = {0};
    const char *nowhere = "/nowhere/at all/m.safetensors";
    assert_refused(kn_safetensors_write(NULL, nowhere, pair, 2, NULL, 0, &error), &error, KN_ERROR_ARGUMENT,
                   "reserved or used twice");
    assert_refused(kn_safetensors_write(NULL, nowhere, pair, 1, twice, 2, &error), &error, KN_ERROR_ARGUMENT,
                   "twice");
    assert_refused(kn_safetensors_write(NULL, nowhere, pair, 1, twice, 1, &error), &error, KN_ERROR_FILE,
                   nowhere);
    pair[0].name = "__metadata__";
    assert_refused(kn_safetensors_write(NULL, nowhere, pair, 1, NULL, 0, &error), &error, KN_ERROR_ARGUMENT,
                   "reserved or used twice");
    pair[0].name = "c";
    pair[0].array.shape[0] = -1;
    assert_refused(kn_safetensors_write(NULL, nowhere, pair, 1, NULL, 0, &error), &error, KN_ERROR_ARGUMENT,
                   "is invalid or overflows");
}

TEST(memory_may_run_out) {
    char *folder = test_folder_make(), path[512];
    test_path(path, sizeof path, folder, "m.safetensors");
    static const uint8_t data[4] = {0};
    const kn_safetensor tensor = {"a", {.type = KN_UINT8, .rank = 1, .shape = {4}, .bytes = data}};
    const kn_text_pair metadata = {"k", "v"};
    for (size_t fail_at = 1;; fail_at++) {
        failing memory = {.fail_at = fail_at};
        kn_host host = failing_host(&memory);
        kn_error error = {0};
        kn_safetensors file;
        kn_status status = kn_safetensors_write(&host, path, &tensor, 1, &metadata, 1, &error);
        assert_int_equal(memory.live, 0);
        assert_int_equal(kn_path_exists(path), status == KN_OK);
        if (status == KN_OK) status = kn_safetensors_open(&host, path, &file, &error);
        if (status == KN_OK) {
            kn_safetensors_close(&host, &file);
            assert_int_equal(memory.live, 0);
            if (memory.calls < fail_at) break;
        }
        assert_int_equal(memory.live, 0);
        remove(path);
    }
    test_folder_remove(folder);
}

TEST_FILE(test_safetensors, NULL, NULL)
