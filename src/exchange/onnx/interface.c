/* The interface of a file's graph: its inputs with their dynamic sizes, the arrays that the caller gave, and
 * its outputs. */
#include "exchange/onnx/import.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

/* Makes a name of the file valid as a symbol of a graph, in the arena. */
static const char *symbol_of(kn_import *import, const char *name) {
    if (import->batch && !strcmp(import->batch, name)) return "batch";
    bool first = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') || *name == '_';
    char *clean = kn_arena_format(import->arena, "%s%.200s", first ? "" : "n", name);
    for (char *c = clean; c && *c; c++) {
        bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9');
        if (!letter) *c = '_';
    }
    return clean;
}

static bool is_initializer(const kn_onnx_graph *graph, const char *name) {
    for (size_t i = 0; i < graph->initializer_count; i++)
        if (!strcmp(graph->initializers[i].name, name)) return true;
    return false;
}

/* The array that the caller gave for an input; an array without a name is for the first input. */
static const kn_model_given *find_given(const kn_import *import, const char *name) {
    const kn_onnx_graph *graph = &import->file->graph;
    size_t first = 0;
    while (first < graph->input_count && is_initializer(graph, graph->inputs[first].name))
        first++;
    const bool is_first = first < graph->input_count && !strcmp(graph->inputs[first].name, name);
    for (size_t i = 0; i < import->params->given_count; i++) {
        const char *given = import->params->given[i].name;
        if (given && *given ? !strcmp(given, name) : is_first) return &import->params->given[i];
    }
    return NULL;
}

static kn_status fail_input(kn_import *import, const char *name, kn_status status, const char *what) {
    kn_graph_fail(import->graph, status, "input '%.100s': %s", name, what);
    return status;
}

/* The caller's value for a dynamic size, by its name in the file or its symbol; -1 for none. */
static int64_t wanted_size(kn_import *import, const char *name, const char *symbol) {
    const kn_model_params *params = import->params;
    int64_t number = -1;
    for (size_t i = 0; i < params->setting_count; i++) {
        const char *wanted = params->settings[i].name;
        if (!wanted || (strcmp(wanted, symbol) && (!*name || strcmp(wanted, name)))) continue;
        number = params->settings[i].value;
        import->taken[i] = true;
    }
    return number;
}

kn_status kn_import_check_wanted(const kn_import *import) {
    const kn_model_params *params = import->params;
    kn_error *error = &import->model->error;
    for (size_t i = 0; i < params->setting_count; i++) {
        const kn_model_setting *wanted = &params->settings[i];
        if (import->taken[i] && wanted->value >= 0) continue;
        if (import->taken[i])
            return kn_fail(error, KN_ERROR_ARGUMENT,
                           "%s: size '%.100s' is set to %" PRId64 "; expected 0 or more",
                           import->model->source, wanted->name, wanted->value);
        const char *nearest = NULL, *symbols[20];
        char list[400] = "";
        size_t count = 0, used = 0;
        for (; count < KN_COUNT_OF(symbols) && (symbols[count] = kn_graph_symbol(import->graph, (int)count));
             count++)
            if (used < sizeof list)
                used += (size_t)snprintf(list + used, sizeof list - used, "%s%.100s", count ? ", " : "",
                                         symbols[count]);
        if (wanted->name) nearest = kn_nearest_word(wanted->name, symbols, count);
        return kn_fail(error, KN_ERROR_ARGUMENT, "%s: has no dynamic size '%.100s'; dynamic sizes: %s%s%s%s",
                       import->model->source, wanted->name ? wanted->name : "", count ? list : "none",
                       nearest ? " (did you mean '" : "", nearest ? nearest : "", nearest ? "'?)" : "");
    }
    return KN_OK;
}

static void keep_open(kn_model *model, const char *symbol, bool first) {
    int position = 0;
    while (position < model->open_size_count && strcmp(model->open_sizes[position].name, symbol))
        position++;
    if (!strcmp(symbol, "batch") || position == (int)KN_COUNT_OF(model->open_sizes)) return;
    if (position == model->open_size_count) model->open_sizes[model->open_size_count++].first = false;
    model->open_sizes[position].name = symbol;
    model->open_sizes[position].first = model->open_sizes[position].first || first;
}

/* Whether a dimension has a fixed size. Some exporters write -1 for a dynamic size. */
static bool has_number(const kn_onnx_dimension *dimension) {
    return dimension->known && dimension->length >= 0;
}

/* The name of a dynamic dimension, which equal sizes share; "" if it has none. Words without a letter or
 * digit, such as "?", are not names: each is a separate size. */
