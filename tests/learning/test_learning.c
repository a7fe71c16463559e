/* What the models learn, by the command itself: long, so in the full suite only. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *command; /* the built koine */

/* Runs `koine train … --json`; answers the accuracy of the object that it prints at the end. */
static double trained_accuracy(const char *arguments) {
    char *folder = test_folder_make(), line[1200], text[600] = "";
    char out[400], model[400];
    test_path(out, sizeof out, folder, "out.json");
    test_path(model, sizeof model, folder, "model.safetensors");
    snprintf(line, sizeof line, "'%s' train %s --json --quiet --save '%s' > '%s'", command, arguments, model,
             out);
    int status = system(line);
    FILE *file = fopen(out, "r");
    if (file) {
        text[fread(text, 1, sizeof text - 1, file)] = 0;
        fclose(file);
    }
    test_folder_remove(folder);
    if (status != 0) fail_msg("'%s' ended with status %d", line, status);
    const char *place = strstr(text, "\"accuracy\": ");
    if (!place) fail_msg("no accuracy in what '%s' printed: %s", line, text);
    double accuracy = strtod(place + strlen("\"accuracy\": "), NULL);
    print_message("%s: accuracy %.4f\n", arguments, accuracy);
    return accuracy;
}

static void lenet_learns_digits(const char *seed) {
    char arguments[200];
    snprintf(arguments, sizeof arguments, "lenet --data digits --epochs 2 --seed %s", seed);
    assert_true(trained_accuracy(arguments) >= 0.985);
}

static void lenet_learns_digits_from_seed_1(void **state) {
    (void)state;
    lenet_learns_digits("1");
}
static void lenet_learns_digits_from_seed_2(void **state) {
    (void)state;
    lenet_learns_digits("2");
}
static void lenet_learns_digits_from_seed_3(void **state) {
    (void)state;
    lenet_learns_digits("3");
}

/* A linear model must not be enough for the default data. */
static void linear_does_not_learn_digits(void **state) {
    (void)state;
    double accuracy = trained_accuracy("linear --data digits --epochs 8");
    assert_true(accuracy > 0.5 && accuracy < 0.92);
}

/* KOINE_TEST_DATA: a folder with mnist-10k, MNIST's 10,000 test images. */
static void lenet_learns_mnist(void **state) {
    (void)state;
    const char *data = getenv("KOINE_TEST_DATA");
    if (!data) {
        print_message("KOINE_TEST_DATA is not set: MNIST is left out\n");
        skip();
    }
    char arguments[600];
    snprintf(arguments, sizeof arguments, "lenet --data 'idx:%s/mnist-10k' --validation 0.1 --epochs 10",
             data);
    assert_true(trained_accuracy(arguments) >= 0.975);
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    command = arguments[1];
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(lenet_learns_digits_from_seed_1),
        cmocka_unit_test(lenet_learns_digits_from_seed_2),
        cmocka_unit_test(lenet_learns_digits_from_seed_3),
        cmocka_unit_test(linear_does_not_learn_digits),
        cmocka_unit_test(lenet_learns_mnist),
    };
    return cmocka_run_group_tests_name("learning", cases, NULL, NULL) != 0;
}
