/* Lines and words, and the canonical text. */
#include "models_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/models.h"

/* The text must be printed like this, and the same when that is read. */
static void prints(const char *text, const char *canonical) {
    kn_model *model = parse(text);
    assert_string_equal(kn_model_text(model), canonical);
    kn_model *again = parse(canonical);
    assert_string_equal(kn_model_text(again), canonical);
    kn_model_destroy(&model);
    kn_model_destroy(&again);
}

TEST(blanks) {
    prints("koine   1\n\n\n\n\tinput x\t3  \n\n\n", "koine 1\n\ninput x 3\n");
    prints("\n\nkoine 1\ninput x 3", "koine 1\ninput x 3\n");
    prints("\xef\xbb\xbfkoine 1\r\ninput x 3\r\nrelu\r\n", "koine 1\ninput x 3\nrelu\n");
}

TEST(equals_signs) {
    prints("koine 1\ninput x 3\na=relu\nb   =linear 3\nlinear units = 4 bias =no\n",
           "koine 1\ninput x 3\na = relu\nb = linear 3\nlinear units=4 bias=no\n");
}

TEST(comments) {
    prints("# first of all\nkoine 1 # version\ninput x 3#here\n#\n#   kept   \n\n## twice \xc3\xa9\nrelu",
           "# first of all\nkoine 1  # version\ninput x 3  #here\n#\n#   kept\n\n## twice \xc3\xa9\nrelu\n");
}

TEST(indentation) {
    prints("koine 1\ninput x 3\nblock b n\n# inside\nrepeat n\nlinear 3\nend # of repeat\n      end\n  b 2\n",
           "koine 1\ninput x 3\nblock b n\n    # inside\n    repeat n\n        linear 3\n    end  # of "
           "repeat\nend\nb 2\n");
}

TEST(inputs_first) {
    prints("koine 1\ninput x 3\na = linear 4 @x bias=no freeze\nadd @a @\n",
           "koine 1\ninput x 3\na = linear @x 4 bias=no freeze\nadd @a @\n");
}

TEST(head) {
    kn_model *model =
        parse("koine 1\nmodel my-net.2\ntask regression\nloss huber delta=2\ninput x 3\nlinear 1\n");
    assert_string_equal(kn_model_name(model), "my-net.2");
    assert_int_equal(kn_model_task(model), KN_TASK_REGRESSION);
    assert_string_equal(kn_model_loss_name(model), "huber");
    kn_model_destroy(&model);
    model = parse("koine 1\ninput x 3\nlinear 1\n");
    assert_string_equal(kn_model_name(model), "text");
    assert_int_equal(kn_model_task(model), KN_TASK_CLASSIFICATION);
    assert_string_equal(kn_model_loss_name(model), "cross-entropy");
    assert_int_equal(kn_model_parameter_elements(model), 4);
    kn_model_destroy(&model);
    model = parse("koine 1\ninput x 3\ntask regression\n");
    assert_string_equal(kn_model_loss_name(model), "mse");
    kn_model_destroy(&model);
}

TEST(inputs) {
    kn_model *model =
        parse("koine 1\ninput a 1x28x28\ninput b length,64\ninput c scalar int32\ninput d lengthx64\n"
              "input e 3xheight\ninput f (max)x2\ninput g width,height\ninput h 5x7 batch=no\n"
              "input i 2*n+1\ninput j scalar uint8 batch=no\ninput k 2x3 float64 batch=yes\nrelu @a\n");
    static const char *const shapes[] = {
        "batch,1,28,28", "batch,length,64",    "batch", "batch,length,64", "batch,3,height",
        "batch,max,2",   "batch,width,height", "5,7",   "batch,2*n+1",     "",
        "batch,2,3"};
    assert_int_equal(kn_model_input_count(model), 11);
    for (int i = 0; i < 11; i++) {
        char text[64];
        kn_value_shape_text(kn_model_input_at(model, i), text, sizeof text);
        assert_string_equal(text, shapes[i]);
    }
    assert_null(kn_model_input_at(model, 11));
    assert_null(kn_model_input_at(model, -1));
    assert_int_equal(kn_value_dtype(kn_model_input_at(model, 0)), KN_FLOAT32);
    assert_int_equal(kn_value_dtype(kn_model_input_at(model, 2)), KN_INT32);
    assert_int_equal(kn_value_dtype(kn_model_input_at(model, 9)), KN_UINT8);
    assert_int_equal(kn_value_dtype(kn_model_input_at(model, 10)), KN_FLOAT64);
    kn_model_destroy(&model);
}

TEST(outputs) {
    kn_model *model =
        parse("koine 1\ninput x 3\noutput a\na = linear 4\nb = relu\nlinear 5\noutput b linear1\n");
    assert_int_equal(kn_model_output_count(model), 3);
    assert_string_equal(kn_value_name(kn_model_output_at(model, 0)), "a");
    assert_string_equal(kn_value_name(kn_model_output_at(model, 1)), "b");
    assert_string_equal(kn_value_name(kn_model_output_at(model, 2)), "linear1");
    assert_null(kn_model_output_at(model, 3));
    kn_model_destroy(&model);
    model = parse("koine 1\ninput x 3\nlinear 4\nrelu\n");
    assert_int_equal(kn_model_output_count(model), 1);
    assert_string_equal(kn_value_name(kn_model_output_at(model, 0)), "relu1");
    assert_int_equal(kn_graph_output_count(kn_model_graph(model)), 1);
    kn_model_destroy(&model);
}

