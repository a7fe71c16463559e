/* Adapters of linear layers: compared with a network that has their products as layers; saved and loaded. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train_tests.h"

enum { BATCH = 8, HIDDEN = 10, RANK = 4 };

static kn_model *parse(const char *text) {
    kn_model *model = kn_model_parse(text, NULL);
    if (kn_model_status(model) != KN_OK) fail_msg("%s", kn_model_error(model));
    return model;
}

static void adapt(kn_model *model, const kn_adapter_params *params) {
    if (kn_model_adapt(model, params) != KN_OK) fail_msg("%s", kn_model_error(model));
}

static kn_model_loss lose(kn_model *model) {
    kn_model_loss loss = KN_MODEL_LOSS_DEFAULTS;
    if (kn_model_add_loss(model, NULL, &loss) != KN_OK) fail_msg("%s", kn_model_error(model));
    return loss;
}

/* Numbers that depend only on the count. */
static void set(kn_states *states, const char *name, int64_t rows, int64_t columns, double size) {
    float numbers[16 * 16];
    const kn_tensor_info info = {KN_FLOAT32, 2, {rows, columns}};
    uint32_t word = (uint32_t)(rows * 100 + columns);
    for (int64_t i = 0; i < rows * columns; i++) {
        word = word * 1664525u + 1013904223u;
        numbers[i] = (float)(((double)(word >> 8) / (1 << 24) - 0.5) * size);
    }
    if (kn_states_set(states, name, &info, numbers, (size_t)(rows * columns) * sizeof *numbers) != KN_OK)
        fail_msg("%s", kn_states_error(states));
}

static void same_state(kn_trainer *one, const char *name, kn_trainer *other, const char *its, size_t count) {
    float numbers[256], others[256];
    state_get(kn_trainer_states(one), name, numbers, count);
    state_get(kn_trainer_states(other), its, others, count);
    assert_memory_equal(numbers, others, count * sizeof *numbers);
}

TEST(adapters_are_products) {
    kn_model *adapted =
        parse("koine 1\ninput x 6\nhidden = linear 10 bias=no\nrelu\nlogits = linear 3 bias=no\n");
    kn_model *plain = parse("koine 1\n"
                            "input x 6\n"
                            "hidden = linear @x 10 bias=no freeze\n"
                            "a = linear @x 4 bias=no\n"
                            "scale = number 1.5\n"
                            "mul @a @scale\n"
                            "b = linear 10 bias=no init=zero\n"
                            "add @hidden @b\n"
                            "relu\n"
                            "logits = linear 3 bias=no freeze\n");
    const kn_adapter_params params = {.size = sizeof params, .rank = RANK, .alpha = 6, .targets = "all"};
    adapt(adapted, &params);
    kn_trainer *one = trainer_make(*state, lose(adapted).value, NULL);
    kn_trainer *other = trainer_make(*state, lose(plain).value, NULL);
    kn_trainer *both[2] = {one, other};
    for (int i = 0; i < 2; i++) {
        kn_states *states = kn_trainer_states(both[i]);
        set(states, "hidden.weight", HIDDEN, INPUTS, 1);
        set(states, "logits.weight", CLASSES, HIDDEN, 1);
        set(states, i ? "a.weight" : "hidden.lora_a", RANK, INPUTS, 0.8);
    }
    for (int i = 0; i < 5; i++) {
        double loss = trainer_steps(one, BATCH, 1), its = trainer_steps(other, BATCH, 1);
        assert_true(loss == its && isfinite(loss));
    }
    same_state(one, "hidden.lora_a", other, "a.weight", RANK * INPUTS);
    same_state(one, "hidden.lora_b", other, "b.weight", HIDDEN * RANK);
    same_state(one, "hidden.weight", other, "hidden.weight", HIDDEN * INPUTS);
    /* Only the adapter has moments. */
    for (size_t i = 0; i < kn_states_count(kn_trainer_states(one)); i++) {
        kn_tensor_info info;
        const char *name = kn_states_at(kn_trainer_states(one), i, &info);
        assert_null(strstr(name, "hidden.weight."));
        assert_null(strstr(name, "logits.weight."));
    }
    float b[HIDDEN * RANK], sum = 0;
    state_get(kn_trainer_states(one), "hidden.lora_b", b, HIDDEN * RANK);
    for (int i = 0; i < HIDDEN * RANK; i++)
        sum += fabsf(b[i]);
    assert_true(sum > 0.01f);
    kn_trainer_destroy(&one);
    kn_trainer_destroy(&other);
    kn_model_destroy(&adapted);
    kn_model_destroy(&plain);
}

