/* Batch norm in training: statistics of each channel, normalisation, and the gradients.
 *
 * Channels come in blocks of KN_BLOCK lanes (1 in the plain layout): x is (images,blocks,inner,KN_BLOCK). A
 * channel has total = images * inner elements; they are summed in `parts` of `part` elements each, chosen by
 * the shape alone, and the parts in order. A work-group of KN_ITEMS work-items makes one part of one block.
 * Statistics are gathered in runs of KN_RUN elements, as sums of differences from the run's first element,
 * and runs joined by their means and sums of squares: no digits are lost to a mean that is large.
 *
 * Defines, with their defaults:
 *   KN_BLOCK 1     lanes: 1, or 4, 8, 16 in the blocked layout
 *   KN_ITEMS 1     work-items that share a part; a power of two
 *   KN_RUN 128     elements in a run
 *   KN_T float     type of the numbers
 *   KN_A KN_T      type of sums, and of statistics in scratch memory
 *   KN_INDEX int   type of offsets
 *   KN_EPILOGUE_PARAMETERS and KN_EPILOGUE(v, outer, middle, inner), with lanes KN_EPILOGUE_VECTOR:
 *                  pointwise work on each result of kn_batch_norm_apply
 *
 * kn_batch_norm_statistics(x, shares, blocks, inner, total, part)
 *   work-groups (parts, blocks); shares is (parts,2,C): mean, and sum of squared differences from it.
 * kn_batch_norm_finish(shares, running_mean, running_variance, mean, inverse, next_mean, next_variance,
 *                      channels, total, part, parts, epsilon, momentum)
 *   one work-item per channel; inverse is 1 / sqrt(variance + epsilon).
 * kn_batch_norm_apply(x, weight, bias, mean, inverse, y, blocks, inner, count, share, middle_size,
 *                     inner_size, EPILOGUE)
 *   work-item i makes elements i * share on, of count = images * blocks * inner, lanes not counted. The last
 *   two numbers are the epilogue's axes in the plain layout.
 * kn_batch_norm_sums(x, dy, mean, inverse, shares, blocks, inner, total, part)
 *   work-groups (parts, blocks); shares is (parts,2,C): sums of dy, and of dy times the normalised x.
 * kn_batch_norm_gather(shares, dweight, dbias, channels, parts)
 *   one work-item per channel.
 * kn_batch_norm_data(x, dy, weight, mean, inverse, dweight, dbias, dx, blocks, inner, count, share, total)
 *   as apply.
 * kn_batch_norm_whole(x, weight, bias, running_mean, running_variance, shares, y, mean, inverse, next_mean,
 *                     next_variance, blocks, inner, total, part, parts, stream, epsilon, momentum, EPILOGUE)
 * kn_batch_norm_whole_gradient(x, dy, weight, mean, inverse, shares, dx, dweight, dbias, blocks, inner, total,
 *                              part, parts, stream)
 *   the three steps of one direction at once, with KN_ITEMS 1 and lanes: a work-item for each block of channels.
 *   stream: 1 where the result is too large for caches.
 * next_mean and next_variance may lie over the running ones. */
#include "common/wanted.cl"
#ifndef KN_BLOCK
#define KN_BLOCK 1
#endif
#ifndef KN_ITEMS
#define KN_ITEMS 1
#endif
#ifndef KN_RUN
#define KN_RUN 128
#endif
#ifndef KN_T
#define KN_T float
#endif
#ifndef KN_A
#define KN_A KN_T
#endif
#ifndef KN_INDEX
#define KN_INDEX int
#endif
#ifndef KN_EPILOGUE_PARAMETERS
#define KN_EPILOGUE_PARAMETERS
#define KN_EPILOGUE(v, outer, middle, inner) (v)
#define KN_EPILOGUE_VECTOR(v, outer, middle, inner) (v)
#endif

