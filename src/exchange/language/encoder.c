/* Writes an encoder of texts as a text model. */
#include <inttypes.h>
#include <string.h>

#include "exchange/language/language.h"

static void write_norm(const kn_encoder *encoder, kn_text *text, const char *name) {
    kn_text_format(text, "%s = layernorm epsilon=", name);
    kn_text_number_float(text, (float)encoder->epsilon);
    kn_text_add(text, encoder->modern && !encoder->norm_bias ? " bias=no\n" : "\n");
}

static void write_block(const kn_encoder *encoder, kn_text *text) {
    const int64_t width = encoder->width;
    kn_text_format(text,
                   "\nblock layer\n"
                   "    attn_q = linear %" PRId64 "\n"
                   "    attn_k = linear @in %" PRId64 "\n"
                   "    attn_v = linear @in %" PRId64 "\n"
                   "    attention @attn_q @attn_k @attn_v @length heads=%" PRId64 "\n"
                   "    attn_output = linear %" PRId64 "\n"
                   "    add @ @in\n    ",
                   width, width, width, encoder->heads, width);
    write_norm(encoder, text, "attn_output_norm");
    kn_text_format(text,
                   "    ffn_up = linear %" PRId64 "\n"
                   "    %s\n"
                   "    ffn_down = linear %" PRId64 "\n"
                   "    add @ @attn_output_norm\n    ",
                   encoder->hidden, encoder->activation, width);
    write_norm(encoder, text, "layer_output_norm");
    kn_text_add(text, "end\n");
}

/* ---- ModernBERT ---------------------------------------------------------------------------------- */

/* The first layer reads the embedding's norm, so that it has none of its own. */
static const char *block_of(const kn_encoder *encoder, int64_t layer) {
    const bool slides = encoder->kinds[layer] & KN_LAYER_SLIDES;
    return layer == 0 ? "first" : slides ? "sliding" : "layer";
}

static void write_query(const kn_encoder *encoder, kn_text *text, const char *input, char part, bool slides) {
    kn_text_format(text, "    attn_%c = linear @%s %" PRId64 "%s\n", part, input, encoder->width,
                   encoder->attention_bias ? "" : " bias=no");
    if (part == 'v') return;
    kn_text_format(text, "    %c = rotary @attn_%c heads=%" PRId64 " base=", part, part, encoder->heads);
    kn_text_number(text, slides ? encoder->near_rotation.base : encoder->rotation.base);
    kn_text_add(text, "\n");
}

static void write_modern_block(const kn_encoder *encoder, kn_text *text, const char *name, bool slides) {
    const char *bias = encoder->hidden_bias ? "" : " bias=no";
    const bool first = !strcmp(name, "first");
    kn_text_format(text, "\nblock %s\n", name);
    if (!first) {
        kn_text_add(text, "    ");
        write_norm(encoder, text, "attn_norm");
    }
    for (const char *part = "qkv"; *part; part++)
        write_query(encoder, text, first ? "in" : "attn_norm", *part, slides);
    kn_text_format(text, "    attention @q @k @attn_v @length heads=%" PRId64, encoder->heads);
    if (slides) kn_text_format(text, " window=%" PRId64, encoder->near);
    kn_text_format(text,
                   "\n    attn_output = linear %" PRId64 "%s\n"
                   "    attended = add @ @in\n    ",
                   encoder->width, encoder->attention_bias ? "" : " bias=no");
    write_norm(encoder, text, "ffn_norm");
    kn_text_format(text,
                   "    ffn_gate = linear %" PRId64 "%s\n"
                   "    gate = %s\n"
                   "    ffn_up = linear @ffn_norm %" PRId64 "%s\n"
                   "    mul @gate @ffn_up\n"
                   "    ffn_down = linear %" PRId64 "%s\n"
                   "    add @ @attended\nend\n",
                   encoder->hidden, bias, encoder->activation, encoder->hidden, bias, encoder->width, bias);
}

