/* What the files of the ops room share. */
#ifndef KN_OPS_PRIVATE_H
#define KN_OPS_PRIVATE_H

#include "ops/ops.h"

/* A row is a constant called kn_row_NAME, listed in table.c:
 *   KN_POINTWISE(neg, .help = "-x", .value = "-x", .by = {"-g"}, KN_UNARY_CASES);  */
#define KN_OPERATOR(row, ...) const kn_operator kn_row_##row = {.name = #row, __VA_ARGS__}
#define KN_POINTWISE(row, ...) KN_OPERATOR(row, .class = KN_CLASS_POINTWISE, __VA_ARGS__)

/* ---- shape rules (common.c) ------------------------------------------------------------------ */

/* Fails with "OPERATOR 'NAME': " before the text. */
kn_status kn_shape_fail(const kn_shape_call *call, kn_status status, const char *format, ...) KN_PRINTF(3, 4);
/* The shape of an input in words, for messages. */
const char *kn_shape_words_of(const kn_shape_call *call, int input);
/* The value of a row's attribute, for reading and for completing. One that the row has not fails the node,
 * with its name and those that there are, whatever the rule answers. */
kn_attribute_value *kn_shape_attribute(const kn_shape_call *call, const char *name);
/* Reads an axis of a value of rank `rank`; negative ones count from the end. */
kn_status kn_shape_axis(kn_shape_call *call, int64_t number, int rank, int *axis);
kn_status kn_shape_float_input(kn_shape_call *call, int input);
/* Output 0 is like input 0. */
kn_status kn_shape_like_first(kn_shape_call *call);
/* Fails unless an input, where it is there, is int32 (B) or (1), B being the first dimension of the first. */
kn_status kn_shape_starts(kn_shape_call *call, int input);

/* ---- bound graphs (common.c) ------------------------------------------------------------------ */

/* All dimensions are numbers there. */
static inline int64_t kn_elements_of(const kn_value *value) {
    return kn_shape_elements(&value->shape);
}
/* The type that sums of `dtype` are kept in by this node. */
kn_dtype kn_accumulator(const kn_node *node, kn_dtype dtype);
/* The smallest power of two that is at least `number` and at most `limit`, itself a power of two. */
size_t kn_power_of_two(int64_t number, size_t limit);
/* Work-items of a group where many threads share local memory: a power of two, at most 256. */
size_t kn_group_items(const kn_target *target);
/* `flops`, and the bytes of all inputs and outputs. */
void kn_cost_set(const kn_node *node, double flops, kn_cost *cost);

/* ---- what variants accept (common.c) ---------------------------------------------------------- */

/* The types that most kernels with sums are written for. */
static inline bool kn_has_kernels(kn_dtype dtype) {
    return dtype == KN_FLOAT32 || dtype == KN_FLOAT64;
}
bool kn_on_wide_vector(const kn_target *target, const kn_node *node);
bool kn_on_many_threads(const kn_target *target, const kn_node *node);
/* A result of one of these types, on any device, and where it is for wide vectors. */
bool kn_takes_kernel_types(const kn_target *target, const kn_node *node);
bool kn_takes_kernel_types_wide(const kn_target *target, const kn_node *node);
/* The same for kernels that compute with any type as it is stored: all but the halves. */
bool kn_takes_stored_types(const kn_target *target, const kn_node *node);
bool kn_takes_stored_types_wide(const kn_target *target, const kn_node *node);

/* KN_NARROW for a kernel of which an input may have 16 bits (common/narrow.cl). */
void kn_step_narrow(kn_step *step, const kn_value *input);

/* ---- building (common.c) ----------------------------------------------------------------------- */

