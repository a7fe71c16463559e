/* Every case of every row of the table, on the host: shapes are inferred, references compute, and the
 * gradients built by the rules agree with central differences of the references, including their sign. */
#include "ops_tests.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_INPUTS = 8, PROBES = 24 };

/* A case as a graph. */
typedef struct trial {
    const kn_operator *row;
    const kn_case *sample;
    kn_graph *graph, *bound;
    int input_count, output_count;
    kn_value *inputs[MAX_INPUTS];
    double *numbers[MAX_INPUTS], *weights;
    host_input given[MAX_INPUTS];
    kn_value *outputs[KN_MAX_OUTPUTS]; /* bound, visible */
    char where[96];
} trial;

static void draw(trial *on, int input, kn_dtype dtype, int64_t elements) {
    const char *range = on->sample->ranges[input], *end;
    double low = dtype == KN_BOOL ? 0 : -2, high = dtype == KN_BOOL ? 1 : 2;
    bool special = range && !strcmp(range, "special");
    if (range && !special) {
        const char *dots = strstr(range, "..");
        char least[24] = "";
        assert_non_null(dots);
        snprintf(least, sizeof least, "%.*s", (int)(dots - range), range);
        assert_true(kn_parse_double(least, &end, &low) && kn_parse_double(dots + 2, &end, &high));
    }
    on->numbers[input] = calloc((size_t)elements + 1, sizeof(double));
    assert_non_null(on->numbers[input]);
    uint64_t key = kn_random_key((uint64_t)input, on->where);
    for (int64_t i = 0; i < elements; i++) {
        static const double odd[] = {NAN, INFINITY, -INFINITY, 0};
        double u = kn_random_uniform(key, (uint64_t)i);
        double number = kn_dtype_is_float(dtype) ? low + u * (high - low) : floor(low + u * (high - low + 1));
        on->numbers[input][i] = special && i % 5 == 1 ? odd[i / 5 % 4] : number;
    }
}

static kn_value *make_input(trial *on, int i) {
    const char *text = on->sample->inputs[i], *space = strchr(text, ' ');
    char word[16] = "", name[16];
    kn_dtype dtype = KN_FLOAT32;
    snprintf(name, sizeof name, "x%d", i);
    if (text[0] >= 'a' && text[0] <= 'z') {
        snprintf(word, sizeof word, "%.*s", space ? (int)(space - text) : 15, text);
        if (!kn_dtype_parse(word, &dtype)) fail_msg("%s: no type '%s'", on->where, word);
        text = space ? space + 1 : "";
    }
    kn_value *value = kn_input(on->graph, name, dtype, text);
    if (kn_value_failed(value)) fail_msg("%s: %s", on->where, kn_graph_error(on->graph));
    draw(on, i, dtype, host_elements(value));
    on->given[i] = (host_input){value->name, on->numbers[i]};
    return value;
}

static trial make(const kn_operator *row, const kn_case *sample) {
    trial on = {.row = row, .sample = sample, .graph = kn_graph_create(NULL)};
    snprintf(on.where, sizeof on.where, "%s case %d", row->name, (int)(sample - row->cases));
    assert_non_null(on.graph);
    for (; on.input_count < MAX_INPUTS && sample->inputs[on.input_count]; on.input_count++)
        if (strcmp(sample->inputs[on.input_count], "-") != 0) /* an optional input that is absent */
            on.inputs[on.input_count] = make_input(&on, on.input_count);
    kn_attribute_value attributes[KN_MAX_ATTRIBUTES];
    kn_error error = {0};
    if (kn_attributes_parse(on.graph, row, sample->attributes, attributes, &error))
        fail_msg("%s: %s", on.where, error.text);
    kn_value *first = kn_node_add(on.graph, row, "case", on.inputs, on.input_count, attributes);
    if (kn_value_failed(first)) fail_msg("%s: %s", on.where, kn_graph_error(on.graph));
    on.output_count = first->producer->output_count - row->hidden;
    kn_bind_request request = {.training = sample->training, .seed = 3};
    if (kn_graph_bind(on.graph, first->producer->outputs, (size_t)on.output_count, &request, &on.bound,
                      on.outputs, &error))
        fail_msg("%s: %s", on.where, error.text);
    int64_t elements = host_elements(on.outputs[0]);
    on.weights = calloc((size_t)elements + 1, sizeof(double));
    assert_non_null(on.weights);
    for (int64_t i = 0; i < elements; i++) /* exact in a float */
        on.weights[i] = 2.0 * (double)kn_random_uniform(99, (uint64_t)i) - 1;
    return on;
}

