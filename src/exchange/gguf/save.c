/* Writes language models as GGUF files. */
#include <math.h>
#include <string.h>

#include "exchange/adapter/adapter.h"
#include "exchange/gguf/gguf.h"
#include "exchange/huggingface/huggingface.h"
#include "run/run.h"
#include "text/text.h"

/* A weight of the model and its tensor in the file. */
typedef struct weight {
    const kn_value *value;
    int64_t heads;             /* rows of q and k move between the halves of heads; 0: they stay */
    const kn_block_type *type; /* in the new file */
    /* in the file that the model was opened from; bytes NULL: it is not a GGUF file */
    const kn_block_type *stored;
    const uint8_t *bytes;
    bool same; /* known to have the file's numbers */
} weight;

typedef struct saving {
    kn_model *model;
    kn_states *states;
    const kn_block_type *wanted; /* NULL: as stored */
    bool alternates;             /* in the new file (kn_adapter_heads) */
    bool tied;
    kn_arena arena;
    kn_gguf_head head;
    weight *weights;
    size_t count;
    float *numbers; /* of one weight */
    uint8_t *blocks;
    size_t number_room, block_room;
} saving;

static uint64_t elements_of(const weight *w) {
    return (uint64_t)kn_shape_elements(&w->value->shape);
}

/* ---- metadata ------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    int number; /* general.file_type */
} file_types[] = {{"F32", 0},  {"F16", 1},   {"Q4_0", 2},  {"Q8_0", 7},
                  {"Q5_0", 8}, {"Q4_K", 14}, {"Q6_K", 18}, {"BF16", 32}};

static bool take_type(saving *s, const char *name) {
    if (!name) return true;
    for (size_t i = 0; i < KN_COUNT_OF(file_types); i++)
        if (!strcmp(file_types[i].name, name)) s->wanted = kn_block_type_named(name);
    return s->wanted || kn_fail(&s->model->error, KN_ERROR_ARGUMENT,
                                "kn_model_save_gguf: weights as %.40s; expected F32, F16, BF16, Q8_0, Q5_0, "
                                "Q4_0, Q4_K or Q6_K",
                                name) == KN_OK;
}

/* The keys of the file that the model was opened from; its tensors are in one part now, with the usual
 * alignment. */
static void copy_metadata(saving *s) {
    static const char *const replaced[] = {"general.alignment", "split.no", "split.count",
                                           "split.tensors.count"};
    const kn_gguf *file = s->model->gguf;
    for (size_t i = 0; i < file->value_count; i++) {
        const char *key = file->values[i].key;
        bool skipped =
            s->wanted && (!strcmp(key, "general.file_type") || !strcmp(key, "general.quantization_version"));
        for (size_t k = 0; k < KN_COUNT_OF(replaced); k++)
            skipped = skipped || !strcmp(key, replaced[k]);
        if (!skipped) kn_gguf_put_value(&s->head, &file->values[i]);
    }
}

/* Of the folder; a folder without one becomes a file without one. */
static bool write_vocabulary(saving *s, int64_t size) {
    kn_model *model = s->model;
    const char *path = kn_path_join(&s->arena, model->source, "tokenizer.json");
    if (!path) return kn_model_no_memory(model);
    if (!kn_path_exists(path)) {
        kn_gguf_put_string(&s->head, "tokenizer.ggml.model", "none");
        return true;
    }
    kn_vocabulary *vocabulary = kn_vocabulary_open(model->source, NULL);
    if (!vocabulary) return kn_model_no_memory(model);
    kn_status status = kn_vocabulary_write_gguf(vocabulary, size, &s->head, &model->error);
    kn_vocabulary_destroy(&vocabulary);
    return status == KN_OK;
}

static bool write_metadata(saving *s) {
    kn_model *model = s->model;
    const kn_gguf_family *family;
    const kn_language *language = NULL;
    if (model->gguf) {
        copy_metadata(s);
    } else {
        if (model->origin == &kn_folder_origin) language = ((const kn_folder *)model->origin_data)->language;
        if (!language)
            return kn_fail(&model->error, KN_ERROR_UNSUPPORTED,
                           "'%s' cannot be written as a GGUF file: it is not a decoder from a GGUF file or a "
                           "Hugging Face folder; to write trained weights, open it and load them "
                           "(--weights)",
                           model->name) == KN_OK;
        if (!kn_language_describe(model, language, &s->head, &family) ||
            !write_vocabulary(s, language->vocabulary))
            return false;
        s->alternates = family->interleaved;
    }
    for (size_t i = 0; i < KN_COUNT_OF(file_types) && s->wanted; i++)
        if (!strcmp(file_types[i].name, s->wanted->name))
            kn_gguf_put_integer(&s->head, "general.file_type", KN_GGUF_UINT32, file_types[i].number);
    if (s->wanted) kn_gguf_put_integer(&s->head, "general.quantization_version", KN_GGUF_UINT32, 2);
    return true;
}

