/* Files: mapped into memory, read whole, and written atomically. */
#include "base/base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* From errno: "cannot open "x": No such file or directory". */
static kn_status fail_system(kn_error *error, const char *what, const char *path) {
    int number = errno;
    char reason[128];
    if (strerror_r(number, reason, sizeof reason) != 0)
        snprintf(reason, sizeof reason, "system error %d", number);
    return kn_fail(error, KN_ERROR_FILE, "cannot %s \"%s\": %s", what, path, reason);
}

/* ---- reading --------------------------------------------------------------- */

static int open_retrying(const char *path, int flags) {
    int file;
    do
        file = open(path, flags | O_CLOEXEC);
    while (file < 0 && errno == EINTR);
    return file;
}

/* Gets the size of a newly opened file; closes it if it is not a regular file. */
static kn_status check_regular(const char *path, int file, uint64_t *size, kn_error *error) {
    if (file < 0) return fail_system(error, "open", path);
    struct stat about;
    kn_status status = KN_OK;
    if (fstat(file, &about) != 0)
        status = fail_system(error, "examine", path);
    else if (S_ISDIR(about.st_mode))
        status = kn_fail(error, KN_ERROR_FILE, "cannot read \"%s\": it is a folder; expected a file", path);
    else if (!S_ISREG(about.st_mode))
        status = kn_fail(error, KN_ERROR_FILE,
                         "cannot read \"%s\": it is a pipe or a device; expected a regular file", path);
    if (status != KN_OK) {
        close(file);
        return status;
    }
    *size = about.st_size > 0 ? (uint64_t)about.st_size : 0;
    return KN_OK;
}

/* Opens a regular file and gets its size. */
static kn_status open_regular(const char *path, int *file, uint64_t *size, kn_error *error) {
    /* Non-blocking, because opening a pipe without a writer would block forever. */
    *file = open_retrying(path, O_RDONLY | O_NONBLOCK);
    return check_regular(path, *file, size, error);
}

static kn_status fail_limit(kn_error *error, const char *path, uint64_t limit) {
    return kn_fail(error, KN_ERROR_FILE, "cannot read \"%s\": it is larger than the maximum of %llu bytes",
                   path, (unsigned long long)limit);
}

/* Reads to the end, because some file systems report wrong sizes. */
static kn_status read_all(const kn_host *host, int file, const char *path, uint64_t size, uint64_t limit,
                          uint8_t **bytes, uint64_t *count, kn_error *error) {
    const uint64_t most = (uint64_t)PTRDIFF_MAX - 2;
    if (limit > most) limit = most;
    if (size > limit) return fail_limit(error, path, limit);
    size_t capacity = (size_t)size + 2; /* one byte that only a longer file fills, and the terminator */
    void *data = kn_allocate(host, capacity, 1);
    if (!data) return kn_fail_memory(error, capacity);
    size_t used = 0;
    kn_status status = KN_OK;
    for (;;) {
        if (used + 1 >= capacity) {
            size_t needed = used + 4096;
            if (!kn_reserve(host, &data, &capacity, needed, 1)) {
                status = kn_fail_memory(error, needed);
                break;
            }
        }
        ssize_t got = read(file, (uint8_t *)data + used, capacity - 1 - used);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            status = fail_system(error, "read", path);
            break;
        }
        if (got == 0) break;
        used += (size_t)got;
        if (used > limit) {
            status = fail_limit(error, path, limit);
            break;
        }
    }
    if (status != KN_OK) {
        kn_release(host, data);
        return status;
    }
    ((uint8_t *)data)[used] = 0;
    *bytes = data;
    *count = used;
    return KN_OK;
}

kn_status kn_file_read(const kn_host *host, const char *path, uint64_t limit, uint8_t **bytes,
                       uint64_t *count, kn_error *error) {
    *bytes = NULL;
    *count = 0;
    int file;
    uint64_t size;
    kn_status status = open_regular(path, &file, &size, error);
    if (status != KN_OK) return status;
    status = read_all(host, file, path, size, limit, bytes, count, error);
    close(file);
    return status;
}

