/* What an operator is: one row of the table that the ops room fills. Included by graph.h. */
#ifndef KN_GRAPH_OPERATOR_H
#define KN_GRAPH_OPERATOR_H

typedef enum kn_operator_class {
    KN_CLASS_KERNEL = 0, /* lowered to steps by its variants */
    KN_CLASS_POINTWISE,  /* one expression per element; fused and lowered by the plan */
    KN_CLASS_VIEW,       /* the same bytes under another shape: costs nothing */
    KN_CLASS_ASSIGN,     /* writes its second input to the state that is its first; has no outputs */
} kn_operator_class;

/* Infers types and shapes of the outputs. Dimensions may be symbolic in the caller's graph. */
typedef struct kn_shape_call {
    kn_graph *graph;
    const kn_operator *row;
    const char *name; /* of the node, for messages */
    int input_count;
    kn_value *const *inputs;
    kn_attribute_value *attributes;   /* may be completed here (a -1 in a reshape) */
    int output_count;                 /* preset from the row */
    kn_shape outputs[KN_MAX_OUTPUTS]; /* visible, then hidden */
    kn_error *error;
} kn_shape_call;

/* Builds the gradients of a node's inputs, in a bound graph. */
typedef struct kn_gradient_call {
    kn_graph *graph;
    kn_node *node;
    kn_value *const *output_gradients; /* of the visible outputs; NULL where nothing flows back */
    const bool *wanted;                /* for each input */
    kn_value **input_gradients;        /* to be filled in; NULL where there is none. Shapes as the inputs' */
} kn_gradient_call;

/* A host array in double precision, row-major, for references and folding. */
typedef struct kn_reference_array {
    kn_shape shape;
    int64_t elements;
    double *data;
} kn_reference_array;

/* Computes all outputs (hidden ones included) in double precision; output memory is there, zeroed. */
typedef struct kn_reference_call {
    const kn_node *node;
    int input_count;
    const kn_reference_array *inputs; /* data NULL for an absent one */
    int output_count;
    kn_reference_array *outputs;
    const kn_host *host; /* for scratch memory */
    kn_error *error;
} kn_reference_call;

/* Computes any node whose shapes are known: by its row's reference or, pointwise values and gradients, by
 * its expression. Fails with KN_ERROR_UNSUPPORTED where the row has neither. */
kn_status kn_node_reference(kn_reference_call *call);

typedef struct kn_cost {
    double flops; /* of the direct method */
    double bytes; /* read and written once each */
} kn_cost;

/* What the plan knows of the device, in words that need no OpenCL. */
typedef struct kn_library_product kn_library_product; /* step.h */
typedef struct kn_target {
    bool wide_vector; /* few work-items with explicit vectors; otherwise many threads */
    int vector_width, vector_registers;
    int compute_units;
    size_t work_group_items;
    uint64_t local_bytes;
    bool integer_dot;             /* four products of bytes are added at a time, in OpenCL C 3.0 */
    bool wide_indices;            /* 64-bit indices in kernels */
    uint64_t alignment_bytes;     /* of values in a block of memory */
    uint64_t largest_block_bytes; /* of a block */
    bool fast_math;               /* algorithms with a slightly larger error are allowed */
    /* Bytes that a library for matrix products wants beside a product. NULL: there is no such library. */
    bool (*product_scratch)(void *library, const kn_library_product *product, uint64_t *bytes);
    void *library;
} kn_target;

typedef struct kn_emitter kn_emitter;   /* step.h */
typedef struct kn_epilogue kn_epilogue; /* step.h */

/* Statistics of a blocked result, (N,C,H,W), gathered by the kernel that makes it (cl/common/statistics.cl
 * tells how): float32 (parts,3,C) in scratch memory. */
typedef struct kn_statistics {
    int scratch;   /* its number */
    int64_t parts; /* 0: the kernel gathers none */
} kn_statistics;

/* A node that another one computes on the way, so that its result is never in memory. */
typedef struct kn_before {
    const kn_node *node;
    const kn_epilogue *epilogue; /* of it, in words of its own (step.h); NULL: none */
} kn_before;

