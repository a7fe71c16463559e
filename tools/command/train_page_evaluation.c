/* The evaluation part of the report: confusion, worst samples, numbers, inputs, and text. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train_page.h"

enum { MATRIX_SHOWN = 30, PICTURE_SIDE = 96, INPUTS_SHOWN = 24, INPUT_SAMPLES = 2048, TOKENS = 200 };

/* ---- classes ------------------------------------------------------------------------------------------ */

static void matrix(FILE *file, const kn_dataset *dataset, const evaluation *metrics) {
    char name[80];
    if (!metrics->matrix || metrics->classes > MATRIX_SHOWN) return;
    fputs("<h2>Confusion matrix</h2>\n<p>Rows are true classes, columns predicted classes.</p>\n"
          "<div class=\"wide\"><table id=\"confusion\"><tr><th>true class</th>",
          file);
    for (int64_t c = 0; c < metrics->classes; c++) {
        fputs("<th>", file);
        html_text(file, evaluation_class(dataset, c, name, sizeof name));
        fputs("</th>", file);
    }
    fputs("<th>recall</th></tr>\n", file);
    for (int64_t row = 0; row < metrics->classes; row++) {
        fputs("<tr><th>", file);
        html_text(file, evaluation_class(dataset, row, name, sizeof name));
        fputs("</th>", file);
        for (int64_t c = 0; c < metrics->classes; c++) {
            uint64_t times = metrics->matrix[row * metrics->classes + c];
            double share = metrics->truth[row] ? (double)times / (double)metrics->truth[row] : 0;
            fprintf(file, "<td style=\"background:rgba(%s,%.3f)\">%llu</td>",
                    row == c ? "42,140,74" : "210,96,26", row == c ? 0.7 * share : fmin(0.9, 4 * share),
                    (unsigned long long)times);
        }
        fprintf(file, "<td>%.1f%%</td></tr>\n",
                metrics->truth[row] ? 100 * evaluation_recall(metrics, row) : 0.0);
    }
    fputs("</table></div>\n", file);
}

/* x is (C,H,W): as an image from black for the smallest to white for the largest element; large images are
 * subsampled. */
static bool picture(FILE *file, const float *x, const int64_t shape[3]) {
    int channels = (int)shape[0], skip = 1;
    float low = INFINITY, high = -INFINITY;
    int64_t plane = shape[1] * shape[2];
    while (shape[1] / skip > PICTURE_SIDE || shape[2] / skip > PICTURE_SIDE)
        skip++;
    int height = (int)(shape[1] / skip), width = (int)(shape[2] / skip);
    if (height < 1 || width < 1) return true;
    uint8_t *pixels = malloc((size_t)height * (size_t)width * (size_t)channels);
    if (!pixels) return false;
    for (int64_t i = 0; i < channels * plane; i++)
        if (isfinite(x[i])) {
            low = fminf(low, x[i]);
            high = fmaxf(high, x[i]);
        }
    for (int c = 0; c < channels; c++)
        for (int row = 0; row < height; row++)
            for (int column = 0; column < width; column++) {
                float number = x[c * plane + (int64_t)row * skip * shape[2] + (int64_t)column * skip];
                float share = high > low && isfinite(number) ? (number - low) / (high - low) : 0;
                pixels[(row * width + column) * channels + c] = (uint8_t)(255 * share + 0.5f);
            }
    fputs("<img alt=\"\" src=\"", file);
    bool made = html_picture(file, width, height, channels, pixels);
    fputs("\">", file);
    free(pixels);
    return made;
}

