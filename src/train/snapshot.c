/* A copy of all states of a trainer on the host: parameters, statistics, moments, the step counter. */
#include "train/trainer_private.h"

struct kn_kept_state {
    const char *name; /* lives as long as the states */
    kn_tensor_info info;
    void *data;
    size_t bytes;
    bool part; /* the data is this worker's slice of the state */
};

static kn_status no_memory(const char **problem) {
    *problem = "out of host memory for the states of the best epoch";
    return KN_ERROR_MEMORY;
}

static kn_status copy_part(kn_trainer *trainer, const char *name, const void *given, void *wanted,
                           const char **problem) {
    kn_status status = kn_states_copy_part(trainer->states, name, given, wanted, &trainer->error);
    if (status != KN_OK) *problem = trainer->error.text;
    return status;
}

static kn_status keep(kn_snapshot *snapshot, int position, const char **problem) {
    kn_trainer *trainer = snapshot->trainer;
    kn_kept_state *kept = &snapshot->kept[position];
    uint64_t bytes = 0;
    kept->name = kn_states_at(trainer->states, position, &kept->info);
    if (!kept->name || !kn_tensor_bytes(&kept->info, &bytes)) return no_memory(problem);
    kept->part = kn_states_part(trainer->states, kept->name, &bytes);
    if (bytes != kept->bytes) {
        kn_release(&trainer->host, kept->data);
        kept->data = kn_allocate(&trainer->host, (size_t)bytes, 1);
        kept->bytes = kept->data ? (size_t)bytes : 0;
        if (!kept->data) return no_memory(problem);
    }
    if (!bytes) return KN_OK;
    if (kept->part) return copy_part(trainer, kept->name, NULL, kept->data, problem);
    kn_status status = kn_states_get(trainer->states, kept->name, kept->data, kept->bytes);
    if (status != KN_OK) *problem = kn_states_error(trainer->states);
    return status;
}

kn_status kn_snapshot_take(kn_snapshot *snapshot, const char **problem) {
    kn_trainer *trainer = snapshot->trainer;
    snapshot->taken = false;
    /* Collected states of other workers would be dropped before the next step, with their names. */
    if (kn_worker_states_restore(trainer) != KN_OK) {
        *problem = trainer->error.text;
        return trainer->error.status;
    }
    int count = kn_states_count(trainer->states);
    if (count != snapshot->count) {
        kn_snapshot_finish(snapshot);
        snapshot->kept = kn_allocate(&trainer->host, (size_t)count, sizeof *snapshot->kept);
        if (!snapshot->kept && count) return no_memory(problem);
        snapshot->count = count;
    }
    for (int i = 0; i < count; i++) {
        kn_status status = keep(snapshot, i, problem);
        if (status != KN_OK) return status;
    }
    snapshot->steps = trainer->steps;
    snapshot->taken = true;
    return KN_OK;
}

static kn_status put_back(kn_trainer *trainer, const kn_kept_state *kept, const char **problem) {
    if (!kept->bytes) return KN_OK;
    if (kept->part) return copy_part(trainer, kept->name, kept->data, NULL, problem);
    kn_status status = kn_states_set(trainer->states, kept->name, &kept->info, kept->data, kept->bytes);
    if (status != KN_OK) *problem = kn_states_error(trainer->states);
    return status;
}

kn_status kn_snapshot_restore(const kn_snapshot *snapshot, const char **problem) {
    kn_trainer *trainer = snapshot->trainer;
    kn_states_parts_move(trainer->states);
    for (int i = 0; i < snapshot->count; i++) {
        kn_status status = put_back(trainer, &snapshot->kept[i], problem);
        if (status != KN_OK) return status;
    }
    trainer->steps = snapshot->steps;
    kn_trainer_recall(trainer);
    return KN_OK;
}

void kn_snapshot_finish(kn_snapshot *snapshot) {
    for (int i = 0; i < snapshot->count; i++)
        kn_release(&snapshot->trainer->host, snapshot->kept[i].data);
    if (snapshot->trainer) kn_release(&snapshot->trainer->host, snapshot->kept);
    snapshot->kept = NULL;
    snapshot->count = 0;
    snapshot->taken = false;
}
