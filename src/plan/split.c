/* Splits a graph on several devices into one graph per device. Nodes are assigned in graph order; a value
 * that another device reads is sent as soon as it is computed, and received before it is first read. The
 * transfers of each device are chained in this order, so that devices executing them in sequence cannot
 * deadlock. */
#include "plan/plan_private.h"

typedef struct split_pass {
    const kn_graph *whole;
    const int *homes;
    int count;
    kn_part *parts;
    kn_value **values[KN_CONTEXT_MAX_DEVICES]; /* by id in the whole graph: its copy in the part, or NULL */
    kn_value *tokens[KN_CONTEXT_MAX_DEVICES];  /* by device: token of its last transfer */
    unsigned *readers;                         /* by id: bit mask of the devices that read it */
    int *numbers;                              /* by id and device: the number of the transfer, from 0 */
    int transfers;
    kn_error *error;
} split_pass;

/* The device that has a value; -1: each reader has a copy. */
static int owner_of(const split_pass *pass, const kn_value *value) {
    if (value->producer) return value->producer->device;
    return value->kind == KN_VALUE_STATE ? pass->homes[value->id] : -1;
}

static int *number_of(const split_pass *pass, const kn_value *value, int device) {
    return &pass->numbers[value->id * pass->count + device];
}

static kn_status check(const split_pass *pass, int device, const kn_value *value) {
    const kn_graph *part = pass->parts[device].graph;
    if (!kn_value_failed(value)) return KN_OK;
    return kn_fail(pass->error, part->error.status ? part->error.status : KN_ERROR_MEMORY, "%s",
                   part->error.text);
}

/* Sends a value from its device to all other devices that read it. */
static kn_status send(split_pass *pass, const kn_value *value) {
    int owner = owner_of(pass, value);
    for (int device = 0; device < pass->count; device++) {
        if (device == owner || !(pass->readers[value->id] >> device & 1)) continue;
        *number_of(pass, value, device) = pass->transfers;
        kn_value *token = kn_send_add(pass->parts[owner].graph, pass->values[owner][value->id],
                                      pass->transfers++, device, pass->tokens[owner]);
        kn_status status = check(pass, owner, token);
        if (status != KN_OK) return status;
        pass->tokens[owner] = token;
    }
    return KN_OK;
}

static kn_status receive(split_pass *pass, const kn_value *value, int device) {
    int owner = owner_of(pass, value);
    kn_value *result = NULL;
    kn_value *token = kn_receive_add(pass->parts[device].graph, value, *number_of(pass, value, device), owner,
                                     pass->tokens[device], &result);
    kn_status status = check(pass, device, token);
    if (status != KN_OK) return status;
    pass->values[device][value->id] = result;
    pass->tokens[device] = token;
    return KN_OK;
}

static kn_status assign_node(split_pass *pass, const kn_node *node) {
    int device = node->device;
    for (int i = 0; i < node->input_count; i++) {
        const kn_value *input = node->inputs[i];
        if (!input || pass->values[device][input->id] || owner_of(pass, input) < 0 ||
            owner_of(pass, input) == device)
            continue;
        kn_status status = receive(pass, input, device);
        if (status != KN_OK) return status;
    }
    kn_status status =
        kn_node_copy(pass->whole, node, pass->parts[device].graph, pass->values[device], pass->error);
    for (int k = 0; k < node->output_count && status == KN_OK; k++)
        status = send(pass, node->outputs[k]);
    return status;
}

/* States that another device reads are sent first, with their contents before the run. */
static kn_status send_states(split_pass *pass) {
    kn_status status = KN_OK;
    for (size_t i = 0; i < pass->whole->value_count && status == KN_OK; i++) {
        const kn_value *state = pass->whole->values[i];
        if (state->kind != KN_VALUE_STATE || !(pass->readers[i] & ~(1u << pass->homes[i]))) continue;
        int home = pass->homes[i];
        status = kn_leaf_copy(pass->whole, state, pass->parts[home].graph, pass->values[home], pass->error);
        if (status == KN_OK) status = send(pass, state);
    }
    return status;
}

static kn_status prepare(split_pass *pass) {
    size_t count = pass->whole->value_count;
    const kn_host *host = &pass->whole->host;
    pass->readers = kn_allocate(host, count + 1, sizeof *pass->readers);
    pass->numbers = kn_allocate(host, count + 1, (size_t)pass->count * sizeof *pass->numbers);
    bool memory = pass->readers && pass->numbers;
    for (int device = 0; device < pass->count; device++) {
        pass->parts[device].graph = kn_graph_part(pass->whole);
        pass->values[device] = kn_allocate(host, count + 1, sizeof(kn_value *));
        memory = memory && pass->parts[device].graph && pass->values[device];
    }
    if (!memory) return kn_fail_memory(pass->error, count * (size_t)pass->count * sizeof *pass->numbers);
    for (size_t i = 0; i < pass->whole->node_count; i++) {
        const kn_node *node = pass->whole->nodes[i];
        for (int j = 0; j < node->input_count; j++)
            if (node->inputs[j]) pass->readers[node->inputs[j]->id] |= 1u << node->device;
    }
    return KN_OK;
}

/* Sets the wanted values of each part: the caller's, and the token of its last transfer, which depends on all
 * other transfers. */
static kn_status want(split_pass *pass, kn_value *const *values, size_t count, kn_part_place *places) {
    for (int device = 0; device < pass->count; device++) {
        kn_part *part = &pass->parts[device];
        part->wanted = kn_arena_take(&part->graph->arena, count + 1, sizeof(kn_value *));
        if (!part->wanted) return kn_fail_memory(pass->error, count * sizeof(kn_value *));
    }
    for (size_t i = 0; i < count; i++) {
        const kn_value *value = values[i];
        int device = owner_of(pass, value) > 0 ? owner_of(pass, value) : 0;
        kn_part *part = &pass->parts[device];
        kn_status status = value->producer ? KN_OK
                                           : kn_leaf_copy(pass->whole, value, part->graph,
                                                          pass->values[device], pass->error);
        if (status != KN_OK) return status;
        places[i] = (kn_part_place){device, part->wanted_count};
        part->wanted[part->wanted_count++] = pass->values[device][value->id];
    }
    for (int device = 0; device < pass->count; device++) {
        kn_part *part = &pass->parts[device];
        if (pass->tokens[device]) part->wanted[part->wanted_count++] = pass->tokens[device];
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
                       kn_part parts[KN_CONTEXT_MAX_DEVICES], kn_part_place *places, int *transfers,
                       kn_error *error) {
    split_pass pass = {.whole = whole, .homes = homes, .count = devices, .parts = parts, .error = error};
    for (int device = 0; device < KN_CONTEXT_MAX_DEVICES; device++)
        parts[device] = (kn_part){.graph = NULL};
    kn_status status = simplify(whole, values, count, error);
    if (status != KN_OK) return status;
    status = prepare(&pass);
    if (status == KN_OK) status = send_states(&pass);
    for (size_t i = 0; i < whole->node_count && status == KN_OK; i++)
        status = assign_node(&pass, whole->nodes[i]);
    if (status == KN_OK) status = want(&pass, values, count, places);
    *transfers = pass.transfers;
    kn_release(&whole->host, pass.readers);
    kn_release(&whole->host, pass.numbers);
    for (int device = 0; device < pass.count; device++) {
        kn_release(&whole->host, pass.values[device]);
        if (status != KN_OK) kn_graph_destroy(&parts[device].graph);
    }
    return status;
}
