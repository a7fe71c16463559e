/* libFuzzer's entry to equations of sums of products. */
#include <stdlib.h>
#include <string.h>

#include <koine/graph.h>
#include <koine/operators.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* The first byte encodes the number of values and their shapes. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    static const char *const shapes[] = {"", "3", "2,3", "3,3", "b,2,3", "2,2,3,3"};
    kn_value *values[3];
    if (count < 1) return 0;
    char *equation = malloc(count);
    kn_graph *graph = kn_graph_create(NULL);
    if (!equation || !graph) abort();
    memcpy(equation, bytes + 1, count - 1);
    equation[count - 1] = '\0';
    size_t number = 1 + bytes[0] % 3, kind = bytes[0] / 3u;
    for (size_t i = 0; i < number; i++, kind /= 6)
        values[i] = kn_input(graph, (const char *[]){"x", "y", "z"}[i], KN_FLOAT32, shapes[kind % 6]);
    kn_value *result = kn_einsum(equation, values, number);
    if (kn_value_failed(result) != (kn_graph_status(graph) != KN_OK)) abort();
    if (kn_value_failed(result) && kn_graph_error(graph)[0] == '\0') abort();
    kn_graph_destroy(&graph);
    free(equation);
    return 0;
}
