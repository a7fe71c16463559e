/* Blocks, repeats, scopes, sharing and freezing. */
#include "models_tests.h"

#include <stdio.h>
#include <string.h>

#include "graph/graph.h"

static bool frozen(const kn_model *model, const char *name) {
    const kn_value *value = kn_graph_find(kn_model_graph(model), name);
    assert_non_null(value);
    return value->frozen;
}

TEST(block_parameters) {
    kn_model *model = parse("koine 1\ninput x 8x16x16\n"
                            "block unit channels width=channels/2 stride=1 slope=0.1\n"
                            "    conv width 3 stride=stride padding=1\n"
                            "    leaky_relu slope=slope\n"
                            "    conv channels 1 bias=no\n"
                            "end\n"
                            "a = unit 8\nunit 12 stride=2 slope=0.5\nunit 10 3\n");
    has_parameters(model, "a.conv1.weight a.conv1.bias a.conv2.weight unit1.conv1.weight unit1.conv1.bias "
                          "unit1.conv2.weight unit2.conv1.weight unit2.conv1.bias unit2.conv2.weight");
    has_shapes(model, "a.conv1.weight 4,8,3,3; unit1.conv1.weight 6,8,3,3; unit1.conv2 batch,12,8,8; "
                      "unit2.conv1.weight 3,12,3,3");
    assert_string_equal(kn_value_name(kn_model_output_at(model, 0)), "unit2.conv2");
    kn_model_destroy(&model);
}

/* An argument of a block replaces its parameter, and is resolved where the block is called. */
TEST(words_for_blocks) {
    kn_model *model = parse("koine 1\ninput x 4x9x9\n"
                            "block unit size pad start\n"
                            "    conv 4 size padding=pad init=start\n"
                            "end\n"
                            "block outer k\n"
                            "    unit k,k+2 same normal:0.5\n"
                            "    unit k 0 zero\n"
                            "end\n"
                            "outer 3\n");
    has_shapes(model, "outer1.unit1.conv1.weight 4,4,3,5; outer1.unit1.conv1 batch,4,9,9; "
                      "outer1.unit2.conv1 batch,4,7,7");
    const kn_value *weight = kn_graph_find(kn_model_graph(model), "outer1.unit1.conv1.weight");
    assert_int_equal(weight->initializer.kind, KN_INITIALIZER_NORMAL);
    assert_true(weight->initializer.value == 0.5);
    kn_model_destroy(&model);
}

TEST(named_inputs) {
    kn_model *model = parse("koine 1\ninput x 4\ninput z 6\n"
                            "block join @left @right units\n"
                            "    linear units\n" /* its input is @left */
                            "    a = relu\n"
                            "    linear @right units\n"
                            "    add @ @a\n"
                            "    output a add1\n"
                            "end\n"
                            "both = join @x @z 5\n"
                            "first = neg @both\n"
                            "second = neg @both:1\n"
                            "inner = neg @both.linear2\n"
                            "concat @first @second @inner axis=1\n");
    has_shapes(model, "both.linear1.weight 5,4; both.linear2.weight 5,6; concat1 batch,15");
    const kn_graph *graph = kn_model_graph(model);
    assert_ptr_equal(kn_graph_find(graph, "first")->producer->inputs[0], kn_graph_find(graph, "both.a"));
    assert_ptr_equal(kn_graph_find(graph, "second")->producer->inputs[0], kn_graph_find(graph, "both.add1"));
    kn_model_destroy(&model);
}

TEST(residual) {
    kn_model *model =
        parse("koine 1\ninput x 4\nblock skip n\n    linear n\n    add @ @in\nend\nrelu\nskip 4\nskip 4\n");
    const kn_graph *graph = kn_model_graph(model);
    const kn_value *sum = kn_graph_find(graph, "skip2.add1");
    assert_ptr_equal(sum->producer->inputs[0], kn_graph_find(graph, "skip2.linear1"));
    assert_ptr_equal(sum->producer->inputs[1], kn_graph_find(graph, "skip1.add1"));
    assert_ptr_equal(kn_graph_find(graph, "skip1.add1")->producer->inputs[1], kn_graph_find(graph, "relu1"));
    kn_model_destroy(&model);
}

TEST(repeats) {
    kn_model *model = parse("koine 1\ninput x 4\n"
                            "stage = repeat 2 i\n"
                            "    linear 4*i\n"
                            "    out = relu\n"
                            "end\n"
                            "repeat 2 k\n"
                            "    repeat k j\n"
                            "        small{k}_{j} = linear 2*k+j bias=no\n"
                            "    end\n"
                            "end\n"
                            "repeat 0\n    linear 100\nend\n"
                            "repeat 2\n    linear 3 bias=no\nend\n"
                            "neg @stage1\nneg @stage{1+1}.out\n"); /* also outside a repeat */
    has_parameters(model,
                   "stage1.linear1.weight stage1.linear1.bias stage2.linear1.weight stage2.linear1.bias "
                   "small1_1.weight small2_1.weight small2_2.weight linear1.weight linear2.weight");
    has_shapes(model, "stage2.linear1.weight 8,4; small2_2.weight 6,5; linear2.weight 3,3");
    const kn_graph *graph = kn_model_graph(model);
    assert_ptr_equal(kn_graph_find(graph, "neg1")->producer->inputs[0], kn_graph_find(graph, "stage1.out"));
    assert_ptr_equal(kn_graph_find(graph, "neg2")->producer->inputs[0], kn_graph_find(graph, "stage2.out"));
    kn_model_destroy(&model);
}

