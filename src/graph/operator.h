/* An operator: one row of the table that the ops module fills. Included by graph.h. */
#ifndef KN_GRAPH_OPERATOR_H
#define KN_GRAPH_OPERATOR_H

typedef enum kn_operator_class {
    KN_CLASS_KERNEL = 0, /* lowered to steps by its variants */
    KN_CLASS_POINTWISE,  /* one expression per element; fused and lowered by the plan */
    KN_CLASS_VIEW,       /* reinterprets the same bytes in another shape, without a copy */
    KN_CLASS_ASSIGN,     /* writes its second input to its first, a state; no outputs */
} kn_operator_class;

/* Infers element types and shapes of the outputs. Dimensions may be symbolic in the caller's graph. */
typedef struct kn_shape_call {
    kn_graph *graph;
    const kn_operator *row;
    const char *name; /* of the node, for messages */
    int input_count;
    kn_value *const *inputs;
    kn_attribute_value *attributes;   /* may be completed here (a -1 in a reshape) */
    int output_count;                 /* preset from the row */
    kn_shape outputs[KN_MAX_OUTPUTS]; /* visible ones, then hidden ones */
    kn_error *error;
} kn_shape_call;

/* Builds the gradients of a node's inputs, in a bound graph. */
typedef struct kn_gradient_call {
    kn_graph *graph;
    kn_node *node;
    kn_value *const *output_gradients; /* of the visible outputs; NULL where nothing flows back */
    const bool *wanted;                /* by input */
    kn_value **input_gradients;        /* to be set; NULL: no gradient. Same shapes as the inputs */
} kn_gradient_call;

/* A host array in double precision, row-major, for references and folding. */
typedef struct kn_reference_array {
    kn_shape shape;
    int64_t elements;
    double *data;
} kn_reference_array;

/* Computes all outputs, including hidden ones, in double precision; output memory is allocated and zeroed. */
typedef struct kn_reference_call {
    const kn_node *node;
    int input_count;
    const kn_reference_array *inputs; /* data is NULL for an absent input */
    int output_count;
    kn_reference_array *outputs;
    const kn_host *host; /* for scratch memory */
    kn_error *error;
} kn_reference_call;

/* Computes any node whose shapes are known: by its row's reference or, if pointwise, by its expression.
 * KN_ERROR_UNSUPPORTED if the row has neither. */
kn_status kn_node_reference(kn_reference_call *call);

typedef struct kn_cost {
    double flops; /* of the direct method */
    double bytes; /* counting each byte read or written once */
} kn_cost;

/* Facts about the device that planning needs, without OpenCL types. */
typedef struct kn_library_product kn_library_product; /* step.h */
typedef struct kn_target {
    bool wide_vector; /* few work-items with explicit vectors; otherwise many work-items */
    int vector_width, vector_registers;
    int compute_units;
    size_t work_group_items;
    /* The largest work-group that `device` supports for the kernels of a cl/ file, if compiling them showed
     * that it is less than work_group_items; 0: unknown. NULL: never limited. */
    size_t (*group_limit)(void *device, const char *file);
    /* The tiles of a cl/ file that `device` does not compile, as bits numbered by the file's lowering. NULL:
     * none. */
    uint32_t (*refused_tiles)(void *device, const char *file);
    /* 32-bit registers that a work-item of `device` may use: 64, 128 or 256, depending on how its compiler
     * handled products with many accumulators per work-item. NULL: 128. */
    int (*item_registers)(void *device);
    /* The matrix unit of `device` for a 16-bit type, for float32 rounded to TF32, or for KN_INT8 (which,
     * except with KN_MATRIX_UNIT_MFMA, includes uint8). NULL: none. */
    kn_matrix_unit (*matrix_unit)(void *device, kn_dtype type);
    bool emulates_matrix_unit; /* emulates the matrix unit in plain code, for tests */
    void *device;
    uint64_t local_bytes;
    bool local_is_global;         /* local memory is carved out of global memory */
    bool integer_dot;             /* has an instruction that adds four products of bytes, in OpenCL C 3.0 */
    bool byte_products;           /* on wide-vector devices: AVX512-VNNI */
    bool wide_indices;            /* 64-bit indices in kernels */
    uint64_t alignment_bytes;     /* alignment of values in a block of memory */
    uint64_t largest_block_bytes; /* limit on a memory block */
    bool fast_math;               /* allow algorithms with a slightly larger error */
    /* Gets the scratch bytes that the matrix product library needs for a product. NULL: no library. */
    bool (*product_scratch)(void *library, const kn_library_product *product, uint64_t *bytes);
    void *library;
} kn_target;

