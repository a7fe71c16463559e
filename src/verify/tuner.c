/* The tuner: collects the shapes of plans, lists their candidates, and manages stored results. tune.c
 * measures. */
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "verify/tuner_private.h"

/* ---- life ---------------------------------------------------------------------------------------------- */

kn_tuner *kn_tuner_create(kn_context *context) {
    if (!context || kn_context_status(context) != KN_OK || kn_context_tuner(context)) return NULL;
    const kn_host *host = kn_context_host(context);
    kn_tuner *tuner = kn_allocate(host, 1, sizeof *tuner);
    if (!tuner) return NULL;
    tuner->host = *host;
    tuner->context = context;
    kn_context_set_tuner(context, tuner);
    return tuner;
}

static void release(kn_tuner *tuner, kn_tuner_node *node) {
    kn_release(&tuner->host, node->key);
    kn_release(&tuner->host, node->name);
    kn_release(&tuner->host, node->candidates);
    kn_release(&tuner->host, node);
}

void kn_tuner_destroy(kn_tuner **handle) {
    if (!handle || !*handle) return;
    kn_tuner *tuner = *handle;
    kn_host host = tuner->host;
    *handle = NULL;
    kn_context_set_tuner(tuner->context, NULL);
    for (size_t i = 0; i < tuner->count; i++)
        release(tuner, tuner->nodes[i]);
    kn_release(&host, tuner->nodes);
    kn_release(&host, tuner);
}

const char *kn_tuner_error(const kn_tuner *tuner) {
    return tuner ? tuner->error.text : "the tuner is NULL";
}

/* ---- the shapes of plans --------------------------------------------------------------------------- */

/* "conv2d float32 32,64,56,56; 64,64,3,3": types where they change. */
static char *name_node(const kn_tuner *tuner, const kn_node_spec *node) {
    kn_text text;
    kn_dtype last = KN_BOOL;
    kn_text_init(&text, &tuner->host);
    kn_text_add(&text, node->row->name);
    for (int i = 0; i < node->input_count; i++) {
        const kn_shape *shape = &node->shapes[i];
        kn_text_add(&text, i ? "; " : " ");
        if (!node->given[i]) {
            kn_text_add(&text, "-");
            continue;
        }
        if (!i || shape->dtype != last) kn_text_format(&text, "%s ", kn_dtype_name(shape->dtype));
        last = shape->dtype;
        if (!shape->rank) kn_text_add(&text, "scalar");
        for (int d = 0; d < shape->rank; d++)
            kn_text_format(&text, "%s%lld", d ? "," : "", (long long)shape->dims[d]);
    }
    return kn_text_take(&text);
}

void kn_tuner_note(void *device, const kn_tuning *tuning, const kn_variant *chosen) {
    kn_tuner *tuner = kn_context_tuner(device);
    char key[KN_TUNED_KEY];
    kn_node_spec spec;
    if (!tuner || tuning->node->op->variant_count < 2 || tuning->node->input_count > KN_TRIAL_INPUTS) return;
    kn_node_spec_of(tuning->node, &spec);
    if (!kn_tuned_key(device, &spec, tuning->kept, tuning->target->fast_math, key)) return;
    for (size_t i = 0; i < tuner->count; i++)
        if (!strcmp(tuner->nodes[i]->key, key)) {
            tuner->nodes[i]->nodes++;
            return;
        }
    kn_tuner_node *node = kn_allocate(&tuner->host, 1, sizeof *node);
    bool room = node && kn_reserve(&tuner->host, (void **)&tuner->nodes, &tuner->capacity, tuner->count + 1,
                                   sizeof *tuner->nodes);
    if (room) {
        *node = (kn_tuner_node){.node = spec,
                                .kept = tuning->kept,
                                .fast = tuning->target->fast_math,
                                .untuned = chosen,
                                .nodes = 1,
                                .key = kn_copy_text(&tuner->host, key),
                                .name = name_node(tuner, &spec)};
        room = node->key && node->name;
    }
    if (room)
        tuner->nodes[tuner->count++] = node;
    else if (node)
        release(tuner, node);
    tuner->failed = tuner->failed || !room;
}

