/* The progress and results of koine train. */
#include <math.h>
#include <string.h>

#include "train.h"

static void log_step(FILE *log, const kn_fit_step *step) {
    fprintf(log, "{\"step\": %llu, \"epoch\": %llu, \"loss\": ", (unsigned long long)step->step,
            (unsigned long long)step->epoch);
    json_float(log, step->loss);
    if (isfinite(step->accuracy)) json_float_member(log, "accuracy", step->accuracy);
    json_float_member(log, "lr", step->learning_rate);
    json_measure_member(log, "samples_per_s", step->samples_per_s);
    fputs("}\n", log);
}

/* The remaining time, by steps or by --seconds; negative: unknown. The first step compiles, and the next few
 * are not representative. */
static double seconds_left(train_report *report, const kn_fit_step *step) {
    enum { STEPS = 5, SECONDS = 1 };
    const train_options *options = report->options;
    double left = -1, now = clock_now();
    if (!report->warm_at) {
        report->warm_since = now;
        report->warm_at = step->step;
    }
    const double steps = (double)(step->step - report->warm_at), seconds = now - report->warm_since;
    if (report->total_steps && steps >= STEPS && seconds >= SECONDS)
        left = (double)(report->total_steps - step->step) * seconds / steps;
    if (options->seconds > 0 && (left < 0 || options->seconds - step->seconds < left))
        left = options->seconds - step->seconds;
    return left;
}

void report_begin(const kn_model *model, uint64_t samples, const char *data, const kn_context *context) {
    const unsigned long long all = kn_model_parameter_elements(model);
    unsigned long long trained = 0;
    char part[32] = "";
    kn_model_weight weight = KN_MODEL_WEIGHT_DEFAULTS;
    for (size_t i = 0; kn_model_weight_at(model, i, &weight); i++)
        trained += weight.trained ? weight.elements : 0;
    if (trained && trained < all) snprintf(part, sizeof part, "%llu of ", trained);
    command_info("training %s (%s%llu parameters) on %llu samples of %s, on %s", kn_model_name(model), part,
                 all, (unsigned long long)samples, data, kn_context_device(context)->name);
}

bool report_step(void *user, const kn_fit_step *step) {
    train_report *report = user;
    const train_options *options = report->options;
    char bar[24], time[32], memory[32], epochs[32] = "", quality[80], rest[80] = "", rate[32];
    report->epoch = step->epoch;
    report->loss = step->loss;
    if (report->log) log_step(report->log, step);
    curve_add(&report->curve, step->loss);
    double left = seconds_left(report, step);
    if (left >= 0) snprintf(rest, sizeof rest, "  %s left", time_text(left, time, sizeof time));
    /* Last, so that a narrow terminal cuts it off first. */
    if (report->memory_bytes > 0)
        snprintf(rest + strlen(rest), sizeof rest - strlen(rest), "  %s",
                 bytes_text((double)report->memory_bytes, memory, sizeof memory));
    if (options->epochs) snprintf(epochs, sizeof epochs, "/%llu", (unsigned long long)options->epochs);
    setup_quality(report->setup, &report->score, "  ", quality, sizeof quality);
    rate_text(step->samples_per_s, rate, sizeof rate);
    /* Of the epoch, unless --steps ends the run. */
    const bool limited = options->steps && report->total_steps;
    const unsigned long long done = limited ? step->step : step->batch,
                             all = limited ? report->total_steps : step->batches;
    if (progress_plain_due())
        command_info("epoch %llu%s  step %llu of %llu  loss %.4f%s  %s samples/s%s",
                     (unsigned long long)step->epoch, epochs, done, all, step->loss, quality, rate, rest);
    progress_bar((double)done / (double)all, bar, sizeof bar);
    if (step->batch == step->batches)
        progress_now("epoch %llu%s %s  loss %.4f  evaluating", (unsigned long long)step->epoch, epochs, bar,
                     step->loss);
    else
        progress_line("epoch %llu%s %s  loss %.4f%s  %s samples/s%s", (unsigned long long)step->epoch, epochs,
                      bar, step->loss, quality, rate, rest);
    return !interrupted();
}

