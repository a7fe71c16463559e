/* The test groups of the graph module, and their helpers. */
#ifndef KN_GRAPH_TESTS_H
#define KN_GRAPH_TESTS_H

#include "support.h"

#include <string.h>

#include "graph/graph.h"

/* Each runs one group and returns the number of failed tests. */
int test_tensor(void);
int test_dimension(void);
int test_attribute(void);
int test_build(void);
int test_expression(void);
int test_bind(void);
int test_fold(void);
int test_gradient(void);
int test_step(void);
int test_faults(void);
int test_mutations(void);

/* Reads a hostile text as a shape, as attributes and as an expression, and reads the printed form again.
 * Returns a description of a fault in the module (not in the text), or NULL. */
const char *read_texts(const char *text);

/* Creates a graph; fails the test if there is no memory. */
kn_graph *graph_make(void);
/* The graph must have failed with this status and a text that contains each of the words (the list ends with
 * NULL). */
void assert_graph_error(const kn_graph *graph, kn_status status, ...);
void assert_words(const char *text, const char *word);
/* The printed graph, in memory that the next call reuses. */
const char *printed(const kn_graph *graph);

/* Apply operators of the small table of these tests, by name (see mini_table.c). */
kn_value *apply1(kn_value *x, const char *name, const char *attributes);
kn_value *apply2(kn_value *x, kn_value *y, const char *name, const char *attributes);
kn_value *apply3(kn_value *x, kn_value *y, kn_value *z, const char *name, const char *attributes);

/* Binds up to two symbols (NULL for none); fails the test if that fails. */
typedef struct numbers {
    const char *symbol;
    int64_t value;
} numbers;
kn_graph *bind_or_fail(const kn_graph *graph, kn_value *const *outputs, size_t count, const numbers *symbols,
                       bool training, kn_value **bound_outputs);

/* The values of a bound graph, computed on the host: `start` fills inputs and states, by name and position.
 */
typedef struct computed {
    const kn_graph *graph;
    double **data; /* by value id */
} computed;
typedef double start_number(const char *name, int64_t position);
computed compute(const kn_graph *bound, start_number *start);
void computed_release(computed *values);

#endif
