/* Cases of operators: graphs, inputs, reference results and finite differences. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "verify/verify_private.h"

/* Parses "int32 2,3", a type and a shape, or "2,3", a float32 shape. */
static kn_status read_input(const char *text, kn_dtype *dtype, const char **shape, kn_error *error) {
    *dtype = KN_FLOAT32;
    *shape = text;
    const char *space = strchr(text, ' ');
    size_t length = space ? (size_t)(space - text) : strlen(text);
    char word[16];
    if (length == 0 || length >= sizeof word || (text[0] >= '0' && text[0] <= '9')) return KN_OK;
    memcpy(word, text, length);
    word[length] = 0;
    if (!kn_dtype_parse(word, dtype))
        return kn_fail(error, KN_ERROR_INTERNAL, "input '%s' of a case has an unknown element type", text);
    *shape = space ? space + 1 : "";
    return KN_OK;
}

bool kn_trial_input_type(const char *input, kn_dtype *dtype) {
    const char *shape;
    return read_input(input, dtype, &shape, NULL) == KN_OK;
}

static uint64_t stream_key(const kn_trial *trial, const char *name) {
    char full[160];
    int number = -1; /* not in the table */
    for (int i = 0; i < trial->row->case_count; i++)
        if (trial->test_case == &trial->row->cases[i]) number = i;
    snprintf(full, sizeof full, "%s#%d/%s", trial->row->name, number, name);
    return kn_random_key(trial->seed, full);
}

double kn_trial_number(const kn_trial *trial, const char *name, int64_t index) {
    return 2.0 * (double)kn_random_uniform(stream_key(trial, name), (uint64_t)index) - 1.0;
}

static double draw(uint64_t key, int64_t index, bool special, bool integer, double low, double high) {
    float uniform = kn_random_uniform(key, (uint64_t)index);
    if (special && index % 5 == 1) {
        static const double odd[] = {NAN, INFINITY, -INFINITY, 0.0};
        return odd[index / 5 % 4];
    }
    if (integer) return floor(low + uniform * (high - low + 1));
    return (float)(low + uniform * (high - low));
}

static double rounded(kn_dtype dtype, double number) {
    uint16_t bits;
    kn_element_set(dtype, &bits, 0, number);
    return kn_element_get(dtype, &bits, 0);
}

/* Parses "-2..2". */
static bool read_range(const char *range, double *low, double *high) {
    char first[32];
    const char *dots = strstr(range, ".."), *end;
    if (!dots || (size_t)(dots - range) >= sizeof first) return false;
    memcpy(first, range, (size_t)(dots - range));
    first[dots - range] = 0;
    return kn_parse_double(first, &end, low) && !*end && kn_parse_double(dots + 2, &end, high) && !*end;
}

static kn_status draw_input(kn_trial *trial, int input, kn_error *error) {
    const kn_tensor_info *info = &trial->infos[input];
    const char *range = trial->test_case->ranges[input];
    bool special = range && !strcmp(range, "special");
    bool integer = info->dtype != KN_FLOAT32 && info->dtype != KN_FLOAT64;
    double low = info->dtype == KN_BOOL ? 0 : -2, high = info->dtype == KN_BOOL ? 1 : 2;
    if (range && !special && !read_range(range, &low, &high))
        return kn_fail(error, KN_ERROR_INTERNAL, "cannot parse range '%s' of a case; expected \"-2..2\"",
                       range);
    uint64_t elements = 0;
    char name[16];
    snprintf(name, sizeof name, "x%d", input);
    uint64_t key = stream_key(trial, name);
    if (!kn_tensor_elements(info, &elements)) return kn_fail(error, KN_ERROR_INTERNAL, "a case is too large");
    trial->byte_counts[input] = (size_t)elements * kn_dtype_bytes(info->dtype);
    trial->values[input] = kn_allocate(trial->host, (size_t)elements + 1, sizeof(double));
    trial->bytes[input] = kn_allocate(trial->host, (size_t)elements + 1, kn_dtype_bytes(info->dtype));
    if (!trial->values[input] || !trial->bytes[input])
        return kn_fail_memory_for(error, "an array of a case", (uint64_t)elements, 8);
    for (int64_t i = 0; i < (int64_t)elements; i++) {
        trial->values[input][i] = draw(key, i, special, integer, low, high);
        if (kn_is_small_float(info->dtype))
            trial->values[input][i] = rounded(info->dtype, trial->values[input][i]);
        if (kn_is_half(trial->types.stored) && info->dtype == KN_FLOAT32)
            trial->values[input][i] = rounded(trial->types.stored, trial->values[input][i]);
        if (trial->types.tf32 && info->dtype == KN_FLOAT32)
            trial->values[input][i] = kn_round_tf32((float)trial->values[input][i]);
        kn_element_set(info->dtype, trial->bytes[input], i, trial->values[input][i]);
        /* Unsigned types have no negative numbers. */
        if (integer) trial->values[input][i] = kn_element_get(info->dtype, trial->bytes[input], i);
    }
    return KN_OK;
}

