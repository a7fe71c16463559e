/* A model, its loss and its data, opened together from the command line. */
#ifndef KOINE_COMMAND_TRAINING_H
#define KOINE_COMMAND_TRAINING_H

#include "command.h"

typedef struct training_setup {
    kn_model *model;
    kn_model_loss loss;
    kn_value *accuracy;                   /* NULL where there is none */
    kn_dataset *all, *train, *validation; /* train NULL: all of it; validation NULL: none */
    const char *loss_name, *accuracy_name;
} training_setup;

/* The words of --loss, and of --optimizer in the order of kn_optimizer. */
extern const char *const loss_words[], *const optimizer_words[];
extern const int loss_word_count, optimizer_word_count;

/* Opens a model and adds a loss (NULL: its own). Says what is wrong and answers false. */
bool setup_model(training_setup *setup, const char *model, const char *loss);
/* Opens the data. share > 0: so much of it is set aside for validation; 0: the source's own test part, if it
 * has one. Checks that it fits the model's input. */
bool setup_data(training_setup *setup, const char *data, double share, uint64_t seed);
/* An inference session for loss and accuracy on some states. The limit of memory is the caller's to check. */
kn_session *setup_judge(training_setup *setup, kn_context *context, kn_states *states, bool exact);
void setup_finish(training_setup *setup);

#endif
