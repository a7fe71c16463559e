/* ONNX: tensors, whose elements may be in any of seven fields or in a separate file. */
#include <string.h>

#include "formats/onnx_private.h"

/* Fields of TensorProto. */
enum {
    DIMS = 1,
    DATA_TYPE = 2,
    SEGMENT = 3,
    FLOAT_DATA = 4,
    INT32_DATA = 5,
    STRING_DATA = 6,
    INT64_DATA = 7,
    NAME = 8,
    RAW_DATA = 9,
    DOUBLE_DATA = 10,
    UINT64_DATA = 11,
    DOC = 12,
    EXTERNAL_DATA = 13,
    DATA_LOCATION = 14,
    METADATA = 16,
    FIELDS = 17,
};

static kn_wire_form form_of(uint32_t number) {
    switch (number) {
    case FLOAT_DATA:
        return KN_WIRE_FIXED32;
    case DOUBLE_DATA:
        return KN_WIRE_FIXED64;
    default:
        return KN_WIRE_VARINT;
    }
}

static const char *field_name(uint32_t number) {
    static const char *const names[FIELDS] = {
        [FLOAT_DATA] = "float_data",   [INT32_DATA] = "int32_data",      [STRING_DATA] = "string_data",
        [INT64_DATA] = "int64_data",   [RAW_DATA] = "raw_data",          [DOUBLE_DATA] = "double_data",
        [UINT64_DATA] = "uint64_data", [EXTERNAL_DATA] = "external_data"};
    return names[number];
}

/* The field that holds non-raw elements of a type. */
static uint32_t field_of(kn_onnx_type type) {
    switch (type) {
    case KN_ONNX_FLOAT32:
    case KN_ONNX_COMPLEX64:
        return FLOAT_DATA;
    case KN_ONNX_FLOAT64:
    case KN_ONNX_COMPLEX128:
        return DOUBLE_DATA;
    case KN_ONNX_INT64:
        return INT64_DATA;
    case KN_ONNX_UINT32:
    case KN_ONNX_UINT64:
        return UINT64_DATA;
    case KN_ONNX_STRING:
        return STRING_DATA;
    default:
        return INT32_DATA;
    }
}

/* The contents of a tensor message, from a first pass. */
typedef struct contents {
    uint64_t counts[FIELDS]; /* of numbers, strings, pairs */
    uint32_t chunks[FIELDS]; /* number of fields that contain them */
    kn_wire packed[FIELDS];  /* the last of these fields, if it is bytes */
    const uint8_t *at;       /* beginning of the message */
    bool external;
} contents;

static kn_status refuse(kn_onnx_reader *in, const contents *found, const kn_onnx_tensor *tensor,
                        const char *words) {
    return kn_wire_refuse(&in->input, found->at, "tensor \"%.200s\": %s", tensor->name, words);
}

static kn_status scan_field(kn_onnx_reader *in, const kn_wire_field *field, contents *found,
                            kn_onnx_tensor *tensor) {
    kn_status status = KN_OK;
    uint64_t count = 1;
    switch (field->number) {
    case NAME:
        return kn_onnx_read_text(in, field, &tensor->name);
    case DOC:
        return kn_onnx_read_text(in, field, &tensor->doc);
    case DATA_TYPE:
        tensor->type = (kn_onnx_type)(int32_t)(uint32_t)field->value;
        return kn_onnx_expect(in, field, KN_WIRE_VARINT);
    case DATA_LOCATION:
        found->external = field->value != 0;
        return kn_onnx_expect(in, field, KN_WIRE_VARINT);
    case SEGMENT:
        return kn_fail(in->input.error, KN_ERROR_UNSUPPORTED,
                       "%s: tensor \"%.200s\" has segments, which are not supported", in->input.name,
                       tensor->name);
    case DIMS:
    case FLOAT_DATA:
    case INT32_DATA:
    case INT64_DATA:
    case DOUBLE_DATA:
    case UINT64_DATA:
        if (!kn_wire_count(&in->input, field, form_of(field->number), &count, &status)) return status;
        break;
    case RAW_DATA:
        found->counts[RAW_DATA] = 0; /* the last field counts */
        count = (uint64_t)(field->bytes.end - field->bytes.at);
        status = kn_onnx_expect(in, field, KN_WIRE_BYTES);
        break;
    case STRING_DATA:
    case EXTERNAL_DATA:
    case METADATA:
        status = kn_onnx_expect(in, field, KN_WIRE_BYTES);
        break;
    default:
        return KN_OK;
    }
    found->counts[field->number] += count;
    found->chunks[field->number]++;
    found->packed[field->number] = field->bytes;
    return status;
}

