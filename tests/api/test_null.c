/* Every public function with NULL for each pointer: an error or an empty result, never a crash. Graph
 * builders and functions that read and write files are in separate files. complete.py checks that no function
 * is missing. */
#include "api_tests.h"

#include <string.h>

#include <koine/opencl.h>

static void status_and_version(void **state) {
    (void)state;
    assert_string_equal(kn_status_name((kn_status)12345), "unknown");
    assert_non_null(kn_status_message((kn_status)-1));
    assert_true(strlen(kn_status_message((kn_status)12345)) > 0);
    assert_true(kn_version_number() >= 100 && strchr(kn_version_text(), '.'));
}

static void tensors(void **state) {
    (void)state;
    uint64_t number = 7;
    kn_dtype dtype = KN_INT8;
    assert_string_equal(kn_dtype_name((kn_dtype)99), "unknown");
    assert_int_equal(kn_dtype_bytes((kn_dtype)-5), 0);
    assert_false(kn_dtype_parse(NULL, &dtype));
    assert_true(kn_dtype_parse("float32", NULL));
    assert_false(kn_dtype_parse("float33", &dtype));
    assert_int_equal(dtype, KN_INT8);
    kn_precision precision = KN_PRECISION_BFLOAT16;
    assert_string_equal(kn_precision_name((kn_precision)99), "unknown");
    assert_false(kn_precision_parse(NULL, &precision) || kn_precision_parse("float8", &precision));
    assert_true(kn_precision_parse("float16", NULL));
    assert_int_equal(precision, KN_PRECISION_BFLOAT16);
    const kn_tensor_info huge = {KN_FLOAT64, 4, {1 << 20, 1 << 20, 1 << 20, 1 << 20}},
                         none = {KN_FLOAT32, 1, {-1}}, deep = {KN_FLOAT32, KN_MAX_RANK + 1, {0}},
                         typeless = {(kn_dtype)77, 1, {4}};
    assert_false(kn_tensor_elements(NULL, &number) || kn_tensor_elements(&none, &number));
    assert_false(kn_tensor_elements(&deep, &number) || kn_tensor_bytes(&deep, &number));
    assert_false(kn_tensor_bytes(NULL, &number) || kn_tensor_bytes(&huge, &number));
    assert_false(kn_tensor_bytes(&typeless, &number));
    assert_false(kn_tensor_elements(&huge, NULL) || kn_tensor_bytes(&huge, NULL));
    assert_int_equal(number, 7);
}

static void devices(void **state) {
    (void)state;
    kn_device_list *list = NULL;
    kn_device_list_destroy(&list);
    kn_device_list_destroy(NULL);
    assert_int_equal(kn_device_list_count(NULL), 0);
    assert_null(kn_device_list_at(NULL, 0));
    list = kn_device_list_create(NULL, NULL);
    assert_null(kn_device_list_at(list, -1));
    assert_null(kn_device_list_at(list, kn_device_list_count(list)));
    kn_device_list_destroy(&list);
    assert_null(list);
}

