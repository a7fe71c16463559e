/* Matrix units of devices with many threads, as kernels use them through cl/common/fragment.cl. */
#ifndef KN_OPS_FRAGMENT_H
#define KN_OPS_FRAGMENT_H

#include "ops/row.h"

/* The sizes of a unit, which are those of cl/common/fragment_layout.cl. */
typedef struct kn_fragment {
    int lanes;         /* of a wave */
    int rows, columns; /* of the sums that it computes at a time */
    int padding;       /* numbers after each row of a slice */
} kn_fragment;
enum { KN_FRAGMENT_DEPTH = 16 }; /* numbers of 16 bits that all units add at a time */
/* Of a unit that kn_fragment_unit returned. */
const kn_fragment *kn_fragment_of(kn_matrix_unit unit);

/* The unit of a device with many threads that multiplies numbers of this type; KN_MATRIX_UNIT_NONE: none. */
kn_matrix_unit kn_fragment_unit(const kn_target *target, kn_dtype type);
/* The bytes of local memory by which lanes give each other numbers, where plain code replaces the unit;
 * numbers of 32 bits are half as many. */
uint64_t kn_fragment_exchange(const kn_target *target, kn_matrix_unit unit, size_t items);
/* Defines the macros of cl/common/fragment.cl: the unit, KN_FORMAT, and the sums of a wave. */
void kn_step_fragment(kn_step *step, kn_matrix_unit unit, int numbers, bool emulated, int wave_m, int wave_n);

#endif
