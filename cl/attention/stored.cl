/* The types of the elements at q, k, v, y, dy, dq, dk, dv and mask of attention's kernels: q_stored and so on.
 *
 * Defines, with their defaults:
 *   KN_HALF_q, … 0   whether q, and so on, is stored in 16 bits (common/storage.cl) */
#ifndef KN_ATTENTION_STORED_CL
#define KN_ATTENTION_STORED_CL
#include "common/storage.cl"
#ifndef KN_HALF_q
#define KN_HALF_q 0
#endif
#ifndef KN_HALF_k
#define KN_HALF_k 0
#endif
#ifndef KN_HALF_v
#define KN_HALF_v 0
#endif
#ifndef KN_HALF_y
#define KN_HALF_y 0
#endif
#ifndef KN_HALF_dy
#define KN_HALF_dy 0
#endif
#ifndef KN_HALF_dq
#define KN_HALF_dq 0
#endif
#ifndef KN_HALF_dk
#define KN_HALF_dk 0
#endif
#ifndef KN_HALF_dv
#define KN_HALF_dv 0
#endif
#ifndef KN_HALF_mask
#define KN_HALF_mask 0
#endif
typedef KN_STORED(KN_HALF_q) q_stored;
typedef KN_STORED(KN_HALF_k) k_stored;
typedef KN_STORED(KN_HALF_v) v_stored;
typedef KN_STORED(KN_HALF_y) y_stored;
typedef KN_STORED(KN_HALF_dy) dy_stored;
typedef KN_STORED(KN_HALF_dq) dq_stored;
typedef KN_STORED(KN_HALF_dk) dk_stored;
typedef KN_STORED(KN_HALF_dv) dv_stored;
typedef KN_STORED(KN_HALF_mask) mask_stored;
#endif
