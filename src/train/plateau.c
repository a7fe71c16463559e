/* The schedule PLATEAU: the rate falls when the validation loss stops falling. Its memory is a state on the
 * host, so that it is saved to and loaded from files. */
#include <math.h>

#include "train/trainer_private.h"

enum { NUMBERS = 5 };

static bool remembers(const kn_trainer *trainer) {
    return trainer->params.schedule == KN_SCHEDULE_PLATEAU;
}

void kn_plateau_recall(kn_trainer *trainer) {
    double numbers[NUMBERS];
    kn_plateau *plateau = &trainer->plateau;
    *plateau = (kn_plateau){.fraction = 1, .lowest = INFINITY, .step = -1};
    if (remembers(trainer) && kn_states_info(trainer->states, KN_TRAIN_PLATEAU, NULL) &&
        kn_states_get(trainer->states, KN_TRAIN_PLATEAU, numbers, sizeof numbers) == KN_OK)
        *plateau = (kn_plateau){numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]};
}

bool kn_plateau_is_current(const kn_trainer *trainer) {
    return !remembers(trainer) || trainer->plateau.step == (double)trainer->steps;
}

kn_status kn_trainer_report_validation(kn_trainer *trainer, double loss) {
    if (!trainer) return KN_ERROR_MEMORY;
    if (trainer->made != KN_OK) return trainer->made;
    if (!remembers(trainer)) return KN_OK;
    const kn_trainer_params *params = &trainer->params;
    kn_plateau next = trainer->plateau;
    next.step = (double)trainer->steps;
    bool lower = loss < next.lowest * (1 - params->plateau_threshold);
    if (lower) next.lowest = loss;
    next.bad = lower ? 0 : next.bad + 1;
    if (next.cooldown > 0) {
        next.cooldown--;
        next.bad = 0;
    }
    if (next.bad > (double)params->plateau_patience) {
        next.fraction =
            fmax(next.fraction * params->step_factor, fmin(next.fraction, params->final_fraction));
        next.cooldown = (double)params->plateau_cooldown;
        next.bad = 0;
    }
    const double numbers[NUMBERS] = {next.fraction, next.lowest, next.bad, next.cooldown, next.step};
    const kn_tensor_info info = {.dtype = KN_FLOAT64, .rank = 1, .shape = {NUMBERS}};
    kn_status status = kn_states_set(trainer->states, KN_TRAIN_PLATEAU, &info, numbers, sizeof numbers);
    if (status != KN_OK) return kn_fail(&trainer->error, status, "%s", kn_states_error(trainer->states));
    trainer->plateau = next;
    return KN_OK;
}
