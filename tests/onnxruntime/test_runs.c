/* Runs, bindings, and runs from several threads. */
#include "interface_tests.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void runs(void **state) {
    made model;
    float x[9], own[6];
    for (int i = 0; i < 9; i++)
        x[i] = (float)i;
    model_sum(&model);
    OrtSession *session = open_bytes(&model, NULL);
    /* Any batch, none too, and back. */
    static const int64_t batches[] = {2, 1, 3, 0, 2};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        OrtValue *value = floats(x, batches[i], 3), *y = NULL;
        succeeds(run1(session, NULL, "x", value, "y", &y));
        has_shape(y, 2, batches[i], 3);
        for (int k = 0; k < batches[i] * 3; k++)
            assert_true(numbers(y)[k] == x[k] + (float)(k % 3));
        api->ReleaseValue(y);
        api->ReleaseValue(value);
    }
    OrtValue *value = floats(x, 2, 3), *results[2] = {NULL, floats(own, 2, 3)};
    const char *const names[] = {"z", "y"};
    const char *const input = "x";
    succeeds(api->Run(session, NULL, &input, (const OrtValue *const *)&value, 1, names, 2, results));
    assert_true(numbers(results[0])[5] == -5);
    assert_true(own[5] == 7);
    api->ReleaseValue(results[0]);
    results[0] = NULL;
    OrtValue *small = floats(own, 1, 3), *wide = floats(x, 3, 2), *flat = NULL, *other = NULL;
    flat = tensor(x, 12, 1, 3, 0, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
    other = tensor(x, 24, 2, 2, 3, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32);
    fails(run1(session, NULL, "x", value, "y", &small), ORT_INVALID_ARGUMENT);
    fails(run1(session, NULL, "x", wide, "y", &results[0]), ORT_INVALID_ARGUMENT);
    fails(run1(session, NULL, "x", flat, "y", &results[0]), ORT_INVALID_ARGUMENT);
    fails(run1(session, NULL, "x", other, "y", &results[0]), ORT_INVALID_ARGUMENT);
    fails(run1(session, NULL, "q", value, "y", &results[0]), ORT_INVALID_ARGUMENT);
    fails(run1(session, NULL, "x", value, "q", &results[0]), ORT_INVALID_ARGUMENT);
    fails(api->Run(session, NULL, &input, (const OrtValue *const *)&value, 0, names, 1, results), ORT_FAIL);
    fails(api->Run(session, NULL, &input, (const OrtValue *const *)&value, 1, names, 0, results),
          ORT_INVALID_ARGUMENT);
    assert_null(results[0]);
    OrtRunOptions *options = NULL;
    succeeds(api->CreateRunOptions(&options));
    succeeds(api->RunOptionsSetTerminate(options));
    for (int i = 0; i < 2; i++)
        fails_with(run1(session, options, "x", value, "y", &results[0]), ORT_FAIL, "terminate flag");
    succeeds(api->RunOptionsUnsetTerminate(options));
    succeeds(run1(session, options, "x", value, "y", &results[0]));
    api->ReleaseRunOptions(options);
    api->ReleaseValue(results[0]);
    api->ReleaseValue(results[1]);
    api->ReleaseValue(small);
    api->ReleaseValue(wide);
    api->ReleaseValue(flat);
    api->ReleaseValue(other);
    api->ReleaseValue(value);
    api->ReleaseSession(session);
}

/* The value of an input decides what is computed, and a scalar may come as [1]. */
static void branches(void **state) {
    made model;
    float x[2] = {1, 5};
    int64_t rate;
    model_branches(&model);
    OrtSession *session = open_bytes(&model, NULL);
    static const int64_t rates[] = {16000, 8000, 16000, 1, 8000};
    const char *const inputs[] = {"rate", "x"}, *const output = "y";
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        rate = rates[i];
        OrtValue *values[2] = {tensor(&rate, sizeof rate, i % 2, 1, 0, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64),
                               floats(x, 1, 2)},
                 *y = NULL;
        succeeds(api->Run(session, NULL, inputs, (const OrtValue *const *)values, 2, &output, 1, &y));
        has_shape(y, 2, 1, 2);
        assert_true(numbers(y)[1] == (rate == 16000 ? 10 : -5));
        api->ReleaseValue(y);
        api->ReleaseValue(values[0]);
        api->ReleaseValue(values[1]);
    }
    api->ReleaseSession(session);
}

