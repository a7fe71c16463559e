/* Weights in quantized blocks of a file: how sessions store them, and the products, gathered rows and
 * gradients that read them. */
#include "run_tests.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 37, K = 512, MAX_ROWS = 20 };

/* Random blocks (rows,columns) of a type, in a file, and the weights that they represent. Scales are at most
 * 2, codes have all bits. */
typedef struct stored {
    const kn_block_type *type;
    kn_shared_file *file;
    float *weights;
    uint64_t bytes;
    kn_tensor_info info;
} stored;

static void set_scale(uint8_t *half, uint64_t key) {
    half[0] = (uint8_t)kn_random_word(key, 0);
    half[1] = (uint8_t)(kn_random_word(key, 1) % 0x40 | (kn_random_word(key, 2) & 0x80));
}

/* Where each type has its float16 numbers; -1: none. */
static void make_scales_finite(const kn_block_type *type, uint8_t *block, uint64_t key) {
    static const struct {
        int number, first, second;
    } places[] = {{2, 0, -1},    {3, 0, 2},  {6, 0, -1}, {7, 0, 2},     {8, 0, -1}, {10, 80, 82},
                  {11, 108, -1}, {12, 0, 2}, {13, 0, 2}, {14, 208, -1}, {20, 0, -1}};
    for (size_t i = 0; i < KN_COUNT_OF(places); i++) {
        if (places[i].number != type->number) continue;
        set_scale(block + places[i].first, key);
        if (places[i].second >= 0) set_scale(block + places[i].second, key + 1);
        return;
    }
    fail_msg("no place for the scales of %s", type->name);
}

static stored store(const char *folder, const kn_block_type *type, int64_t rows, int64_t columns,
                    uint64_t seed) {
    stored s = {.type = type, .info = {KN_FLOAT32, 2, {rows, columns}}};
    const uint64_t count = (uint64_t)(rows * columns / type->weights);
    char path[300];
    kn_error error = {0};
    s.bytes = count * (uint64_t)type->bytes;
    s.weights = malloc((size_t)(rows * columns) * sizeof *s.weights);
    uint8_t *blocks = malloc((size_t)s.bytes + 1);
    assert_true(s.weights && blocks);
    for (uint64_t i = 0; i <= s.bytes; i++) /* one more: in the file they are unaligned */
        blocks[i] = (uint8_t)kn_random_word(seed, i);
    for (uint64_t i = 0; i < count; i++)
        make_scales_finite(type, blocks + 1 + i * (uint64_t)type->bytes, seed + 3 * i);
    kn_blocks_widen(type, blocks + 1, count, s.weights);
    const kn_host host = kn_host_with(NULL);
    test_path(path, sizeof path, folder, "blocks");
    assert_int_equal(kn_file_write(&host, path, blocks, (size_t)s.bytes + 1, &error), KN_OK);
    free(blocks);
    if (kn_shared_file_open(path, &s.file, &error)) fail_msg("%s", error.text);
    return s;
}

static kn_file_blocks blocks_of(const stored *s) {
    return (kn_file_blocks){s->type, kn_shared_file_view(s->file)->bytes + 1, s->file};
}

static void set_blocks(kn_states *states, const char *name, const stored *s) {
    const kn_file_blocks blocks = blocks_of(s);
    states_good(states, kn_states_set_blocks(states, name, &s->info, &blocks));
}

static void stored_release(stored *s) {
    kn_shared_file_release(&s->file);
    free(s->weights);
}

/* ---- a session that reads w (N,K) ------------------------------------------------- */

/* y = x wᵀ, picked = w[numbers], loss = sum(y * c): x is (batch,K), numbers (batch), c (batch,N). In
 * training, the third value is the gradient of the loss by x. */

static kn_status add_gradient(void *user, kn_graph *bound, kn_value **values, size_t count, kn_error *error) {
    kn_value *by = kn_graph_find(bound, "x"), *slope = NULL;
    kn_status status = kn_graph_gradient(bound, values[2], &by, 1, &slope, error);
    if (status == KN_OK) values[2] = slope;
    assert_int_equal(count, 3);
    return status;
}

