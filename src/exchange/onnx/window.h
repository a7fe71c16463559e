/* Windows over lengths (N,C,L), images (N,C,H,W) and volumes (N,C,D,H,W). */
#ifndef KN_EXCHANGE_ONNX_WINDOW_H
#define KN_EXCHANGE_ONNX_WINDOW_H

#include "exchange/onnx/import.h"

enum { KN_WINDOW_AXES = 3 };

typedef struct kn_window {
    int axes; /* after the channels */
    int64_t size[KN_WINDOW_AXES], stride[KN_WINDOW_AXES], dilation[KN_WINDOW_AXES];
    int64_t padding[2 * KN_WINDOW_AXES]; /* before each axis, then after each */
    bool same, same_lower;
    /* For pooling: */
    bool ceil, skip_padding;
    double power;
} kn_window;

typedef enum kn_pooling { KN_POOL_MAX, KN_POOL_AVERAGE, KN_POOL_POWER } kn_pooling;

/* Reads the window of a node over x, with the size of the weight or, if that is NULL, of an attribute. */
kn_status kn_window_take(kn_import_call *call, const kn_value *x, const kn_value *weight, kn_window *w);
/* Reads the window of a pooling node over x. */
kn_status kn_window_take_pool(kn_import_call *call, const kn_value *x, kn_window *w);

/* ---- volume.c ------------------------------------------------------------------------------------------ */

/* The maxima of a window over x, with the type of x. */
kn_value *kn_window_max_pool(kn_import_call *call, kn_value *x, const kn_window *w);
/* The result of a window over x, with any number of axes. */
kn_value *kn_window_pool(kn_import_call *call, kn_value *x, const kn_window *w, kn_pooling pooling);
/* Copies the window of a length or image to the builders' parameters. */
void kn_window_copy(const kn_window *w, int64_t *stride, int64_t *padding, int64_t *dilation);
/* The indices of the maxima in x, int64; sizes are known. columns: height and width are in column-major
 * order. */
kn_value *kn_pool_positions(kn_import_call *call, kn_value *x, const kn_window *w, bool columns);
/* weight is (O,C/groups,D,H,W), for the transposed convolution (C,O/groups,D,H,W); bias may be NULL. */
kn_value *kn_volume_convolution(kn_import_call *call, kn_value *x, kn_value *weight, kn_value *bias,
                                const kn_window *w, int64_t groups);
kn_value *kn_volume_convolution_back(kn_import_call *call, kn_value *x, kn_value *weight, kn_value *bias,
                                     const kn_window *w, int64_t groups, const int64_t *more);

#endif
