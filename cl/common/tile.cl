/* The tile of the many-thread matrix products and convolutions: a work-group computes KN_TILE_M x KN_TILE_N
 * sums, each work-item KN_ITEM_M x KN_ITEM_N of them in registers. Slices of KN_TILE_K along the sum are loaded into
 * local memory: left (KN_TILE_K,KN_TILE_M) and right (KN_TILE_K,KN_TILE_N), with rows padded against
 * bank conflicts.
 *
 * Defines, with their defaults:
 *   KN_T, KN_A            types of elements in memory, and of products and sums (common/types.cl)
 *   KN_TILE_M, _N, _K     64, 64, 16: the tile and the depth of a slice
 *   KN_ITEM_M, _N         8, 4: sums of one work-item, multiples of 4 that divide the tile
 * and those of common/epilogue.cl. */
#ifndef KN_TILE_CL
#define KN_TILE_CL
#include "common/epilogue.cl"
#include "common/types.cl"
#ifndef KN_TILE_M
#define KN_TILE_M 64
#endif
#ifndef KN_TILE_N
#define KN_TILE_N 64
#endif
#ifndef KN_TILE_K
#define KN_TILE_K 16
#endif
#ifndef KN_ITEM_M
#define KN_ITEM_M 8
#endif
#ifndef KN_ITEM_N
#define KN_ITEM_N 4
#endif

#define KN_ITEMS_M (KN_TILE_M / KN_ITEM_M)
#define KN_ITEMS_N (KN_TILE_N / KN_ITEM_N)
#define KN_ITEMS (KN_ITEMS_M * KN_ITEMS_N)
#define KN_LEFT_ROW (KN_TILE_M + 4)
#define KN_RIGHT_ROW (KN_TILE_N + 4)

#define KN_CONCAT_(a, b) a##b
#define KN_CONCAT(a, b) KN_CONCAT_(a, b)
#define KN_A4 KN_CONCAT(KN_A, 4)
#define KN_TO_A KN_CONCAT(convert_, KN_A)
#define KN_TO_A4 KN_CONCAT(convert_, KN_A4)
#define KN_TO_T KN_CONCAT(convert_, KN_T)
#define KN_WORK_GROUP __attribute__((reqd_work_group_size(KN_ITEMS, 1, 1)))

/* A work-item's sums are in groups of four rows and four columns, so that adjacent work-items access adjacent
 * memory: rows KN_ROW(0) … and columns KN_COLUMN(0), +1, +2, +3, KN_COLUMN(1) … of the tile. */
#define KN_ROW(i) ((i) / 4 * (KN_ITEMS_M * 4) + (int)get_local_id(0) / KN_ITEMS_N * 4 + (i) % 4)
#define KN_COLUMN(j) ((j) * (KN_ITEMS_N * 4) + (int)get_local_id(0) % KN_ITEMS_N * 4)

typedef struct sums {
    KN_A4 at[KN_ITEM_M][KN_ITEM_N / 4];
} sums;

static inline void sums_clear(sums *sums) {
#pragma unroll
    for (int i = 0; i < KN_ITEM_M; i++)
#pragma unroll
        for (int j = 0; j < KN_ITEM_N / 4; j++)
            sums->at[i][j] = 0;
}

/* One column of left times one row of right, KN_TILE_K times. */
static inline void sums_add(sums *sums, local const KN_A *left, local const KN_A *right) {
    left += KN_ROW(0);
    right += KN_COLUMN(0);
    for (int k = 0; k < KN_TILE_K; k++, left += KN_LEFT_ROW, right += KN_RIGHT_ROW) {
        KN_A4 columns[KN_ITEM_N / 4];
#pragma unroll
        for (int j = 0; j < KN_ITEM_N / 4; j++)
            columns[j] = vload4(0, right + j * (KN_ITEMS_N * 4));
#pragma unroll
        for (int i = 0; i < KN_ITEM_M; i += 4) {
            const KN_A4 rows = vload4(0, left + i * KN_ITEMS_M);
#pragma unroll
            for (int j = 0; j < KN_ITEM_N / 4; j++) {
                sums->at[i + 0][j] += rows.s0 * columns[j];
                sums->at[i + 1][j] += rows.s1 * columns[j];
                sums->at[i + 2][j] += rows.s2 * columns[j];
                sums->at[i + 3][j] += rows.s3 * columns[j];
            }
        }
    }
}
#endif
