/* Whether the graph of a model can be computed for given input shapes. */
#include <string.h>

#include "models/models_private.h"

/* The array for an input, by its name in the file or in the graph; an array without a name is for the first
 * input. */
static const kn_model_given *given_for(const kn_model *model, int position, const kn_model_given *given,
                                       size_t count) {
    for (size_t i = 0; i < count; i++) {
        const char *name = given[i].name ? given[i].name : "";
        if (*name ? !strcmp(name, kn_model_input_name_at(model, position)) ||
                        !strcmp(name, kn_value_name(model->inputs[position]))
                  : position == 0)
            return &given[i];
    }
    return NULL;
}

/* Whether a shape matches an input: sets its dynamic sizes, each to the same number in every use. */
static bool bind_input(const kn_model *model, const kn_value *input, const kn_tensor_info *info,
                       kn_binding *bindings, size_t *count) {
    kn_error error = {0};
    if (info->rank != input->shape.rank) return false;
    for (int d = 0; d < info->rank; d++) {
        const kn_dim dim = input->shape.dims[d];
        int64_t number = dim;
        if (info->shape[d] < 0) continue; /* fixed in the file */
        for (int i = 0; !kn_dim_known(dim) && kn_graph_symbol(model->graph, i); i++) {
            const char *symbol = kn_graph_symbol(model->graph, i);
            bool known = kn_dim_symbol(model->graph, symbol) != dim;
            for (size_t k = 0; k < *count && !known; k++)
                known = !strcmp(bindings[k].symbol, symbol);
            if (!known) bindings[(*count)++] = (kn_binding){symbol, info->shape[d]};
        }
        if (!kn_dim_known(dim) &&
            kn_dim_evaluate(model->graph, dim, bindings, *count, &number, &error) != KN_OK)
            return false;
        if (number != info->shape[d]) return false;
    }
    return true;
}

bool kn_model_fits(const kn_model *model, const kn_model_given *given, size_t given_count) {
    size_t count = 0;
    kn_error error = {0};
    if (!kn_model_bound(model) || (given_count && !given)) return false;
    int symbols = 0;
    while (kn_graph_symbol(model->graph, symbols))
        symbols++;
    kn_binding *bindings = kn_allocate(&model->host, (size_t)symbols + 1, sizeof *bindings);
    bool fits = bindings != NULL;
    for (int i = 0; fits && i < model->input_count; i++) {
        const kn_model_given *array = given_for(model, i, given, given_count);
        fits = !array || bind_input(model, model->inputs[i], &array->info, bindings, &count);
    }
    const kn_bind_request request = {.bindings = bindings, .binding_count = count};
    fits = fits &&
           kn_graph_try(model->graph, model->outputs, (size_t)model->output_count, &request, &error) == KN_OK;
    kn_release(&model->host, bindings);
    return fits;
}
