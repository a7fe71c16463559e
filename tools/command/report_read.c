/* koine report --read: prints the results of a report and the predictions for its device. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

enum { NAME_BYTES = 200, MAX_ERRORS = 100 };

/* ---- JSON members --------------------------------------------------------------------------------- */

/* The text after the first `"name": `, or NULL. */
static const char *find_member(const char *line, const char *name) {
    char key[64];
    const int length = snprintf(key, sizeof key, "\"%s\": ", name);
    const char *at = strstr(line, key);
    return at ? at + length : NULL;
}

static double number_of(const char *line, const char *name) {
    const char *at = find_member(line, name);
    char *end;
    const double number = at ? strtod(at, &end) : NAN;
    return at && end != at ? number : NAN;
}

/* The text up to the next quote; "" if it is not a string. */
static const char *text_of(const char *line, const char *name, char *text, size_t room) {
    const char *at = find_member(line, name);
    snprintf(text, room, "%.*s", at && *at == '"' ? (int)strcspn(at + 1, "\"") : 0, at ? at + 1 : "");
    return text;
}

/* ---- the report ----------------------------------------------------------------------------------- */

/* A stage of the report. Stages that were interrupted or lost run again: only the lines of the last time
 * count. */
typedef struct report_attempt {
    char name[REPORT_STAGE_BYTES];
    int first; /* the number of the first line of the last time */
    bool running, wrong;
} report_attempt;

typedef struct report_text {
    char *bytes; /* the file; each line ends with a 0 byte */
    size_t length;
    char *line, *next; /* the current line and the one after it */
    int number;        /* of the current line */
    report_attempt attempts[REPORT_MAX_STAGES];
    int count;
    report_attempt *stage;           /* the stage of the current line, or NULL */
    char device[NAME_BYTES];         /* device name */
    double limit_gflops, limit_gb_s; /* measured */
    int right, wrong, done;
    const char *errors[MAX_ERRORS]; /* the lines that were printed */
    int error_count;
    char left_out[REPORT_LEFT_OUT_BYTES]; /* at the end of the latest run; empty while it runs, or if it
                                             completed */
    bool heading;                         /* the heading of the table of networks was printed */
} report_text;

static bool read_line(report_text *report) {
    if (report->next >= report->bytes + report->length) return false;
    report->line = report->next;
    report->next += strlen(report->line) + 1;
    report->number++;
    return true;
}

/* The stage that a line of kind "== STAGE" or "-- STAGE: END" names; NULL: another line, or too many stages.
 */
static report_attempt *attempt_of(report_text *report, const char *line, bool end) {
    const char *colon = strrchr(line, ':');
    if (strncmp(line, end ? "-- " : "== ", 3) != 0 || (end && !colon)) return NULL;
    const int length = end ? (int)(colon - line) - 3 : (int)strlen(line) - 3;
    for (int i = 0; i < report->count; i++)
        if ((int)strlen(report->attempts[i].name) == length &&
            !strncmp(report->attempts[i].name, line + 3, (size_t)length))
            return &report->attempts[i];
    if (end || length >= REPORT_STAGE_BYTES || report->count == REPORT_MAX_STAGES) return NULL;
    report_attempt *attempt = &report->attempts[report->count++];
    memcpy(attempt->name, line + 3, (size_t)length);
    return attempt;
}

/* ---- predictions --------------------------------------------------------------------------------------- */

/* Whether one name contains the other, ignoring case. */
static bool names_meet(const char *one, const char *other) {
    const size_t a = strlen(one), b = strlen(other);
    const char *whole = a > b ? one : other, *part = a > b ? other : one;
    const size_t length = a > b ? b : a;
    for (; length && strlen(whole) >= length; whole++) {
        size_t same = 0;
        while (same < length && tolower((unsigned char)whole[same]) == tolower((unsigned char)part[same]))
            same++;
        if (same == length) return true;
    }
    return false;
}

/* The predicted seconds per training step on this device; NAN if there is no prediction. */
static double predicted_seconds(const char *device, const char *model, double batch, const char *math,
                                const char *precision) {
    const char *at = (const char *)report_predictions_files[0].bytes;
    for (const char *end; (end = strchr(at, '\n')); at = end + 1) {
        char line[600], text[NAME_BYTES];
        snprintf(line, sizeof line, "%.*s", (int)(end - at), at);
        if (strcmp(text_of(line, "model", text, sizeof text), model) != 0 ||
            number_of(line, "batch") != batch ||
            strcmp(text_of(line, "math", text, sizeof text), math) != 0 ||
            strcmp(text_of(line, "precision", text, sizeof text), precision) != 0)
            continue;
        if (names_meet(text_of(line, "device", text, sizeof text), device) ||
            names_meet(text_of(line, "target", text, sizeof text), device))
            return number_of(line, "seconds");
    }
    return NAN;
}