/* Creates the view of an open file and closes the file. */
static kn_status view_open(const kn_host *host, int file, uint64_t size, const char *path, kn_file_view *view,
                           kn_error *error) {
    kn_status status = KN_OK;
    void *mapping = MAP_FAILED;
    if (size > 0 && size <= (uint64_t)PTRDIFF_MAX)
        mapping = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, file, 0);
    if (mapping != MAP_FAILED) {
        *view = (kn_file_view){.bytes = mapping, .count = size, .mapping = mapping};
    } else {
        /* Empty, or on a file system without mapping: read it instead. */
        uint8_t *bytes = NULL;
        status = read_all(host, file, path, size, UINT64_MAX, &bytes, &view->count, error);
        view->bytes = bytes;
    }
    close(file);
    return status;
}

kn_status kn_file_open_view(const kn_host *host, const char *path, kn_file_view *view, kn_error *error) {
    *view = (kn_file_view){.bytes = NULL};
    int file;
    uint64_t size;
    kn_status status = open_regular(path, &file, &size, error);
    return status == KN_OK ? view_open(host, file, size, path, view, error) : status;
}

/* Opens the file at path `name` below `folder`; closes `folder` and modifies `name`. -1 with errno set on
 * failure, such as a symbolic link. */
static int open_below(int folder, char *name) {
    while (folder >= 0) {
        char *slash = strchr(name, '/');
        if (slash) *slash = '\0';
        int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | (slash ? O_DIRECTORY : O_NONBLOCK), next;
        do
            next = openat(folder, name, flags);
        while (next < 0 && errno == EINTR);
        int number = errno;
        close(folder);
        errno = number;
        if (!slash) return next;
        folder = next;
        name = slash + 1;
    }
    return -1;
}

/* Whether no part of a path is empty, "." or "..". */
static bool stays_below(const char *name) {
    for (;;) {
        size_t length = strcspn(name, "/");
        if (length == 0 || (length <= 2 && strncmp(name, "..", length) == 0)) return false;
        if (name[length] == '\0') return true;
        name += length + 1;
    }
}

kn_status kn_file_open_view_below(const kn_host *host, const char *folder, const char *name,
                                  kn_file_view *view, kn_error *error) {
    *view = (kn_file_view){.bytes = NULL};
    if (!stays_below(name))
        return kn_fail(error, KN_ERROR_FILE, "cannot read \"%s\": expected the path of a file within \"%s\"",
                       name, folder);
    char *parts = kn_copy_text(host, name);
    if (!parts) return kn_fail_memory(error, strlen(name) + 1);
    int file = open_below(open_retrying(folder, O_RDONLY | O_DIRECTORY), parts);
    int number = errno;
    kn_release(host, parts);
    errno = number;
    if (file < 0 && number == ELOOP)
        return kn_fail(error, KN_ERROR_FILE,
                       "cannot read \"%s\" in \"%s\": it is a symbolic link; expected a file", name, folder);
    uint64_t size;
    kn_status status = check_regular(name, file, &size, error);
    if (status == KN_OK) status = view_open(host, file, size, name, view, error);
    if (status != KN_OK) kn_fail_in(error, "in \"%s\"", folder);
    return status;
}

void kn_file_close_view(const kn_host *host, kn_file_view *view) {
    if (!view) return;
    if (view->mapping)
        munmap(view->mapping, (size_t)view->count);
    else
        kn_release(host, (void *)view->bytes);
    *view = (kn_file_view){.bytes = NULL};
}

/* ---- writing ---------------------------------------------------------------- */

#define TEMPORARY_BEGIN ".koine-"
#define TEMPORARY_END ".tmp"
enum { BUFFER_BYTES = 1 << 16, TEMPORARY_NAME = 48 };

