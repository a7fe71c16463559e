/* States, the device memory that plans of a session share, and executables. */
#ifndef KN_RUN_PRIVATE_H
#define KN_RUN_PRIVATE_H

#include "run/run.h"

/* ---- states (states.c, initial.c) -------------------------------------------------------------- */

typedef struct kn_state {
    char *name;
    kn_tensor_info info; /* as callers set and get it */
    kn_dtype stored;     /* its type in device memory */
    uint64_t bytes;      /* its size in device memory */
    kn_initializer initializer;
    bool planned;   /* used by a plan; before that it was only set */
    bool passing;   /* KN_STATE_PASSING */
    bool on_host;   /* always in `pending`, without a buffer */
    kn_event moved; /* if on_host: completion of the last store; none: complete */
    bool part;      /* the device has only a shard (parts.c); info describes the whole state */
    int spread;     /* how it is sharded */
    uint64_t first; /* the first element of the shard */
    void *pending;  /* contents, in the type of info, without device memory; for a sharded state the whole,
                       until kn_states_parts_move */
    /* Of a state in quantized blocks: their type in device memory, where they are arranged (base/blocks.h),
     * and `stored` is uint8; NULL: not in blocks. */
    const kn_block_type *blocks;
    /* Contents that are still in a file; type NULL: none. There is no `pending` then. */
    kn_file_blocks from;
    kn_context *context;     /* the device that has it; NULL until a plan uses it */
    kn_buffer *buffer;       /* NULL until kn_states_allocate */
    uint64_t version;        /* incremented by every write to the state's memory */
    unsigned char scalar[4]; /* the last value written by kn_session_set_scalar */
    uint64_t scalar_version; /* `version` after that write; 0: none */
    uint64_t fingerprint;    /* of the last value written by kn_states_refresh */
    uint64_t fresh_version;  /* `version` after that write; 0: none */
} kn_state;

/* Finds or adds the state of a bound graph's value, for a plan on `context`, which is the states' context or
 * joined to it. *state is valid as long as the states. */
kn_status kn_states_use(kn_states *states, kn_context *context, const kn_value *value, kn_state **state,
                        kn_error *error);
/* Whether the state of a graph's value may be stored in a narrow type: it already is, or no plan uses it yet
 * and kn_states_forbid_narrow was not called. */
bool kn_states_may_narrow(const kn_states *states, const kn_value *value, kn_dtype type);
/* The size of the state as callers set and get it. */
uint64_t kn_state_outside_bytes(const kn_state *state);
/* Clears the error of the last call; returns it, with the failure of the states' creation if there is one. */
kn_error *kn_states_begin(kn_states *states);
/* Finds a state of this type and shape, or adds it. */
kn_status kn_states_add(kn_states *states, const char *name, const kn_tensor_info *info, kn_state **state,
                        kn_error *error);
/* Sets a state's contents, in the type and size of its info. */
kn_status kn_states_write(kn_states *states, kn_state *state, const void *data, kn_error *error);

/* ---- contents (contents.c) ---------------------------------------------------------------------------- */

/* Whether callers use a different type than the stored one. */
bool kn_state_is_narrow(const kn_state *state);
/* "float16", "Q4_K": for messages. */
const char *kn_state_storage_name(const kn_state *state);
/* The number of blocks of this type. */
uint64_t kn_state_block_count(const kn_state *state, const kn_block_type *type);
/* Dequantizes contents that are in a file. */
void kn_state_read_file(const kn_state *state, void *data);
/* Makes contents that are in a file `pending`. */
kn_status kn_state_load_file(const kn_host *host, kn_state *state, kn_error *error);
/* Drops contents that are in a file, or takes some. */
void kn_state_drop_blocks(kn_state *state);
void kn_state_take_blocks(kn_state *state, const kn_file_blocks *blocks);
/* Writes bytes [done, done + bytes) of the initial contents of device memory: whole elements, or any bytes of
 * blocks. `key` selects the stream of random numbers. */
void kn_state_fill(const kn_state *state, uint64_t key, uint64_t done, uint64_t bytes, void *to);
/* Read or write the device memory of a state that kn_state_is_narrow. Blocks can only be "written" if they
 * are these numbers already. */
kn_status kn_state_read_narrow(const kn_host *host, const kn_state *state, void *data, kn_error *error);
kn_status kn_state_write_narrow(const kn_host *host, const kn_state *state, const void *data,
                                kn_error *error);
