/* Feature extraction: counts of n-grams of integers, thresholds, and selected columns. */
#include "exchange/onnx/import.h"

#define ML "ai.onnx.ml"

/* 1 above the threshold, otherwise 0. */
static kn_status binarizer(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    const kn_dtype dtype = x->shape.dtype;
    kn_value *limit = kn_import_scalar(call->import, dtype, kn_import_float(call, "threshold", 0));
    return kn_import_put(call, 0, kn_import_cast(kn_greater(x, limit), dtype));
}

/* Selects elements of the last axis: (…,picked), or (1,picked) for a single row. */
static kn_status feature_extractor(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *positions = kn_import_in(call, 1);
    if (x->shape.rank < 1) return kn_import_fail(call, KN_ERROR_SHAPE, "expected x (…,features)");
    if (x->shape.rank == 1) x = kn_unsqueeze(x, "0");
    return kn_import_put(call, 0, kn_gather(x, kn_reshape(positions, "-1"), -1));
}

/* ---- n-grams ------------------------------------------------------------------------------------------- */

enum { MAX_TERM = 16, TERM_NUMBERS = 1 << 24 };

/* The vectorizer: n-grams of `least` to `most` integers, with up to `skips` integers between neighbors. */
typedef struct terms {
    int64_t least, most, skips;
    const kn_onnx_attribute *starts, *columns, *pool, *weights; /* where each length starts in the pool, … */
    int64_t width;                                              /* number of result columns */
} terms;

static const kn_onnx_attribute *list_of(const kn_import_call *call, const char *name,
                                        kn_onnx_attribute_kind kind) {
    const kn_onnx_attribute *found = kn_import_attribute(call, name);
    return found && found->kind == kind ? found : NULL;
}

/* The n-grams of a length in the pool: *count of them, starting at number *begin. */
static bool ngrams_of(const terms *t, int64_t length, int64_t *begin, int64_t *count) {
    const size_t lengths = t->starts->count;
    *begin = *count = 0;
    if ((size_t)length > lengths) return true;
    *begin = t->starts->ints[length - 1];
    const int64_t all = (int64_t)t->pool->count,
                  end = (size_t)length < lengths ? t->starts->ints[length] : all;
    *count = (end - *begin) / length;
    return *begin >= 0 && *begin <= end && end <= all && (end - *begin) % length == 0;
}

static kn_status take_terms(kn_import_call *call, terms *t) {
    *t = (terms){.least = kn_import_int(call, "min_gram_length", 1),
                 .most = kn_import_int(call, "max_gram_length", 1),
                 .skips = kn_import_int(call, "max_skip_count", 0),
                 .starts = list_of(call, "ngram_counts", KN_ONNX_ATTRIBUTE_INTS),
                 .columns = list_of(call, "ngram_indexes", KN_ONNX_ATTRIBUTE_INTS),
                 .pool = list_of(call, "pool_int64s", KN_ONNX_ATTRIBUTE_INTS),
                 .weights = list_of(call, "weights", KN_ONNX_ATTRIBUTE_FLOATS)};
    if (!t->starts || !t->columns || !t->pool)
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                              "pool_int64s is missing; only pools of integers are supported");
    bool fits = t->least >= 1 && t->least <= t->most && t->most <= MAX_TERM && t->skips >= 0 &&
                t->skips <= MAX_TERM && (!t->weights || t->weights->count == t->columns->count);
    int64_t known = 0, begin, count;
    for (int64_t length = 1; fits && (size_t)length <= t->starts->count; length++) {
        fits = ngrams_of(t, length, &begin, &count);
        known += count;
    }
    fits = fits && known == (int64_t)t->columns->count;
    for (size_t i = 0; fits && i < t->columns->count; i++) {
        fits = t->columns->ints[i] >= 0 && t->columns->ints[i] < TERM_NUMBERS;
        if (fits && t->columns->ints[i] >= t->width) t->width = t->columns->ints[i] + 1;
    }
    if (!fits || known > TERM_NUMBERS / (t->width + 1))
        return kn_import_fail(call, KN_ERROR_ARGUMENT,
                              "the n-gram lengths, counts, indexes and weights do not match");
    return kn_import_status(call);
}

/* How often each of `count` n-grams occurs in x (N,C), float32 (N,count); `gap` is the distance between
 * neighbors. */
