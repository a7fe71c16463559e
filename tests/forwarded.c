#include "forwarded.h"

#include <stddef.h>

static kn_status end_send(void *user, int rank, int tag, const void *data, size_t bytes, void **request) {
    const kn_communicator *inner = ((forwarded *)user)->inner;
    return inner->send(inner->user, rank, tag, data, bytes, request);
}

static kn_status end_receive(void *user, int rank, int tag, void *data, size_t bytes, void **request) {
    const kn_communicator *inner = ((forwarded *)user)->inner;
    return inner->receive(inner->user, rank, tag, data, bytes, request);
}

static kn_status end_wait(void *user, void **request) {
    const kn_communicator *inner = ((forwarded *)user)->inner;
    return inner->wait(inner->user, request);
}

static void end_abort(void *user, const char *reason) {
    const kn_communicator *inner = ((forwarded *)user)->inner;
    inner->abort(inner->user, reason);
}

static const char *end_error(void *user) {
    const kn_communicator *inner = ((forwarded *)user)->inner;
    return inner->error(inner->user);
}

void forward_to(forwarded *end, const kn_communicator *inner) {
    end->inner = inner;
    end->outer = *inner;
    end->outer.user = end;
    end->outer.send = end_send;
    end->outer.receive = end_receive;
    end->outer.wait = end_wait;
    end->outer.abort = end_abort;
    end->outer.error = end_error;
    end->outer.sum = NULL;
}
