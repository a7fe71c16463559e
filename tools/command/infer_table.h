/* Rows of tables in, and results as tables out, for koine infer. */
#ifndef KOINE_COMMAND_INFER_TABLE_H
#define KOINE_COMMAND_INFER_TABLE_H

#include "command.h"

/* Whether a path is that of a table, FILE.csv; as a result also "-", the standard output. */
bool table_is(const char *path);
/* Reads FILE.csv as the model was trained to read it, without a target: *data (rows,inputs) is for the caller to free.
 * Says what is wrong and answers NULL; the dataset, which tells what the results mean, is destroyed by the caller. */
kn_dataset *table_open(const char *path, const kn_model *model, kn_tensor_info *info, char **data);
/* Writes `samples` rows of `width` results. With the dataset of the input (else NULL) in its target's unit, or, where
 * these are logits of its classes, as the likeliest class and its probability. Whole or not at all. */
bool table_write(const char *path, const kn_dataset *input, const float *results, int64_t samples, int64_t width);

#endif
