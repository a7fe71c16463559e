/* Encodes protocol buffers, for the tests of the ONNX reader. */
#ifndef KN_TESTS_ONNX_BYTES_H
#define KN_TESTS_ONNX_BYTES_H

#include <stddef.h>
#include <stdint.h>

enum { MADE_ROOM = 4096 };
typedef struct made {
    uint8_t bytes[MADE_ROOM];
    size_t count;
} made;

/* Each appends to `to` and returns it; too long a message fails the test. */
made *add_bytes(made *to, const void *bytes, size_t count);
made *add_varint(made *to, uint64_t value);
made *add_number(made *to, uint32_t field, uint64_t value);
made *add_text(made *to, uint32_t field, const char *text);
made *add_packet(made *to, uint32_t field, const void *bytes, size_t count);
made *add_message(made *to, uint32_t field, const made *message);
made *add_float(made *to, uint32_t field, float value);
/* A float32 tensor of `length` elements 0, 1, 2 and so on as raw data; the name may be NULL. */
made *add_tensor(made *to, uint32_t field, const char *name, uint32_t length);
/* A value with that name, a tensor of a type as numbered by the format. shape as "batch,3,,-1": a symbol, a
 * number, an open size without a symbol, an invalid one; "" is a scalar, NULL an open rank. */
made *add_typed_value(made *to, uint32_t field, const char *name, int type, const char *shape);
/* The same for a float32 tensor of the shape ("batch", 3). */
made *add_value(made *to, uint32_t field, const char *name);
/* An entry of metadata. */
made *add_pair(made *to, uint32_t field, const char *key, const char *value);
/* A node with one input and one output. */
made *add_node(made *to, uint32_t field, const char *type, const char *input, const char *output,
               const made *attribute);

/* A model with all features: every kind of attribute, a function, sparse and annotated tensors. */
void make_model(made *model);
/* The smallest model around a graph, of this operator set. */
enum { SMALL_OPSET = 21 };
void make_small_model(made *model, const made *graph);

#endif
