/* koine convert: converts a model to another file format. */
#include <string.h>

#include "command.h"

enum { DATA_KEYS = 4 };
typedef enum kind { SAFETENSORS, ONNX, TEXT, GGUF, FOLDER } kind;

typedef struct conversion {
    const char *weights; /* the file with weights; NULL: the model's */
    const char *path;
    kind to;
    kn_dtype dtype;
    const char *type;  /* of matrices in a GGUF file; NULL: as they are */
    const char *merge; /* an adapter; NULL: none */
} conversion;

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

/* The metadata about the data of a model, such as class names, in the file with its weights or in its own. */
static size_t read_metadata(const kn_model *model, const kn_safetensors_file *weights,
                            kn_model_pair pairs[DATA_KEYS]) {
    static const char *const keys[DATA_KEYS] = {"data.classes", "data.columns", "data.rate",
                                                "data.vocabulary"};
    size_t count = 0;
    for (int i = 0; i < DATA_KEYS; i++) {
        const char *value = kn_safetensors_file_metadata(weights, keys[i]);
        if (!value) value = kn_model_metadata(model, keys[i]);
        if (value) pairs[count++] = (kn_model_pair){keys[i], value};
    }
    return count;
}

static kn_status save(kn_model *model, const conversion *about, kn_states *states) {
    kn_model_pair pairs[DATA_KEYS];
    kn_model_save_params params = KN_MODEL_SAVE_DEFAULTS;
    kn_safetensors_file *weights = about->weights && path_ends(about->weights, ".safetensors", false)
                                       ? kn_safetensors_file_open(about->weights, NULL)
                                       : NULL;
    params.weights = about->dtype;
    params.blocks = about->type;
    params.pairs = pairs;
    params.pair_count = read_metadata(model, weights, pairs);
    kn_status status = (about->to == ONNX     ? kn_model_save_onnx
                        : about->to == GGUF   ? kn_model_save_gguf
                        : about->to == FOLDER ? kn_model_save_folder
                                              : kn_model_save)(model, about->path, states, &params);
    kn_safetensors_file_destroy(&weights);
    return status;
}

static int write_weights(kn_model *model, const conversion *about) {
    kn_states *states = kn_states_create_host(NULL);
    kn_status status = KN_ERROR_MEMORY;
    if (states) status = kn_model_load(model, about->weights, states, NULL, NULL);
    if (states && status == KN_OK && about->merge)
        status = kn_model_merge_adapter(model, about->merge, states);
    if (states && status == KN_OK) status = save(model, about, states);
    if (status != KN_OK) command_fail("%s", states ? kn_model_error(model) : "out of memory");
    kn_states_destroy(&states);
    return status == KN_OK ? EXIT_DONE : EXIT_FAILED;
}

static int convert(kn_model *model, const conversion *about) {
    if (about->to == TEXT) return write_text(model, about->path);
    if (!about->weights && !kn_model_has_weights(model))
        return command_fail("'%s' has no weights: give --weights FILE", kn_model_name(model));
    bool as_it_is = about->to == ONNX && !about->weights && !about->merge && !kn_model_text(model)[0];
    if (!as_it_is) return write_weights(model, about);
    return kn_model_save_onnx(model, about->path, NULL, NULL) == KN_OK
               ? EXIT_DONE
               : command_fail("%s", kn_model_error(model));
}

