/* koine doctor, files: checks that there is a loader and that the ICD files list drivers that can be
 * loaded. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "doctor.h"

enum { MAX_FILES = 64, PATH_ROOM = 2048 };
#define VENDORS "/etc/OpenCL/vendors"

/* ---- the loader ------------------------------------------------------------------------------------ */

typedef struct loader_list {
    int count;
    char paths[600];
} loader_list;

static void add_loader(void *user, const char *path) {
    loader_list *list = user;
    size_t used = strlen(list->paths);
    snprintf(list->paths + used, sizeof list->paths - used, "%s%s", list->count++ ? " and " : "", path);
}

/* Whether this program was linked with a loader, as programs with a bundled loader are. */
static bool has_loader(void) {
    void *program = dlopen(NULL, RTLD_LAZY);
    const bool has = program && dlsym(program, "clGetPlatformIDs");
    if (program) dlclose(program);
    return has;
}

static void check_loader(doctor_visit *doctor) {
    loader_list list = {.count = 0};
    doctor_each_library(doctor, "libOpenCL.so.1", add_loader, &list);
    bool loads = list.count > 0;
    if (!doctor->root[0]) {
        void *loader = dlopen("libOpenCL.so.1", RTLD_LAZY | RTLD_LOCAL);
        loads = loader != NULL;
        if (loader) dlclose(loader);
    }
    if (!loads && list.count)
        finding_add(&doctor->found, FINDING_PROBLEM, "loader", "sudo ldconfig",
                    "%s exists, but programs do not find it", list.paths);
    else if (!loads && !doctor->root[0] && has_loader())
        finding_add(
            &doctor->found, FINDING_FINE, "loader", "",
            "Koine brings one; the system has none, through which other programs would find the drivers");
    else if (!loads)
        finding_add(&doctor->found, FINDING_PROBLEM, "loader", "sudo apt-get install ocl-icd-libopencl1",
                    "there is no libOpenCL.so.1, through which programs find the drivers");
    else if (list.count > 1)
        finding_add(&doctor->found, FINDING_HINT, "loader", "",
                    "there are %d OpenCL loaders, %s: which one a program takes depends on its search path, "
                    "and one of "
                    "them may look for drivers elsewhere",
                    list.count, list.paths);
    else
        finding_add(&doctor->found, FINDING_FINE, "loader", "", "%s",
                    list.count ? list.paths : "libOpenCL.so.1 is found");
}

/* ---- ICD files ------------------------------------------------------------------------------------- */

typedef struct icd_files {
    char *libraries[MAX_FILES], *paths[MAX_FILES];
    int count, seen;
} icd_files;

static char *copy_of(const char *text) {
    char *copy = malloc(strlen(text) + 1);
    return copy ? strcpy(copy, text) : NULL;
}

static bool file_there(const doctor_visit *doctor, const char *path) {
    char whole[PATH_ROOM];
    struct stat about;
    snprintf(whole, sizeof whole, "%s%s", doctor->root, path);
    return stat(whole, &about) == 0;
}

typedef struct first_path {
    char path[PATH_ROOM];
} first_path;

static void keep_first(void *user, const char *path) {
    first_path *first = user;
    if (!first->path[0]) snprintf(first->path, sizeof first->path, "%s", path);
}

/* Like doctor_library; below a different root only checks that the library exists. */
static bool try_library(doctor_visit *doctor, const char *library) {
    first_path found = {""};
    if (doctor->root[0]) {
        bool there = strchr(library, '/') ? file_there(doctor, library)
                                          : doctor_each_library(doctor, library, keep_first, &found) > 0;
        snprintf(doctor->reason, sizeof doctor->reason, "the file does not exist");
        doctor->loaded = there;
        return true;
    }
    return doctor_library(doctor, library);
}

static void check_library(doctor_visit *doctor, const char *path, const char *library) {
    char fix[PATH_ROOM];
    const char *package = doctor_package(library);
    if (strstr(library, "RusticlOpenCL")) doctor->rusticl = true;
    if (!try_library(doctor, library)) {
        doctor->deadly = true;
        snprintf(fix, sizeof fix, "sudo mv %.900s %.900s.off", path, path);
        finding_add(&doctor->found, FINDING_PROBLEM, "icd", fix,
                    "%s names %s, which fails when it is %s: %s. So does every program that asks for "
                    "OpenCL's devices, as long "
                    "as this file names it; a newer driver%s%s may help",
                    path, library, doctor->loaded ? "asked for its devices" : "loaded", doctor->end,
                    package[0] ? " from the package " : "", package);
        return;
    }
    if (doctor->loaded) {
        finding_add(&doctor->found, FINDING_FINE, "icd", "", "%s names %s", path, library);
        return;
    }
    bool there = strchr(library, '/') && file_there(doctor, library);
    if (package[0])
        snprintf(fix, sizeof fix, "sudo apt-get install --reinstall %s", package);
    else if (there)
        fix[0] = '\0';
    else
        snprintf(fix, sizeof fix, "sudo mv %s %s.off", path, path);
    if (there)
        finding_add(
            &doctor->found, FINDING_PROBLEM, "icd", fix,
            "%s names %s, which is there and cannot be loaded: %s. A library that it needs is missing, or it "
            "was made for another processor",
            path, library, doctor->reason);
    else
        finding_add(&doctor->found, FINDING_PROBLEM, "icd", fix, "%s names a library that is missing, %s: %s",
                    path, library, doctor->reason);
}

