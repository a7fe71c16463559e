/* The graph before and after each pass, starting with the one that orders groups: what the pass must
 * change and no other pass may change. */
#include "support.h"

#include <stdio.h>
#include <string.h>

#include <koine/operators.h>

#include "pass_tests.h"
#include "train/train.h"

/* ---- order and states --------------------------------------------------------------------------- */

/* w is read by a node created after its new value: that node must still read the old value. */
static kn_status assign_early(void *user, kn_graph *bound, kn_value **values, size_t count, kn_error *error) {
    (void)user, (void)count, (void)error;
    kn_value *w = kn_graph_find(bound, "w");
    kn_assign(bound, w, kn_scale(w, 2));
    /* Another reader, created later. */
    kn_value *late = kn_sum(kn_mul(w, w), NULL, false);
    kn_assign(bound, kn_state_add(bound, "late", &late->shape, KN_STATE_OPTIMIZER, NULL), late);
    return KN_OK;
}

GRAPH_TEST(order_reads_states_before_they_change) {
    kn_value *w = kn_parameter(graph, "w", KN_FLOAT32, "8,4", NULL);
    kn_value *y = kn_matmul(x, w, false, false);
    check_built();
    pass_run passes;
    passes_begin(&passes, &y, 1, true, assign_early, NULL);
    passes_run(&passes, "lower");
    kn_group *change = passes_group_of(&passes, "scale");
    assert_non_null(change);
    assert_true(passes_group_of(&passes, "matmul")->id < change->id);
    assert_true(passes_group_of(&passes, "mul")->id < change->id);
    /* Then the new value is written in place: no copy. */
    for (int i = 0; i < passes.planner.emitter.step_count; i++)
        assert_int_not_equal(passes.planner.emitter.steps[i]->kind, KN_STEP_COPY);
    kn_value *bound_w = kn_graph_find(passes.graph, "w");
    assert_ptr_equal(kn_memory_root(&passes.planner, change->members[0]->outputs[0]), bound_w);
    passes_end(&passes);
}

/* The running statistics of a batch norm are updated in place. */
GRAPH_TEST(order_updates_statistics_in_place) {
    kn_value *image = kn_input(graph, "image", KN_FLOAT32, "batch,16,3,5");
    kn_value *y = kn_batch_norm(image, NULL);
    check_built();
    pass_run passes;
    passes_begin(&passes, &y, 1, true, NULL, NULL);
    passes_run(&passes, "lower");
    for (int i = 0; i < passes.planner.emitter.step_count; i++)
        assert_int_not_equal(passes.planner.emitter.steps[i]->kind, KN_STEP_COPY);
    const kn_node *norm = passes_group_of(&passes, "batch_norm")->anchor;
    for (int i = 3; i < 5; i++)
        assert_ptr_equal(kn_memory_root(&passes.planner, norm->outputs[i]), norm->inputs[i]);
    passes_end(&passes);
}

/* The number of steps that run this kernel. */
static int count_kernels(const pass_run *passes, const char *kernel) {
    int count = 0;
    for (int i = 0; i < passes->planner.emitter.step_count; i++) {
        const kn_step *step = passes->planner.emitter.steps[i];
        count += step->kind == KN_STEP_KERNEL && !strcmp(step->kernel, kernel);
    }
    return count;
}

/* The surroundings of a batch norm of an image (batch,64,9,9) computed by a convolution. */
typedef enum norm_place {
    ALONE,
    BESIDE_A_READER,
    TWICE,
    BEHIND_A_POOL,
    BEHIND_AN_INPUT,
    TRANSPOSED,
    FROZEN
} norm_place;

