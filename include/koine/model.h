/* Models: a network by its name, from a text, or from a file with its weights.
 *
 *     kn_model *model = kn_model_open("lenet", NULL);
 *     kn_model_loss loss = KN_MODEL_LOSS_DEFAULTS;
 *     kn_model_add_loss(model, NULL, &loss);
 *     kn_trainer *trainer = kn_trainer_create(context, loss.value, NULL);
 *     ...
 *     kn_model_save(model, "lenet.safetensors", kn_trainer_states(trainer), NULL);
 *
 * The text of a model is one layer a line; kn_model_grammar writes the page that explains it.
 *
 * Ownership: the caller destroys a model; its graph and all texts live as long as it does. Functions that
 * create answer NULL only when out of memory, otherwise a handle that may carry an error. Every function
 * accepts NULL.
 * Thread-safety: a model belongs to one thread at a time. */
#ifndef KOINE_MODEL_H
#define KOINE_MODEL_H

#include <koine/graph.h>
#include <koine/session.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kn_model kn_model;

/* A whole number in place of that of a line `set NAME NUMBER`; of an ONNX file, for a size that its inputs
 * leave open. */
typedef struct kn_model_setting {
    const char *name;
    int64_t value;
} kn_model_setting;

/* An array for an input of an ONNX file, by the file's name for it ("" or NULL: for its first). Its sizes
 * take the place of the input's; one below 0 leaves that of the file. Where its numbers decide what is
 * computed (a shape, an axis, k) the input becomes a constant and is no input of the model any more;
 * otherwise they are not used, and data may be NULL. */
typedef struct kn_model_given {
    const char *name;
    kn_tensor_info info;
    const void *data;
} kn_model_given;

typedef struct kn_model_params {
    size_t size; /* of this struct, as the program knows it */
    kn_allocator allocator;
    kn_logger log;
    const char *source; /* what messages call the text, such as a path; NULL: "text", or the path */
    const kn_model_setting *settings; /* needed during the call only; the model's text will have them, a saved
                                       * ONNX file is as open as it was */
    size_t setting_count;
    const kn_model_given *given; /* for ONNX files; needed until the model is made */
    size_t given_count;
    bool frozen_statistics; /* batch norms keep their running statistics and go by them in training, too */
    bool narrow_integers;   /* inputs of int64 in an ONNX file become int32, as data sets have them */
} kn_model_params;
#define KN_MODEL_DEFAULTS                                                                                    \
    { sizeof(kn_model_params), {0, 0}, {0, KN_LOG_ERROR, 0}, 0, 0, 0, 0, 0, false, false }
KN_API void kn_model_params_init(kn_model_params *params);

/* A model of the zoo (see kn_zoo_count), with settings behind its name where it has any:
 * "gpt?layers=2&width=64". Those of params count where both name one. params NULL means defaults. */
KN_API kn_model *kn_model_create_named(const char *name, const kn_model_params *params);
/* Reads a text model. A mistake is told with its line and column: kn_model_error. */
KN_API kn_model *kn_model_parse(const char *text, const kn_model_params *params);
/* A name of the zoo, the path of a text model, that of a file that kn_model_save wrote (see kn_model_load),
 * or that of an ONNX file, or that of a net of Caffe: as text (.prototxt), or with its weights (.caffemodel).
 * Such a net becomes a text model (kn_model_text): its layers of the phase TEST; an only input is called "x",
 * several keep their names. A name of the zoo comes first: write ./lenet for a file of that name. An ONNX
 * file that asks for operators or types that Koine lacks, or a net of Caffe with such layers, is
 * KN_ERROR_UNSUPPORTED, and the message names them all. */
KN_API kn_model *kn_model_open(const char *name_or_path, const kn_model_params *params);
KN_API void kn_model_destroy(kn_model **model);
/* KN_OK if the model can be used. NULL gives KN_ERROR_MEMORY. */
KN_API kn_status kn_model_status(const kn_model *model);
/* What went wrong last; "" if nothing. Valid until the next call on this model. */
KN_API const char *kn_model_error(const kn_model *model);

/* ---- what a model is ------------------------------------------------------------------------- */

/* What its outputs say, which decides how it is judged. */
typedef enum kn_task {
    KN_TASK_CLASSIFICATION = 0, /* logits of classes; targets are class numbers */
    KN_TASK_REGRESSION = 1,     /* numbers; targets are of the outputs' shape */
} kn_task;

/* "lenet": the text's `model` line, otherwise the name of its file; "" for a failed model. */
KN_API const char *kn_model_name(const kn_model *model);
/* The text in its canonical form, comments included; "" for a failed model, and for one from ONNX. */
KN_API const char *kn_model_text(const kn_model *model);
KN_API kn_task kn_model_task(const kn_model *model);
/* The name of the loss it is trained with, unless told otherwise: "cross-entropy". */
KN_API const char *kn_model_loss_name(const kn_model *model);
/* What its text wants changed in the samples to train on, for kn_augmentation_read: "flip,crop=4"; "" where
 * it says nothing. */
