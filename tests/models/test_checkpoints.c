/* Folders of checkpoints: finding the newest valid file; a broken file does not affect the others. */
#include "models_tests.h"

#include <koine/checkpoint.h>
#include <koine/safetensors.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_states.h"
#include "formats/formats.h"

static const char text[] = "koine 1\nmodel pair\ninput x 3\nlogits = linear 4\n";

typedef struct heard {
    int warnings;
    char last[2000];
} heard;

static void hear(void *user, kn_log_level level, const char *message) {
    heard *ear = user;
    ear->warnings += level == KN_LOG_WARNING;
    snprintf(ear->last, sizeof ear->last, "%s", message);
}

static kn_checkpoints *open_folder(const char *folder, uint64_t keep, heard *ear) {
    kn_checkpoints_params params = KN_CHECKPOINTS_DEFAULTS;
    params.keep = keep;
    params.log = (kn_logger){.user = ear, .level = KN_LOG_WARNING, .write = hear};
    kn_checkpoints *checkpoints = kn_checkpoints_open(folder, &params);
    assert_non_null(checkpoints);
    return checkpoints;
}

/* States whose elements are all `number`. */
static kn_states *states_of(float number) {
    kn_states *states = fake_states_make();
    float numbers[12];
    for (int i = 0; i < 12; i++)
        numbers[i] = number;
    const kn_tensor_info weight = {KN_FLOAT32, 2, {4, 3}}, bias = {KN_FLOAT32, 1, {4}};
    assert_int_equal(kn_states_set(states, "logits.weight", &weight, numbers, 48), KN_OK);
    assert_int_equal(kn_states_set(states, "logits.bias", &bias, numbers, 16), KN_OK);
    return states;
}

static void save(kn_checkpoints *checkpoints, uint64_t step, bool best) {
    kn_model *model = parse(text);
    kn_states *states = states_of((float)step);
    const kn_model_pair pair = {"place", "here"};
    kn_status status = best ? kn_checkpoints_save_best(checkpoints, model, states, &pair, 1)
                            : kn_checkpoints_save(checkpoints, model, states, step, &pair, 1);
    if (status != KN_OK) fail_msg("%s", kn_checkpoints_error(checkpoints));
    fake_states_release(states);
    kn_model_destroy(&model);
}

/* The step of the newest checkpoint, from its content; -1: there is none. */
static double newest(kn_checkpoints *checkpoints) {
    const char *path = kn_checkpoints_newest(checkpoints);
    if (!path) return -1;
    float numbers[4];
    kn_model *model = kn_model_open(path, NULL);
    kn_states *states = fake_states_make();
    if (kn_model_load(model, NULL, states, NULL, NULL) != KN_OK) fail_msg("%s", kn_model_error(model));
    assert_string_equal(kn_model_metadata(model, "place"), "here");
    kn_safetensors_file *file = kn_safetensors_file_open(path, NULL);
    assert_string_equal(kn_safetensors_file_metadata(file, "place"), "here");
    kn_safetensors_file_destroy(&file);
    assert_int_equal(kn_states_get(states, "logits.bias", numbers, sizeof numbers), KN_OK);
    fake_states_release(states);
    kn_model_destroy(&model);
    return numbers[0];
}

static bool has(const char *folder, const char *name) {
    char path[4096];
    return kn_path_exists(test_path(path, sizeof path, folder, name));
}

TEST_IN_FOLDER(the_newest_are_kept) {
    const char *folder = *state;
    heard ear = {0};
    kn_checkpoints *checkpoints = open_folder(folder, 2, &ear);
    assert_int_equal(kn_checkpoints_count(checkpoints), 0);
    assert_true(newest(checkpoints) == -1);
    for (uint64_t step = 5; step <= 25; step += 5)
        save(checkpoints, step, false);
    save(checkpoints, 25, false); /* saving the same step again replaces its file */
    save(checkpoints, 7, true);
    assert_int_equal(kn_checkpoints_count(checkpoints), 2);
    assert_true(newest(checkpoints) == 25);
    kn_checkpoints_destroy(&checkpoints);
    assert_true(has(folder, "step-000000000020.safetensors") && has(folder, "step-000000000025.safetensors"));
    assert_false(has(folder, "step-000000000015.safetensors"));

    checkpoints = open_folder(folder, 0, &ear);
    assert_int_equal(kn_checkpoints_count(checkpoints), 2);
    save(checkpoints, UINT64_C(1000000000000), false); /* a step with one more digit is still sorted last */
    save(checkpoints, 30, false);
    assert_int_equal(kn_checkpoints_count(checkpoints), 4);
    assert_true(newest(checkpoints) == 1e12f);
    assert_non_null(kn_checkpoints_best(checkpoints));
    kn_checkpoints_destroy(&checkpoints);
    assert_int_equal(ear.warnings, 0);
}

