/* Finding the first value of a step that is not finite: the message names the right operator, and finding it
 * changes no state. */
#include "train_tests.h"

#include <math.h>
#include <string.h>

enum { COUNT = 4 };
static const float good_x[COUNT] = {1, 2, 3, 4};

/* A graph of x (batch) and a scalar parameter w, which starts at 1; `between` computes a result from their
 * product. */
typedef struct chain {
    kn_graph *graph;
    kn_value *loss;
} chain;

static chain chain_make(kn_value *(*between)(kn_value *product, kn_value *x)) {
    const kn_initializer one = {KN_INITIALIZER_FILL, 1};
    chain made = {.graph = kn_graph_create(NULL)};
    kn_value *x = kn_input(made.graph, "x", KN_FLOAT32, "batch");
    kn_value *product = kn_name(kn_mul(kn_parameter(made.graph, "w", KN_FLOAT32, "", &one), x), "product");
    made.loss = kn_mean(kn_name(kn_tanh(kn_name(between(product, x), "suspect")), "after"), NULL, false);
    if (kn_graph_status(made.graph)) fail_msg("%s", kn_graph_error(made.graph));
    return made;
}

static kn_value *logarithm(kn_value *product, kn_value *x) {
    return kn_log(kn_shift(product, 0.5));
}
static kn_value *quotient(kn_value *product, kn_value *x) {
    return kn_div(kn_shift(product, 1), x);
}
static kn_value *root(kn_value *product, kn_value *x) {
    return kn_sqrt(product);
}

static void look(kn_context *context, kn_value *(*between)(kn_value *, kn_value *), float bad,
                 const char *const *words) {
    chain made = chain_make(between);
    kn_trainer *trainer = trainer_make(context, made.loss, NULL);
    float x[COUNT] = {1, 2, 3, 4};
    char sentence[400];
    const kn_feed good = {"x", good_x, sizeof good_x}, fed = {"x", x, sizeof x};
    trainer_good(trainer, kn_trainer_step(trainer, COUNT, &good, 1, NULL));
    uint64_t before = states_hash(kn_trainer_states(trainer));
    int states = kn_states_count(kn_trainer_states(trainer));
    assert_int_equal(kn_trainer_find_not_finite(trainer, COUNT, &good, 1, sentence, sizeof sentence),
                     KN_ERROR_NOT_FOUND);
    x[2] = bad;
    trainer_good(trainer, kn_trainer_find_not_finite(trainer, COUNT, &fed, 1, sentence, sizeof sentence));
    for (; *words; words++)
        if (!strstr(sentence, *words)) fail_msg("'%s' is missing in: %s", *words, sentence);
    assert_true(before == states_hash(kn_trainer_states(trainer)));
    assert_int_equal(states, kn_states_count(kn_trainer_states(trainer)));
    /* A small buffer truncates the message, and no buffer is allowed. */
    char small[8] = "1234567";
    trainer_good(trainer, kn_trainer_find_not_finite(trainer, COUNT, &fed, 1, small, 4));
    assert_true(strlen(small) == 3 && !memcmp(small, sentence, 3) && small[4] == '5');
    trainer_good(trainer, kn_trainer_find_not_finite(trainer, COUNT, &fed, 1, NULL, 0));
    trainer_good(trainer, kn_trainer_step(trainer, COUNT, &good, 1, NULL));
    kn_trainer_destroy(&trainer);
    kn_graph_destroy(&made.graph);
}

TEST(logarithm_of_a_negative) {
    const char *const words[] = {"'suspect'", "log", "NaN", "element 2", NULL};
    look(*state, logarithm, -2, words);
}

TEST(division_by_zero) {
    const char *const words[] = {"'suspect'", "div", "infinity", "element 2", NULL};
    look(*state, quotient, 0, words);
}

TEST(gradient_of_a_root_at_zero) {
    const char *const words[] = {"all results are finite", "'product'", "element 2", NULL};
    look(*state, root, 0, words);
}

TEST(a_fed_value_may_be_the_first) {
    const char *const words[] = {
        "'product'", "mul", "infinity", "element 2", "; input 'x' already has infinity at element 2", NULL};
    look(*state, root, INFINITY, words);
}

TEST(non_finite_parameters_are_named) {
    chain made = chain_make(logarithm);
    kn_trainer *trainer = trainer_make(*state, made.loss, NULL);
    const float bad[COUNT] = {1, 2, -3, 4};
    const kn_feed fed = {"x", bad, sizeof bad};
    char sentence[400];
    double loss = 0;
    trainer_good(trainer, kn_trainer_step(trainer, COUNT, &fed, 1, &loss));
    assert_true(isnan(loss));
    trainer_good(trainer, kn_trainer_find_not_finite(trainer, COUNT, &fed, 1, sentence, sizeof sentence));
    if (!strstr(sentence, "'w'") || !strstr(sentence, "earlier update")) fail_msg("%s", sentence);
    kn_trainer_destroy(&trainer);
    kn_graph_destroy(&made.graph);
}

TEST_FILE(test_not_finite, device_setup, device_teardown)