/* Computed values decide what is computed, and how large a result is. */
static void computed_choices(void **state) {
    made model;
    float x[90];
    uint32_t drawn = 7;
    model_computed(&model);
    OrtSession *session = open_bytes(&model, NULL);
    const char *const input = "x", *const outputs[] = {"y", "where"};
    for (int run = 0; run < 12; run++) {
        const int rows = run % 4 == 3 ? 4 : 30;
        float sum = 0;
        int count = 0, at = 0;
        for (int i = 0; i < rows * 3; i++) {
            if (run != 5) drawn = drawn * 1664525 + 1013904223; /* run 5 has the values of run 4 */
            if (run != 5) x[i] = (float)((int)(drawn >> 28) - (run % 2 ? 9 : 6));
            if (run == 8) x[i] = -1;
            sum += x[i];
            count += x[i] > 0;
        }
        OrtValue *value = floats(x, rows, 3), *results[2] = {NULL, NULL};
        succeeds(api->Run(session, NULL, &input, (const OrtValue *const *)&value, 1, outputs, 2, results));
        has_shape(results[0], 2, rows, 3);
        has_shape(results[1], 2, 2, count);
        const int64_t *where = (const int64_t *)numbers(results[1]);
        for (int i = 0; i < rows * 3; i++) {
            assert_true(numbers(results[0])[i] == (sum > 0 ? x[i] + x[i] : -x[i]));
            if (!(x[i] > 0)) continue;
            assert_int_equal(where[at], i / 3);
            assert_int_equal(where[count + at++], i % 3);
        }
        for (int i = 0; i < 2; i++)
            api->ReleaseValue(results[i]);
        /* One of the outputs needs one of the two. */
        OrtValue *one = NULL;
        succeeds(run1(session, NULL, "x", value, outputs[run % 2], &one));
        api->ReleaseValue(one);
        api->ReleaseValue(value);
    }
    api->ReleaseSession(session);
}

/* A loop whose condition is computed in each iteration. */
static void loops(void **state) {
    made model;
    model_loop(&model);
    OrtSession *session = open_bytes(&model, NULL);
    const char *const inputs[] = {"x", "limit"}, *const outputs[] = {"y", "sums"};
    for (int run = 0; run < 9; run++) {
        const int rows = 1 + run % 2;
        float x[6], limit = (float)(4 * run + 6), sums[60], v[6], sum = 0;
        int count = 0;
        for (int i = 0; i < rows * 3; i++)
            sum += v[i] = x[i] = 0.25F * (float)(1 + (run + i) % 5);
        for (; sum < limit; sums[count++] = sum) {
            sum = 0;
            for (int i = 0; i < rows * 3; i++)
                sum += v[i] += x[i] * x[i];
        }
        OrtValue *given[2] = {floats(x, rows, 3),
                              tensor(&limit, sizeof limit, 0, 0, 0, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT)};
        OrtValue *results[2] = {NULL, NULL};
        succeeds(api->Run(session, NULL, inputs, (const OrtValue *const *)given, 2, outputs, 2, results));
        has_shape(results[0], 2, rows, 3);
        has_shape(results[1], 1, count, 0);
        for (int i = 0; i < rows * 3; i++)
            assert_true(fabsf(numbers(results[0])[i] - v[i]) <= 1e-4F * v[i]);
        for (int i = 0; i < count; i++)
            assert_true(fabsf(numbers(results[1])[i] - sums[i]) <= 1e-4F * sums[i]);
        for (int i = 0; i < 2; i++) {
            api->ReleaseValue(results[i]);
            api->ReleaseValue(given[i]);
        }
    }
    api->ReleaseSession(session);
}

/* Random numbers differ between runs, and are the same wherever a run needs them: in what it returns, and in
 * what decides how large another result is. */
