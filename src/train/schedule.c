/* Learning rates over time. */
#include <math.h>

#include "train/train.h"

static const double pi = 3.14159265358979323846;

double kn_schedule_rate(const kn_trainer_params *params, uint64_t step) {
    double rate = params->learning_rate;
    if (step < params->warmup_steps) return rate * (double)(step + 1) / (double)params->warmup_steps;
    uint64_t since = step - params->warmup_steps;
    switch (params->schedule) {
    case KN_STEP:
        return params->step_every ? rate * pow(params->step_factor, (double)(step / params->step_every))
                                  : rate;
    case KN_COSINE: {
        uint64_t length =
            params->total_steps > params->warmup_steps ? params->total_steps - params->warmup_steps : 0;
        double share = length ? fmin(1, (double)since / (double)length) : 1;
        return rate * (params->final_share + (1 - params->final_share) * 0.5 * (1 + cos(pi * share)));
    }
    default:
        return rate;
    }
}

kn_train_scalars kn_train_scalars_of(const kn_trainer_params *params, uint64_t step) {
    double rate = kn_schedule_rate(params, step), count = (double)(step + 1);
    kn_train_scalars scalars = {.rate = rate, .root = 1, .shrink = 1 - rate * params->weight_decay};
    if (params->optimizer == KN_SGD) return scalars;
    scalars.rate = rate / (1 - pow(params->beta1, count));
    scalars.root = 1 / sqrt(1 - pow(params->beta2, count));
    return scalars;
}
