/* Decoders with gated feed-forward layers: their config.json, and the names of their tensors. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "exchange/huggingface/huggingface.h"

/* Which layers attend only to a window. */
typedef enum sliding {
    SLIDING_NONE,
    SLIDING_ALL,     /* Mistral: all layers, unless sliding_window is null */
    SLIDING_NULL,    /* Phi 3: the same, but absent is null */
    SLIDING_LATE,    /* Qwen: with use_sliding_window, from max_window_layers on */
    SLIDING_UNSAID,  /* SmolLM3: with use_sliding_window, layers without a rotation */
    SLIDING_TURNS,   /* Gemma 2: every second layer, from the first on */
    SLIDING_PATTERN, /* Gemma 3: all but the last of six */
} sliding;

/* What an architecture implies, and what members of config.json are if they are absent. */
typedef struct about {
    int64_t key_heads, head; /* 0: as many as heads; width / heads */
    double base, sliding_base;
    sliding sliding;
    const char *activation; /* the member with the activation of the gate */
    bool tied;
    bool query_biases;   /* q, k and v have biases */
    bool attention_bias; /* a member attention_bias: q, k, v and the product after attention */
    bool mlp_bias;       /* a member mlp_bias */
    bool head_norms, post_norms;
    bool scaled; /* the table is multiplied by the root of the width, and scores by a member's root */
    double softcap, output_softcap; /* if their members are absent */
    double epsilon;                 /* 0: 1e-6 */
    bool partial;   /* a part of a head may be rotated, and original_max_position_embeddings is a member */
    bool unrotated; /* members no_rope_layers and no_rope_layer_interval */
} about;

static const about llama = {
    .base = 10000, .activation = "hidden_act", .attention_bias = true, .mlp_bias = true};
static const about mistral = {
    .key_heads = 8, .base = 10000, .activation = "hidden_act", .sliding = SLIDING_ALL};
static const about qwen2 = {.key_heads = 32,
                            .base = 10000,
                            .activation = "hidden_act",
                            .sliding = SLIDING_LATE,
                            .query_biases = true};
static const about qwen3 = {.key_heads = 32,
                            .head = 128,
                            .base = 10000,
                            .activation = "hidden_act",
                            .sliding = SLIDING_LATE,
                            .attention_bias = true,
                            .head_norms = true};
static const about gemma2 = {.key_heads = 4,
                             .head = 256,
                             .base = 10000,
                             .activation = "hidden_activation",
                             .sliding = SLIDING_TURNS,
                             .tied = true,
                             .attention_bias = true,
                             .post_norms = true,
                             .scaled = true,
                             .softcap = 50,
                             .output_softcap = 30};
static const about gemma3 = {.key_heads = 4,
                             .head = 256,
                             .base = 1e6,
                             .sliding_base = 10000,
                             .activation = "hidden_activation",
                             .sliding = SLIDING_PATTERN,
                             .tied = true,
                             .attention_bias = true,
                             .head_norms = true,
                             .post_norms = true,
                             .scaled = true};
static const about smollm3 = {.key_heads = 4,
                              .base = 2e6,
                              .activation = "hidden_act",
                              .sliding = SLIDING_UNSAID,
                              .tied = true,
                              .attention_bias = true,
                              .mlp_bias = true,
                              .unrotated = true};

static const about phi3 = {
    .base = 10000, .activation = "hidden_act", .sliding = SLIDING_NULL, .epsilon = 1e-5, .partial = true};

/* ---- sizes ------------------------------------------------------------------------------------------- */

