/* Evaluates a model sample by sample. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "batch.h"
#include "evaluation.h"

typedef struct evaluation_work {
    evaluation *metrics;
    float *output; /* a batch of logits (count,places,classes), or numbers (count,places) */
    size_t row;    /* elements per sample */
    size_t target; /* index of the feed with the target */
    double squares, distances;
    uint64_t counted; /* number of samples, or of targets that the loss does not ignore */
    uint64_t answers, in_top5, numbers, every;
    double mean, deviation; /* in the target's original unit */
} evaluation_work;

/* ---- classes ---------------------------------------------------------------------------------------- */

static void remember_worst(evaluation *metrics, const wrong_sample *sample) {
    int at = metrics->worst_count;
    while (at > 0 && sample->loss > metrics->worst[at - 1].loss)
        at--;
    if (at == EVALUATION_WORST) return;
    if (metrics->worst_count < EVALUATION_WORST) metrics->worst_count++;
    memmove(&metrics->worst[at + 1], &metrics->worst[at],
            (size_t)(metrics->worst_count - 1 - at) * sizeof *sample);
    metrics->worst[at] = *sample;
}

/* Adds one prediction: `logits` are (classes). */
static void evaluate_answer(evaluation_work *work, const float *logits, int32_t truth, uint64_t sample) {
    evaluation *metrics = work->metrics;
    int64_t predicted = 0, likelier = 0;
    double sum = 0;
    if (truth < 0 || truth >= metrics->classes) return; /* not counted */
    for (int64_t c = 1; c < metrics->classes; c++)
        if (logits[c] > logits[predicted]) predicted = c;
    for (int64_t c = 0; c < metrics->classes; c++) {
        likelier += logits[c] > logits[truth] || (logits[c] == logits[truth] && c < truth);
        sum += exp((double)logits[c] - (double)logits[predicted]);
    }
    work->answers++;
    work->in_top5 += likelier < 5;
    metrics->truth[truth]++;
    metrics->predicted[predicted]++;
    metrics->right[truth] += predicted == truth;
    if (metrics->matrix) metrics->matrix[truth * metrics->classes + predicted]++;
    if (predicted == truth || metrics->places != 1) return;
    wrong_sample one = {sample, log(sum) + (double)logits[predicted] - (double)logits[truth], 1 / sum, truth,
                        (int32_t)predicted};
    remember_worst(metrics, &one);
}

static bool counts(const kn_model_loss *loss, int32_t truth) {
    return !loss->has_ignore_index || truth != loss->ignore_index;
}

static void evaluate_classes(evaluation_work *work, const kn_model_loss *loss, const kn_batch *batch,
                             const int32_t *truth) {
    const evaluation *metrics = work->metrics;
    for (uint64_t i = 0; i < batch->count; i++)
        for (int64_t p = 0; p < metrics->places; p++, truth++)
            if (counts(loss, *truth))
                evaluate_answer(work, work->output + i * work->row + (size_t)(p * metrics->classes), *truth,
                                batch->samples[i]);
}

/* The divisor of the means over a batch. */
static uint64_t counted_of(const kn_model_loss *loss, const kn_batch *batch) {
    uint64_t counted = 0;
    if (!loss->has_ignore_index) return batch->count;
    for (size_t f = 0; f < batch->feed_count; f++) {
        const kn_feed *feed = &batch->feeds[f];
        const int32_t *truth = feed->data;
        if (strcmp(feed->name, kn_value_name(loss->target)) != 0) continue;
        for (size_t i = 0; i < feed->bytes / sizeof *truth; i++)
            counted += counts(loss, truth[i]);
    }
    return counted;
}

/* ---- numbers ------------------------------------------------------------------------------------------ */

/* Element i of a float32 feed, which may be bytes with a scale. */
static float number_at(const kn_feed *feed, size_t i) {
    return feed->scale != 0 ? (float)feed->scale * (float)((const uint8_t *)feed->data)[i]
                            : ((const float *)feed->data)[i];
}

static void evaluate_numbers(evaluation_work *work, const kn_batch *batch, const kn_feed *target) {
    evaluation *metrics = work->metrics;
    for (size_t i = 0; i < batch->count * work->row; i++) {
        const float truth = number_at(target, i);
        double away = ((double)work->output[i] - (double)truth) * work->deviation;
        work->squares += away * away;
        work->distances += fabs(away);
        if (work->numbers++ % work->every || metrics->pair_count == EVALUATION_PAIRS) continue;
        metrics->pairs[metrics->pair_count++] =
            (prediction_pair){(float)(truth * work->deviation + work->mean),
                              (float)(work->output[i] * work->deviation + work->mean)};
    }
}

