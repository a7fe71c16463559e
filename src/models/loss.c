/* Losses by name: what a model is trained with, and the input for what should come out. */
#include <stdio.h>
#include <string.h>

#include "models/models_private.h"

/* logits are (...,classes), target is int32 (...) or float32 of the logits' shape. */
static kn_value *build_cross_entropy(kn_value *output, kn_value *target, double smoothing) {
    kn_cross_entropy_params params = {.size = sizeof params, .label_smoothing = smoothing};
    return kn_cross_entropy(output, target, &params);
}

static kn_value *build_mse(kn_value *output, kn_value *target, double setting) {
    return kn_mse(output, target);
}

static kn_value *build_binary(kn_value *output, kn_value *target, double setting) {
    return kn_binary_cross_entropy(output, target);
}

static kn_value *build_huber(kn_value *output, kn_value *target, double delta) {
    return kn_huber(output, target, delta);
}

const kn_loss_row kn_loss_table[] = {
    {"cross-entropy", "smoothing", 0, 0, 1, "logits against class numbers",
     "share of a label given to all classes alike", build_cross_entropy},
    {"mse", NULL, 0, 0, 0, "mean squared difference", NULL, build_mse},
    {"binary-cross-entropy", NULL, 0, 0, 0, "logits against probabilities, each by itself", NULL,
     build_binary},
    {"huber", "delta", 1, 1e-30, 1e30, "half the square near 0, straight beyond", "where it turns straight",
     build_huber},
};
const int kn_loss_table_count = (int)KN_COUNT_OF(kn_loss_table);

static const kn_loss_row *find(const char *name, char guess[KN_GUESS_BYTES]) {
    const char *names[KN_COUNT_OF(kn_loss_table)];
    for (size_t i = 0; i < KN_COUNT_OF(kn_loss_table); i++) {
        if (!strcmp(kn_loss_table[i].name, name)) return &kn_loss_table[i];
        names[i] = kn_loss_table[i].name;
    }
    kn_guess(name, names, KN_COUNT_OF(names), guess);
    return NULL;
}

#define LOSS_NAMES "cross-entropy, mse, binary-cross-entropy or huber"

/* The word of the loss line, which may stand behind its settings. */
static const kn_word *loss_word(const kn_line *line) {
    for (int i = 0; i < line->given_count; i++)
        if (!line->given[i].key.text) return &line->given[i].value;
    return NULL;
}

/* Reads the settings of a loss line; false after a mistake. */
static bool read_setting(kn_model *model, const kn_line *line, const kn_loss_row *row, double *setting) {
    char found[KN_FOUND_BYTES], guess[KN_GUESS_BYTES];
    bool seen = false;
    *setting = row->usual;
    for (int i = 0; i < line->given_count; i++) {
        const kn_given *given = &line->given[i];
        const char *end;
        if (!given->key.text) continue;
        if (!row->setting)
            return kn_mistake(model, line, given->key.column, "found %s, but %s has no settings",
                              kn_found(given->key.text, found), row->name);
        if (strcmp(given->key.text, row->setting))
            return kn_mistake(model, line, given->key.column, "found %s, expected %s=NUMBER for %s%s",
                              kn_found(given->key.text, found), row->setting, row->name,
                              kn_guess(given->key.text, &row->setting, 1, guess));
        if (seen)
            return kn_mistake(model, line, given->key.column, "found a second %s, expected one",
                              row->setting);
        seen = true;
        if (!kn_parse_double(given->value.text, &end, setting) || *end ||
            !(*setting >= row->least && *setting < row->below))
            return kn_mistake(model, line, given->value.column, "found %s for %s, expected a number %s",
                              kn_found(given->value.text, found), row->setting,
                              row->below == 1 ? "from 0 to 1, 1 left out" : "above 0");
    }
    return true;
}

bool kn_loss_check(kn_model *model, const kn_line *line) {
    char found[KN_FOUND_BYTES], guess[KN_GUESS_BYTES];
    const kn_word *word = loss_word(line);
    const kn_loss_row *row = find(word->text, guess);
    double setting;
    if (!row)
        return kn_mistake(model, line, word->column, "found %s, expected " LOSS_NAMES "%s",
                          kn_found(word->text, found), guess);
    return read_setting(model, line, row, &setting);
}

