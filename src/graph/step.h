/* A step: a launch, a copy or a fill, in terms of values. Included by graph.h. Operators emit steps; the plan
 * orders them, places their values in memory and runs them. */
#ifndef KN_GRAPH_STEP_H
#define KN_GRAPH_STEP_H

typedef enum kn_step_kind {
    KN_STEP_KERNEL,
    KN_STEP_COPY,    /* copies all bytes of the value read to the value written */
    KN_STEP_FILL,    /* writes zero bytes */
    KN_STEP_PRODUCT, /* matrix products by a library: reads a and b; writes the result, then scratch */
    /* The following kinds move values between devices, workers or host memory. */
    KN_STEP_SEND,    /* sends all bytes of the value read to another device */
    KN_STEP_RECEIVE, /* receives the value written from another device */
    KN_STEP_SHARE,   /* sends all bytes of the value read to the other workers */
    KN_STEP_TOTAL,   /* the value written: the sum, or the concatenation, of what the workers shared */
    KN_STEP_LOAD,    /* loads the value written from a state in host memory */
    KN_STEP_STORE,   /* stores all bytes of the value read in a state in host memory */
} kn_step_kind;

/* Whether a step of this kind writes no value on the device: it sends or stores a value. */
static inline bool kn_step_is_outgoing(kn_step_kind kind) {
    return kind == KN_STEP_SEND || kind == KN_STEP_SHARE || kind == KN_STEP_STORE;
}

/* Row-major products for the library: a is (batches,M,K), or (batches,K,M) transposed; b is (K,N), or (N,K)
 * transposed; the result is (M,N), per batch. */
struct kn_library_product {
    kn_dtype dtype;
    bool transpose_a, transpose_b;
    int64_t m, n, k, batches;
    int64_t a_stride, b_stride; /* between batches, in elements; 0 broadcasts */
};

/* What a step that multiplies matrices in tiles computes, for reports: (rows,depth) by (depth,columns),
 * `batches` times. tile_rows 0: not such a step. */
typedef struct kn_step_tiles {
    int64_t rows, columns, depth, batches;
    int tile_rows, tile_columns, tile_depth; /* of a work-group; tile_depth: of the sum at a time */
    int products;                            /* products of this shape per tile: attention has several */
    int64_t parts, part_depth;               /* split-K: the number of parts, and their average depth */
    bool matrix;                             /* on a matrix unit: 16 bits, TF32, or 8-bit integers */
    bool split;    /* multiplies float32 as two bfloat16 each, with three products */
    bool integers; /* 8-bit integers; on a matrix unit depths count pairs */
} kn_step_tiles;

/* A sum in a step that only adds parts (kn_step_sums): element i of the result is the sum over `part` of
 * element offset + i + part * stride of the scratch memory `partials`. */
enum { KN_MAX_SUMS = 16 };
typedef struct kn_part_sum {
    int partials;
    kn_value *result;
    int64_t offset, stride, elements, parts;
} kn_part_sum;

/* A filter in a step that only packs filters (kn_step_packs): the arguments of kn_pack_blocked in
 * cl/conv/blocked.cl. `packed` is scratch memory. */
enum { KN_MAX_PACKS = 16 };
typedef struct kn_filter_pack {
    kn_value *weight;
    int packed;
    int64_t sources, places, source_stride, group_stride;
    int64_t group_sources, group_places; /* of a work-group */
} kn_filter_pack;

typedef enum kn_argument_kind {
    KN_ARGUMENT_VALUE,
    /* scratch memory, alive from the first to the last step that names it: `integer` is its id */
    KN_ARGUMENT_SCRATCH,
    KN_ARGUMENT_INT,   /* a 32-bit int */
    KN_ARGUMENT_INDEX, /* KN_INDEX in the kernel: int, or long with wide indices */
    KN_ARGUMENT_FLOAT,
    KN_ARGUMENT_NUMBER, /* `number` in the type `dtype` */
    KN_ARGUMENT_UINT,
    KN_ARGUMENT_LOCAL,   /* `integer` bytes of local memory */
    KN_ARGUMENT_PRESENT, /* uint: bit mask of the values and scratch memories before it that are present */
} kn_argument_kind;

typedef struct kn_argument {
    kn_argument_kind kind;
    const char *name; /* of the kernel's parameter; NULL: not in cl/, and in the kernel's order */
    kn_value *value;  /* NULL with KN_ARGUMENT_VALUE: absent */
    bool reads, writes;
    const char
        *macro; /* KN_X: kn_step_generate defines its parameter in KN_X_PARAMETERS; NULL: declared in cl/ */
    int64_t integer;
    double number;
    kn_dtype dtype; /* of KN_ARGUMENT_NUMBER */
} kn_argument;

