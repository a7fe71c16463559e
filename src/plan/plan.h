/* Public header of the plan module, which turns a bound graph into steps and assigns memory. Pure functions:
 * they access only host memory passed to them, open no files, and query a device only through
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
    KN_PROGRAMS_UNSAVED, /* the same, without the disk cache */
    KN_PROGRAMS_NONE     /* nothing is compiled: plans only */
} kn_programs;

/* Whether a node is fused into its consumer if both have kernels (are not pointwise). */
typedef enum kn_producers {
    KN_PRODUCERS_VERIFIED, /* if a trial of the fused pair on the device gave the right result */
    KN_PRODUCERS_FUSED,    /* whenever a variant supports it, without a trial */
    KN_PRODUCERS_SEPARATE  /* never */
} kn_producers;

/* Whether measured choices are used. */
typedef enum kn_tuning_use {
    KN_TUNING_USED,
    KN_TUNING_OFF,
    KN_TUNING_NOTED, /* not used, and each node is recorded */
} kn_tuning_use;

enum { KN_FORCED_VARIANTS = 8, KN_WHY_NAME = 128 };

/* Settings for tests and tuning; all zero: the default. */
typedef struct kn_switches {
    bool blocked_images;      /* variants that support any layout get blocked images where possible */
    bool recompute_invariant; /* steps that depend only on states run in each run */
    bool separate_statistics; /* batch norms always compute their own statistics */
    bool separate_packs;      /* each convolution packs its own filter */
    bool separate_launches;   /* similar steps never share a launch (joint.c) */
    bool cut_launches;        /* split launches on many-thread devices along each dimension, as if slow
                               */
    int tile;        /* for matrix products on many-thread devices, where possible; 0: chosen by shape */
    kn_dtype stored; /* if not float32: store all that can be in this 16-bit type, including the caller's
                        values, */
    kn_halves stored_halves; /* but only these inputs and results of nodes with kernels */
    bool tf32;               /* as in kn_plan_request */
    kn_producers producers;
    kn_programs programs;
    kn_tuning_use tuning;
    char why[KN_WHY_NAME]; /* explain the choice of kernels for this node (kn_plan.why); "": none */
    int forced_count;
    struct {
        const kn_operator *row; /* NULL: every row; used for rows with an accepted variant of that name */
        const char *variant;    /* the variant's name */
    } forced[KN_FORCED_VARIANTS];
} kn_switches;

/* Parses "matmul=tiled,invariant=recompute"; NULL or "" gives the defaults. An unknown word or value fails
 * with KN_ERROR_NOT_FOUND and a list of valid ones. The text is not retained. */
kn_status kn_switches_parse(const char *text, kn_switches *switches, kn_error *error);

/* ---- verdicts of the device ---------------------------------------------------------------------- */

/* A node whose kernel may be chosen by measurement. */
typedef struct kn_tuning {
    const kn_node *node;
    const kn_target *target;
    bool kept; /* data prepared only from its input kn_prepared_input persists between runs */
} kn_tuning;

/* Called while variants are chosen. Each verdict comes from running something on the device and is cached;
 * the verify module implements these functions. `device` is kn_plan_request.device. */
typedef struct kn_verdict_functions {
    /* Whether a variant, with a tile (0: chosen by shape), passed a trial: a small node that compiles to the
     * same programs as this one. */
    bool (*variant_is_right)(void *device, const kn_node *node, const kn_variant *variant, int tile);
    /* Whether `node` passed a trial with `producer`, which computes its input 0, fused into it. */
    bool (*fusion_is_right)(void *device, const kn_node *node, const kn_node *producer);
    /* Whether `variant` was measured faster than `other` for nodes of about these sizes. */
    bool (*variant_is_faster)(void *device, const kn_node *node, const kn_variant *variant,
                              const kn_variant *other);
    /* The variant and tile (0: chosen by shape) that measured fastest for nodes of these shapes; NULL: not
     * measured. */
    const kn_variant *(*tuned)(void *device, const kn_tuning *tuning, int *tile);
    /* With the switch tuning=noted: reports a node and the variant used for it. */
    void (*note)(void *device, const kn_tuning *tuning, const kn_variant *chosen);
} kn_verdict_functions;

