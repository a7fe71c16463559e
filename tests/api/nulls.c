/* Every public function with NULL for each of its pointers in turn: an error or an empty result, never a
 * crash. nulls.py writes the calls; tests/mpi has those of mpi.h. */
#include "nulls.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static fixture on;
static const char *current = "none";

void *some(fixture *from, size_t bytes, bool sized) {
    void *place = from->memory + from->used;
    from->used += (bytes / sizeof(max_align_t) + 1) * sizeof(max_align_t);
    assert_true(from->used <= sizeof from->memory);
    if (sized) memcpy(place, &bytes, sizeof bytes);
    return place;
}

void value_failed(const fixture *from, const kn_value *value, bool inside) {
    assert_true(kn_value_failed(value));
    if (!inside) return;
    assert_true(kn_graph_status(from->graph) != KN_OK);
    assert_true(strlen(kn_graph_error(from->graph)) > 10);
}

static void tell_crash(int number) {
    static const char middle[] = " crashes with NULL\n";
    ssize_t written = write(STDOUT_FILENO, current, strlen(current));
    written += write(STDOUT_FILENO, middle, sizeof middle - 1);
    _exit(written ? 1 : 2);
}

static kn_vocabulary *open_vocabulary(const char *folder) {
    char path[4096];
    FILE *file = fopen(test_path(path, sizeof path, folder, "tokenizer.json"), "w");
    assert_non_null(file);
    fputs("{\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"x\": 0}}}", file);
    assert_int_equal(fclose(file), 0);
    kn_vocabulary *vocabulary = kn_vocabulary_open(path, NULL);
    assert_int_equal(kn_vocabulary_status(vocabulary), KN_OK);
    return vocabulary;
}

static void make_files(float *numbers) {
    char message[200], path[4096];
    on.tensor_info = (kn_tensor_info){KN_FLOAT32, 1, {2}};
    on.named_tensor = (kn_named_tensor){"x", on.tensor_info, numbers};
    on.dataset_array = (kn_dataset_array){
        .name = "x", .info = on.tensor_info, .data = numbers, .bytes = 4 * sizeof *numbers};
    on.feed = (kn_feed){"x", numbers, 2 * sizeof *numbers, 0};
    on.fetch = (kn_fetch){"y", numbers, 2 * sizeof *numbers};
    assert_int_equal(kn_npy_file_save(test_path(path, sizeof path, on.folder, "x.npy"), &on.tensor_info,
                                      numbers, message, sizeof message),
                     KN_OK);
    on.npy_file = kn_npy_file_open(path, NULL);
    assert_int_equal(kn_npy_file_status(on.npy_file), KN_OK);
    test_path(path, sizeof path, on.folder, "x.safetensors");
    assert_int_equal(kn_safetensors_file_save(path, &on.named_tensor, 1, message, sizeof message), KN_OK);
    on.safetensors_file = kn_safetensors_file_open(path, NULL);
    assert_int_equal(kn_safetensors_file_status(on.safetensors_file), KN_OK);
    test_path(path, sizeof path, on.folder, "x.pb");
    assert_int_equal(kn_onnx_tensor_file_save(path, "x", &on.tensor_info, numbers, message, sizeof message),
                     KN_OK);
    on.onnx_tensor_file = kn_onnx_tensor_file_open(path, NULL);
    assert_int_equal(kn_onnx_tensor_file_status(on.onnx_tensor_file), KN_OK);
    test_path(path, sizeof path, on.folder, "x.onnx");
    kn_model *weightless = kn_model_parse("koine 1\nmodel small\ninput x 4\nrelu\n", NULL);
    if (kn_model_save_onnx(weightless, path, on.states, NULL) != KN_OK)
        fail_msg("%s", kn_model_error(weightless));
    kn_model_destroy(&weightless);
    on.onnx_file = kn_onnx_file_open(path, NULL);
    assert_int_equal(kn_onnx_file_status(on.onnx_file), KN_OK);
}

