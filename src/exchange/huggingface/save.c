/* Writes a folder like the one that a model was opened from, with other weights. */
#include <math.h>
#include <string.h>

#include "exchange/huggingface/huggingface.h"

enum { FILE_BYTES = 1 << 28 };

/* Files without weights, besides config.json and the pooling's. */
static const char *const copied[] = {
    "added_tokens.json",
    "chat_template.jinja",
    "config_sentence_transformers.json",
    "generation_config.json",
    "merges.txt",
    "modules.json",
    "sentence_bert_config.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
};

static kn_status copy_file(kn_model *model, kn_arena *arena, const char *name, const char *to) {
    const char *from = kn_path_join(arena, model->source, name), *path = kn_path_join(arena, to, name);
    uint8_t *bytes;
    uint64_t count;
    if (!from || !path) return kn_fail_memory(&model->error, strlen(name));
    if (!kn_path_exists(from)) return KN_OK;
    kn_status status = kn_file_read(&model->host, from, FILE_BYTES, &bytes, &count, &model->error);
    if (status != KN_OK) return status;
    status = kn_folder_make_for(&model->host, path, &model->error);
    if (status == KN_OK) status = kn_file_write(&model->host, path, bytes, (size_t)count, &model->error);
    kn_release(&model->host, bytes);
    return status;
}

/* ---- tensors ------------------------------------------------------------------------------------- */

typedef struct saving {
    kn_model *model;
    kn_states *states;
    uint8_t *bytes; /* of one tensor */
    float *numbers; /* of one weight */
    size_t room, number_room;
} saving;

/* Changes the elements of a row whose numbers, (columns), differ from those in the file. False: one cannot be
 * written. */
static bool change_row(saving *s, const kn_array *from, const kn_folder_row *row, const float *numbers,
                       int64_t columns) {
    for (int64_t i = 0; i < columns; i++) {
        const uint64_t at = row->first + (uint64_t)i * row->step;
        const float before = (float)(row->more + row->factor * kn_array_number(from, at));
        if (!memcmp(&before, &numbers[i], sizeof before)) continue;
        kn_element_set(from->type, s->bytes, (int64_t)at, ((double)numbers[i] - row->more) / row->factor);
        if (!isfinite(kn_element_get(from->type, s->bytes, (int64_t)at))) return false;
    }
    return true;
}

/* Changes the elements of a weight. */
static bool change(saving *s, size_t index) {
    kn_model *model = s->model;
    const kn_folder *folder = model->origin_data;
    const kn_safetensor *weight = &folder->tensors.tensors[index];
    const kn_array *from = kn_folder_source(folder, index);
    const kn_value *value = kn_graph_find(model->graph, weight->name);
    if (!kn_language_numbers(model, s->states, value, &s->numbers, &s->number_room)) return false;
    int64_t columns;
    const int64_t rows = kn_folder_rows(folder, index, &columns);
    for (int64_t r = 0; r < rows; r++) {
        const kn_folder_row row = kn_folder_row_at(folder, index, r, columns);
        if (change_row(s, from, &row, s->numbers + r * columns, columns)) continue;
        kn_fail(&model->error, KN_ERROR_NOT_FINITE,
                "weight '%s' has a number that is not finite, or too large for %s", weight->name,
                kn_array_type_name(from->type));
        return false;
    }
    return true;
}

static kn_status write_tensor(saving *s, kn_safetensors_writer *writer, const kn_safetensor *tensor) {
    kn_model *model = s->model;
    const kn_folder *folder = model->origin_data;
    if (!kn_reserve(&model->host, (void **)&s->bytes, &s->room, (size_t)tensor->array.byte_count + 1, 1)) {
        kn_model_no_memory(model);
        return model->error.status;
    }
    memcpy(s->bytes, tensor->array.bytes, (size_t)tensor->array.byte_count);
    for (size_t i = 0; i < folder->tensors.count; i++)
        if (kn_folder_source(folder, i) == &tensor->array && !change(s, i)) return model->error.status;
    return kn_safetensors_writer_add(writer, s->bytes, tensor->array.byte_count, &model->error);
}

