/* Declarations of koine infer for ONNX and Koine models. */
#ifndef KOINE_COMMAND_INFER_H
#define KOINE_COMMAND_INFER_H

#include "command.h"

/* "NAME=FILE", or a FILE for the only (or first) input or output. */
typedef struct named_file {
    const char *path;
    char name[256];
} named_file;
/* A name that contains '/' is looked up in the model, which may be NULL; otherwise the word is a path. */
void named_file_split(const char *word, const kn_model *model, named_file *file);

typedef struct infer_files {
    const char *model, *inputs, *outputs; /* the last two have the form "A=a.npy,B=b.npy" */
    uint64_t batch, memory;               /* batch size, and --memory or 0 */
} infer_files;
/* Runs an ONNX model on arrays: on `batch` rows at a time if all inputs and outputs have a row per sample,
 * otherwise on the whole arrays. Returns the command's status. */
int infer_onnx(const common_options *common, const infer_files *files);
/* False, with an error, if an output of the model is one of strings. */
bool infer_refuse_strings(const kn_model *model, const kn_value *output);

#endif
