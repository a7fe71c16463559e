/* ONNX messages that tables cannot describe: attributes of nodes, types of values, sparse tensors. */
#include <string.h>

#include "formats/onnx_private.h"

/* ---- types -------------------------------------------------------------------------- */

static kn_status read_dimension(kn_onnx_reader *in, kn_wire bytes, void *object) {
    kn_onnx_dimension *dimension = object;
    dimension->name = dimension->denotation = "";
    kn_status status = KN_OK;
    kn_wire_field field;
    while (kn_wire_next(&in->input, &bytes, &field, &status)) {
        switch (field.number) {
        case 1:
            status = kn_onnx_expect(in, &field, KN_WIRE_VARINT);
            dimension->known = true;
            dimension->length = (int64_t)field.value;
            dimension->name = "";
            break;
        case 2:
            status = kn_onnx_read_text(in, &field, &dimension->name);
            dimension->known = false;
            dimension->length = 0;
            break;
        case 3:
            status = kn_onnx_read_text(in, &field, &dimension->denotation);
            break;
        default:
            break;
        }
    }
    return status;
}

static const kn_onnx_message dimension_message = {
    .name = "dimension", .bytes = sizeof(kn_onnx_dimension), .read = read_dimension};

static kn_status read_shape(kn_onnx_reader *in, kn_wire bytes, kn_onnx_value_type *type) {
    kn_status status = KN_OK;
    kn_wire_field field;
    size_t count = 0;
    for (kn_wire rest = bytes; kn_wire_next(&in->input, &rest, &field, &status);)
        count += field.number == 1;
    void *list = NULL;
    if (status == KN_OK && count > 0)
        status = kn_onnx_read_list(in, &dimension_message, bytes, 1, count, &list);
    type->has_shape = true;
    type->rank = count;
    type->shape = list;
    return status;
}

static kn_status read_inner(kn_onnx_reader *in, const kn_wire_field *field, kn_onnx_value_type *type) {
    kn_status status = kn_onnx_expect(in, field, KN_WIRE_BYTES);
    kn_onnx_value_type *inner = status == KN_OK ? kn_onnx_take(in, 1, sizeof *inner, &status) : NULL;
    if (inner) status = kn_onnx_read_message(in, &kn_onnx_type_message, field->bytes, inner);
    type->inner = inner;
    return status;
}

/* Reads the field of a kind: an element or key type, a shape, an inner type. */
static kn_status read_kind(kn_onnx_reader *in, kn_wire bytes, kn_onnx_value_type *type) {
    kn_status status = KN_OK;
    kn_wire_field field;
    bool tensor = type->kind == KN_ONNX_TENSOR || type->kind == KN_ONNX_SPARSE,
         map = type->kind == KN_ONNX_MAP;
    while (kn_wire_next(&in->input, &bytes, &field, &status)) {
        if (field.number == 1 && (tensor || map)) {
            status = kn_onnx_expect(in, &field, KN_WIRE_VARINT);
            type->type = (kn_onnx_type)(int32_t)(uint32_t)field.value;
        } else if (field.number == 2 && tensor) {
            status = kn_onnx_expect(in, &field, KN_WIRE_BYTES);
            if (status == KN_OK) status = read_shape(in, field.bytes, type);
        } else if (type->kind != KN_ONNX_OPAQUE && field.number == (map ? 2u : 1u)) {
            status = read_inner(in, &field, type);
        }
    }
    return status;
}

static kn_onnx_kind kind_of_field(uint32_t number) {
    switch (number) {
    case 1:
        return KN_ONNX_TENSOR;
    case 4:
        return KN_ONNX_SEQUENCE;
    case 5:
        return KN_ONNX_MAP;
    case 7:
        return KN_ONNX_OPAQUE;
    case 8:
        return KN_ONNX_SPARSE;
    case 9:
        return KN_ONNX_OPTIONAL;
    default:
        return KN_ONNX_NO_KIND;
    }
}

