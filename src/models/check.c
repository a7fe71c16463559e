/* Classifies each line, finds blocks, and checks that kinds and arguments exist: everything that does not
 * depend on the values of variables. */
#include <stdio.h>
#include <string.h>

#include "data/data.h"
#include "models/models_private.h"

typedef struct keyword {
    const char *word;
    kn_line_sort sort;
} keyword;
static const keyword keywords[] = {
    {"koine", KN_LINE_VERSION}, {"model", KN_LINE_MODEL},     {"task", KN_LINE_TASK},
    {"loss", KN_LINE_LOSS},     {"set", KN_LINE_SET},         {"input", KN_LINE_INPUT},
    {"output", KN_LINE_OUTPUT}, {"block", KN_LINE_BLOCK},     {"repeat", KN_LINE_REPEAT},
    {"end", KN_LINE_END},       {"augment", KN_LINE_AUGMENT},
};

typedef struct checker {
    kn_model *model;
    int open[KN_MODEL_DEPTH]; /* indices of the blocks and repeats that have not ended */
    int depth;
    bool begun; /* the version line was read */
    bool named, has_task, has_loss, has_augment, has_input;
    kn_map kinds; /* block name -> index + 1 */
} checker;

/* ---- common to all keywords ---------------------------------------------------------------------------- */

static int end_column(const kn_line *line) {
    int column = line->word.column + (int)strlen(line->word.text);
    for (int i = 0; i < line->given_count; i++) {
        const kn_word *value = &line->given[i].value;
        int end = value->column + (int)strlen(value->text);
        if (end > column) column = end;
    }
    return column;
}

/* Expects `least` to `most` words and no @; `keys`: NAME=VALUE is allowed. */
static bool check_words(checker *c, const kn_line *line, int least, int most, bool keys,
                        const char *expected) {
    char found[KN_FOUND_BYTES];
    int count = 0;
    if (line->input_count > 0)
        return kn_mistake(c->model, line, line->inputs[0].column, "found '@', expected '%s'", expected);
    for (int i = 0; i < line->given_count; i++) {
        const kn_given *given = &line->given[i];
        if (given->key.text && !keys)
            return kn_mistake(c->model, line, given->key.column, "found '%s=', expected '%s'",
                              given->key.text, expected);
        if (given->key.text) continue;
        if (++count > most)
            return kn_mistake(c->model, line, given->value.column, "found %s, expected only '%s'",
                              kn_found(given->value.text, found), expected);
    }
    return count >= least ||
           kn_mistake(c->model, line, end_column(line), "found the end of the line, expected '%s'", expected);
}

static bool check_name(checker *c, const kn_line *line, const kn_word *word, const char *what) {
    char found[KN_FOUND_BYTES];
    return kn_is_name(word->text) ||
           kn_mistake(c->model, line, word->column,
                      "found %s, expected a name for %s: a letter, then letters, digits and '_', at most %d",
                      kn_found(word->text, found), what, KN_MODEL_NAME_BYTES);
}

/* A name that may contain {counter}. */
static bool check_layer_name(checker *c, const kn_line *line) {
    const char *name = line->name.text;
    char plain[KN_MODEL_WORD_BYTES + 1], found[KN_FOUND_BYTES];
    size_t length = 0;
    if (!name) return true;
    if (!strcmp(name, "koine"))
        return kn_mistake(c->model, line, line->name.column,
                          "found 'koine', a reserved name; expected a different name");
    for (size_t i = 0; name[i]; i++) {
        if (name[i] == '{' && length > 0 && strchr(name + i, '}')) {
            i += strcspn(name + i, "}");
            plain[length++] = '1';
        } else {
            plain[length++] = name[i];
        }
    }
    plain[length] = '\0';
    return kn_is_name(plain) || kn_mistake(c->model, line, line->name.column,
                                           "found %s, expected a name: a letter, then letters, digits, '_' "
                                           "and counters such as {i}, at most %d",
                                           kn_found(name, found), KN_MODEL_NAME_BYTES);
}

