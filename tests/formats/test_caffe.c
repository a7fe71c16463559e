/* Caffe networks as text and as protocol buffers: the same tree from both, and what is refused. */
#include "formats_tests.h"

#include "onnx_bytes.h"

#include <stdio.h>
#include <string.h>

enum { WRITTEN = 2000 };

/* "layer(type=\"ReLU\" blobs(data=[0,1]))". */
static void write_item(const kn_caffe_item *item, char *text) {
    size_t length = strlen(text), left = WRITTEN - length;
    const kn_array *array = item->kind == KN_CAFFE_ARRAY ? item->as.array : NULL;
    length += (size_t)snprintf(text + length, left, "%s%s", length && text[length - 1] != '(' ? " " : "",
                               item->name);
    if (item->kind == KN_CAFFE_NUMBER) snprintf(text + length, WRITTEN - length, "=%g", item->as.number);
    if (item->kind == KN_CAFFE_WORD) snprintf(text + length, WRITTEN - length, "=%s", item->as.text);
    if (item->kind == KN_CAFFE_TEXT) snprintf(text + length, WRITTEN - length, "=\"%s\"", item->as.text);
    for (uint64_t i = 0; array && i < array->count; i++)
        length += (size_t)snprintf(text + length, WRITTEN - length, "%s%g", i ? "," : "=",
                                   kn_array_number(array, i));
    if (item->kind != KN_CAFFE_MESSAGE) return;
    strcat(text, "(");
    for (const kn_caffe_item *field = item->as.first; field; field = field->next)
        write_item(field, text);
    strcat(text, ")");
}

static void has_tree(const void *bytes, size_t count, const char *expected) {
    kn_host host = kn_host_defaults();
    kn_caffe_net net;
    kn_error error = {0};
    char found[WRITTEN] = "";
    assert_fine(kn_caffe_read(&host, "net", bytes, count, &net, &error), &error);
    write_item(net.root, found);
    assert_string_equal(found, expected);
    kn_caffe_close(&host, &net);
}

TEST(text_is_read) {
#define TREE(text, expected) has_tree(text, sizeof(text) - 1, "net(" expected ")")
    TREE("name: \"a\" # comment: {\nname:'b\\'c' \"d\\x41\\101\"", "name=\"a\" name=\"b'cdAA\"");
    TREE("layer { type: \"ReLU\", top: \"x\"; }layer<type:MAX>",
         "layer(type=\"ReLU\" top=\"x\") layer(type=MAX)");
    TREE("layer: { blobs_lr: [1, -2.5e1, .5f] f: [] flag: true }",
         "layer(blobs_lr=1 blobs_lr=-25 blobs_lr=0.5 flag=true)");
    TREE("name: \"\\n\\377\xc3\xa9\"", "name=\"??\xc3\xa9\"");
    TREE("", "");
#undef TREE
}

static void text_is_refused(const char *text, const char *part) {
    kn_host host = kn_host_defaults();
    kn_caffe_net net;
    kn_error error = {0};
    assert_refused(kn_caffe_read(&host, "n.prototxt", (const uint8_t *)text, strlen(text), &net, &error),
                   &error, KN_ERROR_FORMAT, part);
    assert_null(net.root);
}

TEST(mistakes_are_reported_by_line) {
    text_is_refused("name: \"a\"\nlayer {\n",
                    "n.prototxt: line 3: found the end of the file, expected a field");
    text_is_refused("layer { name \"a\"", "line 1: found \"\"a\"\", expected ':' or '{'");
    text_is_refused("\n\nname: }", "line 3: found \"}\", expected a value");
    text_is_refused("name: \"a\nb\"", "expected the quote that ends a string");
    text_is_refused("name: 1.5.2", "line 1: found \"1.5.2\", expected a number");
    text_is_refused("name: [1 2]", "expected ',' or ']'");
    text_is_refused("name: \"\\q\"", "after the backslash");
    text_is_refused("name: 1 }", "line 1: found \"}\", expected a field");
    char deep[400] = "";
    for (int i = 0; i < 40; i++)
        strcat(deep, "layer {");
    text_is_refused(deep, "less deep");
}