#include "common/stream.cl"
#define KN_JOIN_(a, b) a##b
#define KN_JOIN(a, b) KN_JOIN_(a, b)
#if KN_BLOCK == 1
#define KN_LANES(type) type
#define KN_LOAD(at, from) (from)[at]
#define KN_STORE(value, at, to) (to)[at] = (value)
#define KN_KEEP KN_STORE
#define KN_RESULT(v, outer, middle, inner) KN_EPILOGUE(v, outer, middle, inner)
#else
#define KN_LANES(type) KN_JOIN(type, KN_BLOCK)
#define KN_LOAD(at, from) KN_JOIN(vload, KN_BLOCK)(at, from)
#define KN_STORE(value, at, to) KN_JOIN(vstore, KN_BLOCK)(value, at, to)
#define KN_KEEP KN_STORE
#if defined(__x86_64__) || defined(__aarch64__)
/* Lanes as one, which the functions are not on some implementations. */
typedef KN_LANES(KN_T) loose_lanes __attribute__((aligned(4)));
#undef KN_LOAD
#undef KN_STORE
#undef KN_KEEP
#define KN_LOAD(at, from) (*(global const loose_lanes *)((from) + (size_t)(at)*KN_BLOCK))
#define KN_STORE(value, at, to) (*(global loose_lanes *)((to) + (size_t)(at)*KN_BLOCK) = (value))
#define KN_KEEP(value, at, to) KN_JOIN(vstore, KN_BLOCK)(value, at, to)
#endif
#define KN_RESULT(v, outer, middle, inner) KN_EPILOGUE_VECTOR(v, outer, middle, inner)
#endif
#define KN_TO(type, value) KN_JOIN(convert_, KN_LANES(type))(value)
typedef KN_LANES(KN_A) lanes;
#define KN_READ(at, from) KN_TO(KN_A, KN_LOAD(at, from))
#define KN_WORK_GROUP __attribute__((reqd_work_group_size(KN_ITEMS, 1, 1)))

/* Walks the elements of one block of channels from `element` in steps of KN_ITEMS; `at` is the place in x. */
typedef struct walk {
    int image, inside, step_images, step_inside;
} walk;
static inline walk walk_begin(int element, int inner) {
    const walk walk = {element / inner, element % inner, KN_ITEMS / inner, KN_ITEMS % inner};
    return walk;
}
static inline KN_INDEX walk_at(const walk *walk, int block, int blocks, int inner) {
    return ((KN_INDEX)walk->image * blocks + block) * inner + walk->inside;
}
static inline void walk_on(walk *walk, int inner) {
    walk->image += walk->step_images;
    walk->inside += walk->step_inside;
    if (walk->inside >= inner) {
        walk->inside -= inner;
        walk->image++;
    }
}

/* count elements with their mean and the sum of squares of their differences from it. */
typedef struct moments {
    KN_A count;
    lanes mean, squares;
} moments;
static inline moments moments_join(moments left, moments right) {
    if (right.count == 0) return left;
    moments both;
    both.count = left.count + right.count;
    const lanes apart = right.mean - left.mean;
    both.mean = left.mean + apart * (right.count / both.count);
    both.squares = left.squares + right.squares + apart * apart * (left.count * (right.count / both.count));
    return both;
}

/* Every KN_ITEMS-th element of a block from `element` to `end`. */
static inline moments moments_of(global const KN_T *x, int block, int blocks, int inner, int element,
                                 int end) {
    moments all = {0, 0, 0};
    walk walk = walk_begin(element, inner);
    while (element < end) {
        const lanes start = KN_READ(walk_at(&walk, block, blocks, inner), x);
        lanes sum = 0, squares = 0;
        int count = 0;
        for (; count < KN_RUN && element < end; count++, element += KN_ITEMS, walk_on(&walk, inner)) {
            const lanes apart = KN_READ(walk_at(&walk, block, blocks, inner), x) - start;
            sum += apart;
            squares += apart * apart;
        }
        const lanes mean = sum / (KN_A)count;
        const moments run = {count, start + mean, squares - sum * mean};
        all = moments_join(all, run);
    }
    return all;
}

/* shares (parts,2,channels) of one part: two numbers for each lane of a block. */
static inline void keep_share(lanes first, lanes second, int part, int block, int blocks,
                              global KN_A *shares) {
    shares += (KN_INDEX)part * 2 * blocks * KN_BLOCK;
    KN_KEEP(first, block, shares);
    KN_KEEP(second, blocks + block, shares);
}

