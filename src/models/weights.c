/* The list of a model's weights: which are trained, and why the others are not. */
#include <string.h>

#include "models/models_private.h"

/* ---- gradients ----------------------------------------------------------------------------------------- */

static bool passes(const kn_operator *row, int input) {
    if (row->gradient) return true;
    return row->class == KN_CLASS_POINTWISE && input < (int)KN_COUNT_OF(row->by) && row->by[input];
}

/* Marks, by id, the values that receive a gradient from the first output. */
static bool *mark_reached(const kn_model *model) {
    const kn_graph *graph = model->graph;
    bool *reached = kn_allocate(&model->host, graph->value_count + 1, sizeof *reached);
    if (!reached) return NULL;
    if (model->output_count)
        reached[model->outputs[0]->id] = kn_dtype_is_float(model->outputs[0]->shape.dtype);
    for (size_t i = graph->node_count; i-- > 0;) {
        const kn_node *node = graph->nodes[i];
        bool flows = false;
        for (int k = 0; k < node->output_count; k++)
            flows = flows || reached[node->outputs[k]->id];
        for (int k = 0; flows && k < node->input_count; k++)
            if (node->inputs[k] && kn_dtype_is_float(node->inputs[k]->shape.dtype) && passes(node->op, k))
                reached[node->inputs[k]->id] = true;
    }
    return reached;
}

/* ---- the list ------------------------------------------------------------------------------------------ */

bool kn_model_is_weight(const kn_value *value) {
    return value && value->kind == KN_VALUE_STATE &&
           (value->role == KN_STATE_PARAMETER || value->role == KN_STATE_STATISTIC);
}

static kn_model_weight of_state(kn_model *model, const kn_value *value, const bool *reached) {
    char shape[512];
    int64_t elements = kn_shape_elements(&value->shape);
    kn_value_shape_text(value, shape, sizeof shape);
    kn_model_weight weight = {.size = sizeof weight,
                              .name = value->name,
                              .type = kn_dtype_name(value->shape.dtype),
                              .shape = kn_arena_text(&model->arena, shape),
                              .elements = elements > 0 ? (uint64_t)elements : 0};
    weight.reason = value->role == KN_STATE_STATISTIC ? "updated by batches"
                    : value->frozen                   ? "frozen"
                    : !reached[value->id]             ? "gets no gradient from the first output"
                                                      : "";
    weight.trained = !weight.reason[0];
    weight.rule = "";
    return weight;
}

bool kn_model_add_weight(kn_model *model, const kn_model_weight *weight) {
    if (!weight->shape || !kn_reserve(&model->host, (void **)&model->weights, &model->weight_capacity,
                                      model->weight_count + 1, sizeof *model->weights))
        return kn_model_no_memory(model);
    model->weights[model->weight_count++] = *weight;
    return true;
}

bool kn_model_list_weights(kn_model *model) {
    const kn_graph *graph = model->graph;
    bool *reached = mark_reached(model);
    bool fine = reached || kn_model_no_memory(model);
    for (size_t i = 0; fine && i < graph->value_count; i++) {
        if (!kn_model_is_weight(graph->values[i])) continue;
        kn_model_weight weight = of_state(model, graph->values[i], reached);
        fine = kn_model_add_weight(model, &weight);
    }
    kn_release(&model->host, reached);
    return fine && (!model->origin->list_weights || model->origin->list_weights(model));
}

const char *kn_model_open_size_at(const kn_model *model, size_t position, bool *first) {
    if (!model || position >= (size_t)model->open_size_count) return NULL;
    if (first) *first = model->open_sizes[position].first;
    return model->open_sizes[position].name;
}

size_t kn_model_weight_count(const kn_model *model) {
    return model && model->status == KN_OK ? model->weight_count : 0;
}

bool kn_model_weight_at(const kn_model *model, size_t position, kn_model_weight *weight) {
    if (!weight || position >= kn_model_weight_count(model)) return false;
    kn_model_weight found = model->weights[position];
    const kn_value *value = found.trained ? kn_graph_find(model->graph, found.name) : NULL;
    if (value && value->frozen) { /* frozen after the list was made */
        found.trained = false;
        found.reason = "frozen";
    }
    return KN_RESULT_GIVE(kn_model_weight, weight, &found) == KN_OK;
}
