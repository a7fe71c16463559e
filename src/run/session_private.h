/* A session: a graph of its own, states, a few plans, and what is fed and fetched next. */
#ifndef KN_SESSION_PRIVATE_H
#define KN_SESSION_PRIVATE_H

#include "run/run_private.h"

enum { KN_SESSION_PLANS = 8, KN_SESSION_SYMBOLS = 31 };

/* What an input is given for the next run. */
typedef struct kn_given {
    bool fed;
    const void *data;  /* host memory, */
    kn_buffer *buffer; /* or the caller's device memory */
    uint64_t bytes;
} kn_given;

typedef struct kn_output_place {
    const char *name;
    kn_buffer *buffer; /* the caller's, for the next run; NULL: none */
} kn_output_place;

struct kn_session {
    kn_host host;
    kn_context *context;
    kn_session_params params;
    kn_switches switches;
    kn_states *states;
    kn_error failure; /* of making it: stays */
    kn_error error;   /* of the last call */
    kn_status (*extend)(void *user, kn_graph *bound, kn_value *const *values, size_t count, kn_error *error);
    void *user;
    kn_graph *graph; /* a copy: the caller's may go */
    kn_value **values;
    kn_output_place *outputs; /* beside values */
    size_t value_count;
    kn_value **inputs; /* of the copy, which are those that the values need */
    int input_count;
    char **unused; /* inputs of the caller's graph that the values do not need: feeds of them are ignored */
    int unused_count;
    /* Symbols: what was bound by hand, and what the next run takes. -1: none. */
    const char *symbols[KN_SESSION_SYMBOLS];
    int symbol_count;
    int64_t bound[KN_SESSION_SYMBOLS], numbers[KN_SESSION_SYMBOLS];
    kn_given *given;         /* by input */
    uint64_t *settled_bytes; /* by input: the feeds that `numbers` were found from; UINT64_MAX: not fed */
    bool settled;
    uint64_t guard;                         /* bytes behind each value */
    kn_memory memories[KN_CONTEXT_DEVICES]; /* one for each of the context's, as they were when it was made */
    int device_count;
    kn_executable *plans[KN_SESSION_PLANS];
    kn_executable *current;
    uint64_t clock;
};

/* Notes feeds as what the inputs are given; NULL data is allowed where `sizes_only`. */
kn_status kn_session_take_feeds(kn_session *session, const kn_feed *feeds, size_t count, bool sizes_only);
/* Works out numbers for all symbols that can be known, from what is bound and given. */
kn_status kn_session_settle_symbols(kn_session *session);
/* The plan for the numbers as they are, from the cache or made. */
kn_status kn_session_find_plan(kn_session *session);
/* Waits for the work on all devices; the first failure counts. */
kn_status kn_session_finish(const kn_session *session, kn_error *error);
/* Clears the last error; fails where the session never was one. */
kn_status kn_session_begin(kn_session *session);
int kn_session_find_value(const kn_session *session, const char *name);
/* NOT_FOUND with the name that comes nearest. */
kn_status kn_session_fail_name(kn_session *session, const char *what, const char *name,
                               kn_value *const *values, size_t count);

#endif
