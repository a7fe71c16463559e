/* Rows of losses that several files use in builders. */
#ifndef KN_OPS_LOSSES_H
#define KN_OPS_LOSSES_H

#include "ops/row.h"

extern const kn_operator kn_row_cross_entropy, kn_row_cross_entropy_gradient;
extern const kn_operator kn_row_picked_slope, kn_row_with_gradients;
extern const kn_operator kn_row_cross_entropy_counted, kn_row_cross_entropy_counted_gradient;

#endif
