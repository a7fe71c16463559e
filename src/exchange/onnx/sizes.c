/* Integers computed while the graph is built: shapes and axes that models derive from the sizes of their
 * inputs. Elements are dimensions of the graph, so they may contain symbols. A function returns false without
 * a failure if something is not known; the node is then built normally. */
#include "exchange/onnx/import.h"

#include <inttypes.h>
#include <math.h>

/* ---- reading and writing ------------------------------------------------------------------------------- */

/* Inputs whose values only a node with `sizes` asks for stay inputs, so that the graph is not built again for
 * each of their values. */
static bool read_sized(kn_import_call *call) {
    kn_item **given = call->inputs;
    bool open = false, fine = kn_import_has(call, 0);
    for (int i = 0; i < call->input_count; i++)
        open = open || (given[i] && given[i]->sizes && kn_dtype_is_float(given[i]->dtype));
    if (!open) {
        for (int i = 0; fine && i < call->input_count; i++)
            fine = !given[i] || kn_item_sized(call->import, given[i]);
        return fine && call->row->sizes(call);
    }
    call->inputs = kn_arena_copy(call->import->arena, given, (size_t)call->input_count, sizeof *given);
    fine = fine && call->inputs;
    for (int i = 0; fine && i < call->input_count; i++)
        fine = !given[i] || (call->inputs[i] = kn_item_integers(call->import, given[i])) != NULL;
    fine = fine && call->row->sizes(call);
    call->inputs = given;
    return fine;
}

bool kn_sizes_apply(kn_import_call *call) {
    call->import->probing = !call->import->eager;
    const bool fine = read_sized(call);
    call->import->probing = false;
    return fine;
}

kn_dim *kn_sizes_take(kn_import_call *call, kn_dtype dtype, int rank, const int64_t *shape) {
    kn_item *item = &call->outputs[0];
    uint64_t elements = 1;
    kn_tensor_info info = {.dtype = dtype, .rank = rank};
    if (rank > KN_MAX_RANK || call->output_count < 1) return NULL;
    for (int i = 0; i < rank; i++)
        info.shape[i] = item->shape[i] = shape[i];
    if (!kn_tensor_elements(&info, &elements) || elements > KN_IMPORT_SIZES) return NULL;
    kn_dim *sizes = kn_arena_take(call->import->arena, (size_t)elements + 1, sizeof *sizes);
    if (!sizes) kn_import_no_memory(call->import);
    item->sizes = sizes;
    item->count = (int)elements;
    item->rank = rank;
    item->dtype = dtype;
    return sizes;
}

static bool number_of(const kn_import_call *call, kn_dim dim, int64_t *number) {
    return kn_dim_constant(call->graph, dim, number);
}

/* The position in `item` that broadcasts to position `at` of the result. */
static int broadcast_position(const kn_item *item, int rank, const int64_t *shape, int at) {
    int position = 0, stride = 1;
    for (int i = rank - 1, own = item->rank - 1; i >= 0; i--, own--) {
        int index = (int)(at % shape[i]);
        at /= (int)shape[i];
        if (own < 0) continue;
        if (item->shape[own] != 1) position += index * stride;
        stride *= (int)item->shape[own];
    }
    return position;
}

static bool broadcast_shapes(const kn_item *item, int *rank, int64_t *shape) {
    int64_t result[KN_MAX_RANK];
    int most = item->rank > *rank ? item->rank : *rank;
    for (int i = 0; i < most; i++) {
        int left = i - (most - *rank), right = i - (most - item->rank);
        int64_t a = left < 0 ? 1 : shape[left], b = right < 0 ? 1 : item->shape[right];
        if (a != b && a != 1 && b != 1) return false;
        result[i] = a == 1 ? b : a;
    }
    *rank = most;
    memcpy(shape, result, (size_t)most * sizeof *shape);
    return true;
}

/* ---- sources ------------------------------------------------------------------------------------------- */

