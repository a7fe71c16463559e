/* Opens vocabularies by path. */
#include "text/text_private.h"

#include <string.h>

#define FILE_BYTES ((uint64_t)1 << 28)

/* Calls `read` for a JSON file, if it exists. */
static kn_status with_json(kn_vocabulary *vocabulary, const char *path, bool must,
                           kn_status (*read)(kn_vocabulary *, const kn_json *)) {
    if (!must && !kn_path_exists(path)) return KN_OK;
    kn_file_view view;
    kn_arena arena;
    kn_json *root;
    kn_status status = kn_file_open_view(&vocabulary->host, path, &view, &vocabulary->error);
    if (status != KN_OK) return status;
    kn_arena_init(&arena, &vocabulary->host);
    vocabulary->name = path;
    status = kn_json_read(&arena, path, view.bytes, view.count, FILE_BYTES, 64, &root, &vocabulary->error);
    if (status == KN_OK) status = read(vocabulary, root);
    kn_arena_finish(&arena);
    kn_file_close_view(&vocabulary->host, &view);
    return status;
}

/* The chat template as a file of its own, which replaces the one in the settings. */
static kn_status read_template(kn_vocabulary *vocabulary, const char *path) {
    if (!kn_path_exists(path)) return KN_OK;
    uint8_t *bytes;
    uint64_t count;
    kn_status status = kn_file_read(&vocabulary->host, path, 1 << 20, &bytes, &count, &vocabulary->error);
    if (status != KN_OK) return status;
    vocabulary->chat_template = kn_arena_copy(&vocabulary->arena, bytes, (size_t)count + 1, 1);
    kn_release(&vocabulary->host, bytes);
    return vocabulary->chat_template ? KN_OK : kn_fail_memory(&vocabulary->error, (size_t)count);
}

static kn_status open_json(kn_vocabulary *vocabulary, const char *path, const char *folder) {
    kn_arena *arena = &vocabulary->arena;
    const char *settings = kn_path_join(arena, folder, "tokenizer_config.json");
    const char *generation = kn_path_join(arena, folder, "generation_config.json");
    const char *chat = kn_path_join(arena, folder, "chat_template.jinja");
    if (!settings || !generation || !chat) return kn_fail_memory(&vocabulary->error, 0);
    kn_status status = with_json(vocabulary, path, true, kn_tokenizer_read);
    if (status == KN_OK) status = with_json(vocabulary, settings, false, kn_tokenizer_read_settings);
    if (status == KN_OK) status = with_json(vocabulary, generation, false, kn_tokenizer_read_generation);
    if (status == KN_OK) status = read_template(vocabulary, chat);
    vocabulary->name = path;
    return status == KN_OK ? kn_vocabulary_complete(vocabulary) : status;
}

static kn_status is_gguf(kn_vocabulary *vocabulary, const char *path, bool *gguf) {
    kn_file_view view;
    kn_status status = kn_file_open_view(&vocabulary->host, path, &view, &vocabulary->error);
    if (status != KN_OK) return status;
    *gguf = kn_gguf_is(view.bytes, view.count);
    kn_file_close_view(&vocabulary->host, &view);
    return KN_OK;
}

static kn_status open_path(kn_vocabulary *vocabulary, const char *path) {
    if (kn_path_is_folder(path)) {
        const char *file = kn_path_join(&vocabulary->arena, path, "tokenizer.json");
        if (!file) return kn_fail_memory(&vocabulary->error, 0);
        if (!kn_path_exists(file))
            return kn_fail(&vocabulary->error, KN_ERROR_NOT_FOUND,
                           "the folder '%s' has no vocabulary; expected a file tokenizer.json", path);
        return open_json(vocabulary, file, path);
    }
    bool gguf;
    kn_status status = is_gguf(vocabulary, path, &gguf);
    if (status != KN_OK) return status;
    if (gguf) {
        kn_gguf file;
        status = kn_gguf_open(&vocabulary->host, path, &file, &vocabulary->error);
        if (status != KN_OK) return status;
        status = kn_vocabulary_read_gguf(vocabulary, &file);
        kn_gguf_close(&vocabulary->host, &file);
        return status;
    }
    const char *slash = strrchr(path, '/');
    char *folder = kn_arena_text(&vocabulary->arena, slash ? path : ".");
    if (!folder) return kn_fail_memory(&vocabulary->error, 0);
    if (slash) folder[slash == path ? 1 : slash - path] = '\0';
    return open_json(vocabulary, path, folder);
}

kn_vocabulary *kn_vocabulary_open(const char *path, const kn_allocator *allocator) {
    kn_host host = kn_host_with(allocator);
    kn_vocabulary *vocabulary = kn_vocabulary_create(&host);
    if (!vocabulary) return NULL;
    if (!path) {
        kn_fail(&vocabulary->error, KN_ERROR_ARGUMENT, "the path of the vocabulary is NULL");
        return vocabulary;
    }
    vocabulary->name = kn_arena_text(&vocabulary->arena, path);
    if (!vocabulary->name)
        kn_fail_memory(&vocabulary->error, 0);
    else
        open_path(vocabulary, vocabulary->name);
    return vocabulary;
}
