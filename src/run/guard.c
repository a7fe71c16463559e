/* Guard areas, for tests: memory after every value that no step may write is filled before each run and
 * checked after it. Its bytes differ between values, so that copying one guard area to another is detected.
 * With a guard, values share no memory over time, and scratch values start as NaN, so that reading an element
 * that was never written is detected too. */
#include <string.h>

#include "run/run_private.h"

enum { NAN_BYTE = 0xFF, MAX_READ_BYTES = 4096 }; /* four bytes of 0xFF are a NaN */

typedef struct guard_area {
    kn_context *context;
    bool check; /* false: fill */
    kn_error *error;
} guard_area;

/* In every element type these bytes are large values, negative in signed types. */
static unsigned char pattern_of(int number) {
    return (unsigned char)(0xE0 + number % 31);
}

static kn_status check_guard_area(const guard_area *area, kn_buffer *buffer, uint64_t bytes, int number,
                                  const char *name) {
    unsigned char piece[MAX_READ_BYTES];
    for (uint64_t at = bytes, end = kn_buffer_bytes(buffer); at < end; at += sizeof piece) {
        uint64_t count = end - at < sizeof piece ? end - at : sizeof piece;
        kn_status status = kn_queue_read(area->context, KN_QUEUE_COMPUTE, buffer, at, piece, count, true,
                                         (kn_event){NULL}, NULL, area->error);
        if (status != KN_OK) return status;
        for (uint64_t i = 0; i < count; i++)
            if (piece[i] != pattern_of(number))
                return kn_fail(area->error, KN_ERROR_MISMATCH,
                               "a kernel wrote out of bounds: byte %llu after '%s', which has %llu bytes",
                               (unsigned long long)(at + i - bytes), name, (unsigned long long)bytes);
    }
    return KN_OK;
}

/* Fills or checks the guard area after value `number` of `bytes` bytes; with `all`, fills the value with NaN
 * too. */
static kn_status fill_or_check(const guard_area *area, kn_buffer *buffer, uint64_t bytes, bool all,
                               int number, const char *name) {
    static const unsigned char nan_byte = NAN_BYTE;
    const unsigned char pattern = pattern_of(number);
    if (!buffer || kn_buffer_bytes(buffer) <= bytes) return KN_OK;
    if (area->check) return check_guard_area(area, buffer, bytes, number, name);
    kn_status status = KN_OK;
    if (all)
        status = kn_queue_fill(area->context, KN_QUEUE_COMPUTE, buffer, 0, bytes, &nan_byte, sizeof nan_byte,
                               NULL, area->error);
    if (status == KN_OK)
        status = kn_queue_fill(area->context, KN_QUEUE_COMPUTE, buffer, bytes,
                               kn_buffer_bytes(buffer) - bytes, &pattern, sizeof pattern, NULL, area->error);
    return status;
}

static kn_status fill_or_check_all(const kn_executable *executable, const kn_memory *memory,
                                   const guard_area *area) {
    kn_status status = KN_OK;
    for (size_t i = 0; i < executable->plan.placement_count && status == KN_OK; i++) {
        const kn_placement *placement = &executable->plan.placements[i];
        if (placement->root->id != (int)i) continue;
        status =
            fill_or_check(area, kn_executable_buffer(executable, memory, placement->root), placement->bytes,
                          placement->storage == KN_STORAGE_SCRATCH, (int)i, placement->root->name);
    }
    for (int i = 0; i < executable->plan.scratch_count && status == KN_OK; i++)
        if (executable->plan.scratches[i].first >= 0)
            status =
                fill_or_check(area, executable->scratch_buffers[i], executable->plan.scratches[i].bytes, true,
                              i, executable->steps[executable->plan.scratches[i].first].step->label);
    return status;
}

kn_status kn_guard_fill(const kn_executable *executable, const kn_memory *memory, kn_error *error) {
    const guard_area area = {.context = executable->context, .error = error};
    return memory->guard ? fill_or_check_all(executable, memory, &area) : KN_OK;
}

kn_status kn_guard_check(const kn_executable *executable, const kn_memory *memory, kn_error *error) {
    const guard_area area = {.context = executable->context, .check = true, .error = error};
    return memory->guard ? fill_or_check_all(executable, memory, &area) : KN_OK;
}
