/* Strings. Each different string of a model has a number, and the graph contains the numbers, as int64:
 * operators that move or compare elements apply as they are. The operators of this file read letters; they
 * need known strings and give known strings. */
#include "exchange/onnx/import.h"

#include <ctype.h>
#include <math.h>

#include "text/text.h"

#define ML "ai.onnx.ml"

enum { LABEL_COMPARISONS = 1 << 26 };

/* ---- numbers of strings -------------------------------------------------------------------------------- */

/* The number of a string; 0 after a failure. */
static int64_t number_of(kn_import *import, const char *text, size_t count) {
    kn_model *model = import->model;
    if (count && memchr(text, 0, count)) {
        kn_graph_fail(import->graph, KN_ERROR_UNSUPPORTED, "a string contains a zero byte");
        return 0;
    }
    const int64_t *known = kn_map_get(&import->texts, text, count);
    if (known) return *known;
    int64_t *number = kn_arena_take(import->arena, 1, sizeof *number);
    char *copy = kn_arena_take(import->arena, count + 1, 1);
    if (model->text_count == import->text_capacity) {
        const size_t more = import->text_capacity ? 2 * import->text_capacity : 64;
        const char **texts = kn_arena_take(import->arena, more, sizeof *texts);
        if (texts && model->text_count) memcpy(texts, model->texts, model->text_count * sizeof *texts);
        model->texts = texts;
        import->text_capacity = texts ? more : 0;
    }
    if (!number || !copy || !model->texts || !kn_map_put(&import->texts, text, count, number)) {
        kn_import_no_memory(import);
        model->text_count = import->text_capacity = 0;
        return 0;
    }
    if (count) memcpy(copy, text, count);
    copy[count] = 0;
    *number = (int64_t)model->text_count;
    model->texts[model->text_count++] = copy;
    return *number;
}

kn_value *kn_import_texts(kn_import *import, const kn_onnx_string *strings, const int64_t *shape, int rank) {
    uint64_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= (uint64_t)shape[i];
    int64_t *numbers = kn_arena_take(import->arena, (size_t)count + 1, sizeof *numbers);
    if (!numbers) return kn_graph_fail(import->graph, KN_ERROR_MEMORY, "out of host memory");
    for (uint64_t i = 0; i < count && kn_graph_status(import->graph) == KN_OK; i++)
        numbers[i] = number_of(import, strings[i].bytes, strings[i].count);
    return kn_import_constant(import, KN_INT64, numbers, shape, rank);
}

kn_status kn_import_check_texts(kn_import_call *call, bool *found) {
    bool numbers = false;
    for (int i = 0; i < call->input_count; i++) {
        const bool may = call->row->texts >> (i < 31 ? i : 31) & 1;
        if (!call->inputs[i]) continue;
        if (call->inputs[i]->text && !may)
            return kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                                  "input '%.100s' contains strings, which the operator does not support",
                                  call->node->inputs[i]);
        *found |= call->inputs[i]->text;
        numbers |= may && !call->inputs[i]->text;
    }
    if (*found && numbers)
        return kn_import_fail(call, KN_ERROR_FORMAT, "some inputs are of strings, and others of numbers");
    return kn_import_status(call);
}

/* ---- known strings ------------------------------------------------------------------------------------- */

typedef struct text_array {
    kn_tensor_info info;
    const int64_t *numbers;
    int64_t count;
} text_array;

/* Reads the strings of input i, which must be known; false after a failure. */
static bool read_texts(kn_import_call *call, int i, text_array *x) {
    const void *data = NULL;
    uint64_t count = 0;
    *x = (text_array){.count = 0};
    if (kn_import_known(call, i, &x->info, &data) != KN_OK) return false;
    if (!call->inputs[i]->text) {
        kn_import_fail(call, KN_ERROR_FORMAT, "input '%.100s' is not of strings", call->node->inputs[i]);
        return false;
    }
    kn_tensor_elements(&x->info, &count);
    x->numbers = data;
    x->count = (int64_t)count;
    for (int64_t k = 0; k < x->count; k++)
        if (!kn_model_string(call->import->model, x->numbers[k])) {
            kn_import_fail(call, KN_ERROR_ARGUMENT, "no string has the number of element %lld of '%.100s'",
                           (long long)k, call->node->inputs[i]);
            return false;
        }
    return true;
}

