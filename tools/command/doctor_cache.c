/* koine doctor, cache folders: Koine's, with compiled kernels and device information, and PoCL's, without
 * which PoCL lists no device or cannot compile. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "doctor.h"

enum { PATH_ROOM = 4096 };

/* A line of a device's file, "refused/OPERATOR/KERNEL/NEXT/VERSION/… NUMBER". NUMBER is 0 if the kernel gave
 * a wrong result, 1 if it is correct, and larger if it did not build or run when it was last tried. Reports
 * each kernel once; `printed` lists the reported ones. */
static void print_refusal(doctor_visit *doctor, const char *device, const char *line, char *printed,
                          size_t room) {
    char row[64], kernel[64], next[64], version[32], name[200];
    const char *space = strrchr(line, ' ');
    double number = space ? strtod(space + 1, NULL) : 1;
    if (sscanf(line, "refused/%63[^/]/%63[^/]/%63[^/]/%31[^/]/", row, kernel, next, version) != 4) return;
    snprintf(name, sizeof name, "|%s/%s|", row, kernel);
    if (!(number == 0 || number > 1) || strcmp(version, kn_version_text()) != 0 || strstr(printed, name))
        return;
    snprintf(printed + strlen(printed), room - strlen(printed), "%s", name);
    finding_add(
        &doctor->found, FINDING_HINT, "kernel", "",
        "%s takes its kernel '%s' on %s%s: '%s' %s; koine verify --operators %s prints details", row, next,
        device, strcmp(next, "plain") != 0 ? "" : ", which is right but slow", kernel,
        number == 0 ? "gave a wrong result there" : "did not build or run there when it was last tried", row);
}

/* The device in a file's second line, "vendor | platform | device | driver". */
static char *device_of(char *identity) {
    char *from = strstr(identity, " | ");
    from = from ? strstr(from + 3, " | ") : NULL;
    from = from ? from + 3 : identity;
    char *end = strstr(from, " | ");
    from[end ? (size_t)(end - from) : strcspn(from, "\n")] = '\0';
    return from;
}

/* Reports refused kernels of the devices whose files are in the folder's `devices`. */
static void print_refusals(doctor_visit *doctor, const char *folder) {
    char path[PATH_ROOM + 300], identity[1100], line[600], printed[4096];
    snprintf(path, sizeof path, "%s/devices", folder);
    DIR *listing = opendir(path);
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        size_t length = strlen(entry->d_name);
        if (length < 4 || strcmp(entry->d_name + length - 4, ".txt") != 0) continue;
        snprintf(path, sizeof path, "%s/devices/%s", folder, entry->d_name);
        FILE *file = fopen(path, "r");
        printed[0] = '\0';
        if (file && fgets(line, sizeof line, file) && fgets(identity, sizeof identity, file))
            for (char *device = device_of(identity); fgets(line, sizeof line, file);)
                print_refusal(doctor, device, line, printed, sizeof printed);
        if (file) fclose(file);
    }
    if (listing) closedir(listing);
}

void doctor_cache(doctor_visit *doctor) {
    char folder[PATH_ROOM] = "", reason[PATH_ROOM + 100];
    static const char fix[] = "export XDG_CACHE_HOME=\"$(mktemp -d /var/tmp/cache-XXXXXX)\"";
    if (!kn_default_cache_folder(getenv("XDG_CACHE_HOME"), getenv("HOME"), folder, sizeof folder))
        finding_add(&doctor->found, FINDING_HINT, "cache", fix,
                    "neither XDG_CACHE_HOME nor HOME is set: kernels are compiled again in each run, unless "
                    "--kernel-cache "
                    "DIR names a folder for them");
    else if (!folder_makable(folder, reason, sizeof reason))
        finding_add(&doctor->found, FINDING_HINT, "cache", fix,
                    "%s cannot be written (%s): kernels are compiled again in each run, unless "
                    "--kernel-cache DIR names "
                    "another folder for them",
                    folder, reason);
    else
        finding_add(&doctor->found, FINDING_FINE, "cache", "", "compiled kernels are kept in %s", folder);
    if (folder[0]) print_refusals(doctor, folder);
}

/* PoCL's cache folder. */
static void pocl_folder(char *folder, size_t room) {
    const char *own = getenv("POCL_CACHE_DIR"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (own)
        snprintf(folder, room, "%s", own);
    else if (cache && cache[0])
        snprintf(folder, room, "%s/pocl/kcache", cache);
    else if (home)
        snprintf(folder, room, "%s/.cache/pocl/kcache", home);
    else
        snprintf(folder, room, "/tmp/pocl/kcache");
}

void doctor_cache_pocl(doctor_visit *doctor) {
    char folder[PATH_ROOM], reason[PATH_ROOM + 100];
    pocl_folder(folder, sizeof folder);
    if (folder_makable(folder, reason, sizeof reason)) return;
    finding_add(&doctor->found, FINDING_PROBLEM, "cache",
                "export POCL_CACHE_DIR=\"$(mktemp -d /var/tmp/pocl-XXXXXX)\"",
                "PoCL keeps what it compiles in %s, which cannot be written (%s): it shows no device, or "
                "compiles nothing. "
                "The environment variable POCL_CACHE_DIR names another folder",
                folder, reason);
}
