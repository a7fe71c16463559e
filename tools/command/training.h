/* A model, its loss and its data, opened together from the command line. */
#ifndef KOINE_COMMAND_TRAINING_H
#define KOINE_COMMAND_TRAINING_H

#include "command.h"

enum { SETUP_FIELDS = 16 }; /* most that a sample of data has here */

typedef struct training_setup {
    kn_model *model;
    kn_model_loss loss;
    kn_value *accuracy;                    /* NULL where there is none */
    kn_dataset *all, *train, *validation;  /* train NULL: all of it; validation NULL: none */
    const char *loss_name, *accuracy_name; /* of their values */
    const char *loss_kind;                 /* "mse" */
    char *vocabulary;                /* of the model's file: the signs that it reads text with; NULL: none */
    char *columns;                   /* of the model's file: how it reads tables; NULL: none */
    uint64_t rate;                   /* of the model's file: that it reads sounds at; 0: none */
    char *classes;                   /* of the data: the names of samples' classes, a line each; NULL: none */
    const char *source, *loss_asked; /* as they stand on the command line */
    kn_model_setting settings[32];   /* of --set; the names are in set_text */
    size_t setting_count;
    char *set_text;
    int64_t batch;  /* above 0: the first sizes of inputs that an ONNX file leaves open under other names are
                       that */
    bool any_sizes; /* sizes that keep a file from being opened may be any that let it */
    const char *
        data; /* as it stands on the command line; NULL: none. It tells sizes that an ONNX file leaves open */
    kn_model_given given[SETUP_FIELDS]; /* those, where the file could not be opened without them */
    size_t given_count;
    kn_onnx_file *file;   /* then: what the file says, for the names in `given` */
    bool weighted;        /* --class-weights balanced */
    float *class_weights; /* then, once the data is known */
    size_t weight_count;
    bool changes; /* samples to train on are changed, as `augment` (NULL: the model's text) says */
    const char *augment;
    kn_augmentation augmentation; /* then */
    bool skip_bad;                /* --on-bad-sample skip */
    uint64_t cache;               /* --cache; 0: all */
    bool by_name; /* the data's classes are numbered as those of the model's file that have their names */
    bool frozen_statistics; /* --bn frozen */
    const char *unit;       /* of the loss, such as " nats a character"; "" for most */
    double opening;         /* seconds that opening the data took */
    double variance; /* of what should come out, where the loss is the mean square of the error; else NaN */
} training_setup;

/* The words of --loss. */
extern const char *const loss_words[];
extern const int loss_word_count;
/* The words of --optimizer, in the order of kn_optimizer; answers how many. */
enum { OPTIMIZERS_MOST = 31 }; /* bits of an unsigned */
int optimizer_list(const char *words[OPTIMIZERS_MOST]);
/* The kn_optimizer that a word means; otherwise says which words there are and answers -1. */
int optimizer_choice(const char *word);
/* The words of --bn: what batch norms go by in training. */
enum { BN_BATCH, BN_FROZEN, BN_WORDS };
extern const char *const bn_words[BN_WORDS];

/* Reads "NAME=NUMBER,NAME=NUMBER" (NULL: nothing), before the model is opened. Says what is wrong and answers
 * false. */
bool setup_settings(training_setup *setup, const char *text);
/* The same for the check of a command line: answers a status. */
int settings_check(const char *text);
/* The row of an option table for it. */
#define SET_OPTION(target)                                                                                   \
    {                                                                                                        \
        "set", OPTION_TEXT, "NAME=N,…",                                                                      \
            "other numbers in lines `set NAME N` of the model's text, or for sizes that an ONNX file "       \
            "leaves open",                                                                                   \
            &(target)                                                                                        \
    }
/* Whether the signs of a text's vocabulary are more than characters: U+001E stands before each then. */
bool signs_are_joined(const char *vocabulary);
/* Opens a model and adds a loss (NULL: its own); setup->data is to be set before. Says what is wrong and
 * answers false. */
