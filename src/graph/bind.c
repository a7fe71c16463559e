/* Binding: copies the part of a graph that some outputs need into a new graph in which symbols are
 * numbers. */
#include <inttypes.h>
#include <string.h>

#include "graph/graph_private.h"

typedef struct graph_copying {
    const kn_graph *from;
    kn_graph *to;
    const kn_bind_request *request; /* NULL: copy with symbols */
    bool training;                  /* copies assigns and training-only operators */
    bool *needed;                   /* by node id in `from` */
    bool *direct;                   /* by value id in `from`: see find_direct; NULL: not used */
    kn_value **values;              /* copies, by value id in `from` */
    kn_error *error;
} graph_copying;

/* ---- what is needed ----------------------------------------------------------------------------- */

static void need_value(graph_copying *copying, const kn_value *value) {
    if (value && value->producer) copying->needed[value->producer->id] = true;
}

/* Nodes come after the nodes they read, so one backward pass suffices. */
static void need_inputs(graph_copying *copying) {
    for (size_t i = copying->from->node_count; i-- > 0;) {
        const kn_node *node = copying->from->nodes[i];
        for (int j = 0; copying->needed[i] && j < node->input_count; j++)
            need_value(copying, node->inputs[j]);
    }
}

/* Inference writes only caches, and only if they are read. */
static bool is_left_out(const graph_copying *copying, const kn_node *assign) {
    return !copying->training && assign->inputs[0]->role != KN_STATE_CACHE;
}

/* An assign is needed if a needed node reads its state, or if its value depends, directly or not, on results
 * of needed nodes. `states` and `made` are indexed by value id. */
static bool need_assigns(graph_copying *copying, bool *states, bool *made) {
    const kn_graph *from = copying->from;
    bool changed = false;
    memset(made, 0, from->value_count);
    for (size_t i = 0; i < from->node_count; i++) {
        const kn_node *node = from->nodes[i];
        bool is_assign = node->op->class == KN_CLASS_ASSIGN, from_needed = copying->needed[i];
        for (int j = 0; j < node->input_count; j++) {
            const kn_value *input = node->inputs[j];
            if (!input) continue;
            if (copying->needed[i] && !is_assign && input->kind == KN_VALUE_STATE) states[input->id] = true;
            if (made[input->id] && !(is_assign && j == 0)) from_needed = true;
        }
        for (int j = 0; j < node->output_count; j++)
            made[node->outputs[j]->id] = from_needed;
        if (!is_assign || copying->needed[i] || is_left_out(copying, node)) continue;
        if ((from_needed && copying->training) || states[node->inputs[0]->id])
            copying->needed[i] = changed = true;
    }
    /* Nodes after an assign may also read its state. */
    for (size_t i = 0; i < from->node_count; i++)
        if (from->nodes[i]->op->class == KN_CLASS_ASSIGN && !copying->needed[i] &&
            !is_left_out(copying, from->nodes[i]) && states[from->nodes[i]->inputs[0]->id])
            copying->needed[i] = changed = true;
    return changed;
}

static kn_status find_needed(graph_copying *copying, kn_value *const *outputs, size_t count) {
    const kn_graph *from = copying->from;
    for (size_t i = 0; i < count; i++)
        need_value(copying, outputs[i]);
    need_inputs(copying);
    bool assigns = copying->training;
    for (size_t i = 0; i < from->node_count && !assigns; i++)
        assigns = from->nodes[i]->op->class == KN_CLASS_ASSIGN && !is_left_out(copying, from->nodes[i]);
    if (!assigns) return KN_OK;
    bool *states = kn_allocate(&from->host, from->value_count + 1, sizeof *states);
    bool *made = kn_allocate(&from->host, from->value_count + 1, sizeof *made);
    bool memory = states && made;
    for (size_t i = 0; memory && i < count; i++)
        if (outputs[i]->kind == KN_VALUE_STATE) states[outputs[i]->id] = true;
    while (memory && need_assigns(copying, states, made))
        need_inputs(copying);
    kn_release(&from->host, states);
    kn_release(&from->host, made);
    return memory ? KN_OK : kn_fail_memory(copying->error, from->value_count);
}

