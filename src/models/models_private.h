/* Shared by the files of the models module.
 *
 * A text is split into lines (lines.c), whose structure and words are checked (check.c) and which can be
 * printed again (print.c). Building (build.c) walks the lines, unrolls blocks and repeats, and creates a
 * graph. */
#ifndef KN_MODELS_PRIVATE_H
#define KN_MODELS_PRIVATE_H

#include <koine/operators.h>

#include "models/models.h"

/* Limits, since texts may be hostile. */
enum {
    KN_MODEL_LINES = 50000,                       /* per text */
    KN_MODEL_WORDS = 160,                         /* per line */
    KN_MODEL_WORD_BYTES = 200,                    /* per word */
    KN_MODEL_PATH_BYTES = 400,                    /* per name with dots */
    KN_MODEL_DEPTH = 32,                          /* nesting of blocks, repeats and parentheses */
    KN_MODEL_PARAMETERS = 32,                     /* per block */
    KN_MODEL_LAYERS = 100000,                     /* after blocks and repeats are unrolled */
    KN_MODEL_ARGUMENTS = KN_MODEL_PARAMETERS + 5, /* per kind, including arguments common to all layers */
    KN_MODEL_LIST = 2 * KN_MAX_RANK,
};

/* Whether positions of the model's input, (batch,window), are connected only by causal attention, which
 * depends on distances, not on positions (steps.c). */
bool kn_model_sees_distances(const kn_model *model);
/* Name of the input of kn_model_pack. */
#define KN_MODEL_FIRST "first"

/* ---- lines (lines.c) ----------------------------------------------------------------------------------- */

/* A word of the text. text NULL: no word. */
typedef struct kn_word {
    const char *text;
    int column; /* of its first byte, from 1 */
} kn_word;

typedef struct kn_given {
    kn_word key; /* in KEY=VALUE; text NULL for positional arguments */
    kn_word value;
} kn_given;

typedef enum kn_line_sort {
    KN_LINE_EMPTY = 0, /* empty, or only a comment */
    KN_LINE_VERSION,
    KN_LINE_MODEL,
    KN_LINE_TASK,
    KN_LINE_LOSS,
    KN_LINE_AUGMENT,
    KN_LINE_SET,
    KN_LINE_INPUT,
    KN_LINE_OUTPUT,
    KN_LINE_BLOCK,
    KN_LINE_REPEAT,
    KN_LINE_END,
    KN_LINE_LAYER, /* a layer, or the use of a block */
} kn_line_sort;

typedef struct kn_layer_row kn_layer_row;
typedef struct kn_block kn_block;

/* The kind of a line: exactly one pointer is set. */
typedef struct kn_kind {
    const kn_layer_row *layer;
    const kn_operator *op;
    const kn_block *block;
} kn_kind;

typedef struct kn_line {
    kn_line_sort sort;
    int number;      /* line number, from 1 */
    kn_word name;    /* NAME = */
    kn_word word;    /* the first word otherwise: a keyword or KIND */
    kn_word *inputs; /* without the @; "" is the line before */
    int input_count;
    kn_given *given;
    int given_count;
    const char *comment; /* the text after #, or NULL */
    int partner;         /* index of a block's or repeat's end line, and vice versa */
    kn_kind kind;        /* of a layer, after the check */
} kn_line;

typedef struct kn_block_parameter {
    kn_word name;
    kn_word value; /* the default; text NULL: none */
} kn_block_parameter;

struct kn_block {
    const char *name;
    int first, last; /* line indices of its body: first up to, not including, last */
    kn_word *inputs; /* names; if none is declared, one input called "in" */
    int input_count;
    kn_block_parameter *parameters;
    int parameter_count;
    int number; /* number of its first line */
};

/* ---- the model ----------------------------------------------------------------------------------------- */

typedef struct kn_scope kn_scope;

