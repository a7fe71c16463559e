/* The door of the graph room: what to compute. Values, nodes, shapes, gradients, and what an
 * operator row and a step look like (operator.h and step.h come with this header).
 *
 * One structure serves twice. The caller's graph has symbolic dimensions. Binding copies what is
 * needed of it into a *bound* graph, where each dimension is a number; gradients and updates are
 * built there, and the plan writes its decisions (layout, group) into its values and nodes. */
#ifndef KN_GRAPH_DOOR_H
#define KN_GRAPH_DOOR_H

#include <koine/graph.h>

#include "base/base.h"

enum { KN_MAX_INPUTS = 64, KN_MAX_OUTPUTS = 64 };

/* ---- dimensions (dimension.c) -------------------------------------------------------- */

/* A number when >= 0; otherwise expression -(d + 1) of its graph. Expressions are simplified and
 * made once each, so that equal ones are the same kn_dim. Expression 0 is the number -1, so that a
 * -1 in a list of dimensions ("work this one out") is itself in every graph. */
typedef int64_t kn_dim;

static inline bool kn_dim_known(kn_dim dim) {
    return dim >= 0;
}
/* These record overflow, division by zero and lack of memory as the graph's error, and then answer 0. */
kn_dim kn_dim_symbol(kn_graph *graph, const char *name);
kn_dim kn_dim_add(kn_graph *graph, kn_dim left, kn_dim right);
kn_dim kn_dim_subtract(kn_graph *graph, kn_dim left, kn_dim right);
kn_dim kn_dim_multiply(kn_graph *graph, kn_dim left, kn_dim right);
kn_dim kn_dim_divide(kn_graph *graph, kn_dim left, kn_dim right); /* rounded down; exact where it divides */
/* Reads "2*batch+1"; sets the graph's error on a mistake and answers 0. */
kn_dim kn_dim_parse(kn_graph *graph, const char *text, size_t length);
void kn_dim_text(const kn_graph *graph, kn_dim dim, kn_text *text);
/* The number of an expression that depends on no symbol (it may be negative); false for the others. */
bool kn_dim_constant(const kn_graph *graph, kn_dim dim, int64_t *number);
/* The symbols of a graph, in the order in which they appeared; NULL beyond the last. */
const char *kn_graph_symbol(const kn_graph *graph, int position);

typedef struct kn_binding {
    const char *symbol;
    int64_t value;
} kn_binding;
/* Fails with the name of a symbol that has no binding, or when the result is negative. */
kn_status kn_dim_evaluate(const kn_graph *graph, kn_dim dim, const kn_binding *bindings, size_t count,
                          int64_t *number, kn_error *error);

typedef struct kn_shape {
    kn_dtype dtype;
    int rank;
    kn_dim dims[KN_MAX_RANK];
} kn_shape;
/* Reads "batch,1,28,28" ("" is a scalar) into rank and dims; dtype is the caller's. */
kn_status kn_shape_parse(kn_graph *graph, const char *text, kn_shape *shape, kn_error *error);
/* "float32 (batch,1,28,28)" */
void kn_shape_text(const kn_graph *graph, const kn_shape *shape, kn_text *text);
/* The same in the graph's own memory, for messages. */
const char *kn_shape_words(kn_graph *graph, const kn_shape *shape);
/* The common shape of two by the broadcasting rule (aligned at the last dimension); false if they do not
 * fit: different symbols do not. The type is that of `left`; `result` may be one of them. */
bool kn_shape_broadcast(kn_graph *graph, const kn_shape *left, const kn_shape *right, kn_shape *result);
bool kn_shape_same(const kn_shape *left, const kn_shape *right); /* dimensions only */
/* Product of all dimensions; -1 if one is symbolic or it overflows. */
int64_t kn_shape_elements(const kn_shape *shape);
/* The one symbol that a shape leaves open, found from its number of elements: fed bytes tell the batch.
 * *symbol is NULL when all are bound already. Fails when two are open, or no whole number fits. */
