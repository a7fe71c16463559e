/* Tables in CSV files as samples: the columns are detected, or given by a trained model. */
#include "data/columns_private.h"

#include <string.h>

typedef struct csv_run {
    kn_arena arena;
    const char *path;
    const kn_source_options *options;
    kn_csv table;
    kn_columns columns;
} csv_run;

/* Number of rows that a thread fills at a time. */
enum { RANGE = 1 << 14 };

/* The numbers of all rows that have a target. */
typedef struct fill_job {
    const csv_run *run;
    bool has_target;
    size_t rows, width;
    /* per range: the number of rows that have a target, then the index of the first sample */
    size_t *first;
    float *x; /* (samples,width) */
    void *y;  /* (samples) of floats or class indices */
} fill_job;

static size_t range_end(const fill_job *job, size_t range) {
    return job->rows - range * RANGE < RANGE ? job->rows : (range + 1) * RANGE;
}

static kn_status count_range(void *user, size_t range, kn_error *error) {
    const fill_job *job = user;
    const kn_csv *table = &job->run->table;
    (void)error;
    for (size_t row = range * RANGE; row < range_end(job, range); row++) {
        const kn_csv_cell target =
            job->has_target ? kn_csv_at(table, row, job->run->columns.target.cell) : table->names[0];
        job->first[range] += !job->has_target || !kn_cell_missing(&target);
    }
    return KN_OK;
}

static kn_status fill_range(void *user, size_t range, kn_error *error) {
    const fill_job *job = user;
    const csv_run *run = job->run;
    size_t sample = job->first[range];
    for (size_t row = range * RANGE; row < range_end(job, range); row++) {
        bool there = true;
        float number = 0;
        int32_t class_number = 0;
        kn_status status = KN_OK;
        if (job->has_target)
            status = kn_columns_target(run->path, &run->table, &run->columns, row, &number, &class_number,
                                       &there, error);
        if (status == KN_OK && there)
            status = kn_columns_row(run->path, &run->table, &run->columns, row, job->x + sample * job->width,
                                    error);
        if (status != KN_OK) return status;
        if (!there) continue;
        if (run->columns.target.kind == KN_COLUMN_CATEGORY)
            ((int32_t *)job->y)[sample++] = class_number;
        else
            ((float *)job->y)[sample++] = number;
    }
    return KN_OK;
}

/* Sets x (rows,width) and y (rows) of the store. */
static kn_status fill_rows(csv_run *run, kn_sample_store *store, fill_job *job, kn_error *error) {
    const size_t ranges = (job->rows + RANGE - 1) / RANGE;
    const uint64_t numbers = (uint64_t)job->rows * job->width + 1;
    if (numbers > SIZE_MAX / sizeof(float))
        return kn_fail_memory_for(error, "the numbers of the table", numbers, sizeof(float));
    float *x = job->x = store->blocks[0] = kn_allocate(&store->host, (size_t)numbers, sizeof *x);
    job->y = store->blocks[1] = kn_allocate(&store->host, job->rows + 1, sizeof(float));
    job->first = kn_arena_take(&run->arena, ranges + 1, sizeof *job->first);
    if (!x || !job->y || !job->first) return kn_fail_memory(error, (size_t)numbers * sizeof *x);
    kn_status status = kn_in_parallel(&store->host, ranges, count_range, job, error);
    for (size_t i = 0; i < ranges; i++) {
        const size_t own = job->first[i];
        job->first[i] = (size_t)store->count;
        store->count += own;
    }
    return status == KN_OK ? kn_in_parallel(&store->host, ranges, fill_range, job, error) : status;
}

/* Makes samples of all rows that have a target. */
static kn_status fill(csv_run *run, kn_sample_store *store, kn_error *error) {
    const kn_columns *columns = &run->columns;
    const bool classes = columns->target.kind == KN_COLUMN_CATEGORY;
    fill_job job = {.run = run,
                    .rows = run->table.rows,
                    .width = kn_columns_width(columns),
                    .has_target = columns->target.cell != SIZE_MAX && !run->options->inputs_only};
    if (job.rows > UINT32_MAX)
        return kn_fail(error, KN_ERROR_UNSUPPORTED, "%s: %zu rows; at most 4294967295 are supported",
                       run->path, job.rows);
    if (job.rows > run->options->max_samples) job.rows = (size_t)run->options->max_samples;
    kn_status status = fill_rows(run, store, &job, error);
    if (status != KN_OK) return status;
    if (store->count == 0)
        return kn_fail(error, KN_ERROR_SHAPE, "%s has no rows%s", run->path,
                       job.rows ? " that have a target" : "");
    const kn_tensor_info x_info = {KN_FLOAT32, 1, {(int64_t)job.width}};
    const kn_tensor_info y_info = {classes ? KN_INT32 : KN_FLOAT32, classes ? 0 : 1, {1}};
    kn_sample_field *field;
    status = kn_sample_store_add(store, "x", &x_info, KN_FLOAT32, 1, &field, error);
    if (status == KN_OK) field->bytes = store->blocks[0];
    if (status == KN_OK && classes)
        status =
            kn_sample_store_name_classes(store, columns->target.values, columns->target.value_count, error);
    if (status != KN_OK || !job.has_target) return status;
    status = kn_sample_store_add(store, "y", &y_info, y_info.dtype, 1, &field, error);
    if (status != KN_OK) return status;
    field->bytes = job.y;
    field->is_label = classes;
    return KN_OK;
}

