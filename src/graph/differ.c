/* Sizes that a graph was built to differ: if they are equal, the graph would be wrong. */
#include "graph/graph_private.h"

#include <inttypes.h>

struct kn_difference {
    kn_dim left, right;
    bool trains; /* equal sizes are valid in training */
    struct kn_difference *next;
};

void kn_graph_differ(kn_graph *graph, kn_dim left, kn_dim right, bool trains) {
    for (struct kn_difference *known = graph->differences; known; known = known->next)
        if (known->left == left && known->right == right) {
            known->trains = known->trains && trains;
            return;
        }
    struct kn_difference *made = kn_arena_take(&graph->arena, 1, sizeof *made);
    if (!made) {
        kn_graph_fail(graph, KN_ERROR_MEMORY, "out of host memory");
        return;
    }
    *made = (struct kn_difference){left, right, trains, graph->differences};
    graph->differences = made;
}

kn_status kn_differences_copy(const kn_graph *from, kn_graph *to, kn_error *error) {
    for (const struct kn_difference *known = from->differences; known; known = known->next) {
        kn_dim left = 0, right = 0;
        kn_status status = kn_dim_translate(from, known->left, to, &left, error);
        if (status == KN_OK) status = kn_dim_translate(from, known->right, to, &right, error);
        if (status != KN_OK) return status;
        kn_graph_differ(to, left, right, known->trains);
    }
    return to->error.status == KN_OK ? KN_OK : kn_error_copy(error, &to->error);
}

kn_status kn_differences_check(const kn_graph *graph, const kn_bind_request *request, kn_error *error) {
    for (const struct kn_difference *known = graph->differences; known; known = known->next) {
        int64_t left = 0, right = 0;
        kn_error unbound = {0}; /* no output needs this size */
        if ((known->trains && request->training) ||
            kn_dim_evaluate(graph, known->left, request->bindings, request->binding_count, &left, &unbound) !=
                KN_OK ||
            kn_dim_evaluate(graph, known->right, request->bindings, request->binding_count, &right,
                            &unbound) != KN_OK ||
            left != right)
            continue;
        kn_text words;
        kn_text_init(&words, &graph->host);
        kn_dim_text(graph, known->left, &words);
        kn_text_add(&words, " is not ");
        kn_dim_text(graph, known->right, &words);
        kn_fail(error, KN_ERROR_SHAPE,
                "the graph was built for sizes where %s, but both are %" PRId64
                ": kn_model_bind builds it for these sizes",
                words.data, left);
        kn_text_finish(&words);
        return KN_ERROR_SHAPE;
    }
    return KN_OK;
}
