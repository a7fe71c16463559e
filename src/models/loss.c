/* Losses by name: adds the training loss to a model, and the input for its target. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/models_private.h"

enum { SMOOTHING, IGNORE };
/* With at least so many classes, the loss of logits that are a product does not store all of them. */
enum { MANY_CLASSES = 4096 };

/* Class indices are not negative, except a value such as -100 for ignored targets; NaN: no target is ignored.
 */
static kn_cross_entropy_params class_params(const kn_loss_call *call) {
    kn_cross_entropy_params params = {.size = sizeof params,
                                      .label_smoothing = call->settings[SMOOTHING],
                                      .class_weights = call->weights,
                                      .other = call->other,
                                      .share = call->share};
    params.has_ignore_index = !isnan(call->settings[IGNORE]);
    if (params.has_ignore_index) params.ignore_index = (int64_t)call->settings[IGNORE];
    return params;
}

/* The output is (...,classes); the target is int32 (...), or float32 with the output's shape. */
static kn_value *build_cross_entropy(const kn_loss_call *call) {
    kn_cross_entropy_params params = class_params(call);
    return kn_cross_entropy(call->output, call->target, &params);
}

static kn_value *build_nll(const kn_loss_call *call) {
    kn_cross_entropy_params params = class_params(call);
    return kn_nll(call->output, call->target, &params);
}

/* From here on, output and target have the same shape. */
#define NO_SETTINGS(word, function)                                                                          \
    static kn_value *build_##word(const kn_loss_call *call) {                                                \
        return function(call->output, call->target);                                                         \
    }
NO_SETTINGS(mse, kn_mse)
NO_SETTINGS(l1, kn_l1)
NO_SETTINGS(binary, kn_binary_cross_entropy)
NO_SETTINGS(probability, kn_probability_cross_entropy)
NO_SETTINGS(divergence, kn_kl_divergence)

static kn_value *build_huber(const kn_loss_call *call) {
    return kn_huber(call->output, call->target, call->settings[0]);
}

static kn_value *build_smooth_l1(const kn_loss_call *call) {
    return kn_smooth_l1(call->output, call->target, call->settings[0]);
}

static kn_value *build_hinge(const kn_loss_call *call) {
    return kn_hinge(call->output, call->target, call->settings[0]);
}

#define OF_CLASSES                                                                                           \
    .classes = true, .settings = {{"smoothing", 0, 0, 1, "in [0, 1)",                                        \
                                   "fraction of a label that is distributed over all classes"},              \
                                  {"ignore", NAN, -2147483648.0, 2147483648.0, "without a fraction",         \
                                   "class index of ignored targets", .whole = true}}
#define ABOVE_0(word, about) .settings = {{word, 1, 1e-30, 1e30, "above 0", about}}