static void finish(trial *on) {
    for (int i = 0; i < MAX_INPUTS; i++)
        free(on->numbers[i]);
    free(on->weights);
    kn_graph_destroy(&on->bound);
    kn_graph_destroy(&on->graph);
}

/* Weighted by the first result: other results, such as running statistics, have no gradient. */
static double weighted(trial *on) {
    host_values values = host_compute(on->bound, on->given, on->input_count);
    double sum = 0;
    for (int64_t i = 0; i < host_elements(on->outputs[0]); i++)
        sum += values.numbers[on->outputs[0]->id][i] * on->weights[i];
    host_release(&values);
    return sum;
}

/* Whether `sign` times the gradient is right; with `sign` 1 a wrong gradient fails the test. */
static bool compare(trial *on, int input, const double *gradient, int64_t elements, double sign) {
    double largest = 1;
    for (int64_t i = 0; i < elements; i++)
        largest = fmax(largest, fabs(gradient[i]));
    int64_t stride = elements > PROBES ? elements / (elements > 1000 ? PROBES / 4 : PROBES) : 1;
    for (int64_t i = 0; i < elements; i += stride) {
        double *place = &on->numbers[input][i], middle = *place, step = 1e-6 * fmax(1, fabs(middle));
        *place = middle + step;
        double above = weighted(on);
        *place = middle - step;
        double below = weighted(on), slope = (above - below) / (2 * step);
        *place = middle;
        if (fabs(sign * gradient[i] - slope) <= 2e-6 * largest) continue;
        if (sign < 0) return false;
        fail_msg("%s, by input %d, element %d: the rule gives %.12g, central differences %.12g", on->where,
                 input, (int)i, gradient[i], slope);
    }
    return true;
}

/* By input of a row: whether it has a gradient, and whether a case would detect its wrong sign. */
typedef struct signs {
    bool flows[MAX_INPUTS], held[MAX_INPUTS];
} signs;

/* Builds the gradient graph in a second binding, since binding again would lose it. */
static void check_gradients(trial *on, signs *seen) {
    kn_value *by[MAX_INPUTS], *gradients[MAX_INPUTS];
    int inputs[MAX_INPUTS], count = 0;
    for (int i = 0; i < on->input_count; i++) {
        kn_value *input = on->inputs[i] ? kn_graph_find(on->bound, on->inputs[i]->name) : NULL;
        if (!input || !kn_dtype_is_float(input->shape.dtype)) continue;
        if (on->row->class == KN_CLASS_POINTWISE && !(i < 3 && on->row->by[i])) continue;
        inputs[count] = i;
        by[count++] = input;
    }
    kn_value *loss = host_loss(on->bound, on->outputs, &on->weights, 1);
    kn_error error = {0};
    if (!loss || !count) return;
    if (kn_graph_gradient(on->bound, loss, by, (size_t)count, gradients, &error))
        fail_msg("%s: %s", on->where, error.text);
    host_values values = host_compute(on->bound, on->given, on->input_count);
    for (int i = 0; i < count; i++) {
        int64_t elements = host_elements(by[i]);
        double *gradient = calloc((size_t)elements + 1, sizeof *gradient);
        assert_non_null(gradient);
        seen->flows[inputs[i]] = seen->flows[inputs[i]] || gradients[i];
        if (gradients[i]) { /* none: no gradient, so the slopes must be 0 */
            assert_true(kn_shape_same(&gradients[i]->shape, &by[i]->shape));
            assert_int_equal(gradients[i]->shape.dtype, by[i]->shape.dtype);
            memcpy(gradient, values.numbers[gradients[i]->id], (size_t)elements * sizeof *gradient);
        }
        compare(on, inputs[i], gradient, elements, 1);
        if (!seen->held[inputs[i]]) seen->held[inputs[i]] = !compare(on, inputs[i], gradient, elements, -1);
        free(gradient);
    }
    host_release(&values);
}

