/* A graph as text, one line per input, state, constant and node. */
#include <inttypes.h>
#include <string.h>

#include "graph/graph_private.h"

static void print_attribute(const kn_graph *graph, const kn_attribute *attribute,
                            const kn_attribute_value *value, kn_text *text) {
    kn_text_format(text, " %s=", attribute->name);
    switch (attribute->kind) {
    case KN_ATTRIBUTE_INT:
        kn_text_format(text, "%" PRId64, value->integer);
        return;
    case KN_ATTRIBUTE_FLOAT:
        kn_text_number(text, value->number);
        return;
    case KN_ATTRIBUTE_BOOL:
        kn_text_add(text, value->integer ? "true" : "false");
        return;
    case KN_ATTRIBUTE_INTS:
        for (int i = 0; i < value->count; i++)
            kn_text_format(text, "%s%" PRId64, i ? "," : "", value->list[i]);
        return;
    case KN_ATTRIBUTE_DIMS:
        for (int i = 0; i < value->count; i++) {
            if (i > 0) kn_text_add(text, ",");
            kn_dim_text(graph, value->list[i], text);
        }
        return;
    case KN_ATTRIBUTE_CHOICE: {
        const char *word = attribute->list;
        for (int64_t i = 0; i < value->integer; i++) {
            word += strcspn(word, " ");
            word += strspn(word, " ");
        }
        kn_text_add_bytes(text, word, strcspn(word, " "));
        return;
    }
    }
}

static void print_leaf(const kn_graph *graph, const kn_value *value, kn_text *text) {
    static const char *const roles[] = {"parameter", "statistic", "optimizer", "control"};
    /* Kinds that depend on the shape have been resolved to uniform or normal. */
    static const char *const kinds[KN_INITIALIZER_ORTHOGONAL + 1] = {
        [KN_INITIALIZER_FILL] = "fill",
        [KN_INITIALIZER_UNIFORM] = "uniform",
        [KN_INITIALIZER_NORMAL] = "normal",
        [KN_INITIALIZER_TRUNCATED_NORMAL] = "truncated_normal",
        [KN_INITIALIZER_ORTHOGONAL] = "orthogonal",
    };
    static const char *const words[] = {"input", "state", "constant"};
    kn_text_format(text, "%s %s ", words[value->kind], value->name);
    kn_shape_text(graph, &value->shape, text);
    if (value->kind == KN_VALUE_STATE) {
        kn_text_format(text, " %s %s ", roles[value->role], kinds[value->initializer.kind]);
        kn_text_number(text, value->initializer.value);
        if (value->frozen) kn_text_add(text, " frozen");
    }
    if (value->kind == KN_VALUE_CONSTANT && kn_shape_elements(&value->shape) == 1) {
        kn_text_add(text, " ");
        kn_text_number(text, kn_element_get(value->shape.dtype, value->data, 0));
    }
    kn_text_add(text, "\n");
}

/* "y float32 (batch,10) = matmul(x, w) transpose_b=true", "state <- value" for an assign. */
static void print_node(const kn_graph *graph, const kn_node *node, kn_text *text) {
    const kn_operator *row = node->op;
    if (row->class == KN_CLASS_ASSIGN) {
        kn_text_format(text, "%s <- %s\n", node->inputs[0]->name, node->inputs[1]->name);
        return;
    }
    for (int i = 0; i < node->output_count; i++) {
        if (i > 0) kn_text_add(text, ", ");
        kn_text_format(text, "%s ", node->outputs[i]->name);
        kn_shape_text(graph, &node->outputs[i]->shape, text);
    }
    kn_text_format(text, " = %s", row->name);
    if (node->derivative) kn_text_format(text, "'%d", node->derivative);
    kn_text_add(text, "(");
    for (int i = 0; i < node->input_count; i++)
        kn_text_format(text, "%s%s", i ? ", " : "", node->inputs[i] ? node->inputs[i]->name : "-");
    kn_text_add(text, ")");
    for (int i = 0; i < row->attribute_count; i++)
        print_attribute(graph, &row->attributes[i], &node->attributes[i], text);
    kn_text_add(text, "\n");
}

void kn_graph_print(const kn_graph *graph, kn_text *text) {
    for (size_t i = 0; i < graph->value_count; i++)
        if (graph->values[i]->kind != KN_VALUE_RESULT) print_leaf(graph, graph->values[i], text);
    for (size_t i = 0; i < graph->node_count; i++)
        print_node(graph, graph->nodes[i], text);
    for (size_t i = 0; i < graph->output_count; i++)
        kn_text_format(text, "output %s\n", graph->outputs[i]->name);
}
