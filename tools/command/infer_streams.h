/* Copies standard input to a file, and a file to standard output, for koine infer. */
#ifndef KOINE_COMMAND_INFER_STREAMS_H
#define KOINE_COMMAND_INFER_STREAMS_H

#include <stdbool.h>

enum { STREAM_PATH = 4096 };

/* A new empty file in the folder for temporary files. The caller removes it. Reports an error. */
bool stream_file(char path[STREAM_PATH]);
/* Copies standard input to such a file, with the extension that its first bytes indicate: an array, an image,
 * a sound, or else rows. */
bool stream_keep(char path[STREAM_PATH]);
/* Copies a file to standard output. */
bool stream_send(const char *path);

#endif
