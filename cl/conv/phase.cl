/* Phases of the gradient of a convolution with respect to its data: pixels whose distance from each other is a
 * multiple of the stride use the same taps of the filter.
 *   KN_STRIDED 0   1: a stride is above 1; 0: there is one phase */
#ifndef KN_PHASE_CL
#define KN_PHASE_CL
#ifndef KN_STRIDED
#define KN_STRIDED 0
#endif
#if KN_STRIDED
#define KN_STRIDE(stride) (stride)
#else
#define KN_STRIDE(stride) 1
#endif

/* Along one axis, the pixels whose padded position is `rest` above a multiple of the stride, and the taps that reach
 * them: pixel i is at first + i * stride, tap j is tap + j * tap_step of the filter, and they meet at
 * base + i - j * distance of dy. */
typedef struct phase {
    int first, count, tap, tap_step, taps, base, distance;
} phase;

static inline phase find_phase(const int rest, const int stride, const int pad, const int dilation,
                               const int filter, const int size) {
    phase phase;
    phase.first = ((rest - pad) % stride + stride) % stride;
    phase.count = phase.first < size ? (size - phase.first + stride - 1) / stride : 0;
    phase.tap_step = 1;
    while (phase.tap_step * dilation % stride != 0)
        phase.tap_step++;
    phase.tap = 0;
    while (phase.tap < phase.tap_step && phase.tap * dilation % stride != rest)
        phase.tap++;
    const bool reached = phase.tap < phase.tap_step && phase.tap < filter;
    phase.taps = reached ? (filter - phase.tap + phase.tap_step - 1) / phase.tap_step : 0;
    phase.base = (phase.first + pad - phase.tap * dilation) / stride;
    phase.distance = phase.tap_step * dilation / stride;
    return phase;
}
#endif
