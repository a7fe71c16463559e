/* Workers of a training, in threads of a test. */
#ifndef KN_TEST_WORKERS_H
#define KN_TEST_WORKERS_H

#include <koine/koine.h>

/* Calls `work` for each of `count` workers, at most 8 elements of `size` bytes, in a separate thread with the
 * communicator of its rank, and waits for all. The test fails if a thread cannot be started. */
void workers_run(void *workers, size_t size, int count,
                 void (*work)(void *worker, const kn_communicator *communicator));

/* A device of the worker's and a model that learns classes from `y`. */
typedef struct worker_net {
    kn_context *context;
    kn_model *model;
    kn_value *loss;
    kn_status status; /* of adding the loss */
} worker_net;

/* device NULL: the tests' device. It owns `model`. */
worker_net worker_open(const kn_context_params *device, kn_model *model);
void worker_close(worker_net *net);

#endif
