/* Folders of sounds in WAV files. */
#include "data_tests.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/dataset_private.h"

static void put(uint8_t *to, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

/* One channel of 16-bit samples. */
static void add_sound(const char *folder, const char *name, uint32_t rate, const int16_t *numbers,
                      size_t count) {
    uint8_t *file = calloc(44 + 2 * count, 1);
    assert_non_null(file);
    memcpy(file, "RIFF....WAVEfmt \x10\0\0\0\1\0\1\0", 24);
    put(file + 4, 36 + 2 * count, 4);
    put(file + 24, rate, 4);
    put(file + 28, 2 * rate, 4);
    put(file + 32, 2, 2);
    put(file + 34, 16, 2);
    memcpy(file + 36, "data", 4);
    put(file + 40, 2 * count, 4);
    for (size_t i = 0; i < count; i++)
        put(file + 44 + 2 * i, (uint16_t)numbers[i], 2);
    add_file(folder, name, file, 44 + 2 * count);
    free(file);
}

static void add_level(const char *folder, const char *name, int16_t level, size_t count) {
    int16_t numbers[40];
    for (size_t i = 0; i < count; i++)
        numbers[i] = level;
    add_sound(folder, name, 8000, numbers, count);
}

static kn_dataset *open_folder(const char *folder, const char *options, kn_dataset_params *params) {
    char spec[600];
    snprintf(spec, sizeof spec, "wav:%s%s", folder, options);
    return kn_dataset_open(spec, params);
}

/* Sound `index` has that many samples at that level, and then silence. */
static void expect_sound(const kn_dataset *dataset, uint64_t index, size_t length, int16_t level,
                         size_t count, int label) {
    kn_dataset_field field = KN_DATASET_FIELD_DEFAULTS;
    float x[100];
    int32_t y = -1;
    assert_true(kn_dataset_field_at(dataset, 0, &field));
    assert_int_equal(field.bytes, length * sizeof *x);
    assert_int_equal(kn_dataset_read(dataset, &index, 1, 0, x, field.bytes, NULL, 0), KN_OK);
    if (label >= 0) assert_int_equal(kn_dataset_read(dataset, &index, 1, 1, &y, sizeof y, NULL, 0), KN_OK);
    assert_int_equal(y, label);
    for (size_t i = 0; i < length; i++)
        assert_true(x[i] == (i < count ? (float)level / 32768 : 0));
}

TEST_IN_FOLDER(parts_and_classes) {
    add_level(*state, "train/no/b.WAV", 2000, 30);
    add_level(*state, "train/no/a.wav", 1000, 20);
    add_level(*state, "train/go/x.wave", -3000, 10);
    add_file(*state, "train/go/notes.txt", "text", 4);
    add_level(*state, "test/no/c.wav", 4000, 25);
    kn_dataset *train = open_folder(*state, "", NULL), *test = kn_dataset_test(train);
    assert_usable(train);
    assert_int_equal(kn_dataset_count(train) * 10 + kn_dataset_count(test), 31);
    assert_int_equal(kn_dataset_sample_rate(train), 8000);
    assert_int_equal(kn_dataset_sample_rate(test), 8000);
    assert_string_equal(kn_dataset_class_name(train, 0), "go");
    /* The first sound sets the length; longer ones are cut. */
    expect_sound(train, 0, 10, -3000, 10, 0);
    expect_sound(train, 1, 10, 1000, 10, 1);
    expect_sound(test, 0, 10, 4000, 10, 1);
    kn_dataset_destroy(&train);
    kn_dataset_destroy(&test);
    train = open_folder(*state, ",length=28", NULL);
    expect_sound(train, 0, 28, -3000, 10, 0);
    expect_sound(train, 1, 28, 1000, 20, 1);
    expect_sound(train, 2, 28, 2000, 28, 1);
    kn_dataset_destroy(&train);
    static const kn_tensor_info wanted[] = {
        {KN_FLOAT32, 2, {1, 15}}, {KN_FLOAT32, 1, {15}}, {KN_FLOAT32, 2, {2, 15}}};
    for (size_t i = 0; i < KN_COUNT_OF(wanted); i++) {
        kn_dataset_params params = KN_DATASET_DEFAULTS;
        kn_dataset_field field = KN_DATASET_FIELD_DEFAULTS;
        params.expected = &wanted[i];
        train = open_folder(*state, "", &params);
        assert_true(kn_dataset_field_at(train, 0, &field));
        assert_int_equal(field.info.rank, i == 1 ? 1 : 2);
        expect_sound(train, 1, i == 2 ? 10 : 15, 1000, i == 2 ? 10 : 15, 1);
        kn_dataset_destroy(&train);
    }
    kn_dataset *tones = kn_dataset_open("tones", NULL);
    assert_int_equal(kn_dataset_sample_rate(tones), 8000);
    kn_dataset_destroy(&tones);
}

/* Without classes: a file, or all files in a folder and below it. */
TEST_IN_FOLDER(sounds_without_classes) {
    add_level(*state, "1.wav", 1000, 20);
    add_level(*state, "2.wav", 2000, 20);
    add_level(*state, "below/0.wav", 3000, 20);
    kn_dataset_params params = KN_DATASET_DEFAULTS;
    params.sample_rate = 8000;
    kn_dataset *one = open_folder(*state, "/2.wav,length=30", &params);
    assert_usable(one);
    assert_int_equal(kn_dataset_count(one) * 10 + kn_dataset_field_count(one), 11);
    expect_sound(one, 0, 30, 2000, 20, -1);
    kn_dataset_destroy(&one);
    /* Any file name is accepted. */
    add_level(*state, "taken.bin", 4000, 20);
    one = open_folder(*state, "/taken.bin,length=20", &params);
    assert_usable(one);
    expect_sound(one, 0, 20, 4000, 20, -1);
    kn_dataset_destroy(&one);
    params.inputs_only = true;
    kn_dataset *all = open_folder(*state, "", &params);
    assert_usable(all);
    assert_int_equal(kn_dataset_count(all) * 10 + kn_dataset_field_count(all), 31);
    expect_sound(all, 1, 20, 2000, 20, -1);
    expect_sound(all, 2, 20, 3000, 20, -1);
    assert_non_null(strstr(kn_dataset_sample_name(all, 2), "/below/0.wav"));
    kn_dataset_destroy(&all);
}

/* Resampling keeps the pitch and the loudness of a tone, and removes one above the new Nyquist frequency. */
TEST_IN_FOLDER(rates_are_changed) {
    static const struct {
        uint32_t from, to;
        double pitch, loud;
    } cases[] = {
        {16000, 8000, 440, 1},  {16000, 8000, 3000, 1}, {16000, 8000, 6000, 0},
        {8000, 16000, 440, 1},  {8000, 16000, 3000, 1}, {44100, 8000, 1000, 1},
        {44100, 8000, 5000, 0}, {8000, 11025, 2000, 1}, {7999, 8000, 700, 1},
    };
    enum { COUNT = 1500 };
    int16_t numbers[9000];
    float x[COUNT];
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        char rate[60];
        const uint64_t first = 0;
        const double turn = 2 * 3.14159265358979323846 * cases[i].pitch;
        for (int j = 0; j < 9000; j++)
            numbers[j] = (int16_t)lrint(16384 * sin(turn * j / cases[i].from));
        add_sound(*state, "a/1.wav", cases[i].from, numbers, 9000);
        snprintf(rate, sizeof rate, ",rate=%u,length=%d", (unsigned)cases[i].to, COUNT);
        kn_dataset *dataset = open_folder(*state, rate, NULL);
        assert_usable(dataset);
        assert_int_equal(kn_dataset_sample_rate(dataset), cases[i].to);
        assert_int_equal(kn_dataset_read(dataset, &first, 1, 0, x, sizeof x, NULL, 0), KN_OK);
        kn_dataset_destroy(&dataset);
        for (int j = 60; j < COUNT; j++) { /* after the onset */
            double wanted = cases[i].loud * 0.5 * sin(turn * j / cases[i].to);
            if (fabs((double)x[j] - wanted) > 1e-3)
                fail_msg("%u to %u, %g Hz: number %d is %g, expected %g", (unsigned)cases[i].from,
                         (unsigned)cases[i].to, cases[i].pitch, j, (double)x[j], wanted);
        }
    }
    /* The length is that of the first sound at the new rate. */
    add_sound(*state, "a/1.wav", 16000, numbers, 101);
    kn_dataset *dataset = open_folder(*state, ",rate=8000", NULL);
    kn_dataset_field field = KN_DATASET_FIELD_DEFAULTS;
    assert_true(kn_dataset_field_at(dataset, 0, &field));
    assert_int_equal(field.info.shape[1], 51);
    kn_dataset_destroy(&dataset);
}

