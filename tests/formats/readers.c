#include "readers.h"

#include <string.h>

bool reader_inconsistent;

static volatile uint64_t seen; /* so that the compiler cannot remove any read */

static void look_at(const void *bytes, uint64_t count) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++)
        sum += ((const uint8_t *)bytes)[i];
    seen += sum;
}

/* Reads every byte of the array, and checks that its sizes are consistent. */
static void look_at_array(const kn_array *array) {
    kn_array again = *array;
    if (!kn_array_measure(&again) || again.count != array->count || again.byte_count != array->byte_count)
        reader_inconsistent = true;
    look_at(array->bytes, array->byte_count);
    for (uint64_t i = 0; i < array->count && i < 64; i++)
        seen += kn_array_number(array, i) > 0;
}

kn_status read_npy(const kn_host *host, const uint8_t *bytes, uint64_t count, kn_error *error) {
    kn_array array;
    kn_status status = kn_npy_read(host, "some.npy", bytes, count, &array, error);
    if (status == KN_OK) look_at_array(&array);
    if (status != KN_OK && array.owned) reader_inconsistent = true;
    kn_array_finish(host, &array);
    return status;
}

kn_status read_idx(const kn_host *host, const uint8_t *bytes, uint64_t count, kn_error *error) {
    kn_array array;
    kn_status status = kn_idx_read(host, "some-idx3-ubyte", bytes, count, &array, error);
    if (status == KN_OK) look_at_array(&array);
    if (status != KN_OK && array.owned) reader_inconsistent = true;
    kn_array_finish(host, &array);
    return status;
}

/* Reads the directory and all members. */
kn_status read_zip(const kn_host *host, const uint8_t *bytes, uint64_t count, kn_error *error) {
    kn_arena arena;
    kn_zip zip;
    kn_arena_init(&arena, host);
    kn_status status = kn_zip_read(&arena, "some.zip", bytes, count, &zip, error);
    if (status != KN_OK && zip.count > 0) reader_inconsistent = true;
    for (size_t i = 0; i < zip.count && status == KN_OK; i++) {
        const uint8_t *data;
        void *owned;
        look_at(zip.members[i].name, strlen(zip.members[i].name));
        if (!kn_zip_find(&zip, zip.members[i].name)) reader_inconsistent = true;
        status = kn_zip_member_read(host, &zip, &zip.members[i], INFLATED_LIMIT, &data, &owned, error);
        if (status == KN_OK) look_at(data, zip.members[i].size);
        if (status != KN_OK && (owned || data)) reader_inconsistent = true;
        kn_release(host, owned);
    }
    kn_arena_finish(&arena);
    return status;
}

kn_status read_cifar(const kn_host *host, const uint8_t *bytes, uint64_t count, kn_error *error) {
    kn_cifar file;
    kn_status status = kn_cifar_read("some.bin", bytes, count, KN_CIFAR_COARSE, &file, error);
    if (status != KN_OK && file.count > 0) reader_inconsistent = true;
    for (uint64_t i = 0; i < file.count; i++) {
        const uint8_t *record = bytes + i * file.record_bytes;
        if (record[file.label_at] >= KN_CIFAR_COARSE) reader_inconsistent = true;
        look_at(record + file.pixels_at, KN_CIFAR_PIXELS);
    }
    return status;
}

kn_status read_wave(const kn_host *host, const uint8_t *bytes, uint64_t count, kn_error *error) {
    kn_wave wave;
    kn_status status = kn_wave_read("some.wav", bytes, count, &wave, error);
    if (status != KN_OK && (wave.frames > 0 || wave.bytes)) reader_inconsistent = true;
    for (uint64_t i = 0; i < wave.frames; i++) {
        float value = kn_wave_at(&wave, i);
        seen += value > 0;
        if (!wave.real && !(value >= -1 && value <= 1)) reader_inconsistent = true;
    }
    return status;
}