#if KN_WANTED(kn_batch_norm_statistics)
KN_WORK_GROUP kernel void kn_batch_norm_statistics(global const KN_T *restrict x,
                                                   global KN_A *restrict shares, int blocks, int inner,
                                                   int total, int part) {
    const int item = get_local_id(0), block = get_group_id(1), first = get_group_id(0) * part;
    moments all = moments_of(x, block, blocks, inner, first + item, min(first + part, total));
#if KN_ITEMS > 1
    local KN_A counts[KN_ITEMS];
    local lanes means[KN_ITEMS], squares[KN_ITEMS];
    for (int reach = KN_ITEMS / 2; reach > 0; reach /= 2) {
        if (item >= reach && item < 2 * reach) {
            counts[item] = all.count;
            means[item] = all.mean;
            squares[item] = all.squares;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < reach) {
            const moments other = {counts[item + reach], means[item + reach], squares[item + reach]};
            all = moments_join(all, other);
        }
    }
#endif
    if (item == 0) keep_share(all.mean, all.squares, get_group_id(0), block, blocks, shares);
}
#endif

/* The statistics of channel c, of its parts in order. The next running ones may take the place of the old. */
static inline void finish_channel(int c, global const KN_A *shares, global const KN_T *running_mean,
                                  global const KN_T *running_variance, global KN_T *mean, global KN_T *inverse,
                                  global KN_T *next_mean, global KN_T *next_variance, int channels, int total,
                                  int part, int parts, float epsilon, float momentum) {
    KN_A count = 0, average = 0, squares = 0;
    for (int p = 0; p < parts; p++) {
        const KN_A more = min(part, total - p * part);
        const KN_A apart = shares[(KN_INDEX)p * 2 * channels + c] - average;
        count += more;
        average += apart * (more / count);
        squares +=
            shares[((KN_INDEX)p * 2 + 1) * channels + c] + apart * apart * ((count - more) * (more / count));
    }
    const KN_A variance = total > 0 ? squares / total : 0;
    const KN_A old_mean = running_mean[c], old_variance = running_variance[c];
    mean[c] = average;
    inverse[c] = 1 / sqrt(variance + epsilon);
    next_mean[c] = total > 0 ? old_mean + momentum * (average - old_mean) : old_mean;
    next_variance[c] =
        total > 0 ? old_variance + momentum * (squares / max(total - 1, 1) - old_variance) : old_variance;
}

#if KN_WANTED(kn_batch_norm_finish)
kernel void kn_batch_norm_finish(global const KN_A *restrict shares, global const KN_T *running_mean,
                                 global const KN_T *running_variance, global KN_T *restrict mean,
                                 global KN_T *restrict inverse, global KN_T *next_mean,
                                 global KN_T *next_variance, int channels, int total, int part, int parts,
                                 float epsilon, float momentum) {
    const int c = get_global_id(0);
    if (c >= channels) return;
    finish_channel(c, shares, running_mean, running_variance, mean, inverse, next_mean, next_variance,
                   channels, total, part, parts, epsilon, momentum);
}
#endif

/* One element of y, and one of dx. */
#define KN_PUT(value, i, to)                                                                                 \
    {                                                                                                        \
        const KN_LANES(KN_T) result = value;                                                                 \
        if (streams)                                                                                         \
            KN_STREAM(result, (global KN_LANES(KN_T) *)to + i, KN_STORE(result, i, to));                     \
        else                                                                                                 \
            KN_STORE(result, i, to);                                                                         \
    }
#define KN_NORMAL(i)                                                                                         \
    {                                                                                                        \
        const lanes value = (KN_READ(i, x) - center) * scale + shift;                                        \
        KN_PUT(KN_TO(KN_T, KN_RESULT(value, outer, middle, inside + i - first)), i, y);                      \
    }
#define KN_SLOPE(i)                                                                                          \
    {                                                                                                        \
        const lanes normal = (KN_READ(i, x) - center) * scale;                                               \
        KN_PUT(KN_TO(KN_T, slope * (KN_READ(i, dy) - (sum + normal * product))), i, dx);                     \
    }

/* The elements of a share, run by run: those of [i, run_end) lie in one channel, or block of them. */
#define KN_EACH_RUN(i)                                                                                       \
    const KN_INDEX start = get_global_id(0) * share, stop = min(start + share, count);                       \
    for (KN_INDEX i = start, run_end; i < stop; i = run_end)
#define KN_RUN_OF(i, size)                                                                                   \
    const int block = i / inner % blocks;                                                                    \
    run_end = min(stop, (i / size + 1) * size);

