/* Tests that the compiler supports built-in functions of each family that the kernels call, and computes them
 * correctly.
 *
 * Defines: KN_SALT   a number above 0 that makes the program unknown to the driver's cache */
#ifndef KN_SALT
#define KN_SALT 9
#endif

/* x is (64) integers, y is (64,8). */
kernel void kn_probe_compiler(global const float *x, global float *y) {
    local float shared[64];
    const int i = (int)get_global_id(0), own = (int)get_local_id(0), items = (int)get_local_size(0);
    const int mirrored = items - 1 - own;
    const float a = x[i];
    shared[own] = a;
    barrier(CLK_LOCAL_MEM_FENCE);
    const bool right = shared[mirrored] == x[get_group_id(0) * items + mirrored];
    const float4 four = vload4(0, x) + (float4)(a);
    vstore4((float4)(right, fma(a, a, 1.0f), sqrt(a * a), floor(a * 0.5f)), 2 * i, y);
    vstore4(clamp(convert_float4(convert_int4(four)), -2.0f, (float)min(KN_SALT, 9)), 2 * i + 1, y);
}