static void contexts(void **state) {
    (void)state;
    kn_context *context = NULL;
    size_t count = 5;
    char folder[8] = "unset";
    kn_context_counts counts = {.size = sizeof counts};
    assert_int_equal(kn_process_enable_amx(), kn_process_enable_amx()); /* asked twice */
    kn_context_params_init(NULL);
    kn_context_destroy(NULL);
    kn_context_destroy(&context);
    assert_int_equal(kn_context_status(NULL), KN_ERROR_MEMORY);
    assert_non_null(kn_context_error(NULL));
    assert_null(kn_context_device(NULL));
    assert_null(kn_context_capabilities(NULL));
    assert_int_equal(kn_context_get_counts(NULL, &counts), KN_ERROR_ARGUMENT);
    kn_limits limits = {.size = sizeof limits};
    assert_true(kn_context_measure_limits(NULL, false, &limits) != KN_OK);
    assert_int_equal(kn_context_matrix_unit(NULL, KN_PRECISION_FLOAT16), KN_MATRIX_UNIT_NONE);
    assert_int_equal(kn_context_matrix_unit_for(NULL, KN_INT8), KN_MATRIX_UNIT_NONE);
    assert_string_equal(kn_matrix_unit_name((kn_matrix_unit)99), "unknown");
    assert_true(kn_context_measure_limits(NULL, true, NULL) != KN_OK);
    kn_transfers transfers = {.size = sizeof transfers};
    assert_true(kn_context_measure_transfers(NULL, &transfers) != KN_OK);
    assert_null(kn_context_timeline(NULL, &count));
    assert_int_equal(count, 0);
    kn_context_timeline(NULL, NULL);
    kn_context_timeline_clear(NULL);
    assert_true(kn_context_clock(NULL) == 0);
    assert_int_equal(kn_context_join(NULL, "other", &context), KN_ERROR_MEMORY);
    assert_int_equal(kn_context_join(NULL, NULL, NULL), KN_ERROR_MEMORY);
    assert_int_equal(kn_context_device_count(NULL), 0);
    for (int position = -1; position <= 1; position++) {
        assert_null(kn_context_device_at(NULL, position));
        assert_null(kn_context_device_name_at(NULL, position));
    }
    assert_false(kn_default_cache_folder(NULL, NULL, folder, sizeof folder));
    assert_false(kn_default_cache_folder("/somewhere", NULL, NULL, 0));
}

static void opencl(void **state) {
    (void)state;
    cl_event event = NULL;
    kn_buffer *buffer = NULL;
    kn_context *context = kn_context_create_opencl(NULL, NULL, NULL, NULL);
    assert_true(kn_context_status(context) != KN_OK);
    assert_true(strlen(kn_context_error(context)) > 0);
    assert_true(kn_context_wait_for(context, NULL, 0) != KN_OK);
    assert_true(kn_context_marker(context, &event) != KN_OK);
    assert_null(kn_buffer_from_opencl(context, NULL, 0, 4));
    kn_context_destroy(&context);
    assert_true(kn_context_wait_for(NULL, NULL, 0) != KN_OK);
    assert_true(kn_context_wait_for(NULL, NULL, 3) != KN_OK);
    assert_true(kn_context_marker(NULL, &event) != KN_OK);
    assert_true(kn_context_marker(NULL, NULL) != KN_OK);
    assert_null(kn_buffer_from_opencl(NULL, NULL, 0, 0));
    kn_buffer_destroy(NULL);
    kn_buffer_destroy(&buffer);
}

