/* Declarations shared by the parts of the command `koine`. Uses only the library's public headers. */
#ifndef KOINE_COMMAND_H
#define KOINE_COMMAND_H

#include <stdarg.h>
#include <stdio.h>
#include <sys/types.h>

#include <koine/koine.h>

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

#if defined(__GNUC__)
#define COMMAND_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define COMMAND_PRINTF(text, first)
#endif

/* ---- options (options.c) ---------------------------------------------------------------- */

typedef enum option_kind {
    OPTION_FLAG,
    OPTION_TEXT,
    OPTION_COUNT,   /* an integer of at least 0 */
    OPTION_NUMBER,  /* any finite number */
    OPTION_BYTES,   /* 512MB, 4GiB, 1000000 */
    OPTION_HEADING, /* not an option: `help` is a heading for the following options */
} option_kind;

typedef struct option {
    const char *name; /* without the dashes */
    option_kind kind;
    const char *argument; /* the word for it in the help; NULL for flags */
    const char *help;
    void *target; /* type of the value: bool, const char *, uint64_t, double, uint64_t */
} option;
/* The row of an option table that begins a group. */
#define HEADING(words)                                                                                       \
    { "", OPTION_HEADING, NULL, words, NULL }

typedef struct command {
    const char *name;
    const char *summary; /* the summary line in `koine --help` */
    const char *usage;   /* the arguments after the name */
    const char *brief;   /* the options that -h prints, separated by spaces */
    const char
        *examples;    /* command lines, which a test runs as they are; -h prints the first BRIEF_EXAMPLES */
    const char *text; /* the explanation above the options */
    int (*run)(int count, char **arguments);
} command;
enum { BRIEF_EXAMPLES = 5 };

enum { OPTIONS_MOST = 160 };
/* Appends rows, up to the one without a name, to a table, and ends it. */
void options_add(option *options, size_t *count, const option *rows);

/* Parses options and collects the other words in words[0..*word_count). With -h or --help, prints the help,
 * sets *status to EXIT_DONE and returns false. On an error, reports it, sets *status to EXIT_USAGE and
 * returns false. */
bool options_read(const command *command, const option *options, int count, char **arguments,
                  const char **words, int *word_count, int most_words, int *status);
/* The index of `word` among `count` words; if it is absent, reports it as command_misuse does and returns
 * -1. */
int option_choice(const char *option, const char *word, const char *const *words, int count);
/* Whether a space-separated list contains a word. */
bool has_word(const char *list, const char *word);
/* Writes the options that were read, except the options in a list, as a file for --config. */
void options_write(FILE *stream, const char *except);
/* The most similar of `count` words to `word`, or NULL. */
const char *nearest_word(const char *word, const char *const *words, int count);

/* Prints text wrapped at the width of the stream's terminal, or COLUMNS: 80 if neither is known, at most 100.
 * Lines that begin with spaces are kept; a line of two parts separated by spaces is a table row, which
 * deeper-indented lines continue (help.c). */
void help_text(FILE *stream, const char *text);
/* Whether a text begins with a row "  left   right". Gets the bytes up to its right column, and the bytes of
 * the whole row including the deeper-indented lines that follow. */
bool help_row(const char *text, size_t *left, size_t *bytes);
/* The letter of an option in the form -x, or '\0'; and its alias, or NULL. */
char option_letter(const option *options, const option *row);
const char *option_alias(const option *row);
/* Prints the output of `koine COMMAND --help`, with options in groups. */
void help_print(const command *self, const option *options);
/* Prints the output of `koine COMMAND -h`: examples first, at most 25 lines on a terminal of 80 columns. */
void help_brief(const command *self, const option *options);
/* The command with a name of `length` bytes, or NULL (main.c). */
const command *command_find(const char *name, size_t length);
/* Prints the man page of a command, or of koine: `text` precedes the list of commands (man.c). */
void man_command(const command *self, const option *options);
void man_all(const char *summary, const char *text, const command *const *commands, int count);
/* Prints the completion script for a shell (completion.c). */
int completion_print(const char *shell, const command *const *commands, int count);

/* ---- common options (common.c) --------------------------------------------------------------- */

/* Arithmetic options of sessions. */
typedef struct arithmetic {
    bool exact; /* without algorithms that have a larger error */
    kn_precision precision;
    bool recompute; /* training recomputes activations wherever that saves memory */
    kn_activations activations;
} arithmetic;

