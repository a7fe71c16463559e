/* The positions of arguments that may be absent in the steps of recurrent/tiled.cl, fragment.cl and plain.cl, and of
 * wide.cl (walk). */
#include "common/present.cl"

enum {
    kn_at_step_bias = 2,
    kn_at_step_lengths = 3,
    kn_at_step_before = 4,
    kn_at_step_after = 5,
    kn_at_step_cells_before = 6,
    kn_at_step_cells = 7,
    kn_at_step_kept = 9,
    kn_at_step_start = 10,
    kn_at_step_final = 11,
    kn_at_step_final_cells = 12
};
enum {
    kn_at_back_dy = 0,
    kn_at_back_cells_before = 3,
    kn_at_back_lengths = 6,
    kn_at_back_final = 7,
    kn_at_back_final_cells = 8,
    kn_at_back_carry = 11,
    kn_at_back_carry_cells = 12,
    kn_at_back_start = 13,
    kn_at_back_start_cells = 14
};
enum {
    kn_at_walk_bias = 2,
    kn_at_walk_lengths = 3,
    kn_at_walk_start = 4,
    kn_at_walk_start_cells = 5,
    kn_at_walk_kept = 9,
    kn_at_walk_cells = 10,
    kn_at_walk_previous = 11,
    kn_at_walk_final = 12,
    kn_at_walk_final_cells = 13
};
enum {
    kn_at_walk_back_dy = 0,
    kn_at_walk_back_start_cells = 3,
    kn_at_walk_back_lengths = 6,
    kn_at_walk_back_final = 7,
    kn_at_walk_back_final_cells = 8,
    kn_at_walk_back_carry = 11,
    kn_at_walk_back_carry_cells = 12,
    kn_at_walk_back_d_start = 13,
    kn_at_walk_back_d_start_cells = 14
};
