/* Columns of tables as numbers for a network: inside of the data room only. */
#ifndef KN_COLUMNS_PRIVATE_H
#define KN_COLUMNS_PRIVATE_H

#include "data/dataset_private.h"

typedef enum kn_column_kind {
    KN_COLUMN_LEFT_OUT, /* nothing of it is read: every row another text, or nothing there */
    KN_COLUMN_NUMBER,   /* standardised: less the mean, by the deviation */
    KN_COLUMN_CATEGORY, /* a 1 at the place of its value */
    KN_COLUMN_DATE,     /* standardised days, and where in the year and the day that is, as sine and cosine */
} kn_column_kind;

typedef struct kn_column {
    const char *name;
    kn_column_kind kind;
    double mean, deviation; /* of numbers, and of dates in days since 1970 */
    const char **values;    /* of categories, in order */
    size_t value_count;
    bool others;   /* one more place, for values that are not among these */
    bool time;     /* dates have a time of day */
    bool missing;  /* one more place, which says that there is none */
    size_t absent; /* rows without a value, when it was found; for people */
    size_t cell;   /* where it stands in the file's lines; SIZE_MAX: not there */
} kn_column;

/* Texts lie in the arena that it was made with. */
typedef struct kn_columns {
    kn_column *inputs;
    size_t count;
    kn_column target;
} kn_columns;

typedef struct kn_columns_wish {
    const char *target;   /* its name */
    const char *without;  /* names, separated by commas, that are left out; NULL: none */
    bool classes, number; /* what the target is to be taken for; neither: found out */
} kn_columns_wish;

/* What a cell may be read as. Numbers may have a decimal comma where no comma separates the cells. */
bool kn_cell_missing(const kn_csv_cell *cell);
bool kn_cell_number(const kn_csv *table, const kn_csv_cell *cell, double *number);
/* Days since 1970-01-01, from "2024-05-31", "2024/05/31", "31.05.2024", and with "T" or a blank a time
 * "17:05[:30]". */
bool kn_cell_date(const kn_csv_cell *cell, double *days, bool *time);

/* Finds out what the columns of a table hold (columns_find.c). */
kn_status kn_columns_find(kn_arena *arena, const char *name, const kn_csv *table, const kn_columns_wish *wish,
                          kn_columns *columns, kn_error *error);
/* As JSON and back (columns_text.c); released by the caller. */
char *kn_columns_text(const kn_host *host, const kn_columns *columns);
/* For people: a line for each column. `rows` of which `count` have a target; released by the caller. */
char *kn_columns_about(const kn_host *host, const kn_columns *columns, size_t rows, size_t count);
kn_status kn_columns_read(kn_arena *arena, const char *text, kn_columns *columns, kn_error *error);
/* Looks the columns up in a table's first line. Inputs must be there, the target need not. */
kn_status kn_columns_match(const char *name, const kn_csv *table, kn_columns *columns, kn_error *error);

/* How many numbers an input becomes; all of them. */
size_t kn_column_width(const kn_column *column);
size_t kn_columns_width(const kn_columns *columns);
/* One row's numbers: x (kn_columns_width). */
kn_status kn_columns_row(const char *name, const kn_csv *table, const kn_columns *columns, size_t row,
                         float *x, kn_error *error);
/* The target of a row: a class's number or a standardised number; *there is false where it is missing. */
kn_status kn_columns_target(const char *name, const kn_csv *table, const kn_columns *columns, size_t row,
                            float *number, int32_t *class_number, bool *there, kn_error *error);

#endif
