/* Parses the command line by a table, which also provides the help. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

/* ---- help for other programs -------------------------------------------------------------------- */

/* Prints a text in single quotes for a shell, without the characters in `left_out`, which have a meaning
 * there. */
static void print_quoted(const char *text, const char *left_out) {
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", stdout);
        else if (!strchr(left_out, *text))
            putchar(*text);
}

/* For completion.c and man.c. */
static int print_form(const char *form, const command *self, const option *options) {
    static const char *const forms[] = {"man", "bash", "zsh", "fish"};
    int chosen = option_choice("help", form, forms, 4);
    if (chosen == 0) man_command(self, options);
    for (const option *row = options; chosen > 0 && row->name; row++) {
        if (row->kind == OPTION_HEADING) continue;
        if (chosen == 1) {
            printf("--%s ", row->name);
        } else if (chosen == 2) {
            printf(" \\\n        '--%s[", row->name);
            print_quoted(row->help, "[]:");
            printf("]%s%s%s'", row->argument ? ":" : "", row->argument ? "value" : "",
                   row->argument ? ":_files" : "");
        } else {
            printf("complete -c koine -n '__fish_seen_subcommand_from %s' -l %s %s-d '", self->name,
                   row->name, row->argument ? "-r " : "");
            print_quoted(row->help, "");
            fputs("'\n", stdout);
        }
    }
    return chosen < 0 ? EXIT_USAGE : EXIT_DONE;
}

/* ---- words ------------------------------------------------------------------------------------ */

/* The number of letters to insert, delete or change to turn one word into the other. */
static int difference(const char *left, const char *right) {
    size_t a = strlen(left), b = strlen(right);
    int row[64];
    if (a >= 64 || b >= 64) return 64;
    for (size_t j = 0; j <= b; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= a; i++) {
        int corner = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= b; j++) {
            int above = row[j], cost = corner + (left[i - 1] != right[j - 1]);
            if (above + 1 < cost) cost = above + 1;
            if (row[j - 1] + 1 < cost) cost = row[j - 1] + 1;
            corner = above;
            row[j] = cost;
        }
    }
    return row[b];
}

const char *nearest_word(const char *word, const char *const *words, int count) {
    const char *near = NULL;
    int best = (int)strlen(word) / 2 < 3 ? (int)strlen(word) / 2 + 1 : 4;
    for (int i = 0; i < count; i++)
        if (difference(word, words[i]) < best) {
            best = difference(word, words[i]);
            near = words[i];
        }
    return near;
}

int option_choice(const char *name, const char *word, const char *const *words, int count) {
    char list[200] = "";
    for (int i = 0; i < count; i++) {
        if (!strcmp(word, words[i])) return i;
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s",
                 !i              ? ""
                 : i + 1 < count ? ", "
                                 : " or ",
                 words[i]);
    }
    command_misuse("--%s is '%s'; expected %s", name, word, list);
    return -1;
}

/* ---- reading ---------------------------------------------------------------------------------- */

static const option *find(const option *options, const char *name, size_t length) {
    for (const option *row = options; row->name; row++)
        if (row->kind != OPTION_HEADING && strlen(row->name) == length && !strncmp(row->name, name, length))
            return row;
    return NULL;
}

static int unknown(const command *self, const option *options, const char *name, size_t length) {
    const char *names[64];
    char word[64];
    int count = 0;
    snprintf(word, sizeof word, "%.*s", (int)length, name);
    for (const option *row = options; row->name && count < 64; row++)
        if (row->kind != OPTION_HEADING) names[count++] = row->name;
    const char *near = nearest_word(word, names, count);
    if (near) return command_misuse("%s has no option --%s; did you mean --%s?", self->name, word, near);
    return command_misuse("%s has no option --%s; koine %s --help lists them", self->name, word, self->name);
}