/* ---- printing ------------------------------------------------------------------------------------------ */

static void print_device(report_text *report) {
    char platform[NAME_BYTES], version[NAME_BYTES], driver[NAME_BYTES], memory[32];
    if (!strstr(report->line, "\"chosen\": true")) return;
    text_of(report->line, "name", report->device, sizeof report->device);
    report->limit_gflops = number_of(report->line, "gflops");
    report->limit_gb_s = number_of(report->line, "gb_s");
    printf("%s, %s, %s, driver %s: %g units, %s\n", report->device,
           text_of(report->line, "platform", platform, sizeof platform),
           text_of(report->line, "version", version, sizeof version),
           text_of(report->line, "driver", driver, sizeof driver), number_of(report->line, "compute_units"),
           bytes_text(number_of(report->line, "memory_bytes"), memory, sizeof memory));
    if (isfinite(report->limit_gflops) && isfinite(report->limit_gb_s))
        printf("measured: %.4g GFLOP/s, %.4g GB/s\n", report->limit_gflops, report->limit_gb_s);
    else
        printf("its speed could not be measured\n");
}

static void print_case(report_text *report) {
    char name[NAME_BYTES], message[NAME_BYTES];
    if (strstr(report->line, "\"right\": true")) {
        report->right++;
        return;
    }
    if (!strstr(report->line, "\"right\": false")) return;
    report->wrong++;
    report->stage->wrong = true;
    printf("wrong    %s: %s\n", text_of(report->line, "name", name, sizeof name),
           text_of(report->line, "message", message, sizeof message));
}

static void print_bench(report_text *report) {
    char model[NAME_BYTES], math[NAME_BYTES], precision[NAME_BYTES], way[2 * NAME_BYTES], predicted[32] = "-",
                                                                                          part[32] = "-";
    if (strstr(report->stage->name, " --profile"))
        return; /* profiled steps are slower; the step was timed without */
    text_of(report->line, "case", model, sizeof model);
    text_of(report->line, "math", math, sizeof math);
    text_of(report->line, "precision", precision, sizeof precision);
    const bool exact = !strcmp(math, "exact");
    snprintf(way, sizeof way, "%s%s", precision, exact ? ", exact" : "");
    const double batch = number_of(report->line, "batch"), median = number_of(report->line, "median_ms"),
                 gflops = number_of(report->line, "gflops"),
                 seconds = predicted_seconds(report->device, model, batch, math, precision);
    if (!report->heading)
        printf("\n%-14s %-15s %6s %10s %10s %14s %14s\n", "training step", "precision", "batch", "ms",
               "GFLOP/s", "of measured", "predicted ms");
    report->heading = true;
    if (isfinite(seconds)) snprintf(predicted, sizeof predicted, "%.4g", 1e3 * seconds);
    if (isfinite(report->limit_gflops))
        snprintf(part, sizeof part, "%.0f %%", 100 * gflops / report->limit_gflops);
    printf("%-14s %-15s %6.0f %10.4g %10.4g %14s %14s\n", model, way, isfinite(batch) ? batch : 0, median,
           gflops, part, predicted);
}

/* A refused kernel, or the total. */
static void print_tune(const report_text *report) {
    char shape[NAME_BYTES], kernel[NAME_BYTES], end[NAME_BYTES];
    const double tuned = number_of(report->line, "us"), untuned = number_of(report->line, "untuned_us");
    if (text_of(report->line, "end", end, sizeof end)[0])
        printf("%-8s %s: %s\n", end, text_of(report->line, "shape", shape, sizeof shape),
               text_of(report->line, "kernel", kernel, sizeof kernel));
    else if (isfinite(number_of(report->line, "tuned")))
        printf("%s: %.0f shapes, %.0f left out, %.0f with another kernel: %.4g ms together instead of %.4g\n",
               report->stage->name, number_of(report->line, "tuned"), number_of(report->line, "left_out"),
               number_of(report->line, "faster"), 1e-3 * tuned, 1e-3 * untuned);
}

void report_print_left_out(const char *stages) {
    enum { FEW = 4 };
    static const char network[] = "bench ";
    int networks = 0;
    bool counted = false;
    const char *before = "left out: ";
    for (const char *at = stages; at; at = strstr(at, ", ") ? strstr(at, ", ") + 2 : NULL)
        networks += !strncmp(at, network, strlen(network));
    for (const char *at = stages; at; at = strstr(at, ", ") ? strstr(at, ", ") + 2 : NULL) {
        const char *end = strstr(at, ", ");
        if (networks <= FEW || strncmp(at, network, strlen(network)) != 0)
            printf("%s%.*s", before, end ? (int)(end - at) : (int)strlen(at), at);
        else if (!counted)
            printf("%s%d timings of networks", before, networks);
        counted = counted || !strncmp(at, network, strlen(network));
        before = ", ";
    }
}

