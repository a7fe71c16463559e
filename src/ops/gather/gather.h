/* Gathering and embedding: rows that other files use in builders, and products of small tables. */
#ifndef KN_OPS_GATHER_H
#define KN_OPS_GATHER_H

#include "ops/row.h"

extern const kn_operator kn_row_gather, kn_row_gather_elements, kn_row_gather_gradient, kn_row_scatter,
    kn_row_scatter_elements;

/* For at_sizes (graph/operator.h) of matmul and add: a product or sum of rows of a small table becomes rows
 * of a table of products or sums (embedding.c). */
kn_status kn_product_of_table(kn_graph *bound, const kn_node *node, kn_value *const *inputs,
                              kn_value **results);
kn_status kn_sum_of_table(kn_graph *bound, const kn_node *node, kn_value *const *inputs, kn_value **results);

#endif
