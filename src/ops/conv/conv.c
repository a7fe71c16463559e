/* Two-dimensional convolutions, their gradients with respect to data and weight, and the layer. */
#include "ops/conv/conv.h"

#include "ops/build.h"
#include "ops/conv/window.h"
#include "ops/gradient.h"
#include "ops/lowering.h"
#include "ops/matmul/product.h"
#include "ops/row.h"
#include "ops/shape_rule.h"

/* ---- shapes ------------------------------------------------------------------------------------- */

kn_status kn_conv_shape(kn_shape_call *call, kn_dtype dtype) {
    const kn_shape *x = &call->inputs[0]->shape, *weight = &call->inputs[1]->shape;
    kn_shape *y = &call->outputs[0];
    if (x->rank != 4)
        return kn_shape_fail(call, KN_ERROR_SHAPE, "x is %s; expected images, (N,C,H,W)",
                             kn_shape_words_of(call, 0));
    if (weight->rank != 4 || (x->dtype == dtype && weight->dtype != dtype))
        return kn_shape_fail(call, KN_ERROR_SHAPE,
                             "the weight is %s; expected filters (K,C/groups,R,S) of the type of x",
                             kn_shape_words_of(call, 1));
    for (int i = 0; i < 4; i++)
        if (!kn_dim_known(weight->dims[i]) || (i == 1 && !kn_dim_known(x->dims[1])))
            return kn_shape_fail(
                call, KN_ERROR_SHAPE,
                "x is %s and the weight %s; the numbers of channels and filters must not be symbols",
                kn_shape_words_of(call, 0), kn_shape_words_of(call, 1));
    int64_t groups = kn_shape_attribute(call, "groups")->integer;
    if (groups < 1 || x->dims[1] % groups || weight->dims[0] % groups ||
        x->dims[1] / groups != weight->dims[1])
        return kn_shape_fail(call, KN_ERROR_SHAPE,
                             "x is %s and the weight %s with %lld groups; expected (K,C/groups,R,S), with C "
                             "and K multiples of the groups",
                             kn_shape_words_of(call, 0), kn_shape_words_of(call, 1), (long long)groups);
    if (kn_window_lists(call)) return call->error->status;
    bool lower = kn_shape_attribute(call, "same_lower")->integer != 0;
    bool same = lower || kn_shape_attribute(call, "same")->integer != 0;
    y->dtype = dtype;
    y->rank = 4;
    y->dims[0] = x->dims[0];
    y->dims[1] = weight->dims[0];
    for (int axis = 0; axis < 2; axis++) {
        int64_t size = weight->dims[2 + axis], dilation = kn_shape_attribute(call, "dilation")->list[axis];
        if (size < 1 || size > INT32_MAX || dilation > INT32_MAX)
            return kn_shape_fail(call, KN_ERROR_SHAPE, "the weight is %s; expected filters of at least 1x1",
                                 kn_shape_words_of(call, 1));
        if (kn_window_size(call, axis, (size - 1) * dilation + 1, same, lower, &y->dims[2 + axis]))
            return call->error->status;
    }
    return KN_OK;
}

static kn_status conv_shape(kn_shape_call *call) {
    if (kn_shape_float_input(call, 0)) return call->error->status;
    return kn_conv_shape(call, call->inputs[0]->shape.dtype);
}

/* Gradient rows are built by the rule below from a valid node, or by trials from smaller shapes, which need
 * not fit the groups; "size" holds what their inputs do not determine: height and width of x, or of the
 * filters. */
static kn_status data_shape(kn_shape_call *call) {
    const kn_shape *dy = &call->inputs[0]->shape, *weight = &call->inputs[1]->shape;
    const kn_attribute_value *size = kn_shape_attribute(call, "size");
    int64_t groups = kn_shape_attribute(call, "groups")->integer;
    if (dy->rank != 4 || weight->rank != 4 || size->count != 2 || groups < 1 ||
        dy->dims[1] != weight->dims[0] || weight->dims[0] % groups)
        return kn_shape_fail(call, KN_ERROR_SHAPE,
                             "expected dy (N,K,P,Q), weight (K,C/groups,R,S) and size=H,W, with K a "
                             "multiple of the groups");
    if (kn_window_lists(call)) return call->error->status;
    kn_dim channels = weight->dims[1] * groups;
    call->outputs[0] = (kn_shape){
        .dtype = dy->dtype, .rank = 4, .dims = {dy->dims[0], channels, size->list[0], size->list[1]}};
    return KN_OK;
}

static kn_status weight_shape(kn_shape_call *call) {
    const kn_shape *dy = &call->inputs[0]->shape, *x = &call->inputs[1]->shape;
    const kn_attribute_value *size = kn_shape_attribute(call, "size");
    int64_t groups = kn_shape_attribute(call, "groups")->integer;
    if (dy->rank != 4 || x->rank != 4 || size->count != 2 || groups < 1 || dy->dims[1] % groups ||
        x->dims[1] % groups)
        return kn_shape_fail(call, KN_ERROR_SHAPE,
                             "expected dy (N,K,P,Q), x (N,C,H,W) and size=R,S, with C and K multiples of the "
                             "groups");
    if (kn_window_lists(call)) return call->error->status;
    call->outputs[0] = (kn_shape){.dtype = dy->dtype,
                                  .rank = 4,
                                  .dims = {dy->dims[1], x->dims[1] / groups, size->list[0], size->list[1]}};
    return KN_OK;
}

