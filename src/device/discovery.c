/* Lists every OpenCL platform and device, with a reason for each that cannot be used. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device_private.h"

enum { LOWEST_VERSION = 120 };

/* Trims blanks at both ends: some drivers pad names. */
static void trim(char *text) {
    size_t first = 0, end = strlen(text);
    while (kn_is_blank(text[first]))
        first++;
    while (end > first && kn_is_blank(text[end - 1]))
        end--;
    memmove(text, text + first, end - first);
    text[end - first] = '\0';
}

/* Strings are queried at full length: a driver returns nothing if the buffer is too small. */
static void take_text(char *target, size_t bytes, const char *whole, size_t length) {
    size_t count = length < bytes ? length : bytes - 1;
    memcpy(target, whole, count);
    target[count] = '\0';
    trim(target);
}

static void platform_text(cl_platform_id platform, cl_platform_info what, char *target, size_t bytes) {
    char whole[4096];
    size_t length = 0;
    target[0] = '\0';
    if (clGetPlatformInfo(platform, what, sizeof whole, whole, &length) == CL_SUCCESS &&
        length <= sizeof whole)
        take_text(target, bytes, whole, strnlen(whole, length));
}

static void device_text(cl_device_id device, cl_device_info what, char *target, size_t bytes) {
    char whole[4096];
    size_t length = 0;
    target[0] = '\0';
    if (clGetDeviceInfo(device, what, sizeof whole, whole, &length) == CL_SUCCESS && length <= sizeof whole)
        take_text(target, bytes, whole, strnlen(whole, length));
}

uint64_t kn_device_number(cl_device_id device, cl_device_info what) {
    /* The range of plausible values, and the default otherwise. */
    static const struct {
        cl_device_info what;
        size_t bytes;
        uint64_t least, most, otherwise;
    } ranges[] = {
        {CL_DEVICE_TYPE, sizeof(cl_device_type), 1, UINT32_MAX, CL_DEVICE_TYPE_CUSTOM},
        {CL_DEVICE_VENDOR_ID, sizeof(cl_uint), 0, UINT32_MAX, 0},
        {CL_DEVICE_AVAILABLE, sizeof(cl_bool), 0, UINT32_MAX, CL_FALSE},
        {CL_DEVICE_COMPILER_AVAILABLE, sizeof(cl_bool), 0, UINT32_MAX, CL_FALSE},
        {CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof(cl_bool), 0, UINT32_MAX, CL_FALSE},
        {CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(cl_uint), 1, 1 << 16, 1},
        {CL_DEVICE_MAX_CLOCK_FREQUENCY, sizeof(cl_uint), 0, 100000, 0},
        {CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, sizeof(cl_uint), 0, 64, 0},
        {CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof(cl_uint), 0, 1 << 20,
         1024}, /* in bits; the largest type has 1024 */
        {CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(size_t), 1, 1 << 20, 1},
        /* The standard's minimum for a device, and four times that in total. */
        {CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(cl_ulong), 1 << 20, 1ull << 50, 128 << 20},
        {CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(cl_ulong), 1 << 20, 1ull << 50, 512 << 20},
        {CL_DEVICE_LOCAL_MEM_SIZE, sizeof(cl_ulong), 0, 1 << 30, 0},
        /* The full profile's minimum; the embedded profile's is 256. */
        {CL_DEVICE_MAX_PARAMETER_SIZE, sizeof(size_t), 1, 1 << 30, KN_ARGUMENT_BYTES},
        {CL_DEVICE_SINGLE_FP_CONFIG, sizeof(cl_device_fp_config), 0, UINT32_MAX, 0},
    };
    for (size_t i = 0; i < KN_COUNT_OF(ranges); i++) {
        if (ranges[i].what != what) continue;
        uint64_t value = 0;
        cl_uint narrow = 0;
        void *target = ranges[i].bytes == sizeof narrow ? (void *)&narrow : &value;
        if (clGetDeviceInfo(device, what, ranges[i].bytes, target, NULL) != CL_SUCCESS)
            return ranges[i].otherwise;
        if (target == &narrow) value = narrow;
        return value < ranges[i].least || value > ranges[i].most ? ranges[i].otherwise : value;
    }
    return 0;
}

