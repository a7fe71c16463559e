/* Builds the graph from the lines: unrolls blocks and repeats, looks up names, calls layers. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "models/scope_private.h"

/* What a name refers to: the results of a line. */
typedef struct entry {
    const char *path;
    kn_value **values;
    int count;
    int line;
    bool has_parameters; /* a layer or block whose parameters can be shared */
} entry;

typedef struct builder {
    kn_model *model;
    kn_graph *graph;
    kn_map names;          /* path -> entry */
    kn_map counters;       /* path and kind -> number of unnamed lines */
    kn_variables settings; /* the settings of the text */
    kn_value *last;        /* result of the line before; NULL at the beginning */
    int layers;
} builder;

static bool build_body(builder *b, const kn_scope *scope, int first, int last);

/* ---- names --------------------------------------------------------------------------------------------- */

static bool check_free(builder *b, const kn_line *line, const kn_word *word, const char *path) {
    char found[KN_FOUND_BYTES];
    const entry *before = kn_map_get_text(&b->names, path);
    return !before ||
           kn_mistake(b->model, line, word->column,
                      "found %s, a name already used in line %d; "
                      "expected a new name%s",
                      kn_found(path, found), before->line,
                      before->line == line->number ? ", for example with the counter: name{i}" : "");
}

static bool add_entry(builder *b, const kn_line *line, const kn_word *word, const char *path,
                      kn_value *const *values, int count, bool has_parameters) {
    if (!check_free(b, line, word, path)) return false;
    entry *made = kn_arena_take(&b->model->arena, 1, sizeof *made);
    if (!made) return kn_model_no_memory(b->model);
    *made = (entry){path, kn_arena_copy(&b->model->arena, values, (size_t)count, sizeof *values), count,
                    line->number, has_parameters};
    return (made->values && kn_map_put_text(&b->names, path, made)) || kn_model_no_memory(b->model);
}

/* The path of `name` in a scope; in the model's arena. */
static const char *make_path(builder *b, const kn_line *line, const kn_scope *scope, const char *name) {
    if (strlen(scope->path) + strlen(name) > KN_MODEL_PATH_BYTES) {
        kn_mistake(b->model, line, line->word.column,
                   "the name %.40s... is longer than %d with the names of the blocks "
                   "around it; expected shorter names",
                   scope->path, KN_MODEL_PATH_BYTES);
        return NULL;
    }
    const char *path = kn_arena_format(&b->model->arena, "%s%s", scope->path, name);
    if (!path) kn_model_no_memory(b->model);
    return path;
}

/* The path of a line's result: its name, or its kind with the next free number. */
static const char *line_path(builder *b, const kn_line *line, const kn_scope *scope) {
    if (line->name.text) {
        const char *name = kn_fill_name(b->model, line, &line->name, &scope->variables);
        return name ? make_path(b, line, scope, name) : NULL;
    }
    const char *stem = make_path(b, line, scope, kn_kind_name(&line->kind));
    uintptr_t number = stem ? (uintptr_t)kn_map_get_text(&b->counters, stem) : 0;
    while (stem) {
        char path[KN_MODEL_PATH_BYTES + 32];
        snprintf(path, sizeof path, "%s%zu", stem, (size_t)++number);
        if (kn_map_has(&b->names, path, strlen(path)) || kn_graph_find(b->graph, path)) continue;
        stem = kn_map_put_text(&b->counters, stem, (void *)number) ? kn_arena_text(&b->model->arena, path)
                                                                   : NULL;
        if (!stem) kn_model_no_memory(b->model);
        break;
    }
    return stem;
}

/* The entry of a name, looked up in the scope and its enclosing scopes; NULL if there is none. */
static const entry *find_entry(const builder *b, const kn_scope *scope, const char *name) {
    char path[2 * KN_MODEL_PATH_BYTES + KN_MODEL_WORD_BYTES];
    size_t length = strlen(scope->path);
    for (;;) {
        snprintf(path, sizeof path, "%.*s%s", (int)length, scope->path, name);
        const entry *found = kn_map_get_text(&b->names, path);
        if (found || length == 0) return found;
        do
            length--;
        while (length > 0 && scope->path[length - 1] != '.');
    }
}