/* The number of batch norms that get statistics from convolutions. */
static int count_gathered(norm_place place, bool training, const char *variants) {
    const kn_conv_params same = {.size = sizeof same, .padding = {1}};
    const kn_batch_norm_params norm = {
        .size = sizeof norm, .epsilon = 1e-5, .momentum = 0.1, .frozen = place == FROZEN};
    kn_graph *own = kn_graph_create(NULL);
    kn_value *made = kn_input(own, "image", KN_FLOAT32, "batch,64,9,9");
    const kn_conv_params twice = {.size = sizeof twice, .stride = {2}};
    if (place == TRANSPOSED)
        made = kn_conv_transpose(made, 64, 3, 3, &twice);
    else if (place != BEHIND_AN_INPUT)
        made = kn_conv(made, 64, 3, 3, &same);
    if (place == BEHIND_A_POOL) made = kn_max_pool(made, 2, NULL);
    kn_value *y = kn_batch_norm(made, &norm);
    if (place == BESIDE_A_READER) y = kn_add(y, made);
    if (place == TWICE) y = kn_add(y, kn_batch_norm(made, &norm));
    assert_int_equal(kn_graph_status(own), KN_OK);
    pass_run passes;
    passes_begin(&passes, &y, 1, training, NULL, NULL);
    passes_wide(&passes, 16, variants);
    passes_run(&passes, "lower");
    int count = count_kernels(&passes, "kn_batch_norm_gathered");
    passes_end(&passes);
    kn_graph_destroy(&own);
    return count;
}

GRAPH_TEST(lower_gathers_statistics_where_images_are_made) {
    assert_int_equal(count_gathered(ALONE, true, "conv2d=wide"), 1);
    assert_int_equal(count_gathered(ALONE, true, "conv2d=winograd4"), 1);
    assert_int_equal(count_gathered(ALONE, true, "conv2d=winograd4_phases"), 1);
    assert_int_equal(count_gathered(BESIDE_A_READER, true, "conv2d=wide"), 1);
    assert_int_equal(count_gathered(TWICE, true, "conv2d=wide"), 2);
    assert_int_equal(count_gathered(BEHIND_A_POOL, true, "conv2d=wide"), 0);
    assert_int_equal(count_gathered(BEHIND_AN_INPUT, true, ""), 0);
    assert_int_equal(count_gathered(TRANSPOSED, true, "conv2d_data=wide"), 0);
    assert_int_equal(count_gathered(FROZEN, true, "conv2d=wide"), 0);
    assert_int_equal(count_gathered(ALONE, false, "conv2d=wide"), 0);
    assert_int_equal(count_gathered(ALONE, true, "conv2d=implicit"), 0);
    assert_int_equal(count_gathered(ALONE, true, "conv2d=wide,statistics=separate"), 0);
}

/* a becomes b and b becomes a: one of the two cannot be written in place. */
static kn_status swap(void *user, kn_graph *bound, kn_value **values, size_t count, kn_error *error) {
    (void)user, (void)values, (void)count, (void)error;
    kn_value *a = kn_graph_find(bound, "a"), *b = kn_graph_find(bound, "b");
    kn_assign(bound, a, kn_scale(b, 2));
    kn_assign(bound, b, kn_transpose(a, "1,0"));
    return KN_OK;
}

GRAPH_TEST(order_survives_states_that_swap) {
    kn_value *a = kn_parameter(graph, "a", KN_FLOAT32, "8,8", NULL);
    kn_value *b = kn_parameter(graph, "b", KN_FLOAT32, "8,8", NULL);
    kn_value *y = kn_add(kn_matmul(x, a, false, false), kn_matmul(x, b, false, false));
    check_built();
    pass_run passes;
    passes_begin(&passes, &y, 1, true, swap, NULL);
    passes_run(&passes, "lower");
    int copies = 0;
    for (int i = 0; i < passes.planner.emitter.step_count; i++)
        copies += passes.planner.emitter.steps[i]->kind == KN_STEP_COPY;
    assert_int_equal(copies, 1);
    passes_end(&passes);
}

/* ---- layout ------------------------------------------------------------------------------------- */

