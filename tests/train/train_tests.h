/* Helpers of the tests of training: a small network, data for it, and a hash of all its states. */
#ifndef KN_TRAIN_TESTS_H
#define KN_TRAIN_TESTS_H

#include <koine/koine.h>

#include "device_support.h"

/* Each runs one group and returns the number of failed tests. */
int test_schedules(void);
int test_updates(void);
int test_not_finite(void);
int test_resume(void);
int test_same_bits(const char *program);
int test_fit(void);
int test_memory(test_part part);
int test_moments(void);
int test_moments_losses(void);
int test_host_moments(void);
int test_shards(void);
int test_counts(void);
int test_sync_norm(void);
int test_rounds(void);
int test_config(void);
int test_adapters(void);
int test_devices(void);
/* What the child process of test_same_bits runs: trains and prints the hash of the states. */
int print_bits(void);

enum { SAMPLES = 40, INPUTS = 6, CLASSES = 3 };
extern float sample_x[SAMPLES][INPUTS];
extern int32_t sample_y[SAMPLES];
/* Fills the samples: always the same, and easy to learn. */
void samples_draw(void);
/* The feeds "x" and "y" of `count` samples from `first` on; after the last sample the first follows. */
void samples_feed(int64_t first, int64_t count, kn_feed feeds[2]);

/* A classifier of the samples with batch norm and dropout, and its loss. */
typedef struct small_net {
    kn_model *model;
    kn_model_loss loss;
} small_net;
small_net net_make(void);
/* The same network from a file. */
small_net net_open(const char *path);
void net_destroy(small_net *net);

/* A small convolutional network that uses all families of kernels, and a batch for it, generated from `word`;
 * returns the word for the next batch. */
enum { PICTURES = 24, PICTURE_PIXELS = 14 * 14 };
/* `channels` are those of the first convolution: with 16, wide kernels collect the statistics for the batch
 * norm after it; with 12, the batch norm computes them. */
kn_model *picture_model(int channels);
uint32_t picture_batch(uint32_t word, float x[PICTURES * PICTURE_PIXELS], int32_t y[PICTURES]);

/* Creates a trainer of `loss`; the test fails if it cannot. NULL params: Adam with seed 5. */
kn_trainer *trainer_make(kn_context *context, kn_value *loss, const kn_trainer_params *params);
kn_trainer_params adam(void);
void trainer_good(const kn_trainer *trainer, kn_status status);
/* Runs steps of `batch` samples each, continuing at the trainer's position in the samples. Returns the last
 * loss. */
double trainer_steps(kn_trainer *trainer, int64_t batch, int steps);
/* Reads a float32 state of `count` elements. */
void state_get(kn_states *states, const char *name, float *numbers, size_t count);

#endif
