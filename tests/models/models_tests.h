/* Helpers of the tests of models; the exchange module uses them too. */
#ifndef KN_MODELS_TESTS_H
#define KN_MODELS_TESTS_H

#include "support.h"

#include <koine/model.h>

/* The text must be a valid model: otherwise the test fails with its error. */
kn_model *parse(const char *text);
/* The text must be refused with exactly this message, "text:LINE:COLUMN: …". Two lines precede it, "koine 1"
 * and "input x 3", unless it begins with '|'. */
void refused(const char *text, const char *message);
/* The value with that name must have this shape, "32,1,3,3". */
void has_shape(const kn_model *model, const char *name, const char *shape);
/* Several: "conv1 batch,4,24,24; conv1.weight 4,1,5,5; loss". */
void has_shapes(const kn_model *model, const char *list);
/* The names of the parameters, in order and separated by blanks: "conv1.weight conv1.bias". */
void has_parameters(const kn_model *model, const char *names);

/* Checks conditions that must hold for any text, valid or not; false: `sentence` describes the violation. */
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