static bool read_sizes(kn_fields *config, const about *of, kn_language *language) {
    const int64_t most = KN_LANGUAGE_SIZE;
    if (!kn_fields_need(config, "num_hidden_layers", 1, KN_LANGUAGE_LAYERS, &language->layers) ||
        !kn_fields_need(config, "hidden_size", 1, most, &language->width) ||
        !kn_fields_need(config, "intermediate_size", 1, most, &language->hidden) ||
        !kn_fields_need(config, "vocab_size", 1, most, &language->vocabulary) ||
        !kn_fields_need(config, "max_position_embeddings", 1, INT32_MAX, &language->context) ||
        !kn_fields_need(config, "num_attention_heads", 1, most, &language->heads))
        return false;
    const bool null =
        kn_fields_has(config, "num_key_value_heads") && !kn_fields_find(config, "num_key_value_heads");
    language->key_heads = of->key_heads && !null ? of->key_heads : language->heads;
    language->head = of->head ? of->head : language->width / language->heads;
    if (!kn_fields_whole(config, "num_key_value_heads", 1, language->heads, &language->key_heads) ||
        !kn_fields_whole(config, "head_dim", 1, most / language->heads, &language->head))
        return false;
    if (language->head < 2 || language->head % 2)
        return kn_fields_fail(config, "head_dim",
                              "an even number, hidden_size / num_attention_heads if absent");
    return language->heads % language->key_heads == 0 ||
           kn_fields_fail(config, "num_key_value_heads", "a divisor of num_attention_heads");
}

static bool read_flags(kn_fields *config, const about *of, kn_language *language) {
    bool biases = false, hidden = false;
    language->tied = of->tied;
    language->epsilon = of->epsilon > 0 ? of->epsilon : 1e-6;
    language->head_norms = of->head_norms;
    language->post_norms = of->post_norms;
    if (!kn_fields_activation(config, of->activation, &language->gate) ||
        !kn_fields_real(config, "rms_norm_eps", 1e-30, 1, &language->epsilon) ||
        !kn_fields_flag(config, "tie_word_embeddings", &language->tied) ||
        !kn_fields_must_be(config, "rope_interleaved", false) ||
        !kn_fields_must_be(config, "use_mrope", false) || !kn_fields_must_be(config, "lm_head_bias", false) ||
        (!of->attention_bias && !kn_fields_must_be(config, "attention_bias", false)) ||
        (!of->mlp_bias && !kn_fields_must_be(config, "mlp_bias", false)) ||
        (of->attention_bias && !kn_fields_flag(config, "attention_bias", &biases)) ||
        (of->mlp_bias && !kn_fields_flag(config, "mlp_bias", &hidden)))
        return false;
    language->biases = biases || of->query_biases;
    language->output_bias = biases;
    language->hidden_biases = hidden;
    return true;
}

/* ---- windows ----------------------------------------------------------------------------------------- */

bool kn_folder_read_layer_types(kn_fields *config, const kn_json *types, int64_t layers, uint8_t *kinds) {
    const char *expected = "a list of full_attention or sliding_attention for each layer";
    int64_t i = 0;
    if (types->kind != KN_JSON_ARRAY || types->count != (size_t)layers)
        return kn_fields_fail(config, "layer_types", expected);
    for (const kn_json *item = types->first; item; item = item->next, i++) {
        const bool slides = item->kind == KN_JSON_STRING && !strcmp(item->text, "sliding_attention");
        if (!slides && (item->kind != KN_JSON_STRING || strcmp(item->text, "full_attention")))
            return kn_fields_fail(config, "layer_types", expected);
        if (slides) kinds[i] |= KN_LAYER_SLIDES;
    }
    return true;
}

/* The layers that attend to a window if layer_types is absent. */
static bool mark_usual(kn_fields *config, const about *of, bool used, kn_language *language) {
    int64_t first = 28, pattern = 6;
    if (of->sliding == SLIDING_LATE && !kn_fields_whole(config, "max_window_layers", 0, INT32_MAX, &first))
        return false;
    if (of->sliding == SLIDING_PATTERN &&
        !kn_fields_whole(config, "sliding_window_pattern", 1, INT32_MAX, &pattern))
        return false;
    for (int64_t i = 0; i < language->layers && used; i++) {
        const bool slides = of->sliding == SLIDING_LATE      ? i >= first
                            : of->sliding == SLIDING_TURNS   ? i % 2 == 0
                            : of->sliding == SLIDING_PATTERN ? (i + 1) % pattern != 0
                            : of->sliding == SLIDING_UNSAID  ? (language->kinds[i] & KN_LAYER_UNROTATED) != 0
                                                             : true;
        if (slides) language->kinds[i] |= KN_LAYER_SLIDES;
    }
    return true;
}