TEST_IN_FOLDER(faults_are_named) {
    assert_failed(open_folder(*state, "", NULL), KN_ERROR_NOT_FOUND, "has 0 folders");
    add_file(*state, "no/notes.txt", "text", 4);
    assert_failed(open_folder(*state, "", NULL), KN_ERROR_NOT_FOUND, "contain no .wav");
    add_level(*state, "no/1.wav", 1000, 20);
    add_file(*state, "no/2.wav", "RIFF", 4);
    add_level(*state, "no/3.wav", 1000, 0);
    static const char real[] =
        "RIFF....WAVEfmt \x10\0\0\0\3\0\1\0\x40\x1f\0\0\0\x7d\0\0\4\0\x20\0data\x8\0\0\0\0\0\0\0\0\0\x80\x7f";
    add_file(*state, "no/4.wav", real, sizeof real - 1);
    assert_failed(open_folder(*state, "", NULL), KN_ERROR_FORMAT, "2.wav: not a WAV file");
    assert_failed(open_folder(*state, ",rate=0", NULL), KN_ERROR_ARGUMENT, "rate=NUMBER");
    assert_failed(open_folder(*state, ",rate=20000000", NULL), KN_ERROR_ARGUMENT, "at most 10000000");
    assert_failed(open_folder(*state, ",rat=8000", NULL), KN_ERROR_ARGUMENT, "did you mean \"rate\"");
    assert_failed(open_folder("/nonexistent", "", NULL), KN_ERROR_FILE,
                  "the folder, archive or file does not exist");
    kn_dataset_params params = KN_DATASET_DEFAULTS;
    params.skip_bad = true;
    kn_dataset *left = open_folder(*state, "", &params);
    assert_usable(left);
    expect_sound(left, 0, 20, 1000, 20, 0);
    assert_int_equal(kn_dataset_skipped(left), 3);
    const char *text = kn_dataset_skipped_text(left);
    assert_non_null(strstr(text, "2.wav: not a WAV file"));
    assert_non_null(strstr(text, "3.wav: the sound is empty"));
    assert_non_null(strstr(text, "4.wav: sample 1 of the sound is not finite"));
    kn_dataset_destroy(&left);
}

TEST_IN_FOLDER(memory_may_run_out) {
    add_level(*state, "train/no/a.wav", 1000, 20);
    add_level(*state, "test/no/b.wav", 2000, 20);
    for (size_t fail_at = 1;; fail_at++) {
        failing memory = {.fail_at = fail_at};
        kn_dataset_params params = watched(&memory);
        kn_dataset *dataset = open_folder(*state, ",rate=16000", &params);
        kn_status status = kn_dataset_status(dataset);
        kn_dataset_destroy(&dataset);
        assert_int_equal(memory.live, 0);
        if (status == KN_OK && memory.calls < fail_at) break;
        assert_true(status == KN_OK || status == KN_ERROR_MEMORY);
        assert_true(fail_at < 300);
    }
}

TEST_FILE(test_sounds, NULL, NULL)