TEST_IN_FOLDER(the_best_is_the_last_resort) {
    const char *folder = *state;
    char path[4096];
    heard ear = {0};
    kn_host host = kn_host_defaults();
    kn_checkpoints *checkpoints = open_folder(folder, 3, &ear);
    save(checkpoints, 10, false);
    save(checkpoints, 8, true);
    test_path(path, sizeof path, folder, "step-000000000010.safetensors");
    assert_int_equal(kn_file_write(&host, path, "nothing", 7, NULL), KN_OK);
    assert_true(newest(checkpoints) == 8);
    assert_int_equal(ear.warnings, 1);
    test_path(path, sizeof path, folder, "best.safetensors");
    assert_int_equal(kn_file_write(&host, path, "nothing", 7, NULL), KN_OK);
    assert_true(newest(checkpoints) == -1);
    assert_true(strlen(kn_checkpoints_error(checkpoints)) > 0); /* distinguishes it from an empty folder */
    kn_checkpoints_destroy(&checkpoints);
}

TEST_IN_FOLDER(incomplete_files_are_removed) {
    const char *folder = *state;
    char path[4096];
    heard ear = {0};
    kn_host host = kn_host_defaults();
    const char *const names[] = {".koine-0123456789abcdef.tmp", ".koine-notes", "step-12.safetensors",
                                 "step-00000000000x.safetensors", "step-000000000001.safetensors.damaged"};
    for (int i = 0; i < 5; i++)
        assert_int_equal(kn_file_write(&host, test_path(path, sizeof path, folder, names[i]), "x", 1, NULL),
                         KN_OK);
    kn_checkpoints *checkpoints = open_folder(folder, 3, &ear);
    assert_int_equal(kn_checkpoints_count(checkpoints), 0);
    assert_false(has(folder, names[0]));
    for (int i = 1; i < 5; i++)
        assert_true(has(folder, names[i])); /* files of other programs remain */
    kn_checkpoints_destroy(&checkpoints);
}

TEST_IN_FOLDER(unusable_folders) {
    char path[4096];
    kn_host host = kn_host_defaults();
    heard ear = {0};
    test_path(path, sizeof path, *state, "file");
    assert_int_equal(kn_file_write(&host, path, "x", 1, NULL), KN_OK);
    const char *const paths[] = {"", path, "/proc", "/proc/nowhere/below"};
    for (int i = 0; i < 4; i++) {
        kn_checkpoints *checkpoints = open_folder(paths[i], 3, &ear);
        assert_int_not_equal(kn_checkpoints_status(checkpoints), KN_OK);
        assert_true(strlen(kn_checkpoints_error(checkpoints)) > 10);
        assert_null(kn_checkpoints_newest(checkpoints));
        kn_checkpoints_destroy(&checkpoints);
    }
    /* Below a folder that does not exist yet. */
    test_path(path, sizeof path, *state, "one/two");
    kn_checkpoints *checkpoints = open_folder(path, 3, &ear);
    assert_int_equal(kn_checkpoints_status(checkpoints), KN_OK);
    save(checkpoints, 1, false);
    kn_checkpoints_destroy(&checkpoints);
}

/* If a state cannot be read, the existing files stay. */
TEST_IN_FOLDER(failed_writes) {
    const char *folder = *state;
    heard ear = {0};
    kn_checkpoints *checkpoints = open_folder(folder, 1, &ear);
    kn_model *model = parse(text);
    save(checkpoints, 1, false);
    for (int calls = 1; calls <= 2; calls++) {
        kn_states *states = states_of(2);
        fake_states_fail_after(states, calls);
        assert_int_not_equal(kn_checkpoints_save(checkpoints, model, states, 2, NULL, 0), KN_OK);
        assert_true(strlen(kn_checkpoints_error(checkpoints)) > 0);
        fake_states_release(states);
        assert_int_equal(kn_checkpoints_count(checkpoints), 1);
    }
    assert_false(has(folder, "step-000000000002.safetensors"));
    assert_true(newest(checkpoints) == 1);
    kn_model_destroy(&model);
    kn_checkpoints_destroy(&checkpoints);
}

/* ---- broken files --------------------------------------------------------------------------------- */

typedef struct bytes {
    uint8_t *data;
    uint64_t count;
} bytes;

/* The offset of `words` in a file. */
static uint64_t place_of(const bytes *file, const char *words) {
    size_t length = strlen(words);
    for (uint64_t i = 0; i + length <= file->count; i++)
        if (!memcmp(file->data + i, words, length)) return i;
    fail_msg("no '%s' in the file", words);
    return 0;
}

static void put(bytes *file, const char *words, const char *others) {
    memcpy(file->data + place_of(file, words), others, strlen(others));
}

static void set_length(bytes *file, uint64_t length) {
    for (int i = 0; i < 8; i++)
        file->data[i] = (uint8_t)(length >> (8 * i));
}

