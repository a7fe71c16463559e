/* Records, by cl/ file, work-groups that a kernel could not be launched with, and tiles and unrolled loops
 * that did not compile, so that later plans avoid them. */
#include <stdio.h>
#include <string.h>

#include <koine/version.h>

#include "run/run_private.h"

/* What is recorded; "tiles" is a bit mask, "rolled" 0 or 1. Records are valid for one version of the kernels.
 */
static const char limit_kind[] = "limit", works_kind[] = "works", tiles_kind[] = "tiles",
                  rolled_kind[] = "rolled";

static void write_key(const kn_context *context, const char *kind, const char *file, char key[160]) {
    snprintf(key, 160, "group/%s/%s/%s%s", kind, file, kn_version_text(),
             kn_context_wide_indices(context) ? "/x64" : "");
}

/* 0 if nothing is recorded. */
static double get(kn_context *context, const char *kind, const char *file) {
    char key[160];
    double value = 0;
    write_key(context, kind, file, key);
    return kn_verdict_get(context, key, &value) && value >= 1 ? value : 0;
}

static void put(kn_context *context, const char *kind, const char *file, double value) {
    char key[160];
    write_key(context, kind, file, key);
    kn_verdict_put(context, key, value);
}

size_t kn_groups_limit(void *context, const char *file) {
    return (size_t)get(context, limit_kind, file);
}

uint32_t kn_groups_refused_tiles(void *context, const char *file) {
    const double tiles = get(context, tiles_kind, file);
    return tiles <= UINT32_MAX ? (uint32_t)tiles : 0;
}

bool kn_groups_rolled(kn_context *context, const char *file) {
    return !kn_context_capabilities(context)->wide_vector && get(context, rolled_kind, file) == 1;
}

static size_t items_of(const kn_step *step) {
    size_t items = 1;
    for (int i = 0; i < step->dimensions; i++)
        items *= step->local[i] ? step->local[i] : 1;
    return items;
}

static bool may_reduce(const kn_reductions *reductions, const kn_step *step) {
    return !step->source && reductions->count < KN_MAX_REDUCTIONS &&
           strlen(step->file) < sizeof reductions->of[0].file;
}

/* Logs "LABEL: PROBLEM the kernel …; trying NEXT". */
static void reduced(kn_reductions *reductions, const kn_executable *executable, const kn_step *step,
                    const char *problem, const char *next) {
    kn_log_write(kn_context_host(executable->context), KN_LOG_WARNING,
                 "%s: %s the kernel \"%s\" of \"%s\" on %s; trying %s", step->label, problem, step->kernel,
                 step->file, kn_context_device(executable->context)->name, next);
    reductions->of[reductions->count].context = executable->context;
    strcpy(reductions->of[reductions->count++].file, step->file);
    reductions->again = true;
}

bool kn_groups_reduce(kn_reductions *reductions, const kn_executable *executable, const kn_step *step,
                      size_t allowed) {
    char problem[64], next[24];
    size_t items = items_of(step), smaller = 1;
    if (!may_reduce(reductions, step) || step->any_local || items <= 1) return false;
    while (2 * smaller < items && 2 * smaller <= allowed)
        smaller *= 2;
    size_t known = kn_groups_limit(executable->context, step->file);
    if (known && known <= smaller) return false; /* the lowering does not use the limit */
    put(executable->context, limit_kind, step->file, (double)smaller);
    snprintf(problem, sizeof problem, "work-groups of %zu are too large for", items);
    snprintf(next, sizeof next, "%zu", smaller);
    reduced(reductions, executable, step, problem, next);
    return true;
}

static bool take_smaller_tile(kn_reductions *reductions, const kn_executable *executable,
                              const kn_step *step) {
    const uint32_t known = kn_groups_refused_tiles(executable->context, step->file);
    if (!may_reduce(reductions, step) || !(step->tiles_too_large & ~known)) return false;
    put(executable->context, tiles_kind, step->file, known | step->tiles_too_large);
    reduced(reductions, executable, step, "the compiler failed on the tile of", "a smaller one");
    return true;
}

/* Starts again from the largest tile, since the size was not the cause. */
static bool roll_loops(kn_reductions *reductions, const kn_executable *executable, const kn_step *step) {
    if (!may_reduce(reductions, step) || kn_context_capabilities(executable->context)->wide_vector ||
        kn_groups_rolled(executable->context, step->file))
        return false;
    put(executable->context, limit_kind, step->file, 0);
    put(executable->context, tiles_kind, step->file, 0);
    put(executable->context, rolled_kind, step->file, 1);
    reduced(reductions, executable, step, "the compiler failed on", "it without unrolled loops");
    return true;
}

void kn_groups_after_failure(kn_reductions *reductions, const kn_executable *executable,
                             const kn_step *step) {
    if (take_smaller_tile(reductions, executable, step) ||
        (!step->tiles_too_large && kn_groups_reduce(reductions, executable, step, SIZE_MAX)))
        return;
    roll_loops(reductions, executable, step);
}

void kn_groups_forget(const kn_reductions *reductions) {
    for (int i = 0; i < reductions->count; i++) {
        put(reductions->of[i].context, limit_kind, reductions->of[i].file, 0);
        put(reductions->of[i].context, tiles_kind, reductions->of[i].file, 0);
        put(reductions->of[i].context, rolled_kind, reductions->of[i].file, 0);
    }
}

bool kn_groups_work(kn_executable *executable, const kn_ready_step *ready) {
    kn_context *context = executable->context;
    size_t items = items_of(ready->step);
    if (get(context, works_kind, ready->step->file) >= (double)items) return true;
    kn_launch one = ready->launch;
    memcpy(one.global, one.local, sizeof one.global);
    if (kn_executable_launch_on_zeros(executable, ready, &one, NULL) != KN_OK) return false;
    put(context, works_kind, ready->step->file, (double)items);
    return true;
}
