/* Evaluating dimensions once symbols are bound; comparing and broadcasting shapes. */
#include <inttypes.h>
#include <string.h>

#include "graph/graph_private.h"

/* ---- evaluation ----------------------------------------------------------------------------------- */

static kn_status symbol_number(const char *symbol, const kn_binding *bindings, size_t count, int64_t *number,
                               kn_error *error) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(bindings[i].symbol, symbol) == 0) {
            *number = bindings[i].value;
            return KN_OK;
        }
    return kn_fail(error, KN_ERROR_NOT_FOUND, "size '%s' is not bound; bind it, or feed an input that has it",
                   symbol);
}

static kn_status fail_overflow(const kn_graph *graph, kn_dim dim, kn_error *error) {
    kn_text text;
    kn_text_init(&text, &graph->host);
    kn_dim_text(graph, dim, &text);
    kn_status status = kn_fail(error, KN_ERROR_SHAPE, "the size %s exceeds 64 bits", text.data);
    kn_text_finish(&text);
    return status;
}

static kn_status atom_number(const kn_graph *graph, int position, const kn_binding *bindings, size_t count,
                             int64_t *number, kn_error *error) {
    const kn_dim_atom *atom = &graph->dims->atoms[position];
    if (atom->symbol) return symbol_number(atom->symbol, bindings, count, number, error);
    int64_t numerator, denominator;
    kn_status status = kn_dim_number(graph, atom->numerator, bindings, count, &numerator, error);
    if (status == KN_OK)
        status = kn_dim_number(graph, atom->denominator, bindings, count, &denominator, error);
    if (status != KN_OK) return status;
    if (denominator == 0) return kn_fail(error, KN_ERROR_SHAPE, "division of a size by a size that is 0");
    if (denominator < 0) {
        if (numerator == INT64_MIN || denominator == INT64_MIN)
            return fail_overflow(graph, atom->numerator, error);
        numerator = -numerator;
        denominator = -denominator;
    }
    *number = kn_floor_divide(numerator, denominator);
    return KN_OK;
}

kn_status kn_dim_number(const kn_graph *graph, kn_dim dim, const kn_binding *bindings, size_t count,
                        int64_t *number, kn_error *error) {
    if (kn_dim_known(dim)) {
        *number = dim;
        return KN_OK;
    }
    kn_dim_sum sum;
    kn_dim_load(graph, dim, &sum);
    int64_t total = 0;
    for (int i = 0; i < sum.count; i++) {
        int64_t product = sum.terms[i].coefficient;
        for (int j = 0; j < sum.terms[i].degree; j++) {
            int64_t factor = 0;
            kn_status status = atom_number(graph, sum.terms[i].atoms[j], bindings, count, &factor, error);
            if (status != KN_OK) return status;
            if (!kn_multiply_fits(product, factor, &product)) return fail_overflow(graph, dim, error);
        }
        if (!kn_add_fits(total, product, &total)) return fail_overflow(graph, dim, error);
    }
    *number = total;
    return KN_OK;
}

kn_status kn_dim_evaluate(const kn_graph *graph, kn_dim dim, const kn_binding *bindings, size_t count,
                          int64_t *number, kn_error *error) {
    int64_t value = 0;
    kn_status status = kn_dim_number(graph, dim, bindings, count, &value, error);
    if (status != KN_OK) return status;
    if (value < 0) {
        kn_text text;
        kn_text_init(&text, &graph->host);
        kn_dim_text(graph, dim, &text);
        status = kn_fail(error, KN_ERROR_SHAPE, "the size %s would be %" PRId64 "; a size cannot be negative",
                         text.data, value);
        kn_text_finish(&text);
        return status;
    }
    *number = value;
    return KN_OK;
}

