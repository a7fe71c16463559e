/* Adds an adapter to the weights of a model without one. */
#include <math.h>
#include <string.h>

#include "exchange/adapter/adapter.h"

typedef struct merging {
    kn_model *model;
    kn_states *states;
    const kn_adapter_file *file;
} merging;

/* A weight to add to: (units,inputs), or (inputs,units). */
typedef struct target {
    const kn_value *weight;
    bool by_units;
} target;

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

static bool find_target(const merging *m, const kn_adapter_pair *pair, target *found) {
    kn_model *model = m->model;
    const char *name = kn_arena_format(&model->arena, "%s.weight", pair->layer);
    if (!name) return kn_model_no_memory(model);
    const kn_value *weight = kn_graph_find(model->graph, name);
    const kn_node *product = reader_of(m, pair, weight);
    if (!product) return false;
    const bool by_units = kn_attribute_of(product, "transpose_b")->integer != 0;
    const int64_t units = weight->shape.dims[!by_units], inputs = weight->shape.dims[by_units];
    *found = (target){weight, by_units};
    if (pair->b.shape[0] == units && pair->a.shape[1] == inputs)
        return kn_adapter_heads(model, pair->layer, units, m->file->alternates) >= 0;
    kn_fail(&model->error, KN_ERROR_SHAPE,
            "%s: '%.200s' is for %lld inputs and %lld units; layer '%s' of the model has %lld and %lld",
            m->file->path, pair->name, (long long)pair->a.shape[1], (long long)pair->b.shape[0], pair->layer,
            (long long)inputs, (long long)units);
    return false;
}

/* w += scale * b a: w is (units,inputs), or (inputs,units); a is (rank,inputs), b (units,rank). Then the row
 * of each unit gets the length in `magnitudes`, (units), unless that is NULL. `row`, (inputs), is memory. */
static void add_product(double scale, float *w, bool by_units, const kn_adapter_pair *pair, const float *a,
                        const float *b, const float *magnitudes, double *row) {
    const int64_t units = pair->b.shape[0], inputs = pair->a.shape[1], rank = pair->a.shape[0];
    for (int64_t unit = 0; unit < units; unit++) {
        for (int64_t i = 0; i < inputs; i++)
            row[i] = 0;
        for (int64_t r = 0; r < rank; r++) {
            const double factor = (double)b[unit * rank + r];
            for (int64_t i = 0; i < inputs; i++)
                row[i] += factor * (double)a[r * inputs + i];
        }
        double squares = 0;
        for (int64_t i = 0; i < inputs; i++) {
            row[i] = (double)w[by_units ? unit * inputs + i : i * units + unit] + scale * row[i];
            squares += row[i] * row[i];
        }
        /* A row of zeros has no direction: it stays. */
        const double factor = magnitudes && squares > 0 ? (double)magnitudes[unit] / sqrt(squares) : 1;
        for (int64_t i = 0; i < inputs; i++)
            w[by_units ? unit * inputs + i : i * units + unit] = (float)(factor * row[i]);
    }
}

static void merge(const merging *m, const kn_adapter_pair *pair, const target *to) {
    kn_model *model = m->model;
    const kn_value *weight = to->weight;
    const size_t inputs = (size_t)pair->a.shape[1], count = (size_t)pair->b.shape[0] * inputs;
    const kn_tensor_info info = {KN_FLOAT32, 2, {weight->shape.dims[0], weight->shape.dims[1]}};
    const bool sized = m->file->magnitudes;
    float *a = kn_adapter_numbers(model, m->file, pair, KN_ADAPTER_A);
    float *b = a ? kn_adapter_numbers(model, m->file, pair, KN_ADAPTER_B) : NULL;
    float *magnitudes = b && sized ? kn_adapter_numbers(model, m->file, pair, KN_ADAPTER_MAGNITUDES) : NULL;
    float *w = kn_allocate(&model->host, count, sizeof *w);
    double *row = kn_allocate(&model->host, inputs, sizeof *row);
    kn_status status = KN_OK;
    if (b && (!w || !row)) kn_fail_memory(&model->error, count * sizeof *w);
    if (model->error.status == KN_OK) status = kn_states_get(m->states, weight->name, w, count * sizeof *w);
    if (model->error.status == KN_OK && status == KN_OK) {
        add_product(kn_adapter_scale(&m->file->params), w, to->by_units, pair, a, b, magnitudes, row);
        status = kn_states_set(m->states, weight->name, &info, w, count * sizeof *w);
    }
    if (status != KN_OK)
        kn_fail(&model->error, status, "state '%s': %s", weight->name, kn_states_error(m->states));
    kn_release(&model->host, a);
    kn_release(&model->host, b);
    kn_release(&model->host, magnitudes);
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
        const merging m = {.model = model, .states = states, .file = &file};
        target *targets = kn_arena_take(&file.arena, file.count + 1, sizeof *targets);
        bool fine = targets || kn_model_no_memory(model);
        for (size_t i = 0; i < file.count && fine; i++)
            fine = find_target(&m, &file.pairs[i], &targets[i]);
        for (size_t i = 0; i < file.count && model->error.status == KN_OK; i++)
            merge(&m, &file.pairs[i], &targets[i]);
    }
    kn_adapter_close_file(model, &file);
    return model->error.status;
}