typedef struct common_options {
    const char *device, *cache, *kernels, *math;
    const char *matrix_unit;
    const char *pin;    /* --pin: layers on other devices; NULL: none */
    const char *target; /* --target: a file that describes a device; NULL: none */
    uint64_t width;
    int part, parts; /* the part of a device that several workers share; parts 0: the whole device */
    bool json, quiet, verbose, no_cache, wide_indices;
    bool overwrite; /* replace existing files */
    bool timeline;  /* record when each step runs */
    const char *precision, *activations;
    bool recompute;
    arithmetic arithmetic; /* from --math, --precision, --recompute and --activations */
} common_options;
/* Option table rows for them. */
#define COMMON_DEVICE_OPTIONS(common)                                                                        \
    {"device", OPTION_TEXT, "DEVICE",                                                                        \
     "number, platform:device, type, part of a name, or auto (else KOINE_DEVICE, else the fastest)",         \
     &(common).device},                                                                                      \
        {"kernel-cache", OPTION_TEXT, "DIR", "folder for compiled kernels (the user's cache folder)",        \
         &(common).cache},                                                                                   \
    {                                                                                                        \
        "no-cache", OPTION_FLAG, NULL, "do not keep compiled kernels", &(common).no_cache                    \
    }
#define JSON_OPTION(flag)                                                                                    \
    { "json", OPTION_FLAG, NULL, "print results as JSON, one object per line", &(flag) }
#define QUIET_OPTION(flag)                                                                                   \
    { "quiet", OPTION_FLAG, NULL, "print only results, warnings and errors", &(flag) }
#define MESSAGE_OPTIONS(common)                                                                              \
    HEADING("messages"), JSON_OPTION((common).json), QUIET_OPTION((common).quiet), {                         \
        "verbose", OPTION_FLAG, NULL, "print details", &(common).verbose                                     \
    }
#define COMMON_OPTIONS(common) COMMON_DEVICE_OPTIONS(common), MESSAGE_OPTIONS(common)

/* Option table rows for commands that use kernels. */
#define KERNEL_OPTIONS(common)                                                                               \
    {"kernels", OPTION_TEXT, "SET", "gpu or cpu: use the kernels for that kind of device (by the device)",   \
     &(common).kernels},                                                                                     \
        {"width", OPTION_COUNT, "N", "vector width of CPU kernels: 4, 8 or 16 (by the device)",              \
         &(common).width},                                                                                   \
        {"matrix-unit", OPTION_TEXT, "UNIT",                                                                 \
         "none, mma, wmma, wmma12, mfma, dpas8, dpas16, amx, mma8, emulated-mma, … (the device's own)",      \
         &(common).matrix_unit},                                                                             \
    {                                                                                                        \
        "wide-indices", OPTION_FLAG, NULL, "use 64-bit indices in kernels for all sizes",                    \
            &(common).wide_indices                                                                           \
    }
/* Option table rows for commands that compute models. */
#define MATH_OPTIONS(common)                                                                                 \
    {"math", OPTION_TEXT, "MODE", "exact, or fast: allow algorithms with a slightly larger error (fast)",    \
     &(common).math},                                                                                        \
    {                                                                                                        \
        "precision", OPTION_TEXT, "TYPE",                                                                    \
            "float16 or bfloat16 between layers, or tf32 in matrix units (float32)", &(common).precision     \
    }
/* Option table row for commands that run language models. */
#define ACTIVATIONS_OPTION(common)                                                                           \
    {                                                                                                        \
        "activations", OPTION_TEXT, "TYPE",                                                                  \
            "int8: round what is multiplied with quantized weights to 8 bits (float32)",                     \
            &(common).activations                                                                            \
    }
/* Option table row for commands that train. */
#define RECOMPUTE_OPTION(common)                                                                             \
    {                                                                                                        \
        "recompute", OPTION_FLAG, NULL,                                                                      \
            "recompute activations to save memory, even if --memory does not require it",                    \
            &(common).recompute                                                                              \
    }
/* Sets `arithmetic`; returns EXIT_DONE, or reports an invalid option and returns EXIT_USAGE. */
int math_options_check(common_options *common);
/* EXIT_DONE, or reports an invalid KERNEL_OPTIONS option and returns EXIT_USAGE. */
int kernel_options_check(const common_options *common);

/* Prints "koine: …" on standard error and returns EXIT_FAILED. */
int command_fail(const char *format, ...) COMMAND_PRINTF(1, 2);
/* The same, but returns false. */
bool command_error(const char *format, ...) COMMAND_PRINTF(1, 2);
/* The same, but returns EXIT_USAGE. */
int command_misuse(const char *format, ...) COMMAND_PRINTF(1, 2);
/* Prints "koine: …" and continues. */
void command_warn(const char *format, ...) COMMAND_PRINTF(1, 2);
/* Prints an information line on standard error unless quiet. */
void command_info(const char *format, ...) COMMAND_PRINTF(1, 2);
/* Applies --quiet and detects a terminal. */
void messages_setup(const common_options *common);
/* Whether --device or KOINE_DEVICE is auto (auto.h). */
bool device_is_auto(const common_options *common);
/* Opens the device, or reports an error and returns NULL. auto counts as unspecified: commands that have no
 * step to time choose the device by timing a short matrix product. Thread-safe. */
