/* Folders of images, read by plain_images. */
#include "data_tests.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/dataset_private.h"

static void add_picture(const char *folder, const char *name, uint8_t width, uint8_t height, uint8_t value) {
    const uint8_t file[4] = {'I', width, height, value};
    add_file(folder, name, file, sizeof file);
}

static kn_dataset *open_folder(const char *folder, const char *options, kn_dataset_params *params) {
    kn_dataset_params own = KN_DATASET_DEFAULTS;
    char spec[600];
    snprintf(spec, sizeof spec, "images:%s%s", folder, options);
    if (!params) params = &own;
    params->images = plain_pictures;
    return kn_dataset_open(spec, params);
}

TEST_IN_FOLDER(parts_and_classes) {
    add_picture(*state, "train/cat/b.JPG", 6, 4, 20);
    add_picture(*state, "train/cat/a.png", 9, 9, 10);
    add_picture(*state, "train/ant/x.jpeg", 2, 8, 30);
    add_file(*state, "train/ant/notes.txt", "text", 4);
    add_file(*state, "train/ant/.hidden.png", "text", 4);
    add_file(*state, "train/list.png", "text", 4); /* no class */
    add_picture(*state, "val/cat/c.png", 5, 5, 40);
    kn_dataset *train = open_folder(*state, ",size=4x3", NULL), *test = kn_dataset_test(train);
    expect_samples(train, 3, (const uint8_t[]){30, 10, 20}, (const int32_t[]){0, 1, 1});
    expect_samples(test, 1, (const uint8_t[]){40}, (const int32_t[]){1});
    assert_int_equal(kn_dataset_classes(test), 2);
    assert_string_equal(kn_dataset_class_name(test, 0), "ant");
    assert_string_equal(kn_dataset_class_name(train, 1), "cat");
    assert_null(kn_dataset_class_name(train, 2));
    assert_null(kn_dataset_class_name(train, -1));
    kn_dataset_field field = KN_DATASET_FIELD_DEFAULTS;
    assert_true(kn_dataset_field_at(train, 0, &field));
    assert_int_equal(field.info.shape[0] * 100 + field.info.shape[1] * 10 + field.info.shape[2], 334);
    kn_dataset_destroy(&train);
    kn_dataset_destroy(&test);
}

/* Labels of both parts are indices of the caller's class names, of which the folders have only some. */
TEST_IN_FOLDER(classes_by_name) {
    kn_dataset_params params = KN_DATASET_DEFAULTS;
    add_picture(*state, "train/ant/1.png", 4, 4, 10);
    add_picture(*state, "train/cat/2.png", 4, 4, 20);
    add_picture(*state, "test/cat/3.png", 4, 4, 30);
    params.classes = "dog\ncat\nbat\nant";
    kn_dataset *train = open_folder(*state, "", &params), *test = kn_dataset_test(train);
    expect_samples(train, 2, (const uint8_t[]){10, 20}, (const int32_t[]){3, 1});
    expect_samples(test, 1, (const uint8_t[]){30}, (const int32_t[]){1});
    assert_int_equal(kn_dataset_classes(test), 4);
    assert_string_equal(kn_dataset_class_name(test, 3), "ant");
    kn_dataset_destroy(&train);
    kn_dataset_destroy(&test);
    params.classes = "0\n1"; /* no names */
    train = open_folder(*state, "", &params);
    expect_samples(train, 2, (const uint8_t[]){10, 20}, (const int32_t[]){0, 1});
    assert_string_equal(kn_dataset_class_name(train, 1), "cat");
    kn_dataset_destroy(&train);
    params.classes = "ant\nCat";
    train = open_folder(*state, "", &params);
    assert_int_equal(kn_dataset_status(train), KN_ERROR_NOT_FOUND);
    assert_non_null(
        strstr(kn_dataset_error(train), "class \"cat\" is not among the 2 classes of the model, ant, Cat;"));
    kn_dataset_destroy(&train);
}

