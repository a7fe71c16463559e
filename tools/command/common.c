/* Common parts of the commands: messages, the environment, opening devices and models, interrupts. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "command.h"

static bool silent; /* --quiet */

/* ---- messages ---------------------------------------------------------------------------------- */

static void say(const char *front, const char *format, va_list arguments) {
    progress_clear();
    fputs(front, stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
}

int command_fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say("koine: ", format, arguments);
    va_end(arguments);
    return EXIT_FAILED;
}

bool command_error(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say("koine: ", format, arguments);
    va_end(arguments);
    return false;
}

int command_misuse(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say("koine: ", format, arguments);
    va_end(arguments);
    return EXIT_USAGE;
}

void command_warn(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say("koine: ", format, arguments);
    va_end(arguments);
}

void command_info(const char *format, ...) {
    if (silent) return;
    va_list arguments;
    va_start(arguments, format);
    say("", format, arguments);
    va_end(arguments);
}

size_t text_within(const char *text, size_t bytes, size_t columns) {
    size_t at = 0, begun = 0;
    for (; at < bytes; at++)
        if (((unsigned char)text[at] & 0xc0) != 0x80 && begun++ == columns) break;
    return at;
}

size_t text_columns(const char *text, size_t bytes) {
    size_t columns = 0;
    for (size_t i = 0; i < bytes; i++)
        columns += ((unsigned char)text[i] & 0xc0) != 0x80;
    return columns;
}

const char *bytes_text(double bytes, char *text, size_t room) {
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB"};
    int unit = 0;
    while (bytes >= 999.5 && unit < 4) {
        bytes /= 1000;
        unit++;
    }
    snprintf(text, room, unit ? "%.3g %s" : "%.0f %s", bytes, units[unit]);
    return text;
}

const char *rate_text(double rate, char *text, size_t room) {
    snprintf(text, room, rate >= 9.5 ? "%.0f" : "%.2g", rate);
    return text;
}

const char *time_text(double seconds, char *text, size_t room) {
    unsigned long long whole = seconds > 0 ? (unsigned long long)(seconds + 0.5) : 0;
    if (whole >= 3600)
        snprintf(text, room, "%llu:%02llu:%02llu", whole / 3600, whole / 60 % 60, whole % 60);
    else
        snprintf(text, room, "%llu:%02llu", whole / 60, whole % 60);
    return text;
}

double clock_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- opening ------------------------------------------------------------------------------------ */

/* Prints each warning once: several contexts may have the same warning. */
static void write_log(void *user, kn_log_level level, const char *message) {
    static char last[1200];
    (void)user;
    if (level == KN_LOG_WARNING && !strcmp(message, last)) return;
    if (level == KN_LOG_WARNING) snprintf(last, sizeof last, "%s", message);
    progress_clear();
    fprintf(stderr, "koine: %s%s\n", level == KN_LOG_WARNING ? "warning: " : "", message);
}

kn_logger warnings_log(void) {
    return (kn_logger){.level = KN_LOG_WARNING, .write = write_log};
}

int math_options_check(common_options *common) {
    static const char *const modes[] = {"exact", "fast"};
    const char *precisions[16];
    int count = 0;
    for (kn_precision p = 0; strcmp(kn_precision_name(p), "unknown") != 0; p++)
        precisions[count++] = kn_precision_name(p);
    int math = common->math ? option_choice("math", common->math, modes, 2) : 1;
    if (math < 0) return EXIT_USAGE;
    int precision = common->precision ? option_choice("precision", common->precision, precisions, count) : 0;
    if (precision < 0) return EXIT_USAGE;
    static const char *const types[] = {"float32", "int8"};
    const int activations = common->activations ? option_choice("activations", common->activations, types, 2)
                                                : KN_ACTIVATIONS_FLOAT32;
    if (activations < 0) return EXIT_USAGE;
    common->arithmetic = (arithmetic){.exact = math == 0,
                                      .precision = (kn_precision)precision,
                                      .recompute = common->recompute,
                                      .activations = (kn_activations)activations};
    return EXIT_DONE;
}

int kernel_options_check(const common_options *common) {
    static const char *const sets[] = {"gpu", "cpu"};
    if (common->kernels && option_choice("kernels", common->kernels, sets, 2) < 0) return EXIT_USAGE;
    if (common->width && common->width != 4 && common->width != 8 && common->width != 16)
        return command_misuse("--width is %llu; expected 4, 8 or 16", (unsigned long long)common->width);
    return EXIT_DONE;
}

void messages_setup(const common_options *common) {
    progress_setup(common);
    silent = common->quiet;
}

static const char *device_wish(const common_options *common) {
    return common->device ? common->device : getenv("KOINE_DEVICE");
}

bool device_is_auto(const common_options *common) {
    const char *wish = device_wish(common);
    return wish && !strcmp(wish, "auto");
}

/* For the signal handlers: what all contexts are trying. */
static kn_interrupt interrupt;

