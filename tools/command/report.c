/* koine report: runs each stage of a report in a separate process, which may fail or hang. */
#include <errno.h>
#include <math.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "report.h"
#include "follow.h"

enum { MAX_WORDS = 32 };

/* ---- the stages ---------------------------------------------------------------------------------------- */

typedef struct report_run {
    const report_options *options;
    FILE *file;
    report_stage stages[REPORT_MAX_STAGES];
    int count;
    double begin;
    char error[400];                          /* the last error of a stage */
    char home[1000], user[100], folder[1000]; /* strings to remove from the file */
} report_run;

/* Whether a stage contains one of the words of --only. */
static bool is_wanted(const char *only, const char *words) {
    char name[REPORT_STAGE_BYTES];
    snprintf(name, sizeof name, "%s", words);
    for (char *word = strtok(name, " ,"); word; word = strtok(NULL, " ,")) {
        const size_t length = strlen(word);
        for (const char *at = only; at; at = strchr(at, ',')) {
            at += *at == ',';
            if (!strncmp(at, word, length) && (at[length] == ',' || !at[length])) return true;
        }
    }
    return false;
}

static void add_stage(report_run *run, const char *words) {
    if (run->count == REPORT_MAX_STAGES) return;
    if (run->count && run->options->only && !is_wanted(run->options->only, words)) return;
    report_stage *stage = &run->stages[run->count++];
    snprintf(stage->name, sizeof stage->name, "%s", words);
    stage->end = REPORT_NONE;
}

/* A stage for each of these networks, in each of these ways. */
static void add_networks(report_run *run, const char *const *networks, size_t count, const char *const *ways,
                         size_t way_count) {
    char words[REPORT_STAGE_BYTES];
    for (size_t i = 0; i < count; i++)
        for (size_t w = 0; w < way_count; w++) {
            snprintf(words, sizeof words, "bench %s %s", networks[i], ways[w]);
            add_stage(run, words);
        }
}
#define ADD_NETWORKS(run, networks, ways)                                                                    \
    add_networks(run, networks, sizeof networks / sizeof *networks, ways, sizeof ways / sizeof *ways)

/* The most informative stages come first, in case time runs out. */
static void list_stages(report_run *run) {
    static const char *const precisions[] = {"float16", "bfloat16", "tf32"};
    static const char *const predicted[] = {"gpt --batch 8", "resnet50 --batch 32", "vgg11 --batch 32"};
    static const char *const networks[] = {
        "lenet --batch 256",   "mlp --batch 512",     "cifar-cnn --batch 256", "resnet18c --batch 256",
        "lstm --batch 64",     "gpt --batch 64",      "vgg11c --batch 256",    "mobilenetv2 --batch 128",
        "alexnet --batch 256", "resnet50 --batch 128"};
    static const char *const fast[] = {"--seconds 1", "--precision bfloat16 --seconds 1"};
    static const char *const exact[] = {"--math exact --seconds 1"};
    static const char *const profile[] = {"--profile --seconds 1",
                                          "--precision bfloat16 --profile --seconds 1"};
    static const char main_operators[] = "verify --quick --operators matmul,conv2d,attention";
    char words[REPORT_STAGE_BYTES];
    add_stage(run, "devices --measure");
    add_stage(run, main_operators);
    for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++) {
        snprintf(words, sizeof words, "%s --precision %s", main_operators, precisions[i]);
        add_stage(run, words);
    }
    add_stage(run, "train lenet --data digits --check");
    ADD_NETWORKS(run, predicted, fast);
    ADD_NETWORKS(run, networks, fast);
    ADD_NETWORKS(run, predicted, exact);
    ADD_NETWORKS(run, networks, exact);
    ADD_NETWORKS(run, predicted, profile);
    for (size_t i = 0; i < kn_verify_case_count(); i++) {
        if (i && !strcmp(kn_verify_case_name_at(i - 1), kn_verify_case_name_at(i))) continue;
        snprintf(words, sizeof words, "verify --quick --operators %s", kn_verify_case_name_at(i));
        add_stage(run, words);
    }
    add_stage(run, "bench-gemm --size 4096 --seconds 1");
    add_stage(run, "bench lenet --batch 256 --no-cache --seconds 0"); /* its first step, from source */
    add_stage(run, "tune resnet18c --seconds 60");
}

static double most_seconds(const report_run *run, const char *name) {
    if (run->options->timeout > 0) return run->options->timeout;
    return !strncmp(name, "bench", 5) ? 150 : !strncmp(name, "tune", 4) ? 90 : 60;
}

/* ---- the file ------------------------------------------------------------------------------------------ */

static const char *const end_words[] = {"",        "done", "failed",      "crashed",
                                        "stopped", "lost", "interrupted", "left out"};

const char *report_end_word(report_end end) {
    return end_words[end];
}

