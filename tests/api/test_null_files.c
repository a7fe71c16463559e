/* Every function for data, models and files, with NULL for each argument. */
#include "api_tests.h"

#include <math.h>
#include <string.h>

#include <koine/images.h>

static void data(void **state) {
    (void)state;
    kn_dataset *dataset = NULL, *one = NULL, *other = NULL;
    kn_loader *loader = NULL;
    kn_batch batch = KN_BATCH_DEFAULTS;
    kn_dataset_field field = KN_DATASET_FIELD_DEFAULTS;
    size_t index;
    double number = 0;
    kn_dataset_params_init(NULL);
    kn_loader_params_init(NULL);
    kn_dataset_destroy(NULL);
    kn_dataset_destroy(&dataset);
    kn_loader_destroy(NULL);
    kn_loader_destroy(&loader);
    dataset = kn_dataset_open(NULL, NULL);
    assert_true(kn_dataset_status(dataset) != KN_OK);
    kn_dataset_destroy(&dataset);
    dataset = kn_dataset_create_from_arrays(3, NULL, 2, 0, NULL);
    assert_true(kn_dataset_status(dataset) != KN_OK);
    kn_dataset_destroy(&dataset);
    assert_true(kn_dataset_status(NULL) != KN_OK);
    assert_non_null(kn_dataset_error(NULL));
    assert_int_equal(kn_dataset_count(NULL), 0);
    assert_int_equal(kn_dataset_classes(NULL), 0);
    assert_true(isnan(kn_dataset_max_r2(NULL)));
    assert_null(kn_dataset_vocabulary(NULL));
    assert_int_equal(kn_dataset_sample_rate(NULL), 0);
    assert_null(kn_dataset_columns(NULL));
    assert_string_equal(kn_dataset_about(NULL), "");
    assert_int_equal(kn_dataset_skipped(NULL), 0);
    assert_true(kn_dataset_class_weights(NULL, NULL, 0) != KN_OK);
    assert_string_equal(kn_dataset_skipped_text(NULL), "");
    assert_false(kn_dataset_target(NULL, NULL));
    assert_null(kn_dataset_class_name(NULL, 0));
    assert_null(kn_dataset_sample_name(NULL, 0));
    assert_true(kn_images_archives().read(NULL, NULL, NULL, 0, NULL, NULL, 0) != KN_OK);
    assert_true(kn_images_reader().read(NULL, NULL, NULL, 0, 0, NULL, NULL, 0) != KN_OK);
    assert_true(kn_dataset_variance(NULL, 0, &number) != KN_OK);
    int32_t signs[1];
    size_t sign_count, sign_bytes;
    assert_true(kn_text_encode(NULL, NULL, "a", signs, &sign_count, &sign_bytes) != KN_OK);
    assert_true(kn_text_encode(NULL, "a", NULL, signs, &sign_count, &sign_bytes) != KN_OK);
    assert_true(kn_text_encode(NULL, "a", "a", NULL, NULL, NULL) != KN_OK);
    assert_true(kn_dataset_statistics(NULL, 0, NULL, NULL, 0) != KN_OK);
    assert_null(kn_data_source_usage_at(-1));
    assert_null(kn_data_source_about_at(kn_data_source_count()));
    assert_int_equal(kn_dataset_field_count(NULL), 0);
    assert_false(kn_dataset_field_at(NULL, 0, &field));
    assert_false(kn_dataset_find_field(NULL, "x", &index));
    assert_true(kn_dataset_read(NULL, NULL, 0, 0, NULL, 0, NULL, 0) != KN_OK);
    assert_false(kn_dataset_has_test(NULL));
    dataset = kn_dataset_test(NULL);
    assert_true(kn_dataset_status(dataset) != KN_OK);
    kn_dataset_destroy(&dataset);
    assert_true(kn_dataset_split(NULL, 0.5, 1, &one, &other) != KN_OK);
    kn_dataset_destroy(&one);
    kn_dataset_destroy(&other);
    assert_true(kn_dataset_split(NULL, 0.5, 1, NULL, NULL) != KN_OK);
    loader = kn_loader_create(NULL, NULL);
    assert_true(kn_loader_status(loader) != KN_OK);
    kn_loader_destroy(&loader);
    assert_true(kn_loader_status(NULL) != KN_OK);
    assert_non_null(kn_loader_error(NULL));
    assert_int_equal(kn_loader_batches(NULL), 0);
    assert_true(kn_loader_next(NULL, &batch) != KN_OK);
    assert_true(kn_loader_next(NULL, NULL) != KN_OK);
    assert_true(kn_loader_seek(NULL, 0, 0) != KN_OK);
    assert_true(kn_loader_wait_seconds(NULL) == 0);
    assert_true(kn_augmentation_read(NULL, NULL, NULL, 0) != KN_OK);
    assert_true(kn_augmentation_read("flip", NULL, NULL, 0) != KN_OK);
    assert_true(kn_augmentation_keeps_bytes(NULL));
}

