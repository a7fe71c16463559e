/* Training trajectories compared with PyTorch's: the files of tests/golden, described in
 * tools/golden/README.md.
 *     test-golden FOLDER [NAME]
 *     test-golden FOLDER FILE TYPE wide|threads|UNIT SEEDS [NAME]
 * NAME: only the trajectories of that file. Some run twice: with exact algorithms, and with those of
 * fast_math. FILE: its trajectories, stored in TYPE, float16 or bfloat16, on that set of kernels, or with
 * many threads and that matrix unit, such as emulated-mma; begun with so many seeds. */
#include "golden_files.h"
#include "run/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *folder;
static kn_context *context;
static int kind;         /* of kn_context_params */
static const char *unit; /* and its matrix_unit */

static void run(const char *name, bool fast) {
    golden file;
    golden_open(&file, folder, name);
    golden_with_trainer(&file, &(golden_setup){.context = context, .fast = fast}, NULL, golden_train);
    golden_close(&file);
}

/* ---- stored in 16 bits: as near to float32, and at first to double precision, as PyTorch --------- */

typedef struct narrow_losses {
    const kn_json *plain, *band, *first;
    double farthest; /* in bands */
    double gradient; /* the first one's distance from double precision, by that of PyTorch's */
    double stored;   /* the fraction of elements in 16 bits */
} narrow_losses;

static kn_precision narrow_precision;
static int narrow_seeds;

/* The elements of a step's result, such as "float16 (8,16) plain". */
static double elements_of(const char *shape) {
    const char *at = strchr(shape, '(');
    double elements = 1;
    while (at && *++at && *at != ')') {
        char *end;
        elements *= (double)strtoll(at, &end, 10);
        at = end;
        if (*at != ',') break;
    }
    return elements;
}

/* How many of all elements that steps write have 16 bits: float32 in disguise would be near as well. */
static double check_stored(const golden *file, kn_trainer *trainer) {
    const char *type = kn_precision_name(narrow_precision);
    double all = 0, narrow = 0;
    kn_plan_step step = KN_PLAN_STEP_DEFAULTS;
    for (int i = 0; kn_trainer_plan_step_at(trainer, i, &step) == KN_OK; i++) {
        const double elements = step.shape[0] ? elements_of(step.shape) : 0;
        all += elements;
        if (!strncmp(step.shape, type, strlen(type))) narrow += elements;
        if (unit && strstr(step.kernel, "recurrent/tiled.cl"))
            fail_msg("%s: %s is not by the matrix unit", file->name, step.label);
    }
    /* Wide kernels of convolutions store float32. */
    if (!(narrow > (kind == 2 ? 0.02 * all : 0)))
        fail_msg("%s: %g of %g elements are stored in %s", file->name, narrow, all, type);
    return narrow / all;
}

/* Where the optimizer keeps the first gradient, and its part there. */
static const char *first_moment(const golden *file, double *part) {
    const kn_json *beta = kn_json_member(file->optimizer, "beta1");
    *part = beta ? 1 - beta->number : 1;
    return beta ? "moment1" : "momentum";
}

/* The error of a parameter's gradient at the samples of the file, relative to its RMS. */
static double gradient_distance(const golden *file, kn_trainer *trainer, const kn_json *gradient) {
    char state[200];
    double part, sum = 0;
    int count = 0;
    kn_tensor_info info;
    uint64_t bytes = 0;
    const char *moment = first_moment(file, &part);
    snprintf(state, sizeof state, "%s.%s", golden_member(gradient, "name")->text, moment);
    kn_states *states = kn_trainer_states(trainer);
    if (!kn_states_info(states, state, &info) || !kn_tensor_bytes(&info, &bytes))
        fail_msg("%s: there is no state '%s'", file->name, state);
    float *numbers = malloc((size_t)bytes);
    assert_non_null(numbers);
    assert_int_equal(kn_states_get(states, state, numbers, (size_t)bytes), KN_OK);
    const kn_json *sample = golden_member(gradient, "samples")->first;
    for (const kn_json *at = golden_member(gradient, "sample_indices")->first; at; at = at->next, count++) {
        const double apart = numbers[(int64_t)at->number] / part - sample->number;
        sum += apart * apart;
        sample = sample->next;
    }
    free(numbers);
    return sqrt(sum / count) / golden_member(gradient, "rms")->number;
}

/* The first step next to double precision: the loss within the rounding of 16 bits, and gradients about as
 * near as PyTorch's, but not nearer than rounding allows. Rounding decides which way each relu near 0 goes,
 * so that few elements can make most of the distance. */
static void check_first(const golden *file, kn_trainer *trainer, double loss, narrow_losses *losses) {
    char distance[64];
    snprintf(distance, sizeof distance, "gradient_distance_%s_float32", kn_precision_name(narrow_precision));
    const kn_json *first = losses->first;
    const double exact = golden_member(first, "loss")->number, band = golden_member(first, distance)->number,
                 rounding = narrow_precision == KN_PRECISION_FLOAT16 ? 0x1p-11 : 0x1p-8;
    double sum = 0;
    int count = 0;
    for (const kn_json *one = golden_member(first, "gradients")->first; one; one = one->next, count++)
        sum += gradient_distance(file, trainer, one);
    losses->gradient = sum / count / band;
    if (!(fabs(loss - exact) <= rounding * exact && losses->gradient <= 4 && losses->gradient >= 0.01))
        fail_msg("%s: the first loss is %.6g, exactly %.6g; the gradients are %.2f times as far from double "
                 "precision as PyTorch's",
                 file->name, loss, exact, losses->gradient);
}