static int make(void **state) {
    static float numbers[4] = {1, 2, 3, 4};
    static kn_graph *graph;
    kn_context_params params = KN_CONTEXT_DEFAULTS;
    kn_pointwise_params product = KN_POINTWISE_DEFAULTS;
    params.target = TARGET;
    product.name = "product";
    product.value = "x * y";
    on.folder = test_folder_make();
    test_path(on.path, sizeof on.path, on.folder, "none");
    on.context = kn_context_create(&params);
    assert_int_equal(kn_context_status(on.context), KN_OK);
    on.model = kn_model_open("linear", NULL);
    on.states = kn_states_create_host(NULL);
    make_files(numbers);
    graph = kn_graph_create(NULL);
    kn_value *loss = kn_mean(kn_linear(kn_input(graph, "x", KN_FLOAT32, "batch,2"), 2, NULL), NULL, false);
    on.trainer = kn_trainer_create(on.context, loss, NULL);
    assert_int_equal(kn_trainer_status(on.trainer), KN_OK);
    on.session = kn_session_create(on.context, &loss, 1, NULL);
    assert_int_equal(kn_session_status(on.session), KN_OK);
    on.dataset = kn_dataset_create_from_arrays(2, &on.dataset_array, 1, 0, NULL);
    assert_int_equal(kn_dataset_status(on.dataset), KN_OK);
    on.loader = kn_loader_create(on.dataset, NULL);
    const kn_session_params shared = {.size = sizeof shared, .states = on.states};
    on.runner = kn_runner_create(on.model, on.context, &shared);
    assert_int_equal(kn_runner_status(on.runner), KN_OK);
    on.tuner = kn_tuner_create(on.context);
    on.device_list = kn_device_list_create(NULL, NULL);
    on.vocabulary = open_vocabulary(on.folder);
    on.events = kn_events_open(on.folder, NULL);
    on.checkpoints = kn_checkpoints_open(on.folder, NULL);
    assert_int_equal(kn_group_create(1, NULL, &on.group), KN_OK);
    on.communicator = kn_group_communicator(on.group, 0);
    on.operator= kn_operator_create_pointwise(&product);
    return 0;
}

static int unmake(void **state) {
    kn_operator_destroy(&on.operator);
    kn_group_destroy(&on.group);
    kn_checkpoints_destroy(&on.checkpoints);
    kn_events_destroy(&on.events);
    kn_vocabulary_destroy(&on.vocabulary);
    kn_device_list_destroy(&on.device_list);
    kn_tuner_destroy(&on.tuner);
    kn_loader_destroy(&on.loader);
    kn_dataset_destroy(&on.dataset);
    kn_states_destroy(&on.states);
    kn_runner_destroy(&on.runner);
    kn_session_destroy(&on.session);
    kn_trainer_destroy(&on.trainer);
    kn_onnx_file_destroy(&on.onnx_file);
    kn_onnx_tensor_file_destroy(&on.onnx_tensor_file);
    kn_safetensors_file_destroy(&on.safetensors_file);
    kn_npy_file_destroy(&on.npy_file);
    kn_model_destroy(&on.model);
    kn_context_destroy(&on.context);
    test_folder_remove(on.folder);
    return 0;
}

static void is_refused(void **state) {
    const null_call *wanted = *state;
    current = wanted->name;
    on.graph = kn_graph_create(NULL);
    on.values[0] = on.value = kn_input(on.graph, "x", KN_FLOAT32, "2,3");
    memset(on.memory, 0, sizeof on.memory);
    on.used = 0;
    wanted->call(&on);
    kn_graph_destroy(&on.graph);
}

int main(void) {
    struct CMUnitTest *tests = calloc(null_call_count, sizeof *tests);
    if (!tests) return 1;
    signal(SIGSEGV, tell_crash);
    for (size_t i = 0; i < null_call_count; i++)
        tests[i] = (struct CMUnitTest){
            .name = null_calls[i].name, .test_func = is_refused, .initial_state = (void *)&null_calls[i]};
    const int failed = _cmocka_run_group_tests("NULL for each pointer", tests, null_call_count, make, unmake);
    free(tests);
    return failed != 0;
}
