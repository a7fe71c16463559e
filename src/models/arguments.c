/* The arguments of a line: checks that they exist, and computes their values. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/layers_private.h"

/* ---- arguments of each kind ---------------------------------------------------------------------------- */

static const kn_option common[] = {
    OPTION("init", START, "initializer of the weight, see the list of initializers",
           .usual = "uniform, scaled by the row size"),
    OPTION("bias_init", START, "initializer of the bias", .usual = "same as init"),
    OPTION("share", PATH, "layer whose parameters this layer uses", .usual = "none"),
    OPTION("freeze", FLAG, "whether the parameters are not trained", .usual = "no"),
    OPTION("device", TEXT, "device that computes it, by the program's name for the device",
           .usual = "the main device"),
};

/* Layers, operators and blocks can all be pinned to a device. */
static int takes(const kn_kind *kind) {
    if (kind->layer) return kind->layer->takes | KN_TAKES_DEVICE;
    return kind->block ? KN_TAKES_SHARE | KN_TAKES_FREEZE | KN_TAKES_DEVICE : KN_TAKES_DEVICE;
}

static int own_count(const kn_kind *kind) {
    if (kind->layer) return kind->layer->argument_count;
    return kind->block ? kind->block->parameter_count : kind->op->attribute_count;
}

int kn_kind_argument_count(const kn_kind *kind) {
    int count = own_count(kind);
    for (int i = 0; i < (int)KN_COUNT_OF(common); i++)
        count += takes(kind) >> i & 1;
    return count;
}

static kn_option from_attribute(const kn_attribute *attribute) {
    static const kn_option_kind kinds[] = {
        [KN_ATTRIBUTE_INT] = KN_OPTION_WHOLE,  [KN_ATTRIBUTE_FLOAT] = KN_OPTION_NUMBER,
        [KN_ATTRIBUTE_BOOL] = KN_OPTION_FLAG,  [KN_ATTRIBUTE_INTS] = KN_OPTION_WHOLES,
        [KN_ATTRIBUTE_DIMS] = KN_OPTION_SIZES, [KN_ATTRIBUTE_CHOICE] = KN_OPTION_WORD,
    };
    bool choice = attribute->kind == KN_ATTRIBUTE_CHOICE;
    return (kn_option){.name = attribute->name,
                       .kind = kinds[attribute->kind],
                       .most_count = KN_MODEL_LIST,
                       .least = -INT64_MAX,
                       .most = INT64_MAX,
                       .words = choice ? attribute->list : NULL,
                       .help = attribute->help};
}

kn_option kn_kind_argument(const kn_kind *kind, int position) {
    int own = own_count(kind);
    if (position < own && kind->layer) return kind->layer->arguments[position];
    if (position < own && kind->op) return from_attribute(&kind->op->attributes[position]);
    if (position < own) {
        const kn_block_parameter *parameter = &kind->block->parameters[position];
        return (kn_option){.name = parameter->name.text,
                           .kind = KN_OPTION_ANY,
                           .by_position = true,
                           .required = !parameter->value.text,
                           .least = -INT64_MAX,
                           .most = INT64_MAX,
                           .usual = parameter->value.text,
                           .help = "a parameter of the block"};
    }
    position -= own;
    for (int i = 0; i < (int)KN_COUNT_OF(common); i++)
        if ((takes(kind) >> i & 1) && position-- == 0) return common[i];
    return (kn_option){.name = ""};
}

const char *kn_kind_name(const kn_kind *kind) {
    return kind->layer ? kind->layer->name : kind->op ? kind->op->name : kind->block->name;
}

void kn_kind_inputs(const kn_kind *kind, int *least, int *most) {
    if (kind->layer) {
        *least = kind->layer->least_inputs;
        *most = kind->layer->most_inputs;
    } else if (kind->op) {
        kn_operator_arity(kind->op, least, most);
    } else {
        *least = *most = kind->block->input_count > 0 ? kind->block->input_count : 1;
    }
}

