/* Losses added to a model's graph. */
#include "models_tests.h"

#include <stdio.h>
#include <string.h>

#include "graph/graph.h"

static kn_model_loss add(kn_model *model, const char *name) {
    kn_model_loss loss = KN_MODEL_LOSS_DEFAULTS;
    if (kn_model_add_loss(model, name, &loss) != KN_OK) fail_msg("%s", kn_model_error(model));
    assert_int_equal(kn_value_rank(loss.value), 0);
    assert_string_equal(kn_value_name(loss.target), "y");
    assert_string_equal(kn_value_name(loss.value), "loss");
    return loss;
}

TEST(classes) {
    kn_model *model = parse("koine 1\ninput x 5x7\nlinear 3\n");
    kn_model_loss loss = add(model, NULL);
    has_shape(model, "y", "batch,5");
    assert_int_equal(kn_value_dtype(loss.target), KN_INT32);
    assert_string_equal(kn_value_name(loss.accuracy), "accuracy");
    assert_int_equal(kn_model_input_count(model), 1); /* the target does not count as an input of the model */
    assert_int_equal(kn_model_output_count(model), 1);
    kn_model_destroy(&model);
}

TEST(numbers) {
    kn_model *model = parse("koine 1\ntask regression\ninput x 7\nlinear 3\n");
    kn_model_loss loss = add(model, NULL);
    has_shape(model, "y", "batch,3");
    assert_int_equal(kn_value_dtype(loss.target), KN_FLOAT32);
    assert_null(loss.accuracy);
    kn_model_destroy(&model);
    model = parse("koine 1\ninput x 7\nlinear 3\n");
    loss = add(model, "binary-cross-entropy");
    has_shape(model, "y", "batch,3");
    assert_null(loss.accuracy);
    kn_model_destroy(&model);
    model = parse("koine 1\ntask regression\ninput x 7\nlinear 3\n");
    loss = add(model, "cross-entropy"); /* target distributions */
    has_shape(model, "y", "batch,3");
    assert_int_equal(kn_value_dtype(loss.target), KN_FLOAT32);
    kn_model_destroy(&model);
}

static double setting(const kn_model *model, const char *operator_name, const char *attribute) {
    const kn_graph *graph = kn_model_graph(model);
    for (size_t i = 0; i < graph->node_count; i++)
        if (!strcmp(graph->nodes[i]->op->name, operator_name))
            return kn_attribute_of(graph->nodes[i], attribute)->number;
    fail_msg("there is no %s", operator_name);
    return 0;
}

TEST(settings) {
    kn_model *model = parse("koine 1\nloss huber delta=0.25\ntask regression\ninput x 7\nlinear 3\n");
    add(model, NULL);
    assert_true(setting(model, "huber_error", "delta") == 0.25);
    kn_model_destroy(&model);
    model = parse("koine 1\nloss huber delta=0.25\ntask regression\ninput x 7\nlinear 3\n");
    add(model, "huber"); /* the model's loss, by name */
    assert_true(setting(model, "huber_error", "delta") == 0.25);
    kn_model_destroy(&model);
    model = parse("koine 1\nloss smoothing=0.1 cross-entropy\ninput x 7\nlinear 3\n");
    add(model, NULL);
    assert_true(setting(model, "cross_entropy", "smoothing") == 0.1 ||
                setting(model, "cross_entropy", "label_smoothing") == 0.1);
    kn_model_destroy(&model);
    model = parse("koine 1\nloss huber delta=0.25\ntask regression\ninput x 7\nlinear 3\n");
    add(model, "mse"); /* a different loss, which does not get its settings */
    kn_model_destroy(&model);
}

/* Each name adds its operator, with its setting. */
TEST(by_name) {
    static const struct {
        const char *line, *row, *attribute;
        double number;
    } known[] = {
        {"nll ignore=-1", "class_share", "ignored", -1},
        {"cross-entropy ignore=2 smoothing=0.25", "class_share", "label_smoothing", 0.25},
        {"nll", "class_share", "ignored", -0.5},
        {"l1", "absolute_error", NULL, 0},
        {"smooth-l1 beta=0.5", "huber_error", "delta", 0.5},
        {"smooth-l1 beta=0.5", "scale", "factor", 2},
        {"probability-cross-entropy", "probability_error", NULL, 0},
        {"kl-divergence", "divergence_error", NULL, 0},
        {"hinge margin=0.5", "hinge_error", "margin", 0.5},
    };
    for (size_t i = 0; i < KN_COUNT_OF(known); i++) {
        char text[128];
        snprintf(text, sizeof text, "koine 1\nloss %s\ninput x 7\nlinear 3\n", known[i].line);
        kn_model *model = parse(text);
        kn_model_loss loss = add(model, NULL);
        assert_int_equal(loss.accuracy != NULL, i < 3);
        assert_true(loss.has_ignore_index == (i < 2) && loss.ignore_index == (i == 0 ? -1 : i == 1 ? 2 : 0));
        if (loss.accuracy) /* the quotient excludes what the loss ignores */
            assert_string_equal(loss.accuracy->producer->op->name, i < 2 ? "div" : "accuracy");
        if (known[i].attribute)
            assert_true(setting(model, known[i].row, known[i].attribute) == known[i].number);
        kn_model_destroy(&model);
    }
}

