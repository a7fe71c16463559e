/* A session: a copy of the caller's graph, states, a cache of plans, and the feeds and fetches of the next
 * run. */
#ifndef KN_SESSION_PRIVATE_H
#define KN_SESSION_PRIVATE_H

#include "run/run_private.h"

enum { KN_SESSION_PLANS = 8, KN_SESSION_SYMBOLS = 31 };

/* The feed of an input for the next run. */
typedef struct kn_given {
    bool fed;
    const void *data;  /* host memory */
    kn_buffer *buffer; /* or the caller's device memory */
    uint64_t bytes;
    double scale; /* see kn_feed */
} kn_given;

typedef struct kn_output_place {
    const char *name;
    kn_buffer *buffer; /* the caller's, for the next run; NULL: none */
} kn_output_place;

/* A node that uses an input as indices. */
typedef struct kn_index_use {
    const kn_node *node;
    int input;
} kn_index_use;

struct kn_session {
    kn_host host;
    kn_context *context;
    kn_session_params params;
    kn_switches switches;
    kn_states *states;
    kn_error failure; /* from creation: permanent */
    kn_error error;   /* from the last call */
    kn_status (*extend)(void *user, kn_graph *bound, kn_value **values, size_t count, kn_error *error);
    void *user;
    kn_graph *graph; /* a copy: the caller may destroy the original */
    kn_value **values;
    kn_output_place *outputs; /* by value */
    size_t value_count;
    kn_value **inputs; /* inputs of the copy, which the values need */
    int input_count;
    char **unused; /* names of other inputs of the caller's graph: feeding them is ignored */
    int unused_count;
    /* Symbols: `bound` by kn_session_bind; `numbers` for the next run. -1: none. */
    const char *symbols[KN_SESSION_SYMBOLS];
    int symbol_count;
    int64_t bound[KN_SESSION_SYMBOLS], numbers[KN_SESSION_SYMBOLS];
    kn_index_use *indices; /* indices.c */
    int index_count;
    kn_given *given; /* by input */
    uint64_t *
        solved_bytes; /* by input: sizes of the feeds from which `numbers` were solved; UINT64_MAX: not fed */
    double *scales;   /* by input: their scales */
    bool solved;
    uint64_t guard;                             /* bytes after each value */
    kn_totals *totals;                          /* data-parallel workers; NULL: none */
    kn_memory memories[KN_CONTEXT_MAX_DEVICES]; /* by device of the context at creation */
    int device_count;
    kn_executable *plans[KN_SESSION_PLANS];
    kn_executable *current;
    uint64_t clock;
};

/* Records the feeds in `given`; with `sizes_only`, data may be NULL. */
kn_status kn_session_take_feeds(kn_session *session, const kn_feed *feeds, size_t count, bool sizes_only);
/* Solves for all symbols that bindings and the sizes of feeds determine. */
kn_status kn_session_solve_symbols(kn_session *session);
/* List the nodes that use inputs as indices, and check the fed indices once symbols have numbers. */
kn_status kn_session_list_indices(kn_session *session);
kn_status kn_session_check_indices(kn_session *session);
/* Sets `current` to the plan for `numbers`, cached or new. */
kn_status kn_session_find_plan(kn_session *session);
/* Waits for the work on all devices; returns the first failure. */
kn_status kn_session_finish(kn_session *session, kn_error *error);
/* Clears the last error; fails if the creation of the session failed. */
kn_status kn_session_begin(kn_session *session);
int kn_session_find_value(const kn_session *session, const char *name);
/* KN_ERROR_NOT_FOUND, with the most similar name. */
kn_status kn_session_fail_name(kn_session *session, const char *what, const char *name,
                               kn_value *const *values, size_t count);

#endif
