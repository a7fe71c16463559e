/* Opening and closing a context: its parameters and cache folder, the device and its queues. */
#include <stdio.h>
#include <string.h>

#include "device/device_private.h"

/* Minimum alignment of values, even if the driver allows less: a cache line and the widest vector. */
enum { MIN_ALIGNMENT = 64 };

static bool copy_folder(const kn_host *host, const char *from, char **to) {
    *to = NULL;
    if (!from || !from[0]) return true;
    *to = kn_copy_text(host, from);
    return *to != NULL;
}

kn_context *kn_context_prepare(const kn_host *host, const kn_context_params *params) {
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    KN_PARAMS_TAKE(kn_context_debug, &debug, params->debug, NULL);
    kn_context *context = kn_allocate(host, 1, sizeof *context);
    if (!context) return NULL;
    context->host = *host;
    context->made = kn_clock();
    context->progress = params->compile_progress;
    context->wide_indices = debug.wide_indices;
    context->local_is_global = debug.local_is_global;
    context->trust_claims = params->trust_claims;
    context->precompile = params->precompile;
    context->records = params->timeline;
    context->interrupt = params->interrupt;
    context->largest_block_bytes = debug.largest_block_bytes;
    context->vector_width = debug.vector_width;
    context->kind = (int)debug.kernels;
    context->part = params->part;
    context->parts = params->parts;
    context->capabilities.item_registers = debug.item_registers;
    context->counts.size = sizeof context->counts;
    context->capabilities.size = sizeof context->capabilities;
    kn_map_init(&context->programs, &context->host);
    kn_map_init(&context->refused, &context->host);
    context->mutex = kn_mutex_create(host);
    context->reporting = kn_mutex_create(host);
    context->built = kn_condition_create(host);
    bool complete = context->mutex && context->reporting && context->built &&
                    copy_folder(host, params->cache_folder, &context->cache_folder) &&
                    copy_folder(host, params->kernel_folder, &context->kernel_folder);
    if (!complete) kn_context_destroy(&context);
    /* Until the driver was tried. */
    if (context) context->capabilities.shares_programs = context->cache_folder != NULL;
    return context;
}

static kn_status check_params(const kn_context_params *params, const kn_context_debug *debug,
                              kn_error *error) {
    int width = debug->vector_width;
    if (width != 0 && width != 4 && width != 8 && width != 16)
        return kn_fail(error, KN_ERROR_ARGUMENT,
                       "vector_width is %d; expected 4, 8 or 16, or 0 for the device's", width);
    if (debug->item_registers < 0)
        return kn_fail(error, KN_ERROR_ARGUMENT, "item_registers is %d; expected 0 or more",
                       debug->item_registers);
    if ((int)debug->kernels < 0 || debug->kernels > KN_KERNELS_GPU)
        return kn_fail(error, KN_ERROR_ARGUMENT,
                       "kernels is %d; expected KN_KERNELS_PROBED, KN_KERNELS_CPU or KN_KERNELS_GPU",
                       (int)debug->kernels);
    if (params->parts < 0 || params->part < 0 || params->part >= (params->parts ? params->parts : 1))
        return kn_fail(error, KN_ERROR_ARGUMENT, "part is %d of %d parts; expected an index from 0",
                       params->part, params->parts);
    return KN_OK;
}

static kn_status open_queues(kn_context *context, cl_command_queue queue, kn_error *error) {
    cl_int code = CL_SUCCESS;
    cl_command_queue_properties properties = context->records ? CL_QUEUE_PROFILING_ENABLE : 0;
    for (int i = 0; i < 2; i++) {
        if (queue) {
            code = clRetainCommandQueue(queue);
            if (code == CL_SUCCESS) context->queues[i] = queue;
        } else {
            context->queues[i] =
                clCreateCommandQueue(context->context, context->found.device, properties, &code);
        }
        if (code != CL_SUCCESS)
            return kn_fail_cl(error, code, "%s: could not create a command queue", context->found.info.name);
    }
    return KN_OK;
}

