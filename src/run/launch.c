/* Launch sizes, chosen once kernels are compiled and their limits known. */
#include "run/run_private.h"

/* The largest local size up to 64 along dimension `d` that divides the global size, since the kernel need not
 * ignore items beyond it: a power of two on devices with wide vectors. */
static size_t dividing_size(const kn_launch *launch, int d, size_t allowed, bool wide) {
    size_t best = 1, most = allowed < 64 ? allowed : 64;
    for (size_t size = 2; size <= most; size += wide ? size : 1)
        if (launch->global[d] % size == 0) best = size;
    return best;
}

/* Halves the groups of a kernel that accepts any size, the last dimensions first, until the device allows
 * them. */
static size_t shrink_groups(kn_launch *launch, size_t items, size_t allowed) {
    for (int d = launch->dimensions - 1; d >= 0; d--)
        while (items > allowed && launch->local[d] % 2 == 0) {
            launch->local[d] /= 2;
            items /= 2;
        }
    return items;
}

size_t kn_step_launch(const kn_step *step, size_t allowed, bool wide, kn_launch *launch) {
    size_t items = 1;
    launch->dimensions = step->dimensions;
    for (int d = 0; d < step->dimensions && d < 3; d++) {
        launch->global[d] = step->global[d];
        launch->local[d] = step->local[d];
        launch->cut[d] = step->cut[d];
        if (!launch->local[d]) launch->local[d] = dividing_size(launch, d, allowed / items, wide);
        items *= launch->local[d];
    }
    return step->any_local ? shrink_groups(launch, items, allowed) : items;
}

kn_status kn_launch_choose(kn_executable *executable, kn_reductions *reductions, kn_ready_step *ready,
                           kn_error *error) {
    const kn_step *step = ready->step;
    const size_t allowed = kn_kernel_work_group_items(ready->kernel);
    const bool wide = kn_context_capabilities(executable->context)->wide_vector;
    const size_t items = kn_step_launch(step, allowed, wide, &ready->launch);
    const size_t reported = kn_kernel_reported_items(ready->kernel);
    if (items <= reported || (items <= allowed && kn_groups_work(executable, ready))) return KN_OK;
    kn_groups_reduce(reductions, executable, step, reported);
    return kn_fail(
        error, KN_ERROR_UNSUPPORTED,
        "%s: kernel \"%s\" of \"%s\" needs work-groups of %zu work-items, but %s allows %zu for it",
        step->label, step->kernel, step->file, items, kn_context_device(executable->context)->name, allowed);
}

/* ---- long launches ----------------------------------------------------------------------------------- */

/* Drivers of GPUs that also drive a display abort launches that take more than a second, some after half a
 * second. */
static const double longest_seconds = 0.25;
enum { MAX_LAUNCHES = 256, DOUBLE_FACTOR = 32 };

/* An upper estimate of a step's time in seconds. */
static double slow_seconds(const kn_ready_step *ready, double flops, double bytes) {
    const kn_node *node = ready->step->node;
    kn_cost cost = ready->cost;
    if (node && !(cost.flops > 0) && !(cost.bytes > 0)) kn_node_cost(node, &cost);
    /* Many GPUs have a low rate for 64-bit floats. */
    if (node && node->output_count && node->outputs[0]->shape.dtype == KN_FLOAT64)
        cost.flops *= DOUBLE_FACTOR;
    return cost.flops / flops > cost.bytes / bytes ? cost.flops / flops : cost.bytes / bytes;
}

static size_t groups_of(const kn_launch *launch, int d) {
    return launch->local[d] ? launch->global[d] / launch->local[d] : 1;
}

/* Splits a launch into at least `wanted` launches, if it has that many groups, along its last dimensions
 * first. */
static void cut_launch(kn_launch *launch, size_t wanted) {
    for (int d = launch->dimensions - 1; d >= 0; d--) {
        size_t groups = groups_of(launch, d), cut = wanted < groups ? wanted : groups;
        if (cut > launch->cut[d]) launch->cut[d] = cut;
        if (launch->cut[d] > 1) wanted = (wanted - 1) / launch->cut[d] + 1;
    }
}

/* The number of launches for a step, according to its time. */
static size_t pieces_of(const kn_ready_step *ready, double flops, double bytes) {
    if (ready->step->kind != KN_STEP_KERNEL || ready->step->source) return 1;
    double pieces = slow_seconds(ready, flops, bytes) / longest_seconds;
    return !(pieces > 1) ? 1 : pieces < MAX_LAUNCHES ? (size_t)pieces + 1 : MAX_LAUNCHES;
}

static void cut_by_time(kn_executable *executable) {
    double flops, bytes;
    bool any = false;
    kn_context_slow_speed(executable->context, false, &flops, &bytes);
    for (int i = 0; i < executable->plan.step_count; i++)
        any = any || pieces_of(&executable->steps[i], flops, bytes) > 1;
    if (!any) return;
    kn_context_slow_speed(executable->context, true, &flops, &bytes);
    for (int i = 0; i < executable->plan.step_count; i++) {
        size_t pieces = pieces_of(&executable->steps[i], flops, bytes);
        if (pieces > 1) cut_launch(&executable->steps[i].launch, pieces);
    }
}

/* Splits each launch into three along the first dimension and two along the others. */
static void cut_all(kn_executable *executable) {
    for (int i = 0; i < executable->plan.step_count; i++) {
        kn_ready_step *ready = &executable->steps[i];
        if (ready->step->kind != KN_STEP_KERNEL || ready->step->source) continue;
        for (int d = 0; d < ready->launch.dimensions; d++)
            if (ready->launch.cut[d] < 3) ready->launch.cut[d] = d ? 2 : 3;
    }
}

void kn_launches_cut(kn_executable *executable, bool all) {
    if (kn_context_capabilities(executable->context)->wide_vector ||
        kn_context_precompiles(executable->context))
        return;
    cut_by_time(executable);
    if (all) cut_all(executable);
}
