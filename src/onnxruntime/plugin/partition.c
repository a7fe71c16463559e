/* Decides which nodes Koine computes, and which of them together. */
#include <stdlib.h>
#include <string.h>

#include "onnxruntime/plugin/provider.h"

/* ---- groups -------------------------------------------------------------------------------- */

/* A unit is a group, or a node outside all groups. Its number is that of one of its nodes. */
typedef struct grouping {
    const graph *of;
    const bool *marked;
    size_t *unit_of, *next, *last; /* of a node; the next node of its unit; by unit: its last node */
    size_t *readers, *starts;      /* the nodes that read results of a node */
    size_t *stack, *visited;       /* visited: by unit, the search that was there last */
    size_t search;
} grouping;

static void grouping_release(grouping *own) {
    free(own->unit_of);
    free(own->next);
    free(own->last);
    free(own->readers);
    free(own->starts);
    free(own->stack);
    free(own->visited);
}

/* Calls for each pair of a node and a reader of its result: counts them in `starts`, or, with `readers`,
 * stores them. */
static void add_reader(grouping *own, const size_t *values, size_t count, size_t reader, bool store) {
    for (size_t i = 0; i < count; i++) {
        const size_t producer = values[i] == NONE ? NONE : own->of->values[values[i]].producer;
        if (producer == NONE) continue;
        if (store) own->readers[own->starts[producer + 1]] = reader;
        own->starts[producer + 1 + !store]++;
    }
}

static void add_readers(grouping *own, bool store) {
    for (size_t i = 0; i < own->of->node_count; i++) {
        const graph_node *node = &own->of->nodes[i];
        add_reader(own, node->inputs, node->input_count, i, store);
        add_reader(own, node->implicit, node->implicit_count, i, store);
    }
}

/* starts[n + 2] first counts the readers of node n, then starts[n + 1] is the place of the next one; at the
 * end, the readers of n are from starts[n] to starts[n + 1]. */
static bool find_readers(grouping *own) {
    const size_t count = own->of->node_count;
    own->starts = calloc(count + 2, sizeof *own->starts);
    if (!own->starts) return false;
    add_readers(own, false);
    for (size_t i = 1; i < count + 2; i++)
        own->starts[i] += own->starts[i - 1];
    own->readers = calloc(own->starts[count + 1] + 1, sizeof *own->readers);
    if (!own->readers) return false;
    add_readers(own, true);
    return true;
}

static bool grouping_begin(grouping *own, const graph *of, const bool *marked) {
    const size_t count = of->node_count;
    *own = (grouping){.of = of, .marked = marked};
    own->unit_of = calloc(count + 1, sizeof *own->unit_of);
    own->next = calloc(count + 1, sizeof *own->next);
    own->last = calloc(count + 1, sizeof *own->last);
    own->stack = calloc(count + 1, sizeof *own->stack);
    own->visited = calloc(count + 1, sizeof *own->visited);
    if (!own->unit_of || !own->next || !own->last || !own->stack || !own->visited) return false;
    for (size_t i = 0; i < count; i++) {
        own->unit_of[i] = own->last[i] = i;
        own->next[i] = NONE;
    }
    return find_readers(own);
}

/* Puts the units that read from a unit on the stack, each once, except `from` and `to`. True if `to` is
 * among the readers. */
static bool push_readers(grouping *own, size_t unit, size_t from, size_t to, size_t *depth) {
    bool found = false;
    for (size_t node = unit; node != NONE; node = own->next[node])
        for (size_t i = own->starts[node]; i < own->starts[node + 1]; i++) {
            const size_t reader = own->unit_of[own->readers[i]];
            found |= reader == to;
            if (reader == from || reader == to || own->visited[reader] == own->search) continue;
            own->visited[reader] = own->search;
            own->stack[(*depth)++] = reader;
        }
    return found;
}

/* Whether `to` depends on `from` through a third unit, so that joining them would make a cycle. */
static bool is_path_around(grouping *own, size_t from, size_t to) {
    size_t depth = 0;
    own->search++;
    push_readers(own, from, from, to, &depth);
    while (depth > 0)
        if (push_readers(own, own->stack[--depth], from, to, &depth)) return true;
    return false;
}

static void join(grouping *own, size_t unit, size_t other) {
    for (size_t node = other; node != NONE; node = own->next[node])
        own->unit_of[node] = unit;
    own->next[own->last[unit]] = other;
    own->last[unit] = own->last[other];
}

