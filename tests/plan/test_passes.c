/* Each pass before and after: what it must change, and that no other pass changes it. */
#include "support.h"

#include <stdio.h>
#include <string.h>

#include <koine/operators.h>

#include "passes.h"
#include "train/train.h"

static kn_graph *graph;
static kn_value *x; /* (batch, 8) */

static int begin(void **state) {
    (void)state;
    graph = kn_graph_create(NULL);
    x = kn_input(graph, "x", KN_FLOAT32, "batch,8");
    return graph == NULL;
}

static int end(void **state) {
    (void)state;
    kn_graph_destroy(&graph);
    return 0;
}

static void check_built(void) {
    if (kn_graph_status(graph) != KN_OK) fail_msg("%s", kn_graph_error(graph));
}

/* ---- widen --------------------------------------------------------------------------------------- */

static void widen_makes_inputs_of_bytes(void **state) {
    (void)state;
    kn_value *outputs[] = {kn_exp(x), x};
    check_built();
    pass_run passes;
    passes_begin(&passes, outputs, 2, false, NULL, NULL);
    kn_value *input = passes.bound_outputs[1];
    input->scale = 0.5;
    passes_run(&passes, "widen");
    const kn_value *wide = passes.bound_outputs[1];
    assert_true(input->shape.dtype == KN_UINT8 && !input->wanted);
    assert_true(wide != input && wide->shape.dtype == KN_FLOAT32 && wide->wanted);
    assert_ptr_equal(passes.graph->nodes[0], wide->producer);
    assert_ptr_equal(passes.graph->nodes[0]->inputs[0], input);
    assert_ptr_equal(passes.graph->nodes[1]->inputs[0], wide);
    for (size_t i = 0; i < passes.graph->node_count; i++)
        assert_int_equal(passes.graph->nodes[i]->id, i);
    passes_end(&passes);
}

/* ---- simplify ------------------------------------------------------------------------------------ */

static void simplify_drops_what_changes_nothing(void **state) {
    (void)state;
    kn_value *y = kn_exp(kn_reshape(kn_mul(kn_scale(x, 1), kn_number(graph, 1)), "batch,8"));
    check_built();
    pass_run passes;
    passes_begin(&passes, &y, 1, false, NULL, NULL);
    assert_int_equal(passes_count_nodes(&passes, NULL), 4);
    passes_run(&passes, "simplify");
    assert_int_equal(passes_count_nodes(&passes, NULL), 1);
    assert_int_equal(passes_count_nodes(&passes, "exp"), 1);
    passes_end(&passes);
}

static void simplify_unites_equal_nodes(void **state) {
    (void)state;
    kn_value *y = kn_add(kn_sin(kn_exp(x)), kn_cos(kn_exp(x)));
    check_built();
    pass_run passes;
    passes_begin(&passes, &y, 1, false, NULL, NULL);
    assert_int_equal(passes_count_nodes(&passes, "exp"), 2);
    passes_run(&passes, "simplify");
    assert_int_equal(passes_count_nodes(&passes, "exp"), 1);
    assert_int_equal(passes_count_nodes(&passes, "sin"), 1);
    passes_end(&passes);
}

static void simplify_keeps_differing_attributes_apart(void **state) {
    (void)state;
    kn_value *y = kn_add(kn_leaky_relu(x, 0.1), kn_leaky_relu(x, 0.2));
    check_built();
    pass_run passes;
    passes_begin(&passes, &y, 1, false, NULL, NULL);
    passes_run(&passes, "simplify");
    assert_int_equal(passes_count_nodes(&passes, "leaky_relu"), 2);
    passes_end(&passes);
}

/* ---- precision --------------------------------------------------------------------------------- */

static kn_dtype type_of(const pass_run *passes, const char *name) {
    const kn_value *value = kn_graph_find(passes->graph, name);
    if (!value) fail_msg("there is no value '%s'", name);
    return value->shape.dtype;
}

/* The gradient of the loss by the weight of the first layer. */
static kn_status add_weight_gradient(void *user, kn_graph *bound, kn_value **values, size_t count,
                                     kn_error *error) {
    kn_value *weight = kn_graph_find(bound, "first.weight"), *gradient = NULL;
    (void)user;
    (void)count;
    kn_status status = kn_graph_gradient(bound, values[0], &weight, 1, &gradient, error);
    if (status != KN_OK) return status;
    kn_assign(bound, weight, kn_name(kn_sub(weight, kn_name(gradient, "gradient")), "updated"));
    return KN_OK;
}