static kn_status read_table(csv_run *run, const kn_column_options *wanted, kn_sample_store *store,
                            kn_error *error) {
    kn_file_view view;
    kn_status status = kn_file_open_view(&store->host, run->path, &view, error);
    if (status != KN_OK) return status;
    const char *given = run->options->columns;
    status = kn_csv_read(&run->arena, run->path, view.bytes, view.count, &run->table, error);
    if (status == KN_OK && given) {
        status = kn_columns_read(&run->arena, given, &run->columns, error);
        if (status == KN_OK) status = kn_columns_match(run->path, &run->table, &run->columns, error);
        if (status == KN_OK && wanted->target && strcmp(wanted->target, run->columns.target.name) != 0)
            status = kn_fail(error, KN_ERROR_ARGUMENT,
                             "%s: the target is \"%s\", but the model was trained on the target \"%s\"",
                             run->path, wanted->target, run->columns.target.name);
    } else if (status == KN_OK) {
        status = kn_columns_find(&run->arena, run->path, &run->table, wanted, &run->columns, error);
    }
    if (status == KN_OK) status = fill(run, store, error);
    if (status == KN_OK) {
        const kn_column *target = &run->columns.target;
        store->columns = kn_columns_text(&store->host, &run->columns);
        store->unit_mean = target->mean;
        store->unit_deviation = target->kind == KN_COLUMN_NUMBER ? target->deviation : 0;
        store->target = kn_copy_text(&store->host, target->name);
        store->about = kn_columns_about(&store->host, &run->columns, run->table.rows, (size_t)store->count);
        if (!store->columns || !store->target || !store->about)
            status = kn_fail_memory(error, run->columns.count * sizeof(kn_column));
    }
    kn_file_close_view(&store->host, &view);
    return status;
}

static kn_status open_csv(kn_dataset *dataset, const char *rest, const kn_source_options *options) {
    char *path = NULL, *target = NULL, *without = NULL;
    kn_column_options wanted = {0};
    kn_error *error = &dataset->error;
    const kn_spec_option known[] = {{"target", KN_SPEC_TEXT, &target},
                                    {"without", KN_SPEC_LIST, &without},
                                    {"classes", KN_SPEC_FLAG, &wanted.classes},
                                    {"number", KN_SPEC_FLAG, &wanted.number}};
    kn_status status = kn_spec_read(&dataset->host, "csv", rest, &path, known, KN_COUNT_OF(known), error);
    wanted.target = target;
    wanted.without = without;
    if (status == KN_OK && wanted.classes && wanted.number)
        status = kn_fail(error, KN_ERROR_ARGUMENT,
                         "data \"csv%s\": expected either classes or number, not both", rest);
    if (status == KN_OK && !path)
        status = kn_fail(error, KN_ERROR_ARGUMENT, "data \"csv%s\": expected csv:FILE,target=COLUMN", rest);
    kn_sample_store *store = status == KN_OK ? kn_sample_store_create(&dataset->host, error) : NULL;
    if (store) {
        csv_run run = {.path = path, .options = options};
        kn_arena_init(&run.arena, &dataset->host);
        status = read_table(&run, &wanted, store, error);
        kn_arena_finish(&run.arena);
        if (status != KN_OK)
            kn_sample_store_leave(store);
        else
            dataset->store = store;
    }
    kn_release(&dataset->host, path);
    kn_release(&dataset->host, target);
    kn_release(&dataset->host, without);
    return error->status;
}

const kn_source_row kn_data_source_csv = {
    .name = "csv",
    .usage = "csv:FILE,target=COLUMN[,without=COLUMN,COLUMN][,classes|number]",
    .text = "a table with column names in the first line: numbers and dates are standardised, categories\n"
            "and missing values are one-hot; the target is a number, or classes if it is text or counts\n"
            "from 0 or 1",
    .open = open_csv};
