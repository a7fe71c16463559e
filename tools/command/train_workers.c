/* koine train --devices: a worker per device, in threads of this process, which may be one of several. The
 * first worker runs the training loop, reports and saves; the others only train. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "ranks.h"
#include "train.h"

/* A worker other than the first. */
typedef struct worker {
    train_learner learner;
    const kn_dataset *dataset;
    kn_fit_params params;
    kn_loader_params batches;
    pthread_t thread;
    bool started;
} worker;

struct train_workers {
    kn_group *group;
    kn_mpi_workers *among; /* the workers of all processes, if any process has several; else NULL */
    kn_communicator ends[WORKERS_MOST]; /* the workers' communicators, watched */
    kn_context *contexts[WORKERS_MOST]; /* the first is the context of the training loop */
    worker others[WORKERS_MOST - 1];
    int count;                    /* including the first */
    char dealt[8 * WORKERS_MOST]; /* the shard counts, if they were measured */
};

/* ---- the command line ---------------------------------------------------------------------------- */

static bool add_device(train_options *own, const char *text, size_t length) {
    if (own->crew.device_count == WORKERS_MOST) return false;
    char *name = own->crew.device_names[own->crew.device_count++];
    snprintf(name, WORKER_NAME, "%.*s", (int)length, text);
    return true;
}

/* Devices that several drivers expose are listed once per driver. */
static int add_all(train_options *own) {
    kn_device_list *list = kn_device_list_create(NULL, NULL);
    bool fits = true;
    for (size_t i = 0; i < kn_device_list_count(list) && fits; i++) {
        const kn_device_info *info = kn_device_list_at(list, i);
        char number[16];
        snprintf(number, sizeof number, "%d", info->index);
        fits = !info->usable || add_device(own, number, strlen(number));
    }
    kn_device_list_destroy(&list);
    if (!fits) return command_misuse("--devices all: there are more than %d", WORKERS_MOST);
    return own->crew.device_count ? EXIT_DONE : command_fail("--devices all: no OpenCL device was found");
}

static int split_devices(train_options *own) {
    if (!strcmp(own->crew.devices, "all")) return add_all(own);
    for (const char *at = own->crew.devices;; at++) {
        const size_t length = strcspn(at, ",");
        if (!length)
            return command_misuse("--devices is '%s'; expected devices with commas between, or all",
                                  own->crew.devices);
        if (!add_device(own, at, length))
            return command_misuse("--devices has more than %d devices", WORKERS_MOST);
        at += length;
        if (!*at) return EXIT_DONE;
    }
}

static int split_deal(train_options *own) {
    const char *at = own->crew.dealt;
    uint64_t dealt;
    const int count = own->crew.deal_count = deal_read(&at, own->crew.deal, &dealt);
    bool good = count && !*at;
    for (int i = 0; i < count; i++)
        good = good && own->crew.deal[i];
    if (!good)
        return command_misuse(
            "--shard-counts is '%s'; expected the number of shards of each device, such as 13,3",
            own->crew.dealt);
    if (count != own->crew.device_count && ranks_of_environment(NULL) < 2)
        return command_misuse("--shard-counts has %d numbers for %d devices; expected one for each", count,
                              own->crew.device_count);
    if (own->crew.shards != UINT64_MAX && own->crew.shards != dealt)
        return command_misuse("--shard-counts assigns %llu shards, but --shards is %llu",
                              (unsigned long long)dealt, (unsigned long long)own->crew.shards);
    own->crew.shards = dealt;
    return EXIT_DONE;
}

/* The type and algorithm of the gradient all-reduce. */
static int check_sums(train_options *own) {
    static const char *const ways[] = {"tree", "mpi"};
    const bool several = own->crew.devices || ranks_of_environment(NULL) > 1;
    const kn_dtype type = own->config.params.gradient_dtype;
    const int way = own->crew.sum_word ? option_choice("all-reduce", own->crew.sum_word, ways, 2) : 0;
    if (way < 0) return EXIT_USAGE;
    own->config.params.sum_any_order = way == 1;
    if (type != KN_FLOAT32 && !several && own->crew.shards == UINT64_MAX)
        return command_misuse(
            "--gradient-type applies to the exchange between devices: give --devices or --shards "
            "too, or start several processes with mpirun");
    if (way && (own->crew.devices || !several))
        return command_misuse(
            "--all-reduce mpi needs several processes: start them with mpirun, without --devices");
    if (way && type != KN_FLOAT32)
        return command_misuse("--all-reduce mpi adds float32, but --gradient-type is %s: omit one of them",
                              kn_dtype_name(type));
    return EXIT_DONE;
}

