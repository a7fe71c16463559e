/* Vocabularies: opening, encoding, and what tokens are. */
#include "text/text_private.h"

#include <string.h>

enum { TEXT_BYTES = 1 << 30 };
#define FILE_BYTES ((uint64_t)1 << 28)

/* Tokens that end a turn or a text; the files name only one of them. */
static const char *const end_texts[] = {"<|eot_id|>",    "<|im_end|>", "<|end|>", "<end_of_turn>",
                                        "<|endoftext|>", "<|eom_id|>", "<EOT>",   "<|end_of_text|>"};

/* ---- encoding --------------------------------------------------------------------------------- */

typedef struct encoding {
    const kn_vocabulary *vocabulary;
    unsigned flags;
    kn_workspace work;
    kn_tokens tokens;
    kn_text normalized;
    kn_run from, to;
    const char *text; /* the whole text, to see whether a part begins it */
    bool begins;
} encoding;

kn_status kn_vocabulary_normalize(const kn_vocabulary *vocabulary, const char *text, size_t count,
                                  kn_text *to) {
    kn_text other;
    kn_text_init(&other, &vocabulary->host);
    kn_text_add_bytes(to, text, count);
    kn_status status = KN_OK;
    for (size_t i = 0; i < vocabulary->normalizer_count && status == KN_OK; i++) {
        kn_text_clear(&other);
        status = kn_normalize(&vocabulary->host, vocabulary->normalizers + i, to->data, to->length, &other);
        kn_text swap = *to;
        *to = other;
        other = swap;
    }
    if (status == KN_OK && to->failed) status = KN_ERROR_MEMORY;
    kn_text_finish(&other);
    return status;
}

/* A part of a normalized text without added tokens. */
static kn_status encode_pieces(encoding *by, const char *text, size_t count, bool begins) {
    const kn_vocabulary *vocabulary = by->vocabulary;
    kn_run_clear(&by->from);
    kn_text_add_bytes(&by->from.text, text, count);
    kn_run_end(&by->from);
    kn_status status = by->from.text.failed ? KN_ERROR_MEMORY : KN_OK;
    for (size_t i = 0; i < vocabulary->splitter_count && status == KN_OK; i++) {
        kn_run_clear(&by->to);
        status = kn_run_split(&vocabulary->host, vocabulary->splitters + i, &by->from, begins, &by->to);
        kn_run swap = by->from;
        by->from = by->to;
        by->to = swap;
    }
    for (size_t i = 0, begin = 0; i < by->from.count && status == KN_OK; begin = by->from.ends[i++])
        status = kn_piece_tokens(&vocabulary->model, &by->work, by->from.text.data + begin,
                                 by->from.ends[i] - begin, &by->tokens);
    return status;
}

static kn_status encode_normalized(void *user, int32_t token, const char *text, size_t count) {
    encoding *by = user;
    if (token < 0) return encode_pieces(by, text, count, by->begins && text == by->normalized.data);
    kn_tokens_add(&by->tokens, token);
    return by->tokens.failed ? KN_ERROR_MEMORY : KN_OK;
}

static kn_status encode_raw(void *user, int32_t token, const char *text, size_t count) {
    encoding *by = user;
    if (token >= 0) {
        kn_tokens_add(&by->tokens, token);
        return by->tokens.failed ? KN_ERROR_MEMORY : KN_OK;
    }
    by->begins = text == by->text;
    kn_text_clear(&by->normalized);
    kn_status status = kn_vocabulary_normalize(by->vocabulary, text, count, &by->normalized);
    if (status != KN_OK) return status;
    return kn_added_split(by->vocabulary, &by->vocabulary->normalized, by->flags, by->normalized.data,
                          by->normalized.length, encode_normalized, by);
}

kn_status kn_vocabulary_encode(const kn_vocabulary *vocabulary, const char *text, size_t bytes,
                               unsigned flags, int32_t *tokens, size_t capacity, size_t *count) {
    if (!vocabulary || vocabulary->error.status != KN_OK || (!text && bytes) || (!tokens && capacity) ||
        !count || bytes > TEXT_BYTES)
        return KN_ERROR_ARGUMENT;
    const kn_host *host = &vocabulary->host;
    encoding by = {.vocabulary = vocabulary, .flags = flags, .text = text, .tokens.host = host};
    kn_workspace_init(&by.work, host);
    kn_text_init(&by.normalized, host);
    kn_run_init(&by.from, host);
    kn_run_init(&by.to, host);
    if (flags & KN_TEXT_ADD_ENDS)
        for (size_t i = 0; i < vocabulary->before_count; i++)
            kn_tokens_add(&by.tokens, vocabulary->before[i]);
    kn_status status =
        bytes ? kn_added_split(vocabulary, &vocabulary->raw, flags, text, bytes, encode_raw, &by) : KN_OK;
    if (flags & KN_TEXT_ADD_ENDS)
        for (size_t i = 0; i < vocabulary->after_count; i++)
            kn_tokens_add(&by.tokens, vocabulary->after[i]);
    if (status == KN_OK && by.tokens.failed) status = KN_ERROR_MEMORY;
    if (status == KN_OK) {
        *count = by.tokens.count;
        size_t written = *count < capacity ? *count : capacity;
        if (written) memcpy(tokens, by.tokens.items, written * sizeof *tokens);
    }
    kn_release(host, by.tokens.items);
    kn_workspace_finish(&by.work);
    kn_text_finish(&by.normalized);
    kn_run_finish(&by.from);
    kn_run_finish(&by.to);
    return status;
}