static kn_status read_type(kn_onnx_reader *in, kn_wire bytes, void *object) {
    kn_onnx_value_type *type = object;
    type->denotation = "";
    kn_status status = KN_OK;
    kn_wire_field field;
    while (kn_wire_next(&in->input, &bytes, &field, &status)) {
        kn_onnx_kind kind = kind_of_field(field.number);
        if (field.number == 6) status = kn_onnx_read_text(in, &field, &type->denotation);
        if (kind == KN_ONNX_NO_KIND) continue;
        if (type->kind != KN_ONNX_NO_KIND)
            return kn_wire_refuse(&in->input, field.at, "a type is both %s and %s",
                                  kn_onnx_kind_name(type->kind), kn_onnx_kind_name(kind));
        type->kind = kind;
        status = kn_onnx_expect(in, &field, KN_WIRE_BYTES);
        if (status != KN_OK) return status;
        in->depth++;
        status = read_kind(in, field.bytes, type);
        in->depth--;
    }
    return status;
}

const kn_onnx_message kn_onnx_type_message = {
    .name = "type", .bytes = sizeof(kn_onnx_value_type), .read = read_type, .write = kn_onnx_write_type};

/* ---- sparse tensors ------------------------------------------------------------------- */

static kn_status read_sparse(kn_onnx_reader *in, kn_wire bytes, void *object) {
    kn_onnx_sparse *sparse = object;
    kn_status status = KN_OK;
    kn_wire_field field;
    uint64_t rank = 0, count;
    bool parts[3] = {false};
    for (kn_wire rest = bytes; kn_wire_next(&in->input, &rest, &field, &status);) {
        if (field.number == 1 || field.number == 2) {
            status = kn_onnx_expect(in, &field, KN_WIRE_BYTES);
            if (status == KN_OK && parts[field.number])
                return kn_wire_refuse(&in->input, field.at,
                                      "a sparse tensor has two fields of values or indices");
            parts[field.number] = true;
            if (status == KN_OK)
                status = kn_onnx_read_message(in, &kn_onnx_tensor_message, field.bytes,
                                              field.number == 1 ? &sparse->values : &sparse->indices);
        } else if (field.number == 3 && kn_wire_count(&in->input, &field, KN_WIRE_VARINT, &count, &status)) {
            rank += count;
        }
    }
    if (status != KN_OK) return status;
    if (!parts[1] || !parts[2])
        return kn_wire_refuse(&in->input, bytes.at, "a sparse tensor has no values or no indices");
    sparse->rank = (size_t)rank;
    return rank > 0 ? kn_onnx_read_ints(in, bytes, 3, rank, &sparse->shape) : KN_OK;
}

const kn_onnx_message kn_onnx_sparse_message = {.name = "sparse tensor",
                                                .bytes = sizeof(kn_onnx_sparse),
                                                .read = read_sparse,
                                                .write = kn_onnx_write_sparse};

/* ---- attributes ------------------------------------------------------------------------- */

/* Fields of AttributeProto. */
enum { NAME = 1, DOC = 13, KIND = 20, REFERENCE = 21, FIELDS = 24 };

/* The field that holds the value of each kind. */
static const uint8_t field_of_kind[] = {0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 22, 23, 14, 15};

uint32_t kn_onnx_attribute_field(kn_onnx_attribute_kind kind) {
    return (size_t)kind < KN_COUNT_OF(field_of_kind) ? field_of_kind[kind] : 0;
}

static kn_onnx_attribute_kind kind_in_field(uint32_t number) {
    for (size_t i = 1; i < KN_COUNT_OF(field_of_kind); i++)
        if (field_of_kind[i] == number) return (kn_onnx_attribute_kind)i;
    return KN_ONNX_ATTRIBUTE_NONE;
}

static bool is_list(kn_onnx_attribute_kind kind) {
    return (kind >= KN_ONNX_ATTRIBUTE_FLOATS && kind <= KN_ONNX_ATTRIBUTE_GRAPHS) ||
           kind == KN_ONNX_ATTRIBUTE_SPARSES || kind == KN_ONNX_ATTRIBUTE_TYPES;
}

/* Kinds that may be omitted if zero. */
static bool has_zero(kn_onnx_attribute_kind kind) {
    return kind >= KN_ONNX_ATTRIBUTE_FLOAT && kind <= KN_ONNX_ATTRIBUTE_STRING;
}

