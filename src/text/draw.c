/* Draws a token from logits. The vocabulary is never sorted: what may be drawn is found by partial selection.
 */
#include <math.h>
#include <string.h>

#include "text/text_private.h"

KN_DEFINE_INIT(kn_draw_params, KN_DRAW_DEFAULTS)

typedef struct candidate {
    float logit;
    int32_t token;
} candidate;

/* Larger logits first, then smaller tokens. */
static bool is_before(candidate one, candidate other) {
    return one.logit > other.logit || (!(one.logit < other.logit) && one.token < other.token);
}

/* Moves the `wanted` first ones to the front, in any order (Hoare's selection); linear on average. */
static void select_first(candidate *list, size_t count, size_t wanted) {
    size_t begin = 0, end = count;
    while (wanted > begin && end - begin > 1) {
        candidate pivot = list[begin + (end - begin) / 2];
        size_t left = begin, right = end - 1;
        for (;;) {
            while (is_before(list[left], pivot))
                left++;
            while (is_before(pivot, list[right]))
                right--;
            if (left >= right) break;
            candidate swap = list[left];
            list[left++] = list[right];
            list[right--] = swap;
        }
        /* Everything before `left` comes before the rest, or is the pivot. */
        size_t middle = left + (left == right && is_before(list[left], pivot));
        if (middle == begin) middle++;
        if (wanted < middle)
            end = middle;
        else if (wanted > middle)
            begin = middle;
        else
            return;
    }
}

static void sift(candidate *list, size_t at, size_t count) {
    candidate moved = list[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && is_before(list[child], list[child + 1])) child++;
        if (is_before(list[child], moved)) break;
        list[at] = list[child];
    }
    list[at] = moved;
}

static void sort(candidate *list, size_t count) {
    for (size_t at = count / 2; at-- > 0;)
        sift(list, at, count);
    for (size_t end = count; end > 1; end--) {
        candidate first = list[0];
        list[0] = list[end - 1];
        list[end - 1] = first;
        sift(list, 0, end - 1);
    }
}

static double weight(const kn_draw_params *params, float logit, float best) {
    return exp((double)(logit - best) / params->temperature);
}

/* How many of the first candidates have the share top_p; they are moved to the front. */
static size_t count_share(const kn_draw_params *params, candidate *list, size_t count, float best) {
    double sum = 0, share = 0;
    for (size_t i = 0; i < count; i++)
        sum += weight(params, list[i].logit, best);
    for (size_t begin = 0, end = 64; begin < count; begin = end, end *= 4) {
        if (end > count) end = count;
        select_first(list + begin, count - begin, end - begin);
        sort(list + begin, end - begin);
        for (size_t i = begin; i < end; i++) {
            share += weight(params, list[i].logit, best);
            if (share >= params->top_p * sum) return i + 1;
        }
    }
    return count;
}

/* The last candidate, in order, that may be drawn by top_k and top_p. */
static candidate last_one(const kn_draw_params *params, candidate *list, size_t count, float best) {
    if (params->top_k && params->top_k < count) {
        select_first(list, count, (size_t)params->top_k);
        count = (size_t)params->top_k;
    }
    if (params->top_p < 1) count = count_share(params, list, count, best);
    candidate last = list[0];
    for (size_t i = 1; i < count; i++)
        if (is_before(last, list[i])) last = list[i];
    return last;
}

/* A random number in [0, 1) from seed and step. */
static double chance_at(uint64_t seed, uint64_t step) {
    uint64_t z = seed * 0x9e3779b97f4a7c15u + (step + 1) * 0xbf58476d1ce4e5b9u;
    for (int i = 0; i < 2; i++) {
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        z ^= z >> 31;
    }
    return (double)(z >> 11) * 0x1p-53;
}

/* Makes tokens that were seen less likely, each once. */
static bool penalize(const kn_host *host, double penalty, float *logits, size_t count, const int32_t *seen,
                     size_t seen_count) {
    if (!(penalty > 1) && !(penalty < 1)) return true;
    uint8_t *done = kn_allocate(host, count / 8 + 1, 1);
    if (!done) return false;
    for (size_t i = 0; i < seen_count; i++) {
        if (seen[i] < 0 || (size_t)seen[i] >= count || done[seen[i] / 8] >> seen[i] % 8 & 1) continue;
        done[seen[i] / 8] |= (uint8_t)(1 << seen[i] % 8);
        float *logit = logits + seen[i];
        *logit = (float)(*logit < 0 ? *logit * penalty : *logit / penalty);
    }
    kn_release(host, done);
    return true;
}

static kn_status draw(const kn_draw_params *params, const float *logits, candidate *list, size_t count,
                      uint64_t step, int32_t *token) {
    size_t used = 0;
    candidate best = {-INFINITY, -1};
    for (size_t i = 0; i < count; i++) {
        if (!(logits[i] > -INFINITY)) continue; /* also NaN */
        list[used++] = (candidate){logits[i], (int32_t)i};
        if (best.token < 0 || is_before(list[used - 1], best)) best = list[used - 1];
    }
    if (!used || best.logit > 3.4e38f) return KN_ERROR_NOT_FINITE;
    *token = best.token;
    if (!(params->temperature > 0)) return KN_OK;
    candidate last = last_one(params, list, used, best.logit);
    double sum = 0, left = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < count; i++) {
            candidate one = {logits[i], (int32_t)i};
            if (!(logits[i] > -INFINITY) || is_before(last, one)) continue;
            double w = weight(params, logits[i], best.logit);
            if (w < params->min_p) continue;
            if (!pass) {
                sum += w;
            } else if ((left -= w) < 0) {
                *token = one.token;
                return KN_OK;
            }
        }
        if (!pass) left = chance_at(params->seed, step) * sum;
    }
    return KN_OK; /* rounding: the most likely */
}

kn_status kn_draw_token(const kn_draw_params *given, const float *logits, size_t count, const int32_t *seen,
                        size_t seen_count, uint64_t step, int32_t *token) {
    kn_draw_params params = KN_DRAW_DEFAULTS;
    kn_error unused = {0};
    kn_status status = KN_PARAMS_TAKE(kn_draw_params, &params, given, &unused);
    if (status != KN_OK) return status;
    if (!logits || !count || count > INT32_MAX || (!seen && seen_count) || !token ||
        !(params.temperature >= 0) || !(params.top_p > 0 && params.top_p <= 1) ||
        !(params.min_p >= 0 && params.min_p <= 1) || !(params.repetition > 0))
        return KN_ERROR_ARGUMENT;
    kn_host host = kn_host_defaults();
    float *own = kn_allocate(&host, count, sizeof *own);
    candidate *list = kn_allocate(&host, count, sizeof *list);
    status = own && list ? KN_OK : KN_ERROR_MEMORY;
    if (status == KN_OK) {
        memcpy(own, logits, count * sizeof *own);
        status = penalize(&host, params.repetition, own, count, seen, seen_count)
                     ? draw(&params, own, list, count, step, token)
                     : KN_ERROR_MEMORY;
    }
    kn_release(&host, own);
    kn_release(&host, list);
    return status;
}
