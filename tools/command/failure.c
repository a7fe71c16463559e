/* Errors that are not printed. */
#include "failure.h"

failure_cause failure_cause_of(kn_status status, failure_cause other) {
    return status == KN_ERROR_MEMORY || status == KN_ERROR_DEVICE_MEMORY ? FAILURE_MEMORY : other;
}

bool failure_set(failure *self, failure_cause cause, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(self->text, sizeof self->text, format, arguments);
    va_end(arguments);
    self->cause = cause;
    return false;
}

bool failure_set_session(failure *self, const kn_session *session, kn_status status) {
    const char *text = session ? kn_session_error(session) : "out of memory";
    return failure_set(self, session ? failure_cause_of(status, FAILURE_OTHER) : FAILURE_MEMORY, "%s",
                       text[0] ? text : kn_status_message(status));
}

kn_model *model_open_window(const char *file, int64_t window, failure *failed) {
    const kn_model_setting setting = {"window", window};
    kn_model_params params;
    kn_model_params_init(&params);
    params.settings = &setting;
    params.setting_count = window > 0;
    kn_model *model = kn_model_open(file, &params);
    if (!model)
        failure_set(failed, FAILURE_MEMORY, "out of memory for the model");
    else if (!kn_model_bound(model))
        failure_set(failed, failure_cause_of(kn_model_status(model), FAILURE_OTHER), "%s",
                    kn_model_error(model));
    else if (!kn_model_has_weights(model))
        failure_set(failed, FAILURE_OTHER, "'%s' has no weights: expected a file that koine train saved",
                    file);
    else
        return model;
    kn_model_destroy(&model);
    return NULL;
}

bool failure_print(const failure *self) {
    return self->text[0] ? command_error("%s", self->text) : false;
}
