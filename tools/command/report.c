/* koine report: runs each stage of a report in a separate process, which may fail or hang; its command line.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "report.h"

enum { MAX_WORDS = 32 };

/* ---- the stages ---------------------------------------------------------------------------------------- */

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

/* NULL: it is not wanted. */
static report_stage *add_stage(report_run *run, const char *words) {
    if (run->count == REPORT_MAX_STAGES) return NULL;
    if (run->count && run->options->only && !is_wanted(run->options->only, words)) return NULL;
    report_stage *stage = &run->stages[run->count++];
    *stage = (report_stage){.end = REPORT_NONE};
    snprintf(stage->name, sizeof stage->name, "%s", words);
    return stage;
}

static void add_operator(report_run *run, const char *words, const char *name) {
    report_stage *stage = add_stage(run, words);
    if (!stage) return;
    stage->operator_name = name;
    stage->main_operator = !strncmp(words, REPORT_MAIN_STAGE, strlen(REPORT_MAIN_STAGE));
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
    static const char *const precisions[] = {"", " --precision float16", " --precision bfloat16",
                                             " --precision tf32"};
    static const char *const main_operators[] = {"matmul", "conv2d", "attention"};
    static const char *const predicted[] = {"gpt --batch 8", "resnet50 --batch 32", "vgg11 --batch 32"};
    static const char *const networks[] = {
        "lenet --batch 256",   "mlp --batch 512",     "cifar-cnn --batch 256", "resnet18c --batch 256",
        "lstm --batch 64",     "gpt --batch 64",      "vgg11c --batch 256",    "mobilenetv2 --batch 128",
        "alexnet --batch 256", "resnet50 --batch 128"};
    static const char *const fast[] = {"--seconds 1", "--precision bfloat16 --seconds 1"};
    static const char *const exact[] = {"--math exact --seconds 1"};
    static const char *const profile[] = {"--profile --seconds 1",
                                          "--precision bfloat16 --profile --seconds 1"};
    char words[REPORT_STAGE_BYTES];
    add_stage(run, "devices --measure");
    for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++)
        for (size_t m = 0; m < sizeof main_operators / sizeof *main_operators; m++) {
            snprintf(words, sizeof words, REPORT_MAIN_STAGE "%s%s", main_operators[m], precisions[i]);
            add_operator(run, words, main_operators[m]);
        }
    add_stage(run, "train lenet --data digits --check");
    ADD_NETWORKS(run, predicted, fast);
    ADD_NETWORKS(run, networks, fast);
    ADD_NETWORKS(run, predicted, exact);
    ADD_NETWORKS(run, networks, exact);
    ADD_NETWORKS(run, predicted, profile);
    for (size_t i = 0; i < kn_verify_case_count(); i++) {
        if (i && !strcmp(kn_verify_case_name_at(i - 1), kn_verify_case_name_at(i))) continue;
        snprintf(words, sizeof words, REPORT_OPERATOR_STAGE "%s", kn_verify_case_name_at(i));
        add_operator(run, words, kn_verify_case_name_at(i));
    }
    add_stage(run, "bench-gemm --size 4096 --seconds 1");
    add_stage(run, "bench lenet --batch 256 --no-cache --seconds 0"); /* its first step, from source */
    add_stage(run, "tune resnet18c --seconds 60");
}

double report_most_seconds(const report_run *run, const char *name) {
    if (run->options->timeout > 0) return run->options->timeout;
    const bool main = !strncmp(name, REPORT_MAIN_STAGE, strlen(REPORT_MAIN_STAGE));
    return main || !strncmp(name, "bench", 5) ? 150 : !strncmp(name, "tune", 4) ? 90 : 60;
}

/* ---- one stage ----------------------------------------------------------------------------------------- */

/* A running stage. */
typedef struct stage_lines {
    report_run *run;
    report_stage *stage;
    double until;
    bool unavailable; /* the command found nothing to check on this device */
} stage_lines;

static void take_line(void *user, bool errors, const char *line) {
    stage_lines *lines = user;
    lines->unavailable = lines->unavailable || report_says_unavailable(errors, line);
    report_file_line(lines->run, lines->stage, errors, line);
}

bool report_says_unavailable(bool errors, const char *line) {
    return !errors && strstr(line, "\"available\": false");
}

static double stage_until(void *user) {
    return ((stage_lines *)user)->until;
}

report_end report_end_after(follow_end end, int result) {
    if (end == FOLLOW_STOPPED) return REPORT_STOPPED;
    if (end == FOLLOW_INTERRUPTED) return REPORT_INTERRUPTED;
    if (end == FOLLOW_LOST) return interrupted() ? REPORT_INTERRUPTED : REPORT_STOPPED;
    return WIFSIGNALED(result) ? REPORT_CRASHED : WEXITSTATUS(result) ? REPORT_FAILED : REPORT_DONE;
}

follow_end report_follow(const report_run *run, const char *line, const follow_reader *reader, int *result,
                         int *code) {
    static char program[] = "koine", json[] = "--json", quiet[] = "--quiet", device[] = "--device";
    char words[REPORT_COMMAND_BYTES], *arguments[MAX_WORDS], *rest = NULL;
    int count = 0;
    snprintf(words, sizeof words, "%s", line);
    arguments[count++] = program;
    for (char *word = strtok_r(words, " ", &rest); word && count < MAX_WORDS - 5;
         word = strtok_r(NULL, " ", &rest))
        arguments[count++] = word;
    arguments[count++] = json;
    arguments[count++] = quiet;
    arguments[count++] = device;
    arguments[count++] = (char *)(uintptr_t)run->options->device;
    arguments[count] = NULL;
    const follow_end end = follow(arguments, reader, result, code);
    if (*code) command_error("a process for '%s' could not be started: %s", line, strerror(*code));
    if (end == FOLLOW_LOST)
        command_error("the process of '%s' does not end: restart the machine and repeat this command, "
                      "which continues after it",
                      line);
    return end;
}

