/* Reductions, which losses and softmax also use. */
#ifndef KN_OPS_REDUCE_H
#define KN_OPS_REDUCE_H

#include "ops/lowering.h"

extern const kn_operator kn_row_sum, kn_row_mean;

typedef enum kn_reduce_kind { KN_REDUCE_SUM, KN_REDUCE_MAX, KN_REDUCE_MIN } kn_reduce_kind;

/* result = sum, max or min of the source over the axes marked `reduced`; divided by `divisor` if `divide`. */
typedef struct kn_reduction {
    kn_reduce_kind kind;
    bool divide;
    int64_t divisor;
    kn_value *source; /* NULL: the source is in scratch memory, in type dtype */
    int scratch;
    kn_dtype dtype;
    int rank;
    int64_t dims[KN_MAX_RANK];
    bool reduced[KN_MAX_RANK];
} kn_reduction;
/* Emits the steps that write it to lowering->result (lowering.c). */
kn_status kn_emit_reduction(kn_lowering *lowering, const kn_reduction *reduction, kn_method method);

#endif