static void fitting(void **state) {
    (void)state;
    kn_fit_result result = {.size = sizeof result};
    kn_score score = KN_SCORE_DEFAULTS;
    kn_fit_params_init(NULL);
    assert_true(kn_fit(NULL, NULL, NULL, &result) != KN_OK);
    assert_int_equal(result.stop_reason, KN_STOP_ERROR);
    assert_true(kn_fit(NULL, NULL, NULL, NULL) != KN_OK);
    assert_true(kn_evaluate(NULL, NULL, 1, NULL, NULL, &score) != KN_OK);
    assert_true(kn_evaluate(NULL, NULL, 1, "loss", NULL, NULL) != KN_OK);
}

static void models(void **state) {
    (void)state;
    kn_model *model = NULL;
    kn_model_loss loss = KN_MODEL_LOSS_DEFAULTS;
    kn_model_weight weight = KN_MODEL_WEIGHT_DEFAULTS;
    int loaded = 0;
    kn_model_params_init(NULL);
    kn_model_save_params_init(NULL);
    kn_model_load_params_init(NULL);
    kn_model_destroy(NULL);
    kn_model_destroy(&model);
    kn_model *(*const makers[])(const char *, const kn_model_params *) = {kn_model_create_named,
                                                                          kn_model_parse, kn_model_open};
    for (size_t i = 0; i < 3; i++) {
        model = makers[i](NULL, NULL);
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
    kn_graph *none = NULL;
    for (int i = 0; i < 2; i++) {
        model = kn_model_create_from_graph(i ? &none : NULL, NULL);
        assert_int_equal(kn_model_status(model), KN_ERROR_ARGUMENT);
        kn_model_destroy(&model);
    }
    assert_int_equal(kn_model_copy_graph(NULL, NULL), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_model_copy_graph(NULL, &none), KN_ERROR_ARGUMENT);
    model = kn_model_bind(NULL, NULL, 0);
    assert_int_equal(kn_model_status(model), KN_ERROR_ARGUMENT);
    assert_false(kn_model_bound(model));
    kn_model_destroy(&model);
    assert_false(kn_model_bound(NULL));
    assert_false(kn_model_fits(NULL, NULL, 0));
    assert_string_equal(kn_value_field(NULL), "");
    assert_int_equal(kn_model_status(NULL), KN_ERROR_MEMORY);
    assert_non_null(kn_model_error(NULL));
    assert_string_equal(kn_model_name(NULL), "");
    assert_string_equal(kn_model_text(NULL), "");
    kn_model_task(NULL);
    assert_non_null(kn_model_loss_name(NULL));
    assert_null(kn_model_graph(NULL));
    assert_int_equal(kn_model_input_count(NULL), 0);
    assert_null(kn_model_input_at(NULL, 0));
    assert_int_equal(kn_model_output_count(NULL), 0);
    assert_null(kn_model_output_at(NULL, 0));
    assert_null(kn_model_step(NULL, 1, NULL));
    assert_false(kn_model_can_stream(NULL));
    assert_int_equal(kn_model_pin(NULL, "*", "other"), 0);
    assert_string_equal(kn_model_input_name_at(NULL, 0), "");
    assert_string_equal(kn_model_output_name_at(NULL, 0), "");
    assert_int_equal(kn_model_parameter_elements(NULL), 0);
    assert_true(kn_model_flops(NULL) == 0);
    assert_true(kn_model_add_loss(NULL, NULL, &loss) != KN_OK);
    assert_true(kn_model_add_weighted_loss(NULL, NULL, NULL, 0, &loss) != KN_OK);
    assert_true(kn_model_add_mixed_loss(NULL, NULL, NULL, 0, &loss) != KN_OK);
    assert_string_equal(kn_model_augmentation(NULL), "");
    assert_true(kn_model_save(NULL, NULL, NULL, NULL) != KN_OK);
    assert_true(kn_model_save_onnx(NULL, NULL, NULL, NULL) != KN_OK);
    assert_true(kn_model_load(NULL, NULL, NULL, NULL, &loaded) != KN_OK);
    assert_int_equal(kn_model_weight_count(NULL), 0);
    assert_false(kn_model_weight_at(NULL, 0, NULL));
    assert_false(kn_model_has_weights(NULL));
    assert_null(kn_model_metadata(NULL, "key"));
    assert_false(kn_model_setting_value(NULL, "inputs", NULL));
    assert_null(kn_model_setting_name_at(NULL, 0));
    assert_null(kn_model_open_size_at(NULL, 0, NULL));
    assert_null(kn_zoo_name_at(-1));
    assert_null(kn_zoo_name_at(kn_zoo_count()));
    assert_null(kn_zoo_text_at(-1));
    assert_null(kn_zoo_text_at(kn_zoo_count()));
    assert_true(kn_model_grammar(NULL, 0) > 1000);
    model = kn_model_open("linear", NULL);
    assert_int_equal(kn_model_status(model), KN_OK);
    assert_int_equal(kn_model_pin(model, NULL, "other"), 0);
    assert_int_equal(kn_model_pin(model, "*", ""), 0);
    assert_true(strlen(kn_model_error(model)) > 0);
    assert_true(kn_model_add_loss(model, NULL, NULL) != KN_OK);
    assert_true(kn_model_save(model, NULL, NULL, NULL) != KN_OK);
    assert_true(kn_model_save_onnx(model, NULL, NULL, NULL) != KN_OK);
    assert_false(kn_model_weight_at(model, 0, NULL));
    assert_false(kn_model_weight_at(model, -1, &weight));
    assert_true(kn_model_load(model, NULL, NULL, NULL, NULL) != KN_OK);
    assert_null(kn_model_metadata(model, NULL));
    assert_int_equal(kn_model_add_loss(model, NULL, &loss), KN_OK);
    kn_model_destroy(&model);
}

static void checkpoints(void **state) {
    (void)state;
    kn_checkpoints *none = NULL;
    kn_checkpoints_params_init(NULL);
    kn_checkpoints_destroy(NULL);
    kn_checkpoints_destroy(&none);
    assert_int_equal(kn_checkpoints_status(NULL), KN_ERROR_MEMORY);
    assert_non_null(kn_checkpoints_error(NULL));
    assert_int_equal(kn_checkpoints_count(NULL), 0);
    assert_null(kn_checkpoints_newest(NULL));
    assert_null(kn_checkpoints_best(NULL));
    assert_true(kn_checkpoints_save(NULL, NULL, NULL, 1, NULL, 0) != KN_OK);
    assert_true(kn_checkpoints_save_best(NULL, NULL, NULL, NULL, 1) != KN_OK);
    kn_checkpoints *failed = kn_checkpoints_open(NULL, NULL);
    assert_int_equal(kn_checkpoints_status(failed), KN_ERROR_ARGUMENT);
    assert_null(kn_checkpoints_newest(failed));
    assert_true(kn_checkpoints_save(failed, NULL, NULL, 1, NULL, 0) != KN_OK);
    assert_true(kn_checkpoints_save_best(failed, NULL, NULL, NULL, 0) != KN_OK);
    kn_checkpoints_destroy(&failed);
}

static void event_files(void **state) {
    (void)state;
    kn_events *none = NULL;
    kn_events_destroy(NULL);
    kn_events_destroy(&none);
    assert_int_equal(kn_events_status(NULL), KN_ERROR_MEMORY);
    assert_non_null(kn_events_error(NULL));
    assert_string_equal(kn_events_path(NULL), "");
    kn_events *failed = kn_events_open(NULL, NULL);
    assert_int_equal(kn_events_status(failed), KN_ERROR_ARGUMENT);
    for (int i = 0; i < 2; i++) {
        kn_events *events = i ? failed : NULL;
        assert_true(kn_events_scalar(events, NULL, 0, 1) != KN_OK);
        assert_true(kn_events_histogram(events, NULL, 0, NULL, 3) != KN_OK);
        assert_true(kn_events_image(events, "x", 0, 1, 1, 1, NULL) != KN_OK);
    }
    kn_events_destroy(&failed);
}

static void npy_files(void **state) {
    (void)state;
    kn_npy_file *file = NULL;
    kn_tensor_info info;
    char message[64] = "";
    kn_npy_file_destroy(NULL);
    kn_npy_file_destroy(&file);
    file = kn_npy_file_open(NULL, NULL);
    assert_true(kn_npy_file_status(file) != KN_OK);
    kn_npy_file_destroy(&file);
    assert_true(kn_npy_file_status(NULL) != KN_OK);
    assert_non_null(kn_npy_file_error(NULL));
    assert_false(kn_npy_file_info(NULL, &info));
    assert_true(kn_npy_file_copy(NULL, KN_FLOAT32, NULL, 0) != KN_OK);
    assert_true(kn_npy_file_save(NULL, NULL, NULL, message, sizeof message) != KN_OK);
    assert_true(strlen(message) > 0);
    assert_true(kn_npy_file_save(NULL, NULL, NULL, NULL, 0) != KN_OK);
}

static void onnx_files(void **state) {
    (void)state;
    kn_onnx_file *file = NULL;
    const char *type;
    kn_onnx_file_destroy(NULL);
    kn_onnx_file_destroy(&file);
    file = kn_onnx_file_open(NULL, NULL);
    assert_true(kn_onnx_file_status(file) != KN_OK);
    assert_null(kn_onnx_file_input_at(file, 0, &type));
    kn_onnx_file_destroy(&file);
    assert_true(kn_onnx_file_status(NULL) != KN_OK);
    assert_non_null(kn_onnx_file_error(NULL));
    assert_int_equal(kn_onnx_file_input_count(NULL), 0);
    assert_int_equal(kn_onnx_file_output_count(NULL), 0);
    assert_null(kn_onnx_file_input_at(NULL, 0, NULL));
    assert_null(kn_onnx_file_output_at(NULL, 0, NULL));
    kn_onnx_tensor_file *tensor = NULL;
    kn_tensor_info info;
    char message[64] = "";
    kn_onnx_tensor_file_destroy(NULL);
    kn_onnx_tensor_file_destroy(&tensor);
    tensor = kn_onnx_tensor_file_open(NULL, NULL);
    assert_true(kn_onnx_tensor_file_status(tensor) != KN_OK);
    kn_onnx_tensor_file_destroy(&tensor);
    assert_true(kn_onnx_tensor_file_status(NULL) != KN_OK);
    assert_non_null(kn_onnx_tensor_file_error(NULL));
    assert_string_equal(kn_onnx_tensor_file_name(NULL), "");
    assert_false(kn_onnx_tensor_file_info(NULL, &info));
    assert_true(kn_onnx_tensor_file_copy(NULL, KN_FLOAT32, NULL, 0) != KN_OK);
    assert_true(kn_onnx_tensor_file_save(NULL, NULL, NULL, NULL, message, sizeof message) != KN_OK);
    assert_true(strlen(message) > 0);
    assert_true(kn_onnx_tensor_file_save(NULL, NULL, NULL, NULL, NULL, 0) != KN_OK);
}

static void safetensors_files(void **state) {
    (void)state;
    kn_safetensors_file *file = NULL;
    kn_tensor_info info;
    char message[64] = "";
    kn_safetensors_file_destroy(NULL);
    kn_safetensors_file_destroy(&file);
    file = kn_safetensors_file_open(NULL, NULL);
    assert_true(kn_safetensors_file_status(file) != KN_OK);
    kn_safetensors_file_destroy(&file);
    assert_true(kn_safetensors_file_status(NULL) != KN_OK);
    assert_non_null(kn_safetensors_file_error(NULL));
    assert_int_equal(kn_safetensors_file_count(NULL), 0);
    assert_null(kn_safetensors_file_at(NULL, 0, &info));
    assert_false(kn_safetensors_file_info(NULL, NULL, &info));
    assert_null(kn_safetensors_file_metadata(NULL, NULL));
    assert_true(kn_safetensors_file_copy(NULL, NULL, KN_FLOAT32, NULL, 0) != KN_OK);
    assert_true(kn_safetensors_file_save(NULL, NULL, 0, message, sizeof message) != KN_OK);
    assert_true(strlen(message) > 0);
    assert_true(kn_safetensors_file_save("unwritten", NULL, 1, NULL, 0) != KN_OK);
}

int test_null_files(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data),        cmocka_unit_test(fitting),           cmocka_unit_test(models),
        cmocka_unit_test(checkpoints), cmocka_unit_test(event_files),       cmocka_unit_test(npy_files),
        cmocka_unit_test(onnx_files),  cmocka_unit_test(safetensors_files),
    };
    return cmocka_run_group_tests_name("no data, models and files given", tests, NULL, NULL);
}
