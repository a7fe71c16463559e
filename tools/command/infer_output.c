/* Writes the results of koine infer as text, JSON lines, a table or an array. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "infer_output.h"
#include "infer_streams.h"

enum { SHOWN_CLASSES = 3, SHOWN_NUMBERS = 16 };

int output_choose(const char *format, const char *path, bool json, output_format *chosen) {
    static const char *const words[] = {"text", "json", "csv", "npy"}; /* in the order of output_format */
    int choice = format ? option_choice("format", format, words, 4) : -1;
    if (format && choice < 0) return EXIT_USAGE;
    if (format)
        *chosen = (output_format)choice;
    else if (!path || !strcmp(path, "-"))
        *chosen = json ? OUTPUT_LINES : path ? OUTPUT_TABLE : OUTPUT_TEXT;
    else
        *chosen = path_ends(path, ".csv", false)                                        ? OUTPUT_TABLE
                  : path_ends(path, ".jsonl", false) || path_ends(path, ".json", false) ? OUTPUT_LINES
                  : path_ends(path, ".txt", false)                                      ? OUTPUT_TEXT
                                                                                        : OUTPUT_ARRAY;
    if (*chosen == OUTPUT_ARRAY && (!path || !strcmp(path, "-")) && isatty(STDOUT_FILENO))
        return command_misuse(
            "refusing to write an array to a terminal: give --output Y.npy, or a different --format");
    return EXIT_DONE;
}

/* ---- interpretation of the numbers -------------------------------------------------------------------- */

typedef struct meaning {
    const infer_results *results;
    int64_t samples, width; /* elements per sample */
    kn_table_target target; /* table column: a number with a unit if `number` */
    bool number;
    char *texts;          /* the names of classes, split */
    const char **classes; /* one per element, or NULL */
    double *chances;      /* probabilities of a sample's classes */
} meaning;

static double number_at(const meaning *of, int64_t sample, int64_t i) {
    const infer_results *results = of->results;
    int64_t place = sample * of->width + i;
    return results->info->dtype == KN_INT32 ? (double)((const int32_t *)results->numbers)[place]
                                            : (double)((const float *)results->numbers)[place];
}

/* Splits the class names of the model's file, one per line. */
static bool take_classes(meaning *of, const char *lines) {
    int64_t count = 1;
    for (const char *at = lines; *at; at++)
        count += *at == '\n';
    if (count != of->width || of->results->info->rank != 2) return true;
    of->texts = malloc(strlen(lines) + 1);
    of->classes = malloc((size_t)count * sizeof *of->classes);
    if (!of->texts || !of->classes) return false;
    strcpy(of->texts, lines);
    char *at = of->texts;
    for (int64_t i = 0; i < count; i++) {
        char *end = at + strcspn(at, "\n");
        of->classes[i] = at;
        at = end + (*end != 0);
        *end = 0;
    }
    return true;
}

static bool meaning_find(meaning *of, const infer_results *results) {
    const kn_tensor_info *info = results->info;
    *of = (meaning){
        .results = results, .samples = info->shape[0], .width = 1, .target = {.size = sizeof of->target}};
    if (info->dtype != KN_FLOAT32 && info->dtype != KN_INT32)
        return command_error("the output '%s' is %s, which only an array, Y.npy, can hold", results->name,
                             kn_dtype_name(info->dtype));
    for (int d = 1; d < info->rank; d++)
        of->width *= info->shape[d];
    bool real = info->dtype == KN_FLOAT32, table = real && kn_dataset_target(results->table, &of->target);
    of->number = table && of->target.deviation > 0 && of->width == 1;
    bool fine = !real || !results->classes || take_classes(of, results->classes);
    if (fine && of->classes) fine = (of->chances = malloc((size_t)of->width * sizeof *of->chances)) != NULL;
    return fine || command_error("out of memory for the names of classes");
}

static void meaning_finish(meaning *of) {
    free(of->texts);
    free(of->classes);
    free(of->chances);
}

/* Computes probabilities from the logits of a sample; returns the most likely class, the first of equals.
 * Nonnegative numbers that sum to 1 are already probabilities: the model ends in a softmax. */
static int classify_sample(meaning *of, int64_t sample) {
    double most = number_at(of, sample, 0), least = most, all = most, sum = 0;
    int best = 0;
    for (int64_t i = 1; i < of->width; i++) {
        const double number = number_at(of, sample, i);
        if (number > most) most = number_at(of, sample, best = (int)i);
        if (number < least) least = number;
        all += number;
    }
    const bool shares = least >= 0 && fabs(all - 1) < 1e-4;
    for (int64_t i = 0; i < of->width; i++)
        sum += of->chances[i] = shares ? number_at(of, sample, i) : exp(number_at(of, sample, i) - most);
    for (int64_t i = 0; i < of->width; i++)
        of->chances[i] /= sum;
    return best;
}

static double in_unit(const meaning *of, int64_t sample) {
    return (double)(float)(number_at(of, sample, 0) * of->target.deviation + of->target.mean);
}

/* ---- text ------------------------------------------------------------------------------------------ */

static void write_text_row(FILE *file, meaning *of, int64_t sample) {
    const char *name = of->results->names[sample];
    if (name)
        fprintf(file, "%s:", name);
    else
        fprintf(file, "%lld:", (long long)sample);
    if (of->number) fprintf(file, " %s %.6g", of->target.name, in_unit(of, sample));
    for (int64_t i = 0; !of->number && !of->classes && i < of->width && i < SHOWN_NUMBERS; i++)
        fprintf(file, " %.6g", number_at(of, sample, i));
    if (!of->number && !of->classes && of->width > SHOWN_NUMBERS)
        fprintf(file, " … (%lld numbers)", (long long)of->width);
    int best = of->classes ? classify_sample(of, sample) : 0;
    for (int shown = 0; of->classes && shown < SHOWN_CLASSES && shown < of->width; shown++) {
        fprintf(file, "%s %s %.1f%%", shown ? "," : "", of->classes[best], 100 * of->chances[best]);
        of->chances[best] = -1;
        for (int i = best = 0; i < of->width; i++)
            if (of->chances[i] > of->chances[best]) best = i;
    }
    fputc('\n', file);
}

