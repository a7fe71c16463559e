/* Building graphs with the public functions: values, names, scopes, failures. */
#include "graph_tests.h"

#include <math.h>
#include <stdio.h>

TEST(test_values) {
    kn_graph *graph = graph_make();
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "batch,1,28,28");
    kn_value *w = kn_parameter(graph, "w", KN_FLOAT32, "64,16", NULL);
    kn_value *c = kn_constant(graph, KN_INT32, "2", (int32_t[]){3, -4}, 8);
    kn_value *n = kn_scalar(graph, 0.5);
    assert_int_equal(kn_graph_status(graph), KN_OK);
    assert_string_equal(kn_graph_error(graph), "");
    assert_ptr_equal(kn_graph_find(graph, "w"), w);
    assert_null(kn_graph_find(graph, "W"));
    assert_ptr_equal(kn_value_graph(x), graph);
    assert_int_equal(kn_value_rank(x), 4);
    assert_int_equal(kn_value_dimension(x, 0), -1);
    assert_int_equal(kn_value_dimension(x, 3), 28);
    assert_int_equal(kn_value_dimension(x, 4), -1);
    assert_int_equal(kn_value_dimension(x, -1), -1);
    char text[32], small[4];
    assert_int_equal(kn_value_shape_text(x, text, sizeof text), strlen("batch,1,28,28"));
    assert_string_equal(text, "batch,1,28,28");
    assert_int_equal(kn_value_shape_text(x, small, sizeof small), strlen("batch,1,28,28"));
    assert_string_equal(small, "bat");
    assert_int_equal(kn_value_shape_text(x, NULL, 0), strlen("batch,1,28,28"));
    assert_int_equal(kn_value_shape_text(n, text, sizeof text), 0);
    assert_string_equal(text, "");
    assert_int_equal(w->initializer.kind, KN_INITIALIZER_UNIFORM);
    assert_true(w->initializer.value == 0.25);
    assert_int_equal(((const int32_t *)c->data)[1], -4);
    assert_true(*(const float *)n->data == 0.5f);
    assert_int_equal(kn_value_dtype(c), KN_INT32);
    assert_int_equal(kn_graph_input_count(graph), 1);
    assert_ptr_equal(kn_graph_input_at(graph, 0), x);
    assert_null(kn_graph_input_at(graph, 1));
    assert_int_equal(kn_graph_parameter_count(graph), 1);
    assert_ptr_equal(kn_graph_parameter_at(graph, 0), w);
    kn_freeze(w);
    assert_true(w->frozen);
    kn_freeze(NULL);
    assert_false(kn_value_failed(x));
    assert_true(kn_value_failed(NULL));
    assert_non_null(kn_input(graph, "empty", KN_FLOAT32, "0,3")); /* nothing is legal */
    assert_int_equal(kn_graph_status(graph), KN_OK);
    kn_graph_destroy(&graph);
    assert_null(graph);
    kn_graph_destroy(&graph);
    kn_graph_destroy(NULL);
}

TEST(test_params) {
    kn_graph_params params;
    failing allocator = {0};
    memset(&params, 0xFF, sizeof params);
    kn_graph_params_init(&params);
    assert_int_equal(params.size, sizeof params);
    params.allocator = failing_allocator(&allocator);
    kn_graph *graph = kn_graph_create(&params);
    assert_non_null(graph);
    assert_true(allocator.live > 0);
    kn_graph_destroy(&graph);
    assert_int_equal(allocator.live, 0);
    params.size = sizeof params.size; /* built with a header that had no allocator */
    allocator.calls = 0;
    graph = kn_graph_create(&params);
    assert_int_equal(allocator.calls, 0);
    kn_graph_destroy(&graph);
}

