/* What koine train --tensorboard writes: numbers of each step and epoch, and of each epoch how the weights
 * are distributed and what the filters of the first layer look like. */
#include <math.h>
#include <stdlib.h>

#include "train.h"

bool events_open(const train_options *options, train_events *events) {
    if (!options->tensorboard) return true;
    events->file = kn_events_open(options->tensorboard, NULL);
    if (kn_events_status(events->file) == KN_OK) return true;
    command_fail("--tensorboard: %s", events->file ? kn_events_error(events->file) : "out of memory");
    return false;
}

bool events_close(train_events *events) {
    bool written = !events->file || kn_events_status(events->file) == KN_OK;
    if (!written) command_fail("--tensorboard: %s", kn_events_error(events->file));
    kn_events_close(&events->file);
    return written;
}

void events_step(train_events *events, const kn_fit_step *step) {
    if (!events->file) return;
    kn_events_scalar(events->file, "train/loss", step->step, step->loss);
    kn_events_scalar(events->file, "train/learning rate", step->step, step->rate);
    kn_events_scalar(events->file, "train/samples per second", step->step, step->samples_per_s);
}

/* ---- weights ---------------------------------------------------------------------------------------- */

/* The numbers of a parameter, to be freed; NULL where there are none to show. */
static float *numbers_of(kn_states *states, const kn_value *parameter, size_t *count) {
    size_t elements = 1;
    if (kn_value_dtype(parameter) != KN_FLOAT32) return NULL;
    for (int d = 0; d < kn_value_rank(parameter); d++) {
        int64_t length = kn_value_dimension(parameter, d);
        if (length <= 0 || elements > SIZE_MAX / sizeof(float) / (size_t)length) return NULL;
        elements *= (size_t)length;
    }
    float *numbers = malloc(elements * sizeof *numbers);
    *count = elements;
    if (numbers &&
        kn_states_get(states, kn_value_name(parameter), numbers, elements * sizeof *numbers) == KN_OK)
        return numbers;
    free(numbers);
    return NULL;
}

enum { FILTERS = 64, ZOOM = 6, GAP = 2 };

/* Filters as small pictures beside one another; weight is (O,C,H,W) with C 1 or 3. */
static void show_filters(train_events *events, const char *name, uint64_t step, const float *weight,
                         const kn_value *parameter) {
    int64_t all = kn_value_dimension(parameter, 0), shape[3];
    for (int d = 0; d < 3; d++)
        shape[d] = kn_value_dimension(parameter, d + 1);
    int channels = (int)shape[0], height = (int)shape[1], width = (int)shape[2],
        count = all < FILTERS ? (int)all : FILTERS, columns = (int)ceil(sqrt(count)),
        rows = (count + columns - 1) / columns, wide = columns * (width * ZOOM + GAP) + GAP,
        high = rows * (height * ZOOM + GAP) + GAP;
    size_t pixels = (size_t)wide * (size_t)high * (size_t)channels, plane = (size_t)height * (size_t)width;
    uint8_t *picture = calloc(pixels, 1);
    float most = 1e-30f;
    for (size_t i = 0; i < (size_t)count * (size_t)channels * plane; i++)
        if (isfinite(weight[i])) most = fmaxf(most, fabsf(weight[i]));
    for (int o = 0; picture && o < count; o++)
        for (int c = 0; c < channels; c++)
            for (int y = 0; y < height * ZOOM; y++)
                for (int x = 0; x < width * ZOOM; x++) {
                    float number = weight[((size_t)o * (size_t)channels + (size_t)c) * plane +
                                          (size_t)(y / ZOOM) * (size_t)width + (size_t)(x / ZOOM)];
                    size_t down = (size_t)(o / columns * (height * ZOOM + GAP) + GAP + y),
                           right = (size_t)(o % columns * (width * ZOOM + GAP) + GAP + x);
                    /* Grey is 0. */
                    if (isfinite(number))
                        picture[(down * (size_t)wide + right) * (size_t)channels + (size_t)c] =
                            (uint8_t)(127.5f + 127.4f * number / most);
                }
    if (picture) kn_events_image(events->file, name, step, wide, high, channels, picture);
    free(picture);
}

static bool has_filters(const kn_value *parameter) {
    if (kn_value_rank(parameter) != 4) return false;
    int64_t channels = kn_value_dimension(parameter, 1), height = kn_value_dimension(parameter, 2),
            width = kn_value_dimension(parameter, 3);
    return (channels == 1 || channels == 3) && height > 1 && height <= 32 && width > 1 && width <= 32;
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
    if (epoch->validation.samples) {
        kn_events_scalar(events->file, "epoch/validation loss", step, epoch->validation.loss);
        if (isfinite(epoch->validation.accuracy))
            kn_events_scalar(events->file, "epoch/accuracy", step, epoch->validation.accuracy);
        if (isfinite(setup_r2(setup, &epoch->validation)))
            kn_events_scalar(events->file, "epoch/R2", step, setup_r2(setup, &epoch->validation));
    }
    for (int i = 0; i < kn_graph_parameter_count(graph); i++) {
        const kn_value *parameter = kn_graph_parameter(graph, i);
        size_t count = 0;
        float *numbers = numbers_of(states, parameter, &count);
        if (!numbers) continue;
        snprintf(tag, sizeof tag, "weights/%s", kn_value_name(parameter));
        kn_events_histogram(events->file, tag, step, numbers, count);
        snprintf(tag, sizeof tag, "filters/%s", kn_value_name(parameter));
        if (!shown && has_filters(parameter)) {
            show_filters(events, tag, step, numbers, parameter);
            shown = true;
        }
        free(numbers);
    }
}
