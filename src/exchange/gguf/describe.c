/* The metadata of a GGUF file for a decoder from a folder. What files of its architecture cannot express is
 * an error. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "exchange/gguf/gguf.h"

static bool refuse(kn_model *model, const char *what) {
    kn_fail(&model->error, KN_ERROR_UNSUPPORTED, "'%s' cannot be written as a GGUF file: %s", model->source,
            what);
    return false;
}

/* Names that differ from model_type in config.json. */
static const struct {
    const char *theirs, *name;
} renamed[] = {{"mistral", "llama"}, {"gemma3_text", "gemma3"}};

static const kn_gguf_family *family_of(const char *type) {
    for (size_t i = 0; i < KN_COUNT_OF(renamed); i++)
        if (!strcmp(renamed[i].theirs, type)) type = renamed[i].name;
    return kn_gguf_family_find(type, strlen(type));
}

static bool is_close(double one, double other) {
    return fabs(one - other) <= 1e-6 * fabs(other);
}

static double scale_of(const kn_language *language) {
    return language->scale > 0 ? language->scale : 1 / sqrt((double)language->head);
}

static bool check(kn_model *model, const kn_language *language, const kn_gguf_family *family) {
    kn_language usual = *language;
    kn_gguf_family_imply(family, &usual);
    /* A window as large as the context has no effect. */
    const bool whole = !family->sliding_of && language->window >= language->context;
    if (strcmp(language->gate, family->gate) != 0)
        return refuse(model, "its activation is not the usual one");
    for (int64_t i = 0; i < language->layers; i++)
        if ((language->kinds[i] & ~(whole ? KN_LAYER_SLIDES : 0)) != usual.kinds[i])
            return refuse(model, "its layers have windows, or rotations, that differ from the usual ones");
    if (!is_close(scale_of(language), scale_of(&usual)))
        return refuse(model, "the scale of its attention scores is not the usual one");
    if (!is_close(language->table_scale > 0 ? language->table_scale : 1,
                  usual.table_scale > 0 ? usual.table_scale : 1))
        return refuse(model, "the scale of its embedding is not the usual one");
    if ((language->softcap > 0) != (family->softcap > 0) ||
        (language->output_softcap > 0) != (family->output_softcap > 0))
        return refuse(model, family->softcap > 0 ? "it has no softcap" : "it has a softcap");
    if ((language->output_bias || language->hidden_biases) && !family->all_biases)
        return refuse(model, "it has biases after attention or in feed-forward layers");
    if ((language->rotation.divisors || language->sliding_rotation.divisors) && !family->interleaved)
        return refuse(model, "its rotary embedding is scaled by more than one factor");
    return !(family->sliding_base > 0) || language->sliding_rotation.divisor == 1 ||
           refuse(model, "the rotary embedding of layers with a window is scaled");
}

bool kn_language_describe(kn_model *model, const kn_language *language, kn_gguf_head *head,
                          const kn_gguf_family **family) {
    const struct {
        const char *key;
        int64_t number;
    } integers[] = {
        {"block_count", language->layers},
        {"context_length", language->context},
        {"embedding_length", language->width},
        {"feed_forward_length", language->hidden},
        {"vocab_size", language->vocabulary},
        {"attention.head_count", language->heads},
        {"attention.head_count_kv", language->key_heads},
        {"attention.key_length", language->head},
        {"attention.value_length", language->head},
        {"rope.dimension_count", language->head},
    };
    const kn_gguf_family *of = *family = family_of(language->name);
    char key[96];
    if (!of) return refuse(model, "Koine knows no GGUF architecture for this kind of model");
    if (!check(model, language, of)) return false;
    kn_gguf_put_string(head, "general.architecture", of->name);
    kn_gguf_put_string(head, "general.type", "model");
    kn_gguf_put_string(head, "general.name", model->name);
    for (size_t i = 0; i < KN_COUNT_OF(integers); i++) {
        snprintf(key, sizeof key, "%s.%s", of->name, integers[i].key);
        kn_gguf_put_integer(head, key, KN_GGUF_UINT32, integers[i].number);
    }
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", of->name);
    kn_gguf_put_real(head, key, language->epsilon);
    snprintf(key, sizeof key, "%s.rope.freq_base", of->name);
    kn_gguf_put_real(head, key, language->rotation.base);
    if (language->rotation.divisor != 1) {
        snprintf(key, sizeof key, "%s.rope.scaling.type", of->name);
        kn_gguf_put_string(head, key, "linear");
        snprintf(key, sizeof key, "%s.rope.scaling.factor", of->name);
        kn_gguf_put_real(head, key, language->rotation.divisor);
    }
    if (of->sliding_of) {
        snprintf(key, sizeof key, "%s.attention.sliding_window", of->name);
        kn_gguf_put_integer(head, key, KN_GGUF_UINT32, language->window);
    }
    if (of->sliding_base > 0) {
        snprintf(key, sizeof key, "%s.rope.freq_base_swa", of->name);
        kn_gguf_put_real(head, key, language->sliding_rotation.base);
    }
    if (language->softcap > 0) {
        snprintf(key, sizeof key, "%s.attn_logit_softcapping", of->name);
        kn_gguf_put_real(head, key, language->softcap);
    }
    if (language->output_softcap > 0) {
        snprintf(key, sizeof key, "%s.final_logit_softcapping", of->name);
        kn_gguf_put_real(head, key, language->output_softcap);
    }
    return true;
}
