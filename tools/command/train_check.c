/* koine train --check: overfits one batch and inspects the gradients to predict whether training can
 * succeed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "batch.h"
#include "findings.h"
#include "train.h"

enum { MAX_STEPS = 200, GRADIENTS_AGAIN = 10, SETTLED = 3, MAX_NAMES = 6 };
static const double most_seconds = 20;

typedef struct check_run {
    const train_options *options;
    training_setup *setup;
    kn_context *context;
    kn_trainer *trainer;
    uint64_t total_steps;
    findings found;
    kn_batch batch;
    kn_trainer *looking; /* computes gradients without updating */
} check_run;

/* ---- data ------------------------------------------------------------------------------------------ */

/* A feed of the batch; NULL if the data has none with that name. */
static const kn_feed *feed_of(const check_run *run, const kn_value *value) {
    for (size_t i = 0; i < run->batch.feed_count; i++)
        if (!strcmp(run->batch.feeds[i].name, kn_value_name(value))) return &run->batch.feeds[i];
    return NULL;
}

/* Inputs or targets of any shape. */
static void check_numbers(check_run *run, const kn_value *value, bool target) {
    const kn_feed *feed = feed_of(run, value);
    if (!feed || kn_value_dtype(value) != KN_FLOAT32) return;
    const float *numbers = feed->data;
    size_t count = feed->bytes / sizeof *numbers, broken = 0;
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(numbers[i])) {
            broken++;
            continue;
        }
        sum += numbers[i];
        squares += (double)numbers[i] * numbers[i];
    }
    double fine = (double)(count - broken), mean = fine > 0 ? sum / fine : 0,
           deviation = fine > 0 ? sqrt(fmax(0, squares / fine - mean * mean)) : 0;
    const char *name = kn_value_name(value);
    if (broken)
        finding_add(&run->found, FINDING_PROBLEM, "data", "", "%llu of %llu numbers of '%s' are not finite",
                    (unsigned long long)broken, (unsigned long long)count, name);
    else if (deviation <= 1e-6 * fabs(mean))
        finding_add(&run->found, target ? FINDING_PROBLEM : FINDING_HINT, "data", "",
                    "all numbers of '%s' in this batch are %g: there is nothing to learn", name, mean);
    else if (fabs(mean) > 20 || deviation > 20)
        finding_add(&run->found, FINDING_HINT, "data", "",
                    "'%s' has the mean %.4g and the standard deviation %.4g; networks train best on numbers "
                    "around 1: "
                    "subtract the mean and divide by the deviation",
                    name, mean, deviation);
    else
        finding_add(&run->found, FINDING_FINE, "data", "",
                    "'%s' has the mean %.4g and the standard deviation %.4g", name, mean, deviation);
}

static void check_labels(check_run *run) {
    const kn_value *target = run->setup->loss.target;
    const kn_feed *feed = feed_of(run, target);
    if (!feed || kn_value_dtype(target) != KN_INT32) return;
    const int32_t *labels = feed->data;
    size_t count = feed->bytes / sizeof *labels, same = 0;
    for (size_t i = 0; i < count; i++)
        same += labels[i] == labels[0];
    if (count > 1 && same == count)
        finding_add(&run->found, FINDING_HINT, "data", "",
                    "all %llu labels of this batch are %d; are the samples sorted by class? (--no-shuffle)",
                    (unsigned long long)count, (int)labels[0]);
}

static void check_data(check_run *run) {
    for (size_t i = 0; i < kn_model_input_count(run->setup->model); i++)
        check_numbers(run, kn_model_input_at(run->setup->model, i), false);
    check_numbers(run, run->setup->loss.target, true);
    check_labels(run);
}

/* ---- loss ------------------------------------------------------------------------------------------ */

static void check_loss(check_run *run) {
    const kn_value *again = run->setup->loss.duplicate_activation;
    const bool classes = kn_value_dtype(run->setup->loss.target) == KN_INT32;
    if (again)
        finding_add(&run->found, FINDING_HINT, "loss", "",
                    "'%s' outputs probabilities, but the loss %s expects logits and applies %s itself: "
                    "training is slow, and no prediction becomes confident. Remove the "
                    "layer from the model, or use a loss of probabilities: %s",
                    kn_value_name(again), run->setup->loss_kind, classes ? "a softmax" : "a sigmoid",
                    classes ? "a layer `log` after it, and --loss nll" : "--loss probability-cross-entropy");
}

