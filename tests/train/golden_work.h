/* One worker's training of a golden trajectory, and its results: the same bits for any number of workers. It
 * does not fail a test itself, so that it may run in any thread. */
#ifndef KN_TRAIN_GOLDEN_WORK_H
#define KN_TRAIN_GOLDEN_WORK_H

#include "golden_files.h"

enum { GOLDEN_MOST_STEPS = 64 };
typedef struct golden_work {
    golden *file;
    golden_setup setup; /* the worker opens a context if it has none */
    kn_status status;
    char error[400];
    double losses[GOLDEN_MOST_STEPS];
    uint64_t bits; /* of all states at the end */
} golden_work;

void golden_work_do(golden_work *own);
/* Whether both have found the same. */
bool golden_work_equal(const golden_work *a, const golden_work *b);

#endif
