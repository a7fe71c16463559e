/* Operators that reshape, move or generate elements. */
#include "exchange/onnx/import.h"

#include <inttypes.h>
#include <math.h>

/* ---- other shapes -------------------------------------------------------------------------------------- */

static kn_status reshape(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    kn_dim dims[KN_MAX_RANK];
    int64_t rest = 1;
    int count = 0, open = -1;
    if (call->opset < 5)
        count = kn_import_ints(call, "shape", dims, KN_MAX_RANK);
    else
        kn_import_dims(call, 1, dims, KN_MAX_RANK, &count);
    bool zeros = kn_import_int(call, "allowzero", 0) != 0;
    for (int i = 0; i < count; i++) {
        if (dims[i] == 0 && !zeros && i < x->shape.rank) dims[i] = x->shape.dims[i];
        if (dims[i] == -1)
            open = i;
        else if (rest >= 0)
            rest = kn_dim_known(dims[i]) ? kn_shape_elements(&(kn_shape){.rank = 2, .dims = {rest, dims[i]}})
                                         : -1;
    }
    int64_t all = kn_shape_elements(&x->shape);
    if (open >= 0 && all >= 0 && rest > 0) dims[open] = all / rest;
    return kn_import_put(call, 0, kn_import_reshape(call->import, x, dims, count < 0 ? 0 : count));
}

kn_value *kn_import_flatten(kn_import *import, kn_value *x, int axis) {
    kn_dim dims[2] = {1, 1};
    for (int i = 0; i < x->shape.rank; i++)
        dims[i >= axis] = kn_dim_multiply(import->graph, dims[i >= axis], x->shape.dims[i]);
    return kn_import_reshape(import, x, dims, 2);
}

static kn_status flatten(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    int64_t axis = kn_import_int(call, "axis", 1), rank = x->shape.rank;
    if (axis < 0) axis += rank;
    if (axis < 0 || axis > rank)
        return kn_import_fail(call, KN_ERROR_SHAPE, "axis %" PRId64 " is out of range for rank %" PRId64,
                              axis, rank);
    return kn_import_put(call, 0, kn_import_flatten(call->import, x, (int)axis));
}

/* Reads the axes of Squeeze and Unsqueeze, an attribute, or since opset 13 an input. Returns the count, -1 if
 * they are not given. */
static int take_axes(kn_import_call *call, int64_t *axes) {
    int count = -1;
    if (call->opset < 13) return kn_import_ints(call, "axes", axes, KN_MAX_RANK);
    if (kn_import_has(call, 1)) kn_import_integers(call, 1, axes, KN_MAX_RANK, &count);
    return count;
}

static kn_status squeeze(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    int64_t axes[KN_MAX_RANK];
    int count = take_axes(call, axes);
    if (count == 0) return kn_import_put(call, 0, x);
    for (int i = 0; count < 0 && i < x->shape.rank; i++) /* a dynamic axis stays */
        if (!kn_dim_known(x->shape.dims[i])) kn_graph_differ(call->graph, x->shape.dims[i], 1, true);
    return kn_import_put(call, 0,
                         kn_squeeze(x, count < 0 ? NULL : kn_import_list(call->import, axes, count)));
}

static kn_status unsqueeze(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    int64_t axes[KN_MAX_RANK];
    int count = take_axes(call, axes);
    if (count < 0) return kn_import_fail(call, KN_ERROR_FORMAT, "axes are missing");
    return kn_import_put(call, 0, kn_unsqueeze(x, kn_import_list(call->import, axes, count)));
}

static kn_status expand(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    kn_dim dims[KN_MAX_RANK];
    int count = 0;
    kn_import_dims(call, 1, dims, KN_MAX_RANK, &count);
    return kn_import_put(call, 0, kn_expand(x, kn_import_dims_text(call->import, dims, count)));
}

/* ---- moving elements ----------------------------------------------------------------------------------- */

