/* koine train --report: a training run as one self-contained HTML file. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "train_page.h"

train_page *page_open(const train_options *options) {
    train_page *page = calloc(1, sizeof *page);
    if (page) {
        page->options = options;
        page->stride = 1;
    }
    return page;
}

void page_close(train_page **page) {
    free(*page);
    *page = NULL;
}

/* ---- collection -------------------------------------------------------------------------------------- */

/* Operator times of the first steps after step 1; the operator is the first word of a label. */
static void time_operators(train_page *page, kn_context *context) {
    size_t count = 0;
    const kn_timeline_entry *entries = kn_context_timeline(context, &count);
    for (size_t i = 0; i < count; i++) {
        char name[sizeof page->operators[0].name];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(entries[i].label, " "), entries[i].label);
        int at = 0;
        while (at < page->operator_count && strcmp(page->operators[at].name, name))
            at++;
        if (at == PAGE_OPERATORS) continue;
        if (at == page->operator_count) strcpy(page->operators[page->operator_count++].name, name);
        page->operators[at].seconds += entries[i].end - entries[i].start;
    }
}

bool page_times_step(const train_page *page) {
    return page && page->timed < PAGE_TIMED;
}

void page_step(train_page *page, kn_context *context, const kn_fit_step *step) {
    if (!page) return;
    if (page->begun && page->timed < PAGE_TIMED) {
        time_operators(page, context);
        page->timed++;
    }
    if (!page->options->outputs.trace) kn_context_timeline_clear(context);
    page->begun = true; /* discard times before the first step */
    page->steps_an_epoch = step->batches;
    page->last_step = step->step;
    page->seconds = step->seconds;
    if (!page->weighed_at || clock_now() - page->weighed_at > 0.05) {
        page->weighed_at = clock_now();
        page->weight = 1e-6 * (double)bench_rss();
    }
    if (step->step % page->stride) return;
    if (page->step_count == PAGE_STEPS) {
        for (size_t i = 0; i < PAGE_STEPS / 2; i++) {
            page->loss[i] = page->loss[2 * i + 1];
            page->rate[i] = page->rate[2 * i + 1];
            page->memory[i] = page->memory[2 * i + 1];
        }
        page->step_count = PAGE_STEPS / 2;
        page->stride *= 2;
        if (step->step % page->stride) return;
    }
    page->loss[page->step_count] = (svg_point){(double)step->step, step->loss};
    page->memory[page->step_count] = (svg_point){(double)step->step, page->weight};
    page->rate[page->step_count++] = (svg_point){(double)step->step, step->learning_rate};
}

void page_epoch(train_page *page, kn_context *context, const training_setup *setup,
                const kn_fit_epoch *epoch) {
    if (!page) return;
    if (!page->options->outputs.trace)
        kn_context_timeline_clear(context); /* evaluation is not part of a step */
    if (page->epoch_count == PAGE_EPOCHS) return;
    size_t at = page->epoch_count++;
    const double number = (double)page->last_step, r2 = setup_r2(setup, &epoch->validation);
    bool validated = epoch->validation.samples > 0;
    page->validated = page->validated || validated;
    page->regression = isfinite(r2);
    page->train_loss[at] = (svg_point){number, epoch->loss};
    page->train_accuracy[at] = (svg_point){number, 100 * epoch->accuracy};
    page->validation_loss[at] = (svg_point){number, validated ? epoch->validation.loss : NAN};
    page->quality[at] = (svg_point){number, !validated         ? NAN
                                            : page->regression ? r2
                                                               : 100 * epoch->validation.accuracy};
}

/* Steps per unit of the horizontal axis: epochs, or steps if there is less than one epoch. */
static double steps_per_unit(const train_page *page) {
    return page->steps_an_epoch && page->last_step >= page->steps_an_epoch ? (double)page->steps_an_epoch : 1;
}

static const char *unit_name(const train_page *page) {
    return steps_per_unit(page) > 1 || page->steps_an_epoch == 1 ? "epochs" : "steps";
}

/* ---- interpretation of the curves ---------------------------------------------------------------------- */

