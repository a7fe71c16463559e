/* The rows of q and k in language models, whose order differs between files, and matrices of adapters. */
#include <string.h>

#include "exchange/adapter/adapter.h"

bool kn_adapter_alternates(const kn_model *model) {
    return !strcmp(kn_model_row_order(model), " order=alternating");
}

static bool ends_with(const char *text, const char *ending) {
    const size_t length = strlen(text), own = strlen(ending);
    return length >= own && !strcmp(text + length - own, ending);
}

/* The heads of the rotation of a layer's result, perhaps after a bias and norms; 0: it is not rotated. */
static int64_t rotated_heads(const kn_graph *graph, const char *layer) {
    const size_t length = strlen(layer);
    for (size_t i = 0; i < graph->node_count; i++) {
        const kn_node *node = graph->nodes[i], *from = node;
        if (strcmp(node->op->name, "rotary") != 0 || node->derivative) continue;
        do
            from = from->input_count && from->inputs[0] ? from->inputs[0]->producer : NULL;
        while (from && strcmp(from->op->name, "matmul") != 0);
        if (from && !strncmp(from->name, layer, length) &&
            (!from->name[length] || !strcmp(from->name + length, ".product")))
            return kn_attribute_of(node, "heads")->integer;
    }
    return 0;
}

int64_t kn_adapter_heads(kn_model *model, const char *layer, int64_t units, bool file_alternates) {
    const bool rotated = ends_with(layer, ".attn_q") || ends_with(layer, ".attn_k");
    if (!rotated || !*kn_model_row_order(model) || kn_adapter_alternates(model) == file_alternates) return 0;
    const int64_t heads = rotated_heads(model->graph, layer);
    if (heads > 0 && units % (2 * heads) == 0) return heads;
    kn_fail(&model->error, KN_ERROR_UNSUPPORTED,
            "layer '%s': its rows have another order in the file, and the result of its %lld rows is rotated "
            "with %lld heads; expected heads that divide the rows into pairs",
            layer, (long long)units, (long long)heads);
    return -1;
}

void kn_adapter_reorder(const float *from, float *to, int64_t units, int64_t columns, int64_t heads,
                        bool to_halves) {
    const int64_t head = units / heads, half = head / 2;
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < half; i++)
            for (int64_t part = 0; part < 2; part++) {
                const int64_t alternating = h * head + 2 * i + part, halves = h * head + part * half + i;
                memcpy(to + (to_halves ? halves : alternating) * columns,
                       from + (to_halves ? alternating : halves) * columns, (size_t)columns * sizeof *to);
            }
}

float *kn_adapter_matrix(kn_model *model, const kn_adapted *layer, bool b, bool alternates,
                         kn_states *states) {
    const kn_value *value = b ? layer->b : layer->a;
    const int64_t rows = value->shape.dims[0], columns = value->shape.dims[1];
    const size_t count = (size_t)(rows * columns);
    const int64_t heads = b ? kn_adapter_heads(model, layer->layer, rows, alternates) : 0;
    if (heads < 0) return NULL;
    float *numbers = kn_allocate(&model->host, count, sizeof *numbers);
    float *moved = heads ? kn_allocate(&model->host, count, sizeof *moved) : NULL;
    if (!numbers || (heads && !moved)) {
        kn_fail_memory(&model->error, count * sizeof *numbers);
    } else {
        kn_status status = kn_states_get(states, value->name, numbers, count * sizeof *numbers);
        if (status != KN_OK)
            kn_fail(&model->error, status, "state '%s': %s", value->name, kn_states_error(states));
    }
    if (model->error.status == KN_OK && heads) {
        kn_adapter_reorder(numbers, moved, rows, columns, heads, !alternates);
        memcpy(numbers, moved, count * sizeof *numbers);
    }
    kn_release(&model->host, moved);
    if (model->error.status == KN_OK) return numbers;
    kn_release(&model->host, numbers);
    return NULL;
}