static void write_modern_blocks(const kn_encoder *encoder, kn_text *text) {
    bool full = false, slides = false;
    write_modern_block(encoder, text, "first", encoder->kinds[0] & KN_LAYER_SLIDES);
    for (int64_t i = 1; i < encoder->layers; i++)
        *(encoder->kinds[i] & KN_LAYER_SLIDES ? &slides : &full) = true;
    if (full) write_modern_block(encoder, text, "layer", false);
    if (slides) write_modern_block(encoder, text, "sliding", true);
}

static void write_modern(const kn_encoder *encoder, kn_text *text) {
    kn_text_format(text, "token_embd = embedding @x %" PRId64 " %" PRId64 "\n", encoder->vocabulary,
                   encoder->width);
    write_norm(encoder, text, "token_embd_norm");
    for (int64_t i = 0; i < encoder->layers; i++)
        kn_text_format(text, "blk%" PRId64 " = %s\n", i, block_of(encoder, i));
    write_norm(encoder, text, "output_norm");
}

/* ---- the text ------------------------------------------------------------------------------------ */

static void write_embedding(const kn_encoder *encoder, kn_text *text) {
    kn_text_format(text,
                   "token_embd = embedding @x %" PRId64 " %" PRId64 "\n"
                   "position_embd = parameter %" PRId64 ",%" PRId64 "\n"
                   "positions = slice @position_embd axis=0 begin=%" PRId64 " end=window+%" PRId64 "\n"
                   "embedded = add @token_embd @positions\n",
                   encoder->vocabulary, encoder->width, encoder->positions, encoder->width,
                   encoder->first_position, encoder->first_position);
    if (encoder->types)
        kn_text_format(text,
                       "token_types = parameter %" PRId64 ",%" PRId64 "\n"
                       "type = slice @token_types axis=0 begin=0 end=1\n"
                       "add @embedded @type\n",
                       encoder->types, encoder->width);
    write_norm(encoder, text, "token_embd_norm");
}

static void write_plain(const kn_encoder *encoder, kn_text *text) {
    write_embedding(encoder, text);
    for (int64_t i = 0; i < encoder->layers; i++)
        kn_text_format(text, "blk%" PRId64 " = layer\n", i);
}

/* Tokens count from 1, so that those up to the length are of the text. */
static const char mean[] = "same = equal @x @x\n"
                           "ones = cast @same\n"
                           "number = cumsum @ones axis=1\n"
                           "lengths = cast @length\n"
                           "last = unsqueeze @lengths 1\n"
                           "seen = less_equal @number @last\n"
                           "share = cast @seen\n"
                           "weights = unsqueeze @share 2\n"
                           "weighted = mul @vectors @weights\n"
                           "sums = sum @weighted axes=1\n"
                           "text = div @sums @last\n";

static void write_pooling(const kn_encoder *encoder, kn_text *text) {
    kn_text_format(text, "vectors = reshape window,%" PRId64 "\n", encoder->width);
    if (encoder->pooling == KN_POOLING_MEAN) kn_text_add(text, mean);
    if (encoder->pooling == KN_POOLING_FIRST)
        kn_text_format(text, "first = slice axis=1 begin=0 end=1\ntext = reshape %" PRId64 "\n",
                       encoder->width);
    if (encoder->pooling != KN_POOLING_NONE && encoder->normalized)
        kn_text_add(text, "size = reduce_l2 @text 1 keep\n"
                          "divisor = clip @size low=1e-12\n"
                          "embedding = div @text @divisor\n");
}

void kn_encoder_write(const kn_encoder *encoder, kn_text *text) {
    kn_text_format(text,
                   "koine 1\n\n# Text, a vector for each %s: architecture %s.\n"
                   "task regression\n\nset window %" PRId64 "\n",
                   encoder->pooling == KN_POOLING_NONE ? "token" : "text", encoder->name, encoder->window);
    (encoder->modern ? write_modern_blocks : write_block)(encoder, text);
    kn_text_add(text, "\ninput x window int32\ninput length scalar int32\n");
    (encoder->modern ? write_modern : write_plain)(encoder, text);
    write_pooling(encoder, text);
}
