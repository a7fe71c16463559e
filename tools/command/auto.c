/* --device auto: times a step on each device and selects the fastest. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "auto.h"

enum { WARM_UP = 2, MIN_STEPS = 3, MAX_STEPS = 50 };
static const double least_seconds = 0.2;

static int compare(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Median seconds per step; NaN on failure. */
static double time_steps(const auto_trial *trial) {
    double seconds[MAX_STEPS], begin = 0, now = 0;
    int count = 0;
    for (int i = 0; i < WARM_UP; i++)
        if (!trial->step(trial->user)) return NAN;
    begin = now = clock_now();
    while (count < MIN_STEPS || (count < MAX_STEPS && now - begin < least_seconds)) {
        double before = now;
        if (!trial->step(trial->user)) return NAN;
        now = clock_now();
        seconds[count++] = now - before;
    }
    qsort(seconds, (size_t)count, sizeof *seconds, compare);
    return seconds[count / 2];
}

/* Times the trial on one device, with a temporary context. */
static double time_device(const common_options *common, const auto_trial *trial, const kn_device_info *info) {
    char index[24];
    common_options own = *common;
    double seconds = NAN;
    snprintf(index, sizeof index, "%d", info->index);
    own.device = index;
    own.timeline = false;
    kn_context *context = context_open(&own);
    if (!context) return NAN;
    progress_now("trying %s", info->name);
    if (devices_join(context, common, trial->model)) {
        if (trial->prepare(trial->user, context)) seconds = time_steps(trial);
        trial->finish(trial->user);
    }
    kn_context_destroy(&context);
    progress_clear();
    return seconds;
}

/* The time per step on each device, and the fastest device. */
typedef struct choice {
    const kn_device_info *best;
    double seconds, next; /* seconds per step: the fastest and the second fastest device */
    char times[1000];
} choice;

static void consider(choice *made, const kn_device_info *info, double seconds) {
    size_t used = strlen(made->times);
    if (isfinite(seconds))
        snprintf(made->times + used, sizeof made->times - used, "%s%.3g ms on %d (%s)", used ? ", " : "",
                 1e3 * seconds, info->index, info->name);
    else
        command_warn("auto: device %d (%s) is left out", info->index, info->name);
    if (!isfinite(seconds)) return;
    if (!made->best || seconds < made->seconds) {
        made->next = made->best ? made->seconds : NAN;
        made->best = info;
        made->seconds = seconds;
    } else if (!(made->next <= seconds)) {
        made->next = seconds;
    }
}

static void tell(const choice *made, const auto_trial *trial) {
    char why[60] = "the only one that could run it";
    if (isfinite(made->next))
        snprintf(why, sizeof why, "%.3g times as fast as the next", made->next / made->seconds);
    command_info("auto: %s takes %s; using device %d, %s", trial->what, made->times, made->best->index, why);
}

/* With at most one usable device, skip timing: opening the device reports errors. */
static const kn_device_info *only_device(const kn_device_list *list, int *usable) {
    const kn_device_info *only = NULL;
    *usable = 0;
    for (size_t i = 0; i < kn_device_list_count(list); i++)
        if (kn_device_list_at(list, i)->usable) {
            only = kn_device_list_at(list, i);
            ++*usable;
        }
    return *usable == 1 ? only : NULL;
}

bool device_auto(common_options *common, const auto_trial *trial) {
    static char taken[24];
    int usable;
    if (!device_is_auto(common)) return true;
    precompile_end(); /* the precompiling process would also select a device */
    messages_setup(common);
    kn_device_list *list = kn_device_list_create(NULL, NULL);
    if (!list) return command_error("out of memory");
    const kn_device_info *only = only_device(list, &usable);
    choice made = {.best = NULL, .seconds = NAN, .next = NAN};
    if (only) command_info("auto: device %d (%s) is the only usable device", only->index, only->name);
    for (size_t i = 0; usable > 1 && i < kn_device_list_count(list); i++) {
        const kn_device_info *info = kn_device_list_at(list, i);
        if (info->usable) consider(&made, info, time_device(common, trial, info));
    }
    if (made.best) {
        tell(&made, trial);
        snprintf(taken, sizeof taken, "%d", made.best->index);
        common->device = taken;
    } else if (usable > 1) {
        /* A smaller batch may fit; otherwise the command reports the error again. */
        command_warn("auto: no device could run %s; using the fastest by a matrix product", trial->what);
    }
    kn_device_list_destroy(&list);
    return true;
}
