/* npy: NumPy's file format for one array: magic, version, header length, the header (a Python dictionary as
 * text), the elements. */
#include "formats/formats_private.h"

#include <string.h>

static const uint8_t magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

/* ---- parsing the header ---------------------------------------------------------- */

typedef struct header {
    const char *name; /* of the file */
    const char *text;
    size_t length, at;
    size_t begin; /* of the header's text in the file */
    kn_error *error;
    bool has_type, has_order, has_shape;
    kn_dtype type;
    bool swap, fortran;
    int rank;
    int64_t shape[KN_MAX_RANK];
} header;

static kn_status refuse(header *in, const char *expected) {
    size_t left = in->length - in->at;
    char found[KN_QUOTE_BYTES];
    return kn_fail(in->error, KN_ERROR_FORMAT, "%s: byte %zu: found %s in the header, expected %s", in->name,
                   in->begin + in->at, kn_quote(in->text + in->at, left, found), expected);
}

static void skip_blanks(header *in) {
    while (in->at < in->length && strchr(" \t\r\n", in->text[in->at]) && in->text[in->at] != '\0')
        in->at++;
}

static bool accept(header *in, const char *word) {
    size_t length = strlen(word);
    skip_blanks(in);
    if (in->length - in->at < length || memcmp(in->text + in->at, word, length) != 0) return false;
    in->at += length;
    return true;
}

/* A quoted string without escapes. */
static bool accept_string(header *in, const char **word, size_t *length) {
    skip_blanks(in);
    if (in->at >= in->length) return false;
    char quote = in->text[in->at];
    if (quote != '\'' && quote != '"') return false;
    const char *begin = in->text + in->at + 1;
    const char *end = memchr(begin, quote, in->length - in->at - 1);
    if (!end || memchr(begin, '\\', (size_t)(end - begin))) return false;
    *word = begin;
    *length = (size_t)(end - begin);
    in->at += *length + 2;
    return true;
}

/* "<f4": byte order, kind, bytes. */
static kn_status read_type(header *in) {
    static const struct {
        char kind, bytes;
        kn_dtype type;
    } types[] = {
        {'f', 4, KN_FLOAT32}, {'f', 8, KN_FLOAT64}, {'f', 2, KN_FLOAT16}, {'i', 1, KN_INT8},
        {'i', 2, KN_INT16},   {'i', 4, KN_INT32},   {'i', 8, KN_INT64},   {'u', 1, KN_UINT8},
        {'u', 2, KN_UINT16},  {'u', 4, KN_UINT32},  {'u', 8, KN_UINT64},  {'b', 1, KN_BOOL},
    };
    static const char expected[] = "a type such as '<f4' (f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1)";
    size_t begin = in->at;
    const char *word = "";
    size_t length = 0;
    bool quoted = accept_string(in, &word, &length);
    if (quoted && length == 3 && strchr("<>|=", word[0]) && word[0] != '\0')
        for (size_t i = 0; i < KN_COUNT_OF(types); i++)
            if (word[1] == types[i].kind && word[2] == '0' + types[i].bytes) {
                in->type = types[i].type;
                in->has_type = true;
            }
    if (!in->has_type) {
        in->at = begin;
        skip_blanks(in);
        refuse(in, expected);
        if (in->error) in->error->status = KN_ERROR_UNSUPPORTED;
        return KN_ERROR_UNSUPPORTED;
    }
    in->swap = kn_array_type_bytes(in->type) > 1 &&
               ((word[0] == '<' && !kn_little_endian()) || (word[0] == '>' && kn_little_endian()));
    return KN_OK;
}

static kn_status read_shape(header *in) {
    if (!accept(in, "(")) return refuse(in, "a shape such as (60000, 28, 28)");
    in->rank = 0;
    while (!accept(in, ")")) {
        skip_blanks(in);
        size_t begin = in->at;
        int64_t number = 0;
        while (in->at < in->length && in->text[in->at] >= '0' && in->text[in->at] <= '9') {
            int digit = in->text[in->at] - '0';
            if (number > (INT64_MAX - digit) / 10) {
                in->at = begin;
                return refuse(in, "a dimension below 2^63");
            }
            number = number * 10 + digit;
            in->at++;
        }
        if (in->at == begin) return refuse(in, "a dimension or ')'");
        if (in->at < in->length && in->text[in->at] == 'L') in->at++; /* as written by Python 2 */
        if (in->rank == KN_MAX_RANK) {
            in->at = begin;
            return refuse(in, "at most 8 dimensions");
        }
        in->shape[in->rank++] = number;
        if (accept(in, ",")) continue;
        if (!accept(in, ")")) return refuse(in, "',' or ')'");
        break;
    }
    in->has_shape = true;
    return KN_OK;
}

