/* Training trajectories compared with PyTorch's: the files of tests/golden, described in
 * tools/golden/README.md.
 *     test-golden FOLDER [NAME]
 *     test-golden FOLDER TYPE wide|threads SEEDS
 * NAME: only the trajectories of that file. Some run twice: with exact algorithms, and with those of
 * fast_math. TYPE: trajectories stored in float16 or bfloat16 on that set of kernels, begun with so many
 * seeds. */
#include "device_support.h"

#include <koine/koine.h>

#include "formats/formats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *folder;
static kn_context *context;

/* ---- the files ---------------------------------------------------------------------------------------- */

typedef struct golden {
    kn_host host;
    kn_arena arena;
    const kn_json *root, *network, *optimizer;
    const char *name;
    uint64_t seed;
    int64_t batch, steps, elements, classes; /* elements of one sample */
    int64_t tokens, labels; /* inputs are less than tokens, unless it is 0; labels of one sample */
} golden;

static const kn_json *member(const kn_json *object, const char *key) {
    const kn_json *found = kn_json_member(object, key);
    if (!found) fail_msg("a golden file has no \"%s\"", key);
    return found;
}

static double number_of(const kn_json *object, const char *key) {
    return member(object, key)->number;
}

static bool is_text(const kn_json *object, const char *key, const char *text) {
    return !strcmp(member(object, key)->text, text);
}

static double item_of(const kn_json *list, int64_t index) {
    const kn_json *item = list->first;
    while (item && index-- > 0)
        item = item->next;
    if (!item) fail_msg("a list of a golden file is too short");
    return item->number;
}

static void read_root(golden *file, const char *name) {
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

static void golden_open(golden *file, const char *name) {
    read_root(file, name);
    const kn_json *root = file->root;
    file->network = member(root, "network");
    file->optimizer = member(root, "optimizer");
    file->seed = (uint64_t)number_of(root, "seed");
    file->batch = (int64_t)number_of(root, "batch");
    file->steps = (int64_t)number_of(root, "steps");
    file->classes = (int64_t)number_of(file->network, "classes");
    file->elements = 1;
    for (const kn_json *item = member(file->network, "input_shape")->first; item; item = item->next)
        file->elements *= (int64_t)item->number;
    const kn_json *tokens = kn_json_member(file->network, "tokens");
    file->tokens = tokens ? (int64_t)tokens->number : 0;
    file->labels = tokens ? file->elements : 1;
    const kn_json *label_shape = kn_json_member(file->network, "label_shape");
    for (const kn_json *item = label_shape ? label_shape->first : NULL; item; item = item->next)
        file->labels *= (int64_t)item->number;
}

static void golden_close(golden *file) {
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
        for (const kn_json *line = member(file->network, "layers")->first; line; line = line->next)
            kn_text_format(&text, "%s\n", line->text);
    }
    kn_model *model = kn_model_parse(text.data, NULL);
    if (kn_model_status(model) != KN_OK) fail_msg("%s: %s", file->name, kn_model_error(model));
    kn_text_finish(&text);
    return model;
}

