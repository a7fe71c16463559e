/* Sessions: a model from a file or from memory, its inputs and outputs, and its metadata. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnxruntime/onnxruntime.h"

#define EXTERNAL_FOLDER "session.model_external_initializers_file_folder_path"

/* ---- inputs and outputs ------------------------------------------------------------------ */

typedef struct side {
    size_t (*count)(const kn_onnx_file *);
    const char *(*at)(const kn_onnx_file *, size_t, const char **);
    const char *(*inner)(const kn_onnx_file *, size_t);
    int (*rank)(const kn_onnx_file *, size_t);
    int64_t (*size)(const kn_onnx_file *, size_t, int, const char **);
} side;
static const side inputs = {kn_onnx_file_input_count, kn_onnx_file_input_at, kn_onnx_file_input_inner_at,
                            kn_onnx_file_input_rank_at, kn_onnx_file_input_size_at};
static const side outputs = {kn_onnx_file_output_count, kn_onnx_file_output_at, kn_onnx_file_output_inner_at,
                             kn_onnx_file_output_rank_at, kn_onnx_file_output_size_at};

static void ports_release(ort_port *ports, size_t count) {
    for (size_t i = 0; ports && i < count; i++) {
        free(ports[i].sizes);
        free(ports[i].symbols);
    }
    free(ports);
}

/* `fixed` are sizes for symbols. */
static bool read_port(const kn_onnx_file *file, const side *which, size_t position, const ort_pairs *fixed,
                      ort_port *port) {
    const char *type = "";
    port->name = which->at(file, position, &type);
    port->kind = ort_type_from(type, &port->type);
    const char *inner = which->inner(file, position);
    if (inner) ort_type_from(inner, &port->type);
    port->rank = which->rank(file, position);
    const size_t rank = port->rank > 0 ? (size_t)port->rank : 0;
    port->sizes = calloc(rank + 1, sizeof *port->sizes);
    port->symbols = calloc(rank + 1, sizeof *port->symbols);
    if (!port->sizes || !port->symbols) return false;
    for (int i = 0; i < port->rank; i++) {
        const char *symbol = "";
        port->sizes[i] = which->size(file, position, i, &symbol);
        const char *number = *symbol ? ort_pairs_get(fixed, symbol) : NULL;
        if (number) port->sizes[i] = strtoll(number, NULL, 10);
        port->symbols[i] = number ? "" : symbol;
    }
    return true;
}

static bool read_ports(const kn_onnx_file *file, const side *which, const ort_pairs *fixed, ort_port **ports,
                       size_t *count) {
    *count = which->count(file);
    *ports = calloc(*count + 1, sizeof **ports);
    for (size_t i = 0; *ports && i < *count; i++)
        if (!read_port(file, which, i, fixed, &(*ports)[i])) return false;
    return *ports != NULL;
}

/* ---- creation ---------------------------------------------------------------------------- */

static OrtStatus *choose(const char *option, const char *text, bool known) {
    return known ? NULL
                 : ort_fail(ORT_INVALID_ARGUMENT, "provider option %s: '%s' is not known", option, text);
}

static OrtStatus *read_provider(OrtSession *session, const ort_pairs *provider) {
    const char *precision = ort_pairs_get(provider, "precision"), *math = ort_pairs_get(provider, "math");
    OrtStatus *status = NULL;
    session->params = (kn_session_params)KN_SESSION_DEFAULTS;
    session->params.memory_bytes = UINT64_MAX;
    session->params.fast_math = !math || !strcmp(math, "fast");
    if (math) status = choose("math", math, !strcmp(math, "fast") || !strcmp(math, "exact"));
    if (!status && precision)
        status = choose("precision", precision, kn_precision_parse(precision, &session->params.precision));
    if (status) return status;
    session->device = ort_device_open(ort_pairs_get(provider, "device"), ort_pairs_get(provider, "cache"),
                                      session->profile, &status);
    if (status) return status;
    session->states = kn_states_create(ort_device_context(session->device), 0);
    session->params.states = session->states;
    return session->states ? NULL : ort_no_memory();
}

