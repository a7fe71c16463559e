/* What the tests of models share, those of the exchange room included. */
#ifndef KN_MODELS_TESTS_H
#define KN_MODELS_TESTS_H

#include "support.h"

#include <koine/model.h>

/* A model that has to be right: the test fails with its error otherwise. */
kn_model *parse(const char *text);
/* The text has to be refused with exactly this message, "text:LINE:COLUMN: …". Two lines stand in front of
 * it, "koine 1" and "input x 3", unless it begins with '|'. */
void refused(const char *text, const char *message);
/* The shape of a value by its name, "32,1,3,3"; the test fails when there is none. */
void has_shape(const kn_model *model, const char *name, const char *shape);
/* The parameters, in order and separated by blanks: "conv1.weight conv1.bias". */
void has_parameters(const kn_model *model, const char *names);

/* What must hold of any text, right or wrong; false with a sentence about what does not. */
bool text_is_treated_well(const char *text, size_t bytes, char *sentence, size_t room);

int test_texts(void);
int test_mistakes(void);
int test_blocks(void);
int test_layers(void);
int test_zoo(void);
int test_saved(void);
int test_losses(void);
int test_hostile(void);
int test_checkpoints(void);

#endif
