/* Finds the first non-finite value of a step: parameters first, then results in graph order, then gradients
 * backwards. Works on a copy of the states, so that nothing changes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "train/trainer_private.h"

typedef struct finite_search {
    kn_trainer *trainer;
    kn_states *states; /* a copy */
    kn_value **values; /* the float32 results of the trainer's graph, in order, with the loss last */
    size_t count;
    kn_session *session;
    char *message;
    size_t size;
    bool found;
} finite_search;

static void gradient_name(char *name, size_t bytes, size_t position) {
    snprintf(name, bytes, "koine.gradient.%zu", position);
}

/* Extends the graph without updates: states keep their values, and the gradient of each result is assigned to
 * a state. */
static kn_status extend(void *user, kn_graph *bound, kn_value **values, size_t count, kn_error *error) {
    (void)user;
    size_t kept = 0;
    for (size_t i = 0; i < bound->node_count; i++)
        if (bound->nodes[i]->op->class != KN_CLASS_ASSIGN) {
            bound->nodes[kept] = bound->nodes[i];
            bound->nodes[kept]->id = (int)kept;
            kept++;
        }
    bound->node_count = kept;
    kn_value **gradients = kn_arena_take(&bound->arena, count + 1, sizeof *gradients);
    if (!gradients) return kn_fail_memory(error, count * sizeof *gradients);
    kn_status status = kn_graph_gradient(bound, values[count - 1], values, count, gradients, error);
    for (size_t i = 0; i < count && status == KN_OK; i++) {
        char name[48];
        gradient_name(name, sizeof name, i);
        if (gradients[i])
            kn_assign(bound, kn_state_add(bound, name, &gradients[i]->shape, KN_STATE_OPTIMIZER, NULL),
                      gradients[i]);
    }
    if (status == KN_OK && bound->error.status != KN_OK) status = kn_error_copy(error, &bound->error);
    return status;
}

/* The index of the first non-finite element, or -1. */
static int64_t first_bad(const float *numbers, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(numbers[i])) return i;
    return -1;
}

static void report(finite_search *search, const char *format, ...) KN_PRINTF(2, 3);
static void report(finite_search *search, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (search->size) vsnprintf(search->message, search->size, format, arguments);
    va_end(arguments);
    search->found = true;
}

static const char *word_for(float number) {
    return isnan(number) ? "NaN" : number > 0 ? "infinity" : "-infinity";
}

static kn_status copy_states(finite_search *search) {
    kn_trainer *trainer = search->trainer;
    for (size_t i = 0; i < kn_states_count(trainer->states); i++) {
        kn_tensor_info info;
        uint64_t bytes = 0;
        const char *name = kn_states_at(trainer->states, i, &info);
        if (!name || !kn_tensor_bytes(&info, &bytes)) continue;
        /* Only updates read distributed states. */
        uint64_t part;
        if (kn_states_part(trainer->states, name, &part)) continue;
        void *data = kn_allocate(&trainer->host, (size_t)bytes + 1, 1);
        if (!data) return kn_fail_memory(&trainer->error, (size_t)bytes);
        kn_status status = kn_states_get(trainer->states, name, data, (size_t)bytes);
        if (status != KN_OK) kn_fail(&trainer->error, status, "%s", kn_states_error(trainer->states));
        int64_t bad =
            status == KN_OK && info.dtype == KN_FLOAT32 ? first_bad(data, (int64_t)(bytes / 4)) : -1;
        if (bad >= 0 && !search->found)
            report(search,
                   "parameter '%s' has %s at element %lld before this step: an earlier update corrupted "
                   "it; try a lower learning rate or clipping",
                   name, word_for(((float *)data)[bad]), (long long)bad);
        if (status == KN_OK) {
            status = kn_states_set(search->states, name, &info, data, (size_t)bytes);
            if (status != KN_OK) kn_fail(&trainer->error, status, "%s", kn_states_error(search->states));
        }
        kn_release(&trainer->host, data);
        if (status != KN_OK) return status;
    }
    return KN_OK;
}

