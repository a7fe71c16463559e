/* Tests the matrix unit of CPUs with tile registers, using the code of its kernels.
 * kn_probe_amx(x, y)   one work-item multiplies left (64,32) and right (32,32), columns first, of bfloat16 in x, one
 * after another: y (64,32). The right side is widened, and rounded again */
#define KN_WIDTH 16
#include "common/vector.cl"
#include "common/amx.cl"

KN_WIDE kn_probe_amx(global const ushort *x, global float *y) {
    local ushort left[2 * KN_AMX_TILE], right[2 * KN_AMX_TILE];
    local float sums[KN_AMX_SIDE * KN_AMX_SIDE];
    global const ushort *columns = x + 64 * KN_AMX_CHUNK;
    for (int column = 0; column < KN_AMX_SIDE; column++)
        for (int k = 0; k < KN_AMX_CHUNK; k += 16) {
            float wide[16];
            ushort narrow[16];
            for (int i = 0; i < 16; i++)
                wide[i] = as_float((uint)columns[column * KN_AMX_CHUNK + k + i] << 16);
            vstore16(KN_AMX_ROUND(vload16(0, wide)), 0, narrow);
            for (int i = 0; i < 16; i++)
                right[column / 16 * KN_AMX_TILE + KN_AMX_RIGHT(column % 16, k + i)] = narrow[i];
        }
    amx_begin();
    for (int first = 0; first < 64; first += KN_AMX_SIDE) {
        for (int row = 0; row < KN_AMX_SIDE; row++)
            for (int k = 0; k < KN_AMX_CHUNK; k++)
                left[row / 16 * KN_AMX_TILE + KN_AMX_LEFT(row % 16, k)] = x[(first + row) * KN_AMX_CHUNK + k];
        amx_multiply(left, right, 1, 1, 1, sums);
        for (int at = 0; at < KN_AMX_SIDE * KN_AMX_SIDE; at++)
            y[first * KN_AMX_SIDE + at] = sums[at];
    }
    amx_end();
}