static bool outside(checker *c, const kn_line *line) {
    return c->depth == 0 ||
           kn_mistake(c->model, line, line->word.column,
                      "found '%s' inside the %s of line %d, expected it outside", line->word.text,
                      c->model->text->lines[c->open[c->depth - 1]].word.text,
                      c->model->text->lines[c->open[c->depth - 1]].number);
}

static bool only_once(checker *c, const kn_line *line, bool *seen) {
    if (*seen)
        return kn_mistake(c->model, line, line->word.column, "found a second '%s', expected one in a model",
                          line->word.text);
    *seen = true;
    return true;
}

/* ---- header lines -------------------------------------------------------------------------------------- */

static bool check_version(checker *c, const kn_line *line) {
    char found[KN_FOUND_BYTES];
    if (!check_words(c, line, 1, 1, false, "koine 1")) return false;
    const kn_word *version = &line->given[0].value;
    if (strcmp(version->text, "1"))
        return kn_mistake(c->model, line, version->column,
                          "found version %s of the format, expected 1, the only version that "
                          "this library supports",
                          kn_found(version->text, found));
    return true;
}

static bool check_model(checker *c, const kn_line *line) {
    char found[KN_FOUND_BYTES];
    if (!only_once(c, line, &c->named) || !outside(c, line) ||
        !check_words(c, line, 1, 1, false, "model NAME"))
        return false;
    const kn_word *word = &line->given[0].value;
    for (const char *at = word->text; *at; at++)
        if (!((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9') ||
              (at > word->text && strchr("_.-", *at))))
            return kn_mistake(c->model, line, word->column,
                              "found %s, expected a name of letters, digits, '_', '.' and '-'",
                              kn_found(word->text, found));
    c->model->name = word->text;
    return true;
}

static bool check_task(checker *c, const kn_line *line) {
    static const char *const tasks[] = {"classification", "regression"};
    char found[KN_FOUND_BYTES], guess[KN_GUESS_BYTES];
    if (!only_once(c, line, &c->has_task) || !outside(c, line) ||
        !check_words(c, line, 1, 1, false, "task classification' or 'task regression"))
        return false;
    const kn_word *word = &line->given[0].value;
    for (int i = 0; i < (int)KN_COUNT_OF(tasks); i++)
        if (!strcmp(word->text, tasks[i])) {
            c->model->task = (kn_task)i;
            return true;
        }
    return kn_mistake(c->model, line, word->column, "found %s, expected classification or regression%s",
                      kn_found(word->text, found), kn_guess(word->text, tasks, KN_COUNT_OF(tasks), guess));
}

static bool check_loss(checker *c, const kn_line *line) {
    if (!only_once(c, line, &c->has_loss) || !outside(c, line) ||
        !check_words(c, line, 1, 1, true, "loss NAME") || !kn_loss_check(c->model, line))
        return false;
    c->model->text->loss_line = line;
    return true;
}

/* "augment flip crop=4": joins the words with commas. */
static bool check_augment(checker *c, const kn_line *line) {
    kn_model *model = c->model;
    kn_augmentation unused = KN_AUGMENTATION_DEFAULTS;
    char message[300];
    const char *all = NULL;
    if (!only_once(c, line, &c->has_augment) || !outside(c, line) ||
        !check_words(c, line, 0, KN_MODEL_WORDS, true, "augment flip crop=N ..."))
        return false;
    if (line->given_count == 0)
        return kn_mistake(model, line, end_column(line),
                          "found the end of the line, expected 'augment flip crop=N ...'");
    for (int i = 0; i < line->given_count; i++) {
        const kn_given *given = &line->given[i];
        const bool keyed = given->key.text != NULL;
        const char *word = kn_arena_format(&model->arena, "%s%s%s", keyed ? given->key.text : "",
                                           keyed ? "=" : "", given->value.text);
        if (!word) return kn_model_no_memory(model);
        all = i ? kn_arena_format(&model->arena, "%s,%s", all, word) : word;
        if (!all) return kn_model_no_memory(model);
        if (kn_augmentation_read(all, &unused, message, sizeof message) != KN_OK)
            return kn_mistake(model, line, keyed ? given->key.column : given->value.column, "%s", message);
    }
    model->text->augmentation = all;
    return true;
}

/* Puts the caller's value of a setting into its line, and so into the model's text. */
static bool take_wanted(kn_model *model, const char *name, kn_word *value) {
    for (size_t i = 0; i < model->params.setting_count; i++)
        if (!strcmp(model->params.settings[i].name, name)) {
            value->text = kn_arena_format(&model->arena, "%lld", (long long)model->params.settings[i].value);
            if (!value->text) return kn_model_no_memory(model);
        }
    return true;
}

static const kn_variable *find_setting(const kn_model *model, const char *name) {
    const kn_variables settings = kn_settings_of(model);
    return kn_variable_find(&settings, name, strlen(name));
}

static bool check_set(checker *c, const kn_line *line) {
    kn_model *model = c->model;
    char found[KN_FOUND_BYTES];
    if (!outside(c, line) || !check_words(c, line, 2, 2, false, "set NAME NUMBER")) return false;
    const kn_word *name = &line->given[0].value;
    kn_word *value = &line->given[1].value;
    if (!check_name(c, line, name, "the setting")) return false;
    if (find_setting(model, name->text))
        return kn_mistake(model, line, name->column, "found a second setting %s, expected a new name",
                          kn_found(name->text, found));
    if (model->text->setting_count == KN_MODEL_PARAMETERS)
        return kn_mistake(model, line, name->column, "found more than %d settings", KN_MODEL_PARAMETERS);
    if (!model->text->settings)
        model->text->settings =
            kn_arena_take(&model->arena, KN_MODEL_PARAMETERS, sizeof *model->text->settings);
    if (!model->text->settings) return kn_model_no_memory(model);
    kn_variable *setting = &model->text->settings[model->text->setting_count];
    if (!take_wanted(model, name->text, value) ||
        !kn_arithmetic(model, line, value, 0, strlen(value->text), NULL, &setting->number))
        return false;
    *setting = (kn_variable){name->text, true, setting->number, value->text};
    model->text->setting_count++;
    return true;
}

/* Checks that the text has every setting that the caller sets. */
static bool check_wanted(kn_model *model) {
    for (size_t i = 0; i < model->params.setting_count; i++) {
        const char *names[KN_MODEL_PARAMETERS], *wanted = model->params.settings[i].name;
        char found[KN_FOUND_BYTES], guess[KN_GUESS_BYTES], list[400] = "";
        if (find_setting(model, wanted)) continue;
        for (int k = 0; k < model->text->setting_count; k++) {
            names[k] = model->text->settings[k].name;
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s=%lld", k ? ", " : "", names[k],
                     (long long)model->text->settings[k].number);
        }
        return kn_fail(&model->error, KN_ERROR_ARGUMENT, "%s: no setting is called %s; settings: %s%s",
                       model->source, kn_found(wanted, found), list[0] ? list : "none",
                       kn_guess(wanted, names, (size_t)model->text->setting_count, guess)) == KN_OK;
    }
    return true;
}

