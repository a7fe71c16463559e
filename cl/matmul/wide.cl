/* Matrix product for wide-vector devices (CPUs): C(M,N) = A(M,K) · B(K,N), float32, batches, an epilogue. Where
 * memory is the limit, with few rows or sums of few, matmul/thin.cl is faster.
 *
 * Each work-item computes whole tiles of KN_ROWS x KN_COLUMNS numbers that stay in vector registers. It
 * reads A in place and B from panels of KN_COLUMNS columns, laid out [panel][k][KN_COLUMNS]. Panels are
 * packed once for constant weights (kn_matmul_pack, KN_PACKED 1) or chunk by chunk on the way, into local
 * memory (KN_PACKED 0). So are blocks of rows of a transposed A (KN_LEFT_ROWS), whose columns would be far apart. A
 * number of C is the sum over k = 0, 1, 2 … in chunks of chunk_depth, at most KN_DEPTH: how rows and panels are dealt
 * to work-items never changes a bit; part_depth and chunk_depth do, so the host takes them from the shape and the kind
 * of device alone.
 *
 * Defines: those of common/vector.cl, and, with their defaults:
 *   KN_PACKED 1     1: b holds packed panels; 0: b is read in place, by b_row and b_column
 *   KN_DEPTH 256    the most k in one chunk; KN_PACKED 0 takes KN_DEPTH * KN_COLUMNS * 4 bytes of local memory
 *                   for each of KN_PANELS (64 KiB; choose 128 where the device has only 32 KiB)
 *   KN_LEFT_ROWS 0  above 0, a multiple of KN_ROWS: A is given transposed, with an a_row of 1, and
 *                   packed in blocks of so many rows, in (KN_DEPTH + 3) * KN_LEFT_ROWS * 4 bytes of local memory
 *   KN_PANELS 1     the most panels of one item, which then share a packed block; 1 unless A is packed
 *   KN_NARROW 0     b has 16 bits in memory (common/narrow.cl); only with KN_PACKED 0
 *
 * Work-groups are (1,1,1) in every kernel; strides count elements; nothing beyond the shapes is touched. The
 * epilogue sees (batch, row, column); EPILOGUE stands for its operands. c shares memory with no input and no
 * operand; `accumulate` is the way to add to what is there.
 *
 * kn_matmul(a, b, c, m, n, k, a_row, a_column, b_row, b_column, c_row, c_part, batch_inner, a_outer, a_inner,
 *           b_outer, b_inner, c_outer, c_inner, item_rows, item_panels, part_depth, chunk_depth,
 *           accumulate, EPILOGUE)
 *   global size (ceil(m / item_rows), ceil(panels / item_panels), batches * parts) with
 *   panels = ceil(n / KN_COLUMNS), parts = max(1, ceil(k / part_depth)).
 *   A(i,j) is a[i * a_row + j * a_column]; B(i,j) is b[i * b_row + j * b_column], both ignored when packed;
 *   C(i,j) is c[i * c_row + j]. Batch t adds (t / batch_inner) * outer + (t % batch_inner) * inner to each
 *   of a, b and c; batch_inner is at least 1; a stride of 0 repeats a matrix.
 *   accumulate: 1 adds the product to C before the epilogue, 0 only writes C.
 *   part_depth >= k is one part. With less, part p stores its bare share of the sum
 *   at c + p * c_part, and kn_matmul_sum adds the parts and applies the epilogue.
 *   item_rows should be a multiple of KN_ROWS, or m; item_panels is at most KN_PANELS where B is packed on the way.
 * kn_matmul_sum(source, c, m, n, parts, source_row, source_part, source_batch, c_row, batch_inner, c_outer,
 *               c_inner, item_rows, item_columns, accumulate, EPILOGUE)
 *   global size (ceil(m / item_rows), ceil(n / item_columns), batches); item_columns: a multiple of KN_WIDTH.
 * kn_matmul_pack(b, panels, n, k, b_row, b_column, batch_inner, b_outer, b_inner, panels_batch, item_panels)
 *   global size (ceil(panels / item_panels), 1, batches); writes panels * k * KN_COLUMNS floats a batch. */