const kn_loss_row kn_loss_table[] = {
    {"cross-entropy", "logits against class indices", build_cross_entropy, OF_CLASSES, .logits = true},
    {"nll", "log-probabilities against class indices", build_nll, OF_CLASSES},
    {.name = "mse", .help = "mean squared error", .build = build_mse},
    {.name = "l1", .help = "mean absolute error", .build = build_l1},
    {"huber", "quadratic near 0, linear beyond", build_huber, ABOVE_0("delta", "where it becomes linear")},
    {"smooth-l1", "the same with slope 1 beyond", build_smooth_l1,
     ABOVE_0("beta", "where it becomes linear")},
    {.name = "binary-cross-entropy",
     .help = "element-wise logits against probabilities",
     .build = build_binary},
    {.name = "probability-cross-entropy",
     .help = "element-wise probabilities against probabilities",
     .build = build_probability},
    {.name = "kl-divergence", .help = "log-probabilities against distributions", .build = build_divergence},
    {"hinge", "hinge loss for targets 1 and -1", build_hinge, ABOVE_0("margin", "margin")},
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

#define LOSS_NAMES                                                                                           \
    "cross-entropy, nll, mse, l1, huber, smooth-l1, binary-cross-entropy, probability-cross-entropy, "       \
    "kl-divergence or hinge"

/* The name in the loss line, which may follow its settings. */
static const kn_word *loss_word(const kn_line *line) {
    for (int i = 0; i < line->given_count; i++)
        if (!line->given[i].key.text) return &line->given[i].value;
    return NULL;
}

/* Position of a setting of the row, or -1. */
static int setting_of(const kn_loss_row *row, const char *name) {
    for (int i = 0; i < KN_LOSS_SETTINGS; i++)
        if (row->settings[i].name && !strcmp(row->settings[i].name, name)) return i;
    return -1;
}

/* "found 'smooting', expected smoothing=NUMBER or ignore=NUMBER for cross-entropy; did you mean 'smoothing'?"
 */
static bool unknown_setting(kn_model *model, const kn_line *line, const kn_loss_row *row,
                            const kn_word *key) {
    char found[KN_FOUND_BYTES], guess[KN_GUESS_BYTES], expected[128] = "";
    const char *names[KN_LOSS_SETTINGS];
    size_t count = 0;
    for (int i = 0; i < KN_LOSS_SETTINGS && row->settings[i].name; i++) {
        size_t length = strlen(expected);
        names[count++] = row->settings[i].name;
        snprintf(expected + length, sizeof expected - length, "%s%s=NUMBER", i ? " or " : "", names[i]);
    }
    if (!count)
        return kn_mistake(model, line, key->column, "found %s, but %s has no settings",
                          kn_found(key->text, found), row->name);
    return kn_mistake(model, line, key->column, "found %s, expected %s for %s%s", kn_found(key->text, found),
                      expected, row->name, kn_guess(key->text, names, count, guess));
}

static void usual_settings(const kn_loss_row *row, double *settings) {
    for (int i = 0; i < KN_LOSS_SETTINGS; i++)
        settings[i] = row->settings[i].usual;
}

/* Reads the settings of a loss line; false after a mistake. */
static bool read_settings(kn_model *model, const kn_line *line, const kn_loss_row *row, double *settings) {
    char found[KN_FOUND_BYTES];
    bool seen[KN_LOSS_SETTINGS] = {false};
    usual_settings(row, settings);
    for (int i = 0; i < line->given_count; i++) {
        const kn_given *given = &line->given[i];
        const char *end;
        if (!given->key.text) continue;
        int index = setting_of(row, given->key.text);
        if (index < 0) return unknown_setting(model, line, row, &given->key);
        const kn_loss_setting *setting = &row->settings[index];
        if (seen[index])
            return kn_mistake(model, line, given->key.column, "found a second %s, expected only one",
                              setting->name);
        seen[index] = true;
        double number = 0;
        if (!kn_parse_double(given->value.text, &end, &number) || *end ||
            !(number >= setting->least && number < setting->below) ||
            (setting->whole && number != floor(number)))
            return kn_mistake(model, line, given->value.column, "found %s for %s, expected a number %s",
                              kn_found(given->value.text, found), setting->name, setting->expected);
        settings[index] = number;
    }
    return true;
}

bool kn_loss_check(kn_model *model, const kn_line *line) {
    char found[KN_FOUND_BYTES], guess[KN_GUESS_BYTES];
    const kn_word *word = loss_word(line);
    const kn_loss_row *row = find(word->text, guess);
    double settings[KN_LOSS_SETTINGS];
    if (!row)
        return kn_mistake(model, line, word->column, "found %s, expected " LOSS_NAMES "%s",
                          kn_found(word->text, found), guess);
    return read_settings(model, line, row, settings);
}

const char *kn_model_loss_name(const kn_model *model) {
    if (!model || model->status != KN_OK || model->unbound) return "";
    if (model->text && model->text->loss_line) return loss_word(model->text->loss_line)->text;
    return model->task == KN_TASK_REGRESSION ? "mse" : "cross-entropy";
}

/* ---- adding a loss to the graph ------------------------------------------------------------------------ */

/* The shape of the target: the output's shape, without the last dimension for classes. */
static bool target_shape(kn_model *model, bool classes, char *shape, size_t bytes) {
    const kn_value *output = model->outputs[0];
    if (kn_value_shape_text(output, shape, bytes) >= bytes) {
        kn_fail(&model->error, KN_ERROR_UNSUPPORTED, "the shape of output '%s' is too long",
                kn_value_name(output));
        return false;
    }
    if (!classes) return true;
    if (kn_value_rank(output) < 1) {
        kn_fail(&model->error, KN_ERROR_SHAPE, "output '%s' is a scalar; expected (...,classes)",
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

/* The logits for a loss of logits: the output, or its input if the output is a softmax over the classes. */
static kn_value *logits_of(kn_value *output) {
    const kn_node *node = output->producer;
    if (!node || strcmp(node->op->name, "softmax")) return output;
    const int64_t axis = node->attributes[0].integer;
    return axis == -1 || axis == output->shape.rank - 1 ? node->inputs[0] : output;
}

/* The node of an operator that makes x, or NULL. */
static const kn_node *made_by(const kn_value *x, const char *operator) {
    return x->producer && !strcmp(x->producer->op->name, operator) ? x->producer : NULL;
}

/* The c of logits c tanh(x / c), and x in *logits; 0: they are not of this form. */
static double softcap_of(const kn_value **logits) {
    const kn_node *mul = made_by(*logits, "mul"), *tanh = mul ? made_by(mul->inputs[0], "tanh") : NULL;
    const kn_node *div = tanh ? made_by(tanh->inputs[0], "div") : NULL;
    const kn_value *cap = div ? div->inputs[1] : NULL;
    if (!cap || cap != mul->inputs[1] || cap->kind != KN_VALUE_CONSTANT || cap->shape.rank) return 0;
    const double number = kn_element_get(cap->shape.dtype, cap->data, 0);
    if (!(number > 0 && number < INFINITY)) return 0;
    *logits = div->inputs[0];
    return number;
}

/* The product of a large vocabulary whose result the logits are, up to a softcap, or NULL: the loss need not
 * store all of them. */
static const kn_node *product_of(const kn_loss_call *call, const kn_loss_row *row, double *softcap) {
    const kn_value *logits = call->output;
    *softcap = softcap_of(&logits);
    const kn_node *node = logits->producer;
    if (row->build != build_cross_entropy || call->weights || call->settings[SMOOTHING] != 0 || !node ||
        strcmp(node->op->name, "matmul") != 0 || node->derivative)
        return NULL;
    const kn_value *x = node->inputs[0], *w = node->inputs[1];
    const bool fits = kn_attribute_of(node, "transpose_b")->integer &&
                      !kn_attribute_of(node, "transpose_a")->integer && x->shape.dtype == KN_FLOAT32 &&
                      w->shape.dtype == KN_FLOAT32 && w->shape.rank == 2;
    return fits && kn_dim_known(w->shape.dims[0]) && w->shape.dims[0] >= MANY_CLASSES ? node : NULL;
}

/* The loss and the accuracy of logits that a product computes, as sums divided by the number of targets that
 * count. */
static void build_of_product(kn_model *model, const kn_loss_call *call, const kn_node *product,
                             double softcap, kn_model_loss *loss) {
    char attributes[80];
    const bool ignores = !isnan(call->settings[IGNORE]);
    const int64_t ignored = ignores ? (int64_t)call->settings[IGNORE] : (int64_t)1 << 32 /* none */;
    const int32_t index = ignores ? (int32_t)ignored : 0;
    kn_value *inputs[3] = {product->inputs[0], product->inputs[1], call->target};
    snprintf(attributes, sizeof attributes, "ignored=%lld softcap=%.17g", (long long)ignored, softcap);
    kn_value *sum = kn_apply(model->graph, "cross_entropy_of_product", inputs, 3, attributes);
    kn_value *counts =
        ignores ? kn_not_equal(call->target, kn_constant(model->graph, KN_INT32, "", &index, sizeof index))
                : kn_equal(call->target, call->target);
    kn_value *counted = kn_sum(kn_cast(counts, KN_FLOAT32), NULL, false);
    loss->value = loss->eval_loss = kn_div(sum, counted);
    loss->accuracy = kn_div(kn_result(sum, 1), counted);
}

/* The node that converts the logits to probabilities, followed only by shape changes; NULL: there is none. */
static kn_value *applied_again(const kn_loss_row *row, kn_value *logits) {
    const char *applied = row->build == build_cross_entropy ? "softmax"
                          : row->build == build_binary      ? "sigmoid"
                                                            : NULL;
    static const char *const shapes[] = {"reshape", "transpose", "cast"};
    for (kn_value *at = logits; applied && at->producer; at = at->producer->inputs[0]) {
        const char *name = at->producer->op->name;
        size_t i = 0;
        if (!strcmp(name, applied)) return at;
        while (i < KN_COUNT_OF(shapes) && strcmp(name, shapes[i]))
            i++;
        if (i == KN_COUNT_OF(shapes)) break;
    }
    return NULL;
}

static void name_if_free(kn_model *model, kn_value *value, const char *name) {
    if (!kn_graph_find(model->graph, name)) kn_name(value, name);
}

/* The class weights as a constant (classes); NULL after a mistake. */
static kn_value *add_weights(kn_model *model, const kn_loss_row *row, const float *weights, size_t count) {
    const kn_value *output = model->outputs[0];
    char shape[32];
    int rank = kn_value_rank(output);
    int64_t classes = rank > 0 ? kn_value_dimension(output, rank - 1) : -1;
    if (!row->classes || model->task != KN_TASK_CLASSIFICATION) {
        kn_fail(&model->error, KN_ERROR_ARGUMENT, "loss %s does not support class weights", row->name);
        return NULL;
    }
    if (classes >= 0 && (uint64_t)classes != count) {
        kn_fail(&model->error, KN_ERROR_SHAPE, "found %zu class weights; output '%s' has %lld classes", count,
                kn_value_name(output), (long long)classes);
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        if (!(weights[i] >= 0 && isfinite(weights[i]))) {
            kn_fail(&model->error, KN_ERROR_ARGUMENT, "class weight %zu is %g; expected 0 or more", i,
                    (double)weights[i]);
            return NULL;
        }
    snprintf(shape, sizeof shape, "%zu", count);
    kn_value *made = kn_constant(model->graph, KN_FLOAT32, shape, weights, count * sizeof *weights);
    if (kn_graph_status(model->graph) == KN_OK) return made;
    kn_fail(&model->error, kn_graph_status(model->graph), "class weights: %s", kn_graph_error(model->graph));
    return NULL;
}

static bool check_mixture(kn_model *model, const kn_loss_row *row) {
    const kn_value *output = model->outputs[0];
    if (row->classes && model->task == KN_TASK_CLASSIFICATION && kn_value_rank(output) == 2) return true;
    kn_fail(&model->error, KN_ERROR_ARGUMENT,
            "mix-up and cut-mix need one class per sample, but with loss %s output '%s' has "
            "different targets",
            row->name, kn_value_name(output));
    return false;
}

static bool add_loss(kn_model *model, const kn_loss_row *row, const double *settings, const float *weights,
                     size_t count, bool mixed, kn_model_loss *loss) {
    char shape[1024];
    bool classes = row->classes && model->task == KN_TASK_CLASSIFICATION;
    kn_loss_call call = {.output = model->outputs[0], .settings = settings};
    if (mixed && !check_mixture(model, row)) return false;
    if (weights && !(call.weights = add_weights(model, row, weights, count))) return false;
    if (!target_shape(model, classes, shape, sizeof shape)) return false;
    if (row->logits) call.output = logits_of(call.output);
    loss->duplicate_activation = applied_again(row, call.output);
    if (kn_is_half(kn_value_dtype(call.output))) call.output = kn_cast(call.output, KN_FLOAT32);
    loss->target = call.target = kn_input(model->graph, "y", classes ? KN_INT32 : KN_FLOAT32, shape);
    double softcap = 0;
    const kn_node *product = mixed ? NULL : product_of(&call, row, &softcap);
    if (product)
        build_of_product(model, &call, product, softcap, loss);
    else
        loss->value = loss->eval_loss = row->build(&call);
    name_if_free(model, loss->eval_loss, "loss");
    if (mixed) {
        call.other = kn_input(model->graph, "y.other", KN_INT32, shape);
        call.share = kn_input(model->graph, "y.share", KN_FLOAT32, shape);
        loss->value = row->build(&call);
        name_if_free(model, loss->value, "loss.mixed");
    }
    if (classes) {
        const kn_cross_entropy_params params = class_params(&call);
        loss->has_ignore_index = params.has_ignore_index;
        loss->ignore_index = params.ignore_index;
        if (!product)
            loss->accuracy = params.has_ignore_index
                                 ? kn_accuracy_ignoring(call.output, call.target, params.ignore_index)
                                 : kn_accuracy(call.output, call.target);
        name_if_free(model, loss->accuracy, "accuracy");
    }
    if (kn_graph_status(model->graph) == KN_OK) return true;
    kn_fail(&model->error, kn_graph_status(model->graph), "loss %s of '%s': %s", row->name,
            kn_value_name(model->outputs[0]), kn_graph_error(model->graph));
    return false;
}

/* Implements kn_model_add_loss and its variants. */
static kn_status add_chosen(kn_model *model, const char *name, const float *weights, size_t count, bool mixed,
                            kn_model_loss *loss) {
    char guess[KN_GUESS_BYTES];
    if (!model) return KN_ERROR_ARGUMENT;
    if (model->status != KN_OK) return model->status;
    kn_error_clear(&model->error);
    if (kn_model_need_bound(model, "kn_model_add_loss") != KN_OK) return model->error.status;
    const kn_loss_row *row = find(name ? name : kn_model_loss_name(model), guess);
    if (!loss) return kn_fail(&model->error, KN_ERROR_ARGUMENT, "kn_model_add_loss: loss is NULL");
    if (!kn_has_size(loss))
        return kn_fail(&model->error, KN_ERROR_ARGUMENT,
                       "kn_model_add_loss: loss has no size; initialize it with KN_MODEL_LOSS_DEFAULTS");
    if (!row)
        return kn_fail(&model->error, KN_ERROR_NOT_FOUND,
                       "no loss is called '%.60s'; expected " LOSS_NAMES "%s", name, guess);
    if (model->loss_added)
        return kn_fail(&model->error, KN_ERROR_ARGUMENT, "model '%s' already has a loss", model->name);
    if (kn_graph_find(model->graph, "y"))
        return kn_fail(&model->error, KN_ERROR_ARGUMENT,
                       "model '%s' has a value called 'y', the name of the target; rename it", model->name);
    double settings[KN_LOSS_SETTINGS];
    usual_settings(row, settings);
    if (model->text && model->text->loss_line && !strcmp(row->name, kn_model_loss_name(model)))
        read_settings(model, model->text->loss_line, row, settings);
    kn_model_loss made = {.size = loss->size};
    if (!add_loss(model, row, settings, weights, count, mixed, &made)) return model->error.status;
    model->loss_added = true;
    return KN_RESULT_GIVE(kn_model_loss, loss, &made);
}

kn_status kn_model_add_loss(kn_model *model, const char *name, kn_model_loss *loss) {
    return add_chosen(model, name, NULL, 0, false, loss);
}

kn_status kn_model_add_weighted_loss(kn_model *model, const char *name, const float *weights, size_t count,
                                     kn_model_loss *loss) {
    return add_chosen(model, name, weights, count, false, loss);
}

kn_status kn_model_add_mixed_loss(kn_model *model, const char *name, const float *weights, size_t count,
                                  kn_model_loss *loss) {
    return add_chosen(model, name, weights, count, true, loss);
}
