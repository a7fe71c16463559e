/* Adapters in files: opened, loaded and written. */
#include <math.h>
#include <string.h>

#include "exchange/adapter/adapter.h"

/* ---- files --------------------------------------------------------------------------------------- */

void kn_adapter_close_file(kn_model *model, kn_adapter_file *file) {
    if (file->has_tensors) kn_safetensors_close(&model->host, &file->tensors);
    if (file->has_gguf) kn_gguf_close(&model->host, &file->gguf);
    kn_map_finish(&file->by_layer);
    kn_release(&model->host, file->pairs);
    kn_arena_finish(&file->arena);
}

/* Checks that the matrices match one another, and sets the rank and alpha. */
static bool check_pairs(kn_model *model, kn_adapter_file *file) {
    kn_error *error = &model->error;
    for (size_t i = 0; i < file->count; i++) {
        const kn_adapter_pair *pair = &file->pairs[i];
        const int64_t rank = pair->a.bytes ? pair->a.shape[0] : 0;
        if (!file->params.rank) file->params.rank = rank;
        if (!pair->a.bytes || !pair->b.bytes)
            kn_fail(error, KN_ERROR_FORMAT, "%s: the matrix %s of '%.200s' is missing", file->path,
                    pair->a.bytes ? "B" : "A", pair->name);
        else if (rank != file->params.rank || pair->b.shape[1] != rank)
            kn_fail(error, KN_ERROR_UNSUPPORTED,
                    "%s: '%.200s' has the ranks %lld (A) and %lld (B); expected %lld as for all layers",
                    file->path, pair->name, (long long)rank, (long long)pair->b.shape[1],
                    (long long)file->params.rank);
        else if (file->magnitudes &&
                 (!pair->magnitudes.bytes || pair->magnitudes.shape[0] != pair->b.shape[0]))
            kn_fail(
                error, KN_ERROR_FORMAT,
                "%s: '%.200s' has %lld magnitudes; expected %lld, one for each row of B, since use_dora is "
                "true",
                file->path, pair->name, pair->magnitudes.bytes ? (long long)pair->magnitudes.shape[0] : 0,
                (long long)pair->b.shape[0]);
        if (error->status != KN_OK) return false;
    }
    if (!file->count) kn_fail(error, KN_ERROR_FORMAT, "%s: has no adapter matrices", file->path);
    if (file->scale > 0) file->params.alpha = file->scale * (double)file->params.rank;
    return error->status == KN_OK;
}

bool kn_adapter_open_file(kn_model *model, const char *path, kn_adapter_file *file) {
    kn_file_view view;
    *file = (kn_adapter_file){.path = path, .params = KN_ADAPTER_DEFAULTS};
    file->params.rank = 0;
    kn_arena_init(&file->arena, &model->host);
    kn_map_init(&file->by_layer, &model->host);
    if (kn_path_is_folder(path)) return kn_adapter_open_peft(model, file) && check_pairs(model, file);
    if (kn_file_open_view(&model->host, path, &view, &model->error) != KN_OK) return false;
    const bool gguf = kn_gguf_is(view.bytes, view.count), saved = kn_saved_is(view.bytes, view.count);
    kn_file_close_view(&model->host, &view);
    if (gguf || saved)
        return (gguf ? kn_adapter_open_gguf : kn_adapter_open_saved)(model, file) && check_pairs(model, file);
    kn_fail(
        &model->error, KN_ERROR_FORMAT,
        "%s: is not an adapter; expected a folder with adapter_config.json, a GGUF file or a file that koine "
        "train --lora wrote",
        path);
    return false;
}

/* ---- opening ------------------------------------------------------------------------------------- */

static bool is_in_file(void *user, const char *layer, bool last) {
    const kn_adapter_file *file = user;
    (void)last;
    return kn_map_get_text(&file->by_layer, layer) != NULL;
}

static const kn_adapter_pair *pair_of(const kn_adapter_file *file, const char *layer) {
    const void *known = kn_map_get_text(&file->by_layer, layer);
    return known ? &file->pairs[(size_t)(uintptr_t)known - 1] : NULL;
}

