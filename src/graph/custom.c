/* Custom operators: creation, lifetime and use, and pointwise operators. Kernels are in custom_kernel.c. */
#include <stdio.h>
#include <string.h>

#include "graph/custom_private.h"

/* ---- lifetime -------------------------------------------------------------------------------------- */

void kn_custom_fail(struct kn_custom *custom, kn_status status, const char *format, ...) {
    char text[sizeof custom->error.text];
    va_list arguments;
    if (custom->error.status != KN_OK) return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    kn_fail(&custom->error, status, "operator '%s': %s", custom->row.name, text);
}

int kn_custom_attribute(const struct kn_custom *custom, const char *name) {
    for (int i = 0; i < custom->row.attribute_count; i++)
        if (strcmp(custom->attributes[i].name, name) == 0) return i;
    return -1;
}

/* "slope=0.01 steps=3" */
static void read_attributes(struct kn_custom *custom, const char *text) {
    for (int count = 0;; custom->row.attribute_count = ++count) {
        text += strspn(text, " \t\r\n");
        size_t length = strcspn(text, " \t\r\n"), name = strcspn(text, "= \t\r\n");
        if (length == 0) return;
        const char *end = text;
        double number = 0;
        if (count == KN_MAX_ATTRIBUTES) {
            kn_custom_fail(custom, KN_ERROR_ARGUMENT, "more than %d attributes", KN_MAX_ATTRIBUTES);
            return;
        }
        bool reads = name < length && kn_expression_is_name(text, name) &&
                     kn_parse_double(text + name + 1, &end, &number);
        if (!reads || end != text + length) {
            kn_custom_fail(custom, KN_ERROR_FORMAT,
                           "attribute '%.*s': expected a name and a default, as in slope=0.01",
                           (int)(length < 80 ? length : 80), text);
            return;
        }
        char *word = kn_arena_take(&custom->arena, name + 1, 1);
        if (!word) {
            kn_custom_fail(custom, KN_ERROR_MEMORY, "out of host memory");
            return;
        }
        memcpy(word, text, name);
        bool letter = name == 1 && strchr("xyzrg", word[0]);
        if (letter || !strcmp(word, "uniform") || kn_custom_attribute(custom, word) >= 0) {
            kn_custom_fail(custom, KN_ERROR_ARGUMENT, "attribute '%s': %s", word,
                           letter || !strcmp(word, "uniform") ? "the name is reserved in expressions"
                                                              : "it is listed twice");
            return;
        }
        bool whole = strspn(text + name + 1, "+-0123456789") == length - name - 1;
        custom->attributes[count] = (kn_attribute){.name = word,
                                                   .kind = whole ? KN_ATTRIBUTE_INT : KN_ATTRIBUTE_FLOAT,
                                                   .number = number,
                                                   .help = ""};
        text += length;
    }
}

struct kn_custom *kn_custom_make(const kn_allocator *allocator, const char *name, const char *attributes) {
    kn_host host = kn_host_with(allocator);
    struct kn_custom *custom = kn_allocate(&host, 1, sizeof *custom);
    if (!custom) return NULL;
    custom->host = host;
    atomic_init(&custom->holders, 1);
    kn_arena_init(&custom->arena, &custom->host);
    custom->row = (kn_operator){.name = kn_arena_text(&custom->arena, name ? name : ""),
                                .help = "a custom operator",
                                .attributes = custom->attributes,
                                .custom = custom};
    if (!custom->row.name) {
        kn_arena_finish(&custom->arena);
        kn_release(&host, custom);
        return NULL;
    }
    if (!kn_expression_is_name(custom->row.name, strlen(custom->row.name)) || strlen(custom->row.name) > 64)
        kn_custom_fail(custom, KN_ERROR_ARGUMENT,
                       "its name must consist of letters, digits and '_', at most 64");
    else if (kn_operator_find(custom->row.name))
        kn_custom_fail(custom, KN_ERROR_ARGUMENT,
                       "the library already has an operator of that name; choose another");
    if (attributes) read_attributes(custom, attributes);
    return custom;
}

/* ---- pointwise -------------------------------------------------------------------------------------- */

static const char *const letters[] = {"x", "y", "z"};

