/* Writes a Hugging Face folder for a language model from a GGUF file. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "exchange/adapter/adapter.h"
#include "exchange/gguf/gguf.h"
#include "exchange/huggingface/huggingface.h"
#include "text/text.h"

/* A weight and its tensor. */
typedef struct weight {
    const kn_value *value;
    int64_t heads; /* q and k, whose rows are in another order; 0: others */
    double more;   /* in the model's numbers */
} weight;

typedef struct writing {
    kn_model *model;
    kn_arena *arena;
    kn_states *states;
    const char *path;
    kn_dtype wanted;
    kn_dtype common; /* of all matrices; KN_FLOAT32 if they differ */
    size_t matrices;
    kn_language language;
    const kn_folder_family *family;
    kn_vocabulary *vocabulary; /* NULL: there is none */
    weight *weights;           /* (count) */
    kn_safetensor *tensors;    /* (count) */
    size_t count;
    float *numbers; /* of one weight */
    uint8_t *bytes;
    size_t number_room, byte_room;
} writing;

static bool write_file(writing *w, const char *name, const kn_text *text) {
    kn_model *model = w->model;
    const char *path = kn_path_join(w->arena, w->path, name);
    if (!path || kn_text_failed(text)) return kn_model_no_memory(model);
    return kn_file_write(&model->host, path, text->data, text->length, &model->error) == KN_OK;
}

/* ---- the vocabulary ------------------------------------------------------------------------------ */

static bool open_vocabulary(writing *w) {
    kn_model *model = w->model;
    kn_gguf_text name = {"none", 4};
    if (kn_gguf_string(model->gguf, "tokenizer.ggml.model", &name, &model->error) != KN_OK) return false;
    if (name.count == 4 && !memcmp(name.bytes, "none", 4)) return true;
    w->vocabulary = kn_vocabulary_open(model->source, NULL);
    if (!w->vocabulary) return kn_model_no_memory(model);
    const kn_status status = kn_vocabulary_status(w->vocabulary);
    return status == KN_OK ||
           kn_fail(&model->error, status, "%s", kn_vocabulary_error(w->vocabulary)) == KN_OK;
}

/* The token of a role; -1 without a special token for it. A GGUF file that names none implies numbers of
 * ordinary tokens, which transformers would cut out of texts. */
static int32_t token_of(const kn_vocabulary *vocabulary, kn_text_role role) {
    const int32_t token = kn_vocabulary_role(vocabulary, role);
    return kn_vocabulary_is_special(vocabulary, token) ? token : -1;
}

static void put_token(kn_text *text, const kn_vocabulary *vocabulary, const char *name, kn_text_role role) {
    const char *token = kn_vocabulary_token(vocabulary, token_of(vocabulary, role), NULL);
    if (!token) return;
    kn_text_format(text, ",\n  \"%s\": ", name);
    kn_text_json(text, token);
}

/* The numbers of the tokens that begin, fill up and end texts. */
static void put_numbers(kn_text *text, const kn_vocabulary *vocabulary, bool all_ends) {
    static const struct {
        const char *name;
        kn_text_role role;
    } roles[] = {{"bos_token_id", KN_TEXT_ROLE_BEGIN}, {"pad_token_id", KN_TEXT_ROLE_PADDING}};
    const int32_t end = token_of(vocabulary, KN_TEXT_ROLE_END);
    bool first = true;
    for (size_t i = 0; i < KN_COUNT_OF(roles); i++) {
        const int32_t token = token_of(vocabulary, roles[i].role);
        if (token >= 0) kn_text_format(text, ",\n  \"%s\": %d", roles[i].name, (int)token);
    }
    if (!all_ends) {
        if (end >= 0) kn_text_format(text, ",\n  \"eos_token_id\": %d", (int)end);
        return;
    }
    if (end < 0) return;
    kn_text_add(text, ",\n  \"eos_token_id\": [");
    for (int32_t token = 0; token < kn_vocabulary_size(vocabulary); token++)
        if (kn_vocabulary_ends(vocabulary, token) && kn_vocabulary_is_special(vocabulary, token)) {
            kn_text_format(text, "%s%d", first ? "" : ", ", (int)token);
            first = false;
        }
    kn_text_add(text, "]");
}

