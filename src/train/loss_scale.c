/* Loss scaling: the loss is multiplied by a power of two before its gradients are computed, and the gradients
 * of parameters are divided by it, so that small intermediate gradients do not vanish in float16. The factor
 * is a state: a step with non-finite gradients halves it and updates nothing; after INTERVAL updates in a row
 * it is doubled. All of this happens on the device. */
#include "ops/ops.h"
#include "train/optimizer.h"

enum { INTERVAL = 2000 };
static const double first_scale = 65536, largest_scale = 16777216;

static kn_value *scale_state(kn_graph *graph, const char *name, double first) {
    const kn_shape scalar = {.dtype = KN_FLOAT32};
    const kn_initializer begins = {KN_INITIALIZER_FILL, first};
    return kn_state_add(graph, name, &scalar, KN_STATE_CONTROL, &begins);
}

kn_value *kn_loss_scale(kn_update *update, kn_value *loss) {
    update->scale = scale_state(update->graph, KN_TRAIN_LOSS_SCALE, first_scale);
    return kn_mul(loss, update->scale);
}

void kn_loss_scale_undo(const kn_update *update, kn_update_part *parts, size_t count) {
    kn_value *inverse = kn_div(kn_scalar(update->graph, 1), update->scale);
    for (size_t i = 0; i < count; i++)
        parts[i].gradient = kn_mul(parts[i].gradient, inverse);
}

void kn_loss_scale_follow(const kn_update *update, kn_value *finite, kn_value *wait) {
    kn_graph *graph = update->graph;
    kn_value *scale = update->scale, *good = scale_state(graph, KN_TRAIN_LOSS_SCALE ".good", 0);
    kn_value *zero = kn_scalar(graph, 0), *one = kn_scalar(graph, 1), *next = kn_shift(good, 1);
    kn_value *enough = kn_greater_equal(next, kn_scalar(graph, INTERVAL));
    kn_value *larger = kn_min(kn_scale(scale, 2), kn_scalar(graph, largest_scale));
    kn_value *smaller = kn_max(kn_scale(scale, 0.5), one);
    kn_value *new_scale = kn_where(finite, kn_where(enough, larger, scale), smaller);
    kn_value *new_good = kn_where(finite, kn_where(enough, zero, next), zero);
    if (wait) {
        kn_value *ends = kn_equal(wait, zero);
        new_scale = kn_where(ends, new_scale, scale);
        new_good = kn_where(ends, new_good, good);
    }
    kn_assign(graph, scale, new_scale);
    kn_assign(graph, good, new_good);
}
