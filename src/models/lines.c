/* Splits a text into lines of words, without looking anything up. */
#include <string.h>

#include "models/models_private.h"

typedef enum token_sort { TOKEN_WORD, TOKEN_INPUT, TOKEN_EQUALS } token_sort;

typedef struct token {
    token_sort sort;
    kn_word word;
} token;

/* ---- characters ---------------------------------------------------------------------------------------- */

/* Bytes of the UTF-8 character at `text`, of which `bytes` remain; 0 if it is invalid. */
static size_t character(const unsigned char *text, size_t bytes) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t count = text[0] < 0x80       ? 1
                   : text[0] >> 5 == 6  ? 2
                   : text[0] >> 4 == 14 ? 3
                   : text[0] >> 3 == 30 ? 4
                                        : 0;
    if (count == 0 || count > bytes) return 0;
    uint32_t code = count == 1 ? text[0] : text[0] & (0x7fu >> count);
    for (size_t i = 1; i < count; i++) {
        if (text[i] >> 6 != 2) return 0;
        code = code << 6 | (text[i] & 0x3f);
    }
    return code < least[count] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : count;
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

/* Checks that the line has only characters that a text may contain. */
static bool check_characters(kn_model *model, const kn_line *line, const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes;) {
        unsigned char byte = (unsigned char)text[i];
        size_t count = character((const unsigned char *)text + i, bytes - i);
        if (count == 0 || (byte < 0x20 && byte != '\t') || byte == 0x7f)
            return kn_mistake(model, line, (int)i + 1, "found the byte 0x%02x, expected a text in UTF-8",
                              byte);
        i += count;
    }
    return true;
}

/* ---- words --------------------------------------------------------------------------------------------- */

static bool take_word(kn_model *model, const kn_line *line, const char *text, size_t bytes, size_t *position,
                      token *made) {
    size_t start = *position, end = start;
    made->sort = text[start] == '=' ? TOKEN_EQUALS : text[start] == '@' ? TOKEN_INPUT : TOKEN_WORD;
    made->word.column = (int)start + 1;
    if (made->sort == TOKEN_EQUALS) {
        *position = start + 1;
        return true;
    }
    if (made->sort == TOKEN_INPUT) start = ++end;
    while (end < bytes && !is_blank(text[end]) && text[end] != '=' && text[end] != '#')
        end++;
    *position = end;
    if (end - start > KN_MODEL_WORD_BYTES)
        return kn_mistake(model, line, (int)start + 1, "found a word of %zu characters, expected at most %d",
                          end - start, KN_MODEL_WORD_BYTES);
    char *word = kn_arena_take(&model->arena, end - start + 1, 1);
    if (!word) return kn_model_no_memory(model);
    memcpy(word, text + start, end - start);
    made->word.text = word;
    return true;
}

/* `end`: the position of the comment, if any. */
static bool take_comment(kn_model *model, kn_line *line, const char *text, size_t bytes, size_t end) {
    if (end == bytes) return true;
    while (bytes > end + 1 && is_blank(text[bytes - 1]))
        bytes--;
    char *comment = kn_arena_take(&model->arena, bytes - end, 1);
    if (!comment) return kn_model_no_memory(model);
    memcpy(comment, text + end + 1, bytes - end - 1);
    line->comment = comment;
    return true;
}

/* ---- lines --------------------------------------------------------------------------------------------- */

