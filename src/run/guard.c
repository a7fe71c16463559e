/* The guard of a session, for tests: memory behind every value that no step may write. It is filled before
 * each run and looked at after it, with a byte for each value, so that copying one fence to another shows.
 * Values do not share memory over time then, and those in between begin as NaN, so that whoever reads what
 * nobody wrote is found out as well. */
#include <string.h>

#include "run/run_private.h"

enum { NOTHING = 0xFF, PIECE = 4096 }; /* four such bytes are a NaN */

typedef struct fence {
    kn_context *context;
    bool look; /* otherwise it is filled */
    kn_error *error;
} fence;

/* As numbers of any type these are large, and negative where they can be. */
static unsigned char pattern_of(int number) {
    return (unsigned char)(0xE0 + number % 31);
}

static kn_status look_behind(const fence *fenced, kn_buffer *buffer, uint64_t bytes, int number,
                             const char *name) {
    unsigned char piece[PIECE];
    for (uint64_t at = bytes, end = kn_buffer_bytes(buffer); at < end; at += sizeof piece) {
        uint64_t count = end - at < sizeof piece ? end - at : sizeof piece;
        kn_status status = kn_queue_read(fenced->context, KN_QUEUE_COMPUTE, buffer, at, piece, count, true,
                                         (kn_event){NULL}, NULL, fenced->error);
        if (status != KN_OK) return status;
        for (uint64_t i = 0; i < count; i++)
            if (piece[i] != pattern_of(number))
                return kn_fail(
                    fenced->error, KN_ERROR_MISMATCH,
                    "a kernel wrote outside its values: byte %llu behind '%s', which has %llu bytes",
                    (unsigned long long)(at + i - bytes), name, (unsigned long long)bytes);
    }
    return KN_OK;
}

/* Behind value `number`, which has `bytes`; with `all`, the value too is filled. */
static kn_status stand(const fence *fenced, kn_buffer *buffer, uint64_t bytes, bool all, int number,
                       const char *name) {
    static const unsigned char nothing = NOTHING;
    const unsigned char pattern = pattern_of(number);
    if (!buffer || kn_buffer_bytes(buffer) <= bytes) return KN_OK;
    if (fenced->look) return look_behind(fenced, buffer, bytes, number, name);
    kn_status status = KN_OK;
    if (all)
        status = kn_queue_fill(fenced->context, KN_QUEUE_COMPUTE, buffer, 0, bytes, &nothing, sizeof nothing,
                               NULL, fenced->error);
    if (status == KN_OK)
        status =
            kn_queue_fill(fenced->context, KN_QUEUE_COMPUTE, buffer, bytes, kn_buffer_bytes(buffer) - bytes,
                          &pattern, sizeof pattern, NULL, fenced->error);
    return status;
}

static kn_status stand_everywhere(const kn_executable *executable, const kn_memory *memory,
                                  const fence *fenced) {
    kn_status status = KN_OK;
    for (size_t i = 0; i < executable->plan.placement_count && status == KN_OK; i++) {
        const kn_placement *placement = &executable->plan.placements[i];
        if (placement->root->id != (int)i) continue;
        status = stand(fenced, kn_executable_buffer(executable, memory, placement->root), placement->bytes,
                       placement->storage == KN_STORAGE_SCRATCH, (int)i, placement->root->name);
    }
    for (int i = 0; i < executable->plan.scratch_count && status == KN_OK; i++)
        if (executable->plan.scratches[i].first >= 0)
            status = stand(fenced, executable->scratch_buffers[i], executable->plan.scratches[i].bytes, true,
                           i, executable->steps[executable->plan.scratches[i].first].step->label);
    return status;
}

kn_status kn_guard_lay(const kn_executable *executable, const kn_memory *memory, kn_error *error) {
    const fence fenced = {.context = executable->context, .error = error};
    return memory->guard ? stand_everywhere(executable, memory, &fenced) : KN_OK;
}

kn_status kn_guard_check(const kn_executable *executable, const kn_memory *memory, kn_error *error) {
    const fence fenced = {.context = executable->context, .look = true, .error = error};
    return memory->guard ? stand_everywhere(executable, memory, &fenced) : KN_OK;
}