kn_status kn_sizes_shape(kn_import_call *call) {
    const kn_shape shape = kn_import_input_shape(call, 0);
    int64_t rank = shape.rank, start = kn_import_int(call, "start", 0),
            end = kn_import_int(call, "end", rank);
    if (start < 0) start = start + rank < 0 ? 0 : start + rank;
    if (end < 0) end += rank;
    if (end > rank) end = rank;
    int64_t count = end > start ? end - start : 0;
    kn_dim *sizes = kn_sizes_take(call, KN_INT64, 1, &count);
    for (int64_t i = 0; sizes && i < count; i++)
        sizes[i] = shape.dims[start + i];
    return kn_import_status(call);
}

kn_status kn_sizes_size(kn_import_call *call) {
    const kn_shape shape = kn_import_input_shape(call, 0);
    kn_dim *sizes = kn_sizes_take(call, KN_INT64, 0, NULL);
    if (sizes) sizes[0] = 1;
    for (int i = 0; sizes && i < shape.rank; i++)
        sizes[0] = kn_dim_multiply(call->graph, sizes[0], shape.dims[i]);
    return kn_import_status(call);
}

/* ---- element by element -------------------------------------------------------------------------------- */

bool kn_sizes_cast(kn_import_call *call) {
    const kn_item *from = call->inputs[0];
    kn_dtype dtype;
    int64_t number;
    int bits;
    if (!kn_item_type((kn_onnx_type)kn_import_int(call, "to", 0), &dtype, &bits) || bits ||
        kn_is_small_float(dtype))
        return false;
    bool fractions = kn_dtype_is_float(dtype), open = false;
    for (int i = 0; i < from->count; i++)
        open = open || !number_of(call, from->sizes[i], &number);
    if (fractions && !open) return false;
    bool small = dtype != KN_INT64 && dtype != KN_INT32 && !fractions;
    for (int i = 0; small && i < from->count; i++)
        if (!number_of(call, from->sizes[i], &number) || (number != 0 && number != 1)) return false;
    kn_dim *sizes = kn_sizes_take(call, dtype, from->rank, from->shape);
    for (int i = 0; sizes && i < from->count; i++)
        sizes[i] = from->sizes[i];
    return sizes != NULL;
}

/* Combines two numbers; false if the result is not known. */
static bool combine_numbers(const char *type, int64_t x, int64_t y, int64_t *result) {
    bool comparable = true;
    if (!strcmp(type, "Equal"))
        *result = x == y;
    else if (!strcmp(type, "Less"))
        *result = x < y;
    else if (!strcmp(type, "Greater"))
        *result = x > y;
    else if (!strcmp(type, "LessOrEqual"))
        *result = x <= y;
    else if (!strcmp(type, "GreaterOrEqual"))
        *result = x >= y;
    else if (!strcmp(type, "And"))
        *result = x && y;
    else if (!strcmp(type, "Or"))
        *result = x || y;
    else if (!strcmp(type, "Xor"))
        *result = !x != !y;
    else if (!strcmp(type, "Min"))
        *result = x < y ? x : y;
    else if (!strcmp(type, "Max"))
        *result = x > y ? x : y;
    else if (!strcmp(type, "Div") && y != 0 && y != -1)
        *result = x / y;
    else if (!strcmp(type, "Mod") && y != 0 && y != -1)
        *result = x - (x / y - (x % y != 0 && (x < 0) != (y < 0))) * y;
    else
        comparable = false;
    return comparable;
}