struct kn_file_writer {
    const kn_host *host;
    char *path;                     /* as given by the caller, for messages */
    const char *name;               /* the last component of path */
    char temporary[TEMPORARY_NAME]; /* a name in the same folder; empty if there is no file to remove */
    int folder, file;
    bool failed;
    size_t used;
    uint8_t buffer[BUFFER_BYTES];
};

/* Closes and frees everything and removes the temporary file if it exists. */
static void destroy(kn_file_writer *writer) {
    if (writer->file >= 0) close(writer->file);
    if (writer->temporary[0] != '\0') unlinkat(writer->folder, writer->temporary, 0);
    if (writer->folder >= 0) close(writer->folder);
    const kn_host *host = writer->host;
    kn_release(host, writer->path);
    kn_release(host, writer);
}

/* Opens the folder of the file, so that changing the working directory is harmless. */
static kn_status open_folder(kn_file_writer *writer, kn_error *error) {
    char *slash = strrchr(writer->path, '/');
    writer->name = slash ? slash + 1 : writer->path;
    if (writer->name[0] == '\0')
        return kn_fail(error, KN_ERROR_FILE, "cannot write \"%s\": expected the name of a file",
                       writer->path);
    const char *folder = ".";
    if (slash == writer->path) {
        folder = "/";
    } else if (slash) {
        *slash = '\0';
        folder = writer->path;
    }
    writer->folder = open_retrying(folder, O_RDONLY | O_DIRECTORY);
    kn_status status = writer->folder < 0 ? fail_system(error, "open the folder", folder) : KN_OK;
    if (slash) *slash = '/';
    if (status != KN_OK) kn_fail_in(error, "cannot write \"%s\"", writer->path);
    return status;
}

/* Checks what is at the path now: nothing, or a file that can be replaced. */
static kn_status check_target(kn_file_writer *writer, bool *exists, mode_t *mode, kn_error *error) {
    struct stat about;
    *exists = fstatat(writer->folder, writer->name, &about, 0) == 0;
    if (!*exists && errno != ENOENT) return fail_system(error, "write", writer->path);
    if (!*exists) return KN_OK;
    if (S_ISDIR(about.st_mode))
        return kn_fail(error, KN_ERROR_FILE, "cannot write \"%s\": it is a folder; expected a file",
                       writer->path);
    if (!S_ISREG(about.st_mode))
        return kn_fail(error, KN_ERROR_FILE,
                       "cannot write \"%s\": it is a pipe or a device, which cannot be replaced atomically",
                       writer->path);
    *mode = about.st_mode & 0777;
    return KN_OK;
}

static kn_status create_temporary(kn_file_writer *writer, kn_error *error) {
    /* O_EXCL decides; the number only makes collisions unlikely. */
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t parts[4] = {(uint64_t)getpid(), (uint64_t)(uintptr_t)writer, (uint64_t)now.tv_sec,
                         (uint64_t)now.tv_nsec};
    for (int attempt = 0; attempt < 100; attempt++) {
        parts[0] += (uint64_t)attempt << 32;
        uint64_t number = kn_hash_bytes(KN_HASH_START, parts, sizeof parts);
        char name[TEMPORARY_NAME];
        snprintf(name, sizeof name, TEMPORARY_BEGIN "%016llx" TEMPORARY_END, (unsigned long long)number);
        do
            writer->file = openat(writer->folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        while (writer->file < 0 && errno == EINTR);
        if (writer->file >= 0) {
            memcpy(writer->temporary, name, sizeof name);
            return KN_OK;
        }
        if (errno != EEXIST) break;
    }
    return fail_system(error, "create a temporary file next to", writer->path);
}

kn_status kn_file_writer_open(const kn_host *host, const char *path, kn_file_writer **writer,
                              kn_error *error) {
    *writer = NULL;
    kn_file_writer *made = kn_allocate(host, 1, sizeof *made);
    if (!made) return kn_fail_memory(error, sizeof *made);
    made->host = host;
    made->folder = made->file = -1;
    made->path = kn_copy_text(host, path);
    kn_status status = made->path ? KN_OK : kn_fail_memory(error, strlen(path) + 1);
    bool exists = false;
    mode_t mode = 0;
    if (status == KN_OK) status = open_folder(made, error);
    if (status == KN_OK) status = check_target(made, &exists, &mode, error);
    if (status == KN_OK) status = create_temporary(made, error);
    /* Keep the permissions of the file being replaced. */
    if (status == KN_OK && exists && fchmod(made->file, mode) != 0)
        status = fail_system(error, "keep the permissions of", path);
    if (status != KN_OK) {
        destroy(made);
        return status;
    }
    *writer = made;
    return KN_OK;
}

static kn_status write_out(kn_file_writer *writer, const uint8_t *bytes, size_t count, kn_error *error) {
    while (count > 0) {
        size_t piece = count < ((size_t)1 << 30) ? count : (size_t)1 << 30;
        ssize_t wrote = write(writer->file, bytes, piece);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) {
            if (wrote == 0) errno = ENOSPC;
            writer->failed = true;
            return fail_system(error, "write", writer->path);
        }
        bytes += wrote;
        count -= (size_t)wrote;
    }
    return KN_OK;
}

