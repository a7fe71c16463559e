/* Whether the graph of a model is built. */
#include "models/models_private.h"

bool kn_model_bound(const kn_model *model) {
    return model && model->status == KN_OK && !model->unbound;
}

kn_status kn_model_need_bound(kn_model *model, const char *function) {
    if (!model->unbound) return KN_OK;
    return kn_fail(&model->error, KN_ERROR_ARGUMENT,
                   "%s: the graph of '%s' is not built; build it for input shapes with kn_model_bind",
                   function, model->source);
}