/* A zero B changes nothing, with a bias, with dropout outside training, and where layers follow one another.
 */
TEST(a_new_adapter_changes_nothing) {
    static const char text[] =
        "koine 1\ninput x 6\nfirst = linear 5 bias=no\nsecond = linear 7\nlogits = linear 3\n";
    const kn_adapter_params params = {
        .size = sizeof params, .rank = 2, .alpha = 2, .targets = "first,sec*,logits", .dropout = 0.5};
    float results[2][BATCH * CLASSES], sums[BATCH * CLASSES];
    kn_states *states = kn_states_create(*state, 3);
    for (int i = 0; i < 3; i++) {
        kn_model *model = parse(text);
        if (i) adapt(model, &params);
        const kn_session_params how = {.size = sizeof how, .states = states};
        kn_value *output = kn_model_output_at(model, 0);
        assert_string_equal(kn_value_name(output), "logits");
        if (i == 2) set(states, "second.lora_b", 7, 2, 1);
        kn_session *session = kn_session_create(*state, &output, 1, &how);
        kn_feed feeds[2];
        samples_feed(0, BATCH, feeds);
        const kn_fetch fetch = {"logits", i < 2 ? results[i] : sums, sizeof sums};
        if (kn_session_run(session, feeds, 1, &fetch, 1) != KN_OK) fail_msg("%s", kn_session_error(session));
        kn_session_destroy(&session);
        kn_model_destroy(&model);
    }
    assert_memory_equal(results[0], results[1], sizeof sums);
    assert_memory_not_equal(results[0], sums, sizeof sums);
    kn_states_destroy(&states);
}

/* ---- files --------------------------------------------------------------------------------------------- */

typedef struct run {
    kn_model *model;
    kn_trainer *trainer;
} run;

static run open_adapted(kn_context *context, const char *path, double alpha) {
    run made = {.model = kn_model_open(path, NULL)};
    if (kn_model_status(made.model) != KN_OK) fail_msg("%s", kn_model_error(made.model));
    const kn_adapter_params params = {.size = sizeof params, .rank = RANK, .alpha = alpha, .targets = "fc*"};
    adapt(made.model, &params);
    made.trainer = trainer_make(context, lose(made.model).value, NULL);
    if (kn_model_load(made.model, NULL, kn_trainer_states(made.trainer), NULL, NULL) != KN_OK)
        fail_msg("%s", kn_model_error(made.model));
    return made;
}

static void close_run(run *made) {
    kn_trainer_destroy(&made->trainer);
    kn_model_destroy(&made->model);
}

static void save(run *made, const char *path) {
    const kn_model_save_params params = {.size = sizeof params, .training = true};
    if (kn_model_save(made->model, path, kn_trainer_states(made->trainer), &params) != KN_OK)
        fail_msg("%s", kn_model_error(made->model));
}

static kn_status load(run *made, const char *path) {
    const kn_model_load_params params = {.size = sizeof params, .training = true};
    return kn_model_load(made->model, path, kn_trainer_states(made->trainer), &params, NULL);
}