static const char *text_at(const kn_import_call *call, const text_array *x, int64_t i) {
    return call->import->model->texts[x->numbers[i]];
}

/* Sets output i to strings. */
static kn_status put_numbers(kn_import_call *call, int i, const int64_t *numbers, const int64_t *shape,
                             int rank) {
    kn_import_put_as(call, i, kn_import_constant(call->import, KN_INT64, numbers, shape, rank), KN_INT64);
    if (i < call->output_count) call->outputs[i].text = true;
    return kn_import_status(call);
}

/* Room for numbers of strings; NULL after a failure. */
static int64_t *take_numbers(kn_import_call *call, int64_t count) {
    if (count < 0 || count > KN_IMPORT_KNOWN) {
        kn_import_fail(call, KN_ERROR_UNSUPPORTED, "more than %d strings are not supported", KN_IMPORT_KNOWN);
        return NULL;
    }
    int64_t *numbers = kn_arena_take(call->import->arena, (size_t)count + 1, sizeof *numbers);
    if (!numbers) kn_import_no_memory(call->import);
    return numbers;
}

static bool is_ascii(const char *text) {
    while (*text && !(*text & 0x80))
        text++;
    return !*text;
}

/* ---- joining and splitting ----------------------------------------------------------------------------- */

/* The size of an axis of the broadcast shape, counted from the last. */
static int64_t size_from_end(const kn_tensor_info *info, int axis) {
    return axis < info->rank ? info->shape[info->rank - 1 - axis] : 1;
}

/* Joins the strings of two arrays, which are broadcast. */
static kn_status string_concat(kn_import_call *call) {
    text_array x[2];
    int64_t shape[KN_MAX_RANK], count = 1;
    if (!read_texts(call, 0, &x[0]) || !read_texts(call, 1, &x[1])) return kn_import_status(call);
    const int rank = x[0].info.rank > x[1].info.rank ? x[0].info.rank : x[1].info.rank;
    for (int axis = 0; axis < rank; axis++) {
        const int64_t left = size_from_end(&x[0].info, axis), right = size_from_end(&x[1].info, axis);
        if (left != right && left != 1 && right != 1)
            return kn_import_fail(call, KN_ERROR_SHAPE, "the arrays of strings cannot be broadcast");
        shape[rank - 1 - axis] = left == 1 ? right : left;
        count = count > KN_IMPORT_KNOWN ? count : count * shape[rank - 1 - axis];
    }
    int64_t *numbers = take_numbers(call, count);
    for (int64_t i = 0; numbers && i < count && kn_import_status(call) == KN_OK; i++) {
        int64_t at[2] = {0, 0}, strides[2] = {1, 1}, rest = i;
        for (int axis = 0; axis < rank; axis++) {
            for (int k = 0; k < 2; k++) {
                const int64_t size = size_from_end(&x[k].info, axis);
                if (size != 1) at[k] += rest % shape[rank - 1 - axis] * strides[k];
                strides[k] *= size;
            }
            rest /= shape[rank - 1 - axis];
        }
        const char *joined = kn_arena_format(call->import->arena, "%s%s", text_at(call, &x[0], at[0]),
                                             text_at(call, &x[1], at[1]));
        if (!joined) return kn_import_no_memory(call->import);
        numbers[i] = number_of(call->import, joined, strlen(joined));
    }
    return numbers ? put_numbers(call, 0, numbers, shape, rank) : kn_import_status(call);
}

/* Splits a text at a delimiter or, if that is "", at spaces, at most `most` times (negative: any number).
 * Gives the number of parts; `parts` may be NULL. As in ONNX Runtime, "" has no parts, and only the space
 * character is one; spaces at both ends are ignored. */
