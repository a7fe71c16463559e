/* Adapters in files that kn_model_save has written. */
#include <stdlib.h>
#include <string.h>

#include "exchange/adapter/adapter.h"

static bool read_about(kn_model *model, kn_adapter_file *file) {
    const char *about = kn_safetensors_metadata(&file->tensors, "koine.adapter"), *end = NULL;
    if (!about) {
        kn_fail(&model->error, KN_ERROR_FORMAT,
                "%s: has no adapter: \"koine.adapter\" is missing in its metadata", file->path);
        return false;
    }
    const char *scale = strstr(about, " scale="), *order = *kn_model_row_order(model) ? " order=halves" : "";
    const bool numbers = !strncmp(about, "rank=", 5) && kn_parse_int64(about + 5, &end, &file->params.rank) &&
                         end == scale && kn_parse_double(scale + 7, &end, &file->scale) && file->scale > 0;
    file->alternates = numbers && *order && !strcmp(end, " order=alternating");
    if (numbers && (file->alternates || !strcmp(end, order))) return true;
    kn_fail(&model->error, KN_ERROR_FORMAT, "%s: \"koine.adapter\" is '%.80s'; expected rank=N scale=X%s",
            file->path, about, *order ? " order=halves or order=alternating" : "");
    return false;
}

bool kn_adapter_open_saved(kn_model *model, kn_adapter_file *file) {
    static const char training[] = "koine.training.";
    if (kn_safetensors_open(&model->host, file->path, &file->tensors, &model->error) != KN_OK) return false;
    file->has_tensors = true;
    if (kn_safetensors_check(&file->tensors, file->path, &model->error) != KN_OK || !read_about(model, file))
        return false;
    for (size_t i = 0; i < file->tensors.count; i++) {
        const kn_safetensor *tensor = &file->tensors.tensors[i];
        const size_t length = strlen(tensor->name);
        const char *ending = length > 7 ? tensor->name + length - 7 : "";
        if (!strncmp(tensor->name, training, sizeof training - 1)) continue;
        const bool b = !strcmp(ending, ".lora_b");
        if (!b && strcmp(ending, ".lora_a") != 0) continue; /* what the model's own file has, too */
        const char *layer = kn_arena_format(&file->arena, "%.*s", (int)(length - 7), tensor->name);
        if (!layer) return kn_model_no_memory(model);
        if (!kn_adapter_add(model, file, layer, tensor->name, b ? KN_ADAPTER_B : KN_ADAPTER_A,
                            &tensor->array))
            return false;
    }
    return true;
}