int workers_check(train_options *own) {
    const char *other = own->common.device ? "--device"
                        : own->common.pin  ? "--pin"
                        : own->check       ? "--check"
                                           : NULL;
    int status = check_sums(own);
    if (status != EXIT_DONE) return status;
    if (own->crew.devices && other) return command_misuse("--devices and %s exclude each other", other);
    if (own->config.params.shard_optimizer && !own->crew.devices && ranks_of_environment(NULL) < 2)
        return command_misuse("--shard-optimizer splits the optimizer state among several devices: give "
                              "--devices too, or start several processes with mpirun");
    if (own->crew.dealt && !own->crew.devices && ranks_of_environment(NULL) < 2)
        return command_misuse("--shard-counts needs --devices");
    if (own->in_sequence && (own->crew.devices || own->crew.shards != UINT64_MAX))
        return command_misuse(
            "--in-sequence continues each sample of a batch in the next, which shards do not: "
            "omit one of them");
    if (own->crew.devices) status = split_devices(own);
    if (status == EXIT_DONE && own->crew.devices) own->common.device = own->crew.device_names[0];
    if (status == EXIT_DONE && own->crew.dealt) status = split_deal(own);
    if (status != EXIT_DONE || own->crew.shards == UINT64_MAX) return status;
    if (own->crew.shards < 1 || own->crew.shards > WORKER_SHARDS ||
        (own->crew.shards & (own->crew.shards - 1)))
        return command_misuse("--shards is %llu; expected a power of two, at most %d",
                              (unsigned long long)own->crew.shards, WORKER_SHARDS);
    if (own->crew.shards < (uint64_t)own->crew.device_count && ranks_of_environment(NULL) < 2)
        return command_misuse("--shards is %llu; expected at least one for each of %d devices",
                              (unsigned long long)own->crew.shards, own->crew.device_count);
    if (own->crew.shards > own->batch)
        return command_misuse("--shards is %llu; expected at most %llu, the samples of a batch",
                              (unsigned long long)own->crew.shards, (unsigned long long)own->batch);
    return EXIT_DONE;
}

/* ---- opening ------------------------------------------------------------------------------------------- */

/* Whether all devices are of the same kind. */
static bool are_equal(const train_workers *workers) {
    const char *first = kn_context_device(workers->contexts[0])->name;
    bool equal = true;
    for (int i = 1; i < workers->count; i++)
        equal = equal && !strcmp(first, kn_context_device(workers->contexts[i])->name);
    return equal;
}

/* Distributes the shards among different devices as given, as in the --resume file or by speed, and closes
 * the devices that get none. */
static void deal_and_close(train_workers *workers, const train_learner *learner) {
    train_options *options = learner->options;
    kn_context **contexts = workers->contexts;
    int kept = 1;
    if (!options->crew.dealt && !deal_take(options, contexts, workers->count))
        deal_by_speed(learner, contexts, workers->count, options->crew.deal);
    deal_keep(options, contexts, workers->count);
    if (options->crew.dealt) return;
    for (int i = 1; i < workers->count; i++) {
        if (!options->crew.deal[i]) {
            kn_context_destroy(&contexts[i]);
            continue;
        }
        contexts[kept] = contexts[i];
        options->crew.deal[kept++] = options->crew.deal[i];
    }
    workers->count = kept;
    deal_write(options->crew.deal, kept, workers->dealt, sizeof workers->dealt);
    options->crew.dealt = workers->dealt;
}

static void print_workers(const train_workers *workers) {
    for (int i = 1; i < workers->count; i++)
        command_info("and on %s", kn_context_device(workers->contexts[i])->name);
}

static bool open_contexts(train_workers *workers, const train_options *options, kn_context *first) {
    workers->contexts[0] = first;
    for (workers->count = 1; workers->count < options->crew.device_count; workers->count++) {
        common_options common = options->common;
        common.device = options->crew.device_names[workers->count];
        common.timeline = false;
        if (!(workers->contexts[workers->count] = context_open(&common))) return false;
    }
    return true;
}

/* Workers on the same CPU use a part of it each. */
static bool take_parts(train_workers *workers, train_learner *learner, const train_world *world) {
    const bool good =
        parts_take(learner->options, world->found ? &world->all : NULL, workers->contexts, workers->count);
    learner->context = workers->contexts[0];
    return good;
}

/* Chooses the shards for the devices of only this process. */
static bool choose_shards(train_workers *workers, train_learner *learner) {
    train_options *options = learner->options;
    const bool equal = are_equal(workers), given = options->crew.shards != UINT64_MAX;
    if (!shards_choose(options, workers->count, equal)) return false;
    if (!equal && !options->config.params.sync_batch_norm) deal_and_close(workers, learner);
    if (workers->count == 1 && !given) {
        options->crew.shards = 1;
        options->crew.dealt = NULL;
    }
    print_workers(workers);
    command_info("each batch is split into %llu shards%s%s", (unsigned long long)options->crew.shards,
                 options->crew.dealt ? ", counts " : "", options->crew.dealt ? options->crew.dealt : "");
    return true;
}

/* Chooses the shards for the devices of all processes. */
static bool choose_shards_among(const train_workers *workers, const train_learner *learner,
                                train_world *world) {
    print_workers(workers);
    return world_choose_shards(learner->options, world, workers->contexts, workers->count);
}

