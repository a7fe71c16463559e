/* Shape rules with numbers and with symbols, and their messages for mistakes. */
#include "ops_tests.h"

#include <stdio.h>
#include <string.h>

typedef struct rule {
    const char *row, *attributes;
    const char *inputs[3];
    const char *result; /* as printed by kn_shape_words; or, of a mistake: */
    kn_status status;
    const char *message; /* a part of it */
} rule;

static const rule rules[] = {
    {"add", "", {"batch,3", "3"}, "float32 (batch,3)", 0, NULL},
    {"add", "", {"batch,1,5", "3,1"}, "float32 (batch,3,5)", 0, NULL},
    {"less", "", {"int32 batch", "int32"}, "bool (batch)", 0, NULL},
    {"where", "", {"bool batch", "batch", ""}, "float32 (batch)", 0, NULL},
    {"cast", "dtype=uint8", {"batch,3"}, "uint8 (batch,3)", 0, NULL},
    {"sum", "axes=0", {"batch,7"}, "float32 (7)", 0, NULL},
    {"sum", "axes=-1 keep=true", {"batch,7"}, "float32 (batch,1)", 0, NULL},
    {"mean", "", {"batch,7"}, "float32 ()", 0, NULL},
    {"sum", "axes=0", {"int32 batch,7"}, "int32 (7)", 0, NULL},
    {"softmax", "axis=0", {"batch,7"}, "float32 (batch,7)", 0, NULL},
    {"reshape", "shape=batch,1,28,28", {"batch,784"}, "float32 (batch,1,28,28)", 0, NULL},
    {"reshape", "shape=-1,28", {"batch,784"}, "float32 (28*batch,28)", 0, NULL},
    {"reshape", "shape=batch,-1", {"batch,3,n"}, "float32 (batch,3*n)", 0, NULL},
    {"reshape", "shape=", {"1,1"}, "float32 ()", 0, NULL},
    {"flatten", "", {"batch,64,12,12"}, "float32 (batch,9216)", 0, NULL},
    {"flatten", "", {"batch"}, "float32 (batch,1)", 0, NULL},
    {"broadcast", "shape=batch,3", {"3"}, "float32 (batch,3)", 0, NULL},
    {"transpose", "permutation=0,2,3,1", {"batch,3,h,w"}, "float32 (batch,h,w,3)", 0, NULL},
    {"transpose", "", {"batch,3"}, "float32 (3,batch)", 0, NULL},
    {"concat", "axis=1", {"batch,3", "batch,4"}, "float32 (batch,7)", 0, NULL},
    {"concat", "axis=-1", {"3,a", "3,b"}, "float32 (3,a+b)", 0, NULL},
    {"slice", "axis=1 begin=2", {"batch,n"}, "float32 (batch,n-2)", 0, NULL},
    {"slice", "axis=0 begin=-2", {"n,3"}, "float32 (2,3)", 0, NULL},
    {"slice", "begin=1 end=6 step=2", {"7"}, "float32 (3)", 0, NULL},
    {"pad", "amounts=0,1,0,2", {"batch,n"}, "float32 (batch,n+3)", 0, NULL},
    {"cross_entropy", "", {"batch,10", "int32 batch"}, "float32 ()", 0, NULL},
    {"cross_entropy", "label_smoothing=0.1", {"batch,10", "batch,10"}, "float32 ()", 0, NULL},
    {"cross_entropy", "", {"batch,t,10", "int32 batch,t"}, "float32 ()", 0, NULL},
    {"accuracy", "", {"batch,10", "int32 batch"}, "float32 ()", 0, NULL},

    {"add", "", {"3,4", "3"}, NULL, KN_ERROR_SHAPE, "(3,4)"},
    {"add", "", {"3", "int32 3"}, NULL, KN_ERROR_DTYPE, "int32"},
    {"sum", "axes=2", {"3,4"}, NULL, KN_ERROR_SHAPE, "different axes from -2 to 1"},
    {"sum", "axes=0,-2", {"3,4"}, NULL, KN_ERROR_SHAPE, "repeated"},
    {"sum", "", {"bool 3"}, NULL, KN_ERROR_DTYPE, "cast"},
    {"mean", "", {"int32 3"}, NULL, KN_ERROR_DTYPE, "cast"},
    {"softmax", "axis=2", {"3,4"}, NULL, KN_ERROR_SHAPE, "no axis 2; expected -2 to 1"},
    {"softmax", "", {"int32 3,4"}, NULL, KN_ERROR_DTYPE, "float32"},
    {"softmax", "", {""}, NULL, KN_ERROR_SHAPE, "axis"},
    {"clip", "low=2 high=1", {"3"}, NULL, KN_ERROR_ARGUMENT, "low"},
    {"reshape", "shape=3,5", {"2,7"}, NULL, KN_ERROR_SHAPE, "does not match (3,5)"},
    {"reshape", "shape=4,-1", {"2,7"}, NULL, KN_ERROR_SHAPE, "(2,7)"},
    {"reshape", "shape=-1,-1", {"2,7"}, NULL, KN_ERROR_SHAPE, "two dimensions"},
    {"reshape", "shape=0,-1", {"0,7"}, NULL, KN_ERROR_SHAPE, "-1"},
    {"reshape", "shape=batch,785", {"batch,784"}, NULL, KN_ERROR_SHAPE, "(batch,784)"},
    {"flatten", "", {""}, NULL, KN_ERROR_SHAPE, "batch"},
    {"broadcast", "shape=3,5", {"2,5"}, NULL, KN_ERROR_SHAPE, "(2,5)"},
    {"broadcast", "shape=5", {"3,5"}, NULL, KN_ERROR_SHAPE, "(3,5)"},
    {"transpose", "permutation=0,0", {"2,3"}, NULL, KN_ERROR_SHAPE, "permutation"},
    {"transpose", "permutation=0", {"2,3"}, NULL, KN_ERROR_SHAPE, "permutation"},
    {"transpose", "permutation=0,2", {"2,3"}, NULL, KN_ERROR_SHAPE, "permutation"},
    {"concat", "axis=1", {"2,3", "4,3"}, NULL, KN_ERROR_SHAPE, "(4,3)"},
    {"concat", "axis=1", {"2,3", "2"}, NULL, KN_ERROR_SHAPE, "same sizes"},
    {"concat", "axis=1", {"2,3", "int32 2,3"}, NULL, KN_ERROR_DTYPE, "same type"},
    {"concat", "axis=2", {"2,3", "2,3"}, NULL, KN_ERROR_SHAPE, "axis 2"},
    {"slice", "axis=1 begin=2 end=5", {"2,4"}, NULL, KN_ERROR_SHAPE, "do not exist"},
    {"slice", "begin=3 end=2", {"4"}, NULL, KN_ERROR_SHAPE, "do not exist"},
    {"slice", "begin=-5", {"4"}, NULL, KN_ERROR_SHAPE, "do not exist"},
    {"slice", "step=0", {"4"}, NULL, KN_ERROR_ARGUMENT, "step"},
    {"pad", "amounts=1,1", {"2,3"}, NULL, KN_ERROR_SHAPE, "expected 4"},
    {"pad", "amounts=-1,1", {"3"}, NULL, KN_ERROR_ARGUMENT, "negative"},
    {"cross_entropy", "", {"5,10", "int32 4"}, NULL, KN_ERROR_SHAPE, "int32 (5)"},
    {"cross_entropy", "", {"5,10", "5"}, NULL, KN_ERROR_DTYPE, "int32"},
    {"cross_entropy", "", {"5,10", "int32 5,10"}, NULL, KN_ERROR_DTYPE, "distributions"},
    {"cross_entropy", "label_smoothing=2", {"5,10", "int32 5"}, NULL, KN_ERROR_ARGUMENT, "0 to 1"},
    {"cross_entropy", "", {"", "int32"}, NULL, KN_ERROR_SHAPE, "classes"},
    {"cross_entropy", "", {"int32 5,10", "int32 5"}, NULL, KN_ERROR_DTYPE, "float32"},
    {"accuracy", "", {"5,10", "5,10"}, NULL, KN_ERROR_SHAPE, "int32 (5)"},
    {"dropout", "rate=1", {"5", "uint32"}, NULL, KN_ERROR_ARGUMENT, "0 <= rate < 1"},
    {"dropout", "", {"5", "uint32 2"}, NULL, KN_ERROR_SHAPE, "step counter"},
    {"dropout", "", {"int32 5", "uint32"}, NULL, KN_ERROR_DTYPE, "float32"},
    {"huber_error", "delta=0", {"5", "5"}, NULL, KN_ERROR_ARGUMENT, "above 0"},
    {"huber_error", "", {"5", "4"}, NULL, KN_ERROR_SHAPE, "same shape"},
};

