/* A graph says what to compute. Building one uses no device and computes nothing.
 *
 *     kn_graph *graph = kn_graph_create(NULL);
 *     kn_value *x = kn_input(graph, "x", KN_FLOAT32, "batch,784");
 *     kn_value *h = kn_relu(kn_linear(x, 128, NULL));
 *     kn_value *y = kn_output(kn_softmax(kn_linear(h, 10, NULL), -1), "output");
 *     if (kn_value_failed(y))
 *         fprintf(stderr, "%s\n", kn_graph_error(graph));
 *     kn_graph_destroy(&graph);
 *
 * A builder function that gets a failed value returns a failed value: build first, then check once with
 * kn_graph_status, or let the session or trainer made from the graph report the error. Shapes are strings:
 * "batch,1,28,28"; a word is a symbol that is bound to a number when the graph is used, "" is a scalar; sums,
 * differences, products and quotients (rounded down) of symbols are allowed. Sizes that are different
 * expressions never match, whatever numbers they are bound to.
 *
 * Lifetime: values and nodes live as long as their graph. A graph may be destroyed once sessions and trainers
 * have been made from it: they keep what they need. Thread-safety: a graph belongs to one thread at a time.
 */
#ifndef KOINE_GRAPH_H
#define KOINE_GRAPH_H

#include <koine/host.h>
#include <koine/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kn_graph kn_graph;
typedef struct kn_value kn_value;

typedef struct kn_graph_params {
    size_t size;
    kn_allocator allocator;
    kn_logger log;
} kn_graph_params;
KN_API void kn_graph_params_init(kn_graph_params *params);
#define KN_GRAPH_DEFAULTS KN_DEFAULTS_ZERO(kn_graph_params)

/* NULL params means defaults. Returns NULL only when out of memory. */
KN_API KN_NODISCARD kn_graph *kn_graph_create(const kn_graph_params *params);
KN_API void kn_graph_destroy(kn_graph **graph);
/* KN_OK, or the first error while building, and its message ("" if none). */
KN_API kn_status kn_graph_status(const kn_graph *graph);
KN_API const char *kn_graph_error(const kn_graph *graph);

/* The initial values of a parameter. Random numbers are computed on the host from the seed and the
 * parameter's name, so they are the same on all devices. Fan-in and fan-out are PyTorch's: for a weight
 * (units, inputs, ...) fan-in is inputs times the remaining dimensions, fan-out is units times the remaining
 * dimensions. Kinds that use fans or rows need at least two dimensions; their `value` is the gain, such as
 * sqrt(2) before a relu. */
typedef enum kn_initializer_kind {
    KN_INITIALIZER_FILL = 0,                /* value */
    KN_INITIALIZER_UNIFORM = 1,             /* in [-value, value) */
    KN_INITIALIZER_NORMAL = 2,              /* mean 0, standard deviation value */
    KN_INITIALIZER_TRUNCATED_NORMAL = 3,    /* the same, redrawn beyond two standard deviations */
    KN_INITIALIZER_XAVIER_UNIFORM = 4,      /* within gain * sqrt(6 / (fan-in + fan-out)) */
    KN_INITIALIZER_XAVIER_NORMAL = 5,       /* standard deviation gain * sqrt(2 / (fan-in + fan-out)) */
    KN_INITIALIZER_KAIMING_UNIFORM = 6,     /* within gain * sqrt(3 / fan-in) */
    KN_INITIALIZER_KAIMING_NORMAL = 7,      /* standard deviation gain / sqrt(fan-in) */
    KN_INITIALIZER_KAIMING_UNIFORM_OUT = 8, /* the same by fan-out */
    KN_INITIALIZER_KAIMING_NORMAL_OUT = 9,
    /* Orthogonal rows of length gain; orthogonal columns if there are fewer columns. Computed on the host in
     * time proportional to elements times the smaller side. */
    KN_INITIALIZER_ORTHOGONAL = 10,
} kn_initializer_kind;
typedef struct kn_initializer {
    kn_initializer_kind kind;
    double value;
} kn_initializer;

/* A value that is fed in each run. Names are unique in a graph and consist of letters, digits, '_', '.', '/'
 * and '-'. */
KN_API kn_value *kn_input(kn_graph *graph, const char *name, kn_dtype dtype, const char *shape);
/* A trainable value. NULL initializer: uniform within 1 / sqrt(elements of one row). */
KN_API kn_value *kn_parameter(kn_graph *graph, const char *name, kn_dtype dtype, const char *shape,
                              const kn_initializer *initializer);
/* A value that persists from run to run and is not trainable, such as a counter or a running mean. NULL
 * initializer: 0. */
KN_API kn_value *kn_statistic(kn_graph *graph, const char *name, kn_dtype dtype, const char *shape,
                              const kn_initializer *initializer);
/* Sets the value of a statistic for the next run, of the same type and shape; once per statistic. The current
 * run reads the old value. Only training runs that read the statistic or compute what `next` depends on
 * update it. Returns the statistic. */
KN_API kn_value *kn_statistic_set_next(kn_value *statistic, kn_value *next);
/* A constant; the data (row-major) is copied. */
KN_API kn_value *kn_constant(kn_graph *graph, kn_dtype dtype, const char *shape, const void *data,
                             size_t bytes);