/* ---- a plan (planner.c) ---------------------------------------------------------------------- */

/* The storage class of a value. */
typedef enum kn_storage {
    KN_STORAGE_NONE,
    KN_STORAGE_SCRATCH, /* in the session's scratch blocks, reused during a run */
    KN_STORAGE_STATE,   /* in a state's memory */
    KN_STORAGE_INPUT,
    KN_STORAGE_CONSTANT,
} kn_storage;

typedef struct kn_placement {
    kn_storage storage;
    kn_value *root;  /* the value whose memory this value uses: usually itself; differs for views and in-place
                        updates */
    uint64_t bytes;  /* of a root */
    int first, last; /* of a root: positions of the first and last step that access it; -1: none */
    int block;       /* index of a scratch block */
    uint64_t offset;
    int slot;       /* index of an input, state or constant in the executable's list */
    bool invariant; /* of scratch: written only by steps that run once */
    bool kept;      /* of invariant scratch: read in each run, so its memory is not reused */
} kn_placement;

/* Recomputed groups, whose results need no memory in between (recompute.c). */
typedef struct kn_repeats {
    uint64_t live_bytes; /* peak bytes of live values, as counted by the recompute pass */
    int count;           /* recomputed kernels and fused groups */
    double flops;        /* FLOP of the recomputed groups */
} kn_repeats;

/* Steps in order, and the memory of their values. */
typedef struct kn_plan {
    kn_step **steps;
    bool *once; /* by step: runs again only after a state that it depends on has changed */
    int step_count;
    kn_placement *placements; /* by value id */
    size_t placement_count;
    kn_placement *scratches; /* by scratch number */
    int scratch_count;
    uint64_t *block_bytes; /* of scratch blocks */
    int block_count;
    uint64_t bound_bytes; /* lower bound: the maximum scratch memory in use at any step */
    int conversions;      /* number of layout conversions */
    kn_repeats repeats;
    const char *why; /* with switch `why`: lines about the choice of the node's kernels; otherwise NULL */
    uint64_t work; /* elementary operations of all passes, to test how planning time scales with the graph */
} kn_plan;