/* The number of entries in a typed field for `count` elements. */
static uint64_t numbers_for(const kn_onnx_tensor *tensor) {
    switch (tensor->type) {
    case KN_ONNX_COMPLEX64:
    case KN_ONNX_COMPLEX128:
        return 2 * tensor->count;
    case KN_ONNX_UINT4:
    case KN_ONNX_INT4:
    case KN_ONNX_FLOAT4E2M1:
    case KN_ONNX_UINT2:
    case KN_ONNX_INT2:
        return tensor->byte_count;
    default:
        return tensor->count;
    }
}

/* Stores number `index` of a typed field; false if the type cannot represent it. */
static bool put_number(const kn_onnx_tensor *tensor, uint64_t index, uint64_t value, uint8_t *bytes) {
    uint32_t field = field_of(tensor->type);
    int bits = kn_onnx_type_bits(tensor->type);
    if (field == INT32_DATA) {
        /* A negative number is widened to 64 bits; some writers write only 32 bits. */
        int64_t number = (int32_t)(uint32_t)value;
        int width = bits < 8 && bits != 6 ? 8 : bits;
        if (width < 32 && (number < -((int64_t)1 << (width - 1)) || number >= (int64_t)1 << width))
            return false;
        if (tensor->type == KN_ONNX_BOOL) value = number != 0;
        if (bits == 6) {
            uint64_t first = index * 6;
            uint32_t two = (uint32_t)(value & 63) << first % 8;
            bytes[first / 8] |= (uint8_t)two;
            if (two >> 8) bytes[first / 8 + 1] |= (uint8_t)(two >> 8);
            return true;
        }
        bits = width;
    } else if (tensor->type == KN_ONNX_UINT32 && value >> 32) {
        return false;
    } else if (field == FLOAT_DATA || field == DOUBLE_DATA) {
        bits = field == FLOAT_DATA ? 32 : 64; /* also for half of a complex number */
    }
    kn_little_put(bytes + index * (uint64_t)bits / 8, value, bits / 8);
    return true;
}

static kn_status read_numbers(kn_onnx_reader *in, kn_wire message, const contents *found,
                              kn_onnx_tensor *tensor) {
    uint32_t number = field_of(tensor->type);
    kn_wire_form form = form_of(number);
    if (form != KN_WIRE_VARINT && found->chunks[number] == 1 && found->packed[number].at) {
        tensor->bytes = found->packed[number].at; /* already in the right form */
        return KN_OK;
    }
    kn_status status = KN_OK;
    uint8_t *bytes = kn_onnx_take(in, tensor->byte_count, 1, &status);
    if (!bytes) return status;
    kn_wire_field field;
    uint64_t value, ignored, done = 0;
    while (kn_wire_next(&in->input, &message, &field, &status)) {
        if (field.number != number || !kn_wire_count(&in->input, &field, form, &ignored, &status)) continue;
        for (kn_wire rest = kn_wire_first(&field); kn_wire_take(&field, form, &rest, &value);)
            if (!put_number(tensor, done++, value, bytes))
                return refuse(in, found, tensor, "a number that its type cannot represent");
    }
    tensor->bytes = bytes;
    return status;
}

