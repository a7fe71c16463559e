/* What the passes share: groups of nodes and the state of the planner.
 *
 * kn_plan_make (planner.c) runs the passes in the order of its table, which lists what each one reads and
 * writes. Each pass is in the file with its name. */
#ifndef KN_PLAN_PRIVATE_H
#define KN_PLAN_PRIVATE_H

#include "plan/plan.h"

/* The unit of scheduling: an anchor (a node with kernels) and its epilogue; or a set of pointwise nodes. */
typedef struct kn_group {
    int id;
    kn_node *anchor;           /* NULL: a pointwise group */
    const kn_variant *variant; /* of the anchor */
    int tile;                  /* of the anchor, tuned; 0: chosen by shape */
    bool tuned;                /* the anchor's variant and tile were chosen by measurement */
    kn_node **members;         /* pointwise nodes in graph order; with an anchor: its epilogue */
    int member_count, member_capacity;
    kn_value *
        between; /* result of the anchor or of a member other than the last that is also stored; NULL: none */
    kn_node *summed;        /* a sum over the anchor's input 0 that its kernel also computes; NULL: none */
    kn_shape space;         /* of a pointwise group: the shape of its results */
    kn_layout layout;       /* of a pointwise group: the layout of its results */
    bool updates;           /* computes the new value of a state: scheduled early */
    kn_statistics *gathers; /* statistics of the result that this group's kernel collects; NULL: none */
    const kn_statistics
        *gathered; /* statistics of the anchor's input 0, collected by its producer; NULL: none */
    const struct kn_group *producer; /* computes the anchor's input 0, fused into this group; NULL: none */
    bool fused;                      /* into its consumer's group: has no steps */
} kn_group;

/* How a node is computed. */
typedef struct kn_chosen {
    const kn_variant *variant; /* NULL: it has no kernels */
    int tile;                  /* tuned (kn_product_tile_name); 0: chosen by shape */
    bool tuned;
} kn_chosen;

/* The nodes that read a value. */
typedef struct kn_consumers {
    kn_node ***nodes; /* by value id */
    int *counts;
    size_t value_count;
} kn_consumers;

/* The state of the passes. */
typedef struct kn_planner {
    /* The request. Passes read it and change graph and wanted. */
    const kn_plan_request *request;
    const kn_host *host;
    kn_arena *arena;
    kn_graph *graph;
    kn_value **wanted;
    size_t wanted_count;
    const kn_target *target;
    const kn_switches *switches;
    kn_error *error;
    uint64_t work; /* elementary operations of the passes so far */
    /* Results of passes; planner.c lists which passes write and read each. */
    bool *invariant; /* by value id: depends only on constants and on states that the graph does not write */
    bool keeps_widened; /* results larger than their inputs may be invariant */
    kn_chosen *chosen;  /* by node id */
    bool plain_images;  /* on a many-thread device, no variant that reads blocked images was allowed */
    char *why;          /* kn_plan.why */
    kn_consumers consumers;
    kn_group **groups; /* in order, after the order pass */
    int group_count, group_capacity;
    kn_group **group_of; /* by node id: NULL for views */
    size_t group_of_count;
    int conversions;
    kn_repeats repeats;
    kn_value **aliases; /* by value id: the value whose memory this one reuses, or NULL */
    int *last_read;     /* by value id, of roots: the position of the last group that reads it; -1: none */
    size_t alias_count;
    kn_emitter emitter;
    int *step_group; /* by step: the index of its group */
    size_t step_group_count, step_group_capacity;
    bool *once;               /* by step: runs again only after a state has changed */
    kn_placement *placements; /* by value id */
    size_t placement_count;
    kn_placement *scratches; /* by the emitter's scratch id */
    uint64_t *block_bytes;   /* of scratch memory */
    int block_count;
    uint64_t bound_bytes;
} kn_planner;

/* ---- the passes ------------------------------------------------------------------------- */

/* Fields through which passes communicate. */
enum {
    KN_FIELD_GRAPH = 1 << 0,     /* nodes and their inputs; wanted */
    KN_FIELD_INVARIANT = 1 << 1, /* invariant, keeps_widened */
    KN_FIELD_CHOSEN = 1 << 2,    /* chosen, and the nodes' compute types */
    KN_FIELD_CONSUMERS = 1 << 3, /* consumers */
    KN_FIELD_GROUPS = 1 << 4,    /* groups, group_of */
    KN_FIELD_LAYOUTS = 1 << 5,   /* the layout of each value; conversions */
    KN_FIELD_ALIASES = 1 << 6,   /* aliases, last_read */
    KN_FIELD_STEPS = 1 << 7,     /* emitter, step_group */
    KN_FIELD_ONCE = 1 << 8,      /* once */
    KN_FIELD_PLACES = 1 << 9,    /* placements, scratches, blocks */
    KN_FIELD_REPEATS = 1 << 10,  /* repeats */
};

