/* The matrices of an adapter in a file, by layer. */
#include "exchange/adapter/adapter.h"

const kn_array *kn_adapter_part_of(const kn_adapter_pair *pair, kn_adapter_part part) {
    return part == KN_ADAPTER_A ? &pair->a : part == KN_ADAPTER_B ? &pair->b : &pair->magnitudes;
}

bool kn_adapter_add(kn_model *model, kn_adapter_file *file, const char *layer, const char *name,
                    kn_adapter_part part, const kn_array *array) {
    const bool vector = part == KN_ADAPTER_MAGNITUDES;
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
    kn_array *own = part == KN_ADAPTER_A ? &pair->a : vector ? &pair->magnitudes : &pair->b;
    const char *problem = !kn_dtype_is_float(array->type)   ? "does not have a floating-point type"
                          : array->rank != (vector ? 1 : 2) ? vector ? "is not a vector" : "is not a matrix"
                          : own->bytes                      ? "occurs twice"
                          : !array->bytes || !array->count  ? "is empty"
                                                            : NULL;
    *own = *array;
    if (!problem) return true;
    kn_fail(&model->error, KN_ERROR_FORMAT, "%s: tensor '%.200s' %s", file->path, name, problem);
    return false;
}
