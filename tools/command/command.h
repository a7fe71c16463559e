/* What the parts of the command `koine` share. Public headers of the library only. */
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
    OPTION_COUNT,   /* a whole number from 0 on */
    OPTION_NUMBER,  /* any finite number */
    OPTION_BYTES,   /* 512MB, 4GiB, 1000000 */
    OPTION_HEADING, /* no option: `help` stands above those that follow */
} option_kind;

typedef struct option {
    const char *name; /* without the dashes */
    option_kind kind;
    const char *argument; /* the word for it in the help; NULL for flags */
    const char *help;
    void *target; /* bool, const char *, uint64_t, double, uint64_t */
} option;
/* The row of an option table that begins a group. */
#define HEADING(words)                                                                                       \
    { "", OPTION_HEADING, NULL, words, NULL }

typedef struct command {
    const char *name;
    const char *summary; /* one line of `koine --help` */
    const char *usage;   /* what stands behind the name */
    const char *text;    /* what it teaches, above the options */
    int (*run)(int count, char **arguments);
} command;

/* Reads options and the other words, which are left in words[0..*word_count). On --help it prints it and
 * *status is EXIT_DONE; on a mistake it says which and *status is EXIT_USAGE; both answer false. */
bool options_read(const command *command, const option *options, int count, char **arguments,
                  const char **words, int *word_count, int most_words, int *status);
/* Finds `word` among `count` words; where it is none of them, says so as EXIT_USAGE does, and answers -1. */
int option_choice(const char *option, const char *word, const char *const *words, int count);
/* The one of `count` words that `word` was most likely meant to be, or NULL. */
const char *nearest_word(const char *word, const char *const *words, int count);

/* Text in lines as wide as the stream's terminal, or COLUMNS, says: 80 where neither is known, 100 at most.
 * Lines that begin with spaces stay lines; one of two parts with spaces between is a row of a table, and
 * deeper lines behind it go on with it (help.c). */
void help_text(FILE *stream, const char *text);
/* Whether a text begins with a row "  left   right": the bytes up to its right column, and of all of it, with
 * the deeper lines behind it. */
bool help_row(const char *text, size_t *left, size_t *bytes);
/* What `koine COMMAND --help` says, with the options in groups. */
void help_print(const command *self, const option *options);
/* The command of a name of `length` bytes, or NULL (main.c). */
const command *command_find(const char *name, size_t length);
/* Prints the man page of a command, and that of all: `text` is what stands above their list (man.c). */
void man_command(const command *self, const option *options);
void man_all(const char *summary, const char *text, const command *const *commands, int count);
/* Prints the script that completes the command line in a shell (completion.c). */
int completion_print(const char *shell, const command *const *commands, int count);

/* ---- what most commands take (common.c) ----------------------------------------------------- */

typedef struct common_options {
    const char *device, *cache, *kind, *math;
    const char *pin; /* --pin: layers on other devices; NULL: none */
    uint64_t width;
    bool json, quiet, verbose, no_cache, wide_indices;
    bool overwrite; /* files that are there already are replaced */
    bool timeline;  /* record when each step runs */
    bool exact;     /* --math, once checked: fast unless it says exact */
} common_options;
/* The rows of an option table for them. */
#define COMMON_OPTIONS(common)                                                                               \
    {"device", OPTION_TEXT, "DEVICE",                                                                        \
     "number, platform:device, type, part of a name, or auto (else KOINE_DEVICE, else the fastest)",         \
     &(common).device},                                                                                      \
        {"kernel-cache", OPTION_TEXT, "DIR",                                                                 \
         "where compiled kernels are kept (else the user's cache folder)", &(common).cache},                 \
        {"no-cache", OPTION_FLAG, NULL, "keep nothing between runs", &(common).no_cache},                    \
        HEADING("messages"),                                                                                 \
        {"json", OPTION_FLAG, NULL, "results as JSON objects, one a line, for programs", &(common).json},    \
        {"quiet", OPTION_FLAG, NULL, "no progress, only results and errors", &(common).quiet}, {             \
        "verbose", OPTION_FLAG, NULL, "say what is done on the way", &(common).verbose                       \
    }

/* And of those that are about kernels. */
#define KERNEL_OPTIONS(common)                                                                               \
    {"kind", OPTION_TEXT, "KIND", "force a set of kernels: wide (vectors) or many (threads)",                \
     &(common).kind},                                                                                        \
        {"width", OPTION_COUNT, "N", "force 4, 8 or 16 lanes on wide kernels (else the device's)",           \
         &(common).width},                                                                                   \
    {                                                                                                        \
        "wide-indices", OPTION_FLAG, NULL, "64-bit indices in kernels whatever the sizes",                   \
            &(common).wide_indices                                                                           \
    }
