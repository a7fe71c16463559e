/* Caffe nets with weights, in protocol buffers. */
#include "formats/caffe_private.h"

#include <string.h>

typedef struct binary {
    kn_caffe_reader *in;
    kn_wire_input input;
} binary;

static const kn_caffe_about *find(const kn_caffe_about *fields, uint32_t number) {
    for (; fields->number; fields++)
        if (fields->number == number) return fields;
    return NULL;
}

static kn_wire_form form_of(kn_caffe_form form) {
    if (form == KN_CAFFE_AS_WHOLE || form == KN_CAFFE_AS_WORD) return KN_WIRE_VARINT;
    return form == KN_CAFFE_AS_DOUBLES ? KN_WIRE_FIXED64 : KN_WIRE_FIXED32;
}

static uint64_t byte_of(const binary *b, const kn_wire_field *field) {
    return (uint64_t)(field->at - b->input.start);
}

/* Reads numbers, one item each. */
static kn_status read_numbers(binary *b, const kn_caffe_about *about, const kn_wire_field *field,
                              kn_caffe_item ***last) {
    kn_wire_form form = form_of(about->form);
    kn_status status = KN_OK;
    uint64_t count, value;
    if (!kn_wire_count(&b->input, field, form, &count, &status)) return status;
    for (kn_wire rest = kn_wire_first(field); kn_wire_take(field, form, &rest, &value);) {
        kn_caffe_item *item = kn_caffe_add(b->in, last, about->name, KN_CAFFE_NUMBER, byte_of(b, field));
        if (!item) return b->in->error->status;
        if (about->form == KN_CAFFE_AS_FLOAT) {
            item->as.number = kn_float_of_bits((uint32_t)value);
            continue;
        }
        item->as.number = (double)(int64_t)value;
        for (const kn_caffe_word *word = about->more; word && word->word; word++)
            if ((uint64_t)word->number == value) {
                item->kind = KN_CAFFE_WORD;
                item->as.text = word->word;
                break;
            }
    }
    return KN_OK;
}

/* Collects all numbers of the field `about` of a message, which may be in several chunks, into one array; in
 * place if possible. */
static kn_status gather(binary *b, const kn_caffe_about *about, kn_wire message, kn_caffe_item *item) {
    const kn_wire_form form = form_of(about->form);
    const size_t size = form == KN_WIRE_FIXED64 ? 8 : 4;
    kn_arena *arena = &b->in->net->arena;
    kn_status status = KN_OK;
    kn_wire_field field;
    uint64_t all = 0, count, value;
    int pieces = 0;
    const uint8_t *whole = NULL;
    for (kn_wire rest = message; kn_wire_next(&b->input, &rest, &field, &status);) {
        if (field.number != about->number) continue;
        if (!kn_wire_count(&b->input, &field, form, &count, &status)) return status;
        all += count;
        pieces++;
        if (field.form == KN_WIRE_BYTES) whole = field.bytes.at;
    }
    kn_array *array = kn_arena_take(arena, 1, sizeof *array);
    if (!array) return kn_fail_memory(b->in->error, sizeof *array);
    array->type = form == KN_WIRE_FIXED64 ? KN_FLOAT64 : KN_FLOAT32;
    array->rank = 1;
    array->shape[0] = (int64_t)all;
    if (!kn_array_measure(array)) return kn_fail_memory(b->in->error, SIZE_MAX);
    item->as.array = array;
    array->bytes = whole;
    if (pieces == 1 && whole && kn_little_endian()) return KN_OK;
    uint8_t *bytes = kn_arena_take(arena, (size_t)all, size);
    if (!bytes) return kn_fail_memory(b->in->error, (size_t)array->byte_count);
    array->bytes = bytes;
    for (kn_wire rest = message; kn_wire_next(&b->input, &rest, &field, &status);)
        for (kn_wire numbers = kn_wire_first(&field);
             field.number == about->number && kn_wire_take(&field, form, &numbers, &value); bytes += size) {
            uint32_t narrow = (uint32_t)value;
            memcpy(bytes, size == 4 ? (const void *)&narrow : &value, size);
        }
    return status;
}

static kn_status read_message(binary *b, const kn_caffe_about *fields, kn_wire message, kn_caffe_item *item);

static kn_status read_one(binary *b, const kn_caffe_about *about, const kn_wire_field *field,
                          kn_caffe_item ***last) {
    if (about->form != KN_CAFFE_AS_TEXT && about->form != KN_CAFFE_AS_MESSAGE)
        return read_numbers(b, about, field, last);
    if (field->form != KN_WIRE_BYTES)
        return kn_wire_refuse(&b->input, field->at, "%s is %s; expected %s", about->name,
                              kn_wire_form_name(field->form), kn_wire_form_name(KN_WIRE_BYTES));
    const bool text = about->form == KN_CAFFE_AS_TEXT;
    kn_caffe_item *item =
        kn_caffe_add(b->in, last, about->name, text ? KN_CAFFE_TEXT : KN_CAFFE_MESSAGE, byte_of(b, field));
    if (!item) return b->in->error->status;
    if (!text) return read_message(b, about->more, field->bytes, item);
    item->as.text = kn_caffe_keep_text(b->in, field->bytes.at, (size_t)(field->bytes.end - field->bytes.at));
    return item->as.text ? KN_OK : b->in->error->status;
}

/* The recursion depth is bounded by that of the tables. */
static kn_status read_message(binary *b, const kn_caffe_about *fields, kn_wire message, kn_caffe_item *item) {
    kn_caffe_item **last = &item->as.first;
    kn_status status = KN_OK;
    kn_wire_field field;
    bool gathered = false, doubles = false;
    for (kn_wire rest = message; status == KN_OK && kn_wire_next(&b->input, &rest, &field, &status);) {
        const kn_caffe_about *about = find(fields, field.number);
        if (!about) continue;
        if (about->form != KN_CAFFE_AS_FLOATS && about->form != KN_CAFFE_AS_DOUBLES) {
            status = read_one(b, about, &field, &last);
            continue;
        }
        bool *done = about->form == KN_CAFFE_AS_FLOATS ? &gathered : &doubles;
        if (*done) continue;
        *done = true;
        kn_caffe_item *numbers = kn_caffe_add(b->in, &last, about->name, KN_CAFFE_ARRAY, byte_of(b, &field));
        status = numbers ? gather(b, about, message, numbers) : b->in->error->status;
    }
    return status;
}

kn_status kn_caffe_read_binary(kn_caffe_reader *in, const uint8_t *bytes, uint64_t count) {
    binary b = {.in = in,
                .input = {.name = in->name, .kind = "a Caffe net", .start = bytes, .error = in->error}};
    return read_message(&b, kn_caffe_net_fields, (kn_wire){bytes, bytes + count}, in->net->root);
}