/* ---- gradients ---------------------------------------------------------------------------------------- */

/* The norm of a state; negative if there is none with that name. */
static double norm_of(kn_states *states, const char *name) {
    for (size_t i = 0; i < kn_states_count(states); i++) {
        kn_tensor_info info;
        uint64_t bytes;
        const char *found = kn_states_at(states, i, &info);
        if (!found || strcmp(found, name)) continue;
        if (info.dtype != KN_FLOAT32 || !kn_tensor_bytes(&info, &bytes)) return -1;
        float *numbers = malloc((size_t)bytes + 1);
        double sum = -1;
        if (numbers && kn_states_get(states, name, numbers, (size_t)bytes) == KN_OK) {
            sum = 0;
            for (uint64_t j = 0; j < bytes / sizeof *numbers; j++)
                sum += (double)numbers[j] * numbers[j];
        }
        free(numbers);
        return sum < 0 ? -1 : sqrt(sum);
    }
    return -1;
}

/* Gradient descent with learning rate 0: its momentum is the gradient. */
static bool open_looking(check_run *run) {
    kn_trainer_params params;
    kn_trainer_params_init(&params);
    kn_trainer_params_choose(&params, KN_OPTIMIZER_SGD);
    params.learning_rate = 0;
    params.micro_batch = run->options->part;
    params.groups = run->options->how.groups;
    params.group_count = run->options->how.group_count;
    kn_session_params session = KN_SESSION_DEFAULTS;
    session.seed = run->options->seed;
    arithmetic_apply(&run->options->common.arithmetic, &session);
    session.memory_bytes = UINT64_MAX;
    params.session = &session;
    run->looking = kn_trainer_create(run->context, run->setup->loss.value, &params);
    if (kn_trainer_status(run->looking) == KN_OK) return true;
    return command_error("%s", run->looking ? kn_trainer_error(run->looking) : "out of memory");
}

/* Copies the current weights from the trainer. */
static bool bring_weights(check_run *run) {
    kn_states *from = kn_trainer_states(run->trainer), *to = kn_trainer_states(run->looking);
    const kn_graph *graph = kn_model_graph(run->setup->model);
    for (size_t i = 0; i < kn_graph_parameter_count(graph); i++) {
        const char *name = kn_value_name(kn_graph_parameter_at(graph, i));
        for (size_t s = 0; s < kn_states_count(from); s++) {
            kn_tensor_info info;
            uint64_t bytes;
            const char *found = kn_states_at(from, s, &info);
            if (!found || strcmp(found, name) || !kn_tensor_bytes(&info, &bytes)) continue;
            void *data = malloc((size_t)bytes + 1);
            bool brought = data && kn_states_get(from, name, data, (size_t)bytes) == KN_OK &&
                           kn_states_set(to, name, &info, data, (size_t)bytes) == KN_OK;
            free(data);
            if (!brought) return command_error("'%s' could not be copied: %s", name, kn_states_error(to));
            break;
        }
    }
    return true;
}

typedef struct name_list {
    char text[400];
    int count;
} name_list;

static void add_name(name_list *list, const char *name) {
    size_t used = strlen(list->text);
    if (list->count++ < MAX_NAMES)
        snprintf(list->text + used, sizeof list->text - used, "%s%.50s", used ? ", " : "", name);
    else if (list->count == MAX_NAMES + 1)
        snprintf(list->text + used, sizeof list->text - used, " and more");
}

/* Computes the gradients of the current weights; names of zero gradients go to `none`, and nothing is
 * reported unless `last`. */
