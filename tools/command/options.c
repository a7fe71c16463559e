/* Parses the command line with a table, which also provides the help. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

void options_add(option *options, size_t *count, const option *rows) {
    while (rows->name)
        options[(*count)++] = *rows++;
    options[*count] = *rows;
}

/* ---- help for other programs -------------------------------------------------------------------- */

/* Prints a text in single quotes for a shell, without the characters in `left_out`, which are special
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
        const char letter = option_letter(options, row);
        if (chosen == 1) {
            if (letter) printf("-%c ", letter);
            printf("--%s ", row->name);
        } else if (chosen == 2) {
            for (int long_form = letter == '\0'; long_form < 2; long_form++) {
                if (long_form)
                    printf(" \\\n        '--%s[", row->name);
                else
                    printf(" \\\n        '-%c[", letter);
                print_quoted(row->help, "[]:");
                printf("]%s'", row->argument ? ":value:_files" : "");
            }
        } else {
            printf("complete -c koine -n '__fish_seen_subcommand_from %s' ", self->name);
            if (letter) printf("-s %c ", letter);
            printf("-l %s %s-d '", row->name, row->argument ? "-r " : "");
            print_quoted(row->help, "");
            fputs("'\n", stdout);
        }
    }
    return chosen < 0 ? EXIT_USAGE : EXIT_DONE;
}

/* ---- words ------------------------------------------------------------------------------------ */

/* The edit distance between two words. */
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

bool has_word(const char *list, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = list; length && (at = strstr(at, word)); at += length)
        if ((at == list || at[-1] == ' ') && (!at[length] || at[length] == ' ')) return true;
    return false;
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

/* Aliases of options, and letters for the form -x; each applies to commands that have the option. */
static const struct {
    const char *name, *option;
} aliases[] = {{"b", "batch"}, {"o", "output"},  {"o", "save"},
               {"q", "quiet"}, {"v", "verbose"}, {"learning-rate", "lr"}};
enum { ALIASES = sizeof aliases / sizeof *aliases };

static const option *find_exactly(const option *options, const char *name, size_t length) {
    for (const option *row = options; row->name; row++)
        if (row->kind != OPTION_HEADING && strlen(row->name) == length && !strncmp(row->name, name, length))
            return row;
    return NULL;
}

static const option *find(const option *options, const char *name, size_t length) {
    const option *row = find_exactly(options, name, length);
    for (int i = 0; i < ALIASES && !row; i++)
        if (strlen(aliases[i].name) == length && !strncmp(aliases[i].name, name, length))
            row = find_exactly(options, aliases[i].option, strlen(aliases[i].option));
    return row;
}

char option_letter(const option *options, const option *row) {
    for (int i = 0; i < ALIASES; i++)
        if (!aliases[i].name[1] && find(options, aliases[i].name, 1) == row) return aliases[i].name[0];
    return '\0';
}

const char *option_alias(const option *row) {
    for (int i = 0; i < ALIASES; i++)
        if (aliases[i].name[1] && !strcmp(aliases[i].option, row->name)) return aliases[i].name;
    return NULL;
}

static int unknown(const command *self, const option *options, const char *dashes, const char *name,
                   size_t length) {
    const char *names[OPTIONS_MOST];
    char word[64];
    int count = 0;
    snprintf(word, sizeof word, "%.*s", (int)length, name);
    for (const option *row = options; row->name && count < OPTIONS_MOST; row++)
        if (row->kind != OPTION_HEADING) names[count++] = row->name;
    const char *near = nearest_word(word, names, count);
    if (near)
        return command_misuse("%s has no option %s%s; did you mean --%s?", self->name, dashes, word, near);
    return command_misuse("%s has no option %s%s; koine %s --help lists them", self->name, dashes, word,
                          self->name);
}

/* An integer above 0, optionally with a unit. */
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

/* The given options, for options_write, and the first other word. */
static struct { const char *name, *value; /* value NULL: a flag */ } given[OPTIONS_MOST];
static int given_count;
static const char *given_word;

static void remember(const option *row, const char *value) {
    int i = 0;
    while (i < given_count && strcmp(given[i].name, row->name))
        i++;
    if (i == OPTIONS_MOST) return;
    given[i].name = row->name;
    given[i].value = value;
    if (i == given_count) given_count++;
}

