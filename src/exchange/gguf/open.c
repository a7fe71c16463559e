/* GGUF files as an origin of models: recognized, opened, loaded and closed. */
#include <stdlib.h>
#include <string.h>

#include "exchange/gguf/gguf.h"

/* The origin_data of a model. */
typedef struct source {
    kn_gguf file;
    kn_safetensors tensors; /* the file's tensors by the names of the text; those in blocks have no bytes */
    const kn_gguf_tensor **stored; /* by the index of a tensor */
} source;

/* "blk.0.attn_q.weight" is "blk0.attn_q.weight" in the text; divisors are a parameter, not a layer with a
 * weight. NULL: out of memory. */
static const char *text_name(kn_arena *arena, const char *name) {
    if (!strcmp(name, "rope_freqs.weight")) return "rope_freqs";
    return strncmp(name, "blk.", 4) == 0 ? kn_arena_format(arena, "blk%s", name + 4)
                                         : kn_arena_text(arena, name);
}

/* How the text sees a tensor: its own type if that has no blocks, otherwise float32. */
static kn_array array_of(const kn_gguf_tensor *tensor) {
    kn_array array = {.type = KN_FLOAT32, .rank = tensor->rank};
    memcpy(array.shape, tensor->shape, sizeof tensor->shape);
    if (tensor->storage->weights == 1) {
        array.bytes = tensor->bytes;
        array.type = tensor->storage->number == 1    ? KN_FLOAT16
                     : tensor->storage->number == 30 ? KN_BFLOAT16
                                                     : KN_FLOAT32;
    }
    return array;
}

/* Makes blocks the initial contents of their weight, so that plans that are made before weights are loaded
 * know them. A shape that is wrong is an error when they are loaded. */
static bool fill(kn_value *value, const kn_gguf_tensor *tensor) {
    bool fits = tensor->storage->weights > 1 && tensor->file && value->kind == KN_VALUE_STATE &&
                value->shape.dtype == KN_FLOAT32 && value->shape.rank == tensor->rank;
    for (int i = 0; i < tensor->rank && fits; i++)
        fits = value->shape.dims[i] == tensor->shape[i];
    const kn_file_blocks blocks = {tensor->storage, tensor->bytes, tensor->file};
    return !fits || kn_value_fill_from(value, &blocks);
}

/* Lists the tensors, all of which the text must use. */
static bool list_tensors(kn_model *model, source *own) {
    kn_safetensors *list = &own->tensors;
    kn_arena_init(&list->arena, &model->host);
    kn_map_init(&list->by_name, &model->host);
    list->tensors = kn_arena_take(&list->arena, own->file.tensor_count, sizeof *list->tensors);
    own->stored = kn_arena_take(&list->arena, own->file.tensor_count, sizeof *own->stored);
    if (!list->tensors || !own->stored) return kn_model_no_memory(model);
    for (size_t i = 0; i < own->file.tensor_count; i++) {
        const kn_gguf_tensor *tensor = &own->file.tensors[i];
        kn_safetensor *item = &list->tensors[i];
        item->name = text_name(&list->arena, tensor->name);
        if (!item->name) return kn_model_no_memory(model);
        kn_value *value = kn_graph_find(model->graph, item->name);
        if (!tensor->storage || !value || !kn_model_is_weight(value)) {
            kn_fail(&model->error, KN_ERROR_UNSUPPORTED,
                    tensor->storage ? "%s: tensor '%.100s' is not used by this architecture: results would "
                                      "be wrong without it"
                                    : "%s: tensor '%.100s' has a type that is not supported, number %d",
                    model->source, tensor->name, tensor->type);
            return false;
        }
        item->array = array_of(tensor);
        own->stored[i] = tensor;
        if (!fill(value, tensor)) return kn_model_no_memory(model);
        if (!kn_array_measure(&item->array) || !kn_map_put_text(&list->by_name, item->name, item))
            return kn_model_no_memory(model);
        list->count++;
    }
    return true;
}

static bool open_gguf(kn_model *model, const char *path) {
    kn_language language;
    kn_text text;
    source *own = model->origin_data = kn_allocate(&model->host, 1, sizeof *own);
    if (!own) return kn_model_no_memory(model);
    if (kn_gguf_open(&model->host, path, &own->file, &model->error) != KN_OK) return false;
    if (!kn_language_read(model, &own->file, &language)) return false;
    model->gguf = &own->file;
    model->has_weights = true;
    kn_text_init(&text, &model->host);
    kn_language_write(&language, &text);
    bool good = kn_language_open(model, &text);
    kn_text_finish(&text);
    return good && list_tensors(model, own);
}

static void close_gguf(kn_model *model) {
    source *own = model->origin_data;
    kn_safetensors_close(&model->host, &own->tensors);
    kn_gguf_close(&model->host, &own->file);
    kn_release(&model->host, own);
}

static kn_file_blocks blocks_of(const void *user, const kn_safetensor *tensor) {
    const source *own = user;
    const kn_gguf_tensor *stored = own->stored[tensor - own->tensors.tensors];
    return (kn_file_blocks){stored->storage, stored->bytes, stored->file};
}

static kn_status load_gguf(kn_model *model, const char *path, kn_states *states,
                           const kn_model_load_params *params, int *loaded) {
    source *own = model->origin_data;
    if (path) return kn_model_load_file(model, path, states, params, loaded);
    const kn_tensors_from from = {.file = &own->tensors,
                                  .path = model->source,
                                  .owned = true,
                                  .complete = true,
                                  .blocks = blocks_of,
                                  .user = own};
    return kn_model_load_tensors(model, &from, states, params, loaded);
}

const kn_model_origin kn_gguf_origin = {
    .name = "GGUF",
    .endings = ".gguf",
    .recognizes = kn_gguf_is,
    .open = open_gguf,
    .load = load_gguf,
    .save = kn_gguf_save,
    .close = close_gguf,
};