#include "common/wanted.cl"
#include "common/vector.cl"
#include "common/weave.cl"
#include "common/narrow.cl"
#include "matmul/wide_finish.cl"

#ifndef KN_PACKED
#define KN_PACKED 1
#endif
#ifndef KN_DEPTH
#define KN_DEPTH 256
#endif
#ifndef KN_LEFT_ROWS
#define KN_LEFT_ROWS 0
#endif
#ifndef KN_PANELS
#define KN_PANELS 1
#endif
#define KN_ROWS 6

/* As KN_FINISH of matmul/wide_finish.cl, for the vectors of a whole row of a tile: row r of `result`, whose place is
 * `out`. */
#define KN_FINISH_WHOLE(r, v)                                                                                \
    {                                                                                                        \
        vector finished = load((r)*KN_VECTORS + v, result);                                                  \
        if (add) finished += load(v, out);                                                                   \
        if (last) finished = KN_EPILOGUE_VECTOR(finished, batch, row, (KN_INDEX)p * KN_COLUMNS + v * KN_WIDTH); \
        store(finished, v, out);                                                                             \
    }

/* ---- panels ---------------------------------------------------------------- */

#define KN_TRANSPOSED_LOAD(i)                                                                                \
    const vector x##i = KN_READ_VECTOR(0, b + (KN_INDEX)min(column + i, columns - 1) * b_column + k);
#define KN_TRANSPOSED_STORE(i) store(t##i, 0, to + i * KN_COLUMNS);
#define KN_TRANSPOSED_NEAR(i) KN_PREFETCH(b + (KN_INDEX)min(column + i, columns - 1) * b_column + k + KN_WIDTH)
/* Rows far apart are fetched so many ahead of their turn. */
#define KN_AHEAD 8

/* panel (depth,KN_COLUMNS) from B(depth,columns) at b; columns beyond the last repeat it or are zero. Apart, since
 * compilers take three times as long for the product with these loops inside its own. */
#define KN_DEFINE_PACK(name, space)                                                                          \
    KN_APART void name(global const KN_SOURCE *b, KN_INDEX b_row, KN_INDEX b_column, int columns, int depth,     \
                       space float *panel) {                                                                 \
        if (b_column == 1 && columns >= KN_COLUMNS) {                                                        \
            for (int k = 0; k < depth; k++)                                                                  \
                for (int v = 0; v < KN_VECTORS; v++) {                                                       \
                    KN_PREFETCH(b + (KN_INDEX)min(k + KN_AHEAD, depth - 1) * b_row + v * KN_WIDTH)           \
                    store(KN_READ_VECTOR(v, b + (KN_INDEX)k * b_row), v, panel + k * KN_COLUMNS);            \
                }                                                                                            \
            return;                                                                                          \
        }                                                                                                    \
        int k = 0;                                                                                           \
        if (b_row == 1 && b_column != 1)                                                                     \
            for (; k + KN_WIDTH <= depth; k += KN_WIDTH)                                                     \
                for (int column = 0; column < KN_COLUMNS; column += KN_WIDTH) {                              \
                    space float *to = panel + k * KN_COLUMNS + column;                                       \
                    KN_EACH_LANE(KN_TRANSPOSED_NEAR)                                                         \
                    KN_EACH_LANE(KN_TRANSPOSED_LOAD)                                                         \
                    KN_TRANSPOSE(x)                                                                          \
                    KN_EACH_LANE(KN_TRANSPOSED_STORE)                                                        \
                }                                                                                            \
        for (; k < depth; k++)                                                                               \
            for (int j = 0; j < KN_COLUMNS; j++)                                                             \
                panel[k * KN_COLUMNS + j] =                                                                  \
                    j < columns ? KN_READ(b + (KN_INDEX)k * b_row + (KN_INDEX)j * b_column) : 0.0f;          \
    }

