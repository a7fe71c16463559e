/* What the functions of the table write with: names, lines of the text, parameters of layers, and blobs. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "exchange/caffe/caffe.h"

/* ---- messages ------------------------------------------------------------------------------------------ */

bool kn_caffe_refuse(kn_caffe *net, const kn_caffe_layer *layer, const char *format, ...) {
    char text[600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    kn_fail(&net->model->error, KN_ERROR_UNSUPPORTED, "%s: layer '%.80s' (%s, %s %" PRIu64 "): %s",
            net->model->source, layer->name, layer->row->type, net->binary ? "byte" : "line",
            layer->item->position, text);
    return false;
}

/* ---- names and lines ----------------------------------------------------------------------------------- */

size_t kn_caffe_clean_name(const char *layer, const char *part, char name[KN_MODEL_NAME_BYTES + 1]) {
    enum { MOST = KN_MODEL_NAME_BYTES - 12 };
    size_t length = 0;
    const char *pieces[] = {layer, part ? "_" : "", part ? part : ""};
    for (int i = 0; i < 3; i++)
        for (const char *at = pieces[i]; *at && length < MOST; at++) {
            bool digit = *at >= '0' && *at <= '9', letter = (*at | 32) >= 'a' && (*at | 32) <= 'z';
            if (length == 0 && !letter) name[length++] = 'l';
            name[length++] = digit || letter ? *at : '_';
        }
    if (length == 0) name[length++] = 'l';
    name[length] = '\0';
    return length;
}

const char *kn_caffe_free_name(kn_caffe *net, const char *layer, const char *part) {
    char name[KN_MODEL_NAME_BYTES + 1];
    size_t length = kn_caffe_clean_name(layer, part, name);
    uintptr_t number = (uintptr_t)kn_map_get(&net->names, name, length);
    bool good = true;
    if (number) {
        char base[KN_MODEL_NAME_BYTES + 1];
        memcpy(base, name, length);
        do
            snprintf(name + length, sizeof name - length, "_%u", (unsigned)++number);
        while (kn_map_has(&net->names, name, strlen(name)));
        good = kn_map_put(&net->names, base, length, (void *)number);
    }
    const char *kept = good ? kn_arena_text(&net->model->arena, name) : NULL;
    if (kept && kn_map_put_text(&net->names, kept, (void *)(uintptr_t)1)) return kept;
    kn_model_no_memory(net->model);
    return NULL;
}

const char *kn_caffe_line(kn_caffe *net, const kn_caffe_layer *layer, const char *part, const char *format,
                          ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const char *name = part ? kn_caffe_free_name(net, layer->line, part) : layer->line;
    if (name) kn_text_format(&net->lines, "\n%s = %s", name, text);
    return name;
}

void kn_caffe_more(kn_caffe *net, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    kn_text_add(&net->lines, text);
}

void kn_caffe_more_number(kn_caffe *net, const char *name, double number) {
    kn_text_format(&net->lines, " %s=", name);
    kn_text_number_float(&net->lines, (float)number);
}

void kn_caffe_more_pair(kn_caffe *net, const char *name, const int64_t pair[2], int64_t usual) {
    if (pair[0] == usual && pair[1] == usual) return;
    kn_caffe_more(net, pair[0] == pair[1] ? " %s=%" PRId64 : " %s=%" PRId64 "x%" PRId64, name, pair[0],
                  pair[1]);
}

/* ---- parameters of layers ------------------------------------------------------------------------------ */

const char *kn_caffe_text_of(const kn_caffe_item *item) {
    return item->kind == KN_CAFFE_TEXT || item->kind == KN_CAFFE_WORD ? item->as.text : "";
}

static bool check_whole(kn_caffe *net, const kn_caffe_layer *layer, const char *name, double found,
                        int64_t least, int64_t *number) {
    if (!(found >= (double)least && found <= KN_CAFFE_SIZE && found == floor(found)))
        return kn_caffe_refuse(net, layer, "%s is %g; expected an integer from %" PRId64 " to %d", name,
                               found, least, KN_CAFFE_SIZE);
    *number = (int64_t)found;
    return true;
}

bool kn_caffe_whole(kn_caffe *net, const kn_caffe_layer *layer, const char *name, int64_t usual,
                    int64_t least, int64_t *number) {
    return check_whole(net, layer, name, kn_caffe_number(layer->param, name, (double)usual), least, number);
}

bool kn_caffe_axis(kn_caffe *net, const kn_caffe_layer *layer, const char *name, int64_t usual, int *axis) {
    int64_t found = 0;
    int rank = layer->bottoms[0]->rank;
    if (!kn_caffe_whole(net, layer, name, usual, -KN_MAX_RANK, &found)) return false;
    *axis = (int)(found < 0 ? found + rank : found);
    return (*axis >= 0 && *axis < rank) ||
           kn_caffe_refuse(net, layer, "%s is %" PRId64 ", and '%s' has %d axes", name, found,
                           layer->bottoms[0]->name, rank);
}

bool kn_caffe_pair(kn_caffe *net, const kn_caffe_layer *layer, const char *name, const char *height,
                   const char *width, int64_t usual, int64_t least, int64_t pair[2]) {
    const kn_caffe_item *first = kn_caffe_next(layer->param, name, NULL);
    const kn_caffe_item *second = first ? kn_caffe_next(layer->param, name, first) : NULL;
    int count = kn_caffe_count(layer->param, name);
    if (count > 2)
        return kn_caffe_refuse(net, layer, "%d values for %s; expected 1 for height and width, or 2", count,
                               name);
    const kn_caffe_item *items[2] = {first, second ? second : first};
    const char *sides[2] = {height, width};
    for (int i = 0; i < 2; i++) {
        double own = items[i] && items[i]->kind == KN_CAFFE_NUMBER ? items[i]->as.number : (double)usual;
        if (!check_whole(net, layer, name, kn_caffe_number(layer->param, sides[i], own), least, &pair[i]))
            return false;
    }
    return true;
}

bool kn_caffe_product(kn_caffe *net, const kn_caffe_layer *layer, const int64_t *dims, int count,
                      int64_t *product) {
    *product = 1;
    for (int i = 0; i < count; i++) {
        if (dims[i] && *product > KN_CAFFE_SIZE / dims[i])
            return kn_caffe_refuse(net, layer, "a row would have more than %d elements", KN_CAFFE_SIZE);
        *product *= dims[i];
    }
    return true;
}

/* ---- blobs --------------------------------------------------------------------------------------------- */

kn_caffe_blob *kn_caffe_add_blob(kn_caffe *net, const char *name, const char *value) {
    kn_model *model = net->model;
    kn_caffe_blob *blob = kn_arena_take(&model->arena, 1, sizeof *blob);
    if (!blob ||
        !kn_reserve(&model->host, (void **)&net->blobs, &net->blob_capacity, net->blob_count + 1,
                    sizeof *net->blobs) ||
        !kn_map_put_text(&net->by_name, name, blob)) {
        kn_model_no_memory(model);
        return NULL;
    }
    blob->name = name;
    blob->value = value;
    net->blobs[net->blob_count++] = blob;
    return blob;
}

bool kn_caffe_make(kn_caffe *net, const kn_caffe_layer *layer, int position, const char *value, int rank,
                   const int64_t *dims) {
    if (!value || position >= layer->top_count) return value != NULL;
    for (int i = 0; i < rank; i++)
        if (dims[i] > KN_CAFFE_SIZE)
            return kn_caffe_refuse(net, layer, "%" PRId64 " elements along axis %d; expected at most %d",
                                   dims[i], i, KN_CAFFE_SIZE);
    kn_caffe_blob *blob = kn_caffe_add_blob(net, layer->tops[position], value);
    if (!blob) return false;
    blob->rank = rank;
    memmove(blob->dims, dims, (size_t)rank * sizeof *dims);
    return true;
}

bool kn_caffe_like(kn_caffe *net, const kn_caffe_layer *layer, const char *value) {
    return kn_caffe_make(net, layer, 0, value, layer->bottoms[0]->rank, layer->bottoms[0]->dims);
}

bool kn_caffe_add_weight(kn_caffe *net, const kn_caffe_layer *layer, int blob, const char *line,
                         const char *part, int rank, const int64_t *shape, int ones, kn_caffe_change change) {
    kn_model *model = net->model;
    if (!kn_reserve(&model->host, (void **)&net->weights, &net->weight_capacity, net->weight_count + 1,
                    sizeof *net->weights))
        return kn_model_no_memory(model);
    kn_caffe_weight *weight = &net->weights[net->weight_count];
    *weight =
        (kn_caffe_weight){.layer = kn_arena_text(&model->arena, layer->name),
                          .tensor = kn_arena_format(&model->arena, "%s%s%s", line, *part ? "." : "", part),
                          .blob = blob,
                          .rank = rank,
                          .ones = ones,
                          .change = change};
    if (!weight->tensor || !weight->layer) return kn_model_no_memory(model);
    memcpy(weight->shape, shape, (size_t)rank * sizeof *shape);
    net->weight_count++;
    return true;
}

void kn_caffe_write_shape(kn_text *text, int rank, const int64_t *dims) {
    if (rank < 2) kn_text_add(text, "scalar");
    for (int i = 1; i < rank; i++)
        kn_text_format(text, i > 1 ? "x%" PRId64 : "%" PRId64, dims[i]);
}

const char *kn_caffe_reshaped(kn_caffe *net, const kn_caffe_layer *layer, const char *part, const char *value,
                              int rank, const int64_t *dims) {
    const char *name = kn_caffe_line(net, layer, part, "reshape @%s ", value);
    kn_caffe_write_shape(&net->lines, rank, dims);
    return name;
}