/* ---- questions -------------------------------------------------------------------------------- */

static bool is_open(const kn_vocabulary *vocabulary) {
    return vocabulary && vocabulary->error.status == KN_OK;
}

kn_status kn_vocabulary_status(const kn_vocabulary *vocabulary) {
    return vocabulary ? vocabulary->error.status : KN_ERROR_ARGUMENT;
}

const char *kn_vocabulary_error(const kn_vocabulary *vocabulary) {
    return vocabulary ? vocabulary->error.text : "no vocabulary";
}

int32_t kn_vocabulary_size(const kn_vocabulary *vocabulary) {
    return is_open(vocabulary) ? vocabulary->size : 0;
}

const char *kn_vocabulary_token(const kn_vocabulary *vocabulary, int32_t token, size_t *length) {
    if (!is_open(vocabulary)) return NULL;
    size_t bytes = 0;
    const char *text = kn_words_at(&vocabulary->added_words, token, &bytes);
    if (!text) text = kn_words_at(&vocabulary->model.words, token, &bytes);
    if (length) *length = bytes;
    return text;
}

int32_t kn_vocabulary_find(const kn_vocabulary *vocabulary, const char *spelling) {
    if (!is_open(vocabulary) || !spelling) return -1;
    int64_t token = kn_words_find(&vocabulary->added_words, spelling, strlen(spelling));
    if (token < 0) token = kn_words_find(&vocabulary->model.words, spelling, strlen(spelling));
    return (int32_t)token;
}

int32_t kn_vocabulary_role(const kn_vocabulary *vocabulary, kn_text_role role) {
    if (!is_open(vocabulary) || (unsigned)role >= KN_COUNT_OF(vocabulary->roles)) return -1;
    return vocabulary->roles[role];
}

bool kn_vocabulary_is_special(const kn_vocabulary *vocabulary, int32_t token) {
    if (!is_open(vocabulary) || token < 0 || token >= vocabulary->size) return false;
    return vocabulary->special[token / 8] >> token % 8 & 1;
}

bool kn_vocabulary_ends(const kn_vocabulary *vocabulary, int32_t token) {
    if (!is_open(vocabulary)) return false;
    for (size_t i = 0; i < vocabulary->end_count; i++)
        if (vocabulary->ends[i] == token) return true;
    return false;
}

const char *kn_vocabulary_summary(const kn_vocabulary *vocabulary) {
    return is_open(vocabulary) ? vocabulary->summary : "";
}

/* ---- completing ---------------------------------------------------------------------------------- */

void kn_vocabulary_add_end(kn_vocabulary *vocabulary, int64_t token) {
    if (token < 0 || vocabulary->end_count == KN_VOCABULARY_ENDS) return;
    for (size_t i = 0; i < vocabulary->end_count; i++)
        if (vocabulary->ends[i] == token) return;
    vocabulary->ends[vocabulary->end_count++] = (int32_t)token;
}

/* Puts the added tokens into the tables by which they are found. */
static kn_status index_added(kn_vocabulary *vocabulary) {
    const kn_host *host = &vocabulary->host;
    for (size_t i = 0; i < vocabulary->added_count; i++) {
        kn_added *added = vocabulary->added + i;
        if (kn_words_at(&vocabulary->added_words, added->token, &(size_t){0}))
            return kn_fail(&vocabulary->error, KN_ERROR_FORMAT,
                           "%s: two added tokens have the id %d; expected different ids", vocabulary->name,
                           (int)added->token);
        if (!kn_words_put(&vocabulary->added_words, (uint32_t)added->token, added->text, added->length))
            return kn_fail_memory(&vocabulary->error, added->length);
        if (added->normalized) {
            kn_text text;
            kn_text_init(&text, host);
            kn_status status = kn_vocabulary_normalize(vocabulary, added->text, added->length, &text);
            added->length = text.length;
            added->text = kn_arena_copy(&vocabulary->arena, text.data, text.length + 1, 1);
            kn_text_finish(&text);
            if (status != KN_OK || !added->text) return kn_fail_memory(&vocabulary->error, added->length);
        }
        kn_added_set *set = added->normalized ? &vocabulary->normalized : &vocabulary->raw;
        if (!kn_trie_put(&set->trie, host, added->text, added->length, (uint32_t)i) ||
            (!added->special && !kn_trie_put(&set->ordinary, host, added->text, added->length, (uint32_t)i)))
            return kn_fail_memory(&vocabulary->error, added->length);
    }
    return KN_OK;
}

