/* Model handles: created from a name, a text or a file, and queried. */
#include <string.h>

#include "models/models_private.h"

KN_DEFINE_INIT(kn_model_params, KN_MODEL_DEFAULTS)

/* ---- creation ------------------------------------------------------------------------------------------ */

/* An empty model. `source` is its name in messages, unless params give a name. NULL when out of memory. */
static kn_model *model_new(const kn_model_params *params, const char *source) {
    kn_model_params given = KN_MODEL_DEFAULTS;
    kn_error error = {0};
    KN_PARAMS_TAKE(kn_model_params, &given, params, &error);
    if (!given.settings) given.setting_count = 0;
    kn_host host = kn_host_with(&given.allocator);
    host.log = given.log;
    kn_model *model = kn_allocate(&host, 1, sizeof *model);
    if (!model) return NULL;
    model->host = host;
    model->error = error;
    model->params = given;
    model->origin = &kn_text_origin;
    model->users = 1;
    kn_arena_init(&model->arena, &model->host);
    model->source = kn_arena_text(&model->arena, given.source ? given.source : source);
    if (!model->source) kn_model_destroy(&model);
    return model;
}

/* Ends every function that creates a model: a failure is stored in the handle. */
static kn_model *finish(kn_model *model) {
    if (!model) return NULL;
    if (model->error.status == KN_OK && !model->unbound) kn_model_list_weights(model);
    model->status = model->error.status;
    model->params = (kn_model_params){.size = 0}; /* the caller owns what they point to */
    return model;
}

static kn_model *refuse(kn_model *model, kn_status status, const char *text) {
    kn_fail(&model->error, status, "%s", text);
    return finish(model);
}

/* The file name without its extension: "nets/tiny.koine" becomes tiny. */
static const char *name_of_path(kn_model *model, const char *path) {
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    size_t length = strcspn(name, ".");
    return kn_arena_format(&model->arena, "%.*s", length > 200 ? 200 : (int)length, name);
}

bool kn_model_read(kn_model *model, const char *text, size_t bytes) {
    model->text = kn_arena_take(&model->arena, 1, sizeof *model->text);
    if (!model->text) return kn_model_no_memory(model);
    if (!kn_model_read_lines(model, text, bytes) || !kn_model_check(model) || !kn_model_build(model) ||
        !kn_model_print(model))
        return false;
    if (!model->name) model->name = name_of_path(model, model->source);
    return model->name || kn_model_no_memory(model);
}

kn_model *kn_model_parse(const char *text, const kn_model_params *params) {
    kn_model *model = model_new(params, "text");
    if (!model || model->error.status != KN_OK) return finish(model);
    if (!text) return refuse(model, KN_ERROR_ARGUMENT, "kn_model_parse: the text is NULL");
    kn_model_read(model, text, strlen(text));
    return finish(model);
}

static void fail_unknown(kn_model *model, const char *text, bool file) {
    kn_text list;
    char *name = kn_arena_text(&model->arena, text);
    if (name) name[strcspn(name, ",")] = '\0';
    if (file && strpbrk(text, "./")) { /* characters that no model name contains */
        kn_fail(&model->error, KN_ERROR_NOT_FOUND, "no such file: '%s'", text);
        return;
    }
    if (!name) {
        kn_model_no_memory(model);
        return;
    }
    char found[KN_FOUND_BYTES], guess[KN_GUESS_BYTES];
    const char *names[128];
    size_t count = 0;
    kn_text_init(&list, &model->host);
    for (size_t i = 0; i < kn_zoo_count() && count < KN_COUNT_OF(names); i++) {
        kn_text_format(&list, "%s%s", i ? ", " : "", kn_zoo_name_at(i));
        names[count++] = kn_zoo_name_at(i);
    }
    kn_fail(&model->error, KN_ERROR_NOT_FOUND, "found %s, expected %sa model name: %s%s",
            kn_found(name, found), file ? "a file or " : "", list.data, kn_guess(name, names, count, guess));
    kn_text_finish(&list);
}

/* Adds the settings after a name, "layers=2,width=96", before the caller's settings, which take precedence.
 */