/* Reserves `guard` bytes after each state allocated from now on. */
void kn_states_guard(kn_states *states, uint64_t guard);
/* Allocates and initializes all states that plans use and that have no device memory. */
kn_status kn_states_allocate(kn_states *states, kn_error *error);
/* Waits until the last store to a state's host memory is complete (host.c). */
kn_status kn_state_wait(kn_state *state, kn_error *error);
kn_state *kn_states_find(const kn_states *states, const char *name);
/* All states, including unlisted ones; NULL after the last. */
kn_state *kn_state_at(const kn_states *states, size_t position);
const kn_host *kn_states_host(const kn_states *states);

/* ---- blocks (blocks.c) --------------------------------------------------------------------------------- */

/* The blocks in which a plan may store the state of a graph's value: those that it has in a file or in device
 * memory, or would have initially. NULL: none. */
const kn_block_type *kn_states_blocks(const kn_states *states, const kn_value *value, bool training);

/* ---- sharded states (whole.c; parts.c) ---------------------------------------------------------------- */

/* Reads a whole sharded state: the copy in host memory, or its initial contents. */
void kn_state_read_whole(const kn_state *state, void *data);
/* Keeps a whole sharded state in host memory, and writes its shard if it has device memory. */
kn_status kn_state_set_whole(const kn_host *host, kn_state *state, const void *data, kn_error *error);
/* The size of one element in device memory. */
static inline uint64_t kn_state_unit(const kn_state *state) {
    return kn_dtype_bytes(state->stored);
}
kn_states *kn_states_retain(kn_states *states);
const kn_context *kn_states_context(const kn_states *states);

/* Initializes elements [first, first + count); `key` selects the state's stream of random numbers. */
void kn_initial_elements(const kn_initializer *initializer, uint64_t key, kn_dtype dtype, uint64_t first,
                         uint64_t count, void *target);
/* Initializes all elements of an orthogonal state, which depend on each other. False when out of memory. */
bool kn_initial_orthogonal(const kn_host *host, const kn_initializer *initializer, uint64_t key,
                           const kn_tensor_info *info, void *target);
/* Shape and type for messages: "float32 (3,4)". */
void kn_info_text(const kn_tensor_info *info, kn_text *text);
/* The shape of a value of a bound graph. */
kn_tensor_info kn_info_of(const kn_shape *shape);

/* ---- packing (states.c, attach.c) ------------------------------------------------------------------- */

/* Places permanent allocations one after another in blocks. kn_pack returns the offset in `block`. */
typedef struct kn_packing {
    uint64_t alignment, limit;
    int block; /* -1 before the first */
    uint64_t end;
} kn_packing;
static inline uint64_t kn_pack(kn_packing *packing, uint64_t bytes) {
    uint64_t offset = kn_align_up(packing->end, packing->alignment);
    if (packing->block < 0 || offset > packing->limit || bytes > packing->limit - offset) {
        packing->block++;
        offset = 0;
    }
    packing->end = offset + bytes;
    return offset;
}

/* ---- the memory that plans of one session share (memory.c) ------------------------------------------ */

/* Limit on the host memory through which the inputs of a session are uploaded to each of its devices. */
#define KN_STAGING_MOST ((uint64_t)256 << 20)

/* Scratch blocks, each as large as the plan with the largest, and two buffers per input: one is written while
 * a run reads the other. */
typedef struct kn_memory {
    kn_context *context;
    const kn_host *host;
    kn_buffer **blocks;
    uint64_t *block_bytes;
    int block_count;
    struct kn_input_memory {
        kn_buffer *buffers[2];
        uint64_t bytes;
        uint64_t ahead[2];      /* by turn: bytes already written for the run that will read them; 0: none */
        bool asked;             /* allocation of the following was attempted; they may still be NULL: */
        kn_staging *staging[2]; /* by turn: host memory that the device can read directly, */
        kn_event written[2];    /* and the last write from it */
    } * inputs;
    int input_count;
    uint64_t staging_bytes;
    uint64_t guard;                   /* bytes after each value */
    int turn;                         /* the buffer of each input that the next run reads */
    int running;                      /* 1: that run is being enqueued */
    bool leaves;                      /* the next runs do not move states between host and device memory */
    kn_event used[2];                 /* by turn: completion of the last run that read these buffers */
    kn_event fed;                     /* the last write of kn_memory_feed_within */
    uint64_t generation;              /* incremented when blocks change: plans must then attach again */
    const struct kn_executable *kept; /* the plan whose results of steps that run once are in the blocks; only
                                         compared, may be destroyed */
} kn_memory;

