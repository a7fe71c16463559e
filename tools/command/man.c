/* Man pages, generated from the texts and tables of the help. */
#include <ctype.h>
#include <string.h>

#include "command.h"

enum { MAX_RELATED = 16 };

/* ---- roff ---------------------------------------------------------------------------------------- */

/* The code of a multi-byte UTF-8 character, and its length. */
static unsigned character_at(const char *text, size_t *bytes) {
    const unsigned char first = (unsigned char)*text;
    *bytes = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    unsigned number = first & (0x7fu >> *bytes);
    for (size_t i = 1; i < *bytes; i++)
        number = number << 6 | ((unsigned char)text[i] & 0x3f);
    return number;
}

/* Prints literal text in ASCII: no line begins with a dot, and characters that roff changes are escaped. */
static void print_roff(const char *text, size_t count) {
    static const char special[] = "-\\'`^~";
    static const char *const names[] = {"-", "(rs", "(aq", "(ga", "(ha", "(ti"};
    for (const char *at = text; at < text + count; at++) {
        const char *found = *at ? strchr(special, *at) : NULL;
        size_t bytes = 1;
        if (*at == '.' && (at == text || at[-1] == '\n')) fputs("\\&", stdout);
        if (found)
            printf("\\%s", names[found - special]);
        else if ((unsigned char)*at >= 0x80)
            printf("\\[u%04X]", character_at(at, &bytes));
        else
            putchar(*at);
        at += bytes - 1;
    }
}

static void print_text(const char *text) {
    print_roff(text, strlen(text));
}

static size_t line_bytes(const char *text) {
    return strcspn(text, "\n") + (strchr(text, '\n') != NULL);
}

/* Prints the right column of a row, which continues in indented lines. */
static void print_words(const char *text, const char *end) {
    for (bool first = true; (text += strspn(text, " \n")) < end; first = false) {
        if (!first) putchar(' ');
        print_roff(text, strcspn(text, " \n"));
        text += strcspn(text, " \n");
    }
}

/* Prints lines literally: examples. Returns their bytes. */
static size_t print_lines(const char *text) {
    size_t bytes = 0, left, row;
    fputs(".PP\n.RS 4\n.nf\n", stdout);
    while (text[bytes] == ' ' && !help_row(text + bytes, &left, &row)) {
        const char *line = text + bytes + strspn(text + bytes, " ");
        bytes += line_bytes(text + bytes);
        print_roff(line, strcspn(line, "\n"));
        putchar('\n');
    }
    fputs(".fi\n.RE\n", stdout);
    return bytes;
}

/* Prints paragraphs, which are filled; rows, with a hanging indent; and lines. */
static void print_description(const char *text) {
    while (*text) {
        size_t left, bytes = strspn(text, "\n");
        if (help_row(text, &left, &bytes)) {
            size_t name = left;
            while (name && text[name - 1] == ' ')
                name--;
            fputs(".TP 20\n.B ", stdout);
            print_roff(text + strspn(text, " "), name - strspn(text, " "));
            putchar('\n');
            print_words(text + left, text + bytes);
            putchar('\n');
        } else if (*text == ' ') {
            bytes = print_lines(text);
        } else if (!bytes) {
            while (text[bytes] && text[bytes] != '\n' && text[bytes] != ' ')
                bytes += line_bytes(text + bytes);
            fputs(".PP\n", stdout);
            print_roff(text, bytes);
            if (text[bytes - 1] != '\n') putchar('\n');
        }
        text += bytes;
    }
}

/* ---- parts of a page ------------------------------------------------------------------------------- */

/* Prints "koine", or "koine" and `part` with `joint` between them. */
static void print_name(const char *part, const char *joint) {
    fputs("koine", stdout);
    if (part) printf("%s%s", joint, part);
}

/* Prints the page up to the description. */
static void print_head(const char *part, const char *summary, const char *usage) {
    fputs(".TH KOINE", stdout);
    if (part) putchar('-');
    for (const char *at = part; at && *at; at++)
        putchar(toupper((unsigned char)*at));
    printf(" 1 \"\" \"koine %s\"\n.SH NAME\n", kn_version_text());
    print_name(part, "\\-");
    fputs(" \\- ", stdout);
    print_text(summary);
    fputs("\n.SH SYNOPSIS\n.B ", stdout);
    print_name(part, " ");
    putchar('\n');
    print_text(usage);
    fputs("\n.SH DESCRIPTION\n", stdout);
}

static void print_status(void) {
    fputs(".SH EXIT STATUS\n.TP 4\n.B 0\nsuccess\n.TP\n.B 1\na failure, or a problem was found\n.TP\n.B "
          "2\nthe command line is invalid\n",
          stdout);
}

/* The environment variables. `whose`: a command, or the option of the commands that read it; "": all
 * commands. */