static void graphs(void **state) {
    (void)state;
    kn_graph *graph = NULL;
    char text[8] = "unset";
    const float one = 1;
    kn_graph_params_init(NULL);
    kn_graph_destroy(NULL);
    kn_graph_destroy(&graph);
    assert_true(kn_graph_status(NULL) != KN_OK);
    assert_non_null(kn_graph_error(NULL));
    assert_true(kn_value_failed(kn_input(NULL, "x", KN_FLOAT32, "2")));
    assert_true(kn_value_failed(kn_parameter(NULL, "x", KN_FLOAT32, "2", NULL)));
    assert_true(kn_value_failed(kn_statistic(NULL, "x", KN_INT32, "2", NULL)));
    assert_true(kn_value_failed(kn_statistic_set_next(NULL, NULL)));
    assert_true(kn_value_failed(kn_constant(NULL, KN_FLOAT32, "", &one, sizeof one)));
    assert_true(kn_value_failed(kn_scalar(NULL, 1)));
    assert_true(kn_value_failed(kn_name(NULL, "name")));
    assert_true(kn_value_failed(kn_output(NULL, "name")));
    assert_true(kn_value_failed(kn_apply(NULL, "add", NULL, 2, NULL)));
    assert_true(kn_value_failed(kn_result(NULL, 0)));
    kn_freeze(NULL);
    kn_store_as(NULL, KN_FLOAT16);
    assert_null(kn_pin(NULL, "other"));
    kn_pin_begin(NULL, "other");
    kn_pin_end(NULL);
    assert_int_equal(kn_graph_pin(NULL, "*", "other"), 0);
    assert_null(kn_graph_pinned_at(NULL, 0));
    kn_scope_begin(NULL, "scope");
    kn_scope_end(NULL);
    assert_null(kn_graph_find(NULL, "x"));
    assert_int_equal(kn_graph_input_count(NULL), 0);
    assert_int_equal(kn_graph_output_count(NULL), 0);
    assert_int_equal(kn_graph_parameter_count(NULL), 0);
    assert_null(kn_graph_input_at(NULL, 0));
    assert_null(kn_graph_output_at(NULL, 0));
    assert_null(kn_graph_parameter_at(NULL, 0));
    assert_null(kn_value_graph(NULL));
    assert_non_null(kn_value_name(NULL));
    kn_value_dtype(NULL);
    kn_value_rank(NULL);
    assert_int_equal(kn_value_dimension(NULL, 0), -1);
    assert_int_equal(kn_value_shape_text(NULL, text, sizeof text), 0);
    assert_string_equal(text, "");
    kn_value_shape_text(NULL, NULL, 0);
    assert_true(kn_value_failed(NULL));
}

/* Each on a separate graph, which must then have an error message. */
static void graphs_with_nulls_inside(void **state) {
    (void)state;
    for (int i = 0; i < 9; i++) {
        kn_graph *graph = kn_graph_create(NULL);
        kn_value *x = kn_input(graph, "x", KN_FLOAT32, "2,3"), *both[2] = {x, NULL}, *value = NULL;
        assert_null(kn_graph_find(graph, NULL));
        assert_null(kn_graph_find(graph, "y"));
        assert_null(kn_graph_input_at(graph, 7));
        assert_null(kn_graph_input_at(graph, -1));
        assert_int_equal(kn_value_dimension(x, -1), -1);
        assert_int_equal(kn_value_dimension(x, 2), -1);
        switch (i) {
        case 0:
            value = kn_input(graph, NULL, KN_FLOAT32, "2");
            break;
        case 1:
            value = kn_input(graph, "y", KN_FLOAT32, NULL);
            break;
        case 2:
            value = kn_parameter(graph, NULL, KN_FLOAT32, "2", NULL);
            break;
        case 3:
            value = kn_parameter(graph, "w", KN_FLOAT32, NULL, NULL);
            break;
        case 4:
            value = kn_constant(graph, KN_FLOAT32, "4", NULL, 16);
            break;
        case 5:
            value = kn_apply(graph, NULL, &x, 1, NULL);
            break;
        case 6:
            value = kn_apply(graph, "add", NULL, 2, NULL);
            break;
        case 7:
            value = kn_apply(graph, "add", both, 2, NULL);
            break;
        default:
            value = kn_concat(NULL, 2, 0);
            break;
        }
        if (!kn_value_failed(value)) fail_msg("case %d made a value", i);
        if (i < 8) {
            assert_true(kn_graph_status(graph) != KN_OK);
            assert_true(strlen(kn_graph_error(graph)) > 10);
        }
        kn_graph_destroy(&graph);
    }
}

static void states(void **state) {
    (void)state;
    kn_states *states = NULL;
    float number = 0;
    kn_states_destroy(NULL);
    kn_states_destroy(&states);
    assert_null(kn_states_create(NULL, 1));
    states = kn_states_create_host(NULL);
    assert_true(kn_states_get(states, "w", &number, sizeof number) == KN_ERROR_NOT_FOUND);
    kn_states_destroy(&states);
    assert_int_equal(kn_states_count(NULL), 0);
    assert_null(kn_states_at(NULL, 0, NULL));
    assert_true(kn_states_get(NULL, "w", &number, sizeof number) != KN_OK);
    assert_true(kn_states_set(NULL, "w", NULL, &number, sizeof number) != KN_OK);
    assert_true(kn_states_refresh(NULL, "w", NULL, &number, sizeof number, NULL) != KN_OK);
    assert_non_null(kn_states_error(NULL));
}

