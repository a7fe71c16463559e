/* The output of koine train --tensorboard: numbers per step and epoch, and per epoch the distributions of the
 * weights and the filters of the first layer. */
#include <math.h>
#include <stdlib.h>

#include "train.h"

bool events_open(const train_options *options, train_events *events) {
    if (!options->outputs.tensorboard) return true;
    events->file = kn_events_open(options->outputs.tensorboard, NULL);
    if (kn_events_status(events->file) == KN_OK) return true;
    return command_error("--tensorboard: %s", events->file ? kn_events_error(events->file) : "out of memory");
}

bool events_close(train_events *events) {
    bool written = !events->file || kn_events_status(events->file) == KN_OK;
    if (!written) command_fail("--tensorboard: %s", kn_events_error(events->file));
    kn_events_destroy(&events->file);
    return written;
}

void events_step(train_events *events, const kn_fit_step *step) {
    if (!events->file) return;
    kn_events_scalar(events->file, "train/loss", step->step, step->loss);
    if (isfinite(step->accuracy))
        kn_events_scalar(events->file, "train/accuracy", step->step, step->accuracy);
    kn_events_scalar(events->file, "train/learning rate", step->step, step->learning_rate);
    kn_events_scalar(events->file, "train/samples per second", step->step, step->samples_per_s);
}

void events_epoch(train_events *events, const training_setup *setup, kn_trainer *trainer,
                  const kn_fit_epoch *epoch) {
    if (!events->file) return;
    uint64_t step = kn_trainer_steps(trainer);
    kn_states *states = kn_trainer_states(trainer);
    const kn_graph *graph = kn_model_graph(setup->model);
    char tag[160];
    bool shown = false;
    kn_events_scalar(events->file, "epoch/train loss", step, epoch->loss);
    if (isfinite(epoch->accuracy))
        kn_events_scalar(events->file, "epoch/train accuracy", step, epoch->accuracy);
    if (epoch->validation.samples) {
        kn_events_scalar(events->file, "epoch/validation loss", step, epoch->validation.loss);
        if (isfinite(epoch->validation.accuracy))
            kn_events_scalar(events->file, "epoch/accuracy", step, epoch->validation.accuracy);
        if (isfinite(setup_r2(setup, &epoch->validation)))
            kn_events_scalar(events->file, "epoch/R2", step, setup_r2(setup, &epoch->validation));
    }
    for (size_t i = 0; i < kn_graph_parameter_count(graph); i++) {
        const kn_value *parameter = kn_graph_parameter_at(graph, i);
        size_t count = 0;
        float *numbers = parameter_numbers(states, parameter, &count);
        if (!numbers) continue;
        snprintf(tag, sizeof tag, "weights/%s", kn_value_name(parameter));
        kn_events_histogram(events->file, tag, step, numbers, count);
        snprintf(tag, sizeof tag, "filters/%s", kn_value_name(parameter));
        if (!shown && parameter_is_filters(parameter)) {
            int size[3];
            uint8_t *picture = filters_picture(parameter, numbers, size);
            if (picture) kn_events_image(events->file, tag, step, size[1], size[0], size[2], picture);
            free(picture);
            shown = true;
        }
        free(numbers);
    }
}
