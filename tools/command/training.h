/* A model, its loss and its data, opened together from the command line. */
#ifndef KOINE_COMMAND_TRAINING_H
#define KOINE_COMMAND_TRAINING_H

#include "lora.h"

enum { SETUP_FIELDS = 16 }; /* maximum number of fields of a sample */

typedef struct training_setup {
    kn_model *model;
    kn_model_loss loss;
    kn_value *accuracy;                    /* NULL if there is none */
    kn_dataset *all, *train, *validation;  /* train NULL: all of it; validation NULL: none */
    const char *loss_name, *accuracy_name; /* names of the loss and accuracy values */
    const char *loss_kind;                 /* loss name: "mse" */
    char *vocabulary;                /* from the model's file: the tokens for reading text; NULL: none */
    char *columns;                   /* from the model's file: how to read tables; NULL: none */
    uint64_t rate;                   /* from the model's file: the sample rate for reading sounds; 0: none */
    char *classes;                   /* from the data: the class names, one per line; NULL: none */
    const char *source, *loss_asked; /* as given on the command line */
    kn_model_setting settings[32];   /* settings of --set, with their names in set_text */
    size_t setting_count;
    char *set_text;
    /* if above 0, the value of the first dimension of inputs that an ONNX file leaves open under other
     * names */
    int64_t batch;
    bool any_sizes;    /* open sizes may have any value with which the file can be opened */
    const char *input; /* a safetensors file with the shapes of an ONNX file's inputs; NULL: none */
    /* as given on the command line; NULL: none. It determines sizes that an ONNX file leaves open */
    const char *data;
    kn_model_given given[SETUP_FIELDS]; /* the sizes, if the file cannot be opened without them */
    size_t given_count;
    kn_onnx_file *file;   /* with `given`: the file's description, which owns the names */
    bool weighted;        /* --class-weights balanced */
    float *class_weights; /* set once the data is open */
    size_t weight_count;
    bool changes; /* training samples are augmented by `augment`; NULL: by the model's text */
    const char *augment;
    kn_augmentation augmentation;  /* parsed from `changes` */
    bool skip_bad;                 /* --on-bad-sample skip */
    uint64_t cache;                /* --cache; 0: all */
    bool by_name;                  /* class numbers in the data follow the class names in the model's file */
    bool frozen_statistics;        /* --batch-norm frozen */
    const kn_adapter_params *lora; /* --lora; NULL: none */
    const char *adapter;           /* --adapter; NULL: none */
    const char *tokenizer;         /* the file with the vocabulary of a language model; NULL: none */
    bool all_tokens;               /* --loss-on all */
    const char *unit;              /* unit of the loss, such as " nats per character"; "" for most */
    double opening;                /* seconds spent opening the data */
    double variance; /* variance of the target, if the loss is a mean squared error; otherwise NaN */
} training_setup;

/* The words of --loss. */
extern const char *const loss_words[];
extern const int loss_word_count;
/* Sets a setting of the trainer to the text of the option `word` (kn_trainer_params_set). EXIT_DONE, or
 * reports an error and returns EXIT_USAGE. */
int setting_take(kn_trainer_params *params, const char *word, const char *name, const char *text);
/* The words of --batch-norm: the statistics that batch norms use in training. */
enum { BN_BATCH, BN_FROZEN, BN_WORDS };
extern const char *const bn_words[BN_WORDS];

/* Parses "NAME=NUMBER,NAME=NUMBER" (NULL: nothing), before the model is opened. Reports an error and returns
 * false. */
bool setup_settings(training_setup *setup, const char *text);
/* The same for checking a command line: returns a status. */
int settings_check(const char *text);
/* The row of an option table for it. */
#define SET_OPTION(target)                                                                                   \
    {                                                                                                        \
        "set", OPTION_TEXT, "NAME=N,…",                                                                      \
            "sizes in lines `set NAME N` of a text model, or dynamic sizes of an ONNX file", &(target)       \
    }
/* Whether the tokens of a text vocabulary may have several characters: then U+001E precedes each. */
bool tokens_are_joined(const char *vocabulary);
/* Opens a model and adds a loss (NULL: the model's own); set setup->data before. Reports an error and returns
 * false. */
