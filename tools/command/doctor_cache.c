/* koine doctor, cache folders: Koine's for compiled kernels, and PoCL's, without which it shows no device or
 * cannot compile. */
#include <stdlib.h>
#include <unistd.h>

#include "command.h"
#include "doctor.h"

enum { PATH_ROOM = 4096 };

void doctor_cache(doctor_visit *doctor) {
    char folder[PATH_ROOM], reason[PATH_ROOM + 100];
    static const char mend[] = "export XDG_CACHE_HOME=\"$(mktemp -d /var/tmp/cache-XXXXXX)\"";
    if (!kn_default_cache_folder(getenv("XDG_CACHE_HOME"), getenv("HOME"), folder, sizeof folder))
        finding_tell(&doctor->found, FINDING_HINT, "cache", mend,
                     "neither XDG_CACHE_HOME nor HOME is set: kernels are compiled again in each run, unless "
                     "--kernel-cache "
                     "DIR names a folder for them");
    else if (!folder_makable(folder, reason, sizeof reason))
        finding_tell(&doctor->found, FINDING_HINT, "cache", mend,
                     "%s cannot be written (%s): kernels are compiled again in each run, unless "
                     "--kernel-cache DIR names "
                     "another folder for them",
                     folder, reason);
    else
        finding_tell(&doctor->found, FINDING_FINE, "cache", "", "compiled kernels are kept in %s", folder);
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
    finding_tell(&doctor->found, FINDING_PROBLEM, "cache",
                 "export POCL_CACHE_DIR=\"$(mktemp -d /var/tmp/pocl-XXXXXX)\"",
                 "PoCL keeps what it compiles in %s, which cannot be written (%s): it shows no device, or "
                 "compiles nothing. "
                 "The environment variable POCL_CACHE_DIR names another folder",
                 folder, reason);
}
