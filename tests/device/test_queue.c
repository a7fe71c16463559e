/* Transfers at any offset, and the order of work within and across the two queues. */
#include "device_tests.h"

#include <stdlib.h>
#include <string.h>

static const kn_event none = {NULL};

static kn_buffer *new_buffer(kn_context *context, uint64_t bytes) {
    kn_buffer *buffer = NULL;
    kn_error error = {0};
    if (kn_buffer_create(context, bytes, &buffer, &error)) fail_msg("%s", error.text);
    return buffer;
}

static void write_all(kn_context *context, kn_buffer *buffer, const void *bytes, uint64_t count) {
    kn_error error = {0};
    if (kn_queue_write(context, KN_QUEUE_COMPUTE, buffer, 0, bytes, count, true, none, NULL, &error))
        fail_msg("%s", error.text);
}

static void read_all(kn_context *context, kn_buffer *buffer, void *bytes, uint64_t count) {
    kn_error error = {0};
    if (kn_queue_read(context, KN_QUEUE_COMPUTE, buffer, 0, bytes, count, true, none, NULL, &error))
        fail_msg("%s", error.text);
}

TEST(bytes_are_copied_at_any_offset) {
    enum { BYTES = 300 };
    kn_context *context = open_context(NULL);
    kn_buffer *source = new_buffer(context, BYTES), *target = new_buffer(context, BYTES);
    kn_error error = {0};
    uint8_t sent[BYTES], expected[BYTES], got[BYTES];
    for (int i = 0; i < BYTES; i++)
        sent[i] = (uint8_t)(i * 7 + 1);
    static const uint64_t places[] = {0, 1, 2, 3, 5, 31, 64, 127};
    static const uint64_t lengths[] = {0, 1, 2, 3, 7, 64, 93};
    for (size_t p = 0; p < KN_COUNT_OF(places); p++)
        for (size_t n = 0; n < KN_COUNT_OF(lengths); n++)
            for (int queue = 0; queue < 2; queue++) {
                uint64_t from = places[p], to = places[(p + n) % KN_COUNT_OF(places)], length = lengths[n];
                /* A write, a copy and a read, each at its own offset. */
                memset(expected, 0xEE, BYTES);
                write_all(context, source, expected, BYTES);
                write_all(context, target, expected, BYTES);
                memcpy(expected + to, sent, length);
                assert_int_equal(kn_queue_write(context, (kn_queue)queue, source, from, sent, length, true,
                                                none, NULL, &error),
                                 KN_OK);
                kn_event copied = {NULL};
                assert_int_equal(kn_queue_copy(context, (kn_queue)queue, source, from, target, to, length,
                                               none, &copied, &error),
                                 KN_OK);
                assert_non_null(copied.handle);
                assert_int_equal(kn_event_wait(context, copied, &error), KN_OK);
                kn_event_release(&copied);
                read_all(context, target, got, BYTES);
                assert_memory_equal(got, expected, BYTES);
                memset(got, 0xEE, BYTES);
                assert_int_equal(kn_queue_read(context, (kn_queue)queue, target, to, got + to, length, true,
                                               none, NULL, &error),
                                 KN_OK);
                assert_memory_equal(got, expected, BYTES);
            }
    kn_buffer_destroy(&source);
    kn_buffer_destroy(&target);
    kn_context_destroy(&context);
}

TEST(ranges_are_checked) {
    kn_context *context = open_context(NULL);
    kn_buffer *buffer = new_buffer(context, 100), *other = new_buffer(context, 10);
    kn_error error = {0};
    uint8_t bytes[128] = {0};
    static const uint64_t wrong[][2] = {{0, 101}, {100, 1}, {101, 0}, {UINT64_MAX, 2}, {2, UINT64_MAX}};
    for (size_t i = 0; i < KN_COUNT_OF(wrong); i++) {
        uint64_t offset = wrong[i][0], count = wrong[i][1];
        assert_int_equal(kn_queue_write(context, 0, buffer, offset, bytes, count, true, none, NULL, &error),
                         KN_ERROR_ARGUMENT);
        assert_int_equal(kn_queue_read(context, 0, buffer, offset, bytes, count, true, none, NULL, &error),
                         KN_ERROR_ARGUMENT);
        assert_int_equal(kn_queue_fill(context, 0, buffer, offset, count, bytes, 1, NULL, &error),
                         KN_ERROR_ARGUMENT);
        assert_int_equal(kn_queue_copy(context, 0, buffer, offset, buffer, 0, count, none, NULL, &error),
                         KN_ERROR_ARGUMENT);
        assert_int_equal(kn_queue_copy(context, 0, buffer, 0, buffer, offset, count, none, NULL, &error),
                         KN_ERROR_ARGUMENT);
    }
    assert_int_equal(kn_queue_copy(context, 0, buffer, 0, other, 0, 11, none, NULL, &error),
                     KN_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "11"));
    assert_int_equal(kn_queue_write(context, 0, NULL, 0, bytes, 1, true, none, NULL, &error),
                     KN_ERROR_ARGUMENT);
    kn_buffer_destroy(&buffer);
    kn_buffer_destroy(&other);
    kn_context_destroy(&context);
}