/* With a gap where one cannot be read. */
TEST_IN_FOLDER(images_without_classes) {
    static const char *const names[] = {"a.png", "c.png", "below/deeper/d.png"};
    char path[700];
    kn_dataset_params params = KN_DATASET_DEFAULTS;
    add_picture(*state, "c.png", 3, 3, 30);
    add_picture(*state, "a.png", 5, 4, 10);
    add_file(*state, "b.png", "text", 4);
    add_file(*state, "notes.txt", "text", 4);
    add_picture(*state, "below/deeper/d.png", 2, 8, 40);
    params.inputs_only = true;
    kn_dataset *all = open_folder(*state, ",size=2", &params);
    assert_non_null(strstr(kn_dataset_error(all), "b.png: no I"));
    kn_dataset_destroy(&all);
    params.skip_bad = true;
    all = open_folder(*state, ",size=2", &params);
    assert_usable(all);
    assert_int_equal(kn_dataset_count(all), 3);
    assert_int_equal(kn_dataset_skipped(all), 1);
    assert_int_equal(kn_dataset_field_count(all), 1);
    assert_int_equal(kn_dataset_classes(all), 0);
    for (uint64_t i = 0; i < 3; i++) {
        const float values[] = {10, 30, 40};
        float x[3 * 2 * 2];
        assert_int_equal(kn_dataset_read(all, &i, 1, 0, x, sizeof x, NULL, 0), KN_OK);
        assert_true(x[0] == values[i] * (float)(1.0 / 255) && x[11] == x[0]);
        test_path(path, sizeof path, *state, names[i]);
        assert_string_equal(kn_dataset_sample_name(all, i), path);
    }
    assert_null(kn_dataset_sample_name(all, 3));
    kn_dataset_destroy(&all);
    all = open_folder(*state, "/c.png", &params);
    assert_usable(all);
    assert_int_equal(kn_dataset_count(all), 1);
    kn_dataset_destroy(&all);
    add_file(*state, "empty/notes.txt", "text", 4);
    all = open_folder(*state, "/empty", &params);
    assert_non_null(strstr(kn_dataset_error(all), "contains no .jpg"));
    kn_dataset_destroy(&all);
    params.inputs_only = false;
    add_picture(*state, "empty/1.png", 2, 2, 5);
    all = open_folder(*state, "", &params);
    assert_null(kn_dataset_sample_name(all, 0)); /* names exist only where samples have no labels */
    kn_dataset_destroy(&all);
}

TEST_IN_FOLDER(sizes_are_chosen) {
    static const struct {
        const char *options;
        kn_tensor_info wanted;
        int channels, height, width;
    } cases[] = {
        {"", {0}, 3, 5, 7}, /* the size of the first image */
        {",grey", {0}, 1, 5, 7},
        {"", {KN_FLOAT32, 3, {1, 6, 8}}, 1, 6, 8}, /* the size that the model reads */
        {",size=9,colour", {KN_FLOAT32, 3, {1, 6, 8}}, 3, 9, 9},
        {",size=3x2", {KN_FLOAT32, 3, {1, 6, 8}}, 1, 2, 3},
        {"", {KN_FLOAT32, 1, {6}}, 3, 5, 7},
    };
    add_picture(*state, "a/1.png", 7, 5, 1);
    add_picture(*state, "b/1.png", 3, 3, 2);
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        kn_dataset_params params = KN_DATASET_DEFAULTS;
        if (cases[i].wanted.rank) params.expected = &cases[i].wanted;
        kn_dataset *all = open_folder(*state, cases[i].options, &params);
        kn_dataset_field field = KN_DATASET_FIELD_DEFAULTS;
        expect_samples(all, 2, (const uint8_t[]){1, 2}, (const int32_t[]){0, 1});
        assert_false(kn_dataset_has_test(all));
        assert_true(kn_dataset_field_at(all, 0, &field));
        assert_int_equal(field.info.shape[0], cases[i].channels);
        assert_int_equal(field.info.shape[1], cases[i].height);
        assert_int_equal(field.info.shape[2], cases[i].width);
        kn_dataset_destroy(&all);
    }
    kn_dataset_params params = KN_DATASET_DEFAULTS;
    params.max_samples = 1;
    kn_dataset *one = open_folder(*state, "", &params);
    expect_samples(one, 1, (const uint8_t[]){1}, (const int32_t[]){0});
    kn_dataset_destroy(&one);
}