static kn_status read_strings(kn_onnx_reader *in, kn_wire message, kn_onnx_tensor *tensor) {
    kn_status status = KN_OK;
    kn_onnx_string *strings = kn_onnx_take(in, tensor->count, sizeof *strings, &status);
    if (!strings) return status;
    kn_wire_field field;
    for (uint64_t done = 0; kn_wire_next(&in->input, &message, &field, &status);)
        if (field.number == STRING_DATA) status = kn_onnx_read_string(in, &field, &strings[done++]);
    tensor->strings = strings;
    return status;
}

/* ---- elements in another file ---------------------------------------------------------- */

static bool read_decimal(const char *text, uint64_t *number) {
    int64_t value;
    const char *end;
    if (!kn_parse_int64(text, &end, &value) || *end != '\0' || value < 0) return false;
    *number = (uint64_t)value;
    return true;
}

/* The view of the file, opened once. */
static kn_status open_external(kn_onnx_reader *in, const char *location, const kn_file_view **view) {
    kn_onnx_model *model = in->model;
    kn_file_view *known = kn_map_get_text(&model->by_location, location);
    if (!known) {
        kn_status status = KN_OK;
        kn_onnx_external *external = kn_onnx_take(in, 1, sizeof *external, &status);
        if (!external) return status;
        status = kn_file_open_view_below(in->host, in->folder, location, &external->view, in->input.error);
        if (status != KN_OK) return status;
        external->next = model->external;
        model->external = external;
        known = &external->view;
        if (!kn_map_put_text(&model->by_location, location, known))
            return kn_fail_memory(in->input.error, strlen(location));
    }
    *view = known;
    return KN_OK;
}

static kn_status read_external(kn_onnx_reader *in, kn_wire message, const contents *found,
                               kn_onnx_tensor *tensor) {
    void *list;
    size_t count = (size_t)found->counts[EXTERNAL_DATA];
    kn_status status = kn_onnx_read_list(in, &kn_onnx_pair_message, message, EXTERNAL_DATA, count, &list);
    if (status != KN_OK) return status;
    const char *location = "";
    uint64_t offset = 0, length = tensor->byte_count;
    for (const kn_text_pair *pair = list, *end = pair + count; pair < end; pair++) {
        bool sound = true;
        if (strcmp(pair->key, "location") == 0)
            location = pair->value;
        else if (strcmp(pair->key, "offset") == 0)
            sound = read_decimal(pair->value, &offset);
        else if (strcmp(pair->key, "length") == 0)
            sound = read_decimal(pair->value, &length);
        if (!sound)
            return refuse(in, found, tensor, "the offset or length of its external data is not a number");
    }
    if (location[0] == '\0') return refuse(in, found, tensor, "its external data has no location");
    if (length != tensor->byte_count)
        return kn_wire_refuse(
            &in->input, found->at,
            "tensor \"%.200s\": %llu bytes of external data, but its type and shape need %llu", tensor->name,
            (unsigned long long)length, (unsigned long long)tensor->byte_count);
    if (!in->model || !in->folder)
        return kn_fail(in->input.error, KN_ERROR_UNSUPPORTED,
                       "%s: tensor \"%.200s\" is in the file \"%.200s\"; external data is not supported here",
                       in->input.name, tensor->name, location);
    tensor->external = true;
    if (tensor->byte_count == 0) return KN_OK;
    const kn_file_view *view = NULL;
    status = open_external(in, location, &view);
    if (status != KN_OK) {
        kn_fail_in(in->input.error, "%s: tensor \"%.200s\"", in->input.name, tensor->name);
        return status;
    }
    if (offset > view->count || length > view->count - offset)
        return kn_fail(in->input.error, KN_ERROR_FORMAT,
                       "%s: tensor \"%.200s\": bytes %llu to %llu of \"%.200s\", which has %llu: truncated?",
                       in->input.name, tensor->name, (unsigned long long)offset,
                       (unsigned long long)(offset + length), location, (unsigned long long)view->count);
    tensor->bytes = view->bytes + offset;
    return KN_OK;
}

/* ---- the tensor -------------------------------------------------------------------------------- */