static kn_status scan(kn_onnx_reader *in, const kn_wire_field *field, uint64_t counts[FIELDS],
                      kn_onnx_attribute *attribute) {
    kn_status status = KN_OK;
    uint64_t count = 1;
    switch (field->number) {
    case NAME:
        return kn_onnx_read_text(in, field, &attribute->name);
    case DOC:
        return kn_onnx_read_text(in, field, &attribute->doc);
    case REFERENCE:
        return kn_onnx_read_text(in, field, &attribute->reference);
    case KIND:
        attribute->kind = (kn_onnx_attribute_kind)(field->value < 1000 ? field->value : 1000);
        return kn_onnx_expect(in, field, KN_WIRE_VARINT);
    default:
        break;
    }
    kn_onnx_attribute_kind kind = kind_in_field(field->number);
    if (kind == KN_ONNX_ATTRIBUTE_NONE) return KN_OK;
    if (kind == KN_ONNX_ATTRIBUTE_FLOATS)
        kn_wire_count(&in->input, field, KN_WIRE_FIXED32, &count, &status);
    else if (kind == KN_ONNX_ATTRIBUTE_INTS)
        kn_wire_count(&in->input, field, KN_WIRE_VARINT, &count, &status);
    else
        status = kn_onnx_expect(in, field,
                                kind == KN_ONNX_ATTRIBUTE_FLOAT ? KN_WIRE_FIXED32
                                : kind == KN_ONNX_ATTRIBUTE_INT ? KN_WIRE_VARINT
                                                                : KN_WIRE_BYTES);
    if (status != KN_OK) return status;
    /* Some writers write a zero for an absent value; the last of several numbers counts. */
    if (has_zero(kind)) {
        bool zero =
            kind == KN_ONNX_ATTRIBUTE_STRING ? field->bytes.at == field->bytes.end : field->value == 0;
        counts[field->number] = zero ? 0 : 1;
    } else {
        counts[field->number] += count;
    }
    return KN_OK;
}

/* Determines the kind: the declared kind, or the kind of the only value; there must be no value of a
 * different kind. */
static kn_status resolve_kind(kn_onnx_reader *in, const uint8_t *at, const uint64_t counts[FIELDS],
                              kn_onnx_attribute *attribute) {
    bool said = attribute->kind != KN_ONNX_ATTRIBUTE_NONE;
    if (said && (size_t)attribute->kind >= KN_COUNT_OF(field_of_kind))
        return kn_wire_refuse(&in->input, at, "attribute \"%.200s\" has an unknown kind", attribute->name);
    for (uint32_t number = 0; number < FIELDS; number++) {
        kn_onnx_attribute_kind kind = counts[number] > 0 ? kind_in_field(number) : KN_ONNX_ATTRIBUTE_NONE;
        if (kind == KN_ONNX_ATTRIBUTE_NONE) continue;
        if (!said && attribute->kind == KN_ONNX_ATTRIBUTE_NONE) attribute->kind = kind;
        if (attribute->kind != kind)
            return kn_wire_refuse(&in->input, at, "attribute \"%.200s\" is both %s and %s", attribute->name,
                                  kn_onnx_attribute_kind_name(attribute->kind),
                                  kn_onnx_attribute_kind_name(kind));
        if (attribute->reference[0] != '\0')
            return kn_wire_refuse(&in->input, at,
                                  "attribute \"%.200s\" has both a value and a reference to \"%.200s\"",
                                  attribute->name, attribute->reference);
    }
    return KN_OK;
}

static kn_status read_strings(kn_onnx_reader *in, kn_wire around, uint32_t number,
                              kn_onnx_attribute *attribute) {
    kn_status status = KN_OK;
    kn_onnx_string *strings = kn_onnx_take(in, attribute->count, sizeof *strings, &status);
    if (!strings) return status;
    bool one = attribute->kind == KN_ONNX_ATTRIBUTE_STRING;
    strings[0].bytes = "";
    kn_wire_field field;
    for (size_t i = 0; kn_wire_next(&in->input, &around, &field, &status);)
        if (field.number == number) status = kn_onnx_read_string(in, &field, &strings[one ? 0 : i++]);
    attribute->strings = strings;
    return status;
}