static bool take_value(const option *row, const char *text, int *status) {
    char *end = NULL;
    const char *expected = "";
    errno = 0;
    remember(row, text);
    switch (row->kind) {
    case OPTION_HEADING: /* find() never returns a heading */
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

/* The option in a word: --name, --name=value, -x, -xvalue or -x=value. Sets *value to the value in the word,
 * or NULL. */
static const option *option_of(const option *options, const char *word, const char **name, size_t *length,
                               const char **value) {
    const bool letter = word[1] != '-';
    *name = word + (letter ? 1 : 2);
    const char *equals = strchr(*name, '=');
    *value = equals ? equals + 1 : NULL;
    *length = equals ? (size_t)(equals - *name) : strlen(*name);
    if (!letter) return *length > 1 ? find(options, *name, *length) : find_exactly(options, *name, *length);
    const option *row = find(options, *name, 1);
    if (!row || *length == 1) return *length == 1 ? row : NULL;
    if (row->kind == OPTION_FLAG) return NULL;
    *value = *name + 1;
    *length = 1;
    return row;
}

/* Reads the option at arguments[*i], and the following word if it is the option's value. */
static bool take_option(const command *self, const option *options, int count, char **arguments, int *i,
                        int *status) {
    const char *name, *value;
    size_t length;
    const option *row = option_of(options, arguments[*i], &name, &length, &value);
    if (!row) {
        *status = unknown(self, options, arguments[*i][1] == '-' ? "--" : "-", name, length);
        return false;
    }
    if (row->kind == OPTION_FLAG && !value) {
        *(bool *)row->target = true;
        remember(row, NULL);
        return true;
    }
    if (!value && (*i + 1 == count || !strncmp(arguments[*i + 1], "--", 2))) {
        *status = command_misuse("--%s needs a value: --%s %s", row->name, row->name, row->argument);
        return false;
    }
    return take_value(row, value ? value : arguments[++*i], status);
}

/* ---- options from a file: NAME = VALUE per line; NAME = yes for flags ---------------------------------- */

static char *config_text; /* storage for option values */

static bool read_file(const char *path) {
    errno = 0;
    FILE *file = fopen(path, "r");
    size_t room = 0;
    free(config_text);
    config_text = NULL;
    const bool read = file && (getdelim(&config_text, &room, '\0', file) >= 0 || feof(file));
    if (!read) command_fail("'%s' cannot be read: %s", path, strerror(errno));
    if (file) fclose(file);
    return read;
}

/* Parses one line in place. Sets *word to the value of `model`. */
static bool take_line(const command *self, const option *options, char *line, const char **word,
                      int *status) {
    char *name = line + strspn(line, " \t"), *equals = strchr(name, '=');
    if (!*name || *name == '#') return true;
    if (!equals) {
        *status = command_misuse("--config: '%s'; expected NAME = VALUE", name);
        return false;
    }
    char *value = equals + 1 + strspn(equals + 1, " \t"), *end = value + strlen(value);
    while (equals > name && strchr(" \t", equals[-1]))
        equals--;
    while (end > value && strchr(" \t\r", end[-1]))
        end--;
    *equals = *end = '\0';
    const option *row = find(options, name, strlen(name));
    if (!strcmp(name, "model")) {
        *word = value;
        return true;
    }
    if (!row || !strcmp(name, "config")) {
        *status = unknown(self, options, "--", name, strlen(name));
        return false;
    }
    if (row->kind != OPTION_FLAG) return take_value(row, value, status);
    if (strcmp(value, "yes") && strcmp(value, "no")) {
        *status = command_misuse("--config: %s is '%s'; expected yes or no", name, value);
        return false;
    }
    *(bool *)row->target = !strcmp(value, "yes");
    if (!strcmp(value, "yes")) remember(row, NULL);
    return true;
}

/* Reads the --config file before the command line, which takes precedence. */
static bool take_config(const command *self, const option *options, int count, char **arguments,
                        const char **word, int *status) {
    const char *path = NULL;
    if (!find_exactly(options, "config", 6)) return true;
    for (int i = 0; i < count && strcmp(arguments[i], "--"); i++)
        if (!strncmp(arguments[i], "--config=", 9))
            path = arguments[i] + 9;
        else if (!strcmp(arguments[i], "--config") && i + 1 < count)
            path = arguments[i + 1];
    if (!path) return true;
    *status = EXIT_FAILED;
    if (!read_file(path)) return false;
    for (char *line = config_text, *next; line; line = next) {
        if ((next = strchr(line, '\n'))) *next++ = '\0';
        if (!take_line(self, options, line, word, status)) return false;
    }
    return true;
}

void options_write(FILE *stream, const char *except) {
    if (given_word) fprintf(stream, "model = %s\n", given_word);
    for (int i = 0; i < given_count; i++)
        if (!has_word(except, given[i].name))
            fprintf(stream, "%s = %s\n", given[i].name, given[i].value ? given[i].value : "yes");
}

bool options_read(const command *self, const option *options, int count, char **arguments, const char **words,
                  int *word_count, int most_words, int *status) {
    bool only_words = false;
    const char *config_word = NULL;
    *word_count = 0;
    for (int i = 0; i < count && strcmp(arguments[i], "--"); i++)
        if (!strcmp(arguments[i], "--help") || !strcmp(arguments[i], "-h")) {
            (arguments[i][1] == 'h' ? help_brief : help_print)(self, options);
            *status = EXIT_DONE;
            return false;
        } else if (!strncmp(arguments[i], "--help=", 7)) {
            *status = print_form(arguments[i] + 7, self, options);
            return false;
        }
    if (!take_config(self, options, count, arguments, &config_word, status)) return false;
    for (int i = 0; i < count; i++) {
        const char *word = arguments[i];
        if (!only_words && !strcmp(word, "--")) {
            only_words = true;
        } else if (!only_words && word[0] == '-' && word[1]) {
            if (!take_option(self, options, count, arguments, &i, status)) return false;
        } else if (*word_count == most_words) {
            *status =
                command_misuse("unexpected argument '%s'; usage: koine %s %s", word, self->name, self->usage);
            return false;
        } else {
            words[(*word_count)++] = word;
        }
    }
    if (!*word_count && config_word) words[(*word_count)++] = config_word;
    given_word = *word_count ? words[0] : NULL;
    return true;
}
