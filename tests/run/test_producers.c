/* 1x1 convolutions fused into the depthwise convolution that reads their result. */
#include "run_tests.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../ops/changed_kernels.h"

/* x is (images,channels,height,width); `conv` has the size of the second filter, its stride and padding. */
typedef struct pair {
    int images, channels, height, width, outputs, filter_height, filter_width;
    kn_conv_params conv;
} pair;

/* Sizes for which the last tile, panel, ring and band are incomplete. */
static const pair pairs[] = {
    {1, 16, 14, 14, 96, 3, 3, {.padding = {1}}},
    {2, 16, 9, 7, 64, 3, 3, {.padding = {1}, .stride = {2}}},
    {1, 32, 7, 7, 48, 5, 5, {.padding = {2}}},
    {3, 16, 5, 3, 16, 3, 3, {.padding = {1}}},
    {1, 48, 21, 33, 144, 3, 3, {.padding = {0, 1, 1, 0}, .stride = {2, 1}, .all_padding = true}},
    {1, 96, 41, 6, 80, 2, 4, {.padding = {1, 2, 0, 1}, .stride = {1, 2}, .all_padding = true}},
    {1, 16, 6, 30, 32, 1, 1, {.stride = {3}}},
};
enum { PAIRS = sizeof pairs / sizeof *pairs };

/* y = relu(depthwise(relu6(conv(x) + b)) + c), with a second reader of the intermediate value if `shared`. */
static kn_session *open_pair(kn_context *context, const pair *form, bool shared, const char *variants) {
    char shape[64];
    kn_graph *graph = kn_graph_create(NULL);
    assert_non_null(graph);
    snprintf(shape, sizeof shape, "%d,%d,%d,%d", form->images, form->channels, form->height, form->width);
    const kn_initializer some = {KN_INITIALIZER_UNIFORM, 0.5};
    kn_conv_params single = {.size = sizeof single, .name = "single", .bias = &some};
    kn_conv_params each = form->conv;
    each.size = sizeof each, each.name = "each", each.bias = &some, each.groups = form->outputs;
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, shape);
    kn_value *between = kn_relu6(kn_conv(x, form->outputs, 1, 1, &single));
    kn_value *results[2] = {
        kn_output(kn_relu(kn_conv(between, form->outputs, form->filter_height, form->filter_width, &each)),
                  "y"),
        shared ? kn_output(between, "between") : NULL};
    if (kn_graph_status(graph)) fail_msg("%s", kn_graph_error(graph));
    kn_session_params params;
    kn_session_params_init(&params);
    params.seed = 3;
    params.switches = variants;
    kn_session *session = kn_session_create(context, results, shared ? 2 : 1, &params);
    kn_graph_destroy(&graph);
    session_good(session, kn_session_status(session));
    return session;
}

/* y for fixed inputs, which the caller frees; its elements, and the number of steps. */
static float *run_pair(kn_context *context, const pair *form, bool shared, const char *variants,
                       size_t *count, int *steps) {
    size_t numbers = (size_t)(form->images * form->channels * form->height * form->width);
    float *x = malloc(numbers * sizeof *x);
    assert_non_null(x);
    fill_numbers(x, numbers, 5);
    kn_session *session = open_pair(context, form, shared, variants);
    const kn_feed feed = {"x", x, numbers * sizeof *x};
    kn_tensor_info info = {.dtype = KN_FLOAT32};
    kn_plan_info plan = {.size = sizeof plan};
    session_good(session, kn_session_compile(session, &feed, 1));
    session_good(session, kn_session_info(session, "y", &info));
    session_good(session, kn_session_plan(session, &plan));
    uint64_t elements = 0;
    assert_true(kn_tensor_elements(&info, &elements));
    float *y = malloc((size_t)elements * sizeof *y);
    assert_non_null(y);
    const kn_fetch fetch = {"y", y, (size_t)elements * sizeof *y};
    session_good(session, kn_session_run(session, &feed, 1, &fetch, 1));
    kn_session_destroy(&session);
    free(x);
    *count = (size_t)elements;
    *steps = plan.steps;
    return y;
}

/* Requires that `variants` compute the same result as the separate nodes; returns how many steps they save.
 */
static int compare_pair(kn_context *context, const pair *form, bool shared, const char *variants) {
    size_t counts[2];
    int steps[2];
    float *apart = run_pair(context, form, shared, "producers=separate", &counts[0], &steps[0]);
    float *fused = run_pair(context, form, shared, variants, &counts[1], &steps[1]);
    assert_int_equal(counts[0], counts[1]);
    double largest = 0;
    for (size_t i = 0; i < counts[0]; i++)
        largest = fmax(largest, (double)apart[i]);
    assert_true(largest > 0.1);
    for (size_t i = 0; i < counts[0]; i++)
        if (!(fabs((double)fused[i] - (double)apart[i]) <= 1e-5 * largest))
            fail_msg("%d channels, element %zu: fused %.9g, apart %.9g", form->outputs, i, (double)fused[i],
                     (double)apart[i]);
    free(apart);
    free(fused);
    return steps[0] - steps[1];
}

/* With wide-vector kernels, on any device. */
static kn_context *open_wide(int width, const char *folder) {
    kn_context_params params = device_params();
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    params.debug = &debug;
    debug.kernels = KN_KERNELS_CPU;
    params.trust_claims = true;
    debug.vector_width = width;
    if (folder) params.cache_folder = NULL; /* verdicts on these kernels must not be stored */
    params.kernel_folder = folder;
    return device_open(&params);
}

static test_part wanted;

/* Without a part: vectors of 4, and the small pairs. */
static void both_ways_give_the_same(void **state) {
    for (int width = 4; width <= (wanted.parts ? 16 : 4); width *= 2) {
        kn_context *context = open_wide(width, NULL);
        for (size_t i = 0; i < PAIRS; i++) {
            if (wanted.parts ? !test_part_has(wanted, i) : pairs[i].outputs > 64) continue;
            assert_int_equal(compare_pair(context, &pairs[i], false, "producers=fused"), 1);
        }
        kn_context_destroy(&context);
    }
}

static void what_others_read_stays(void **state) {
    kn_context *context = open_wide(4, NULL);
    assert_int_equal(compare_pair(context, &pairs[1], true, "producers=fused"), 0);
    kn_context_destroy(&context);
}

/* Without switches a device fuses what it computed right in a trial, and nothing else. */
static void devices_are_tried_first(void **state) {
    kn_context *context = open_wide(4, NULL);
    assert_int_equal(compare_pair(context, &pairs[1], false, NULL), 1);
    assert_int_equal(device_counts(context).variants_refused, 0);
    kn_context_destroy(&context);
    char *folder = test_folder_make();
    link_kernels(KERNEL_FOLDER, folder);
    change_kernel(folder, "conv/fused_depthwise.cl", "pixel##i += load", "pixel##i -= load");
    context = open_wide(4, folder);
    assert_int_equal(compare_pair(context, &pairs[1], false, NULL), 0);
    assert_int_equal(device_counts(context).variants_refused, 1);
    kn_context_destroy(&context);
    test_folder_remove(folder);
}

int test_producers(test_part part) {
    wanted = part;
    const struct CMUnitTest all[] = {cmocka_unit_test(both_ways_give_the_same)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ways_give_the_same),
        cmocka_unit_test(what_others_read_stays),
        cmocka_unit_test(devices_are_tried_first),
    };
    return part.parts ? cmocka_run_group_tests_name("joins", all, NULL, NULL)
                      : cmocka_run_group_tests_name("joins", tests, NULL, NULL);
}
