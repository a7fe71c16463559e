/* Files with weights: safetensors files that contain the text of their model.
 *
 * Tensors have the names of parameters and statistics; states needed to resume training have the prefix
 * "koine.training.". Metadata: koine.format (the version of this layout), koine.model (the text), and the
 * caller's pairs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/models_private.h"
#include "run/run.h"

#define FORMAT_KEY "koine.format"
#define FORMAT_VERSION "1"
#define MODEL_KEY "koine.model"
#define GRAPH_KEY "koine.graph"     /* of a model without a text (graph_text.c) */
#define ADAPTER_KEY "koine.adapter" /* of an adapted model (adapt.c): "rank=16 scale=2 order=halves" */
#define TRAINING_PREFIX "koine.training."

KN_DEFINE_INIT(kn_model_save_params, KN_MODEL_SAVE_DEFAULTS)
KN_DEFINE_INIT(kn_model_load_params, KN_MODEL_LOAD_DEFAULTS)

/* ---- opening ------------------------------------------------------------------------------------------- */

bool kn_saved_is(const uint8_t *bytes, uint64_t count) {
    uint64_t length = 0;
    if (count < 10 || bytes[8] != '{') return false;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | bytes[i];
    return length <= count - 8;
}

/* A parameter with 16 bits in the file is stored so on the device; otherwise the caller's kn_store_as
 * applies.
 */
static void store_as(kn_value *value, const kn_safetensor *tensor) {
    if (tensor && kn_is_half(tensor->array.type) && value->kind == KN_VALUE_STATE &&
        value->role == KN_STATE_PARAMETER && value->shape.dtype == KN_FLOAT32)
        kn_store_as(value, tensor->array.type);
}

static bool store_all(kn_model *model, const kn_safetensors *file) {
    for (size_t i = 0; i < model->graph->value_count; i++)
        store_as(model->graph->values[i], kn_safetensors_find(file, model->graph->values[i]->name));
    return true;
}

static bool read_graph(kn_model *model, const kn_safetensors *file) {
    model->name = "graph";
    model->graph = kn_graph_text_read(&model->host, kn_safetensors_metadata(file, GRAPH_KEY), &model->error);
    return model->graph && kn_model_list_values(model, model->graph) && store_all(model, file);
}

static bool read_saved(kn_model *model, const kn_safetensors *file, const char *path) {
    if (kn_safetensors_check(file, path, &model->error) != KN_OK) return false;
    const char *version = kn_safetensors_metadata(file, FORMAT_KEY);
    const char *text = kn_safetensors_metadata(file, MODEL_KEY);
    if (version && strcmp(version, FORMAT_VERSION)) {
        kn_fail(&model->error, KN_ERROR_UNSUPPORTED,
                "%s: found version %.20s of the file format, expected " FORMAT_VERSION
                ", the only version that this library supports",
                path, version);
        return false;
    }
    if (!text && kn_safetensors_metadata(file, GRAPH_KEY)) return read_graph(model, file);
    if (!text && kn_safetensors_metadata(file, ADAPTER_KEY)) {
        kn_fail(&model->error, KN_ERROR_FORMAT,
                "%s: has an adapter but not its model; open the model that was adapted, and the adapter with "
                "it (koine generate MODEL --adapter %s)",
                path, path);
        return false;
    }
    if (!text) {
        kn_fail(&model->error, KN_ERROR_FORMAT,
                "%s: has weights but no model in its metadata (" MODEL_KEY "); open the model by "
                "its name or text and load the weights into it",
                path);
        return false;
    }
    return kn_model_read(model, text, strlen(text)) && store_all(model, file);
}

static bool open_saved(kn_model *model, const char *path) {
    kn_safetensors *file = kn_allocate(&model->host, 1, sizeof *file);
    if (!file) return kn_model_no_memory(model);
    if (kn_safetensors_open(&model->host, path, file, &model->error) != KN_OK) {
        kn_release(&model->host, file);
        return false;
    }
    model->origin_data = file;
    model->has_weights = true;
    model->metadata = file->metadata;
    model->metadata_count = file->metadata_count;
    return read_saved(model, file, path);
}

