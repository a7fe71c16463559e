/* koine-onnx-test: runs ONNX's backend tests, which lie in folders, and says of each how it ended. */
#include <dirent.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "test.h"

static const char usage[] =
    "usage: koine-onnx-test [OPTION]… DIR…\n"
    "\n"
    "Runs cases of ONNX's backend tests: each DIR is a case (model.onnx and test_data_set_0 in it) or a tree "
    "of\n"
    "them. tools/onnx/generate.py makes those of the onnx package. Type and shape of each output must be "
    "the\n"
    "expected ones, numbers are within 1e-3 of them and 1e-7.\n"
    "\n"
    "  --filter REGEX   only cases in whose name the extended regular expression is found\n"
    "  --device DEVICE  as for the command koine (else KOINE_DEVICE, else the fastest)\n"
    "  --kernel-cache DIR  where compiled kernels are kept (else the user's cache folder)\n"
    "  --table FILE     also write the table there: name, tab, verdict, tab, reason\n"
    "  --outputs DIR    write what was computed: DIR/NAME/test_data_set_0/output_0.pb\n"
    "  --quiet          no line for each case\n"
    "\n"
    "Verdicts: PASS, FAIL (other numbers), ERROR, UNSUPPORTED (an operator, an opset or a type that Koine "
    "lacks),\n"
    "SKIP. The last line counts them. The exit status is 1 if there is a FAIL or an ERROR, or no case at "
    "all.\n";

static const char *const verdict_names[VERDICT_COUNT] = {"PASS", "FAIL", "ERROR", "UNSUPPORTED", "SKIP"};

typedef struct test_options {
    const char *filter, *device, *cache, *table, *outputs;
    bool quiet;
} test_options;

typedef struct testing {
    const test_options *options;
    regex_t filter;
    kn_context *context;
    FILE *table;
    char **seen; /* the names of all cases so far */
    size_t seen_count, seen_room;
    int counts[VERDICT_COUNT];
} testing;

/* ---- cases ---------------------------------------------------------------------------------- */

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool remember(testing *run, const char *name) {
    if (run->seen_count == run->seen_room) {
        size_t room = run->seen_room ? 2 * run->seen_room : 256;
        char **more = realloc(run->seen, room * sizeof *more);
        if (!more) return false;
        run->seen = more;
        run->seen_room = room;
    }
    size_t bytes = strlen(name) + 1;
    char *copy = malloc(bytes);
    if (!copy) return false;
    memcpy(copy, name, bytes);
    run->seen[run->seen_count++] = copy;
    return true;
}

static bool seen(const testing *run, const char *name) {
    for (size_t i = 0; i < run->seen_count; i++)
        if (strcmp(run->seen[i], name) == 0) return true;
    return false;
}

static void test_case(testing *run, const char *folder) {
    const char *name = last_part(folder);
    test_outcome outcome;
    if (run->options->filter && regexec(&run->filter, name, 0, NULL, 0) != 0) return;
    if (seen(run, name))
        conclude(&outcome, VERDICT_ERROR, "a second case of this name: %s", folder);
    else
        run_case(run->context, folder, name, run->options->outputs, &outcome);
    if (!remember(run, name)) conclude(&outcome, VERDICT_ERROR, "out of memory");
    run->counts[outcome.verdict]++;
    const char *word = verdict_names[outcome.verdict];
    if (run->table) fprintf(run->table, "%s\t%s\t%s\n", name, word, outcome.reason);
    if (!run->options->quiet) {
        printf("%s\t%s\t%s\n", name, word, outcome.reason);
        fflush(stdout);
    }
}

