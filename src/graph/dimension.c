/* Dimensions: numbers, or polynomials of symbols and rounded quotients, each stored once.
 *
 * A symbolic dimension is a sum of terms; a term is a coefficient times a product of atoms; an atom is a
 * symbol or the quotient of two dimensions, rounded down. Sums and atoms are stored once each in normal form,
 * so that equal expressions have the same kn_dim. */
#include <string.h>

#include "graph/graph_private.h"

/* ---- the table ----------------------------------------------------------------------------------- */

static size_t sum_key(const kn_dim_sum *sum, int64_t key[KN_DIM_TERMS * (KN_DIM_DEGREE + 2)]) {
    size_t used = 0;
    for (int i = 0; i < sum->count; i++) {
        const kn_dim_term *term = &sum->terms[i];
        key[used++] = term->coefficient;
        key[used++] = term->degree;
        for (int j = 0; j < term->degree; j++)
            key[used++] = term->atoms[j];
    }
    return used * sizeof *key;
}

/* The sum must be in normal form and not a number. */
static kn_status store(kn_graph *graph, const kn_dim_sum *sum, kn_dim *result, kn_error *error) {
    struct kn_dim_table *table = graph->dims;
    int64_t key[KN_DIM_TERMS * (KN_DIM_DEGREE + 2)];
    size_t bytes = sum_key(sum, key);
    uintptr_t found = (uintptr_t)kn_map_get(&table->sum_index, key, bytes);
    if (found) {
        *result = -(kn_dim)found;
        return KN_OK;
    }
    void *sums = table->sums;
    if (!kn_reserve(&graph->host, &sums, &table->sum_capacity, table->sum_count + 1, sizeof *table->sums))
        return kn_fail_memory(error, bytes);
    table->sums = sums;
    const kn_dim_term *terms = kn_arena_copy(&graph->arena, sum->terms, (size_t)sum->count, sizeof *terms);
    if (!terms || !kn_map_put(&table->sum_index, key, bytes, (void *)(uintptr_t)(table->sum_count + 1)))
        return kn_fail_memory(error, bytes);
    table->sums[table->sum_count++] = (kn_dim_stored){.count = sum->count, .terms = terms};
    *result = -(kn_dim)table->sum_count;
    return KN_OK;
}

static kn_status store_atom(kn_graph *graph, const kn_dim_atom *atom, const void *key, size_t key_bytes,
                            int *position, kn_error *error) {
    struct kn_dim_table *table = graph->dims;
    uintptr_t found = (uintptr_t)kn_map_get(&table->atom_index, key, key_bytes);
    if (found) {
        *position = (int)(found - 1);
        return KN_OK;
    }
    void *atoms = table->atoms;
    if (table->atom_count >= INT32_MAX ||
        !kn_reserve(&graph->host, &atoms, &table->atom_capacity, table->atom_count + 1, sizeof *table->atoms))
        return kn_fail_memory(error, sizeof *atom);
    table->atoms = atoms;
    if (!kn_map_put(&table->atom_index, key, key_bytes, (void *)(uintptr_t)(table->atom_count + 1)))
        return kn_fail_memory(error, sizeof *atom);
    *position = (int)table->atom_count;
    table->atoms[table->atom_count++] = *atom;
    return KN_OK;
}

bool kn_dim_table_init(kn_graph *graph) {
    graph->dims = kn_allocate(&graph->host, 1, sizeof *graph->dims);
    if (!graph->dims) return false;
    kn_map_init(&graph->dims->sum_index, &graph->host);
    kn_map_init(&graph->dims->atom_index, &graph->host);
    kn_dim_sum minus_one = {.count = 1, .terms = {{.coefficient = -1}}};
    kn_dim first;
    return store(graph, &minus_one, &first, NULL) == KN_OK;
}

void kn_dim_table_finish(kn_graph *graph) {
    if (!graph->dims) return;
    kn_map_finish(&graph->dims->sum_index);
    kn_map_finish(&graph->dims->atom_index);
    kn_release(&graph->host, graph->dims->sums);
    kn_release(&graph->host, graph->dims->atoms);
    kn_release(&graph->host, graph->dims);
    graph->dims = NULL;
}