/* The band is the running maximum of the distance over six 16-bit runs. Different rounding may double the
 * distance, or reach it some steps earlier. */
enum { STEPS_AHEAD = 10 };
static void train_narrow(const golden *file, kn_trainer *trainer, kn_value *loss_value, golden_feeds *fed,
                         void *user) {
    narrow_losses *losses = user;
    golden_good(file, trainer, kn_trainer_status(trainer));
    for (int64_t step = 0; step < file->steps; step++) {
        double loss = NAN;
        golden_draw(file, fed, step);
        golden_good(file, trainer, kn_trainer_step(trainer, file->batch, fed->list, 2, &loss));
        const int64_t ahead = step + STEPS_AHEAD < file->steps ? step + STEPS_AHEAD : file->steps - 1;
        const double plain = golden_item(losses->plain, step), band = golden_item(losses->band, ahead);
        const double apart = fabs(loss - plain) / (band + 1e-5);
        if (!(apart <= 2.5))
            fail_msg("%s, seed %d, the loss of step %d: %.6g; PyTorch has %.6g in float32, and is up "
                     "to %.2g apart with 16 bits",
                     file->name, (int)file->seed, (int)step, loss, plain, band);
        losses->farthest = fmax(losses->farthest, apart);
        if (step == 0 && losses->first) check_first(file, trainer, loss, losses);
    }
    losses->stored = check_stored(file, trainer);
}

static void run_narrow(void **state) {
    const kn_json *wanted = *state;
    char band[64];
    golden file;
    snprintf(band, sizeof band, "band_%s_float32", kn_precision_name(narrow_precision));
    narrow_losses losses = {.band = golden_member(wanted, band)};
    const kn_json *seed = golden_member(wanted, "seeds")->first;
    losses.plain = golden_member(wanted, "losses_float32")->first;
    for (int i = 0; i < narrow_seeds; i++, seed = seed->next, losses.plain = losses.plain->next) {
        assert_true(seed && losses.plain);
        golden_open(&file, folder, golden_member(wanted, "name")->text);
        file.seed = (uint64_t)seed->number;
        file.steps = 0;
        for (const kn_json *loss = losses.plain->first; loss; loss = loss->next)
            file.steps++;
        const golden_setup how = {.context = context, .fast = true, .precision = narrow_precision};
        /* The file has the first step of its first seed, or none. */
        losses.first = i ? NULL : kn_json_member(wanted, "first");
        golden_with_trainer(&file, &how, &losses, train_narrow);
        golden_close(&file);
    }
    print_message(
        "%s: at most %.2f times as far from float32 as PyTorch; %.0f %% of the elements have 16 bits\n",
        golden_member(wanted, "name")->text, losses.farthest, 100 * losses.stored);
    if (losses.gradient > 0)
        print_message("gradients of the first step are %.2f times as far from double precision\n",
                      losses.gradient);
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

static int open_device(void **state) {
    kn_context_params params = device_params();
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    params.debug = &debug;
    debug.kernels = kind;
    params.matrix_unit = unit;
    context = device_open(&params);
    return 0;
}

static int close_device(void **state) {
    device_close(&context);
    return 0;
}

/* "FILE TYPE wide|threads|UNIT SEEDS [NAME]" */
static int run_all_narrow(char **words) {
    struct CMUnitTest tests[16];
    size_t count = 0;
    golden file;
    if (!kn_precision_parse(words[1], &narrow_precision)) return 1;
    kind = !strcmp(words[2], "wide") ? 1 : 2;
    unit = !strcmp(words[2], "wide") || !strcmp(words[2], "threads") ? NULL : words[2];
    kn_process_enable_amx(); /* a processor's matrix unit, if it has one */
    narrow_seeds = atoi(words[3]);
    if (words[4]) cmocka_set_test_filter(words[4]);
    golden_read(&file, folder, words[0]);
    for (const kn_json *item = golden_member(file.root, "cases")->first; item; item = item->next) {
        assert_true(count < KN_COUNT_OF(tests));
        tests[count++] = (struct CMUnitTest){.name = golden_member(item, "name")->text,
                                             .test_func = run_narrow,
                                             .initial_state = (void *)(uintptr_t)item};
    }
    const int failed = _cmocka_run_group_tests(words[0], tests, count, open_device, close_device);
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
    if (argc != 2 && argc != 3 && argc != 6 && argc != 7) return 1;
    folder = argv[1];
    if (!device_is_there()) return 77;
    if (argc >= 6) return run_all_narrow(argv + 2);
    for (size_t i = 0; i < KN_COUNT_OF(all); i++)
        if (argc == 2 || !strcmp(argv[2], all[i].name))
            tests[count++] = (struct CMUnitTest){
                .name = all[i].test, .test_func = run_trajectory, .initial_state = &all[i]};
    return _cmocka_run_group_tests("trajectories", tests, count, open_device, close_device) != 0;
}