/* ---- evaluation ----------------------------------------------------------------------------- */

/* Finds the output and the target; classes and places stay 0 if there is nothing to compare. */
static bool prepare(const training_setup *setup, kn_session *session, const kn_dataset *dataset,
                    int64_t batch, evaluation_work *work) {
    evaluation *metrics = work->metrics;
    const kn_value *output = kn_model_output_at(setup->model, 0);
    kn_plan_info plan = {.size = sizeof plan};
    kn_tensor_info whole;
    kn_dataset_field field = KN_DATASET_FIELD_DEFAULTS;
    kn_feed feeds[SETUP_FIELDS];
    uint64_t numbers = 0, wanted = 0;
    kn_table_target unit = {.size = sizeof unit};
    work->deviation = 1;
    if (!setup_has_output(setup)) return true;
    if (kn_dataset_target(setup->all, &unit) && unit.deviation > 0) {
        work->deviation = unit.deviation;
        work->mean = unit.mean;
    }
    size_t feed_count = setup_sizes(setup, batch, true, feeds);
    kn_status status = batch_plan_session(session, batch, feeds, feed_count, &plan);
    if (status == KN_OK) status = kn_session_info(session, kn_value_name(output), &whole);
    if (status != KN_OK) return session_fail(session, status);
    if (!kn_dataset_find_field(dataset, kn_value_name(setup->loss.target), &work->target) ||
        !kn_dataset_field_at(dataset, work->target, &field) || whole.dtype != KN_FLOAT32 || whole.rank < 1 ||
        whole.shape[0] != batch || !kn_tensor_elements(&whole, &numbers) ||
        !kn_tensor_elements(&field.info, &wanted) || !wanted)
        return true;
    work->row = (size_t)(numbers / (uint64_t)batch);
    int64_t classes = whole.shape[whole.rank - 1];
    if (field.info.dtype == KN_INT32 && setup->accuracy && classes > 0 &&
        wanted * (uint64_t)classes == work->row) {
        metrics->classes = classes;
        metrics->places = (int64_t)wanted;
        metrics->truth = calloc((size_t)classes, sizeof *metrics->truth);
        metrics->predicted = calloc((size_t)classes, sizeof *metrics->predicted);
        metrics->right = calloc((size_t)classes, sizeof *metrics->right);
        if (classes <= EVALUATION_MATRIX)
            metrics->matrix = calloc((size_t)(classes * classes), sizeof *metrics->matrix);
        if (!metrics->truth || !metrics->predicted || !metrics->right ||
            (classes <= EVALUATION_MATRIX && !metrics->matrix))
            return command_error("out of memory");
    } else if (field.info.dtype == KN_FLOAT32 && wanted == work->row) {
        metrics->places = (int64_t)wanted;
        work->every = (kn_dataset_count(dataset) * wanted + EVALUATION_PAIRS - 1) / EVALUATION_PAIRS;
        if (!work->every) work->every = 1;
    } else {
        return true;
    }
    work->output = malloc(numbers * sizeof(float) + 1);
    return work->output || command_error("out of memory");
}

/* Adds a batch to the sums of the score. */
static kn_status evaluate_batch(const training_setup *setup, kn_session *session, const kn_batch *batch,
                                evaluation_work *work) {
    evaluation *metrics = work->metrics;
    float loss = 0, accuracy = 0;
    kn_fetch fetches[3] = {{setup->loss_name, &loss, sizeof loss}};
    size_t count = 1;
    if (setup->accuracy) fetches[count++] = (kn_fetch){setup->accuracy_name, &accuracy, sizeof accuracy};
    if (work->output)
        fetches[count++] = (kn_fetch){kn_value_name(kn_model_output_at(setup->model, 0)), work->output,
                                      batch->count * work->row * sizeof(float)};
    kn_status status = batch_bind(session, (int64_t)batch->count);
    if (status == KN_OK) status = kn_session_run(session, batch->feeds, batch->feed_count, fetches, count);
    if (status != KN_OK) return status;
    const uint64_t counted = counted_of(&setup->loss, batch);
    if (counted) { /* a mean over no samples is NaN */
        metrics->score.loss += loss * (double)counted;
        metrics->score.accuracy += accuracy * (double)counted;
    }
    work->counted += counted;
    metrics->score.samples += batch->count;
    if (work->output && metrics->classes)
        evaluate_classes(work, &setup->loss, batch, batch->feeds[work->target].data);
    else if (work->output)
        evaluate_numbers(work, batch, &batch->feeds[work->target]);
    return KN_OK;
}

