#include "models.h"

#include <stdio.h>
#include <string.h>

enum { FLOAT = 1, INT64 = 7, STRING = 8, BOOL = 9, NODE = 1, INITIALIZER = 5, INPUT = 11, OUTPUT = 12 };

/* The second input and the attribute may be NULL. */
static void add_call(made *graph, const char *type, const char *x, const char *y, const char *result,
                     const made *attribute, const made *other) {
    made node = {.count = 0};
    add_text(&node, 1, x);
    if (y) add_text(&node, 1, y);
    add_text(add_text(&node, 2, result), 4, type);
    if (attribute) add_message(&node, 5, attribute);
    if (other) add_message(&node, 5, other);
    add_message(graph, NODE, &node);
}

void model_sum(made *model) {
    made graph = {.count = 0};
    add_tensor(&graph, INITIALIZER, "w", 3);
    add_typed_value(&graph, INPUT, "x", FLOAT, "batch,3");
    add_call(&graph, "Add", "x", "w", "y", NULL, NULL);
    add_call(&graph, "Neg", "x", NULL, "z", NULL, NULL);
    add_typed_value(&graph, OUTPUT, "y", FLOAT, "batch,3");
    add_typed_value(&graph, OUTPUT, "z", FLOAT, "batch,3");
    add_text(add_text(&graph, 2, "sums"), 10, "of a graph");
    make_small_model(model, &graph);
    add_text(add_text(add_text(add_number(model, 5, 17), 2, "maker"), 4, "org.example"), 6, "a test");
    add_pair(model, 14, "rate", "16000");
    add_pair(model, 14, "labels", "a,b");
}

static made branch(const char *type, const char *second, const char *result) {
    made graph = {.count = 0}, attribute = {.count = 0};
    add_call(&graph, type, "x", second, result, NULL, NULL);
    add_typed_value(&graph, OUTPUT, result, FLOAT, "n,m");
    add_text(&graph, 2, result);
    const char *name = second ? "then_branch" : "else_branch";
    return *add_number(add_message(add_text(&attribute, 1, name), 6, &graph), 20, 5);
}

void model_strings(made *model) {
    made graph = {.count = 0};
    add_typed_value(&graph, INPUT, "a", STRING, "n");
    add_typed_value(&graph, INPUT, "b", STRING, "1");
    add_call(&graph, "StringConcat", "a", "b", "y", NULL, NULL);
    add_call(&graph, "Equal", "a", "b", "same", NULL, NULL);
    add_typed_value(&graph, OUTPUT, "y", STRING, "n");
    add_typed_value(&graph, OUTPUT, "same", BOOL, "n");
    make_small_model(model, add_text(&graph, 2, "strings"));
}

void model_external(made *model) {
    made graph = {.count = 0}, tensor = {.count = 0};
    add_text(add_number(add_number(&tensor, 1, 3), 2, FLOAT), 8, "w");
    add_pair(add_pair(add_pair(&tensor, 13, "location", "weights.bin"), 13, "offset", "4"), 13, "length",
             "12");
    add_message(&graph, INITIALIZER, add_number(&tensor, 14, 1));
    add_typed_value(&graph, INPUT, "x", FLOAT, "batch,3");
    add_call(&graph, "Add", "x", "w", "y", NULL, NULL);
    add_typed_value(&graph, OUTPUT, "y", FLOAT, "batch,3");
    make_small_model(model, add_text(&graph, 2, "external"));
}

void model_split(made *model, const char *delimiter, int most) {
    made graph = {.count = 0}, node = {.count = 0}, text = {.count = 0}, number = {.count = 0};
    add_text(add_text(add_text(add_text(&node, 1, "x"), 2, "parts"), 2, "counts"), 4, "StringSplit");
    add_message(&node, 5, add_number(add_text(add_text(&text, 1, "delimiter"), 4, delimiter), 20, 3));
    add_number(add_number(add_text(&number, 1, "maxsplit"), 3, (uint64_t)most), 20, 2);
    add_message(&graph, NODE, add_message(&node, 5, &number));
    add_typed_value(&graph, INPUT, "x", STRING, "n");
    add_typed_value(&graph, OUTPUT, "parts", STRING, "n,k");
    add_typed_value(&graph, OUTPUT, "counts", INT64, "n");
    make_small_model(model, add_text(&graph, 2, "split"));
}