static void close_saved(kn_model *model) {
    kn_safetensors_close(&model->host, model->origin_data);
    kn_release(&model->host, model->origin_data);
}

bool kn_model_has_weights(const kn_model *model) {
    return model && model->status == KN_OK && model->has_weights;
}

const char *kn_model_metadata(const kn_model *model, const char *key) {
    if (!kn_model_has_weights(model) || !key) return NULL;
    for (size_t i = 0; i < model->metadata_count; i++)
        if (!strcmp(model->metadata[i].key, key)) return model->metadata[i].value;
    return NULL;
}

/* ---- states of the model ------------------------------------------------------------------------------- */

static kn_tensor_info info_of(const kn_value *value) {
    kn_tensor_info info = {.dtype = value->shape.dtype, .rank = value->shape.rank};
    for (int i = 0; i < info.rank; i++)
        info.shape[i] = value->shape.dims[i];
    return info;
}

static bool same_shape(const kn_tensor_info *info, int rank, const int64_t *shape) {
    return info->rank == rank && (rank == 0 || !memcmp(info->shape, shape, (size_t)rank * sizeof *shape));
}

static const char *shape_text(const kn_tensor_info *info, char *text, size_t bytes) {
    kn_array array = {.type = info->dtype, .rank = info->rank};
    memcpy(array.shape, info->shape, sizeof array.shape);
    return kn_array_shape_text(&array, text, bytes);
}

/* ---- saving -------------------------------------------------------------------------------------------- */

typedef struct saving {
    kn_model *model;
    kn_states *states;
    kn_safetensor *tensors; /* named as in the file */
    const char **names;     /* as in the states */
    kn_dtype *types;        /* their types in the states */
    kn_dtype weights;       /* float32 parameters of two axes and more are rounded to this type */
    size_t count;
    uint64_t largest; /* bytes of the largest state */
    char *graph_text; /* text of a model created from a graph; NULL: there is none */
    char adapter[80]; /* what an adapter computes; "": there is none */
    kn_arena arena;
} saving;

/* Lists the states for the file, wide types first so that all are aligned. */
static kn_status list_tensors(saving *s, bool training) {
    kn_model *model = s->model;
    size_t most = (size_t)kn_states_count(s->states), weights = 0;
    s->tensors = kn_arena_take(&s->arena, most, sizeof *s->tensors);
    s->names = kn_arena_take(&s->arena, most, sizeof *s->names);
    s->types = kn_arena_take(&s->arena, most, sizeof *s->types);
    if (!s->tensors || !s->names || !s->types)
        return kn_fail_memory(&model->error, most * sizeof *s->tensors);
    for (size_t width = 8; width >= 1; width /= 2) {
        for (size_t i = 0; i < most; i++) {
            kn_tensor_info info;
            const char *name = kn_states_at(s->states, (int)i, &info);
            if (!name) continue;
            const kn_value *value = kn_graph_find(model->graph, name);
            bool weight = kn_model_is_weight(value);
            kn_dtype type =
                weight && value->role == KN_STATE_PARAMETER && info.dtype == KN_FLOAT32 && info.rank > 1
                    ? s->weights
                    : info.dtype;
            /* The file that the model was opened from has the weights that are frozen. */
            const bool elsewhere = weight && model->adapter && model->has_weights && value->frozen;
            if ((!weight && !training) || elsewhere || kn_dtype_bytes(type) != width) continue;
            kn_array *array = &s->tensors[s->count].array;
            *array = (kn_array){.type = type, .rank = info.rank};
            memcpy(array->shape, info.shape, sizeof array->shape);
            uint64_t bytes;
            if (!kn_array_measure(array) || !kn_tensor_bytes(&info, &bytes))
                return kn_fail(&model->error, KN_ERROR_SHAPE,
                               "the size of state '%s' is unknown or too large for a file", name);
            s->tensors[s->count].name =
                weight ? name : kn_arena_format(&s->arena, TRAINING_PREFIX "%s", name);
            if (!s->tensors[s->count].name) return kn_fail_memory(&model->error, strlen(name));
            s->types[s->count] = info.dtype;
            s->names[s->count++] = name;
            weights += weight;
            if (bytes > s->largest) s->largest = bytes;
        }
    }
    if (weights > 0 || kn_graph_parameter_count(model->graph) == 0) return KN_OK;
    return kn_fail(
        &model->error, KN_ERROR_ARGUMENT,
        "the states have no parameter of model '%s'; expected the states that it was trained or run with",
        model->name);
}

