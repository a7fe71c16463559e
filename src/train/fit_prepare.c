/* Opens a trainer and the evaluation of its states within the device's memory. The first measures against too
 * little memory are the session's (run/fit.c); these follow, in this order: an evaluation that keeps nothing
 * between runs; moments in host memory, if not even one sample at a time fits; parts of a batch. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "train/trainer_private.h"

enum { MESSAGE = sizeof((kn_memory_fit *)0)->message };
typedef struct opening {
    kn_context *context;
    kn_value *loss;
    kn_trainer_params *params;
    kn_memory_request request;
    kn_trainer *trainer;
    kn_session *evaluation;
    bool frugal; /* the evaluation keeps nothing between runs */
    uint64_t allowed;
    kn_memory_fit fit;
    kn_error error;
} opening;

static kn_status fail_trainer(opening *own, kn_status status) {
    return kn_fail(&own->error, status, "%s",
                   own->trainer ? kn_trainer_error(own->trainer) : "out of host memory");
}

static kn_status fail_evaluation(opening *own, kn_status status) {
    return kn_fail(&own->error, status, "%s",
                   own->evaluation ? kn_session_error(own->evaluation) : "out of host memory");
}

static kn_status open_evaluation(opening *own) {
    kn_session_destroy(&own->evaluation);
    if (!own->request.eval_value_count) return KN_OK;
    kn_session_params params = KN_SESSION_DEFAULTS;
    kn_status status = KN_PARAMS_TAKE(kn_session_params, &params, own->params->session, &own->error);
    if (status != KN_OK) return status;
    params.states = kn_trainer_states(own->trainer);
    params.training = false;
    params.memory_bytes = UINT64_MAX; /* the limit is that of both together */
    params.switches = own->frugal ? "invariant=recompute" : NULL;
    own->evaluation =
        kn_session_create(own->context, own->request.eval_values, own->request.eval_value_count, &params);
    status = kn_session_status(own->evaluation);
    return status == KN_OK ? KN_OK : fail_evaluation(own, status);
}

static kn_status open_trainer(opening *own) {
    kn_session_destroy(&own->evaluation);
    kn_trainer_destroy(&own->trainer);
    own->trainer = kn_trainer_create(own->context, own->loss, own->params);
    const kn_status status = kn_trainer_status(own->trainer);
    return status == KN_OK ? open_evaluation(own) : fail_trainer(own, status);
}

/* The feeds of `count` samples. */
static kn_feed *feeds_of(const opening *own, const kn_feed *sample, uint64_t count) {
    kn_feed *feeds = kn_allocate(&own->trainer->host, own->request.feed_count + 1, sizeof *feeds);
    for (size_t i = 0; feeds && i < own->request.feed_count; i++) {
        feeds[i] = sample[i];
        feeds[i].data = NULL;
        feeds[i].bytes *= (size_t)count;
    }
    return feeds;
}

static kn_status plan_evaluation(opening *own, uint64_t count, kn_plan_info *info) {
    if (!own->evaluation) return KN_OK;
    kn_feed *feeds = feeds_of(own, own->request.eval_feeds, count);
    if (!feeds) return kn_fail_memory(&own->error, own->request.feed_count * sizeof *feeds);
    kn_status status = kn_session_bind(own->evaluation, "batch", (int64_t)count);
    if (status == KN_ERROR_NOT_FOUND) status = KN_OK; /* all sizes are fixed */
    if (status == KN_OK) status = kn_session_compile(own->evaluation, feeds, own->request.feed_count);
    if (status == KN_OK) status = kn_session_plan(own->evaluation, info);
    kn_release(&own->trainer->host, feeds);
    return status == KN_OK ? KN_OK : fail_evaluation(own, status);
}

static kn_status plan_training(opening *own, int64_t batch, kn_plan_info *info) {
    uint64_t first, count = (uint64_t)batch;
    kn_trainer_local_samples(own->trainer, (uint64_t)batch, &first, &count);
    kn_feed *feeds = feeds_of(own, own->request.feeds, count);
    if (!feeds) return kn_fail_memory(&own->error, own->request.feed_count * sizeof *feeds);
    kn_status status = kn_trainer_compile_for(own->trainer, batch, feeds, own->request.feed_count);
    if (status == KN_OK) status = kn_trainer_plan(own->trainer, info);
    kn_release(&own->trainer->host, feeds);
    return status == KN_OK ? KN_OK : fail_trainer(own, status);
}

/* Plans both for a batch. They share the parameters, and the rest of their memory adds up: training is
 * limited to what evaluation leaves. KN_ERROR_DEVICE_MEMORY: they do not fit. */
static kn_status plan(void *user, int64_t batch) {
    opening *own = user;
    kn_plan_info training = KN_PLAN_INFO_DEFAULTS, evaluation = KN_PLAN_INFO_DEFAULTS;
    const uint64_t part = own->params->micro_batch, all = (uint64_t)batch;
    kn_error_clear(&own->error);
    kn_status status = plan_evaluation(own, part && part < all ? part : all, &evaluation);
    const uint64_t more = evaluation.own_peak_bytes - evaluation.own_state_bytes;
    kn_trainer_set_memory_bytes(own->trainer, own->allowed > more ? own->allowed - more : 1);
    if (status == KN_OK) status = plan_training(own, batch, &training);
    own->fit.bytes = training.own_peak_bytes + more;
    own->fit.recomputed = training.recomputed;
    own->fit.recomputed_fraction = training.flops > 0 ? training.recomputed_flops / training.flops : 0;
    own->fit.host_bytes = training.host_bytes;
    if (status != KN_OK || own->fit.bytes <= own->allowed) return status;
    return kn_fail(
        &own->error, KN_ERROR_DEVICE_MEMORY,
        "%llu bytes of device memory are needed, %llu of them for evaluation, and %llu are allowed",
        (unsigned long long)own->fit.bytes, (unsigned long long)more, (unsigned long long)own->allowed);
}

