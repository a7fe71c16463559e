/* Translates a Caffe net to a text model: selects layers, assigns names, finds inputs and outputs. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "exchange/caffe/caffe.h"

/* ---- layers that are used ------------------------------------------------------------------------------ */

const kn_caffe_item *kn_caffe_next_layer(const kn_caffe_item *root, const kn_caffe_item *after) {
    const kn_caffe_item *item = after ? after->next : root->as.first;
    while (item &&
           (item->kind != KN_CAFFE_MESSAGE || (strcmp(item->name, "layer") && strcmp(item->name, "layers"))))
        item = item->next;
    return item;
}

/* Whether a rule matches phase TEST, level 0 and no stage. */
static bool rule_fits(const kn_caffe_item *rule) {
    return !strcmp(kn_caffe_text(rule, "phase", "TEST"), "TEST") &&
           kn_caffe_number(rule, "min_level", 0) <= 0 && kn_caffe_number(rule, "max_level", 0) >= 0 &&
           kn_caffe_count(rule, "stage") == 0;
}

static bool is_there(const kn_caffe_item *layer) {
    bool some = false;
    for (const kn_caffe_item *rule = NULL; (rule = kn_caffe_next(layer, "include", rule)); some = true)
        if (rule_fits(rule)) return true;
    for (const kn_caffe_item *rule = NULL; (rule = kn_caffe_next(layer, "exclude", rule));)
        if (rule_fits(rule)) return false;
    return !some;
}

static const kn_caffe_row *find_row(const char *type) {
    for (int i = 0; i < kn_caffe_table_count; i++)
        if (!strcmp(kn_caffe_table[i].type, type) ||
            (kn_caffe_table[i].first && !strcmp(kn_caffe_table[i].first, type)))
            return &kn_caffe_table[i];
    return NULL;
}

static bool list_tops(kn_caffe *net, kn_caffe_layer *layer) {
    int count = kn_caffe_count(layer->item, "top");
    if (count > KN_CAFFE_TOPS)
        return kn_caffe_refuse(net, layer, "has %d tops; expected at most %d", count, KN_CAFFE_TOPS);
    layer->tops = kn_arena_take(&net->model->arena, (size_t)count, sizeof *layer->tops);
    if (!layer->tops) return kn_model_no_memory(net->model);
    for (const kn_caffe_item *top = NULL; (top = kn_caffe_next(layer->item, "top", top));)
        layer->tops[layer->top_count++] = kn_caffe_text_of(top);
    return true;
}

/* Reports all types that the table lacks at once. */
static bool list_layers(kn_caffe *net) {
    kn_model *model = net->model;
    size_t count = 0, unknown = 0;
    for (const kn_caffe_item *item = NULL; (item = kn_caffe_next_layer(net->root, item));)
        count++;
    if (count > KN_CAFFE_LAYERS) {
        kn_fail(&model->error, KN_ERROR_FORMAT, "%s: has %zu layers; expected at most %d", model->source,
                count, KN_CAFFE_LAYERS);
        return false;
    }
    net->layers = kn_arena_take(&model->arena, count, sizeof *net->layers);
    if (!net->layers) return kn_model_no_memory(model);
    kn_text missing;
    kn_text_init(&missing, &model->host);
    bool good = true;
    for (const kn_caffe_item *item = NULL; good && (item = kn_caffe_next_layer(net->root, item));) {
        const char *type = kn_caffe_text(
            item, "type", kn_caffe_field(item, "layer") ? "V0, Caffe's first layer format" : "");
        kn_caffe_layer *layer = &net->layers[net->layer_count];
        if (!is_there(item)) continue;
        *layer =
            (kn_caffe_layer){.item = item, .name = kn_caffe_text(item, "name", ""), .row = find_row(type)};
        if (!layer->row) {
            if (++unknown <= 12)
                kn_text_format(&missing, "%s%.40s ('%.60s')", unknown > 1 ? ", " : "", type, layer->name);
            continue;
        }
        if (layer->row->param) layer->param = kn_caffe_field(item, layer->row->param);
        good = list_tops(net, layer);
        if (good && layer->row->effect == KN_CAFFE_MAKES)
            good = (layer->line = kn_caffe_free_name(net, layer->name, NULL)) != NULL;
        net->layer_count++;
    }
    if (good && unknown)
        kn_fail(&model->error, KN_ERROR_UNSUPPORTED, "%s: %zu layers have unsupported types: %s%s",
                model->source, unknown, missing.data, unknown > 12 ? ", ..." : "");
    kn_text_finish(&missing);
    return good && !unknown;
}

