/* Matrix products that memory bounds on wide-vector devices (CPUs): C(M,N) = A(M,K) · B(K,N), float32, batches, an
 * epilogue. With few rows, as dense layers of small batches have, B is read from memory once, in place.
 * Sums of few, as those layers' gradients of weights are, write C row by row, past the caches where it is large.
 *
 * Defines: those of common/vector.cl, and, with its default:
 *   KN_NARROW 0     b has 16 bits in memory (common/narrow.cl)
 *
 * Work-groups are (1,1,1) in every kernel; strides count elements; nothing beyond the shapes is touched. The epilogue
 * sees (batch, row, column); EPILOGUE stands for its operands. c shares memory with no input and no operand.
 * A(i,j) is a[i * a_row + j * a_column]; B(i,j) is b[i * b_row + j * b_column]; C(i,j) is c[i * c_row + j]; a stride
 * that is no parameter is 1. Batch t adds (t / batch_inner) * outer + (t % batch_inner) * inner to each of a, b and c;
 * batch_inner is at least 1; a stride of 0 repeats a matrix. How columns and rows are shared out changes no bit; a number
 * of C is one sum over k = 0, 1, 2 …, of KN_WIDTH sums where weights are kept as (N,K).
 * item_columns is a multiple of KN_WIDTH.
 *
 * kn_matmul_along(a, b, c, m, n, k, a_row, b_column, c_row, batch_inner, a_outer, a_inner, b_outer, b_inner, c_outer,
 *                 c_inner, item_columns, EPILOGUE)
 *   up to KN_FEW rows, weights kept as (N,K). Global size (ceil(n / item_columns), 1, batches).
 * kn_matmul_across(a, b, c, m, n, k, a_row, b_row, c_row, batch_inner, a_outer, …, item_columns, EPILOGUE)
 *   up to KN_FEW rows, weights kept as (K,N). Global size as before; item_columns is at most KN_STRETCH.
 * kn_matmul_shallow(a, b, c, m, n, k, a_row, a_column, b_row, c_row, batch_inner, a_outer, …, item_rows,
 *                   item_columns, streams, EPILOGUE)
 *   k up to KN_SHALLOW. Global size (ceil(n / item_columns), ceil(m / item_rows), batches); item_columns should be a
 *   multiple of 4 * KN_WIDTH, and k * item_columns is at most KN_NEAR. streams: 1 stores past the caches
 *   where rows of C are aligned. */
#define KN_WHOLE_VECTORS 1
#include "common/wanted.cl"
#include "common/vector.cl"
#include "common/narrow.cl"
#include "common/stream.cl"
#include "matmul/wide_finish.cl"

#define KN_FEW 8
#define KN_SHALLOW 16
#define KN_NEAR 4096 /* numbers of B that stay in the nearest cache */
#define KN_STRETCH 512
#define KN_PITCH (KN_STRETCH + 16) /* rows begin in unlike sets of a cache */

#define KN_TO_BATCH                                                                                          \
    const int batch = get_global_id(2), outer = batch / batch_inner, inner = batch % batch_inner;            \
    a += outer * a_outer + inner * a_inner;                                                                  \
    b += outer * b_outer + inner * b_inner;                                                                  \
    c += outer * c_outer + inner * c_inner;

#define KN_ADD(row, v) sum##row##_##v += left * right##v;

/* The first count lanes from b, zero in the others. */
KN_INLINE vector read_part(global const KN_SOURCE *source, int count) {
    float part[KN_WIDTH];
    for (int i = 0; i < KN_WIDTH; i++)
        part[i] = i < count ? KN_READ(source + i) : 0.0f;
    return load(0, part);
}

/* ---- few rows, weights (N,K) ----------------------------------------------- */

/* Of so much depth at a time, four columns of weights and the rows stay in the nearest cache. */
#define KN_NEAR_DEPTH 1024

KN_INLINE float sum_4(float4 x) {
    return (x.s0 + x.s2) + (x.s1 + x.s3);
}
KN_INLINE float sum_8(float8 x) {
    return sum_4(x.lo + x.hi);
}
KN_INLINE float sum_16(float16 x) {
    return sum_8(x.lo + x.hi);
}

#define KN_ALONG_RESUME(row, v) vector sum##row##_##v = load(row * 4 + v, sums);
#define KN_ALONG_START(row)                                                                                  \
    global const float *restrict a##row = a + row * a_row;                                                   \
    KN_VECTORS_4(KN_ALONG_RESUME, row)
#define KN_ALONG_POINTER(row, v)                                                                             \
    global const KN_SOURCE *restrict b##v = b + (KN_INDEX)min(v, columns - 1) * b_column;