static bool look(check_run *run, bool last, int *without) {
    const kn_graph *graph = kn_model_graph(run->setup->model);
    kn_states *states = kn_trainer_states(run->looking);
    name_list none = {"", 0}, unused = {"", 0}, frozen = {"", 0}, broken = {"", 0};
    double least = INFINITY, most = 0;
    const char *least_name = "", *most_name = "";
    double loss;
    if (kn_trainer_step(run->looking, (int64_t)run->batch.count, run->batch.feeds, run->batch.feed_count,
                        &loss) != KN_OK)
        return command_error("%s", kn_trainer_error(run->looking));
    for (size_t i = 0; i < kn_graph_parameter_count(graph); i++) {
        const char *name = kn_value_name(kn_graph_parameter_at(graph, i));
        char moment[300];
        snprintf(moment, sizeof moment, "%s.momentum", name);
        double gradient = norm_of(states, moment), weight = norm_of(states, name);
        if (gradient < 0) {
            add_name(weight < 0 ? &unused : &frozen, name);
        } else if (!isfinite(gradient)) {
            add_name(&broken, name);
        } else if (gradient == 0) {
            add_name(&none, name);
        } else {
            if (gradient < least) least_name = name;
            if (gradient > most) most_name = name;
            least = fmin(least, gradient);
            most = fmax(most, gradient);
        }
    }
    *without = none.count;
    if (!last) return true;
    if (broken.count)
        finding_add(&run->found, FINDING_PROBLEM, "gradient", "", "gradients that are not finite: %s",
                    broken.text);
    if (none.count)
        finding_add(&run->found, FINDING_PROBLEM, "gradient", "",
                    "%d parameter%s no gradient and will not be trained: %s", none.count,
                    none.count == 1 ? " gets" : "s get", none.text);
    if (unused.count)
        finding_add(&run->found, FINDING_HINT, "gradient", "", "the loss does not depend on %s", unused.text);
    if (frozen.count) finding_add(&run->found, FINDING_FINE, "gradient", "", "frozen: %s", frozen.text);
    if (isfinite(least))
        finding_add(&run->found, most > 1e6 * least ? FINDING_HINT : FINDING_FINE, "gradient", "",
                    "norms from %.3g (%s) to %.3g (%s)%s", least, least_name, most, most_name,
                    most > 1e6 * least
                        ? ": such layers train at very different speeds; normalization between them helps"
                        : "");
    return true;
}

/* ---- overfitting one batch ------------------------------------------------------------------ */

static void check_start(check_run *run, double loss) {
    int classes = kn_dataset_classes(run->setup->all);
    bool entropy = !strcmp(run->setup->loss_kind, "cross-entropy");
    if (entropy && classes > 1 && loss > 2 * log(classes) + 1)
        finding_add(&run->found, FINDING_HINT, "loss", "",
                    "the initial loss is %.4g, but chance level is %.4g: the first predictions are wrong "
                    "and confident; smaller weights in the last layer, or inputs around 1, help",
                    loss, log(classes));
    else if (entropy && classes > 1)
        finding_add(&run->found, FINDING_FINE, "loss", "", "the initial loss is %.4g; chance level is %.4g",
                    loss, log(classes));
    else
        finding_add(&run->found, FINDING_FINE, "loss", "", "it begins at %.4g", loss);
}

static void check_end(check_run *run, double begin, double end, int steps) {
    double left = begin > 0 ? end / begin : NAN;
    char fix[80] = "";
    snprintf(fix, sizeof fix, "koine train … --lr %g", 10 * run->options->how.learning_rate);
    if (!isfinite(end))
        finding_add(&run->found, FINDING_PROBLEM, "learning", "",
                    "the loss is no longer finite after %d steps: --find-nan names where it begins; a lower "
                    "--lr or --clip "
                    "1 often helps",
                    steps);
    else if (left <= 0.2)
        finding_add(&run->found, FINDING_FINE, "learning", "",
                    "one batch can be overfitted: the loss falls from %.4g to %.4g in %d steps", begin, end,
                    steps);
    else if (left <= 0.9)
        finding_add(&run->found, FINDING_HINT, "learning", fix,
                    "one batch is overfitted slowly: the loss falls from %.4g to %.4g in %d steps; a higher "
                    "rate may be faster",
                    begin, end, steps);
    else
        finding_add(
            &run->found, FINDING_PROBLEM, "learning", "",
            "not even one batch can be overfitted: the loss goes from %.4g to %.4g in %d steps. The rate %g "
            "may be too "
            "%s, inputs and targets may not belong together, or the model cannot express it",
            begin, end, steps, run->options->how.learning_rate, end > begin ? "high" : "low");
}