/* A single number: the last one, or 0. */
static kn_status read_number(kn_onnx_reader *in, kn_wire around, uint32_t number,
                             kn_onnx_attribute *attribute) {
    kn_status status = KN_OK;
    void *memory = kn_onnx_take(in, 1, sizeof(int64_t), &status);
    if (!memory) return status;
    kn_wire_field field;
    uint64_t value = 0;
    while (kn_wire_next(&in->input, &around, &field, &status))
        if (field.number == number) value = field.value;
    uint32_t bits = (uint32_t)value;
    if (attribute->kind == KN_ONNX_ATTRIBUTE_FLOAT) {
        memcpy(memory, &bits, sizeof bits);
        attribute->floats = memory;
    } else {
        memcpy(memory, &value, sizeof value);
        attribute->ints = memory;
    }
    return status;
}

static kn_status read_value(kn_onnx_reader *in, kn_wire bytes, kn_onnx_attribute *attribute) {
    uint32_t number = field_of_kind[attribute->kind];
    void *list = NULL;
    kn_status status;
    switch (attribute->kind) {
    case KN_ONNX_ATTRIBUTE_FLOAT:
    case KN_ONNX_ATTRIBUTE_INT:
        return read_number(in, bytes, number, attribute);
    case KN_ONNX_ATTRIBUTE_STRING:
    case KN_ONNX_ATTRIBUTE_STRINGS:
        return read_strings(in, bytes, number, attribute);
    case KN_ONNX_ATTRIBUTE_FLOATS:
        return kn_onnx_read_floats(in, bytes, number, attribute->count, &attribute->floats);
    case KN_ONNX_ATTRIBUTE_INTS:
        return kn_onnx_read_ints(in, bytes, number, attribute->count, &attribute->ints);
    case KN_ONNX_ATTRIBUTE_TENSOR:
    case KN_ONNX_ATTRIBUTE_TENSORS:
        status = kn_onnx_read_list(in, &kn_onnx_tensor_message, bytes, number, attribute->count, &list);
        attribute->tensors = list;
        return status;
    case KN_ONNX_ATTRIBUTE_GRAPH:
    case KN_ONNX_ATTRIBUTE_GRAPHS:
        status = kn_onnx_read_list(in, &kn_onnx_graph_message, bytes, number, attribute->count, &list);
        attribute->graphs = list;
        return status;
    case KN_ONNX_ATTRIBUTE_SPARSE:
    case KN_ONNX_ATTRIBUTE_SPARSES:
        status = kn_onnx_read_list(in, &kn_onnx_sparse_message, bytes, number, attribute->count, &list);
        attribute->sparses = list;
        return status;
    case KN_ONNX_ATTRIBUTE_TYPE:
    case KN_ONNX_ATTRIBUTE_TYPES:
        status = kn_onnx_read_list(in, &kn_onnx_type_message, bytes, number, attribute->count, &list);
        attribute->types = list;
        return status;
    case KN_ONNX_ATTRIBUTE_NONE:
        break;
    }
    return KN_OK;
}

static kn_status read_attribute(kn_onnx_reader *in, kn_wire bytes, void *object) {
    kn_onnx_attribute *attribute = object;
    attribute->name = attribute->doc = attribute->reference = "";
    uint64_t counts[FIELDS] = {0};
    kn_status status = KN_OK;
    kn_wire_field field;
    for (kn_wire rest = bytes; kn_wire_next(&in->input, &rest, &field, &status);)
        status = scan(in, &field, counts, attribute);
    if (status == KN_OK) status = resolve_kind(in, bytes.at, counts, attribute);
    if (status != KN_OK || attribute->reference[0] != '\0') return status;
    if (attribute->kind == KN_ONNX_ATTRIBUTE_NONE)
        return kn_wire_refuse(&in->input, bytes.at, "attribute \"%.200s\" has neither a kind nor a value",
                              attribute->name);
    uint64_t count = counts[field_of_kind[attribute->kind]];
    if (has_zero(attribute->kind)) count = 1;
    if (!is_list(attribute->kind) && count != 1)
        return kn_wire_refuse(&in->input, bytes.at, "attribute \"%.200s\" has %llu values; expected %s",
                              attribute->name, (unsigned long long)count,
                              kn_onnx_attribute_kind_name(attribute->kind));
    attribute->count = (size_t)count;
    return count > 0 ? read_value(in, bytes, attribute) : KN_OK;
}

const kn_onnx_message kn_onnx_attribute_message = {.name = "attribute",
                                                   .bytes = sizeof(kn_onnx_attribute),
                                                   .read = read_attribute,
                                                   .write = kn_onnx_write_attribute};
