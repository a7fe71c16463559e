/* What runs: states, the memory that plans of a session share, a plan that is ready. */
#ifndef KN_RUN_PRIVATE_H
#define KN_RUN_PRIVATE_H

#include "run/run.h"

/* ---- states (states.c, initial.c) -------------------------------------------------------------- */

typedef struct kn_state {
    char *name;
    kn_tensor_info info; /* for who sets and gets it */
    kn_dtype stored;     /* in the memory of the device */
    uint64_t bytes;      /* there */
    kn_initializer initializer;
    bool asked;          /* by a plan; until then somebody has only set it */
    void *kept;          /* what it was set to, of the type of info, while it has no memory on the device */
    kn_context *context; /* where it lives; NULL until a plan has asked for it */
    kn_buffer *buffer;   /* NULL until kn_states_settle */
    uint64_t version;    /* grows with each change: whoever writes to a state's memory counts it up */
    unsigned char scalar[4]; /* what kn_session_set_scalar wrote last, */
    uint64_t scalar_version; /* and the version that it made; 0: none */
} kn_state;

/* Finds or adds the state of a bound graph's value, for plans of this context: its own, or one that was
 * joined to it. The answer stays where it is as long as the states. */
kn_status kn_states_ask(kn_states *states, kn_context *context, const kn_value *value, kn_state **state,
                        kn_error *error);
/* Whether the state may lie in the narrow type of a graph's value: it does, or nobody asked for it yet, and
 * nobody trains these states. */
bool kn_states_may_narrow(const kn_states *states, const kn_value *value);
/* The bytes that who sets and gets the state sees. */
uint64_t kn_state_outside_bytes(const kn_state *state);
/* Leaves so many bytes behind each state that gets its memory from now on. */
void kn_states_guard(kn_states *states, uint64_t guard);
/* Gives memory and first contents to all that were asked for and have none. */
kn_status kn_states_settle(kn_states *states, kn_error *error);
kn_state *kn_states_find(const kn_states *states, const char *name);
kn_states *kn_states_retain(kn_states *states);
const kn_context *kn_states_context(const kn_states *states);

/* Writes elements [first, first + count) as the initializer wants them; `key` is that of the state's stream.
 */
void kn_initial_elements(const kn_initializer *initializer, uint64_t key, kn_dtype dtype, uint64_t first,
                         uint64_t count, void *target);
/* All elements of an orthogonal one, which depend on each other. False when out of memory. */
bool kn_initial_orthogonal(const kn_host *host, const kn_initializer *initializer, uint64_t key,
                           const kn_tensor_info *info, void *target);
/* Shape and type for messages: "float32 (3,4)". */
void kn_info_text(const kn_tensor_info *info, kn_text *text);
/* The shape of a value of a bound graph. */
kn_tensor_info kn_info_of(const kn_shape *shape);

/* ---- packing (states.c, attach.c) ------------------------------------------------------------------- */

/* Lays things that live for ever one behind the other: where the next one goes. */
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

/* Scratch blocks of the largest size that a plan needs, and each input twice: one is filled while a run
 * reads the other. */
typedef struct kn_memory {
    kn_context *context;
    const kn_host *host;
    kn_buffer **blocks;
    uint64_t *block_bytes;
    int block_count;
    struct kn_input_memory {
        kn_buffer *buffers[2];
        uint64_t bytes;
        uint64_t ahead; /* bytes that the next run finds there already; 0: none */
    } * inputs;
    int input_count;
    uint64_t guard;      /* bytes behind each value */
    int turn;            /* which buffer of each input the next run takes */
    kn_event used[2];    /* the last run that read a buffer */
    uint64_t generation; /* changes with the blocks: plans then take their slices anew */
    const struct kn_executable
        *kept; /* whose results of steps that run once lie in the blocks; may be gone */
} kn_memory;

typedef struct kn_executable kn_executable;
kn_status kn_memory_init(kn_memory *memory, kn_context *context, int input_count, kn_error *error);
void kn_memory_finish(kn_memory *memory);
bool kn_memory_fits(const kn_memory *memory, const kn_executable *executable);
/* Makes it fit. All plans of the session are detached and the device is idle. */
kn_status kn_memory_grow(kn_memory *memory, const kn_executable *executable, kn_error *error);
/* Copies what is fed to an input for the next run; the data may change afterwards. */
kn_status kn_memory_feed(kn_memory *memory, int input, const void *data, uint64_t bytes, kn_error *error);
/* The same for a run that is over before the caller may change the data. */
kn_status kn_memory_feed_within(kn_memory *memory, int input, const void *data, uint64_t bytes,
                                kn_error *error);