static kn_status fail_from_graph(const kn_trial *trial, kn_error *error) {
    return kn_error_copy(error, &trial->graph->error);
}

/* Whether the case, or the node specification, has input i; *absent: it is an omitted optional input. */
static bool has_input(const kn_trial *trial, int i, bool *absent) {
    const char *text = i < KN_TRIAL_INPUTS && !trial->spec ? trial->test_case->inputs[i] : NULL;
    *absent =
        trial->spec ? i < trial->spec->input_count && !trial->spec->given[i] : text && !strcmp(text, "-");
    return trial->spec ? i < trial->spec->input_count : text != NULL;
}

static kn_status add_input(kn_trial *trial, int i, kn_value **input, kn_error *error) {
    char name[16];
    snprintf(name, sizeof name, "x%d", i);
    if (trial->spec) {
        *input = kn_input_add(trial->graph, name, &trial->spec->shapes[i]);
        return KN_OK;
    }
    kn_dtype dtype;
    const char *shape;
    kn_status status = read_input(trial->test_case->inputs[i], &dtype, &shape, error);
    if (status == KN_OK) *input = kn_input(trial->graph, name, dtype, shape);
    return status;
}

static kn_status build(kn_trial *trial, kn_error *error) {
    kn_value *inputs[KN_TRIAL_INPUTS] = {NULL};
    bool absent;
    for (int i = 0; has_input(trial, i, &absent); i++) {
        trial->input_count = i + 1;
        if (absent) continue;
        kn_status status = add_input(trial, i, &inputs[i], error);
        if (status != KN_OK) return status;
        if (kn_value_failed(inputs[i])) return fail_from_graph(trial, error);
        trial->inputs[i] = inputs[i];
        trial->infos[i] = (kn_tensor_info){.dtype = inputs[i]->shape.dtype, .rank = inputs[i]->shape.rank};
        for (int d = 0; d < inputs[i]->shape.rank; d++)
            trial->infos[i].shape[d] = inputs[i]->shape.dims[d];
        status = draw_input(trial, i, error);
        if (status != KN_OK) return status;
    }
    kn_attribute_value attributes[KN_MAX_ATTRIBUTES];
    memset(attributes, 0, sizeof attributes);
    kn_status status = KN_OK;
    if (trial->spec)
        memcpy(attributes, trial->spec->attributes, sizeof attributes);
    else
        status =
            kn_attributes_parse(trial->graph, trial->row, trial->test_case->attributes, attributes, error);
    if (status != KN_OK) return status;
    kn_value *first = kn_node_add(trial->graph, trial->row, "case", inputs, trial->input_count, attributes);
    if (kn_value_failed(first)) return fail_from_graph(trial, error);
    int hidden = trial->spec ? 0 : trial->row->hidden;
    trial->output_count = first->producer->output_count - hidden;
    for (int k = 0; k < trial->output_count; k++) {
        char name[24];
        snprintf(name, sizeof name, "result%d", k);
        trial->outputs[k] = kn_name(first->producer->outputs[k], name);
        if (kn_value_failed(trial->outputs[k])) return fail_from_graph(trial, error);
    }
    kn_bind_request request = {.training = trial->test_case->training, .seed = trial->seed};
    return kn_graph_bind(trial->graph, trial->outputs, (size_t)trial->output_count, &request, &trial->bound,
                         trial->bound_outputs, error);
}