/* Lists the float32 results that the loss depends on, in order of computation, then the loss. */
static kn_status list_values(finite_search *search) {
    kn_trainer *trainer = search->trainer;
    const kn_graph *graph = trainer->loss->graph;
    bool *needed = kn_allocate(&trainer->host, graph->node_count + 1, sizeof *needed);
    search->values = kn_allocate(&trainer->host, graph->value_count + 1, sizeof *search->values);
    kn_status status = needed && search->values
                           ? kn_graph_needed(graph, trainer->loss, needed, &trainer->error)
                           : kn_fail_memory(&trainer->error, graph->value_count * sizeof *search->values);
    for (size_t i = 0; i < graph->node_count && status == KN_OK; i++) {
        const kn_node *node = graph->nodes[i];
        for (int k = 0; k < node->output_count - node->op->hidden && needed[i]; k++)
            if (node->outputs[k]->shape.dtype == KN_FLOAT32 && node->outputs[k] != trainer->loss)
                search->values[search->count++] = node->outputs[k];
    }
    if (status == KN_OK) search->values[search->count++] = trainer->loss;
    kn_release(&trainer->host, needed);
    return status;
}

/* Writes "; the input 'x' already holds NaN at element 3" if an input made `value` non-finite; ""
 * otherwise. */
static void describe_feeds(const kn_value *value, const kn_feed *feeds, size_t feed_count, char *text,
                           size_t bytes) {
    text[0] = 0;
    for (int i = 0; value->producer && i < value->producer->input_count && !text[0]; i++) {
        const kn_value *input = value->producer->inputs[i];
        if (!input || input->kind != KN_VALUE_INPUT || input->shape.dtype != KN_FLOAT32) continue;
        for (size_t f = 0; f < feed_count; f++) {
            /* Bytes with a scale are always finite. */
            if (!feeds[f].name || !feeds[f].data || feeds[f].scale != 0 || !kn_input_is(input, feeds[f].name))
                continue;
            int64_t bad = first_bad(feeds[f].data, (int64_t)(feeds[f].bytes / 4));
            if (bad >= 0)
                snprintf(text, bytes, "; input '%s' already has %s at element %lld", input->name,
                         word_for(((const float *)feeds[f].data)[bad]), (long long)bad);
        }
    }
}

/* Runs once and reports the first non-finite result. */
static kn_status look_at_results(finite_search *search, const kn_feed *feeds, size_t feed_count) {
    kn_trainer *trainer = search->trainer;
    kn_fetch *fetches = kn_allocate(&trainer->host, search->count, sizeof *fetches);
    if (!fetches) return kn_fail_memory(&trainer->error, search->count * sizeof *fetches);
    kn_status status = kn_session_compile(search->session, feeds, feed_count);
    for (size_t i = 0; i < search->count && status == KN_OK; i++) {
        kn_tensor_info info;
        uint64_t bytes = 0;
        fetches[i].name = search->values[i]->name;
        status = kn_session_info(search->session, fetches[i].name, &info);
        if (status == KN_OK && kn_tensor_bytes(&info, &bytes))
            fetches[i].data = kn_allocate(&trainer->host, (size_t)bytes + 1, 1);
        fetches[i].bytes = (size_t)bytes;
        if (status == KN_OK && !fetches[i].data) status = KN_ERROR_MEMORY;
    }
    if (status == KN_OK) status = kn_session_run(search->session, feeds, feed_count, fetches, search->count);
    if (status != KN_OK) kn_fail(&trainer->error, status, "%s", kn_session_error(search->session));
    for (size_t i = 0; i < search->count; i++) {
        int64_t bad = status == KN_OK && !search->found
                          ? first_bad(fetches[i].data, (int64_t)(fetches[i].bytes / 4))
                          : -1;
        const kn_value *value = search->values[i];
        char fed[200];
        if (bad >= 0) {
            describe_feeds(value, feeds, feed_count, fed, sizeof fed);
            report(search,
                   "'%s', the result of %s, is the first non-finite value: %s at element %lld of "
                   "%s%s",
                   value->name, value->producer ? value->producer->op->name : "an input",
                   word_for(((float *)fetches[i].data)[bad]), (long long)bad,
                   kn_shape_words(value->graph, &value->shape), fed);
        }
        kn_release(&trainer->host, fetches[i].data);
    }
    kn_release(&trainer->host, fetches);
    return status;
}

