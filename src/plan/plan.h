/* The door of the plan room: from a bound graph to steps with memory. Pure functions: they read and write the
 * host memory that they are given, open nothing, and ask a device nothing but through kn_judge. */
#ifndef KN_PLAN_DOOR_H
#define KN_PLAN_DOOR_H

#include <koine/context.h>

#include "graph/graph.h"

/* ---- switches (switches.c) ----------------------------------------------------------------------------- */

/* How programs are compiled. */
typedef enum kn_programs {
    KN_PROGRAMS_KERNEL,  /* a program holds one kernel of its file */
    KN_PROGRAMS_FILE,    /* all kernels of its file */
    KN_PROGRAMS_UNSAVED, /* the same, and the disk cache does not keep it */
    KN_PROGRAMS_NONE     /* there are none: plans only */
} kn_programs;

/* Whether a node is fused into its consumer where both have kernels of their own. */
typedef enum kn_producers {
    KN_PRODUCERS_VERIFIED, /* where the device computed the fused pair right */
    KN_PRODUCERS_FUSED,    /* wherever a variant can, unverified */
    KN_PRODUCERS_SEPARATE  /* nowhere */
} kn_producers;

enum { KN_FORCED_VARIANTS = 8 };

/* What tests and tuning force; all zero is the default. */
typedef struct kn_switches {
    bool blocked_images;      /* variants that take any layout get blocked images where possible */
    bool recompute_invariant; /* steps that depend on states alone run in each run */
    bool separate_statistics; /* a batch norm reads its input for the statistics itself */
    kn_producers producers;
    kn_programs programs;
    int forced_count;
    struct {
        const kn_operator *row; /* NULL: preferred for every row that has an accepted variant of that name */
        const char *variant;    /* as the row calls it */
    } forced[KN_FORCED_VARIANTS];
} kn_switches;

/* Reads "matmul=tiled,invariant=recompute"; NULL or "" gives the defaults. An unknown word or value fails
 * with KN_ERROR_NOT_FOUND and lists those that exist. Nothing of the text is kept. */
kn_status kn_switches_parse(const char *text, kn_switches *switches, kn_error *error);

/* ---- what only the device can tell --------------------------------------------------------------------- */

/* Asked while kernels are chosen. Each answer is found by running something on the device, and remembered;
 * the verify room gives them. `device` is kn_plan_request.device. */
typedef struct kn_judge {
    /* Whether a doubtful variant computed the row's case right; with a node, whether a variant with a larger
     * error is accurate enough for that node. */
    bool (*variant_is_right)(void *device, const kn_operator *row, const kn_variant *variant,
                             const kn_node *node);
    /* Whether `node` computed right with `producer`, which makes its input 0, fused into it. */
    bool (*fusion_is_right)(void *device, const kn_node *node, const kn_node *producer);
    /* Whether `variant` ran faster than `other` for nodes of sizes like these. */
    bool (*variant_is_faster)(void *device, const kn_node *node, const kn_variant *variant,
                              const kn_variant *other);
} kn_judge;

/* ---- a plan (planner.c) ---------------------------------------------------------------------- */

/* The storage class of a value. */
typedef enum kn_home {
    KN_HOME_NONE,
    KN_HOME_SCRATCH, /* in the session's scratch blocks, shared over time */
    KN_HOME_STATE,   /* in a state's memory */
    KN_HOME_INPUT,
    KN_HOME_CONSTANT,
} kn_home;

typedef struct kn_placement {
    kn_home home;
    kn_value *root;  /* the value whose memory this one uses (itself, mostly): views, updates in place */
    uint64_t bytes;  /* of a root */
    int first, last; /* positions of the first and the last step that touches a root; -1: none */
    int block;       /* of scratch */
    uint64_t offset;
    int slot;             /* of an input, a state or a constant: its position in the executable's list */
    bool invariant, kept; /* of scratch: written by steps that run once; and then read in each run */
} kn_placement;

/* Steps in order, and where their values lie. */
typedef struct kn_plan {
    kn_step **steps;
    bool *once; /* by step: it need not run again while the states that it depends on stay as they are */
    int step_count;
    kn_placement *placements; /* by value id */
    size_t placement_count;
    kn_placement *scratches; /* by number of scratch memory */
    int scratch_count;
    uint64_t *block_bytes; /* of scratch blocks */
    int block_count;
    uint64_t bound_bytes; /* the most scratch memory that is in use at once */
    int conversions;      /* between layouts */
    uint64_t work;        /* elementary steps of all passes, to see how planning grows with the graph */
} kn_plan;

