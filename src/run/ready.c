/* Prepares the steps of a plan: compiles programs, creates kernels, chooses launch sizes. */
#include "run/run_private.h"

/* Drivers report a wrong number of arguments late, or never. */
static kn_status check_parameters(const kn_ready_step *ready, kn_error *error) {
    const kn_step *step = ready->step;
    int count = step->source ? kn_kernel_parameters(ready->kernel) : -1;
    if (count < 0 || count == step->argument_count) return KN_OK;
    return kn_fail(error, KN_ERROR_ARGUMENT,
                   "%s: the kernel \"%s\" has %d parameters; expected %d: inputs, results, symbols of the "
                   "shape patterns, attributes",
                   step->label, step->kernel, count, step->argument_count);
}

/* Finds the source and target of a copy, fill or transfer among its arguments: fills, receives, totals and
 * loads have only a target; sends, shares and stores only a source. */
static kn_status find_source_and_target(kn_ready_step *ready, kn_error *error) {
    const kn_step *step = ready->step;
    for (int a = 0; a < step->argument_count; a++) {
        const kn_argument *argument = &step->arguments[a];
        if (argument->kind != KN_ARGUMENT_VALUE || !argument->value) continue;
        if (argument->writes)
            ready->target = argument->value;
        else
            ready->source = argument->value;
    }
    const bool takes_away = kn_step_is_outgoing(step->kind);
    if ((!ready->target && !takes_away) || (!ready->source && (takes_away || step->kind == KN_STEP_COPY)))
        return kn_fail(error, KN_ERROR_INTERNAL, "%s: a copy, fill or transfer without its values",
                       step->label);
    if (!kn_value_bytes(takes_away ? ready->source : ready->target, &ready->bytes)) ready->bytes = 0;
    return KN_OK;
}

/* If no step of a node has a cost, assigns the node's cost to the first. Sums of parts, which may run later,
 * have separate costs. */
static void assign_costs(kn_executable *executable) {
    for (int i = 0, end; i < executable->plan.step_count; i = end) {
        const kn_node *node = executable->steps[i].step->node;
        bool has_cost = !node || executable->steps[i].step->sum_count;
        for (end = i; end < executable->plan.step_count && executable->steps[end].step->node == node; end++) {
            kn_ready_step *ready = &executable->steps[end];
            ready->cost = ready->step->cost;
            if (ready->step->sum_count) continue;
            has_cost = has_cost || ready->cost.flops > 0 || ready->cost.bytes > 0;
        }
        if (!has_cost) kn_node_cost(node, &executable->steps[i].cost);
        for (int s = i; s < end; s++) {
            executable->info.flops += executable->steps[s].cost.flops;
            executable->steps[s].launch.flops = executable->steps[s].cost.flops;
            executable->steps[s].launch.bytes = executable->steps[s].cost.bytes;
        }
    }
}

/* Marks the states that a step writes, and those that it reads if it runs once. */
static void mark_states(kn_executable *executable, const kn_ready_step *ready) {
    for (int a = 0; a < ready->step->argument_count; a++) {
        const kn_argument *argument = &ready->step->arguments[a];
        if (argument->kind != KN_ARGUMENT_VALUE || !argument->value) continue;
        const kn_placement *placement = kn_executable_placement(executable, argument->value);
        if (placement->storage != KN_STORAGE_STATE) continue;
        if (argument->writes) executable->state_written[placement->slot] = true;
        if (ready->once) executable->state_kept[placement->slot] = true;
    }
}

/* Prepares everything except the kernels. */
static kn_status make_steps(kn_executable *executable, kn_error *error) {
    kn_status status = KN_OK;
    for (int i = 0; i < executable->plan.step_count; i++) {
        kn_ready_step *ready = &executable->steps[i];
        ready->step = executable->plan.steps[i];
        ready->once = executable->plan.once[i];
        mark_states(executable, ready);
        if (status == KN_OK && ready->step->kind != KN_STEP_KERNEL && ready->step->kind != KN_STEP_PRODUCT)
            status = find_source_and_target(ready, error);
    }
    return status;
}

kn_status kn_executable_make_kernel(kn_executable *executable, const kn_executable_request *request, int step,
                                    kn_program *program, kn_error *error) {
    kn_ready_step *ready = &executable->steps[step];
    kn_status status =
        kn_kernel_create(executable->context, program, ready->step->kernel, &ready->kernel, error);
    if (status == KN_OK) status = check_parameters(ready, error);
    if (status == KN_OK) status = kn_launch_choose(executable, request->reductions, ready, error);
    return status;
}

/* A program that does not compile may do so in another form. */
static void reduce_kernel(const kn_executable *executable, kn_reductions *reductions,
                          const kn_step_programs *list, size_t program) {
    for (int i = 0; i < executable->plan.step_count; i++)
        if (list->program_of[i] == (int)program) {
            kn_groups_after_failure(reductions, executable, executable->plan.steps[i]);
            return;
        }
}

static kn_status make_kernels(kn_executable *executable, const kn_executable_request *request,
                              const kn_step_programs *list, kn_error *error) {
    size_t failed;
    kn_program **programs = kn_allocate(&executable->host, list->count + 1, sizeof *programs);
    if (!programs) return kn_fail_memory(error, list->count * sizeof *programs);
    kn_status status = kn_program_get_all(executable->context, list->requests, list->count,
                                          &request->params->progress, programs, &failed, error);
    if (status == KN_ERROR_COMPILE && failed < list->count)
        reduce_kernel(executable, request->reductions, list, failed);
    for (int i = 0; i < executable->plan.step_count && status == KN_OK; i++)
        if (list->program_of[i] >= 0)
            status = kn_executable_make_kernel(executable, request, i, programs[list->program_of[i]], error);
    kn_release(&executable->host, programs);
    return status;
}

kn_status kn_executable_ready(kn_executable *executable, const kn_executable_request *request,
                              kn_error *error) {
    size_t steps = (size_t)executable->plan.step_count;
    executable->steps = kn_arena_take(&executable->arena, steps, sizeof *executable->steps);
    if (!executable->steps) return kn_fail_memory(error, steps * sizeof *executable->steps);
    kn_status status = make_steps(executable, error);
    kn_step_programs list = {.count = 0};
    if (status == KN_OK)
        status = kn_step_programs_list(executable, request->switches->programs, &list, error);
    executable->info.kernels = (int)list.count;
    bool planned =
        request->switches->programs == KN_PROGRAMS_NONE || kn_context_is_described(executable->context);
    if (status == KN_OK && !planned)
        status = kn_context_precompiles(executable->context)
                     ? kn_executable_precompile(executable, request, &list, error)
                     : make_kernels(executable, request, &list, error);
    if (status == KN_OK) assign_costs(executable);
    if (status == KN_OK && request->switches->programs != KN_PROGRAMS_NONE)
        kn_launches_cut(executable, request->switches->cut_launches);
    kn_step_programs_finish(&list, &executable->host);
    return status;
}