static bool has_window(const kn_language *language) {
    for (int64_t i = 0; i < language->layers; i++)
        if (language->kinds[i] & KN_LAYER_SLIDES) return true;
    return false;
}

static bool read_window(kn_fields *config, const about *of, kn_language *language) {
    const bool all = of->sliding == SLIDING_ALL || of->sliding == SLIDING_NULL;
    const bool none = of->sliding == SLIDING_UNSAID || of->sliding == SLIDING_NULL;
    const bool own = of->sliding == SLIDING_PATTERN || of->sliding == SLIDING_TURNS;
    bool used = all || own;
    if (of->sliding == SLIDING_NONE) return true;
    /* Absent, it is 4096, but for SmolLM3 and Phi 3. */
    language->window = none || kn_fields_has(config, "sliding_window") ? 0 : 4096;
    if ((!used && !kn_fields_flag(config, "use_sliding_window", &used)) ||
        !kn_fields_whole(config, "sliding_window", 1, INT32_MAX, &language->window))
        return false;
    /* Without a window, Mistral, Qwen and SmolLM3 have none in any layer. */
    if (!used || (!language->window && !own)) used = false;
    const kn_json *types = all ? NULL : kn_fields_find(config, "layer_types");
    if (types && of->sliding == SLIDING_PATTERN)
        kn_fields_find(config, "_sliding_window_pattern"); /* the same */
    if (!mark_usual(config, of, used && !types, language) ||
        (types && !kn_folder_read_layer_types(config, types, language->layers, language->kinds)))
        return false;
    return !has_window(language) || (used && language->window) ||
           kn_fields_fail(config, "sliding_window", "a window for the layers with sliding_attention");
}

/* ---- rotations --------------------------------------------------------------------------------------- */

/* no_rope_layers: 0 for each layer whose q and k are not rotated. */
static bool read_unrotated(kn_fields *config, kn_language *language) {
    const char *expected = "a list of 0 or 1 for each layer";
    int64_t interval = 4, i = 0, number;
    const kn_json *list = kn_fields_find(config, "no_rope_layers");
    if (!kn_fields_whole(config, "no_rope_layer_interval", 1, INT32_MAX, &interval)) return false;
    if (!list) {
        for (; i < language->layers; i++)
            if ((i + 1) % interval == 0) language->kinds[i] |= KN_LAYER_UNROTATED;
        return true;
    }
    if (list->kind != KN_JSON_ARRAY || list->count < (size_t)language->layers)
        return kn_fields_fail(config, "no_rope_layers", expected);
    for (const kn_json *item = list->first; i < language->layers; item = item->next, i++) {
        if (!kn_json_int64(item, &number) || number < 0 || number > 1)
            return kn_fields_fail(config, "no_rope_layers", expected);
        if (!number) language->kinds[i] |= KN_LAYER_UNROTATED;
    }
    return true;
}

static bool read_rotations(kn_fields *config, const about *of, kn_folder *folder, kn_language *language) {
    kn_folder_rope rope = {.head = language->head, .context = language->context, .partial = of->partial};
    const bool two = of->sliding_base > 0;
    kn_folder_rope local = rope;
    int64_t one = 1; /* of Phi-4-mini */
    if (of->partial && (!kn_fields_whole(config, "full_attn_mod", 1, 1, &one) ||
                        !kn_fields_whole(config, "interpolate_factor", 1, 1, &one)))
        return false;
    if (of->partial &&
        !kn_fields_whole(config, "original_max_position_embeddings", 2, INT32_MAX, &rope.original))
        return false;
    if (!kn_folder_read_rope(config, &folder->arena, two ? "full_attention" : NULL, of->base, &rope))
        return false;
    kn_folder_take_rope(&rope, folder, language);
    if (!two) return true;
    double base = of->sliding_base;
    if (!kn_fields_real(config, "rope_local_base_freq", 1e-12, 1e12, &base) ||
        !kn_folder_read_local_rope(config, &folder->arena, "sliding_attention", base, &local))
        return false;
    language->sliding_rotation = local.rotation;
    return (!local.divisors && rope.factor == 1) ||
           kn_fields_fail(config, "rope_parameters", "layers with sliding_attention without such a scaling");
}

