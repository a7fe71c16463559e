/* Statistics of results, gathered by the kernel that makes them, for the batch norm that reads them: included behind
 * common/vector.cl by kernels whose results are blocked by KN_WIDTH channels.
 *
 * The results of a channel are dealt out in parts, by the shape and the kernel's tile alone, and statistics is
 * (parts,3,channels): how many there are in a part, their mean, and the sum of squared differences from it. Within a
 * part, of a hundred or two, they are sums of differences from its first result, so that no digits are lost to a mean
 * that is large; who reads them (batch_norm.cl) joins the parts in order. The same bits come out however parts are
 * shared out among work-items.
 *
 * KN_STATISTICS 0: 1 gathers. Otherwise all of this is nothing.
 *   KN_STATISTICS_PARAMETERS       of the kernel, before those of the epilogue: statistics, and `part`, in a unit of
 *                                  the kernel's
 *   KN_GATHERED(vectors)           declares the sums of so many vectors of channels
 *   KN_GATHER_AT(at)               at result `at` of a channel, which may begin a part
 *   KN_GATHER_FROM(v)              takes those of vector v in hand,
 *   KN_GATHER(value, first)        adds a result to them, the first one that follows `at` where `first`,
 *   KN_GATHER_TO(v)                and puts them back
 *   KN_GATHER_END(v, count, number, block, blocks)
 *                                  writes those of vector v, of count results, as those of part `number` */
#ifndef KN_STATISTICS_CL
#define KN_STATISTICS_CL
#ifndef KN_STATISTICS
#define KN_STATISTICS 0
#endif
#if KN_STATISTICS
#define KN_STATISTICS_PARAMETERS , global float *restrict statistics, int part
#define KN_GATHERED(vectors) float gathered[3 * (vectors)*KN_WIDTH];
#define KN_GATHER_AT(at) const int gather_begins = (at) % part == 0;
#define KN_GATHER_FROM(v)                                                                                    \
    vector gathered_first = load(3 * (v), gathered), gathered_sum = load(3 * (v) + 1, gathered),             \
           gathered_squares = load(3 * (v) + 2, gathered);
#define KN_GATHER(value, first)                                                                              \
    {                                                                                                        \
        if ((first) && gather_begins) {                                                                      \
            gathered_first = value;                                                                          \
            gathered_sum = gathered_squares = 0.0f;                                                          \
        }                                                                                                    \
        const vector apart = value - gathered_first;                                                         \
        gathered_sum += apart;                                                                               \
        gathered_squares += apart * apart;                                                                   \
    }
#define KN_GATHER_TO(v)                                                                                      \
    {                                                                                                        \
        store(gathered_first, 3 * (v), gathered);                                                            \
        store(gathered_sum, 3 * (v) + 1, gathered);                                                          \
        store(gathered_squares, 3 * (v) + 2, gathered);                                                      \
    }
#define KN_GATHER_END(v, count, number, block, blocks)                                                       \
    {                                                                                                        \
        const vector sum = load(3 * (v) + 1, gathered), mean = sum / (vector)(count);                        \
        global float *to = statistics + ((KN_INDEX)(number)*3 * (blocks) + (block)) * KN_WIDTH;              \
        store((vector)(count), 0, to);                                                                       \
        store(load(3 * (v), gathered) + mean, blocks, to);                                                   \
        store(load(3 * (v) + 2, gathered) - sum * mean, 2 * (blocks), to);                                   \
    }
#else
#define KN_STATISTICS_PARAMETERS
#define KN_GATHERED(vectors)
#define KN_GATHER_AT(at)
#define KN_GATHER_FROM(v)
#define KN_GATHER(value, first) {}
#define KN_GATHER_TO(v)
#define KN_GATHER_END(v, count, number, block, blocks)
#endif
#endif
