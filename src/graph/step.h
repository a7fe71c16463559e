/* A step: a launch, a copy or a fill, in terms of values. Included by graph.h. Operators emit steps; the plan
 * orders them, places their values in memory and runs them. */
#ifndef KN_GRAPH_STEP_H
#define KN_GRAPH_STEP_H

typedef enum kn_step_kind {
    KN_STEP_KERNEL,
    KN_STEP_COPY,    /* all bytes of the value read to the value written */
    KN_STEP_FILL,    /* with zero bytes */
    KN_STEP_PRODUCT, /* matrix products by a library: reads a and b, writes the result, then scratch */
    /* From here on values move between the device and others. */
    KN_STEP_SEND,    /* all bytes of the value read, to another device */
    KN_STEP_RECEIVE, /* the value written, from another device */
    KN_STEP_SHARE,   /* all bytes of the value read, to the workers of a training */
    KN_STEP_TOTAL,   /* the value written: the sum, or all parts, of what they shared */
    KN_STEP_LOAD,    /* the value written, from a state in host memory */
    KN_STEP_STORE,   /* all bytes of the value read, to a state in host memory */
} kn_step_kind;

/* Whether such a step writes no value of the device: it takes one away. */
static inline bool kn_step_is_outgoing(kn_step_kind kind) {
    return kind == KN_STEP_SEND || kind == KN_STEP_SHARE || kind == KN_STEP_STORE;
}

/* Row-major products for the library: a is (batches,M,K), or (batches,K,M) transposed; b is (K,N), or (N,K)
 * transposed; the result is (M,N), per batch. */
struct kn_library_product {
    kn_dtype dtype;
    bool transpose_a, transpose_b;
    int64_t m, n, k, batches;
    int64_t a_stride, b_stride; /* between batches, in elements; 0 repeats */
};

/* What a step that multiplies matrices in tiles computes, for reports: (rows,depth) by (depth,columns),
 * `batches` times. tile_rows 0: it is no such step. */
typedef struct kn_step_tiles {
    int64_t rows, columns, depth, batches;
    int tile_rows, tile_columns, tile_depth; /* of a work-group: of the result, and of the sum at a time */
    int products;                            /* of this shape in each tile: attention has several */
    int64_t parts, part_depth; /* the sum is split into parts; the depth of one, on average of the tiles */
    bool matrix;               /* a matrix unit multiplies: 16 bits, TF32, or 8-bit integers */
    bool split;                /* it multiplies float32, each number as two of bfloat16, three times */
    bool integers;             /* of 8 bits; where a matrix unit multiplies them depths count pairs */
} kn_step_tiles;

/* One of the sums of a step that only adds parts (kn_step_sums): element i of the result is the sum of the
 * numbers offset + i + part * stride of the scratch memory `partials`. */
enum { KN_MAX_SUMS = 16 };
typedef struct kn_part_sum {
    int partials;
    kn_value *result;
    int64_t offset, stride, elements, parts;
} kn_part_sum;

typedef enum kn_argument_kind {
    KN_ARGUMENT_VALUE,
    /* memory that lives from the first to the last step that names it: `integer` is its id */
    KN_ARGUMENT_SCRATCH,
    KN_ARGUMENT_INT,   /* a 32-bit int */
    KN_ARGUMENT_INDEX, /* KN_INDEX in the kernel: int, or long with wide indices */
    KN_ARGUMENT_FLOAT,
    KN_ARGUMENT_UINT,
    KN_ARGUMENT_LOCAL,   /* `integer` bytes of local memory */
    KN_ARGUMENT_PRESENT, /* uint: which of the values and scratch memories before it there are */
} kn_argument_kind;

typedef struct kn_argument {
    kn_argument_kind kind;
    const char *name; /* of the kernel's parameter; NULL: any */
    kn_value *value;  /* NULL with KN_ARGUMENT_VALUE: absent */
    bool reads, writes;
    const char *macro; /* KN_X: kn_step_generate defined its parameter in KN_X_PARAMETERS; NULL: in cl/ */
    int64_t integer;
    double number;
} kn_argument;

