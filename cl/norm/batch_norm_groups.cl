/* Batch norm in training by work-groups with local memory: two launches in each direction. x is
 * (images,channels,inner), in the plain layout, or with KN_BLOCKED (images,channels/8,inner,8); a channel has total =
 * images * inner elements.
 *
 * The first launch divides a channel into `parts` of `part` elements, which depend only on the shape, and each
 * work-group sums one. The second one divides it into slices of `slice` elements, as many as a group loads at once.
 * While these loads are in flight, the group adds the parts of its channel, in order. The group of slice 0 also stores
 * the results for the channel, which no other group reads: no group waits for another.
 *
 * Defines, with their defaults:
 *   KN_ITEMS 64      work-items of a work-group; a power of two
 *   KN_CHANNELS 1    channels of a work-group; a power of two, at most KN_ITEMS. More than 1 if adjacent elements
 *                    belong to adjacent channels (inner 1)
 *   KN_VECTOR 1      4: inner is a multiple of 4, and elements are read and written four at a time
 *   KN_BLOCKED 0     1: KN_CHANNELS and KN_VECTOR are 8, and a vector has an element of each of the group's channels;
 *                    not if one launch does both
 *   KN_FLIGHT 4      vectors that a work-item loads before it uses the first
 *   KN_MAX_PARTS 64  of a channel
 *   KN_FLAT 0        1: the epilogue sees results as (..,middle_size,inner_size); 0: as (images,channels,inner)
 * and those of norm/moments.cl and common/epilogue.cl. A vector has KN_EACH elements of a channel: KN_VECTOR, or 1
 * with KN_BLOCKED. `part` and `slice` are multiples of it; line_multiplier is for inner / KN_EACH (common/divide.cl).
 *
 * kn_batch_norm_moments(x, partials, channels, inner, line_multiplier, total, part, parts)
 *   work-groups (parts, channels / KN_CHANNELS); partials is (C,parts,3): the number of elements, their mean, and
 *   the sum of squared differences from it.
 * kn_batch_norm_normalise(x, partials, weight, bias, running_mean, running_variance, y, mean, inverse, next_mean,
 *                         next_variance, channels, inner, line_multiplier, total, slice, parts, epsilon, momentum,
 *                         middle_size, inner_size, EPILOGUE)
 *   work-groups (slices, channels / KN_CHANNELS); next_mean and next_variance may alias the running ones.
 * kn_batch_norm_slopes(x, dy, mean, inverse, partials, channels, inner, line_multiplier, total, part, parts)
 *   as moments; partials is (C,parts,2): sums of dy, and of dy times the normalized x.
 * kn_batch_norm_backward(x, dy, partials, weight, mean, inverse, dx, dweight, dbias, channels, inner,
 *                        line_multiplier, total, slice, parts)
 *   as normalise.
 *
 * If the work-items of a group can hold all elements of its channels, in KN_FLIGHT vectors each, one launch does both:
 * kn_batch_norm_held(x, weight, bias, …)  and
 * kn_batch_norm_held_gradient(x, dy, weight, …)
 *   work-groups (1, channels / KN_CHANNELS); the arguments of normalise and of backward without partials, slice and
 *   parts. With KN_X_PARTS kn_batch_norm_held adds the parts of x, starting at x_offset and x_stride apart, in order,
 *   and stores x in x_sum; x itself is absent. */
#define KN_PARTIALS local
#include "common/divide.cl"
#include "common/epilogue.cl"
#include "common/unroll.cl"
#include "common/wanted.cl"
#ifndef KN_BLOCKED
#define KN_BLOCKED 0
#endif
#include "norm/moments.cl"
#ifndef KN_ITEMS
#define KN_ITEMS 64
#endif
#ifndef KN_CHANNELS
#define KN_CHANNELS 1
#endif
#ifndef KN_VECTOR
#define KN_VECTOR 1
#endif
#ifndef KN_FLIGHT
#define KN_FLIGHT 4
#endif
#ifndef KN_MAX_PARTS
#define KN_MAX_PARTS 64
#endif
#ifndef KN_FLAT
#define KN_FLAT 0
#endif
#define KN_WORK_GROUP __attribute__((reqd_work_group_size(KN_ITEMS, 1, 1)))

