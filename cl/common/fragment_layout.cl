/* The positions of each lane's elements in the tiles that matrix units multiply: sums (rows,columns) += left
 * (rows,depth) times right (depth,columns), with left and right in 16 bits, or TF32, and the sums in float32; or with
 * pairs of 8-bit integers instead of 16-bit elements, and sums in int32. The lanes of a wave share the tiles. Element
 * e of a lane is at these positions; KN_FRAGMENT is the unit, numbered from 1 in the order of kn_matrix_unit:
 *   KN_LANES, KN_ROWS, KN_COLUMNS, KN_DEPTH    lanes of a wave, and the sizes of a tile
 *   KN_LEFT_EACH, KN_RIGHT_EACH, KN_SUM_EACH   elements per lane
 *   KN_LEFT_RUN, KN_RIGHT_RUN                  number of them that are adjacent along the depth
 *   KN_LEFT_AT(lane, e), KN_LEFT_DEPTH(lane, e)    row and depth of an element of left
 *   KN_RIGHT_AT(lane, e), KN_RIGHT_DEPTH(lane, e)  column and depth of an element of right
 *   KN_SUM_ROW(lane, e), KN_SUM_COLUMN(lane, e)    row and column of a sum
 * A suffix with the number of a unit selects that unit. This file is also valid C.
 *
 *   1 mma      PTX, mma.sync.aligned.m16n8k16: "Matrix Fragments for mma.m16n8k16 with floating point type"
 *   2 wmma     RDNA 3, V_WMMA_F32_16X16X16: both halves of a wave have the same elements of left and right
 *   3 wmma12   RDNA 4, the same instruction with other tables
 *   4 mfma     CDNA 2 and later, V_MFMA_F32_16X16X16
 *   5 dpas8    cl_intel_subgroup_matrix_multiply_accumulate, sub-groups of 8
 *   6 dpas16   the same, sub-groups of 16
 *   7 mma      instead of 1 if KN_FORMAT is 3: PTX, mma.sync.aligned.m16n8k8 of .tf32
 * Unit 8, mma8, is unit 1 with half the depth at a time, only with KN_FORMAT 1: the first, then the second half of what
 * its lanes have is what PTX's mma.sync.aligned.m16n8k8 multiplies. Here it becomes KN_FRAGMENT 1 with KN_MMA_DEPTH 8. */
#ifndef KN_FRAGMENT_LAYOUT_CL
#define KN_FRAGMENT_LAYOUT_CL
#if defined(KN_FRAGMENT) && KN_FRAGMENT == 8
#undef KN_FRAGMENT
#define KN_FRAGMENT 1
#define KN_MMA_DEPTH 8
#else
#define KN_MMA_DEPTH 16
#endif
#define KN_UNIT_(name, unit) name##unit
#define KN_UNIT(name, unit) KN_UNIT_(name, unit)
#ifndef KN_FORMAT
#define KN_FORMAT 2
#endif
#if KN_FORMAT == 3
#define KN_LAYOUT 7
#else
#define KN_LAYOUT KN_FRAGMENT
#endif

#define KN_LANES KN_UNIT(KN_LANES_, KN_LAYOUT)
#define KN_ROWS KN_UNIT(KN_ROWS_, KN_LAYOUT)
#define KN_COLUMNS KN_UNIT(KN_COLUMNS_, KN_LAYOUT)
#define KN_DEPTH KN_UNIT(KN_DEPTH_, KN_LAYOUT)
#define KN_LEFT_EACH KN_UNIT(KN_LEFT_EACH_, KN_LAYOUT)
#define KN_LEFT_RUN KN_UNIT(KN_LEFT_RUN_, KN_LAYOUT)
#define KN_LEFT_AT KN_UNIT(KN_LEFT_AT_, KN_LAYOUT)
#define KN_LEFT_DEPTH KN_UNIT(KN_LEFT_DEPTH_, KN_LAYOUT)
#define KN_RIGHT_EACH KN_UNIT(KN_RIGHT_EACH_, KN_LAYOUT)
#define KN_RIGHT_RUN KN_UNIT(KN_RIGHT_RUN_, KN_LAYOUT)
#define KN_RIGHT_AT KN_UNIT(KN_RIGHT_AT_, KN_LAYOUT)
#define KN_RIGHT_DEPTH KN_UNIT(KN_RIGHT_DEPTH_, KN_LAYOUT)
#define KN_SUM_EACH KN_UNIT(KN_SUM_EACH_, KN_LAYOUT)
#define KN_SUM_ROW KN_UNIT(KN_SUM_ROW_, KN_LAYOUT)
#define KN_SUM_COLUMN KN_UNIT(KN_SUM_COLUMN_, KN_LAYOUT)

#define KN_LANES_1 32
#define KN_ROWS_1 16
#define KN_COLUMNS_1 8
#define KN_DEPTH_1 16
#define KN_LEFT_EACH_1 8
#define KN_LEFT_RUN_1 2
#define KN_LEFT_AT_1(lane, e) ((lane) / 4 + (e) / 2 % 2 * 8)
#define KN_LEFT_DEPTH_1(lane, e) ((lane) % 4 * 2 + (e) / 4 * 8 + (e) % 2)
#define KN_RIGHT_EACH_1 4
#define KN_RIGHT_RUN_1 2
#define KN_RIGHT_AT_1(lane, e) ((lane) / 4)
#define KN_RIGHT_DEPTH_1(lane, e) ((lane) % 4 * 2 + (e) / 2 * 8 + (e) % 2)
#define KN_SUM_EACH_1 4
#define KN_SUM_ROW_1(lane, e) ((lane) / 4 + (e) / 2 * 8)
#define KN_SUM_COLUMN_1(lane, e) ((lane) % 4 * 2 + (e) % 2)

