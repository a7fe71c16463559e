/* Queries of a context: its device, counters and verdicts. open.c and create.c open and destroy it. */
#include <stdio.h>
#include <string.h>

#include "device/device_private.h"

KN_DEFINE_INIT(kn_context_params, KN_CONTEXT_DEFAULTS)

bool kn_default_cache_folder(const char *xdg_cache_home, const char *home, char *folder, size_t bytes) {
    if (!folder || bytes == 0) return false;
    folder[0] = '\0';
    /* The XDG convention ignores relative paths. */
    if (xdg_cache_home && xdg_cache_home[0] == '/')
        snprintf(folder, bytes, "%s/koine", xdg_cache_home);
    else if (home && home[0])
        snprintf(folder, bytes, "%s/.cache/koine", home);
    return folder[0] != '\0';
}

void kn_context_keeps_nothing(kn_context *context, const char *reason) {
    if (!context->keeps_nothing)
        kn_log_write(&context->host, KN_LOG_WARNING, "compiled kernels are not cached between runs: %s",
                     reason);
    context->keeps_nothing = true;
}

/* ---- queries --------------------------------------------------------------------------- */

static const kn_error no_context = {KN_ERROR_MEMORY,
                                    "the context is NULL: out of host memory when it was created"};

const kn_error *kn_context_failure(const kn_context *context) {
    return context ? &context->failure : &no_context;
}

kn_status kn_context_status(const kn_context *context) {
    return kn_context_failure(context)->status;
}

const char *kn_context_error(const kn_context *context) {
    return kn_context_failure(context)->text;
}

const kn_host *kn_context_host(const kn_context *context) {
    return &context->host;
}

bool kn_context_wide_indices(const kn_context *context) {
    return context->wide_indices;
}

bool kn_context_precompiles(const kn_context *context) {
    return context->precompile;
}

const kn_device_info *kn_context_device(const kn_context *context) {
    return context ? &context->found.info : NULL;
}

const kn_capabilities *kn_context_capabilities(const kn_context *context) {
    return context ? &context->capabilities : NULL;
}

kn_status kn_context_get_counts(const kn_context *context, kn_context_counts *counts) {
    if (!context) return KN_ERROR_ARGUMENT;
    kn_mutex_lock(context->mutex);
    kn_context_counts now = context->counts;
    kn_mutex_unlock(context->mutex);
    now.launches = atomic_load(&context->launches);
    return KN_RESULT_GIVE(kn_context_counts, counts, &now);
}

bool kn_context_is_simulated(const kn_context *context) {
    return context->found.simulated;
}

double kn_context_made(const kn_context *context) {
    return context->made;
}

void kn_interrupt_clear(kn_interrupt *interrupt) {
    if (interrupt) kn_marks_clear(interrupt->marks, KN_COUNT_OF(interrupt->marks));
}

/* ---- verdicts ------------------------------------------------------------------------------- */

bool kn_verdict_get(kn_context *context, const char *key, double *value) {
    kn_mutex_lock(context->mutex);
    bool open = context->verdicts.values.host,
         known = open && kn_verdicts_get(&context->verdicts, key, value),
         deadly = open && !known && kn_verdicts_deadly(&context->verdicts, key);
    kn_mutex_unlock(context->mutex);
    if (deadly) *value = 0;
    return known || deadly;
}

void kn_attempt_begin(kn_context *context, kn_attempt *attempt, const char *key) {
    kn_mutex_lock(context->mutex);
    if (context->verdicts.values.host && !context->precompile)
        kn_verdicts_begin(&context->verdicts, attempt, key);
    atomic_store(&context->trying, context->verdicts.newest != NULL);
    kn_mutex_unlock(context->mutex);
}

void kn_attempt_phase(kn_context *context, bool runs) {
    if (!atomic_load_explicit(&context->trying, memory_order_relaxed)) return;
    kn_mutex_lock(context->mutex);
    kn_verdicts_phase(&context->verdicts, runs);
    kn_mutex_unlock(context->mutex);
}

void kn_attempt_end(kn_context *context, kn_attempt *attempt) {
    kn_mutex_lock(context->mutex);
    if (context->verdicts.values.host) kn_verdicts_end(&context->verdicts, attempt);
    atomic_store(&context->trying, context->verdicts.newest != NULL);
    kn_mutex_unlock(context->mutex);
}

size_t kn_context_clear_avoided(kn_context *context) {
    if (!context) return 0;
    kn_mutex_lock(context->mutex);
    size_t count = context->verdicts.values.host ? kn_verdicts_forget_deaths(&context->verdicts) : 0;
    kn_mutex_unlock(context->mutex);
    return count;
}

bool kn_verdict_expect(kn_context *context, const char *key, double guess, double *value) {
    if (kn_verdict_get(context, key, value)) return true;
    bool guessed = context->precompile || context->described;
    if (guessed) *value = guess;
    return guessed;
}

bool kn_verdict_prepares(kn_context *context, const char *key) {
    double known;
    return context->precompile && context->capabilities.shares_programs &&
           !kn_verdict_get(context, key, &known);
}

void kn_verdict_put(kn_context *context, const char *key, double value) {
    kn_mutex_lock(context->mutex);
    if (context->verdicts.values.host) kn_verdicts_put(&context->verdicts, key, value);
    kn_mutex_unlock(context->mutex);
}

void kn_variant_refused(kn_context *context, const char *variant, const char *reason) {
    kn_mutex_lock(context->mutex);
    bool known = kn_map_has(&context->refused, variant, strlen(variant));
    if (!known) {
        context->counts.variants_refused++;
        kn_map_put_text(&context->refused, variant, context); /* if out of memory, it is reported again */
    }
    kn_mutex_unlock(context->mutex);
    if (known) return;
    kn_log_write(&context->host, KN_LOG_WARNING, "kernel variant %s is not used on %s: %s", variant,
                 context->found.info.name, reason);
}
