/* The public functions of koine/graph.h. */
#include <koine/graph.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "graph/graph_private.h"

/* ---- the graph ------------------------------------------------------------------------------------- */

KN_DEFINE_INIT(kn_graph_params, KN_GRAPH_DEFAULTS)

kn_graph *kn_graph_create(const kn_graph_params *params) {
    kn_graph_params given = KN_GRAPH_DEFAULTS;
    kn_error error = {0};
    KN_PARAMS_TAKE(kn_graph_params, &given, params, &error);
    kn_host host = kn_host_with(&given.allocator);
    host.log = given.log;
    kn_graph *graph = kn_allocate(&host, 1, sizeof *graph);
    if (!graph) return NULL;
    graph->host = host;
    graph->made = kn_clock();
    kn_arena_init(&graph->arena, &graph->host);
    kn_map_init(&graph->names, &graph->host);
    kn_map_init(&graph->counters, &graph->host);
    kn_map_init(&graph->held, &graph->host);
    graph->failed = (kn_value){.graph = graph, .id = -1, .kind = KN_VALUE_RESULT, .name = "", .failed = true};
    graph->error = error;
    if (!kn_dim_table_init(graph)) kn_graph_destroy(&graph);
    return graph;
}

void kn_graph_destroy(kn_graph **graph) {
    if (!graph || !*graph) return;
    kn_host host = (*graph)->host;
    kn_dim_table_finish(*graph);
    kn_map_finish(&(*graph)->names);
    kn_map_finish(&(*graph)->counters);
    kn_custom_release(*graph);
    for (size_t i = 0; i < (*graph)->file_count; i++)
        kn_shared_file_release(&(*graph)->files[i]);
    kn_release(&host, (*graph)->files);
    kn_release(&host, (*graph)->values);
    kn_release(&host, (*graph)->nodes);
    kn_release(&host, (*graph)->outputs);
    kn_arena_finish(&(*graph)->arena);
    kn_release(&host, *graph);
    *graph = NULL;
}

kn_status kn_graph_status(const kn_graph *graph) {
    return graph ? graph->error.status : KN_ERROR_ARGUMENT;
}

const char *kn_graph_error(const kn_graph *graph) {
    return graph ? graph->error.text : "the graph is NULL";
}

/* ---- values ------------------------------------------------------------------------------------------- */

/* Parses the element type and shape of value `name`; false on failure. */
static bool read_shape(kn_graph *graph, const char *what, const char *name, kn_dtype dtype, const char *text,
                       kn_shape *shape) {
    kn_error error = {0};
    *shape = (kn_shape){.dtype = dtype};
    if (kn_dtype_bytes(dtype) == 0)
        kn_fail(&error, KN_ERROR_DTYPE, "%s '%s': unknown element type %d", what, name, (int)dtype);
    else if (kn_shape_parse(graph, text, shape, &error) != KN_OK)
        kn_fail_in(&error, "%s '%s'", what, name);
    if (error.status == KN_OK) return true;
    kn_graph_fail_with(graph, &error);
    return false;
}

kn_value *kn_input(kn_graph *graph, const char *name, kn_dtype dtype, const char *shape) {
    kn_shape read;
    if (!graph) return NULL;
    if (graph->error.status != KN_OK) return &graph->failed;
    const char *whole = kn_name_here(graph, name);
    if (!*whole || !read_shape(graph, "input", whole, dtype, shape, &read)) return &graph->failed;
    return kn_input_add(graph, whole, &read);
}

/* `kind`: "parameter" or "statistic", for messages. */
static kn_value *add_state(kn_graph *graph, const char *kind, const char *name, kn_dtype dtype,
                           const char *shape, kn_state_role role, const kn_initializer *initializer) {
    kn_shape read;
    if (!graph) return NULL;
    if (graph->error.status != KN_OK) return &graph->failed;
    const char *whole = kn_name_here(graph, name);
    if (!*whole || !read_shape(graph, kind, whole, dtype, shape, &read)) return &graph->failed;
    if (role == KN_STATE_PARAMETER && !kn_dtype_is_float(dtype))
        return kn_graph_fail(graph, KN_ERROR_DTYPE, "parameter '%s' is %s; expected a floating-point type",
                             whole, kn_dtype_name(dtype));
    if (kn_shape_elements(&read) < 0)
        return kn_graph_fail(
            graph, KN_ERROR_SHAPE,
            "%s '%s' %s: dimensions must be numbers, not symbols, and the size must fit in 64 bits", kind,
            whole, kn_shape_words(graph, &read));
    return kn_state_add(graph, whole, &read, role, initializer);
}