bool kn_operator_is_kind(const kn_operator *row) {
    return !row->backward && !row->random && row->class != KN_CLASS_ASSIGN;
}

/* ---- checking ------------------------------------------------------------------------------------------ */

/* Writes the syntax of a kind, "conv CHANNELS SIZE", cut off at `bytes`. */
static const char *usage(const kn_kind *kind, char *text, size_t bytes) {
    size_t length = (size_t)snprintf(text, bytes, "%s", kn_kind_name(kind));
    int count = kn_kind_argument_count(kind);
    for (int i = 0; i < count && length < bytes; i++) {
        kn_option argument = kn_kind_argument(kind, i);
        if (!argument.by_position) continue;
        length += (size_t)snprintf(text + length, bytes - length, argument.required ? " %s" : " [%s]",
                                   argument.name);
    }
    return text;
}

/* "channels, size or stride", cut off at `bytes`. */
static const char *list_names(const char *const *names, size_t count, char *text, size_t bytes) {
    size_t length = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count && length < bytes; i++)
        length += (size_t)snprintf(text + length, bytes - length, "%s%s",
                                   i == 0          ? ""
                                   : i + 1 < count ? ", "
                                                   : " or ",
                                   names[i]);
    return text;
}

static bool unknown_argument(kn_model *model, const kn_line *line, const kn_word *key) {
    const char *names[KN_MODEL_ARGUMENTS] = {NULL};
    char found[KN_FOUND_BYTES], guess[KN_GUESS_BYTES], list[600];
    size_t count = (size_t)kn_kind_argument_count(&line->kind);
    kn_option arguments[KN_COUNT_OF(names)];
    for (size_t i = 0; i < count; i++) {
        arguments[i] = kn_kind_argument(&line->kind, (int)i);
        names[i] = arguments[i].name;
    }
    return kn_mistake(model, line, key->column, "found %s, expected an argument of %s: %s%s",
                      kn_found(key->text, found), line->word.text,
                      list_names(names, count, list, sizeof list), kn_guess(key->text, names, count, guess));
}

/* Users of other libraries write "conv2d 32 3", which here is an operator: suggest the layer. */
static const char *suggest_layer(const kn_line *line, char guess[KN_GUESS_BYTES]) {
    const kn_layer_row *layer = line->kind.op ? kn_layer_meant(line->word.text) : NULL;
    guess[0] = '\0';
    if (layer) snprintf(guess, KN_GUESS_BYTES, "; did you mean the layer '%s'?", layer->name);
    return guess;
}

static bool surplus_argument(kn_model *model, const kn_line *line, const kn_word *value) {
    char found[KN_FOUND_BYTES], guess[KN_GUESS_BYTES], text[400];
    return kn_mistake(model, line, value->column, "found %s, expected '%s' and then NAME=VALUE%s",
                      kn_found(value->text, found), usage(&line->kind, text, sizeof text),
                      suggest_layer(line, guess));
}

/* Finds the argument that `given` sets. *next counts the positional ones so far. False after a mistake. */
static bool place_argument(kn_model *model, const kn_line *line, const kn_given *given, int *next,
                           int *position) {
    int count = kn_kind_argument_count(&line->kind);
    for (int i = 0; i < count; i++) {
        kn_option argument = kn_kind_argument(&line->kind, i);
        *position = i;
        if (given->key.text && !strcmp(given->key.text, argument.name)) return true;
        if (!given->key.text && argument.kind == KN_OPTION_FLAG && !strcmp(given->value.text, argument.name))
            return true;
    }
    if (given->key.text) return unknown_argument(model, line, &given->key);
    int seen = 0;
    for (int i = 0; i < count; i++) {
        *position = i;
        if (kn_kind_argument(&line->kind, i).by_position && seen++ == *next) {
            ++*next;
            return true;
        }
    }
    return surplus_argument(model, line, &given->value);
}