static bool check_input(checker *c, const kn_line *line) {
    char found[KN_FOUND_BYTES];
    kn_dtype dtype;
    if (!outside(c, line) || !check_words(c, line, 2, 3, true, "input NAME SHAPE [TYPE]")) return false;
    c->has_input = true;
    for (int i = 0; i < line->given_count; i++) {
        const kn_given *given = &line->given[i];
        if (!given->key.text) continue;
        if (strcmp(given->key.text, "batch"))
            return kn_mistake(c->model, line, given->key.column, "found %s, expected batch=no or nothing",
                              kn_found(given->key.text, found));
        if (strcmp(given->value.text, "no") && strcmp(given->value.text, "yes"))
            return kn_mistake(c->model, line, given->value.column, "found %s, expected yes or no",
                              kn_found(given->value.text, found));
    }
    if (!check_name(c, line, &line->given[0].value, "the input")) return false;
    const kn_given *type = &line->given[2];
    if (line->given_count > 2 && !type->key.text && !kn_dtype_parse(type->value.text, &dtype)) {
        static const char *const names[] = {
#define DTYPE_NAME(name, number, text, bytes) text,
            KN_DTYPE_LIST(DTYPE_NAME)
#undef DTYPE_NAME
        };
        char guess[KN_GUESS_BYTES];
        return kn_mistake(
            c->model, line, type->value.column, "found %s, expected a type such as float32 or int32%s",
            kn_found(type->value.text, found), kn_guess(type->value.text, names, KN_COUNT_OF(names), guess));
    }
    return true;
}

