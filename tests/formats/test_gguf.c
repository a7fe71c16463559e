/* The GGUF reader. */
#include "formats_tests.h"

#include <stdlib.h>
#include <string.h>

#include "gguf_bytes.h"

static const float weights[6] = {1, -2, 3.5f, 0, 5, 6};

/* A file with a value of every kind and two tensors. */
static gguf_bytes make_file(void) {
    gguf_made made = {.value_count = 0};
    gguf_add_string(&made, "general.architecture", "llama");
    gguf_add_integer(&made, "llama.block_count", 30);
    gguf_add_real(&made, "llama.rope.freq_base", 10000);
    gguf_add_bool(&made, "tokenizer.ggml.add_bos_token", 1);
    static const struct {
        const char *key;
        int kind, bytes;
    } integers[] = {{"u8", 0, 1},  {"i8", 1, 1},   {"u16", 2, 2}, {"i16", 3, 2},
                    {"i32", 5, 4}, {"i64", 11, 8}, {"u64", 10, 8}};
    for (size_t i = 0; i < KN_COUNT_OF(integers); i++) {
        gguf_key(&made, integers[i].key, integers[i].kind);
        gguf_put(&made.values, (uint64_t)-3, integers[i].bytes);
    }
    double real = 0.1;
    gguf_key(&made, "f64", KN_GGUF_FLOAT64);
    gguf_put_bytes(&made.values, &real, sizeof real);
    gguf_add_array(&made, "tokens", KN_GGUF_STRING, 3);
    gguf_put_string(&made.values, "<s>");
    gguf_put_string(&made.values, "");
    gguf_put_string(&made.values, "two words");
    gguf_add_array(&made, "types", KN_GGUF_INT32, 2);
    gguf_put(&made.values, 1, 4);
    gguf_put(&made.values, (uint64_t)-1, 4);
    gguf_add_array(&made, "nothing", KN_GGUF_FLOAT32, 0);
    uint8_t block[34] = {0, 0x3c, 7, 0xff}; /* d = 1: 7, -1, 0, … */
    gguf_add_tensor(&made, "w", 0, 2, (int64_t[]){2, 3}, weights, sizeof weights);
    gguf_add_tensor(&made, "q", 8, 1, (int64_t[]){32}, block, sizeof block);
    gguf_add_tensor(&made, "unknown", 29, 1, (int64_t[]){256}, block, sizeof block);
    return gguf_finish(&made);
}

static void check_values(const kn_gguf *file) {
    kn_error error = {0};
    int64_t number = 5;
    double real = 0;
    bool truth = false;
    kn_gguf_text text = {"", 0};
    assert_fine(kn_gguf_string(file, "general.architecture", &text, &error), &error);
    assert_int_equal(text.count, 5);
    assert_memory_equal(text.bytes, "llama", 5);
    assert_fine(kn_gguf_integer(file, "llama.block_count", 1, 30, &number, &error), &error);
    assert_int_equal(number, 30);
    assert_fine(kn_gguf_integer(file, "llama.absent", 1, 2, &number, &error), &error);
    assert_int_equal(number, 30);
    assert_fine(kn_gguf_real(file, "llama.rope.freq_base", 1, 1e9, &real, &error), &error);
    assert_true(real == 10000);
    assert_fine(kn_gguf_real(file, "f64", 0, 1, &real, &error), &error);
    assert_true(real == 0.1);
    assert_fine(kn_gguf_bool(file, "tokenizer.ggml.add_bos_token", &truth, &error), &error);
    assert_true(truth);
    static const char *const keys[] = {"u8", "i8", "u16", "i16", "i32", "i64"};
    static const int64_t numbers[] = {253, -3, 65533, -3, -3, -3};
    for (size_t i = 0; i < KN_COUNT_OF(keys); i++) {
        assert_true(kn_gguf_integer_at(kn_gguf_find(file, keys[i]), 0, &number));
        assert_int_equal(number, numbers[i]);
    }
    assert_false(kn_gguf_integer_at(kn_gguf_find(file, "u64"), 0, &number));
    /* Wrong kinds and ranges name the file and the key. */
    assert_refused(kn_gguf_integer(file, "f64", 0, 9, &number, &error), &error, KN_ERROR_FORMAT,
                   "a.gguf: the value of \"f64\" is float64, expected an integer");
    assert_refused(kn_gguf_integer(file, "types", 0, 9, &number, &error), &error, KN_ERROR_FORMAT,
                   "an array of int32");
    assert_refused(kn_gguf_integer(file, "i8", 0, 9, &number, &error), &error, KN_ERROR_FORMAT,
                   "is -3, expected 0 to 9");
    assert_refused(kn_gguf_real(file, "tokens", 0, 9, &real, &error), &error, KN_ERROR_FORMAT, "a number");
    assert_refused(kn_gguf_bool(file, "u8", &truth, &error), &error, KN_ERROR_FORMAT, "true or false");
    assert_refused(kn_gguf_string(file, "u8", &text, &error), &error, KN_ERROR_FORMAT, "a string");
}