static const char *open_name(const kn_onnx_dimension *dimension) {
    if (dimension->known) return "";
    for (const char *c = dimension->name; *c; c++)
        if (isalnum((unsigned char)*c)) return dimension->name;
    return "";
}

/* "batch,3,28": sizes as in the file; dynamic sizes from the caller's settings and arrays. */
static kn_status input_shape(kn_import *import, const kn_onnx_value_info *input, const kn_model_given *given,
                             kn_text *text) {
    const kn_onnx_value_type *type = &input->type;
    if (!given && (!type->has_shape || type->rank > KN_MAX_RANK))
        return fail_input(import, input->name, KN_ERROR_UNSUPPORTED,
                          type->has_shape ? "has too many dimensions" : "has no rank in the file");
    if (given && type->has_shape && type->rank != (size_t)given->info.rank)
        kn_graph_fail(import->graph, KN_ERROR_SHAPE,
                      "input '%.100s': has %zu dimensions, but the array has %d", input->name, type->rank,
                      given->info.rank);
    int rank = given ? given->info.rank : (int)type->rank;
    for (int i = 0; i < rank && kn_graph_status(import->graph) == KN_OK; i++) {
        const kn_onnx_dimension *dimension = type->has_shape ? &type->shape[i] : NULL;
        const int64_t fed = given ? given->info.shape[i] : -1;
        if (i) kn_text_add(text, ",");
        const char *name = dimension ? open_name(dimension) : "";
        bool nameless_batch = import->batch && !*import->batch && i == 0 && !import->model->input_count;
        const char *symbol =
            *name            ? symbol_of(import, name)
            : nameless_batch ? "batch"
                             : kn_arena_format(import->arena, "%.150s_%d", symbol_of(import, input->name), i);
        if (!symbol) return kn_import_no_memory(import);
        int64_t number =
            dimension && has_number(dimension) ? dimension->length : wanted_size(import, name, symbol);
        if (fed >= 0 && number >= 0 && number != fed)
            kn_graph_fail(import->graph, KN_ERROR_SHAPE,
                          "input '%.100s': dimension %d has size %" PRId64 ", but the array has %" PRId64,
                          input->name, i, number, fed);
        if (number < 0) number = fed;
        if (number < 0) {
            keep_open(import->model, symbol, i == 0);
            import->open = true;
        }
        if (number >= 0)
            kn_text_format(text, "%" PRId64, number);
        else
            kn_text_add(text, symbol);
    }
    return kn_text_failed(text) ? kn_import_no_memory(import) : kn_graph_status(import->graph);
}

static bool is_open(const kn_onnx_value_info *info, size_t axis) {
    return info->type.kind == KN_ONNX_TENSOR && info->type.has_shape && axis < info->type.rank &&
           !has_number(&info->type.shape[axis]);
}

static bool has_size(const kn_onnx_value_info *info, const char *name) {
    for (size_t i = 0; info->type.kind == KN_ONNX_TENSOR && info->type.has_shape && i < info->type.rank; i++)
        if (!has_number(&info->type.shape[i]) && !strcmp(open_name(&info->type.shape[i]), name)) return true;
    return false;
}

const char *kn_import_find_batch(const kn_onnx_graph *graph) {
    const kn_onnx_value_info *first = NULL;
    for (size_t i = 0; i < graph->input_count; i++) {
        const kn_onnx_value_info *input = &graph->inputs[i];
        if (is_initializer(graph, input->name)) continue;
        if (has_size(input, "batch")) return NULL;
        if (!first && input->type.kind == KN_ONNX_TENSOR && input->type.has_shape) first = input;
    }
    if (!first) return NULL;
    if (is_open(first, 0)) return open_name(&first->type.shape[0]);
    for (size_t i = 0; i < graph->input_count; i++) {
        const kn_onnx_value_info *input = &graph->inputs[i];
        if (is_initializer(graph, input->name) || !is_open(input, 0)) continue;
        const char *name = open_name(&input->type.shape[0]);
        if (*name && (has_size(first, name) || (graph->output_count && is_open(&graph->outputs[0], 0) &&
                                                !strcmp(open_name(&graph->outputs[0].type.shape[0]), name))))
            return name;
    }
    return "batch";
}

