/* Sums over a whole batch when it is trained in shards or in parts of shards. A loss with class weights or
 * ignored targets is a sum over samples divided by a sum of weights: the quotient is right for the whole
 * batch if the divisor is the sum over the whole batch.
 *
 * A *total* is a sum or mean over the batch that depends only on inputs, such as the sum of the weights of
 * the targets. It can be computed before the forward pass: a session computes it for all shards of a step,
 * adds it up over shards and workers like gradients (shards.c), and stores each total in a state, which
 * replaces the shard's sum in the trainer's graphs. For totals that depend on other totals, this session
 * runs once more per level.
 *
 * Other sums over the batch are multiplied by batch samples / shard samples: the mean over the shards, which
 * trainers compute, is then the sum over the batch. This requires that "batch" is a symbol of the graph and
 * that no size of it is read as a number. Otherwise sums stay unchanged, and totals are divided by that
 * ratio instead. */
#include <stdio.h>
#include <string.h>

#include "ops/ops.h"
#include "train/optimizer.h"
#include "train/trainer_private.h"

/* ---- search in the caller's graph ---------------------------------------------------------------------- */

typedef enum sum_kind { SUM_NONE, SUM_TOTAL, SUM_MEAN_TOTAL, SUM_SCALED } sum_kind;

/* Properties of a value. */
typedef struct origin {
    bool needed;  /* computed for the loss or an extra value */
    bool fed;     /* depends on an input */
    bool varies;  /* depends on parameters or random numbers, which the session for totals does not have */
    bool carries; /* has elements for each sample */
    bool whole;   /* an integer sum over the batch, read by a cast */
    int depth;    /* the largest number of totals on a path to it */
    sum_kind kind;
} origin;

typedef struct search {
    const kn_graph *graph;
    bool open;       /* the batch is symbolic */
    bool sized;      /* a sum computes the size of the batch */
    origin *origins; /* by value id */
} search;

static bool is_open(const kn_graph *graph) {
    const char *symbol;
    for (int i = 0; (symbol = kn_graph_symbol(graph, i)) != NULL; i++)
        if (!strcmp(symbol, "batch")) return true;
    return false;
}

static bool has_batch(const kn_graph *graph, const kn_shape *shape) {
    for (int i = 0; i < shape->rank; i++)
        if (kn_dim_has(graph, shape->dims[i], "batch")) return true;
    return false;
}

static bool is_known(const kn_shape *shape) {
    for (int i = 0; i < shape->rank; i++)
        if (!kn_dim_known(shape->dims[i])) return false;
    return true;
}

static bool is_row(const kn_node *node, const char *name) {
    return !node->derivative && !strcmp(node->op->name, name);
}

static void look_at_leaf(const search *own, const kn_value *value) {
    origin *found = &own->origins[value->id];
    found->fed = value->kind == KN_VALUE_INPUT;
    found->varies = value->kind == KN_VALUE_STATE && !(value->role == KN_STATE_PARAMETER && value->frozen);
    found->carries = own->open ? has_batch(own->graph, &value->shape) : found->fed;
}

/* Whether a node reduces its whole input to a sum or mean. */
static bool reduces_all(const kn_node *node) {
    const int axes = node->op->sums ? 0 : kn_attribute_of(node, "axes")->count;
    return !axes || axes == node->inputs[0]->shape.rank;
}

/* Classifies a sum or mean over the batch. */
static void classify_sum(search *own, const kn_node *node, origin *made) {
    const kn_shape *shape = &node->outputs[0]->shape;
    const bool mean = is_row(node, "mean");
    if (made->fed && !made->varies && is_known(shape)) {
        made->kind = mean ? SUM_MEAN_TOTAL : SUM_TOTAL;
        made->depth++;
    } else if (!made->fed && !made->varies) {
        own->sized = true;
    } else if (!mean) {
        made->whole = !kn_dtype_is_float(shape->dtype);
        made->kind = made->whole ? SUM_NONE : SUM_SCALED;
    }
}