typedef struct kn_step {
    kn_step_kind kind;
    const char *label;          /* operator and node: "conv2d conv1" */
    kn_library_product product; /* of KN_STEP_PRODUCT */
    const char *file;           /* in cl/, or the name of `source` in messages */
    const char *source;         /* NULL: the file's source */
    const char *kernel;
    const char *language; /* "CL3.0"; NULL: OpenCL C 1.2 */
    const char *prelude;  /* set by kn_step_end */
    kn_argument *arguments;
    int argument_count, argument_capacity;
    int dimensions;
    size_t global[3], local[3];
    bool any_local; /* the kernel accepts any local size and ignores items beyond its counts */
    size_t cut[3];  /* launches along each dimension */
    kn_cost cost;
    kn_step_tiles tiles;
    /* If its program does not compile: the tiles that are not tried again (refused_tiles of kn_target), which
     * are its own and larger ones of its kind; 0: no smaller tile computes the step. */
    uint32_t tiles_too_large;
    const kn_part_sum *sums; /* sum_count 0: the step is not a sum of parts */
    int sum_count;
    const kn_filter_pack *packs; /* pack_count 0: the step does not pack filters */
    int pack_count;
    bool given;        /* a later step adds these parts (kn_take_sum): the plan drops this step */
    const char *pair;  /* the kernel that computes two such steps (kn_step_pair); NULL: none */
    const char *joint; /* the kernel that computes several such steps (plan/joint.c); NULL: none */
    const char *tuned; /* the name of the kernel if a measurement chose it; NULL: chosen by rule */
    const kn_node *node;
    kn_status failed; /* the first failure, reported by kn_step_end */
    const char *problem;
    struct kn_step_define *defines, *last_define; /* used until kn_step_end */
    kn_arena *arena;
    bool wide_indices;
    const char *generating;               /* the macro of the following arguments, or NULL */
    const struct kn_signature *signature; /* the kernel's first entry, to be found fast; NULL: unknown */
} kn_step;

/* Collects steps. Created by the plan; memory comes from its arena. */
struct kn_emitter {
    kn_arena *arena;
    const kn_host *host;
    const kn_target *target;
    kn_step **steps;
    int step_count, step_capacity;
    uint64_t *scratch_bytes;
    int scratch_count, scratch_capacity;
    kn_error *error;
};
void kn_emitter_init(kn_emitter *emitter, kn_arena *arena, const kn_host *host, const kn_target *target,
                     kn_error *error);
void kn_emitter_finish(kn_emitter *emitter); /* frees the arrays; steps stay in the arena */

/* Integers by name, for KN_STEP_DEFINE, KN_STEP_SET and KN_STEP_BIND. */
typedef struct kn_number {
    const char *name;
    int64_t value;
} kn_number;
#define KN_STEP_LIST(function, step, ...)                                                                    \
    function(step, (const kn_number[]){__VA_ARGS__},                                                         \
             sizeof((const kn_number[]){__VA_ARGS__}) / sizeof(kn_number))

/* Between kn_step_begin and kn_step_end, arguments are set in any order, each with the name of its parameter
 * (a static string, in which # matches any number: such arguments keep their order; or from kn_step_name).
 * Failures (memory, a value too large for 32-bit indices) are reported by kn_step_end, which also checks that
 * each parameter of the kernel is set once with its kind; a NULL step means out of memory. Every prelude
 * starts with KN_INDEX. A step with 0 in its global size is dropped. */
kn_step *kn_step_begin(kn_lowering *lowering, const char *file, const char *kernel);
/* The language version of the kernel, "CL3.0": only for devices known to support it. */
void kn_step_language(kn_step *step, const char *language);
void kn_step_define(kn_step *step, const char *name, const char *format, ...) KN_PRINTF(3, 4);
/* Defines integers: KN_STEP_DEFINE(step, {"KN_WIDTH", width}, {"KN_PIECES", pieces}). */
void kn_step_define_numbers(kn_step *step, const kn_number *numbers, size_t count);
#define KN_STEP_DEFINE(...) KN_STEP_LIST(kn_step_define_numbers, __VA_ARGS__)
/* Defines a number as a float literal, independent of the locale. */
void kn_step_define_number(kn_step *step, const char *name, double number);
/* Defines KN_T or a similar macro as the OpenCL name of an element type ("float", "int", "uchar" for
 * bool). */
