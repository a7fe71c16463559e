/* Runs a plan: enqueues its steps in order on the compute queue of each part's device. Allocates nothing. */
#include "run/run_private.h"

/* Some drivers start nothing before a flush: the first comes early, so that the device does not wait while
 * the rest is enqueued. */
enum { FIRST_FLUSH = 8, NEXT_FLUSH = 64 };

/* Called after `count` steps of a run have been enqueued. */
static kn_status flush_sometimes(const kn_executable *executable, int count, kn_error *error) {
    if (count != FIRST_FLUSH && count % NEXT_FLUSH) return KN_OK;
    return kn_queue_flush(executable->context, KN_QUEUE_COMPUTE, error);
}

static kn_status launch(const kn_executable *executable, const kn_memory *memory, int step, kn_error *error) {
    static const unsigned char zeros[16] = {0};
    const kn_ready_step *ready = &executable->steps[step];
    kn_buffer *source, *target;
    switch (ready->step->kind) {
    case KN_STEP_KERNEL:
        return kn_kernel_launch(executable->context, ready->kernel, &ready->launch, ready->step->label,
                                error);
    case KN_STEP_COPY:
        if (!ready->bytes) return KN_OK;
        source = kn_executable_buffer(executable, memory, ready->source);
        target = kn_executable_buffer(executable, memory, ready->target);
        return kn_queue_copy(executable->context, KN_QUEUE_COMPUTE, source, 0, target, 0, ready->bytes,
                             (kn_event){NULL}, NULL, error);
    case KN_STEP_FILL:
        if (!ready->bytes) return KN_OK;
        target = kn_executable_buffer(executable, memory, ready->target);
        /* Drivers fill faster with a long pattern. */
        return kn_queue_fill(executable->context, KN_QUEUE_COMPUTE, target, 0, ready->bytes, zeros,
                             ready->bytes % sizeof zeros ? 1 : sizeof zeros, NULL, error);
    case KN_STEP_PRODUCT:
        return kn_executable_product(executable, memory, ready, error);
    case KN_STEP_SEND:
        return kn_exchange_send(executable, memory, ready, error);
    case KN_STEP_RECEIVE:
        return kn_exchange_receive(executable, memory, ready, error);
    case KN_STEP_SHARE:
        return kn_total_share(executable, memory, step, error);
    case KN_STEP_TOTAL:
        return kn_total_take(executable, memory, step, error);
    case KN_STEP_LOAD:
        return kn_state_load(executable, memory, ready, error);
    case KN_STEP_STORE:
        return kn_state_store(executable, memory, ready, error);
    }
    return kn_fail(error, KN_ERROR_INTERNAL, "a step of an unknown kind");
}

/* The version of all states that steps that run once read: increases whenever one changes. */
static uint64_t version_of(const kn_executable *executable) {
    uint64_t sum = 0;
    for (int i = 0; i < executable->state_count; i++)
        if (executable->state_kept[i]) sum += executable->state_list[i]->version;
    return sum;
}

static kn_status begin(kn_executable *executable, kn_memory *memory, kn_run *run, kn_error *error) {
    uint64_t version = version_of(executable);
    *run = (kn_run){.version = version,
                    .kept = memory->kept == executable && executable->kept &&
                            executable->kept_version == version};
    /* From here on the memory belongs to this plan, even if the run fails; its results persist only if it
     * succeeds. */
    memory->kept = executable;
    executable->kept = false;
    if (executable->totals) kn_totals_begin(executable->totals);
    for (int i = 0; i < executable->state_count; i++)
        if (executable->state_written[i]) executable->state_list[i]->version++;
    for (int i = 0; i < executable->switched_count; i++) {
        const kn_switched *switched = &executable->switched[i];
        kn_status status = kn_kernel_set_buffer(switched->kernel, switched->argument,
                                                memory->inputs[switched->input].buffers[memory->turn], error);
        if (status != KN_OK) return status;
    }
    return KN_OK;
}

