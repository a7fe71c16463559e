/* --pin, and `device=` in a model's text: opens the devices for these layers and joins them to the first
 * device. */
#include <stdlib.h>
#include <string.h>

#include "command.h"

/* "PATTERN=DEVICE,PATTERN=DEVICE": the last match of a layer wins. */
static bool pin_layers(const char *list, kn_model *model) {
    char *text = malloc(strlen(list) + 1);
    if (!text) return command_error("out of memory");
    strcpy(text, list);
    bool fine = true;
    for (char *at = text, *comma; at && fine; at = comma ? comma + 1 : NULL) {
        comma = strchr(at, ',');
        if (comma) *comma = '\0';
        char *equals = strchr(at, '=');
        *equals = '\0';
        if (!kn_model_pin(model, at, equals + 1))
            fine = command_error(
                "--pin has '%s', but '%s' has no layer of that name; koine models %s lists them", at,
                kn_model_name(model), kn_model_name(model));
    }
    free(text);
    return fine;
}

int pin_option_check(const common_options *common) {
    for (const char *at = common->pin, *comma; at; at = comma ? comma + 1 : NULL) {
        comma = strchr(at, ',');
        size_t length = comma ? (size_t)(comma - at) : strlen(at);
        const char *equals = memchr(at, '=', length);
        if (!equals || equals == at || equals + 1 == at + length)
            return command_misuse("--pin has '%.*s'; expected PATTERN=DEVICE, several with commas between",
                                  (int)length, at);
    }
    return EXIT_DONE;
}

bool devices_join(kn_context *context, const common_options *common, kn_model *model) {
    if (common->pin && !pin_layers(common->pin, model)) return false;
    const char *name;
    for (int i = 0; (name = kn_graph_pinned_at(kn_model_graph(model), i)) != NULL; i++) {
        common_options own = *common;
        own.device = name;
        if (!strcmp(name, KN_DEVICE_MAIN)) continue;
        kn_context *other = context_open(&own);
        if (!other)
            return command_error("device '%s' is named by a pin of the model '%s'", name,
                                 kn_model_name(model));
        command_info("pinned to '%s': %s", name, kn_context_device(other)->name);
        kn_status status = kn_context_join(context, name, &other);
        kn_context_destroy(&other);
        if (status != KN_OK)
            return command_error("'%s' cannot be used as well: %s; at most %d devices are", name,
                                 kn_status_message(status), KN_CONTEXT_MAX_DEVICES);
    }
    return true;
}
