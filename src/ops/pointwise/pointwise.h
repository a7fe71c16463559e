/* Pointwise rows that other families use in builders. */
#ifndef KN_OPS_POINTWISE_H
#define KN_OPS_POINTWISE_H

#include "ops/row.h"

extern const kn_operator kn_row_add, kn_row_sub, kn_row_mul, kn_row_div, kn_row_neg, kn_row_scale,
    kn_row_equal, kn_row_cast, kn_row_dropout, kn_row_in_training;

#endif