static kn_value *apply(kn_graph *graph, const rule *on) {
    kn_value *inputs[3];
    int count = 0;
    for (; count < 3 && on->inputs[count]; count++) {
        const char *text = on->inputs[count], *space = strchr(text, ' ');
        char word[16], name[16];
        kn_dtype dtype = KN_FLOAT32;
        snprintf(name, sizeof name, "x%d", count);
        snprintf(word, sizeof word, "%.*s", space ? (int)(space - text) : 15, text);
        if (kn_dtype_parse(word, &dtype)) text = space ? space + 1 : "";
        inputs[count] = kn_input(graph, name, dtype, text);
    }
    return kn_apply(graph, on->row, inputs, (size_t)count, on->attributes);
}

TEST(shapes_follow) {
    for (size_t i = 0; i < KN_COUNT_OF(rules); i++) {
        if (!rules[i].result) continue;
        kn_graph *graph = kn_graph_create(NULL);
        kn_value *value = apply(graph, &rules[i]);
        if (kn_value_failed(value))
            fail_msg("%s %s: %s", rules[i].row, rules[i].attributes, kn_graph_error(graph));
        assert_string_equal(kn_shape_words(graph, &value->shape), rules[i].result);
        kn_graph_destroy(&graph);
    }
}

/* A mistake has its status, names the operator, and reports what was found or expected. */
TEST(mistakes_are_reported) {
    for (size_t i = 0; i < KN_COUNT_OF(rules); i++) {
        if (rules[i].result) continue;
        kn_graph *graph = kn_graph_create(NULL);
        kn_value *value = apply(graph, &rules[i]);
        if (!kn_value_failed(value)) fail_msg("%s %s was accepted", rules[i].row, rules[i].attributes);
        const char *text = kn_graph_error(graph);
        if (kn_graph_status(graph) != rules[i].status || !strstr(text, rules[i].message) ||
            !strstr(text, rules[i].row))
            fail_msg("%s %s: status %s, \"%s\"; expected %s and \"%s\"", rules[i].row, rules[i].attributes,
                     kn_status_name(kn_graph_status(graph)), text, kn_status_name(rules[i].status),
                     rules[i].message);
        kn_graph_destroy(&graph);
    }
}