/* A list of attributes of `row`, from its defaults; set one by name. */
typedef struct kn_settings {
    const kn_operator *row;
    kn_attribute_value values[KN_MAX_ATTRIBUTES];
    const char *unknown; /* a name that the row has not, which fails what is built with them; NULL: none */
} kn_settings;
void kn_settings_init(kn_settings *settings, kn_graph *graph, const kn_operator *row);
void kn_settings_int(kn_settings *settings, const char *name, int64_t number);
void kn_settings_float(kn_settings *settings, const char *name, double number);
void kn_settings_list(kn_settings *settings, const char *name, int count, const kn_dim *numbers);
/* All that the node's row calls by the same names, as the node has it. */
void kn_settings_copy(kn_settings *settings, const kn_node *node);

/* A node of the given inputs; failed or NULL values give a failed value (NULL if there is no graph to ask).
 * settings NULL: defaults. */
kn_value *kn_build(const kn_operator *row, kn_value *const *inputs, int count, const kn_settings *settings);
kn_value *kn_build1(const kn_operator *row, kn_value *x);
kn_value *kn_build2(const kn_operator *row, kn_value *x, kn_value *y);
/* One input and one attribute that is a number. */
kn_value *kn_build_number(const kn_operator *row, kn_value *x, const char *attribute, double number);
/* One number `count` times, (count). */
kn_value *kn_filled(kn_graph *graph, kn_dtype dtype, int64_t count, double number); /* norm/layers.c */
/* Whole numbers from a text such as "0,-1"; NULL and "" have none. Answers how many, -1 after a failure. */
int kn_read_integers(kn_graph *graph, const kn_operator *row, const char *text, int most, kn_dim *numbers);
/* A node of a gradient rule. */
kn_value *kn_gradient_build(kn_gradient_call *call, const kn_operator *row, kn_value *const *inputs,
                            int count, const kn_settings *settings);
/* x under another shape of as many elements, all numbers. Answers x itself if that is its shape. */
kn_value *kn_gradient_reshape(kn_gradient_call *call, kn_value *x, const kn_shape *shape);
kn_value *kn_gradient_cast(kn_gradient_call *call, kn_value *x, kn_dtype dtype);
/* x repeated along its axes of size 1 (and before its first) to the given shape. */
kn_value *kn_gradient_broadcast(kn_gradient_call *call, kn_value *x, const kn_shape *shape);
/* KN_OK, or what the graph failed with. */
kn_status kn_gradient_status(kn_gradient_call *call);

/* ---- what follows a small table (gather/embedding.c): of matmul and add, as kn_operator tells of at_sizes
 * --------- */

kn_status kn_product_of_table(kn_graph *bound, const kn_node *node, kn_value *const *inputs,
                              kn_value **results);
kn_status kn_sum_of_table(kn_graph *bound, const kn_node *node, kn_value *const *inputs, kn_value **results);

/* ---- reductions (reduce/lowering.c) -------------------------------------------------------------- */

typedef enum kn_reduce_kind { KN_REDUCE_SUM, KN_REDUCE_MAX, KN_REDUCE_MIN } kn_reduce_kind;

/* result = sum, max or min of the source over the axes marked `reduced`; with `divide` over `divisor`. */
typedef struct kn_reduction {
    kn_reduce_kind kind;
    bool divide;
    int64_t divisor;
    kn_value *source; /* NULL: scratch memory holds it, as numbers of type dtype */
    int scratch;
    kn_dtype dtype;
    int rank;
    int64_t dims[KN_MAX_RANK];
    bool reduced[KN_MAX_RANK];
} kn_reduction;
/* Emits the steps that write it to lowering->result. */
kn_status kn_emit_reduction(kn_lowering *lowering, const kn_reduction *reduction, bool wide);

/* ---- moves of elements (shape/copy.c) --------------------------------------------------------- */

/* Element (i0, i1, …) of `sizes` goes from the one place to the other. */
typedef struct kn_strided_copy {
    kn_value *from, *to;
    bool partial; /* other steps write the rest of `to` */
    int rank;
    int64_t from_offset, to_offset;
    int64_t sizes[KN_MAX_RANK], from_strides[KN_MAX_RANK], to_strides[KN_MAX_RANK];
} kn_strided_copy;
kn_status kn_emit_strided_copy(kn_lowering *lowering, const kn_strided_copy *copy, bool wide);
/* The node's input with `before[i]` elements before axis i, filled up to its output with `value`. */
kn_status kn_emit_pad(kn_lowering *lowering, const int64_t *before, double value, bool wide);