/* Arrays without elements for the inputs whose symbols have sizes; in new memory. */
static kn_model_given *fixed_inputs(const OrtSession *session, size_t *count) {
    kn_model_given *given = calloc(session->input_count + 1, sizeof *given);
    *count = 0;
    for (size_t i = 0; given && i < session->input_count; i++) {
        const ort_port *port = &session->inputs[i];
        kn_model_given *array = &given[*count];
        if (port->rank < 1 || port->rank > KN_MAX_RANK || !ort_element_to(port->type, &array->info.dtype))
            continue;
        array->name = port->name;
        array->info.rank = port->rank;
        memcpy(array->info.shape, port->sizes, (size_t)port->rank * sizeof *port->sizes);
        ++*count;
    }
    return given;
}

/* A path without a folder gets one, because kn_model_open takes the names of the zoo's models for them. NULL
 * when out of memory. */
static kn_model *open_path(const char *path, const kn_model_params *params) {
    if (strchr(path, '/')) return kn_model_open(path, params);
    const size_t room = strlen(path) + 3;
    char *here = malloc(room);
    if (here) snprintf(here, room, "./%s", path);
    kn_model *model = here ? kn_model_open(here, params) : NULL;
    free(here);
    return model;
}

/* Whether it is a tensor, or a sequence or an optional of tensors. */
static bool is_supported(const ort_port *port) {
    return port->kind == ONNX_TYPE_TENSOR ||
           ((port->kind == ONNX_TYPE_SEQUENCE || port->kind == ONNX_TYPE_OPTIONAL) && port->type);
}

static OrtStatus *refuse_others(const char *word, const ort_port *ports, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!is_supported(&ports[i]))
            return ort_fail(
                ORT_NOT_IMPLEMENTED,
                "%s '%s' of the model is neither a tensor nor a sequence or an optional of tensors, "
                "and Koine supports no others",
                word, ports[i].name);
    return NULL;
}

/* Opens what the file declares, then the model. `path` NULL: from memory, with external data in `folder`. */
static OrtStatus *open_model(OrtSession *session, const char *path, size_t bytes, const char *folder,
                             const OrtSessionOptions *options) {
    const ort_pairs *fixed = &options->sizes;
    session->file =
        path ? kn_onnx_file_open(path, NULL) : kn_onnx_file_open_memory(session->bytes, bytes, folder, NULL);
    if (kn_onnx_file_status(session->file) != KN_OK)
        return ort_fail_as(kn_onnx_file_status(session->file), kn_onnx_file_error(session->file));
    if (!read_ports(session->file, &inputs, fixed, &session->inputs, &session->input_count) ||
        !read_ports(session->file, &outputs, fixed, &session->outputs, &session->output_count))
        return ort_no_memory();
    OrtStatus *status = refuse_others("input", session->inputs, session->input_count);
    if (!status) status = refuse_others("output", session->outputs, session->output_count);
    if (status) return status;
    for (size_t i = 0; i < session->output_count; i++)
        session->lists |= session->outputs[i].kind != ONNX_TYPE_TENSOR;
    kn_model_params params = KN_MODEL_DEFAULTS;
    params.log = ort_logger_for_koine(&session->logger);
    size_t count = 0;
    kn_model_given *given = fixed->count ? fixed_inputs(session, &count) : NULL;
    if (fixed->count && !given) return ort_no_memory();
    params.given = given;
    params.given_count = count;
    session->model =
        path ? open_path(path, &params) : kn_model_open_memory(session->bytes, bytes, folder, &params);
    free(given);
    return ort_fail_as(kn_model_status(session->model), kn_model_error(session->model));
}

