/* The sizes of launches, once kernels are compiled and their limits known. */
#include "run/run_private.h"

/* The largest local size up to 64 along dimension `d` that divides the global size, which is that of a kernel
 * that need not ignore items beyond it: a power of two on devices with wide vectors. */
static size_t dividing_size(const kn_launch *launch, int d, size_t allowed, bool wide) {
    size_t best = 1, most = allowed < 64 ? allowed : 64;
    for (size_t size = 2; size <= most; size += wide ? size : 1)
        if (launch->global[d] % size == 0) best = size;
    return best;
}

/* Halves the groups of a kernel that allows any size, the last dimensions first, until it allows them. */
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
        if (!launch->local[d]) launch->local[d] = dividing_size(launch, d, allowed / items, wide);
        items *= launch->local[d];
    }
    return step->any_local ? shrink_groups(launch, items, allowed) : items;
}

kn_status kn_launch_choose(const kn_executable *executable, kn_ready_step *ready, kn_error *error) {
    const kn_step *step = ready->step;
    const size_t allowed = kn_kernel_work_group_items(ready->kernel);
    const bool wide = kn_context_capabilities(executable->context)->wide_vector;
    const size_t items = kn_step_launch(step, allowed, wide, &ready->launch);
    if (items <= allowed) return KN_OK;
    return kn_fail(
        error, KN_ERROR_UNSUPPORTED,
        "%s: the kernel \"%s\" of \"%s\" needs work-groups of %zu work-items, and %s allows %zu for it",
        step->label, step->kernel, step->file, items, kn_context_device(executable->context)->name, allowed);
}