static void sessions(void **state) {
    (void)state;
    kn_session *session = NULL;
    kn_tensor_info info;
    kn_plan_info plan = {.size = sizeof plan};
    kn_session_params_init(NULL);
    kn_session_destroy(NULL);
    kn_session_destroy(&session);
    session = kn_session_create(NULL, NULL, 0, NULL);
    assert_true(kn_session_status(session) != KN_OK);
    kn_session_destroy(&session);
    assert_true(kn_session_status(NULL) != KN_OK);
    assert_true(strlen(kn_session_error(NULL)) > 0);
    assert_null(kn_session_states(NULL));
    assert_true(kn_session_bind(NULL, "batch", 1) != KN_OK);
    assert_true(kn_session_compile(NULL, NULL, 0) != KN_OK);
    assert_true(kn_session_run(NULL, NULL, 0, NULL, 0) != KN_OK);
    assert_true(kn_session_wait(NULL) != KN_OK);
    assert_true(kn_session_info(NULL, "y", &info) != KN_OK);
    assert_true(kn_session_feed_buffer(NULL, "x", NULL) != KN_OK);
    assert_true(kn_session_fetch_buffer(NULL, "y", NULL) != KN_OK);
    assert_true(kn_session_plan(NULL, &plan) != KN_OK);
    assert_null(kn_session_plan_text(NULL));
    assert_int_equal(kn_session_plan_step_at(NULL, 0, NULL), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_session_plan_pass_at(NULL, 0, NULL), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_session_write_programs(NULL, "/tmp"), KN_ERROR_ARGUMENT);
    kn_session_free_text(NULL, NULL);
}

static void trainers(void **state) {
    (void)state;
    kn_trainer *trainer = NULL;
    kn_plan_info plan = {.size = sizeof plan};
    char sentence[8];
    double loss;
    kn_trainer_params_init(NULL);
    kn_trainer_params_choose(NULL, KN_OPTIMIZER_LION);
    assert_true(kn_optimizer_count() > KN_OPTIMIZER_LION);
    assert_null(kn_optimizer_name((kn_optimizer)kn_optimizer_count()));
    assert_null(kn_optimizer_name((kn_optimizer)-1));
    assert_string_equal(kn_moments_name(KN_MOMENTS_BFLOAT16), "bfloat16");
    assert_null(kn_moments_name((kn_moments)-1));
    assert_false(kn_optimizer_reads(KN_OPTIMIZER_LION, NULL));
    assert_false(kn_optimizer_reads((kn_optimizer)99, "beta1"));
    kn_trainer_destroy(NULL);
    kn_trainer_destroy(&trainer);
    trainer = kn_trainer_create(NULL, NULL, NULL);
    assert_true(kn_trainer_status(trainer) != KN_OK);
    assert_true(strlen(kn_trainer_error(trainer)) > 0);
    assert_true(kn_trainer_step(trainer, 1, NULL, 0, &loss) != KN_OK);
    assert_true(kn_trainer_find_not_finite(trainer, 1, NULL, 0, NULL, 0) != KN_OK);
    assert_null(kn_trainer_plan_text(trainer));
    kn_trainer_destroy(&trainer);
    assert_true(kn_trainer_status(NULL) != KN_OK);
    assert_true(strlen(kn_trainer_error(NULL)) > 0);
    assert_true(kn_trainer_step(NULL, 1, NULL, 0, &loss) != KN_OK);
    assert_true(kn_trainer_step_fetch(NULL, 1, NULL, 0, NULL, NULL, 0) != KN_OK);
    assert_true(kn_trainer_evaluate(NULL, 1, NULL, 0, NULL, NULL, 0) != KN_OK);
    assert_true(kn_trainer_compile(NULL, 1) != KN_OK);
    assert_true(kn_trainer_compile_for(NULL, 1, NULL, 0) != KN_OK);
    assert_true(kn_trainer_wait(NULL) != KN_OK);
    assert_null(kn_trainer_states(NULL));
    assert_int_equal(kn_trainer_steps(NULL), 0);
    assert_int_equal(kn_trainer_local_steps(NULL), 0);
    uint64_t first, own;
    assert_true(kn_trainer_local_samples(NULL, 1, &first, &own) != KN_OK);
    kn_trainer_set_steps(NULL, 3);
    assert_true(kn_trainer_learning_rate(NULL) == 0);
    assert_true(kn_trainer_set_learning_rate(NULL, -1, 1) != KN_OK);
    assert_true(kn_trainer_report_validation(NULL, 1) != KN_OK);
    assert_true(kn_trainer_use_averages(NULL, true) != KN_OK);
    assert_true(kn_trainer_collect(NULL) != KN_OK);
    kn_trainer_set_memory_bytes(NULL, 1);
    assert_true(kn_trainer_plan(NULL, &plan) != KN_OK);
    assert_null(kn_trainer_plan_text(NULL));
    assert_int_not_equal(kn_trainer_plan_step_at(NULL, 0, NULL), KN_OK);
    assert_int_not_equal(kn_trainer_plan_pass_at(NULL, 0, NULL), KN_OK);
    assert_int_not_equal(kn_trainer_write_programs(NULL, "/tmp"), KN_OK);
    kn_trainer_free_text(NULL, NULL);
    assert_true(kn_trainer_find_not_finite(NULL, 1, NULL, 0, sentence, sizeof sentence) != KN_OK);
}

