/* koine train as one of several mpirun or srun processes: each trains on one or more devices; the first
 * reports and saves. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ranks.h"
#include "train.h"

typedef struct rank_place {
    char host[64];
    pid_t process;
    uint64_t devices; /* identifies its list of devices; 0: none */
} rank_place;

/* Among the processes on this machine: the place of this process, and the processes with the same device
 * list. */
typedef struct host_place {
    int number, same_number, same_count;
} host_place;

/* The MPI communicator; aborting it ends this process. */
static kn_communicator of_mpi;
/* The lower-ranked processes on its machine. */
static pid_t *earlier;
static int earlier_count;

/* A hash of --devices and of the devices that this process can see: a launcher may hide some. */
static uint64_t mark_of_devices(const train_options *options) {
    if (!options->crew.device_count) return 0;
    kn_device_list *list = kn_device_list_create(NULL, NULL);
    uint64_t mark = 1;
    for (int i = 0; i < options->crew.device_count + (int)kn_device_list_count(list); i++) {
        const kn_device_info *info = kn_device_list_at(list, i - options->crew.device_count);
        char text[512];
        snprintf(text, sizeof text, "%016llx %s %s %s", (unsigned long long)mark,
                 info ? info->name : options->crew.device_names[i], info ? info->platform : "",
                 info ? info->identity : "");
        mark = text_hash(text);
    }
    kn_device_list_destroy(&list);
    return mark ? mark : 1;
}

void *world_gather(const kn_communicator *world, const void *own, size_t bytes) {
    void *all = malloc((size_t)(world ? world->ranks : 1) * bytes);
    if (all && !world) return memcpy(all, own, bytes);
    if (all && kn_all_gather(world, own, all, bytes) == KN_OK) return all;
    command_fail("%s", all ? world->error(world->user) : "out of memory");
    free(all);
    return NULL;
}

static bool find_place(const train_options *options, const kn_communicator *world, host_place *place) {
    rank_place own = {.process = getpid(), .devices = mark_of_devices(options)};
    train_host(own.host, sizeof own.host);
    earlier = calloc((size_t)world->ranks, sizeof *earlier);
    if (!earlier) return command_error("out of memory");
    rank_place *all = world_gather(world, &own, sizeof own);
    if (!all) return false;
    for (int r = 0; r < world->ranks; r++) {
        if (strcmp(all[r].host, own.host) != 0) continue;
        const bool before = r < world->rank, same = all[r].devices == own.devices;
        if (before) earlier[earlier_count++] = all[r].process;
        place->number += before;
        place->same_number += before && same;
        place->same_count += same;
    }
    free(all);
    return true;
}

/* If a process was killed, it no longer exists when the launcher ends the others. */
static bool an_earlier_lives(void) {
    for (int i = 0; i < earlier_count; i++)
        if (kill(earlier[i], 0) == 0) return true;
    return false;
}

/* Distribute --devices among the processes on a machine with the same list in order: several devices per
 * process or, if there are more processes than devices, several processes per device. */
static void share_devices(train_options *options, const host_place *place) {
    const int count = options->crew.device_count, sharers = place->same_count;
    if (count < sharers)
        command_info("%d processes of this machine share %d device%s", sharers, count, count == 1 ? "" : "s");
    int kept = 0;
    for (int i = 0; i < count; i++) {
        const bool own =
            count < sharers ? i == place->same_number % count : i % sharers == place->same_number;
        if (!own) continue;
        if (kept != i) memcpy(options->crew.device_names[kept], options->crew.device_names[i], WORKER_NAME);
        kept++;
    }
    options->crew.device_count = kept;
    options->common.device = options->crew.device_names[0];
}

/* Distribute the devices of a machine among its processes in turn: its GPUs, or all devices if it has
 * none. */
static void choose_device(train_options *options, const host_place *place) {
    if (options->common.device) return;
    kn_device_list *list = kn_device_list_create(NULL, NULL);
    const int count = kn_device_list_count(list);
    int usable = 0, gpus = 0;
    for (int i = 0; i < count; i++) {
        const kn_device_info *info = kn_device_list_at(list, i);
        usable += info->usable;
        gpus += info->usable && info->type == KN_DEVICE_GPU;
    }
    const int choices = gpus ? gpus : usable;
    for (int i = 0, at = 0; i < count && choices > 1; i++) {
        const kn_device_info *info = kn_device_list_at(list, i);
        if (!info->usable || (gpus && info->type != KN_DEVICE_GPU) || at++ != place->number % choices)
            continue;
        snprintf(options->crew.device_names[0], WORKER_NAME, "%d", info->index);
        options->common.device = options->crew.device_names[0];
    }
    kn_device_list_destroy(&list);
}

/* This process writes no files and prints only errors. */
static void follow_first(train_options *options) {
    options->crew.follows = true;
    options->outputs.log = options->outputs.report = options->outputs.trace = options->outputs.tensorboard =
        options->outputs.run = NULL;
    options->common.quiet = true;
    options->common.json = false;
}

