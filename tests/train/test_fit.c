/* The training loop on small arrays: when it ends, what it reports, and how it continues. */
#include "train_tests.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

enum { BATCH = 12, BATCHES = 4, LAST = 4 }; /* 40 samples: 12, 12, 12 and 4 */

typedef struct fitting {
    small_net net;
    kn_trainer *trainer;
    kn_session *evaluator;
    kn_dataset *data;
    kn_fit_params params;
    kn_loader_params loader;
    kn_fit_result result;
    /* What the callbacks received. */
    int steps, epochs, stop_at_step, stop_at_epoch;
    bool waits;
    uint64_t lead; /* the most steps that the trainer was ahead of on_step */
    uint64_t samples, last_count;
    double loss_sum, right_sum, rates[64], losses[16], accuracies[16];
    bool best[16];
    uint64_t evaluated; /* samples in this evaluation */
    int evaluations;
} fitting;

static bool on_step(void *user, const kn_fit_step *step) {
    fitting *seen = user;
    const uint64_t lead = kn_trainer_steps(seen->trainer) - step->step;
    if (lead > seen->lead) seen->lead = lead;
    assert_true(lead <= 1);
    seen->rates[seen->steps % 64] = step->learning_rate;
    seen->steps++;
    seen->samples += step->samples;
    seen->last_count = step->samples;
    seen->loss_sum += step->loss * (double)step->samples;
    seen->right_sum += step->accuracy * (double)step->samples;
    assert_true(step->batches > 0 && step->batch >= 1 && step->batch <= step->batches);
    assert_true(step->epoch == 1 + (step->step - 1) / step->batches);
    assert_true(step->seconds >= 0 && step->samples_per_s > 0);
    return seen->steps != seen->stop_at_step;
}

static bool wait_for(void *user, uint64_t step) {
    const fitting *seen = user;
    assert_int_equal(step, kn_trainer_steps(seen->trainer) + 1);
    return seen->waits;
}

static bool on_epoch(void *user, const kn_fit_epoch *epoch) {
    fitting *seen = user;
    if (seen->epochs < 16) seen->best[seen->epochs] = epoch->best;
    if (seen->epochs < 16) seen->losses[seen->epochs] = epoch->loss;
    if (seen->epochs < 16) seen->accuracies[seen->epochs] = epoch->accuracy;
    seen->epochs++;
    return seen->epochs != seen->stop_at_epoch;
}

static void on_validation(void *user, uint64_t samples, uint64_t all) {
    fitting *seen = user;
    assert_true(samples == seen->evaluated + BATCH || samples == all);
    assert_int_equal(all, SAMPLES);
    seen->evaluated = samples == all ? 0 : samples;
    seen->evaluations++;
}

static kn_dataset *dataset_of(const float *x, const int32_t *y, uint64_t count) {
    const kn_dataset_array arrays[] = {
        {"x", {KN_FLOAT32, 1, {INPUTS}}, x, count * INPUTS * sizeof(float), KN_FLOAT32, 0},
        {"y", {KN_INT32, 0, {0}}, y, count * sizeof(int32_t), KN_INT32, 0},
    };
    kn_dataset *data = kn_dataset_create_from_arrays(count, arrays, 2, CLASSES, NULL);
    if (kn_dataset_status(data)) fail_msg("%s", kn_dataset_error(data));
    return data;
}

static void begin(fitting *fit, kn_context *context, const kn_trainer_params *params) {
    *fit = (fitting){.net = net_make(), .result = KN_FIT_RESULT_DEFAULTS};
    fit->trainer = trainer_make(context, fit->net.loss.value, params);
    fit->data = dataset_of(&sample_x[0][0], sample_y, SAMPLES);
    kn_value *values[] = {fit->net.loss.value, fit->net.loss.accuracy};
    kn_session_params session;
    kn_session_params_init(&session);
    session.states = kn_trainer_states(fit->trainer);
    fit->evaluator = kn_session_create(context, values, 2, &session);
    if (kn_session_status(fit->evaluator)) fail_msg("%s", kn_session_error(fit->evaluator));
    kn_fit_params_init(&fit->params);
    kn_loader_params_init(&fit->loader);
    fit->params.loader = &fit->loader;
    fit->loader.batch = BATCH;
    fit->loader.seed = 3;
    fit->params.validation = fit->data;
    fit->params.eval_session = fit->evaluator;
    fit->params.loss = kn_value_name(values[0]);
    fit->params.accuracy = kn_value_name(values[1]);
    fit->params.user = fit;
    fit->params.on_step = on_step;
    fit->params.needs_states = wait_for;
    fit->params.on_epoch = on_epoch;
}

