/* Public header of the graph module: values, nodes, shapes, gradients, and the declarations of operator rows
 * and steps (it includes operator.h and step.h).
 *
 * The same structures have two uses. The caller's graph has symbolic dimensions. Binding copies the needed
 * part of it into a *bound* graph, where each dimension is a number; gradients and updates are built there,
 * and the plan stores its decisions (layout, group) in its values and nodes. */
#ifndef KN_GRAPH_DOOR_H
#define KN_GRAPH_DOOR_H

#include <koine/context.h>
#include <koine/graph.h>

#include "base/base.h"

enum { KN_MAX_INPUTS = 64, KN_MAX_OUTPUTS = 64 };

/* ---- dimensions (dimension.c) -------------------------------------------------------- */

/* The size if >= 0; otherwise expression -(d + 1) of its graph. Expressions are simplified and stored once
 * each, so equal expressions have the same kn_dim. Expression 0 is the number -1, so that a -1 in a list of
 * dimensions ("infer this one") means the same in every graph. */
typedef int64_t kn_dim;

static inline bool kn_dim_known(kn_dim dim) {
    return dim >= 0;
}
/* On overflow, division by zero or lack of memory these set the graph's error and return 0. */
kn_dim kn_dim_symbol(kn_graph *graph, const char *name);
kn_dim kn_dim_add(kn_graph *graph, kn_dim left, kn_dim right);
kn_dim kn_dim_subtract(kn_graph *graph, kn_dim left, kn_dim right);
kn_dim kn_dim_multiply(kn_graph *graph, kn_dim left, kn_dim right);
kn_dim kn_dim_divide(kn_graph *graph, kn_dim left, kn_dim right); /* rounded down */
/* Parses "2*batch+1"; on failure sets the graph's error and returns 0. */
kn_dim kn_dim_parse(kn_graph *graph, const char *text, size_t length);
void kn_dim_text(const kn_graph *graph, kn_dim dim, kn_text *text);
/* Gets the value of an expression without symbols, which may be negative; false if it has symbols. */
bool kn_dim_constant(const kn_graph *graph, kn_dim dim, int64_t *number);
/* Whether an expression contains a symbol. */
bool kn_dim_has(const kn_graph *graph, kn_dim dim, const char *symbol);
/* The graph's symbols in order of first appearance; NULL after the last. */
const char *kn_graph_symbol(const kn_graph *graph, int position);

typedef struct kn_binding {
    const char *symbol;
    int64_t value;
} kn_binding;
/* Fails, naming the symbol, if a symbol is unbound, or if the result is negative. */
kn_status kn_dim_evaluate(const kn_graph *graph, kn_dim dim, const kn_binding *bindings, size_t count,
                          int64_t *number, kn_error *error);

typedef struct kn_shape {
    kn_dtype dtype;
    int rank;
    kn_dim dims[KN_MAX_RANK];
} kn_shape;
/* Parses "batch,1,28,28" ("" is a scalar) into rank and dims; the caller sets dtype. */
kn_status kn_shape_parse(kn_graph *graph, const char *text, kn_shape *shape, kn_error *error);
/* "float32 (batch,1,28,28)" */
void kn_shape_text(const kn_graph *graph, const kn_shape *shape, kn_text *text);
/* The same text, allocated in the graph's arena, for messages. */
const char *kn_shape_words(kn_graph *graph, const kn_shape *shape);
/* The broadcast shape of two shapes (aligned at the last dimension); false if they do not broadcast.
 * Different symbols never match. The element type is `left`'s; `result` may alias either. */
bool kn_shape_broadcast(kn_graph *graph, const kn_shape *left, const kn_shape *right, kn_shape *result);
bool kn_shape_same(const kn_shape *left, const kn_shape *right); /* dimensions only */
/* Product of all dimensions; -1 if one is symbolic or the product overflows. */
int64_t kn_shape_elements(const kn_shape *shape);
/* Solves for a shape's only unbound symbol, given the number of elements: the bytes of a feed determine the
 * batch size. *symbol is NULL if all are bound. Fails if two are unbound or no integer matches. */
kn_status kn_shape_solve(const kn_graph *graph, const kn_shape *shape, int64_t elements,
                         const kn_binding *bindings, size_t count, const char **symbol, int64_t *number,
                         kn_error *error);

/* ---- elements (element.c): arrays of any type as double-precision numbers ------------------ */