const char *kn_graph_symbol(const kn_graph *graph, int position) {
    int seen = 0;
    for (size_t i = 0; i < graph->dims->atom_count; i++)
        if (graph->dims->atoms[i].symbol && seen++ == position) return graph->dims->atoms[i].symbol;
    return NULL;
}

/* ---- sums ------------------------------------------------------------------------------------------ */

void kn_dim_load(const kn_graph *graph, kn_dim dim, kn_dim_sum *sum) {
    sum->count = 0;
    if (dim > 0) {
        sum->count = 1;
        sum->terms[0] = (kn_dim_term){.coefficient = dim};
    } else if (dim < 0 && (uint64_t) - (dim + 1) < graph->dims->sum_count) {
        const kn_dim_stored *stored = &graph->dims->sums[-(dim + 1)];
        sum->count = stored->count;
        memcpy(sum->terms, stored->terms, (size_t)stored->count * sizeof *stored->terms);
    }
}

/* Negative if `left` precedes `right`; 0 if at most their coefficients differ. */
static int compare_terms(const kn_dim_term *left, const kn_dim_term *right) {
    if (left->degree != right->degree) return right->degree - left->degree;
    for (int i = 0; i < left->degree; i++)
        if (left->atoms[i] != right->atoms[i]) return left->atoms[i] < right->atoms[i] ? -1 : 1;
    return 0;
}

static kn_status fail_overflow(kn_error *error) {
    return kn_fail(error, KN_ERROR_SHAPE, "a size exceeds 64 bits; make the shape smaller");
}

static kn_status fail_complex(kn_error *error) {
    return kn_fail(error, KN_ERROR_UNSUPPORTED,
                   "size too complex (more than %d terms or %d factors, or nested quotients); replace some "
                   "of its symbols by numbers",
                   KN_DIM_TERMS, KN_DIM_DEGREE);
}

/* Adds one term and keeps the normal form. */
static kn_status add_term(kn_dim_sum *sum, const kn_dim_term *term, kn_error *error) {
    if (term->coefficient == 0) return KN_OK;
    int at = 0;
    while (at < sum->count && compare_terms(&sum->terms[at], term) < 0)
        at++;
    if (at < sum->count && compare_terms(&sum->terms[at], term) == 0) {
        if (!kn_add_fits(sum->terms[at].coefficient, term->coefficient, &sum->terms[at].coefficient))
            return fail_overflow(error);
        if (sum->terms[at].coefficient == 0) {
            sum->count--;
            memmove(&sum->terms[at], &sum->terms[at + 1], (size_t)(sum->count - at) * sizeof *term);
        }
        return KN_OK;
    }
    if (sum->count == KN_DIM_TERMS) return fail_complex(error);
    memmove(&sum->terms[at + 1], &sum->terms[at], (size_t)(sum->count - at) * sizeof *term);
    sum->terms[at] = *term;
    sum->count++;
    return KN_OK;
}

/* left + factor * right. */
static kn_status add_sums(const kn_dim_sum *left, const kn_dim_sum *right, int64_t factor, kn_dim_sum *result,
                          kn_error *error) {
    kn_dim_sum total = *left;
    for (int i = 0; i < right->count; i++) {
        kn_dim_term term = right->terms[i];
        if (!kn_multiply_fits(term.coefficient, factor, &term.coefficient)) return fail_overflow(error);
        kn_status status = add_term(&total, &term, error);
        if (status != KN_OK) return status;
    }
    *result = total;
    return KN_OK;
}

static kn_status multiply_terms(const kn_dim_term *left, const kn_dim_term *right, kn_dim_term *result,
                                kn_error *error) {
    if (left->degree + right->degree > KN_DIM_DEGREE) return fail_complex(error);
    *result = (kn_dim_term){.degree = left->degree + right->degree};
    if (!kn_multiply_fits(left->coefficient, right->coefficient, &result->coefficient))
        return fail_overflow(error);
    int from_left = 0, from_right = 0;
    for (int i = 0; i < result->degree; i++) {
        bool take_left = from_right == right->degree ||
                         (from_left < left->degree && left->atoms[from_left] <= right->atoms[from_right]);
        result->atoms[i] = take_left ? left->atoms[from_left++] : right->atoms[from_right++];
    }
    return KN_OK;
}