static void precision_is_that_of_what_kernels_can_store(void **state) {
    (void)state;
    kn_value *first = kn_name(
        kn_linear(x, 16, &(kn_linear_params){.size = sizeof(kn_linear_params), .name = "first"}), "sum");
    kn_value *hidden = kn_name(kn_relu(first), "hidden");
    kn_value *viewed = kn_name(kn_reshape(hidden, "batch,4,4"), "viewed");
    kn_value *last = kn_name(kn_linear(kn_reshape(viewed, "batch,16"), 3, NULL), "last");
    kn_value *outputs[] = {kn_sum(last, NULL, false), last};
    check_built();
    pass_run passes;
    passes_begin(&passes, outputs, 2, true, add_weight_gradient, NULL);
    passes.request.precision = KN_BFLOAT16;
    passes_run(&passes, "precision");
    assert_int_equal(type_of(&passes, "hidden"), KN_BFLOAT16);
    assert_int_equal(type_of(&passes, "viewed"), KN_BFLOAT16);
    assert_int_equal(type_of(&passes, "first.weight"), KN_FLOAT32);
    assert_int_equal(type_of(&passes, "x"), KN_FLOAT32);
    assert_int_equal(type_of(&passes, "last"), KN_FLOAT32); /* fetched */
    assert_int_equal(type_of(&passes, "gradient"), KN_FLOAT32);
    assert_int_equal(type_of(&passes, "updated"), KN_FLOAT32);
    /* What only its own kernel reads is never stored. */
    passes_run(&passes, "fuse");
    assert_int_equal(type_of(&passes, "sum"), KN_FLOAT32);
    assert_int_equal(type_of(&passes, "hidden"), KN_BFLOAT16);
    passes_end(&passes);
    passes_begin(&passes, outputs, 2, true, add_weight_gradient, NULL);
    passes_run(&passes, "precision");
    assert_int_equal(type_of(&passes, "hidden"), KN_FLOAT32);
    passes_end(&passes);
}

/* ---- switches --------------------------------------------------------------------------------- */

static void switches_are_read(void **state) {
    (void)state;
    kn_switches switches;
    kn_error error = {0};
    assert_int_equal(kn_switches_parse(NULL, &switches, &error), KN_OK);
    assert_int_equal(switches.forced_count, 0);
    assert_int_equal(kn_switches_parse("matmul=tiled,*=wide,images=blocked,invariant=recompute,"
                                       "statistics=separate,producers=fused,programs=none,tile=64x64x8/8x4,"
                                       "stored=bfloat16/3/1",
                                       &switches, &error),
                     KN_OK);
    assert_int_equal(switches.forced_count, 2);
    assert_string_equal(switches.forced[0].row->name, "matmul");
    assert_string_equal(switches.forced[0].variant, "tiled");
    assert_null(switches.forced[1].row);
    assert_string_equal(switches.forced[1].variant, "wide");
    assert_true(switches.blocked_images && switches.recompute_invariant && switches.separate_statistics);
    assert_int_equal(switches.tile, 4);
    assert_int_equal(switches.stored, KN_BFLOAT16);
    assert_true(switches.stored_halves.inputs == 3 && switches.stored_halves.results == 1);
    assert_int_equal(switches.producers, KN_PRODUCERS_FUSED);
    assert_int_equal(switches.programs, KN_PROGRAMS_NONE);
}