bool kn_dim_has(const kn_graph *graph, kn_dim dim, const char *symbol) {
    if (kn_dim_known(dim)) return false;
    kn_dim_sum sum;
    kn_dim_load(graph, dim, &sum);
    for (int i = 0; i < sum.count; i++)
        for (int j = 0; j < sum.terms[i].degree; j++) {
            const kn_dim_atom *atom = &graph->dims->atoms[sum.terms[i].atoms[j]];
            if (atom->symbol ? !strcmp(atom->symbol, symbol)
                             : kn_dim_has(graph, atom->numerator, symbol) ||
                                   kn_dim_has(graph, atom->denominator, symbol))
                return true;
        }
    return false;
}

static kn_status translate_atom(const kn_graph *from, int position, kn_graph *to, kn_dim *result,
                                kn_error *error) {
    const kn_dim_atom *atom = &from->dims->atoms[position];
    if (atom->symbol) return kn_dim_name(to, atom->symbol, strlen(atom->symbol), result, error);
    kn_dim numerator = 0, denominator = 0;
    kn_status status = kn_dim_translate(from, atom->numerator, to, &numerator, error);
    if (status == KN_OK) status = kn_dim_translate(from, atom->denominator, to, &denominator, error);
    if (status == KN_OK) status = kn_dim_combine(to, KN_DIM_DIVIDE, numerator, denominator, result, error);
    return status;
}

kn_status kn_dim_translate(const kn_graph *from, kn_dim dim, kn_graph *to, kn_dim *result, kn_error *error) {
    int64_t number;
    if (kn_dim_known(dim)) {
        *result = dim;
        return KN_OK;
    }
    kn_dim_sum sum;
    kn_dim_load(from, dim, &sum);
    kn_dim total = 0;
    kn_status status = KN_OK;
    for (int i = 0; status == KN_OK && i < sum.count; i++) {
        kn_dim product = 1;
        for (int j = 0; status == KN_OK && j < sum.terms[i].degree; j++) {
            kn_dim factor = 0;
            status = translate_atom(from, sum.terms[i].atoms[j], to, &factor, error);
            if (status == KN_OK)
                status = kn_dim_combine(to, KN_DIM_MULTIPLY, product, factor, &product, error);
        }
        /* A coefficient may be negative: then subtract its opposite. */
        number = sum.terms[i].coefficient;
        if (status == KN_OK && number == INT64_MIN)
            status = kn_fail(error, KN_ERROR_SHAPE, "a size exceeds 64 bits");
        if (status == KN_OK)
            status =
                kn_dim_combine(to, KN_DIM_MULTIPLY, product, number < 0 ? -number : number, &product, error);
        if (status == KN_OK)
            status =
                kn_dim_combine(to, number < 0 ? KN_DIM_SUBTRACT : KN_DIM_ADD, total, product, &total, error);
    }
    if (status == KN_OK) *result = total;
    return status;
}

/* ---- shapes ----------------------------------------------------------------------------------------- */

bool kn_shape_broadcast(kn_graph *graph, const kn_shape *left, const kn_shape *right, kn_shape *result) {
    (void)graph;
    kn_shape common = {.dtype = left->dtype, .rank = left->rank > right->rank ? left->rank : right->rank};
    for (int i = 1; i <= common.rank; i++) {
        kn_dim a = i <= left->rank ? left->dims[left->rank - i] : 1;
        kn_dim b = i <= right->rank ? right->dims[right->rank - i] : 1;
        if (a != b && a != 1 && b != 1) return false;
        common.dims[common.rank - i] = a == 1 ? b : a;
    }
    *result = common;
    return true;
}

bool kn_shape_same(const kn_shape *left, const kn_shape *right) {
    if (left->rank != right->rank) return false;
    for (int i = 0; i < left->rank; i++)
        if (left->dims[i] != right->dims[i]) return false;
    return true;
}

int64_t kn_shape_elements(const kn_shape *shape) {
    kn_tensor_info info = {.dtype = shape->dtype, .rank = shape->rank};
    /* expressions are negative and refused */
    for (int i = 0; i < shape->rank; i++)
        info.shape[i] = shape->dims[i];
    uint64_t elements;
    return kn_tensor_elements(&info, &elements) ? (int64_t)elements : -1;
}

