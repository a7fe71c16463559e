/* Declarations shared by the files of the graph module. */
#ifndef KN_GRAPH_PRIVATE_H
#define KN_GRAPH_PRIVATE_H

#include "graph/graph.h"

/* ---- 64-bit arithmetic with overflow checks --------------------------------------------------- */

static inline bool kn_add_fits(int64_t left, int64_t right, int64_t *result) {
    if (right > 0 ? left > INT64_MAX - right : left < INT64_MIN - right) return false;
    *result = left + right;
    return true;
}

static inline bool kn_multiply_fits(int64_t left, int64_t right, int64_t *result) {
    if (left != 0 && right != 0) {
        if (left == INT64_MIN || right == INT64_MIN) {
            if (left != 1 && right != 1) return false;
        } else {
            int64_t size = left < 0 ? -left : left;
            if ((right < 0 ? -right : right) > INT64_MAX / size) return false;
        }
    }
    *result = left * right;
    return true;
}

/* ---- dimension.c, dimension_text.c, dimension_value.c ------------------------------------------ */

enum { KN_DIM_TERMS = 24, KN_DIM_DEGREE = 6, KN_DIM_WEIGHT = 200 };

/* coefficient * product of atoms, which are sorted; atoms are symbols and quotients of sums. */
typedef struct kn_dim_term {
    int64_t coefficient;
    int degree;
    int atoms[KN_DIM_DEGREE];
} kn_dim_term;

/* Terms in order: highest degree first, then by atoms; the constant last. Coefficients are nonzero. */
typedef struct kn_dim_sum {
    int count;
    kn_dim_term terms[KN_DIM_TERMS];
} kn_dim_sum;

typedef struct kn_dim_atom {
    const char *symbol;            /* if NULL, the atom is the quotient: */
    kn_dim numerator, denominator; /* rounded down */
    int weight;                    /* the number of atoms in it, including itself */
} kn_dim_atom;

typedef struct kn_dim_stored {
    int count;
    const kn_dim_term *terms;
} kn_dim_stored;

struct kn_dim_table {
    kn_dim_stored *sums;
    size_t sum_count, sum_capacity;
    kn_dim_atom *atoms;
    size_t atom_count, atom_capacity;
    kn_map sum_index, atom_index; /* from their bytes to index + 1 */
};

bool kn_dim_table_init(kn_graph *graph);
void kn_dim_table_finish(kn_graph *graph);
/* Expands a dimension; a number becomes a sum of one term, 0 a sum of none. */
void kn_dim_load(const kn_graph *graph, kn_dim dim, kn_dim_sum *sum);
/* Like the public functions, but failures are reported in `error`, not in the graph's error. */
typedef enum kn_dim_operation {
    KN_DIM_ADD,
    KN_DIM_SUBTRACT,
    KN_DIM_MULTIPLY,
    KN_DIM_DIVIDE
} kn_dim_operation;
kn_status kn_dim_combine(kn_graph *graph, kn_dim_operation operation, kn_dim left, kn_dim right,
                         kn_dim *result, kn_error *error);
kn_status kn_dim_name(kn_graph *graph, const char *name, size_t length, kn_dim *result, kn_error *error);
kn_status kn_dim_read(kn_graph *graph, const char *text, size_t length, kn_dim *result, kn_error *error);
/* The result may be negative. */
kn_status kn_dim_number(const kn_graph *graph, kn_dim dim, const kn_binding *bindings, size_t count,
                        int64_t *number, kn_error *error);
/* Translates an expression to another graph. */
kn_status kn_dim_translate(const kn_graph *from, kn_dim dim, kn_graph *to, kn_dim *result, kn_error *error);

/* ---- build.c ------------------------------------------------------------------------------------- */

/* Records an existing error in the graph; returns the failed value. */
kn_value *kn_graph_fail_with(kn_graph *graph, const kn_error *error);
/* An unnamed value, not yet in the table of names; NULL (and a failed graph) if out of memory. */
kn_value *kn_value_make(kn_graph *graph, kn_value_kind kind, const kn_shape *shape);
/* Names a value; in a bound graph a duplicate name gets a number appended. */
bool kn_value_rename(kn_graph *graph, kn_value *value, const char *name);
/* At least one letter, digit, '_', '.', '/' or '-'. */
bool kn_name_valid(const char *name);

/* The parameters of a node, for nodes that kn_node_add does not cover. */
typedef struct kn_node_recipe {
    const kn_operator *row;
    const char *name; /* NULL: generated from the row's */
    kn_value *const *inputs;
    int count;
    const kn_attribute_value *attributes; /* NULL: defaults */
    int derivative;
    const kn_shape *derivative_shape; /* of the value node's result, with `derivative` */
    /* the node of another graph that it copies, including output names; or NULL */
    const kn_node *origin;
} kn_node_recipe;
/* NULL on failure, with the graph's error set. */
kn_node *kn_node_make(kn_graph *graph, const kn_node_recipe *recipe);

/* ---- pin.c --------------------------------------------------------------------------------------- */

/* The current pin for new nodes, or NULL. */
const char *kn_pin_now(const kn_graph *graph);

/* ---- public.c ------------------------------------------------------------------------------------ */

