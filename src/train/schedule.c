/* Learning rates over time, and the scalars that the host sets before each step. */
#include <math.h>
#include <stdio.h>

#include "train/optimizer.h"

static const double pi = 3.14159265358979323846;

/* From 1 at 0 to 0 at 1. */
static double half_cosine(double fraction) {
    return 0.5 * (1 + cos(pi * fraction));
}

/* The number of updates from the warm-up to total_steps. */
static double length_of(const kn_trainer_params *params) {
    return params->total_steps > params->warmup_steps ? (double)(params->total_steps - params->warmup_steps)
                                                      : 0;
}

/* The completed fraction of these updates; 1 if there are none. */
static double fraction_done(const kn_trainer_params *params, uint64_t since) {
    double length = length_of(params);
    return length > 0 ? fmin(1, (double)since / length) : 1;
}

/* The completed fraction of the cosine that contains update `since`. */
static double fraction_of_restart(const kn_trainer_params *params, uint64_t since) {
    double at = (double)since, length = (double)params->restart_every, factor = params->restart_factor;
    if (factor == 1) return fmod(at, length) / length;
    double before = floor(log(at / length * (factor - 1) + 1) / log(factor));
    double begin = length * (pow(factor, before) - 1) / (factor - 1), own = length * pow(factor, before);
    /* The logarithm may be off by a rounding error at the start of a cosine. */
    if (at < begin) {
        own /= factor;
        begin -= own;
    } else if (at >= begin + own) {
        begin += own;
        own *= factor;
    }
    return (at - begin) / own;
}

/* Two half cosines, up to the rate and down from it; the last update has the lowest rate. */
static double one_cycle(const kn_trainer_params *params, uint64_t since) {
    double first = 1 / params->cycle_divisor, last = first / params->cycle_final_divisor;
    double length = length_of(params), top = params->cycle_rise * length - 1, end = length - 1;
    double at = (double)since;
    if (at >= end) return last;
    if (at <= top) return top > 0 ? 1 + (first - 1) * half_cosine(at / top) : 1;
    return last + (1 - last) * half_cosine((at - top) / (end - top));
}

static double steps_down(const kn_trainer_params *params, uint64_t update) {
    size_t passed = 0;
    while (passed < params->milestone_count && update >= params->milestones[passed])
        passed++;
    return pow(params->step_factor, (double)passed);
}

double kn_schedule_rate(const kn_trainer_params *params, uint64_t update) {
    double rate = params->learning_rate, end = params->final_fraction;
    if (update < params->warmup_steps) return rate * (double)(update + 1) / (double)params->warmup_steps;
    uint64_t since = update - params->warmup_steps;
    double every = params->step_every ? (double)params->step_every : 1;
    switch (params->schedule) {
    case KN_SCHEDULE_STEP:
        if (!params->step_every) return rate;
        return rate * pow(params->step_factor, (double)(update / params->step_every));
    case KN_SCHEDULE_COSINE:
        return rate * (end + (1 - end) * half_cosine(fraction_done(params, since)));
    case KN_SCHEDULE_MULTI_STEP:
        return rate * steps_down(params, update);
    case KN_SCHEDULE_EXPONENTIAL:
        return rate * pow(params->step_factor, (double)since / every);
    case KN_SCHEDULE_COSINE_RESTARTS:
        return rate * (end + (1 - end) * half_cosine(fraction_of_restart(params, since)));
    case KN_SCHEDULE_ONE_CYCLE:
        return rate * one_cycle(params, since);
    case KN_SCHEDULE_POLYNOMIAL:
        return rate * (end + (1 - end) * pow(1 - fraction_done(params, since), params->power));
    default:
        return rate;
    }
}

/* ---- scalars -------------------------------------------------------------------------------- */

void kn_train_scalar_name(kn_train_scalar scalar, int setting, char name[KN_TRAIN_NAME_BYTES]) {
    static const char *const kinds[KN_TRAIN_SCALARS] = {
        [KN_TRAIN_RATE] = "rate",       [KN_TRAIN_SHRINK] = "shrink",   [KN_TRAIN_DECAY] = "decay",
        [KN_TRAIN_ROOT] = "root",       [KN_TRAIN_MEAN] = "mean",       [KN_TRAIN_GAIN] = "gain",
        [KN_TRAIN_FIRST] = "first",     [KN_TRAIN_WAIT] = "wait",       [KN_TRAIN_WEIGHT] = "weight",
        [KN_TRAIN_RATIO] = "ratio",     [KN_TRAIN_COUNTED] = "counted", [KN_TRAIN_MORE] = "more",
        [KN_TRAIN_FOLLOWS] = "follows", [KN_TRAIN_HOLDS] = "holds",     [KN_TRAIN_KEPT1] = "kept1",
        [KN_TRAIN_FRESH1] = "fresh1",   [KN_TRAIN_KEPT2] = "kept2",     [KN_TRAIN_FRESH2] = "fresh2",
    };
    if (setting)
        snprintf(name, KN_TRAIN_NAME_BYTES, "koine.%s.%d", kinds[scalar], setting);
    else
        snprintf(name, KN_TRAIN_NAME_BYTES, "koine.%s", kinds[scalar]);
}

void kn_train_scalars_of(const kn_trainer_params *params, const kn_update_setting *setting,
                         const kn_train_moment *moment, double scalars[KN_TRAIN_SCALARS]) {
    uint64_t update = moment->step / params->accumulate, part = moment->step % params->accumulate;
    double rate = kn_schedule_rate(params, update) * moment->plateau * setting->rate_factor,
           count = (double)(update + 1);
    double entered = 1 - pow(setting->momentum, count), used = rate; /* of the mean gradient, so far */
    const kn_rate_use use = kn_optimizer_row_of(params->optimizer)->rate;
    if (use == KN_RATE_CORRECTED)
        used = rate / entered;
    else if (use == KN_RATE_DECAYED)
        used = rate / (1 + (double)update * params->rate_decay);
    scalars[KN_TRAIN_RATE] = used;
    scalars[KN_TRAIN_SHRINK] = 1 - rate * setting->weight_decay;
    scalars[KN_TRAIN_DECAY] = setting->weight_decay;
    scalars[KN_TRAIN_ROOT] = 1 / sqrt(1 - pow(setting->beta2, count));
    scalars[KN_TRAIN_MEAN] = 1 / entered;
    scalars[KN_TRAIN_KEPT1] = setting->momentum;
    scalars[KN_TRAIN_FRESH1] = 1 - setting->momentum;
    scalars[KN_TRAIN_KEPT2] = setting->beta2;
    scalars[KN_TRAIN_FRESH2] = 1 - setting->beta2;
    scalars[KN_TRAIN_GAIN] = update ? 1 - params->dampening : 1;
    scalars[KN_TRAIN_FIRST] = part == 0;
    scalars[KN_TRAIN_WAIT] = part + 1 < params->accumulate;
    scalars[KN_TRAIN_WEIGHT] = moment->run.weight;
    scalars[KN_TRAIN_RATIO] = moment->run.ratio;
    scalars[KN_TRAIN_COUNTED] = moment->run.weight > 0;
    scalars[KN_TRAIN_MORE] = moment->run.more;
    scalars[KN_TRAIN_FOLLOWS] = moment->run.part > 0;
    scalars[KN_TRAIN_HOLDS] = moment->run.holds;
}