int kn_opencl_version_number(const char *text) {
    const char *digits = text + strcspn(text, "0123456789");
    if (!kn_is_digit(digits[0]) || digits[1] != '.' || !kn_is_digit(digits[2])) return 0;
    return (digits[0] - '0') * 100 + (digits[2] - '0') * 10;
}

/* From OpenCL 3.0; the 1.2 headers lack these. */
enum { ALL_LANGUAGES = 0x1066 };
typedef struct language {
    cl_uint version; /* major in the top 10 bits, minor in the next 10 */
    char name[64];
} language;

bool kn_device_speaks(const kn_host *host, const kn_found_device *found, int version) {
    if (version <= kn_opencl_version_number(found->language)) return true;
    if (kn_opencl_version_number(found->info.version) < 300) return false;
    size_t bytes = 0;
    if (clGetDeviceInfo(found->device, ALL_LANGUAGES, 0, NULL, &bytes) != CL_SUCCESS || bytes == 0)
        return false;
    language *languages = kn_allocate(host, bytes, 1);
    bool spoken = false;
    if (languages && clGetDeviceInfo(found->device, ALL_LANGUAGES, bytes, languages, NULL) == CL_SUCCESS)
        for (size_t i = 0; i < bytes / sizeof *languages; i++) {
            cl_uint major = languages[i].version >> 22, minor = languages[i].version >> 12 & 0x3ff;
            spoken = spoken || (int)(major * 100 + minor * 10) == version;
        }
    kn_release(host, languages);
    return spoken;
}

/* Whether a list, separated by spaces, contains a word. */
static bool lists(const char *list, const char *extension) {
    const size_t length = strlen(extension);
    for (const char *word = list; (word = strstr(word, extension)) != NULL; word += length) {
        bool starts = word == list || word[-1] == ' ';
        if (starts && (word[length] == ' ' || word[length] == '\0')) return true;
    }
    return false;
}

bool kn_device_claims(cl_device_id device, const char *extension) {
    char list[16384] = ""; /* six times as large as drivers' lists */
    return clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, sizeof list - 1, list, NULL) == CL_SUCCESS &&
           lists(list, extension);
}

/* Lists features that kernels rely on and an embedded profile may lack; "" if none. Denormals and images are
 * not needed, and limits are read as for any device. */
static void find_lacks(const kn_found_device *found, char *text, size_t bytes) {
    const uint64_t floats = kn_device_number(found->device, CL_DEVICE_SINGLE_FP_CONFIG);
    const struct {
        bool has;
        const char *what;
    } needs[] = {
        {kn_device_claims(found->device, "cles_khr_int64"), "64-bit integers (cles_khr_int64)"},
        {floats & CL_FP_ROUND_TO_NEAREST, "rounding to nearest"},
        {floats & CL_FP_INF_NAN, "infinities and NaN"},
        {kn_device_number(found->device, CL_DEVICE_MAX_PARAMETER_SIZE) >= KN_ARGUMENT_BYTES,
         "1024 bytes of kernel arguments"},
    };
    text[0] = '\0';
    for (size_t i = 0, used = 0; i < KN_COUNT_OF(needs); i++, used = strlen(text))
        if (!needs[i].has) snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", needs[i].what);
}

/* Writes the reason why a device cannot be used; "" if it can. */
static void find_problem(const kn_found_device *found, char *text, size_t bytes) {
    const kn_device_info *info = &found->info;
    char lacks[128] = "";
    text[0] = '\0';
    if (kn_opencl_version_number(found->platform_version) < LOWEST_VERSION ||
        kn_opencl_version_number(info->version) < LOWEST_VERSION ||
        kn_opencl_version_number(found->language) < LOWEST_VERSION)
        snprintf(text, bytes,
                 "supports less than OpenCL 1.2 (platform: %.40s, device: %.40s, language: %.40s); a newer "
                 "driver may help",
                 found->platform_version, info->version, found->language);
    else if (!kn_device_number(found->device, CL_DEVICE_AVAILABLE))
        snprintf(text, bytes, "its driver reports it as unavailable; another program may be using it");
    else if (!kn_device_number(found->device, CL_DEVICE_COMPILER_AVAILABLE))
        snprintf(
            text, bytes,
            "its driver has no compiler, which Koine needs for its kernels; install the driver's compiler "
            "package");
    else if (info->embedded) {
        find_lacks(found, lacks, sizeof lacks);
        if (lacks[0])
            snprintf(
                text, bytes,
                "it has OpenCL's embedded profile without %s, which Koine needs; a newer driver may help",
                lacks);
    }
}

