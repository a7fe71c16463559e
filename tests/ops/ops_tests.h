/* The test groups of the ops module, and their helpers. */
#ifndef KN_OPS_TESTS_H
#define KN_OPS_TESTS_H

#include "support.h"

#include "formats/formats.h"
#include "ops/ops.h"

/* Each runs one group and returns the number of its tests that failed. */
int test_pointwise_values(void);
int test_shapes(void);
int test_builders(void);
int test_made_shapes(void);
int test_layers(void);
int test_spectrogram(void);
int test_rows(void);
int test_fragments(void);
int test_lowering(void);
int test_golden(const char *file);

/* Builds an operator of tools/golden/layers.py by its name there; NULL if there is no such name
 * (golden_layers.c). */
kn_value *golden_layer(const char *name, const kn_json *given, kn_value **in, int count);

/* ---- computing graphs on the host, in double precision (host_graph.c) ------------------------------ */

/* The elements of an input, row-major. */
typedef struct host_input {
    const char *name;
    const double *numbers;
} host_input;

/* The elements of all values of a bound graph, by id; states have their initial elements. */
typedef struct host_values {
    size_t count;
    double **numbers;
} host_values;

/* Computes every node with its reference; fails the test if a node has none. */
host_values host_compute(const kn_graph *bound, const host_input *inputs, int count);
void host_release(host_values *values);

/* Elements of a value of a bound graph. */
int64_t host_elements(const kn_value *value);

/* The sum of weights[k][i] * outputs[k][i] as a node of the graph, for gradients. */
kn_value *host_loss(kn_graph *bound, kn_value *const *outputs, double *const *weights, int count);

#endif