/* `sharing`: only consider entries with parameters. */
static bool unknown_name(builder *b, const kn_line *line, int column, const kn_scope *scope, const char *name,
                         bool sharing) {
    enum { MOST = 4096 };
    char found[KN_FOUND_BYTES], guess[KN_GUESS_BYTES];
    const char **words = kn_arena_take(&b->model->arena, MOST, sizeof *words);
    size_t count = 0, position = 0, length = strlen(scope->path);
    if (!words) return kn_model_no_memory(b->model);
    for (const kn_map_entry *item; count < MOST && (item = kn_map_next(&b->names, &position));) {
        const char *path = item->key;
        const entry *known = item->value;
        if (sharing && !known->has_parameters) continue;
        words[count++] = !strncmp(path, scope->path, length) ? path + length : path;
    }
    return kn_mistake(b->model, line, column, "found %s, expected the name of %s before it%s",
                      kn_found(name, found), sharing ? "a layer with parameters" : "an input or line",
                      kn_guess(name, words, count, guess));
}

/* Reports a graph error, if any, as a mistake in the line. */
static bool check_value(builder *b, const kn_line *line, const kn_value *value) {
    if (b->model->error.status != KN_OK) return false;
    if (!kn_value_failed(value) && kn_graph_status(b->graph) == KN_OK) return true;
    if (kn_graph_status(b->graph) == KN_OK) return kn_model_no_memory(b->model);
    kn_fail(&b->model->error, kn_graph_status(b->graph), "%s", kn_graph_error(b->graph));
    return kn_mistake_here(b->model, line, line->word.column);
}

/* The value of "name", "name:1" or "" (the line before). */
static bool find_value(builder *b, const kn_line *line, const kn_word *word, const kn_scope *scope,
                       kn_value **value) {
    char name[KN_MODEL_WORD_BYTES + 1];
    int64_t index = 0;
    if (!*word->text) {
        *value = b->last;
        return b->last || kn_mistake(b->model, line, word->column,
                                     "found '@', but no line before has a result; "
                                     "expected an input first");
    }
    const char *filled = kn_fill_name(b->model, line, word, &scope->variables);
    if (!filled) return false;
    size_t length = strcspn(filled, ":");
    if (length >= sizeof name)
        return kn_mistake(b->model, line, word->column, "found a name of %zu characters, expected fewer",
                          length);
    memcpy(name, filled, length);
    name[length] = '\0';
    const entry *found = find_entry(b, scope, name);
    if (!found) return unknown_name(b, line, word->column, scope, name, false);
    if (filled[length]) {
        const char *end = filled + length + 1;
        if (!kn_parse_int64(end, &end, &index) || *end || index < 0 || index >= KN_MAX_OUTPUTS)
            return kn_mistake(b->model, line, word->column,
                              "found '%s' after the name, expected ':' and the index of a result, from 0",
                              filled + length);
    }
    if (found->count > 1 && index >= found->count)
        return kn_mistake(b->model, line, word->column,
                          "found result %" PRId64 " of '%s', which has %d results", index, name,
                          found->count);
    *value = index < found->count ? found->values[index] : kn_result(found->values[0], (int)index);
    return check_value(b, line, *value);
}

/* ---- layers -------------------------------------------------------------------------------------------- */

static const kn_option_value *value_of(const kn_kind *kind, const kn_option_value *values, const char *name) {
    for (int i = 0; i < kn_kind_argument_count(kind); i++)
        if (!strcmp(kn_kind_argument(kind, i).name, name) && values[i].given) return &values[i];
    return NULL;
}