static kn_status list_metadata(saving *s, const kn_model_save_params *params, kn_text_pair **pairs,
                               size_t *count) {
    kn_model *model = s->model;
    size_t own = 0;
    *count = 5 + params->pair_count;
    *pairs = kn_arena_take(&s->arena, *count, sizeof **pairs);
    if (!*pairs) return kn_fail_memory(&model->error, *count * sizeof **pairs);
    (*pairs)[own++] = (kn_text_pair){FORMAT_KEY, FORMAT_VERSION};
    if (model->adapter) (*pairs)[own++] = (kn_text_pair){ADAPTER_KEY, s->adapter};
    if (model->text && !model->adapter) (*pairs)[own++] = (kn_text_pair){MODEL_KEY, model->text->canonical};
    if (s->graph_text) (*pairs)[own++] = (kn_text_pair){GRAPH_KEY, s->graph_text};
    (*pairs)[own++] = (kn_text_pair){KN_SAFETENSORS_CHECKSUM, KN_SAFETENSORS_NO_CHECKSUM};
    *count = own + params->pair_count;
    for (size_t i = 0; i < params->pair_count; i++) {
        const kn_model_pair *pair = &params->pairs[i];
        if (!pair->key || !pair->value || !strncmp(pair->key, "koine.", 6))
            return kn_fail(&model->error, KN_ERROR_ARGUMENT,
                           "metadata '%.60s': expected a key that does not begin with "
                           "'koine.', and a value",
                           pair->key ? pair->key : "NULL");
        (*pairs)[own + i] = (kn_text_pair){pair->key, pair->value};
    }
    return KN_OK;
}

/* Rounds elements to another type, in place. False if one is too large for it. */
static bool round_all(kn_dtype from, kn_dtype to, void *elements, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        const double number = kn_element_get(from, elements, (int64_t)i);
        kn_element_set(to, elements, (int64_t)i, number);
        if (isfinite(number) && !isfinite(kn_element_get(to, elements, (int64_t)i))) return false;
    }
    return true;
}

static kn_status write_tensors(saving *s, kn_safetensors_writer *writer) {
    kn_error *error = &s->model->error;
    kn_status status = KN_OK;
    if (s->largest > SIZE_MAX) return kn_fail_memory(error, SIZE_MAX);
    void *bytes = kn_allocate(&s->model->host, (size_t)(s->largest ? s->largest : 1), 1);
    if (!bytes) return kn_fail_memory(error, (size_t)s->largest);
    for (size_t i = 0; i < s->count && status == KN_OK; i++) {
        const kn_array *array = &s->tensors[i].array;
        status =
            kn_states_get(s->states, s->names[i], bytes, (size_t)array->count * kn_dtype_bytes(s->types[i]));
        if (status != KN_OK)
            kn_fail(error, status, "state '%s': %s", s->names[i], kn_states_error(s->states));
        else if (s->types[i] != array->type && !round_all(s->types[i], array->type, bytes, array->count))
            status = kn_fail(error, KN_ERROR_NOT_FINITE, "weight '%s' has a number that is too large for %s",
                             s->names[i], kn_dtype_name(array->type));
        else
            status = kn_safetensors_writer_add(writer, bytes, (size_t)array->byte_count, error);
    }
    kn_release(&s->model->host, bytes);
    return status;
}

