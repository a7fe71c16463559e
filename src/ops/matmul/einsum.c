/* Einstein summation, "bij,bjk->bik": each pair of operands becomes a matrix product. An ellipsis replaces
 * axes without letters: internally they get digits, 0 for the last. */
#include <string.h>

#include "ops/build.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape.h"

/* A value and the letter of each of its axes. */
typedef struct lettered {
    kn_value *value;
    int rank;
    char letters[KN_MAX_RANK + 1];
} lettered;

typedef struct letter_sum {
    kn_graph *graph;
    const char *text;
    lettered *operands;
    int count, unnamed; /* unnamed: the maximum number of axes that the ellipsis replaces */
    char result[KN_MAX_RANK + 1];
    int result_rank;
} letter_sum;

static bool refuse(const letter_sum *equation, const char *what) {
    kn_graph_fail(equation->graph, KN_ERROR_ARGUMENT,
                  "einsum: \"%s\": %s; expected letters for the axes of each operand, separated by commas, "
                  "optionally followed by -> and the letters of the result, as in \"bij,bjk->bik\"; ... can "
                  "replace axes once per operand",
                  equation->text, what);
    return false;
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static const char *find(const char *letters, int count, char letter) {
    return memchr(letters, letter, (size_t)count);
}

/* ---- reading ---------------------------------------------------------------------------------------- */

/* *points: the number of letters before the ellipsis; -1: there is none. */
static bool read_letters(letter_sum *equation, const char **at, char *letters, int *count, int *points) {
    *count = 0;
    *points = -1;
    for (;; (*at)++) {
        if (**at == ' ') continue;
        if (!strncmp(*at, "...", 3)) {
            if (*points >= 0) return refuse(equation, "an operand has ... twice");
            *points = *count;
            *at += 2;
            continue;
        }
        if (!is_letter(**at)) return true;
        if (*count == KN_MAX_RANK) return refuse(equation, "an operand has more than 8 axes");
        letters[(*count)++] = **at;
        letters[*count] = '\0';
    }
}

/* Inserts digits for `unnamed` axes instead of the ellipsis: the operands' axes are aligned at the last. */
static bool name_axes(letter_sum *equation, char *letters, int *count, int points, int unnamed) {
    if (*count + unnamed > KN_MAX_RANK) return refuse(equation, "the result has more than 8 axes");
    memmove(letters + points + unnamed, letters + points, (size_t)(*count - points));
    for (int i = 0; i < unnamed; i++)
        letters[points + i] = (char)('0' + unnamed - 1 - i);
    *count += unnamed;
    letters[*count] = '\0';
    return true;
}

static bool read_operand(letter_sum *equation, const char **at, lettered *operand) {
    int points, rank = operand->value->shape.rank;
    if (!read_letters(equation, at, operand->letters, &operand->rank, &points)) return false;
    int unnamed = rank - operand->rank;
    if (points < 0 ? unnamed != 0 : unnamed < 0)
        return refuse(equation, "an operand has a different number of axes than letters");
    if (unnamed > equation->unnamed) equation->unnamed = unnamed;
    return points < 0 || name_axes(equation, operand->letters, &operand->rank, points, unnamed);
}

/* The axes of the ellipsis, then letters that appear once, in alphabetical order. */
static bool default_result(letter_sum *equation) {
    if (!name_axes(equation, equation->result, &equation->result_rank, 0, equation->unnamed)) return false;
    for (int c = 'A'; c <= 'z'; c++) {
        int times = 0;
        for (int i = 0; i < equation->count; i++)
            for (int k = 0; k < equation->operands[i].rank; k++)
                times += equation->operands[i].letters[k] == c;
        if (times != 1) continue;
        if (equation->result_rank == KN_MAX_RANK) return refuse(equation, "the result has more than 8 axes");
        equation->result[equation->result_rank++] = (char)c;
    }
    return true;
}

static bool check_result(letter_sum *equation) {
    for (int i = 0; i < equation->result_rank; i++) {
        bool known = false;
        for (int k = 0; k < equation->count; k++)
            known =
                known || find(equation->operands[k].letters, equation->operands[k].rank, equation->result[i]);
        if (!known) return refuse(equation, "the result has a letter that no operand has");
        if (find(equation->result, i, equation->result[i]))
            return refuse(equation, "the result has a letter twice");
    }
    return true;
}

static bool read_equation(letter_sum *equation) {
    const char *at = equation->text;
    for (int i = 0; i < equation->count; i++) {
        if (i && *at++ != ',') return refuse(equation, "more operands than lists of letters");
        if (!read_operand(equation, &at, &equation->operands[i])) return false;
    }
    if (*at == '\0') return default_result(equation);
    if (strncmp(at, "->", 2) != 0) return refuse(equation, "expected a letter, a comma or ->");
    at += 2;
    int points;
    if (!read_letters(equation, &at, equation->result, &equation->result_rank, &points)) return false;
    if (*at) return refuse(equation, "expected only letters after ->");
    if (points >= 0 &&
        !name_axes(equation, equation->result, &equation->result_rank, points, equation->unnamed))
        return false;
    return check_result(equation);
}

/* ---- one operand ------------------------------------------------------------------------------------- */

static void drop_letter(lettered *term, int at) {
    memmove(term->letters + at, term->letters + at + 1, (size_t)(term->rank - at));
    term->rank--;
}

/* The diagonal of axes `first` and `second`, which have the same letter; it becomes the last axis. */
static bool take_diagonal(letter_sum *equation, lettered *term, int first, int second) {
    const kn_shape *shape = &term->value->shape;
    kn_dim size = shape->dims[first], dims[KN_MAX_RANK];
    int order[KN_MAX_RANK], count = 0;
    char letter = term->letters[first];
    if (!kn_dim_known(size) || size != shape->dims[second])
        return refuse(equation,
                      "a letter that an operand has twice must have one size, which must be a number");
    for (int i = 0; i < term->rank; i++)
        if (i != first && i != second) {
            dims[count] = shape->dims[i];
            order[count++] = i;
        }
    order[count] = first;
    order[count + 1] = second;
    dims[count] = size * size;
    kn_value *flat = kn_reshape_to(kn_permute(term->value, order), count + 1, dims);
    if (!kn_value_failed(flat) && size > 0) {
        kn_settings settings;
        kn_settings_init(&settings, equation->graph, &kn_row_slice);
        kn_settings_int(&settings, "axis", count);
        kn_settings_int(&settings, "step", size + 1);
        flat = kn_build(&kn_row_slice, &flat, 1, &settings);
    }
    drop_letter(term, second);
    drop_letter(term, first);
    term->letters[term->rank++] = letter;
    term->letters[term->rank] = '\0';
    term->value = flat;
    return !kn_value_failed(flat);
}

static bool without_doubles(letter_sum *equation, lettered *term) {
    for (int i = 0; i < term->rank; i++) {
        const char *again = find(term->letters + i + 1, term->rank - i - 1, term->letters[i]);
        if (!again) continue;
        if (!take_diagonal(equation, term, i, (int)(again - term->letters))) return false;
        i = -1;
    }
    return true;
}

/* Removes axes without a letter whose size is 1 if another operand's is not: they broadcast. */
static void drop_broadcast_axes(letter_sum *equation, lettered *term) {
    for (int i = 0; i < term->rank; i++) {
        const kn_shape *shape = &term->value->shape;
        bool repeated = false;
        if (is_letter(term->letters[i]) || shape->dims[i] != 1) continue;
        for (int k = 0; k < equation->count; k++) {
            const lettered *other = &equation->operands[k];
            const char *same = find(other->letters, other->rank, term->letters[i]);
            repeated = repeated || (same && other->value->shape.dims[same - other->letters] != 1);
        }
        if (!repeated) continue;
        kn_dim dims[KN_MAX_RANK];
        for (int k = 0; k + 1 < term->rank; k++)
            dims[k] = shape->dims[k < i ? k : k + 1];
        kn_value *rest = kn_reshape_to(term->value, term->rank - 1, dims);
        if (kn_value_failed(rest)) return;
        term->value = rest;
        drop_letter(term, i--);
    }
}

/* Whether a letter is still needed: by the result, or by operands from `next` on. */
static bool is_wanted(const letter_sum *equation, char letter, int next) {
    bool wanted = find(equation->result, equation->result_rank, letter) != NULL;
    for (int i = next; i < equation->count; i++)
        wanted = wanted || find(equation->operands[i].letters, equation->operands[i].rank, letter);
    return wanted;
}

/* Sums over axes that are not in `other` (if given), later operands or the result. */
static void sum_unshared(letter_sum *equation, lettered *term, const lettered *other, int next) {
    kn_dim axes[KN_MAX_RANK];
    int count = 0, before = term->rank;
    for (int i = 0, axis = 0; axis < before; axis++) {
        char letter = term->letters[i];
        if ((other && find(other->letters, other->rank, letter)) || is_wanted(equation, letter, next)) {
            i++;
            continue;
        }
        axes[count++] = axis;
        drop_letter(term, i);
    }
    if (!count || kn_value_failed(term->value)) return;
    kn_settings settings;
    kn_settings_init(&settings, equation->graph, &kn_row_sum);
    kn_settings_list(&settings, "axes", count, axes);
    term->value = kn_build(&kn_row_sum, &term->value, 1, &settings);
}

/* ---- two operands -------------------------------------------------------------------------------------- */

enum { BATCH, FREE, SUMMED, KINDS };

/* The role of a letter of `term` in the product with `other`. */
static int kind_of(const letter_sum *equation, char letter, const lettered *other, int next) {
    if (!find(other->letters, other->rank, letter)) return FREE;
    return is_wanted(equation, letter, next) ? BATCH : SUMMED;
}

/* An operand as a stack of matrices: (batch,free,summed), or (batch,summed,free) with `swapped`. */
typedef struct matrices {
    kn_value *value;
    bool swapped;
    kn_dim sizes[KINDS];
    char letters[KINDS][KN_MAX_RANK + 1];
    kn_dim dims[KINDS][KN_MAX_RANK];
    int counts[KINDS];
} matrices;

/* Sorts the letters of each role as in `model`, so that both stacks agree. */
static void sort_letters(const letter_sum *equation, const lettered *term, const lettered *other,
                         const lettered *model, int next, matrices *made) {
    const lettered *orders[2] = {model, term};
    *made = (matrices){.sizes = {1, 1, 1}};
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < orders[pass]->rank; i++) {
            char letter = orders[pass]->letters[i];
            const char *own = find(term->letters, term->rank, letter);
            if (!own) continue;
            int kind = kind_of(equation, letter, other, next);
            if ((kind == FREE) != (pass == 1)) continue;
            kn_dim size = term->value->shape.dims[own - term->letters];
            made->dims[kind][made->counts[kind]] = size;
            made->letters[kind][made->counts[kind]++] = letter;
            made->sizes[kind] = kn_dim_multiply(equation->graph, made->sizes[kind], size);
        }
}