#if KN_WANTED(kn_matmul_pack)
KN_DEFINE_PACK(pack_global, global)

KN_WIDE kn_matmul_pack(global const KN_SOURCE *restrict b, global float *restrict panels, int n, int k,
                       KN_INDEX b_row, KN_INDEX b_column, int batch_inner, KN_INDEX b_outer, KN_INDEX b_inner,
                       KN_INDEX panels_batch, int item_panels) {
    const int batch = get_global_id(2);
    b += batch / batch_inner * b_outer + batch % batch_inner * b_inner;
    panels += batch * panels_batch;
    const int first = get_global_id(0) * item_panels;
    const int end = min(first + item_panels, (n + KN_COLUMNS - 1) / KN_COLUMNS);
    for (int p = first; p < end; p++)
        pack_global(b + (KN_INDEX)p * KN_COLUMNS * b_column, b_row, b_column, n - p * KN_COLUMNS, k,
                    panels + (KN_INDEX)p * k * KN_COLUMNS);
}
#endif

/* ---- the product ----------------------------------------------------------- */

#if KN_PACKED
#define KN_PANEL global
#else
#define KN_PANEL local
KN_DEFINE_PACK(pack_local, local)
#endif

#if KN_LEFT_ROWS
#define KN_LEFT local
/* Floats from tile to tile of packed rows: what a vector writes beyond the last k has room, and tiles begin in unlike
 * sets of a cache. */
#define KN_LEFT_TILE(depth) ((depth)*KN_ROWS + 16)
/* packed [tile][depth][KN_ROWS] from A(rows,depth) with rows side by side, so that a tile reads lines wholly;
 * rows beyond the last are not read. */
KN_INLINE void pack_left(global const float *a, KN_INDEX a_column, int rows, int depth, local float *packed) {
    for (int k = 0; k < depth; k++, a += a_column, packed += KN_ROWS) {
        const KN_INDEX ahead = min(KN_AHEAD, depth - 1 - k) * a_column;
        local float *to = packed;
        int row = 0;
        for (; row + max(KN_WIDTH, KN_ROWS) <= rows; row += KN_ROWS, to += KN_LEFT_TILE(depth)) {
            KN_PREFETCH(a + ahead + row)
            store(load(0, a + row), 0, to); /* lanes beyond the tile's rows are in the place of the next k */
            for (int left = KN_WIDTH; left < KN_ROWS; left++)
                to[left] = a[row + left];
        }
        for (; row < rows; row += KN_ROWS, to += KN_LEFT_TILE(depth))
            for (int left = 0; left < min(KN_ROWS, rows - row); left++)
                to[left] = a[row + left];
    }
}
#else
#define KN_LEFT global
#endif

#define KN_ZERO(row, v) vector sum##row##_##v = 0.0f;
#define KN_START(row)                                                                                        \
    KN_LEFT const float *a##row = a + row * a_row;                                                           \
    KN_EACH(KN_ZERO, row)
#define KN_RIGHT(row, v) const vector right##v = load(v, b);
#define KN_ADD(row, v) sum##row##_##v += left * right##v;
#define KN_STEP(row)                                                                                         \
    {                                                                                                        \
        const vector left = a##row[at];                                                                      \
        KN_EACH(KN_ADD, row)                                                                                 \
    }
#define KN_KEEP_VECTOR(row, v) store(sum##row##_##v, row *KN_VECTORS + v, result);
#define KN_KEEP(row) KN_EACH(KN_KEEP_VECTOR, row)

/* result (rows,KN_COLUMNS) = A(rows,depth) · panel(depth,KN_COLUMNS): everything in registers until the end.
 */