typedef struct kn_executable kn_executable;
typedef struct kn_totals kn_totals;
kn_status kn_memory_init(kn_memory *memory, kn_context *context, int input_count, kn_error *error);
void kn_memory_finish(kn_memory *memory);
bool kn_memory_fits(const kn_memory *memory, const kn_executable *executable);
/* Grows blocks and inputs to fit. All plans of the session must be detached and the device idle. */
kn_status kn_memory_grow(kn_memory *memory, const kn_executable *executable, kn_error *error);
/* Writes an input for the next run; the data may change after the call. */
kn_status kn_memory_feed(kn_memory *memory, int input, const void *data, uint64_t bytes, kn_error *error);
/* The same on the compute queue, without waiting: the data must not change until kn_memory_fed returns, or
 * the run is complete. */
kn_status kn_memory_feed_within(kn_memory *memory, int input, const void *data, uint64_t bytes,
                                kn_error *error);
kn_status kn_memory_fed(kn_memory *memory, kn_error *error);
/* The enqueued runs are complete. */
bool kn_memory_is_idle(const kn_memory *memory);
/* The caller has waited for all enqueued runs. Mesa 22.3 may still report the events of some as running. */
void kn_memory_set_idle(kn_memory *memory);
kn_status kn_memory_feed_buffer(kn_memory *memory, int input, kn_buffer *data, uint64_t bytes,
                                kn_error *error);
/* kn_memory_feed while a run is in progress, if the buffers are large enough; otherwise does nothing. While a
 * run is being enqueued, the input is for the following run. */
kn_status kn_memory_feed_ahead(kn_memory *memory, int input, const void *data, uint64_t bytes,
                               kn_error *error);
/* Discards what was fed ahead. */
void kn_memory_forget_ahead(kn_memory *memory);
/* Marks the buffers of this turn as read by the run just enqueued, and switches to the others. `idle`: that
 * run is complete. */
kn_status kn_memory_next(kn_memory *memory, bool idle, kn_error *error);

/* ---- transfers between devices (exchange.c) ------------------------------------------------------------ */

/* The transfer of a value from one device to another, through host memory that the plan owns. */
typedef struct kn_exchange {
    kn_context *from, *to;
    void *bytes;            /* host memory; NULL until the send step is created */
    bool sent;              /* while steps are ordered: the send step has been placed */
    kn_event read, written; /* completion of the read into `bytes`, and of the write from it */
} kn_exchange;

/* ---- executables (make.c, attach.c, run.c, print.c) -------------------------------------------- */

typedef struct kn_ready_step {
    const kn_step *step;
    kn_kernel *kernel; /* of kind KN_STEP_KERNEL */
    kn_launch launch;
    const kn_value *source, *target; /* roots; of copies, fills and transfers */
    uint64_t bytes;
    kn_cost cost;
    bool once; /* runs only if states have changed, or another plan used the memory */
} kn_ready_step;

typedef struct kn_part_step {
    int device, step;
} kn_part_step;

/* Whether a run can skip the steps that run once, and the version of the states that they read. */
typedef struct kn_run {
    bool kept;
    uint64_t version;
} kn_run;

/* A kernel argument that is an input: set before each run, since inputs have two buffers. */
typedef struct kn_switched {
    kn_kernel *kernel;
    int argument, input;
} kn_switched;

