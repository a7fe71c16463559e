/* koine train: trains a model on a dataset and saves it. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "auto.h"
#include "train.h"

/* The default window with --lora. */
enum { LORA_LENGTH = 512 };

typedef struct train_run {
    train_options *options;
    training_setup setup;
    train_learner learner;
    train_workers *workers; /* NULL: there is one */
    train_world world;
    train_watch watch;
    kn_context *context;
    FILE *log;
    train_report report;
    train_checkpoints checkpoints;
    train_events events;
    train_page *page; /* NULL: no report was requested */
    double traced;    /* end of the last traced interval, by kn_context_clock */
    float loss_scale; /* the last reported step; 0: none yet */
} train_run;

/* ---- opening ------------------------------------------------------------------------------------- */

/* Report missing files before compiling, which takes a while. */
static bool file_there(const char *path) {
    if (!path || access(path, R_OK) == 0) return true;
    return command_error("'%s' cannot be read: %s", path, strerror(errno));
}

/* --check writes no files. */
static bool outputs_free(train_options *options, const training_setup *setup) {
    const char *log = options->outputs.log, *report = options->outputs.report,
               *trace = options->outputs.trace;
    train_mark(options, setup);
    if (options->check || options->crew.follows) return true;
    if (!train_choose_path(options, setup)) return false;
    const output_file outputs[] = {
        {"the model", options->outputs.path}, {"--log", log}, {"--report", report}, {"--trace", trace}};
    return outputs_apart(outputs, 4) == EXIT_DONE &&
           (!log || path_writable(log, PATH_STREAM, options->common.overwrite || options->goes_on)) &&
           (!report || path_writable(report, PATH_WHOLE, train_replaces(options, report))) &&
           (!trace || path_writable(trace, PATH_STREAM, train_replaces(options, trace))) &&
           (!options->outputs.tensorboard || folder_writable(options->outputs.tensorboard));
}

/* Applies --validation 0 and --validate-samples. */
static bool limit_validation(train_run *run) {
    const train_options *options = run->options;
    kn_dataset **whole = &run->setup.validation, *rest = NULL, *some = NULL;
    if (options->unvalidated) kn_dataset_destroy(whole);
    if (options->validate_samples == UINT64_MAX) return true;
    if (!*whole)
        return command_error(
            "--validate-samples needs validation data, but '%s' has no test part: set some aside with "
            "--validation 0.1",
            options->data);
    const uint64_t count = kn_dataset_count(*whole);
    if (options->validate_samples >= count) return true;
    const double share = (double)options->validate_samples / (double)count;
    const bool fine = kn_dataset_split(*whole, share, options->seed, &rest, &some) == KN_OK;
    if (!fine) command_fail("--validate-samples: %s", kn_dataset_error(some));
    kn_dataset_destroy(&rest);
    kn_dataset_destroy(fine ? whole : &some);
    if (fine) *whole = some;
    return fine;
}

/* Opens the model, with fewer positions than its own by default if it gets adapters. */
static bool open_model(train_run *run, const char *model) {
    train_options *options = run->options;
    training_setup *setup = &run->setup;
    int64_t window = 0;
    if (options->length)
        setup->settings[setup->setting_count++] = (kn_model_setting){"window", (int64_t)options->length};
    if (!setup_settings(setup, options->set) || !setup_model(setup, model, options->loss)) return false;
    const bool given = options->length || (options->set && strstr(options->set, "window="));
    if (!options->adapter.given || !setup->tokenizer || given ||
        !kn_model_setting_value(setup->model, "window", &window) || window <= LORA_LENGTH)
        return true;
    setup->settings[setup->setting_count++] = (kn_model_setting){"window", LORA_LENGTH};
    return setup_model(setup, model, options->loss);
}