TEST(a_training_continues) {
    char base[4096], half[4096], *folder = test_folder_make();
    test_path(base, sizeof base, folder, "base.safetensors");
    test_path(half, sizeof half, folder, "half.safetensors");
    run first = {
        .model =
            parse("koine 1\ninput x 6\nfc1 = linear 16\nrelu\nfc2 = linear 16\nrelu\nlogits = linear 3\n")};
    first.trainer = trainer_make(*state, lose(first.model).value, NULL);
    trainer_steps(first.trainer, BATCH, 3);
    save(&first, base);
    close_run(&first);

    run whole = open_adapted(*state, base, 8);
    trainer_steps(whole.trainer, BATCH, 4);
    save(&whole, half);
    trainer_steps(whole.trainer, BATCH, 4);
    run rest = open_adapted(*state, base, 8);
    if (load(&rest, half) != KN_OK) fail_msg("%s", kn_model_error(rest.model));
    kn_trainer_set_steps(rest.trainer, 4);
    trainer_steps(rest.trainer, BATCH, 4);
    assert_true(states_hash(kn_trainer_states(whole.trainer)) ==
                states_hash(kn_trainer_states(rest.trainer)));

    /* The file has only the adapter, and is not a model. */
    kn_safetensors_file *file = kn_safetensors_file_open(half, NULL);
    kn_tensor_info info = {.rank = 0};
    assert_true(kn_safetensors_file_info(file, "fc1.lora_b", &info));
    assert_false(kn_safetensors_file_info(file, "fc1.weight", &info));
    kn_safetensors_file_destroy(&file);
    kn_model *adapter = kn_model_open(half, NULL);
    assert_int_equal(kn_model_status(adapter), KN_ERROR_FORMAT);
    assert_non_null(strstr(kn_model_error(adapter), "has an adapter but not its model"));
    kn_model_destroy(&adapter);
    close_run(&whole);
    close_run(&rest);

    /* A different scale would give different results. */
    run other = open_adapted(*state, base, 9);
    assert_int_equal(load(&other, half), KN_ERROR_ARGUMENT);
    assert_non_null(strstr(kn_model_error(other.model), "rank=4 scale=2, but model 'base' has one with"));
    close_run(&other);
    kn_model *bare = kn_model_open(base, NULL);
    kn_states *states = kn_states_create(*state, 1);
    assert_int_equal(kn_model_load(bare, half, states, NULL, NULL), KN_ERROR_ARGUMENT);
    kn_states_destroy(&states);
    kn_model_destroy(&bare);
    test_folder_remove(folder);
}

/* ---- rows of q and k ----------------------------------------------------------------------------- */

enum { ROWS = 8 };

static kn_model *rotating(bool interleaved) {
    char text[600];
    snprintf(
        text, sizeof text,
        "koine 1\nset window 4\nblock layer\n    attn_q = linear @in %d%s\n    q = rotary @attn_q heads=2%s\n"
        "    attn_v = linear @in 8 bias=no\n    add @q @attn_v\nend\n"
        "input x window int32\ntoken_embd = embedding @x 9 8\nblk0 = layer\nlogits = linear 3\n",
        ROWS, interleaved ? "" : " bias=no", interleaved ? " interleaved" : "");
    return parse(text);
}

/* Row i of a head of 4 rows has the number order[i]. */
static void check_rows(kn_states *states, const char *name, const int *order) {
    float rows[ROWS];
    state_get(states, name, rows, ROWS);
    for (int i = 0; i < ROWS; i++)
        if (rows[i] != (float)(i / 4 * 4 + order[i % 4]))
            fail_msg("%s: row %d has %g", name, i, (double)rows[i]);
}

/* Saves an adapter whose matrices have the numbers of their rows, or columns. */
static void save_rows(kn_context *context, const char *path, bool interleaved, bool peft) {
    static const char *const layers[] = {"blk0.attn_q", "blk0.attn_v"};
    const kn_adapter_params params = {.size = sizeof params, .rank = 1, .alpha = 1, .targets = "attn_*"};
    const kn_tensor_info a = {KN_FLOAT32, 2, {1, ROWS}}, b = {KN_FLOAT32, 2, {ROWS, 1}};
    const float numbers[ROWS] = {0, 1, 2, 3, 4, 5, 6, 7};
    kn_model *model = rotating(interleaved);
    kn_states *states = kn_states_create(context, 1);
    adapt(model, &params);
    for (int i = 0; i < 4; i++) {
        char name[40];
        snprintf(name, sizeof name, "%s.lora_%c", layers[i / 2], i % 2 ? 'b' : 'a');
        assert_int_equal(kn_states_set(states, name, i % 2 ? &b : &a, numbers, sizeof numbers), KN_OK);
    }
    if ((peft ? kn_model_save_adapter(model, path, states) : kn_model_save(model, path, states, NULL)) !=
        KN_OK)
        fail_msg("%s", kn_model_error(model));
    kn_states_destroy(&states);
    kn_model_destroy(&model);
}

