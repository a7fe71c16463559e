/* Moments of channels, for batch norm. Channels come in blocks of KN_BLOCK lanes.
 *
 * Elements are added in runs, as sums of differences from the run's first element, and runs are combined by
 * their means and sums of squares, so that a large mean costs no precision.
 *
 * Defines, with their defaults:
 *   KN_BLOCK 1           lanes: 1, or 4, 8, 16 in the blocked layout
 *   KN_RUN 128           elements in a run, at most
 *   KN_PARTIALS global   where moments_of_parts finds the moments of parts
 *   KN_T, KN_A           types of the elements, and of sums and statistics (common/types.cl)
 *   KN_HALF_x, _y, _dy, _dx 0   whether these are stored in 16 bits (common/storage.cl) */
#ifndef KN_MOMENTS_CL
#define KN_MOMENTS_CL
#include "common/storage.cl"
#include "common/types.cl"
#ifndef KN_BLOCK
#define KN_BLOCK 1
#endif
#ifndef KN_RUN
#define KN_RUN 128
#endif
#ifndef KN_PARTIALS
#define KN_PARTIALS global
#endif

#define KN_CONCAT_(a, b) a##b
#define KN_CONCAT(a, b) KN_CONCAT_(a, b)
#if KN_BLOCK == 1
#define KN_LANES(type) type
#define KN_LOAD(at, from) (from)[at]
#define KN_STORE(value, at, to) (to)[at] = (value)
#define KN_PARTIAL(at, from) (from)[at]
#define KN_LOAD_AS(kind, at, from) KN_READ_AS(kind, (from) + (at))
#define KN_STORE_AS(kind, value, at, to) KN_WRITE_AS(kind, value, (to) + (at))
#else
#define KN_LANES(type) KN_CONCAT(type, KN_BLOCK)
#define KN_PARTIAL(at, from) KN_CONCAT(vload, KN_BLOCK)(0, (from) + (at))
#if defined(__x86_64__) || defined(__aarch64__)
/* Whole vectors at once: some implementations split vload and vstore. */
typedef KN_LANES(KN_T) loose_lanes __attribute__((aligned(4)));
#define KN_LOAD(at, from) (*(global const loose_lanes *)((from) + (size_t)(at)*KN_BLOCK))
#define KN_STORE(value, at, to) (*(global loose_lanes *)((to) + (size_t)(at)*KN_BLOCK) = (value))
#else
#define KN_LOAD(at, from) KN_CONCAT(vload, KN_BLOCK)(at, from)
#define KN_STORE(value, at, to) KN_CONCAT(vstore, KN_BLOCK)(value, at, to)
#endif
#endif
#if KN_BLOCK > 1 /* with wide vectors, 16-bit images are never blocked */
#define KN_LOAD_AS(kind, at, from) KN_LOAD(at, from)
#define KN_STORE_AS(kind, value, at, to) KN_STORE(value, at, to)
#endif
#define KN_TO(type, value) KN_CONCAT(convert_, KN_LANES(type))(value)
typedef KN_LANES(KN_A) lanes;
#define KN_READ(at, from) KN_TO(KN_A, KN_LOAD(at, from))
/* Loads x or dy, which may have 16 bits, by name. */
#define KN_SAMPLE(at, from) KN_TO(KN_A, KN_LOAD_AS(KN_HALF_##from, at, from))

/* The number of elements, their mean, and the sum of squared differences from it: a type, moments_merge, and
 * moments_of_run, computed from the sums of the differences of `count` elements from `start`, and of their squares. The
 * names of the functions begin with that of the type. */
#define KN_DEFINE_MOMENTS(moments, lanes)                                                                    \
    typedef struct moments {                                                                                 \
        KN_A count;                                                                                          \
        lanes mean, squares;                                                                                 \
    } moments;                                                                                               \
    static inline moments moments##_merge(moments left, moments right) {                                     \
        if (right.count == 0) return left;                                                                   \
        moments both;                                                                                        \
        both.count = left.count + right.count;                                                               \
        const lanes apart = right.mean - left.mean;                                                          \
        both.mean = left.mean + apart * (right.count / both.count);                                          \
        both.squares =                                                                                       \
            left.squares + right.squares + apart * apart * (left.count * (right.count / both.count));        \
        return both;                                                                                         \
    }                                                                                                        \
    static inline moments moments##_of_run(KN_A count, lanes start, lanes sum, lanes squares) {              \
        const lanes mean = sum / count;                                                                      \
        const moments run = {count, start + mean, squares - sum * mean};                                     \
        return run;                                                                                          \
    }
KN_DEFINE_MOMENTS(moments, lanes)

/* Combines the moments of parts in order, in runs as for elements, as sums of differences from the mean of a run's
 * first part. The three values of a part are `step` apart, and those of the next part 3 * step further. */
static inline void moments_of_parts(moments *all, KN_PARTIALS const KN_A *from, int step, int parts) {
    all->count = 0;
    all->mean = all->squares = 0;
    for (int first = 0; first < parts; first += KN_RUN) {
        const lanes start = KN_PARTIAL(step, from);
        KN_A count = 0;
        lanes sum = 0, squares = 0;
        for (int p = first; p < min(first + KN_RUN, parts); p++, from += 3 * step) {
            const KN_A more = from[0];
            const lanes apart = KN_PARTIAL(step, from) - start;
            count += more;
            sum += apart * more;
            squares += KN_PARTIAL(2 * step, from) + apart * apart * more;
        }
        *all = moments_merge(*all, moments_of_run(count, start, sum, squares));
    }
}

/* What a batch norm needs of the moments of a block. */
static inline lanes inverse_of(moments all, KN_A epsilon) {
    return 1 / sqrt(all.squares / max(all.count, (KN_A)1) + epsilon);
}
/* The next running statistics may alias the old ones. They do not change if there are no elements. */
static inline void store_statistics(moments all, int block, global const KN_T *running_mean,
                                    global const KN_T *running_variance, global KN_T *mean,
                                    global KN_T *inverse, global KN_T *next_mean, global KN_T *next_variance,
                                    KN_A epsilon, KN_A momentum) {
    const KN_A weight = all.count > 0 ? momentum : 0;
    const lanes unbiased = all.squares / max(all.count - 1, (KN_A)1);
    const lanes old_mean = KN_READ(block, running_mean), old_variance = KN_READ(block, running_variance);
    KN_STORE(KN_TO(KN_T, all.mean), block, mean);
    KN_STORE(KN_TO(KN_T, inverse_of(all, epsilon)), block, inverse);
    KN_STORE(KN_TO(KN_T, old_mean + weight * (all.mean - old_mean)), block, next_mean);
    KN_STORE(KN_TO(KN_T, old_variance + weight * (unbiased - old_variance)), block, next_variance);
}
#endif
