/* What koine infer computes on: arrays, rows of numbers or of tables, pictures, sounds. */
#ifndef KOINE_COMMAND_INFER_INPUT_H
#define KOINE_COMMAND_INFER_INPUT_H

#include "command.h"

typedef struct infer_input {
    const kn_model *model;
    kn_value *value;     /* of the model */
    bool skip_bad;       /* leave out pictures and sounds that cannot be read */
    kn_tensor_info info; /* of all samples, the first dimension counts them; rank 0: there are none yet */
    char *data;          /* all of them, as the model reads them */
    char **names;        /* the files of which samples are; NULL for those of arrays and tables */
    kn_dataset *table;   /* the first table, which knows what the results mean; or NULL */
} infer_input;

/* Adds what `path` names to the samples: X.npy; X.csv, read as a table where the model was trained on one and
 * else as plain numbers; a picture, a sound or an archive of these; a folder of any but archives; "-", rows,
 * an array, a picture or a sound on the standard input. Says what is wrong and answers false; either way the
 * caller closes the input. */
bool input_add(infer_input *input, const char *path);
void input_close(infer_input *input);

/* The sizes of an array from dimension `first` on: "256,6". */
const char *sizes_text(const kn_tensor_info *info, int first, char *text, size_t room);

/* Rows of plain numbers, as many in each as `value` has in a sample; the first line may be a heading. `shown`
 * is what messages call the file; *data is for the caller to free, also where it fails. */
bool numbers_read(const kn_value *value, const char *path, const char *shown, kn_tensor_info *info,
                  char **data);

#endif
