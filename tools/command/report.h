/* The file of koine report: the correctness and speed of one device, as text for an issue.
 *
 * A report has lines of these kinds:
 *
 *     koine-report 1                     the first line
 *     koine VERSION, --device WISH       the second line
 *     == STAGE                           a stage begins
 *     {…}                                output of its command with --json
 *     ! …                                errors and warnings
 *     -- STAGE: done, 1.2 s              its end; or failed, crashed, stopped, lost, interrupted, left out
 *     -- left out: STAGE, STAGE          stages for which there was no time
 *
 * It contains no names of files or users. */
#ifndef KOINE_COMMAND_REPORT_H
#define KOINE_COMMAND_REPORT_H

#include "command.h"

#define REPORT_FIRST_LINE "koine-report 1"

typedef enum report_end {
    REPORT_NONE,        /* the stage has not run */
    REPORT_DONE,        /* its command succeeded */
    REPORT_FAILED,      /* its command reported an error */
    REPORT_CRASHED,     /* a signal ended its command */
    REPORT_STOPPED,     /* it exceeded its time limit */
    REPORT_LOST,        /* the program or the machine stopped while it ran */
    REPORT_INTERRUPTED, /* the user interrupted it */
    REPORT_LEFT_OUT,    /* no time was left */
} report_end;
/* The word for it in a report; report_end_of is the inverse: REPORT_NONE for an unknown word. */
const char *report_end_word(report_end end);
report_end report_end_of(const char *word);

/* A stage is a command line without "koine", such as "bench lenet --seconds 2". */
enum { REPORT_STAGE_BYTES = 120, REPORT_MAX_STAGES = 400 };
typedef struct report_stage {
    char name[REPORT_STAGE_BYTES];
    report_end end;
} report_stage;

typedef struct report_options {
    const char *path, *device;
    const char *only; /* comma-separated words, one of which a stage must contain; NULL: all stages */
    double minutes;
    double timeout; /* seconds per stage; 0: the default of the stage */
    bool overwrite;
} report_options;
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
