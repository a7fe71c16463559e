/* Swaps weights and their moving averages through the host, one parameter at a time. A state records which of
 * the two is in place, so that files also record it. */
#include "train/trainer_private.h"

#define KN_TRAIN_EXCHANGED "koine.averages_used"

/* A uint32 counter; 0 if there is none. */
static uint32_t count_of(kn_states *states, const char *name) {
    uint32_t count = 0;
    bool known = kn_states_info(states, name, NULL);
    return known && kn_states_get(states, name, &count, sizeof count) == KN_OK ? count : 0;
}

uint32_t kn_average_updates(const kn_trainer *trainer) {
    return trainer->params.average > 0 ? count_of(trainer->states, KN_TRAIN_AVERAGED) : 1;
}

void kn_average_recall(kn_trainer *trainer) {
    trainer->averages_used = count_of(trainer->states, KN_TRAIN_EXCHANGED) != 0;
}

kn_status kn_average_check(kn_trainer *trainer, const char *what) {
    if (!trainer->averages_used) return KN_OK;
    return kn_fail(&trainer->error, KN_ERROR_ARGUMENT,
                   "the parameters currently hold the moving averages; call "
                   "kn_trainer_use_averages(trainer, false) before %s",
                   what);
}

/* left and right must have the same type and size. */
static kn_status exchange(kn_trainer *trainer, const char *left, const char *right,
                          const kn_tensor_info *info) {
    kn_states *states = trainer->states;
    uint64_t bytes = 0;
    if (!kn_tensor_bytes(info, &bytes) || bytes > SIZE_MAX / 2) {
        kn_fail_memory(&trainer->error, SIZE_MAX);
        return kn_fail_in(&trainer->error, "'%s'", left);
    }
    if (!bytes) return KN_OK;
    unsigned char *both = kn_allocate(&trainer->host, 2, (size_t)bytes);
    if (!both) return kn_fail_memory(&trainer->error, 2 * (size_t)bytes);
    kn_status status = kn_states_get(states, left, both, (size_t)bytes);
    if (status == KN_OK) status = kn_states_get(states, right, both + bytes, (size_t)bytes);
    if (status == KN_OK) status = kn_states_set(states, left, NULL, both + bytes, (size_t)bytes);
    if (status == KN_OK) status = kn_states_set(states, right, NULL, both, (size_t)bytes);
    kn_release(&trainer->host, both);
    return status == KN_OK ? KN_OK : kn_fail(&trainer->error, status, "%s", kn_states_error(states));
}

kn_status kn_trainer_use_averages(kn_trainer *trainer, bool use) {
    char name[KN_TRAIN_STATE_BYTES];
    kn_tensor_info info;
    if (!trainer) return KN_ERROR_MEMORY;
    if (trainer->made != KN_OK) return trainer->made;
    kn_error_clear(&trainer->error);
    kn_states *states = trainer->states;
    if (use == trainer->averages_used || (use && !count_of(states, KN_TRAIN_AVERAGED))) return KN_OK;
    kn_status status = KN_OK;
    for (size_t i = 0; i < kn_states_count(states) && status == KN_OK; i++) {
        const char *parameter = kn_states_at(states, i, &info);
        if (kn_train_state_name(parameter, KN_TRAIN_AVERAGE, name) && kn_states_info(states, name, NULL))
            status = exchange(trainer, parameter, name, &info);
    }
    if (status != KN_OK) return status;
    const uint32_t used = use;
    const kn_tensor_info scalar = {.dtype = KN_UINT32};
    status = kn_states_set(states, KN_TRAIN_EXCHANGED, &scalar, &used, sizeof used);
    if (status != KN_OK) return kn_fail(&trainer->error, status, "%s", kn_states_error(states));
    trainer->averages_used = use;
    return KN_OK;
}
