/* Attributes: defaults, reading them from text, mistakes. */
#include "graph_tests.h"

static const kn_attribute_value *in(const kn_attribute_value *attributes, const char *name) {
    return kn_attribute_in(kn_operator_find("many"), attributes, name);
}

TEST(test_defaults) {
    kn_graph *graph = graph_make();
    kn_attribute_value values[KN_MAX_ATTRIBUTES];
    kn_attributes_defaults(graph, kn_operator_find("many"), values);
    assert_int_equal(in(values, "count")->integer, 3);
    assert_true(in(values, "rate")->number == 0.5);
    assert_int_equal(in(values, "keep")->integer, 1);
    assert_int_equal(in(values, "axes")->count, 2);
    assert_true(in(values, "axes")->list[1] == -1);
    assert_true(in(values, "shape")->count == 2 && in(values, "shape")->list[1] == -1);
    assert_int_equal(in(values, "mode")->integer, 1);
    assert_null(in(values, "absent"));
    assert_int_equal(kn_graph_status(graph), KN_OK);
    kn_graph_destroy(&graph);
}

TEST(test_parse) {
    kn_graph *graph = graph_make();
    kn_attribute_value values[KN_MAX_ATTRIBUTES];
    kn_error error = {0};
    const char *text = "  count=-7 rate=1e-3\tkeep=false axes=2,0,-1 shape=batch,(n+1)*2,-1,28 mode=valid ";
    if (kn_attributes_parse(graph, kn_operator_find("many"), text, values, &error) != KN_OK)
        fail_msg("%s", error.text);
    assert_true(in(values, "count")->integer == -7 && in(values, "count")->number == -7);
    assert_true(in(values, "rate")->number == 1e-3);
    assert_int_equal(in(values, "keep")->integer, 0);
    assert_true(in(values, "axes")->count == 3 && in(values, "axes")->list[0] == 2);
    assert_int_equal(in(values, "shape")->count, 4);
    assert_true(in(values, "shape")->list[0] == kn_dim_symbol(graph, "batch"));
    assert_true(in(values, "shape")->list[2] == -1);
    assert_int_equal(in(values, "mode")->integer, 2);
    assert_int_equal(kn_attributes_parse(graph, kn_operator_find("many"), "axes= keep=1", values, &error),
                     KN_OK);
    assert_int_equal(in(values, "axes")->count, 0);
    assert_int_equal(in(values, "keep")->integer, 1);
    assert_int_equal(kn_attributes_parse(graph, kn_operator_find("many"), "rate=inf", values, &error), KN_OK);
    assert_int_equal(kn_attributes_parse(graph, kn_operator_find("add"), "", values, &error), KN_OK);
    kn_graph_destroy(&graph);
}

TEST(test_mistakes) {
    const struct {
        const char *text, *words[3];
    } cases[] = {
        {"cont=3", {"many has no attribute 'cont'", "did you mean 'count'?", "count, rate, keep"}},
        {"zzzzzz=3", {"it has count, rate"}},
        {"count", {"attribute 'count' has no value", "count=VALUE"}},
        {"count=", {"many: count=", "an integer"}},
        {"count=2.5", {"count=2.5", "an integer"}},
        {"count=99999999999999999999", {"an integer"}},
        {"rate=fast", {"rate=fast: expected a number"}},
        {"keep=maybe", {"true or false"}},
        {"axes=1,,2", {"0,2"}},
        {"axes=1,2,", {"0,2"}},
        {"axes=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", {"more than 16"}},
        {"shape=2,b#", {"shape=2,b#", "'b#' is not a size"}},
        {"mode=full", {"none same valid"}},
        {"count=1 count=2", {"given twice"}},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        kn_graph *graph = graph_make();
        kn_attribute_value values[KN_MAX_ATTRIBUTES];
        kn_error error = {0};
        kn_status status =
            kn_attributes_parse(graph, kn_operator_find("many"), cases[i].text, values, &error);
        if (status == KN_OK) fail_msg("%s was accepted", cases[i].text);
        assert_int_equal(status, error.status);
        for (int j = 0; j < 3 && cases[i].words[j]; j++)
            assert_words(error.text, cases[i].words[j]);
        assert_int_equal(kn_graph_status(graph), KN_OK);
        kn_graph_destroy(&graph);
    }
    kn_graph *graph = graph_make();
    kn_attribute_value values[KN_MAX_ATTRIBUTES];
    kn_error error = {0};
    assert_int_equal(kn_attributes_parse(graph, kn_operator_find("add"), "a=1", values, &error),
                     KN_ERROR_NOT_FOUND);
    assert_words(error.text, "add has no attributes, found 'a'");
    kn_graph_destroy(&graph);
}

/* Reading an attribute that the row does not have makes the graph fail. */
TEST(test_unknown_name) {
    kn_graph *graph = graph_make();
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "2");
    const kn_node *node = apply2(x, x, "add", NULL)->producer;
    assert_int_equal(kn_attribute_of(node, "axes")->integer, 0);
    assert_int_equal(kn_graph_status(graph), KN_ERROR_INTERNAL);
    assert_words(kn_graph_error(graph), "add 'add1': its row has no attribute 'axes'");
    kn_graph_destroy(&graph);
}

TEST_FILE(test_attribute, NULL, NULL)