/* The communicators of the workers: between threads, processes, or both. */
static bool connect(train_workers *workers, const train_world *world, const kn_communicator **ends) {
    char reason[512] = "";
    if (world->found && world->most == 1) {
        ends[0] = &world->all;
        return true;
    }
    if (kn_group_create(workers->count, NULL, &workers->group) != KN_OK)
        return command_error("out of memory");
    for (int i = 0; i < workers->count; i++)
        ends[i] = kn_group_communicator(workers->group, i);
    if (!world->found) return true;
    if (ranks_open_workers(ends, workers->count, &workers->among, reason, sizeof reason) != KN_OK)
        return command_error("%s", reason);
    for (int i = 0; i < workers->count; i++)
        ends[i] = ranks_worker(workers->among, i);
    return true;
}

bool workers_open(train_learner *learner, train_watch *watch, train_world *world, train_workers **made) {
    train_options *options = learner->options;
    options->crew.count = 1;
    if (!options->crew.device_count && !world->found) return true;
    train_workers *workers = *made = calloc(1, sizeof *workers);
    if (!workers) return command_error("out of memory");
    const kn_communicator *ends[WORKERS_MOST] = {NULL};
    if (!open_contexts(workers, options, learner->context) || !take_parts(workers, learner, world) ||
        !(world->found ? choose_shards_among(workers, learner, world) : choose_shards(workers, learner)) ||
        !connect(workers, world, ends))
        return false;
    for (int i = 0; i < workers->count; i++)
        workers->ends[i] = watch_rank(watch, ends[i], workers->contexts[i]);
    learner->communicator = &workers->ends[0];
    options->crew.count = learner->communicator->ranks;
    for (int i = 1; i < workers->count; i++)
        workers->others[i - 1].learner = (train_learner){.options = options,
                                                         .setup = learner->setup,
                                                         .context = workers->contexts[i],
                                                         .samples = learner->samples,
                                                         .other = true,
                                                         .communicator = &workers->ends[i]};
    return true;
}

/* Copies the states that the first worker has loaded from files. */
static bool copy_states(kn_trainer *from, kn_trainer *to) {
    kn_states *source = kn_trainer_states(from), *target = kn_trainer_states(to);
    bool good = true;
    for (size_t i = 0; i < kn_states_count(source) && good; i++) {
        kn_tensor_info info = {.rank = 0};
        const char *name = kn_states_at(source, i, &info);
        uint64_t bytes = 0;
        kn_tensor_bytes(&info, &bytes);
        void *data = malloc((size_t)bytes + 1);
        good = data && kn_states_get(source, name, data, (size_t)bytes) == KN_OK &&
               kn_states_set(target, name, &info, data, (size_t)bytes) == KN_OK;
        free(data);
        if (!good)
            command_fail("'%s' could not be copied to another device: %s", name, kn_states_error(target));
    }
    kn_trainer_set_steps(to, kn_trainer_steps(from));
    return good;
}

bool workers_prepare(train_workers *workers, const train_learner *first) {
    for (int i = 1; workers && i < workers->count; i++) {
        train_learner *learner = &workers->others[i - 1].learner;
        if (!learner_open(learner) || !copy_states(first->trainer, learner->trainer)) return false;
    }
    return true;
}

/* ---- training ------------------------------------------------------------------------------------ */

/* Only the first worker saves, so only it restores the best epoch. */
static bool to_nothing(void *user) {
    (void)user;
    return true;
}

/* A failure stops all workers, and the first worker reports it. */
static void *work(void *argument) {
    worker *own = argument;
    kn_fit(own->learner.trainer, own->dataset, &own->params, NULL);
    return NULL;
}

bool workers_start(train_workers *workers, const kn_dataset *dataset, const kn_fit_params *params) {
    for (int i = 1; workers && i < workers->count; i++) {
        worker *own = &workers->others[i - 1];
        own->dataset = dataset;
        own->batches = *params->loader;
        own->params = *params;
        own->params.loader = &own->batches;
        own->params.eval_session = own->learner.evaluator;
        own->params.on_step = NULL;
        own->params.on_epoch = NULL;
        own->params.needs_states = NULL;
        own->params.restore_best = to_nothing;
        own->started = !pthread_create(&own->thread, NULL, work, own);
        if (own->started) continue;
        const kn_communicator *all = &workers->ends[0];
        all->abort(all->user, "a thread could not be started");
        return command_error("the thread of a device could not be started");
    }
    return true;
}

void workers_wait(train_workers *workers) {
    for (int i = 1; workers && i < workers->count; i++)
        if (workers->others[i - 1].started) {
            pthread_join(workers->others[i - 1].thread, NULL);
            workers->others[i - 1].started = false;
        }
}

void workers_close(train_workers **made, bool failed) {
    train_workers *workers = *made;
    if (!workers) return;
    workers_wait(workers);
    for (int i = 1; i < workers->count; i++) {
        learner_close(&workers->others[i - 1].learner);
        kn_context_destroy(&workers->contexts[i]);
    }
    if (!failed) ranks_close_workers(&workers->among);
    kn_group_destroy(&workers->group);
    free(workers);
    *made = NULL;
}