static bool read_settings(kn_model *model, const char *text) {
    size_t count = 1;
    for (const char *at = text; *at; at++)
        count += *at == ',';
    kn_model_setting *settings =
        kn_arena_take(&model->arena, count + model->params.setting_count, sizeof *settings);
    if (!settings) return kn_model_no_memory(model);
    for (size_t i = 0; i < count; i++) {
        size_t bytes = strcspn(text, ","), name = strcspn(text, "=,");
        const char *end = text;
        settings[i].name = kn_arena_format(&model->arena, "%.*s", (int)name, text);
        if (!settings[i].name) return kn_model_no_memory(model);
        if (name == 0 || name == bytes || !kn_parse_int64(text + name + 1, &end, &settings[i].value) ||
            end != text + bytes)
            return kn_fail(&model->error, KN_ERROR_ARGUMENT,
                           "%s: found '%.*s', expected NAME=NUMBER, separated by commas", model->source,
                           (int)bytes, text) == KN_OK;
        text += bytes + 1;
    }
    if (model->params.setting_count)
        memcpy(settings + count, model->params.settings, model->params.setting_count * sizeof *settings);
    model->params.settings = settings;
    model->params.setting_count += count;
    return true;
}

kn_model *kn_model_create_named(const char *name, const kn_model_params *params) {
    kn_model *model = model_new(params, name ? name : "zoo");
    if (!model || model->error.status != KN_OK) return finish(model);
    if (!name) return refuse(model, KN_ERROR_ARGUMENT, "kn_model_create_named: the name is NULL");
    int position = kn_zoo_find(name);
    if (position < 0)
        fail_unknown(model, name, false);
    else if (!strchr(name, ',') || read_settings(model, strchr(name, ',') + 1))
        kn_model_read(model, kn_zoo_text_at(position), kn_zoo_files[position].size);
    return finish(model);
}

static bool open_text(kn_model *model, const char *path) {
    kn_file_view view;
    if (kn_file_open_view(&model->host, path, &view, &model->error) != KN_OK) return false;
    const char *text = view.count ? (const char *)view.bytes : "";
    bool good = kn_model_read(model, text, view.count > SIZE_MAX ? SIZE_MAX : (size_t)view.count);
    kn_file_close_view(&model->host, &view);
    return good;
}

const kn_model_origin kn_text_origin = {.name = "text", .endings = ".koine", .open = open_text};

/* Whether a path ends in one of several extensions, separated by spaces. */
static bool ends_in(const char *path, const char *endings) {
    const size_t length = strlen(path);
    for (const char *at = endings; *at; at += *at == ' ') {
        const size_t own = strcspn(at, " ");
        if (length > own && !memcmp(path + length - own, at, own)) return true;
        at += own;
    }
    return false;
}

/* Chooses by the first bytes, or by the name if a file is damaged or truncated. */
static const kn_model_origin *find_origin(const kn_file_view *view, const char *path) {
    int i = 0, last = kn_model_origin_count - 1;
    while (i < last && !kn_model_origins[i]->recognizes(view->bytes, view->count))
        i++;
    if (i < last) return kn_model_origins[i];
    for (i = 0; i < last && !ends_in(path, kn_model_origins[i]->endings);)
        i++;
    return kn_model_origins[i];
}

/* The first origin of folders. */
static const kn_model_origin *folder_origin(void) {
    for (int i = 0; i < kn_model_origin_count; i++)
        if (kn_model_origins[i]->folders) return kn_model_origins[i];
    return &kn_text_origin;
}

static bool open_file(kn_model *model, const char *path) {
    kn_file_view view;
    if (kn_path_is_folder(path)) {
        model->origin = folder_origin();
    } else {
        if (kn_file_open_view(&model->host, path, &view, &model->error) != KN_OK) return false;
        model->origin = find_origin(&view, path);
        kn_file_close_view(&model->host, &view);
    }
    if (!model->origin->open(model, path)) return false;
    if (!model->name) model->name = name_of_path(model, path);
    return model->name || kn_model_no_memory(model);
}

kn_model *kn_model_open(const char *name_or_path, const kn_model_params *params) {
    /* A file whose name looks like a name with settings is a file. */
    const bool file = name_or_path && strchr(name_or_path, ',') && kn_path_exists(name_or_path);
    if (name_or_path && !file && kn_zoo_find(name_or_path) >= 0)
        return kn_model_create_named(name_or_path, params);
    kn_model *model = model_new(params, name_or_path ? name_or_path : "model");
    if (!model || model->error.status != KN_OK) return finish(model);
    if (!name_or_path) return refuse(model, KN_ERROR_ARGUMENT, "kn_model_open: the name is NULL");
    if (kn_path_exists(name_or_path))
        open_file(model, name_or_path);
    else
        fail_unknown(model, name_or_path, true);
    return finish(model);
}

