/* Splitting: each sample is in one part, classes are divided evenly, the seed decides. */
#include "data_tests.h"

#include <math.h>
#include <string.h>

/* The first value of "x" identifies the sample. */
static uint64_t sample_at(const kn_dataset *dataset, uint64_t index) {
    float x[3];
    assert_int_equal(kn_dataset_read(dataset, &index, 1, 0, x, sizeof x, NULL, 0), KN_OK);
    return (uint64_t)(x[0] / 10);
}

TEST(nothing_is_lost) {
    sample_arrays arrays = arrays_make(1003, 10);
    kn_dataset *dataset = arrays_open(NULL, &arrays, 10), *training, *validation;
    assert_int_equal(kn_dataset_split(dataset, 0.1, 7, &training, &validation), KN_OK);
    kn_dataset_destroy(&dataset); /* the parts keep the samples */
    assert_usable(training);
    assert_usable(validation);
    assert_int_equal(kn_dataset_count(validation), 100);
    assert_int_equal(kn_dataset_count(training), 903);
    int seen[1003] = {0}, classes[10] = {0};
    for (uint64_t i = 0; i < 903; i++) {
        seen[sample_at(training, i)]++;
        if (i > 0) assert_true(sample_at(training, i) > sample_at(training, i - 1));
    }
    for (uint64_t i = 0; i < 100; i++) {
        uint64_t sample = sample_at(validation, i);
        int32_t label;
        assert_int_equal(kn_dataset_read(validation, &i, 1, 1, &label, sizeof label, NULL, 0), KN_OK);
        assert_int_equal(label, sample % 10);
        seen[sample]++;
        classes[label]++;
    }
    for (int i = 0; i < 1003; i++)
        assert_int_equal(seen[i], 1);
    for (int c = 0; c < 10; c++)
        assert_in_range(classes[c], 9, 11);
    kn_dataset_destroy(&training);
    kn_dataset_destroy(&validation);
    arrays_free(&arrays);
}

TEST(the_split_depends_on_the_seed) {
    sample_arrays arrays = arrays_make(200, 4);
    kn_dataset *dataset = arrays_open(NULL, &arrays, 4), *training[3], *validation[3];
    const uint64_t seeds[] = {5, 5, 6};
    for (int i = 0; i < 3; i++)
        assert_int_equal(kn_dataset_split(dataset, 0.25, seeds[i], &training[i], &validation[i]), KN_OK);
    int other = 0;
    for (uint64_t i = 0; i < 50; i++) {
        assert_int_equal(sample_at(validation[0], i), sample_at(validation[1], i));
        other += sample_at(validation[0], i) != sample_at(validation[2], i);
    }
    assert_true(other > 20);
    for (int i = 0; i < 3; i++) {
        kn_dataset_destroy(&training[i]);
        kn_dataset_destroy(&validation[i]);
    }
    kn_dataset_destroy(&dataset);
    arrays_free(&arrays);
}

TEST(parts_can_be_split_again) {
    sample_arrays arrays = arrays_make(100, 2);
    kn_dataset *dataset = arrays_open(NULL, &arrays, 2), *some, *rest, *fewer, *few;
    assert_int_equal(kn_dataset_split(dataset, 0.5, 1, &rest, &some), KN_OK);
    assert_int_equal(kn_dataset_split(some, 0.2, 1, &fewer, &few), KN_OK);
    assert_int_equal(kn_dataset_count(few), 10);
    for (uint64_t i = 0; i < 10; i++) {
        bool found = false;
        for (uint64_t j = 0; j < 50; j++)
            found |= sample_at(few, i) == sample_at(some, j);
        assert_true(found);
    }
    kn_dataset *all[] = {dataset, some, rest, fewer, few};
    for (int i = 0; i < 5; i++)
        kn_dataset_destroy(&all[i]);
    arrays_free(&arrays);
}

TEST(samples_without_classes_are_split) {
    const float x[40] = {0};
    kn_dataset_array field = {"x", {KN_FLOAT32, 0, {0}}, x, sizeof x, KN_FLOAT32, 0};
    kn_dataset *dataset = kn_dataset_create_from_arrays(40, &field, 1, 0, NULL), *training, *validation;
    assert_int_equal(kn_dataset_split(dataset, 0.25, 1, &training, &validation), KN_OK);
    assert_int_equal(kn_dataset_count(training), 30);
    assert_int_equal(kn_dataset_count(validation), 10);
    kn_dataset_destroy(&dataset);
    kn_dataset_destroy(&training);
    kn_dataset_destroy(&validation);
}

TEST(wrong_fractions_are_refused) {
    sample_arrays arrays = arrays_make(10, 2);
    kn_dataset *dataset = arrays_open(NULL, &arrays, 2), *training, *validation;
    const struct {
        double fraction;
        const char *text;
    } cases[] = {
        {0, "between 0 and 1"},
        {1, "between 0 and 1"},
        {-0.5, "fraction of -0.5"},
        {NAN, "nan"},
        {0.01, "leaves no samples for validation"},
        {0.99, "leaves no samples for training"},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        assert_int_equal(kn_dataset_split(dataset, cases[i].fraction, 1, &training, &validation),
                         KN_ERROR_ARGUMENT);
        assert_failed(training, KN_ERROR_ARGUMENT, cases[i].text);
        assert_failed(validation, KN_ERROR_ARGUMENT, cases[i].text);
    }
    assert_int_equal(kn_dataset_split(dataset, 0.5, 1, &training, NULL), KN_ERROR_ARGUMENT);
    assert_failed(training, KN_ERROR_ARGUMENT, "NULL");
    kn_dataset_destroy(&dataset);
    arrays_free(&arrays);
}

TEST_FILE(test_splits, NULL, NULL)
