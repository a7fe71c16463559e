/* How the cost of planning grows with the network, counted in elementary operations: nearly linearly. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <koine/operators.h>

#include "passes.h"
#include "train/train.h"

enum { SMALL = 400, LARGE = 2 * SMALL, PASSES = 32 };
static const double growth_most = 2.3; /* per doubling */

typedef struct training {
    kn_trainer_params params;
    kn_update_setting settings[4 * LARGE]; /* of each parameter */
} training;

static kn_status train(void *user, kn_graph *bound, kn_value **values, size_t count, kn_error *error) {
    training *with = user;
    return kn_optimizer_extend(&with->params, with->settings, KN_PRECISION_FLOAT32, NULL, bound, values,
                               count, error);
}

/* Writes to work[] what each pass counts when the training of a network is planned. */
static void count_work(kn_graph *graph, kn_value *loss, uint64_t work[PASSES]) {
    static training with;
    if (kn_graph_status(graph) != KN_OK) fail_msg("%s", kn_graph_error(graph));
    kn_trainer_params_init(&with.params);
    kn_trainer_params_choose(&with.params, KN_OPTIMIZER_ADAM);
    with.params.clip_norm = 1; /* reads all gradients at once */
    for (int i = 0; i < 4 * LARGE; i++)
        with.settings[i] = (kn_update_setting){1, 0, 0};
    pass_run passes;
    passes_begin(&passes, &loss, 1, true, train, &with);
    for (int i = 0; kn_plan_pass_name(i); i++) {
        uint64_t before = passes.planner.work;
        passes_run(&passes, kn_plan_pass_name(i));
        work[i] = passes.planner.work - before;
    }
    passes_end(&passes);
    kn_graph_destroy(&graph);
}

static void check_growth(const char *what, uint64_t small, uint64_t large) {
    if (!small || (double)large > growth_most * (double)small)
        fail_msg("%s: %llu steps of work became %llu when the network was doubled; expected at most %g times "
                 "as many",
                 what, (unsigned long long)small, (unsigned long long)large, growth_most);
}

/* Each layer reads the one before, and with `shortcuts` the second one before as well: x is (batch,8). */
static void plan_layers(int layers, bool shortcuts, uint64_t work[PASSES]) {
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "batch,8"),
             *target = kn_input(graph, "target", KN_INT32, "batch");
    for (int i = 0; i < layers; i++) {
        kn_value *y = kn_relu(kn_linear(x, 8, NULL));
        x = shortcuts ? kn_layer_norm(kn_add(y, x), NULL) : y;
    }
    count_work(graph, kn_cross_entropy(x, target, NULL), work);
}

static void check_layers(bool shortcuts) {
    uint64_t small[PASSES], large[PASSES];
    plan_layers(SMALL, shortcuts, small);
    plan_layers(LARGE, shortcuts, large);
    int counted = 0;
    for (int i = 0; kn_plan_pass_name(i); i++) {
        /* The place pass tries as many orders as a fixed amount of work allows. */
        if (!small[i] || !strcmp(kn_plan_pass_name(i), "place")) continue;
        counted++;
        check_growth(kn_plan_pass_name(i), small[i], large[i]);
    }
    assert_true(counted >= 8);
}

TEST(planning_a_chain_grows_with_its_length) {
    check_layers(false);
}

TEST(planning_shortcuts_grows_with_their_number) {
    check_layers(true);
}

/* Lifetimes as in training: what each layer stores lives until its gradient is computed, and each gradient is
 * short-lived. */
static uint64_t place_layers(int layers) {
    int count = 3 * layers, blocks, culprit;
    uint64_t *sizes, work = 0;
    kn_interval *intervals = calloc((size_t)count, sizeof *intervals);
    kn_host host = kn_host_defaults();
    kn_arena arena;
    kn_error error = {0};
    kn_arena_init(&arena, &host);
    assert_non_null(intervals);
    for (int i = 0; i < layers; i++) {
        int back = 2 * layers - i;
        intervals[i] = (kn_interval){4096, i, back, 0, 0};
        intervals[layers + i] = (kn_interval){4096, back, back + 2, 0, 0};
        intervals[2 * layers + i] = (kn_interval){256, back, back + 20, 0, 0};
    }
    kn_status status = kn_intervals_place(&arena, intervals, count, 64, UINT64_MAX / 8, &sizes, &blocks,
                                          &culprit, &work, &error);
    assert_int_equal(status, KN_OK);
    kn_arena_finish(&arena);
    free(intervals);
    return work;
}

TEST(placing_grows_with_the_values) {
    /* So many that no order is tried twice, except as often as a fixed amount of work allows. */
    check_growth("place", place_layers(4 * SMALL), place_layers(4 * LARGE));
}

TEST_FILE(main, NULL, NULL)
