/* Structs that begin with their size, from programs built with an older or newer header than the library. */
#include "base_tests.h"

#include <stddef.h>
#include <string.h>

typedef struct sized {
    size_t size;
    int64_t first; /* no padding: the bytes of the structs are compared */
    double second;
} sized;
/* The struct of a later version of the header. */
typedef struct longer {
    sized known;
    int third;
} longer;

static const sized defaults = {.size = sizeof defaults, .first = 1, .second = 2};

TEST(fields_replace_the_defaults) {
    kn_error error = {0};
    sized own = defaults, given = {.size = sizeof given, .first = 7, .second = 8};
    assert_int_equal(KN_PARAMS_TAKE(sized, &own, NULL, &error), KN_OK);
    assert_memory_equal(&own, &defaults, sizeof own);
    assert_int_equal(KN_PARAMS_TAKE(sized, &own, &given, &error), KN_OK);
    assert_int_equal(own.first, 7);
    assert_true(own.second == 8);

    own = defaults;
    given.size = offsetof(sized, second);
    assert_int_equal(KN_PARAMS_TAKE(sized, &own, &given, &error), KN_OK);
    assert_int_equal(own.first, 7);
    assert_true(own.second == 2);
    assert_int_equal(own.size, sizeof own);

    assert_int_equal(error.status, KN_OK);
}

/* A newer program may leave its new fields 0; a field that is set is not dropped silently. */
TEST(unknown_fields_must_be_zero) {
    kn_error error = {0};
    sized own = defaults;
    longer newer = {.known = {.size = sizeof newer, .first = 5}};
    memset(&newer.third, 0, sizeof newer - offsetof(longer, third)); /* the padding, too */
    assert_int_equal(KN_PARAMS_TAKE(sized, &own, &newer.known, &error), KN_OK);
    assert_int_equal(own.first, 5);
    assert_int_equal(own.size, sizeof own);

    own = defaults;
    newer.third = 1 << 24; /* one of its bytes */
    assert_int_equal(KN_PARAMS_TAKE(sized, &own, &newer.known, &error), KN_ERROR_UNSUPPORTED);
    assert_non_null(strstr(error.text, "sets a field that this library, which knows "));
    assert_memory_equal(&own, &defaults, sizeof own);

    kn_error_clear(&error);
    own.size = (size_t)-1; /* only the size */
    sized unset = own;
    own = defaults;
    assert_int_equal(KN_PARAMS_TAKE(sized, &own, &unset, &error), KN_ERROR_ARGUMENT);
    assert_memory_equal(&own, &defaults, sizeof own);
}

TEST(a_size_is_needed) {
    kn_error error = {0};
    sized own = defaults, given = {.first = 7};
    for (given.size = 0; given.size < sizeof(size_t); given.size++) {
        kn_error_clear(&error);
        assert_int_equal(KN_PARAMS_TAKE(sized, &own, &given, &error), KN_ERROR_ARGUMENT);
        assert_non_null(strstr(error.text, "the size of a sized is "));
        assert_memory_equal(&own, &defaults, sizeof own);
        assert_false(kn_has_size(&given));
        assert_int_equal(KN_RESULT_GIVE(sized, &given, &own), KN_ERROR_ARGUMENT);
        assert_int_equal(given.first, 7);
    }
    assert_int_equal(KN_PARAMS_TAKE(sized, &own, &given, NULL), KN_OK); /* the size alone */
    assert_memory_equal(&own, &defaults, sizeof own);
    assert_false(kn_has_size(NULL));
    assert_true(kn_has_size(&own));
    assert_int_equal(KN_RESULT_GIVE(sized, NULL, &own), KN_ERROR_ARGUMENT);
}

TEST(results_have_the_size_of_the_caller) {
    longer result = {.known = {.size = offsetof(sized, second), .second = -1}, .third = 9};
    assert_int_equal(KN_RESULT_GIVE(sized, &result.known, &defaults), KN_OK);
    assert_int_equal(result.known.size, offsetof(sized, second));
    assert_int_equal(result.known.first, 1);
    assert_true(result.known.second == -1);
    result.known.size = sizeof result;
    assert_int_equal(KN_RESULT_GIVE(sized, &result.known, &defaults), KN_OK);
    assert_int_equal(result.known.size, sizeof result);
    assert_true(result.known.second == 2);
    assert_int_equal(result.third, 9);
}

TEST_FILE(test_params, NULL, NULL)
