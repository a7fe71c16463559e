/* koine train: trains a model on a data set and saves it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "training.h"

typedef struct train_options {
    common_options common;
    const char *data, *optimizer, *schedule, *loss, *init, *log, *save, *resume, *math;
    uint64_t epochs, steps, batch, seed, patience, warmup, step_every;
    double seconds, validation, rate, momentum, decay, clip, step_factor;
    bool nesterov, no_shuffle, drop_last, find_nan;
} train_options;

typedef struct train_run {
    const train_options *options;
    FILE *log;
    uint64_t epochs;
    double last_time;
} train_run;

/* ---- what is reported on the way ------------------------------------------------------------- */

static void log_step(FILE *log, const kn_fit_step *step) {
    fprintf(log, "{\"step\": %llu, \"epoch\": %llu, \"loss\": ", (unsigned long long)step->step,
            (unsigned long long)step->epoch);
    json_number(log, step->loss);
    fputs(", \"lr\": ", log);
    json_number(log, step->rate);
    fputs(", \"samples_per_s\": ", log);
    json_number(log, step->samples_per_s);
    fputs("}\n", log);
}

static bool on_step(void *user, const kn_fit_step *step) {
    train_run *run = user;
    char bar[24], left[32];
    if (run->log) log_step(run->log, step);
    double share = step->batches ? (double)step->batch / (double)step->batches : 0;
    double rest = step->samples_per_s > 0
                      ? (double)(step->batches - step->batch) * (double)step->samples / step->samples_per_s
                      : 0;
    progress_line("epoch %llu %s loss %.4f  %.0f samples/s  %s left", (unsigned long long)step->epoch,
                  progress_bar(share, bar, sizeof bar), step->loss, step->samples_per_s,
                  time_text(rest, left, sizeof left));
    return !interrupted();
}

static bool on_epoch(void *user, const kn_fit_epoch *epoch) {
    train_run *run = user;
    char time[32];
    if (run->options->common.quiet || run->options->common.json) return !interrupted();
    progress_clear();
    fprintf(stderr, "epoch %llu  loss %.4f", (unsigned long long)epoch->epoch, epoch->loss);
    if (epoch->validation.samples) fprintf(stderr, "  validation loss %.4f", epoch->validation.loss);
    if (epoch->validation.samples && isfinite(epoch->validation.accuracy))
        fprintf(stderr, "  accuracy %.2f%%", 100 * epoch->validation.accuracy);
    fprintf(stderr, "  %s\n", time_text(epoch->seconds, time, sizeof time));
    return !interrupted();
}

/* The last object of the log, and what --json prints. */
static void print_end(FILE *stream, const kn_fit_result *result) {
    bool judged = result->validation.samples > 0;
    fprintf(stream, "{\"event\": \"end\", \"step\": %llu, \"loss\": ", (unsigned long long)result->step);
    json_number(stream, result->loss);
    fputs(", \"validation_loss\": ", stream);
    json_number(stream, judged ? result->validation.loss : NAN);
    fputs(", \"accuracy\": ", stream);
    json_number(stream, judged ? result->validation.accuracy : NAN);
    fputs("}\n", stream);
}

/* ---- parameters -------------------------------------------------------------------------------- */

