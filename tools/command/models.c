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

static void print_shapes(const char *what, const kn_model *model, int count,
                         kn_value *(*at)(const kn_model *, int)) {
    char shape[200];
    for (int i = 0; i < count; i++) {
        kn_value_shape_text(at(model, i), shape, sizeof shape);
        printf("  %-7s %s %s (%s)\n", what, kn_value_name(at(model, i)),
               kn_dtype_name(kn_value_dtype(at(model, i))), shape);
    }
}

/* 24500000 as "24.5 M" */
static void print_amount(double amount, const char *unit) {
    static const char *const prefixes[] = {"", "k", "M", "G", "T"};
    int prefix = 0;
    while (amount >= 1000 && prefix < 4) {
        amount /= 1000;
        prefix++;
    }
    printf("%.*f %s%s", amount < 10 && prefix ? 2 : amount < 100 && prefix ? 1 : 0, amount, prefixes[prefix], unit);
}

static int print_model(const char *name, bool text, bool json, bool shapes) {
    kn_model *model = model_open(name);
    if (!model) return EXIT_FAILED;
    unsigned long long elements = kn_model_parameter_elements(model);
    if (text) {
        fputs(kn_model_text(model), stdout);
    } else if (json) {
        fputs("{\"name\": ", stdout);
        json_text(stdout, kn_model_name(model));
        printf(", \"parameters\": %llu, \"flops\": %.0f, \"loss\": ", elements, kn_model_flops(model));
        json_text(stdout, kn_model_loss_name(model));
        fputs("}\n", stdout);
    } else {
        printf("%-12s %10llu parameters, ", kn_model_name(model), elements);
        print_amount(kn_model_flops(model), "FLOP");
        printf(" a sample, trained with %s\n", kn_model_loss_name(model));
    }
    if (shapes) {
        print_shapes("input", model, kn_model_input_count(model), kn_model_input);
        print_shapes("output", model, kn_model_output_count(model), kn_model_output);
    }
    kn_model_destroy(&model);
    return EXIT_DONE;
}

static int run(int count, char **arguments) {
    bool text = false, grammar = false, json = false;
    const option options[] = {
        {"text", OPTION_FLAG, NULL, "print the text of MODEL, ready to be changed", &text},
        {"grammar", OPTION_FLAG, NULL, "print the page that explains text models", &grammar},
        {"json", OPTION_FLAG, NULL, "results as JSON objects, one a line, for programs", &json},
        {.name = NULL}};
    const char *words[1];
    int word_count, status;
    if (!options_read(&command_models, options, count, arguments, words, &word_count, 1, &status))
        return status;
    if (text && json) return command_misuse("--text and --json are two different answers");
    if (grammar) return print_grammar();
    if (word_count) return print_model(words[0], text, json, !text && !json);
    if (text) return command_misuse("--text needs a model, such as koine models lenet --text");
    for (int i = 0; i < kn_zoo_count(); i++)
        if ((status = print_model(kn_zoo_name(i), false, json, false)) != EXIT_DONE) return status;
    return EXIT_DONE;
}

const command command_models = {
    "models", "the models that have a name, and their text", "[MODEL] [--text] [--grammar] [--json]",
    "Lists the models that can be named, with the operations of their results for one sample (a multiply-add\n"
    "counts as two). For one of them, a text model or a saved one, tells its inputs and outputs as well, or\n"
    "prints its text. --grammar explains the language.\n"
    "\n"
    "  koine models lenet\n"
    "  koine models lenet --text > my.koine\n"
    "  koine models --grammar",
    run};
