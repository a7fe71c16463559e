/* The door of the plan room: turns a bound graph into steps with memory. Pure functions: they read and write
 * only the host memory that they are given, open nothing, and query a device only through
 * kn_verdict_functions. */
#ifndef KN_PLAN_DOOR_H
#define KN_PLAN_DOOR_H

#include <koine/context.h>

#include "graph/graph.h"

/* ---- switches (switches.c) ----------------------------------------------------------------------------- */

/* How kernels are grouped into OpenCL programs. */
typedef enum kn_programs {
    KN_PROGRAMS_KERNEL,  /* a program contains one kernel of its file */
    KN_PROGRAMS_FILE,    /* a program contains all kernels of its file */
    KN_PROGRAMS_UNSAVED, /* the same, and it is not stored in the disk cache */
    KN_PROGRAMS_NONE     /* nothing is compiled: plans only */
} kn_programs;

/* Whether a node is fused into its consumer where both have kernels (are not pointwise). */
typedef enum kn_producers {
    KN_PRODUCERS_VERIFIED, /* where a trial of the fused pair on the device gave the right result */
    KN_PRODUCERS_FUSED,    /* wherever a variant can, without a trial */
    KN_PRODUCERS_SEPARATE  /* nowhere */
} kn_producers;

/* Whether choices that were measured are used. */
typedef enum kn_tuning_use {
    KN_TUNING_USED,
    KN_TUNING_OFF,
    KN_TUNING_NOTED, /* nor are they, and the judge notes each node */
} kn_tuning_use;

enum { KN_FORCED_VARIANTS = 8 };

/* What tests and tuning force; all zero: the default. */
typedef struct kn_switches {
    bool blocked_images;      /* variants that take any layout get blocked images where possible */
    bool recompute_invariant; /* steps that depend on states alone run in each run */
    bool separate_statistics; /* a batch norm always computes its statistics itself */
    bool cut_launches; /* launches for many threads are cut along each dimension, as if they were long */
    int tile;        /* of matrix products with many threads, where it is possible; 0: chosen by the shape */
    kn_dtype stored; /* if not float32: what may be stored in this 16-bit type is, of the caller too, */
    kn_halves stored_halves; /* but only these inputs and results of nodes with kernels */
    bool tf32;               /* as that of a request */
    kn_producers producers;
    kn_programs programs;
    kn_tuning_use tuning;
    int forced_count;
    struct {
        const kn_operator *row; /* NULL: every row; used where the row has an accepted variant of that name */
        const char *variant;    /* its name in the row */
    } forced[KN_FORCED_VARIANTS];
} kn_switches;

/* Reads "matmul=tiled,invariant=recompute"; NULL or "" gives the defaults. An unknown word or value fails
 * with KN_ERROR_NOT_FOUND and a list of those that exist. The text is not kept. */
kn_status kn_switches_parse(const char *text, kn_switches *switches, kn_error *error);

/* ---- verdicts of the device ---------------------------------------------------------------------- */

/* A node whose kernel may be chosen by measurements. */
typedef struct kn_tuning {
    const kn_node *node;
    const kn_target *target;
    bool kept; /* what is prepared from its last input alone is kept from run to run */
} kn_tuning;

/* Called while variants are chosen. Each verdict comes from running something on the device and is
 * remembered; the verify room implements these functions. `device` is kn_plan_request.device. */
typedef struct kn_verdict_functions {
    /* Whether a variant passed a trial: a doubtful one its row's or, if it has one, the node's trial case;
     * one that is not doubtful, with many threads, or with a tile (0: chosen by the shape), a small node of
     * the same programs as this one. */
    bool (*variant_is_right)(void *device, const kn_operator *row, const kn_variant *variant,
                             const kn_node *node, int tile);
    /* Whether `node` passed a trial with `producer`, which computes its input 0, fused into it. */
    bool (*fusion_is_right)(void *device, const kn_node *node, const kn_node *producer);
    /* Whether `variant` was measured faster than `other` for nodes of about these sizes. */
    bool (*variant_is_faster)(void *device, const kn_node *node, const kn_variant *variant,
                              const kn_variant *other);
    /* The variant and the tile (0: chosen by the shape) that were measured to be the fastest for nodes of
     * these shapes; NULL: none is known. */
    const kn_variant *(*tuned)(void *device, const kn_tuning *tuning, int *tile);
    /* With the switch tuning=noted: a node, and the variant that is used for it. */
    void (*note)(void *device, const kn_tuning *tuning, const kn_variant *chosen);
} kn_verdict_functions;

