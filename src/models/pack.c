/* Several texts in one row: attention sees only positions from the first of its text on. */
#include <string.h>

#include "models/models_private.h"

static bool is_attention(const kn_node *node) {
    return !node->derivative &&
           (!strcmp(node->op->name, "attention") || !strcmp(node->op->name, "attention_dropout"));
}

/* The index of the first keys among a node's inputs: after q, k and v, before the step counter. */
static int place_of(const kn_node *node) {
    return node->input_count - (node->op->random ? 1 : 0);
}

/* Inserts `first` into the inputs of attention nodes, or removes it. */
static bool change_nodes(kn_model *model, kn_value *first, bool packed) {
    for (size_t i = 0; i < model->graph->node_count; i++) {
        kn_node *node = model->graph->nodes[i];
        if (!is_attention(node)) continue;
        const size_t count = (size_t)node->input_count;
        const size_t at = (size_t)place_of(node) - (packed ? 0 : 1), rest = count - at - (packed ? 0 : 1);
        kn_value **inputs = kn_arena_take(&model->graph->arena, count + 1, sizeof *inputs);
        if (!inputs) return kn_model_no_memory(model);
        memcpy(inputs, node->inputs, at * sizeof *inputs);
        if (packed) inputs[at] = first;
        memcpy(inputs + at + packed, node->inputs + count - rest, rest * sizeof *inputs);
        node->inputs = inputs;
        node->input_count += packed ? 1 : -1;
    }
    return true;
}

/* Adds the input `first`, like the model's input. NULL with the error set. */
static kn_value *add_input(kn_model *model) {
    char shape[256];
    const size_t count = (size_t)model->input_count;
    if (kn_graph_find(model->graph, KN_MODEL_FIRST)) {
        kn_fail(&model->error, KN_ERROR_ARGUMENT, "kn_model_pack: model '%s' already has a value '%s'",
                model->name, KN_MODEL_FIRST);
        return NULL;
    }
    if (kn_value_shape_text(model->inputs[0], shape, sizeof shape) >= sizeof shape) {
        kn_model_no_memory(model);
        return NULL;
    }
    kn_value *first = kn_input(model->graph, KN_MODEL_FIRST, KN_INT32, shape);
    kn_value **inputs = kn_arena_take(&model->arena, count + 1, sizeof *inputs);
    if (!inputs || kn_value_failed(first)) {
        kn_model_no_memory(model);
        return NULL;
    }
    memcpy(inputs, model->inputs, count * sizeof *inputs);
    inputs[count] = model->first = first;
    model->inputs = inputs;
    return first;
}

static bool can_pack(kn_model *model) {
    if (model->input_count == 1 && kn_model_sees_distances(model)) return true;
    kn_fail(&model->error, KN_ERROR_UNSUPPORTED,
            "model '%s' cannot be trained with several samples in a row: expected one input of tokens, "
            "positions that only causal attention connects, and no table of positions",
            model->name);
    return false;
}

kn_status kn_model_pack(kn_model *model, bool packed) {
    if (!model) return KN_ERROR_ARGUMENT;
    if (model->status != KN_OK) return model->status;
    kn_error_clear(&model->error);
    if (kn_model_need_bound(model, "kn_model_pack") != KN_OK) return model->error.status;
    if (packed == model->packed || (packed && !can_pack(model))) return model->error.status;
    if (packed && !model->first && !add_input(model)) return model->error.status;
    if (!change_nodes(model, model->first, packed)) return model->error.status;
    model->packed = packed;
    model->input_count += packed ? 1 : -1;
    return KN_OK;
}
