/* Evaluates a model sample by sample: confusion matrix of a classifier, or error of a regression. */
#ifndef KOINE_COMMAND_EVALUATION_H
#define KOINE_COMMAND_EVALUATION_H

#include "training.h"

enum { EVALUATION_WORST = 24, EVALUATION_PAIRS = 1000, EVALUATION_MATRIX = 1000 };

/* A misclassified sample. */
typedef struct wrong_sample {
    uint64_t index;   /* index in the dataset */
    double loss;      /* -log of the probability of the true class */
    double certainty; /* the probability of the predicted class */
    int32_t truth, predicted;
} wrong_sample;

typedef struct prediction_pair {
    float truth, predicted;
} prediction_pair;

typedef struct evaluation {
    kn_score score;
    int64_t classes; /* 0: not classes */
    int64_t places;  /* predictions per sample */
    /* top-5 accuracy; NaN below six classes */
    double top5;
    uint64_t *truth, *predicted, *right; /* per class */
    uint64_t *matrix; /* [truth][prediction]; NULL for more than EVALUATION_MATRIX classes */
    wrong_sample worst[EVALUATION_WORST]; /* with one prediction per sample: the misclassified samples,
                                         largest loss first */
    int worst_count;
    /* For regression: in the target's original unit, if the data has one. */
    double rmse, mae; /* NaN for classes */
    prediction_pair pairs[EVALUATION_PAIRS];
    size_t pair_count;
} evaluation;

/* Runs all samples through a session of setup_evaluation with `whole`. Reports an error and returns false; in
 * any case the caller frees the result. */
bool evaluate_samples(const training_setup *setup, kn_session *session, const kn_dataset *dataset,
                      int64_t batch, evaluation *metrics);
void evaluation_finish(evaluation *metrics);
/* The largest batch up to this one whose output is small enough for the host. */
int64_t evaluation_batch_most(const training_setup *setup, int64_t batch);

/* Measures of a class; NaN if it has no samples. */
double evaluation_precision(const evaluation *metrics, int64_t class_index);
double evaluation_recall(const evaluation *metrics, int64_t class_index);
double evaluation_f1(const evaluation *metrics, int64_t class_index);
/* "7", or the class name in the data, truncated after a whole character if there is no room. */
const char *evaluation_class(const kn_dataset *dataset, int64_t class_index, char *text, size_t room);

#endif
