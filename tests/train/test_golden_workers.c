/* The golden trajectories by several workers, threads of this process: what one worker computes with four
 * shards is compared with PyTorch, and two and four workers find its bits.
 *     test-golden-workers FOLDER [NAME...]
 * NAME: only the trajectories of these files.
 * Files whose network depends on the whole batch (batch norm) say into how many shards PyTorch has cut it. */
#include "golden_work.h"
#include "workers.h"

#include <stdio.h>
#include <string.h>

enum { SHARDS = 4, MOST = 4 };

static const char *folder;

static void work(void *argument, const kn_communicator *communicator) {
    golden_work *own = argument;
    own->setup.communicator = communicator;
    golden_work_do(own);
}

/* All workers must find the same bits as a single worker. */
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
            fail_msg("%s: worker %d of %d finds different bits than one worker with the same shards",
                     alone->file->name, r, count);
    }
}

static void check(const char *name) {
    static const int uneven[] = {3, 1};
    golden file;
    golden_open(&file, folder, name);
    kn_context *context = device_open(NULL);
    golden_work alone = {.file = &file, .setup = {.context = context, .shards = SHARDS}};
    assert_true(file.steps <= GOLDEN_MOST_STEPS && (!file.shards || file.shards == SHARDS));
    golden_with_trainer(&file, &alone.setup, NULL, golden_train);
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
} trajectory;

static void run(void **state) {
    const trajectory *wanted = *state;
    if (test_cases_wanted() == TEST_SMALLEST) skip_because(TOO_LONG_FOR_A_SIMULATOR);
    check(wanted->name);
}

static bool is_wanted(const char *name, char **names, int count) {
    for (int i = 0; i < count; i++)
        if (!strcmp(name, names[i])) return true;
    return !count;
}

int main(int argc, char **argv) {
    static trajectory all[] = {
        {"mlp, SGD", "mlp_sgd"},
        {"mlp, AdamW, warm-up, cosine, clipping", "mlp_adamw"},
        {"lenet, SGD", "lenet_sgd"},
        {"lenet, Adam", "lenet_adam"},
        {"lenet, AdamW", "lenet_adamw"},
        {"lstm, SGD", "lstm_sgd"},
        {"lstm, AdamW", "lstm_adamw"},
        {"gpt, SGD", "gpt_sgd"},
        {"gpt, AdamW", "gpt_adamw"},
        {"batch norm, SGD", "cnn_bn_sharded"},
        {"resnet18c, SGD", "resnet18c_sharded"},
        {"resnet18c, AdamW", "resnet18c_sharded_adamw"},
        {"small, accumulated and averaged", "small_accumulated"},
    };
    struct CMUnitTest tests[KN_COUNT_OF(all)];
    size_t count = 0;
    if (argc < 2) return 1;
    folder = argv[1];
    if (!device_is_there()) return 77;
    for (size_t i = 0; i < KN_COUNT_OF(all); i++)
        if (is_wanted(all[i].name, argv + 2, argc - 2))
            tests[count++] =
                (struct CMUnitTest){.name = all[i].test, .test_func = run, .initial_state = &all[i]};
    return _cmocka_run_group_tests("trajectories of workers", tests, count, NULL, NULL) != 0;
}