static bool combine(kn_import_call *call, kn_dim x, kn_dim y, kn_dim *result) {
    const char *type = call->node->type;
    kn_graph *graph = call->graph;
    int64_t a, b, number;
    bool fine = true;
    if (!strcmp(type, "Add"))
        *result = kn_dim_add(graph, x, y);
    else if (!strcmp(type, "Sub"))
        *result = kn_dim_subtract(graph, x, y);
    else if (!strcmp(type, "Mul"))
        *result = kn_dim_multiply(graph, x, y);
    else if (!strcmp(type, "Div") && kn_dtype_is_float(call->inputs[0]->dtype)) {
        *result = y > 0 ? kn_dim_divide(graph, x, y) : x; /* only if nothing remains */
        fine = y > 0 && kn_dim_multiply(graph, *result, y) == x;
    } else if (number_of(call, x, &a) && number_of(call, y, &b)) {
        fine = combine_numbers(type, a, b, &number);
        if (fine) *result = kn_dim_of(graph, number);
    } else if (!strcmp(type, "Equal")) {
        /* Sizes are never negative; sizes of other values are assumed to differ. */
        *result = x == y;
        const bool negative = (number_of(call, x, &a) && a < 0) || (number_of(call, y, &b) && b < 0);
        if (x != y && !negative) kn_graph_differ(graph, x, y, false);
    } else if (!strcmp(type, "Div") && y > 0) {
        *result = kn_dim_divide(graph, x, y); /* sizes are not negative */
    } else if (x == y && (!strcmp(type, "Min") || !strcmp(type, "Max"))) {
        *result = x;
    } else {
        fine = false;
    }
    return fine;
}

static bool gives_bool(const char *type) {
    static const char *const types[] = {"Equal",          "Less", "Greater", "LessOrEqual",
                                        "GreaterOrEqual", "And",  "Or",      "Xor"};
    for (size_t i = 0; i < KN_COUNT_OF(types); i++)
        if (!strcmp(type, types[i])) return true;
    return false;
}

/* For one or more inputs, with broadcasting. */
bool kn_sizes_binary(kn_import_call *call) {
    int rank = 0;
    int64_t shape[KN_MAX_RANK];
    if (!call->input_count || kn_import_int(call, "fmod", 0)) return false;
    for (int i = 0; i < call->input_count; i++)
        if (!call->inputs[i] || !broadcast_shapes(call->inputs[i], &rank, shape)) return false;
    kn_dtype first = call->inputs[0]->dtype, dtype = gives_bool(call->node->type) ? KN_BOOL : first;
    if (first != KN_INT64 && first != KN_INT32 && first != KN_BOOL && !kn_dtype_is_float(first)) return false;
    kn_dim *sizes = kn_sizes_take(call, dtype, rank, shape);
    if (!sizes) return false;
    bool fine = true;
    for (int i = 0; i < call->outputs[0].count && fine; i++) {
        sizes[i] = call->inputs[0]->sizes[broadcast_position(call->inputs[0], rank, shape, i)];
        for (int k = 1; k < call->input_count && fine; k++)
            fine = combine(call, sizes[i],
                           call->inputs[k]->sizes[broadcast_position(call->inputs[k], rank, shape, i)],
                           &sizes[i]);
    }
    if (!fine) call->outputs[0].sizes = NULL;
    return fine;
}

bool kn_sizes_unary(kn_import_call *call) {
    const kn_item *from = call->inputs[0];
    const char *type = call->node->type;
    bool fine = from->dtype == KN_INT64 || from->dtype == KN_INT32 || from->dtype == KN_BOOL ||
                kn_dtype_is_float(from->dtype);
    kn_dim *sizes = fine ? kn_sizes_take(call, from->dtype, from->rank, from->shape) : NULL;
    fine = sizes != NULL;
    for (int i = 0; i < from->count && fine; i++) {
        int64_t number;
        if (!strcmp(type, "Floor") || !strcmp(type, "Ceil") || !strcmp(type, "Round"))
            sizes[i] = from->sizes[i];
        else if (!strcmp(type, "Neg"))
            sizes[i] = kn_dim_subtract(call->graph, 0, from->sizes[i]);
        else if (!number_of(call, from->sizes[i], &number))
            fine = false;
        else if (!strcmp(type, "Not"))
            sizes[i] = !number;
        else if (!strcmp(type, "Abs"))
            sizes[i] = number < 0 ? -number : number;
        else
            fine = false;
    }
    if (!fine) call->outputs[0].sizes = NULL;
    return fine;
}

