/* What the files of the plan room share: a plan while it is made, and a plan that runs.
 *
 * Of several devices, nodes get theirs first: mark what was bound, extend it, settle the rest (devices.c),
 * simplify the whole, cut it into a part for each device (split.c); the passes from there on run for each
 * part.
 *
 * kn_plan_make runs the passes in this order; each has a file of its name:
 *   simplify   equal nodes become one, nodes that change nothing go
 *   choose     a variant for each node that has its own kernels
 *   fuse       pointwise nodes form groups, or become epilogues
 *   order      groups in a good order; states are written after their last read
 *   layout     how each value lies in memory; conversions where a variant needs another
 *   lower      groups become steps
 *   bucket     equal small pointwise steps, such as updates, become one
 *   once       steps that depend on states alone run when these have changed
 *   place      values get memory
 *   compile    programs, kernels, arguments                                             */
#ifndef KN_PLAN_PRIVATE_H
#define KN_PLAN_PRIVATE_H

#include "plan/plan.h"

/* One unit of scheduling: a node with kernels of its own and its epilogue, or a set of pointwise nodes. */
typedef struct kn_group {
    int id;
    kn_node *anchor;           /* NULL: pointwise nodes only */
    const kn_variant *variant; /* of the anchor */
    kn_node **members;         /* pointwise nodes in order; of an anchor: its epilogue */
    int member_count, member_capacity;
    kn_shape space;                /* of a pointwise group: the shape that it walks */
    kn_layout layout;              /* of a pointwise group: how its results lie */
    bool updates;                  /* feeds an assign: runs as soon as it can */
    kn_statistics *gathers;        /* of the result of an anchored group, for others; NULL: none */
    const kn_statistics *gathered; /* of the anchor's input 0; NULL: none */
    const struct kn_group
        *before; /* makes the anchor's input 0, which the anchor's kernel does on the way; NULL: none */
    bool joined; /* it is computed by the group behind it, and has no steps */
} kn_group;

/* Where a value lives. */
typedef enum kn_home {
    KN_HOME_NONE,
    KN_HOME_SCRATCH, /* in the session's scratch blocks, shared over time */
    KN_HOME_STATE,   /* in a state's memory */
    KN_HOME_INPUT,
    KN_HOME_CONSTANT,
} kn_home;

typedef struct kn_placement {
    kn_home home;
    kn_value *root;  /* the value whose memory this one shares (itself, mostly): views, updates in place */
    uint64_t bytes;  /* of a root */
    int first, last; /* positions of the steps between which a root is alive, both included */
    int block;       /* of scratch */
    uint64_t offset;
    int slot;             /* of an input, a state or a constant: its position in the plan's list */
    bool invariant, kept; /* of scratch: written by steps that run once; and then read in each run */
} kn_placement;

/* The nodes that read a value. */
typedef struct kn_consumers {
    kn_node ***nodes; /* by value id */
    int *counts;
    size_t value_count;
} kn_consumers;

/* A plan while it is made. */
typedef struct kn_making {
    kn_context *context;
    const kn_host *host;
    kn_arena *arena;   /* the plan's: lives as long as it */
    kn_graph *graph;   /* bound, extended */
    kn_value **wanted; /* what the caller fetches; the layout pass may put a converted value in */
    size_t wanted_count;
    kn_target target;
    const char *variants;      /* forced: "matmul=tiled,…" */
    uint64_t guard;            /* bytes behind each value that stay free; values then share no memory */
    const kn_variant **chosen; /* by node id: the variant of each node with kernels of its own */
    size_t chosen_count;
    kn_group **groups; /* in order, after the order pass */
    int group_count, group_capacity;
    kn_group **group_of; /* by node id: NULL for views */
    size_t group_of_count;
    kn_consumers consumers; /* from the lower pass on */
    kn_emitter emitter;
    size_t step_group_count, step_group_capacity;
    int *step_group; /* by step: the position of its group */
    bool keeps;      /* whether there is memory to keep results in from run to run */
    bool *invariant; /* by value id, from before the choose pass: depends on nothing but states that stay */
    bool *once;      /* by step: whether it need not run again */
    int conversions;
    kn_value **shares; /* by value id: the value whose memory this one takes over, or NULL */
    int *last_read;    /* by value id, of roots: the position of the last group that reads it; -1: none */
    size_t share_count;
    kn_placement *placements; /* by value id */
    size_t placement_count;
    kn_placement *scratches; /* by the emitter's scratch number */
    uint64_t *block_bytes;   /* of scratch memory */
    int block_count, block_capacity;
    uint64_t bound_bytes; /* the most that is alive at once */
    uint64_t work;        /* elementary steps of the passes so far, for who watches how it grows */
    kn_error *error;
} kn_making;