#define KN_LANES_2 32
#define KN_ROWS_2 16
#define KN_COLUMNS_2 16
#define KN_DEPTH_2 16
#define KN_LEFT_EACH_2 16
#define KN_LEFT_RUN_2 16
#define KN_LEFT_AT_2(lane, e) ((lane) % 16)
#define KN_LEFT_DEPTH_2(lane, e) (e)
#define KN_RIGHT_EACH_2 16
#define KN_RIGHT_RUN_2 16
#define KN_RIGHT_AT_2(lane, e) ((lane) % 16)
#define KN_RIGHT_DEPTH_2(lane, e) (e)
#define KN_SUM_EACH_2 8
#define KN_SUM_ROW_2(lane, e) ((e) * 2 + (lane) / 16)
#define KN_SUM_COLUMN_2(lane, e) ((lane) % 16)

#define KN_LANES_3 32
#define KN_ROWS_3 16
#define KN_COLUMNS_3 16
#define KN_DEPTH_3 16
#define KN_LEFT_EACH_3 8
#define KN_LEFT_RUN_3 8
#define KN_LEFT_AT_3(lane, e) ((lane) % 16)
#define KN_LEFT_DEPTH_3(lane, e) ((lane) / 16 * 8 + (e))
#define KN_RIGHT_EACH_3 8
#define KN_RIGHT_RUN_3 8
#define KN_RIGHT_AT_3(lane, e) ((lane) % 16)
#define KN_RIGHT_DEPTH_3(lane, e) ((lane) / 16 * 8 + (e))
#define KN_SUM_EACH_3 8
#define KN_SUM_ROW_3(lane, e) ((lane) / 16 * 8 + (e))
#define KN_SUM_COLUMN_3(lane, e) ((lane) % 16)

#define KN_LANES_4 64
#define KN_ROWS_4 16
#define KN_COLUMNS_4 16
#define KN_DEPTH_4 16
#define KN_LEFT_EACH_4 4
#define KN_LEFT_RUN_4 4
#define KN_LEFT_AT_4(lane, e) ((lane) % 16)
#define KN_LEFT_DEPTH_4(lane, e) ((lane) / 16 * 4 + (e))
#define KN_RIGHT_EACH_4 4
#define KN_RIGHT_RUN_4 4
#define KN_RIGHT_AT_4(lane, e) ((lane) % 16)
#define KN_RIGHT_DEPTH_4(lane, e) ((lane) / 16 * 4 + (e))
#define KN_SUM_EACH_4 4
#define KN_SUM_ROW_4(lane, e) ((lane) / 16 * 4 + (e))
#define KN_SUM_COLUMN_4(lane, e) ((lane) % 16)

#define KN_LANES_5 8
#define KN_ROWS_5 8
#define KN_COLUMNS_5 8
#define KN_DEPTH_5 16
#define KN_LEFT_EACH_5 16
#define KN_LEFT_RUN_5 2
#define KN_LEFT_AT_5(lane, e) ((e) / 2)
#define KN_LEFT_DEPTH_5(lane, e) ((lane) * 2 + (e) % 2)
#define KN_RIGHT_EACH_5 16
#define KN_RIGHT_RUN_5 2
#define KN_RIGHT_AT_5(lane, e) (lane)
#define KN_RIGHT_DEPTH_5(lane, e) (e)
#define KN_SUM_EACH_5 8
#define KN_SUM_ROW_5(lane, e) (e)
#define KN_SUM_COLUMN_5(lane, e) (lane)

#define KN_LANES_6 16
#define KN_ROWS_6 8
#define KN_COLUMNS_6 16
#define KN_DEPTH_6 16
#define KN_LEFT_EACH_6 8
#define KN_LEFT_RUN_6 1
#define KN_LEFT_AT_6(lane, e) (e)
#define KN_LEFT_DEPTH_6(lane, e) (lane)
#define KN_RIGHT_EACH_6 16
#define KN_RIGHT_RUN_6 2
#define KN_RIGHT_AT_6(lane, e) (lane)
#define KN_RIGHT_DEPTH_6(lane, e) (e)
#define KN_SUM_EACH_6 8
#define KN_SUM_ROW_6(lane, e) (e)
#define KN_SUM_COLUMN_6(lane, e) (lane)

#define KN_LANES_7 32
#define KN_ROWS_7 16
#define KN_COLUMNS_7 8
#define KN_DEPTH_7 8
#define KN_LEFT_EACH_7 4
#define KN_LEFT_RUN_7 1
#define KN_LEFT_AT_7(lane, e) ((lane) / 4 + (e) % 2 * 8)
#define KN_LEFT_DEPTH_7(lane, e) ((lane) % 4 + (e) / 2 * 4)
#define KN_RIGHT_EACH_7 2
#define KN_RIGHT_RUN_7 1
#define KN_RIGHT_AT_7(lane, e) ((lane) / 4)
#define KN_RIGHT_DEPTH_7(lane, e) ((lane) % 4 + (e) * 4)
#define KN_SUM_EACH_7 4
#define KN_SUM_ROW_7(lane, e) ((lane) / 4 + (e) / 2 * 8)
#define KN_SUM_COLUMN_7(lane, e) ((lane) % 4 * 2 + (e) % 2)
#endif
