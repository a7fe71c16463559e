/* Caffe's files as models, and as weights of models that came from such a file. */
#include "models/caffe/caffe.h"

/* The text in place of the file: what it is made of has been checked, and mistakes in it are told by its own
 * lines. */
static bool read_text(kn_model *model, const kn_text *text) {
    const char *source = model->source;
    model->source = kn_arena_format(&model->arena, "%s as a text of Koine", source);
    bool good = model->source ? kn_model_read(model, text->data, text->length) : kn_model_no_memory(model);
    model->source = source;
    return good;
}

bool kn_caffe_open_model(kn_model *model, const char *path) {
    kn_caffe_net net;
    kn_text text;
    if (kn_caffe_open(&model->host, path, &net, &model->error) != KN_OK) return false;
    model->caffe_binary = net.binary;
    kn_text_init(&text, &model->host);
    bool good = kn_caffe_translate(model, net.root, &text) && read_text(model, &text);
    kn_text_finish(&text);
    if (good && net.binary)
        model->has_weights = good = kn_caffe_take(model, path, &net, false, &model->weights);
    kn_caffe_close(&model->host, &net);
    return good;
}

bool kn_caffe_open_weights(kn_model *model, const char *path, bool incomplete, kn_safetensors *file) {
    kn_caffe_net net;
    if (kn_caffe_open(&model->host, path, &net, &model->error) != KN_OK) return false;
    const bool text = !net.binary;
    bool good = !text && kn_caffe_take(model, path, &net, incomplete, file);
    if (text)
        kn_fail(&model->error, KN_ERROR_FORMAT, "%s: is a net as text; expected its weights, a .caffemodel",
                path);
    kn_caffe_close(&model->host, &net);
    return good;
}