TEST_IN_FOLDER(faults_are_named) {
    assert_failed(open_folder(*state, "", NULL), KN_ERROR_NOT_FOUND, "has 0 folders");
    add_file(*state, "train/cat/notes.txt", "text", 4);
    assert_failed(open_folder(*state, "", NULL), KN_ERROR_NOT_FOUND, "contain no .jpg");
    for (int i = 0; i < 40; i++) {
        char name[40];
        snprintf(name, sizeof name, "train/cat/%02d.png", i);
        add_picture(*state, name, 3, 3, 7);
    }
    add_file(*state, "train/cat/17.png", "broken", 6);
    add_file(*state, "train/cat/31.png", "broken", 6);
    assert_failed(open_folder(*state, "", NULL), KN_ERROR_FORMAT, "17.png: no I");
    add_picture(*state, "train/cat/17.png", 3, 3, 7);
    assert_failed(open_folder(*state, "", NULL), KN_ERROR_FORMAT, "31.png: no I");
    add_picture(*state, "train/cat/31.png", 3, 3, 7);
    add_picture(*state, "test/dog/1.png", 3, 3, 7);
    assert_failed(open_folder(*state, "", NULL), KN_ERROR_NOT_FOUND, "the training part lacks");
    assert_failed(open_folder(*state, ",size=0", NULL), KN_ERROR_ARGUMENT, "size=WIDTH[xHEIGHT]");
    assert_failed(open_folder(*state, ",size=3x", NULL), KN_ERROR_ARGUMENT, "size=WIDTH[xHEIGHT]");
    assert_failed(open_folder(*state, ",size=99999", NULL), KN_ERROR_ARGUMENT, "at most 16384");
    assert_failed(open_folder(*state, ",grey,colour", NULL), KN_ERROR_ARGUMENT, "either grey or colour");
    assert_failed(open_folder("/nonexistent", "", NULL), KN_ERROR_FILE,
                  "the folder or archive does not exist");
    char spec[600];
    snprintf(spec, sizeof spec, "images:%s", (const char *)*state);
    assert_failed(kn_dataset_open(spec, NULL), KN_ERROR_UNSUPPORTED, "kn_images_reader()");
}

/* Unreadable files are counted and named, wherever they are; the other samples keep their labels. */
TEST_IN_FOLDER(broken_ones_are_skipped) {
    add_file(*state, "train/ant/0.png", "broken", 6);
    add_picture(*state, "train/ant/1.png", 4, 4, 11);
    add_picture(*state, "train/cat/2.png", 4, 4, 12);
    add_file(*state, "train/cat/3.png", "", 0);
    add_picture(*state, "train/cat/4.png", 4, 4, 14);
    add_file(*state, "test/cat/5.png", "I", 1);
    add_picture(*state, "test/cat/6.png", 4, 4, 16);
    kn_dataset_params params = KN_DATASET_DEFAULTS;
    assert_failed(open_folder(*state, "", &params), KN_ERROR_FORMAT, "0.png: no I");
    params.skip_bad = true;
    kn_dataset *train = open_folder(*state, "", &params), *test = kn_dataset_test(train);
    expect_samples(train, 3, (const uint8_t[]){11, 12, 14}, (const int32_t[]){0, 1, 1});
    expect_samples(test, 1, (const uint8_t[]){16}, (const int32_t[]){1});
    const char *text = kn_dataset_skipped_text(train), *end = strchr(text, '\n');
    assert_int_equal(kn_dataset_skipped(train), 2);
    assert_non_null(strstr(text, "ant/0.png: no I"));
    assert_non_null(end);
    assert_non_null(strstr(end, "cat/3.png: "));
    assert_null(strchr(end + 1, '\n'));
    assert_int_equal(kn_dataset_skipped(test), 1);
    assert_non_null(strstr(kn_dataset_skipped_text(test), "cat/5.png: no I"));
    kn_dataset_destroy(&train);
    kn_dataset_destroy(&test);
    add_file(*state, "test/cat/6.png", "I", 1);
    assert_failed(open_folder(*state, "", &params), KN_ERROR_FORMAT, "none of 2 images could be read");
    add_picture(*state, "test/cat/6.png", 4, 4, 16);
    train = open_folder(*state, ",size=4", NULL);
    kn_dataset_destroy(&train);
    for (size_t fail_at = 1;; fail_at++) {
        failing memory = {.fail_at = fail_at};
        kn_dataset_params own = watched(&memory);
        own.skip_bad = true;
        train = open_folder(*state, ",size=4", &own);
        kn_status status = kn_dataset_status(train);
        /* An image that there was no memory for does not count as unreadable. */
        if (status == KN_OK) assert_int_equal(kn_dataset_skipped(train), 2);
        kn_dataset_destroy(&train);
        assert_int_equal(memory.live, 0);
        if (status == KN_OK && memory.calls < fail_at) break;
        assert_true(status == KN_OK || status == KN_ERROR_MEMORY);
        assert_true(fail_at < 400);
    }
}