/* The path whose parameters a line uses: from its share=, or from the share= of an enclosing block. */
static bool find_share(builder *b, const kn_line *line, const kn_scope *scope, const kn_option_value *values,
                       const char *path, const char **share) {
    const kn_option_value *given = value_of(&line->kind, values, "share");
    int takes = line->kind.layer ? line->kind.layer->takes : 0;
    *share = NULL;
    if (given) {
        const entry *source = find_entry(b, scope, given->text);
        if (!source || !source->has_parameters)
            return unknown_name(b, line, given->column, scope, given->text, true);
        *share = source->path;
    } else if (scope->share && (takes & KN_TAKES_SHARE)) {
        *share = kn_arena_format(&b->model->arena, "%s%s", scope->share, path + scope->share_after);
        if (!*share) return kn_model_no_memory(b->model);
        const entry *source = kn_map_get_text(&b->names, *share);
        if (!source || !source->has_parameters)
            return kn_mistake(b->model, line, line->word.column, "no layer '%s' to share parameters with",
                              *share);
    }
    return true;
}

/* Checks that 64 bits can count the elements of each parameter, since later checks do not know the line. */
static bool check_parameters(builder *b, const kn_line *line, const char *path) {
    static const char *const parts[] = {"", ".weight", ".weight_ih", ".weight_hh"};
    char name[KN_MODEL_PATH_BYTES + 64], shape[256];
    for (size_t i = 0; i < KN_COUNT_OF(parts); i++) {
        snprintf(name, sizeof name, "%s%s", path, parts[i]);
        const kn_value *value = kn_graph_find(b->graph, name);
        if (!value || value->kind != KN_VALUE_STATE || kn_shape_elements(&value->shape) >= 0) continue;
        kn_value_shape_text(value, shape, sizeof shape);
        return kn_mistake(b->model, line, line->word.column,
                          "the parameter '%s' would have the shape (%s); expected a smaller one", name,
                          shape);
    }
    return true;
}

/* Freezes the parameters of a layer; for a recurrent layer, those of stack level `level`. False: it has none.
 */
static bool freeze_level(builder *b, const char *path, int level) {
    static const char *const parts[] = {"weight", "bias", "weight_ih", "weight_hh", "bias_ih", "bias_hh"};
    char name[KN_MODEL_PATH_BYTES + 64], suffix[16] = "";
    bool found = false;
    if (level) snprintf(suffix, sizeof suffix, "_l%d", level);
    for (size_t i = 0; i < 2 * KN_COUNT_OF(parts); i++) {
        snprintf(name, sizeof name, "%s.%s%s%s", path, parts[i / 2], suffix, i % 2 ? "_reverse" : "");
        kn_value *parameter = kn_graph_find(b->graph, name);
        if (parameter) kn_freeze(parameter);
        found = found || parameter;
    }
    return found;
}

/* A layer without inputs is itself a parameter. */
static void freeze(builder *b, const kn_line *line, const char *path) {
    int level = 0;
    if (line->kind.layer->least_inputs == 0) kn_freeze(kn_graph_find(b->graph, path));
    while (freeze_level(b, path, level))
        level++;
}

/* Writes "axis=1 keep=1", as kn_apply reads it. */
static void write_attributes(const kn_kind *kind, const kn_option_value *values, kn_text *text) {
    for (int i = 0; i < kind->op->attribute_count; i++) {
        const kn_option_value *value = &values[i];
        kn_option argument = kn_kind_argument(kind, i);
        if (!value->given) continue;
        kn_text_format(text, " %s=", argument.name);
        if (argument.kind == KN_OPTION_WHOLE)
            kn_text_format(text, "%" PRId64, value->whole);
        else if (argument.kind == KN_OPTION_NUMBER)
            kn_text_number(text, value->number);
        else if (argument.kind == KN_OPTION_FLAG)
            kn_text_add(text, value->flag ? "1" : "0");
        else if (argument.kind == KN_OPTION_WHOLES)
            for (int k = 0; k < value->count; k++)
                kn_text_format(text, "%s%" PRId64, k ? "," : "", value->list[k]);
        else
            kn_text_add(text, value->text);
    }
}

static kn_value *apply_operator(builder *b, const kn_line *line, const kn_option_value *values,
                                kn_value **inputs, int count) {
    kn_text text;
    kn_value *value = NULL;
    kn_text_init(&text, &b->model->host);
    write_attributes(&line->kind, values, &text);
    if (kn_text_failed(&text))
        kn_model_no_memory(b->model);
    else
        value = kn_apply(b->graph, line->kind.op->name, inputs, (size_t)count, text.data);
    kn_text_finish(&text);
    return value;
}