kn_context *context_open(const common_options *common);
/* Opens a model, or reports an error and returns NULL. */
kn_model *model_open(const char *name);
/* The row of an option table for --pin (pin.c), for commands that compute models. */
#define PIN_OPTION(common)                                                                                   \
    {                                                                                                        \
        "pin", OPTION_TEXT, "PATTERN=DEVICE,…",                                                              \
            "run matching layers on other devices, such as 'stage2*=cpu'; main: the device of --device",     \
            &(common).pin                                                                                    \
    }
/* EXIT_DONE, or reports an error in --pin and returns EXIT_USAGE. */
int pin_option_check(const common_options *common);
/* Pins the model's layers according to --pin. Opens each device that --pin or the model's text pins layers
 * to, and joins it to the context. Reports an error and returns false. */
bool devices_join(kn_context *context, const common_options *common, kn_model *model);
/* FNV-1a hash. */
uint64_t text_hash(const char *text);
/* Whether a path has a file name extension, preceded by something. */
bool path_ends(const char *path, const char *ending, bool any_case);
/* Whether a path has the extension of ONNX files. */
bool path_is_onnx(const char *path);
/* Prints warnings of handles, each once. */
kn_logger warnings_log(void);
/* Reports why a session failed with this status (NULL: out of memory) and returns false. */
bool session_fail(const kn_session *session, kn_status status);
/* Reports the time spent compiling kernels since the last call, if it was noticeable. */
void print_compile_time(kn_context *context);
/* Terminal columns of these bytes of UTF-8. */
size_t text_columns(const char *text, size_t bytes);
/* The number of bytes, in whole UTF-8 characters, that fit in `columns`. */
size_t text_within(const char *text, size_t bytes, size_t columns);
/* "1.50 GB" */
const char *bytes_text(double bytes, char *text, size_t room);
/* "2310", "4.2" */
const char *rate_text(double rate, char *text, size_t room);
/* "1:05" */
const char *time_text(double seconds, char *text, size_t room);
/* Seconds on a monotonic clock. */
double clock_now(void);
/* Make Ctrl-C set a flag instead of ending the program; a second Ctrl-C ends it. */
void interrupts_watch(void);
/* The same with a different message, and a byte is written to the file descriptor `wake`. */
void interrupts_watch_waking(const char *message, int wake);
/* Until then, and from the start: SIGINT, SIGTERM and SIGHUP end the process, and a kernel that is being
 * compiled is not avoided afterwards. */
void interrupts_default(void);
bool interrupted(void);

/* ---- output files (written.c) ------------------------------------------------------------------------ */

/* The row of an option table that allows files to be replaced. */
#define OVERWRITE_OPTION(common)                                                                             \
    { "overwrite", OPTION_FLAG, NULL, "replace existing files", &(common).overwrite }
/* Written atomically, or streamed, which also works for pipes and devices. */
typedef enum path_use { PATH_WHOLE, PATH_STREAM } path_use;
/* Whether the path exists, including as a broken link. */
bool path_there(const char *path);
/* Whether a file may be written there and, unless `replace`, does not exist; otherwise reports why. Writes
 * nothing. */
bool path_writable(const char *path, path_use use, bool replace);
/* An output file that an option requests; path NULL: not requested. */
typedef struct output_file {
    const char *option, *path;
} output_file;
/* Returns EXIT_DONE, or reports two options that name the same file and returns EXIT_USAGE. */
int outputs_apart(const output_file *outputs, int count);
/* Whether the first few KB of a file contain `mark`. */
bool file_has_mark(const char *path, const char *mark);
/* The same for files in a folder, which will be created with its parents if missing. */
bool folder_writable(const char *path);
/* Whether it exists and is writable, or can be created; otherwise writes why not to `reason`. */
bool folder_makable(const char *path, char *reason, size_t room);
/* The `number`-th name for a file, from 1: x.y, x-2.y, x-3.y. Reports a failure. */
bool path_numbered(const char *path, unsigned number, char *text, size_t room);

