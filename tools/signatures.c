/* Turns kernel files into one C file that holds the parameters of their kernels:
 *
 *     signatures OUTPUT.c FOLDER NAME...
 *
 * Each NAME is a path below FOLDER. The table is kn_signatures, declared in src/graph/signature.h, which
 * describes the rows. A macro among parameters is written with all its definitions, those of included
 * files too. It runs on the machine that builds and needs nothing but the C library. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILES = 256, MAX_MACROS = 4096, MAX_DEPTH = 8, MAX_TEXT = 1 << 16 };

typedef struct source {
    const char *name;
    char *text; /* without comments, each directive on one line */
    int includes[MAX_FILES], include_count;
    unsigned char seen[MAX_FILES]; /* by file: is this one, or is included by this one, directly or not */
} source;

typedef struct macro {
    int file;
    const char *name, *value; /* not terminated; the lengths follow */
    size_t name_length, value_length;
    int takes_number; /* NAME(i), whose value has ##i */
    int next;         /* the next macro in its bucket, or -1 */
} macro;

/* A chain of macros whose names have the same hash, in the order in which they were read. */
typedef struct bucket {
    int first, last; /* -1: none */
} bucket;

static source files[MAX_FILES];
static macro macros[MAX_MACROS];
static bucket buckets[MAX_MACROS];
static int file_count, macro_count;
static int kernel_macros[MAX_MACROS], kernel_macro_count; /* macros whose values end with "kernel void" */
static const char kernel_word[] = "kernel void";

static int fail(const char *what, const char *name) {
    fprintf(stderr, "signatures: %s: %s\n", what, name);
    return 0;
}

/* ---- reading ------------------------------------------------------------------------------------------ */

static char *read_text(const char *folder, const char *name) {
    size_t length = strlen(folder) + strlen(name) + 2, count = 0;
    char *path = malloc(length), *text = calloc(MAX_TEXT, 1);
    if (!path || !text) {
        free(path);
        free(text);
        return NULL;
    }
    snprintf(path, length, "%s/%s", folder, name);
    FILE *input = fopen(path, "rb");
    if (input) {
        count = fread(text, 1, MAX_TEXT - 1, input);
        fclose(input);
    }
    free(path);
    if (input && count < MAX_TEXT - 1) return text;
    free(text);
    return NULL;
}

/* Replaces comments and line continuations by blanks. */
static void simplify(char *text) {
    for (char *at = text; *at; at++) {
        if (at[0] == '\\' && at[1] == '\n') at[0] = at[1] = ' ';
        if (at[0] != '/' || (at[1] != '*' && at[1] != '/')) continue;
        char *end = at[1] == '*' ? strstr(at + 2, "*/") : strchr(at, '\n');
        end = !end ? at + strlen(at) : at[1] == '*' ? end + 2 : end;
        for (; at < end; at++)
            if (*at != '\n') *at = ' ';
        at--;
    }
}

static int is_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

static const char *skip_blanks(const char *at) {
    while (*at == ' ' || *at == '\t')
        at++;
    return at;
}

static int find_file(const char *name, size_t length) {
    for (int i = 0; i < file_count; i++)
        if (strlen(files[i].name) == length && !strncmp(files[i].name, name, length)) return i;
    return -1;
}

static bucket *find_bucket(const char *name, size_t length) {
    unsigned hash = 5381;
    for (size_t i = 0; i < length; i++)
        hash = hash * 33 + (unsigned char)name[i];
    return &buckets[hash % MAX_MACROS];
}

static int ends_with_kernel_word(const macro *m) {
    size_t length = m->value_length, wanted = sizeof kernel_word - 1;
    while (length && isspace((unsigned char)m->value[length - 1]))
        length--;
    return length >= wanted && !strncmp(m->value + length - wanted, kernel_word, wanted);
}

/* Records the macro whose definition follows "#define " at `at`. */
static int add_macro(int file, const char *at) {
    if (macro_count == MAX_MACROS) return fail("too many macros", files[file].name);
    macro *made = &macros[macro_count];
    *made = (macro){.file = file, .name = at, .next = -1};
    while (is_word(*at))
        at++;
    made->name_length = (size_t)(at - made->name);
    made->takes_number = *at == '(';
    if (*at == '(') at += strcspn(at, ")\n") + 1;
    made->value = skip_blanks(at);
    made->value_length = strcspn(made->value, "\n");
    if (ends_with_kernel_word(made)) kernel_macros[kernel_macro_count++] = macro_count;
    bucket *chain = find_bucket(made->name, made->name_length);
    if (chain->last >= 0)
        macros[chain->last].next = macro_count;
    else
        chain->first = macro_count;
    chain->last = macro_count++;
    return 1;
}