TEST(test_names_and_scopes) {
    kn_graph *graph = graph_make();
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "3");
    kn_value *first = apply1(x, "exp", NULL), *second = apply1(x, "exp", NULL);
    assert_string_equal(kn_value_name(first), "exp1");
    assert_string_equal(kn_value_name(second), "exp2");
    kn_scope_begin(graph, "stage2");
    kn_scope_begin(graph, "block.1");
    kn_value *inner = apply1(x, "exp", NULL);
    assert_string_equal(kn_value_name(inner), "stage2.block.1.exp1");
    assert_string_equal(kn_value_name(kn_parameter(graph, "w", KN_FLOAT32, "2", NULL)), "stage2.block.1.w");
    assert_string_equal(kn_value_name(kn_name(inner, "h")), "stage2.block.1.h");
    assert_null(kn_graph_find(graph, "stage2.block.1.exp1"));
    kn_scope_end(graph);
    assert_string_equal(kn_value_name(apply1(x, "exp", NULL)), "stage2.exp1");
    kn_scope_end(graph);
    assert_string_equal(kn_value_name(apply1(x, "exp", NULL)), "exp3");
    /* A name that is taken by the user is skipped. */
    kn_name(second, "exp4");
    assert_string_equal(kn_value_name(apply1(x, "exp", NULL)), "exp5");
    /* A freed name can be used again. */
    kn_name(first, "h");
    assert_string_equal(kn_value_name(kn_input(graph, "exp1", KN_FLOAT32, "")), "exp1");
    kn_value *split = apply1(x, "split", NULL);
    assert_string_equal(kn_value_name(split), "split1");
    assert_string_equal(kn_value_name(kn_result(split, 1)), "split1:1");
    assert_ptr_equal(kn_result(split, 0), split);
    kn_value *back = apply1(kn_input(graph, "one", KN_FLOAT32, "1"), "given_back", NULL);
    assert_false(kn_value_failed(back));
    assert_string_equal(kn_value_name(kn_result(back, 1)), "given_back1:1");
    assert_int_equal(kn_graph_status(graph), KN_OK);
    kn_graph_destroy(&graph);
}

TEST(test_outputs) {
    kn_graph *graph = graph_make();
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "3");
    kn_value *y = apply1(x, "exp", NULL);
    assert_ptr_equal(kn_output(y, "y"), y);
    assert_ptr_equal(kn_output(y, NULL), y);
    assert_ptr_equal(kn_output(x, NULL), x);
    assert_ptr_equal(kn_output(x, "x"), x); /* its current name is not a new one */
    assert_int_equal(kn_graph_output_count(graph), 2);
    assert_ptr_equal(kn_graph_output_at(graph, 0), y);
    assert_ptr_equal(kn_graph_output_at(graph, 1), x);
    assert_null(kn_graph_output_at(graph, 2));
    assert_null(kn_graph_output_at(graph, -1));
    assert_true(kn_value_failed(kn_output(x, "other")));
    assert_graph_error(graph, KN_ERROR_ARGUMENT, "'x' cannot be renamed to 'other'", "inputs", NULL);
    kn_graph_destroy(&graph);
}

/* Each mistake in a new graph: the status, and words that the message must contain. */
typedef kn_value *mistake(kn_graph *graph, kn_value *x);