static bool worst(FILE *file, const training_setup *setup, const kn_dataset *dataset,
                  const evaluation *metrics) {
    kn_dataset_field field = KN_DATASET_FIELD_DEFAULTS;
    size_t index;
    char name[80];
    if (!metrics->worst_count ||
        !kn_dataset_find_field(dataset, kn_value_field(kn_model_input_at(setup->model, 0)), &index) ||
        !kn_dataset_field_at(dataset, index, &field))
        return true;
    bool drawn = field.info.dtype == KN_FLOAT32 && field.info.rank == 3 &&
                 (field.info.shape[0] == 1 || field.info.shape[0] == 3);
    float *x = drawn ? malloc(field.bytes) : NULL;
    bool fine = x || !drawn;
    fputs("<h2>Samples with the highest loss</h2>\n<div "
          "class=\"samples\">\n",
          file);
    for (int i = 0; i < metrics->worst_count; i++) {
        const wrong_sample *one = &metrics->worst[i];
        fputs("<figure class=\"worst\">", file);
        if (x && kn_dataset_read(dataset, &one->index, 1, index, x, field.bytes, NULL, 0) == KN_OK)
            fine = picture(file, x, field.info.shape) && fine;
        else
            fine = fine && !x;
        fputs("<figcaption>true: ", file);
        html_text(file, evaluation_class(dataset, one->truth, name, sizeof name));
        fputs(", predicted: ", file);
        html_text(file, evaluation_class(dataset, one->predicted, name, sizeof name));
        fprintf(file, " (%.0f%%), sample %llu</figcaption></figure>\n", 100 * one->certainty,
                (unsigned long long)one->index);
    }
    fputs("</div>\n", file);
    free(x);
    return fine || page_fail();
}

bool page_evaluation(FILE *file, const training_setup *setup, const kn_dataset *dataset,
                     const evaluation *metrics) {
    if (metrics->classes && !kn_dataset_vocabulary(dataset)) {
        if (isfinite(metrics->top5)) fprintf(file, "<p>Top-5 accuracy: %.2f%%.</p>\n", 100 * metrics->top5);
        matrix(file, dataset, metrics);
        if (!worst(file, setup, dataset, metrics)) return false;
    }
    if (!metrics->pair_count) return true;
    svg_point *points = malloc(metrics->pair_count * sizeof *points);
    if (!points) return page_fail();
    for (size_t i = 0; i < metrics->pair_count; i++)
        points[i] = (svg_point){metrics->pairs[i].truth, metrics->pairs[i].predicted};
    fprintf(file,
            "<h2>Predicted and true values</h2>\n<p>Root mean squared error %.4g, mean absolute error "
            "%.4g.</p>\n",
            metrics->rmse, metrics->mae);
    svg_dots(file, "Predicted and true values", "true", "predicted", points, metrics->pair_count);
    free(points);
    return true;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* The name of an input; the wind dataset does not provide names, so they are listed here. */
static const char *input_name(const char *data, int64_t input, char *text, size_t room) {
    static const char *const wind[] = {"pressure", "altitude", "temperature", "day of the year"};
    if (!strncmp(data, "wind", 4) && (!data[4] || data[4] == ':') && input < 8)
        snprintf(text, room, "%s%s", wind[input % 4], input < 4 ? "" : " missing");
    else
        snprintf(text, room, "input %lld", (long long)input);
    return text;
}

typedef struct input_rank {
    char name[40];
    double worse;
} input_rank;

static int worse_first(const void *left, const void *right) {
    double a = ((const input_rank *)left)->worse, b = ((const input_rank *)right)->worse;
    return (a < b) - (a > b);
}

/* The loss of x (count,width) and y. */
static kn_status loss_of(const training_setup *setup, kn_session *session, const kn_dataset_array arrays[2],
                         uint64_t count, uint64_t batch, double *loss) {
    kn_score score = {.size = sizeof score};
    kn_dataset *dataset =
        kn_dataset_create_from_arrays(count, arrays, 2, kn_dataset_classes(setup->all), NULL);
    kn_status status = kn_evaluate(session, dataset, batch, setup->loss_name, NULL, &score);
    kn_dataset_destroy(&dataset);
    *loss = score.loss;
    return status;
}

static void shuffle_column(float *x, uint64_t count, int64_t width, int64_t column) {
    uint64_t state = 88172645463325252u;
    for (uint64_t i = count - 1; i > 0; i--) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint64_t other = (state >> 33) % (i + 1);
        float kept = x[i * (uint64_t)width + (uint64_t)column];
        x[i * (uint64_t)width + (uint64_t)column] = x[other * (uint64_t)width + (uint64_t)column];
        x[other * (uint64_t)width + (uint64_t)column] = kept;
    }
}