/* Drivers repeat their warnings in each process: each is printed once. */
static void print_error(report_text *report) {
    int more = 0;
    for (int i = 0; i < report->error_count; i++)
        if (!strcmp(report->errors[i], report->line)) return;
    if (report->error_count < MAX_ERRORS) report->errors[report->error_count++] = report->line;
    for (const char *at = report->next; at < report->bytes + report->length; at += strlen(at) + 1)
        more += !strcmp(at, report->line);
    printf("%s: %s", report->stage->name, report->line + 2);
    if (more) printf(" (and %d more time%s)", more, more == 1 ? "" : "s");
    putchar('\n');
}

static void print_end(report_text *report, const report_attempt *attempt) {
    const report_end end = report_end_of(strrchr(report->line, ':') + 2);
    report->done += end == REPORT_DONE;
    report->stage = NULL;
    if (end == REPORT_DONE || end == REPORT_LEFT_OUT) return;
    /* Wrong results are printed individually. */
    if (end != REPORT_FAILED || !attempt->wrong) printf("%s\n", report->line + 3);
}

static void print_line(report_text *report) {
    const char *line = report->line;
    report_attempt *begun = attempt_of(report, line, false), *ended = attempt_of(report, line, true);
    if (begun) {
        report->stage = begun;
        report->left_out[0] = '\0';
    } else if (!strncmp(line, "-- left out: ", 13)) {
        snprintf(report->left_out, sizeof report->left_out, "%s", line + 13);
    } else if (ended && report->number > ended->first) {
        print_end(report, ended);
    }
    if (begun || ended || !report->stage || report->number < report->stage->first) return;
    const char *stage = report->stage->name;
    if (!strncmp(line, "! ", 2))
        print_error(report);
    else if (line[0] != '{')
        return;
    else if (!strncmp(stage, "devices", 7))
        print_device(report);
    else if (!strncmp(stage, "verify", 6))
        print_case(report);
    else if (!strncmp(stage, "bench", 5))
        print_bench(report);
    else if (!strncmp(stage, "tune", 4))
        print_tune(report);
}

/* Finds when each stage ran last. */
static void find_attempts(report_text *report) {
    while (read_line(report)) {
        report_attempt *begun = attempt_of(report, report->line, false),
                       *ended = attempt_of(report, report->line, true);
        if (ended) ended->running = false;
        if (!begun || begun->running) continue;
        begun->running = true;
        begun->first = report->number;
    }
}
/* Reads a file up to its first 0 byte, and separates its lines; false: see errno. */
static bool read_lines(report_text *report, const char *path) {
    FILE *file = fopen(path, "r");
    size_t room = 0;
    if (!file) return false;
    const ssize_t length = getdelim(&report->bytes, &room, '\0', file);
    const bool good = length >= 0 || feof(file);
    report->length = length > 0 ? (size_t)length : 0;
    for (size_t i = 0; i < report->length; i++)
        if (report->bytes[i] == '\n' || report->bytes[i] == '\r') report->bytes[i] = '\0';
    fclose(file);
    report->next = report->bytes;
    return good;
}

static void print_report(report_text *report) {
    if (read_line(report)) printf("%s\n", report->line);
    char *const stages = report->next;
    const int number = report->number;
    find_attempts(report);
    report->next = stages;
    report->number = number;
    while (read_line(report))
        print_line(report);
    for (int i = 0; i < report->count; i++)
        if (report->attempts[i].running)
            printf("%s: no end, it is running or ended the machine\n", report->attempts[i].name);
    printf("%s%d cases right, %d wrong; %d stages done", report->heading ? "\n" : "", report->right,
           report->wrong, report->done);
    if (report->left_out[0]) {
        printf("; ");
        report_print_left_out(report->left_out);
    }
    putchar('\n');
}

int report_read(const char *path) {
    report_text report = {.limit_gflops = NAN, .limit_gb_s = NAN};
    int status = EXIT_DONE;
    if (!read_lines(&report, path))
        status = command_fail("'%s' cannot be read: %s", path, strerror(errno));
    else if (!read_line(&report) || strcmp(report.line, REPORT_FIRST_LINE) != 0)
        status =
            command_fail("'%s' is not a koine report: its first line is not '%s'", path, REPORT_FIRST_LINE);
    else
        print_report(&report);
    free(report.bytes);
    return status;
}
