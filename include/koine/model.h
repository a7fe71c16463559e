/* Models: a network by name, from a text, or from a file with its weights.
 *
 *     kn_model *model = kn_model_open("lenet", NULL);
 *     kn_model_loss loss = KN_MODEL_LOSS_DEFAULTS;
 *     kn_model_add_loss(model, NULL, &loss);
 *     kn_trainer *trainer = kn_trainer_create(context, loss.value, NULL);
 *     // … train …
 *     kn_status status = kn_model_save(model, "lenet.safetensors", kn_trainer_states(trainer), NULL);
 *     kn_trainer_destroy(&trainer);
 *     kn_model_destroy(&model);
 *
 * The text of a model has one layer per line; kn_model_grammar writes the reference page.
 *
 * Ownership: the caller destroys a model; its graph and all strings live as long as it does. Functions that
 * create return NULL only when out of memory, otherwise a handle that may carry an error. Every function
 * accepts NULL. Thread-safety: a model belongs to one thread at a time. */
#ifndef KOINE_MODEL_H
#define KOINE_MODEL_H

#include <koine/graph.h>
#include <koine/session.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kn_model kn_model;

/* An integer that replaces the number of a line `set NAME NUMBER`; for an ONNX file, the value of a size that
 * its inputs leave open. */
typedef struct kn_model_setting {
    const char *name;
    int64_t value;
} kn_model_setting;

/* An array for an input of an ONNX file, by its name in the file ("" or NULL: the first input). Its
 * dimensions replace the input's; a negative one keeps that of the file. If its elements determine what is
 * computed (a shape, an axis, k) the input becomes a constant and is no longer an input of the model;
 * otherwise they are not used, and data may be NULL. An input of strings (kn_model_string), a sequence, or an
 * optional always becomes a constant. */
typedef struct kn_model_given {
    const char *name;
    kn_tensor_info info;
    const void *data;
    const char *const *texts; /* the elements of an input of strings, whose type in `info` is KN_INT64 */
    const struct kn_model_given *elements; /* the tensors of a sequence or an optional; `info` is not used */
    size_t element_count;
} kn_model_given;

typedef struct kn_model_params {
    size_t size; /* of this struct, in the calling program's version */
    kn_allocator allocator;
    kn_logger log;
    const char *source; /* what messages call the text, such as a path; NULL: "text", or the path */
    /* needed only during the call; part of the model's text, but not of a saved ONNX file, whose sizes stay
     * open */
    const kn_model_setting *settings;
    size_t setting_count;
    const kn_model_given *given; /* for ONNX files; needed until the model is created */
    size_t given_count;
    /* batch norms use their running statistics in training too, and leave them unchanged */
    bool frozen_statistics;
    bool narrow_integers; /* int64 inputs of an ONNX file become int32, the type that datasets have */
} kn_model_params;
#define KN_MODEL_DEFAULTS KN_DEFAULTS_ZERO(kn_model_params)
KN_API void kn_model_params_init(kn_model_params *params);

/* Creates a model of the zoo (see kn_zoo_count), with settings after its name if it has any:
 * "gpt,layers=2,width=96". Settings in params take precedence. params NULL means defaults. */
KN_API KN_NODISCARD kn_model *kn_model_create_named(const char *name, const kn_model_params *params);
/* Parses a text model. kn_model_error reports an error with its line and column. */
KN_API KN_NODISCARD kn_model *kn_model_parse(const char *text, const kn_model_params *params);
/* Opens a model by its name in the zoo, or by the path of a text model, a file written by kn_model_save (see
 * kn_model_load), an ONNX file, a language model in a GGUF file or in a folder, or a Caffe net: its text
 * (.prototxt) or its weights (.caffemodel). A folder has config.json and model.safetensors, or an index and
 * its parts, as saved by Hugging Face libraries. A GGUF file or a folder becomes a text model whose
 * setting `window` is the number of positions; docs/language-models.md lists the architectures and the inputs
 * of encoders; weights in blocks are dequantized to float32 when loaded. A setting or tensor that Koine does
 * not support is KN_ERROR_UNSUPPORTED, and the message names it. A Caffe net is converted to a text model
 * (kn_model_text) with its layers of phase TEST; a single input is named "x", several inputs keep their
 * names. Zoo names take precedence: write ./lenet for a file of that name. An ONNX file or Caffe net with
 * operators, layers or types that Koine lacks is KN_ERROR_UNSUPPORTED, and the message names them all. A file
 * with weights may be read until the model is destroyed: replace it by renaming a new file, as kn_model_save
 * does, because truncating a file in use ends the process on some systems. */
