/* An update under construction. Every moment has the shape of its parameter and is named PARAMETER.KIND. */
#ifndef KN_TRAIN_OPTIMIZER_H
#define KN_TRAIN_OPTIMIZER_H

#include <koine/operators.h>

#include "train/train.h"

typedef struct kn_stored_moment kn_stored_moment;

typedef struct kn_update {
    const kn_trainer_params *params;
    kn_update_setting *settings;
    kn_graph *graph;
    kn_value *scale;         /* scalar: the factor of the loss (loss_scale.c); NULL: 1 */
    kn_value *go;            /* bool scalar: whether this step updates; NULL: always */
    const kn_shards *shards; /* for training in shards; NULL: each step is one run */
    kn_value
        *more; /* bool scalar: whether the step has another run, for the next shard; NULL: this is the last */
    /* scalar: the fraction by which the moving average moves to new weights; NULL: no average */
    kn_value *rest;
    bool decays;              /* some setting has weight decay */
    bool differ;              /* the settings' weight decays differ */
    kn_value *after;          /* scalar that updates wait for; NULL: only their gradients */
    kn_stored_moment *stored; /* moments.c: moments that are not float32 states on the device */
    kn_value *token;          /* of the last value that was exchanged with other workers (kn_total_add) */
} kn_update;

/* The update of one parameter. */
typedef struct kn_update_part {
    kn_update *update;
    kn_value *parameter, *gradient;
    /* The elements of the parameter that this worker updates, with their gradient and moments: the parameter
     * itself if its rank has all elements; (n), starting at element `first`, if each rank has a slice;
     * (0,...), nothing, if a different rank has it (kn_spread_first). */
    kn_value *own;
    int spread;
    int64_t first;
    kn_value **fresh, **average; /* spread: the new `own`; the state of the moving average, NULL: none */
    int setting;
    kn_value *found; /* the gradient before the update changes it */
    bool table;      /* an embedding table */
} kn_update_part;

/* A scalar that the host sets: shared by all parameters, or of the part's setting. */
kn_value *kn_update_scalar(const kn_update *update, kn_train_scalar scalar);
kn_value *kn_update_own_scalar(const kn_update_part *part, kn_train_scalar scalar);
/* The float32 state PARAMETER.kind, with the shape of `own`, initialized to `start`. */
kn_value *kn_update_state(const kn_update_part *part, const char *kind, double start);
/* The state OWNER.kind of any shape and type; `owner` is the parameter, or one of its states. */
kn_value *kn_update_state_of(kn_value *owner, const char *kind, const kn_shape *shape, double start);
/* Assigns a new value to a state or moment, unless this step does not update. */
void kn_update_set(const kn_update *update, kn_value *state, kn_value *value);
/* kn_update_set for the parameter itself, given the new `own`, with its moving average. */
void kn_update_set_parameter(const kn_update_part *part, kn_value *value);
/* Moves the average towards the new value of the whole parameter. */
void kn_update_average(const kn_update_part *part, kn_value *average, kn_value *value);

/* ---- spread.c: distribution of updates over workers ---------------------------------------------------- */

/* Whether each worker updates only some of the parameters. */
bool kn_update_is_spread(const kn_update *update);
/* Sets `own`, `spread` and `first` of the parts. */
kn_status kn_update_spread(kn_update *update, kn_update_part *parts, size_t count, kn_error *error);
/* Marks a state that belongs to `own`; whole: its shape if one worker has all of it. Returns the state. */
kn_value *kn_update_spread_state(const kn_update_part *part, kn_value *state, const kn_shape *whole);
/* The sum of squares of the gradient over all workers, a scalar. turn: 0 for the first use, 1 for the second.
 */
kn_value *kn_update_square_sum(const kn_update_part *part, int turn);
/* The norm of a value with the shape of `own`, such as `own` itself, on the workers that have some of it. */
kn_value *kn_update_norm(const kn_update_part *part, kn_value *value);
/* Assigns to the parameters the elements that the workers have computed. */
void kn_update_gather(kn_update *update, const kn_update_part *parts, size_t count);

/* ---- moments.c: storage of moments --------------------------------------------------------------------- */

/* The float32 value of a moment of the rule: the state PARAMETER.kind, initialized to `start` and stored as
 * kn_trainer_params.moments says. kn_update_square: for a moment that is never negative. */
kn_value *kn_update_moment(const kn_update_part *part, const char *kind);
kn_value *kn_update_square(const kn_update_part *part, const char *kind, double start);
/* Assigns a new value to a moment that is not float32, or is in host memory; false if `moment` is not one. */
bool kn_update_store(const kn_update *update, kn_value *moment, kn_value *value);
/* Marks the parts whose parameter is an embedding table. */
kn_status kn_update_find_tables(const kn_graph *graph, kn_update_part *parts, size_t count, kn_error *error);

