/* Custom operators with a kernel: the rules of their rows. Shapes come from patterns; gradients and
 * references are the caller's callbacks. */
#include <stdio.h>
#include <string.h>

#include "graph/custom_private.h"

/* ---- sizes ------------------------------------------------------------------------------------------- */

static kn_dim size_of(const struct kn_custom *custom, kn_graph *graph, const kn_custom_sizes *sizes,
                      const kn_attribute_value *attributes, const kn_expression *size, const kn_term *term) {
    if (term->kind == KN_TERM_NUMBER) return (kn_dim)term->number;
    if (term->kind == KN_TERM_NAME) {
        int word = kn_custom_word(custom, size->names[term->name]);
        if (word >= 0) return sizes->sizes[word];
        int64_t number = attributes[kn_custom_attribute(custom, size->names[term->name])].integer;
        return number >= 0 ? number : kn_dim_subtract(graph, 0, -number);
    }
    kn_dim left = size_of(custom, graph, sizes, attributes, size, term->parts[0]);
    if (term->kind == KN_TERM_NEGATE) return kn_dim_subtract(graph, 0, left);
    kn_dim right = size_of(custom, graph, sizes, attributes, size, term->parts[1]);
    switch (term->kind) {
    case KN_TERM_ADD:
        return kn_dim_add(graph, left, right);
    case KN_TERM_SUBTRACT:
        return kn_dim_subtract(graph, left, right);
    case KN_TERM_MULTIPLY:
        return kn_dim_multiply(graph, left, right);
    default:
        return kn_dim_divide(graph, left, right);
    }
}

kn_dim kn_custom_size(const struct kn_custom *custom, kn_graph *graph, const kn_custom_sizes *sizes,
                      const kn_attribute_value *attributes, const kn_expression *size) {
    return size_of(custom, graph, sizes, attributes, size, size->root);
}

/* ---- shapes ------------------------------------------------------------------------------------------ */

static kn_status fail_mismatch(const struct kn_custom *custom, kn_graph *graph, const char *node, int input,
                               const kn_shape *shape, const char *why, kn_error *error) {
    return kn_fail(error, KN_ERROR_SHAPE, "%s '%s': input %d is %s, which does not match \"%s\": %s",
                   custom->row.name, node, input + 1, kn_shape_words(graph, shape),
                   custom->inputs[input].text, why);
}

/* Matches one dimension of an input against its pattern item. */
static bool match_size(const struct kn_custom *custom, const kn_custom_item *item, kn_dim dim,
                       kn_custom_sizes *sizes) {
    const kn_term *root = item->size->root;
    if (root->kind == KN_TERM_NUMBER) return dim == (kn_dim)root->number;
    int word = kn_custom_word(custom, item->size->names[root->name]);
    if (sizes->known[word]) return sizes->sizes[word] == dim;
    sizes->known[word] = true;
    sizes->sizes[word] = dim;
    return true;
}

static bool match_many(kn_graph *graph, int word, const kn_dim *dims, int count, kn_custom_sizes *sizes) {
    if (sizes->known[word])
        return sizes->ranks[word] == count && !memcmp(sizes->dims[word], dims, (size_t)count * sizeof *dims);
    sizes->known[word] = true;
    sizes->ranks[word] = count;
    sizes->sizes[word] = 1;
    for (int i = 0; i < count; i++) {
        sizes->dims[word][i] = dims[i];
        sizes->sizes[word] = kn_dim_multiply(graph, sizes->sizes[word], dims[i]);
    }
    return true;
}

