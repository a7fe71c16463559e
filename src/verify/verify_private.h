/* A trial: a case of an operator, computed by the reference and by the device. */
#ifndef KN_VERIFY_PRIVATE_H
#define KN_VERIFY_PRIVATE_H

#include "run/run.h"
#include "verify/verify.h"

enum { KN_TRIAL_INPUTS = 8 };

/* How float32 arrays of a node are stored and multiplied. */
typedef struct kn_trial_types {
    kn_dtype stored;  /* the 16-bit type of some inputs and results; otherwise they are float32 */
    kn_halves halves; /* with `stored`: only these, if the variant supports it */
    bool tf32;        /* matrix units multiply TF32 (see kn_node) */
} kn_trial_types;

/* A node outside any graph: its row, shapes, types and attributes (node_spec.c). */
typedef struct kn_node_spec {
    const kn_operator *row;
    int input_count;
    bool given[KN_TRIAL_INPUTS]; /* false: an absent optional input */
    kn_shape shapes[KN_TRIAL_INPUTS];
    kn_attribute_value attributes[KN_MAX_ATTRIBUTES];
    kn_dtype accumulate;
    kn_trial_types types;
} kn_node_spec;
/* Copies the description of a node. */
void kn_node_spec_of(const kn_node *node, kn_node_spec *spec);
/* Restores the stored types of a node created from it, which shape rules reject. */
void kn_node_spec_store(const kn_node_spec *spec, const kn_node *node);
/* Adds it to a graph, on inputs x0, x1, … unless `inputs` has some; NULL: the graph has failed. */
kn_node *kn_node_spec_add(const kn_node_spec *spec, kn_graph *graph, kn_value *inputs[KN_TRIAL_INPUTS]);
/* The hash of the programs of a node's steps without an epilogue; 0: it computes nothing. `tile`: see
 * kn_lowering. */
kn_status kn_node_programs(kn_context *context, const kn_node *node, const kn_variant *variant, int tile,
                           uint64_t *programs, kn_error *error);
/* How many products a trial of a variant with a larger error adds up for each result of this node, at least:
 * as many as the node up to a limit, rounded down to a power of two. */
double kn_node_trial_sum(const kn_node *node);
/* Shrinks *spec to a small node that compiles to the same programs. False: none found. */
bool kn_node_spec_shrink(kn_context *context, const kn_variant *variant, int tile, uint64_t programs,
                         kn_node_spec *spec);

typedef struct kn_trial {
    const kn_host *host;
    const kn_operator *row;
    const kn_case *test_case; /* of a specification: only ranges and options */
    const kn_node_spec *spec; /* NULL: use the shapes and attributes of the case */
    kn_trial_types types;     /* float32 inputs are representable in them */
    uint64_t seed;
    kn_graph *graph; /* a node on inputs x0, x1, … */
    int input_count;
    kn_value *inputs[KN_TRIAL_INPUTS];
    kn_tensor_info infos[KN_TRIAL_INPUTS];
    double *values[KN_TRIAL_INPUTS]; /* the input's elements, exact in its type */
    void *bytes[KN_TRIAL_INPUTS];    /* the same, converted to its type */
    size_t byte_counts[KN_TRIAL_INPUTS];
    int output_count; /* visible results (of a specification also hidden ones): result0, result1, … */
    kn_value *outputs[KN_MAX_OUTPUTS];
    kn_graph *bound; /* the bound graph, for the reference */
    kn_value *bound_outputs[KN_MAX_OUTPUTS];
} kn_trial;

/* Builds the graph of a case, or of `spec` unless NULL, and generates its inputs. Call kn_trial_finish even
 * after a failure. */
kn_status kn_trial_make(kn_trial *trial, const kn_host *host, const kn_operator *row,
                        const kn_case *test_case, const kn_node_spec *spec, kn_trial_types types,
                        uint64_t seed, kn_error *error);
void kn_trial_finish(kn_trial *trial);
/* The element type of an input as written in cases; false: unknown type. */
bool kn_trial_input_type(const char *input, kn_dtype *dtype);
/* Computes all results with the references, from the current `values`. Free them with kn_trial_release. */
kn_status kn_trial_reference(kn_trial *trial, double *results[], kn_error *error);
void kn_trial_release(const kn_trial *trial, double *results[]);
int64_t kn_trial_result_elements(const kn_trial *trial, int output);
/* Whether the gradient with respect to an input is defined and tested. */
bool kn_trial_differentiates(const kn_trial *trial, int input);
/* A reproducible random number in [-1, 1), exact in float32: element `index` of the stream `name`. */
double kn_trial_number(const kn_trial *trial, const char *name, int64_t index);
/* The derivative of sum(weight * result) with respect to an element of an input, by central differences of
 * the reference. The weight of element i of result k is kn_trial_number("weight<k>", i). With `stored`, which
 * makes ties likely, NaN at a discontinuity: a maximum has no derivative at a tie. */
kn_status kn_trial_slope(kn_trial *trial, int input, int64_t element, double *slope, kn_error *error);