/* Adjacent channels of blocked images, (N,C/width,H,W,width): the lanes of a vector or, on many-thread
 * devices, as many 16-bit elements as a work-item loads at once. */
enum { KN_BLOCK_OF_THREADS = 8 };
static inline int kn_block_width(const kn_target *target) {
    return target->wide_vector ? target->vector_width : KN_BLOCK_OF_THREADS;
}

typedef struct kn_emitter kn_emitter;   /* step.h */
typedef struct kn_epilogue kn_epilogue; /* step.h */

/* Statistics of a blocked result (N,C,H,W), collected by the kernel that computes it (see
 * cl/common/statistics.cl): float32 (parts,3,C) in scratch memory. */
typedef struct kn_statistics {
    int scratch;   /* scratch id */
    int64_t parts; /* 0: the kernel collects none */
} kn_statistics;

/* A producer that is fused into its consumer, so that the producer's result is never stored. */
typedef struct kn_producer {
    const kn_node *node;
    const kn_epilogue *epilogue; /* the producer's epilogue, with its own axes (step.h); NULL: none */
} kn_producer;

/* The lowering of one node to steps. Layouts of values have been chosen. */
typedef struct kn_lowering {
    const kn_target *target;
    const kn_node *node;
    kn_emitter *emitter;
    const kn_epilogue *epilogue; /* NULL: none. Only for variants that accept an epilogue */
    /* where output 0 is stored: the node's output, or the last value of the epilogue */
    kn_value *result;
    kn_statistics
        *gathers; /* statistics of `result`, to be set if the kernel can collect them; NULL: not needed */
    const kn_statistics *gathered; /* statistics of input 0; NULL, or parts 0: none */
    const kn_producer *producer;   /* producer of input 0, fused into this node; NULL: input 0 is in memory */
    kn_value *summed;              /* result of a sum over input 0, to be computed too; NULL: none */
    int config;                    /* kn_variant.config */
    int tile; /* for matrix products on many-thread devices: a tile of kn_product_tile_name; 0: chosen by
               * shape */
    kn_error *error;
} kn_lowering;

/* Sizes of a node with two inputs, as cases write them. */
typedef struct kn_node_sizes {
    const char *inputs[2], *attributes;
} kn_node_sizes;

/* The input that variants prepare, such as weights: the second, or the only one. */
static inline int kn_prepared_input(int input_count) {
    return input_count > 1;
}

/* When the planner chooses a variant. */
typedef struct kn_choice {
    /* Whether it supports this target and these shapes. NULL: always. Layouts are not chosen yet. */
    bool (*accepts)(const kn_target *target, const kn_node *node);
    /* Starts by preparing (repacking) its input kn_prepared_input. Unless forced, it is used only if that
     * input depends only on states, so that the preparation runs once. */
    bool prepares;
    /* Used only if it measured faster on the device than the variant that would be used otherwise: at similar
     * sizes or, if given, at `measured_at`, since the difference depends more on the device than on the
     * sizes. */
    bool measured;
    const kn_node_sizes *measured_at;
    /* The assumed outcome for a device that is not present. NULL: faster if it is measured at these sizes. */
    bool (*expected)(const kn_target *target, const kn_node *node);
    /* On wide-vector devices, used only after a trial there: the device computed a small node with the same
     * programs correctly. On many-thread devices every variant except a row's last needs one. */
    bool doubtful;
    /* Has a larger error than other variants. Used only with fast math, where it pays, and after a trial in
     * which the largest error was below KN_FAST_ERROR of the results' RMS; its sums are as long as the
     * node's, up to a limit. */
    bool fast;
    /* NULL: always. config: the variant's. invariant: what the steps compute only from the input
     * kn_prepared_input is not recomputed in each run. */
    bool (*pays)(const kn_target *target, const kn_node *node, int config, bool invariant);
} kn_choice;

