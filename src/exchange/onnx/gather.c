/* Operators that gather and scatter elements by index, or compute indices. */
#include "exchange/onnx/import.h"

#include <inttypes.h>

/* Slices for Gather, elements for GatherElements. */
static kn_status gather(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *numbers = kn_import_in(call, 1);
    const int axis = kn_import_axis(call, kn_import_int(call, "axis", 0), x->shape.rank);
    return kn_import_put(call, 0,
                         !strcmp(call->node->type, "Gather") ? kn_gather(x, numbers, axis)
                                                             : kn_gather_elements(x, numbers, axis));
}

static kn_status gather_nd(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *numbers = kn_import_in(call, 1);
    int64_t batch = kn_import_int(call, "batch_dims", 0);
    if (batch < 0 || batch >= numbers->shape.rank || batch >= x->shape.rank)
        return kn_import_fail(call, KN_ERROR_SHAPE,
                              "batch_dims is %" PRId64 "; expected less than both ranks", batch);
    return kn_import_put(call, 0, kn_gather_nd_batches(x, numbers, (int)batch));
}

static kn_scatter_reduction reduction_of(const kn_import_call *call) {
    static const char *const names[] = {"none", "add", "mul", "max", "min"};
    const char *given = kn_import_string(call, "reduction", "none");
    for (int i = 0; i < (int)KN_COUNT_OF(names); i++)
        if (!strcmp(given, names[i])) return (kn_scatter_reduction)i;
    return KN_SCATTER_REPLACE;
}

static kn_status scatter(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *numbers = kn_import_in(call, 1), *updates = kn_import_in(call, 2);
    const kn_scatter_reduction reduction = reduction_of(call);
    if (!strcmp(call->node->type, "ScatterND"))
        return kn_import_put(call, 0, kn_scatter_nd(x, numbers, updates, reduction));
    const int axis = kn_import_axis(call, kn_import_int(call, "axis", 0), x->shape.rank);
    return kn_import_put(call, 0, kn_scatter_elements(x, numbers, updates, axis, reduction));
}

static kn_status top_k(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *positions = NULL;
    int64_t k = kn_import_int(call, "k", 1);
    const int axis = kn_import_axis(call, kn_import_int(call, "axis", -1), x->shape.rank);
    if (call->opset >= 10) kn_import_integers(call, 1, &k, 1, NULL);
    kn_value *values = kn_top_k(x, k, axis, !kn_import_int(call, "largest", 1), &positions);
    kn_import_put(call, 0, values);
    return kn_import_put(call, 1, kn_import_cast(positions, KN_INT64));
}

/* The last of several equal elements is the first in the reversed array. */
static kn_status arg_extreme(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    const int axis = kn_import_axis(call, kn_import_int(call, "axis", 0), x->shape.rank);
    bool keep = kn_import_int(call, "keepdims", 1) != 0,
         last = kn_import_int(call, "select_last_index", 0) != 0;
    kn_dim size = x->shape.dims[axis];
    if (last) {
        if (!kn_dim_known(size))
            return kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                                  "select_last_index needs an axis of fixed size");
        x = kn_flip(x, kn_import_list(call->import, (int64_t[]){axis}, 1));
    }
    kn_value *position =
        !strcmp(call->node->type, "ArgMax") ? kn_argmax(x, axis, keep) : kn_argmin(x, axis, keep);
    if (last) position = kn_shift(kn_neg(position), (double)(size - 1));
    return kn_import_put_as(call, 0, kn_import_cast(position, KN_INT64), KN_INT64);
}

static kn_status cumulative_sum(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    int64_t number = 0;
    kn_import_integers(call, 1, &number, 1, NULL);
    const int axis = kn_import_axis(call, number, x->shape.rank);
    return kn_import_put(call, 0,
                         kn_cumulative_sum(x, axis, kn_import_int(call, "exclusive", 0) != 0,
                                           kn_import_int(call, "reverse", 0) != 0));
}

/* values are (off, on). */
static kn_status one_hot(kn_import_call *call) {
    kn_value *numbers = kn_import_in(call, 0), *values = kn_import_in(call, 2);
    double classes = 0;
    kn_import_numbers(call, 1, &classes, 1, NULL);
    if (!(classes >= 1 && classes <= INT32_MAX))
        return kn_import_fail(call, KN_ERROR_ARGUMENT, "depth is %g; expected a positive number", classes);
    if (numbers->shape.dtype != KN_INT32) numbers = kn_import_cast(numbers, KN_INT64);
    kn_value *hot = kn_one_hot(numbers, (int64_t)classes, (int)kn_import_int(call, "axis", -1), 1, 0);
    kn_value *off = kn_import_reshape(call->import, kn_slice(values, 0, 0, 1), NULL, 0);
    kn_value *on = kn_import_reshape(call->import, kn_slice(values, 0, 1, 2), NULL, 0);
    return kn_import_put_as(call, 0, kn_where(kn_cast(hot, KN_BOOL), on, off), kn_import_dtype(call, 2));
}

/* Selects slices along an axis, or elements, for which the condition is true. */
static kn_status compress(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    double holds[KN_MAX_INPUTS * 16];
    int64_t positions[KN_MAX_INPUTS * 16];
    int64_t kept = 0;
    int count = 0, axis = 0;
    kn_import_numbers(call, 1, holds, (int)KN_COUNT_OF(holds), &count);
    for (int i = 0; i < count; i++)
        if (holds[i] != 0) positions[kept++] = i;
    if (!kn_import_attribute(call, "axis"))
        x = kn_reshape(x, "-1");
    else
        axis = kn_import_axis(call, kn_import_int(call, "axis", 0), x->shape.rank);
    kn_value *list = kn_import_constant(call->import, KN_INT64, positions, &kept, 1);
    return kn_import_put(call, 0, kn_gather(x, list, axis));
}

const kn_import_row kn_import_gather[] = {
    {.type = "Gather", .build = gather, .sizes = kn_sizes_gather, KN_MOVES_TEXT(1)},
    {.type = "GatherElements", .build = gather},
    {.type = "GatherND", .build = gather_nd},
    KN_OF_MICROSOFT("GatherND", gather_nd),
    {.type = "Scatter", .build = scatter},
    {.type = "ScatterElements", .build = scatter},
    {.type = "ScatterND", .build = scatter},
    {.type = "TopK", .build = top_k},
    {.type = "ArgMax", .build = arg_extreme},
    {.type = "ArgMin", .build = arg_extreme},
    {.type = "CumSum", .build = cumulative_sum},
    {.type = "OneHot", .build = one_hot},
    {.type = "Compress", .build = compress},
};
const int kn_import_gather_count = (int)KN_COUNT_OF(kn_import_gather);
