/* koine doctor, device nodes: nodes that the user may not open, and variables that must be set. */
#include <glob.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "doctor.h"

enum { PATH_ROOM = 2048 };

/* The nodes through which drivers access GPUs. */
static const char *const nodes[] = {"/dev/dri/renderD*", "/dev/kfd",   "/dev/nvidiactl",
                                    "/dev/nvidia[0-9]*", "/dev/mali0", "/dev/dxg"};

static void check_node(doctor_visit *doctor, const char *path) {
    char fix[200] = "", group_name[80] = "";
    struct stat about;
    if (access(path, R_OK | W_OK) == 0) {
        finding_add(&doctor->found, FINDING_FINE, "node", "", "%s can be opened", path);
        return;
    }
    if (stat(path, &about) != 0) return;
    const struct group *group = getgrgid(about.st_gid);
    if (group) snprintf(group_name, sizeof group_name, "%s", group->gr_name);
    bool by_group =
        (about.st_mode & (S_IRGRP | S_IWGRP)) == (S_IRGRP | S_IWGRP) && about.st_gid != 0 && group_name[0];
    if (by_group)
        snprintf(fix, sizeof fix, "sudo usermod -aG %s \"$USER\"", group_name);
    else
        snprintf(fix, sizeof fix, "sudo chmod a+rw %.150s", path);
    finding_add(&doctor->found, FINDING_PROBLEM, "node", fix, "this user may not open %s%s%s%s", path,
                by_group ? ", which is for the group " : "", by_group ? group_name : "",
                by_group ? "; membership counts from the next login on" : "");
}

static void count_one(void *user, const char *path) {
    (void)path;
    ++*(int *)user;
}

static bool any_library(const doctor_visit *doctor, const char *name) {
    int count = 0;
    doctor_each_library(doctor, name, count_one, &count);
    return count > 0;
}

static void check_rusticl(doctor_visit *doctor, bool gpu_node) {
    const char *enabled = getenv("RUSTICL_ENABLE");
    if (!doctor->rusticl || (enabled && enabled[0])) return;
    finding_add(&doctor->found, FINDING_HINT, "rusticl",
                gpu_node ? "export RUSTICL_ENABLE=radeonsi,iris" : "export RUSTICL_ENABLE=llvmpipe",
                "rusticl is installed and shows no device as long as the environment variable "
                "RUSTICL_ENABLE names no "
                "driver: radeonsi (AMD), iris (Intel), panfrost (Mali), llvmpipe (the processor)");
}

void doctor_nodes(doctor_visit *doctor) {
    char pattern[PATH_ROOM];
    size_t found_nodes = 0;
    bool kernel_driver = false;
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        glob_t found;
        snprintf(pattern, sizeof pattern, "%s%s", doctor->root, nodes[i]);
        if (glob(pattern, 0, NULL, &found) == 0) {
            found_nodes += found.gl_pathc;
            kernel_driver = kernel_driver || strstr(nodes[i], "nvidiactl");
            for (size_t f = 0; f < found.gl_pathc; f++)
                check_node(doctor, found.gl_pathv[f]);
        }
        globfree(&found);
    }
    if (!kernel_driver && any_library(doctor, "libnvidia-opencl.so.1"))
        finding_add(
            &doctor->found, FINDING_HINT, "node", "sudo modprobe nvidia",
            "libnvidia-opencl.so.1 is here and /dev/nvidiactl is not: the kernel's part of the driver is not "
            "loaded");
    check_rusticl(doctor, found_nodes > 0);
}
