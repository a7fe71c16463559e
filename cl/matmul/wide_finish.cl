/* How the products for wide-vector devices store their results. */
#ifndef KN_MATMUL_WIDE_FINISH_CL
#define KN_MATMUL_WIDE_FINISH_CL
#include "common/vector.cl"

/* The first count lanes from memory, zero in the others. */
KN_INLINE vector load_part(global const float *source, int count) {
    float part[KN_WIDTH];
    for (int i = 0; i < KN_WIDTH; i++)
        part[i] = i < count ? source[i] : 0.0f;
    return load(0, part);
}

/* Stores one vector of C at (batch, row), for the columns from `column` on, of which `count` are left. A macro, since the
 * epilogue uses the kernel's parameters; it takes c, c_row, batch and row from where it stands. */
#define KN_FINISH(value, column, count, add, last)                                                           \
    {                                                                                                        \
        global float *out = c + row * c_row + (column);                                                      \
        vector finished = value;                                                                             \
        if ((count) >= KN_WIDTH) {                                                                           \
            if (add) finished += load(0, out);                                                               \
            if (last) finished = KN_EPILOGUE_VECTOR(finished, batch, row, column);                           \
            store(finished, 0, out);                                                                         \
        } else {                                                                                             \
            float part[KN_WIDTH];                                                                            \
            if (add) finished += load_part(out, count);                                                      \
            store(finished, 0, part);                                                                        \
            for (int lane = 0; lane < (count); lane++)                                                       \
                out[lane] = last ? KN_EPILOGUE(part[lane], batch, row, (column) + lane) : part[lane];        \
        }                                                                                                    \
    }
#endif