/* Joins the node's unit with those that it reads from, where possible. */
static void join_producers(grouping *own, size_t node) {
    const graph_node *reader = &own->of->nodes[node];
    for (size_t i = 0; i < reader->input_count; i++) {
        const size_t producer =
            reader->inputs[i] == NONE ? NONE : own->of->values[reader->inputs[i]].producer;
        if (producer == NONE || !own->marked[producer]) continue;
        const size_t from = own->unit_of[producer], to = own->unit_of[node];
        if (from != to && !is_path_around(own, from, to)) join(own, from, to);
    }
}

void partition_release(partition *made) {
    free(made->group_of);
    free(made->nodes);
    free(made->starts);
    *made = (partition){.group_count = 0};
}

/* Numbers the units of marked nodes in the order of their first nodes. */
static bool number_groups(const grouping *own, partition *made) {
    const size_t count = own->of->node_count;
    size_t *numbers = calloc(count + 1, sizeof *numbers);
    made->group_of = calloc(count + 1, sizeof *made->group_of);
    made->nodes = calloc(count + 1, sizeof *made->nodes);
    made->starts = calloc(count + 2, sizeof *made->starts);
    const bool fine = numbers && made->group_of && made->nodes && made->starts;
    for (size_t i = 0; fine && i < count; i++)
        numbers[i] = NONE;
    for (size_t i = 0; fine && i < count; i++) {
        made->group_of[i] = NONE;
        if (!own->marked[i]) continue;
        size_t *number = &numbers[own->unit_of[i]];
        if (*number == NONE) *number = made->group_count++;
        made->group_of[i] = *number;
        made->starts[*number + 1]++;
    }
    for (size_t i = 0; fine && i < made->group_count; i++)
        made->starts[i + 1] += made->starts[i];
    for (size_t i = 0; fine && i < made->group_count; i++)
        numbers[i] = made->starts[i];
    for (size_t i = 0; fine && i < count; i++)
        if (made->group_of[i] != NONE) made->nodes[numbers[made->group_of[i]]++] = i;
    free(numbers);
    return fine;
}

bool partition_group(const graph *of, const bool *marked, partition *made) {
    grouping own;
    *made = (partition){.group_count = 0};
    bool fine = grouping_begin(&own, of, marked);
    for (size_t i = 0; fine && i < of->node_count; i++)
        if (marked[i]) join_producers(&own, i);
    fine = fine && number_groups(&own, made);
    grouping_release(&own);
    if (!fine) partition_release(made);
    return fine;
}

/* ---- single nodes -------------------------------------------------------------------------- */

/* The choice for a graph. */
typedef struct choice {
    const provider *own;
    const graph *of;
    bool *marked;      /* Koine computes the node */
    bool *conditional; /* only if its group determines a value that the node itself does not */
    uint64_t *checked; /* identify the groups that were found to fit */
    size_t checked_count;
} choice;

/* Operators whose results are not determined by their inputs. */
static const char *const random_operators[] = {"Bernoulli",        "Multinomial",   "RandomNormal",
                                               "RandomNormalLike", "RandomUniform", "RandomUniformLike"};
/* Operators that only move elements or read shapes: not worth copying the data to a device. */
static const char *const movers[] = {"Cast",   "Concat",   "Constant", "Expand",    "Flatten",
                                     "Gather", "Identity", "Reshape",  "Shape",     "Size",
                                     "Slice",  "Split",    "Squeeze",  "Transpose", "Unsqueeze"};

static bool is_among(const graph_node *node, const char *const *names, size_t count) {
    if (*node->domain) return false;
    for (size_t i = 0; i < count; i++)
        if (!strcmp(node->type, names[i])) return true;
    return false;
}
#define IS_AMONG(node, names) is_among(node, names, sizeof(names) / sizeof *(names))

static bool has_types(const graph *of, const size_t *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (values[i] == NONE) continue;
        const graph_value *value = &of->values[values[i]];
        if (value->is_constant ? !engine_bytes(value->type, 2) : !engine_has_type(value->type)) return false;
        if (value->rank > engine_max_rank()) return false;
    }
    return true;
}

/* NULL, or why Koine cannot compute the node, without opening it as a model. */
static const char *objection(const graph *of, const graph_node *node) {
    bool reads = false;
    if (!node->is_encoded) return "it has subgraphs, or attributes of an unknown type";
    if (IS_AMONG(node, random_operators)) return "its results are random";
    if (!has_types(of, node->inputs, node->input_count) || !has_types(of, node->outputs, node->output_count))
        return "an element type or a rank is not supported";
    for (size_t i = 0; i < node->input_count; i++)
        reads |= node->inputs[i] != NONE && !of->values[node->inputs[i]].is_constant;
    return reads ? NULL : "it depends only on constants";
}

