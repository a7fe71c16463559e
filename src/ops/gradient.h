/* Helpers of gradient rules. */
#ifndef KN_OPS_GRADIENT_H
#define KN_OPS_GRADIENT_H

#include "ops/build.h"

kn_value *kn_gradient_build(kn_gradient_call *call, const kn_operator *row, kn_value *const *inputs,
                            int count, const kn_settings *settings);
/* x reshaped to a shape with as many elements; all dimensions are numbers. Returns x if it has that shape. */
kn_value *kn_gradient_reshape(kn_gradient_call *call, kn_value *x, const kn_shape *shape);
kn_value *kn_gradient_cast(kn_gradient_call *call, kn_value *x, kn_dtype dtype);
/* x repeated along its axes of size 1 (and along new leading axes) to the given shape. */
kn_value *kn_gradient_broadcast(kn_gradient_call *call, kn_value *x, const kn_shape *shape);
/* KN_OK, or the graph's failure. */
kn_status kn_gradient_status(kn_gradient_call *call);

#endif
