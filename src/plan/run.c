/* Running a plan: its steps go to the compute queue in their order. Nothing is allocated here. */
#include "plan/run_private.h"

static kn_status launch(const kn_plan *plan, const kn_memory *memory, const kn_ready_step *ready,
                        kn_error *error) {
    static const unsigned char zero = 0;
    kn_buffer *source, *target;
    switch (ready->step->kind) {
    case KN_STEP_KERNEL:
        return kn_kernel_launch(plan->context, ready->kernel, &ready->launch, ready->step->label, error);
    case KN_STEP_COPY:
        if (!ready->bytes) return KN_OK;
        source = kn_plan_buffer(plan, memory, ready->source);
        target = kn_plan_buffer(plan, memory, ready->target);
        return kn_queue_copy(plan->context, KN_QUEUE_COMPUTE, source, 0, target, 0, ready->bytes,
                             (kn_event){NULL}, NULL, error);
    case KN_STEP_FILL:
        if (!ready->bytes) return KN_OK;
        target = kn_plan_buffer(plan, memory, ready->target);
        return kn_queue_fill(plan->context, KN_QUEUE_COMPUTE, target, 0, ready->bytes, &zero, sizeof zero,
                             NULL, error);
    case KN_STEP_PRODUCT:
        return kn_plan_product(plan, memory, ready, error);
    }
    return kn_fail(error, KN_ERROR_INTERNAL, "a step of an unknown kind");
}

/* The states on which steps that run once depend, as a number that grows with each change of one. */
static uint64_t version_of(const kn_plan *plan) {
    uint64_t sum = 0;
    for (int i = 0; i < plan->state_count; i++)
        if (plan->state_kept[i]) sum += plan->state_list[i]->version;
    return sum;
}

kn_status kn_plan_run(kn_plan *plan, kn_memory *memory, kn_error *error) {
    uint64_t version = version_of(plan);
    bool kept = memory->kept == plan && plan->kept && plan->kept_version == version;
    /* Whatever happens from here on, the memory is this plan's, and complete only at the end. */
    memory->kept = plan;
    plan->kept = false;
    for (int i = 0; i < plan->state_count; i++)
        if (plan->state_written[i]) plan->state_list[i]->version++;
    for (int i = 0; i < plan->switched_count; i++) {
        const kn_switched *switched = &plan->switched[i];
        kn_status status = kn_kernel_set_buffer(switched->kernel, switched->argument,
                                                memory->inputs[switched->input].buffers[memory->turn], error);
        if (status != KN_OK) return status;
    }
    for (int i = 0; i < plan->step_count; i++) {
        if (kept && plan->steps[i].once) continue;
        kn_status status = launch(plan, memory, &plan->steps[i], error);
        if (status != KN_OK) return kn_fail_in(error, "step %d, %s", i, plan->steps[i].step->label);
    }
    plan->kept = true;
    plan->kept_version = version;
    return KN_OK;
}
