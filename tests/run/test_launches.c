/* Launches of devices with many threads: those that are cut give the same bits, none has more work-groups
 * along its second and third dimensions than drivers allow, and kernels that are too large are made
 * smaller. */
#include "run_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verify/verify_private.h"

static int open_many(void **state) {
    kn_context_params params = device_params();
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    params.debug = &debug;
    debug.kernels = KN_KERNELS_GPU;
    *state = device_open(&params);
    return 0;
}

/* ---- cut launches ------------------------------------------------------------------------------------ */

/* Stores the gradients of the sum of all results' squares by the inputs in states. */
static kn_status add_gradients(void *user, kn_graph *bound, kn_value **values, size_t count,
                               kn_error *error) {
    const kn_trial *trial = user;
    kn_value *loss = NULL, *by[KN_TRIAL_INPUTS], *gradients[KN_TRIAL_INPUTS];
    size_t wanted = 0;
    for (size_t k = 0; k < count; k++) {
        if (values[k]->shape.dtype != KN_FLOAT32) continue;
        kn_value *part = kn_sum(kn_mul(values[k], values[k]), NULL, false);
        loss = loss ? kn_add(loss, part) : part;
    }
    for (int i = 0; i < trial->input_count; i++) {
        kn_value *input =
            kn_trial_differentiates(trial, i) ? kn_graph_find(bound, trial->inputs[i]->name) : NULL;
        if (input && input->shape.dtype == KN_FLOAT32) by[wanted++] = input;
    }
    if (!loss || !wanted) return KN_OK;
    kn_status status = kn_graph_gradient(bound, loss, by, wanted, gradients, error);
    for (size_t i = 0; i < wanted && status == KN_OK; i++) {
        char name[32];
        snprintf(name, sizeof name, "gradient%d", (int)i);
        const kn_initializer zero = {KN_INITIALIZER_FILL, 0};
        if (gradients[i])
            kn_assign(bound, kn_state_add(bound, name, &by[i]->shape, KN_STATE_OPTIMIZER, &zero),
                      gradients[i]);
    }
    return status;
}

/* The bits of all results and gradients of a case, hashed. Counts the launches of the run, without trials of
 * kernels. */
static uint64_t run_case(kn_context *context, kn_trial *trial, const char *switches) {
    kn_session_params params;
    kn_session_params_init(&params);
    params.seed = 1;
    params.training = trial->test_case->training;
    params.switches = switches;
    kn_session_request request = {.context = context,
                                  .values = trial->outputs,
                                  .count = (size_t)trial->output_count,
                                  .params = &params,
                                  .extend = add_gradients,
                                  .user = trial};
    kn_session *session = kn_session_open(&request);
    session_good(session, kn_session_status(session));
    kn_feed feeds[KN_TRIAL_INPUTS];
    kn_fetch fetches[KN_MAX_OUTPUTS];
    size_t count = 0;
    for (int i = 0; i < trial->input_count; i++)
        if (trial->inputs[i])
            feeds[count++] = (kn_feed){trial->inputs[i]->name, trial->bytes[i], trial->byte_counts[i]};
    for (int k = 0; k < trial->output_count; k++) {
        size_t bytes =
            (size_t)kn_trial_result_elements(trial, k) * kn_dtype_bytes(trial->bound_outputs[k]->shape.dtype);
        fetches[k] = (kn_fetch){trial->outputs[k]->name, calloc(bytes + 1, 1), bytes};
        assert_non_null(fetches[k].data);
    }
    session_good(session, kn_session_compile(session, NULL, 0));
    wrapped_reset();
    session_good(session, kn_session_run(session, feeds, count, fetches, (size_t)trial->output_count));
    uint64_t hash = KN_HASH_START;
    for (int k = 0; k < trial->output_count; k++) {
        hash = kn_hash_bytes(hash, fetches[k].data, fetches[k].bytes);
        free(fetches[k].data);
    }
    for (int i = 0; i < trial->input_count; i++) {
        char name[32];
        kn_states *states = kn_session_states(session);
        snprintf(name, sizeof name, "gradient%d", i);
        const kn_state *gradient = kn_states_find(states, name);
        if (!gradient) continue;
        void *bytes = calloc(gradient->bytes + 1, 1);
        assert_non_null(bytes);
        states_good(states, kn_states_read(states, name, bytes, gradient->bytes, NULL));
        hash = kn_hash_bytes(hash, bytes, gradient->bytes);
        free(bytes);
    }
    kn_session_destroy(&session);
    return hash;
}

