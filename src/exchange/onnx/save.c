/* Writes an imported model as an ONNX file: the structures of the opened file, with current weights and nodes
 * in inference form. */
#include "exchange/onnx/import.h"

#include <string.h>

/* ---- nodes that train ---------------------------------------------------------------------------------- */

/* Sets an integer attribute, adding it if it is missing. */
static bool set_attribute(kn_model *model, kn_onnx_node *node, const char *name, const int64_t *number) {
    kn_onnx_attribute *list =
        kn_arena_take(kn_imported_arena(model), node->attribute_count + 1, sizeof *list);
    size_t count = node->attribute_count, position = 0;
    if (!list) return kn_model_no_memory(model);
    if (count) memcpy(list, node->attributes, count * sizeof *list);
    while (position < count && strcmp(list[position].name, name))
        position++;
    list[position] = (kn_onnx_attribute){
        .name = name, .doc = "", .reference = "", .kind = KN_ONNX_ATTRIBUTE_INT, .count = 1, .ints = number};
    node->attributes = list;
    node->attribute_count = position == count ? count + 1 : count;
    return true;
}

/* Changes a node to inference form: a batch norm uses running statistics and has one output, a dropout loses
 * its input training_mode. */
static bool to_inference_form(kn_model *model, kn_onnx_node *node) {
    static const int64_t no = 0, yes = 1;
    if (!strcmp(node->type, "Dropout")) {
        if (node->input_count > 2) node->input_count = 2;
        return true;
    }
    if (node->output_count > 1) node->output_count = 1;
    if (kn_onnx_find_attribute(node, "training_mode"))
        return set_attribute(model, node, "training_mode", &no);
    return set_attribute(model, node, "is_test", &yes);
}

/* ---- weights ------------------------------------------------------------------------------------------- */

/* The values of a state, packed in the type of its tensor; NULL after a failure. */
static uint8_t *packed_state(kn_model *model, kn_states *states, const kn_import_state *state) {
    const kn_value *value = state->value;
    kn_dtype dtype = value->shape.dtype, stored = dtype;
    size_t bytes = (size_t)state->tensor->count * kn_dtype_bytes(dtype);
    uint8_t *data = kn_allocate(&model->host, bytes + 1, 1);
    if (!data) {
        kn_fail_memory(&model->error, bytes);
        return NULL;
    }
    kn_status status = kn_states_get(states, kn_value_name(value), data, bytes);
    if (status != KN_OK) {
        kn_fail(&model->error, status, "state '%s': %s", kn_value_name(value), kn_states_error(states));
        kn_release(&model->host, data);
        return NULL;
    }
    kn_onnx_type_to(state->tensor->type, &stored);
    /* The stored type is narrower than the state's type, so converting in place is safe. */
    if (stored != dtype)
        for (uint64_t i = 0; i < state->tensor->count; i++)
            kn_element_set(stored, data, (int64_t)i, kn_element_get(dtype, data, (int64_t)i));
    kn_onnx_pack(stored, data, state->tensor->count);
    return data;
}

static bool has_state(kn_states *states, const char *name) {
    int count = kn_states_count(states);
    for (int i = 0; i < count; i++) {
        kn_tensor_info info;
        const char *found = kn_states_at(states, i, &info);
        if (found && !strcmp(found, name)) return true;
    }
    return false;
}

/* Swaps the bytes of all weights with `bytes`; a second call swaps them back. The tensors are in the file's
 * arena, where they may be modified. */
static void exchange(const kn_imported *imported, const uint8_t **bytes) {
    for (size_t i = 0; i < imported->state_count; i++) {
        kn_onnx_tensor *tensor = (kn_onnx_tensor *)(uintptr_t)imported->states[i].tensor;
        const uint8_t *before = tensor->bytes;
        if (!bytes[i]) continue;
        tensor->bytes = bytes[i];
        bytes[i] = before;
    }
}

static kn_status write_with(kn_model *model, const char *path, kn_states *states, const kn_onnx_model *file) {
    const kn_imported *imported = kn_imported_of(model);
    size_t count = imported->state_count;
    const uint8_t **bytes = kn_allocate(&model->host, count + 1, sizeof *bytes);
    uint8_t **taken = kn_allocate(&model->host, count + 1, sizeof *taken);
    kn_status status = bytes && taken ? KN_OK : kn_fail_memory(&model->error, count * sizeof *bytes);
    for (size_t i = 0; status == KN_OK && states && i < count; i++) {
        if (!has_state(states, kn_value_name(imported->states[i].value))) continue; /* never used */
        bytes[i] = taken[i] = packed_state(model, states, &imported->states[i]);
        if (!taken[i]) status = model->error.status;
    }
    if (status == KN_OK) {
        exchange(imported, bytes);
        status = kn_onnx_write(&model->host, path, file, NULL, &model->error);
        exchange(imported, bytes);
    }
    for (size_t i = 0; taken && i < count; i++)
        kn_release(&model->host, taken[i]);
    kn_release(&model->host, (void *)bytes);
    kn_release(&model->host, taken);
    return status;
}

kn_status kn_import_save(kn_model *model, const char *path, kn_states *states,
                         const kn_model_save_params *params) {
    const kn_imported *imported = kn_imported_of(model);
    kn_onnx_model file = *imported->file;
    size_t count = file.metadata_count;
    kn_text_pair *pairs = kn_arena_take(&model->arena, count + params->pair_count + 1, sizeof *pairs);
    if (!pairs) return kn_fail_memory(&model->error, (count + params->pair_count) * sizeof *pairs);
    if (count) memcpy(pairs, file.metadata, count * sizeof *pairs);
    for (size_t i = 0; i < params->pair_count; i++) {
        size_t position = 0;
        while (position < count && strcmp(pairs[position].key, params->pairs[i].key))
            position++;
        pairs[position] = (kn_text_pair){params->pairs[i].key, params->pairs[i].value};
        if (position == count) count++;
    }
    file.metadata = pairs;
    file.metadata_count = count;
    for (size_t i = 0; i < imported->training_node_count; i++)
        if (!to_inference_form(model, (kn_onnx_node *)(uintptr_t)imported->training_nodes[i]))
            return model->error.status;
    return write_with(model, path, states, &file);
}
