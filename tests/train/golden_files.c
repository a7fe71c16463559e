/* See golden_files.h. */
#include "golden_files.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the files ---------------------------------------------------------------------------------------- */

const kn_json *golden_member(const kn_json *object, const char *key) {
    const kn_json *found = kn_json_member(object, key);
    if (!found) fail_msg("a golden file has no \"%s\"", key);
    return found;
}

static double number_of(const kn_json *object, const char *key) {
    return golden_member(object, key)->number;
}

static bool is_text(const kn_json *object, const char *key, const char *text) {
    return !strcmp(golden_member(object, key)->text, text);
}

double golden_item(const kn_json *list, int64_t index) {
    const kn_json *item = list->first;
    while (item && index-- > 0)
        item = item->next;
    if (!item) fail_msg("a list of a golden file is too short");
    return item->number;
}

void golden_read(golden *file, const char *folder, const char *name) {
    char path[4096];
    uint8_t *bytes;
    uint64_t count;
    kn_json *root = NULL;
    kn_error error = {.status = KN_OK};
    *file = (golden){.host = kn_host_defaults(), .name = name};
    kn_arena_init(&file->arena, &file->host);
    int length = snprintf(path, sizeof path, "%s/%s.json", folder, name);
    assert_true(length > 0 && (size_t)length < sizeof path);
    if (kn_file_read(&file->host, path, 1 << 24, &bytes, &count, &error)) fail_msg("%s", error.text);
    if (kn_json_read(&file->arena, path, bytes, count, 1 << 24, 32, &root, &error))
        fail_msg("%s", error.text);
    kn_release(&file->host, bytes);
    file->root = root;
}

void golden_open(golden *file, const char *folder, const char *name) {
    golden_read(file, folder, name);
    const kn_json *root = file->root;
    file->network = golden_member(root, "network");
    file->optimizer = golden_member(root, "optimizer");
    file->seed = (uint64_t)number_of(root, "seed");
    file->batch = (int64_t)number_of(root, "batch");
    file->steps = (int64_t)number_of(root, "steps");
    const kn_json *shards = kn_json_member(root, "shards");
    file->shards = shards ? (int)shards->number : 0;
    file->classes = (int64_t)number_of(file->network, "classes");
    file->elements = 1;
    for (const kn_json *item = golden_member(file->network, "input_shape")->first; item; item = item->next)
        file->elements *= (int64_t)item->number;
    const kn_json *tokens = kn_json_member(file->network, "tokens");
    file->tokens = tokens ? (int64_t)tokens->number : 0;
    file->labels = tokens ? file->elements : 1;
    const kn_json *label_shape = kn_json_member(file->network, "label_shape");
    for (const kn_json *item = label_shape ? label_shape->first : NULL; item; item = item->next)
        file->labels *= (int64_t)item->number;
}

void golden_close(golden *file) {
    kn_arena_finish(&file->arena);
}

/* ---- the model and its trainer ------------------------------------------------------------------------ */

/* The file's layers are the text of a model; the network with batch norm has another notation. */
static kn_model *make_model(golden *file) {
    static const char batch_norm[] = "koine 1\n"
                                     "input x 3x15x15\n"
                                     "conv 8 3 stride=2 padding=1 bias=no\n"
                                     "batchnorm momentum=0.1 epsilon=1e-5\n"
                                     "relu\n"
                                     "avgpool 2\n"
                                     "globalavgpool\n"
                                     "flatten\n"
                                     "logits = linear 10\n";
    kn_text text;
    kn_text_init(&text, &file->host);
    if (is_text(file->network, "name", "cnn_bn")) {
        kn_text_add(&text, batch_norm);
    } else {
        kn_text_add(&text, "koine 1\n");
        for (const kn_json *line = golden_member(file->network, "layers")->first; line; line = line->next)
            kn_text_format(&text, "%s\n", line->text);
    }
    kn_model *model = kn_model_parse(text.data, NULL);
    if (kn_model_status(model) != KN_OK) fail_msg("%s: %s", file->name, kn_model_error(model));
    kn_text_finish(&text);
    return model;
}