/* ---- candidates -------------------------------------------------------------------------------------- */

/* The last variant of a row, which is plain, and the smallest tile are so slow that they are not candidates
 * for more work than this: one launch may take seconds. */
enum { MAX_SLOW_FLOPS = 200000000 };

static void add_candidate(kn_tuner_node *shape, const kn_variant *variant, int tile, uint64_t programs) {
    if (shape->candidate_count == KN_TUNER_CANDIDATES) return;
    kn_candidate *candidate = &shape->candidates[shape->candidate_count++];
    *candidate = (kn_candidate){.variant = variant, .tile = tile, .programs = programs};
    kn_kernel_name(variant, tile, candidate->name);
}

static int count_tiles(void) {
    char name[KN_TILE_NAME];
    int count = 0;
    while (kn_product_tile_name(count + 1, name))
        count++;
    return count;
}

/* Adds a variant, and the variant with each of the `tiles` tiles that changes the programs. */
static void add_variant(kn_tuner *tuner, kn_tuner_node *shape, const kn_node *node, const kn_variant *variant,
                        int tiles) {
    uint64_t seen[KN_TUNER_CANDIDATES], programs = 0;
    int count = 0;
    if (kn_node_programs(tuner->context, node, variant, 0, &programs, NULL) != KN_OK) return;
    add_candidate(shape, variant, 0, seen[count++] = programs);
    for (int tile = 1; tile <= tiles && programs; tile++) {
        uint64_t other = 0;
        if (kn_node_programs(tuner->context, node, variant, tile, &other, NULL) != KN_OK) continue;
        int known = 0;
        while (known < count && seen[known] != other)
            known++;
        if (known < count || count == KN_TUNER_CANDIDATES) continue;
        add_candidate(shape, variant, tile, seen[count++] = other);
    }
}

/* Whether a variant promises the planner's passes the same as the untuned one: with different layouts and
 * statistics, its gain would be lost in conversions and passes around it, which are not measured. */
static bool keeps_promises(const kn_variant *variant, const kn_variant *untuned) {
    const kn_promise *own = &variant->promise, *given = &untuned->promise;
    return own->any == given->any && !memcmp(own->inputs, given->inputs, sizeof own->inputs) &&
           !memcmp(own->outputs, given->outputs, sizeof own->outputs) && own->gathers >= given->gathers &&
           own->takes_statistics >= given->takes_statistics && own->fusible >= given->fusible &&
           (own->fuses || !given->fuses);
}

static bool may_compute(const kn_tuner_node *shape, const kn_target *target, const kn_node *node,
                        const kn_variant *variant) {
    return keeps_promises(variant, shape->untuned) && (!variant->choice.fast || shape->fast) &&
           (!variant->choice.prepares || shape->kept) &&
           (!variant->choice.accepts || variant->choice.accepts(target, node));
}

/* Lists the candidates, in the order of the row, and predicts the time of the direct method. */
static bool list_candidates(kn_tuner *tuner, kn_tuner_node *shape) {
    kn_graph_params params = {.size = sizeof params, .allocator = tuner->host.allocator};
    kn_value *inputs[KN_TRIAL_INPUTS] = {NULL};
    kn_target target;
    double flops, bytes;
    kn_cost cost;
    shape->candidates = kn_allocate(&tuner->host, KN_TUNER_CANDIDATES, sizeof *shape->candidates);
    kn_graph *graph = kn_graph_create(&params);
    kn_node *node = graph && shape->candidates ? kn_node_spec_add(&shape->node, graph, inputs) : NULL;
    bool memory = graph && shape->candidates && graph->error.status != KN_ERROR_MEMORY;
    if (node) {
        kn_target_of(tuner->context, &target);
        target.fast_math = shape->fast;
        kn_node_cost(node, &cost);
        const int slow = cost.flops > MAX_SLOW_FLOPS, tiles = target.wide_vector ? 0 : count_tiles() - slow;
        add_variant(tuner, shape, node, shape->untuned, tiles);
        for (int i = 0; i < node->op->variant_count - slow; i++) {
            const kn_variant *variant = &node->op->variants[i];
            if (variant != shape->untuned && may_compute(shape, &target, node, variant))
                add_variant(tuner, shape, node, variant, tiles);
        }
        kn_context_slow_speed(tuner->context, false, &flops, &bytes);
        shape->seconds = shape->nodes *
                         (cost.flops / flops > cost.bytes / bytes ? cost.flops / flops : cost.bytes / bytes);
    }
    kn_graph_destroy(&graph);
    return memory;
}

