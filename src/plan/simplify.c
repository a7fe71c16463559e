/* The simplify pass: removes nodes that change nothing, merges equal nodes, and removes nodes without
 * readers. */
#include <string.h>

#include "plan/plan_private.h"

typedef struct simplify_pass {
    kn_planner *planner;
    kn_value **instead; /* by value id: the value that replaces it, or NULL */
    kn_map seen;        /* from the key of a node to the node */
} simplify_pass;

static kn_value *replacement(const simplify_pass *pass, kn_value *value) {
    while (value && pass->instead[value->id])
        value = pass->instead[value->id];
    return value;
}

/* Whether a value is a float32 constant with one element, equal to `number`. */
static bool is_number(const kn_value *value, double number) {
    if (!value || value->kind != KN_VALUE_CONSTANT || value->shape.dtype != KN_FLOAT32) return false;
    return value->data_bytes == sizeof(float) && (double)*(const float *)value->data == number;
}

/* The input that a node returns unchanged, or NULL. */
static kn_value *passed_through(const kn_node *node) {
    if (node->derivative || node->output_count != 1 || !node->input_count || !node->inputs[0]) return NULL;
    const kn_operator *row = node->op;
    kn_value *x = node->inputs[0], *y = node->input_count > 1 ? node->inputs[1] : NULL;
    kn_value *result = NULL;
    if (row->class == KN_CLASS_VIEW || row->identity == KN_IDENTITY_ALWAYS) result = x;
    /* A copy of a state may be fetched after the state has changed. */
    else if (row->identity == KN_IDENTITY_WHOLE)
        result = kn_value_root(x)->kind == KN_VALUE_STATE ? NULL : x;
    else if (row->identity == KN_IDENTITY_INPUT)
        result = is_number(y, row->neutral) ? x : is_number(x, row->neutral) ? y : NULL;
    else if (row->identity == KN_IDENTITY_ATTRIBUTE)
        result = node->attributes[0].number == row->neutral ? x : NULL;
    const kn_value *output = node->outputs[0];
    if (!result || result->shape.dtype != output->shape.dtype ||
        !kn_shape_same(&result->shape, &output->shape))
        return NULL;
    return result;
}

static void add_bytes(kn_text *key, const void *bytes, size_t count) {
    kn_text_add_bytes(key, bytes, count);
}

/* Writes a key of everything that determines what a node computes. */
static void describe(const kn_node *node, kn_text *key) {
    add_bytes(key, &node->op, sizeof node->op);
    add_bytes(key, &node->derivative, sizeof node->derivative);
    add_bytes(key, &node->device, sizeof node->device);
    add_bytes(key, &node->stage, sizeof node->stage);
    for (int i = 0; i < node->input_count; i++) {
        int id = node->inputs[i] ? node->inputs[i]->id : -1;
        add_bytes(key, &id, sizeof id);
    }
    add_bytes(key, "/", 1);
    for (int a = 0; a < node->op->attribute_count; a++) {
        const kn_attribute_value *value = &node->attributes[a];
        add_bytes(key, &value->integer, sizeof value->integer);
        add_bytes(key, &value->number, sizeof value->number);
        add_bytes(key, &value->count, sizeof value->count);
        add_bytes(key, value->list, (size_t)value->count * sizeof *value->list);
    }
    /* A view may now be of another value, so its given attributes no longer determine its shape. */
    for (int i = 0; i < node->output_count; i++) {
        const kn_shape *shape = &node->outputs[i]->shape;
        add_bytes(key, &shape->dtype, sizeof shape->dtype);
        add_bytes(key, &shape->rank, sizeof shape->rank);
        add_bytes(key, shape->dims, (size_t)shape->rank * sizeof *shape->dims);
    }
}

/* Data-parallel workers have different plans and must share the same values: equal gradients are not
 * merged. */
static kn_status merge_equal(simplify_pass *pass, kn_node *node) {
    if (node->op->class == KN_CLASS_ASSIGN || node->op->random || node->op->transient || kn_node_shares(node))
        return KN_OK;
    kn_text key;
    kn_text_init(&key, pass->planner->host);
    describe(node, &key);
    kn_node *same = kn_map_get(&pass->seen, key.data, key.length);
    bool fine = !kn_text_failed(&key) && (same || kn_map_put(&pass->seen, key.data, key.length, node));
    size_t length = key.length;
    kn_text_finish(&key);
    if (!fine) return kn_fail_memory(pass->planner->error, length);
    for (int i = 0; same && i < node->output_count; i++)
        pass->instead[node->outputs[i]->id] = same->outputs[i];
    return KN_OK;
}

/* Removes the nodes on which neither a wanted value nor an assign depends. */
static kn_status remove_unread(kn_planner *planner) {
    kn_graph *graph = planner->graph;
    bool *needed = kn_allocate(planner->host, graph->node_count + 1, sizeof *needed);
    if (!needed) return kn_fail_memory(planner->error, graph->node_count);
    for (size_t i = 0; i < planner->wanted_count; i++)
        if (planner->wanted[i]->producer) needed[planner->wanted[i]->producer->id] = true;
    for (size_t i = graph->node_count; i-- > 0;) {
        const kn_node *node = graph->nodes[i];
        if (node->op->class == KN_CLASS_ASSIGN) needed[i] = true;
        for (int j = 0; needed[i] && j < node->input_count; j++)
            if (node->inputs[j] && node->inputs[j]->producer) needed[node->inputs[j]->producer->id] = true;
    }
    size_t kept = 0;
    for (size_t i = 0; i < graph->node_count; i++)
        if (needed[i]) {
            graph->nodes[kept] = graph->nodes[i];
            graph->nodes[kept]->id = (int)kept;
            kept++;
        }
    graph->node_count = kept;
    kn_release(planner->host, needed);
    return KN_OK;
}

kn_status kn_pass_simplify(kn_planner *planner) {
    kn_graph *graph = planner->graph;
    simplify_pass pass = {.planner = planner};
    if (kn_move_views(planner) != KN_OK) return planner->error->status;
    pass.instead = kn_allocate(planner->host, graph->value_count + 1, sizeof *pass.instead);
    if (!pass.instead) return kn_fail_memory(planner->error, graph->value_count * sizeof *pass.instead);
    kn_map_init(&pass.seen, planner->host);
    kn_status status = KN_OK;
    for (size_t i = 0; i < graph->node_count && status == KN_OK; i++) {
        kn_node *node = graph->nodes[i];
        planner->work += 1 + (uint64_t)node->input_count;
        for (int j = 0; j < node->input_count; j++) {
            node->inputs[j] = replacement(&pass, node->inputs[j]);
            /* A view of a view becomes a view of the underlying value. */
            if (node->op->class == KN_CLASS_VIEW && node->inputs[j])
                node->inputs[j] = kn_value_root(node->inputs[j]);
        }
        kn_value *same = passed_through(node);
        if (same)
            pass.instead[node->outputs[0]->id] = same;
        else
            status = merge_equal(&pass, node);
    }
    for (size_t i = 0; i < planner->wanted_count; i++)
        planner->wanted[i]->wanted = false; /* what is replaced is not computed */
    for (size_t i = 0; i < planner->wanted_count; i++) {
        planner->wanted[i] = replacement(&pass, planner->wanted[i]);
        planner->wanted[i]->wanted = true;
    }
    kn_map_finish(&pass.seen);
    kn_release(planner->host, pass.instead);
    if (status == KN_OK) status = remove_unread(planner);
    return status;
}