int64_t evaluation_batch_most(const training_setup *setup, int64_t batch) {
    const kn_value *output = kn_model_output_at(setup->model, 0);
    double bytes = sizeof(float);
    for (int d = 1; d < kn_value_rank(output); d++)
        if (kn_value_dimension(output, d) > 0) bytes *= (double)kn_value_dimension(output, d);
    int64_t most = (int64_t)fmax(1, 0x1p28 / bytes);
    return batch < most ? batch : most;
}

bool evaluate_samples(const training_setup *setup, kn_session *session, const kn_dataset *dataset,
                      int64_t batch, evaluation *metrics) {
    *metrics = (evaluation){.score = {.size = sizeof metrics->score}, .top5 = NAN, .rmse = NAN, .mae = NAN};
    evaluation_work work = {.metrics = metrics};
    double begin = clock_now();
    if (!prepare(setup, session, dataset, batch, &work)) return false;
    kn_loader_params params = {
        .size = sizeof params, .batch = (uint64_t)batch, .no_shuffle = true, .bytes = true};
    kn_loader *loader = kn_loader_create(dataset, &params);
    kn_batch piece = {.size = sizeof piece};
    kn_status status = kn_loader_status(loader);
    uint64_t all = kn_dataset_count(dataset);
    while (status == KN_OK) {
        status = kn_loader_next(loader, &piece);
        if (status != KN_OK || !piece.count) break;
        status = evaluate_batch(setup, session, &piece, &work);
        progress_line("evaluated %llu of %llu samples", (unsigned long long)metrics->score.samples,
                      (unsigned long long)all);
    }
    if (status != KN_OK) {
        if (kn_loader_status(loader) != KN_OK)
            command_fail("%s", loader ? kn_loader_error(loader) : "out of memory");
        else
            session_fail(session, status);
    }
    kn_loader_destroy(&loader);
    free(work.output);
    if (status != KN_OK) return false;
    const double counted = (double)work.counted;
    metrics->score.loss = counted > 0 ? metrics->score.loss / counted : NAN;
    metrics->score.accuracy = counted > 0 && setup->accuracy ? metrics->score.accuracy / counted : NAN;
    metrics->score.seconds = clock_now() - begin;
    if (metrics->classes > 5 && work.answers) metrics->top5 = (double)work.in_top5 / (double)work.answers;
    if (work.numbers) {
        metrics->rmse = sqrt(work.squares / (double)work.numbers);
        metrics->mae = work.distances / (double)work.numbers;
    }
    return true;
}

void evaluation_finish(evaluation *metrics) {
    free(metrics->truth);
    free(metrics->predicted);
    free(metrics->right);
    free(metrics->matrix);
    metrics->truth = metrics->predicted = metrics->right = metrics->matrix = NULL;
}

/* ---- queries -------------------------------------------------------------------------------- */

static double share(uint64_t part, uint64_t all) {
    return all ? (double)part / (double)all : NAN;
}

double evaluation_precision(const evaluation *metrics, int64_t class_index) {
    return share(metrics->right[class_index], metrics->predicted[class_index]);
}

double evaluation_recall(const evaluation *metrics, int64_t class_index) {
    return share(metrics->right[class_index], metrics->truth[class_index]);
}

double evaluation_f1(const evaluation *metrics, int64_t class_index) {
    return share(2 * metrics->right[class_index],
                 metrics->truth[class_index] + metrics->predicted[class_index]);
}

const char *evaluation_class(const kn_dataset *dataset, int64_t class_index, char *text, size_t room) {
    const char *name = kn_dataset_class_name(dataset, (int)class_index);
    if (name) {
        size_t bytes = strlen(name);
        if (bytes >= room)
            for (bytes = room - 1; bytes > 0 && ((unsigned char)name[bytes] & 0xc0) == 0x80;)
                bytes--;
        snprintf(text, room, "%.*s", (int)bytes, name);
    } else
        snprintf(text, room, "%lld", (long long)class_index);
    return text;
}
