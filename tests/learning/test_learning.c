/* The accuracy that models reach, trained with the command: slow, so in the full suite only. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *command; /* the built koine */

/* Runs `koine train MODEL … --json`; returns the number `key` of the object that it prints at the end. MODEL
 * is the first of the arguments, or, if `text` is given, a model with that text. */
static double trained_number(const char *text_model, const char *arguments, const char *key) {
    char *folder = test_folder_make(), line[1600], text[600] = "", wanted[40];
    char out[400], model[400], source[400] = "";
    test_path(out, sizeof out, folder, "out.json");
    test_path(model, sizeof model, folder, "model.safetensors");
    if (text_model) {
        test_path(source, sizeof source, folder, "model.koine");
        FILE *file = fopen(source, "w");
        assert_non_null(file);
        fputs(text_model, file);
        assert_int_equal(fclose(file), 0);
    }
    snprintf(line, sizeof line, "'%s' train %s %s --json --quiet --save '%s' > '%s'", command, source,
             arguments, model, out);
    snprintf(wanted, sizeof wanted, "\"%s\": ", key);
    int status = system(line);
    FILE *file = fopen(out, "r");
    if (file) {
        text[fread(text, 1, sizeof text - 1, file)] = 0;
        fclose(file);
    }
    test_folder_remove(folder);
    if (status != 0) fail_msg("'%s' ended with status %d", line, status);
    const char *place = strstr(text, wanted);
    if (!place) fail_msg("no %s in what '%s' printed: %s", key, line, text);
    double number = strtod(place + strlen(wanted), NULL);
    print_message("%s: %s %.4f\n", arguments, key, number);
    return number;
}

static double trained_accuracy(const char *arguments) {
    return trained_number(NULL, arguments, "accuracy");
}

static void lenet_learns_digits(const char *seed) {
    char arguments[200];
    snprintf(arguments, sizeof arguments, "lenet --data digits --epochs 2 --seed %s", seed);
    assert_true(trained_accuracy(arguments) >= 0.985);
}

static void lenet_learns_digits_from_seed_1(void **state) {
    lenet_learns_digits("1");
}
static void lenet_learns_digits_from_seed_2(void **state) {
    lenet_learns_digits("2");
}
static void lenet_learns_digits_from_seed_3(void **state) {
    lenet_learns_digits("3");
}

/* A linear model must not be enough for the default data. */
static void linear_does_not_learn_digits(void **state) {
    double accuracy = trained_accuracy("linear --data digits --epochs 8");
    assert_true(accuracy > 0.5 && accuracy < 0.92);
}

/* At least 90% of the explainable 82.1%. */
static void wind_is_explained(void **state) {
    assert_true(trained_number(NULL, "wind --data wind --epochs 15 --lr 0.003", "r2") >= 0.9 * 0.821);
}

static void keyword_learns_tones(void **state) {
    assert_true(trained_accuracy("keyword --data tones --epochs 2") >= 0.97);
}

/* A trigram needs more than 0.91 nats per character (data-hardness). */
static void lstm_beats_a_trigram(void **state) {
    double nats = trained_number("koine 1\nmodel reader\ninput x 64 int32\nembedding 30 32\nlstm 128\n"
                                 "logits = linear 30\n",
                                 "--data text --steps 900 --batch 32 --lr 0.006", "validation_loss");
    assert_true(nats > 0 && nats <= 0.91 - 0.2);
}

/* ---- data of the tester's own: KOINE_TEST_DATA is a folder ------------------------------------------- */

/* Trains with `format`, in which %s is the folder; skipped if the file or folder is not there. */
static double trained_on(const char *needed, const char *format, const char *key) {
    const char *data = getenv("KOINE_TEST_DATA");
    char path[600], arguments[900];
    if (data) snprintf(path, sizeof path, "%s/%s", data, needed);
    FILE *file = data ? fopen(path, "r") : NULL; /* folders open as well */
    if (!file) {
        print_message("  no %s in KOINE_TEST_DATA\n", needed);
        skip();
    }
    fclose(file);
    snprintf(arguments, sizeof arguments, format, data);
    return trained_number(NULL, arguments, key);
}

/* MNIST's 10,000 test images. */
static void lenet_learns_mnist(void **state) {
    assert_true(trained_on("mnist-10k", "lenet --data 'idx:%s/mnist-10k' --validation 0.1 --epochs 10",
                           "accuracy") >= 0.975);
}

/* train/ and test/ with a folder of JPEG files for each of ten classes. */
static void cifar_cnn_learns_photographs(void **state) {
    assert_true(trained_on("cifar10-jpeg", "cifar-cnn --data 'images:%s/cifar10-jpeg' --epochs 12",
                           "accuracy") >= 0.72);
}

/* Nats per character on the last tenth of a text of a million characters. */
static void char_rnn_learns_to_read(void **state) {
    double nats =
        trained_on("shakespeare.txt", "char-rnn --data 'text:%s/shakespeare.txt' --steps 2500 --batch 32",
                   "validation_loss");
    assert_true(nats > 0 && nats < 1.70);
}

static void gpt_learns_to_read(void **state) {
    double nats = trained_on("shakespeare.txt", "gpt --data 'text:%s/shakespeare.txt' --steps 2500 --batch 8",
                             "validation_loss");
    assert_true(nats > 0 && nats < 1.90);
}

int main(int count, char **arguments) {
    const test_part wanted = count > 3 ? test_part_of(count, arguments) : (test_part){0, 1};
    if (count < 2) return 2;
    command = arguments[1];
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(lenet_learns_digits_from_seed_1),
        cmocka_unit_test(lenet_learns_digits_from_seed_2),
        cmocka_unit_test(lenet_learns_digits_from_seed_3),
        cmocka_unit_test(linear_does_not_learn_digits),
        cmocka_unit_test(wind_is_explained),
        cmocka_unit_test(keyword_learns_tones),
        cmocka_unit_test(lstm_beats_a_trigram),
        cmocka_unit_test(lenet_learns_mnist),
        cmocka_unit_test(cifar_cnn_learns_photographs),
        cmocka_unit_test(char_rnn_learns_to_read),
        cmocka_unit_test(gpt_learns_to_read),
    };
    struct CMUnitTest own[sizeof cases / sizeof *cases];
    size_t own_count = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (test_part_has(wanted, i)) own[own_count++] = cases[i];
    if (own_count == 0) return 2;
    return _cmocka_run_group_tests("learning", own, own_count, NULL, NULL) != 0;
}