/* A vector of adjacent elements, and a `share`, which has one element for each of their channels. Vectors are aligned:
 * a value begins at a multiple of 64 bytes, and inner is a multiple of KN_EACH. */
#if KN_BLOCKED
typedef KN_CONCAT(KN_A, 8) vector;
typedef vector share;
#define KN_EACH 1
#define KN_TO_VECTOR(value) KN_CONCAT(KN_CONCAT(convert_, KN_A), 8)(value)
#define KN_TO_ELEMENTS(value) KN_CONCAT(KN_CONCAT(convert_, KN_T), 8)(value)
#define KN_ELEMENTS_AS(kind, at, from) KN_READ_8_AS(kind, (from) + 8 * (size_t)(at))
#define KN_KEEP_AS(kind, value, at, to) KN_WRITE_8_AS(kind, value, (to) + 8 * (size_t)(at))
#define KN_FIRST(value) (value)
#define KN_ADDED(value) (value)
#define KN_RESULT(v, outer, middle, inner) KN_TO_ELEMENTS(KN_EPILOGUE_VECTOR(v, outer, middle, inner))
#elif KN_VECTOR == 1
typedef KN_A vector;
#define KN_TO_VECTOR(value) KN_CONCAT(convert_, KN_A)(value)
#define KN_TO_ELEMENTS(value) KN_CONCAT(convert_, KN_T)(value)
#define KN_ELEMENTS_AS(kind, at, from) KN_READ_AS(kind, (from) + (at))
#define KN_KEEP_AS(kind, value, at, to) KN_WRITE_AS(kind, value, (to) + (at))
#define KN_FIRST(value) (value)
#define KN_ADDED(value) (value)
#define KN_RESULT(v, outer, middle, inner) KN_TO_ELEMENTS(KN_EPILOGUE(v, outer, middle, inner))
#else
typedef KN_CONCAT(KN_A, 4) vector;
#define KN_TO_VECTOR(value) KN_CONCAT(KN_CONCAT(convert_, KN_A), 4)(value)
#define KN_TO_ELEMENTS(value) KN_CONCAT(KN_CONCAT(convert_, KN_T), 4)(value)
#define KN_ELEMENTS_AS(kind, at, from) KN_READ_4_AS(kind, (from) + 4 * (size_t)(at))
#define KN_KEEP_AS(kind, value, at, to) KN_WRITE_4_AS(kind, value, (to) + 4 * (size_t)(at))
#define KN_FIRST(value) (value).s0
#define KN_ADDED(value) (((value).s0 + (value).s1) + ((value).s2 + (value).s3))
#define KN_RESULT(v, outer, middle, inner) KN_TO_ELEMENTS(KN_EPILOGUE_4(v, outer, middle, inner))
#endif
/* The moments of the channels of a vector. */
#if KN_BLOCKED
KN_DEFINE_MOMENTS(shares, share)
#else
typedef KN_A share;
#define KN_EACH KN_VECTOR
#define shares moments
#define shares_merge moments_merge
#define shares_of_run moments_of_run
#endif
#define KN_VECTOR_AT(at, from) KN_TO_VECTOR(KN_ELEMENTS_AS(KN_HALF_##from, at, from))

/* KN_SPAN work-items work on a channel; each processes every KN_SPAN-th vector of a part. After merging, the values for
 * a group's channels are in its first KN_SHARES work-items. KN_LOCAL_SHARE: the values for a work-item's channels, from
 * local memory with one per channel of the group; KN_SHARE: from global memory with one per channel. */