TEST(source_names) {
    kn_model_params params = KN_MODEL_DEFAULTS;
    params.source = "nets/tiny.koine";
    kn_model *model = kn_model_parse("koine 1\ninput x 3\nrelo\n", &params);
    assert_string_equal(kn_model_error(model),
                        "nets/tiny.koine:3:1: found 'relo', expected a kind of layer, an operator "
                        "or a block; did you mean 'relu'?");
    kn_model_destroy(&model);
    model = kn_model_parse("koine 1\ninput x 3\nrelu\n", &params);
    assert_string_equal(kn_model_name(model), "tiny");
    kn_model_destroy(&model);
}

TEST(nothing) {
    kn_model *none = NULL;
    kn_model_destroy(NULL);
    kn_model_destroy(&none);
    assert_int_equal(kn_model_status(NULL), KN_ERROR_MEMORY);
    assert_int_not_equal(strlen(kn_model_error(NULL)), 0);
    assert_string_equal(kn_model_text(NULL), "");
    assert_string_equal(kn_model_name(NULL), "");
    assert_string_equal(kn_model_loss_name(NULL), "");
    assert_null(kn_model_graph(NULL));
    assert_int_equal(kn_model_input_count(NULL), 0);
    assert_null(kn_model_output_at(NULL, 0));
    assert_null(kn_model_metadata(NULL, "koine.model"));
    assert_false(kn_model_has_weights(NULL));
    assert_int_equal(kn_model_parameter_elements(NULL), 0);
    kn_model *model = kn_model_parse(NULL, NULL);
    assert_int_equal(kn_model_status(model), KN_ERROR_ARGUMENT);
    kn_model_destroy(&model);
    model = kn_model_open(NULL, NULL);
    assert_int_equal(kn_model_status(model), KN_ERROR_ARGUMENT);
    kn_model_destroy(&model);
    model = kn_model_create_named(NULL, NULL);
    assert_int_equal(kn_model_status(model), KN_ERROR_ARGUMENT);
    kn_model_destroy(&model);
}

TEST(files) {
    char path[4096], expected[8192];
    char *folder = test_folder_make();
    kn_host host = kn_host_defaults();
    static const char text[] = "koine 1\ninput x 3\nlinear 2\n", wrong[] = "koine 1\ninput x 3\nlinaer 2\n";
    assert_int_equal(
        kn_file_write(&host, test_path(path, sizeof path, folder, "net.koine"), text, strlen(text), NULL),
        KN_OK);
    kn_model *model = kn_model_open(path, NULL);
    assert_string_equal(kn_model_error(model), "");
    assert_string_equal(kn_model_name(model), "net");
    assert_string_equal(kn_model_text(model), text);
    assert_false(kn_model_has_weights(model));
    kn_model_destroy(&model);

    assert_int_equal(
        kn_file_write(&host, test_path(path, sizeof path, folder, "bad"), wrong, strlen(wrong), NULL), KN_OK);
    model = kn_model_open(path, NULL);
    snprintf(expected, sizeof expected,
             "%s:3:1: found 'linaer', expected a kind of layer, an operator or a block; did you "
             "mean 'linear'?",
             path);
    assert_string_equal(kn_model_error(model), expected);
    kn_model_destroy(&model);

    assert_int_equal(kn_file_write(&host, test_path(path, sizeof path, folder, "empty"), "", 0, NULL), KN_OK);
    model = kn_model_open(path, NULL);
    assert_int_equal(kn_model_status(model), KN_ERROR_FORMAT);
    kn_model_destroy(&model);

    model = kn_model_open(folder, NULL);
    assert_int_equal(kn_model_status(model), KN_ERROR_NOT_FOUND);
    kn_model_destroy(&model);
    test_folder_remove(folder);
}

/* A `set` line sets a number for all lines, blocks included; the caller may override it. */
TEST(settings) {
    static const char text[] =
        "koine 1\nset n 3\nset depth 2\nblock twice\n    linear 2*n\nend\ninput x 2*n\n"
        "repeat depth\n    twice\nend\nlinear n+1\n";
    const kn_model_setting wanted[] = {{"n", 5}, {"depth", 1}}, unknown = {"deph", 1};
    kn_model_params params = KN_MODEL_DEFAULTS;
    int64_t number = 0;
    prints(text, text);
    kn_model *model = parse(text);
    assert_int_equal(kn_value_dimension(kn_model_input_at(model, 0), 1), 6);
    assert_int_equal(kn_value_dimension(kn_model_output_at(model, 0), 1), 4);
    assert_true(kn_model_setting_value(model, "depth", &number));
    assert_int_equal(number, 2);
    assert_false(kn_model_setting_value(model, "n2", &number));
    assert_string_equal(kn_model_setting_name_at(model, 1), "depth");
    assert_null(kn_model_setting_name_at(model, 2));
    assert_null(kn_model_setting_name_at(model, -1));
    uint64_t elements = kn_model_parameter_elements(model);
    assert_int_equal(elements, 2 * (6 * 6 + 6) + 6 * 4 + 4);
    kn_model_destroy(&model);
    params.settings = wanted;
    params.setting_count = 2;
    model = kn_model_parse(text, &params);
    assert_int_equal(kn_model_status(model), KN_OK);
    assert_int_equal(kn_model_parameter_elements(model), 10 * 10 + 10 + 10 * 6 + 6);
    assert_non_null(strstr(kn_model_text(model), "set n 5\nset depth 1\n"));
    kn_model_destroy(&model);
    params.settings = &unknown;
    params.setting_count = 1;
    model = kn_model_parse(text, &params);
    assert_int_equal(kn_model_status(model), KN_ERROR_ARGUMENT);
    assert_non_null(strstr(kn_model_error(model),
                           "no setting is called 'deph'; settings: n=3, depth=2; did you mean 'depth'?"));
    kn_model_destroy(&model);
}

TEST_FILE(test_texts, NULL, NULL)
