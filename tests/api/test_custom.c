/* Custom operators: how they are created and refused, what they compute, fused and trained, and when they are
 * released. */
#include "api_tests.h"

#include <stdio.h>
#include <string.h>

/* ---- what is used in several tests ------------------------------------------------------------------ */

/* Sums over windows of the last axis, times a factor: (rows...,n) to (rows...,(n-window)/step+1). */
static const char window_source[] =
    "kernel void windows(global const KN_T *x, global KN_T *y, KN_INDEX rows, KN_INDEX n, int window, int "
    "step,\n"
    "                    float factor) {\n"
    "    KN_INDEX count = (n - window) / step + 1, j = get_global_id(0), row = get_global_id(1);\n"
    "    KN_T sum = 0;\n"
    "    if (j >= count) return;\n"
    "    for (int k = 0; k < window; k++) sum += x[row * n + j * step + k];\n"
    "    y[row * count + j] = factor * sum;\n"
    "}\n"
    "kernel void back(global const KN_T *x, global const KN_T *y, global const KN_T *g, global KN_T *dx, "
    "KN_INDEX rows,\n"
    "                 KN_INDEX n, KN_INDEX count, int window, int step, float factor) {\n"
    "    KN_INDEX i = get_global_id(0), row = get_global_id(1);\n"
    "    KN_T sum = 0;\n"
    "    for (KN_INDEX j = 0; j < count; j++)\n"
    "        if (j * step <= i && i < j * step + window) sum += g[row * count + j];\n"
    "    dx[row * n + i] = SIGN factor * sum;\n"
    "}\n";

static void window_reference(void *user, const kn_custom_reference *call) {
    const kn_custom_node *node = call->node;
    int64_t rows = node->sizes[0], n = node->sizes[1], window = (int64_t)node->attributes[0];
    int64_t step = (int64_t)node->attributes[1], count = (n - window) / step + 1;
    assert_int_equal(node->input_count + node->result_count, 2);
    assert_int_equal(node->results[0].shape[node->results[0].rank - 1], count);
    for (int64_t i = 0; i < rows * count; i++)
        for (int64_t k = 0; k < window; k++)
            call->results[0][i] +=
                node->attributes[2] * call->inputs[0][i / count * n + i % count * step + k];
}

static void count_down(void *user) {
    --*(int *)user;
}

/* With `sign` "-" its gradient is wrong; alive (may be NULL) counts unreleased operators. */
static kn_operator *windows(const char *sign, int *alive) {
    char source[sizeof window_source + 32];
    snprintf(source, sizeof source, "#define SIGN %s\n%s", sign, window_source);
    kn_kernel_params params = KN_KERNEL_DEFAULTS;
    params.name = "windows_gradient";
    params.kernel = "back";
    params.source = source;
    params.inputs = "rows...,n; rows...,count; rows..., count";
    params.results = "rows...,n";
    params.launch = "n,rows";
    params.attributes = "window=2 step=1 factor=1.0";
    kn_operator *gradient = kn_operator_create_kernel(&params), *made;
    params.name = "windows";
    params.kernel = NULL;
    params.inputs = "rows...,n";
    params.results = "rows...,(n-window)/step+1";
    params.launch = "(n-window)/step+1, rows";
    params.group = "4,1";
    params.gradient_operator = gradient;
    params.reference = window_reference;
    params.user = alive;
    params.release = alive ? count_down : NULL;
    if (alive) ++*alive;
    made = kn_operator_create_kernel(&params);
    kn_operator_destroy(&gradient); /* the other operator keeps it alive */
    assert_null(gradient);
    assert_string_equal(kn_operator_error(made), "");
    return made;
}

static kn_operator *pointwise(const char *value, const char *x, const char *y, const char *attributes) {
    kn_pointwise_params params;
    kn_pointwise_params_init(&params);
    params.name = "mine";
    params.value = value;
    params.gradients[0] = x;
    params.gradients[1] = y;
    params.attributes = attributes;
    return kn_operator_create_pointwise(&params);
}