bool kn_sizes_where(kn_import_call *call) {
    int rank = 0;
    int64_t shape[KN_MAX_RANK], condition;
    if (call->input_count != 3) return false;
    for (int i = 0; i < 3; i++)
        if (!call->inputs[i] || !broadcast_shapes(call->inputs[i], &rank, shape)) return false;
    kn_dim *sizes = kn_sizes_take(call, call->inputs[1]->dtype, rank, shape);
    for (int i = 0; sizes && i < call->outputs[0].count; i++) {
        const kn_item *test = call->inputs[0];
        if (!number_of(call, test->sizes[broadcast_position(test, rank, shape, i)], &condition)) {
            call->outputs[0].sizes = NULL;
            return false;
        }
        const kn_item *taken = call->inputs[condition ? 1 : 2];
        sizes[i] = taken->sizes[broadcast_position(taken, rank, shape, i)];
    }
    return sizes != NULL;
}

/* ---- moving elements ----------------------------------------------------------------------------------- */

bool kn_sizes_gather(kn_import_call *call) {
    if (call->input_count != 2) return false;
    const kn_item *x = call->inputs[0], *numbers = call->inputs[1];
    int64_t axis = kn_import_int(call, "axis", 0), shape[2 * KN_MAX_RANK];
    int rank = 0;
    if (axis < 0) axis += x->rank;
    if (axis < 0 || axis >= x->rank || x->rank - 1 + numbers->rank > KN_MAX_RANK) return false;
    int outer = 1, inner = 1;
    for (int i = 0; i < (int)axis; i++) {
        outer *= (int)x->shape[i];
        shape[rank++] = x->shape[i];
    }
    for (int i = 0; i < numbers->rank; i++)
        shape[rank++] = numbers->shape[i];
    for (int i = (int)axis + 1; i < x->rank; i++) {
        inner *= (int)x->shape[i];
        shape[rank++] = x->shape[i];
    }
    kn_dim *sizes = kn_sizes_take(call, x->dtype, rank, shape);
    for (int o = 0; sizes && o < outer; o++)
        for (int k = 0; k < numbers->count; k++)
            for (int i = 0; i < inner; i++) {
                int64_t at = -1;
                if (number_of(call, numbers->sizes[k], &at) && at < 0) at += x->shape[axis];
                if (at < 0 || at >= x->shape[axis]) {
                    call->outputs[0].sizes = NULL;
                    return false;
                }
                sizes[(o * numbers->count + k) * inner + i] = x->sizes[(o * x->shape[axis] + at) * inner + i];
            }
    return sizes != NULL;
}

bool kn_sizes_concat(kn_import_call *call) {
    int64_t count = 0;
    if (!call->input_count) return false;
    for (int i = 0; i < call->input_count; i++) {
        if (!call->inputs[i] || call->inputs[i]->rank != 1 ||
            call->inputs[i]->dtype != call->inputs[0]->dtype)
            return false;
        count += call->inputs[i]->count;
    }
    kn_dim *sizes = kn_sizes_take(call, call->inputs[0]->dtype, 1, &count);
    for (int i = 0, at = 0; sizes && i < call->input_count; i++)
        for (int k = 0; k < call->inputs[i]->count; k++)
            sizes[at++] = call->inputs[i]->sizes[k];
    return sizes != NULL;
}

void kn_import_slice_bounds(int64_t size, int64_t step, int64_t *begin, int64_t *end) {
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
    if (*begin < 0) *begin += size;
    if (*end < 0) *end += size;
    *begin = *begin < 0 ? 0 : *begin;
    *begin = *begin > high ? high : *begin;
    *end = *end < low ? low : *end > high ? high : *end;
}