static bool check_inputs(kn_model *model, const kn_line *line) {
    int least, most, count = line->input_count;
    char guess[KN_GUESS_BYTES], range[64];
    kn_kind_inputs(&line->kind, &least, &most);
    if (count == 0 && least > 0) count = 1; /* defaults to the line before */
    if (count == 0 && most > 0 && least == 0) count = 0;
    if (count >= least && count <= most) return true;
    if (least == most)
        snprintf(range, sizeof range, "%d", least);
    else
        snprintf(range, sizeof range, "%d to %d", least, most);
    return kn_mistake(
        model, line, line->input_count > 0 ? line->inputs[line->input_count - 1].column : line->word.column,
        "found %d input%s, expected %s for %s%s%s", count, count == 1 ? "" : "s", range, line->word.text,
        count < least ? "; write each with an @; a single @ is the line before" : "",
        suggest_layer(line, guess));
}

bool kn_arguments_check(kn_model *model, const kn_line *line) {
    bool given[KN_MODEL_ARGUMENTS] = {false}, shared = false;
    char found[KN_FOUND_BYTES], text[400];
    int next = 0, position;
    for (int i = 0; i < line->given_count; i++) {
        if (!place_argument(model, line, &line->given[i], &next, &position)) return false;
        const kn_word *word = line->given[i].key.text ? &line->given[i].key : &line->given[i].value;
        const char *name = kn_kind_argument(&line->kind, position).name;
        if (given[position])
            return kn_mistake(model, line, word->column, "found %s, but %s is given already",
                              kn_found(word->text, found), name);
        given[position] = true;
        shared = shared || !strcmp(name, "share");
    }
    for (int i = 0; i < kn_kind_argument_count(&line->kind); i++) {
        kn_option argument = kn_kind_argument(&line->kind, i);
        if (argument.required && !given[i] && (!shared || line->kind.block))
            return kn_mistake(model, line, line->word.column, "%s needs %s (%s); expected '%s'",
                              line->word.text, argument.name, argument.help,
                              usage(&line->kind, text, sizeof text));
    }
    return check_inputs(model, line);
}

/* ---- values -------------------------------------------------------------------------------------------- */

typedef struct evaluation {
    kn_model *model;
    const kn_line *line;
    const kn_variables *variables;
    const kn_option *argument;
    kn_word word; /* a word that is a single variable becomes the variable's value */
    kn_option_value *value;
} evaluation;

static bool wrong(const evaluation *e, const char *expected) {
    char found[KN_FOUND_BYTES];
    return kn_mistake(e->model, e->line, e->word.column, "found %s for %s of %s, expected %s",
                      kn_found(e->word.text, found), e->argument->name, e->line->word.text, expected);
}

static bool check_range(const evaluation *e, int64_t number) {
    char expected[64];
    int64_t most = e->argument->most ? e->argument->most : INT32_MAX;
    if (number >= e->argument->least && number <= most) return true;
    snprintf(expected, sizeof expected, "at %s %" PRId64, number > most ? "most" : "least",
             number > most ? most : e->argument->least);
    return wrong(e, expected);
}

static bool evaluate_whole(const evaluation *e) {
    return kn_arithmetic(e->model, e->line, &e->word, 0, strlen(e->word.text), e->variables,
                         &e->value->whole) &&
           check_range(e, e->value->whole);
}

/* Index of a word in "same valid"; -1 if it is missing. */
static int word_position(const char *words, const char *word) {
    size_t length = strlen(word);
    for (int position = 0; words && *words; position++) {
        size_t item = strcspn(words, " ");
        if (item == length && !memcmp(words, word, length)) return position;
        words += item;
        words += strspn(words, " ");
    }
    return -1;
}

/* Reports that the value is none of the argument's words. `other` names other values that it accepts, or is
 * "". */
