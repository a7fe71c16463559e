/* Archives of images and of sounds. The tests bring a reader of zip files, and plain_images for the images.
 */
#include "data_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../formats/zip_bytes.h"
#include "formats/formats.h"

/* `user`: the number of reads after which it reports no images. */
static kn_status read_members(void *user, const kn_allocator *allocator, const char *path, uint64_t most,
                              const kn_archive_visitor *visitor, char *message, size_t message_bytes) {
    int *times = user;
    const kn_host host = {.allocator = *allocator};
    kn_error error = {0};
    kn_file_view view;
    kn_arena arena;
    kn_zip zip;
    bool gone = times && --*times < 0;
    kn_status status = kn_file_open_view(NULL, path, &view, &error);
    kn_arena_init(&arena, NULL);
    if (status == KN_OK) status = kn_zip_read(&arena, path, view.bytes, view.count, &zip, &error);
    for (size_t i = gone; status == KN_OK && i < zip.count; i++) {
        const kn_zip_member *member = &zip.members[i];
        const uint8_t *bytes;
        void *owned;
        if (!visitor->wants(visitor->user, member->name)) continue;
        if (kn_zip_member_read(NULL, &zip, member, most, &bytes, &owned, &error) != KN_OK)
            fail_msg("%s", error.text);
        uint8_t *copy = kn_resize(&host, NULL, member->size > 0 ? (size_t)member->size : 1, 1);
        if (copy && member->size > 0) memcpy(copy, bytes, (size_t)member->size);
        kn_release(NULL, owned);
        status =
            copy ? visitor->take(visitor->user, member->name, copy, (size_t)member->size) : KN_ERROR_MEMORY;
    }
    snprintf(message, message_bytes, "%s", error.text);
    kn_arena_finish(&arena);
    kn_file_close_view(NULL, &view);
    return status;
}

static void add_picture(zip_bytes *zip, const char *name, uint8_t width, uint8_t value) {
    const uint8_t file[4] = {'I', width, 4, value};
    zip_add(zip, name, file, sizeof file, value % 2);
}

static void end_archive(zip_bytes *zip, const char *folder, const char *name) {
    char path[600];
    kn_error error = {0};
    zip_end(zip);
    if (kn_file_write(NULL, test_path(path, sizeof path, folder, name), zip->bytes, zip->count, &error) !=
        KN_OK)
        fail_msg("%s", error.text);
    free(zip->bytes);
    *zip = (zip_bytes){.count = 0};
}

static kn_dataset *open_archive(const char *folder, const char *rest, kn_dataset_params *params) {
    kn_dataset_params own = KN_DATASET_DEFAULTS;
    char spec[600];
    if (!params) params = &own;
    snprintf(spec, sizeof spec, "images:%s/%s", folder, rest);
    params->images = plain_pictures;
    if (!params->archives.read) params->archives = (kn_archive_reader){NULL, read_members};
    return kn_dataset_open(spec, params);
}

/* The order of members in the archive does not matter. */
TEST_IN_FOLDER(parts_and_classes) {
    static const char *const above[] = {"", "photos/"};
    for (size_t a = 0; a < KN_COUNT_OF(above); a++) {
        zip_bytes zip = {.count = 0};
        char name[60];
        const struct {
            const char *name;
            uint8_t value;
        } pictures[] = {{"val/ant/v.png", 50},
                        {"test/cat/c.png", 40},
                        {"train/cat/b.JPG", 20},
                        {"train/ant/x.jpeg", 30},
                        {"train/cat/a.png", 10}};
        zip_add(&zip, "train/ant/notes.txt", "text", 4, true);
        zip_add(&zip, "train/ant/.hidden.png", "text", 4, true);
        for (size_t i = 0; i < KN_COUNT_OF(pictures); i++) {
            snprintf(name, sizeof name, "%s%s", above[a], pictures[i].name);
            add_picture(&zip, name, 4, pictures[i].value);
        }
        end_archive(&zip, *state, "a.zip");
        kn_dataset *train = open_archive(*state, "a.zip,grey", NULL), *test = kn_dataset_test(train);
        expect_samples(train, 3, (const uint8_t[]){30, 10, 20}, (const int32_t[]){0, 1, 1});
        expect_samples(test, 1, (const uint8_t[]){40}, (const int32_t[]){1});
        assert_string_equal(kn_dataset_class_name(test, 0), "ant");
        kn_dataset_destroy(&train);
        kn_dataset_destroy(&test);
    }
}