/* `left` seconds remain for all stages. Returns false if no further stage can run. */
static bool run_stage(report_run *run, report_stage *stage, double left) {
    const double most = report_most_seconds(run, stage->name);
    stage_lines lines = {run, stage, clock_now() + (left < most ? left : most), false};
    const follow_reader reader = {&lines, take_line, stage_until};
    int result = 0, code = 0;
    if (!report_file_begin(run, stage)) return false;
    const follow_end end = report_follow(run, stage->name, &reader, &result, &code);
    if (code) return false;
    report_end ended = report_end_after(end, result);
    if (ended == REPORT_FAILED && lines.unavailable) ended = REPORT_UNAVAILABLE;
    report_file_end(run, stage, ended == REPORT_STOPPED && left < most ? REPORT_LEFT_OUT : ended,
                    ended == REPORT_CRASHED ? WTERMSIG(result) : 0);
    return end != FOLLOW_LOST;
}

/* ---- all stages ----------------------------------------------------------------------------------- */

bool report_is_open(report_end end) {
    return end == REPORT_NONE || end == REPORT_INTERRUPTED || end == REPORT_LEFT_OUT || end == REPORT_UNCLEAR;
}

void report_progress(report_run *run, const report_stage *stage) {
    const int number = (int)(stage - run->stages);
    pthread_mutex_lock(&run->writing);
    if (progress_plain_due()) command_info("%d of %d stages: %s", number, run->count, stage->name);
    progress_line("%d of %d, %.0f min left at most: %s", number + 1, run->count,
                  ceil((run->until - clock_now()) / 60), stage->name);
    pthread_mutex_unlock(&run->writing);
}

static bool run_stages(report_run *run) {
    for (int i = 0; i < run->count; i++) {
        report_stage *stage = &run->stages[i];
        const double left = run->until - clock_now();
        if (interrupted() || !(left > 0)) return true;
        if (!report_is_open(stage->end)) continue;
        /* Those that an earlier run may have lost run alone. */
        if (stage->operator_name && stage->end != REPORT_UNCLEAR) {
            if (!report_operators(run, stage->main_operator)) return false;
            continue;
        }
        report_progress(run, stage);
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
        operators += report_is_open(run->stages[i].end) && !strncmp(run->stages[i].name, "verify", 6);
    text[0] = '\0';
    if (operators) used = (size_t)snprintf(text, room, "%d operators", operators);
    for (int i = 0; i < run->count; i++) {
        const char *name = run->stages[i].name;
        open += report_is_open(run->stages[i].end);
        if (!report_is_open(run->stages[i].end) || !strncmp(name, "verify", 6) || used >= room) continue;
        const char *options = strstr(name, strncmp(name, "bench ", 6) ? " --" : " --seconds");
        used += (size_t)snprintf(text + used, room - used, "%s%.*s", used ? ", " : "",
                                 (int)(options ? options - name : (ptrdiff_t)strlen(name)), name);
    }
    return open;
}

static int print_result(const report_run *run) {
    char open[REPORT_LEFT_OUT_BYTES];
    int done = 0, wrong = 0, unavailable = 0, wrong_checks = 0, right_checks = 0;
    progress_clear();
    for (int i = 0; i < run->count; i++) {
        const report_stage *stage = &run->stages[i];
        done += stage->end == REPORT_DONE;
        right_checks += stage->operator_name && stage->end == REPORT_DONE;
        unavailable += stage->end == REPORT_UNAVAILABLE;
        if (stage->end == REPORT_DONE || stage->end == REPORT_UNAVAILABLE || report_is_open(stage->end))
            continue;
        printf("%-8s %s\n", report_end_word(stage->end), stage->name);
        wrong++;
        wrong_checks += stage->operator_name != NULL;
    }
    printf("%d of %d stages done, %d failed", done, run->count, wrong);
    if (unavailable) printf(", %d not available on this device", unavailable);
    putchar('\n');
    if (wrong_checks && !right_checks)
        printf("no operator is right; koine doctor checks whether the driver works at all\n");
    if (name_open(run, open, sizeof open)) {
        fprintf(run->file, "-- left out: %s\n", open);
        report_print_left_out(open);
        printf("; the same command continues with them\n");
    }
    printf("koine report --read %s prints its results\n", run->options->path);
    return wrong ? EXIT_FAILED : EXIT_DONE;
}

static int report_write(const report_options *options) {
    report_run *run = calloc(1, sizeof *run);
    if (!run) return command_fail("out of memory");
    run->options = options;
    run->until = clock_now() + 60 * options->minutes;
    pthread_mutex_init(&run->writing, NULL);
    list_stages(run);
    bool good = report_file_open(run);
    if (good) {
        interrupts_watch_waking("\nkoine: ending the report; press Ctrl-C again to stop at once\n", -1);
        good = run_stages(run);
    }
    int status = good ? print_result(run) : EXIT_FAILED;
    if (run->file && !report_file_close(run) && good)
        status = command_fail("'%s' could not be written: %s", options->path, strerror(errno));
    pthread_mutex_destroy(&run->writing);
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
        {"timeout", OPTION_NUMBER, "S", "seconds per stage (60; 150 to time a network or for main operators)",
         &report.timeout},
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
    "Checks every operator on one device and times networks, in separate processes: an operator or network\n"
    "that crashes or hangs does not stop the others, and if it stops the machine, the same command "
    "continues\n"
    "after it. The report is text without names of files or users. GPU measurements are wanted: please\n"
    "attach the report to an issue.",
    run};