/* Names a result, unless it is the input: some layers have nothing to do. */
static kn_value *name_value(kn_value *value, const char *path, const char *name, kn_value *const *inputs,
                            int count) {
    for (int i = 0; i < count; i++)
        if (inputs[i] == value) return value;
    if (kn_value_failed(value) || !strcmp(kn_value_name(value), path)) return value;
    return kn_name(value, name);
}

static kn_value *call_layer(builder *b, const kn_line *line, const kn_option_value *values, const char *name,
                            const char *share, kn_value **inputs, int count) {
    const kn_option_value *init = value_of(&line->kind, values, "init");
    const kn_option_value *bias_init = value_of(&line->kind, values, "bias_init");
    kn_layer_call call = {.graph = b->graph,
                          .name = name,
                          .inputs = inputs,
                          .input_count = count,
                          .values = values,
                          .init = init ? &init->start : NULL,
                          .bias_init = bias_init ? &bias_init->start : NULL,
                          .share = share,
                          .model = b->model,
                          .line = line};
    return line->kind.layer->build(&call);
}

/* Records the nodes that a line created, from `first` on, so that the line's name can pin them. */
static bool keep_nodes(builder *b, const char *path, size_t first) {
    kn_model *model = b->model;
    if (!kn_reserve(&model->host, (void **)&model->text->made, &model->text->made_capacity,
                    model->text->made_count + 1, sizeof *model->text->made))
        return kn_model_no_memory(model);
    model->text->made[model->text->made_count++] = (kn_made_nodes){path, first, b->graph->node_count};
    return true;
}

static bool build_layer(builder *b, const kn_line *line, const kn_scope *scope, const kn_option_value *values,
                        kn_value **inputs, int count) {
    const kn_kind *kind = &line->kind;
    const kn_word *word = line->name.text ? &line->name : &line->word;
    const kn_option_value *device = value_of(kind, values, "device");
    const char *path = line_path(b, line, scope), *share;
    size_t first = b->graph->node_count;
    if (!path || !check_free(b, line, word, path) || !find_share(b, line, scope, values, path, &share))
        return false;
    const char *name = path + strlen(scope->path);
    if (device) kn_pin_begin(b->graph, device->text);
    kn_value *value = kind->layer ? call_layer(b, line, values, name, share, inputs, count)
                                  : apply_operator(b, line, values, inputs, count);
    if (device) kn_pin_end(b->graph);
    if (b->model->error.status != KN_OK || !keep_nodes(b, path, first)) return false;
    bool borrowed = share && count == 0; /* a parameter of another line, which keeps its name */
    if (!borrowed) value = name_value(value, path, name, inputs, count);
    if (!check_value(b, line, value)) return false;
    const kn_option_value *frozen = value_of(kind, values, "freeze");
    bool has_parameters = kind->layer && (kind->layer->takes & KN_TAKES_FREEZE);
    if (frozen && frozen->flag && share)
        return kn_mistake(b->model, line, line->word.column,
                          "found freeze for shared parameters, expected it in the line of '%s'", share);
    if (has_parameters && !check_parameters(b, line, path)) return false;
    if (has_parameters && !share && (frozen ? frozen->flag : scope->freeze)) freeze(b, line, path);
    b->last = value;
    return add_entry(b, line, word, path, &value, 1, has_parameters);
}

/* ---- blocks and repeats -------------------------------------------------------------------------------- */

static bool begin_scope(builder *b, const kn_line *line, const kn_scope *outer, const char *path,
                        kn_scope *scope) {
    if (outer->depth + 1 > KN_MODEL_DEPTH)
        return kn_mistake(b->model, line, line->word.column,
                          "found blocks and repeats nested more than %d deep", KN_MODEL_DEPTH);
    scope->outer = outer;
    scope->depth = outer->depth + 1;
    scope->path = path ? kn_arena_format(&b->model->arena, "%s.", path) : outer->path;
    if (!scope->path) return kn_model_no_memory(b->model);
    if (path) kn_scope_begin(b->graph, path + strlen(outer->path));
    b->model->text->scope = scope;
    return true;
}