kn_status read_csv(const kn_host *host, const uint8_t *bytes, uint64_t count, kn_error *error) {
    kn_arena arena;
    kn_csv table;
    kn_arena_init(&arena, host);
    kn_status status = kn_csv_read(&arena, "some.csv", bytes, count, &table, error);
    if (status != KN_OK && (table.codes || table.rows)) reader_inconsistent = true;
    for (size_t i = 0; i < table.columns; i++)
        look_at(table.names[i].text, table.names[i].length);
    for (size_t i = 0; i < table.rows * table.columns; i++) {
        const kn_csv_cell cell = kn_csv_at(&table, i / table.columns, i % table.columns);
        look_at(cell.text, cell.length);
    }
    kn_arena_finish(&arena);
    return status;
}

kn_status read_gzip(const kn_host *host, const uint8_t *bytes, uint64_t count, kn_error *error) {
    uint8_t *inflated;
    uint64_t inflated_count;
    kn_status status =
        kn_gzip_inflate(host, "some.gz", bytes, count, INFLATED_LIMIT, &inflated, &inflated_count, error);
    if (status == KN_OK) {
        if (inflated_count > INFLATED_LIMIT || inflated[inflated_count] != 0) reader_inconsistent = true;
        look_at(inflated, inflated_count);
        kn_release(host, inflated);
    } else if (inflated) {
        reader_inconsistent = true;
    }
    return status;
}

static void look_at_json(const kn_json *value, int depth) {
    size_t count = 0;
    for (const kn_json *item = value->first; item; item = item->next) {
        count++;
        if ((value->kind == KN_JSON_OBJECT) != (item->key != NULL)) reader_inconsistent = true;
        if (item->key) look_at(item->key, item->key_length + 1);
        look_at_json(item, depth + 1);
    }
    bool text = value->kind == KN_JSON_NUMBER || value->kind == KN_JSON_STRING;
    if (count != value->count || depth > 20 || text != (value->text != NULL)) reader_inconsistent = true;
    if (text) {
        look_at(value->text, value->length + 1);
        if (value->text[value->length] != '\0') reader_inconsistent = true;
    }
    int64_t number;
    seen += kn_json_int64(value, &number);
}

kn_status read_json(const kn_host *host, const uint8_t *bytes, uint64_t count, kn_error *error) {
    kn_arena arena;
    kn_arena_init(&arena, host);
    kn_json *root;
    kn_status status = kn_json_read(&arena, "some.json", bytes, count, 1 << 20, 20, &root, error);
    if ((status == KN_OK) != (root != NULL)) reader_inconsistent = true;
    if (root) look_at_json(root, 0);
    kn_arena_finish(&arena);
    return status;
}

kn_status read_safetensors(const kn_host *host, const uint8_t *bytes, uint64_t count, kn_error *error) {
    kn_safetensors file;
    kn_status status = kn_safetensors_read(host, "some.safetensors", bytes, count, &file, error);
    if (status != KN_OK && (file.tensors || file.count > 0)) reader_inconsistent = true;
    if (status != KN_OK) return status;
    uint64_t total = 0;
    for (size_t i = 0; i < file.count; i++) {
        look_at_array(&file.tensors[i].array);
        total += file.tensors[i].array.byte_count;
        if (kn_safetensors_find(&file, file.tensors[i].name) != &file.tensors[i]) reader_inconsistent = true;
    }
    if (total > count) reader_inconsistent = true;
    for (size_t i = 0; i < file.metadata_count; i++)
        if (kn_safetensors_metadata(&file, file.metadata[i].key) == NULL) reader_inconsistent = true;
    kn_safetensors_close(host, &file);
    return status;
}

