/* Findings, printed one by one: a kind, the subject, and a command that fixes the problem. Does not need the
 * library. */
#ifndef KOINE_COMMAND_FINDINGS_H
#define KOINE_COMMAND_FINDINGS_H

#include <stdbool.h>

typedef enum finding_kind {
    FINDING_FINE,
    FINDING_HINT, /* may be intentional */
    FINDING_PROBLEM,
} finding_kind;

typedef struct findings {
    bool json;
    int problems, hints;
} findings;

#if defined(__GNUC__)
#define FINDING_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define FINDING_PRINTF(text, first)
#endif

/* Prints a finding on standard output: `check` is a word, `fix` the command that fixes it, or "". */
void finding_add(findings *found, finding_kind kind, const char *check, const char *fix, const char *format,
                 ...) FINDING_PRINTF(5, 6);

#endif
