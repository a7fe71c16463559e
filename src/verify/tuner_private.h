/* The tuner: the shapes that it has collected, and their candidates. */
#ifndef KN_TUNER_PRIVATE_H
#define KN_TUNER_PRIVATE_H

#include <koine/tune.h>

#include "verify/verify_private.h"

enum { KN_TUNER_CANDIDATES = 48 };

/* A candidate kernel for a node. */
typedef struct kn_candidate {
    const kn_variant *variant;
    int tile;          /* 0: chosen by shape */
    uint64_t programs; /* kn_node_programs */
    char name[KN_TUNED_KERNEL];
} kn_candidate;

/* Nodes of the same shapes. */
typedef struct kn_tuner_node {
    kn_node_spec node;
    bool kept, fast; /* see kn_tuning and kn_target */
    const kn_variant *untuned;
    int nodes;
    double seconds; /* predicted total time of these nodes */
    char *key, *name;
    kn_candidate *candidates; /* the untuned candidate first */
    int candidate_count;
} kn_tuner_node;

struct kn_tuner {
    kn_host host;
    kn_context *context;
    kn_error error;
    kn_tuner_node **nodes;
    size_t count, capacity;
    bool failed;      /* out of memory while recording a plan */
    size_t listed;    /* nodes whose candidates are known */
    double predicted; /* seconds of all nodes with several candidates */
};

/* The shape at an index below kn_tuner_shape_count; NULL: out of range. */
kn_tuner_node *kn_tuner_node_at(kn_tuner *tuner, size_t position);

#endif
