/* The matrices of an adapter in a file, by layer. */
#include "exchange/adapter/adapter.h"

bool kn_adapter_add(kn_model *model, kn_adapter_file *file, const char *layer, const char *name, bool b,
                    const kn_array *array) {
    kn_adapter_pair *pair = NULL;
    const void *known = kn_map_get_text(&file->by_layer, layer);
    if (known) {
        pair = &file->pairs[(size_t)(uintptr_t)known - 1];
    } else {
        if (!kn_reserve(&model->host, (void **)&file->pairs, &file->capacity, file->count + 1,
                        sizeof *file->pairs))
            return kn_model_no_memory(model);
        pair = &file->pairs[file->count++];
        *pair = (kn_adapter_pair){.layer = layer, .name = name};
        if (!kn_map_put_text(&file->by_layer, layer, (void *)(uintptr_t)file->count))
            return kn_model_no_memory(model);
    }
    kn_array *own = b ? &pair->b : &pair->a;
    const char *problem = !kn_dtype_is_float(array->type)  ? "does not have a floating-point type"
                          : array->rank != 2               ? "is not a matrix"
                          : own->bytes                     ? "occurs twice"
                          : !array->bytes || !array->count ? "is empty"
                                                           : NULL;
    *own = *array;
    if (!problem) return true;
    kn_fail(&model->error, KN_ERROR_FORMAT, "%s: tensor '%.200s' %s", file->path, name, problem);
    return false;
}