GRAPH_TEST(layout_inserts_one_conversion) {
    kn_value *image = kn_input(graph, "image", KN_FLOAT32, "batch,16,9,9");
    const kn_conv_params same = {.size = sizeof same, .padding = {1}, .no_bias = true};
    kn_value *h = kn_relu(kn_conv(kn_relu(kn_conv(image, 32, 3, 3, &same)), 32, 3, 3, &same));
    check_built();
    pass_run passes;
    passes_begin(&passes, &h, 1, false, NULL, NULL);
    passes_wide(&passes, 16, "conv2d=wide");
    passes_run(&passes, "lower");
    /* The image is converted to the blocked layout (unless the first convolution reads it plain), and the
     * result back to plain. */
    int conversions = passes.planner.conversions;
    assert_true(conversions == 1 || conversions == 2);
    assert_int_equal(passes_group_of(&passes, "conv2d")->anchor->outputs[0]->layout, KN_LAYOUT_BLOCKED);
    assert_int_equal(passes.planner.wanted[0]->layout, KN_LAYOUT_PLAIN);
    passes_end(&passes);
    /* On a device with many threads everything is plain. */
    passes_begin(&passes, &h, 1, false, NULL, NULL);
    passes_run(&passes, "lower");
    assert_int_equal(passes.planner.conversions, 0);
    passes_end(&passes);
}

static kn_matrix_unit multiplies_halves(void *device, kn_dtype type) {
    return kn_is_half(type) ? KN_MATRIX_UNIT_MMA : KN_MATRIX_UNIT_NONE;
}

/* Where a matrix unit multiplies images of 16 bits these are blocked, and what is between convolutions stays
 * so: the first one's input is converted, and the last one's result, which the caller wants. A filter of few
 * channels has plain images. */
GRAPH_TEST(layout_blocks_halves_for_matrix_units) {
    static const struct {
        const char *shape;
        int channels, conversions;
    } cases[] = {{"batch,16,9,9", 32, 2}, {"batch,16,9,9", 12, 0}, {"batch,3,9,9", 32, 2}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char name[8];
        snprintf(name, sizeof name, "x%zu", c);
        kn_value *image = kn_input(graph, name, KN_FLOAT32, cases[c].shape);
        const kn_conv_params same = {.size = sizeof same, .padding = {1}, .no_bias = true};
        kn_value *h = kn_relu(kn_conv(kn_relu(image), cases[c].channels, 3, 3, &same));
        h = kn_max_pool(h, 3, &(kn_pool_params){.size = sizeof(kn_pool_params), .stride = {1, 1}});
        for (int i = 0; i < 3; i++)
            h = kn_relu(kn_conv(h, cases[c].channels, 3, 3, &same));
        check_built();
        pass_run passes;
        passes_begin(&passes, &h, 1, false, NULL, NULL);
        passes.target.matrix_unit = multiplies_halves;
        passes.request.precision = KN_BFLOAT16;
        passes_run(&passes, "lower");
        assert_int_equal(passes.planner.conversions, cases[c].conversions);
        const bool blocked = cases[c].channels % KN_BLOCK_OF_THREADS == 0;
        assert_int_equal(passes_count_steps(&passes, "conv/blocked.cl") > 0, blocked);
        assert_int_equal(passes_count_steps(&passes, "shape/blocks.cl"), cases[c].conversions);
        assert_int_equal(passes.planner.wanted[0]->layout, KN_LAYOUT_PLAIN);
        passes_end(&passes);
    }
}

/* Depthwise convolutions have plain images: those around them stay plain too. */
GRAPH_TEST(layout_converts_not_again_and_again) {
    const kn_conv_params apart = {.size = sizeof apart, .padding = {1}, .groups = 16, .no_bias = true},
                         plain = {.size = sizeof plain, .no_bias = true};
    kn_value *h = kn_relu(kn_input(graph, "image", KN_FLOAT32, "batch,16,9,9"));
    for (int i = 0; i < 2; i++)
        h = kn_relu(kn_conv(kn_relu(kn_conv(h, 16, 1, 1, &plain)), 16, 3, 3, &apart));
    check_built();
    for (int forced = 0; forced < 2; forced++) {
        pass_run passes;
        passes_begin(&passes, &h, 1, false, NULL, NULL);
        passes.target.matrix_unit = multiplies_halves;
        passes.request.precision = KN_BFLOAT16;
        if (forced) passes_switch(&passes, "images=blocked");
        passes_run(&passes, "lower");
        assert_int_equal(passes.planner.conversions, forced ? 4 : 0);
        assert_int_equal(passes_count_steps(&passes, "conv/blocked.cl") > 0, forced);
        passes_end(&passes);
    }
}