static test_part wanted;

/* Operators whose kernels number their work-groups, and that take short. */
static bool is_quick(const char *name) {
    static const char *const names[] = {"matmul", "softmax", "transpose"};
    for (size_t i = 0; i < KN_COUNT_OF(names); i++)
        if (!strcmp(names[i], name)) return true;
    return false;
}

static void cut_launches_give_the_same_bits(void **state) {
    kn_context *context = *state;
    size_t number = 0; /* of the case: every part gets cases of many operators */
    int whole = 0, divisible = 0, cut = 0;
    if (test_cases_wanted() == TEST_SMALLEST) skip_because(TOO_LONG_FOR_A_SIMULATOR);
    for (int i = 0; i < kn_operator_table_count; i++) {
        const kn_operator *row = kn_operator_table[i];
        if (!wanted.parts && !is_quick(row->name)) continue;
        for (int j = 0; j < row->case_count; j++) {
            kn_trial trial;
            kn_error error = {0};
            /* A global offset makes some drivers compile a kernel again: one case for each variant. */
            if (!row->cases[j].smallest) continue;
            if (wanted.parts && !test_part_has(wanted, number++)) continue;
            kn_status status = kn_trial_make(&trial, kn_context_host(context), row, &row->cases[j], NULL,
                                             (kn_trial_types){0}, 1, &error);
            if (status != KN_OK) fail_msg("%s case %d: %s", row->name, j, error.text);
            uint64_t expected = run_case(context, &trial, "programs=unsaved");
            whole += wrapped_calls.launches;
            divisible += wrapped_calls.divisible;
            /* Each of several work-groups becomes two launches at least. */
            const int least = wrapped_calls.launches + wrapped_calls.divisible;
            uint64_t bits = run_case(context, &trial, "programs=unsaved,launches=cut");
            cut += wrapped_calls.launches;
            if (wrapped_calls.launches < least)
                fail_msg("%s case %d has %d launches, cut, instead of %d or more", row->name, j,
                         wrapped_calls.launches, least);
            if (bits != expected) fail_msg("%s case %d has other bits in cut launches", row->name, j);
            kn_trial_finish(&trial);
        }
    }
    /* Many cases have a single work-group; a part may have few others. */
    if (!divisible || (!wanted.parts && cut < whole + whole / 4))
        fail_msg("%d launches, %d of several work-groups, were cut into %d only", whole, divisible, cut);
}

/* ---- many work-groups -------------------------------------------------------------------------------- */

