/* koine: trains, evaluates and runs neural networks on any OpenCL device. */
#include <signal.h>
#include <string.h>

#include "command.h"

static const command *const commands[] = {&command_devices,
                                          &command_doctor,
                                          &command_train,
                                          &command_eval,
                                          &command_infer,
                                          &command_generate,
                                          &command_serve,
                                          &command_convert,
                                          &command_plan,
                                          &command_bench,
                                          &command_bench_gemm,
                                          &command_bench_operators,
                                          &command_bench_crossover,
                                          &command_bench_plan,
                                          &command_tune,
                                          &command_verify,
                                          &command_report,
                                          &command_models,
                                          &command_datasets,
                                          &command_tokens,
                                          &command_version};
enum { COMMANDS = sizeof commands / sizeof *commands };

static const char summary[] = "trains and runs neural networks on any OpenCL device";
static const char about[] =
    "koine COMMAND -h shows examples and the main options, --help all of them, and --help=man prints a man\n"
    "page. koine help --shell=bash (zsh, fish) prints the completion script of a shell. To begin:\n"
    "\n"
    "  koine devices\n"
    "  koine train lenet --data digits --epochs 2\n"
    "  koine eval lenet.safetensors --data digits\n"
    "  koine infer lenet.safetensors --data digits:test --limit 5\n"
    "\n"
    "Results go to standard output, everything else to standard error.\n";
/* The man page has separate sections for these. */
static const char ending[] =
    "Exit status: 0, 1 after a failure, 2 for an invalid command line. KOINE_DEVICE selects a device, as\n"
    "--device does. KOINE_KERNEL_DIR is a folder of kernels that replace the built-in ones.\n";

static void print_help(FILE *stream) {
    fprintf(stream, "koine %s.\n\nusage: koine COMMAND [ARGUMENT …] [--OPTION …]\n\n", summary);
    for (int i = 0; i < COMMANDS; i++) {
        char row[100];
        snprintf(row, sizeof row, "  %-15s  %s", commands[i]->name, commands[i]->summary);
        help_text(stream, row);
    }
    fputc('\n', stream);
    help_text(stream, about);
    help_text(stream, ending);
}

const command *command_find(const char *name, size_t length) {
    for (int i = 0; i < COMMANDS; i++)
        if (strlen(commands[i]->name) == length && !strncmp(commands[i]->name, name, length))
            return commands[i];
    return NULL;
}

static const command *find(const char *word) {
    return command_find(word, strlen(word));
}

static int unknown(const char *word) {
    const char *names[COMMANDS];
    for (int i = 0; i < COMMANDS; i++)
        names[i] = commands[i]->name;
    const char *near = nearest_word(word, names, COMMANDS);
    if (near) return command_misuse("there is no command '%s'; did you mean '%s'?", word, near);
    return command_misuse("there is no command '%s'; koine --help lists them", word);
}

static int run(int count, char **arguments) {
    const char *word = count > 1 ? arguments[1] : NULL;
    if (!word) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    if (!strcmp(word, "--version") || !strcmp(word, "-V")) {
        printf("koine %s\n", kn_version_text());
        return EXIT_DONE;
    }
    if (!strcmp(word, "--help=man")) {
        man_all(summary, about, commands, COMMANDS);
        return EXIT_DONE;
    }
    if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help")) {
        static char help[] = "--help";
        char *ask[] = {help};
        if (word[0] == '-' || count < 3) {
            print_help(stdout);
            return EXIT_DONE;
        }
        if (!strncmp(arguments[2], "--shell=", 8))
            return completion_print(arguments[2] + 8, commands, COMMANDS);
        return find(arguments[2]) ? find(arguments[2])->run(1, ask) : unknown(arguments[2]);
    }
    if (!strcmp(word, "tune-apart")) return tune_apart(count - 2, arguments + 2);
    if (!find(word)) return unknown(word);
    if (precompiling() && strcmp(word, "train") != 0 && strcmp(word, "bench") != 0)
        return command_misuse("only train and bench can be precompiled, not %s", word);
    return find(word)->run(count - 2, arguments + 2);
}

int main(int count, char **arguments) {
    /* Report exceeding the file size limit like any other write error. */
    signal(SIGXFSZ, SIG_IGN);
    interrupts_default();
    precompile_begin(&count, arguments);
    kn_process_enable_amx();
    int status = run(count, arguments);
    progress_clear();
    /* Flushing reports a full disk. */
    if (fflush(stdout) != 0 || ferror(stdout)) return command_fail("standard output could not be written");
    return status;
}
