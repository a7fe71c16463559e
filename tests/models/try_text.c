/* What must hold for any text, for the mutations and for the fuzzer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models_tests.h"

static bool says(char *sentence, size_t room, const char *format, const char *detail) {
    snprintf(sentence, room, format, detail);
    return false;
}

static bool refusal_is_told(const kn_model *model, char *sentence, size_t room) {
    const char *error = kn_model_error(model);
    if (!error[0]) return says(sentence, room, "refused without a word%s", "");
    if (strncmp(error, "text:", 5)) return says(sentence, room, "no place in: %s", error);
    for (const char *at = error; *at; at++)
        if ((unsigned char)*at < 0x20) return says(sentence, room, "a control character in: %s", error);
    if (kn_model_graph(model) || kn_model_text(model)[0])
        return says(sentence, room, "a failed model shows more%s", "");
    return true;
}

static bool prints_alike(const kn_model *model, char *sentence, size_t room) {
    kn_model *again = kn_model_parse(kn_model_text(model), NULL);
    bool good = again && kn_model_status(again) == KN_OK;
    if (!good)
        says(sentence, room, "its own text is refused: %s", again ? kn_model_error(again) : "no memory");
    else if (strcmp(kn_model_text(again), kn_model_text(model)))
        good = says(sentence, room, "printed otherwise the second time:\n%s", kn_model_text(again));
    else if (kn_model_parameter_elements(again) != kn_model_parameter_elements(model))
        good = says(sentence, room, "another number of parameters%s", "");
    kn_model_destroy(&again);
    return good;
}

bool text_is_treated_well(const char *text, size_t bytes, char *sentence, size_t room) {
    char *copy = malloc(bytes + 1); /* exactly that size, so that a sanitizer detects reads past the end */
    if (!copy) return true;
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    kn_model *model = kn_model_parse(copy, NULL);
    free(copy);
    bool good;
    if (!model)
        good = says(sentence, room, "no memory%s", "");
    else if (kn_model_status(model) != KN_OK)
        good = refusal_is_told(model, sentence, room);
    else if (kn_model_output_count(model) < 1 || kn_model_input_count(model) < 1)
        good = says(sentence, room, "a model without input or output%s", "");
    else
        good = prints_alike(model, sentence, room);
    kn_model_destroy(&model);
    return good;
}
