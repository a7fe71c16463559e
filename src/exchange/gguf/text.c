/* Writes a language model as a text: a block for its layers, and a line for each layer. */
#include <inttypes.h>
#include <math.h>

#include "exchange/gguf/gguf.h"

/* Positions that are computed at once, unless the caller sets `window`. */
enum { WINDOW = 2048 };

static void write_norm(const kn_language *language, kn_text *text, const char *name, const char *input) {
    kn_text_format(text, "    %s = rmsnorm%s%s epsilon=", name, *input ? " @" : "", input);
    kn_text_number_float(text, (float)language->epsilon);
    kn_text_add(text, "\n");
}

/* q or k, (batch,window,heads*head): normalized by head if the model does, and rotated. */
static void write_turned(const kn_language *language, kn_text *text, const char *name, int64_t heads,
                         bool slides) {
    kn_text_format(text, "    attn_%s = linear @attn_norm %" PRId64 "%s\n", name, heads * language->head,
                   language->biases ? "" : " bias=no");
    if (language->head_norms) {
        kn_text_format(text, "    reshape window,%" PRId64 ",%" PRId64 "\n", heads, language->head);
        kn_text_format(text, "    attn_%s_norm = rmsnorm epsilon=", name);
        kn_text_number_float(text, (float)language->epsilon);
        kn_text_format(text, "\n    reshape window,%" PRId64 "\n", heads * language->head);
    }
    kn_text_format(text, "    %s = rotary @%s heads=%" PRId64 " base=", name,
                   language->divisors ? " @rope_freqs" : "", heads);
    kn_text_number(text, slides ? language->sliding_base : language->base);
    if (!slides && language->divisor != 1) {
        kn_text_add(text, " divisor=");
        kn_text_number(text, language->divisor);
    }
    kn_text_add(text, language->family->interleaved ? " interleaved\n" : "\n");
}

static void write_block(const kn_language *language, kn_text *text, const char *name, bool slides) {
    const int64_t width = language->width, hidden = language->hidden;
    kn_text_format(text, "\nblock %s\n", name);
    write_norm(language, text, "attn_norm", "");
    write_turned(language, text, "q", language->heads, slides);
    write_turned(language, text, "k", language->key_heads, slides);
    kn_text_format(text, "    attn_v = linear @attn_norm %" PRId64 "%s\n",
                   language->key_heads * language->head, language->biases ? "" : " bias=no");
    kn_text_format(text, "    attention @q @k @attn_v heads=%" PRId64 " key_heads=%" PRId64 " causal",
                   language->heads, language->key_heads);
    if (language->scale > 0) {
        kn_text_add(text, " scale=");
        kn_text_number_float(text, (float)language->scale);
    }
    if (slides) kn_text_format(text, " window=%" PRId64, language->window);
    kn_text_format(text, "\n    attn_output = linear %" PRId64 " bias=no\n", width);
    if (language->post_norms) write_norm(language, text, "post_attention_norm", "");
    kn_text_add(text, "    attended = add @ @in\n");
    write_norm(language, text, "ffn_norm", "");
    kn_text_format(text,
                   "    ffn_gate = linear %" PRId64 " bias=no\n"
                   "    gate = %s\n"
                   "    ffn_up = linear @ffn_norm %" PRId64 " bias=no\n"
                   "    mul @gate @ffn_up\n"
                   "    ffn_down = linear %" PRId64 " bias=no\n",
                   hidden, language->family->gate, hidden, width);
    if (language->post_norms) write_norm(language, text, "post_ffw_norm", "");
    kn_text_add(text, "    add @ @attended\nend\n");
}

void kn_language_write(const kn_language *language, kn_text *text) {
    const kn_language_family *family = language->family;
    const bool slides = language->window > 0;
    kn_text_format(text,
                   "koine 1\n\n# Text, the next token at each position: architecture %s.\n"
                   "task classification\n\nset window %" PRId64 "\n",
                   family->name, language->context < WINDOW ? language->context : WINDOW);
    write_block(language, text, "layer", false);
    if (slides) write_block(language, text, "sliding", true);
    kn_text_add(text, "\ninput x window int32\n");
    if (language->divisors)
        kn_text_format(text, "rope_freqs = parameter %" PRId64 " freeze\n", language->head / 2);
    kn_text_format(text, "token_embd = embedding @x %" PRId64 " %" PRId64 "\n", language->vocabulary,
                   language->width);
    if (family->scaled_table) {
        kn_text_add(text, "scale = number ");
        kn_text_number_float(text, (float)sqrt((double)language->width));
        kn_text_add(text, "\nmul @token_embd @scale\n");
    }
    for (int64_t i = 0; i < language->layers; i++)
        kn_text_format(text, "blk%" PRId64 " = %s\n", i,
                       slides && (i + 1) % family->sliding_of != 0 ? "sliding" : "layer");
    kn_text_add(text, "output_norm = rmsnorm epsilon=");
    kn_text_number_float(text, (float)language->epsilon);
    kn_text_format(text, "\noutput = linear %" PRId64 " bias=no%s\n", language->vocabulary,
                   language->tied ? " share=token_embd" : "");
}