/* Without classes parts and folders do not matter; an image may be at the top. */
TEST_IN_FOLDER(images_without_classes) {
    static const char *const names[] = {"./c.png", "a/deep/below.png", "b.png", "test/cat/2.png",
                                        "train/cat/1.png"};
    static const int order[] = {3, 0, 4, 1, 2};
    zip_bytes zip = {.count = 0};
    kn_dataset_params params = KN_DATASET_DEFAULTS;
    zip_add(&zip, ".hidden/1.png", "text", 4, true);
    zip_add(&zip, "a/.hidden.png", "text", 4, true);
    zip_add(&zip, "a/broken.png", "text", 4, true);
    for (size_t i = 0; i < KN_COUNT_OF(order); i++)
        add_picture(&zip, names[order[i]], 4, (uint8_t)(10 * order[i]));
    end_archive(&zip, *state, "plain.zip");
    params.inputs_only = true;
    assert_failed(open_archive(*state, "plain.zip,size=4,grey", &params), KN_ERROR_FORMAT,
                  "a/broken.png: no I");
    params.skip_bad = true;
    kn_dataset *all = open_archive(*state, "plain.zip,size=4,grey", &params);
    assert_usable(all);
    assert_int_equal(kn_dataset_count(all), KN_COUNT_OF(names));
    assert_int_equal(kn_dataset_skipped(all), 1);
    assert_int_equal(kn_dataset_field_count(all), 1);
    assert_int_equal(kn_dataset_classes(all), 0);
    assert_false(kn_dataset_has_test(all));
    for (uint64_t i = 0; i < KN_COUNT_OF(names); i++) {
        float x[16];
        assert_int_equal(kn_dataset_read(all, &i, 1, 0, x, sizeof x, NULL, 0), KN_OK);
        assert_true(x[0] == (float)(10 * i) * (float)(1.0 / 255));
        assert_string_equal(kn_dataset_sample_name(all, i), names[i]);
    }
    kn_dataset_destroy(&all);
    zip_add(&zip, "notes.txt", "text", 4, true);
    end_archive(&zip, *state, "none.zip");
    assert_failed(open_archive(*state, "none.zip", &params), KN_ERROR_NOT_FOUND,
                  "has no .jpg, .jpeg or .png");
}

/* More than are buffered at a time. */
TEST_IN_FOLDER(many_are_read) {
    zip_bytes zip = {.count = 0};
    static uint8_t values[600];
    static int32_t labels[600];
    for (int i = 599; i >= 0; i--) {
        char name[40];
        values[i] = (uint8_t)(i % 251);
        labels[i] = i / 200;
        snprintf(name, sizeof name, "%c/%03d.png", "abc"[i / 200], i);
        add_picture(&zip, name, 4, values[i]);
    }
    end_archive(&zip, *state, "many.zip");
    kn_dataset *all = open_archive(*state, "many.zip,size=2,grey", NULL);
    expect_samples(all, 600, values, labels);
    assert_false(kn_dataset_has_test(all));
    kn_dataset_destroy(&all);
    kn_dataset_params params = KN_DATASET_DEFAULTS;
    params.max_samples = 300;
    all = open_archive(*state, "many.zip,size=2,grey", &params);
    expect_samples(all, 300, values, labels);
    kn_dataset_destroy(&all);
}

TEST_IN_FOLDER(faults_are_named) {
    zip_bytes zip = {.count = 0};
    zip_add(&zip, "1.png", "text", 4, true);
    end_archive(&zip, *state, "flat.zip");
    assert_failed(open_archive(*state, "flat.zip", NULL), KN_ERROR_NOT_FOUND, "expected one per class");
    add_picture(&zip, "a/1.png", 4, 1);
    add_picture(&zip, "b/c/2.png", 4, 1);
    end_archive(&zip, *state, "deep.zip");
    assert_failed(open_archive(*state, "deep.zip", NULL), KN_ERROR_FORMAT, "different depths");
    add_picture(&zip, "a/1.png", 4, 1);
    add_picture(&zip, "a/1.png", 4, 2);
    end_archive(&zip, *state, "twice.zip");
    assert_failed(open_archive(*state, "twice.zip", NULL), KN_ERROR_FORMAT, "a/1.png twice");
    add_picture(&zip, "train/a/1.png", 4, 1);
    add_picture(&zip, "test/b/1.png", 4, 1);
    end_archive(&zip, *state, "other.zip");
    assert_failed(open_archive(*state, "other.zip", NULL), KN_ERROR_NOT_FOUND, "the training part lacks");
    add_picture(&zip, "test/b/1.png", 4, 1);
    end_archive(&zip, *state, "test.zip");
    assert_failed(open_archive(*state, "test.zip", NULL), KN_ERROR_NOT_FOUND, "0 folders in train");
    assert_failed(open_archive(*state, "none.zip", NULL), KN_ERROR_FILE,
                  "the folder or archive does not exist");
    int times = 1;
    kn_dataset_params params = KN_DATASET_DEFAULTS;
    add_picture(&zip, "a/1.png", 4, 1);
    add_picture(&zip, "a/2.png", 4, 1);
    zip_add(&zip, "b/3.png", "broken", 6, false);
    end_archive(&zip, *state, "broken.zip");
    assert_failed(open_archive(*state, "broken.zip,size=4", NULL), KN_ERROR_FORMAT, "b/3.png: no I");
    params.cache_bytes = 40;
    assert_failed(open_archive(*state, "twice.zip,size=4,grey", &params), KN_ERROR_FORMAT, "a/1.png twice");
    add_picture(&zip, "a/1.png", 4, 1);
    add_picture(&zip, "a/2.png", 4, 1);
    add_picture(&zip, "a/3.png", 4, 1);
    end_archive(&zip, *state, "large.zip");
    assert_failed(open_archive(*state, "large.zip,size=4,grey", &params), KN_ERROR_UNSUPPORTED,
                  "3 images of 16 bytes exceed the cache of 40 bytes");
    params.cache_bytes = 0;
    params.archives = (kn_archive_reader){&times, read_members};
    params.skip_bad = true;
    assert_failed(open_archive(*state, "broken.zip,size=4", &params), KN_ERROR_FILE,
                  "changed while it was read");
    times = 2;
    kn_dataset *all = open_archive(*state, "broken.zip,size=4,grey", &params);
    expect_samples(all, 2, (const uint8_t[]){1, 1}, (const int32_t[]){0, 0});
    assert_string_equal(kn_dataset_skipped_text(all), "b/3.png: no I");
    kn_dataset_destroy(&all);
    params = (kn_dataset_params)KN_DATASET_DEFAULTS;
    params.images = plain_pictures;
    char spec[600];
    snprintf(spec, sizeof spec, "images:%s/broken.zip", (const char *)*state);
    assert_failed(kn_dataset_open(spec, &params), KN_ERROR_UNSUPPORTED, "kn_images_archives()");
}