static kn_value *occurrences(kn_import_call *call, const terms *t, kn_value *x, int64_t length, int64_t begin,
                             int64_t count, int64_t gap) {
    const int64_t positions = x->shape.dims[1] - (length - 1) * gap;
    kn_value *all = NULL;
    int64_t *numbers = kn_arena_take(call->import->arena, (size_t)count, sizeof *numbers);
    if (!numbers) return kn_graph_fail(call->graph, KN_ERROR_MEMORY, "out of host memory");
    for (int64_t k = 0; k < length; k++) {
        for (int64_t i = 0; i < count; i++)
            numbers[i] = t->pool->ints[begin + i * length + k];
        kn_value *wanted = kn_import_constant(call->import, KN_INT64, numbers, &count, 1);
        kn_value *part = kn_unsqueeze(kn_slice(x, 1, k * gap, k * gap + positions), "2");
        kn_value *same = kn_equal(part, wanted);
        all = all ? kn_and(all, same) : same;
    }
    return kn_sum(kn_cast(all, KN_FLOAT32), "1", false);
}

/* x is (C) or (N,C); the result has a column for each n-gram of the pool. */
static kn_status vectorizer(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *parts[MAX_TERM];
    kn_import *import = call->import;
    const char *mode = kn_import_string(call, "mode", "TF");
    const bool counted = strcmp(mode, "IDF") != 0, weighed = strcmp(mode, "TF") != 0;
    terms t;
    if (take_terms(call, &t) != KN_OK) return kn_import_status(call);
    const bool row = x->shape.rank == 1;
    if (row) x = kn_unsqueeze(x, "0");
    x = kn_import_cast(x, KN_INT64);
    if (x->shape.rank != 2 || !kn_dim_known(x->shape.dims[1]))
        return kn_import_fail(call, KN_ERROR_SHAPE, "expected integers (N,C) with a fixed C");
    const kn_dim batch = x->shape.dims[0];
    int64_t all = (int64_t)t.columns->count, begin, count, at = 0;
    float *matrix = kn_arena_take(import->arena, (size_t)(all * t.width) + 1, sizeof *matrix);
    if (!matrix) return kn_import_no_memory(import);
    memset(matrix, 0, (size_t)(all * t.width) * sizeof *matrix);
    size_t made = 0;
    for (int64_t length = 1; (size_t)length <= t.starts->count; length++) {
        ngrams_of(&t, length, &begin, &count);
        kn_value *sum = NULL;
        const bool used = length >= t.least && length <= t.most && count > 0;
        for (int64_t skip = 0; used && skip <= (length > 1 ? t.skips : 0); skip++) {
            const int64_t positions = x->shape.dims[1] - (length - 1) * (skip + 1);
            if (positions < 1) break;
            if (count > TERM_NUMBERS / positions)
                return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "has too many n-grams");
            kn_value *found = occurrences(call, &t, x, length, begin, count, skip + 1);
            sum = sum ? kn_add(sum, found) : found;
        }
        for (int64_t i = 0; sum && i < count; i++)
            matrix[(at + i) * t.width + t.columns->ints[at + i]] =
                weighed && t.weights ? t.weights->floats[at + i] : 1;
        if (!sum && count > 0) {
            const kn_dim dims[2] = {batch, count};
            sum = kn_import_broadcast(import, kn_import_scalar(import, KN_FLOAT32, 0), dims, 2);
        }
        at += count;
        if (made == MAX_TERM)
            return kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                                  "n-grams of more than %d integers are not supported", MAX_TERM);
        if (sum) parts[made++] = sum;
    }
    if (!made) return kn_import_fail(call, KN_ERROR_ARGUMENT, "the pool is empty");
    kn_value *y = made == 1 ? parts[0] : kn_concat(parts, made, 1);
    if (!counted) y = kn_cast(kn_greater(y, kn_import_scalar(import, KN_FLOAT32, 0)), KN_FLOAT32);
    kn_value *columns = kn_import_constant(import, KN_FLOAT32, matrix, (int64_t[]){all, t.width}, 2);
    y = kn_matmul(y, columns, false, false);
    return kn_import_put_as(call, 0, row ? kn_squeeze(y, "0") : y, KN_FLOAT32);
}

const kn_import_row kn_import_features[] = {
    {.type = "Binarizer", .build = binarizer, .domain = ML},
    {.type = "ArrayFeatureExtractor", .build = feature_extractor, .domain = ML},
    {.type = "TfIdfVectorizer", .build = vectorizer},
};
const int kn_import_features_count = (int)KN_COUNT_OF(kn_import_features);