kn_status kn_memory_feed_buffer(kn_memory *memory, int input, kn_buffer *data, uint64_t bytes,
                                kn_error *error);
/* The same while a run is under way, if there is memory for so much; otherwise nothing. */
kn_status kn_memory_feed_ahead(kn_memory *memory, int input, const void *data, uint64_t bytes,
                               kn_error *error);
/* Nothing was fed ahead. */
void kn_memory_forget_ahead(kn_memory *memory);
/* The run that was queued reads the buffers of this turn; `idle`: it is over already. */
kn_status kn_memory_next(kn_memory *memory, bool idle, kn_error *error);

/* ---- transfers between devices (exchange.c) ------------------------------------------------------------ */

/* A value on its way from one device to another: through memory of the host's, which is the plan's. */
typedef struct kn_exchange {
    kn_context *from, *to;
    void *bytes;            /* NULL until the send step is made */
    bool sent;              /* by a step that stands in the order already */
    kn_event read, written; /* when the bytes are complete, and when they are no longer needed */
} kn_exchange;

/* ---- a plan that runs (make.c, attach.c, run.c, print.c) ---------------------------------------------- */

typedef struct kn_ready_step {
    const kn_step *step;
    kn_kernel *kernel; /* of KN_STEP_KERNEL */
    kn_launch launch;
    const kn_value *source, *target; /* roots; of copies and fills */
    uint64_t bytes;
    kn_cost cost;
    bool once; /* runs when states have changed, or the memory was another plan's */
} kn_ready_step;

typedef struct kn_part_step {
    int device, step;
} kn_part_step;

/* What the steps of a run go by. */
typedef struct kn_run {
    bool kept;
    uint64_t version;
} kn_run;

/* An argument that is an input: it is set before each run. */
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
    int64_t *numbers; /* of the session's symbols; -1: none */
    size_t number_count;
    kn_value *
        *values; /* given at creation, as the passes left them; of a part: those that it makes, and more */
    kn_tensor_info *infos; /* of those given at creation */
    size_t value_count;
    /* One device: itself. Several: a plan for each of the context's, in their order, which are this one's but
     * for itself, the first. Each has its own memory, steps and states, and runs beside the others. */
    kn_executable **parts;
    int part_count;
    kn_executable *head;   /* of a part, the first included */
    kn_part_place *places; /* by the values given at creation; NULL: on the only device, in their order */
    kn_exchange *exchanges;
    int exchange_count;
    kn_part_step
        *order;     /* of several devices: all steps, each behind those that it reads; NULL: as they stand */
    int *positions; /* of a part: of its steps in that order; NULL: as they stand */
    kn_plan_info total; /* of all parts */
    kn_plan plan;
    double *pass_seconds; /* by pass; of all parts in the head */
    uint64_t guard;       /* bytes after each value */
    kn_state **state_list;
    bool *state_kept, *state_written; /* by position: read by steps that run once; written in each run */
    int state_count;
    kn_value **constants;
    int constant_count;
    uint64_t *input_bytes; /* by the session's inputs; what a run needs fed */
    bool *input_needed;
    int input_count;
    kn_ready_step *steps;
    int step_count;
    kn_switched *switched;
    int switched_count;
    kn_plan_info info;
    bool fast_math;
    uint64_t constant_bytes, input_total;
    uint64_t last_used;
    /* From kn_executable_attach on. */
    kn_buffer **constant_blocks;
    int constant_block_count;
    kn_buffer **constant_buffers;
    kn_buffer **buffers;         /* by value id: of scratch roots */
    kn_buffer **scratch_buffers; /* by the emitter's number */
    uint64_t generation;         /* of the memory it is attached to; 0: none */
    bool kept;                   /* the steps that run once have run */
    uint64_t kept_version;       /* then: the sum of the versions of the states they read */
};

/* The context's devices, and where states live (device.c). */
void kn_devices_of(kn_context *context, const kn_states *states, kn_plan_devices *devices);
/* Refuses, by name, what the device cannot compute with. */
kn_status kn_check_types(const kn_context *context, const kn_graph *graph, kn_error *error);

