/* Where the lanes of matrix units have their numbers (cl/common/fragment_layout.cl), against what the
 * documents say that each unit does with its registers, and against a plain product. */
#include "ops/fragment.h"
#include "ops_tests.h"

#include "../../cl/common/fragment_layout.cl"

#include <string.h>

enum { LANES = 64, EACH = 16, SIDE = 16, BYTES = 2 * EACH, BYTES_DEEP = 2 * SIDE };

typedef struct place {
    int row, column;
} place;

/* A unit by the file: of a left number (row, depth), of a right number (depth, column), of a sum (row,
 * column). */
typedef struct unit {
    int lanes, rows, columns, depth, left_each, right_each, sum_each, left_run, right_run;
    place (*left)(int lane, int e);
    place (*right)(int lane, int e);
    place (*sum)(int lane, int e);
} unit;
#define DEFINE_PLACES(u)                                                                                     \
    static place left_##u(int lane, int e) {                                                                 \
        (void)lane, (void)e;                                                                                 \
        return (place){KN_LEFT_AT_##u(lane, e), KN_LEFT_DEPTH_##u(lane, e)};                                 \
    }                                                                                                        \
    static place right_##u(int lane, int e) {                                                                \
        (void)lane, (void)e;                                                                                 \
        return (place){KN_RIGHT_DEPTH_##u(lane, e), KN_RIGHT_AT_##u(lane, e)};                               \
    }                                                                                                        \
    static place sum_##u(int lane, int e) {                                                                  \
        (void)lane, (void)e;                                                                                 \
        return (place){KN_SUM_ROW_##u(lane, e), KN_SUM_COLUMN_##u(lane, e)};                                 \
    }
#define UNIT(u)                                                                                              \
    {                                                                                                        \
        KN_LANES_##u, KN_ROWS_##u, KN_COLUMNS_##u, KN_DEPTH_##u, KN_LEFT_EACH_##u, KN_RIGHT_EACH_##u,        \
            KN_SUM_EACH_##u, KN_LEFT_RUN_##u, KN_RIGHT_RUN_##u, left_##u, right_##u, sum_##u                 \
    }
DEFINE_PLACES(1)
DEFINE_PLACES(2)
DEFINE_PLACES(3)
DEFINE_PLACES(4)
DEFINE_PLACES(5)
DEFINE_PLACES(6)
DEFINE_PLACES(7)
/* The index of CPUs, whose unit has no lanes. */
enum { MMA_TF32 = KN_MATRIX_UNIT_AMX, LAYOUTS = KN_MATRIX_UNIT_LAST + 1 };
static const unit units[] = {[KN_MATRIX_UNIT_MMA] = UNIT(1),    [KN_MATRIX_UNIT_WMMA] = UNIT(2),
                             [KN_MATRIX_UNIT_WMMA12] = UNIT(3), [KN_MATRIX_UNIT_MFMA] = UNIT(4),
                             [KN_MATRIX_UNIT_DPAS8] = UNIT(5),  [KN_MATRIX_UNIT_DPAS16] = UNIT(6),
                             [KN_MATRIX_UNIT_MMA8] = UNIT(1),   [MMA_TF32] = UNIT(7)};

/* ---- the documents ------------------------------------------------------------------------------------ */

typedef int registers[LANES][EACH];

/* PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type", in its words. */
static void mma(registers a, registers b, registers c) {
    int left[SIDE][SIDE], right[SIDE][SIDE];
    for (int lane = 0; lane < 32; lane++) {
        const int group = lane >> 2, thread = lane % 4;
        for (int i = 0; i < 8; i++) {
            const int row = (i < 2 || (i >= 4 && i < 6)) ? group : group + 8;
            const int column = i < 4 ? thread * 2 + (i & 1) : thread * 2 + (i & 1) + 8;
            left[row][column] = a[lane][i];
        }
        for (int i = 0; i < 4; i++)
            right[i < 2 ? thread * 2 + (i & 1) : thread * 2 + (i & 1) + 8][group] = b[lane][i];
    }
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++) {
            const int row = i < 2 ? lane >> 2 : (lane >> 2) + 8, column = lane % 4 * 2 + (i & 1);
            for (int k = 0; k < 16; k++)
                c[lane][i] += left[row][k] * right[k][column];
        }
}

/* "Matrix Fragments for mma.m16n8k8", of .f16, twice: with the first, then the second half of what a lane
 * has. */