const char *page_verdict(const train_page *page, char *text, size_t room) {
    size_t count = page->epoch_count, best = 0;
    const svg_point *train = page->train_loss, *held = page->validation_loss;
    if (count < 2) {
        snprintf(text, room,
                 "One epoch is not enough to recognize under- or overfitting: train for more epochs.");
        return text;
    }
    double falls = (train[count - 2].y - train[count - 1].y) / fmax(fabs(train[count - 2].y), 1e-30);
    bool still = falls > 0.03;
    for (size_t i = 1; i < count; i++)
        if (held[i].y < held[best].y) best = i;
    if (!page->validated)
        snprintf(text, room,
                 "Without validation data, overfitting cannot be recognized: give --validation 0.1.%s",
                 still ? " The training loss is still falling: train for more epochs." : "");
    else if (best + 1 < count && held[count - 1].y > 1.03 * held[best].y &&
             train[count - 1].y < train[best].y)
        snprintf(text, room,
                 "Overfitting: the validation loss was lowest after epoch %.0f (%.4g) and has risen to %.4g "
                 "since, while the training loss kept falling. Stop earlier (--patience), or use more data, "
                 "dropout or --weight-decay.",
                 held[best].x / steps_per_unit(page), held[best].y, held[count - 1].y);
    else if (still)
        snprintf(text, room,
                 "Underfitting: the training loss still fell by %.0f%% in the last epoch, and the validation "
                 "loss %s. Train for more epochs, or use a higher learning rate.",
                 100 * falls, best + 1 == count ? "fell too" : "did not rise");
    else if (held[count - 1].y > 1.5 * train[count - 1].y && train[count - 1].y > 0)
        snprintf(text, room,
                 "The validation loss is %.1f times the training loss. More data, dropout or --weight-decay "
                 "may narrow the gap.",
                 held[count - 1].y / train[count - 1].y);
    else
        snprintf(text, room,
                 "Training and validation loss agree and have levelled off: the model neither overfits nor "
                 "underfits. A lower loss needs a larger model or different data.");
    return text;
}

/* ---- the page -------------------------------------------------------------------------------- */

static const char style[] =
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:0 "
    "auto;padding:1rem;color:#222;background:#fff}"
    "h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}figure{margin:1rem "
    "0}svg{width:100%;height:auto}"
    "svg text{font:12px system-ui,sans-serif;fill:#444}svg .title{font-weight:600;font-size:14px;fill:#222}"
    ".grid{stroke:#ddd}[class^=line]{fill:none;stroke-width:2}.line0{stroke:#1668b0}.line1{stroke:#d2601a}"
    "#confusion td,#confusion th{padding:.15rem .3rem}#confusion tr:first-child th:nth-child(n+2){"
    "writing-mode:vertical-rl;transform:rotate(180deg);text-align:left}"
    ".line2{stroke:#2a8c4a}.line3{stroke:#999}.fill0{fill:#1668b0}.fill1{fill:#d2601a}.fill2{fill:#2a8c4a}"
    ".fill3{fill:#bbb}.wide{overflow-x:auto}table{border-collapse:collapse}td,th{padding:.15rem "
    ".5rem;text-align:right;"
    "font-variant-numeric:tabular-nums}td:first-child,th:first-child{text-align:left}pre{overflow-x:auto;"
    "background:#f4f4f4;"
    "padding:.7rem;font-size:.8rem}.verdict{border-left:4px solid "
    "#d2601a;padding-left:.8rem}.samples{display:flex;"
    "flex-wrap:wrap;gap:.8rem}.samples figure{width:7rem;margin:0;font-size:.8rem}.samples img{width:100%;"
    "image-rendering:pixelated}"
    "#written,#command{white-space:pre-wrap;overflow-wrap:anywhere}.filters{width:min(100%,16rem);"
    "image-rendering:pixelated}"
    "@media(max-width:36rem){svg text,svg .title{font-size:19px}#confusion{font-size:.75rem}"
    "#confusion td,#confusion th{padding:.1rem .2rem}.samples figure{width:5.8rem}}"
    "@media(prefers-color-scheme:dark){body{background:#16181b;color:#ddd}svg text{fill:#bbb}svg "
    ".title{fill:#eee}"
    ".grid{stroke:#333}pre{background:#24272b}.line0{stroke:#4a9be6}.line1{stroke:#f0853e}"
    ".line2{stroke:#4cbd70}.fill0{fill:#4a9be6}.fill1{fill:#f0853e}.fill2{fill:#4cbd70}}";

bool page_fail(void) {
    return command_error("a part of the report could not be written: out of memory, or the data can no "
                         "longer be read");
}

static bool command_line(FILE *file, const train_options *options) {
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    if (stream) command_line_write(stream, options);
    const bool fine = stream && !(ferror(stream) | fclose(stream));
    fputs("<h2>Command</h2>\n<pre id=\"command\">", file);
    if (fine) html_text(file, text);
    free(text);
    fprintf(file, "</pre>\n<p>koine %s; the seed %llu gives the same bits again on the same device.</p>\n",
            kn_version_text(), (unsigned long long)options->seed);
    return fine || page_fail();
}