/* An integer above 0 with or without a unit. */
static bool read_bytes(const char *text, uint64_t *bytes) {
    static const struct {
        const char *name;
        double factor;
    } units[] = {{"", 1},         {"B", 1},     {"kB", 1e3},   {"KB", 1e3},     {"MB", 1e6},
                 {"GB", 1e9},     {"TB", 1e12}, {"KiB", 1024}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
                 {"TiB", 0x1p40}, {"k", 1e3},   {"M", 1e6},    {"G", 1e9}};
    char *end = NULL;
    double number = strtod(text, &end);
    if (end == text || !isdigit((unsigned char)text[0])) return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcmp(end, units[i].name) && number * units[i].factor >= 1 &&
            number * units[i].factor < 0x1p63) {
            *bytes = (uint64_t)(number * units[i].factor);
            return true;
        }
    return false;
}

static bool take_value(const option *row, const char *text, int *status) {
    char *end = NULL;
    const char *expected = "";
    errno = 0;
    switch (row->kind) {
    case OPTION_HEADING: /* find() never returns it */
    case OPTION_FLAG:
        *status = command_misuse("--%s takes no value", row->name);
        return false;
    case OPTION_TEXT:
        *(const char **)row->target = text;
        if (text[0]) return true;
        expected = row->argument;
        break;
    case OPTION_COUNT: {
        unsigned long long number = strtoull(text, &end, 10);
        if (isdigit((unsigned char)text[0]) && !*end && !errno) {
            *(uint64_t *)row->target = number;
            return true;
        }
        expected = "an integer of at least 0";
        break;
    }
    case OPTION_NUMBER: {
        double number = strtod(text, &end);
        if (end != text && !*end && isfinite(number)) {
            *(double *)row->target = number;
            return true;
        }
        expected = "a number";
        break;
    }
    case OPTION_BYTES:
        if (read_bytes(text, row->target)) return true;
        expected = "a number of bytes such as 512MB";
        break;
    }
    *status = command_misuse("--%s is '%s'; expected %s", row->name, text, expected);
    return false;
}

/* Reads the option at arguments[*i], and the following word if that is its value. */
static bool take_option(const command *self, const option *options, int count, char **arguments, int *i,
                        int *status) {
    const char *word = arguments[*i];
    const char *name = word + (word[1] == '-' ? 2 : 1), *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    const option *row = find(options, name, length);
    if (!row) {
        *status = unknown(self, options, name, length);
        return false;
    }
    if (row->kind == OPTION_FLAG && !equals) {
        *(bool *)row->target = true;
        return true;
    }
    if (!equals && (*i + 1 == count || !strncmp(arguments[*i + 1], "--", 2))) {
        *status = command_misuse("--%s needs a value: --%s %s", row->name, row->name, row->argument);
        return false;
    }
    return take_value(row, equals ? equals + 1 : arguments[++*i], status);
}

bool options_read(const command *self, const option *options, int count, char **arguments, const char **words,
                  int *word_count, int most_words, int *status) {
    bool only_words = false;
    *word_count = 0;
    for (int i = 0; i < count && strcmp(arguments[i], "--"); i++)
        if (!strcmp(arguments[i], "--help") || !strcmp(arguments[i], "-h")) {
            help_print(self, options);
            *status = EXIT_DONE;
            return false;
        } else if (!strncmp(arguments[i], "--help=", 7)) {
            *status = print_form(arguments[i] + 7, self, options);
            return false;
        }
    for (int i = 0; i < count; i++) {
        const char *word = arguments[i];
        if (!only_words && !strcmp(word, "--")) {
            only_words = true;
        } else if (!only_words && word[0] == '-' && word[1]) {
            if (!take_option(self, options, count, arguments, &i, status)) return false;
        } else if (*word_count == most_words) {
            *status = command_misuse("'%s' is one word too many; usage: koine %s %s", word, self->name,
                                     self->usage);
            return false;
        } else {
            words[(*word_count)++] = word;
        }
    }
    return true;
}
