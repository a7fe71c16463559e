/* The door of the ops room: the operator table, one row per operator. The table itself is declared where rows
 * are (graph/operator.h), the words to build graphs with in koine/operators.h; nothing else leaves this room.
 */
#ifndef KN_OPS_DOOR_H
#define KN_OPS_DOOR_H

#include <koine/operators.h>

#include "graph/graph.h"

/* The uint32 scalar state that counts training steps, made at the first call; random rows read it. Who trains
 * assigns it one more at each step. */
#define KN_STEP_COUNTER "koine.step"
kn_value *kn_step_counter(kn_graph *graph);

/* The rows of nodes that the planner adds: the same value in another layout; float32 from the bytes of an
 * input (attribute scale). */
extern const kn_operator *const kn_layout_row, *const kn_widen_row;

#endif