/* ---- shards.c: training in shards --------------------------------------------------------------------- */

/* The value, cast if it has a different type. */
kn_value *kn_in_type(kn_value *value, kn_dtype dtype);
/* Called before gradients are added to the graph. */
void kn_shards_prepare(kn_update *update);
/* Replaces the gradients, the values (the loss and extra values) and the running statistics that the graph
 * assigns by their means over the batch, which are defined in the last run of a step. */
kn_status kn_shards_share(kn_update *update, kn_value **values, size_t count, kn_update_part *parts,
                          size_t part_count, kn_error *error);

/* Assigns to each float32 state, in the last run of a step, the sum over the batch of a value that is a sum
 * over a shard, or the mean of a value that is a mean. */
void kn_shards_count(kn_update *update, kn_value *const *values, const bool *means, kn_value *const *states,
                     size_t count);

/* ---- replace.c: replacing results in a bound graph ----------------------------------------------------- */

typedef struct kn_replacing {
    kn_graph *graph;
    size_t count, nodes; /* number of values and nodes at the beginning */
    kn_value **by;       /* by id of these values: the replacement; NULL: none */
} kn_replacing;
/* Only fails when out of memory. */
kn_status kn_replacing_begin(kn_replacing *own, kn_graph *graph);
/* The replacement of a value; the value itself if there is none. */
kn_value *kn_replaced(const kn_replacing *own, kn_value *value);
/* Sets the results of a node, including hidden results: its own outputs, or replacements. `inputs` are the
 * replacements of its inputs. */
typedef kn_status kn_replace_rule(void *user, const kn_replacing *own, const kn_node *node,
                                  kn_value *const *inputs, kn_value **results);
/* The default rule: repeats the node if inputs differ. */
kn_status kn_replace_repeat(const kn_replacing *own, const kn_node *node, kn_value *const *inputs,
                            kn_value **results);
/* Calls the rule for each node, and assigns to states the replacements of their values. */
kn_status kn_replace(const kn_replacing *own, kn_replace_rule *rule, void *user);

/* ---- sync_norm.c: batch norms over all workers --------------------------------------------------------- */

/* Replaces the batch norms of a graph with gradients, and their gradients, by norms with the statistics of
 * the whole batch, of which each worker has one shard; also in `values` and `gradients`, which may be NULL.
 * weight, ratio: the scalars of the run. */
kn_status kn_sync_norms(kn_update *update, kn_value *weight, kn_value *ratio, kn_value **values,
                        size_t value_count, kn_value **gradients, size_t gradient_count, kn_error *error);

/* ---- loss_scale.c: gradients that fit into float16 ----------------------------------------------------- */

/* Sets update->scale, and returns the loss multiplied by it. */
kn_value *kn_loss_scale(kn_update *update, kn_value *loss);
/* Divides the gradients by the scale. */
void kn_loss_scale_undo(const kn_update *update, kn_update_part *parts, size_t count);
/* Assigns the scale of the next update. finite: bool scalar, whether all gradients of this update are finite;
 * wait: not 0 in a step that does not end an update; NULL: all steps do. */
void kn_loss_scale_follow(const kn_update *update, kn_value *finite, kn_value *wait);

/* ---- rules.c: the rule of each optimizer and its properties ----------------------------------------- */

/* The factor of a step (KN_TRAIN_RATE). */
typedef enum kn_rate_use {
    KN_RATE_PLAIN,     /* the learning rate */
    KN_RATE_CORRECTED, /* divided by 1 - beta1^t: the bias correction of a mean that started at 0 */
    KN_RATE_DECAYED,   /* divided by 1 + rate_decay * updates */
} kn_rate_use;

typedef struct kn_optimizer_row {
    const char *name;
    void (*rule)(const kn_update_part *part);
    const char *reads; /* the fields of kn_trainer_params that it uses, separated by spaces */
    kn_rate_use rate;
    bool decays; /* the rule itself applies weight decay; otherwise it is added to the gradient */
    struct {
        double learning_rate, momentum, beta1, beta2, epsilon, weight_decay;
    } usual;
} kn_optimizer_row;
/* NULL for an unknown optimizer. */
const kn_optimizer_row *kn_optimizer_row_of(kn_optimizer optimizer);
/* The momentum, or beta1 for optimizers without a momentum. */
double kn_optimizer_momentum(const kn_trainer_params *params);

void kn_update_by_rule(const kn_update_part *part);

#endif