/* null: no cap. */
static bool read_softcap(kn_fields *config, const char *name, double usual, double *softcap) {
    *softcap = kn_fields_has(config, name) ? 0 : usual;
    return kn_fields_real(config, name, 1e-6, 1e12, softcap);
}

static bool read_scales(kn_fields *config, const about *of, kn_language *language) {
    double scalar = 256;
    if (!of->scaled) return true;
    if (!kn_fields_real(config, "query_pre_attn_scalar", 1e-6, 1e12, &scalar) ||
        !read_softcap(config, "attn_logit_softcapping", of->softcap, &language->softcap) ||
        !read_softcap(config, "final_logit_softcapping", of->output_softcap, &language->output_softcap) ||
        !kn_fields_must_be(config, "use_bidirectional_attention", false))
        return false;
    language->scale = 1 / sqrt(scalar);
    language->table_scale = sqrt((double)language->width);
    return true;
}

/* Members that do not change the results of these architectures. */
static void ignore(kn_fields *config, const about *of) {
    /* Gemma 2: transformers reads hidden_activation instead. */
    if (strcmp(of->activation, "hidden_act")) kn_fields_find(config, "hidden_act");
    static const char *const all[] = {"embd_pdrop", "resid_pdrop"};
    for (size_t i = 0; i < KN_COUNT_OF(all); i++)
        kn_fields_find(config, all[i]);
}

static bool write_decoder(kn_fields *config, const kn_folder_family *family, kn_folder *folder,
                          const char *path, kn_text *text) {
    const about *of = family->about;
    kn_language language = {.name = family->type};
    (void)path;
    ignore(config, of);
    if (!read_sizes(config, of, &language) || !read_flags(config, of, &language) ||
        !read_scales(config, of, &language) || (of->unrotated && !read_unrotated(config, &language)) ||
        !read_window(config, of, &language) || !read_rotations(config, of, folder, &language))
        return false;
    folder->language = kn_arena_copy(&folder->arena, &language, 1, sizeof language);
    if (!folder->language) return kn_model_no_memory(config->model);
    kn_language_write(&language, text);
    return true;
}

/* ---- names ------------------------------------------------------------------------------------------- */