#define KN_ALONG_LOAD(row, v) const vector right##v = KN_READ_VECTOR(0, b##v + k);
#define KN_ALONG_LOAD_PART(row, v) const vector right##v = read_part(b##v + k, depth - k);
#define KN_ALONG_STEP(row)                                                                                   \
    {                                                                                                        \
        const vector left = load(0, a##row + k);                                                             \
        KN_VECTORS_4(KN_ADD, row)                                                                            \
    }
#define KN_ALONG_STEP_PART(row)                                                                              \
    {                                                                                                        \
        const vector left = load_part(a##row + k, depth - k);                                                \
        KN_VECTORS_4(KN_ADD, row)                                                                            \
    }
#define KN_ALONG_KEEP_ONE(row, v) store(sum##row##_##v, row * 4 + v, sums);
#define KN_ALONG_KEEP(row) KN_VECTORS_4(KN_ALONG_KEEP_ONE, row)

/* sums (rows,4,KN_WIDTH) += A(rows,depth) · B(depth,4), vectors along depth; columns beyond the last repeat it. */
#define KN_ALONG(name, each_row)                                                                             \
    KN_INLINE void name(global const float *a, KN_INDEX a_row, global const KN_SOURCE *b, KN_INDEX b_column, \
                        int columns, int depth, float *sums) {                                               \
        int k = 0;                                                                                           \
        each_row(KN_ALONG_START);                                                                            \
        KN_VECTORS_4(KN_ALONG_POINTER, 0);                                                                   \
        for (; k + KN_WIDTH <= depth; k += KN_WIDTH) {                                                       \
            KN_VECTORS_4(KN_ALONG_LOAD, 0);                                                                  \
            each_row(KN_ALONG_STEP);                                                                         \
        }                                                                                                    \
        if (k < depth) {                                                                                     \
            KN_VECTORS_4(KN_ALONG_LOAD_PART, 0);                                                             \
            each_row(KN_ALONG_STEP_PART);                                                                    \
        }                                                                                                    \
        each_row(KN_ALONG_KEEP);                                                                             \
    }
#if KN_WIDTH == 8
#define KN_ALONG_ROWS 2 /* 16 registers */
#else
#define KN_ALONG_ROWS 4
#endif
KN_ALONG(along_rows, KN_JOIN(KN_ROWS_, KN_ALONG_ROWS))
KN_ALONG(along_1, KN_ROWS_1)

#if KN_WANTED(kn_matmul_along)
KN_WIDE kn_matmul_along(global const float *restrict a, global const KN_SOURCE *restrict b,
                        global float *restrict c, int m, int n, int k, KN_INDEX a_row, KN_INDEX b_column,
                        KN_INDEX c_row, int batch_inner, KN_INDEX a_outer, KN_INDEX a_inner, KN_INDEX b_outer,
                        KN_INDEX b_inner, KN_INDEX c_outer, KN_INDEX c_inner,
                        int item_columns KN_EPILOGUE_PARAMETERS) {
    float sums[KN_FEW * 4 * KN_WIDTH], result[KN_FEW * KN_WIDTH] = {0.0f};
    KN_TO_BATCH
    const int column0 = get_global_id(0) * item_columns, column_end = min(column0 + item_columns, n);
    for (KN_INDEX column = column0; column < column_end; column += KN_WIDTH) {
        const int count = min(n - (int)column, KN_WIDTH);
        for (int j = 0; j < count; j += 4) {
            for (int i = 0; i < m * 4; i++)
                store((vector)(0.0f), i, sums);
            for (int first = 0; first < k; first += KN_NEAR_DEPTH) {
                global const KN_SOURCE *right = b + (column + j) * b_column + first;
                const int depth = min(KN_NEAR_DEPTH, k - first);
                int i = 0;
                for (; i + KN_ALONG_ROWS <= m; i += KN_ALONG_ROWS)
                    along_rows(a + i * a_row + first, a_row, right, b_column, count - j, depth,
                               sums + i * 4 * KN_WIDTH);
                for (; i < m; i++)
                    along_1(a + i * a_row + first, a_row, right, b_column, count - j, depth,
                            sums + i * 4 * KN_WIDTH);
            }
            for (int i = 0; i < m; i++)
                for (int v = 0; v < 4; v++)
                    result[i * KN_WIDTH + j + v] = KN_JOIN(sum_, KN_WIDTH)(load(i * 4 + v, sums));
        }
        for (KN_INDEX row = 0; row < m; row++)
            KN_FINISH(load(row, result), column, count, 0, 1)
    }
}
#endif

/* ---- few rows, weights (K,N) ----------------------------------------------- */

#define KN_ACROSS_STEP(lane)                                                                                 \
    {                                                                                                        \
        const vector left = a[i * a_row + lane];                                                             \
        sum0 += left * right##lane##_0;                                                                      \
        sum1 += left * right##lane##_1;                                                                      \
    }
#define KN_ACROSS_LOAD(lane)                                                                                 \
    const vector right##lane##_0 = KN_READ_VECTOR(0, b + lane * b_row + j);                                  \
    const vector right##lane##_1 = KN_READ_VECTOR(1, b + lane * b_row + j);

#if KN_WANTED(kn_matmul_across)
/* sums (m,KN_PITCH) += A(m,4) · B(4,columns), columns a multiple of 2 * KN_WIDTH. `ahead` leads to the rows of B that
 * come next. */
KN_APART void add_four(global const float *a, KN_INDEX a_row, global const KN_SOURCE *b, KN_INDEX b_row, int m,
                       int columns, KN_INDEX ahead, float *sums) {
    for (int j = 0; j < columns; j += 2 * KN_WIDTH) {
        KN_ROWS_4(KN_ACROSS_LOAD)
#pragma unroll
        for (int lane = 0; lane < 4; lane++) {
            KN_PREFETCH(b + lane * b_row + j + ahead)
        }
        for (int i = 0; i < m; i++) {
            float *sum = sums + i * KN_PITCH + j;
            vector sum0 = load(0, sum), sum1 = load(1, sum);
            KN_ROWS_4(KN_ACROSS_STEP)
            store(sum0, 0, sum);
            store(sum1, 1, sum);
        }
    }
}

/* The same of one row of B. */
KN_APART void add_one(global const float *a, KN_INDEX a_row, global const KN_SOURCE *b, int m, int columns,
                      float *sums) {
    for (int j = 0; j < columns; j += KN_WIDTH) {
        const vector right = columns - j >= KN_WIDTH ? KN_READ_VECTOR(0, b + j) : read_part(b + j, columns - j);
        for (int i = 0; i < m; i++)
            store(load(0, sums + i * KN_PITCH + j) + a[i * a_row] * right, 0, sums + i * KN_PITCH + j);
    }
}

KN_WIDE kn_matmul_across(global const float *restrict a, global const KN_SOURCE *restrict b,
                         global float *restrict c, int m, int n, int k, KN_INDEX a_row, KN_INDEX b_row,
                         KN_INDEX c_row, int batch_inner, KN_INDEX a_outer, KN_INDEX a_inner, KN_INDEX b_outer,
                         KN_INDEX b_inner, KN_INDEX c_outer, KN_INDEX c_inner,
                         int item_columns KN_EPILOGUE_PARAMETERS) {
    float sums[KN_FEW * KN_PITCH];
    KN_TO_BATCH
    const int column0 = get_global_id(0) * item_columns, columns = min(item_columns, n - column0);
    const int paired = columns / (2 * KN_WIDTH) * (2 * KN_WIDTH);
    b += column0;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < columns; j += KN_WIDTH)
            store((vector)(0.0f), 0, sums + i * KN_PITCH + j);
    for (int first = 0; first < k; first += 4) {
        const int depth = min(4, k - first), done = depth == 4 ? paired : 0;
        global const KN_SOURCE *rows = b + first * b_row;
        if (done) add_four(a + first, a_row, rows, b_row, m, done, first + 8 <= k ? 4 * b_row : 0, sums);
        for (int lane = 0; lane < depth && done < columns; lane++)
            add_one(a + first + lane, a_row, rows + lane * b_row + done, m, columns - done, sums + done);
    }
    for (KN_INDEX row = 0; row < m; row++)
        for (int j = 0; j < columns; j += KN_WIDTH)
            KN_FINISH(load(0, sums + row * KN_PITCH + j), (KN_INDEX)column0 + j, columns - j, 0, 1)
}
#endif

/* ---- sums of few ----------------------------------------------------------- */

#define KN_BAND 32 /* rows of A that are packed at a time */
#define KN_VECTORS_8(X, row) KN_VECTORS_4(X, row) X(row, 4) X(row, 5) X(row, 6) X(row, 7)
#define KN_SHALLOW_ZERO(row, v) vector sum##row##_##v = 0.0f;
#define KN_SHALLOW_START(row)                                                                                \
    const float *left##row = left_rows + (r + row) * k;                                                      \
    KN_VECTORS_4(KN_SHALLOW_ZERO, row)
#define KN_SHALLOW_LOAD(row, v) const vector right##v = load(v, from);
#define KN_SHALLOW_STEP(row)                                                                                 \
    {                                                                                                        \
        const vector left = left##row[i];                                                                    \
        KN_VECTORS_4(KN_ADD, row)                                                                            \
    }
#define KN_SHALLOW_RESULT(row, v)                                                                            \
    const KN_INDEX column = (KN_INDEX)column0 + j + v * KN_WIDTH;                                            \
    global float *to = c + (first + r + row) * c_row + column;                                               \
    const vector result = KN_EPILOGUE_VECTOR(sum##row##_##v, batch, first + r + row, column);
#define KN_SHALLOW_KEEP(row, v)                                                                              \
    {                                                                                                        \
        KN_SHALLOW_RESULT(row, v)                                                                            \
        store(result, 0, to);                                                                                \
    }
#define KN_SHALLOW_STREAM(row, v)                                                                            \
    {                                                                                                        \
        KN_SHALLOW_RESULT(row, v)                                                                            \
        KN_STREAM(result, (global vector *)to, store(result, 0, to));                                        \
    }
#define KN_SHALLOW_FINISH(row) KN_VECTORS_4(KN_SHALLOW_KEEP, row)

/* C(rows,4 vectors) at row first + r and column j of the item. */
#define KN_SHALLOW_TILE(each_row)                                                                            \
    {                                                                                                        \
        const float *from = right_columns + j;                                                               \
        each_row(KN_SHALLOW_START);                                                                          \
        for (int i = 0; i < k; i++, from += pitch) {                                                         \
            KN_VECTORS_4(KN_SHALLOW_LOAD, 0);                                                                \
            each_row(KN_SHALLOW_STEP);                                                                       \
        }                                                                                                    \
        each_row(KN_SHALLOW_FINISH);                                                                         \
    }

/* The same of eight vectors of one row: stores past the caches are best side by side. */
#define KN_SHALLOW_TILE_PAST                                                                                 \
    {                                                                                                        \
        const float *from = right_columns + j;                                                               \
        KN_VECTORS_8(KN_SHALLOW_ZERO, 0);                                                                    \
        for (int i = 0; i < k; i++, from += pitch) {                                                         \
            const vector left = left_rows[r * k + i];                                                        \
            KN_VECTORS_8(KN_SHALLOW_LOAD, 0);                                                                \
            KN_VECTORS_8(KN_ADD, 0);                                                                         \
        }                                                                                                    \
        KN_VECTORS_8(KN_SHALLOW_STREAM, 0);                                                                  \
    }

#if KN_WANTED(kn_matmul_shallow)
KN_WIDE kn_matmul_shallow(global const float *restrict a, global const KN_SOURCE *restrict b,
                          global float *restrict c, int m, int n, int k, KN_INDEX a_row, KN_INDEX a_column,
                          KN_INDEX b_row, KN_INDEX c_row, int batch_inner, KN_INDEX a_outer, KN_INDEX a_inner,
                          KN_INDEX b_outer, KN_INDEX b_inner, KN_INDEX c_outer, KN_INDEX c_inner, int item_rows,
                          int item_columns, int streams KN_EPILOGUE_PARAMETERS) {
    float left_rows[KN_BAND * KN_SHALLOW], right_columns[KN_NEAR];
    KN_TO_BATCH
    const int column0 = get_global_id(0) * item_columns, columns = min(item_columns, n - column0);
    const int row0 = get_global_id(1) * item_rows, row_end = min(row0 + item_rows, m);
    const int past = KN_STREAMS(streams && c_row % KN_WIDTH == 0, c + column0, vector);
    const int pitch = (columns + KN_WIDTH - 1) / KN_WIDTH * KN_WIDTH;
    for (int i = 0; i < k; i++)
        for (int j = 0; j < columns; j += KN_WIDTH) {
            global const KN_SOURCE *right = b + i * b_row + column0 + j;
            store(columns - j >= KN_WIDTH ? KN_READ_VECTOR(0, right) : read_part(right, columns - j), 0,
                  right_columns + i * pitch + j);
        }
    for (KN_INDEX first = row0; first < row_end; first += KN_BAND) {
        const int rows = min(KN_BAND, row_end - (int)first);
        for (int i = 0; i < k; i++)
            for (int r = 0; r < rows; r++)
                left_rows[r * k + i] = a[(first + r) * a_row + i * a_column];
        for (int r = 0, taken; r < rows; r += taken) {
            taken = past ? 1 : min(2, rows - r);
            int j = 0;
            for (; past && j + 8 * KN_WIDTH <= columns; j += 8 * KN_WIDTH)
                KN_SHALLOW_TILE_PAST
            for (; j + 4 * KN_WIDTH <= columns; j += 4 * KN_WIDTH)
                if (taken == 2)
                    KN_SHALLOW_TILE(KN_ROWS_2)
                else
                    KN_SHALLOW_TILE(KN_ROWS_1)
            for (KN_INDEX row = first + r; row < first + r + taken; row++)
                for (int last = j; last < columns; last += KN_WIDTH) {
                    vector sum = 0.0f;
                    for (int i = 0; i < k; i++)
                        sum += (vector)left_rows[(row - first) * k + i] * load(0, right_columns + i * pitch + last);
                    KN_FINISH(sum, (KN_INDEX)column0 + last, columns - last, 0, 1)
                }
        }
    }
}
#endif