static void groups_stay_within_the_limit(void **state) {
    static const struct {
        const char *operator_name;
        kn_case test_case;
        bool slow;
    } many[] = {
        {"matmul", {.inputs = {"70000,2,3", "70000,3,2"}}, .slow = true},
        {"transpose", {.inputs = {"66000,3,2"}, .attributes = "permutation=0,2,1"}},
        {"transpose", {.inputs = {"1050000,2"}, .attributes = "permutation=1,0", .no_gradient = true}},
        {"attention", {.inputs = {"66000,1,2", "66000,1,2", "66000,1,2"}}, .slow = true},
        {"conv2d", {.inputs = {"1,66000,2,2", "66000,1,1,1"}, .attributes = "groups=66000"}},
        {"conv2d", {.inputs = {"1,132000,1,1", "132000,2,1,1"}, .attributes = "groups=66000"}, .slow = true},
        {"batch_norm",
         {.inputs = {"2,66000,1,1", "66000", "66000", "66000", "66000"},
          .ranges = {NULL, NULL, NULL, NULL, "1..2"},
          .training = true,
          .no_gradient = true}},
        {"resize", {.inputs = {"66000,2,1"}, .attributes = "axis=1 size=3"}},
        {"sum", {.inputs = {"66000,2,3"}, .attributes = "axes=1"}},
    };
    kn_context *context = *state;
    size_t cut = 0;
    if (test_cases_wanted() == TEST_SMALLEST) skip_because(TOO_LONG_FOR_A_SIMULATOR);
    if (wanted.part > 0) skip_because("the first part has all of them");
    for (size_t i = 0; i < KN_COUNT_OF(many); i++) {
        if (!wanted.parts && many[i].slow) continue;
        kn_error error = {0};
        double ratio = 0;
        const kn_operator *row = kn_operator_find(many[i].operator_name);
        assert_non_null(row);
        wrapped_reset();
        const kn_trial_options options = {.seed = 1};
        kn_status status = kn_trial_run(context, row, &many[i].test_case, &options, &ratio, &error);
        if (status != KN_OK)
            fail_msg("%s with inputs %s: %s", row->name, many[i].test_case.inputs[0], error.text);
        if (wrapped_calls.most_groups > KN_MOST_GROUPS)
            fail_msg("%s with inputs %s: %zu work-groups", row->name, many[i].test_case.inputs[0],
                     wrapped_calls.most_groups);
        cut += wrapped_calls.most_groups > KN_MOST_GROUPS / 2;
    }
    assert_true(cut >= (wanted.parts ? 5 : 2));
}

/* ---- kernels that are too large ---------------------------------------------------------------------- */

/* A driver, and what is recorded about it once a product was computed. */
typedef struct small_driver {
    wrapped faults;
    const char *matrix_unit;
    size_t least_group, most_group; /* the largest allowed work-group, as a range; 0: not limited */
    uint32_t tiles;                 /* those that it does not compile */
    bool rolled;                    /* it compiles no unrolled loops */
} small_driver;

static const char product_file[] = "matmul/tiled.cl";

/* Computes a product of (70,70) matrices of ones on a new context, whose device is one for many threads and
 * whose cache is in `folder`: in TF32 if the driver has a matrix unit. *found: what is recorded. */
static kn_status multiply(const small_driver *driver, char *folder, small_driver *found, float *error) {
    enum { SIZE = 70 };
    static float ones[SIZE * SIZE], result[SIZE * SIZE];
    kn_context_params params = device_params();
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    params.debug = &debug;
    debug.kernels = KN_KERNELS_GPU;
    params.matrix_unit = driver->matrix_unit;
    params.cache_folder = folder;
    wrapped_calls = driver->faults;
    kn_context *context = device_open(&params);
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "70,70");
    kn_value *y = kn_name(kn_matmul(x, x, false, false), "y");
    kn_session_params session_params;
    kn_session_params_init(&session_params);
    if (driver->matrix_unit) session_params.precision = KN_PRECISION_TF32;
    kn_session *session = kn_session_create(context, &y, 1, &session_params);
    kn_graph_destroy(&graph);
    for (int i = 0; i < SIZE * SIZE; i++)
        ones[i] = 1, result[i] = 0;
    const kn_feed feed = {"x", ones, sizeof ones};
    const kn_fetch fetch = {"y", result, sizeof result};
    kn_status status = kn_session_status(session);
    if (status == KN_OK) status = kn_session_run(session, &feed, 1, &fetch, 1);
    *error = 0;
    for (int i = 0; i < SIZE * SIZE; i++)
        if (!(result[i] == SIZE)) *error = result[i] - SIZE;
    kn_session_destroy(&session);
    *found = (small_driver){.faults = wrapped_calls,
                            .most_group = kn_groups_limit(context, product_file),
                            .tiles = kn_groups_refused_tiles(context, product_file),
                            .rolled = kn_groups_rolled(context, product_file)};
    device_close(&context);
    wrapped_reset();
    return status;
}

