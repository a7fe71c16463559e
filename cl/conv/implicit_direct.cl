/* Convolutions as matrix products whose work-items read both sides from global memory, for devices whose local memory
 * is part of it. Sums, tiles and the order of additions are those of common/tile.cl. Elements are read in steps of four
 * along the sum, by blocks of four along a side. Included by conv/implicit_tile.cl. */
#ifndef KN_IMPLICIT_DIRECT_CL
#define KN_IMPLICIT_DIRECT_CL
#define KN_STEP 4
#define KN_LOCAL_MEMORY

/* Places of this work-item's columns: of each, or of the first of four whose pixels are adjacent. */
#define KN_COLUMN_VECTOR (KN_RIGHT_ACROSS ? KN_RIGHT_VECTOR : 1)
#define KN_PLACES (KN_ITEM_N / KN_COLUMN_VECTOR)
#define KN_PLACE_COLUMN(q) (KN_COLUMN((q) * KN_COLUMN_VECTOR / 4) + (q) * KN_COLUMN_VECTOR % 4)
#define KN_EACH_PLACE                                                                                        \
    place places[KN_PLACES];                                                                                 \
    KN_UNROLL for (int q = 0; q < KN_PLACES; q++)

/* block[0] … block[3] = columns of the matrix with the rows a, b, c and d. */
#define KN_TRANSPOSE(block, a, b, c, d)                                                                      \
    block[0] = (KN_A4)(a.s0, b.s0, c.s0, d.s0);                                                              \
    block[1] = (KN_A4)(a.s1, b.s1, c.s1, d.s1);                                                              \
    block[2] = (KN_A4)(a.s2, b.s2, c.s2, d.s2);                                                              \
    block[3] = (KN_A4)(a.s3, b.s3, c.s3, d.s3);

/* Sets block[l] to the four elements of the left side starting at row `i`, for each of the `steps` entries; rows beyond
 * the last repeat it, in sums that are not stored. */
#define KN_LEFT_NUMBER(i, l)                                                                                 \
    KN_LOAD_AS_1(KN_LEFT_HALF,                                                                               \
                 KN_ELEMENT(KN_LEFT_HALF, left_from, min(i, row_end - 1) * left_row + entries[l].left))
#define KN_LEFT_SINGLY(block, steps, i)                                                                      \
    KN_UNROLL for (int l = 0; l < steps; l++)                                                                \
        block[l] = (KN_A4)(KN_LEFT_NUMBER(i, l), KN_LEFT_NUMBER((i) + 1, l), KN_LEFT_NUMBER((i) + 2, l),     \
                           KN_LEFT_NUMBER((i) + 3, l));
#if KN_LEFT_VECTOR == 4 && KN_LEFT_ACROSS
#define KN_READ_LEFT(block, steps, i)                                                                        \
    KN_UNROLL for (int l = 0; l < steps; l++)                                                                \
        block[l] = KN_LOAD_SIDE(KN_LEFT, left_from, min(i, row_end - 4) * left_row + entries[l].left);
#elif KN_LEFT_VECTOR == 4
#define KN_LEFT_LINE(i) KN_LOAD_SIDE(KN_LEFT, left_from, min(i, row_end - 1) * left_row + entries[0].left)
#define KN_READ_LEFT(block, steps, i)                                                                        \
    if (steps == KN_STEP) {                                                                                  \
        const KN_A4 p = KN_LEFT_LINE(i), q = KN_LEFT_LINE((i) + 1), r = KN_LEFT_LINE((i) + 2),               \
                    s = KN_LEFT_LINE((i) + 3);                                                               \
        KN_TRANSPOSE(block, p, q, r, s)                                                                      \
    } else {                                                                                                 \
        KN_LEFT_SINGLY(block, steps, i)                                                                      \
    }
#else
#define KN_READ_LEFT KN_LEFT_SINGLY
#endif

/* The same of the right side, for group `j` of this work-item's columns; pixels outside the image are 0. */
#define KN_RIGHT_NUMBER(q, l)                                                                                \
    (is_inside(places[q], entries[l], window)                                                                \
         ? KN_LOAD_AS_1(KN_RIGHT_HALF, KN_ELEMENT(KN_RIGHT_HALF, right_from, places[q].at + entries[l].at))  \
         : (KN_A)0)
