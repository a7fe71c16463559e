/* Weights from states, for the writers of language models. */
#include "exchange/language/language.h"
#include "run/run.h"

bool kn_language_numbers(kn_model *model, kn_states *states, const kn_value *value, float **numbers,
                         size_t *room) {
    const uint64_t count = (uint64_t)kn_shape_elements(&value->shape);
    kn_tensor_info info;
    kn_array array = {.type = KN_FLOAT32};
    if (!kn_reserve(&model->host, (void **)numbers, room, (size_t)count + 1, sizeof **numbers))
        return kn_model_no_memory(model);
    if (kn_states_info(states, value->name, &info)) array.type = info.dtype;
    const size_t bytes = (size_t)count * kn_dtype_bytes(array.type);
    void *narrow = array.type == KN_FLOAT32 ? NULL : kn_allocate(&model->host, bytes + 1, 1);
    if (array.type != KN_FLOAT32 && !narrow) return kn_model_no_memory(model);
    array.bytes = narrow ? narrow : *numbers;
    kn_status status = kn_states_get(states, value->name, narrow ? narrow : *numbers, bytes);
    for (uint64_t i = 0; i < count && narrow && status == KN_OK; i++)
        (*numbers)[i] = (float)kn_array_number(&array, i);
    kn_release(&model->host, narrow);
    if (status == KN_OK) return true;
    kn_fail(&model->error, status, "state '%s': %s", value->name, kn_states_error(states));
    return false;
}
