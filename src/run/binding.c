/* Solves for symbols from bindings and from the sizes of feeds. */
#include <math.h>
#include <string.h>

#include "run/session_private.h"

static int find_input(const kn_session *session, const char *name) {
    for (int i = 0; i < session->input_count; i++)
        if (kn_input_is(session->inputs[i], name)) return i;
    return -1;
}

static bool is_unused(const kn_session *session, const char *name) {
    for (int i = 0; i < session->unused_count; i++)
        if (!strcmp(session->unused[i], name)) return true;
    return false;
}

/* A scale that is rounded or flushed to zero would give different results than on the host. */
static kn_status check_scale(kn_session *session, int input, double scale) {
    const kn_value *value = session->inputs[input];
    if (scale == 0) return KN_OK;
    if (value->shape.dtype != KN_FLOAT32)
        return kn_fail(&session->error, KN_ERROR_DTYPE,
                       "input '%s' is %s; only float32 inputs can be fed as bytes with a scale: set it to 0",
                       value->name, kn_dtype_name(value->shape.dtype));
    if (isnormal((float)scale)) return KN_OK;
    return kn_fail(&session->error, KN_ERROR_ARGUMENT,
                   "the scale of input '%s' is %g; expected a normal float32 number", value->name, scale);
}

/* The type in which an input is fed. */
static kn_dtype fed_dtype(const kn_session *session, int input) {
    return session->given[input].scale != 0 ? KN_UINT8 : session->inputs[input]->shape.dtype;
}

kn_status kn_session_take_feeds(kn_session *session, const kn_feed *feeds, size_t count, bool sizes_only) {
    kn_error *error = &session->error;
    if (count && !feeds) return kn_fail(error, KN_ERROR_ARGUMENT, "%zu feeds, but the list is NULL", count);
    for (int i = 0; i < session->input_count; i++) {
        kn_given *given = &session->given[i];
        if (!given->buffer) *given = (kn_given){.fed = false};
    }
    for (size_t i = 0; i < count; i++) {
        const kn_feed *feed = &feeds[i];
        if (!feed->name) return kn_fail(error, KN_ERROR_ARGUMENT, "feed %zu has no name", i);
        int input = find_input(session, feed->name);
        if (input < 0 && is_unused(session, feed->name)) continue;
        if (input < 0)
            return kn_session_fail_name(session, "input", feed->name, session->inputs,
                                        (size_t)session->input_count);
        kn_given *given = &session->given[input];
        if (given->fed) return kn_fail(error, KN_ERROR_ARGUMENT, "input '%s' is fed twice", feed->name);
        if (!feed->data && feed->bytes && !sizes_only)
            return kn_fail(error, KN_ERROR_ARGUMENT, "the data for input '%s' is NULL", feed->name);
        kn_status status = check_scale(session, input, feed->scale);
        if (status != KN_OK) return status;
        *given =
            (kn_given){.fed = true, .data = feed->data, .bytes = feed->bytes, .scale = (float)feed->scale};
    }
    return KN_OK;
}

/* ---- solving ------------------------------------------------------------------------------------------- */

static size_t gather_bindings(const kn_session *session, kn_binding *bindings) {
    size_t count = 0;
    for (int i = 0; i < session->symbol_count; i++)
        if (session->numbers[i] >= 0)
            bindings[count++] = (kn_binding){session->symbols[i], session->numbers[i]};
    return count;
}

/* *bytes: the size of an input; false if the known symbols do not determine it. */
static bool expected_bytes(const kn_session *session, int position, uint64_t *bytes) {
    const kn_value *input = session->inputs[position];
    kn_binding bindings[KN_SESSION_SYMBOLS];
    size_t count = gather_bindings(session, bindings);
    kn_tensor_info info = {.dtype = fed_dtype(session, position), .rank = input->shape.rank};
    for (int d = 0; d < info.rank; d++)
        if (kn_dim_evaluate(session->graph, input->shape.dims[d], bindings, count, &info.shape[d], NULL) !=
            KN_OK)
            return false;
    return kn_tensor_bytes(&info, bytes);
}

/* "batch = 32, length = 7" */
static void numbers_text(const kn_session *session, kn_text *text) {
    int written = 0;
    for (int i = 0; i < session->symbol_count; i++)
        if (session->numbers[i] >= 0)
            kn_text_format(text, "%s%s = %lld", written++ ? ", " : "", session->symbols[i],
                           (long long)session->numbers[i]);
}