/* A blocked image read by two flattening readers is converted once. */
GRAPH_TEST(layout_converts_once_for_all_readers) {
    kn_value *image = kn_input(graph, "image", KN_FLOAT32, "batch,1,9,9");
    const kn_conv_params plain = {.size = sizeof plain, .no_bias = true};
    kn_value *h = kn_conv(image, 16, 3, 3, &plain);
    kn_value *outputs[2] = {kn_name(kn_linear(kn_flatten(h), 4, NULL), "a"),
                            kn_name(kn_linear(kn_flatten(h), 5, NULL), "b")};
    check_built();
    pass_run passes;
    passes_begin(&passes, outputs, 2, false, NULL, NULL);
    passes_wide(&passes, 16, "conv2d=wide_first,matmul=tiled");
    passes_run(&passes, "layout");
    bool blocked = passes_group_of(&passes, "conv2d")->anchor->outputs[0]->layout == KN_LAYOUT_BLOCKED;
    assert_int_equal(passes.planner.conversions, blocked ? 1 : 0);
    assert_true(blocked);
    passes_end(&passes);
}

/* ---- lower and bucket ------------------------------------------------------------------------------ */

GRAPH_TEST(lower_shares_text_between_sizes) {
    kn_value *small = kn_input(graph, "small", KN_FLOAT32, "batch,3");
    kn_value *outputs[2] = {kn_name(kn_exp(kn_neg(x)), "a"), kn_name(kn_exp(kn_neg(small)), "b")};
    check_built();
    pass_run passes;
    passes_begin(&passes, outputs, 2, false, NULL, NULL);
    passes_run(&passes, "lower");
    assert_int_equal(passes_count_steps(&passes, "pointwise/pointwise.cl"), 2);
    assert_string_equal(passes.planner.emitter.steps[0]->prelude, passes.planner.emitter.steps[1]->prelude);
    passes_end(&passes);
}

static bool has_vectors(kn_value *y, int width, bool training) {
    pass_run passes;
    passes_begin(&passes, &y, 1, training, NULL, NULL);
    if (width) passes_wide(&passes, width, NULL);
    passes_run(&passes, "lower");
    assert_int_equal(passes_count_steps(&passes, "pointwise/pointwise.cl"), 1);
    const char *body = strstr(passes.planner.emitter.steps[0]->prelude, "define KN_VECTOR_BODY");
    if (body && width == 8) assert_non_null(strstr(body, "const float8 v0 = "));
    passes_end(&passes);
    return body != NULL;
}

/* Functions and random numbers get vector bodies where the device has vectors; the compiler vectorizes the
 * rest. */
GRAPH_TEST(lower_writes_vectors_of_functions) {
    kn_value *exp = kn_exp(x), *neg = kn_neg(x), *dropped = kn_dropout(x, 0.5);
    check_built();
    assert_true(has_vectors(exp, 8, false));
    assert_true(has_vectors(exp, 16, false));
    assert_false(has_vectors(neg, 8, false));
    assert_false(has_vectors(exp, 0, false));
    assert_true(has_vectors(dropped, 8, true));
    assert_false(has_vectors(dropped, 0, true));
}

/* Biases have a separate learning rate and weight decay. */
static kn_status train(void *user, kn_graph *bound, kn_value **values, size_t count, kn_error *error) {
    const kn_trainer_params *params = user;
    kn_update_setting settings[4] = {{1, params->weight_decay, 0}, {1, 0, 0}, {2, 0, 0}, {2, 0, 0}};
    return kn_optimizer_extend(params, settings, KN_PRECISION_FLOAT32, NULL, bound, values, count, error);
}