static kn_status flush(kn_file_writer *writer, kn_error *error) {
    kn_status status = write_out(writer, writer->buffer, writer->used, error);
    writer->used = 0;
    return status;
}

kn_status kn_file_writer_add(kn_file_writer *writer, const void *bytes, size_t count, kn_error *error) {
    if (writer->failed)
        return kn_fail(error, KN_ERROR_FILE, "cannot write \"%s\": an earlier write failed", writer->path);
    if (count > BUFFER_BYTES - writer->used) {
        kn_status status = flush(writer, error);
        if (status != KN_OK) return status;
        if (count >= BUFFER_BYTES) return write_out(writer, bytes, count, error);
    }
    if (count > 0) memcpy(writer->buffer + writer->used, bytes, count);
    writer->used += count;
    return KN_OK;
}

kn_status kn_file_writer_change(kn_file_writer *writer, uint64_t offset, const void *bytes, size_t count,
                                kn_error *error) {
    kn_status status = flush(writer, error);
    const uint8_t *next = bytes;
    while (status == KN_OK && count > 0) {
        ssize_t wrote = pwrite(writer->file, next, count, (off_t)offset);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) {
            if (wrote == 0) errno = ENOSPC;
            writer->failed = true;
            return fail_system(error, "write", writer->path);
        }
        next += wrote;
        offset += (uint64_t)wrote;
        count -= (size_t)wrote;
    }
    return status;
}

/* Syncs the bytes to disk and closes the file. */
static kn_status finish_file(kn_file_writer *writer, kn_error *error) {
    if (writer->failed)
        return kn_fail(error, KN_ERROR_FILE, "cannot write \"%s\": an earlier write failed", writer->path);
    kn_status status = flush(writer, error);
    if (status != KN_OK) return status;
    int result;
    do
        result = fsync(writer->file);
    while (result != 0 && errno == EINTR);
    if (result != 0) return fail_system(error, "write", writer->path);
    result = close(writer->file);
    writer->file = -1; /* closed even if close fails */
    if (result != 0 && errno != EINTR) return fail_system(error, "write", writer->path);
    return KN_OK;
}

kn_status kn_file_writer_commit(kn_file_writer **writer, kn_error *error) {
    kn_file_writer *made = *writer;
    *writer = NULL;
    kn_status status = finish_file(made, error);
    if (status == KN_OK && renameat(made->folder, made->temporary, made->folder, made->name) != 0)
        status = fail_system(error, "replace", made->path);
    if (status == KN_OK) {
        made->temporary[0] = '\0';
        int result;
        do
            result = fsync(made->folder);
        while (result != 0 && errno == EINTR);
        /* Some file systems cannot sync a folder; that is not a failure. */
        if (result != 0 && errno != EINVAL && errno != ENOTSUP && errno != EROFS)
            status = fail_system(error, "sync the folder of", made->path);
    }
    destroy(made);
    return status;
}

