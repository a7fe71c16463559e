/* The disk cache: valid entries are used, and invalid ones are replaced silently. */
#include "device_tests.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <time.h>
#include <utime.h>

static kn_host host;

static kn_context_counts counts_of(const kn_context *context) {
    kn_context_counts counts = {.size = sizeof counts};
    assert_int_equal(kn_context_get_counts(context, &counts), KN_OK);
    return counts;
}

static uint64_t built_at_first; /* by opening the last cached_context */

/* A context with the cache that records its log; claims are not probed, except the short header. */
static kn_context *cached_context(const char *folder, remembered *lines) {
    kn_context_params params = test_params();
    params.cache_folder = folder;
    params.trust_claims = true;
    params.log = remembering_log(lines);
    kn_context *context = open_context(&params);
    built_at_first = counts_of(context).programs_built;
    return context;
}

/* Gets the program in a new context and returns whether it was compiled; it must work, and nothing may be
 * logged. */
static bool compiles(const char *folder, const char *source) {
    remembered lines;
    kn_context *context = cached_context(folder, &lines);
    kn_program *program = NULL;
    kn_kernel *kernel = NULL;
    kn_buffer *buffer = NULL;
    kn_error error = {0};
    kn_event none = {NULL};
    wrapped_reset();
    if (kn_program_get_source(context, "cached.cl", source, &program, &error)) fail_msg("%s", error.text);
    bool compiled = wrapped_calls.sources > 0;
    const kn_context_counts counts = counts_of(context);
    assert_int_equal(counts.programs_built - built_at_first, compiled ? 1 : 0);
    assert_int_equal(counts.programs_loaded, compiled ? 0 : 1);
    assert_int_equal(lines.loud, folder && !kn_path_is_folder(folder) && folder[0]);
    cl_int got = 0;
    kn_launch launch = {.dimensions = 1, .global = {1, 1, 1}, .local = {1, 1, 1}};
    if (kn_kernel_create(context, program, "k", &kernel, &error) ||
        kn_buffer_create(context, 4, &buffer, &error) || kn_kernel_set_buffer(kernel, 0, buffer, &error) ||
        kn_kernel_launch(context, kernel, &launch, "k", &error) ||
        kn_queue_read(context, KN_QUEUE_COMPUTE, buffer, 0, &got, 4, true, none, NULL, &error))
        fail_msg("%s", error.text);
    assert_int_equal(got, 5);
    kn_kernel_destroy(&kernel);
    kn_buffer_destroy(&buffer);
    kn_context_destroy(&context);
    return compiled;
}

static const char source[] = "kernel void k(global int *y) { y[0] = 5; }\n";
static const char other_source[] = "kernel void k(global int *y) { y[0] = 2 + 3; }\n";

/* The paths of the entries; returns their number. */
static int entries(const char *folder, char paths[][512], int room) {
    char programs[512];
    DIR *listing = opendir(test_path(programs, sizeof programs, folder, "programs"));
    int count = 0;
    if (!listing) return 0;
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        if (entry->d_name[0] == '.' && strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            fail_msg("%s was not removed", entry->d_name);
        if (entry->d_name[0] == '.') continue;
        assert_true(count < room);
        if (strlen(entry->d_name) != 20 || strcmp(entry->d_name + 16, ".bin"))
            fail_msg("%s was not removed", entry->d_name);
        test_path(paths[count++], 512, programs, entry->d_name);
    }
    closedir(listing);
    return count;
}

/* The path and the bytes of the only entry. */
static uint8_t *only_entry(const char *folder, char path[1][512], uint64_t *count) {
    uint8_t *bytes = NULL;
    assert_int_equal(entries(folder, path, 1), 1);
    assert_int_equal(kn_file_read(&host, path[0], UINT32_MAX, &bytes, count, NULL), KN_OK);
    return bytes;
}

static void put(const char *path, const void *bytes, uint64_t count) {
    assert_int_equal(kn_file_write(&host, path, bytes, (size_t)count, NULL), KN_OK);
}

