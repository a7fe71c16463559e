/* ONNX files with a single value: a tensor, a sequence or an optional. */
#include <string.h>

#include "formats/onnx_private.h"

/* The numbers of SequenceProto and OptionalProto for the kind of their contents. */
static kn_onnx_kind kind_of(uint64_t number) {
    static const kn_onnx_kind kinds[] = {KN_ONNX_NO_KIND,  KN_ONNX_TENSOR, KN_ONNX_SPARSE,
                                         KN_ONNX_SEQUENCE, KN_ONNX_MAP,    KN_ONNX_OPTIONAL};
    return number < KN_COUNT_OF(kinds) ? kinds[number] : KN_ONNX_NO_KIND;
}

/* The field that holds items of a kind; 6 for maps in both. */
uint32_t kn_onnx_item_field(kn_onnx_kind kind) {
    switch (kind) {
    case KN_ONNX_TENSOR:
        return 3;
    case KN_ONNX_SPARSE:
        return 4;
    case KN_ONNX_SEQUENCE:
        return 5;
    case KN_ONNX_MAP:
        return 6;
    case KN_ONNX_OPTIONAL:
        return 7;
    default:
        return 0;
    }
}

static kn_status read_item(kn_onnx_reader *in, kn_onnx_kind kind, kn_wire bytes, kn_onnx_value *value);

/* Reads a sequence or an optional, whose fields have the same numbers. */
static kn_status read_holder(kn_onnx_reader *in, kn_wire bytes, kn_onnx_value *value) {
    kn_status status = KN_OK;
    kn_wire_field field;
    uint64_t counts[8] = {0};
    for (kn_wire rest = bytes; kn_wire_next(&in->input, &rest, &field, &status);) {
        if (field.number == 1) {
            status = kn_onnx_read_text(in, &field, &value->name);
        } else if (field.number == 2) {
            status = kn_onnx_expect(in, &field, KN_WIRE_VARINT);
            value->item_kind = kind_of(field.value);
        } else if (field.number < 8) {
            status = kn_onnx_expect(in, &field, KN_WIRE_BYTES);
            counts[field.number]++;
        }
    }
    if (status != KN_OK) return status;
    uint32_t number = kn_onnx_item_field(value->item_kind);
    if (value->item_kind == KN_ONNX_MAP)
        return kn_fail(in->input.error, KN_ERROR_UNSUPPORTED, "%s: maps are not supported", in->input.name);
    for (uint32_t other = 3; other < 8; other++)
        if (counts[other] > 0 && other != number)
            return kn_wire_refuse(&in->input, bytes.at, "%s of %s contains a different kind",
                                  kn_onnx_kind_name(value->kind), kn_onnx_kind_name(value->item_kind));
    value->count = number > 0 ? (size_t)counts[number] : 0;
    if (value->kind == KN_ONNX_OPTIONAL && value->count > 1)
        return kn_wire_refuse(&in->input, bytes.at, "an optional contains %zu values", value->count);
    if (value->count == 0) return KN_OK;
    kn_onnx_value *items = kn_onnx_take(in, value->count, sizeof *items, &status);
    if (!items) return status;
    value->items = items;
    for (kn_wire rest = bytes; kn_wire_next(&in->input, &rest, &field, &status);)
        if (field.number == number) status = read_item(in, value->item_kind, field.bytes, items++);
    return status;
}

static kn_status read_item(kn_onnx_reader *in, kn_onnx_kind kind, kn_wire bytes, kn_onnx_value *value) {
    *value = (kn_onnx_value){.kind = kind, .name = ""};
    kn_status status = KN_OK;
    if (kind == KN_ONNX_TENSOR) {
        kn_onnx_tensor *tensor = kn_onnx_take(in, 1, sizeof *tensor, &status);
        if (!tensor) return status;
        status = kn_onnx_read_message(in, &kn_onnx_tensor_message, bytes, tensor);
        value->tensor = tensor;
        value->name = tensor->name;
        return status;
    }
    if (kind == KN_ONNX_SPARSE) {
        kn_onnx_sparse *sparse = kn_onnx_take(in, 1, sizeof *sparse, &status);
        if (!sparse) return status;
        status = kn_onnx_read_message(in, &kn_onnx_sparse_message, bytes, sparse);
        value->sparse = sparse;
        value->name = sparse->values.name;
        return status;
    }
    if (in->depth >= KN_ONNX_DEPTH)
        return kn_wire_refuse(&in->input, bytes.at, "values are nested %d deep; expected fewer",
                              KN_ONNX_DEPTH);
    in->depth++;
    status = read_holder(in, bytes, value);
    in->depth--;
    return status;
}

kn_status kn_onnx_value_read(const kn_host *host, const char *name, const uint8_t *bytes, uint64_t count,
                             kn_onnx_kind kind, kn_onnx_value_file *file, kn_error *error) {
    *file = (kn_onnx_value_file){.value = {.kind = KN_ONNX_NO_KIND}};
    if (kn_onnx_item_field(kind) == 0 || kind == KN_ONNX_MAP)
        return kn_fail(error, KN_ERROR_UNSUPPORTED, "%s: %s is not supported", name, kn_onnx_kind_name(kind));
    kn_arena_init(&file->arena, host);
    kn_onnx_reader in = {.input = {.name = name, .kind = "an ONNX file", .start = bytes, .error = error},
                         .host = host,
                         .arena = &file->arena};
    kn_status status = read_item(&in, kind, (kn_wire){bytes, bytes + count}, &file->value);
    if (status != KN_OK) kn_onnx_value_close(host, file);
    return status;
}

kn_status kn_onnx_value_open(const kn_host *host, const char *path, kn_onnx_kind kind,
                             kn_onnx_value_file *file, kn_error *error) {
    *file = (kn_onnx_value_file){.value = {.kind = KN_ONNX_NO_KIND}};
    kn_file_view view;
    kn_status status = kn_file_open_view(host, path, &view, error);
    if (status != KN_OK) return status;
    status = kn_onnx_value_read(host, path, view.bytes, view.count, kind, file, error);
    if (status != KN_OK)
        kn_file_close_view(host, &view);
    else
        file->view = view;
    return status;
}

void kn_onnx_value_close(const kn_host *host, kn_onnx_value_file *file) {
    if (!file) return;
    if (file->arena.host || file->arena.blocks) kn_arena_finish(&file->arena);
    if (file->view.bytes) kn_file_close_view(host, &file->view);
    *file = (kn_onnx_value_file){.value = {.kind = KN_ONNX_NO_KIND}};
}
