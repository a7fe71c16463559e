/* Arrays of a runner: for graphs, for sessions, and kept from the last run. */
#include "models/runner_private.h"

/* SMALL: the most elements of an input of integers, such as a shape, whose values a graph may be built for.
 * SYMBOL_BYTES: room for an open size, whose name Koine limits to 201 characters. */
enum { SMALL = 64, SYMBOL_BYTES = 256 };

size_t kn_runner_bytes(const kn_tensor_info *info) {
    uint64_t bytes = 0;
    return kn_tensor_bytes(info, &bytes) ? (size_t)bytes : 0;
}

void kn_runner_release_arrays(const kn_runner *runner, kn_runner_array *results, size_t count) {
    for (size_t i = 0; results && i < count; i++)
        kn_release(&runner->host, results[i].data);
    kn_release(&runner->host, results);
}

/* ---- kept elements ------------------------------------------------------------ */

/* Elements as kn_runner_constant describes them: they are counted, and written or compared. */
typedef struct element_bytes {
    size_t count;
    char *to;                       /* NULL: not written */
    const kn_runner_constant *with; /* NULL: not compared */
    bool differs;
} element_bytes;

static void put_bytes(element_bytes *own, const void *from, size_t count) {
    if (own->to && count) memcpy(own->to + own->count, from, count);
    if (own->with && !own->differs)
        own->differs = count > own->with->bytes - own->count ||
                       (count && memcmp(own->with->data + own->count, from, count) != 0);
    own->count += count;
}

static void put_elements(element_bytes *own, const kn_model_given *given) {
    uint64_t count = 0;
    for (size_t i = 0; !given->data && !given->texts && i < given->element_count; i++) {
        put_bytes(own, &given->elements[i].info, sizeof given->elements[i].info);
        put_elements(own, &given->elements[i]);
    }
    if (!given->texts) {
        if (given->data) put_bytes(own, given->data, kn_runner_bytes(&given->info));
        return;
    }
    kn_tensor_elements(&given->info, &count);
    for (uint64_t i = 0; i < count; i++)
        put_bytes(own, given->texts[i], strlen(given->texts[i]) + 1);
}

static bool is_list(const kn_model_given *given) {
    return !given->data && !given->texts;
}

kn_runner_constant *kn_runner_copy_elements(const kn_runner *runner, const kn_model_given *given) {
    element_bytes size = {.count = 0}, written = {.count = 0};
    put_elements(&size, given);
    kn_runner_constant *copy = kn_allocate(&runner->host, sizeof *copy + size.count, 1);
    if (!copy) return NULL;
    *copy = (kn_runner_constant){.bytes = size.count, .list = is_list(given)};
    written.to = copy->data;
    put_elements(&written, given);
    return copy;
}

bool kn_runner_same_elements(const kn_model_given *given, const kn_runner_constant *value) {
    element_bytes compared = {.with = value};
    if (value->list != is_list(given)) return false;
    put_elements(&compared, given);
    return !compared.differs && compared.count == value->bytes;
}

/* ---- for graphs and sessions ------------------------------------------------------------ */

const kn_model_given *kn_runner_find_given(const kn_runner *runner, const kn_model_given *given, size_t count,
                                           const char *name) {
    const char *first = kn_model_input_name_at(runner->opened, 0);
    for (size_t i = 0; i < count; i++) {
        const char *own = given[i].name;
        if (own && *own ? !strcmp(own, name) : first && !strcmp(first, name)) return &given[i];
    }
    return NULL;
}

static const kn_runner_array *find_result(const kn_runner_array *results, size_t count, const char *name) {
    for (size_t i = 0; results && i < count; i++)
        if (results[i].name && !strcmp(results[i].name, name)) return &results[i];
    return NULL;
}