kn_status read_gguf(const kn_host *host, const uint8_t *bytes, uint64_t count, kn_error *error) {
    kn_gguf file;
    kn_status status = kn_gguf_read(host, "some.gguf", bytes, count, &file, error);
    if (status != KN_OK && (file.tensors || file.values || file.arena.blocks)) reader_inconsistent = true;
    if (status != KN_OK) return status;
    for (size_t i = 0; i < file.value_count; i++) {
        const kn_gguf_value *value = &file.values[i];
        if (kn_gguf_find(&file, value->key) != value) reader_inconsistent = true;
        for (uint64_t j = 0; j < value->count; j++) {
            kn_gguf_text text = {"", 0};
            int64_t integer;
            double real;
            bool truth;
            seen += kn_gguf_integer_at(value, j, &integer) + kn_gguf_real_at(value, j, &real) +
                    kn_gguf_bool_at(value, j, &truth);
            if (kn_gguf_text_at(value, j, &text)) look_at(text.bytes, text.count);
        }
    }
    for (size_t i = 0; i < file.tensor_count; i++) {
        const kn_gguf_tensor *tensor = &file.tensors[i];
        if (kn_gguf_tensor_find(&file, tensor->name) != tensor) reader_inconsistent = true;
        if ((tensor->storage != NULL) != (tensor->bytes != NULL)) reader_inconsistent = true;
        look_at(tensor->bytes, tensor->byte_count);
    }
    kn_gguf_close(host, &file);
    return status;
}

/* ---- ONNX ------------------------------------------------------------------------- */

static void look_at_text(const char *text) {
    if (!text) reader_inconsistent = true;
    if (text) look_at(text, strlen(text) + 1);
}

static void look_at_texts(const char *const *texts, size_t count) {
    for (size_t i = 0; i < count; i++)
        look_at_text(texts[i]);
}

static void look_at_pairs(const kn_text_pair *pairs, size_t count) {
    for (size_t i = 0; i < count; i++) {
        look_at_text(pairs[i].key);
        look_at_text(pairs[i].value);
    }
}

static void look_at_tensor(const kn_onnx_tensor *tensor) {
    kn_onnx_tensor again = *tensor;
    if (!kn_onnx_tensor_measure(&again) || again.count != tensor->count ||
        again.byte_count != tensor->byte_count || (tensor->type == KN_ONNX_STRING) != (tensor->bytes == NULL))
        reader_inconsistent = true;
    look_at_text(tensor->name);
    look_at_text(tensor->doc);
    look_at(tensor->bytes, tensor->byte_count);
    look_at_pairs(tensor->metadata, tensor->metadata_count);
    for (uint64_t i = 0; i < tensor->count && i < 64; i++) {
        seen += kn_onnx_tensor_number(tensor, tensor->count - 1 - i) > 0;
        if (tensor->strings) look_at(tensor->strings[i].bytes, tensor->strings[i].count);
    }
    kn_array array;
    if (kn_onnx_tensor_array(NULL, tensor, &array, NULL) == KN_OK) look_at_array(&array);
    kn_array_finish(NULL, &array);
}

static void look_at_sparse(const kn_onnx_sparse *sparse) {
    look_at_tensor(&sparse->values);
    look_at_tensor(&sparse->indices);
    look_at(sparse->shape, sparse->rank * sizeof *sparse->shape);
}

static void look_at_type(const kn_onnx_value_type *type) {
    look_at_text(type->denotation);
    look_at_text(kn_onnx_type_name(type->type));
    for (size_t i = 0; i < type->rank; i++) {
        look_at_text(type->shape[i].name);
        look_at_text(type->shape[i].denotation);
    }
    if (type->inner) look_at_type(type->inner);
}

static void look_at_values(const kn_onnx_value_info *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        look_at_text(values[i].name);
        look_at_text(values[i].doc);
        look_at_type(&values[i].type);
        look_at_pairs(values[i].metadata, values[i].metadata_count);
    }
}

static void look_at_graph(const kn_onnx_graph *graph);

