/* koine tune: tunes in a process that a watchdog kills when a kernel hangs. After that or a crash, a new
 * process continues after that kernel. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "follow.h"
#include "tune.h"

enum { MAX_WORDS = 256 };

/* The result of a shape. */
typedef struct tune_row {
    kn_tuner_shape shape;
    bool done, lost;
} tune_row;

typedef struct tune_watching {
    tune_run *run;
    tune_row *rows;
    int count, known;                   /* known: tuned before */
    double until;                       /* deadline for all shapes */
    double last;                        /* time of the process's last line */
    int at;                             /* the shape being tuned; -1: none */
    char kernel[KN_TUNER_KERNEL_BYTES]; /* being tried; "": none */
    int refused;
    bool ended; /* the process printed "end" */
    bool timing;
    char error[400];
} tune_watching;

/* ---- progress ------------------------------------------------------------------------------------- */

static void show_progress(const tune_watching *watch) {
    char bar[24], left[16];
    double share = 0, seconds = watch->until - clock_now();
    int done = 0;
    for (int i = 0; i < watch->count; i++) {
        const tune_row *row = &watch->rows[i];
        const bool over = row->done || row->lost || row->shape.tuned;
        share += over ? row->shape.share : 0;
        done += over;
    }
    progress_line("tuning %s %d of %d shapes  %s left at most  %s  %s", progress_bar(share, bar, sizeof bar),
                  done, watch->count, time_text(seconds, left, sizeof left),
                  watch->at >= 0 ? watch->rows[watch->at].shape.name : "", watch->kernel);
}

static void print_shape(const tune_watching *watch, const tune_row *row) {
    const kn_tuner_shape *shape = &row->shape;
    progress_clear();
    if (watch->run->options->common.json) {
        printf("{\"shape\": ");
        json_text(stdout, shape->name);
        printf(", \"nodes\": %d", shape->nodes);
        json_text_member(stdout, "kernel", shape->kernel);
        json_measure_member(stdout, "us", shape->microseconds);
        json_text_member(stdout, "untuned", shape->untuned);
        json_measure_member(stdout, "untuned_us", shape->untuned_microseconds);
        puts("}");
    } else if (shape->untuned_microseconds <= 0)
        printf("%10.1f us  %s x %d: %s, since %s does not work\n", shape->microseconds, shape->name,
               shape->nodes, shape->kernel, shape->untuned);
    else if (!strcmp(shape->kernel, shape->untuned))
        printf("%10.1f us  %s x %d: %s, as before\n", shape->microseconds, shape->name, shape->nodes,
               shape->kernel);
    else
        printf("%10.1f us  %s x %d: %s, %.2f times as fast as %s\n", shape->microseconds, shape->name,
               shape->nodes, shape->kernel, shape->untuned_microseconds / shape->microseconds,
               shape->untuned);
    fflush(stdout);
}

static void print_refused(tune_watching *watch, const char *kernel, const char *how, const char *message) {
    const char *name = watch->at >= 0 ? watch->rows[watch->at].shape.name : "";
    watch->refused++;
    progress_clear();
    if (watch->run->options->common.json) {
        printf("{\"shape\": ");
        json_text(stdout, name);
        json_text_member(stdout, "kernel", kernel);
        json_text_member(stdout, "end", how);
        json_text_member(stdout, "message", message);
        puts("}");
    } else
        printf("%13s  %s: %s%s%s\n", how, name, kernel, message[0] ? ": " : "", message);
    fflush(stdout);
}

/* ---- output of the process ------------------------------------------------------------------------ */

/* The next tab-separated field of a line; replaces the tab by '\0'. */
static char *next_field(char **line) {
    char *field = *line, *tab = strchr(field, '\t');
    if (tab) *tab = '\0';
    *line = tab ? tab + 1 : field + strlen(field);
    return field;
}

static int find_shape(const tune_watching *watch, const char *key) {
    for (int i = 0; i < watch->count; i++)
        if (!strcmp(watch->rows[i].shape.key, key)) return i;
    return -1;
}