/* One lowering: a node that becomes steps. Values carry their layouts. */
typedef struct kn_lowering {
    const kn_target *target;
    const kn_node *node;
    kn_emitter *emitter;
    const kn_epilogue *epilogue; /* NULL: none. Only for variants that take one */
    kn_value *result;            /* where output 0 goes: the node's, or the last value of the epilogue */
    kn_statistics
        *gathers; /* of `result`, to be filled in where they can be gathered; NULL: nobody reads them */
    const kn_statistics *gathered; /* of input 0; NULL: none, and so it is where parts are 0 */
    const kn_before *before;       /* makes input 0, on the way; NULL: that is in memory */
    kn_error *error;
} kn_lowering;

/* A case that an operator makes for one of its nodes. */
typedef struct kn_sample {
    char inputs[2][48], attributes[32];
} kn_sample;

/* One way to compute a node. The first that accepts, and that the device computes rightly, is taken. */
typedef struct kn_variant {
    const char *name; /* "tiled", "wide" */
    /* Whether this target and these shapes suit it. NULL: always. Layouts are not yet decided. */
    bool (*accepts)(const kn_target *target, const kn_node *node);
    kn_status (*lower)(kn_lowering *lowering);
    bool takes_epilogue;
    bool gathers;          /* it can gather statistics of a blocked result on the way */
    bool takes_statistics; /* of input 0, instead of reading it for them */
    bool joined;           /* a node of it may be left to the one behind it, which computes it on the way */
    /* Whether it can do so with `before`, whose result is input 0. NULL: never. */
    bool (*joins)(const kn_target *target, const kn_node *node, const kn_node *before);
    /* Layouts it reads and writes, by position; the default is plain everywhere. `any` means: plain
     * or blocked, the same for all rank-4 values of the node. */
    kn_layout inputs[8];
    kn_layout outputs[4];
    bool any;
    /* By output: the input, counted from 1, whose memory it may take over when both are one state; 0 is none.
     * The kernels read each element before they write it, and nowhere else. */
    unsigned char over[8];
    /* It first makes something of its last input. Unless forced, it is taken only where that depends on
     * states alone, so that this is done once. */
    bool prepares;
    bool measured; /* taken only where the device ran it faster than the next that accepts, at sizes like
                      these */
    /* Believed on a device only after the node's sample came out right there or, without one, the row's first
     * accepted case. */
    bool doubtful;
    /* Its error is larger than that of the others. Taken only with fast math, where it pays, and where the
     * largest error of the node's sample, measured on the device, is below KN_FAST_ERROR of the results' RMS.
     */
    bool fast;
    /* NULL: always. invariant: what the steps make of the last input alone need not be made again in each
     * run. */
    bool (*pays)(const kn_target *target, const kn_node *node, bool invariant);
    /* With errors like the node's, and compiled as the node is where that can be: equal programs are one. */
    void (*sample)(const kn_node *node, kn_sample *sample);
} kn_variant;
#define KN_FAST_ERROR 1e-4

/* A case: shapes of the inputs ("2,3,7,7", or "int32 5" …), attributes, and what to do. */
typedef struct kn_case {
    const char *inputs[8];
    const char *attributes;
    /* Range of random inputs: "low..high" for each, NULL for "-2..2". Integers are drawn from the
     * range too, both ends included. "special" puts NaN and infinities among them (no gradient check). */
    const char *ranges[8];
    bool no_gradient; /* where the gradient is not defined or not wanted */
    bool training;
    bool smallest; /* the one for slow devices: at least one per variant */
} kn_case;

/* When a node's result is one of its inputs as it is, where their types and shapes are the same. */
typedef enum kn_identity {
    KN_IDENTITY_NEVER = 0,
    KN_IDENTITY_ALWAYS,   /* the first input (a cast) */
    KN_IDENTITY_INPUT,    /* one input, where the other is the constant `neutral` (x * 1) */
    KN_IDENTITY_ATTRIBUTE /* the first input, where the first attribute is `neutral` (scale by 1) */
} kn_identity;

