/* Attaching: a plan takes slices of the session's memory and sets the arguments of its kernels. Only inputs
 * change between runs (run.c). */
#include <string.h>

#include "run/run_private.h"

const kn_placement *kn_executable_placement(const kn_executable *executable, const kn_value *value) {
    return &executable->plan.placements[executable->plan.placements[value->id].root->id];
}

kn_buffer *kn_executable_buffer(const kn_executable *executable, const kn_memory *memory,
                                const kn_value *value) {
    const kn_placement *placement = kn_executable_placement(executable, value);
    if (!placement->bytes || placement->last < 0) return NULL;
    switch (placement->storage) {
    case KN_STORAGE_SCRATCH:
        return executable->buffers[placement->root->id];
    case KN_STORAGE_STATE:
        return executable->state_list[placement->slot]->buffer;
    case KN_STORAGE_CONSTANT:
        return executable->constant_buffers[placement->slot];
    case KN_STORAGE_INPUT:
        return memory->inputs[placement->slot].buffers[memory->turn];
    default:
        return NULL;
    }
}

kn_buffer *kn_executable_result(const kn_executable *executable, const kn_memory *memories, size_t value,
                                const kn_executable **part) {
    kn_part_place place = {0, value};
    if (executable->places) place = executable->places[value];
    *part = executable->parts[place.device];
    return kn_executable_buffer(*part, &memories[place.device], (*part)->values[place.position]);
}

void kn_executable_detach(kn_executable *executable) {
    for (size_t i = 0; i < executable->plan.placement_count && executable->buffers; i++)
        kn_buffer_destroy(&executable->buffers[i]);
    for (int i = 0; i < executable->plan.scratch_count && executable->scratch_buffers; i++)
        kn_buffer_destroy(&executable->scratch_buffers[i]);
    executable->generation = 0;
}

/* ---- constants ------------------------------------------------------------------------------- */

/* Starts packing; calling kn_pack again in the same order gives the same offsets. */
static kn_packing constant_packing(const kn_executable *executable) {
    const kn_capabilities *device = kn_context_capabilities(executable->context);
    return (kn_packing){
        .alignment = device->alignment_bytes, .limit = device->largest_block_bytes, .block = -1};
}

static kn_status make_constant_blocks(kn_executable *executable, kn_error *error) {
    kn_packing packing = constant_packing(executable);
    uint64_t *sizes = kn_arena_take(&executable->arena, (size_t)executable->constant_count, sizeof *sizes);
    executable->constant_blocks =
        kn_arena_take(&executable->arena, (size_t)executable->constant_count, sizeof(kn_buffer *));
    if (!sizes || !executable->constant_blocks)
        return kn_fail_memory(error, (size_t)executable->constant_count * sizeof *sizes);
    for (int i = 0; i < executable->constant_count; i++) {
        const kn_value *constant = executable->constants[i];
        uint64_t bytes = executable->plan.placements[constant->id].bytes;
        if (bytes > packing.limit || constant->data_bytes < bytes)
            return kn_fail(
                error, KN_ERROR_DEVICE_MEMORY,
                "constant '%s' has %llu bytes, but the device allows at most %llu in one allocation",
                constant->name, (unsigned long long)bytes, (unsigned long long)packing.limit);
        kn_pack(&packing, bytes + executable->guard);
        sizes[packing.block] = packing.end;
    }
    for (int i = 0; i <= packing.block; i++) {
        kn_status status =
            kn_buffer_create(executable->context, sizes[i], &executable->constant_blocks[i], error);
        if (status != KN_OK) return kn_fail_in(error, "memory for constants");
        executable->constant_block_count = i + 1;
    }
    return KN_OK;
}

