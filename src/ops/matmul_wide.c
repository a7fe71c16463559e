/* Matrix products on wide-vector devices: steps for cl/matmul/wide.cl. */
#include "ops/matmul_private.h"

bool kn_matmul_wide_accepts(const kn_target *target, const kn_node *node) {
    (void)target, (void)node;
    return false;
}
kn_status kn_matmul_wide_lower(kn_lowering *lowering) { (void)lowering; return KN_ERROR_UNSUPPORTED; }
