/* koine models: the named models, and the text format. */
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

static void print_shapes(const char *what, const kn_model *model, size_t count,
                         kn_value *(*at)(const kn_model *, size_t)) {
    char shape[200];
    for (size_t i = 0; i < count; i++) {
        kn_value_shape_text(at(model, i), shape, sizeof shape);
        printf("  %-7s %s %s (%s)\n", what, kn_value_name(at(model, i)),
               kn_dtype_name(kn_value_dtype(at(model, i))), shape);
    }
}

/* 24500000 as "24.5 M" */
static const char *amount_text(double amount, char *text, size_t room) {
    static const char *const prefixes[] = {"", "k", "M", "G", "T"};
    int prefix = 0;
    while (amount >= 1000 && prefix < 4) {
        amount /= 1000;
        prefix++;
    }
    snprintf(text, room, "%.*f %s",
             amount < 10 && prefix    ? 2
             : amount < 100 && prefix ? 1
                                      : 0,
             amount, prefixes[prefix]);
    return text;
}

/* The first comment line of its text: a summary. */
static void about_of(const kn_model *model, char *text, size_t room) {
    const char *line = strstr(kn_model_text(model), "\n# ");
    text[0] = '\0';
    if (line) snprintf(text, room, "%.*s", (int)strcspn(line + 3, "\n"), line + 3);
}

/* "1x28x28", without the batch. */
static void print_input(const kn_model *model) {
    char shape[200], *at;
    kn_value_shape_text(kn_model_input_at(model, 0), shape, sizeof shape);
    for (at = shape; *at; at++)
        if (*at == ',') *at = 'x';
    at = strchr(shape, 'x');
    printf("%-11s", at ? at + 1 : "");
}

static void print_settings(const kn_model *model, const char *format) {
    const char *name;
    int64_t value = 0;
    for (int i = 0; (name = kn_model_setting_name_at(model, i)); i++) {
        kn_model_setting_value(model, name, &value);
        fputs(i ? ", " : "", stdout);
        printf(format, name, (long long)value);
    }
}

static void print_json(const kn_model *model, const char *about) {
    fputs("{\"name\": ", stdout);
    json_text(stdout, kn_model_name(model));
    json_text_member(stdout, "about", about);
    printf(", \"parameters\": %llu, \"flops\": %.0f", (unsigned long long)kn_model_parameter_elements(model),
           kn_model_flops(model));
    json_text_member(stdout, "loss", kn_model_loss_name(model));
    fputs(", \"settings\": {", stdout);
    print_settings(model, "\"%s\": %lld");
    fputs("}}\n", stdout);
}

/* Prints all details of one model. */
static void print_whole(const kn_model *model, const char *about) {
    char amount[32];
    printf("%s: %llu parameters, %sFLOP/sample, loss %s\n", kn_model_name(model),
           (unsigned long long)kn_model_parameter_elements(model),
           amount_text(kn_model_flops(model), amount, sizeof amount), kn_model_loss_name(model));
    if (about[0]) printf("  %s\n", about);
    print_shapes("input", model, kn_model_input_count(model), kn_model_input_at);
    print_shapes("output", model, kn_model_output_count(model), kn_model_output_at);
    if (!kn_model_setting_name_at(model, 0)) return;
    fputs("  sizes   ", stdout);
    print_settings(model, "%s=%lld");
    putchar('\n');
}

typedef enum model_form { FORM_LINE, FORM_WHOLE, FORM_TEXT, FORM_JSON } model_form;

static int print_model(const char *name, model_form form) {
    char about[200], amount[32];
    kn_model *model = model_open(name);
    if (!model) return EXIT_FAILED;
    about_of(model, about, sizeof about);
    if (form == FORM_TEXT) fputs(kn_model_text(model), stdout);
    if (form == FORM_JSON) print_json(model, about);
    if (form == FORM_WHOLE) print_whole(model, about);
    if (form == FORM_LINE) {
        printf("%-13s ", kn_model_name(model));
        print_input(model);
        printf(" %6s parameters  %s\n",
               amount_text((double)kn_model_parameter_elements(model), amount, sizeof amount), about);
    }
    kn_model_destroy(&model);
    return EXIT_DONE;
}

static int run(int count, char **arguments) {
    bool text = false, grammar = false, json = false, quiet = false;
    const option options[] = {
        {"text", OPTION_FLAG, NULL, "print the text of MODEL", &text},
        {"grammar", OPTION_FLAG, NULL, "print the reference of the text format", &grammar},
        JSON_OPTION(json),
        QUIET_OPTION(quiet),
        {.name = NULL}};
    const char *words[1];
    int word_count, status;
    if (!options_read(&command_models, options, count, arguments, words, &word_count, 1, &status))
        return status;
    messages_setup(&(common_options){.quiet = quiet});
    if (text && json) return command_misuse("--text and --json exclude each other");
    if (grammar) return print_grammar();
    if (word_count) return print_model(words[0], text ? FORM_TEXT : json ? FORM_JSON : FORM_WHOLE);
    if (text) return command_misuse("--text needs a model, such as koine models lenet --text");
    for (size_t i = 0; i < kn_zoo_count(); i++)
        if ((status = print_model(kn_zoo_name_at(i), json ? FORM_JSON : FORM_LINE)) != EXIT_DONE)
            return status;
    return EXIT_DONE;
}

const command command_models = {
    "models",
    "list the named models, or describe one",
    "[MODEL] [--OPTION …]",
    "text grammar json quiet",
    "koine models\n"
    "koine models lenet\n"
    "koine models lenet --text > my.koine\n"
    "koine models gpt,layers=2,width=96\n"
    "koine models --grammar",
    "Lists the named models: sample shape, number of parameters, purpose. For MODEL, which may also be a\n"
    "text model or a saved one, prints its inputs and outputs, the operations per sample (a multiply-add\n"
    "counts as two) and its sizes, or its text. --grammar prints the reference of the text format.\n"
    "\n"
    "Every command accepts sizes after a name, such as lenet,classes=26.",
    run};
