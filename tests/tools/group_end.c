#define _GNU_SOURCE
#include "group_end.h"

#include <dlfcn.h>
#include <stddef.h>

kn_communicator *group_end_open(forwarded *end, kn_group *group, int rank) {
    union {
        void *found;
        const kn_communicator *(*call)(kn_group *, int);
    } next = {.found = dlsym(RTLD_NEXT, "kn_group_communicator")};
    const kn_communicator *inner = next.call(group, rank);
    if (!inner) return NULL;
    forward_to(end, inner);
    return &end->outer;
}