bool world_open(train_options *options, train_watch *watch, train_world *world) {
    char reason[512] = "";
    if (ranks_of_environment(NULL) < 2 || precompiling()) return true;
    if (options->check || options->common.pin || options->in_sequence)
        return command_error("this is one of %d processes that train one model, which %s does not support",
                             ranks_of_environment(NULL),
                             options->check         ? "--check"
                             : options->in_sequence ? "--in-sequence"
                                                    : "--pin");
    of_mpi = (kn_communicator){.size = sizeof of_mpi};
    if (ranks_open(&of_mpi, reason, sizeof reason) != KN_OK) return command_error("%s", reason);
    world->found = true;
    world->all = of_mpi;
    watch->processes = true;
    watch->another_reports = an_earlier_lives;
    if (of_mpi.rank) follow_first(options);
    host_place place = {0};
    if (!find_place(options, &of_mpi, &place)) return false;
    if (options->crew.devices)
        share_devices(options, &place);
    else
        choose_device(options, &place);
    return true;
}

/* Data that each process sends to all others. */
typedef struct rank_workers {
    uint64_t device; /* the name of its first device */
    int count;
    bool equal; /* all its devices have that name */
} rank_workers;

static bool count_workers(train_world *world, kn_context *const *contexts, int count) {
    const char *name = kn_context_device(contexts[0])->name;
    rank_workers own = {.device = text_hash(name), .count = count, .equal = true};
    for (int i = 1; i < count; i++)
        own.equal = own.equal && !strcmp(kn_context_device(contexts[i])->name, name);
    rank_workers *all = world_gather(&world->all, &own, sizeof own);
    if (!all) return false;
    world->equal = true;
    for (int r = 0; r < world->all.ranks; r++) {
        world->workers += all[r].count;
        if (all[r].count > world->most) world->most = all[r].count;
        world->equal = world->equal && all[r].equal && all[r].device == all[0].device;
    }
    free(all);
    return true;
}

bool world_choose_shards(train_options *options, train_world *world, kn_context *const *contexts, int count) {
    if (!count_workers(world, contexts, count)) return false;
    if (options->crew.dealt && options->crew.deal_count != world->workers)
        return command_error(
            "--shard-counts has %d numbers for %d devices of %d processes; expected one for each",
            options->crew.deal_count, world->workers, world->all.ranks);
    if (!shards_choose(options, world->workers, world->equal)) return false;
    char devices[64] = "";
    if (world->most > 1) snprintf(devices, sizeof devices, " with %d devices", world->workers);
    command_info("on %d processes%s, each batch split into %llu shards%s%s", world->all.ranks, devices,
                 (unsigned long long)options->crew.shards, options->crew.dealt ? ", counts " : "",
                 options->crew.dealt ? options->crew.dealt : "");
    return true;
}

bool world_choose_part(const train_world *own_world, train_learner *learner) {
    const kn_communicator *world = &own_world->all;
    if (!own_world->found) return true;
    train_options *options = learner->options;
    uint64_t *all = world_gather(world, &options->part, sizeof *all), least = options->part;
    if (!all) return false;
    for (int r = 0; r < world->ranks; r++)
        if (all[r] && (!least || all[r] < least)) least = all[r];
    free(all);
    if (least == options->part) return true;
    options->part = least;
    return learner_open(learner);
}

bool world_agrees(const train_world *own_world, const train_learner *learner) {
    const kn_communicator *world = &own_world->all;
    const train_options *options = learner->options;
    char text[700];
    if (!own_world->found) return true;
    snprintf(
        text, sizeof text, "%s %s %.300s %s %s %s %s %s %llu %.9g %.9g %llu %llu %llu %llu %llu %llu %llu",
        kn_version_text(), options->outputs.mark, options->crew.dealt ? options->crew.dealt : "",
        options->common.arithmetic.exact ? "exact" : "fast",
        options->config.params.sync_batch_norm ? "sync-batch-norm" : "",
        options->config.params.shard_optimizer ? "shard-optimizer" : "",
        kn_dtype_name(options->config.params.gradient_dtype),
        options->config.params.sum_any_order ? "mpi" : "tree",
        (unsigned long long)options->config.params.sync_every, options->how.outer_rate,
        options->how.outer_momentum, (unsigned long long)learner->samples, (unsigned long long)options->part,
        (unsigned long long)options->batch, (unsigned long long)options->how.accumulate,
        (unsigned long long)learner->total_steps, (unsigned long long)options->crew.shards,
        (unsigned long long)kn_trainer_steps(learner->trainer));
    const uint64_t own = text_hash(text);
    uint64_t *all = world_gather(world, &own, sizeof own);
    if (!all) return false;
    int other = 1;
    while (other < world->ranks && all[other] == all[0])
        other++;
    if (other < world->ranks) {
        if (!world->rank)
            command_fail(
                "rank %d trains something different from rank 0: their versions of Koine, models, data, "
                "options, or the files that they resume from differ",
                other);
        /* Wait until the first rank has reported the error before ending the others. */
        kn_all_gather(world, &own, all, sizeof own);
    }
    free(all);
    return other == world->ranks;
}

void world_close(const train_world *world, int status) {
    if (!world->found) return;
    /* Other ranks may be waiting for this rank, whose error was reported. */
    if (status != EXIT_DONE) of_mpi.abort(of_mpi.user, "a rank has failed");
    free(earlier);
    ranks_close(&of_mpi);
}
