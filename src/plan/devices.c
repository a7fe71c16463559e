/* Assigns a device to each node and state of a bound graph.
 *
 * Nodes that the caller added run on the device that they are pinned to, or on the context's primary device;
 * views run on the device of the value under them. Gradient nodes follow their forward node. Other nodes that
 * the library added, such as updates, run on the device with most bytes of their inputs. A state is on the
 * device that reads it first, unless another session has already allocated it elsewhere. */
#include <string.h>

#include "plan/plan_private.h"

static kn_status fail_unknown(const kn_plan_devices *devices, const kn_node *node, kn_error *error) {
    kn_text list;
    kn_text_init(&list, devices->host);
    for (int i = 0; i < devices->count; i++)
        kn_text_format(&list, "%s%s", i ? ", " : "", devices->names[i]);
    const char *nearest = kn_nearest_word(node->pin, devices->names, (size_t)devices->count);
    kn_status status =
        kn_fail(error, KN_ERROR_NOT_FOUND,
                "%s '%s' is pinned to the device '%s', which is not in the context%s%s%s; it has: %s",
                node->op->name, node->name, node->pin, nearest ? " (did you mean '" : "",
                nearest ? nearest : "", nearest ? "'?)" : "", list.data ? list.data : "");
    kn_text_finish(&list);
    return status;
}

static int find_device(const kn_plan_devices *devices, const char *name) {
    for (int i = 0; i < devices->count; i++)
        if (!strcmp(devices->names[i], name)) return i;
    return -1;
}

static bool has_remote_state(const kn_plan_devices *devices, const kn_graph *graph) {
    for (size_t i = 0; devices->count > 1 && i < graph->value_count; i++)
        if (graph->values[i]->kind == KN_VALUE_STATE && devices->home(devices->user, graph->values[i]) > 0)
            return true;
    return false;
}

static bool is_view(const kn_node *node) {
    return node->op->class == KN_CLASS_VIEW;
}

/* Assigns nodes without a pin. Views of inputs, states and constants go to the device that reads them
 * first. */
static void assign_unpinned(kn_graph *graph) {
    for (size_t i = 0; i < graph->node_count; i++) {
        kn_node *node = graph->nodes[i];
        const kn_node *before = is_view(node) && node->inputs[0] ? node->inputs[0]->producer : NULL;
        if (node->device < 0 && !is_view(node)) node->device = 0;
        if (node->device < 0 && before) node->device = before->device;
    }
    for (size_t i = graph->node_count; i-- > 0;) {
        const kn_node *node = graph->nodes[i];
        for (int j = 0; j < node->input_count; j++) {
            kn_node *view = node->inputs[j] ? node->inputs[j]->producer : NULL;
            if (view && is_view(view) && !view->pin &&
                kn_value_root(node->inputs[j])->kind != KN_VALUE_RESULT)
                view->device = node->device;
        }
    }
    for (size_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->device < 0) graph->nodes[i]->device = 0;
}

kn_status kn_devices_mark(const kn_plan_devices *devices, kn_graph *bound, bool *several, kn_error *error) {
    *several = false;
    for (size_t i = 0; i < bound->node_count; i++) {
        kn_node *node = bound->nodes[i];
        if (!node->pin) continue;
        node->device = find_device(devices, node->pin);
        if (node->device < 0) return fail_unknown(devices, node, error);
        *several = *several || node->device > 0;
    }
    *several = *several || has_remote_state(devices, bound);
    if (*several)
        assign_unpinned(bound);
    else /* with a single device, pins must not distinguish equal nodes */
        for (size_t i = 0; i < bound->node_count; i++)
            bound->nodes[i]->device = -1;
    return KN_OK;
}

/* ---- nodes added after the pins -------------------------------------------------------------- */

typedef struct assignment {
    kn_graph *graph;
    int *homes;   /* by value id, of states; -1: unknown */
    bool scalars; /* whether scalars count: only for nodes without a larger input on a device */
} assignment;

static bool is_assign(const kn_node *node) {
    return node->op->class == KN_CLASS_ASSIGN;
}