/* Opens some nodes as a model. */
static OrtStatus *ask(const choice *own, const size_t *nodes, size_t count, engine_verdict *verdict,
                      engine_failure *failure) {
    graph_part part;
    part_file file;
    if (!part_borders(own->of, nodes, count, &part)) return provider_no_memory(&own->own->host);
    OrtStatus *status = part_encode(&own->own->host, own->of, &part, &file);
    if (!status) *verdict = engine_check(file.bytes, file.count, failure);
    free(file.memory);
    part_release(&part);
    return status;
}

/* Unmarks a node; `reason` and `more` say why. */
static void drop(choice *own, size_t node, const char *reason, const char *more) {
    own->marked[node] = false;
    provider_log(own->own, ORT_LOGGING_LEVEL_VERBOSE, "node '%s' (%s) is left to ONNX Runtime: %s%s",
                 own->of->nodes[node].name, own->of->nodes[node].type, reason, more);
}

/* Whether the node reads a value of unknown rank; `outside`: that no marked node makes, so that its group
 * does not know the rank either. */
static bool lacks_rank(const choice *own, const graph_node *node, bool outside) {
    for (size_t i = 0; i < node->input_count; i++) {
        if (node->inputs[i] == NONE || own->of->values[node->inputs[i]].has_shape) continue;
        const size_t producer = own->of->values[node->inputs[i]].producer;
        if (!outside || producer == NONE || !own->marked[producer]) return true;
    }
    return false;
}

static OrtStatus *examine(choice *own, size_t number) {
    const graph_node *node = &own->of->nodes[number];
    const char *reason = objection(own->of, node);
    if (!reason && lacks_rank(own, node, true)) reason = "it reads a value of unknown rank";
    own->marked[number] = own->conditional[number] = !reason && lacks_rank(own, node, false);
    if (own->marked[number]) return NULL; /* known once it has a group */
    engine_failure failure = {.code = ORT_OK};
    engine_verdict verdict = ENGINE_REFUSES;
    OrtStatus *status = reason ? NULL : ask(own, &number, 1, &verdict, &failure);
    if (status && own->own->host.api->GetErrorCode(status) == ORT_NOT_IMPLEMENTED) {
        own->own->host.api->ReleaseStatus(status); /* the node cannot be written */
        status = NULL;
        reason = "a constant cannot be written";
    }
    own->marked[number] = verdict != ENGINE_REFUSES;
    own->conditional[number] = verdict == ENGINE_LACKS_VALUE;
    if (verdict == ENGINE_REFUSES && !status) drop(own, number, "", reason ? reason : failure.message);
    return status;
}

/* ---- groups that fit ----------------------------------------------------------------------- */

static uint64_t identity_of(const size_t *nodes, size_t count) {
    uint64_t sum = 1469598103934665603u;
    for (size_t i = 0; i < count; i++)
        sum = (sum ^ (nodes[i] + 1)) * 1099511628211u;
    return sum;
}

static bool is_checked(const choice *own, uint64_t identity) {
    for (size_t i = 0; i < own->checked_count; i++)
        if (own->checked[i] == identity) return true;
    return false;
}

static bool keep_checked(choice *own, uint64_t identity) {
    uint64_t *more = realloc(own->checked, (own->checked_count + 1) * sizeof *more);
    if (!more) return false;
    own->checked = more;
    own->checked[own->checked_count++] = identity;
    return true;
}

/* The first conditional node of a group that depends on a value; NONE. */
static OrtStatus *find_reader(const choice *own, const size_t *nodes, size_t count, size_t value,
                              size_t *found) {
    bool *tainted = calloc(own->of->value_count + 1, sizeof *tainted);
    if (!tainted) return provider_no_memory(&own->own->host);
    tainted[value] = true;
    *found = NONE;
    for (size_t i = 0; *found == NONE && i < count; i++) {
        const graph_node *node = &own->of->nodes[nodes[i]];
        bool reads = false;
        for (size_t k = 0; k < node->input_count; k++)
            reads |= node->inputs[k] != NONE && tainted[node->inputs[k]];
        if (reads && own->conditional[nodes[i]]) *found = nodes[i];
        for (size_t k = 0; reads && k < node->output_count; k++)
            if (node->outputs[k] != NONE) tainted[node->outputs[k]] = true;
    }
    free(tainted);
    return NULL;
}

/* The last node of the shortest prefix of a group that does not fit. */
static OrtStatus *find_last(const choice *own, const size_t *nodes, size_t count, size_t *found) {
    OrtStatus *status = NULL;
    size_t fits = 0, fails = count;
    while (!status && fails - fits > 1) {
        const size_t middle = fits + (fails - fits) / 2;
        engine_failure failure = {.code = ORT_OK};
        engine_verdict verdict = ENGINE_REFUSES;
        status = ask(own, nodes, middle, &verdict, &failure);
        if (verdict == ENGINE_FITS)
            fits = middle;
        else
            fails = middle;
    }
    *found = nodes[fails - 1];
    return status;
}