void kn_step_define_type(kn_step *step, const char *name, kn_dtype dtype);
/* For 16-bit values these also define KN_HALF_<name> (cl/common/storage.cl), unless the name has a #. */
void kn_step_read(kn_step *step, const char *name, kn_value *value);
void kn_step_write(kn_step *step, const char *name, kn_value *value);
void kn_step_update(kn_step *step, const char *name, kn_value *value); /* reads and writes */
void kn_step_scratch(kn_step *step, const char *name, int scratch);    /* reads and writes */
void kn_step_read_scratch(kn_step *step, const char *name, int scratch);
/* The kernel declares the types of integers. KN_STEP_SET(step, {"rows", rows}, {"columns", columns})
 * sets parameters, which must exist. KN_STEP_BIND describes facts, such as the sizes of a convolution: it
 * sets those parameters that the kernel always has (not in a macro with several definitions) and that are not
 * set yet. */
void kn_step_set_numbers(kn_step *step, const kn_number *numbers, size_t count);
void kn_step_bind_numbers(kn_step *step, const kn_number *numbers, size_t count);
#define KN_STEP_SET(...) KN_STEP_LIST(kn_step_set_numbers, __VA_ARGS__)
#define KN_STEP_BIND(...) KN_STEP_LIST(kn_step_bind_numbers, __VA_ARGS__)
/* Sets the memory that the kernel calls like inputs or outputs of the row (input_names, output_names) and
 * that is not set yet: it reads `global const` memory, and writes outputs. Output 0 is the lowering's result.
 * Also sets `present`, if the kernel has it. */
void kn_step_bind_values(kn_step *step, const kn_lowering *lowering);
/* One integer of a certain type. */
void kn_step_int(kn_step *step, const char *name, int64_t number);
void kn_step_index(kn_step *step, const char *name, int64_t number);
void kn_step_float(kn_step *step, const char *name, double number);
/* For a parameter of type KN_T or KN_A. */
void kn_step_number(kn_step *step, const char *name, kn_dtype dtype, double number);
void kn_step_uint(kn_step *step, const char *name, uint32_t number);
void kn_step_local(kn_step *step, const char *name, size_t bytes);
/* The argument `present` of a kernel that tests which memory arguments before it are present
 * (cl/common/present.cl): an absent argument, or a value that no step reads, is bound to other memory, which
 * the kernel must not access. */
void kn_step_present(kn_step *step);
/* Global sizes are rounded up to multiples of the local sizes. Local size 0 in all dimensions leaves the
 * choice to kn_step_end: 64 items on a many-thread device, with the global size rounded up, so that
 * the kernel must ignore items beyond its counts. A kernel with `source`, or a device with wide vectors,
 * keeps its global size. On a many-thread device, more than KN_MOST_GROUPS groups along the second
 * or third dimension are split into several launches, and kernels get group numbers from KN_GROUP in
 * cl/common/types.cl; for a kernel with `source` this is an error. */
enum { KN_MOST_GROUPS = 65535 };
void kn_step_size1(kn_step *step, size_t global, size_t local);
void kn_step_size2(kn_step *step, size_t global0, size_t global1, size_t local0, size_t local1);
void kn_step_size3(kn_step *step, const size_t global[3], const size_t local[3]);
/* Sets the cost of the step, for nodes with several steps; by default the node's first step has the node's
 * cost. kn_step_cost_of_node gives the node's cost to this step. */
void kn_step_cost(kn_step *step, double flops, double bytes);
/* Declares parameters that are not in cl/: the values, integers and floats that follow, until
 * kn_step_generated, are defined in order as MACRO_PARAMETERS, and their names as MACRO_ARGUMENTS. Both begin
 * with a comma if the step has arguments before them. Pointers get the qualifier. */
void kn_step_generate(kn_step *step, const char *macro);
void kn_step_generated(kn_step *step, const char *qualifier);
/* The type of such a parameter for an int, an index, a uint or a float. */
const char *kn_step_number_type(kn_argument_kind kind);
/* Adds an argument of any kind. */
void kn_step_argument(kn_step *step, kn_argument argument);
/* A name for a generated parameter, with the lifetime of the step. */
const char *kn_step_name(kn_step *step, const char *format, ...) KN_PRINTF(2, 3);
void kn_step_tile(kn_step *step, const kn_step_tiles *tiles);
void kn_step_cost_of_node(kn_step *step, const kn_lowering *lowering);
kn_status kn_step_end(kn_step *step, kn_lowering *lowering);
/* First half of kn_step_end: reports failures, checks the arguments against the signature, and builds the
 * prelude from the defines. The second half adds the step to the emitter. */