static void wrong_switches_list_the_known_ones(void **state) {
    (void)state;
    static const struct {
        const char *text, *told;
    } wrong[] = {
        {"joins=none", "images=blocked"},
        {"images=plain", "there is no switch 'images=plain'"},
        {"tiled", "there is no switch 'tiled'"},
        {"matmul=fastest", "matmul has no kernel 'fastest'"},
        {"matmul=fastest", "tiled"},
        {"add=tiled", "its kernels are generated"},
        {"tile=64", "64x64x8/8x8, 64x64x8/8x4"},
        {"stored=int8", "expected float16 or bfloat16"},
        {"stored=float16/3", "TYPE/INPUTS/RESULTS"},
        {"*=fastest", "no operator has a kernel 'fastest'"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        kn_switches switches;
        kn_error error = {0};
        assert_int_equal(kn_switches_parse(wrong[i].text, &switches, &error), KN_ERROR_NOT_FOUND);
        if (!strstr(error.text, wrong[i].told))
            fail_msg("'%s': expected '%s' in '%s'", wrong[i].text, wrong[i].told, error.text);
    }
}

/* ---- choose -------------------------------------------------------------------------------------- */

static void choose_takes_the_forced_variant(void **state) {
    (void)state;
    kn_value *y = kn_matmul(x, kn_parameter(graph, "w", KN_FLOAT32, "8,4", NULL), false, false);
    check_built();
    pass_run passes;
    passes_begin(&passes, &y, 1, false, NULL, NULL);
    passes_switch(&passes, "matmul=tiled");
    passes_run(&passes, "choose");
    assert_string_equal(passes.planner.chosen[0].variant->name, "tiled");
    passes_end(&passes);
}

static void choose_names_a_forced_variant_that_does_not_fit(void **state) {
    (void)state;
    kn_value *y = kn_matmul(x, kn_parameter(graph, "w", KN_FLOAT32, "8,4", NULL), false, false);
    check_built();
    pass_run passes;
    passes_begin(&passes, &y, 1, false, NULL, NULL);
    passes_switch(&passes, "matmul=library");
    passes_run(&passes, "invariant");
    assert_int_equal(kn_pass_choose(&passes.planner), KN_ERROR_NOT_FOUND);
    assert_non_null(strstr(passes.error.text, "library"));
    passes_end(&passes);
}

/* ---- fuse ---------------------------------------------------------------------------------------- */

static void fuse_joins_a_chain(void **state) {
    (void)state;
    kn_value *y = kn_exp(kn_neg(kn_add(x, kn_sin(x))));
    check_built();
    pass_run passes;
    passes_begin(&passes, &y, 1, false, NULL, NULL);
    passes_run(&passes, "lower");
    assert_int_equal(passes.planner.group_count, 1);
    assert_int_equal(passes.planner.groups[0]->member_count, 4);
    assert_int_equal(passes_count_steps(&passes, NULL), 1);
    passes_end(&passes);
}

static void fuse_makes_bias_and_activation_an_epilogue(void **state) {
    (void)state;
    kn_value *y = kn_relu(kn_linear(x, 5, NULL));
    check_built();
    pass_run passes;
    passes_begin(&passes, &y, 1, false, NULL, NULL);
    passes_run(&passes, "lower");
    assert_int_equal(passes.planner.group_count, 1);
    kn_group *group = passes_group_of(&passes, "matmul");
    assert_non_null(group);
    assert_int_equal(group->member_count, 2);
    assert_int_equal(passes_count_steps(&passes, "pointwise/pointwise.cl"), 0);
    const kn_step *last = passes.planner.emitter.steps[passes.planner.emitter.step_count - 1];
    assert_non_null(strstr(last->prelude, "KN_EPILOGUE"));
    passes_end(&passes);
}

/* The gradients of a weight and of a bias read the same slopes; if the product depends on the sum, both are
 * computed separately. */
static void fuse_gives_a_product_the_sum_over_its_operand(void **state) {
    (void)state;
    kn_value *slopes = kn_input(graph, "slopes", KN_FLOAT32, "batch,5");
    for (int depends = 0; depends < 2; depends++) {
        kn_value *sum = kn_sum(slopes, "0", false);
        kn_value *by = depends ? kn_mul(x, kn_sum(sum, NULL, false)) : x;
        kn_value *outputs[2] = {kn_matmul(slopes, by, true, false), sum};
        check_built();
        pass_run passes;
        passes_begin(&passes, outputs, 2, false, NULL, NULL);
        passes_run(&passes, "fuse");
        assert_int_equal(passes.planner.group_count, depends ? 4 : 1);
        assert_true((passes_group_of(&passes, "matmul")->summed == NULL) == depends);
        passes_run(&passes, "place");
        assert_int_equal(passes_count_steps(&passes, "reduce/reduce.cl"), depends ? 2 : 0);
        passes_end(&passes);
    }
}

/* The sum is read twice: the product's kernel stores it too, unless memory is short. */
static void fuse_stores_what_an_epilogue_passes_through(void **state) {
    (void)state;
    kn_value *sum = kn_linear(x, 5, NULL), *outputs[2] = {kn_relu(sum), kn_name(sum, "sum")};
    check_built();
    for (int is_short = 0; is_short < 2; is_short++) {
        pass_run passes;
        passes_begin(&passes, outputs, 2, false, NULL, NULL);
        if (is_short) passes.request.live_bytes = 1 << 20;
        passes_run(&passes, "fuse");
        const kn_group *group = passes_group_of(&passes, "matmul");
        assert_int_equal(group->member_count, is_short ? 1 : 2);
        assert_ptr_equal(group->between, is_short ? NULL : passes.bound_outputs[1]);
        passes_run(&passes, "place");
        assert_int_equal(passes_count_steps(&passes, NULL), is_short ? 2 : 1);
        passes_end(&passes);
    }
}

/* y = exp(x) / sum(exp(x)): both ends are pointwise over one space, with the sum between them. */
static void fuse_makes_no_cycle(void **state) {
    (void)state;
    kn_value *powers = kn_exp(x);
    kn_value *y = kn_div(powers, kn_sum(powers, "1", true));
    check_built();
    pass_run passes;
    passes_begin(&passes, &y, 1, false, NULL, NULL);
    passes_run(&passes, "order");
    assert_int_equal(passes.planner.group_count, 3);
    assert_ptr_not_equal(passes_group_of(&passes, "exp"), passes_group_of(&passes, "div"));
    assert_true(passes_group_of(&passes, "exp")->id < passes_group_of(&passes, "sum")->id);
    assert_true(passes_group_of(&passes, "sum")->id < passes_group_of(&passes, "div")->id);
    passes_end(&passes);
}

/* A group's result is read through a view by a node of the same space: the group must be complete first. */
static void fuse_sees_views(void **state) {
    (void)state;
    kn_value *a = kn_exp(x);
    kn_value *y = kn_add(a, kn_reshape(kn_transpose(kn_reshape(a, "8,batch"), "1,0"), "batch,8"));
    check_built();
    pass_run passes;
    passes_begin(&passes, &y, 1, false, NULL, NULL);
    passes_run(&passes, "fuse");
    assert_ptr_not_equal(passes_group_of(&passes, "exp"), passes_group_of(&passes, "add"));
    passes_end(&passes);
}

static void fuse_merges_two_branches(void **state) {
    (void)state;
    kn_value *y = kn_mul(kn_sin(x), kn_cos(kn_shift(x, 1)));
    check_built();
    pass_run passes;
    passes_begin(&passes, &y, 1, false, NULL, NULL);
    passes_run(&passes, "fuse");
    assert_int_equal(passes.planner.group_count, 1);
    passes_end(&passes);
}

/* ---- order and states --------------------------------------------------------------------------- */

/* w is read by a node created after its new value: that node must still read the old value. */
static kn_status assign_early(void *user, kn_graph *bound, kn_value **values, size_t count, kn_error *error) {
    (void)user, (void)count, (void)error;
    kn_value *w = kn_graph_find(bound, "w");
    kn_assign(bound, w, kn_scale(w, 2));
    /* Another reader, created later. */
    kn_value *late = kn_sum(kn_mul(w, w), NULL, false);
    kn_assign(bound, kn_state_add(bound, "late", &late->shape, KN_STATE_OPTIMIZER, NULL), late);
    (void)values;
    return KN_OK;
}

/* Two sums of twelve arrays each would read too many as one kernel: they are not fused. */
static void fuse_leaves_what_is_too_much_together_alone(void **state) {
    (void)state;
    kn_value *sums[2] = {NULL, NULL};
    for (int i = 0; i < 24; i++) {
        char name[8];
        snprintf(name, sizeof name, "x%d", i);
        kn_value *one = kn_input(graph, name, KN_FLOAT32, "batch,8"), **sum = &sums[i / 12];
        *sum = *sum ? kn_add(*sum, one) : kn_exp(one);
    }
    kn_value *y = kn_sin(kn_add(sums[1], sums[0]));
    check_built();
    pass_run passes;
    passes_begin(&passes, &y, 1, false, NULL, NULL);
    passes_run(&passes, "fuse");
    int members = 0;
    for (int i = 0; i < passes.planner.group_count; i++) {
        const kn_group *group = passes.planner.groups[i];
        members += group->member_count;
        for (int m = 0; m < group->member_count; m++)
            assert_ptr_equal(passes.planner.group_of[group->members[m]->id], group);
    }
    assert_int_equal(passes.planner.group_count, 2);
    assert_int_equal(members, 26);
    passes_end(&passes);
}

static void order_reads_states_before_they_change(void **state) {
    (void)state;
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
static void order_updates_statistics_in_place(void **state) {
    (void)state;
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

static void lower_gathers_statistics_where_images_are_made(void **state) {
    (void)state;
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

static void order_survives_states_that_swap(void **state) {
    (void)state;
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

static void layout_inserts_one_conversion(void **state) {
    (void)state;
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

/* A blocked image read by two flattening readers is converted once. */
static void layout_converts_once_for_all_readers(void **state) {
    (void)state;
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

static void lower_shares_text_between_sizes(void **state) {
    (void)state;
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
static void lower_writes_vectors_of_functions(void **state) {
    (void)state;
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
    (void)count;
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

static void bucket_joins_updates(void **state) {
    (void)state;
    kn_value *target = kn_input(graph, "target", KN_INT32, "batch");
    kn_value *logits = kn_linear(kn_relu(kn_linear(x, 16, NULL)), 3, NULL);
    kn_value *loss = kn_cross_entropy(logits, target, NULL);
    check_built();
    kn_trainer_params params;
    kn_trainer_params_init(&params);
    check_joined(loss, &params);
    /* With all options; LAMB and clipping by the norm are excluded, since they compute norms in between. */
    const kn_parameter_group biases = {sizeof biases, "*.bias", 2, 0, false};
    for (int rule = 0; rule < kn_optimizer_count(); rule++) {
        if (rule == KN_LAMB) continue;
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
static void batch_norms_take_few_launches(void **state) {
    (void)state;
    const kn_conv_params same = {.size = sizeof same, .padding = {1}, .no_bias = true};
    kn_value *image = kn_input(graph, "image", KN_FLOAT32, "batch,8,9,9");
    check_launches(kn_relu(kn_batch_norm(kn_conv(image, 16, 3, 3, &same), NULL)), 2, 11);
    image = kn_input(graph, "large", KN_FLOAT32, "batch,8,64,64");
    check_launches(kn_relu(kn_batch_norm(kn_conv(image, 16, 3, 3, &same), NULL)), 4, 14);
}

/* A layer norm takes one in each direction, and one adds the parts of the gradients of its weight and bias;
 * what else flows back to its input is added as its own part is stored. */
static void layer_norms_take_few_launches(void **state) {
    (void)state;
    kn_value *h = kn_linear(x, 24, NULL);
    check_launches(kn_layer_norm(h, NULL), 2, 12);
    check_launches(kn_add(h, kn_layer_norm(h, NULL)), 2, 11);
}

/* The sums of the parts of three weights' gradients are one step, before their updates, which are one as
 * well. */
static void sums_wait_for_a_reader(void **state) {
    (void)state;
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
        assert_int_equal(step->global[1], 3);
        assert_string_equal(passes.planner.emitter.steps[i + 1]->file, "pointwise/pointwise.cl");
    }
    assert_int_equal(count_kernels(&passes, "pointwise_bucket"), 1);
    passes_end(&passes);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest cases[] = {
        CASE(widen_makes_inputs_of_bytes),
        CASE(simplify_drops_what_changes_nothing),
        CASE(simplify_unites_equal_nodes),
        CASE(simplify_keeps_differing_attributes_apart),
        CASE(precision_is_that_of_what_kernels_can_store),
        CASE(switches_are_read),
        CASE(wrong_switches_list_the_known_ones),
        CASE(choose_takes_the_forced_variant),
        CASE(choose_names_a_forced_variant_that_does_not_fit),
        CASE(fuse_joins_a_chain),
        CASE(fuse_makes_bias_and_activation_an_epilogue),
        CASE(fuse_gives_a_product_the_sum_over_its_operand),
        CASE(fuse_stores_what_an_epilogue_passes_through),
        CASE(fuse_makes_no_cycle),
        CASE(fuse_sees_views),
        CASE(fuse_merges_two_branches),
        CASE(fuse_leaves_what_is_too_much_together_alone),
        CASE(order_reads_states_before_they_change),
        CASE(order_updates_statistics_in_place),
        CASE(lower_gathers_statistics_where_images_are_made),
        CASE(order_survives_states_that_swap),
        CASE(layout_inserts_one_conversion),
        CASE(layout_converts_once_for_all_readers),
        CASE(lower_shares_text_between_sizes),
        CASE(lower_writes_vectors_of_functions),
        CASE(bucket_joins_updates),
        CASE(batch_norms_take_few_launches),
        CASE(layer_norms_take_few_launches),
        CASE(sums_wait_for_a_reader),
    };
    return cmocka_run_group_tests_name("passes", cases, NULL, NULL) != 0;
}