static void look_at_attribute(const kn_onnx_attribute *attribute) {
    look_at_text(attribute->name);
    look_at_text(attribute->doc);
    look_at_text(attribute->reference);
    for (size_t i = 0; i < attribute->count; i++)
        switch (attribute->kind) {
        case KN_ONNX_ATTRIBUTE_NONE:
            reader_inconsistent = true;
            break;
        case KN_ONNX_ATTRIBUTE_FLOAT:
        case KN_ONNX_ATTRIBUTE_FLOATS:
            seen += attribute->floats[i] > 0;
            break;
        case KN_ONNX_ATTRIBUTE_INT:
        case KN_ONNX_ATTRIBUTE_INTS:
            seen += (uint64_t)attribute->ints[i];
            break;
        case KN_ONNX_ATTRIBUTE_STRING:
        case KN_ONNX_ATTRIBUTE_STRINGS:
            look_at(attribute->strings[i].bytes, attribute->strings[i].count);
            break;
        case KN_ONNX_ATTRIBUTE_TENSOR:
        case KN_ONNX_ATTRIBUTE_TENSORS:
            look_at_tensor(&attribute->tensors[i]);
            break;
        case KN_ONNX_ATTRIBUTE_GRAPH:
        case KN_ONNX_ATTRIBUTE_GRAPHS:
            look_at_graph(&attribute->graphs[i]);
            break;
        case KN_ONNX_ATTRIBUTE_SPARSE:
        case KN_ONNX_ATTRIBUTE_SPARSES:
            look_at_sparse(&attribute->sparses[i]);
            break;
        case KN_ONNX_ATTRIBUTE_TYPE:
        case KN_ONNX_ATTRIBUTE_TYPES:
            look_at_type(&attribute->types[i]);
            break;
        }
}

static void look_at_nodes(const kn_onnx_node *nodes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const kn_onnx_node *node = &nodes[i];
        const char *texts[] = {node->name, node->doc, node->type, node->domain, node->overload};
        look_at_texts(texts, KN_COUNT_OF(texts));
        look_at_texts(node->inputs, node->input_count);
        look_at_texts(node->outputs, node->output_count);
        look_at_pairs(node->metadata, node->metadata_count);
        for (size_t j = 0; j < node->attribute_count; j++)
            look_at_attribute(&node->attributes[j]);
    }
}

static void look_at_graph(const kn_onnx_graph *graph) {
    look_at_text(graph->name);
    look_at_text(graph->doc);
    look_at_nodes(graph->nodes, graph->node_count);
    for (size_t i = 0; i < graph->initializer_count; i++)
        look_at_tensor(&graph->initializers[i]);
    for (size_t i = 0; i < graph->sparse_initializer_count; i++)
        look_at_sparse(&graph->sparse_initializers[i]);
    look_at_values(graph->inputs, graph->input_count);
    look_at_values(graph->outputs, graph->output_count);
    look_at_values(graph->values, graph->value_count);
    for (size_t i = 0; i < graph->annotation_count; i++) {
        look_at_text(graph->annotations[i].tensor);
        look_at_pairs(graph->annotations[i].parameters, graph->annotations[i].parameter_count);
    }
    look_at_pairs(graph->metadata, graph->metadata_count);
}

static void look_at_functions(const kn_onnx_function *functions, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const kn_onnx_function *function = &functions[i];
        const char *texts[] = {function->name, function->domain, function->overload, function->doc};
        look_at_texts(texts, KN_COUNT_OF(texts));
        look_at_texts(function->inputs, function->input_count);
        look_at_texts(function->outputs, function->output_count);
        look_at_texts(function->attribute_names, function->attribute_name_count);
        look_at_nodes(function->nodes, function->node_count);
        look_at_values(function->values, function->value_count);
        look_at_pairs(function->metadata, function->metadata_count);
        for (size_t j = 0; j < function->attribute_count; j++)
            look_at_attribute(&function->attributes[j]);
    }
}