static void end(fitting *fit) {
    kn_session_destroy(&fit->evaluator);
    kn_trainer_destroy(&fit->trainer);
    kn_dataset_destroy(&fit->data);
    net_destroy(&fit->net);
}

static void run(fitting *fit, kn_status expected) {
    kn_status status = kn_fit(fit->trainer, fit->data, &fit->params, &fit->result);
    if (status != expected)
        fail_msg("%s instead of %s: %s", kn_status_name(status), kn_status_name(expected),
                 fit->result.message);
}

TEST(epochs_are_counted) {
    fitting fit;
    begin(&fit, *state, NULL);
    fit.params.epochs = 3;
    run(&fit, KN_OK);
    assert_int_equal(fit.result.stop_reason, KN_STOP_DONE);
    assert_int_equal(fit.result.step, 3 * BATCHES);
    assert_int_equal(fit.result.epoch, 3);
    assert_int_equal(fit.steps, 3 * BATCHES);
    assert_int_equal(fit.epochs, 3);
    assert_int_equal(fit.samples, 3 * SAMPLES);
    assert_int_equal(fit.last_count, LAST);
    assert_int_equal(fit.result.validation.samples, SAMPLES);
    assert_true(isfinite(fit.result.loss) && fit.result.samples_per_s > 0);
    assert_true(fit.result.epoch_loss == fit.losses[2] && fit.losses[2] < fit.losses[0]);
    assert_true(isnan(fit.accuracies[0]) && isnan(fit.result.epoch_accuracy));
    assert_string_equal(fit.result.message, "");
    /* Called again: the trainer has done all epochs already. */
    run(&fit, KN_OK);
    assert_int_equal(fit.steps, 3 * BATCHES);
    end(&fit);
}

TEST(validation_is_followed) {
    fitting fit;
    begin(&fit, *state, NULL);
    fit.params.epochs = 2;
    fit.params.on_validation = on_validation;
    run(&fit, KN_OK);
    assert_int_equal(fit.evaluations, 2 * BATCHES);
    assert_int_equal(fit.evaluated, 0);
    end(&fit);
}

TEST(it_learns) {
    if (test_cases_wanted() == TEST_SMALLEST) skip_because(TOO_LONG_FOR_A_SIMULATOR);
    fitting fit;
    kn_trainer_params params = adam();
    params.learning_rate = 0.02;
    begin(&fit, *state, &params);
    fit.params.epochs = 30;
    run(&fit, KN_OK);
    if (!(fit.result.validation.accuracy >= 0.9 && fit.result.validation.loss < 0.5))
        fail_msg("accuracy %g, loss %g", fit.result.validation.accuracy, fit.result.validation.loss);
    end(&fit);
}

TEST(full_batches_alone) {
    fitting fit;
    begin(&fit, *state, NULL);
    fit.params.epochs = 2;
    fit.loader.drop_last = true;
    run(&fit, KN_OK);
    assert_int_equal(fit.steps, 2 * (BATCHES - 1));
    assert_int_equal(fit.last_count, BATCH);
    /* No complete batch: an error instead of an endless loop. */
    fit.loader.batch = SAMPLES + 1;
    run(&fit, KN_ERROR_ARGUMENT);
    assert_int_equal(fit.result.stop_reason, KN_STOP_ERROR);
    assert_non_null(strstr(fit.result.message, "batch"));
    end(&fit);
}