/* Records the includes and macros of a file. */
static int read_directives(int file) {
    for (const char *line = files[file].text; line;
         line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        const char *at = skip_blanks(line);
        if (*at != '#') continue;
        at = skip_blanks(at + 1);
        if (!strncmp(at, "include \"", 9)) {
            int other = find_file(at + 9, strcspn(at + 9, "\""));
            if (other < 0) return fail("a file is included that is not listed", files[file].name);
            files[file].includes[files[file].include_count++] = other;
        } else if (!strncmp(at, "define ", 7)) {
            if (!add_macro(file, skip_blanks(at + 7))) return 0;
        }
    }
    return 1;
}

/* ---- writing ------------------------------------------------------------------------------------------ */

/* Marks what `file` includes, directly or not, as seen by `by`. */
static void mark_seen(int by, int file) {
    if (files[by].seen[file]) return;
    files[by].seen[file] = 1;
    for (int i = 0; i < files[file].include_count; i++)
        mark_seen(by, files[file].includes[i]);
}

static int write_list(FILE *output, int file, const char *list, size_t length, int depth);

/* The first macro of that name that `file` sees, from number `from` on in its bucket; -1: none. */
static int find_macro_from(int file, int from, const char *name, size_t length) {
    for (; from >= 0; from = macros[from].next) {
        const macro *m = &macros[from];
        if (m->name_length == length && !strncmp(m->name, name, length) && files[file].seen[m->file])
            return from;
    }
    return -1;
}

static int find_macro(int file, const char *name, size_t length) {
    return length ? find_macro_from(file, find_bucket(name, length)->first, name, length) : -1;
}

/* $NAME{first definition|second definition}, or *NAME{definition} for one that takes a number. */
static int write_macro(FILE *output, int file, const char *name, size_t length, int depth) {
    const char *separator = NULL;
    for (int i = find_macro(file, name, length); i >= 0;
         i = find_macro_from(file, macros[i].next, name, length)) {
        const macro *m = &macros[i];
        if (separator)
            fputs(separator, output);
        else
            fprintf(output, "%c%.*s{", m->takes_number ? '*' : '$', (int)length, name);
        separator = "|";
        if (!write_list(output, file, m->value, m->value_length, depth + 1)) return 0;
    }
    fputs("} ", output);
    return 1;
}

/* One parameter, "const int rows": its kind, and its name, with # for the number that a macro takes. */
static void write_parameter(FILE *output, const char *text, size_t length) {
    const char *name = text + length, *number = NULL;
    while (name > text && (is_word(name[-1]) || name[-1] == '#'))
        if (*--name == '#') number = name;
    if (number) length = (size_t)(number - text) + 1;
    char word[64];
    size_t last = 0;
    int pointer = 0, local = 0, constant = 0;
    for (const char *at = text; at < name;) {
        size_t size = 0;
        while (at + size < name && is_word(at[size]))
            size++;
        if (!size) {
            pointer = pointer || *at == '*';
            at++;
            continue;
        }
        local = local || (size == 5 && !strncmp(at, "local", 5));
        constant = constant || (size == 5 && !strncmp(at, "const", 5));
        if (size < sizeof word) {
            memcpy(word, at, size);
            word[size] = '\0';
            last = size;
        }
        at += size;
    }
    static const struct {
        const char *type;
        char kind;
    } kinds[] = {{"int", 'i'}, {"KN_INDEX", 'x'}, {"float", 'f'}, {"uint", 'u'}};
    char kind = !pointer ? 'n' : local ? 'l' : constant ? 'c' : 'p';
    for (size_t i = 0; !pointer && last && i < sizeof kinds / sizeof kinds[0]; i++)
        if (!strcmp(word, kinds[i].type)) kind = kinds[i].kind;
    fprintf(output, "%c:%.*s ", kind, (int)(text + length - name), name);
}