static int locate(const assignment *work, const kn_value *value) {
    if (value->producer) return value->producer->device;
    return value->kind == KN_VALUE_STATE ? work->homes[value->id] : -1;
}

/* The device of the largest input of a node; -1: unknown. */
static int device_of_inputs(const assignment *work, const kn_node *node) {
    uint64_t most = 0;
    int device = -1;
    for (int i = 0; i < node->input_count; i++) {
        uint64_t bytes;
        const kn_value *value = node->inputs[i];
        if (!value || locate(work, value) < 0 || !kn_value_bytes(value, &bytes)) continue;
        if (!work->scalars && kn_shape_elements(&value->shape) <= 1) continue;
        if (device < 0 || bytes > most) device = locate(work, value), most = bytes;
    }
    return device;
}

static bool assign_states(assignment *work) {
    bool changed = false;
    for (size_t i = 0; i < work->graph->node_count; i++) {
        const kn_node *node = work->graph->nodes[i];
        if (is_assign(node) || node->device < 0) continue;
        for (int j = 0; j < node->input_count; j++) {
            const kn_value *value = node->inputs[j];
            if (!value || value->kind != KN_VALUE_STATE || work->homes[value->id] >= 0) continue;
            work->homes[value->id] = node->device;
            changed = true;
        }
    }
    return changed;
}

/* A forward sweep assigns nodes to the device of their inputs, a backward sweep to the device of their
 * readers. */
static bool assign_nodes(assignment *work) {
    bool changed = false;
    for (size_t i = 0; i < work->graph->node_count; i++) {
        kn_node *node = work->graph->nodes[i];
        if (node->device >= 0 || is_assign(node)) continue;
        node->device = device_of_inputs(work, node);
        changed = changed || node->device >= 0;
    }
    for (size_t i = work->graph->node_count; i-- > 0;) {
        const kn_node *node = work->graph->nodes[i];
        int device = is_assign(node) ? work->homes[node->inputs[0]->id] : node->device;
        for (int j = is_assign(node) ? 1 : 0; device >= 0 && j < node->input_count; j++) {
            kn_node *before = node->inputs[j] ? node->inputs[j]->producer : NULL;
            if (!before || before->device >= 0) continue;
            before->device = device;
            changed = true;
        }
    }
    return changed;
}

/* Nodes that nothing determines, and assigns, which run on the device of their state. */
static void assign_rest(assignment *work) {
    for (size_t i = 0; i < work->graph->node_count; i++)
        if (work->graph->nodes[i]->device < 0 && !is_assign(work->graph->nodes[i]))
            work->graph->nodes[i]->device = 0;
    assign_states(work);
    for (size_t i = 0; i < work->graph->node_count; i++) {
        kn_node *node = work->graph->nodes[i];
        if (!is_assign(node)) continue;
        int *home = &work->homes[node->inputs[0]->id], value = locate(work, node->inputs[1]);
        if (*home < 0) *home = value > 0 ? value : 0;
        node->device = *home;
    }
    for (size_t i = 0; i < work->graph->value_count; i++)
        if (work->graph->values[i]->kind == KN_VALUE_STATE && work->homes[i] < 0) work->homes[i] = 0;
}

kn_status kn_devices_assign(const kn_plan_devices *devices, kn_graph *bound, int **homes, kn_error *error) {
    assignment work = {.graph = bound};
    *homes = work.homes = kn_arena_take(&bound->arena, bound->value_count + 1, sizeof *work.homes);
    if (!work.homes) return kn_fail_memory(error, bound->value_count * sizeof *work.homes);
    for (size_t i = 0; i < bound->value_count; i++)
        work.homes[i] =
            bound->values[i]->kind == KN_VALUE_STATE ? devices->home(devices->user, bound->values[i]) : -1;
    for (;;) {
        bool changed = assign_states(&work);
        if (assign_nodes(&work) || changed) continue;
        if (work.scalars) break;
        work.scalars = true;
    }
    assign_rest(&work);
    return KN_OK;
}