/* Queries of cl_khr_device_uuid and cl_khr_pci_bus_info, which OpenCL's 1.2 headers lack. */
enum { DEVICE_UUID = 0x106a, PCI_BUS_INFO = 0x410f };
typedef struct pci_place {
    cl_uint domain, bus, device, function;
} pci_place;

/* Queries a property of an extension, if the extension is claimed. */
static bool answers(cl_device_id device, const char *extension, cl_device_info question, void *answer,
                    size_t bytes) {
    size_t given = 0;
    return kn_device_claims(device, extension) &&
           clGetDeviceInfo(device, question, bytes, answer, &given) == CL_SUCCESS && given == bytes;
}

static void find_pci(cl_device_id device, char *text, size_t bytes) {
    pci_place pci = {0};
    text[0] = '\0';
    if (answers(device, "cl_khr_pci_bus_info", PCI_BUS_INFO, &pci, sizeof pci))
        snprintf(text, bytes, "%04x:%02x:%02x.%x", pci.domain, pci.bus, pci.device, pci.function);
}

static void find_own_name(const kn_found_device *found, char *text, size_t bytes) {
    unsigned char uuid[16] = {0};
    text[0] = '\0';
    if (answers(found->device, "cl_khr_device_uuid", DEVICE_UUID, uuid, sizeof uuid)) {
        size_t used = (size_t)snprintf(text, bytes, "uuid ");
        for (size_t i = 0; i < sizeof uuid && used < bytes; i++)
            used += (size_t)snprintf(text + used, bytes - used, "%02x", uuid[i]);
    } else if (found->pci[0]) {
        snprintf(text, bytes, "pci %s", found->pci);
    }
}