static int by_letters(const void *left, const void *right) {
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* The names in a folder without those that begin with a dot, in the order of their letters. */
static char **list(const char *folder, size_t *count) {
    DIR *open = opendir(folder);
    char **names = NULL;
    *count = 0;
    if (!open) return NULL;
    for (struct dirent *entry; (entry = readdir(open));) {
        size_t bytes = strlen(entry->d_name) + 1;
        char **more = entry->d_name[0] == '.' ? NULL : realloc(names, (*count + 1) * sizeof *names);
        if (!more) continue;
        names = more;
        names[*count] = malloc(bytes);
        if (names[*count]) memcpy(names[(*count)++], entry->d_name, bytes);
    }
    closedir(open);
    if (names) qsort(names, *count, sizeof *names, by_letters);
    return names;
}

static bool is_there(const char *path, bool folder) {
    struct stat about;
    return stat(path, &about) == 0 && (bool)S_ISDIR(about.st_mode) == folder;
}

/* A case, or all cases below. */
static void walk(testing *run, const char *folder, int depth) {
    char path[PATH_ROOM];
    test_outcome ignored;
    if (!join(&ignored, path, folder, "model.onnx") || depth > 8) return;
    if (is_there(path, false)) {
        test_case(run, folder);
        return;
    }
    size_t count;
    char **names = list(folder, &count);
    for (size_t i = 0; i < count; i++) {
        if (join(&ignored, path, folder, names[i]) && is_there(path, true)) walk(run, path, depth + 1);
        free(names[i]);
    }
    free(names);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int fail(const char *what, const char *why) {
    fprintf(stderr, "koine-onnx-test: %s: %s\n", what, why);
    return 2;
}

static kn_context *open_context(const test_options *options) {
    static char cache[PATH_ROOM];
    kn_context_params params;
    kn_context_params_init(&params);
    params.device = options->device ? options->device : getenv("KOINE_DEVICE");
    params.cache_folder = options->cache;
    if (!options->cache &&
        kn_default_cache_folder(getenv("XDG_CACHE_HOME"), getenv("HOME"), cache, sizeof cache))
        params.cache_folder = cache;
    return kn_context_create(&params);
}

/* Reads options and moves the folders before the other arguments. Returns their number, or -1. */
static int read_options(int count, char **arguments, test_options *options) {
    const struct {
        const char *name;
        const char **target;
    } known[] = {{"--filter", &options->filter},
                 {"--device", &options->device},
                 {"--kernel-cache", &options->cache},
                 {"--table", &options->table},
                 {"--outputs", &options->outputs}};
    int folders = 0;
    for (int i = 1; i < count; i++) {
        size_t at = 0;
        if (arguments[i][0] != '-') {
            arguments[folders++] = arguments[i];
            continue;
        }
        if (strcmp(arguments[i], "--quiet") == 0) {
            options->quiet = true;
            continue;
        }
        while (at < 5 && strcmp(arguments[i], known[at].name) != 0)
            at++;
        if (at == 5 || i + 1 == count) return -1;
        *known[at].target = arguments[++i];
    }
    return folders > 0 ? folders : -1;
}

static int test_all(testing *run, char **folders, int count) {
    for (int i = 0; i < count; i++) {
        size_t length = strlen(folders[i]);
        while (length > 1 && folders[i][length - 1] == '/')
            folders[i][--length] = '\0';
        if (!is_there(folders[i], true)) return fail(folders[i], "no such folder");
        walk(run, folders[i], 0);
    }
    printf("%zu tests: %d passed, %d failed, %d errors, %d unsupported, %d skipped\n", run->seen_count,
           run->counts[VERDICT_PASS], run->counts[VERDICT_FAIL], run->counts[VERDICT_ERROR],
           run->counts[VERDICT_UNSUPPORTED], run->counts[VERDICT_SKIP]);
    return run->counts[VERDICT_FAIL] || run->counts[VERDICT_ERROR] || run->seen_count == 0;
}

int main(int count, char **arguments) {
    test_options options = {.quiet = false};
    if (count == 2 && strcmp(arguments[1], "--help") == 0) {
        fputs(usage, stdout);
        return 0;
    }
    int folders = read_options(count, arguments, &options);
    if (folders < 0) {
        fputs(usage, stderr);
        return 2;
    }
    testing run = {.options = &options};
    if (options.filter && regcomp(&run.filter, options.filter, REG_EXTENDED | REG_NOSUB) != 0)
        return fail(options.filter, "no regular expression");
    if (options.outputs && !is_there(options.outputs, true) && mkdir(options.outputs, 0777) != 0)
        return fail(options.outputs, "the folder cannot be made");
    if (options.table && !(run.table = fopen(options.table, "w")))
        return fail(options.table, "cannot be written");
    run.context = open_context(&options);
    int status = kn_context_status(run.context) == KN_OK ? test_all(&run, arguments, folders)
                                                         : fail("the device", kn_context_error(run.context));
    kn_context_destroy(&run.context);
    if (run.table && (ferror(run.table) | fclose(run.table)) != 0)
        status = fail(options.table, "cannot be written");
    if (options.filter) regfree(&run.filter);
    for (size_t i = 0; i < run.seen_count; i++)
        free(run.seen[i]);
    free(run.seen);
    return status;
}
