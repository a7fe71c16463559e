/* Records work-groups that were too large for a kernel when it was compiled or launched, by cl/ file, so that
 * later plans choose smaller tiles. */
#include <stdio.h>
#include <string.h>

#include <koine/version.h>

#include "run/run_private.h"

/* Records are valid for one version of the kernels; `kind` is "limit" or "works". */
static void write_key(const kn_context *context, const char *kind, const char *file, char key[160]) {
    snprintf(key, 160, "group/%s/%s/%s%s", kind, file, kn_version_text(),
             kn_context_wide_indices(context) ? "/x64" : "");
}

size_t kn_groups_limit(void *context, const char *file) {
    char key[160];
    double limit = 0;
    write_key(context, "limit", file, key);
    return kn_verdict_get(context, key, &limit) && limit >= 1 ? (size_t)limit : 0;
}

static size_t items_of(const kn_step *step) {
    size_t items = 1;
    for (int i = 0; i < step->dimensions; i++)
        items *= step->local[i] ? step->local[i] : 1;
    return items;
}

bool kn_groups_reduce(kn_reductions *reductions, const kn_executable *executable, const kn_step *step,
                      size_t allowed) {
    char key[160];
    size_t items = items_of(step), smaller = 1;
    if (step->source || step->any_local || items <= 1 || reductions->count == KN_MAX_REDUCTIONS ||
        strlen(step->file) >= sizeof reductions->of[0].file)
        return false;
    while (2 * smaller < items && 2 * smaller <= allowed)
        smaller *= 2;
    size_t known = kn_groups_limit(executable->context, step->file);
    if (known && known <= smaller) return false; /* the lowering does not use the limit */
    write_key(executable->context, "limit", step->file, key);
    kn_verdict_put(executable->context, key, (double)smaller);
    kn_log_write(kn_context_host(executable->context), KN_LOG_WARNING,
                 "%s: work-groups of %zu are too large for the kernel \"%s\" of \"%s\" on %s; trying %zu",
                 step->label, items, step->kernel, step->file, kn_context_device(executable->context)->name,
                 smaller);
    reductions->of[reductions->count].context = executable->context;
    strcpy(reductions->of[reductions->count++].file, step->file);
    return reductions->again = true;
}

void kn_groups_forget(const kn_reductions *reductions) {
    for (int i = 0; i < reductions->count; i++) {
        char key[160];
        write_key(reductions->of[i].context, "limit", reductions->of[i].file, key);
        kn_verdict_put(reductions->of[i].context, key, 0);
    }
}

bool kn_groups_work(kn_executable *executable, const kn_ready_step *ready) {
    char key[160];
    kn_context *context = executable->context;
    double known = 0;
    size_t items = items_of(ready->step);
    write_key(context, "works", ready->step->file, key);
    if (kn_verdict_get(context, key, &known) && known >= (double)items) return true;
    kn_launch one = ready->launch;
    memcpy(one.global, one.local, sizeof one.global);
    if (kn_executable_launch_on_zeros(executable, ready, &one, NULL) != KN_OK) return false;
    kn_verdict_put(context, key, (double)items);
    return true;
}
