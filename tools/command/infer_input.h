/* The inputs of koine infer: arrays, rows of numbers, tables, images, sounds. */
#ifndef KOINE_COMMAND_INFER_INPUT_H
#define KOINE_COMMAND_INFER_INPUT_H

#include "command.h"

typedef struct infer_input {
    const kn_model *model;
    kn_value *value;     /* the model's input */
    bool skip_bad;       /* leave out images and sounds that cannot be decoded */
    kn_tensor_info info; /* shape of all samples, with the sample as first dimension; rank 0: none yet */
    char *data;          /* all samples, in the model's type and shape; or as bytes, with */
    double scale;        /* this scale to feed them with (kn_feed) */
    char **names;        /* the files of the samples; NULL for arrays and tables */
    kn_dataset *table;   /* the first table, which interprets the results; or NULL */
} infer_input;

/* Adds the samples at `path`: X.npy; X.csv, read as a table if the model was trained on one and otherwise as
 * plain numbers; an image, a sound or an archive of these; a folder of any of them except archives; "-":
 * rows, an array, an image or a sound on standard input. Reports an error and returns false; in any case the
 * caller closes the input. */
bool input_add(infer_input *input, const char *path);
/* Adds the first `limit` samples of a dataset, from its test part if it has one; 0: all. */
bool input_add_data(infer_input *input, const char *spec, uint64_t limit);
void input_close(infer_input *input);

/* The sizes of an array from dimension `first` on: "256,6". */
const char *sizes_text(const kn_tensor_info *info, int first, char *text, size_t room);

/* Rows of plain numbers, one sample of `value` per row; the first line may be a heading. `shown` is the
 * file's name in messages; the caller frees *data, even on failure. */
bool numbers_read(const kn_value *value, const char *path, const char *shown, kn_tensor_info *info,
                  char **data);

#endif