struct kn_operator {
    const char *name;
    kn_operator_class class;
    const char *help; /* one line for the grammar page */
    const kn_attribute *attributes;
    int attribute_count;
    int min_inputs, max_inputs; /* of a pointwise row: derived from the expression when 0 */
    int outputs;                /* visible; 0 means 1 */
    int hidden;                 /* outputs kept only for the gradient */
    bool backward;              /* made by gradients and builders: no word of the text format */
    bool random;                /* draws from node->random_key and the step counter (its last input) */
    bool training_only;         /* outside training the node is its first input: binding leaves it out */
    /* Bound without training, makes what stands for the visible results, from the bound inputs (batch norm:
     * by its running statistics). node is the one of the caller's graph. NULL: the node is itself in both. */
    kn_status (*without_training)(kn_graph *bound, const kn_node *node, kn_value *const *inputs,
                                  kn_value **results);
    /* Bound, with numbers for sizes, may make something cheaper that gives the same results; leaves
     * results[0] NULL where the node stays what it is. Gradients are those of what was made. NULL: it always
     * stays. */
    kn_status (*at_sizes)(kn_graph *bound, const kn_node *node, kn_value *const *inputs, kn_value **results);
    kn_status (*shape)(kn_shape_call *call);         /* pointwise rows: the broadcast shape when NULL */
    kn_status (*gradient)(kn_gradient_call *call);   /* NULL: no gradient flows (pointwise rows: see `by`) */
    kn_status (*reference)(kn_reference_call *call); /* pointwise rows: the expression when NULL */
    void (*cost)(const kn_node *node,
                 kn_cost *cost); /* NULL: one FLOP per output element, bytes of all values */
    const kn_variant *variants;
    int variant_count;
    /* Pointwise rows: expressions (expression.h) of the value and of its gradients. They read the
     * inputs as x, y, z, the result as r, its gradient as g, the attributes by name, and `uniform`: for the
     * element at row-major position i of the result, kn_random_uniform(kn_random_step(random_key, step), i).
     */
    const char *value;
    const char *by[3];     /* gradient by x, y, z; NULL: none flows */
    kn_dtype result_dtype; /* with fixed_dtype; otherwise that of the inputs, which must agree */
    bool fixed_dtype;      /* comparisons give bool */
    bool mixed_inputs;     /* the first input may be bool (where) */
    bool moves; /* elements of the result are such of the first input as they are, of any type; views do that
                 */
    unsigned halves; /* bit i: input i may be float16 or bfloat16 where the result is float32 */
    kn_identity identity;
    double neutral;
    bool matrices; /* results are (..., M, N) at any rank; otherwise those of rank 4 are images (N,C,H,W) */
    const kn_case *cases;
    int case_count;
    double tolerance; /* factor on the tolerance formula; 0 means 1 */
    struct kn_custom
        *custom; /* of a caller's: what graphs keep alive (custom.c); NULL: the row is the library's */
};

/* The table: filled in by ops/table.c. */
extern const kn_operator *const kn_operator_table[];
extern const int kn_operator_table_count;
const kn_operator *kn_operator_find(const char *name);
/* How many inputs a row takes, also where the expression tells. */
void kn_operator_arity(const kn_operator *row, int *least, int *most);
/* The row's cost, or the default. */
void kn_node_cost(const kn_node *node, kn_cost *cost);
/* The key of the stream of one step: key + step * 0x9e3779b97f4a7c15, on the host and in kernels. */
static inline uint64_t kn_random_step(uint64_t key, uint64_t step) {
    return key + step * 0x9e3779b97f4a7c15u;
}

/* Lists of a row, written in place: KN_ATTRIBUTES(KN_INT("axis", -1, "...")), KN_CASES({...}, {...}). */
#define KN_ROW_LIST(type, list, number, ...)                                                                 \
    .list = (const type[]){__VA_ARGS__}, .number = (int)(sizeof((const type[]){__VA_ARGS__}) / sizeof(type))
#define KN_ATTRIBUTES(...) KN_ROW_LIST(kn_attribute, attributes, attribute_count, __VA_ARGS__)
#define KN_VARIANTS(...) KN_ROW_LIST(kn_variant, variants, variant_count, __VA_ARGS__)
#define KN_CASES(...) KN_ROW_LIST(kn_case, cases, case_count, __VA_ARGS__)

#endif
