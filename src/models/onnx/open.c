/* ONNX files as models: recognised, opened, and their parameters loaded. */
#include "models/onnx/import.h"

#include <string.h>

/* A message of protocol buffers that begins with the version of the format, as all writers do; a text model
 * begins with a letter or a sign that people can read. */
bool kn_onnx_is(const uint8_t *bytes, uint64_t count) {
    return count >= 4 && bytes[0] == 0x08 && bytes[1] < 0x80 &&
           (bytes[2] == 0x12 || bytes[2] == 0x1a || bytes[2] == 0x22 || bytes[2] == 0x28 ||
            bytes[2] == 0x32 || bytes[2] == 0x3a || bytes[2] == 0x42);
}

bool kn_import_open(kn_model *model, const char *path, const kn_model_params *params) {
    kn_model_params given = KN_MODEL_DEFAULTS;
    if (params) memcpy(&given, params, params->size < sizeof given ? params->size : sizeof given);
    model->onnx = kn_allocate(&model->host, 1, sizeof *model->onnx);
    if (!model->onnx) return kn_model_no_memory(model);
    if (kn_onnx_open(&model->host, path, model->onnx, &model->error) != KN_OK) {
        kn_release(&model->host, model->onnx);
        model->onnx = NULL;
        return false;
    }
    model->has_weights = true;
    return kn_import_onnx(model, &given);
}

static kn_status load_state(kn_model *model, kn_states *states, const kn_import_state *state) {
    kn_array array;
    kn_tensor_info info = {.dtype = state->value->shape.dtype, .rank = state->value->shape.rank};
    memcpy(info.shape, state->value->shape.dims, sizeof info.shape);
    kn_status status = kn_onnx_tensor_array(&model->host, state->tensor, &array, &model->error);
    if (status != KN_OK) return status;
    uint64_t bytes = 0;
    void *converted = NULL;
    kn_tensor_bytes(&info, &bytes);
    if (array.type != info.dtype) {
        converted = kn_allocate(&model->host, (size_t)bytes + 1, 1);
        for (uint64_t i = 0; converted && i < array.count; i++)
            kn_element_set(info.dtype, converted, (int64_t)i, kn_array_number(&array, i));
        if (!converted) status = kn_fail_memory(&model->error, (size_t)bytes);
    }
    if (status == KN_OK) {
        status = kn_states_set(states, kn_value_name(state->value), &info,
                               converted ? converted : array.bytes, (size_t)bytes);
        if (status != KN_OK)
            kn_fail(&model->error, status, "%s: '%.100s': %s", model->source, state->tensor->name,
                    kn_states_error(states));
    }
    kn_release(&model->host, converted);
    kn_array_finish(&model->host, &array);
    return status;
}

kn_status kn_import_load(kn_model *model, kn_states *states, int *loaded) {
    for (size_t i = 0; i < model->state_count; i++) {
        kn_status status = load_state(model, states, &model->states[i]);
        if (status != KN_OK) return status;
    }
    if (loaded) *loaded = (int)model->state_count;
    return KN_OK;
}