#define KN_TILE(name, each_row)                                                                              \
    KN_APART void name(KN_LEFT const float *a, KN_INDEX a_row, KN_INDEX a_column, KN_PANEL const float *b,   \
                        int depth, float *result) {                                                          \
        KN_INDEX at = 0;                                                                                     \
        each_row(KN_START);                                                                                  \
        for (int k = 0; k < depth; k++, at += a_column, b += KN_COLUMNS) {                                   \
            KN_EACH(KN_RIGHT, 0);                                                                            \
            each_row(KN_STEP);                                                                               \
        }                                                                                                    \
        each_row(KN_KEEP);                                                                                   \
    }
KN_TILE(tile_6, KN_ROWS_6)
KN_TILE(tile_4, KN_ROWS_4)
KN_TILE(tile_1, KN_ROWS_1)

#if KN_WANTED(kn_matmul)
KN_WIDE kn_matmul(global const float *restrict a, global const KN_SOURCE *restrict b, global float *restrict c,
                  int m, int n, int k, KN_INDEX a_row, KN_INDEX a_column, KN_INDEX b_row, KN_INDEX b_column,
                  KN_INDEX c_row, KN_INDEX c_part, int batch_inner, KN_INDEX a_outer, KN_INDEX a_inner,
                  KN_INDEX b_outer, KN_INDEX b_inner, KN_INDEX c_outer, KN_INDEX c_inner, int item_rows,
                  int item_panels, int part_depth, int chunk_depth, int accumulate KN_EPILOGUE_PARAMETERS) {
#if !KN_PACKED
    local float chunk[KN_PANELS * KN_DEPTH * KN_COLUMNS];
#endif
#if KN_LEFT_ROWS
    local float rows_chunk[KN_LEFT_ROWS / KN_ROWS * KN_LEFT_TILE(KN_DEPTH)];
#endif
    float result[KN_ROWS * KN_COLUMNS];
    const int parts = part_depth < k ? (k + part_depth - 1) / part_depth : 1;
    const int batch = get_global_id(2) / parts, part = get_global_id(2) % parts;
    const int outer = batch / batch_inner, inner = batch % batch_inner;
    a += outer * a_outer + inner * a_inner;
    b += outer * b_outer + inner * b_inner;
    c += outer * c_outer + inner * c_inner + part * c_part;
    const int row0 = get_global_id(0) * item_rows, row_end = min(row0 + item_rows, m);
    const int panel0 = get_global_id(1) * item_panels;
    const int panel_end = min(panel0 + item_panels, (n + KN_COLUMNS - 1) / KN_COLUMNS);
    const int k_first = parts > 1 ? part * part_depth : 0,
              k_end = parts > 1 ? min(k_first + part_depth, k) : k;

    for (int k0 = k_first; k0 == k_first || k0 < k_end; k0 += chunk_depth) {
        const int depth = min(chunk_depth, k_end - k0);
        const int add = k0 > k_first || (accumulate && parts == 1), last = parts == 1 && k0 + depth == k_end;
#if !KN_PACKED
        for (int p = panel0; p < panel_end; p++)
            pack_local(b + (KN_INDEX)k0 * b_row + (KN_INDEX)p * KN_COLUMNS * b_column, b_row, b_column,
                       n - p * KN_COLUMNS, depth, chunk + (p - panel0) * KN_DEPTH * KN_COLUMNS);
#endif
#if KN_LEFT_ROWS
        for (int first = row0; first < row_end; first += KN_LEFT_ROWS) {
            const int block_end = min(first + KN_LEFT_ROWS, row_end);
            pack_left(a + first + (KN_INDEX)k0 * a_column, a_column, block_end - first, depth, rows_chunk);
#else
        {
            const int first = row0, block_end = row_end;
#endif
            for (int p = panel0; p < panel_end; p++) {
                const int columns = n - p * KN_COLUMNS;
#if KN_PACKED
                global const float *panel = b + ((KN_INDEX)p * k + k0) * KN_COLUMNS;
#else
                local const float *panel = chunk + (p - panel0) * KN_DEPTH * KN_COLUMNS;
#endif
                for (int i = first; i < block_end;) {
#if KN_LEFT_ROWS
                    local const float *left = rows_chunk + (i - first) / KN_ROWS * KN_LEFT_TILE(depth);
                    const KN_INDEX left_row = 1, left_column = KN_ROWS;
                    const int rows = min(KN_ROWS, block_end - i); /* that are stored; KN_ROWS are computed */
#else
                    global const float *left = a + (KN_INDEX)i * a_row + (KN_INDEX)k0 * a_column;
                    const KN_INDEX left_row = a_row, left_column = a_column;
                    const int remaining = block_end - i;
                    const int rows = remaining >= KN_ROWS && remaining != 8 ? 6 : remaining >= 4 ? 4 : 1;
#endif
                    const int whole = columns >= KN_COLUMNS;
                    global float *out = c + (KN_INDEX)i * c_row + (KN_INDEX)p * KN_COLUMNS;
                    /* Comes near while the tile is made: what is stored and read behind it, and the next rows of A. */
                    for (int r = 0; r < rows; r++) {
                        for (int column = 0; column < (whole ? KN_COLUMNS : columns); column += 16) {
                            KN_PREFETCH(out + r * c_row + column)
                        }
                        if (last)
                            for (int v = 0; v < KN_VECTORS && v * KN_WIDTH < columns; v++) {
                                KN_EPILOGUE_NEAR(batch, i + r, (KN_INDEX)p * KN_COLUMNS + v * KN_WIDTH)
                            }
#if !KN_LEFT_ROWS
                        for (int v = 0; v < KN_VECTORS; v++) {
                            KN_PREFETCH(left + (rows + r) * left_row + v * 16 * left_column)
                        }
#endif
                    }
                    if (KN_LEFT_ROWS || rows == 6)
                        tile_6(left, left_row, left_column, panel, depth, result);
                    else if (rows == 4)
                        tile_4(left, left_row, left_column, panel, depth, result);
                    else
                        tile_1(left, left_row, left_column, panel, depth, result);
                    if (whole) {
                        for (int r = 0; r < rows; r++, i++, out += c_row) {
                            const KN_INDEX row = i;
                            KN_EACH(KN_FINISH_WHOLE, r)
                        }
                        continue;
                    }
                    for (int r = 0; r < rows; r++, i++) {
                        const KN_INDEX row = i;
                        for (int v = 0; v < KN_VECTORS && v * KN_WIDTH < columns; v++) {
                            const KN_INDEX column = (KN_INDEX)p * KN_COLUMNS + v * KN_WIDTH;
                            KN_FINISH(load(r * KN_VECTORS + v, result), column, columns - v * KN_WIDTH, add,
                                      last);
                        }
                    }
                }
            }
        }
    }
}
#endif

/* C(M,N) = epilogue of the sum of `parts` matrices, added in order. */
#if KN_WANTED(kn_matmul_sum)
KN_WIDE kn_matmul_sum(global const float *restrict source, global float *restrict c, int m, int n, int parts,
                      KN_INDEX source_row, KN_INDEX source_part, KN_INDEX source_batch, KN_INDEX c_row,
                      int batch_inner, KN_INDEX c_outer, KN_INDEX c_inner, int item_rows, int item_columns,
                      int accumulate KN_EPILOGUE_PARAMETERS) {
    const int batch = get_global_id(2), outer = batch / batch_inner, inner = batch % batch_inner;
    source += batch * source_batch;
    c += outer * c_outer + inner * c_inner;
    const int row0 = get_global_id(0) * item_rows, row_end = min(row0 + item_rows, m);
    const int column0 = get_global_id(1) * item_columns, column_end = min(column0 + item_columns, n);
    for (KN_INDEX row = row0; row < row_end; row++)
        for (KN_INDEX column = column0; column < column_end; column += KN_WIDTH) {
            const int count = n - column;
            global const float *from = source + row * source_row + column;
            vector sum = 0.0f;
            for (int part = 0; part < parts; part++, from += source_part)
                sum += count >= KN_WIDTH ? load(0, from) : load_part(from, count);
            KN_FINISH(sum, column, count, accumulate, 1);
        }
}
#endif