kn_model *kn_model_open_memory(const void *bytes, size_t count, const char *folder,
                               const kn_model_params *params) {
    kn_model *model = model_new(params, "model in memory");
    if (!model || model->error.status != KN_OK) return finish(model);
    if (!bytes) return refuse(model, KN_ERROR_ARGUMENT, "kn_model_open_memory: the bytes are NULL");
    const kn_file_view view = {.bytes = bytes, .count = count};
    const kn_model_origin *origin = find_origin(&view, "model.onnx");
    if (!origin->open_memory) {
        kn_fail(&model->error, KN_ERROR_UNSUPPORTED,
                "%s: the bytes are a file of kind '%s'; only ONNX files are opened from memory",
                model->source, origin->name);
        return finish(model);
    }
    model->origin = origin;
    if (origin->open_memory(model, bytes, count, folder) && !model->name)
        model->name = name_of_path(model, model->source);
    if (model->error.status == KN_OK && !model->name) kn_model_no_memory(model);
    return finish(model);
}

/* A graph has no text and no file: its weights come from files written by kn_model_save. */
static const kn_model_origin graph_origin = {.name = KN_GRAPH_ORIGIN, .endings = ""};

bool kn_model_list_values(kn_model *model, const kn_graph *graph) {
    model->input_count = kn_graph_input_count(graph), model->output_count = kn_graph_output_count(graph);
    model->inputs = kn_arena_take(&model->arena, (size_t)model->input_count + 1, sizeof *model->inputs);
    model->outputs = kn_arena_take(&model->arena, (size_t)model->output_count + 1, sizeof *model->outputs);
    if (!model->inputs || !model->outputs) return kn_model_no_memory(model);
    for (int i = 0; i < model->input_count; i++)
        model->inputs[i] = kn_graph_input_at(graph, i);
    for (int i = 0; i < model->output_count; i++)
        model->outputs[i] = kn_graph_output_at(graph, i);
    return true;
}

kn_model *kn_model_create_from_graph(kn_graph **graph, const kn_model_params *params) {
    kn_model *model = model_new(params, "graph");
    if (!model || model->error.status != KN_OK) return finish(model);
    if (!graph || !*graph)
        return refuse(model, KN_ERROR_ARGUMENT, "kn_model_create_from_graph: graph is NULL");
    if (kn_graph_status(*graph) != KN_OK)
        return refuse(model, kn_graph_status(*graph), kn_graph_error(*graph));
    if (kn_graph_output_count(*graph) == 0)
        return refuse(model, KN_ERROR_ARGUMENT, "the graph has no outputs; mark its results with kn_output");
    model->origin = &graph_origin;
    model->name = model->source;
    model->graph = *graph;
    kn_model_list_values(model, *graph);
    finish(model);
    if (model->status == KN_OK)
        *graph = NULL;
    else
        model->graph = NULL;
    return model;
}

kn_status kn_model_copy_graph(kn_model *model, kn_graph **graph) {
    if (graph) *graph = NULL;
    if (!model) return KN_ERROR_ARGUMENT;
    if (model->status != KN_OK) return model->status;
    kn_error_clear(&model->error);
    if (!graph) return kn_fail(&model->error, KN_ERROR_ARGUMENT, "kn_model_copy_graph: graph is NULL");
    /* The inputs are copied first, as outputs, so that their order and unused inputs are preserved. */
    const size_t inputs = (size_t)model->input_count, outputs = (size_t)model->output_count;
    kn_value **values = kn_allocate(&model->host, 2 * (inputs + outputs), sizeof(kn_value *));
    if (!values) return kn_fail_memory(&model->error, 2 * (inputs + outputs) * sizeof(kn_value *));
    memcpy(values, model->inputs, inputs * sizeof(kn_value *));
    memcpy(values + inputs, model->outputs, outputs * sizeof(kn_value *));
    kn_status status = kn_graph_copy(model->graph, values, inputs + outputs, graph, values + inputs + outputs,
                                     &model->error);
    if (status == KN_OK) {
        kn_graph *copy = *graph;
        memmove(copy->outputs, copy->outputs + inputs, outputs * sizeof(kn_value *));
        copy->output_count = outputs;
    }
    kn_release(&model->host, values);
    return status;
}