static bool open_data(train_run *run, const char *model) {
    train_options *options = run->options;
    training_setup *setup = &run->setup;
    setup->frozen_statistics = !strcmp(options->batch_norm, bn_words[BN_FROZEN]);
    setup->changes = !options->check; /* train one batch without augmentation */
    setup->augment = options->augment;
    setup->data = options->data;
    setup->lora = options->adapter.given ? &options->adapter.params : NULL;
    setup->all_tokens = options->loss_on && !strcmp(options->loss_on, "all");
    setup->skip_bad = options->skip_bad;
    setup->cache = options->cache;
    if (!open_model(run, model) || !setup_batch_fits(setup, options->batch)) return false;
    if (!file_there(options->init) || !file_there(options->resume) || !outputs_free(options, setup))
        return false;
    if (options->init || options->resume) {
        kn_model *saved = kn_model_open(options->resume ? options->resume : options->init, NULL);
        setup_reading(setup, saved);
        kn_model_destroy(&saved);
    }
    setup->weighted = options->class_weights && !strcmp(options->class_weights, "balanced");
    double begin = clock_now();
    if (!setup_data(setup, options->validation, options->seed) || !limit_validation(run)) return false;
    setup->opening = clock_now() - begin;
    if (kn_dataset_classes(setup->all) == 1 && kn_value_dtype(setup->loss.target) == KN_INT32) {
        const char *name = kn_dataset_class_name(setup->all, 0);
        return command_error("the data '%s' has only one class%s%s%s: there is nothing to classify",
                             options->data, name ? ", '" : "", name ? name : "", name ? "'" : "");
    }
    run->learner.samples = kn_dataset_count(setup->train ? setup->train : setup->all);
    if (options->drop_last && options->batch > run->learner.samples)
        return command_error(
            "%s leaves nothing to train on: '%s' has %llu samples, less than one batch of %llu",
            options->in_sequence ? "--in-sequence" : "--drop-last", options->data,
            (unsigned long long)run->learner.samples, (unsigned long long)options->batch);
    if (options->batch > run->learner.samples && options->batch > 64)
        command_info("--batch %llu is more than the %llu samples of the data: each step takes all of them",
                     (unsigned long long)options->batch, (unsigned long long)run->learner.samples);
    bool plateau = options->config.params.schedule == KN_SCHEDULE_PLATEAU;
    if ((options->patience || plateau) && options->unvalidated)
        return command_error("%s needs validation data, and --validation 0 turns it off",
                             options->patience ? "--patience" : "--schedule plateau");
    if ((options->patience || plateau) && !setup->validation)
        return command_error(
            "%s needs validation data, but '%s' has no test part: set some aside with --validation 0.1",
            options->patience ? "--patience" : "--schedule plateau", options->data);
    return true;
}

/* For --device auto. */
static bool choose_device(train_run *run) {
    train_options *options = run->options;
    kn_session_params session;
    kn_trainer_params params = learner_params(options, run->learner.samples, &session);
    return device_auto_training(&options->common, &run->setup, &params, options->batch);
}

static bool open_log(train_run *run) {
    const train_options *options = run->options;
    if (!options->outputs.log) return true;
    run->log = fopen(options->outputs.log, options->goes_on ? "a" : "w");
    if (!run->log) return command_error("the log '%s' cannot be opened for writing", options->outputs.log);
    /* Flush each line as soon as its step is done. */
    setvbuf(run->log, NULL, _IOLBF, 1 << 12);
    return true;
}

/* ---- the run ----------------------------------------------------------------------------------------- */

/* Traces the host's activity since the last call. */
static void trace_stretch(train_run *run, const char *name) {
    if (!run->options->outputs.trace) return;
    double now = kn_context_clock(run->context);
    trace_host(name, run->traced, now);
    trace_queues(run->context);
    kn_context_timeline_clear(run->context);
    run->traced = now;
}

static bool on_step(void *user, const kn_fit_step *step) {
    train_run *run = user;
    char name[40];
    snprintf(name, sizeof name, "step %llu", (unsigned long long)step->step);
    page_step(run->page, run->context, step);
    trace_stretch(run, name);
    precompile_end();
    bool going = report_step(&run->report, step);
    events_step(&run->events, step);
    going = (!isfinite(step->loss) || checkpoints_after_step(&run->checkpoints, step->step)) && going;
    trace_stretch(run, "report");
    return going;
}

static void on_validation(void *user, uint64_t samples, uint64_t all) {
    train_run *run = user;
    report_validation(&run->report, samples, all);
}

static bool on_step_of_follower(void *user, const kn_fit_step *step) {
    (void)user;
    (void)step;
    return !interrupted();
}

/* A checkpoint needs the states of its step, and the trace and the page show individual steps. */
static bool wait_for(void *user, uint64_t step) {
    train_run *run = user;
    bool saved = checkpoints_wait_for(&run->checkpoints, step);
    return saved || run->options->outputs.trace || page_times_step(run->page);
}

/* Reports the loss scale, which float16 training uses (koine/train.h). */
static void print_loss_scale(train_run *run) {
    float scale = 0;
    if (run->options->common.arithmetic.precision != KN_PRECISION_FLOAT16 ||
        kn_states_get(kn_trainer_states(run->learner.trainer), "koine.loss_scale", &scale, sizeof scale) !=
            KN_OK ||
        scale == run->loss_scale)
        return;
    if (run->loss_scale != 0)
        command_info("the loss scale changed to %g from %g: %s", (double)scale, (double)run->loss_scale,
                     scale < run->loss_scale ? "some gradients overflowed, and these steps were skipped"
                                             : "no gradient overflowed recently");
    run->loss_scale = scale;
}