TEST(a_second_context_compiles_nothing) {
    host = kn_host_defaults();
    char *folder = test_folder_make(), paths[4][512];
    assert_true(compiles(folder, source));
    assert_false(compiles(folder, source));
    assert_int_equal(wrapped_calls.sources, 0);
    assert_int_equal(wrapped_calls.binaries, 1);
    assert_int_equal(entries(folder, paths, 4), 1);
    assert_true(compiles(folder, other_source));
    assert_false(compiles(folder, other_source));
    assert_false(compiles(folder, source));
    assert_int_equal(entries(folder, paths, 4), 2);
    test_folder_remove(folder);
}

/* Other processes find the program at once, and so does the next start if this process is killed. */
TEST(entries_are_written_at_once) {
    char *folder = test_folder_make(), paths[2][512];
    remembered lines;
    kn_context *context = cached_context(folder, &lines);
    kn_program *program = NULL;
    wrapped_reset();
    assert_int_equal(kn_program_get_source(context, "cached.cl", source, &program, NULL), KN_OK);
    assert_int_equal(wrapped_calls.sources, 1);
    assert_int_equal(entries(folder, paths, 2), 1);
    kn_context_destroy(&context);
    assert_int_equal(entries(folder, paths, 2), 1);
    test_folder_remove(folder);
}

/* A driver that caches programs itself is not asked for binaries: the entry records that the driver has the
 * program. */
TEST(programs_kept_by_the_driver_have_an_empty_entry) {
    host = kn_host_defaults();
    char *folder = test_folder_make(), path[1][512];
    for (int turn = 0; turn < 2; turn++) {
        remembered lines;
        kn_context *context = cached_context(folder, &lines);
        kn_program *program = NULL;
        kn_kernel *kernel = NULL;
        kn_error error = {0};
        context->capabilities.shares_programs = false;
        wrapped_reset();
        wrapped_calls.fail_name = "clGetProgramInfo";
        if (kn_program_get_source(context, "cached.cl", source, &program, &error)) fail_msg("%s", error.text);
        if (kn_kernel_create(context, program, "k", &kernel, &error)) fail_msg("%s", error.text);
        kn_kernel_destroy(&kernel);
        const kn_context_counts counts = counts_of(context);
        assert_int_equal(wrapped_calls.sources, 1);
        assert_int_equal(counts.programs_built - built_at_first, turn == 0);
        assert_int_equal(counts.programs_loaded, turn == 1);
        kn_context_destroy(&context);
        assert_null(wrapped_calls.failed);
    }
    uint64_t count = 0;
    uint8_t *bytes = only_entry(folder, path, &count);
    assert_true(count < 2048); /* the source, and no binary */
    kn_release(&host, bytes);
    wrapped_reset();
    assert_true(compiles(folder, source)); /* where binaries are wanted */
    assert_true(count < 2048);
    test_folder_remove(folder);
}

/* A program that is used only once is not written, unless another use requests it. */
TEST(programs_used_once_are_not_written) {
    static const char prelude[] = "#define KEPT 1\n";
    const kn_program_request requests[] = {{.file = "probe/matmul.cl", .prelude = "", .passing = true},
                                           {.file = "probe/matmul.cl", .prelude = prelude, .passing = true},
                                           {.file = "probe/matmul.cl", .prelude = prelude}};
    char *folder = test_folder_make(), paths[3][512];
    remembered lines;
    kn_context *context = cached_context(folder, &lines);
    kn_program *programs[3] = {NULL};
    for (int i = 0; i < 3; i++)
        assert_int_equal(kn_program_get(context, &requests[i], &programs[i], NULL), KN_OK);
    assert_ptr_equal(programs[1], programs[2]);
    kn_context_destroy(&context);
    assert_int_equal(entries(folder, paths, 3), 1);
    test_folder_remove(folder);
}

