/* The largest batch that fits a device. */
#ifndef KOINE_COMMAND_BATCH_H
#define KOINE_COMMAND_BATCH_H

#include "command.h"

/* Plans for a given batch size. Planning allocates no device memory. */
typedef struct batch_plans {
    uint64_t allowed; /* bytes of device memory; 0: all of it */
    void *user;
    /* Plans for this batch and sets the total bytes needed. KN_ERROR_DEVICE_MEMORY: too large for one
     * block. */
    kn_status (*plan)(void *user, int64_t batch, uint64_t *bytes);
    const char *(*error)(void *user); /* the error of the last plan */
} batch_plans;

/* Plans for *batch samples. If they do not fit, reports the needed and available memory, and sets *batch to
 * the largest number that fits, which is planned last. If not even one sample fits, or on another error,
 * reports it and returns false. `then` completes the sentence: "samples go in batches of". */
bool batch_fit(const kn_context *context, const batch_plans *plans, const char *then, int64_t *batch);

void arithmetic_apply(const arithmetic *how, kn_session_params *params);
/* The params of batch_session. */
kn_session_params batch_params(kn_states *states, const arithmetic *how, const char *switches);
/* An inference session without a memory limit, because batch_fit applies the limit. states NULL: new states.
 * switches as in kn_session_params. Check the status of the session. */
kn_session *batch_session(kn_context *context, kn_value *const *values, size_t count, kn_states *states,
                          const arithmetic *how, const char *switches);
/* All *count outputs of a model, to be freed with free(). NULL: out of memory, which is reported. */
kn_value **batch_outputs(const kn_model *model, size_t *count);
/* Binds the batch size; models with fixed sizes do not need it. */
kn_status batch_bind(kn_session *session, int64_t batch);
/* The bytes of a session for this batch size. `feeds` determine the sizes that the model leaves open
 * (setup_sizes). */
kn_status batch_plan_session(kn_session *session, int64_t batch, const kn_feed *feeds, size_t feed_count,
                             kn_plan_info *info);

#endif