static bool on_epoch(void *user, const kn_fit_epoch *epoch) {
    train_run *run = user;
    trace_stretch(run, "evaluating");
    bool going = report_epoch(&run->report, epoch);
    print_loss_scale(run);
    page_epoch(run->page, run->context, &run->setup, epoch);
    events_epoch(&run->events, &run->setup, run->learner.trainer, epoch);
    going = checkpoints_after_epoch(&run->checkpoints, epoch) && going;
    trace_stretch(run, "report");
    return going;
}

static bool restore_best(void *user) {
    train_run *run = user;
    if (run->options->crew.follows) return true; /* this process saves nothing */
    return checkpoints_to_best(&run->checkpoints);
}

static kn_loader_params loader_params_from(const train_run *run) {
    const train_options *options = run->options;
    kn_loader_params params = KN_LOADER_DEFAULTS;
    params.batch = options->batch;
    params.drop_last = options->drop_last;
    params.no_shuffle = options->no_shuffle;
    params.in_sequence = options->in_sequence;
    params.balanced = options->oversample;
    params.augmentation = &run->setup.augmentation;
    params.workers = (int)options->workers;
    params.seed = options->seed;
    return params;
}

static kn_fit_params fit_params_from(train_run *run) {
    const train_options *options = run->options;
    kn_fit_params params;
    kn_fit_params_init(&params);
    params.epochs = options->epochs;
    params.steps = options->steps;
    params.seconds = options->seconds;
    params.patience = options->patience;
    params.validation = run->setup.validation;
    params.eval_session = run->learner.evaluator;
    params.loss = run->setup.loss_name;
    params.accuracy = run->setup.accuracy_name;
    params.train_accuracy = learner_reports_accuracy(&run->learner) ? run->setup.accuracy_name : NULL;
    params.find_not_finite = options->find_nan;
    params.use_averages = options->config.params.average > 0;
    params.user = run;
    params.on_step = options->crew.follows ? on_step_of_follower : on_step;
    params.needs_states = wait_for;
    params.on_epoch = options->crew.follows ? NULL : on_epoch;
    params.on_validation = options->crew.follows ? NULL : on_validation;
    params.save_progress = options->outputs.checkpoints != NULL;
    params.restore_best = restore_best;
    return params;
}

static int fit(train_run *run) {
    train_options *options = run->options;
    training_setup *setup = &run->setup;
    run->report = (train_report){.options = options,
                                 .log = run->log,
                                 .total_steps = run->learner.total_steps,
                                 .setup = setup,
                                 .memory_bytes = run->learner.planned_bytes};
    train_checkpoints *checkpoints = &run->checkpoints;
    checkpoints->options = options;
    checkpoints->setup = setup;
    checkpoints->trainer = run->learner.trainer;
    checkpoints->batches = learner_batches(options, run->learner.samples);
    checkpoints->written_step = kn_trainer_steps(run->learner.trainer);
    const kn_loader_params batches = loader_params_from(run);
    kn_fit_params params = fit_params_from(run);
    params.loader = &batches;
    kn_fit_result result = {.size = sizeof result};
    uint64_t before = kn_trainer_steps(run->learner.trainer);
    const kn_dataset *samples = setup->train ? setup->train : setup->all;
    if (!watch_begin(&run->watch) || !workers_start(run->workers, samples, &params)) return EXIT_FAILED;
    kn_status status = kn_fit(run->learner.trainer, samples, &params, &result);
    workers_wait(run->workers);
    watch_end(&run->watch);
    progress_clear();
    if (status == KN_OK) curve_show(&run->report.curve);
    if (run->log) report_end_json(run->log, setup, &result, NULL);
    if (status == KN_ERROR_NOT_FINITE)
        return command_fail("%s. Nothing was saved.%s A lower --lr or --clip 1 often helps", result.message,
                            options->find_nan ? "" : " --find-nan names the operator where it begins.");
    if (status != KN_OK) {
        const kn_communicator *all = run->learner.communicator;
        const char *told = all ? all->error(all->user) : "";
        return command_fail("%s%s", told[0] ? told : result.message, train_how_to_go_on(options));
    }
    if (options->crew.follows) return EXIT_DONE;
    bool checkpointed = checkpoints_at_end(checkpoints, &result);
    /* Save the evaluated weights. */
    if (options->config.params.average > 0 && kn_trainer_use_averages(run->learner.trainer, true) != KN_OK)
        return command_fail("%s", kn_trainer_error(run->learner.trainer));
    if (!train_save(setup, run->learner.trainer, options)) return EXIT_FAILED;
    if (options->common.json)
        report_end_json(stdout, setup, &result, options->outputs.path);
    else
        report_end_text(setup, &result, before, options->outputs.path);
    fflush(stdout);
    if (run->page && !page_write(run->page, setup, run->context, run->learner.trainer, &result))
        checkpointed = false;
    if (result.stop_reason == KN_STOP_CALLBACK && !options->outputs.checkpoints &&
        !train_saves_state(options))
        command_warn(
            "stopped before the end; --init %s begins a new training run from the adapter. --checkpoints, "
            "or --save with a .safetensors file, keeps what --resume needs",
            options->outputs.path);
    else if (result.stop_reason == KN_STOP_CALLBACK)
        command_warn("stopped before the end; to resume, repeat the command with --resume %s",
                     options->outputs.checkpoints ? "auto" : options->outputs.path);
    return checkpointed ? EXIT_DONE : EXIT_FAILED;
}

