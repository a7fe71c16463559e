/* Helpers to build nodes: settings (attributes of a node to be built), and nodes built from them. */
#ifndef KN_OPS_BUILD_H
#define KN_OPS_BUILD_H

#include "ops/row.h"

/* Attributes for a node of `row`, initialized to the row's defaults; set one by name. */
typedef struct kn_settings {
    const kn_operator *row;
    kn_attribute_value values[KN_MAX_ATTRIBUTES];
    const char *unknown; /* a name that the row does not have, which fails the node; NULL: none */
} kn_settings;
void kn_settings_init(kn_settings *settings, kn_graph *graph, const kn_operator *row);
void kn_settings_int(kn_settings *settings, const char *name, int64_t number);
void kn_settings_float(kn_settings *settings, const char *name, double number);
void kn_settings_list(kn_settings *settings, const char *name, int count, const kn_dim *numbers);
/* Copies the node's attributes that the settings' row has, too. */
void kn_settings_copy(kn_settings *settings, const kn_node *node);

/* A node on the given inputs; failed or NULL values give a failed value (NULL if there is no graph). settings
 * NULL: defaults. */
kn_value *kn_build(const kn_operator *row, kn_value *const *inputs, int count, const kn_settings *settings);
kn_value *kn_build1(const kn_operator *row, kn_value *x);
kn_value *kn_build2(const kn_operator *row, kn_value *x, kn_value *y);
/* For an input that failed or is NULL: the failed value of the graph of x, whose error names a missing input.
 */
kn_value *kn_missing(kn_value *x, const kn_value *input, const char *what, const char *name);
/* A node with one input and one numeric attribute. */
kn_value *kn_build_number(const kn_operator *row, kn_value *x, const char *attribute, double number);
/* A constant (count) filled with a number. */
kn_value *kn_filled(kn_graph *graph, kn_dtype dtype, int64_t count, double number);
/* Parses integers such as "0,-1"; NULL and "" are empty. Returns how many, -1 on failure. */
int kn_read_integers(kn_graph *graph, const kn_operator *row, const char *text, int most, kn_dim *numbers);

#endif