TEST(corrupt_entries_are_replaced) {
    host = kn_host_defaults();
    char *folder = test_folder_make(), path[1][512];
    uint64_t count = 0;
    compiles(folder, source);
    uint8_t *bytes = only_entry(folder, path, &count);
    /* Each byte of the header, and some of the key and the payload. */
    uint64_t places[64], used = 0, key = 40;
    for (uint64_t i = 0; i < key; i += test_cases_wanted() == TEST_ALL ? 1 : 13)
        places[used++] = i;
    places[used++] = key;
    places[used++] = key + 100;
    places[used++] = count / 2;
    places[used++] = count - 1;
    for (uint64_t i = 0; i < used; i++) {
        bytes[places[i]] ^= 0x20;
        put(path[0], bytes, count);
        bytes[places[i]] ^= 0x20;
        if (!compiles(folder, source)) fail_msg("a flipped bit in byte %d was believed", (int)places[i]);
    }
    assert_false(compiles(folder, source));
    kn_release(&host, bytes);
    test_folder_remove(folder);
}

TEST(truncated_and_longer_entries_are_replaced) {
    host = kn_host_defaults();
    char *folder = test_folder_make(), path[1][512];
    uint64_t count = 0;
    compiles(folder, source);
    uint8_t *bytes = only_entry(folder, path, &count);
    uint64_t lengths[] = {0, 1, 8, 39, 40, 41, count / 2, count - 1};
    for (size_t i = 0; i < KN_COUNT_OF(lengths); i++) {
        put(path[0], bytes, lengths[i]);
        if (!compiles(folder, source)) fail_msg("an entry cut to %d bytes was believed", (int)lengths[i]);
    }
    uint8_t *longer = calloc(1, count + 1);
    memcpy(longer, bytes, count);
    put(path[0], longer, count + 1);
    assert_true(compiles(folder, source));
    assert_false(compiles(folder, source));
    free(longer);
    kn_release(&host, bytes);
    test_folder_remove(folder);
}

/* A valid entry of a different program under our program's file name: only the key inside identifies it. */
TEST(foreign_entries_are_replaced) {
    host = kn_host_defaults();
    char *folder = test_folder_make(), *other = test_folder_make(), path[1][512], other_path[1][512];
    static const char wrong_source[] = "kernel void k(global int *y) { y[0] = 6; }\n"; /* the same length */
    remembered lines;
    kn_context *context = cached_context(other, &lines);
    kn_program *program = NULL;
    assert_int_equal(kn_program_get_source(context, "cached.cl", wrong_source, &program, NULL), KN_OK);
    kn_context_destroy(&context);
    uint64_t count = 0, other_count = 0;
    compiles(folder, source);
    uint8_t *bytes = only_entry(folder, path, &count),
            *other_bytes = only_entry(other, other_path, &other_count);
    put(path[0], other_bytes, other_count);
    assert_true(compiles(folder, source)); /* and returns 5, not 6 */
    assert_false(compiles(folder, source));
    kn_release(&host, bytes);
    kn_release(&host, other_bytes);
    test_folder_remove(folder);
    test_folder_remove(other);
}

/* The entry is valid, but the driver no longer accepts it. (No driver is given an invalid binary: some
 * abort.) */
TEST(stale_entries_are_replaced) {
    host = kn_host_defaults();
    char *folder = test_folder_make();
    static const struct {
        const char *function;
        cl_int code;
    } cases[] = {{"clCreateProgramWithBinary", CL_INVALID_BINARY}, {"clBuildProgram", CL_INVALID_BINARY}};
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        remembered lines;
        kn_context *context = cached_context(folder, &lines);
        kn_program *program = NULL;
        kn_error error = {0};
        compiles(folder, source);
        wrapped_reset();
        wrapped_calls.fail_name = cases[i].function;
        wrapped_calls.fail_code = cases[i].code;
        kn_status status = kn_program_get_source(context, "cached.cl", source, &program, &error);
        assert_int_equal(wrapped_calls.sources, 1); /* it fell back to the source */
        assert_int_equal(status, i == 0 ? KN_OK : KN_ERROR_COMPILE);
        assert_int_equal(lines.loud, 0);
        wrapped_reset();
        kn_context_destroy(&context);
        assert_false(compiles(folder, source));
    }
    /* An entry with a different format version, otherwise valid. */
    char path[1][512];
    uint64_t count = 0;
    uint8_t *bytes = only_entry(folder, path, &count);
    bytes[8]++;
    put(path[0], bytes, count);
    assert_true(compiles(folder, source));
    kn_release(&host, bytes);
    test_folder_remove(folder);
}

