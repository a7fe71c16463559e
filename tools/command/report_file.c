/* The file of koine report: reads what an earlier run wrote, and writes what each stage prints. */
#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report.h"

static const char *const end_words[] = {"",     "done",        "failed",   "crashed", "stopped",
                                        "lost", "interrupted", "left out", "unclear", "not available"};

const char *report_end_word(report_end end) {
    return end_words[end];
}

report_end report_end_of(const char *word) {
    for (int end = REPORT_DONE; end <= REPORT_UNAVAILABLE; end++)
        if (!strncmp(word, end_words[end], strlen(end_words[end]))) return (report_end)end;
    return REPORT_NONE;
}

/* Writes a line without the user's paths and names. */
static void write_scrubbed(const report_run *run, const char *line) {
    const struct {
        const char *secret, *instead;
    } hidden[] = {{run->folder, "."}, {run->home, "~"}, {run->user, "USER"}};
    while (*line) {
        size_t length = 0; /* length of the longest match */
        const char *instead = "";
        for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
            const size_t bytes = strlen(hidden[i].secret);
            if (bytes <= length || strncmp(line, hidden[i].secret, bytes) != 0) continue;
            length = bytes;
            instead = hidden[i].instead;
        }
        if (length)
            fputs(instead, run->file);
        else
            fputc(*line, run->file);
        line += length ? length : 1;
    }
    fputc('\n', run->file);
}

static void find_secrets(report_run *run) {
    const char *home = getenv("HOME"), *user = getenv("USER");
    const struct passwd *known = getpwuid(getuid());
    snprintf(run->home, sizeof run->home, "%s", home ? home : known ? known->pw_dir : "");
    snprintf(run->user, sizeof run->user, "%s", user && *user ? user : known ? known->pw_name : "");
    if (!getcwd(run->folder, sizeof run->folder)) run->folder[0] = '\0';
    if (!strcmp(run->home, "/")) run->home[0] = '\0';
    if (!strcmp(run->folder, "/")) run->folder[0] = '\0';
    /* A short name would match inside other words. */
    if (strlen(run->user) < 3 || !strcmp(run->user, "root")) run->user[0] = '\0';
}

/* Write to disk: the machine may hang at the next stage. */
static bool file_flush(const report_run *run) {
    return fflush(run->file) == 0 && fsync(fileno(run->file)) == 0;
}

static report_stage *find_stage(report_run *run, const char *name) {
    for (int i = 0; i < run->count; i++)
        if (!strcmp(run->stages[i].name, name)) return &run->stages[i];
    return NULL;
}

/* Reads the results of an earlier run. A stage without an end line was lost, if it was the only one. */
static bool take_over(report_run *run, FILE *earlier, const char *second) {
    char *line = NULL;
    size_t room = 0;
    report_stage *stage;
    int running = 0;
    bool good = true;
    for (int number = 0; getline(&line, &room, earlier) >= 0; number++) {
        line[strcspn(line, "\n")] = '\0';
        char *colon = strrchr(line, ':');
        if (number < 2)
            good = good && !strcmp(line, number ? second : REPORT_FIRST_LINE);
        else if (!strncmp(line, "== ", 3)) {
            if (!(stage = find_stage(run, line + 3)) || stage->running) continue;
            stage->running = true;
            running++;
        } else if (!strncmp(line, "-- ", 3) && colon) {
            *colon = '\0';
            if (!(stage = find_stage(run, line + 3))) continue;
            stage->end = report_end_of(colon + 2);
            running -= stage->running;
            stage->running = false;
        }
    }
    free(line);
    for (int i = 0; good && i < run->count; i++) {
        stage = &run->stages[i];
        if (!stage->running) continue;
        stage->end = running > 1 ? REPORT_UNCLEAR : REPORT_LOST;
        fprintf(run->file, "\n-- %s: %s\n", stage->name, report_end_word(stage->end));
    }
    return good;
}

bool report_file_open(report_run *run) {
    const report_options *options = run->options;
    char second[300];
    find_secrets(run);
    snprintf(second, sizeof second, "koine %s, --device %s", kn_version_text(), options->device);
    FILE *earlier = options->overwrite ? NULL : fopen(options->path, "r");
    run->file = fopen(options->path, options->overwrite ? "w" : "a");
    if (!run->file) {
        if (earlier) fclose(earlier);
        return command_error("'%s' cannot be written: %s", options->path, strerror(errno));
    }
    if (!earlier) fprintf(run->file, "%s\n%s\n", REPORT_FIRST_LINE, second);
    if (!earlier) return true;
    const bool good = take_over(run, earlier, second);
    fclose(earlier);
    return good ||
           command_error(
               "'%s' is not a report of this version of koine for --device %s: give another file with "
               "--output, or replace it with --overwrite",
               options->path, options->device);
}

bool report_file_begin(report_run *run, report_stage *stage) {
    pthread_mutex_lock(&run->writing);
    fprintf(run->file, "== %s\n", stage->name);
    run->writer = stage;
    stage->begin = clock_now();
    const bool good =
        file_flush(run) || command_error("'%s' cannot be written: %s", run->options->path, strerror(errno));
    pthread_mutex_unlock(&run->writing);
    return good;
}

void report_file_line(report_run *run, const report_stage *stage, bool errors, const char *line) {
    pthread_mutex_lock(&run->writing);
    if (run->writer != stage) fprintf(run->file, "== %s\n", stage->name);
    run->writer = stage;
    if (errors) {
        fputs("! ", run->file);
        snprintf(run->error, sizeof run->error, "%s", line);
    }
    write_scrubbed(run, line);
    pthread_mutex_unlock(&run->writing);
}

void report_file_end(report_run *run, report_stage *stage, report_end end, int signal) {
    pthread_mutex_lock(&run->writing);
    stage->end = end;
    fprintf(run->file, "-- %s: %s%s%s, %.1f s\n", stage->name, report_end_word(end), signal ? " by " : "",
            signal ? strsignal(signal) : "", clock_now() - stage->begin);
    run->writer = NULL;
    pthread_mutex_unlock(&run->writing);
}

bool report_file_close(report_run *run) {
    const bool written = file_flush(run);
    return fclose(run->file) == 0 && written;
}