static void random_numbers(void **state) {
    enum { ROWS = 50, RUNS_OF_EACH = 4 };
    made model;
    float x[ROWS * 3], last[ROWS * 3] = {0};
    for (int i = 0; i < ROWS * 3; i++)
        x[i] = i < 3 ? 0 : 0.5f;
    model_random(&model);
    OrtSession *session = open_bytes(&model, NULL);
    const char *const input = "x", *const outputs[] = {"y", "where"};
    OrtValue *value = floats(x, ROWS, 3);
    for (int run = 0; run < RUNS_OF_EACH; run++) {
        OrtValue *results[2] = {NULL, NULL};
        succeeds(api->Run(session, NULL, &input, (const OrtValue *const *)&value, 1, outputs, 2, results));
        const float *drawn = numbers(results[0]);
        int count = 0, at = 0;
        for (int i = 0; i < ROWS * 3; i++)
            count += drawn[i] > 0;
        assert_in_range(count, 20, 130);
        if (!original)
            assert_true(drawn[0] + drawn[1] + drawn[2] == 0); /* 1.32 takes x for the chance of 0 */
        assert_true(memcmp(drawn, last, sizeof last) != 0);
        memcpy(last, drawn, sizeof last);
        has_shape(results[1], 2, 2, count);
        const int64_t *where = (const int64_t *)numbers(results[1]);
        for (int i = 0; i < ROWS * 3; i++)
            if (drawn[i] > 0) {
                assert_int_equal(where[at], i / 3);
                assert_int_equal(where[count + at++], i % 3);
            }
        for (int i = 0; i < 2; i++)
            api->ReleaseValue(results[i]);
    }
    api->ReleaseValue(value);
    api->ReleaseSession(session);
}

/* Only one of the branches reads the values of the second input. */
static void values_of_one_branch(void **state) {
    made model;
    float x[90];
    model_reshaped(&model);
    OrtSession *session = open_bytes(&model, NULL);
    static const int64_t kinds[][2] = {{-1, 9},  {1, 9},   {1, 10}, {1, 45},
                                       {-1, 45}, {-1, 10}, {1, 10}, {1, 9}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const bool positive = kinds[i][0] > 0;
        int64_t shape[2] = {90 / kinds[i][1], kinds[i][1]};
        for (int k = 0; k < 90; k++)
            x[k] = (float)(kinds[i][0] * (k + (int)i));
        OrtValue *values[2] = {floats(x, 30, 3),
                               tensor(shape, sizeof shape, 1, 2, 0, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64)},
                 *y = NULL;
        const char *const inputs[] = {"x", "shape"}, *const output = "y";
        succeeds(api->Run(session, NULL, inputs, (const OrtValue *const *)values, 2, &output, 1, &y));
        has_shape(y, 2, positive ? shape[0] : 30, positive ? shape[1] : 3);
        assert_true(numbers(y)[89] == (positive ? x[89] : -x[89]));
        api->ReleaseValue(y);
        api->ReleaseValue(values[0]);
        api->ReleaseValue(values[1]);
    }
    api->ReleaseSession(session);
}

static void long_names_of_sizes(void **state) {
    made model;
    float x[6] = {1, 2, 3, 4, 5, 6};
    model_long_names(&model);
    OrtSession *session = open_bytes(&model, NULL);
    for (int rows = 1; rows < 4; rows++) {
        const int64_t sizes[3] = {1, rows, 2};
        OrtValue *value = NULL, *y = NULL;
        succeeds(api->CreateTensorWithDataAsOrtValue(memory, x, sizeof x, sizes, 3,
                                                     ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value));
        succeeds(run1(session, NULL, "x", value, "y", &y));
        for (int i = 0; i < rows * 2; i++)
            assert_true(numbers(y)[i] == -x[i]);
        api->ReleaseValue(y);
        api->ReleaseValue(value);
    }
    api->ReleaseSession(session);
}

static void other_types(void **state) {
    made model;
    float x[4] = {1.5f, -2.5f, 3e9f, 0};
    OrtValue *value = floats(x, 2, 2), *results[2] = {NULL, NULL};
    const char *const names[] = {"y", "again"}, *const input = "x";
    model_cast(&model);
    OrtSession *session = open_bytes(&model, NULL);
    succeeds(api->Run(session, NULL, &input, (const OrtValue *const *)&value, 1, names, 2, results));
    for (int i = 0; i < 2; i++) {
        const int64_t *found = (const int64_t *)numbers(results[i]);
        assert_int_equal(found[0], 1);
        assert_int_equal(found[1], -2);
        assert_int_equal(found[2], 3000000000);
        api->ReleaseValue(results[i]);
    }
    api->ReleaseValue(value);
    api->ReleaseSession(session);
}