KN_API KN_NODISCARD kn_model *kn_model_open(const char *name_or_path, const kn_model_params *params);
/* Opens an ONNX file in memory, which must stay unchanged until the model, and all models bound from it, are
 * destroyed. `folder` is the folder of its external data; NULL: a file with external data is refused.
 * Otherwise as kn_model_open; messages call the file params->source, by default "model in memory". */
KN_API KN_NODISCARD kn_model *kn_model_open_memory(const void *bytes, size_t count, const char *folder,
                                                   const kn_model_params *params);
/* Makes a model from a graph that the program built, and takes the graph over: *graph is NULL afterwards. The
 * graph's inputs and outputs (kn_output) become the model's; weights are loaded and saved by the names of its
 * parameters. Settings and given arrays are ignored. If the model carries an error, *graph is unchanged:
 * KN_ERROR_ARGUMENT without a graph or outputs, or the graph's own error. */
KN_API KN_NODISCARD kn_model *kn_model_create_from_graph(kn_graph **graph, const kn_model_params *params);
/* Copies the graph of a model with its inputs, in the same order, its outputs, and all they need, but without
 * a loss that was added, so that a second model with a different loss can be made. Names, initial values,
 * frozen parameters and pins are copied. The caller destroys *graph, which is NULL on failure. */
KN_API kn_status kn_model_copy_graph(kn_model *model, kn_graph **graph);
/* Whether the graph is built, false for a failed model. Only an ONNX file may leave it unbuilt, if the graph
 * depends on sizes that the file leaves open or on the values of an input. Such a model opens without an
 * error; kn_model_error says what is missing, its graph has only the inputs, kn_model_output_at is NULL, and
 * kn_model_bind makes a model that can be run. */
KN_API bool kn_model_bound(const kn_model *model);
/* Whether the graph can be computed for inputs of these shapes, which leave no size open. False for a model
 * that is not bound, if shapes do not match the inputs or one another, or if sizes are equal that were
 * assumed to differ when the graph was built, such as an open size and 1: kn_model_bind builds the graph for
 * them. Sessions report KN_ERROR_SHAPE then. */
KN_API bool kn_model_fits(const kn_model *model, const kn_model_given *given, size_t given_count);
/* Builds the graph of an ONNX file for inputs of these shapes, and for their values if these determine what
 * is computed; such an input becomes a constant. An array may leave sizes open (-1), and inputs without an
 * array stay as in the file; if that does not suffice, the result is not bound either. Any model from an ONNX
 * file can be bound any number of times. The result is a separate model, which the caller destroys before or
 * after `model`; both share the file and belong to one thread. A weight has the same name in all models of a
 * file, so they can share kn_states; load them once, by the result. Settings and arrays given at opening
 * stay; `given` is needed only during the call. */
KN_API KN_NODISCARD kn_model *kn_model_bind(kn_model *model, const kn_model_given *given, size_t given_count);
/* The name in the file of a value that must be known to build the graph: an input without elements, or a
 * value that can be computed from such inputs, as a condition of `If`, the input of NonZero, or the result of
 * a loop that ends on a computed condition. A kn_runner (koine/runner.h) computes it. NULL for a bound model,
 * and if something else is missing. */