kn_status kn_trial_make(kn_trial *trial, const kn_host *host, const kn_operator *row,
                        const kn_case *test_case, const kn_node_spec *spec, kn_trial_types types,
                        uint64_t seed, kn_error *error) {
    *trial = (kn_trial){
        .host = host, .row = row, .test_case = test_case, .spec = spec, .types = types, .seed = seed};
    kn_graph_params params = {.size = sizeof params, .allocator = host->allocator, .log = host->log};
    trial->graph = kn_graph_create(&params);
    if (!trial->graph) return kn_fail_memory(error, sizeof *trial->graph);
    return build(trial, error);
}

void kn_trial_finish(kn_trial *trial) {
    for (int i = 0; i < KN_TRIAL_INPUTS; i++) {
        kn_release(trial->host, trial->values[i]);
        kn_release(trial->host, trial->bytes[i]);
    }
    kn_graph_destroy(&trial->bound);
    kn_graph_destroy(&trial->graph);
}

int64_t kn_trial_result_elements(const kn_trial *trial, int output) {
    return kn_shape_elements(&trial->bound_outputs[output]->shape);
}

/* The position in the case of a bound input. */
static int input_number(const kn_trial *trial, const kn_value *value) {
    for (int i = 0; i < trial->input_count; i++)
        if (trial->inputs[i] && !strcmp(trial->inputs[i]->name, value->name)) return i;
    return -1;
}

static kn_status compute_node(const kn_trial *trial, const kn_node *node, kn_reference_array *arrays,
                              kn_error *error) {
    kn_reference_array inputs[KN_MAX_INPUTS] = {{.data = NULL}}, outputs[KN_MAX_OUTPUTS];
    for (int i = 0; i < node->input_count; i++)
        if (node->inputs[i]) inputs[i] = arrays[node->inputs[i]->id];
    for (int i = 0; i < node->output_count; i++) {
        kn_reference_array *array = &arrays[node->outputs[i]->id];
        array->shape = node->outputs[i]->shape;
        array->elements = kn_shape_elements(&array->shape);
        array->data = kn_allocate(trial->host, (size_t)array->elements + 1, sizeof(double));
        if (!array->data)
            return kn_fail_memory_for(error, "an array of a case", (uint64_t)array->elements, 8);
        outputs[i] = *array;
    }
    kn_reference_call call = {.node = node,
                              .input_count = node->input_count,
                              .inputs = inputs,
                              .output_count = node->output_count,
                              .outputs = outputs,
                              .host = trial->host,
                              .error = error};
    return kn_node_reference(&call);
}

/* Fills the reference array of an input, constant or state. */
static kn_status take_array(const kn_trial *trial, const kn_value *value, kn_reference_array *array,
                            kn_error *error) {
    array->shape = value->shape;
    array->elements = kn_shape_elements(&value->shape);
    array->data = kn_allocate(trial->host, (size_t)array->elements + 1, sizeof(double));
    if (!array->data) return kn_fail_memory_for(error, "an array of a case", (uint64_t)array->elements, 8);
    int input = value->kind == KN_VALUE_INPUT ? input_number(trial, value) : -1;
    for (int64_t i = 0; i < array->elements; i++) {
        if (input >= 0)
            array->data[i] = trial->values[input][i];
        else if (value->kind == KN_VALUE_CONSTANT)
            array->data[i] = kn_element_get(value->shape.dtype, value->data, i);
        else
            array->data[i] = value->initializer.value;
    }
    return KN_OK;
}