bool setup_model(training_setup *setup, const char *model, const char *loss);
/* Opens a model without a loss, which its outputs may not fit. */
bool setup_bare_model(training_setup *setup, const char *model);
/* The name of a size that a value leaves open, or an expression of such; false where it is a number. */
bool open_size(const kn_value *value, int axis, char *name, size_t room);
/* Whether all sizes of the inputs but the batch are numbers; otherwise says how they become such, and answers
 * false. */
bool setup_sizes_known(const training_setup *setup);
/* How many samples an ONNX file says that come at once; -1 where it leaves that open, as other models do. */
int64_t setup_fixed_batch(const training_setup *setup);
/* Whether so many may; otherwise says what to do and answers false. */
bool setup_batch_fits(const training_setup *setup, uint64_t batch);
/* What a model reads: one sample of an input; false where a size is not a number. */
bool value_sample(const kn_value *input, kn_tensor_info *sample);
/* The rate of the sounds that a file's weights were trained on; 0: none. */
uint64_t model_rate(const kn_model *model);
/* What is changed in samples to train on: "flip,crop=4", or "none". */
const char *setup_augment(const training_setup *setup);
/* Later data is read as the data was that this file's weights were trained on: text with the same signs,
 * tables with the same columns, sounds at the same rate. */
void setup_reading(training_setup *setup, const kn_model *saved);
/* Reads --on-bad-sample (NULL: fail). EXIT_DONE, or says what makes no sense and answers EXIT_USAGE. */
int bad_sample_check(const char *word, bool *skip);
/* Warns of each of the samples that were left out, as far as a person reads on. part: "to train on" */
void tell_left_out(const kn_dataset *dataset, const char *part);
/* The row of an option table for it. */
#define BAD_SAMPLE_OPTION(target)                                                                            \
    {                                                                                                        \
        "on-bad-sample", OPTION_TEXT, "WHAT",                                                                \
            "where a picture or sound cannot be read: fail, or skip it and say so (fail)", &(target)         \
    }
/* The same for weights that are in another file than the model. */
#define WEIGHTS_OPTION(target)                                                                               \
    {                                                                                                        \
        "weights", OPTION_TEXT, "FILE",                                                                      \
            "weights for a model whose file has none, or others: .safetensors or .caffemodel", &(target)     \
    }
/* The row of an option table for --cache. */
#define CACHE_OPTION(target)                                                                                 \
    {                                                                                                        \
        "cache", OPTION_BYTES, "BYTES",                                                                      \
            "keep so much of decoded pictures and sounds in memory, such as 4GB, and decode the others "     \
            "anew (all of them)",                                                                            \
            &(target)                                                                                        \
    }
/* Opens setup->data. share > 0: so much of it is set aside for validation; 0: the source's own test part, if
 * it has one. Checks that it fits the model's input. */
bool setup_data(training_setup *setup, double share, uint64_t seed);
/* The feeds of a batch, without its numbers: they tell the sizes that a model leaves open. Answers how many.
 */
size_t setup_sizes(const training_setup *setup, int64_t batch, kn_feed feeds[SETUP_FIELDS]);
/* The data to judge by, or all of it. */
const kn_dataset *setup_judged(const training_setup *setup);
/* How good a score is beside its loss: "accuracy 98.50%" or "R2 0.9120", behind `before`; "" where nothing
 * says so. */
const char *setup_quality(const training_setup *setup, const kn_score *score, const char *before, char *text,
                          size_t room);
/* 1 less the share of the variance that is left; NaN for what is no regression. */
double setup_r2(const training_setup *setup, const kn_score *score);
/* An inference session for loss and accuracy on some states, with `whole` for the first output as well. The
 * limit of memory is the caller's to check. */
kn_session *setup_judge(training_setup *setup, kn_context *context, kn_states *states, bool exact,
                        bool whole);
void setup_finish(training_setup *setup);

#endif