static void end_scope(builder *b, const kn_scope *scope) {
    if (scope->path != scope->outer->path) kn_scope_end(b->graph);
    b->model->text->scope = scope->outer;
}

/* Sets the variables of a block: arguments of the line and defaults, which may use earlier parameters. */
static bool set_variables(builder *b, const kn_line *line, kn_option_value *values, kn_scope *scope) {
    const kn_block *block = line->kind.block;
    const kn_line *declaration = &b->model->text->lines[block->first - 1];
    kn_variable *items = kn_arena_take(&b->model->arena, (size_t)block->parameter_count, sizeof *items);
    if (!items) return kn_model_no_memory(b->model);
    scope->variables = (kn_variables){.outer = &b->settings, .items = items};
    for (int i = 0; i < block->parameter_count; i++) {
        kn_option_value *value = &values[i];
        if (!value->given &&
            !kn_evaluate_any(b->model, declaration, &block->parameters[i].value, &scope->variables, value))
            return false;
        items[i] = (kn_variable){block->parameters[i].name.text, value->flag, value->whole, value->text};
        if (value->flag) items[i].word = kn_arena_format(&b->model->arena, "%" PRId64, value->whole);
        if (!items[i].word) return kn_model_no_memory(b->model);
        scope->variables.count++;
    }
    return true;
}

static bool name_inputs(builder *b, const kn_line *line, const kn_scope *scope, kn_value **inputs) {
    static const kn_word usual = {.text = "in"};
    const kn_block *block = line->kind.block;
    int count = block->input_count > 0 ? block->input_count : 1;
    for (int i = 0; i < count; i++) {
        const kn_word *word = block->input_count > 0 ? &block->inputs[i] : &usual;
        const char *path = make_path(b, line, scope, word->text);
        if (!path || !add_entry(b, line, word, path, &inputs[i], 1, false)) return false;
    }
    return true;
}

/* The results of a block: those of its output lines, or the last line's. */
static bool find_results(builder *b, const kn_block *block, const kn_scope *scope, kn_value **results,
                         int *count) {
    *count = 0;
    for (int i = block->first; i < block->last; i++) {
        const kn_line *line = &b->model->text->lines[i];
        for (int k = 0; line->sort == KN_LINE_OUTPUT && k < line->given_count; k++) {
            if (*count == KN_MAX_OUTPUTS)
                return kn_mistake(b->model, line, line->given[k].value.column, "found more than %d outputs",
                                  KN_MAX_OUTPUTS);
            if (!find_value(b, line, &line->given[k].value, scope, &results[(*count)++])) return false;
        }
    }
    if (*count == 0) results[(*count)++] = b->last;
    return true;
}

static bool build_block(builder *b, const kn_line *line, const kn_scope *outer, kn_option_value *values,
                        kn_value **inputs) {
    const kn_block *block = line->kind.block;
    const kn_option_value *frozen = value_of(&line->kind, values, "freeze");
    const kn_option_value *device = value_of(&line->kind, values, "device");
    const char *path = line_path(b, line, outer), *share;
    size_t first = b->graph->node_count;
    kn_value *results[KN_MAX_OUTPUTS];
    kn_scope scope = {.use = line, .freeze = frozen ? frozen->flag : outer->freeze};
    int count;
    if (!path || !find_share(b, line, outer, values, path, &share)) return false;
    scope.share = outer->share;
    scope.share_after = outer->share_after;
    if (share) {
        scope.share = kn_arena_format(&b->model->arena, "%s.", share);
        scope.share_after = strlen(path) + 1;
        if (!scope.share) return kn_model_no_memory(b->model);
    }
    if (!set_variables(b, line, values, &scope) || !begin_scope(b, line, outer, path, &scope)) return false;
    b->last = inputs[0];
    if (device) kn_pin_begin(b->graph, device->text);
    if (!name_inputs(b, line, &scope, inputs) || !build_body(b, &scope, block->first, block->last) ||
        !find_results(b, block, &scope, results, &count) || !keep_nodes(b, path, first))
        return false;
    if (device) kn_pin_end(b->graph);
    end_scope(b, &scope);
    b->last = results[0];
    return add_entry(b, line, line->name.text ? &line->name : &line->word, path, results, count, true);
}