static void take_schedule(const kn_json *schedule, kn_trainer_params *params) {
    if (is_text(schedule, "name", "constant")) {
        params->schedule = KN_CONSTANT;
    } else if (is_text(schedule, "name", "step")) {
        params->schedule = KN_STEP;
        params->step_every = (uint64_t)number_of(schedule, "every");
        params->step_factor = number_of(schedule, "factor");
    } else {
        assert_true(is_text(schedule, "name", "cosine"));
        params->schedule = KN_COSINE;
        params->warmup_steps = (uint64_t)number_of(schedule, "warmup");
        params->total_steps = (uint64_t)number_of(schedule, "steps");
        params->final_share = number_of(schedule, "end") / params->learning_rate;
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
    for (int i = 0; i < kn_optimizer_count(); i++)
        if (is_text(optimizer, "name", kn_optimizer_name((kn_optimizer)i))) return (kn_optimizer)i;
    fail_msg("a golden file has an optimizer that Koine does not");
    return KN_SGD;
}

enum { MAX_GROUPS = 4 };

static void take_groups(const kn_json *optimizer, kn_parameter_group *groups, kn_trainer_params *params) {
    const kn_json *list = kn_json_member(optimizer, "groups");
    for (const kn_json *item = list ? list->first : NULL; item; item = item->next) {
        assert_true(params->group_count < MAX_GROUPS);
        groups[params->group_count++] = (kn_parameter_group){.size = sizeof *groups,
                                                             .pattern = member(item, "pattern")->text,
                                                             .rate_factor = number_of(item, "lr"),
                                                             .weight_decay = number_of(item, "decay"),
                                                             .frozen = member(item, "frozen")->truth};
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
    take_schedule(member(optimizer, "schedule"), &params);
    return params;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static void near(const golden *file, const char *what, double actual, double expected, double allowed) {
    if (!(fabs(actual - expected) <= allowed))
        fail_msg("%s, %s: %.9g; PyTorch in float64 has %.9g (allowed: %.2g apart)", file->name, what, actual,
                 expected, allowed);
}

/* Three times the distance between PyTorch in float32 and in float64, and at least 1e-4. */
static double allowed_for(double distance) {
    return fmax(3 * distance, 1e-4);
}

static float *read_state(kn_trainer *trainer, const kn_json *state, int64_t *count) {
    kn_states *states = kn_trainer_states(trainer);
    *count = 1;
    for (const kn_json *item = member(state, "shape")->first; item; item = item->next)
        *count *= (int64_t)item->number;
    float *numbers = calloc((size_t)*count, sizeof *numbers);
    assert_non_null(numbers);
    if (kn_states_get(states, member(state, "name")->text, numbers, (size_t)*count * sizeof *numbers))
        fail_msg("%s", kn_states_error(states));
    return numbers;
}

static void check_initial(const golden *file, kn_trainer *trainer, const kn_json *state) {
    int64_t count, i = 0;
    double sum = 0;
    char what[200];
    float *numbers = read_state(trainer, state, &count);
    const kn_json *samples = member(state, "initial_samples")->first;
    for (const kn_json *at = member(state, "sample_indices")->first; at; at = at->next, i++) {
        snprintf(what, sizeof what, "%s[%d] at the start", member(state, "name")->text, (int)at->number);
        near(file, what, numbers[(int64_t)at->number], samples->number, 0);
        samples = samples->next;
    }
    assert_true(i > 0);
    for (i = 0; i < count; i++)
        sum += numbers[i];
    snprintf(what, sizeof what, "the sum of %s at the start", member(state, "name")->text);
    near(file, what, sum, number_of(state, "initial_sum"), 1e-9);
    free(numbers);
}

static void check_final(const golden *file, kn_trainer *trainer, const kn_json *state) {
    int64_t count;
    double sum = 0, absolute = 0;
    char what[200];
    const char *name = member(state, "name")->text;
    const kn_json *distance = member(state, "float32_distance");
    float *numbers = read_state(trainer, state, &count);
    const kn_json *samples = member(state, "samples")->first;
    for (const kn_json *at = member(state, "sample_indices")->first; at; at = at->next) {
        snprintf(what, sizeof what, "%s[%d]", name, (int)at->number);
        near(file, what, numbers[(int64_t)at->number], samples->number,
             allowed_for(number_of(distance, "elements")));
        samples = samples->next;
    }
    for (int64_t i = 0; i < count; i++) {
        sum += numbers[i];
        absolute += fabs((double)numbers[i]);
    }
    double share = 1e-6 * number_of(state, "sum_absolute");
    snprintf(what, sizeof what, "the sum of %s", name);
    near(file, what, sum, number_of(state, "sum"), fmax(allowed_for(number_of(distance, "sum")), share));
    snprintf(what, sizeof what, "the sum of magnitudes of %s", name);
    near(file, what, absolute, number_of(state, "sum_absolute"),
         fmax(allowed_for(number_of(distance, "sum_absolute")), share));
    free(numbers);
}

static void check_states(const golden *file, kn_trainer *trainer,
                         void (*check)(const golden *, kn_trainer *, const kn_json *)) {
    for (const kn_json *state = member(file->root, "parameters")->first; state; state = state->next)
        check(file, trainer, state);
    for (const kn_json *state = member(file->root, "buffers")->first; state; state = state->next)
        check(file, trainer, state);
}

/* ---- the training ---------------------------------------------------------------------------- */

typedef struct feeds {
    float *x;
    int32_t *tokens, *labels;
    kn_feed list[2];
} feeds;

static void draw_batch(const golden *file, feeds *fed, int64_t step) {
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

static void check_first_batch(const golden *file, const feeds *fed) {
    int64_t i = 0;
    for (const kn_json *item = member(file->root, "first_inputs")->first; item; item = item->next, i++)
        near(file, "an element of the first batch", file->tokens ? fed->tokens[i] : fed->x[i], item->number,
             0);
    for (i = 0; i < file->batch * file->labels; i++)
        assert_int_equal(fed->labels[i], (int)item_of(member(file->root, "first_labels"), i));
}

static void good(const golden *file, kn_trainer *trainer, kn_status status) {
    if (status != KN_OK)
        fail_msg("%s: %s: %s", file->name, kn_status_name(status), kn_trainer_error(trainer));
}

static void train(const golden *file, kn_trainer *trainer, kn_value *loss_value, feeds *fed, void *user) {
    (void)user;
    char what[80];
    double allowed = allowed_for(number_of(file->root, "losses_float32_distance"));
    for (int64_t step = 0; step < file->steps; step++) {
        double loss = NAN, rate = item_of(member(file->root, "learning_rates"), step);
        draw_batch(file, fed, step);
        if (step == 0) {
            check_first_batch(file, fed);
            good(file, trainer, kn_trainer_compile(trainer, file->batch));
            check_states(file, trainer, check_initial);
        }
        snprintf(what, sizeof what, "the learning rate of step %d", (int)step);
        near(file, what, kn_trainer_learning_rate(trainer), rate, 1e-6 * rate);
        good(file, trainer, kn_trainer_step(trainer, file->batch, fed->list, 2, &loss));
        snprintf(what, sizeof what, "the loss of step %d", (int)step);
        near(file, what, loss, item_of(member(file->root, "losses"), step), allowed);
    }
    assert_int_equal(kn_trainer_steps(trainer), file->steps);
    check_states(file, trainer, check_final);
    const kn_json *averages = kn_json_member(file->root, "averages");
    for (const kn_json *state = averages ? averages->first : NULL; state; state = state->next)
        check_final(file, trainer, state);
    float loss = NAN;
    kn_fetch fetch = {kn_value_name(loss_value), &loss, sizeof loss};
    draw_batch(file, fed, file->steps);
    good(file, trainer, kn_trainer_evaluate(trainer, file->batch, fed->list, 2, &loss_value, &fetch, 1));
    double expected = number_of(file->root, "evaluation_loss");
    near(file, "the loss of the evaluation", loss, expected,
         allowed_for(fabs(number_of(file->root, "evaluation_loss_float32") - expected)));
}

/* Makes model, trainer and memory for the batches of a file, and hands them to `use`. */
static void with_trainer(golden *file, bool fast, kn_precision precision, void *user,
                         void (*use)(const golden *file, kn_trainer *trainer, kn_value *loss, feeds *fed,
                                     void *user)) {
    kn_model *model = make_model(file);
    kn_model_loss loss = KN_MODEL_LOSS_DEFAULTS;
    if (kn_model_add_loss(model, "cross-entropy", &loss)) fail_msg("%s", kn_model_error(model));
    kn_parameter_group groups[MAX_GROUPS];
    const kn_session_params session = {
        .size = sizeof session, .seed = file->seed, .fast_math = fast, .precision = precision};
    kn_trainer_params params = take_optimizer(file, &session, groups);
    kn_trainer *trainer = kn_trainer_create(context, loss.value, &params);
    good(file, trainer, kn_trainer_status(trainer));
    feeds fed = {.x = calloc((size_t)(file->batch * file->elements), sizeof(float)),
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

static void run(const char *name, bool fast) {
    golden file;
    golden_open(&file, name);
    with_trainer(&file, fast, KN_PRECISION_FLOAT32, NULL, train);
    golden_close(&file);
}

/* ---- stored in 16 bits: losses as near to float32 as in PyTorch --------------- */

typedef struct narrow_losses {
    const kn_json *plain, *band;
    double farthest; /* in bands */
} narrow_losses;

static kn_precision narrow_precision;
static int narrow_seeds;

/* Whether the plan stores something in 16 bits: float32 in disguise would be near as well. */
static void check_stored(const golden *file, kn_trainer *trainer, kn_precision precision) {
    char *text = kn_trainer_plan_text(trainer);
    char stored[32];
    snprintf(stored, sizeof stored, " %s (", kn_precision_name(precision));
    if (!text || !strstr(text, stored))
        fail_msg("%s: nothing is stored in %s", file->name, kn_precision_name(precision));
    kn_trainer_free_text(trainer, text);
}

/* The band is the largest distance of six runs in 16 bits so far; another rounding may be twice as far, or
 * some steps ahead. */
enum { STEPS_AHEAD = 10 };
static void train_narrow(const golden *file, kn_trainer *trainer, kn_value *loss_value, feeds *fed,
                         void *user) {
    narrow_losses *losses = user;
    (void)loss_value;
    for (int64_t step = 0; step < file->steps; step++) {
        double loss = NAN;
        draw_batch(file, fed, step);
        good(file, trainer, kn_trainer_step(trainer, file->batch, fed->list, 2, &loss));
        const int64_t ahead = step + STEPS_AHEAD < file->steps ? step + STEPS_AHEAD : file->steps - 1;
        const double plain = item_of(losses->plain, step), band = item_of(losses->band, ahead);
        const double apart = fabs(loss - plain) / (band + 1e-5);
        if (!(apart <= 2.5))
            fail_msg("%s, seed %d, the loss of step %d: %.6g; PyTorch has %.6g in float32, and is up "
                     "to %.2g apart with 16 bits",
                     file->name, (int)file->seed, (int)step, loss, plain, band);
        losses->farthest = fmax(losses->farthest, apart);
    }
    check_stored(file, trainer, narrow_precision);
}

static void run_narrow(void **state) {
    const kn_json *wanted = *state;
    char band[64];
    golden file;
    snprintf(band, sizeof band, "band_%s_float32", kn_precision_name(narrow_precision));
    narrow_losses losses = {.band = member(wanted, band)};
    const kn_json *seed = member(wanted, "seeds")->first;
    losses.plain = member(wanted, "losses_float32")->first;
    for (int i = 0; i < narrow_seeds; i++, seed = seed->next, losses.plain = losses.plain->next) {
        assert_true(seed && losses.plain);
        golden_open(&file, member(wanted, "name")->text);
        file.seed = (uint64_t)seed->number;
        file.steps = 0;
        for (const kn_json *loss = losses.plain->first; loss; loss = loss->next)
            file.steps++;
        with_trainer(&file, true, narrow_precision, &losses, train_narrow);
        golden_close(&file);
    }
    print_message("%s: at most %.2f times as far from float32 as PyTorch\n", member(wanted, "name")->text,
                  losses.farthest);
}

/* ---- the cases ------------------------------------------------------------------------------- */

typedef struct trajectory {
    const char *test, *name;
    bool fast, often; /* often: on every OpenCL implementation */
} trajectory;

static void run_trajectory(void **state) {
    const trajectory *wanted = *state;
    test_amount amount = test_cases_wanted();
    if (amount == TEST_SMALLEST) skip_because(TOO_LONG_FOR_A_SIMULATOR);
    if (amount == TEST_ONE && !wanted->often) skip_because(FIRST_IMPLEMENTATION_ONLY);
    run(wanted->name, wanted->fast);
}

static int kind; /* of kn_context_params */

static int open_device(void **state) {
    kn_context_params params = device_params();
    (void)state;
    params.kind = kind;
    context = device_open(&params);
    return 0;
}

static int close_device(void **state) {
    (void)state;
    device_close(&context);
    return 0;
}

/* "TYPE wide|threads SEEDS" */
static int run_all_narrow(char **words) {
    struct CMUnitTest tests[16];
    size_t count = 0;
    golden file;
    kind = !strcmp(words[1], "threads") ? 2 : 1;
    narrow_seeds = atoi(words[2]);
    read_root(&file, "precision");
    for (const kn_json *item = member(file.root, "cases")->first; item; item = item->next) {
        assert_true(count < KN_COUNT_OF(tests));
        tests[count++] = (struct CMUnitTest){.name = member(item, "name")->text,
                                             .test_func = run_narrow,
                                             .initial_state = (void *)(uintptr_t)item};
    }
    const int failed = _cmocka_run_group_tests("precision", tests, count, open_device, close_device);
    golden_close(&file);
    return failed != 0;
}

int main(int argc, char **argv) {
    static trajectory all[] = {
        {"mlp, SGD", "mlp_sgd", false, true},
        {"mlp, Adam", "mlp_adam", false, false},
        {"mlp, Nesterov", "mlp_nesterov", false, false},
        {"mlp, AdamW, warm-up, cosine, clipping", "mlp_adamw", false, true},
        {"mlp, SGD with decay, steps, clipping", "mlp_sgd_decay", false, false},
        {"lenet, SGD", "lenet_sgd", false, true},
        {"lenet, Adam", "lenet_adam", false, false},
        {"batch norm, SGD", "cnn_bn_sgd", false, true},
        {"lstm, SGD", "lstm_sgd", false, true},
        {"char-gru, SGD", "char-gru_sgd", false, false},
        {"elman, SGD", "elman_sgd", false, true},
        {"states that go on, SGD", "stateful_sgd", false, false},
        {"gpt, AdamW", "gpt_adamw", false, true},
        {"unet, SGD", "unet_sgd", false, true},
        {"squeezenet, SGD", "squeezenet_sgd", false, false},
        {"vit-tiny, SGD", "vit-tiny_sgd", false, true},
        {"alexnet, SGD", "alexnet_sgd", false, false},
        {"alexnet2012, SGD", "alexnet2012_sgd", false, false},
        {"resnet18c, SGD", "resnet18c_sgd", false, false},
        {"resnet50, SGD", "resnet50_sgd", false, false},
        {"vgg11c, SGD", "vgg11c_sgd", false, false},
        {"mobilenetv2, SGD", "mobilenetv2_sgd", false, false},
        {"small, SGD dampened", "small_dampened", false, false},
        {"small, AMSGrad", "small_amsgrad", false, false},
        {"small, RMSprop", "small_rmsprop", false, false},
        {"small, RMSprop centred, momentum", "small_rmsprop_centered", false, false},
        {"small, Adagrad", "small_adagrad", false, false},
        {"small, Adadelta", "small_adadelta", false, false},
        {"small, LAMB", "small_lamb", false, true},
        {"small, Lion", "small_lion", false, false},
        {"small, clipped values", "small_clip_value", false, false},
        {"small, groups, AdamW", "small_groups", false, false},
        {"small, groups, SGD", "small_groups_sgd", false, false},
        {"small, accumulated and averaged", "small_accumulated", false, true},
        {"small, LAMB, fast", "small_lamb", true, false},
        {"mlp, SGD, fast", "mlp_sgd", true, false},
        {"mlp, Adam, fast", "mlp_adam", true, false},
        {"lenet, SGD, fast", "lenet_sgd", true, false},
        {"lenet, Adam, fast", "lenet_adam", true, false},
        {"batch norm, SGD, fast", "cnn_bn_sgd", true, false},
        {"lstm, SGD, fast", "lstm_sgd", true, false},
        {"gpt, AdamW, fast", "gpt_adamw", true, false},
    };
    struct CMUnitTest tests[KN_COUNT_OF(all)];
    size_t count = 0;
    if (argc != 2 && argc != 3 && argc != 5) return 1;
    folder = argv[1];
    if (!device_is_there()) return 77;
    if (argc == 5) return kn_precision_parse(argv[2], &narrow_precision) ? run_all_narrow(argv + 2) : 1;
    for (size_t i = 0; i < KN_COUNT_OF(all); i++)
        if (argc == 2 || !strcmp(argv[2], all[i].name))
            tests[count++] = (struct CMUnitTest){
                .name = all[i].test, .test_func = run_trajectory, .initial_state = &all[i]};
    return _cmocka_run_group_tests("trajectories", tests, count, open_device, close_device) != 0;
}