report_end report_end_of(const char *word) {
    for (int end = REPORT_DONE; end <= REPORT_LEFT_OUT; end++)
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

/* Reads the results of an earlier run; a stage without an end line was lost. */
static bool take_over(report_run *run, FILE *earlier, const char *second) {
    char *line = NULL;
    size_t room = 0;
    report_stage *open = NULL;
    bool good = true;
    for (int number = 0; getline(&line, &room, earlier) >= 0; number++) {
        line[strcspn(line, "\n")] = '\0';
        char *colon = strrchr(line, ':');
        if (number < 2)
            good = good && !strcmp(line, number ? second : REPORT_FIRST_LINE);
        else if (!strncmp(line, "== ", 3)) {
            if ((open = find_stage(run, line + 3))) open->end = REPORT_LOST;
        } else if (!strncmp(line, "-- ", 3) && colon) {
            *colon = '\0';
            report_stage *stage = find_stage(run, line + 3);
            if (stage) stage->end = report_end_of(colon + 2);
            open = NULL;
        }
    }
    free(line);
    if (good && open) fprintf(run->file, "\n-- %s: %s\n", open->name, report_end_word(REPORT_LOST));
    return good;
}

/* Opens the file to append to. */
static bool open_file(report_run *run) {
    const report_options *options = run->options;
    char second[300];
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

/* ---- one stage ----------------------------------------------------------------------------------------- */

/* A running stage. */
typedef struct stage_lines {
    report_run *run;
    double until;
} stage_lines;

static void write_line(void *user, bool errors, const char *line) {
    report_run *run = ((stage_lines *)user)->run;
    if (errors) {
        fputs("! ", run->file);
        snprintf(run->error, sizeof run->error, "%s", line);
    }
    write_scrubbed(run, line);
}

static double stage_until(void *user) {
    return ((stage_lines *)user)->until;
}

static report_end stage_end(follow_end end, int result) {
    if (end == FOLLOW_STOPPED) return REPORT_STOPPED;
    if (end == FOLLOW_INTERRUPTED) return REPORT_INTERRUPTED;
    if (end == FOLLOW_LOST) return interrupted() ? REPORT_INTERRUPTED : REPORT_STOPPED;
    return WIFSIGNALED(result) ? REPORT_CRASHED : WEXITSTATUS(result) ? REPORT_FAILED : REPORT_DONE;
}

/* Splits the words of a stage into arguments; `words` stores their bytes. */
static void make_arguments(const report_run *run, char *words, char **arguments) {
    static char program[] = "koine", json[] = "--json", quiet[] = "--quiet", device[] = "--device";
    int count = 0;
    arguments[count++] = program;
    for (char *word = strtok(words, " "); word && count < MAX_WORDS - 6; word = strtok(NULL, " "))
        arguments[count++] = word;
    arguments[count++] = json;
    arguments[count++] = quiet;
    arguments[count++] = device;
    arguments[count++] = (char *)(uintptr_t)run->options->device;
    arguments[count] = NULL;
}

/* `left` seconds remain for all stages. Returns false if no further stage can run. */
static bool run_stage(report_run *run, report_stage *stage, double left) {
    const double most = most_seconds(run, stage->name);
    char words[REPORT_STAGE_BYTES], *arguments[MAX_WORDS];
    const double begin = clock_now();
    stage_lines lines = {run, begin + (left < most ? left : most)};
    const follow_reader reader = {&lines, write_line, stage_until};
    int result = 0, code = 0;
    fprintf(run->file, "== %s\n", stage->name);
    if (!file_flush(run))
        return command_error("'%s' cannot be written: %s", run->options->path, strerror(errno));
    snprintf(words, sizeof words, "%s", stage->name);
    make_arguments(run, words, arguments);
    const follow_end end = follow(arguments, &reader, &result, &code);
    if (code)
        return command_error("a process for '%s' could not be started: %s", stage->name, strerror(code));
    stage->end = stage_end(end, result);
    if (stage->end == REPORT_STOPPED && left < most) stage->end = REPORT_LEFT_OUT;
    fprintf(run->file, "-- %s: %s%s%s, %.1f s\n", stage->name, report_end_word(stage->end),
            stage->end == REPORT_CRASHED ? " by " : "",
            stage->end == REPORT_CRASHED ? strsignal(WTERMSIG(result)) : "", clock_now() - begin);
    return end != FOLLOW_LOST ||
           command_error("the process of '%s' does not end: restart the machine and repeat this command, "
                         "which continues after it",
                         stage->name);
}

/* ---- all stages ----------------------------------------------------------------------------------- */

/* Whether a later run repeats the stage. */
static bool is_open(report_end end) {
    return end == REPORT_NONE || end == REPORT_INTERRUPTED || end == REPORT_LEFT_OUT;
}

static bool run_stages(report_run *run) {
    const double until = run->begin + 60 * run->options->minutes;
    for (int i = 0; i < run->count; i++) {
        report_stage *stage = &run->stages[i];
        const double left = until - clock_now();
        if (interrupted() || !(left > 0)) return true;
        if (!is_open(stage->end)) continue;
        if (progress_plain_due()) command_info("%d of %d stages: %s", i, run->count, stage->name);
        progress_line("%d of %d, %.0f min left at most: %s", i + 1, run->count, ceil(left / 60), stage->name);
        if (!run_stage(run, stage, left)) return false;
        if (i == 0 && stage->end == REPORT_FAILED) {
            progress_clear();
            unlink(run->options->path);
            return command_error(
                "the device '%s' cannot be opened: %s; koine devices lists what --device takes",
                run->options->device, strncmp(run->error, "koine: ", 7) ? run->error : run->error + 7);
        }
    }
    return true;
}

/* Lists the stages that have not run: "25 operators, bench gpt, bench resnet50"; returns their number. */
static int name_open(const report_run *run, char *text, size_t room) {
    int open = 0, operators = 0;
    size_t used = 0;
    for (int i = 0; i < run->count; i++)
        operators += is_open(run->stages[i].end) && !strncmp(run->stages[i].name, "verify", 6);
    text[0] = '\0';
    if (operators) used = (size_t)snprintf(text, room, "%d operators", operators);
    for (int i = 0; i < run->count; i++) {
        const char *name = run->stages[i].name;
        open += is_open(run->stages[i].end);
        if (!is_open(run->stages[i].end) || !strncmp(name, "verify", 6) || used >= room) continue;
        const char *options = strstr(name, strncmp(name, "bench ", 6) ? " --" : " --seconds");
        used += (size_t)snprintf(text + used, room - used, "%s%.*s", used ? ", " : "",
                                 (int)(options ? options - name : (ptrdiff_t)strlen(name)), name);
    }
    return open;
}

static int print_result(const report_run *run) {
    char open[2000];
    int done = 0, wrong = 0;
    progress_clear();
    for (int i = 0; i < run->count; i++) {
        const report_stage *stage = &run->stages[i];
        done += stage->end == REPORT_DONE;
        if (stage->end == REPORT_DONE || is_open(stage->end)) continue;
        printf("%-8s %s\n", report_end_word(stage->end), stage->name);
        wrong++;
    }
    printf("%d of %d stages done, %d failed\n", done, run->count, wrong);
    if (name_open(run, open, sizeof open)) {
        fprintf(run->file, "-- left out: %s\n", open);
        printf("left out: %s; the same command continues with them\n", open);
    }
    printf("koine report --read %s prints its results\n", run->options->path);
    return wrong ? EXIT_FAILED : EXIT_DONE;
}

static int report_write(const report_options *options) {
    report_run *run = calloc(1, sizeof *run);
    if (!run) return command_fail("out of memory");
    run->options = options;
    run->begin = clock_now();
    list_stages(run);
    find_secrets(run);
    bool good = open_file(run);
    if (good) {
        interrupts_watch();
        good = run_stages(run);
    }
    int status = good ? print_result(run) : EXIT_FAILED;
    if (run->file && (!file_flush(run) | (fclose(run->file) != 0)) && good)
        status = command_fail("'%s' could not be written: %s", options->path, strerror(errno));
    free(run);
    return status;
}

/* ---- the command line ------------------------------------------------------------------------------- */

static int run(int count, char **arguments) {
    report_options report = {.path = "koine-report.txt", .minutes = 10};
    const char *read = NULL, *wish = getenv("KOINE_DEVICE");
    common_options common = {.device = NULL};
    const option options[] = {
        HEADING("report"),
        {"device", OPTION_TEXT, "DEVICE", "device, as for other commands (else KOINE_DEVICE, else gpu)",
         &common.device},
        {"minutes", OPTION_NUMBER, "N", "stop after N minutes (10); the same command continues",
         &report.minutes},
        {"only", OPTION_TEXT, "A,B", "only stages with one of these words, such as matmul,lenet",
         &report.only},
        {"timeout", OPTION_NUMBER, "S", "seconds per stage (60; 150 to time a network)", &report.timeout},
        {"output", OPTION_TEXT, "FILE", "the report, which is continued if it exists (koine-report.txt)",
         &report.path},
        OVERWRITE_OPTION(report),
        HEADING("results"),
        {"read", OPTION_TEXT, "FILE", "print the results of a report, and the predictions for its device",
         &read},
        HEADING("messages"),
        QUIET_OPTION(common.quiet),
        {.name = NULL}};
    const char *words[1];
    int word_count, status;
    if (!options_read(&command_report, options, count, arguments, words, &word_count, 0, &status))
        return status;
    messages_setup(&common);
    if (read) return report_read(read);
    report.device = common.device ? common.device : wish && *wish ? wish : "gpu";
    if (!(report.minutes > 0 && report.minutes <= 1e6))
        return command_misuse("--minutes is %g; expected a number above 0", report.minutes);
    if (!(report.timeout >= 0))
        return command_misuse("--timeout is %g; expected a number of at least 0", report.timeout);
    if (!path_writable(report.path, PATH_STREAM, true)) return EXIT_FAILED;
    return report_write(&report);
}

const command command_report = {
    "report",
    "check and time a device, and write a report",
    "[--OPTION …]",
    "device minutes only output read quiet",
    "koine report\n"
    "koine report --device cpu --minutes 5\n"
    "koine report --read koine-report.txt",
    "Checks every operator on one device and times networks, each in a separate process: a process that\n"
    "crashes or hangs does not stop the others, and if it stops the machine, the same command continues\n"
    "after it. The report is text without names of files or users. GPU measurements are wanted: please\n"
    "attach the report to an issue.",
    run};
