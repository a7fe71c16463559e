/* Gradients: reverse-mode differentiation of a scalar, from graph to graph. */
#include <string.h>

#include "graph/graph_private.h"

typedef struct gradient_work {
    kn_graph *graph;
    bool *reaches;        /* by id: depends on a value whose gradient is wanted */
    kn_value **gradients; /* by id: the gradient accumulated so far */
    kn_error *error;
} gradient_work;

static kn_status graph_status(const gradient_work *work) {
    if (work->graph->error.status == KN_OK) return KN_OK;
    if (work->error) *work->error = work->graph->error;
    return work->graph->error.status;
}

/* ---- undoing broadcasts ------------------------------------------------------------------------------ */

static void set_list(const kn_operator *row, kn_attribute_value *attributes, const char *name, int count,
                     const kn_dim *numbers) {
    for (int i = 0; i < row->attribute_count; i++)
        if (strcmp(row->attributes[i].name, name) == 0) {
            attributes[i].count = count;
            memcpy(attributes[i].list, numbers, (size_t)count * sizeof *numbers);
        }
}

static void set_integer(const kn_operator *row, kn_attribute_value *attributes, const char *name,
                        int64_t number) {
    for (int i = 0; i < row->attribute_count; i++)
        if (strcmp(row->attributes[i].name, name) == 0) {
            attributes[i].integer = number;
            attributes[i].number = (double)number;
        }
}

static kn_value *apply(kn_graph *graph, const char *name, kn_value *const *inputs, int count,
                       const kn_attribute_value *attributes) {
    const kn_operator *row = kn_operator_find(name);
    if (!row)
        return kn_graph_fail(graph, KN_ERROR_INTERNAL, "gradients need the operator '%s', which is missing",
                             name);
    return kn_node_add(graph, row, NULL, inputs, count, attributes);
}

/* Sums `gradient` over the axes along which `shape` was broadcast; the result has `shape`. */
static kn_value *sum_to_shape(kn_graph *graph, kn_value *gradient, const kn_shape *shape) {
    if (gradient->failed || kn_shape_same(&gradient->shape, shape)) return gradient;
    int missing = gradient->shape.rank - shape->rank, count = 0;
    kn_dim axes[KN_MAX_RANK];
    bool inner = false;
    for (int i = 0; i < gradient->shape.rank; i++) {
        if (i >= missing && shape->dims[i - missing] == gradient->shape.dims[i]) continue;
        axes[count++] = i;
        inner = inner || i >= missing;
    }
    if (count > 0) {
        const kn_operator *row = kn_operator_find("sum");
        kn_attribute_value attributes[KN_MAX_ATTRIBUTES] = {{0}};
        if (row) {
            kn_attributes_defaults(graph, row, attributes);
            set_list(row, attributes, "axes", count, axes);
            set_integer(row, attributes, "keep", inner);
        }
        gradient = apply(graph, "sum", &gradient, 1, attributes);
    }
    if (gradient->failed || kn_shape_same(&gradient->shape, shape)) return gradient;
    const kn_operator *row = kn_operator_find("reshape");
    kn_attribute_value attributes[KN_MAX_ATTRIBUTES] = {{0}};
    if (row) {
        kn_attributes_defaults(graph, row, attributes);
        set_list(row, attributes, "shape", shape->rank, shape->dims);
    }
    return apply(graph, "reshape", &gradient, 1, attributes);
}

kn_value *kn_gradient_zero(kn_graph *graph, const kn_value *value) {
    const kn_operator *row = kn_operator_find("broadcast");
    kn_attribute_value attributes[KN_MAX_ATTRIBUTES] = {{0}};
    double zero = 0;
    kn_value *number = kn_constant_add(graph, &(kn_shape){.dtype = value->shape.dtype}, &zero,
                                       kn_dtype_bytes(value->shape.dtype));
    if (row) {
        kn_attributes_defaults(graph, row, attributes);
        set_list(row, attributes, "shape", value->shape.rank, value->shape.dims);
    }
    return apply(graph, "broadcast", &number, 1, attributes);
}