/* ---- weights ------------------------------------------------------------------------------------- */

static bool reserve(saving *s, void **memory, size_t *room, uint64_t count, size_t size) {
    return kn_reserve(&s->model->host, memory, room, (size_t)count, size) || kn_model_no_memory(s->model);
}

/* The numbers of a weight in the order of the new file. */
static bool read_numbers(saving *s, const weight *w) {
    kn_model *model = s->model;
    const uint64_t count = elements_of(w);
    if (!kn_language_numbers(model, s->states, w->value, &s->numbers, &s->number_room)) return false;
    if (!w->heads) return true;
    const int64_t rows = w->value->shape.dims[0];
    if (!reserve(s, (void **)&s->blocks, &s->block_room, count * sizeof(float), 1)) return false;
    kn_adapter_reorder(s->numbers, (float *)(void *)s->blocks, rows, (int64_t)count / rows, w->heads, false);
    memcpy(s->numbers, s->blocks, (size_t)count * sizeof(float));
    return true;
}

/* Whether the numbers are those of the file that the model was opened from, to the bit. */
static bool is_unchanged(const saving *s, const weight *w) {
    float widened[KN_BLOCK_MOST_WEIGHTS];
    const size_t size = (size_t)w->stored->weights;
    for (uint64_t i = 0; i < elements_of(w) / size; i++) {
        kn_blocks_widen(w->stored, w->bytes + i * (uint64_t)w->stored->bytes, 1, widened);
        if (memcmp(widened, s->numbers + i * size, size * sizeof(float))) return false;
    }
    return true;
}

/* The type of a matrix for rows of this length. */
static const kn_block_type *type_for(const saving *s, const weight *w, int64_t row) {
    const char *output = s->tied ? "token_embd.weight" : "output.weight";
    const kn_block_type *type = s->wanted;
    if (!strcmp(w->value->name, output) &&
        (type == kn_block_type_named("Q4_0") || type == kn_block_type_named("Q4_K")))
        type = kn_block_type_named("Q6_K");
    if (row % type->weights == 0) return type;
    if (type->weights == 256)
        type =
            type == kn_block_type_named("Q4_K") ? kn_block_type_named("Q5_0") : kn_block_type_named("Q8_0");
    return row % type->weights == 0 ? type : kn_block_type_named("F16");
}

/* Sets the type in the new file. */
static bool choose_type(saving *s, weight *w) {
    const kn_shape *shape = &w->value->shape;
    w->type = kn_block_type_named("F32");
    if (shape->rank < 2) return true;
    w->type = w->stored;
    if (s->wanted) w->type = type_for(s, w, shape->dims[shape->rank - 1]);
    if (s->wanted || w->stored->weights == 1) return true;
    if (!read_numbers(s, w)) return false;
    w->same = is_unchanged(s, w);
    if (!w->same) w->type = kn_block_type_named("F16");
    return true;
}

/* "blk.0.attn_q.weight" for "blk0.attn_q.weight". */
static const char *name_there(saving *s, const char *name) {
    if (!strcmp(name, "rope_freqs")) return "rope_freqs.weight";
    return strncmp(name, "blk", 3) == 0 ? kn_arena_format(&s->arena, "blk.%s", name + 3) : name;
}

static bool find_stored(saving *s, weight *w, const char *name) {
    kn_model *model = s->model;
    if (!model->gguf) {
        const kn_dtype type = kn_folder_type(model, w->value->name);
        w->stored = kn_block_type_named(type == KN_FLOAT16 ? "F16" : type == KN_BFLOAT16 ? "BF16" : "F32");
        return true;
    }
    const kn_gguf_tensor *tensor = kn_gguf_tensor_find(model->gguf, name);
    if (!tensor)
        return kn_fail(&model->error, KN_ERROR_NOT_FOUND, "%s: has no tensor '%s'", model->source, name) ==
               KN_OK;
    w->stored = tensor->storage;
    w->bytes = tensor->bytes;
    return true;
}