/* Sets the kind of file from the ending of its name. */
static int choose_kind(conversion *about) {
    static const struct {
        const char *ending;
        kind to;
    } kinds[] = {{".safetensors", SAFETENSORS}, {".gguf", GGUF}, {".koine", TEXT}};
    const size_t length = strlen(about->path);
    if (length && about->path[length - 1] == '/') {
        about->to = FOLDER;
        return EXIT_DONE;
    }
    if (path_is_onnx(about->path)) {
        about->to = ONNX;
        return EXIT_DONE;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (path_ends(about->path, kinds[i].ending, false)) {
            about->to = kinds[i].to;
            return EXIT_DONE;
        }
    return command_misuse("the ending of '%s' is unknown; expected .onnx, .safetensors, .gguf, .koine or /",
                          about->path);
}

static int run(int count, char **arguments) {
    common_options common = {.device = NULL};
    conversion about = {.dtype = KN_FLOAT32};
    const char *dtype = NULL, *words[2];
    int word_count, status;
    const option options[] = {
        {"weights", OPTION_TEXT, "FILE", "weights from another file: .safetensors or .caffemodel",
         &about.weights},
        {"dtype", OPTION_TEXT, "TYPE",
         "type of weights of rank 2 or more in a safetensors file, or a folder from a GGUF file: float32, "
         "float16, bfloat16",
         &dtype},
        {"type", OPTION_TEXT, "TYPE",
         "type of matrices in a GGUF file: F32, F16, BF16, Q8_0, Q5_0, Q4_0, Q4_K, Q6_K (default: as they "
         "are)",
         &about.type},
        {"merge", OPTION_TEXT, "PATH", "adapter to merge into the weights: a folder, .gguf or .safetensors",
         &about.merge},
        OVERWRITE_OPTION(common),
        QUIET_OPTION(common.quiet),
        {.name = NULL}};
    if (!options_read(&command_convert, options, count, arguments, words, &word_count, 2, &status))
        return status;
    messages_setup(&common);
    if (word_count < 2) return command_misuse("convert needs two files: the input and the output");
    about.path = words[1];
    status = choose_kind(&about);
    if (status != EXIT_DONE) return status;
    if (dtype && (!kn_dtype_parse(dtype, &about.dtype) ||
                  (about.dtype != KN_FLOAT32 && about.dtype != KN_FLOAT16 && about.dtype != KN_BFLOAT16)))
        return command_misuse("--dtype is float32, float16 or bfloat16, not '%s'", dtype);
    if (dtype && about.to != SAFETENSORS && about.to != FOLDER)
        return command_misuse("--dtype is for files that end in .safetensors, and for folders");
    if (about.type && about.to != GGUF) return command_misuse("--type is for files that end in .gguf");
    if (about.merge && about.to == TEXT) return command_misuse("--merge is for files with weights");
    if (about.to != FOLDER && !path_writable(words[1], PATH_WHOLE, common.overwrite)) return EXIT_FAILED;
    kn_model *model = model_open(words[0]);
    status = model ? convert(model, &about) : EXIT_FAILED;
    kn_model_destroy(&model);
    return status;
}

const command command_convert = {
    "convert",
    "convert a model to another file format",
    "FROM TO [--weights FILE] [--merge ADAPTER] [--dtype TYPE] [--type TYPE] [--overwrite]",
    "weights merge dtype type overwrite quiet",
    "koine convert lenet.safetensors lenet.onnx\n"
    "koine convert lenet.safetensors small.safetensors --dtype float16\n"
    "koine convert trained.onnx weights.safetensors\n"
    "koine convert net.onnx merged.onnx --weights weights.safetensors\n"
    "koine convert deploy.prototxt caffe.onnx --weights net.caffemodel\n"
    "koine convert SmolLM2/ small.gguf --type Q8_0\n"
    "koine convert smollm2.gguf exported/ --dtype float16\n"
    "koine convert smollm2.gguf merged.gguf --merge poems",
    "FROM is a saved model, an ONNX file, a Caffe net or a language model. The ending of TO selects the\n"
    "format: .onnx, .safetensors (weights, and the text of a text model), .gguf (language models), .koine\n"
    "(only the text), or / for a Hugging Face folder, from one or from a GGUF file. ONNX and safetensors "
    "files\n"
    "keep class names and other metadata about the data. A text model becomes an ONNX graph of opset 20. A\n"
    "model from an ONNX file keeps its names and nodes; nodes in training mode are written in inference\n"
    "mode. --weights takes a file that koine train saved from that model, and --merge an adapter for it.\n"
    "--dtype float16 or bfloat16 halves the size of the weights in the file and, except in training, on the\n"
    "device; computation is in float32. In a GGUF file, --type is the type of matrices, and vectors are\n"
    "F32. In a folder from a GGUF file, weights in blocks become float32 unless --dtype is given.\n"
    "Weights trained from a language model are written with --weights and the model that they were trained\n"
    "from.",
    run};