kn_status kn_shape_solve(const kn_graph *graph, const kn_shape *shape, int64_t elements,
                         const kn_binding *bindings, size_t count, const char **symbol, int64_t *number,
                         kn_error *error);

/* ---- elements (element.c): arrays of any type as numbers in double precision -------------- */

bool kn_dtype_is_float(kn_dtype dtype);
static inline bool kn_is_half(kn_dtype dtype) {
    return dtype == KN_FLOAT16 || dtype == KN_BFLOAT16;
}
double kn_element_get(kn_dtype dtype, const void *data, int64_t position);
/* Rounds to nearest even; integers are cut towards zero and kept inside their range, NaN gives 0. */
void kn_element_set(kn_dtype dtype, void *data, int64_t position, double number);

/* ---- attributes (attribute.c) ------------------------------------------------------------ */

typedef enum kn_attribute_kind {
    KN_ATTRIBUTE_INT,
    KN_ATTRIBUTE_FLOAT,
    KN_ATTRIBUTE_BOOL,   /* true/false, 1/0; kept in `integer` */
    KN_ATTRIBUTE_INTS,   /* "1,2,3" */
    KN_ATTRIBUTE_DIMS,   /* "batch,-1,28": may hold symbols; bound with the graph */
    KN_ATTRIBUTE_CHOICE, /* one of `choices`; kept as its position in `integer` */
} kn_attribute_kind;

typedef struct kn_attribute {
    const char *name;
    kn_attribute_kind kind;
    double number;    /* default of INT, FLOAT, BOOL, CHOICE */
    const char *list; /* default of INTS and DIMS as text; the choices, separated by spaces, of CHOICE */
    const char *help; /* a few words for the grammar page */
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
    int count; /* of list */
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
    KN_STATE_PARAMETER, /* learnt, unless frozen */
    KN_STATE_STATISTIC, /* running mean and variance */
    KN_STATE_OPTIMIZER, /* moments */
    KN_STATE_CONTROL,   /* step counter, learning rate, where a recurrence goes on */
    KN_STATE_CACHE,     /* kept from run to run, outside training as well */
} kn_state_role;

/* How a value lies in memory. Rank-4 values (N,C,H,W) may be blocked: [N][C/width][H][W][width], with
 * width the target's vector width and C a multiple of it. */
typedef enum kn_layout { KN_LAYOUT_PLAIN = 0, KN_LAYOUT_BLOCKED = 1 } kn_layout;

struct kn_value {
    kn_graph *graph;
    int id; /* position in graph->values */
    kn_value_kind kind;
    kn_shape shape;
    const char *name;  /* unique in its graph; generated for unnamed results */
    kn_node *producer; /* of a result */
    int output_index;
    const void *data; /* of a constant: row-major, in the graph's memory */
    size_t data_bytes;
    kn_state_role role; /* of a state */
    kn_initializer initializer;
    kn_dtype stored; /* of a state: its type in memory where it is only read (kn_store), narrower than that of
                      * the shape or the same; bound, a narrow one has it in its shape as well */
    kn_dtype outside; /* of a state: its type for who sets and gets it */
    bool frozen;
    kn_node *assign; /* of a state: the node that writes it, or NULL */
    bool failed;
    /* Written by the plan, in bound graphs only. */
    kn_layout layout;
    bool wanted; /* fetched by the caller */
};

