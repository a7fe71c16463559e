/* The device memory that plans of a session share, and the writes of inputs.
 *
 * Each input has two buffers. While a run reads one, the next batch is written into the other on the transfer
 * queue, as soon as the previous run that read it is complete. A blocking write only guarantees that the
 * caller may change the data: some drivers copy it and write later, so the run also waits for the write's
 * event.
 *
 * For a device with separate memory, such a write uses host memory that the device can read directly
 * (kn_staging), one per buffer: the host copies the data there, once the previous write from that memory is
 * complete, and waits for nothing else. The device waits for the run that read the buffer, and the next run
 * for the write.
 *
 * If the caller waits for each run, writes cannot overlap with runs: then a write is enqueued on the compute
 * queue as the first command of the run, without a wait. */
#include <string.h>

#include "run/run_private.h"

kn_status kn_memory_init(kn_memory *memory, kn_context *context, int input_count, kn_error *error) {
    *memory = (kn_memory){.context = context, .host = kn_context_host(context), .generation = 1};
    memory->input_count = input_count;
    if (!input_count) return KN_OK;
    memory->inputs = kn_allocate(memory->host, (size_t)input_count, sizeof *memory->inputs);
    if (memory->inputs) return KN_OK;
    memory->input_count = 0;
    return kn_fail_memory(error, (size_t)input_count * sizeof *memory->inputs);
}

/* Frees the buffers of an input that no run reads. */
static void free_input(kn_memory *memory, struct kn_input_memory *slot) {
    for (int turn = 0; turn < 2; turn++) {
        kn_event_wait(memory->context, slot->written[turn], NULL);
        kn_event_release(&slot->written[turn]);
        if (slot->staging[turn]) memory->staging_bytes -= slot->bytes;
        kn_staging_destroy(&slot->staging[turn]);
        kn_buffer_destroy(&slot->buffers[turn]);
    }
    slot->asked = false;
}

void kn_memory_set_idle(kn_memory *memory) {
    for (int i = 0; i < 2; i++)
        kn_event_release(&memory->used[i]);
}

void kn_memory_finish(kn_memory *memory) {
    if (!memory->context) return;
    kn_memory_set_idle(memory);
    kn_event_release(&memory->fed);
    for (int i = 0; i < memory->block_count; i++)
        kn_buffer_destroy(&memory->blocks[i]);
    for (int i = 0; i < memory->input_count; i++)
        free_input(memory, &memory->inputs[i]);
    kn_release(memory->host, memory->blocks);
    kn_release(memory->host, memory->block_bytes);
    kn_release(memory->host, memory->inputs);
    memset(memory, 0, sizeof *memory);
}

static bool input_fits(const kn_memory *memory, const kn_executable *executable, int input) {
    const struct kn_input_memory *slot = &memory->inputs[input];
    uint64_t bytes = executable->input_bytes[input];
    return !bytes || (slot->buffers[0] && slot->buffers[1] && slot->bytes >= bytes);
}

bool kn_memory_fits(const kn_memory *memory, const kn_executable *executable) {
    for (int i = 0; i < executable->plan.block_count; i++)
        if (i >= memory->block_count || !memory->blocks[i] ||
            memory->block_bytes[i] < executable->plan.block_bytes[i])
            return false;
    for (int i = 0; i < executable->input_count; i++)
        if (!input_fits(memory, executable, i)) return false;
    return true;
}

static kn_status reserve_blocks(kn_memory *memory, int count, kn_error *error) {
    if (count <= memory->block_count) return KN_OK;
    kn_buffer **blocks = kn_resize(memory->host, memory->blocks, (size_t)count, sizeof(kn_buffer *));
    if (!blocks) return kn_fail_memory(error, (size_t)count * sizeof(kn_buffer *));
    memory->blocks = blocks;
    uint64_t *bytes = kn_resize(memory->host, memory->block_bytes, (size_t)count, sizeof *bytes);
    if (!bytes) return kn_fail_memory(error, (size_t)count * sizeof *bytes);
    memory->block_bytes = bytes;
    for (int i = memory->block_count; i < count; i++) {
        blocks[i] = NULL;
        bytes[i] = 0;
    }
    memory->block_count = count;
    return KN_OK;
}

kn_status kn_memory_grow(kn_memory *memory, const kn_executable *executable, kn_error *error) {
    kn_status status = reserve_blocks(memory, executable->plan.block_count, error);
    memory->generation++;
    memory->kept = NULL;
    kn_memory_forget_ahead(memory);
    /* Free everything that is too small before allocating anything larger. */
    for (int i = 0; i < executable->plan.block_count && status == KN_OK; i++)
        if (memory->block_bytes[i] < executable->plan.block_bytes[i]) kn_buffer_destroy(&memory->blocks[i]);
    for (int i = 0; i < executable->input_count && status == KN_OK; i++)
        if (!input_fits(memory, executable, i)) free_input(memory, &memory->inputs[i]);
    for (int i = 0; i < executable->plan.block_count && status == KN_OK; i++) {
        if (memory->blocks[i]) continue;
        status =
            kn_buffer_create(memory->context, executable->plan.block_bytes[i], &memory->blocks[i], error);
        memory->block_bytes[i] = status == KN_OK ? executable->plan.block_bytes[i] : 0;
    }
    for (int i = 0; i < executable->input_count && status == KN_OK; i++) {
        struct kn_input_memory *slot = &memory->inputs[i];
        if (input_fits(memory, executable, i)) continue;
        slot->bytes = executable->input_bytes[i];
        for (int turn = 0; turn < 2 && status == KN_OK; turn++)
            status =
                kn_buffer_create(memory->context, slot->bytes + memory->guard, &slot->buffers[turn], error);
    }
    return status;
}

