/* Measured variants: a measurement is stored with the version and the kernels that it is valid for. */
#include "run_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verify/verify_private.h"

/* y = a b with a and b (64,64), bound; and its variant that any device runs. */
static const kn_variant *product(kn_graph **graph, kn_graph **bound, kn_value **result) {
    const kn_bind_request request = {.seed = 1};
    kn_error error = {0};
    *graph = kn_graph_create(NULL);
    kn_value *a = kn_input(*graph, "a", KN_FLOAT32, "64,64"), *b = kn_input(*graph, "b", KN_FLOAT32, "64,64");
    kn_value *y = kn_matmul(a, b, false, false);
    if (kn_graph_bind(*graph, &y, 1, &request, bound, result, &error)) fail_msg("%s", error.text);
    const kn_operator *row = (*result)->producer->op;
    for (int i = 0; i < row->variant_count; i++)
        if (!strcmp(row->variants[i].name, "tiled")) return &row->variants[i];
    fail_msg("%s has no variant 'tiled'", row->name);
    return NULL;
}

/* The text of the only file about devices in a cache; the caller frees it. */
static char *verdicts_text(const char *cache) {
    kn_host host = kn_host_defaults();
    kn_arena arena;
    char folder[512], path[512], **names;
    size_t count = 0;
    uint8_t *bytes = NULL;
    uint64_t length = 0;
    kn_arena_init(&arena, &host);
    assert_int_equal(
        kn_folder_list(&arena, test_path(folder, sizeof folder, cache, "devices"), &names, &count, NULL),
        KN_OK);
    assert_int_equal(count, 1);
    assert_int_equal(
        kn_file_read(&host, test_path(path, sizeof path, folder, names[0]), 1 << 20, &bytes, &length, NULL),
        KN_OK);
    kn_arena_finish(&arena);
    return (char *)bytes;
}

/* Measures the variant against itself; afterwards there is a verdict whose key ends in `sizes`, or none. */
static void check_verdict(const kn_node_sizes *measured_at, const char *sizes, bool measured) {
    kn_host host = kn_host_defaults();
    char *cache = test_folder_make(), key[320], stale[320];
    kn_graph *graph, *bound;
    kn_value *result;
    kn_variant variant = *product(&graph, &bound, &result);
    variant.choice.measured_at = measured_at;
    kn_context_params params = device_params();
    params.cache_folder = cache;
    params.device = getenv("KOINE_DEVICE") ? getenv("KOINE_DEVICE") : "0";
    kn_context *context = device_open(&params);
    const bool faster = kn_variant_is_faster(context, result->producer, &variant, &variant);
    size_t used = kn_verdict_name(context, "faster", key, sizeof key);
    snprintf(key + used, sizeof key - used, "/matmul/tiled/tiled%s", sizes);
    snprintf(stale, sizeof stale, "faster/%s/", "matmul");
    double ratio = 0;
    assert_int_equal(kn_verdict_expect(context, key, 0, &ratio), measured);
    assert_true(measured ? ratio > 0 && faster == (ratio > 1) : !faster);
    kn_context_destroy(&context);
    char *text = measured ? verdicts_text(cache) : NULL;
    if (measured && (!strstr(text, key) || strstr(text, stale))) fail_msg("'%s' is not in\n%s", key, text);
    kn_release(&host, text);
    kn_graph_destroy(&bound);
    kn_graph_destroy(&graph);
    test_folder_remove(cache);
}

TEST(what_was_measured_is_of_these_kernels) {
    check_verdict(NULL, "/64x64/64x64/0/0", true);
}

/* A variant with fixed sizes is measured at these, once for all nodes; never where they are not sizes of
 * such a node. */
TEST(a_variant_is_measured_at_fixed_sizes) {
    static const kn_node_sizes sizes = {{"24,40", "40,32"}, ""}, wrong = {{"24,40", "41,32"}, ""};
    check_verdict(&sizes, "", true);
    check_verdict(&wrong, "", false);
}

TEST_FILE(test_measured, NULL, NULL)