/* Reads the first line of a file; false if it cannot be opened. */
static bool read_line(const char *path, char *line, int room) {
    FILE *stream = fopen(path, "r");
    line[0] = '\0';
    if (!stream) return false;
    if (fgets(line, room, stream))
        line[strcspn(line, "\r\n")] = '\0';
    else
        line[0] = '\0';
    fclose(stream);
    return true;
}

/* Checks an ICD file, which contains the name of a library on one line. */
static void check_file(doctor_visit *doctor, icd_files *files, const char *path) {
    char line[PATH_ROOM], fix[PATH_ROOM];
    files->seen++;
    if (!read_line(path, line, sizeof line)) {
        snprintf(fix, sizeof fix, "sudo chmod a+r %.1900s", path);
        finding_add(&doctor->found, FINDING_PROBLEM, "icd", fix, "%s cannot be read: %s", path,
                    strerror(errno));
        return;
    }
    if (!line[0]) {
        snprintf(fix, sizeof fix, "sudo mv %.900s %.900s.off", path, path);
        finding_add(&doctor->found, FINDING_PROBLEM, "icd", fix,
                    "%s is empty: expected the name of a driver's library", path);
        return;
    }
    check_library(doctor, path, line);
    if (files->count == MAX_FILES) return;
    files->libraries[files->count] = copy_of(line);
    files->paths[files->count] = copy_of(path);
    if (files->libraries[files->count] && files->paths[files->count]) {
        files->count++;
        return;
    }
    free(files->libraries[files->count]);
    free(files->paths[files->count]);
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length > tail && !strcmp(text + length - tail, end);
}

/* Unlike alphasort, independent of the locale. */
static int by_name(const struct dirent **left, const struct dirent **right) {
    return strcmp((*left)->d_name, (*right)->d_name);
}

/* `from`: the variable that set the folder, or "". */
static void check_folder(doctor_visit *doctor, icd_files *files, const char *folder, const char *from) {
    char path[PATH_ROOM], fix[200];
    struct dirent **names = NULL;
    int count = scandir(folder, &names, NULL, by_name);
    if (from[0])
        snprintf(fix, sizeof fix, "unset %s", from);
    else
        snprintf(fix, sizeof fix, "sudo apt-get install pocl-opencl-icd");
    if (count < 0)
        finding_add(&doctor->found, FINDING_PROBLEM, "vendors", fix,
                    "%s%s%s, which should name the drivers, cannot be read: %s", from,
                    from[0] ? " is set, and " : "", folder, strerror(errno));
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        if (ends_with(names[i]->d_name, ".icd")) check_file(doctor, files, path);
        free(names[i]);
    }
    free(names);
    if (count >= 0 && !files->seen)
        finding_add(&doctor->found, FINDING_PROBLEM, "vendors", fix,
                    "%s%s%s holds no file *.icd, so no driver is known", from, from[0] ? " is set, and " : "",
                    folder);
}

/* Reports system drivers that a variable hides from programs. */
static void print_hidden(doctor_visit *doctor, const icd_files *files, const char *variable) {
    char hidden[600] = "", path[PATH_ROOM], line[PATH_ROOM], fix[200];
    struct dirent **names = NULL;
    int count = scandir(VENDORS, &names, NULL, by_name);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, VENDORS "/%s", names[i]->d_name);
        bool seen = !ends_with(names[i]->d_name, ".icd") || !read_line(path, line, sizeof line) || !line[0];
        for (int f = 0; f < files->count && !seen; f++)
            seen = doctor_same_driver(files->libraries[f], line);
        size_t used = strlen(hidden);
        if (!seen)
            snprintf(hidden + used, sizeof hidden - used, "%s%s (%s)", used ? ", " : "", line,
                     names[i]->d_name);
        free(names[i]);
    }
    free(names);
    if (!hidden[0]) return;
    snprintf(fix, sizeof fix, "unset %s", variable);
    finding_add(&doctor->found, FINDING_HINT, "vendors", fix,
                "%s hides drivers that " VENDORS " names, and their devices: %s", variable, hidden);
}

static void check_vendors(doctor_visit *doctor, icd_files *files) {
    static const char *const variables[] = {"OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH"};
    char folder[PATH_ROOM];
    struct stat about;
    for (int i = 0; i < 2 && !doctor->root[0]; i++) {
        const char *named = getenv(variables[i]);
        if (!named || !named[0]) continue;
        doctor->elsewhere = true;
        finding_add(&doctor->found, FINDING_FINE, "vendors", "",
                    "%s is %s: drivers that are named elsewhere are not seen", variables[i], named);
        if (stat(named, &about) == 0 && !S_ISDIR(about.st_mode) && ends_with(named, ".icd"))
            check_file(doctor, files, named);
        else
            check_folder(doctor, files, named, variables[i]);
        print_hidden(doctor, files, variables[i]);
        return;
    }
    snprintf(folder, sizeof folder, "%s" VENDORS, doctor->root);
    check_folder(doctor, files, folder, "");
}

void doctor_files(doctor_visit *doctor) {
    icd_files files = {.count = 0};
    check_loader(doctor);
    check_vendors(doctor, &files);
    doctor_drivers(doctor, files.libraries, files.paths, files.count);
    doctor_nodes(doctor);
    for (int i = 0; i < files.count; i++) {
        free(files.libraries[i]);
        free(files.paths[i]);
    }
}