KN_API const char *kn_model_augmentation(const kn_model *model);
/* Belongs to the model; NULL for a failed one. */
KN_API kn_graph *kn_model_graph(const kn_model *model);
/* In the order of the text; NULL beyond the last. Targets of a loss are not among the inputs. */
KN_API int kn_model_input_count(const kn_model *model);
KN_API kn_value *kn_model_input(const kn_model *model, int position);
KN_API int kn_model_output_count(const kn_model *model);
KN_API kn_value *kn_model_output(const kn_model *model, int position);
/* The model as it writes, a few places of its window in each run: a new graph, which the caller destroys. It
 * reads an input of the model's name, (1,rows), at the places from the input "step.start" on, int32 (1),
 * which has to leave room for all rows in the window; *output is what the model's first output is there,
 * (1,rows,…), under its name. Keys and values of earlier places, and what recurrent layers remember, stay in
 * states of their own, which sessions with the same states share: one with `rows` of a prompt, then one with
 * a single row for what follows. Recurrent layers begin anew at place 0, and need the input "step.count",
 * int32 (1): how many of the rows count, the rest being filled up. NULL where the model holds more than
 * causal attention, recurrent layers from the first place to the last, and what treats each place by itself,
 * or without memory. */
KN_API kn_graph *kn_model_step(const kn_model *model, int64_t rows, kn_value **output);
/* Whether places beyond the window may follow: where the model looks back by recurrent layers alone. */
KN_API bool kn_model_steps_on(const kn_model *model);
/* What a line `set NAME NUMBER` of its text says; false, and nothing is written, when there is none of that
 * name. */
KN_API bool kn_model_setting_value(const kn_model *model, const char *name, int64_t *value);
/* The names in these lines, in their order; NULL beyond the last. Valid as long as the model. */
KN_API const char *kn_model_setting_name(const kn_model *model, int position);
/* Pins layers and blocks whose names fit a pattern (* stands for any characters, ? for one), as `device=` in
 * their lines does; nodes of an ONNX file, by the names of what they make: kn_pin in koine/graph.h says what
 * that means. To be done before a session or trainer is made, and in the order of the patterns: the last that
 * fits decides. NULL pins no longer. Returns how many there were; 0 for an empty name of a device or when out
 * of memory as well, which kn_model_error tells. */
KN_API int kn_model_pin(kn_model *model, const char *pattern, const char *device);
/* What the file calls them; "" beyond the last. An ONNX file's names may have signs that those of values have
 * not, and its input, where there is one only, is "x" in the graph, as data calls it. */
KN_API const char *kn_model_input_name(const kn_model *model, int position);
KN_API const char *kn_model_output_name(const kn_model *model, int position);
/* Numbers in all its parameters, frozen ones included. */
KN_API uint64_t kn_model_parameter_elements(const kn_model *model);
/* Operations of its outputs for one sample, outside training and by the direct methods; a multiply-add counts
 * as two. Sizes that are left open count as 1. 0 for a failed model, and where memory is out. */
KN_API double kn_model_flops(const kn_model *model);

/* Names of sizes, but for the batch, that an ONNX file leaves open and nobody has set, each once, also of a
 * model that could not be opened. *first, if first is not NULL: whether an input begins with it, so that it
 * counts samples as a rule. NULL beyond the last of them, 32 at most. */
KN_API const char *kn_model_open_size(const kn_model *model, int position, bool *first);

/* A weight of the model; texts live as long as it does. */
typedef struct kn_model_weight {
    size_t size;
    const char *name;  /* that of its value; of what the graph has no state for, the file's */
    const char *type;  /* "float32", as the model computes with it */
    const char *shape; /* "64,3,7,7"; "" for a single number */
    uint64_t elements;
    bool trained;     /* by a loss on the first output */
    const char *why;  /* it is not; "" where it is */
    const char *rule; /* of what is trained in an ONNX file: what says that it is learnt; otherwise "" */
} kn_model_weight;
#define KN_MODEL_WEIGHT_DEFAULTS                                                                             \
    { sizeof(kn_model_weight), 0, 0, 0, 0, false, 0, 0 }
/* Parameters and running statistics in the order in which the graph got them; of an ONNX file also all other
 * initializers. False, and nothing is written, beyond the last. */
KN_API int kn_model_weight_count(const kn_model *model);
KN_API bool kn_model_weight_at(const kn_model *model, int position, kn_model_weight *weight);

/* What training needs beside the model. */
typedef struct kn_model_loss {
    size_t size;
    kn_value *target;   /* the input "y": int32 class numbers, or float32 numbers */
    kn_value *value;    /* the scalar to be trained */
    kn_value *accuracy; /* the share of right answers; NULL where there are no classes */
    kn_value *judged;   /* the scalar to judge by: `value`, unless samples to train on are mixed */
    kn_value *again;    /* a softmax of the model before the logits, or a sigmoid, which the loss applies once
                         * more, by    mistake most likely; NULL: none */
} kn_model_loss;
#define KN_MODEL_LOSS_DEFAULTS                                                                               \
    { sizeof(kn_model_loss), 0, 0, 0, 0, 0 }
