/* One case of the operator table, ready to be computed by the reference and by the device. */
#ifndef KN_VERIFY_PRIVATE_H
#define KN_VERIFY_PRIVATE_H

#include "run/run.h"
#include "verify/verify.h"

enum { KN_TRIAL_INPUTS = 8 };

typedef struct kn_trial {
    const kn_host *host;
    const kn_operator *row;
    const kn_case *sample;
    uint64_t seed;
    kn_graph *graph; /* one node on inputs x0, x1, … */
    int input_count;
    kn_value *inputs[KN_TRIAL_INPUTS];
    kn_tensor_info infos[KN_TRIAL_INPUTS];
    double *values[KN_TRIAL_INPUTS]; /* what is fed, exact in the input's type */
    void *bytes[KN_TRIAL_INPUTS];    /* the same in the input's type */
    size_t byte_counts[KN_TRIAL_INPUTS];
    int output_count; /* visible results: result0, result1, … */
    kn_value *outputs[KN_MAX_OUTPUTS];
    kn_graph *bound; /* the same graph bound, for the reference */
    kn_value *bound_outputs[KN_MAX_OUTPUTS];
} kn_trial;

/* Builds the graph of a case and draws its inputs. kn_trial_finish frees it whatever happened. */
kn_status kn_trial_make(kn_trial *trial, const kn_host *host, const kn_operator *row, const kn_case *sample,
                        uint64_t seed, kn_error *error);
void kn_trial_finish(kn_trial *trial);
/* Result `output` by the references, from the values as they are now; *elements is released by kn_release. */
kn_status kn_trial_reference(kn_trial *trial, double *results[], kn_error *error);
void kn_trial_release(const kn_trial *trial, double *results[]);
int64_t kn_trial_result_elements(const kn_trial *trial, int output);
/* Whether the gradient by an input is defined and wanted. */
bool kn_trial_differentiates(const kn_trial *trial, int input);
/* A fixed number in [-1, 1), exact in a float, for element `index` of the stream `name`. */
double kn_trial_number(const kn_trial *trial, const char *name, int64_t index);
/* d(sum of weight * result) / d(element of input), by central differences of the reference. The weight of
 * element i of result k is kn_trial_number("weight<k>", i). */
kn_status kn_trial_slope(kn_trial *trial, int input, int64_t element, double *slope, kn_error *error);

/* Computes a case on the device, forward and gradients, and compares. `variant` is forced for the row, and
 * preferred for every other; NULL leaves the choice. blocked: variants that take any layout get images in
 * blocks. `programs` is a value of the switch of that name, NULL for the default. *ratio is the largest error
 * over its tolerance. */
kn_status kn_trial_run(kn_context *context, const kn_operator *row, const kn_case *sample,
                       const char *variant, bool blocked, const char *programs, uint64_t seed, double *ratio,
                       kn_error *error);
/* The answers of kn_device_judge; `device` is a kn_context (verdicts.c, fusion.c, measure.c). */
bool kn_variant_is_right(void *device, const kn_operator *row, const kn_variant *variant,
                         const kn_node *node);
bool kn_fusion_is_right(void *device, const kn_node *node, const kn_node *producer);
bool kn_variant_is_faster(void *device, const kn_node *node, const kn_variant *variant,
                          const kn_variant *other);
/* Begins the name under which a device's verdict of `what` is kept: what a kernel becomes depends on these,
 * and another version of the kernels, or of what launches them, is tried anew. Answers its length, which may
 * be above `bytes`. */
size_t kn_verdict_name(kn_context *context, const char *what, char *key, size_t bytes);
/* Whether the device can take a variant for a case; and, where it takes any layout, for images in blocks. */
bool kn_trial_accepts(kn_context *context, const kn_operator *row, const kn_case *sample,
                      const kn_variant *variant, bool blocked);

#endif