/* ---- finding a symbol from a number of elements --------------------------------------------- */

enum { MAX_BINDINGS = 32 };

/* The only unbound symbol in `dim`; NULL if there is none. Sets *several if there are two. */
static void find_open_symbol(const kn_graph *graph, kn_dim dim, const kn_binding *bindings, size_t count,
                             const char **open, bool *several) {
    if (kn_dim_known(dim)) return;
    kn_dim_sum sum;
    kn_dim_load(graph, dim, &sum);
    for (int i = 0; i < sum.count; i++)
        for (int j = 0; j < sum.terms[i].degree; j++) {
            const kn_dim_atom *atom = &graph->dims->atoms[sum.terms[i].atoms[j]];
            int64_t number;
            if (!atom->symbol) {
                find_open_symbol(graph, atom->numerator, bindings, count, open, several);
                find_open_symbol(graph, atom->denominator, bindings, count, open, several);
            } else if (symbol_number(atom->symbol, bindings, count, &number, NULL) != KN_OK) {
                if (*open && strcmp(*open, atom->symbol) != 0) *several = true;
                *open = atom->symbol;
            }
        }
}

/* The number of elements with the given bindings; -1 if a size is negative, INT64_MAX if it exceeds 64
 * bits. */
static int64_t elements_with(const kn_graph *graph, const kn_shape *shape, const kn_binding *bindings,
                             size_t count) {
    int64_t product = 1;
    bool empty = false, large = false;
    for (int i = 0; i < shape->rank; i++) {
        int64_t number = 0;
        if (kn_dim_number(graph, shape->dims[i], bindings, count, &number, NULL) != KN_OK)
            large = true;
        else if (number < 0)
            return -1;
        else if (number == 0)
            empty = true;
        else if (!kn_multiply_fits(product, number, &product))
            large = true;
    }
    return large ? INT64_MAX : empty ? 0 : product;
}

kn_status kn_shape_solve(const kn_graph *graph, const kn_shape *shape, int64_t elements,
                         const kn_binding *bindings, size_t count, const char **symbol, int64_t *number,
                         kn_error *error) {
    const char *open = NULL;
    bool several = false;
    *symbol = NULL;
    if (count >= MAX_BINDINGS)
        return kn_fail(error, KN_ERROR_UNSUPPORTED, "more than %d symbols", MAX_BINDINGS - 1);
    for (int i = 0; i < shape->rank; i++)
        find_open_symbol(graph, shape->dims[i], bindings, count, &open, &several);
    kn_text words;
    kn_text_init(&words, &graph->host);
    kn_shape_text(graph, shape, &words);
    kn_status status = KN_OK;
    if (several)
        status =
            kn_fail(error, KN_ERROR_SHAPE,
                    "%s has several unbound sizes, including '%s'; bind all except one", words.data, open);
    kn_binding all[MAX_BINDINGS];
    if (count) memcpy(all, bindings, count * sizeof *all);
    size_t used = count;
    if (status == KN_OK && open) {
        /* The number of elements increases with the symbol: bisect. */
        int64_t low = 0, high = INT64_MAX / 4;
        used = count + 1;
        while (low < high) {
            int64_t middle = low + (high - low) / 2;
            all[count] = (kn_binding){open, middle};
            if (elements_with(graph, shape, all, used) < elements)
                low = middle + 1;
            else
                high = middle;
        }
        all[count] = (kn_binding){open, low};
        *symbol = open;
        *number = low;
    }
    if (status == KN_OK && elements_with(graph, shape, all, used) != elements) {
        if (open)
            status = kn_fail(error, KN_ERROR_SHAPE, "%s: no value of '%s' gives %" PRId64 " elements",
                             words.data, open, elements);
        else
            status = kn_fail(error, KN_ERROR_SHAPE, "%s: expected %" PRId64 " elements, found %" PRId64,
                             words.data, elements_with(graph, shape, all, used), elements);
        *symbol = NULL;
    }
    kn_text_finish(&words);
    return status;
}