static void print_time(check_run *run, double seconds) {
    char time[32];
    if (!(seconds > 0)) return;
    if (run->total_steps)
        finding_add(&run->found, FINDING_FINE, "time", "", "a step takes %.3g ms, all %llu about %s",
                    1e3 * seconds, (unsigned long long)run->total_steps,
                    time_text(seconds * (double)run->total_steps, time, sizeof time));
    else
        finding_add(&run->found, FINDING_FINE, "time", "", "a step takes %.3g ms", 1e3 * seconds);
}

static bool learn(check_run *run) {
    double first = NAN, last[SETTLED] = {0}, after_first = 0, aside = 0, end = NAN;
    int steps = 0, without = 0;
    if (!bring_weights(run) || !look(run, false, &without)) return false;
    precompile_end();
    bool looked = without == 0;
    if (looked && !look(run, true, &without)) return false;
    double began = clock_now();
    while (steps < MAX_STEPS && clock_now() - began < most_seconds && !interrupted()) {
        double loss = 0;
        if (kn_trainer_step(run->trainer, (int64_t)run->batch.count, run->batch.feeds, run->batch.feed_count,
                            &loss) != KN_OK)
            return command_error("%s", kn_trainer_error(run->trainer));
        if (!steps) {
            first = loss;
            after_first = clock_now();
            check_start(run, loss);
        }
        last[steps++ % SETTLED] = loss;
        end = steps < SETTLED ? loss : (last[0] + last[1] + last[2]) / SETTLED;
        progress_line("learning one batch: step %d of %d  loss %.4f", steps, MAX_STEPS, loss);
        /* A layer initialised to 0 blocks the gradients of earlier layers for a step or two. */
        if (!looked && (steps == GRADIENTS_AGAIN || !isfinite(loss))) {
            double before = clock_now();
            looked = true;
            if (!bring_weights(run) || !look(run, true, &without)) return false;
            aside = clock_now() - before;
        }
        if (!isfinite(loss) || (looked && steps >= SETTLED && end <= 0.05 * first)) break;
    }
    double seconds = steps > 1 ? (clock_now() - after_first - aside) / (steps - 1) : 0;
    progress_clear();
    /* Stopped early: inspect the gradients now. */
    if (!looked && (!bring_weights(run) || !look(run, true, &without))) return false;
    if (!steps) return command_error("interrupted before the first step");
    check_end(run, first, end, steps);
    print_time(run, seconds);
    return true;
}

int train_check(const train_options *options, training_setup *setup, kn_context *context, kn_trainer *trainer,
                uint64_t total_steps) {
    check_run run = {.options = options,
                     .setup = setup,
                     .context = context,
                     .trainer = trainer,
                     .total_steps = total_steps,
                     .found = {.json = options->common.json},
                     .batch = {.size = sizeof run.batch}};
    kn_loader_params params = {.size = sizeof params, .batch = options->batch, .seed = options->seed};
    params.no_shuffle = options->no_shuffle;
    const kn_dataset *samples = setup->train ? setup->train : setup->all;
    if (params.batch > kn_dataset_count(samples)) params.batch = kn_dataset_count(samples);
    kn_loader *loader = kn_loader_create(samples, &params);
    bool done = kn_loader_status(loader) == KN_OK && kn_loader_next(loader, &run.batch) == KN_OK;
    if (!done) command_fail("%s", loader ? kn_loader_error(loader) : "out of memory");
    if (done) {
        check_data(&run);
        check_loss(&run);
        done = open_looking(&run) && learn(&run);
    }
    kn_trainer_destroy(&run.looking);
    kn_loader_destroy(&loader);
    if (!done) return EXIT_FAILED;
    if (!options->common.json)
        puts(run.found.problems ? "this training would be wasted: see the problems above"
             : run.found.hints  ? "this training can work; the hints above may make it better"
                                : "no problems found");
    return run.found.problems ? EXIT_FAILED : EXIT_DONE;
}