static void look_at_node(search *own, const kn_node *node) {
    const kn_operator *row = node->op;
    const bool reduces = is_row(node, "sum") || is_row(node, "mean") || row->sums;
    origin made = {.varies = row->random || row->training_only || row->without_training};
    for (int i = 0; i < node->input_count; i++) {
        if (!node->inputs[i]) continue;
        const origin *read = &own->origins[node->inputs[i]->id];
        made.fed = made.fed || read->fed;
        made.varies = made.varies || read->varies;
        made.carries = made.carries || read->carries;
        made.depth = read->depth > made.depth ? read->depth : made.depth;
    }
    for (int i = 0; i < node->output_count; i++) {
        const kn_value *value = node->outputs[i];
        origin *found = &own->origins[value->id];
        const bool needed = found->needed;
        *found = made;
        found->needed = needed;
        if (own->open)
            found->carries = has_batch(own->graph, &value->shape);
        else if (reduces && reduces_all(node))
            found->carries = false;
        if (reduces && own->origins[node->inputs[0]->id].carries && !found->carries)
            classify_sum(own, node, found);
        if (is_row(node, "cast") && own->origins[node->inputs[0]->id].whole &&
            kn_dtype_is_float(value->shape.dtype))
            found->kind = SUM_SCALED;
    }
}

/* Visits nodes in order; nodes follow the nodes they read. */
static void search_nodes(search *own, kn_value *const *values, size_t count) {
    const kn_graph *graph = own->graph;
    for (size_t i = 0; i < count; i++)
        own->origins[values[i]->id].needed = true;
    for (size_t i = graph->node_count; i-- > 0;) {
        const kn_node *node = graph->nodes[i];
        bool needed = false;
        for (int k = 0; k < node->output_count; k++)
            needed = needed || own->origins[node->outputs[k]->id].needed;
        for (int k = 0; k < node->input_count && needed; k++)
            if (node->inputs[k]) own->origins[node->inputs[k]->id].needed = true;
    }
    own->open = is_open(graph);
    for (size_t i = 0; i < graph->value_count; i++)
        if (graph->values[i]->kind != KN_VALUE_RESULT) look_at_leaf(own, graph->values[i]);
    for (size_t i = 0; i < graph->node_count; i++) {
        const kn_node *node = graph->nodes[i];
        bool needed = false;
        for (int k = 0; k < node->output_count; k++)
            needed = needed || own->origins[node->outputs[k]->id].needed;
        if (needed) look_at_node(own, node);
    }
}

/* Whether a session would accept these values; if not, it reports the reason itself. */
static bool can_search(kn_value *const *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (kn_value_failed(values[i]) || values[i]->graph != values[0]->graph ||
            values[i]->graph->error.status != KN_OK)
            return false;
    return true;
}

static void add_found(const search *own, kn_counts *counts, kn_value **values, size_t given) {
    const kn_graph *graph = own->graph;
    for (size_t i = 0; i < graph->value_count; i++) {
        const origin *found = &own->origins[i];
        if (found->kind != SUM_TOTAL && found->kind != SUM_MEAN_TOTAL) continue;
        counts->means[counts->total_count] = found->kind == SUM_MEAN_TOTAL;
        values[given + counts->total_count++] = graph->values[i];
        if (found->depth > counts->depth) counts->depth = found->depth;
    }
    for (size_t i = 0; i < graph->value_count && counts->scaled; i++)
        if (own->origins[i].kind == SUM_SCALED)
            values[given + counts->total_count + counts->sum_count++] = graph->values[i];
}

