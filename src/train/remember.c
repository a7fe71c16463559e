/* What the training loop knows beside the trainer's states, as a state on the host, so that it goes into
 * files and comes back with them: a training that goes on in another process decides as if it had never
 * stopped. */
#include "train/trainer_private.h"

#include <math.h>

enum { NUMBERS = 8 };

kn_status kn_fit_remember(kn_trainer *trainer, const kn_fit_memory *memory) {
    const double numbers[NUMBERS] = {
        memory->judged,    memory->best.loss,  memory->best.accuracy, (double)memory->best.samples,
        memory->best_step, memory->since_best, memory->loss,          memory->samples};
    const kn_tensor_info info = {.dtype = KN_FLOAT64, .rank = 1, .shape = {NUMBERS}};
    kn_status status = kn_states_set(trainer->states, KN_FIT_MEMORY, &info, numbers, sizeof numbers);
    return status == KN_OK ? KN_OK : kn_fail(&trainer->error, status, "%s", kn_states_error(trainer->states));
}

bool kn_fit_recall(const kn_trainer *trainer, kn_fit_memory *memory) {
    double numbers[NUMBERS];
    if (!kn_state_is_there(trainer->states, KN_FIT_MEMORY) ||
        kn_states_get(trainer->states, KN_FIT_MEMORY, numbers, sizeof numbers) != KN_OK)
        return false;
    /* Whatever a file says, these are counts. */
    for (int i = 0; i < NUMBERS; i++)
        if (i != 1 && i != 2 && i != 6 && !(numbers[i] >= 0 && numbers[i] < 0x1p53)) return false;
    *memory = (kn_fit_memory){.judged = numbers[0],
                              .best = {.size = sizeof memory->best,
                                       .loss = numbers[1],
                                       .accuracy = numbers[2],
                                       .samples = (uint64_t)numbers[3]},
                              .best_step = numbers[4],
                              .since_best = numbers[5],
                              .loss = numbers[6],
                              .samples = numbers[7]};
    return true;
}