static kn_status match_input(const struct kn_custom *custom, kn_graph *graph, const char *node, int input,
                             const kn_shape *shape, kn_custom_sizes *sizes, kn_error *error) {
    const kn_custom_pattern *pattern = &custom->inputs[input];
    int several = 0, more = shape->rank - pattern->count, at = 0;
    for (int i = 0; i < pattern->count; i++)
        several += pattern->items[i].many >= 0;
    if (several ? more < -1 : more != 0)
        return fail_mismatch(custom, graph, node, input, shape, "the number of dimensions differs", error);
    for (int i = 0; i < pattern->count; i++) {
        const kn_custom_item *item = &pattern->items[i];
        char why[96];
        int taken = item->many >= 0 ? more + 1 : 1;
        bool fits = item->many >= 0 ? match_many(graph, item->many, shape->dims + at, taken, sizes)
                                    : match_size(custom, item, shape->dims[at], sizes);
        snprintf(why, sizeof why, "'%.40s' has a different size elsewhere", item->size->text);
        if (!fits && item->size->root->kind == KN_TERM_NUMBER)
            snprintf(why, sizeof why, "dimension %d differs", at);
        if (!fits) return fail_mismatch(custom, graph, node, input, shape, why, error);
        at += taken;
    }
    return KN_OK;
}

kn_status kn_custom_match(const struct kn_custom *custom, kn_graph *graph, const char *node,
                          kn_value *const *inputs, kn_custom_sizes *sizes, kn_error *error) {
    *sizes = (kn_custom_sizes){.known = {false}};
    for (int i = 0; i < custom->input_count; i++) {
        kn_status status = match_input(custom, graph, node, i, &inputs[i]->shape, sizes, error);
        if (status != KN_OK) return status;
    }
    return KN_OK;
}

/* The element type of inputs without a declared type: float32 or float64, the same for all. */
static kn_status find_type(const kn_shape_call *call, kn_dtype *dtype) {
    const struct kn_custom *custom = call->row->custom;
    int first = -1;
    *dtype = KN_FLOAT32;
    for (int i = 0; i < custom->input_count; i++) {
        kn_dtype found = call->inputs[i]->shape.dtype;
        const kn_custom_pattern *pattern = &custom->inputs[i];
        if (pattern->typed ? found != pattern->dtype : found != KN_FLOAT32 && found != KN_FLOAT64)
            return kn_fail(call->error, KN_ERROR_DTYPE, "%s '%s': input %d is %s; expected %s",
                           custom->row.name, call->name, i + 1, kn_dtype_name(found),
                           pattern->typed ? kn_dtype_name(pattern->dtype) : "float32 or float64");
        if (pattern->typed) continue;
        if (first >= 0 && found != *dtype)
            return kn_fail(call->error, KN_ERROR_DTYPE,
                           "%s '%s': inputs %d and %d are %s and %s; cast one of them", custom->row.name,
                           call->name, first + 1, i + 1, kn_dtype_name(*dtype), kn_dtype_name(found));
        first = i;
        *dtype = found;
    }
    return KN_OK;
}

kn_status kn_custom_shape(kn_shape_call *call) {
    const struct kn_custom *custom = call->row->custom;
    kn_custom_sizes sizes;
    kn_dtype dtype;
    kn_status status = find_type(call, &dtype);
    if (status == KN_OK)
        status = kn_custom_match(custom, call->graph, call->name, call->inputs, &sizes, call->error);
    for (int i = 0; i < custom->result_count && status == KN_OK; i++) {
        const kn_custom_pattern *pattern = &custom->results[i];
        kn_shape *shape = &call->outputs[i];
        *shape = (kn_shape){.dtype = pattern->typed ? pattern->dtype : dtype};
        for (int j = 0; j < pattern->count; j++) {
            int many = pattern->items[j].many, count = many >= 0 ? sizes.ranks[many] : 1;
            if (shape->rank + count > KN_MAX_RANK)
                return kn_fail(call->error, KN_ERROR_SHAPE, "%s '%s': result %d has more than %d dimensions",
                               custom->row.name, call->name, i + 1, KN_MAX_RANK);
            for (int k = 0; k < count; k++)
                shape->dims[shape->rank++] = many >= 0
                                                 ? sizes.dims[many][k]
                                                 : kn_custom_size(custom, call->graph, &sizes,
                                                                  call->attributes, pattern->items[j].size);
        }
    }
    return status;
}

/* ---- the launch ------------------------------------------------------------------------------------- */