static bool check_output(checker *c, const kn_line *line) {
    for (int i = 0; i < c->depth; i++)
        if (c->model->text->lines[c->open[i]].sort == KN_LINE_REPEAT)
            return kn_mistake(c->model, line, line->word.column,
                              "found 'output' inside a repeat, expected it after its end");
    return check_words(c, line, 1, KN_MAX_OUTPUTS, false, "output NAME");
}

/* ---- blocks and repeats -------------------------------------------------------------------------------- */

static bool open_body(checker *c, kn_line *line, int position) {
    if (c->depth == KN_MODEL_DEPTH)
        return kn_mistake(c->model, line, line->word.column, "found more than %d nested blocks and repeats",
                          KN_MODEL_DEPTH);
    c->open[c->depth++] = position;
    return true;
}

static bool check_block_name(checker *c, const kn_line *line, const kn_word *word) {
    char found[KN_FOUND_BYTES];
    if (!check_name(c, line, word, "the block")) return false;
    const kn_operator *row = kn_operator_find(word->text);
    bool known = kn_layer_find(word->text) || (row && kn_operator_is_kind(row));
    for (size_t i = 0; i < KN_COUNT_OF(keywords); i++)
        known = known || !strcmp(keywords[i].word, word->text);
    if (known)
        return kn_mistake(c->model, line, word->column, "found %s, a reserved name; expected a new name",
                          kn_found(word->text, found));
    size_t before = (size_t)(uintptr_t)kn_map_get_text(&c->kinds, word->text);
    return !before || kn_mistake(c->model, line, word->column,
                                 "found a second block %s, expected a new name: the first "
                                 "is in line %d",
                                 kn_found(word->text, found), c->model->text->blocks[before - 1].number);
}

/* Reads what follows the name of a block. */
static bool read_parameters(checker *c, const kn_line *line, kn_block *block) {
    static const char *const reserved[] = {"share", "freeze", "device"};
    char found[KN_FOUND_BYTES];
    for (int i = 0; i < line->input_count; i++)
        if (!check_name(c, line, &line->inputs[i], "an input of the block")) return false;
    block->parameters = kn_arena_take(&c->model->arena, (size_t)line->given_count, sizeof *block->parameters);
    if (!block->parameters) return kn_model_no_memory(c->model);
    for (int i = 1; i < line->given_count; i++) {
        const kn_given *given = &line->given[i];
        const kn_word *name = given->key.text ? &given->key : &given->value;
        if (!check_name(c, line, name, "a parameter of the block")) return false;
        for (size_t k = 0; k < KN_COUNT_OF(reserved); k++)
            if (!strcmp(name->text, reserved[k]))
                return kn_mistake(c->model, line, name->column,
                                  "found %s, which every block defines; expected a different name",
                                  kn_found(name->text, found));
        for (int k = 0; k < block->parameter_count; k++)
            if (!strcmp(block->parameters[k].name.text, name->text))
                return kn_mistake(c->model, line, name->column,
                                  "found a second parameter %s, expected a new name",
                                  kn_found(name->text, found));
        if (block->parameter_count == KN_MODEL_PARAMETERS)
            return kn_mistake(c->model, line, name->column, "found more than %d parameters",
                              KN_MODEL_PARAMETERS);
        kn_block_parameter *parameter = &block->parameters[block->parameter_count++];
        parameter->name = *name;
        if (given->key.text) parameter->value = given->value;
    }
    return true;
}