static void own_operators(void **state) {
    (void)state;
    kn_operator *custom = NULL;
    kn_operator_destroy(NULL);
    kn_operator_destroy(&custom);
    assert_true(kn_operator_status(NULL) != KN_OK);
    assert_true(strlen(kn_operator_error(NULL)) > 0);
    kn_pointwise_params_init(NULL);
    kn_kernel_params_init(NULL);
    assert_null(kn_apply_operator(NULL, NULL, 2, NULL));
    for (int i = 0; i < 2; i++) {
        custom = i ? kn_operator_create_kernel(NULL) : kn_operator_create_pointwise(NULL);
        assert_true(kn_operator_status(custom) != KN_OK && strlen(kn_operator_error(custom)) > 0);
        assert_true(kn_verify_operator(NULL, custom, NULL, 0, NULL, NULL, NULL) != KN_OK);
        assert_true(kn_value_failed(kn_apply_operator(custom, NULL, 0, NULL)));
        kn_operator_destroy(&custom);
        assert_null(custom);
    }
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *inputs[2] = {NULL, kn_input(graph, "x", KN_FLOAT32, "2")};
    kn_pointwise_params params = KN_POINTWISE_DEFAULTS;
    params.name = "product";
    params.value = "x * y";
    custom = kn_operator_create_pointwise(&params);
    assert_true(kn_value_failed(kn_apply_operator(custom, inputs, 2, NULL)));
    assert_non_null(strstr(kn_graph_error(graph), "product 'product1': input 1 is NULL"));
    assert_true(kn_value_failed(kn_apply_operator(NULL, inputs, 2, NULL)));
    assert_true(kn_value_failed(kn_apply_operator(custom, inputs + 1, 1, NULL)));
    kn_graph_destroy(&graph);
    kn_operator_destroy(&custom);
}