/* Positions in a row-major array, all of whose dimensions are numbers (shape/move.c). */
int64_t kn_position_of(const kn_shape *shape, const int64_t *place);
void kn_place_of(const kn_shape *shape, int64_t position, int64_t *place);
void kn_row_strides(const kn_shape *shape, int64_t *strides);

/* An array seen from one of its axes: (outer,size,inner). */
typedef struct kn_lanes {
    int64_t outer, size, inner;
} kn_lanes;
kn_lanes kn_lanes_of(const kn_shape *shape, int axis);
/* The node's attribute "axis" in a value of rank `rank`. */
int kn_axis_of(const kn_node *node, int rank);

/* ---- cases shared by rows ------------------------------------------------------------------------ */

/* Of one input: odd sizes, nothing at all, and numbers that are not finite. */
#define KN_UNARY_CASES_IN(range)                                                                             \
    KN_CASES({.inputs = {"7"}, .ranges = {range}, .smallest = true},                                         \
             {.inputs = {"31,33"}, .ranges = {range}}, {.inputs = {"3,1,93"}, .ranges = {range}},            \
             {.inputs = {""}, .ranges = {range}}, {.inputs = {"0,5"}},                                       \
             {.inputs = {"2,33"}, .ranges = {"special"}, .no_gradient = true})
#define KN_UNARY_CASES KN_UNARY_CASES_IN(NULL)
/* Of two: the same shape, and the ways to broadcast. */
#define KN_BINARY_CASES_IN(x, y)                                                                             \
    KN_CASES({.inputs = {"7", "7"}, .ranges = {x, y}, .smallest = true},                                     \
             {.inputs = {"31,33", "33"}, .ranges = {x, y}}, {.inputs = {"3,1,7", "5,1"}, .ranges = {x, y}},  \
             {.inputs = {"", "3,93"}, .ranges = {x, y}}, {.inputs = {"2,3,7,5", "3,1,1"}, .ranges = {x, y}}, \
             {.inputs = {"0,5", "5"}},                                                                       \
             {.inputs = {"2,31", "2,31"}, .ranges = {"special", "special"}, .no_gradient = true})
#define KN_BINARY_CASES KN_BINARY_CASES_IN(NULL, NULL)

/* ---- builders that builders use (shape/build.c) ------------------------------------------------------ */

/* x under another shape, which may have symbols and one -1. */
kn_value *kn_reshape_to(kn_value *x, int rank, const kn_dim *dims);
/* The same as a layer, or as a part of one, of that name; NULL: one of its own. */
kn_value *kn_reshape_named(kn_value *x, int rank, const kn_dim *dims, const char *name);
kn_value *kn_broadcast_to(kn_value *x, int rank, const kn_dim *dims);
/* Axis i of the result is axis order[i] of x. x itself where that changes nothing. */
kn_value *kn_permute(kn_value *x, const int *order);
/* An axis of a caller's, made positive; false after telling the graph. */
bool kn_take_axis(kn_graph *graph, const char *builder, int64_t axis, int rank, int *taken);
kn_value *kn_whole(kn_graph *graph, int32_t number); /* an int32 scalar */
/* 0, 1, … as int32 along `axis` of `rank` axes, the others of size 1. */
kn_value *kn_counted(kn_graph *graph, int64_t count, int axis, int rank);

/* ---- rows that other files build with ---------------------------------------------------------------- */

extern const kn_operator kn_row_add, kn_row_sub, kn_row_mul, kn_row_div, kn_row_neg, kn_row_scale,
    kn_row_equal, kn_row_cast;
extern const kn_operator kn_row_sum, kn_row_mean, kn_row_reshape, kn_row_broadcast, kn_row_slice, kn_row_pad,
    kn_row_transpose, kn_row_concat, kn_row_flatten, kn_row_flip, kn_row_matmul;

#endif