/* ---- inputs -------------------------------------------------------------------------------------------- */

/* Reads the sizes `dim`, at most KN_MAX_RANK. */
static bool read_shape(kn_caffe *net, const kn_caffe_item *shape, const char *input, int rank, int64_t *dims,
                       int *count) {
    *count = 0;
    for (const kn_caffe_item *dim = NULL; (dim = kn_caffe_next(shape, "dim", dim)); ++*count) {
        double size = dim->kind == KN_CAFFE_NUMBER ? dim->as.number : -1;
        if (*count == rank || !(size >= 0 && size <= KN_CAFFE_SIZE && size == floor(size))) {
            kn_fail(&net->model->error, KN_ERROR_SHAPE,
                    "%s: input '%.80s': expected at most %d sizes, integers up to %d", net->model->source,
                    input, rank, KN_CAFFE_SIZE);
            return false;
        }
        dims[*count] = (int64_t)size;
    }
    return true;
}

static bool add_input(kn_caffe *net, const char *name, int rank, const int64_t *dims) {
    if (rank < 1) {
        kn_fail(&net->model->error, KN_ERROR_SHAPE,
                "%s: input '%.80s' has no shape; expected input_dim, input_shape or "
                "input_param { shape { dim: ... } }",
                net->model->source, name);
        return false;
    }
    kn_caffe_blob *blob = kn_caffe_add_blob(net, name, NULL);
    if (!blob) return false;
    blob->rank = rank;
    memcpy(blob->dims, dims, (size_t)rank * sizeof *dims);
    return true;
}

/* Inputs of the net: `input`, with four `input_dim` each, or an `input_shape`. */
static bool add_net_inputs(kn_caffe *net) {
    const kn_caffe_item *shape = NULL, *dim = NULL;
    const bool shapes = kn_caffe_field(net->root, "input_shape") != NULL;
    const int count = kn_caffe_count(net->root, "input");
    if (count > KN_CAFFE_TOPS) {
        kn_fail(&net->model->error, KN_ERROR_FORMAT, "%s: has %d inputs; expected at most %d",
                net->model->source, count, KN_CAFFE_TOPS);
        return false;
    }
    for (const kn_caffe_item *input = NULL; (input = kn_caffe_next(net->root, "input", input));) {
        int64_t dims[KN_MAX_RANK];
        int rank = 0;
        if (shapes) {
            shape = kn_caffe_next(net->root, "input_shape", shape);
            if (shape && !read_shape(net, shape, kn_caffe_text_of(input), KN_MAX_RANK, dims, &rank))
                return false;
        } else {
            for (; rank < 4 && (dim = kn_caffe_next(net->root, "input_dim", dim)); rank++)
                dims[rank] =
                    dim->kind == KN_CAFFE_NUMBER && dim->as.number >= 0 && dim->as.number <= KN_CAFFE_SIZE
                        ? (int64_t)dim->as.number
                        : 0;
            if (rank < 4) rank = 0; /* too few sizes: ignore all */
        }
        if (!add_input(net, kn_caffe_text_of(input), rank, dims)) return false;
    }
    return true;
}

/* Inputs made by a data layer: one shape for all tops or one per top, or the four sizes of MemoryData and
 * DummyData. */
static bool add_layer_inputs(kn_caffe *net, const kn_caffe_layer *layer) {
    static const char *const old[2][4] = {{"num", "channels", "height", "width"},
                                          {"batch_size", "channels", "height", "width"}};
    const kn_caffe_item *shape = NULL, *next;
    for (int i = 0; i < layer->top_count; i++) {
        int64_t dims[KN_MAX_RANK] = {0};
        int rank = 0;
        if ((next = kn_caffe_next(layer->param, "shape", shape))) shape = next;
        const bool memory = !strcmp(layer->row->type, "MemoryData");
        const bool sizes = kn_caffe_field(layer->param, "channels") && !(memory && i > 0);
        if (shape && !read_shape(net, shape, layer->tops[i], KN_MAX_RANK, dims, &rank)) return false;
        for (; !shape && sizes && rank < 4; rank++)
            if (!kn_caffe_whole(net, layer, old[memory][rank], 1, 0, &dims[rank])) return false;
        if (rank > 0) {
            if (!add_input(net, layer->tops[i], rank, dims)) return false;
            continue;
        }
        kn_caffe_blob *blob = kn_caffe_add_blob(net, layer->tops[i], NULL);
        if (!blob) return false;
        blob->unknown = layer;
    }
    return true;
}