/* Four parameters are updated in one launch; steps that advance counters may be joined as well. */
static void check_joined(kn_value *loss, kn_trainer_params *params) {
    pass_run passes;
    passes_begin(&passes, &loss, 1, true, train, params);
    passes_run(&passes, "lower");
    int before = passes_count_steps(&passes, "pointwise/pointwise.cl");
    passes_end(&passes);
    passes_begin(&passes, &loss, 1, true, train, params);
    passes_run(&passes, "bucket");
    int after = passes_count_steps(&passes, "pointwise/pointwise.cl"), updates = 0;
    for (int i = 0; i < passes.planner.emitter.step_count; i++) {
        const kn_step *step = passes.planner.emitter.steps[i];
        if (step->kind == KN_STEP_KERNEL && !strcmp(step->kernel, "pointwise_bucket"))
            updates += strstr(step->label, " and 3 more") != NULL;
    }
    if (before - after < 3 || before - after > 4 || updates != 1)
        fail_msg("optimizer %d: %d pointwise steps became %d, and %d of them updates", (int)params->optimizer,
                 before, after, updates);
    passes_end(&passes);
}

GRAPH_TEST(bucket_joins_updates) {
    kn_value *target = kn_input(graph, "target", KN_INT32, "batch");
    kn_value *logits = kn_linear(kn_relu(kn_linear(x, 16, NULL)), 3, NULL);
    kn_value *loss = kn_cross_entropy(logits, target, NULL);
    check_built();
    kn_trainer_params params;
    kn_trainer_params_init(&params);
    kn_trainer_params_choose(&params, KN_OPTIMIZER_SGD);
    check_joined(loss, &params);
    /* With all options; LAMB and clipping by the norm are excluded, since they compute norms in between. */
    const kn_parameter_group biases = {sizeof biases, "*.bias", 2, 0, false};
    for (size_t rule = 0; rule < kn_optimizer_count(); rule++) {
        if (rule == KN_OPTIMIZER_LAMB) continue;
        kn_trainer_params_init(&params);
        kn_trainer_params_choose(&params, (kn_optimizer)rule);
        params.weight_decay = 0.1;
        params.groups = &biases;
        params.group_count = 1;
        params.amsgrad = params.centered = true;
        params.clip_value = 1;
        params.average = 0.9;
        check_joined(loss, &params);
        params.accumulate = 2;
        check_joined(loss, &params);
    }
}

/* ---- launches ------------------------------------------------------------------------------------- */

/* Begins the passes of a training step of the mean of y * y. */
static void begin_training(kn_value *y, pass_run *passes) {
    kn_value *loss = kn_mean(kn_mul(y, y), NULL, false);
    check_built();
    kn_trainer_params params;
    kn_trainer_params_init(&params);
    kn_trainer_params_choose(&params, KN_OPTIMIZER_SGD);
    passes_begin(passes, &loss, 1, true, train, &params);
}

/* The launches of a training step of the mean of y * y on a device with many threads: those of norms, and at
 * most `most` in all. */
static void check_launches(kn_value *y, int norms, int most) {
    pass_run passes;
    begin_training(y, &passes);
    passes_run(&passes, "bucket");
    int found = 0;
    for (int i = 0; i < passes.planner.emitter.step_count; i++) {
        const kn_step *step = passes.planner.emitter.steps[i];
        found += step->kind == KN_STEP_KERNEL && !strncmp(step->file, "norm/", 5);
    }
    assert_int_equal(found, norms);
    assert_in_range(passes_count_steps(&passes, NULL), 1, most);
    passes_end(&passes);
}

/* A batch norm takes one launch in each direction where a work-group holds a channel, else two. */
GRAPH_TEST(batch_norms_take_few_launches) {
    const kn_conv_params same = {.size = sizeof same, .padding = {1}, .no_bias = true};
    kn_value *image = kn_input(graph, "image", KN_FLOAT32, "batch,8,9,9");
    check_launches(kn_relu(kn_batch_norm(kn_conv(image, 16, 3, 3, &same), NULL)), 2, 11);
    image = kn_input(graph, "large", KN_FLOAT32, "batch,8,64,64");
    check_launches(kn_relu(kn_batch_norm(kn_conv(image, 16, 3, 3, &same), NULL)), 4, 14);
}

