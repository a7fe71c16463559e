/* Rows of tables in, and results as tables out, for koine infer. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "infer_table.h"

bool table_is(const char *path) {
    size_t length = strlen(path);
    return !strcmp(path, "-") || (length > 4 && !strcmp(path + length - 4, ".csv"));
}

kn_dataset *table_open(const char *path, const kn_model *model, kn_tensor_info *info, char **data) {
    kn_dataset_params params;
    kn_field field = {.name = NULL};
    char spec[4200];
    kn_dataset_params_init(&params);
    params.columns = kn_model_metadata(model, "data.columns");
    params.inputs_only = true;
    if (!params.columns) {
        command_fail("'%s' is a table, and the model '%s' was not trained on one: expected a file of arrays, X.npy", path,
                     kn_model_name(model));
        return NULL;
    }
    snprintf(spec, sizeof spec, "csv:%s", path);
    kn_dataset *table = kn_dataset_open(&params, spec);
    bool fine = kn_dataset_status(table) == KN_OK;
    if (!fine) command_fail("%s", table ? kn_dataset_error(table) : "out of memory");
    uint64_t rows = kn_dataset_count(table);
    if (fine && kn_dataset_field(table, 0, &field)) {
        *info = (kn_tensor_info){field.info.dtype, 2, {(int64_t)rows, field.info.shape[0]}};
        *data = malloc((size_t)rows * field.bytes + 1);
        fine = *data && kn_dataset_read(table, NULL, rows, 0, *data, (size_t)rows * field.bytes) == KN_OK;
        if (!fine) command_fail("out of memory for %llu rows", (unsigned long long)rows);
    }
    if (fine) return table;
    kn_dataset_destroy(&table);
    return NULL;
}

/* Quoted where it must be. */
static void write_text(FILE *file, const char *text) {
    if (!strpbrk(text, ",\"\n\r")) {
        fputs(text, file);
        return;
    }
    fputc('"', file);
    for (; *text; text++)
        fprintf(file, *text == '"' ? "\"\"" : "%c", *text);
    fputc('"', file);
}

/* The likeliest of `count` classes by their logits, and its probability. */
static int likeliest(const float *logits, int64_t count, double *probability) {
    int best = 0;
    double sum = 0;
    for (int64_t i = 1; i < count; i++)
        if (logits[i] > logits[best]) best = (int)i;
    for (int64_t i = 0; i < count; i++)
        sum += exp((double)logits[i] - (double)logits[best]);
    *probability = 1 / sum;
    return best;
}

static void write_rows(FILE *file, const kn_dataset *input, const float *results, int64_t samples, int64_t width) {
    kn_table_target target = {.size = sizeof target};
    bool known = kn_dataset_target(input, &target);
    bool classes = known && !(target.deviation > 0) && kn_dataset_class_name(input, (int)width - 1) &&
                   !kn_dataset_class_name(input, (int)width);
    bool number = known && target.deviation > 0 && width == 1;
    if (classes || number) {
        write_text(file, target.name);
        fputs(classes ? ",probability\n" : "\n", file);
    } else {
        for (int64_t j = 0; j < width; j++)
            fprintf(file, "%sy%lld", j ? "," : "", (long long)j);
        fputc('\n', file);
    }
    for (int64_t i = 0; i < samples; i++, results += width) {
        double probability;
        if (classes) {
            write_text(file, kn_dataset_class_name(input, likeliest(results, width, &probability)));
            fprintf(file, ",%.4f\n", probability);
        } else if (number) {
            fprintf(file, "%.9g\n", (double)(float)((double)results[0] * target.deviation + target.mean));
        } else {
            for (int64_t j = 0; j < width; j++)
                fprintf(file, "%s%.9g", j ? "," : "", (double)results[j]);
            fputc('\n', file);
        }
    }
}

bool table_write(const char *path, const kn_dataset *input, const float *results, int64_t samples, int64_t width) {
    if (!strcmp(path, "-")) {
        write_rows(stdout, input, results, samples, width);
        return fflush(stdout) == 0 || command_fail("the results could not be written") == EXIT_DONE;
    }
    char whole[4200];
    snprintf(whole, sizeof whole, "%s.part", path);
    FILE *file = fopen(whole, "w");
    if (file) {
        write_rows(file, input, results, samples, width);
        bool failed = ferror(file) != 0;
        if (fclose(file) == 0 && !failed && rename(whole, path) == 0) return true;
        remove(whole);
    }
    return command_fail("'%s' could not be written", path) == EXIT_DONE;
}
