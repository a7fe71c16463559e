/* A custom operator: an operator row created at run time. */
#ifndef KN_CUSTOM_PRIVATE_H
#define KN_CUSTOM_PRIVATE_H

#include <koine/custom.h>

#include <stdatomic.h>

#include "graph/graph_private.h"

enum { KN_CUSTOM_INPUTS = 16, KN_CUSTOM_RESULTS = 8, KN_CUSTOM_WORDS = 16 };

/* One dimension of a pattern, or the dimensions `word...`. */
typedef struct kn_custom_item {
    int many; /* index of the word that matches any number of dimensions; -1: a single size */
    const kn_expression *size; /* of an input: a word or a number */
} kn_custom_item;

/* "int32 rows...,n" */
typedef struct kn_custom_pattern {
    const char *text;
    bool typed;
    kn_dtype dtype;
    int count;
    kn_custom_item items[KN_MAX_RANK];
} kn_custom_pattern;

struct kn_custom {
    kn_operator row;
    atomic_int holders; /* references: the caller, graphs, and operators whose gradient it is */
    kn_host host;
    kn_arena arena;
    kn_error error;
    kn_attribute attributes[KN_MAX_ATTRIBUTES];
    /* Kernels only: */
    const char *source, *kernel, *file; /* file: its name in messages */
    int input_count, result_count, word_count;
    kn_custom_pattern inputs[KN_CUSTOM_INPUTS], results[KN_CUSTOM_RESULTS];
    const char *words[KN_CUSTOM_WORDS];
    bool many[KN_CUSTOM_WORDS]; /* words that match several dimensions */
    int launch_count, group_count;
    const kn_expression *launch[3];
    size_t group[3];
    struct kn_custom *gradient_operator;
    void (*gradient)(void *user, const kn_custom_gradient *call);
    void (*reference)(void *user, const kn_custom_reference *call);
    void *user;
    void (*release)(void *user);
};

/* The sizes that the words of a node's patterns match. */
typedef struct kn_custom_sizes {
    bool known[KN_CUSTOM_WORDS];
    kn_dim sizes[KN_CUSTOM_WORDS]; /* for several dimensions: their product */
    int ranks[KN_CUSTOM_WORDS];    /* for several dimensions: how many, and their sizes */
    kn_dim dims[KN_CUSTOM_WORDS][KN_MAX_RANK];
} kn_custom_sizes;

/* ---- custom.c --------------------------------------------------------------------------------------- */

/* Creates an operator with only a name and attributes; NULL only when out of memory. */
struct kn_custom *kn_custom_make(const kn_allocator *allocator, const char *name, const char *attributes);
/* Records the operator's first error, prefixed with "operator 'NAME': ". */
void kn_custom_fail(struct kn_custom *custom, kn_status status, const char *format, ...) KN_PRINTF(3, 4);
void kn_custom_drop(struct kn_custom *custom);
int kn_custom_attribute(const struct kn_custom *custom, const char *name); /* -1: not found */

/* ---- custom_kernel.c; custom_rules.c has their row rules -------------------- */

int kn_custom_word(const struct kn_custom *custom, const char *name); /* -1: not found */
/* Matches the inputs against the patterns to find the size of each word. */
kn_status kn_custom_match(const struct kn_custom *custom, kn_graph *graph, const char *node,
                          kn_value *const *inputs, kn_custom_sizes *sizes, kn_error *error);
/* A size computed from words and attributes; arithmetic errors are reported to the graph. */
kn_dim kn_custom_size(const struct kn_custom *custom, kn_graph *graph, const kn_custom_sizes *sizes,
                      const kn_attribute_value *attributes, const kn_expression *size);
kn_status kn_custom_shape(kn_shape_call *call);
kn_status kn_custom_lower(kn_lowering *lowering);
kn_status kn_custom_build_gradient(kn_gradient_call *call);
kn_status kn_custom_compute(kn_reference_call *call);

#endif
