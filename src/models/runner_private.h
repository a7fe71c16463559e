/* Shared by the files of kn_runner: runner.c builds graphs, runner_loop.c runs loops, runner_compute.c
 * runs sessions, runner_arrays.c has the arrays for both. */
#ifndef KN_MODELS_RUNNER_PRIVATE_H
#define KN_MODELS_RUNNER_PRIVATE_H

#include <koine/runner.h>

#include <string.h>

#include "models/models_private.h"

enum { KN_RUNNER_PARTS = 16 }; /* limits files that need ever more values */

/* The elements of an input that became a constant: of a tensor as they are, strings one after another with
 * their zero bytes; of a sequence or an optional, each tensor after its kn_tensor_info. */
typedef struct kn_runner_constant {
    size_t bytes;
    bool list;
    char data[];
} kn_runner_constant;

/* An input of the file in the last run. */
typedef struct kn_runner_input {
    kn_tensor_info info;
    bool known;                /* its values determine the graph */
    kn_runner_constant *value; /* of an input that is a constant of the graph; otherwise NULL */
} kn_runner_input;

/* An array with a name in the file. */
typedef struct kn_runner_array {
    const char *name;
    kn_tensor_info info;
    void *data;
} kn_runner_array;

/* Computes a value or runs a loop. */
typedef struct kn_runner_part {
    kn_model *model; /* computes the value, or what the loop reads */
    kn_session *session;
    bool loop;
    kn_runner_array *results; /* of the last run: the value, or the results of the loop */
    size_t result_count;
    kn_model *body; /* one iteration of the loop, for variables of the shapes of the last one */
    kn_session *body_session;
    kn_tensor_info *body_infos; /* of what `body` was built for */
} kn_runner_part;

struct kn_runner {
    kn_host host;
    kn_status status; /* of creating it */
    kn_error error;
    kn_model *opened;
    kn_context *context;
    kn_session_params params;
    kn_runner_input *inputs; /* NULL before the first run */
    size_t input_count;
    kn_runner_part parts[KN_RUNNER_PARTS];
    size_t part_count;
    kn_model *model;   /* of the rest; NULL: to be built */
    bool shown;        /* the caller has seen `model`, and may have sessions of it */
    kn_model *earlier; /* a model that the caller has seen; lives until the next kn_runner_prepare */
    uint64_t builds;
    bool unrecorded; /* a graph was built after the inputs that are its constants were recorded */
};

/* ---- runner_arrays.c ------------------------------------------------------------ */

/* 0 if they would overflow. */
size_t kn_runner_bytes(const kn_tensor_info *info);
void kn_runner_release_arrays(const kn_runner *runner, kn_runner_array *arrays, size_t count);
/* A copy of the elements; NULL when out of memory. */
kn_runner_constant *kn_runner_copy_elements(const kn_runner *runner, const kn_model_given *given);
bool kn_runner_same_elements(const kn_model_given *given, const kn_runner_constant *value);
/* The array for an input of the file; NULL: none. */
const kn_model_given *kn_runner_find_given(const kn_runner *runner, const kn_model_given *given, size_t count,
                                           const char *name);
/* Whether the array is for an input of the model: a numeric tensor that is not a constant. */
bool kn_runner_is_input(const kn_runner *runner, const kn_model *model, const kn_model_given *given);
/* The arrays for a bind: shapes of the inputs, with the values of settings; values of the first parts, which
 * become constants; results of loops and `more`, without values, which become inputs. In new memory. */
kn_model_given *kn_runner_arrays(kn_runner *runner, size_t parts, const kn_model_given *given,
                                 size_t given_count, const kn_runner_array *more, size_t more_count,
                                 size_t *count);
/* The feeds of a model's inputs: arrays of the run, results of the parts, and `more`. */
kn_status kn_runner_fill_feeds(kn_runner *runner, const kn_model *model, kn_session *session,
                               const kn_model_given *given, size_t count, const kn_runner_array *more,
                               size_t more_count, kn_feed *feeds);

/* ---- runner_compute.c ------------------------------------------------------------ */

/* Loads the weights of a model that the states lack. */
kn_status kn_runner_load(kn_runner *runner, kn_model *model);
/* Makes a session for all outputs of a model, and loads its weights. */
kn_status kn_runner_open(kn_runner *runner, kn_model *model, kn_session **session);
/* Runs a session for all outputs of its model, whose arrays `made` gets in new memory, also after a failure.
 */
kn_status kn_runner_compute(kn_runner *runner, const kn_model *model, kn_session *session,
                            const kn_model_given *given, size_t count, const kn_runner_array *more,
                            size_t more_count, kn_runner_array *made);
/* Takes the arrays of a run as the part's results. *changed: what is built for them must be built again. */
void kn_runner_take(kn_runner *runner, kn_runner_part *own, kn_runner_array *results, size_t count,
                    bool *changed);

/* ---- runner_loop.c ------------------------------------------------------------ */

/* Runs the loop of a part. *changed: as in kn_runner_take. */
kn_status kn_runner_run_loop(kn_runner *runner, kn_runner_part *own, const kn_model_given *given,
                             size_t count, bool *changed);

#endif
