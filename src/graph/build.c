/* Creates values and nodes, checks them and connects them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/graph_private.h"

/* ---- errors ---------------------------------------------------------------------------------------- */

static kn_value *fail_memory(kn_graph *graph) {
    return kn_graph_fail(graph, KN_ERROR_MEMORY, "out of host memory while building a graph");
}

/* ---- values ------------------------------------------------------------------------------------------ */

kn_value *kn_value_make(kn_graph *graph, kn_value_kind kind, const kn_shape *shape) {
    if (graph->error.status != KN_OK) return NULL;
    kn_value *value = kn_arena_take(&graph->arena, 1, sizeof *value);
    void *values = graph->values;
    if (!value || graph->value_count >= INT32_MAX ||
        !kn_reserve(&graph->host, &values, &graph->value_capacity, graph->value_count + 1,
                    sizeof *graph->values)) {
        fail_memory(graph);
        return NULL;
    }
    graph->values = values;
    *value =
        (kn_value){.graph = graph, .id = (int)graph->value_count, .kind = kind, .shape = *shape, .name = ""};
    graph->values[graph->value_count++] = value;
    return value;
}

/* Uniform within 1 / sqrt(elements per row), the product of all dimensions except the first. */
static bool default_initializer(const kn_shape *shape, kn_initializer *initializer) {
    kn_shape row = {.dtype = shape->dtype, .rank = shape->rank > 0 ? shape->rank - 1 : 0};
    for (int i = 0; i < row.rank; i++)
        row.dims[i] = shape->dims[i + 1];
    int64_t elements = kn_shape_elements(&row);
    if (elements < 0) return false;
    *initializer = (kn_initializer){KN_INITIALIZER_UNIFORM, elements > 0 ? 1 / sqrt((double)elements) : 0};
    return true;
}

/* Resolves kinds that depend on the shape to uniform or normal. False if they need a matrix and the shape has
 * fewer dimensions. */
static bool resolve_initializer(const kn_shape *shape, kn_initializer *initializer) {
    double in = 1, out, gain = initializer->value, fan;
    if (initializer->kind < KN_INITIALIZER_XAVIER_UNIFORM) return true;
    if (shape->rank < 2 || kn_shape_elements(shape) < 0) return false;
    if (initializer->kind == KN_INITIALIZER_ORTHOGONAL) return true;
    for (int i = 2; i < shape->rank; i++)
        in *= (double)shape->dims[i];
    out = in * (double)shape->dims[0];
    in *= (double)shape->dims[1];
    bool xavier = initializer->kind <= KN_INITIALIZER_XAVIER_NORMAL;
    bool by_out = initializer->kind >= KN_INITIALIZER_KAIMING_UNIFORM_OUT;
    fan = xavier ? (in + out) / 2 : by_out ? out : in;
    double deviation = fan > 0 ? gain / sqrt(fan) : 0;
    bool normal = initializer->kind == KN_INITIALIZER_XAVIER_NORMAL ||
                  initializer->kind == KN_INITIALIZER_KAIMING_NORMAL ||
                  initializer->kind == KN_INITIALIZER_KAIMING_NORMAL_OUT;
    *initializer = normal ? (kn_initializer){KN_INITIALIZER_NORMAL, deviation}
                          : (kn_initializer){KN_INITIALIZER_UNIFORM, sqrt(3) * deviation};
    return true;
}