const char *kn_model_loss_name(const kn_model *model) {
    if (!model || model->status != KN_OK) return "";
    if (model->loss_line) return loss_word(model->loss_line)->text;
    return model->task == KN_TASK_REGRESSION ? "mse" : "cross-entropy";
}

/* ---- adding one to the graph ------------------------------------------------------------------------------
 */

/* The shape of the target: the output's, or that without its last dimension, the classes. */
static bool target_shape(kn_model *model, bool classes, char *shape, size_t bytes) {
    const kn_value *output = model->outputs[0];
    if (kn_value_shape_text(output, shape, bytes) >= bytes) {
        kn_fail(&model->error, KN_ERROR_UNSUPPORTED, "output '%s' has a shape too long to write",
                kn_value_name(output));
        return false;
    }
    if (!classes) return true;
    if (kn_value_rank(output) < 1) {
        kn_fail(&model->error, KN_ERROR_SHAPE,
                "output '%s' is a single number; expected (...,classes) for cross-entropy",
                kn_value_name(output));
        return false;
    }
    size_t end = 0;
    int depth = 0;
    for (size_t i = 0; shape[i]; i++) {
        depth += (shape[i] == '(') - (shape[i] == ')');
        if (shape[i] == ',' && depth == 0) end = i;
    }
    shape[end] = '\0';
    return true;
}

static void name_if_free(kn_model *model, kn_value *value, const char *name) {
    if (!kn_graph_find(model->graph, name)) kn_name(value, name);
}

static bool add_loss(kn_model *model, const kn_loss_row *row, double setting, kn_model_loss *loss) {
    char shape[1024];
    bool cross_entropy = row->build == build_cross_entropy;
    bool classes = cross_entropy && model->task == KN_TASK_CLASSIFICATION;
    kn_value *output = model->outputs[0];
    if (!target_shape(model, classes, shape, sizeof shape)) return false;
    loss->target = kn_input(model->graph, "y", classes ? KN_INT32 : KN_FLOAT32, shape);
    loss->value = row->build(output, loss->target, setting);
    loss->accuracy = classes ? kn_accuracy(output, loss->target) : NULL;
    name_if_free(model, loss->value, "loss");
    if (loss->accuracy) name_if_free(model, loss->accuracy, "accuracy");
    if (kn_graph_status(model->graph) == KN_OK) return true;
    kn_fail(&model->error, kn_graph_status(model->graph), "loss %s of '%s': %s", row->name,
            kn_value_name(output), kn_graph_error(model->graph));
    return false;
}

kn_status kn_model_add_loss(kn_model *model, const char *name, kn_model_loss *loss) {
    char guess[KN_GUESS_BYTES];
    if (!model) return KN_ERROR_ARGUMENT;
    if (model->status != KN_OK) return model->status;
    kn_error_clear(&model->error);
    const kn_loss_row *row = find(name ? name : kn_model_loss_name(model), guess);
    if (!loss)
        return kn_fail(&model->error, KN_ERROR_ARGUMENT,
                       "kn_model_add_loss: nowhere to put the loss; loss is NULL");
    if (!row)
        return kn_fail(&model->error, KN_ERROR_NOT_FOUND,
                       "there is no loss '%.60s'; expected " LOSS_NAMES "%s", name, guess);
    if (model->loss_added)
        return kn_fail(&model->error, KN_ERROR_ARGUMENT, "the model '%s' has its loss already", model->name);
    if (kn_graph_find(model->graph, "y"))
        return kn_fail(
            &model->error, KN_ERROR_ARGUMENT,
            "the model '%s' has something called 'y', which is the name of the target; give it another name",
            model->name);
    double setting = row->usual;
    if (model->loss_line && !strcmp(row->name, kn_model_loss_name(model)))
        read_setting(model, model->loss_line, row, &setting);
    kn_model_loss made = {.size = loss->size};
    if (!add_loss(model, row, setting, &made)) return model->error.status;
    model->loss_added = true;
    memcpy(loss, &made, loss->size < sizeof made ? loss->size : sizeof made);
    return KN_OK;
}