/* The strings that the caller gave for an input. */
static kn_value *given_texts(kn_import *import, const char *name, const kn_model_given *given) {
    uint64_t count = 0;
    bool whole = kn_tensor_elements(&given->info, &count);
    for (uint64_t i = 0; whole && i < count; i++)
        whole = given->texts[i] != NULL;
    kn_onnx_string *strings = whole ? kn_arena_take(import->arena, (size_t)count + 1, sizeof *strings) : NULL;
    for (uint64_t i = 0; strings && i < count; i++)
        strings[i] = (kn_onnx_string){given->texts[i], strlen(given->texts[i])};
    if (strings) return kn_import_texts(import, strings, given->info.shape, given->info.rank);
    if (whole) return kn_graph_fail(import->graph, KN_ERROR_MEMORY, "out of host memory");
    return kn_graph_fail(import->graph, KN_ERROR_ARGUMENT,
                         "input '%.100s': a string is NULL, or a size is open", name);
}

/* Makes a sequence or an optional, whose element is *item for an optional that contains one. */
static kn_status hold(kn_import *import, kn_item *item, size_t count) {
    item->sequence = true;
    item->element_count = count;
    item->elements = kn_arena_take(import->arena, count + 1, sizeof *item->elements);
    for (size_t i = 0; item->elements && i < count; i++)
        if (!(item->elements[i] = kn_arena_take(import->arena, 1, sizeof **item->elements)))
            return kn_import_no_memory(import);
    return item->elements ? KN_OK : kn_import_no_memory(import);
}

/* The item for the elements that the caller gave for an input of this type: constants. */
static kn_status given_item(kn_import *import, const char *name, const kn_onnx_value_type *type,
                            const kn_model_given *given, kn_item *item) {
    static const kn_onnx_value_type unknown = {.kind = KN_ONNX_NO_KIND};
    const kn_onnx_value_type *inner = type->inner ? type->inner : &unknown;
    kn_status status = KN_OK;
    uint64_t bytes = 0;
    *item = (kn_item){.name = name};
    if (type->kind == KN_ONNX_SEQUENCE) {
        if (given->data || given->texts)
            return fail_input(import, name, KN_ERROR_ARGUMENT, "expected a sequence, found a tensor");
        status = hold(import, item, given->element_count);
        for (size_t i = 0; status == KN_OK && i < given->element_count; i++)
            status = given_item(import, name, inner, &given->elements[i], item->elements[i]);
        kn_item_type(inner->type, &item->dtype, &item->bits);
        return status;
    }
    if (type->kind == KN_ONNX_OPTIONAL) {
        const kn_model_given *own =
            given->element_count && inner->kind == KN_ONNX_TENSOR ? given->elements : given;
        const bool has = given->element_count || given->data || given->texts;
        if (inner->kind == KN_ONNX_TENSOR && given->element_count > 1)
            return fail_input(import, name, KN_ERROR_ARGUMENT,
                              "an optional tensor has more than one element");
        status = hold(import, item, has);
        if (status == KN_OK && has) status = given_item(import, name, inner, own, item->elements[0]);
        return status;
    }
    item->text = type->type == KN_ONNX_STRING;
    item->dtype = KN_INT64;
    if (type->kind != KN_ONNX_TENSOR || (!item->text && !kn_item_type(type->type, &item->dtype, &item->bits)))
        return fail_input(import, name, KN_ERROR_UNSUPPORTED, "has elements of an unsupported type");
    if (given->info.dtype != item->dtype)
        return fail_input(import, name, KN_ERROR_DTYPE, "an element has a different type");
    if (item->text ? !given->texts : !given->data || !kn_tensor_bytes(&given->info, &bytes))
        return fail_input(import, name, KN_ERROR_ARGUMENT, "an element has no data");
    item->value = item->text ? given_texts(import, name, given)
                             : kn_constant(import->graph, item->dtype,
                                           kn_import_list(import, given->info.shape, given->info.rank),
                                           given->data, (size_t)bytes);
    return kn_graph_status(import->graph);
}

