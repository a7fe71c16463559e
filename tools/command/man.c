/* Man pages, made from the texts and tables that are the help as well. */
#include <ctype.h>

#include "command.h"

/* No line begins with a dot, no backslash or dash means anything else. */
static void print_roff(const char *text) {
    for (const char *at = text; *at; at++) {
        if ((*at == '.' || *at == '\'') && (at == text || at[-1] == '\n')) fputs("\\&", stdout);
        if (*at == '-' || *at == '\\') putchar('\\');
        putchar(*at);
    }
}

/* "koine" or "koine" and `part`, joined by `joint`. */
static void print_name(const char *part, const char *joint) {
    fputs("koine", stdout);
    if (part) printf("%s%s", joint, part);
}

/* Up to the text of the description. */
static void print_head(const char *part, const char *summary, const char *usage) {
    fputs(".TH KOINE", stdout);
    if (part) putchar('-');
    for (const char *at = part; at && *at; at++)
        putchar(toupper((unsigned char)*at));
    printf(" 1 \"\" \"koine %s\"\n.SH NAME\n", kn_version_text());
    print_name(part, "\\-");
    fputs(" \\- ", stdout);
    print_roff(summary);
    fputs("\n.SH SYNOPSIS\n.B ", stdout);
    print_name(part, " ");
    putchar('\n');
    print_roff(usage);
    fputs("\n.SH DESCRIPTION\n.nf\n", stdout);
}

void man_command(const command *self, const option *options) {
    print_head(self->name, self->summary, self->usage);
    print_roff(self->text);
    fputs("\n.fi\n.SH OPTIONS\n", stdout);
    for (const option *row = options; row->name; row++) {
        if (row->kind == OPTION_HEADING) {
            fputs(".SS ", stdout);
            print_roff(row->help);
            putchar('\n');
            continue;
        }
        fputs(".TP\n.B ", stdout);
        print_roff("--");
        print_roff(row->name);
        if (row->argument) printf(" \\fI%s\\fR", row->argument);
        putchar('\n');
        print_roff(row->help);
        putchar('\n');
    }
    fputs(".SH SEE ALSO\n.BR koine (1)\n", stdout);
}

void man_all(const char *summary, const char *text, const command *const *commands, int count) {
    print_head(NULL, summary, "COMMAND [ARGUMENT …] [--OPTION …]");
    print_roff(text);
    fputs(".fi\n.SH COMMANDS\n", stdout);
    for (int i = 0; i < count; i++) {
        printf(".TP\n.BR koine\\-%s (1)\n", commands[i]->name);
        print_roff(commands[i]->summary);
        putchar('\n');
    }
}