static void take_done(tune_watching *watch, char *rest) {
    tune_row *row = &watch->rows[watch->at];
    snprintf(row->shape.kernel, sizeof row->shape.kernel, "%s", next_field(&rest));
    row->shape.microseconds = strtod(next_field(&rest), NULL);
    row->shape.untuned_microseconds = strtod(next_field(&rest), NULL);
    row->done = true;
    print_shape(watch, row);
}

static void take_line(void *user, bool errors, const char *text) {
    tune_watching *watch = user;
    char line[2000], *rest = line;
    watch->last = clock_now();
    snprintf(line, sizeof line, "%s", text);
    if (errors) {
        snprintf(watch->error, sizeof watch->error, "%s", text);
        if (watch->run->options->common.verbose) command_info("%s", text);
        return;
    }
    const char *word = next_field(&rest);
    if (!strcmp(word, "shape"))
        watch->at = find_shape(watch, next_field(&rest));
    else if (!strcmp(word, "end"))
        watch->ended = true;
    else if (!strcmp(word, "try"))
        snprintf(watch->kernel, sizeof watch->kernel, "%s", next_field(&rest));
    else if (watch->at >= 0 && !strcmp(word, "done"))
        take_done(watch, rest);
    else if (watch->at >= 0 && !strcmp(word, "lost")) {
        watch->rows[watch->at].lost = true;
        command_warn("%s: %s", watch->rows[watch->at].shape.name, next_field(&rest));
    } else if (watch->at >= 0) {
        const char *kernel = next_field(&rest);
        print_refused(watch, kernel, word, next_field(&rest));
    }
    if (strcmp(word, "try") != 0) watch->kernel[0] = '\0';
    show_progress(watch);
}

/* Returns the deadline for the next line. */
static double take_until(void *user) {
    const tune_watching *watch = user;
    const double end = watch->last + watch->run->options->timeout;
    return end < watch->until ? end : watch->until;
}

/* ---- all processes ------------------------------------------------------------------------------------ */

/* Builds the arguments: koine tune-apart SECONDS and the words of this process. */
static bool make_arguments(const tune_watching *watch, char seconds[32], char **arguments) {
    static char program[] = "koine", verb[] = "tune-apart";
    const tune_options *options = watch->run->options;
    int count = 0;
    if (options->count > MAX_WORDS - 4) return command_error("too many arguments");
    snprintf(seconds, 32, "%.3f", watch->until - clock_now());
    arguments[count++] = program;
    arguments[count++] = verb;
    arguments[count++] = seconds;
    for (int i = 0; i < options->count; i++)
        arguments[count++] = options->arguments[i];
    arguments[count] = NULL;
    return true;
}

/* Excludes the kernel being tried; false if there was none. */
static bool blame(tune_watching *watch, kn_tuner_event event, const char *how, const char *message) {
    if (watch->at < 0 || !watch->kernel[0]) return false;
    kn_tuner_exclude(watch->run->tuner, watch->rows[watch->at].shape.key, watch->kernel, event);
    print_refused(watch, watch->kernel, how, message);
    watch->kernel[0] = '\0';
    return true;
}