/* Cropped to the centre if too wide, averaged when reduced, interpolated linearly when enlarged. */
TEST(images_are_scaled) {
    uint8_t wide[4 * 8], out[64];
    kn_error error = {0};
    for (int i = 0; i < 32; i++)
        wide[i] = (uint8_t)(i % 8 < 2 || i % 8 >= 6 ? 255 : i % 8 < 4 ? 100 : 200);
    kn_image image = {sizeof image, 8, 4, 1, wide, 0};
    assert_int_equal(kn_image_fit(NULL, &image, 4, 4, out, &error), KN_OK);
    for (int i = 0; i < 16; i++)
        assert_int_equal(out[i], i % 4 < 2 ? 100 : 200);
    uint8_t checks[8 * 8 * 3];
    for (int i = 0; i < 64; i++)
        for (int c = 0; c < 3; c++)
            checks[3 * i + c] = (uint8_t)((i + i / 8) % 2 * 100 + 50 * c);
    kn_image colours = {sizeof colours, 8, 8, 3, checks, 0};
    assert_int_equal(kn_image_fit(NULL, &colours, 2, 2, out, &error), KN_OK);
    for (int i = 0; i < 12; i++)
        assert_in_range(out[i], 50 + i / 4 * 50 - 4, 50 + i / 4 * 50 + 4);
    uint8_t two[2] = {0, 200};
    kn_image small = {sizeof small, 2, 1, 1, two, 0};
    assert_int_equal(kn_image_fit(NULL, &small, 8, 4, out, &error), KN_OK);
    for (int x = 1; x < 8; x++)
        assert_true(out[x] >= out[x - 1]);
    assert_true(out[0] == 0 && out[7] == 200 && out[3] > 50 && out[4] < 150);
}

TEST_IN_FOLDER(memory_may_run_out) {
    add_picture(*state, "train/a/1.png", 7, 5, 1);
    add_picture(*state, "test/a/1.png", 3, 3, 2);
    for (size_t fail_at = 1;; fail_at++) {
        failing memory = {.fail_at = fail_at};
        kn_dataset_params params = watched(&memory);
        params.cache_bytes = 60; /* memory for one of two */
        params.classes = "b\na";
        kn_dataset *dataset = open_folder(*state, ",size=4", &params);
        kn_status status = kn_dataset_status(dataset);
        kn_dataset_destroy(&dataset);
        assert_int_equal(memory.live, 0);
        if (status == KN_OK && memory.calls < fail_at) break;
        assert_true(status == KN_OK || status == KN_ERROR_MEMORY); /* work continues without a thread */
        assert_true(fail_at < 300);
    }
}

/* plain_images with a counter. */
static kn_status read_counted(void *user, const kn_allocator *allocator, const void *bytes, size_t count,
                              uint64_t most, kn_image *image, char *message, size_t message_bytes) {
    atomic_fetch_add((atomic_int *)user, 1);
    return plain_pictures.read(NULL, allocator, bytes, count, most, image, message, message_bytes);
}

static const uint8_t later_values[] = {10, 20, 40, 50, 60, 70};
static const int32_t later_labels[] = {0, 0, 1, 1, 1, 1};

static void add_some(const char *folder) {
    char name[20];
    for (int i = 0; i < 7; i++) {
        snprintf(name, sizeof name, "%c/%d.png", i < 3 ? 'a' : 'b', i);
        if (i == 2)
            add_file(folder, name, "broken", 6);
        else
            add_picture(folder, name, 4, 4, (uint8_t)(10 * (i + 1)));
    }
}

