/* Transfers of values from one device to another. The sender's compute queue reads a value into host memory,
 * and the receiver's queue writes it to the device, in order with the other steps, since device memory is
 * reused over time. Drivers cannot wait for each other's events, so the host waits: for the sender's read
 * before the receiver writes, and for the receiver's write of the previous run before the sender reads into
 * the same memory. */
#include <string.h>

#include "run/run_private.h"

static kn_exchange *exchange_of(const kn_executable *part, const kn_ready_step *ready) {
    return &part->head->exchanges[kn_transfer_of(ready->step->node)];
}

static kn_status make_exchange(kn_executable *part, const kn_ready_step *ready, kn_error *error) {
    kn_executable *head = part->head;
    kn_exchange *exchange = exchange_of(part, ready);
    exchange->from = part->context;
    exchange->to = head->parts[kn_transfer_device(ready->step->node)]->context;
    if (ready->bytes >= SIZE_MAX) return kn_fail_memory(error, SIZE_MAX);
    exchange->bytes = kn_allocate(&head->host, (size_t)ready->bytes + 1, 1);
    if (!exchange->bytes) return kn_fail_memory(error, (size_t)ready->bytes);
    head->total.transfers++;
    head->total.transfer_bytes += ready->bytes;
    return KN_OK;
}

/* Orders the steps of all parts: cycles through the parts, running each up to a receive step whose value has
 * not been sent. */
static kn_status order_steps(kn_executable *executable, kn_error *error) {
    int next[KN_CONTEXT_MAX_DEVICES] = {0}, count = 0, before = -1;
    executable->order =
        kn_arena_take(&executable->arena, (size_t)executable->total.steps, sizeof *executable->order);
    bool memory = executable->order != NULL;
    for (int i = 0; i < executable->part_count; i++) {
        kn_executable *part = executable->parts[i];
        part->positions = kn_arena_take(&part->arena, (size_t)part->plan.step_count, sizeof(int));
        memory = memory && part->positions;
    }
    if (!memory) return kn_fail_memory(error, (size_t)executable->total.steps * sizeof *executable->order);
    while (count > before) {
        before = count;
        for (int i = 0; i < executable->part_count; i++)
            for (const kn_executable *part = executable->parts[i]; next[i] < part->plan.step_count;
                 next[i]++) {
                const kn_ready_step *ready = &part->steps[next[i]];
                if (ready->step->kind == KN_STEP_RECEIVE && !exchange_of(part, ready)->sent) break;
                if (ready->step->kind == KN_STEP_SEND) exchange_of(part, ready)->sent = true;
                part->positions[next[i]] = count;
                executable->order[count++] = (kn_part_step){i, next[i]};
            }
    }
    return count == executable->total.steps
               ? KN_OK
               : kn_fail(error, KN_ERROR_INTERNAL, "the transfers of a plan would deadlock");
}

kn_status kn_exchanges_make(kn_executable *executable, kn_error *error) {
    for (int i = 0; i < executable->part_count; i++)
        for (int s = 0; s < executable->parts[i]->plan.step_count; s++) {
            const kn_ready_step *ready = &executable->parts[i]->steps[s];
            kn_status status =
                ready->step->kind == KN_STEP_SEND ? make_exchange(executable->parts[i], ready, error) : KN_OK;
            if (status != KN_OK) return status;
        }
    return order_steps(executable, error);
}

void kn_exchanges_destroy(kn_executable *executable) {
    for (int i = 0; i < executable->exchange_count; i++) {
        kn_exchange *exchange = &executable->exchanges[i];
        /* After a failed run, transfers may still be in progress. */
        kn_event_wait(exchange->from, exchange->read, NULL);
        kn_event_wait(exchange->to, exchange->written, NULL);
        kn_event_release(&exchange->read);
        kn_event_release(&exchange->written);
        kn_release(&executable->host, exchange->bytes);
    }
    executable->exchange_count = 0;
}

/* Whether the host knows the value, a scalar that it set after the last write by the device, and need not
 * read it. */
static bool is_known(const kn_executable *part, const kn_value *value, const kn_state **state) {
    const kn_placement *placement = kn_executable_placement(part, value);
    if (placement->storage != KN_STORAGE_STATE) return false;
    *state = part->state_list[placement->slot];
    return (*state)->scalar_version && (*state)->scalar_version == (*state)->version &&
           (*state)->bytes == sizeof(*state)->scalar;
}

kn_status kn_exchange_send(const kn_executable *part, const kn_memory *memory, const kn_ready_step *ready,
                           kn_error *error) {
    kn_exchange *exchange = exchange_of(part, ready);
    const kn_state *state = NULL;
    kn_status status = KN_OK;
    if (ready->bytes) {
        status = kn_event_wait(exchange->to, exchange->written, error);
        kn_event_release(&exchange->written);
        kn_event_release(&exchange->read);
        if (status == KN_OK && is_known(part, ready->source, &state))
            memcpy(exchange->bytes, state->scalar, sizeof state->scalar);
        else if (status == KN_OK)
            status = kn_queue_read(part->context, KN_QUEUE_COMPUTE,
                                   kn_executable_buffer(part, memory, ready->source), 0, exchange->bytes,
                                   ready->bytes, false, (kn_event){NULL}, &exchange->read, error);
    }
    return status;
}

kn_status kn_exchange_receive(const kn_executable *part, const kn_memory *memory, const kn_ready_step *ready,
                              kn_error *error) {
    kn_exchange *exchange = exchange_of(part, ready);
    if (!ready->bytes) return KN_OK;
    kn_status status = kn_event_wait(exchange->from, exchange->read, error);
    kn_event_release(&exchange->read);
    if (status != KN_OK) return status;
    return kn_queue_write(part->context, KN_QUEUE_COMPUTE, kn_executable_buffer(part, memory, ready->target),
                          0, exchange->bytes, ready->bytes, false, (kn_event){NULL}, &exchange->written,
                          error);
}
