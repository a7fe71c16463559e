/* Writes the canonical text: the lines that were read, with one space between words and the bodies of blocks
 * and repeats indented. Reading it yields the same lines. */
#include "models/models_private.h"

static void print_given(const kn_given *given, kn_text *text) {
    if (given->key.text)
        kn_text_format(text, " %s=%s", given->key.text, given->value.text);
    else
        kn_text_format(text, " %s", given->value.text);
}

static void print_line(const kn_line *line, int depth, kn_text *text) {
    /* The name of a block precedes its inputs. */
    int first = line->sort == KN_LINE_BLOCK && line->given_count > 0;
    for (int i = 0; i < depth; i++)
        kn_text_add(text, "    ");
    if (line->name.text) kn_text_format(text, "%s = ", line->name.text);
    if (line->word.text) kn_text_add(text, line->word.text);
    if (first) print_given(&line->given[0], text);
    for (int i = 0; i < line->input_count; i++)
        kn_text_format(text, " @%s", line->inputs[i].text);
    for (int i = first; i < line->given_count; i++)
        print_given(&line->given[i], text);
    if (line->comment) kn_text_format(text, "%s#%s", line->word.text ? "  " : "", line->comment);
    kn_text_add(text, "\n");
}

bool kn_model_print(kn_model *model) {
    kn_text text;
    int depth = 0;
    bool blank = false; /* an empty line is written before the next line: none at the ends, one in between */
    kn_text_init(&text, &model->host);
    for (size_t i = 0; i < model->text->line_count; i++) {
        const kn_line *line = &model->text->lines[i];
        if (!line->word.text && !line->comment) {
            blank = text.length > 0;
            continue;
        }
        if (blank) kn_text_add(&text, "\n");
        blank = false;
        if (line->sort == KN_LINE_END && depth > 0) depth--;
        print_line(line, depth, &text);
        if (line->sort == KN_LINE_BLOCK || line->sort == KN_LINE_REPEAT) depth++;
    }
    model->text->canonical = kn_text_failed(&text) ? NULL : kn_arena_text(&model->arena, text.data);
    kn_text_finish(&text);
    return model->text->canonical || kn_model_no_memory(model);
}