static bool may_cut(const opening *own) {
    return !own->request.whole && own->request.batch > 1;
}

/* Opens a trainer that adds the gradients of parts, which takes memory too; each plan is for one part. */
static kn_status open_for_parts(opening *own) {
    if (may_cut(own)) own->params->micro_batch = INT64_MAX;
    return open_trainer(own);
}

static bool too_large(kn_status status) {
    return status == KN_ERROR_DEVICE_MEMORY || status == KN_ERROR_UNSUPPORTED;
}

/* ---- measures ------------------------------------------------------------------------------------------ */

/* Moments move to host memory if not even one sample at a time fits. */
static kn_status move_moments(opening *own, kn_status status) {
    kn_trainer_params *params = own->params;
    if (params->offload_optimizer || params->shard_optimizer) return status;
    const uint64_t part = params->micro_batch;
    kn_status one = open_for_parts(own);
    if (one == KN_OK) one = plan(own, 1);
    if (one != KN_OK && !too_large(one)) return one;
    params->micro_batch = part;
    if (one == KN_OK) return status;
    params->offload_optimizer = true;
    one = open_trainer(own);
    return one == KN_OK ? plan(own, (int64_t)own->request.batch) : one;
}

/* A plan of the search; the reason why the whole batch does not fit is kept. */
static kn_status try_batch(void *user, int64_t batch) {
    opening *own = user;
    const kn_status status = plan(own, batch);
    if (too_large(status) && (uint64_t)batch == own->request.batch) {
        snprintf(own->fit.message, sizeof own->fit.message, "%.*s", MESSAGE - 1, own->error.text);
        char *advice = strstr(own->fit.message, "; use a smaller batch");
        if (advice) *advice = '\0';
    }
    return status;
}

/* Cuts the batch into parts, whose gradients are added: the updates are those of the whole batch. With
 * shards, each shard is cut. */
static kn_status make_smaller(opening *own) {
    int64_t batch = (int64_t)own->request.batch;
    kn_status status = open_for_parts(own);
    if (status == KN_OK)
        status = kn_largest_batch(&(kn_batch_plan){own, try_batch}, !own->request.whole, &batch);
    if (status == KN_ERROR_DEVICE_MEMORY) {
        const kn_error one = own->error;
        kn_fail(&own->error, status, "the model is too large for the device, even with a batch of 1: %s",
                one.text);
    }
    if (status != KN_OK) return status;
    own->fit.batch = own->request.whole ? (uint64_t)batch : own->request.batch;
    own->fit.part = own->request.whole ? 0 : (uint64_t)batch;
    if (own->request.whole) return KN_OK;
    const uint64_t shards = own->trainer->dealt.count > 1 ? (uint64_t)own->trainer->dealt.count : 1;
    own->params->micro_batch = ((uint64_t)batch + shards - 1) / shards;
    status = open_trainer(own);
    return status == KN_OK ? plan(own, (int64_t)own->request.batch) : status;
}

static kn_status open_within(opening *own) {
    const int64_t batch = (int64_t)own->request.batch;
    kn_status status = open_trainer(own);
    if (status != KN_OK) return status;
    const kn_session_params *session = own->params->session;
    own->allowed = session ? session->memory_bytes : 0;
    if (!own->allowed) own->allowed = kn_context_capabilities(own->context)->memory_bytes;
    status = plan(own, batch);
    if (too_large(status) && own->evaluation) {
        own->frugal = true;
        status = open_evaluation(own);
        if (status == KN_OK) status = plan(own, batch);
    }
    if (own->request.fixed || !too_large(status)) return status;
    status = move_moments(own, status);
    return too_large(status) ? make_smaller(own) : status;
}

kn_status kn_fit_prepare(kn_context *context, kn_value *loss, kn_trainer_params *params,
                         const kn_memory_request *request, kn_trainer **trainer, kn_session **evaluation,
                         kn_memory_fit *fit) {
    opening own = {.context = context,
                   .loss = loss,
                   .params = params,
                   .request = KN_MEMORY_REQUEST_DEFAULTS,
                   .fit = KN_MEMORY_FIT_DEFAULTS,
                   .error = {.status = KN_OK}};
    kn_memory_request *asked = &own.request;
    kn_status status = KN_PARAMS_TAKE(kn_memory_request, asked, request, &own.error);
    if (status == KN_OK &&
        (!params || params->size != sizeof *params || !trainer || !evaluation || !asked->batch ||
         asked->batch > INT32_MAX || (asked->feed_count && (!asked->feeds || !asked->eval_feeds)) ||
         (asked->eval_value_count && !asked->eval_values)))
        status = kn_fail(&own.error, KN_ERROR_ARGUMENT,
                         "a trainer is opened for a batch of %llu, with lists of %zu feeds and %zu values; "
                         "expected at least 1 sample, lists that are not NULL, and parameters of this "
                         "version of the library",
                         (unsigned long long)asked->batch, asked->feed_count, asked->eval_value_count);
    own.fit.batch = asked->batch;
    if (status == KN_OK) status = open_within(&own);
    if (status != KN_OK) {
        kn_session_destroy(&own.evaluation);
        kn_trainer_destroy(&own.trainer);
        snprintf(own.fit.message, sizeof own.fit.message, "%.*s", MESSAGE - 1, own.error.text);
    }
    if (trainer) *trainer = own.trainer;
    if (evaluation) *evaluation = own.evaluation;
    if (fit) KN_RESULT_GIVE(kn_memory_fit, fit, &own.fit);
    return status;
}
