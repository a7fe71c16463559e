/* For preloaded libraries that stand between the workers of one process and their communicator. */
#ifndef KN_TEST_GROUP_END_H
#define KN_TEST_GROUP_END_H

#include <koine/communicator.h>

/* A worker's communicator; the first member of what a library keeps for it, which is the `user` of `outer`.
 */
typedef struct group_end {
    const kn_communicator *inner;
    kn_communicator outer;
} group_end;

/* Makes `outer` do what the communicator of a rank does, and returns it; NULL: there is no such rank. */
kn_communicator *group_end_open(group_end *end, kn_group *group, int rank);

#endif