static void check_arrays_and_tensors(const kn_gguf *file) {
    int64_t number;
    double real;
    bool truth;
    kn_gguf_text text;
    const kn_gguf_value *tokens = kn_gguf_find(file, "tokens"), *types = kn_gguf_find(file, "types");
    assert_int_equal(tokens->count, 3);
    assert_true(kn_gguf_text_at(tokens, 2, &text) && text.count == 9);
    assert_memory_equal(text.bytes, "two words", 9);
    assert_true(kn_gguf_text_at(tokens, 1, &text) && text.count == 0);
    assert_false(kn_gguf_text_at(tokens, 3, &text));
    assert_true(kn_gguf_integer_at(types, 1, &number) && number == -1);
    assert_true(kn_gguf_real_at(types, 1, &real) && real == -1);
    assert_false(kn_gguf_integer_at(types, 2, &number));
    assert_false(kn_gguf_real_at(kn_gguf_find(file, "nothing"), 0, &real));
    assert_false(kn_gguf_bool_at(types, 0, &truth));
    assert_null(kn_gguf_find(file, "other"));
    assert_int_equal(file->tensor_count, 3);
    const kn_gguf_tensor *w = kn_gguf_tensor_find(file, "w"), *q = kn_gguf_tensor_find(file, "q");
    assert_int_equal(w->rank, 2);
    assert_int_equal(w->shape[0], 2);
    assert_int_equal(w->shape[1], 3);
    assert_int_equal(w->byte_count, sizeof weights);
    assert_memory_equal(w->bytes, weights, sizeof weights);
    float wide[32];
    kn_blocks_widen(q->storage, q->bytes, 1, wide);
    assert_true(wide[0] == 7 && wide[1] == -1 && wide[2] == 0);
    const kn_gguf_tensor *unknown = kn_gguf_tensor_find(file, "unknown");
    assert_true(!unknown->storage && !unknown->bytes && unknown->type == 29 && unknown->count == 256);
    assert_null(kn_gguf_tensor_find(file, "other"));
}

TEST(values_and_tensors_are_read) {
    gguf_bytes made = make_file();
    kn_gguf file;
    kn_error error = {0};
    assert_true(kn_gguf_is(made.bytes, made.count));
    assert_fine(kn_gguf_read(NULL, "a.gguf", made.bytes, made.count, &file, &error), &error);
    check_values(&file);
    check_arrays_and_tensors(&file);
    kn_gguf_close(NULL, &file);
    /* Version 2 has the same layout. */
    made.bytes[4] = 2;
    assert_fine(kn_gguf_read(NULL, "a.gguf", made.bytes, made.count, &file, &error), &error);
    kn_gguf_close(NULL, &file);
    free(made.bytes);
}

