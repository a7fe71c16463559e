/* koine train --run: weights, log, report and options of a training run in one folder. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train.h"

enum { MODEL, LOG, REPORT, COMMAND, OPTIONS, ONNX, FILES };
static const char *const names[FILES] = {"model.safetensors", "log.jsonl",   "report.html",
                                         "command.txt",       "options.txt", "model.onnx"};

static bool path_in(const char *folder, int file, char path[RUN_PATH]) {
    return snprintf(path, RUN_PATH, "%s/%s", folder, names[file]) < RUN_PATH ||
           command_error("--run: '%.60s…' is too long a name for a folder", folder);
}

/* Also creates its parents. */
static bool make_folder(const char *folder) {
    char part[RUN_PATH];
    snprintf(part, sizeof part, "%s", folder);
    for (char *at = part + 1; at[-1]; at++) {
        if (*at && *at != '/') continue;
        const char ending = *at;
        *at = '\0';
        if (mkdir(part, 0777) != 0 && access(part, F_OK) != 0)
            return command_error("--run: cannot create the folder '%s': %s", part, strerror(errno));
        *at = ending;
    }
    return true;
}

bool run_open(train_options *options, const char *model) {
    char(*paths)[RUN_PATH] = options->outputs.run_files;
    if (!options->outputs.run || options->check || precompiling()) return true;
    for (int i = 0; i < FILES; i++) {
        if (!path_in(options->outputs.run, i, paths[0])) return false;
        if (access(paths[0], F_OK) == 0 && !options->common.overwrite && !options->goes_on)
            return command_error("--run: '%s' already has a run (%s): replace it with --overwrite, continue "
                                 "it with --resume, or choose another folder",
                                 options->outputs.run, names[i]);
    }
    path_in(options->outputs.run, path_is_onnx(model) && !options->adapter.given ? ONNX : MODEL,
            paths[MODEL]);
    options->outputs.save = paths[MODEL];
    for (int i = LOG; i <= OPTIONS; i++)
        path_in(options->outputs.run, i, paths[i]);
    options->outputs.log = paths[LOG];
    options->outputs.report = paths[REPORT];
    return make_folder(options->outputs.run);
}

/* Options for --config: the options that affect the result, without output names. */
static bool write_options(const train_options *options) {
    FILE *file = fopen(options->outputs.run_files[OPTIONS], "w");
    if (file) {
        fputs("# koine train --config FILE repeats this training run.\n", file);
        options_write(file,
                      "config run resume overwrite checkpoints checkpoint-every keep tensorboard trace json "
                      "quiet verbose");
    }
    if (file && !(ferror(file) | fclose(file))) return true;
    return command_error("--run: '%s' could not be written", options->outputs.run_files[OPTIONS]);
}

bool run_begin(const train_options *options) {
    const char *path = options->outputs.run_files[COMMAND];
    if (!options->outputs.run) return true;
    if (!options->goes_on && !write_options(options)) return false;
    FILE *file = fopen(path, options->goes_on ? "a" : "w");
    if (file) {
        command_line_write(file, options);
        fputc('\n', file);
    }
    if (file && !(ferror(file) | fclose(file))) return true;
    return command_error("--run: '%s' could not be written", path);
}

void command_line_write(FILE *stream, const train_options *options) {
    fputs("koine train", stream);
    for (int i = 0; i < options->argument_count; i++) {
        const char *word = options->arguments[i];
        const bool plain =
            word[0] &&
            !word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:,=+%@")];
        fputs(plain ? " " : " '", stream);
        for (const char *at = word; *at; at++)
            if (*at == '\'')
                fputs("'\\''", stream);
            else
                fputc(*at, stream);
        if (!plain) fputc('\'', stream);
    }
}
