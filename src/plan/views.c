/* Part of the simplify pass: a pointwise function of a view of an image is computed before the view, so that
 * the kernel that computes the image can apply it: an activation after a convolution of sequences, which is a
 * view of a convolution of images. */
#include "plan/plan_private.h"

/* Whether the value is the result of a kernel that takes an epilogue, or of pointwise nodes after it, such as
 * a bias, with which its epilogue begins. */
static bool is_in_epilogue(const kn_value *value) {
    const kn_node *node = value->producer;
    while (node && node->op->class == KN_CLASS_POINTWISE && !node->derivative && node->inputs[0])
        node = node->inputs[0]->producer;
    if (!node || node->op->class != KN_CLASS_KERNEL || node->op->matrices) return false;
    for (int i = 0; i < node->op->variant_count; i++)
        if (node->op->variants[i].promise.takes_epilogue) return true;
    return false;
}

/* Whether a node is a function of its first input, by itself or with constants of one element. */
static bool is_function(const kn_node *node) {
    if (node->op->class != KN_CLASS_POINTWISE || node->derivative || node->op->random ||
        node->output_count != 1 || node->input_count < 1 || !node->inputs[0])
        return false;
    for (int i = 1; i < node->input_count; i++)
        if (node->inputs[i] &&
            (node->inputs[i]->kind != KN_VALUE_CONSTANT || node->inputs[i]->shape.rank > 0))
            return false;
    return true;
}

/* `readers`: the number of readers of each value, by id; the caller is one for each value that it wants. */
static bool is_before_image(const kn_node *view, const kn_node *function, const int *readers) {
    const kn_value *image = kn_value_root(view->inputs[0]), *from = view->outputs[0];
    const kn_value *to = function->outputs[0];
    return image->shape.rank == 4 && is_in_epilogue(image) && view->inputs[0] == image &&
           readers[image->id] == 1 && readers[from->id] == 1 && view->device == function->device &&
           image->shape.dtype == from->shape.dtype && from->shape.dtype == to->shape.dtype &&
           kn_shape_same(&from->shape, &to->shape);
}

/* Exchanges the nodes: the function reads the image, and the view reads the function's result, which gets the
 * image's shape. */
static void exchange(kn_graph *graph, kn_node *view, kn_node *function) {
    kn_value *image = view->inputs[0], *between = view->outputs[0], *result = function->outputs[0];
    const int first = view->id, second = function->id;
    graph->nodes[first] = function;
    graph->nodes[second] = view;
    function->id = first;
    view->id = second;
    between->shape = image->shape;
    function->inputs[0] = image;
    function->outputs[0] = between;
    between->producer = function;
    view->inputs[0] = between;
    view->outputs[0] = result;
    result->producer = view;
}

kn_status kn_move_views(kn_planner *planner) {
    kn_graph *graph = planner->graph;
    int *readers = kn_allocate(planner->host, graph->value_count + 1, sizeof *readers);
    if (!readers) return kn_fail_memory(planner->error, graph->value_count * sizeof *readers);
    for (size_t i = 0; i < planner->wanted_count; i++)
        readers[planner->wanted[i]->id]++;
    for (size_t i = 0; i < graph->node_count; i++)
        for (int j = 0; j < graph->nodes[i]->input_count; j++)
            if (graph->nodes[i]->inputs[j]) readers[graph->nodes[i]->inputs[j]->id]++;
    for (size_t i = 0; i < graph->node_count; i++) {
        kn_node *node = graph->nodes[i];
        planner->work += 1 + (uint64_t)node->input_count;
        kn_node *view = is_function(node) ? node->inputs[0]->producer : NULL;
        if (view && view->op->class == KN_CLASS_VIEW && is_before_image(view, node, readers))
            exchange(graph, view, node);
    }
    kn_release(planner->host, readers);
    return KN_OK;
}