static bool count_layer(builder *b, const kn_line *line) {
    return ++b->layers <= KN_MODEL_LAYERS ||
           kn_mistake(b->model, line, line->word.column,
                      "found more than %d layers after unrolling blocks and repeats", KN_MODEL_LAYERS);
}

static bool build_repeat(builder *b, const kn_line *line, const kn_scope *outer, int position) {
    int64_t rounds;
    char digits[24], found[KN_FOUND_BYTES];
    const kn_word *times = &line->given[0].value;
    kn_variable counter = {.whole = true, .word = digits};
    if (line->given_count > 1) counter.name = line->given[1].value.text;
    if (!kn_arithmetic(b->model, line, times, 0, strlen(times->text), &outer->variables, &rounds))
        return false;
    if (rounds < 0)
        return kn_mistake(b->model, line, times->column,
                          "found repeat %s, which is %" PRId64 ", expected 0 or more",
                          kn_found(times->text, found), rounds);
    const char *stem = line->name.text ? kn_fill_name(b->model, line, &line->name, &outer->variables) : NULL;
    if (line->name.text && !stem) return false;
    for (int64_t round = 1; round <= rounds; round++) {
        if (!count_layer(b, line)) return false;
        kn_scope scope = {.variables = {&outer->variables, &counter, counter.name ? 1 : 0},
                          .share = outer->share,
                          .share_after = outer->share_after,
                          .freeze = outer->freeze};
        const char *path = NULL;
        counter.number = round;
        snprintf(digits, sizeof digits, "%" PRId64, round);
        if (stem) {
            char name[KN_MODEL_WORD_BYTES * 2];
            snprintf(name, sizeof name, "%.*s%s", KN_MODEL_WORD_BYTES, stem, digits);
            path = make_path(b, line, outer, name);
            if (!path) return false;
        }
        if (!begin_scope(b, line, outer, path, &scope) || !build_body(b, &scope, position + 1, line->partner))
            return false;
        end_scope(b, &scope);
        if (path && b->last && !add_entry(b, line, &line->name, path, &b->last, 1, true)) return false;
    }
    return true;
}

/* ---- lines --------------------------------------------------------------------------------------------- */

static bool build_use(builder *b, const kn_line *line, const kn_scope *scope) {
    kn_value *inputs[KN_MAX_INPUTS] = {b->last};
    kn_option_value values[KN_MODEL_ARGUMENTS] = {{0}};
    int least, most, count = line->input_count;
    if (!count_layer(b, line)) return false;
    kn_kind_inputs(&line->kind, &least, &most);
    for (int i = 0; i < count; i++)
        if (!find_value(b, line, &line->inputs[i], scope, &inputs[i])) return false;
    if (count == 0 && most > 0) {
        if (!b->last)
            return kn_mistake(b->model, line, line->word.column,
                              "%s has no input; expected an input line before it", line->word.text);
        count = 1;
    }
    if (!kn_arguments_evaluate(b->model, line, &scope->variables, values)) return false;
    return line->kind.block ? build_block(b, line, scope, values, inputs)
                            : build_layer(b, line, scope, values, inputs, count);
}

static bool build_input(builder *b, const kn_line *line) {
    kn_dtype dtype = KN_FLOAT32;
    bool batch = true;
    kn_text text;
    if (!check_free(b, line, &line->given[0].value, line->given[0].value.text)) return false;
    for (int i = 2; i < line->given_count; i++) {
        if (line->given[i].key.text)
            batch = !strcmp(line->given[i].value.text, "yes");
        else
            kn_dtype_parse(line->given[i].value.text, &dtype);
    }
    kn_text_init(&text, &b->model->host);
    kn_text_add(&text, batch ? "batch" : "");
    size_t length = text.length;
    if (batch) kn_text_add(&text, ",");
    bool good = kn_fill_shape(b->model, line, &line->given[1].value, &b->settings, &text, NULL);
    if (good && batch && text.length == length + 1) text.data[--text.length] = '\0';
    if (good && kn_text_failed(&text)) good = kn_model_no_memory(b->model);
    kn_value *value = good ? kn_input(b->graph, line->given[0].value.text, dtype, text.data) : NULL;
    kn_text_finish(&text);
    if (!good || !check_value(b, line, value)) return false;
    b->last = value;
    b->model->inputs[b->model->input_count++] = value;
    return add_entry(b, line, &line->given[0].value, line->given[0].value.text, &value, 1, false);
}

