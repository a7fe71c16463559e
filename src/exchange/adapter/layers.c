/* The rows of q and k in language models, whose order differs between files, and matrices of adapters. */
#include <string.h>

#include "exchange/adapter/adapter.h"

/* A text value of the GGUF file that the model was opened from. */
static bool is_architecture(const kn_model *model, const char *name) {
    kn_gguf_text text = {0};
    kn_error error = {0};
    return model->gguf && kn_gguf_string(model->gguf, "general.architecture", &text, &error) == KN_OK &&
           text.bytes && strlen(name) == text.count && !memcmp(text.bytes, name, text.count);
}

bool kn_adapter_alternates(const kn_model *model) {
    return is_architecture(model, "llama");
}

static bool ends_with(const char *text, const char *ending) {
    const size_t length = strlen(text), own = strlen(ending);
    return length >= own && !strcmp(text + length - own, ending);
}

int64_t kn_adapter_heads(kn_model *model, const char *layer, int64_t units) {
    const bool q = ends_with(layer, ".attn_q"), k = ends_with(layer, ".attn_k");
    int64_t heads = 0, key_heads;
    if ((!q && !k) || !kn_adapter_alternates(model)) return 0;
    kn_status status =
        kn_gguf_integer(model->gguf, "llama.attention.head_count", 1, INT32_MAX, &heads, &model->error);
    key_heads = heads;
    if (status == KN_OK)
        status = kn_gguf_integer(model->gguf, "llama.attention.head_count_kv", 1, INT32_MAX, &key_heads,
                                 &model->error);
    if (k) heads = key_heads;
    if (status == KN_OK && heads > 0 && units % (2 * heads) == 0) return heads;
    if (status == KN_OK)
        kn_fail(&model->error, KN_ERROR_SHAPE,
                "layer '%s' has %lld rows for %lld heads; expected pairs of rows", layer, (long long)units,
                (long long)heads);
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
    const int64_t heads = b ? kn_adapter_heads(model, layer->layer, rows) : 0;
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
    if (model->error.status == KN_OK && heads && !alternates) {
        kn_adapter_reorder(numbers, moved, rows, columns, heads, true);
        memcpy(numbers, moved, count * sizeof *numbers);
    }
    kn_release(&model->host, moved);
    if (model->error.status == KN_OK) return numbers;
    kn_release(&model->host, numbers);
    return NULL;
}
