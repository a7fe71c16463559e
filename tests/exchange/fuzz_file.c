/* libFuzzer's entry to models from files: ONNX, which becomes a graph, and safetensors with the text of their
 * model. */
#include <string.h>

#include "../fuzz_file.h"
#include "../models/fake_states.h"
#include "exchange_tests.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* If the file has weights they can be loaded, or the error says why not. */
static bool loads(kn_model *model) {
    kn_states *states = fake_states_make();
    if (!states) return true;
    kn_status status = kn_model_has_weights(model) ? kn_model_load(model, NULL, states, NULL, NULL) : KN_OK;
    fake_states_release(states);
    return status == KN_OK || kn_model_error(model)[0] != '\0';
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    const char *path = fuzz_file(bytes, count);
    kn_model *model = path ? kn_model_open(path, NULL) : NULL;
    if (!model) return 0;
    bool good = kn_model_status(model) == KN_OK;
    if (good != (kn_model_error(model)[0] == '\0')) abort();
    if (good && !loads(model)) abort();
    for (size_t i = 0; i < kn_model_weight_count(model); i++) {
        kn_model_weight weight = {.size = sizeof weight};
        if (!kn_model_weight_at(model, i, &weight)) abort();
    }
    kn_model_destroy(&model);
    return 0;
}