static kn_status transpose(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    int64_t order[KN_MAX_RANK];
    int count = kn_import_ints(call, "perm", order, KN_MAX_RANK);
    for (int i = 0; count < 0 && i < x->shape.rank; i++)
        order[i] = x->shape.rank - 1 - i;
    return kn_import_put(
        call, 0, x->shape.rank < 2 ? x : kn_transpose(x, kn_import_list(call->import, order, x->shape.rank)));
}

static kn_status concat(kn_import_call *call) {
    kn_value *values[KN_MAX_INPUTS], *joined = NULL;
    int axis = 0, count = 0;
    for (int i = 0; i < call->input_count; i++) {
        kn_value *value = kn_import_in(call, i);
        if (i == 0) axis = kn_import_axis(call, kn_import_int(call, "axis", 1), value->shape.rank);
        values[count++] = value;
        if (count == KN_MAX_INPUTS || i + 1 == call->input_count) {
            joined = count == 1 ? values[0] : kn_concat(values, (size_t)count, axis);
            values[0] = joined;
            count = 1;
        }
    }
    return joined ? kn_import_put(call, 0, joined)
                  : kn_import_fail(call, KN_ERROR_FORMAT, "has no inputs; expected 1 or more");
}

static kn_status split(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *parts[KN_MAX_INPUTS * 4];
    int64_t sizes[KN_MAX_INPUTS * 4];
    const int most = (int)KN_COUNT_OF(parts);
    int axis = 0, count = call->output_count, given = -1;
    axis = kn_import_axis(call, kn_import_int(call, "axis", 0), x->shape.rank);
    if (count < 1 || count > most)
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "has %d outputs; expected 1 to %d", count, most);
    if (call->opset < 13)
        given = kn_import_ints(call, "split", sizes, most);
    else if (kn_import_has(call, 1))
        kn_import_integers(call, 1, sizes, most, &given);
    if (given >= 0 && given != count)
        return kn_import_fail(call, KN_ERROR_FORMAT, "has %d split sizes for %d outputs", given, count);
    kn_split(x, axis, given >= 0 ? sizes : NULL, (size_t)count, parts);
    for (int i = 0; i < count && kn_import_status(call) == KN_OK; i++)
        kn_import_put(call, i, parts[i]);
    return kn_import_status(call);
}

/* Slice ends that mean the end of the axis, whatever its size: exporters write such numbers. */
enum { TO_END = 1000000000 };

/* Slices `begin` to `end` along an axis whose size or end is dynamic. */
static kn_value *slice_open(kn_import_call *call, kn_value *x, int axis, kn_dim begin, kn_dim end,
                            int64_t step) {
    kn_dim size = x->shape.dims[axis];
    int64_t first = 0, last = 0;
    bool whole = kn_dim_constant(call->graph, begin, &first);
    bool numbers = kn_dim_constant(call->graph, end, &last);
    if (whole && numbers && step > 0) {
        if (last >= TO_END) last = INT64_MAX;
        return kn_import_slice(call->import, x, axis, first, last, step);
    }
    if (whole && end == size && step > 0)
        return kn_import_slice(call->import, x, axis, first, INT64_MAX, step);
    if (whole && first == 0 && numbers && last <= -INT32_MAX && step == -1)
        return kn_flip(kn_import_slice(call->import, x, axis, 0, 1, 1),
                       kn_import_list(call->import, (int64_t[]){axis}, 1));
    if (whole && first == -1 && numbers && last <= -INT32_MAX && step == -1)
        return kn_flip(x, kn_import_list(call->import, (int64_t[]){axis}, 1));
    if (step == 1 && (!whole || first >= 0) && !(numbers && last < 0)) {
        bool to_end = numbers && last >= TO_END;
        kn_value *positions =
            kn_import_range(call->import, kn_dim_subtract(call->graph, to_end ? size : end, begin));
        kn_item from = {.dtype = KN_INT32, .sizes = &begin, .count = 1};
        if (!whole || first != 0) positions = kn_add(positions, kn_item_value(call->import, &from));
        return kn_gather(x, positions, axis);
    }
    return kn_import_reject(call, KN_ERROR_UNSUPPORTED,
                            "slicing a dynamic axis from its end, or with a step, is not supported");
}