/* Bit masks of the float32 inputs and results of a node (including hidden ones) that may be stored in 16
 * bits: bit i is input or result i. */
typedef struct kn_halves {
    unsigned inputs, results;
} kn_halves;

/* What a variant guarantees to the passes. */
typedef struct kn_promise {
    kn_halves halves; /* inputs and results that it can read and write in 16 bits: its kernels use
                         cl/common/storage.cl */
    /* With 16-bit inputs it rounds intermediate values to 16 bits: trials allow for that. */
    bool rounds;
    bool takes_epilogue;
    bool stores_bytes;   /* the epilogue may end with a cast to 8-bit integers: its kernels use KN_RESULT_T of
                            cl/common/epilogue.cl */
    bool stores_between; /* the epilogue may store: it is called once per result, and only for results */
    bool gathers;        /* can collect statistics of a blocked result while computing it */
    bool takes_statistics; /* reads statistics of input 0 instead of reading input 0 to compute them */
    bool fusible;          /* its node may be fused into its consumer: the intermediate is never stored */
    /* Whether it can fuse `producer`, whose result is input 0. NULL: never. */
    bool (*fuses)(const kn_target *target, const kn_node *node, const kn_node *producer);
    /* Whether it can also compute `sum`, another node that reads input 0. NULL: never. */
    bool (*sums)(const kn_target *target, const kn_node *node, const kn_node *sum);
    /* Layouts of inputs and outputs, by position; plain by default. `any`: plain or blocked, the same for all
     * rank-4 values of the node. */
    kn_layout inputs[8];
    kn_layout outputs[4];
    bool any;
    /* By output: the input (from 1) that it may update in place if both are the same state; 0: none. The
     * kernels read each element before writing it, and access it at no other position. */
    unsigned char over[8];
} kn_promise;

/* One way to compute a node. The plan takes the first variant that accepts the node and that the device
 * computes correctly. A row's last variant is `plain` or as simple as `plain` (each work-item computes
 * separate results, without local memory, barriers and sub-groups) and needs no trial. */
typedef struct kn_variant {
    const char *name; /* "tiled", "wide" */
    kn_status (*lower)(kn_lowering *lowering);
    /* The configuration of `lower` and `pays`, such as a tile size, a layout or a number format, as the
     * family defines it: variants that differ only in it share their functions. */
    int config;
    kn_choice choice;
    kn_promise promise;
} kn_variant;
#define KN_FAST_ERROR 1e-4
/* Lowers the node of `lowering` by a variant. */
static inline kn_status kn_variant_lower(const kn_variant *variant, kn_lowering *lowering) {
    lowering->config = variant->config;
    return variant->lower(lowering);
}

/* A case: shapes of the inputs ("2,3,7,7", or "int32 5" …), attributes, and options. */
typedef struct kn_case {
    const char *inputs[8];
    const char *attributes;
    /* Ranges of the random inputs: "low..high" for each, NULL for "-2..2". For integers the range includes
     * both ends. "special" mixes in NaN and infinities (no gradient check). */
    const char *ranges[8];
    bool no_gradient; /* the gradient is undefined or not wanted */
    bool training;
    bool smallest; /* also run on slow devices: at least one per variant */
    bool large;    /* not run on simulated devices, which would take many minutes */
} kn_case;