struct kn_node {
    const kn_operator *op;
    int id;           /* position in graph->nodes; nodes stand after those they read */
    const char *name; /* path in the caller's graph; gradients and updates carry the name of their origin */
    /* Of a pointwise operator: 0 computes the value; 1 + i the gradient by input i, whose inputs are
     * those of the value node, then its result, then the gradient of the result (NULL where the
     * expression does not read one). */
    int derivative;
    int input_count;
    kn_value **inputs; /* NULL for an absent optional one */
    int output_count;  /* visible and hidden */
    kn_value **outputs;
    const kn_attribute_value *attributes; /* in the row's order, as many as it has */
    const kn_attribute_value *given; /* attributes before the shape rule completed them; NULL: the same */
    uint64_t random_key;             /* of the stream that this node draws from: seed and name */
    const char *pin; /* the device that it is pinned to; NULL: none. Gradients have the pin of their origin */
    int device;      /* of a bound graph: among those of the context; -1: not decided yet */
    kn_dtype compute, accumulate; /* precision, chosen by the plan */
    /* Written by the plan, in bound graphs only. */
    int group;
};

struct kn_graph {
    kn_host host;
    double made; /* when, by kn_clock: no two graphs at one address have the same */
    kn_arena arena;
    kn_error error;
    kn_value **values;
    size_t value_count, value_capacity;
    kn_node **nodes;
    size_t node_count, node_capacity;
    kn_value **outputs; /* marked by kn_output */
    size_t output_count, output_capacity;
    kn_value failed; /* what failed builder calls answer */
    kn_map names;    /* of values */
    kn_map counters; /* of generated names */
    kn_map held;     /* callers' own operators that nodes are of (custom.c) */
    char scope[512];
    int scope_depth;
    uint16_t scope_lengths[64]; /* of `scope` before each scope began */
    uint64_t seed;              /* of a bound graph */
    const kn_node *origin;      /* the node whose gradient is being built, or NULL */
    struct kn_pinning *pinning; /* what kn_pin_begin began last, or NULL */
    bool bound;
    bool training;             /* bound for training: dropout drops, batch norm uses the batch */
    struct kn_dim_table *dims; /* private to dimension.c */
};

/* ---- building (build.c) ------------------------------------------------------------------- */

/* Records the first error and answers the failed value: `return kn_graph_fail(graph, KN_ERROR_SHAPE, "...")`.
 */
kn_value *kn_graph_fail(kn_graph *graph, kn_status status, const char *format, ...) KN_PRINTF(3, 4);
/* Adds a node after running the row's shape rule; answers its first output, or the failed value (also
 * when an input or the graph has failed). `attributes` NULL: the row's defaults. name NULL: kind and a
 * counter, or inside a gradient rule the name of the node whose rule it is. Names here, in kn_input_add and
 * in kn_state_add are whole: kn_name_make and kn_name_here put the scope in front. In bound graphs a name
 * that is taken is varied instead of refused. A node of class ASSIGN has no outputs: its state is answered.
 */
kn_value *kn_node_add(kn_graph *graph, const kn_operator *row, const char *name, kn_value *const *inputs,
                      int count, const kn_attribute_value *attributes);
/* The gradient expression of a pointwise node by its input `input`. */
kn_value *kn_node_add_derivative(kn_graph *graph, const kn_node *node, int input, kn_value *gradient);
/* NULL initializer: 0, but uniform within 1 / sqrt(elements of one row) for a parameter. */
kn_value *kn_state_add(kn_graph *graph, const char *name, const kn_shape *shape, kn_state_role role,
                       const kn_initializer *initializer);
kn_value *kn_input_add(kn_graph *graph, const char *name, const kn_shape *shape);
kn_value *kn_constant_add(kn_graph *graph, const kn_shape *shape, const void *data, size_t bytes);
/* Writes `value` to the state at the end of the run, after all reads of it. Once per state. */
void kn_assign(kn_graph *graph, kn_value *state, kn_value *value);
/* Writes `value`, made later and of the same shape, to a state that was assigned another one. */
void kn_assign_instead(kn_graph *graph, kn_value *state, kn_value *value);
/* "conv" becomes "conv1", "conv2" …, with the scope in front. Text in the graph's arena, never NULL. */
const char *kn_name_make(kn_graph *graph, const char *kind);
/* A name that a person gave, with the scope in front. Text in the graph's arena, never NULL. */
const char *kn_name_here(kn_graph *graph, const char *name);
/* Reads "key=value …" by the row's attribute list into attributes (starting from the defaults). */
kn_status kn_attributes_parse(kn_graph *graph, const kn_operator *row, const char *text,
                              kn_attribute_value *attributes, kn_error *error);