static bool has_gradient(const kn_operator *row) {
    return row->gradient || row->by[0] || row->by[1] || row->by[2] || kn_row_is_replaced(row);
}

TEST(cases_compute) {
    for (int i = 0; i < kn_operator_table_count; i++)
        for (int j = 0; j < kn_operator_table[i]->case_count; j++) {
            trial on = make(kn_operator_table[i], &kn_operator_table[i]->cases[j]);
            host_values values = host_compute(on.bound, on.given, on.input_count);
            host_release(&values);
            finish(&on);
        }
}

/* Every gradient of a row is covered by a case that would fail if its sign were wrong. */
TEST(gradients_agree) {
    int checked = 0;
    for (int i = 0; i < kn_operator_table_count; i++) {
        const kn_operator *row = kn_operator_table[i];
        signs seen = {.flows = {false}};
        bool any = false;
        for (int j = 0; j < row->case_count; j++) {
            if (row->cases[j].no_gradient || (row->backward && !row->gradient) || !has_gradient(row))
                continue;
            trial on = make(row, &row->cases[j]);
            check_gradients(&on, &seen);
            finish(&on);
            checked++;
            any = true;
        }
        if (has_gradient(row) && !row->backward && !any)
            fail_msg("no case checks a gradient of %s", row->name);
        for (int j = 0; j < MAX_INPUTS; j++) {
            bool promised = row->class == KN_CLASS_POINTWISE && j < 3 && row->by[j];
            if ((promised || seen.flows[j]) && !seen.held[j])
                fail_msg("no case of %s would notice the wrong sign of its gradient by input %d", row->name,
                         j);
        }
    }
    assert_true(checked > 100);
}

TEST(rows_are_complete) {
    for (int i = 0; i < kn_operator_table_count; i++) {
        const kn_operator *row = kn_operator_table[i];
        assert_ptr_equal(kn_operator_find(row->name), row); /* names are unique */
        if (!row->help || !*row->help) fail_msg("%s has no help", row->name);
        for (int j = 0; j < row->attribute_count; j++)
            if (!row->attributes[j].help || !*row->attributes[j].help)
                fail_msg("%s: attribute %s has no help", row->name, row->attributes[j].name);
        bool own_kernels = row->class == KN_CLASS_KERNEL && !kn_row_is_replaced(row), smallest = false;
        if (own_kernels && (!row->variant_count || !row->reference))
            fail_msg("%s lacks a variant or a reference", row->name);
        for (int j = 0; j < row->case_count; j++)
            smallest = smallest || row->cases[j].smallest;
        /* Only the planner makes layout nodes, from values with layouts; assign has no result. */
        if (!smallest && strcmp(row->name, "layout") != 0 && row->class != KN_CLASS_ASSIGN)
            fail_msg("%s has no smallest case", row->name);
    }
    assert_null(kn_operator_find("no such operator"));
    assert_null(kn_operator_find(NULL));
}