/* Transposes only if neither order of the matrices matches the memory layout. */
static void stack_matrices(const lettered *term, matrices *made) {
    static const int kinds[2][KINDS] = {{BATCH, FREE, SUMMED}, {BATCH, SUMMED, FREE}};
    int order[KN_MAX_RANK];
    for (int swapped = 1; swapped >= 0; swapped--) {
        bool same = true;
        int count = 0;
        for (int kind = 0; kind < KINDS; kind++)
            for (int i = 0; i < made->counts[kinds[swapped][kind]]; i++, count++) {
                order[count] = (int)(find(term->letters, term->rank, made->letters[kinds[swapped][kind]][i]) -
                                     term->letters);
                same = same && order[count] == count;
            }
        made->swapped = swapped != 0;
        if (same) break;
    }
    const kn_dim *s = made->sizes;
    const kn_dim dims[3] = {s[BATCH], made->swapped ? s[SUMMED] : s[FREE],
                            made->swapped ? s[FREE] : s[SUMMED]};
    made->value = kn_reshape_to(kn_permute(term->value, order), 3, dims);
}

/* Replaces left by the product of left and right. */
static bool multiply(letter_sum *equation, lettered *left, lettered *right, int next) {
    matrices a, b;
    sum_unshared(equation, left, right, next);
    sum_unshared(equation, right, left, next);
    if (kn_value_failed(left->value) || kn_value_failed(right->value)) return false;
    for (int i = 0; i < left->rank; i++) {
        const char *same = find(right->letters, right->rank, left->letters[i]);
        if (same && left->value->shape.dims[i] != right->value->shape.dims[same - right->letters])
            return refuse(equation, "a letter has two different sizes");
    }
    sort_letters(equation, left, right, left, next, &a);
    sort_letters(equation, right, left, left, next, &b);
    stack_matrices(left, &a);
    stack_matrices(right, &b);
    kn_value *product = kn_matmul(a.value, b.value, a.swapped, !b.swapped);
    int rank = 0;
    kn_dim dims[3 * KN_MAX_RANK];
    char letters[3 * KN_MAX_RANK];
    const matrices *from[3] = {&a, &a, &b};
    for (int k = 0; k < 3; k++)
        for (int i = 0, kind = k ? FREE : BATCH; i < from[k]->counts[kind]; i++) {
            dims[rank] = from[k]->dims[kind][i];
            letters[rank++] = from[k]->letters[kind][i];
        }
    if (rank > KN_MAX_RANK) return refuse(equation, "a product of two values has more than 8 axes");
    memcpy(left->letters, letters, (size_t)rank);
    left->letters[rank] = '\0';
    left->rank = rank;
    left->value = kn_reshape_to(product, rank, dims);
    return !kn_value_failed(left->value);
}

