/* The device in words that operators understand. */
#include "plan/run_private.h"

void kn_target_of(const kn_context *context, kn_target *target) {
    const kn_capabilities *device = kn_context_capabilities(context);
    *target = (kn_target){
        .wide_vector = device->wide_vector,
        .vector_width = device->vector_width,
        .vector_registers = device->vector_registers,
        .compute_units = device->compute_units,
        .work_group_items = device->work_group_items,
        .local_bytes = device->local_bytes,
        .wide_indices = kn_context_wide_indices(context),
    };
}
