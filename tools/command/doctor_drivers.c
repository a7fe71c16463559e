/* koine doctor, drivers: known drivers that are installed but not listed, and duplicate copies. Driver names
 * are used only in advice. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "doctor.h"

enum { PATH_ROOM = 2048, MAX_COPIES = 16 };

static const struct {
    const char *library, *icd, *package, *name;
} drivers[] = {
    {"libpocl.so.2", "pocl.icd", "pocl-opencl-icd", "PoCL"},
    {"libRusticlOpenCL.so.1", "rusticl.icd", "mesa-opencl-icd", "Mesa's rusticl"},
    {"libMesaOpenCL.so.1", "mesa.icd", "mesa-opencl-icd", "Mesa's Clover"},
    {"libnvidia-opencl.so.1", "nvidia.icd", "nvidia-opencl-icd", "NVIDIA's driver"},
    {"libigdrcl.so", "intel.icd", "intel-opencl-icd", "Intel's driver for GPUs"},
    {"libintelocl.so", "intel64.icd", "", "Intel's driver for processors"},
    {"libamdocl64.so", "amdocl64.icd", "rocm-opencl-icd", "AMD's ROCm"},
};
enum { DRIVERS = sizeof drivers / sizeof *drivers };

static const char *const folders[] = {
    "/usr/lib",
    "/usr/lib64",
    "/usr/lib/*-linux-*",
    "/usr/lib/*-linux-*/intel-opencl",
    "/usr/lib/*-linux-*/nvidia",
    "/usr/local/lib",
    "/usr/local/lib64",
    "/usr/local/lib/*-linux-*",
    "/opt/rocm*/lib",
    "/usr/local/nvidia/lib64", /* containers of GKE and others */
    "/usr/lib/wsl/lib",
    "/run/opengl-driver/lib", /* NixOS */
};

static const char *name_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool doctor_same_driver(const char *left, const char *right) {
    const char *a = name_of(left), *b = name_of(right), *end = strstr(a, ".so");
    size_t length = end ? (size_t)(end - a) + 3 : strlen(a);
    return !strncmp(a, b, length) && (!b[length] || b[length] == '.');
}

const char *doctor_package(const char *library) {
    for (int i = 0; i < DRIVERS; i++)
        if (doctor_same_driver(drivers[i].library, library)) return drivers[i].package;
    return "";
}

int doctor_each_library(const doctor_visit *doctor, const char *name,
                        void (*visit)(void *user, const char *path), void *user) {
    char pattern[PATH_ROOM];
    struct {
        dev_t device;
        ino_t file;
    } seen[MAX_COPIES];
    int count = 0;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        glob_t found;
        snprintf(pattern, sizeof pattern, "%s%s/%s", doctor->root, folders[i], name);
        if (glob(pattern, 0, NULL, &found) == 0)
            for (size_t f = 0; f < found.gl_pathc && count < MAX_COPIES; f++) {
                struct stat about;
                bool known = stat(found.gl_pathv[f], &about) != 0; /* ignore broken links */
                for (int s = 0; s < count && !known; s++)
                    known = seen[s].device == about.st_dev && seen[s].file == about.st_ino;
                if (known) continue;
                seen[count].device = about.st_dev;
                seen[count++].file = about.st_ino;
                visit(user, found.gl_pathv[f]);
            }
        globfree(&found);
    }
    return count;
}

/* ---- libraries without an ICD file ------------------------------------------------------------------- */

typedef struct unnamed {
    doctor_visit *doctor;
    int driver;
    bool told;
} unnamed;

static void print_unnamed(void *user, const char *path) {
    unnamed *found = user;
    char fix[PATH_ROOM];
    const char *inside = path + strlen(found->doctor->root);
    if (found->told) return;
    found->told = true;
    snprintf(fix, sizeof fix, "echo %s | sudo tee /etc/OpenCL/vendors/%s", inside,
             drivers[found->driver].icd);
    finding_add(&found->doctor->found, FINDING_HINT, "driver", fix,
                "%s is installed, %s, but no ICD file lists it, so programs do not see it",
                drivers[found->driver].name, path);
}

/* ---- two copies of a driver -------------------------------------------------------------------------- */

static void print_copies(doctor_visit *doctor, char *const *named, char *const *files, int count) {
    char fix[PATH_ROOM];
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++) {
            if (!doctor_same_driver(named[i], named[j])) continue;
            snprintf(fix, sizeof fix, "sudo mv %.900s %.900s.off", files[i], files[i]);
            if (!strcmp(named[i], named[j]))
                finding_add(&doctor->found, FINDING_HINT, "copies", fix,
                            "%s and %s name the same driver, %s: its devices may be there twice", files[j],
                            files[i], named[i]);
            else
                finding_add(
                    &doctor->found, FINDING_PROBLEM, "copies", fix,
                    "two copies of a driver are loaded together, which crashes some: %s (%s) and %s (%s)",
                    named[j], files[j], named[i], files[i]);
            break;
        }
}

void doctor_drivers(doctor_visit *doctor, char *const *named, char *const *files, int count) {
    print_copies(doctor, named, files, count);
    for (int d = 0; d < DRIVERS && !doctor->elsewhere; d++) {
        unnamed found = {doctor, d, false};
        bool known = false;
        for (int i = 0; i < count; i++)
            known = known || doctor_same_driver(drivers[d].library, named[i]);
        char pattern[80];
        snprintf(pattern, sizeof pattern, "%s*", drivers[d].library);
        if (!known) doctor_each_library(doctor, pattern, print_unnamed, &found);
    }
}