/* By hand, in case rule and reference have the same error. */
TEST(known_results) {
    static const struct {
        const char *row, *attributes, *shape;
        double x[6], expected[6];
        int count;
    } known[] = {
        {"sum", "axes=1", "2,3", {1, 2, 3, 4, 5, 6}, {6, 15}, 2},
        {"mean", "axes=0 keep=true", "2,3", {1, 2, 3, 4, 5, 6}, {2.5, 3.5, 4.5}, 3},
        {"reduce_max", "", "2,3", {1, -2, 3, 9, 5, 6}, {9}, 1},
        {"reduce_min", "axes=-1", "2,3", {1, -2, 3, 9, 5, 6}, {-2, 5}, 2},
        {"transpose", "", "2,3", {1, 2, 3, 4, 5, 6}, {1, 4, 2, 5, 3, 6}, 6},
        {"slice", "axis=1 begin=-2", "2,3", {1, 2, 3, 4, 5, 6}, {2, 3, 5, 6}, 4},
        {"slice", "axis=1 step=2", "2,3", {1, 2, 3, 4, 5, 6}, {1, 3, 4, 6}, 4},
        {"slice_gradient", "begin=1 step=2 size=5", "2", {7, 8}, {0, 7, 0, 8, 0}, 5},
        {"pad", "amounts=0,1,1,0 value=9", "1,2", {1, 2}, {9, 1, 2, 9, 9, 9}, 6},
        {"cast", "dtype=int32", "3", {2.7, -2.7, 0.5}, {2, -2, 0}, 3},
        {"cast", "dtype=bool", "3", {0.5, 0, -1}, {1, 0, 1}, 3},
        {"broadcast", "shape=3,2", "1,2", {1, 2}, {1, 2, 1, 2, 1, 2}, 6},
    };
    for (size_t i = 0; i < KN_COUNT_OF(known); i++) {
        kn_graph *graph = kn_graph_create(NULL), *bound;
        kn_value *x = kn_input(graph, "x", KN_FLOAT32, known[i].shape), *result;
        kn_error error = {0};
        const kn_operator *row = kn_operator_find(known[i].row);
        kn_attribute_value attributes[KN_MAX_ATTRIBUTES];
        assert_non_null(row);
        assert_int_equal(kn_attributes_parse(graph, row, known[i].attributes, attributes, &error), KN_OK);
        kn_value *y = kn_node_add(graph, row, NULL, &x, 1, attributes); /* kn_apply refuses backward rows */
        kn_bind_request request = {0};
        if (kn_graph_bind(graph, &y, 1, &request, &bound, &result, &error))
            fail_msg("%s: %s", known[i].row, error.text);
        assert_int_equal(host_elements(result), known[i].count);
        host_input input = {"x", known[i].x};
        host_values values = host_compute(bound, &input, 1);
        for (int j = 0; j < known[i].count; j++)
            if (values.numbers[result->id][j] != known[i].expected[j])
                fail_msg("%s %s: element %d is %g; expected %g", known[i].row, known[i].attributes, j,
                         values.numbers[result->id][j], known[i].expected[j]);
        host_release(&values);
        kn_graph_destroy(&bound);
        kn_graph_destroy(&graph);
    }
}

/* Three equal maxima share the gradient. */
TEST(ties_share) {
    const double numbers[4] = {5, 1, 5, 5};
    kn_graph *graph = kn_graph_create(NULL), *bound;
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "4"), *most = kn_reduce_max(x, NULL, false), *loss,
             *gradient;
    kn_error error = {0};
    kn_bind_request request = {0};
    assert_int_equal(kn_graph_bind(graph, &most, 1, &request, &bound, &loss, &error), KN_OK);
    kn_value *by = kn_graph_find(bound, "x");
    assert_int_equal(kn_graph_gradient(bound, loss, &by, 1, &gradient, &error), KN_OK);
    host_input input = {"x", numbers};
    host_values values = host_compute(bound, &input, 1);
    for (int i = 0; i < 4; i++)
        assert_true(values.numbers[gradient->id][i] == (i == 1 ? 0 : 1.0 / 3));
    host_release(&values);
    kn_graph_destroy(&bound);
    kn_graph_destroy(&graph);
}

TEST_FILE(test_rows, NULL, NULL)