static kn_status write_file(saving *s, const char *path, const kn_model_save_params *params) {
    kn_error *error = &s->model->error;
    kn_safetensors_writer *writer = NULL;
    kn_text_pair *pairs;
    size_t pair_count;
    kn_status status = list_tensors(s, params->training);
    if (status == KN_OK) status = list_metadata(s, params, &pairs, &pair_count);
    if (status == KN_OK)
        status = kn_safetensors_writer_open(&s->model->host, path, s->tensors, s->count, pairs, pair_count,
                                            &writer, error);
    if (status != KN_OK) return status;
    status = write_tensors(s, writer);
    if (status == KN_OK) return kn_safetensors_writer_commit(&writer, error);
    kn_safetensors_writer_abandon(&writer);
    return status;
}

/* What an adapter computes, besides its tensors. */
static void describe_adapter(const kn_model *model, char text[80]) {
    text[0] = '\0';
    if (model->adapter)
        snprintf(text, 80, "rank=%lld scale=%.17g%s", (long long)model->adapter->rank, model->adapter->scale,
                 kn_model_row_order(model));
}

static kn_status save_saved(kn_model *model, const char *path, kn_states *states,
                            const kn_model_save_params *params) {
    if (!states) return kn_fail(&model->error, KN_ERROR_ARGUMENT, "kn_model_save: states is NULL");
    if (params->weights != KN_FLOAT32 && !kn_is_half(params->weights))
        return kn_fail(&model->error, KN_ERROR_ARGUMENT,
                       "kn_model_save: weights as %s; expected float32, float16 or bfloat16",
                       kn_dtype_name(params->weights));
    saving s = {.model = model, .states = states, .weights = params->weights};
    kn_graph *graph = NULL;
    kn_arena_init(&s.arena, &model->host);
    const bool by_hand = model->origin == &kn_saved_origin || !strcmp(model->origin->name, KN_GRAPH_ORIGIN);
    describe_adapter(model, s.adapter);
    if (!model->text && !model->adapter && by_hand && kn_model_copy_graph(model, &graph) == KN_OK)
        s.graph_text = kn_graph_text_write(&model->host, graph);
    kn_error_clear(&model->error);
    kn_status status = write_file(&s, path, params);
    kn_release(&model->host, s.graph_text);
    kn_graph_destroy(&graph);
    kn_arena_finish(&s.arena);
    return status;
}

/* Writes the model as a file of an origin. `call` is the public function, for messages. */
static kn_status save_as(kn_model *model, const char *origin, const char *call, const char *path,
                         kn_states *states, const kn_model_save_params *params) {
    if (!model) return KN_ERROR_ARGUMENT;
    if (model->status != KN_OK) return model->status;
    kn_error_clear(&model->error);
    if (!path) return kn_fail(&model->error, KN_ERROR_ARGUMENT, "%s: path is NULL", call);
    if (states && kn_model_need_bound(model, call) != KN_OK) return model->error.status;
    kn_model_save_params given = KN_MODEL_SAVE_DEFAULTS;
    if (KN_PARAMS_TAKE(kn_model_save_params, &given, params, &model->error) != KN_OK)
        return model->error.status;
    for (int i = 0; i < kn_model_origin_count; i++)
        if (!strcmp(kn_model_origins[i]->name, origin))
            return kn_model_origins[i]->save(model, path, states, &given);
    return kn_fail(&model->error, KN_ERROR_UNSUPPORTED, "%s: no origin is called '%s'", call, origin);
}

kn_status kn_model_save(kn_model *model, const char *path, kn_states *states,
                        const kn_model_save_params *params) {
    return save_as(model, kn_saved_origin.name, "kn_model_save", path, states, params);
}

kn_status kn_model_save_onnx(kn_model *model, const char *path, kn_states *states,
                             const kn_model_save_params *params) {
    if (model && model->adapter && !model->text && strcmp(model->origin->name, KN_GRAPH_ORIGIN) != 0)
        return kn_fail(
            &model->error, KN_ERROR_UNSUPPORTED,
            "kn_model_save_onnx: the adapter of model '%s', which is from an ONNX file, cannot be saved "
            "as ONNX; use kn_model_save",
            model->name);
    return save_as(model, "ONNX", "kn_model_save_onnx", path, states, params);
}