static void verifying(void **state) {
    (void)state;
    int passed = 0, failed = 0;
    kn_verify_params_init(NULL);
    assert_true(kn_verify(NULL, NULL, &passed, &failed) != KN_OK);
    assert_true(kn_verify(NULL, NULL, NULL, NULL) != KN_OK);
    assert_true(kn_verify_case_at(NULL, 0, NULL) != KN_OK);
    assert_true(kn_verify_operator(NULL, NULL, NULL, 1, NULL, &passed, &failed) != KN_OK);
    assert_null(kn_verify_case_name_at(-1));
    assert_null(kn_verify_case_name_at(kn_verify_case_count()));
}

static void tuning(void **state) {
    (void)state;
    kn_tuner *tuner = NULL;
    kn_tuner_shape shape = KN_TUNER_SHAPE_DEFAULTS;
    kn_tuner_entry entry = KN_TUNER_ENTRY_DEFAULTS;
    kn_tuner_counts counts = KN_TUNER_COUNTS_DEFAULTS;
    kn_tuner_params_init(NULL);
    kn_tuner_destroy(NULL);
    kn_tuner_destroy(&tuner);
    assert_null(kn_tuner_create(NULL));
    assert_true(strlen(kn_tuner_error(NULL)) > 0);
    assert_int_equal(kn_tuner_shape_count(NULL), 0);
    assert_true(kn_tuner_shape_at(NULL, 0, &shape) != KN_OK);
    assert_true(kn_tuner_run(NULL, 0, NULL) != KN_OK);
    assert_true(kn_tuner_exclude(NULL, NULL, NULL, KN_TUNER_EVENT_HUNG) != KN_OK);
    assert_true(kn_tuner_forget(NULL, 0) != KN_OK);
    assert_true(kn_tuner_entry_at(NULL, 0, &entry) != KN_OK);
    assert_true(kn_tuner_export(NULL, NULL) != KN_OK);
    assert_true(kn_tuner_import(NULL, NULL, &counts) != KN_OK);
}

/* Objects created from a failed context carry its error. */
static void failed_contexts(void **state) {
    (void)state;
    kn_context_params params;
    kn_context_params_init(&params);
    params.device = "no such device anywhere";
    kn_context *context = kn_context_create(&params);
    kn_status status = kn_context_status(context);
    assert_true(status != KN_OK);
    assert_non_null(strstr(kn_context_error(context), "no such device anywhere"));
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "2"), *loss = kn_mean(kn_linear(x, 2, NULL), NULL, false);
    float numbers[2] = {1, 2};
    const kn_feed feed = {"x", numbers, sizeof numbers};

    kn_states *states = kn_states_create(context, 1);
    const kn_tensor_info info = {KN_FLOAT32, 1, {2}};
    assert_int_equal(kn_states_set(states, "w", &info, numbers, sizeof numbers), status);
    assert_true(strlen(kn_states_error(states)) > 0);
    kn_states_destroy(&states);

    kn_session *session = kn_session_create(context, &loss, 1, NULL);
    assert_int_equal(kn_session_status(session), status);
    assert_string_equal(kn_session_error(session), kn_context_error(context));
    assert_int_equal(kn_session_run(session, &feed, 1, NULL, 0), status);
    assert_int_equal(kn_session_wait(session), status);
    kn_session_destroy(&session);

    kn_trainer *trainer = kn_trainer_create(context, loss, NULL);
    assert_int_equal(kn_trainer_status(trainer), status);
    assert_string_equal(kn_trainer_error(trainer), kn_context_error(context));
    assert_int_equal(kn_trainer_step(trainer, 1, &feed, 1, NULL), status);
    assert_int_equal(kn_trainer_evaluate(trainer, 1, &feed, 1, &loss, NULL, 1), status);
    assert_int_equal(kn_trainer_wait(trainer), status);
    kn_trainer_destroy(&trainer);

    assert_null(kn_tuner_create(context));
    assert_int_equal(kn_verify(context, NULL, NULL, NULL), status);
    assert_int_equal(kn_verify_case_at(context, 0, NULL), status);
    size_t count = 9;
    kn_context_timeline(context, &count);
    assert_int_equal(count, 0);
    kn_context_timeline_clear(context);
    kn_graph_destroy(&graph);
    kn_context_destroy(&context);
}