static kn_value *slice_axis(kn_import_call *call, kn_value *x, int axis, kn_dim begin_at, kn_dim end_at,
                            int64_t step) {
    kn_dim size = x->shape.dims[axis];
    int64_t begin, end;
    if (!kn_dim_known(size) || !kn_dim_constant(call->graph, begin_at, &begin) ||
        !kn_dim_constant(call->graph, end_at, &end))
        return slice_open(call, x, axis, begin_at, end_at, step);
    kn_import_slice_bounds(size, step, &begin, &end);
    if (step > 0)
        return begin == 0 && end == size && step == 1
                   ? x
                   : kn_import_slice(call->import, x, axis, begin, end < begin ? begin : end, step);
    /* A negative step selects the same elements from the reversed axis. */
    kn_value *flipped = kn_flip(x, kn_import_list(call->import, (int64_t[]){axis}, 1));
    int64_t first = size - 1 - begin, last = size - 1 - end;
    return kn_import_slice(call->import, flipped, axis, first, last < first ? first : last, -step);
}

static kn_status slice(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    kn_dim begin[KN_MAX_RANK], end[KN_MAX_RANK];
    int64_t axes[KN_MAX_RANK], steps[KN_MAX_RANK];
    int count = 0, ends = 0, named = -1, stepped = -1;
    if (call->opset < 10) {
        count = kn_import_ints(call, "starts", begin, KN_MAX_RANK);
        ends = kn_import_ints(call, "ends", end, KN_MAX_RANK);
        named = kn_import_ints(call, "axes", axes, KN_MAX_RANK);
        for (int i = 0; i < count; i++)
            begin[i] = kn_dim_of(call->graph, begin[i]);
        for (int i = 0; i < ends; i++)
            end[i] = kn_dim_of(call->graph, end[i]);
    } else {
        kn_import_dims(call, 1, begin, KN_MAX_RANK, &count);
        kn_import_dims(call, 2, end, KN_MAX_RANK, &ends);
        if (kn_import_has(call, 3)) kn_import_integers(call, 3, axes, KN_MAX_RANK, &named);
        if (kn_import_has(call, 4)) kn_import_integers(call, 4, steps, KN_MAX_RANK, &stepped);
    }
    if (count < 0 || ends != count || (named >= 0 && named != count) || (stepped >= 0 && stepped != count))
        return kn_import_fail(call, KN_ERROR_FORMAT, "starts, ends, axes and steps have different lengths");
    for (int i = 0; i < count; i++) {
        int64_t step = stepped >= 0 ? steps[i] : 1;
        const int axis = kn_import_axis(call, named >= 0 ? axes[i] : i, x->shape.rank);
        if (step == 0 || step == INT64_MIN)
            return kn_import_fail(call, KN_ERROR_ARGUMENT, "a step is 0; expected a nonzero step");
        x = slice_axis(call, x, axis, begin[i], end[i], step);
    }
    return kn_import_put(call, 0, x);
}

/* Repeats x along an axis a dynamic number of times: (…,size,…) as (…,1,size,…), which broadcasts. */
static kn_value *tile_open(kn_import_call *call, kn_value *x, int axis, kn_dim times) {
    kn_dim dims[KN_MAX_RANK + 1];
    int rank = x->shape.rank;
    if (x->shape.dims[axis] != 1 && rank == KN_MAX_RANK)
        return kn_import_reject(call, KN_ERROR_UNSUPPORTED,
                                "a dynamic number of repeats is not supported with %d axes", rank);
    bool expands = x->shape.dims[axis] != 1;
    for (int i = 0; i < rank + expands; i++)
        dims[i] = x->shape.dims[expands && i > axis ? i - 1 : i];
    dims[axis] = 1;
    x = kn_import_reshape(call->import, x, dims, rank + expands);
    dims[axis] = times;
    x = kn_import_broadcast(call->import, x, dims, rank + expands);
    if (!expands) return x;
    dims[axis] = kn_dim_multiply(call->graph, times, dims[axis + 1]);
    memmove(&dims[axis + 1], &dims[axis + 2], (size_t)(rank - axis - 1) * sizeof *dims);
    return kn_import_reshape(call->import, x, dims, rank);
}