static const struct {
    const char *name, *whose, *help;
} variables[] = {
    {"KOINE_DEVICE", "device", "the device, where --device is not given"},
    {"KOINE_KERNEL_DIR", "device", "a folder of kernels that replace the built-in ones"},
    {"XDG_CACHE_HOME", "kernel-cache",
     "compiled kernels are kept in its folder koine, else in .cache/koine below HOME"},
    {"POCL_CACHE_DIR", "kernel-cache",
     "where the OpenCL driver PoCL keeps what it compiles, instead of below XDG_CACHE_HOME or HOME; "
     "without a folder that can be written it has no device"},
    {"OCL_ICD_VENDORS", "device",
     "the folder of ICD files, which name drivers, that the OpenCL loader looks at"},
    {"XDG_CACHE_HOME", "doctor", "where compiled kernels are kept, which is looked at"},
    {"POCL_CACHE_DIR", "doctor", "where PoCL keeps what it compiles, which is looked at"},
    {"OCL_ICD_VENDORS", "doctor", "the folder of ICD files that is looked at"},
    {"RUSTICL_ENABLE", "doctor", "the drivers by which Mesa's rusticl shows devices"},
    {"TMPDIR", "infer", "where input from standard input is stored temporarily"},
    {"KOINE_API_KEY", "serve", "the API key, if --api-key is not given"},
    {"NO_COLOR", "train", "where it is set, curves on a terminal have no colour"},
    {"COLUMNS", "", "the width of the help"},
};

static bool concerns(const char *whose, const command *self, const option *options) {
    bool found = !whose[0] || !strcmp(whose, self->name);
    for (const option *row = options; row->name && !found; row++)
        found = row->kind != OPTION_HEADING && !strcmp(row->name, whose);
    return found;
}

/* If `self` is NULL, prints the variables that several commands read. */
static void print_environment(const command *self, const option *options) {
    fputs(".SH ENVIRONMENT\n", stdout);
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *whose = variables[i].whose;
        if (self ? !concerns(whose, self, options) : command_find(whose, strlen(whose)) != NULL) continue;
        printf(".TP\n.B %s\n", variables[i].name);
        print_text(variables[i].help);
        putchar('\n');
    }
}

static void add_related(const command **related, int *count, const command *self, const char *text) {
    while ((text = strstr(text, "koine ")) != NULL) {
        text += strlen("koine ");
        const command *found = command_find(text, strspn(text, "abcdefghijklmnopqrstuvwxyz-"));
        bool known = !found || found == self || *count == MAX_RELATED;
        for (int i = 0; i < *count; i++)
            known = known || related[i] == found;
        if (!known) related[(*count)++] = found;
    }
}

static void print_examples(const char *text) {
    fputs(".SH EXAMPLES\n.nf\n", stdout);
    print_text(text);
    fputs("\n.fi\n", stdout);
}

/* ---- pages ------------------------------------------------------------------------------------------ */

void man_command(const command *self, const option *options) {
    const command *related[MAX_RELATED];
    int count = 0;
    print_head(self->name, self->summary, self->usage);
    print_description(self->text);
    print_examples(self->examples);
    fputs(".SH OPTIONS\n", stdout);
    add_related(related, &count, self, self->text);
    for (const option *row = options; row->name; row++) {
        if (row->kind == OPTION_HEADING) {
            fputs(".SS ", stdout);
            print_text(row->help);
            putchar('\n');
            continue;
        }
        fputs(".TP\n.B ", stdout);
        const char letter = option_letter(options, row), *alias = option_alias(row);
        if (letter) printf("\\-%c, ", letter);
        print_text("--");
        print_text(row->name);
        if (alias) {
            print_text(", --");
            print_text(alias);
        }
        if (row->argument) {
            fputs(" \\fI", stdout);
            print_text(row->argument);
            fputs("\\fR", stdout);
        }
        putchar('\n');
        print_text(row->help);
        putchar('\n');
        add_related(related, &count, self, row->help);
    }
    print_status();
    print_environment(self, options);
    fputs(".SH SEE ALSO\n.BR koine (1)", stdout);
    for (int i = 0; i < count; i++)
        printf(",\n.BR koine\\-%s (1)", related[i]->name);
    putchar('\n');
}

void man_all(const char *summary, const char *text, const command *const *commands, int count) {
    print_head(NULL, summary, "COMMAND [ARGUMENT …] [--OPTION …]");
    print_description(text);
    fputs(".SH COMMANDS\n", stdout);
    for (int i = 0; i < count; i++) {
        printf(".TP\n.BR koine\\-%s (1)\n", commands[i]->name);
        print_text(commands[i]->summary);
        putchar('\n');
    }
    print_status();
    print_environment(NULL, NULL);
    fputs(".SH SEE ALSO\n", stdout);
    for (int i = 0; i < count; i++)
        printf(".BR \\%%koine\\-%s (1)%s\n", commands[i]->name, i + 1 < count ? "," : "");
}
