/* Switches for tests of Koine, and for porting it to a device. They may change in any version.
 *
 *     kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
 *     debug.kernels = KN_KERNELS_GPU;
 *     kn_context_params params = KN_CONTEXT_DEFAULTS;
 *     params.debug = &debug;
 *     kn_context *context = kn_context_create(&params);
 *     kn_session_params running = KN_SESSION_DEFAULTS;
 *     running.switches = "matmul=tiled,programs=unsaved";
 *     kn_session *session = kn_session_create(context, &output, 1, &running);
 *
 * kn_session_params.switches are words separated by commas. An unknown word is an error that lists the known
 * ones: OPERATOR=KERNEL       nodes of that operator are computed only by that kernel ("matmul=tiled")
 *   *=KERNEL              kernels of that name are preferred for all operators
 *   invariant=recompute   what depends only on states is computed in each run
 *   statistics=separate   batch norms compute their statistics, not the convolutions before them
 *   producers=separate    no node with a kernel of its own is fused into its consumer
 *   producers=fused       such nodes are fused without a trial on the device
 *   images=blocked        kernels that take any layout get blocked images where possible
 *   stored=TYPE           everything that may be is stored in float16 or bfloat16, inputs and results too
 *   launches=separate     small steps that run the same code are separate launches
 *   launches=cut          launches on many-thread devices are split, as long ones are
 *   why=NODE              plan texts explain the choice of the node's kernels instead (koine plan --why)
 *   tuning=off            measurements of the tuner (koine/tune.h) are not used
 *   tuning=noted          the same, and a tuner of the context notes the shapes
 *   programs=file         a program holds all kernels of its file
 *   programs=unsaved      the same, and the disk cache does not store it
 *   programs=none         only plans: nothing is compiled, and runs are refused with KN_ERROR_CANCELLED */
#ifndef KOINE_DEBUG_H
#define KOINE_DEBUG_H

#include <koine/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The set of kernels that plans use. */
typedef enum kn_kernels {
    KN_KERNELS_PROBED = 0, /* the one that suits the device */
    KN_KERNELS_CPU = 1,    /* for wide vectors, unless the device ends long loops early */
    KN_KERNELS_GPU = 2,    /* for many threads */
} kn_kernels;

typedef struct kn_context_debug {
    size_t size;
    kn_kernels kernels;
    int vector_width; /* 4, 8 or 16 lanes for KN_KERNELS_CPU; 0: the device's */
    /* 32-bit registers per work-item for KN_KERNELS_GPU: products have twice as many accumulators from 255 on
     * as from 128 on. 0: detected. */
    int item_registers;
    uint64_t largest_block_bytes; /* a smaller limit for one allocation; 0: the device's */
    bool wide_indices;            /* 64-bit indices in kernels whatever the sizes */
    bool local_is_global;         /* assume that local memory is a part of global memory */
} kn_context_debug;
#define KN_CONTEXT_DEBUG_DEFAULTS KN_DEFAULTS_ZERO(kn_context_debug)

#ifdef __cplusplus
}
#endif
#endif