static kn_status fail_size(kn_session *session, int position, uint64_t expected) {
    const kn_value *input = session->inputs[position];
    const kn_given *given = &session->given[position];
    kn_text shape, numbers;
    kn_text_init(&shape, &session->host);
    kn_text_init(&numbers, &session->host);
    kn_shape_text(session->graph, &input->shape, &shape);
    numbers_text(session, &numbers);
    kn_status status = kn_fail(
        &session->error, KN_ERROR_SHAPE, "input '%s' is %s%s%s%s: expected %llu bytes, got %llu", input->name,
        shape.data, given->scale != 0 ? ", fed as uint8," : "", numbers.data[0] ? " with " : "", numbers.data,
        (unsigned long long)expected, (unsigned long long)given->bytes);
    kn_text_finish(&shape);
    kn_text_finish(&numbers);
    return status;
}

/* Tries to solve for a symbol from the size of one input; returns whether it did. Stores a failure in
 * *problem. */
static bool solve_from_input(kn_session *session, int input, bool *failed, kn_error *problem) {
    const kn_value *value = session->inputs[input];
    const kn_given *given = &session->given[input];
    const kn_dtype dtype = fed_dtype(session, input);
    uint64_t size = kn_dtype_bytes(dtype);
    kn_binding bindings[KN_SESSION_SYMBOLS];
    size_t count = gather_bindings(session, bindings);
    const char *symbol = NULL;
    int64_t number = 0;
    kn_error error = {0};
    kn_status status;
    if (given->bytes % size)
        status = kn_fail(&error, KN_ERROR_SHAPE,
                         "%llu bytes is not a multiple of the size of %s elements (%llu bytes)",
                         (unsigned long long)given->bytes, kn_dtype_name(dtype), (unsigned long long)size);
    else
        status = kn_shape_solve(session->graph, &value->shape, (int64_t)(given->bytes / size), bindings,
                                count, &symbol, &number, &error);
    if (status != KN_OK) {
        *failed = true;
        *problem = error;
        kn_fail_in(problem, "input '%s'", value->name);
        return false;
    }
    for (int i = 0; i < session->symbol_count && symbol; i++)
        if (!strcmp(session->symbols[i], symbol)) {
            session->numbers[i] = number;
            return true;
        }
    return false;
}

/* Whether the feeds have the sizes from which the current numbers were solved. */
static bool is_unchanged(const kn_session *session) {
    if (!session->solved) return false;
    for (int i = 0; i < session->input_count; i++) {
        const kn_given *given = &session->given[i];
        if (session->solved_bytes[i] != (given->fed ? given->bytes : UINT64_MAX) ||
            session->scales[i] != given->scale)
            return false;
    }
    return true;
}

static kn_status solve(kn_session *session) {
    kn_error problem;
    bool failed, progress = true;
    while (progress) {
        progress = failed = false;
        for (int i = 0; i < session->input_count; i++) {
            uint64_t expected;
            if (!session->given[i].fed) continue;
            if (expected_bytes(session, i, &expected)) {
                if (expected != session->given[i].bytes) return fail_size(session, i, expected);
            } else {
                progress = solve_from_input(session, i, &failed, &problem) || progress;
            }
        }
    }
    return failed ? kn_fail(&session->error, problem.status, "%s", problem.text) : KN_OK;
}

kn_status kn_session_solve_symbols(kn_session *session) {
    if (is_unchanged(session)) return KN_OK;
    session->solved = false;
    session->current = NULL;
    for (int i = 0; i < session->symbol_count; i++)
        session->numbers[i] = session->bound[i];
    kn_status status = solve(session);
    if (status != KN_OK) return status;
    for (int i = 0; i < session->input_count; i++) {
        session->solved_bytes[i] = session->given[i].fed ? session->given[i].bytes : UINT64_MAX;
        session->scales[i] = session->given[i].scale;
    }
    session->solved = true;
    return KN_OK;
}

kn_status kn_session_bind(kn_session *session, const char *symbol, int64_t number) {
    kn_status status = kn_session_begin(session);
    if (status != KN_OK) return status;
    kn_error *error = &session->error;
    if (!symbol) return kn_fail(error, KN_ERROR_ARGUMENT, "the symbol to bind is NULL");
    if (number < 0)
        return kn_fail(error, KN_ERROR_ARGUMENT, "symbol '%s' was bound to %lld; expected 0 or more", symbol,
                       (long long)number);
    for (int i = 0; i < session->symbol_count; i++) {
        if (strcmp(session->symbols[i], symbol)) continue;
        if (session->bound[i] != number) session->solved = false;
        session->bound[i] = number;
        return KN_OK;
    }
    const char *nearest = kn_nearest_word(symbol, session->symbols, (size_t)session->symbol_count);
    return kn_fail(error, KN_ERROR_NOT_FOUND, "no shape in the session's graph has symbol '%s'%s%s%s", symbol,
                   nearest ? " (did you mean '" : "", nearest ? nearest : "", nearest ? "'?)" : "");
}