static kn_status tile(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    kn_dim times[KN_MAX_RANK];
    int count = 0;
    kn_import_dims(call, 1, times, KN_MAX_RANK, &count);
    for (int i = 0; i < count && count == x->shape.rank; i++) {
        int64_t number;
        if (kn_dim_constant(call->graph, times[i], &number)) continue;
        x = tile_open(call, x, i, times[i]);
        times[i] = 1;
    }
    return kn_import_put(call, 0, count ? kn_tile(x, kn_import_dims_text(call->import, times, count)) : x);
}

/* amounts: padding before each axis of x, then after each axis. */
static kn_status pad_amounts(kn_import_call *call, const kn_value *x, int64_t *amounts) {
    int64_t given[KN_IMPORT_LIST], axes[KN_MAX_RANK];
    int rank = x->shape.rank, count = -1, named = -1;
    if (call->opset < 11)
        count = kn_import_ints(call, call->opset < 2 ? "paddings" : "pads", given, KN_IMPORT_LIST);
    else
        kn_import_integers(call, 1, given, KN_IMPORT_LIST, &count);
    if (call->opset >= 11 && kn_import_has(call, 3)) kn_import_integers(call, 3, axes, KN_MAX_RANK, &named);
    if (named < 0) named = rank;
    if (count != 2 * named)
        return kn_import_fail(call, KN_ERROR_FORMAT, "has %d pads; expected %d", count, 2 * named);
    memset(amounts, 0, KN_IMPORT_LIST * sizeof *amounts);
    for (int i = 0; i < named; i++) {
        bool all = call->opset < 11 || !kn_import_has(call, 3);
        const int axis = kn_import_axis(call, all ? i : axes[i], rank);
        amounts[axis] = given[i];
        amounts[rank + axis] = given[named + i];
    }
    return kn_import_status(call);
}

static kn_status pad(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    int64_t amounts[KN_IMPORT_LIST];
    double value = call->opset < 11 ? kn_import_float(call, "value", 0) : 0;
    const char *mode = kn_import_string(call, "mode", "constant");
    if (pad_amounts(call, x, amounts) != KN_OK) return kn_import_status(call);
    if (call->opset >= 11) value = kn_import_input_number(call, 2, value);
    int rank = x->shape.rank;
    bool any = false;
    for (int i = 0; i < rank; i++) {
        int64_t *before = &amounts[i], *after = &amounts[rank + i];
        if (*before < -INT32_MAX || *after < -INT32_MAX)
            return kn_import_fail(call, KN_ERROR_ARGUMENT, "pads are out of range");
        if (*before < 0 || *after < 0)
            x = kn_import_slice(call->import, x, i, *before < 0 ? -*before : 0,
                                *after < 0 ? *after : INT64_MAX, 1);
        if (*before < 0) *before = 0;
        if (*after < 0) *after = 0;
        any = any || *before || *after;
    }
    const char *list = kn_import_list(call->import, amounts, 2 * rank);
    if (!any) return kn_import_put(call, 0, x);
    if (!strcmp(mode, "constant")) return kn_import_put(call, 0, kn_pad(x, list, value));
    kn_pad_mode own = !strcmp(mode, "edge")   ? KN_PAD_EDGE
                      : !strcmp(mode, "wrap") ? KN_PAD_WRAP
                                              : KN_PAD_REFLECT;
    return kn_import_put(call, 0, kn_pad_with_mode(x, list, own));
}