static void bindings(void **state) {
    made model;
    float x[6] = {1, 2, 3, 4, 5, 6}, own[6] = {0};
    model_sum(&model);
    OrtSession *session = open_bytes(&model, NULL);
    OrtIoBinding *binding = NULL;
    OrtValue *value = floats(x, 2, 3), *result = floats(own, 2, 3), **values = NULL;
    size_t count = 0, *lengths = NULL;
    char *names = NULL;
    succeeds(api->CreateIoBinding(session, &binding));
    succeeds(api->BindInput(binding, "x", value));
    fails(api->BindInput(binding, "q", value), ORT_FAIL);
    succeeds(api->BindOutput(binding, "y", result));
    succeeds(api->BindOutputToDevice(binding, "z", memory));
    api->ReleaseValue(value);
    for (int i = 0; i < 2; i++) {
        x[5] = (float)(6 + i);
        succeeds(api->SynchronizeBoundInputs(binding));
        succeeds(api->RunWithBinding(session, NULL, binding));
        succeeds(api->SynchronizeBoundOutputs(binding));
        assert_true(own[5] == (float)(8 + i));
    }
    succeeds(api->GetBoundOutputNames(binding, allocator, &names, &lengths, &count));
    assert_int_equal(count * 10 + lengths[0], 21);
    assert_int_equal(memcmp(names, "yz", 2), 0);
    succeeds(api->AllocatorFree(allocator, names));
    succeeds(api->AllocatorFree(allocator, lengths));
    succeeds(api->GetBoundOutputValues(binding, allocator, &values, &count));
    assert_int_equal(count, 2);
    api->ClearBoundInputs(binding);
    api->ClearBoundOutputs(binding);
    assert_true(numbers(values[1])[5] == -7);
    api->ReleaseValue(values[0]);
    api->ReleaseValue(values[1]);
    succeeds(api->AllocatorFree(allocator, values));
    succeeds(api->GetBoundOutputValues(binding, allocator, &values, &count));
    assert_int_equal(count, 0);
    succeeds(api->BindInput(binding, "x", result));
    succeeds(api->BindOutput(binding, "q", result));
    fails(api->RunWithBinding(session, NULL, binding), ORT_INVALID_ARGUMENT);
    api->ReleaseIoBinding(binding);
    api->ReleaseValue(result);
    OrtAllocator *own_allocator = NULL;
    succeeds(api->CreateAllocator(session, memory, &own_allocator));
    void *taken = own_allocator->Alloc(own_allocator, 10);
    assert_non_null(taken);
    own_allocator->Free(own_allocator, taken);
    api->ReleaseAllocator(own_allocator);
    api->ReleaseSession(session);
}

/* ---- threads ----------------------------------------------------------------------------- */

/* What a callback of RunAsync received. */
typedef struct answer {
    pthread_mutex_t lock;
    pthread_cond_t arrived;
    bool done;
    OrtValue **outputs;
    size_t count;
    OrtStatus *status;
} answer;

static void take_answer(void *user, OrtValue **outputs, size_t count, OrtStatus *status) {
    answer *own = user;
    pthread_mutex_lock(&own->lock);
    own->outputs = outputs;
    own->count = count;
    own->status = status;
    own->done = true;
    pthread_cond_signal(&own->arrived);
    pthread_mutex_unlock(&own->lock);
}

static void wait_for(answer *own) {
    pthread_mutex_lock(&own->lock);
    while (!own->done)
        pthread_cond_wait(&own->arrived, &own->lock);
    pthread_mutex_unlock(&own->lock);
}

/* The usual number of runs of each thread; KOINE_ORT_RUNS has another. */
enum { THREADS = 8, RUNS = 200 };
static int thread_runs;
typedef struct worker {
    pthread_t thread;
    OrtSession *session;
    int number, wrong;
    char first[200]; /* the first wrong run */
} worker;

/* Threads with an odd number use RunAsync. */
static OrtStatus *run_by(const worker *own, const OrtValue *x, OrtValue **y) {
    const char *const input = "x", *const output = "y";
    if (own->number % 2 == 0) return run1(own->session, NULL, input, x, output, y);
    answer got = {.lock = PTHREAD_MUTEX_INITIALIZER, .arrived = PTHREAD_COND_INITIALIZER};
    OrtStatus *status = api->RunAsync(own->session, NULL, &input, &x, 1, &output, 1, y, take_answer, &got);
    if (status) return status;
    wait_for(&got);
    return got.status;
}