static kn_value *no_shape(kn_graph *graph, kn_value *x) {
    return kn_input(graph, "y", KN_FLOAT32, "3,b#");
}
static kn_value *no_name(kn_graph *graph, kn_value *x) {
    return kn_input(graph, "y y", KN_FLOAT32, "3");
}
static kn_value *null_name(kn_graph *graph, kn_value *x) {
    return kn_input(graph, NULL, KN_FLOAT32, "3");
}
static kn_value *taken(kn_graph *graph, kn_value *x) {
    return kn_input(graph, "x", KN_FLOAT32, "3");
}
static kn_value *no_type(kn_graph *graph, kn_value *x) {
    return kn_input(graph, "y", (kn_dtype)55, "3");
}
static kn_value *integer_parameter(kn_graph *graph, kn_value *x) {
    return kn_parameter(graph, "w", KN_INT32, "3", NULL);
}
static kn_value *open_parameter(kn_graph *graph, kn_value *x) {
    return kn_parameter(graph, "w", KN_FLOAT32, "batch,3", NULL);
}
static kn_value *short_constant(kn_graph *graph, kn_value *x) {
    return kn_constant(graph, KN_FLOAT32, "3", "abcdefgh", 8);
}
static kn_value *unknown(kn_graph *graph, kn_value *x) {
    return apply1(x, "matmull", NULL);
}
static kn_value *open_back(kn_graph *graph, kn_value *x) {
    return apply1(x, "given_back", NULL);
}
static kn_value *wrong_back(kn_graph *graph, kn_value *x) {
    return apply1(kn_input(graph, "y", KN_FLOAT32, "2"), "given_back", NULL);
}
static kn_value *backward(kn_graph *graph, kn_value *x) {
    return apply1(x, "back", NULL);
}
static kn_value *assign_applied(kn_graph *graph, kn_value *x) {
    return apply2(x, x, "assign", NULL);
}
static kn_value *few(kn_graph *graph, kn_value *x) {
    return apply1(x, "mul", NULL);
}
static kn_value *many(kn_graph *graph, kn_value *x) {
    return apply3(x, x, x, "split", NULL);
}
static kn_value *null_input(kn_graph *graph, kn_value *x) {
    return apply2(x, NULL, "add", NULL);
}
static kn_value *apart(kn_graph *graph, kn_value *x) {
    return apply2(x, kn_input(graph, "y", KN_FLOAT32, "n,10"), "add", NULL);
}
static kn_value *mixed(kn_graph *graph, kn_value *x) {
    return apply2(x, kn_input(graph, "y", KN_INT32, "10"), "add", NULL);
}
static kn_value *condition(kn_graph *graph, kn_value *x) {
    return apply3(kn_input(graph, "y", KN_INT32, "10"), x, x, "where", NULL);
}
static kn_value *deep(kn_graph *graph, kn_value *x) {
    return apply1(x, "deep", NULL);
}
static kn_value *silent(kn_graph *graph, kn_value *x) {
    return apply1(x, "silent", NULL);
}
static kn_value *quotient(kn_graph *graph, kn_value *x) {
    return apply1(kn_input(graph, "y", KN_INT32, "10"), "half", NULL);
}
static kn_value *null_operator(kn_graph *graph, kn_value *x) {
    return kn_apply(graph, NULL, &x, 1, NULL);
}
static kn_value *too_many(kn_graph *graph, kn_value *x) {
    kn_value *inputs[65];
    for (int i = 0; i < 65; i++)
        inputs[i] = x;
    return kn_apply(graph, "split", inputs, 65, NULL);
}
static kn_value *open_state(kn_graph *graph, kn_value *x) {
    kn_shape shape = {.dtype = KN_FLOAT32, .rank = 2, .dims = {2, kn_dim_symbol(graph, "n")}};
    return kn_state_add(graph, "s", &shape, KN_STATE_PARAMETER, NULL);
}
static kn_value *fraction(kn_graph *graph, kn_value *x) {
    return apply1(kn_input(graph, "y", KN_INT32, "10"), "exp", NULL);
}
static kn_value *fraction_attribute(kn_graph *graph, kn_value *x) {
    return apply1(kn_input(graph, "y", KN_INT32, "10"), "leaky", "slope=0.5");
}
static kn_value *inner(kn_graph *graph, kn_value *x) {
    return apply2(x, kn_parameter(graph, "w", KN_FLOAT32, "9,4", NULL), "matmul", NULL);
}
static kn_value *too_small(kn_graph *graph, kn_value *x) {
    return apply1(kn_input(graph, "y", KN_FLOAT32, "1,0"), "pool", NULL);
}
static kn_value *too_large(kn_graph *graph, kn_value *x) {
    kn_value *a = kn_input(graph, "a", KN_INT8, "4294967296,1"),
             *b = kn_input(graph, "b", KN_INT8, "4294967296");
    return apply2(a, b, "add", NULL);
}
static kn_value *no_rule(kn_graph *graph, kn_value *x) {
    return apply1(x, "shapeless", NULL);
}
static kn_value *no_result(kn_graph *graph, kn_value *x) {
    return kn_result(apply1(x, "split", NULL), 2);
}
static kn_value *hidden_result(kn_graph *graph, kn_value *x) {
    return kn_result(apply2(x, x, "norm", NULL), 3);
}
static kn_value *bad_attribute(kn_graph *graph, kn_value *x) {
    return apply1(x, "leaky", "slop=1");
}
static kn_value *frozen_input(kn_graph *graph, kn_value *x) {
    kn_freeze(x);
    return &graph->failed;
}
static kn_value *end_scope(kn_graph *graph, kn_value *x) {
    kn_scope_end(graph);
    return &graph->failed;
}
static kn_value *bad_scope(kn_graph *graph, kn_value *x) {
    kn_scope_begin(graph, "a b");
    kn_scope_end(graph);
    return &graph->failed;
}
static kn_value *deep_scope(kn_graph *graph, kn_value *x) {
    for (int i = 0; i < 100; i++)
        kn_scope_begin(graph, "s");
    return &graph->failed;
}
static kn_value *overflow(kn_graph *graph, kn_value *x) {
    return apply1(kn_input(graph, "y", KN_FLOAT32, "9223372036854775807*n,2"), "reshape", NULL);
}

