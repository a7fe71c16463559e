/* Each operator of the table of importer and exporter is read, written and read again: it must stay the same
 * operator, with the same attributes and results. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../models/fake_states.h"
#include "../ops/ops_tests.h"
#include "exchange/onnx/export.h"
#include "exchange/onnx/import.h"
#include "onnx_model.h"

enum { MAX_INPUTS = 3, MAX_ELEMENTS = 64 };

/* Attributes of a node in the file, none of which is a default. */
static const float said[KN_IMPORT_NUMBERS] = {0.375f, 0.625f};

typedef struct sample {
    const kn_import_row *row;
    const kn_operator *op;
    bool says; /* the node has the attributes */
    int count;
    double numbers[MAX_INPUTS][MAX_ELEMENTS];
} sample;

static double wanted_number(const sample *s, int i) {
    return s->says ? (double)said[i] : s->row->numbers[i].usual;
}

/* Inputs have the types and shapes of the operator's first case: "7", "bool 7". */
static void add_input(onnx_graph *graph, sample *s, int place, const char *text) {
    kn_dtype dtype = KN_FLOAT32;
    char name[16], word[16];
    size_t length = strcspn(text, " ");
    snprintf(name, sizeof name, "in%d", place);
    snprintf(word, sizeof word, "%.*s", (int)(length < 15 ? length : 15), text);
    if (text[length] && kn_dtype_parse(word, &dtype)) text += length + 1;
    onnx_input(graph, name, (int)kn_onnx_type_from(dtype), text);
    for (int i = 0; i < MAX_ELEMENTS; i++) {
        const int whole = (i * 7 + place * 5) % 9;
        s->numbers[place][i] = dtype == KN_BOOL           ? whole % 2
                               : kn_dtype_is_float(dtype) ? whole * 0.5 - 2
                                                          : whole;
    }
}

static kn_model *made_model(sample *s) {
    onnx_graph graph = {.bytes = {.count = 0}};
    char inputs[64] = "", attributes[128] = "";
    for (; s->count < MAX_INPUTS && s->op->cases[0].inputs[s->count]; s->count++) {
        add_input(&graph, s, s->count, s->op->cases[0].inputs[s->count]);
        snprintf(inputs + strlen(inputs), sizeof inputs - strlen(inputs), "%sin%d", s->count ? "," : "",
                 s->count);
    }
    for (int i = 0; s->says && i < KN_IMPORT_NUMBERS && s->row->numbers[i].theirs; i++)
        snprintf(attributes + strlen(attributes), sizeof attributes - strlen(attributes), "%s%s=%gf",
                 i ? " " : "", s->row->numbers[i].theirs, (double)said[i]);
    onnx_node(&graph, s->row->type, inputs, "out", attributes);
    onnx_output(&graph, "out");
    return onnx_right(&graph, NULL);
}

static void is_the_operator(const sample *s, const kn_model *model) {
    const kn_node *node = model->outputs[0]->producer;
    assert_int_equal(model->graph->node_count, 1);
    assert_string_equal(node->op->name, s->row->op);
    for (int i = 0; i < KN_IMPORT_NUMBERS && s->row->numbers[i].ours; i++)
        assert_true((float)kn_attribute_of(node, s->row->numbers[i].ours)->number ==
                    (float)wanted_number(s, i));
}

static void is_the_node(const sample *s, const char *path) {
    const kn_host host = kn_host_defaults();
    kn_onnx_model file;
    kn_error error = {0};
    if (kn_onnx_open(&host, path, &file, &error) != KN_OK) fail_msg("%s", error.text);
    assert_int_equal(file.graph.node_count, 1);
    const kn_onnx_node *node = &file.graph.nodes[0];
    assert_string_equal(node->type, s->row->type);
    for (int i = 0; i < KN_IMPORT_NUMBERS && s->row->numbers[i].theirs; i++) {
        const kn_onnx_attribute *found = kn_onnx_find_attribute(node, s->row->numbers[i].theirs);
        assert_non_null(found);
        assert_true(found->floats[0] == (float)wanted_number(s, i));
    }
    kn_onnx_close(&host, &file);
}