static kn_status read_entry(header *in) {
    const char *key;
    size_t length, begin = in->at;
    if (!accept_string(in, &key, &length)) return refuse(in, "'descr', 'fortran_order' or 'shape'");
    if (!accept(in, ":")) return refuse(in, "':'");
    if (length == 5 && memcmp(key, "descr", 5) == 0 && !in->has_type) return read_type(in);
    if (length == 5 && memcmp(key, "shape", 5) == 0 && !in->has_shape) return read_shape(in);
    if (length == 13 && memcmp(key, "fortran_order", 13) == 0 && !in->has_order) {
        in->has_order = true;
        in->fortran = accept(in, "True");
        if (in->fortran || accept(in, "False")) return KN_OK;
        return refuse(in, "True or False");
    }
    in->at = begin;
    skip_blanks(in);
    return refuse(in, "'descr', 'fortran_order' and 'shape', each once");
}

static kn_status read_header(header *in) {
    if (!accept(in, "{")) return refuse(in, "'{'");
    while (!accept(in, "}")) {
        kn_status status = read_entry(in);
        if (status != KN_OK) return status;
        if (accept(in, ",")) continue;
        if (!accept(in, "}")) return refuse(in, "',' or '}'");
        break;
    }
    if (!in->has_type || !in->has_order || !in->has_shape)
        return refuse(in, "'descr', 'fortran_order' and 'shape', each once");
    skip_blanks(in);
    if (in->at < in->length) return refuse(in, "blanks up to the end of the header");
    return KN_OK;
}

/* Finds the header: the beginning of its text, and its length. */
static kn_status find_header(const char *name, const uint8_t *bytes, uint64_t count, size_t *begin,
                             size_t *length, kn_error *error) {
    if (count < 10 || memcmp(bytes, magic, sizeof magic) != 0)
        return kn_fail(error, KN_ERROR_FORMAT,
                       "%s: byte 0: not an npy file, which begins with \"\\x93NUMPY\" and a version", name);
    if (bytes[6] < 1 || bytes[6] > 3)
        return kn_fail(error, KN_ERROR_UNSUPPORTED, "%s: byte 6: npy version %d.%d; expected 1, 2 or 3", name,
                       bytes[6], bytes[7]);
    *begin = bytes[6] == 1 ? 10 : 12;
    if (count < *begin)
        return kn_fail(error, KN_ERROR_FORMAT, "%s: ends at byte %llu, before its header", name,
                       (unsigned long long)count);
    uint64_t found = kn_little_uint(bytes + 8, bytes[6] == 1 ? 2 : 4);
    if (found > count - *begin)
        return kn_fail(error, KN_ERROR_FORMAT,
                       "%s: byte 8: a header of %llu bytes, but the file has %llu more", name,
                       (unsigned long long)found, (unsigned long long)(count - *begin));
    *length = (size_t)found;
    return KN_OK;
}

/* ---- elements -------------------------------------------------------------------- */

/* target is row-major of array->shape, source has the same elements in column-major order. */
static void transpose(const kn_array *array, const uint8_t *source, uint8_t *target) {
    size_t size = kn_array_type_bytes(array->type);
    uint64_t strides[KN_MAX_RANK], stride = 1, offset = 0;
    int64_t position[KN_MAX_RANK] = {0};
    for (int i = 0; i < array->rank; i++) {
        strides[i] = stride;
        stride *= (uint64_t)array->shape[i];
    }
    for (uint64_t i = 0; i < array->count; i++, target += size) {
        memcpy(target, source + offset * size, size);
        for (int axis = array->rank - 1; axis >= 0; axis--) {
            offset += strides[axis];
            if (++position[axis] < array->shape[axis]) break;
            offset -= strides[axis] * (uint64_t)array->shape[axis];
            position[axis] = 0;
        }
    }
}

static bool is_vector(const kn_array *array) {
    int longer = 0;
    for (int i = 0; i < array->rank; i++)
        longer += array->shape[i] != 1;
    return longer <= 1;
}

