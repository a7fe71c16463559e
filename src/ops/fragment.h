/* Matrix units of many-thread devices, which kernels use through cl/common/fragment.cl. */
#ifndef KN_OPS_FRAGMENT_H
#define KN_OPS_FRAGMENT_H

#include "ops/row.h"

/* The sizes of a unit, as in cl/common/fragment_layout.cl. */
typedef struct kn_fragment {
    int lanes;         /* of a wave */
    int rows, columns; /* of the tile of results that it computes at a time */
    int padding;       /* elements after each row of a slice */
} kn_fragment;
enum { KN_FRAGMENT_DEPTH = 16 }; /* the depth of all units for 16-bit elements */
/* For a unit that kn_fragment_unit returned. */
const kn_fragment *kn_fragment_of(kn_matrix_unit unit);

/* The unit of a many-thread device that multiplies this type; KN_MATRIX_UNIT_NONE: none. */
kn_matrix_unit kn_fragment_unit(const kn_target *target, kn_dtype type);
/* The bytes of local memory through which lanes exchange elements when plain code emulates the unit; half as
 * many 32-bit elements fit. */
uint64_t kn_fragment_exchange(const kn_target *target, kn_matrix_unit unit, size_t items);
/* Defines the macros of cl/common/fragment.cl: the unit, KN_FORMAT, and the tile of a wave. */
void kn_step_fragment(kn_step *step, kn_matrix_unit unit, int numbers, bool emulated, int wave_m, int wave_n);

#endif