KN_API const char *kn_model_missing_value(const kn_model *model);
/* Whether an output of an ONNX file is one of strings. */
KN_API bool kn_model_output_has_strings_at(const kn_model *model, size_t position);
/* The string for an element of such an output: the graph computes with a number for each different string of
 * the model, as int64. NULL for a number that no string has. Valid as long as the model. */
KN_API const char *kn_model_string(const kn_model *model, int64_t number);
KN_API void kn_model_destroy(kn_model **model);
/* KN_OK if the model can be used. NULL gives KN_ERROR_MEMORY. */
KN_API kn_status kn_model_status(const kn_model *model);
/* The last error message; "" if none. Valid until the next call on this model. */
KN_API const char *kn_model_error(const kn_model *model);

/* ---- properties of a model ------------------------------------------------------------------------ */

/* The meaning of the outputs, which determines how the model is evaluated. */
typedef enum kn_task {
    KN_TASK_CLASSIFICATION = 0, /* logits of classes; targets are class indices */
    KN_TASK_REGRESSION = 1,     /* numbers; targets have the outputs' shape */
} kn_task;

/* "lenet": from the text's `model` line, otherwise the name of its file; "" for a failed model. */
KN_API const char *kn_model_name(const kn_model *model);
/* The text in canonical form, including comments; "" for a failed model and for one from ONNX. */
KN_API const char *kn_model_text(const kn_model *model);
KN_API kn_task kn_model_task(const kn_model *model);
/* The name of the default training loss: "cross-entropy". */
KN_API const char *kn_model_loss_name(const kn_model *model);
/* The augmentation in the model's text, for kn_augmentation_read: "flip,crop=4"; "" if none. */
KN_API const char *kn_model_augmentation(const kn_model *model);
/* Owned by the model; NULL for a failed model. */
KN_API kn_graph *kn_model_graph(const kn_model *model);
/* In the order of the text; NULL past the last. Targets of a loss are not among the inputs. Outputs are NULL
 * while the model is not bound (kn_model_bound); their names are known. Of a bound model, a sequence or an
 * optional of an ONNX file is as many outputs as it has tensors, with one name. */
KN_API size_t kn_model_input_count(const kn_model *model);
KN_API kn_value *kn_model_input_at(const kn_model *model, size_t position);
KN_API size_t kn_model_output_count(const kn_model *model);
KN_API kn_value *kn_model_output_at(const kn_model *model, size_t position);
/* Builds the graph for incremental generation, which computes `rows` positions of the window per run; the
 * caller destroys it. Its inputs are the model's input, (1,rows), and "step.start", int32 (1): the position
 * of the first row; all rows must be within the window. *output is the model's first output at these
 * positions, (1,rows,…), under its name. Keys, values and recurrent states are kept in states that sessions
 * on the same kn_states share: a session with the rows of a prompt, then one with a single row per token.
 * Recurrent layers are reset at position 0 and need the input "step.count", int32 (1): the number of rows
 * that are not padding. Returns NULL if the model has layers other than causal attention, forward recurrent
 * layers and layers that treat each position separately, or when out of memory. */
KN_API KN_NODISCARD kn_graph *kn_model_step(const kn_model *model, int64_t rows, kn_value **output);
/* The same, with the output only at the last of the `step.count` rows that are not padding, (1,1,…). Rows
 * after it are computed only as far as later runs need them, and their keys and values are overwritten by the
 * run that begins at their position. A prompt is read in pieces: all but the last have step.count = rows. */
KN_API KN_NODISCARD kn_graph *kn_model_step_last(const kn_model *model, int64_t rows, kn_value **output);
/* The same for several texts at once, whose keys and values are in `slots` slots of the caches, up to 256.
 * kn_model_step_slot reads a piece of the text in one slot: it has another input "step.slot", int32 (1), the
 * number of the slot. kn_model_step_texts reads one row of each of the texts in the first slots: the model's
 * input and "step.start" are (texts,1) and (texts), the output is (texts,1,…); a slot whose start is -1 is
 * neither read nor written, and its output means nothing. NULL also if the model has recurrent layers. */