/* Parameters between commas; a macro may follow one without a comma, and begins with one then. */
static int write_list(FILE *output, int file, const char *list, size_t length, int depth) {
    if (depth > MAX_DEPTH) return fail("a macro in the parameters expands to itself", files[file].name);
    for (size_t at = 0; at < length;) {
        size_t size = 0, end, last;
        while (at < length && (isspace((unsigned char)list[at]) || list[at] == ','))
            at++;
        while (at + size < length && list[at + size] != ',')
            size++;
        for (end = size; end && isspace((unsigned char)list[at + end - 1]);)
            end--;
        /* What stands at the end may be a macro: NAME, NAME(0), or NAME as what another one is called with.
         */
        last = end;
        if (last && list[at + last - 1] == ')') last--;
        while (last < end && last && !isalpha((unsigned char)list[at + last - 1]))
            last--;
        size_t first = last;
        while (first && is_word(list[at + first - 1]))
            first--;
        int called = find_macro(file, list + at + first, last - first) >= 0;
        size_t before = called ? first : end;
        while (called && before && !isspace((unsigned char)list[at + before - 1]))
            before--;
        while (before && isspace((unsigned char)list[at + before - 1]))
            before--;
        /* Before the macro stands a parameter, or another macro. */
        if (called && before && !write_list(output, file, list + at, before, depth + 1)) return 0;
        if (called && !write_macro(output, file, list + at + first, last - first, depth)) return 0;
        if (!called && before && !first)
            fprintf(output, "$%.*s{} ", (int)before,
                    list + at); /* without a type: a macro that only the host uses */
        else if (!called && before)
            write_parameter(output, list + at, before);
        at += size;
    }
    return 1;
}

/* The length of "kernel void" at `at`, or of a macro that ends with it; 0: neither. */
static size_t kernel_word_length(const char *at) {
    if (!strncmp(at, kernel_word, sizeof kernel_word - 1)) return sizeof kernel_word - 1;
    for (int i = 0; i < kernel_macro_count; i++) {
        const macro *m = &macros[kernel_macros[i]];
        if (!strncmp(at, m->name, m->name_length) && !is_word(at[m->name_length])) return m->name_length;
    }
    return 0;
}

/* The kernels in file `from`, which `file` includes. */
static int write_kernels(FILE *output, int file, int from) {
    const char *text = files[from].text;
    for (const char *at = text; *at; at++) {
        if (*at == '#' && (at == text || at[-1] == '\n')) at += strcspn(at, "\n");
        size_t word = at == text || !is_word(at[-1]) ? kernel_word_length(at) : 0;
        if (!word) continue;
        const char *name = at + word;
        while (isspace((unsigned char)*name))
            name++;
        const char *list = strchr(name, '('), *end = list;
        int depth = 0;
        for (; end && *end; end++)
            if ((depth += *end == '(' ? 1 : *end == ')' ? -1 : 0) == 0) break;
        if (!end || !*end) return fail("a kernel has no parameters", files[file].name);
        fprintf(output, "    {\"%s\", \"%.*s\", \"", files[file].name, (int)(list - name), name);
        if (!write_list(output, file, list + 1, (size_t)(end - list - 1), 0)) return 0;
        fputs("\"},\n", output);
        at = end;
    }
    return 1;
}

int main(int argc, char **argv) {
    if (argc < 3 || argc - 3 > MAX_FILES) {
        fputs("usage: signatures OUTPUT.c FOLDER NAME...\n", stderr);
        return 2;
    }
    int good = 1;
    for (file_count = 0; good && file_count < argc - 3; file_count++) {
        files[file_count].name = argv[file_count + 3];
        files[file_count].text = read_text(argv[2], files[file_count].name);
        if (!files[file_count].text) good = fail("cannot read", files[file_count].name);
        if (good) simplify(files[file_count].text);
    }
    for (int i = 0; i < MAX_MACROS; i++)
        buckets[i] = (bucket){-1, -1};
    for (int i = 0; good && i < file_count; i++)
        good = read_directives(i);
    for (int i = 0; good && i < file_count; i++)
        mark_seen(i, i);
    FILE *output = good ? fopen(argv[1], "wb") : NULL;
    if (good && !output) good = fail("cannot write", argv[1]);
    if (output) {
        fputs("/* Written by tools/signatures.c; do not edit. */\n#include \"graph/signature.h\"\n\n"
              "const kn_signature kn_signatures[] = {\n",
              output);
        for (int i = 0; good && i < file_count; i++)
            for (int from = 0; good && from < file_count; from++)
                if (files[i].seen[from]) good = write_kernels(output, i, from);
        fputs("    {0, 0, 0}};\n", output);
        int failed = ferror(output);
        failed |= fclose(output);
        if (good && failed) good = fail("cannot write", argv[1]);
        /* The next build would take an incomplete file for an up-to-date one. */
        if (!good) remove(argv[1]);
    }
    for (int i = 0; i < file_count; i++)
        free(files[i].text);
    return good ? 0 : 1;
}