/* Samples of 16 bytes with memory for three: the first three are kept, and a broken sample also counts. */
TEST_IN_FOLDER(uncached_samples_are_decoded_again) {
    atomic_int read = 0;
    char spec[600];
    kn_dataset_params params = KN_DATASET_DEFAULTS;
    params.images = (kn_image_reader){&read, read_counted};
    params.skip_bad = true;
    add_some(*state);
    snprintf(spec, sizeof spec, "images:%s,grey,size=4", (const char *)*state);
    for (int kept = 7; kept >= 0; kept--) {
        params.cache_bytes = (uint64_t)kept * 16 + 15;
        kn_dataset *all = kn_dataset_open(spec, &params);
        const int later = kept > 2 ? 7 - kept : 6 - kept;
        assert_usable(all);
        assert_int_equal(kn_dataset_skipped(all), 1);
        read = 0;
        for (int pass = 1; pass < 3; pass++) {
            expect_samples(all, 6, later_values, later_labels);
            assert_int_equal(read, pass * later);
        }
        float means[1], deviations[1];
        assert_int_equal(kn_dataset_statistics(all, 0, means, deviations, 1), KN_OK);
        assert_true(means[0] > 0.163f && means[0] < 0.164f); /* 250 / 6 / 255 */
        kn_dataset_destroy(&all);
    }
}

/* The test part uses the memory that the training part leaves. */
TEST_IN_FOLDER(parts_share_the_cache) {
    atomic_int read = 0;
    char spec[600];
    kn_dataset_params params = KN_DATASET_DEFAULTS;
    params.images = (kn_image_reader){&read, read_counted};
    params.cache_bytes = 48;
    for (int i = 1; i < 3; i++) {
        snprintf(spec, sizeof spec, "train/a/%d.png", i);
        add_picture(*state, spec, 4, 4, (uint8_t)i);
        snprintf(spec, sizeof spec, "test/a/%d.png", i);
        add_picture(*state, spec, 4, 4, (uint8_t)(i + 4));
    }
    snprintf(spec, sizeof spec, "images:%s,grey,size=4", (const char *)*state);
    kn_dataset *train = kn_dataset_open(spec, &params), *test = kn_dataset_test(train);
    read = 0;
    expect_samples(train, 2, (const uint8_t[]){1, 2}, (const int32_t[]){0, 0});
    assert_int_equal(read, 0);
    expect_samples(test, 2, (const uint8_t[]){5, 6}, (const int32_t[]){0, 0});
    assert_int_equal(read, 1);
    kn_dataset_destroy(&train);
    kn_dataset_destroy(&test);
}

/* The same batches as with memory for all samples, with several threads; a deleted file is reported. */
TEST_IN_FOLDER(loaders_decode_uncached_samples) {
    kn_dataset_params params = KN_DATASET_DEFAULTS;
    char path[600];
    params.skip_bad = true;
    add_some(*state);
    kn_dataset *all = open_folder(*state, ",size=4", &params);
    params.cache_bytes = 64;
    kn_dataset *few = open_folder(*state, ",size=4", &params);
    assert_usable(few);
    kn_loader_params how = KN_LOADER_DEFAULTS;
    how.batch = 2;
    how.workers = 3;
    kn_loader *loaders[] = {kn_loader_create(all, &how), kn_loader_create(few, &how)};
    for (int step = 0; step < 8; step++) {
        kn_batch batches[2] = {KN_BATCH_DEFAULTS, KN_BATCH_DEFAULTS};
        for (int i = 0; i < 2; i++)
            assert_int_equal(kn_loader_next(loaders[i], &batches[i]), KN_OK);
        assert_int_equal(batches[0].count, batches[1].count);
        for (size_t f = 0; f < 2 && batches[0].count; f++)
            assert_memory_equal(batches[0].feeds[f].data, batches[1].feeds[f].data,
                                batches[0].feeds[f].bytes);
    }
    remove(test_path(path, sizeof path, *state, "b/5.png"));
    kn_status status = KN_OK;
    for (int step = 0; step < 20 && status == KN_OK; step++) { /* some batches are ready already */
        kn_batch batch = KN_BATCH_DEFAULTS;
        status = kn_loader_next(loaders[1], &batch);
    }
    assert_int_equal(status, KN_ERROR_FILE);
    assert_non_null(strstr(kn_loader_error(loaders[1]), "b/5.png"));
    assert_int_equal(kn_loader_status(loaders[1]), KN_ERROR_FILE);
    float x[48];
    const uint64_t fifth = 4;
    char message[512];
    assert_int_equal(kn_dataset_read(few, &fifth, 1, 0, x, sizeof x, message, sizeof message), KN_ERROR_FILE);
    assert_non_null(strstr(message, "b/5.png"));
    for (int i = 0; i < 2; i++)
        kn_loader_destroy(&loaders[i]);
    kn_dataset_destroy(&all);
    kn_dataset_destroy(&few);
}

TEST_FILE(test_image_folders, NULL, NULL)