static void summary(FILE *file, const train_page *page, const training_setup *setup, kn_context *context,
                    const kn_fit_result *result) {
    char quality[80], time[32], rate[32];
    fputs("<p>Trained on ", file);
    html_text(file, page->options->data);
    fputs(" on ", file);
    html_text(file, kn_context_device(context)->name);
    fprintf(file, ": %llu steps in %s, %s samples/s, %llu parameters.</p>\n<p>Loss %.4g over the %s epoch",
            (unsigned long long)result->step, time_text(page->seconds, time, sizeof time),
            rate_text(result->samples_per_s, rate, sizeof rate),
            (unsigned long long)kn_model_parameter_elements(setup->model), result->epoch_loss,
            result->discarded_steps ? "best" : "last");
    if (isfinite(result->epoch_accuracy)) fprintf(file, ", accuracy %.2f%%", 100 * result->epoch_accuracy);
    if (result->validation.samples) {
        fprintf(file, ", validation loss %.4g", result->validation.loss);
        html_text(file, setup->unit);
    }
    html_text(file, setup_quality(setup, &result->validation, ", ", quality, sizeof quality));
    fputs(".</p>\n", file);
}

static bool curves(FILE *file, train_page *page) {
    char verdict[600];
    svg_point *smooth = malloc(sizeof page->loss);
    if (!smooth) return page_fail();
    const double each = steps_per_unit(page);
    const char *unit = unit_name(page);
    double mean = 0;
    for (size_t i = 0; i < page->epoch_count; i++)
        page->train_loss[i].x = page->validation_loss[i].x = page->quality[i].x = page->train_accuracy[i].x /=
            each;
    for (size_t i = 0; i < page->step_count; i++) {
        double keep = i < 20 ? (double)i / (double)(i + 1) : 0.95;
        if (isfinite(page->loss[i].y)) mean = keep * mean + (1 - keep) * page->loss[i].y;
        smooth[i] = (svg_point){page->loss[i].x / each, mean};
        page->loss[i].x /= each;
        page->rate[i].x /= each;
        page->memory[i].x /= each;
    }
    /* If a loss falls by a large factor, its end would be flat on a linear axis. */
    bool far = page->step_count > 1 && mean > 0 && smooth[0].y > 10 * mean;
    for (size_t i = 0; i < page->step_count; i++)
        far = far && page->loss[i].y > 1e-3 * mean;
    fputs("<h2>Curves</h2>\n<p class=\"verdict\">", file);
    html_text(file, page_verdict(page, verdict, sizeof verdict));
    fputs("</p>\n", file);
    const svg_line losses[] = {
        {"per step", page->loss, page->step_count, 3},
        {"smoothed", smooth, page->step_count, 0},
        {"validation", page->validation_loss, page->validated ? page->epoch_count : 0, 1}};
    svg_chart(file, "Loss", unit, losses, 3, far);
    const svg_line quality[] = {
        {page->regression ? "R2" : "validation", page->quality, page->validated ? page->epoch_count : 0, 1},
        {"training", page->train_accuracy, page->regression ? 0 : page->epoch_count, 0}};
    size_t shown = 0;
    for (size_t i = 0; i < page->epoch_count; i++)
        shown += isfinite(page->quality[i].y) || isfinite(page->train_accuracy[i].y);
    if (shown > 1) /* the summary shows a single one */
        svg_chart(file, page->regression ? "Validation R2" : "Accuracy, %", unit, quality, 2, 0);
    const svg_line rate = {"rate", page->rate, page->step_count, 0};
    svg_chart(file, "Learning rate", unit, &rate, 1, 0);
    free(smooth);
    return true;
}

static int longer(const void *left, const void *right) {
    double a = ((const page_operator *)left)->seconds, b = ((const page_operator *)right)->seconds;
    return (a < b) - (a > b);
}

static void operators(FILE *file, train_page *page) {
    const char *names[12];
    double numbers[12];
    int count = 0;
    if (!page->timed) return;
    qsort(page->operators, (size_t)page->operator_count, sizeof *page->operators, longer);
    for (; count < 12 && count < page->operator_count; count++) {
        names[count] = page->operators[count].name;
        numbers[count] = 1e3 * page->operators[count].seconds / page->timed;
    }
    fputs("<h2>Time per operator</h2>\n", file);
    svg_bars(file, "Milliseconds per step", names, numbers, count, " ms");
}

