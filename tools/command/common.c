/* What the commands share: messages, the environment, opening devices and models, JSON. */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

static int complain(int status, const char *format, va_list arguments) {
    progress_clear();
    fputs("koine: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    return status;
}

int command_fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int status = complain(EXIT_FAILED, format, arguments);
    va_end(arguments);
    return status;
}

int command_misuse(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int status = complain(EXIT_USAGE, format, arguments);
    va_end(arguments);
    return status;
}

static void write_log(void *user, kn_log_level level, const char *message) {
    (void)user;
    progress_clear();
    fprintf(stderr, "koine: %s%s\n", level == KN_LOG_WARNING ? "warning: " : "", message);
}

int kernel_options_check(const common_options *common) {
    if (common->kind && strcmp(common->kind, "wide") && strcmp(common->kind, "many"))
        return command_misuse("--kind is '%s'; expected wide or many", common->kind);
    if (common->width && common->width != 4 && common->width != 8 && common->width != 16)
        return command_misuse("--width is %llu; expected 4, 8 or 16", (unsigned long long)common->width);
    return EXIT_DONE;
}

void context_params_from(const common_options *common, kn_context_params *params) {
    static char cache[1024];
    kn_context_params_init(params);
    params->kind = !common->kind ? 0 : !strcmp(common->kind, "wide") ? 1 : 2;
    params->vector_width = (int)common->width;
    params->wide_indices = common->wide_indices;
    params->log = (kn_logger){.level = common->verbose ? KN_LOG_INFO : KN_LOG_WARNING, .write = write_log};
    params->device = common->device ? common->device : getenv("KOINE_DEVICE");
    params->kernel_folder = getenv("KOINE_KERNEL_DIR");
    params->cache_folder = common->cache;
    if (!common->cache &&
        kn_default_cache_folder(getenv("XDG_CACHE_HOME"), getenv("HOME"), cache, sizeof cache))
        params->cache_folder = cache;
    if (common->no_cache) params->cache_folder = NULL;
    if (!common->quiet) params->compile_progress = (kn_progress){.report = progress_compile};
}

kn_context *context_open(const common_options *common) {
    kn_context_params params;
    progress_setup(common);
    context_params_from(common, &params);
    kn_context *context = kn_context_create(&params);
    if (kn_context_status(context) == KN_OK) return context;
    command_fail("%s", context ? kn_context_error(context) : "out of memory");
    kn_context_destroy(&context);
    return NULL;
}

kn_model *model_open(const char *name) {
    kn_model *model = kn_model_open(name, NULL);
    if (kn_model_status(model) == KN_OK) return model;
    command_fail("%s", model ? kn_model_error(model) : "out of memory");
    kn_model_destroy(&model);
    return NULL;
}

void json_text(FILE *stream, const char *text) {
    fputc('"', stream);
    for (; *text; text++) {
        unsigned char letter = (unsigned char)*text;
        if (letter == '"' || letter == '\\')
            fprintf(stream, "\\%c", letter);
        else if (letter < 0x20)
            fprintf(stream, "\\u%04x", letter);
        else
            fputc(letter, stream);
    }
    fputc('"', stream);
}

void json_number(FILE *stream, double number) {
    if (!isfinite(number)) {
        fputs("null", stream);
        return;
    }
    char text[40];
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, number);
        if (strtod(text, NULL) == number ||
            (digits == 9 && (float)strtod(text, NULL) == (float)number && (double)(float)number == number))
            break;
    }
    fputs(text, stream);
}

const char *bytes_text(double bytes, char *text, size_t room) {
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB"};
    int unit = 0;
    while (bytes >= 1000 && unit < 4) {
        bytes /= 1000;
        unit++;
    }
    snprintf(text, room, unit ? "%.3g %s" : "%.0f %s", bytes, units[unit]);
    return text;
}

static volatile sig_atomic_t stop_asked;

static void on_interrupt(int signal_number) {
    /* A second Ctrl-C ends at once. */
    stop_asked = 1;
    signal(signal_number, SIG_DFL);
}

void interrupts_watch(void) {
    signal(SIGINT, on_interrupt);
    signal(SIGTERM, on_interrupt);
}

bool interrupted(void) {
    return stop_asked != 0;
}