/* Whether both staging buffers of an input of these bytes are within the limit, if `others` bytes are
 * used. */
static bool staging_fits(uint64_t others, uint64_t bytes) {
    return bytes <= (KN_STAGING_MOST - others) / 2;
}

uint64_t kn_executable_staging_bytes(const kn_executable *executable) {
    uint64_t all = 0;
    if (!kn_staging_pays(executable->context)) return 0;
    for (int i = 0; i < executable->input_count; i++)
        if (staging_fits(all, executable->input_bytes[i])) all += 2 * executable->input_bytes[i];
    return all;
}

/* The staging memory of an input in this turn; NULL: none, write from the caller's memory. */
static kn_staging *staging_of(kn_memory *memory, struct kn_input_memory *slot, int turn) {
    if (slot->asked) return slot->staging[turn];
    slot->asked = true;
    if (!kn_staging_pays(memory->context) || !staging_fits(memory->staging_bytes, slot->bytes)) return NULL;
    if (kn_staging_create(memory->context, slot->bytes, &slot->staging[0], NULL) == KN_OK &&
        kn_staging_create(memory->context, slot->bytes, &slot->staging[1], NULL) != KN_OK)
        kn_staging_destroy(&slot->staging[0]);
    if (slot->staging[0]) memory->staging_bytes += 2 * slot->bytes;
    return slot->staging[turn];
}

/* Writes an input through staging memory. */
static kn_status feed_staged(kn_memory *memory, int turn, struct kn_input_memory *slot, const void *data,
                             uint64_t bytes, kn_error *error) {
    void *staged = kn_staging_memory(slot->staging[turn]);
    kn_event *written = &slot->written[turn];
    kn_status status = kn_event_wait(memory->context, *written, error);
    kn_event_release(written);
    if (status != KN_OK) return status;
    memcpy(staged, data, (size_t)bytes);
    status = kn_queue_write(memory->context, KN_QUEUE_TRANSFER, slot->buffers[turn], 0, staged, bytes, false,
                            memory->used[turn], written, error);
    return status == KN_OK ? kn_queue_after(memory->context, KN_QUEUE_COMPUTE, *written, error) : status;
}

/* Writes an input for this turn or the next. */
static kn_status feed(kn_memory *memory, int turn, int input, const void *data, uint64_t bytes,
                      kn_error *error) {
    if (!bytes) return KN_OK;
    struct kn_input_memory *slot = &memory->inputs[input];
    kn_event written = {NULL}, *used = &memory->used[turn];
    if (staging_of(memory, slot, turn)) return feed_staged(memory, turn, slot, data, bytes, error);
    /* The host waits here, so it is never more than two batches ahead of the device. */
    kn_status status = kn_event_wait(memory->context, *used, error);
    if (status == KN_OK) {
        kn_event_release(used);
        status = kn_queue_write(memory->context, KN_QUEUE_TRANSFER, slot->buffers[turn], 0, data, bytes, true,
                                *used, &written, error);
    }
    if (status == KN_OK) status = kn_queue_after(memory->context, KN_QUEUE_COMPUTE, written, error);
    kn_event_release(&written);
    return status;
}

kn_status kn_memory_feed(kn_memory *memory, int input, const void *data, uint64_t bytes, kn_error *error) {
    return feed(memory, memory->turn, input, data, bytes, error);
}

kn_status kn_memory_feed_within(kn_memory *memory, int input, const void *data, uint64_t bytes,
                                kn_error *error) {
    if (!bytes) return KN_OK;
    kn_event_release(&memory->fed);
    return kn_queue_write(memory->context, KN_QUEUE_COMPUTE, memory->inputs[input].buffers[memory->turn], 0,
                          data, bytes, false, (kn_event){NULL}, &memory->fed, error);
}

kn_status kn_memory_fed(kn_memory *memory, kn_error *error) {
    kn_status status = kn_event_wait(memory->context, memory->fed, error);
    kn_event_release(&memory->fed);
    return status;
}

bool kn_memory_is_idle(const kn_memory *memory) {
    return kn_event_is_complete(memory->used[0]) && kn_event_is_complete(memory->used[1]);
}

kn_status kn_memory_feed_ahead(kn_memory *memory, int input, const void *data, uint64_t bytes,
                               kn_error *error) {
    struct kn_input_memory *slot = &memory->inputs[input];
    const int turn = memory->turn ^ memory->running;
    if (!slot->buffers[turn] || slot->bytes < bytes) return KN_OK;
    kn_status status = feed(memory, turn, input, data, bytes, error);
    if (status == KN_OK) slot->ahead[turn] = bytes;
    return status;
}

void kn_memory_forget_ahead(kn_memory *memory) {
    for (int i = 0; i < memory->input_count; i++)
        memory->inputs[i].ahead[0] = memory->inputs[i].ahead[1] = 0;
}

kn_status kn_memory_feed_buffer(kn_memory *memory, int input, kn_buffer *data, uint64_t bytes,
                                kn_error *error) {
    if (!bytes) return KN_OK;
    return kn_queue_copy(memory->context, KN_QUEUE_COMPUTE, data, 0,
                         memory->inputs[input].buffers[memory->turn], 0, bytes, (kn_event){NULL}, NULL,
                         error);
}

kn_status kn_memory_next(kn_memory *memory, bool idle, kn_error *error) {
    kn_event *used = &memory->used[memory->turn];
    kn_event_release(used);
    kn_event_release(&memory->fed);
    kn_status status = KN_OK;
    if (!idle && memory->input_count) status = kn_queue_mark(memory->context, KN_QUEUE_COMPUTE, used, error);
    for (int i = 0; i < memory->input_count; i++)
        memory->inputs[i].ahead[memory->turn] = 0;
    memory->turn ^= 1;
    memory->running = 0;
    return status;
}