static int by_seconds(const void *left, const void *right) {
    const kn_tuner_node *a = *(kn_tuner_node *const *)left, *b = *(kn_tuner_node *const *)right;
    return a->seconds != b->seconds ? (a->seconds < b->seconds ? 1 : -1) : strcmp(a->key, b->key);
}

size_t kn_tuner_shape_count(kn_tuner *tuner) {
    if (!tuner) return 0;
    for (size_t i = tuner->listed; i < tuner->count; i++)
        if (!list_candidates(tuner, tuner->nodes[i])) tuner->failed = true;
    if (tuner->listed < tuner->count) {
        size_t kept = 0;
        tuner->predicted = 0;
        for (size_t i = 0; i < tuner->count; i++) {
            if (tuner->nodes[i]->candidate_count < 2) {
                release(tuner, tuner->nodes[i]);
                continue;
            }
            tuner->predicted += tuner->nodes[i]->seconds;
            tuner->nodes[kept++] = tuner->nodes[i];
        }
        tuner->count = tuner->listed = kept;
        if (kept) qsort(tuner->nodes, kept, sizeof *tuner->nodes, by_seconds);
    }
    if (tuner->failed) kn_fail_memory(&tuner->error, 0);
    return tuner->count;
}

kn_tuner_node *kn_tuner_node_at(kn_tuner *tuner, size_t position) {
    return position < kn_tuner_shape_count(tuner) ? tuner->nodes[position] : NULL;
}

static kn_status fail_position(kn_tuner *tuner, size_t position) {
    return kn_fail(&tuner->error, KN_ERROR_NOT_FOUND, "the tuner has %zu shapes; shape %zu does not exist",
                   tuner->count, position);
}

kn_status kn_tuner_shape_at(kn_tuner *tuner, size_t position, kn_tuner_shape *shape) {
    if (!tuner || !kn_has_size(shape)) return KN_ERROR_ARGUMENT;
    const kn_tuner_node *node = kn_tuner_node_at(tuner, position);
    if (!node) return fail_position(tuner, position);
    kn_tuned entry;
    kn_tuner_shape own = {.size = sizeof own,
                          .key = node->key,
                          .name = node->name,
                          .untuned = node->untuned->name,
                          .nodes = node->nodes,
                          .candidates = node->candidate_count,
                          .share = tuner->predicted > 0 ? node->seconds / tuner->predicted : 0,
                          .tuned = kn_tuned_get(tuner->context, node->key, &entry)};
    if (own.tuned) {
        memcpy(own.kernel, entry.kernel, sizeof entry.kernel);
        own.microseconds = entry.microseconds;
        own.untuned_microseconds = entry.untuned;
    }
    return KN_RESULT_GIVE(kn_tuner_shape, shape, &own);
}

/* ---- what is kept --------------------------------------------------------------------------------- */

/* The two enumerations have the same members in the same order. */
_Static_assert((int)KN_TUNER_EVENT_HUNG == (int)KN_TUNED_HUNG &&
                   (int)KN_TUNER_EVENT_WRONG == (int)KN_TUNED_WRONG &&
                   (int)KN_TUNER_EVENT_FAILED == (int)KN_TUNED_FAILED &&
                   (int)KN_TUNER_KERNEL_BYTES == (int)KN_TUNED_KERNEL &&
                   (int)KN_KERNEL_NAME == (int)KN_TUNED_KERNEL,
               "entries of the file and of the interface");

