/* The sizes and kinds of layers of a language model, from the metadata of its GGUF file. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "exchange/gguf/gguf.h"

static const kn_gguf_family families[] = {
    {.name = "llama", .interleaved = true, .all_biases = true, .gate = "silu"},
    {.name = "qwen2", .gate = "silu"},
    {.name = "qwen3", .gate = "silu"},
    {.name = "gemma2",
     .gate = "gelu_tanh",
     .scaled_table = true,
     .sliding_of = 2,
     .window = 4096,
     .softcap = 50,
     .output_softcap = 30,
     .wide_scale = 46},
    {.name = "gemma3",
     .gate = "gelu_tanh",
     .scaled_table = true,
     .sliding_of = 6,
     .sliding_base = 10000,
     .wide_scale = 62},
};

typedef struct reading {
    kn_model *model;
    const kn_gguf *file;
    const char *name; /* of the architecture */
} reading;

static bool refuse(const reading *r, kn_status status, const char *what) {
    kn_fail(&r->model->error, status, "%s: %s", r->model->source, what);
    return false;
}

const kn_gguf_family *kn_gguf_family_find(const char *name, size_t length) {
    for (size_t i = 0; i < KN_COUNT_OF(families); i++)
        if (strlen(families[i].name) == length && !memcmp(families[i].name, name, length))
            return &families[i];
    return NULL;
}

void kn_gguf_family_imply(const kn_gguf_family *family, kn_language *language) {
    const double width = (double)language->width;
    for (int64_t i = 0; i < language->layers; i++)
        language->kinds[i] = family->sliding_of && (i + 1) % family->sliding_of ? KN_LAYER_SLIDES : 0;
    language->scale = language->layers == family->wide_scale ? sqrt((double)language->heads / width) : 0;
    language->table_scale = family->scaled_table ? sqrt(width) : 0;
}

static const kn_gguf_family *find_family(reading *r) {
    kn_gguf_text name = {"", 0};
    kn_text list;
    if (kn_gguf_string(r->file, "general.architecture", &name, &r->model->error) != KN_OK) return NULL;
    const kn_gguf_family *found = kn_gguf_family_find(name.bytes, (size_t)name.count);
    if (found) {
        r->name = found->name;
        return found;
    }
    kn_text_init(&list, &r->model->host);
    for (size_t i = 0; i < KN_COUNT_OF(families); i++)
        kn_text_format(&list, "%s%s", i ? ", " : "", families[i].name);
    kn_fail(&r->model->error, KN_ERROR_UNSUPPORTED,
            "%s: the architecture is '%.*s' (general.architecture); expected one of %s", r->model->source,
            (int)(name.count < 40 ? name.count : 40), name.bytes, list.data);
    kn_text_finish(&list);
    return NULL;
}

/* "llama.block_count" for block_count. */
static void key_of(const reading *r, const char *part, char key[96]) {
    snprintf(key, 96, "%s.%s", r->name, part);
}

/* An integer from 1 to `most`; `usual` 0: it must be there. */
static bool whole(const reading *r, const char *part, int64_t most, int64_t usual, int64_t *number) {
    char key[96];
    key_of(r, part, key);
    *number = usual;
    if (kn_gguf_integer(r->file, key, 1, most, number, &r->model->error) != KN_OK) return false;
    if (*number) return true;
    kn_fail(&r->model->error, KN_ERROR_FORMAT, "%s: the file has no \"%s\", which its architecture needs",
            r->model->source, key);
    return false;
}

static bool real(const reading *r, const char *part, double usual, double *number) {
    char key[96];
    key_of(r, part, key);
    *number = usual;
    return kn_gguf_real(r->file, key, 1e-12, 1e12, number, &r->model->error) == KN_OK;
}

/* Fails if an integer is there and not `expected`. */
static bool must_be(const reading *r, const char *part, int64_t expected) {
    char key[96];
    int64_t number = expected;
    key_of(r, part, key);
    if (kn_gguf_integer(r->file, key, 0, INT64_MAX, &number, &r->model->error) != KN_OK) return false;
    if (number == expected) return true;
    kn_fail(&r->model->error, KN_ERROR_UNSUPPORTED,
            "%s: \"%s\" is %" PRId64 "; only %" PRId64 " is supported", r->model->source, key, number,
            expected);
    return false;
}

/* Rotations for contexts longer than those of the training. A file with only a factor means linear scaling,
 * as in llama.cpp. */
static bool read_scaling(const reading *r, double *divisor) {
    char key[96];
    kn_gguf_text kind = {"linear", 6};
    key_of(r, "rope.scaling.type", key);
    if (kn_gguf_string(r->file, key, &kind, &r->model->error) != KN_OK) return false;
    *divisor = 1;
    if (kind.count == 6 && !memcmp(kind.bytes, "linear", 6))
        return real(r, "rope.scaling.factor", 1, divisor);
    if (kind.count == 4 && !memcmp(kind.bytes, "none", 4)) return true;
    kn_fail(&r->model->error, KN_ERROR_UNSUPPORTED,
            "%s: the rotary embedding is scaled as '%.*s' (rope.scaling.type); only none and linear are "
            "supported",
            r->model->source, (int)(kind.count < 40 ? kind.count : 40), kind.bytes);
    return false;
}

