/* A graph of several devices, cut into one for each. Nodes are handed out in the order of the graph; what
 * another device reads is sent as soon as it is made, and received when it is first read. The transfers of a
 * device are chained in this order, so that each device may do them one after the other without ever waiting
 * for one that waits for it. */
#include "plan/plan_private.h"

typedef struct splitting {
    const kn_graph *whole;
    const int *homes;
    int count;
    kn_part *parts;
    kn_value **values[KN_CONTEXT_DEVICES]; /* by id in the whole: what stands for it in a part, or NULL */
    kn_value *tokens[KN_CONTEXT_DEVICES];  /* of the last transfer */
    unsigned *readers;                     /* by id: a bit for each device that reads it */
    int *numbers;                          /* by id and device: of the transfer, from 0 */
    int transfers;
    kn_error *error;
} splitting;

/* The device that has a value; -1: each that reads it. */
static int owner_of(const splitting *work, const kn_value *value) {
    if (value->producer) return value->producer->device;
    return value->kind == KN_VALUE_STATE ? work->homes[value->id] : -1;
}

static int *number_of(const splitting *work, const kn_value *value, int device) {
    return &work->numbers[value->id * work->count + device];
}

static kn_status check(const splitting *work, int device, const kn_value *value) {
    const kn_graph *part = work->parts[device].graph;
    if (!kn_value_failed(value)) return KN_OK;
    return kn_fail(work->error, part->error.status ? part->error.status : KN_ERROR_MEMORY, "%s",
                   part->error.text);
}

/* From its owner to all others that read it. */
static kn_status send(splitting *work, const kn_value *value) {
    int owner = owner_of(work, value);
    for (int device = 0; device < work->count; device++) {
        if (device == owner || !(work->readers[value->id] >> device & 1)) continue;
        *number_of(work, value, device) = work->transfers;
        kn_value *token = kn_send_add(work->parts[owner].graph, work->values[owner][value->id],
                                      work->transfers++, device, work->tokens[owner]);
        kn_status status = check(work, owner, token);
        if (status != KN_OK) return status;
        work->tokens[owner] = token;
    }
    return KN_OK;
}

static kn_status receive(splitting *work, const kn_value *value, int device) {
    int owner = owner_of(work, value);
    kn_value *result = NULL;
    kn_value *token = kn_receive_add(work->parts[device].graph, value, *number_of(work, value, device), owner,
                                     work->tokens[device], &result);
    kn_status status = check(work, device, token);
    if (status != KN_OK) return status;
    work->values[device][value->id] = result;
    work->tokens[device] = token;
    return KN_OK;
}

static kn_status hand_out(splitting *work, const kn_node *node) {
    int device = node->device;
    for (int i = 0; i < node->input_count; i++) {
        const kn_value *input = node->inputs[i];
        if (!input || work->values[device][input->id] || owner_of(work, input) < 0 ||
            owner_of(work, input) == device)
            continue;
        kn_status status = receive(work, input, device);
        if (status != KN_OK) return status;
    }
    kn_status status =
        kn_node_copy(work->whole, node, work->parts[device].graph, work->values[device], work->error);
    for (int k = 0; k < node->output_count && status == KN_OK; k++)
        status = send(work, node->outputs[k]);
    return status;
}

/* States that another device reads are sent first of all, as they are before the run. */
static kn_status send_states(splitting *work) {
    kn_status status = KN_OK;
    for (size_t i = 0; i < work->whole->value_count && status == KN_OK; i++) {
        const kn_value *state = work->whole->values[i];
        if (state->kind != KN_VALUE_STATE || !(work->readers[i] & ~(1u << work->homes[i]))) continue;
        int home = work->homes[i];
        status = kn_leaf_copy(work->whole, state, work->parts[home].graph, work->values[home], work->error);
        if (status == KN_OK) status = send(work, state);
    }
    return status;
}

static kn_status prepare(splitting *work) {
    size_t count = work->whole->value_count;
    const kn_host *host = &work->whole->host;
    work->readers = kn_allocate(host, count + 1, sizeof *work->readers);
    work->numbers = kn_allocate(host, count + 1, (size_t)work->count * sizeof *work->numbers);
    bool memory = work->readers && work->numbers;
    for (int device = 0; device < work->count; device++) {
        work->parts[device].graph = kn_graph_part(work->whole);
        work->values[device] = kn_allocate(host, count + 1, sizeof(kn_value *));
        memory = memory && work->parts[device].graph && work->values[device];
    }
    if (!memory) return kn_fail_memory(work->error, count * (size_t)work->count * sizeof *work->numbers);
    for (size_t i = 0; i < work->whole->node_count; i++) {
        const kn_node *node = work->whole->nodes[i];
        for (int j = 0; j < node->input_count; j++)
            if (node->inputs[j]) work->readers[node->inputs[j]->id] |= 1u << node->device;
    }
    return KN_OK;
}

/* What the caller wants of each part, and the last transfer, on which all others depend. */
static kn_status want(splitting *work, kn_value *const *values, size_t count, kn_part_place *places) {
    for (int device = 0; device < work->count; device++) {
        kn_part *part = &work->parts[device];
        part->wanted = kn_arena_take(&part->graph->arena, count + 1, sizeof(kn_value *));
        if (!part->wanted) return kn_fail_memory(work->error, count * sizeof(kn_value *));
    }
    for (size_t i = 0; i < count; i++) {
        const kn_value *value = values[i];
        int device = owner_of(work, value) > 0 ? owner_of(work, value) : 0;
        kn_part *part = &work->parts[device];
        kn_status status = value->producer ? KN_OK
                                           : kn_leaf_copy(work->whole, value, part->graph,
                                                          work->values[device], work->error);
        if (status != KN_OK) return status;
        places[i] = (kn_part_place){device, part->wanted_count};
        part->wanted[part->wanted_count++] = work->values[device][value->id];
    }
    for (int device = 0; device < work->count; device++) {
        kn_part *part = &work->parts[device];
        if (work->tokens[device]) part->wanted[part->wanted_count++] = work->tokens[device];
        for (size_t i = 0; i < part->wanted_count; i++)
            part->wanted[i]->wanted = true;
    }
    return KN_OK;
}

static kn_status simplify(kn_graph *whole, kn_value **values, size_t count, kn_error *error) {
    kn_planner planner = {
        .host = &whole->host, .graph = whole, .wanted = values, .wanted_count = count, .error = error};
    return kn_pass_simplify(&planner);
}

kn_status kn_cut_graph(kn_graph *whole, const int *homes, kn_value **values, size_t count, int devices,
                       kn_part parts[KN_CONTEXT_DEVICES], kn_part_place *places, int *transfers,
                       kn_error *error) {
    splitting work = {.whole = whole, .homes = homes, .count = devices, .parts = parts, .error = error};
    for (int device = 0; device < KN_CONTEXT_DEVICES; device++)
        parts[device] = (kn_part){.graph = NULL};
    kn_status status = simplify(whole, values, count, error);
    if (status != KN_OK) return status;
    status = prepare(&work);
    if (status == KN_OK) status = send_states(&work);
    for (size_t i = 0; i < whole->node_count && status == KN_OK; i++)
        status = hand_out(&work, whole->nodes[i]);
    if (status == KN_OK) status = want(&work, values, count, places);
    *transfers = work.transfers;
    kn_release(&whole->host, work.readers);
    kn_release(&whole->host, work.numbers);
    for (int device = 0; device < work.count; device++) {
        kn_release(&whole->host, work.values[device]);
        if (status != KN_OK) kn_graph_destroy(&parts[device].graph);
    }
    return status;
}