/* Encoding, decoding and encoding again gives the same bytes. */
static void look_at_written(const kn_host *host, const kn_onnx_model *model) {
    uint8_t *bytes[2];
    uint64_t counts[2];
    kn_onnx_model again;
    kn_error error = {0};
    if (kn_onnx_encode(host, "again", model, &bytes[0], &counts[0], &error) != KN_OK) {
        reader_inconsistent = true;
        return;
    }
    kn_status status = kn_onnx_read(host, "again", bytes[0], counts[0], NULL, &again, &error);
    if (status == KN_OK) {
        status = kn_onnx_encode(host, "again", &again, &bytes[1], &counts[1], &error);
        if (status == KN_OK && (counts[0] != counts[1] || memcmp(bytes[0], bytes[1], counts[0]) != 0))
            reader_inconsistent = true;
        if (status == KN_OK) kn_release(host, bytes[1]);
        kn_onnx_close(host, &again);
    }
    if (status != KN_OK) reader_inconsistent = true;
    kn_release(host, bytes[0]);
}

kn_status read_onnx(const kn_host *host, const uint8_t *bytes, uint64_t count, kn_error *error) {
    kn_onnx_model model;
    kn_status status = kn_onnx_read(host, "some.onnx", bytes, count, NULL, &model, error);
    if (status != KN_OK) {
        if (model.arena.blocks || model.graph.nodes) reader_inconsistent = true;
        return status;
    }
    const char *texts[] = {model.producer, model.producer_version, model.domain, model.doc};
    look_at_texts(texts, KN_COUNT_OF(texts));
    look_at_graph(&model.graph);
    look_at_functions(model.functions, model.function_count);
    look_at_pairs(model.metadata, model.metadata_count);
    look_at_written(host, &model);
    kn_onnx_close(host, &model);
    return status;
}

static void look_at_value(const kn_onnx_value *value) {
    look_at_text(value->name);
    if (value->kind == KN_ONNX_TENSOR)
        look_at_tensor(value->tensor);
    else if (value->kind == KN_ONNX_SPARSE)
        look_at_sparse(value->sparse);
    else
        for (size_t i = 0; i < value->count; i++)
            look_at_value(&value->items[i]);
}

kn_status read_onnx_value(const kn_host *host, const uint8_t *bytes, uint64_t count, kn_error *error) {
    static const kn_onnx_kind kinds[] = {KN_ONNX_TENSOR, KN_ONNX_SPARSE, KN_ONNX_SEQUENCE, KN_ONNX_OPTIONAL};
    kn_status result = KN_ERROR_FORMAT;
    for (size_t i = 0; i < KN_COUNT_OF(kinds); i++) {
        kn_onnx_value_file file;
        kn_status status = kn_onnx_value_read(host, "some.pb", bytes, count, kinds[i], &file, error);
        if (status == KN_OK) {
            look_at_value(&file.value);
            result = KN_OK;
        } else if (file.arena.blocks) {
            reader_inconsistent = true;
        }
        kn_onnx_value_close(host, &file);
    }
    if (result == KN_OK) kn_error_clear(error);
    return result;
}

static void look_at_caffe(const kn_caffe_item *item, int depth) {
    if (depth > 40) reader_inconsistent = true;
    look_at(item->name, strlen(item->name) + 1);
    if (item->kind == KN_CAFFE_TEXT || item->kind == KN_CAFFE_WORD)
        look_at(item->as.text, strlen(item->as.text) + 1);
    if (item->kind == KN_CAFFE_ARRAY) look_at_array(item->as.array);
    for (const kn_caffe_item *field = item->kind == KN_CAFFE_MESSAGE ? item->as.first : NULL; field;
         field = field->next)
        look_at_caffe(field, depth + 1);
}

kn_status read_caffe(const kn_host *host, const uint8_t *bytes, uint64_t count, kn_error *error) {
    kn_caffe_net net;
    seen += kn_caffe_is(bytes, count);
    kn_status status = kn_caffe_read(host, "some.caffemodel", bytes, count, &net, error);
    if ((status == KN_OK) != (net.root != NULL)) reader_inconsistent = true;
    if (status != KN_OK) return status;
    look_at_caffe(net.root, 0);
    kn_caffe_close(host, &net);
    return status;
}