TEST(classes_have_weights) {
    const float weights[] = {1, 0, 2.5f}, wrong[] = {1, -1, 2};
    kn_model *model = parse("koine 1\ninput x 7\nlinear 3\n");
    kn_model_loss loss = KN_MODEL_LOSS_DEFAULTS;
    assert_int_equal(kn_model_add_weighted_loss(model, NULL, weights, 2, &loss), KN_ERROR_SHAPE);
    assert_non_null(strstr(kn_model_error(model), "2 class weights"));
    kn_model_destroy(&model);
    model = parse("koine 1\ninput x 7\nlinear 3\n");
    assert_int_equal(kn_model_add_weighted_loss(model, NULL, wrong, 3, &loss), KN_ERROR_ARGUMENT);
    assert_non_null(strstr(kn_model_error(model), "weight 1 is -1"));
    kn_model_destroy(&model);
    model = parse("koine 1\ninput x 7\nlinear 3\n");
    assert_int_equal(kn_model_add_weighted_loss(model, "mse", weights, 3, &loss), KN_ERROR_ARGUMENT);
    assert_non_null(strstr(kn_model_error(model), "does not support class weights"));
    assert_int_equal(kn_model_add_weighted_loss(model, "nll", weights, 3, &loss), KN_OK);
    assert_non_null(loss.accuracy);
    kn_model_destroy(&model);
}

/* The training loss reads two more inputs; the validation loss does not. */
TEST(samples_are_mixed) {
    const float weights[] = {1, 0, 2.5f};
    kn_model_loss loss = KN_MODEL_LOSS_DEFAULTS;
    kn_model *model = parse("koine 1\nloss cross-entropy smoothing=0.1\ninput x 7\nlinear 3\n");
    assert_int_equal(kn_model_add_mixed_loss(model, NULL, NULL, 0, &loss), KN_OK);
    has_shape(model, "y.other", "batch");
    has_shape(model, "y.share", "batch");
    assert_ptr_not_equal(loss.value, loss.eval_loss);
    assert_string_equal(kn_value_name(loss.eval_loss), "loss");
    assert_string_equal(kn_value_name(loss.value), "loss.mixed");
    assert_non_null(loss.accuracy);
    kn_model_destroy(&model);
    model = parse("koine 1\ninput x 7\nlinear 3\n");
    assert_int_equal(kn_model_add_mixed_loss(model, "nll", weights, 3, &loss), KN_OK);
    kn_model_destroy(&model);
    static const char *const others[] = {"koine 1\ntask regression\ninput x 7\nlinear 3\n",
                                         "koine 1\nloss mse\ninput x 7\nlinear 3\n",
                                         "koine 1\ninput x 5x7\nlinear 3\n"};
    for (size_t i = 0; i < KN_COUNT_OF(others); i++) {
        model = parse(others[i]);
        assert_int_equal(kn_model_add_mixed_loss(model, NULL, NULL, 0, &loss), KN_ERROR_ARGUMENT);
        assert_non_null(strstr(kn_model_error(model), "need one class per sample"));
        assert_int_equal(kn_model_add_loss(model, NULL, &loss), KN_OK); /* nothing was added */
        kn_model_destroy(&model);
    }
    model = parse("koine 1\ninput x 7\nlinear 3\n");
    assert_int_equal(kn_model_add_loss(model, NULL, &loss), KN_OK);
    assert_ptr_equal(loss.value, loss.eval_loss);
    kn_model_destroy(&model);
}

TEST(wrong) {
    kn_model_loss loss = KN_MODEL_LOSS_DEFAULTS;
    kn_model *model = parse("koine 1\ninput x 7\nlinear 3\n");
    assert_int_equal(kn_model_add_loss(NULL, NULL, &loss), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_model_add_loss(model, NULL, NULL), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_model_add_loss(model, "mes", &loss), KN_ERROR_NOT_FOUND);
    assert_string_equal(kn_model_error(model),
                        "no loss is called 'mes'; expected cross-entropy, nll, mse, l1, huber, smooth-l1, "
                        "binary-cross-entropy, probability-cross-entropy, kl-divergence or hinge; did you "
                        "mean 'mse'?");
    assert_null(loss.value);
    assert_int_equal(kn_model_status(model), KN_OK); /* still usable */
    assert_int_equal(kn_model_add_loss(model, "mse", &loss), KN_OK);
    assert_int_equal(kn_model_add_loss(model, "mse", &loss), KN_ERROR_ARGUMENT);
    assert_string_equal(kn_model_error(model), "model 'text' already has a loss");
    kn_model_destroy(&model);
    model = parse("koine 1\ninput y 7\nlinear 3\n");
    assert_int_equal(kn_model_add_loss(model, NULL, &loss), KN_ERROR_ARGUMENT);
    kn_model_destroy(&model);
    model = parse("koine 1\ninput x 7\nsum\n");
    assert_int_equal(kn_model_add_loss(model, NULL, &loss), KN_ERROR_SHAPE);
    assert_string_equal(kn_model_error(model), "output 'sum1' is a scalar; expected (...,classes)");
    kn_model_destroy(&model);
}

TEST_FILE(test_losses, NULL, NULL)