kn_status kn_model_save_gguf(kn_model *model, const char *path, kn_states *states,
                             const kn_model_save_params *params) {
    return save_as(model, "GGUF", "kn_model_save_gguf", path, states, params);
}

kn_status kn_model_save_folder(kn_model *model, const char *path, kn_states *states,
                               const kn_model_save_params *params) {
    return save_as(model, "Hugging Face folder", "kn_model_save_folder", path, states, params);
}

/* ---- loading ------------------------------------------------------------------------------------------- */

typedef struct loading {
    kn_model *model;
    kn_states *states;
    const kn_tensors_from *from;
    const kn_safetensors *file;
    const char *path;
    kn_model_load_params params;
    bool complete;       /* a weight that is missing in the file is an error */
    const char *adapter; /* what the file's adapter computes; NULL: it has none */
    int found, loaded;
    /* Converted elements of one tensor at a time, in memory for the largest: freeing and allocating it for
     * each would make the C library keep the memory of the states' copies. */
    void *converted;
    uint64_t room;
} loading;

/* Whether the file need not have a weight: the file of an adapter lacks what it does not train, and others
 * lack adapters. */
static bool may_be_missing(const loading *l, const kn_value *value) {
    const kn_adapter *adapter = l->model->adapter;
    if (l->params.incomplete || !l->complete) return true;
    if (!adapter) return false;
    for (size_t i = 0; i < adapter->layer_count; i++)
        if (value == adapter->layers[i].a || value == adapter->layers[i].b) return !l->adapter;
    return l->adapter != NULL;
}

/* The tensor for a weight, if the file has a matching one; otherwise NULL, and a failure unless the weight
 * may be missing. */
static const kn_safetensor *fitting(loading *l, const kn_value *value) {
    const char *name = kn_value_name(value);
    const kn_safetensor *tensor = kn_safetensors_find(l->file, name);
    kn_tensor_info info = info_of(value);
    char has[160], wants[160];
    if (!tensor) {
        if (!may_be_missing(l, value))
            kn_fail(&l->model->error, KN_ERROR_NOT_FOUND, "%s: tensor '%s' of model '%s' is missing", l->path,
                    name, l->model->name);
        return NULL;
    }
    if (same_shape(&info, tensor->array.rank, tensor->array.shape) &&
        (info.dtype == tensor->array.type ||
         (kn_dtype_is_float(info.dtype) && kn_dtype_is_float(tensor->array.type))))
        return tensor;
    if (!l->params.incomplete)
        kn_fail(&l->model->error, info.dtype == tensor->array.type ? KN_ERROR_SHAPE : KN_ERROR_DTYPE,
                "%s: tensor '%s' is %s %s; expected %s %s for model '%s'", l->path, name,
                kn_array_type_name(tensor->array.type), kn_array_shape_text(&tensor->array, has, sizeof has),
                kn_dtype_name(info.dtype), shape_text(&info, wants, sizeof wants), l->model->name);
    return NULL;
}

static kn_status set_state(loading *l, const char *name, const kn_tensor_info *info, const void *bytes,
                           uint64_t count) {
    kn_status status = kn_states_set(l->states, name, info, bytes, (size_t)count);
    if (status != KN_OK)
        return kn_fail(&l->model->error, status, "%s: tensor '%s': %s", l->path, name,
                       kn_states_error(l->states));
    l->loaded++;
    return KN_OK;
}

/* Whether the file has no such bytes. */
static bool is_made(const kn_array *array) {
    return !array->bytes && array->byte_count > 0;
}

static bool is_converted(const kn_tensor_info *info, const kn_array *array) {
    return info->dtype != array->type || is_made(array);
}

/* Sets a state to blocks that stay in their file until they are used. */
static kn_status set_blocks(loading *l, const char *name, const kn_tensor_info *info,
                            const kn_safetensor *tensor) {
    const kn_file_blocks blocks = l->from->blocks(l->from->user, tensor);
    kn_status status = kn_states_set_blocks(l->states, name, info, &blocks);
    if (status != KN_OK)
        return kn_fail(&l->model->error, status, "%s: tensor '%s': %s", l->path, name,
                       kn_states_error(l->states));
    l->loaded++;
    return KN_OK;
}