kn_value *kn_parameter(kn_graph *graph, const char *name, kn_dtype dtype, const char *shape,
                       const kn_initializer *initializer) {
    return add_state(graph, "parameter", name, dtype, shape, KN_STATE_PARAMETER, initializer);
}

kn_value *kn_statistic(kn_graph *graph, const char *name, kn_dtype dtype, const char *shape,
                       const kn_initializer *initializer) {
    return add_state(graph, "statistic", name, dtype, shape, KN_STATE_STATISTIC, initializer);
}

kn_value *kn_statistic_set_next(kn_value *statistic, kn_value *next) {
    if (kn_value_failed(statistic)) return statistic;
    kn_graph *graph = statistic->graph;
    if (statistic->kind != KN_VALUE_STATE || statistic->role != KN_STATE_STATISTIC)
        return kn_graph_fail(graph, KN_ERROR_ARGUMENT,
                             "'%s' is not a statistic; expected a value from kn_statistic", statistic->name);
    if (!next)
        return kn_graph_fail(graph, KN_ERROR_ARGUMENT, "the next value of statistic '%s' is NULL",
                             statistic->name);
    kn_assign(graph, statistic, next);
    return graph->error.status == KN_OK ? statistic : &graph->failed;
}

kn_value *kn_constant(kn_graph *graph, kn_dtype dtype, const char *shape, const void *data, size_t bytes) {
    kn_shape read;
    if (!graph) return NULL;
    if (graph->error.status != KN_OK || !read_shape(graph, "constant", "", dtype, shape, &read))
        return &graph->failed;
    return kn_constant_add(graph, &read, data, bytes);
}

kn_value *kn_scalar(kn_graph *graph, double number) {
    float value = (float)number;
    return kn_constant_add(graph, &(kn_shape){.dtype = KN_FLOAT32}, &value, sizeof value);
}

void kn_freeze(kn_value *parameter) {
    if (kn_value_failed(parameter)) return;
    if (parameter->kind != KN_VALUE_STATE)
        kn_graph_fail(parameter->graph, KN_ERROR_ARGUMENT,
                      "'%s' is not a parameter; only parameters can be frozen", parameter->name);
    else
        parameter->frozen = true;
}

void kn_store_as(kn_value *parameter, kn_dtype dtype) {
    if (kn_value_failed(parameter)) return;
    bool is_parameter = parameter->kind == KN_VALUE_STATE && parameter->role == KN_STATE_PARAMETER &&
                        parameter->shape.dtype == KN_FLOAT32;
    if (!is_parameter)
        kn_graph_fail(parameter->graph, KN_ERROR_ARGUMENT,
                      "'%s' is not a float32 parameter; only those can be stored in another type",
                      parameter->name);
    else if (dtype != KN_FLOAT32 && !kn_is_half(dtype))
        kn_graph_fail(parameter->graph, KN_ERROR_DTYPE,
                      "'%s' cannot be stored as %s; use float16, bfloat16 or float32", parameter->name,
                      kn_dtype_name(dtype));
    else
        parameter->stored = dtype;
}

/* Inputs and states keep the names used for feeding and saving. */
static bool can_rename(kn_value *value, const char *whole) {
    bool named = value->kind == KN_VALUE_INPUT || value->kind == KN_VALUE_STATE;
    if (!named || strcmp(value->name, whole) == 0) return true;
    kn_graph_fail(value->graph, KN_ERROR_ARGUMENT,
                  "'%s' cannot be renamed to '%s': %s keep their original names", value->name, whole,
                  value->kind == KN_VALUE_INPUT ? "inputs" : "parameters");
    return false;
}

kn_value *kn_name(kn_value *value, const char *name) {
    if (kn_value_failed(value)) return value;
    kn_graph *graph = value->graph;
    if (graph->error.status != KN_OK) return &graph->failed;
    const char *whole = kn_name_here(graph, name);
    if (!*whole || !can_rename(value, whole) || !kn_value_rename(graph, value, whole)) return &graph->failed;
    return value;
}

kn_value *kn_output(kn_value *value, const char *name) {
    if (name) value = kn_name(value, name);
    if (kn_value_failed(value)) return value;
    kn_graph *graph = value->graph;
    for (size_t i = 0; i < graph->output_count; i++)
        if (graph->outputs[i] == value) return value;
    void *outputs = graph->outputs;
    if (!kn_reserve(&graph->host, &outputs, &graph->output_capacity, graph->output_count + 1,
                    sizeof *graph->outputs))
        return kn_graph_fail(graph, KN_ERROR_MEMORY, "out of host memory for the outputs of a graph");
    graph->outputs = outputs;
    graph->outputs[graph->output_count++] = value;
    return value;
}

