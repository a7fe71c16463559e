/* Maps Koine operators to ONNX nodes. */
#include "exchange/onnx/export.h"
#include "exchange/onnx/import.h"

#include <math.h>

static const kn_attribute_value *attribute(const kn_export_call *call, const char *name) {
    return kn_attribute_of(call->node, name);
}

static kn_dtype dtype_of(const kn_export_call *call) {
    return call->node->inputs[0]->shape.dtype;
}

/* ---- rows with one node, as in the importer's table ---------------------------------------------------- */

static bool same(kn_export_call *call) {
    const kn_import_row *row = kn_import_find_op(call->node->op->name);
    const char *inputs[KN_MAX_INPUTS + 1] = {NULL};
    int count = 0;
    while (count < call->node->input_count && call->inputs[count])
        count++;
    memcpy(inputs, call->inputs, (size_t)count * sizeof *inputs);
    if (!kn_export_node(call, row->type, call->output, inputs)) return false;
    for (int i = 0; i < KN_IMPORT_NUMBERS && row->numbers[i].ours; i++)
        if (!kn_export_float(call, row->numbers[i].theirs, attribute(call, row->numbers[i].ours)->number))
            return false;
    return true;
}

/* ---- rows with a number, or with several nodes --------------------------------------------------------- */

/* A node that applies `type` to x and a constant number. */
static const char *with(kn_export_call *call, const char *type, const char *output, const char *x,
                        double number) {
    const char *constant = kn_export_number(call, dtype_of(call), number);
    return kn_export_two(call, type, output, x, constant);
}

static bool scale(kn_export_call *call) {
    return with(call, "Mul", call->output, call->inputs[0], attribute(call, "factor")->number);
}

static bool shift(kn_export_call *call) {
    return with(call, "Add", call->output, call->inputs[0], attribute(call, "summand")->number);
}

static bool between(kn_export_call *call, double low, double high) {
    const char *least = isinf(low) ? "" : kn_export_number(call, dtype_of(call), low);
    const char *most = isinf(high) ? NULL : kn_export_number(call, dtype_of(call), high);
    if (!least || (!most && !isinf(high))) return false;
    return kn_export_node(call, "Clip", call->output, KN_EXPORT_INPUTS(call->inputs[0], least, most));
}

static bool clip(kn_export_call *call) {
    return between(call, attribute(call, "low")->number, attribute(call, "high")->number);
}

static bool relu6(kn_export_call *call) {
    return between(call, 0, 6);
}

static bool rsqrt_row(kn_export_call *call) {
    const char *root = kn_export_one(call, "Sqrt", NULL, call->inputs[0]);
    return kn_export_one(call, "Reciprocal", call->output, root);
}

static bool silu(kn_export_call *call) {
    const char *sigmoid = kn_export_one(call, "Sigmoid", NULL, call->inputs[0]);
    return kn_export_two(call, "Mul", call->output, call->inputs[0], sigmoid);
}

static bool log_sigmoid(kn_export_call *call) {
    const char *minus = kn_export_one(call, "Neg", NULL, call->inputs[0]);
    return kn_export_one(call, "Neg", call->output, kn_export_one(call, "Softplus", NULL, minus));
}

static bool log1p_row(kn_export_call *call) {
    const char *more = with(call, "Add", NULL, call->inputs[0], 1);
    return kn_export_one(call, "Log", call->output, more);
}

static bool expm1_row(kn_export_call *call) {
    return with(call, "Sub", call->output, kn_export_one(call, "Exp", NULL, call->inputs[0]), 1);
}

/* In ONNX, only the remainder of integers has the sign of the divisor. */
static bool remainder_row(kn_export_call *call) {
    bool dividend = !strcmp(call->node->op->name, "fmod");
    const char *x = call->inputs[0], *y = call->inputs[1];
    if (dividend || !kn_dtype_is_float(dtype_of(call)))
        return kn_export_two(call, "Mod", call->output, x, y) && kn_export_int(call, "fmod", dividend);
    const char *quotient = kn_export_two(call, "Div", NULL, x, y);
    const char *least = kn_export_two(call, "Mul", NULL, y, kn_export_one(call, "Floor", NULL, quotient));
    return kn_export_two(call, "Sub", call->output, x, least);
}