/* Names an input when a layer first reads it. A single input is called x, as in data sets. */
static bool begin_inputs(kn_caffe *net) {
    kn_map read; /* names of blobs that layers read */
    size_t used = 0;
    bool good = true;
    kn_map_init(&read, &net->model->host);
    for (size_t i = 0; good && i < net->layer_count; i++)
        for (const kn_caffe_item *bottom = NULL;
             good && net->layers[i].row->effect == KN_CAFFE_MAKES &&
             (bottom = kn_caffe_next(net->layers[i].item, "bottom", bottom));)
            good = kn_map_put_text(&read, kn_caffe_text_of(bottom), net);
    for (size_t i = 0; good && i < net->blob_count; i++)
        used += !net->blobs[i]->unknown &&
                (net->blobs[i]->used = kn_map_has(&read, net->blobs[i]->name, strlen(net->blobs[i]->name)));
    for (size_t i = 0; good && i < net->blob_count; i++) {
        kn_caffe_blob *blob = net->blobs[i];
        if (!blob->used || blob->unknown) continue;
        blob->value = used == 1 ? "x" : kn_caffe_free_name(net, blob->name, NULL);
        good = blob->value != NULL;
    }
    kn_map_finish(&read);
    return good || kn_model_no_memory(net->model);
}

/* ---- layers -------------------------------------------------------------------------------------------- */

static bool find_bottoms(kn_caffe *net, kn_caffe_layer *layer) {
    int count = kn_caffe_count(layer->item, "bottom");
    const kn_caffe_row *row = layer->row;
    if (count < row->least_bottoms || count > row->most_bottoms)
        return kn_caffe_refuse(net, layer,
                               row->least_bottoms == row->most_bottoms ? "has %d bottoms; expected %d"
                                                                       : "has %d bottoms; expected %d to %d",
                               count, row->least_bottoms, row->most_bottoms);
    layer->bottoms = kn_arena_take(&net->model->arena, (size_t)count, sizeof(kn_caffe_blob *));
    if (!layer->bottoms) return kn_model_no_memory(net->model);
    for (const kn_caffe_item *item = NULL; (item = kn_caffe_next(layer->item, "bottom", item));) {
        kn_caffe_blob *blob = kn_map_get_text(&net->by_name, kn_caffe_text_of(item));
        if (!blob)
            return kn_caffe_refuse(net, layer, "no layer before it makes its bottom '%.80s'",
                                   kn_caffe_text_of(item));
        if (blob->unknown)
            return kn_caffe_refuse(
                net, layer,
                "its bottom '%.80s' comes from layer '%.80s' (%s), which reads files and has "
                "no shape; expected an Input layer: open the net's deploy.prototxt and load this file as its "
                "weights",
                kn_caffe_text_of(item), blob->unknown->name, blob->unknown->row->type);
        blob->used = true;
        layer->bottoms[layer->bottom_count++] = blob;
    }
    return true;
}

static bool write_layer(kn_caffe *net, kn_caffe_layer *layer) {
    switch (layer->row->effect) {
    case KN_CAFFE_READS:
        return true;
    case KN_CAFFE_LOSES:
        if (*layer->row->loss) net->loss = layer->row->loss;
        return true;
    case KN_CAFFE_SILENT:
        for (const kn_caffe_item *item = NULL; (item = kn_caffe_next(layer->item, "bottom", item));) {
            kn_caffe_blob *blob = kn_map_get_text(&net->by_name, kn_caffe_text_of(item));
            if (blob) blob->used = true;
        }
        return true;
    case KN_CAFFE_MAKES:
        break;
    }
    if (layer->done) return true;
    if (!find_bottoms(net, layer)) return false;
    if (layer->top_count < 1) return kn_caffe_refuse(net, layer, "has no top; expected one");
    return layer->row->write(net, layer) && (net->model->error.status == KN_OK);
}