bool setup_model(training_setup *setup, const char *model, const char *loss);
/* Opens a model without a loss, for outputs that may not match one. */
bool setup_bare_model(training_setup *setup, const char *model);
/* The name or expression of an open size of a value; false if it is a number. */
bool open_size(const kn_value *value, int axis, char *name, size_t room);
/* Whether all sizes of the inputs except the batch are numbers; otherwise reports how to set them and returns
 * false. */
bool setup_sizes_known(const training_setup *setup);
/* The batch that an ONNX file fixes; -1 if it is open, as in other models. */
int64_t setup_fixed_batch(const training_setup *setup);
/* Whether that batch is allowed; otherwise reports what to do and returns false. */
bool setup_batch_fits(const training_setup *setup, uint64_t batch);
/* The shape of one sample of an input; false if a size is not a number. */
bool value_sample(const kn_value *input, kn_tensor_info *sample);
/* The sample rate of the sounds that a file's weights were trained on; 0: none. */
uint64_t model_rate(const kn_model *model);
/* The augmentation of training samples: "flip,crop=4", or "none". */
const char *setup_augment(const training_setup *setup);
/* Read later data like the training data of this file's weights: text with the same tokens, tables with the
 * same columns, sounds at the same rate. */
void setup_reading(training_setup *setup, const kn_model *saved);
/* Parses --on-bad-sample (NULL: fail). EXIT_DONE, or reports an error and returns EXIT_USAGE. */
int bad_sample_check(const char *word, bool *skip);
/* Warns about each sample that was left out, up to a readable number. part: "for training" */
void print_skipped(const kn_dataset *dataset, const char *part);
/* The row of an option table for it. */
#define BAD_SAMPLE_OPTION(target)                                                                            \
    {                                                                                                        \
        "on-bad-sample", OPTION_TEXT, "WHAT",                                                                \
            "fail, or skip: what to do with an image or sound that cannot be read (fail)", &(target)         \
    }
/* The same for weights in a file other than the model's. */
#define WEIGHTS_OPTION(target)                                                                               \
    { "weights", OPTION_TEXT, "FILE", "weights from another file: .safetensors or .caffemodel", &(target) }
/* The row of an option table for --cache. */
#define CACHE_OPTION(target)                                                                                 \
    {                                                                                                        \
        "cache", OPTION_BYTES, "BYTES",                                                                      \
            "limit of host memory for decoded images and sounds, such as 4GB (no limit)", &(target)          \
    }
/* Opens setup->data. share > 0: sets aside this fraction for validation; 0: uses the source's test part, if
 * it has one. Checks that the data matches the model's input. */
bool setup_data(training_setup *setup, double share, uint64_t seed);
/* The feeds of a batch without data: they determine the sizes that a model leaves open. `bytes`: as a loader
 * with that parameter delivers them. Returns their number. */
size_t setup_sizes(const training_setup *setup, int64_t batch, bool bytes, kn_feed feeds[SETUP_FIELDS]);
/* The validation data, or all of it. */
const kn_dataset *setup_evaluation_data(const training_setup *setup);
/* The quality in a score besides its loss: "accuracy 98.50%" or "R2 0.9120", preceded by `before`; "" if
 * there is none. */
const char *setup_quality(const training_setup *setup, const kn_score *score, const char *before, char *text,
                          size_t room);
/* R2: 1 minus the fraction of unexplained variance; NaN if it is not a regression. */
double setup_r2(const training_setup *setup, const kn_score *score);
/* Whether an evaluation reads the first output. The logits of a language model would take more memory than
 * the model; its loss does not store them. */
bool setup_has_output(const training_setup *setup);
/* An inference session for loss and accuracy on given states, with `whole` also for the first output, if
 * evaluations read it.
 * The caller checks the memory limit. */
kn_session *setup_evaluation(training_setup *setup, kn_context *context, kn_states *states,
                             const arithmetic *how, bool whole);
void setup_finish(training_setup *setup);

#endif