static void take_schedule(const kn_json *schedule, kn_trainer_params *params) {
    if (is_text(schedule, "name", "constant")) {
        params->schedule = KN_SCHEDULE_CONSTANT;
    } else if (is_text(schedule, "name", "step")) {
        params->schedule = KN_SCHEDULE_STEP;
        params->step_every = (uint64_t)number_of(schedule, "every");
        params->step_factor = number_of(schedule, "factor");
    } else {
        assert_true(is_text(schedule, "name", "cosine"));
        params->schedule = KN_SCHEDULE_COSINE;
        params->warmup_steps = (uint64_t)number_of(schedule, "warmup");
        params->total_steps = (uint64_t)number_of(schedule, "steps");
        params->final_fraction = number_of(schedule, "end") / params->learning_rate;
    }
}

/* A field that most files leave out. */
static double number_or(const kn_json *object, const char *key, double usual) {
    const kn_json *found = kn_json_member(object, key);
    return found ? found->number : usual;
}

static bool is_true(const kn_json *object, const char *key) {
    const kn_json *found = kn_json_member(object, key);
    return found && found->truth;
}

static kn_optimizer rule_of(const kn_json *optimizer) {
    for (size_t i = 0; i < kn_optimizer_count(); i++)
        if (is_text(optimizer, "name", kn_optimizer_name((kn_optimizer)i))) return (kn_optimizer)i;
    fail_msg("a golden file has an optimizer that Koine does not");
    return KN_OPTIMIZER_SGD;
}

enum { MAX_GROUPS = 4 };

static void take_groups(const kn_json *optimizer, kn_parameter_group *groups, kn_trainer_params *params) {
    const kn_json *list = kn_json_member(optimizer, "groups");
    for (const kn_json *item = list ? list->first : NULL; item; item = item->next) {
        assert_true(params->group_count < MAX_GROUPS);
        groups[params->group_count++] = (kn_parameter_group){.size = sizeof *groups,
                                                             .pattern = golden_member(item, "pattern")->text,
                                                             .rate_factor = number_of(item, "lr"),
                                                             .weight_decay = number_of(item, "decay"),
                                                             .frozen = golden_member(item, "frozen")->truth};
    }
    if (params->group_count) params->groups = groups;
}

