/* Lists devices, and creates a context on the device that the parameters name, with probed capabilities; or
 * for a described device. */
#include "device/device_private.h"

kn_device_list *kn_device_list_create(const kn_allocator *allocator, const kn_logger *log) {
    kn_host host = kn_host_with(allocator);
    if (log) host.log = *log;
    kn_device_list *list = kn_allocate(&host, 1, sizeof *list);
    if (!list) return NULL;
    list->host = host;
    bool complete = kn_platforms_add(list);
#if defined(__linux__)
    complete = complete && kn_hidden_gpus_add(list, "/sys", "/dev");
#endif
    if (!complete) kn_device_list_destroy(&list);
    return list;
}

void kn_device_list_destroy(kn_device_list **list) {
    if (!list || !*list) return;
    kn_host host = (*list)->host;
    kn_release(&host, (*list)->entries);
    kn_release(&host, *list);
    *list = NULL;
}

size_t kn_device_list_count(const kn_device_list *list) {
    return list ? (size_t)list->count : 0;
}

const kn_device_info *kn_device_list_at(const kn_device_list *list, size_t position) {
    if (!list || position >= (size_t)list->count) return NULL;
    return &list->entries[position].info;
}

kn_context *kn_context_create(const kn_context_params *params) {
    kn_context_params known;
    kn_context *context = kn_context_begin(params, &known);
    if (!context || context->failure.status) return context;
    if (known.target && known.target[0]) {
        kn_context_describe(context, known.target);
        return context;
    }
    kn_device_list *list = kn_device_list_create(&context->host.allocator, &context->host.log);
    if (!list) {
        kn_fail_memory(&context->failure, sizeof *list);
        return context;
    }
    int chosen = kn_device_select(list, known.device, &known, &context->failure);
    if (chosen >= 0 && kn_context_open(context, &list->entries[chosen], NULL, NULL) == KN_OK)
        kn_context_probe(context, &context->failure);
    kn_device_list_destroy(&list);
    return context;
}