/* Finds values that all readers can take in 16 bits: products, which widen what they read, and nodes that
 * move elements for products or for pointwise nodes, so that no whole table is widened. */
static void find_direct(const graph_copying *copying, kn_value *const *outputs, size_t count) {
    const kn_graph *from = copying->from;
    for (size_t v = 0; v < from->value_count; v++)
        copying->direct[v] = true;
    for (size_t i = 0; i < count; i++)
        copying->direct[outputs[i]->id] = outputs[i]->kind == KN_VALUE_RESULT;
    for (size_t n = from->node_count; n-- > 0;) {
        const kn_node *node = from->nodes[n];
        const bool moves = node->op->moves || node->op->class == KN_CLASS_VIEW;
        for (int i = 0; copying->needed[n] && i < node->input_count; i++) {
            const kn_value *input = node->inputs[i];
            if (!input || node->op->halves >> i & 1) continue;
            const bool made = node->op->class == KN_CLASS_POINTWISE && input->kind == KN_VALUE_RESULT;
            if (!made && !(moves && i == 0 && copying->direct[node->outputs[0]->id]))
                copying->direct[input->id] = false;
        }
    }
}

/* ---- copying -------------------------------------------------------------------------------------- */

static kn_status copy_dim(graph_copying *copying, kn_dim dim, kn_dim *result) {
    const kn_bind_request *request = copying->request;
    if (!request) return kn_dim_translate(copying->from, dim, copying->to, result, copying->error);
    return kn_dim_evaluate(copying->from, dim, request->bindings, request->binding_count, result,
                           copying->error);
}

static kn_status copy_shape(graph_copying *copying, const kn_value *value, kn_shape *shape) {
    *shape = (kn_shape){.dtype = value->shape.dtype, .rank = value->shape.rank};
    for (int i = 0; i < shape->rank; i++) {
        kn_status status = copy_dim(copying, value->shape.dims[i], &shape->dims[i]);
        if (status != KN_OK) return kn_fail_in(copying->error, "'%s'", value->name);
    }
    if (copying->request) {
        int64_t elements = kn_shape_elements(shape);
        if (elements < 0 || elements > INT64_MAX / (int64_t)kn_dtype_bytes(shape->dtype))
            return kn_fail(copying->error, KN_ERROR_SHAPE, "'%s' %s: size in bytes exceeds 64 bits",
                           value->name, kn_shape_words(copying->to, shape));
    }
    return KN_OK;
}

/* The storage type of the copy of a state. */
static kn_dtype stored_type(const graph_copying *copying, const kn_value *value) {
    const kn_bind_request *request = copying->request;
    const kn_dtype own = value->shape.dtype;
    if (value->kind != KN_VALUE_STATE || !request || request->training || !request->narrows) return own;
    kn_dtype type = value->stored;
    const bool weights = type == KN_FLOAT32 && own == KN_FLOAT32 && value->role == KN_STATE_PARAMETER;
    if (weights && copying->direct && copying->direct[value->id]) type = request->precision;
    return type == own ? own : request->narrows(request->user, value, type);
}

/* The blocks in which the copy of a state is stored, or NULL. */
static const kn_block_type *stored_blocks(const graph_copying *copying, const kn_value *value,
                                          const kn_shape *shape) {
    const kn_bind_request *request = copying->request;
    if (value->kind != KN_VALUE_STATE || value->role != KN_STATE_PARAMETER || value->assign || !request ||
        !request->blocks || (request->training && !value->frozen) || shape->dtype != KN_FLOAT32 ||
        shape->rank != 2)
        return NULL;
    const kn_block_type *blocks = request->blocks(request->user, value, request->training);
    return blocks && shape->dims[1] % blocks->weights == 0 ? blocks : NULL;
}