static const char *const breakages[] = {"an empty file",
                                        "one byte",
                                        "the length of the header alone",
                                        "cut off within the header",
                                        "no data after the header",
                                        "half of it",
                                        "without its last byte",
                                        "a byte too many",
                                        "a header that is longer than any file",
                                        "a header of no bytes",
                                        "no brace where the header begins",
                                        "a header that is no JSON",
                                        "another name of a tensor",
                                        "another type of the same width",
                                        "another shape of the same size",
                                        "offsets beyond the end",
                                        "another text of the model",
                                        "another setting in the metadata",
                                        "a checksum with another digit",
                                        "no checksum",
                                        "a checksum in escapes",
                                        "one bit of the first tensor",
                                        "one bit of the last byte",
                                        "zeros instead of all of it",
                                        "zeros instead of its end"};
enum { BREAKAGES = sizeof breakages / sizeof *breakages };

static void break_file(bytes *file, int which) {
    uint64_t header = file->data[0] + 256u * file->data[1] + 8, at;
    switch (which) {
    case 0:
        file->count = 0;
        break;
    case 1:
        file->count = 1;
        break;
    case 2:
        file->count = 8;
        break;
    case 3:
        file->count = header / 2;
        break;
    case 4:
        file->count = header;
        break;
    case 5:
        file->count /= 2;
        break;
    case 6:
        file->count--;
        break;
    case 7:
        file->data[file->count++] = 0;
        break;
    case 8:
        set_length(file, UINT64_MAX);
        break;
    case 9:
        set_length(file, 0);
        break;
    case 10:
        file->data[8] = ' ';
        break;
    case 11:
        put(file, "\"shape\":", "\"shape\";");
        break;
    case 12:
        put(file, "logits.weight", "logits.height");
        break;
    case 13:
        put(file, "F32", "I32");
        break;
    case 14:
        put(file, "[4,3]", "[3,4]");
        break;
    case 15:
        put(file, "[0,48]", "[9,57]");
        break;
    case 16:
        put(file, "linear 4", "linear 5");
        break;
    case 17:
        put(file, "here", "her3");
        break;
    case 18:
        at = place_of(file, "koine.checksum") + strlen("koine.checksum\":\"");
        file->data[at] = file->data[at] == '0' ? '1' : '0';
        break;
    case 19:
        put(file, "koine.checksum", "koine.checkpus");
        break;
    case 20:
        at = place_of(file, "koine.checksum") + strlen("koine.checksum\":\"");
        memcpy(file->data + at, "\\u0030\\u0030\\u00", 16);
        break;
    case 21:
        file->data[header] ^= 1;
        break;
    case 22:
        file->data[file->count - 1] ^= 128;
        break;
    case 23:
        memset(file->data, 0, (size_t)file->count);
        break;
    default:
        memset(file->data + file->count - 9, 0, 9);
    }
}

/* Each broken file is reported and renamed, and the one before it is used, unchanged; then that one is broken
 * in turn. */
TEST_IN_FOLDER(broken_files) {
    const char *folder = *state;
    char path[4096], before[4096];
    kn_host host = kn_host_defaults();
    test_path(path, sizeof path, folder, "step-000000000002.safetensors");
    test_path(before, sizeof before, folder, "step-000000000001.safetensors");
    for (int which = 0; which < BREAKAGES; which++) {
        heard ear = {0};
        bytes file, old, now;
        kn_checkpoints *checkpoints = open_folder(folder, 2, &ear);
        save(checkpoints, 1, false);
        save(checkpoints, 2, false);
        assert_true(newest(checkpoints) == 2);
        assert_int_equal(kn_file_read(&host, path, 1 << 20, &file.data, &file.count, NULL), KN_OK);
        assert_int_equal(kn_file_read(&host, before, 1 << 20, &old.data, &old.count, NULL), KN_OK);
        break_file(&file, which);
        assert_int_equal(kn_file_write(&host, path, file.data, (size_t)file.count, NULL), KN_OK);
        double found = newest(checkpoints);
        if (found != 1 || ear.warnings != 1)
            fail_msg("%s: found step %g with %d warnings, expected the one before with a warning",
                     breakages[which], found, ear.warnings);
        if (!strstr(ear.last, "damaged") || !strstr(ear.last, path))
            fail_msg("%s: the warning is '%s'", breakages[which], ear.last);
        assert_int_equal(kn_file_read(&host, before, 1 << 20, &now.data, &now.count, NULL), KN_OK);
        assert_true(now.count == old.count && !memcmp(now.data, old.data, (size_t)now.count));
        assert_false(kn_path_exists(path));
        assert_true(has(folder, "step-000000000002.safetensors.damaged"));
        kn_release(&host, file.data);
        kn_release(&host, old.data);
        kn_release(&host, now.data);
        kn_checkpoints_destroy(&checkpoints);
    }
}

TEST_FILE(test_checkpoints, NULL, NULL)
