/* Rows of weights in quantized blocks as float32.
 *
 *   KN_BLOCKS 8    the type of the blocks (common/blocks.cl)
 *   KN_HALF_y 0    the storage type of y (common/storage.cl)
 *
 *   kn_widen_blocks(codes, y, count, total, first, chunk)                  y = blocks from `first` on
 *   kn_embedding_blocks(table, numbers, y, count, rows, groups, chunk)     y(i) = row numbers(i) of the table
 *     an index out of range gives NaN
 * codes and table are arranged blocks: `total`, or (rows,groups / KN_BLOCK_GROUPS). A group is 16 elements of y, which
 * has `count` groups; a work-item computes `chunk` of them. */
#include "common/blocks.cl"
#include "common/storage.cl"
#include "common/types.cl"
#include "common/wanted.cl"
typedef KN_STORED(KN_HALF_y) y_stored;

static inline void store_group(const float16 weights, global y_stored *to) {
    KN_WRITE_8_AS(KN_HALF_y, weights.lo, to);
    KN_WRITE_8_AS(KN_HALF_y, weights.hi, to + 8);
}

#if KN_WANTED(kn_widen_blocks)
kernel void kn_widen_blocks(global const uchar *restrict codes, global y_stored *restrict y, const KN_INDEX count,
                            const KN_INDEX total, const KN_INDEX first, const KN_INDEX chunk) {
    const KN_INDEX begin = get_global_id(0) * chunk, end = min(begin + chunk, count);
    for (KN_INDEX i = begin; i < end; i++)
        store_group(kn_weights_at(codes, total, first + i / KN_BLOCK_GROUPS, (int)(i % KN_BLOCK_GROUPS)), y + 16 * i);
}
#endif

#if KN_WANTED(kn_embedding_blocks)
kernel void kn_embedding_blocks(global const uchar *restrict table, global const int *restrict numbers,
                                global y_stored *restrict y, const KN_INDEX count, const KN_INDEX rows,
                                const KN_INDEX groups, const KN_INDEX chunk) {
    const KN_INDEX begin = get_global_id(0) * chunk, end = min(begin + chunk, count);
    const KN_INDEX blocks = groups / KN_BLOCK_GROUPS;
    for (KN_INDEX i = begin; i < end; i++) {
        const KN_INDEX number = numbers[i / groups], group = i % groups;
        const bool known = number >= 0 && number < rows;
        float16 weights = NAN;
        if (known)
            weights = kn_weights_at(table, rows * blocks, number * blocks + group / KN_BLOCK_GROUPS,
                                    (int)(group % KN_BLOCK_GROUPS));
        store_group(weights, y + 16 * i);
    }
}
#endif
