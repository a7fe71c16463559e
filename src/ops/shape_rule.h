/* Helpers of shape rules: reading attributes and inputs, and error messages. */
#ifndef KN_OPS_SHAPE_RULE_H
#define KN_OPS_SHAPE_RULE_H

#include "ops/row.h"

/* Fails with "OPERATOR 'NAME': " before the text. */
kn_status kn_shape_fail(const kn_shape_call *call, kn_status status, const char *format, ...) KN_PRINTF(3, 4);
/* The shape of an input as text, for messages. */
const char *kn_shape_words_of(const kn_shape_call *call, int input);
/* The value of an attribute of the row, to be read or completed. An unknown name fails the node, regardless
 * of the rule's return value; the message lists the row's names. */
kn_attribute_value *kn_shape_attribute(const kn_shape_call *call, const char *name);
/* Reads an axis of a value of rank `rank`; negative axes count from the end. */
kn_status kn_shape_axis(kn_shape_call *call, int64_t number, int rank, int *axis);
kn_status kn_shape_float_input(kn_shape_call *call, int input);
/* Output 0 has the shape of input 0. */
kn_status kn_shape_like_first(kn_shape_call *call);
/* Fails unless an input, if present, is int32 (B) or (1), where B is the first dimension of input `of`. */
kn_status kn_shape_starts(kn_shape_call *call, int input, int of);
/* Whether the first dimension of `all` is that of `some`, or is known to be larger. */
bool kn_shape_has_samples(const kn_shape *all, const kn_shape *some);
/* `wrong` of a backward row whose shape rule checks everything. */
const char *kn_nothing_wrong(const kn_node *node);

#endif
