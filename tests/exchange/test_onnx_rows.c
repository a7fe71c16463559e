/* Each row that can be exported, on its small cases: the graph is written as ONNX, read again and computed on
 * the host, and must give the result of the row's reference. */
#include "exchange_tests.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../ops/ops_tests.h"
#include "../models/fake_states.h"
#include "exchange/onnx/export.h"

enum { MAX_INPUTS = 8, MAX_ELEMENTS = 4096 };

/* A case while it is tested. */
typedef struct trip {
    const kn_operator *row;
    const kn_case *sample;
    kn_model *model;
    kn_value *inputs[MAX_INPUTS], *given[MAX_INPUTS]; /* by position, and those that are present */
    int count, given_count;
    kn_value *outputs[KN_MAX_OUTPUTS];
    int output_count;
    double *numbers[MAX_INPUTS];
    host_input feeds[MAX_INPUTS];
    const char *path;
} trip;

static bool is_special(const kn_case *sample) {
    for (int i = 0; i < MAX_INPUTS; i++)
        if (sample->ranges[i] && !strcmp(sample->ranges[i], "special")) return true;
    return false;
}

/* "int32 2,3" is a type and a shape, "2,3" a float32 shape. */
static kn_value *input_of(kn_graph *graph, int place, const char *text) {
    kn_dtype dtype = KN_FLOAT32;
    char name[16], word[16];
    size_t length = strcspn(text, " ");
    snprintf(name, sizeof name, "in%d", place);
    snprintf(word, sizeof word, "%.*s", (int)(length < 15 ? length : 15), text);
    if (text[0] >= 'a' && kn_dtype_parse(word, &dtype)) text += text[length] ? length + 1 : length;
    return kn_input(graph, name, dtype, text);
}

static void draw(trip *t, int place) {
    const kn_value *value = t->inputs[place];
    const char *words = t->sample->attributes;
    const char *range = t->sample->ranges[place], *dots = range ? strstr(range, "..") : NULL;
    double low = value->shape.dtype == KN_BOOL ? 0 : -2, high = value->shape.dtype == KN_BOOL ? 1 : 2;
    bool whole = !kn_dtype_is_float(value->shape.dtype);
    int64_t elements = kn_shape_elements(&value->shape);
    if (dots) {
        low = strtod(range, NULL);
        high = strtod(dots + 2, NULL);
    }
    if (place == 1 && !strncmp(t->row->name, "scatter", 7) && !(words && strstr(words, "axis"))) {
        /* For indices out of range ONNX specifies no result. */
        const double size = (double)t->inputs[0]->shape.dims[0];
        low = low < -size ? -size : low;
        high = high > size - 1 ? size - 1 : high;
    }
    t->numbers[place] = calloc((size_t)elements + 1, sizeof(double));
    assert_non_null(t->numbers[place]);
    uint64_t key = kn_random_key(7, value->name);
    for (int64_t i = 0; i < elements; i++) {
        float uniform = kn_random_uniform(key, (uint64_t)i);
        double number =
            whole ? floor(low + uniform * (high - low + 1)) : (float)(low + uniform * (high - low));
        uint64_t element = 0; /* rounded to the type */
        kn_element_set(value->shape.dtype, &element, 0, number);
        t->numbers[place][i] = kn_element_get(value->shape.dtype, &element, 0);
    }
}

/* Creates the model of one node; false if the case is too large. */
static bool make(trip *t) {
    kn_attribute_value attributes[KN_MAX_ATTRIBUTES];
    kn_error error = {0};
    int64_t elements = 0;
    t->model = parse("koine 1\ninput x 3\nrelu\n");
    kn_graph *graph = t->model->graph;
    for (; t->count < MAX_INPUTS && t->sample->inputs[t->count]; t->count++) {
        if (!strcmp(t->sample->inputs[t->count], "-")) continue;
        kn_value *value = input_of(graph, t->count, t->sample->inputs[t->count]);
        assert_int_equal(kn_value_failed(value), false);
        t->inputs[t->count] = t->given[t->given_count++] = value;
        elements += kn_shape_elements(&value->shape);
    }
    if (elements > MAX_ELEMENTS) return false;
    for (int i = 0; i < t->count; i++) {
        if (!t->inputs[i]) continue;
        draw(t, i);
        t->feeds[i] = (host_input){t->inputs[i]->name, t->numbers[i]};
    }
    memset(attributes, 0, sizeof attributes);
    assert_int_equal(kn_attributes_parse(graph, t->row, t->sample->attributes, attributes, &error), KN_OK);
    kn_value *first = kn_node_add(graph, t->row, "case", t->inputs, t->count, attributes);
    if (kn_value_failed(first)) fail_msg("%s: %s", t->row->name, graph->error.text);
    t->output_count = first->producer->output_count - t->row->hidden;
    for (int i = 0; i < t->output_count; i++)
        t->outputs[i] = first->producer->outputs[i];
    t->model->inputs = t->given;
    t->model->input_count = t->given_count;
    t->model->outputs = t->outputs;
    t->model->output_count = t->output_count;
    return true;
}

static void finish(trip *t) {
    for (int i = 0; i < MAX_INPUTS; i++)
        free(t->numbers[i]);
    kn_model_destroy(&t->model);
}

static kn_graph *bound_of(kn_graph *graph, kn_value *const *outputs, int count, kn_value **bound_outputs) {
    const kn_bind_request request = {.seed = 1};
    kn_error error = {0};
    kn_graph *bound = NULL;
    if (kn_graph_bind(graph, outputs, (size_t)count, &request, &bound, bound_outputs, &error) != KN_OK)
        fail_msg("%s", error.text);
    return bound;
}

