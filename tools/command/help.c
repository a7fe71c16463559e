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

/* Prints a line as it is, except that a long command line is broken before an option, with a shell's
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

static void print_option(const char *name, const char *argument, const char *help, int width) {
    const int indent = width < 2 * LEFT + LEFT / 2 ? LEFT / 4 : LEFT;
    int at = 4 + (int)text_columns(name, strlen(name));
    printf("  --%s", name);
    if (argument)
        at += printf(" %s", argument) - (int)strlen(argument) + (int)text_columns(argument, strlen(argument));
    if (at >= indent)
        printf("\n%*s", indent, "");
    else
        printf("%*s", indent - at, "");
    print_words(stdout, help, strlen(help), indent, indent, width);
    putchar('\n');
}

void help_print(const command *self, const option *options) {
    const int width = width_of(stdout);
    int at = printf("usage: koine %s ", self->name);
    print_words(stdout, self->usage, strlen(self->usage), at, at, width);
    fputs("\n\n", stdout);
    help_text(stdout, self->text);
    fputs(options->kind == OPTION_HEADING ? "" : "\noptions:\n", stdout);
    for (const option *row = options; row->name; row++)
        if (row->kind == OPTION_HEADING)
            printf("\n%s:\n", row->help);
        else
            print_option(row->name, row->argument, row->help, width);
    print_option("help", NULL, "this text", width);
}
