/* What the operator families share: messages of shape rules, settings, and building nodes. */
#include "ops/ops_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- shape rules ------------------------------------------------------------------------------ */

kn_status kn_shape_fail(const kn_shape_call *call, kn_status status, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return kn_fail(call->error, status, "%s '%s': %s", call->row->name, call->name, text);
}

const char *kn_shape_words_of(const kn_shape_call *call, int input) {
    return kn_shape_words(call->graph, &call->inputs[input]->shape);
}

/* "no attribute 'widht'; it has 'width', 'stride'" */
static const char *unknown_text(const kn_operator *row, const char *name, char *text, size_t room) {
    int used = snprintf(text, room, "no attribute '%s'; it has %s", name, row->attribute_count ? "" : "none");
    for (int i = 0; i < row->attribute_count && used >= 0 && (size_t)used < room; i++)
        used += snprintf(text + used, room - (size_t)used, "%s'%s'", i ? ", " : "", row->attributes[i].name);
    return text;
}

static kn_attribute_value *attribute_at(const kn_operator *row, kn_attribute_value *values, const char *name,
                                        kn_attribute_value *spare) {
    for (int i = 0; i < row->attribute_count && i < KN_MAX_ATTRIBUTES; i++)
        if (!strcmp(row->attributes[i].name, name)) return &values[i];
    return spare;
}

kn_attribute_value *kn_shape_attribute(const kn_shape_call *call, const char *name) {
    char text[300];
    kn_attribute_value *value = attribute_at(call->row, call->attributes, name, NULL);
    if (value) return value;
    if (call->error->status == KN_OK) /* the rule goes on with any value, and its node fails */
        kn_shape_fail(call, KN_ERROR_INTERNAL, "%s", unknown_text(call->row, name, text, sizeof text));
    return call->attributes;
}

kn_status kn_shape_axis(kn_shape_call *call, int64_t number, int rank, int *axis) {
    if (number < -rank || number >= rank)
        return kn_shape_fail(call, KN_ERROR_SHAPE, "x is %s, which has no axis %lld; expected %d to %d",
                             kn_shape_words_of(call, 0), (long long)number, -rank, rank - 1);
    *axis = (int)(number < 0 ? number + rank : number);
    return KN_OK;
}

kn_status kn_shape_float_input(kn_shape_call *call, int input) {
    if (kn_dtype_is_float(call->inputs[input]->shape.dtype)) return KN_OK;
    return kn_shape_fail(call, KN_ERROR_DTYPE,
                         "input %d is %s; expected a type with fractions, such as float32 "
                         "(cast makes one)",
                         input, kn_shape_words_of(call, input));
}

kn_status kn_shape_like_first(kn_shape_call *call) {
    call->outputs[0] = call->inputs[0]->shape;
    return KN_OK;
}

/* ---- bound graphs ------------------------------------------------------------------------------ */

kn_dtype kn_accumulator(const kn_node *node, kn_dtype dtype) {
    if (!kn_dtype_is_float(dtype) || dtype == KN_FLOAT64) return dtype;
    return node->accumulate == KN_FLOAT64 ? KN_FLOAT64 : KN_FLOAT32;
}

size_t kn_power_of_two(int64_t number, size_t limit) {
    size_t power = 1;
    while (power < limit && (int64_t)power < number)
        power *= 2;
    return power;
}

size_t kn_group_items(const kn_target *target) {
    size_t items = 1;
    while (items < 256 && items * 2 <= target->work_group_items)
        items *= 2;
    return items;
}

kn_lanes kn_lanes_of(const kn_shape *shape, int axis) {
    kn_lanes lanes = {1, shape->dims[axis], 1};
    for (int i = 0; i < shape->rank; i++) {
        if (i < axis) lanes.outer *= shape->dims[i];
        if (i > axis) lanes.inner *= shape->dims[i];
    }
    return lanes;
}