/* A float32 scalar. */
KN_API kn_value *kn_scalar(kn_graph *graph, double number);
/* Excludes a parameter from training. Affects only gradients that are made later. */
KN_API void kn_freeze(kn_value *parameter);

/* Makes inference sessions store a float32 parameter as KN_FLOAT16 or KN_BFLOAT16 in device memory; they
 * still compute in float32. KN_FLOAT32 undoes this. Affects sessions created later. kn_states_set and
 * kn_states_get exchange float32, rounded to the stored type. States used by a trainer stay float32. The
 * first session or trainer that requests a state from a set decides how it is stored there, even if that
 * session is then refused for its memory. */
KN_API void kn_store_as(kn_value *parameter, kn_dtype dtype);

/* Names given from here on begin with "name."; scopes nest. */
KN_API void kn_scope_begin(kn_graph *graph, const char *name);
KN_API void kn_scope_end(kn_graph *graph);
/* Names a value (in the current scope) so that it can be fetched. Returns the value. Inputs and parameters
 * keep the name they were created with. */
KN_API kn_value *kn_name(kn_value *value, const char *name);
/* Marks a value as an output of the graph, named as by kn_name; NULL keeps its name. Returns the value. */
KN_API kn_value *kn_output(kn_value *value, const char *name);

/* Pinning: a pinned node and its gradients run on the device joined to the context under that name
 * (kn_context_join; KN_DEVICE_MAIN is the context's own). States that only these nodes read live there, with
 * their updates. All other nodes run on the context's own device. The first session or trainer that requests
 * a state from a set decides where it lives, even if that session is then refused for its memory. NULL
 * unpins. */

/* Pins the node that makes a value, with all its results. Inputs, parameters and constants have no node,
 * which is an error: they live where they are read. Returns the value. */
KN_API kn_value *kn_pin(kn_value *value, const char *device);
/* Pins all nodes made until the matching kn_pin_end; an inner begin takes precedence. */
KN_API void kn_pin_begin(kn_graph *graph, const char *device);
KN_API void kn_pin_end(kn_graph *graph);
/* Pins all existing nodes with a result whose name matches a pattern (* matches any characters, ? matches
 * one: "stage2.*"). Returns their number. */
KN_API int kn_graph_pin(kn_graph *graph, const char *pattern, const char *device);
/* The names of the devices that nodes are pinned to, each once, in order of first use; NULL past the last. */
KN_API const char *kn_graph_pinned_at(const kn_graph *graph, size_t position);

/* Adds any operator by name, with attributes as text ("stride=2 padding=1"); attributes NULL: defaults.
 * Gradient operators with their inputs, for sizes without symbols: conv2d_data (dy, weight), conv2d_weight
 * (dy, x), average_pool_data (dy), layer_norm_gradient and batch_norm_gradient (x, dy, weight, mean, 1 /
 * deviation), embedding_gradient (dy, indices), attention_gradient (dy, y, logarithms of sums, q, k, v, and
 * the optional inputs of the attention), softmax_gradient and log_softmax_gradient (y, dy). */
KN_API kn_value *kn_apply(kn_graph *graph, const char *operator_name, kn_value *const *inputs, size_t count,
                          const char *attributes);
/* Result `index` of the operator that made `value`. Some operators have further results for their gradients,
 * through which no gradient flows: layer_norm means and inverse deviations (1, 2); batch_norm the same and
 * its next statistics (1 to 4); attention logarithms of sums (1). */
KN_API kn_value *kn_result(kn_value *value, int index);

/* Inspecting a graph. Values are found by name; NULL if there is none. */
KN_API kn_value *kn_graph_find(const kn_graph *graph, const char *name);
KN_API size_t kn_graph_input_count(const kn_graph *graph);
KN_API kn_value *kn_graph_input_at(const kn_graph *graph, size_t position);
KN_API size_t kn_graph_output_count(const kn_graph *graph);
KN_API kn_value *kn_graph_output_at(const kn_graph *graph, size_t position);
KN_API size_t kn_graph_parameter_count(const kn_graph *graph);
KN_API kn_value *kn_graph_parameter_at(const kn_graph *graph, size_t position);
KN_API kn_graph *kn_value_graph(const kn_value *value);
KN_API const char *kn_value_name(const kn_value *value);
/* The dataset field that feeds an input: its name, or "x" for the only input of an ONNX file, whatever its
 * name in the file. Feeds may use both names. */
KN_API const char *kn_value_field(const kn_value *value);
KN_API kn_dtype kn_value_dtype(const kn_value *value);
KN_API int kn_value_rank(const kn_value *value);
/* The dimension if it is a number; -1 if it depends on symbols or the axis is out of range. */
KN_API int64_t kn_value_dimension(const kn_value *value, int axis);
/* Writes "batch,1,28,28", truncated to `size` bytes and terminated; returns the full length. */
KN_API size_t kn_value_shape_text(const kn_value *value, char *text, size_t size);
/* True for values that failed and for NULL. */
KN_API bool kn_value_failed(const kn_value *value);

#ifdef __cplusplus
}
#endif
#endif
