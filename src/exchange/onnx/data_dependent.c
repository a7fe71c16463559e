/* Operators whose output shapes depend on the values of inputs, which must be known when the model is opened.
 */
#include "exchange/onnx/import.h"

#include <inttypes.h>
#include <math.h>

enum { MEL_NUMBERS = 1 << 22, BOX_COMPARISONS = 1 << 26 };

static kn_status non_zero(kn_import_call *call) {
    kn_tensor_info info;
    const void *data;
    uint64_t elements = 0;
    if (kn_import_known(call, 0, &info, &data) != KN_OK) return kn_import_status(call);
    kn_tensor_elements(&info, &elements);
    int rank = info.rank ? info.rank : 1;
    int64_t count = 0, strides[KN_MAX_RANK], stride = 1;
    for (int64_t i = 0; i < (int64_t)elements; i++)
        count += kn_element_get(info.dtype, data, i) != 0;
    for (int i = rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= info.rank ? info.shape[i] : 1;
    }
    int64_t *positions = kn_arena_take(call->import->arena, (size_t)(count * rank) + 1, sizeof *positions),
            at = 0;
    if (!positions) return kn_import_no_memory(call->import);
    for (int64_t i = 0; i < (int64_t)elements; i++) {
        if (kn_element_get(info.dtype, data, i) == 0) continue;
        for (int k = 0; k < rank; k++)
            positions[k * count + at] = info.rank ? i / strides[k] % info.shape[k] : 0;
        at++;
    }
    return kn_import_put(call, 0,
                         kn_import_constant(call->import, KN_INT64, positions, (int64_t[]){rank, count}, 2));
}

/* ---- unique slices ------------------------------------------------------------------------------------- */

/* Slices of x along an axis: slice i is (outer,inner) elements of (outer,count,inner). */
typedef struct slices {
    kn_dtype dtype;
    const void *data;
    int64_t outer, count, inner;
} slices;

/* Compares slices element by element; NaN comes after all numbers. */
static int compare_slices(const slices *p, int64_t left, int64_t right) {
    for (int64_t i = 0; i < p->outer * p->inner; i++) {
        int64_t row = i / p->inner * p->count, column = i % p->inner;
        double a = kn_element_get(p->dtype, p->data, (row + left) * p->inner + column);
        double b = kn_element_get(p->dtype, p->data, (row + right) * p->inner + column);
        int order = isnan(a) || isnan(b) ? (isnan(a) != 0) - (isnan(b) != 0) : (a > b) - (a < b);
        if (order) return order;
    }
    return 0;
}

/* Sorts the indices of slices, stably, using two lists of p->count as memory. */
static int64_t *sorted_slices(const slices *p, int64_t *list, int64_t *other) {
    for (int64_t i = 0; i < p->count; i++)
        list[i] = i;
    for (int64_t width = 1; width < p->count; width *= 2) {
        for (int64_t begin = 0; begin < p->count; begin += 2 * width) {
            int64_t middle = begin + width < p->count ? begin + width : p->count;
            int64_t end = middle + width < p->count ? middle + width : p->count;
            int64_t left = begin, right = middle;
            for (int64_t i = begin; i < end; i++) {
                bool first =
                    left < middle && (right == end || compare_slices(p, list[left], list[right]) <= 0);
                other[i] = first ? list[left++] : list[right++];
            }
        }
        int64_t *swap = list;
        list = other;
        other = swap;
    }
    return list;
}

/* Outputs: the unique slices, the first index of each, the unique index of each slice of x, and the counts.
 */
