/* The standard input as a file, and a file to the standard output, for koine infer. */
#ifndef KOINE_COMMAND_INFER_STREAMS_H
#define KOINE_COMMAND_INFER_STREAMS_H

#include <stdbool.h>

enum { STREAM_PATH = 4096 };

/* An empty file of its own in the folder for temporary files, for the caller to remove. Says what is wrong.
 */
bool stream_file(char path[STREAM_PATH]);
/* The whole standard input in such a file, whose ending says what it is by its first bytes: an array, a
 * picture, a sound, or else rows. */
bool stream_keep(char path[STREAM_PATH]);
/* A file to the standard output. */
bool stream_send(const char *path);

#endif