/* `initial`: the contents of w unless it is set; NULL: random numbers. */
static kn_session *open_with(kn_context *context, kn_states *states, bool training, bool frozen,
                             kn_activations activations, int64_t rows, int64_t columns,
                             const kn_file_blocks *initial) {
    kn_graph *graph = kn_graph_create(NULL);
    char shape[64];
    snprintf(shape, sizeof shape, "%lld,%lld", (long long)rows, (long long)columns);
    kn_value *w = kn_parameter(graph, "w", KN_FLOAT32, shape, NULL);
    snprintf(shape, sizeof shape, "batch,%lld", (long long)columns);
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, shape);
    if (frozen) kn_freeze(w);
    if (initial) assert_true(kn_value_fill_from(w, initial));
    kn_value *y = kn_matmul(x, w, false, true);
    kn_value *picked = kn_apply(graph, "embedding",
                                (kn_value *[]){w, kn_input(graph, "numbers", KN_INT32, "batch")}, 2, NULL);
    snprintf(shape, sizeof shape, "batch,%lld", (long long)rows);
    kn_value *loss = kn_sum(kn_mul(y, kn_input(graph, "c", KN_FLOAT32, shape)), NULL, false);
    kn_value *values[3] = {kn_name(y, "y"), kn_name(picked, "picked"), kn_name(loss, "loss")};
    if (kn_graph_status(graph)) fail_msg("%s", kn_graph_error(graph));
    kn_session_params params;
    kn_session_params_init(&params);
    params.states = states;
    params.training = training;
    params.activations = activations;
    const kn_session_request request = {.context = context,
                                        .values = values,
                                        .count = 3,
                                        .params = &params,
                                        .extend = training ? add_gradient : NULL};
    kn_session *session = kn_session_open(&request);
    session_good(session, kn_session_status(session));
    kn_graph_destroy(&graph);
    return session;
}

static kn_session *open_filled(kn_context *context, kn_states *states, bool training, bool frozen,
                               int64_t rows, int64_t columns, const kn_file_blocks *initial) {
    return open_with(context, states, training, frozen, KN_ACTIVATIONS_FLOAT32, rows, columns, initial);
}

static kn_session *open_reading(kn_context *context, kn_states *states, bool training, bool frozen,
                                int64_t rows, int64_t columns) {
    return open_filled(context, states, training, frozen, rows, columns, NULL);
}

static void near(const char *what, const stored *s, int batch, int i, float got, double sum, double size) {
    if (!(fabs((double)got - sum) <= 2e-6 * size))
        fail_msg("%s of %s, %d rows, [%d]: %.9g, expected %.9g", what, s->type->name, batch, i, (double)got,
                 sum);
}

/* Rounds to multiples of the largest magnitude / 127 in groups of 32. The quotients are float32, so that the
 * same multiple is the nearest. */
static void round_groups(float *x, int count) {
    for (int first = 0; first < count; first += 32) {
        float largest = 0;
        for (int i = first; i < first + 32; i++)
            if (fabsf(x[i]) > largest) largest = fabsf(x[i]);
        const float inverse = 127 / largest;
        for (int i = first; i < first + 32; i++)
            x[i] = (float)((double)rintf(x[i] * inverse) * (double)largest / 127);
    }
}