static bool add_weight(saving *s, const kn_value *value) {
    weight *w = &s->weights[s->count++];
    const char *name = name_there(s, value->name), *end = strrchr(value->name, '.');
    *w = (weight){.value = value};
    if (!name) return kn_model_no_memory(s->model);
    if (!find_stored(s, w, name)) return false;
    const char *layer = kn_arena_format(&s->arena, "%.*s", end ? (int)(end - value->name) : 0, value->name);
    if (!layer) return kn_model_no_memory(s->model);
    w->heads = kn_adapter_heads(s->model, layer, value->shape.dims[0], s->alternates);
    if (w->heads < 0 || !choose_type(s, w)) return false;
    kn_gguf_put_tensor(&s->head, name, value->shape.rank, value->shape.dims, w->type);
    return true;
}

static bool list_weights(saving *s) {
    const kn_graph *graph = s->model->graph;
    s->tied = !kn_graph_find(graph, "output.weight");
    s->weights = kn_arena_take(&s->arena, graph->value_count + 1, sizeof *s->weights);
    if (!s->weights) return kn_model_no_memory(s->model);
    for (size_t i = 0; i < graph->value_count; i++)
        if (kn_model_is_weight(graph->values[i]) && !add_weight(s, graph->values[i])) return false;
    return true;
}

/* Numbers that are too large for the type would become infinite. */
static bool is_finite(const saving *s, const weight *w, uint64_t blocks) {
    float widened[KN_BLOCK_MOST_WEIGHTS];
    for (uint64_t i = 0; i < elements_of(w); i++)
        if (!isfinite(s->numbers[i])) return false;
    for (uint64_t i = 0; i < blocks; i++) {
        kn_blocks_widen(w->type, s->blocks + i * (uint64_t)w->type->bytes, 1, widened);
        for (int k = 0; k < w->type->weights; k++)
            if (!isfinite(widened[k])) return false;
    }
    return true;
}

static kn_status write_weight(saving *s, kn_file_writer *writer, const weight *w) {
    kn_error *error = &s->model->error;
    const uint64_t blocks = elements_of(w) / (uint64_t)w->type->weights;
    const uint64_t bytes = blocks * (uint64_t)w->type->bytes;
    if (w->same) return kn_gguf_writer_add(writer, w->bytes, bytes, error);
    if (!read_numbers(s, w)) return error->status;
    if (w->bytes && w->type == w->stored && is_unchanged(s, w))
        return kn_gguf_writer_add(writer, w->bytes, bytes, error);
    if (!reserve(s, (void **)&s->blocks, &s->block_room, bytes + 1, 1)) return error->status;
    kn_blocks_narrow(w->type, s->numbers, blocks, s->blocks);
    if (!is_finite(s, w, blocks))
        return kn_fail(error, KN_ERROR_NOT_FINITE,
                       "weight '%s' has a number that is not finite, or too large for %s", w->value->name,
                       w->type->name);
    return kn_gguf_writer_add(writer, s->blocks, bytes, error);
}

static kn_status write_file(saving *s, const char *path) {
    kn_file_writer *writer;
    kn_status status = kn_gguf_writer_open(&s->model->host, path, &s->head, &writer, &s->model->error);
    if (status != KN_OK) return status;
    for (size_t i = 0; i < s->count && status == KN_OK; i++)
        status = write_weight(s, writer, &s->weights[i]);
    if (status == KN_OK) return kn_file_writer_commit(&writer, &s->model->error);
    kn_file_writer_abandon(&writer);
    return status;
}

kn_status kn_gguf_save(kn_model *model, const char *path, kn_states *states,
                       const kn_model_save_params *params) {
    saving s = {.model = model, .states = states, .alternates = kn_adapter_alternates(model)};
    if (!states || model->adapter)
        return kn_fail(&model->error, KN_ERROR_ARGUMENT, "kn_model_save_gguf: %s",
                       states ? "the model has an adapter, which kn_model_merge_adapter can merge into the "
                                "weights of a model without one"
                              : "states is NULL");
    kn_arena_init(&s.arena, &model->host);
    kn_gguf_head_init(&s.head, &model->host);
    const bool fine = take_type(&s, params->blocks) && write_metadata(&s) && list_weights(&s);
    kn_status status = fine ? write_file(&s, path) : model->error.status;
    kn_release(&model->host, s.numbers);
    kn_release(&model->host, s.blocks);
    kn_gguf_head_finish(&s.head);
    kn_arena_finish(&s.arena);
    return status;
}
