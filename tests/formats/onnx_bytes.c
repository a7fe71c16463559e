#include "onnx_bytes.h"

#include <stdlib.h>
#include <string.h>

#include "support.h"

made *add_bytes(made *to, const void *bytes, size_t count) {
    assert_true(count <= MADE_ROOM - to->count);
    if (count > 0) memcpy(to->bytes + to->count, bytes, count);
    to->count += count;
    return to;
}

made *add_varint(made *to, uint64_t value) {
    uint8_t bytes[10];
    size_t count = 0;
    do
        bytes[count++] = (uint8_t)((value & 127) | (value > 127 ? 128 : 0));
    while ((value >>= 7) > 0);
    return add_bytes(to, bytes, count);
}

made *add_number(made *to, uint32_t field, uint64_t value) {
    return add_varint(add_varint(to, (uint64_t)field << 3), value);
}

made *add_packet(made *to, uint32_t field, const void *bytes, size_t count) {
    return add_bytes(add_varint(add_varint(to, (uint64_t)field << 3 | 2), count), bytes, count);
}

made *add_text(made *to, uint32_t field, const char *text) {
    return add_packet(to, field, text, strlen(text));
}

made *add_message(made *to, uint32_t field, const made *message) {
    return add_packet(to, field, message->bytes, message->count);
}

static void little(float value, uint8_t bytes[4]) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    for (int i = 0; i < 4; i++)
        bytes[i] = (uint8_t)(bits >> (8 * i));
}

made *add_float(made *to, uint32_t field, float value) {
    uint8_t bytes[4];
    little(value, bytes);
    return add_bytes(add_varint(to, (uint64_t)field << 3 | 5), bytes, 4);
}

made *add_tensor(made *to, uint32_t field, const char *name, uint32_t length) {
    made tensor = {.count = 0};
    add_number(add_number(&tensor, 1, length), 2, 1);
    if (name) add_text(&tensor, 8, name);
    uint8_t bytes[4 * 64];
    assert_true(length <= 64);
    for (uint32_t i = 0; i < length; i++)
        little((float)i, bytes + 4 * i);
    add_packet(&tensor, 9, bytes, 4 * length);
    return add_message(to, field, &tensor);
}

/* The type of a tensor; see add_typed_value. */
static void make_type(made *type, int element, const char *shape) {
    made tensor = {.count = 0}, sizes = {.count = 0};
    const char *at = shape;
    while (at && *at) {
        made size = {.count = 0};
        char word[256] = "";
        const size_t length = strcspn(at, ",");
        assert_true(length < sizeof word);
        memcpy(word, at, length);
        const char first = word[word[0] == '-'];
        if (first >= '0' && first <= '9')
            add_number(&size, 1, (uint64_t)strtoll(word, NULL, 10));
        else if (word[0])
            add_text(&size, 2, word);
        add_message(&sizes, 1, &size);
        at += length + (at[length] == ',');
    }
    add_number(&tensor, 1, (uint64_t)element);
    if (shape) add_message(&tensor, 2, &sizes);
    *type = (made){.count = 0};
    add_message(type, 1, &tensor);
}

made *add_typed_value(made *to, uint32_t field, const char *name, int type, const char *shape) {
    made value = {.count = 0}, tensor;
    make_type(&tensor, type, shape);
    return add_message(to, field, add_message(add_text(&value, 1, name), 2, &tensor));
}

made *add_value(made *to, uint32_t field, const char *name) {
    return add_typed_value(to, field, name, 1, "batch,3");
}

made *add_pair(made *to, uint32_t field, const char *key, const char *value) {
    made pair = {.count = 0};
    return add_message(to, field, add_text(add_text(&pair, 1, key), 2, value));
}

made *add_node(made *to, uint32_t field, const char *type, const char *input, const char *output,
               const made *attribute) {
    made node = {.count = 0};
    add_text(add_text(add_text(&node, 1, input), 2, output), 4, type);
    if (attribute) add_message(&node, 5, attribute);
    return add_message(to, field, &node);
}

void make_small_model(made *model, const made *graph) {
    made opset = {.count = 0};
    *model = (made){.count = 0};
    add_number(add_text(&opset, 1, "ai.onnx"), 2, SMALL_OPSET);
    add_message(add_message(add_number(model, 1, 10), 8, &opset), 7, graph);
}

/* An attribute with its name and kind; the caller adds its value. */
static made start(const char *name, uint64_t kind) {
    made attribute = {.count = 0};
    add_number(add_text(&attribute, 1, name), 20, kind);
    return attribute;
}