void kn_conv_describe(const kn_node *node, kn_conv_form *form) {
    const bool data = node->op == &kn_row_conv2d_data, forward = !data && node->op != &kn_row_conv2d_weight;
    const kn_shape *first = &node->inputs[0]->shape, *second = &node->inputs[1]->shape;
    const kn_shape *result = &node->outputs[0]->shape;
    const kn_shape *x = forward ? first : data ? result : second, *y = forward ? result : first;
    const kn_shape *weight = forward || data ? second : result;
    form->images = x->dims[0];
    form->channels = x->dims[1];
    form->height = x->dims[2];
    form->width = x->dims[3];
    form->outputs = y->dims[1];
    form->out_height = y->dims[2];
    form->out_width = y->dims[3];
    form->filter_height = weight->dims[2];
    form->filter_width = weight->dims[3];
    for (int i = 0; i < 4; i++)
        form->padding[i] = kn_attribute_of(node, "padding")->list[i];
    for (int i = 0; i < 2; i++) {
        form->stride[i] = kn_attribute_of(node, "stride")->list[i];
        form->dilation[i] = kn_attribute_of(node, "dilation")->list[i];
    }
    form->groups = kn_attribute_of(node, "groups")->integer;
}

/* ---- references ------------------------------------------------------------------------------------- */

/* All rows iterate over the same products: y(n,k,p,q) contains x(n,c,v,u) * weight(k,c,r,s). Two of the
 * arrays are read, the third is accumulated. */
kn_status kn_conv_reference(kn_reference_call *call) {
    const kn_node *node = call->node;
    const bool data = node->op == &kn_row_conv2d_data, forward = !data && node->op != &kn_row_conv2d_weight;
    const double *first = call->inputs[0].data, *second = call->inputs[1].data;
    const double *x_zero = call->input_count > 2 ? call->inputs[2].data : NULL;
    const double *zeros = call->input_count > 3 ? call->inputs[3].data : NULL;
    const int64_t zero_step = zeros && call->inputs[3].elements > 1;
    double *result = call->outputs[0].data;
    kn_conv_form form;
    kn_conv_describe(node, &form);
    int64_t channels = form.channels / form.groups, outputs = form.outputs / form.groups;
    for (int64_t at = 0; at < form.images * form.outputs * form.out_height * form.out_width; at++) {
        int64_t q = at % form.out_width, p = at / form.out_width % form.out_height;
        int64_t k = at / form.out_width / form.out_height % form.outputs;
        int64_t n = at / form.out_width / form.out_height / form.outputs;
        int64_t plane = n * form.channels + k / outputs * channels;
        int64_t row = k * channels * form.filter_height; /* of the filter */
        for (int64_t line = 0; line < channels * form.filter_height; line++, row++) {
            int64_t c = line / form.filter_height, r = line % form.filter_height;
            int64_t v = p * form.stride[0] - form.padding[0] + r * form.dilation[0];
            if (v < 0 || v >= form.height) continue;
            for (int64_t s = 0; s < form.filter_width; s++) {
                int64_t u = q * form.stride[1] - form.padding[1] + s * form.dilation[1];
                if (u < 0 || u >= form.width) continue;
                int64_t in_x = ((plane + c) * form.height + v) * form.width + u;
                int64_t in_weight = row * form.filter_width + s;
                if (forward)
                    result[at] += (first[in_x] - (x_zero ? x_zero[0] : 0)) *
                                  (second[in_weight] - (zeros ? zeros[k * zero_step] : 0));
                else if (data)
                    result[in_x] += first[at] * second[in_weight];
                else
                    result[in_weight] += first[at] * second[in_x];
            }
        }
    }
    return KN_OK;
}

void kn_conv_cost(const kn_node *node, kn_cost *cost) {
    kn_conv_form form;
    kn_conv_describe(node, &form);
    double taps =
        (double)(form.channels / form.groups) * (double)form.filter_height * (double)form.filter_width;
    kn_cost_set(node,
                2.0 * taps * (double)form.images * (double)form.outputs * (double)form.out_height *
                    (double)form.out_width,
                cost);
}

/* ---- gradients ---------------------------------------------------------------------------------------- */

static kn_value *gradient_node(kn_gradient_call *call, const kn_operator *row, kn_value *first,
                               kn_value *second, const kn_shape *size_from) {
    const kn_node *node = call->node;
    kn_settings settings;
    kn_settings_init(&settings, call->graph, row);
    kn_settings_list(&settings, "stride", 2, kn_attribute_of(node, "stride")->list);
    kn_settings_list(&settings, "padding", 4, kn_attribute_of(node, "padding")->list);
    kn_settings_list(&settings, "dilation", 2, kn_attribute_of(node, "dilation")->list);
    kn_settings_int(&settings, "groups", kn_attribute_of(node, "groups")->integer);
    if (size_from) kn_settings_list(&settings, "size", 2, size_from->dims + 2);
    kn_value *inputs[2] = {first, second};
    return kn_gradient_build(call, row, inputs, 2, &settings);
}