/* What cannot be checked with symbols is checked when they have numbers. */
TEST(numbers_decide) {
    static const struct {
        const char *row, *attributes, *shape;
        int64_t number;
        const char *result; /* NULL: refused */
    } bindings[] = {
        {"reshape", "shape=-1,4", "n,2", 6, "float32 (3,4)"}, {"reshape", "shape=-1,4", "n,2", 5, NULL},
        {"slice", "begin=2 end=5", "n", 5, "float32 (3)"},    {"slice", "begin=2 end=5", "n", 4, NULL},
        {"slice", "begin=-3", "n", 3, "float32 (3)"},         {"slice", "begin=-3", "n", 2, NULL},
        {"flatten", "", "n,3,2", 0, "float32 (0,6)"},         {"pad", "amounts=1,2", "n", 0, "float32 (3)"},
    };
    for (size_t i = 0; i < KN_COUNT_OF(bindings); i++) {
        kn_graph *graph = kn_graph_create(NULL), *bound = NULL;
        kn_value *x = kn_input(graph, "x", KN_FLOAT32, bindings[i].shape), *result = NULL;
        kn_value *y = kn_apply(graph, bindings[i].row, &x, 1, bindings[i].attributes);
        if (kn_value_failed(y)) fail_msg("%s: %s", bindings[i].row, kn_graph_error(graph));
        kn_binding binding = {"n", bindings[i].number};
        kn_bind_request request = {.bindings = &binding, .binding_count = 1};
        kn_error error = {0};
        kn_status status = kn_graph_bind(graph, &y, 1, &request, &bound, &result, &error);
        if (bindings[i].result) {
            if (status) fail_msg("%s: %s", bindings[i].row, error.text);
            assert_string_equal(kn_shape_words(bound, &result->shape), bindings[i].result);
        } else {
            assert_int_equal(status, KN_ERROR_SHAPE);
            assert_non_null(strstr(error.text, bindings[i].row));
        }
        kn_graph_destroy(&bound);
        kn_graph_destroy(&graph);
    }
}

TEST_FILE(test_shapes, NULL, NULL)