/* Whether the runtime computes in this floating-point type: false for kn_is_small_float. */
bool kn_dtype_is_float(kn_dtype dtype);
static inline bool kn_is_half(kn_dtype dtype) {
    return dtype == KN_FLOAT16 || dtype == KN_BFLOAT16;
}
static inline bool kn_is_byte(kn_dtype dtype) {
    return dtype == KN_INT8 || dtype == KN_UINT8;
}
/* Rounds to 10 bits of mantissa, to nearest with ties away from 0, as matrix units do. */
float kn_round_tf32(float number);
/* The type in which results are stored. */
static inline kn_dtype kn_precision_type(kn_precision precision) {
    return precision == KN_PRECISION_FLOAT16    ? KN_FLOAT16
           : precision == KN_PRECISION_BFLOAT16 ? KN_BFLOAT16
                                                : KN_FLOAT32;
}
/* The codes of cl/common/storage.cl: 1 for float16, 2 for bfloat16, 0 for other types. */
static inline int kn_half_kind(kn_dtype dtype) {
    return dtype == KN_FLOAT16 ? 1 : dtype == KN_BFLOAT16 ? 2 : 0;
}
double kn_element_get(kn_dtype dtype, const void *data, int64_t position);
/* Whether type and shape are the same. */
bool kn_same_info(const kn_tensor_info *one, const kn_tensor_info *other);
/* Rounds to nearest even; integer types truncate towards zero and saturate, NaN gives 0. Overflow of a
 * floating-point type gives an infinity, or what kn_small_float_code returns. */
void kn_element_set(kn_dtype dtype, void *data, int64_t position, double number);

/* ---- attributes (attribute.c) ------------------------------------------------------------ */

typedef enum kn_attribute_kind {
    KN_ATTRIBUTE_INT,
    KN_ATTRIBUTE_FLOAT,
    KN_ATTRIBUTE_BOOL,   /* true/false or 1/0; stored in `integer` */
    KN_ATTRIBUTE_INTS,   /* "1,2,3" */
    KN_ATTRIBUTE_DIMS,   /* "batch,-1,28": may contain symbols; bound with the graph */
    KN_ATTRIBUTE_CHOICE, /* one of the words in `list`; its index is stored in `integer` */
} kn_attribute_kind;

typedef struct kn_attribute {
    const char *name;
    kn_attribute_kind kind;
    double number;    /* default for INT, FLOAT, BOOL, CHOICE */
    const char *list; /* INTS, DIMS: default as text; CHOICE: the choices, separated by spaces */
    const char *help; /* short description for the reference page */
} kn_attribute;
#define KN_INT(attribute, default_value, about)                                                              \
    { attribute, KN_ATTRIBUTE_INT, default_value, 0, about }
#define KN_FLOAT(attribute, default_value, about)                                                            \
    { attribute, KN_ATTRIBUTE_FLOAT, default_value, 0, about }
#define KN_BOOLEAN(attribute, default_value, about)                                                          \
    { attribute, KN_ATTRIBUTE_BOOL, default_value, 0, about }
#define KN_INTS(attribute, default_text, about)                                                              \
    { attribute, KN_ATTRIBUTE_INTS, 0, default_text, about }
#define KN_DIMS(attribute, default_text, about)                                                              \
    { attribute, KN_ATTRIBUTE_DIMS, 0, default_text, about }
#define KN_CHOICE(attribute, words, default_position, about)                                                 \
    { attribute, KN_ATTRIBUTE_CHOICE, default_position, words, about }

typedef struct kn_attribute_value {
    int64_t integer;
    double number;
    int count; /* of `list` */
    kn_dim list[2 * KN_MAX_RANK];
} kn_attribute_value;

enum { KN_MAX_ATTRIBUTES = 12 };

/* ---- values and nodes --------------------------------------------------------------------- */

typedef struct kn_node kn_node;
typedef struct kn_operator kn_operator;

typedef enum kn_value_kind {
    KN_VALUE_INPUT,
    KN_VALUE_STATE,
    KN_VALUE_CONSTANT,
    KN_VALUE_RESULT, /* of a node */
} kn_value_kind;

typedef enum kn_state_role {
    KN_STATE_PARAMETER, /* trained unless frozen */
    KN_STATE_STATISTIC, /* running mean and variance */
    KN_STATE_OPTIMIZER, /* moments */
    KN_STATE_CONTROL,   /* step counter, learning rate, initial state of a recurrence */
    KN_STATE_CACHE,     /* persists between runs, also in inference */
    KN_STATE_PASSING,   /* passed between runs of a single step: neither listed nor saved */
} kn_state_role;

/* How a value is stored. Rank-4 values (N,C,H,W) may be blocked: [N][C/width][H][W][width], where width is
 * the target's vector width and divides C. */
typedef enum kn_layout { KN_LAYOUT_PLAIN = 0, KN_LAYOUT_BLOCKED = 1 } kn_layout;

