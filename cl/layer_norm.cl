/* Layer norm and RMS norm of the rows of x (rows,count), and their gradients.
 *
 *   KN_CENTERED  1  1: (x - mean) / sqrt(variance + epsilon); 0: x / sqrt(mean of squares + epsilon)
 *   KN_BIAS      1  1: the bias is added
 *   KN_T     float  type of the arrays        KN_A  float  type of the computation
 *   KN_INDEX   int  type of indices
 *   KN_WIDTH     0  0: many threads (defines of common/lanes.cl); lanes of a vector (4, 8, 16): few work-items
 *
 *   kn_layer_norm(x, weight, bias, y, mean, inverse, rows, count, epsilon, share)
 *   kn_layer_norm_gradient(x, dy, weight, mean, inverse, dx, shares, rows, count, share)
 *   kn_layer_norm_parts(x, dy, mean, inverse, shares, rows, count, part)     many threads only
 *   kn_layer_norm_join(shares, dweight, dbias, parts, count, share)
 * weight, bias and their gradients are (count), mean and inverse, 1 / sqrt(…), (rows). The gradients of weight and
 * bias are first added up for each part of the rows, in shares (parts,2,count), then part by part in order. Few
 * work-items: item i of kn_layer_norm has `share` rows, of kn_layer_norm_gradient it has part i and leaves its
 * shares, of kn_layer_norm_join `share` columns. Many: groups of KN_ITEMS, KN_SLOTS rows each; one item per column
 * in the others, whose second number of kn_layer_norm_parts is the part. Without KN_CENTERED mean is not touched;
 * dbias may be NULL. */
#ifndef KN_CENTERED
#define KN_CENTERED 1
#endif
#ifndef KN_BIAS
#define KN_BIAS 1
#endif
#ifndef KN_T
#define KN_T float
#endif
#ifndef KN_A
#define KN_A float
#endif
#ifndef KN_INDEX
#define KN_INDEX int
#endif
#ifndef KN_WIDTH
#define KN_WIDTH 0
#endif

#if KN_CENTERED
#define KN_MEAN_OF(row) ((KN_A)mean[row])
#else
#define KN_MEAN_OF(row) ((KN_A)0)
#endif

#if KN_WIDTH == 0

#include "common/lanes.cl"

KN_TREE(kn_tree_sum, KN_SUM_OF)

KN_WORK_GROUP kernel void kn_layer_norm(global const KN_T *restrict x, global const KN_T *restrict weight,
                                        global const KN_T *restrict bias, global KN_T *restrict y,
                                        global KN_T *restrict mean, global KN_T *restrict inverse,
                                        const KN_INDEX rows, const KN_INDEX count, const float epsilon,
                                        const KN_INDEX share) {
    local KN_A scratch[KN_ITEMS];
    const int lane = KN_LANE, slot = KN_SLOT;
    const KN_INDEX row = (KN_INDEX)get_group_id(0) * KN_SLOTS + slot;
    const KN_INDEX length = row < rows ? count : 0, start = row < rows ? row * count : 0;
    KN_A middle = 0, squares = 0;
#if KN_CENTERED
    for (KN_INDEX i = lane; i < length; i += KN_LANES)
        middle += (KN_A)x[start + i];
    middle = kn_tree_sum(scratch, slot, lane, middle) / (KN_A)count;
#endif
    for (KN_INDEX i = lane; i < length; i += KN_LANES) {
        const KN_A apart = (KN_A)x[start + i] - middle;
        squares += apart * apart;
    }
    squares = kn_tree_sum(scratch, slot, lane, squares) / (KN_A)count;
    const KN_A factor = 1 / sqrt(squares + epsilon);
    for (KN_INDEX i = lane; i < length; i += KN_LANES) {
        KN_A result = ((KN_A)x[start + i] - middle) * factor * (KN_A)weight[i];
#if KN_BIAS
        result += (KN_A)bias[i];
#endif
        y[start + i] = (KN_T)result;
    }
    if (row < rows && lane == 0) {
#if KN_CENTERED
        mean[row] = (KN_T)middle;
#endif
        inverse[row] = (KN_T)factor;
    }
}

