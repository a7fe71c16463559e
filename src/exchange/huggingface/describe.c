/* The config.json of a decoder from a GGUF file. What the class of its architecture cannot express is an
 * error. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "exchange/huggingface/huggingface.h"

/* What transformers' class has, by the name of the architecture in GGUF files. */
typedef struct kind {
    const char *name, *type; /* model_type */
    bool free_biases;        /* members attention_bias and mlp_bias */
    bool query_biases;       /* q, k and v have biases */
    bool head_norms;
    bool gemma;        /* norms after layers, windows in some layers, and a member for the scale of scores */
    double local_base; /* of rotations in layers with a window, a member; 0: that of all layers */
} kind;

static const kind kinds[] = {
    {.name = "llama", .type = "llama", .free_biases = true},
    {.name = "qwen2", .type = "qwen2", .query_biases = true},
    {.name = "qwen3", .type = "qwen3", .head_norms = true},
    {.name = "gemma2", .type = "gemma2", .gemma = true},
    {.name = "gemma3", .type = "gemma3_text", .head_norms = true, .gemma = true, .local_base = 10000},
};

static bool refuse(kn_model *model, const char *what) {
    kn_fail(&model->error, KN_ERROR_UNSUPPORTED,
            "'%s' cannot be written as a Hugging Face folder: %s, which transformers' class does not have",
            model->source, what);
    return false;
}

static bool check(kn_model *model, const kn_language *language, const kind *of) {
    if (of->free_biases
            ? language->biases != language->output_bias
            : language->biases != of->query_biases || language->output_bias || language->hidden_biases)
        return refuse(model, language->biases || language->output_bias || language->hidden_biases
                                 ? "only some of its layers have biases"
                                 : "its layers of q, k and v have no biases");
    if (language->head_norms != of->head_norms)
        return refuse(model, of->head_norms ? "q and k have no norms" : "q and k have norms");
    if (language->post_norms != of->gemma)
        return refuse(model, of->gemma ? "no norms follow attention"
                                       : "norms follow attention and feed-forward layers");
    if (!of->gemma && (language->softcap > 0 || language->output_softcap > 0))
        return refuse(model, "its scores or logits have a softcap");
    return !of->local_base || language->sliding_rotation.divisor == 1 ||
           refuse(model, "the rotary embedding of layers with a window is scaled");
}

/* ---- members ------------------------------------------------------------------------------------- */

static void put_name(kn_text *text, const char *name) {
    kn_text_format(text, ",\n  \"%s\": ", name);
}

static void put_integer(kn_text *text, const char *name, int64_t number) {
    put_name(text, name);
    kn_text_format(text, "%" PRId64, number);
}

static void put_flag(kn_text *text, const char *name, bool value) {
    put_name(text, name);
    kn_text_add(text, value ? "true" : "false");
}

/* A number that is read from a float32: the shortest decimal, such as 1e-05, always as a real number. */
static void put_real(kn_text *text, double number) {
    const size_t begin = text->length;
    kn_text_number_float(text, (float)number);
    if (!kn_text_failed(text) && !strpbrk(text->data + begin, ".en")) kn_text_add(text, ".0");
}

/* null for 0: no cap. */
static void put_softcap(kn_text *text, const char *name, double softcap) {
    put_name(text, name);
    if (softcap > 0)
        put_real(text, softcap);
    else
        kn_text_add(text, "null");
}

static void put_layer_types(kn_text *text, const kn_language *language) {
    put_name(text, "layer_types");
    for (int64_t i = 0; i < language->layers; i++)
        kn_text_format(text, "%s\n    \"%s_attention\"", i ? "," : "[",
                       language->kinds[i] & KN_LAYER_SLIDES ? "sliding" : "full");
    kn_text_add(text, "\n  ]");
}

/* Scores are multiplied by the root of 1 / query_pre_attn_scalar, an integer in all published models. */
static void put_scale(kn_text *text, const kn_language *language) {
    const double head = (double)language->head;
    const double scalar = language->scale > 0 ? 1 / (language->scale * language->scale) : head;
    put_name(text, "query_pre_attn_scalar");
    if (fabs(scalar - round(scalar)) < 1e-6 * scalar)
        kn_text_format(text, "%.0f", round(scalar));
    else
        kn_text_number(text, scalar);
}

/* ---- rotations ----------------------------------------------------------------------------------- */

enum { LLAMA3_LOW = 1, LLAMA3_HIGH = 4, LLAMA3_POSITIONS = 8192 };

/* The divisor of the angles of a pair by Llama 3's rule; `length` is that of the pair's wave. */
static double llama3(double length, double factor, double positions) {
    double share = (positions / length - LLAMA3_LOW) / (LLAMA3_HIGH - LLAMA3_LOW); /* of the undivided wave */
    share = share < 0 ? 0 : share > 1 ? 1 : share;
    return 1 / ((1 - share) / factor + share);
}

static double wave(const kn_language *language, int64_t pair) {
    return 2 * acos(-1.0) * pow(language->rotation.base, (double)(2 * pair) / (double)language->head);
}