/* ---- one node ------------------------------------------------------------------------------------------ */

/* The rule of a pointwise row: an expression per input. "g" needs no kernel. */
static kn_status pointwise_gradient(kn_gradient_call *call) {
    const kn_operator *row = call->node->op;
    for (int i = 0; i < call->node->input_count; i++) {
        if (!call->wanted[i] || i >= (int)KN_COUNT_OF(row->by) || !row->by[i]) continue;
        kn_value *gradient = call->output_gradients[0];
        if (strcmp(row->by[i], "g") != 0 || gradient->shape.dtype != call->node->inputs[i]->shape.dtype)
            gradient = kn_node_add_derivative(call->graph, call->node, i, gradient);
        call->input_gradients[i] = sum_to_shape(call->graph, gradient, &call->node->inputs[i]->shape);
    }
    return KN_OK;
}

static kn_status accumulate(gradient_work *work, const kn_node *node, int input, kn_value *gradient) {
    const kn_value *value = node->inputs[input];
    if (gradient->failed) return graph_status(work);
    if (!kn_shape_same(&gradient->shape, &value->shape) || gradient->shape.dtype != value->shape.dtype)
        return kn_fail(work->error, KN_ERROR_INTERNAL,
                       "the gradient of %s '%s' with respect to input %d is %s, but the input is %s",
                       node->op->name, node->name, input + 1, kn_shape_words(work->graph, &gradient->shape),
                       kn_shape_words(work->graph, &value->shape));
    kn_value **sum = &work->gradients[value->id];
    if (*sum) gradient = apply(work->graph, "add", (kn_value *[]){*sum, gradient}, 2, NULL);
    *sum = gradient;
    return graph_status(work);
}

/* A 16-bit gradient may have been computed in float32. */
static kn_value *of_type(kn_value *gradient, const kn_value *value) {
    const bool wide = gradient->shape.dtype == KN_FLOAT32 && kn_is_half(value->shape.dtype);
    return wide ? kn_value_cast(gradient, value->shape.dtype) : gradient;
}

static kn_status flow_through(gradient_work *work, kn_node *node) {
    const kn_operator *row = node->op;
    kn_value *output_gradients[KN_MAX_OUTPUTS] = {NULL}, *input_gradients[KN_MAX_INPUTS] = {NULL};
    bool wanted[KN_MAX_INPUTS] = {false}, flows = false, any = false;
    int visible = node->derivative ? node->output_count : node->output_count - row->hidden;
    for (int i = 0; i < visible; i++) {
        output_gradients[i] = work->gradients[node->outputs[i]->id];
        flows = flows || output_gradients[i];
    }
    for (int i = 0; i < node->input_count; i++) {
        const kn_value *input = node->inputs[i];
        wanted[i] = input && work->reaches[input->id];
        any = any || wanted[i];
    }
    if (!flows || !any) return KN_OK;
    if (node->derivative || (row->backward && !row->gradient))
        return kn_fail(work->error, KN_ERROR_UNSUPPORTED, "%s '%s': second-order gradients are not supported",
                       row->name, node->name);
    kn_gradient_call call = {.graph = work->graph,
                             .node = node,
                             .output_gradients = output_gradients,
                             .wanted = wanted,
                             .input_gradients = input_gradients};
    work->graph->origin = node;
    kn_status status = KN_OK;
    if (row->gradient)
        status = row->gradient(&call);
    else if (row->class == KN_CLASS_POINTWISE)
        status = pointwise_gradient(&call);
    if (status == KN_OK)
        status = graph_status(work);
    else if (graph_status(work) == KN_OK)
        kn_fail(work->error, status, "%s '%s': failed to build its gradient", row->name, node->name);
    for (int i = 0; status == KN_OK && i < node->input_count; i++)
        if (wanted[i] && input_gradients[i])
            status = accumulate(work, node, i, of_type(input_gradients[i], node->inputs[i]));
    work->graph->origin = NULL;
    return status;
}

/* ---- all nodes ------------------------------------------------------------------------------ */