/* Computes the result; returns its number of elements. */
static int64_t compute(const sample *s, kn_model *model, double *numbers) {
    const kn_bind_request request = {.seed = 1};
    host_input feeds[MAX_INPUTS];
    kn_graph *bound = NULL;
    kn_value *output;
    kn_error error = {0};
    assert_int_equal(kn_model_input_count(model), s->count);
    for (int i = 0; i < s->count; i++)
        feeds[i] = (host_input){kn_value_name(kn_model_input_at(model, i)), s->numbers[i]};
    if (kn_graph_bind(model->graph, model->outputs, 1, &request, &bound, &output, &error) != KN_OK)
        fail_msg("%s", error.text);
    host_values computed = host_compute(bound, feeds, s->count);
    const int64_t count = host_elements(output);
    assert_in_range(count, 1, MAX_ELEMENTS);
    memcpy(numbers, computed.numbers[output->id], (size_t)count * sizeof *numbers);
    host_release(&computed);
    kn_graph_destroy(&bound);
    return count;
}

static void stays_the_same(sample *s, const char *path) {
    double first[MAX_ELEMENTS], second[MAX_ELEMENTS];
    const kn_model_save_params params = KN_MODEL_SAVE_DEFAULTS;
    kn_states *states = fake_states_make();
    kn_model *read = made_model(s);
    is_the_operator(s, read);
    /* Saves the graph, since saving a model from an ONNX file would write the node of that file. */
    if (kn_export_onnx(read, path, states, &params) != KN_OK) fail_msg("%s", kn_model_error(read));
    is_the_node(s, path);
    kn_model *again = kn_model_open(path, NULL);
    if (kn_model_status(again) != KN_OK) fail_msg("%s", kn_model_error(again));
    is_the_operator(s, again);
    const int64_t count = compute(s, read, first);
    assert_int_equal(compute(s, again, second), count);
    /* Defaults such as 0.2 are rounded to float32 when written. */
    const double allowed = s->says ? 0 : 1e-6;
    for (int64_t i = 0; i < count; i++)
        if (first[i] != second[i] && !(isnan(first[i]) && isnan(second[i])) &&
            !(fabs(first[i] - second[i]) <= allowed))
            fail_msg("%s: element %d is %.17g; expected %.17g", s->row->type, (int)i, second[i], first[i]);
    kn_model_destroy(&again);
    kn_model_destroy(&read);
    fake_states_release(states);
}

TEST(same_operator) {
    char path[4096];
    char *folder = test_folder_make();
    int tried = 0;
    test_path(path, sizeof path, folder, "row.onnx");
    for (int i = 0; i < kn_import_pointwise_count; i++) {
        const kn_import_row *row = &kn_import_pointwise[i];
        if (!row->op || !strcmp(row->op, "copy")) continue; /* exported as no node */
        assert_non_null(kn_operator_find(row->op));
        for (int says = 0; says < 2; says++) {
            sample s = {.row = row, .op = kn_operator_find(row->op), .says = says != 0};
            stays_the_same(&s, path);
        }
        tried++;
    }
    assert_in_range(tried, 55, 200);
    test_folder_remove(folder);
}

/* Selu with attributes that Koine's operator does not have becomes other operators. */
TEST(other_selu) {
    onnx_graph graph = {.bytes = {.count = 0}};
    onnx_input(&graph, "in", ONNX_FLOAT, "3");
    onnx_node(&graph, "Selu", "in", "out", "alpha=2.0f gamma=3.0f");
    onnx_output(&graph, "out");
    kn_model *model = onnx_right(&graph, NULL);
    const kn_node *node = model->outputs[0]->producer;
    assert_string_equal(node->op->name, "scale");
    assert_string_equal(node->inputs[0]->producer->op->name, "elu");
    kn_model_destroy(&model);
}

/* A square is a product, which is much faster; other powers are not. */
TEST(squares) {
    for (int two = 0; two < 2; two++) {
        onnx_graph graph = {.bytes = {.count = 0}};
        onnx_input(&graph, "in", ONNX_FLOAT, "3");
        onnx_node(&graph, "Constant", "", "power", two ? "value_float=2.0f" : "value_float=3.0f");
        onnx_node(&graph, "Pow", "in,power", "out", "");
        onnx_output(&graph, "out");
        kn_model *model = onnx_right(&graph, NULL);
        assert_string_equal(model->outputs[0]->producer->op->name, two ? "mul" : "pow");
        kn_model_destroy(&model);
    }
}

TEST_FILE(test_onnx_pointwise, NULL, NULL)
