/* Matrix products by the library for them, if Koine was built with one: all cases are right, in single and in
 * double precision; the plan allocates its workspace; and it is used where it was measured to be faster. */
#include "device_support.h"

#include <koine/koine.h>

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGE = 192, LARGER = 1100 }; /* the library copies operands of the larger size */

static void all_cases_are_right(void **state) {
    kn_context *context = device_open(NULL);
    verify_outcome seen = {.right = 0};
    kn_verify_params params;
    kn_verify_params_init(&params);
    params.operators = "matmul";
    params.variants = "library";
    params.user = &seen;
    params.report = take_verify_result;
    kn_status status = kn_verify(context, &params, NULL, NULL);
    if (status != KN_OK || seen.failures[0]) fail_msg("%s%s", kn_status_name(status), seen.failures);
    /* Not products without elements, nor those with many batches. */
    assert_in_range(seen.right, 15, 40);
    device_close(&context);
}

/* y = a bᵀ with a and b (size,size). */
static kn_session *product_session(kn_context *context, int size, kn_dtype dtype, const char *switches) {
    char shape[32];
    snprintf(shape, sizeof shape, "%d,%d", size, size);
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *a = kn_input(graph, "a", dtype, shape), *b = kn_input(graph, "b", dtype, shape);
    kn_value *y = kn_name(kn_matmul(a, b, false, true), "y");
    kn_session_params params;
    kn_session_params_init(&params);
    params.switches = switches;
    kn_session *session = kn_session_create(context, &y, 1, &params);
    kn_graph_destroy(&graph);
    return session;
}

static void check_plan(kn_session *session, const char *word, bool wanted) {
    assert_int_equal(kn_session_compile(session, NULL, 0), KN_OK);
    char *text = kn_session_plan_text(session);
    assert_non_null(text);
    if ((strstr(text, word) != NULL) != wanted)
        fail_msg("'%s' %s in\n%s", word, wanted ? "is not" : "is", text);
    kn_session_free_text(session, text);
}

static void double_precision(void **state) {
    kn_context *context = device_open(NULL);
    if (!kn_context_capabilities(context)->double_precision) {
        device_close(&context);
        skip_because("no double precision on this device");
    }
    kn_session *session = product_session(context, LARGE, KN_FLOAT64, "matmul=library");
    check_plan(session, " clblast ", true);
    static double a[LARGE][LARGE], b[LARGE][LARGE], y[LARGE][LARGE];
    for (int i = 0; i < LARGE * LARGE; i++) {
        a[i / LARGE][i % LARGE] = sin(i);
        b[i / LARGE][i % LARGE] = cos(3.0 * i);
    }
    kn_feed feeds[2] = {{"a", a, sizeof a}, {"b", b, sizeof b}};
    kn_fetch fetch = {"y", y, sizeof y};
    if (kn_session_run(session, feeds, 2, &fetch, 1) != KN_OK) fail_msg("%s", kn_session_error(session));
    for (int i = 0; i < LARGE; i += 7)
        for (int j = 0; j < LARGE; j++) {
            double sum = 0;
            for (int k = 0; k < LARGE; k++)
                sum += a[i][k] * b[j][k];
            if (!(fabs(y[i][j] - sum) < 1e-12)) fail_msg("y[%d][%d] is %.17g, not %.17g", i, j, y[i][j], sum);
        }
    kn_session_destroy(&session);
    device_close(&context);
}

/* Rewrites the measured times in the verdicts folder. */
static void pretend(const char *cache, const char *ratio) {
    char folder[300], path[600], text[8192];
    snprintf(folder, sizeof folder, "%s/devices", cache);
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    int found = 0;
    for (const struct dirent *entry; (entry = readdir(listing));) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        size_t length = fread(text, 1, sizeof text - 1, file);
        fclose(file);
        text[length] = 0;
        char front[80]; /* with another version it would be measured again */
        snprintf(front, sizeof front, "faster/%s/", kn_version_text());
        char *place = strstr(text, front);
        if (!place) continue;
        place = strstr(place, "/matmul/library/");
        assert_non_null(place);
        char *number = strchr(place, ' '), *rest = number ? strchr(number, '\n') : NULL;
        assert_true(number && rest);
        file = fopen(path, "w");
        assert_non_null(file);
        fprintf(file, "%.*s %s%s", (int)(number - text), text, ratio, rest);
        assert_int_equal(fclose(file), 0);
        found++;
    }
    closedir(listing);
    assert_int_equal(found, 1);
}

static void the_faster_one_is_taken(void **state) {
    char *cache = test_folder_make();
    static const char *const ratios[] = {NULL, "1.5", "0.5", "nan"};
    for (int turn = 0; turn < 4; turn++) {
        if (turn) pretend(cache, ratios[turn]);
        kn_context_params params = device_params();
        params.cache_folder = cache;
        kn_context *context = device_open(&params);
        kn_session *session = product_session(context, LARGE, KN_FLOAT32, NULL);
        if (turn)
            check_plan(session, " clblast ", turn == 1);
        else if (kn_session_compile(session, NULL, 0) != KN_OK) /* any number */
            fail_msg("%s", kn_session_error(session));
        kn_session_destroy(&session);
        device_close(&context);
    }
    test_folder_remove(cache);
}

/* Products of this size use workspace, unlike those of the case table. */
static void workspace_is_the_plans(void **state) {
    kn_context *context = device_open(NULL);
    size_t bytes = (size_t)LARGER * LARGER * sizeof(float);
    float *a = malloc(bytes), *b = malloc(bytes), *y = malloc(bytes);
    assert_true(a && b && y);
    for (int i = 0; i < LARGER * LARGER; i++) {
        a[i] = (float)(i * 7 % 11 - 5);
        b[i] = (float)(i * 5 % 13 - 6);
    }
    kn_session *session = product_session(context, LARGER, KN_FLOAT32, "matmul=library");
    kn_plan_info info = {.size = sizeof info};
    assert_int_equal(kn_session_compile(session, NULL, 0), KN_OK);
    assert_int_equal(kn_session_plan(session, &info), KN_OK);
    assert_true(info.scratch_bytes >= 2 * bytes); /* the result, and a copy of an operand at least */
    kn_feed feeds[2] = {{"a", a, bytes}, {"b", b, bytes}};
    kn_fetch fetch = {"y", y, bytes};
    if (kn_session_run(session, feeds, 2, &fetch, 1) != KN_OK) fail_msg("%s", kn_session_error(session));
    for (int i = 0; i < LARGER; i += 97)
        for (int j = 0; j < LARGER; j++) {
            float sum = 0; /* of small integers: exact */
            for (int k = 0; k < LARGER; k++)
                sum += a[i * LARGER + k] * b[j * LARGER + k];
            if (y[i * LARGER + j] != sum) fail_msg("y[%d][%d] is %g, not %g", i, j, y[i * LARGER + j], sum);
        }
    kn_session_destroy(&session);
    free(a);
    free(b);
    free(y);
    device_close(&context);
}

int main(void) {
    if (!device_is_there()) return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_cases_are_right),
        cmocka_unit_test(double_precision),
        cmocka_unit_test(workspace_is_the_plans),
        cmocka_unit_test(the_faster_one_is_taken),
    };
    return cmocka_run_group_tests_name("a matrix product library", tests, NULL, NULL) != 0;
}