typedef struct kn_variable kn_variable;
/* The nodes created by a line, or by a block and all its lines. */
typedef struct kn_made_nodes {
    const char *path;
    size_t first, end;
} kn_made_nodes;

/* The text of a model. */
struct kn_text_model {
    const char *canonical; /* the text, comments included */
    kn_line *lines;
    size_t line_count;
    kn_block *blocks; /* in text order */
    size_t block_count, block_capacity;
    const kn_line *loss_line; /* NULL: none */
    const char *augmentation; /* in the form of kn_augmentation_read; NULL: the text has no `augment` line */
    kn_variable *settings;    /* in text order */
    int setting_count;
    kn_made_nodes *made; /* in the order in which their lines were built */
    size_t made_count, made_capacity;
    const kn_scope *scope; /* the scope being built, for messages */
};

/* Records a mistake in the text, "source:line:column: …", and returns false. Inside a block, the message also
 * reports where the block is used. */
bool kn_mistake(kn_model *model, const kn_line *line, int column, const char *format, ...) KN_PRINTF(4, 5);
/* kn_mistake for a failure that is already in `model->error`. */
bool kn_mistake_here(kn_model *model, const kn_line *line, int column);
/* Writes "'word'", truncated if long, to the caller's buffer. */
enum { KN_FOUND_BYTES = 72 };
const char *kn_found(const char *word, char buffer[KN_FOUND_BYTES]);
/* Writes "; did you mean 'conv'?" to the caller's buffer, or "" if no word is near. Transposed letters and
 * upper case count as near. */
enum { KN_GUESS_BYTES = 128 };
const char *kn_guess(const char *word, const char *const *words, size_t count, char buffer[KN_GUESS_BYTES]);

/* Splits the text into lines and words, without looking anything up. */
bool kn_model_read_lines(kn_model *model, const char *text, size_t bytes);
/* Classifies each line, finds the blocks, and checks that all kinds and arguments exist. */
bool kn_model_check(kn_model *model);
/* Creates the graph. */
bool kn_model_build(kn_model *model);
/* Writes the canonical text, in the model's arena. */
bool kn_model_print(kn_model *model);

/* Whether the word consists of letters, digits and '_' and starts with a letter. */
bool kn_is_name(const char *word);

/* ---- integer arithmetic (arithmetic.c) ----------------------------------------------------------------- */

/* A setting of the text, a parameter of a block or the counter of a repeat: an integer, or else a word. */
struct kn_variable {
    const char *name;
    bool whole;
    int64_t number;
    const char *word; /* as written; NULL: an integer */
};

/* The variables of a scope; `outer` are those of the enclosing scope, or NULL. */
typedef struct kn_variables {
    const struct kn_variables *outer;
    const kn_variable *items;
    int count;
} kn_variables;

const kn_variable *kn_variable_find(const kn_variables *variables, const char *name, size_t length);
/* The settings of the text read so far. */
kn_variables kn_settings_of(const kn_model *model);
/* Evaluates `length` bytes of a word from `offset` on: + - * / % and parentheses; quotients are rounded down.
 */
bool kn_arithmetic(kn_model *model, const kn_line *line, const kn_word *word, size_t offset, size_t length,
                   const kn_variables *variables, int64_t *number);
/* Replaces {…} in a name by its value. The result is in the model's arena. */
const char *kn_fill_name(kn_model *model, const kn_line *line, const kn_word *word,
                         const kn_variables *variables);
/* Replaces the variables in a size such as "2*n*length" by their values; other words remain, as symbols. */
bool kn_fill_size(kn_model *model, const kn_line *line, const kn_word *word, size_t offset, size_t length,
                  const kn_variables *variables, kn_text *text);
/* The end of the size that begins at `start` of "3x5" or "3,5": a comma or, if the word has none (`commas`),
 * an x that follows or precedes a digit or a parenthesis. */