kn_status kn_counts_find(kn_trainer *trainer, kn_value **values, size_t given) {
    if (!can_search(values, given)) return KN_OK;
    const kn_graph *graph = values[0]->graph;
    kn_counts *counts = &trainer->counts;
    search own = {.graph = graph};
    own.origins = kn_allocate(&trainer->host, graph->value_count + 1, sizeof *own.origins);
    counts->means = kn_allocate(&trainer->host, graph->value_count + 1, sizeof *counts->means);
    kn_status status = own.origins && counts->means
                           ? KN_OK
                           : kn_fail_memory(&trainer->error, graph->value_count * sizeof *own.origins);
    if (status == KN_OK) {
        search_nodes(&own, values, given);
        counts->scaled = own.open && !own.sized;
        add_found(&own, counts, values, given);
    }
    kn_release(&trainer->host, own.origins);
    return status;
}

/* ---- weights of batches in an evaluation --------------------------------------------------------------- */

/* The value of a session with this name, or NULL. */
static kn_value *value_of(const kn_session *session, const char *name) {
    kn_value *value;
    for (size_t i = 0; (value = kn_session_value(session, i)) != NULL; i++)
        if (!strcmp(value->name, name)) return value;
    return NULL;
}

kn_status kn_counts_evaluate(kn_session *session, const char *mean_name, kn_session **counting,
                             const char **name, const kn_graph **graph) {
    kn_value *value = value_of(session, mean_name);
    const kn_node *node = value ? value->producer : NULL;
    const kn_host *host = kn_session_host(session);
    *counting = NULL;
    if (!node || !is_row(node, "div") || !can_search(&value, 1)) return KN_OK;
    kn_value *divisor = node->inputs[1];
    search own = {.graph = value->graph};
    own.origins = kn_allocate(host, value->graph->value_count + 1, sizeof *own.origins);
    if (!own.origins) return KN_ERROR_MEMORY;
    search_nodes(&own, &value, 1);
    const bool counts = own.origins[divisor->id].kind == SUM_TOTAL && own.origins[divisor->id].depth == 1 &&
                        !divisor->shape.rank && divisor->shape.dtype == KN_FLOAT32;
    kn_release(host, own.origins);
    if (!counts) return KN_OK;
    *counting = kn_session_create(kn_session_context(session), &divisor, 1, NULL);
    *name = divisor->name;
    *graph = value->graph;
    return kn_session_status(*counting);
}

/* ---- replacement in bound graphs ----------------------------------------------------------------------- */

typedef struct marks {
    kn_replacing all;
    int *total_of;   /* by value id: index of a total plus 1, or 0 */
    bool *scaled;    /* by value id */
    kn_value *ratio; /* scalar: samples of the batch / samples of the run */
    kn_value **made; /* by total: its value in this run */
} marks;

/* `value` times the ratio, or divided by it. */
static kn_value *by_ratio(const marks *own, kn_value *value, bool divided) {
    kn_value *ratio = kn_in_type(own->ratio, value->shape.dtype);
    return divided ? kn_div(value, ratio) : kn_mul(value, ratio);
}

static kn_status replace_sums(void *user, const kn_replacing *all, const kn_node *node,
                              kn_value *const *inputs, kn_value **results) {
    const marks *own = user;
    kn_status status = kn_replace_repeat(all, node, inputs, results);
    for (int i = 0; i < node->output_count && status == KN_OK; i++) {
        const int id = node->outputs[i]->id, total = own->total_of[id];
        if (total) {
            own->made[total - 1] = results[i];
            results[i] = all->by[id];
        } else if (own->scaled[id]) {
            results[i] = by_ratio(own, results[i], false);
        }
    }
    return status == KN_OK ? all->graph->error.status : status;
}

/* The float32 state of a total, with its shape. */
static kn_value *total_state(kn_graph *graph, size_t position, const kn_value *total) {
    char name[KN_TRAIN_NAME_BYTES];
    kn_shape shape = total->shape;
    shape.dtype = KN_FLOAT32;
    snprintf(name, sizeof name, "%s%zu", KN_TRAIN_TOTAL, position);
    return kn_state_add(graph, name, &shape, KN_STATE_PASSING, NULL);
}