static kn_status convert(graph_copying *copying, kn_value *value, kn_dtype dtype, kn_value **converted) {
    *converted = kn_value_cast(value, dtype);
    if (!kn_value_failed(*converted)) return KN_OK;
    if (copying->error) *copying->error = copying->to->error;
    return copying->to->error.status;
}

static kn_status widen(graph_copying *copying, kn_value *value, kn_value **wide) {
    return convert(copying, value, KN_FLOAT32, wide);
}

static kn_status widen_blocks(graph_copying *copying, kn_value *state, kn_value **wide) {
    *wide = kn_value_widen_blocks(state);
    if (!kn_value_failed(*wide)) return KN_OK;
    if (copying->error) *copying->error = copying->to->error;
    return copying->to->error.status;
}

/* The narrow value that `value` is a cast of, or NULL. */
static kn_value *narrow_of(const kn_value *value) {
    const kn_node *cast = value ? value->producer : NULL;
    if (!cast || cast->derivative || strcmp(cast->op->name, "cast")) return NULL;
    bool widens = value->shape.dtype == KN_FLOAT32 && kn_is_half(cast->inputs[0]->shape.dtype);
    return widens ? cast->inputs[0] : NULL;
}

/* Lets a node read the narrow value instead of its cast if the operator widens that input itself or only
 * moves elements. Returns whether the result is narrow, too. */
static bool read_narrow(const graph_copying *copying, const kn_node *node, kn_value **inputs) {
    const kn_operator *row = node->op;
    if (copying->training || !copying->request->narrows || node->derivative) return false;
    for (int i = 0; i < node->input_count; i++)
        if (row->halves >> i & 1 && narrow_of(inputs[i])) inputs[i] = narrow_of(inputs[i]);
    bool moves = row->moves || row->class == KN_CLASS_VIEW;
    if (!moves || row->without_training || !narrow_of(inputs[0])) return false;
    inputs[0] = narrow_of(inputs[0]);
    return true;
}

/* Copies an input, state or constant; results are copied with their nodes. */
static kn_status copy_leaf(graph_copying *copying, const kn_value *value) {
    kn_shape shape;
    if (copying->values[value->id] || value->kind == KN_VALUE_RESULT) return KN_OK;
    kn_status status = copy_shape(copying, value, &shape);
    if (status != KN_OK) return status;
    kn_graph *to = copying->to;
    const kn_block_type *blocks = stored_blocks(copying, value, &shape);
    if (blocks) {
        shape.dtype = KN_UINT8;
        shape.dims[1] = shape.dims[1] / blocks->weights * blocks->bytes;
    }
    kn_value *copy = kn_value_make(to, value->kind, &shape);
    if (!copy || !kn_value_rename(to, copy, value->name)) return kn_fail_memory(copying->error, sizeof *copy);
    if (value->field) kn_input_alias(copy, value->field);
    copy->role = value->role;
    copy->initializer = value->initializer;
    copy->stored = value->stored;
    copy->outside = value->outside;
    copy->frozen = value->frozen;
    copy->scale = value->scale;
    if (value->contents.file && !kn_value_fill_from(copy, &value->contents))
        return kn_fail_memory(copying->error, sizeof copy->contents);
    if (value->data) {
        copy->data = kn_arena_copy(&to->arena, value->data, value->data_bytes, 1);
        copy->data_bytes = value->data_bytes;
        if (!copy->data) return kn_fail_memory(copying->error, value->data_bytes);
    }
    copying->values[value->id] = copy;
    copy->blocks = blocks ? blocks : value->blocks;
    if (blocks) return widen_blocks(copying, copy, &copying->values[value->id]);
    copy->shape.dtype = stored_type(copying, value);
    /* Readers of a narrow state get a cast of it. */
    return copy->shape.dtype == value->shape.dtype ? KN_OK
                                                   : widen(copying, copy, &copying->values[value->id]);
}