kn_model *kn_model_bind_part(kn_model *model, kn_file_part part, const char *only,
                             const kn_model_given *given, size_t given_count) {
    kn_model_params params = KN_MODEL_DEFAULTS;
    if (model) params.allocator = model->host.allocator;
    if (model) params.log = model->host.log;
    kn_model *bound = model_new(&params, model ? model->source : "model");
    if (!bound || bound->error.status != KN_OK) return finish(bound);
    const kn_status status = model ? model->status : KN_ERROR_ARGUMENT;
    if (status != KN_OK || !model->origin->bind || (given_count && !given)) {
        if (model && status != KN_OK) return refuse(bound, status, model->error.text);
        kn_fail(&bound->error, KN_ERROR_ARGUMENT, "kn_model_bind: %s",
                !model                  ? "the model is NULL"
                : given_count && !given ? "the arrays are NULL"
                                        : "only ONNX models can be bound");
        return finish(bound);
    }
    bound->origin = model->origin;
    bound->task = model->task;
    bound->root = model->root ? model->root : model;
    bound->root->users++;
    bound->name = kn_arena_text(&bound->arena, model->name);
    bound->part = part;
    if (only) bound->only = kn_arena_text(&bound->arena, only);
    if ((bound->name && (bound->only || !only)) || kn_model_no_memory(bound))
        bound->origin->bind(bound, given, given_count);
    return finish(bound);
}

kn_model *kn_model_bind(kn_model *model, const kn_model_given *given, size_t given_count) {
    return kn_model_bind_part(model, KN_PART_WHOLE, NULL, given, given_count);
}

bool kn_model_output_has_strings_at(const kn_model *model, size_t position) {
    return model && model->output_texts && position < (size_t)model->output_count &&
           model->output_texts[position];
}

const char *kn_model_string(const kn_model *model, int64_t number) {
    return model && number >= 0 && (uint64_t)number < model->text_count ? model->texts[number] : NULL;
}

static void release_model(kn_model *model) {
    kn_host host = model->host;
    kn_text_model *text = model->text;
    kn_model *root = model->root;
    kn_graph_destroy(&model->graph);
    if (model->origin_data) model->origin->close(model);
    if (text) {
        kn_release(&host, text->blocks);
        kn_release(&host, text->made);
    }
    kn_release(&host, model->weights);
    kn_arena_finish(&model->arena);
    kn_release(&host, model);
    if (root && --root->users == 0) release_model(root);
}

/* Data that bound models read from their root is freed with the last of them. */
void kn_model_destroy(kn_model **model) {
    if (!model || !*model) return;
    if ((*model)->root || --(*model)->users == 0) release_model(*model);
    *model = NULL;
}

/* ---- queries ------------------------------------------------------------------------------------------- */

static bool usable(const kn_model *model) {
    return model && model->status == KN_OK;
}

kn_status kn_model_status(const kn_model *model) {
    return model ? model->status : KN_ERROR_MEMORY;
}

const char *kn_model_error(const kn_model *model) {
    return model ? model->error.text : "out of host memory";
}

const char *kn_model_missing_value(const kn_model *model) {
    return usable(model) ? model->missing : NULL;
}

const char *kn_model_name(const kn_model *model) {
    return usable(model) ? model->name : "";
}

const char *kn_model_text(const kn_model *model) {
    return usable(model) && model->text ? model->text->canonical : "";
}

kn_task kn_model_task(const kn_model *model) {
    return usable(model) ? model->task : KN_TASK_CLASSIFICATION;
}

const char *kn_model_augmentation(const kn_model *model) {
    return usable(model) && model->text && model->text->augmentation ? model->text->augmentation : "";
}

kn_graph *kn_model_graph(const kn_model *model) {
    return usable(model) ? model->graph : NULL;
}

size_t kn_model_input_count(const kn_model *model) {
    return usable(model) ? (size_t)model->input_count : 0;
}

kn_value *kn_model_input_at(const kn_model *model, size_t position) {
    return position < kn_model_input_count(model) ? model->inputs[position] : NULL;
}

size_t kn_model_output_count(const kn_model *model) {
    return usable(model) ? (size_t)model->output_count : 0;
}