TEST(every_cut_is_refused) {
    gguf_bytes made = make_file();
    kn_error error = {0};
    /* The tensor that cannot be read has no known end, so its bytes may be missing. */
    for (size_t count = 0; count < made.count - 64; count++) {
        uint8_t *exact = malloc(count + 1);
        kn_gguf file;
        assert_non_null(exact);
        memcpy(exact, made.bytes, count);
        kn_status status = kn_gguf_read(NULL, "a.gguf", exact, count, &file, &error);
        /* The zeros after the block of q belong to no tensor. */
        if (status == KN_OK && count < made.count - 64 - 30) fail_msg("%zu of %zu bytes", count, made.count);
        if (status == KN_OK) kn_gguf_close(NULL, &file);
        kn_error_clear(&error);
        free(exact);
    }
    free(made.bytes);
}

static void refuse(gguf_bytes made, kn_status expected, const char *part) {
    kn_gguf file;
    kn_error error = {0};
    assert_refused(kn_gguf_read(NULL, "a.gguf", made.bytes, made.count, &file, &error), &error, expected,
                   part);
    assert_null(file.values);
    free(made.bytes);
}

TEST(mistakes_are_named) {
    static const float zeros[64];
    gguf_bytes file = make_file();
    file.bytes[0] = 'X';
    refuse(file, KN_ERROR_FORMAT, "does not begin with \"GGUF\"");
    file = make_file();
    file.bytes[4] = 1;
    refuse(file, KN_ERROR_UNSUPPORTED, "GGUF version 1;");
    file = make_file();
    memcpy(file.bytes + 4, "\0\0\0\3", 4);
    refuse(file, KN_ERROR_UNSUPPORTED, "big-endian");
    file = make_file();
    memset(file.bytes + 8, 0xff, 8);
    refuse(file, KN_ERROR_FORMAT, "18446744073709551615 tensors");
    gguf_made made = {.value_count = 0};
    gguf_add_array(&made, "a", KN_GGUF_ARRAY, 0);
    refuse(gguf_finish(&made), KN_ERROR_FORMAT, "array of arrays");
    gguf_add_array(&made, "a", KN_GGUF_FLOAT64, UINT64_MAX / 4);
    refuse(gguf_finish(&made), KN_ERROR_FORMAT, "elements in a file of");
    gguf_key(&made, "a", 13);
    refuse(gguf_finish(&made), KN_ERROR_FORMAT, "a value of type 13");
    gguf_add_integer(&made, "a", 1);
    gguf_add_integer(&made, "a", 2);
    refuse(gguf_finish(&made), KN_ERROR_FORMAT, "\"a\" occurs twice");
    gguf_add_integer(&made, "general.alignment", 48);
    refuse(gguf_finish(&made), KN_ERROR_FORMAT, "general.alignment is 48, expected a power of two");
    gguf_add_integer(&made, "general.alignment", 64);
    gguf_add_tensor(&made, "a", 0, 1, (int64_t[]){8}, zeros, 32);
    gguf_add_tensor(&made, "b", 0, 1, (int64_t[]){8}, zeros, 32);
    refuse(gguf_finish(&made), KN_ERROR_FORMAT, "tensor \"b\": offset 32 is not a multiple of 64");
    gguf_add_tensor(&made, "a", 0, 1, (int64_t[]){1 << 20}, zeros, 32);
    refuse(gguf_finish(&made), KN_ERROR_FORMAT, "tensor \"a\": 4194304 bytes at");
    gguf_add_tensor(&made, "a", 0, 2, (int64_t[]){INT64_MAX, 2}, zeros, 32);
    refuse(gguf_finish(&made), KN_ERROR_FORMAT, "too large");
    gguf_add_tensor(&made, "a", 0, 1, (int64_t[]){-1}, zeros, 32);
    refuse(gguf_finish(&made), KN_ERROR_FORMAT, "negative");
    gguf_add_tensor(&made, "a", 12, 2, (int64_t[]){2, 128}, zeros, 144);
    refuse(gguf_finish(&made), KN_ERROR_FORMAT, "rows of 128 elements, but Q4_K has blocks of 256");
    gguf_add_tensor(&made, "a", 0, 5, (int64_t[]){1, 1, 1, 1, 1}, zeros, 4);
    refuse(gguf_finish(&made), KN_ERROR_FORMAT, "more than 4 dimensions");
}