/* ---- a plan (planner.c) ---------------------------------------------------------------------- */

/* The storage class of a value. */
typedef enum kn_storage {
    KN_STORAGE_NONE,
    KN_STORAGE_SCRATCH, /* in the session's scratch blocks, reused over time */
    KN_STORAGE_STATE,   /* in a state's memory */
    KN_STORAGE_INPUT,
    KN_STORAGE_CONSTANT,
} kn_storage;

typedef struct kn_placement {
    kn_storage storage;
    kn_value *root;  /* the value whose memory this one uses: usually itself; differs for views and in-place
                        updates */
    uint64_t bytes;  /* of a root */
    int first, last; /* of a root: positions of the first and last step that access it; -1: none */
    int block;       /* of scratch */
    uint64_t offset;
    int slot;       /* of an input, a state or a constant: its position in the executable's list */
    bool invariant; /* of scratch: written only by steps that run once */
    bool kept;      /* of invariant scratch: read in each run, so nothing else uses its memory */
} kn_placement;

/* What runs again so that its results need no memory in between (recompute.c). */
typedef struct kn_repeats {
    uint64_t live_bytes; /* the most bytes of values that are live at a time, as that pass counts them */
    int count;           /* of kernels and fused groups that run again */
    double flops;        /* of them */
} kn_repeats;

/* Steps in order, and the memory of their values. */
typedef struct kn_plan {
    kn_step **steps;
    bool *once; /* by step: it need not run again until a state that it depends on changes */
    int step_count;
    kn_placement *placements; /* by value id */
    size_t placement_count;
    kn_placement *scratches; /* by scratch number */
    int scratch_count;
    uint64_t *block_bytes; /* of scratch blocks */
    int block_count;
    uint64_t bound_bytes; /* a lower bound: the most scratch memory in use at any step */
    int conversions;      /* number of layout conversions */
    kn_repeats repeats;
    uint64_t work; /* elementary operations of all passes, to test how planning scales with the graph */
} kn_plan;

typedef struct kn_plan_request {
    kn_arena *arena;   /* the plan is allocated here */
    kn_graph *graph;   /* bound and extended; the passes change it */
    kn_value **wanted; /* what the caller fetches; simplification may replace them by equal values */
    size_t wanted_count;
    const kn_target *target; /* must outlive the call */
    const kn_switches *switches;
    const kn_verdict_functions *verdicts; /* NULL: every verdict is false */
    void *device;                         /* passed to the judge's functions */
    uint64_t guard;      /* unused bytes after each value; if not 0, values share no memory */
    kn_dtype precision;  /* KN_FLOAT16, KN_BFLOAT16: the type that results may be stored in; else float32 */
    bool tf32;           /* matrix units may multiply float32 rounded to 10 bits of mantissa */
    uint64_t live_bytes; /* the most that kn_repeats.live_bytes should be; 0: any, and it is not counted;
                            UINT64_MAX: any */
    bool keeps;          /* results of steps that run once may be kept in memory */
    double *seconds;     /* by pass: its time is added; NULL: not measured */
} kn_plan_request;

/* Runs all passes. */
kn_status kn_plan_make(const kn_plan_request *request, kn_plan *plan, kn_error *error);
/* The names of the passes in order; NULL after the last. */
const char *kn_plan_pass_name(size_t position);
extern const int kn_plan_pass_count;

/* ---- several devices (devices.c, split.c, transfer.c) ------------------------------------------------- */

typedef struct kn_plan_devices {
    const kn_host *host;
    int count;
    const char
        *names[KN_CONTEXT_MAX_DEVICES]; /* as used in pins; the first is the context's primary device */
    /* The device on which a state already has memory; -1: none yet. */
    int (*home)(const void *user, const kn_value *state);
    const void *user;
} kn_plan_devices;

/* Sets the device of each node of a bound graph from its pin. *several: whether pins, or states that already
 * are on another device, need more than one device; if not, no device is set. Fails where a pin names no
 * device. */
kn_status kn_devices_mark(const kn_plan_devices *devices, kn_graph *bound, bool *several, kn_error *error);
/* On the same graph after gradients and updates were added: sets the device of the nodes that have none yet,
 * which is the one that has most bytes of their inputs, and the device of each state. *homes is by value id,
 * in the graph's arena. */
kn_status kn_devices_assign(const kn_plan_devices *devices, kn_graph *bound, int **homes, kn_error *error);

