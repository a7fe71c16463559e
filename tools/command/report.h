/* The file of koine report: what one device computes, and how fast, as text for an issue.
 *
 * A report has lines of these kinds:
 *
 *     koine-report 1                     the first line
 *     koine VERSION, --device WISH       the second line
 *     == STAGE                           a stage begins
 *     {…}                                what its command printed with --json
 *     ! …                                its errors and warnings
 *     -- STAGE: done, 1.2 s              its end; or failed, crashed, stopped, lost, interrupted, left out
 *     -- left out: STAGE, STAGE          what the time did not suffice for
 *
 * It names no files and no users. */
#ifndef KOINE_COMMAND_REPORT_H
#define KOINE_COMMAND_REPORT_H

#include "command.h"

#define REPORT_FIRST_LINE "koine-report 1"

typedef enum report_end {
    REPORT_NONE,        /* the stage has not run */
    REPORT_DONE,        /* its command succeeded */
    REPORT_FAILED,      /* its command reported an error */
    REPORT_CRASHED,     /* a signal ended it */
    REPORT_STOPPED,     /* it took too long */
    REPORT_LOST,        /* the program or the machine ended while it ran */
    REPORT_INTERRUPTED, /* by the user */
    REPORT_LEFT_OUT,    /* the time was over */
} report_end;
/* The word for it in a report; report_end_of is the inverse: REPORT_NONE for another word. */
const char *report_end_word(report_end end);
report_end report_end_of(const char *word);

/* A stage is a line of words for the command, such as "bench lenet --seconds 2". */
enum { REPORT_STAGE_BYTES = 120, REPORT_MAX_STAGES = 400 };
typedef struct report_stage {
    char name[REPORT_STAGE_BYTES];
    report_end end;
} report_stage;

typedef struct report_options {
    const char *path, *device;
    const char *only; /* words of which a stage has one, separated by commas; NULL: all stages */
    double minutes;
    double timeout; /* seconds per stage; 0: the default of its kind */
    bool overwrite;
} report_options;
/* The file predictions.jsonl of tools/gpu-lab, written by tools/embed.c. */
typedef struct report_predictions_file {
    const char *name;
    const unsigned char *bytes; /* a byte 0 follows */
    unsigned long size;
    unsigned long long hash;
} report_predictions_file;
extern const report_predictions_file report_predictions_files[];
extern const unsigned long report_predictions_file_count;

/* Prints the results of a report, with the predictions of tools/gpu-lab for its device. Returns the exit
 * status. */
int report_read(const char *path);

#endif