/* Crops x to its center along some axes, or pads it with zeros on both sides. */
static kn_status center(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    int64_t axes[KN_MAX_RANK], sizes[KN_MAX_RANK], amounts[KN_IMPORT_LIST] = {0};
    int count = 0, named = kn_import_ints(call, "axes", axes, KN_MAX_RANK);
    bool pads = false;
    kn_import_integers(call, 1, sizes, KN_MAX_RANK, &count);
    if (count != (named < 0 ? x->shape.rank : named))
        return kn_import_fail(call, KN_ERROR_FORMAT, "has %d sizes; expected %d", count,
                              named < 0 ? x->shape.rank : named);
    for (int i = 0; i < count; i++) {
        const int axis = kn_import_axis(call, named < 0 ? i : axes[i], x->shape.rank);
        int64_t size = x->shape.dims[axis], more = sizes[i] - size;
        if (!kn_dim_known(size) || sizes[i] < 0 || more > INT32_MAX)
            return kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                                  "axis %d is dynamic, or the new size is out of range", axis);
        if (more < 0) x = kn_import_slice(call->import, x, axis, -more / 2, -more / 2 + sizes[i], 1);
        if (more <= 0) continue;
        amounts[axis] = more / 2;
        amounts[x->shape.rank + axis] = more - more / 2;
        pads = true;
    }
    if (pads) x = kn_pad(x, kn_import_list(call->import, amounts, 2 * x->shape.rank), 0);
    return kn_import_put(call, 0, x);
}

static kn_status move_blocks(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    const bool channels = !strcmp(kn_import_string(call, "mode", "DCR"), "CRD");
    const int64_t block = kn_import_int(call, "blocksize", 1);
    return kn_import_put(call, 0,
                         !strcmp(call->node->type, "DepthToSpace") ? kn_depth_to_space(x, block, channels)
                                                                   : kn_space_to_depth(x, block, channels));
}

/* ---- constants and generators -------------------------------------------------------------------------- */

static kn_status put_texts(kn_import_call *call, const kn_onnx_string *strings, const int64_t *shape,
                           int rank) {
    call->outputs[0].tensor = NULL;
    kn_import_put_as(call, 0, kn_import_texts(call->import, strings, shape, rank), KN_INT64);
    call->outputs[0].text = true;
    return kn_import_status(call);
}

static kn_status constant(kn_import_call *call) {
    const kn_onnx_attribute *given = NULL;
    static const char *const names[] = {"value",        "value_int",    "value_ints",   "value_float",
                                        "value_floats", "value_string", "value_strings"};
    for (size_t i = 0; i < KN_COUNT_OF(names) && !given; i++)
        given = kn_import_attribute(call, names[i]);
    if (!given) return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "has no value of numbers or strings");
    kn_item *item = &call->outputs[0];
    int64_t count = (int64_t)given->count;
    switch (given->kind) {
    case KN_ONNX_ATTRIBUTE_TENSOR:
        item->tensor = &given->tensors[0];
        if (item->tensor->type == KN_ONNX_STRING)
            return put_texts(call, item->tensor->strings, item->tensor->shape, (int)item->tensor->rank);
        if (!kn_item_type(item->tensor->type, &item->dtype, &item->bits))
            return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "type %s is not supported",
                                  kn_onnx_type_name(item->tensor->type));
        return kn_import_status(call);
    case KN_ONNX_ATTRIBUTE_INT:
    case KN_ONNX_ATTRIBUTE_INTS: {
        kn_dim *sizes = kn_sizes_take(call, KN_INT64, given->kind == KN_ONNX_ATTRIBUTE_INTS, &count);
        for (int64_t i = 0; sizes && i < count; i++)
            sizes[i] = kn_dim_of(call->graph, given->ints[i]);
        return sizes ? KN_OK
                     : kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                                      "has %" PRId64 " integers; at most %d are supported", count,
                                      KN_IMPORT_SIZES);
    }
    case KN_ONNX_ATTRIBUTE_FLOAT:
    case KN_ONNX_ATTRIBUTE_FLOATS:
        return kn_import_put(call, 0,
                             kn_import_constant(call->import, KN_FLOAT32, given->floats, &count,
                                                given->kind == KN_ONNX_ATTRIBUTE_FLOATS));
    case KN_ONNX_ATTRIBUTE_STRING:
    case KN_ONNX_ATTRIBUTE_STRINGS:
        return put_texts(call, given->strings, &count, given->kind == KN_ONNX_ATTRIBUTE_STRINGS);
    default:
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "value is %s; expected numbers or strings",
                              kn_onnx_attribute_kind_name(given->kind));
    }
}