TEST(test_mistakes) {
    const struct {
        mistake *make;
        kn_status status;
        const char *words[3];
    } cases[] = {
        {no_shape, KN_ERROR_FORMAT, {"input 'y'", "shape '3,b#'", "column 2"}},
        {no_name, KN_ERROR_ARGUMENT, {"'y y' is not a valid name"}},
        {null_name, KN_ERROR_ARGUMENT, {"is not a valid name"}},
        {taken, KN_ERROR_ARGUMENT, {"the name 'x' is taken"}},
        {no_type, KN_ERROR_DTYPE, {"unknown element type 55"}},
        {integer_parameter, KN_ERROR_DTYPE, {"parameter 'w' is int32", "float"}},
        {open_parameter, KN_ERROR_SHAPE, {"parameter 'w'", "(batch,3)", "not symbols"}},
        {short_constant, KN_ERROR_ARGUMENT, {"float32 (3)", "8 bytes"}},
        {unknown, KN_ERROR_NOT_FOUND, {"unknown operator 'matmull'", "did you mean 'matmul'?"}},
        {backward, KN_ERROR_NOT_FOUND, {"unknown operator 'back'"}},
        {open_back, KN_ERROR_SHAPE, {"given_back 'given_back1'", "must be numbers", "(batch,10)"}},
        {wrong_back, KN_ERROR_SHAPE, {"given_back 'given_back1'", "expected one element", "float32 (2)"}},
        {assign_applied, KN_ERROR_NOT_FOUND, {"unknown operator 'assign'"}},
        {few, KN_ERROR_ARGUMENT, {"mul 'mul1'", "takes 2 inputs, found 1"}},
        {many, KN_ERROR_ARGUMENT, {"takes 1 to 2 inputs, found 3"}},
        {null_input, KN_ERROR_ARGUMENT, {"add 'add1'", "input 2 is NULL"}},
        {apart, KN_ERROR_SHAPE, {"add 'add1'", "float32 (batch,10)", "float32 (n,10)"}},
        {mixed, KN_ERROR_DTYPE, {"add 'add1'", "float32 and int32", "cast"}},
        {condition, KN_ERROR_DTYPE, {"where 'where1'", "the condition is int32"}},
        {deep, KN_ERROR_SHAPE, {"deep 'deep1'", "has 9 dimensions", "8"}},
        {silent, KN_ERROR_SHAPE, {"silent 'silent1'", "do not fit"}},
        {quotient, KN_ERROR_DTYPE, {"half 'half1': the input is int32"}},
        {null_operator, KN_ERROR_ARGUMENT, {"operator_name is NULL"}},
        {too_many, KN_ERROR_ARGUMENT, {"at most 64 inputs, found 65"}},
        {open_state, KN_ERROR_SHAPE, {"'s' float32 (2,n)", "not symbols"}},
        {fraction, KN_ERROR_DTYPE, {"exp 'exp1': the input is int32", "cast"}},
        {fraction_attribute, KN_ERROR_DTYPE, {"leaky 'leaky1': the input is int32"}},
        {inner, KN_ERROR_SHAPE, {"matmul 'matmul1'", "(batch,10)", "(9,4)"}},
        {too_small, KN_ERROR_SHAPE, {"pool 'pool1'", "dimension 1", "too small"}},
        {too_large, KN_ERROR_SHAPE, {"add 'add1'", "64 bits"}},
        {no_rule, KN_ERROR_INTERNAL, {"'shapeless' has no shape rule"}},
        {no_result, KN_ERROR_ARGUMENT, {"'split1' has 2 results"}},
        {hidden_result, KN_ERROR_ARGUMENT, {"'norm1' has 2 results"}},
        {bad_attribute, KN_ERROR_NOT_FOUND, {"leaky has no attribute 'slop'", "'slope'"}},
        {frozen_input, KN_ERROR_ARGUMENT, {"'x' is not a parameter"}},
        {end_scope, KN_ERROR_ARGUMENT, {"without kn_scope_begin"}},
        {bad_scope, KN_ERROR_ARGUMENT, {"'a b'"}},
        {deep_scope, KN_ERROR_UNSUPPORTED, {"nest"}},
        {overflow, KN_ERROR_SHAPE, {"reshape 'reshape1'", "64 bits"}},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        kn_graph *graph = graph_make();
        kn_value *x = kn_input(graph, "x", KN_FLOAT32, "batch,10");
        kn_value *made = cases[i].make(graph, x);
        if (!kn_value_failed(made)) fail_msg("mistake %zu was accepted", i);
        assert_ptr_equal(kn_value_graph(made), graph);
        for (int j = 0; j < 3 && cases[i].words[j]; j++)
            assert_graph_error(graph, cases[i].status, cases[i].words[j], NULL);
        /* Later calls return failed values, and the first message stays. */
        char first[1536];
        snprintf(first, sizeof first, "%s", kn_graph_error(graph));
        assert_true(kn_value_failed(apply1(made, "exp", NULL)));
        assert_true(kn_value_failed(apply1(x, "exp", NULL)));
        assert_true(kn_value_failed(kn_name(made, "z")));
        assert_true(kn_value_failed(kn_output(made, "z")));
        assert_true(kn_value_failed(kn_result(made, 0)));
        assert_true(kn_value_failed(kn_input(graph, "bad name", KN_FLOAT32, "")));
        kn_freeze(made);
        assert_string_equal(kn_graph_error(graph), first);
        assert_int_equal(kn_value_rank(made), 0);
        kn_graph_destroy(&graph);
    }
}