void report_validation(train_report *report, uint64_t samples, uint64_t all) {
    char bar[24], epochs[32] = "";
    const unsigned long long epoch = report->epoch, done = samples, count = all;
    if (report->options->epochs)
        snprintf(epochs, sizeof epochs, "/%llu", (unsigned long long)report->options->epochs);
    if (progress_plain_due())
        command_info("epoch %llu%s  validating: %llu of %llu samples", epoch, epochs, done, count);
    progress_bar((double)samples / (double)all, bar, sizeof bar);
    progress_line("epoch %llu%s %s  validating %llu of %llu  loss %.4f", epoch, epochs, bar, done, count,
                  report->loss);
}

bool report_epoch(void *user, const kn_fit_epoch *epoch) {
    train_report *report = user;
    char time[32], accuracy[32] = "", validation[80] = "", quality[80], epochs[32] = "";
    const kn_score *score = &epoch->validation;
    report->score = *score;
    if (report->options->epochs)
        snprintf(epochs, sizeof epochs, "/%llu", (unsigned long long)report->options->epochs);
    if (isfinite(epoch->accuracy))
        snprintf(accuracy, sizeof accuracy, "  accuracy %.2f%%", 100 * epoch->accuracy);
    if (score->samples)
        snprintf(validation, sizeof validation, "  validation loss %.4f%s", score->loss, report->setup->unit);
    setup_quality(report->setup, score, "  ", quality, sizeof quality);
    command_info("epoch %llu%s  loss %.4f%s%s%s  %s", (unsigned long long)epoch->epoch, epochs, epoch->loss,
                 accuracy, validation, quality, time_text(epoch->seconds, time, sizeof time));
    return !interrupted();
}

/* Writes measured times, only for --json: logs stay reproducible. */
static void times_json(FILE *stream, const training_setup *setup, const kn_fit_result *result) {
    json_measure_member(stream, "samples_per_s", result->samples_per_s);
    json_measure_member(stream, "opening_s", setup->opening);
    json_measure_member(stream, "training_s", result->training_seconds);
    json_measure_member(stream, "waited_s", result->data_seconds);
}

void report_end_json(FILE *stream, const training_setup *setup, const kn_fit_result *result,
                     const char *path) {
    bool validated = result->validation.samples > 0;
    fprintf(stream, "{\"event\": \"end\", \"step\": %llu, \"loss\": ", (unsigned long long)result->step);
    json_float(stream, result->epoch_loss);
    json_measure_member(stream, "train_accuracy", result->epoch_accuracy);
    json_float_member(stream, "validation_loss", validated ? result->validation.loss : NAN);
    json_measure_member(stream, "accuracy", validated ? result->validation.accuracy : NAN);
    if (isfinite(setup->variance)) json_measure_member(stream, "r2", setup_r2(setup, &result->validation));
    if (path) {
        times_json(stream, setup, result);
        json_text_member(stream, "saved", path);
    }
    fputs("}\n", stream);
}

void report_end_text(const training_setup *setup, const kn_fit_result *result, uint64_t steps_before,
                     const char *path) {
    static const char *const ends[] = {"done", "stopped early, since the validation loss no longer falls,",
                                       "stopped", "failed"};
    char quality[80], rate[32];
    uint64_t steps = result->step + result->discarded_steps;
    if (steps == steps_before)
        printf("nothing to do: %llu steps were already done", (unsigned long long)steps);
    else
        printf("%s after %llu steps", ends[result->stop_reason], (unsigned long long)steps);
    if (result->discarded_steps)
        printf("\nrestored the best epoch, after %llu steps", (unsigned long long)result->step);
    if (steps != steps_before && isfinite(result->epoch_loss))
        printf(": loss %.4f over %s epoch", result->epoch_loss,
               result->discarded_steps ? "that" : "the last");
    if (steps != steps_before && isfinite(result->epoch_accuracy))
        printf(", accuracy %.2f%%", 100 * result->epoch_accuracy);
    if (result->validation.samples > 0)
        printf(", validation loss %.4f%s", result->validation.loss, setup->unit);
    fputs(setup_quality(setup, &result->validation, ", ", quality, sizeof quality), stdout);
    if (result->samples_per_s > 0)
        printf(", %s samples/s, %.0f%% of the time waiting for data",
               rate_text(result->samples_per_s, rate, sizeof rate),
               result->training_seconds > 0 ? 100 * result->data_seconds / result->training_seconds : 0);
    printf("\nsaved to %s\n", path);
}
