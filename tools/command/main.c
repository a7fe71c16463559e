/* koine: train, judge and run neural networks on any OpenCL device. */
#include <string.h>

#include "command.h"

static const command *const commands[] = {&command_devices, &command_train, &command_eval,   &command_infer,
                                          &command_plan,    &command_bench, &command_verify, &command_models};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void print_help(FILE *stream) {
    fputs("koine: trains and runs neural networks on any OpenCL device\n"
          "\n"
          "usage: koine COMMAND [ARGUMENT …] [--OPTION …]\n"
          "\n",
          stream);
    for (int i = 0; i < COMMANDS; i++)
        fprintf(stream, "  %-9s %s\n", commands[i]->name, commands[i]->summary);
    fputs("\n"
          "koine COMMAND --help explains one. To begin:\n"
          "\n"
          "  koine devices\n"
          "  koine train lenet --data digits --epochs 2\n"
          "  koine eval lenet.safetensors --data digits\n"
          "\n"
          "Environment: KOINE_DEVICE picks a device as --device does; KOINE_KERNEL_DIR names a folder whose "
          "kernels are\n"
          "used instead of the built-in ones. Exit status: 0, 1 when something failed, 2 for a wrong command "
          "line.\n",
          stream);
}

int main(int count, char **arguments) {
    if (count < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    const char *word = arguments[1];
    if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help")) {
        print_help(stdout);
        return EXIT_DONE;
    }
    if (!strcmp(word, "--version")) {
        printf("koine %s\n", kn_version_text());
        return EXIT_DONE;
    }
    for (int i = 0; i < COMMANDS; i++)
        if (!strcmp(commands[i]->name, word)) {
            int status = commands[i]->run(count - 2, arguments + 2);
            progress_clear();
            /* A full disk shows when the last bytes go out. */
            if (fflush(stdout) != 0 || ferror(stdout))
                return command_fail("the standard output could not be written");
            return status;
        }
    return command_misuse("there is no command '%s'; koine --help lists them", word);
}
