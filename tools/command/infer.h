/* What koine infer has for models of both kinds. */
#ifndef KOINE_COMMAND_INFER_H
#define KOINE_COMMAND_INFER_H

#include "command.h"

/* "NAME=FILE", or a FILE for the only (or first) input or output. */
typedef struct named_file {
    const char *path;
    char name[128];
} named_file;
void named_file_split(const char *word, named_file *file);

/* Runs an ONNX model once on whole arrays: "A=a.npy,B=b.npy" both. Answers the command's status. */
int infer_onnx(const common_options *common, const char *path, const char *inputs, const char *outputs);

#endif
