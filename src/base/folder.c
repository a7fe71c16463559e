/* Listing a folder. */
#include "base/base.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAMES = 1 << 26 };

static int by_bytes(const void *left, const void *right) {
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static kn_status read_names(kn_arena *arena, DIR *folder, const char *path, char ***names, size_t *count,
                            kn_error *error) {
    size_t capacity = 0;
    void *list = NULL;
    kn_status status = KN_OK;
    *count = 0;
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(folder);
        if (!entry) {
            if (errno != 0) status = kn_fail(error, KN_ERROR_FILE, "cannot read the folder \"%s\"", path);
            break;
        }
        if (entry->d_name[0] == '.') continue;
        char *name = kn_arena_text(arena, entry->d_name);
        if (!name || *count == MAX_NAMES ||
            !kn_reserve(arena->host, &list, &capacity, *count + 1, sizeof(char *))) {
            status = kn_fail_memory(error, (*count + 1) * sizeof(char *));
            break;
        }
        ((char **)list)[(*count)++] = name;
    }
    if (status == KN_OK && *count > 0) {
        qsort(list, *count, sizeof(char *), by_bytes);
        *names = kn_arena_copy(arena, list, *count, sizeof(char *));
        if (!*names) status = kn_fail_memory(error, *count * sizeof(char *));
    }
    kn_release(arena->host, list);
    return status;
}

kn_status kn_folder_list(kn_arena *arena, const char *path, char ***names, size_t *count, kn_error *error) {
    DIR *folder = opendir(path);
    *names = NULL;
    *count = 0;
    if (!folder)
        return kn_fail(error, KN_ERROR_FILE, "the folder \"%s\" does not exist or cannot be read", path);
    kn_status status = read_names(arena, folder, path, names, count, error);
    closedir(folder);
    return status;
}
