/* The OpenCL devices of this machine: which exist, which are usable, and why others are not.
 *
 *     kn_device_list *list = kn_device_list_create(NULL, NULL);
 *     for (size_t i = 0; i < kn_device_list_count(list); i++) {
 *         const kn_device_info *device = kn_device_list_at(list, i);
 *         printf("%s: %s\n", device->name, device->usable ? "usable" : device->problem);
 *     }
 *     kn_device_list_destroy(&list);
 *
 * Thread-safety: a list belongs to one thread at a time; lists are independent of one another. */
#ifndef KOINE_DEVICE_H
#define KOINE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <koine/host.h>
#include <koine/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kn_device_type {
    KN_DEVICE_CPU = 0,
    KN_DEVICE_GPU = 1,
    KN_DEVICE_ACCELERATOR = 2,
} kn_device_type;

/* Properties of a device that is not opened. Strings are terminated and truncated to fit. */
typedef struct kn_device_info {
    size_t size;        /* of this struct, in the version of the library */
    int index;          /* counts the devices of all platforms from 0; -1 for entries that are not devices */
    int platform_index; /* in the loader's order */
    int device_index;   /* within its platform; -1 for a platform without devices */
    kn_device_type type;
    bool usable;       /* a context can be created on it */
    char problem[256]; /* why it is unusable and what to do; empty when usable */
    char name[128];
    char vendor[128];
    char platform[128];
    char version[128]; /* of the device's OpenCL, such as "OpenCL 1.2 pocl ..." */
    char driver[128];
    int compute_units;
    int clock_mhz;
    uint64_t memory_bytes;
    uint64_t largest_block_bytes; /* the largest single allocation */
    uint64_t local_bytes;
    bool shares_memory; /* with the host: no copies are needed */
    bool embedded;      /* OpenCL's embedded profile, which has smaller limits and may lack types */
    /* distinguishes devices of one kind: "uuid …" (cl_khr_device_uuid) or "pci …" (cl_khr_pci_bus_info); ""
     * without these extensions */
    char identity[48];
} kn_device_info;

typedef struct kn_device_list kn_device_list;

/* Lists every platform and device. allocator and log may be NULL for defaults. The list holds usable devices
 * and entries that explain what is unusable: platforms without devices, devices without a compiler, below
 * OpenCL 1.2 or with an embedded profile that lacks what kernels need, GPUs that the operating system sees
 * but OpenCL does not. NULL only when out of memory. The caller frees it with kn_device_list_destroy. */
KN_API KN_NODISCARD kn_device_list *kn_device_list_create(const kn_allocator *allocator,
                                                          const kn_logger *log);
KN_API void kn_device_list_destroy(kn_device_list **list);
KN_API size_t kn_device_list_count(const kn_device_list *list);
/* Entry `position` (0 to count - 1), or NULL; valid as long as the list. */
KN_API const kn_device_info *kn_device_list_at(const kn_device_list *list, size_t position);

#ifdef __cplusplus
}
#endif
#endif
