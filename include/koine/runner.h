/* Running ONNX models whose graph depends on values that only a run knows.
 *
 * The graph of an ONNX file may depend on the sizes and values of its inputs, on values that it computes (the
 * condition of an If, the rows that NonZero finds), and on loops that end on a computed condition. A runner
 * computes such values and runs such loops first, then builds the graph of the rest. It keeps all of this for
 * the next run and builds again only what has changed.
 *
 *     kn_session_params params = KN_SESSION_DEFAULTS;
 *     params.states = states;
 *     kn_runner *runner = kn_runner_create(model, context, &params);
 *     kn_model_given given = {"x", {KN_FLOAT32, 2, {28, 28}}, x, NULL, NULL, 0};
 *     kn_feed feeds[4];
 *     if (kn_runner_prepare(runner, &given, 1) == KN_OK) {
 *         kn_model *built = kn_runner_model(runner);
 *         output = kn_model_output_at(built, 0);
 *         session = kn_session_create(context, &output, 1, &params);
 *         kn_fetch fetch = {kn_value_name(output), y, sizeof y};
 *         if (kn_runner_feeds(runner, session, &given, 1, feeds) != KN_OK ||
 *             kn_session_run(session, feeds, kn_model_input_count(built), &fetch, 1) != KN_OK)
 *             fprintf(stderr, "%s%s\n", kn_runner_error(runner), kn_session_error(session));
 *     }
 *
 * A runner belongs to one thread at a time. */
#ifndef KOINE_RUNNER_H
#define KOINE_RUNNER_H

#include <koine/model.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kn_runner kn_runner;

/* `model` is from an ONNX file, bound or not. params->states, which must not be NULL, are those of the
 * sessions that the caller makes of kn_runner_model: weights that they lack are loaded from the file. The
 * model, the context, the states and params->switches must outlive the runner. Returns NULL only when out of
 * memory; otherwise see kn_runner_status. */
KN_API KN_NODISCARD kn_runner *kn_runner_create(kn_model *model, kn_context *context,
                                                const kn_session_params *params);
KN_API void kn_runner_destroy(kn_runner **runner);
/* KN_OK if the runner can be used. NULL gives KN_ERROR_MEMORY. */
KN_API kn_status kn_runner_status(const kn_runner *runner);
/* Builds the graph for these arrays, with elements, one for each input of the file in the same order in each
 * call. If the graph depends on values that it computes, this runs the parts that compute them. */
KN_API KN_NODISCARD kn_status kn_runner_prepare(kn_runner *runner, const kn_model_given *given, size_t count);
/* The message of the last failed call. */
KN_API const char *kn_runner_error(const kn_runner *runner);
/* Whether the next kn_runner_prepare with these arrays keeps what the last one built, except for what depends
 * on computed values. */
KN_API bool kn_runner_suits(const kn_runner *runner, const kn_model_given *given, size_t count);
/* The model whose graph was built: the one given to kn_runner_create if it fits. NULL before
 * kn_runner_prepare, and after a failure. The runner destroys it. */
KN_API kn_model *kn_runner_model(const kn_runner *runner);
/* How often a graph was built for kn_runner_model. When a call of kn_runner_prepare has increased this,
 * sessions of the earlier model must be destroyed before the next call. */
KN_API uint64_t kn_runner_builds(const kn_runner *runner);
/* How many parts are computed before the graph: values and loops. */
KN_API size_t kn_runner_parts(const kn_runner *runner);
/* Writes the feeds of a session of kn_runner_model to `feeds`, one for each of the model's inputs: the arrays
 * of the last kn_runner_prepare, given again, and results of loops, which are valid until the next one. Binds
 * the inputs' open sizes in the session. */
KN_API KN_NODISCARD kn_status kn_runner_feeds(kn_runner *runner, kn_session *session,
                                              const kn_model_given *given, size_t count, kn_feed *feeds);

#ifdef __cplusplus
}
#endif

#endif
