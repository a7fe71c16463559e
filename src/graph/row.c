/* Defaults of operator rows: number of inputs and cost; and the value under views. */
#include "graph/graph_private.h"

void kn_operator_arity(const kn_operator *row, int *least, int *most) {
    static const char *const letters[] = {"x", "y", "z"};
    *least = row->min_inputs;
    *most = row->max_inputs > row->min_inputs ? row->max_inputs : row->min_inputs;
    if (row->class != KN_CLASS_POINTWISE || *most > 0) return;
    int count = 0;
    for (int i = 0; i < (int)KN_COUNT_OF(letters); i++)
        if (row->value && kn_expression_text_reads(row->value, letters[i])) count = i + 1;
    *least = *most = count + (row->random ? 1 : 0);
}

void kn_node_cost(const kn_node *node, kn_cost *cost) {
    *cost = (kn_cost){0, 0};
    if (node->op->cost && node->derivative == 0) {
        node->op->cost(node, cost);
        return;
    }
    if (node->op->class == KN_CLASS_VIEW) return;
    for (int i = 0; i < node->input_count + node->output_count; i++) {
        const kn_value *value =
            i < node->input_count ? node->inputs[i] : node->outputs[i - node->input_count];
        int64_t elements = value ? kn_shape_elements(&value->shape) : 0;
        if (elements <= 0) continue;
        cost->bytes += (double)elements * (double)kn_dtype_bytes(value->shape.dtype);
        if (i >= node->input_count) cost->flops += (double)elements;
    }
}

kn_halves kn_node_halves(const kn_node *node) {
    kn_halves halves = {0, 0};
    for (int i = 0; i < node->input_count; i++)
        if (node->inputs[i] && kn_is_half(node->inputs[i]->shape.dtype)) halves.inputs |= 1u << i;
    for (int i = 0; i < node->output_count; i++)
        if (kn_is_half(node->outputs[i]->shape.dtype)) halves.results |= 1u << i;
    return halves;
}

static bool takes_halves(const kn_operator *row, kn_halves promised, kn_halves halves) {
    if (row->class != KN_CLASS_KERNEL || row->moves || row->any_type) return true;
    return !(halves.inputs & ~(promised.inputs | row->halves)) && !(halves.results & ~promised.results);
}

bool kn_row_computes_halves(const kn_operator *row, kn_halves halves) {
    return !row->variant_count ||
           takes_halves(row, row->variants[row->variant_count - 1].promise.halves, halves);
}

bool kn_node_takes_halves(const kn_node *node, kn_halves promised) {
    const kn_operator *row = node->op;
    unsigned any = 0;
    for (int i = 0; i < row->variant_count; i++)
        any |= row->variants[i].promise.halves.inputs | row->variants[i].promise.halves.results;
    return !any || takes_halves(row, promised, kn_node_halves(node));
}

kn_value *kn_value_root(kn_value *value) {
    while (value->kind == KN_VALUE_RESULT && value->producer->op->class == KN_CLASS_VIEW)
        value = value->producer->inputs[0];
    return value;
}
