/* koine train as one of several processes of mpirun or srun: each trains on a device, the first reports and
 * saves. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ranks.h"
#include "train.h"

typedef struct rank_place {
    char host[64];
    pid_t process;
} rank_place;

/* The communicator of MPI, whose abort ends this process. */
static kn_communicator of_mpi;
/* The processes before this one on its machine. */
static pid_t *earlier;
static int earlier_count;

/* The position of this process among those of its machine; -1 after a failure. */
static int rank_on_host(const kn_communicator *world) {
    rank_place own = {.process = getpid()};
    rank_place *all = calloc((size_t)world->ranks, sizeof *all);
    earlier = calloc((size_t)world->ranks, sizeof *earlier);
    train_host(own.host, sizeof own.host);
    const bool good = all && earlier && kn_all_gather(world, &own, all, sizeof own) == KN_OK;
    for (int r = 0; r < world->rank && good; r++)
        if (!strcmp(all[r].host, own.host)) earlier[earlier_count++] = all[r].process;
    free(all);
    return good ? earlier_count : -1;
}

/* A process that was killed is gone by the time that the launcher ends the others. */
static bool an_earlier_lives(void) {
    for (int i = 0; i < earlier_count; i++)
        if (kill(earlier[i], 0) == 0) return true;
    return false;
}

/* Processes of one machine take different devices, in turn: its GPUs, or where it has none, all. */
static bool choose_device(train_options *options, const kn_communicator *world) {
    const int place = rank_on_host(world);
    if (place < 0) return command_fail("%s", of_mpi.error(of_mpi.user)) == EXIT_DONE;
    if (options->common.device) return true;
    kn_device_list *list = kn_device_list_create(NULL, NULL);
    const int count = kn_device_list_count(list);
    int usable = 0, gpus = 0;
    for (int i = 0; i < count; i++) {
        const kn_device_info *info = kn_device_list_entry(list, i);
        usable += info->usable;
        gpus += info->usable && info->type == KN_DEVICE_GPU;
    }
    const int choices = gpus ? gpus : usable;
    for (int i = 0, at = 0; i < count && choices > 1; i++) {
        const kn_device_info *info = kn_device_list_entry(list, i);
        if (!info->usable || (gpus && info->type != KN_DEVICE_GPU) || at++ != place % choices) continue;
        snprintf(options->device_names[0], WORKER_NAME, "%d", info->index);
        options->common.device = options->device_names[0];
    }
    kn_device_list_destroy(&list);
    return true;
}

/* This process writes no files, and says only what goes wrong. */
static void follow_first(train_options *options) {
    options->follows = true;
    options->log = options->report = options->trace = options->tensorboard = options->run = NULL;
    options->common.quiet = true;
    options->common.json = false;
}

bool world_open(train_options *options, train_watch *watch, kn_communicator *world, bool *found) {
    char reason[512] = "";
    *found = false;
    if (ranks_of_environment(NULL) < 2 || precompiling()) return true;
    if (options->devices || options->check || options->common.pin || options->in_sequence)
        return command_fail(
                   "this is one of %d processes that train one model, each on a device: %s is for one alone",
                   ranks_of_environment(NULL),
                   options->devices       ? "--devices"
                   : options->check       ? "--check"
                   : options->in_sequence ? "--in-sequence"
                                          : "--pin") == EXIT_DONE;
    of_mpi = (kn_communicator){.size = sizeof of_mpi};
    if (ranks_open(&of_mpi, reason, sizeof reason) != KN_OK) return command_fail("%s", reason) == EXIT_DONE;
    *found = true;
    watch->processes = true;
    watch->another_tells = an_earlier_lives;
    *world = watch_rank(watch, &of_mpi, NULL);
    if (of_mpi.rank) follow_first(options);
    return choose_device(options, world);
}

bool world_choose_shards(train_options *options, const kn_communicator *world) {
    if (!shards_choose(options, world->ranks, true)) return false;
    command_tell("on %d processes, each batch cut into %llu shards", world->ranks,
                 (unsigned long long)options->shards);
    return true;
}

bool world_choose_part(train_learner *learner) {
    const kn_communicator *world = learner->communicator;
    train_options *options = learner->options;
    uint64_t *all = calloc((size_t)world->ranks, sizeof *all), least = options->part;
    bool good = all && kn_all_gather(world, &options->part, all, sizeof *all) == KN_OK;
    if (!good) command_fail("%s", all ? world->error(world->user) : "out of memory");
    for (int r = 0; r < world->ranks && good; r++)
        if (all[r] && (!least || all[r] < least)) least = all[r];
    free(all);
    if (!good || least == options->part) return good;
    options->part = least;
    return learner_open(learner);
}

bool world_agrees(const train_learner *learner) {
    const kn_communicator *world = learner->communicator;
    const train_options *options = learner->options;
    char text[400];
    snprintf(text, sizeof text, "%s %s %s %s %s %s %s %llu %llu %llu %llu %llu %llu %llu", kn_version_text(),
             options->mark, options->common.arithmetic.exact ? "exact" : "fast",
             options->sync_batch_norm ? "sync-batch-norm" : "",
             options->shard_optimizer ? "shard-optimizer" : "", kn_dtype_name(options->gradient_type),
             options->sum_any_order ? "mpi" : "tree", (unsigned long long)learner->samples,
             (unsigned long long)options->part, (unsigned long long)options->batch,
             (unsigned long long)options->rule.accumulate, (unsigned long long)learner->total_steps,
             (unsigned long long)options->shards, (unsigned long long)kn_trainer_steps(learner->trainer));
    const uint64_t own = text_hash(text);
    uint64_t *all = calloc((size_t)world->ranks, sizeof *all);
    bool good = all && kn_all_gather(world, &own, all, sizeof own) == KN_OK;
    if (!good) command_fail("%s", all ? world->error(world->user) : "out of memory");
    int other = 1;
    while (good && other < world->ranks && all[other] == all[0])
        other++;
    if (good && other < world->ranks) {
        good = false;
        if (!world->rank)
            command_fail("rank %d trains something else than rank 0: their versions of Koine, models, data, "
                         "options, or the files that they go on from differ",
                         other);
        /* No rank ends the others before the first has told it. */
        kn_all_gather(world, &own, all, sizeof own);
    }
    free(all);
    return good;
}

void world_close(bool found, int status) {
    if (!found) return;
    /* The others may be waiting for this one; its reason was told. */
    if (status != EXIT_DONE) of_mpi.abort(of_mpi.user, "a rank has failed");
    free(earlier);
    ranks_close(&of_mpi);
}