typedef struct kn_executable_request {
    kn_context *context;
    kn_states *states;
    const kn_graph *graph; /* the session's */
    kn_value *const *values;
    size_t value_count;
    kn_value *const *inputs; /* of the session; those of the plan are found by name */
    int input_count;
    const kn_binding *bindings; /* of the symbols that have a number */
    size_t binding_count;
    const int64_t *numbers; /* of all symbols; -1: none. They are the plan's key */
    size_t number_count;
    const kn_session_params *params;
    const kn_switches *switches; /* those of params->switches */
    uint64_t guard;
    kn_status (*extend)(void *user, kn_graph *bound, kn_value *const *values, size_t count, kn_error *error);
    void *user;
} kn_executable_request;

/* From graph to compiled steps; takes no device memory, unless the context precompiles. Where what steps that
 * run once leave does not fit into the memory that is allowed, all steps run each time. */
kn_status kn_executable_make(const kn_executable_request *request, kn_executable **executable,
                             kn_error *error);
void kn_executable_destroy(kn_executable **executable);
/* The programs of a plan's steps (programs.c). */
typedef struct kn_step_programs {
    kn_arena arena; /* the preludes */
    kn_program_request *requests;
    size_t count;
    int *program_of; /* by step: the position of its request; -1 without a kernel */
} kn_step_programs;
kn_status kn_step_programs_list(const kn_executable *executable, kn_programs programs, kn_step_programs *list,
                                kn_error *error);
void kn_step_programs_finish(kn_step_programs *list, const kn_host *host);
/* Makes the steps of the passes ready, which report their failure (ready.c). */
kn_status kn_executable_ready(kn_executable *executable, const kn_executable_request *request,
                              kn_error *error);
/* The kernel of a step, and how it is launched. */
kn_status kn_executable_make_kernel(kn_executable *executable, int step, kn_program *program,
                                    kn_error *error);
/* In place of all kernels, on a precompiling context: one of each kind is made and launched once
 * (precompile.c). */
kn_status kn_executable_precompile(kn_executable *executable, const kn_step_programs *list, kn_error *error);
/* Sets an argument of a step's kernel; `buffer` is that of a value or of scratch memory, NULL for none. */
kn_status kn_executable_set_argument(const kn_executable *executable, kn_kernel *kernel, int position,
                                     const kn_argument *argument, kn_buffer *buffer, kn_error *error);
/* Takes slices of the memory, which fits, and sets the arguments of all kernels. */
kn_status kn_executable_attach(kn_executable *executable, const kn_memory *memory, kn_error *error);
void kn_executable_detach(kn_executable *executable);
/* Queues all steps, in order: those of all parts, of which memories has one for each. */
kn_status kn_executable_run(kn_executable *executable, kn_memory *memories, kn_error *error);
/* Where a value given at creation lies, on the device of *part. */
kn_buffer *kn_executable_result(const kn_executable *executable, const kn_memory *memories, size_t value,
                                const kn_executable **part);
/* Host memory for the transfers of all parts, and the order of all steps; giving it back, when the devices
 * are idle. */
kn_status kn_exchanges_make(kn_executable *executable, kn_error *error);
void kn_exchanges_destroy(kn_executable *executable);
/* The steps that send and receive. The latter waits for the sending device. */
kn_status kn_exchange_send(const kn_executable *part, const kn_memory *memory, const kn_ready_step *ready,
                           kn_error *error);
kn_status kn_exchange_receive(const kn_executable *part, const kn_memory *memory, const kn_ready_step *ready,
                              kn_error *error);
/* Bytes of scratch memory that the context's library for matrix products wants; false where it cannot tell.
 */
bool kn_product_scratch(void *context, const kn_library_product *product, uint64_t *bytes);
/* A step that is the library's (product.c). */
kn_status kn_executable_product(const kn_executable *executable, const kn_memory *memory,
                                const kn_ready_step *ready, kn_error *error);
/* Where a value lies in this turn; NULL for values of no bytes and for constants that no step reads. */
kn_buffer *kn_executable_buffer(const kn_executable *executable, const kn_memory *memory,
                                const kn_value *value);
const kn_placement *kn_executable_placement(const kn_executable *executable, const kn_value *value);
/* The session's guard, before and after a run; nothing where it has none. */
kn_status kn_guard_lay(const kn_executable *executable, const kn_memory *memory, kn_error *error);
kn_status kn_guard_check(const kn_executable *executable, const kn_memory *memory, kn_error *error);
void kn_executable_print(const kn_executable *executable, kn_text *text);
/* One step, and which steps it reads from. */
kn_status kn_executable_tell_step(const kn_executable *executable, int position, kn_plan_step *told);

#endif