/* ---- what is forced (choose.c): lists such as "matmul=tiled,images=blocked" ------------------- */

/* What `list` forces for a row, or for another thing of that name, and the length of it; NULL: nothing. */
const char *kn_forced(const char *list, const char *what, size_t *length);
bool kn_is_forced(const char *list, const char *what, const char *name);

/* ---- the passes ------------------------------------------------------------------------- */

kn_status kn_pass_simplify(kn_making *making);
kn_status kn_pass_choose(kn_making *making);
kn_status kn_pass_fuse(kn_making *making);
kn_status kn_pass_layout(kn_making *making);
kn_status kn_pass_order(kn_making *making);
kn_status kn_pass_lower(kn_making *making);
kn_status kn_pass_bucket(kn_making *making);
kn_status kn_pass_once(kn_making *making);
kn_status kn_pass_place(kn_making *making);

/* ---- what passes share (group.c) ------------------------------------------------------------ */

/* Calls visit for each value that a group reads from outside itself (each once), and for each that it
 * leaves for others. */
typedef void kn_visit_value(void *user, kn_value *value);
void kn_group_reads(const kn_making *making, const kn_group *group, kn_visit_value *visit, void *user);

/* From the graph as it stands. */
kn_status kn_consumers_make(kn_making *making, kn_consumers *consumers);
void kn_group_writes(const kn_making *making, const kn_consumers *consumers, const kn_group *group,
                     kn_visit_value *visit, void *user);
kn_group *kn_group_add(kn_making *making);
/* After the layout pass, too, whose nodes are of no group that is listed; NULL for those, and for views. */
kn_group *kn_group_of_node(const kn_making *making, const kn_node *node);
/* What a group with an anchor leaves as its first result: the anchor's, or the last of its epilogue. */
kn_value *kn_group_result(const kn_group *group);
bool kn_group_add_member(kn_making *making, kn_group *group, kn_node *node);
/* The value that views lead back to. */
kn_value *kn_value_root(kn_value *value);

/* ---- statistics of results (statistics.c) --------------------------------------------------------- */

/* Lets groups gather the statistics that others take of their results. */
kn_status kn_share_statistics(kn_making *making);

/* ---- nodes that others compute on the way (join.c) ------------------------------------------------------
 */

/* Lets groups compute one that they read, where their kernels can and are believed to; that comes to stand
 * right in front of them. From here on groups stay where they are. */
void kn_join_groups(kn_making *making);

/* ---- pointwise kernels (pointwise.c, epilogue.c, strides.c) -------------------------------------- */

kn_status kn_lower_pointwise(kn_making *making, kn_group *group);
/* The members of an anchored group as macros for its kernel, or, with `before`, for the kernel behind it. */
kn_status kn_make_epilogue(kn_making *making, const kn_group *group, bool before, kn_epilogue *epilogue);
/* Writes a node's expression for a compute type; `name` writes the variable that holds a value. */
kn_status kn_pointwise_write(kn_making *making, const kn_node *node, const char *type,
                             void (*name)(const void *user, const kn_value *value, kn_text *text),
                             const void *user, const char *uniform, kn_text *body);
kn_status kn_pointwise_expression(kn_making *making, const kn_node *node, kn_expression **expression);
/* The input that an expression's name x, y, z, r or g stands for, or NULL. */
kn_value *kn_pointwise_named_input(const kn_node *node, const char *name);
const char *kn_pointwise_type(kn_dtype dtype);
/* The strides, in elements, of a value's memory along the axes of a space, by the broadcasting rule; axes
 * in which it has size 1 get 0. Answers the number of axes (five in a blocked space). */