/* kn_apply for a row: attributes as text, NULL for the defaults. */
kn_value *kn_row_apply(kn_graph *graph, const kn_operator *row, kn_value *const *inputs, size_t count,
                       const char *attributes);

/* ---- gradient.c ---------------------------------------------------------------------------------- */

/* A gradient of zeros, for a value that the loss does not depend on. */
kn_value *kn_gradient_zero(kn_graph *graph, const kn_value *value);

/* ---- custom.c --------------------------------------------------------------------------------------- */

/* Keeps a custom operator alive as long as the graph; false if out of memory. */
bool kn_custom_hold(kn_graph *graph, const kn_operator *row);
void kn_custom_release(kn_graph *graph);

/* ---- expression.c ------------------------------------------------------------------------------------ */

typedef enum kn_term_kind {
    KN_TERM_NUMBER,
    KN_TERM_NAME,
    /* unary */
    KN_TERM_NEGATE,
    KN_TERM_NOT,
    /* binary */
    KN_TERM_ADD,
    KN_TERM_SUBTRACT,
    KN_TERM_MULTIPLY,
    KN_TERM_DIVIDE,
    KN_TERM_LESS,
    KN_TERM_LESS_EQUAL,
    KN_TERM_GREATER,
    KN_TERM_GREATER_EQUAL,
    KN_TERM_EQUAL,
    KN_TERM_NOT_EQUAL,
    KN_TERM_AND,
    KN_TERM_OR,
    /* ternary */
    KN_TERM_CHOOSE,
    KN_TERM_CALL, /* one or two arguments */
} kn_term_kind;

typedef enum kn_function {
    KN_FUNCTION_EXP,
    KN_FUNCTION_LOG,
    KN_FUNCTION_SQRT,
    KN_FUNCTION_RSQRT,
    KN_FUNCTION_ABS,
    KN_FUNCTION_SIN,
    KN_FUNCTION_COS,
    KN_FUNCTION_TANH,
    KN_FUNCTION_ERF,
    KN_FUNCTION_POW,
    KN_FUNCTION_MIN,
    KN_FUNCTION_MAX,
    KN_FUNCTION_FLOOR,
    KN_FUNCTION_ISNAN,
    KN_FUNCTION_SIGMOID,
    KN_FUNCTION_SOFTPLUS,
    KN_FUNCTION_CEIL,
    KN_FUNCTION_ROUND,
    KN_FUNCTION_TAN,
    KN_FUNCTION_ASIN,
    KN_FUNCTION_ACOS,
    KN_FUNCTION_ATAN,
    KN_FUNCTION_SINH,
    KN_FUNCTION_COSH,
    KN_FUNCTION_ASINH,
    KN_FUNCTION_ACOSH,
    KN_FUNCTION_ATANH,
    KN_FUNCTION_ATAN2,
    KN_FUNCTION_FMOD,
    KN_FUNCTION_QUOTIENT,
    KN_FUNCTION_BIT_AND,
    KN_FUNCTION_BIT_OR,
    KN_FUNCTION_BIT_XOR,
    KN_FUNCTION_BIT_LEFT,
    KN_FUNCTION_BIT_RIGHT,
    KN_FUNCTION_LOG1P,
    KN_FUNCTION_EXPM1,
    KN_FUNCTION_COARSE,
} kn_function;

typedef struct kn_term {
    kn_term_kind kind;
    kn_function function;
    double number;
    int name;   /* index in the expression's names */
    int weight; /* number of terms printed for it */
    const struct kn_term *parts[3];
} kn_term;

struct kn_expression {
    const char *text;
    const kn_term *root;
    const char **names;
    int name_count;
};

enum { KN_EXPRESSION_NAMES = 32, KN_EXPRESSION_DEPTH = 64, KN_EXPRESSION_WEIGHT = 4000 };

/* Whether integer inputs give integer results: no quotients, fractions or functions that produce
 * fractions. */
bool kn_expression_keeps_integers(const kn_expression *expression);
/* Whether the text reads the name; does not parse, so it cannot fail. */
bool kn_expression_text_reads(const char *text, const char *name);
/* Whether the text is a valid name in an expression. */
bool kn_expression_is_name(const char *text, size_t length);

/* ---- signature.c --------------------------------------------------------------------------------- */

/* Puts a step's arguments in the order of its kernel in cl/, and checks that each parameter has one, of its
 * kind. */
kn_status kn_step_order_arguments(kn_step *step, kn_error *error);
/* The first entry of the step's kernel; NULL: none. */
const struct kn_signature *kn_step_signature(const kn_step *step);
/* The kind (signature.h) of the kernel's parameter `name`; 0: none. always: only if the kernel has it
 * whatever the host defines. */
char kn_step_parameter(const kn_step *step, const char *name, bool always);
/* A step of the lowering's node, without file, kernel and arguments; NULL: out of memory. */
kn_step *kn_step_new(kn_lowering *lowering, kn_step_kind kind);
/* The name, not terminated, of the next global memory that the kernel always takes, after `at` (NULL: the
 * first); NULL: no more. */
const char *kn_step_next_memory(const kn_step *step, const char *at, size_t *length, char *kind);

#endif