/* A temporary file that replaces the file at a path once it is complete. */
typedef struct whole_file {
    FILE *stream;
    const char *path; /* owned by the caller */
    char *temporary;
} whole_file;
/* Creates a temporary file next to its target. Reports an error and returns false. */
bool whole_open(whole_file *file, const char *path);
/* Closes the file and, if it is to be kept, moves it to its target; reports an error. True if the target was
 * written. */
bool whole_close(whole_file *file, bool keep);

/* ---- more processes (process.c, precompile.c) --------------------------------------------------------- */

/* Starts this program again; `silent`: without input and output. Returns 0 or an errno value. */
int process_start(char *const *arguments, bool silent, pid_t *child);
/* The same in a new process group, with pipes for reading its output and errors. */
int process_start_read(char *const *arguments, int pipes[2], pid_t *child);
/* Waits for the process to end and gets the result of waitpid; false if that failed. */
bool process_wait(pid_t child, int *result);

/* Must be called first: removes "precompile" from the command line if present, otherwise stores the command
 * line. */
void precompile_begin(int *count, char **arguments);
/* Whether this is the precompiling process: it writes no files and ends at its first step. */
bool precompiling(void);
/* Start precompiling at the context's first kernel compilation from now on, unless nothing is cached. */
void precompile_allow(const common_options *common, const kn_context *context);
void precompile_start(void);
/* Ends the process, if there is one, after the first step; none starts afterwards. */
void precompile_end(void);

/* ---- JSON (json.c): strings and numbers on a stream ------------------------------------------ */

/* A quoted string. */
void json_text(FILE *stream, const char *text);
/* The same for text that may contain zero bytes. */
void json_bytes(FILE *stream, const char *text, size_t count);
void base64_write(FILE *stream, const uint8_t *bytes, size_t count);
/* A single-precision result: the fewest digits that give the same float; null if not finite. */
void json_float(FILE *stream, double number);
/* A measured time or speed: six digits; null if not finite. */
void json_measure(FILE *stream, double number);
void json_count(FILE *stream, uint64_t number);
/* The same, preceded by a comma and the member's name, which needs no escapes. */
void json_text_member(FILE *stream, const char *name, const char *text);
void json_float_member(FILE *stream, const char *name, double number);
void json_measure_member(FILE *stream, const char *name, double number);

/* ---- progress (progress.c) ------------------------------------------------------------------- */

/* A line on standard error that is rewritten in place on a terminal, and hidden elsewhere or when quiet. On a
 * narrow terminal, fields (separated by two spaces) are left out and bars are shorter. */
void progress_setup(const common_options *common);
/* At most ten times per second. */
void progress_line(const char *format, ...) COMMAND_PRINTF(1, 2);
/* The same immediately, before a long operation. */
void progress_now(const char *format, ...) COMMAND_PRINTF(1, 2);
/* Without a terminal: true once per minute, to print a plain line. */
bool progress_plain_due(void);
/* Removes the line before something else is printed. */
void progress_clear(void);
/* Columns of the terminal; 0 if there is none, or when quiet. */
int progress_width(void);
/* "[#####     ]" of a width in characters. */
const char *progress_bar(double fraction, char *text, size_t room);
/* For kn_progress: compiling. */
void progress_compile(void *user, const char *label, uint64_t done, uint64_t total);

/* ---- --trace (trace.c) -------------------------------------------------------------------------- */

/* The row of an option table for it. */
#define TRACE_OPTION(target)                                                                                 \
    {                                                                                                        \
        "trace", OPTION_TEXT, "FILE",                                                                        \
            "timeline of host and device queues, for Perfetto and chrome://tracing", &(target)               \
    }
/* Starts the file and requests the timeline of the context that is opened next. path NULL: no file, and the
 * calls below do nothing; `replace`: may replace a file; `mark`, unless NULL, is written near the beginning.
 * Reports an error and returns false. */
bool trace_open(const char *path, bool replace, const char *mark, common_options *common);
/* An interval of host time, by kn_context_clock. */
void trace_host(const char *name, double begin, double end);
/* Writes the timeline without clearing it. Waits for the queues. */
void trace_queues(kn_context *context);
/* If the file is incomplete, reports why and returns false. */
bool trace_close(void);

/* ---- the commands ------------------------------------------------------------------------------- */

extern const command command_devices, command_doctor, command_train, command_eval, command_infer,
    command_generate, command_convert, command_plan, command_bench, command_tune, command_verify,
    command_models, command_datasets, command_tokens, command_version, command_bench_gemm,
    command_bench_operators, command_bench_crossover, command_bench_plan, command_report, command_serve;
/* The process that tries kernels for koine tune: "SECONDS" and its words (tune.c). */
int tune_apart(int count, char **arguments);

#endif