/* Sets a state from a tensor of the same shape, in blocks or converted between floating-point types. */
static kn_status set_array(loading *l, const char *name, const kn_tensor_info *info,
                           const kn_safetensor *tensor) {
    const kn_array *array = &tensor->array;
    uint64_t bytes;
    if (is_made(array) && l->from->blocks) return set_blocks(l, name, info, tensor);
    if (!is_converted(info, array)) return set_state(l, name, info, array->bytes, array->byte_count);
    if (!kn_tensor_bytes(info, &bytes) || bytes > SIZE_MAX) {
        kn_fail_memory(&l->model->error, SIZE_MAX);
        return kn_fail_in(&l->model->error, "'%s'", name);
    }
    if (!l->converted || bytes > l->room) {
        kn_release(&l->model->host, l->converted);
        if (bytes > l->room) l->room = bytes;
        l->converted = kn_allocate(&l->model->host, (size_t)(l->room ? l->room : 1), 1);
        if (!l->converted) return kn_fail_memory(&l->model->error, (size_t)l->room);
    }
    if (is_made(array))
        l->from->widen(l->from->user, tensor, l->converted);
    else
        for (uint64_t i = 0; i < array->count; i++)
            kn_element_set(info->dtype, l->converted, (int64_t)i, kn_array_number(array, i));
    return set_state(l, name, info, l->converted, bytes);
}

/* Checks (`set` false) or sets all weights of the graph. */
static kn_status load_weights(loading *l, bool set) {
    const kn_graph *graph = l->model->graph;
    for (size_t i = 0; i < graph->value_count; i++) {
        if (!kn_model_is_weight(graph->values[i])) continue;
        const kn_safetensor *tensor = fitting(l, graph->values[i]);
        if (l->model->error.status != KN_OK) return l->model->error.status;
        l->found += tensor != NULL;
        if (set) store_as(graph->values[i], tensor);
        const kn_tensor_info info = info_of(graph->values[i]);
        uint64_t bytes;
        const bool converted =
            tensor && is_converted(&info, &tensor->array) && !(is_made(&tensor->array) && l->from->blocks);
        if (converted && kn_tensor_bytes(&info, &bytes) && bytes > l->room) l->room = bytes;
        kn_status status =
            set && tensor ? set_array(l, kn_value_name(graph->values[i]), &info, tensor) : KN_OK;
        if (status != KN_OK) return status;
    }
    return KN_OK;
}

/* The type and shape of a tensor. A moment that a plan stores in a different floating-point type has that
 * type. */
static kn_tensor_info info_of_training(const loading *l, const char *name, const kn_array *array) {
    kn_tensor_info info = {.dtype = array->type, .rank = array->rank}, planned;
    memcpy(info.shape, array->shape, sizeof info.shape);
    for (size_t i = 0; i < kn_states_count(l->states) && kn_dtype_is_float(info.dtype); i++) {
        const char *known = kn_states_at(l->states, i, &planned);
        if (!known || strcmp(known, name)) continue;
        if (kn_dtype_is_float(planned.dtype) && same_shape(&planned, info.rank, info.shape)) return planned;
        break;
    }
    return info;
}

static kn_status load_training(loading *l) {
    const size_t prefix = strlen(TRAINING_PREFIX);
    for (size_t i = 0; i < l->file->count; i++) {
        const kn_safetensor *tensor = &l->file->tensors[i];
        if (strncmp(tensor->name, TRAINING_PREFIX, prefix)) continue;
        const kn_tensor_info info = info_of_training(l, tensor->name + prefix, &tensor->array);
        kn_status status = set_array(l, tensor->name + prefix, &info, tensor);
        if (status != KN_OK) return status;
    }
    return KN_OK;
}