static bool check_block(checker *c, kn_line *line, int position) {
    kn_model *model = c->model;
    char found[KN_FOUND_BYTES];
    if (!outside(c, line)) return false;
    if (line->given_count == 0 || line->given[0].key.text)
        return kn_mistake(
            model, line, line->given_count ? line->given[0].key.column : end_column(line),
            "found %s, expected 'block NAME [@INPUT ...] [PARAMETER ...] [PARAMETER=DEFAULT ...]'",
            line->given_count ? kn_found(line->given[0].key.text, found) : "the end of the line");
    if (!check_block_name(c, line, &line->given[0].value)) return false;
    void *blocks = model->text->blocks;
    if (!kn_reserve(&model->host, &blocks, &model->text->block_capacity, model->text->block_count + 1,
                    sizeof *model->text->blocks))
        return kn_model_no_memory(model);
    model->text->blocks = blocks;
    kn_block *block = &model->text->blocks[model->text->block_count++];
    *block = (kn_block){.name = line->given[0].value.text,
                        .first = position + 1,
                        .inputs = line->inputs,
                        .input_count = line->input_count,
                        .number = line->number};
    return read_parameters(c, line, block) && open_body(c, line, position);
}

static bool check_repeat(checker *c, kn_line *line, int position) {
    if (!check_words(c, line, 1, 2, false, "repeat TIMES [COUNTER]")) return false;
    if (line->given_count > 1 && !check_name(c, line, &line->given[1].value, "the counter")) return false;
    return check_layer_name(c, line) && open_body(c, line, position);
}

static bool check_end(checker *c, kn_line *line, int position) {
    if (!check_words(c, line, 0, 0, false, "end")) return false;
    if (c->depth == 0)
        return kn_mistake(c->model, line, line->word.column,
                          "found 'end' without a block or repeat before it");
    kn_line *begin = &c->model->text->lines[c->open[--c->depth]];
    begin->partner = position;
    line->partner = c->open[c->depth];
    if (begin->sort != KN_LINE_BLOCK) return true;
    kn_block *block = &c->model->text->blocks[c->model->text->block_count - 1];
    block->last = position;
    return kn_map_put_text(&c->kinds, block->name, (void *)(uintptr_t)c->model->text->block_count) ||
           kn_model_no_memory(c->model);
}

/* ---- layers -------------------------------------------------------------------------------------------- */

static bool unknown_kind(checker *c, const kn_line *line) {
    enum { MOST = 4096 };
    kn_model *model = c->model;
    char found[KN_FOUND_BYTES], guess[KN_GUESS_BYTES];
    const char **words = kn_arena_take(&model->arena, MOST, sizeof *words);
    size_t count = 0;
    if (!words) return kn_model_no_memory(model);
    const kn_layer_row *layer = kn_layer_meant(line->word.text);
    for (int i = 0; kn_layer_at(i) && count < MOST; i++)
        words[count++] = kn_layer_at(i)->name;
    for (int i = 0; i < kn_operator_table_count && count < MOST; i++)
        if (kn_operator_is_kind(kn_operator_table[i])) words[count++] = kn_operator_table[i]->name;
    for (size_t i = 0; i < KN_COUNT_OF(keywords) && count < MOST; i++)
        words[count++] = keywords[i].word;
    for (size_t i = 0; i < model->text->block_count && count < MOST; i++)
        words[count++] = model->text->blocks[i].name;
    if (layer)
        snprintf(guess, sizeof guess, "; did you mean '%s'?", layer->name);
    else
        kn_guess(line->word.text, words, count, guess);
    for (size_t i = 0; i < model->text->block_count; i++)
        if (!strcmp(model->text->blocks[i].name, line->word.text))
            return kn_mistake(model, line, line->word.column,
                              "found block %s inside itself; blocks can only use earlier blocks",
                              kn_found(line->word.text, found));
    return kn_mistake(model, line, line->word.column,
                      "found %s, expected a kind of layer, an operator or a block%s",
                      kn_found(line->word.text, found), guess);
}

