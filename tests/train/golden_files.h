/* The golden trajectories of tests/golden (tools/golden/README.md): the files, their networks, optimizers and
 * batches, and a training that is compared with them. Failures fail the test. */
#ifndef KN_TRAIN_GOLDEN_FILES_H
#define KN_TRAIN_GOLDEN_FILES_H

#include "device_support.h"

#include <koine/koine.h>

#include "formats/formats.h"

typedef struct golden {
    kn_host host;
    kn_arena arena;
    const kn_json *root, *network, *optimizer;
    const char *name;
    uint64_t seed;
    int64_t batch, steps, elements, classes; /* elements of one sample */
    int64_t tokens, labels; /* inputs are less than tokens, unless it is 0; labels of one sample */
    int shards;             /* into which the file cuts a batch; 0: it does not */
} golden;

/* Reads FOLDER/NAME.json; golden_read reads only its text, for files that are not trajectories. */
void golden_open(golden *file, const char *folder, const char *name);
void golden_read(golden *file, const char *folder, const char *name);
void golden_close(golden *file);
const kn_json *golden_member(const kn_json *object, const char *key);
double golden_item(const kn_json *list, int64_t index);

/* A batch, as the feeds "x" and "y". */
typedef struct golden_feeds {
    float *x;
    int32_t *tokens, *labels;
    kn_feed list[2];
} golden_feeds;
void golden_draw(const golden *file, golden_feeds *fed, int64_t step);
/* The feeds of `count` samples from `first` on. */
void golden_part(const golden *file, const golden_feeds *fed, uint64_t first, uint64_t count,
                 kn_feed list[2]);

/* How to train what a file describes; zeros: a single worker, in float32, as the file says. */
typedef struct golden_setup {
    kn_context *context;
    bool fast;
    kn_precision precision;
    const kn_communicator *communicator;
    int shards;
    const int *deal;
} golden_setup;

/* Makes model, trainer and memory for the batches of a file, and hands them to `use`, which has to look at
 * the trainer's status. */
typedef void golden_use(const golden *file, kn_trainer *trainer, kn_value *loss, golden_feeds *fed,
                        void *user);
void golden_with_trainer(golden *file, const golden_setup *setup, void *user, golden_use *use);
/* A golden_use: trains and compares all that the file has. */
void golden_train(const golden *file, kn_trainer *trainer, kn_value *loss_value, golden_feeds *fed,
                  void *user);
void golden_good(const golden *file, kn_trainer *trainer, kn_status status);

#endif
