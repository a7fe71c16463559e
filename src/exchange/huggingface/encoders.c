/* Encoders of texts: their config.json, and the names of their tensors. */
#include <string.h>

#include "exchange/huggingface/huggingface.h"

/* Names of members of config.json, and their defaults. */
typedef struct about {
    const char *layers, *width, *hidden, *heads, *activation;
    int64_t types;   /* the default of type_vocab_size; -1: the architecture has no types of tokens */
    int64_t padding; /* the default of pad_token_id; positions begin after it. -1: they begin at 0 */
} about;

static const about bert = {.layers = "num_hidden_layers",
                           .width = "hidden_size",
                           .hidden = "intermediate_size",
                           .heads = "num_attention_heads",
                           .activation = "hidden_act",
                           .types = 2,
                           .padding = -1};
static const about roberta = {.layers = "num_hidden_layers",
                              .width = "hidden_size",
                              .hidden = "intermediate_size",
                              .heads = "num_attention_heads",
                              .activation = "hidden_act",
                              .types = 2,
                              .padding = 1};
static const about distilbert = {.layers = "n_layers",
                                 .width = "dim",
                                 .hidden = "hidden_dim",
                                 .heads = "n_heads",
                                 .activation = "activation",
                                 .types = -1,
                                 .padding = -1};

static bool read_sizes(kn_fields *config, const about *of, kn_encoder *encoder) {
    const int64_t most = KN_LANGUAGE_SIZE;
    if (!kn_fields_need(config, of->layers, 1, KN_LANGUAGE_LAYERS, &encoder->layers) ||
        !kn_fields_need(config, of->width, 1, most, &encoder->width) ||
        !kn_fields_need(config, of->hidden, 1, most, &encoder->hidden) ||
        !kn_fields_need(config, of->heads, 1, most, &encoder->heads) ||
        !kn_fields_need(config, "vocab_size", 1, most, &encoder->vocabulary) ||
        !kn_fields_need(config, "max_position_embeddings", 1, most, &encoder->positions))
        return false;
    return encoder->width % encoder->heads == 0 ||
           kn_fields_fail(config, of->heads, "a divisor of the width");
}

static bool read_settings(kn_fields *config, const about *of, kn_encoder *encoder) {
    const char *positions = "absolute";
    int64_t padding = of->padding;
    encoder->types = of->types > 0 ? of->types : 0;
    encoder->epsilon = 1e-12;
    if (!kn_fields_activation(config, of->activation, &encoder->activation) ||
        !kn_fields_real(config, "layer_norm_eps", 1e-30, 1, &encoder->epsilon) ||
        (of->types > 0 &&
         !kn_fields_whole(config, "type_vocab_size", 1, KN_LANGUAGE_SIZE, &encoder->types)) ||
        !kn_fields_word(config, "position_embedding_type", &positions) ||
        !kn_fields_must_be(config, "is_decoder", false) ||
        !kn_fields_must_be(config, "add_cross_attention", false) ||
        !kn_fields_must_be(config, "sinusoidal_pos_embds", false))
        return false;
    if (strcmp(positions, "absolute")) return kn_fields_fail(config, "position_embedding_type", "absolute");
    if (padding >= 0 && !kn_fields_whole(config, "pad_token_id", 0, encoder->positions - 2, &padding))
        return false;
    encoder->first_position = padding + 1;
    encoder->window = encoder->positions - encoder->first_position;
    return encoder->window > 0 ||
           kn_fields_fail(config, "max_position_embeddings", "more positions than those before the first");
}

static bool write_encoder(kn_fields *config, const kn_folder_family *family, kn_folder *folder,
                          const char *path, kn_text *text) {
    static const char *const harmless[] = {"attention_probs_dropout_prob",
                                           "hidden_dropout_prob",
                                           "classifier_dropout",
                                           "seq_classif_dropout",
                                           "qa_dropout",
                                           "dropout",
                                           "chunk_size_feed_forward",
                                           "tie_word_embeddings",
                                           "tie_weights_",
                                           "cross_attention_hidden_size",
                                           "pooler_fc_size",
                                           "pooler_num_attention_heads",
                                           "pooler_num_fc_layers",
                                           "pooler_size_per_head",
                                           "pooler_type",
                                           "directionality",
                                           "output_past",
                                           NULL};
    const about *of = family->about;
    kn_encoder encoder = {.name = family->type};
    (void)folder;
    for (const char *const *at = harmless; *at; at++)
        kn_fields_find(config, *at);
    if (!read_sizes(config, of, &encoder) || !read_settings(config, of, &encoder) ||
        !kn_folder_read_pooling(config->model, path, &encoder))
        return false;
    kn_encoder_write(&encoder, text);
    return true;
}

