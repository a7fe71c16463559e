/* GPUs that the operating system shows but OpenCL does not, each with advice on its driver. The tables are
 * only used for advice, not for selection. */
#if defined(__linux__)
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device_private.h"

static const struct {
    uint32_t vendor_id;
    const char *vendor;
    const char *advice;
} pci_advice[] = {
    {0x10de, "NVIDIA", "the package nvidia-opencl-icd (with the vendor's kernel driver) provides one"},
    {0x1002, "AMD",
     "the package mesa-opencl-icd (with RUSTICL_ENABLE=radeonsi) or rocm-opencl-icd provides one"},
    {0x8086, "Intel", "the package intel-opencl-icd provides one"},
};

/* GPUs of single-board computers and phones, by kernel driver. */
static const char *const board_drivers[] = {"panfrost", "panthor", "lima", "v3d", "msm", "etnaviv", "asahi"};

/* The first line of root/folder/name/file. */
static bool read_line(const char *root, const char *folder, const char *name, const char *file, char *line,
                      size_t bytes) {
    char path[1024];
    int length = snprintf(path, sizeof path, "%s/%s/%s/%s", root, folder, name, file);
    if (length < 0 || (size_t)length >= sizeof path) return false;
    FILE *stream = fopen(path, "re");
    if (!stream) return false;
    bool found = fgets(line, (int)bytes, stream) != NULL;
    fclose(stream);
    if (found) line[strcspn(line, "\n")] = '\0';
    return found;
}

/* Whether OpenCL shows a GPU of this vendor (0: of any vendor). */
static bool accounted(const kn_device_list *list, uint32_t vendor_id) {
    for (int i = 0; i < list->count; i++) {
        const kn_found_device *found = &list->entries[i];
        if (found->device && found->info.type == KN_DEVICE_GPU &&
            (vendor_id == 0 || found->vendor_id == vendor_id))
            return true;
    }
    return false;
}

static bool add_entry(kn_device_list *list, const char *vendor, const char *where, const char *advice) {
    kn_found_device *found = kn_device_list_add(list);
    if (!found) return false;
    found->info.type = KN_DEVICE_GPU;
    snprintf(found->info.name, sizeof found->info.name, "%.40s GPU at %.60s", vendor, where);
    snprintf(found->info.vendor, sizeof found->info.vendor, "%s", vendor);
    snprintf(
        found->info.problem, sizeof found->info.problem,
        "this machine has it, but no OpenCL driver supports it; %s (the user may need the groups video and "
        "render)",
        advice);
    return true;
}

/* alphasort depends on the locale. */
static int by_name(const struct dirent **left, const struct dirent **right) {
    return strcmp((*left)->d_name, (*right)->d_name);
}

/* Calls visit for each name in root/folder, in sorted order, until it returns false; then returns false. */
static bool each_name(kn_device_list *list, const char *root, const char *folder,
                      bool (*visit)(kn_device_list *, const char *root, const char *folder,
                                    const char *name)) {
    char path[1024];
    struct dirent **names = NULL;
    int length = snprintf(path, sizeof path, "%s/%s", root, folder);
    if (length < 0 || (size_t)length >= sizeof path) return true;
    int count = scandir(path, &names, NULL, by_name);
    bool complete = true;
    for (int i = 0; i < count; i++) {
        if (complete && names[i]->d_name[0] != '.') complete = visit(list, root, folder, names[i]->d_name);
        free(names[i]);
    }
    free(names);
    return complete;
}

static bool visit_pci(kn_device_list *list, const char *root, const char *folder, const char *name) {
    char line[64];
    if (!read_line(root, folder, name, "class", line, sizeof line)) return true;
    if ((strtoul(line, NULL, 16) >> 16) != 0x03) return true; /* display controllers */
    if (!read_line(root, folder, name, "vendor", line, sizeof line)) return true;
    uint32_t vendor_id = (uint32_t)strtoul(line, NULL, 16);
    for (size_t i = 0; i < KN_COUNT_OF(pci_advice); i++)
        if (pci_advice[i].vendor_id == vendor_id && !accounted(list, vendor_id))
            return add_entry(list, pci_advice[i].vendor, name, pci_advice[i].advice);
    return true; /* there is no OpenCL driver to recommend for other vendors (virtual GPUs, service
                  * processors) */
}

static bool visit_card(kn_device_list *list, const char *root, const char *folder, const char *name) {
    char line[128];
    if (strncmp(name, "card", 4) != 0 || strchr(name, '-')) return true; /* connectors */
    /* already found on its bus */
    if (read_line(root, folder, name, "device/vendor", line, sizeof line)) return true;
    if (!read_line(root, folder, name, "device/uevent", line, sizeof line)) return true;
    if (strncmp(line, "DRIVER=", 7) != 0) return true;
    for (size_t i = 0; i < KN_COUNT_OF(board_drivers); i++)
        if (strcmp(line + 7, board_drivers[i]) == 0 && !accounted(list, 0))
            return add_entry(list, board_drivers[i], name, "the package mesa-opencl-icd may provide one");
    return true;
}

static bool has_hidden(const kn_device_list *list, const char *vendor) {
    for (int i = 0; i < list->count; i++)
        if (!list->entries[i].device && strcmp(list->entries[i].info.vendor, vendor) == 0) return true;
    return false;
}

/* Device nodes, which containers and virtual machines have even if they do not show the bus. */
static bool visit_node(kn_device_list *list, const char *root, const char *folder, const char *name) {
    (void)root, (void)folder;
    if (strcmp(name, "nvidia0") == 0 && !accounted(list, 0x10de) && !has_hidden(list, "NVIDIA"))
        return add_entry(list, "NVIDIA", "/dev/nvidia0",
                         "a container needs the vendor's library libnvidia-opencl.so.1 and a file "
                         "/etc/OpenCL/vendors/nvidia.icd that names it");
    if (strcmp(name, "dxg") == 0 && !accounted(list, 0))
        return add_entry(list, "WSL", "/dev/dxg", "a driver for WSL provides one");
    return true;
}

bool kn_hidden_gpus_add(kn_device_list *list, const char *system, const char *nodes) {
    return each_name(list, system, "bus/pci/devices", visit_pci) &&
           each_name(list, system, "class/drm", visit_card) && each_name(list, nodes, "", visit_node);
}
#else
typedef int kn_hidden_gpus_are_for_linux; /* a translation unit may not be empty */
#endif