bool page_inputs(FILE *file, const training_setup *setup, const char *data, const kn_dataset *dataset,
                 kn_session *session, uint64_t batch) {
    kn_dataset_field x = KN_DATASET_FIELD_DEFAULTS, y = KN_DATASET_FIELD_DEFAULTS;
    size_t x_at, y_at;
    if (!kn_dataset_find_field(dataset, kn_value_field(kn_model_input_at(setup->model, 0)), &x_at) ||
        !kn_dataset_field_at(dataset, x_at, &x) ||
        !kn_dataset_find_field(dataset, kn_value_name(setup->loss.target), &y_at) ||
        !kn_dataset_field_at(dataset, y_at, &y) || kn_model_input_count(setup->model) != 1 ||
        x.info.dtype != KN_FLOAT32 || x.info.rank != 1 || x.info.shape[0] < 2 || x.info.shape[0] > 256)
        return true;
    uint64_t count = kn_dataset_count(dataset);
    int64_t width = x.info.shape[0];
    if (count > INPUT_SAMPLES) count = INPUT_SAMPLES;
    float *numbers = malloc(x.bytes * count), *kept = malloc(x.bytes * count);
    void *truth = malloc(y.bytes * count);
    input_rank *ranks = calloc((size_t)width, sizeof *ranks);
    bool fine = numbers && kept && truth && ranks &&
                kn_dataset_read(dataset, NULL, count, x_at, numbers, x.bytes * count, NULL, 0) == KN_OK &&
                kn_dataset_read(dataset, NULL, count, y_at, truth, y.bytes * count, NULL, 0) == KN_OK;
    const kn_dataset_array arrays[2] = {
        {.name = x.name, .info = x.info, .data = numbers, .bytes = x.bytes * count, .as = x.info.dtype},
        {.name = y.name, .info = y.info, .data = truth, .bytes = y.bytes * count, .as = y.info.dtype}};
    double base = NAN, loss = NAN;
    fine = fine && (count < 2 || loss_of(setup, session, arrays, count, batch, &base) == KN_OK);
    for (int64_t i = 0; fine && isfinite(base) && i < width; i++) {
        progress_line("shuffling input %lld of %lld", (long long)(i + 1), (long long)width);
        memcpy(kept, numbers, x.bytes * count);
        shuffle_column(numbers, count, width, i);
        fine = loss_of(setup, session, arrays, count, batch, &loss) == KN_OK;
        ranks[i].worse = loss - base;
        memcpy(numbers, kept, x.bytes * count);
        input_name(data, i, ranks[i].name, sizeof ranks[i].name);
    }
    if (fine && isfinite(base)) {
        const char *names[INPUTS_SHOWN];
        double worse[INPUTS_SHOWN];
        int shown = 0;
        qsort(ranks, (size_t)width, sizeof *ranks, worse_first);
        for (; shown < INPUTS_SHOWN && shown < width; shown++) {
            names[shown] = ranks[shown].name;
            worse[shown] = ranks[shown].worse;
        }
        fprintf(
            file,
            "<h2>Importance of inputs</h2>\n<p>Increase of the loss (%.4g on %llu samples) when one input "
            "is shuffled among the samples.</p>\n",
            base, (unsigned long long)count);
        svg_bars(file, "Increase of the loss", names, worse, shown, "");
    }
    free(numbers);
    free(kept);
    free(truth);
    free(ranks);
    return fine || page_fail();
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Samples from the logits of a position at a temperature of 0.8. */
static int32_t draw(const float *logits, int64_t classes, uint64_t *state) {
    double most = -INFINITY, sum = 0;
    for (int64_t c = 0; c < classes; c++)
        most = fmax(most, logits[c]);
    for (int64_t c = 0; c < classes; c++)
        sum += exp((logits[c] - most) / 0.8);
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    double left = (double)(*state >> 11) * 0x1p-53 * sum;
    for (int64_t c = 0; c < classes; c++)
        if ((left -= exp((logits[c] - most) / 0.8)) < 0) return (int32_t)c;
    return (int32_t)(classes - 1);
}

/* A token by its id: from the UTF-8 vocabulary, or a byte. */
static void write_token(FILE *file, const char *vocabulary, int32_t token) {
    char text[8] = "";
    const char *at = vocabulary;
    if (!vocabulary[0]) {
        text[0] = token >= 0x20 && token < 0x7f ? (char)token : token == '\n' ? '\n' : '?';
    } else {
        while (*at && token-- > 0)
            do
                at++;
            while (((unsigned char)*at & 0xc0) == 0x80);
        int used = 0;
        while (*at && (used == 0 || ((unsigned char)*at & 0xc0) == 0x80) && used < 4)
            text[used++] = *at++;
    }
    html_text(file, text);
}

bool page_writes(FILE *file, const training_setup *setup, const kn_dataset *dataset, kn_session *session) {
    const char *vocabulary = kn_dataset_vocabulary(dataset);
    kn_value *output = kn_model_output_at(setup->model, 0);
    kn_dataset_field x = KN_DATASET_FIELD_DEFAULTS, y = KN_DATASET_FIELD_DEFAULTS;
    size_t x_at, y_at;
    if (!vocabulary || kn_model_input_count(setup->model) != 1 ||
        !kn_dataset_find_field(dataset, kn_value_field(kn_model_input_at(setup->model, 0)), &x_at) ||
        !kn_dataset_field_at(dataset, x_at, &x) ||
        !kn_dataset_find_field(dataset, kn_value_name(setup->loss.target), &y_at) ||
        !kn_dataset_field_at(dataset, y_at, &y) || x.info.dtype != KN_INT32 || x.info.rank != 1 ||
        y.info.rank != 1 || kn_value_rank(output) != 3 || kn_value_dtype(output) != KN_FLOAT32)
        return true;
    int64_t window = x.info.shape[0], classes = kn_value_dimension(output, 2);
    if (classes < 1 || window < 2 || kn_value_dimension(output, 1) != window) return true;
    int32_t *tokens = malloc(x.bytes), *truth = calloc(1, y.bytes);
    size_t bytes = (size_t)(window * classes) * sizeof(float);
    float *logits = malloc(bytes);
    int64_t used = window / 4 < 16 ? window / 4 + 1 : 16;
    uint64_t state = 1;
    double begin = clock_now();
    bool fine = tokens && truth && logits &&
                kn_dataset_read(dataset, NULL, 1, x_at, tokens, x.bytes, NULL, 0) == KN_OK;
    if (fine) {
        fputs("<h2>Generated text</h2>\n<p>The beginning in bold is from the data.</p>\n<pre "
              "id=\"written\"><b>",
              file);
        for (int64_t i = 0; i < used; i++)
            write_token(file, vocabulary, tokens[i]);
        fputs("</b>", file);
        const kn_feed feeds[2] = {{x.name, tokens, x.bytes}, {y.name, truth, y.bytes}};
        kn_fetch fetch = {kn_value_name(output), logits, bytes};
        for (int i = 0; i < TOKENS && clock_now() - begin < 10; i++) {
            kn_status status = kn_session_bind(session, "batch", 1);
            if (status == KN_OK) status = kn_session_run(session, feeds, 2, &fetch, 1);
            if (status != KN_OK) fine = session_fail(session, status);
            if (!fine) break;
            int32_t next = draw(logits + (used - 1) * classes, classes, &state);
            write_token(file, vocabulary, next);
            if (used == window)
                memmove(tokens, tokens + 1, (size_t)(window - 1) * sizeof *tokens);
            else
                used++;
            tokens[used - 1] = next;
        }
        fputs("</pre>\n", file);
    }
    free(tokens);
    free(truth);
    free(logits);
    return fine || page_fail();
}