kn_status kn_tuner_exclude(kn_tuner *tuner, const char *key, const char *kernel, kn_tuner_event why) {
    if (!tuner || !key || !kernel || why <= KN_TUNER_EVENT_START || why > KN_TUNER_EVENT_HUNG)
        return KN_ERROR_ARGUMENT;
    kn_tuned entry = {.end = (kn_tuned_end)why};
    if (!key[0] || !kernel[0] || strlen(key) >= sizeof entry.key || strlen(kernel) >= sizeof entry.kernel ||
        strpbrk(key, " \r\n") || strpbrk(kernel, " \r\n"))
        return kn_fail(&tuner->error, KN_ERROR_ARGUMENT, "'%.80s %.80s' is not a kernel name", key, kernel);
    memcpy(entry.key, key, strlen(key));
    memcpy(entry.kernel, kernel, strlen(kernel));
    kn_tuned_put(tuner->context, &entry);
    return KN_OK;
}

kn_status kn_tuner_forget(kn_tuner *tuner, size_t position) {
    if (!tuner) return KN_ERROR_ARGUMENT;
    const kn_tuner_node *node = kn_tuner_node_at(tuner, position);
    if (!node) return fail_position(tuner, position);
    kn_tuned_forget(tuner->context, node->key);
    return KN_OK;
}

/* The operator of a key, its first component; NULL: unknown operator. */
static const kn_operator *row_of(const char *key) {
    char name[64];
    size_t length = strcspn(key, "/");
    if (length >= sizeof name) return NULL;
    memcpy(name, key, length);
    name[length] = '\0';
    return kn_operator_find(name);
}

/* Whether a key belongs to the version and kernels of `middle`: kn_verdict_name after the operator. */
static bool is_current(const char *middle, const char *key) {
    const char *after = key + strcspn(key, "/");
    size_t length = strlen(middle);
    return !strncmp(after, middle, length) && after[length] == '/';
}

kn_status kn_tuner_entry_at(kn_tuner *tuner, size_t position, kn_tuner_entry *entry) {
    if (!tuner || !kn_has_size(entry)) return KN_ERROR_ARGUMENT;
    size_t at = 0;
    kn_tuned found;
    char middle[256];
    bool there = position < SIZE_MAX;
    for (size_t i = 0; i <= position && there; i++)
        there = kn_tuned_next(tuner->context, &at, &found);
    if (!there) return kn_fail(&tuner->error, KN_ERROR_NOT_FOUND, "entry %zu does not exist", position);
    kn_verdict_name(tuner->context, "", middle, sizeof middle);
    kn_tuner_entry own = {.size = sizeof own,
                          .outcome = (kn_tuner_event)found.end,
                          .microseconds = found.microseconds,
                          .untuned_microseconds = found.untuned,
                          .current = is_current(middle, found.key)};
    memcpy(own.key, found.key, sizeof own.key);
    memcpy(own.kernel, found.kernel, sizeof own.kernel);
    return KN_RESULT_GIVE(kn_tuner_entry, entry, &own);
}

kn_status kn_tuner_export(kn_tuner *tuner, const char *path) {
    if (!tuner || !path) return KN_ERROR_ARGUMENT;
    return kn_tuned_export(tuner->context, path, &tuner->error);
}

typedef struct importing {
    char middle[256];
    kn_tuner_counts counts;
} importing;

static bool takes(void *user, const kn_tuned *entry) {
    importing *from = user;
    int tile;
    const kn_operator *row = entry ? row_of(entry->key) : NULL;
    int *counter = &from->counts.imported;
    if (!entry)
        counter = &from->counts.damaged;
    else if (!row || !kn_tuned_variant(row, entry->kernel, &tile))
        counter = &from->counts.unknown;
    else if (!is_current(from->middle, entry->key))
        counter = &from->counts.other_kernels;
    ++*counter;
    return counter == &from->counts.imported;
}

kn_status kn_tuner_import(kn_tuner *tuner, const char *path, kn_tuner_counts *counts) {
    if (!tuner || !path || (counts && !kn_has_size(counts))) return KN_ERROR_ARGUMENT;
    importing from = {.counts = {.size = sizeof from.counts}};
    kn_verdict_name(tuner->context, "", from.middle, sizeof from.middle);
    kn_status status = kn_tuned_import(tuner->context, path, takes, &from, &tuner->error);
    if (counts) KN_RESULT_GIVE(kn_tuner_counts, counts, &from.counts);
    return status;
}