static int files_apart(const train_options *options) {
    const output_file outputs[] = {{"--save", options->outputs.save},
                                   {"--log", options->outputs.log},
                                   {"--report", options->outputs.report},
                                   {"--trace", options->outputs.trace}};
    return outputs_apart(outputs, 4);
}

int train_with_options(train_options *options, const char *model, const train_checkpoints *checkpoints) {
    train_run run = {.options = options, .checkpoints = *checkpoints, .watch = {.options = options}};
    run.learner = (train_learner){.options = options, .setup = &run.setup};
    int status = EXIT_FAILED;
    if (!world_open(options, &run.watch, &run.world)) goto done;
    progress_setup(&options->common);
    options->goes_on = options->resume != NULL;
    if (precompiling())
        options->outputs.trace = options->outputs.report = options->outputs.checkpoints =
            options->outputs.run = NULL;
    if (precompiling() && model && train_resumes_by_itself(options)) options->resume = NULL;
    if (!run_open(options, model ? model : options->resume)) goto done;
    options->common.timeline = options->common.timeline || options->outputs.report;
    if (options->outputs.report && !(run.page = page_open(options))) {
        command_fail("out of memory");
        goto done;
    }
    if ((status = files_apart(options)) != EXIT_DONE) goto done;
    status = EXIT_FAILED;
    if (!checkpoints_open(options, &run.checkpoints)) goto done;
    if (options->crew.follows) kn_checkpoints_destroy(&run.checkpoints.files);
    if (!train_take_shards(options)) goto done;
    if (!model) model = options->resume;
    if (!model) {
        status = command_misuse("train needs a model, since there is no checkpoint to resume from");
        goto done;
    }
    if (!open_data(&run, model) ||
        !trace_open(options->outputs.trace, train_replaces(options, options->outputs.trace),
                    options->outputs.mark, &options->common) ||
        !choose_device(&run) || !(run.context = context_open(&options->common)) ||
        !devices_join(run.context, &options->common, run.setup.model))
        goto done;
    if (!options->crew.device_count && !run.world.found) precompile_allow(&options->common, run.context);
    progress_clear();
    report_begin(run.setup.model, run.learner.samples, options->data, run.context);
    train_print_hints(options, &run.setup, run.context);
    run.learner.context = run.context;
    const bool joined = workers_open(&run.learner, &run.watch, &run.world, &run.workers);
    run.context = run.learner.context; /* it may be a part of the device */
    if (!joined || !learner_open(&run.learner) || !world_choose_part(&run.world, &run.learner) ||
        !train_load(&run.setup, run.learner.trainer, options) ||
        !workers_prepare(run.workers, &run.learner) || !world_agrees(&run.world, &run.learner))
        goto done;
    print_compile_time(run.context);
    if (precompiling()) {
        status = EXIT_DONE;
        goto done;
    }
    if (options->check) {
        status = train_check(options, &run.setup, run.context, run.learner.trainer, run.learner.total_steps);
        goto done;
    }
    if (!run_begin(options) || !open_log(&run) || !events_open(options, &run.events)) goto done;
    interrupts_watch();
    trace_stretch(&run, "opening and compiling");
    status = fit(&run);
    trace_stretch(&run, "saving");
done:
    watch_end(&run.watch);
    if (run.log && (ferror(run.log) | fclose(run.log)) && status == EXIT_DONE)
        status = command_fail("the log '%s' could not be written", options->outputs.log);
    if (!trace_close()) status = EXIT_FAILED;
    if (!events_close(&run.events)) status = EXIT_FAILED;
    checkpoints_close(&run.checkpoints);
    page_close(&run.page);
    learner_close(&run.learner);
    workers_close(&run.workers, status != EXIT_DONE);
    world_close(&run.world, status);
    setup_finish(&run.setup);
    kn_context_destroy(&run.context);
    return status;
}