void model_branches(made *model) {
    made graph = {.count = 0}, number = {.count = 0}, values = {.count = 0};
    const made taken = branch("Add", "x", "twice"), other = branch("Neg", NULL, "negative");
    add_bytes(add_number(add_number(&number, 2, INT64), 7, 16000), values.bytes, values.count);
    add_message(&graph, INITIALIZER, add_text(&number, 8, "high"));
    add_typed_value(&graph, INPUT, "x", FLOAT, "n,2");
    add_typed_value(&graph, INPUT, "rate", INT64, "");
    add_call(&graph, "Equal", "rate", "high", "is_high", NULL, NULL);
    add_call(&graph, "If", "is_high", NULL, "y", &taken, &other);
    add_typed_value(&graph, OUTPUT, "y", FLOAT, "n,2");
    make_small_model(model, add_text(&graph, 2, "branches"));
}

/* Adds is_positive: whether the sum of x is. */
static void add_condition(made *graph) {
    made keep = {.count = 0};
    add_number(add_number(add_text(&keep, 1, "keepdims"), 3, 0), 20, 2);
    add_tensor(graph, INITIALIZER, "zero", 1);
    add_call(graph, "ReduceSum", "x", NULL, "sum", &keep, NULL);
    add_call(graph, "Greater", "sum", "zero", "is_positive", NULL, NULL);
}

void model_reshaped(made *model) {
    made graph = {.count = 0};
    const made taken = branch("Reshape", "shape", "reshaped"), other = branch("Neg", NULL, "negative");
    add_typed_value(&graph, INPUT, "x", FLOAT, "n,3");
    add_typed_value(&graph, INPUT, "shape", INT64, "2");
    add_condition(&graph);
    add_call(&graph, "If", "is_positive", NULL, "y", &taken, &other);
    add_typed_value(&graph, OUTPUT, "y", FLOAT, "a,b");
    make_small_model(model, add_text(&graph, 2, "reshaped"));
}

void model_computed(made *model) {
    made graph = {.count = 0};
    const made taken = branch("Add", "x", "twice"), other = branch("Neg", NULL, "negative");
    add_typed_value(&graph, INPUT, "x", FLOAT, "n,3");
    add_condition(&graph);
    add_call(&graph, "If", "is_positive", NULL, "y", &taken, &other);
    add_call(&graph, "Greater", "x", "zero", "positive", NULL, NULL);
    add_call(&graph, "NonZero", "positive", NULL, "where", NULL, NULL);
    add_typed_value(&graph, OUTPUT, "y", FLOAT, "n,3");
    add_typed_value(&graph, OUTPUT, "where", INT64, "2,k");
    make_small_model(model, add_text(&graph, 2, "computed"));
}

void model_loop(made *model) {
    made graph = {.count = 0}, body = {.count = 0}, attribute = {.count = 0}, keep = {.count = 0},
         node = {.count = 0};
    add_number(add_number(add_text(&keep, 1, "keepdims"), 3, 0), 20, 2);
    add_typed_value(&body, INPUT, "number", INT64, "");
    add_typed_value(&body, INPUT, "going", BOOL, "");
    add_typed_value(&body, INPUT, "v", FLOAT, "n,3");
    add_call(&body, "Add", "v", "step", "next", NULL, NULL);
    add_call(&body, "ReduceSum", "next", NULL, "sum", &keep, NULL);
    add_call(&body, "Less", "sum", "limit", "goes_on", NULL, NULL);
    add_typed_value(&body, OUTPUT, "goes_on", BOOL, "");
    add_typed_value(&body, OUTPUT, "next", FLOAT, "n,3");
    add_typed_value(&body, OUTPUT, "sum", FLOAT, "");
    add_text(&body, 2, "body");
    add_number(add_message(add_text(&attribute, 1, "body"), 6, &body), 20, 5);
    add_typed_value(&graph, INPUT, "x", FLOAT, "n,3");
    add_typed_value(&graph, INPUT, "limit", FLOAT, "");
    add_call(&graph, "Mul", "x", "x", "step", NULL, NULL);
    add_call(&graph, "ReduceSum", "x", NULL, "first", &keep, NULL);
    add_call(&graph, "Less", "first", "limit", "going_first", NULL, NULL);
    add_text(add_text(add_text(&node, 1, ""), 1, "going_first"), 1, "x");
    add_text(add_text(add_text(&node, 2, "y"), 2, "sums"), 4, "Loop");
    add_message(&graph, NODE, add_message(&node, 5, &attribute));
    add_typed_value(&graph, OUTPUT, "y", FLOAT, "n,3");
    add_typed_value(&graph, OUTPUT, "sums", FLOAT, "k");
    make_small_model(model, add_text(&graph, 2, "loop"));
}