static void mma8(registers a, registers b, registers c) {
    for (int half = 0; half < 2; half++) {
        int left[SIDE][SIDE], right[SIDE][SIDE];
        for (int lane = 0; lane < 32; lane++) {
            const int group = lane >> 2, thread = lane % 4;
            for (int i = 0; i < 4; i++)
                left[i == 0 || i == 1 ? group : group + 8][thread * 2 + (i & 1)] = a[lane][4 * half + i];
            for (int i = 0; i < 2; i++)
                right[thread * 2 + i][group] = b[lane][2 * half + i];
        }
        for (int lane = 0; lane < 32; lane++)
            for (int i = 0; i < 4; i++) {
                const int row = i < 2 ? lane >> 2 : (lane >> 2) + 8, column = lane % 4 * 2 + (i & 1);
                for (int k = 0; k < 8; k++)
                    c[lane][i] += left[row][k] * right[k][column];
            }
    }
}

/* "Matrix Fragments for mma.m16n8k8", of .tf32. */
static void mma_tf32(registers a, registers b, registers c) {
    int left[SIDE][SIDE], right[SIDE][SIDE];
    for (int lane = 0; lane < 32; lane++) {
        const int group = lane >> 2, thread = lane % 4;
        for (int i = 0; i < 4; i++)
            left[i == 0 || i == 2 ? group : group + 8][i == 0 || i == 1 ? thread : thread + 4] = a[lane][i];
        right[thread][group] = b[lane][0];
        right[thread + 4][group] = b[lane][1];
    }
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++) {
            const int row = i < 2 ? lane >> 2 : (lane >> 2) + 8, column = lane % 4 * 2 + (i & 1);
            for (int k = 0; k < 8; k++)
                c[lane][i] += left[row][k] * right[k][column];
        }
}

/* AMD's GPUOpen, "How to accelerate AI applications on RDNA 3 using WMMA": a lane has a row of A or a column
 * of B, the second half of a wave the same ones again, and every other row of a column of the result. */
static void wmma(registers a, registers b, registers c) {
    for (int lane = 0; lane < 32; lane++)
        for (int e = 0; e < 16; e++) {
            assert_int_equal(a[lane][e], a[lane % 16][e]);
            assert_int_equal(b[lane][e], b[lane % 16][e]);
        }
    for (int lane = 0; lane < 32; lane++)
        for (int e = 0; e < 8; e++)
            for (int k = 0; k < 16; k++)
                c[lane][e] += a[2 * e + lane / 16][k] * b[lane % 16][k];
}

/* AMD's GPUOpen, "Using the matrix cores of AMD RDNA 4": the two halves of a wave have the two halves of the
 * depth, and of the rows of the result. */
static void wmma12(registers a, registers b, registers c) {
    for (int lane = 0; lane < 32; lane++)
        for (int e = 0; e < 8; e++)
            for (int k = 0; k < 16; k++)
                c[lane][e] += a[16 * (k / 8) + e + lane / 16 * 8][k % 8] * b[16 * (k / 8) + lane % 16][k % 8];
}

/* AMD's matrix instruction calculator, v_mfma_f32_16x16x16: element (i,k) of A is in lane i + 16 * (k / 4),
 * item k % 4, and so is (k,i) of B; (i,j) of D is in lane j + 16 * (i / 4), item i % 4. */
static void mfma(registers a, registers b, registers c) {
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++)
            for (int k = 0; k < 16; k++)
                c[j + 16 * (i / 4)][i % 4] += a[i + 16 * (k / 4)][k % 4] * b[j + 16 * (k / 4)][k % 4];
}

/* The extension's text: component m of a is row m, of which work-item i has the depths 2i and 2i + 1
 * (sub-groups of 8) or i (of 16); component d of b has the depths 2d and 2d + 1 of the work-item's column;
 * component m of the sums is row m of that column. */
static void dpas8(registers a, registers b, registers c) {
    for (int lane = 0; lane < 8; lane++)
        for (int m = 0; m < 8; m++)
            for (int i = 0; i < 8; i++)
                c[lane][m] += a[i][2 * m] * b[lane][2 * i] + a[i][2 * m + 1] * b[lane][2 * i + 1];
}
static void dpas16(registers a, registers b, registers c) {
    for (int lane = 0; lane < 16; lane++)
        for (int m = 0; m < 8; m++)
            for (int i = 0; i < 16; i++)
                c[lane][m] += a[i][m] * b[lane][i];
}

/* ---- of 8-bit integers --------------------------------------------------------------------------- */

/* Number e of a lane is then a pair of bytes, 2e and 2e + 1, that are adjacent along the depth. An
 * instruction multiplies the bytes of each lane from `first` on. */
typedef int byte_registers[LANES][BYTES];

