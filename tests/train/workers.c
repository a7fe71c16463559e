#include "workers.h"

#include <pthread.h>

#include "device_support.h"

enum { MOST = 8 };

typedef struct rank {
    pthread_t thread;
    void *worker;
    const kn_communicator *communicator;
    void (*work)(void *worker, const kn_communicator *communicator);
} rank;

static void *run(void *argument) {
    const rank *own = argument;
    own->work(own->worker, own->communicator);
    return NULL;
}

void workers_run(void *workers, size_t size, int count,
                 void (*work)(void *worker, const kn_communicator *communicator)) {
    rank ranks[MOST];
    kn_group *group = NULL;
    assert_in_range(count, 1, MOST);
    assert_int_equal(kn_group_create(count, NULL, &group), KN_OK);
    for (int r = 0; r < count; r++) {
        ranks[r] = (rank){.worker = (char *)workers + (size_t)r * size,
                          .communicator = kn_group_communicator(group, r),
                          .work = work};
        assert_int_equal(pthread_create(&ranks[r].thread, NULL, run, &ranks[r]), 0);
    }
    for (int r = 0; r < count; r++)
        pthread_join(ranks[r].thread, NULL);
    kn_group_destroy(&group);
}

worker_net worker_open(const kn_context_params *device, kn_model *model) {
    const kn_context_params params = device ? *device : device_params();
    kn_model_loss loss = KN_MODEL_LOSS_DEFAULTS;
    worker_net net = {.context = device_open(&params), .model = model};
    net.status = kn_model_add_loss(model, NULL, &loss);
    net.loss = loss.value;
    return net;
}

void worker_close(worker_net *net) {
    kn_model_destroy(&net->model);
    device_close(&net->context);
}
