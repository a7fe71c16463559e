/* Evaluates a model sample by sample: confusion matrix of a classifier, or error of a regression. */
#ifndef KOINE_COMMAND_JUDGE_H
#define KOINE_COMMAND_JUDGE_H

#include "training.h"

enum { JUDGE_WORST = 24, JUDGE_PAIRS = 1000, JUDGE_MATRIX = 1000 };

/* A misclassified sample. */
typedef struct judged_sample {
    uint64_t index;   /* index in the dataset */
    double loss;      /* -log of the probability of the true class */
    double certainty; /* the probability of the predicted class */
    int32_t truth, said;
} judged_sample;

typedef struct judged_pair {
    float truth, said;
} judged_pair;

typedef struct judgement {
    kn_score score;
    int64_t classes; /* 0: not classes */
    int64_t places;  /* predictions per sample */
    /* top-5 accuracy; NaN below six classes */
    double top5;
    uint64_t *truth, *said, *right;   /* per class */
    uint64_t *matrix;                 /* [truth][prediction]; NULL for more than JUDGE_MATRIX classes */
    judged_sample worst[JUDGE_WORST]; /* with one prediction per sample: the misclassified samples, largest
                                         loss first */
    int worst_count;
    /* For regression: in the target's original unit, if the data has one. */
    double rmse, mae; /* NaN for classes */
    judged_pair pairs[JUDGE_PAIRS];
    size_t pair_count;
} judgement;

/* Runs all samples through a session of setup_judge with `whole`. Reports an error and returns false; in any
 * case the caller frees the result. */
bool judge_samples(const training_setup *setup, kn_session *session, const kn_dataset *dataset, int64_t batch,
                   judgement *judged);
void judge_finish(judgement *judged);
/* The largest batch up to this one whose output is small enough for the host. */
int64_t judge_batch_most(const training_setup *setup, int64_t batch);

/* Measures of a class; NaN if it has no samples. */
double judge_precision(const judgement *judged, int64_t class_index);
double judge_recall(const judgement *judged, int64_t class_index);
double judge_f1(const judgement *judged, int64_t class_index);
/* "7", or the class name in the data, truncated after a whole character if there is no room. */
const char *judge_class(const kn_dataset *dataset, int64_t class_index, char *text, size_t room);

#endif