typedef struct kn_pass {
    const char *name;
    kn_status (*run)(kn_planner *planner);
    unsigned reads, writes; /* bit sets of KN_FIELD_ */
} kn_pass;
extern const kn_pass kn_passes[];

/* The members of kn_planner that belong to a field, for the test of the table. */
typedef struct kn_pass_field {
    unsigned field;
    size_t offset, bytes;
} kn_pass_field;
extern const kn_pass_field kn_pass_fields[];
extern const int kn_pass_field_count;

void kn_planner_init(kn_planner *planner, const kn_plan_request *request, kn_error *error);
void kn_planner_finish(kn_planner *planner);

kn_status kn_pass_widen(kn_planner *planner);
kn_status kn_pass_substitute(kn_planner *planner);
kn_status kn_pass_simplify(kn_planner *planner);
kn_status kn_pass_precision(kn_planner *planner);
kn_status kn_pass_invariant(kn_planner *planner);
kn_status kn_pass_choose(kn_planner *planner);
kn_status kn_pass_consumers(kn_planner *planner);
kn_status kn_pass_fuse(kn_planner *planner);
kn_status kn_pass_order(kn_planner *planner);
kn_status kn_pass_layout(kn_planner *planner);
kn_status kn_pass_statistics(kn_planner *planner);
kn_status kn_pass_producers(kn_planner *planner);
kn_status kn_pass_recompute(kn_planner *planner);
kn_status kn_pass_liveness(kn_planner *planner);
kn_status kn_pass_lower(kn_planner *planner);
kn_status kn_pass_pairs(kn_planner *planner);
kn_status kn_pass_joint(kn_planner *planner);
kn_status kn_pass_sums(kn_planner *planner);
kn_status kn_pass_packs(kn_planner *planner);
kn_status kn_pass_bucket(kn_planner *planner);
kn_status kn_pass_once(kn_planner *planner);
kn_status kn_pass_share(kn_planner *planner);
kn_status kn_pass_place(kn_planner *planner);

/* Computes functions of views of images before the views (views.c). */
kn_status kn_move_views(kn_planner *planner);
/* Makes all readers of a value, except the producer of `by`, and the caller read `by` instead (widen.c). */
void kn_replace_value(const kn_planner *planner, const kn_value *old, kn_value *by);
/* Moves the last node to `place`, before the nodes that read it (widen.c). */
void kn_move_last_node(const kn_graph *graph, size_t place);
/* By node id: whether it is pointwise and leads to an assign only through pointwise nodes. NULL: out of
 * memory (precision.c). */
bool *kn_find_updates(kn_planner *planner);
/* After fusing: changes results that are read only within their group, and so are never stored, to
 * float32. */
kn_status kn_widen_inner(kn_planner *planner);

/* Whether the shape is (N,C,H,W) with C a multiple of kn_block_width: only such values may be blocked
 * (layout.c). */
bool kn_can_block(const kn_target *target, const kn_shape *shape);

/* ---- the choice of kernels (choose.c, why.c) ------------------------------------------------------ */

/* Why the rule does not choose a variant for a node. */
typedef enum kn_refusal {
    KN_NOT_REFUSED = 0,
    KN_REFUSED_LAYOUT,  /* it reads blocked images, and converting them would cost more than it gains */
    KN_REFUSED_ERROR,   /* it has a larger error, and fast math is off */
    KN_REFUSED_CHANGES, /* it prepares an input that changes from run to run */
    KN_REFUSED_TYPES,   /* it does not read or write these 16-bit types */
    KN_REFUSED_NODE,    /* it does not support this device, or these shapes and types */
    KN_REFUSED_WORK,    /* its estimated work is not less than that of others */
    KN_REFUSED_WRONG,   /* the device failed its trial */
} kn_refusal;
/* Does not compare speed. plain: no blocked images on many-thread devices. */
kn_refusal kn_variant_refusal(const kn_planner *planner, const kn_node *node, const kn_variant *variant,
                              bool plain);
/* Writes planner->why, for the nodes that switch `why` names; called after the choose pass. */
kn_status kn_explain_choices(kn_planner *planner);

/* ---- groups (group.c) ---------------------------------------------------------------------------- */

/* Call `visit` once for each value from outside that a group reads, or for each of its results that is read
 * outside the group or by the caller. */
