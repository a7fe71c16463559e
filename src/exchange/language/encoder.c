/* Writes an encoder of texts as a text model. */
#include <inttypes.h>

#include "exchange/language/language.h"

static void write_norm(const kn_encoder *encoder, kn_text *text, const char *name) {
    kn_text_format(text, "%s = layernorm epsilon=", name);
    kn_text_number_float(text, (float)encoder->epsilon);
    kn_text_add(text, "\n");
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
    write_block(encoder, text);
    kn_text_add(text, "\ninput x window int32\ninput length scalar int32\n");
    write_embedding(encoder, text);
    for (int64_t i = 0; i < encoder->layers; i++)
        kn_text_format(text, "blk%" PRId64 " = layer\n", i);
    write_pooling(encoder, text);
}