static int choose(const char *what, const char *word, const char *const *words, int count, int *position) {
    for (int i = 0; i < count; i++)
        if (!strcmp(word, words[i])) {
            *position = i;
            return EXIT_DONE;
        }
    char list[160] = "";
    for (int i = 0; i < count; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", words[i]);
    return command_misuse("--%s is '%s'; expected one of %s", what, word, list);
}

static int trainer_params_from(const train_options *options, uint64_t total_steps,
                               kn_trainer_params *params) {
    static const char *const optimizers[] = {"sgd", "adam", "adamw"};
    static const char *const schedules[] = {"constant", "step", "cosine"};
    static const char *const maths[] = {"exact", "fast"};
    int optimizer = 0, schedule = 0, math = 0, status;
    /* Where the end is known the rate falls towards it. */
    const char *word = options->schedule ? options->schedule : total_steps ? "cosine" : "constant";
    kn_trainer_params_init(params);
    if ((status = choose("optimizer", options->optimizer, optimizers, 3, &optimizer)) ||
        (status = choose("schedule", word, schedules, 3, &schedule)) ||
        (status = choose("math", options->math, maths, 2, &math)))
        return status;
    params->optimizer = (kn_optimizer)optimizer;
    params->learning_rate = options->rate > 0 ? options->rate : optimizer == KN_SGD ? 0.01 : 0.001;
    params->momentum = options->momentum;
    params->nesterov = options->nesterov;
    params->weight_decay = options->decay;
    params->clip_norm = options->clip;
    params->schedule = (kn_schedule)schedule;
    params->warmup_steps = options->warmup;
    params->total_steps = total_steps;
    params->step_every = options->step_every;
    params->step_factor = options->step_factor;
    params->seed = options->seed;
    params->fast_math = math == 1;
    params->skip_not_finite = options->find_nan;
    params->progress.report = options->common.quiet ? NULL : progress_compile;
    return EXIT_DONE;
}

static uint64_t steps_of(const train_options *options, uint64_t samples) {
    uint64_t batches =
        options->drop_last ? samples / options->batch : (samples + options->batch - 1) / options->batch;
    uint64_t steps = options->epochs * batches;
    if (options->steps && (!steps || options->steps < steps)) steps = options->steps;
    return steps;
}

/* ---- files ----------------------------------------------------------------------------------------- */

static const char *save_path(const train_options *options, const training_setup *setup) {
    static char path[512];
    if (options->save) return options->save;
    snprintf(path, sizeof path, "%s.safetensors", kn_model_name(setup->model));
    return path;
}

static bool load(training_setup *setup, kn_trainer *trainer, const train_options *options) {
    const char *path = options->resume ? options->resume : options->init;
    bool own = !path && kn_model_has_weights(setup->model);
    if (!path && !own) return true;
    kn_model_load_params params;
    kn_model_load_params_init(&params);
    params.training = options->resume != NULL;
    params.incomplete = options->init != NULL && !options->resume;
    int loaded = 0;
    if (kn_model_load(setup->model, path, kn_trainer_states(trainer), &params, &loaded) != KN_OK) {
        command_fail("%s", kn_model_error(setup->model));
        return false;
    }
    if (options->init && !options->resume && loaded == 0) {
        command_fail("nothing in '%s' has the name and the shape of a parameter of '%s'", path,
                     kn_model_name(setup->model));
        return false;
    }
    if (!options->resume) return true;
    uint32_t steps = 0;
    if (kn_states_get(kn_trainer_states(trainer), "koine.step", &steps, sizeof steps) != KN_OK) {
        command_fail(
            "'%s' does not hold a training that could be continued: it was saved without its optimizer",
            path);
        return false;
    }
    kn_trainer_set_steps(trainer, steps);
    return true;
}

static bool save(training_setup *setup, kn_trainer *trainer, const char *path) {
    kn_model_save_params params;
    kn_model_save_params_init(&params);
    params.training = true;
    if (kn_model_save(setup->model, path, kn_trainer_states(trainer), &params) == KN_OK) return true;
    command_fail("%s", kn_model_error(setup->model));
    return false;
}

/* ---- the run ---------------------------------------------------------------------------------------------
 */

static void report_end(const train_options *options, const kn_fit_result *result, const char *path) {
    if (options->common.json) {
        print_end(stdout, result);
        return;
    }
    if (options->common.quiet) return;
    static const char *const ends[] = {"done", "stopped: the validation loss no longer falls",
                                       "stopped as asked", "failed"};
    printf("%s after %llu steps: loss %.4f", ends[result->end], (unsigned long long)result->step,
           result->loss);
    if (result->validation.samples) printf(", validation loss %.4f", result->validation.loss);
    if (result->validation.samples && isfinite(result->validation.accuracy))
        printf(", accuracy %.2f%%", 100 * result->validation.accuracy);
    printf(", %.0f samples/s\nsaved in %s\n", result->samples_per_s, path);
}

static int fit(const train_options *options, training_setup *setup, kn_trainer *trainer, kn_session *judge,
               FILE *log) {
    train_run run = {.options = options, .log = log, .epochs = options->epochs};
    kn_fit_params params;
    kn_fit_result result = {.size = sizeof result};
    kn_fit_params_init(&params);
    params.epochs = options->epochs;
    params.steps = options->steps;
    params.seconds = options->seconds;
    params.batch = options->batch;
    params.drop_last = options->drop_last;
    params.no_shuffle = options->no_shuffle;
    params.seed = options->seed;
    params.patience = options->patience;
    params.validation = setup->validation;
    params.judge = judge;
    params.loss = setup->loss_name;
    params.accuracy = setup->accuracy_name;
    params.find_not_finite = options->find_nan;
    params.user = &run;
    params.on_step = on_step;
    params.on_epoch = on_epoch;
    const char *path = save_path(options, setup);
    kn_status status = kn_fit(trainer, setup->train ? setup->train : setup->all, &params, &result);
    progress_clear();
    if (status != KN_OK) {
        if (log) print_end(log, &result);
        if (status == KN_ERROR_NOT_FINITE && !options->find_nan)
            return command_fail(
                "%s; nothing was saved. --find-nan names the operator where it begins; a lower --lr or "
                "--clip 1 often helps",
                result.message);
        return command_fail("%s", result.message);
    }
    if (log) print_end(log, &result);
    if (!save(setup, trainer, path)) return EXIT_FAILED;
    report_end(options, &result, path);
    if (result.end == KN_FIT_STOPPED)
        fprintf(stderr, "koine: interrupted; to go on, repeat the command with --resume %s\n", path);
    return EXIT_DONE;
}

static int train(const train_options *options, const char *model) {
    training_setup setup = {.model = NULL};
    kn_context *context = NULL;
    kn_trainer *trainer = NULL;
    kn_session *judge = NULL;
    FILE *log = NULL;
    kn_trainer_params params;
    int status = EXIT_FAILED;
    if (!setup_model(&setup, model, options->loss)) goto done;
    if (!setup_data(&setup, options->data, options->validation, options->seed)) goto done;
    uint64_t samples = kn_dataset_count(setup.train ? setup.train : setup.all);
    status = trainer_params_from(options, steps_of(options, samples), &params);
    if (status != EXIT_DONE) goto done;
    status = EXIT_FAILED;
    if (options->log && !(log = fopen(options->log, "w"))) {
        command_fail("the log '%s' could not be opened for writing", options->log);
        goto done;
    }
    context = context_open(&options->common);
    if (!context) goto done;
    trainer = kn_trainer_create(context, setup.loss.value, &params);
    if (kn_trainer_status(trainer) != KN_OK) {
        command_fail("%s", trainer ? kn_trainer_error(trainer) : "out of memory");
        goto done;
    }
    if (!options->common.quiet && !options->common.json)
        fprintf(stderr, "training %s (%llu parameters) on %s: %llu samples, %s\n", kn_model_name(setup.model),
                (unsigned long long)kn_model_parameter_elements(setup.model), options->data,
                (unsigned long long)samples, kn_context_device(context)->name);
    if (kn_trainer_compile(trainer, (int64_t)(options->batch < samples ? options->batch : samples)) !=
        KN_OK) {
        command_fail("%s", kn_trainer_error(trainer));
        goto done;
    }
    if (!load(&setup, trainer, options)) goto done;
    if (setup.validation &&
        !(judge = setup_judge(&setup, context, kn_trainer_states(trainer), !params.fast_math)))
        goto done;
    interrupts_watch();
    status = fit(options, &setup, trainer, judge, log);
done:
    if (log && (ferror(log) || fclose(log)) && status == EXIT_DONE)
        status = command_fail("the log '%s' could not be written", options->log);
    kn_session_destroy(&judge);
    kn_trainer_destroy(&trainer);
    setup_finish(&setup);
    kn_context_destroy(&context);
    return status;
}

static int run(int count, char **arguments) {
    train_options own = {.data = NULL,
                         .optimizer = "adam",
                         .math = "fast",
                         .batch = 64,
                         .momentum = 0.9,
                         .step_factor = 0.1,
                         .seed = 1};
    const option options[] = {
        {"data", OPTION_TEXT, "DATA", "what to train on: digits, idx:DIR, npy:X.npy,Y.npy", &own.data},
        {"epochs", OPTION_COUNT, "N", "passes over the data (10, unless --steps or --seconds is given)",
         &own.epochs},
        {"steps", OPTION_COUNT, "N", "stop after so many updates", &own.steps},
        {"seconds", OPTION_NUMBER, "S", "stop after so much time", &own.seconds},
        {"batch", OPTION_COUNT, "N", "samples in one update (64)", &own.batch},
        {"validation", OPTION_NUMBER, "F",
         "set aside this share of the data to judge by (else its own test part)", &own.validation},
        {"optimizer", OPTION_TEXT, "NAME", "sgd, adam or adamw (adam)", &own.optimizer},
        {"lr", OPTION_NUMBER, "RATE", "learning rate (0.001; 0.01 for sgd)", &own.rate},
        {"momentum", OPTION_NUMBER, "M", "of sgd (0.9)", &own.momentum},
        {"nesterov", OPTION_FLAG, NULL, "look ahead along the momentum", &own.nesterov},
        {"weight-decay", OPTION_NUMBER, "W", "pull weights towards 0 (0)", &own.decay},
        {"schedule", OPTION_TEXT, "NAME", "of the learning rate: constant, step or cosine (cosine, if the end is known)",
         &own.schedule},
        {"warmup", OPTION_COUNT, "N", "steps over which the rate rises to its full height (0)", &own.warmup},
        {"step-every", OPTION_COUNT, "N", "with --schedule step: steps between two falls", &own.step_every},
        {"step-factor", OPTION_NUMBER, "F", "with --schedule step: what each fall multiplies by (0.1)",
         &own.step_factor},
        {"clip", OPTION_NUMBER, "NORM", "scale gradients whose common norm is larger down to it", &own.clip},
        {"seed", OPTION_COUNT, "N", "of weights, order and dropout: the same seed gives the same bits (1)",
         &own.seed},
        {"loss", OPTION_TEXT, "NAME", "cross-entropy, mse, binary-cross-entropy or huber (the model's own)",
         &own.loss},
        {"no-shuffle", OPTION_FLAG, NULL, "take the samples in their own order", &own.no_shuffle},
        {"drop-last", OPTION_FLAG, NULL, "leave out a last batch that is not full", &own.drop_last},
        {"patience", OPTION_COUNT, "N", "stop after N epochs without a lower validation loss", &own.patience},
        {"init", OPTION_TEXT, "FILE", "begin with what fits of a saved model's weights", &own.init},
        {"resume", OPTION_TEXT, "FILE", "go on with a saved training, bit by bit", &own.resume},
        {"save", OPTION_TEXT, "FILE", "where the model goes (MODEL.safetensors)", &own.save},
        {"log", OPTION_TEXT, "FILE", "write a JSON object per step, and one at the end", &own.log},
        {"find-nan", OPTION_FLAG, NULL, "when a loss is not finite, name the first operator that made it so",
         &own.find_nan},
        {"math", OPTION_TEXT, "MODE", "exact, or fast: algorithms with a slightly larger error (fast)",
         &own.math},
        COMMON_OPTIONS(own.common),
        {.name = NULL}};
    const char *words[1];
    int word_count, status;
    if (!options_read(&command_train, options, count, arguments, words, &word_count, 1, &status))
        return status;
    if (!word_count)
        return command_misuse("train needs a model: a name such as lenet, a text model, or a saved file");
    if (!own.data) return command_misuse("train needs --data, such as --data digits");
    if (!own.batch) return command_misuse("--batch is 0; expected at least 1");
    if (own.validation < 0 || own.validation >= 1)
        return command_misuse("--validation is a share: expected 0 <= F < 1");
    if (own.rate < 0 || own.decay < 0 || own.clip < 0 || own.seconds < 0)
        return command_misuse("--lr, --weight-decay, --clip and --seconds cannot be below 0");
    if (own.resume && own.init)
        return command_misuse("--resume already brings the weights: leave --init out");
    if (!own.epochs && !own.steps && !(own.seconds > 0)) own.epochs = 10;
    return train(&own, words[0]);
}

const command command_train = {
    "train", "train a model on a data set and save it", "MODEL --data DATA [--OPTION …]",
    "MODEL is a name (koine models lists them), the path of a text model, or a saved file whose training "
    "goes on from its\n"
    "weights. The model is saved with its text and weights as safetensors. Progress goes to the standard "
    "error.\n"
    "Ctrl-C finishes the step, saves, and says how to go on.\n"
    "\n"
    "  koine train lenet --data digits --epochs 2\n"
    "  koine train my.koine --data npy:x.npy,y.npy --optimizer adam --lr 0.001 --validation 0.1 --patience 5",
    run};