static bool check_layer(checker *c, kn_line *line) {
    if (!check_layer_name(c, line)) return false;
    line->kind.layer = kn_layer_find(line->word.text);
    if (!line->kind.layer) {
        const kn_operator *row = kn_operator_find(line->word.text);
        if (row && kn_operator_is_kind(row)) line->kind.op = row;
    }
    if (!line->kind.layer && !line->kind.op) {
        size_t block = (size_t)(uintptr_t)kn_map_get_text(&c->kinds, line->word.text);
        if (!block) return unknown_kind(c, line);
        line->kind.block = &c->model->text->blocks[block - 1];
    }
    if (line->input_count > KN_MAX_INPUTS)
        return kn_mistake(c->model, line, line->inputs[KN_MAX_INPUTS].column, "found more than %d inputs",
                          KN_MAX_INPUTS);
    bool good = kn_arguments_check(c->model, line);
    /* Blocks may still move in memory: lines store indices until all blocks are known. */
    if (line->kind.block) line->partner = (int)(line->kind.block - c->model->text->blocks);
    return good;
}

static bool check_line(checker *c, kn_line *line, int position) {
    if (!line->word.text) return true;
    char found[KN_FOUND_BYTES];
    for (size_t i = 0; i < KN_COUNT_OF(keywords); i++)
        if (!strcmp(keywords[i].word, line->word.text)) line->sort = keywords[i].sort;
    if (line->name.text && line->sort != KN_LINE_LAYER && line->sort != KN_LINE_REPEAT)
        return kn_mistake(c->model, line, line->name.column, "found '%s =' before %s, which takes no name",
                          line->name.text, line->word.text);
    if (!c->begun && line->sort != KN_LINE_VERSION)
        return kn_mistake(c->model, line, line->name.text ? line->name.column : line->word.column,
                          "found %s, expected 'koine 1', the version of the format, in the first line",
                          kn_found(line->name.text ? line->name.text : line->word.text, found));
    switch (line->sort) {
    case KN_LINE_EMPTY:
        return true;
    case KN_LINE_VERSION:
        return only_once(c, line, &c->begun) && check_version(c, line);
    case KN_LINE_MODEL:
        return check_model(c, line);
    case KN_LINE_TASK:
        return check_task(c, line);
    case KN_LINE_LOSS:
        return check_loss(c, line);
    case KN_LINE_AUGMENT:
        return check_augment(c, line);
    case KN_LINE_SET:
        return check_set(c, line);
    case KN_LINE_INPUT:
        return check_input(c, line);
    case KN_LINE_OUTPUT:
        return check_output(c, line);
    case KN_LINE_BLOCK:
        return check_block(c, line, position);
    case KN_LINE_REPEAT:
        return check_repeat(c, line, position);
    case KN_LINE_END:
        return check_end(c, line, position);
    case KN_LINE_LAYER:
        return check_layer(c, line);
    }
    return false;
}

static bool check_whole(checker *c) {
    kn_model *model = c->model;
    kn_line last = {.number = model->text->line_count > 0 ? (int)model->text->line_count : 1};
    if (!c->begun)
        return kn_mistake(model, &last, 1,
                          "found no lines, expected 'koine 1', the version of the format, in the first");
    if (c->depth > 0) {
        const kn_line *open = &model->text->lines[c->open[c->depth - 1]];
        return kn_mistake(model, open, open->word.column, "found %s without its 'end'", open->word.text);
    }
    if (!c->has_input)
        return kn_mistake(model, &last, 1,
                          "found the end of the text, expected an 'input NAME SHAPE' before");
    if (!check_wanted(model)) return false;
    for (size_t i = 0; i < model->text->line_count; i++)
        if (model->text->lines[i].kind.block)
            model->text->lines[i].kind.block = &model->text->blocks[model->text->lines[i].partner];
    return true;
}

bool kn_model_check(kn_model *model) {
    checker c = {.model = model};
    bool good = true;
    kn_map_init(&c.kinds, &model->host);
    for (size_t i = 0; good && i < model->text->line_count; i++)
        good = check_line(&c, &model->text->lines[i], (int)i);
    good = good && check_whole(&c);
    kn_map_finish(&c.kinds);
    return good;
}
