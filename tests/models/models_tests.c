/* Helpers of the tests of models. */
#include "models_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

kn_model *parse(const char *text) {
    kn_model *model = kn_model_parse(text, NULL);
    assert_non_null(model);
    if (kn_model_status(model) != KN_OK) fail_msg("%s", kn_model_error(model));
    assert_string_equal(kn_model_error(model), "");
    return model;
}

void refused(const char *text, const char *message) {
    char whole[4096];
    bool bare = text[0] == '|';
    snprintf(whole, sizeof whole, "%s%s", bare ? "" : "koine 1\ninput x 3\n", text + bare);
    kn_model *model = kn_model_parse(whole, NULL);
    assert_non_null(model);
    assert_string_equal(kn_model_error(model), message);
    assert_int_not_equal(kn_model_status(model), KN_OK);
    /* A failed model can still be queried and destroyed. */
    assert_null(kn_model_graph(model));
    assert_null(kn_model_output_at(model, 0));
    assert_string_equal(kn_model_text(model), "");
    kn_model_destroy(&model);
    assert_null(model);
}

void has_shape(const kn_model *model, const char *name, const char *shape) {
    char text[256];
    const kn_value *value = kn_graph_find(kn_model_graph(model), name);
    if (!value) fail_msg("there is no '%s'", name);
    kn_value_shape_text(value, text, sizeof text);
    if (strcmp(text, shape)) fail_msg("%s has shape '%s', expected '%s'", name, text, shape);
}

void has_shapes(const kn_model *model, const char *list) {
    for (size_t length = 0; *list; list += length + strspn(list + length, "; ")) {
        char item[256], *shape;
        length = strcspn(list, ";");
        snprintf(item, sizeof item, "%.*s", (int)length, list);
        if ((shape = strchr(item, ' '))) *shape++ = 0;
        has_shape(model, item, shape ? shape : "");
    }
}

void has_parameters(const kn_model *model, const char *names) {
    char text[4096] = "";
    const kn_graph *graph = kn_model_graph(model);
    for (size_t i = 0; i < kn_graph_parameter_count(graph); i++) {
        size_t length = strlen(text);
        snprintf(text + length, sizeof text - length, "%s%s", i ? " " : "",
                 kn_value_name(kn_graph_parameter_at(graph, i)));
    }
    assert_string_equal(text, names);
}
