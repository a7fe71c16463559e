/* The destination and format of the results of koine infer. */
#ifndef KOINE_COMMAND_INFER_OUTPUT_H
#define KOINE_COMMAND_INFER_OUTPUT_H

#include "command.h"

typedef enum output_format { OUTPUT_TEXT, OUTPUT_LINES, OUTPUT_TABLE, OUTPUT_ARRAY } output_format;

typedef struct infer_results {
    const char *name;           /* output name */
    const kn_tensor_info *info; /* shape of the whole output, row-major, with the sample as first dimension */
    const void *numbers;
    char *const *names;      /* the files of the samples, each may be NULL */
    const kn_dataset *table; /* the table that the samples come from, for interpreting the numbers; or NULL */
    const char *classes;     /* class names, one per line, if the output is class logits; otherwise NULL */
} infer_results;

/* The format given by --format (NULL: none), or by the extension of the path: .npy, .csv, .jsonl, .txt; path
 * NULL is human-readable text on standard output, "-" is machine-readable output. EXIT_DONE, or reports an
 * error and returns EXIT_USAGE. */
int output_choose(const char *format, const char *path, bool json, output_format *chosen);
/* Writes atomically; path "-" is standard output. Numbers are written in the unit of the table's target,
 * class logits with their probabilities. Reports an error and returns false. */
bool output_write(const infer_results *results, output_format format, const char *path);

#endif
