/* Which arguments of the steps of recurrent/tiled.cl and recurrent/wide.cl may be absent. */
#include "common/present.cl"

#define KN_PRESENT_STEP                                                                                      \
    KN_PRESENT(bias, 2)                                                                                      \
    KN_PRESENT(lengths, 3)                                                                                   \
    KN_PRESENT(before, 4)                                                                                    \
    KN_PRESENT(after, 5)                                                                                     \
    KN_PRESENT(cells_before, 6)                                                                              \
    KN_PRESENT(cells, 7)                                                                                     \
    KN_PRESENT(kept, 9)                                                                                      \
    KN_PRESENT(start, 10)                                                                                    \
    KN_PRESENT(final, 11)                                                                                    \
    KN_PRESENT(final_cells, 12)
#define KN_PRESENT_BACK                                                                                      \
    KN_PRESENT(dy, 0)                                                                                        \
    KN_PRESENT(cells, 2)                                                                                     \
    KN_PRESENT(cells_before, 3)                                                                              \
    KN_PRESENT(previous, 4)                                                                                  \
    KN_PRESENT(lengths, 6)                                                                                   \
    KN_PRESENT(final, 7)                                                                                     \
    KN_PRESENT(final_cells, 8)                                                                               \
    KN_PRESENT(carry, 11)                                                                                    \
    KN_PRESENT(carry_cells, 12)                                                                              \
    KN_PRESENT(start, 13)                                                                                    \
    KN_PRESENT(start_cells, 14)
