/* Creates a context on the device that the parameters name, with probed capabilities; or for a described
 * device. */
#include "device/device_private.h"

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