/* Whether each layer of the adapter has matrices of its shapes, and there are no others. */
static bool fits(kn_model *model, const kn_adapter_file *file) {
    const kn_adapter *adapter = model->adapter;
    kn_map found;
    kn_map_init(&found, &model->host);
    for (size_t i = 0; adapter && i < adapter->layer_count && model->error.status == KN_OK; i++) {
        const kn_adapted *layer = &adapter->layers[i];
        const kn_adapter_pair *pair = pair_of(file, layer->layer);
        if (!pair)
            kn_fail(&model->error, KN_ERROR_NOT_FOUND, "%s: has no matrices for the adapter of layer '%s'",
                    file->path, layer->layer);
        else if (pair->a.shape[0] != adapter->rank || pair->a.shape[1] != layer->inputs ||
                 pair->b.shape[0] != layer->units)
            kn_fail(
                &model->error, KN_ERROR_SHAPE,
                "%s: '%.200s' has the rank %lld for %lld inputs and %lld units; layer '%s' of the model has "
                "%lld for %lld and %lld",
                file->path, pair->name, (long long)pair->a.shape[0], (long long)pair->a.shape[1],
                (long long)pair->b.shape[0], layer->layer, (long long)adapter->rank, (long long)layer->inputs,
                (long long)layer->units);
        else if (!kn_map_put_text(&found, layer->layer, (void *)(uintptr_t)layer))
            kn_model_no_memory(model);
    }
    for (size_t i = 0; i < file->count && model->error.status == KN_OK; i++)
        if (!kn_map_get_text(&found, file->pairs[i].layer))
            kn_fail(&model->error, KN_ERROR_NOT_FOUND, "%s: '%.200s' is not a linear layer of model '%s'%s",
                    file->path, file->pairs[i].name, model->name, adapter ? " with an adapter" : "");
    kn_map_finish(&found);
    return model->error.status == KN_OK;
}

kn_status kn_adapter_begin(kn_model *model, const char *path, const char *call) {
    if (!model) return KN_ERROR_ARGUMENT;
    if (model->status != KN_OK) return model->status;
    kn_error_clear(&model->error);
    if (!path) return kn_fail(&model->error, KN_ERROR_ARGUMENT, "%s: the path is NULL", call);
    return kn_model_need_bound(model, call);
}

/* The rows of a merged weight have given lengths, which no sum of products has. */
static bool can_stay_apart(kn_model *model, const kn_adapter_file *file) {
    return !file->magnitudes ||
           kn_fail(&model->error, KN_ERROR_UNSUPPORTED,
                   "%s: use_dora is true: such an adapter can only be merged into the weights (koine convert "
                   "--merge)",
                   file->path) == KN_OK;
}

kn_status kn_model_open_adapter(kn_model *model, const char *path) {
    kn_adapter_file file;
    kn_status status = kn_adapter_begin(model, path, "kn_model_open_adapter");
    if (status != KN_OK) return status;
    if (kn_adapter_open_file(model, path, &file) && can_stay_apart(model, &file) &&
        kn_model_adapt_where(model, &file.params, is_in_file, &file))
        fits(model, &file);
    kn_adapter_close_file(model, &file);
    return model->error.status;
}

/* ---- loading ------------------------------------------------------------------------------------- */