struct kn_value {
    kn_graph *graph;
    int id; /* index in graph->values */
    kn_value_kind kind;
    kn_shape shape;
    const char *name;  /* unique in its graph; generated for unnamed results */
    const char *field; /* of an input: an alias under which it can be found and fed; NULL: none */
    kn_node *producer; /* of a result */
    int output_index;
    const void *data; /* of a constant: row-major, in the graph's memory */
    size_t data_bytes;
    kn_state_role role; /* of a state */
    kn_initializer initializer;
    /* of a state: its type in memory where it is only read (kn_store_as), at most as wide as the shape's
     * type; in a bound graph the shape has this type, too */
    kn_dtype stored;
    kn_dtype outside; /* of a state: its type in kn_states_get and kn_states_set */
    /* of a float32 state (rows,columns) of a bound graph that is stored as quantized blocks: their type. Its
     * shape is uint8 (rows, bytes of a row), and a node `widen_blocks` follows it; NULL: other values */
    const kn_block_type *blocks;
    /* of a float32 state: its initial contents, if they are quantized blocks of a file, which the graph keeps
     * open (kn_value_fill_from) */
    kn_file_blocks contents;
    /* of a state that is sharded over data-parallel workers: the shape of the whole state, the split
     * (base/shards.h), and the first element of this worker's shard; NULL: not sharded */
    const kn_shape *whole;
    int spread;
    int64_t first;
    /* of a state: it is in host memory; load nodes read it, and its assign writes it back */
    bool on_host;
    bool frozen;
    kn_node *assign; /* of a state: the node that writes it, or NULL */
    bool failed;
    /* of an input of a bound graph: fed as uint8, and each element is scale * byte (kn_feed); 0: fed in its
     * own type */
    double scale;
    /* Set by the plan in bound graphs. */
    kn_layout layout;
    bool wanted; /* fetched by the caller */
};

struct kn_node {
    const kn_operator *op;
    int id;           /* index in graph->nodes; nodes come after the nodes they read */
    const char *name; /* path in the caller's graph; gradients and updates have the name of their origin */
    /* Of a pointwise operator: 0 computes the value; 1 + i computes the gradient with respect to input i,
     * from the inputs of the value node, its result, and the gradient of the result (NULL if the expression
     * does not read it). */
    int derivative;
    int input_count;
    kn_value **inputs; /* NULL for an absent optional input */
    int output_count;  /* visible and hidden outputs */
    kn_value **outputs;
    const kn_attribute_value *attributes; /* in the order of the row's attributes */
    const kn_attribute_value
        *given;          /* attributes as given, before the shape rule completed them; NULL: unchanged */
    uint64_t random_key; /* random stream of this node, derived from seed and name */
    const char *pin;     /* the device it is pinned to; NULL: none. Gradients inherit it */
    int device;          /* of a bound graph: index of the device in its context; -1: undecided */
    bool gradient;       /* built by kn_graph_gradient */
    int stage;           /* kn_stage_begin; 0: none */
    kn_dtype compute, accumulate; /* precision, chosen by the plan */
    bool tf32; /* a matrix unit may multiply float32 rounded to TF32 (10 bits of mantissa); chosen by the
                * plan */
    /* Set by the plan in bound graphs. */
    int group;
};

struct kn_graph {
    kn_host host;
    double made; /* creation time by kn_clock: distinguishes graphs at the same address */
    kn_arena arena;
    kn_error error;
    kn_value **values;
    size_t value_count, value_capacity;
    kn_node **nodes;
    size_t node_count, node_capacity;
    kn_value **outputs; /* marked by kn_output */
    size_t output_count, output_capacity;
    kn_value failed; /* returned by failed builder calls */
    kn_map names;    /* of values */
    kn_map counters; /* for generated names */
    kn_map held;     /* custom operators that its nodes use (custom.c) */
    char scope[512];
    int scope_depth;
    uint16_t scope_lengths[64]; /* length of `scope` before each nested scope */
    kn_shared_file **files;     /* of states' initial contents */
    size_t file_count, file_capacity;
    uint64_t seed;              /* of a bound graph */
    int stage, stages;          /* the current stage, or 0; the last one's number */
    const kn_node *origin;      /* the node whose gradient or replacement is being built, or NULL */
    struct kn_pinning *pinning; /* the innermost kn_pin_begin, or NULL */
    bool bound;
    bool training;             /* bound for training: dropout is active, batch norm uses batch statistics */
    bool rounds_activations;   /* products with weights in blocks round their other input to 8 bits */
    struct kn_dim_table *dims; /* see dimension.c */
    struct kn_difference *differences; /* see differ.c */
};