/* And of those that compute models. */
#define MATH_OPTION(common)                                                                                  \
    {                                                                                                        \
        "math", OPTION_TEXT, "MODE", "exact, or fast: algorithms with a slightly larger error (fast)",       \
            &(common).math                                                                                   \
    }
/* Sets `exact`; answers EXIT_DONE, or says that --math makes no sense and answers EXIT_USAGE. */
int math_option_check(common_options *common);
/* EXIT_DONE, or says which of the KERNEL_OPTIONS makes no sense and answers EXIT_USAGE. */
int kernel_options_check(const common_options *common);

/* Says "koine: …" on the standard error and answers EXIT_FAILED. */
int command_fail(const char *format, ...) COMMAND_PRINTF(1, 2);
/* The same, and answers EXIT_USAGE. */
int command_misuse(const char *format, ...) COMMAND_PRINTF(1, 2);
/* Says "koine: …" and goes on. */
void command_warn(const char *format, ...) COMMAND_PRINTF(1, 2);
/* A line on the standard error about what is going on, left out when quiet. */
void command_tell(const char *format, ...) COMMAND_PRINTF(1, 2);
/* --quiet, and whether there is a terminal. */
void messages_setup(const common_options *common);
/* Whether --device or KOINE_DEVICE is auto (auto.h). */
bool device_is_auto(const common_options *common);
/* Opens the device, or says why not and answers NULL. auto is as if nothing was said: where a command has no
 * step to time on each, the fastest by a short matrix product has to do. */
kn_context *context_open(const common_options *common);
/* Opens a model, or says why not and answers NULL. */
kn_model *model_open(const char *name);
/* The row of an option table for --pin (pin.c), of commands that compute models. */
#define PIN_OPTION(common)                                                                                   \
    {                                                                                                        \
        "pin", OPTION_TEXT, "PATTERN=DEVICE,…",                                                              \
            "layers whose names fit are on other devices in this run, such as 'stage2*=cpu'; main: that of " \
            "--device",                                                                                      \
            &(common).pin                                                                                    \
    }
/* EXIT_DONE, or says what of --pin makes no sense and answers EXIT_USAGE. */
int pin_option_check(const common_options *common);
/* Pins the model's layers as --pin says, and opens each device that some are pinned to, also by the model's
 * own text, to be the context's. Says why not and answers false. */
bool devices_join(kn_context *context, const common_options *common, kn_model *model);
/* Whether a path ends so, with something before it. */
bool path_ends(const char *path, const char *ending, bool any_case);
/* Whether a path ends as ONNX files do. */
bool path_is_onnx(const char *path);
/* Says why a session (NULL: memory is out) failed with this status, and answers false. */
bool session_fail(const kn_session *session, kn_status status);
/* Says how long kernels were compiled since the last call, where it was long enough to be noticed. */
void tell_compiling(kn_context *context);
/* Columns that these bytes of UTF-8 take on a terminal. */
size_t text_columns(const char *text, size_t bytes);
/* How many of these bytes of UTF-8, whole letters, take `columns` at most. */
size_t text_within(const char *text, size_t bytes, size_t columns);
/* "1.50 GB" */
const char *bytes_text(double bytes, char *text, size_t room);
/* "1:05" */
const char *time_text(double seconds, char *text, size_t room);
/* Seconds of a clock that only goes forward. */
double clock_now(void);
/* From now on Ctrl-C is noticed instead of ending the program at once; a second one ends it. */
void interrupts_watch(void);
bool interrupted(void);

/* ---- files that are written (written.c) ---------------------------------------------------------- */

/* The row of an option table that lets files be replaced. */
#define OVERWRITE_OPTION(common)                                                                             \
    {                                                                                                        \
        "overwrite", OPTION_FLAG, NULL, "replace files that are there already (they are left as they are)",  \
            &(common).overwrite                                                                              \
    }
/* Put in place when it is whole, or written as it comes, which a pipe and a device may take. */
typedef enum path_use { PATH_WHOLE, PATH_STREAM } path_use;
/* Whether anything has that name, a link to nothing too. */
bool path_there(const char *path);
/* Whether a file may be written there, and where `replace` is false, none is there; says why not. Nothing is
 * written. */
bool path_writable(const char *path, path_use use, bool replace);
/* A file that an option asks for; path NULL: it does not. */
typedef struct output_file {
    const char *option, *path;
} output_file;
/* EXIT_DONE, or says which two of them are one file and answers EXIT_USAGE. */
int outputs_apart(const output_file *outputs, int count);
/* Whether `mark` stands in the first few KB of a file. */
bool file_has_mark(const char *path, const char *mark);
/* The same for files in a folder, which will be made, with those that it is in, where it is not there. */
bool folder_writable(const char *path);
/* Whether it is there and can be written to, or can be made; why not goes into `reason`. */
bool folder_makable(const char *path, char *reason, size_t room);
/* The `number`-th name for a file, from 1: x.y, x-2.y, x-3.y. Says why that fails. */
bool path_numbered(const char *path, unsigned number, char *text, size_t room);