static kn_status unique(kn_import_call *call) {
    kn_tensor_info info;
    int axis = 0;
    slices p = {.outer = 1, .count = 1, .inner = 1};
    kn_value *x = kn_import_in(call, 0);
    if (kn_import_known(call, 0, &info, &p.data) != KN_OK) return kn_import_status(call);
    bool flat = !kn_import_attribute(call, "axis");
    if (!flat) axis = kn_import_axis(call, kn_import_int(call, "axis", 0), info.rank);
    p.dtype = info.dtype;
    for (int i = 0; i < info.rank; i++)
        *(flat || i == axis ? &p.count : i < axis ? &p.outer : &p.inner) *= info.shape[i];
    int64_t *room = kn_arena_take(call->import->arena, 6 * (size_t)p.count + 6, sizeof *room);
    if (!room) return kn_import_no_memory(call->import);
    int64_t *first = room + 2 * p.count, *which = first + p.count, *often = which + p.count,
            *renamed = often + p.count, count = 0, *order = sorted_slices(&p, room, room + p.count);
    for (int64_t i = 0; i < p.count; i++) {
        if (i == 0 || compare_slices(&p, order[i - 1], order[i]) != 0) first[count++] = order[i];
        which[order[i]] = count - 1;
    }
    if (!kn_import_int(call, "sorted", 1)) { /* in order of occurrence */
        for (int64_t i = 0, seen = 0; i < p.count; i++)
            if (first[which[i]] == i) renamed[which[i]] = seen++;
        for (int64_t i = 0; i < p.count; i++)
            which[i] = renamed[which[i]];
        for (int64_t i = p.count; i-- > 0;)
            first[which[i]] = i;
    }
    for (int64_t i = 0; i < p.count; i++)
        often[which[i]]++;
    kn_value *positions = kn_import_constant(call->import, KN_INT64, first, &count, 1);
    kn_import_put(call, 0, kn_gather(flat ? kn_reshape(x, "-1") : x, positions, axis));
    kn_import_put_as(call, 1, positions, KN_INT64);
    kn_import_put_as(call, 2, kn_import_constant(call->import, KN_INT64, which, &p.count, 1), KN_INT64);
    return kn_import_put_as(call, 3, kn_import_constant(call->import, KN_INT64, often, &count, 1), KN_INT64);
}

/* ---- boxes --------------------------------------------------------------------------------------------- */

typedef struct boxes {
    kn_tensor_info info, score_info; /* (batch,boxes,4), (batch,classes,boxes) */
    const void *data, *scores;
    bool centers; /* (x,y,width,height) instead of two corners (y,x,y,x) */
    float overlap;
} boxes;

/* The edges of a box along x (0) or y (1). */
static void borders(const boxes *b, int64_t box, int along, float border[2]) {
    float n[4];
    for (int i = 0; i < 4; i++)
        n[i] = (float)kn_element_get(b->info.dtype, b->data, 4 * box + i);
    float low = b->centers ? n[along] - n[along + 2] / 2 : n[1 - along];
    float high = b->centers ? n[along] + n[along + 2] / 2 : n[3 - along];
    border[0] = low < high ? low : high;
    border[1] = low < high ? high : low;
}

/* Whether the intersection over union of two boxes is above the threshold. */
static bool overlap(const boxes *b, int64_t left, int64_t right) {
    float shared = 1, first = 1, second = 1;
    for (int along = 0; along < 2; along++) {
        float l[2], r[2];
        borders(b, left, along, l);
        borders(b, right, along, r);
        float begin = l[0] > r[0] ? l[0] : r[0], end = l[1] < r[1] ? l[1] : r[1];
        if (!(end > begin)) return false;
        shared *= end - begin;
        first *= l[1] - l[0];
        second *= r[1] - r[0];
    }
    return shared / (first + second - shared) > b->overlap;
}

static kn_status take_boxes(kn_import_call *call, boxes *b) {
    b->centers = kn_import_int(call, "center_point_box", 0) != 0;
    b->overlap = (float)kn_import_input_number(call, 3, 0);
    if (kn_import_known(call, 0, &b->info, &b->data) != KN_OK ||
        kn_import_known(call, 1, &b->score_info, &b->scores) != KN_OK)
        return kn_import_status(call);
    if (b->info.rank != 3 || b->score_info.rank != 3 || b->info.shape[2] != 4 ||
        b->info.shape[0] != b->score_info.shape[0] || b->info.shape[1] != b->score_info.shape[2])
        return kn_import_fail(call, KN_ERROR_SHAPE,
                              "expected boxes (batch,boxes,4) and scores (batch,classes,boxes)");
    return kn_import_status(call);
}