/* Runs one process; sets *again if another one has to continue. Reports an error and returns false. */
static bool run_process(tune_watching *watch, bool *again) {
    char seconds[32], *arguments[MAX_WORDS];
    const follow_reader reader = {watch, take_line, take_until};
    int result = 0, code = 0;
    *again = false;
    watch->ended = false;
    watch->at = -1;
    watch->kernel[0] = watch->error[0] = '\0';
    watch->last = clock_now();
    if (!make_arguments(watch, seconds, arguments)) return false;
    const follow_end end = follow(arguments, &reader, &result, &code);
    if (code) return command_error("a process could not be started: %s", strerror(code));
    if (end == FOLLOW_LOST)
        return command_error("a process that tries kernels does not end: restart the machine");
    if (end == FOLLOW_INTERRUPTED || watch->ended || clock_now() >= watch->until) return true;
    *again = true;
    if (end == FOLLOW_STOPPED && blame(watch, KN_TUNER_EVENT_HUNG, "hung", "")) return true;
    if (end == FOLLOW_ENDED && WIFSIGNALED(result) &&
        blame(watch, KN_TUNER_EVENT_FAILED, "crashed", strsignal(WTERMSIG(result))))
        return true;
    if (end == FOLLOW_ENDED && !WIFSIGNALED(result) && watch->kernel[0] &&
        blame(watch, KN_TUNER_EVENT_FAILED, "failed", watch->error))
        return true;
    return command_error("the process that tries kernels %s%s%s",
                         end == FOLLOW_STOPPED
                             ? "does not respond before its first kernel; --timeout gives it more time"
                             : "ended before it tried one",
                         watch->error[0] ? ": " : "", watch->error);
}

static void print_total(const tune_watching *watch) {
    double tuned = 0, untuned = 0;
    int done = 0, faster = 0, open = 0;
    for (int i = 0; i < watch->count; i++) {
        const tune_row *row = &watch->rows[i];
        if (!row->done && !row->lost && !row->shape.tuned) open++;
        if (!row->done) continue;
        done++;
        faster += strcmp(row->shape.kernel, row->shape.untuned) != 0;
        if (row->shape.untuned_microseconds <= 0) continue;
        tuned += row->shape.nodes * row->shape.microseconds;
        untuned += row->shape.nodes * row->shape.untuned_microseconds;
    }
    progress_clear();
    if (watch->run->options->common.json) {
        printf("{\"tuned\": %d, \"faster\": %d, \"refused\": %d, \"known\": %d, \"left_out\": %d", done,
               faster, watch->refused, watch->known, open);
        json_measure_member(stdout, "us", tuned);
        json_measure_member(stdout, "untuned_us", untuned);
        puts("}");
        return;
    }
    printf("%d of %d shapes tuned, %d with another kernel", done, watch->count - watch->known, faster);
    if (watch->refused) printf(", %d kernels refused", watch->refused);
    if (watch->known) printf("; %d were known, --retune tunes them too", watch->known);
    putchar('\n');
    if (tuned > 0)
        printf("these take %.2f ms together instead of %.2f: %.2f times as fast\n", tuned * 1e-3,
               untuned * 1e-3, untuned / tuned);
    if (open) printf("left out, which the same command continues with: %d shapes\n", open);
    for (int i = 0; i < watch->count; i++)
        if (!watch->rows[i].done && !watch->rows[i].lost && !watch->rows[i].shape.tuned)
            printf("            %s x %d\n", watch->rows[i].shape.name, watch->rows[i].shape.nodes);
}

/* Lists the shapes; --retune ignores earlier results. */
static bool list_shapes(tune_watching *watch) {
    kn_tuner *tuner = watch->run->tuner;
    watch->count = kn_tuner_shape_count(tuner);
    watch->rows = calloc((size_t)watch->count + 1, sizeof *watch->rows);
    if (!watch->rows) return command_error("out of memory");
    for (int i = 0; i < watch->count; i++) {
        if (watch->run->options->retune) kn_tuner_forget(tuner, i);
        watch->rows[i].shape = (kn_tuner_shape)KN_TUNER_SHAPE_DEFAULTS;
        kn_tuner_shape_at(tuner, i, &watch->rows[i].shape);
        watch->known += watch->rows[i].shape.tuned;
    }
    return true;
}

int tune_watch(tune_run *run) {
    tune_watching watch = {.run = run, .at = -1};
    bool fine = list_shapes(&watch), again = watch.count > watch.known;
    interrupts_watch();
    watch.until = clock_now() + run->options->seconds;
    while (fine && again && !interrupted() && clock_now() < watch.until)
        fine = run_process(&watch, &again);
    if (fine) print_total(&watch);
    free(watch.rows);
    return fine ? EXIT_DONE : EXIT_FAILED;
}
