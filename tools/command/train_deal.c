/* Chooses the number of shards per batch and distributes them among different devices by the measured time
 * per shard. Files store the result for resumed runs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train.h"

bool shards_choose(train_options *options, int workers, bool equal) {
    const uint64_t count = (uint64_t)workers;
    const bool power = !(count & (count - 1)), given = options->crew.shards != UINT64_MAX,
               norms = options->config.params.sync_batch_norm;
    if (norms && (!power || (given && options->crew.shards != count)))
        return command_error("--sync-batch-norm computes all shards of a batch at the same time, each on a "
                             "device or process, and there are %d; expected 2, 4, 8 and so on, and as many "
                             "--shards, or none given",
                             workers);
    if (!given) options->crew.shards = (uint64_t)kn_shard_count(workers, equal || norms, options->batch);
    if (options->crew.shards >= count) return true;
    return command_error(
        "a batch of %llu samples has %llu shards, fewer than %d workers: --batch and --shards set them",
        (unsigned long long)options->batch, (unsigned long long)options->crew.shards, workers);
}

/* The identities of the devices, in order. */
static uint64_t mark_of(kn_context *const *contexts, int count) {
    uint64_t mark = 0;
    for (int i = 0; i < count; i++) {
        const kn_device_info *device = kn_context_device(contexts[i]);
        char text[1024];
        snprintf(text, sizeof text, "%016llx %s, %s", (unsigned long long)mark, device->name, device->driver);
        mark = text_hash(text);
    }
    return mark;
}

int deal_read(const char **text, int *deal, uint64_t *dealt) {
    *dealt = 0;
    for (int count = 0; count < WORKERS_MOST; (*text)++) {
        char *end;
        const unsigned long number = strtoul(*text, &end, 10);
        if (end == *text || number > WORKER_SHARDS) return 0;
        deal[count++] = (int)number;
        *dealt += number;
        *text = end;
        if (*end != ',') return count;
    }
    return 0;
}

size_t deal_write(const int *deal, int count, char *text, size_t room) {
    size_t used = 0;
    for (int i = 0; i < count && used < room; i++)
        used += (size_t)snprintf(text + used, room - used, "%s%d", i ? "," : "", deal[i]);
    return used;
}

void deal_keep(train_options *options, kn_context *const *contexts, int count) {
    char *text = options->crew.kept_deal;
    const size_t room = sizeof options->crew.kept_deal;
    size_t used = deal_write(options->crew.deal, count, text, room);
    if (used < room)
        used += (size_t)snprintf(text + used, room - used, " on %016llx",
                                 (unsigned long long)mark_of(contexts, count));
    if (used >= room) text[0] = '\0';
}

bool deal_take(train_options *options, kn_context *const *contexts, int count) {
    if (!options->resume) return false;
    kn_safetensors_file *saved = kn_safetensors_file_open(options->resume, NULL);
    const char *at = kn_safetensors_file_metadata(saved, SHARD_COUNTS_KEY);
    int deal[WORKERS_MOST];
    uint64_t dealt;
    const bool same = at && deal_read(&at, deal, &dealt) == count && dealt == options->crew.shards &&
                      deal[0] > 0 && !strncmp(at, " on ", 4) &&
                      strtoull(at + 4, NULL, 16) == mark_of(contexts, count);
    kn_safetensors_file_destroy(&saved);
    if (!same) return false;
    memcpy(options->crew.deal, deal, (size_t)count * sizeof *deal);
    command_info("the shard counts are those of '%s', which these devices trained", options->resume);
    return true;
}

void deal_by_speed(const train_learner *learner, kn_context *const *contexts, int count, int *deal) {
    const train_options *options = learner->options;
    const training_setup *setup = learner->setup;
    const int shards = (int)options->crew.shards;
    kn_session_params session;
    kn_trainer_params params = learner_params(options, learner->samples, &session);
    kn_loader_params batches = KN_LOADER_DEFAULTS;
    double seconds[WORKERS_MOST] = {0};
    char why[600];
    batches.batch = options->batch;
    batches.bytes = true;
    batches.augmentation = &setup->augmentation;
    for (int i = 0; i < count; i++) {
        if (kn_shard_seconds(contexts[i], setup->loss.value, &params,
                             setup->train ? setup->train : setup->all, &batches, &seconds[i], why,
                             sizeof why) != KN_OK)
            command_warn("%s is left out: %s", kn_context_device(contexts[i])->name, why);
    }
    kn_deal_shards(seconds, count, shards, deal);
    for (int i = 0; i < count; i++)
        if (!deal[i] && isfinite(seconds[i]))
            command_info("%s is not used: one of %d shards takes it %.3g s, longer than the other devices "
                         "need for all",
                         kn_context_device(contexts[i])->name, shards, seconds[i]);
}