/* Integers and booleans have no gradient. */
static void mark_reached(gradient_work *work, kn_value *const *by, size_t count) {
    const kn_graph *graph = work->graph;
    for (size_t i = 0; i < count; i++)
        work->reaches[by[i]->id] = kn_dtype_is_float(by[i]->shape.dtype);
    for (size_t i = 0; i < graph->node_count; i++) {
        const kn_node *node = graph->nodes[i];
        bool reached = false;
        for (int j = 0; j < node->input_count; j++)
            reached = reached || (node->inputs[j] && work->reaches[node->inputs[j]->id]);
        for (int j = 0; reached && j < node->output_count; j++)
            if (kn_dtype_is_float(node->outputs[j]->shape.dtype)) work->reaches[node->outputs[j]->id] = true;
    }
}

static kn_status check_request(const kn_graph *graph, const kn_value *loss, kn_value *const *by, size_t count,
                               kn_error *error) {
    if (graph->error.status != KN_OK) return kn_error_copy(error, &graph->error);
    if (!graph->bound) return kn_fail(error, KN_ERROR_INTERNAL, "gradients are built in bound graphs only");
    if (kn_value_failed(loss) || loss->graph != graph)
        return kn_fail(error, KN_ERROR_ARGUMENT, "the loss is not a value of this graph");
    if (kn_shape_elements(&loss->shape) != 1 || !kn_dtype_is_float(loss->shape.dtype)) {
        kn_text words;
        kn_text_init(&words, &graph->host);
        kn_shape_text(graph, &loss->shape, &words);
        kn_status status =
            kn_fail(error, KN_ERROR_SHAPE,
                    "the loss '%s' is %s; expected a floating-point scalar: take a mean or a sum", loss->name,
                    words.data);
        kn_text_finish(&words);
        return status;
    }
    for (size_t i = 0; i < count; i++)
        if (kn_value_failed(by[i]) || by[i]->graph != graph)
            return kn_fail(error, KN_ERROR_ARGUMENT,
                           "a gradient is requested with respect to a value that is not in this graph");
    return KN_OK;
}

static kn_value *seed(kn_graph *graph, const kn_value *loss) {
    double room = 0;
    kn_element_set(loss->shape.dtype, &room, 0, 1);
    return kn_constant_add(graph, &loss->shape, &room, kn_dtype_bytes(loss->shape.dtype));
}

kn_status kn_graph_gradient(kn_graph *bound, kn_value *loss, kn_value *const *by, size_t count,
                            kn_value **gradients, kn_error *error) {
    for (size_t i = 0; i < count; i++)
        gradients[i] = NULL;
    kn_status status = check_request(bound, loss, by, count, error);
    if (status != KN_OK) return status;
    /* New values get higher ids than all values in the request. */
    size_t nodes = bound->node_count, values = bound->value_count;
    gradient_work work = {.graph = bound, .error = error};
    work.reaches = kn_allocate(&bound->host, values + 1, sizeof *work.reaches);
    work.gradients = kn_allocate(&bound->host, values + 1, sizeof *work.gradients);
    if (!work.reaches || !work.gradients) status = kn_fail_memory(error, values * sizeof *work.gradients);
    if (status == KN_OK) {
        mark_reached(&work, by, count);
        if (work.reaches[loss->id]) work.gradients[loss->id] = seed(bound, loss);
        status = graph_status(&work);
    }
    for (size_t i = nodes; status == KN_OK && i-- > 0;)
        status = flow_through(&work, bound->nodes[i]);
    for (size_t i = nodes; i < bound->node_count; i++)
        bound->nodes[i]->gradient = true;
    for (size_t i = 0; status == KN_OK && i < count; i++)
        if (work.reaches[by[i]->id]) gradients[i] = work.gradients[by[i]->id];
    kn_release(&bound->host, work.reaches);
    kn_release(&bound->host, work.gradients);
    if (status != KN_OK)
        kn_graph_fail(bound, status, "%s", error ? error->text : "failed to build a gradient");
    return status;
}
