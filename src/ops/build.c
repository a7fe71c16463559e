/* Builds nodes: settings by name, nodes with one or two inputs, parsing of integer lists. */
#include "ops/build.h"

#include <string.h>

#include "ops/ops.h"
#include "ops/row.h"
#include "ops/shape/shape.h"

void kn_settings_init(kn_settings *settings, kn_graph *graph, const kn_operator *row) {
    memset(settings, 0, sizeof *settings);
    settings->row = row;
    kn_attributes_defaults(graph, row, settings->values);
}

static kn_attribute_value *setting(kn_settings *settings, const char *name) {
    kn_attribute_value *value = kn_row_attribute(settings->row, settings->values, name);
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
        kn_attribute_value *own = kn_row_attribute(settings->row, settings->values, name);
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
                             kn_row_no_attribute(settings->row, settings->unknown, text, sizeof text));
    return kn_node_add(graph, row, NULL, inputs, count, settings ? settings->values : NULL);
}

kn_value *kn_build1(const kn_operator *row, kn_value *x) {
    return kn_build(row, &x, 1, NULL);
}

kn_value *kn_missing(kn_value *x, const kn_value *input, const char *what, const char *name) {
    return input ? &x->graph->failed
                 : kn_graph_fail(x->graph, KN_ERROR_ARGUMENT, "%s: %s is NULL", what, name);
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
        if (!*at) at--; /* a trailing comma: expected a number */
    }
    if (!*at) return count;
    kn_graph_fail(graph, KN_ERROR_ARGUMENT,
                  "%s: \"%s\" at \"%s\": expected up to %d integers separated by commas", row->name, text, at,
                  most);
    return -1;
}

kn_value *kn_step_counter(kn_graph *graph) {
    kn_value *step = kn_graph_find(graph, KN_STEP_COUNTER);
    const kn_shape scalar = {.dtype = KN_UINT32};
    return step ? step : kn_state_add(graph, KN_STEP_COUNTER, &scalar, KN_STATE_CONTROL, NULL);
}

kn_value *kn_filled(kn_graph *graph, kn_dtype dtype, int64_t count, double number) {
    kn_value *one = kn_cast(kn_scalar(graph, number), dtype);
    if (kn_value_failed(one)) return &graph->failed;
    return kn_broadcast_to(one, 1, (kn_dim[]){count});
}