/* ---- building (build.c) ------------------------------------------------------------------- */

/* Records the first error and returns the failed value: `return kn_graph_fail(graph, KN_ERROR_SHAPE,
 * "...")`. */
kn_value *kn_graph_fail(kn_graph *graph, kn_status status, const char *format, ...) KN_PRINTF(3, 4);
/* Runs the row's shape rule and adds a node; returns its first output, or the failed value (also if an input
 * or the graph has failed). `attributes` NULL: the row's defaults. `name` NULL: the operator and a counter,
 * or within a gradient rule the name of the node that it differentiates. Names passed here, to kn_input_add
 * and to kn_state_add are complete: kn_name_make and kn_name_here prepend the scope. In bound graphs a
 * duplicate name is made unique instead of refused. For class ASSIGN, which has no outputs, it returns the
 * state. */
kn_value *kn_node_add(kn_graph *graph, const kn_operator *row, const char *name, kn_value *const *inputs,
                      int count, const kn_attribute_value *attributes);
/* Adds the gradient of a pointwise node with respect to its input `input`. */
kn_value *kn_node_add_derivative(kn_graph *graph, const kn_node *node, int input, kn_value *gradient);
/* Adds a copy of a node of this bound graph, with its attributes, name and random numbers, that reads other
 * inputs of the same shapes, types and layouts. NULL: failed. */
kn_node *kn_node_repeat(kn_graph *graph, const kn_node *node, kn_value *const *inputs);
/* Begins a stage of a bound graph, which the next nodes belong to, until kn_stage_end: they are neither
 * merged nor fused with nodes of other stages. The results that only nodes of their stage read are therefore
 * not kept longer. */
void kn_stage_begin(kn_graph *graph);
void kn_stage_end(kn_graph *graph);
/* Adds a cast to another type. A failed value stays failed. */
kn_value *kn_value_cast(kn_value *value, kn_dtype dtype);
/* Makes blocks of a file the initial contents of a float32 state whose rows are whole blocks. The graph
 * retains the file. False: out of memory. */
bool kn_value_fill_from(kn_value *state, const kn_file_blocks *blocks);
/* Adds a node that dequantizes a state in blocks. */
kn_value *kn_value_widen_blocks(kn_value *state);
/* The state in blocks that `value` is the dequantized form of, or NULL. */
kn_value *kn_value_in_blocks(const kn_value *value);
/* The shape of a value without the effect of storage in blocks: float32 (rows,columns). */
kn_shape kn_value_wide_shape(const kn_value *value);
/* NULL initializer: 0, or uniform within 1 / sqrt(elements of one row) for a parameter. */
kn_value *kn_state_add(kn_graph *graph, const char *name, const kn_shape *shape, kn_state_role role,
                       const kn_initializer *initializer);
kn_value *kn_input_add(kn_graph *graph, const char *name, const kn_shape *shape);
/* Gives an input an alias, unless a value already has that name. Fails the graph when out of memory. */
void kn_input_alias(kn_value *input, const char *field);
/* Whether a feed of this name matches an input. */
static inline bool kn_input_is(const kn_value *input, const char *name) {
    return !strcmp(input->name, name) || (input->field && !strcmp(input->field, name));
}
kn_value *kn_constant_add(kn_graph *graph, const kn_shape *shape, const void *data, size_t bytes);
/* Writes `value` to the state at the end of the run, after all reads of the state. At most once per state. */
void kn_assign(kn_graph *graph, kn_value *state, kn_value *value);
/* Replaces the value of a state's assign by a later value of the same shape. */
void kn_assign_replace(kn_graph *graph, kn_value *state, kn_value *value);
/* "conv" becomes "conv1", "conv2" …, with the scope prepended. In the graph's arena; never NULL. */
const char *kn_name_make(kn_graph *graph, const char *kind);
/* A user's name with the scope prepended. In the graph's arena; never NULL. */
const char *kn_name_here(kn_graph *graph, const char *name);
/* Parses "key=value …" by the row's attribute list into attributes, starting from the defaults. */
kn_status kn_attributes_parse(kn_graph *graph, const kn_operator *row, const char *text,
                              kn_attribute_value *attributes, kn_error *error);
void kn_attributes_defaults(kn_graph *graph, const kn_operator *row, kn_attribute_value *attributes);
/* The value of a named attribute. If the row has no such attribute, the node's graph fails, and a zero value
 * is returned. */