/* Finds the settings that give these divisors, (head/2), with the frequency factors of all Llama models. */
static bool put_llama3(kn_model *model, const kn_language *language, const float *divisors, kn_text *text) {
    const int64_t pairs = language->head / 2;
    double factor = 1, positions = LLAMA3_POSITIONS, best = 1;
    for (int64_t i = 0; i < pairs; i++)
        if (divisors[i] > factor) factor = divisors[i];
    for (int64_t i = 0; i < pairs && factor > 1; i++) {
        /* The pair closest to the middle of the interpolation gives the positions most exactly. */
        const double share = (1 / (double)divisors[i] - 1 / factor) / (1 - 1 / factor),
                     odd = fabs(share - 0.5);
        if (!(share > 0.001 && share < 0.999 && odd < best)) continue;
        best = odd;
        positions = round(wave(language, i) * (LLAMA3_LOW + share * (LLAMA3_HIGH - LLAMA3_LOW)));
    }
    for (int64_t i = 0; i < pairs; i++) {
        const double expected = llama3(wave(language, i), factor, positions);
        if (!(fabs(divisors[i] - expected) <= 1e-5 * expected))
            return refuse(model,
                          "its rotary embedding is scaled (rope_freqs.weight), but not by Llama 3's rule");
    }
    put_name(text, "rope_scaling");
    kn_text_add(text, "{\"rope_type\": \"llama3\", \"factor\": ");
    put_real(text, factor);
    kn_text_format(text,
                   ", \"low_freq_factor\": %d.0, \"high_freq_factor\": %d.0, "
                   "\"original_max_position_embeddings\": %.0f}",
                   LLAMA3_LOW, LLAMA3_HIGH, positions);
    return true;
}

static bool put_rotations(kn_model *model, const kn_language *language, const kind *of, const float *divisors,
                          kn_text *text) {
    put_name(text, "rope_theta");
    put_real(text, language->rotation.base);
    if (of->local_base > 0) {
        put_name(text, "rope_local_base_freq");
        put_real(text, language->sliding_rotation.base);
    }
    if (divisors && language->rotation.divisor != 1)
        return refuse(model, "its rotary embedding is scaled in two ways");
    if (divisors) return put_llama3(model, language, divisors, text);
    put_name(text, "rope_scaling");
    if (language->rotation.divisor == 1) {
        kn_text_add(text, "null");
        return true;
    }
    kn_text_add(text, "{\"rope_type\": \"linear\", \"factor\": ");
    put_real(text, language->rotation.divisor);
    kn_text_add(text, "}");
    return true;
}

/* ---- the function -------------------------------------------------------------------------------- */

static void put_sizes(kn_text *text, const kn_language *language) {
    put_integer(text, "vocab_size", language->vocabulary);
    put_integer(text, "hidden_size", language->width);
    put_integer(text, "intermediate_size", language->hidden);
    put_integer(text, "num_hidden_layers", language->layers);
    put_integer(text, "num_attention_heads", language->heads);
    put_integer(text, "num_key_value_heads", language->key_heads);
    put_integer(text, "head_dim", language->head);
    put_integer(text, "max_position_embeddings", language->context);
    put_flag(text, "tie_word_embeddings", language->tied);
    put_name(text, "rms_norm_eps");
    put_real(text, language->epsilon);
}

bool kn_folder_describe(kn_model *model, const kn_language *language, const float *divisors,
                        const kn_folder_family **family, kn_text *text) {
    const kind *of = NULL;
    for (size_t i = 0; i < KN_COUNT_OF(kinds); i++)
        if (!strcmp(kinds[i].name, language->name)) of = &kinds[i];
    *family = NULL;
    for (int i = 0; i < kn_folder_decoder_count && of; i++)
        if (!strcmp(kn_folder_decoders[i].type, of->type)) *family = &kn_folder_decoders[i];
    if (!*family)
        return kn_fail(&model->error, KN_ERROR_UNSUPPORTED,
                       "'%s' cannot be written as a Hugging Face folder: folders of the architecture '%s' "
                       "are not supported",
                       model->source, language->name) == KN_OK;
    if (!check(model, language, of)) return false;
    kn_text_format(text, "  \"architectures\": [\"%s\"],\n  \"model_type\": \"%s\"", (*family)->class,
                   of->type);
    put_sizes(text, language);
    put_name(text, of->gemma ? "hidden_activation" : "hidden_act");
    kn_text_add(text, of->gemma ? "\"gelu_pytorch_tanh\"" : "\"silu\"");
    if (of->free_biases || of->head_norms) put_flag(text, "attention_bias", language->biases);
    if (of->free_biases) put_flag(text, "mlp_bias", language->hidden_biases);
    if (of->gemma) {
        put_scale(text, language);
        put_softcap(text, "attn_logit_softcapping", language->softcap);
        put_softcap(text, "final_logit_softcapping", language->output_softcap);
        put_integer(text, "sliding_window", language->window);
        put_layer_types(text, language);
    }
    return put_rotations(model, language, of, divisors, text);
}