/* A network with both encodings of layers: packed and single numbers, strings, and unknown fields. */
static void make_net(made *net) {
    made layer = {.count = 0}, param = {.count = 0}, blob = {.count = 0}, shape = {.count = 0},
         old = {.count = 0};
    static const float numbers[] = {1, 2.5f};
    static const uint8_t packed[] = {2, 1};
    add_packet(&shape, 1, packed, sizeof packed);
    add_message(add_packet(&blob, 5, numbers, sizeof numbers), 7, &shape);
    add_float(add_number(&param, 1, 1), 99, 1);
    add_number(&param, 7, 3);
    add_message(add_message(add_text(add_text(&layer, 1, "a"), 2, "Pooling"), 121, &param), 7, &blob);
    blob.count = 0;
    add_float(add_float(add_number(&blob, 1, 1), 5, 3), 5, 4);
    add_message(add_number(add_text(&old, 4, "b"), 5, 18), 6, &blob);
    add_message(add_message(add_number(add_text(net, 1, "n"), 4, (uint64_t)-3), 2, &old), 100, &layer);
}

TEST(weights_are_read) {
    made net = {.count = 0};
    make_net(&net);
    assert_true(kn_caffe_is(net.bytes, net.count));
    has_tree(net.bytes, net.count,
             "net(name=\"n\" input_dim=-3 layers(name=\"b\" type=RELU blobs(num=1 data=3,4)) "
             "layer(name=\"a\" type=\"Pooling\" "
             "pooling_param(pool=AVE stride_h=3) blobs(data=1,2.5 shape(dim=2 dim=1))))");
}

TEST(kinds_are_distinguished) {
    made net = {.count = 0}, model = {.count = 0};
    make_net(&net);
    make_model(&model);
    static const char *const yes[] = {"name: \"a\"", "# x\n\nlayer {", "layers{", "input: 'a'"};
    static const char *const no[] = {"koine 1\nmodel m\n", "name", "names: 1",
                                     "# name: 1",          "",     "\n#                     \n"};
    for (size_t i = 0; i < KN_COUNT_OF(yes); i++)
        assert_true(kn_caffe_is((const uint8_t *)yes[i], strlen(yes[i])));
    for (size_t i = 0; i < KN_COUNT_OF(no); i++)
        assert_false(kn_caffe_is((const uint8_t *)no[i], strlen(no[i])));
    assert_false(kn_caffe_is(model.bytes, model.count));
    assert_false(kn_caffe_is(net.bytes, 2));
}

TEST(damage_is_reported_by_byte) {
    kn_host host = kn_host_defaults();
    made net = {.count = 0};
    kn_caffe_net read;
    kn_error error = {0};
    make_net(&net);
    assert_refused(kn_caffe_read(&host, "n", net.bytes, net.count - 1, &read, &error), &error,
                   KN_ERROR_FORMAT, "n: byte ");
    made other = {.count = 0};
    add_number(add_text(&other, 1, "n"), 100, 1);
    assert_refused(kn_caffe_read(&host, "n", other.bytes, other.count, &read, &error), &error,
                   KN_ERROR_FORMAT, "n: byte 3: layer is a varint; expected length-delimited bytes");
}

TEST(memory_runs_out) {
    made net = {.count = 0};
    make_net(&net);
    for (size_t call = 1;; call++) {
        failing memory = {.fail_at = call};
        kn_host host = failing_host(&memory);
        kn_caffe_net read;
        kn_error error = {0};
        kn_status status = kn_caffe_read(&host, "n", net.bytes, net.count, &read, &error);
        if (status == KN_OK) kn_caffe_close(&host, &read);
        assert_int_equal(memory.live, 0);
        if (status == KN_OK) break;
        assert_int_equal(status, KN_ERROR_MEMORY);
    }
}

TEST_FILE(test_caffe, NULL, NULL)
