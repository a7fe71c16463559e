/* Caffe nets as an origin of models: recognized, opened, loaded and closed. */
#include "exchange/caffe/caffe.h"

/* Reads the translated text. Messages about mistakes name lines of the text. */
static bool read_text(kn_model *model, const kn_text *text) {
    const char *source = model->source;
    model->source = kn_arena_format(&model->arena, "%s (translated)", source);
    bool good = model->source ? kn_model_read(model, text->data, text->length) : kn_model_no_memory(model);
    model->source = source;
    return good;
}

static bool open_net(kn_model *model, const char *path) {
    kn_caffe_net net;
    kn_text text;
    kn_caffe_source *source = model->origin_data = kn_allocate(&model->host, 1, sizeof *source);
    if (!source) return kn_model_no_memory(model);
    if (kn_caffe_open(&model->host, path, &net, &model->error) != KN_OK) return false;
    kn_text_init(&text, &model->host);
    bool good = kn_caffe_translate(model, &net, &text) && read_text(model, &text);
    kn_text_finish(&text);
    if (good && net.binary)
        model->has_weights = good = kn_caffe_take(model, path, &net, false, &source->tensors);
    kn_caffe_close(&model->host, &net);
    return good;
}

static void close_net(kn_model *model) {
    if (model->has_weights) kn_safetensors_close(&model->host, &kn_caffe_source_of(model)->tensors);
    kn_release(&model->host, model->origin_data);
}

/* Loads the weights of another net, by layer name. */
static kn_status load_net(kn_model *model, const char *path, kn_states *states,
                          const kn_model_load_params *params, int *loaded) {
    kn_caffe_net net;
    kn_safetensors file;
    if (kn_caffe_open(&model->host, path, &net, &model->error) != KN_OK) return model->error.status;
    if (!net.binary)
        kn_fail(&model->error, KN_ERROR_FORMAT,
                "%s: is a prototxt, which has no weights; expected a .caffemodel", path);
    const bool taken = net.binary && kn_caffe_take(model, path, &net, params->incomplete, &file);
    kn_caffe_close(&model->host, &net);
    if (!taken) return model->error.status;
    const kn_tensors_from from = {.file = &file, .path = path, .complete = true};
    kn_status status = kn_model_load_tensors(model, &from, states, params, loaded);
    kn_safetensors_close(&model->host, &file);
    return status;
}

/* The first bytes distinguish a Caffe file from a safetensors file. */
static kn_status load(kn_model *model, const char *path, kn_states *states,
                      const kn_model_load_params *params, int *loaded) {
    if (path) {
        kn_file_view view;
        kn_status status = kn_file_open_view(&model->host, path, &view, &model->error);
        if (status != KN_OK) return status;
        const bool tensors = kn_saved_is(view.bytes, view.count);
        kn_file_close_view(&model->host, &view);
        return tensors ? kn_model_load_file(model, path, states, params, loaded)
                       : load_net(model, path, states, params, loaded);
    }
    const kn_tensors_from from = {
        .file = &kn_caffe_source_of(model)->tensors, .path = model->source, .owned = true, .complete = true};
    return kn_model_load_tensors(model, &from, states, params, loaded);
}

const kn_model_origin kn_caffe_origin = {
    .name = "Caffe",
    .endings = ".caffemodel .prototxt",
    .recognizes = kn_caffe_is,
    .open = open_net,
    .load = load,
    .close = close_net,
};