kn_value *kn_model_output_at(const kn_model *model, size_t position) {
    return position < kn_model_output_count(model) ? model->outputs[position] : NULL;
}

bool kn_model_setting_value(const kn_model *model, const char *name, int64_t *value) {
    if (!usable(model) || !model->text || !name) return false;
    const kn_variables settings = kn_settings_of(model);
    const kn_variable *setting = kn_variable_find(&settings, name, strlen(name));
    if (setting && value) *value = setting->number;
    return setting != NULL;
}

const char *kn_model_setting_name_at(const kn_model *model, size_t position) {
    const kn_text_model *text = usable(model) ? model->text : NULL;
    return text && position < (size_t)text->setting_count ? text->settings[position].name : NULL;
}

int kn_model_pin(kn_model *model, const char *pattern, const char *device) {
    int count = 0;
    if (!usable(model) || !pattern) return 0;
    kn_error_clear(&model->error);
    if (kn_model_need_bound(model, "kn_model_pin") != KN_OK) return 0;
    if (device && !*device) {
        kn_fail(&model->error, KN_ERROR_ARGUMENT, "'%s': the device name of a pin is empty", pattern);
        return 0;
    }
    if (!model->text || !model->text->made_count) {
        count = kn_graph_pin(model->graph, pattern, device);
        kn_status status = kn_graph_status(model->graph);
        if (status != KN_OK) kn_fail(&model->error, status, "%s", kn_graph_error(model->graph));
        return count;
    }
    const char *name = device ? kn_arena_text(&model->graph->arena, device) : NULL;
    if (device && !name) {
        kn_fail_memory(&model->error, strlen(device) + 1);
        return 0;
    }
    for (size_t i = 0; i < model->text->made_count; i++) {
        const kn_made_nodes *made = &model->text->made[i];
        if (!kn_pattern_fits(pattern, made->path)) continue;
        for (size_t k = made->first; k < made->end; k++)
            model->graph->nodes[k]->pin = name;
        count++;
    }
    return count;
}

const char *kn_model_input_name_at(const kn_model *model, size_t position) {
    const kn_value *value = kn_model_input_at(model, position);
    return value && model->input_names ? model->input_names[position] : kn_value_name(value);
}

const char *kn_model_output_name_at(const kn_model *model, size_t position) {
    const kn_value *value = kn_model_output_at(model, position);
    if (position >= kn_model_output_count(model)) return "";
    return model->output_names ? model->output_names[position] : kn_value_name(value);
}

uint64_t kn_model_parameter_elements(const kn_model *model) {
    uint64_t sum = 0;
    const kn_graph *graph = kn_model_graph(model);
    for (size_t i = 0; graph && i < graph->value_count; i++) {
        const kn_value *value = graph->values[i];
        int64_t elements = value->kind == KN_VALUE_STATE && value->role == KN_STATE_PARAMETER
                               ? kn_shape_elements(&value->shape)
                               : 0;
        if (elements > 0) sum += (uint64_t)elements;
    }
    return sum;
}

double kn_model_flops(const kn_model *model) {
    const kn_graph *graph = kn_model_graph(model);
    kn_graph *bound = NULL;
    double flops = 0;
    int count = kn_model_output_count(model), symbols = 0;
    if (!graph || model->unbound) return 0;
    while (kn_graph_symbol(graph, symbols))
        symbols++;
    kn_binding *bindings = kn_allocate(&model->host, (size_t)symbols + 1, sizeof *bindings);
    kn_value **outputs = bindings ? kn_allocate(&model->host, (size_t)count + 1, sizeof(kn_value *)) : NULL;
    for (int i = 0; bindings && i < symbols; i++)
        bindings[i] = (kn_binding){kn_graph_symbol(graph, i), 1};
    const kn_bind_request request = {.bindings = bindings, .binding_count = (size_t)symbols};
    if (outputs &&
        kn_graph_bind(graph, model->outputs, (size_t)count, &request, &bound, outputs, NULL) == KN_OK)
        for (size_t i = 0; i < bound->node_count; i++) {
            kn_cost cost;
            kn_node_cost(bound->nodes[i], &cost);
            flops += cost.flops;
        }
    kn_graph_destroy(&bound);
    kn_release(&model->host, bindings);
    kn_release(&model->host, outputs);
    return flops;
}
