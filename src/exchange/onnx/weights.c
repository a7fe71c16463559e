/* Adds the initializers of an ONNX file to a model's list of weights, with the reasons why they are trained
 * or not. */
#include <inttypes.h>

#include "exchange/onnx/import.h"

/* Weights in the list share the name pointers of their values. */
static void add_rules(kn_model *model, const kn_imported *imported) {
    for (size_t i = 0; i < model->weight_count; i++) {
        kn_model_weight *weight = &model->weights[i];
        for (size_t k = 0; k < imported->state_count && weight->trained; k++) {
            const kn_import_state *state = &imported->states[k];
            const kn_trainability *trainable =
                state->value->name == weight->name ? kn_import_trainability(imported, state->tensor) : NULL;
            if (trainable) weight->rule = trainable->why;
        }
    }
}

/* Adds an initializer that is not a state of the graph. */
static bool add_tensor(kn_model *model, const kn_onnx_tensor *tensor, const kn_trainability *trainable) {
    kn_text text;
    kn_text_init(&text, &model->host);
    for (size_t i = 0; i < tensor->rank; i++)
        kn_text_format(&text, "%s%" PRId64, i ? "," : "", tensor->shape[i]);
    kn_model_weight weight = {.size = sizeof weight,
                              .name = tensor->name,
                              .type = kn_onnx_type_name(tensor->type),
                              .shape = kn_text_failed(&text) ? NULL : kn_arena_text(&model->arena, text.data),
                              .elements = tensor->count,
                              .reason = trainable->yes ? "only used for sizes or attributes, or unused"
                                                       : trainable->why,
                              .rule = ""};
    if (!tensor->rank) weight.shape = "";
    kn_text_finish(&text);
    return kn_model_add_weight(model, &weight);
}

static bool is_state(const kn_imported *imported, const kn_onnx_tensor *tensor) {
    for (size_t i = 0; i < imported->state_count; i++)
        if (imported->states[i].tensor == tensor) return true;
    return false;
}

bool kn_import_list_weights(kn_model *model) {
    const kn_imported *imported = kn_imported_of(model);
    const kn_onnx_graph *graph = &imported->file->graph;
    bool fine = true;
    add_rules(model, imported);
    for (size_t i = 0; fine && i < graph->initializer_count; i++)
        if (!is_state(imported, &graph->initializers[i]))
            fine = add_tensor(model, &graph->initializers[i],
                              kn_import_trainability(imported, &graph->initializers[i]));
    return fine;
}