static kn_status multiply_sums(const kn_dim_sum *left, const kn_dim_sum *right, kn_dim_sum *result,
                               kn_error *error) {
    result->count = 0;
    for (int i = 0; i < left->count; i++)
        for (int j = 0; j < right->count; j++) {
            kn_dim_term term;
            kn_status status = multiply_terms(&left->terms[i], &right->terms[j], &term, error);
            if (status == KN_OK) status = add_term(result, &term, error);
            if (status != KN_OK) return status;
        }
    return KN_OK;
}

static bool sum_is_number(const kn_dim_sum *sum, int64_t *number) {
    if (sum->count == 0)
        *number = 0;
    else if (sum->count == 1 && sum->terms[0].degree == 0)
        *number = sum->terms[0].coefficient;
    else
        return false;
    return true;
}

static kn_status finish_sum(kn_graph *graph, const kn_dim_sum *sum, kn_dim *result, kn_error *error) {
    int64_t number;
    if (sum_is_number(sum, &number) && number >= 0) {
        *result = number;
        return KN_OK;
    }
    return store(graph, sum, result, error);
}

/* ---- quotients ---------------------------------------------------------------------------------------- */

static int64_t greatest_divisor(int64_t left, int64_t right) {
    while (right != 0) {
        int64_t rest = left % right;
        left = right;
        right = rest;
    }
    return left;
}

/* Divides term by divisor if the term has all the divisor's atoms and its coefficient is a multiple. */
static bool divide_term(const kn_dim_term *term, const kn_dim_term *divisor, kn_dim_term *quotient) {
    /* INT64_MIN / -1 overflows. */
    if (term->coefficient == INT64_MIN || term->coefficient % divisor->coefficient != 0) return false;
    *quotient = (kn_dim_term){.coefficient = term->coefficient / divisor->coefficient};
    int used = 0;
    for (int i = 0; i < term->degree; i++) {
        if (used < divisor->degree && divisor->atoms[used] == term->atoms[i])
            used++;
        else
            quotient->atoms[quotient->degree++] = term->atoms[i];
    }
    return used == divisor->degree;
}

/* The number of atoms that evaluating or printing the sum visits. */
static int sum_weight(const kn_graph *graph, const kn_dim_sum *sum) {
    int weight = 0;
    for (int i = 0; i < sum->count; i++)
        for (int j = 0; j < sum->terms[i].degree; j++)
            weight += graph->dims->atoms[sum->terms[i].atoms[j]].weight;
    return weight;
}

/* Adds the atom floor(numerator / denominator) to the sum. */
static kn_status add_quotient(kn_graph *graph, kn_dim numerator, kn_dim denominator, kn_dim_sum *sum,
                              kn_error *error) {
    kn_dim_atom atom = {.numerator = numerator, .denominator = denominator, .weight = 1};
    int64_t key[3] = {0, numerator, denominator}; /* a symbol's bytes do not begin with 0 */
    for (int i = 1; i < 3; i++) {
        kn_dim_sum part;
        kn_dim_load(graph, key[i], &part);
        atom.weight += sum_weight(graph, &part);
    }
    if (atom.weight > KN_DIM_WEIGHT) return fail_complex(error);
    kn_dim_term term = {.coefficient = 1, .degree = 1};
    kn_status status = store_atom(graph, &atom, key, sizeof key, &term.atoms[0], error);
    return status == KN_OK ? add_term(sum, &term, error) : status;
}

/* Divides by a positive number. Multiples of it are moved out of the quotient, common factors cancel, and
 * nested quotients are combined: (2*n + 3) / 2 is n + 1, ((n + 1) / 2 + 1) / 2 is (n + 3) / 4. */