static void good(kn_operator *custom) {
    if (kn_operator_status(custom)) fail_msg("%s", kn_operator_error(custom));
}

/* ---- making them ------------------------------------------------------------------------------------ */

static void wrong_expressions_name_the_place(void **state) {
    static const struct {
        const char *value, *x, *y, *attributes, *words;
    } wrong[] = {
        {"x +", NULL, NULL, NULL, "operator 'mine': value: expression 'x +' ends where"},
        {"x + * 2", NULL, NULL, NULL, "column 5: expected a number, a name"},
        {"x * slop", NULL, NULL, "slope=0.5",
         "value: expression 'x * slop', column 5: 'slop' is not an attribute"},
        {"x * expp(x)", NULL, NULL, NULL, "unknown function 'expp'; did you mean 'exp'?"},
        {"x * g", NULL, NULL, NULL, "column 5: 'g' is not an attribute"},
        {"2", NULL, NULL, NULL, "reads no input"},
        {NULL, NULL, NULL, NULL, "value: expression ''"},
        {"x * x", "g * (x", NULL, NULL, "gradients[0] (of x): expression 'g * (x' ends where"},
        {"x * x", "g * y", NULL, NULL,
         "gradients[0] (of x): expression 'g * y', column 5: 'y' is not an input"},
        {"x * x", NULL, "g", NULL, "gradients[1] (of y): the value expression does not read"},
        {"x", "g", NULL, "slope", "attribute 'slope': expected a name and a default"},
        {"x", "g", NULL, "a=1 b=2x", "attribute 'b=2x'"},
        {"x", "g", NULL, "r=1", "attribute 'r': the name is reserved in expressions"},
        {"x", "g", NULL, "a=1 a=2", "attribute 'a': it is listed twice"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        kn_operator *custom = pointwise(wrong[i].value, wrong[i].x, wrong[i].y, wrong[i].attributes);
        assert_int_not_equal(kn_operator_status(custom), KN_OK);
        if (!strstr(kn_operator_error(custom), wrong[i].words))
            fail_msg("\"%s\" does not say \"%s\"", kn_operator_error(custom), wrong[i].words);
        /* The graph has the same error. */
        kn_graph *graph = kn_graph_create(NULL);
        kn_value *x = kn_input(graph, "x", KN_FLOAT32, "batch");
        assert_true(kn_value_failed(kn_apply_operator(custom, &x, 1, NULL)));
        assert_string_equal(kn_graph_error(graph), kn_operator_error(custom));
        kn_graph_destroy(&graph);
        kn_operator_destroy(&custom);
    }
}

static void wrong_kernels_are_refused(void **state) {
    static const struct {
        const char *inputs, *results, *launch, *group, *words;
    } wrong[] = {
        {NULL, "n", "n", NULL, "no inputs"},
        {"n", NULL, "n", NULL, "no results"},
        {"n", "n", NULL, NULL, "no launch size"},
        {"n", "m", "n", NULL,
         "result 1: 'm': 'm' is neither a word of the inputs' patterns nor an integer attribute"},
        {"n", "n*share", "n", NULL, "'share' is neither"}, /* it is a fraction */
        {"n+1", "n", "n", NULL, "a dimension of an input must be a word or a number"},
        {"n,", "n", "n", NULL, "input 1: expression '' ends where"},
        {"rows...,more...", "1", "1", NULL, "has dots twice"},
        {"n; n...", "n", "n", NULL, "input 2: 'n' is used for one dimension and for several"},
        {"n", "n...", "n", NULL, "'n...' is in no input's pattern"},
        {"n", "max(n,2)", "n", NULL, "only numbers, words, + - * /"},
        {"n", "n*0.5", "n", NULL, "must be integers"},
        {"n,window", "n", "n", NULL, "'window' is an attribute"},
        {"n", "n", "n,n,n,n", NULL, "launch: more than 3 axes"},
        {"n", "n", "n", "8,8", "group: expected positive numbers"},
        {"n,m", "n", "n,m", "8", "group: expected 2 numbers"},
        {"a,b,c,d,e,f,g,h,i", "1", "1", NULL, "more than 8 dimensions"},
        {"a;a;a;a;a;a;a;a;a;a;a;a;a;a;a;a;a", "1", "1", NULL, "more than 16 inputs"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        kn_kernel_params params;
        kn_kernel_params_init(&params);
        params.name = "odd";
        params.source = "";
        params.inputs = wrong[i].inputs;
        params.results = wrong[i].results;
        params.launch = wrong[i].launch;
        params.group = wrong[i].group;
        params.attributes = "window=3 share=0.5";
        kn_operator *custom = kn_operator_create_kernel(&params);
        if (!kn_operator_status(custom) || !strstr(kn_operator_error(custom), wrong[i].words))
            fail_msg("\"%s\" does not say \"%s\"", kn_operator_error(custom), wrong[i].words);
        kn_operator_destroy(&custom);
    }
    kn_kernel_params params = KN_KERNEL_DEFAULTS;
    params.name = "conv2d";
    kn_operator *custom = kn_operator_create_kernel(&params);
    assert_non_null(strstr(kn_operator_error(custom), "already has an operator of that name"));
    kn_operator_destroy(&custom);
    params.name = "a b";
    custom = kn_operator_create_kernel(&params);
    assert_non_null(strstr(kn_operator_error(custom), "letters, digits and '_'"));
    kn_operator_destroy(&custom);
}

static void a_gradient_has_to_fit(void **state) {
    kn_operator *two = pointwise("x * y", NULL, NULL, NULL),
                *three = pointwise("x + y + z", NULL, NULL, NULL);
    kn_kernel_params params = KN_KERNEL_DEFAULTS;
    params.name = "once";
    params.source = "";
    params.inputs = params.results = params.launch = "n";
    params.gradient_operator = two;
    kn_operator *custom = kn_operator_create_kernel(&params);
    assert_non_null(strstr(kn_operator_error(custom), "gradient operator 'mine' takes 2 inputs; expected 3"));
    kn_operator_destroy(&custom);
    params.gradient_operator = three;
    custom = kn_operator_create_kernel(&params);
    good(custom);
    kn_operator_destroy(&custom);
    params.inputs = "int32 n";
    custom = kn_operator_create_kernel(&params);
    assert_non_null(strstr(kn_operator_error(custom), "'mine' has 1 results; expected 0"));
    kn_operator_destroy(&custom);
    kn_operator_destroy(&two);
    kn_operator_destroy(&three);
}

/* ---- shapes ----------------------------------------------------------------------------------------- */

static void shapes_follow_patterns(void **state) {
    char text[100];
    kn_operator *custom = windows("", NULL);
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "batch,3,length");
    kn_value *y = kn_apply_operator(custom, &x, 1, "window=3 step=2");
    kn_value_shape_text(y, text, sizeof text);
    assert_string_equal(text, "batch,3,(length+1)/2-1");
    assert_string_equal(kn_value_name(y), "windows1");
    kn_value *line = kn_input(graph, "line", KN_FLOAT64, "9");
    y = kn_apply_operator(custom, &line, 1, "window=9");
    kn_value_shape_text(y, text, sizeof text);
    assert_string_equal(text, "1");
    assert_int_equal(kn_value_dtype(y), KN_FLOAT64);
    kn_graph_destroy(&graph);

    static const struct {
        const char *shape, *attributes, *words;
        kn_dtype dtype;
    } wrong[] = {
        {"3,2", "window=4", "windows 'windows1': dimension 1 of the result would be -1", KN_FLOAT32},
        {"", NULL, "input 1 is float32 (), which does not match \"rows...,n\": the number of", KN_FLOAT32},
        {"3", NULL, "input 1 is int32; expected float32 or float64", KN_INT32},
        {"3", "windw=4", "did you mean 'window'", KN_FLOAT32},
        {"3", "step=0", "windows 'windows1'", KN_FLOAT32},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        graph = kn_graph_create(NULL);
        x = kn_input(graph, "x", wrong[i].dtype, wrong[i].shape);
        assert_true(kn_value_failed(kn_apply_operator(custom, &x, 1, wrong[i].attributes)));
        if (!strstr(kn_graph_error(graph), wrong[i].words))
            fail_msg("\"%s\" does not say \"%s\"", kn_graph_error(graph), wrong[i].words);
        kn_graph_destroy(&graph);
    }
    kn_operator_destroy(&custom);
}

static void sizes_have_to_agree(void **state) {
    kn_kernel_params params = KN_KERNEL_DEFAULTS;
    params.name = "pairs";
    params.source = "";
    params.inputs = "many...,k; 3,k; int32 many...";
    params.results = "many...; int32; uint8 k,2*k+1";
    params.launch = "many";
    kn_operator *custom = kn_operator_create_kernel(&params);
    good(custom);
    static const struct {
        const char *shapes[3], *words;
    } cases[] = {
        {{"2,n,5", "3,5", "2,n"}, ""},
        {{"5", "3,5", ""}, ""},
        {{"2,n,5", "3,4", "2,n"},
         "input 2 is float32 (3,4), which does not match \"3,k\": 'k' has a different size"},
        {{"2,n,5", "4,5", "2,n"}, "dimension 0 differs"},
        {{"2,n,5", "3,5", "2,m"},
         "input 3 is int32 (2,m), which does not match \"int32 many...\": 'many' has"},
        {{"2,n,5", "3,5", "2"}, "'many' has a different size"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kn_graph *graph = kn_graph_create(NULL);
        kn_value *inputs[3] = {kn_input(graph, "a", KN_FLOAT32, cases[i].shapes[0]),
                               kn_input(graph, "b", KN_FLOAT32, cases[i].shapes[1]),
                               kn_input(graph, "c", KN_INT32, cases[i].shapes[2])};
        kn_value *first = kn_apply_operator(custom, inputs, 3, NULL);
        if (*cases[i].words ? !strstr(kn_graph_error(graph), cases[i].words) : *kn_graph_error(graph) != 0)
            fail_msg("\"%s\" does not say \"%s\"", kn_graph_error(graph), cases[i].words);
        if (!*cases[i].words) {
            char text[40];
            kn_value_shape_text(kn_result(first, 2), text, sizeof text);
            assert_string_equal(text, "5,11");
            assert_int_equal(kn_value_dtype(kn_result(first, 1)), KN_INT32);
            assert_int_equal(kn_value_rank(kn_result(first, 1)), 0);
        }
        kn_graph_destroy(&graph);
    }
    kn_operator_destroy(&custom);
}

/* ---- on a device ------------------------------------------------------------------------------------ */

static void check(kn_context *context, const kn_operator *custom, const kn_verify_case *cases, size_t count) {
    verify_outcome outcome = {0};
    kn_verify_params params;
    kn_verify_params_init(&params);
    params.user = &outcome;
    params.report = take_verify_result;
    kn_status status = kn_verify_operator(context, custom, cases, count, &params, NULL, NULL);
    if (status != KN_OK) fail_msg("%s%s", kn_operator_error(custom), outcome.failures);
    assert_int_equal(outcome.right, count);
}

static void expressions_are_computed(void **state) {
    kn_operator *custom = pointwise("x > 0 ? x * y : slope * x", "x > 0 ? g * y : g * slope",
                                    "x > 0 ? g * x : 0", "slope=0.25");
    static const kn_verify_case cases[] = {{"31,33; 33", NULL, NULL, false},
                                           {"3,1,7; 5,1", "slope=-2", "-1..1; 0..3", false},
                                           {"0,5; 5", NULL, NULL, false},
                                           {"7; 7", NULL, "special", true}};
    good(custom);
    check(*state, custom, cases, 4);
    kn_operator_destroy(&custom);
    custom = pointwise("x * y", "g * y", "-g * x", NULL); /* a sign is wrong */
    assert_int_equal(kn_verify_operator(*state, custom, cases, 1, NULL, NULL, NULL), KN_ERROR_MISMATCH);
    kn_operator_destroy(&custom);
}

static void kernels_are_computed(void **state) {
    int passed = 0, failed = 0;
    kn_operator *custom = windows("", NULL);
    static const kn_verify_case cases[] = {{"2,3,7", NULL, NULL, false},
                                           {"9", "window=3 step=2 factor=-0.5", NULL, false},
                                           {"0,7", NULL, NULL, false},
                                           {"float64 3,7", NULL, NULL, true}};
    bool doubles = kn_context_capabilities(*state)->double_precision;
    check(*state, custom, cases, doubles ? 4 : 3);
    kn_operator_destroy(&custom);
    custom = windows("-", NULL);
    assert_int_equal(kn_verify_operator(*state, custom, cases, 1, NULL, &passed, &failed), KN_ERROR_MISMATCH);
    assert_true(passed == 0 && failed == 1);
    assert_int_equal(kn_verify_operator(*state, NULL, cases, 1, NULL, NULL, NULL), KN_ERROR_ARGUMENT);
    kn_operator_destroy(&custom);
}

/* Between operators of the library: one step for relu, the custom operator and the addition. */
static void expressions_are_fused(void **state) {
    kn_operator *custom = pointwise("x * sigmoid(beta * x)", NULL, NULL, "beta=1.0");
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *x = kn_relu(kn_input(graph, "x", KN_FLOAT32, "batch,5"));
    kn_value *y = kn_name(kn_add(kn_apply_operator(custom, &x, 1, "beta=2"), kn_scalar(graph, 1)), "y");
    kn_operator_destroy(&custom);
    kn_session *session = kn_session_create(*state, &y, 1, NULL);
    kn_graph_destroy(&graph);
    float numbers[5] = {-1, 0, 1, 2, 3}, results[5];
    kn_feed feed = {"x", numbers, sizeof numbers};
    kn_fetch fetch = {"y", results, sizeof results};
    if (kn_session_run(session, &feed, 1, &fetch, 1)) fail_msg("%s", kn_session_error(session));
    assert_true(results[0] == 1 && results[1] == 1 && results[2] > 1.88F && results[2] < 1.89F);
    kn_plan_info info = {.size = sizeof info};
    assert_int_equal(kn_session_plan(session, &info), KN_OK);
    assert_int_equal(info.steps, 1);
    kn_session_destroy(&session);
}

/* Nodes keep their operator alive; different sizes do not recompile it. */
static void operators_live_as_long_as_needed(void **state) {
    int alive = 0;
    kn_operator *custom = windows("", &alive);
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "batch,7");
    kn_value *y = kn_name(kn_apply_operator(custom, &x, 1, NULL), "y");
    kn_apply_operator(custom, &y, 1, NULL);
    kn_operator_destroy(&custom);
    assert_int_equal(alive, 1);
    kn_session *session = kn_session_create(*state, &y, 1, NULL);
    kn_graph_destroy(&graph);
    assert_int_equal(alive, 1);
    float numbers[21], results[18];
    for (int i = 0; i < 21; i++)
        numbers[i] = (float)i;
    uint64_t built = 0;
    for (size_t batch = 1; batch <= 3; batch++) {
        kn_feed feed = {"x", numbers, batch * 7 * sizeof *numbers};
        kn_fetch fetch = {"y", results, batch * 6 * sizeof *results};
        if (kn_session_run(session, &feed, 1, &fetch, 1)) fail_msg("%s", kn_session_error(session));
        assert_true(results[5] == 11 && results[batch * 6 - 1] == (float)(14 * batch - 3));
        kn_context_counts counts = device_counts(*state);
        if (batch == 1) built = counts.programs_built + counts.programs_loaded;
        assert_int_equal(counts.programs_built + counts.programs_loaded, built);
    }
    kn_session_destroy(&session);
    assert_int_equal(alive, 0);
}

static kn_value *foreign;
static void strange_gradient(void *user, const kn_custom_gradient *call) {
    if (user)
        call->input_gradients[0] = foreign;
    else
        call->input_gradients[0] = kn_sum(call->result_gradients[0], NULL, false);
}

/* Mistakes that only the device or only the training can detect. */
static void mistakes_name_the_operator(void **state) {
    static const struct {
        const char *source, *words;
        kn_status status;
    } wrong[] = {
        {"kernel void faulty(global const float *x, global float *y, int n) {\n    y[0] = x[0] +* "
         "undefined_thing;\n}",
         "\"operator faulty\"", KN_ERROR_COMPILE},
        {"kernel void other(global const float *x, global float *y, int n) { y[0] = x[0]; }", "\"faulty\"",
         KN_OK},
        {"kernel void faulty(global const float *x, global float *y) { y[get_global_id(0)] = "
         "x[get_global_id(0)]; }",
         "has 2 parameters; expected 3", KN_ERROR_ARGUMENT},
    };
    kn_kernel_params params = KN_KERNEL_DEFAULTS;
    params.name = "faulty";
    params.inputs = params.results = params.launch = "n";
    for (size_t i = 0; i < 3; i++) {
        params.source = wrong[i].source;
        kn_operator *custom = kn_operator_create_kernel(&params);
        good(custom);
        kn_graph *graph = kn_graph_create(NULL);
        kn_value *x = kn_input(graph, "x", KN_FLOAT32, "5"), *y = kn_apply_operator(custom, &x, 1, NULL);
        kn_session *session = kn_session_create(*state, &y, 1, NULL);
        kn_status status = kn_session_compile(session, NULL, 0);
        if (status == KN_OK || (wrong[i].status && status != wrong[i].status) ||
            !strstr(kn_session_error(session), wrong[i].words))
            fail_msg("%s: \"%s\" does not say \"%s\"", kn_status_name(status), kn_session_error(session),
                     wrong[i].words);
        kn_session_destroy(&session);
        kn_graph_destroy(&graph);
        kn_operator_destroy(&custom);
    }
    kn_graph *elsewhere = kn_graph_create(NULL);
    foreign = kn_input(elsewhere, "x", KN_FLOAT32, "2");
    params.gradient = strange_gradient;
    static const char *const said[] = {
        "its gradient with respect to input 1 is float32 (); expected float32 (2)",
        "its gradient with respect to input 1 belongs to another graph"};
    for (int i = 0; i < 2; i++) {
        params.user = i ? &params : NULL;
        kn_operator *custom = kn_operator_create_kernel(&params);
        kn_graph *graph = kn_graph_create(NULL);
        kn_value *w = kn_parameter(graph, "w", KN_FLOAT32, "2", NULL);
        kn_value *loss = kn_sum(kn_apply_operator(custom, &w, 1, NULL), NULL, false);
        kn_trainer *trainer = kn_trainer_create(*state, loss, NULL);
        assert_int_not_equal(kn_trainer_step(trainer, 1, NULL, 0, NULL), KN_OK);
        if (!strstr(kn_trainer_error(trainer), said[i]))
            fail_msg("\"%s\" does not say \"%s\"", kn_trainer_error(trainer), said[i]);
        kn_trainer_destroy(&trainer);
        kn_graph_destroy(&graph);
        kn_operator_destroy(&custom);
    }
    kn_graph_destroy(&elsewhere);
}

int test_custom(bool device) {
    const struct CMUnitTest anywhere[] = {
        cmocka_unit_test(wrong_expressions_name_the_place),
        cmocka_unit_test(wrong_kernels_are_refused),
        cmocka_unit_test(a_gradient_has_to_fit),
        cmocka_unit_test(shapes_follow_patterns),
        cmocka_unit_test(sizes_have_to_agree),
    };
    const struct CMUnitTest on_devices[] = {
        cmocka_unit_test(expressions_are_computed),   cmocka_unit_test(kernels_are_computed),
        cmocka_unit_test(expressions_are_fused),      cmocka_unit_test(operators_live_as_long_as_needed),
        cmocka_unit_test(mistakes_name_the_operator),
    };
    if (device)
        return cmocka_run_group_tests_name("own operators on a device", on_devices, device_setup,
                                           device_teardown);
    return cmocka_run_group_tests_name("own operators", anywhere, NULL, NULL);
}