/* A layer norm takes one in each direction, and one adds the parts of the gradients of its weight and bias;
 * what else flows back to its input is added as its own part is stored. */
GRAPH_TEST(layer_norms_take_few_launches) {
    kn_value *h = kn_linear(x, 24, NULL);
    check_launches(kn_layer_norm(h, NULL), 2, 12);
    check_launches(kn_add(h, kn_layer_norm(h, NULL)), 2, 11);
}

/* The sums of the parts of three weights' gradients are one step, before their updates, which are one as
 * well. */
GRAPH_TEST(sums_wait_for_a_reader) {
    kn_value *y = kn_input(graph, "image", KN_FLOAT32, "batch,8,64,64");
    const kn_conv_params same = {.size = sizeof same, .padding = {1}, .no_bias = true};
    for (int i = 0; i < 3; i++)
        y = kn_conv(y, 8, 3, 3, &same);
    pass_run passes;
    begin_training(y, &passes);
    passes_run(&passes, "lower");
    assert_int_equal(count_kernels(&passes, "kn_sums"), 3);
    passes_run(&passes, "sums");
    assert_int_equal(count_kernels(&passes, "kn_sums"), 1);
    passes_run(&passes, "bucket");
    for (int i = 0; i < passes.planner.emitter.step_count; i++) {
        const kn_step *step = passes.planner.emitter.steps[i];
        if (step->kind != KN_STEP_KERNEL || strcmp(step->kernel, "kn_sums")) continue;
        assert_int_equal(step->sum_count, 3);
        assert_true(step->global[0] / step->local[0] >= 3);
        assert_string_equal(passes.planner.emitter.steps[i + 1]->file, "pointwise/pointwise.cl");
    }
    assert_int_equal(count_kernels(&passes, "pointwise_bucket"), 1);
    passes_end(&passes);
}

/* The step that is the only one with this kernel. */
static const kn_step *only_step(const pass_run *passes, const char *kernel, int *position) {
    const kn_step *found = NULL;
    for (int i = 0; i < passes->planner.emitter.step_count; i++) {
        const kn_step *step = passes->planner.emitter.steps[i];
        if (step->kind != KN_STEP_KERNEL || strcmp(step->kernel, kernel)) continue;
        assert_null(found);
        found = step;
        *position = i;
    }
    assert_non_null(found);
    return found;
}

/* Each value and scratch memory that step `reader` reads is written before it, not after. */
static void check_order(const pass_run *passes, int reader) {
    kn_step *const *steps = passes->planner.emitter.steps;
    for (int i = 0; i < steps[reader]->argument_count; i++) {
        const kn_argument *read = &steps[reader]->arguments[i];
        if (!read->reads || read->writes) continue;
        for (int s = reader + 1; s < passes->planner.emitter.step_count; s++)
            for (int j = 0; j < steps[s]->argument_count; j++) {
                const kn_argument *written = &steps[s]->arguments[j];
                const bool is_scratch = read->kind == KN_ARGUMENT_SCRATCH && written->kind == read->kind;
                if (!written->writes) continue;
                assert_false(is_scratch && written->integer == read->integer);
                assert_false(read->value && written->value == read->value);
            }
    }
}

/* The directions of a layer are one launch forward and one backward, after the steps that pack their weights.
 */