static int64_t split(const char *text, const char *delimiter, int64_t most, kn_onnx_string *parts) {
    const size_t width = strlen(delimiter);
    const char *last = text + strlen(text);
    while (!width && last > text && last[-1] == ' ')
        last--;
    if (!width) text += strspn(text, " ");
    if (text >= last) return 0;
    for (int64_t count = 1;; count++) {
        const char *end = width ? strstr(text, delimiter) : text + strcspn(text, " ");
        const bool ends = !end || count - 1 == most || (!width && end >= last);
        if (ends) end = last;
        if (parts) parts[count - 1] = (kn_onnx_string){text, (size_t)(end - text)};
        if (ends) return count;
        text = end + (width ? width : strspn(end, " "));
    }
}

/* Outputs: the parts of each string, filled up with "" to the same number, and the numbers of parts. */
static kn_status string_split(kn_import_call *call) {
    text_array x;
    const char *delimiter = kn_import_string(call, "delimiter", "");
    const int64_t most = kn_import_int(call, "maxsplit", -1);
    int64_t shape[KN_MAX_RANK], width = 0;
    if (!read_texts(call, 0, &x)) return kn_import_status(call);
    if (x.info.rank == KN_MAX_RANK)
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "the result would have more than %d dimensions",
                              KN_MAX_RANK);
    int64_t *counts = take_numbers(call, x.count);
    for (int64_t i = 0; counts && i < x.count; i++) {
        counts[i] = split(text_at(call, &x, i), delimiter, most, NULL);
        if (counts[i] > width) width = counts[i];
    }
    memcpy(shape, x.info.shape, sizeof shape);
    shape[x.info.rank] = width;
    const bool fits = !x.count || width <= KN_IMPORT_KNOWN / x.count;
    int64_t *numbers = counts ? take_numbers(call, fits ? x.count * width : -1) : NULL;
    kn_onnx_string *parts = kn_arena_take(call->import->arena, (size_t)width + 1, sizeof *parts);
    if (!parts) return kn_import_no_memory(call->import);
    for (int64_t i = 0; numbers && i < x.count; i++) {
        split(text_at(call, &x, i), delimiter, most, parts);
        for (int64_t k = 0; k < width; k++)
            numbers[i * width + k] = k < counts[i] ? number_of(call->import, parts[k].bytes, parts[k].count)
                                                   : number_of(call->import, "", 0);
    }
    if (!numbers) return kn_import_status(call);
    put_numbers(call, 0, numbers, shape, x.info.rank + 1);
    return kn_import_put_as(
        call, 1, kn_import_constant(call->import, KN_INT64, counts, x.info.shape, x.info.rank), KN_INT64);
}

/* ---- letters ------------------------------------------------------------------------------------------- */

/* The text with every letter changed by `change`, in the arena. NULL after a failure: letters outside of
 * ASCII depend on a locale. */
static const char *changed(kn_import_call *call, const char *text, int (*change)(int)) {
    char *copy = kn_arena_text(call->import->arena, text);
    if (!is_ascii(text)) {
        kn_import_fail(call, KN_ERROR_UNSUPPORTED, "changes the case of '%.60s'; only ASCII is supported",
                       text);
        return NULL;
    }
    if (!copy) kn_import_no_memory(call->import);
    for (char *at = copy; at && *at; at++)
        *at = (char)change((unsigned char)*at);
    return copy;
}

static bool is_stopword(kn_import_call *call, const kn_onnx_attribute *stopwords, const char *text,
                        bool exact) {
    const char *own = exact ? text : changed(call, text, tolower);
    for (size_t i = 0; own && stopwords && i < stopwords->count; i++) {
        const char *word = kn_arena_format(call->import->arena, "%.*s", (int)stopwords->strings[i].count,
                                           stopwords->strings[i].bytes);
        if (word && !exact) word = changed(call, word, tolower);
        if (word && !strcmp(own, word)) return true;
    }
    return false;
}

/* Removes stopwords and changes the case. x is (C) or (1,C); the result has at least one string, which may be
 * "". */
