/* The largest batch that a device has room for. */
#ifndef KOINE_COMMAND_BATCH_H
#define KOINE_COMMAND_BATCH_H

#include "command.h"

/* What is planned, batch by batch. Planning takes no memory of the device. */
typedef struct batch_plans {
    uint64_t allowed; /* bytes of device memory; 0: all that the device has */
    void *user;
    /* Plans for so many samples: the bytes that all of it needs. KN_ERROR_DEVICE_MEMORY: too large for one
     * piece. */
    kn_status (*plan)(void *user, int64_t batch, uint64_t *bytes);
    const char *(*error)(void *user); /* of the last plan */
} batch_plans;

/* Plans for *batch samples. Where that does not fit, says so with what it needs and what there is, and puts
 * the largest number that fits into *batch, which is planned last. Where not even one fits, or something else
 * is wrong, says so and answers false. `then` ends the sentence: "training goes on with". */
bool batch_fit(const kn_context *context, const batch_plans *plans, const char *then, int64_t *batch);

/* A session for inference, without a memory limit, since batch_fit sets it. states NULL: new ones. switches
 * as in kn_session_params. Failures are in the session's status. */
kn_session *batch_session(kn_context *context, kn_value *const *values, size_t count, kn_states *states,
                          bool exact, const char *switches);
/* All outputs of a model, *count of them; free() takes the list. NULL: out of memory, which is told. */
kn_value **batch_outputs(const kn_model *model, size_t *count);
/* Tells a session how many samples come; models whose sizes are all numbers do not ask. */
kn_status batch_bind(kn_session *session, int64_t batch);
/* The bytes of a session with so many samples. `feeds` tell the sizes that the model leaves open
 * (setup_sizes). */
kn_status batch_plan_session(kn_session *session, int64_t batch, const kn_feed *feeds, size_t feed_count,
                             kn_plan_info *info);

#endif