size_t kn_size_end(const char *text, size_t start, bool commas);
/* A word with its variables replaced, so that it can be used in another scope; in the model's arena. */
const char *kn_fill_word(kn_model *model, const kn_word *word, const kn_variables *variables);
/* Whether a word is integer arithmetic with known variables, and not a list, a fraction or another word. */
bool kn_is_whole(const kn_word *word, const kn_variables *variables);
/* Converts a shape without the batch, "1x28x28" or "length,64", to the form of the public API: "1,28,28";
 * "scalar" becomes "". *count, if not NULL, is the number of sizes. */
bool kn_fill_shape(kn_model *model, const kn_line *line, const kn_word *word, const kn_variables *variables,
                   kn_text *text, int *count);

/* ---- kinds of layers (layers.c), and arguments (arguments.c) ------------------------------------------- */

typedef enum kn_option_kind {
    KN_OPTION_WHOLE,  /* integer */
    KN_OPTION_WHOLES, /* list, "3x5" or "3,5" */
    KN_OPTION_NUMBER, /* number */
    KN_OPTION_FLAG,   /* yes or no; the bare name means yes */
    KN_OPTION_WORD,   /* one of `words` */
    KN_OPTION_SHAPE,  /* a shape without the batch, as text */
    KN_OPTION_SIZES,  /* sizes separated by commas, which may contain symbols, as text */
    KN_OPTION_START,  /* an initializer */
    KN_OPTION_PATH,   /* name of another layer */
    KN_OPTION_TEXT,   /* text as written: variables are not replaced */
    KN_OPTION_ANY,    /* an argument of a block: an integer or a word */
} kn_option_kind;

typedef struct kn_option {
    const char *name;
    kn_option_kind kind;
    bool by_position; /* may be given without its name, in table order */
    bool required;
    int least_count, most_count; /* number of elements of a list */
    int64_t least, most;         /* range of integers; most 0: 2147483647 */
    const char *words;           /* accepted words, separated by spaces; a list option accepts them instead
                                  * of a list */
    const char *usual;           /* the default, for the grammar page */
    const char *help;
} kn_option;

typedef struct kn_option_value {
    bool given;
    int column; /* column of the value in its line */
    bool flag;
    int64_t whole;
    double number;
    int64_t list[KN_MODEL_LIST];
    int count;        /* number of list elements */
    const char *text; /* words, shapes, sizes, paths and ANY; in the model's arena */
    kn_initializer start;
} kn_option_value;

/* A layer line that creates values. */
typedef struct kn_layer_call {
    kn_graph *graph;
    const char *name; /* in the graph's scope */
    kn_value **inputs;
    int input_count;
    const kn_option_value *values;          /* in the order of the row's arguments */
    const kn_initializer *init, *bias_init; /* NULL: none */
    const char *share;                      /* path of the layer whose parameters are shared, or NULL */
    kn_model *model;
    const kn_line *line;
} kn_layer_call;

enum {
    KN_TAKES_INIT = 1,
    KN_TAKES_BIAS_INIT = 2,
    KN_TAKES_SHARE = 4,
    KN_TAKES_FREEZE = 8,
    KN_TAKES_DEVICE = 16
};

struct kn_layer_row {
    const char *name;
    const char *help;
    const char *also; /* names in other libraries, separated by spaces */
    int least_inputs, most_inputs;
    const kn_option *arguments;
    int argument_count;
    int takes; /* accepted common arguments of layers with parameters: KN_TAKES_… */
    kn_value *(*build)(kn_layer_call *call);
};

/* The row at a position among all families; NULL beyond the last. */
const kn_layer_row *kn_layer_at(int position);
const kn_layer_row *kn_layer_find(const char *name);
/* The layer that has the word among its other names (`also`); NULL if there is none. */
const kn_layer_row *kn_layer_meant(const char *word);

