/* Random graphs: a graph is drawn as a text model, planned and run on a device, and compared with every node
 * computed by itself in double precision; a graph that fails is reduced to a small one. */
#ifndef KN_TESTS_RANDOM_GRAPH_H
#define KN_TESTS_RANDOM_GRAPH_H

#include <koine/model.h>
#include <koine/operators.h>

#include "run/run.h"

enum { GRAPH_LINES = 48, LINE_ARGUMENTS = 6, LINE_WORDS = 160, GRAPH_TEXT = 12000 };

/* A stream of random numbers. */
typedef struct random_stream {
    uint64_t key, index;
} random_stream;
/* In [0, bound). */
int random_below(random_stream *stream, int bound);
bool random_chance(random_stream *stream, int percent);

/* One line of a graph: an input, or an operator that reads earlier lines. */
typedef struct graph_line {
    char kind[32]; /* "" for an input */
    int arguments[LINE_ARGUMENTS], argument_count;
    char words[LINE_WORDS]; /* attributes; of an input: "2x3x4 int32" */
    int bound;              /* of an integer input: its elements are below this; 0: -2 to 2 */
    bool wanted;            /* an output although other lines read it */
    /* Once it is in the graph. */
    kn_dtype dtype;
    int rank;
    int64_t dims[KN_MAX_RANK];
} graph_line;

typedef struct random_graph {
    graph_line lines[GRAPH_LINES];
    int count;
} random_graph;

/* Draws a graph of at most `operators` operators (draw.c). */
void graph_draw(random_graph *graph, uint64_t seed, int operators);
/* ---- the text form (text.c) ----------------------------------------------------------------------- */

/* The graph as a text model. Lines that no other reads are its outputs. */
void graph_write(const random_graph *graph, char text[GRAPH_TEXT]);
/* Reads the first graph of a text in this form; a line "# v2 is below 7" limits the elements of an integer
 * input. Returns the rest of the text, or NULL if it has no graph. */
const char *graph_read(random_graph *graph, const char *text);
/* Fills in the types and shapes of all lines; false: it Koine refuses the graph. */
bool graph_infer(random_graph *graph);

/* ---- computing and comparing (check.c, shrink.c) --------------------------------------------------- */

/* How a graph is computed. */
typedef struct graph_mode {
    kn_context *context;
    const char *kind; /* for messages */
    bool fast, training;
    kn_precision precision;
} graph_mode;

typedef enum graph_outcome {
    GRAPH_RIGHT,
    GRAPH_UNDEFINED, /* numbers too large for a comparison, or not supported */
    GRAPH_WRONG,
} graph_outcome;
/* Runs the graph on the device and compares it with the reference: outputs, gradients of all float32 inputs
 * and parameters, and statistics; and the gradients of the reference with a difference. `data` is the seed of
 * the inputs. */
graph_outcome graph_check(const random_graph *graph, const graph_mode *mode, uint64_t data, kn_error *error);
/* The same with three sets of inputs: wrong only if all of them are, since one may hit a jump of a function.
 */
graph_outcome graph_outcome_of(const random_graph *graph, const graph_mode *mode, uint64_t data,
                               kn_error *error);
/* Reduces a wrong graph while it stays wrong; *error is the error of the result. */
void graph_shrink(random_graph *graph, const graph_mode *mode, uint64_t data, kn_error *error);

/* ---- the reference (reference.c) ------------------------------------------------------------------ */

/* The arrays of a bound graph's values, by id. */
typedef struct graph_arrays {
    const kn_graph *bound;
    kn_reference_array *arrays;
} graph_arrays;
/* The number of an element of an input or state. */
typedef double array_element(void *user, const kn_value *value, int64_t element);
typedef enum reference_status {
    REFERENCE_RIGHT,
    REFERENCE_UNDEFINED, /* a number is infinite, NaN, or beyond its type */
    REFERENCE_FAILED
} reference_status;
/* Computes all nodes. `noise` is the seed of relative errors as a device makes them; 0: none. fast: as
 * kn_session_params. `half`: results may be stored in this type of 16 bits; KN_FLOAT32: none. */
reference_status graph_compute(graph_arrays *arrays, const kn_graph *bound, array_element *element,
                               void *user, uint64_t noise, bool fast, kn_dtype half, kn_error *error);
void graph_arrays_finish(graph_arrays *arrays);

#endif
