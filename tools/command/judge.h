/* Judging a model sample by sample: which classes it takes for which, how far its numbers are off. */
#ifndef KOINE_COMMAND_JUDGE_H
#define KOINE_COMMAND_JUDGE_H

#include "training.h"

enum { JUDGE_WORST = 24, JUDGE_PAIRS = 1000, JUDGE_MATRIX = 1000 };

/* A sample that was judged wrongly. */
typedef struct judged_sample {
    uint64_t index;   /* in the data set */
    double loss;      /* -log of the share that the model gave to the truth */
    double certainty; /* the share that it gave to what it said */
    int32_t truth, said;
} judged_sample;

typedef struct judged_pair {
    float truth, said;
} judged_pair;

typedef struct judgement {
    kn_score score;
    int64_t classes; /* 0: no classes */
    int64_t places;  /* answers of each sample */
    double top5;     /* share of answers whose truth is among the five likeliest; NaN below six classes */
    uint64_t *truth, *said, *right;   /* of each class */
    uint64_t *matrix;                 /* [truth][said]; NULL for more than JUDGE_MATRIX classes */
    judged_sample worst[JUDGE_WORST]; /* with one answer a sample: the largest loss first */
    int worst_count;
    /* Of numbers: in the target's own unit, where the data has one. */
    double rmse, mae; /* NaN for classes */
    judged_pair pairs[JUDGE_PAIRS];
    size_t pair_count;
} judgement;

/* Runs all samples through a session of setup_judge with `whole`. Says what is wrong and answers false; what
 * it filled in is the caller's to finish in any case. */
bool judge_samples(const training_setup *setup, kn_session *session, const kn_dataset *dataset, int64_t batch,
                   judgement *judged);
void judge_finish(judgement *judged);
/* The largest batch up to this one whose output is no burden to the host. */
int64_t judge_batch_most(const training_setup *setup, int64_t batch);

/* Shares of a class; NaN where nothing is of it. */
double judge_precision(const judgement *judged, int64_t class_index);
double judge_recall(const judgement *judged, int64_t class_index);
double judge_f1(const judgement *judged, int64_t class_index);
/* "7", or the name that the data has for it, as far as there is room for whole letters. */
const char *judge_class(const kn_dataset *dataset, int64_t class_index, char *text, size_t room);

#endif