/* When a node returns an input unchanged, if the types and shapes are the same. */
typedef enum kn_identity {
    KN_IDENTITY_NEVER = 0,
    KN_IDENTITY_ALWAYS,   /* always the first input (a cast) */
    KN_IDENTITY_WHOLE,    /* the first input, if the result has its shape (a slice of all elements) */
    KN_IDENTITY_INPUT,    /* one input, if the other is the constant `neutral` (x * 1) */
    KN_IDENTITY_ATTRIBUTE /* the first input, if the first attribute is `neutral` (scale by 1) */
} kn_identity;

/* The priority of a node among the nodes that are ready to run. */
typedef enum kn_turn {
    KN_TURN_BY_GRAPH = 0, /* in the order of the graph */
    KN_TURN_FIRST,        /* as soon as its inputs are ready */
    KN_TURN_LAST          /* when no other node is ready */
} kn_turn;

enum { KN_MAX_NAMES = 10 };

struct kn_operator {
    const char *name;
    kn_operator_class class;
    const char *help; /* one line for the reference page */
    const kn_attribute *attributes;
    int attribute_count;
    int min_inputs, max_inputs; /* of a pointwise row: derived from the expression if 0 */
    int outputs;                /* visible; 0 means 1 */
    int hidden;                 /* outputs that only the gradient reads */
    /* How kernels call the inputs and outputs, for kn_step_bind_values; NULL: in different ways. */
    const char *input_names[KN_MAX_NAMES], *output_names[KN_MAX_NAMES];
    bool backward; /* built only by gradients and builders: not part of the text format */
    /* For a backward row that kn_apply accepts: describes an error in a user's node that the shape rule does
     * not check because gradients never build it; NULL if there is none. */
    const char *(*wrong)(const kn_node *node);
    bool transient;     /* large and cheap to compute: equal nodes are not merged, nor results kept for the
                         * next run */
    bool random;        /* draws from node->random_key and the step counter (its last input) */
    bool training_only; /* binding for inference replaces the node by its first input */
    /* When binding for inference, builds the replacement of the visible results from the bound inputs (batch
     * norm: with its running statistics). node belongs to the caller's graph. NULL: no replacement. */
    kn_status (*without_training)(kn_graph *bound, const kn_node *node, kn_value *const *inputs,
                                  kn_value **results);
    /* When binding, once sizes are known, may build a cheaper replacement with the same results; leaves
     * results[0] NULL to keep the node, unless the row has no variants. Gradients are the replacement's.
     * NULL: never replaces. */
    kn_status (*at_sizes)(kn_graph *bound, const kn_node *node, kn_value *const *inputs, kn_value **results);
    /* When binding, for a node with an input that kn_value_in_blocks knows: may build a replacement that
     * reads the blocks; leaves results[0] NULL to keep the node. NULL: never replaces. */
    kn_status (*with_blocks)(kn_graph *bound, const kn_node *node, kn_value *const *inputs,
                             kn_value **results);
    /* When planning, for a node that no variant but the last accepts on the device: builds a replacement with
     * the same results. NULL: never replaces. */
    kn_status (*substitute)(kn_graph *graph, const kn_node *node, kn_value **results);
    kn_status (*shape)(kn_shape_call *call);         /* NULL in pointwise rows: the broadcast shape */
    kn_status (*gradient)(kn_gradient_call *call);   /* NULL: no gradient (pointwise rows: see `by`) */
    kn_status (*reference)(kn_reference_call *call); /* NULL in pointwise rows: the expression */
    void (*cost)(const kn_node *node,
                 kn_cost *cost); /* NULL: one FLOP per output element, the bytes of all values */
    const kn_variant *variants;
    int variant_count;
    /* Pointwise rows: expressions (expression.h) of the value and its gradients. They read the inputs as x,
     * y, z, the result as r, its gradient as g, the attributes by name, and `uniform`: for the element at
     * row-major index i of the result, kn_random_uniform(kn_random_step(random_key, step), i). */
    const char *value;
    const char *by[3];     /* gradient with respect to x, y, z; NULL: none */
    kn_dtype result_dtype; /* if fixed_dtype; otherwise the element type of the inputs, which must agree */
    bool fixed_dtype;      /* comparisons give bool */
    bool mixed_inputs;     /* the first input may be bool (where) */
    bool only_integers;    /* a pointwise row that refuses floats */
    bool moves;            /* copies elements of the first input unchanged, of any type, as views do */
    bool sums;       /* its results are sums over all elements of the first input's leading dimensions */
    bool any_type;   /* accepts storage-only types (kn_is_small_float), as rows with `moves` do */
    unsigned halves; /* bit i: input i may be float16 or bfloat16 although the result is float32 */
    kn_identity identity;
    double neutral;
    kn_turn turn;
    bool matrices; /* results are (..., M, N) at any rank; otherwise rank-4 results are images (N,C,H,W) */
    const kn_case *cases;
    int case_count;
    double tolerance; /* factor on the tolerance; 0 means 1 */
    /* Bit i: the visible results do not depend on input i, which has the shape (C) of input 1: if the node is
     * repeated later in the run, after a state has changed, it reads input 1 instead. */
    unsigned hidden_inputs;
    /* The input (from 1) whose integers are indices along an axis of the first input: attribute `axis`, or
     * the first or last axis; or class indices below attribute `classes`. Sessions check such inputs when the
     * host feeds them. Attribute `ignored` names an additional allowed value; attribute `outside`, if not 0,
     * allows all values. */
    struct {
        int number; /* 0: none */
        bool along_last, from_end;
    } index;
    /* The input (from 1) that multiplies the state passed to the next time step: trials of other sizes use
     * small values for it so that errors do not grow. 0: none. */
    int fed_back;
    /* of a custom operator: reference-counted by graphs (custom.c); NULL: a built-in row */
    struct kn_custom *custom;
};