/* Runs `batch` rows and compares with the weights. `rounds`: products round x. */
static void run_rounding(kn_session *session, const stored *s, int batch, bool training, bool rounds) {
    const int n = (int)s->info.shape[0], k = (int)s->info.shape[1];
    float *x = malloc((size_t)batch * (size_t)k * sizeof *x),
          *c = malloc((size_t)batch * (size_t)n * sizeof *c);
    float *y = malloc((size_t)batch * (size_t)n * sizeof *y), *picked = malloc((size_t)batch * (size_t)k * 4);
    float *slope = malloc((size_t)batch * (size_t)k * 4);
    int32_t *numbers = malloc((size_t)batch * sizeof *numbers);
    assert_true(x && c && y && picked && slope && numbers);
    fill_numbers(x, (size_t)batch * (size_t)k, 8);
    fill_numbers(c, (size_t)batch * (size_t)n, 9);
    for (int i = 0; i < batch; i++)
        numbers[i] = (int32_t)((uint32_t)(i * 29 + 36) % (uint32_t)n);
    const kn_feed feeds[] = {{"x", x, (size_t)batch * (size_t)k * 4},
                             {"c", c, (size_t)batch * (size_t)n * 4},
                             {"numbers", numbers, (size_t)batch * 4}};
    kn_fetch fetches[] = {{"y", y, (size_t)batch * (size_t)n * 4},
                          {"picked", picked, (size_t)batch * (size_t)k * 4},
                          {"loss", slope, training ? (size_t)batch * (size_t)k * 4 : 4}};
    session_good(session, kn_session_run(session, feeds, 3, fetches, 3));
    if (rounds) round_groups(x, batch * k);
    for (int i = 0; i < batch * n; i++) {
        double sum = 0, size = 0;
        for (int l = 0; l < k; l++) {
            const double product = (double)x[i / n * k + l] * (double)s->weights[i % n * k + l];
            sum += product;
            size += fabs(product);
        }
        near("product", s, batch, i, y[i], sum, size);
    }
    for (int i = 0; i < batch; i++)
        assert_memory_equal(picked + i * k, s->weights + numbers[i] * k, (size_t)k * 4);
    for (int i = 0; i < batch * k && training; i++) {
        double sum = 0, size = 0;
        for (int j = 0; j < n; j++) {
            const double product = (double)c[i / k * n + j] * (double)s->weights[j * k + i % k];
            sum += product;
            size += fabs(product);
        }
        near("gradient", s, batch, i, slope[i], sum, size);
    }
    free(x);
    free(c);
    free(y);
    free(picked);
    free(slope);
    free(numbers);
}

static void run_reading(kn_session *session, const stored *s, int batch, bool training) {
    run_rounding(session, s, batch, training, false);
}

static uint64_t state_bytes(kn_session *session) {
    kn_plan_info info = {.size = sizeof info};
    session_good(session, kn_session_plan(session, &info));
    return info.state_bytes;
}

/* ---- a part of a language model ---------------------------------------------------- */

enum { HEADS = 3, WIDTH = 2 * 32 * HEADS, NARROW = 64, KEPT = 9, STEP_ROWS = 2, RESULTS = 4 };

/* The queries, keys and values of normed x, (1,rows,WIDTH), of which keys and values are put into a window,
 * and a product of the queries. Biases, if any, are epilogues. */
static kn_session *open_step(kn_context *context, kn_states *states, int rows, bool biased,
                             kn_activations activations, const char *switches) {
    static const char *const names[] = {"q", "k", "v", "o"};
    static const char *const called[] = {"queries", "new_keys", "new_values", "result"};
    kn_graph *graph = kn_graph_create(NULL);
    const kn_initializer some = {KN_INITIALIZER_UNIFORM, 0.5};
    kn_value *start = kn_input(graph, "start", KN_INT32, "1"), *of[RESULTS];
    kn_value *x = kn_rms_norm(kn_input(graph, "x", KN_FLOAT32, rows == 1 ? "1,1,192" : "1,2,192"), NULL);
    for (int i = 0; i < RESULTS; i++) {
        const bool wide = i == 0 || i == 3;
        char bias[8];
        kn_value *w = kn_parameter(graph, names[i], KN_FLOAT32, wide ? "192,192" : "64,192", NULL);
        of[i] = kn_matmul(i < 3 ? x : of[0], w, false, true);
        snprintf(bias, sizeof bias, "b%s", names[i]);
        if (biased) of[i] = kn_add(of[i], kn_parameter(graph, bias, KN_FLOAT32, wide ? "192" : "64", &some));
    }
    for (int i = 0; i < 3; i++) {
        const kn_rotary_params params = {.size = sizeof params, .heads = i ? 1 : HEADS, .base = 10000};
        if (i < 2) of[i] = kn_rotary(of[i], start, &params);
        if (i > 0)
            of[i] =
                kn_put_rows(kn_input(graph, i == 1 ? "keys" : "values", KN_FLOAT32, "1,9,64"), of[i], start);
    }
    for (int i = 0; i < RESULTS; i++)
        of[i] = kn_name(of[i], called[i]);
    if (kn_graph_status(graph)) fail_msg("%s", kn_graph_error(graph));
    kn_session_params params;
    kn_session_params_init(&params);
    params.states = states;
    params.activations = activations;
    params.switches = switches;
    kn_session *session = kn_session_create(context, of, RESULTS, &params);
    session_good(session, kn_session_status(session));
    kn_graph_destroy(&graph);
    return session;
}

