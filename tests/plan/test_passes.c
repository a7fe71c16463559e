/* Each pass before and after, up to the one that fuses: what it must change, and that no other pass changes
 * it. */
#include "support.h"

#include <stdio.h>
#include <string.h>

#include <koine/operators.h>

#include "pass_tests.h"

kn_graph *graph;
kn_value *x;

int graph_begin(void **state) {
    graph = kn_graph_create(NULL);
    x = kn_input(graph, "x", KN_FLOAT32, "batch,8");
    return graph == NULL;
}

int graph_end(void **state) {
    kn_graph_destroy(&graph);
    return 0;
}

void check_built(void) {
    if (kn_graph_status(graph) != KN_OK) fail_msg("%s", kn_graph_error(graph));
}

/* ---- widen --------------------------------------------------------------------------------------- */

GRAPH_TEST(widen_makes_inputs_of_bytes) {
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

GRAPH_TEST(simplify_drops_what_changes_nothing) {
    kn_value *y = kn_exp(kn_reshape(kn_mul(kn_scale(x, 1), kn_scalar(graph, 1)), "batch,8"));
    check_built();
    pass_run passes;
    passes_begin(&passes, &y, 1, false, NULL, NULL);
    assert_int_equal(passes_count_nodes(&passes, NULL), 4);
    passes_run(&passes, "simplify");
    assert_int_equal(passes_count_nodes(&passes, NULL), 1);
    assert_int_equal(passes_count_nodes(&passes, "exp"), 1);
    passes_end(&passes);
}

/* A slice of all elements, and a concatenation of one value; those that change something stay. */
GRAPH_TEST(simplify_drops_moves_of_everything) {
    kn_value *whole = kn_slice(x, 1, 0, 8), *part = kn_slice(x, 1, 0, 7), *first = kn_slice(x, 1, 7, 8);
    kn_value *y = kn_concat(
        (kn_value *[]){kn_exp(kn_concat(&whole, 1, 1)), kn_concat((kn_value *[]){part, first}, 2, 1)}, 2, 0);
    check_built();
    pass_run passes;
    passes_begin(&passes, &y, 1, false, NULL, NULL);
    assert_int_equal(passes_count_nodes(&passes, "slice"), 3);
    assert_int_equal(passes_count_nodes(&passes, "concat"), 3);
    passes_run(&passes, "simplify");
    assert_int_equal(passes_count_nodes(&passes, "slice"), 2);
    assert_int_equal(passes_count_nodes(&passes, "concat"), 2);
    passes_end(&passes);
}

/* A transposition that moves only axes of size 1 is a view, except of a state. */
GRAPH_TEST(binding_makes_views_of_transpositions) {
    kn_value *w = kn_parameter(graph, "w", KN_FLOAT32, "1,5,1", NULL), *wide = kn_reshape(x, "batch,1,8");
    kn_value *outputs[] = {kn_transpose(wide, "1,0,2"), kn_transpose(wide, "0,2,1"),
                           kn_transpose(wide, "2,1,0"), kn_transpose(w, "1,0,2")};
    check_built();
    pass_run passes;
    passes_begin(&passes, outputs, 4, false, NULL, NULL);
    passes_run(&passes, "simplify");
    assert_int_equal(passes_count_nodes(&passes, "transpose"), 2);
    passes_end(&passes);
}

/* A transposed convolution without overlaps and with few results is a 1x1 convolution of the pixels. */
GRAPH_TEST(binding_makes_convolutions_of_transposed_ones) {
    const kn_conv_params two = {.size = sizeof two, .stride = {2, 2}};
    static const struct {
        const char *filter;
        bool suits;
    } cases[] = {{"24,1,2,2", true}, {"24,2,2,2", true}, {"24,3,2,2", false}, {"24,1,3,3", false}};
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        char name[2][8];
        for (int k = 0; k < 2; k++)
            snprintf(name[k], sizeof name[k], "%c%d", k ? 'w' : 'i', (int)i);
        kn_value *image = kn_input(graph, name[0], KN_FLOAT32, "batch,24,5,7"),
                 *filter = kn_parameter(graph, name[1], KN_FLOAT32, cases[i].filter, NULL),
                 *y = kn_conv_transpose2d(image, filter, NULL, &two);
        check_built();
        pass_run passes;
        passes_begin(&passes, &y, 1, false, NULL, NULL);
        passes_run(&passes, "simplify");
        assert_int_equal(passes_count_nodes(&passes, "conv2d_data"), !cases[i].suits);
        assert_int_equal(passes_count_nodes(&passes, "conv2d"), cases[i].suits);
        passes_end(&passes);
    }
}

