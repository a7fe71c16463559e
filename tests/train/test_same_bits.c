/* The same seed gives the same bits, in a different process and with a different number of threads: CPU
 * drivers read their number from the environment when they start. */
#include "train_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *self;

kn_model *picture_model(int channels) {
    char text[300];
    snprintf(text, sizeof text,
             "koine 1\n"
             "input x 1x14x14\n"
             "conv %d 3\n"
             "batchnorm\n"
             "relu\n"
             "conv 20 3 padding=1\n"
             "relu\n"
             "maxpool 2\n"
             "flatten\n"
             "dropout 0.2\n"
             "linear 70\n"
             "relu\n"
             "logits = linear 10\n",
             channels);
    return kn_model_parse(text, NULL);
}

uint32_t picture_batch(uint32_t word, float x[PICTURES * PICTURE_PIXELS], int32_t y[PICTURES]) {
    for (int i = 0; i < PICTURES * PICTURE_PIXELS; i++) {
        word = word * 1664525u + 1013904223u;
        x[i] = (float)(word >> 8) / (float)(1 << 24);
    }
    for (int i = 0; i < PICTURES; i++)
        y[i] = (int32_t)(word >> 8) % 10 * i % 10;
    return word;
}

/* Each row of an image is a time step. */
static kn_model *sequence_model(void) {
    return kn_model_parse("koine 1\ninput x 1x14x14\nreshape 14x14\ngru 20\nflatten\nlogits = linear 10\n",
                          NULL);
}

/* Trains and destroys the model, and returns the hash of its states. */
static unsigned long long bits_of(kn_context *context, kn_model *model) {
    static float x[PICTURES * PICTURE_PIXELS];
    int32_t y[PICTURES];
    kn_model_loss loss = KN_MODEL_LOSS_DEFAULTS;
    if (kn_model_add_loss(model, NULL, &loss)) fail_msg("%s", kn_model_error(model));
    kn_trainer_params params = adam();
    params.clip_norm = 1;
    kn_trainer *trainer = trainer_make(context, loss.value, &params);
    uint32_t word = 99;
    for (int step = 0; step < 6; step++) {
        word = picture_batch(word, x, y);
        const kn_feed feeds[] = {{"x", x, sizeof x}, {"y", y, sizeof y}};
        trainer_good(trainer, kn_trainer_step(trainer, PICTURES, feeds, 2, NULL));
    }
    unsigned long long bits = states_hash(kn_trainer_states(trainer));
    kn_trainer_destroy(&trainer);
    kn_model_destroy(&model);
    return bits;
}

int print_bits(void) {
    kn_context *context = device_open(NULL);
    unsigned long long pictures = bits_of(context, picture_model(16)),
                       sequences = bits_of(context, sequence_model());
    printf("bits %016llx units %d\n", pictures * 31 + sequences,
           kn_context_capabilities(context)->compute_units);
    device_close(&context);
    return 0;
}

/* The hash computed by a child process with so many threads; *units is the reported number of compute units.
 * The child does not check for leaks: PoCL leaks when it compiles. */
static unsigned long long bits_with(int threads, int *units) {
    char command[4500], line[256];
    unsigned long long bits = 0;
    bool found = false;
    int length = snprintf(command, sizeof command,
                          "ASAN_OPTIONS=detect_leaks=0 POCL_MAX_PTHREAD_COUNT=%d LP_NUM_THREADS=%d "
                          "DPCPP_CPU_NUM_CUS=%d '%s' --bits",
                          threads, threads, threads, self);
    assert_true(length > 0 && (size_t)length < sizeof command);
    FILE *child = popen(command, "r");
    assert_non_null(child);
    while (fgets(line, sizeof line, child))
        found = sscanf(line, "bits %llx units %d", &bits, units) == 2 || found;
    assert_int_equal(pclose(child), 0);
    assert_true(found);
    return bits;
}

static void threads_change_nothing(void **state) {
    if (test_cases_wanted() == TEST_SMALLEST) skip_because(TOO_LONG_FOR_A_SIMULATOR);
    int one_unit = 0, units = 0;
    unsigned long long one = bits_with(1, &one_unit);
    for (int threads = 2; threads <= 5; threads += 3) {
        unsigned long long more = bits_with(threads, &units);
        if (more != one)
            fail_msg("%llx on %d units, %llx on %d (%d threads)", one, one_unit, more, units, threads);
    }
    print_message("on %d and %d units\n", one_unit, units);
}

int test_same_bits(const char *program) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_change_nothing)};
    self = program;
    return cmocka_run_group_tests_name("same bits", tests, NULL, NULL);
}
