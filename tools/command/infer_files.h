/* Sounds and pictures as they lie in files, for koine infer. */
#ifndef KOINE_COMMAND_INFER_FILES_H
#define KOINE_COMMAND_INFER_FILES_H

#include "command.h"

/* Whether a path is that of a sound or a picture, or of a folder. */
bool sample_files_are(const char *path);
/* Reads the samples as the model wants its first input, sounds at the rate that it was trained with: *data
 * (samples,...) is for the caller to free. Says what is wrong and answers false. */
bool sample_files_open(const char *path, const kn_model *model, kn_tensor_info *info, char **data);

#endif
