/* koine convert: converts a model to another file format. */
#include <string.h>

#include "command.h"

typedef enum kind { SAFETENSORS, ONNX, TEXT } kind;

static int write_text(const kn_model *model, const char *path) {
    const char *text = kn_model_text(model);
    if (!text[0])
        return command_fail("'%s' is from an ONNX file and has no text; write its weights to a file that "
                            "ends in .safetensors",
                            kn_model_name(model));
    whole_file file;
    if (!whole_open(&file, path)) return EXIT_FAILED;
    fputs(text, file.stream);
    return whole_close(&file, true) ? EXIT_DONE : EXIT_FAILED;
}

/* Writes the weights of the model's file, or of --weights. */
static int write_weights(kn_model *model, const char *weights, const char *path, kind to, kn_dtype dtype) {
    kn_model_save_params params = KN_MODEL_SAVE_DEFAULTS;
    params.weights = dtype;
    kn_states *states = kn_states_create_host(NULL);
    kn_status status = KN_ERROR_MEMORY;
    if (states) status = kn_model_load(model, weights, states, NULL, NULL);
    if (states && status == KN_OK)
        status = to == ONNX ? kn_model_save_onnx(model, path, states, &params)
                            : kn_model_save(model, path, states, &params);
    if (status != KN_OK) command_fail("%s", states ? kn_model_error(model) : "out of memory");
    kn_states_destroy(&states);
    return status == KN_OK ? EXIT_DONE : EXIT_FAILED;
}

static int convert(kn_model *model, const char *weights, const char *path, kind to, kn_dtype dtype) {
    if (to == TEXT) return write_text(model, path);
    if (!weights && !kn_model_has_weights(model))
        return command_fail("'%s' has no weights: give --weights FILE", kn_model_name(model));
    bool as_it_is = to == ONNX && !weights && !kn_model_text(model)[0];
    if (!as_it_is) return write_weights(model, weights, path, to, dtype);
    return kn_model_save_onnx(model, path, NULL, NULL) == KN_OK ? EXIT_DONE
                                                                : command_fail("%s", kn_model_error(model));
}

static int run(int count, char **arguments) {
    common_options common = {.device = NULL};
    const char *weights = NULL, *type = NULL, *words[2];
    kn_dtype dtype = KN_FLOAT32;
    int word_count, status;
    const option options[] = {
        {"weights", OPTION_TEXT, "FILE", "weights from another file: .safetensors or .caffemodel", &weights},
        {"dtype", OPTION_TEXT, "TYPE",
         "type of weights of rank 2 or more in a safetensors file: float32, float16, bfloat16", &type},
        OVERWRITE_OPTION(common),
        QUIET_OPTION(common.quiet),
        {.name = NULL}};
    if (!options_read(&command_convert, options, count, arguments, words, &word_count, 2, &status))
        return status;
    messages_setup(&common);
    if (word_count < 2) return command_misuse("convert needs two files: the input and the output");
    kind to = path_is_onnx(words[1]) ? ONNX : path_ends(words[1], ".safetensors", false) ? SAFETENSORS : TEXT;
    if (to == TEXT && !path_ends(words[1], ".koine", false))
        return command_misuse("the ending of '%s' is unknown; expected .onnx, .safetensors or .koine",
                              words[1]);
    if (type && (!kn_dtype_parse(type, &dtype) ||
                 (dtype != KN_FLOAT32 && dtype != KN_FLOAT16 && dtype != KN_BFLOAT16)))
        return command_misuse("--dtype is float32, float16 or bfloat16, not '%s'", type);
    if (type && to != SAFETENSORS) return command_misuse("--dtype is for files that end in .safetensors");
    if (!path_writable(words[1], PATH_WHOLE, common.overwrite)) return EXIT_FAILED;
    kn_model *model = model_open(words[0]);
    status = model ? convert(model, weights, words[1], to, dtype) : EXIT_FAILED;
    kn_model_destroy(&model);
    return status;
}

const command command_convert = {
    "convert",
    "convert a model to another file format",
    "FROM TO [--weights FILE] [--dtype TYPE] [--overwrite]",
    "weights dtype overwrite quiet",
    "koine convert lenet.safetensors lenet.onnx\n"
    "koine convert lenet.safetensors small.safetensors --dtype float16\n"
    "koine convert trained.onnx weights.safetensors\n"
    "koine convert net.onnx merged.onnx --weights weights.safetensors\n"
    "koine convert deploy.prototxt caffe.onnx --weights net.caffemodel",
    "FROM is a saved model, an ONNX file or a Caffe net. The ending of TO selects the format: .onnx,\n"
    ".safetensors (weights, and the text of a text model) or .koine (only the text). A text model becomes "
    "an\n"
    "ONNX graph of opset 20. A model from an ONNX file keeps its names and nodes; nodes in training mode "
    "are\n"
    "written in inference mode. --weights takes a file that koine train saved from that model. --dtype\n"
    "float16 or bfloat16 halves the size of the weights in the file and, except in training, on the device;\n"
    "computation is in float32.",
    run};
