/* The module's readers on a hostile text: whatever they accept must print, read back and compute. */
#include "graph_tests.h"

/* A size prints as a text that reads back to the same size. */
static const char *read_shape(kn_graph *graph, const char *text) {
    kn_shape shape = {.dtype = KN_FLOAT32}, again = {.dtype = KN_FLOAT32};
    kn_error error = {0};
    kn_status status = kn_shape_parse(graph, text, &shape, &error);
    if (status != KN_OK)
        return error.text[0] && error.status == status ? NULL : "a shape is refused without words";
    kn_text words;
    kn_text_init(&words, &graph->host);
    const char *wrong = NULL;
    for (int i = 0; i < shape.rank; i++) {
        if (i > 0) kn_text_add(&words, ",");
        kn_dim_text(graph, shape.dims[i], &words);
    }
    if (kn_shape_parse(graph, words.data, &again, &error) == KN_OK) {
        if (!kn_shape_same(&shape, &again)) wrong = "a shape prints as another";
    } else if (error.status != KN_ERROR_UNSUPPORTED)
        wrong = "a shape prints as what cannot be read";
    kn_binding bindings[] = {{"batch", 3}, {"n", INT64_MAX}};
    for (int i = 0; i < shape.rank; i++) {
        int64_t number = -1;
        error = (kn_error){0};
        status = kn_dim_evaluate(graph, shape.dims[i], bindings, 2, &number, &error);
        if (status == KN_OK ? number < 0 : !error.text[0]) wrong = "a size is evaluated wrongly";
    }
    const char *symbol;
    int64_t number;
    kn_shape_solve(graph, &shape, 12, NULL, 0, &symbol, &number, &error);
    kn_text_finish(&words);
    return wrong;
}

static const char *read_expression(const char *text) {
    static const char *const words[] = {"a", "b", "c", "d", "e", "f", "g", "h", "a", "b", "c",
                                        "d", "e", "f", "g", "h", "a", "b", "c", "d", "e", "f",
                                        "g", "h", "a", "b", "c", "d", "e", "f", "g", "h"};
    const double inputs[32] = {0.5, -1};
    kn_host host = kn_host_defaults();
    kn_arena arena;
    kn_error error = {0};
    kn_expression *expression;
    kn_text printed_text;
    const char *wrong = NULL;
    kn_arena_init(&arena, &host);
    kn_text_init(&printed_text, &host);
    if (kn_expression_parse(&arena, text, &expression, &error) != KN_OK) {
        if (!error.text[0]) wrong = "an expression is refused without words";
    } else if (kn_expression_name_count(expression) > 32)
        wrong = "an expression has too many names";
    else {
        kn_expression_evaluate(expression, inputs);
        kn_expression_print(expression, "float4", words, &printed_text);
        if (printed_text.length > 1000000 || printed_text.length < 3)
            wrong = "an expression prints far too much";
    }
    kn_text_finish(&printed_text);
    kn_arena_finish(&arena);
    return wrong;
}

const char *read_texts(const char *text) {
    kn_graph *graph = kn_graph_create(NULL);
    kn_error error = {0};
    kn_attribute_value values[KN_MAX_ATTRIBUTES];
    if (!graph) return NULL;
    const char *wrong = read_shape(graph, text);
    if (!wrong) wrong = read_expression(text);
    kn_status status = kn_attributes_parse(graph, kn_operator_find("many"), text, values, &error);
    if (status != KN_OK && (!error.text[0] || error.status != status))
        wrong = "attributes are refused without words";
    if (kn_graph_status(graph) != KN_OK) wrong = "reading spoilt the graph";
    kn_value_failed(kn_input(graph, text, KN_FLOAT32, text));
    kn_graph_destroy(&graph);
    return wrong;
}