TEST(steps_are_of_the_trainer) {
    fitting fit;
    begin(&fit, *state, NULL);
    fit.params.steps = BATCHES + 2;
    run(&fit, KN_OK);
    assert_int_equal(fit.result.stop_reason, KN_STOP_DONE);
    assert_int_equal(fit.result.step, BATCHES + 2);
    assert_int_equal(fit.result.epoch, 2);
    /* The second epoch is incomplete, but evaluated. */
    assert_int_equal(fit.epochs, 2);
    assert_int_equal(fit.result.validation.samples, SAMPLES);
    end(&fit);
}

TEST(seconds_end_it) {
    fitting fit;
    begin(&fit, *state, NULL);
    fit.params.seconds = 1e-9;
    run(&fit, KN_OK);
    assert_int_equal(fit.result.stop_reason, KN_STOP_DONE);
    assert_int_equal(fit.steps, 0);
    assert_true(isnan(fit.result.loss) && isnan(fit.result.epoch_loss));
    fit.params.seconds = 0.2;
    run(&fit, KN_OK);
    assert_true(fit.steps > 0);
    end(&fit);
}

TEST(callbacks_end_it) {
    fitting fit;
    begin(&fit, *state, NULL);
    fit.stop_at_step = 2;
    fit.waits = true;
    run(&fit, KN_OK);
    assert_int_equal(fit.result.stop_reason, KN_STOP_CALLBACK);
    assert_int_equal(fit.result.step, 2);
    assert_int_equal(fit.lead, 0);
    assert_true(fabs(fit.result.epoch_loss - fit.loss_sum / (double)fit.samples) < 1e-12);
    fit.stop_at_step = 0;
    fit.epochs = 0;
    fit.stop_at_epoch = 2;
    run(&fit, KN_OK);
    assert_int_equal(fit.result.stop_reason, KN_STOP_CALLBACK);
    assert_int_equal(fit.result.step, 2 * BATCHES);
    end(&fit);
}

/* If the next batch is ready, the next step is queued before a loss is read; the results stay the same. A
 * stopped run completes and reports the step that was queued. */
TEST(the_next_step_is_queued) {
    fitting fits[2];
    for (int i = 0; i < 2; i++) {
        begin(&fits[i], *state, NULL);
        fits[i].waits = i == 1;
        do {
            fits[i].params.epochs += 4;
            run(&fits[i], KN_OK);
        } while (i == 0 ? !fits[0].lead : fits[1].result.step < fits[0].result.step);
    }
    assert_int_equal(fits[1].lead, 0);
    assert_int_equal(fits[0].result.step, fits[1].result.step);
    assert_int_equal(fits[0].steps, fits[1].steps);
    assert_true(fits[0].loss_sum == fits[1].loss_sum && fits[0].result.loss == fits[1].result.loss);
    assert_memory_equal(fits[0].rates, fits[1].rates, sizeof fits[0].rates);
    fits[0].params.epochs = 0;
    fits[0].stop_at_step = fits[0].steps + 2;
    run(&fits[0], KN_OK);
    assert_int_equal(fits[0].result.stop_reason, KN_STOP_CALLBACK);
    assert_int_equal(fits[0].result.step, fits[0].steps);
    assert_int_equal(fits[0].result.step, kn_trainer_steps(fits[0].trainer));
    assert_true(fits[0].steps - fits[0].stop_at_step <= 1);
    end(&fits[0]);
    end(&fits[1]);
}

