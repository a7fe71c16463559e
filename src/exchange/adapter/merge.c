/* Adds an adapter to the weights of a model without one. */
#include <math.h>
#include <string.h>

#include "exchange/adapter/adapter.h"

typedef struct merging {
    kn_model *model;
    kn_states *states;
    const kn_adapter_file *file;
    double scale;
} merging;

/* The product that reads a weight, if nothing else does; otherwise NULL with the model's error set. */
static const kn_node *reader_of(const merging *m, const kn_adapter_pair *pair, const kn_value *weight) {
    const kn_graph *graph = m->model->graph;
    const kn_node *found = NULL;
    int readers = 0;
    for (size_t i = 0; weight && i < graph->node_count; i++)
        for (int k = 0; k < graph->nodes[i]->input_count; k++)
            if (graph->nodes[i]->inputs[k] == weight) {
                readers++;
                if (k == 1 && !strcmp(graph->nodes[i]->op->name, "matmul")) found = graph->nodes[i];
            }
    if (found && readers == 1 && weight->shape.rank == 2 && weight->shape.dtype == KN_FLOAT32) return found;
    kn_fail(&m->model->error, readers > 1 ? KN_ERROR_UNSUPPORTED : KN_ERROR_NOT_FOUND,
            readers > 1 ? "%s: '%.200s' cannot be merged: layer '%s' of model '%s' shares its weight with "
                          "another layer, which would change as well"
                        : "%s: '%.200s' is for layer '%s', but model '%s' has no such linear layer",
            m->file->path, pair->name, pair->layer, m->model->name);
    return NULL;
}

static const kn_value *weight_of(const merging *m, const kn_adapter_pair *pair) {
    kn_model *model = m->model;
    const char *name = kn_arena_format(&model->arena, "%s.weight", pair->layer);
    if (!name) kn_model_no_memory(model);
    return name ? kn_graph_find(model->graph, name) : NULL;
}

/* Whether the weight is (units,inputs) and not (inputs,units). */
static bool is_by_units(const kn_node *product) {
    return kn_attribute_of(product, "transpose_b")->integer != 0;
}

static bool check(const merging *m, const kn_adapter_pair *pair) {
    const kn_value *weight = weight_of(m, pair);
    const kn_node *product = m->model->error.status == KN_OK ? reader_of(m, pair, weight) : NULL;
    if (!product) return false;
    const bool by_units = is_by_units(product);
    const int64_t units = weight->shape.dims[!by_units], inputs = weight->shape.dims[by_units];
    if (pair->b.shape[0] == units && pair->a.shape[1] == inputs)
        return kn_adapter_heads(m->model, pair->layer, units, m->file->alternates) >= 0;
    kn_fail(&m->model->error, KN_ERROR_SHAPE,
            "%s: '%.200s' is for %lld inputs and %lld units; layer '%s' of the model has %lld and %lld",
            m->file->path, pair->name, (long long)pair->a.shape[1], (long long)pair->b.shape[0], pair->layer,
            (long long)inputs, (long long)units);
    return false;
}

/* The elements of a matrix, finite; NULL with the model's error set. */
static float *numbers_of(const merging *m, const kn_adapter_pair *pair, const kn_array *array) {
    kn_model *model = m->model;
    float *numbers = kn_allocate(&model->host, (size_t)array->count + 1, sizeof *numbers);
    if (!numbers) kn_fail_memory(&model->error, (size_t)array->count * sizeof *numbers);
    for (uint64_t i = 0; numbers && i < array->count && model->error.status == KN_OK; i++) {
        numbers[i] = (float)kn_array_number(array, i);
        if (!isfinite(numbers[i]))
            kn_fail(&model->error, KN_ERROR_NOT_FINITE,
                    "%s: a matrix of '%.200s' has a number that is not finite", m->file->path, pair->name);
    }
    if (model->error.status == KN_OK) return numbers;
    kn_release(&model->host, numbers);
    return NULL;
}

