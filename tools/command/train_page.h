/* What the files of `koine train --report` share: a page that holds a whole training. */
#ifndef KOINE_COMMAND_TRAIN_PAGE_H
#define KOINE_COMMAND_TRAIN_PAGE_H

#include "judge.h"
#include "svg.h"
#include "train.h"

enum { PAGE_STEPS = 2048, PAGE_EPOCHS = 1024, PAGE_OPERATORS = 64, PAGE_TIMED = 20 };

typedef struct page_operator {
    char name[48];
    double seconds;
} page_operator;

struct train_page {
    const train_options *options;
    /* Each `stride` steps, so that long trainings fit. */
    svg_point loss[PAGE_STEPS], rate[PAGE_STEPS], memory[PAGE_STEPS]; /* of the host, in MB */
    size_t step_count;
    uint64_t stride;
    svg_point train_loss[PAGE_EPOCHS], validation_loss[PAGE_EPOCHS], quality[PAGE_EPOCHS];
    svg_point train_accuracy[PAGE_EPOCHS]; /* in percent, as quality is */
    size_t epoch_count;
    bool judged, regression; /* quality is R2, not accuracy */
    uint64_t steps_an_epoch, last_step;
    page_operator operators[PAGE_OPERATORS];
    int operator_count, timed; /* so many steps are looked at */
    bool begun;
    double seconds, weighed_at; /* when the memory was asked for */
    double weight;
};

/* What the curves say, as a sentence. */
const char *page_verdict(const train_page *page, char *text, size_t room);
/* Says that a part could not be made, and answers false. */
bool page_fail(void);
/* The parts below are written whole; otherwise it was said why not, and they answer false. */
/* Of what was judged (train_page_judged.c): confusion, the worst samples, numbers beside the truth. */
bool page_judged(FILE *file, const training_setup *setup, const kn_dataset *dataset, const judgement *judged);
/* How much worse the loss gets where one input is shuffled among the samples; nothing for other models. */
bool page_inputs(FILE *file, const training_setup *setup, const char *data, const kn_dataset *dataset,
                 kn_session *session, uint64_t batch);
/* What a model of text writes; nothing for other models. */
bool page_writes(FILE *file, const training_setup *setup, const kn_dataset *dataset, kn_session *session);

#endif