/* Returns the number of launches. */
static int run_step(kn_session *session, int rows, float results[RESULTS][KEPT * WIDTH]) {
    static float x[STEP_ROWS * WIDTH], keys[KEPT * NARROW], values[KEPT * NARROW];
    const int32_t start = 5;
    const size_t narrow = sizeof keys, wide = (size_t)rows * WIDTH * sizeof(float);
    fill_numbers(x, STEP_ROWS * WIDTH, 3);
    fill_numbers(keys, KEPT * NARROW, 4);
    fill_numbers(values, KEPT * NARROW, 5);
    const kn_feed feeds[] = {
        {"x", x, wide}, {"start", &start, sizeof start}, {"keys", keys, narrow}, {"values", values, narrow}};
    const kn_fetch fetches[] = {{"queries", results[0], wide},
                                {"new_keys", results[1], narrow},
                                {"new_values", results[2], narrow},
                                {"result", results[3], wide}};
    session_good(session, kn_session_run(session, feeds, 4, fetches, RESULTS));
    return session->current->plan.step_count;
}

/* Products of one input are one launch, and so are the rotations and the writes to windows that follow them:
 * `saved` launches fewer, with the same bits. The values' weights have type `v_type`, others `type`. */
static void check_joint(kn_context *context, int v_type, int type, bool biased, kn_activations activations,
                        const char *switches, int saved) {
    static const char *const names[] = {"q", "k", "v", "o"};
    static float joint[RESULTS][KEPT * WIDTH], separate[RESULTS][KEPT * WIDTH];
    char text[100], *folder = test_folder_make();
    kn_states *states = kn_states_create(context, 1);
    stored all[RESULTS];
    for (int i = 0; i < RESULTS; i++) {
        all[i] = store(folder, kn_block_type_find(i == 2 ? v_type : type), i == 0 || i == 3 ? WIDTH : NARROW,
                       WIDTH, 600 + (uint64_t)i);
        set_blocks(states, names[i], &all[i]);
    }
    snprintf(text, sizeof text, "launches=separate%s%s", switches[0] ? "," : "", switches);
    for (int rows = 1; rows <= STEP_ROWS; rows++) {
        kn_session *session = open_step(context, states, rows, biased, activations, switches);
        kn_session *other = open_step(context, states, rows, biased, activations, text);
        memset(joint, 0, sizeof joint);
        memset(separate, 0, sizeof separate);
        const int launches = run_step(session, rows, joint);
        assert_int_equal(run_step(other, rows, separate) - launches, saved);
        assert_memory_equal(joint, separate, sizeof joint);
        for (int i = 0; i < RESULTS; i++)
            assert_true(joint[i][0] != 0);
        kn_session_destroy(&session);
        kn_session_destroy(&other);
    }
    kn_states_destroy(&states);
    for (int i = 0; i < RESULTS; i++)
        stored_release(&all[i]);
    test_folder_remove(folder);
}

/* ---- tests ------------------------------------------------- */

TEST(similar_steps_share_a_launch) {
    if (test_cases_wanted() == TEST_SMALLEST) skip_because(TOO_LONG_FOR_A_SIMULATOR);
    static const kn_kernels kinds[] = {KN_KERNELS_CPU, KN_KERNELS_GPU};
    for (size_t i = 0; i < KN_COUNT_OF(kinds); i++) {
        kn_context_params params = device_params();
        const kn_context_debug debug = {.size = sizeof debug, .kernels = kinds[i]};
        params.debug = &debug;
        kn_context *context = device_open(&params);
        check_joint(context, 8, 8, false, KN_ACTIVATIONS_FLOAT32, "", 4);
        check_joint(context, 8, 8, true, KN_ACTIVATIONS_FLOAT32, "programs=file", 4);
        /* The code of values is different. */
        check_joint(context, 6, 2, false, KN_ACTIVATIONS_FLOAT32, "", 3);
        if (kn_context_byte_products(context) && kinds[i] == KN_KERNELS_CPU)
            check_joint(context, 3, 3, true, KN_ACTIVATIONS_INT8, "", 4);
        kn_context_destroy(&context);
    }
}

