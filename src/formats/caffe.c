/* Caffe files as trees: detecting the kind of file, and queries of the tree. */
#include "formats/caffe_private.h"

#include <string.h>

/* ---- detection ----------------------------------------------------------------------------- */

/* Fields that a text net can begin with. */
static bool is_text(const uint8_t *bytes, uint64_t count) {
    static const char *const words[] = {"name",   "input", "input_dim",  "input_shape",   "layer",
                                        "layers", "state", "debug_info", "force_backward"};
    uint64_t at = 0;
    while (at < count && (strchr(" \t\r\n", bytes[at]) || bytes[at] == '#')) {
        if (!bytes[at]) return false;
        if (bytes[at] == '#')
            while (at < count && bytes[at] != '\n')
                at++;
        else
            at++;
    }
    for (size_t i = 0; i < KN_COUNT_OF(words); i++) {
        uint64_t end = at + strlen(words[i]);
        if (end >= count || memcmp(bytes + at, words[i], strlen(words[i]))) continue;
        while (end < count && (bytes[end] == ' ' || bytes[end] == '\t'))
            end++;
        if (end < count && (bytes[end] == ':' || bytes[end] == '{')) return true;
    }
    return false;
}

/* Skips fields of a net up to a layer. No text gets that far: the tag of a layer begins with a byte that text
 * cannot contain. */
static bool is_binary(const uint8_t *bytes, uint64_t count) {
    enum { BEFORE_LAYERS = 64, FIRST_LAYERS = 2, LAYERS = 100, INPUT_DIMS = 4, KNOWN = 8 };
    kn_error error = {0};
    const kn_wire_input input = {.name = "", .kind = "", .start = bytes, .error = &error};
    kn_wire rest = {bytes, bytes + count};
    kn_wire_field field;
    kn_status status = KN_OK;
    for (int i = 0; i < BEFORE_LAYERS && kn_wire_next(&input, &rest, &field, &status); i++) {
        bool whole = field.form == KN_WIRE_VARINT;
        if (field.number == FIRST_LAYERS || field.number == LAYERS) return field.form == KN_WIRE_BYTES;
        if (field.number > KNOWN || (!whole && field.form != KN_WIRE_BYTES)) return false;
        if (whole && field.number < INPUT_DIMS) return false;
    }
    return false;
}

bool kn_caffe_is(const uint8_t *bytes, uint64_t count) {
    return count > 0 && (is_text(bytes, count) || is_binary(bytes, count));
}

/* ---- building a tree ---------------------------------------------------------------------------- */

kn_status kn_caffe_read(const kn_host *host, const char *name, const uint8_t *bytes, uint64_t count,
                        kn_caffe_net *net, kn_error *error) {
    *net = (kn_caffe_net){.binary = count > 0 && !is_text(bytes, count)};
    kn_arena_init(&net->arena, host);
    kn_caffe_reader in = {.name = name, .net = net, .error = error};
    kn_caffe_item **last = &net->root;
    kn_status status;
    if (!kn_caffe_add(&in, &last, "net", KN_CAFFE_MESSAGE, 0))
        status = error->status;
    else if (net->binary)
        status = kn_caffe_read_binary(&in, bytes, count);
    else
        status = kn_caffe_read_text(&in, (const char *)bytes, (size_t)count);
    if (status != KN_OK) kn_caffe_close(host, net);
    return status;
}

kn_status kn_caffe_open(const kn_host *host, const char *path, kn_caffe_net *net, kn_error *error) {
    kn_file_view view;
    *net = (kn_caffe_net){.root = NULL};
    kn_status status = kn_file_open_view(host, path, &view, error);
    if (status != KN_OK) return status;
    status = kn_caffe_read(host, path, view.bytes, view.count, net, error);
    if (status == KN_OK)
        net->view = view;
    else
        kn_file_close_view(host, &view);
    return status;
}

void kn_caffe_close(const kn_host *host, kn_caffe_net *net) {
    if (net->arena.host || net->arena.blocks) kn_arena_finish(&net->arena);
    if (net->view.bytes) kn_file_close_view(host, &net->view);
    *net = (kn_caffe_net){.root = NULL};
}

/* ---- queries ------------------------------------------------------------------------------------ */

const kn_caffe_item *kn_caffe_next(const kn_caffe_item *message, const char *name,
                                   const kn_caffe_item *after) {
    const kn_caffe_item *item = after                                          ? after->next
                                : message && message->kind == KN_CAFFE_MESSAGE ? message->as.first
                                                                               : NULL;
    while (item && strcmp(item->name, name))
        item = item->next;
    return item;
}

const kn_caffe_item *kn_caffe_field(const kn_caffe_item *message, const char *name) {
    const kn_caffe_item *found = NULL;
    for (const kn_caffe_item *item = NULL; (item = kn_caffe_next(message, name, item));)
        found = item;
    return found;
}

int kn_caffe_count(const kn_caffe_item *message, const char *name) {
    int count = 0;
    for (const kn_caffe_item *item = NULL; (item = kn_caffe_next(message, name, item));)
        count++;
    return count;
}

double kn_caffe_number(const kn_caffe_item *message, const char *name, double fallback) {
    const kn_caffe_item *item = kn_caffe_field(message, name);
    if (item && item->kind == KN_CAFFE_NUMBER) return item->as.number;
    if (!item || item->kind != KN_CAFFE_WORD) return fallback;
    if (!strcmp(item->as.text, "true")) return 1;
    return strcmp(item->as.text, "false") ? fallback : 0;
}

const char *kn_caffe_text(const kn_caffe_item *message, const char *name, const char *fallback) {
    const kn_caffe_item *item = kn_caffe_field(message, name);
    return item && (item->kind == KN_CAFFE_TEXT || item->kind == KN_CAFFE_WORD) ? item->as.text : fallback;
}