/* Non-maximum suppression per class: (chosen,3) has sample, class and box. */
static kn_status non_max_suppression(kn_import_call *call) {
    boxes b;
    const double most = kn_import_input_number(call, 2, 0),
                 least = kn_import_input_number(call, 4, -INFINITY);
    if (take_boxes(call, &b) != KN_OK) return kn_import_status(call);
    int64_t count = b.info.shape[1], lists = b.score_info.shape[0] * b.score_info.shape[1], chosen = 0;
    if ((double)(lists * count) * fmin(most, (double)count) > BOX_COMPARISONS)
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "%" PRId64 " boxes are too many to compare", count);
    bool *out = kn_arena_take(call->import->arena, (size_t)count + 1, sizeof *out);
    int64_t *result = kn_arena_take(call->import->arena, 3 * (size_t)(lists * count) + 1, sizeof *result);
    if (!out || !result) return kn_import_no_memory(call->import);
    for (int64_t list = 0; list < lists && count; list++) {
        int64_t batch = list / b.score_info.shape[1];
        for (int64_t i = 0; i < count; i++)
            out[i] = !(kn_element_get(b.score_info.dtype, b.scores, list * count + i) > least);
        for (int64_t taken = 0; (double)taken < most; taken++) {
            int64_t best = -1;
            double score = -INFINITY;
            for (int64_t i = 0; i < count; i++) {
                double own = kn_element_get(b.score_info.dtype, b.scores, list * count + i);
                if (!out[i] && (best < 0 || own > score)) best = i, score = own;
            }
            if (best < 0) break;
            result[3 * chosen] = batch;
            result[3 * chosen + 1] = list % b.score_info.shape[1];
            result[3 * chosen++ + 2] = best;
            for (int64_t i = 0; i < count; i++)
                out[i] = out[i] || i == best || overlap(&b, batch * count + best, batch * count + i);
        }
    }
    return kn_import_put_as(
        call, 0, kn_import_constant(call->import, KN_INT64, result, (int64_t[]){chosen, 3}, 2), KN_INT64);
}

/* ---- mel filters --------------------------------------------------------------------------------------- */

/* Triangular filters over the DFT frequencies, evenly spaced on the mel scale: (length / 2 + 1,bins). */
static kn_status mel_weights(kn_import_call *call) {
    double bins = 0, length = 0, rate = 0, low = 0, high = 0;
    kn_dtype dtype = KN_FLOAT32;
    kn_import_numbers(call, 0, &bins, 1, NULL);
    kn_import_numbers(call, 1, &length, 1, NULL);
    kn_import_numbers(call, 2, &rate, 1, NULL);
    kn_import_numbers(call, 3, &low, 1, NULL);
    kn_import_numbers(call, 4, &high, 1, NULL);
    if (!kn_onnx_type_to((kn_onnx_type)kn_import_int(call, "output_datatype", KN_ONNX_FLOAT32), &dtype))
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "output_datatype is not a supported type");
    if (!(bins >= 1 && length >= 1 && rate >= 1 && low >= 0 && high >= low) || !(high <= rate) ||
        bins > MEL_NUMBERS / (length / 2 + 1))
        return kn_import_fail(call, KN_ERROR_ARGUMENT,
                              "the number of bins, the DFT length or the frequencies are out of range");
    int64_t rows = (int64_t)length / 2 + 1, columns = (int64_t)bins;
    double *weights = kn_arena_take(call->import->arena, (size_t)(rows * columns), sizeof *weights);
    int64_t *at = kn_arena_take(call->import->arena, (size_t)columns + 2, sizeof *at);
    if (!weights || !at) return kn_import_no_memory(call->import);
    double from = 2595 * log10(1 + low / 700), to = 2595 * log10(1 + high / 700);
    for (int64_t i = 0; i < columns + 2; i++) {
        double mel = from + (double)i * (to - from) / (bins + 2);
        at[i] = (int64_t)floor((floor(length) + 1) * 700 * expm1(mel / 2595 * log(10)) / rate);
    }
    for (int64_t i = 0; i < columns; i++)
        for (int64_t j = at[i]; j < rows && (j <= at[i + 1] || j < at[i + 2]); j++) {
            bool rises = j <= at[i + 1] && at[i + 1] > at[i];
            double part = j == at[i + 1] ? 1
                          : rises        ? (double)(j - at[i]) / (double)(at[i + 1] - at[i])
                                         : (double)(at[i + 2] - j) / (double)(at[i + 2] - at[i + 1]);
            weights[j * columns + i] = part;
        }
    kn_value *y = kn_import_constant(call->import, KN_FLOAT64, weights, (int64_t[]){rows, columns}, 2);
    return kn_import_put_as(call, 0, kn_import_cast(y, kn_is_half(dtype) ? KN_FLOAT32 : dtype), dtype);
}

const kn_import_row kn_import_data_dependent[] = {
    {.type = "NonZero", .build = non_zero},
    {.type = "Unique", .build = unique},
    {.type = "NonMaxSuppression", .build = non_max_suppression},
    {.type = "MelWeightMatrix", .build = mel_weights},
};
const int kn_import_data_dependent_count = (int)KN_COUNT_OF(kn_import_data_dependent);
