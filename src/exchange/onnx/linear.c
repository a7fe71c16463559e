/* Determinants and inverses of small matrices, by elimination with the largest element of a column as the
 * pivot. Each column becomes a few nodes. */
#include "exchange/onnx/import.h"

enum { MAX_COLUMNS = 32 };

/* Reshapes x (…,n,n) to (B,n,n); *columns is n. */
static kn_value *matrices(kn_import_call *call, kn_value *x, int64_t *columns) {
    kn_dim dims[3] = {1, 0, 0};
    const int rank = x->shape.rank;
    if (rank < 2 || x->shape.dims[rank - 1] != x->shape.dims[rank - 2])
        return kn_import_reject(call, KN_ERROR_SHAPE, "expected square matrices (…,n,n)");
    dims[1] = dims[2] = *columns = x->shape.dims[rank - 1];
    if (!kn_dim_known(dims[1]) || dims[1] < 1 || dims[1] > MAX_COLUMNS)
        return kn_import_reject(call, KN_ERROR_UNSUPPORTED, "the matrices have %s columns; expected 1 to %d",
                                kn_import_dims_text(call->import, &dims[1], 1), MAX_COLUMNS);
    for (int i = 0; i < rank - 2; i++)
        dims[0] = kn_dim_multiply(call->graph, dims[0], x->shape.dims[i]);
    return kn_import_reshape(call->import, x, dims, 3);
}

/* a is (B,rows,columns). Swaps row `first` with the row, from `first` on, that has the largest element in
 * column `first`. *moved (B,1), bool: the rows differ. */
static kn_value *pivoted(kn_import *import, kn_value *a, int64_t first, kn_value **moved) {
    const kn_dim rows = a->shape.dims[1];
    kn_value *column = kn_abs(kn_slice(kn_slice(a, 1, first, INT64_MAX), 2, first, first + 1));
    kn_value *start = kn_import_scalar(import, KN_INT32, (double)first);
    kn_value *largest = kn_add(kn_squeeze(kn_argmax(column, 1, false), "1"), start); /* (B) */
    largest = kn_unsqueeze(largest, "1");
    kn_value *row = kn_import_range(import, rows);
    kn_value *order =
        kn_where(kn_equal(row, start), largest, kn_where(kn_equal(row, largest), start, row)); /* (B,rows) */
    *moved = kn_not_equal(largest, start);
    return kn_gather_nd_batches(a, kn_unsqueeze(order, "2"), 1);
}

static kn_status determinant(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *product = NULL, *moved;
    kn_import *import = call->import;
    int64_t columns = 0;
    kn_value *a = matrices(call, x, &columns);
    const kn_shape shape = x->shape;
    if (kn_import_status(call) != KN_OK) return kn_import_status(call);
    kn_value *one = kn_import_scalar(import, shape.dtype, 1),
             *minus = kn_import_scalar(import, shape.dtype, -1);
    kn_value *zero = kn_import_scalar(import, shape.dtype, 0);
    for (int64_t left = columns; left > 0; left--) {
        if (left > 1) a = pivoted(import, a, 0, &moved);
        kn_value *row = kn_slice(a, 1, 0, 1), *pivot = kn_slice(row, 2, 0, 1); /* (B,1,1) */
        product = product ? kn_mul(product, pivot) : pivot;
        if (left == 1) break;
        product = kn_mul(product, kn_unsqueeze(kn_where(moved, minus, one), "2"));
        kn_value *factors = kn_slice(kn_slice(a, 1, 1, INT64_MAX), 2, 0, 1);
        factors = kn_div(factors, kn_where(kn_equal(pivot, zero), one, pivot));
        a = kn_sub(kn_slice(kn_slice(a, 1, 1, INT64_MAX), 2, 1, INT64_MAX),
                   kn_mul(factors, kn_slice(row, 2, 1, INT64_MAX)));
    }
    return kn_import_put(call, 0, kn_import_reshape(import, product, shape.dims, shape.rank - 2));
}

/* [x | 1] becomes [1 | inverse of x]. */
static kn_status inverse(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *moved;
    kn_import *import = call->import;
    int64_t columns = 0;
    kn_value *a = matrices(call, x, &columns);
    const kn_shape shape = x->shape;
    kn_value *positions = kn_import_range(import, columns), *lines = kn_unsqueeze(positions, "1");
    kn_value *unit = kn_import_cast(kn_equal(lines, positions), shape.dtype);
    unit = kn_import_broadcast(import, unit, a->shape.dims, 3);
    a = kn_concat((kn_value *[]){a, unit}, 2, 2);
    for (int64_t k = 0; k < columns; k++) {
        if (k + 1 < columns) a = pivoted(import, a, k, &moved);
        kn_value *row = kn_slice(a, 1, k, k + 1), *column = kn_slice(a, 2, k, k + 1);
        row = kn_div(row, kn_slice(row, 2, k, k + 1));
        kn_value *here = kn_equal(lines, kn_import_scalar(import, KN_INT32, (double)k));
        column = kn_sub(column, kn_import_cast(here, shape.dtype)); /* leaves the pivot row unchanged */
        a = kn_sub(a, kn_mul(column, row));
    }
    a = kn_slice(a, 2, columns, INT64_MAX);
    return kn_import_put(call, 0, kn_import_reshape(import, a, shape.dims, shape.rank));
}

const kn_import_row kn_import_linear[] = {
    {.type = "Det", .build = determinant},
    KN_OF_MICROSOFT("Inverse", inverse),
};
const int kn_import_linear_count = (int)KN_COUNT_OF(kn_import_linear);
