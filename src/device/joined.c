/* Several devices: contexts joined to another, by the names that nodes are pinned to. */
#include <string.h>

#include "device/device_private.h"

kn_status kn_context_join(kn_context *context, const char *name, kn_context **other) {
    kn_status status = kn_context_status(context);
    if (status == KN_OK) status = other ? kn_context_status(*other) : KN_ERROR_ARGUMENT;
    if (status != KN_OK) return status;
    if (!name || !*name || *other == context || (*other)->joined_count) return KN_ERROR_ARGUMENT;
    if (strlen(name) >= KN_DEVICE_NAME_BYTES) return KN_ERROR_ARGUMENT;
    if (context->belongs || (*other)->belongs) return KN_ERROR_ARGUMENT;
    if (context->described || (*other)->described) return KN_ERROR_UNSUPPORTED;
    for (int i = 0; i <= context->joined_count; i++)
        if (!strcmp(kn_context_device_name_at(context, i), name) ||
            kn_context_device_at(context, i) == *other)
            return KN_ERROR_ARGUMENT;
    if (context->joined_count == KN_CONTEXT_MAX_DEVICES - 1) return KN_ERROR_UNSUPPORTED;
    char *copy = kn_copy_text(&context->host, name);
    if (!copy) return KN_ERROR_MEMORY;
    context->joined[context->joined_count++] = (struct kn_joined){copy, *other};
    (*other)->belongs = true;
    *other = NULL;
    return KN_OK;
}

size_t kn_context_device_count(const kn_context *context) {
    return context ? 1 + (size_t)context->joined_count : 0;
}

kn_context *kn_context_device_at(kn_context *context, size_t position) {
    if (!context || position > (size_t)context->joined_count) return NULL;
    return position ? context->joined[position - 1].context : context;
}

const char *kn_context_device_name_at(const kn_context *context, size_t position) {
    if (!context || position > (size_t)context->joined_count) return NULL;
    return position ? context->joined[position - 1].name : KN_DEVICE_MAIN;
}