int kn_axis_of(const kn_node *node, int rank) {
    int64_t axis = kn_attribute_of(node, "axis")->integer;
    return (int)(axis < 0 ? axis + rank : axis);
}

void kn_cost_set(const kn_node *node, double flops, kn_cost *cost) {
    cost->flops = flops;
    cost->bytes = 0;
    for (int i = 0; i < node->input_count + node->output_count; i++) {
        const kn_value *value =
            i < node->input_count ? node->inputs[i] : node->outputs[i - node->input_count];
        if (value) cost->bytes += (double)kn_elements_of(value) * (double)kn_dtype_bytes(value->shape.dtype);
    }
}

bool kn_on_wide_vector(const kn_target *target, const kn_node *node) {
    return target->wide_vector;
}
bool kn_on_many_threads(const kn_target *target, const kn_node *node) {
    return !target->wide_vector;
}

void kn_step_narrow(kn_step *step, const kn_value *input) {
    if (kn_is_half(input->shape.dtype))
        kn_step_define(step, "KN_NARROW", "%d", input->shape.dtype == KN_FLOAT16 ? 1 : 2);
}

bool kn_takes_kernel_types(const kn_target *target, const kn_node *node) {
    (void)target;
    return kn_has_kernels(node->outputs[0]->shape.dtype);
}
bool kn_takes_kernel_types_wide(const kn_target *target, const kn_node *node) {
    return target->wide_vector && kn_takes_kernel_types(target, node);
}

bool kn_takes_stored_types(const kn_target *target, const kn_node *node) {
    (void)target;
    kn_dtype dtype = node->outputs[0]->shape.dtype;
    return dtype != KN_FLOAT16 && dtype != KN_BFLOAT16;
}
bool kn_takes_stored_types_wide(const kn_target *target, const kn_node *node) {
    return target->wide_vector && kn_takes_stored_types(target, node);
}

/* ---- building ------------------------------------------------------------------------------------ */

void kn_settings_init(kn_settings *settings, kn_graph *graph, const kn_operator *row) {
    memset(settings, 0, sizeof *settings);
    settings->row = row;
    kn_attributes_defaults(graph, row, settings->values);
}

static kn_attribute_value *setting(kn_settings *settings, const char *name) {
    kn_attribute_value *value = attribute_at(settings->row, settings->values, name, NULL);
    if (!value) settings->unknown = name;
    return value ? value : settings->values;
}

void kn_settings_int(kn_settings *settings, const char *name, int64_t number) {
    kn_attribute_value *value = setting(settings, name);
    value->integer = number;
    value->number = (double)number; /* expressions read it */
}

void kn_settings_float(kn_settings *settings, const char *name, double number) {
    setting(settings, name)->number = number;
}

void kn_settings_list(kn_settings *settings, const char *name, int count, const kn_dim *numbers) {
    kn_attribute_value *value = setting(settings, name);
    value->count = count;
    for (int i = 0; i < count; i++)
        value->list[i] = numbers[i];
}

void kn_settings_copy(kn_settings *settings, const kn_node *node) {
    const kn_operator *row = node->op;
    for (int i = 0; i < row->attribute_count && i < KN_MAX_ATTRIBUTES; i++) {
        const char *name = row->attributes[i].name;
        kn_attribute_value *own = attribute_at(settings->row, settings->values, name, NULL);
        if (own) *own = node->attributes[i];
    }
}

kn_value *kn_build(const kn_operator *row, kn_value *const *inputs, int count, const kn_settings *settings) {
    kn_graph *graph = NULL;
    for (int i = 0; i < count && !graph; i++)
        if (inputs[i]) graph = inputs[i]->graph;
    if (!graph) return NULL;
    for (int i = 0; i < count; i++)
        if (!inputs[i])
            return kn_graph_fail(graph, KN_ERROR_ARGUMENT,
                                 "%s: input %d is NULL; expected a value of the graph", row->name, i);
    char text[300];
    if (settings && settings->unknown)
        return kn_graph_fail(graph, KN_ERROR_INTERNAL, "%s: %s", row->name,
                             unknown_text(settings->row, settings->unknown, text, sizeof text));
    return kn_node_add(graph, row, NULL, inputs, count, settings ? settings->values : NULL);
}

