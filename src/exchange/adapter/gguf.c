/* Adapters in GGUF files, as llama.cpp reads them. */
#include <stdio.h>
#include <string.h>

#include "exchange/adapter/adapter.h"

/* ---- names: "blk.0.attn_q.weight.lora_a" for "blk0.attn_q" --------------------------------------- */

static const char *name_there(kn_arena *arena, const char *layer, bool b) {
    const bool block = strncmp(layer, "blk", 3) == 0;
    return kn_arena_format(arena, "%s%s.weight.lora_%c", block ? "blk." : "", block ? layer + 3 : layer,
                           b ? 'b' : 'a');
}

static const char *name_here(kn_arena *arena, const char *name, size_t length) {
    const bool block = length > 4 && strncmp(name, "blk.", 4) == 0;
    return kn_arena_format(arena, "%s%.*s", block ? "blk" : "", (int)(length - (block ? 4 : 0)),
                           name + (block ? 4 : 0));
}

/* ---- reading ------------------------------------------------------------------------------------- */

static bool text_is(kn_model *model, const kn_adapter_file *file, const char *key, const char *wanted) {
    kn_gguf_text text = {0};
    if (kn_gguf_string(&file->gguf, key, &text, &model->error) != KN_OK) return false;
    if (text.bytes && text.count == strlen(wanted) && !memcmp(text.bytes, wanted, text.count)) return true;
    kn_fail(&model->error, KN_ERROR_UNSUPPORTED, "%s: \"%s\" is '%.*s'; expected %s", file->path, key,
            text.bytes ? (int)(text.count < 60 ? text.count : 60) : 0, text.bytes ? text.bytes : "", wanted);
    return false;
}

static bool check_about(kn_model *model, kn_adapter_file *file) {
    kn_gguf_text architecture = {0};
    char wanted[64];
    if (!text_is(model, file, "general.type", "adapter") || !text_is(model, file, "adapter.type", "lora"))
        return false;
    if (!model->gguf) {
        kn_fail(&model->error, KN_ERROR_UNSUPPORTED,
                "%s: an adapter in a GGUF file needs a model from a GGUF file, which '%s' is not", file->path,
                model->name);
        return false;
    }
    if (kn_gguf_string(model->gguf, "general.architecture", &architecture, &model->error) != KN_OK)
        return false;
    snprintf(wanted, sizeof wanted, "%.*s", (int)(architecture.count < 60 ? architecture.count : 60),
             architecture.bytes ? architecture.bytes : "");
    double alpha = 0;
    if (!text_is(model, file, "general.architecture", wanted)) return false;
    if (kn_gguf_real(&file->gguf, "adapter.lora.alpha", 0, 1e30, &alpha, &model->error) != KN_OK)
        return false;
    file->params.alpha = alpha;
    if (alpha == 0) file->scale = 1;
    return true;
}

static kn_array array_of(const kn_gguf_tensor *tensor) {
    kn_array array = {.rank = tensor->rank, .bytes = tensor->bytes};
    memcpy(array.shape, tensor->shape, sizeof tensor->shape);
    array.type = tensor->type == 0 ? KN_FLOAT32 : tensor->type == 1 ? KN_FLOAT16 : KN_BFLOAT16;
    return array;
}

bool kn_adapter_open_gguf(kn_model *model, kn_adapter_file *file) {
    static const char ending[] = ".weight.lora_";
    const size_t own = sizeof ending - 1;
    if (kn_gguf_open(&model->host, file->path, &file->gguf, &model->error) != KN_OK) return false;
    file->has_gguf = true;
    file->alternates = kn_adapter_alternates(model); /* as the model's file */
    if (!check_about(model, file)) return false;
    for (size_t i = 0; i < file->gguf.tensor_count; i++) {
        const kn_gguf_tensor *tensor = &file->gguf.tensors[i];
        const size_t length = strlen(tensor->name);
        const char last = length > own + 1 ? tensor->name[length - 1] : 0;
        const bool matrix =
            (last == 'a' || last == 'b') && !strncmp(tensor->name + length - own - 1, ending, own);
        kn_array array = array_of(tensor);
        if (!matrix || (tensor->type != 0 && tensor->type != 1 && tensor->type != 30) ||
            !kn_array_measure(&array)) {
            kn_fail(&model->error, KN_ERROR_UNSUPPORTED, "%s: tensor '%.200s' %s", file->path, tensor->name,
                    matrix ? "has a type other than F32, F16 and BF16" : "is not a matrix of an adapter");
            return false;
        }
        const char *layer = name_here(&file->arena, tensor->name, length - own - 1);
        if (!layer) return kn_model_no_memory(model);
        if (!kn_adapter_add(model, file, layer, tensor->name, last == 'b' ? KN_ADAPTER_B : KN_ADAPTER_A,
                            &array))
            return false;
    }
    return true;
}

/* ---- writing ------------------------------------------------------------------------------------- */

static void describe(const kn_model *model, kn_arena *arena, kn_gguf_head *head) {
    const kn_adapter *adapter = model->adapter;
    const kn_block_type *type = kn_block_type_named("F32");
    /* The file was opened by it. */
    kn_gguf_put_value(head, kn_gguf_find(model->gguf, "general.architecture"));
    kn_gguf_put_string(head, "general.type", "adapter");
    kn_gguf_put_string(head, "adapter.type", "lora");
    /* llama.cpp scales by alpha / rank. */
    kn_gguf_put_real(head, "adapter.lora.alpha", adapter->scale * (double)adapter->rank);
    for (size_t i = 0; i < 2 * adapter->layer_count; i++) {
        const kn_adapted *layer = &adapter->layers[i / 2];
        const kn_value *value = i % 2 ? layer->b : layer->a;
        kn_gguf_put_tensor(head, name_there(arena, layer->layer, i % 2), 2, value->shape.dims, type);
    }
}

static kn_status write_numbers(kn_model *model, kn_file_writer *writer, kn_states *states) {
    const kn_adapter *adapter = model->adapter;
    kn_status status = KN_OK;
    for (size_t i = 0; i < 2 * adapter->layer_count && status == KN_OK; i++) {
        const kn_adapted *layer = &adapter->layers[i / 2];
        const kn_value *value = i % 2 ? layer->b : layer->a;
        const uint64_t bytes = (uint64_t)(value->shape.dims[0] * value->shape.dims[1]) * sizeof(float);
        float *numbers = kn_adapter_matrix(model, layer, i % 2, kn_adapter_alternates(model), states);
        status = numbers ? kn_gguf_writer_add(writer, numbers, bytes, &model->error) : model->error.status;
        kn_release(&model->host, numbers);
    }
    return status;
}

kn_status kn_adapter_save_gguf(kn_model *model, const char *path, kn_states *states) {
    kn_file_writer *writer = NULL;
    kn_arena arena;
    kn_gguf_head head;
    if (!model->gguf)
        return kn_fail(
            &model->error, KN_ERROR_UNSUPPORTED,
            "%s: an adapter in a GGUF file needs a model from a GGUF file, which '%s' is not; a folder "
            "is written for any",
            path, model->name);
    kn_arena_init(&arena, &model->host);
    kn_gguf_head_init(&head, &model->host);
    describe(model, &arena, &head);
    kn_status status = kn_gguf_writer_open(&model->host, path, &head, &writer, &model->error);
    if (status == KN_OK) status = write_numbers(model, writer, states);
    kn_gguf_head_finish(&head);
    kn_arena_finish(&arena);
    if (status == KN_OK) return kn_file_writer_commit(&writer, &model->error);
    if (writer) kn_file_writer_abandon(&writer);
    return status;
}