/* Every type: in inference with few and many rows, and in training if the weights are frozen. The file's
 * owner has released it before a session reads it. */
TEST(weights_stay_in_blocks) {
    kn_context *context = *state;
    char *folder = test_folder_make();
    size_t count;
    const kn_block_type *types = kn_block_types(&count);
    for (size_t t = 0; t < count; t++) {
        if (!kn_block_type_has_fields(&types[t])) continue;
        if (test_cases_wanted() == TEST_SMALLEST && types[t].number % 6 != 2) continue;
        for (int training = 0; training < 2; training++) {
            stored s = store(folder, &types[t], N, K, 100 + t);
            static float got[N * K];
            kn_states *states = kn_states_create(context, 1);
            set_blocks(states, "w", &s);
            kn_shared_file_release(&s.file);
            states_good(states, kn_states_get(states, "w", got, sizeof got));
            assert_memory_equal(got, s.weights, sizeof got);
            kn_session *session = open_reading(context, states, training, training, N, K);
            for (int batch = 1; batch <= MAX_ROWS; batch += batch == 1 ? 4 : 15)
                run_reading(session, &s, batch, training);
            assert_in_range(state_bytes(session), s.bytes,
                            s.bytes + kn_context_capabilities(context)->alignment_bytes - 1);
            states_good(states, kn_states_get(states, "w", got, sizeof got));
            assert_memory_equal(got, s.weights, sizeof got);
            kn_session_destroy(&session);
            kn_states_destroy(&states);
            stored_release(&s);
        }
    }
    test_folder_remove(folder);
}

/* Products with few and many rows round x to 8 bits; in training they do not. Random sizes. */
TEST(activations_are_rounded) {
    kn_context *context = *state;
    char *folder = test_folder_make();
    size_t count;
    const kn_block_type *types = kn_block_types(&count);
    for (size_t t = 0; t < count; t++) {
        if (!kn_block_type_has_fields(&types[t])) continue;
        if (test_cases_wanted() == TEST_SMALLEST && types[t].number % 6 != 2) continue;
        for (int training = 0; training < 2; training++) {
            const int64_t rows = 1 + (int64_t)(kn_random_word(31, t) % 90);
            const int64_t blocks = 1 + (int64_t)(kn_random_word(32, t) % 6);
            stored s = store(folder, &types[t], rows, blocks * types[t].weights, 300 + t);
            kn_states *states = kn_states_create(context, 1);
            set_blocks(states, "w", &s);
            kn_session *session = open_with(context, states, training, true, KN_ACTIVATIONS_INT8, rows,
                                            blocks * types[t].weights, NULL);
            for (int batch = 1; batch <= 11; batch += 1 + batch / 4)
                run_rounding(session, &s, batch, training, !training);
            kn_session_destroy(&session);
            kn_states_destroy(&states);
            stored_release(&s);
        }
    }
    test_folder_remove(folder);
}

/* Trained weights are float32; what is not used by a plan remains in its file. */
TEST(trained_weights_are_widened) {
    kn_context *context = *state;
    char *folder = test_folder_make();
    stored s = store(folder, kn_block_type_find(14), N, K, 5);
    static float got[N * K];
    kn_states *states = kn_states_create(context, 1);
    set_blocks(states, "w", &s);
    kn_session *session = open_reading(context, states, true, false, N, K);
    run_reading(session, &s, 3, true);
    assert_int_equal(state_bytes(session), sizeof got);
    got[7] = 3;
    states_good(states, kn_states_set(states, "w", NULL, got, sizeof got));
    set_blocks(states, "w", &s); /* dequantized at once, since the memory is float32 */
    states_good(states, kn_states_get(states, "w", got, sizeof got));
    assert_memory_equal(got, s.weights, sizeof got);
    kn_session_destroy(&session);
    kn_states_destroy(&states);
    kn_states *host = kn_states_create_host(NULL);
    set_blocks(host, "w", &s);
    memset(got, 0, sizeof got);
    states_good(host, kn_states_get(host, "w", got, sizeof got));
    assert_memory_equal(got, s.weights, sizeof got);
    got[1] = 4;
    states_good(host, kn_states_set(host, "w", NULL, got, sizeof got));
    states_good(host, kn_states_get(host, "w", got, sizeof got));
    assert_true(got[1] == 4);
    kn_states_destroy(&host);
    stored_release(&s);
    test_folder_remove(folder);
}