static kn_status copy_attributes(graph_copying *copying, const kn_node *node,
                                 kn_attribute_value *attributes) {
    /* Copy the attributes as given: the shape rule completes them again. */
    const kn_attribute_value *given = node->given ? node->given : node->attributes;
    memcpy(attributes, given, (size_t)node->op->attribute_count * sizeof *attributes);
    for (int i = 0; i < node->op->attribute_count; i++) {
        if (node->op->attributes[i].kind != KN_ATTRIBUTE_DIMS) continue;
        for (int j = 0; j < attributes[i].count; j++) {
            if (attributes[i].list[j] == -1) continue; /* for the shape rule to complete */
            kn_status status = copy_dim(copying, given[i].list[j], &attributes[i].list[j]);
            if (status != KN_OK)
                return kn_fail_in(copying->error, "%s '%s', attribute '%s'", node->op->name, node->name,
                                  node->op->attributes[i].name);
        }
    }
    return KN_OK;
}

typedef kn_status replace_function(kn_graph *bound, const kn_node *node, kn_value *const *inputs,
                                   kn_value **results);

/* Lets an operator build a replacement; the results keep the node's names. Sets *replaced. `what` is for
 * messages. */
static kn_status copy_replacement(graph_copying *copying, const kn_node *node, kn_value *const *inputs,
                                  replace_function *replace, const char *what, bool *replaced) {
    kn_value *results[KN_MAX_OUTPUTS] = {NULL};
    kn_graph *to = copying->to;
    size_t nodes = to->node_count;
    to->origin = node;
    kn_status status = replace(to, node, inputs, results);
    to->origin = NULL;
    *replaced = status != KN_OK || results[0];
    for (int i = 0; *replaced && status == KN_OK && i < node->output_count; i++) {
        bool made = results[i] && results[i]->producer && (size_t)results[i]->producer->id >= nodes;
        copying->values[node->outputs[i]->id] = results[i];
        if (made && !kn_value_rename(to, results[i], node->outputs[i]->name)) break;
    }
    if (to->error.status != KN_OK) {
        if (copying->error) *copying->error = to->error;
        return to->error.status;
    }
    if (status == KN_OK) return KN_OK;
    return kn_fail(copying->error, status, "%s '%s': failed to build its replacement %s", node->op->name,
                   node->name, what);
}

static bool reads_blocks(const kn_node *node, kn_value *const *inputs) {
    for (int i = 0; i < node->input_count; i++)
        if (kn_value_in_blocks(inputs[i])) return true;
    return false;
}

/* Tries the replacements of a row: for inference, which is mandatory, or at these sizes; then for blocks. */
static kn_status copy_replacements(graph_copying *copying, const kn_node *node, kn_value *const *inputs,
                                   bool *replaced) {
    const kn_operator *row = node->op;
    kn_status status = KN_OK;
    *replaced = false;
    if (!copying->training && row->without_training) {
        status = copy_replacement(copying, node, inputs, row->without_training, "for inference", replaced);
        *replaced = true;
    } else if (copying->request && row->at_sizes && !node->derivative) {
        status = copy_replacement(copying, node, inputs, row->at_sizes, "at these sizes", replaced);
    }
    if (status == KN_OK && !*replaced && copying->request && row->with_blocks && !node->derivative &&
        reads_blocks(node, inputs))
        status = copy_replacement(copying, node, inputs, row->with_blocks, "for blocks", replaced);
    return status;
}

/* The copy of a value that is read. A replacement lacks the hidden results for the row's gradient. */
static kn_status find_copy(graph_copying *copying, const kn_value *value, kn_value **copy) {
    kn_status status = copy_leaf(copying, value);
    *copy = copying->values[value->id];
    if (status != KN_OK || *copy) return status;
    return kn_fail(copying->error, KN_ERROR_UNSUPPORTED,
                   "%s '%s': output '%s' is only for gradients and is not available %s or do not fetch it",
                   value->producer->op->name, value->producer->name, value->name,
                   copying->training ? "at these sizes: use other sizes,"
                                     : "in inference: bind for training,");
}