void kn_found_describe(const kn_host *host, kn_found_device *found, cl_platform_id platform,
                       cl_device_id device) {
    kn_device_info *info = &found->info;
    char profile[32];
    info->size = sizeof *info;
    found->platform = platform;
    found->device = device;
    platform_text(platform, CL_PLATFORM_NAME, info->platform, sizeof info->platform);
    platform_text(platform, CL_PLATFORM_VERSION, found->platform_version, sizeof found->platform_version);
    if (!device) {
        platform_text(platform, CL_PLATFORM_VENDOR, info->vendor, sizeof info->vendor);
        return;
    }
    device_text(device, CL_DEVICE_NAME, info->name, sizeof info->name);
    device_text(device, CL_DEVICE_VENDOR, info->vendor, sizeof info->vendor);
    device_text(device, CL_DEVICE_VERSION, info->version, sizeof info->version);
    device_text(device, CL_DRIVER_VERSION, info->driver, sizeof info->driver);
    device_text(device, CL_DEVICE_OPENCL_C_VERSION, found->language, sizeof found->language);
    cl_device_type type = kn_device_number(device, CL_DEVICE_TYPE);
    info->type = type & CL_DEVICE_TYPE_GPU   ? KN_DEVICE_GPU
                 : type & CL_DEVICE_TYPE_CPU ? KN_DEVICE_CPU
                                             : KN_DEVICE_ACCELERATOR;
    found->simulated = (type & CL_DEVICE_TYPE_GPU) && (type & CL_DEVICE_TYPE_CPU);
    found->vendor_id = (cl_uint)kn_device_number(device, CL_DEVICE_VENDOR_ID);
    info->compute_units = (int)kn_device_number(device, CL_DEVICE_MAX_COMPUTE_UNITS);
    info->clock_mhz = (int)kn_device_number(device, CL_DEVICE_MAX_CLOCK_FREQUENCY);
    info->memory_bytes = kn_device_number(device, CL_DEVICE_GLOBAL_MEM_SIZE);
    info->largest_block_bytes = kn_device_number(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    if (info->largest_block_bytes > info->memory_bytes) info->largest_block_bytes = info->memory_bytes;
    info->local_bytes = kn_device_number(device, CL_DEVICE_LOCAL_MEM_SIZE);
    info->shares_memory = kn_device_number(device, CL_DEVICE_HOST_UNIFIED_MEMORY) != CL_FALSE;
    device_text(device, CL_DEVICE_PROFILE, profile, sizeof profile);
    info->embedded = strcmp(profile, "EMBEDDED_PROFILE") == 0;
    find_pci(device, found->pci, sizeof found->pci);
    find_own_name(found, info->identity, sizeof info->identity);
    find_problem(found, info->problem, sizeof info->problem);
    info->usable = info->problem[0] == '\0';
}

void kn_found_identity(const kn_found_device *found, char *text, size_t bytes) {
    snprintf(text, bytes, "%s | %s | %s | %s | %s | %s", found->info.platform, found->platform_version,
             found->info.name, found->info.version, found->language, found->info.driver);
}

kn_found_device *kn_device_list_add(kn_device_list *list) {
    void *entries = list->entries;
    if (!kn_reserve(&list->host, &entries, &list->capacity, (size_t)list->count + 1, sizeof *list->entries))
        return NULL;
    list->entries = entries;
    kn_found_device *found = &list->entries[list->count++];
    memset(found, 0, sizeof *found);
    found->info.size = sizeof found->info;
    found->info.index = found->info.platform_index = found->info.device_index = -1;
    return found;
}

/* Advice on why a platform may show no device, from known driver behaviour. */
static const char *empty_platform_advice(const char *platform) {
    if (strcmp(platform, "rusticl") == 0)
        return "; set the environment variable RUSTICL_ENABLE to a driver, such as llvmpipe, radeonsi or "
               "iris";
    if (strcmp(platform, "Portable Computing Language") == 0)
        return "; PoCL shows none if it cannot write its cache: set the environment variable POCL_CACHE_DIR "
               "to a writable folder";
    return "; ignore this unless the driver should support a device here (is the user in the groups video "
           "and render?)";
}

static bool add_platform(kn_device_list *list, int platform_index, cl_platform_id platform, int *index) {
    cl_uint count = 0;
    cl_int code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &count);
    cl_device_id *devices = NULL;
    if (code == CL_SUCCESS && count > 0) {
        devices = kn_allocate(&list->host, count, sizeof *devices);
        if (!devices) return false;
        code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, devices, NULL);
    }
    bool complete = true;
    if (code == CL_SUCCESS && count > 0) {
        for (cl_uint i = 0; i < count && complete; i++) {
            kn_found_device *found = kn_device_list_add(list);
            complete = found != NULL;
            if (!found) break;
            kn_found_describe(&list->host, found, platform, devices[i]);
            found->info.index = (*index)++;
            found->info.platform_index = platform_index;
            found->info.device_index = (int)i;
        }
    } else {
        kn_found_device *found = kn_device_list_add(list);
        complete = found != NULL;
        if (found) {
            kn_found_describe(&list->host, found, platform, NULL);
            found->info.platform_index = platform_index;
            if (code == CL_SUCCESS || code == CL_DEVICE_NOT_FOUND)
                snprintf(found->info.problem, sizeof found->info.problem, "the platform shows no device%s",
                         empty_platform_advice(found->info.platform));
            else
                snprintf(found->info.problem, sizeof found->info.problem,
                         "the platform failed to list its devices (%s)", kn_cl_name(code));
        }
    }
    kn_release(&list->host, devices);
    return complete;
}

bool kn_platforms_add(kn_device_list *list) {
    cl_uint count = 0;
    cl_int code = clGetPlatformIDs(0, NULL, &count);
    if (code != CL_SUCCESS || count == 0) {
        kn_found_device *found = kn_device_list_add(list);
        if (!found) return false;
        const bool none = code == CL_SUCCESS || code == -1001; /* CL_PLATFORM_NOT_FOUND_KHR */
        snprintf(found->info.problem, sizeof found->info.problem,
                 none ? "no OpenCL platform is installed (%s); the package pocl-opencl-icd provides one for "
                        "every processor"
                      : "the OpenCL platforms could not be listed (%s): a driver or the ICD loader failed",
                 kn_cl_name(code));
        return true;
    }
    cl_platform_id *platforms = kn_allocate(&list->host, count, sizeof *platforms);
    if (!platforms) return false;
    bool complete = clGetPlatformIDs(count, platforms, NULL) == CL_SUCCESS;
    int index = 0;
    for (cl_uint i = 0; i < count && complete; i++)
        complete = add_platform(list, (int)i, platforms[i], &index);
    kn_release(&list->host, platforms);
    return complete;
}