/* Blocks in device memory: other blocks of the type replace them, numbers only if they are the same. */
TEST(blocks_are_replaced_by_blocks) {
    kn_context *context = *state;
    char *folder = test_folder_make();
    stored s = store(folder, kn_block_type_find(6), N, K, 5), other = store(folder, s.type, N, K, 6);
    stored different = store(folder, kn_block_type_find(8), N, K, 7);
    kn_states *states = kn_states_create(context, 1);
    set_blocks(states, "w", &s);
    kn_session *session = open_reading(context, states, false, false, N, K);
    run_reading(session, &s, 2, false);
    states_good(states, kn_states_set(states, "w", NULL, s.weights, sizeof(float) * N * K));
    set_blocks(states, "w", &other);
    run_reading(session, &other, 2, false);
    run_reading(session, &other, 9, false);
    const kn_file_blocks wrong = blocks_of(&different);
    assert_int_equal(kn_states_set(states, "w", NULL, s.weights, sizeof(float) * N * K),
                     KN_ERROR_UNSUPPORTED);
    assert_non_null(strstr(kn_states_error(states), "'w' is stored as Q5_0 by a session"));
    assert_int_equal(kn_states_set_blocks(states, "w", &different.info, &wrong), KN_ERROR_UNSUPPORTED);
    run_reading(session, &other, 1, false);
    kn_session *trains = open_reading(context, states, true, false, N, K);
    const kn_feed feeds[] = {{"x", s.weights, K * 4}, {"c", s.weights, N * 4}, {"numbers", "\0\0\0", 4}};
    session_bad(trains, KN_ERROR_DTYPE, kn_session_run(trains, feeds, 3, NULL, 0),
                "state 'w' is stored as Q5_0 by another session, but float32 is needed", NULL);
    kn_session_destroy(&trains);
    kn_session_destroy(&session);
    kn_states_destroy(&states);
    stored_release(&s);
    stored_release(&other);
    stored_release(&different);
    test_folder_remove(folder);
}

/* The plan knows the blocks before they are loaded. Numbers that they represent, as in a checkpoint, may be
 * loaded instead. */
TEST(blocks_are_initial_contents) {
    kn_context *context = *state;
    char *folder = test_folder_make();
    stored s = store(folder, kn_block_type_find(12), N, K, 5);
    const kn_file_blocks blocks = blocks_of(&s);
    for (int frozen = 0; frozen < 2; frozen++)
        for (int loads = 0; loads < 3; loads++) {
            kn_states *states = kn_states_create(context, 1);
            kn_session *session = open_filled(context, states, true, frozen, N, K, &blocks);
            session_good(session, kn_session_bind(session, "batch", 3));
            session_good(session, kn_session_compile(session, NULL, 0));
            assert_in_range(state_bytes(session), frozen ? s.bytes : sizeof(float) * N * K,
                            frozen ? s.bytes + 255 : sizeof(float) * N * K);
            if (loads == 1) set_blocks(states, "w", &s);
            if (loads == 2)
                states_good(states, kn_states_set(states, "w", NULL, s.weights, sizeof(float) * N * K));
            run_reading(session, &s, 3, true);
            kn_session_destroy(&session);
            kn_states_destroy(&states);
        }
    stored_release(&s);
    test_folder_remove(folder);
}

/* More weights than are dequantized at once: products by slices of rows of w. */
TEST(large_weights_are_dequantized_in_slices) {
    kn_context *context = *state;
    if (test_cases_wanted() == TEST_SMALLEST) skip();
    char *folder = test_folder_make();
    stored s = store(folder, kn_block_type_find(2), 70000, 256, 5);
    kn_states *states = kn_states_create(context, 1);
    set_blocks(states, "w", &s);
    kn_session *session = open_reading(context, states, true, true, 70000, 256);
    run_reading(session, &s, 9, true);
    kn_session_destroy(&session);
    kn_states_destroy(&states);
    stored_release(&s);
    test_folder_remove(folder);
}

TEST_FILE(test_blocks, device_setup, device_teardown)