static bool unknown_word(const evaluation *e, const char *other) {
    const char *names[32] = {NULL};
    char copy[512], guess[KN_GUESS_BYTES], list[400], expected[600];
    size_t count = 0;
    snprintf(copy, sizeof copy, "%s", e->argument->words);
    for (char *at = copy; *at && count < KN_COUNT_OF(names);) {
        size_t item = strcspn(at, " ");
        names[count++] = at;
        bool last = at[item] == '\0';
        at[item] = '\0';
        at += item + !last;
    }
    snprintf(expected, sizeof expected, "%s%s%s", other, list_names(names, count, list, sizeof list),
             kn_guess(e->word.text, names, count, guess));
    return wrong(e, expected);
}

static bool evaluate_wholes(const evaluation *e) {
    const char *text = e->word.text;
    bool commas = strchr(text, ',') != NULL;
    kn_option_value *value = e->value;
    if (e->argument->words && word_position(e->argument->words, text) >= 0) {
        value->text = text;
        return true;
    }
    if (e->argument->words && kn_is_name(text)) return unknown_word(e, "numbers or ");
    for (size_t start = 0;;) {
        size_t end = kn_size_end(text, start, commas);
        if (value->count == e->argument->most_count) {
            char expected[64];
            snprintf(expected, sizeof expected, "at most %d number%s", value->count,
                     value->count == 1 ? "" : "s");
            return wrong(e, expected);
        }
        int64_t *number = &value->list[value->count++];
        if (!kn_arithmetic(e->model, e->line, &e->word, start, end - start, e->variables, number) ||
            !check_range(e, *number))
            return false;
        if (!text[end]) break;
        start = end + 1;
    }
    if (value->count >= e->argument->least_count && (value->count != 3 || e->argument->most_count != 4))
        return true;
    return wrong(e, e->argument->most_count == 4 ? "1, 2 or 4 numbers" : "more numbers");
}

/* A floating-point number, or integer arithmetic. */
static bool read_number(const evaluation *e, const kn_word *word, double *number) {
    const char *end;
    int64_t whole;
    if (kn_parse_double(word->text, &end, number) && *end == '\0') return true;
    if (strchr(word->text, '.') || (kn_is_name(word->text) && !kn_is_whole(word, e->variables)))
        return wrong(e, "a number");
    if (!kn_arithmetic(e->model, e->line, word, 0, strlen(word->text), e->variables, &whole)) return false;
    *number = (double)whole;
    return true;
}

static bool evaluate_flag(const evaluation *e, bool bare) {
    int position = bare ? 0 : word_position("yes no true false 1 0", e->word.text);
    if (position < 0) return wrong(e, "yes or no");
    e->value->flag = position % 2 == 0;
    return true;
}

static bool unknown_start(const evaluation *e, const char *word) {
    const char *names[32] = {NULL};
    char guess[KN_GUESS_BYTES], list[300], expected[500];
    size_t count = 0;
    for (int i = 0; i < kn_start_table_count && count < KN_COUNT_OF(names); i++)
        names[count++] = kn_start_table[i].name;
    snprintf(expected, sizeof expected, "%s%s", list_names(names, count, list, sizeof list),
             kn_guess(word, names, count, guess));
    return wrong(e, expected);
}

/* "zero" or "normal:0.02". */
static bool evaluate_start(const evaluation *e) {
    char word[KN_MODEL_WORD_BYTES + 1];
    size_t length = strcspn(e->word.text, ":");
    const kn_start_row *row = NULL;
    memcpy(word, e->word.text, length);
    word[length] = '\0';
    for (int i = 0; i < kn_start_table_count; i++)
        if (!strcmp(kn_start_table[i].name, word)) row = &kn_start_table[i];
    if (!row) return unknown_start(e, word);
    e->value->start = (kn_initializer){row->kind, row->value};
    if (e->word.text[length] == '\0') return true;
    if (!row->takes_value) return wrong(e, "no number after it");
    kn_word number = {e->word.text + length + 1, e->word.column + (int)length + 1};
    const kn_variable *variable = kn_variable_find(e->variables, number.text, strlen(number.text));
    if (variable) number.text = variable->word;
    if (!read_number(e, &number, &e->value->start.value)) return false;
    return isfinite(e->value->start.value) || wrong(e, "a finite number");
}