KN_API KN_NODISCARD kn_graph *kn_model_step_slot(const kn_model *model, int64_t rows, int64_t slots,
                                                 kn_value **output);
KN_API KN_NODISCARD kn_graph *kn_model_step_texts(const kn_model *model, int64_t texts, int64_t slots,
                                                  kn_value **output);
/* Whether generation may continue past the window: true if only recurrent layers remember earlier positions.
 */
KN_API bool kn_model_can_stream(const kn_model *model);
/* Gets the number of a line `set NAME NUMBER` of the text; returns false, with *value unchanged, if there is
 * none of that name. */
KN_API bool kn_model_setting_value(const kn_model *model, const char *name, int64_t *value);
/* The names in these lines, in order; NULL past the last. Valid as long as the model. */
KN_API const char *kn_model_setting_name_at(const kn_model *model, size_t position);
/* Pins layers and blocks whose names match a pattern (* matches any characters, ? matches one), like
 * `device=` in their lines; nodes of an ONNX file match by the names of their results. See kn_pin in
 * koine/graph.h. Call it before a session or trainer is created; the last matching pattern wins. NULL
 * unpins. Returns the number of matches; 0 also for an empty device name or when out of memory, see
 * kn_model_error. */
KN_API int kn_model_pin(kn_model *model, const char *pattern, const char *device);
/* The names in the file; "" past the last. An ONNX file's names may contain characters that value names
 * cannot, which become '_'. */
KN_API const char *kn_model_input_name_at(const kn_model *model, size_t position);
KN_API const char *kn_model_output_name_at(const kn_model *model, size_t position);
/* Number of elements in all parameters, including frozen ones. */
KN_API uint64_t kn_model_parameter_elements(const kn_model *model);
/* Floating-point operations of its outputs for one sample, in inference and by the direct methods; a
 * multiply-add counts as two. Open sizes count as 1. 0 for a failed model and when out of memory. */
KN_API double kn_model_flops(const kn_model *model);

/* Names of the sizes that an ONNX file leaves open and no setting sets, each once, except the batch; also for
 * a model that could not be opened. *first (may be NULL) is set to whether the size is the first dimension of
 * an input, and so usually the batch. NULL past the last; at most 32. */
KN_API const char *kn_model_open_size_at(const kn_model *model, size_t position, bool *first);

/* A weight of the model; strings live as long as the model. */
typedef struct kn_model_weight {
    size_t size;
    const char *name;  /* of its value; for a weight without a state in the graph, its name in the file */
    const char *type;  /* element type in which the model computes with it: "float32" */
    const char *shape; /* "64,3,7,7"; "" for a scalar */
    uint64_t elements;
    bool trained;       /* trained by a loss on the first output */
    const char *reason; /* why it is not trained; "" if it is */
    /* for a trained weight of an ONNX file: the rule that classified it as trained; otherwise "" */
    const char *rule;
} kn_model_weight;
#define KN_MODEL_WEIGHT_DEFAULTS KN_DEFAULTS_ZERO(kn_model_weight)
/* Parameters and running statistics in the order in which they were added to the graph; for an ONNX file also
 * all other initializers. False past the last, and *weight is unchanged. */
KN_API size_t kn_model_weight_count(const kn_model *model);
KN_API bool kn_model_weight_at(const kn_model *model, size_t position, kn_model_weight *weight);