/* With a learning rate of zero and without statistics no epoch is better than the first. */
TEST(patience_ends_it) {
    fitting fit;
    kn_trainer_params params = adam();
    begin(&fit, *state, &params);
    kn_trainer_destroy(&fit.trainer);
    kn_session_destroy(&fit.evaluator);
    net_destroy(&fit.net);
    fit.net.model = kn_model_parse("koine 1\ninput x 6\nlogits = linear 3\n", NULL);
    fit.net.loss = (kn_model_loss)KN_MODEL_LOSS_DEFAULTS;
    assert_int_equal(kn_model_add_loss(fit.net.model, NULL, &fit.net.loss), KN_OK);
    params.learning_rate = 0;
    fit.trainer = trainer_make(*state, fit.net.loss.value, &params);
    kn_session_params session;
    kn_session_params_init(&session);
    session.states = kn_trainer_states(fit.trainer);
    fit.evaluator = kn_session_create(*state, &fit.net.loss.value, 1, &session);
    fit.params.eval_session = fit.evaluator;
    fit.params.loss = kn_value_name(fit.net.loss.value);
    fit.params.accuracy = NULL;
    fit.params.patience = 2;
    fit.params.epochs = 100;
    run(&fit, KN_OK);
    assert_int_equal(fit.result.stop_reason, KN_STOP_PATIENCE);
    assert_int_equal(fit.epochs, 3);
    assert_true(fit.best[0] && !fit.best[1] && !fit.best[2]);
    assert_true(isnan(fit.result.validation.accuracy));
    end(&fit);
}

/* A trainer whose steps report their accuracy, without a validation session. */
static void begin_with_accuracy(fitting *fit, kn_context *context) {
    kn_trainer_params params = adam();
    begin(fit, context, &params);
    kn_session_destroy(&fit->evaluator);
    kn_trainer_destroy(&fit->trainer);
    params.extra = &fit->net.loss.accuracy;
    params.extra_count = 1;
    fit->trainer = trainer_make(context, fit->net.loss.value, &params);
    fit->params.validation = NULL;
    fit->params.eval_session = NULL;
    fit->params.train_accuracy = kn_value_name(fit->net.loss.accuracy);
}

TEST(accuracy_is_reported_with_the_loss) {
    fitting fit;
    begin(&fit, *state, NULL);
    fit.params.validation = NULL;
    fit.params.epochs = 2;
    run(&fit, KN_OK);
    uint64_t without = states_hash(kn_trainer_states(fit.trainer));
    end(&fit);
    begin_with_accuracy(&fit, *state);
    fit.params.epochs = 1;
    run(&fit, KN_OK);
    const double right = fit.right_sum;
    assert_true(right > 0 && fabs(right - round(right)) < 1e-4); /* a count of samples */
    assert_true(fabs(fit.accuracies[0] - right / SAMPLES) < 1e-12);
    fit.params.epochs = 2;
    run(&fit, KN_OK);
    assert_true(fabs(fit.accuracies[1] - (fit.right_sum - right) / SAMPLES) < 1e-12);
    assert_true(fit.result.epoch_accuracy == fit.accuracies[1]);
    /* Counting does not change the training. */
    assert_true(states_hash(kn_trainer_states(fit.trainer)) == without);
    fit.params.train_accuracy = "no such value";
    fit.params.epochs = 3;
    run(&fit, KN_ERROR_NOT_FOUND);
    end(&fit);
}

/* Stopped within an epoch: the mean is that of the whole epoch, or of the steps that were counted. */
TEST(accuracy_continues_after_a_stop) {
    double whole = 0;
    for (int stops = 0; stops < 3; stops++) {
        fitting fit;
        begin_with_accuracy(&fit, *state);
        const char *name = fit.params.train_accuracy;
        fit.params.save_progress = true;
        if (stops) {
            fit.params.steps = BATCHES + 2;
            if (stops == 2) fit.params.train_accuracy = NULL; /* like a checkpoint without the count */
            run(&fit, KN_OK);
            fit.params.steps = 0;
            fit.params.train_accuracy = name;
            fit.epochs = 0;
            fit.right_sum = 0;
        }
        fit.params.epochs = 2;
        run(&fit, KN_OK);
        if (!stops) whole = fit.accuracies[1];
        if (stops == 1) assert_true(fit.accuracies[0] == whole);
        if (stops == 2) assert_true(fabs(fit.accuracies[0] - fit.right_sum / (SAMPLES - 2 * BATCH)) < 1e-12);
        end(&fit);
    }
}