void kn_file_writer_abandon(kn_file_writer **writer) {
    if (!writer || !*writer) return;
    destroy(*writer);
    *writer = NULL;
}

kn_status kn_file_write(const kn_host *host, const char *path, const void *bytes, size_t count,
                        kn_error *error) {
    kn_file_writer *writer;
    kn_status status = kn_file_writer_open(host, path, &writer, error);
    if (status != KN_OK) return status;
    status = kn_file_writer_add(writer, bytes, count, error);
    if (status != KN_OK) {
        kn_file_writer_abandon(&writer);
        return status;
    }
    return kn_file_writer_commit(&writer, error);
}

/* ---- paths --------------------------------------------------------------------- */

bool kn_path_exists(const char *path) {
    struct stat about;
    return stat(path, &about) == 0;
}

bool kn_path_is_folder(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

kn_status kn_file_remove(const char *path, kn_error *error) {
    return unlink(path) == 0 ? KN_OK : fail_system(error, "remove", path);
}

kn_status kn_file_rename(const char *path, const char *to, kn_error *error) {
    return rename(path, to) == 0 ? KN_OK : fail_system(error, "rename", path);
}

void kn_folder_sweep(const char *path, uint64_t seconds) {
    DIR *folder = opendir(path);
    const struct dirent *entry;
    const int64_t last = (int64_t)time(NULL) - (int64_t)seconds;
    while (folder && (entry = readdir(folder))) {
        const size_t length = strlen(entry->d_name);
        struct stat about;
        if (!strncmp(entry->d_name, TEMPORARY_BEGIN, strlen(TEMPORARY_BEGIN)) && length > 4 &&
            !strcmp(entry->d_name + length - 4, TEMPORARY_END) &&
            (!seconds || (fstatat(dirfd(folder), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) == 0 &&
                          (int64_t)about.st_mtime <= last)))
            unlinkat(dirfd(folder), entry->d_name, 0);
    }
    if (folder) closedir(folder);
}

kn_status kn_folder_make(const kn_host *host, const char *path, kn_error *error) {
    if (path[0] == '\0') return kn_fail(error, KN_ERROR_FILE, "cannot create a folder without a name");
    char *part = kn_copy_text(host, path);
    if (!part) return kn_fail_memory(error, strlen(path) + 1);
    kn_status status = KN_OK;
    size_t length = strlen(part);
    for (size_t i = 1; i <= length && status == KN_OK; i++) {
        if (part[i] != '/' && part[i] != '\0') continue;
        char ending = part[i];
        part[i] = '\0';
        /* Check first: an existing parent may be in a folder where none can be created. */
        if (!kn_path_is_folder(part) && mkdir(part, 0700) != 0) {
            int number = errno;
            /* Another process may have created it in the meantime. */
            if (number == EEXIST && !kn_path_is_folder(part)) {
                status = kn_fail(error, KN_ERROR_FILE,
                                 "cannot create the folder \"%s\": \"%s\" is not a folder", path, part);
            } else if (number != EEXIST) {
                errno = number;
                status = fail_system(error, "create the folder", part);
            }
        }
        part[i] = ending;
    }
    kn_release(host, part);
    return status;
}

kn_status kn_folder_make_for(const kn_host *host, const char *file, kn_error *error) {
    if (!strchr(file, '/')) return KN_OK;
    char *folder = kn_copy_text(host, file);
    if (!folder) return kn_fail_memory(error, strlen(file) + 1);
    *strrchr(folder, '/') = '\0';
    kn_status status = folder[0] ? kn_folder_make(host, folder, error) : KN_OK;
    kn_release(host, folder);
    return status;
}

bool kn_folder_takes_files(const char *path) {
    return access(path, W_OK | X_OK) == 0;
}

char *kn_path_join(kn_arena *arena, const char *folder, const char *name) {
    size_t length = strlen(folder);
    bool joined = length == 0 || folder[length - 1] == '/';
    return kn_arena_format(arena, "%s%s%s", folder, joined ? "" : "/", name);
}