typedef void kn_visit_value(void *user, kn_value *value);
void kn_group_reads(const kn_planner *planner, const kn_group *group, kn_visit_value *visit, void *user);
void kn_group_writes(const kn_planner *planner, const kn_group *group, kn_visit_value *visit, void *user);
kn_group *kn_group_add(kn_planner *planner);
/* NULL for views and for nodes that the layout pass added. */
kn_group *kn_group_of_node(const kn_planner *planner, const kn_node *node);
/* The first result of a group with an anchor: the result of the epilogue's last node, or the anchor's if
 * there is no epilogue. */
kn_value *kn_group_result(const kn_group *group);
bool kn_group_add_member(kn_planner *planner, kn_group *group, kn_node *node);

/* ---- pointwise kernels (pointwise.c, epilogue.c, strides.c) -------------------------------------- */

kn_status kn_lower_pointwise(kn_planner *planner, kn_group *group);
/* Writes the members of a group with an anchor as macros for its kernel or, with `producer`, for the kernel
 * of the consumer that the group is fused into. */
kn_status kn_make_epilogue(kn_planner *planner, const kn_group *group, bool producer, kn_epilogue *epilogue);
/* Writes a node's expression for a compute type; `name` writes the name of the variable that holds a
 * value. */
kn_status kn_pointwise_write(kn_planner *planner, const kn_node *node, const char *type,
                             void (*name)(const void *user, const kn_value *value, kn_text *text),
                             const void *user, const char *uniform, kn_text *body);
kn_status kn_pointwise_expression(kn_planner *planner, const kn_node *node, kn_expression **expression);
/* The input that x, y, z, r or g refers to in an expression, or NULL. */
kn_value *kn_pointwise_named_input(const kn_node *node, const char *name);
const char *kn_pointwise_type(kn_dtype dtype);
/* The strides, in elements, of a value broadcast to a space, and the sizes of the space; the stride along
 * axes where the value has size 1 is 0. Returns the number of axes: the space's rank, or 5 if it is blocked,
 * (N, C/width, H, W, width). */
int kn_value_strides(const kn_target *target, const kn_value *value, const kn_shape *space,
                     kn_layout space_layout, int64_t sizes[KN_MAX_RANK + 1],
                     int64_t strides[KN_MAX_RANK + 1]);
/* Whether both layouts store an image's elements in the same order: (N,C,1,1). */
bool kn_layouts_agree(const kn_value *value);

/* ---- memory (liveness.c) ------------------------------------------------------------------ */

/* Makes `written`, a result of `group`, reuse the memory of `read` if that is safe; returns whether it is. */
bool kn_reuse_memory(kn_planner *planner, const kn_group *group, kn_value *read, kn_value *written);
/* The value whose memory a value uses, followed through views and aliases. */
kn_value *kn_memory_root(const kn_planner *planner, kn_value *value);
/* A copy of `first` without arguments, for a step that does the work of `count` steps. NULL: out of memory,
 * which is reported (bucket.c). */
kn_step *kn_merged_step(kn_planner *planner, const kn_step *first, int count);
/* Whether one step writes memory that the other accesses, so that their order matters (pairs.c). */
bool kn_steps_conflict(kn_planner *planner, const kn_step *one, const kn_step *other);
/* Whether a result of `written` bytes is much larger than the `read` bytes it is computed from: then it does
 * not persist between runs (invariant.c). */
bool kn_is_widened(uint64_t read, uint64_t written);
/* Extends the lifetime of results of steps that run once to all steps where later runs read them (once.c). */
void kn_once_keep(kn_planner *planner);

/* ---- transfers between devices (transfer.c) -------------------------------------------------------- */

/* Add a node that sends a value to, or receives a value from, another device. The transfers of a device are
 * ordered by tokens, values without elements: each reads the token of the previous transfer (NULL: none) and
 * returns a new token. Receive sets *result. */
kn_value *kn_send_add(kn_graph *graph, kn_value *value, int transfer, int device, kn_value *token);
kn_value *kn_receive_add(kn_graph *graph, const kn_value *value, int transfer, int device, kn_value *token,
                         kn_value **result);
bool kn_node_is_receive(const kn_node *node);
bool kn_node_is_transfer(const kn_node *node);
/* For send, receive, share, total and gather nodes: the token, and the bytes that they move. */
kn_shape kn_token_shape(void);
void kn_transfer_cost(const kn_node *node, kn_cost *cost);
/* Whether it is a share, total or gather node (total.c). */
bool kn_node_shares(const kn_node *node);
/* Whether it is a gather node. */
bool kn_node_gathers(const kn_node *node);
/* Whether it is a load node, or an assign of a state in host memory (host.c). */
bool kn_node_loads(const kn_node *node);
bool kn_node_stores(const kn_node *node);

#endif