/* Validation samples with wrong labels: the better the training, the worse the validation loss. */
TEST(patience_keeps_the_best) {
    if (test_cases_wanted() == TEST_SMALLEST) skip_because(TOO_LONG_FOR_A_SIMULATOR);
    static int32_t wrong[SAMPLES];
    fitting fit;
    uint64_t first = 0;
    for (int i = 0; i < SAMPLES; i++)
        wrong[i] = (sample_y[i] + 1) % CLASSES;
    kn_dataset *validation = dataset_of(&sample_x[0][0], wrong, SAMPLES);
    for (int epochs = 1; epochs <= 4; epochs += 3) {
        for (int patience = 0; patience <= 9; patience += 3) {
            begin(&fit, *state, NULL);
            fit.params.validation = validation;
            fit.params.epochs = (uint64_t)epochs;
            fit.params.patience = (uint64_t)patience;
            fit.stop_at_epoch = patience == 9 ? epochs : 0;
            run(&fit, KN_OK);
            uint64_t hash = states_hash(kn_trainer_states(fit.trainer));
            if (!first) first = hash;
            bool back = epochs > 1 && patience && patience < 9;
            assert_int_equal(fit.steps, epochs * BATCHES);
            assert_int_equal(fit.result.step, back ? BATCHES : epochs * BATCHES);
            assert_int_equal(fit.result.discarded_steps, back ? (epochs - 1) * BATCHES : 0);
            assert_int_equal(kn_trainer_steps(fit.trainer), fit.result.step);
            assert_int_equal(hash == first, epochs == 1 || back);
            if (epochs > 1) assert_int_equal(fit.result.stop_reason == KN_STOP_PATIENCE, patience == 3);
            /* The reported score belongs to the final weights. */
            kn_score score = KN_SCORE_DEFAULTS;
            assert_int_equal(kn_evaluate(fit.evaluator, validation, SAMPLES, fit.params.loss, NULL, &score),
                             KN_OK);
            assert_true(fabs(score.loss - fit.result.validation.loss) <= 1e-6);
            assert_true(fit.result.epoch_loss == fit.losses[back ? 0 : epochs - 1]);
            end(&fit);
        }
    }
    kn_dataset_destroy(&validation);
}

/* A program built when the result ended after `loss`. */
TEST(an_older_result_is_filled_in) {
    fitting fit;
    begin(&fit, *state, NULL);
    fit.params.epochs = 1;
    fit.result.size = offsetof(kn_fit_result, validation);
    fit.result.data_seconds = -7;
    run(&fit, KN_OK);
    assert_int_equal(fit.result.step, BATCHES);
    assert_true(fit.result.data_seconds == -7);
    fit.result.size = 0;
    assert_int_equal(kn_fit(fit.trainer, fit.data, &fit.params, &fit.result), KN_ERROR_ARGUMENT);
    end(&fit);
}

/* At any position, within an epoch or between two: the same order of samples, the same bits. */
TEST(training_resumes_anywhere) {
    fitting fit;
    uint64_t hashes[3];
    const uint64_t stops[] = {0, BATCHES, BATCHES + 1};
    for (int i = 0; i < 3; i++) {
        begin(&fit, *state, NULL);
        fit.params.validation = NULL;
        if (stops[i]) {
            fit.params.steps = stops[i];
            run(&fit, KN_OK);
            assert_int_equal(fit.result.step, stops[i]);
        }
        fit.params.steps = 0;
        fit.params.epochs = 3;
        run(&fit, KN_OK);
        assert_int_equal(fit.result.step, 3 * BATCHES);
        assert_int_equal(fit.result.validation.samples, 0);
        hashes[i] = states_hash(kn_trainer_states(fit.trainer));
        end(&fit);
    }
    assert_true(hashes[0] == hashes[1]);
    assert_true(hashes[0] == hashes[2]);
    /* The order of samples changes the result, otherwise the test above would prove nothing. */
    begin(&fit, *state, NULL);
    fit.params.validation = NULL;
    fit.loader.no_shuffle = true;
    fit.params.epochs = 3;
    run(&fit, KN_OK);
    assert_true(hashes[0] != states_hash(kn_trainer_states(fit.trainer)));
    end(&fit);
}