/* Writes the outputs: blobs that no layer reads, the last one first, since a loss uses the first output.
 * Removes spatial axes of size 1. */
static bool write_outputs(kn_caffe *net, kn_text *text) {
    kn_text outputs;
    bool some = false, good = true;
    kn_text_init(&outputs, &net->model->host);
    for (size_t i = net->blob_count; good && i-- > 0;) {
        const kn_caffe_blob *blob = net->blobs[i];
        if (blob->used || !blob->value || kn_map_get_text(&net->by_name, blob->name) != blob) continue;
        const char *value = blob->value;
        if (blob->rank == 4 && blob->dims[2] == 1 && blob->dims[3] == 1) {
            value = kn_caffe_free_name(net, value, "flat");
            if (value) kn_text_format(&net->lines, "\n%s = flatten @%s", value, blob->value);
            good = value != NULL;
        }
        if (good) kn_text_format(&outputs, " %s", value);
        some = true;
    }
    if (good && !some) {
        kn_fail(&net->model->error, KN_ERROR_FORMAT, "%s: the net has no outputs", net->model->source);
        good = false;
    }
    if (good) kn_text_format(text, "%s\noutput%s\n", net->lines.data, outputs.data);
    if (good && (kn_text_failed(text) || kn_text_failed(&outputs) || kn_text_failed(&net->lines)))
        good = kn_model_no_memory(net->model);
    kn_text_finish(&outputs);
    return good;
}

static bool translate(kn_caffe *net, kn_text *text) {
    kn_model *model = net->model;
    static const char *const taken[] = {"x", "y", "koine", "loss", "accuracy"};
    for (size_t i = 0; i < KN_COUNT_OF(taken); i++)
        if (!kn_map_put_text(&net->names, taken[i], (void *)(uintptr_t)1)) return kn_model_no_memory(model);
    if (!list_layers(net) || !add_net_inputs(net)) return false;
    for (size_t i = 0; i < net->layer_count; i++)
        if (net->layers[i].row->effect == KN_CAFFE_READS && !add_layer_inputs(net, &net->layers[i]))
            return false;
    if (!begin_inputs(net)) return false;
    size_t input_count = net->blob_count;
    for (size_t i = 0; i < net->layer_count; i++)
        if (!write_layer(net, &net->layers[i]))
            return false;
        else if (net->lines.length > KN_MODEL_BYTES) {
            kn_fail(&model->error, KN_ERROR_FORMAT,
                    "%s: the translated text model would have more than %d bytes", model->source,
                    KN_MODEL_BYTES);
            return false;
        }
    char name[KN_MODEL_NAME_BYTES + 1];
    kn_caffe_clean_name(kn_caffe_text(net->root, "name", "net"), NULL, name);
    kn_text_format(text, "koine 1\nmodel %s\n%s", name, net->loss ? net->loss : "");
    for (size_t i = 0; i < input_count; i++) {
        const kn_caffe_blob *blob = net->blobs[i];
        if (!blob->value) continue;
        kn_text_format(text, "input %s ", blob->value);
        kn_caffe_write_shape(text, blob->rank, blob->dims);
        kn_text_format(text, "%s%.100s\n", strcmp(blob->name, blob->value) ? " # " : "",
                       strcmp(blob->name, blob->value) ? blob->name : "");
    }
    return write_outputs(net, text);
}

bool kn_caffe_translate(kn_model *model, const kn_caffe_net *file, kn_text *text) {
    kn_caffe_source *source = kn_caffe_source_of(model);
    kn_caffe net = {.model = model, .root = file->root, .binary = file->binary};
    kn_map_init(&net.by_name, &model->host);
    kn_map_init(&net.names, &model->host);
    kn_map_init(&net.shared, &model->host);
    kn_text_init(&net.lines, &model->host);
    bool good = translate(&net, text);
    if (good) {
        source->weights = kn_arena_copy(&model->arena, net.weights, net.weight_count, sizeof *net.weights);
        source->weight_count = net.weight_count;
        good = source->weights || kn_model_no_memory(model);
    }
    kn_text_finish(&net.lines);
    kn_map_finish(&net.shared);
    kn_map_finish(&net.names);
    kn_map_finish(&net.by_name);
    kn_release(&model->host, net.blobs);
    kn_release(&model->host, net.weights);
    return good;
}
