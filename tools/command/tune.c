/* koine tune: finds the fastest kernels for a model on a device by measuring them. */
#include <stdlib.h>
#include <string.h>

#include "tune.h"

/* As koine tune-apart SECONDS, this process measures and its parent watches it. */
static bool apart;
static double apart_seconds;

/* EXIT_DONE, or reports invalid words and returns EXIT_USAGE. */
static int check(const tune_options *options, const char *mode) {
    static const char *const modes[] = {"train", "infer"};
    int status;
    if ((status = kernel_options_check(&options->common)) != EXIT_DONE ||
        (status = settings_check(options->set)) != EXIT_DONE)
        return status;
    const int files = options->list + !!options->import + !!options->export,
              tuned = !!options->model + !!options->operators;
    if (option_choice("mode", mode, modes, 2) < 0) return EXIT_USAGE;
    if (files + tuned != 1)
        return command_misuse("tune needs one of: a model, --operators, --list, --export, --import");
    if (options->batch != UINT64_MAX && (!options->batch || options->batch > INT32_MAX))
        return command_misuse("--batch is %llu; expected 1 to %d", (unsigned long long)options->batch,
                              INT32_MAX);
    if (!(options->seconds > 0))
        return command_misuse("--seconds is %g; expected more than 0", options->seconds);
    if (!(options->timeout > 0))
        return command_misuse("--timeout is %g; expected more than 0", options->timeout);
    if (tuned && options->common.no_cache) return command_misuse("--no-cache would discard the results");
    return EXIT_DONE;
}

static int run(int count, char **arguments) {
    tune_options options = {
        .seconds = 300, .timeout = 30, .batch = UINT64_MAX, .arguments = arguments, .count = count};
    kn_trainer_params how = KN_TRAINER_DEFAULTS;
    const char *mode = "train", *optimizer = "adam";
    const option rows[] = {
        HEADING("shapes"),
        {"batch", OPTION_COUNT, "N", "samples per step (64)", &options.batch},
        {"mode", OPTION_TEXT, "MODE", "train or infer (train)", &mode},
        {"operators", OPTION_TEXT, "A,B",
         "tune these operators, at the sizes of koine bench-operators, instead of a model",
         &options.operators},
        {"optimizer", OPTION_TEXT, "NAME", "optimizer of koine train (adam)", &optimizer},
        SET_OPTION(options.set),
        HEADING("time"),
        {"seconds", OPTION_NUMBER, "S", "stop after S seconds; the same command continues (300)",
         &options.seconds},
        {"timeout", OPTION_NUMBER, "S", "seconds after which a kernel counts as hung (30)", &options.timeout},
        {"retune", OPTION_FLAG, NULL, "tune known shapes and retry refused kernels too", &options.retune},
        HEADING("results"),
        {"list", OPTION_FLAG, NULL, "print the results for the device", &options.list},
        {"export", OPTION_TEXT, "FILE", "write them to a text file", &options.export},
        {"import", OPTION_TEXT, "FILE",
         "read results for the same device, driver and kernels from such a file", &options.import},
        OVERWRITE_OPTION(options.common),
        HEADING("device"),
        MATH_OPTIONS(options.common),
        KERNEL_OPTIONS(options.common),
        COMMON_OPTIONS(options.common),
        {.name = NULL}};
    const char *words[1];
    int word_count, status;
    if (!options_read(&command_tune, rows, count, arguments, words, &word_count, 1, &status)) return status;
    options.model = word_count ? words[0] : NULL;
    if ((status = math_options_check(&options.common)) != EXIT_DONE ||
        (status = check(&options, mode)) != EXIT_DONE ||
        (status = setting_take(&how, "optimizer", "optimizer", optimizer)) != EXIT_DONE)
        return status;
    options.training = !strcmp(mode, "train");
    options.optimizer = how.optimizer;
    if (options.export && !path_writable(options.export, PATH_WHOLE, options.common.overwrite))
        return EXIT_FAILED;
    tune_run run = {.options = &options};
    const bool files = !options.model && !options.operators;
    progress_setup(&options.common);
    status = EXIT_FAILED;
    if (files ? tune_open_device(&run) : tune_open(&run))
        status = files ? tune_files(&run) : apart ? tune_measure(&run, apart_seconds) : tune_watch(&run);
    tune_close(&run);
    return status;
}

int tune_apart(int count, char **arguments) {
    if (count < 1) return EXIT_USAGE;
    apart = true;
    apart_seconds = strtod(arguments[0], NULL);
    return run(count - 1, arguments + 1);
}

const command command_tune = {
    "tune",
    "measure which kernels are fastest",
    "MODEL [--batch N] | --operators A,B [--seconds S]",
    "batch mode operators seconds retune list export import",
    "koine tune mlp --batch 32 --seconds 20\n"
    "koine tune mlp --mode infer --seconds 20\n"
    "koine tune --operators softmax --seconds 20\n"
    "koine tune --list\n"
    "koine tune --export mine.tuned\n"
    "koine tune --import mine.tuned",
    "Tries all kernels that can compute a model's operators at their exact sizes, the most expensive\n"
    "operators first, and keeps the fastest. Later commands use them on this device, with this driver and\n"
    "these kernels; koine plan shows them. A different kernel may add in a different order, so that results\n"
    "differ from untuned ones in the last bits.\n"
    "\n"
    "Each kernel is compared with the reference before it is timed, in a separate process. One that is\n"
    "wrong, crashes or hangs is refused, now and later. After --seconds, the same command continues.",
    run};
