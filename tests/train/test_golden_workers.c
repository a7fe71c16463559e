/* The golden trajectories by several workers, threads of this process: what one worker computes with four
 * shards is compared with PyTorch, and two and four workers find its bits.
 *     test-golden-workers FOLDER [NAME]
 * NAME: only the trajectories of that file.
 * Files whose network depends on the whole batch (batch norm) say into how many shards PyTorch has cut it. */
#include "golden_work.h"
#include "workers.h"

#include <stdio.h>
#include <string.h>

enum { SHARDS = 4, MOST = 4 };

static const char *folder, *only;

static void work(void *argument, const kn_communicator *communicator) {
    golden_work *own = argument;
    own->setup.communicator = communicator;
    golden_work_do(own);
}

/* All must find what one found alone. */
static void train_by(const golden_work *alone, int count, const int *deal) {
    golden_work workers[MOST];
    for (int r = 0; r < count; r++) {
        workers[r] = (golden_work){.file = alone->file, .setup = alone->setup};
        workers[r].setup.context = NULL;
        workers[r].setup.deal = deal;
    }
    workers_run(workers, sizeof *workers, count, work);
    for (int r = 0; r < count; r++) {
        if (workers[r].status != KN_OK)
            fail_msg("%s, worker %d of %d: %s", alone->file->name, r, count, workers[r].error);
        if (!golden_work_equal(&workers[r], alone))
            fail_msg("%s: worker %d of %d finds other bits than one worker with the same shards",
                     alone->file->name, r, count);
    }
}

/* rule: another than the file's, which PyTorch's numbers do not know. */
static void check(const char *name, const kn_optimizer *rule) {
    static const int uneven[] = {3, 1};
    golden file;
    golden_open(&file, folder, name);
    kn_context *context = device_open(NULL);
    golden_work alone = {.file = &file, .setup = {.context = context, .shards = SHARDS, .rule = rule}};
    assert_true(file.steps <= GOLDEN_MOST_STEPS && (!file.shards || file.shards == SHARDS));
    if (!rule) golden_with_trainer(&file, &alone.setup, NULL, golden_train);
    golden_work_do(&alone);
    if (alone.status != KN_OK) fail_msg("%s: %s", name, alone.error);
    device_close(&context);
    train_by(&alone, 2, NULL);
    train_by(&alone, 2, uneven);
    train_by(&alone, 4, NULL);
    golden_close(&file);
}

typedef struct trajectory {
    const char *test, *name;
    bool adamw; /* by this rule, instead of the file's */
} trajectory;

static void run(void **state) {
    const trajectory *wanted = *state;
    const kn_optimizer adamw = KN_ADAMW;
    if (test_cases_wanted() == TEST_SMALLEST) skip_because(TOO_LONG_FOR_A_SIMULATOR);
    check(wanted->name, wanted->adamw ? &adamw : NULL);
}

int main(int argc, char **argv) {
    static trajectory all[] = {
        {"mlp, SGD", "mlp_sgd", false},
        {"mlp, AdamW, warm-up, cosine, clipping", "mlp_adamw", false},
        {"lenet, SGD", "lenet_sgd", false},
        {"lenet, Adam", "lenet_adam", false},
        {"lenet, AdamW", "lenet_sgd", true},
        {"lstm, SGD", "lstm_sgd", false},
        {"lstm, AdamW", "lstm_sgd", true},
        {"gpt, AdamW", "gpt_adamw", false},
        {"batch norm, SGD", "cnn_bn_sharded", false},
        {"resnet18c, SGD", "resnet18c_sharded", false},
        {"resnet18c, AdamW", "resnet18c_sharded", true},
        {"small, accumulated and averaged", "small_accumulated", false},
    };
    struct CMUnitTest tests[KN_COUNT_OF(all)];
    size_t count = 0;
    if (argc != 2 && argc != 3) return 1;
    folder = argv[1];
    only = argc == 3 ? argv[2] : NULL;
    if (!device_is_there()) return 77;
    for (size_t i = 0; i < KN_COUNT_OF(all); i++)
        if (!only || !strcmp(only, all[i].name))
            tests[count++] =
                (struct CMUnitTest){.name = all[i].test, .test_func = run, .initial_state = &all[i]};
    return _cmocka_run_group_tests("trajectories of workers", tests, count, NULL, NULL) != 0;
}
