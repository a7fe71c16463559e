/* The file of koine report: the correctness and speed of one device, as text for an issue.
 *
 * A report has lines of these kinds:
 *
 *     koine-report 1                     the first line
 *     koine VERSION, --device WISH       the second line
 *     == STAGE                           a stage begins
 *     {…}                                output of its command with --json
 *     ! …                                errors and warnings
 *     -- STAGE: done, 1.2 s              its end; or failed, crashed, stopped, lost, interrupted, left out,
 *                                        unclear, not available
 *     -- left out: STAGE, STAGE          stages for which there was no time
 *
 * Stages that check operators run at the same time, most of them several in a process. A line belongs to the
 * stage of the last "==" before it, so a stage may have several of these lines.
 *
 * It contains no names of files or users. */
#ifndef KOINE_COMMAND_REPORT_H
#define KOINE_COMMAND_REPORT_H

#include <pthread.h>

#include "follow.h"

#define REPORT_FIRST_LINE "koine-report 1"
#define REPORT_MAIN_STAGE "verify --quick --operators "
#define REPORT_OPERATOR_STAGE "verify --smoke --operators "

typedef enum report_end {
    REPORT_NONE,        /* the stage has not run */
    REPORT_DONE,        /* its command succeeded */
    REPORT_FAILED,      /* its command reported an error */
    REPORT_CRASHED,     /* a signal ended its command */
    REPORT_STOPPED,     /* it exceeded its time limit */
    REPORT_LOST,        /* the program or the machine stopped while it ran */
    REPORT_INTERRUPTED, /* the user interrupted it */
    REPORT_LEFT_OUT,    /* no time was left */
    REPORT_UNCLEAR,     /* lost, or another stage that ran at the same time was */
    REPORT_UNAVAILABLE, /* the device has not what it checks */
} report_end;
/* The word for it in a report; report_end_of is the inverse: REPORT_NONE for an unknown word. */
const char *report_end_word(report_end end);
report_end report_end_of(const char *word);

/* A stage is a command line without "koine", such as "bench lenet --seconds 2". */
enum { REPORT_STAGE_BYTES = 120, REPORT_MAX_STAGES = 400, REPORT_COMMAND_BYTES = 4000 };
typedef struct report_stage {
    char name[REPORT_STAGE_BYTES];
    report_end end;
    const char *operator_name; /* of a stage that runs at the same time as others; NULL: it runs alone */
    bool main_operator;        /* one of those that are checked first, each in its own process */
    double begin;              /* by clock_now */
    bool running;              /* while the file of an earlier run is read: it has begun and not ended */
} report_stage;

typedef struct report_options {
    const char *path, *device;
    const char *only; /* comma-separated words, one of which a stage must contain; NULL: all stages */
    double minutes;
    double timeout; /* seconds per stage; 0: the default of the stage */
    bool overwrite;
} report_options;

typedef struct report_run {
    const report_options *options;
    report_stage stages[REPORT_MAX_STAGES];
    int count;
    double until; /* the end of all stages, by clock_now */
    FILE *file;
    pthread_mutex_t writing;                  /* guards the file, the next two, and progress */
    const report_stage *writer;               /* whose line is the last in the file; NULL: none's */
    char error[400];                          /* the last error of a stage */
    char home[1000], user[100], folder[1000]; /* strings to remove from the file */
} report_run;

/* Opens the file to append to, and takes the ends of stages from it. The functions that return false have
 * reported an error. */
bool report_file_open(report_run *run);
/* Writes that a stage begins, to disk: the machine may hang. */
bool report_file_begin(report_run *run, report_stage *stage);
/* Writes a line of a stage, without the user's paths and names. */
void report_file_line(report_run *run, const report_stage *stage, bool errors, const char *line);
/* Sets the end of a stage and writes it; `signal`: what ended its process, or 0. */
void report_file_end(report_run *run, report_stage *stage, report_end end, int signal);
/* False, without a report, if not everything could be written. */
bool report_file_close(report_run *run);

/* Prints "left out: " and a line of stages from the report; of many networks, only the number. */
enum { REPORT_LEFT_OUT_BYTES = 4000 };
void report_print_left_out(const char *stages);
/* The time that a stage may take. */
double report_most_seconds(const report_run *run, const char *name);
/* Runs koine with the words of `line` and the options of all stages; see follow. Reports a process that
 * does not start (*code) or end (FOLLOW_LOST). */
follow_end report_follow(const report_run *run, const char *line, const follow_reader *reader, int *result,
                         int *code);
report_end report_end_after(follow_end end, int result);
/* Whether a stage prints by this line that the device has nothing that it could check. */
bool report_says_unavailable(bool errors, const char *line);
/* Whether the stage has to run, or to run again. */
bool report_is_open(report_end end);
/* Shows which stage runs. */
void report_progress(report_run *run, const report_stage *stage);
/* Runs all open stages that check the main operators, or the others, in a few processes at a time; without
 * those that are unclear. Returns false if no further stage can run. */
bool report_operators(report_run *run, bool main);

/* The file predictions.jsonl of tools/gpu-lab, written by tools/embed.c. */
typedef struct report_predictions_file {
    const char *name;
    const unsigned char *bytes; /* terminated by a 0 byte */
    unsigned long size;
    unsigned long long hash;
} report_predictions_file;
extern const report_predictions_file report_predictions_files[];
extern const unsigned long report_predictions_file_count;

/* Prints the results of a report and the predictions of tools/gpu-lab for its device. Returns the exit
 * status. */
int report_read(const char *path);

#endif