KN_WORK_GROUP kernel void kn_layer_norm_gradient(global const KN_T *restrict x, global const KN_T *restrict dy,
                                                 global const KN_T *restrict weight,
                                                 global const KN_T *restrict mean,
                                                 global const KN_T *restrict inverse, global KN_T *restrict dx,
                                                 global KN_A *restrict shares, const KN_INDEX rows,
                                                 const KN_INDEX count, const KN_INDEX share) {
    local KN_A scratch[KN_ITEMS];
    const int lane = KN_LANE, slot = KN_SLOT;
    const KN_INDEX row = (KN_INDEX)get_group_id(0) * KN_SLOTS + slot;
    const KN_INDEX length = row < rows ? count : 0, start = row < rows ? row * count : 0;
    const KN_A middle = row < rows ? KN_MEAN_OF(row) : 0, factor = row < rows ? (KN_A)inverse[row] : 0;
    KN_A sum = 0, product = 0;
    for (KN_INDEX i = lane; i < length; i += KN_LANES) {
        const KN_A slope = (KN_A)dy[start + i] * (KN_A)weight[i];
        sum += slope;
        product += slope * (((KN_A)x[start + i] - middle) * factor);
    }
#if KN_CENTERED
    sum = kn_tree_sum(scratch, slot, lane, sum) / (KN_A)count;
#else
    sum = 0;
#endif
    product = kn_tree_sum(scratch, slot, lane, product) / (KN_A)count;
    for (KN_INDEX i = lane; i < length; i += KN_LANES) {
        const KN_A normal = ((KN_A)x[start + i] - middle) * factor;
        dx[start + i] = (KN_T)(factor * ((KN_A)dy[start + i] * (KN_A)weight[i] - sum - normal * product));
    }
}

KN_WORK_GROUP kernel void kn_layer_norm_parts(global const KN_T *restrict x, global const KN_T *restrict dy,
                                              global const KN_T *restrict mean,
                                              global const KN_T *restrict inverse,
                                              global KN_A *restrict shares, const KN_INDEX rows,
                                              const KN_INDEX count, const KN_INDEX part) {
    const KN_INDEX column = get_global_id(0), number = get_group_id(1);
    const KN_INDEX first = number * part, end = min(first + part, rows);
    if (column >= count) return;
    KN_A product = 0, sum = 0;
    for (KN_INDEX row = first; row < end; row++) {
        const KN_A slope = (KN_A)dy[row * count + column];
        sum += slope;
        product += slope * (((KN_A)x[row * count + column] - KN_MEAN_OF(row)) * (KN_A)inverse[row]);
    }
    shares[number * 2 * count + column] = product;
    shares[(number * 2 + 1) * count + column] = sum;
}

KN_WORK_GROUP kernel void kn_layer_norm_join(global const KN_A *restrict shares, global KN_T *restrict dweight,
                                             global KN_T *restrict dbias, const KN_INDEX parts,
                                             const KN_INDEX count, const KN_INDEX share) {
    const KN_INDEX column = get_global_id(0);
    if (column >= count) return;
    KN_A product = 0, sum = 0;
    for (KN_INDEX part = 0; part < parts; part++) {
        product += shares[part * 2 * count + column];
        sum += shares[(part * 2 + 1) * count + column];
    }
    dweight[column] = (KN_T)product;
    if (dbias) dbias[column] = (KN_T)sum;
}

#else

#include "common/wide_rows.cl"

#define KN_LOAD_ONE(p) ((KN_A)(*(p)))
#define KN_STORE_ONE(v, p) (*(p) = (KN_T)(v))
#define KN_ADD_ONE(v, p) (*(p) += (v))
#define KN_ADD_VECTOR(v, p)                                                                                  \
    KN_PASTE(vstore, KN_WIDTH)(KN_PASTE(vload, KN_WIDTH)(0, p) + (v), 0, p)
/* X for whole vectors of a row, then for the elements that are left. */
#define KN_EACH_OF_ROW(X)                                                                                    \
    {                                                                                                        \
        KN_INDEX i = 0;                                                                                      \
        for (; i + KN_WIDTH <= count; i += KN_WIDTH)                                                         \
            X(kn_vector, KN_LOAD, KN_STORE, KN_ADD_VECTOR, _of_lanes)                                        \
        for (; i < count; i++)                                                                               \
            X(KN_A, KN_LOAD_ONE, KN_STORE_ONE, KN_ADD_ONE, _of_rest)                                         \
    }

#define KN_SUM(type, load, store, add, kind) sum##kind += load(x + start + i);
#define KN_SQUARE(type, load, store, add, kind)                                                              \
    {                                                                                                        \
        const type apart = load(x + start + i) - middle;                                                     \
        squares##kind += apart * apart;                                                                      \
    }
#if KN_BIAS
#define KN_ADD_BIAS(load) +load(bias + i)
#else
#define KN_ADD_BIAS(load)
#endif
#define KN_APPLY(type, load, store, add, kind)                                                               \
    {                                                                                                        \
        const type result = (load(x + start + i) - middle) * factor * load(weight + i) KN_ADD_BIAS(load);    \
        store(result, y + start + i);                                                                        \
    }