static bool write_vocabulary(writing *w) {
    kn_text text;
    const kn_vocabulary *vocabulary = w->vocabulary;
    if (!vocabulary) return true;
    kn_text_init(&text, &w->model->host);
    bool good = kn_vocabulary_write_json(vocabulary, &text, &w->model->error) == KN_OK &&
                write_file(w, "tokenizer.json", &text);
    kn_text_clear(&text);
    kn_text_format(&text,
                   "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n  \"model_max_length\": %" PRId64
                   ",\n  \"clean_up_tokenization_spaces\": false",
                   w->language.context);
    put_token(&text, vocabulary, "bos_token", KN_TEXT_ROLE_BEGIN);
    put_token(&text, vocabulary, "eos_token", KN_TEXT_ROLE_END);
    put_token(&text, vocabulary, "unk_token", KN_TEXT_ROLE_UNKNOWN);
    put_token(&text, vocabulary, "pad_token", KN_TEXT_ROLE_PADDING);
    kn_text_add(&text, "\n}\n");
    good = good && write_file(w, "tokenizer_config.json", &text);
    kn_text_clear(&text);
    kn_text_add(&text, "{\n  \"_from_model_config\": false");
    put_numbers(&text, vocabulary, true);
    kn_text_add(&text, "\n}\n");
    good = good && write_file(w, "generation_config.json", &text);
    const char *chat = kn_vocabulary_chat_template(vocabulary);
    kn_text_clear(&text);
    if (chat) kn_text_add(&text, chat);
    good = good && (!chat || write_file(w, "chat_template.jinja", &text));
    kn_text_finish(&text);
    return good;
}

/* ---- weights ------------------------------------------------------------------------------------- */

/* The type of a tensor: vectors are float32, as in the file. */
static kn_dtype type_of(const writing *w, const kn_gguf_tensor *stored, int rank) {
    if (rank < 2) return KN_FLOAT32;
    if (w->wanted != KN_FLOAT32) return w->wanted;
    return stored->storage == kn_block_type_named("F16")    ? KN_FLOAT16
           : stored->storage == kn_block_type_named("BF16") ? KN_BFLOAT16
                                                            : KN_FLOAT32;
}

static const kn_gguf_tensor *stored_as(writing *w, const char *name) {
    const char *there = strncmp(name, "blk", 3) == 0 ? kn_arena_format(w->arena, "blk.%s", name + 3) : name;
    if (!there) kn_model_no_memory(w->model);
    const kn_gguf_tensor *stored = there ? kn_gguf_tensor_find(w->model->gguf, there) : NULL;
    if (!stored && there)
        kn_fail(&w->model->error, KN_ERROR_NOT_FOUND, "%s: has no tensor '%s'", w->model->source, there);
    return stored;
}

static bool add_weight(writing *w, const kn_value *value) {
    kn_model *model = w->model;
    const kn_folder_names *names = w->family->names;
    const kn_folder_name *row;
    const char *end = strrchr(value->name, '.');
    const char *name = kn_folder_name_there(model, w->arena, names, value->name, &row);
    const char *layer = kn_arena_format(w->arena, "%.*s", end ? (int)(end - value->name) : 0, value->name);
    const kn_gguf_tensor *stored = name ? stored_as(w, value->name) : NULL;
    if (!stored || !layer) return stored ? kn_model_no_memory(model) : false;
    kn_safetensor *tensor = &w->tensors[w->count];
    weight *made = &w->weights[w->count++];
    const bool outside = !strcmp(row->own, "output");
    tensor->name = kn_arena_format(w->arena, "%s%s", outside ? "" : names->prefixes[0], name);
    tensor->array = (kn_array){.type = type_of(w, stored, value->shape.rank), .rank = value->shape.rank};
    memcpy(tensor->array.shape, value->shape.dims, (size_t)value->shape.rank * sizeof(int64_t));
    if (!tensor->name || !kn_array_measure(&tensor->array)) return kn_model_no_memory(model);
    if (value->shape.rank > 1) {
        if (w->matrices++ && w->common != tensor->array.type) w->common = KN_FLOAT32;
        if (w->matrices == 1) w->common = tensor->array.type;
    }
    made->value = value;
    made->more = row->change == KN_FOLDER_PLUS_ONE;
    made->heads = kn_adapter_heads(model, layer, value->shape.dims[0], false);
    return made->heads >= 0;
}

static bool list_weights(writing *w) {
    const kn_graph *graph = w->model->graph;
    w->weights = kn_arena_take(w->arena, graph->value_count + 1, sizeof *w->weights);
    w->tensors = kn_arena_take(w->arena, graph->value_count + 1, sizeof *w->tensors);
    if (!w->weights || !w->tensors) return kn_model_no_memory(w->model);
    for (size_t i = 0; i < graph->value_count; i++)
        if (kn_model_is_weight(graph->values[i]) && strcmp(graph->values[i]->name, "rope_freqs") != 0 &&
            !add_weight(w, graph->values[i]))
            return false;
    return true;
}