kn_value *kn_state_add(kn_graph *graph, const char *name, const kn_shape *shape, kn_state_role role,
                       const kn_initializer *initializer) {
    if (!graph) return NULL;
    if (graph->error.status != KN_OK) return &graph->failed;
    kn_initializer chosen = {KN_INITIALIZER_FILL, 0};
    if (initializer)
        chosen = *initializer;
    else if (role == KN_STATE_PARAMETER && !default_initializer(shape, &chosen))
        return kn_graph_fail(graph, KN_ERROR_SHAPE, "state '%s' %s: dimensions must be numbers, not symbols",
                             name, kn_shape_words(graph, shape));
    if ((unsigned)chosen.kind > KN_INITIALIZER_ORTHOGONAL)
        return kn_graph_fail(graph, KN_ERROR_ARGUMENT, "state '%s': unknown initializer %d", name,
                             (int)chosen.kind);
    if (!resolve_initializer(shape, &chosen))
        return kn_graph_fail(graph, KN_ERROR_SHAPE,
                             "state '%s' %s: this initializer needs at least two dimensions; use uniform, "
                             "normal or a constant",
                             name, kn_shape_words(graph, shape));
    kn_value *value = kn_value_make(graph, KN_VALUE_STATE, shape);
    if (!value || !kn_value_rename(graph, value, name)) return &graph->failed;
    value->role = role;
    value->initializer = chosen;
    value->stored = value->outside = shape->dtype;
    return value;
}

kn_value *kn_input_add(kn_graph *graph, const char *name, const kn_shape *shape) {
    if (!graph) return NULL;
    if (graph->error.status != KN_OK) return &graph->failed;
    kn_value *value = kn_value_make(graph, KN_VALUE_INPUT, shape);
    return value && kn_value_rename(graph, value, name) ? value : &graph->failed;
}

kn_value *kn_constant_add(kn_graph *graph, const kn_shape *shape, const void *data, size_t bytes) {
    if (!graph) return NULL;
    if (graph->error.status != KN_OK) return &graph->failed;
    int64_t elements = kn_shape_elements(shape);
    size_t size = kn_dtype_bytes(shape->dtype);
    if (elements < 0 || size == 0 || (uint64_t)elements > SIZE_MAX / size || (size_t)elements * size != bytes)
        return kn_graph_fail(
            graph, KN_ERROR_ARGUMENT, "a constant %s of %zu bytes: %s", kn_shape_words(graph, shape), bytes,
            elements < 0
                ? "dimensions must be numbers, not symbols, and the number of elements must fit in 64 bits"
                : "expected the number of elements times the element size");
    if (!data && bytes > 0) return kn_graph_fail(graph, KN_ERROR_ARGUMENT, "a constant without data");
    const char *name = kn_name_make(graph, "constant");
    kn_value *value = kn_value_make(graph, KN_VALUE_CONSTANT, shape);
    if (!value || !kn_value_rename(graph, value, name)) return &graph->failed;
    value->data = kn_arena_copy(&graph->arena, data, bytes, 1);
    if (!value->data) return fail_memory(graph);
    value->data_bytes = bytes;
    return value;
}

/* Kernels compute integers in integer arithmetic, so an operator whose result is fractional is refused. */
static kn_status check_integers(const kn_shape_call *call, kn_dtype dtype) {
    const kn_operator *row = call->row;
    kn_arena arena;
    kn_expression *expression = NULL;
    kn_arena_init(&arena, &call->graph->host);
    kn_status status = kn_expression_parse(&arena, row->value, &expression, call->error);
    bool whole = status == KN_OK && kn_expression_keeps_integers(expression);
    for (int i = 0; whole && i < expression->name_count; i++)
        whole = strcmp(expression->names[i], "uniform") != 0;
    for (int i = 0; whole && i < row->attribute_count; i++) {
        double number = call->attributes[i].number;
        if (kn_expression_reads(expression, row->attributes[i].name)) whole = number == floor(number);
    }
    kn_arena_finish(&arena);
    if (status == KN_OK && !whole)
        return kn_fail(
            call->error, KN_ERROR_DTYPE,
            "%s '%s': the input is %s and the result is fractional; cast the input to float32 first",
            row->name, call->name, kn_dtype_name(dtype));
    return status;
}