/* "Matrix Fragments for mma.m16n8k32" of .u8 and .s8. */
static void mma_bytes(byte_registers a, byte_registers b, registers c) {
    int left[SIDE][BYTES_DEEP], right[BYTES_DEEP][SIDE];
    for (int lane = 0; lane < 32; lane++) {
        const int group = lane >> 2, thread = lane % 4;
        for (int i = 0; i < 16; i++) {
            const int row = (i < 4 || (i >= 8 && i < 12)) ? group : group + 8;
            const int column = i < 8 ? thread * 4 + (i & 3) : thread * 4 + (i & 3) + 16;
            left[row][column] = a[lane][i];
        }
        for (int i = 0; i < 8; i++)
            right[i < 4 ? thread * 4 + (i & 3) : thread * 4 + (i & 3) + 16][group] = b[lane][i];
    }
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++) {
            const int row = i < 2 ? lane >> 2 : (lane >> 2) + 8, column = lane % 4 * 2 + (i & 1);
            for (int k = 0; k < 32; k++)
                c[lane][i] += left[row][k] * right[k][column];
        }
}

/* V_WMMA_I32_16X16X16_IU8 of RDNA 3 and of RDNA 4: as for 16 bits, with bytes. Two make the whole depth. */
static void wmma_bytes(byte_registers a, byte_registers b, registers c) {
    for (int first = 0; first < 32; first += 16)
        for (int lane = 0; lane < 32; lane++)
            for (int e = 0; e < 8; e++)
                for (int k = 0; k < 16; k++)
                    c[lane][e] += a[2 * e + lane / 16][first + k] * b[lane % 16][first + k];
}
static void wmma12_bytes(byte_registers a, byte_registers b, registers c) {
    for (int first = 0; first < 16; first += 8)
        for (int lane = 0; lane < 32; lane++)
            for (int e = 0; e < 8; e++)
                for (int k = 0; k < 16; k++)
                    c[lane][e] += a[16 * (k / 8) + e + lane / 16 * 8][first + k % 8] *
                                  b[16 * (k / 8) + lane % 16][first + k % 8];
}

/* The matrix instruction calculator, v_mfma_i32_16x16x32_i8: element (i,k) of A is in lane i + 16 * (k / 8),
 * item k % 8, and so is (k,i) of B. */
static void mfma_bytes(byte_registers a, byte_registers b, registers c) {
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++)
            for (int k = 0; k < 32; k++)
                c[j + 16 * (i / 4)][i % 4] += a[i + 16 * (k / 8)][k % 8] * b[j + 16 * (k / 8)][k % 8];
}

/* The extension's text, depth 32: of component m of a work-item i has the depths 4i to 4i + 3 (sub-groups of
 * 8) or 2i and 2i + 1 (of 16); component d of b has the depths 4d to 4d + 3. */
static void dpas8_bytes(byte_registers a, byte_registers b, registers c) {
    for (int lane = 0; lane < 8; lane++)
        for (int m = 0; m < 8; m++)
            for (int k = 0; k < 32; k++)
                c[lane][m] += a[k / 4][4 * m + k % 4] * b[lane][k];
}
static void dpas16_bytes(byte_registers a, byte_registers b, registers c) {
    for (int lane = 0; lane < 16; lane++)
        for (int m = 0; m < 8; m++)
            for (int k = 0; k < 32; k++)
                c[lane][m] += a[k / 2][2 * m + k % 2] * b[lane][k];
}

/* ---- the tests ---------------------------------------------------------------------------------------- */

TEST(units_multiply) {
    static void (*const multiply[])(registers, registers, registers) = {
        [KN_MATRIX_UNIT_MMA] = mma,   [KN_MATRIX_UNIT_WMMA] = wmma,   [KN_MATRIX_UNIT_WMMA12] = wmma12,
        [KN_MATRIX_UNIT_MFMA] = mfma, [KN_MATRIX_UNIT_DPAS8] = dpas8, [KN_MATRIX_UNIT_DPAS16] = dpas16,
        [KN_MATRIX_UNIT_MMA8] = mma8, [MMA_TF32] = mma_tf32};
    for (int u = 1; u < LAYOUTS; u++) {
        const unit *of = &units[u];
        registers a = {{0}}, b = {{0}}, c = {{0}};
        int found[SIDE][SIDE] = {{0}};
        for (int lane = 0; lane < of->lanes; lane++) {
            for (int e = 0; e < of->left_each; e++) {
                const place at = of->left(lane, e);
                assert_in_range(at.row, 0, of->rows - 1);
                assert_in_range(at.column, 0, of->depth - 1);
                a[lane][e] = 100 * at.row + 7 * at.column + at.row * at.column;
            }
            for (int e = 0; e < of->right_each; e++) {
                const place at = of->right(lane, e);
                assert_in_range(at.row, 0, of->depth - 1);
                assert_in_range(at.column, 0, of->columns - 1);
                b[lane][e] = 3 * at.row - 50 * at.column - at.row * at.column;
            }
        }
        multiply[u](a, b, c);
        for (int lane = 0; lane < of->lanes; lane++)
            for (int e = 0; e < of->sum_each; e++) {
                const place at = of->sum(lane, e);
                int sum = 0;
                for (int k = 0; k < of->depth; k++)
                    sum += (100 * at.row + 7 * k + at.row * k) * (3 * k - 50 * at.column - k * at.column);
                if (c[lane][e] != sum)
                    fail_msg("unit %d, lane %d, sum %d: %d, not %d", u, lane, e, c[lane][e], sum);
                found[at.row][at.column]++;
            }
        for (int row = 0; row < of->rows; row++)
            for (int column = 0; column < of->columns; column++)
                assert_int_equal(found[row][column], 1);
    }
}