GRAPH_TEST(simplify_unites_equal_nodes) {
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

GRAPH_TEST(simplify_keeps_differing_attributes_apart) {
    kn_value *y = kn_add(kn_leaky_relu(x, 0.1), kn_leaky_relu(x, 0.2));
    check_built();
    pass_run passes;
    passes_begin(&passes, &y, 1, false, NULL, NULL);
    passes_run(&passes, "simplify");
    assert_int_equal(passes_count_nodes(&passes, "leaky_relu"), 2);
    passes_end(&passes);
}

/* A convolution of a sequence is a view of one of images: the activation becomes its epilogue, except where
 * another node reads the view. */
GRAPH_TEST(simplify_moves_views_behind_activations) {
    for (int shared = 0; shared < 2; shared++) {
        kn_value *image = kn_reshape(
            kn_input(graph, shared ? "other" : "sequence", KN_FLOAT32, "batch,16,20"), "batch,16,1,20");
        kn_value *row = kn_reshape(kn_conv(image, 16, 1, 3, NULL), "batch,16,18");
        kn_value *y = kn_leaky_relu(kn_relu(row), 0.1);
        if (shared) y = kn_add(y, row);
        check_built();
        pass_run passes;
        passes_begin(&passes, &y, 1, false, NULL, NULL);
        passes_wide(&passes, 16, "conv2d=wide");
        passes_run(&passes, "simplify");
        const kn_node *conv = NULL;
        for (size_t i = 0; i < passes.graph->node_count; i++) {
            const kn_node *node = passes.graph->nodes[i];
            assert_int_equal(node->id, i);
            if (!strcmp(node->op->name, "conv2d")) conv = node;
            if (!strcmp(node->op->name, "leaky_relu"))
                assert_int_equal(node->outputs[0]->shape.rank, shared ? 3 : 4);
        }
        assert_non_null(conv);
        passes_run(&passes, "fuse");
        const kn_group *group = passes.planner.group_of[conv->id];
        assert_string_equal(group->members[group->member_count - 1]->op->name, shared ? "add" : "leaky_relu");
        passes_run(&passes, "place");
        passes_end(&passes);
    }
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
    kn_status status = kn_graph_gradient(bound, values[0], &weight, 1, &gradient, error);
    if (status != KN_OK) return status;
    kn_assign(bound, weight, kn_name(kn_sub(weight, kn_name(gradient, "gradient")), "updated"));
    return KN_OK;
}

GRAPH_TEST(precision_is_that_of_what_kernels_can_store) {
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
    /* Values that only their own kernel reads are never stored. */
    passes_run(&passes, "fuse");
    assert_int_equal(type_of(&passes, "sum"), KN_FLOAT32);
    assert_int_equal(type_of(&passes, "hidden"), KN_BFLOAT16);
    passes_end(&passes);
    passes_begin(&passes, outputs, 2, true, add_weight_gradient, NULL);
    passes_run(&passes, "precision");
    assert_int_equal(type_of(&passes, "hidden"), KN_FLOAT32);
    passes_end(&passes);
}

GRAPH_TEST(positions_are_not_rounded) {
    kn_value *positions = kn_input(graph, "positions", KN_INT32, "batch,8");
    kn_value *bytes = kn_cast(kn_input(graph, "bytes", KN_UINT8, "batch,8"), KN_FLOAT32);
    kn_value *angles = kn_name(kn_scale(kn_cast(positions, KN_FLOAT32), 0.5), "angles");
    kn_value *sines = kn_name(kn_sin(angles), "sines");
    kn_value *mixed = kn_name(kn_mul(sines, kn_name(kn_exp(bytes), "grown")), "mixed");
    /* As exported rotary embeddings have it. */
    kn_value *rows = kn_cast(kn_input(graph, "rows", KN_INT32, "batch,8,1"), KN_FLOAT32);
    const float inverse[4] = {1, .1f, .01f, .001f};
    kn_value *scales = kn_constant(graph, KN_FLOAT32, "1,4", inverse, sizeof inverse);
    kn_value *outer = kn_name(kn_matmul(rows, scales, false, false), "outer");
    kn_value *cosines = kn_name(kn_cos(outer), "cosines");
    kn_value *inner = kn_name(kn_matmul(kn_cast(positions, KN_FLOAT32),
                                        kn_parameter(graph, "w", KN_FLOAT32, "8,4", NULL), false, false),
                              "inner");
    kn_value *outputs[] = {kn_sum(kn_exp(mixed), NULL, false), kn_sum(kn_exp(cosines), NULL, false),
                           kn_sum(kn_exp(inner), NULL, false)};
    check_built();
    pass_run passes;
    passes_begin(&passes, outputs, 3, false, NULL, NULL);
    passes.request.precision = KN_BFLOAT16;
    passes_run(&passes, "precision");
    assert_int_equal(type_of(&passes, "angles"), KN_FLOAT32);
    assert_int_equal(type_of(&passes, "sines"), KN_FLOAT32);
    assert_int_equal(type_of(&passes, "outer"), KN_FLOAT32);
    assert_int_equal(type_of(&passes, "cosines"), KN_FLOAT32);
    assert_int_equal(type_of(&passes, "inner"), KN_BFLOAT16);
    assert_int_equal(type_of(&passes, "grown"), KN_BFLOAT16);
    assert_int_equal(type_of(&passes, "mixed"), KN_BFLOAT16);
    passes_end(&passes);
}

/* ---- switches --------------------------------------------------------------------------------- */

GRAPH_TEST(switches_are_read) {
    kn_switches switches;
    kn_error error = {0};
    assert_int_equal(kn_switches_parse(NULL, &switches, &error), KN_OK);
    assert_int_equal(switches.forced_count, 0);
    assert_int_equal(kn_switches_parse("matmul=tiled,*=wide,images=blocked,invariant=recompute,"
                                       "statistics=separate,packs=separate,launches=separate,producers=fused,"
                                       "programs=none,tile=64x64x8/8x4,"
                                       "stored=bfloat16/3/1",
                                       &switches, &error),
                     KN_OK);
    assert_int_equal(switches.forced_count, 2);
    assert_string_equal(switches.forced[0].row->name, "matmul");
    assert_string_equal(switches.forced[0].variant, "tiled");
    assert_null(switches.forced[1].row);
    assert_string_equal(switches.forced[1].variant, "wide");
    assert_true(switches.blocked_images && switches.recompute_invariant && switches.separate_statistics &&
                switches.separate_packs && switches.separate_launches);
    assert_int_equal(switches.tile, 6);
    assert_int_equal(switches.stored, KN_BFLOAT16);
    assert_true(switches.stored_halves.inputs == 3 && switches.stored_halves.results == 1);
    assert_int_equal(switches.producers, KN_PRODUCERS_FUSED);
    assert_int_equal(switches.programs, KN_PROGRAMS_NONE);
}

GRAPH_TEST(wrong_switches_list_the_known_ones) {
    static const struct {
        const char *text, *told;
    } wrong[] = {
        {"joins=none", "images=blocked"},
        {"images=plain", "unknown switch 'images=plain'"},
        {"tiled", "unknown switch 'tiled'"},
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

GRAPH_TEST(choose_takes_the_forced_variant) {
    kn_value *y = kn_matmul(x, kn_parameter(graph, "w", KN_FLOAT32, "8,4", NULL), false, false);
    check_built();
    pass_run passes;
    passes_begin(&passes, &y, 1, false, NULL, NULL);
    passes_switch(&passes, "matmul=tiled");
    passes_run(&passes, "choose");
    assert_string_equal(passes.planner.chosen[0].variant->name, "tiled");
    passes_end(&passes);
}

/* Weights in bytes are widened once if all the widened copies are small, and in each run otherwise. */
GRAPH_TEST(invariant_keeps_little_that_is_widened) {
    /* In float32 128 KiB, 64 MiB, more. */
    static const char *const sizes[] = {"8,4096", "8,2097152", "8,2097153"};
    for (int i = 0; i < 3; i++) {
        char name[2] = {(char)('a' + i), 0};
        kn_value *w = kn_statistic(graph, name, KN_INT8, sizes[i], NULL);
        kn_value *wide = kn_scale(kn_cast(w, KN_FLOAT32), 0.5);
        kn_value *outputs[] = {kn_matmul(x, wide, false, false), kn_exp(x)};
        check_built();
        pass_run passes;
        passes_begin(&passes, outputs, 2, false, NULL, NULL);
        passes.request.keeps = true;
        passes_run(&passes, "once");
        bool once = false;
        for (int s = 0; s < passes.planner.emitter.step_count; s++)
            once = once || passes.planner.once[s];
        assert_int_equal(once, i < 2);
        assert_int_equal(passes.planner.invariant[passes.graph->nodes[0]->outputs[0]->id], i < 2);
        passes_end(&passes);
    }
}

GRAPH_TEST(choose_names_a_forced_variant_that_does_not_fit) {
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

/* A device with a matrix unit, on which a convolution takes so long by each variant. */
typedef struct timed_device {
    double winograd, split, implicit;
} timed_device;

static double time_of(const timed_device *device, const kn_variant *variant) {
    if (!strcmp(variant->name, "winograd4_tiled")) return device->winograd;
    if (!strcmp(variant->name, "matrix_split")) return device->split;
    assert_string_equal(variant->name, "implicit");
    return device->implicit;
}

static bool is_right(void *device, const kn_node *node, const kn_variant *variant, int tile) {
    (void)device, (void)node, (void)variant, (void)tile;
    return true;
}

static bool is_faster(void *device, const kn_node *node, const kn_variant *variant, const kn_variant *other) {
    return time_of(device, variant) < time_of(device, other);
}

static const kn_variant *tuned(void *device, const kn_tuning *tuning, int *tile) {
    (void)device, (void)tuning, (void)tile;
    return NULL;
}

static kn_matrix_unit unit_of(void *device, kn_dtype type) {
    return type == KN_BFLOAT16 ? KN_MATRIX_UNIT_MMA : KN_MATRIX_UNIT_NONE;
}

/* The fastest of the measured variants is chosen; Winograd's only with fast math, and with enough channels to
 * pay. */
GRAPH_TEST(choose_takes_what_is_measured_to_be_faster) {
    static const struct {
        timed_device device;
        int channels;
        bool fast;
        const char *variant;
    } cases[] = {{{3, 2, 1}, 128, true, "implicit"},        {{1, 2, 3}, 128, true, "winograd4_tiled"},
                 {{2, 1, 3}, 128, true, "matrix_split"},    {{2, 3, 1}, 128, true, "implicit"},
                 {{1, 3, 2}, 128, true, "winograd4_tiled"}, {{3, 1, 2}, 128, true, "matrix_split"},
                 {{1, 2, 3}, 64, true, "matrix_split"},     {{1, 3, 2}, 64, true, "implicit"},
                 {{1, 2, 3}, 128, false, "implicit"}};
    const kn_verdict_functions verdicts = {
        .variant_is_right = is_right, .variant_is_faster = is_faster, .tuned = tuned};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const kn_conv_params same = {.size = sizeof same, .padding = {1}};
        timed_device device = cases[c].device;
        kn_graph *own = kn_graph_create(NULL);
        kn_value *image = kn_input(own, "image", KN_FLOAT32,
                                   cases[c].channels == 64 ? "batch,64,28,28" : "batch,128,28,28");
        kn_value *y = kn_conv(image, cases[c].channels, 3, 3, &same);
        assert_int_equal(kn_graph_status(own), KN_OK);
        pass_run passes;
        passes_begin(&passes, &y, 1, false, NULL, NULL);
        passes.target.matrix_unit = unit_of;
        passes.target.fast_math = cases[c].fast;
        passes.request.verdicts = &verdicts;
        passes.request.device = &device;
        passes_run(&passes, "choose");
        const char *variant = NULL;
        for (size_t i = 0; i < passes.graph->node_count; i++)
            if (!strcmp(passes.graph->nodes[i]->op->name, "conv2d"))
                variant = passes.planner.chosen[i].variant->name;
        if (!variant || strcmp(variant, cases[c].variant) != 0) fail_msg("case %zu: %s", c, variant);
        passes_end(&passes);
        kn_graph_destroy(&own);
    }
}

/* Weights are packed in advance if they do not change, whatever the zero points are. */
GRAPH_TEST(choose_packs_weights_that_stay) {
    kn_value *bytes = kn_cast(x, KN_UINT8), *zeros[] = {kn_statistic(graph, "zero", KN_INT8, "", NULL),
                                                        kn_input(graph, "given", KN_INT8, "")};
    kn_value *weights[] = {kn_statistic(graph, "w", KN_INT8, "8,4", NULL),
                           kn_cast(kn_input(graph, "v", KN_FLOAT32, "8,4"), KN_INT8)};
    const kn_verdict_functions verdicts = {.variant_is_right = is_right, .tuned = tuned};
    for (int i = 0; i < 4; i++) {
        kn_value *y = kn_matmul_integer(bytes, weights[i / 2], NULL, zeros[i % 2]);
        check_built();
        pass_run passes;
        passes_begin(&passes, &y, 1, false, NULL, NULL);
        passes.request.keeps = true;
        passes.request.verdicts = &verdicts;
        passes_wide(&passes, 16, "");
        passes.target.byte_products = true;
        passes_run(&passes, "choose");
        const kn_node *product = passes.bound_outputs[0]->producer;
        assert_string_equal(passes.planner.chosen[product->id].variant->name, i < 2 ? "packed" : "quads");
        passes_end(&passes);
    }
}

/* ---- fuse ---------------------------------------------------------------------------------------- */

GRAPH_TEST(fuse_joins_a_chain) {
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

GRAPH_TEST(fuse_makes_bias_and_activation_an_epilogue) {
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

/* An epilogue does not round between its nodes. */
GRAPH_TEST(fuse_keeps_what_a_cast_rounds) {
    for (int half = 0; half < 2; half++) {
        kn_value *rounded = kn_cast(kn_linear(x, 5, NULL), half ? KN_FLOAT16 : KN_BFLOAT16);
        kn_value *y = kn_relu(kn_cast(rounded, KN_FLOAT32));
        check_built();
        pass_run passes;
        passes_begin(&passes, &y, 1, false, NULL, NULL);
        passes_run(&passes, "fuse");
        kn_group *group = passes_group_of(&passes, "matmul");
        assert_non_null(group);
        assert_true(group->member_count <= 2);
        assert_true(passes_group_of(&passes, "relu") != group);
        passes_end(&passes);
    }
}

/* A kernel that can store bytes computes also the cast to them, but nothing after it. */
GRAPH_TEST(fuse_ends_an_epilogue_with_bytes) {
    for (int stores = 0; stores < 2; stores++) {
        kn_value *images = kn_input(graph, stores ? "a" : "b", KN_UINT8, "batch,4,5,7");
        kn_value *filters = kn_input(graph, stores ? "c" : "d", KN_INT8, "6,4,3,3");
        kn_value *sums = kn_apply(graph, "conv2d_bytes", (kn_value *[]){images, filters}, 2, "whole=1");
        kn_value *bytes = kn_cast(kn_clip(kn_round(sums), 0, 255), KN_UINT8);
        kn_value *y = kn_relu(kn_cast(bytes, KN_FLOAT32));
        check_built();
        pass_run passes;
        passes_begin(&passes, &y, 1, false, NULL, NULL);
        passes_wide(&passes, 8, stores ? "conv2d_bytes=pairs" : "conv2d_bytes=plain");
        passes_run(&passes, "fuse");
        const kn_group *group = passes_group_of(&passes, "conv2d_bytes");
        assert_int_equal(group->member_count, stores ? 3 : 0);
        if (stores) assert_int_equal(group->members[2]->outputs[0]->shape.dtype, KN_UINT8);
        assert_true(passes_group_of(&passes, "relu") != group);
        passes_run(&passes, "place");
        assert_int_equal(passes_count_steps(&passes, "pointwise/pointwise.cl"), 1);
        passes_end(&passes);
    }
}

/* The gradients of a weight and of a bias read the same slopes; if the product depends on the sum, both are
 * computed separately. */
GRAPH_TEST(fuse_gives_a_product_the_sum_over_its_operand) {
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
GRAPH_TEST(fuse_stores_what_an_epilogue_passes_through) {
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

/* y = v * relu(v + 3): an epilogue takes all readers of v, unless another node reads v or what is between, or
 * one of them reads what is computed later. */
GRAPH_TEST(fuse_takes_branches_into_an_epilogue) {
    enum { ALL, OTHER_READS, BETWEEN_IS_READ, LATER, CASES };
    for (int which = 0; which < CASES; which++) {
        kn_value *v = kn_linear(x, 5, NULL), *shifted = kn_shift(v, 3);
        kn_value *factor = kn_relu(shifted);
        if (which == LATER) factor = kn_mul(factor, kn_sum(x, "1", true));
        kn_value *outputs[2] = {kn_mul(v, factor), NULL};
        if (which == OTHER_READS) outputs[1] = kn_sum(v, "1", true);
        if (which == BETWEEN_IS_READ) outputs[1] = kn_name(shifted, "shifted");
        check_built();
        pass_run passes;
        passes_begin(&passes, outputs, outputs[1] ? 2 : 1, false, NULL, NULL);
        passes_wide(&passes, 16, "matmul=wide");
        passes_run(&passes, "fuse");
        kn_group *group = passes_group_of(&passes, "matmul");
        /* The first member adds the bias. */
        assert_int_equal(group->member_count, which == ALL ? 4 : 1);
        assert_null(group->between);
        passes_run(&passes, "place");
        if (which == ALL) assert_int_equal(passes_count_steps(&passes, "pointwise/pointwise.cl"), 0);
        passes_end(&passes);
    }
}

/* Compilers make no vectors of casts from and to bytes. */
GRAPH_TEST(lower_writes_vectors_of_bytes) {
    kn_value *codes = kn_input(graph, "codes", KN_INT8, "batch,9");
    kn_value *y = kn_cast(kn_round(kn_scale(kn_cast(codes, KN_FLOAT32), 0.5)), KN_INT8);
    check_built();
    pass_run passes;
    passes_begin(&passes, &y, 1, false, NULL, NULL);
    passes_wide(&passes, 8, "");
    passes_run(&passes, "lower");
    assert_int_equal(passes_count_steps(&passes, NULL), 1);
    assert_non_null(strstr(passes.planner.emitter.steps[0]->prelude, "KN_VECTOR_BODY"));
    passes_end(&passes);
}

/* y = exp(x) / sum(exp(x)): both ends are pointwise over one space, with the sum between them. */
GRAPH_TEST(fuse_makes_no_cycle) {
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
GRAPH_TEST(fuse_sees_views) {
    kn_value *a = kn_exp(x);
    kn_value *y = kn_add(a, kn_reshape(kn_transpose(kn_reshape(a, "8,batch"), "1,0"), "batch,8"));
    check_built();
    pass_run passes;
    passes_begin(&passes, &y, 1, false, NULL, NULL);
    passes_run(&passes, "fuse");
    assert_ptr_not_equal(passes_group_of(&passes, "exp"), passes_group_of(&passes, "add"));
    passes_end(&passes);
}

GRAPH_TEST(fuse_merges_two_branches) {
    kn_value *y = kn_mul(kn_sin(x), kn_cos(kn_shift(x, 1)));
    check_built();
    pass_run passes;
    passes_begin(&passes, &y, 1, false, NULL, NULL);
    passes_run(&passes, "fuse");
    assert_int_equal(passes.planner.group_count, 1);
    passes_end(&passes);
}

/* Two sums of twelve arrays each would read too many as one kernel: they are not fused. */
GRAPH_TEST(fuse_leaves_what_is_too_much_together_alone) {
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

TEST_FILE(test_passes, NULL, NULL)

int main(void) {
    return test_passes() + test_pass_steps() != 0;
}
