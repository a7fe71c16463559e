/* koine tune: measures which kernels are the fastest for a model on a device. */
#include <stdlib.h>
#include <string.h>

#include "tune.h"

/* As koine tune-apart SECONDS: this process measures, and another one watches. */
static bool apart;
static double apart_seconds;

/* EXIT_DONE, or reports what is wrong with the words and returns EXIT_USAGE. */
static int check(const tune_options *options, const char *mode, const char *optimizer) {
    static const char *const modes[] = {"train", "infer"};
    int status;
    if ((status = kernel_options_check(&options->common)) != EXIT_DONE ||
        (status = settings_check(options->set)) != EXIT_DONE)
        return status;
    const int files = options->list + !!options->import + !!options->export,
              tuned = !!options->model + !!options->operators;
    if (option_choice("mode", mode, modes, 2) < 0 || optimizer_choice(optimizer) < 0) return EXIT_USAGE;
    if (files + tuned != 1)
        return command_misuse("tune needs one of: a model, --operators, --list, --export, --import");
    if (options->batch != UINT64_MAX && (!options->batch || options->batch > INT32_MAX))
        return command_misuse("--batch is %llu; expected 1 to %d", (unsigned long long)options->batch,
                              INT32_MAX);
    if (!(options->seconds > 0))
        return command_misuse("--seconds is %g; expected more than 0", options->seconds);
    if (!(options->patience > 0))
        return command_misuse("--patience is %g; expected more than 0", options->patience);
    if (tuned && options->common.no_cache)
        return command_misuse("--no-cache would keep nothing of what is measured");
    return EXIT_DONE;
}

static int run(int count, char **arguments) {
    tune_options options = {
        .seconds = 300, .patience = 30, .batch = UINT64_MAX, .arguments = arguments, .count = count};
    const char *mode = "train", *optimizer = "adam";
    const option rows[] = {
        HEADING("what is tuned"),
        {"batch", OPTION_COUNT, "N", "samples at a time (64)", &options.batch},
        {"mode", OPTION_TEXT, "MODE", "train or infer (train)", &mode},
        {"operators", OPTION_TEXT, "A,B", "these, at the sizes of koine bench operators, instead of a model",
         &options.operators},
        {"optimizer", OPTION_TEXT, "NAME", "of training, as koine train has them (adam)", &optimizer},
        SET_OPTION(options.set),
        HEADING("time"),
        {"seconds", OPTION_NUMBER, "N", "stop after so long; the next start continues (300)",
         &options.seconds},
        {"patience", OPTION_NUMBER, "N", "seconds after which a kernel counts as hung (30)",
         &options.patience},
        {"again", OPTION_FLAG, NULL, "tune what is known too, and try kernels that failed again",
         &options.again},
        HEADING("what is kept"),
        {"list", OPTION_FLAG, NULL, "print what is known of the device", &options.list},
        {"export", OPTION_TEXT, "FILE", "write it to a text file", &options.export},
        {"import", OPTION_TEXT, "FILE", "take what such a file has of the same device, driver and kernels",
         &options.import},
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
        (status = check(&options, mode, optimizer)) != EXIT_DONE)
        return status;
    options.training = !strcmp(mode, "train");
    options.optimizer = (kn_optimizer)optimizer_choice(optimizer);
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
    "tune", "measure which kernels are the fastest", "MODEL [--batch N] | --operators A,B [--seconds N]",
    "Tries all kernels that can compute a model's operators at their exact sizes, those that take most of\n"
    "the time first, and keeps the fastest. Every later command uses them on this device, with this\n"
    "driver and these kernels; koine plan shows them. Another kernel may add in another order, so results\n"
    "may differ in their last bits from untuned ones.\n"
    "\n"
    "Each kernel is compared with the reference before it is timed, in a separate process: one that is\n"
    "wrong, crashes or hangs is left out, now and later. --seconds ends it, and the same command\n"
    "continues.\n"
    "\n"
    "  koine tune resnet18c --batch 32\n"
    "  koine tune lenet --mode infer --seconds 60\n"
    "  koine tune --operators matmul,conv2d\n"
    "  koine tune --list\n"
    "  koine tune --export mine.tuned\n"
    "  koine tune --import mine.tuned",
    run};