TEST(a_cache_that_cannot_be_written_is_no_failure) {
    host = kn_host_defaults();
    char *folder = test_folder_make(), file[512];
    test_path(file, sizeof file, folder, "file");
    put(file, "x", 1);
    assert_true(compiles(file, source)); /* a file where the folder should be */
    assert_true(compiles(file, source));
    assert_true(compiles(NULL, source));
    assert_true(compiles("", source));
    /* Drivers that return no binary. */
    remembered lines;
    char paths[2][512];
    kn_context *context = cached_context(file, &lines);
    assert_non_null(
        strstr(lines.all, "compiled kernels are not cached between runs: cannot create the folder"));
    assert_non_null(strstr(lines.all, file));
    kn_context_destroy(&context);
    context = cached_context(folder, &lines);
    kn_program *program = NULL;
    wrapped_calls.fail_name = "clGetProgramInfo";
    wrapped_calls.fail_code = CL_INVALID_VALUE;
    assert_int_equal(kn_program_get_source(context, "cached.cl", source, &program, NULL), KN_OK);
    kn_context_destroy(&context);
    wrapped_reset();
    assert_int_equal(entries(folder, paths, 2), 0);
    test_folder_remove(folder);
}

/* As on a full disk: reported once, with the reason, and no incomplete entry is left. */
TEST(full_disks_are_reported) {
    char *folder = test_folder_make(), paths[2][512];
    remembered lines;
    kn_context *context = cached_context(folder, &lines);
    kn_program *program = NULL;
    kn_source texts[2];
    assert_int_equal(kn_source_text(context, "cached.cl", "", source, &texts[0], NULL), KN_OK);
    assert_int_equal(kn_source_text(context, "cached.cl", "", other_source, &texts[1], NULL), KN_OK);
    assert_int_equal(kn_program_get_source(context, "cached.cl", source, &program, NULL), KN_OK);
    assert_int_equal(entries(folder, paths, 2), 1);
    assert_int_equal(unlink(paths[0]), 0);
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    none = (struct rlimit){.rlim_cur = 16, .rlim_max = before.rlim_max};
    void (*earlier)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    /* Not by compiling: drivers write files, too. */
    for (int i = 0; i < 2; i++)
        kn_program_cache_store(context, &texts[i], program->program);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, earlier);
    for (int i = 0; i < 2; i++)
        kn_source_finish(&texts[i]);
    kn_context_destroy(&context);
    assert_int_equal(lines.loud, 1);
    assert_non_null(strstr(lines.all, "compiled kernels are not cached between runs: cannot write"));
    assert_int_equal(entries(folder, paths, 2), 0);
    test_folder_remove(folder);
}

/* Temporary files of killed programs are removed, but not recent files or files of other programs. */
TEST(old_temporary_files_are_swept) {
    host = kn_host_defaults();
    static const char *const names[] = {".koine-0123456789abcdef.tmp", ".koine-0123456789abcde0.tmp",
                                        "notes.tmp"};
    const struct utimbuf old = {time(NULL) - 7200, time(NULL) - 7200};
    for (int part = 0; part < 2; part++) {
        char *folder = test_folder_make(), place[512], path[3][512];
        assert_int_equal(kn_folder_make(&host,
                                        test_path(place, sizeof place, folder, part ? "devices" : "programs"),
                                        NULL),
                         KN_OK);
        for (int i = 0; i < 3; i++)
            put(test_path(path[i], sizeof path[i], place, names[i]), "half", 4);
        assert_int_equal(utime(path[0], &old) | utime(path[2], &old), 0);
        remembered lines;
        kn_context *context = cached_context(folder, &lines);
        kn_context_destroy(&context);
        assert_false(kn_path_exists(path[0]));
        assert_true(kn_path_exists(path[1]) && kn_path_exists(path[2]));
        test_folder_remove(folder);
    }
}

TEST_FILE(test_cache, NULL, NULL)