/* Checks that the elements are in one field and that their number matches the shape. */
static kn_status check_counts(kn_onnx_reader *in, const contents *found, const kn_onnx_tensor *tensor,
                              uint32_t *field) {
    *field = 0;
    for (uint32_t number = FLOAT_DATA; number <= EXTERNAL_DATA; number++) {
        if (!field_name(number) || found->counts[number] == 0) continue;
        if (number == EXTERNAL_DATA && !found->external) continue;
        if (*field != 0)
            return kn_wire_refuse(&in->input, found->at, "tensor \"%.200s\": elements both in %s and in %s",
                                  tensor->name, field_name(*field), field_name(number));
        *field = number;
    }
    uint32_t typed = field_of(tensor->type);
    if (found->external) {
        if (*field == EXTERNAL_DATA && typed != STRING_DATA) return KN_OK;
        return refuse(in, found, tensor, "its elements are declared as external data but are in the file");
    }
    if (*field == 0) *field = typed;
    if (*field != typed && (*field != RAW_DATA || typed == STRING_DATA))
        return kn_wire_refuse(&in->input, found->at,
                              "tensor \"%.200s\": elements of type %s in %s; expected %s", tensor->name,
                              kn_onnx_type_name(tensor->type), field_name(*field), field_name(typed));
    uint64_t expected = *field == RAW_DATA ? tensor->byte_count : numbers_for(tensor);
    if (found->counts[*field] != expected)
        return kn_wire_refuse(
            &in->input, found->at, "tensor \"%.200s\": found %llu %s in %s; type %s and the shape need %llu",
            tensor->name, (unsigned long long)found->counts[*field], *field == RAW_DATA ? "bytes" : "numbers",
            field_name(*field), kn_onnx_type_name(tensor->type), (unsigned long long)expected);
    return KN_OK;
}

/* Not NULL, so that a tensor without elements can be copied. */
static const uint8_t no_bytes[1];

static kn_status read_tensor(kn_onnx_reader *in, kn_wire bytes, void *object) {
    kn_onnx_tensor *tensor = object;
    tensor->name = tensor->doc = "";
    contents found = {.at = bytes.at};
    kn_status status = KN_OK;
    kn_wire_field field;
    for (kn_wire rest = bytes; kn_wire_next(&in->input, &rest, &field, &status);)
        status = scan_field(in, &field, &found, tensor);
    if (status != KN_OK) return status;
    if (kn_onnx_type_bits(tensor->type) == 0 && tensor->type != KN_ONNX_STRING)
        return kn_wire_refuse(&in->input, found.at, "tensor \"%.200s\": element type %d; expected 1 to 28",
                              tensor->name, (int)tensor->type);
    tensor->rank = (size_t)found.counts[DIMS];
    if (tensor->rank > 0) status = kn_onnx_read_ints(in, bytes, DIMS, tensor->rank, &tensor->shape);
    if (status != KN_OK) return status;
    if (!kn_onnx_tensor_measure(tensor))
        return refuse(in, &found, tensor, "a dimension is negative, or the size overflows");
    uint32_t where;
    status = check_counts(in, &found, tensor, &where);
    if (status != KN_OK) return status;
    tensor->bytes = tensor->type == KN_ONNX_STRING ? NULL : no_bytes;
    if (found.external)
        status = read_external(in, bytes, &found, tensor);
    else if (tensor->type == KN_ONNX_STRING)
        status = read_strings(in, bytes, tensor);
    else if (where == RAW_DATA)
        tensor->bytes = found.packed[RAW_DATA].at;
    else if (tensor->count > 0)
        status = read_numbers(in, bytes, &found, tensor);
    void *metadata = NULL;
    tensor->metadata_count = (size_t)found.counts[METADATA];
    if (status == KN_OK && tensor->metadata_count > 0)
        status =
            kn_onnx_read_list(in, &kn_onnx_pair_message, bytes, METADATA, tensor->metadata_count, &metadata);
    tensor->metadata = metadata;
    return status;
}

const kn_onnx_message kn_onnx_tensor_message = {
    .name = "tensor", .bytes = sizeof(kn_onnx_tensor), .read = read_tensor, .write = kn_onnx_write_tensor};
