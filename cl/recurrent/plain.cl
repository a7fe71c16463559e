/* Recurrences, one launch per step and one work-item per unit and sample, for devices where no other kernel
 * works correctly: no local memory, no vectors.
 *
 * Defines, arrays and arguments: those of recurrent/unit.cl. Global size: units, samples.
 *   kn_recurrent_step(x, weight, …), kn_recurrent_back(dy, kept, …)     as in recurrent/tiled.cl */
#include "common/wanted.cl"
#include "recurrent/unit.cl"

#if KN_WANTED(kn_recurrent_step)
kernel void kn_recurrent_step(KN_STEP_PARAMETERS) {
    const int unit = get_global_id(0), row = get_global_id(1);
    if (unit >= units) return;
    KN_A sums[KN_GATES];
    for (int gate = 0; gate < KN_GATES; gate++) {
        KN_A sum = 0;
        for (int k = 0; KN_PRESENT(step_before) && k < units; k++)
            sum += (KN_A)before[row * before_row + before_at + k] *
                   (KN_A)weight[((KN_INDEX)gate * units + unit) * units + k];
        sums[gate] = sum;
    }
    step_unit(row, unit, sums, KN_STEP_PASSED);
}
#endif

#if KN_WANTED(kn_recurrent_back)
kernel void kn_recurrent_back(KN_BACK_PARAMETERS) {
    const int unit = get_global_id(0), row = get_global_id(1), depth = KN_GATES * units;
    if (unit >= units) return;
    KN_A sum = 0;
    for (int k = 0; !first && k < depth; k++)
        sum += (KN_A)hidden[((KN_INDEX)row * length + from) * depth + k] * (KN_A)weight[(KN_INDEX)k * units + unit];
    back_unit(row, unit, sum, KN_BACK_PASSED);
}
#endif