TEST(patterns_fill) {
    kn_context *context = open_context(NULL);
    kn_buffer *buffer = new_buffer(context, 96);
    kn_error error = {0};
    uint8_t pattern[16], got[96];
    for (int i = 0; i < 16; i++)
        pattern[i] = (uint8_t)(0x10 + i);
    for (size_t bytes = 1; bytes <= 16; bytes *= 2) {
        memset(got, 0, sizeof got);
        write_all(context, buffer, got, sizeof got);
        kn_event done = {NULL};
        assert_int_equal(
            kn_queue_fill(context, KN_QUEUE_TRANSFER, buffer, 32, 48, pattern, bytes, &done, &error), KN_OK);
        assert_int_equal(kn_event_wait(context, done, &error), KN_OK);
        kn_event_release(&done);
        read_all(context, buffer, got, sizeof got);
        for (size_t i = 0; i < sizeof got; i++)
            assert_int_equal(got[i], i >= 32 && i < 80 ? pattern[(i - 32) % bytes] : 0);
    }
    static const struct {
        uint64_t offset, count;
        size_t pattern;
    } wrong[] = {{0, 12, 3}, {0, 32, 32}, {0, 8, 0}, {2, 8, 4}, {0, 6, 4}};
    for (size_t i = 0; i < KN_COUNT_OF(wrong); i++)
        assert_int_equal(kn_queue_fill(context, 0, buffer, wrong[i].offset, wrong[i].count, pattern,
                                       wrong[i].pattern, NULL, &error),
                         KN_ERROR_ARGUMENT);
    assert_int_equal(kn_queue_fill(context, 0, buffer, 96, 0, pattern, 4, NULL, &error), KN_OK);
    kn_buffer_destroy(&buffer);
    kn_context_destroy(&context);
}

TEST(empty_commands_keep_the_order) {
    kn_context *context = open_context(NULL);
    kn_buffer *buffer = new_buffer(context, 16);
    kn_error error = {0};
    kn_event done = {NULL}, second = {NULL};
    assert_int_equal(
        kn_queue_write(context, KN_QUEUE_TRANSFER, buffer, 16, NULL, 0, false, none, &done, &error), KN_OK);
    assert_non_null(done.handle);
    assert_int_equal(
        kn_queue_read(context, KN_QUEUE_COMPUTE, buffer, 0, NULL, 0, true, done, &second, &error), KN_OK);
    assert_int_equal(kn_event_wait(context, second, &error), KN_OK);
    kn_event_release(&done);
    kn_event_release(&second);
    assert_null(done.handle);
    kn_event_release(&done);
    assert_int_equal(kn_event_wait(context, none, &error), KN_OK);
    assert_int_equal(kn_queue_after(context, KN_QUEUE_COMPUTE, none, &error), KN_OK);
    assert_int_equal(kn_queue_flush(context, KN_QUEUE_TRANSFER, &error), KN_OK);
    assert_int_equal(kn_queue_finish(context, KN_QUEUE_TRANSFER, &error), KN_OK);
    kn_buffer_destroy(&buffer);
    kn_context_destroy(&context);
}

enum { COUNT = 64 };

/* Enqueues y = x after a while. Several short launches: some drivers end long loops. */
static void launch_slow(kn_context *context, kn_kernel *kernel, kn_buffer *x, kn_buffer *y) {
    kn_error error = {0};
    cl_int count = COUNT, rounds = test_cases_wanted() == TEST_ALL ? 400 : 10;
    kn_launch launch = {.dimensions = 1, .global = {1, 1, 1}, .local = {1, 1, 1}};
    if (kn_kernel_set_buffer(kernel, 0, x, &error) || kn_kernel_set_buffer(kernel, 1, y, &error) ||
        kn_kernel_set_bytes(kernel, 2, &count, sizeof count, &error) ||
        kn_kernel_set_bytes(kernel, 3, &rounds, sizeof rounds, &error))
        fail_msg("%s", error.text);
    for (int i = 0; i < 20; i++)
        if (kn_kernel_launch(context, kernel, &launch, "slow", &error)) fail_msg("%s", error.text);
}

