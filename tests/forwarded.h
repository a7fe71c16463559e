/* Communicators between a worker and the one that does the work, which tests count, fail or delay messages
 * in. */
#ifndef KN_TESTS_FORWARDED_H
#define KN_TESTS_FORWARDED_H

#include <koine/communicator.h>

/* The first member of what a test keeps for a worker, which is the `user` of `outer`. */
typedef struct forwarded {
    const kn_communicator *inner;
    kn_communicator outer;
} forwarded;

/* Makes `outer` do what `inner` does, without its sum. Its functions may be replaced then. */
void forward_to(forwarded *end, const kn_communicator *inner);

#endif