TEST(test_null_graphs) {
    assert_null(kn_input(NULL, "x", KN_FLOAT32, ""));
    assert_null(kn_parameter(NULL, "x", KN_FLOAT32, "", NULL));
    assert_null(kn_scalar(NULL, 1));
    assert_null(kn_constant(NULL, KN_FLOAT32, "", "abcd", 4));
    assert_null(kn_apply(NULL, "add", NULL, 0, NULL));
    assert_null(kn_name(NULL, "x"));
    assert_null(kn_output(NULL, "x"));
    assert_null(kn_result(NULL, 0));
    assert_null(kn_graph_find(NULL, "x"));
    assert_int_equal(kn_graph_status(NULL), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_graph_input_count(NULL), 0);
    assert_int_equal(kn_graph_output_count(NULL), 0);
    assert_null(kn_graph_parameter_at(NULL, 0));
    assert_string_equal(kn_value_name(NULL), "");
    char room[4] = "abc";
    assert_int_equal(kn_value_shape_text(NULL, NULL, 0), 0);
    assert_int_equal(kn_value_shape_text(NULL, room, sizeof room), 0);
    assert_string_equal(room, "");
    kn_scope_begin(NULL, "a");
    kn_scope_end(NULL);
}

TEST(test_other_graph) {
    kn_graph *left = graph_make(), *right = graph_make();
    kn_value *x = kn_input(left, "x", KN_FLOAT32, "3"), *y = kn_input(right, "y", KN_FLOAT32, "3");
    assert_true(kn_value_failed(apply2(x, y, "add", NULL)));
    assert_graph_error(left, KN_ERROR_ARGUMENT, "'y', belongs to another graph", NULL);
    assert_int_equal(kn_graph_status(right), KN_OK);
    kn_graph_destroy(&left);
    kn_graph_destroy(&right);
}

TEST(test_types_of_results) {
    kn_graph *graph = graph_make();
    kn_value *x = kn_input(graph, "x", KN_FLOAT64, "batch,10"), *y = kn_input(graph, "y", KN_FLOAT64, "10");
    kn_value *less = apply2(x, y, "less", NULL), *where = apply3(less, x, y, "where", NULL);
    assert_int_equal(kn_value_dtype(less), KN_BOOL);
    assert_int_equal(kn_value_dtype(where), KN_FLOAT64);
    assert_int_equal(where->producer->compute, KN_FLOAT64);
    kn_value *pool = apply1(x, "pool", NULL);
    assert_int_equal(kn_value_dimension(pool, 1), 4);
    kn_value *open = apply1(kn_input(graph, "z", KN_FLOAT32, "2,width"), "pool", NULL);
    char text[32];
    kn_value_shape_text(open, text, sizeof text);
    assert_string_equal(text, "2,(width+1)/2-1");
    kn_value *flat = apply1(x, "reshape", "shape=batch/2,-1");
    assert_int_equal(kn_graph_status(graph), KN_OK);
    assert_int_equal(kn_value_rank(flat), 2);
    kn_value *whole = apply1(x, "reshape", "shape=-1,5");
    kn_value_shape_text(whole, text, sizeof text);
    assert_string_equal(text, "2*batch,5");
    kn_value *whole_numbers = apply1(kn_input(graph, "w", KN_INT32, "10"), "leaky", "slope=2");
    assert_int_equal(kn_value_dtype(whole_numbers), KN_INT32);
    int least, most;
    kn_operator_arity(kn_operator_find("noise"), &least, &most);
    assert_true(least == 2 && most == 2);
    kn_operator_arity(kn_operator_find("split"), &least, &most);
    assert_true(least == 1 && most == 2);
    kn_graph_destroy(&graph);
}