/* ---- builder --------------------------------------------------------------------------------- */

kn_value *kn_einsum(const char *text, kn_value *const *values, size_t count) {
    lettered operands[KN_MAX_INPUTS];
    if (!values || !count || !values[0]) return NULL;
    letter_sum equation = {.graph = values[0]->graph, .text = text ? text : "", .operands = operands};
    kn_value *failed = &equation.graph->failed;
    if (count > KN_MAX_INPUTS)
        return kn_graph_fail(equation.graph, KN_ERROR_UNSUPPORTED, "einsum: %zu values; at most %d at a time",
                             count, KN_MAX_INPUTS);
    for (size_t i = 0; i < count; i++) {
        if (!values[i])
            return kn_graph_fail(equation.graph, KN_ERROR_ARGUMENT, "einsum: value %zu is NULL", i);
        if (values[i]->failed) return values[i];
        operands[i] = (lettered){.value = values[i]};
    }
    equation.count = (int)count;
    if (!read_equation(&equation)) return failed;
    for (size_t i = 0; i < count; i++)
        if (!without_doubles(&equation, &operands[i])) return failed;
    for (size_t i = 0; i < count; i++)
        drop_broadcast_axes(&equation, &operands[i]);
    lettered *result = &operands[0];
    for (int i = 1; i < equation.count; i++)
        if (!multiply(&equation, result, &operands[i], i + 1)) return failed;
    sum_unshared(&equation, result, NULL, equation.count);
    if (kn_value_failed(result->value)) return failed;
    int order[KN_MAX_RANK];
    for (int i = 0; i < equation.result_rank; i++)
        order[i] = (int)(find(result->letters, result->rank, equation.result[i]) - result->letters);
    return kn_permute(result->value, order);
}