#if KN_BLOCKED
#define KN_SPAN KN_ITEMS
#define KN_SHARES 1
#define KN_CHANNEL_OF_VECTOR (KN_GROUP(1, 1) * KN_CHANNELS)
#define KN_LOCAL_SHARE(numbers) vload8(0, numbers)
#define KN_SHARE(numbers, channel) KN_TO_VECTOR(KN_READ_8_AS(0, (numbers) + KN_CHANNEL_OF_VECTOR))
#else
#define KN_SPAN (KN_ITEMS / KN_CHANNELS)
#define KN_SHARES KN_CHANNELS
#define KN_CHANNEL_OF_VECTOR KN_CHANNEL
#define KN_LOCAL_SHARE(numbers) (numbers)[KN_SLOT]
#define KN_SHARE(numbers, channel) (KN_A)(numbers)[channel]
#endif
#define KN_SLOT ((int)get_local_id(0) % KN_CHANNELS)
#define KN_CHANNEL (KN_GROUP(1, 1) * KN_CHANNELS + KN_SLOT)

/* The position of a work-item: at vector `at` of its channel, below `end`; it is vector `inside` of a line, the channel
 * in one image. A channel beyond the last one has no vectors. */
typedef struct walk {
    int at, end, image, inside, line, step_images, step_inside;
} walk;
static inline void walk_begin(walk *walk, const int part, const int total, const int channels, const int inner,
                              const uint multiplier) {
    const int size = part / KN_EACH, first = KN_GROUP(0, KN_ITEMS) * size;
    walk->line = inner / KN_EACH;
    walk->at = first + (int)get_local_id(0) / KN_SHARES;
    walk->end = KN_CHANNEL < channels ? min(first + size, total / KN_EACH) : 0;
    walk->image = divide(walk->at, walk->line, multiplier);
    walk->inside = walk->at - walk->image * walk->line;
    walk->step_images = divide(KN_SPAN, walk->line, multiplier);
    walk->step_inside = KN_SPAN - walk->step_images * walk->line;
}
static inline KN_INDEX walk_place(const walk *walk, const int channels) {
    const int row = KN_BLOCKED ? walk->image * (channels / KN_CHANNELS) + KN_GROUP(1, 1) : walk->image * channels + KN_CHANNEL;
    return (KN_INDEX)row * walk->line + walk->inside;
}
static inline void walk_on(walk *walk) {
    walk->at += KN_SPAN;
    walk->image += walk->step_images;
    walk->inside += walk->step_inside;
    if (walk->inside >= walk->line) {
        walk->inside -= walk->line;
        walk->image++;
    }
}

/* Declares and loads the next vectors of a work-item; then iterates over them. */
#define KN_LOAD_VECTORS(loaded, from, walk)                                                                  \
    vector loaded[KN_FLIGHT];                                                                                \
    {                                                                                                        \
        struct walk next = walk;                                                                             \
        KN_UNROLL for (int i = 0; i < KN_FLIGHT; i++) {                                                      \
            loaded[i] = next.at < next.end ? KN_VECTOR_AT(walk_place(&next, channels), from) : (vector)0;     \
            walk_on(&next);                                                                                  \
        }                                                                                                    \
    }
#define KN_EACH_VECTOR(i, walk)                                                                              \
    KN_UNROLL for (int i = 0; i < KN_FLIGHT; i++, walk_on(&walk)) if (walk.at < walk.end)

