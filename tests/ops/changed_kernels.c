/* Kernels in a folder of a test: links to the library's, and modified copies. */
#include "changed_kernels.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"

void link_kernels(const char *source, const char *folder) {
    DIR *listing = opendir(source);
    assert_non_null(listing);
    for (struct dirent *entry; (entry = readdir(listing));) {
        char from[4096], to[4096];
        struct stat about;
        if (entry->d_name[0] == '.') continue;
        test_path(from, sizeof from, source, entry->d_name);
        test_path(to, sizeof to, folder, entry->d_name);
        assert_int_equal(stat(from, &about), 0);
        if (S_ISDIR(about.st_mode)) {
            assert_int_equal(mkdir(to, 0700), 0);
            link_kernels(from, to);
        } else
            assert_int_equal(symlink(from, to), 0);
    }
    closedir(listing);
}

void change_kernel(const char *folder, const char *name, const char *from, const char *to) {
    static char text[1 << 16];
    char path[4096];
    test_path(path, sizeof path, folder, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    assert_true(length > 0 && length < sizeof text - 1);
    text[length] = 0;
    char *place = strstr(text, from);
    if (!place) fail_msg("%s has no '%s' any more", name, from);
    assert_int_equal(unlink(path), 0);
    assert_non_null(file = fopen(path, "wb"));
    fprintf(file, "%.*s%s%s", (int)(place - text), text, to, place + strlen(from));
    assert_int_equal(fclose(file), 0);
}
