/* Per-worker states of training in rounds, such as moments, in files. Before a file is written, the first
 * worker receives the other workers' states, as states that no plan requests: koine.worker.RANK.NAME. Before
 * the first step after a file was read, each worker restores its states; with a different number of workers,
 * all continue with the first worker's states. The first worker drops received states before each step, since
 * they may be large and become outdated. */
#include <stdio.h>
#include <string.h>

#include "train/trainer_private.h"

#define PREFIX "koine.worker."
#define COUNT "koine.workers" /* the number of workers of that training, uint32 */
enum { NAME_BYTES = KN_TRAIN_STATE_BYTES + 32 };

/* Precedes the bytes of a state; an empty name ends the list. */
typedef struct header {
    char name[KN_TRAIN_STATE_BYTES];
    uint64_t bytes;
} header;

static kn_status fail_states(kn_trainer *trainer) {
    return kn_fail(&trainer->error, KN_ERROR_INTERNAL, "worker states: %s", kn_states_error(trainer->states));
}

static kn_status send(kn_trainer *trainer, const void *data, uint64_t bytes) {
    return kn_communicator_send(trainer->params.communicator, 0, data, (size_t)bytes, &trainer->error);
}

static kn_status receive(kn_trainer *trainer, int rank, void *data, uint64_t bytes) {
    return kn_communicator_receive(trainer->params.communicator, rank, data, (size_t)bytes, &trainer->error);
}

static kn_status send_state(kn_trainer *trainer, const char *name, const kn_tensor_info *info) {
    header head = {.bytes = 0};
    if (!kn_tensor_bytes(info, &head.bytes) || !head.bytes) return KN_OK;
    snprintf(head.name, sizeof head.name, "%s", name);
    void *data = kn_allocate(&trainer->host, (size_t)head.bytes, 1);
    if (!data) return kn_fail_memory(&trainer->error, (size_t)head.bytes);
    kn_status status = kn_states_get(trainer->states, name, data, (size_t)head.bytes) == KN_OK
                           ? KN_OK
                           : fail_states(trainer);
    if (status == KN_OK) status = send(trainer, &head, sizeof head);
    if (status == KN_OK) status = send(trainer, data, head.bytes);
    kn_release(&trainer->host, data);
    return status;
}

static kn_status send_states(kn_trainer *trainer) {
    const header last = {.bytes = 0};
    kn_status status = KN_OK;
    for (size_t i = 0; i < kn_states_count(trainer->states) && status == KN_OK; i++) {
        kn_tensor_info info;
        const char *name = kn_states_at(trainer->states, i, &info);
        if (name && kn_rounds_kind(trainer, name) == KN_ROUND_OWN) status = send_state(trainer, name, &info);
    }
    return status == KN_OK ? send(trainer, &last, sizeof last) : status;
}

static kn_status receive_state(kn_trainer *trainer, int rank, const header *head) {
    kn_tensor_info info;
    char name[NAME_BYTES];
    uint64_t bytes;
    if (!memchr(head->name, 0, sizeof head->name) || !kn_states_info(trainer->states, head->name, &info) ||
        !kn_tensor_bytes(&info, &bytes) || bytes != head->bytes)
        return kn_fail(&trainer->error, KN_ERROR_ARGUMENT,
                       "rank %d has a state '%.100s' of %llu bytes that rank 0 lacks; expected trainers of "
                       "the same graph with the same parameters",
                       rank, head->name, (unsigned long long)head->bytes);
    void *data = kn_allocate(&trainer->host, (size_t)bytes, 1);
    if (!data) return kn_fail_memory(&trainer->error, (size_t)bytes);
    kn_status status = receive(trainer, rank, data, bytes);
    snprintf(name, sizeof name, PREFIX "%d.%s", rank, head->name);
    if (status == KN_OK && kn_states_set(trainer->states, name, &info, data, (size_t)bytes) != KN_OK)
        status = fail_states(trainer);
    kn_release(&trainer->host, data);
    return status;
}

