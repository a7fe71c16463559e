/* koine version: the build configuration, its commit, and the OpenCL loader. */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <string.h>

#include "build_commit.h"
#include "build_info.h"
#include "command.h"

/* The file of the OpenCL loader; "" if it cannot be determined. */
static const char *loader_path(void) {
#ifdef RTLD_DEFAULT
    static Dl_info info;
    void *function = dlsym(RTLD_DEFAULT, "clGetPlatformIDs");
    if (function && dladdr(function, &info) && info.dli_fname) return info.dli_fname;
#endif
    return "";
}

static int run(int count, char **arguments) {
    bool json = false, quiet = false;
    const option options[] = {JSON_OPTION(json), QUIET_OPTION(quiet), {.name = NULL}};
    const struct {
        const char *name, *text;
    } rows[] = {{"version", kn_version_text()},
                {"commit", BUILD_COMMIT},
                {"loader", loader_path()},
                {"compiler", BUILD_COMPILER},
                {"options", BUILD_OPTIONS}};
    const char *words[1];
    int word_count, status;
    if (!options_read(&command_version, options, count, arguments, words, &word_count, 0, &status))
        return status;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *text = rows[i].text[0] ? rows[i].text : "unknown";
        if (json) {
            printf("%s\"%s\": ", i ? ", " : "{", rows[i].name);
            json_text(stdout, text);
        } else {
            printf("%-9s %s\n", rows[i].name, text);
        }
    }
    if (json) puts("}");
    return EXIT_DONE;
}

const command command_version = {"version",
                                 "print version, commit, OpenCL loader and build options",
                                 "[--json]",
                                 "json quiet",
                                 "koine version\n"
                                 "koine version --json",
                                 "Prints the version, the commit of the source, the file of the OpenCL "
                                 "loader, the compiler, and the build\n"
                                 "options. koine --version prints only the version.",
                                 run};
