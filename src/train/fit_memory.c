/* The progress of the training loop that is not in the trainer's states, stored as a state on the host, so
 * that it is saved to and loaded from files: a run that resumes in another process continues as if it had not
 * been interrupted. */
#include "train/trainer_private.h"

#include <math.h>

enum { NUMBERS = 8 };

static kn_status set_numbers(kn_trainer *trainer, const char *name, const double *numbers, int count) {
    const kn_tensor_info info = {.dtype = KN_FLOAT64, .rank = 1, .shape = {count}};
    const size_t bytes = (size_t)count * sizeof *numbers;
    kn_status status = kn_states_set(trainer->states, name, &info, numbers, bytes);
    return status == KN_OK ? KN_OK : kn_fail(&trainer->error, status, "%s", kn_states_error(trainer->states));
}

static bool get_numbers(const kn_trainer *trainer, const char *name, double *numbers, int count) {
    return kn_states_info(trainer->states, name, NULL) &&
           kn_states_get(trainer->states, name, numbers, (size_t)count * sizeof *numbers) == KN_OK;
}

/* Accepts any number that a file may contain. */
static bool is_count(double number) {
    return number >= 0 && number < 0x1p53;
}

kn_status kn_fit_remember(kn_trainer *trainer, const kn_fit_memory *memory) {
    const double numbers[NUMBERS] = {
        memory->evaluated, memory->best.loss,  memory->best.accuracy, (double)memory->best.samples,
        memory->best_step, memory->since_best, memory->loss,          memory->samples};
    /* A separate state, so that files without it can also be read. */
    const double accuracy[2] = {memory->right, memory->counted};
    kn_status status = set_numbers(trainer, KN_FIT_MEMORY, numbers, NUMBERS);
    if (status != KN_OK || (!memory->counted && !kn_states_info(trainer->states, KN_FIT_ACCURACY, NULL)))
        return status;
    return set_numbers(trainer, KN_FIT_ACCURACY, accuracy, 2);
}

bool kn_fit_recall(const kn_trainer *trainer, kn_fit_memory *memory) {
    double numbers[NUMBERS], accuracy[2];
    if (!get_numbers(trainer, KN_FIT_MEMORY, numbers, NUMBERS)) return false;
    for (int i = 0; i < NUMBERS; i++)
        if (i != 1 && i != 2 && i != 6 && !is_count(numbers[i])) return false;
    const bool counted =
        get_numbers(trainer, KN_FIT_ACCURACY, accuracy, 2) && is_count(accuracy[0]) && is_count(accuracy[1]);
    *memory = (kn_fit_memory){.evaluated = numbers[0],
                              .best = {.size = sizeof memory->best,
                                       .loss = numbers[1],
                                       .accuracy = numbers[2],
                                       .samples = (uint64_t)numbers[3]},
                              .best_step = numbers[4],
                              .since_best = numbers[5],
                              .loss = numbers[6],
                              .samples = numbers[7],
                              .right = counted ? accuracy[0] : 0,
                              .counted = counted ? accuracy[1] : 0};
    return true;
}
