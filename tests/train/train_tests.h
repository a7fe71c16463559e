/* What the tests of training share: a small network, data for it, and the bits of all its states. */
#ifndef KN_TRAIN_TESTS_H
#define KN_TRAIN_TESTS_H

#include <koine/koine.h>

#include "device_support.h"

/* Each runs one group and answers the number of its tests that failed. */
int test_schedules(void);
int test_updates(void);
int test_not_finite(void);
int test_resume(void);
int test_same_bits(const char *program);
int test_fit(void);
int test_devices(void);
/* What test_same_bits runs in a process of its own: trains and prints the hash of the states. */
int print_bits(void);

enum { SAMPLES = 40, INPUTS = 6, CLASSES = 3 };
extern float sample_x[SAMPLES][INPUTS];
extern int32_t sample_y[SAMPLES];
/* Fills the samples: always the same, and not hard to learn. */
void samples_draw(void);
/* The feeds "x" and "y" of `count` samples from `first` on, the first following the last. */
void samples_feed(int64_t first, int64_t count, kn_feed feeds[2]);

/* A classifier of the samples with batch norm and dropout, and its loss. */
typedef struct small_net {
    kn_model *model;
    kn_model_loss loss;
} small_net;
small_net net_make(void);
/* The same from a file. */
small_net net_open(const char *path);
void net_destroy(small_net *net);

/* A small convolutional network, so that all families of kernels take part, and a batch for it, drawn from
 * `word`: answers the word for the next. */
enum { PICTURES = 24, PICTURE_PIXELS = 14 * 14 };
/* A network whose first convolution has so many channels: of 16 the batch norm behind it has its statistics
 * gathered by wide kernels, of 12 it takes them itself. */
kn_model *picture_model(int channels);
uint32_t picture_batch(uint32_t word, float x[PICTURES * PICTURE_PIXELS], int32_t y[PICTURES]);

/* A trainer of `loss` that works. NULL params: Adam with seed 5. */
kn_trainer *trainer_make(kn_context *context, kn_value *loss, const kn_trainer_params *params);
kn_trainer_params adam(void);
void trainer_good(const kn_trainer *trainer, kn_status status);
/* Steps of `batch` samples each; goes on in the samples where the trainer's steps are. Answers the last loss.
 */
double trainer_steps(kn_trainer *trainer, int64_t batch, int steps);
/* Over names, types, shapes and bytes of all states. */
uint64_t states_hash(kn_states *states);
/* A float32 state of `count` elements. */
void state_get(kn_states *states, const char *name, float *numbers, size_t count);

#endif
