/* Matrix product for CPUs with tile registers (common/amx.cl): C(M,N) = A(M,K) · B(K,N), batches, an epilogue. A is
 * bfloat16; B is too, or is float32 and rounded as it is read. With KN_SPLIT both are float32, and split as they are
 * read. Sums are float32.
 *
 * Each work-item packs a panel of KN_PANEL columns of B into local memory, and then 32 rows of A at a time, which are
 * multiplied by the panel. Sums are over all of K: how rows and columns are divided does not affect results.
 *
 * Defines: those of common/vector.cl, with KN_WIDTH 16, of common/amx.cl, and, with their defaults:
 *   KN_LEFT_ALONG 1    0: adjacent elements of A are in a column, at a_column 1 between rows
 *   KN_RIGHT_ALONG 0   1: adjacent elements of B are in a column
 *   KN_ROOM 49152      elements of packed tiles in local memory, of 2 bytes each: at least K, rounded up to a multiple
 *                      of 32, times item_columns + 32, and twice as many with KN_SPLIT. In addition, 4 KiB are needed
 *   KN_HALF_a 2, KN_HALF_b, KN_HALF_c 0   storage types (common/storage.cl)
 *
 * kn_matmul_amx(a, b, c, m, n, k, a_step, b_step, c_row, batch_inner, a_outer, a_inner, b_outer, b_inner, c_outer,
 *               c_inner, item_rows, item_columns, EPILOGUE)
 *   work-groups of (1,1,1), global size (ceil(m / item_rows), ceil(n / item_columns), batches); item_rows and
 *   item_columns are multiples of 32. a_step is the distance, in elements, between rows of A, or with KN_LEFT_ALONG 0
 *   between its columns; b_step between rows of B, or with KN_RIGHT_ALONG 1 between its columns. Batches and the
 *   epilogue are as in matmul/wide.cl. */
#ifndef KN_WIDTH
#define KN_WIDTH 16
#endif
#ifndef KN_HALF_a
#define KN_HALF_a 2
#endif
#include "common/vector.cl"
#include "common/transpose_lanes.cl"
#include "common/amx.cl"
#include "matmul/wide_finish.cl"
#ifndef KN_LEFT_ALONG
#define KN_LEFT_ALONG 1
#endif
#ifndef KN_RIGHT_ALONG
#define KN_RIGHT_ALONG 0
#endif
#ifndef KN_ROOM
#define KN_ROOM 49152
#endif

/* Word i of a tile: the elements of a row or column along k, or pairs of k across it. As floats with these bits. */
#define KN_WORDS_ALONG(i)                                                                                    \
    const ushort16 first##i = KN_AMX_BITS(KN_SIDE_HALF, low, from + (i) * step),                             \
                   second##i = KN_AMX_BITS(KN_SIDE_HALF, low, from + (i) * step + 16);                       \
    const vector x##i = as_float16((uint16)(as_uint8(first##i), as_uint8(second##i)));
#define KN_WORDS_ACROSS(i)                                                                                   \
    const ushort16 first##i = KN_AMX_BITS(KN_SIDE_HALF, low, from + (2 * (i)) * step),                       \
                   second##i = KN_AMX_BITS(KN_SIDE_HALF, low, from + (2 * (i) + 1) * step);                  \
    const vector x##i = as_float16(convert_uint16(first##i) | convert_uint16(second##i) << 16);
#define KN_PUT_WORDS(i) store(x##i, i, words);
#define KN_PUT_TRANSPOSED(i) store(t##i, i, words);

/* Packs tiles of one side, `side` rows or columns by `depth`: tile (s / 16, k / 32) is at (s / 16 * pitch + k / 32) *
 * KN_AMX_STEP. TILE packs a whole tile. The source is read in memory order; across k its next rows are prefetched
 * meanwhile, each of which is in another page of memory. */