typedef struct kn_plan_request {
    kn_arena *arena;   /* holds the plan */
    kn_graph *graph;   /* bound and extended; the passes change it */
    kn_value **wanted; /* what the caller fetches; may be replaced by values that stand for them */
    size_t wanted_count;
    const kn_target *target; /* lives as long as the call */
    const kn_switches *switches;
    const kn_judge *judge; /* NULL: doubtful variants are believed, no measured one is taken */
    void *device;          /* handed to the verdicts */
    uint64_t guard;        /* bytes after each value that stay free; values then share no memory */
    bool keeps;            /* there is memory to keep results of steps that run once */
    double *seconds;       /* by pass: the time that it took is added; NULL: not wanted */
} kn_plan_request;

/* Runs all passes. */
kn_status kn_plan_make(const kn_plan_request *request, kn_plan *plan, kn_error *error);
/* The names of the passes, in order; NULL after the last. */
const char *kn_plan_pass_name(int position);
extern const int kn_plan_pass_count;

/* ---- several devices (devices.c, split.c, transfer.c) ------------------------------------------------- */

typedef struct kn_plan_devices {
    const kn_host *host;
    int count;
    const char *names[KN_CONTEXT_DEVICES]; /* as pins name them; the first is the context's own */
    /* The device on which a state has its memory already; -1: none yet. */
    int (*home)(const void *user, const kn_value *state);
    const void *user;
} kn_plan_devices;

/* On a bound graph: the device of each node, by its pin. *several: whether there is more than one, pins and
 * states that live elsewhere taken together; otherwise nothing is written. Fails where a pin names no device.
 */
kn_status kn_devices_mark(const kn_plan_devices *devices, kn_graph *bound, bool *several, kn_error *error);
/* On the same graph once it was extended: the device of the nodes that have none yet, which is where most of
 * what they read is, and the device on which each state lives: homes, by value id, in the graph's arena. */
kn_status kn_devices_settle(const kn_plan_devices *devices, kn_graph *bound, int **homes, kn_error *error);

/* What one device has to compute. */
typedef struct kn_part {
    kn_graph *graph;
    kn_value **wanted; /* in the graph's arena */
    size_t wanted_count;
} kn_part;
/* Where a value of the whole is: on which device, and which of the wanted of its part. */
typedef struct kn_part_place {
    int device;
    size_t position;
} kn_part_place;
/* Simplifies a graph and cuts it by the devices of its nodes: a graph for each device, which may be empty. A
 * value that one device makes and another reads is sent by a node of the first and made by a node of the
 * second. places, for each of values, is filled in, and *transfers counted. The caller destroys the graphs,
 * which are NULL after a failure. */
kn_status kn_cut_graph(kn_graph *whole, const int *homes, kn_value **values, size_t count, int devices,
                       kn_part parts[KN_CONTEXT_DEVICES], kn_part_place *places, int *transfers,
                       kn_error *error);
/* Of a node that sends or receives: which transfer it is, and the device on its other side. */
int kn_transfer_of(const kn_node *node);
int kn_transfer_device(const kn_node *node);

/* ---- values -------------------------------------------------------------------------------------------- */

/* Bytes of a value of a bound graph; false on overflow. */
bool kn_value_bytes(const kn_value *value, uint64_t *bytes);
/* The value that views lead back to. */
kn_value *kn_value_root(kn_value *value);

/* ---- placing intervals (intervals.c) --------------------------------------------------------- */

/* Memory in use during steps first to last, both included. */
typedef struct kn_interval {
    uint64_t bytes;
    int first, last;
    int block; /* the answer */
    uint64_t offset;
} kn_interval;
/* Places all in as little memory as can be found, no block above `limit`. block_bytes is in the arena. Fails
 * where an interval is above the limit; *culprit then is its position. *work counts elementary steps. */
kn_status kn_intervals_place(kn_arena *arena, kn_interval *intervals, int count, uint64_t alignment,
                             uint64_t limit, uint64_t **block_bytes, int *block_count, int *culprit,
                             uint64_t *work, kn_error *error);
/* The most that is in use at once, each rounded up to the alignment. 0 when out of memory. */
uint64_t kn_intervals_bound(const kn_host *host, const kn_interval *intervals, int count, uint64_t alignment);

#endif