static const kn_folder_name layer_names[] = {
    {"attn_q", "self_attn.q_proj", KN_FOLDER_SAME},
    {"attn_k", "self_attn.k_proj", KN_FOLDER_SAME},
    {"attn_v", "self_attn.v_proj", KN_FOLDER_SAME},
    {"attn_output", "self_attn.o_proj", KN_FOLDER_SAME},
    {"attn_q_norm", "self_attn.q_norm", KN_FOLDER_SAME},
    {"attn_k_norm", "self_attn.k_norm", KN_FOLDER_SAME},
    {"attn_norm", "input_layernorm", KN_FOLDER_SAME},
    {"ffn_norm", "post_attention_layernorm", KN_FOLDER_SAME},
    {"ffn_gate", "mlp.gate_proj", KN_FOLDER_SAME},
    {"ffn_up", "mlp.up_proj", KN_FOLDER_SAME},
    {"ffn_down", "mlp.down_proj", KN_FOLDER_SAME},
    {NULL, NULL, KN_FOLDER_SAME},
};
/* Phi 3 has one tensor for q, k and v, and one for gate and up. */
static const kn_folder_name phi_layer_names[] = {
    {"attn_q", "self_attn.qkv_proj", KN_FOLDER_TURNED},
    {"attn_k", "self_attn.qkv_proj", KN_FOLDER_TURNED},
    {"attn_v", "self_attn.qkv_proj", KN_FOLDER_ROWS},
    {"attn_output", "self_attn.o_proj", KN_FOLDER_SAME},
    {"attn_norm", "input_layernorm", KN_FOLDER_SAME},
    {"ffn_norm", "post_attention_layernorm", KN_FOLDER_SAME},
    {"ffn_gate", "mlp.gate_up_proj", KN_FOLDER_ROWS},
    {"ffn_up", "mlp.gate_up_proj", KN_FOLDER_ROWS},
    {"ffn_down", "mlp.down_proj", KN_FOLDER_SAME},
    {NULL, NULL, KN_FOLDER_SAME},
};
static const kn_folder_name other_names[] = {
    {"token_embd", "embed_tokens", KN_FOLDER_SAME},
    {"output_norm", "norm", KN_FOLDER_SAME},
    {"output", "lm_head", KN_FOLDER_SAME},
    {NULL, NULL, KN_FOLDER_SAME},
};
static const kn_folder_name gemma_layer_names[] = {
    {"attn_q", "self_attn.q_proj", KN_FOLDER_SAME},
    {"attn_k", "self_attn.k_proj", KN_FOLDER_SAME},
    {"attn_v", "self_attn.v_proj", KN_FOLDER_SAME},
    {"attn_output", "self_attn.o_proj", KN_FOLDER_SAME},
    {"attn_q_norm", "self_attn.q_norm", KN_FOLDER_PLUS_ONE},
    {"attn_k_norm", "self_attn.k_norm", KN_FOLDER_PLUS_ONE},
    {"attn_norm", "input_layernorm", KN_FOLDER_PLUS_ONE},
    {"post_attention_norm", "post_attention_layernorm", KN_FOLDER_PLUS_ONE},
    {"ffn_norm", "pre_feedforward_layernorm", KN_FOLDER_PLUS_ONE},
    {"post_ffw_norm", "post_feedforward_layernorm", KN_FOLDER_PLUS_ONE},
    {"ffn_gate", "mlp.gate_proj", KN_FOLDER_SAME},
    {"ffn_up", "mlp.up_proj", KN_FOLDER_SAME},
    {"ffn_down", "mlp.down_proj", KN_FOLDER_SAME},
    {NULL, NULL, KN_FOLDER_SAME},
};
static const kn_folder_name gemma_other_names[] = {
    {"token_embd", "embed_tokens", KN_FOLDER_SAME},
    {"output_norm", "norm", KN_FOLDER_PLUS_ONE},
    {"output", "lm_head", KN_FOLDER_SAME},
    {NULL, NULL, KN_FOLDER_SAME},
};
static const char *const prefixes[] = {"model.", "", NULL};
/* A tied output's own tensor is not used by transformers either; without ties, it is a weight. */
static const char *const ignored[] = {"rotary_emb.inv_freq", "lm_head.weight", NULL};
static const kn_folder_names names = {layer_names, other_names, "layers.", prefixes, ignored};
static const kn_folder_names phi_names = {phi_layer_names, other_names, "layers.", prefixes, ignored};
static const kn_folder_names gemma_names = {gemma_layer_names, gemma_other_names, "layers.", prefixes,
                                            ignored};

const kn_folder_family kn_folder_decoders[] = {
    {"llama", "LlamaForCausalLM", &names, write_decoder, &llama},
    {"mistral", "MistralForCausalLM", &names, write_decoder, &mistral},
    {"qwen2", "Qwen2ForCausalLM", &names, write_decoder, &qwen2},
    {"qwen3", "Qwen3ForCausalLM", &names, write_decoder, &qwen3},
    {"gemma2", "Gemma2ForCausalLM", &gemma_names, write_decoder, &gemma2},
    {"gemma3_text", "Gemma3ForCausalLM", &gemma_names, write_decoder, &gemma3},
    {"smollm3", "SmolLM3ForCausalLM", &names, write_decoder, &smollm3},
    {"phi3", "Phi3ForCausalLM", &phi_names, write_decoder, &phi3},
};
const int kn_folder_decoder_count = (int)KN_COUNT_OF(kn_folder_decoders);