static kn_status add_input(kn_import *import, int position, const kn_onnx_value_info *input) {
    const kn_model_given *given = find_given(import, input->name);
    kn_item item = {.given = given, .wanted = &import->wanted[position]};
    if (!given && is_initializer(&import->file->graph, input->name)) return KN_OK;
    if (input->type.kind == KN_ONNX_SEQUENCE || input->type.kind == KN_ONNX_OPTIONAL) {
        if (!given) import->needs_array = input->name;
        if (given && given_item(import, input->name, &input->type, given, &item) != KN_OK)
            return kn_graph_status(import->graph);
        item.sequence = true;
        return kn_import_define(import, input->name, &item);
    }
    if (input->type.kind != KN_ONNX_TENSOR)
        return fail_input(import, input->name, KN_ERROR_UNSUPPORTED, "is neither a tensor nor a sequence");
    item.text = input->type.type == KN_ONNX_STRING;
    if (item.text) {
        item.dtype = KN_INT64;
        if (!given || !given->texts) import->needs_array = input->name;
    } else if (!kn_item_type(input->type.type, &item.dtype, &item.bits)) {
        kn_graph_fail(import->graph, KN_ERROR_UNSUPPORTED, "input '%.100s' has the unsupported type %s",
                      input->name, kn_onnx_type_name(input->type.type));
        return KN_ERROR_UNSUPPORTED;
    }
    const bool widened = given && item.dtype == KN_INT64 && !item.text && given->info.dtype == KN_INT32;
    if (given && given->info.dtype != item.dtype && !widened)
        return fail_input(import, input->name, KN_ERROR_DTYPE, "the array has a different type");
    kn_text shape;
    kn_text_init(&shape, &import->model->host);
    kn_model *model = import->model;
    uint64_t bytes = 0;
    input_shape(import, input, given, &shape);
    if (item.text && given && given->texts) {
        item.value = given_texts(import, input->name, given);
    } else if (import->wanted[position]) {
        if (!given || !given->data || !kn_tensor_bytes(&given->info, &bytes))
            fail_input(import, input->name, KN_ERROR_ARGUMENT,
                       "its values must be known; expected an array with its whole shape");
        else
            item.value =
                kn_constant(import->graph, given->info.dtype, shape.data, given->data, (size_t)bytes);
        if (widened) item.value = kn_cast(item.value, KN_INT64);
    } else {
        const char *name = kn_import_name(import, input->name);
        bool narrow = import->params->narrow_integers && item.dtype == KN_INT64 && !item.text;
        item.value = kn_input(import->graph, name ? name : "", narrow ? KN_INT32 : item.dtype, shape.data);
        /* data sets call a single input "x" */
        if (import->one_input && !kn_value_failed(item.value)) kn_input_alias(item.value, "x");
        model->input_names[model->input_count] = input->name;
        model->inputs[model->input_count++] = item.value;
        if (narrow) item.value = kn_cast(item.value, KN_INT64);
    }
    kn_text_finish(&shape);
    return kn_import_define(import, input->name, &item);
}

/* Whether the model has a single input, which is then also called "x". */
static bool has_one_input(const kn_import *import) {
    const kn_onnx_graph *graph = &import->file->graph;
    int count = 0;
    for (size_t i = 0; i < graph->input_count; i++)
        count += !import->wanted[i] &&
                 (find_given(import, graph->inputs[i].name) || !is_initializer(graph, graph->inputs[i].name));
    return count == 1;
}

kn_status kn_import_add_inputs(kn_import *import) {
    const kn_onnx_graph *graph = &import->file->graph;
    kn_status status = KN_OK;
    import->model->input_count = import->model->open_size_count = 0;
    import->open = false;
    import->needs_array = NULL;
    import->one_input = has_one_input(import);
    for (size_t i = 0; status == KN_OK && i < graph->input_count; i++)
        status = add_input(import, (int)i, &graph->inputs[i]);
    return status;
}

kn_status kn_import_need_arrays(kn_import *import) {
    if (!import->needs_array) return KN_OK;
    import->lacks = true;
    return fail_input(
        import, import->needs_array, KN_ERROR_UNSUPPORTED,
        "its elements must be given before the graph can be built, since it is not a tensor of numbers");
}

static bool is_output_already(const kn_model *model, const kn_value *value) {
    for (int i = 0; i < model->output_count; i++)
        if (model->outputs[i] == value) return true;
    return false;
}

/* Room for one more output; false when out of memory. */
static bool grow_outputs(kn_import *import) {
    kn_model *model = import->model;
    const size_t count = (size_t)model->output_count, more = 2 * import->output_capacity;
    if (count < import->output_capacity) return true;
    if (more > INT16_MAX) return false;
    kn_value **outputs = kn_arena_take(&model->arena, more, sizeof *outputs);
    const char **names = kn_arena_take(&model->arena, more, sizeof *names);
    bool *texts = kn_arena_take(&model->arena, more, sizeof *texts);
    if (!outputs || !names || !texts) return false;
    memcpy(outputs, model->outputs, count * sizeof *outputs);
    memcpy(names, model->output_names, count * sizeof *names);
    memcpy(texts, import->output_texts, count * sizeof *texts);
    model->outputs = outputs;
    model->output_names = names;
    model->output_texts = import->output_texts = texts;
    import->output_capacity = more;
    return true;
}