TEST(test_assign) {
    const kn_shape scalar = {.dtype = KN_FLOAT32};
    const kn_initializer start = {KN_INITIALIZER_FILL, 3};
    kn_graph *graph = graph_make();
    kn_value *count = kn_state_add(graph, "count", &scalar, KN_STATE_CONTROL, &start);
    assert_int_equal(kn_graph_parameter_count(graph), 0);
    kn_assign(graph, count, apply2(count, kn_scalar(graph, 1), "add", NULL));
    assert_int_equal(kn_graph_status(graph), KN_OK);
    assert_non_null(count->assign);
    assert_int_equal(count->assign->output_count, 0);
    assert_words(printed(graph), "count <- add1\n");
    kn_assign(graph, count, count);
    assert_graph_error(graph, KN_ERROR_ARGUMENT, "state 'count' is already assigned", NULL);
    kn_graph_destroy(&graph);

    graph = graph_make();
    kn_assign(graph, kn_input(graph, "x", KN_FLOAT32, ""), kn_scalar(graph, 1));
    assert_graph_error(graph, KN_ERROR_ARGUMENT, "'x' is not a state", NULL);
    kn_graph_destroy(&graph);

    graph = graph_make();
    kn_assign(graph, kn_state_add(graph, "s", &scalar, KN_STATE_STATISTIC, NULL),
              kn_input(graph, "x", KN_FLOAT32, "2"));
    assert_graph_error(graph, KN_ERROR_SHAPE, "state 's' is float32 ()", "'x' is float32 (2)", NULL);
    kn_graph_destroy(&graph);

    graph = graph_make();
    kn_assign(graph, NULL, kn_scalar(graph, 1));
    assert_graph_error(graph, KN_ERROR_ARGUMENT, "input 1 is NULL", NULL);
    kn_graph_destroy(&graph);
}

TEST(test_print) {
    kn_graph *graph = graph_make();
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "batch,10");
    kn_value *w = kn_parameter(graph, "w", KN_FLOAT32, "4,10", &(kn_initializer){KN_INITIALIZER_NORMAL, 0.5});
    kn_value *h = apply2(x, w, "matmul", "transpose=true");
    kn_freeze(w);
    h = apply2(h, kn_scalar(graph, 2.5), "mul", NULL);
    kn_output(apply1(h, "many", "axes=1,0 shape=batch,-1 mode=valid"), "y");
    assert_string_equal(
        printed(graph),
        "input x float32 (batch,10)\n"
        "state w float32 (4,10) parameter normal 0.5 frozen\n"
        "constant constant1 float32 () 2.5\n"
        "matmul1 float32 (batch,4) = matmul(x, w) transpose=true\n"
        "mul1 float32 (batch,4) = mul(matmul1, constant1)\n"
        "y float32 (batch,4), many1:1 float32 (batch,4) = many(mul1) count=3 rate=0.5 keep=true "
        "axes=1,0 shape=batch,-1 mode=valid\n"
        "output y\n");
    kn_graph_destroy(&graph);
}

TEST(test_cost) {
    kn_graph *graph = graph_make();
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "5,10"), *y = kn_input(graph, "y", KN_FLOAT32, "10");
    kn_cost cost;
    kn_node_cost(apply2(x, y, "add", NULL)->producer, &cost);
    assert_true(cost.flops == 50 && cost.bytes == 4 * (50 + 10 + 50));
    kn_node_cost(apply1(x, "reshape", "shape=50")->producer, &cost);
    assert_true(cost.flops == 0 && cost.bytes == 0);
    kn_graph_destroy(&graph);
}

TEST_FILE(test_build, NULL, NULL)