kn_status kn_trial_reference(kn_trial *trial, double *results[], kn_error *error) {
    const kn_graph *bound = trial->bound;
    kn_reference_array *arrays = kn_allocate(trial->host, bound->value_count + 1, sizeof *arrays);
    if (!arrays) return kn_fail_memory(error, bound->value_count * sizeof *arrays);
    kn_status status = KN_OK;
    for (size_t i = 0; i < bound->value_count && status == KN_OK; i++)
        if (bound->values[i]->kind != KN_VALUE_RESULT)
            status = take_array(trial, bound->values[i], &arrays[i], error);
    for (size_t i = 0; i < bound->node_count && status == KN_OK; i++)
        if (bound->nodes[i]->op->class != KN_CLASS_ASSIGN)
            status = compute_node(trial, bound->nodes[i], arrays, error);
    for (int k = 0; k < trial->output_count; k++)
        results[k] = NULL;
    for (int k = 0; k < trial->output_count && status == KN_OK; k++) {
        const kn_reference_array *array = &arrays[trial->bound_outputs[k]->id];
        results[k] = kn_allocate(trial->host, (size_t)array->elements + 1, sizeof(double));
        if (results[k])
            memcpy(results[k], array->data, (size_t)array->elements * sizeof(double));
        else
            status = kn_fail_memory_for(error, "an array of a case", (uint64_t)array->elements, 8);
    }
    if (status != KN_OK) kn_trial_release(trial, results);
    for (size_t i = 0; i < bound->value_count; i++)
        kn_release(trial->host, arrays[i].data);
    kn_release(trial->host, arrays);
    return status;
}

void kn_trial_release(const kn_trial *trial, double *results[]) {
    for (int k = 0; k < trial->output_count; k++) {
        kn_release(trial->host, results[k]);
        results[k] = NULL;
    }
}

static bool is_floating_point(kn_dtype dtype) {
    return dtype == KN_FLOAT32 || dtype == KN_FLOAT64;
}

bool kn_trial_differentiates(const kn_trial *trial, int input) {
    if (trial->test_case->no_gradient || trial->row->backward || !trial->inputs[input]) return false;
    if (!is_floating_point(trial->infos[input].dtype)) return false;
    if (trial->row->class == KN_CLASS_POINTWISE) return input < 3 && trial->row->by[input];
    return trial->row->gradient || trial->row->class == KN_CLASS_VIEW || kn_row_is_replaced(trial->row);
}

static kn_status weighted_sum(kn_trial *trial, double *sum, kn_error *error) {
    double *results[KN_MAX_OUTPUTS];
    kn_status status = kn_trial_reference(trial, results, error);
    if (status != KN_OK) return status;
    *sum = 0;
    for (int k = 0; k < trial->output_count; k++) {
        if (!is_floating_point(trial->bound_outputs[k]->shape.dtype)) continue;
        char name[24];
        snprintf(name, sizeof name, "weight%d", k);
        for (int64_t i = 0; i < kn_trial_result_elements(trial, k); i++)
            *sum += results[k][i] * kn_trial_number(trial, name, i);
    }
    kn_trial_release(trial, results);
    return KN_OK;
}

kn_status kn_trial_slope(kn_trial *trial, int input, int64_t element, double *slope, kn_error *error) {
    double *place = &trial->values[input][element], middle = *place, sums[3] = {0, 0, 0};
    double step = 1e-5 * fmax(1, fabs(middle));
    const bool narrow = kn_is_half(trial->types.stored);
    for (int side = 0; side < (narrow ? 3 : 2); side++) {
        *place = side == 0 ? middle - step : side == 1 ? middle + step : middle;
        kn_status status = weighted_sum(trial, &sums[side], error);
        *place = middle;
        if (status != KN_OK) return status;
    }
    *slope = (sums[1] - sums[0]) / (2 * step);
    const double left = (sums[2] - sums[0]) / step, right = (sums[1] - sums[2]) / step;
    if (narrow && !(fabs(right - left) <= 1e-2 * (1e-2 + fabs(*slope)))) *slope = NAN;
    return KN_OK;
}