/* ORT's own format is a FlatBuffer with the word ORTM at byte 4. */
static OrtStatus *refuse_ort_format(const char *path, const void *bytes, size_t count) {
    char start[8] = "";
    FILE *file = path ? fopen(path, "rb") : NULL;
    if (file) {
        count = fread(start, 1, sizeof start, file);
        fclose(file);
    } else if (!path && count >= sizeof start) {
        memcpy(start, bytes, sizeof start);
    }
    if (count < sizeof start || memcmp(start + 4, "ORTM", 4)) return NULL;
    return ort_fail(ORT_NOT_IMPLEMENTED,
                    "%s is in ORT format (.ort), which Koine does not read; use the model's .onnx file",
                    path ? path : "the model");
}

/* Reads a file into new memory. */
static OrtStatus *read_file(const char *path, void **bytes, size_t *count) {
    FILE *file = fopen(path, "rb");
    if (!file) return ort_fail(ORT_NO_SUCHFILE, "Load model from %s failed: the file cannot be opened", path);
    size_t room = 1 << 20;
    char *read = malloc(room);
    *count = 0;
    while (read && !feof(file) && !ferror(file)) {
        if (*count == room) {
            char *more = room <= SIZE_MAX / 2 ? realloc(read, room *= 2) : NULL;
            if (!more) free(read);
            read = more;
            if (!read) break;
        }
        *count += fread(read + *count, 1, room - *count, file);
    }
    const bool failed = read && ferror(file);
    fclose(file);
    if (failed) free(read);
    if (failed) return ort_fail(ORT_FAIL, "Load model from %s failed: the file cannot be read", path);
    *bytes = read;
    return read ? NULL : ort_no_memory();
}

/* Opens the model with initializers of the program. */
static OrtStatus *open_replaced(OrtSession *session, const char *path, size_t count, const char *folder,
                                const OrtSessionOptions *options) {
    void *bytes = NULL;
    char *own_folder = NULL;
    OrtStatus *status = NULL;
    if (path) {
        const char *end = strrchr(path, '/');
        own_folder = ort_copy_text(end ? path : ".");
        if (!own_folder) return ort_no_memory();
        if (end) own_folder[end - path + 1] = 0;
        status = read_file(path, &session->memory, &count);
        session->bytes = session->memory;
    }
    if (!status)
        status = ort_replace_initializers(&options->initializers, session->bytes, count, &bytes, &count);
    if (!status) {
        free(session->memory);
        session->memory = bytes;
        session->bytes = bytes;
        status = open_model(session, NULL, count, own_folder ? own_folder : folder, options);
    }
    free(own_folder);
    return status;
}

static OrtStatus *save_optimized(OrtSession *session, const char *path) {
    return ort_fail_as(kn_model_save_onnx(session->model, path, NULL, NULL), kn_model_error(session->model));
}

static OrtStatus *cancelled(const OrtSessionOptions *options) {
    return atomic_load(&options->cancelled)
               ? ort_fail(ORT_MODEL_LOAD_CANCELED, "Session initialization canceled due to user request.")
               : NULL;
}

static OrtStatus *fill(OrtSession *session, const char *path, size_t count,
                       const OrtSessionOptions *options) {
    OrtStatus *status = cancelled(options);
    if (!status) status = refuse_ort_format(path, session->bytes, count);
    if (status) return status;
    if (options->shared_threads && !ort_env_has_pools())
        return ort_fail(ORT_FAIL,
                        "When the session is not configured to use per session threadpools, the env must be "
                        "created with the CreateEnvWithGlobalThreadPools API.");
    session->logger = ort_env_logger();
    if (options->has_logger) session->logger = options->logger;
    if (options->has_level) session->logger.level = options->logger.level;
    if (options->profile_prefix) status = ort_profile_start(options->profile_prefix, &session->profile);
    const char *folder = ort_pairs_get(&options->config, EXTERNAL_FOLDER);
    if (!status)
        status = options->initializers.count ? open_replaced(session, path, count, folder, options)
                                             : open_model(session, path, count, folder, options);
    ort_profile_span(session->profile, path ? "model_loading_uri" : "model_loading_array", 0);
    const double opened = ort_profile_now(session->profile);
    if (!status) status = read_provider(session, &options->provider);
    if (!status && options->optimized_path) status = save_optimized(session, options->optimized_path);
    if (!status) status = cancelled(options);
    if (!status) status = ort_prepare(session);
    if (!status) status = cancelled(options);
    ort_profile_span(session->profile, "session_initialization", opened);
    if (session->profile && session->device) kn_context_timeline_clear(ort_device_context(session->device));
    return status;
}