/* What one device computes. */
typedef struct kn_part {
    kn_graph *graph;
    kn_value **wanted; /* in the graph's arena */
    size_t wanted_count;
} kn_part;
/* Where to fetch a wanted value of the whole graph: the device, and the position in its part's `wanted`. */
typedef struct kn_part_place {
    int device;
    size_t position;
} kn_part_place;
/* Simplifies a graph and splits it by the devices of its nodes into one graph for each device, which may be
 * empty. A value computed on one device and read on another is sent by a node of the first graph and received
 * by a node of the second. Fills in places, one for each of `values`, and counts *transfers. The caller
 * destroys the graphs, which are NULL after a failure. */
kn_status kn_cut_graph(kn_graph *whole, const int *homes, kn_value **values, size_t count, int devices,
                       kn_part parts[KN_CONTEXT_MAX_DEVICES], kn_part_place *places, int *transfers,
                       kn_error *error);
/* Of a send or receive node: the number of its transfer, and the device at the other end. */
int kn_transfer_of(const kn_node *node);
int kn_transfer_device(const kn_node *node);

/* ---- sums over the workers of a training (total.c) ---------------------------------------------------- */

/* What a worker gets of a sum or a gathered value, and when. */
typedef struct kn_sharing {
    int spread; /* of a sum: where it goes; of a gathered value: where its parts come from (kn_spread_first)
                 */
    int round;  /* values of one round do not depend on one another: several may travel together */
} kn_sharing;
/* Adds nodes that make the sum of a value over all workers, each of which has `count` sums of shards
 * (kn_subtrees), all of one shape, in float32, float16 or bfloat16: each sum of two is rounded to it. The
 * result has that shape where this worker (of `shards`) gets all of it, (0,...) where it gets nothing, and
 * (n) with the n elements of its slice. *token orders these nodes of a graph: NULL before the first. */
kn_value *kn_total_add(kn_graph *graph, kn_value *const *sums, int count, const kn_sharing *sharing,
                       const kn_shards *shards, kn_value **token);
/* Adds nodes that make a float32 value of `shape` from the parts that workers have of it; own: that of this
 * one, NULL: none. old: the value before, which the result keeps in runs without an exchange (a state may be
 * updated in place); NULL: then the result is undefined. */
kn_value *kn_gather_add(kn_graph *graph, kn_value *own, kn_value *old, const kn_shape *shape,
                        const kn_sharing *sharing, kn_value **token);
/* What a share, total or gather node moves; false for others. */
typedef struct kn_shared_value {
    kn_sharing sharing;
    bool gathers;
    const kn_node *share; /* the share node of this worker; NULL: it has no part */
    uint64_t elements;    /* of the whole value */
    kn_dtype dtype;
} kn_shared_value;
bool kn_shared_value_of(const kn_node *node, kn_shared_value *value);

/* ---- states in host memory (host.c) -------------------------------------------------------------------- */

/* Lets a state of a bound graph wait in host memory, and adds the node that brings it to the device, once the
 * values `after` and `also_after` are there, unless NULL. The result takes the place of the state for those
 * that read it; what is assigned to the state goes to host memory. */
kn_value *kn_load_add(kn_graph *graph, kn_value *state, kn_value *after, kn_value *also_after);

/* ---- values -------------------------------------------------------------------------------------------- */

/* Size of a value of a bound graph in bytes; false on overflow. */
bool kn_value_bytes(const kn_value *value, uint64_t *bytes);

/* ---- placing intervals (intervals.c) --------------------------------------------------------- */

/* Memory in use from step `first` to step `last`, both included. */
typedef struct kn_interval {
    uint64_t bytes;
    int first, last;
    int block; /* the result, with offset */
    uint64_t offset;
} kn_interval;
/* Assigns each interval a block and an offset, searching for a small total size; no block exceeds `limit`.
 * *block_bytes is in the arena. Fails where an interval exceeds the limit; *culprit is then its position.
 * Adds elementary operations to *work. */
kn_status kn_intervals_place(kn_arena *arena, kn_interval *intervals, int count, uint64_t alignment,
                             uint64_t limit, uint64_t **block_bytes, int *block_count, int *culprit,
                             uint64_t *work, kn_error *error);
/* The most bytes in use at any step, each interval rounded up to the alignment. 0 when out of memory. */
uint64_t kn_intervals_bound(const kn_host *host, const kn_interval *intervals, int count, uint64_t alignment);

#endif
