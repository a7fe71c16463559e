/* Runs with strings. */
#include "interface_tests.h"

#include <stdio.h>
#include <string.h>

static OrtValue *words(const char *const *texts, int64_t count) {
    OrtValue *value = NULL;
    succeeds(api->CreateTensorAsOrtValue(allocator, &count, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, &value));
    succeeds(api->FillStringTensor(value, texts, (size_t)count));
    return value;
}

/* Strings go in and come out, also into the caller's tensor; more or other strings do. */
static void runs_of_strings(void **state) {
    made model;
    model_strings(&model);
    OrtSession *session = open_bytes(&model, NULL);
    static const char *const given[][3] = {
        {"one", "", "m\xc3\xa4"}, {"one", "", "m\xc3\xa4"}, {"a", "bc", "-"}, {"ab", "c", "-"}};
    static const char *const ends[] = {"-", "", "-", "-"};
    static const int64_t counts[] = {3, 3, 2, 3};
    const char *const inputs[] = {"a", "b"}, *const outputs[] = {"y", "same"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        OrtValue *values[2] = {words(given[i], counts[i]), words(&ends[i], 1)}, *results[2] = {NULL, NULL};
        /* The original appends to what such a tensor contains. */
        if (i == 1 && !original) results[0] = words(given[2], 3);
        succeeds(api->Run(session, NULL, inputs, (const OrtValue *const *)values, 2, outputs, 2, results));
        has_shape(results[0], 1, counts[i], 0);
        for (int64_t k = 0; k < counts[i]; k++) {
            char wanted[16], found[16] = "";
            size_t length = 0;
            snprintf(wanted, sizeof wanted, "%s%s", given[i][k], ends[i]);
            succeeds(api->GetStringTensorElementLength(results[0], (size_t)k, &length));
            assert_int_equal(length, strlen(wanted));
            succeeds(api->GetStringTensorElement(results[0], sizeof found, (size_t)k, found));
            assert_string_equal(found, wanted);
            assert_int_equal(((const uint8_t *)numbers(results[1]))[k], !strcmp(given[i][k], ends[i]));
        }
        for (int k = 0; k < 2; k++) {
            api->ReleaseValue(values[k]);
            api->ReleaseValue(results[k]);
        }
    }
    api->ReleaseSession(session);
}

/* The original keeps a string with a zero byte; Koine must not cut it. */
static void zero_bytes(void **state) {
    made model;
    char *room = NULL;
    size_t length = 0;
    static const char *const given[] = {"", "end"};
    const char *const inputs[] = {"a", "b"}, *const output = "y";
    model_strings(&model);
    OrtSession *session = open_bytes(&model, NULL);
    OrtValue *values[2] = {words(given, 1), words(given + 1, 1)}, *y = NULL;
    succeeds(api->GetResizedStringTensorElementBuffer(values[0], 0, 2, &room));
    memcpy(room, "\0z", 2);
    OrtStatus *status = api->Run(session, NULL, inputs, (const OrtValue *const *)values, 2, &output, 1, &y);
    if (original) {
        succeeds(status);
        succeeds(api->GetStringTensorElementLength(y, 0, &length));
        assert_int_equal(length, 5);
    } else {
        fails_with(status, ORT_NOT_IMPLEMENTED, "'a': string 0 contains a zero byte");
    }
    api->ReleaseValue(y);
    api->ReleaseValue(values[0]);
    api->ReleaseValue(values[1]);
    api->ReleaseSession(session);
}

/* ---- splitting --------------------------------------------------------------------------- */

enum { SPLIT_TEXTS = 24, SPLIT_ROOM = 12 };

/* The parts of a text, by removing the first one again and again; the number of them. Without a delimiter,
 * spaces at both ends are dropped, and as many as there are separate two parts. */
static int parts_of(const char *text, const char *delimiter, int most, char parts[][SPLIT_ROOM]) {
    char rest[SPLIT_ROOM];
    int count = 0;
    snprintf(rest, sizeof rest, "%s", text);
    for (size_t length = strlen(rest); !*delimiter && length && rest[length - 1] == ' ';)
        rest[--length] = 0;
    const char *at = rest;
    while (!*delimiter && *at == ' ')
        at++;
    if (!*at) return 0;
    while (most < 0 || count < most) {
        const char *end = strstr(at, *delimiter ? delimiter : " ");
        if (!end) break;
        snprintf(parts[count++], SPLIT_ROOM, "%.*s", (int)(end - at), at);
        at = end + (*delimiter ? strlen(delimiter) : 1);
        while (!*delimiter && *at == ' ')
            at++;
    }
    snprintf(parts[count++], SPLIT_ROOM, "%s", at);
    return count;
}

static void check_parts(const OrtValue *parts, const int64_t *counts, char texts[][SPLIT_ROOM],
                        const char *delimiter, int most) {
    int64_t width = 0;
    char wanted[SPLIT_ROOM][SPLIT_ROOM], found[SPLIT_ROOM];
    for (int i = 0; i < SPLIT_TEXTS; i++)
        if (counts[i] > width) width = counts[i];
    has_shape(parts, 2, SPLIT_TEXTS, width);
    for (int i = 0; i < SPLIT_TEXTS; i++) {
        const int count = parts_of(texts[i], delimiter, most, wanted);
        if (counts[i] != count)
            fail_msg("'%s' at '%s', %d: %d parts, expected %d", texts[i], delimiter, most, (int)counts[i],
                     count);
        for (int64_t k = 0; k < width; k++) {
            size_t length = 0;
            const size_t at = (size_t)(i * width + k);
            succeeds(api->GetStringTensorElementLength(parts, at, &length));
            assert_true(length < sizeof found);
            succeeds(api->GetStringTensorElement(parts, sizeof found, at, found));
            found[length] = 0;
            assert_string_equal(found, k < count ? wanted[k] : "");
        }
    }
}

/* At random, with few letters: delimiters that repeat, overlap, and are at both ends. */
static void splits(void **state) {
    static const char letters[] = "ab  \t-";
    static const char *const delimiters[] = {"", "a", "ab", "aa", " ", "--", "\t"};
    uint32_t drawn = 11;
    for (int round = 0; round < 35; round++) {
        made model;
        char texts[SPLIT_TEXTS][SPLIT_ROOM];
        const char *given[SPLIT_TEXTS], *const delimiter = delimiters[round % 7];
        const int most = round / 7 - 2; /* -2 and -1: any number */
        for (int i = 0; i < SPLIT_TEXTS; i++) {
            const int length = i % (SPLIT_ROOM - 1);
            for (int k = 0; k < length; k++) {
                drawn = drawn * 1664525 + 1013904223;
                texts[i][k] = letters[(drawn >> 24) % (sizeof letters - 1)];
            }
            texts[i][length] = 0;
            given[i] = texts[i];
        }
        model_split(&model, delimiter, most);
        OrtSession *session = open_bytes(&model, NULL);
        OrtValue *value = words(given, SPLIT_TEXTS), *results[2] = {NULL, NULL};
        const char *const input = "x", *const outputs[] = {"parts", "counts"};
        succeeds(api->Run(session, NULL, &input, (const OrtValue *const *)&value, 1, outputs, 2, results));
        check_parts(results[0], (const int64_t *)numbers(results[1]), texts, delimiter, most);
        api->ReleaseValue(results[0]);
        api->ReleaseValue(results[1]);
        api->ReleaseValue(value);
        api->ReleaseSession(session);
    }
}

int test_strings(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_of_strings),
        cmocka_unit_test(zero_bytes),
        cmocka_unit_test(splits),
    };
    return run_group("strings", tests);
}