static kn_status look_at_gradients(finite_search *search) {
    kn_trainer *trainer = search->trainer;
    for (size_t i = search->count; i-- > 0 && !search->found;) {
        char name[48];
        kn_tensor_info info;
        uint64_t bytes = 0;
        gradient_name(name, sizeof name, i);
        if (kn_session_info(search->session, search->values[i]->name, &info) != KN_OK ||
            !kn_tensor_bytes(&info, &bytes))
            continue;
        float *data = kn_allocate(&trainer->host, (size_t)bytes + 1, 1);
        if (!data) return kn_fail_memory(&trainer->error, (size_t)bytes);
        /* Values that the loss does not depend on have no gradient. */
        bool there = kn_states_read(search->states, name, data, (size_t)bytes, NULL) == KN_OK;
        int64_t bad = there ? first_bad(data, (int64_t)(bytes / 4)) : -1;
        if (bad >= 0)
            report(search,
                   "all results are finite; going backwards, the gradient with respect to '%s' (%s) is the "
                   "first non-finite one: %s at element %lld",
                   search->values[i]->name,
                   search->values[i]->producer ? search->values[i]->producer->op->name : "input",
                   word_for(data[bad]), (long long)bad);
        kn_release(&trainer->host, data);
    }
    return KN_OK;
}

static kn_status look(finite_search *search, int64_t count, const kn_feed *feeds, size_t feed_count) {
    kn_trainer *trainer = search->trainer;
    search->states = kn_states_create(trainer->context, trainer->running.seed);
    if (!search->states) return kn_fail_memory(&trainer->error, 1024);
    kn_status status = copy_states(search);
    if (status != KN_OK || search->found) return status;
    status = list_values(search);
    if (status != KN_OK) return status;
    kn_session_params running = trainer->running;
    running.states = search->states;
    running.training = true;
    running.memory_bytes = 0;
    running.progress = (kn_progress){0};
    kn_session_request request = {.context = trainer->context,
                                  .values = search->values,
                                  .count = search->count,
                                  .params = &running,
                                  .extend = extend};
    search->session = kn_session_open(&request);
    status = kn_session_status(search->session);
    if (status == KN_OK) status = kn_session_bind(search->session, "batch", count);
    if (status == KN_ERROR_NOT_FOUND) status = KN_OK; /* all sizes are fixed */
    if (status != KN_OK)
        return kn_fail(&trainer->error, status, "%s",
                       search->session ? kn_session_error(search->session) : "out of host memory");
    status = look_at_results(search, feeds, feed_count);
    return status == KN_OK && !search->found ? look_at_gradients(search) : status;
}

/* Searches these samples. */
static kn_status look_once(finite_search *search, int64_t count, const kn_feed *feeds, size_t feed_count) {
    kn_status status = look(search, count, feeds, feed_count);
    kn_session_destroy(&search->session);
    kn_states_destroy(&search->states);
    kn_release(&search->trainer->host, search->values);
    search->values = NULL;
    search->count = 0;
    return status;
}

/* Searches the parts of a step one after the other, since a batch may not fit into memory. */
static kn_status look_at_parts(finite_search *search, int64_t count, const kn_feed *feeds,
                               size_t feed_count) {
    kn_trainer *trainer = search->trainer;
    const uint64_t most = trainer->params.micro_batch, all = count > 0 ? (uint64_t)count : 0;
    if (!most || most >= all) return look_once(search, count, feeds, feed_count);
    kn_status status = KN_OK;
    for (uint64_t first = 0; first < all && status == KN_OK && !search->found; first += most) {
        const uint64_t own = all - first < most ? all - first : most;
        kn_feed_list list = {feeds, feed_count};
        status = kn_cut_feeds(trainer, all, first, own, &list);
        if (status == KN_OK) status = look_once(search, (int64_t)own, list.feeds, list.count);
    }
    return status;
}

kn_status kn_trainer_find_not_finite(kn_trainer *trainer, int64_t count, const kn_feed *feeds,
                                     size_t feed_count, char *message, size_t size) {
    if (!trainer) return KN_ERROR_MEMORY;
    if (trainer->made != KN_OK) return trainer->made;
    kn_error_clear(&trainer->error);
    if (size && !message) return kn_fail(&trainer->error, KN_ERROR_ARGUMENT, "the message buffer is NULL");
    finite_search search = {.trainer = trainer, .message = message, .size = size};
    if (size) message[0] = 0;
    kn_status status = look_at_parts(&search, count, feeds, feed_count);
    if (status == KN_OK && !search.found)
        status = kn_fail(&trainer->error, KN_ERROR_NOT_FOUND, "every value of this step is finite");
    return status;
}
