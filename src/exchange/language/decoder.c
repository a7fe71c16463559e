/* Writes a language model as a text: a block for each kind of layer, and a line for each layer. */
#include <inttypes.h>
#include <string.h>

#include "exchange/language/language.h"

static const char *const block_names[KN_LAYER_KINDS] = {"layer", "sliding", "unrotated", "sliding_unrotated"};

static void write_norm(const kn_language *language, kn_text *text, const char *name, const char *input) {
    kn_text_format(text, "%s%s = %s%s%s epsilon=", strcmp(name, "output_norm") ? "    " : "", name,
                   language->plain ? "layernorm" : "rmsnorm", *input ? " @" : "", input);
    kn_text_number_float(text, (float)language->epsilon);
    kn_text_add(text, "\n");
}

/* input: "" for the line before. */
static void write_product(kn_text *text, const char *name, const char *input, int64_t units, bool bias) {
    kn_text_format(text, "    %s = linear%s%s %" PRId64 "%s\n", name, *input ? " @" : "", input, units,
                   bias ? "" : " bias=no");
}

static void write_rotation(const kn_language *language, const kn_language_rotation *rotation, kn_text *text,
                           const char *name, int64_t heads) {
    kn_text_format(text, "    %s = rotary @%s heads=%" PRId64 " base=", name,
                   rotation->divisors ? " @rope_freqs" : "", heads);
    kn_text_number(text, rotation->base);
    if (rotation->divisor != 1) {
        kn_text_add(text, " divisor=");
        kn_text_number(text, rotation->divisor);
    }
    kn_text_add(text, language->interleaved ? " interleaved\n" : "\n");
}

/* q or k, (batch,window,heads*head): normalized by head if the model does, and rotated. Returns the name of
 * the result. */
static const char *write_query(const kn_language *language, kn_text *text, const char *name, int64_t heads,
                               int kind) {
    const bool query = name[0] == 'q';
    write_product(text, query ? "attn_q" : "attn_k", "attn_norm", heads * language->head, language->biases);
    if (language->head_norms) {
        kn_text_format(text, "    reshape window,%" PRId64 ",%" PRId64 "\n", heads, language->head);
        write_norm(language, text, query ? "attn_q_norm" : "attn_k_norm", "");
        kn_text_format(text, "    %s = reshape window,%" PRId64 "\n", query ? "queries" : "keys",
                       heads * language->head);
    }
    if (kind & KN_LAYER_UNROTATED)
        return language->head_norms ? query ? "queries" : "keys" : query ? "attn_q" : "attn_k";
    write_rotation(language, kind & KN_LAYER_SLIDES ? &language->sliding_rotation : &language->rotation, text,
                   name, heads);
    return name;
}

static void write_attention(const kn_language *language, kn_text *text, int kind) {
    const char *q = write_query(language, text, "q", language->heads, kind);
    const char *k = write_query(language, text, "k", language->key_heads, kind);
    write_product(text, "attn_v", "attn_norm", language->key_heads * language->head, language->biases);
    kn_text_format(text, "    attention @%s @%s @attn_v heads=%" PRId64 " key_heads=%" PRId64 " causal", q, k,
                   language->heads, language->key_heads);
    if (language->scale > 0) {
        kn_text_add(text, " scale=");
        kn_text_number_float(text, (float)language->scale);
    }
    if (language->softcap > 0) {
        kn_text_add(text, " softcap=");
        kn_text_number_float(text, (float)language->softcap);
    }
    if (kind & KN_LAYER_SLIDES) kn_text_format(text, " window=%" PRId64, language->window);
    kn_text_add(text, "\n");
    write_product(text, "attn_output", "", language->width, language->output_bias);
}

static void write_block(const kn_language *language, kn_text *text, int kind) {
    const bool biases = language->hidden_biases;
    kn_text_format(text, "\nblock %s\n", block_names[kind]);
    write_norm(language, text, "attn_norm", "");
    write_attention(language, text, kind);
    if (language->post_norms) write_norm(language, text, "post_attention_norm", "");
    kn_text_add(text, "    attended = add @ @in\n");
    write_norm(language, text, "ffn_norm", language->parallel ? "in" : "");
    if (language->plain) {
        write_product(text, "ffn_up", "", language->hidden, biases);
        kn_text_format(text, "    %s\n", language->gate);
    } else {
        write_product(text, "ffn_gate", "", language->hidden, biases);
        kn_text_format(text, "    gate = %s\n", language->gate);
        write_product(text, "ffn_up", "ffn_norm", language->hidden, biases);
        kn_text_add(text, "    mul @gate @ffn_up\n");
    }
    write_product(text, "ffn_down", "", language->width, biases);
    if (language->post_norms) write_norm(language, text, "post_ffw_norm", "");
    kn_text_add(text, "    add @ @attended\nend\n");
}

static bool has_kind(const kn_language *language, int kind) {
    for (int64_t i = 0; i < language->layers; i++)
        if (language->kinds[i] == kind) return true;
    return false;
}

void kn_language_write(const kn_language *language, kn_text *text) {
    kn_text_format(text,
                   "koine 1\n\n# Text, the next token at each position: architecture %s.\n"
                   "task classification\nloss cross-entropy ignore=-100\n\nset window %" PRId64 "\n",
                   language->name,
                   language->context < KN_LANGUAGE_WINDOW ? language->context : KN_LANGUAGE_WINDOW);
    for (int kind = 0; kind < KN_LAYER_KINDS; kind++)
        if (has_kind(language, kind)) write_block(language, text, kind);
    kn_text_add(text, "\ninput x window int32\n");
    if (language->rotation.divisors || language->sliding_rotation.divisors)
        kn_text_format(text, "rope_freqs = parameter %" PRId64 " freeze\n", language->head / 2);
    kn_text_format(text, "token_embd = embedding @x %" PRId64 " %" PRId64 "\n", language->vocabulary,
                   language->width);
    if (language->positions)
        kn_text_format(text,
                       "position_embd = parameter %" PRId64 ",%" PRId64 "\n"
                       "positions = slice @position_embd axis=0 begin=0 end=window\n"
                       "add @token_embd @positions\n",
                       language->positions, language->width);
    if (language->table_scale > 0) {
        kn_text_add(text, "scale = number ");
        kn_text_number_float(text, (float)language->table_scale);
        kn_text_add(text, "\nmul @token_embd @scale\n");
    }
    for (int64_t i = 0; i < language->layers; i++)
        kn_text_format(text, "blk%" PRId64 " = %s\n", i, block_names[language->kinds[i]]);
    write_norm(language, text, "output_norm", "");
    kn_text_format(text, "output = linear %" PRId64 " bias=no%s\n", language->vocabulary,
                   language->tied ? " share=token_embd" : "");
    if (language->output_softcap > 0) {
        kn_text_add(text, "cap = number ");
        kn_text_number_float(text, (float)language->output_softcap);
        kn_text_add(text, "\ndiv @output @cap\ntanh\nlogits = mul @ @cap\n");
    }
}

bool kn_language_open(kn_model *model, const kn_text *text) {
    const char *name = model->source;
    model->source = kn_arena_format(&model->arena, "%s (translated)", name);
    bool good = model->source && !kn_text_failed(text) ? kn_model_read(model, text->data, text->length)
                                                       : kn_model_no_memory(model);
    model->source = name;
    return good;
}