/* The groups and the session's parameters must live until the trainer is created. */
static kn_trainer_params take_optimizer(const golden *file, const kn_session_params *session,
                                        kn_parameter_group groups[MAX_GROUPS]) {
    const kn_json *optimizer = file->optimizer;
    kn_trainer_params params;
    kn_trainer_params_init(&params);
    kn_trainer_params_choose(&params, rule_of(optimizer));
    params.session = session;
    params.learning_rate = number_of(optimizer, "lr");
    params.weight_decay = number_of(optimizer, "weight_decay");
    params.clip_norm = number_of(optimizer, "clip_norm");
    params.clip_value = number_or(optimizer, "clip_value", 0);
    params.momentum = number_or(optimizer, "momentum", params.momentum);
    params.dampening = number_or(optimizer, "dampening", 0);
    params.nesterov = is_true(optimizer, "nesterov");
    params.amsgrad = is_true(optimizer, "amsgrad");
    params.centered = is_true(optimizer, "centered");
    params.beta1 = number_or(optimizer, "beta1", params.beta1);
    params.beta2 = number_or(optimizer, "beta2", params.beta2);
    params.epsilon = number_or(optimizer, "eps", params.epsilon);
    params.rate_decay = number_or(optimizer, "lr_decay", 0);
    params.accumulator = number_or(optimizer, "accumulator", 0);
    params.accumulate = (uint64_t)number_or(optimizer, "accumulate", 1);
    params.average = number_or(optimizer, "average", 0);
    params.decay_matrices_only = is_true(optimizer, "decay_matrices");
    take_groups(optimizer, groups, &params);
    take_schedule(golden_member(optimizer, "schedule"), &params);
    return params;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static void near(const golden *file, const char *what, double actual, double expected, double allowed) {
    if (!(fabs(actual - expected) <= allowed))
        fail_msg("%s, %s: %.9g; PyTorch in float64 has %.9g (allowed: %.2g apart)", file->name, what, actual,
                 expected, allowed);
}

/* Three times the distance between PyTorch in float32 and in float64, and at least 1e-4, or less after few
 * steps, which change little. */
static double allowed_for(const golden *file, double distance) {
    return fmax(3 * distance, fmin(1e-4, 1e-5 * (double)file->steps));
}

static float *read_state(kn_trainer *trainer, const kn_json *state, int64_t *count) {
    kn_states *states = kn_trainer_states(trainer);
    *count = 1;
    for (const kn_json *item = golden_member(state, "shape")->first; item; item = item->next)
        *count *= (int64_t)item->number;
    float *numbers = calloc((size_t)*count, sizeof *numbers);
    assert_non_null(numbers);
    if (kn_states_get(states, golden_member(state, "name")->text, numbers, (size_t)*count * sizeof *numbers))
        fail_msg("%s", kn_states_error(states));
    return numbers;
}

static void check_initial(const golden *file, kn_trainer *trainer, const kn_json *state) {
    int64_t count, i = 0;
    double sum = 0;
    char what[200];
    float *numbers = read_state(trainer, state, &count);
    const kn_json *samples = golden_member(state, "initial_samples")->first;
    for (const kn_json *at = golden_member(state, "sample_indices")->first; at; at = at->next, i++) {
        snprintf(what, sizeof what, "%s[%d] at the start", golden_member(state, "name")->text,
                 (int)at->number);
        near(file, what, numbers[(int64_t)at->number], samples->number, 0);
        samples = samples->next;
    }
    assert_true(i > 0);
    for (i = 0; i < count; i++)
        sum += numbers[i];
    snprintf(what, sizeof what, "the sum of %s at the start", golden_member(state, "name")->text);
    near(file, what, sum, number_of(state, "initial_sum"), 1e-9);
    free(numbers);
}

static void check_final(const golden *file, kn_trainer *trainer, const kn_json *state) {
    int64_t count;
    double sum = 0, absolute = 0;
    char what[200];
    const char *name = golden_member(state, "name")->text;
    const kn_json *distance = golden_member(state, "float32_distance");
    float *numbers = read_state(trainer, state, &count);
    const kn_json *samples = golden_member(state, "samples")->first;
    for (const kn_json *at = golden_member(state, "sample_indices")->first; at; at = at->next) {
        snprintf(what, sizeof what, "%s[%d]", name, (int)at->number);
        near(file, what, numbers[(int64_t)at->number], samples->number,
             allowed_for(file, number_of(distance, "elements")));
        samples = samples->next;
    }
    for (int64_t i = 0; i < count; i++) {
        sum += numbers[i];
        absolute += fabs((double)numbers[i]);
    }
    double share = 1e-6 * number_of(state, "sum_absolute");
    snprintf(what, sizeof what, "the sum of %s", name);
    near(file, what, sum, number_of(state, "sum"),
         fmax(allowed_for(file, number_of(distance, "sum")), share));
    snprintf(what, sizeof what, "the sum of magnitudes of %s", name);
    near(file, what, absolute, number_of(state, "sum_absolute"),
         fmax(allowed_for(file, number_of(distance, "sum_absolute")), share));
    free(numbers);
}

static void check_states(const golden *file, kn_trainer *trainer,
                         void (*check)(const golden *, kn_trainer *, const kn_json *)) {
    for (const kn_json *state = golden_member(file->root, "parameters")->first; state; state = state->next)
        check(file, trainer, state);
    for (const kn_json *state = golden_member(file->root, "buffers")->first; state; state = state->next)
        check(file, trainer, state);
}

/* ---- the training ---------------------------------------------------------------------------- */

void golden_draw(const golden *file, golden_feeds *fed, int64_t step) {
    int64_t elements = file->batch * file->elements;
    uint64_t x = kn_random_key(file->seed, "x"), label = kn_random_key(file->seed, "label");
    int64_t labels = file->batch * file->labels;
    for (int64_t i = 0; i < elements; i++) {
        uint64_t at = (uint64_t)(step * elements + i);
        if (file->tokens)
            fed->tokens[i] = (int32_t)kn_random_below(x, at, (uint32_t)file->tokens);
        else
            fed->x[i] = kn_random_uniform(x, at);
    }
    for (int64_t i = 0; i < labels; i++)
        fed->labels[i] =
            (int32_t)kn_random_below(label, (uint64_t)(step * labels + i), (uint32_t)file->classes);
    const void *data = file->tokens ? (const void *)fed->tokens : fed->x;
    fed->list[0] = (kn_feed){"x", data, (size_t)elements * sizeof(float)};
    fed->list[1] = (kn_feed){"y", fed->labels, (size_t)labels * sizeof(int32_t)};
}

void golden_part(const golden *file, const golden_feeds *fed, uint64_t first, uint64_t count,
                 kn_feed list[2]) {
    const size_t elements = (size_t)file->elements, labels = (size_t)file->labels;
    const void *x = file->tokens ? (const void *)(fed->tokens + first * elements) : fed->x + first * elements;
    list[0] = (kn_feed){"x", x, count * elements * sizeof(float)};
    list[1] = (kn_feed){"y", fed->labels + first * labels, count * labels * sizeof(int32_t)};
}

static void check_first_batch(const golden *file, const golden_feeds *fed) {
    int64_t i = 0;
    for (const kn_json *item = golden_member(file->root, "first_inputs")->first; item; item = item->next, i++)
        near(file, "an element of the first batch", file->tokens ? fed->tokens[i] : fed->x[i], item->number,
             0);
    for (i = 0; i < file->batch * file->labels; i++)
        assert_int_equal(fed->labels[i], (int)golden_item(golden_member(file->root, "first_labels"), i));
}

void golden_good(const golden *file, kn_trainer *trainer, kn_status status) {
    if (status != KN_OK)
        fail_msg("%s: %s: %s", file->name, kn_status_name(status), kn_trainer_error(trainer));
}

void golden_train(const golden *file, kn_trainer *trainer, kn_value *loss_value, golden_feeds *fed,
                  void *user) {
    char what[80];
    double allowed = allowed_for(file, number_of(file->root, "losses_float32_distance"));
    golden_good(file, trainer, kn_trainer_status(trainer));
    for (int64_t step = 0; step < file->steps; step++) {
        double loss = NAN, rate = golden_item(golden_member(file->root, "learning_rates"), step);
        golden_draw(file, fed, step);
        if (step == 0) {
            check_first_batch(file, fed);
            golden_good(file, trainer, kn_trainer_compile(trainer, file->batch));
            check_states(file, trainer, check_initial);
        }
        snprintf(what, sizeof what, "the learning rate of step %d", (int)step);
        near(file, what, kn_trainer_learning_rate(trainer), rate, 1e-6 * rate);
        golden_good(file, trainer, kn_trainer_step(trainer, file->batch, fed->list, 2, &loss));
        snprintf(what, sizeof what, "the loss of step %d", (int)step);
        near(file, what, loss, golden_item(golden_member(file->root, "losses"), step), allowed);
    }
    assert_int_equal(kn_trainer_steps(trainer), file->steps);
    check_states(file, trainer, check_final);
    const kn_json *averages = kn_json_member(file->root, "averages");
    for (const kn_json *state = averages ? averages->first : NULL; state; state = state->next)
        check_final(file, trainer, state);
    float loss = NAN;
    kn_fetch fetch = {kn_value_name(loss_value), &loss, sizeof loss};
    golden_draw(file, fed, file->steps);
    golden_good(file, trainer,
                kn_trainer_evaluate(trainer, file->batch, fed->list, 2, &loss_value, &fetch, 1));
    double expected = number_of(file->root, "evaluation_loss");
    near(file, "the loss of the evaluation", loss, expected,
         allowed_for(file, fabs(number_of(file->root, "evaluation_loss_float32") - expected)));
}

void golden_with_trainer(golden *file, const golden_setup *setup, void *user, golden_use *use) {
    kn_model *model = make_model(file);
    kn_model_loss loss = KN_MODEL_LOSS_DEFAULTS;
    if (kn_model_add_loss(model, "cross-entropy", &loss)) fail_msg("%s", kn_model_error(model));
    kn_parameter_group groups[MAX_GROUPS];
    const kn_session_params session = {
        .size = sizeof session, .seed = file->seed, .fast_math = setup->fast, .precision = setup->precision};
    kn_trainer_params params = take_optimizer(file, &session, groups);
    params.communicator = setup->communicator;
    params.shards = setup->shards ? setup->shards : file->shards;
    params.shard_counts = setup->deal;
    kn_trainer *trainer = kn_trainer_create(setup->context, loss.value, &params);
    golden_feeds fed = {.x = calloc((size_t)(file->batch * file->elements), sizeof(float)),
                        .tokens = calloc((size_t)(file->batch * file->elements), sizeof(int32_t)),
                        .labels = calloc((size_t)(file->batch * file->labels), sizeof(int32_t))};
    assert_true(fed.x && fed.tokens && fed.labels);
    use(file, trainer, loss.value, &fed, user);
    free(fed.x);
    free(fed.tokens);
    free(fed.labels);
    kn_trainer_destroy(&trainer);
    kn_model_destroy(&model);
}
