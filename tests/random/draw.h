/* Drawing random graphs: what the families of operators share (draw.c), and the families. */
#ifndef KN_TESTS_RANDOM_DRAW_H
#define KN_TESTS_RANDOM_DRAW_H

#include "random_graph.h"

typedef struct drawing {
    random_graph *graph;
    random_stream stream;
    int largest; /* elements of a value */
} drawing;

/* Adds an input; -1: no room. `bound` as in graph_line. */
int draw_add_input(drawing *to, const int64_t *dims, int rank, const char *dtype, int bound);
/* Adds an operator; -1, and nothing is added, if Koine does not accept it. graph_draw removes the inputs that
 * were added for it. */
int draw_add(drawing *to, const char *kind, const int *arguments, int argument_count, const char *words);
int draw_add1(drawing *to, const char *kind, int x, const char *words);
int draw_add2(drawing *to, const char *kind, int x, int y, const char *words);
/* A size: often 1, a small odd number, or a multiple of a vector. */
int64_t draw_size(drawing *to);
int64_t draw_channels(drawing *to);
/* A line with that property, the last ones more often; or -1. */
int draw_choose(drawing *to, bool (*suits)(const graph_line *line));
const char *draw_type_name(kn_dtype dtype);
/* A value that broadcasts with `x`: an earlier value, or a new input with some of its axes. */
int draw_partner(drawing *to, int x, bool may_widen);

static inline bool draw_is_matrix(const graph_line *line) {
    return line->rank >= 2 && line->dtype == KN_FLOAT32;
}
static inline bool draw_is_float_with_axes(const graph_line *line) {
    return line->rank > 0 && line->dtype == KN_FLOAT32;
}

/* A family adds an operator, and inputs for it, or returns -1. */
typedef int draw_family(drawing *to);
/* draw_functions.c */
draw_family draw_unary, draw_binary, draw_where, draw_cast, draw_integer, draw_reduction, draw_along_axis,
    draw_transpose, draw_reshape, draw_slice, draw_pad, draw_flip, draw_concat, draw_broadcast, draw_tile,
    draw_triangle;
/* draw_layers.c */
draw_family draw_conv, draw_pool, draw_image, draw_norm, draw_product, draw_sequence, draw_lookup, draw_loss,
    draw_case;

#endif