/* Whether bound graphs have other nodes instead of the row's. */
static inline bool kn_row_is_replaced(const kn_operator *row) {
    return row->class == KN_CLASS_KERNEL && row->at_sizes && !row->variant_count;
}

/* The table, defined in ops/table.c. */
extern const kn_operator *const kn_operator_table[];
extern const int kn_operator_table_count;
const kn_operator *kn_operator_find(const char *name);
/* The minimum and maximum number of inputs of a row, including rows that derive it from the expression. */
void kn_operator_arity(const kn_operator *row, int *least, int *most);
/* The row's cost, or the default. */
void kn_node_cost(const kn_node *node, kn_cost *cost);
/* The 16-bit floating-point inputs and results of a node. */
kn_halves kn_node_halves(const kn_node *node);
/* Whether a row's last kernel, which accepts every node, reads and writes these in 16 bits. Otherwise nodes
 * are computed in float32, between casts. Views, pointwise rows and rows with `moves` take any. */
bool kn_row_computes_halves(const kn_operator *row, kn_halves halves);
/* Whether a kernel that promises `promised` can compute a node with its current types. A row whose kernels
 * promise nothing moves elements of any type. */
bool kn_node_takes_halves(const kn_node *node, kn_halves promised);
/* The value under a chain of views; the value itself if it is not a view. */
kn_value *kn_value_root(kn_value *value);
/* The key of the random stream of one step: key + step * 0x9e3779b97f4a7c15, on the host and in kernels. */
static inline uint64_t kn_random_step(uint64_t key, uint64_t step) {
    return key + step * 0x9e3779b97f4a7c15u;
}

/* Lists in a row's initializer: KN_ATTRIBUTES(KN_INT("axis", -1, "...")), KN_CASES({...}, {...}). */
#define KN_ROW_LIST(type, list, number, ...)                                                                 \
    .list = (const type[]){__VA_ARGS__}, .number = (int)(sizeof((const type[]){__VA_ARGS__}) / sizeof(type))
#define KN_ATTRIBUTES(...) KN_ROW_LIST(kn_attribute, attributes, attribute_count, __VA_ARGS__)
#define KN_VARIANTS(...) KN_ROW_LIST(kn_variant, variants, variant_count, __VA_ARGS__)
#define KN_CASES(...) KN_ROW_LIST(kn_case, cases, case_count, __VA_ARGS__)

#endif