static uint64_t hash_after_foreign_step(fitting *fit) {
    kn_feed feeds[2];
    double loss = 0;
    samples_feed(5, BATCH, feeds);
    trainer_good(fit->trainer, kn_trainer_step(fit->trainer, BATCH, feeds, 2, &loss));
    uint64_t hash = states_hash(kn_trainer_states(fit->trainer));
    end(fit);
    return hash;
}

/* Each step gets its batch, also across epochs and with fewer samples; a batch that was uploaded for a step
 * that did not run is not used for a different one. */
TEST(overlapping_steps_equal_separate_ones) {
    const uint64_t steps[] = {2, 2 * BATCHES + 1};
    for (int i = 0; i < 2; i++) {
        fitting fit;
        begin(&fit, *state, NULL);
        fit.params.validation = NULL;
        fit.params.steps = steps[i];
        run(&fit, KN_OK);
        uint64_t hash = hash_after_foreign_step(&fit);

        begin(&fit, *state, NULL);
        kn_loader_params how = {.size = sizeof how, .batch = BATCH, .seed = fit.loader.seed};
        kn_loader *loader = kn_loader_create(fit.data, &how);
        for (uint64_t done = 0; done < steps[i];) {
            kn_batch batch = KN_BATCH_DEFAULTS;
            assert_int_equal(kn_loader_next(loader, &batch), KN_OK);
            if (!batch.count) continue;
            double loss = 0;
            trainer_good(fit.trainer, kn_trainer_step(fit.trainer, (int64_t)batch.count, batch.feeds,
                                                      batch.feed_count, &loss));
            done++;
        }
        kn_loader_destroy(&loader);
        assert_true(hash == hash_after_foreign_step(&fit));
    }
}

/* kn_fit and kn_evaluate feed bytes if the data has bytes: the bits equal those of steps with numbers. */
TEST(bytes_train_like_numbers) {
    static uint8_t bytes[SAMPLES][INPUTS];
    static float numbers[SAMPLES][INPUTS];
    const double scale = 1.0 / 255;
    for (int i = 0; i < SAMPLES * INPUTS; i++) {
        (&bytes[0][0])[i] = (uint8_t)(128 + (int)(60 * (&sample_x[0][0])[i]));
        (&numbers[0][0])[i] = (float)(&bytes[0][0])[i] * (float)scale;
    }
    const kn_dataset_array arrays[] = {
        {"x", {KN_UINT8, 1, {INPUTS}}, bytes, sizeof bytes, KN_FLOAT32, scale},
        {"y", {KN_INT32, 0, {0}}, sample_y, sizeof sample_y, KN_INT32, 0},
    };
    kn_score scores[2] = {KN_SCORE_DEFAULTS, KN_SCORE_DEFAULTS};
    uint64_t hashes[2];
    for (int as_bytes = 0; as_bytes < 2; as_bytes++) {
        fitting fit;
        begin(&fit, *state, NULL);
        kn_dataset_destroy(&fit.data);
        fit.data = as_bytes ? kn_dataset_create_from_arrays(SAMPLES, arrays, 2, CLASSES, NULL)
                            : dataset_of(&numbers[0][0], sample_y, SAMPLES);
        assert_int_equal(kn_dataset_status(fit.data), KN_OK);
        fit.params.validation = fit.data;
        fit.params.epochs = 2;
        run(&fit, KN_OK);
        scores[as_bytes] = fit.result.validation;
        kn_plan_step step = KN_PLAN_STEP_DEFAULTS;
        trainer_good(fit.trainer, kn_trainer_plan_step_at(fit.trainer, 0, &step));
        assert_true((strcmp(step.label, "widen x") == 0) == as_bytes);
        assert_int_equal(kn_session_plan_step_at(fit.evaluator, 0, &step), KN_OK);
        assert_true((strcmp(step.label, "widen x") == 0) == as_bytes);
        hashes[as_bytes] = states_hash(kn_trainer_states(fit.trainer));
        end(&fit);
    }
    assert_true(hashes[0] == hashes[1]);
    assert_true(scores[0].loss == scores[1].loss && scores[0].accuracy == scores[1].accuracy);
}