kn_status kn_custom_lower(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    const struct kn_custom *custom = node->op->custom;
    kn_graph *graph = node->outputs[0]->graph;
    kn_custom_sizes sizes;
    size_t global[3] = {1, 1, 1}, local[3] = {0, 0, 0};
    kn_status status = kn_custom_match(custom, graph, node->name, node->inputs, &sizes, lowering->error);
    if (status != KN_OK) return status;
    kn_step *step = kn_step_begin(lowering, custom->file, custom->kernel);
    if (step) step->source = custom->source;
    for (int i = 0; i < node->input_count + node->output_count; i++) {
        bool input = i < node->input_count;
        kn_value *value = input ? node->inputs[i] : node->outputs[i - node->input_count];
        char name[16];
        snprintf(name, sizeof name, "KN_T%d", i);
        if (i == 0) kn_step_define_type(step, "KN_T", value->shape.dtype);
        kn_step_define_type(step, name, value->shape.dtype);
        if (input)
            kn_step_read(step, NULL, value);
        else
            kn_step_write(step, NULL, value);
    }
    for (int i = 0; i < custom->word_count; i++)
        kn_step_index(step, NULL, sizes.sizes[i]);
    for (int i = 0; i < custom->row.attribute_count; i++)
        if (custom->attributes[i].kind == KN_ATTRIBUTE_INT)
            kn_step_int(step, NULL, node->attributes[i].integer);
        else
            kn_step_float(step, NULL, node->attributes[i].number);
    for (int i = 0; i < custom->launch_count; i++) {
        kn_dim items = kn_custom_size(custom, graph, &sizes, node->attributes, custom->launch[i]);
        if (!kn_dim_known(items) || graph->error.status != KN_OK)
            return kn_fail(lowering->error, KN_ERROR_SHAPE,
                           "the launch size '%.100s' is negative or not a number", custom->launch[i]->text);
        global[i] = (size_t)items;
        if (custom->group_count) local[i] = custom->group[i];
    }
    if (custom->launch_count == 1)
        kn_step_size1(step, global[0], local[0]);
    else if (custom->launch_count == 2)
        kn_step_size2(step, global[0], global[1], local[0], local[1]);
    else
        kn_step_size3(step, global, local);
    return kn_step_end(step, lowering);
}

/* ---- callbacks ------------------------------------------------------------------------------ */

/* A node as the public callbacks see it. */
typedef struct node_description {
    kn_custom_node node;
    kn_tensor_info inputs[KN_CUSTOM_INPUTS], results[KN_CUSTOM_RESULTS];
    int64_t sizes[KN_CUSTOM_WORDS];
    double attributes[KN_MAX_ATTRIBUTES];
} node_description;

static void set_info(const kn_shape *shape, kn_tensor_info *info) {
    *info = (kn_tensor_info){.dtype = shape->dtype, .rank = shape->rank};
    memcpy(info->shape, shape->dims, (size_t)shape->rank * sizeof *info->shape);
}

/* All sizes must be numbers. */
static kn_status describe_node(const kn_node *node, node_description *words, kn_error *error) {
    const struct kn_custom *custom = node->op->custom;
    kn_custom_sizes sizes;
    *words = (node_description){.node = {.size = sizeof words->node,
                                         .input_count = custom->input_count,
                                         .result_count = custom->result_count}};
    kn_status status =
        kn_custom_match(custom, node->outputs[0]->graph, node->name, node->inputs, &sizes, error);
    if (status != KN_OK) return status;
    for (int i = 0; i < custom->input_count; i++)
        set_info(&node->inputs[i]->shape, &words->inputs[i]);
    for (int i = 0; i < custom->result_count; i++)
        set_info(&node->outputs[i]->shape, &words->results[i]);
    for (int i = 0; i < custom->word_count; i++)
        words->sizes[i] = sizes.sizes[i];
    for (int i = 0; i < custom->row.attribute_count; i++)
        words->attributes[i] = node->attributes[i].number;
    words->node.inputs = words->inputs;
    words->node.results = words->results;
    words->node.sizes = words->sizes;
    words->node.attributes = words->attributes;
    return KN_OK;
}

