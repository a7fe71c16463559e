#include "device_support.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void let_crashes_end_the_program(void) {
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
        signal(crashes[i], SIG_DFL);
}

kn_context_params device_params(void) {
    static char folder[4096];
    kn_context_params params;
    kn_context_params_init(&params);
    params.device = getenv("KOINE_DEVICE");
    const char *cache = getenv("XDG_CACHE_HOME");
    if (cache && *cache && kn_default_cache_folder(cache, NULL, folder, sizeof folder))
        params.cache_folder = folder;
    return params;
}

kn_context *device_open(const kn_context_params *params) {
    let_crashes_end_the_program();
    kn_context_params usual = device_params();
    kn_context *context = kn_context_create(params ? params : &usual);
    assert_non_null(context);
    if (kn_context_status(context) != KN_OK) fail_msg("no context: %s", kn_context_error(context));
    return context;
}

void device_close(kn_context **context) {
    assert_int_equal(device_counts(*context).device_bytes, 0);
    assert_int_equal(device_counts(*context).staging_bytes, 0);
    kn_context_destroy(context);
    assert_null(*context);
}

bool device_is_there(void) {
    kn_context_params usual = device_params();
    kn_context *context = kn_context_create(&usual);
    bool there = kn_context_status(context) != KN_ERROR_NO_DEVICE;
    if (!there) print_message("skipped: %s\n", kn_context_error(context));
    kn_context_destroy(&context);
    return there;
}

kn_context_counts device_counts(const kn_context *context) {
    kn_context_counts counts = {.size = sizeof counts};
    assert_int_equal(kn_context_get_counts(context, &counts), KN_OK);
    return counts;
}

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t count) {
    const unsigned char *at = bytes;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ at[i]) * 0x100000001b3u;
    return hash;
}

kn_status states_read_hash(kn_states *states, uint64_t *hash) {
    const uint64_t first = 0xcbf29ce484222325u;
    kn_status status = KN_OK;
    *hash = first;
    for (size_t i = 0; i < kn_states_count(states) && status == KN_OK; i++) {
        kn_tensor_info info = {.rank = 0};
        uint64_t bytes = 0;
        const char *name = kn_states_at(states, i, &info);
        kn_tensor_bytes(&info, &bytes);
        void *data = malloc((size_t)bytes + 1);
        status = data ? kn_states_get(states, name, data, (size_t)bytes) : KN_ERROR_MEMORY;
        if (status == KN_OK) {
            uint64_t own = hash_bytes(first, name, strlen(name));
            own = hash_bytes(own, info.shape, (size_t)info.rank * sizeof *info.shape);
            *hash += hash_bytes(own, data, (size_t)bytes) * 0x9E3779B97F4A7C15u;
        }
        free(data);
    }
    return status;
}

uint64_t states_hash(kn_states *states) {
    uint64_t hash;
    assert_true(kn_states_count(states) > 0);
    if (states_read_hash(states, &hash) != KN_OK) fail_msg("%s", kn_states_error(states));
    return hash;
}

void take_verify_result(void *user, const kn_verify_result *result) {
    verify_outcome *seen = user;
    if (result->status == KN_OK) {
        seen->right++;
        return;
    }
    size_t used = strlen(seen->failures);
    snprintf(seen->failures + used, sizeof seen->failures - used, "\n%s: %s: %s", result->name,
             kn_status_name(result->status), result->message);
}

int device_setup(void **state) {
    *state = device_open(NULL);
    return 0;
}

int device_teardown(void **state) {
    kn_context *context = *state;
    device_close(&context);
    return 0;
}
