/* Reading the command line by a table, and printing the help from the same table. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

static void print_help(const command *self, const option *options) {
    printf("usage: koine %s %s\n\n%s\n\noptions:\n", self->name, self->usage, self->text);
    for (const option *row = options; row->name; row++) {
        char left[64];
        snprintf(left, sizeof left, "--%s%s%s", row->name, row->argument ? " " : "",
                 row->argument ? row->argument : "");
        printf("  %-24s %s\n", left, row->help);
    }
    printf("  %-24s %s\n", "--help", "this text");
}

/* How many letters two words differ by, when the shorter is laid on the longer: enough to guess a typing
 * error. */
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

static const option *find(const option *options, const char *name, size_t length) {
    for (const option *row = options; row->name; row++)
        if (strlen(row->name) == length && !strncmp(row->name, name, length)) return row;
    return NULL;
}

static int unknown(const command *self, const option *options, const char *name, size_t length) {
    char word[64];
    const char *near = NULL;
    int best = 4;
    snprintf(word, sizeof word, "%.*s", (int)length, name);
    for (const option *row = options; row->name; row++)
        if (difference(word, row->name) < best) {
            best = difference(word, row->name);
            near = row->name;
        }
    if (near) return command_misuse("%s has no option --%s; did you mean --%s?", self->name, word, near);
    return command_misuse("%s has no option --%s; koine %s --help lists them", self->name, word, self->name);
}

static bool take_value(const option *row, const char *text, int *status) {
    char *end = NULL;
    errno = 0;
    switch (row->kind) {
    case OPTION_FLAG:
        break;
    case OPTION_TEXT:
        *(const char **)row->target = text;
        return true;
    case OPTION_COUNT: {
        unsigned long long number = strtoull(text, &end, 10);
        if (isdigit((unsigned char)text[0]) && !*end && !errno) {
            *(uint64_t *)row->target = number;
            return true;
        }
        *status = command_misuse("--%s is '%s'; expected a whole number from 0 on", row->name, text);
        return false;
    }
    case OPTION_NUMBER: {
        double number = strtod(text, &end);
        if (end != text && !*end && isfinite(number)) {
            *(double *)row->target = number;
            return true;
        }
        *status = command_misuse("--%s is '%s'; expected a number", row->name, text);
        return false;
    }
    }
    *status = command_misuse("--%s takes no value", row->name);
    return false;
}

bool options_read(const command *self, const option *options, int count, char **arguments, const char **words,
                  int *word_count, int most_words, int *status) {
    bool only_words = false;
    *word_count = 0;
    for (int i = 0; i < count; i++) {
        const char *word = arguments[i];
        if (!only_words && !strcmp(word, "--")) {
            only_words = true;
            continue;
        }
        if (!only_words && (!strcmp(word, "--help") || !strcmp(word, "-h"))) {
            print_help(self, options);
            *status = EXIT_DONE;
            return false;
        }
        if (only_words || word[0] != '-' || !word[1]) {
            if (*word_count == most_words) {
                *status = command_misuse("'%s' is one word too many; usage: koine %s %s", word, self->name,
                                         self->usage);
                return false;
            }
            words[(*word_count)++] = word;
            continue;
        }
        const char *name = word + (word[1] == '-' ? 2 : 1), *equals = strchr(name, '=');
        size_t length = equals ? (size_t)(equals - name) : strlen(name);
        const option *row = find(options, name, length);
        if (!row) {
            *status = unknown(self, options, name, length);
            return false;
        }
        if (row->kind == OPTION_FLAG && !equals) {
            *(bool *)row->target = true;
            continue;
        }
        if (!equals && i + 1 == count) {
            *status = command_misuse("--%s needs a value: %s", row->name, row->argument);
            return false;
        }
        if (!take_value(row, equals ? equals + 1 : arguments[++i], status)) return false;
    }
    return true;
}
