/* Matrix products whose work-items read operands from global memory, for devices whose local memory is part of it: no
 * slices, no barrier. Sums, tiles and the order of additions are those of common/tile.cl. Elements are read in steps of
 * four along the sum, by blocks of four along a side. Included by matmul/tiled.cl, which defines KN_VECTOR and
 * KN_LOAD. */
#ifndef KN_DIRECT_CL
#define KN_DIRECT_CL
#define KN_STEP 4

/* Element `l` along the sum, at `i` of a side that ends at `end`; beyond it, the last one, in sums that are not stored.
 * across: the side is along rows of `stride` elements; otherwise the sum is. */
#define KN_NUMBER(kind, from, across, i, end, stride, l)                                                     \
    KN_TO_A(KN_READ_AS(kind, (from) + ((across) ? (l) * (KN_INDEX)(stride) + min(i, (end) - 1)               \
                                                : min(i, (end) - 1) * (KN_INDEX)(stride) + (l))))
#define KN_NUMBERS_ACROSS(kind, from, across, i, end, stride, l)                                             \
    (KN_A4)(KN_NUMBER(kind, from, across, i, end, stride, l), KN_NUMBER(kind, from, across, (i) + 1, end, stride, l), \
            KN_NUMBER(kind, from, across, (i) + 2, end, stride, l), KN_NUMBER(kind, from, across, (i) + 3, end, stride, l))

/* Sets block[l] to the four elements of a side starting at `i`, for each l of a step. */
#if KN_VECTOR == 4
#define KN_LINE(kind, from, i, end, stride) KN_LOAD(kind, (from) + min(i, (end) - 1) * (KN_INDEX)(stride))
#define KN_READ_BLOCK(block, kind, from, across, i, end, stride)                                             \
    if (across) {                                                                                            \
        KN_UNROLL for (int l = 0; l < KN_STEP; l++)                                                          \
            block[l] = KN_LOAD(kind, (from) + l * (KN_INDEX)(stride) + min(i, (end) - 4));                   \
    } else {                                                                                                 \
        const KN_A4 p = KN_LINE(kind, from, i, end, stride), q = KN_LINE(kind, from, (i) + 1, end, stride),  \
                    r = KN_LINE(kind, from, (i) + 2, end, stride), s = KN_LINE(kind, from, (i) + 3, end, stride); \
        block[0] = (KN_A4)(p.s0, q.s0, r.s0, s.s0);                                                          \
        block[1] = (KN_A4)(p.s1, q.s1, r.s1, s.s1);                                                          \
        block[2] = (KN_A4)(p.s2, q.s2, r.s2, s.s2);                                                          \
        block[3] = (KN_A4)(p.s3, q.s3, r.s3, s.s3);                                                          \
    }
#else
#define KN_READ_BLOCK(block, kind, from, across, i, end, stride)                                             \
    KN_UNROLL for (int l = 0; l < KN_STEP; l++)                                                              \
        block[l] = KN_NUMBERS_ACROSS(kind, from, across, i, end, stride, l);
#endif

/* The same for only the first l of a step. */
#define KN_READ_FIRST(block, kind, from, across, i, end, stride)                                             \
    block[0] = KN_NUMBERS_ACROSS(kind, from, across, i, end, stride, 0);

/* Adds `steps` along the sum, read by READ, to `sums`, and rows of A to a_sums if these are needed. */
#ifdef KN_ROW_SUMS
#define KN_ADD_ROWS(f, l) a_sums[f] += a_block[f][l];
#else
#define KN_ADD_ROWS(f, l)
#endif
#define KN_ADD_STEP(steps, READ)                                                                             \
    {                                                                                                        \
        KN_A4 a_block[KN_ITEM_M / 4][KN_STEP], b_block[KN_ITEM_N / 4][KN_STEP];                              \
        KN_UNROLL for (int f = 0; f < KN_ITEM_M / 4; f++) {                                                  \
            READ(a_block[f], KN_HALF_a, a, KN_TRANSPOSE_A, row0 + KN_ROW(f * 4), m, KN_TRANSPOSE_A ? m : k)  \
        }                                                                                                    \
        KN_UNROLL for (int j = 0; j < KN_ITEM_N / 4; j++) {                                                  \
            READ(b_block[j], KN_HALF_b, b, !KN_TRANSPOSE_B, column0 + KN_COLUMN(j), n, KN_TRANSPOSE_B ? k : n) \
        }                                                                                                    \
        KN_UNROLL for (int l = 0; l < steps; l++)                                                            \
            KN_UNROLL for (int f = 0; f < KN_ITEM_M / 4; f++) {                                              \
                KN_ADD_ROWS(f, l)                                                                            \
                KN_UNROLL for (int j = 0; j < KN_ITEM_N / 4; j++) {                                          \
                    sums.at[f * 4 + 0][j] += a_block[f][l].s0 * b_block[j][l];                               \
                    sums.at[f * 4 + 1][j] += a_block[f][l].s1 * b_block[j][l];                               \
                    sums.at[f * 4 + 2][j] += a_block[f][l].s2 * b_block[j][l];                               \
                    sums.at[f * 4 + 3][j] += a_block[f][l].s3 * b_block[j][l];                               \
                }                                                                                            \
            }                                                                                                \
        a += KN_TRANSPOSE_A ? steps * (KN_INDEX)m : steps;                                                   \
        b += KN_TRANSPOSE_B ? steps : steps * (KN_INDEX)n;                                                   \
    }
#define KN_ADD_DIRECTLY                                                                                      \
    int left = k_end - k_first;                                                                              \
    for (; left >= KN_STEP; left -= KN_STEP)                                                                 \
        KN_ADD_STEP(KN_STEP, KN_READ_BLOCK)                                                                  \
    for (; left > 0; left--)                                                                                 \
        KN_ADD_STEP(1, KN_READ_FIRST)
#endif
