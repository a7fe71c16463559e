/* For preloaded libraries that stand between the workers of one process and their communicator. */
#ifndef KN_TEST_GROUP_END_H
#define KN_TEST_GROUP_END_H

#include "../forwarded.h"

/* Makes `outer` do what the communicator of a rank does, and returns it; NULL: there is no such rank. */
kn_communicator *group_end_open(forwarded *end, kn_group *group, int rank);

#endif