/* Names are resolved from the innermost scope outwards; an inner counter hides an outer one. */
TEST(scopes) {
    kn_model *model = parse("koine 1\ninput x 4\nmask = relu\n"
                            "block b\n    mask = neg @in\n    add @ @mask\nend\n"
                            "block c\n    add @in @mask\nend\n"
                            "b\nc\n"
                            "repeat 2 i\n"
                            "    round{i} = exp\n"
                            "    inner{i} = repeat 3 i\n"
                            "        n{i} = exp\n"
                            "    end\n"
                            "end\n");
    const kn_graph *graph = kn_model_graph(model);
    assert_ptr_equal(kn_graph_find(graph, "b1.add1")->producer->inputs[1], kn_graph_find(graph, "b1.mask"));
    assert_ptr_equal(kn_graph_find(graph, "c1.add1")->producer->inputs[1], kn_graph_find(graph, "mask"));
    assert_non_null(kn_graph_find(graph, "round2"));
    assert_non_null(kn_graph_find(graph, "inner23.n3"));
    assert_null(kn_graph_find(graph, "inner33.n3"));
    kn_model_destroy(&model);
}

TEST(sharing) {
    kn_model *model = parse("koine 1\ninput x 4\n"
                            "first = linear 4\n"
                            "linear 4 share=first\n"
                            "linear share=first bias=no\n"
                            "logits = linear 6\n");
    has_parameters(model, "first.weight first.bias logits.weight logits.bias");
    has_shape(model, "linear2", "batch,4");
    const kn_graph *graph = kn_model_graph(model);
    const kn_value *product = kn_graph_find(graph, "linear2");
    assert_ptr_equal(product->producer->inputs[1], kn_graph_find(graph, "first.weight"));
    kn_model_destroy(&model);
}

TEST(shared_convolutions) {
    kn_model *model = parse("koine 1\ninput x 4x9x9\n"
                            "a = conv 4 3 padding=1\n"
                            "norm = batchnorm\n"
                            "conv share=a padding=1 stride=2\n"
                            "batchnorm share=norm\n"
                            "conv 4 3x3 share=a bias=no\n");
    has_parameters(model, "a.weight a.bias norm.weight norm.bias");
    has_shape(model, "conv1", "batch,4,5,5");
    has_shape(model, "conv2", "batch,4,3,3");
    const kn_graph *graph = kn_model_graph(model);
    assert_ptr_equal(kn_graph_find(graph, "batchnorm1")->producer->inputs[1],
                     kn_graph_find(graph, "norm.weight"));
    kn_model_destroy(&model);
}

/* Two towers that share the parameters of one. */
TEST(shared_blocks) {
    kn_model *model =
        parse("koine 1\ninput x 4\ninput z 4\n"
              "block inner n\n    linear n\n    scale = parameter n\n    mul @linear1 @scale\nend\n"
              "block tower n\n    linear n\n    inner n\n    relu\nend\n"
              "left = tower @x 4\n"
              "right = tower @z 4 share=left\n"
              "add @left @right\n");
    has_parameters(
        model, "left.linear1.weight left.linear1.bias left.inner1.linear1.weight left.inner1.linear1.bias "
               "left.inner1.scale");
    const kn_graph *graph = kn_model_graph(model);
    assert_ptr_equal(kn_graph_find(graph, "right.inner1.mul1")->producer->inputs[1],
                     kn_graph_find(graph, "left.inner1.scale"));
    kn_model_destroy(&model);
}

TEST(freezing) {
    kn_model *model =
        parse("koine 1\ninput x 4\n"
              "block b\n    linear 4\n    linear 4 freeze=no\n    p = parameter 4\n    add @linear2 @p\nend\n"
              "linear 4 freeze\nlinear 4\nb freeze\nb\nq = parameter 4 freeze=yes\nadd @b2 @q\n");
    assert_true(frozen(model, "linear1.weight"));
    assert_true(frozen(model, "linear1.bias"));
    assert_false(frozen(model, "linear2.weight"));
    assert_true(frozen(model, "b1.linear1.weight"));
    assert_false(frozen(model, "b1.linear2.weight"));
    assert_true(frozen(model, "b1.p"));
    assert_false(frozen(model, "b2.linear1.weight"));
    assert_true(frozen(model, "q"));
    kn_model_destroy(&model);
}

/* Generated names skip those that the text uses explicitly. */
TEST(generated_names) {
    kn_model *model =
        parse("koine 1\ninput x 4\nlinear2 = linear 4\nlinear 4\nlinear 4\nadd1 = linear 4 share=linear1\n"
              "relu\nrelu1_ = relu\nrelu\nadd @relu1 @relu2\n");
    has_parameters(model,
                   "linear2.weight linear2.bias linear1.weight linear1.bias linear3.weight linear3.bias");
    assert_non_null(kn_graph_find(kn_model_graph(model), "relu2"));
    assert_non_null(kn_graph_find(kn_model_graph(model), "add2"));
    kn_model_destroy(&model);
}

TEST(arithmetic) {
    static const struct {
        const char *text;
        int units;
    } cases[] = {
        {"2*n+1", 15}, {"(n+1)/2*3", 12},  {"n/2", 3},      {"n%4", 3},        {"-n+10", 3},
        {"--n", 7},    {"2*(n-(1+2))", 8}, {"0-n/2+10", 7}, {"(0-n)/2+10", 6}, {"(0-n)%4", 1},
        {"n", 7},      {"10-2-3", 5},      {"100/5/4", 5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        snprintf(text, sizeof text, "koine 1\ninput x 4\nblock b n\nl = linear %s bias=no\nend\nb = b 7\n",
                 cases[i].text);
        kn_model *model = parse(text);
        assert_int_equal(kn_value_dimension(kn_graph_find(kn_model_graph(model), "b.l.weight"), 0),
                         cases[i].units);
        kn_model_destroy(&model);
    }
}

TEST_FILE(test_blocks, NULL, NULL)
