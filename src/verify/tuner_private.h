/* The tuner: the shapes that it has noted, and their candidates. */
#ifndef KN_TUNER_PRIVATE_H
#define KN_TUNER_PRIVATE_H

#include <koine/tune.h>

#include "verify/verify_private.h"

enum { KN_TUNER_CANDIDATES = 48 };

/* A way to compute a node. */
typedef struct kn_candidate {
    const kn_variant *variant;
    int tile;          /* 0: chosen by the shape */
    uint64_t programs; /* kn_node_programs */
    char name[KN_TUNED_KERNEL];
} kn_candidate;

/* Nodes of the same shapes. */
typedef struct kn_tuner_node {
    kn_node_spec node;
    bool kept, fast; /* as kn_tuning and its target have them */
    const kn_variant *untuned;
    int nodes;
    double seconds; /* predicted, of all of them */
    char *key, *name;
    kn_candidate *candidates; /* the untuned one first */
    int candidate_count;
} kn_tuner_node;

struct kn_tuner {
    kn_host host;
    kn_context *context;
    kn_error error;
    kn_tuner_node **nodes;
    size_t count, capacity;
    bool failed;      /* out of memory while a plan was noted */
    size_t listed;    /* nodes whose candidates are known */
    double predicted; /* seconds of all nodes with several candidates */
};

/* The shape at a position of kn_tuner_shape_count; NULL: none. */
kn_tuner_node *kn_tuner_node_at(kn_tuner *tuner, size_t position);

#endif