static void *work(void *argument) {
    worker *own = argument;
    for (int i = 0; i < thread_runs; i++) {
        float x[6];
        const int64_t rows = 1 + i % 2, sizes[2] = {rows, 3};
        for (int k = 0; k < 6; k++)
            x[k] = (float)(own->number * 1000 + i * 10 + k);
        OrtValue *value = NULL, *y = NULL;
        OrtStatus *status = api->CreateTensorWithDataAsOrtValue(memory, x, sizeof x, sizes, 2,
                                                                ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value);
        if (!status) status = run_by(own, value, &y);
        const void *data = NULL;
        if (!status) status = api->GetTensorData(y, &data);
        const float found = status ? NAN : ((const float *)data)[3 * rows - 1],
                    expected = x[3 * rows - 1] + 2;
        if (!(found == expected) && !own->wrong++)
            snprintf(own->first, sizeof own->first, "thread %d, run %d: %g, expected %g: %s", own->number, i,
                     found, expected, status ? api->GetErrorMessage(status) : "no error");
        api->ReleaseStatus(status);
        api->ReleaseValue(value);
        api->ReleaseValue(y);
    }
    return NULL;
}

static void threads(void **state) {
    (void)state;
    if (test_cases_wanted() == TEST_SMALLEST)
        skip_because("a simulator runs kernels of one thread at a time");
    made model;
    thread_runs = getenv("KOINE_ORT_RUNS") ? atoi(getenv("KOINE_ORT_RUNS")) : RUNS;
    OrtSessionOptions *options = NULL;
    succeeds(api->CreateSessionOptions(&options));
    succeeds(api->SetIntraOpNumThreads(options, 2)); /* the original needs a thread for RunAsync */
    model_sum(&model);
    for (int shared = 0; shared < 2; shared++) {
        worker workers[THREADS];
        OrtSession *session = shared ? open_bytes(&model, options) : NULL;
        for (int i = 0; i < THREADS; i++) {
            workers[i] = (worker){.session = shared ? session : open_bytes(&model, options), .number = i};
            assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(workers[i].thread, NULL);
            if (workers[i].wrong) fail_msg("%d wrong runs; %s", workers[i].wrong, workers[i].first);
            if (!shared) api->ReleaseSession(workers[i].session);
        }
        api->ReleaseSession(session);
    }
    api->ReleaseSessionOptions(options);
}

static void runs_in_a_thread(void **state) {
    made model;
    float x[3] = {5, 6, 7};
    OrtSessionOptions *options = NULL;
    succeeds(api->CreateSessionOptions(&options));
    succeeds(api->SetIntraOpNumThreads(options, 2)); /* the original needs a thread for it */
    model_sum(&model);
    OrtSession *session = open_bytes(&model, options);
    const char *const inputs[] = {"x", "no"}, *const output = "y";
    for (int wrong = 0; wrong < 2; wrong++) {
        answer own = {.lock = PTHREAD_MUTEX_INITIALIZER, .arrived = PTHREAD_COND_INITIALIZER};
        OrtValue *value = floats(x, 1, 3), *y = NULL;
        succeeds(api->RunAsync(session, NULL, &inputs[wrong], (const OrtValue *const *)&value, 1, &output, 1,
                               &y, take_answer, &own));
        wait_for(&own);
        if (wrong) {
            if (!original) assert_null(own.outputs); /* as its documentation says */
            if (!original) assert_int_equal(own.count, 0);
            fails(own.status, ORT_INVALID_ARGUMENT);
        } else {
            succeeds(own.status);
            assert_ptr_equal(own.outputs, &y);
            assert_int_equal(own.count, 1);
            assert_true(numbers(y)[2] == 9);
        }
        api->ReleaseValue(y);
        api->ReleaseValue(value);
    }
    OrtValue *y = NULL;
    if (!original) /* which calls the callback without a check */
        fails(api->RunAsync(session, NULL, NULL, NULL, 0, &output, 1, &y, NULL, NULL), ORT_INVALID_ARGUMENT);
    api->ReleaseSession(session);
    api->ReleaseSessionOptions(options);
}

int test_runs(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs),
        cmocka_unit_test(branches),
        cmocka_unit_test(loops),
        cmocka_unit_test(computed_choices),
        cmocka_unit_test(random_numbers),
        cmocka_unit_test(values_of_one_branch),
        cmocka_unit_test(long_names_of_sizes),
        cmocka_unit_test(other_types),
        cmocka_unit_test(bindings),
        cmocka_unit_test(threads),
        cmocka_unit_test(runs_in_a_thread),
    };
    return run_group("runs", tests);
}