float *kn_adapter_numbers(kn_model *model, const kn_adapter_file *file, const kn_adapter_pair *pair,
                          kn_adapter_part part) {
    const kn_array *array = kn_adapter_part_of(pair, part);
    const int64_t rows = array->shape[0];
    const int64_t heads =
        part != KN_ADAPTER_A ? kn_adapter_heads(model, pair->layer, rows, file->alternates) : 0;
    const size_t count = (size_t)array->count;
    if (heads < 0) return NULL;
    float *numbers = kn_allocate(&model->host, count + 1, sizeof *numbers);
    float *moved = heads ? kn_allocate(&model->host, count + 1, sizeof *moved) : NULL;
    if (!numbers || (heads && !moved)) kn_fail_memory(&model->error, count * sizeof *numbers);
    for (size_t i = 0; model->error.status == KN_OK && i < count; i++) {
        numbers[i] = (float)kn_array_number(array, i);
        if (!isfinite(numbers[i]))
            kn_fail(&model->error, KN_ERROR_NOT_FINITE, "%s: %s of '%.200s' has a number that is not finite",
                    file->path,
                    part == KN_ADAPTER_A   ? "matrix A"
                    : part == KN_ADAPTER_B ? "matrix B"
                                           : "the vector of magnitudes",
                    pair->name);
    }
    const bool fine = model->error.status == KN_OK;
    if (fine && heads)
        kn_adapter_reorder(numbers, moved, rows, (int64_t)count / rows, heads, file->alternates);
    if (!fine || heads) kn_release(&model->host, numbers);
    if (!fine) kn_release(&model->host, moved);
    return !fine ? NULL : heads ? moved : numbers;
}

static bool load_matrix(kn_model *model, const kn_adapter_file *file, const kn_adapted *layer, bool b,
                        kn_states *states) {
    const kn_adapter_part part = b ? KN_ADAPTER_B : KN_ADAPTER_A;
    const kn_adapter_pair *pair = pair_of(file, layer->layer);
    const kn_array *array = kn_adapter_part_of(pair, part);
    const kn_value *value = b ? layer->b : layer->a;
    const kn_tensor_info info = {KN_FLOAT32, 2, {array->shape[0], array->shape[1]}};
    float *numbers = kn_adapter_numbers(model, file, pair, part);
    if (!numbers) return false;
    const kn_status status =
        kn_states_set(states, value->name, &info, numbers, (size_t)array->count * sizeof *numbers);
    if (status != KN_OK)
        kn_fail(&model->error, status, "state '%s': %s", value->name, kn_states_error(states));
    kn_release(&model->host, numbers);
    return status == KN_OK;
}

static bool same_scale(kn_model *model, const kn_adapter_file *file) {
    const double scale = kn_adapter_scale(&file->params), own = model->adapter->scale;
    return fabs(scale - own) <= 1e-6 * own ||
           kn_fail(
               &model->error, KN_ERROR_ARGUMENT,
               "%s: is scaled by %g, but the adapter of model '%s' by %g; expected the same alpha and rank",
               file->path, scale, model->name, own) == KN_OK;
}

kn_status kn_model_load_adapter(kn_model *model, const char *path, kn_states *states) {
    kn_adapter_file file;
    kn_status status = kn_adapter_begin(model, path, "kn_model_load_adapter");
    if (status != KN_OK) return status;
    if (!states || !model->adapter)
        return kn_fail(&model->error, KN_ERROR_ARGUMENT, "kn_model_load_adapter: %s",
                       states ? "the model has no adapter; kn_model_open_adapter adds it" : "states is NULL");
    if (kn_adapter_open_file(model, path, &file) && can_stay_apart(model, &file) && fits(model, &file) &&
        same_scale(model, &file))
        for (size_t i = 0; i < model->adapter->layer_count; i++)
            if (!load_matrix(model, &file, &model->adapter->layers[i], false, states) ||
                !load_matrix(model, &file, &model->adapter->layers[i], true, states))
                break;
    kn_adapter_close_file(model, &file);
    return model->error.status;
}

/* ---- writing ------------------------------------------------------------------------------------- */

kn_status kn_model_save_adapter(kn_model *model, const char *path, kn_states *states) {
    kn_status status = kn_adapter_begin(model, path, "kn_model_save_adapter");
    if (status != KN_OK) return status;
    if (!states || !model->adapter)
        return kn_fail(&model->error, KN_ERROR_ARGUMENT, "kn_model_save_adapter: %s",
                       states ? "the model has no adapter" : "states is NULL");
    const size_t length = strlen(path);
    const bool gguf = length > 5 && !strcmp(path + length - 5, ".gguf");
    return (gguf ? kn_adapter_save_gguf : kn_adapter_save_peft)(model, path, states);
}
