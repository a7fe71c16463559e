/* Workers that share a CPU: each uses a part of its compute units, if the driver supports sub-devices, so
 * that they do not compete. */
#include <stdlib.h>
#include <string.h>

#include "train.h"

/* Data that each process sends to all others: the CPUs of its workers. */
typedef struct shared_cpus {
    char host[64];
    uint64_t allowed; /* identifies the processors that the launcher binds the process to */
    int count;
    int devices[WORKERS_MOST]; /* index as in koine devices; -1: not a CPU */
} shared_cpus;

/* The processors that this process may use: their number, and a hash of the set. 0: not known. */
static int processors_allowed(uint64_t *mark) {
    FILE *file = fopen("/proc/self/status", "r");
    char line[4096];
    int count = 0;
    *mark = 0;
    while (file && fgets(line, sizeof line, file)) {
        static const char name[] = "Cpus_allowed:";
        if (strncmp(line, name, sizeof name - 1) != 0) continue;
        *mark = text_hash(line);
        for (const char *at = line + sizeof name - 1; *at; at++) {
            const char digit[] = {*at, '\0'};
            for (long bits = strtol(digit, NULL, 16); bits; bits /= 2)
                count += bits % 2;
        }
    }
    if (file) fclose(file);
    return count;
}

static shared_cpus own_cpus(kn_context *const *contexts, int count, uint64_t allowed) {
    shared_cpus own = {.allowed = allowed, .count = count};
    train_host(own.host, sizeof own.host);
    for (int i = 0; i < WORKERS_MOST; i++) {
        const kn_device_info *info = i < count ? kn_context_device(contexts[i]) : NULL;
        own.devices[i] = info && info->type == KN_DEVICE_CPU ? info->index : -1;
    }
    return own;
}

/* The number of workers that share a worker's CPU from processes bound to the same processors. *place: the
 * number of earlier workers on that CPU in all processes. */
static int count_sharers(const shared_cpus *all, int processes, int process, int worker, int *place) {
    const shared_cpus *own = &all[process];
    int here = 0;
    *place = 0;
    for (int p = 0; p < processes; p++)
        for (int i = 0; i < all[p].count && !strcmp(all[p].host, own->host); i++) {
            if (all[p].devices[i] != own->devices[worker]) continue;
            here += all[p].allowed == own->allowed;
            *place += p < process || (p == process && i < worker);
        }
    return here;
}

/* The number of parts to divide a CPU into, one per sharer, at most one per compute unit. `allowed`:
 * processors that this process may use. */
static int parts_of(int units, int allowed, int sharers) {
    const int most = allowed && allowed < units ? allowed : units;
    const int64_t parts = ((int64_t)units * sharers + most - 1) / most;
    return parts < units ? (int)parts : units;
}

static bool reopen(const train_options *options, int worker, int part, int parts, kn_context **context) {
    common_options common = options->common;
    char device[16];
    snprintf(device, sizeof device, "%d", kn_context_device(*context)->index);
    common.device = device;
    common.part = part;
    common.parts = parts;
    common.timeline = common.timeline && !worker;
    kn_context_destroy(context);
    *context = context_open(&common);
    return *context != NULL;
}

static void print_part(kn_context *context, int sharers) {
    const kn_capabilities *can = kn_context_capabilities(context);
    const char *name = kn_context_device(context)->name;
    if (can->used_units < can->compute_units)
        command_info("this worker uses %d of the %d compute units of %s", can->used_units, can->compute_units,
                     name);
    else if (sharers > 1)
        command_info("%d workers share %s, whose driver cannot partition it", sharers, name);
}

bool parts_take(const train_options *options, const kn_communicator *world, kn_context **contexts,
                int count) {
    const int processes = world ? world->ranks : 1, rank = world ? world->rank : 0;
    uint64_t mark;
    const int allowed = processors_allowed(&mark);
    const shared_cpus own = own_cpus(contexts, count, mark);
    shared_cpus *all = world_gather(world, &own, sizeof own);
    bool good = all != NULL;
    for (int i = 0; i < count && good; i++) {
        if (own.devices[i] < 0) continue;
        int place, sharers = count_sharers(all, processes, rank, i, &place);
        const int parts = parts_of(kn_context_device(contexts[i])->compute_units, allowed, sharers);
        if (parts > 1) good = reopen(options, i, place % parts, parts, &contexts[i]);
        if (good && i == 0) print_part(contexts[i], sharers);
    }
    free(all);
    return good;
}