/* Only for lists. */
bool kn_sizes_slice(kn_import_call *call) {
    const kn_item *x = call->inputs[0];
    int64_t begin, end, step = 1, axis = 0, size = x->count;
    if (x->rank != 1 || call->input_count < 3) return false;
    if (!kn_import_has(call, 1) || !kn_import_has(call, 2)) return false;
    for (int i = 1; i < call->input_count; i++)
        if (call->inputs[i] && call->inputs[i]->count != 1) return false;
    if (!number_of(call, call->inputs[1]->sizes[0], &begin) ||
        !number_of(call, call->inputs[2]->sizes[0], &end) ||
        (kn_import_has(call, 3) && !number_of(call, call->inputs[3]->sizes[0], &axis)) ||
        (kn_import_has(call, 4) && !number_of(call, call->inputs[4]->sizes[0], &step)) || step == 0 ||
        (axis != 0 && axis != -1) || step == INT64_MIN)
        return false;
    kn_import_slice_bounds(size, step, &begin, &end);
    int64_t distance = step > 0 ? end - begin : begin - end, stride = step > 0 ? step : -step;
    int64_t count = distance > 0 ? (distance - 1) / stride + 1 : 0;
    kn_dim *sizes = kn_sizes_take(call, x->dtype, 1, &count);
    for (int64_t i = 0; sizes && i < count; i++)
        sizes[i] = x->sizes[begin + i * step];
    return sizes != NULL;
}

static bool same_elements(kn_import_call *call, int rank, const int64_t *shape) {
    const kn_item *from = call->inputs[0];
    kn_dim *sizes = kn_sizes_take(call, from->dtype, rank, shape);
    if (!sizes || call->outputs[0].count != from->count) {
        call->outputs[0].sizes = NULL;
        return false;
    }
    for (int i = 0; i < from->count; i++)
        sizes[i] = from->sizes[i];
    return true;
}

bool kn_sizes_reshape(kn_import_call *call) {
    int64_t shape[KN_MAX_RANK], known = 1;
    int open = -1;
    if (call->input_count != 2 || call->inputs[1]->count > KN_MAX_RANK) return false;
    const kn_item *from = call->inputs[0], *to = call->inputs[1];
    for (int i = 0; i < to->count; i++) {
        if (!number_of(call, to->sizes[i], &shape[i])) return false;
        if (shape[i] == 0 && !kn_import_int(call, "allowzero", 0))
            shape[i] = i < from->rank ? from->shape[i] : 0;
        if (shape[i] == -1)
            open = i;
        else if (shape[i] < 0 || shape[i] > KN_IMPORT_SIZES || (known *= shape[i]) > KN_IMPORT_SIZES)
            return false;
    }
    if (open >= 0) shape[open] = known ? from->count / known : 0;
    return same_elements(call, to->count, shape);
}

/* The axes of Squeeze and Unsqueeze: an attribute, since opset 13 an input. */
static int axes_of(kn_import_call *call, int64_t *axes) {
    if (call->opset < 13) return kn_import_ints(call, "axes", axes, KN_MAX_RANK);
    if (!kn_import_has(call, 1)) return -1;
    int count = call->inputs[1]->count < KN_MAX_RANK ? call->inputs[1]->count : KN_MAX_RANK;
    for (int i = 0; i < count; i++)
        if (!number_of(call, call->inputs[1]->sizes[i], &axes[i])) return -1;
    return count;
}

bool kn_sizes_squeeze(kn_import_call *call) {
    const kn_item *from = call->inputs[0];
    int64_t axes[KN_MAX_RANK], shape[KN_MAX_RANK];
    int count = axes_of(call, axes), rank = 0;
    for (int i = 0; i < from->rank; i++) {
        bool goes = count < 0 && from->shape[i] == 1;
        for (int k = 0; k < count; k++)
            goes = goes || axes[k] == i || axes[k] + from->rank == i;
        if (!goes) shape[rank++] = from->shape[i];
    }
    return same_elements(call, rank, shape);
}