static kn_status write_tensors(saving *s, kn_arena *arena, const char *to) {
    kn_model *model = s->model;
    const kn_folder *folder = model->origin_data;
    const kn_text_pair about = {"format", "pt"};
    kn_safetensors_writer *writer = NULL;
    const char *path = kn_path_join(arena, to, "model.safetensors");
    size_t count = 0, done = 0;
    for (size_t i = 0; i < folder->part_count; i++)
        count += folder->parts[i].count;
    kn_safetensor *tensors = kn_arena_take(arena, count + 1, sizeof *tensors);
    if (!path || !tensors) return kn_fail_memory(&model->error, count * sizeof *tensors);
    for (size_t i = 0; i < folder->part_count; i++) {
        memcpy(tensors + done, folder->parts[i].tensors, folder->parts[i].count * sizeof *tensors);
        done += folder->parts[i].count;
    }
    kn_status status =
        kn_safetensors_writer_open(&model->host, path, tensors, count, &about, 1, &writer, &model->error);
    for (size_t i = 0; i < folder->part_count; i++)
        for (size_t k = 0; k < folder->parts[i].count && status == KN_OK; k++)
            status = write_tensor(s, writer, &folder->parts[i].tensors[k]);
    if (status == KN_OK) return kn_safetensors_writer_commit(&writer, &model->error);
    if (writer) kn_safetensors_writer_abandon(&writer);
    return status;
}

/* ---- the folder ---------------------------------------------------------------------------------- */

static kn_status check(kn_model *model, kn_arena *arena, const char *path, kn_states *states,
                       const kn_model_save_params *params) {
    const char *config = kn_path_join(arena, path, "config.json");
    if (!states) return kn_fail(&model->error, KN_ERROR_ARGUMENT, "kn_model_save_folder: states is NULL");
    if (!model->origin || (model->origin->save != kn_folder_save && !model->gguf) || model->adapter)
        return kn_fail(
            &model->error, KN_ERROR_UNSUPPORTED, "kn_model_save_folder: model '%s' %s", model->name,
            model->adapter ? "has an adapter, which kn_model_merge_adapter can merge into the weights of "
                             "a model without one"
                           : "is neither from a Hugging Face folder nor from a GGUF file");
    if (params->weights != KN_FLOAT32 && !model->gguf)
        return kn_fail(
            &model->error, KN_ERROR_UNSUPPORTED,
            "kn_model_save_folder: weights as %s are for models from GGUF files; those of a folder "
            "keep their types",
            kn_dtype_name(params->weights));
    if (!config) return kn_fail_memory(&model->error, strlen(path));
    return kn_path_exists(config) ? kn_fail(&model->error, KN_ERROR_ARGUMENT,
                                            "'%s' already exists; expected a folder without a model", config)
                                  : KN_OK;
}

static kn_status save_again(kn_model *model, kn_arena *arena, const char *path, kn_states *states) {
    saving s = {.model = model, .states = states};
    kn_status status = write_tensors(&s, arena, path);
    for (size_t i = 0; i < KN_COUNT_OF(copied) && status == KN_OK; i++)
        status = copy_file(model, arena, copied[i], path);
    const char *pooling = status == KN_OK ? ((const kn_folder *)model->origin_data)->pooling : NULL;
    if (pooling) status = copy_file(model, arena, pooling, path);
    /* It makes the folder a model. */
    if (status == KN_OK) status = copy_file(model, arena, "config.json", path);
    kn_release(&model->host, s.bytes);
    kn_release(&model->host, s.numbers);
    return status;
}

kn_status kn_folder_save(kn_model *model, const char *path, kn_states *states,
                         const kn_model_save_params *params) {
    kn_arena arena;
    kn_arena_init(&arena, &model->host);
    kn_status status = check(model, &arena, path, states, params);
    if (status == KN_OK) status = kn_folder_make(&model->host, path, &model->error);
    if (status == KN_OK)
        status = model->gguf ? kn_folder_write_gguf(model, &arena, path, states, params->weights)
                             : save_again(model, &arena, path, states);
    kn_arena_finish(&arena);
    return status;
}