/* Maps the inputs of a node to their copies. A cast that widens a state belongs to its first reader: it gets
 * that node's name and device. */
static kn_status copy_inputs(graph_copying *copying, const kn_node *node, kn_value **inputs) {
    kn_status status = KN_OK;
    copying->to->origin = node;
    for (int i = 0; i < node->input_count && status == KN_OK; i++) {
        inputs[i] = NULL;
        if (node->inputs[i]) status = find_copy(copying, node->inputs[i], &inputs[i]);
    }
    copying->to->origin = NULL;
    return status;
}

static kn_status widen_result(graph_copying *copying, const kn_node *node, kn_value *result) {
    copying->to->origin = node;
    kn_status status = widen(copying, result, &copying->values[node->outputs[0]->id]);
    copying->to->origin = NULL;
    return status;
}

/* Widens 16-bit inputs of a node that is computed in float32. */
static kn_status widen_inputs(graph_copying *copying, const kn_node *node, kn_value **inputs) {
    kn_status status = KN_OK;
    copying->to->origin = node;
    for (int i = 0; i < node->input_count && status == KN_OK; i++)
        if (inputs[i] && kn_is_half(inputs[i]->shape.dtype)) status = widen(copying, inputs[i], &inputs[i]);
    copying->to->origin = NULL;
    return status;
}

/* Casts results that were computed in float32 to the types in the caller's graph. */
static kn_status narrow_results(graph_copying *copying, const kn_node *node) {
    kn_status status = KN_OK;
    copying->to->origin = node;
    for (int i = 0; i < node->output_count && status == KN_OK; i++) {
        kn_value **copy = &copying->values[node->outputs[i]->id];
        const kn_dtype dtype = node->outputs[i]->shape.dtype;
        if (*copy && kn_is_half(dtype) && (*copy)->shape.dtype != dtype)
            status = convert(copying, *copy, dtype, copy);
    }
    copying->to->origin = NULL;
    return status;
}

static kn_status copy_node_with(graph_copying *copying, const kn_node *node, kn_value **inputs) {
    kn_attribute_value attributes[KN_MAX_ATTRIBUTES];
    if (!copying->training && node->op->training_only) {
        copying->values[node->outputs[0]->id] = inputs[0];
        return KN_OK;
    }
    bool moves = read_narrow(copying, node, inputs);
    bool replaced;
    kn_status status = copy_replacements(copying, node, inputs, &replaced);
    if (status == KN_OK && !replaced) status = copy_attributes(copying, node, attributes);
    if (status != KN_OK) return status;
    if (replaced) return moves ? widen_result(copying, node, copying->values[node->outputs[0]->id]) : KN_OK;
    kn_node_recipe recipe = {.row = node->op,
                             .name = node->name,
                             .inputs = inputs,
                             .count = node->input_count,
                             .attributes = attributes,
                             .derivative = node->derivative,
                             .origin = node};
    kn_shape shape;
    if (node->derivative) {
        status = copy_shape(copying, node->outputs[0], &shape);
        if (status != KN_OK) return status;
        recipe.derivative_shape = &shape;
    }
    kn_node *copy = kn_node_make(copying->to, &recipe);
    if (!copy) {
        if (copying->error) *copying->error = copying->to->error;
        return copying->to->error.status;
    }
    copy->compute = node->compute;
    copy->accumulate = node->accumulate;
    copy->tf32 = node->tf32;
    copy->device = node->device;
    copy->gradient = node->gradient;
    copy->stage = node->stage;
    for (int i = 0; i < node->output_count && i < copy->output_count; i++)
        copying->values[node->outputs[i]->id] = copy->outputs[i];
    return moves ? widen_result(copying, node, copy->outputs[0]) : KN_OK;
}