/* Before the host waits for the first time: starts what is enqueued so far, and calls the caller. */
static kn_status before_wait(const kn_executable *executable, int step, kn_enqueued_callback *on_enqueued,
                             kn_error *error) {
    const kn_step_kind kind = executable->steps[step].step->kind;
    const bool waits = kind == KN_STEP_RECEIVE || (kind == KN_STEP_TOTAL && kn_total_waits(executable, step));
    if (!waits || !on_enqueued->call) return KN_OK;
    kn_status status = kn_queue_flush(executable->context, KN_QUEUE_COMPUTE, error);
    return status == KN_OK ? kn_call_enqueued(on_enqueued, error) : status;
}

static kn_status run_step(kn_executable *executable, const kn_memory *memory, const kn_run *run, int step,
                          kn_enqueued_callback *on_enqueued, kn_error *error) {
    const kn_ready_step *ready = &executable->steps[step];
    if (run->kept && ready->once) return KN_OK;
    kn_status status = before_wait(executable, step, on_enqueued, error);
    if (status != KN_OK) return status;
    status = launch(executable, memory, step, error);
    return status == KN_OK ? KN_OK : kn_fail_in(error, "step %d, %s", step, ready->step->label);
}

static void mark_kept(kn_executable *executable, const kn_run *run) {
    executable->kept = true;
    executable->kept_version = run->version;
}

/* Flushes a device's queue before enqueuing on another device, which may wait for the first. */
static kn_status run_parts(const kn_executable *executable, kn_memory *memories, const kn_run *runs,
                           kn_enqueued_callback *on_enqueued, kn_error *error) {
    for (int i = 0; i < executable->total.steps; i++) {
        const kn_part_step *at = &executable->order[i];
        kn_executable *part = executable->parts[at->device];
        bool turns = i + 1 == executable->total.steps || executable->order[i + 1].device != at->device;
        kn_status status =
            run_step(part, &memories[at->device], &runs[at->device], at->step, on_enqueued, error);
        if (status == KN_OK && turns) status = kn_queue_flush(part->context, KN_QUEUE_COMPUTE, error);
        if (status != KN_OK)
            return kn_fail_in(error, "on %s", kn_context_device_name_at(executable->context, at->device));
    }
    for (int i = 0; i < executable->part_count; i++)
        mark_kept(executable->parts[i], &runs[i]);
    return KN_OK;
}

kn_status kn_call_enqueued(kn_enqueued_callback *on_enqueued, kn_error *error) {
    const kn_enqueued_callback own = *on_enqueued;
    on_enqueued->call = NULL;
    return own.call ? own.call(own.user, error) : KN_OK;
}

kn_status kn_executable_run(kn_executable *executable, kn_memory *memories, kn_enqueued_callback *on_enqueued,
                            kn_error *error) {
    kn_run runs[KN_CONTEXT_MAX_DEVICES];
    for (int i = 0; i < executable->part_count; i++) {
        kn_status status = begin(executable->parts[i], &memories[i], &runs[i], error);
        if (status != KN_OK) return status;
    }
    if (executable->part_count > 1) return run_parts(executable, memories, runs, on_enqueued, error);
    for (int i = 0; i < executable->plan.step_count; i++) {
        kn_status status = run_step(executable, memories, runs, i, on_enqueued, error);
        if (status == KN_OK) status = flush_sometimes(executable, i + 1, error);
        if (status != KN_OK) return status;
    }
    mark_kept(executable, runs);
    return KN_OK;
}

kn_status kn_executable_repeat(kn_executable *executable, const kn_memory *memory, const kn_operator *row,
                               int times, kn_error *error) {
    kn_status status = KN_OK;
    int steps = 0;
    for (int turn = 0; turn < times && status == KN_OK; turn++)
        for (int i = 0; i < executable->plan.step_count && status == KN_OK; i++) {
            const kn_ready_step *ready = &executable->steps[i];
            const kn_node *node = ready->step->node;
            if (ready->once || (row && !(node && node->op == row))) continue;
            steps++;
            status = launch(executable, memory, i, error);
        }
    if (status == KN_OK && times > 0 && !steps)
        return kn_fail(error, KN_ERROR_NOT_FOUND, "the plan has no such steps");
    return status;
}