/* Adds a loss on the first output to the graph, with the target as an input "y". name: "cross-entropy",
 * "nll", "mse", "l1", "huber", "smooth-l1", "binary-cross-entropy", "probability-cross-entropy",
 * "kl-divergence" or "hinge"; NULL: the model's own, with the settings that its text has. Where the output is
 * a softmax over its last axis, "cross-entropy" is about what goes into that. Once per model. */
KN_API kn_status kn_model_add_loss(kn_model *model, const char *name, kn_model_loss *loss);
/* The same, each class counting as much as its weight says (kn_cross_entropy_params), 0 or more; for losses
 * of classes. weights NULL: all alike. They are copied, and are no part of the model's text. */
KN_API kn_status kn_model_add_weighted_loss(kn_model *model, const char *name, const float *weights,
                                            size_t count, kn_model_loss *loss);
/* The same for samples that a loader mixes (kn_augmentation): `value` also reads "y.other" and "y.share" of
 * its batches, and is the share of a sample times the loss against "y" and the rest times that against
 * "y.other"; where classes have weights, over what both weigh so. `judged` and `accuracy` go by "y" alone,
 * for samples that are not mixed. For losses of classes, one for each sample. */
KN_API kn_status kn_model_add_mixed_loss(kn_model *model, const char *name, const float *weights,
                                         size_t count, kn_model_loss *loss);

/* ---- files ---------------------------------------------------------------------------------------- */

typedef struct kn_model_pair {
    const char *key, *value;
} kn_model_pair;

typedef struct kn_model_save_params {
    size_t size;
    bool training;              /* also what continues a training: moments, counters */
    const kn_model_pair *pairs; /* more metadata for the file; keys that begin with "koine." are taken */
    size_t pair_count;
    /* KN_FLOAT16 or KN_BFLOAT16: float32 parameters of two axes and more are rounded to it. Of safetensors
     * files only. */
    kn_dtype weights;
} kn_model_save_params;
#define KN_MODEL_SAVE_DEFAULTS                                                                               \
    { sizeof(kn_model_save_params), false, 0, 0, KN_FLOAT32 }
KN_API void kn_model_save_params_init(kn_model_save_params *params);
/* Writes a safetensors file, whole or not at all: parameters and statistics by their names, and the text of
 * the model as metadata; one from ONNX has no text, and its file can only be loaded into it. Waits for the
 * device. */
KN_API kn_status kn_model_save(kn_model *model, const char *path, kn_states *states,
                               const kn_model_save_params *params);
/* Writes an ONNX file, whole or not at all. A model from such a file: names and nodes are the file's, weights
 * and statistics those in `states` (NULL: its own); batch norms and dropouts that train in the file only
 * infer in the new one. Another model: its graph with the names of its values; KN_ERROR_UNSUPPORTED names all
 * that has no counterpart. Of params the metadata counts: what continues a training has no place in ONNX.
 * Waits for the device. */
KN_API kn_status kn_model_save_onnx(kn_model *model, const char *path, kn_states *states,
                                    const kn_model_save_params *params);

typedef struct kn_model_load_params {
    size_t size;
    bool training;   /* also what continues a training, if the file has it */
    bool incomplete; /* take what fits by name and shape and leave the rest, instead of failing */
} kn_model_load_params;
#define KN_MODEL_LOAD_DEFAULTS                                                                               \
    { sizeof(kn_model_load_params), false, false }
KN_API void kn_model_load_params_init(kn_model_load_params *params);
/* Sets `states` from a safetensors file; a model from a net of Caffe also from a .caffemodel, by the names of
 * its layers. path NULL: the file the model was opened from, which may be any with weights. All names and
 * shapes are checked before the first state is set. What has 16 bits in the file sessions that do not train
 * keep so on the device (kn_store): those that are made after the model was opened from the file, or after
 * this call. *loaded, if not NULL, gets the number of tensors taken. */
KN_API kn_status kn_model_load(kn_model *model, const char *path, kn_states *states,
                               const kn_model_load_params *params, int *loaded);
/* Whether it was opened from a file with weights. */
KN_API bool kn_model_has_weights(const kn_model *model);
/* Metadata of the file it was opened from; NULL if there is none of that key. */
KN_API const char *kn_model_metadata(const kn_model *model, const char *key);

/* ---- the zoo and the language ---------------------------------------------------------------------- */

/* The models that have a name, in alphabetical order; NULL beyond the last. Texts are static. */
KN_API int kn_zoo_count(void);
KN_API const char *kn_zoo_name(int position);
KN_API const char *kn_zoo_text(int position);

/* Writes the page that explains the text of models, in Markdown, made from the tables of layers and
 * operators; cut off at `bytes` and terminated. Answers the length it needs. */
KN_API size_t kn_model_grammar(char *text, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