/* Takes `memory` over; `path` NULL: the model's bytes are in it. */
static OrtStatus *create(const char *path, void *memory, const void *bytes, size_t count,
                         const OrtSessionOptions *options, OrtSession **out) {
    static const OrtSessionOptions defaults = {.memory_pattern = true};
    OrtSession *session = calloc(1, sizeof *session);
    if (!session || pthread_mutex_init(&session->lock, NULL)) {
        free(session);
        free(memory);
        return ort_no_memory();
    }
    session->memory = memory;
    session->bytes = bytes;
    OrtStatus *status = fill(session, path, count, options ? options : &defaults);
    if (status)
        ort_ReleaseSession(session);
    else
        *out = session;
    return status;
}

OrtStatus *ort_CreateSession(const OrtEnv *env, const char *path, const OrtSessionOptions *options,
                             OrtSession **out) {
    ORT_NEED(env);
    ORT_NEED(path);
    ORT_NEED(out);
    return create(path, NULL, NULL, 0, options, out);
}

OrtStatus *ort_CreateSessionFromArray(const OrtEnv *env, const void *bytes, size_t count,
                                      const OrtSessionOptions *options, OrtSession **out) {
    ORT_NEED(env);
    ORT_NEED(bytes);
    ORT_NEED(out);
    void *copy = malloc(count + 1);
    if (!copy) return ort_no_memory();
    if (count) memcpy(copy, bytes, count);
    return create(NULL, copy, copy, count, options, out);
}

OrtStatus *ort_session_open(void *memory, const void *bytes, size_t count, const OrtSessionOptions *options,
                            OrtSession **out) {
    return create(NULL, memory, bytes, count, options, out);
}

OrtStatus *ort_CreateSessionWithPrepackedWeightsContainer(const OrtEnv *env, const char *path,
                                                          const OrtSessionOptions *options,
                                                          OrtPrepackedWeightsContainer *container,
                                                          OrtSession **out) {
    ORT_NEED(container);
    return ort_CreateSession(env, path, options, out);
}

OrtStatus *ort_CreateSessionFromArrayWithPrepackedWeightsContainer(const OrtEnv *env, const void *bytes,
                                                                   size_t count,
                                                                   const OrtSessionOptions *options,
                                                                   OrtPrepackedWeightsContainer *container,
                                                                   OrtSession **out) {
    ORT_NEED(container);
    return ort_CreateSessionFromArray(env, bytes, count, options, out);
}

void ort_ReleaseSession(OrtSession *session) {
    if (!session) return;
    ort_plans_release(session);
    kn_model_destroy(&session->model);
    kn_states_destroy(&session->states);
    ort_device_close(session->device);
    ort_profile_destroy(session->profile);
    ports_release(session->inputs, session->input_count);
    ports_release(session->outputs, session->output_count);
    kn_onnx_file_destroy(&session->file);
    free(session->memory);
    pthread_mutex_destroy(&session->lock);
    free(session);
}

/* ---- what a session has ------------------------------------------------------------------ */

ORT_GETTER(SessionGetInputCount, const OrtSession, session, size_t, session->input_count)
ORT_GETTER(SessionGetOutputCount, const OrtSession, session, size_t, session->output_count)