/* The values that training needs besides the model. */
typedef struct kn_model_loss {
    size_t size;
    kn_value *target;    /* the input "y": int32 class indices, or float32 numbers */
    kn_value *value;     /* the scalar to minimise */
    kn_value *accuracy;  /* the fraction of correct predictions; NULL if there are no classes */
    kn_value *eval_loss; /* the loss for evaluation: `value`, unless training samples are mixed */
    /* a softmax or sigmoid at the end of the model that the loss applies a second time, most likely a
     * mistake; NULL: none */
    kn_value *duplicate_activation;
    bool has_ignore_index; /* loss and accuracy skip targets of class ignore_index (kn_accuracy_ignoring) */
    int64_t ignore_index;
} kn_model_loss;
#define KN_MODEL_LOSS_DEFAULTS KN_DEFAULTS_ZERO(kn_model_loss)
/* Adds a loss on the first output to the graph, with the target as an input "y". name: "cross-entropy",
 * "nll", "mse", "l1", "huber", "smooth-l1", "binary-cross-entropy", "probability-cross-entropy",
 * "kl-divergence" or "hinge"; NULL: the model's own, with the settings of its text. If the output is a
 * softmax over its last axis, "cross-entropy" uses the softmax's input. Once per model. */
KN_API kn_status kn_model_add_loss(kn_model *model, const char *name, kn_model_loss *loss);
/* The same with class weights of 0 or more (kn_cross_entropy_params); for classification losses. weights
 * NULL: all equal. The weights are copied and are not part of the model's text. */
KN_API kn_status kn_model_add_weighted_loss(kn_model *model, const char *name, const float *weights,
                                            size_t count, kn_model_loss *loss);
/* The same for samples that a loader mixes (kn_augmentation): `value` also reads "y.other" and "y.share" of
 * the batches and is the fraction "y.share" times the loss against "y" plus the remaining fraction times the
 * loss against "y.other"; with class weights, divided by the weights combined in the same way. `eval_loss`
 * and `accuracy` use only "y", for samples that are not mixed. For classification losses with one class per
 * sample. */
KN_API kn_status kn_model_add_mixed_loss(kn_model *model, const char *name, const float *weights,
                                         size_t count, kn_model_loss *loss);

/* ---- adapters -------------------------------------------------------------------------------------- */

/* Low-rank adapters (LoRA) of linear layers. */
typedef struct kn_adapter_params {
    size_t size;
    int64_t rank; /* 16; of the product of A (rank,inputs) and B (units,rank) */
    double alpha; /* 32; the product is scaled by alpha / rank */
    /* names of linear layers, or their last components, separated by commas, where * matches any characters
     * and ? matches one: "attn_q,attn_v". NULL or "all": all linear layers except those that make outputs */
    const char *targets;
    bool rank_stabilized; /* false; scales by alpha / sqrt(rank) instead (rsLoRA) */
    double dropout; /* 0; probability with which elements of an adapter's input are dropped in training */
} kn_adapter_params;
#define KN_ADAPTER_DEFAULTS KN_DEFAULTS(kn_adapter_params, KN_FIELD(rank, 16), KN_FIELD(alpha, 32))
KN_API void kn_adapter_params_init(kn_adapter_params *params);
/* Adds adapters: the result of a linear layer becomes y + scale (x A^T) B^T before its bias, with parameters
 * LAYER.lora_a, uniform within 1 / sqrt(inputs), and LAYER.lora_b, zero. All other parameters are frozen:
 * they get neither gradients nor optimizer state. Call it once, before a loss is added and before sessions,
 * trainers or kn_model_step. The values of the graph stay valid; kn_model_output_at may change. A file that
 * kn_model_save writes then has the adapter and, if the model was opened from a file with weights, not the
 * frozen parameters. KN_ERROR_NOT_FOUND, with the model unchanged: `targets` has a word that no linear layer
 * matches. params NULL: defaults. */
