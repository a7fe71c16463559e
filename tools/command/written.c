/* Output files of commands: permission checks, numbered names, and atomic writing. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"

/* The folder of a path, "." if it has none. */
static void folder_of(const char *path, char *folder, size_t room) {
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    snprintf(folder, room, "%.*s", (int)length, path);
    if (!length) snprintf(folder, room, "%s", slash ? "/" : ".");
}

static bool folder_taken(const char *path, const char *folder) {
    struct stat about;
    if (stat(folder, &about) == 0 && S_ISDIR(about.st_mode) && access(folder, W_OK | X_OK) == 0) return true;
    return command_error("'%s' cannot be written: %s: %s", path, folder,
                         errno == ENOENT || errno == ENOTDIR ? "the folder does not exist" : strerror(errno));
}

bool path_there(const char *path) {
    struct stat about;
    return lstat(path, &about) == 0;
}

bool path_writable(const char *path, path_use use, bool replace) {
    char folder[4096];
    struct stat about;
    if (precompiling()) return true;
    if (!path[0] || strlen(path) >= sizeof folder)
        return command_error("'%.60s' is not a valid file name", path);
    const bool there = stat(path, &about) == 0, regular = there ? S_ISREG(about.st_mode) : path_there(path);
    if (there && S_ISDIR(about.st_mode))
        return command_error("'%s' is a folder; expected the name of a file to write", path);
    if (there && !regular && use == PATH_WHOLE)
        return command_error("'%s' is a pipe or a device, which cannot be written atomically; expected the "
                             "name of a file",
                             path);
    if (regular && !replace)
        return command_error("'%s' exists: replace it with --overwrite, or choose another name", path);
    if (there && use == PATH_STREAM)
        return access(path, W_OK) == 0 || command_error("'%s' cannot be written: %s", path, strerror(errno));
    folder_of(path, folder, sizeof folder);
    return folder_taken(path, folder);
}

/* Whether two names refer to the same file, which need not exist; pipes and devices may have several
 * writers. */
static bool same_file(const char *one, const char *other) {
    char folders[2][4096];
    struct stat a, b;
    const bool there = stat(one, &a) == 0;
    if (there != (stat(other, &b) == 0)) return false;
    if (there) return S_ISREG(a.st_mode) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
    if (strlen(one) >= sizeof *folders || strlen(other) >= sizeof *folders) return false;
    const char *slash = strrchr(one, '/'), *other_slash = strrchr(other, '/');
    if (strcmp(slash ? slash + 1 : one, other_slash ? other_slash + 1 : other)) return false;
    folder_of(one, folders[0], sizeof *folders);
    folder_of(other, folders[1], sizeof *folders);
    return !strcmp(folders[0], folders[1]) || (stat(folders[0], &a) == 0 && stat(folders[1], &b) == 0 &&
                                               a.st_dev == b.st_dev && a.st_ino == b.st_ino);
}

int outputs_apart(const output_file *outputs, int count) {
    for (int i = 1; i < count; i++)
        for (int j = 0; j < i; j++)
            if (outputs[i].path && outputs[j].path && same_file(outputs[i].path, outputs[j].path))
                return command_misuse("%s and %s would both write '%s': give each its own file",
                                      outputs[j].option, outputs[i].option, outputs[i].path);
    return EXIT_DONE;
}

bool file_has_mark(const char *path, const char *mark) {
    char text[4097];
    struct stat about;
    FILE *file = stat(path, &about) == 0 && S_ISREG(about.st_mode) ? fopen(path, "rb") : NULL;
    if (!file) return false; /* a pipe may have no reader */
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return strstr(text, mark) != NULL;
}

bool folder_makable(const char *path, char *reason, size_t room) {
    char there[4096];
    struct stat about;
    snprintf(reason, room, "that is not a valid folder name");
    if (!path[0] || strlen(path) >= sizeof there) return false;
    strcpy(there, path);
    /* Check up to an existing folder; missing folders will be created. */
    for (char *slash; stat(there, &about) != 0 && (errno == ENOENT || errno == ENOTDIR) &&
                      strcmp(there, "/") && strcmp(there, ".");) {
        slash = strrchr(there, '/');
        if (slash)
            slash[slash == there] = '\0';
        else
            strcpy(there, ".");
    }
    const bool known = stat(there, &about) == 0, folder = known && S_ISDIR(about.st_mode);
    if (folder && access(there, W_OK | X_OK) == 0) return true;
    if (known && !folder) errno = ENOTDIR;
    snprintf(reason, room, "%s: %s", there, strerror(errno));
    return false;
}

bool folder_writable(const char *path) {
    char reason[4300];
    return precompiling() || folder_makable(path, reason, sizeof reason) ||
           command_error("cannot write to the folder '%s': %s", path, reason);
}

bool path_numbered(const char *path, unsigned number, char *text, size_t room) {
    const char *name = strrchr(path, '/'), *ending = strrchr(name ? name : path, '.');
    const size_t length = strlen(path), before = ending && ending > path ? (size_t)(ending - path) : length;
    const int written = number == 1
                            ? snprintf(text, room, "%s", path)
                            : snprintf(text, room, "%.*s-%u%s", (int)before, path, number, path + before);
    return (written >= 0 && (size_t)written < room) ||
           command_error("'%.60s…' is too long a name for a file", path);
}

bool whole_open(whole_file *file, const char *path) {
    const char *slash = strrchr(path, '/');
    const int before = slash ? (int)(slash + 1 - path) : 0;
    const size_t room = (size_t)before + 40;
    struct stat about;
    int number = -1;
    *file = (whole_file){.path = path, .temporary = malloc(room)};
    if (!file->temporary) return command_error("out of memory");
    /* Named like the library's temporary files, which are cleaned up if one is left behind. */
    for (unsigned turn = 0; turn < 100 && number < 0; turn++) {
        snprintf(file->temporary, room, "%.*s.koine-%08x%08x.tmp", before, path, (unsigned)getpid(), turn);
        number = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (number < 0 && errno != EEXIST) break;
    }
    if (number >= 0 && stat(path, &about) == 0 && fchmod(number, about.st_mode & 0777) != 0) errno = 0;
    if (number >= 0) file->stream = fdopen(number, "w");
    if (file->stream) return true;
    command_fail("'%s' cannot be written: %s", path, strerror(errno));
    if (number >= 0) {
        close(number);
        unlink(file->temporary);
    }
    free(file->temporary);
    return false;
}

bool whole_close(whole_file *file, bool keep) {
    errno = 0;
    bool fine =
        !ferror(file->stream) && (!keep || (fflush(file->stream) == 0 && fsync(fileno(file->stream)) == 0));
    fine = fclose(file->stream) == 0 && fine;
    fine = fine && keep && rename(file->temporary, file->path) == 0;
    if (!fine) unlink(file->temporary);
    if (!fine && keep)
        command_fail("'%s' could not be written%s%s", file->path, errno ? ": " : "",
                     errno ? strerror(errno) : "");
    free(file->temporary);
    return fine;
}
