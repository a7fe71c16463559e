/* Shared by the fake OpenCL drivers of the tests: helpers for clGet…Info, and the two entry points that the
 * ICD loader looks up. A driver defines get_platforms and platform_info. */
#ifndef KN_TESTS_ICD_H
#define KN_TESTS_ICD_H

#include <CL/cl_icd.h>

#include <string.h>

#define ICD_EXPORT __attribute__((visibility("default")))

static cl_int CL_API_CALL get_platforms(cl_uint room, cl_platform_id *found, cl_uint *count);
static cl_int CL_API_CALL platform_info(cl_platform_id platform, cl_platform_info what, size_t room,
                                        void *target, size_t *needed);

/* Returns a value with the calling convention of clGet…Info. */
static cl_int answer(const void *value, size_t bytes, size_t room, void *target, size_t *needed) {
    if (needed) *needed = bytes;
    if (target && room < bytes) return CL_INVALID_VALUE;
    if (target) memcpy(target, value, bytes);
    return CL_SUCCESS;
}
#define ANSWER_TEXT(text) answer(text, strlen(text) + 1, room, target, needed)
#define ANSWER(type, value) answer(&(type){value}, sizeof(type), room, target, needed)

ICD_EXPORT cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id platform, cl_platform_info what, size_t room,
                                                void *target, size_t *needed) {
    return platform_info(platform, what, room, target, needed);
}

ICD_EXPORT void *CL_API_CALL clGetExtensionFunctionAddress(const char *name) {
    /* A function's address as a data pointer is what the interface asks for. */
    union {
        void *pointer;
        cl_int(CL_API_CALL *platforms)(cl_uint, cl_platform_id *, cl_uint *);
        cl_int(CL_API_CALL *info)(cl_platform_id, cl_platform_info, size_t, void *, size_t *);
    } address = {NULL};
    if (strcmp(name, "clIcdGetPlatformIDsKHR") == 0) address.platforms = get_platforms;
    if (strcmp(name, "clGetPlatformInfo") == 0) address.info = platform_info;
    return address.pointer;
}

#endif
