#include "ops/fragment.h"

static const kn_fragment fragments[] = {
    [KN_MATRIX_UNIT_MMA] = {32, 16, 8, 8},     [KN_MATRIX_UNIT_WMMA] = {32, 16, 16, 8},
    [KN_MATRIX_UNIT_WMMA12] = {32, 16, 16, 8}, [KN_MATRIX_UNIT_MFMA] = {64, 16, 16, 8},
    [KN_MATRIX_UNIT_DPAS8] = {8, 8, 8, 0},     [KN_MATRIX_UNIT_DPAS16] = {16, 8, 16, 0},
    [KN_MATRIX_UNIT_MMA8] = {32, 16, 8, 8}};

const kn_fragment *kn_fragment_of(kn_matrix_unit unit) {
    return &fragments[unit];
}

kn_matrix_unit kn_fragment_unit(const kn_target *target, kn_dtype type) {
    if (target->wide_vector || !target->matrix_unit) return KN_MATRIX_UNIT_NONE;
    const kn_matrix_unit unit = target->matrix_unit(target->device, type);
    return unit > KN_MATRIX_UNIT_NONE && (size_t)unit < KN_COUNT_OF(fragments) && fragments[unit].lanes
               ? unit
               : KN_MATRIX_UNIT_NONE;
}

uint64_t kn_fragment_exchange(const kn_target *target, kn_matrix_unit unit, size_t items) {
    const kn_fragment *of = &fragments[unit];
    if (!target->emulates_matrix_unit) return 0;
    return 2 * (uint64_t)items / (uint64_t)of->lanes *
           (uint64_t)((of->rows + of->columns) * KN_FRAGMENT_DEPTH);
}

void kn_step_fragment(kn_step *step, kn_matrix_unit unit, int numbers, bool emulated, int wave_m,
                      int wave_n) {
    KN_STEP_DEFINE(step, {"KN_FRAGMENT", unit}, {"KN_FORMAT", numbers});
    if (emulated) KN_STEP_DEFINE(step, {"KN_EMULATED", 1});
    KN_STEP_DEFINE(step, {"KN_WAVE_M", wave_m}, {"KN_WAVE_N", wave_n});
}