static int left_byte(int row, int k) {
    return (row * 37 + k * 101 + row * k) % 256 - 128;
}
static int right_byte(int k, int column) {
    return (k * 59 + column * 83 + column * k) % 256;
}

TEST(units_multiply_bytes) {
    static void (*const multiply[])(byte_registers, byte_registers, registers) = {
        [KN_MATRIX_UNIT_MMA] = mma_bytes,       [KN_MATRIX_UNIT_WMMA] = wmma_bytes,
        [KN_MATRIX_UNIT_WMMA12] = wmma12_bytes, [KN_MATRIX_UNIT_MFMA] = mfma_bytes,
        [KN_MATRIX_UNIT_DPAS8] = dpas8_bytes,   [KN_MATRIX_UNIT_DPAS16] = dpas16_bytes};
    for (int u = 1; u <= KN_MATRIX_UNIT_DPAS16; u++) {
        const unit *of = &units[u];
        byte_registers a = {{0}}, b = {{0}};
        registers c = {{0}};
        for (int lane = 0; lane < of->lanes; lane++) {
            for (int i = 0; i < 2 * of->left_each; i++) {
                const place at = of->left(lane, i / 2);
                a[lane][i] = left_byte(at.row, 2 * at.column + i % 2);
            }
            for (int i = 0; i < 2 * of->right_each; i++) {
                const place at = of->right(lane, i / 2);
                b[lane][i] = right_byte(2 * at.row + i % 2, at.column);
            }
        }
        multiply[u](a, b, c);
        for (int lane = 0; lane < of->lanes; lane++)
            for (int e = 0; e < of->sum_each; e++) {
                const place at = of->sum(lane, e);
                int sum = 0;
                for (int k = 0; k < 2 * of->depth; k++)
                    sum += left_byte(at.row, k) * right_byte(k, at.column);
                if (c[lane][e] != sum)
                    fail_msg("unit %d, lane %d, sum %d: %d, not %d", u, lane, e, c[lane][e], sum);
            }
    }
}

/* Numbers of a run are adjacent along the depth, and begin at a multiple of it: a lane loads them at once. */
TEST(runs_are_adjacent) {
    for (int u = 1; u < LAYOUTS; u++)
        for (int lane = 0; lane < units[u].lanes; lane++) {
            const unit *of = &units[u];
            for (int e = 0; e < of->left_each; e++) {
                const place at = of->left(lane, e), first = of->left(lane, e / of->left_run * of->left_run);
                assert_int_equal(at.row, first.row);
                assert_int_equal(at.column, first.column + e % of->left_run);
                assert_int_equal(first.column % of->left_run, 0);
            }
            for (int e = 0; e < of->right_each; e++) {
                const place at = of->right(lane, e),
                            first = of->right(lane, e / of->right_run * of->right_run);
                assert_int_equal(at.column, first.column);
                assert_int_equal(at.row, first.row + e % of->right_run);
                assert_int_equal(first.row % of->right_run, 0);
            }
        }
}

/* What variants assume about a unit. */
TEST(sizes_are_those_of_kernels) {
    for (int u = KN_MATRIX_UNIT_MMA; u <= KN_MATRIX_UNIT_LAST; u++) {
        if (u == KN_MATRIX_UNIT_AMX) continue;
        const kn_fragment *of = kn_fragment_of((kn_matrix_unit)u);
        assert_int_equal(of->lanes, units[u].lanes);
        assert_int_equal(of->rows, units[u].rows);
        assert_int_equal(of->columns, units[u].columns);
        assert_int_equal(KN_FRAGMENT_DEPTH, units[u].depth);
    }
}

TEST_FILE(test_fragments, NULL, NULL)
