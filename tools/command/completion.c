/* Shell completion scripts, generated from the option tables. */
#include <string.h>

#include "command.h"

/* The output of --help=WORD for a command: its options in the syntax of that shell's script. */
static void print_options(const command *row, const char *form) {
    char word[32];
    snprintf(word, sizeof word, "--help=%s", form);
    char *ask[] = {word};
    row->run(1, ask);
}

static void print_bash(const command *const *commands, int count) {
    fputs("# bash completion for koine: eval \"$(koine help --shell=bash)\"\n"
          "_koine() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} options=\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
          "        COMPREPLY=($(compgen -W \"help",
          stdout);
    for (int i = 0; i < count; i++)
        printf(" %s", commands[i]->name);
    fputs("\" -- \"$word\"))\n"
          "        return\n"
          "    fi\n"
          "    case ${COMP_WORDS[1]} in\n",
          stdout);
    for (int i = 0; i < count; i++) {
        printf("    %s) options='", commands[i]->name);
        print_options(commands[i], "bash");
        fputs("' ;;\n", stdout);
    }
    fputs("    esac\n"
          "    if [[ $word == -* ]]; then\n"
          "        COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
          "    else\n"
          "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
          "    fi\n"
          "}\n"
          "complete -o filenames -F _koine koine\n",
          stdout);
}

static void print_zsh(const command *const *commands, int count) {
    fputs("#compdef koine\n"
          "# zsh completion for koine: eval \"$(koine help --shell=zsh)\"\n"
          "_koine() {\n"
          "    local -a commands\n"
          "    commands=(",
          stdout);
    for (int i = 0; i < count; i++)
        printf("\n        '%s:%s'", commands[i]->name, commands[i]->summary);
    fputs("\n    )\n"
          "    if ((CURRENT == 2)); then\n"
          "        _describe command commands\n"
          "        return\n"
          "    fi\n"
          "    case ${words[2]} in\n",
          stdout);
    for (int i = 0; i < count; i++) {
        printf("    %s) _arguments '*:file:_files'", commands[i]->name);
        print_options(commands[i], "zsh");
        fputs(" ;;\n", stdout);
    }
    fputs("    esac\n"
          "}\n"
          /* As a file _koine in the fpath, the script is the body of the function. */
          "if [ \"$funcstack[1]\" = _koine ]; then\n"
          "    _koine \"$@\"\n"
          "else\n"
          "    compdef _koine koine\n"
          "fi\n",
          stdout);
}

static void print_fish(const command *const *commands, int count) {
    fputs("# fish completion for koine: koine help --shell=fish | source\n", stdout);
    for (int i = 0; i < count; i++) {
        printf("complete -c koine -n __fish_use_subcommand -f -a %s -d '%s'\n", commands[i]->name,
               commands[i]->summary);
        print_options(commands[i], "fish");
    }
}

int completion_print(const char *shell, const command *const *commands, int count) {
    static const char *const shells[] = {"bash", "zsh", "fish"};
    int chosen = option_choice("shell", shell, shells, 3);
    if (chosen < 0) return EXIT_USAGE;
    (chosen == 0 ? print_bash : chosen == 1 ? print_zsh : print_fish)(commands, count);
    return EXIT_DONE;
}
