/* Copies of elements between arrays, and builders that change shapes. */
#ifndef KN_OPS_SHAPE_H
#define KN_OPS_SHAPE_H

#include "ops/row.h"

extern const kn_operator kn_row_reshape, kn_row_broadcast, kn_row_slice, kn_row_pad, kn_row_transpose,
    kn_row_concat, kn_row_flatten, kn_row_flip;

/* ---- lowering (copy.c) ------------------------------------------------------------------------------ */

/* Copies element (i0, i1, …) of `sizes` from one array to another. */
typedef struct kn_strided_copy {
    kn_value *from, *to;
    bool partial; /* other steps write the other elements of `to` */
    bool plain;   /* without tiles in local memory when axes are swapped */
    int rank;
    int64_t from_offset, to_offset;
    int64_t sizes[KN_MAX_RANK], from_strides[KN_MAX_RANK], to_strides[KN_MAX_RANK];
} kn_strided_copy;
kn_status kn_emit_strided_copy(kn_lowering *lowering, const kn_strided_copy *copy);
/* The unsigned OpenCL type with the size of an element, for kernels that only move elements. */
const char *kn_bits_type(kn_dtype dtype);
/* Emits the node's input with `before[i]` elements before axis i, padded to the shape of its output with
 * `value`. */
kn_status kn_emit_pad(kn_lowering *lowering, const int64_t *before, double value, bool wide);

/* Positions in a row-major array, all of whose dimensions are numbers (move.c). */
int64_t kn_position_of(const kn_shape *shape, const int64_t *place);
void kn_place_of(const kn_shape *shape, int64_t position, int64_t *place);
void kn_row_strides(const kn_shape *shape, int64_t *strides);

/* ---- builders (build.c) ----------------------------------------------------------------------------- */

/* x in another shape, which may have symbols and one -1. */
kn_value *kn_reshape_to(kn_value *x, int rank, const kn_dim *dims);
/* The same with a name, for a layer or a part of it; NULL: a generated name. */
kn_value *kn_reshape_named(kn_value *x, int rank, const kn_dim *dims, const char *name);
kn_value *kn_broadcast_to(kn_value *x, int rank, const kn_dim *dims);
/* Axis i of the result is axis order[i] of x. Returns x if that changes nothing. */
kn_value *kn_permute(kn_value *x, const int *order);
/* A caller's axis, made non-negative; fails the graph and returns false if it does not exist. */
bool kn_take_axis(kn_graph *graph, const char *builder, int64_t axis, int rank, int *taken);
kn_value *kn_int_scalar(kn_graph *graph, int32_t number); /* an int32 scalar */
/* 0, 1, … as int32 along `axis` of `rank` axes; other axes have size 1. */
kn_value *kn_iota(kn_graph *graph, int64_t count, int axis, int rank);

#endif