/* ---- names ------------------------------------------------------------------------------------------- */

static const kn_folder_name bert_layers[] = {
    {"attn_q", "attention.self.query", KN_FOLDER_SAME},
    {"attn_k", "attention.self.key", KN_FOLDER_SAME},
    {"attn_v", "attention.self.value", KN_FOLDER_SAME},
    {"attn_output", "attention.output.dense", KN_FOLDER_SAME},
    {"attn_output_norm", "attention.output.LayerNorm", KN_FOLDER_SAME},
    {"ffn_up", "intermediate.dense", KN_FOLDER_SAME},
    {"ffn_down", "output.dense", KN_FOLDER_SAME},
    {"layer_output_norm", "output.LayerNorm", KN_FOLDER_SAME},
    {NULL, NULL, KN_FOLDER_SAME},
};
static const kn_folder_name distilbert_layers[] = {
    {"attn_q", "attention.q_lin", KN_FOLDER_SAME},
    {"attn_k", "attention.k_lin", KN_FOLDER_SAME},
    {"attn_v", "attention.v_lin", KN_FOLDER_SAME},
    {"attn_output", "attention.out_lin", KN_FOLDER_SAME},
    {"attn_output_norm", "sa_layer_norm", KN_FOLDER_SAME},
    {"ffn_up", "ffn.lin1", KN_FOLDER_SAME},
    {"ffn_down", "ffn.lin2", KN_FOLDER_SAME},
    {"layer_output_norm", "output_layer_norm", KN_FOLDER_SAME},
    {NULL, NULL, KN_FOLDER_SAME},
};
static const kn_folder_name other_names[] = {
    {"token_embd", "embeddings.word_embeddings", KN_FOLDER_SAME},
    {"position_embd", "embeddings.position_embeddings.weight", KN_FOLDER_SAME},
    {"token_types", "embeddings.token_type_embeddings.weight", KN_FOLDER_SAME},
    {"token_embd_norm", "embeddings.LayerNorm", KN_FOLDER_SAME},
    {NULL, NULL, KN_FOLDER_SAME},
};
static const char *const bert_prefixes[] = {"", "bert.", NULL};
static const char *const roberta_prefixes[] = {"", "roberta.", NULL};
static const char *const distilbert_prefixes[] = {"", "distilbert.", NULL};
/* The heads of other classes are not used for the vectors of tokens. */
static const char *const ignored[] = {"embeddings.position_ids",
                                      "pooler.",
                                      "cls.",
                                      "lm_head.",
                                      "classifier.",
                                      "pre_classifier.",
                                      "vocab_transform.",
                                      "vocab_projector.",
                                      "vocab_layer_norm.",
                                      "qa_outputs.",
                                      NULL};
static const kn_folder_names bert_names = {bert_layers, other_names, "encoder.layer.", bert_prefixes,
                                           ignored};
static const kn_folder_names roberta_names = {bert_layers, other_names, "encoder.layer.", roberta_prefixes,
                                              ignored};
static const kn_folder_names distilbert_names = {distilbert_layers, other_names, "transformer.layer.",
                                                 distilbert_prefixes, ignored};

const kn_folder_family kn_folder_encoders[] = {
    {"bert", "BertModel", &bert_names, write_encoder, &bert, true},
    {"roberta", "RobertaModel", &roberta_names, write_encoder, &roberta, true},
    {"xlm-roberta", "XLMRobertaModel", &roberta_names, write_encoder, &roberta, true},
    {"distilbert", "DistilBertModel", &distilbert_names, write_encoder, &distilbert, true},
};
const int kn_folder_encoder_count = (int)KN_COUNT_OF(kn_folder_encoders);