static kn_status divide_by_number(kn_graph *graph, const kn_dim_sum *left, int64_t divisor,
                                  kn_dim_sum *result, kn_error *error) {
    kn_dim_sum rest = {.count = 0};
    int64_t number = 0, common = divisor;
    result->count = 0;
    for (int i = 0; i < left->count; i++) {
        kn_dim_term whole = left->terms[i], part = left->terms[i];
        whole.coefficient = kn_floor_divide(whole.coefficient, divisor);
        part.coefficient -= whole.coefficient * divisor;
        kn_status status = add_term(result, &whole, error);
        if (status != KN_OK) return status;
        if (part.coefficient == 0) continue;
        if (part.degree == 0)
            number = part.coefficient;
        else {
            common = greatest_divisor(common, part.coefficient);
            rest.terms[rest.count++] = part;
        }
    }
    if (rest.count == 0) return KN_OK; /* the remainder is a number below the divisor */
    for (int i = 0; i < rest.count; i++)
        rest.terms[i].coefficient /= common;
    divisor /= common;
    number /= common;
    if (rest.count == 1 && rest.terms[0].degree == 1 && rest.terms[0].coefficient == 1) {
        const kn_dim_atom *inner = &graph->dims->atoms[rest.terms[0].atoms[0]];
        int64_t shift, product;
        if (!inner->symbol && kn_dim_known(inner->denominator) &&
            kn_multiply_fits(number, inner->denominator, &shift) &&
            kn_multiply_fits(divisor, inner->denominator, &product)) {
            kn_dim_sum numerator, joined, offset = {.count = 1, .terms = {{.coefficient = shift}}};
            kn_dim_load(graph, inner->numerator, &numerator);
            kn_status status = shift ? add_sums(&numerator, &offset, 1, &numerator, error) : KN_OK;
            if (status == KN_OK) status = divide_by_number(graph, &numerator, product, &joined, error);
            return status == KN_OK ? add_sums(result, &joined, 1, result, error) : status;
        }
    }
    if (number > 0) rest.terms[rest.count++] = (kn_dim_term){.coefficient = number};
    kn_dim numerator;
    kn_status status = store(graph, &rest, &numerator, error);
    return status == KN_OK ? add_quotient(graph, numerator, divisor, result, error) : status;
}

/* Divides by a sum if the division is exact, by repeatedly dividing the leading terms (highest degree first,
 * then the earliest atoms). The order of the leading term decreases each time, so the loop ends. False if
 * there is a remainder or the quotient exceeds the limits of sums. */
static bool divide_exactly(const kn_dim_sum *left, const kn_dim_sum *right, kn_dim_sum *result) {
    kn_error ignored = {0};
    kn_dim_sum rest = *left, part, quotient = {.count = 0}, one = {.count = 1};
    while (rest.count > 0) {
        if (!divide_term(&rest.terms[0], &right->terms[0], &one.terms[0]) ||
            multiply_sums(right, &one, &part, &ignored) != KN_OK ||
            add_sums(&rest, &part, -1, &rest, &ignored) != KN_OK ||
            add_term(&quotient, &one.terms[0], &ignored) != KN_OK)
            return false;
    }
    *result = quotient;
    return true;
}

static kn_status divide_sums(kn_graph *graph, const kn_dim_sum *left, const kn_dim_sum *right,
                             kn_dim_sum *result, kn_error *error) {
    int64_t number;
    const kn_dim_sum zero = {.count = 0};
    if (right->count == 0)
        return kn_fail(error, KN_ERROR_SHAPE, "a size is divided by zero; check strides and group counts");
    if (sum_is_number(right, &number)) {
        if (number > 0) return divide_by_number(graph, left, number, result, error);
        kn_dim_sum opposite;
        if (number == INT64_MIN) return fail_overflow(error);
        kn_status status = add_sums(&zero, left, -1, &opposite, error);
        return status == KN_OK ? divide_by_number(graph, &opposite, -number, result, error) : status;
    }
    result->count = 0;
    if (divide_exactly(left, right, result)) return KN_OK;
    /* Division by a product: move terms that contain it out of the quotient. */
    kn_dim_sum rest = {.count = 0};
    for (int i = 0; i < left->count; i++) {
        kn_dim_term quotient;
        kn_status status = KN_OK;
        if (right->count == 1 && divide_term(&left->terms[i], &right->terms[0], &quotient))
            status = add_term(result, &quotient, error);
        else
            rest.terms[rest.count++] = left->terms[i];
        if (status != KN_OK) return status;
    }
    if (rest.count == 0) return KN_OK;
    kn_dim numerator, denominator;
    kn_status status = finish_sum(graph, &rest, &numerator, error);
    if (status == KN_OK) status = finish_sum(graph, right, &denominator, error);
    return status == KN_OK ? add_quotient(graph, numerator, denominator, result, error) : status;
}