static kn_status constant_of_shape(kn_import_call *call) {
    const kn_onnx_attribute *value = kn_import_attribute(call, "value");
    kn_dim dims[KN_MAX_RANK];
    kn_dtype dtype = KN_FLOAT32;
    int count = 0;
    double number = 0;
    kn_import_dims(call, 0, dims, KN_MAX_RANK, &count);
    if (value && value->kind == KN_ONNX_ATTRIBUTE_TENSOR) {
        if (!kn_onnx_type_to(value->tensors[0].type, &dtype) || value->tensors[0].count < 1)
            return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "type %s is not supported",
                                  kn_onnx_type_name(value->tensors[0].type));
        number = kn_onnx_tensor_number(&value->tensors[0], 0);
    }
    kn_value *one = kn_import_scalar(call->import, kn_is_half(dtype) ? KN_FLOAT32 : dtype, number);
    return kn_import_put_as(call, 0, count ? kn_import_broadcast(call->import, one, dims, count) : one,
                            dtype);
}

static kn_status range(kn_import_call *call) {
    double numbers[3] = {0, 0, 1};
    kn_dtype dtype = kn_import_dtype(call, 0);
    kn_import *import = call->import;
    kn_item *whole[3] = {NULL};
    for (int i = 0; i < 3 && call->input_count == 3 && (i == 0 || whole[i - 1]); i++)
        whole[i] = kn_item_integers(import, call->inputs[i]);
    if (whole[2] && whole[0]->count == 1 && whole[1]->count == 1 && whole[2]->count == 1) {
        /* With a dynamic end, the numbers are generated on the device. */
        kn_dim begin = whole[0]->sizes[0], end = whole[1]->sizes[0];
        int64_t step;
        if ((!kn_dim_constant(call->graph, begin, &step) || !kn_dim_constant(call->graph, end, &step)) &&
            kn_dim_constant(call->graph, whole[2]->sizes[0], &step) && step > 0) {
            kn_dim count = kn_dim_add(call->graph, kn_dim_subtract(call->graph, end, begin), step - 1);
            if (step > 1) count = kn_dim_divide(call->graph, count, step);
            kn_value *positions =
                kn_import_cast(kn_import_range(import, count), kn_is_half(dtype) ? KN_FLOAT32 : dtype);
            if (step > 1) positions = kn_scale(positions, (double)step);
            if (begin != 0) positions = kn_add(positions, kn_import_in(call, 0));
            return kn_import_put_as(call, 0, positions, dtype);
        }
    }
    for (int i = 0; i < 3; i++) /* ONNX Runtime's operator may lack the step */
        if (i < 2 || kn_import_has(call, i)) kn_import_numbers(call, i, &numbers[i], 1, NULL);
    kn_value *made =
        kn_range(call->graph, kn_is_half(dtype) ? KN_FLOAT32 : dtype, numbers[0], numbers[1], numbers[2]);
    return kn_import_put_as(call, 0, made, dtype);
}

/* 1 where column - row is k, 0 elsewhere. */
static kn_status eye_like(kn_import_call *call) {
    const kn_shape shape = kn_import_input_shape(call, 0);
    kn_dtype dtype = kn_import_dtype(call, 0);
    kn_import *import = call->import;
    if (shape.rank != 2) return kn_import_fail(call, KN_ERROR_SHAPE, "expected a matrix");
    if (kn_import_attribute(call, "dtype") &&
        !kn_onnx_type_to((kn_onnx_type)kn_import_int(call, "dtype", 1), &dtype))
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "dtype is not a supported type");
    kn_value *rows = kn_unsqueeze(kn_import_range(import, shape.dims[0]), "1");
    kn_value *columns =
        kn_shift(kn_import_range(import, shape.dims[1]), -(double)kn_import_int(call, "k", 0));
    return kn_import_put_as(call, 0, kn_cast(kn_equal(rows, columns), kn_is_half(dtype) ? KN_FLOAT32 : dtype),
                            dtype);
}