/* Binds the open sizes of an input, which its bytes may not determine. */
static kn_status bind_sizes(kn_runner *runner, kn_session *session, const kn_value *input,
                            const kn_tensor_info *info) {
    char text[KN_MAX_RANK * SYMBOL_BYTES];
    if (kn_value_shape_text(input, text, sizeof text) >= sizeof text)
        return kn_fail(&runner->error, KN_ERROR_UNSUPPORTED, "the sizes of input '%.100s' are too long",
                       kn_value_name(input));
    char *symbol = text;
    for (int i = 0; i < info->rank; i++) {
        char *end = symbol + strcspn(symbol, ","), *next = *end ? end + 1 : end;
        *end = 0;
        const kn_status status =
            kn_value_dimension(input, i) >= 0 ? KN_OK : kn_session_bind(session, symbol, info->shape[i]);
        if (status != KN_OK && status != KN_ERROR_NOT_FOUND) /* no output may depend on it */
            return kn_fail(&runner->error, status, "%s", kn_session_error(session));
        symbol = next;
    }
    return KN_OK;
}

kn_status kn_runner_fill_feeds(kn_runner *runner, const kn_model *model, kn_session *session,
                               const kn_model_given *given, size_t count, const kn_runner_array *more,
                               size_t more_count, kn_feed *feeds) {
    for (size_t i = 0; i < kn_model_input_count(model); i++) {
        const char *name = kn_model_input_name_at(model, i);
        const kn_value *input = kn_model_input_at(model, i);
        const kn_model_given *own = kn_runner_find_given(runner, given, count, name);
        const kn_runner_array *found = own ? NULL : find_result(more, more_count, name);
        for (size_t k = 0; !own && !found && k < runner->part_count; k++)
            found = find_result(runner->parts[k].results, runner->parts[k].result_count, name);
        if (!own && !found)
            return kn_fail(&runner->error, KN_ERROR_ARGUMENT, "the array for input '%.100s' is missing",
                           name);
        const kn_tensor_info *info = own ? &own->info : &found->info;
        feeds[i] = (kn_feed){kn_value_name(input), own ? own->data : found->data, kn_runner_bytes(info)};
        const kn_status status = bind_sizes(runner, session, input, info);
        if (status != KN_OK) return status;
    }
    return KN_OK;
}

/* Whether the values of an input are likely to be sizes, axes or choices, which rarely change. */
static bool is_setting(const kn_tensor_info *info) {
    uint64_t elements = 0;
    return !kn_dtype_is_float(info->dtype) && kn_tensor_elements(info, &elements) && elements <= SMALL;
}

bool kn_runner_is_input(const kn_runner *runner, const kn_model *model, const kn_model_given *given) {
    for (size_t i = 0; i < kn_model_input_count(model); i++)
        if (kn_runner_find_given(runner, given, 1, kn_model_input_name_at(model, i))) return true;
    return false;
}

kn_model_given *kn_runner_arrays(kn_runner *runner, size_t parts, const kn_model_given *given,
                                 size_t given_count, const kn_runner_array *more, size_t more_count,
                                 size_t *count) {
    size_t results = more_count;
    for (size_t i = 0; i < parts; i++)
        results += runner->parts[i].result_count;
    kn_model_given *arrays = kn_allocate(&runner->host, given_count + results + 1, sizeof *arrays);
    if (!arrays) {
        kn_fail_memory(&runner->error, 0);
        return NULL;
    }
    for (size_t i = 0; i < given_count; i++) {
        arrays[i] = given[i];
        if (!runner->inputs[i].known && !is_setting(&given[i].info) &&
            kn_runner_is_input(runner, runner->opened, &given[i]))
            arrays[i].data = NULL;
    }
    *count = given_count;
    for (size_t i = 0; i < parts; i++) {
        const kn_runner_part *own = &runner->parts[i];
        for (size_t k = 0; k < own->result_count; k++) {
            const kn_runner_array *from = &own->results[k];
            if (from->name && *from->name)
                arrays[(*count)++] = (kn_model_given){
                    .name = from->name, .info = from->info, .data = own->loop ? NULL : from->data};
        }
    }
    for (size_t i = 0; i < more_count; i++)
        arrays[(*count)++] = (kn_model_given){.name = more[i].name, .info = more[i].info};
    return arrays;
}