static bool quotient(kn_export_call *call) {
    return kn_export_two(call, "Div", call->output, call->inputs[0], call->inputs[1]);
}

/* Div truncates: subtracts 1 if there is a remainder and the signs differ. */
static bool floor_quotient(kn_export_call *call) {
    const char *x = call->inputs[0], *y = call->inputs[1];
    const char *rest = kn_export_one(call, "Abs", NULL, kn_export_two(call, "Mod", NULL, x, y));
    const char *below[] = {with(call, "Less", NULL, x, 0), with(call, "Less", NULL, y, 0)};
    const char *signs = kn_export_two(call, "Xor", NULL, below[0], below[1]);
    const char *less = kn_export_two(call, "And", NULL, with(call, "Greater", NULL, rest, 0), signs);
    less = kn_export_one(call, "Cast", NULL, less);
    if (!less || !kn_export_int(call, "to", kn_onnx_type_from(dtype_of(call)))) return false;
    return kn_export_two(call, "Sub", call->output, kn_export_two(call, "Div", NULL, x, y), less);
}

static bool gelu(kn_export_call *call) {
    bool tangent = !strcmp(call->node->op->name, "gelu_tanh");
    return kn_export_one(call, "Gelu", call->output, call->inputs[0]) &&
           kn_export_string(call, "approximate", tangent ? "tanh" : "none");
}

static bool not_equal(kn_export_call *call) {
    const char *equal = kn_export_two(call, "Equal", NULL, call->inputs[0], call->inputs[1]);
    return kn_export_one(call, "Not", call->output, equal);
}

static bool cast(kn_export_call *call) {
    const bool saturates = kn_attribute_of(call->node, "saturate")->integer;
    return kn_export_one(call, "Cast", call->output, call->inputs[0]) &&
           kn_export_int(call, "to", kn_onnx_type_from(call->node->outputs[0]->shape.dtype)) &&
           (saturates || kn_export_int(call, "saturate", 0));
}

/* Dropout is written, since a reader of the file may train the model again. */
static bool dropout(kn_export_call *call) {
    const char *rate = kn_export_number(call, KN_FLOAT32, attribute(call, "rate")->number);
    return kn_export_two(call, "Dropout", call->output, call->inputs[0], rate);
}

static bool first(kn_export_call *call) {
    return kn_export_one(call, "Identity", call->output, call->inputs[0]);
}

/* ---- products, windows, norms -------------------------------------------------------------------------- */