static kn_status string_normalizer(kn_import_call *call) {
    text_array x;
    const char *action = kn_import_string(call, "case_change_action", "NONE");
    const bool exact = kn_import_int(call, "is_case_sensitive", 0) != 0, lower = !strcmp(action, "LOWER"),
               upper = !strcmp(action, "UPPER");
    const kn_onnx_attribute *stopwords = kn_import_attribute(call, "stopwords");
    if (!read_texts(call, 0, &x)) return kn_import_status(call);
    const int rank = x.info.rank;
    if (!lower && !upper && strcmp(action, "NONE"))
        return kn_import_fail(call, KN_ERROR_FORMAT,
                              "case_change_action is '%.60s'; expected LOWER, UPPER or NONE", action);
    if (rank < 1 || rank > 2 || (rank == 2 && x.info.shape[0] != 1))
        return kn_import_fail(call, KN_ERROR_SHAPE, "expected strings (C) or (1,C)");
    if (stopwords && stopwords->kind != KN_ONNX_ATTRIBUTE_STRINGS)
        stopwords = NULL; /* an empty list has no kind */
    int64_t *numbers = take_numbers(call, x.count), kept = 0;
    for (int64_t i = 0; numbers && i < x.count && kn_import_status(call) == KN_OK; i++) {
        const char *text = text_at(call, &x, i);
        if (stopwords && stopwords->count && is_stopword(call, stopwords, text, exact)) continue;
        if (lower || upper) text = changed(call, text, lower ? tolower : toupper);
        if (text) numbers[kept++] = number_of(call->import, text, strlen(text));
    }
    if (!numbers) return kn_import_status(call);
    if (!kept) numbers[kept++] = number_of(call->import, "", 0);
    return put_numbers(call, 0, numbers, (int64_t[]){rank == 1 ? kept : 1, kept}, rank);
}

/* Searches for the pattern and a newline in the text and a newline: a search finds no empty match. */
static kn_status match(kn_import_call *call, const kn_regex *regex, const char *pattern, const char *text,
                       bool *found) {
    const kn_host *host = &call->import->model->host;
    /* Classes of letters differ from RE2's, which ONNX names, outside of ASCII. */
    const bool classes = !is_ascii(pattern) || strpbrk(pattern, "\\:") || strstr(pattern, "(?");
    if (classes && !is_ascii(text))
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                              "matches '%.60s' with '%.60s'; only ASCII is supported with classes and flags",
                              text, pattern);
    const char *line = kn_arena_format(call->import->arena, "%s\n", text);
    kn_regex_search *search = kn_regex_search_create(host, regex);
    size_t begin, end;
    if (!line || !search) {
        if (search) kn_regex_search_destroy(host, &search);
        return kn_import_no_memory(call->import);
    }
    const kn_status status = kn_regex_find(search, line, strlen(line), 0, &begin, &end, found);
    kn_regex_search_destroy(host, &search);
    return status == KN_OK
               ? KN_OK
               : kn_import_fail(call, status, "'%.60s' could not be matched with '%.60s'", text, pattern);
}

/* A pattern of RE2 as one of Koine, which has no \b: between letters, digits and underscores and others. */
static const char *whole_pattern(kn_import *import, const char *pattern) {
    kn_text text;
    kn_text_init(&text, &import->model->host);
    kn_text_add(&text, "\\A(?-m:");
    for (const char *at = pattern; *at; at++) {
        if (*at == '\\' && at[1] == 'b')
            kn_text_add(&text, "(?:(?<=[A-Za-z0-9_])(?![A-Za-z0-9_])|(?<![A-Za-z0-9_])(?=[A-Za-z0-9_]))");
        else
            kn_text_add_bytes(&text, at, *at == '\\' && at[1] ? 2 : 1);
        at += *at == '\\' && at[1];
    }
    kn_text_add(&text, ")\\n\\z");
    const char *whole = kn_text_failed(&text) ? NULL : kn_arena_text(import->arena, text.data);
    kn_text_finish(&text);
    return whole;
}