/* Tiles of the work-items of at least 32, and the largest of the matrix unit. */
enum { TILES_FROM_32 = 7 << 4, MATRIX_TILE_128 = 1 << 2 };
static const small_driver small_drivers[] = {
    {{.kernel = "kn_matmul", .most_items = 40}, NULL, 8, 32},
    {{.kernel = "kn_matmul", .most_items = 10}, NULL, 8, 8},
    {{.fault = WRAPPED_FAILS, .text = "#define KN_TILE_M 32\n"}, NULL, .tiles = TILES_FROM_32},
    {{.fault = WRAPPED_FAILS, .text = "#define KN_TILE_M 128\n"}, "emulated-mma", .tiles = MATRIX_TILE_128},
    {{.fault = WRAPPED_FAILS, .text = "#define KN_TILE_M ", .unless = "#define KN_ROLLED\n"}, .rolled = true},
};

/* The first start finds a smaller kernel, the second knows it. */
static void kernels_shrink_until_they_fit(void **state) {
    const small_driver *driver = *state;
    const kn_context_params params = device_params();
    kn_context *context = device_open(&params);
    const bool little = kn_context_capabilities(context)->local_bytes < 64 << 10;
    device_close(&context);
    if (little && driver->matrix_unit) skip_because("with less local memory, tiles are smaller");
    if (little && driver->rolled && test_cases_wanted() != TEST_SMALLEST)
        skip_because("the second start tries one unrolled program on llvmpipe; the reason is not known");
    char *folder = test_folder_make();
    for (int start = 0; start < 2; start++) {
        float error;
        small_driver found;
        assert_int_equal(multiply(driver, folder, &found, &error), KN_OK);
        if (error != 0) fail_msg("start %d: an element is wrong by %g", start, (double)error);
        assert_in_range(found.most_group, driver->least_group, driver->most_group);
        assert_int_equal(found.tiles, driver->tiles);
        assert_int_equal(found.rolled, driver->rolled);
        int refused = found.faults.faults + found.faults.too_large_groups;
        if (start == 0 && !refused) fail_msg("the driver was asked for no large kernel");
        if (start == 1 && refused) fail_msg("%d kernels that are too large were tried again", refused);
    }
    test_folder_remove(folder);
}

/* A program that compiles in no form has another fault, which the next start may not have. */
static void failures_of_all_tiles_are_forgotten(void **state) {
    static const small_driver bad = {{.fault = WRAPPED_FAILS, .text = "#define KN_TILE_M "}},
                              good = {{.fault = WRAPPED_NONE}};
    char *folder = test_folder_make();
    float error;
    small_driver found;
    multiply(&bad, folder, &found, &error);
    assert_true(found.faults.faults > 3);
    assert_true(!found.most_group && !found.tiles && !found.rolled);
    assert_int_equal(multiply(&good, folder, &found, &error), KN_OK);
    assert_true(!found.most_group && !found.tiles && !found.rolled);
    assert_true(error == 0);
    test_folder_remove(folder);
}

int test_launches(test_part part) {
    wanted = part;
    const struct CMUnitTest launches[] = {
        cmocka_unit_test(cut_launches_give_the_same_bits),
        cmocka_unit_test(groups_stay_within_the_limit),
    };
    const struct CMUnitTest groups[] = {
        cmocka_unit_test_prestate(kernels_shrink_until_they_fit, (void *)&small_drivers[0]),
        cmocka_unit_test_prestate(kernels_shrink_until_they_fit, (void *)&small_drivers[1]),
        cmocka_unit_test_prestate(kernels_shrink_until_they_fit, (void *)&small_drivers[2]),
        cmocka_unit_test_prestate(kernels_shrink_until_they_fit, (void *)&small_drivers[3]),
        cmocka_unit_test_prestate(kernels_shrink_until_they_fit, (void *)&small_drivers[4]),
        cmocka_unit_test(failures_of_all_tiles_are_forgotten),
    };
    if (part.parts) return cmocka_run_group_tests_name("launches", launches, open_many, device_teardown);
    return cmocka_run_group_tests_name("launches", launches, open_many, device_teardown) +
           cmocka_run_group_tests_name("large kernels", groups, NULL, NULL);
}