static bool same_numbers(const trip *t, const double *wanted, const double *found, int64_t count) {
    /* For indices out of range ONNX specifies no result. */
    bool outside = !strcmp(t->row->name, "embedding") || !strncmp(t->row->name, "gather", 6);
    for (int64_t i = 0; i < count; i++) {
        double allowed = 1e-5 * (1 + fabs(wanted[i]));
        if (isnan(wanted[i]) && outside) continue;
        bool alike = wanted[i] == found[i] || (isnan(wanted[i]) && isnan(found[i])) ||
                     fabs(wanted[i] - found[i]) <= allowed;
        if (alike) continue;
        print_error("%s %s: element %lld is %.9g; expected %.9g\n", t->row->name,
                    t->sample->attributes ? t->sample->attributes : "", (long long)i, found[i], wanted[i]);
        return false;
    }
    return true;
}

/* Reads the file and compares; *refused: the importer supports less than the exporter wrote. */
static bool read_again(trip *t, int *refused) {
    kn_model *read = kn_model_open(t->path, NULL);
    bool same = kn_model_status(read) == KN_OK, unknown = kn_model_status(read) == KN_ERROR_UNSUPPORTED;
    if (!same) {
        if (!unknown) print_error("%s: %s\n", t->row->name, kn_model_error(read));
        *refused += unknown;
        kn_model_destroy(&read);
        return unknown;
    }
    assert_int_equal(kn_model_output_count(read), t->output_count);
    host_input feeds[MAX_INPUTS] = {{NULL, NULL}};
    for (size_t i = 0; i < kn_model_input_count(read); i++)
        for (int k = 0; k < t->count; k++)
            if (t->inputs[k] && !strcmp(t->inputs[k]->name, kn_model_input_name_at(read, i)))
                feeds[i] = (host_input){kn_value_name(kn_model_input_at(read, i)), t->numbers[k]};
    kn_value *wanted_outputs[KN_MAX_OUTPUTS], *found_outputs[KN_MAX_OUTPUTS];
    kn_graph *wanted = bound_of(t->model->graph, t->outputs, t->output_count, wanted_outputs);
    kn_graph *found = bound_of(read->graph, read->outputs, t->output_count, found_outputs);
    host_values left = host_compute(wanted, t->feeds, t->count);
    host_values right = host_compute(found, feeds, kn_model_input_count(read));
    for (int i = 0; i < t->output_count; i++) {
        assert_true(kn_shape_same(&wanted_outputs[i]->shape, &found_outputs[i]->shape));
        same = same_numbers(t, left.numbers[wanted_outputs[i]->id], right.numbers[found_outputs[i]->id],
                            host_elements(wanted_outputs[i])) &&
               same;
    }
    host_release(&left);
    host_release(&right);
    kn_graph_destroy(&wanted);
    kn_graph_destroy(&found);
    kn_model_destroy(&read);
    return same;
}

typedef struct tally {
    int tried, refused, wrong;
} tally;

static tally cases_of(const kn_operator *row, const char *path) {
    tally done = {0, 0, 0};
    kn_states *states = fake_states_make();
    for (int i = 0; i < row->case_count; i++) {
        trip t = {.row = row, .sample = &row->cases[i], .path = path};
        if (is_special(t.sample)) continue;
        if (make(&t)) {
            done.tried++;
            if (kn_model_save_onnx(t.model, path, states, NULL) == KN_OK)
                done.wrong += !read_again(&t, &done.refused);
            else if (kn_model_status(t.model) == KN_OK)
                done.refused++;
        }
        finish(&t);
    }
    fake_states_release(states);
    return done;
}

/* Cases of a row that ONNX cannot represent. */
static const struct {
    const char *row;
    int refused;
} known[] = {
    {"conv2d_data", 2}, /* more padding at one end of one axis */
    {"gather", 2},      /* zeros outside, and 8-bit floats */
    {"attention", 3},   /* a window, first keys, and slots */
    {"rotary", 2},      /* divisors */
    {"cast", 6},        /* floats of 8 bits that are powers of two, and of 4 bits */
    {"broadcast", 1},   /* floats of 8 and 4 bits, moved: from here on */
    {"transpose", 1},   {"concat", 1}, {"slice", 1}, {"flip", 1},
};

TEST(rows_there_and_back) {
    char path[4096];
    char *folder = test_folder_make();
    int rows = 0, wrong = 0;
    test_path(path, sizeof path, folder, "row.onnx");
    for (int i = 0; i < kn_operator_table_count; i++) {
        const kn_operator *row = kn_operator_table[i];
        int refused = 0;
        if (!kn_export_find(row) || !strcmp(row->name, "copy")) continue;
        for (size_t k = 0; k < KN_COUNT_OF(known); k++)
            if (!strcmp(known[k].row, row->name)) refused = known[k].refused;
        tally done = cases_of(row, path);
        rows++;
        wrong += done.wrong;
        if (done.refused != refused || done.tried <= done.refused) {
            print_error("%s: %d of %d cases are refused; expected %d\n", row->name, done.refused, done.tried,
                        refused);
            wrong++;
        }
    }
    assert_in_range(rows, 105, 200);
    assert_int_equal(wrong, 0);
    test_folder_remove(folder);
}

TEST_FILE(test_onnx_rows, NULL, NULL)