/* Queries the driver's limits; probing adds properties that must be tested. */
static void read_limits(kn_context *context) {
    kn_capabilities *capabilities = &context->capabilities;
    const kn_device_info *info = &context->found.info;
    cl_device_id device = context->found.device;
    capabilities->compute_units = info->compute_units;
    if (!capabilities->used_units) capabilities->used_units = info->compute_units;
    capabilities->local_bytes = info->local_bytes;
    capabilities->local_is_global =
        context->local_is_global ||
        (info->type != KN_DEVICE_CPU && kn_device_number(device, CL_DEVICE_LOCAL_MEM_TYPE) == CL_GLOBAL);
    capabilities->shares_memory = info->shares_memory;
    /* Displays and the driver use some of a GPU's memory, which drivers include in what they report. */
    const bool has_memory = info->type == KN_DEVICE_GPU && !info->shares_memory;
    capabilities->memory_bytes = has_memory ? info->memory_bytes / 20 * 19 : info->memory_bytes;
    capabilities->work_group_items = (size_t)kn_device_number(device, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    uint64_t largest = info->largest_block_bytes;
    if (context->largest_block_bytes && (context->largest_block_bytes < largest || largest == 0))
        largest = context->largest_block_bytes;
    if (largest > capabilities->memory_bytes) largest = capabilities->memory_bytes;
    capabilities->largest_block_bytes = largest;
    const uint64_t bits = kn_device_number(device, CL_DEVICE_MEM_BASE_ADDR_ALIGN);
    uint32_t alignment = MIN_ALIGNMENT;
    while (alignment < bits / 8)
        alignment *= 2;
    capabilities->alignment_bytes = alignment;
}

kn_status kn_context_open(kn_context *context, const kn_found_device *found, cl_context shared,
                          cl_command_queue queue) {
    kn_error *error = &context->failure;
    char identity[1024];
    cl_int code = CL_SUCCESS;
    context->found = *found;
    context->borrowed = queue != NULL;
    if (!shared) kn_context_take_part(context);
    if (shared) {
        code = clRetainContext(shared);
        if (code == CL_SUCCESS) context->context = shared;
    } else {
        cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)found->platform, 0};
        context->context = clCreateContext(properties, 1, &context->found.device, NULL, NULL, &code);
    }
    if (code != CL_SUCCESS) return kn_fail_cl(error, code, "%s could not be opened", found->info.name);
    kn_status status = open_queues(context, queue, error);
    if (status) return status;
    read_limits(context);
    kn_found_identity(found, identity, sizeof identity);
    if (!kn_verdicts_open(&context->verdicts, &context->host, context->cache_folder, identity))
        return kn_fail_memory(error, sizeof identity);
    if (!kn_tunings_open(&context->tunings, &context->verdicts))
        return kn_fail_memory(error, sizeof identity);
    context->verdicts.interrupt = context->interrupt;
    context->verdicts.may_hang = found->info.type != KN_DEVICE_CPU;
    if (!context->precompile) kn_verdicts_log(&context->verdicts, found->info.name);
    kn_timeline_open(context);
    return KN_OK;
}

/* Removes temporary files that killed programs left; files still being written are younger. */
static void sweep_cache(const kn_context *context) {
    static const char *const parts[] = {"programs", "devices"};
    enum { HOUR = 3600 };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        kn_text path;
        kn_text_init(&path, &context->host);
        kn_text_format(&path, "%s/%s", context->cache_folder, parts[i]);
        if (!kn_text_failed(&path)) kn_folder_sweep(path.data, HOUR);
        kn_text_finish(&path);
    }
}

/* Creates the cache folder. Without a cache, kernels are recompiled each time, which is logged. */
static void open_cache(kn_context *context, kn_context_params *known) {
    kn_error error = {0};
    if (!context->cache_folder) return;
    if (kn_folder_make(&context->host, context->cache_folder, &error)) {
        kn_context_keeps_nothing(context, error.text);
        kn_release(&context->host, context->cache_folder);
        context->cache_folder = NULL;
        known->cache_folder = NULL;
    } else if (!kn_folder_takes_files(context->cache_folder)) {
        kn_fail(&error, KN_ERROR_FILE, "cannot create files in the folder \"%s\"", context->cache_folder);
        kn_context_keeps_nothing(context, error.text);
    } else {
        sweep_cache(context);
    }
}

kn_context *kn_context_begin(const kn_context_params *params, kn_context_params *known) {
    kn_error error = {0};
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    kn_context_params_init(known);
    if (KN_PARAMS_TAKE(kn_context_params, known, params, &error) == KN_OK)
        KN_PARAMS_TAKE(kn_context_debug, &debug, known->debug, &error);
    kn_host host = kn_host_with(&known->allocator);
    host.log = known->log;
    kn_context *context = kn_context_prepare(&host, known);
    if (!context) return NULL;
    if (error.status != KN_OK)
        context->failure = error;
    else if (check_params(known, &debug, &context->failure) == KN_OK &&
             kn_context_force_matrix_unit(context, known->matrix_unit, &context->failure) == KN_OK &&
             !(known->target && known->target[0]))
        open_cache(context, known);
    return context;
}

/* ---- closing ------------------------------------------------------------------------------------ */

static void destroy_joined(kn_context *context) {
    for (int i = 0; i < context->joined_count; i++) {
        kn_context_destroy(&context->joined[i].context);
        kn_release(&context->host, context->joined[i].name);
    }
    context->joined_count = 0;
}

void kn_context_destroy(kn_context **context) {
    if (!context || !*context) return;
    kn_context *old = *context;
    kn_host host = old->host;
    destroy_joined(old);
    /* A caller's queue may contain work that waits for the caller. */
    for (int i = 0; i < 2; i++)
        if (old->queues[i] && !old->borrowed) clFinish(old->queues[i]);
    if (old->mutex) kn_programs_release(old);
    kn_products_release(old);
    if (old->refused.host) kn_map_finish(&old->refused);
    kn_timeline_close(old);
    kn_tunings_close(&old->tunings);
    kn_verdicts_close(&old->verdicts);
    if (old->nothing) clReleaseMemObject(old->nothing);
    kn_context_return_part(old);
    for (int i = 0; i < 2; i++)
        if (old->queues[i]) clReleaseCommandQueue(old->queues[i]);
    if (old->context) clReleaseContext(old->context);
    if (old->part_device) clReleaseDevice(old->part_device);
    kn_condition_destroy(&host, &old->built);
    kn_mutex_destroy(&host, &old->mutex);
    kn_mutex_destroy(&host, &old->reporting);
    kn_release(&host, old->cache_folder);
    kn_release(&host, old->kernel_folder);
    kn_release(&host, old);
    *context = NULL;
}