TEST(not_finite_ends_it) {
    static float x[SAMPLES][INPUTS];
    fitting fit;
    begin(&fit, *state, NULL);
    memcpy(x, sample_x, sizeof x);
    x[BATCH + 1][2] = NAN;
    kn_dataset *data = dataset_of(&x[0][0], sample_y, SAMPLES);
    fit.loader.no_shuffle = true;
    fit.params.find_not_finite = true;
    fit.params.epochs = 2;
    kn_status status = kn_fit(fit.trainer, data, &fit.params, &fit.result);
    assert_int_equal(status, KN_ERROR_NOT_FINITE);
    assert_int_equal(fit.result.stop_reason, KN_STOP_ERROR);
    assert_int_equal(fit.result.step, 2);
    if (!strstr(fit.result.message, "step 2") || !strstr(fit.result.message, "NaN"))
        fail_msg("%s", fit.result.message);
    kn_dataset_destroy(&data);
    end(&fit);
}

TEST(evaluation_uses_every_sample) {
    fitting fit;
    begin(&fit, *state, NULL);
    fit.params.epochs = 1;
    run(&fit, KN_OK);
    kn_score scores[3];
    const uint64_t batches[] = {SAMPLES, BATCH, 1};
    for (int i = 0; i < 3; i++) {
        scores[i] = (kn_score)KN_SCORE_DEFAULTS;
        assert_int_equal(kn_evaluate(fit.evaluator, fit.data, batches[i], fit.params.loss,
                                     fit.params.accuracy, &scores[i]),
                         KN_OK);
        assert_int_equal(scores[i].samples, SAMPLES);
        assert_true(fabs(scores[i].loss - scores[0].loss) <= 1e-6);
        assert_true(fabs(scores[i].accuracy - scores[0].accuracy) <= 1e-6);
    }
    assert_true(fabs(fit.result.validation.loss - scores[0].loss) <= 1e-6);
    end(&fit);
}

TEST(failing_inputs_are_reported) {
    fitting fit;
    begin(&fit, *state, NULL);
    fit.params.epochs = 1;
    kn_dataset *missing = kn_dataset_open("npy:/nowhere/x.npy,/nowhere/y.npy", NULL);
    assert_true(kn_fit(fit.trainer, missing, &fit.params, &fit.result) != KN_OK);
    assert_non_null(strstr(fit.result.message, "nowhere"));
    kn_dataset_destroy(&missing);
    fit.params.loss = "no such value";
    assert_int_equal(kn_fit(fit.trainer, fit.data, &fit.params, &fit.result), KN_ERROR_NOT_FOUND);
    assert_non_null(strstr(fit.result.message, "no such value"));
    fit.params.loss = kn_value_name(fit.net.loss.value);
    fit.loader.batch = 0;
    assert_int_equal(kn_fit(fit.trainer, fit.data, &fit.params, &fit.result), KN_ERROR_ARGUMENT);
    fit.loader.batch = BATCH;
    fit.params.seconds = NAN;
    assert_int_equal(kn_fit(fit.trainer, fit.data, &fit.params, &fit.result), KN_ERROR_ARGUMENT);
    assert_non_null(strstr(fit.result.message, "time limit"));
    fit.params.seconds = 0;
    fit.params.epochs = 2;
    run(&fit, KN_OK);
    end(&fit);
}

/* Parameters that are all left out would train for ever. */
TEST(a_training_without_an_end_is_refused) {
    fitting fit;
    kn_fit_result result = KN_FIT_RESULT_DEFAULTS;
    begin(&fit, *state, NULL);
    assert_int_equal(kn_fit(fit.trainer, fit.data, NULL, &result), KN_ERROR_ARGUMENT);
    assert_non_null(strstr(result.message, "would never end"));
    end(&fit);
}

TEST_FILE(test_fit, device_setup, device_teardown)
