/* Where the results of koine infer go, and as what. */
#ifndef KOINE_COMMAND_INFER_OUTPUT_H
#define KOINE_COMMAND_INFER_OUTPUT_H

#include "command.h"

typedef enum output_format { OUTPUT_TEXT, OUTPUT_LINES, OUTPUT_TABLE, OUTPUT_ARRAY } output_format;

typedef struct infer_results {
    const char *name;           /* of the output */
    const kn_tensor_info *info; /* of all of it, row-major; the first dimension counts the samples */
    const void *numbers;
    char *const *names;      /* the files of which samples are, each may be NULL */
    const kn_dataset *table; /* of which samples are rows, which knows what the numbers mean; or NULL */
    const char *classes;     /* a line for each that these are the logits of; NULL: they are not */
} infer_results;

/* What --format says (NULL: nothing), or else the end of the path: .npy, .csv, .jsonl, .txt; NULL is the
 * standard output for people, "-" for programs. EXIT_DONE, or says what makes no sense and answers
 * EXIT_USAGE. */
int output_choose(const char *format, const char *path, bool json, output_format *chosen);
/* Whole or not at all; path "-" is the standard output. Numbers of a table's target are in its unit, logits
 * of classes with their probabilities. Says what is wrong and answers false. */
bool output_write(const infer_results *results, output_format format, const char *path);

#endif
