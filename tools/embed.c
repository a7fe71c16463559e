/* Turns files into one C file that holds their bytes:
 *
 *     embed [--table PREFIX] [--header HEADER] [--strip ENDING] OUTPUT.c FOLDER NAME...
 *
 * Each NAME is a path below FOLDER and becomes the entry's name, without ENDING if it ends so.
 * The table is PREFIX_files, its length PREFIX_file_count, its type PREFIX_file, declared in
 * HEADER: kn_embedded and src/device/embedded.h by default. It runs on the machine
 * that builds, so that cross builds work, and needs nothing but the C library. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    const char *name;
    unsigned long size;
    unsigned long long hash;
} entry;

typedef struct options {
    const char *table, *header, *strip;
} options;

static int fail(const char *what, const char *path) {
    fprintf(stderr, "embed: %s: %s\n", what, path);
    return 0;
}

/* Orders names by the part before the first dot, so that NAME is before NAME-MORE. */
static int compare_names(const void *left, const void *right) {
    const char *a = ((const entry *)left)->name, *b = ((const entry *)right)->name;
    size_t own = strcspn(a, "."), other = strcspn(b, ".");
    int order = memcmp(a, b, own < other ? own : other);
    if (order == 0 && own != other) order = own < other ? -1 : 1;
    return order ? order : strcmp(a, b);
}

/* Writes the array of the file `item->name` and fills in its size and hash. */
static int write_bytes(FILE *output, const char *folder, entry *item, size_t number) {
    size_t length = strlen(folder) + strlen(item->name) + 2;
    char *path = malloc(length);
    if (!path) return fail("out of memory", item->name);
    snprintf(path, length, "%s/%s", folder, item->name);
    FILE *input = fopen(path, "rb");
    if (!input) {
        fail("cannot read", path);
        free(path);
        return 0;
    }
    item->size = 0;
    item->hash = 0xcbf29ce484222325ull;
    fprintf(output, "\n/* %s */\nstatic const unsigned char file_%zu[] = {", item->name, number);
    for (int byte; (byte = fgetc(input)) != EOF; item->size++) {
        item->hash = (item->hash ^ (unsigned long long)byte) * 0x100000001b3ull;
        fprintf(output, item->size % 24 ? "%d," : "\n%d,", byte);
    }
    fputs("\n0};\n", output);
    int good = !ferror(input);
    if (!good) fail("cannot read", path);
    fclose(input);
    free(path);
    return good;
}

/* The length of a name without ENDING. */
static int shown_length(const char *name, const char *strip) {
    size_t length = strlen(name), ending = strlen(strip);
    return (int)(length > ending && !strcmp(name + length - ending, strip) ? length - ending : length);
}

static int write_table(FILE *output, const options *how, const char *folder, entry *items, size_t count) {
    fprintf(output, "/* Written by tools/embed.c; do not edit. */\n#include \"%s\"\n", how->header);
    for (size_t i = 0; i < count; i++) {
        if (i && !strcmp(items[i - 1].name, items[i].name)) return fail("listed twice", items[i].name);
        if (strpbrk(items[i].name, "\\\"\n*?"))
            return fail("a file name may not hold \\ \" * ?", items[i].name);
        if (!write_bytes(output, folder, &items[i], i)) return 0;
    }
    fprintf(output, "\nconst %s_file %s_files[] = {\n", how->table, how->table);
    for (size_t i = 0; i < count; i++)
        fprintf(output, "    {\"%.*s\", file_%zu, %lu, 0x%016llxull},\n",
                shown_length(items[i].name, how->strip), items[i].name, i, items[i].size, items[i].hash);
    fprintf(output, "    {0, 0, 0, 0},\n};\nconst unsigned long %s_file_count = %zu;\n", how->table, count);
    return 1;
}

int main(int argc, char **argv) {
    options how = {"kn_embedded", "device/embedded.h", ""};
    for (; argc > 2 && !strncmp(argv[1], "--", 2); argc -= 2, argv += 2) {
        const char **option = !strcmp(argv[1], "--table")    ? &how.table
                              : !strcmp(argv[1], "--header") ? &how.header
                              : !strcmp(argv[1], "--strip")  ? &how.strip
                                                             : NULL;
        if (!option) break;
        *option = argv[2];
    }
    if (argc < 3 || !strncmp(argv[1], "--", 2)) {
        fputs("usage: embed [--table PREFIX] [--header HEADER] [--strip ENDING] OUTPUT.c FOLDER NAME...\n",
              stderr);
        return 2;
    }
    size_t count = (size_t)argc - 3;
    entry *items = calloc(count + 1, sizeof *items);
    if (!items) return fail("out of memory", argv[1]), 1;
    for (size_t i = 0; i < count; i++)
        items[i].name = argv[i + 3];
    qsort(items, count, sizeof *items, compare_names);

    FILE *output = fopen(argv[1], "wb");
    if (!output) {
        free(items);
        return fail("cannot write", argv[1]), 1;
    }
    int good = write_table(output, &how, argv[2], items, count);
    free(items);
    int failed = ferror(output);
    failed |= fclose(output);
    if (good && failed) good = fail("cannot write", argv[1]);
    /* The next build would take an incomplete file for an up-to-date one. */
    if (!good) remove(argv[1]);
    return good ? 0 : 1;
}
