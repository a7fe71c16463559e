/* Columns of tables as numbers for a network. Private to the data module. */
#ifndef KN_COLUMNS_PRIVATE_H
#define KN_COLUMNS_PRIVATE_H

#include "data/dataset_private.h"

typedef enum kn_column_kind {
    KN_COLUMN_SKIPPED,  /* ignored: distinct text in every row, or all missing */
    KN_COLUMN_NUMBER,   /* standardised: minus the mean, divided by the deviation */
    KN_COLUMN_CATEGORY, /* one-hot */
    KN_COLUMN_DATE,     /* standardised days, and the time of year and of day as sine and cosine */
} kn_column_kind;

typedef struct kn_column {
    const char *name;
    kn_column_kind kind;
    double mean, deviation; /* of numbers, or of dates in days since 1970 */
    const char **values;    /* of categories, in order */
    size_t value_count;
    bool others;   /* one more entry for all other values */
    bool time;     /* dates have a time of day */
    bool missing;  /* one more number: 1 if the value is missing */
    size_t absent; /* rows without a value when it was detected; for messages */
    size_t cell;   /* index of the column in the file; SIZE_MAX: absent */
} kn_column;

/* Strings are in the arena that it was created with. */
typedef struct kn_columns {
    kn_column *inputs;
    size_t count;
    kn_column target;
} kn_columns;

typedef struct kn_column_options {
    const char *target;   /* name of the target column */
    const char *without;  /* comma-separated names to skip; NULL: none */
    bool classes, number; /* how to treat the target; neither: detected */
} kn_column_options;

/* How cells are parsed. Numbers may have a decimal comma if the separator is not a comma. */
bool kn_cell_missing(const kn_csv_cell *cell);
bool kn_cell_number(const kn_csv *table, const kn_csv_cell *cell, double *number);
/* Days since 1970-01-01, from "2024-05-31", "2024/05/31" or "31.05.2024", optionally followed by "T" or a
 * blank and a time "17:05[:30]". */
bool kn_cell_date(const kn_csv_cell *cell, double *days, bool *time);

/* Detects what the columns of a table hold (columns_find.c). */
kn_status kn_columns_find(kn_arena *arena, const char *name, const kn_csv *table,
                          const kn_column_options *wanted, kn_columns *columns, kn_error *error);
/* Converts to JSON and back (columns_text.c); the caller releases the text. */
char *kn_columns_text(const kn_host *host, const kn_columns *columns);
/* A human-readable description, one line per column. `count` of the `rows` have a target; the caller releases
 * it. */
char *kn_columns_about(const kn_host *host, const kn_columns *columns, size_t rows, size_t count);
kn_status kn_columns_read(kn_arena *arena, const char *text, kn_columns *columns, kn_error *error);
/* Finds the columns in a table's first line. Inputs must be present, the target need not. */
kn_status kn_columns_match(const char *name, const kn_csv *table, kn_columns *columns, kn_error *error);

/* How many numbers a column becomes, and all columns together. */
size_t kn_column_width(const kn_column *column);
size_t kn_columns_width(const kn_columns *columns);
/* The numbers of one row: x (kn_columns_width). */
kn_status kn_columns_row(const char *name, const kn_csv *table, const kn_columns *columns, size_t row,
                         float *x, kn_error *error);
/* The target of a row: a class index or a standardised number; *there is false if it is missing. */
kn_status kn_columns_target(const char *name, const kn_csv *table, const kn_columns *columns, size_t row,
                            float *number, int32_t *class_number, bool *there, kn_error *error);

#endif