/* Sets parameters from options and the environment, which the library does not read. */
static void context_params_from(const common_options *common, kn_context_params *params) {
    static char cache[4096];
    static kn_context_debug debug;
    kn_context_params_init(params);
    debug = (kn_context_debug)KN_CONTEXT_DEBUG_DEFAULTS;
    debug.kernels = !common->kernels                  ? KN_KERNELS_PROBED
                    : !strcmp(common->kernels, "cpu") ? KN_KERNELS_CPU
                                                      : KN_KERNELS_GPU;
    params->timeline = common->timeline;
    debug.vector_width = (int)common->width;
    debug.wide_indices = common->wide_indices;
    params->debug = &debug;
    params->matrix_unit = common->matrix_unit;
    params->log = (kn_logger){.level = common->verbose ? KN_LOG_INFO : KN_LOG_WARNING, .write = write_log};
    params->target = common->target;
    params->part = common->part;
    params->parts = common->parts;
    params->device = device_is_auto(common) ? NULL : device_wish(common);
    params->kernel_folder = getenv("KOINE_KERNEL_DIR");
    params->cache_folder = common->cache;
    if (!common->cache &&
        kn_default_cache_folder(getenv("XDG_CACHE_HOME"), getenv("HOME"), cache, sizeof cache))
        params->cache_folder = cache;
    if (common->no_cache) params->cache_folder = NULL;
    params->precompile = precompiling();
    params->interrupt = &interrupt;
    params->compile_progress = (kn_progress){.report = progress_compile};
}

static kn_context *open_alone(const common_options *common) {
    static bool advised;
    kn_context_params params;
    messages_setup(common);
    context_params_from(common, &params);
    kn_context *context = kn_context_create(&params);
    if (kn_context_status(context) == KN_OK) {
        if (params.cache_folder && !params.target && !common->cache && !advised &&
            access(params.cache_folder, W_OK | X_OK) != 0)
            command_info("koine: --kernel-cache DIR keeps them in another folder");
        advised = true;
        return context;
    }
    /* Report settings from the environment: users forget them easily. */
    const char *from = "";
    if (kn_context_status(context) == KN_ERROR_NO_DEVICE && !common->device && params.device &&
        *params.device)
        from = "from KOINE_DEVICE: ";
    if (kn_context_status(context) == KN_ERROR_FILE && !params.target && params.kernel_folder &&
        *params.kernel_folder)
        from = "from KOINE_KERNEL_DIR: ";
    command_fail("%s%s", from, context ? kn_context_error(context) : "out of memory");
    kn_context_destroy(&context);
    return NULL;
}

kn_context *context_open(const common_options *common) {
    /* Some drivers find no device, or crash, if several threads enumerate devices for the first time
     * concurrently. */
    static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&opening);
    kn_context *context = open_alone(common);
    pthread_mutex_unlock(&opening);
    return context;
}

uint64_t text_hash(const char *text) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    return hash;
}

bool path_ends(const char *path, const char *ending, bool any_case) {
    size_t length = strlen(path), own = strlen(ending);
    if (length <= own) return false;
    return !(any_case ? strcasecmp : strcmp)(path + length - own, ending);
}

bool path_is_onnx(const char *path) {
    return path_ends(path, ".onnx", false);
}

kn_model *model_open(const char *name) {
    kn_model *model = kn_model_open(name, NULL);
    if (kn_model_bound(model)) return model;
    command_fail("%s", model ? kn_model_error(model) : "out of memory");
    kn_model_destroy(&model);
    return NULL;
}

bool session_fail(const kn_session *session, kn_status status) {
    const char *text = session ? kn_session_error(session) : "out of memory";
    return command_error("%s", text[0] ? text : kn_status_message(status));
}

void print_compile_time(kn_context *context) {
    static double told;
    kn_context_counts counts = {.size = sizeof counts};
    if (kn_context_get_counts(context, &counts) != KN_OK) return;
    if (counts.compile_seconds - told >= 1)
        command_info("compiled kernels in %.1f s", counts.compile_seconds - told);
    told = counts.compile_seconds;
}

/* ---- interrupts ----------------------------------------------------------------------------------- */

static volatile sig_atomic_t stop_asked;

/* Ends the process as the signal does by default. */
static void on_end(int signal_number) {
    kn_interrupt_clear(&interrupt);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

void interrupts_default(void) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        if (signal(signals[i], on_end) == SIG_IGN) signal(signals[i], SIG_IGN);
}

static const char *interrupt_message;
static int interrupt_wake;

static void on_interrupt(int signal_number) {
    stop_asked = 1;
    signal(signal_number, on_end);
    if (write(STDERR_FILENO, interrupt_message, strlen(interrupt_message)) < 0) stop_asked = 1;
    if (interrupt_wake >= 0 && write(interrupt_wake, "", 1) < 0) stop_asked = 1;
}

void interrupts_watch_waking(const char *message, int wake) {
    interrupt_message = message;
    interrupt_wake = wake;
    signal(SIGINT, on_interrupt);
    signal(SIGTERM, on_interrupt);
}

void interrupts_watch(void) {
    interrupts_watch_waking("\nkoine: finishing the step and saving; press Ctrl-C again to stop at once\n",
                            -1);
}

bool interrupted(void) {
    return stop_asked != 0;
}