void kn_attributes_defaults(kn_graph *graph, const kn_operator *row, kn_attribute_value *attributes);
/* The value of a named attribute; rows know their own names, so a missing one is a zero value. */
const kn_attribute_value *kn_attribute_of(const kn_node *node, const char *name);
const kn_attribute_value *kn_attribute_in(const kn_operator *row, const kn_attribute_value *attributes,
                                          const char *name);

/* ---- from graph to graph ------------------------------------------------------------------- */

typedef struct kn_bind_request {
    const kn_binding *bindings;
    size_t binding_count;
    bool training;
    uint64_t seed;
    /* Whether a state with a narrow type to be stored in may be; NULL: none may. */
    bool (*narrows)(const void *user, const kn_value *state);
    const void *user;
} kn_bind_request;
/* Copies what `outputs` need into a new graph with numbers for dimensions, running the shape rules again;
 * bound_outputs has `count` places. States that may be stored in a narrow type have it, outside training, and
 * a cast makes of them what their readers know. When training, assigns come along whose state is read, or
 * whose value is made from results that are needed (running statistics); otherwise none, and rows that only
 * matter in training are left out. Then folds. The caller destroys *bound, which is NULL after a failure. */
kn_status kn_graph_bind(const kn_graph *graph, kn_value *const *outputs, size_t count,
                        const kn_bind_request *request, kn_graph **bound, kn_value **bound_outputs,
                        kn_error *error);
/* Copies what `outputs` need, in training or out of it, symbols and all: for who must outlive the caller's
 * graph. The caller destroys *copy, which is NULL after a failure. */
kn_status kn_graph_copy(const kn_graph *graph, kn_value *const *outputs, size_t count, kn_graph **copy,
                        kn_value **copied_outputs, kn_error *error);
/* Marks the nodes that `output` needs in training, the assigns that come along included; `needed`, by id of
 * the nodes, is all false before. */
kn_status kn_graph_needed(const kn_graph *graph, kn_value *output, bool *needed, kn_error *error);
/* An empty bound graph with the seed of another, for nodes that kn_node_copy takes over. NULL: out of memory.
 */
kn_graph *kn_graph_part(const kn_graph *bound);
/* Copies a value of a bound graph that no node makes, or a node, into a part of it. values[id] is what stands
 * in the part for each value of the whole, NULL where nothing does: results that the node reads must be
 * there, other inputs are copied on the way. */
kn_status kn_leaf_copy(const kn_graph *bound, const kn_value *leaf, kn_graph *part, kn_value **values,
                       kn_error *error);
kn_status kn_node_copy(const kn_graph *bound, const kn_node *node, kn_graph *part, kn_value **values,
                       kn_error *error);
/* Replaces nodes whose inputs are constants by constants, through the rows' references. Values stay where
 * they are (a result becomes a constant); ids change. Random nodes and large results are left alone. */
kn_status kn_graph_fold(kn_graph *bound, kn_error *error);
/* Builds the gradient of the scalar `loss` by each of `by`; gradients[i] is NULL where loss does not depend
 * on by[i]. Where it fails the graph has failed as well. */
kn_status kn_graph_gradient(kn_graph *bound, kn_value *loss, kn_value *const *by, size_t count,
                            kn_value **gradients, kn_error *error);
/* The graph as text, a line per node: for koine plan and for tests. */
void kn_graph_print(const kn_graph *graph, kn_text *text);

#include "graph/operator.h"
#include "graph/step.h"
#include "graph/expression.h"

#endif