void model_random(made *model) {
    made graph = {.count = 0};
    add_typed_value(&graph, INPUT, "x", FLOAT, "n,3");
    add_call(&graph, "Bernoulli", "x", NULL, "y", NULL, NULL);
    add_call(&graph, "NonZero", "y", NULL, "where", NULL, NULL);
    add_typed_value(&graph, OUTPUT, "y", FLOAT, "n,3");
    add_typed_value(&graph, OUTPUT, "where", INT64, "2,k");
    make_small_model(model, add_text(&graph, 2, "random"));
}

void model_unknown(made *model) {
    made graph = {.count = 0};
    add_typed_value(&graph, INPUT, "x", FLOAT, "n,2");
    add_call(&graph, "Unheard", "x", NULL, "y", NULL, NULL);
    add_call(&graph, "Unseen", "x", NULL, "z", NULL, NULL);
    add_typed_value(&graph, OUTPUT, "y", FLOAT, "n,2");
    add_typed_value(&graph, OUTPUT, "z", FLOAT, "n,2");
    make_small_model(model, add_text(&graph, 2, "unknown"));
}

/* A sequence (field 4 of a type) or an optional (field 9) of tensors of this type. */
static void add_list(made *graph, uint32_t field, const char *name, uint32_t kind, int type) {
    made element = {.count = 0}, tensor = {.count = 0}, list = {.count = 0}, whole = {.count = 0},
         value = {.count = 0};
    add_message(&tensor, 1, add_number(&element, 1, (uint64_t)type));
    add_message(&whole, kind, add_message(&list, 1, &tensor));
    add_message(graph, field, add_message(add_text(&value, 1, name), 2, &whole));
}

void model_sequence(made *model) {
    made graph = {.count = 0}, axis = {.count = 0};
    add_number(add_number(add_text(&axis, 1, "axis"), 3, 0), 20, 2);
    add_list(&graph, INPUT, "list", 4, FLOAT);
    add_typed_value(&graph, INPUT, "x", FLOAT, "n,2");
    add_call(&graph, "Neg", "x", NULL, "minus", NULL, NULL);
    add_call(&graph, "SequenceInsert", "list", "minus", "all", NULL, NULL);
    add_call(&graph, "ConcatFromSequence", "all", NULL, "joined", &axis, NULL);
    add_call(&graph, "SequenceLength", "all", NULL, "count", NULL, NULL);
    add_list(&graph, OUTPUT, "all", 4, FLOAT);
    add_typed_value(&graph, OUTPUT, "joined", FLOAT, "m,2");
    add_typed_value(&graph, OUTPUT, "count", INT64, "");
    make_small_model(model, add_text(&graph, 2, "sequence"));
}

void model_optional(made *model) {
    made graph = {.count = 0};
    add_list(&graph, INPUT, "x", 9, FLOAT);
    add_call(&graph, "OptionalHasElement", "x", NULL, "has", NULL, NULL);
    add_call(&graph, "Identity", "x", NULL, "same", NULL, NULL);
    add_typed_value(&graph, OUTPUT, "has", BOOL, "");
    add_list(&graph, OUTPUT, "same", 9, FLOAT);
    make_small_model(model, add_text(&graph, 2, "optional"));
}

void model_cast(made *model) {
    made graph = {.count = 0}, to = {.count = 0};
    add_number(add_number(add_text(&to, 1, "to"), 3, INT64), 20, 2);
    add_typed_value(&graph, INPUT, "x", FLOAT, "2,2");
    add_call(&graph, "Cast", "x", NULL, "y", &to, NULL);
    add_call(&graph, "Identity", "y", NULL, "again", NULL, NULL);
    add_typed_value(&graph, OUTPUT, "y", INT64, "2,2");
    add_typed_value(&graph, OUTPUT, "again", INT64, "2,2");
    make_small_model(model, add_text(&graph, 2, "cast"));
}

void model_long_names(made *model) {
    made graph = {.count = 0};
    char shape[512], name[191] = "";
    memset(name, 'n', sizeof name - 1);
    snprintf(shape, sizeof shape, "1,%s_a,%s_b", name, name);
    add_typed_value(&graph, INPUT, "x", FLOAT, shape);
    add_call(&graph, "Neg", "x", NULL, "y", NULL, NULL);
    add_typed_value(&graph, OUTPUT, "y", FLOAT, shape);
    make_small_model(model, add_text(&graph, 2, "long"));
}