kn_value *kn_build1(const kn_operator *row, kn_value *x) {
    return kn_build(row, &x, 1, NULL);
}

kn_value *kn_build2(const kn_operator *row, kn_value *x, kn_value *y) {
    kn_value *inputs[2] = {x, y};
    return kn_build(row, inputs, 2, NULL);
}

kn_value *kn_build_number(const kn_operator *row, kn_value *x, const char *attribute, double number) {
    if (kn_value_failed(x)) return x;
    kn_settings settings;
    kn_settings_init(&settings, x->graph, row);
    kn_settings_float(&settings, attribute, number);
    return kn_build(row, &x, 1, &settings);
}

int kn_read_integers(kn_graph *graph, const kn_operator *row, const char *text, int most, kn_dim *numbers) {
    int count = 0;
    const char *at = text ? text : "";
    while (*at == ' ')
        at++;
    while (*at) {
        int64_t number;
        if (count == most || !kn_parse_int64(at, &at, &number)) break;
        numbers[count++] = number;
        while (*at == ' ')
            at++;
        if (*at != ',') break;
        at++;
        while (*at == ' ')
            at++;
        if (!*at) at--; /* a comma at the end: a number was expected */
    }
    if (!*at) return count;
    kn_graph_fail(graph, KN_ERROR_ARGUMENT,
                  "%s: \"%s\" at \"%s\": expected up to %d whole numbers separated by commas", row->name,
                  text, at, most);
    return -1;
}

kn_value *kn_step_counter(kn_graph *graph) {
    kn_value *step = kn_graph_find(graph, KN_STEP_COUNTER);
    const kn_shape scalar = {.dtype = KN_UINT32};
    return step ? step : kn_state_add(graph, KN_STEP_COUNTER, &scalar, KN_STATE_CONTROL, NULL);
}

/* ---- gradient rules ------------------------------------------------------------------------------- */

kn_value *kn_gradient_build(kn_gradient_call *call, const kn_operator *row, kn_value *const *inputs,
                            int count, const kn_settings *settings) {
    return kn_node_add(call->graph, row, NULL, inputs, count, settings ? settings->values : NULL);
}

static bool same_dims(const kn_shape *left, const kn_shape *right) {
    return left->rank == right->rank && kn_shape_same(left, right);
}

kn_value *kn_gradient_reshape(kn_gradient_call *call, kn_value *x, const kn_shape *shape) {
    if (kn_value_failed(x) || same_dims(&x->shape, shape)) return x;
    kn_settings settings;
    kn_settings_init(&settings, call->graph, &kn_row_reshape);
    kn_settings_list(&settings, "shape", shape->rank, shape->dims);
    return kn_gradient_build(call, &kn_row_reshape, &x, 1, &settings);
}

kn_value *kn_gradient_cast(kn_gradient_call *call, kn_value *x, kn_dtype dtype) {
    if (kn_value_failed(x) || x->shape.dtype == dtype) return x;
    kn_settings settings;
    kn_settings_init(&settings, call->graph, &kn_row_cast);
    kn_settings_int(&settings, "dtype", dtype);
    return kn_gradient_build(call, &kn_row_cast, &x, 1, &settings);
}

kn_value *kn_gradient_broadcast(kn_gradient_call *call, kn_value *x, const kn_shape *shape) {
    if (kn_value_failed(x) || same_dims(&x->shape, shape)) return x;
    kn_settings settings;
    kn_settings_init(&settings, call->graph, &kn_row_broadcast);
    kn_settings_list(&settings, "shape", shape->rank, shape->dims);
    return kn_gradient_build(call, &kn_row_broadcast, &x, 1, &settings);
}

kn_status kn_gradient_status(kn_gradient_call *call) {
    return call->graph->error.status;
}