/* Which strings match a regular expression as a whole. */
static kn_status regex_match(kn_import_call *call) {
    text_array x;
    kn_import *import = call->import;
    const char *pattern = kn_import_string(call, "pattern", "");
    const char *whole = whole_pattern(import, pattern);
    if (!read_texts(call, 0, &x)) return kn_import_status(call);
    bool *matches = kn_arena_take(import->arena, (size_t)x.count + 1, sizeof *matches);
    if (!whole || !matches) return kn_import_no_memory(import);
    kn_regex *regex = NULL;
    kn_error error = {0};
    kn_status status = kn_regex_create(&import->model->host, whole, strlen(whole), &regex, &error);
    if (status != KN_OK) return kn_import_fail(call, status, "%s", error.text);
    for (int64_t i = 0; status == KN_OK && i < x.count; i++)
        status = match(call, regex, pattern, text_at(call, &x, i), &matches[i]);
    kn_regex_destroy(&import->model->host, &regex);
    if (status != KN_OK) return status;
    return kn_import_put(call, 0, kn_import_constant(import, KN_BOOL, matches, x.info.shape, x.info.rank));
}

/* ---- labels -------------------------------------------------------------------------------------------- */

/* A list of an attribute, or of a tensor, whose elements are numbers of strings if `text`. */
typedef struct labels {
    kn_dtype dtype;
    bool text;
    const void *data;
    int64_t count;
} labels;

static bool tensor_labels(kn_import_call *call, const kn_onnx_tensor *tensor, labels *list) {
    kn_item item = {.tensor = tensor};
    kn_tensor_info info;
    if (tensor->type == KN_ONNX_STRING) {
        const int64_t count = (int64_t)tensor->count;
        const kn_value *value = kn_import_texts(call->import, tensor->strings, &count, 1);
        *list = (labels){KN_INT64, true, kn_value_failed(value) ? NULL : value->data, count};
    } else {
        if (kn_item_type(tensor->type, &item.dtype, &item.bits) && tensor->rank <= KN_MAX_RANK &&
            kn_item_known(call->import, &item, &info, &list->data))
            *list = (labels){info.dtype, false, list->data, (int64_t)tensor->count};
    }
    if (list->data) return true;
    kn_import_fail(call, KN_ERROR_UNSUPPORTED, "a list of labels is too long, or of an unsupported type");
    return false;
}

/* Reads "keys" or "values", whichever list there is; false after a failure. */
static bool read_labels(kn_import_call *call, const char *side, labels *list) {
    static const char *const kinds[] = {"strings", "int64s", "floats", "tensor"};
    const kn_onnx_attribute *found = NULL;
    *list = (labels){.data = NULL};
    for (size_t i = 0; i < KN_COUNT_OF(kinds) && !found; i++) {
        const char *name = kn_arena_format(call->import->arena, "%s_%s", side, kinds[i]);
        found = name ? kn_import_attribute(call, name) : NULL;
    }
    const int64_t count = found ? (int64_t)found->count : 0;
    switch (found ? found->kind : KN_ONNX_ATTRIBUTE_GRAPH) {
    case KN_ONNX_ATTRIBUTE_TENSOR:
        return tensor_labels(call, &found->tensors[0], list);
    case KN_ONNX_ATTRIBUTE_STRINGS: {
        const kn_value *value = kn_import_texts(call->import, found->strings, &count, 1);
        *list = (labels){KN_INT64, true, kn_value_failed(value) ? NULL : value->data, count};
        return list->data;
    }
    case KN_ONNX_ATTRIBUTE_INTS:
        *list = (labels){KN_INT64, false, found->ints, count};
        return true;
    case KN_ONNX_ATTRIBUTE_FLOATS:
        *list = (labels){KN_FLOAT32, false, found->floats, count};
        return true;
    default:
        kn_import_fail(call, KN_ERROR_FORMAT, "%s_strings, %s_int64s, %s_floats and %s_tensor are missing",
                       side, side, side, side);
        return false;
    }
}

