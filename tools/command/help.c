/* Prints --help: text wrapped at the width of the terminal, options in groups. */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "command.h"

enum { LEAST = 30, USUAL = 80, MOST = 100, LEFT = 27 };

static int width_of(FILE *stream) {
    const char *columns = getenv("COLUMNS");
    struct winsize size;
    long width = columns ? strtol(columns, NULL, 10) : 0;
    if (width <= 0 && ioctl(fileno(stream), TIOCGWINSZ, &size) == 0) width = size.ws_col;
    if (width <= 0) width = USUAL;
    return width < LEAST ? LEAST : width > MOST ? MOST : (int)width;
}

/* Prints the words of `text`, starting at column `at`, in lines indented by `indent`. Returns the final
 * column. */
static int print_words(FILE *stream, const char *text, size_t bytes, int at, int indent, int width) {
    const char *end = text + bytes;
    bool first = true;
    while ((text += strspn(text, " \n")) < end) {
        size_t length = strcspn(text, " \n");
        if (length > (size_t)(end - text)) length = (size_t)(end - text);
        int columns = (int)text_columns(text, length);
        if (at > indent && at + !first + columns > width) {
            fprintf(stream, "\n%*s", indent, "");
            at = indent;
            first = true;
        }
        fprintf(stream, "%s%.*s", first ? "" : " ", (int)length, text);
        at += !first + columns;
        first = false;
        text += length;
    }
    return at;
}

static size_t line_bytes(const char *text) {
    return strcspn(text, "\n") + (strchr(text, '\n') != NULL);
}

/* Prints a line unchanged, except that a long command line is broken before an option, with a shell's
 * continuation. */
static void print_line(FILE *stream, const char *text, size_t bytes, int width) {
    int at = 0;
    for (const char *end = text + bytes, *next; text < end; text = next) {
        next = strstr(text + 1, " --");
        if (!next || next > end) next = end;
        int columns = (int)text_columns(text, (size_t)(next - text));
        if (at && at + columns + (next < end ? 2 : 0) > width) at = fprintf(stream, " \\\n     ") - 3;
        fwrite(text, 1, (size_t)(next - text), stream);
        at += columns;
    }
    fputc('\n', stream);
}

bool help_row(const char *text, size_t *left, size_t *bytes) {
    const size_t indent = strspn(text, " "), line = line_bytes(text);
    const char *gap = strstr(text + indent, "  ");
    if (!indent || !gap || gap >= text + line) return false;
    *left = (size_t)(gap - text) + strspn(gap, " ");
    *bytes = line;
    while (strspn(text + *bytes, " ") > indent)
        *bytes += line_bytes(text + *bytes);
    return true;
}

/* Prints a row or a line. Returns its bytes. */
static size_t print_row(FILE *stream, const char *text, int width) {
    size_t indent = strspn(text, " "), bytes = line_bytes(text), left;
    if (!help_row(text, &left, &bytes)) {
        print_line(stream, text, strcspn(text, "\n"), width);
        return bytes;
    }
    int hang = (int)text_columns(text, left);
    fwrite(text, 1, left, stream);
    print_words(stream, text + left, bytes - left, hang, hang < width - LEAST / 2 ? hang : (int)indent,
                width);
    fputc('\n', stream);
    return bytes;
}

void help_text(FILE *stream, const char *text) {
    const int width = width_of(stream);
    while (*text) {
        size_t bytes = 0;
        if (*text == ' ') {
            text += print_row(stream, text, width);
            continue;
        }
        while (text[bytes] && text[bytes] != '\n' && text[bytes] != ' ')
            bytes += line_bytes(text + bytes);
        print_words(stream, text, bytes, 0, 0, width);
        fputc('\n', stream);
        text += bytes ? bytes : 1;
    }
}

/* "-b, --batch N", "--lr, --learning-rate RATE" */
static void option_text(const option *options, const option *row, char *text, size_t room) {
    const char letter = option_letter(options, row), *alias = option_alias(row);
    char before[8] = "";
    if (letter) snprintf(before, sizeof before, "-%c, ", letter);
    snprintf(text, room, "%s--%s%s%s%s%s", before, row->name, alias ? ", --" : "", alias ? alias : "",
             row->argument ? " " : "", row->argument ? row->argument : "");
}

static void print_option(const char *name, const char *help, size_t bytes, int width) {
    const int indent = width < 2 * LEFT + LEFT / 2 ? LEFT / 4 : LEFT;
    const int at = 2 + (int)text_columns(name, strlen(name));
    printf("  %s", name);
    if (at >= indent)
        printf("\n%*s", indent, "");
    else
        printf("%*s", indent - at, "");
    print_words(stdout, help, bytes, indent, indent, width);
    putchar('\n');
}

static void print_usage(const command *self, int width) {
    int at = printf("usage: koine %s ", self->name);
    print_words(stdout, self->usage, strlen(self->usage), at, at, width);
    putchar('\n');
}

static void print_examples(const char *text, int most, int width) {
    for (int i = 0; *text && i < most; i++) {
        const size_t bytes = strcspn(text, "\n");
        fputs("  ", stdout);
        print_line(stdout, text, bytes, width - 2);
        text += bytes + (text[bytes] == '\n');
    }
}

void help_print(const command *self, const option *options) {
    const int width = width_of(stdout);
    static const char last[] = "a short help; this text";
    char name[100];
    print_usage(self, width);
    putchar('\n');
    help_text(stdout, self->text);
    fputs("\nexamples:\n", stdout);
    print_examples(self->examples, 1000, width);
    fputs(options->kind == OPTION_HEADING ? "" : "\noptions:\n", stdout);
    for (const option *row = options; row->name; row++) {
        if (row->kind == OPTION_HEADING) {
            printf("\n%s:\n", row->help);
            continue;
        }
        option_text(options, row, name, sizeof name);
        print_option(name, row->help, strlen(row->help), width);
    }
    print_option("-h, --help", last, strlen(last), width);
}

/* The first clause of a help text, without its default and details. */
static size_t brief_bytes(const char *help) {
    const char *end = help + strlen(help), *details = strstr(help, "; "), *usual = strstr(help, " (");
    if (details) end = details;
    return (size_t)((usual && usual < end ? usual : end) - help);
}

void help_brief(const command *self, const option *options) {
    const int width = width_of(stdout);
    char name[100];
    int count = 0;
    printf("koine %s: %s\n\n", self->name, self->summary);
    print_examples(self->examples, BRIEF_EXAMPLES, width);
    putchar('\n');
    print_usage(self, width);
    putchar('\n');
    for (const option *row = options; row->name; row++) {
        if (row->kind == OPTION_HEADING) continue;
        count++;
        if (!has_word(self->brief, row->name)) continue;
        option_text(options, row, name, sizeof name);
        print_option(name, row->help, brief_bytes(row->help), width);
    }
    printf("\nkoine %s --help explains all %d options\n", self->name, count);
}