KN_API KN_NODISCARD kn_status kn_model_adapt(kn_model *model, const kn_adapter_params *params);
/* Gets the adapter's parameters, without targets; false, with *params unchanged, if there is no adapter. */
KN_API bool kn_model_adapter(const kn_model *model, kn_adapter_params *params);
/* Adds the adapter that a file describes: a folder that PEFT wrote (adapter_config.json and
 * adapter_model.safetensors), a GGUF file of the type "adapter" for a model from a GGUF file, or a
 * safetensors file that kn_model_save wrote for an adapted model. Layers are those that the file has matrices
 * for; PEFT's names of a language model's layers are those of Hugging Face's classes
 * ("model.layers.0.self_attn.q_proj" is blk0.attn_q). KN_ERROR_UNSUPPORTED names a setting that changes
 * results and that Koine does not support, such as use_dora. Afterwards kn_model_load_adapter sets the
 * parameters. Otherwise as kn_model_adapt; after an error the model is unusable. */
KN_API KN_NODISCARD kn_status kn_model_open_adapter(kn_model *model, const char *path);
/* Sets the parameters of the adapter in `states` from a file of any of these kinds, which must have the same
 * layers, rank and scale. */
KN_API KN_NODISCARD kn_status kn_model_load_adapter(kn_model *model, const char *path, kn_states *states);
/* Writes the adapter: a GGUF file if the path ends in ".gguf", otherwise a folder as PEFT reads it, which is
 * created if missing and whose files are replaced. Each file is written atomically. Waits for the device. */
KN_API KN_NODISCARD kn_status kn_model_save_adapter(kn_model *model, const char *path, kn_states *states);

/* Adds an adapter to weights in `states`: W + scale B A for each of its layers, computed in double precision
 * and rounded once. The model must have no adapter itself. KN_ERROR_UNSUPPORTED for a layer whose weight has
 * another reader, such as an output that shares the embedding's table. Nothing is changed if a layer does not
 * fit; after another error, some layers may have been changed. */
KN_API KN_NODISCARD kn_status kn_model_merge_adapter(kn_model *model, const char *path, kn_states *states);

/* Lets rows of the model's input have several texts: adds the input "first", int32 like the input x
 * (batch,window), the position at which the text of each position begins. Attention sees no position before
 * it. For sessions and trainers that are created afterwards; packed false removes the input again. Datasets
 * of such rows have a field of this name (",pack" after chat:FILE). KN_ERROR_UNSUPPORTED, with the model
 * unchanged: the model has a table of positions, or something other than causal attention connects positions.
 */
KN_API KN_NODISCARD kn_status kn_model_pack(kn_model *model, bool packed);

/* ---- files ---------------------------------------------------------------------------------------- */

typedef struct kn_model_pair {
    const char *key, *value;
} kn_model_pair;

typedef struct kn_model_save_params {
    size_t size;
    bool training;              /* also save what a resumed training run needs: moments, counters */
    const kn_model_pair *pairs; /* additional metadata; keys that begin with "koine." are reserved */
    size_t pair_count;
    /* KN_FLOAT16 or KN_BFLOAT16: float32 parameters of rank 2 or more are rounded to it; a number that is too
     * large for it is an error. For safetensors files, and folders of models from GGUF files. */
    kn_dtype weights;
    /* kn_model_save_gguf: the type of matrices, a name such as "Q8_0"; NULL: that of the model's file */
    const char *blocks;
} kn_model_save_params;
#define KN_MODEL_SAVE_DEFAULTS KN_DEFAULTS_ZERO(kn_model_save_params)
KN_API void kn_model_save_params_init(kn_model_save_params *params);
/* Writes a safetensors file atomically: parameters and statistics by name, and the model's text, or the graph
 * that it was made from, as metadata. The file of an ONNX model, or of a graph with custom operators or
 * transposed convolutions, has neither, so it can only be loaded into the same model. Waits for the device.
 */
KN_API KN_NODISCARD kn_status kn_model_save(kn_model *model, const char *path, kn_states *states,
                                            const kn_model_save_params *params);
/* Writes an ONNX file atomically. A model from an ONNX file keeps the file's names and nodes, with weights
 * and statistics from `states` (NULL: the file's own); batch norms and dropouts in training mode are written
 * in inference mode. For another model, its graph is written with its value names; KN_ERROR_UNSUPPORTED names
 * everything without an ONNX counterpart. Only the metadata of params is used: ONNX files have no training
 * states. Waits for the device. */