/* ---- operators by name ----------------------------------------------------------------------- */

static kn_value *fail_unknown(kn_graph *graph, const char *name) {
    const char *near = NULL;
    int nearest = (int)strlen(name) / 3 + 1;
    for (int i = 0; i < kn_operator_table_count; i++) {
        const kn_operator *row = kn_operator_table[i];
        int distance = kn_edit_distance(name, row->name);
        if ((row->backward && !row->wrong) || row->class == KN_CLASS_ASSIGN || distance >= nearest) continue;
        nearest = distance;
        near = row->name;
    }
    return kn_graph_fail(graph, KN_ERROR_NOT_FOUND, "unknown operator '%.64s'%s%s%s", name,
                         near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

kn_value *kn_row_apply(kn_graph *graph, const kn_operator *row, kn_value *const *inputs, size_t count,
                       const char *attributes) {
    if (count > KN_MAX_INPUTS)
        return kn_graph_fail(graph, KN_ERROR_ARGUMENT, "%s: takes at most %d inputs, found %zu", row->name,
                             KN_MAX_INPUTS, count);
    for (size_t i = 0; i < count; i++)
        if (inputs[i] && inputs[i]->failed) return &graph->failed;
    kn_error error = {0};
    kn_attribute_value read[KN_MAX_ATTRIBUTES];
    if (kn_attributes_parse(graph, row, attributes ? attributes : "", read, &error) != KN_OK)
        return kn_graph_fail_with(graph, &error);
    return kn_node_add(graph, row, NULL, inputs, (int)count, read);
}

static bool has_symbols(const kn_value *value) {
    for (int i = 0; value && i < value->shape.rank; i++)
        if (!kn_dim_known(value->shape.dims[i])) return true;
    return false;
}

/* Gradient rules build valid backward nodes; nodes in a program need a check. */
static kn_value *check_backward(kn_graph *graph, kn_value *made) {
    const kn_node *node = made->producer;
    bool open = has_symbols(made);
    for (int i = 0; i < node->input_count; i++)
        open = open || !node->inputs[i] || has_symbols(node->inputs[i]);
    const char *wrong =
        open ? "all inputs must be given, and their sizes must be numbers" : node->op->wrong(node);
    if (!wrong) return made;
    return kn_graph_fail(graph, KN_ERROR_SHAPE, "%s '%s': %s; found %s", node->op->name, node->name, wrong,
                         kn_shape_words(graph, &node->inputs[0]->shape));
}

kn_value *kn_apply(kn_graph *graph, const char *operator_name, kn_value *const *inputs, size_t count,
                   const char *attributes) {
    if (!graph) return NULL;
    if (graph->error.status != KN_OK) return &graph->failed;
    if (!operator_name || (!inputs && count > 0))
        return kn_graph_fail(graph, KN_ERROR_ARGUMENT, "kn_apply: %s is NULL",
                             operator_name ? "inputs" : "operator_name");
    const kn_operator *row = kn_operator_find(operator_name);
    if (!row || (row->backward && !row->wrong) || row->class == KN_CLASS_ASSIGN)
        return fail_unknown(graph, operator_name);
    kn_value *made = kn_row_apply(graph, row, inputs, count, attributes);
    return row->wrong && !kn_value_failed(made) ? check_backward(graph, made) : made;
}

kn_value *kn_value_cast(kn_value *value, kn_dtype dtype) {
    char attributes[32];
    if (kn_value_failed(value)) return value;
    snprintf(attributes, sizeof attributes, "dtype=%s", kn_dtype_name(dtype));
    return kn_apply(value->graph, "cast", &value, 1, attributes);
}

static bool keep_file(kn_graph *graph, kn_shared_file *file) {
    for (size_t i = graph->file_count; i-- > 0;)
        if (graph->files[i] == file) return true;
    if (!kn_reserve(&graph->host, (void **)&graph->files, &graph->file_capacity, graph->file_count + 1,
                    sizeof(kn_shared_file *)))
        return false;
    graph->files[graph->file_count++] = kn_shared_file_retain(file);
    return true;
}

bool kn_value_fill_from(kn_value *state, const kn_file_blocks *blocks) {
    if (!keep_file(state->graph, blocks->file)) return false;
    state->contents = *blocks;
    return true;
}

kn_value *kn_value_widen_blocks(kn_value *state) {
    char attributes[32];
    if (kn_value_failed(state)) return state;
    snprintf(attributes, sizeof attributes, "type=%d", state->blocks->number);
    return kn_apply(state->graph, "widen_blocks", &state, 1, attributes);
}

kn_value *kn_value_in_blocks(const kn_value *value) {
    const kn_node *node = value ? value->producer : NULL;
    const bool widens = node && !node->derivative && !strcmp(node->op->name, "widen_blocks");
    return widens && node->inputs[0]->blocks && node->inputs[0]->kind == KN_VALUE_STATE ? node->inputs[0]
                                                                                        : NULL;
}

kn_shape kn_value_wide_shape(const kn_value *value) {
    kn_shape shape = value->shape;
    if (!value->blocks) return shape;
    shape.dtype = KN_FLOAT32;
    shape.dims[1] = shape.dims[1] / value->blocks->bytes * value->blocks->weights;
    return shape;
}

kn_value *kn_result(kn_value *value, int index) {
    if (kn_value_failed(value)) return value;
    const kn_node *node = value->producer;
    int visible = node ? node->output_count - node->op->hidden : 0;
    if (node && node->derivative == 0 && index >= 0 && index < node->output_count)
        return node->outputs[index];
    return kn_graph_fail(value->graph, KN_ERROR_ARGUMENT, "'%s' has %d results; result %d does not exist",
                         value->name, node ? visible : 1, index);
}

/* ---- inspecting a graph ----------------------------------------------------------------------- */

kn_value *kn_graph_find(const kn_graph *graph, const char *name) {
    return graph && name ? kn_map_get_text(&graph->names, name) : NULL;
}

/* The value at `position` among the values of a kind; with position SIZE_MAX only sets *count. */
static kn_value *pick(const kn_graph *graph, kn_value_kind kind, size_t position, size_t *count) {
    *count = 0;
    for (size_t i = 0; graph && i < graph->value_count; i++) {
        kn_value *value = graph->values[i];
        if (value->kind != kind || (kind == KN_VALUE_STATE && value->role != KN_STATE_PARAMETER)) continue;
        if ((*count)++ == position) return value;
    }
    return NULL;
}

size_t kn_graph_input_count(const kn_graph *graph) {
    size_t count;
    pick(graph, KN_VALUE_INPUT, SIZE_MAX, &count);
    return count;
}

kn_value *kn_graph_input_at(const kn_graph *graph, size_t position) {
    size_t count;
    return pick(graph, KN_VALUE_INPUT, position, &count);
}

size_t kn_graph_output_count(const kn_graph *graph) {
    return graph ? graph->output_count : 0;
}

kn_value *kn_graph_output_at(const kn_graph *graph, size_t position) {
    return graph && position < graph->output_count ? graph->outputs[position] : NULL;
}

size_t kn_graph_parameter_count(const kn_graph *graph) {
    size_t count;
    pick(graph, KN_VALUE_STATE, SIZE_MAX, &count);
    return count;
}

kn_value *kn_graph_parameter_at(const kn_graph *graph, size_t position) {
    size_t count;
    return pick(graph, KN_VALUE_STATE, position, &count);
}

kn_graph *kn_value_graph(const kn_value *value) {
    return value ? value->graph : NULL;
}

const char *kn_value_name(const kn_value *value) {
    return value ? value->name : "";
}

const char *kn_value_field(const kn_value *value) {
    return value && value->field ? value->field : kn_value_name(value);
}

kn_dtype kn_value_dtype(const kn_value *value) {
    return value ? value->shape.dtype : KN_FLOAT32;
}

int kn_value_rank(const kn_value *value) {
    return value ? value->shape.rank : 0;
}

int64_t kn_value_dimension(const kn_value *value, int axis) {
    if (!value || axis < 0 || axis >= value->shape.rank || !kn_dim_known(value->shape.dims[axis])) return -1;
    return value->shape.dims[axis];
}

size_t kn_value_shape_text(const kn_value *value, char *text, size_t bytes) {
    size_t length = 0;
    if (value) {
        kn_text words;
        kn_text_init(&words, &value->graph->host);
        for (int i = 0; i < value->shape.rank; i++) {
            if (i > 0) kn_text_add(&words, ",");
            kn_dim_text(value->graph, value->shape.dims[i], &words);
        }
        length = words.length;
        if (text && bytes > 0) {
            size_t kept = length < bytes - 1 ? length : bytes - 1;
            memcpy(text, words.data, kept);
            text[kept] = '\0';
        }
        kn_text_finish(&words);
    } else if (text && bytes > 0)
        text[0] = '\0';
    return length;
}