const kn_attribute_value *kn_attribute_of(const kn_node *node, const char *name);
/* The same without a node; NULL if the row has no such attribute. */
const kn_attribute_value *kn_attribute_in(const kn_operator *row, const kn_attribute_value *attributes,
                                          const char *name);

/* ---- from graph to graph ------------------------------------------------------------------- */

/* Records that the graph is valid only if these sizes differ: binding numbers that make them equal is
 * KN_ERROR_SHAPE, except in training if `trains`. Fails the graph when out of memory. */
void kn_graph_differ(kn_graph *graph, kn_dim left, kn_dim right, bool trains);

typedef struct kn_bind_request {
    const kn_binding *bindings;
    size_t binding_count;
    bool training;
    uint64_t seed;
    /* In inference: the type in which to store a state that would be stored in `type`; NULL: `type`. */
    kn_dtype (*narrows)(const void *user, const kn_value *state, kn_dtype type);
    const void *user;
    /* The type of blocks in which to store a float32 parameter that this graph does not train, or NULL. NULL:
     * never in blocks. */
    const kn_block_type *(*blocks)(const void *user, const kn_value *state, bool training);
    kn_dtype precision; /* for float32 weights that all readers can read in 16 bits */
    /* In inference: products with weights in blocks round their other input to 8 bits. */
    bool rounds_activations;
} kn_bind_request;
/* Copies what `outputs` need into a new graph with numbers for dimensions, running the shape rules again;
 * bound_outputs has room for `count` values. In inference, states are stored in a narrow type where allowed,
 * and a cast widens them for their readers. States that are not trained may be stored in blocks, and a node
 * `widen_blocks` dequantizes them for readers that cannot read blocks. In training, assigns are copied if
 * their state is read or their value depends on needed results (running statistics); in inference only
 * assigns of caches that are read are copied, and training-only rows are left out. Then folds constants. The
 * caller destroys *bound, which is NULL on failure. */
kn_status kn_graph_bind(const kn_graph *graph, kn_value *const *outputs, size_t count,
                        const kn_bind_request *request, kn_graph **bound, kn_value **bound_outputs,
                        kn_error *error);
/* Checks that kn_graph_bind would succeed, without folding. */
kn_status kn_graph_try(const kn_graph *graph, kn_value *const *outputs, size_t count,
                       const kn_bind_request *request, kn_error *error);
/* The part of kn_graph_copy and kn_graph_bind that is in differ.c. */
kn_status kn_differences_copy(const kn_graph *from, kn_graph *to, kn_error *error);
kn_status kn_differences_check(const kn_graph *graph, const kn_bind_request *request, kn_error *error);
/* Copies what `outputs` need, for training or inference, with symbols, so that the copy can outlive the
 * caller's graph. Inputs among `outputs` come first in the copy, in this order. The caller destroys *copy,
 * which is NULL on failure. */
kn_status kn_graph_copy(const kn_graph *graph, kn_value *const *outputs, size_t count, kn_graph **copy,
                        kn_value **copied_outputs, kn_error *error);
/* Marks the nodes that `output` needs in training, including assigns (see bind.c). `needed`, indexed by node
 * id, is all false on entry. */
kn_status kn_graph_needed(const kn_graph *graph, kn_value *output, bool *needed, kn_error *error);
/* An empty bound graph with the seed of another, to be filled by kn_node_copy. NULL: out of memory. */
kn_graph *kn_graph_part(const kn_graph *bound);
/* Copies a leaf (a value without a producer) or a node of a bound graph into a part of it. values[id] is the
 * copy of each value, or NULL: results that the node reads must have been copied; leaves are copied as
 * needed. */
kn_status kn_leaf_copy(const kn_graph *bound, const kn_value *leaf, kn_graph *part, kn_value **values,
                       kn_error *error);
kn_status kn_node_copy(const kn_graph *bound, const kn_node *node, kn_graph *part, kn_value **values,
                       kn_error *error);
/* Replaces nodes whose inputs are constants by constants, computed by the rows' references. Value pointers
 * stay valid (a result becomes a constant); ids change. Skips random nodes and large results. */
kn_status kn_graph_fold(kn_graph *bound, kn_error *error);
/* Builds the gradient of the scalar `loss` with respect to each of `by`; gradients[i] is NULL where loss does
 * not depend on by[i]. On failure the graph has failed, too. */
kn_status kn_graph_gradient(kn_graph *bound, kn_value *loss, kn_value *const *by, size_t count,
                            kn_value **gradients, kn_error *error);
/* The graph as text, one line per node, for koine plan and tests. */
void kn_graph_print(const kn_graph *graph, kn_text *text);

#include "graph/operator.h"
#include "graph/step.h"
#include "graph/expression.h"

#endif