typedef struct kn_plan_request {
    kn_arena *arena;   /* the plan is allocated here */
    kn_graph *graph;   /* bound, with gradients and updates; the passes change it */
    kn_value **wanted; /* values that the caller fetches; simplification may replace them by equal values */
    size_t wanted_count;
    const kn_target *target; /* must outlive the call */
    const kn_switches *switches;
    const kn_verdict_functions *verdicts; /* NULL: every verdict is false */
    void *device;                         /* passed to the verdict functions */
    uint64_t guard; /* unused bytes after each value; if not 0, values share no memory */
    kn_dtype
        precision; /* KN_FLOAT16, KN_BFLOAT16: the type that results may be stored in; otherwise float32 */
    bool tf32;     /* matrix units may multiply float32 rounded to TF32 (10 bits of mantissa) */
    uint64_t live_bytes; /* target for kn_repeats.live_bytes; 0: no limit, and live bytes are not counted;
                            UINT64_MAX: no limit */
    bool keeps;          /* results of steps that run once may persist in memory */
    double *seconds;     /* time by pass, added to; NULL: not measured */
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

/* Sets the device of each node of a bound graph from its pin. *several: whether pins, or states that are
 * already on another device, require more than one device; if not, no device is set. Fails if a pin names an
 * unknown device. */
kn_status kn_devices_mark(const kn_plan_devices *devices, kn_graph *bound, bool *several, kn_error *error);
/* On the same graph after gradients and updates were added: assigns nodes without a device to the device with
 * most bytes of their inputs, and assigns a device to each state. *homes is by value id, in the graph's
 * arena. */
kn_status kn_devices_assign(const kn_plan_devices *devices, kn_graph *bound, int **homes, kn_error *error);

/* What one device computes. */
typedef struct kn_part {
    kn_graph *graph;
    kn_value **wanted; /* in the graph's arena */
    size_t wanted_count;
} kn_part;
/* Where to fetch a wanted value of the whole graph: the device, and the index in its part's `wanted`. */
typedef struct kn_part_place {
    int device;
    size_t position;
} kn_part_place;
/* Simplifies a graph and splits it by device into one graph each, which may be empty. A value computed on one
 * device and read on another is sent by a node of the first graph and received by a node of the second. Fills
 * in `places`, one per value in `values`, and counts *transfers. The caller destroys the graphs, which are
 * NULL after a failure. */
kn_status kn_cut_graph(kn_graph *whole, const int *homes, kn_value **values, size_t count, int devices,
                       kn_part parts[KN_CONTEXT_MAX_DEVICES], kn_part_place *places, int *transfers,
                       kn_error *error);
/* For a send or receive node: the number of its transfer, and the peer device. */
int kn_transfer_of(const kn_node *node);
int kn_transfer_device(const kn_node *node);

/* ---- sums over data-parallel workers (total.c) ---------------------------------------------------- */

/* How a sum or a gathered value is distributed over workers, and when. */
typedef struct kn_sharing {
    int spread; /* of a sum: where its shards go; of a gathered value: where its shards come from
                   (kn_spread_first) */
    int round;  /* values of one round do not depend on one another: they may share a message */
} kn_sharing;
/* Adds nodes that sum a value over all workers, each of which has `count` sums of shards (kn_subtrees), all
 * of one shape and of type float32, float16 or bfloat16, to which each intermediate sum is rounded. The
 * result has that shape if this worker (of `shards`) gets the whole sum, (0,...) if it gets nothing, and (n)
 * if it gets a slice of n elements. *token orders these nodes in a graph: NULL before the first. */
kn_value *kn_total_add(kn_graph *graph, kn_value *const *sums, int count, const kn_sharing *sharing,
                       const kn_shards *shards, kn_value **token);
/* Adds nodes that gather a float32 value of `shape` from the workers' shards; own: this worker's shard, NULL:
 * none. old: the previous value, which the result keeps in runs without an exchange (a state may be updated
 * in place); NULL: the result is undefined in these runs. */
kn_value *kn_gather_add(kn_graph *graph, kn_value *own, kn_value *old, const kn_shape *shape,
                        const kn_sharing *sharing, kn_value **token);
/* What a share, total or gather node moves; false for other nodes. */
typedef struct kn_shared_value {
    kn_sharing sharing;
    bool gathers;
    const kn_node *share; /* the share node of this worker; NULL: it has no shard */
    uint64_t elements;    /* of the whole value */
    kn_dtype dtype;
} kn_shared_value;
bool kn_shared_value_of(const kn_node *node, kn_shared_value *value);

/* ---- states in host memory (host.c) -------------------------------------------------------------------- */

/* Keeps a state of a bound graph in host memory, and adds the node that loads it to the device, after the
 * values `after` and `also_after` (or NULL) have been computed. The result replaces the state for its
 * readers; values assigned to the state are stored in host memory. */
kn_value *kn_load_add(kn_graph *graph, kn_value *state, kn_value *after, kn_value *also_after);

/* ---- values -------------------------------------------------------------------------------------------- */

/* Size of a value of a bound graph in bytes; false on overflow. */
bool kn_value_bytes(const kn_value *value, uint64_t *bytes);

/* ---- placing intervals (intervals.c) --------------------------------------------------------- */

/* Memory in use from step `first` to step `last`, inclusive. */
typedef struct kn_interval {
    uint64_t bytes;
    int first, last;
    int block; /* the result, with offset */
    uint64_t offset;
} kn_interval;
/* Assigns each interval a block and an offset, searching for a small total size; no block exceeds `limit`.
 * *block_bytes is in the arena. Fails if an interval exceeds the limit; *culprit is then its index. Adds
 * elementary operations to *work. */
kn_status kn_intervals_place(kn_arena *arena, kn_interval *intervals, int count, uint64_t alignment,
                             uint64_t limit, uint64_t **block_bytes, int *block_count, int *culprit,
                             uint64_t *work, kn_error *error);
/* The maximum bytes in use at any step, with each interval rounded up to the alignment. 0 when out of
 * memory. */
uint64_t kn_intervals_bound(const kn_host *host, const kn_interval *intervals, int count, uint64_t alignment);

#endif
