/* Gather and scatter operators as ONNX nodes. */
#include "exchange/onnx/export.h"

static int64_t axis_of(const kn_export_call *call) {
    const int64_t axis = kn_attribute_of(call->node, "axis")->integer;
    return axis < 0 ? axis + call->node->inputs[0]->shape.rank : axis;
}

static bool embedding(kn_export_call *call) {
    return kn_export_two(call, "Gather", call->output, call->inputs[0], call->inputs[1]);
}

static bool gather(kn_export_call *call) {
    bool elements = !strcmp(call->node->op->name, "gather_elements");
    if (kn_attribute_of(call->node, "outside")->integer)
        return false; /* out-of-range indices are an error in ONNX */
    return kn_export_two(call, elements ? "GatherElements" : "Gather", call->output, call->inputs[0],
                         call->inputs[1]) &&
           kn_export_int(call, "axis", axis_of(call));
}

/* Sets the attribute `reduction` of the last node. */
static bool add_reduction(kn_export_call *call) {
    static const char *const words[] = {"none", "add", "mul", "max", "min"};
    return kn_export_string(call, "reduction", words[kn_attribute_of(call->node, "reduction")->integer]);
}

static bool scatter_elements(kn_export_call *call) {
    return kn_export_node(call, "ScatterElements", call->output,
                          KN_EXPORT_INPUTS(call->inputs[0], call->inputs[1], call->inputs[2])) &&
           kn_export_int(call, "axis", axis_of(call)) && add_reduction(call);
}

/* Moves `count` axes, starting at `first`, to the front, or back. */
static const char *to_front(kn_export_call *call, const char *x, int rank, int first, int count, bool back,
                            const char *output) {
    int64_t order[KN_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        int from = i < count ? first + i : i < first + count ? i - count : i;
        order[back ? from : i] = back ? i : from;
    }
    const char *turned = kn_export_one(call, "Transpose", output, x);
    return turned && kn_export_ints(call, "perm", order, (size_t)rank) ? turned : NULL;
}

/* ScatterND writes slices along the first axis. */
static bool scatter(kn_export_call *call) {
    const kn_node *node = call->node;
    const int axis = (int)axis_of(call), rank = node->inputs[0]->shape.rank,
              count = node->inputs[1]->shape.rank;
    const char *x = call->inputs[0], *updates = call->inputs[2],
               *last = kn_export_list(call, (int64_t[]){-1}, 1);
    const char *positions = kn_export_two(call, "Unsqueeze", NULL, call->inputs[1], last);
    if (axis) {
        x = to_front(call, x, rank, axis, 1, false, NULL);
        updates = to_front(call, updates, rank - 1 + count, axis, count, false, NULL);
    }
    if (!x || !positions || !updates) return false;
    const char *result = kn_export_node(call, "ScatterND", axis ? NULL : call->output,
                                        KN_EXPORT_INPUTS(x, positions, updates));
    return result && add_reduction(call) &&
           (!axis || to_front(call, result, rank, axis, 1, true, call->output));
}

/* ONNX returns the indices as int64. */
static bool top_k(kn_export_call *call) {
    const kn_value *positions = call->node->outputs[1];
    const int64_t k = kn_attribute_of(call->node, "k")->integer;
    const char *count = kn_export_list(call, &k, 1), *names[2] = {call->output, kn_export_name(call)};
    if (!names[1] || !kn_export_two(call, "TopK", call->output, call->inputs[0], count) ||
        !kn_export_int(call, "axis", axis_of(call)) ||
        !kn_export_int(call, "largest", !kn_attribute_of(call->node, "smallest")->integer) ||
        !kn_export_results(call, names, 2))
        return false;
    return !call->export->needed[positions->id] ||
           (kn_export_one(call, "Cast", positions->name, names[1]) &&
            kn_export_int(call, "to", kn_onnx_type_from(positions->shape.dtype)));
}

const kn_export_row kn_export_gathers[] = {
    {"embedding", embedding},
    {"gather", gather},
    {"gather_elements", gather},
    {"scatter", scatter},
    {"scatter_elements", scatter_elements},
    {"top_k", top_k},
};
const int kn_export_gathers_count = (int)KN_COUNT_OF(kn_export_gathers);