struct kn_executable {
    kn_host host;
    kn_context *context;
    kn_states *states; /* the session's */
    kn_arena arena;
    kn_graph *graph;
    int64_t *numbers; /* by the session's symbols; -1: none */
    size_t number_count;
    double *scales; /* by the session's inputs: scales of inputs fed as bytes (kn_feed); 0: fed in their own
                       type */
    kn_value **values; /* the requested values, as changed by the passes; of a part: those that it computes,
                          and its last token */
    kn_tensor_info *infos; /* by requested value */
    size_t value_count;
    /* The executables for the context's devices, in order; the first is this one, which frees the others.
     * Each has separate memory, steps and states, and they run concurrently. */
    kn_executable **parts;
    int part_count;
    kn_executable *head;   /* of a part: the first part */
    kn_part_place *places; /* by requested value; NULL with one device: the values themselves */
    kn_exchange *exchanges;
    int exchange_count;
    kn_totals *totals;   /* the session's; NULL: no other workers */
    int *total_of;       /* by step: of share and total steps, the index of their value */
    kn_part_step *order; /* of the head: the steps of all parts, each after the steps that it reads from; NULL
                            with one device */
    int *positions;      /* of a part: by step, the position in `order`; NULL with one device */
    kn_plan_info total;  /* of the head: sums over all parts */
    kn_plan plan;
    double *pass_seconds; /* of the head: by pass, over all parts */
    uint64_t guard;       /* bytes after each value */
    kn_state **state_list;
    bool *state_kept, *state_written; /* by state: read by steps that run once; written in a run */
    int state_count;
    kn_value **constants;
    int constant_count;
    uint64_t *input_bytes; /* by the session's inputs: the size that a run reads */
    bool *input_needed;
    int input_count;
    kn_ready_step *steps;
    kn_switched *switched;
    int switched_count;
    kn_plan_info info;
    bool fast_math;
    kn_precision precision;
    unsigned economies; /* KN_ECONOMY_ */
    uint64_t constant_bytes, input_total;
    uint64_t last_used;
    /* Valid after kn_executable_attach. */
    kn_buffer **constant_blocks;
    int constant_block_count;
    kn_buffer **constant_buffers;
    kn_buffer **buffers;         /* by value id: of scratch roots */
    kn_buffer **scratch_buffers; /* by scratch number */
    uint64_t generation;         /* of the memory that it is attached to; 0: none */
    bool kept;                   /* the steps that run once have run, */
    uint64_t kept_version;       /* with the states that they read at this sum of versions */
};

/* The context's devices, and the devices that have states (device.c). */
void kn_devices_of(kn_context *context, const kn_states *states, kn_plan_devices *devices);
/* Fails if the device does not support the element type of a node. */
kn_status kn_check_types(const kn_context *context, const kn_graph *graph, kn_error *error);

/* Kernels that were made smaller while an executable was created (groups.c). */
enum { KN_MAX_REDUCTIONS = 64 };
typedef struct kn_reductions {
    bool again; /* the last failure was a reduction: retry the plan with a smaller group or tile */
    int count;
    struct {
        kn_context *context;
        char file[64]; /* in cl/ */
    } of[KN_MAX_REDUCTIONS];
} kn_reductions;
/* The largest work-group for the kernels of a file on a context, if a larger one has failed; otherwise 0. */
size_t kn_groups_limit(void *context, const char *file);
/* Records that the work-group of a step is too large: at most `allowed` work-items, and a power of two
 * smaller than now. False if it cannot be smaller. */
bool kn_groups_reduce(kn_reductions *reductions, const kn_executable *executable, const kn_step *step,
                      size_t allowed);
/* The tiles of a file that did not compile on a context (refused_tiles of kn_target). */
uint32_t kn_groups_refused_tiles(void *context, const char *file);
/* Whether the kernels of a file compiled on a context only without unrolled loops. */
bool kn_groups_rolled(kn_context *context, const char *file);
/* Records that the program of a step did not compile: the next plan takes its next smaller tile or work-group
 * or, if there is none, kernels without unrolled loops. */
void kn_groups_after_failure(kn_reductions *reductions, const kn_executable *executable, const kn_step *step);
/* Drops the reductions when they did not help: the size was not the cause. */
void kn_groups_forget(const kn_reductions *reductions);
/* Whether a kernel can be launched with a larger work-group than the driver reports: tried once on zeros. */
bool kn_groups_work(kn_executable *executable, const kn_ready_step *ready);

typedef struct kn_executable_request {
    kn_context *context;
    kn_states *states;
    const kn_graph *graph; /* the session's */
    kn_value *const *values;
    size_t value_count;
    kn_value *const *inputs; /* the session's; inputs of the bound graph are found by name */
    int input_count;
    const kn_binding *bindings; /* symbols that have a number */
    size_t binding_count;
    /* The key of the plan in the session's cache: numbers by symbol, -1: none; scales by input. */
    const int64_t *numbers;
    size_t number_count;
    const double *scales;
    const kn_session_params *params;
    const kn_switches *switches; /* parsed from params->switches */
    uint64_t guard;
    kn_totals *totals; /* NULL: none */
    kn_status (*extend)(void *user, kn_graph *bound, kn_value **values, size_t count, kn_error *error);
    void *user;
    kn_reductions *reductions; /* set by kn_executable_make */
} kn_executable_request;