/* Marks the totals and sums in the bound graph: `found` are their values, totals first. states: by total. */
static kn_status mark(const kn_counts *counts, kn_graph *graph, marks *own, kn_value *const *found,
                      size_t sums, kn_value **states) {
    kn_status status = kn_replacing_begin(&own->all, graph);
    own->total_of = kn_arena_take(&graph->arena, own->all.count + 1, sizeof *own->total_of);
    own->scaled = kn_arena_take(&graph->arena, own->all.count + 1, sizeof *own->scaled);
    if (status != KN_OK || !own->total_of || !own->scaled) return KN_ERROR_MEMORY;
    for (size_t i = 0; i < counts->total_count; i++) {
        const int id = found[i]->id;
        states[i] = total_state(graph, i, found[i]);
        kn_value *total = kn_in_type(states[i], found[i]->shape.dtype);
        if (own->ratio && !counts->scaled && !counts->means[i]) total = by_ratio(own, total, true);
        own->total_of[id] = (int)i + 1;
        own->all.by[id] = total;
        own->made[i] = found[i];
    }
    for (size_t i = 0; i < sums; i++)
        own->scaled[found[counts->total_count + i]->id] = true;
    return graph->error.status;
}

kn_status kn_counts_use(const kn_trainer *trainer, kn_graph *bound, kn_value **values, size_t given,
                        kn_error *error) {
    const kn_counts *counts = &trainer->counts;
    if (!counts->total_count && !counts->sum_count) return KN_OK;
    const kn_update update = {.params = &trainer->params, .settings = trainer->settings, .graph = bound};
    marks own = {.ratio = kn_update_scalar(&update, KN_TRAIN_RATIO)};
    kn_value **states = kn_arena_take(&bound->arena, counts->total_count + 1, sizeof *states);
    own.made = kn_arena_take(&bound->arena, counts->total_count + 1, sizeof *own.made);
    if (!states || !own.made) return kn_fail_memory(error, counts->total_count * sizeof *states);
    kn_status status = mark(counts, bound, &own, values + given, counts->sum_count, states);
    if (status == KN_OK) status = kn_replace(&own.all, replace_sums, &own);
    if (status != KN_OK) return kn_fail(error, status, "%s", bound->error.text);
    for (size_t i = 0; i < given; i++)
        values[i] = kn_replaced(&own.all, values[i]);
    return KN_OK;
}

/* ---- the session that computes the totals -------------------------------------------------------- */

/* Assigns the totals over the batch to their states. */
static kn_status extend(void *user, kn_graph *bound, kn_value **values, size_t count, kn_error *error) {
    const kn_trainer *trainer = user;
    kn_update_setting unused[2] = {{.needs = 0}};
    kn_update update = {
        .params = &trainer->params, .settings = unused, .graph = bound, .shards = &trainer->shards};
    marks own = {.made = NULL};
    kn_value **states = kn_arena_take(&bound->arena, count + 1, sizeof *states);
    own.made = kn_arena_take(&bound->arena, count + 1, sizeof *own.made);
    if (!states || !own.made) return kn_fail_memory(error, count * sizeof *states);
    kn_status status = mark(&trainer->counts, bound, &own, values, 0, states);
    if (status == KN_OK) status = kn_replace(&own.all, replace_sums, &own);
    for (size_t i = 0; i < count && status == KN_OK; i++)
        own.made[i] = kn_in_type(own.made[i], KN_FLOAT32);
    if (status == KN_OK) {
        kn_shards_count(&update, own.made, trainer->counts.means, states, count);
        status = bound->error.status;
    }
    for (size_t i = 0; i < count && status == KN_OK; i++)
        values[i] = own.made[i];
    return status == KN_OK ? KN_OK : kn_fail(error, status, "%s", bound->error.text);
}