/* A sound of four 16-bit samples in one channel, all at that level. */
static void add_sound(zip_bytes *zip, const char *name, uint8_t level) {
    uint8_t file[52];
    memcpy(file, "RIFF\x2c\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x80\x3e\0\0\2\0\x10\0data\x08\0\0\0",
           44);
    for (int i = 0; i < 8; i++)
        file[44 + i] = i % 2 ? level : 0;
    zip_add(zip, name, file, sizeof file, level % 2);
}

TEST_IN_FOLDER(sounds_are_read) {
    zip_bytes zip = {.count = 0};
    char spec[600];
    add_sound(&zip, "words/test/yes/1.wav", 64);
    add_sound(&zip, "words/train/yes/2.WAV", 32);
    add_sound(&zip, "words/train/no/3.wave", 16);
    zip_add(&zip, "words/train/no/1.wav", "RIFF", 4, true);
    zip_add(&zip, "words/train/no/4.png", "text", 4, true);
    end_archive(&zip, *state, "words.zip");
    kn_dataset_params params = KN_DATASET_DEFAULTS;
    snprintf(spec, sizeof spec, "wav:%s/words.zip", (const char *)*state);
    assert_failed(kn_dataset_open(spec, &params), KN_ERROR_UNSUPPORTED, "kn_images_archives()");
    params.archives = (kn_archive_reader){NULL, read_members};
    assert_failed(kn_dataset_open(spec, &params), KN_ERROR_FORMAT, "words/train/no/1.wav: not a WAV file");
    /* The first readable one sets the length. */
    params.skip_bad = true;
    kn_dataset *train = kn_dataset_open(spec, &params), *test = kn_dataset_test(train);
    assert_usable(train);
    assert_usable(test);
    assert_int_equal(kn_dataset_sample_rate(train) + kn_dataset_sample_rate(test), 16000);
    assert_int_equal(kn_dataset_count(train) * 10 + kn_dataset_skipped(train), 21);
    static const float levels[] = {0.125f, 0.25f};
    for (uint64_t i = 0; i < 2; i++) {
        float x[4];
        int32_t y;
        assert_int_equal(kn_dataset_read(train, &i, 1, 0, x, sizeof x, NULL, 0), KN_OK);
        assert_int_equal(kn_dataset_read(train, &i, 1, 1, &y, sizeof y, NULL, 0), KN_OK);
        assert_true(x[0] == levels[i] && x[3] == levels[i] && y == (int)i);
    }
    assert_string_equal(kn_dataset_class_name(test, 1), "yes");
    kn_dataset_destroy(&train);
    kn_dataset_destroy(&test);
    add_picture(&zip, "a/1.png", 4, 1);
    end_archive(&zip, *state, "pictures.zip");
    snprintf(spec, sizeof spec, "wav:%s/pictures.zip", (const char *)*state);
    assert_failed(kn_dataset_open(spec, &params), KN_ERROR_NOT_FOUND, "has no .wav in a folder");
}

TEST_IN_FOLDER(memory_may_run_out) {
    zip_bytes zip = {.count = 0};
    add_picture(&zip, "train/a/1.png", 4, 1);
    add_picture(&zip, "test/a/1.png", 4, 1);
    end_archive(&zip, *state, "a.zip");
    for (size_t fail_at = 1;; fail_at++) {
        failing memory = {.fail_at = fail_at};
        kn_dataset_params params = watched(&memory);
        kn_dataset *dataset = open_archive(*state, "a.zip", &params);
        kn_status status = kn_dataset_status(dataset);
        kn_dataset_destroy(&dataset);
        assert_int_equal(memory.live, 0);
        if (status == KN_OK && memory.calls < fail_at) break;
        assert_true(status == KN_OK || status == KN_ERROR_MEMORY); /* work continues without a thread */
        assert_true(fail_at < 400);
    }
}

TEST_FILE(test_image_archives, NULL, NULL)