/* Sizes separated by commas; symbols are kept. */
static bool evaluate_sizes(const evaluation *e) {
    kn_text text;
    const char *part = e->word.text;
    bool good = true, commas = strchr(part, ',') != NULL;
    kn_text_init(&text, &e->model->host);
    if (e->argument->kind == KN_OPTION_SHAPE) {
        good = kn_fill_shape(e->model, e->line, &e->word, e->variables, &text, &e->value->count);
    } else {
        for (size_t start = 0; good;) {
            size_t end = kn_size_end(part, start, commas);
            good = kn_fill_size(e->model, e->line, &e->word, start, end - start, e->variables, &text);
            if (!part[end]) break;
            kn_text_add(&text, ",");
            start = end + 1;
        }
    }
    e->value->text = good && !kn_text_failed(&text) ? kn_arena_text(&e->model->arena, text.data) : NULL;
    kn_text_finish(&text);
    return e->value->text || (good && kn_model_no_memory(e->model));
}

/* The value of a variable was written in another scope, so variables of this scope must not be replaced in
 * it. */
static void substitute(evaluation *e, const kn_variable *variable) {
    e->word.text = variable->word;
    e->variables = NULL;
}

static bool evaluate(const evaluation *e, bool bare) {
    switch (e->argument->kind) {
    case KN_OPTION_WHOLE:
        return evaluate_whole(e);
    case KN_OPTION_WHOLES:
        return evaluate_wholes(e);
    case KN_OPTION_NUMBER:
        return read_number(e, &e->word, &e->value->number);
    case KN_OPTION_FLAG:
        return evaluate_flag(e, bare);
    case KN_OPTION_WORD:
        e->value->text = e->word.text;
        return word_position(e->argument->words, e->word.text) >= 0 || unknown_word(e, "");
    case KN_OPTION_SHAPE:
    case KN_OPTION_SIZES:
        return evaluate_sizes(e);
    case KN_OPTION_START:
        return evaluate_start(e);
    case KN_OPTION_PATH:
        e->value->text = kn_fill_name(e->model, e->line, &e->word, e->variables);
        return e->value->text != NULL;
    case KN_OPTION_TEXT:
        e->value->text = kn_arena_text(&e->model->arena, e->word.text);
        return e->value->text || kn_model_no_memory(e->model);
    case KN_OPTION_ANY:
        e->value->flag = kn_is_whole(&e->word, e->variables);
        if (e->value->flag) return evaluate_whole(e);
        e->value->text = kn_fill_word(e->model, &e->word, e->variables);
        return e->value->text != NULL;
    }
    return false;
}

bool kn_evaluate_any(kn_model *model, const kn_line *line, const kn_word *word, const kn_variables *variables,
                     kn_option_value *value) {
    static const kn_option any = {
        .name = "a parameter", .kind = KN_OPTION_ANY, .least = -INT64_MAX, .most = INT64_MAX};
    evaluation e = {model, line, variables, &any, *word, value};
    const kn_variable *variable = kn_variable_find(variables, word->text, strlen(word->text));
    if (variable) substitute(&e, variable);
    value->given = true;
    return evaluate(&e, false);
}

bool kn_arguments_evaluate(kn_model *model, const kn_line *line, const kn_variables *variables,
                           kn_option_value *values) {
    int next = 0, position;
    for (int i = 0; i < line->given_count; i++) {
        const kn_given *given = &line->given[i];
        if (!place_argument(model, line, given, &next, &position)) return false;
        kn_option argument = kn_kind_argument(&line->kind, position);
        evaluation e = {model, line, variables, &argument, given->value, &values[position]};
        bool bare = !given->key.text && argument.kind == KN_OPTION_FLAG;
        const kn_variable *variable =
            bare ? NULL : kn_variable_find(variables, e.word.text, strlen(e.word.text));
        if (variable) substitute(&e, variable);
        values[position].given = true;
        values[position].column = given->value.column;
        if (!evaluate(&e, bare)) return false;
    }
    return true;
}