/* ---- operations ------------------------------------------------------------------------------ */

kn_status kn_dim_combine(kn_graph *graph, kn_dim_operation operation, kn_dim left, kn_dim right,
                         kn_dim *result, kn_error *error) {
    kn_dim_sum first, second, combined;
    kn_dim_load(graph, left, &first);
    kn_dim_load(graph, right, &second);
    kn_status status = KN_OK;
    switch (operation) {
    case KN_DIM_ADD:
        status = add_sums(&first, &second, 1, &combined, error);
        break;
    case KN_DIM_SUBTRACT:
        status = add_sums(&first, &second, -1, &combined, error);
        break;
    case KN_DIM_MULTIPLY:
        status = multiply_sums(&first, &second, &combined, error);
        break;
    case KN_DIM_DIVIDE:
        status = divide_sums(graph, &first, &second, &combined, error);
        break;
    }
    return status == KN_OK ? finish_sum(graph, &combined, result, error) : status;
}

kn_status kn_dim_name(kn_graph *graph, const char *name, size_t length, kn_dim *result, kn_error *error) {
    kn_dim_sum sum = {.count = 1, .terms = {{.coefficient = 1, .degree = 1}}};
    uintptr_t found = (uintptr_t)kn_map_get(&graph->dims->atom_index, name, length);
    if (found) {
        sum.terms[0].atoms[0] = (int)(found - 1);
        return store(graph, &sum, result, error);
    }
    char *copy = kn_arena_take(&graph->arena, length + 1, 1);
    if (!copy) return kn_fail_memory(error, length + 1);
    memcpy(copy, name, length);
    kn_dim_atom atom = {.symbol = copy, .weight = 1};
    kn_status status = store_atom(graph, &atom, name, length, &sum.terms[0].atoms[0], error);
    return status == KN_OK ? store(graph, &sum, result, error) : status;
}

static kn_dim combine_in(kn_graph *graph, kn_dim_operation operation, kn_dim left, kn_dim right) {
    kn_error error = {0};
    kn_dim result = 0;
    if (kn_dim_combine(graph, operation, left, right, &result, &error) == KN_OK) return result;
    kn_graph_fail_with(graph, &error);
    return 0;
}

kn_dim kn_dim_symbol(kn_graph *graph, const char *name) {
    return kn_dim_parse(graph, name, name ? strlen(name) : 0);
}

kn_dim kn_dim_add(kn_graph *graph, kn_dim left, kn_dim right) {
    return combine_in(graph, KN_DIM_ADD, left, right);
}

kn_dim kn_dim_subtract(kn_graph *graph, kn_dim left, kn_dim right) {
    return combine_in(graph, KN_DIM_SUBTRACT, left, right);
}

kn_dim kn_dim_multiply(kn_graph *graph, kn_dim left, kn_dim right) {
    return combine_in(graph, KN_DIM_MULTIPLY, left, right);
}

kn_dim kn_dim_divide(kn_graph *graph, kn_dim left, kn_dim right) {
    return combine_in(graph, KN_DIM_DIVIDE, left, right);
}

bool kn_dim_constant(const kn_graph *graph, kn_dim dim, int64_t *number) {
    if (kn_dim_known(dim)) {
        *number = dim;
        return true;
    }
    kn_dim_sum sum;
    kn_dim_load(graph, dim, &sum);
    return sum_is_number(&sum, number);
}