static void communicators(void **state) {
    (void)state;
    kn_group *group = NULL;
    float number = 5, numbers[2] = {0, 0};
    assert_int_equal(kn_group_create(1, NULL, NULL), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_group_create(0, NULL, &group), KN_ERROR_ARGUMENT);
    assert_null(group);
    assert_null(kn_group_communicator(NULL, 0));
    kn_group_destroy(NULL);
    kn_group_destroy(&group);
    assert_int_equal(kn_group_create(1, NULL, &group), KN_OK);
    assert_true(!kn_group_communicator(group, -1) && !kn_group_communicator(group, 1));
    /* Without functions, or of a wrong size. */
    const kn_communicator alone = {.size = sizeof alone, .ranks = 1},
                          empty = {.size = sizeof empty, .ranks = 2},
                          outside = {.size = sizeof outside, .rank = 1, .ranks = 1}, unsized = {.ranks = 1};
    const kn_communicator *wrong[] = {NULL, &empty, &outside, &unsized};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(kn_all_reduce(wrong[i], &number, 1), KN_ERROR_ARGUMENT);
        assert_int_equal(kn_reduce_scatter(wrong[i], &number, numbers, 1), KN_ERROR_ARGUMENT);
        assert_int_equal(kn_all_gather(wrong[i], &number, numbers, sizeof number), KN_ERROR_ARGUMENT);
        assert_int_equal(kn_broadcast_from(wrong[i], 0, &number, sizeof number), KN_ERROR_ARGUMENT);
        assert_int_equal(kn_barrier(wrong[i]), KN_ERROR_ARGUMENT);
    }
    const kn_communicator *good[] = {&alone, kn_group_communicator(group, 0)};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(kn_all_reduce(good[i], NULL, 1), KN_ERROR_ARGUMENT);
        assert_int_equal(kn_all_reduce(good[i], &number, SIZE_MAX / 2), KN_ERROR_ARGUMENT);
        assert_int_equal(kn_reduce_scatter(good[i], &number, NULL, 1), KN_ERROR_ARGUMENT);
        assert_int_equal(kn_all_gather(good[i], NULL, numbers, sizeof number), KN_ERROR_ARGUMENT);
        assert_int_equal(kn_all_gather(good[i], &number, numbers, SIZE_MAX), KN_ERROR_ARGUMENT);
        assert_int_equal(kn_broadcast_from(good[i], 0, NULL, 1), KN_ERROR_ARGUMENT);
        assert_int_equal(kn_broadcast_from(good[i], 1, &number, sizeof number), KN_ERROR_ARGUMENT);
        assert_int_equal(kn_all_reduce(good[i], NULL, 0), KN_OK);
        assert_int_equal(kn_all_gather(good[i], &number, &numbers[i], sizeof number), KN_OK);
        assert_true(numbers[i] == 5);
        assert_int_equal(kn_barrier(good[i]), KN_OK);
    }
    kn_group_destroy(&group);
    assert_null(group);
}

int test_null(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_and_version),
        cmocka_unit_test(tensors),
        cmocka_unit_test(devices),
        cmocka_unit_test(contexts),
        cmocka_unit_test(opencl),
        cmocka_unit_test(graphs),
        cmocka_unit_test(graphs_with_nulls_inside),
        cmocka_unit_test(states),
        cmocka_unit_test(sessions),
        cmocka_unit_test(trainers),
        cmocka_unit_test(own_operators),
        cmocka_unit_test(verifying),
        cmocka_unit_test(tuning),
        cmocka_unit_test(failed_contexts),
        cmocka_unit_test(communicators),
    };
    return cmocka_run_group_tests_name("nothing given", tests, NULL, NULL);
}
