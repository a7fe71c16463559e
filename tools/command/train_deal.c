/* Chooses the number of shards per batch and distributes them among different devices by the measured time
 * per shard. Files store the result for resumed runs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "batch.h"
#include "train.h"

enum { USUAL_SHARDS = 16, TIMED = 3 };

bool shards_choose(train_options *options, int workers, bool equal) {
    const uint64_t count = (uint64_t)workers;
    const bool power = !(count & (count - 1)), given = options->shards != UINT64_MAX;
    if (options->sync_batch_norm && (!power || (given && options->shards != count)))
        return command_error("--sync-batch-norm computes all shards of a batch at the same time, each on a "
                             "device or process, and there are %d; expected 2, 4, 8 and so on, and as many "
                             "--shards, or none given",
                             workers);
    if (!given) {
        options->shards = power && (equal || options->sync_batch_norm) ? count : USUAL_SHARDS;
        while (options->shards < count)
            options->shards *= 2;
        while (options->shards > options->batch)
            options->shards /= 2;
    }
    if (options->shards >= count) return true;
    return command_error(
        "a batch of %llu samples has %llu shards, fewer than %d workers: --batch and --shards set "
        "them",
        (unsigned long long)options->batch, (unsigned long long)options->shards, workers);
}

/* Seconds per training step on `batch` samples; if the device cannot run it, reports why and returns
 * infinity. */
static double time_step(const train_learner *learner, kn_context *context, uint64_t batch) {
    const training_setup *setup = learner->setup;
    kn_session_params session;
    kn_trainer_params params = learner_params(learner->options, learner->samples, &session);
    params.shards = 1;
    params.shard_counts = NULL;
    params.sync_every = 0;
    kn_trainer *trainer = kn_trainer_create(context, setup->loss.value, &params);
    kn_loader_params how = KN_LOADER_DEFAULTS;
    how.batch = batch;
    how.bytes = true;
    how.augmentation = &setup->augmentation;
    kn_loader *loader = kn_loader_create(setup->train ? setup->train : setup->all, &how);
    kn_batch one = KN_BATCH_DEFAULTS;
    double loss, least = INFINITY;
    bool good = kn_trainer_status(trainer) == KN_OK && kn_loader_next(loader, &one) == KN_OK;
    for (int i = 0; i <= TIMED && good; i++) { /* the first step compiles */
        const double begin = clock_now();
        good = kn_trainer_step(trainer, (int64_t)one.count, one.feeds, one.feed_count, &loss) == KN_OK;
        if (i) least = fmin(least, clock_now() - begin);
    }
    if (!good)
        command_warn("%s is left out: %s", kn_context_device(context)->name,
                     kn_loader_status(loader) == KN_OK ? kn_trainer_error(trainer) : kn_loader_error(loader));
    kn_loader_destroy(&loader);
    kn_trainer_destroy(&trainer);
    return good ? least : INFINITY;
}

/* Assigns each shard to the device that would finish it first. */
static void deal_shards(const double *seconds, int count, int shards, int *deal) {
    memset(deal, 0, (size_t)count * sizeof *deal);
    deal[0] = 1; /* the first device reports and saves */
    for (int dealt = 1; dealt < shards; dealt++) {
        int next = 0;
        for (int i = 1; i < count; i++)
            if ((deal[i] + 1) * seconds[i] < (deal[next] + 1) * seconds[next]) next = i;
        deal[next]++;
    }
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
    char *text = options->kept_deal;
    const size_t room = sizeof options->kept_deal;
    size_t used = deal_write(options->deal, count, text, room);
    if (used < room)
        used += (size_t)snprintf(text + used, room - used, " on %016llx",
                                 (unsigned long long)mark_of(contexts, count));
    if (used >= room) text[0] = '\0';
}

bool deal_take(train_options *options, kn_context *const *contexts, int count) {
    if (!options->resume) return false;
    kn_safetensors_file *saved = kn_safetensors_file_open(options->resume, NULL);
    const char *at = kn_safetensors_file_metadata(saved, DEAL_KEY);
    int deal[WORKERS_MOST];
    uint64_t dealt;
    const bool same = at && deal_read(&at, deal, &dealt) == count && dealt == options->shards &&
                      deal[0] > 0 && !strncmp(at, " on ", 4) &&
                      strtoull(at + 4, NULL, 16) == mark_of(contexts, count);
    kn_safetensors_file_destroy(&saved);
    if (!same) return false;
    memcpy(options->deal, deal, (size_t)count * sizeof *deal);
    command_info("the shard counts are those of '%s', which these devices trained", options->resume);
    return true;
}

void deal_by_speed(const train_learner *learner, kn_context *const *contexts, int count, int *deal) {
    const train_options *options = learner->options;
    const int shards = (int)options->shards;
    const uint64_t batch = options->batch < learner->samples ? options->batch : learner->samples;
    double seconds[WORKERS_MOST] = {0};
    for (int i = 0; i < count; i++)
        seconds[i] = time_step(learner, contexts[i], (batch + options->shards - 1) / options->shards);
    deal_shards(seconds, count, shards, deal);
    for (int i = 0; i < count; i++)
        if (!deal[i] && isfinite(seconds[i]))
            command_info("%s is not used: one of %d shards takes it %.3g s, longer than the other devices "
                         "need for all",
                         kn_context_device(contexts[i])->name, shards, seconds[i]);
}