kn_status kn_step_complete(kn_step *step, const kn_target *target, kn_error *error);
/* kn_step_end limits the total to KN_ARGUMENT_BYTES. */
enum { KN_POINTER_BYTES = 8 };
size_t kn_step_argument_bytes(const kn_step *step);
/* A step with wide vectors whose `pair` is a kernel that also computes a second, independent step, in the
 * work-items 1 of the last dimension, and divides dimension 1, in which all numbers of work-items give the
 * same result, among both. It takes the memory of the second with the prefix "other_", and so integers that
 * may differ. */
bool kn_steps_can_pair(const kn_step *one, const kn_step *other);
kn_status kn_step_pair(kn_step *one, const kn_step *other, const kn_target *target, kn_step **pair,
                       kn_error *error);
/* Allocates scratch memory for the steps of this node, and of nodes that get the id; returns the id. */
int kn_emit_scratch(kn_lowering *lowering, uint64_t bytes);
kn_status kn_emit_copy(kn_lowering *lowering, kn_value *from, kn_value *to);
/* Only if the target has a matrix product library. */
kn_status kn_emit_product(kn_lowering *lowering, const kn_library_product *product, kn_value *a, kn_value *b,
                          kn_value *result);
kn_status kn_emit_fill_zero(kn_lowering *lowering, kn_value *value);
/* Emitted by the plan for a graph on several devices. */
kn_status kn_emit_send(kn_lowering *lowering, kn_value *value);
kn_status kn_emit_receive(kn_lowering *lowering, kn_value *value);
/* Emitted for data-parallel training (plan/total.c). */
kn_status kn_emit_share(kn_lowering *lowering, kn_value *value);
/* old: the value that `value` keeps in runs without an exchange; NULL: it is undefined in these runs. */
kn_status kn_emit_total(kn_lowering *lowering, kn_value *old, kn_value *value);
/* Emitted for states in host memory (plan/host.c). */
kn_status kn_emit_load(kn_lowering *lowering, kn_value *value);
kn_status kn_emit_store(kn_lowering *lowering, kn_value *value);
const char *kn_opencl_type(kn_dtype dtype);

/* Epilogue: pointwise work on each result before it is stored. A kernel that takes an epilogue ends its
 * parameters with KN_EPILOGUE_PARAMETERS (empty by default) and stores KN_EPILOGUE(v, outer, middle, inner)
 * (v by default), where the result has three axes:
 *   matrix product (.., M, N): the leading dimensions merged, M, N;   others (N,C,H,W): N, C, H * W.
 * A kernel in the plain layout may store KN_EPILOGUE_4(v, outer, middle, inner), where v is four results
 * along the inner axis, which starts at and has a size of a multiple of 4. Vector kernels store
 * KN_EPILOGUE_VECTOR(v, outer, middle, inner), where v is KN_WIDTH results along the inner axis (matrix
 * product) or the middle one (blocked layout), starting at that position. KN_EPILOGUE_PREFETCH(outer, middle,
 * inner) prefetches the operands of the vector form at that position. A kernel that collects statistics
 * (kn_statistics) collects them from the values it stores. KN_EPILOGUE may also store intermediate results if
 * the variant has stores_between.
 *
 * A kernel with a fused producer (kn_producer) has KN_PRODUCER_PARAMETERS before the epilogue's parameters
 * and applies KN_PRODUCER_VECTOR to the producer's results. */
enum { KN_EPILOGUE_OPERANDS = 6 };
struct kn_epilogue {
    /* "KN_EPILOGUE", "kn_epilogue", "e"; for a fused producer: "KN_PRODUCER", …, "b". Operand i is parameter
     * e<i>, its strides are e<i>_outer and so on (kn_epilogue_axes). */
    const char *macro, *function, *operand;
    const char *prelude; /* its functions and the macros that call them */
    int operand_count;
    struct {
        kn_value *value;
        bool written; /* not an operand, but an intermediate result to be stored */
        /* in elements, for outer, middle (in blocked layout: one block), inner; 0 broadcasts */
        int64_t strides[3];
    } operands[KN_EPILOGUE_OPERANDS];
};
extern const char *const kn_epilogue_axes[3];
/* Adds the epilogue's macros and, as the last arguments, its operands, each followed by its three strides
 * (KN_INDEX). Does nothing without an epilogue. */
void kn_step_epilogue(kn_step *step, const kn_lowering *lowering);
/* The same for a fused producer: its arguments precede the epilogue's. */
void kn_step_producer(kn_step *step, const kn_lowering *lowering);

#endif