/* An adapter is loaded into a model with the same adapter. */
static kn_status check_adapter(const loading *l) {
    kn_model *model = l->model;
    char own[80];
    describe_adapter(model, own);
    if (!l->adapter || !strcmp(own, l->adapter)) return KN_OK;
    return kn_fail(&model->error, KN_ERROR_ARGUMENT,
                   "%s: has an adapter with %.80s, but model '%s' has %s%s; expected the same, as "
                   "kn_model_adapt and --lora make it",
                   l->path, l->adapter, model->name, own[0] ? "one with " : "none", own);
}

kn_status kn_model_load_tensors(kn_model *model, const kn_tensors_from *from, kn_states *states,
                                const kn_model_load_params *params, int *loaded) {
    loading l = {.model = model,
                 .states = states,
                 .from = from,
                 .file = from->file,
                 .path = from->path,
                 .params = *params,
                 .complete = from->complete};
    l.adapter = kn_safetensors_metadata(from->file, ADAPTER_KEY);
    kn_status status = check_adapter(&l);
    if (status == KN_OK) status = load_weights(&l, false);
    if (status == KN_OK && l.found == 0 && from->owned && kn_graph_parameter_count(model->graph) > 0)
        status = kn_fail(&model->error, KN_ERROR_NOT_FOUND, "%s: has no parameters of its model", l.path);
    if (status == KN_OK) status = load_weights(&l, true);
    if (status == KN_OK && params->training) status = load_training(&l);
    kn_release(&model->host, l.converted);
    if (loaded) *loaded = l.loaded;
    return status;
}

kn_status kn_model_load_file(kn_model *model, const char *path, kn_states *states,
                             const kn_model_load_params *params, int *loaded) {
    kn_safetensors file;
    kn_status status = kn_safetensors_open(&model->host, path, &file, &model->error);
    if (status != KN_OK) return status;
    const kn_tensors_from from = {.file = &file, .path = path, .complete = true};
    status = kn_safetensors_check(&file, path, &model->error);
    if (status == KN_OK) status = kn_model_load_tensors(model, &from, states, params, loaded);
    kn_safetensors_close(&model->host, &file);
    return status;
}

/* A weight that is missing in the model's own file was never used: it keeps its initial value. */
static kn_status load_saved(kn_model *model, const char *path, kn_states *states,
                            const kn_model_load_params *params, int *loaded) {
    if (path) return kn_model_load_file(model, path, states, params, loaded);
    const kn_tensors_from from = {.file = model->origin_data, .path = model->source, .owned = true};
    return kn_model_load_tensors(model, &from, states, params, loaded);
}

kn_status kn_model_load(kn_model *model, const char *path, kn_states *states,
                        const kn_model_load_params *params, int *loaded) {
    if (!model) return KN_ERROR_ARGUMENT;
    if (model->status != KN_OK) return model->status;
    kn_error_clear(&model->error);
    if (!states) return kn_fail(&model->error, KN_ERROR_ARGUMENT, "kn_model_load: states is NULL");
    if (!path && !model->has_weights)
        return kn_fail(&model->error, KN_ERROR_ARGUMENT,
                       "kn_model_load: model '%s' was not opened from a file with weights; expected a path",
                       model->name);
    kn_model_load_params given = KN_MODEL_LOAD_DEFAULTS;
    if (KN_PARAMS_TAKE(kn_model_load_params, &given, params, &model->error) != KN_OK)
        return model->error.status;
    if (kn_model_need_bound(model, "kn_model_load") != KN_OK) return model->error.status;
    if (given.lacking && (path || !model->origin->bind))
        return kn_fail(&model->error, KN_ERROR_ARGUMENT,
                       "kn_model_load: 'lacking' is only for the weights of an ONNX file, with path NULL");
    return (model->origin->load ? model->origin->load : kn_model_load_file)(model, path, states, &given,
                                                                            loaded);
}

const kn_model_origin kn_saved_origin = {
    .name = "safetensors",
    .endings = ".safetensors",
    .recognizes = kn_saved_is,
    .open = open_saved,
    .load = load_saved,
    .save = save_saved,
    .close = close_saved,
};