#if KN_WANTED(kn_batch_norm_apply)
kernel void kn_batch_norm_apply(global const KN_T *restrict x, global const KN_T *restrict weight,
                                global const KN_T *restrict bias, global const KN_T *restrict mean,
                                global const KN_T *restrict inverse, global KN_T *restrict y, int blocks,
                                int inner, KN_INDEX count, KN_INDEX share, KN_INDEX middle_size,
                                KN_INDEX inner_size KN_EPILOGUE_PARAMETERS) {
    const KN_INDEX size = min((KN_INDEX)inner, inner_size);
    const int streams = 0;
    KN_EACH_RUN(first) {
        KN_RUN_OF(first, size)
        const lanes scale = KN_READ(block, weight) * KN_READ(block, inverse);
        const lanes center = KN_READ(block, mean), shift = KN_READ(block, bias);
#if KN_BLOCK == 1
        const KN_INDEX inside = first % inner_size, middle = first / inner_size % middle_size,
                       outer = first / inner_size / middle_size;
#else
        const KN_INDEX inside = first % inner, middle = block * KN_BLOCK, outer = first / inner / blocks;
#endif
        for (KN_INDEX i = first; i < run_end; i++)
            KN_NORMAL(i)
    }
}
#endif

/* Sums of every KN_ITEMS-th element of a block from `element` to `end`: of dy, and of dy times the normalised
 * x. */
typedef struct slopes {
    lanes sum, product;
} slopes;
static inline slopes slopes_of(global const KN_T *x, global const KN_T *dy, lanes center, lanes scale,
                               int block, int blocks, int inner, int element, int end) {
    slopes all;
    all.sum = all.product = 0;
    walk walk = walk_begin(element, inner);
    while (element < end) {
        lanes sum = 0, product = 0;
        for (int count = 0; count < KN_RUN && element < end;
             count++, element += KN_ITEMS, walk_on(&walk, inner)) {
            const KN_INDEX at = walk_at(&walk, block, blocks, inner);
            const lanes slope = KN_READ(at, dy);
            sum += slope;
            product += slope * ((KN_READ(at, x) - center) * scale);
        }
        all.sum += sum;
        all.product += product;
    }
    return all;
}

#if KN_WANTED(kn_batch_norm_sums)
KN_WORK_GROUP kernel void kn_batch_norm_sums(global const KN_T *restrict x, global const KN_T *restrict dy,
                                             global const KN_T *restrict mean,
                                             global const KN_T *restrict inverse,
                                             global KN_A *restrict shares, int blocks, int inner, int total,
                                             int part) {
    const int item = get_local_id(0), block = get_group_id(1), first = get_group_id(0) * part;
    slopes all = slopes_of(x, dy, KN_READ(block, mean), KN_READ(block, inverse), block, blocks, inner,
                           first + item, min(first + part, total));
#if KN_ITEMS > 1
    local lanes sums[KN_ITEMS], products[KN_ITEMS];
    for (int reach = KN_ITEMS / 2; reach > 0; reach /= 2) {
        if (item >= reach && item < 2 * reach) {
            sums[item] = all.sum;
            products[item] = all.product;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < reach) {
            all.sum += sums[item + reach];
            all.product += products[item + reach];
        }
    }
#endif
    if (item == 0) keep_share(all.sum, all.product, get_group_id(0), block, blocks, shares);
}
#endif

static inline void gather_channel(int c, global const KN_A *shares, global KN_T *dweight, global KN_T *dbias,
                                  int channels, int parts) {
    KN_A sum = 0, product = 0;
    for (int p = 0; p < parts; p++) {
        sum += shares[(KN_INDEX)p * 2 * channels + c];
        product += shares[((KN_INDEX)p * 2 + 1) * channels + c];
    }
    dweight[c] = product;
    dbias[c] = sum;
}

#if KN_WANTED(kn_batch_norm_gather)
kernel void kn_batch_norm_gather(global const KN_A *restrict shares, global KN_T *restrict dweight,
                                 global KN_T *restrict dbias, int channels, int parts) {
    const int c = get_global_id(0);
    if (c >= channels) return;
    gather_channel(c, shares, dweight, dbias, channels, parts);
}
#endif