/* How a plan saves memory, and the outcome. */
typedef struct kn_economy {
    bool keeps;          /* results that depend only on states persist between runs */
    uint64_t live_bytes; /* kn_plan_request.live_bytes */
    /* Outcome of planning: */
    bool kept; /* some results do persist */
    /* if a device needs more memory than allowed, its sizes: */
    uint64_t needed, limit, scratch, live; /* live: kn_repeats.live_bytes */
} kn_economy;
/* Makes an executable with these measures, if it needs no more memory than allowed. */
kn_status kn_executable_make_with(const kn_executable_request *request, kn_economy *economy,
                                  kn_executable **executable, kn_error *error);
/* Measures that plans take, in this order, until they need no more memory than allowed. */
enum { KN_ECONOMY_KEEP_NOTHING = 1 << 0, KN_ECONOMY_RECOMPUTE = 1 << 1, KN_ECONOMY_HOST = 1 << 3 };
extern const char *const kn_memory_measures[];
extern const int kn_memory_measure_count;
/* Turns a graph into compiled steps that need no more memory than allowed, taking these measures if necessary
 * (fit.c); allocates no device memory, unless the context precompiles. */
kn_status kn_executable_make(const kn_executable_request *request, kn_executable **executable,
                             kn_error *error);
void kn_executable_destroy(kn_executable **executable);
/* The programs of a plan's steps (programs.c). */
typedef struct kn_step_programs {
    kn_arena arena; /* owns the preludes */
    kn_program_request *requests;
    size_t count;
    int *program_of; /* by step: the index of its request; -1: it has no kernel */
} kn_step_programs;
kn_status kn_step_programs_list(const kn_executable *executable, kn_programs programs, kn_step_programs *list,
                                kn_error *error);
void kn_step_programs_finish(kn_step_programs *list, const kn_host *host);
/* Prepares the steps of the plan: compiles programs, creates kernels (ready.c). */
kn_status kn_executable_ready(kn_executable *executable, const kn_executable_request *request,
                              kn_error *error);
/* Sets the launch sizes of a step on a device that allows `allowed` work-items per group. Returns the
 * work-items per group, which may still be more; `wide`: a device with wide vectors (launch.c). */
size_t kn_step_launch(const kn_step *step, size_t allowed, bool wide, kn_launch *launch);
/* Chooses the launch sizes of a step whose kernel exists (launch.c); records a work-group that is too
 * large. */
kn_status kn_launch_choose(kn_executable *executable, kn_reductions *reductions, kn_ready_step *ready,
                           kn_error *error);
/* Splits launches that may take long on a many-thread device, according to the costs of the steps;
 * `all`: every launch, along each dimension. */
void kn_launches_cut(kn_executable *executable, bool all);
/* Creates the kernel of a step and chooses its launch sizes. */
kn_status kn_executable_make_kernel(kn_executable *executable, const kn_executable_request *request, int step,
                                    kn_program *program, kn_error *error);
/* Used instead on a precompiling context: creates and launches each kernel once (precompile.c). */
kn_status kn_executable_precompile(kn_executable *executable, const kn_executable_request *request,
                                   const kn_step_programs *list, kn_error *error);
/* Launches the kernel of a step once on zeros, and waits (zeros.c). */
kn_status kn_executable_launch_on_zeros(const kn_executable *executable, const kn_ready_step *ready,
                                        const kn_launch *launch, kn_error *error);
/* Bit mask of the memory arguments of a kernel that are present. */
typedef struct kn_present {
    int count;
    uint32_t bits;
} kn_present;
/* Sets an argument of a step's kernel; `buffer`: of a value or scratch memory, or NULL. `present`, initially
 * zero, is shared by all arguments of the kernel, which are set in order. */
kn_status kn_executable_set_argument(const kn_executable *executable, kn_kernel *kernel, int position,
                                     const kn_argument *argument, kn_buffer *buffer, kn_present *present,
                                     kn_error *error);
/* Takes slices of the memory, which must fit, and sets the arguments of all kernels. */
kn_status kn_executable_attach(kn_executable *executable, const kn_memory *memory, kn_error *error);
void kn_executable_detach(kn_executable *executable);
/* Enqueues the steps of all parts in order; `memories` has one entry per part. */
kn_status kn_executable_run(kn_executable *executable, kn_memory *memories, kn_enqueued_callback *on_enqueued,
                            kn_error *error);