KN_API KN_NODISCARD kn_status kn_model_save_onnx(kn_model *model, const char *path, kn_states *states,
                                                 const kn_model_save_params *params);

/* Writes a GGUF file atomically, for a language model that was opened from a GGUF file or from a folder whose
 * architecture GGUF files have; KN_ERROR_UNSUPPORTED says what they lack. The vocabulary, with its chat
 * template, comes from the same place. params->blocks is F32, F16, BF16, Q8_0, Q5_0, Q4_0, Q4_K or Q6_K, with
 * the bytes of llama.cpp's quantizers. As there, vectors are F32; with Q4_0 and Q4_K, the matrix of the
 * output is Q6_K; rows that are not multiples of 256 are Q5_0 instead of Q4_K and Q8_0 instead of Q6_K, and
 * those that are not multiples of 32 are F16. Without params->blocks, weights that have not changed keep
 * their type, and others in blocks become F16. A number that is too large for its type is an error. Waits for
 * the device. */
KN_API KN_NODISCARD kn_status kn_model_save_gguf(kn_model *model, const char *path, kn_states *states,
                                                 const kn_model_save_params *params);

/* Writes a folder as Hugging Face libraries save it, with the weights in `states`. For a model that was
 * opened from a folder: its files, and model.safetensors with all its tensors, in their types. For a language
 * model from a GGUF file: config.json, the files of its vocabulary with its chat template, and
 * model.safetensors; matrices have the type params->weights, or without it their type in the file, or float32
 * if that has blocks; vectors are float32. KN_ERROR_UNSUPPORTED says what the architecture's class in
 * transformers lacks. A number that is too large for its type is an error. The folder is created if missing;
 * KN_ERROR_ARGUMENT if it has a config.json. That file is written last, so that a folder without it is
 * incomplete. Nothing else of params is used. Waits for the device. */
KN_API KN_NODISCARD kn_status kn_model_save_folder(kn_model *model, const char *path, kn_states *states,
                                                   const kn_model_save_params *params);

typedef struct kn_model_load_params {
    size_t size;
    bool training;   /* also load what a resumed training run needs, if the file has it */
    bool incomplete; /* skip tensors that do not match by name and shape, instead of failing */
    bool lacking;    /* only the weights that the states lack; for models from ONNX files, with path NULL */
} kn_model_load_params;
#define KN_MODEL_LOAD_DEFAULTS KN_DEFAULTS_ZERO(kn_model_load_params)
KN_API void kn_model_load_params_init(kn_model_load_params *params);
/* Sets `states` from a safetensors file; for a model from a Caffe net also from a .caffemodel, by layer
 * names. path NULL: the file the model was opened from. All names and shapes are checked before the first
 * state is set. Weights that have 16 bits in the file are stored so on the device (kn_store_as) by inference
 * sessions created after the model was opened from the file, or after this call. *loaded, if not NULL, is set
 * to the number of tensors loaded. */
KN_API KN_NODISCARD kn_status kn_model_load(kn_model *model, const char *path, kn_states *states,
                                            const kn_model_load_params *params, int *loaded);
/* Whether the model was opened from a file with weights. */
KN_API bool kn_model_has_weights(const kn_model *model);
/* Metadata of the file the model was opened from; NULL if it lacks the key. */
KN_API const char *kn_model_metadata(const kn_model *model, const char *key);

/* ---- the zoo and the text format --------------------------------------------------------------------- */

/* The named models in alphabetical order; NULL past the last. Strings are static. */
KN_API size_t kn_zoo_count(void);
KN_API const char *kn_zoo_name_at(size_t position);
KN_API const char *kn_zoo_text_at(size_t position);

/* Writes the reference page of the text format, in Markdown, generated from the tables of layers and
 * operators; truncated to `size` bytes and terminated. Returns the full length. */
KN_API size_t kn_model_grammar(char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
