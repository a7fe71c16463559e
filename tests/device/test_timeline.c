/* The timeline: what ran when, under which name. */
#include "device_tests.h"

#include <stdio.h>
#include <string.h>

static const kn_event none = {NULL};

static kn_context *recording_context(void) {
    kn_context_params params = test_params();
    params.timeline = true;
    kn_context *context = open_context(&params);
    assert_true(context->records);
    kn_context_timeline_clear(context);
    return context;
}

TEST(work_is_recorded_in_order) {
    kn_context *context = recording_context();
    kn_buffer *buffer = NULL;
    kn_kernel *kernel = NULL;
    kn_error error = {0};
    float values[8] = {0};
    assert_int_equal(kn_buffer_create(context, sizeof values, &buffer, &error), KN_OK);
    assert_int_equal(kn_kernel_create(context, twice_program(context), "twice", &kernel, &error), KN_OK);
    assert_int_equal(kn_kernel_set_buffer(kernel, 0, buffer, &error), KN_OK);
    double before = kn_clock() - context->made;
    assert_int_equal(kn_queue_write(context, KN_QUEUE_TRANSFER, buffer, 0, values, sizeof values, true, none,
                                    NULL, &error),
                     KN_OK);
    for (int i = 0; i < 3; i++) {
        char label[32]; /* gone when the timeline is read */
        snprintf(label, sizeof label, "step %d", i % 2);
        kn_launch launch = {.dimensions = 1, .global = {8, 1, 1}, .local = {1, 1, 1}};
        assert_int_equal(kn_kernel_launch(context, kernel, &launch, label, &error), KN_OK);
    }
    assert_int_equal(
        kn_queue_read(context, KN_QUEUE_COMPUTE, buffer, 0, values, sizeof values, true, none, NULL, &error),
        KN_OK);
    double after = kn_context_clock(context);
    size_t count = 0;
    const kn_timeline_entry *entries = kn_context_timeline(context, &count);
    static const char *const labels[] = {"upload", "step 0", "step 1", "step 0", "download"};
    assert_int_equal(count, 5);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(entries[i].label, labels[i]);
        assert_int_equal(entries[i].queue, i == 0 ? 1 : 0);
        assert_true(entries[i].start <= entries[i].end);
        if (i > 1) assert_true(entries[i].start >= entries[i - 1].end - 1e-6);
        /* On the host's clock, within the error of relating the two clocks. */
        assert_true(entries[i].start > before - 0.05 && entries[i].end < after + 0.05);
    }
    kn_context_timeline_clear(context);
    kn_context_timeline(context, &count);
    assert_int_equal(count, 0);
    kn_kernel_destroy(&kernel);
    kn_buffer_destroy(&buffer);
    kn_context_destroy(&context);
}

TEST(long_recordings_are_complete) {
    enum { PIECES = 2500 };
    kn_context *context = recording_context();
    kn_buffer *buffer = NULL;
    kn_error error = {0};
    cl_int zero = 0;
    assert_int_equal(kn_buffer_create(context, 64, &buffer, &error), KN_OK);
    for (int i = 0; i < PIECES; i++)
        assert_int_equal(kn_queue_fill(context, KN_QUEUE_COMPUTE, buffer, 0, 64, &zero, 4, NULL, &error),
                         KN_OK);
    size_t count = 0;
    assert_non_null(kn_context_timeline(context, &count));
    assert_int_equal(count, PIECES);
    /* What was returned does not change while work continues. */
    const kn_timeline_entry *entries = kn_context_timeline(context, &count);
    kn_timeline_entry first = entries[0];
    for (int i = 0; i < PIECES; i++)
        assert_int_equal(kn_queue_fill(context, KN_QUEUE_TRANSFER, buffer, 0, 64, &zero, 4, NULL, &error),
                         KN_OK);
    assert_memory_equal(&first, &entries[0], sizeof first);
    assert_int_equal(entries[PIECES - 1].queue, KN_QUEUE_COMPUTE);
    /* Work that is still unread when the context is destroyed leaks nothing. */
    assert_int_equal(kn_queue_fill(context, KN_QUEUE_COMPUTE, buffer, 0, 64, &zero, 4, NULL, &error), KN_OK);
    kn_buffer_destroy(&buffer);
    kn_context_destroy(&context);
}

TEST(without_a_request_nothing_is_recorded) {
    kn_context *context = open_context(NULL);
    kn_buffer *buffer = NULL;
    kn_error error = {0};
    cl_int zero = 0;
    assert_int_equal(kn_buffer_create(context, 64, &buffer, &error), KN_OK);
    assert_int_equal(kn_queue_fill(context, KN_QUEUE_COMPUTE, buffer, 0, 64, &zero, 4, NULL, &error), KN_OK);
    size_t count = 7;
    assert_null(kn_context_timeline(context, &count));
    assert_int_equal(count, 0);
    kn_context_timeline_clear(context);
    kn_buffer_destroy(&buffer);
    kn_context_destroy(&context);
}

TEST_FILE(test_timeline, NULL, NULL)