/* Makes each output a separate node, with the type in the file; a sequence is as many outputs as it has
 * tensors. */
static kn_status add_item(kn_import *import, const kn_onnx_value_info *output, kn_item *item) {
    kn_model *model = import->model;
    kn_graph *graph = import->graph;
    const bool tensor = output->type.kind == KN_ONNX_TENSOR;
    kn_dtype declared;
    int bits;
    for (size_t i = 0; item->sequence && !tensor && i < item->element_count; i++)
        if (add_item(import, output, item->elements[i]) != KN_OK) break;
    if (item->sequence && tensor)
        kn_graph_fail(graph, KN_ERROR_FORMAT, "output '%.100s' is declared as a tensor, but it is a sequence",
                      output->name);
    if (item->sequence || kn_graph_status(graph) != KN_OK) return kn_graph_status(graph);
    kn_value *value = kn_import_cast(kn_item_value(import, item), item->dtype);
    if (tensor && (output->type.type == KN_ONNX_STRING) != item->text)
        kn_graph_fail(graph, KN_ERROR_FORMAT, "output '%.100s' is declared as %s, but its node computes %s",
                      output->name, kn_onnx_type_name(output->type.type), item->text ? "strings" : "numbers");
    if (tensor && kn_item_type(output->type.type, &declared, &bits) && declared != item->dtype)
        kn_graph_fail(graph, KN_ERROR_FORMAT, "output '%.100s' is declared as %s, but its node computes %s",
                      output->name, kn_dtype_name(declared), kn_dtype_name(item->dtype));
    if (value->kind != KN_VALUE_RESULT || is_output_already(model, value))
        value = kn_apply(graph, "copy", &value, 1, NULL);
    const char *name = kn_import_name(import, output->name);
    value = kn_output(value, name ? name : "");
    if (!grow_outputs(import)) return kn_import_no_memory(import);
    import->output_texts[model->output_count] = item->text;
    model->output_names[model->output_count] = output->name;
    model->outputs[model->output_count++] = value;
    return kn_graph_status(graph);
}

kn_status kn_import_add_output(kn_import *import, const kn_onnx_value_info *output) {
    kn_item *item = kn_import_item(import, output->name);
    if (item) return add_item(import, output, item);
    kn_graph_fail(import->graph, KN_ERROR_FORMAT, "output '%.100s' is not defined by any node", output->name);
    return kn_graph_status(import->graph);
}

kn_status kn_import_add_result(kn_import *import, const char *name, kn_item *item) {
    return add_item(import, &(kn_onnx_value_info){.name = name}, item);
}

const kn_model_given *kn_import_given(const kn_import *import, const char *name) {
    for (size_t i = 0; i < import->params->given_count && *name; i++) {
        const kn_model_given *given = &import->params->given[i];
        if (given->name && !strcmp(given->name, name)) return given;
    }
    return NULL;
}

kn_status kn_import_take_array(kn_import *import, const kn_model_given *given, kn_item *item) {
    kn_model *model = import->model;
    const char *shape = kn_import_list(import, given->info.shape, given->info.rank);
    uint64_t bytes = 0;
    *item = (kn_item){.name = given->name, .dtype = given->info.dtype, .text = item->text};
    if (!kn_tensor_bytes(&given->info, &bytes)) {
        kn_graph_fail(import->graph, KN_ERROR_ARGUMENT, "the array for '%.100s' leaves sizes open",
                      given->name);
    } else if (given->data) {
        item->value = kn_constant(import->graph, given->info.dtype, shape, given->data, (size_t)bytes);
    } else {
        /* an output may have the name itself */
        const char *own = kn_arena_format(import->arena, "%s_given", given->name);
        const char *name = own ? kn_import_name(import, own) : NULL;
        item->value = kn_input(import->graph, name ? name : "", given->info.dtype, shape);
        model->input_names[model->input_count] = given->name;
        model->inputs[model->input_count++] = item->value;
    }
    return kn_graph_status(import->graph);
}

void kn_import_take_given(kn_import *import, const char *name, kn_item *item) {
    const kn_model_given *given = import->scope->outer ? NULL : kn_import_given(import, name);
    if (!given || item->sequence) return;
    if (given->info.dtype != item->dtype)
        kn_graph_fail(import->graph, KN_ERROR_ARGUMENT, "the array for '%.100s' is %s; expected %s", name,
                      kn_dtype_name(given->info.dtype), kn_dtype_name(item->dtype));
    else
        kn_import_take_array(import, given, item);
}