typedef struct kn_step {
    kn_step_kind kind;
    const char *label;          /* operator and node: "conv2d conv1" */
    kn_library_product product; /* of KN_STEP_PRODUCT */
    const char *file;           /* in cl/, or the name of `source` in messages */
    const char *source;         /* NULL: that of the file */
    const char *kernel;
    const char *language; /* "CL3.0"; NULL: OpenCL C 1.2 */
    const char *prelude;  /* complete after kn_step_end */
    kn_argument *arguments;
    int argument_count, argument_capacity;
    int dimensions;
    size_t global[3], local[3];
    bool any_local; /* the kernel allows any local size, and ignores items beyond its counts */
    size_t cut[3];  /* launches into which it is cut along each dimension */
    kn_cost cost;
    kn_step_tiles tiles;
    const kn_part_sum *sums; /* sum_count 0: the step does other things than adding parts */
    int sum_count;
    bool given;        /* a later step adds these parts (kn_take_sum): the plan drops this one */
    const char *tuned; /* the name of the kernel, if it was chosen by a measurement; NULL: by rule */
    const kn_node *node;
    kn_status failed; /* the first failure, reported by kn_step_end */
    const char *problem;
    struct kn_step_define *defines, *last_define; /* while being written */
    kn_arena *arena;
    bool wide_indices;
    const char *generating; /* the macro of the arguments that follow */
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

/* Between kn_step_begin and kn_step_end a step gets its arguments in the kernel's order, each with the name
 * of its parameter (a static string, with # for any number; or from kn_step_name). A failure
 * (memory, a value too large for 32-bit indices) is carried to kn_step_end, which compares kinds and names
 * with the kernel's; a NULL step means out of memory. Every prelude starts with KN_INDEX. A step with 0 in
 * its global size launches nothing and is dropped. */
kn_step *kn_step_begin(kn_lowering *lowering, const char *file, const char *kernel);
/* The language version of the kernel, "CL3.0": only for devices known to support it. */
void kn_step_language(kn_step *step, const char *language);
void kn_step_define(kn_step *step, const char *name, const char *format, ...) KN_PRINTF(3, 4);
/* Defines a number as a float literal, independent of the locale. */
void kn_step_define_number(kn_step *step, const char *name, double number);
/* Defines KN_T and the like as the OpenCL name of an element type ("float", "int", "uchar" for bool). */
void kn_step_define_type(kn_step *step, const char *name, kn_dtype dtype);
/* For a value of 16 bits they define KN_HALF_<name> too (cl/common/storage.cl). */
void kn_step_read(kn_step *step, const char *name, kn_value *value);
void kn_step_write(kn_step *step, const char *name, kn_value *value);
void kn_step_update(kn_step *step, const char *name, kn_value *value); /* reads and writes */
void kn_step_scratch(kn_step *step, const char *name, int scratch);    /* reads and writes */
void kn_step_read_scratch(kn_step *step, const char *name, int scratch);
void kn_step_int(kn_step *step, const char *name, int64_t number);
void kn_step_index(kn_step *step, const char *name, int64_t number);
void kn_step_float(kn_step *step, const char *name, double number);
void kn_step_uint(kn_step *step, const char *name, uint32_t number);
void kn_step_local(kn_step *step, const char *name, size_t bytes);
/* The argument `present` of a kernel that tests which of the memory before it is there
 * (cl/common/present.cl): an absent argument, and a value that no step reads, has some other memory, which
 * the kernel must not access. */
void kn_step_present(kn_step *step);
/* Global sizes are rounded up to multiples of the local ones. Local size 0, in all dimensions: any will do.
 * kn_step_end then chooses groups of 64 items on a device with many threads, and rounds the global size up,
 * so that the kernel must ignore items beyond its counts; a kernel with `source` keeps its global size, and
 * so does a device with wide vectors. More than KN_MOST_GROUPS groups along the second or third dimension are
 * cut into several launches on a device with many threads, where kernels count groups by KN_GROUP of
 * cl/common/types.cl; of a kernel with `source` they are an error. */
enum { KN_MOST_GROUPS = 65535 };
void kn_step_size1(kn_step *step, size_t global, size_t local);
void kn_step_size2(kn_step *step, size_t global0, size_t global1, size_t local0, size_t local1);
void kn_step_size3(kn_step *step, const size_t global[3], const size_t local[3]);
/* Sets the cost of the step, for nodes with several steps; by default the node's first step has the node's
 * cost. kn_step_cost_of_node: this step has the node's cost. */
void kn_step_cost(kn_step *step, double flops, double bytes);
/* The parameters of the values, indices and uints that follow, until kn_step_generated, are not in cl/: this
 * defines them, in their order, as MACRO_PARAMETERS, and their names as MACRO_ARGUMENTS. Both begin with a
 * comma if the step has arguments before them. Pointers get the qualifier. */
void kn_step_generate(kn_step *step, const char *macro);
void kn_step_generated(kn_step *step, const char *qualifier);
/* A name with the lifetime of the step, for a generated parameter. */
const char *kn_step_name(kn_step *step, const char *format, ...) KN_PRINTF(2, 3);
void kn_step_tile(kn_step *step, const kn_step_tiles *tiles);
void kn_step_cost_of_node(kn_step *step, const kn_lowering *lowering);
kn_status kn_step_end(kn_step *step, kn_lowering *lowering);
/* The first half of kn_step_end: reports failures, compares the arguments with the signature, and makes the
 * prelude of the defines. The second half adds the step to the emitter. */
kn_status kn_step_complete(kn_step *step, const kn_target *target, kn_error *error);
/* kn_step_end checks that they are at most KN_ARGUMENT_BYTES. */
enum { KN_POINTER_BYTES = 8 };
size_t kn_step_argument_bytes(const kn_step *step);
/* Allocates scratch memory for the steps of this node, and of nodes that it passes the id to; returns the
 * id. */
int kn_emit_scratch(kn_lowering *lowering, uint64_t bytes);
kn_status kn_emit_copy(kn_lowering *lowering, kn_value *from, kn_value *to);
/* Only if the target has a matrix product library. */
kn_status kn_emit_product(kn_lowering *lowering, const kn_library_product *product, kn_value *a, kn_value *b,
                          kn_value *result);
kn_status kn_emit_fill_zero(kn_lowering *lowering, kn_value *value);
/* Emitted by the plan when a graph is computed on several devices. */
kn_status kn_emit_send(kn_lowering *lowering, kn_value *value);
kn_status kn_emit_receive(kn_lowering *lowering, kn_value *value);
/* Emitted where several workers train (plan/total.c). */
kn_status kn_emit_share(kn_lowering *lowering, kn_value *value);
/* old: the value that `value` keeps in runs without an exchange; NULL: it is undefined then. */
kn_status kn_emit_total(kn_lowering *lowering, kn_value *old, kn_value *value);
/* Emitted for states in host memory (plan/host.c). */
kn_status kn_emit_load(kn_lowering *lowering, kn_value *value);
kn_status kn_emit_store(kn_lowering *lowering, kn_value *value);
const char *kn_opencl_type(kn_dtype dtype);

/* Epilogue: pointwise work on each result before it is stored. A kernel that takes an epilogue ends its
 * parameters with KN_EPILOGUE_PARAMETERS (empty by default) and stores KN_EPILOGUE(v, outer, middle, inner)
 * (v by default), where the result has three axes:
 *   matrix product (.., M, N): the leading dimensions merged, M, N;   others (N,C,H,W): N, C, H * W.
 * A kernel in the plain layout may store KN_EPILOGUE_4(v, outer, middle, inner), where v is four results of
 * one line along the inner axis, from a multiple of 4 on, and the length of a line is one too.
 * Vector kernels store KN_EPILOGUE_VECTOR(v, outer, middle, inner), where v is KN_WIDTH results along the
 * inner axis (matrix product) or the middle one (blocked layout), starting at that position.
 * KN_EPILOGUE_PREFETCH(outer, middle, inner) prefetches what the vector form reads there. A kernel that
 * collects statistics (kn_statistics) collects them of what it stores. KN_EPILOGUE may also store a result on
 * the way, where the variant promises to call it for each result and for nothing else (stores_between).
 *
 * A kernel that computes its producer itself (kn_producer) has KN_PRODUCER_PARAMETERS before those and
 * applies KN_PRODUCER_VECTOR to the producer's results. */
enum { KN_EPILOGUE_OPERANDS = 6 };
struct kn_epilogue {
    /* "KN_EPILOGUE", "kn_epilogue", "e"; of a producer that its consumer computes: "KN_PRODUCER", …, "b".
     * Operand i is parameter e<i>, its strides are e<i>_outer and so on (kn_epilogue_axes). */
    const char *macro, *function, *operand;
    const char *prelude; /* its functions and the macros that call them */
    int operand_count;
    struct {
        kn_value *value;
        bool written; /* not an operand, but an intermediate result, which is stored too */
        /* in elements, for outer, middle (in blocked layout: one block), inner; 0 repeats */
        int64_t strides[3];
    } operands[KN_EPILOGUE_OPERANDS];
};
extern const char *const kn_epilogue_axes[3];
/* Adds the epilogue's macros and, as the last arguments, its operands, each followed by its three strides
 * (KN_INDEX). Does nothing without an epilogue. */
void kn_step_epilogue(kn_step *step, const kn_lowering *lowering);
/* The same for a producer that is computed by its consumer: its arguments precede those of the epilogue. */
void kn_step_producer(kn_step *step, const kn_lowering *lowering);

#endif