/* Transposes the last two axes of `name`, which has the shape of input `input`. */
static const char *transposed(kn_export_call *call, int input, const char *name) {
    int64_t axes[KN_MAX_RANK];
    int rank = call->node->inputs[input]->shape.rank;
    for (int i = 0; i < rank; i++)
        axes[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    name = kn_export_one(call, "Transpose", NULL, name);
    return name && kn_export_ints(call, "perm", axes, (size_t)rank) ? name : NULL;
}

static bool matmul(kn_export_call *call) {
    bool transposes[2] = {attribute(call, "transpose_a")->integer != 0,
                          attribute(call, "transpose_b")->integer != 0};
    const char *a = call->inputs[0], *b = call->inputs[1];
    kn_dtype type = call->node->inputs[0]->shape.dtype;
    if (call->node->inputs[1]->shape.dtype != type) { /* either side has 16 bits */
        b = kn_export_one(call, "Cast", NULL, b);
        if (!b || !kn_export_int(call, "to", kn_onnx_type_from(type))) return false;
    }
    if (call->node->inputs[0]->shape.rank == 2 && call->node->inputs[1]->shape.rank == 2)
        return kn_export_two(call, "Gemm", call->output, a, b) &&
               kn_export_int(call, "transA", transposes[0]) && kn_export_int(call, "transB", transposes[1]);
    if (transposes[0] && !(a = transposed(call, 0, a))) return false;
    if (transposes[1] && !(b = transposed(call, 1, b))) return false;
    return kn_export_two(call, "MatMul", call->output, a, b);
}

static bool add_list(kn_export_call *call, const char *name, const char *ours, int count) {
    const kn_attribute_value *value = attribute(call, ours);
    return value->count == count && kn_export_ints(call, name, value->list, (size_t)count);
}

static bool conv(kn_export_call *call) {
    const kn_value *weight = call->node->inputs[1];
    const int64_t window[2] = {weight->shape.dims[2], weight->shape.dims[3]};
    bool upper = attribute(call, "same")->integer != 0, lower = attribute(call, "same_lower")->integer != 0;
    if (!kn_export_node(call, "Conv", call->output, KN_EXPORT_INPUTS(call->inputs[0], call->inputs[1])) ||
        !kn_export_ints(call, "kernel_shape", window, 2) || !add_list(call, "strides", "stride", 2) ||
        !add_list(call, "dilations", "dilation", 2) ||
        !kn_export_int(call, "group", attribute(call, "groups")->integer))
        return false;
    return upper || lower ? kn_export_string(call, "auto_pad", upper ? "SAME_UPPER" : "SAME_LOWER")
                          : add_list(call, "pads", "padding", 4);
}

/* Elements at the end that no window reaches become output_padding. */
static bool conv_transpose(kn_export_call *call) {
    const kn_value *x = call->node->inputs[0], *weight = call->node->inputs[1];
    const kn_shape *to = &call->node->outputs[0]->shape;
    kn_graph *graph = call->node->outputs[0]->graph;
    const int64_t *stride = attribute(call, "stride")->list, *padding = attribute(call, "padding")->list;
    const int64_t *dilation = attribute(call, "dilation")->list;
    int64_t window[2], more[2];
    for (int i = 0; i < 2; i++) {
        kn_dim steps = kn_dim_multiply(graph, kn_dim_subtract(graph, x->shape.dims[2 + i], 1), stride[i]);
        window[i] = weight->shape.dims[2 + i];
        if (!kn_dim_constant(graph, kn_dim_subtract(graph, to->dims[2 + i], steps), &more[i])) return false;
        more[i] += padding[i] + padding[i + 2] - dilation[i] * (window[i] - 1) - 1;
        if (more[i] < 0 || more[i] >= stride[i]) return false;
    }
    return kn_export_node(call, "ConvTranspose", call->output,
                          KN_EXPORT_INPUTS(call->inputs[0], call->inputs[1])) &&
           kn_export_ints(call, "kernel_shape", window, 2) &&
           kn_export_ints(call, "output_padding", more, 2) && add_list(call, "strides", "stride", 2) &&
           add_list(call, "dilations", "dilation", 2) && add_list(call, "pads", "padding", 4) &&
           kn_export_int(call, "group", attribute(call, "groups")->integer);
}

enum {
    MAX_SLICES = KN_EXPORT_MORE / 4 - 1
}; /* windows along each of two axes: each takes two nodes and two lists */

/* Adaptive pooling along an axis: `to` windows of different sizes, each reduced. */
static const char *adaptive_axis(kn_export_call *call, const char *x, bool largest, int64_t axis, int64_t to,
                                 const char *output) {
    const char *parts[MAX_SLICES + 1] = {NULL}, *along = kn_export_list(call, &axis, 1);
    const kn_dim from = call->node->inputs[0]->shape.dims[axis];
    if (!x || !along || !kn_dim_known(from) || to > MAX_SLICES) return NULL;
    for (int64_t i = 0; i < to; i++) {
        const int64_t begin = i * from / to, end = ((i + 1) * from + to - 1) / to;
        const char *start = kn_export_list(call, &begin, 1), *stop = kn_export_list(call, &end, 1);
        const char *slice = start && stop
                                ? kn_export_node(call, "Slice", NULL, KN_EXPORT_INPUTS(x, start, stop, along))
                                : NULL;
        parts[i] = kn_export_two(call, largest ? "ReduceMax" : "ReduceMean", NULL, slice, along);
        if (!parts[i]) return NULL;
    }
    const char *whole = kn_export_node(call, "Concat", output, parts);
    return whole && kn_export_int(call, "axis", axis) ? whole : NULL;
}

static bool pool(kn_export_call *call) {
    bool largest = !strcmp(call->node->op->name, "max_pool");
    const kn_attribute_value *size = attribute(call, "output");
    if (size->count) {
        const int64_t rows = size->list[0], columns = size->list[size->count - 1];
        if (rows == 1 && columns == 1)
            return kn_export_one(call, largest ? "GlobalMaxPool" : "GlobalAveragePool", call->output,
                                 call->inputs[0]);
        const char *lines = adaptive_axis(call, call->inputs[0], largest, 2, rows, NULL);
        return adaptive_axis(call, lines, largest, 3, columns, call->output);
    }
    if (!kn_export_one(call, largest ? "MaxPool" : "AveragePool", call->output, call->inputs[0]) ||
        !add_list(call, "kernel_shape", "window", 2) || !add_list(call, "strides", "stride", 2) ||
        !add_list(call, "pads", "padding", 4) ||
        !kn_export_int(call, "ceil_mode", attribute(call, "ceil")->integer != 0))
        return false;
    return largest ? add_list(call, "dilations", "dilation", 2)
                   : kn_export_int(call, "count_include_pad", !attribute(call, "skip_padding")->integer);
}

static bool batch_norm(kn_export_call *call) {
    return kn_export_node(call, "BatchNormalization", call->output,
                          KN_EXPORT_INPUTS(call->inputs[0], call->inputs[1], call->inputs[2], call->inputs[3],
                                           call->inputs[4])) &&
           kn_export_float(call, "epsilon", attribute(call, "epsilon")->number) &&
           kn_export_float(call, "momentum", 1 - attribute(call, "momentum")->number);
}

static bool softmax(kn_export_call *call) {
    bool logarithm = !strcmp(call->node->op->name, "log_softmax");
    return kn_export_one(call, logarithm ? "LogSoftmax" : "Softmax", call->output, call->inputs[0]) &&
           kn_export_int(call, "axis", attribute(call, "axis")->integer);
}

static bool reduce(kn_export_call *call) {
    static const char *const types[][2] = {{"sum", "ReduceSum"},
                                           {"mean", "ReduceMean"},
                                           {"reduce_max", "ReduceMax"},
                                           {"reduce_min", "ReduceMin"}};
    const kn_attribute_value *axes = attribute(call, "axes");
    size_t row = 0;
    while (strcmp(types[row][0], call->node->op->name))
        row++;
    const char *list = axes->count ? kn_export_list(call, axes->list, (size_t)axes->count) : NULL;
    if (axes->count && !list) return false;
    return kn_export_node(call, types[row][1], call->output, KN_EXPORT_INPUTS(call->inputs[0], list)) &&
           kn_export_int(call, "keepdims", attribute(call, "keep")->integer != 0);
}

/* ---- shapes -------------------------------------------------------------------------------------------- */

/* A dynamic size is copied from the same axis of the input (0), or inferred (-1) if it is the only one;
 * otherwise the sizes are computed. */
static bool reshape(kn_export_call *call) {
    const kn_shape *from = &call->node->inputs[0]->shape, *to = &call->node->outputs[0]->shape;
    int64_t numbers[KN_MAX_RANK];
    int open = 0;
    bool empty = false;
    for (int i = 0; i < to->rank; i++) {
        bool same = i < from->rank && from->dims[i] == to->dims[i];
        numbers[i] = kn_dim_known(to->dims[i]) ? to->dims[i] : same ? 0 : -1;
        open += numbers[i] < 0;
        empty = empty || to->dims[i] == 0; /* a 0 would mean the input's size */
    }
    const bool computed = empty || open > 1;
    const char *shape = computed ? kn_export_sizes(call, to->dims, to->rank)
                                 : kn_export_list(call, numbers, (size_t)to->rank);
    return kn_export_two(call, "Reshape", call->output, call->inputs[0], shape) &&
           (!computed || kn_export_int(call, "allowzero", 1));
}

/* Sizes that the input already has are written as 1. */
static bool broadcast(kn_export_call *call) {
    const kn_shape *from = &call->node->inputs[0]->shape, *to = &call->node->outputs[0]->shape;
    kn_dim sizes[KN_MAX_RANK];
    for (int i = 0; i < to->rank; i++) {
        int position = i - (to->rank - from->rank);
        sizes[i] = position >= 0 && from->dims[position] == to->dims[i] ? 1 : to->dims[i];
    }
    const char *shape = kn_export_sizes(call, sizes, to->rank);
    return kn_export_two(call, "Expand", call->output, call->inputs[0], shape);
}

static bool transpose(kn_export_call *call) {
    const kn_attribute_value *order = attribute(call, "permutation");
    return kn_export_one(call, "Transpose", call->output, call->inputs[0]) &&
           (!order->count || kn_export_ints(call, "perm", order->list, (size_t)order->count));
}

static bool concat(kn_export_call *call) {
    const char *inputs[KN_MAX_INPUTS + 1] = {NULL};
    memcpy(inputs, call->inputs, (size_t)call->node->input_count * sizeof *inputs);
    return kn_export_node(call, "Concat", call->output, inputs) &&
           kn_export_int(call, "axis", attribute(call, "axis")->integer);
}

static bool slice(kn_export_call *call) {
    static const char *const names[] = {"begin", "end", "axis", "step"};
    const char *lists[4];
    for (int i = 0; i < 4; i++)
        if (!(lists[i] = kn_export_list(call, &attribute(call, names[i])->integer, 1))) return false;
    if (attribute(call, "step")->integer < 1) return false;
    return kn_export_node(call, "Slice", call->output,
                          KN_EXPORT_INPUTS(call->inputs[0], lists[0], lists[1], lists[2], lists[3]));
}

static bool pad(kn_export_call *call) {
    const kn_attribute_value *amounts = attribute(call, "amounts");
    const char *list = kn_export_list(call, amounts->list, (size_t)amounts->count);
    const char *value = kn_export_number(call, dtype_of(call), attribute(call, "value")->number);
    return list && value &&
           kn_export_node(call, "Pad", call->output, KN_EXPORT_INPUTS(call->inputs[0], list, value));
}

/* Reverses the given axes, or all. */
static bool flip(kn_export_call *call) {
    const kn_attribute_value *axes = attribute(call, "axes");
    int64_t lists[4][KN_MAX_RANK];
    const char *names[4];
    int count = axes->count ? axes->count : call->node->inputs[0]->shape.rank;
    for (int i = 0; i < count; i++) {
        lists[0][i] = lists[3][i] = -1;
        lists[1][i] = INT64_MIN;
        lists[2][i] = axes->count ? axes->list[i] : i;
    }
    if (!count) return first(call);
    for (int i = 0; i < 4; i++)
        if (!(names[i] = kn_export_list(call, lists[i], (size_t)count))) return false;
    return kn_export_node(call, "Slice", call->output,
                          KN_EXPORT_INPUTS(call->inputs[0], names[0], names[1], names[2], names[3]));
}

/* Resizes one axis at a time; a given scale is kept, even if it yields no integer size. */
static bool resize(kn_export_call *call) {
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    static const char *const coordinates[] = {"half_pixel", "align_corners", "asymmetric",
                                              "pytorch_half_pixel"};
    static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
    const int64_t size = attribute(call, "size")->integer, axis = attribute(call, "axis")->integer;
    const double scale = attribute(call, "scale")->number;
    const int rank = call->node->inputs[0]->shape.rank;
    const int64_t mode = attribute(call, "mode")->integer, position = axis < 0 ? axis + rank : axis;
    float *factor = kn_arena_take(&call->export->arena, 1, sizeof *factor);
    const int64_t one_long = 1;
    if (!factor) return false;
    *factor = (float)scale;
    const char *sizes =
        scale > 0 ? kn_export_tensor(call, KN_FLOAT32, 1, &one_long, factor) : kn_export_list(call, &size, 1);
    const char *const by_size[] = {call->inputs[0], "", "", sizes, NULL};
    const char *const by_scale[] = {call->inputs[0], "", sizes, NULL};
    return sizes && kn_export_node(call, "Resize", call->output, scale > 0 ? by_scale : by_size) &&
           kn_export_ints(call, "axes", &position, 1) && kn_export_string(call, "mode", modes[mode]) &&
           kn_export_string(call, "coordinate_transformation_mode",
                            coordinates[attribute(call, "coordinates")->integer]) &&
           kn_export_string(call, "nearest_mode", roundings[attribute(call, "rounding")->integer]) &&
           kn_export_float(call, "cubic_coeff_a", attribute(call, "cubic")->number);
}

static bool cumsum(kn_export_call *call) {
    const char *axis = kn_export_number(call, KN_INT64, (double)attribute(call, "axis")->integer);
    return kn_export_two(call, "CumSum", call->output, call->inputs[0], axis) &&
           kn_export_int(call, "exclusive", attribute(call, "exclusive")->integer != 0) &&
           kn_export_int(call, "reverse", attribute(call, "reverse")->integer != 0);
}

static const kn_export_row rows[] = {
    {"scale", scale},
    {"shift", shift},
    {"clip", clip},
    {"relu6", relu6},
    {"rsqrt", rsqrt_row},
    {"silu", silu},
    {"log_sigmoid", log_sigmoid},
    {"log1p", log1p_row},
    {"expm1", expm1_row},
    {"mod", remainder_row},
    {"fmod", remainder_row},
    {"quotient", quotient},
    {"floor_quotient", floor_quotient},
    {"gelu", gelu},
    {"gelu_tanh", gelu},
    {"not_equal", not_equal},
    {"cast", cast},
    {"dropout", dropout},
    {"in_training", first},
    {"matmul", matmul},
    {"conv2d", conv},
    {"conv2d_data", conv_transpose},
    {"max_pool", pool},
    {"average_pool", pool},
    {"batch_norm", batch_norm},
    {"softmax", softmax},
    {"log_softmax", softmax},
    {"sum", reduce},
    {"mean", reduce},
    {"reduce_max", reduce},
    {"reduce_min", reduce},
    {"reshape", reshape},
    {"flatten", reshape},
    {"broadcast", broadcast},
    {"transpose", transpose},
    {"concat", concat},
    {"slice", slice},
    {"pad", pad},
    {"flip", flip},
    {"resize", resize},
    {"cumsum", cumsum},
};

static kn_export_builder find_in(const kn_export_row *list, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (!strcmp(list[i].name, name)) return list[i].build;
    return NULL;
}

kn_export_builder kn_export_find(const kn_operator *row) {
    kn_export_builder found = find_in(rows, KN_COUNT_OF(rows), row->name);
    if (!found) found = find_in(kn_export_sequences, (size_t)kn_export_sequences_count, row->name);
    if (!found) found = find_in(kn_export_gathers, (size_t)kn_export_gathers_count, row->name);
    return found || !kn_import_find_op(row->name) ? found : same;
}