static kn_status copy_node(graph_copying *copying, const kn_node *node) {
    kn_value *inputs[KN_MAX_INPUTS];
    kn_status status = copy_inputs(copying, node, inputs);
    /* A copy with symbols keeps nodes unchanged. */
    const bool wide = copying->request && !kn_row_computes_halves(node->op, kn_node_halves(node));
    if (status == KN_OK && wide) status = widen_inputs(copying, node, inputs);
    if (status == KN_OK) status = copy_node_with(copying, node, inputs);
    return status == KN_OK && wide ? narrow_results(copying, node) : status;
}

static kn_status copy_outputs(graph_copying *copying, kn_value *const *outputs, size_t count,
                              kn_value **copies) {
    kn_graph *to = copying->to;
    void *list = NULL;
    if (!kn_reserve(&to->host, &list, &to->output_capacity, count + 1, sizeof *to->outputs))
        return kn_fail_memory(copying->error, count * sizeof *to->outputs);
    to->outputs = list;
    for (size_t i = 0; i < count; i++) {
        kn_status status = find_copy(copying, outputs[i], &copies[i]);
        if (status != KN_OK) return status;
        to->outputs[to->output_count++] = copies[i];
    }
    return KN_OK;
}

/* Appends the bindings to the error, as in "with batch=5, length=7". */
static void add_bindings_to_error(graph_copying *copying) {
    const kn_bind_request *request = copying->request;
    if (!request || request->binding_count == 0 || !copying->error ||
        copying->error->status == KN_ERROR_MEMORY)
        return;
    kn_text words;
    kn_text_init(&words, &copying->from->host);
    for (size_t i = 0; i < request->binding_count; i++)
        kn_text_format(&words, "%s%s=%" PRId64, i ? ", " : "", request->bindings[i].symbol,
                       request->bindings[i].value);
    kn_fail_in(copying->error, "with %s", words.data);
    kn_text_finish(&words);
}

static kn_status check_request(const kn_graph *graph, kn_value *const *outputs, size_t count,
                               const kn_bind_request *request, kn_error *error) {
    for (size_t i = 0; i < count; i++) {
        if (kn_value_failed(outputs[i])) {
            if (graph->error.status != KN_OK) return kn_error_copy(error, &graph->error);
            return kn_fail(error, KN_ERROR_ARGUMENT, "output %zu is %s", i,
                           outputs[i] ? "a failed value" : "NULL");
        }
        if (outputs[i]->graph != graph)
            return kn_fail(error, KN_ERROR_ARGUMENT, "output '%s' belongs to another graph",
                           outputs[i]->name);
    }
    for (size_t i = 0; request && i < request->binding_count; i++) {
        const kn_binding *binding = &request->bindings[i];
        if (binding->value < 0)
            return kn_fail(error, KN_ERROR_SHAPE, "the size '%s' cannot be negative: %" PRId64,
                           binding->symbol, binding->value);
    }
    return KN_OK;
}