/* Inputs with a default are not offered: the default holds. */
ORT_GETTER(SessionGetOverridableInitializerCount, const OrtSession, session, size_t, 0)

static OrtStatus *give_name(const ort_port *ports, size_t count, size_t position, OrtAllocator *allocator,
                            char **out) {
    if (position >= count) return ort_fail(ORT_FAIL, "index out of range: %zu of %zu", position, count);
    *out = ort_allocate_text(allocator, ports[position].name);
    return *out ? NULL : ort_no_memory();
}

OrtStatus *ort_SessionGetInputName(const OrtSession *session, size_t position, OrtAllocator *allocator,
                                   char **out) {
    ORT_NEED(session);
    ORT_NEED(allocator);
    ORT_NEED(out);
    return give_name(session->inputs, session->input_count, position, allocator, out);
}

OrtStatus *ort_SessionGetOutputName(const OrtSession *session, size_t position, OrtAllocator *allocator,
                                    char **out) {
    ORT_NEED(session);
    ORT_NEED(allocator);
    ORT_NEED(out);
    return give_name(session->outputs, session->output_count, position, allocator, out);
}

static OrtStatus *give_type(const ort_port *ports, size_t count, size_t position, OrtTypeInfo **out) {
    if (position >= count) return ort_fail(ORT_FAIL, "out of index: %zu of %zu", position, count);
    const ort_port *port = &ports[position];
    *out = ort_type_info_new(port->kind, port->type, port->rank >= 0, port->rank > 0 ? (size_t)port->rank : 0,
                             port->sizes, port->symbols);
    return *out ? NULL : ort_no_memory();
}

OrtStatus *ort_SessionGetOverridableInitializerName(const OrtSession *session, size_t position,
                                                    OrtAllocator *allocator, char **out) {
    ORT_NEED(session);
    ORT_NEED(allocator);
    ORT_NEED(out);
    return give_name(NULL, 0, position, allocator, out);
}

OrtStatus *ort_SessionGetOverridableInitializerTypeInfo(const OrtSession *session, size_t position,
                                                        OrtTypeInfo **out) {
    ORT_NEED(session);
    ORT_NEED(out);
    return give_type(NULL, 0, position, out);
}

OrtStatus *ort_SessionGetInputTypeInfo(const OrtSession *session, size_t position, OrtTypeInfo **out) {
    ORT_NEED(session);
    ORT_NEED(out);
    return give_type(session->inputs, session->input_count, position, out);
}

OrtStatus *ort_SessionGetOutputTypeInfo(const OrtSession *session, size_t position, OrtTypeInfo **out) {
    ORT_NEED(session);
    ORT_NEED(out);
    return give_type(session->outputs, session->output_count, position, out);
}

static OrtStatus *give_memory(size_t count, size_t room, const OrtMemoryInfo **infos) {
    if (room != count) return ort_fail(ORT_INVALID_ARGUMENT, "room for %zu of %zu", room, count);
    for (size_t i = 0; i < count; i++)
        infos[i] = &ort_host_memory;
    return NULL;
}

OrtStatus *ort_SessionGetMemoryInfoForInputs(const OrtSession *session, const OrtMemoryInfo **infos,
                                             size_t room) {
    ORT_NEED(session);
    ORT_NEED_FOR(room, infos);
    return give_memory(session->input_count, room, infos);
}

OrtStatus *ort_SessionGetMemoryInfoForOutputs(const OrtSession *session, const OrtMemoryInfo **infos,
                                              size_t room) {
    ORT_NEED(session);
    ORT_NEED_FOR(room, infos);
    return give_memory(session->output_count, room, infos);
}

/* ---- metadata ---------------------------------------------------------------------------- */

/* A copy: it may outlive the session. */
struct OrtModelMetadata {
    char *producer, *graph, *domain, *description, *graph_description;
    int64_t version;
    ort_pairs pairs;
};