kn_status kn_custom_compute(kn_reference_call *call) {
    const struct kn_custom *custom = call->node->op->custom;
    node_description words;
    const double *inputs[KN_CUSTOM_INPUTS];
    double *results[KN_CUSTOM_RESULTS];
    kn_status status = describe_node(call->node, &words, call->error);
    if (status != KN_OK) return status;
    for (int i = 0; i < custom->input_count; i++)
        inputs[i] = call->inputs[i].data;
    for (int i = 0; i < custom->result_count; i++)
        results[i] = call->outputs[i].data;
    const kn_custom_reference reference = {
        .size = sizeof reference, .node = &words.node, .inputs = inputs, .results = results};
    custom->reference(custom->user, &reference);
    return KN_OK;
}

/* The gradient operator maps the inputs, the results and their gradients to the gradients of the inputs. */
static void apply_gradient(kn_gradient_call *call) {
    const kn_node *node = call->node;
    const struct kn_custom *custom = node->op->custom, *other = custom->gradient_operator;
    kn_value *inputs[KN_CUSTOM_INPUTS + 2 * KN_CUSTOM_RESULTS];
    kn_attribute_value attributes[KN_MAX_ATTRIBUTES] = {{0}};
    int count = 0, result = 0;
    for (int i = 0; i < custom->input_count; i++)
        inputs[count++] = node->inputs[i];
    for (int i = 0; i < custom->result_count; i++)
        inputs[count++] = node->outputs[i];
    for (int i = 0; i < custom->result_count; i++)
        inputs[count++] = call->output_gradients[i] ? call->output_gradients[i]
                                                    : kn_gradient_zero(call->graph, node->outputs[i]);
    kn_attributes_defaults(call->graph, &other->row, attributes);
    for (int i = 0; i < custom->row.attribute_count; i++) {
        int same = kn_custom_attribute(other, custom->attributes[i].name);
        if (same >= 0) attributes[same] = node->attributes[i];
    }
    kn_value *first = kn_node_add(call->graph, &other->row, NULL, inputs, count, attributes);
    if (kn_value_failed(first)) return;
    for (int i = 0; i < custom->input_count; i++) {
        if (!kn_dtype_is_float(node->inputs[i]->shape.dtype)) continue;
        if (call->wanted[i]) call->input_gradients[i] = first->producer->outputs[result];
        result++;
    }
}

kn_status kn_custom_build_gradient(kn_gradient_call *call) {
    const kn_node *node = call->node;
    const struct kn_custom *custom = node->op->custom;
    kn_graph *graph = call->graph;
    node_description words;
    if (custom->gradient_operator)
        apply_gradient(call);
    else {
        kn_error error = {0};
        if (describe_node(node, &words, &error) != KN_OK)
            return kn_graph_fail_with(graph, &error), error.status;
        const kn_custom_gradient gradient = {.size = sizeof gradient,
                                             .node = &words.node,
                                             .inputs = node->inputs,
                                             .results = node->outputs,
                                             .result_gradients = call->output_gradients,
                                             .needs_gradient = call->wanted,
                                             .input_gradients = call->input_gradients};
        custom->gradient(custom->user, &gradient);
    }
    for (int i = 0; i < node->input_count && graph->error.status == KN_OK; i++) {
        kn_value *made = call->input_gradients[i];
        if (!made || !call->wanted[i]) continue;
        if (made->graph != graph)
            kn_graph_fail(graph, KN_ERROR_ARGUMENT,
                          "%s '%s': its gradient with respect to input %d belongs to another graph",
                          custom->row.name, node->name, i + 1);
        else if (!made->failed && (!kn_shape_same(&made->shape, &node->inputs[i]->shape) ||
                                   made->shape.dtype != node->inputs[i]->shape.dtype))
            kn_graph_fail(graph, KN_ERROR_SHAPE,
                          "%s '%s': its gradient with respect to input %d is %s; expected %s, like the input",
                          custom->row.name, node->name, i + 1, kn_shape_words(graph, &made->shape),
                          kn_shape_words(graph, &node->inputs[i]->shape));
    }
    return graph->error.status;
}