/* Parses an expression that may read these inputs and, for a gradient, r and g. */
static void check_expression(struct kn_custom *custom, const char *what, const char *text, int inputs,
                             bool gradient) {
    kn_error error = {0};
    kn_expression *expression = NULL;
    if (custom->error.status != KN_OK) return;
    if (kn_expression_parse(&custom->arena, text, &expression, &error) != KN_OK) {
        kn_custom_fail(custom, error.status, "%s: %s", what, error.text);
        return;
    }
    for (int i = 0; i < kn_expression_name_count(expression); i++) {
        const char *name = kn_expression_name(expression, i);
        bool known = kn_custom_attribute(custom, name) >= 0 ||
                     (gradient && (!strcmp(name, "r") || !strcmp(name, "g")));
        for (int j = 0; j < inputs; j++)
            known = known || !strcmp(name, letters[j]);
        if (known) continue;
        const char *place = strstr(text, name);
        kn_custom_fail(custom, KN_ERROR_NOT_FOUND, "%s: expression '%.300s', column %zu: '%s' is not %s",
                       what, text, place ? (size_t)(place - text) + 1 : 1, name,
                       gradient ? "an input that the value reads, an attribute, r or g"
                                : "an attribute or one of the inputs x, y and z");
        return;
    }
}

KN_DEFINE_INIT(kn_pointwise_params, KN_POINTWISE_DEFAULTS)

kn_operator *kn_operator_create_pointwise(const kn_pointwise_params *params) {
    static const char *const by[] = {"gradients[0] (of x)", "gradients[1] (of y)", "gradients[2] (of z)"};
    kn_pointwise_params given = KN_POINTWISE_DEFAULTS;
    kn_error error = {0};
    KN_PARAMS_TAKE(kn_pointwise_params, &given, params, &error);
    struct kn_custom *custom = kn_custom_make(&given.allocator, given.name, given.attributes);
    if (!custom) return NULL;
    if (error.status != KN_OK) kn_custom_fail(custom, error.status, "%s", error.text);
    kn_operator *row = &custom->row;
    row->class = KN_CLASS_POINTWISE;
    row->value = kn_arena_text(&custom->arena, given.value ? given.value : "");
    bool memory = row->value != NULL;
    for (int i = 0; i < 3 && memory; i++)
        if (given.gradients[i])
            memory = (row->by[i] = kn_arena_text(&custom->arena, given.gradients[i])) != NULL;
    if (!memory) {
        kn_custom_fail(custom, KN_ERROR_MEMORY, "out of host memory");
        return row;
    }
    int least = 0, inputs = 0;
    check_expression(custom, "value", row->value, 3, false);
    kn_operator_arity(row, &least, &inputs);
    if (inputs == 0)
        kn_custom_fail(custom, KN_ERROR_ARGUMENT,
                       "value: expression '%.300s' reads no input; name the first one x", row->value);
    for (int i = 0; i < 3; i++) {
        if (row->by[i] && i >= inputs)
            kn_custom_fail(custom, KN_ERROR_ARGUMENT, "%s: the value expression does not read that input",
                           by[i]);
        if (row->by[i]) check_expression(custom, by[i], row->by[i], inputs, true);
    }
    return row;
}

/* ---- use -------------------------------------------------------------------------------------------- */

kn_status kn_operator_status(const kn_operator *custom) {
    return custom ? custom->custom->error.status : KN_ERROR_ARGUMENT;
}

const char *kn_operator_error(const kn_operator *custom) {
    return custom ? custom->custom->error.text : "the operator is NULL";
}

void kn_operator_destroy(kn_operator **custom) {
    if (!custom || !*custom) return;
    kn_custom_drop((*custom)->custom);
    *custom = NULL;
}

kn_value *kn_apply_operator(const kn_operator *custom, kn_value *const *inputs, size_t count,
                            const char *attributes) {
    kn_graph *graph = NULL;
    for (size_t i = 0; inputs && i < count && !graph; i++)
        if (inputs[i]) graph = inputs[i]->graph;
    if (!graph) return NULL;
    if (graph->error.status != KN_OK) return &graph->failed;
    if (!custom) return kn_graph_fail(graph, KN_ERROR_ARGUMENT, "kn_apply_operator: the operator is NULL");
    if (custom->custom->error.status != KN_OK) return kn_graph_fail_with(graph, &custom->custom->error);
    return kn_row_apply(graph, custom, inputs, count, attributes);
}
