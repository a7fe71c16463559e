/* Statuses: NULL for success, otherwise a code and a message. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnxruntime/onnxruntime.h"

struct OrtStatus {
    OrtErrorCode code;
    char message[];
};

/* Without memory there is no room for a status. */
static const struct {
    OrtErrorCode code;
    char message[16];
} no_memory = {ORT_FAIL, "out of memory"};

OrtStatus *ort_no_memory(void) {
    return (OrtStatus *)&no_memory;
}

OrtStatus *ort_CreateStatus(OrtErrorCode code, const char *message) {
    const char *text = message ? message : "";
    OrtStatus *status = malloc(sizeof *status + strlen(text) + 1);
    if (!status) return ort_no_memory();
    status->code = code;
    strcpy(status->message, text);
    return status;
}

OrtStatus *ort_fail(OrtErrorCode code, const char *format, ...) {
    char message[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return ort_CreateStatus(code, message);
}

OrtStatus *ort_fail_as(kn_status status, const char *message) {
    switch (status) {
    case KN_OK:
        return NULL;
    case KN_ERROR_UNSUPPORTED:
        return ort_CreateStatus(ORT_NOT_IMPLEMENTED, message);
    case KN_ERROR_NOT_FOUND:
    case KN_ERROR_FILE:
        return ort_CreateStatus(ORT_NO_SUCHFILE, message);
    case KN_ERROR_FORMAT:
        return ort_CreateStatus(ORT_INVALID_PROTOBUF, message);
    case KN_ERROR_ARGUMENT:
    case KN_ERROR_SHAPE:
    case KN_ERROR_DTYPE:
        return ort_CreateStatus(ORT_INVALID_ARGUMENT, message);
    case KN_ERROR_NO_DEVICE:
    case KN_ERROR_DEVICE:
    case KN_ERROR_DEVICE_MEMORY:
    case KN_ERROR_COMPILE:
        return ort_CreateStatus(ORT_EP_FAIL, message);
    default:
        return ort_CreateStatus(ORT_FAIL, message);
    }
}

const char *ort_function(const char *name) {
    return strncmp(name, "ort_", 4) ? name : name + 4;
}

OrtErrorCode ort_GetErrorCode(const OrtStatus *status) {
    return status ? status->code : ORT_OK;
}

const char *ort_GetErrorMessage(const OrtStatus *status) {
    return status ? status->message : "";
}

void ort_ReleaseStatus(OrtStatus *status) {
    if (status != ort_no_memory()) free(status);
}
