/* Missing things inside of lists and structs, positions outside of lists, and objects that have failed.
 * nulls.c has NULL for each pointer. */
#include "api_tests.h"

#include <string.h>

#include <koine/images.h>
#include <koine/opencl.h>

TEST(status_and_version) {
    assert_string_equal(kn_status_name((kn_status)12345), "unknown");
    assert_non_null(kn_status_message((kn_status)-1));
    assert_true(strlen(kn_status_message((kn_status)12345)) > 0);
    assert_true(kn_version_number() >= 100 && strchr(kn_version_text(), '.'));
}

TEST(tensors) {
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

TEST(devices) {
    kn_device_list *list = kn_device_list_create(NULL, NULL);
    assert_null(kn_device_list_at(list, -1));
    assert_null(kn_device_list_at(list, kn_device_list_count(list)));
    kn_device_list_destroy(&list);
    assert_null(list);
}

TEST(contexts) {
    char folder[8] = "unset";
    assert_int_equal(kn_process_enable_amx(), kn_process_enable_amx()); /* asked twice */
    assert_string_equal(kn_matrix_unit_name((kn_matrix_unit)99), "unknown");
    assert_false(kn_default_cache_folder(NULL, NULL, folder, sizeof folder));
    assert_false(kn_default_cache_folder("/somewhere", NULL, NULL, 0));
}

TEST(opencl) {
    cl_event event = NULL;
    kn_context *context = kn_context_create_opencl(NULL, NULL, NULL, NULL);
    assert_true(kn_context_status(context) != KN_OK);
    assert_true(strlen(kn_context_error(context)) > 0);
    assert_true(kn_context_wait_for(context, NULL, 0) != KN_OK);
    assert_true(kn_context_marker(context, &event) != KN_OK);
    assert_null(kn_buffer_from_opencl(context, NULL, 0, 4));
    kn_context_destroy(&context);
}

/* Each on a separate graph, which must then have an error message. */
TEST(graphs_with_nulls_inside) {
    for (int i = 0; i < 3; i++) {
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
            value = kn_apply(graph, "add", both, 2, NULL);
            break;
        case 1:
            value = kn_concat(both, 2, 0);
            break;
        default:
            value = kn_einsum("ij,ij", both, 2);
            break;
        }
        if (!kn_value_failed(value)) fail_msg("case %d made a value", i);
        assert_true(kn_graph_status(graph) != KN_OK);
        assert_true(strlen(kn_graph_error(graph)) > 10);
        kn_graph_destroy(&graph);
    }
}

TEST(trainers) {
    assert_true(kn_optimizer_count() > KN_OPTIMIZER_LION);
    assert_null(kn_optimizer_name((kn_optimizer)kn_optimizer_count()));
    assert_null(kn_optimizer_name((kn_optimizer)-1));
    assert_string_equal(kn_moments_name(KN_MOMENTS_BFLOAT16), "bfloat16");
    assert_null(kn_moments_name((kn_moments)-1));
    assert_false(kn_optimizer_reads((kn_optimizer)99, "beta1"));
    kn_trainer *trainer = kn_trainer_create(NULL, NULL, NULL);
    double loss;
    assert_true(kn_trainer_status(trainer) != KN_OK);
    assert_true(strlen(kn_trainer_error(trainer)) > 0);
    assert_true(kn_trainer_step(trainer, 1, NULL, 0, &loss) != KN_OK);
    assert_true(kn_trainer_find_not_finite(trainer, 1, NULL, 0, NULL, 0) != KN_OK);
    assert_null(kn_trainer_plan_text(trainer));
    kn_trainer_destroy(&trainer);
}

/* Positions outside of the lists. */
TEST(positions) {
    assert_true(!kn_verify_case_name_at(-1) && !kn_verify_case_name_at(kn_verify_case_count()));
    assert_true(!kn_data_source_usage_at(-1) && !kn_data_source_about_at(kn_data_source_count()));
    assert_true(!kn_zoo_name_at(-1) && !kn_zoo_name_at(kn_zoo_count()));
    assert_true(!kn_zoo_text_at(-1) && !kn_zoo_text_at(kn_zoo_count()));
    assert_true(kn_model_grammar(NULL, 0) > 1000);
    assert_true(kn_images_archives().read(NULL, NULL, NULL, 0, NULL, NULL, 0) != KN_OK);
    assert_true(kn_images_reader().read(NULL, NULL, NULL, 0, 0, NULL, NULL, 0) != KN_OK);
}

/* Objects that could not be made answer every call. */
TEST(failed_objects) {
    kn_model_loss loss = KN_MODEL_LOSS_DEFAULTS;
    kn_model *(*const makers[])(const char *, const kn_model_params *) = {kn_model_create_named,
                                                                          kn_model_parse, kn_model_open};
    for (size_t i = 0; i < 3; i++) {
        kn_model *model = makers[i](NULL, NULL);
        assert_true(kn_model_status(model) != KN_OK);
        assert_true(strlen(kn_model_error(model)) > 0);
        assert_string_equal(kn_model_name(model), "");
        assert_string_equal(kn_model_text(model), "");
        assert_null(kn_model_graph(model));
        assert_true(kn_model_add_loss(model, NULL, &loss) != KN_OK);
        assert_true(kn_model_save(model, "/nowhere/x", NULL, NULL) != KN_OK);
        assert_true(kn_model_load(model, NULL, NULL, NULL, NULL) != KN_OK);
        kn_model_destroy(&model);
    }
    kn_checkpoints *checkpoints = kn_checkpoints_open(NULL, NULL);
    assert_null(kn_checkpoints_newest(checkpoints));
    assert_true(kn_checkpoints_save(checkpoints, NULL, NULL, 1, NULL, 0) != KN_OK);
    assert_true(kn_checkpoints_save_best(checkpoints, NULL, NULL, NULL, 0) != KN_OK);
    kn_checkpoints_destroy(&checkpoints);
    kn_events *events = kn_events_open(NULL, NULL);
    assert_true(kn_events_scalar(events, "x", 0, 1) != KN_OK);
    assert_true(kn_events_image(events, "x", 0, 1, 1, 1, NULL) != KN_OK);
    kn_events_destroy(&events);
    kn_dataset *dataset = kn_dataset_open(NULL, NULL), *test = kn_dataset_test(dataset);
    assert_true(kn_dataset_status(test) != KN_OK);
    kn_dataset_destroy(&test);
    kn_dataset_destroy(&dataset);
    const char *type;
    kn_onnx_file *file = kn_onnx_file_open(NULL, NULL);
    assert_null(kn_onnx_file_input_at(file, 0, &type));
    kn_onnx_file_destroy(&file);
    kn_states *states = kn_states_create_host(NULL);
    float number;
    assert_true(kn_states_get(states, "w", &number, sizeof number) == KN_ERROR_NOT_FOUND);
    kn_states_destroy(&states);
}

TEST(own_operators) {
    kn_operator *custom = NULL;
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

/* Objects created from a failed context carry its error. */
TEST(failed_contexts) {
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

TEST(communicators) {
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

TEST_FILE(test_null, NULL, NULL)