/* Reads the tokens from `first` on: KEY=VALUE and VALUE. */
static bool join_arguments(kn_model *model, kn_line *line, const token *tokens, size_t first, size_t count) {
    line->inputs = kn_arena_take(&model->arena, count - first, sizeof *line->inputs);
    line->given = kn_arena_take(&model->arena, count - first, sizeof *line->given);
    if (!line->inputs || !line->given) return kn_model_no_memory(model);
    for (size_t i = first; i < count; i++) {
        const kn_word *word = &tokens[i].word;
        if (tokens[i].sort == TOKEN_INPUT) {
            line->inputs[line->input_count++] = *word;
        } else if (tokens[i].sort == TOKEN_EQUALS) {
            return kn_mistake(model, line, word->column, "found '=', expected a name before it");
        } else if (i + 1 < count && tokens[i + 1].sort == TOKEN_EQUALS) {
            if (i + 2 >= count || tokens[i + 2].sort != TOKEN_WORD)
                return kn_mistake(model, line, tokens[i + 1].word.column + 1,
                                  "found %s, expected a value after %s=",
                                  i + 2 >= count                       ? "the end of the line"
                                  : tokens[i + 2].sort == TOKEN_EQUALS ? "'='"
                                                                       : "'@'",
                                  word->text);
            line->given[line->given_count++] = (kn_given){*word, tokens[i + 2].word};
            i += 2;
        } else {
            line->given[line->given_count++] = (kn_given){.value = *word};
        }
    }
    return true;
}

static bool join_line(kn_model *model, kn_line *line, const token *tokens, size_t count) {
    char found[KN_FOUND_BYTES];
    size_t first = 0;
    if (count == 0) return true;
    if (tokens[0].sort != TOKEN_WORD)
        return kn_mistake(model, line, tokens[0].word.column,
                          "found '%s', expected a name or a kind of layer first",
                          tokens[0].sort == TOKEN_EQUALS ? "=" : "@");
    if (count > 1 && tokens[1].sort == TOKEN_EQUALS) {
        line->name = tokens[0].word;
        first = 2;
        if (count == 2 || tokens[2].sort != TOKEN_WORD)
            return kn_mistake(model, line, tokens[1].word.column + 1,
                              "found %s, expected a kind of layer after %s =",
                              count == 2                       ? "the end of the line"
                              : tokens[2].sort == TOKEN_EQUALS ? "'='"
                                                               : "'@'",
                              kn_found(line->name.text, found));
    }
    line->word = tokens[first].word;
    line->sort = KN_LINE_LAYER;
    return join_arguments(model, line, tokens, first + 1, count);
}

static bool read_line(kn_model *model, kn_line *line, const char *text, size_t bytes) {
    token tokens[KN_MODEL_WORDS];
    size_t count = 0, position = 0;
    if (!check_characters(model, line, text, bytes)) return false;
    for (;;) {
        while (position < bytes && is_blank(text[position]))
            position++;
        if (position == bytes || text[position] == '#') break;
        if (count == KN_MODEL_WORDS)
            return kn_mistake(model, line, (int)position + 1,
                              "found more than %d words in a line, expected fewer", KN_MODEL_WORDS);
        tokens[count] = (token){0};
        if (!take_word(model, line, text, bytes, &position, &tokens[count])) return false;
        count++;
    }
    return take_comment(model, line, text, bytes, position) && join_line(model, line, tokens, count);
}

bool kn_model_read_lines(kn_model *model, const char *text, size_t bytes) {
    kn_line top = {.number = 1};
    if (bytes > KN_MODEL_BYTES)
        return kn_mistake(model, &top, 1, "found a text of %zu bytes, expected at most %d", bytes,
                          KN_MODEL_BYTES);
    if (bytes >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) { /* the byte order mark that some editors write */
        text += 3;
        bytes -= 3;
    }
    size_t count = 1;
    for (size_t i = 0; i < bytes; i++)
        count += text[i] == '\n';
    if (count > KN_MODEL_LINES)
        return kn_mistake(model, &top, 1, "found %zu lines, expected at most %d", count, KN_MODEL_LINES);
    model->text->lines = kn_arena_take(&model->arena, count, sizeof *model->text->lines);
    if (!model->text->lines) return kn_model_no_memory(model);
    for (size_t start = 0; start < bytes;) {
        const char *end = memchr(text + start, '\n', bytes - start);
        size_t length = end ? (size_t)(end - text) - start : bytes - start, next = start + length + 1;
        if (length > 0 && text[start + length - 1] == '\r') length--;
        kn_line *line = &model->text->lines[model->text->line_count];
        line->number = (int)model->text->line_count + 1;
        if (!read_line(model, line, text + start, length)) return false;
        model->text->line_count++;
        start = next;
    }
    return true;
}
