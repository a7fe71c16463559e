/* For ranks of MPI, each a process, or a thread of one. */
#ifndef KN_TEST_RANKS_H
#define KN_TEST_RANKS_H

#include <koine/communicator.h>

#include <stdio.h>
#include <unistd.h>

/* A rank whose check fails prints the reason on stderr and exits with 1. */
#define EXPECT_OF(all, condition)                                                                            \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "rank %d of %d, %s, line %d: %s; %s\n", (all)->rank, (all)->ranks, __FILE__,     \
                    __LINE__, #condition, (all)->error ? (all)->error((all)->user) : "");                    \
            _exit(1);                                                                                        \
        }                                                                                                    \
    } while (0)

/* All collectives on `count` numbers of each rank; sums are those of the tree. */
void sum_and_gather(const kn_communicator *c, size_t count);

#endif