static void add_attributes(made *node) {
    made inner = {.count = 0}, sparse = {.count = 0}, indices = {.count = 0}, type;
    add_text(add_node(&inner, 1, "Relu", "seen", "made", NULL), 2, "branch");
    add_value(&inner, 12, "made");
    add_packet(add_number(add_number(&indices, 1, 2), 2, 7), 7, "\1\2", 2);
    add_number(add_message(add_tensor(&sparse, 1, "sparse", 2), 2, &indices), 3, 5);
    make_type(&type, 1, "batch,3");
    made f = start("f", 1), i = start("i", 2), s = start("s", 3), t = start("t", 4), g = start("g", 5),
         fs = start("fs", 6), is = start("is", 7), ss = start("ss", 8), ts = start("ts", 9),
         gs = start("gs", 10), sparse_one = start("sparse", 11), sparses = start("sparses", 12),
         tp = start("tp", 13), tps = start("tps", 14);
    const made *all[] = {add_float(&f, 2, 0.5f),
                         add_number(&i, 3, (uint64_t)-7),
                         add_packet(&s, 4, "\0\xff", 2),
                         add_tensor(&t, 5, NULL, 2),
                         add_message(&g, 6, &inner),
                         add_float(add_float(&fs, 7, 1), 7, 2),
                         add_packet(&is, 8, "\3\4\5", 3),
                         add_text(add_text(&ss, 9, "one"), 9, ""),
                         add_tensor(add_tensor(&ts, 10, NULL, 1), 10, NULL, 0),
                         add_message(&gs, 11, &inner),
                         add_message(&sparse_one, 22, &sparse),
                         add_message(&sparses, 23, &sparse),
                         add_message(&tp, 14, &type),
                         add_message(&tps, 15, &type)};
    for (size_t index = 0; index < sizeof all / sizeof all[0]; index++)
        add_message(node, 5, all[index]);
}

void make_model(made *model) {
    made node = {.count = 0}, graph = {.count = 0}, pair = {.count = 0}, annotation = {.count = 0},
         function = {.count = 0}, opset = {.count = 0}, reference = {.count = 0}, fallback = start("beta", 1),
         sparse = {.count = 0}, indices = {.count = 0};
    add_text(add_text(&pair, 1, "key"), 2, "v\xc3\xa4lue");
    add_text(add_text(add_text(&node, 1, "x"), 1, ""), 1, "w");
    add_text(add_text(&node, 2, "y"), 3, "first");
    add_text(add_text(add_text(add_text(&node, 4, "Twice"), 7, "own"), 8, "wide"), 6, "words");
    add_message(&node, 9, &pair);
    add_attributes(&node);
    add_text(add_message(&annotation, 2, &pair), 1, "w");
    add_packet(add_number(add_number(&indices, 1, 1), 2, 7), 7, "\1", 1);
    add_number(add_message(add_tensor(&sparse, 1, "few", 1), 2, &indices), 3, 4);
    add_message(add_text(&graph, 2, "graph"), 1, &node);
    add_node(&graph, 1, "Relu", "y", "z", NULL);
    add_tensor(add_tensor(&graph, 5, "w", 3), 5, "none", 0);
    add_value(add_value(add_value(&graph, 11, "x"), 12, "z"), 13, "y");
    add_message(add_message(add_message(&graph, 14, &annotation), 15, &sparse), 16, &pair);
    add_text(add_number(add_text(&reference, 1, "alpha"), 20, 1), 21, "slope");
    add_text(add_text(add_text(&function, 1, "Twice"), 10, "own"), 13, "wide");
    add_text(add_text(add_text(add_text(&function, 4, "a"), 4, "b"), 4, "c"), 5, "d");
    add_text(add_node(&function, 7, "LeakyRelu", "a", "d", &reference), 6, "slope");
    add_number(&opset, 2, 21);
    add_message(add_message(&function, 11, add_float(&fallback, 2, 3)), 9, &opset);
    add_value(&function, 12, "d");
    make_small_model(model, &graph);
    add_text(add_text(add_number(model, 5, 2), 2, "tests"), 3, "1");
    opset.count = 0;
    add_message(model, 8, add_number(add_text(&opset, 1, "own"), 2, 1));
    add_message(add_message(model, 25, &function), 14, &pair);
    /* Unknown fields: one of each wire type. */
    add_float(add_number(add_text(model, 900, "later"), 901, 1), 902, 1);
    add_bytes(add_varint(model, 903 << 3 | 1), "12345678", 8);
}
