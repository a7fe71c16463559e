/* Computes any node in double precision on the host: by its row's reference, or by its expression. */
#include <string.h>

#include "graph/graph_private.h"

/* Where the value of a name in an expression comes from. */
typedef enum source_kind { SOURCE_INPUT, SOURCE_FIXED, SOURCE_UNIFORM } source_kind;
typedef struct number_source {
    source_kind kind;
    int input;                    /* of the node */
    double number;                /* of SOURCE_FIXED */
    int64_t strides[KN_MAX_RANK]; /* in elements, along the axes of the result; 0 broadcasts */
    int64_t position;
} number_source;

/* Row-major strides of an array along the axes of the result, by the broadcasting rule. */
static void set_strides(const kn_shape *shape, const kn_shape *result, int64_t strides[KN_MAX_RANK]) {
    int64_t stride = 1;
    for (int i = 0; i < KN_MAX_RANK; i++)
        strides[i] = 0;
    for (int i = 1; i <= shape->rank && i <= result->rank; i++) {
        kn_dim size = shape->dims[shape->rank - i];
        if (size != 1) strides[result->rank - i] = stride;
        stride *= size;
    }
}

static kn_status find_source(const kn_reference_call *call, const char *name, number_source *source) {
    static const char *const letters[] = {"x", "y", "z"};
    const kn_node *node = call->node;
    int position = -1;
    for (int i = 0; i < (int)KN_COUNT_OF(letters); i++)
        if (strcmp(name, letters[i]) == 0) position = i;
    if (node->derivative && strcmp(name, "r") == 0) position = node->input_count - 2;
    if (node->derivative && strcmp(name, "g") == 0) position = node->input_count - 1;
    if (position >= 0) {
        if (position >= call->input_count || !call->inputs[position].data)
            return kn_fail(call->error, KN_ERROR_INTERNAL,
                           "%s '%s': its expression reads '%s', which is missing", node->op->name, node->name,
                           name);
        source->kind = SOURCE_INPUT;
        source->input = position;
        set_strides(&call->inputs[position].shape, &call->outputs[0].shape, source->strides);
        return KN_OK;
    }
    if (strcmp(name, "uniform") == 0) {
        /* The step counter is the last input of the value node. */
        int step = node->input_count - 1 - (node->derivative ? 2 : 0);
        uint64_t run =
            step >= 0 && step < call->input_count && call->inputs[step].data && call->inputs[step].elements
                ? (uint64_t)call->inputs[step].data[0]
                : 0;
        source->kind = SOURCE_UNIFORM;
        source->number = (double)run;
        return KN_OK;
    }
    for (int i = 0; i < node->op->attribute_count; i++)
        if (strcmp(node->op->attributes[i].name, name) == 0) {
            source->kind = SOURCE_FIXED;
            source->number = node->attributes[i].number;
            return KN_OK;
        }
    return kn_fail(call->error, KN_ERROR_INTERNAL,
                   "%s '%s': its expression reads '%s', which is neither an input nor an attribute",
                   node->op->name, node->name, name);
}

/* Visits the result in row-major order, advancing the sources by their strides. */
static void compute(const kn_reference_call *call, const kn_expression *expression, number_source *sources) {
    const kn_shape *shape = &call->outputs[0].shape;
    double numbers[KN_EXPRESSION_NAMES];
    int64_t at[KN_MAX_RANK] = {0};
    for (int64_t i = 0; i < call->outputs[0].elements; i++) {
        for (int j = 0; j < expression->name_count; j++) {
            const number_source *from = &sources[j];
            if (from->kind == SOURCE_INPUT)
                numbers[j] = call->inputs[from->input].data[from->position];
            else if (from->kind == SOURCE_FIXED)
                numbers[j] = from->number;
            else
                numbers[j] = kn_random_uniform(kn_random_step(call->node->random_key, (uint64_t)from->number),
                                               (uint64_t)i);
        }
        call->outputs[0].data[i] = kn_expression_evaluate(expression, numbers);
        for (int axis = shape->rank - 1; axis >= 0; axis--) {
            bool last = ++at[axis] == shape->dims[axis];
            for (int j = 0; j < expression->name_count; j++)
                sources[j].position += sources[j].strides[axis] * (last ? 1 - shape->dims[axis] : 1);
            if (!last) break;
            at[axis] = 0;
        }
    }
}

kn_status kn_node_reference(kn_reference_call *call) {
    const kn_node *node = call->node;
    const kn_operator *row = node->op;
    if (!node->derivative && row->reference) return row->reference(call);
    const char *text = node->derivative ? row->by[node->derivative - 1] : row->value;
    if (row->class != KN_CLASS_POINTWISE || !text)
        return kn_fail(call->error, KN_ERROR_UNSUPPORTED, "%s '%s' has no reference implementation",
                       row->name, node->name);
    kn_arena arena;
    kn_expression *expression = NULL;
    number_source sources[KN_EXPRESSION_NAMES] = {{0}};
    kn_arena_init(&arena, call->host);
    kn_status status = kn_expression_parse(&arena, text, &expression, call->error);
    for (int i = 0; status == KN_OK && i < expression->name_count; i++)
        status = find_source(call, expression->names[i], &sources[i]);
    if (status == KN_OK) compute(call, expression, sources);
    kn_arena_finish(&arena);
    return status;
}