int kn_value_strides(const kn_target *target, const kn_value *value, const kn_shape *space,
                     kn_layout space_layout, int64_t sizes[KN_MAX_RANK + 1],
                     int64_t strides[KN_MAX_RANK + 1]);

/* Images of one pixel lie alike in both layouts. */
bool kn_lies_alike(const kn_value *value);

/* ---- memory (liveness.c, place.c) ------------------------------------------------------------------ */

/* Where values begin and end, by the positions of groups; lets states be updated in place. */
kn_status kn_liveness_make(kn_making *making);
/* Whether `written`, of `group`, may take over the memory of `read`, and if so makes it. */
bool kn_take_over(kn_making *making, const kn_group *group, kn_value *read, kn_value *written);
/* Bytes of a value of a bound graph; false on overflow. */
bool kn_value_bytes(const kn_value *value, uint64_t *bytes);
/* The value whose memory a value uses, through views and takeovers. */
kn_value *kn_memory_root(const kn_making *making, kn_value *value);

/* ---- several devices (devices.c, split.c, transfer.c) ------------------------------------------------- */

/* On a graph as it was bound: the device of each node, by its pin. *several: whether there is more than one,
 * pins and what lives elsewhere taken together; otherwise nothing is written. Fails where a pin names no
 * device of the context. */
kn_status kn_devices_mark(kn_context *context, const kn_states *states, kn_graph *bound, bool *several,
                          kn_error *error);
/* On the same graph once it was extended: the device of the nodes that have none yet, which is where most of
 * what they read is, and the device on which each state lives: homes, by value id, in the graph's arena. */
kn_status kn_devices_settle(kn_context *context, const kn_states *states, kn_graph *bound, int **homes,
                            kn_error *error);

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
/* Cuts a graph by the devices of its nodes: a graph for each, which may be empty. What one device makes and
 * another reads is sent by a node of the first and made by a node of the second. places, for each of values,
 * is filled in, and *transfers counted. The caller destroys the graphs, which are NULL after a failure. */
kn_status kn_cut_graph(kn_context *context, const kn_graph *whole, const int *homes, kn_value *const *values,
                       size_t count, kn_part parts[KN_CONTEXT_DEVICES], kn_part_place *places, int *transfers,
                       kn_error *error);

/* Nodes that send a value, or make one that was sent. Those of one device stand in the order in which all
 * devices together can do them: each reads a token, a value of no elements, that the one before it made
 * (NULL: the first). */
kn_value *kn_send_add(kn_graph *graph, kn_value *value, int transfer, int device, kn_value *token);
kn_value *kn_receive_add(kn_graph *graph, const kn_value *value, int transfer, int device, kn_value *token,
                         kn_value **result);
bool kn_node_is_receive(const kn_node *node);
/* Of a node that sends or receives: which transfer it is, and the device on its other side. */
int kn_transfer_of(const kn_node *node);
int kn_transfer_device(const kn_node *node);

/* once.c: which values depend on nothing but states that the graph does not write. */
kn_status kn_find_invariant(kn_making *making);
/* Lets what steps that run once leave for others live through all runs. */
void kn_once_keep(kn_making *making);

/* What the device is like, in the words of the graph room (target.c). */
void kn_target_of(kn_context *context, kn_target *target);
/* Refuses, by name, what the device cannot compute with. */
kn_status kn_check_types(const kn_context *context, const kn_graph *graph, kn_error *error);

/* ---- variants that must be seen to be right (verify.c) ---------------------------------------------- */

/* Whether a doubtful variant gave the right answer on this device; tried once and remembered. With a node,
 * a fast one has to be right enough for it. */
bool kn_variant_believed(kn_context *context, const kn_operator *row, const kn_variant *variant,
                         const kn_node *node);
/* Whether the device computes `node` rightly with `before` on the way; tried once and remembered. */
bool kn_join_believed(kn_context *context, const kn_node *node, const kn_node *before);
/* Whether the device ran the first faster than the other for nodes with sizes like these (measure.c). */
bool kn_variant_is_faster(kn_context *context, const kn_node *node, const kn_variant *variant,
                          const kn_variant *other);

#endif