/* Unmarks a node because of which a group does not fit. */
static OrtStatus *drop_from(choice *own, const size_t *nodes, size_t count, engine_verdict verdict,
                            const char *message) {
    const size_t value = verdict == ENGINE_LACKS_VALUE ? graph_find(own->of, message) : NONE;
    size_t found = NONE;
    OrtStatus *status = value == NONE ? NULL : find_reader(own, nodes, count, value, &found);
    if (!status && found == NONE) status = find_last(own, nodes, count, &found);
    if (status) return status;
    const bool lacks = verdict == ENGINE_LACKS_VALUE;
    drop(own, found,
         !lacks     ? ""
         : *message ? "its group lacks the value of "
                    : "its group lacks sizes",
         message);
    return NULL;
}

/* Unmarks nodes of a group that read a value of unknown rank from elsewhere; false if there are none. */
static bool drop_rankless(choice *own, const partition *made, const size_t *nodes, size_t count) {
    bool found = false;
    for (size_t i = 0; i < count; i++) {
        const graph_node *node = &own->of->nodes[nodes[i]];
        bool lacks = lacks_rank(own, node, true);
        for (size_t k = 0; !lacks && k < node->input_count; k++) {
            if (node->inputs[k] == NONE || own->of->values[node->inputs[k]].has_shape) continue;
            const size_t producer = own->of->values[node->inputs[k]].producer;
            lacks = made->group_of[producer] != made->group_of[nodes[i]];
        }
        if (lacks) drop(own, nodes[i], "it reads a value of unknown rank", "");
        found |= lacks;
    }
    return found;
}

/* Checks each group; *changed: nodes of one were unmarked. */
static OrtStatus *check_groups(choice *own, const partition *made, bool *changed) {
    OrtStatus *status = NULL;
    for (size_t i = 0; !status && i < made->group_count; i++) {
        const size_t *nodes = made->nodes + made->starts[i], count = made->starts[i + 1] - made->starts[i];
        engine_failure failure = {.code = ORT_OK};
        engine_verdict verdict = ENGINE_REFUSES;
        const uint64_t identity = identity_of(nodes, count);
        if (is_checked(own, identity)) continue;
        if (drop_rankless(own, made, nodes, count)) {
            *changed = true;
            continue;
        }
        status = ask(own, nodes, count, &verdict, &failure);
        if (status) break;
        if (verdict == ENGINE_FITS) {
            if (!keep_checked(own, identity)) status = provider_no_memory(&own->own->host);
        } else {
            *changed = true;
            status = drop_from(own, nodes, count, verdict, failure.message);
        }
    }
    return status;
}

/* Unmarks groups that only move elements. */
static bool drop_movers(choice *own, const partition *made) {
    bool changed = false;
    for (size_t i = 0; i < made->group_count; i++) {
        bool moves = true;
        for (size_t k = made->starts[i]; k < made->starts[i + 1]; k++)
            moves &= IS_AMONG(&own->of->nodes[made->nodes[k]], movers);
        for (size_t k = made->starts[i]; moves && k < made->starts[i + 1]; k++)
            own->marked[made->nodes[k]] = false;
        changed |= moves;
    }
    return changed;
}

/* Ends because each round unmarks at least one node. */
static OrtStatus *fit_groups(choice *own, partition *made) {
    OrtStatus *status = NULL;
    bool changed = true;
    while (!status && changed) {
        changed = false;
        partition_release(made);
        if (!partition_group(own->of, own->marked, made)) return provider_no_memory(&own->own->host);
        status = check_groups(own, made, &changed);
        if (!status && !changed) changed = drop_movers(own, made);
    }
    return status;
}

OrtStatus *partition_make(const provider *own, const graph *of, partition *made) {
    choice chosen = {.own = own, .of = of};
    *made = (partition){.group_count = 0};
    chosen.marked = calloc(of->node_count + 1, sizeof *chosen.marked);
    chosen.conditional = calloc(of->node_count + 1, sizeof *chosen.conditional);
    OrtStatus *status = NULL;
    if (!chosen.marked || !chosen.conditional) status = provider_no_memory(&own->host);
    for (size_t i = 0; !status && i < of->node_count; i++)
        status = examine(&chosen, i);
    if (!status) status = fit_groups(&chosen, made);
    free(chosen.marked);
    free(chosen.conditional);
    free(chosen.checked);
    if (status) partition_release(made);
    return status;
}