static kn_status copy_graph(const kn_graph *graph, kn_value *const *outputs, size_t count,
                            const kn_bind_request *request, kn_graph **result, kn_value **copies,
                            kn_error *error) {
    *result = NULL;
    kn_status status = check_request(graph, outputs, count, request, error);
    if (status != KN_OK) return status;
    kn_graph_params params = KN_GRAPH_DEFAULTS;
    params.allocator = graph->host.allocator;
    params.log = graph->host.log;
    graph_copying copying = {
        .from = graph, .request = request, .error = error, .training = !request || request->training};
    copying.to = kn_graph_create(&params);
    copying.needed = kn_allocate(&graph->host, graph->node_count + 1, sizeof *copying.needed);
    copying.values = kn_allocate(&graph->host, graph->value_count + 1, sizeof *copying.values);
    const bool halves = request && !request->training && request->precision != KN_FLOAT32;
    if (halves) copying.direct = kn_allocate(&graph->host, graph->value_count + 1, sizeof *copying.direct);
    if (!copying.to || !copying.needed || !copying.values || (halves && !copying.direct))
        status = kn_fail_memory(error, sizeof *copying.to);
    if (status == KN_OK && request) {
        copying.to->bound = true;
        copying.to->training = request->training;
        copying.to->rounds_activations = request->rounds_activations && !request->training;
        copying.to->seed = request->seed;
    }
    if (status == KN_OK) status = find_needed(&copying, outputs, count);
    if (status == KN_OK && halves) find_direct(&copying, outputs, count);
    for (size_t i = 0; status == KN_OK && !request && i < count; i++)
        if (outputs[i]->kind == KN_VALUE_INPUT) status = copy_leaf(&copying, outputs[i]);
    for (size_t i = 0; status == KN_OK && i < graph->node_count; i++)
        if (copying.needed[i]) status = copy_node(&copying, graph->nodes[i]);
    if (status == KN_OK) status = copy_outputs(&copying, outputs, count, copies);
    if (status == KN_OK)
        status = request ? kn_differences_check(graph, request, error)
                         : kn_differences_copy(graph, copying.to, error);
    if (status != KN_OK) {
        add_bindings_to_error(&copying);
        kn_graph_destroy(&copying.to);
    }
    kn_release(&graph->host, copying.needed);
    kn_release(&graph->host, copying.direct);
    kn_release(&graph->host, copying.values);
    *result = copying.to;
    return status;
}

kn_status kn_graph_bind(const kn_graph *graph, kn_value *const *outputs, size_t count,
                        const kn_bind_request *request, kn_graph **bound, kn_value **bound_outputs,
                        kn_error *error) {
    kn_status status = copy_graph(graph, outputs, count, request, bound, bound_outputs, error);
    if (status == KN_OK) status = kn_graph_fold(*bound, error);
    if (status != KN_OK) kn_graph_destroy(bound);
    return status;
}

kn_status kn_graph_try(const kn_graph *graph, kn_value *const *outputs, size_t count,
                       const kn_bind_request *request, kn_error *error) {
    kn_graph *bound = NULL;
    kn_value **copies = kn_allocate(&graph->host, count + 1, sizeof(kn_value *));
    if (!copies) return kn_fail_memory(error, count * sizeof *copies);
    kn_status status = copy_graph(graph, outputs, count, request, &bound, copies, error);
    kn_graph_destroy(&bound);
    kn_release(&graph->host, copies);
    return status;
}

kn_status kn_graph_needed(const kn_graph *graph, kn_value *output, bool *needed, kn_error *error) {
    graph_copying copying = {.from = graph, .training = true, .needed = needed, .error = error};
    return find_needed(&copying, &output, 1);
}

kn_graph *kn_graph_part(const kn_graph *bound) {
    kn_graph_params params = KN_GRAPH_DEFAULTS;
    params.allocator = bound->host.allocator;
    params.log = bound->host.log;
    kn_graph *part = kn_graph_create(&params);
    if (!part) return NULL;
    part->bound = true;
    part->training = bound->training;
    part->rounds_activations = bound->rounds_activations;
    part->seed = bound->seed;
    return part;
}

kn_status kn_leaf_copy(const kn_graph *bound, const kn_value *leaf, kn_graph *part, kn_value **values,
                       kn_error *error) {
    graph_copying copying = {.from = bound, .to = part, .training = true, .values = values, .error = error};
    return copy_leaf(&copying, leaf);
}

kn_status kn_node_copy(const kn_graph *bound, const kn_node *node, kn_graph *part, kn_value **values,
                       kn_error *error) {
    graph_copying copying = {.from = bound, .to = part, .training = true, .values = values, .error = error};
    return copy_node(&copying, node);
}

kn_status kn_graph_copy(const kn_graph *graph, kn_value *const *outputs, size_t count, kn_graph **copy,
                        kn_value **copied_outputs, kn_error *error) {
    return copy_graph(graph, outputs, count, NULL, copy, copied_outputs, error);
}