static kn_status trilu(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    int64_t k = 0;
    k = kn_import_input_integer(call, 1, k);
    return kn_import_put(call, 0, kn_import_int(call, "upper", 1) ? kn_triu(x, k) : kn_tril(x, k));
}

/* a - b cos(2 pi i / n) + c cos(4 pi i / n) for i below the size. */
static kn_status cosine_window(kn_import_call *call) {
    static const double factors[3][3] = {{0.5, 0.5, 0}, {25.0 / 46, 21.0 / 46, 0}, {0.42, 0.5, 0.08}};
    const char *type = call->node->type;
    const double *f = factors[!strcmp(type, "HannWindow") ? 0 : !strcmp(type, "HammingWindow") ? 1 : 2];
    int64_t size = 0;
    kn_dtype dtype = KN_FLOAT32;
    kn_import_integers(call, 0, &size, 1, NULL);
    if (!kn_onnx_type_to((kn_onnx_type)kn_import_int(call, "output_datatype", 1), &dtype) || size < 0 ||
        size > 1 << 24)
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                              "the size is out of range, or output_datatype is not supported");
    double n = (double)(kn_import_int(call, "periodic", 1) ? size : size - 1),
           turn = n > 0 ? 8 * atan(1.0) / n : 0;
    float *numbers = kn_arena_take(call->import->arena, (size_t)size + 1, sizeof *numbers);
    if (!numbers) return kn_import_no_memory(call->import);
    for (int64_t i = 0; i < size; i++)
        numbers[i] = (float)(f[0] - f[1] * cos(turn * (double)i) + f[2] * cos(2 * turn * (double)i));
    kn_value *y = kn_import_constant(call->import, KN_FLOAT32, numbers, &size, 1);
    return kn_import_put_as(call, 0, kn_import_cast(y, kn_is_half(dtype) ? KN_FLOAT32 : dtype), dtype);
}

#define SIZED(word, function, sized) .type = word, .build = function, .sizes = sized
const kn_import_row kn_import_shape[] = {
    {SIZED("Reshape", reshape, kn_sizes_reshape), KN_MOVES_TEXT(1)},
    {SIZED("Squeeze", squeeze, kn_sizes_squeeze), KN_MOVES_TEXT(1)},
    {SIZED("Unsqueeze", unsqueeze, kn_sizes_unsqueeze), KN_MOVES_TEXT(1)},
    {.type = "Flatten", .build = flatten, KN_MOVES_TEXT(1)},
    {.type = "Expand", .build = expand, KN_MOVES_TEXT(1)},
    {.type = "Transpose", .build = transpose, KN_MOVES_TEXT(1)},
    {SIZED("Concat", concat, kn_sizes_concat), KN_MOVES_TEXT(~0u)},
    {.type = "Split", .build = split, KN_MOVES_TEXT(1)},
    {SIZED("Slice", slice, kn_sizes_slice), KN_MOVES_TEXT(1)},
    {.type = "Tile", .build = tile, KN_MOVES_TEXT(1)},
    {.type = "Pad", .build = pad},
    {.type = "CenterCropPad", .build = center},
    {.type = "DepthToSpace", .build = move_blocks},
    {.type = "SpaceToDepth", .build = move_blocks},
    {.type = "Shape", .build = kn_sizes_shape, .texts = 1},
    {.type = "Size", .build = kn_sizes_size, .texts = 1},
    {.type = "Constant", .build = constant},
    {SIZED("ConstantOfShape", constant_of_shape, kn_sizes_fill)},
    {SIZED("Range", range, kn_sizes_range)},
    {.type = "HannWindow", .build = cosine_window},
    {.type = "HammingWindow", .build = cosine_window},
    {.type = "BlackmanWindow", .build = cosine_window},
    {.type = "EyeLike", .build = eye_like},
    {.type = "Trilu", .build = trilu},
    KN_OF_MICROSOFT("Range", range),
    KN_OF_MICROSOFT("Trilu", trilu),
    KN_OF_MICROSOFT("Pad", pad),
    KN_OF_MICROSOFT("ExpandDims", unsqueeze),
};
const int kn_import_shape_count = (int)KN_COUNT_OF(kn_import_shape);