/* The first layer's filters, if they are image filters. */
static bool filters(FILE *file, const training_setup *setup, kn_trainer *trainer) {
    const kn_graph *graph = kn_model_graph(setup->model);
    const kn_value *parameter = NULL;
    for (size_t i = 0; i < kn_graph_parameter_count(graph) && !parameter; i++)
        if (parameter_is_filters(kn_graph_parameter_at(graph, i)))
            parameter = kn_graph_parameter_at(graph, i);
    size_t count;
    int size[3];
    float *numbers = parameter ? parameter_numbers(kn_trainer_states(trainer), parameter, &count) : NULL;
    uint8_t *picture = numbers ? filters_picture(parameter, numbers, size) : NULL;
    bool fine = !parameter;
    if (picture) {
        fputs("<h2>Filters of the first layer</h2>\n<p>Weights of ", file);
        html_text(file, kn_value_name(parameter));
        fputs("; grey is 0.</p>\n<figure><img class=\"filters\" alt=\"filters\" src=\"", file);
        fine = html_picture(file, size[1], size[0], size[2], picture);
        fputs("\"></figure>\n", file);
    }
    free(picture);
    free(numbers);
    return fine || page_fail();
}

static void memory(FILE *file, const train_page *page, kn_trainer *trainer) {
    kn_plan_info info = {.size = sizeof info};
    if (page->step_count < 2 || kn_trainer_plan(trainer, &info) != KN_OK) return;
    double planned = 1e-6 * (double)info.peak_bytes;
    const svg_point device[2] = {{page->memory[0].x, planned},
                                 {page->memory[page->step_count - 1].x, planned}};
    const svg_line lines[] = {{"host", page->memory, page->step_count, 0}, {"device", device, 2, 1}};
    fputs("<h2>Memory</h2>\n", file);
    svg_chart(file, "Megabytes", unit_name(page), lines, 2, 0);
    fprintf(file,
            "<p>Host: memory in use. Device: planned peak of a training step, %.4g MB, of which %.4g MB for "
            "weights and optimizer state, and %.4g MB for activations and other intermediate results.</p>\n",
            planned, 1e-6 * (double)info.state_bytes, 1e-6 * (double)info.scratch_bytes);
}

static bool plan(FILE *file, kn_trainer *trainer) {
    char *text = kn_trainer_plan_text(trainer);
    if (!text) return page_fail();
    fputs("<h2>Plan</h2>\n<details><summary>Steps, kernels and memory</summary>\n<pre>", file);
    html_text(file, text);
    fputs("</pre></details>\n", file);
    kn_trainer_free_text(trainer, text);
    return true;
}

/* Parts that evaluate the data again. */
static bool evaluation_parts(FILE *file, const train_page *page, training_setup *setup, kn_context *context,
                             kn_trainer *trainer) {
    const kn_dataset *dataset = setup_evaluation_data(setup);
    const uint64_t batch = learner_evaluation_batch(page->options, kn_dataset_count(dataset));
    int64_t most = evaluation_batch_most(setup, (int64_t)batch);
    progress_now("evaluating for the report");
    evaluation *metrics = calloc(1, sizeof *metrics);
    if (!metrics) return page_fail();
    kn_session *session =
        setup_evaluation(setup, context, kn_trainer_states(trainer), &page->options->common.arithmetic, true);
    bool fine = session && evaluate_samples(setup, session, dataset, most, metrics);
    if (fine && !setup->validation)
        fputs("<p>There is no validation data; the following is for the training data.</p>\n", file);
    fine = fine && page_evaluation(file, setup, dataset, metrics) &&
           page_inputs(file, setup, page->options->data, dataset, session, (uint64_t)most) &&
           page_writes(file, setup, dataset, session);
    evaluation_finish(metrics);
    free(metrics);
    kn_session_destroy(&session);
    return fine;
}

bool page_write(train_page *page, training_setup *setup, kn_context *context, kn_trainer *trainer,
                const kn_fit_result *result) {
    const char *path = page->options->outputs.report, *name = kn_model_name(setup->model);
    whole_file whole;
    if (!whole_open(&whole, path)) return false;
    FILE *file = whole.stream;
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
          "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">",
          file);
    fprintf(file, "<meta name=\"koine-training\" content=\"%s\"><title>", page->options->outputs.mark);
    html_text(file, name);
    fprintf(file, ", training report</title><style>%s</style></head><body>\n<h1>", style);
    html_text(file, name);
    fputs("</h1>\n", file);
    summary(file, page, setup, context, result);
    bool fine = curves(file, page) && evaluation_parts(file, page, setup, context, trainer) &&
                filters(file, setup, trainer);
    operators(file, page);
    memory(file, page, trainer);
    fine = fine && plan(file, trainer) && command_line(file, page->options);
    fputs("</body></html>\n", file);
    progress_clear();
    if (!whole_close(&whole, fine))
        return command_error("no report in '%s'; the model is saved, and koine eval evaluates it", path);
    command_info("report in %s", path);
    return true;
}