/* Whether an element of x is a key. */
static bool is_key(const labels *keys, int64_t k, kn_dtype dtype, const void *x, int64_t i) {
    if (keys->dtype == KN_INT64 && dtype == KN_INT64)
        return ((const int64_t *)keys->data)[k] == ((const int64_t *)x)[i];
    const double own = kn_element_get(keys->dtype, keys->data, k), other = kn_element_get(dtype, x, i);
    return own == other || (isnan(own) && isnan(other));
}

/* The element for inputs that are not among the keys, in the type of the values; false after a failure. */
static bool default_label(kn_import_call *call, const labels *values, void *element) {
    const kn_onnx_attribute *tensor = kn_import_attribute(call, "default_tensor");
    labels list = {.data = NULL};
    if (tensor && tensor->kind == KN_ONNX_ATTRIBUTE_TENSOR) {
        if (!tensor_labels(call, &tensor->tensors[0], &list)) return false;
        if (list.count != 1 || list.dtype != values->dtype || list.text != values->text) {
            kn_import_fail(call, KN_ERROR_FORMAT, "default_tensor has a different type than the values");
            return false;
        }
        memcpy(element, list.data, kn_dtype_bytes(list.dtype));
    } else if (values->text) {
        const char *text = kn_import_string(call, "default_string", "_Unused");
        *(int64_t *)element = number_of(call->import, text, strlen(text));
    } else if (values->dtype == KN_INT64) {
        *(int64_t *)element = kn_import_int(call, "default_int64", -1);
    } else {
        const double usual =
            kn_dtype_is_float(values->dtype) ? kn_import_float(call, "default_float", -0.0) : -1;
        kn_element_set(values->dtype, element, 0, usual);
    }
    return kn_import_status(call) == KN_OK;
}

/* Replaces keys by values. */
static kn_status label_encoder(kn_import_call *call) {
    kn_tensor_info info;
    const void *x = NULL;
    labels keys, values;
    uint64_t count = 0, other = 0;
    if (kn_import_known(call, 0, &info, &x) != KN_OK || !read_labels(call, "keys", &keys) ||
        !read_labels(call, "values", &values))
        return kn_import_status(call);
    if (keys.text != call->inputs[0]->text || keys.count != values.count)
        return kn_import_fail(call, KN_ERROR_FORMAT, "%s",
                              keys.count != values.count ? "the numbers of keys and values differ"
                                                         : "the keys have a different type than the input");
    kn_tensor_elements(&info, &count);
    if (keys.count && count > (uint64_t)LABEL_COMPARISONS / (uint64_t)keys.count)
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "has too many labels to compare");
    const size_t each = kn_dtype_bytes(values.dtype);
    char *results = kn_arena_take(call->import->arena, (size_t)count + 1, each);
    if (!results) return kn_import_no_memory(call->import);
    if (!default_label(call, &values, &other)) return kn_import_status(call);
    for (int64_t i = 0; i < (int64_t)count; i++) {
        int64_t k = 0;
        while (k < keys.count && !is_key(&keys, k, info.dtype, x, i))
            k++;
        memcpy(results + (size_t)i * each,
               k < keys.count ? (const char *)values.data + (size_t)k * each : (const char *)&other, each);
    }
    if (values.text)
        return put_numbers(call, 0, (const int64_t *)(const void *)results, info.shape, info.rank);
    kn_value *y = kn_import_constant(call->import, values.dtype, results, info.shape, info.rank);
    return kn_import_put_as(call, 0, kn_is_half(values.dtype) ? kn_import_cast(y, KN_FLOAT32) : y,
                            values.dtype);
}

const kn_import_row kn_import_strings[] = {
    {.type = "StringConcat", .build = string_concat, .texts = 3},
    {.type = "StringSplit", .build = string_split, .texts = 1},
    {.type = "StringNormalizer", .build = string_normalizer, .texts = 1},
    {.type = "RegexFullMatch", .build = regex_match, .texts = 1},
    {.type = "LabelEncoder", .build = label_encoder, .domain = ML, .texts = 1},
};
const int kn_import_strings_count = (int)KN_COUNT_OF(kn_import_strings);