bool kn_sizes_unsqueeze(kn_import_call *call) {
    const kn_item *from = call->inputs[0];
    int64_t axes[KN_MAX_RANK], shape[KN_MAX_RANK];
    int count = axes_of(call, axes), rank = from->rank + count, at = 0;
    if (count < 0 || rank > KN_MAX_RANK) return false;
    for (int i = 0; i < rank; i++) {
        bool comes = false;
        for (int k = 0; k < count; k++)
            comes = comes || axes[k] == i || axes[k] + rank == i;
        if (!comes && at == from->rank) return false;
        shape[i] = comes ? 1 : from->shape[at++];
    }
    return same_elements(call, rank, shape);
}

/* ConstantOfShape of integers. */
bool kn_sizes_fill(kn_import_call *call) {
    const kn_onnx_attribute *value = kn_import_attribute(call, "value");
    const kn_item *of = call->inputs[0];
    int64_t shape[KN_MAX_RANK], number = 0;
    kn_dtype dtype;
    if (!value || value->kind != KN_ONNX_ATTRIBUTE_TENSOR || of->count > KN_MAX_RANK) return false;
    if (!kn_onnx_type_to(value->tensors[0].type, &dtype) ||
        (dtype != KN_INT64 && dtype != KN_INT32 && dtype != KN_BOOL))
        return false;
    if (!kn_onnx_tensor_integer(&value->tensors[0], 0, &number)) return false;
    for (int i = 0; i < of->count; i++)
        if (!number_of(call, of->sizes[i], &shape[i])) return false;
    kn_dim *sizes = kn_sizes_take(call, dtype, of->count, shape);
    for (int i = 0; sizes && i < call->outputs[0].count; i++)
        sizes[i] = kn_dim_of(call->graph, number);
    return sizes != NULL;
}

bool kn_sizes_range(kn_import_call *call) {
    int64_t number[3], count = 0;
    if (call->input_count != 3) return false;
    for (int i = 0; i < 3; i++)
        if (!call->inputs[i] || call->inputs[i]->count != 1 ||
            !number_of(call, call->inputs[i]->sizes[0], &number[i]))
            return false;
    int64_t step = number[2];
    if (step == 0 || number[0] > INT32_MAX || number[0] < INT32_MIN || number[1] > INT32_MAX ||
        number[1] < INT32_MIN || step > INT32_MAX || step < INT32_MIN)
        return false;
    if ((number[1] - number[0]) / step >= 0)
        count = (number[1] - number[0] + step - (step > 0 ? 1 : -1)) / step;
    if (count < 0) count = 0;
    kn_dim *sizes = kn_sizes_take(call, call->inputs[0]->dtype, 1, &count);
    for (int64_t i = 0; sizes && i < count; i++)
        sizes[i] = kn_dim_of(call->graph, number[0] + i * step);
    return sizes != NULL;
}

/* Reduces a list to a scalar. */
bool kn_sizes_reduce(kn_import_call *call) {
    const kn_item *from = call->inputs[0];
    const char *type = call->node->type;
    int64_t shape[1] = {1};
    if (from->rank != 1 || (!strcmp(type, "ReduceMax") + !strcmp(type, "ReduceMin") && from->count != 1))
        return false;
    if (kn_import_int(call, "noop_with_empty_axes", 0) || from->dtype == KN_BOOL) return false;
    kn_dim *sizes = kn_sizes_take(call, from->dtype, kn_import_int(call, "keepdims", 1) ? 1 : 0, shape);
    if (!sizes) return false;
    sizes[0] = !strcmp(type, "ReduceSum") ? 0 : 1;
    for (int i = 0; i < from->count; i++)
        sizes[0] = !strcmp(type, "ReduceSum")    ? kn_dim_add(call->graph, sizes[0], from->sizes[i])
                   : !strcmp(type, "ReduceProd") ? kn_dim_multiply(call->graph, sizes[0], from->sizes[i])
                                                 : from->sizes[i];
    return true;
}
