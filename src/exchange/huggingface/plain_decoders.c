/* GPT-2 and GPT-NeoX: decoders without gates, whose norms subtract the mean. */
#include "exchange/huggingface/huggingface.h"

/* Members that do not change results. */
static void ignore(kn_fields *config) {
    static const char *const all[] = {"attn_pdrop",
                                      "classifier_dropout",
                                      "embd_pdrop",
                                      "hidden_dropout",
                                      "n_ctx",
                                      "reorder_and_upcast_attn",
                                      "resid_pdrop",
                                      "summary_activation",
                                      "summary_first_dropout",
                                      "summary_proj_to_labels",
                                      "summary_type",
                                      "summary_use_proj"};
    for (size_t i = 0; i < KN_COUNT_OF(all); i++)
        kn_fields_find(config, all[i]);
}

/* What both have; q, k and v have as many heads. */
static bool complete(kn_fields *config, const char *heads, kn_language *language) {
    if (language->width % language->heads) return kn_fields_fail(config, heads, "a divisor of the width");
    language->head = language->width / language->heads;
    language->key_heads = language->heads;
    language->plain = language->biases = language->output_bias = language->hidden_biases = true;
    return true;
}

static bool write_gpt2(kn_fields *config, const kn_folder_family *family, kn_folder *folder, const char *path,
                       kn_text *text) {
    const int64_t most = KN_LANGUAGE_SIZE;
    kn_language language = {.name = family->type, .epsilon = 1e-5, .tied = true};
    (void)path;
    (void)folder;
    ignore(config);
    if (!kn_fields_need(config, "n_layer", 1, KN_LANGUAGE_LAYERS, &language.layers) ||
        !kn_fields_need(config, "n_embd", 1, most / 4, &language.width) ||
        !kn_fields_need(config, "n_head", 1, most, &language.heads) ||
        !kn_fields_need(config, "n_positions", 1, most, &language.positions) ||
        !kn_fields_need(config, "vocab_size", 1, most, &language.vocabulary))
        return false;
    language.hidden = 4 * language.width;
    language.context = language.positions;
    for (int64_t i = 0; i < language.layers; i++)
        language.kinds[i] = KN_LAYER_UNROTATED;
    if (!kn_fields_whole(config, "n_inner", 1, most, &language.hidden) ||
        !kn_fields_activation(config, "activation_function", &language.gate) ||
        !kn_fields_real(config, "layer_norm_epsilon", 1e-30, 1, &language.epsilon) ||
        !kn_fields_flag(config, "tie_word_embeddings", &language.tied) ||
        !kn_fields_must_be(config, "scale_attn_weights", true) ||
        !kn_fields_must_be(config, "scale_attn_by_inverse_layer_idx", false) ||
        !kn_fields_must_be(config, "add_cross_attention", false) || !complete(config, "n_head", &language))
        return false;
    kn_language_write(&language, text);
    return true;
}

static bool write_neox(kn_fields *config, const kn_folder_family *family, kn_folder *folder, const char *path,
                       kn_text *text) {
    const int64_t most = KN_LANGUAGE_SIZE;
    double base = 10000;
    kn_language language = {.name = family->type, .epsilon = 1e-5, .parallel = true};
    (void)path;
    ignore(config);
    if (!kn_fields_need(config, "num_hidden_layers", 1, KN_LANGUAGE_LAYERS, &language.layers) ||
        !kn_fields_need(config, "hidden_size", 1, most, &language.width) ||
        !kn_fields_need(config, "intermediate_size", 1, most, &language.hidden) ||
        !kn_fields_need(config, "num_attention_heads", 1, most, &language.heads) ||
        !kn_fields_need(config, "max_position_embeddings", 1, INT32_MAX, &language.context) ||
        !kn_fields_need(config, "vocab_size", 1, most, &language.vocabulary) ||
        !kn_fields_activation(config, "hidden_act", &language.gate) ||
        !kn_fields_real(config, "layer_norm_eps", 1e-30, 1, &language.epsilon) ||
        !kn_fields_flag(config, "tie_word_embeddings", &language.tied) ||
        !kn_fields_flag(config, "use_parallel_residual", &language.parallel) ||
        !kn_fields_must_be(config, "attention_bias", true) ||
        !kn_fields_must_be(config, "is_decoder", false) ||
        !complete(config, "num_attention_heads", &language))
        return false;
    kn_folder_rope rope = {
        .head = language.head, .context = language.context, .partial = true, .share = 0.25};
    if (language.head % 2) return kn_fields_fail(config, "num_attention_heads", "heads with an even size");
    if (!kn_fields_real(config, "rotary_pct", 1e-12, 1, &rope.share) ||
        !kn_fields_real(config, "rotary_emb_base", 1e-12, 1e12, &base) ||
        !kn_folder_read_rope(config, &folder->arena, NULL, base, &rope))
        return false;
    kn_folder_take_rope(&rope, folder, &language);
    kn_language_write(&language, text);
    return true;
}