static void write_file(const char *path, gguf_bytes made) {
    kn_error error = {0};
    assert_fine(kn_file_write(NULL, path, made.bytes, made.count, &error), &error);
    free(made.bytes);
}

static gguf_bytes make_part(uint32_t number, uint32_t parts, uint32_t total, const char *tensor) {
    gguf_made made = {.value_count = 0};
    gguf_add_integer(&made, "split.no", number);
    gguf_add_integer(&made, "split.count", parts);
    gguf_add_integer(&made, "split.tensors.count", total);
    gguf_add_tensor(&made, tensor, 0, 2, (int64_t[]){3, 2}, weights, sizeof weights);
    return gguf_finish(&made);
}

TEST(parts_are_one_file) {
    char *folder = test_folder_make(), first[300], second[300];
    test_path(first, sizeof first, folder, "m-00001-of-00002.gguf");
    test_path(second, sizeof second, folder, "m-00002-of-00002.gguf");
    kn_gguf file;
    kn_error error = {0};
    write_file(first, make_part(0, 2, 2, "a"));
    assert_refused(kn_gguf_open(NULL, first, &file, &error), &error, KN_ERROR_FILE, "m-00002-of-00002.gguf");
    write_file(second, make_part(1, 2, 2, "b"));
    assert_fine(kn_gguf_open(NULL, first, &file, &error), &error);
    assert_int_equal(file.tensor_count, 2);
    assert_memory_equal(kn_gguf_tensor_find(&file, "a")->bytes, weights, sizeof weights);
    assert_memory_equal(kn_gguf_tensor_find(&file, "b")->bytes, weights, sizeof weights);
    kn_gguf_close(NULL, &file);
    assert_refused(kn_gguf_open(NULL, second, &file, &error), &error, KN_ERROR_FORMAT, "open the first part");
    write_file(second, make_part(1, 2, 2, "a"));
    assert_refused(kn_gguf_open(NULL, first, &file, &error), &error, KN_ERROR_FORMAT, "\"a\" occurs twice");
    write_file(second, make_part(0, 2, 2, "b"));
    assert_refused(kn_gguf_open(NULL, first, &file, &error), &error, KN_ERROR_FORMAT, "expected part 2");
    write_file(second, make_part(1, 2, 3, "b"));
    write_file(first, make_part(0, 2, 3, "a"));
    assert_refused(kn_gguf_open(NULL, first, &file, &error), &error, KN_ERROR_FORMAT,
                   "have 2 tensors, expected 3");
    test_path(second, sizeof second, folder, "other.gguf");
    write_file(second, make_part(0, 2, 2, "a"));
    assert_refused(kn_gguf_open(NULL, second, &file, &error), &error, KN_ERROR_FORMAT,
                   "a name that ends with -00001-of-00002.gguf");
    test_folder_remove(folder);
}

TEST(failed_allocations_leave_nothing) {
    gguf_bytes made = make_file();
    for (size_t fail_at = 1;; fail_at++) {
        failing memory = {.fail_at = fail_at};
        kn_host host = failing_host(&memory);
        kn_gguf file;
        kn_error error = {0};
        kn_status status = kn_gguf_read(&host, "a.gguf", made.bytes, made.count, &file, &error);
        if (status == KN_OK) kn_gguf_close(&host, &file);
        assert_int_equal(memory.live, 0);
        if (status == KN_OK) break;
        assert_int_equal(status, KN_ERROR_MEMORY);
    }
    free(made.bytes);
}

TEST_FILE(test_gguf, NULL, NULL)