/* The default rule of a pointwise row: shapes broadcast, element types agree. */
static kn_status pointwise_shape(kn_shape_call *call) {
    const kn_operator *row = call->row;
    int count = call->input_count - (row->random ? 1 : 0), typed = -1;
    kn_shape *result = &call->outputs[0];
    *result = (kn_shape){.rank = 0};
    for (int i = 0; i < count; i++) {
        const kn_value *input = call->inputs[i];
        if (!input) continue;
        kn_shape before = *result;
        if (!kn_shape_broadcast(call->graph, &before, &input->shape, result))
            return kn_fail(call->error, KN_ERROR_SHAPE,
                           "%s '%s': %s does not broadcast with %s: aligned at the last dimension, sizes "
                           "must be equal or 1; reshape or transpose one input",
                           row->name, call->name, kn_shape_words(call->graph, &input->shape),
                           kn_shape_words(call->graph, &before));
        bool condition = i == 0 && row->mixed_inputs && count > 1;
        if (condition) {
            result->dtype = input->shape.dtype;
            continue;
        }
        if (typed >= 0 && call->inputs[typed]->shape.dtype != input->shape.dtype)
            return kn_fail(
                call->error, KN_ERROR_DTYPE,
                "%s '%s': inputs are %s and %s, but must have the same element type; cast one of them",
                row->name, call->name, kn_dtype_name(call->inputs[typed]->shape.dtype),
                kn_dtype_name(input->shape.dtype));
        typed = i;
        result->dtype = input->shape.dtype;
    }
    if (count > 1 && row->mixed_inputs && call->inputs[0] && call->inputs[0]->shape.dtype != KN_BOOL &&
        call->inputs[0]->shape.dtype != result->dtype)
        return kn_fail(call->error, KN_ERROR_DTYPE,
                       "%s '%s': the condition is %s, but must be bool or %s; use a comparison first",
                       row->name, call->name, kn_dtype_name(call->inputs[0]->shape.dtype),
                       kn_dtype_name(result->dtype));
    kn_status status = KN_OK;
    if (row->only_integers && kn_dtype_is_float(result->dtype))
        return kn_fail(call->error, KN_ERROR_DTYPE, "%s '%s': the inputs are %s, but must be integers",
                       row->name, call->name, kn_dtype_name(result->dtype));
    if (count > 0 && row->value && !kn_dtype_is_float(result->dtype))
        status = check_integers(call, result->dtype);
    if (row->fixed_dtype) result->dtype = row->result_dtype;
    return status;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static kn_status check_inputs(kn_graph *graph, const kn_node_recipe *recipe, const char *name,
                              kn_error *error) {
    const kn_operator *row = recipe->row;
    int least, most;
    kn_operator_arity(row, &least, &most);
    if (recipe->derivative) most = least = recipe->count;
    if (recipe->count < least || recipe->count > most) {
        char range[48];
        if (least == most)
            snprintf(range, sizeof range, "%d", least);
        else
            snprintf(range, sizeof range, "%d to %d", least, most);
        return kn_fail(error, KN_ERROR_ARGUMENT, "%s '%s': takes %s input%s, found %d", row->name, name,
                       range, most == 1 ? "" : "s", recipe->count);
    }
    for (int i = 0; i < recipe->count; i++) {
        const kn_value *input = recipe->inputs[i];
        if (!input && i < least && !recipe->derivative)
            return kn_fail(error, KN_ERROR_ARGUMENT, "%s '%s': input %d is NULL", row->name, name, i + 1);
        if (input && input->graph != graph)
            return kn_fail(error, KN_ERROR_ARGUMENT, "%s '%s': input %d, '%s', belongs to another graph",
                           row->name, name, i + 1, input->name);
    }
    return KN_OK;
}

static kn_status check_assign(kn_graph *graph, kn_value *const *inputs, kn_error *error) {
    const kn_value *state = inputs[0], *value = inputs[1];
    if (state->kind != KN_VALUE_STATE)
        return kn_fail(error, KN_ERROR_ARGUMENT,
                       "assign: '%s' is not a state; only states persist between runs", state->name);
    if (state->assign)
        return kn_fail(error, KN_ERROR_ARGUMENT,
                       "assign: state '%s' is already assigned; a state can be assigned once per run",
                       state->name);
    if (!kn_shape_same(&state->shape, &value->shape) || state->shape.dtype != value->shape.dtype)
        return kn_fail(error, KN_ERROR_SHAPE,
                       "assign: state '%s' is %s and '%s' is %s; they must have the same type and shape",
                       state->name, kn_shape_words(graph, &state->shape), value->name,
                       kn_shape_words(graph, &value->shape));
    return KN_OK;
}

/* Validates the shape that a shape rule returned. */
static kn_status check_output(kn_graph *graph, const kn_operator *row, const char *name,
                              const kn_shape *shape, kn_error *error) {
    bool numbers = true;
    if (shape->rank < 0 || shape->rank > KN_MAX_RANK)
        return kn_fail(error, KN_ERROR_SHAPE,
                       "%s '%s': the result has %d dimensions; at most %d are supported", row->name, name,
                       shape->rank, KN_MAX_RANK);
    if (kn_dtype_bytes(shape->dtype) == 0)
        return kn_fail(error, KN_ERROR_DTYPE, "%s '%s': the result has no element type", row->name, name);
    for (int i = 0; i < shape->rank; i++) {
        int64_t number;
        bool known = kn_dim_constant(graph, shape->dims[i], &number);
        numbers = numbers && known;
        if (known && number < 0)
            return kn_fail(error, KN_ERROR_SHAPE,
                           "%s '%s': dimension %d of the result would be %lld; the input is too small",
                           row->name, name, i, (long long)number);
    }
    if (!numbers && graph->bound)
        return kn_fail(error, KN_ERROR_INTERNAL, "%s '%s': the result %s still has a symbol", row->name, name,
                       kn_shape_words(graph, shape));
    if (numbers && (kn_shape_elements(shape) < 0 ||
                    kn_shape_elements(shape) > INT64_MAX / (int64_t)kn_dtype_bytes(shape->dtype)))
        return kn_fail(error, KN_ERROR_SHAPE, "%s '%s': result %s: size in bytes exceeds 64 bits", row->name,
                       name, kn_shape_words(graph, shape));
    return KN_OK;
}

/* Storage-only types can only be moved and cast. */
static kn_status check_storage(const kn_shape_call *call) {
    const kn_operator *row = call->row;
    const bool takes =
        row->any_type || row->moves || row->class == KN_CLASS_VIEW || row->class == KN_CLASS_ASSIGN;
    for (int i = 0; i < call->input_count && !takes; i++)
        if (call->inputs[i] && kn_is_small_float(call->inputs[i]->shape.dtype))
            return kn_fail(call->error, KN_ERROR_DTYPE,
                           "%s '%s': input %d is %s, a storage-only type; cast it to float32 first",
                           row->name, call->name, i + 1, kn_dtype_name(call->inputs[i]->shape.dtype));
    return KN_OK;
}

static kn_status infer_shapes(kn_graph *graph, const kn_node_recipe *recipe, kn_shape_call *call) {
    const kn_operator *row = recipe->row;
    kn_status status = check_storage(call);
    if (status != KN_OK) return status;
    if (recipe->derivative)
        call->outputs[0] = *recipe->derivative_shape;
    else if (row->class == KN_CLASS_ASSIGN)
        status = check_assign(graph, recipe->inputs, call->error);
    else if (row->shape)
        status = row->shape(call);
    else if (row->class == KN_CLASS_POINTWISE)
        status = pointwise_shape(call);
    else
        status = kn_fail(call->error, KN_ERROR_INTERNAL, "operator '%s' has no shape rule", row->name);
    if (status != KN_OK && call->error->status == KN_OK)
        kn_fail(call->error, status, "%s '%s': %s", row->name, call->name, kn_status_message(status));
    if (status == KN_OK) status = call->error->status; /* the rule ignored the error */
    /* Arithmetic on dimensions reports errors to the graph. */
    if (status == KN_OK && graph->error.status != KN_OK) {
        *call->error = graph->error;
        kn_error_clear(&graph->error);
        status = kn_fail_in(call->error, "%s '%s'", row->name, call->name);
    }
    if (call->output_count < 0 || call->output_count > KN_MAX_OUTPUTS)
        return kn_fail(call->error, KN_ERROR_INTERNAL, "operator '%s' has too many results", row->name);
    for (int i = 0; status == KN_OK && i < call->output_count; i++)
        status = check_output(graph, row, call->name, &call->outputs[i], call->error);
    return status;
}

/* The name of output `index`; "" if out of memory. */
static const char *output_name(kn_graph *graph, const kn_node_recipe *recipe, const kn_node *node,
                               int index) {
    const char *stem = node->name, *name;
    if (recipe->origin && index < recipe->origin->output_count) return recipe->origin->outputs[index]->name;
    if (recipe->derivative)
        stem = kn_arena_format(&graph->arena, "%s~gradient", node->name);
    else if (graph->origin)
        stem = kn_arena_format(&graph->arena, "%s~%s", node->name, recipe->row->name);
    if (!stem || index == 0)
        name = stem;
    else
        name = kn_arena_format(&graph->arena, "%s:%d", stem, index);
    return name ? name : "";
}

static bool make_outputs(kn_graph *graph, const kn_node_recipe *recipe, kn_node *node,
                         const kn_shape *shapes) {
    for (int i = 0; i < node->output_count; i++) {
        kn_value *value = kn_value_make(graph, KN_VALUE_RESULT, &shapes[i]);
        if (!value) return false;
        value->producer = node;
        value->output_index = i;
        node->outputs[i] = value;
        const char *name = output_name(graph, recipe, node, i);
        if (!*name) {
            fail_memory(graph);
            return false;
        }
        if (!kn_value_rename(graph, value, name)) return false;
    }
    return true;
}

static void choose_types(kn_node *node) {
    for (int i = 0; i < node->output_count; i++)
        if (node->outputs[i]->shape.dtype == KN_FLOAT64) node->compute = node->accumulate = KN_FLOAT64;
}

/* Inherits pin and device from the node that this one copies or differentiates, otherwise uses the current
 * pin. */
static bool set_pin_and_device(kn_graph *graph, const kn_node_recipe *recipe, kn_node *node) {
    const kn_node *origin = recipe->origin ? recipe->origin : graph->origin;
    const char *pin = origin ? origin->pin : kn_pin_now(graph);
    /* During binding, origins are nodes of the caller's graph, which may be destroyed before this graph. */
    bool here = !origin || (origin->output_count > 0 && origin->outputs[0]->graph == graph);
    node->device = graph->origin ? graph->origin->device : -1;
    node->pin = pin && !here ? kn_arena_text(&graph->arena, pin) : pin;
    return !pin || node->pin;
}

/* A replacement inherits the random key of the node it replaces; only nodes of bound graphs have keys. */
static uint64_t choose_random_key(const kn_graph *graph, const kn_node_recipe *recipe, const char *name) {
    const kn_node *origin = recipe->origin ? recipe->origin : graph->origin;
    const bool known = origin && origin->output_count > 0 && origin->outputs[0]->graph->bound;
    return known ? origin->random_key : kn_random_key(graph->seed, name);
}

static bool copy_attributes(kn_graph *graph, kn_node *node, const kn_attribute_value *attributes,
                            const kn_attribute_value *given) {
    size_t count = (size_t)node->op->attribute_count;
    node->attributes = kn_arena_copy(&graph->arena, attributes, count, sizeof *attributes);
    bool completed = count && memcmp(given, attributes, count * sizeof *given) != 0;
    if (completed) node->given = kn_arena_copy(&graph->arena, given, count, sizeof *given);
    return node->attributes && (!completed || node->given);
}

static kn_node *append_node(kn_graph *graph, const kn_node_recipe *recipe, const kn_shape_call *call,
                            const kn_attribute_value *given) {
    kn_node *node = kn_arena_take(&graph->arena, 1, sizeof *node);
    void *nodes = graph->nodes;
    if (!node || graph->node_count >= INT32_MAX ||
        !kn_reserve(&graph->host, &nodes, &graph->node_capacity, graph->node_count + 1,
                    sizeof *graph->nodes)) {
        fail_memory(graph);
        return NULL;
    }
    graph->nodes = nodes;
    if (!kn_custom_hold(graph, recipe->row)) {
        fail_memory(graph);
        return NULL;
    }
    *node = (kn_node){.op = recipe->row,
                      .derivative = recipe->derivative,
                      .input_count = recipe->count,
                      .output_count = call->output_count,
                      .stage = graph->stage};
    node->name = kn_arena_text(&graph->arena, call->name);
    node->inputs = kn_arena_copy(&graph->arena, recipe->inputs, (size_t)recipe->count, sizeof *node->inputs);
    node->outputs = kn_arena_take(&graph->arena, (size_t)call->output_count, sizeof *node->outputs);
    if (!node->name || !node->inputs || !node->outputs) {
        fail_memory(graph);
        return NULL;
    }
    if (!set_pin_and_device(graph, recipe, node)) {
        fail_memory(graph);
        return NULL;
    }
    if (!copy_attributes(graph, node, call->attributes, given)) {
        fail_memory(graph);
        return NULL;
    }
    if (!make_outputs(graph, recipe, node, call->outputs)) return NULL;
    choose_types(node);
    if (graph->bound && recipe->row->random) node->random_key = choose_random_key(graph, recipe, node->name);
    node->id = (int)graph->node_count;
    graph->nodes[graph->node_count++] = node;
    if (recipe->row->class == KN_CLASS_ASSIGN) node->inputs[0]->assign = node;
    return node;
}

kn_node *kn_node_make(kn_graph *graph, const kn_node_recipe *recipe) {
    const kn_operator *row = recipe->row;
    kn_error error = {0};
    if (graph->error.status != KN_OK) return NULL;
    const char *name = recipe->name;
    if (!name) name = graph->origin ? graph->origin->name : kn_name_make(graph, row->name);
    kn_status status = check_inputs(graph, recipe, name, &error);
    kn_attribute_value attributes[KN_MAX_ATTRIBUTES] = {{0}}, given[KN_MAX_ATTRIBUTES];
    if (recipe->attributes)
        memcpy(attributes, recipe->attributes, (size_t)row->attribute_count * sizeof *attributes);
    else
        kn_attributes_defaults(graph, row, attributes);
    if (graph->error.status != KN_OK) return NULL;
    memcpy(given, attributes, (size_t)row->attribute_count * sizeof *given);
    kn_shape_call call = {.graph = graph,
                          .row = row,
                          .name = name,
                          .input_count = recipe->count,
                          .inputs = recipe->inputs,
                          .attributes = attributes,
                          .output_count = (row->outputs ? row->outputs : 1) + row->hidden,
                          .error = &error};
    if (row->class == KN_CLASS_ASSIGN) call.output_count = 0;
    if (recipe->derivative) call.output_count = 1;
    if (status == KN_OK) status = infer_shapes(graph, recipe, &call);
    if (status != KN_OK) {
        kn_graph_fail_with(graph, &error);
        return NULL;
    }
    return append_node(graph, recipe, &call, given);
}

kn_node *kn_node_repeat(kn_graph *graph, const kn_node *node, kn_value *const *inputs) {
    kn_attribute_value attributes[KN_MAX_ATTRIBUTES];
    kn_shape_call call = {.name = node->name, .attributes = attributes, .output_count = node->output_count};
    const kn_node_recipe recipe = {.row = node->op,
                                   .inputs = inputs,
                                   .count = node->input_count,
                                   .derivative = node->derivative,
                                   .origin = node};
    memcpy(attributes, node->attributes, (size_t)node->op->attribute_count * sizeof *attributes);
    for (int i = 0; i < node->output_count; i++)
        call.outputs[i] = node->outputs[i]->shape;
    if (graph->error.status != KN_OK) return NULL;
    kn_node *made = append_node(graph, &recipe, &call, node->given ? node->given : attributes);
    if (!made) return NULL;
    made->compute = node->compute;
    made->accumulate = node->accumulate;
    made->tf32 = node->tf32;
    made->device = node->device;
    made->gradient = node->gradient;
    made->stage = node->stage;
    for (int i = 0; i < node->output_count; i++)
        made->outputs[i]->layout = node->outputs[i]->layout;
    return made;
}

void kn_stage_begin(kn_graph *graph) {
    graph->stage = ++graph->stages;
}

void kn_stage_end(kn_graph *graph) {
    graph->stage = 0;
}

kn_value *kn_node_add(kn_graph *graph, const kn_operator *row, const char *name, kn_value *const *inputs,
                      int count, const kn_attribute_value *attributes) {
    if (!graph) return NULL;
    if (!row || count < 0 || count > KN_MAX_INPUTS)
        return kn_graph_fail(graph, KN_ERROR_ARGUMENT, "%s: expected 0 to %d inputs, found %d",
                             row ? row->name : "unknown operator", KN_MAX_INPUTS, count);
    for (int i = 0; i < count; i++)
        if (inputs[i] && inputs[i]->failed) return &graph->failed;
    kn_node_recipe recipe = {
        .row = row, .name = name, .inputs = inputs, .count = count, .attributes = attributes};
    kn_node *node = kn_node_make(graph, &recipe);
    if (!node) return &graph->failed;
    return node->output_count > 0 ? node->outputs[0] : node->inputs[0];
}

kn_value *kn_node_add_derivative(kn_graph *graph, const kn_node *node, int input, kn_value *gradient) {
    static const char *const letters[] = {"x", "y", "z"};
    const kn_operator *row = node->op;
    if (gradient && gradient->failed) return &graph->failed;
    if (input < 0 || input >= (int)KN_COUNT_OF(row->by) || input >= node->input_count || !row->by[input] ||
        node->derivative || node->input_count > KN_MAX_INPUTS - 2)
        return kn_graph_fail(graph, KN_ERROR_INTERNAL, "%s '%s' has no gradient with respect to input %d",
                             row->name, node->name, input + 1);
    const char *text = row->by[input];
    kn_value *inputs[KN_MAX_INPUTS];
    for (int i = 0; i < node->input_count; i++) {
        bool step = row->random && i == node->input_count - 1;
        const char *letter = step ? "uniform" : i < (int)KN_COUNT_OF(letters) ? letters[i] : NULL;
        inputs[i] = letter && kn_expression_text_reads(text, letter) ? node->inputs[i] : NULL;
    }
    inputs[node->input_count] = kn_expression_text_reads(text, "r") ? node->outputs[0] : NULL;
    inputs[node->input_count + 1] = kn_expression_text_reads(text, "g") ? gradient : NULL;
    kn_shape shape = node->outputs[0]->shape;
    shape.dtype = node->inputs[input]->shape.dtype;
    const kn_node *origin = graph->origin;
    graph->origin = node; /* the derivative draws the same random numbers as the node */
    kn_node_recipe recipe = {.row = row,
                             .name = node->name,
                             .inputs = inputs,
                             .count = node->input_count + 2,
                             .attributes = node->attributes,
                             .derivative = 1 + input,
                             .derivative_shape = &shape};
    kn_node *made = kn_node_make(graph, &recipe);
    graph->origin = origin;
    return made ? made->outputs[0] : &graph->failed;
}

void kn_assign(kn_graph *graph, kn_value *state, kn_value *value) {
    if (!graph) return;
    const kn_operator *row = kn_operator_find("assign");
    if (!row) {
        kn_graph_fail(graph, KN_ERROR_INTERNAL, "the operator 'assign' is missing");
        return;
    }
    kn_node_add(graph, row, state ? state->name : NULL, (kn_value *[]){state, value}, 2, NULL);
}

void kn_assign_replace(kn_graph *graph, kn_value *state, kn_value *value) {
    kn_node *node = state->assign;
    node->inputs[1] = value;
    /* Move it after the producer of the value. */
    for (size_t i = (size_t)node->id; i + 1 < graph->node_count; i++) {
        graph->nodes[i] = graph->nodes[i + 1];
        graph->nodes[i]->id = (int)i;
    }
    node->id = (int)graph->node_count - 1;
    graph->nodes[node->id] = node;
}
