/* Work-groups in which each KN_LANES work-items make one result together, for devices with many threads.
 *
 *   KN_ITEMS     64  work-items of a group, a power of two
 *   KN_LANES      8  of them per result, a power of two, at most KN_ITEMS
 *   KN_ADJACENT   1  1: the lanes of a result are neighbours (its elements are contiguous); 0: results are
 *   KN_A      float  type that is reduced */
#ifndef KN_ITEMS
#define KN_ITEMS 64
#endif
#ifndef KN_LANES
#define KN_LANES 8
#endif
#ifndef KN_ADJACENT
#define KN_ADJACENT 1
#endif
#ifndef KN_A
#define KN_A float
#endif

/* Results of a group. */
#define KN_SLOTS (KN_ITEMS / KN_LANES)
#if KN_ADJACENT
#define KN_LANE ((int)get_local_id(0) % KN_LANES)
#define KN_SLOT ((int)get_local_id(0) / KN_LANES)
#else
#define KN_LANE ((int)get_local_id(0) / KN_SLOTS)
#define KN_SLOT ((int)get_local_id(0) % KN_SLOTS)
#endif

/* NaN wins over any number, as it does in the references. */
#define KN_LARGER(a, b) ((((a) > (b)) | ((a) != (a))) ? (a) : (b))
#define KN_SMALLER(a, b) ((((a) < (b)) | ((a) != (a))) ? (a) : (b))
#define KN_SUM_OF(a, b) ((a) + (b))

/* A function that reduces `value` over the lanes of each slot, in a fixed order; every lane gets the result.
 * All work-items of the group must call it, whether they have something to add or not. */
#define KN_TREE(name, combine)                                                                               \
    static KN_A name(local KN_A *scratch, const int slot, const int lane, const KN_A value) {                \
        local KN_A *row = scratch + slot * KN_LANES;                                                         \
        row[lane] = value;                                                                                   \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                        \
        for (int half_lanes = KN_LANES / 2; half_lanes > 0; half_lanes /= 2) {                               \
            if (lane < half_lanes) row[lane] = combine(row[lane], row[lane + half_lanes]);                   \
            barrier(CLK_LOCAL_MEM_FENCE);                                                                    \
        }                                                                                                    \
        const KN_A result = row[0];                                                                          \
        barrier(CLK_LOCAL_MEM_FENCE); /* the next call may write */                                          \
        return result;                                                                                       \
    }