/* Makes the call unless it was already made. */
kn_status kn_call_enqueued(kn_enqueued_callback *on_enqueued, kn_error *error);
/* The host memory through which a plan's inputs are uploaded, in both turns (memory.c). */
uint64_t kn_executable_staging_bytes(const kn_executable *executable);
/* kn_session_repeat for the head. */
kn_status kn_executable_repeat(kn_executable *executable, const kn_memory *memory, const kn_operator *row,
                               int times, kn_error *error);
/* The buffer of a requested value, and the part that computes it. */
kn_buffer *kn_executable_result(const kn_executable *executable, const kn_memory *memories, size_t value,
                                const kn_executable **part);
/* Allocates host memory for the transfers of all parts, and orders all steps. Destroy waits for transfers. */
kn_status kn_exchanges_make(kn_executable *executable, kn_error *error);
void kn_exchanges_destroy(kn_executable *executable);
/* Runs a send or receive step. Receiving waits for the sending device. */
kn_status kn_exchange_send(const kn_executable *part, const kn_memory *memory, const kn_ready_step *ready,
                           kn_error *error);
kn_status kn_exchange_receive(const kn_executable *part, const kn_memory *memory, const kn_ready_step *ready,
                              kn_error *error);

/* Run a load or store step of a state in host memory (host.c). */
kn_status kn_state_load(const kn_executable *executable, const kn_memory *memory, const kn_ready_step *ready,
                        kn_error *error);
kn_status kn_state_store(const kn_executable *executable, const kn_memory *memory, const kn_ready_step *ready,
                         kn_error *error);

/* ---- sums over data-parallel workers (totals.c) --------------------------------------------------- */

/* any_order: see kn_session_request. */
kn_status kn_totals_create(const kn_host *host, const kn_communicator *communicator, const kn_shards *shards,
                           bool any_order, kn_totals **totals, kn_error *error);
/* The device must have finished. */
void kn_totals_destroy(kn_totals **totals);
/* Finds the values that a plan adds up; the first plan allocates host memory for them. */
kn_status kn_totals_prepare(kn_totals *totals, kn_executable *executable, kn_error *error);
/* Whether runs exchange sums, and gather values (kn_session_exchange). */
void kn_totals_activate(kn_totals *totals, bool sums, bool gathers);
/* kn_session_vote and kn_session_voted. */
void kn_totals_vote(kn_totals *totals, const float votes[KN_SESSION_VOTES]);
void kn_totals_voted(const kn_totals *totals, float sums[KN_SESSION_VOTES]);
/* The host memory that it uses; NULL: 0. */
uint64_t kn_totals_bytes(const kn_totals *totals);
/* Before each run. */
void kn_totals_begin(kn_totals *totals);
/* Whether a total step is part of an exchange, for which the host waits. */
bool kn_total_waits(const kn_executable *executable, int step);
/* Run a share or total step. */
kn_status kn_total_share(const kn_executable *executable, const kn_memory *memory, int step, kn_error *error);
kn_status kn_total_take(const kn_executable *executable, const kn_memory *memory, int step, kn_error *error);

/* Scratch memory in bytes that the context's matrix library needs; false if it does not support the product.
 */
bool kn_product_scratch(void *context, const kn_library_product *product, uint64_t *bytes);
/* Runs a matrix product by the library (product.c). */
kn_status kn_executable_product(const kn_executable *executable, const kn_memory *memory,
                                const kn_ready_step *ready, kn_error *error);
/* The buffer of a value in this turn; NULL for empty values and for values that no step accesses. */
kn_buffer *kn_executable_buffer(const kn_executable *executable, const kn_memory *memory,
                                const kn_value *value);
const kn_placement *kn_executable_placement(const kn_executable *executable, const kn_value *value);
/* Fill the guard areas before a run, and check them after it; do nothing without a guard. */
kn_status kn_guard_fill(const kn_executable *executable, const kn_memory *memory, kn_error *error);
kn_status kn_guard_check(const kn_executable *executable, const kn_memory *memory, kn_error *error);
/* The lines of a part's memory (print_memory.c). */
void kn_print_memory(const kn_executable *executable, kn_text *text);
void kn_executable_print(const kn_executable *executable, kn_text *text);
/* A step, and the steps it reads from. */
kn_status kn_executable_describe_step(const kn_executable *executable, size_t position, kn_plan_step *result);
/* kn_session_write_programs (write.c). */
kn_status kn_executable_write(const kn_executable *executable, const char *folder, kn_error *error);

#endif