static kn_status conv_gradient(kn_gradient_call *call) {
    kn_value *x = call->node->inputs[0], *weight = call->node->inputs[1];
    kn_value *dy = call->output_gradients[0];
    if (!dy) return KN_OK;
    if (call->wanted[0])
        call->input_gradients[0] = gradient_node(call, &kn_row_conv2d_data, dy, weight, &x->shape);
    if (call->wanted[1])
        call->input_gradients[1] = gradient_node(call, &kn_row_conv2d_weight, dy, x, &weight->shape);
    return kn_gradient_status(call);
}

/* The gradients of dx (N,C,H,W) with respect to dy and weight (a transposed convolution is dx of its input).
 * dx is linear in each, so they are a convolution and its weight gradient. */
static kn_status data_gradient(kn_gradient_call *call) {
    kn_value *dy = call->node->inputs[0], *weight = call->node->inputs[1], *by_dx = call->output_gradients[0];
    if (!by_dx) return KN_OK;
    if (call->wanted[0]) call->input_gradients[0] = gradient_node(call, &kn_row_conv2d, by_dx, weight, NULL);
    if (call->wanted[1])
        call->input_gradients[1] = gradient_node(call, &kn_row_conv2d_weight, dy, by_dx, &weight->shape);
    return kn_gradient_status(call);
}

/* Describes an error in a gradient node of a program; NULL if there is none. */
static const char *gradient_wrong(const kn_node *node) {
    kn_conv_form form;
    kn_conv_describe(node, &form);
    const bool data = node->op == &kn_row_conv2d_data;
    const kn_shape *dy = &node->inputs[0]->shape, *other = &node->inputs[1]->shape;
    const kn_shape *weight = data ? other : &node->outputs[0]->shape;
    if (other->dtype != dy->dtype) return "dy and the other input must have the same type";
    if (dy->dims[0] != form.images) return "x and dy must have the same number of images";
    if (form.channels / form.groups != weight->dims[1] || form.channels % form.groups ||
        form.outputs % form.groups || form.outputs != weight->dims[0])
        return "channels must be multiples of the groups";
    const int64_t sizes[2] = {form.height, form.width}, filter[2] = {form.filter_height, form.filter_width};
    const int64_t out[2] = {form.out_height, form.out_width};
    for (int axis = 0; axis < 2; axis++) {
        if (sizes[axis] < 0 || sizes[axis] > INT32_MAX || filter[axis] < 1 || filter[axis] > INT32_MAX ||
            form.dilation[axis] > INT32_MAX)
            return "expected filters of at least 1x1, and sizes of at most 32 bits";
        int64_t reach = (filter[axis] - 1) * form.dilation[axis] + 1;
        int64_t padded = sizes[axis] + form.padding[axis] + form.padding[axis + 2];
        if (padded < reach || (padded - reach) / form.stride[axis] + 1 != out[axis])
            return "dy must have the output size of the convolution of x";
    }
    return NULL;
}

/* ---- the rows ------------------------------------------------------------------------------------------ */

#define WINDOW                                                                                               \
    KN_INTS("stride", "1", "stride of the window: one number, or height,width"),                             \
        KN_INTS("padding", "0",                                                                              \
                "zero padding: one number for all sides, height,width, or top,left,bottom,right"),           \
        KN_INTS("dilation", "1", "distance between the filter's taps"),                                      \
        KN_INT("groups", 1, "groups of channels that are convolved independently")
/* Depthwise convolutions have separate kernels. On wide-vector devices images are blocked: both sides, or all
 * except a source with few channels; a result whose channels fill no block is blocked only in scratch
 * memory. */
#define PRODUCT(word, lowering, ...)                                                                         \
    { .name = word, .lower = lowering, .promise.takes_epilogue = true, .promise.halves = {3, 1}, __VA_ARGS__ }
/* The sizes are those at which a matrix unit, or reading in place, is compared with the work-items. */
#define IMPLICIT(sizes)                                                                                      \
    PRODUCT("matrix", kn_conv_implicit_lower, .config = KN_PRODUCT_MATRIX,                                   \
            .choice.accepts = kn_conv_matrix_accepts),                                                       \
        PRODUCT("matrix_split", kn_conv_implicit_lower, .config = KN_PRODUCT_SPLIT,                          \
                .choice.accepts = kn_conv_matrix_split_accepts, .choice.fast = true,                         \
                .choice.pays = kn_product_split_pays, .choice.measured = true,                               \
                .choice.measured_at = &(sizes)),                                                             \
        PRODUCT("direct", kn_conv_implicit_lower, .config = KN_PRODUCT_DIRECT,                               \
                .choice.accepts = kn_conv_direct_accepts, .choice.measured = true,                           \
                .choice.measured_at = &(sizes)),                                                             \
        PRODUCT("implicit", kn_conv_implicit_lower, .config = KN_PRODUCT_ITEMS,                              \
                .choice.accepts = kn_takes_kernel_types)
