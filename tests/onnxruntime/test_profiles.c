/* Profiles. */
#include "interface_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PROFILE_BYTES = 1 << 16 };

static OrtSessionOptions *profiled_options(const char *prefix) {
    OrtSessionOptions *options = NULL, *copy = NULL;
    succeeds(api->CreateSessionOptions(&options));
    succeeds(api->EnableProfiling(options, prefix));
    succeeds(api->CloneSessionOptions(options, &copy));
    api->ReleaseSessionOptions(options);
    return copy;
}

static void run_sums(OrtSession *session, int count) {
    float x[6] = {1, 2, 3, 4, 5, 6};
    for (int i = 0; i < count; i++) {
        OrtValue *value = floats(x, 2, 3), *y = NULL;
        succeeds(run1(session, NULL, "x", value, "y", &y));
        assert_true(numbers(y)[5] == 8);
        api->ReleaseValue(y);
        api->ReleaseValue(value);
    }
}

/* The number of events of a category whose names end so, after each has been checked for its fields. */
static int count_events(char *text, const char *category, const char *end) {
    int found = 0;
    char wanted[80], name[80];
    snprintf(wanted, sizeof wanted, "{\"cat\" : \"%s\"", category);
    snprintf(name, sizeof name, "%s\",\"args\" : {", end);
    assert_int_equal(strncmp(text, "[\n", 2), 0);
    for (char *line = text + 2, *next; *line != ']'; line = next) {
        next = strchr(line, '\n');
        assert_non_null(next);
        *next = 0;
        static const char *const fields[] = {"{\"cat\" : \"", "\"pid\" :", "\"tid\" :",    "\"dur\" :",
                                             "\"ts\" :",      "\"X\"",     "\"name\" :\"", "\"args\" : {"};
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
            if (!strstr(line, fields[i])) fail_msg("no %s: %s", fields[i], line);
        if (strcmp(next - 2, "},") && strcmp(next - 1, "}")) fail_msg("not ended: %s", line);
        assert_true(strstr(line, "\"dur\" :-") == NULL && strstr(line, "\"ts\" :-") == NULL);
        found += !strncmp(line, wanted, strlen(wanted)) && strstr(line, name);
        *next++ = '\n';
    }
    return found;
}

static void read_profile(const char *path, char *text) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    text[fread(text, 1, PROFILE_BYTES - 1, file)] = 0;
    fclose(file);
    assert_string_equal(text + strlen(text) - 3, "\n]\n");
}

static void profiles(void **state) {
    made model;
    char prefix[512], path[600], *text = malloc(PROFILE_BYTES), *name = NULL, *again = NULL;
    char *folder = test_folder_make();
    uint64_t start = 1, wanted = (uint64_t)time(NULL);
    assert_non_null(text);
    model_sum(&model);
    test_path(prefix, sizeof prefix, folder, "times");
    OrtSessionOptions *options = profiled_options(prefix);
    OrtSession *session = open_bytes(&model, options);
    succeeds(api->SessionGetProfilingStartTimeNs(session, &start));
    assert_true(start / 1000000000 - wanted + 1 < 60);
    run_sums(session, 3);
    succeeds(api->SessionEndProfiling(session, allocator, &name));
    assert_int_equal(strncmp(name, prefix, strlen(prefix)), 0);
    assert_string_equal(name + strlen(name) - 5, ".json");
    run_sums(session, 1); /* not in the file */
    succeeds(api->SessionEndProfiling(session, allocator, &again));
    assert_string_equal(again, "");
    succeeds(api->AllocatorFree(allocator, again));
    api->ReleaseSession(session);
    read_profile(name, text);
    assert_int_equal(count_events(text, "Session", "model_loading_array"), 1);
    assert_int_equal(count_events(text, "Session", "session_initialization"), 1);
    assert_int_equal(count_events(text, "Session", "model_run"), 3);
    assert_int_equal(count_events(text, "Session", "SequentialExecutor::Execute"), 3);
    assert_true(count_events(text, "Node", "_kernel_time") >= 3);
    assert_non_null(strstr(text, "\"op_name\" : \""));
    assert_non_null(strstr(text, original ? "CPUExecutionProvider" : "KoineExecutionProvider"));
    snprintf(path, sizeof path, "%s", name);
    succeeds(api->AllocatorFree(allocator, name));
    remove(path);
    /* The end of a session completes its file, and no options have no profile. */
    session = open_bytes(&model, options);
    run_sums(session, 1);
    api->ReleaseSession(session);
    succeeds(api->DisableProfiling(options));
    session = open_bytes(&model, options);
    succeeds(api->SessionGetProfilingStartTimeNs(session, &start));
    assert_int_equal(start, 0);
    succeeds(api->SessionEndProfiling(session, allocator, &again));
    assert_string_equal(again, "");
    succeeds(api->AllocatorFree(allocator, again));
    api->ReleaseSession(session);
    api->ReleaseSessionOptions(options);
    free(text);
    test_folder_remove(folder);
}

static void profiles_nowhere(void **state) {
    made model;
    OrtSession *session = NULL;
    OrtSessionOptions *options = profiled_options("no such folder/times");
    model_sum(&model);
    OrtStatus *status = api->CreateSessionFromArray(env, model.bytes, model.count, options, &session);
    if (original) /* which writes nothing */
        succeeds(status);
    else
        fails_with(status, ORT_FAIL, "no such folder/times");
    api->ReleaseSession(session);
    api->ReleaseSessionOptions(options);
}

int test_profiles(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(profiles),
        cmocka_unit_test(profiles_nowhere),
    };
    return run_group("profiles", tests);
}
