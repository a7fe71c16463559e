/* What the tests of single passes share: the graph of a test and its input. */
#ifndef KN_TESTS_PASS_TESTS_H
#define KN_TESTS_PASS_TESTS_H

#include "passes.h"

extern kn_graph *graph;
extern kn_value *x; /* (batch, 8) */
int graph_begin(void **state);
int graph_end(void **state);
/* Fails the test if building the graph has failed. */
void check_built(void);
#define GRAPH_TEST(name) TEST_WITH(name, graph_begin, graph_end)

/* Return the number of failed tests. */
int test_passes(void), test_pass_steps(void);

#endif