kn_status kn_counts_open(kn_trainer *trainer, kn_value *const *totals) {
    kn_counts *counts = &trainer->counts;
    if (!counts->total_count) return KN_OK;
    kn_session_params running = trainer->running;
    running.states = trainer->states;
    running.training = false;
    running.precision = KN_PRECISION_FLOAT32;
    running.memory_bytes = 0;
    const kn_session_request request = {.context = trainer->context,
                                        .values = totals,
                                        .count = counts->total_count,
                                        .params = &running,
                                        .communicator = trainer->params.communicator,
                                        .shards = &trainer->shards,
                                        .extend = extend,
                                        .user = trainer};
    counts->session = kn_session_open(&request);
    kn_status status = kn_session_status(counts->session);
    return status == KN_OK ? KN_OK
                           : kn_fail(&trainer->error, status, "%s", kn_session_error(counts->session));
}

void kn_counts_close(kn_trainer *trainer) {
    kn_session_destroy(&trainer->counts.session);
    kn_release(&trainer->host, trainer->counts.means);
}

kn_status kn_counts_compile(kn_trainer *trainer, const kn_feed_list *list, const kn_train_run *run) {
    kn_session *session = trainer->counts.session;
    if (!session) return KN_OK;
    kn_status status = kn_session_bind(session, "batch", (int64_t)run->samples);
    if (status == KN_OK || status == KN_ERROR_NOT_FOUND) /* all sizes may be fixed */
        status = kn_session_compile(session, list->feeds, list->count);
    return status == KN_OK ? KN_OK : kn_fail(&trainer->error, status, "%s", kn_session_error(session));
}

/* Sets a scalar that totals may read. */
static kn_status set_if_read(kn_session *session, kn_train_scalar scalar, double value) {
    char name[KN_TRAIN_NAME_BYTES];
    kn_train_scalar_name(scalar, 0, name);
    kn_status status = kn_session_set_scalar(session, name, value);
    return status == KN_ERROR_NOT_FOUND ? KN_OK : status;
}

static kn_status set_scalars(kn_session *session, const kn_train_run *run) {
    kn_status status = set_if_read(session, KN_TRAIN_WEIGHT, run->weight);
    if (status == KN_OK) status = set_if_read(session, KN_TRAIN_COUNTED, run->weight > 0);
    if (status == KN_OK) status = set_if_read(session, KN_TRAIN_MORE, run->more);
    if (status == KN_OK) status = set_if_read(session, KN_TRAIN_FOLLOWS, run->part > 0);
    return status == KN_OK ? set_if_read(session, KN_TRAIN_HOLDS, run->holds) : status;
}

static kn_status count_run(kn_trainer *trainer, uint64_t count, const kn_train_run *run, kn_feed_list list) {
    kn_session *session = trainer->counts.session;
    kn_status status = kn_run_feeds(trainer, count, run, &list);
    if (status == KN_OK) status = kn_counts_compile(trainer, &list, run);
    if (status != KN_OK) return status;
    kn_session_exchange(session, !run->more, !run->more);
    status = set_scalars(session, run);
    if (status == KN_OK) status = kn_shard_set(session, &trainer->shards, run, trainer->steps);
    if (status == KN_OK)
        status = kn_session_start(session, list.feeds, list.count, false, NULL, 0,
                                  (kn_enqueued_callback){NULL}, NULL);
    return status == KN_OK ? KN_OK : kn_fail(&trainer->error, status, "%s", kn_session_error(session));
}

kn_status kn_counts_run(kn_trainer *trainer, uint64_t count, const kn_feed_list *list) {
    kn_status status = KN_OK;
    for (int pass = 0; pass < trainer->counts.depth && status == KN_OK; pass++) {
        kn_train_run run = kn_run_first(trainer, count);
        status = count_run(trainer, count, &run, *list);
        while (status == KN_OK && run.more) {
            run = kn_run_next(trainer, count, &run);
            status = count_run(trainer, count, &run, *list);
        }
    }
    return status;
}