#if KN_WANTED(kn_batch_norm_data)
kernel void kn_batch_norm_data(global const KN_T *restrict x, global const KN_T *restrict dy,
                               global const KN_T *restrict weight, global const KN_T *restrict mean,
                               global const KN_T *restrict inverse, global const KN_T *restrict dweight,
                               global const KN_T *restrict dbias, global KN_T *restrict dx, int blocks,
                               int inner, KN_INDEX count, KN_INDEX share, int total) {
    const int streams = 0;
    KN_EACH_RUN(first) {
        KN_RUN_OF(first, inner)
        const lanes center = KN_READ(block, mean), scale = KN_READ(block, inverse);
        const lanes slope = KN_READ(block, weight) * scale;
        const lanes sum = KN_READ(block, dbias) / (KN_A)total,
                    product = KN_READ(block, dweight) / (KN_A)total;
        for (KN_INDEX i = first; i < run_end; i++)
            KN_SLOPE(i)
    }
}
#endif

/* ---- whole blocks of channels --------------------------------------------------------------------------- */

/* One work-item takes a block through all its steps, which finds the second time near what it read the first. The
 * sums are those of the parts: not a bit differs. */
#if KN_ITEMS == 1 && KN_BLOCK > 1
#if KN_WANTED(kn_batch_norm_whole)
KN_WORK_GROUP kernel void kn_batch_norm_whole(
    global const KN_T *restrict x, global const KN_T *restrict weight, global const KN_T *restrict bias,
    global const KN_T *running_mean, global const KN_T *running_variance, global KN_A *restrict shares,
    global KN_T *restrict y, global KN_T *restrict mean, global KN_T *restrict inverse,
    global KN_T *next_mean, global KN_T *next_variance, int blocks, int inner, int total, int part, int parts,
    int stream, float epsilon, float momentum KN_EPILOGUE_PARAMETERS) {
    const int block = get_global_id(0), channels = blocks * KN_BLOCK;
    const int streams = KN_STREAMS(stream, y, KN_LANES(KN_T));
    for (int p = 0; p < parts; p++) {
        const moments all = moments_of(x, block, blocks, inner, p * part, min((p + 1) * part, total));
        keep_share(all.mean, all.squares, p, block, blocks, shares);
    }
    for (int c = block * KN_BLOCK; c < (block + 1) * KN_BLOCK; c++)
        finish_channel(c, shares, running_mean, running_variance, mean, inverse, next_mean, next_variance,
                       channels, total, part, parts, epsilon, momentum);
    const lanes scale = KN_READ(block, weight) * KN_READ(block, inverse);
    const lanes center = KN_READ(block, mean), shift = KN_READ(block, bias);
    const int middle = block * KN_BLOCK;
    for (int outer = total / inner; outer-- > 0;) {
        const KN_INDEX first = ((KN_INDEX)outer * blocks + block) * inner, inside = 0;
        for (KN_INDEX i = first; i < first + inner; i++)
            KN_NORMAL(i)
    }
}
#endif

#if KN_WANTED(kn_batch_norm_whole_gradient)
KN_WORK_GROUP kernel void
kn_batch_norm_whole_gradient(global const KN_T *restrict x, global const KN_T *restrict dy,
                             global const KN_T *restrict weight, global const KN_T *restrict mean,
                             global const KN_T *restrict inverse, global KN_A *restrict shares,
                             global KN_T *restrict dx, global KN_T *restrict dweight,
                             global KN_T *restrict dbias, int blocks, int inner, int total, int part,
                             int parts, int stream) {
    const int block = get_global_id(0), streams = KN_STREAMS(stream, dx, KN_LANES(KN_T));
    const lanes center = KN_READ(block, mean), scale = KN_READ(block, inverse);
    for (int p = 0; p < parts; p++) {
        const slopes all = slopes_of(x, dy, center, scale, block, blocks, inner, p * part,
                                     min((p + 1) * part, total));
        keep_share(all.sum, all.product, p, block, blocks, shares);
    }
    for (int c = block * KN_BLOCK; c < (block + 1) * KN_BLOCK; c++)
        gather_channel(c, shares, dweight, dbias, blocks * KN_BLOCK, parts);
    const lanes slope = KN_READ(block, weight) * scale;
    const lanes sum = KN_READ(block, dbias) / (KN_A)total, product = KN_READ(block, dweight) / (KN_A)total;
    for (int image = total / inner; image-- > 0;) {
        const KN_INDEX first = ((KN_INDEX)image * blocks + block) * inner;
        for (KN_INDEX i = first; i < first + inner; i++)
            KN_SLOPE(i)
    }
}
#endif
#endif
