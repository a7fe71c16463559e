/* koine train as one of several processes of mpirun or srun: each trains on a device, the first reports and
 * saves. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ranks.h"
#include "train.h"

enum { HOST_BYTES = 64 };
typedef char host_name[HOST_BYTES];

/* The communicator of MPI, whose abort ends this process. */
static kn_communicator of_mpi;
static int own_rank;
static host_name own_host;

static void tell_and_abort(void *user, const char *reason) {
    command_fail("rank %d on %s: %s", own_rank, own_host, reason);
    fflush(stderr);
    of_mpi.abort(user, reason);
}

/* The position of this process among those of its machine. */
static int rank_on_host(const kn_communicator *world) {
    host_name *hosts = calloc((size_t)world->ranks, sizeof *hosts);
    int before = hosts && kn_all_gather(world, own_host, hosts, sizeof *hosts) == KN_OK ? 0 : -1;
    for (int r = 0; r < world->rank && before >= 0; r++)
        before += !strcmp(hosts[r], own_host);
    free(hosts);
    return before;
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

bool world_open(train_options *options, kn_communicator *world, bool *found) {
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
    if (gethostname(own_host, sizeof own_host - 1)) snprintf(own_host, sizeof own_host, "unknown");
    own_rank = of_mpi.rank;
    *found = true;
    *world = of_mpi;
    world->abort = tell_and_abort;
    if (own_rank) follow_first(options);
    return choose_device(options, world);
}

bool world_choose_shards(train_options *options, const kn_communicator *world) {
    if (!shards_choose(options, world->ranks, true)) return false;
    command_tell("on %d processes, each batch cut into %llu shards", world->ranks,
                 (unsigned long long)options->shards);
    return true;
}

bool world_agrees(const train_learner *learner) {
    const kn_communicator *world = learner->communicator;
    const train_options *options = learner->options;
    char text[256];
    snprintf(text, sizeof text, "%s %s %s %llu %llu %llu %llu %llu %llu", kn_version_text(), options->mark,
             options->common.arithmetic.exact ? "exact" : "fast", (unsigned long long)learner->samples,
             (unsigned long long)options->batch, (unsigned long long)options->rule.accumulate,
             (unsigned long long)learner->total_steps, (unsigned long long)options->shards,
             (unsigned long long)kn_trainer_steps(learner->trainer));
    const uint64_t own = text_hash(text);
    uint64_t *all = calloc((size_t)world->ranks, sizeof *all);
    bool good = all && kn_all_gather(world, &own, all, sizeof own) == KN_OK;
    if (!good) command_fail("%s", all ? world->error(world->user) : "out of memory");
    for (int r = 1; r < world->ranks && good; r++)
        if (all[r] != all[0]) {
            good = false;
            if (!world->rank)
                command_fail("rank %d trains something else than rank 0: their versions of Koine, models, "
                             "data, options, or "
                             "the files that they go on from differ",
                             r);
        }
    free(all);
    return good;
}

void world_close(const kn_communicator *world, bool found, int status) {
    if (!found) return;
    /* The others may be waiting for this one; its reason was told. */
    if (status != EXIT_DONE) of_mpi.abort(world->user, "a rank has failed");
    ranks_close(&of_mpi);
}