/* For blocked 16-bit images. */
#define BLOCKED(from, to)                                                                                    \
    PRODUCT("matrix_blocked", kn_conv_blocked_lower, .choice.accepts = kn_conv_blocked_accepts,              \
            .promise.inputs = from, .promise.outputs = to)
#define BOTH_BLOCKED                                                                                         \
    { KN_LAYOUT_BLOCKED, KN_LAYOUT_BLOCKED }
static const kn_node_sizes forward_sizes = {{"16,128,28,28", "128,128,3,3"}, "padding=1"},
                           data_sizes = {{"16,128,28,28", "128,128,3,3"}, "padding=1 size=28,28"},
                           weight_sizes = {{"16,128,28,28", "16,128,28,28"}, "padding=1 size=3,3"};
#define PLAIN                                                                                                \
    {                                                                                                        \
        .name = "plain", .choice.accepts = kn_takes_kernel_types, .lower = kn_conv_plain_lower,              \
        .promise.halves = {                                                                                  \
            3,                                                                                               \
            1                                                                                                \
        }                                                                                                    \
    }
#define DEPTHWISE PRODUCT("depthwise", kn_conv_depthwise_lower, .choice.accepts = kn_conv_depthwise_accepts)
#define FOR_VECTORS(word, function, which, ...)                                                              \
    { .name = word, .lower = function##_lower, .config = which, .choice.doubtful = true, __VA_ARGS__ }
/* layout: "", _first, _last or _padded. */
#define WIDE(layout, which, ...)                                                                             \
    FOR_VECTORS("wide" #layout, kn_conv_wide, which, .choice.accepts = kn_conv_wide##layout##_accepts,       \
                __VA_ARGS__)
#define FIRST(word, which, ...)                                                                              \
    FOR_VECTORS(#word, kn_conv_first, which, .choice.accepts = kn_conv_##word##_accepts,                     \
                .promise.takes_epilogue = true, __VA_ARGS__)
#define DEPTHWISE_WIDE(...)                                                                                  \
    FOR_VECTORS("depthwise_wide", kn_conv_depthwise_wide, 0,                                                 \
                .choice.accepts = kn_conv_depthwise_wide_accepts, __VA_ARGS__)
#define ROWS                                                                                                 \
    FOR_VECTORS("rows", kn_conv_rows, 0, .choice.accepts = kn_conv_rows_accepts,                             \
                .promise.takes_epilogue = true),
#define GROUPED(padded, which, ...)                                                                          \
    FOR_VECTORS("grouped" #padded, kn_conv_grouped, which,                                                   \
                .choice.accepts = kn_conv_grouped##padded##_accepts, __VA_ARGS__)
#define GROUPED_PADDED GROUPED(_padded, KN_CONV_PADDED, .promise.takes_epilogue = true),
#define WINOGRAD(word, which, ...)                                                                           \
    FOR_VECTORS(word, kn_conv_winograd, which, .choice.accepts = kn_conv_winograd_accepts,                   \
                .choice.pays = kn_conv_winograd_pays, .choice.fast = true, __VA_ARGS__)
#define BLOCKED_IMAGES                                                                                       \
    .promise.inputs = {KN_LAYOUT_BLOCKED}, .promise.outputs = {KN_LAYOUT_BLOCKED},                           \
    .promise.takes_epilogue = true, .promise.gathers = true
#define WINOGRAD_TILED(word, tile, sizes, ...)                                                               \
    {                                                                                                        \
        .name = word, .lower = kn_conv_winograd_tiled_lower, .config = tile,                                 \
        .choice.accepts = kn_conv_winograd_tiled_accepts, .choice.pays = kn_conv_winograd_tiled_pays,        \
        .choice.fast = true, .choice.measured = true, .choice.measured_at = &(sizes),                        \
        .choice.expected = kn_conv_winograd_tiled_expected, .promise.halves = {3, 1}, __VA_ARGS__            \
    }
/* rows: ROWS for conv2d, GROUPED_PADDED for its gradient. first, first_padded: FIRST(…), for conv2d only. */
#define SWEEPS(sizes, rows, first, first_padded)                                                             \
    KN_VARIANTS(                                                                                             \
        WINOGRAD("winograd4", 4, BLOCKED_IMAGES),                                                            \
        WINOGRAD("winograd4_phases", 4 | KN_CONV_PHASES, BLOCKED_IMAGES),                                    \
        WINOGRAD("winograd2", 2, BLOCKED_IMAGES),                                                            \
        WINOGRAD("winograd2_phases", 2 | KN_CONV_PHASES, BLOCKED_IMAGES),                                    \
        DEPTHWISE_WIDE(BLOCKED_IMAGES, .promise.fuses = kn_conv_fused_depthwise_fuses),                      \
        GROUPED(, 0, BLOCKED_IMAGES), rows DEPTHWISE, WIDE(, 0, BLOCKED_IMAGES, .promise.fusible = true),    \
        first WIDE(_first, KN_CONV_PLAIN, .promise.outputs = {KN_LAYOUT_BLOCKED},                            \
                   .promise.takes_epilogue = true, .promise.gathers = true),                                 \
        WIDE(_last, KN_CONV_PADDED, .promise.inputs = {KN_LAYOUT_BLOCKED}, .promise.takes_epilogue = true),  \
        first_padded WIDE(_padded, KN_CONV_PLAIN | KN_CONV_PADDED, .promise.takes_epilogue = true),          \
        WINOGRAD_TILED("winograd4_tiled", 4, sizes, .promise.takes_epilogue = true),                         \
        WINOGRAD_TILED("winograd2_tiled", 2, sizes, .promise.takes_epilogue = true),                         \
        BLOCKED({KN_LAYOUT_BLOCKED}, {KN_LAYOUT_BLOCKED}), IMPLICIT(sizes), PLAIN)
#define FIRST_BLOCKED FIRST(first, 0, .promise.outputs = {KN_LAYOUT_BLOCKED}, .promise.gathers = true),
#define FIRST_PADDED FIRST(first_padded, KN_CONV_PADDED, .promise.outputs = {KN_LAYOUT_PLAIN}),
#define NONE

KN_OPERATOR(
    conv2d, .help = "convolution of images x (N,C,H,W) with filters (K,C/groups,R,S)",
    KN_ATTRIBUTES(WINDOW,
                  KN_BOOLEAN("same", 0,
                             "pads so that the output size is the input size / stride, rounded up"),
                  KN_BOOLEAN("same_lower", 0, "the same, with an odd line of padding above or on the left")),
    .min_inputs = 2, .max_inputs = 2, .input_names = {"x", "weight"}, .output_names = {"y"},
    .shape = conv_shape, .gradient = conv_gradient, .reference = kn_conv_reference, .cost = kn_conv_cost,
    SWEEPS(forward_sizes, ROWS, FIRST_BLOCKED, FIRST_PADDED),
    KN_CASES(
        {.inputs = {"2,2,5,4", "3,2,3,3"}, .smallest = true},
        {.inputs = {"1,4,7,6", "6,2,3,2"},
         .attributes = "stride=2 padding=2 dilation=2 groups=2",
         .smallest = true},
        {.inputs = {"2,16,7,7", "16,16,3,3"}, .attributes = "padding=1", .smallest = true},
        {.inputs = {"1,1,1,1", "1,1,1,1"}}, {.inputs = {"2,3,31,7", "7,3,1,1"}},
        {.inputs = {"1,7,9,33", "5,7,3,3"}, .attributes = "padding=1"},
        {.inputs = {"1,2,6,7", "2,2,3,2"}, .attributes = "stride=2,3 padding=1,2 dilation=1,2"},
        /* Vectors along rows: long filters and rows, bands of narrow rows, groups, many channels. */
        {.inputs = {"1,1,2,1300", "1,1,1,256"}, .attributes = "stride=1,2 padding=0,31", .no_gradient = true},
        {.inputs = {"1,24,13,12", "24,1,5,5"}, .attributes = "padding=2 groups=24", .no_gradient = true},
        {.inputs = {"2,20,15,20", "20,1,5,5"},
         .attributes = "stride=2 padding=2 groups=20",
         .no_gradient = true},
        {.inputs = {"1,12,17,35", "12,4,3,3"}, .attributes = "padding=1 groups=3", .no_gradient = true},
        {.inputs = {"1,8,11,70", "8,8,3,19"}, .attributes = "padding=1,9", .no_gradient = true},
        {.inputs = {"1,70,40,37", "3,70,7,3"},
         .attributes = "stride=2,1 padding=3,1 dilation=1,2",
         .no_gradient = true},
        {.inputs = {"1,6,9,5", "6,1,3,1"},
         .attributes = "stride=4 padding=0,1 dilation=2,1 groups=6",
         .no_gradient = true},
        /* Groups that fill no vectors: equal and different numbers of channels, parts of rows. */
        {.inputs = {"2,32,6,15", "32,4,3,3"},
         .attributes = "padding=1 groups=8",
         .no_gradient = true,
         .smallest = true},
        {.inputs = {"1,32,9,10", "32,2,3,3"},
         .attributes = "stride=2 padding=1 groups=16",
         .no_gradient = true},
        {.inputs = {"2,16,5,65", "16,8,3,3"}, .attributes = "padding=1 groups=2", .no_gradient = true},
        {.inputs = {"1,48,6,5", "32,12,3,2"},
         .attributes = "stride=1,2 padding=2,0,1,3 groups=4",
         .no_gradient = true},
        {.inputs = {"1,32,9,23", "48,2,3,3"},
         .attributes = "stride=2,3 padding=3 dilation=2 groups=16",
         .no_gradient = true},
        {.inputs = {"1,48,3,37", "48,24,2,3"}, .attributes = "padding=1 groups=2", .no_gradient = true},
        {.inputs = {"2,3,7,5", "4,3,3,3"}, .attributes = "padding=0,1,2,0"},
        {.inputs = {"1,3,15,15", "7,3,7,7"}, .attributes = "stride=3 padding=3"},
        {.inputs = {"1,2,9,12", "3,2,4,8"}, .attributes = "padding=2,5"},
        {.inputs = {"2,6,9,9", "6,1,3,3"}, .attributes = "stride=2 padding=1 groups=6", .smallest = true},
        {.inputs = {"2,16,7,6", "16,1,3,3"}, .attributes = "stride=2 padding=1 groups=16", .smallest = true},
        {.inputs = {"1,32,9,7", "32,1,5,2"}, .attributes = "padding=3,0,1,2 dilation=2,3 groups=32"},
        {.inputs = {"3,16,5,33", "16,1,3,3"}, .attributes = "padding=1 groups=16"},
        {.inputs = {"1,16,6,37", "16,1,2,5"}, .attributes = "stride=1,2 padding=0,3 dilation=1,2 groups=16"},
        {.inputs = {"3,7,31,33", "7,1,3,3"}, .attributes = "padding=1 groups=7"},
        {.inputs = {"1,2,9,9", "4,1,3,3"}, .attributes = "groups=2"},
        {.inputs = {"2,3,7,8", "4,3,3,2"}, .attributes = "same=1"},
        {.inputs = {"1,2,7,8", "3,2,3,3"}, .attributes = "same=1 stride=2"},
        {.inputs = {"2,3,7,8", "4,3,2,4"}, .attributes = "same_lower=1"},
        {.inputs = {"2,32,7,9", "48,32,3,3"}, .attributes = "padding=1", .no_gradient = true},
        {.inputs = {"1,48,9,7", "32,48,1,1"}}, {.inputs = {"3,32,5,7", "64,32,1,1"}, .no_gradient = true},
        {.inputs = {"2,16,9,7", "48,16,1,1"},
         .attributes = "stride=2",
         .no_gradient = true,
         .smallest = true},
        /* Results so large that they bypass the caches. */
        {.inputs = {"1,16,257,256", "16,16,1,1"}, .no_gradient = true, .large = true},
        {.inputs = {"1,16,257,256", "16,1,3,3"},
         .attributes = "padding=1 groups=16",
         .no_gradient = true,
         .large = true},
        {.inputs = {"2,24,5,9", "32,24,1,1"}}, {.inputs = {"2,24,7,5", "40,24,1,1"}, .no_gradient = true},
        {.inputs = {"2,16,5,7", "24,16,1,1"}},
        {.inputs = {"1,32,7,6", "35,32,3,3"}, .attributes = "padding=1"},
        {.inputs = {"1,8,4,4", "8,8,3,3"}, .attributes = "padding=1,1,1,9"},
        {.inputs = {"1,64,5,5", "96,64,3,3"}, .attributes = "stride=2 padding=1"},
        {.inputs = {"1,32,6,6", "32,16,3,3"}, .attributes = "padding=1 groups=2"},
        {.inputs = {"2,3,11,19", "16,3,5,4"},
         .attributes = "stride=2,3 padding=3,1,2,4",
         .no_gradient = true,
         .smallest = true},
        {.inputs = {"1,3,5,26", "80,3,3,3"}, .attributes = "padding=1", .no_gradient = true},
        {.inputs = {"1,3,23,21", "24,3,11,11"}, .attributes = "stride=4 padding=2", .no_gradient = true},
        {.inputs = {"1,3,11,9", "16,3,3,3"}, .attributes = "dilation=2", .no_gradient = true},
        {.inputs = {"3,1,12,12", "32,1,3,3"}, .smallest = true}, {.inputs = {"1,93,7,7", "33,93,3,3"}},
        {.inputs = {"2,20,6,6", "12,20,1,1"}, .smallest = true},
        {.inputs = {"5,16,17,9", "32,16,3,3"}, .attributes = "padding=1", .no_gradient = true},
        {.inputs = {"1,16,5,11", "80,16,3,3"}, .attributes = "padding=2,0", .no_gradient = true},
        {.inputs = {"1,144,6,3", "16,144,3,3"}, .attributes = "padding=0,2,1,0", .no_gradient = true},
        {.inputs = {"1,48,7,5", "48,24,1,1"}, .attributes = "groups=2", .no_gradient = true},
        {.inputs = {"1,16,33,32", "192,16,1,1"}, .no_gradient = true}, {.inputs = {"0,3,5,5", "2,3,3,3"}},
        {.inputs = {"1,0,5,5", "16,0,3,3"}, .no_gradient = true},
        {.inputs = {"1,2,5,5", "3,2,3,3"}, .ranges = {"special"}, .no_gradient = true}));

KN_OPERATOR(
    conv2d_data, .help = "gradient of conv2d with respect to its data; also used for transposed convolutions",
    .backward = true, KN_ATTRIBUTES(WINDOW, KN_DIMS("size", "", "height and width of the data")),
    .min_inputs = 2, .max_inputs = 2, .input_names = {"dy", "weight"}, .output_names = {"dx"},
    .at_sizes = kn_conv_transposed_at_sizes, .shape = data_shape, .wrong = gradient_wrong,
    .gradient = data_gradient, .reference = kn_conv_reference, .cost = kn_conv_cost,
    SWEEPS(data_sizes, GROUPED_PADDED, NONE, NONE),
    KN_CASES(
        {.inputs = {"2,3,3,2", "3,2,3,3"}, .attributes = "size=5,4", .smallest = true},
        {.inputs = {"2,6,5,5", "6,1,3,3"},
         .attributes = "stride=2 padding=1 groups=6 size=9,9",
         .no_gradient = true,
         .smallest = true},
        {.inputs = {"2,16,4,3", "16,1,3,3"},
         .attributes = "stride=2 padding=1 groups=16 size=7,6",
         .smallest = true},
        {.inputs = {"2,16,5,33", "16,1,3,3"},
         .attributes = "padding=1 groups=16 size=5,33",
         .no_gradient = true},
        {.inputs = {"1,32,3,15", "32,1,2,5"},
         .attributes = "stride=3,2 padding=1,3 dilation=2,3 groups=32 size=8,36",
         .no_gradient = true},
        {.inputs = {"2,5,4,3", "5,16,3,3"},
         .attributes = "stride=2 padding=1 size=7,5",
         .no_gradient = true,
         .smallest = true},
        {.inputs = {"1,6,4,5", "6,2,3,2"},
         .no_gradient = true,
         .smallest = true,
         .attributes = "stride=2 padding=2 dilation=2 groups=2 size=7,6"},
        /* Groups that fill no vectors. */
        {.inputs = {"2,32,6,15", "32,4,3,3"},
         .attributes = "padding=1 groups=8 size=6,15",
         .no_gradient = true,
         .smallest = true},
        {.inputs = {"1,32,5,5", "32,2,3,3"},
         .attributes = "stride=2 padding=1 groups=16 size=9,10",
         .no_gradient = true},
        {.inputs = {"2,16,5,65", "16,8,3,3"},
         .attributes = "padding=1 groups=2 size=5,65",
         .no_gradient = true},
        {.inputs = {"1,32,7,4", "32,12,3,2"},
         .attributes = "stride=1,2 padding=2,0,1,3 groups=4 size=6,5",
         .no_gradient = true},
        {.inputs = {"1,48,6,9", "48,2,3,3"},
         .attributes = "stride=2,3 padding=3 dilation=2 groups=16 size=9,23",
         .no_gradient = true},
        {.inputs = {"1,48,4,37", "48,24,2,3"},
         .attributes = "padding=1 groups=2 size=3,37",
         .no_gradient = true},
        {.inputs = {"2,15,5,9", "15,4,3,3"},
         .attributes = "padding=1 groups=3 size=5,9",
         .no_gradient = true,
         .smallest = true},
        {.inputs = {"2,20,6,8", "20,1,3,3"},
         .attributes = "padding=1 groups=20 size=6,8",
         .no_gradient = true},
        {.inputs = {"2,16,7,7", "16,16,3,3"},
         .attributes = "padding=1 size=7,7",
         .no_gradient = true,
         .smallest = true},
        {.inputs = {"2,33,7,9", "33,31,3,3"}, .attributes = "padding=1 size=7,9", .no_gradient = true},
        {.inputs = {"1,48,5,7", "48,32,3,3"}, .attributes = "stride=2 padding=1 size=9,14"},
        {.inputs = {"5,32,17,9", "32,16,3,3"}, .attributes = "padding=1 size=17,9", .no_gradient = true},
        {.inputs = {"1,16,7,9", "16,80,3,3"}, .attributes = "padding=2,0 size=5,11", .no_gradient = true},
        {.inputs = {"1,144,5,3", "144,16,3,3"},
         .attributes = "padding=0,2,1,0 size=6,3",
         .no_gradient = true},
        {.inputs = {"1,2,4,3", "2,64,3,3"},
         .attributes = "padding=1 groups=2 size=4,3",
         .no_gradient = true,
         .smallest = true},
        {.inputs = {"1,128,3,2", "128,64,3,3"}, .attributes = "padding=1 size=3,2", .no_gradient = true},
        {.inputs = {"2,32,5,7", "32,21,1,1"}, .attributes = "size=5,7", .no_gradient = true},
        {.inputs = {"1,2,4,4", "2,3,1,1"}, .attributes = "stride=2 size=8,7", .no_gradient = true}));

KN_OPERATOR(
    conv2d_weight, .help = "gradient of conv2d with respect to its filters", .backward = true,
    KN_ATTRIBUTES(WINDOW, KN_INTS("size", "", "height and width of the filters")), .min_inputs = 2,
    .max_inputs = 2, .input_names = {"dy", "x"}, .output_names = {"dw"}, .shape = weight_shape,
    .wrong = gradient_wrong, .reference = kn_conv_reference, .cost = kn_conv_cost,
    KN_VARIANTS(WINOGRAD("winograd4", 4, .promise.inputs = BOTH_BLOCKED),
                WINOGRAD("winograd2", 2, .promise.inputs = BOTH_BLOCKED),
                DEPTHWISE_WIDE(.promise.inputs = BOTH_BLOCKED), GROUPED(, 0, .promise.inputs = BOTH_BLOCKED),
                GROUPED(_padded, KN_CONV_PADDED, .promise.takes_epilogue = false),
                {.name = "depthwise",
                 .choice.accepts = kn_conv_depthwise_accepts,
                 .lower = kn_conv_depthwise_lower,
                 .promise.halves = {3, 0}},
                WIDE(, 0, .promise.inputs = BOTH_BLOCKED),
                WIDE(_first, KN_CONV_PLAIN, .promise.inputs = {KN_LAYOUT_BLOCKED}),
                WIDE(_last, KN_CONV_PADDED, .promise.inputs = {KN_LAYOUT_PLAIN, KN_LAYOUT_BLOCKED}),
                WIDE(_padded, KN_CONV_PLAIN | KN_CONV_PADDED, .promise.inputs = {KN_LAYOUT_PLAIN}),
                WINOGRAD_TILED("winograd4_tiled", 4, weight_sizes, .promise.inputs = {KN_LAYOUT_PLAIN}),
                WINOGRAD_TILED("winograd2_tiled", 2, weight_sizes, .promise.inputs = {KN_LAYOUT_PLAIN}),
                BLOCKED(BOTH_BLOCKED, {KN_LAYOUT_PLAIN}), IMPLICIT(weight_sizes), PLAIN),
    KN_CASES(
        {.inputs = {"2,3,3,2", "2,2,5,4"}, .attributes = "size=3,3", .no_gradient = true, .smallest = true},
        {.inputs = {"2,6,5,5", "2,6,9,9"},
         .attributes = "stride=2 padding=1 groups=6 size=3,3",
         .no_gradient = true,
         .smallest = true},
        {.inputs = {"2,16,4,3", "2,16,7,6"},
         .attributes = "stride=2 padding=1 groups=16 size=3,3",
         .no_gradient = true,
         .smallest = true},
        {.inputs = {"2,16,5,33", "2,16,5,33"},
         .attributes = "padding=1 groups=16 size=3,3",
         .no_gradient = true},
        {.inputs = {"2,21,5,7", "2,16,5,7"}, .attributes = "size=1,1", .no_gradient = true},
        {.inputs = {"1,32,3,15", "1,32,8,36"},
         .attributes = "stride=3,2 padding=1,3 dilation=2,3 groups=32 size=2,5",
         .no_gradient = true},
        {.inputs = {"93,5,4,3", "93,5,7,6"},
         .attributes = "stride=2 padding=1 groups=5 size=3,3",
         .no_gradient = true},
        {.inputs = {"33,32,7,7", "33,32,7,7"},
         .attributes = "padding=1 groups=32 size=3,3",
         .no_gradient = true},
        {.inputs = {"1,6,4,5", "1,4,7,6"},
         .no_gradient = true,
         .smallest = true,
         .attributes = "stride=2 padding=2 dilation=2 groups=2 size=3,2"},
        /* Groups that fill no vectors. */
        {.inputs = {"2,32,6,15", "2,32,6,15"},
         .attributes = "padding=1 groups=8 size=3,3",
         .no_gradient = true,
         .smallest = true},
        {.inputs = {"1,32,5,5", "1,32,9,10"},
         .attributes = "stride=2 padding=1 groups=16 size=3,3",
         .no_gradient = true},
        {.inputs = {"2,16,5,65", "2,16,5,65"},
         .attributes = "padding=1 groups=2 size=3,3",
         .no_gradient = true},
        {.inputs = {"1,32,7,4", "1,48,6,5"},
         .attributes = "stride=1,2 padding=2,0,1,3 groups=4 size=3,2",
         .no_gradient = true},
        {.inputs = {"1,48,6,9", "1,32,9,23"},
         .attributes = "stride=2,3 padding=3 dilation=2 groups=16 size=3,3",
         .no_gradient = true},
        {.inputs = {"1,48,4,37", "1,48,3,37"},
         .attributes = "padding=1 groups=2 size=2,3",
         .no_gradient = true},
        {.inputs = {"2,15,5,9", "2,12,5,9"},
         .attributes = "padding=1 groups=3 size=3,3",
         .no_gradient = true,
         .smallest = true},
        {.inputs = {"150,20,6,8", "150,20,6,8"},
         .attributes = "padding=1 groups=20 size=3,3",
         .no_gradient = true},
        {.inputs = {"2,16,7,7", "2,16,7,7"},
         .attributes = "padding=1 size=3,3",
         .no_gradient = true,
         .smallest = true},
        {.inputs = {"3,32,10,10", "3,1,12,12"},
         .attributes = "size=3,3",
         .no_gradient = true,
         .smallest = true},
        {.inputs = {"33,32,10,10", "33,3,12,12"}, .attributes = "size=3,3", .no_gradient = true},
        {.inputs = {"7,33,13,11", "7,31,13,11"}, .attributes = "padding=1 size=3,3", .no_gradient = true},
        {.inputs = {"2,48,5,7", "2,32,9,14"},
         .attributes = "stride=2 padding=1 size=3,3",
         .no_gradient = true},
        {.inputs = {"0,2,3,3", "0,3,5,5"}, .attributes = "size=3,3", .no_gradient = true},
        {.inputs = {"5,32,9,17", "5,16,9,17"}, .attributes = "padding=1 size=3,3", .no_gradient = true},
        {.inputs = {"2,80,7,11", "2,16,5,13"}, .attributes = "padding=2,0 size=3,3", .no_gradient = true},
        {.inputs = {"150,16,8,8", "150,32,9,7"},
         .attributes = "padding=0,1,1,2 size=3,3",
         .no_gradient = true},
        {.inputs = {"33,32,9,9", "33,16,9,9"}, .attributes = "padding=1 size=3,3", .no_gradient = true}));
