/* Copies standard input to a file, and a file to standard output: pipes cannot be read twice or mapped. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "infer_streams.h"

bool stream_file(char path[STREAM_PATH]) {
    const char *folder = getenv("TMPDIR");
    if (!folder || !folder[0]) folder = "/tmp";
    int room = snprintf(path, STREAM_PATH, "%s/koine-XXXXXX", folder);
    int file = room < STREAM_PATH ? mkstemp(path) : -1;
    if (file < 0) return command_error("cannot create a temporary file in '%s'", folder);
    close(file);
    return true;
}

static bool copy(FILE *from, FILE *to) {
    char bytes[1 << 14];
    size_t count;
    while ((count = fread(bytes, 1, sizeof bytes, from)) > 0)
        if (fwrite(bytes, 1, count, to) != count) return false;
    return !ferror(from) && fflush(to) == 0;
}

/* The file extension by the first bytes; rows of numbers by default. */
static const char *ending_of(const char begin[12]) {
    if (!memcmp(begin, "\x93NUMPY", 6)) return ".npy";
    if (!memcmp(begin, "\x89PNG", 4)) return ".png";
    if (!memcmp(begin, "\xff\xd8\xff", 3)) return ".jpg";
    if (!memcmp(begin, "RIFF", 4) && !memcmp(begin + 8, "WAVE", 4)) return ".wav";
    return ".csv";
}

bool stream_keep(char path[STREAM_PATH]) {
    char begin[12] = "", made[STREAM_PATH];
    if (!stream_file(made)) return false;
    if (isatty(STDIN_FILENO)) command_info("reading rows from standard input, to its end (Ctrl-D)");
    FILE *file = fopen(made, "w+");
    bool fine = file && copy(stdin, file) && fseek(file, 0, SEEK_SET) == 0;
    fine = fine && (fread(begin, 1, sizeof begin, file) > 0 || feof(file));
    if (file) fclose(file);
    fine = fine && snprintf(path, STREAM_PATH, "%s%s", made, ending_of(begin)) < STREAM_PATH &&
           rename(made, path) == 0;
    if (fine) return true;
    unlink(made);
    return command_error("standard input could not be written to '%s'", made);
}

bool stream_send(const char *path) {
    FILE *file = fopen(path, "r");
    bool fine = file && copy(file, stdout);
    if (file) fclose(file);
    return fine || command_error("the results could not be written");
}
