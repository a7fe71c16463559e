/* Helpers of shape rules: reading attributes and inputs, and error messages. */
#include "ops/shape_rule.h"

#include <stdarg.h>
#include <stdio.h>

#include "ops/row.h"

kn_status kn_shape_fail(const kn_shape_call *call, kn_status status, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return kn_fail(call->error, status, "%s '%s': %s", call->row->name, call->name, text);
}

const char *kn_shape_words_of(const kn_shape_call *call, int input) {
    return kn_shape_words(call->graph, &call->inputs[input]->shape);
}

kn_attribute_value *kn_shape_attribute(const kn_shape_call *call, const char *name) {
    char text[300];
    kn_attribute_value *value = kn_row_attribute(call->row, call->attributes, name);
    if (value) return value;
    if (call->error->status == KN_OK) /* the rule continues with any value; the node fails later */
        kn_shape_fail(call, KN_ERROR_INTERNAL, "%s", kn_row_no_attribute(call->row, name, text, sizeof text));
    return call->attributes;
}

kn_status kn_shape_axis(kn_shape_call *call, int64_t number, int rank, int *axis) {
    if (number < -rank || number >= rank)
        return kn_shape_fail(call, KN_ERROR_SHAPE, "x is %s, which has no axis %lld; expected %d to %d",
                             kn_shape_words_of(call, 0), (long long)number, -rank, rank - 1);
    *axis = (int)(number < 0 ? number + rank : number);
    return KN_OK;
}

kn_status kn_shape_float_input(kn_shape_call *call, int input) {
    if (kn_dtype_is_float(call->inputs[input]->shape.dtype)) return KN_OK;
    return kn_shape_fail(call, KN_ERROR_DTYPE,
                         "input %d is %s; cast it to a floating-point type, such as float32", input,
                         kn_shape_words_of(call, input));
}

kn_status kn_shape_like_first(kn_shape_call *call) {
    call->outputs[0] = call->inputs[0]->shape;
    return KN_OK;
}

kn_status kn_shape_starts(kn_shape_call *call, int input, int of) {
    if (call->input_count <= input || !call->inputs[input]) return KN_OK;
    const kn_shape *own = &call->inputs[input]->shape;
    if (own->dtype != KN_INT32 || own->rank != 1 ||
        (own->dims[0] != 1 && own->dims[0] != call->inputs[of]->shape.dims[0]))
        return kn_shape_fail(call, KN_ERROR_SHAPE, "start is %s; expected int32 (B) or (1)",
                             kn_shape_words_of(call, input));
    return KN_OK;
}

const char *kn_nothing_wrong(const kn_node *node) {
    (void)node;
    return NULL;
}

bool kn_shape_has_samples(const kn_shape *all, const kn_shape *some) {
    const int64_t most = all->dims[0], count = some->dims[0];
    return most == count || (kn_dim_known(most) && kn_dim_known(count) && most > count);
}