static kn_status receive_states(kn_trainer *trainer, int rank) {
    header head;
    kn_status status = receive(trainer, rank, &head, sizeof head);
    while (status == KN_OK && head.name[0]) {
        status = receive_state(trainer, rank, &head);
        if (status == KN_OK) status = receive(trainer, rank, &head, sizeof head);
    }
    return status;
}

kn_status kn_worker_states_collect(kn_trainer *trainer) {
    const kn_communicator *all = trainer->params.communicator;
    kn_rounds *rounds = &trainer->rounds;
    if (!trainer->params.sync_every || !all || all->ranks < 2 || rounds->collected) return KN_OK;
    kn_status status = kn_worker_states_restore(trainer);
    if (status != KN_OK) return status;
    rounds->collected = true;
    if (all->rank) return send_states(trainer);
    const kn_tensor_info scalar = {.dtype = KN_UINT32};
    const uint32_t ranks = (uint32_t)all->ranks;
    status = kn_states_set(trainer->states, COUNT, &scalar, &ranks, sizeof ranks) == KN_OK
                 ? KN_OK
                 : fail_states(trainer);
    for (int r = 1; r < all->ranks && status == KN_OK; r++)
        status = receive_states(trainer, r);
    return status;
}

/* Sets the state whose name with this worker's prefix is `kept`. */
static kn_status take_back(kn_trainer *trainer, const char *kept, const char *name,
                           const kn_tensor_info *info) {
    uint64_t bytes;
    if (!kn_tensor_bytes(info, &bytes)) return KN_OK;
    void *data = kn_allocate(&trainer->host, (size_t)bytes + 1, 1);
    if (!data) return kn_fail_memory(&trainer->error, (size_t)bytes);
    kn_status status = KN_OK;
    if (kn_states_get(trainer->states, kept, data, (size_t)bytes) != KN_OK ||
        kn_states_set(trainer->states, name, info, data, (size_t)bytes) != KN_OK)
        status = fail_states(trainer);
    kn_release(&trainer->host, data);
    return status;
}

static kn_status take_back_all(kn_trainer *trainer) {
    const kn_communicator *all = trainer->params.communicator;
    kn_states *states = trainer->states;
    kn_tensor_info info;
    char own[NAME_BYTES];
    uint32_t ranks = 0;
    kn_status status = KN_OK;
    if (kn_states_info(states, COUNT, NULL) && kn_states_get(states, COUNT, &ranks, sizeof ranks) != KN_OK)
        return fail_states(trainer);
    if (!trainer->params.sync_every || !all || ranks != (uint32_t)all->ranks) return KN_OK;
    const int length = snprintf(own, sizeof own, PREFIX "%d.", all->rank);
    for (size_t i = 0; i < kn_states_count(states) && status == KN_OK; i++) {
        const char *name = kn_states_at(states, i, &info);
        if (name && !strncmp(name, own, (size_t)length))
            status = take_back(trainer, name, name + length, &info);
    }
    return status;
}

/* Whether the state is the momentum of the changes, which this training would not continue. */
static bool is_unused(const kn_trainer *trainer, const char *name) {
    const bool moves = trainer->params.sync_every && trainer->params.outer_momentum > 0;
    return !moves && kn_rounds_kind(trainer, name) == KN_ROUND_OUTER;
}

kn_status kn_worker_states_restore(kn_trainer *trainer) {
    kn_rounds *rounds = &trainer->rounds;
    kn_states *states = trainer->states;
    const bool recalls = rounds->recalls;
    if (!recalls && !rounds->collected) return KN_OK;
    kn_status status = recalls ? take_back_all(trainer) : KN_OK;
    if (status != KN_OK) return status;
    rounds->recalls = rounds->collected = false;
    for (int i = kn_states_count(states); i-- > 0;) {
        const char *name = kn_states_at(states, i, NULL);
        if (!strncmp(name, PREFIX, strlen(PREFIX)) || !strcmp(name, COUNT) ||
            (recalls && is_unused(trainer, name)))
            kn_states_drop(states, name);
    }
    return KN_OK;
}