/* How a case is computed. */
typedef struct kn_trial_options {
    const char *variant; /* forced for the row and preferred for all other rows; NULL: chosen as usual */
    int tile;
    bool blocked;         /* variants that support any layout get blocked images */
    const char *programs; /* the value of switch `programs`; NULL: the default */
    kn_trial_types types;
    uint64_t seed;
} kn_trial_options;
/* Computes a case on the device, forward and gradients, and compares it with the reference. *ratio: the
 * largest error divided by its tolerance. */
kn_status kn_trial_run(kn_context *context, const kn_operator *row, const kn_case *test_case,
                       const kn_trial_options *options, double *ratio, kn_error *error);
/* The same for a node specification, without gradients. */
kn_status kn_trial_run_spec(kn_context *context, const kn_node_spec *spec, const kn_variant *variant,
                            int tile, kn_error *error);
/* Tries a variant with a tile on a small node like this one or, if there is none, on the row's case. */
kn_status kn_trial_run_small(kn_context *context, const kn_node_spec *node, const kn_variant *variant,
                             int tile, uint64_t programs, kn_error *error);
/* Switches of sessions, ",tile=NAME,stored=TYPE/INPUTS/RESULTS,products=tf32"; omits defaults. */
enum { KN_MORE_SWITCHES = 112 };
void kn_switches_of(int tile, kn_trial_types types, char text[KN_MORE_SWITCHES]);
/* A single node on random inputs, for timing (measure.c). */
typedef struct kn_measurement {
    kn_context *context;
    kn_node_spec node;
    bool kept, fast; /* see kn_tuning and kn_target */
    kn_trial trial;  /* the inputs */
    kn_graph *graph;
    kn_states *states; /* with `kept`: the prepared input */
    kn_value *results[KN_MAX_OUTPUTS];
    int result_count;
    kn_feed feeds[KN_TRIAL_INPUTS];
    size_t feed_count;
} kn_measurement;
/* Set context, node, kept and fast first. Call finish even after a failure. */
kn_status kn_measurement_make(kn_measurement *measure, kn_error *error);
void kn_measurement_finish(kn_measurement *measure);
/* Opens a session that computes the node with a variant and a tile, compiled and with its inputs on the
 * device. The caller destroys it, even after a failure. *first: the time of the first run including uploads;
 * if that is `enough` or more, the session is not ready and cannot be timed. */
kn_status kn_measurement_open(const kn_measurement *measure, const kn_variant *variant, int tile,
                              double enough, double *first, kn_session **session, kn_error *error);
/* The time per run of `times` runs, enqueued together. row NULL: include layout conversions. */
kn_status kn_measurement_time(kn_session *session, const kn_operator *row, int times, double *seconds,
                              kn_error *error);
/* How many runs of `seconds` take `aim` seconds in total; at least one. */
int kn_measurement_times(double seconds, double aim);
/* The shortest time of a few runs, or the first time if that is `enough` or more. */
kn_status kn_measurement_estimate(kn_session *session, const kn_operator *row, double enough, double *seconds,
                                  kn_error *error);
/* The functions of kn_device_verdicts; `device` is a kn_context (verdicts.c, fusion.c, measure.c). */
bool kn_variant_is_right(void *device, const kn_node *node, const kn_variant *variant, int tile);
bool kn_fusion_is_right(void *device, const kn_node *node, const kn_node *producer);
bool kn_variant_is_faster(void *device, const kn_node *node, const kn_variant *variant,
                          const kn_variant *other);
const kn_variant *kn_tuned_choice(void *device, const kn_tuning *tuning, int *tile);
void kn_tuner_note(void *device, const kn_tuning *tuning, const kn_variant *chosen);
/* The key of a node among the tuned choices; false: such nodes are not tuned. kept, fast: see kn_tuning and
 * kn_target (tuned.c). */
bool kn_tuned_key(kn_context *context, const kn_node_spec *node, bool kept, bool fast,
                  char key[KN_TUNED_KEY]);
/* The variant and tile of a kernel name (kn_kernel_name); NULL: the row has no such variant. */
const kn_variant *kn_tuned_variant(const kn_operator *row, const char *name, int *tile);
/* Writes the start of the key for a verdict on `what`. It contains everything that affects a kernel's code,
 * and the version of the library, so that a different version runs the trial again. Returns its length, which
 * may exceed `bytes`. */
size_t kn_verdict_name(kn_context *context, const char *what, char *key, size_t bytes);
/* Generates inputs for a node, in the ranges of its row's cases. Call kn_trial_finish even after a
 * failure. */
kn_status kn_trial_draw(kn_trial *trial, const kn_host *host, const kn_node_spec *spec, kn_error *error);
/* Whether a variant accepts a case on the device, stored in a 16-bit type or unchanged (KN_FLOAT32), or
 * multiplied as TF32; with `blocked`, whether it accepts blocked images. */
bool kn_trial_accepts(kn_context *context, const kn_operator *row, const kn_case *test_case,
                      const kn_variant *variant, bool blocked, kn_trial_types types);

#endif