static bool mark_output(builder *b, const kn_line *line, const kn_word *word, kn_value *value) {
    for (int i = 0; i < b->model->output_count; i++)
        if (b->model->outputs[i] == value)
            return kn_mistake(b->model, line, word->column, "found '%s', which is already an output",
                              word->text);
    if (!check_value(b, line, kn_output(value, NULL))) return false;
    b->model->outputs[b->model->output_count++] = value;
    return true;
}

static bool build_body(builder *b, const kn_scope *scope, int first, int last) {
    for (int i = first; i < last; i++) {
        const kn_line *line = &b->model->text->lines[i];
        bool good = true;
        if (line->sort == KN_LINE_LAYER)
            good = build_use(b, line, scope);
        else if (line->sort == KN_LINE_INPUT)
            good = build_input(b, line);
        else if (line->sort == KN_LINE_REPEAT)
            good = build_repeat(b, line, scope, i);
        if (!good) return false;
        if (line->sort == KN_LINE_BLOCK || line->sort == KN_LINE_REPEAT) i = line->partner;
    }
    return true;
}

/* The outputs named by output lines outside blocks, or the result of the last line. */
static bool find_outputs(builder *b, const kn_scope *scope) {
    kn_model *model = b->model;
    const kn_line *last = NULL;
    for (size_t i = 0; i < model->text->line_count; i++) {
        const kn_line *line = &model->text->lines[i];
        if (line->sort == KN_LINE_BLOCK) i = (size_t)line->partner;
        if (line->sort == KN_LINE_LAYER || line->sort == KN_LINE_REPEAT || line->sort == KN_LINE_INPUT)
            last = line;
        if (line->sort != KN_LINE_OUTPUT) continue;
        for (int k = 0; k < line->given_count; k++) {
            kn_value *value;
            if (!find_value(b, line, &line->given[k].value, scope, &value) ||
                !mark_output(b, line, &line->given[k].value, value))
                return false;
        }
    }
    return model->output_count > 0 || !last || mark_output(b, last, &last->word, b->last);
}

static bool take_lists(kn_model *model) {
    size_t inputs = 0, outputs = 1;
    for (size_t i = 0; i < model->text->line_count; i++) {
        inputs += model->text->lines[i].sort == KN_LINE_INPUT;
        if (model->text->lines[i].sort == KN_LINE_OUTPUT)
            outputs += (size_t)model->text->lines[i].given_count;
    }
    model->inputs = kn_arena_take(&model->arena, inputs, sizeof *model->inputs);
    model->outputs = kn_arena_take(&model->arena, outputs, sizeof *model->outputs);
    return (model->inputs && model->outputs) || kn_model_no_memory(model);
}

bool kn_model_build(kn_model *model) {
    kn_graph_params params = {
        .size = sizeof params, .allocator = model->host.allocator, .log = model->host.log};
    const kn_variables settings = kn_settings_of(model);
    kn_scope whole = {.path = "", .variables = settings};
    builder b = {.model = model, .settings = settings, .graph = kn_graph_create(&params)};
    model->graph = b.graph;
    if (!b.graph || !take_lists(model)) return kn_model_no_memory(model);
    kn_map_init(&b.names, &model->host);
    kn_map_init(&b.counters, &model->host);
    bool good = build_body(&b, &whole, 0, (int)model->text->line_count) && find_outputs(&b, &whole);
    kn_map_finish(&b.names);
    kn_map_finish(&b.counters);
    model->text->scope = NULL;
    return good;
}
