/* ModernBERT: an encoder with rotated q and k, whose layers see all tokens or those near them. */
#include <string.h>

#include "exchange/huggingface/huggingface.h"

/* Members that change no result of the class without a head. */
static void ignore(kn_fields *config) {
    static const char *const all[] = {
        "chunk_size_feed_forward",  "classifier_activation", "classifier_bias",
        "classifier_dropout",       "classifier_pooling",    "decoder_bias",
        "deterministic_flash_attn", "embedding_dropout",     "initializer_cutoff_factor",
        "is_encoder_decoder",       "layer_norm_eps",        "mlp_dropout",
        "position_embedding_type",  "reference_compile",     "repad_logits_with_grad",
        "sparse_pred_ignore_index", "sparse_prediction",     "tie_word_embeddings"};
    for (size_t i = 0; i < KN_COUNT_OF(all); i++)
        kn_fields_find(config, all[i]);
}

static bool read_sizes(kn_fields *config, kn_encoder *encoder) {
    const int64_t most = KN_LANGUAGE_SIZE;
    encoder->epsilon = 1e-5;
    if (!kn_fields_need(config, "num_hidden_layers", 1, KN_LANGUAGE_LAYERS, &encoder->layers) ||
        !kn_fields_need(config, "hidden_size", 1, most, &encoder->width) ||
        !kn_fields_need(config, "intermediate_size", 1, most, &encoder->hidden) ||
        !kn_fields_need(config, "num_attention_heads", 1, most, &encoder->heads) ||
        !kn_fields_need(config, "vocab_size", 1, most, &encoder->vocabulary) ||
        !kn_fields_need(config, "max_position_embeddings", 1, INT32_MAX, &encoder->positions) ||
        !kn_fields_activation(config, "hidden_activation", &encoder->activation) ||
        !kn_fields_real(config, "norm_eps", 1e-30, 1, &encoder->epsilon) ||
        !kn_fields_flag(config, "norm_bias", &encoder->norm_bias) ||
        !kn_fields_flag(config, "attention_bias", &encoder->attention_bias) ||
        !kn_fields_flag(config, "mlp_bias", &encoder->hidden_bias))
        return false;
    return (encoder->width % encoder->heads == 0 && encoder->width / encoder->heads % 2 == 0) ||
           kn_fields_fail(config, "num_attention_heads", "heads of an even size that divide the width");
}

/* A layer that does not see all tokens sees those at most half of local_attention away. */
static bool read_layers(kn_fields *config, kn_encoder *encoder) {
    int64_t every = 3, local = 128;
    const kn_json *types = kn_fields_find(config, "layer_types");
    if (!kn_fields_whole(config, "global_attn_every_n_layers", 1, INT32_MAX, &every) ||
        !kn_fields_whole(config, "local_attention", 1, INT32_MAX, &local))
        return false;
    encoder->near = local / 2 + 1;
    if (types) return kn_folder_read_layer_types(config, types, encoder->layers, encoder->kinds);
    for (int64_t i = 0; i < encoder->layers; i++)
        if (i % every) encoder->kinds[i] = KN_LAYER_SLIDES;
    return true;
}

static bool read_rotations(kn_fields *config, kn_folder *folder, kn_encoder *encoder) {
    kn_folder_rope all = {.head = encoder->width / encoder->heads, .context = encoder->positions}, near = all;
    double base = 160000, near_base = 10000;
    if (!kn_fields_real(config, "global_rope_theta", 1e-12, 1e12, &base) ||
        !kn_fields_real(config, "local_rope_theta", 1e-12, 1e12, &near_base) ||
        !kn_folder_read_rope(config, &folder->arena, "full_attention", base, &all) ||
        !kn_folder_read_local_rope(config, &folder->arena, "sliding_attention", near_base, &near))
        return false;
    encoder->rotation = all.rotation;
    encoder->near_rotation = near.rotation;
    return (!all.divisors && !near.divisors && all.factor == 1 && near.factor == 1 &&
            all.rotation.divisor == 1 && near.rotation.divisor == 1) ||
           kn_fields_fail(config, "rope_parameters", "rotations that are not scaled");
}

static bool write_modern(kn_fields *config, const kn_folder_family *family, kn_folder *folder,
                         const char *path, kn_text *text) {
    kn_encoder encoder = {.name = family->type, .modern = true};
    ignore(config);
    if (!read_sizes(config, &encoder) || !read_layers(config, &encoder) ||
        !read_rotations(config, folder, &encoder))
        return false;
    encoder.window = encoder.positions;
    if (!kn_folder_read_pooling(config->model, path, &encoder)) return false;
    if (encoder.window > KN_LANGUAGE_WINDOW) encoder.window = KN_LANGUAGE_WINDOW;
    kn_encoder_write(&encoder, text);
    return true;
}

/* Of Wi, the first half has the activation. */
static const kn_folder_name layers[] = {
    {"attn_norm", "attn_norm", KN_FOLDER_SAME}, {"attn_q", "attn.Wqkv", KN_FOLDER_ROWS},
    {"attn_k", "attn.Wqkv", KN_FOLDER_ROWS},    {"attn_v", "attn.Wqkv", KN_FOLDER_ROWS},
    {"attn_output", "attn.Wo", KN_FOLDER_SAME}, {"ffn_norm", "mlp_norm", KN_FOLDER_SAME},
    {"ffn_gate", "mlp.Wi", KN_FOLDER_ROWS},     {"ffn_up", "mlp.Wi", KN_FOLDER_ROWS},
    {"ffn_down", "mlp.Wo", KN_FOLDER_SAME},     {NULL, NULL, KN_FOLDER_SAME},
};
static const kn_folder_name others[] = {
    {"token_embd", "embeddings.tok_embeddings", KN_FOLDER_SAME},
    {"token_embd_norm", "embeddings.norm", KN_FOLDER_SAME},
    {"output_norm", "final_norm", KN_FOLDER_SAME},
    {NULL, NULL, KN_FOLDER_SAME},
};
static const char *const prefixes[] = {"", "model.", NULL};
static const char *const ignored[] = {"head.", "decoder.", "classifier.", NULL};
static const kn_folder_names names = {layers, others, "layers.", prefixes, ignored};

const kn_folder_family kn_folder_modern_encoders[] = {
    {"modernbert", "ModernBertModel", &names, write_modern, NULL, true},
};
const int kn_folder_modern_encoder_count = (int)KN_COUNT_OF(kn_folder_modern_encoders);