/* Sets w->bytes to the contents of a tensor. */
static bool make_tensor(writing *w, size_t index) {
    kn_model *model = w->model;
    const weight *from = &w->weights[index];
    const kn_array *to = &w->tensors[index].array;
    if (!kn_language_numbers(model, w->states, from->value, &w->numbers, &w->number_room)) return false;
    if (!kn_reserve(&model->host, (void **)&w->bytes, &w->byte_room, (size_t)to->count * sizeof(float) + 1,
                    1))
        return kn_model_no_memory(model);
    const float *numbers = w->numbers;
    if (from->heads) {
        const int64_t rows = to->shape[0];
        kn_adapter_reorder(numbers, (float *)(void *)w->bytes, rows, (int64_t)to->count / rows, from->heads,
                           true);
        memcpy(w->numbers, w->bytes, (size_t)to->count * sizeof(float));
    }
    for (uint64_t i = 0; i < to->count; i++) {
        kn_element_set(to->type, w->bytes, (int64_t)i, (double)numbers[i] - from->more);
        if (isfinite(kn_element_get(to->type, w->bytes, (int64_t)i))) continue;
        kn_fail(&model->error, KN_ERROR_NOT_FINITE,
                "weight '%s' has a number that is not finite, or too large for %s", from->value->name,
                kn_array_type_name(to->type));
        return false;
    }
    return true;
}

static bool write_tensors(writing *w) {
    kn_error *error = &w->model->error;
    const kn_text_pair about = {"format", "pt"};
    kn_safetensors_writer *writer = NULL;
    const char *path = kn_path_join(w->arena, w->path, "model.safetensors");
    if (!path) return kn_model_no_memory(w->model);
    kn_status status =
        kn_safetensors_writer_open(&w->model->host, path, w->tensors, w->count, &about, 1, &writer, error);
    for (size_t i = 0; i < w->count && status == KN_OK; i++) {
        if (!make_tensor(w, i)) status = error->status;
        if (status == KN_OK)
            status = kn_safetensors_writer_add(writer, w->bytes, w->tensors[i].array.byte_count, error);
    }
    if (status == KN_OK) return kn_safetensors_writer_commit(&writer, error) == KN_OK;
    if (writer) kn_safetensors_writer_abandon(&writer);
    return false;
}

/* ---- config.json, which makes the folder a model ------------------------------------------------- */

static bool describe(writing *w, kn_text *text) {
    kn_model *model = w->model;
    const kn_value *divisors = kn_graph_find(model->graph, "rope_freqs");
    if (divisors && !kn_language_numbers(model, w->states, divisors, &w->numbers, &w->number_room))
        return false;
    kn_text_add(text, "{\n");
    return kn_folder_describe(model, &w->language, divisors ? w->numbers : NULL, &w->family, text);
}

static bool write_config(writing *w, kn_text *text) {
    if (w->vocabulary) put_numbers(text, w->vocabulary, false);
    kn_text_format(text, ",\n  \"torch_dtype\": \"%s\"\n}\n", kn_dtype_name(w->common));
    return write_file(w, "config.json", text);
}

kn_status kn_folder_write_gguf(kn_model *model, kn_arena *arena, const char *path, kn_states *states,
                               kn_dtype weights) {
    writing w = {.model = model, .arena = arena, .states = states, .path = path, .wanted = weights};
    kn_text config;
    if (weights != KN_FLOAT32 && weights != KN_FLOAT16 && weights != KN_BFLOAT16)
        return kn_fail(&model->error, KN_ERROR_ARGUMENT,
                       "kn_model_save_folder: weights as %s; expected float32, float16 or bfloat16",
                       kn_dtype_name(weights));
    kn_text_init(&config, &model->host);
    const bool good = kn_language_read(model, model->gguf, &w.language) && describe(&w, &config) &&
                      open_vocabulary(&w) && list_weights(&w) && write_vocabulary(&w) && write_tensors(&w) &&
                      write_config(&w, &config);
    kn_vocabulary_destroy(&w.vocabulary);
    kn_release(&model->host, w.numbers);
    kn_release(&model->host, w.bytes);
    kn_text_finish(&config);
    return good ? KN_OK : model->error.status;
}