#define KN_DEFINE_PACK(name, stored, half, along, PLACE, TILE)                                               \
    KN_INLINE void name##_tile(global const stored *from, const KN_INDEX step, const int side,               \
                               const int depth, const bool low, local ushort *to) {                          \
        if (side >= 16 && depth >= KN_AMX_CHUNK) {                                                           \
            local float *words = (local float *)to;                                                          \
            TILE                                                                                             \
            return;                                                                                          \
        }                                                                                                    \
        for (int i = 0; i < 16; i++)                                                                         \
            for (int j = 0; j < KN_AMX_CHUNK; j++)                                                           \
                to[PLACE(i, j)] =                                                                            \
                    i < side && j < depth                                                                    \
                        ? KN_AMX_BIT(half, low, from + ((along) ? i * step + j : j * step + i))              \
                        : 0;                                                                                 \
    }                                                                                                        \
    KN_INLINE void name(global const stored *source, const KN_INDEX step, const int side, const int depth,   \
                        const int pitch, local ushort *packed) {                                             \
        const int rows = (side + KN_AMX_SIDE - 1) / KN_AMX_SIDE * 2;                                         \
        const int chunks = (depth + KN_AMX_CHUNK - 1) / KN_AMX_CHUNK;                                        \
        for (int tile = 0; tile < rows * chunks; tile++) {                                                   \
            const int s = ((along) ? tile / chunks : tile % rows) * 16;                                      \
            const int k = ((along) ? tile % chunks : tile / rows) * KN_AMX_CHUNK;                            \
            local ushort *to = packed + (s / 16 * pitch + k / KN_AMX_CHUNK) * KN_AMX_STEP;                   \
            global const stored *from = source + ((along) ? s * step + k : k * step + s);                    \
            if (!(along) && side - s >= 16 && depth - k >= 2 * KN_AMX_CHUNK)                                 \
                for (int i = 0; i < KN_AMX_CHUNK; i++) {                                                     \
                    KN_PREFETCH(from + (KN_AMX_CHUNK + i) * step)                                            \
                }                                                                                            \
            name##_tile(from, step, side - s, depth - k, false, to);                                         \
            if (KN_SPLIT) name##_tile(from, step, side - s, depth - k, true, to + KN_AMX_TILE);              \
        }                                                                                                    \
    }
/* Left tiles have words along k, right tiles across it. */
#define KN_SIDE_HALF KN_HALF_a
#if KN_LEFT_ALONG
KN_DEFINE_PACK(pack_left, a_stored, KN_HALF_a, 1, KN_AMX_LEFT, KN_EACH_LANE(KN_WORDS_ALONG) KN_EACH_LANE(KN_PUT_WORDS))
#else
KN_DEFINE_PACK(pack_left, a_stored, KN_HALF_a, 0, KN_AMX_LEFT,
               KN_EACH_LANE(KN_WORDS_ACROSS) KN_TRANSPOSE(x) KN_EACH_LANE(KN_PUT_TRANSPOSED))
#endif
#undef KN_SIDE_HALF
#define KN_SIDE_HALF KN_HALF_b
#if KN_RIGHT_ALONG
KN_DEFINE_PACK(pack_right, b_stored, KN_HALF_b, 1, KN_AMX_RIGHT,
               KN_EACH_LANE(KN_WORDS_ALONG) KN_TRANSPOSE(x) KN_EACH_LANE(KN_PUT_TRANSPOSED))
#else
KN_DEFINE_PACK(pack_right, b_stored, KN_HALF_b, 0, KN_AMX_RIGHT, KN_EACH_LANE(KN_WORDS_ACROSS) KN_EACH_LANE(KN_PUT_WORDS))
#endif

KN_WIDE kn_matmul_amx(global const a_stored *restrict a, global const b_stored *restrict b, global c_stored *restrict c,
                      int m, int n, int k, KN_INDEX a_step, KN_INDEX b_step, KN_INDEX c_row, int batch_inner,
                      KN_INDEX a_outer, KN_INDEX a_inner, KN_INDEX b_outer, KN_INDEX b_inner, KN_INDEX c_outer,
                      KN_INDEX c_inner, int item_rows, int item_columns KN_EPILOGUE_PARAMETERS) {
    local ushort room[KN_ROOM];
    local float sums[KN_AMX_SIDE * KN_AMX_SIDE];
    const int batch = get_global_id(2), outer = batch / batch_inner, inner = batch % batch_inner;
    const int row0 = get_global_id(0) * item_rows, row_end = min(row0 + item_rows, m);
    const int column0 = get_global_id(1) * item_columns, column_end = min(column0 + item_columns, n);
    const int chunks = (k + KN_AMX_CHUNK - 1) / KN_AMX_CHUNK;
    local ushort *left = room, *right = room + chunks * 2 * KN_AMX_STEP;
    a += outer * a_outer + inner * a_inner;
    b += outer * b_outer + inner * b_inner;
    c += outer * c_outer + inner * c_inner;
    pack_right(b + column0 * (KN_RIGHT_ALONG ? b_step : 1), b_step, column_end - column0, k, chunks, right);
    amx_begin();
    for (int first = row0; first < row_end; first += KN_AMX_SIDE) {
        pack_left(a + first * (KN_LEFT_ALONG ? a_step : 1), a_step, min(KN_AMX_SIDE, row_end - first), k, chunks, left);
        for (int column = column0; column < column_end; column += KN_AMX_SIDE) {
            amx_multiply(left, right + (column - column0) / 16 * chunks * KN_AMX_STEP, chunks, chunks, chunks, sums);
            for (KN_INDEX row = first; row < min(first + KN_AMX_SIDE, row_end); row++)
                for (int v = 0; v < 2 && column + v * KN_WIDTH < column_end; v++) {
                    const KN_INDEX at = column + v * KN_WIDTH;
                    KN_FINISH(load((row - first) * 2 + v, sums), at, column_end - at, 0, 1)
                }
        }
    }
    amx_end();
}
