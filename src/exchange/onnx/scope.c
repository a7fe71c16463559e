/* What all files of the importer share: failures, scopes of names, and lists of sizes as text. */
#include "exchange/onnx/import.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* ---- failures ------------------------------------------------------------------------------------------ */

kn_status kn_import_no_memory(const kn_import *import) {
    kn_graph_fail(import->graph, KN_ERROR_MEMORY, "out of host memory");
    return KN_ERROR_MEMORY;
}

/* Appends "; inputs: (2,3), (4)": the shapes of the inputs that are values. */
static void append_shapes(const kn_import_call *call, char *text, size_t room) {
    size_t used = strlen(text);
    const char *before = "; inputs: ";
    for (int i = 0; call->inputs && i < call->input_count && used < room; i++) {
        const kn_value *value = call->inputs[i] ? call->inputs[i]->value : NULL;
        if (!value || kn_value_failed(value)) continue;
        used += (size_t)snprintf(text + used, room - used, "%s(%s)", before,
                                 kn_import_dims_text(call->import, value->shape.dims, value->shape.rank));
        before = ", ";
    }
}

static void fail_with(const kn_import_call *call, kn_status status, const char *format, va_list arguments) {
    char text[1024];
    if (kn_import_status(call) != KN_OK) return;
    vsnprintf(text, sizeof text, format, arguments);
    if (status == KN_ERROR_SHAPE) append_shapes(call, text, sizeof text);
    kn_graph_fail(call->graph, status, "%s", text);
}

kn_status kn_import_fail(const kn_import_call *call, kn_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fail_with(call, status, format, arguments);
    va_end(arguments);
    return kn_import_status(call);
}

kn_value *kn_import_reject(const kn_import_call *call, kn_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fail_with(call, status, format, arguments);
    va_end(arguments);
    return kn_import_failed(call);
}

kn_status kn_import_fail_node(const kn_import *import, const kn_onnx_node *node, kn_status status,
                              const char *message) {
    const char *name = !*node->name && node->output_count ? node->outputs[0] : node->name;
    return kn_fail(&import->model->error, status, "%s: node '%.100s' (%.60s): %s", import->model->source,
                   name, node->type, message);
}

void kn_import_record_training(kn_import_call *call) {
    kn_import *import = call->import;
    if (import->training_count == import->training_capacity) {
        size_t more = import->training_capacity ? 2 * import->training_capacity : 16;
        const kn_onnx_node **nodes = kn_arena_take(import->arena, more, sizeof *nodes);
        if (!nodes) {
            kn_import_no_memory(import);
            return;
        }
        if (import->training_count) memcpy(nodes, import->training, import->training_count * sizeof *nodes);
        import->training = nodes;
        import->training_capacity = more;
    }
    import->training[import->training_count++] = call->node;
}

/* ---- scopes -------------------------------------------------------------------------------------------- */

void kn_import_open_scope(kn_import *import, kn_import_scope *scope) {
    kn_map_init(&scope->items, &import->model->host);
    scope->outer = import->scope;
    import->scope = scope;
}

void kn_import_close_scope(kn_import *import, kn_import_scope *scope) {
    kn_map_finish(&scope->items);
    import->scope = scope->outer;
}

kn_item *kn_import_item(const kn_import *import, const char *name) {
    for (const kn_import_scope *scope = import->scope; scope;
         scope = scope->definition ? NULL : scope->outer) {
        kn_item *item = kn_map_get_text(&scope->items, name);
        if (item) return item;
    }
    return NULL;
}

kn_status kn_import_define(kn_import *import, const char *name, const kn_item *item) {
    kn_item *copy = kn_arena_copy(import->arena, item, 1, sizeof *item);
    if (!copy || !kn_map_put_text(&import->scope->items, name, copy)) return kn_import_no_memory(import);
    copy->name = name;
    return kn_graph_status(import->graph);
}

/* ---- texts --------------------------------------------------------------------------------------------- */

/* Keeps a text in the arena; "" after a failure. */
static const char *keep_text(kn_import *import, kn_text *text) {
    const char *kept = kn_text_failed(text) ? NULL : kn_arena_text(import->arena, text->data);
    kn_text_finish(text);
    if (!kept) kn_import_no_memory(import);
    return kept ? kept : "";
}

const char *kn_import_dims_text(kn_import *import, const kn_dim *dims, int count) {
    kn_text text;
    kn_text_init(&text, &import->model->host);
    for (int i = 0; i < count; i++) {
        if (i) kn_text_add(&text, ",");
        kn_dim_text(import->graph, dims[i], &text);
    }
    return keep_text(import, &text);
}

const char *kn_import_list(kn_import *import, const int64_t *numbers, int count) {
    kn_text text;
    kn_text_init(&text, &import->model->host);
    for (int i = 0; i < count; i++)
        kn_text_format(&text, "%s%" PRId64, i ? "," : "", numbers[i]);
    return keep_text(import, &text);
}