/* Whether a row of the operator table can be a line of a text. */
bool kn_operator_is_kind(const kn_operator *row);
/* Number of arguments of a kind: its own, then the common ones. */
int kn_kind_argument_count(const kn_kind *kind);
kn_option kn_kind_argument(const kn_kind *kind, int position);
const char *kn_kind_name(const kn_kind *kind);
void kn_kind_inputs(const kn_kind *kind, int *least, int *most);
/* Checks that the line's arguments exist, that there are not too many, and that each is given once. */
bool kn_arguments_check(kn_model *model, const kn_line *line);
/* Evaluates the arguments. `values` is zeroed and has an element for each argument of the kind. */
bool kn_arguments_evaluate(kn_model *model, const kn_line *line, const kn_variables *variables,
                           kn_option_value *values);
/* Evaluates the value of a block's parameter: an integer or a word. */
bool kn_evaluate_any(kn_model *model, const kn_line *line, const kn_word *word, const kn_variables *variables,
                     kn_option_value *value);

/* ---- initializers (start.c) ---------------------------------------------------------------------------- */

typedef struct kn_start_row {
    const char *name;
    kn_initializer_kind kind;
    bool takes_value;
    double value; /* used if no number is given */
    const char *help;
} kn_start_row;
extern const kn_start_row kn_start_table[];
extern const int kn_start_table_count;

/* ---- losses (loss.c) ----------------------------------------------------------------------------------- */

/* A number that a loss takes as NAME=NUMBER, least <= number < below. usual NAN: no default. */
typedef struct kn_loss_setting {
    const char *name;
    double usual, least, below;
    const char *expected, *help; /* "above 0" */
    bool whole;
} kn_loss_setting;
enum { KN_LOSS_SETTINGS = 2 };
typedef struct kn_loss_call {
    kn_value *output, *target;
    const double *settings;
    kn_value *weights;       /* class weights, or NULL */
    kn_value *other, *share; /* for mixed samples, or NULL */
} kn_loss_call;
typedef struct kn_loss_row {
    const char *name, *help;
    kn_value *(*build)(const kn_loss_call *call);
    bool classes; /* targets are class indices if the task is classification */
    bool logits;  /* takes logits: if the model ends with a softmax, the softmax's input */
    kn_loss_setting settings[KN_LOSS_SETTINGS];
} kn_loss_row;
extern const kn_loss_row kn_loss_table[];
extern const int kn_loss_table_count;
/* Checks a `loss` line: its name and its settings. */
bool kn_loss_check(kn_model *model, const kn_line *line);

/* ---- graphs built through the API (graph_text.c) ------------------------------------------------------- */

#define KN_GRAPH_ORIGIN "graph" /* the name of the origin of models created from a graph */
/* The text of a whole graph, released by the caller. NULL if it has none, for example because of a custom
 * operator, or when out of memory. */
char *kn_graph_text_write(const kn_host *host, const kn_graph *graph);
/* Parses the text of a graph; the caller destroys the graph. NULL with the error set. */
kn_graph *kn_graph_text_read(const kn_host *host, const char *text, kn_error *error);
/* Lists the graph's inputs and outputs as the model's (model.c). */
bool kn_model_list_values(kn_model *model, const kn_graph *graph);

/* ---- the list of weights (weights.c) ------------------------------------------------------------------- */

/* Creates the list: the states of the graph, then the weights that the origin adds. */
bool kn_model_list_weights(kn_model *model);

/* ---- the zoo (zoo.c) ----------------------------------------------------------------------------------- */

typedef struct kn_zoo_file {
    const char *name; /* "lenet" */
    const unsigned char *bytes;
    unsigned long size;
    unsigned long long hash;
} kn_zoo_file;
/* Generated by tools/embed.c: sorted by name; a NULL name marks the end. */
extern const kn_zoo_file kn_zoo_files[];
extern const unsigned long kn_zoo_file_count;

/* Index of a model in the zoo, or -1. */
int kn_zoo_find(const char *name);

#endif