TEST(a_write_does_not_overtake_a_kernel) {
    kn_context *context = open_context(NULL);
    kn_kernel *kernel = NULL;
    kn_error error = {0};
    kn_buffer *x = new_buffer(context, COUNT * 4), *y = new_buffer(context, COUNT * 4 + 4);
    float first[COUNT], second[COUNT], got[COUNT];
    for (int i = 0; i < COUNT; i++)
        first[i] = (float)i, second[i] = -1.0f;
    assert_int_equal(kn_kernel_create(context, twice_program(context), "slow_sum", &kernel, &error), KN_OK);
    for (int wait = 0; wait < 2; wait++) {
        write_all(context, x, first, sizeof first);
        launch_slow(context, kernel, x, y);
        assert_int_equal(kn_queue_write(context, KN_QUEUE_COMPUTE, x, 0, second, sizeof second, wait == 1,
                                        none, NULL, &error),
                         KN_OK);
        read_all(context, y, got, sizeof got);
        assert_memory_equal(got, first, sizeof first);
        read_all(context, x, got, sizeof got);
        assert_memory_equal(got, second, sizeof second);
    }
    kn_kernel_destroy(&kernel);
    kn_buffer_destroy(&x);
    kn_buffer_destroy(&y);
    kn_context_destroy(&context);
}

/* Batches are uploaded on the transfer queue while the previous batch is computed, and results are downloaded
 * on it; each has two alternating buffers, as in training. */
TEST(the_queues_work_side_by_side) {
    enum { ROUNDS = 12 };
    kn_context *context = open_context(NULL);
    kn_kernel *kernel = NULL;
    kn_error error = {0};
    kn_buffer *x[2], *y[2];
    kn_event uploaded[2] = {none, none}, computed[2] = {none, none}, fetched[2] = {none, none};
    float sent[ROUNDS][COUNT], got[ROUNDS][COUNT];
    assert_int_equal(kn_kernel_create(context, twice_program(context), "slow_sum", &kernel, &error), KN_OK);
    for (int i = 0; i < 2; i++) {
        x[i] = new_buffer(context, COUNT * 4);
        y[i] = new_buffer(context, COUNT * 4 + 4);
    }
    for (int round = 0; round < ROUNDS; round++) {
        int place = round % 2;
        for (int i = 0; i < COUNT; i++)
            sent[round][i] = (float)(round * 100 + i);
        /* The buffer is free when the last kernel but one has read it. */
        kn_event_release(&uploaded[place]);
        assert_int_equal(kn_queue_write(context, KN_QUEUE_TRANSFER, x[place], 0, sent[round],
                                        sizeof sent[round], false, computed[place], &uploaded[place], &error),
                         KN_OK);
        assert_int_equal(kn_queue_after(context, KN_QUEUE_COMPUTE, uploaded[place], &error), KN_OK);
        assert_int_equal(kn_queue_after(context, KN_QUEUE_COMPUTE, fetched[place], &error), KN_OK);
        launch_slow(context, kernel, x[place], y[place]);
        kn_event_release(&computed[place]);
        assert_int_equal(kn_queue_mark(context, KN_QUEUE_COMPUTE, &computed[place], &error), KN_OK);
        kn_event_release(&fetched[place]);
        assert_int_equal(kn_queue_read(context, KN_QUEUE_TRANSFER, y[place], 0, got[round], sizeof got[round],
                                       false, computed[place], &fetched[place], &error),
                         KN_OK);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(kn_event_wait(context, fetched[i], &error), KN_OK);
    for (int round = 0; round < ROUNDS; round++)
        assert_memory_equal(got[round], sent[round], sizeof sent[round]);
    for (int i = 0; i < 2; i++) {
        kn_event_release(&uploaded[i]);
        kn_event_release(&computed[i]);
        kn_event_release(&fetched[i]);
        kn_buffer_destroy(&x[i]);
        kn_buffer_destroy(&y[i]);
    }
    kn_kernel_destroy(&kernel);
    kn_context_destroy(&context);
}

TEST_FILE(test_queue, NULL, NULL)