GRAPH_TEST(pairs_joins_directions) {
    kn_value *sequence = kn_input(graph, "sequence", KN_FLOAT32, "batch,5,4");
    const kn_recurrent_params both = {.size = sizeof both, .bidirectional = true};
    pass_run passes;
    begin_training(kn_gru(sequence, 8, &both), &passes);
    passes_wide(&passes, 8, "gru=wide,gru_gradient=wide");
    passes.target.compute_units = 4;
    passes_run(&passes, "lower");
    assert_int_equal(count_kernels(&passes, "kn_recurrent_step"), 2);
    assert_int_equal(count_kernels(&passes, "kn_recurrent_back"), 2);
    passes_run(&passes, "pairs");
    assert_int_equal(count_kernels(&passes, "kn_recurrent_step"), 0);
    assert_int_equal(count_kernels(&passes, "kn_recurrent_back"), 0);
    static const char *const kernels[] = {"kn_recurrent_step_pair", "kn_recurrent_back_pair"};
    for (size_t i = 0; i < KN_COUNT_OF(kernels); i++) {
        int position = 0;
        const kn_step *step = only_step(&passes, kernels[i], &position);
        check_order(&passes, position);
        /* Six samples in four bands, with both directions two bands each. */
        assert_int_equal(step->global[1], 2);
        assert_int_equal(step->global[2], 2);
    }
    passes_run(&passes, "place");
    passes_end(&passes);
}

/* A long sequence is several launches, each with work that a slow device finishes in half a second. */
GRAPH_TEST(lower_splits_long_recurrences) {
    kn_value *sequence = kn_input(graph, "sequence", KN_FLOAT32, "batch,2000,4");
    kn_value *y = kn_lstm(sequence, 256, NULL);
    check_built();
    pass_run passes;
    passes_begin(&passes, &y, 1, false, NULL, NULL);
    passes_wide(&passes, 8, "lstm=wide");
    passes.target.compute_units = 2;
    passes_run(&passes, "lower");
    const int launches = count_kernels(&passes, "kn_recurrent_step");
    assert_in_range(launches, 2, 20);
    for (int i = 0; i < passes.planner.emitter.step_count; i++) {
        const kn_step *step = passes.planner.emitter.steps[i];
        if (step->kind != KN_STEP_KERNEL || strcmp(step->kernel, "kn_recurrent_step")) continue;
        assert_int_equal(step->global[1], 2);
        assert_true(step->cost.flops / 2 < 4e9 / 2);
    }
    passes_end(&passes);
}

/* A layer that reads the result of the one before is a separate launch. */
GRAPH_TEST(pairs_leaves_dependent_layers) {
    kn_value *sequence = kn_input(graph, "sequence", KN_FLOAT32, "batch,5,8");
    const kn_recurrent_params two = {.size = sizeof two, .layers = 2};
    pass_run passes;
    begin_training(kn_gru(sequence, 8, &two), &passes);
    passes_wide(&passes, 8, "gru=wide,gru_gradient=wide");
    passes_run(&passes, "pairs");
    assert_int_equal(count_kernels(&passes, "kn_recurrent_step"), 2);
    assert_int_equal(count_kernels(&passes, "kn_recurrent_back"), 2);
    passes_end(&passes);
}

/* The same weight is packed to the same memory for both products, but other weights are not. */
GRAPH_TEST(share_packs_a_weight_once) {
    kn_value *w[2] = {kn_parameter(graph, "w", KN_FLOAT32, "8,8", NULL),
                      kn_parameter(graph, "v", KN_FLOAT32, "8,8", NULL)};
    for (int other = 0; other < 2; other++) {
        kn_value *y = kn_matmul(kn_matmul(x, w[0], false, false), w[other], false, false);
        int64_t scratches[2];
        int count = 0;
        check_built();
        pass_run passes;
        passes_begin(&passes, &y, 1, false, NULL, NULL);
        passes.request.keeps = true;
        passes_wide(&passes, 16, "matmul=packed");
        passes_run(&passes, "share");
        for (int s = 0; s < passes.planner.emitter.step_count; s++) {
            const kn_step *step = passes.planner.emitter.steps[s];
            for (int a = 0; a < step->argument_count && !strcmp(step->kernel, "kn_matmul_pack"); a++)
                if (step->arguments[a].kind == KN_ARGUMENT_SCRATCH && count < 2)
                    scratches[count++] = step->arguments[a].integer;
        }
        assert_int_equal(count, 2);
        assert_true((scratches[0] == scratches[1]) == !other);
        passes_run(&passes, "place");
        passes_end(&passes);
    }
}

TEST_FILE(test_pass_steps, NULL, NULL)
