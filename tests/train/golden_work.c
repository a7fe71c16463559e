/* See golden_work.h. */
#include "golden_work.h"

#include <stdio.h>
#include <string.h>

static void train(const golden *file, kn_trainer *trainer, kn_value *loss, golden_feeds *fed, void *user) {
    golden_work *own = user;
    own->status = kn_trainer_status(trainer);
    for (int64_t step = 0; step < file->steps && own->status == KN_OK; step++) {
        uint64_t first, count;
        kn_feed part[2];
        golden_draw(file, fed, step);
        own->status = kn_trainer_local_samples(trainer, (uint64_t)file->batch, &first, &count);
        golden_part(file, fed, first, count, part);
        if (own->status == KN_OK)
            own->status = kn_trainer_step(trainer, file->batch, part, 2, &own->losses[step]);
    }
    if (own->status == KN_OK) own->status = states_read_hash(kn_trainer_states(trainer), &own->bits);
    snprintf(own->error, sizeof own->error, "%s", kn_trainer_error(trainer));
}

void golden_work_do(golden_work *own) {
    golden_setup setup = own->setup;
    kn_context_params params = device_params();
    kn_context *opened = setup.context ? NULL : kn_context_create(&params);
    if (opened) setup.context = opened;
    own->status = setup.context ? kn_context_status(setup.context) : KN_ERROR_MEMORY;
    if (own->status == KN_OK)
        golden_with_trainer(own->file, &setup, own, train);
    else
        snprintf(own->error, sizeof own->error, "%s",
                 setup.context ? kn_context_error(setup.context) : "out of memory");
    const kn_communicator *all = setup.communicator;
    if (own->status != KN_OK && all && all->ranks > 1) all->abort(all->user, own->error);
    kn_context_destroy(&opened);
}

bool golden_work_equal(const golden_work *a, const golden_work *b) {
    return a->bits == b->bits && !memcmp(a->losses, b->losses, sizeof a->losses);
}
