/* The types of the elements at q, k, v, y, dy, dq, dk, dv and mask of attention's kernels: q_stored and so on.
 *
 * Defines, with their defaults:
 *   KN_HALF_q, … 0   whether q, and so on, is stored in 16 bits (common/storage.cl) */
#ifndef KN_ATTENTION_STORED_CL
#define KN_ATTENTION_STORED_CL
#include "common/storage.cl"
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
