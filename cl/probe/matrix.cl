/* Tests matrix units. Without KN_FRAGMENT:
 * kn_probe_claims(x, y)   y[0]: bit u for each unit u (kn_matrix_unit) whose instructions the compiler claims to
 * support, by its feature tests; they are not used here. x: ignored With KN_FRAGMENT, and the further defines of
 * common/fragment.cl: kn_probe_matrix(x, y)   one work-group of 64 multiplies left (64,32) and right (32,32), columns
 * first, of the unit's element type, which are contiguous in x: y (64,32) */
#ifndef KN_FRAGMENT
#ifndef __has_builtin
#define __has_builtin(name) 0
#endif
kernel void kn_probe_claims(global const ushort *x, global uint *y) {
    uint claims = 0;
#if defined(__NV_CL_C_VERSION) || defined(__NVPTX__)
    claims |= 1u << 1;
#endif
#if __has_builtin(__builtin_amdgcn_wmma_f32_16x16x16_bf16_w32)
    claims |= 1u << 2;
#endif
#if __has_builtin(__builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12)
    claims |= 1u << 3;
#endif
#if __has_builtin(__builtin_amdgcn_mfma_f32_16x16x16bf16_1k)
    claims |= 1u << 4;
#endif
#if defined(cl_intel_subgroup_matrix_multiply_accumulate) && defined(cl_intel_subgroup_local_block_io)
    claims |= 1u << 5 | 1u << 6;
#endif
#if defined(__clang__) && defined(__x86_64__) && defined(__AVX512F__)
    claims |= 1u << 7;
#endif
    if (get_global_id(0) == 0) y[0] = claims;
}
#else
#include "common/fragment_layout.cl"
#define KN_TILE_M 64
#define KN_TILE_N 32
#define KN_TILE_K 32
#if KN_LANES == 64
#define KN_WAVE_M 64
#elif KN_LANES == 8
#define KN_WAVE_M 16
#endif
#if KN_LANES < 32
#define KN_WAVE_N 16
#endif
#include "common/tile.cl"

#define KN_STORE_ROW(row, from) y[(row) * KN_TILE_N + KN_STAGED_COLUMN(1)] = *(from);
KN_WORK_GROUP kernel void kn_probe_matrix(global const KN_NUMBER *x, global float *y) {
    KN_SLICES(1)
    sums sums;
    sums_clear(&sums);
    for (int at = get_local_id(0); at < KN_TILE_M * KN_TILE_K; at += KN_ITEMS)
        left[KN_LEFT_PLACE(at / KN_TILE_K, at % KN_TILE_K)] = x[at];
    for (int at = get_local_id(0); at < KN_TILE_N * KN_TILE_K; at += KN_ITEMS)
        right[KN_RIGHT_PLACE(at / KN_TILE_K, at % KN_TILE_K)] = x[KN_TILE_M * KN_TILE_K + at];
    barrier(CLK_LOCAL_MEM_FENCE);
    sums_add(&sums, left, right);
    barrier(CLK_LOCAL_MEM_FENCE);
    KN_STORE_STAGED(1, KN_STORE_ROW)
}
#endif