/* A file that takes the place of what is at a path when it is whole. */
typedef struct whole_file {
    FILE *stream;
    const char *path; /* stays the caller's */
    char *temporary;
} whole_file;
/* Begins one beside its place. Says why not and answers false. */
bool whole_open(whole_file *file, const char *path);
/* Ends it, and where it is to be kept, puts it in its place; says why that fails. True where it is there. */
bool whole_close(whole_file *file, bool keep);

/* ---- a process beside this one (process.c, precompile.c) ------------------------------------------ */

/* Starts this program once more; `silent`: it reads nothing and nobody hears it. 0, or what errno would be.
 */
int process_start(char *const *arguments, bool silent, pid_t *child);
/* Waits for its end, as waitpid tells it; false where it was lost. */
bool process_wait(pid_t child, int *result);

/* To be called first: takes "precompile" off the command line where it is there, and otherwise remembers the
 * line. */
void precompile_begin(int *count, char **arguments);
/* Whether this process compiles for another one: it writes no files, and ends where it would take its first
 * step. */
bool precompiling(void);
/* Lets the first kernel that has to be compiled for the context from here on start precompiling; not where
 * nothing is kept, nor for a device with memory of its own, which might be needed twice. */
void precompile_allow(const common_options *common, const kn_context *context);
void precompile_start(void);
/* Ends it, where there is one, after the first step; none starts from here on. */
void precompile_end(void);

/* ---- JSON (json.c): texts and numbers on a stream ----------------------------------------------- */

/* A string with its quotes. */
void json_text(FILE *stream, const char *text);
/* What was computed in single precision: as few digits as bring back the same float; null if not finite. */
void json_float(FILE *stream, double number);
/* A measured time or speed: six digits; null if not finite. */
void json_measure(FILE *stream, double number);
void json_count(FILE *stream, uint64_t number);
/* The same with a comma and the member's name, which needs no escapes, in front. */
void json_text_member(FILE *stream, const char *name, const char *text);
void json_float_member(FILE *stream, const char *name, double number);
void json_measure_member(FILE *stream, const char *name, double number);

/* ---- progress (progress.c) ------------------------------------------------------------------- */

/* A line on the standard error: rewritten in place on a terminal, and not at all elsewhere or when quiet. On
 * a narrow one fields, which stand two spaces apart, are left out, and a bar is shorter. */
void progress_setup(const common_options *common);
/* At most ten times a second. */
void progress_line(const char *format, ...) COMMAND_PRINTF(1, 2);
/* The same at once, before something that takes long. */
void progress_now(const char *format, ...) COMMAND_PRINTF(1, 2);
/* Where no line can be rewritten: true once a minute, for a plain line. */
bool progress_plain_due(void);
/* Takes the line away, before something else is printed. */
void progress_clear(void);
/* Columns of the terminal that reads along; 0 where none does, or when quiet. */
int progress_width(void);
/* "[#####     ]" of a width in characters. */
const char *progress_bar(double share, char *text, size_t room);
/* For kn_progress: compiling. */
void progress_compile(void *user, const char *label, uint64_t done, uint64_t total);

/* ---- --trace (trace.c) -------------------------------------------------------------------------- */

/* The row of an option table for it. */
#define TRACE_OPTION(target)                                                                                 \
    {                                                                                                        \
        "trace", OPTION_TEXT, "FILE", "what host and queues did when, for Perfetto and chrome://tracing",    \
            &(target)                                                                                        \
    }
/* Begins the file (path NULL: none, and the calls below do nothing; `replace`: also one that is there; `mark`
 * unless NULL near its beginning) and asks for the timeline of the context that is opened next. Says what is
 * wrong and answers false. */
bool trace_open(const char *path, bool replace, const char *mark, common_options *common);
/* A stretch of the host's time, by kn_context_clock. */
void trace_host(const char *name, double begin, double end);
/* What the timeline holds; it is not cleared. Waits for the queues. */
void trace_queues(kn_context *context);
/* False, and it was said why, where not all could be written. */
bool trace_close(void);

/* ---- the commands ------------------------------------------------------------------------------- */

extern const command command_devices, command_doctor, command_train, command_eval, command_infer,
    command_generate, command_convert, command_plan, command_bench, command_verify, command_models,
    command_datasets;

#endif