void ort_ReleaseModelMetadata(OrtModelMetadata *metadata) {
    if (!metadata) return;
    free(metadata->producer);
    free(metadata->graph);
    free(metadata->domain);
    free(metadata->description);
    free(metadata->graph_description);
    ort_pairs_clear(&metadata->pairs);
    free(metadata);
}

OrtStatus *ort_SessionGetModelMetadata(const OrtSession *session, OrtModelMetadata **out) {
    ORT_NEED(session);
    ORT_NEED(out);
    OrtModelMetadata *made = calloc(1, sizeof *made);
    if (!made) return ort_no_memory();
    kn_onnx_about about = KN_ONNX_ABOUT_DEFAULTS;
    bool fine = kn_onnx_file_about(session->file, &about);
    if (fine) {
        made->producer = ort_copy_text(about.producer);
        made->graph = ort_copy_text(about.graph_name);
        made->domain = ort_copy_text(about.domain);
        made->description = ort_copy_text(about.description);
        made->graph_description = ort_copy_text(about.graph_description);
        made->version = about.version;
        fine = made->producer && made->graph && made->domain && made->description && made->graph_description;
    }
    const char *key, *value = "";
    for (size_t i = 0; fine && (key = kn_onnx_file_metadata_at(session->file, i, &value)) != NULL; i++)
        fine = ort_pairs_put(&made->pairs, key, value);
    if (!fine) {
        ort_ReleaseModelMetadata(made);
        return ort_no_memory();
    }
    *out = made;
    return NULL;
}

#define METADATA_TEXT(name, field)                                                                           \
    OrtStatus *ort_##name(const OrtModelMetadata *metadata, OrtAllocator *allocator, char **out) {           \
        ORT_NEED(metadata);                                                                                  \
        ORT_NEED(allocator);                                                                                 \
        ORT_NEED(out);                                                                                       \
        *out = ort_allocate_text(allocator, metadata->field);                                                \
        return *out ? NULL : ort_no_memory();                                                                \
    }
METADATA_TEXT(ModelMetadataGetProducerName, producer)
METADATA_TEXT(ModelMetadataGetGraphName, graph)
METADATA_TEXT(ModelMetadataGetDomain, domain)
METADATA_TEXT(ModelMetadataGetDescription, description)
METADATA_TEXT(ModelMetadataGetGraphDescription, graph_description)

ORT_GETTER(ModelMetadataGetVersion, const OrtModelMetadata, metadata, int64_t, metadata->version)

OrtStatus *ort_ModelMetadataLookupCustomMetadataMap(const OrtModelMetadata *metadata, OrtAllocator *allocator,
                                                    const char *key, char **out) {
    ORT_NEED(metadata);
    ORT_NEED(allocator);
    ORT_NEED(key);
    ORT_NEED(out);
    const char *value = ort_pairs_get(&metadata->pairs, key);
    *out = value ? ort_allocate_text(allocator, value) : NULL;
    return value && !*out ? ort_no_memory() : NULL;
}

OrtStatus *ort_ModelMetadataGetCustomMetadataMapKeys(const OrtModelMetadata *metadata,
                                                     OrtAllocator *allocator, char ***keys, int64_t *count) {
    ORT_NEED(metadata);
    ORT_NEED(allocator);
    ORT_NEED(keys);
    ORT_NEED(count);
    const size_t number = metadata->pairs.count;
    *keys = NULL;
    *count = (int64_t)number;
    if (!number) return NULL;
    char **made = allocator->Alloc(allocator, number * sizeof *made);
    size_t i = 0;
    for (; made && i < number; i++)
        if (!(made[i] = ort_allocate_text(allocator, metadata->pairs.keys[i]))) break;
    if (made && i == number) {
        *keys = made;
        return NULL;
    }
    *count = 0;
    for (; made && i > 0; i--)
        allocator->Free(allocator, made[i - 1]);
    if (made) allocator->Free(allocator, made);
    return ort_no_memory();
}