kn_status kn_vocabulary_complete(kn_vocabulary *vocabulary) {
    kn_status status = index_added(vocabulary);
    if (status != KN_OK) return status;
    size_t size = vocabulary->model.words.count;
    if (vocabulary->added_words.count > size) size = vocabulary->added_words.count;
    vocabulary->size = (int32_t)size;
    vocabulary->special = kn_arena_take(&vocabulary->arena, size / 8 + 1, 1);
    if (!vocabulary->special) return kn_fail_memory(&vocabulary->error, size / 8 + 1);
    for (size_t i = 0; i < vocabulary->added_count; i++)
        if (vocabulary->added[i].special)
            vocabulary->special[vocabulary->added[i].token / 8] |=
                (uint8_t)(1 << vocabulary->added[i].token % 8);
    if (vocabulary->roles[KN_TEXT_ROLE_UNKNOWN] < 0)
        vocabulary->roles[KN_TEXT_ROLE_UNKNOWN] = (int32_t)vocabulary->model.unknown;
    kn_vocabulary_add_end(vocabulary, vocabulary->roles[KN_TEXT_ROLE_END]);
    for (size_t i = 0; i < KN_COUNT_OF(end_texts); i++)
        kn_vocabulary_add_end(vocabulary,
                              kn_words_find(&vocabulary->added_words, end_texts[i], strlen(end_texts[i])));
    vocabulary->summary =
        kn_arena_format(&vocabulary->arena, "%s, %d tokens", vocabulary->model.name, (int)vocabulary->size);
    return vocabulary->summary ? KN_OK : kn_fail_memory(&vocabulary->error, 0);
}

/* ---- opening ------------------------------------------------------------------------------------- */

kn_vocabulary *kn_vocabulary_create(const kn_host *host) {
    kn_vocabulary *vocabulary = kn_allocate(host, 1, sizeof *vocabulary);
    if (!vocabulary) return NULL;
    vocabulary->host = *host;
    kn_arena_init(&vocabulary->arena, &vocabulary->host);
    kn_text_model_init(&vocabulary->model, &vocabulary->host);
    kn_words_init(&vocabulary->added_words, &vocabulary->host);
    for (size_t i = 0; i < KN_COUNT_OF(vocabulary->roles); i++)
        vocabulary->roles[i] = -1;
    return vocabulary;
}

void kn_vocabulary_destroy(kn_vocabulary **pointer) {
    if (!pointer || !*pointer) return;
    kn_vocabulary *vocabulary = *pointer;
    kn_host host = vocabulary->host;
    for (size_t i = 0; i < vocabulary->normalizer_count; i++)
        kn_regex_destroy(&host, &vocabulary->normalizers[i].pattern.regex);
    for (size_t i = 0; i < vocabulary->splitter_count; i++)
        kn_regex_destroy(&host, &vocabulary->splitters[i].pattern.regex);
    for (size_t i = 0; i < vocabulary->decoder_count; i++)
        kn_regex_destroy(&host, &vocabulary->decoders[i].pattern.regex);
    kn_text_model_finish(&vocabulary->model, &host);
    kn_words_finish(&vocabulary->added_words);
    kn_trie_finish(&vocabulary->raw.trie, &host);
    kn_trie_finish(&vocabulary->raw.ordinary, &host);
    kn_trie_finish(&vocabulary->normalized.trie, &host);
    kn_trie_finish(&vocabulary->normalized.ordinary, &host);
    kn_arena_finish(&vocabulary->arena);
    kn_release(&host, vocabulary);
    *pointer = NULL;
}

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

static kn_status open_path(kn_vocabulary *vocabulary, const char *path) {
    if (kn_path_is_folder(path)) {
        const char *file = kn_path_join(&vocabulary->arena, path, "tokenizer.json");
        if (!file) return kn_fail_memory(&vocabulary->error, 0);
        if (!kn_path_exists(file))
            return kn_fail(&vocabulary->error, KN_ERROR_NOT_FOUND,
                           "the folder '%s' has no vocabulary; expected a file tokenizer.json", path);
        return open_json(vocabulary, file, path);
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