/* Keys of the architecture that this file reads, or that change no result. */
static const char *const known[] = {
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "vocab_size",
    "tensor_data_layout",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "expert_count",
    "expert_used_count",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
};

/* A setting that is not read might change the results. */
static bool check_keys(const reading *r) {
    const size_t length = strlen(r->name);
    for (size_t i = 0; i < r->file->value_count; i++) {
        const char *key = r->file->values[i].key;
        bool read = strncmp(key, r->name, length) != 0 || key[length] != '.';
        for (size_t j = 0; j < KN_COUNT_OF(known) && !read; j++)
            read = strcmp(key + length + 1, known[j]) == 0;
        if (read) continue;
        kn_fail(&r->model->error, KN_ERROR_UNSUPPORTED,
                "%s: the setting \"%.100s\" is not supported, and results could be wrong without it",
                r->model->source, key);
        return false;
    }
    return true;
}

static bool has(const reading *r, const char *name) {
    return kn_gguf_tensor_find(r->file, name) != NULL;
}

/* Which layers see only a window, and how they rotate. */
static bool read_window(const reading *r, const kn_gguf_family *of, kn_language *language) {
    int64_t window = INT64_MAX;
    if (!of->sliding_of) {
        if (!whole(r, "attention.sliding_window", INT64_MAX, INT64_MAX, &window)) return false;
        return window >= language->context ||
               refuse(r, KN_ERROR_UNSUPPORTED,
                      "attention within a window (attention.sliding_window) is not supported for this "
                      "architecture");
    }
    language->sliding_rotation.divisor = 1;
    if (!(of->sliding_base > 0)) language->sliding_rotation = language->rotation;
    return whole(r, "attention.sliding_window", INT32_MAX, of->window, &language->window) &&
           real(r, "rope.freq_base_swa", of->sliding_base > 0 ? of->sliding_base : language->rotation.base,
                &language->sliding_rotation.base) &&
           must_be(r, "attention.sliding_window_pattern", of->sliding_of);
}

bool kn_language_read(kn_model *model, const kn_gguf *file, kn_language *language) {
    reading r = {.model = model, .file = file};
    const kn_gguf_family *of = find_family(&r);
    if (!of || !check_keys(&r)) return false;
    *language = (kn_language){.name = of->name, .gate = of->gate, .interleaved = of->interleaved};
    const kn_gguf_tensor *table = kn_gguf_tensor_find(file, "token_embd.weight");
    const int64_t most = KN_LANGUAGE_SIZE;
    if (!whole(&r, "block_count", KN_LANGUAGE_LAYERS, 0, &language->layers) ||
        !whole(&r, "embedding_length", most, 0, &language->width) ||
        !whole(&r, "feed_forward_length", most, 0, &language->hidden) ||
        !whole(&r, "context_length", INT32_MAX, 0, &language->context) ||
        !whole(&r, "attention.head_count", most, 0, &language->heads) ||
        !whole(&r, "attention.head_count_kv", most, language->heads, &language->key_heads))
        return false;
    int64_t usual = language->width / language->heads > 0 ? language->width / language->heads : 1;
    if (!whole(&r, "attention.key_length", most / language->heads, usual, &language->head) ||
        !must_be(&r, "attention.value_length", language->head) ||
        !must_be(&r, "rope.dimension_count", language->head) || !must_be(&r, "expert_count", 0) ||
        !real(&r, "attention.layer_norm_rms_epsilon", 1e-5, &language->epsilon) ||
        !real(&r, "rope.freq_base", 10000, &language->rotation.base) ||
        !real(&r, "attn_logit_softcapping", of->softcap, &language->softcap) ||
        !real(&r, "final_logit_softcapping", of->output_softcap, &language->output_softcap) ||
        !read_scaling(&r, &language->rotation.divisor) || !read_window(&r, of, language))
        return false;
    kn_gguf_family_imply(of, language);
    if (!table || table->rank != 2 || table->shape[0] < 1 || table->shape[0] > most)
        return refuse(&r, KN_ERROR_FORMAT,
                      "the tensor token_embd.weight is missing or has no suitable shape; expected "
                      "(vocabulary, embedding_length)");
    language->vocabulary = table->shape[0];
    language->rotation.divisors = language->sliding_rotation.divisors = has(&r, "rope_freqs.weight");
    language->biases = has(&r, "blk.0.attn_q.bias");
    language->output_bias = of->all_biases && has(&r, "blk.0.attn_output.bias");
    language->hidden_biases = of->all_biases && has(&r, "blk.0.ffn_up.bias");
    language->head_norms = has(&r, "blk.0.attn_q_norm.weight");
    language->post_norms = has(&r, "blk.0.post_attention_norm.weight");
    language->tied = !has(&r, "output.weight");
    return true;
}