static kn_status upload_constants(kn_executable *executable, kn_error *error) {
    kn_packing packing = constant_packing(executable);
    kn_status status = KN_OK;
    for (int i = 0; i < executable->constant_count && status == KN_OK; i++) {
        const kn_value *constant = executable->constants[i];
        uint64_t bytes = executable->plan.placements[constant->id].bytes;
        uint64_t offset = kn_pack(&packing, bytes + executable->guard);
        kn_buffer *block = executable->constant_blocks[packing.block];
        status = kn_buffer_slice(block, offset, bytes + executable->guard, &executable->constant_buffers[i],
                                 error);
        /* Wait: the plan, whose graph contains the data, may be destroyed before the write is complete. */
        if (status == KN_OK)
            status = kn_queue_write(executable->context, KN_QUEUE_COMPUTE, block, offset, constant->data,
                                    bytes, true, (kn_event){NULL}, NULL, error);
    }
    return status;
}

/* Allocates and writes constants once; they do not depend on the session's memory. */
static kn_status prepare_constants(kn_executable *executable, kn_error *error) {
    if (executable->constant_buffers || !executable->constant_count) return KN_OK;
    kn_status status = executable->constant_block_count ? KN_OK : make_constant_blocks(executable, error);
    if (status != KN_OK) return status;
    executable->constant_buffers =
        kn_arena_take(&executable->arena, (size_t)executable->constant_count, sizeof(kn_buffer *));
    if (!executable->constant_buffers)
        return kn_fail_memory(error, (size_t)executable->constant_count * sizeof(kn_buffer *));
    status = upload_constants(executable, error);
    if (status == KN_OK) return KN_OK;
    for (int i = 0; i < executable->constant_count; i++)
        kn_buffer_destroy(&executable->constant_buffers[i]);
    executable->constant_buffers = NULL;
    return status;
}

/* ---- slices -------------------------------------------------------------------------------------------- */

static kn_status take_slice(const kn_memory *memory, const kn_placement *placement, kn_buffer **slice,
                            kn_error *error) {
    if (placement->storage != KN_STORAGE_SCRATCH || !placement->bytes || placement->first < 0) return KN_OK;
    return kn_buffer_slice(memory->blocks[placement->block], placement->offset,
                           placement->bytes + memory->guard, slice, error);
}

static kn_status take_slices(kn_executable *executable, const kn_memory *memory, kn_error *error) {
    if (!executable->buffers) {
        executable->buffers =
            kn_arena_take(&executable->arena, executable->plan.placement_count, sizeof(kn_buffer *));
        executable->scratch_buffers =
            kn_arena_take(&executable->arena, (size_t)executable->plan.scratch_count, sizeof(kn_buffer *));
    }
    if (!executable->buffers || !executable->scratch_buffers)
        return kn_fail_memory(error, executable->plan.placement_count * sizeof(kn_buffer *));
    kn_status status = KN_OK;
    for (size_t i = 0; i < executable->plan.placement_count && status == KN_OK; i++)
        if (executable->plan.placements[i].root->id == (int)i)
            status = take_slice(memory, &executable->plan.placements[i], &executable->buffers[i], error);
    for (int i = 0; i < executable->plan.scratch_count && status == KN_OK; i++)
        status = take_slice(memory, &executable->plan.scratches[i], &executable->scratch_buffers[i], error);
    return status;
}

/* ---- arguments ----------------------------------------------------------------------------------------- */