/* w += scale * b a: w is (units,inputs), or (inputs,units); a is (rank,inputs), b (units,rank). `row`,
 * (inputs), is memory. */
static void add_product(const merging *m, float *w, bool by_units, const kn_adapter_pair *pair,
                        const float *a, const float *b, double *row) {
    const int64_t units = pair->b.shape[0], inputs = pair->a.shape[1], rank = pair->a.shape[0];
    for (int64_t unit = 0; unit < units; unit++) {
        for (int64_t i = 0; i < inputs; i++)
            row[i] = 0;
        for (int64_t r = 0; r < rank; r++) {
            const double factor = (double)b[unit * rank + r];
            for (int64_t i = 0; i < inputs; i++)
                row[i] += factor * (double)a[r * inputs + i];
        }
        for (int64_t i = 0; i < inputs; i++) {
            float *to = &w[by_units ? unit * inputs + i : i * units + unit];
            *to = (float)((double)*to + m->scale * row[i]);
        }
    }
}

static void merge(const merging *m, const kn_adapter_pair *pair) {
    kn_model *model = m->model;
    const kn_value *weight = weight_of(m, pair);
    const int64_t units = pair->b.shape[0], inputs = pair->a.shape[1], rank = pair->a.shape[0];
    const size_t count = (size_t)(units * inputs);
    const kn_tensor_info info = {KN_FLOAT32, 2, {weight->shape.dims[0], weight->shape.dims[1]}};
    const int64_t heads = kn_adapter_heads(model, pair->layer, units, m->file->alternates);
    float *a = numbers_of(m, pair, &pair->a), *b = a ? numbers_of(m, pair, &pair->b) : NULL;
    float *moved = kn_allocate(&model->host, (size_t)(units * rank), sizeof *moved);
    float *w = kn_allocate(&model->host, count, sizeof *w);
    double *row = kn_allocate(&model->host, (size_t)inputs, sizeof *row);
    kn_status status = KN_OK;
    if (a && b && (!moved || !w || !row)) kn_fail_memory(&model->error, count * sizeof *w);
    if (model->error.status == KN_OK) status = kn_states_get(m->states, weight->name, w, count * sizeof *w);
    if (model->error.status == KN_OK && status == KN_OK) {
        if (heads) kn_adapter_reorder(b, moved, units, rank, heads, m->file->alternates);
        add_product(m, w, is_by_units(reader_of(m, pair, weight)), pair, a, heads ? moved : b, row);
        status = kn_states_set(m->states, weight->name, &info, w, count * sizeof *w);
    }
    if (status != KN_OK)
        kn_fail(&model->error, status, "state '%s': %s", weight->name, kn_states_error(m->states));
    kn_release(&model->host, a);
    kn_release(&model->host, b);
    kn_release(&model->host, moved);
    kn_release(&model->host, w);
    kn_release(&model->host, row);
}

kn_status kn_model_merge_adapter(kn_model *model, const char *path, kn_states *states) {
    kn_adapter_file file;
    kn_status status = kn_adapter_begin(model, path, "kn_model_merge_adapter");
    if (status != KN_OK) return status;
    if (!states || model->adapter)
        return kn_fail(&model->error, KN_ERROR_ARGUMENT, "kn_model_merge_adapter: %s",
                       states ? "the model has an adapter; expected a model without one" : "states is NULL");
    if (kn_adapter_open_file(model, path, &file)) {
        const double rank = (double)file.params.rank;
        const merging m = {.model = model,
                           .states = states,
                           .file = &file,
                           .scale = file.params.alpha / (file.params.rank_stabilized ? sqrt(rank) : rank)};
        bool fine = true;
        for (size_t i = 0; i < file.count && fine; i++)
            fine = check(&m, &file.pairs[i]);
        for (size_t i = 0; i < file.count && model->error.status == KN_OK; i++)
            merge(&m, &file.pairs[i]);
    }
    kn_adapter_close_file(model, &file);
    return model->error.status;
}
