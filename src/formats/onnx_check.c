/* ONNX: checks that names are unique. */
#include <string.h>

#include "formats/onnx_private.h"

/* Names seen so far in a scope. */
typedef struct names {
    kn_onnx_reader *in;
    const uint8_t *at; /* the message that contains the names */
    kn_map map;
    kn_status status;
} names;

/* Adds a name. `what` is its role, such as "an input"; a name with the role `allowed` may already exist. */
static void add(names *known, const char *what, const char *name, const char *allowed) {
    if (known->status != KN_OK) return;
    const char *before = kn_map_get_text(&known->map, name);
    if (before && before != allowed)
        known->status = kn_wire_refuse(&known->in->input, known->at, "\"%.200s\" names both %s and %s", name,
                                       before, strcmp(before, what) == 0 ? "another" : what);
    else if (!kn_map_put_text(&known->map, name, (void *)(uintptr_t)what))
        known->status = kn_fail_memory(known->in->input.error, strlen(name));
}

kn_status kn_onnx_check_graph(kn_onnx_reader *in, kn_wire bytes, const void *object) {
    static const char input[] = "an input", initializer[] = "an initializer",
                      output[] = "an output of a node";
    const kn_onnx_graph *graph = object;
    names known = {.in = in, .at = bytes.at};
    kn_map_init(&known.map, in->host);
    for (size_t i = 0; i < graph->input_count; i++)
        add(&known, input, graph->inputs[i].name, NULL);
    for (size_t i = 0; i < graph->initializer_count; i++)
        add(&known, initializer, graph->initializers[i].name, input);
    for (size_t i = 0; i < graph->sparse_initializer_count; i++)
        add(&known, initializer, graph->sparse_initializers[i].values.name, input);
    for (size_t i = 0; i < graph->node_count; i++)
        for (size_t j = 0; j < graph->nodes[i].output_count; j++)
            if (graph->nodes[i].outputs[j][0] != '\0') add(&known, output, graph->nodes[i].outputs[j], NULL);
    kn_map_finish(&known.map);
    return known.status;
}

kn_status kn_onnx_check_node(kn_onnx_reader *in, kn_wire bytes, const void *object) {
    static const char attribute[] = "an attribute";
    const kn_onnx_node *node = object;
    if (node->attribute_count < 2) return KN_OK;
    names known = {.in = in, .at = bytes.at};
    kn_map_init(&known.map, in->host);
    for (size_t i = 0; i < node->attribute_count; i++)
        add(&known, attribute, node->attributes[i].name, NULL);
    kn_map_finish(&known.map);
    return known.status;
}

kn_status kn_onnx_check_function(kn_onnx_reader *in, kn_wire bytes, const void *object) {
    static const char input[] = "an input", output[] = "an output of a node", attribute[] = "an attribute";
    const kn_onnx_function *function = object;
    names known = {.in = in, .at = bytes.at};
    kn_map_init(&known.map, in->host);
    for (size_t i = 0; i < function->input_count; i++)
        add(&known, input, function->inputs[i], NULL);
    for (size_t i = 0; i < function->node_count; i++)
        for (size_t j = 0; j < function->nodes[i].output_count; j++)
            if (function->nodes[i].outputs[j][0] != '\0')
                add(&known, output, function->nodes[i].outputs[j], NULL);
    kn_map_finish(&known.map);
    kn_map_init(&known.map, in->host);
    for (size_t i = 0; i < function->attribute_name_count; i++)
        add(&known, attribute, function->attribute_names[i], NULL);
    for (size_t i = 0; i < function->attribute_count; i++)
        add(&known, attribute, function->attributes[i].name, NULL);
    kn_map_finish(&known.map);
    return known.status;
}

/* A domain may be listed twice with the same version, as written by programs that merge models. */
static void add_opsets(names *known, const kn_onnx_model *model) {
    static const char domain[] = "a domain of operators";
    for (size_t i = 0; i < model->opset_count; i++) {
        const kn_onnx_opset *opset = &model->opsets[i];
        bool same = true;
        for (size_t k = 0; k < i; k++)
            if (!strcmp(model->opsets[k].domain, opset->domain))
                same = same && model->opsets[k].version == opset->version;
        add(known, domain, opset->domain, same ? domain : NULL);
    }
}

kn_status kn_onnx_check_model(kn_onnx_reader *in, kn_wire bytes, const void *object) {
    const kn_onnx_model *model = object;
    names known = {.in = in, .at = bytes.at};
    kn_map_init(&known.map, in->host);
    add_opsets(&known, model);
    kn_map_finish(&known.map);
    kn_map_init(&known.map, in->host);
    kn_text name;
    kn_text_init(&name, in->host);
    for (size_t i = 0; i < model->function_count && known.status == KN_OK; i++) {
        const kn_onnx_function *function = &model->functions[i];
        kn_text_clear(&name);
        kn_text_format(&name, "%s.%s:%s", function->domain, function->name, function->overload);
        if (kn_text_failed(&name))
            known.status = kn_fail_memory(in->input.error, name.length);
        else
            add(&known, "a function", name.data, NULL);
    }
    kn_text_finish(&name);
    kn_map_finish(&known.map);
    return known.status;
}