/* GPT-2 stores matrices as (columns,rows). */
static const kn_folder_name gpt2_layers[] = {
    {"attn_q", "attn.c_attn", KN_FOLDER_TRANSPOSED},
    {"attn_k", "attn.c_attn", KN_FOLDER_TRANSPOSED},
    {"attn_v", "attn.c_attn", KN_FOLDER_TRANSPOSED},
    {"attn_output", "attn.c_proj", KN_FOLDER_TRANSPOSED},
    {"attn_norm", "ln_1", KN_FOLDER_SAME},
    {"ffn_norm", "ln_2", KN_FOLDER_SAME},
    {"ffn_up", "mlp.c_fc", KN_FOLDER_TRANSPOSED},
    {"ffn_down", "mlp.c_proj", KN_FOLDER_TRANSPOSED},
    {NULL, NULL, KN_FOLDER_SAME},
};
static const kn_folder_name gpt2_others[] = {
    {"token_embd", "wte", KN_FOLDER_SAME},
    {"position_embd", "wpe.weight", KN_FOLDER_SAME},
    {"output_norm", "ln_f", KN_FOLDER_SAME},
    {"output", "lm_head", KN_FOLDER_SAME},
    {NULL, NULL, KN_FOLDER_SAME},
};
static const char *const gpt2_prefixes[] = {"transformer.", "", NULL};
static const kn_folder_name neox_layers[] = {
    {"attn_q", "attention.query_key_value", KN_FOLDER_BY_HEAD},
    {"attn_k", "attention.query_key_value", KN_FOLDER_BY_HEAD},
    {"attn_v", "attention.query_key_value", KN_FOLDER_BY_HEAD},
    {"attn_output", "attention.dense", KN_FOLDER_SAME},
    {"attn_norm", "input_layernorm", KN_FOLDER_SAME},
    {"ffn_norm", "post_attention_layernorm", KN_FOLDER_SAME},
    {"ffn_up", "mlp.dense_h_to_4h", KN_FOLDER_SAME},
    {"ffn_down", "mlp.dense_4h_to_h", KN_FOLDER_SAME},
    {NULL, NULL, KN_FOLDER_SAME},
};
static const kn_folder_name neox_others[] = {
    {"token_embd", "embed_in", KN_FOLDER_SAME},
    {"output_norm", "final_layer_norm", KN_FOLDER_SAME},
    {"output", "embed_out", KN_FOLDER_SAME},
    {NULL, NULL, KN_FOLDER_SAME},
};
static const char *const neox_prefixes[] = {"gpt_neox.", "", NULL};
/* Masks, and the tensor of a tied output, which transformers does not use either. */
static const char *const gpt2_ignored[] = {"attn.bias", "attn.masked_bias", "lm_head.weight", NULL};
static const char *const neox_ignored[] = {"attention.bias", "attention.masked_bias", "rotary_emb.inv_freq",
                                           "embed_out.weight", NULL};
static const kn_folder_names gpt2_names = {gpt2_layers, gpt2_others, "h.", gpt2_prefixes, gpt2_ignored};
static const kn_folder_names neox_names = {neox_layers, neox_others, "layers.", neox_prefixes, neox_ignored};

const kn_folder_family kn_folder_plain_decoders[] = {
    {"gpt2", "GPT2LMHeadModel", &gpt2_names, write_gpt2, NULL, false},
    {"gpt_neox", "GPTNeoXForCausalLM", &neox_names, write_neox, NULL, false},
};
const int kn_folder_plain_decoder_count = (int)KN_COUNT_OF(kn_folder_plain_decoders);