/* Copies the values of all parts of the group's channels, `each` per part. */
static inline void load_parts(global const KN_A *partials, local KN_A *sums, const int each, const int channels,
                              const int parts) {
    const int first = KN_GROUP(1, 1) * KN_CHANNELS, numbers = each * parts;
    partials += (KN_INDEX)first * numbers;
    for (int i = get_local_id(0); i < min(KN_CHANNELS, channels - first) * numbers; i += KN_ITEMS)
        sums[i] = partials[i];
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* Merges the moments of a group's work-items; the first KN_SHARES get those of their channels. */
static inline shares moments_of_group(shares all, local KN_A *counts, local share *means, local share *others) {
    const int item = get_local_id(0);
    for (int reach = KN_ITEMS / 2; reach >= KN_SHARES; reach /= 2) {
        if (item >= reach && item < 2 * reach) {
            counts[item] = all.count;
            means[item] = all.mean;
            others[item] = all.squares;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < reach) {
            const shares other = {counts[item + reach], means[item + reach], others[item + reach]};
            all = shares_merge(all, other);
        }
    }
    return all;
}

#if KN_WANTED(kn_batch_norm_moments)
KN_WORK_GROUP kernel void kn_batch_norm_moments(global const KN_STORED(KN_HALF_x) *restrict x, global KN_A *restrict partials,
                                                int channels, int inner, uint line_multiplier, int total,
                                                int part, int parts) {
    local KN_A counts[KN_ITEMS];
    local share means[KN_ITEMS], others[KN_ITEMS];
    const int item = get_local_id(0);
    walk walk;
    walk_begin(&walk, part, total, channels, inner, line_multiplier);
    shares all = {0, 0, 0};
    while (walk.at < walk.end) {
        share start = 0;
        vector sum = 0, squares = 0;
        int count = 0;
        for (; count < KN_RUN && walk.at < walk.end;) {
            KN_LOAD_VECTORS(loaded, x, walk)
            if (count == 0) start = KN_FIRST(loaded[0]);
            KN_EACH_VECTOR(i, walk) {
                const vector apart = loaded[i] - start;
                sum += apart;
                squares += apart * apart;
                count++;
            }
        }
        all = shares_merge(all, shares_of_run(count * KN_EACH, start, KN_ADDED(sum), KN_ADDED(squares)));
    }
    all = moments_of_group(all, counts, means, others);
#if KN_BLOCKED
    /* The first work-item has those of all channels, and the first eight store one each. */
    if (item == 0) {
        counts[0] = all.count;
        means[0] = all.mean;
        others[0] = all.squares;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const KN_A count = counts[0], mean = ((local const KN_A *)means)[KN_SLOT], squares = ((local const KN_A *)others)[KN_SLOT];
#else
    const KN_A count = all.count, mean = all.mean, squares = all.squares;
#endif
    if (item >= KN_CHANNELS || KN_CHANNEL >= channels) return;
    partials += 3 * ((KN_INDEX)KN_CHANNEL * parts + KN_GROUP(0, KN_ITEMS));
    partials[0] = count;
    partials[1] = mean;
    partials[2] = squares;
}
#endif

/* Computes what a group needs of its channels' moments; `stores`: also stores the results. Macros, since the epilogue
 * uses the kernels' parameters. */
#define KN_TAKE_MOMENTS(stores)                                                                              \
    centers[KN_SLOT] = KN_TO(KN_T, all.mean);                                                                \
    scales[KN_SLOT] = (KN_A)weight[channel] * KN_TO(KN_T, inverse_of(all, epsilon));                         \
    shifts[KN_SLOT] = bias[channel];                                                                         \
    if (stores)                                                                                              \
        store_statistics(all, channel, running_mean, running_variance, mean, inverse, next_mean,             \
                         next_variance, epsilon, momentum);
#if KN_FLAT
#define KN_RESULT_PLACE                                                                                      \
    const KN_INDEX inside = place * KN_VECTOR % inner_size, line = place * KN_VECTOR / inner_size;           \
    const KN_INDEX middle = line % middle_size, outer = line / middle_size;
#else
#define KN_RESULT_PLACE                                                                                      \
    const KN_INDEX inside = walk.inside * KN_EACH, middle = KN_CHANNEL_OF_VECTOR, outer = walk.image;
#endif
#define KN_NORMALISE                                                                                         \
    const share center = KN_LOCAL_SHARE(centers), scale = KN_LOCAL_SHARE(scales);                            \
    const share shift = KN_LOCAL_SHARE(shifts);                                                              \
    KN_EACH_VECTOR(i, walk) {                                                                                \
        const vector value = (loaded[i] - center) * scale + shift;                                           \
        const KN_INDEX place = walk_place(&walk, channels);                                                  \
        KN_RESULT_PLACE                                                                                      \
        KN_KEEP_AS(KN_HALF_y, KN_RESULT(value, outer, middle, inside), place, y);                            \
    }

#if KN_WANTED(kn_batch_norm_normalise)
KN_WORK_GROUP kernel void
kn_batch_norm_normalise(global const KN_STORED(KN_HALF_x) *restrict x, global const KN_A *restrict partials,
                        global const KN_T *restrict weight, global const KN_T *restrict bias,
                        global const KN_T *running_mean, global const KN_T *running_variance, global KN_STORED(KN_HALF_y) *restrict y,
                        global KN_T *restrict mean, global KN_T *restrict inverse, global KN_T *next_mean,
                        global KN_T *next_variance, int channels, int inner, uint line_multiplier, int total,
                        int slice, int parts, KN_A epsilon, KN_A momentum, KN_INDEX middle_size,
                        KN_INDEX inner_size KN_EPILOGUE_PARAMETERS) {
    local KN_A sums[3 * KN_CHANNELS * KN_MAX_PARTS];
    local KN_A centers[KN_CHANNELS], scales[KN_CHANNELS], shifts[KN_CHANNELS];
    walk walk;
    walk_begin(&walk, slice, total, channels, inner, line_multiplier);
    KN_LOAD_VECTORS(loaded, x, walk)
    load_parts(partials, sums, 3, channels, parts);
    const int channel = KN_CHANNEL;
    if (get_local_id(0) < KN_CHANNELS && channel < channels) {
        moments all;
        moments_of_parts(&all, sums + KN_SLOT * 3 * parts, 1, parts);
        KN_TAKE_MOMENTS(KN_GROUP(0, KN_ITEMS) == 0)
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    KN_NORMALISE
}
#endif

#ifdef KN_X_PARTS
#define KN_X_PARTS_PARAMETERS                                                                                \
    , global const KN_A *restrict x_parts, global KN_T *restrict x_sum, KN_INDEX x_offset, KN_INDEX x_stride, int x_count
#define KN_LOAD_HELD                                                                                         \
    vector loaded[KN_FLIGHT];                                                                                \
    KN_UNROLL for (int i = 0; i < KN_FLIGHT; i++) loaded[i] = 0;                                             \
    for (int part = 0; part < x_count; part++) {                                                             \
        global const vector *from = (global const vector *)(x_parts + x_offset + part * x_stride);           \
        struct walk next = walk;                                                                             \
        KN_EACH_VECTOR(i, next) loaded[i] += from[walk_place(&next, channels)];                              \
    }                                                                                                        \
    struct walk stored = walk;                                                                               \
    KN_EACH_VECTOR(i, stored) KN_KEEP_AS(0, KN_TO_ELEMENTS(loaded[i]), walk_place(&stored, channels), x_sum);
#else
#define KN_X_PARTS_PARAMETERS
#define KN_LOAD_HELD KN_LOAD_VECTORS(loaded, x, walk)
#endif

#if KN_WANTED(kn_batch_norm_held) && !KN_BLOCKED
KN_WORK_GROUP kernel void
kn_batch_norm_held(global const KN_STORED(KN_HALF_x) *restrict x, global const KN_T *restrict weight,
                   global const KN_T *restrict bias, global const KN_T *running_mean,
                   global const KN_T *running_variance, global KN_STORED(KN_HALF_y) *restrict y,
                   global KN_T *restrict mean, global KN_T *restrict inverse, global KN_T *next_mean,
                   global KN_T *next_variance, int channels, int inner, uint line_multiplier, int total, KN_A epsilon,
                   KN_A momentum, KN_INDEX middle_size,
                   KN_INDEX inner_size KN_X_PARTS_PARAMETERS KN_EPILOGUE_PARAMETERS) {
    local KN_A counts[KN_ITEMS];
    local share means[KN_ITEMS], others[KN_ITEMS];
    local KN_A centers[KN_CHANNELS], scales[KN_CHANNELS], shifts[KN_CHANNELS];
    walk walk;
    walk_begin(&walk, total, total, channels, inner, line_multiplier);
    KN_LOAD_HELD
    const KN_A start = KN_FIRST(loaded[0]);
    vector sum = 0, squares = 0;
    int count = 0;
    struct walk visit = walk;
    KN_EACH_VECTOR(i, visit) {
        const vector apart = loaded[i] - start;
        sum += apart;
        squares += apart * apart;
        count++;
    }
    moments all = {0, 0, 0};
    if (count > 0) all = moments_of_run(count * KN_VECTOR, start, KN_ADDED(sum), KN_ADDED(squares));
    all = moments_of_group(all, counts, means, others);
    const int channel = KN_CHANNEL;
    if (get_local_id(0) < KN_CHANNELS && channel < channels) {
        KN_TAKE_MOMENTS(true)
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    KN_NORMALISE
}
#endif

/* Adds the sums of a group's work-items; the first KN_SHARES get those of their channels. */
static inline void add_in_group(share *sum, share *product, local share *sums, local share *products) {
    const int item = get_local_id(0);
    for (int reach = KN_ITEMS / 2; reach >= KN_SHARES; reach /= 2) {
        if (item >= reach && item < 2 * reach) {
            sums[item] = *sum;
            products[item] = *product;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < reach) {
            *sum += sums[item + reach];
            *product += products[item + reach];
        }
    }
}

#if KN_WANTED(kn_batch_norm_slopes)
KN_WORK_GROUP kernel void kn_batch_norm_slopes(global const KN_STORED(KN_HALF_x) *restrict x, global const KN_STORED(KN_HALF_dy) *restrict dy,
                                               global const KN_T *restrict mean,
                                               global const KN_T *restrict inverse,
                                               global KN_A *restrict partials, int channels, int inner,
                                               uint line_multiplier, int total, int part, int parts) {
    local share sums[KN_ITEMS], products[KN_ITEMS];
    const int item = get_local_id(0), channel = min(KN_CHANNEL, channels - 1);
    const share center = KN_SHARE(mean, channel), scale = KN_SHARE(inverse, channel);
    share sum = 0, product = 0;
    walk walk;
    walk_begin(&walk, part, total, channels, inner, line_multiplier);
    while (walk.at < walk.end) {
        vector run_sum = 0, run_product = 0;
        for (int count = 0; count < KN_RUN && walk.at < walk.end; count += KN_FLIGHT) {
            KN_LOAD_VECTORS(slopes, dy, walk)
            KN_LOAD_VECTORS(loaded, x, walk)
            KN_EACH_VECTOR(i, walk) {
                run_sum += slopes[i];
                run_product += slopes[i] * ((loaded[i] - center) * scale);
            }
        }
        sum += KN_ADDED(run_sum);
        product += KN_ADDED(run_product);
    }
    add_in_group(&sum, &product, sums, products);
#if KN_BLOCKED
    if (item == 0) {
        sums[0] = sum;
        products[0] = product;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const KN_A own_sum = ((local const KN_A *)sums)[KN_SLOT], own_product = ((local const KN_A *)products)[KN_SLOT];
#else
    const KN_A own_sum = sum, own_product = product;
#endif
    if (item >= KN_CHANNELS || KN_CHANNEL >= channels) return;
    partials += 2 * ((KN_INDEX)channel * parts + KN_GROUP(0, KN_ITEMS));
    partials[0] = own_sum;
    partials[1] = own_product;
}
#endif

/* Computes what a group needs of its channels' sums, and dx for the elements that it has loaded. */
#define KN_TAKE_SUMS(stores)                                                                                 \
    const KN_T whole_sum = KN_TO(KN_T, sum), whole_product = KN_TO(KN_T, product);                           \
    means[KN_SLOT] = whole_sum / (KN_A)total;                                                                \
    products[KN_SLOT] = whole_product / (KN_A)total;                                                         \
    if (stores) {                                                                                            \
        dbias[KN_CHANNEL] = whole_sum;                                                                       \
        dweight[KN_CHANNEL] = whole_product;                                                                 \
    }
#define KN_SLOPES                                                                                            \
    const share factor = KN_SHARE(weight, channel) * scale;                                                  \
    const share mean_sum = KN_LOCAL_SHARE(means), mean_product = KN_LOCAL_SHARE(products);                   \
    KN_EACH_VECTOR(i, walk) {                                                                                \
        const vector normal = (loaded[i] - center) * scale;                                                  \
        KN_KEEP_AS(KN_HALF_dx, KN_TO_ELEMENTS(factor * (slopes[i] - (mean_sum + normal * mean_product))),    \
                   walk_place(&walk, channels), dx);                                                         \
    }

#if KN_WANTED(kn_batch_norm_backward)
KN_WORK_GROUP kernel void
kn_batch_norm_backward(global const KN_STORED(KN_HALF_x) *restrict x, global const KN_STORED(KN_HALF_dy) *restrict dy,
                       global const KN_A *restrict partials, global const KN_T *restrict weight,
                       global const KN_T *restrict mean, global const KN_T *restrict inverse, global KN_STORED(KN_HALF_dx) *restrict dx,
                       global KN_T *restrict dweight, global KN_T *restrict dbias, int channels, int inner,
                       uint line_multiplier, int total, int slice, int parts) {
    local KN_A sums[2 * KN_CHANNELS * KN_MAX_PARTS];
    local KN_A means[KN_CHANNELS], products[KN_CHANNELS];
    walk walk;
    walk_begin(&walk, slice, total, channels, inner, line_multiplier);
    KN_LOAD_VECTORS(slopes, dy, walk)
    KN_LOAD_VECTORS(loaded, x, walk)
    load_parts(partials, sums, 2, channels, parts);
    if (get_local_id(0) < KN_CHANNELS && KN_CHANNEL < channels) {
        KN_A sum = 0, product = 0;
        for (int p = 0; p < parts; p++) {
            sum += sums[2 * (KN_SLOT * parts + p)];
            product += sums[2 * (KN_SLOT * parts + p) + 1];
        }
        KN_TAKE_SUMS(KN_GROUP(0, KN_ITEMS) == 0)
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const int channel = min(KN_CHANNEL, channels - 1);
    const share center = KN_SHARE(mean, channel), scale = KN_SHARE(inverse, channel);
    KN_SLOPES
}
#endif

#if KN_WANTED(kn_batch_norm_held_gradient) && !KN_BLOCKED
KN_WORK_GROUP kernel void
kn_batch_norm_held_gradient(global const KN_STORED(KN_HALF_x) *restrict x, global const KN_STORED(KN_HALF_dy) *restrict dy,
                            global const KN_T *restrict weight, global const KN_T *restrict mean,
                            global const KN_T *restrict inverse, global KN_STORED(KN_HALF_dx) *restrict dx,
                            global KN_T *restrict dweight, global KN_T *restrict dbias, int channels, int inner,
                            uint line_multiplier, int total) {
    local KN_A sums[KN_ITEMS], others[KN_ITEMS];
    local KN_A means[KN_CHANNELS], products[KN_CHANNELS];
    walk walk;
    walk_begin(&walk, total, total, channels, inner, line_multiplier);
    KN_LOAD_VECTORS(slopes, dy, walk)
    KN_LOAD_VECTORS(loaded, x, walk)
    const int channel = min(KN_CHANNEL, channels - 1);
    const KN_A center = mean[channel], scale = inverse[channel];
    vector all_sums = 0, all_products = 0;
    struct walk visit = walk;
    KN_EACH_VECTOR(i, visit) {
        all_sums += slopes[i];
        all_products += slopes[i] * ((loaded[i] - center) * scale);
    }
    KN_A sum = KN_ADDED(all_sums), product = KN_ADDED(all_products);
    add_in_group(&sum, &product, sums, others);
    if (get_local_id(0) < KN_CHANNELS && KN_CHANNEL < channels) {
        KN_TAKE_SUMS(true)
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    KN_SLOPES
}
#endif