kn_status kn_npy_read(const kn_host *host, const char *name, const uint8_t *bytes, uint64_t count,
                      kn_array *array, kn_error *error) {
    *array = (kn_array){.type = KN_FLOAT32};
    size_t begin = 0, length = 0;
    kn_status status = find_header(name, bytes, count, &begin, &length, error);
    if (status != KN_OK) return status;
    header in = {
        .name = name, .text = (const char *)bytes + begin, .length = length, .begin = begin, .error = error};
    status = read_header(&in);
    if (status != KN_OK) return status;

    kn_array made = {.type = in.type, .rank = in.rank};
    memcpy(made.shape, in.shape, sizeof made.shape);
    char shape[200];
    if (!kn_array_measure(&made))
        return kn_fail(error, KN_ERROR_FORMAT, "%s: shape %s exceeds the address space", name,
                       kn_array_shape_text(&made, shape, sizeof shape));
    status = kn_array_view(&made, name, bytes, count, begin + length, error);
    if (status != KN_OK) return status;
    bool turn = in.fortran && !is_vector(&made) && made.count > 0;
    if (turn || in.swap) {
        uint8_t *copy = kn_array_take_copy(host, &made, error);
        if (!copy) return KN_ERROR_MEMORY;
        if (turn) transpose(&made, bytes + begin + length, copy);
        if (in.swap) kn_swap_bytes(copy, copy, made.count, kn_array_type_bytes(made.type));
    }
    *array = made;
    return KN_OK;
}

kn_status kn_npy_open(const kn_host *host, const char *path, kn_array_file *file, kn_error *error) {
    *file = (kn_array_file){.array = {.type = KN_FLOAT32}};
    kn_status status = kn_file_open_view(host, path, &file->view, error);
    if (status != KN_OK) return status;
    status = kn_npy_read(host, path, file->view.bytes, file->view.count, &file->array, error);
    if (status != KN_OK)
        kn_array_file_close(host, file);
    else if (file->array.owned)
        kn_file_close_view(host, &file->view);
    return status;
}

/* ---- writing ------------------------------------------------------------------------ */

static const char *type_text(kn_dtype type) {
    switch (type) {
    case KN_FLOAT32:
        return "f4";
    case KN_FLOAT64:
        return "f8";
    case KN_FLOAT16:
        return "f2";
    case KN_INT8:
        return "i1";
    case KN_INT16:
        return "i2";
    case KN_INT32:
        return "i4";
    case KN_INT64:
        return "i8";
    case KN_UINT8:
        return "u1";
    case KN_UINT16:
        return "u2";
    case KN_UINT32:
        return "u4";
    case KN_UINT64:
        return "u8";
    case KN_BOOL:
        return "b1";
    case KN_BFLOAT16:
    case KN_SMALL_FLOATS:
        break;
    }
    return NULL;
}

static kn_status make_header(kn_text *text, const kn_array *array, kn_error *error) {
    char shape[200];
    char order = kn_array_type_bytes(array->type) == 1 ? '|' : kn_little_endian() ? '<' : '>';
    kn_text_add_bytes(text, (const char *)magic, sizeof magic);
    kn_text_add_bytes(text, "\1\0\0\0", 4);
    kn_text_format(text, "{'descr': '%c%s', 'fortran_order': False, 'shape': %s, }", order,
                   type_text(array->type), kn_array_shape_text(array, shape, sizeof shape));
    /* Pad so that the elements begin at a multiple of 64. */
    while (text->length % 64 != 63 && !kn_text_failed(text))
        kn_text_add(text, " ");
    kn_text_add(text, "\n");
    if (kn_text_failed(text)) return kn_fail_memory(error, 256);
    text->data[8] = (char)((text->length - 10) & 255);
    text->data[9] = (char)((text->length - 10) >> 8);
    return KN_OK;
}

kn_status kn_npy_write(const kn_host *host, const char *path, const kn_array *array, kn_error *error) {
    kn_array sized = *array;
    if (!type_text(array->type))
        return kn_fail(error, KN_ERROR_UNSUPPORTED, "%s: npy files cannot contain %s; write float32 instead",
                       path, kn_array_type_name(array->type));
    if (!kn_array_measure(&sized))
        return kn_fail(error, KN_ERROR_ARGUMENT, "%s: the size of the array is invalid or overflows", path);
    kn_text text;
    kn_text_init(&text, host);
    kn_file_writer *writer = NULL;
    kn_status status = make_header(&text, &sized, error);
    if (status == KN_OK) status = kn_file_writer_open(host, path, &writer, error);
    if (status == KN_OK) status = kn_file_writer_add(writer, text.data, text.length, error);
    if (status == KN_OK && sized.byte_count > 0)
        status = kn_file_writer_add(writer, sized.bytes, (size_t)sized.byte_count, error);
    if (status == KN_OK)
        status = kn_file_writer_commit(&writer, error);
    else
        kn_file_writer_abandon(&writer);
    kn_text_finish(&text);
    return status;
}
