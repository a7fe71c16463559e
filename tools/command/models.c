/* koine models: the models that have a name, and the language of text models. */
#include <stdlib.h>
#include <string.h>

#include "command.h"

static int print_grammar(void) {
    size_t bytes = kn_model_grammar(NULL, 0) + 1;
    char *text = malloc(bytes);
    if (!text) return command_fail("out of memory");
    kn_model_grammar(text, bytes);
    fputs(text, stdout);
    free(text);
    return EXIT_DONE;
}

static int print_list(bool json) {
    for (int i = 0; i < kn_zoo_count(); i++) {
        kn_model *model = model_open(kn_zoo_name(i));
        if (!model) return EXIT_FAILED;
        unsigned long long elements = kn_model_parameter_elements(model);
        if (json)
            printf("{\"name\": \"%s\", \"parameters\": %llu}\n", kn_zoo_name(i), elements);
        else
            printf("%-12s %llu parameters\n", kn_zoo_name(i), elements);
        kn_model_destroy(&model);
    }
    return EXIT_DONE;
}

static int run(int count, char **arguments) {
    bool text = false, grammar = false, json = false;
    const option options[] = {
        {"text", OPTION_FLAG, NULL, "print the text of the model", &text},
        {"grammar", OPTION_FLAG, NULL, "print the page that explains text models", &grammar},
        {"json", OPTION_FLAG, NULL, "one JSON object per model", &json},
        {.name = NULL}};
    const char *words[1];
    int word_count, status;
    if (!options_read(&command_models, options, count, arguments, words, &word_count, 1, &status))
        return status;
    if (grammar) return print_grammar();
    if (!word_count) return print_list(json);
    kn_model *model = model_open(words[0]);
    if (!model) return EXIT_FAILED;
    if (text)
        fputs(kn_model_text(model), stdout);
    else
        printf("%s: %llu parameters, trained with %s\n", kn_model_name(model),
               (unsigned long long)kn_model_parameter_elements(model), kn_model_loss_name(model));
    kn_model_destroy(&model);
    return EXIT_DONE;
}

const command command_models = {
    "models", "the models that have a name, and their text", "[NAME] [--text] [--grammar]",
    "Lists the models that can be named. With --text it prints one as a text model, ready to be changed.\n"
    "\n"
    "  koine models lenet --text > my.koine",
    run};