/* ---- JSON lines -------------------------------------------------------------------------------------- */

static void write_json_number(FILE *file, const meaning *of, int64_t sample, int64_t i) {
    if (of->results->info->dtype == KN_INT32)
        fprintf(file, "%d", (int)number_at(of, sample, i));
    else
        json_float(file, number_at(of, sample, i));
}

/* Writes nested lists in the shape of a sample. */
static void write_json_numbers(FILE *file, const meaning *of, int64_t sample) {
    const kn_tensor_info *info = of->results->info;
    for (int64_t i = 0; i < of->width; i++) {
        int64_t within = 1;
        if (i) fputs(", ", file);
        for (int d = info->rank - 1; d > 0; d--)
            if (i % (within *= info->shape[d]) == 0) fputc('[', file);
        write_json_number(file, of, sample, i);
        within = 1;
        for (int d = info->rank - 1; d > 0; d--)
            if ((i + 1) % (within *= info->shape[d]) == 0) fputc(']', file);
    }
    if (of->width == 0) fputs("[]", file);
}

static void write_json_row(FILE *file, meaning *of, int64_t sample) {
    const char *name = of->results->names[sample];
    fprintf(file, "{\"sample\": %lld", (long long)sample);
    if (name) json_text_member(file, "file", name);
    if (of->classes) {
        int best = classify_sample(of, sample);
        json_text_member(file, "class", of->classes[best]);
        json_measure_member(file, "probability", of->chances[best]);
    }
    fputs(", ", file);
    json_text(file, of->number ? of->target.name : of->results->name);
    fputs(": ", file);
    if (of->number)
        json_float(file, in_unit(of, sample));
    else
        write_json_numbers(file, of, sample);
    fputs("}\n", file);
}

/* ---- tables ------------------------------------------------------------------------------------------- */

/* Quotes the text if necessary. */
static void write_cell(FILE *file, const char *text) {
    if (!strpbrk(text, ",\"\n\r")) {
        fputs(text, file);
        return;
    }
    fputc('"', file);
    for (; *text; text++)
        fprintf(file, *text == '"' ? "\"\"" : "%c", *text);
    fputc('"', file);
}

/* Whether any sample has a file name. */
static bool has_files(const meaning *of) {
    int64_t i = 0;
    while (i < of->samples && !of->results->names[i])
        i++;
    return i < of->samples;
}

static void write_heading(FILE *file, const meaning *of, bool files) {
    const char *target = of->target.name ? of->target.name : "class";
    if (files) fputs("file,", file);
    if (of->classes || of->number) {
        write_cell(file, target);
        if (of->classes) fputs(",probability", file);
    }
    for (int64_t i = 0; !of->classes && !of->number && i < of->width; i++)
        fprintf(file, "%sy%lld", i ? "," : "", (long long)i);
    fputc('\n', file);
}

static void write_table_row(FILE *file, meaning *of, int64_t sample, bool files) {
    const char *name = of->results->names[sample];
    if (files) {
        if (name) write_cell(file, name);
        fputc(',', file);
    }
    if (of->classes) {
        int best = classify_sample(of, sample);
        write_cell(file, of->classes[best]);
        fprintf(file, ",%.4f", of->chances[best]);
    } else if (of->number) {
        fprintf(file, "%.9g", in_unit(of, sample));
    }
    for (int64_t i = 0; !of->classes && !of->number && i < of->width; i++)
        fprintf(file, "%s%.9g", i ? "," : "", number_at(of, sample, i));
    fputc('\n', file);
}

/* ---- all formats --------------------------------------------------------------------------------------- */

static void write_rows(FILE *file, meaning *of, output_format format) {
    const bool files = format == OUTPUT_TABLE && has_files(of);
    if (format == OUTPUT_TABLE) write_heading(file, of, files);
    for (int64_t i = 0; i < of->samples; i++) {
        if (format == OUTPUT_TEXT)
            write_text_row(file, of, i);
        else if (format == OUTPUT_LINES)
            write_json_row(file, of, i);
        else
            write_table_row(file, of, i, files);
    }
}

static bool write_file(meaning *of, output_format format, const char *path) {
    whole_file file;
    if (!whole_open(&file, path)) return false;
    write_rows(file.stream, of, format);
    return whole_close(&file, true);
}

static bool write_array(const infer_results *results, const char *path) {
    char message[400], kept[STREAM_PATH];
    bool out = !strcmp(path, "-");
    if (out && !stream_file(kept)) return false;
    bool fine = kn_npy_file_save(out ? kept : path, results->info, results->numbers, message,
                                 sizeof message) == KN_OK;
    if (!fine) command_fail("%s", message);
    if (!out) return fine;
    fine = fine && stream_send(kept);
    unlink(kept);
    return fine;
}

bool output_write(const infer_results *results, output_format format, const char *path) {
    meaning of;
    if (format == OUTPUT_ARRAY) return write_array(results, path);
    bool fine = meaning_find(&of, results);
    if (fine && strcmp(path, "-")) {
        fine = write_file(&of, format, path);
    } else if (fine) {
        write_rows(stdout, &of, format);
        fine = (fflush(stdout) == 0 && !ferror(stdout)) || command_error("the results could not be written");
    }
    meaning_finish(&of);
    return fine;
}