/* Models that pair adjacent elements, from whatever file, have the rows of the two halves in turn. */
TEST(rows_follow_rotations) {
    static const int same[4] = {0, 1, 2, 3}, to_halves[4] = {0, 2, 1, 3};
    char path[4096], *folder = test_folder_make();
    for (int i = 0; i < 8;
         i++) { /* how the model that writes rotates, the one that reads, and the kind of file */
        const bool writes = i & 1, reads = i & 2, peft = i & 4;
        test_path(path, sizeof path, folder, peft ? "peft" : "saved.safetensors");
        save_rows(*state, path, writes, peft);
        kn_model *model = rotating(reads);
        kn_states *states = kn_states_create(*state, 1);
        if (kn_model_open_adapter(model, path) != KN_OK ||
            kn_model_load_adapter(model, path, states) != KN_OK)
            fail_msg("%s", kn_model_error(model));
        check_rows(states, "blk0.attn_q.lora_b", writes == reads ? same : to_halves);
        check_rows(states, "blk0.attn_v.lora_b", same);
        if (!peft) { /* kn_model_load moves no rows */
            const kn_model_load_params some = {.size = sizeof some, .incomplete = true};
            assert_int_equal(kn_model_load(model, path, states, &some, NULL),
                             writes == reads ? KN_OK : KN_ERROR_ARGUMENT);
        }
        kn_states_destroy(&states);
        kn_model_destroy(&model);
    }
    test_folder_remove(folder);
}

/* ---- refused ------------------------------------------------------------------------------------------- */

static void refused(kn_adapter_params params, const char *message) {
    kn_model *model = parse("koine 1\ninput x 6\nfc1 = linear 16\nrelu\nlogits = linear 3\n");
    params.size = sizeof params;
    if (kn_model_adapt(model, &params) == KN_OK) fail_msg("expected: %s", message);
    if (!strstr(kn_model_error(model), message)) fail_msg("%s", kn_model_error(model));
    assert_int_equal(kn_model_weight_count(model), 4);
    const kn_adapter_params good = KN_ADAPTER_DEFAULTS;
    adapt(model, &good); /* it is unchanged */
    assert_int_equal(kn_model_weight_count(model), 6);
    kn_model_destroy(&model);
}

TEST(mistakes) {
    refused((kn_adapter_params){.rank = 0, .alpha = 1}, "rank 0; expected 1 to 65536");
    refused((kn_adapter_params){.rank = 1, .alpha = 0}, "alpha 0; expected a number above 0");
    refused((kn_adapter_params){.rank = 1, .alpha = NAN}, "alpha nan");
    refused((kn_adapter_params){.rank = 1, .alpha = 1, .dropout = 1}, "dropout 1");
    refused((kn_adapter_params){.rank = 1, .alpha = 1, .targets = " ,"}, "no targets");
    refused(
        (kn_adapter_params){.rank = 1, .alpha = 1, .targets = "fc1,conv"},
        "target 'conv' matches no linear layer of model 'text'; its linear layers begin with fc1, logits");
    kn_model *model = parse("koine 1\ninput x 6\nfc1 = linear 16\nrelu\nlogits = linear 3\n");
    const kn_adapter_params good = {.size = sizeof good, .rank = 4, .alpha = 8, .rank_stabilized = true};
    adapt(model, &good);
    assert_int_equal(kn_model_adapt(model, &good), KN_ERROR_ARGUMENT);
    kn_adapter_params found = KN_ADAPTER_DEFAULTS;
    assert_true(kn_model_adapter(model, &found));
    assert_true(found.rank == 4 && found.alpha == 8 && found.rank_stabilized);
    kn_model_destroy(&model);
    model = parse("koine 1\ninput x 6\nlogits = linear 3\n");
    assert_false(kn_model_adapter(model, &found));
    assert_int_equal(kn_model_adapt(model, NULL), KN_ERROR_NOT_FOUND); /* only the output */
    lose(model);
    assert_int_equal(
        kn_model_adapt(model,
                       &(kn_adapter_params){.size = sizeof good, .rank = 4, .alpha = 8, .targets = "logits"}),
        KN_ERROR_ARGUMENT);
    kn_model_destroy(&model);
}

TEST_FILE(test_adapters, device_setup, device_teardown)
