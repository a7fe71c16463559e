/* What koine train reports about device and data before it trains, and suggests. */
#include <stdlib.h>

#include "train.h"

/* Without a device that the user asked for, a GPU whose driver is missing is easily overlooked. */
static void print_hidden_gpu(const train_options *options, const kn_context *context) {
    const char *asked = getenv("KOINE_DEVICE");
    if (options->common.device || (asked && *asked)) return;
    if (kn_context_device(context)->type != KN_DEVICE_CPU || options->common.target) return;
    kn_device_list *list = kn_device_list_create(NULL, NULL);
    for (size_t i = 0; i < kn_device_list_count(list); i++) {
        const kn_device_info *info = kn_device_list_at(list, i);
        if (info->type != KN_DEVICE_GPU || info->usable) continue;
        command_info("koine: training on the CPU; %s is not used: %s. koine doctor says what to do",
                     info->name, info->problem);
        break;
    }
    kn_device_list_destroy(&list);
}

/* Prints the tokens of a text that fit on a line. */
static void print_vocabulary(const kn_dataset *dataset) {
    const char *tokens = kn_dataset_vocabulary(dataset);
    char shown[120] = "";
    size_t used = 0;
    if (!tokens || !tokens[0]) return;
    const char between = tokens_are_joined(tokens) ? 0x1e : '\0';
    if (between) tokens++;
    for (; *tokens && used < 90; tokens++)
        if (*tokens == between)
            shown[used++] = ' ';
        else
            used += (size_t)snprintf(shown + used, sizeof shown - used, "%s%.1s",
                                     *tokens == '\n' ? "\\n" : "", *tokens == '\n' ? "" : tokens);
    /* Do not cut inside a UTF-8 character. */
    while (*tokens && ((unsigned char)*tokens & 0xc0) == 0x80)
        used += (size_t)snprintf(shown + used, sizeof shown - used, "%.1s", tokens++);
    command_info("%d tokens: %s%s", kn_dataset_classes(dataset), shown, *tokens ? "…" : "");
}

/* Reports the columns of a table, or conversions of images, before training. */
static void print_about_data(const kn_dataset *dataset) {
    const char *about = kn_dataset_about(dataset);
    if (about[0]) command_info("%s", about);
}

/* Suggests fewer outputs if the data has fewer classes than an untrained model. */
static void print_class_hint(const training_setup *setup) {
    const kn_value *output = kn_model_output_at(setup->model, 0);
    const int64_t outputs = kn_value_dimension(output, kn_value_rank(output) - 1);
    const int classes = kn_dataset_classes(setup->all);
    if (kn_value_dtype(setup->loss.target) == KN_INT32 && classes > 1 && classes < outputs &&
        !kn_model_has_weights(setup->model) && kn_model_setting_value(setup->model, "classes", NULL))
        command_info(
            "the model has %lld outputs, but the data has only %d classes; --set classes=%d adapts the model",
            (long long)outputs, classes, classes);
}

/* Suggests how to evaluate the model if there is no validation data. */
static void print_validation_hint(const train_options *options, const training_setup *setup) {
    if (setup->validation || options->unvalidated || options->check || options->in_sequence) return;
    command_info("no validation data: --validation 0.1 sets a tenth of the samples aside and reports the %s "
                 "on them after each epoch",
                 setup->accuracy ? "accuracy" : "loss");
}

void train_print_hints(const train_options *options, const training_setup *setup, const kn_context *context) {
    print_hidden_gpu(options, context);
    print_vocabulary(setup->all);
    print_about_data(setup->all);
    print_class_hint(setup);
    print_validation_hint(options, setup);
}