#define KN_RIGHT_SINGLY(block, steps, j)                                                                     \
    KN_UNROLL for (int l = 0; l < steps; l++)                                                                \
        block[l] = (KN_A4)(KN_RIGHT_NUMBER((j) * 4, l), KN_RIGHT_NUMBER((j) * 4 + 1, l),                     \
                           KN_RIGHT_NUMBER((j) * 4 + 2, l), KN_RIGHT_NUMBER((j) * 4 + 3, l));
#define KN_RIGHT_LINE(q, l)                                                                                  \
    (is_inside(places[q], entries[l], window)                                                                \
         ? KN_LOAD_SIDE(KN_RIGHT, right_from, places[q].at + entries[l].at)                                  \
         : (KN_A4)0)
#if KN_RIGHT_VECTOR == 4 && KN_RIGHT_ACROSS
#define KN_READ_RIGHT(block, steps, j)                                                                       \
    KN_UNROLL for (int l = 0; l < steps; l++) block[l] = KN_RIGHT_LINE(j, l);
#elif KN_RIGHT_VECTOR == 4
#define KN_READ_RIGHT(block, steps, j)                                                                       \
    if (steps == KN_STEP) {                                                                                  \
        const KN_A4 p = KN_RIGHT_LINE((j) * 4, 0), q = KN_RIGHT_LINE((j) * 4 + 1, 0),                        \
                    r = KN_RIGHT_LINE((j) * 4 + 2, 0), s = KN_RIGHT_LINE((j) * 4 + 3, 0);                    \
        KN_TRANSPOSE(block, p, q, r, s)                                                                      \
    } else {                                                                                                 \
        KN_RIGHT_SINGLY(block, steps, j)                                                                     \
    }
#else
#define KN_READ_RIGHT KN_RIGHT_SINGLY
#endif

/* Adds the next `steps` elements along the sum. */
#define KN_ADD_STEP(steps)                                                                                   \
    {                                                                                                        \
        entry entries[steps];                                                                                \
        KN_UNROLL for (int l = 0; l < steps; l++) {                                                          \
            entry entry = {0, 0, 0, 0};                                                                      \
            KN_WRITE_ENTRY(k + l)                                                                            \
            entries[l] = entry;                                                                              \
        }                                                                                                    \
        KN_A4 left_block[KN_ITEM_M / 4][KN_STEP], right_block[KN_ITEM_N / 4][KN_STEP];                       \
        KN_UNROLL for (int f = 0; f < KN_ITEM_M / 4; f++) {                                                  \
            KN_READ_LEFT(left_block[f], steps, row0 + KN_ROW(f * 4))                                         \
        }                                                                                                    \
        KN_UNROLL for (int j = 0; j < KN_ITEM_N / 4; j++) { KN_READ_RIGHT(right_block[j], steps, j) }        \
        KN_UNROLL for (int l = 0; l < steps; l++)                                                            \
            KN_UNROLL for (int f = 0; f < KN_ITEM_M / 4; f++)                                                \
                KN_UNROLL for (int j = 0; j < KN_ITEM_N / 4; j++) {                                          \
                    sums.at[f * 4 + 0][j] += left_block[f][l].s0 * right_block[j][l];                        \
                    sums.at[f * 4 + 1][j] += left_block[f][l].s1 * right_block[j][l];                        \
                    sums.at[f * 4 + 2][j] += left_block[f][l].s2 * right_block[j][l];                        \
                    sums.at[f * 4 + 3][j] += left_block[f][l].s3 * right_block[j][l];                        \
                }                                                                                            \
        k += steps;                                                                                          \
    }
/* See conv/implicit_tile.cl; k_first is a multiple of KN_STEP. */
#define KN_IMPLICIT_PRODUCT                                                                                  \
    sums sums;                                                                                               \
    sums_clear(&sums);                                                                                       \
    int k = k_first;                                                                                         \
    while (k + KN_STEP <= k_end)                                                                             \
        KN_ADD_STEP(KN_STEP)                                                                                 \
    while (k < k_end)                                                                                        \
        KN_ADD_STEP(1)
#endif