KN_ALONE kernel void kn_layer_norm(global const KN_T *restrict x, global const KN_T *restrict weight,
                                   global const KN_T *restrict bias, global KN_T *restrict y,
                                   global KN_T *restrict mean, global KN_T *restrict inverse,
                                   const KN_INDEX rows, const KN_INDEX count, const float epsilon,
                                   const KN_INDEX share) {
    const KN_INDEX first = (KN_INDEX)get_global_id(0) * share, end = min(first + share, rows);
    for (KN_INDEX row = first; row < end; row++) {
        const KN_INDEX start = row * count;
        kn_vector squares_of_lanes = (kn_vector)(0);
        KN_A middle = 0, squares_of_rest = 0;
#if KN_CENTERED
        kn_vector sum_of_lanes = (kn_vector)(0);
        KN_A sum_of_rest = 0;
        KN_EACH_OF_ROW(KN_SUM)
        middle = (kn_sum_of_lanes(sum_of_lanes) + sum_of_rest) / (KN_A)count;
        mean[row] = (KN_T)middle;
#endif
        KN_EACH_OF_ROW(KN_SQUARE)
        const KN_A squares = (kn_sum_of_lanes(squares_of_lanes) + squares_of_rest) / (KN_A)count;
        const KN_A factor = 1 / sqrt(squares + epsilon);
        inverse[row] = (KN_T)factor;
        KN_EACH_OF_ROW(KN_APPLY)
    }
}

#define KN_SUMS(type, load, store, add, kind)                                                                \
    {                                                                                                        \
        const type slope = load(dy + start + i) * load(weight + i);                                          \
        sum##kind += slope;                                                                                  \
        product##kind += slope * ((load(x + start + i) - middle) * factor);                                  \
    }
#define KN_SLOPES(type, load, store, add, kind)                                                              \
    {                                                                                                        \
        const type slope = load(dy + start + i), normal = (load(x + start + i) - middle) * factor;           \
        const type result = factor * (slope * load(weight + i) - sum - normal * product);                    \
        store(result, dx + start + i);                                                                       \
        add(slope *normal, shares + i);                                                                      \
        add(slope, shares + count + i);                                                                      \
    }

KN_ALONE kernel void kn_layer_norm_gradient(global const KN_T *restrict x, global const KN_T *restrict dy,
                                            global const KN_T *restrict weight,
                                            global const KN_T *restrict mean,
                                            global const KN_T *restrict inverse, global KN_T *restrict dx,
                                            global KN_A *restrict shares, const KN_INDEX rows,
                                            const KN_INDEX count, const KN_INDEX share) {
    const KN_INDEX first = (KN_INDEX)get_global_id(0) * share, end = min(first + share, rows);
    shares += (KN_INDEX)get_global_id(0) * 2 * count;
    for (KN_INDEX i = 0; i < 2 * count; i++)
        shares[i] = 0;
    for (KN_INDEX row = first; row < end; row++) {
        const KN_INDEX start = row * count;
        const KN_A middle = KN_MEAN_OF(row), factor = (KN_A)inverse[row];
        kn_vector sum_of_lanes = (kn_vector)(0), product_of_lanes = (kn_vector)(0);
        KN_A sum_of_rest = 0, product_of_rest = 0;
        KN_EACH_OF_ROW(KN_SUMS)
#if KN_CENTERED
        const KN_A sum = (kn_sum_of_lanes(sum_of_lanes) + sum_of_rest) / (KN_A)count;
#else
        const KN_A sum = 0;
#endif
        const KN_A product = (kn_sum_of_lanes(product_of_lanes) + product_of_rest) / (KN_A)count;
        KN_EACH_OF_ROW(KN_SLOPES)
    }
}

KN_ALONE kernel void kn_layer_norm_join(global const KN_A *restrict shares, global KN_T *restrict dweight,
                                        global KN_T *restrict dbias, const KN_INDEX parts,
                                        const KN_INDEX count, const KN_INDEX share) {
    const KN_INDEX first = (KN_INDEX)get_global_id(0) * share, end = min(first + share, count);
    for (KN_INDEX column = first; column < end; column++) {
        KN_A product = 0, sum = 0;
        for (KN_INDEX part = 0; part < parts; part++) {
            product += shares[part * 2 * count + column];
            sum += shares[(part * 2 + 1) * count + column];
        }
        dweight[column] = (KN_T)product;
        if (dbias) dbias[column] = (KN_T)sum;
    }
}

#endif