kn_status kn_executable_set_argument(const kn_executable *executable, kn_kernel *kernel, int position,
                                     const kn_argument *argument, kn_buffer *buffer, kn_present *present,
                                     kn_error *error) {
    int64_t index = argument->integer;
    int32_t small = (int32_t)index;
    float number = (float)argument->number;
    uint64_t element = 0;
    switch (argument->kind) {
    case KN_ARGUMENT_VALUE:
    case KN_ARGUMENT_SCRATCH:
        if (buffer && present->count < 32) present->bits |= 1u << present->count;
        present->count++;
        return kn_kernel_set_buffer(kernel, position, buffer, error);
    case KN_ARGUMENT_PRESENT:
        return kn_kernel_set_bytes(kernel, position, &present->bits, sizeof present->bits, error);
    case KN_ARGUMENT_INT:
    case KN_ARGUMENT_UINT:
        return kn_kernel_set_bytes(kernel, position, &small, sizeof small, error);
    case KN_ARGUMENT_INDEX:
        if (kn_context_wide_indices(executable->context))
            return kn_kernel_set_bytes(kernel, position, &index, sizeof index, error);
        return kn_kernel_set_bytes(kernel, position, &small, sizeof small, error);
    case KN_ARGUMENT_FLOAT:
        return kn_kernel_set_bytes(kernel, position, &number, sizeof number, error);
    case KN_ARGUMENT_NUMBER:
        kn_element_set(argument->dtype, &element, 0, argument->number);
        return kn_kernel_set_bytes(kernel, position, &element, kn_dtype_bytes(argument->dtype), error);
    case KN_ARGUMENT_LOCAL:
        return kn_kernel_set_local(kernel, position, (size_t)index, error);
    }
    return kn_fail(error, KN_ERROR_INTERNAL, "an argument of an unknown kind");
}

/* The buffer of a value or scratch argument; NULL for others. */
static kn_buffer *buffer_of(const kn_executable *executable, const kn_memory *memory,
                            const kn_argument *argument) {
    if (argument->kind == KN_ARGUMENT_SCRATCH) return executable->scratch_buffers[argument->integer];
    if (argument->kind != KN_ARGUMENT_VALUE || !argument->value) return NULL;
    return kn_executable_buffer(executable, memory, argument->value);
}

static bool is_input(const kn_executable *executable, const kn_argument *argument) {
    return argument->kind == KN_ARGUMENT_VALUE && argument->value &&
           kn_executable_placement(executable, argument->value)->storage == KN_STORAGE_INPUT;
}

static kn_status list_switched(kn_executable *executable, kn_error *error) {
    int count = 0;
    for (int pass = 0; pass < 2; pass++) {
        count = 0;
        for (int s = 0; s < executable->plan.step_count; s++) {
            const kn_ready_step *ready = &executable->steps[s];
            for (int a = 0; a < ready->step->argument_count && ready->kernel; a++) {
                const kn_argument *argument = &ready->step->arguments[a];
                if (!is_input(executable, argument) ||
                    !kn_executable_placement(executable, argument->value)->bytes)
                    continue;
                if (pass)
                    executable->switched[count] = (kn_switched){
                        ready->kernel, a, kn_executable_placement(executable, argument->value)->slot};
                count++;
            }
        }
        if (pass) break;
        executable->switched = kn_arena_take(&executable->arena, (size_t)count, sizeof *executable->switched);
        if (!executable->switched) return kn_fail_memory(error, (size_t)count * sizeof *executable->switched);
    }
    executable->switched_count = count;
    return KN_OK;
}

static kn_status set_arguments(kn_executable *executable, const kn_memory *memory, kn_error *error) {
    for (int s = 0; s < executable->plan.step_count; s++) {
        const kn_ready_step *ready = &executable->steps[s];
        kn_present present = {0, 0};
        for (int a = 0; a < ready->step->argument_count && ready->kernel; a++) {
            const kn_argument *argument = &ready->step->arguments[a];
            kn_status status =
                kn_executable_set_argument(executable, ready->kernel, a, argument,
                                           buffer_of(executable, memory, argument), &present, error);
            if (status != KN_OK) return kn_fail_in(error, "%s", ready->step->label);
        }
    }
    return KN_OK;
}

kn_status kn_executable_attach(kn_executable *executable, const kn_memory *memory, kn_error *error) {
    kn_executable_detach(executable);
    kn_status status = kn_states_allocate(executable->states, error);
    if (status == KN_OK) status = prepare_constants(executable, error);
    if (status == KN_OK) status = take_slices(executable, memory, error);
    if (status == KN_OK && !executable->switched) status = list_switched(executable, error);
    if (status == KN_OK) status = set_arguments(executable, memory, error);
    if (status != KN_OK) {
        kn_executable_detach(executable);
        return status;
    }
    executable->generation = memory->generation;
    return KN_OK;
}
