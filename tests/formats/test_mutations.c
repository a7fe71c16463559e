/* Valid files with thousands of random changes: each reader refuses with a message or returns a consistent
 * result, leaks nothing, and allocates no more than its input justifies. KOINE_TEST_SEED sets a different
 * seed. */
#include "formats_tests.h"

#include "gguf_bytes.h"
#include "onnx_bytes.h"
#include "zip_bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 10000, ROOM = 4096 };

typedef struct sample {
    const char *name;
    kn_status (*read)(const kn_host *host, const uint8_t *bytes, uint64_t count, kn_error *error);
    const void *bytes;
    size_t count;
} sample;

/* Random numbers for one mutation. */
typedef struct dice {
    uint64_t key, index;
} dice;

static uint32_t below(dice *from, uint32_t bound) {
    return kn_random_below(from->key, from->index++, bound);
}

/* One change: a bit, a byte, a few bytes set to boundary values, a range removed, doubled or moved, or the
 * end cut off. Returns the new length. */
static size_t change(dice *from, uint8_t *bytes, size_t count) {
    static const uint8_t edges[][8] = {{0},
                                       {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
                                       {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
                                       {0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
                                       {0, 0, 0, 0x80},
                                       {1}};
    static const char letters[] = "0123456789-+.eE\"\\{}[](),: \n<>|'LuU";
    if (count == 0) {
        bytes[0] = (uint8_t)below(from, 256);
        return 1;
    }
    size_t at = below(from, (uint32_t)count), left = count - at;
    size_t length = 1 + below(from, (uint32_t)(left < 16 ? left : 16));
    switch (below(from, 8)) {
    case 0:
        bytes[at] ^= (uint8_t)(1u << below(from, 8));
        return count;
    case 1:
        bytes[at] = (uint8_t)below(from, 256);
        return count;
    case 2:
        bytes[at] = (uint8_t)letters[below(from, sizeof letters - 1)];
        return count;
    case 3:
        memcpy(bytes + at, edges[below(from, KN_COUNT_OF(edges))], length < 8 ? length : 8);
        return count;
    case 4: /* removed */
        length = length < left ? length : left;
        memmove(bytes + at, bytes + at + length, left - length);
        return count - length;
    case 5: /* doubled */
        length = length < left ? length : left;
        if (count + length > ROOM) return count;
        memmove(bytes + at + length, bytes + at, left);
        return count + length;
    case 6: { /* copied from elsewhere */
        size_t other = below(from, (uint32_t)count);
        length = length < left ? length : left;
        length = length < count - other ? length : count - other;
        memmove(bytes + at, bytes + other, length);
        return count;
    }
    default:
        return at;
    }
}

static void try_sample(const sample *original, uint64_t seed, int *accepted, int *refused) {
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint8_t work[ROOM + 16];
        dice from = {kn_random_key(seed, original->name), (uint64_t)round * 256};
        size_t count = original->count;
        memcpy(work, original->bytes, count);
        uint32_t changes = 1 + below(&from, 4);
        for (uint32_t i = 0; i < changes; i++)
            count = change(&from, work, count);
        /* A block of exactly that size, so that a sanitizer detects reads past the end. */
        uint8_t *exact = malloc(count > 0 ? count : 1);
        assert_non_null(exact);
        memcpy(exact, work, count);
        failing memory = {0};
        kn_host host = failing_host(&memory);
        kn_error error = {0};
        kn_status status = original->read(&host, exact, count, &error);
        free(exact);
        bool sound = !reader_inconsistent && memory.live == 0 &&
                     (status == KN_OK) == (error.text[0] == '\0') && memory.peak < (1u << 19) + 200 * count;
        if (!sound)
            fail_msg("%s, seed %llu, round %u: %s, \"%s\", %zu blocks left, %zu bytes at most",
                     original->name, (unsigned long long)seed, round, kn_status_name(status), error.text,
                     memory.live, memory.peak);
        *(status == KN_OK ? accepted : refused) += 1;
    }
}

TEST(readers_survive_mutations) {
    /* The lengths of headers are filled in below. */
    char npy[] = "\x93NUMPY\1\0\0\0{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }"
                 "             \n\0\1\0\2\0\3\0\4\0\5\0\6";
    char npy3[] = "\x93NUMPY\3\0\0\0\0\0{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2), }"
                  "         \n12345678abcdefgh";
    static const char idx[] = "\0\0\x0c\2\0\0\0\2\0\0\0\3aaaabbbbccccddddeeeeffff";
    static const char json[] =
        "{\"list\": [1, -2.5e-3, true, null, \"\\u00e9\\ud83d\\ude00\"],\n \"a\": {\"b\": [[]], "
        "\"c\": {}}, \"d\": 12345678901234567890, \"e\": \"\xc3\xa9\", \"f\":0, \"g\":0, \"h\":0, "
        "\"i\":0, \"j\":0}";
    static const char tensors[] =
        "{\"__metadata__\":{\"k\":\"v\"},\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],"
        "\"data_offsets\":[0,16]},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[16,20]}"
        ",\"c\":{\"dtype\":\"I64\",\"shape\":[0],\"data_offsets\":[20,20]}}    "
        "aaaabbbbccccdddd1234";
    static const char csv[] = "name,\"a \"\"b\"\"\",c\n1,\"2\n3\",4\r\n\n5,,6\n7,8,9";
    static const char wave[] = "RIFF\x34\0\0\0WAVEfmt \x10\0\0\0\1\0\2\0\x40\x1f\0\0\0\x7d\0\0\4\0\x10\0"
                               "data\x10\0\0\0aabbccddeeffgghh";
    npy[8] = (char)(sizeof npy - 1 - 10 - 12);
    npy3[8] = (char)(sizeof npy3 - 1 - 12 - 16);
    char whole[sizeof tensors + 7];
    size_t header = sizeof tensors - 1 - 20;
    for (int i = 0; i < 8; i++)
        whole[i] = (char)((uint64_t)header >> (8 * i));
    memcpy(whole + 8, tensors, sizeof tensors - 1);
    size_t packed_count;
    uint8_t *packed = pack(json, sizeof json - 1, &packed_count);
    made model, optional = {.count = 0}, sequence = {.count = 0};
    make_model(&model);
    add_tensor(add_tensor(add_number(add_text(&sequence, 1, "s"), 2, 1), 3, "a", 2), 3, "b", 0);
    add_message(add_number(&optional, 2, 3), 5, &sequence);
    static const uint8_t picture[1 + KN_CIFAR_PIXELS] = {9};
    zip_bytes zip = {.count = 0};
    zip_add(&zip, "json", json, sizeof json, true);
    zip_add(&zip, "idx", idx, sizeof idx, false);
    zip_end(&zip);
    static const char net[] =
        "name: \"n\" # c\ninput: 'x'\ninput_dim: [1, 3, 8]\nlayer {\n  name: \"a\\x41\" \"b\" top: \"a\"\n"
        "  convolution_param < num_output: 4 bias_term: false pad: -1.5e0 >\n  p: { pool: MAX; }, }\n";
    made weights = {.count = 0}, blob = {.count = 0}, layer = {.count = 0};
    add_float(add_float(add_number(add_number(&blob, 1, 1), 4, 2), 5, 1), 5, 2);
    add_text(add_message(add_text(add_text(&layer, 1, "ab"), 2, "ReLU"), 7, &blob), 3, "x");
    add_message(add_packet(add_text(&weights, 1, "n"), 4, "\1\3\10", 3), 100, &layer);
    gguf_made language = {.value_count = 0};
    gguf_add_integer(&language, "a.n", 3);
    gguf_add_array(&language, "t", KN_GGUF_STRING, 2);
    gguf_put_string(&language.values, "one");
    gguf_put_string(&language.values, "two");
    gguf_add_tensor(&language, "w", 1, 2, (int64_t[]){2, 3}, "aabbccddeeff", 12);
    gguf_add_tensor(&language, "q", 8, 1, (int64_t[]){32}, picture, 34);
    gguf_bytes gguf = gguf_finish(&language);
    const sample samples[] = {
        {"npy", read_npy, npy, sizeof npy - 1},
        {"npy3", read_npy, npy3, sizeof npy3 - 1},
        {"idx", read_idx, idx, sizeof idx - 1},
        {"gzip", read_gzip, packed, packed_count},
        {"zip", read_zip, zip.bytes, zip.count},
        {"cifar", read_cifar, picture, sizeof picture},
        {"wave", read_wave, wave, sizeof wave - 1},
        {"csv", read_csv, csv, sizeof csv - 1},
        {"net", read_caffe, net, sizeof net - 1},
        {"caffemodel", read_caffe, weights.bytes, weights.count},
        {"json", read_json, json, sizeof json - 1},
        {"gguf", read_gguf, gguf.bytes, gguf.count},
        {"safetensors", read_safetensors, whole, sizeof whole},
        {"onnx", read_onnx, model.bytes, model.count},
        {"onnx value", read_onnx_value, optional.bytes, optional.count},
    };
    const char *word = getenv("KOINE_TEST_SEED");
    uint64_t seed = word ? strtoull(word, NULL, 10) : 1;
    for (size_t i = 0; i < KN_COUNT_OF(samples); i++) {
        kn_error error = {0};
        assert_true(samples[i].count <= ROOM);
        assert_fine(samples[i].read(NULL, samples[i].bytes, samples[i].count, &error), &error);
        int accepted = 0, refused = 0;
        try_sample(&samples[i], seed, &accepted, &refused);
        /* If all were accepted or nearly none refused, the mutations would test nothing. */
        if (accepted == 0 || refused < ROUNDS / 4)
            fail_msg("%s: %d accepted, %d refused", samples[i].name, accepted, refused);
    }
    free(packed);
    free(gguf.bytes);
    free(zip.bytes);
}

TEST_FILE(test_mutations, NULL, NULL)
