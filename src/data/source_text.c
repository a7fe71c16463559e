/* Text as samples: windows of characters or bytes, with the window shifted by one as the target; from a file,
 * whose last tenth is the test part, or from generated sentences. */
#include "data/pairs.h"

#include <string.h>

#include "data/tokens.h"

enum { MADE_TRAIN = 1000000, MADE_TEST = 100000, CODES = 0x110000, LENGTH = 64 };

/* The characters of the generated sentences. */
static const char made_characters[] = "\n \".abcdefghijklmnopqrstuvwxyz";

typedef struct text_options {
    uint64_t length, stride, vocabulary; /* vocabulary: number of byte-pair tokens; 0: characters */
    bool bytes;
} text_options;

/* ---- vocabularies ---------------------------------------------------------------------- */

/* Maps characters to ids: ASCII by a table, others by a hash map. */
typedef struct vocabulary {
    const kn_host *host;
    uint32_t *codes; /* by id */
    int count;
    int32_t ascii[128]; /* -1: none */
    kn_map others;      /* code -> its entry in codes */
} vocabulary;

static void vocabulary_finish(vocabulary *vocab) {
    kn_release(vocab->host, vocab->codes);
    if (vocab->others.host) kn_map_finish(&vocab->others);
}

/* Builds the map from codes to ids. A character that occurs twice gets its last id. */
static kn_status index_codes(vocabulary *vocab, kn_error *error) {
    kn_map_init(&vocab->others, vocab->host);
    for (int i = 0; i < 128; i++)
        vocab->ascii[i] = -1;
    for (int i = 0; i < vocab->count; i++) {
        uint32_t code = vocab->codes[i];
        if (code < 128)
            vocab->ascii[code] = i;
        else if (!kn_map_put(&vocab->others, &code, sizeof code, &vocab->codes[i]))
            return kn_fail_memory(error, (size_t)vocab->count * sizeof code);
    }
    return KN_OK;
}

static int number_of(const vocabulary *vocab, uint32_t code) {
    if (code < 128) return vocab->ascii[code];
    const uint32_t *entry = kn_map_get(&vocab->others, &code, sizeof code);
    return entry ? (int)(entry - vocab->codes) : -1;
}

/* The characters of a given vocabulary, in order. */
static kn_status given_vocabulary(vocabulary *vocab, const char *given, kn_error *error) {
    size_t bytes = strlen(given);
    vocab->codes = kn_allocate(vocab->host, bytes + 1, sizeof *vocab->codes);
    if (!vocab->codes) return kn_fail_memory(error, bytes * sizeof *vocab->codes);
    for (size_t at = 0; at < bytes;) {
        size_t length = kn_utf8_read((const uint8_t *)given + at, bytes - at, &vocab->codes[vocab->count]);
        if (length == 0)
            return kn_fail(error, KN_ERROR_FORMAT, "the text vocabulary is not valid UTF-8 at byte %zu", at);
        vocab->count++;
        at += length;
    }
    return index_codes(vocab, error);
}

/* The line number of a position. */
static unsigned long long line_of(const uint8_t *bytes, uint64_t at) {
    unsigned long long line = 1;
    for (uint64_t i = 0; i < at; i++)
        line += bytes[i] == '\n';
    return line;
}

/* The characters of a text, in the order of their codes. */
static kn_status own_vocabulary(vocabulary *vocab, const char *path, const uint8_t *bytes, uint64_t count,
                                kn_error *error) {
    uint8_t *seen = kn_allocate(vocab->host, CODES / 8, 1);
    if (!seen) return kn_fail_memory(error, CODES / 8);
    kn_status status = KN_OK;
    for (uint64_t at = 0; at < count && status == KN_OK;) {
        uint32_t code;
        size_t length = kn_utf8_read(bytes + at, count - at, &code);
        if (length == 0 || code == 0) {
            status = kn_fail(error, KN_ERROR_FORMAT,
                             "%s: line %llu is not valid UTF-8 (byte %llu of the file); \"text:%s,bytes\" "
                             "reads any file as bytes",
                             path, line_of(bytes, at), (unsigned long long)at, path);
            break;
        }
        if (!(seen[code / 8] >> (code % 8) & 1)) vocab->count++;
        seen[code / 8] |= (uint8_t)(1u << (code % 8));
        at += length;
    }
    if (status == KN_OK) {
        vocab->codes = kn_allocate(vocab->host, (size_t)vocab->count + 1, sizeof *vocab->codes);
        if (!vocab->codes) status = kn_fail_memory(error, (size_t)vocab->count * sizeof *vocab->codes);
    }
    for (uint32_t code = 0, i = 0; status == KN_OK && code < CODES; code++)
        if (seen[code / 8] >> (code % 8) & 1) vocab->codes[i++] = code;
    kn_release(vocab->host, seen);
    return status == KN_OK ? index_codes(vocab, error) : status;
}

/* The characters concatenated, for kn_dataset_vocabulary. NULL when out of memory. */
static char *vocabulary_text(const vocabulary *vocab) {
    char *text = kn_allocate(vocab->host, (size_t)vocab->count * 4 + 1, 1);
    size_t used = 0;
    for (int i = 0; text && i < vocab->count; i++)
        used += kn_utf8_write(text + used, vocab->codes[i]);
    return text;
}

/* ---- tokens -------------------------------------------------------------------------------- */

/* The token ids of a text: bytes if ids fit, otherwise int32. */
typedef struct tokens {
    void *numbers;
    uint64_t count;
    bool wide;
} tokens;

static kn_status encode(const vocabulary *vocab, const char *path, const uint8_t *bytes, uint64_t count,
                        tokens *out, kn_error *error) {
    out->wide = vocab->count > 256;
    out->numbers = kn_allocate(vocab->host, (size_t)count + 1, out->wide ? sizeof(int32_t) : 1);
    if (!out->numbers)
        return kn_fail_memory_for(error, "the tokens of the text", count, out->wide ? sizeof(int32_t) : 1);
    for (uint64_t at = 0; at < count;) {
        uint32_t code = 0;
        size_t length = kn_utf8_read(bytes + at, count - at, &code);
        int number = length > 0 ? number_of(vocab, code) : -1;
        if (number < 0)
            return kn_fail(
                error, KN_ERROR_FORMAT,
                "%s: line %llu has the character U+%04lX, which is not among the %d tokens of the vocabulary",
                path, line_of(bytes, at), (unsigned long)code, vocab->count);
        if (out->wide)
            ((int32_t *)out->numbers)[out->count++] = number;
        else
            ((uint8_t *)out->numbers)[out->count++] = (uint8_t)number;
        at += length;
    }
    return KN_OK;
}

/* encode with a byte-pair vocabulary. */
static kn_status encode_pairs(const kn_pairs *pairs, const char *path, const uint8_t *bytes, uint64_t count,
                              tokens *out, kn_error *error) {
    out->wide = pairs->count > 256;
    out->numbers = kn_allocate(pairs->host, (size_t)count + 1, out->wide ? sizeof(int32_t) : 1);
    if (!out->numbers)
        return kn_fail_memory_for(error, "the tokens of the text", count, out->wide ? sizeof(int32_t) : 1);
    for (uint64_t at = 0, used; at < count; at += used) {
        int32_t numbers[KN_PIECE_MAX];
        int vocab = kn_pairs_encode(pairs, bytes + at, count - at, numbers, &used);
        if (vocab == 0)
            return kn_fail(error, KN_ERROR_FORMAT,
                           "%s: line %llu has a character that is not among the %d tokens of the vocabulary",
                           path, line_of(bytes, at), pairs->count);
        for (int i = 0; i < vocab; i++, out->count++)
            if (out->wide)
                ((int32_t *)out->numbers)[out->count] = numbers[i];
            else
                ((uint8_t *)out->numbers)[out->count] = (uint8_t)numbers[i];
    }
    return KN_OK;
}

/* ---- samples ------------------------------------------------------------------------------ */

/* A store of the windows of tokens [first, first + count). x and y are (length). */
static kn_sample_store *make_store(const kn_host *host, const char *name, const tokens *all, uint64_t first,
                                   uint64_t count, int classes, const char *vocab, const text_options *how,
                                   const kn_source_options *options, kn_error *error) {
    if (count <= how->length) {
        kn_fail(error, KN_ERROR_SHAPE,
                "data \"%s\": a part of %llu %s is too short for sequences of %llu and the next one", name,
                (unsigned long long)count, vocab && !kn_pairs_is(vocab) ? "characters" : "tokens",
                (unsigned long long)how->length);
        return NULL;
    }
    uint64_t windows = (count - 1 - how->length) / how->stride + 1;
    if (windows > UINT32_MAX) {
        kn_fail(error, KN_ERROR_UNSUPPORTED, "data \"%s\": %llu sequences; at most 4294967295 are supported",
                name, (unsigned long long)windows);
        return NULL;
    }
    kn_sample_store *store = kn_sample_store_create(host, error);
    if (!store) return NULL;
    size_t bytes = all->wide ? sizeof(int32_t) : 1;
    store->count = windows < options->max_samples ? windows : options->max_samples;
    store->classes = classes;
    store->blocks[0] = kn_allocate(host, (size_t)count, bytes);
    store->vocabulary = vocab ? kn_copy_text(host, vocab) : NULL;
    const kn_tensor_info sample = {all->wide ? KN_INT32 : KN_UINT8, 1, {(int64_t)how->length}};
    kn_sample_field *x = NULL, *y = NULL;
    kn_status status = KN_OK;
    if (!store->blocks[0] || (vocab && !store->vocabulary))
        status = kn_fail_memory_for(error, "the tokens of the text", count, bytes);
    if (status == KN_OK) status = kn_sample_store_add(store, "x", &sample, KN_INT32, 1, &x, error);
    if (status == KN_OK) status = kn_sample_store_add(store, "y", &sample, KN_INT32, 1, &y, error);
    if (status != KN_OK) {
        kn_sample_store_leave(store);
        return NULL;
    }
    memcpy(store->blocks[0], (const uint8_t *)all->numbers + (size_t)first * bytes, (size_t)count * bytes);
    x->bytes = store->blocks[0];
    y->bytes = (const uint8_t *)store->blocks[0] + bytes;
    x->step_bytes = y->step_bytes = (size_t)how->stride * bytes;
    return store;
}

/* Two parts: [0, train) and [train, count). */
static kn_status make_parts(kn_dataset *dataset, const char *name, const tokens *all, uint64_t train,
                            int classes, const char *vocab, const text_options *how,
                            const kn_source_options *options) {
    kn_error *error = &dataset->error;
    const kn_host *host = &dataset->host;
    dataset->store = make_store(host, name, all, 0, train, classes, vocab, how, options, error);
    if (dataset->store)
        dataset->test =
            make_store(host, name, all, train, all->count - train, classes, vocab, how, options, error);
    return error->status;
}

/* With the vocabulary of a language model. A short last tenth is not a test part, but part of the text. */
static kn_status read_words(kn_dataset *dataset, const char *path, const kn_file_view *view,
                            const text_options *how, const kn_source_options *options) {
    kn_error *error = &dataset->error;
    kn_words words;
    int32_t *numbers = NULL;
    size_t count = 0;
    kn_status status = kn_words_open(&words, &dataset->host, options->tokenizer, error);
    if (status == KN_OK && view->count > SIZE_MAX)
        status = kn_fail_memory(error, SIZE_MAX);
    else if (status == KN_OK)
        status = kn_words_encode(&words, path, (const char *)view->bytes, (size_t)view->count,
                                 KN_TEXT_ADD_ENDS, &numbers, &count, error);
    const tokens all = {numbers, count, true};
    const int classes = status == KN_OK ? kn_vocabulary_size(words.vocabulary) : 0;
    if (status == KN_OK && count / 10 > how->length) {
        status = make_parts(dataset, path, &all, count - count / 10, classes, NULL, how, options);
    } else if (status == KN_OK) {
        dataset->store = make_store(&dataset->host, path, &all, 0, count, classes, NULL, how, options, error);
        status = error->status;
    }
    kn_release(&dataset->host, numbers);
    kn_words_close(&words);
    return status;
}

/* Uses the given byte-pair vocabulary, or trains one. */
static kn_status read_pairs(kn_dataset *dataset, const char *path, const kn_file_view *view,
                            const text_options *how, const kn_source_options *options) {
    kn_error *error = &dataset->error;
    const kn_host *host = &dataset->host;
    vocabulary vocab = {.host = host};
    kn_pairs pairs = {.host = NULL};
    tokens all = {0};
    char *alphabet = NULL;
    kn_status status;
    if (options->vocabulary) {
        status = kn_pairs_open(&pairs, host, options->vocabulary, error);
    } else {
        status = own_vocabulary(&vocab, path, view->bytes, view->count, error);
        if (status == KN_OK && !(alphabet = vocabulary_text(&vocab)))
            status = kn_fail_memory(error, (size_t)vocab.count * 4);
        if (status == KN_OK)
            status = kn_pairs_learn(&pairs, host, path, view->bytes, view->count, alphabet, how->vocabulary,
                                    error);
    }
    if (status == KN_OK) status = encode_pairs(&pairs, path, view->bytes, view->count, &all, error);
    if (status == KN_OK)
        status = make_parts(dataset, path, &all, all.count - all.count / 10, pairs.count, pairs.text, how,
                            options);
    kn_release(host, alphabet);
    kn_release(host, all.numbers);
    kn_pairs_close(&pairs);
    vocabulary_finish(&vocab);
    return status;
}

static kn_status read_file(kn_dataset *dataset, const char *path, const text_options *how,
                           const kn_source_options *options) {
    kn_error *error = &dataset->error;
    kn_file_view view;
    vocabulary vocab = {.host = &dataset->host};
    tokens all = {0};
    char *text = NULL;
    kn_status status = kn_file_open_view(&dataset->host, path, &view, error);
    if (status != KN_OK) return status;
    if (how->bytes) {
        /* Each byte is its own id. */
        all = (tokens){(void *)(uintptr_t)view.bytes, view.count, false};
        status = make_parts(dataset, path, &all, all.count - all.count / 10, 256, "", how, options);
        all.numbers = NULL;
    } else if (options->tokenizer && !options->vocabulary && !how->vocabulary) {
        status = read_words(dataset, path, &view, how, options);
    } else if (options->vocabulary ? kn_pairs_is(options->vocabulary) : how->vocabulary > 0) {
        status = read_pairs(dataset, path, &view, how, options);
    } else {
        status = options->vocabulary ? given_vocabulary(&vocab, options->vocabulary, error)
                                     : own_vocabulary(&vocab, path, view.bytes, view.count, error);
        if (status == KN_OK) status = encode(&vocab, path, view.bytes, view.count, &all, error);
        if (status == KN_OK) {
            text = vocabulary_text(&vocab);
            status = text ? make_parts(dataset, path, &all, all.count - all.count / 10, vocab.count, text,
                                       how, options)
                          : kn_fail_memory(error, (size_t)vocab.count * 4);
        }
    }
    kn_release(&dataset->host, text);
    kn_release(&dataset->host, all.numbers);
    vocabulary_finish(&vocab);
    kn_file_close_view(&dataset->host, &view);
    return status;
}

/* The sentences of both parts, concatenated and truncated to length. */
static kn_status make_sentences(kn_dataset *dataset, const text_options *how,
                                const kn_source_options *options) {
    kn_error *error = &dataset->error;
    const kn_host *host = &dataset->host;
    const uint64_t ends[2] = {MADE_TRAIN, MADE_TRAIN + MADE_TEST};
    vocabulary vocab = {.host = host};
    tokens all = {0};
    uint8_t *bytes = kn_allocate(host, MADE_TRAIN + MADE_TEST, 1);
    kn_status status =
        bytes ? given_vocabulary(&vocab, made_characters, error) : kn_fail_memory(error, ends[1]);
    uint64_t used = 0;
    for (int part = 0; part < 2 && status == KN_OK; part++)
        for (uint64_t i = 0; used < ends[part]; i++) {
            char sentence[KN_SENTENCE_MAX];
            uint64_t length = (uint64_t)kn_made_sentence(part == 1, i, sentence), room = ends[part] - used;
            if (length > room) length = room;
            memcpy(bytes + used, sentence, (size_t)length);
            used += length;
        }
    if (status == KN_OK) status = encode(&vocab, "text", bytes, used, &all, error);
    if (status == KN_OK)
        status = make_parts(dataset, "text", &all, MADE_TRAIN, vocab.count, made_characters, how, options);
    kn_release(host, bytes);
    kn_release(host, all.numbers);
    vocabulary_finish(&vocab);
    return status;
}

static kn_status open_text(kn_dataset *dataset, const char *rest, const kn_source_options *options) {
    text_options how = {0};
    const kn_spec_option known[] = {{"length", KN_SPEC_COUNT, &how.length},
                                    {"stride", KN_SPEC_COUNT, &how.stride},
                                    {"vocabulary", KN_SPEC_COUNT, &how.vocabulary},
                                    {"bytes", KN_SPEC_FLAG, &how.bytes}};
    kn_error *error = &dataset->error;
    char *path;
    kn_status status = kn_spec_read(&dataset->host, "text", rest, &path, known, KN_COUNT_OF(known), error);
    if (status != KN_OK) return status;
    if (!how.length)
        how.length = options->expected && options->expected->rank == 1 && options->expected->shape[0] > 0
                         ? (uint64_t)options->expected->shape[0]
                         : LENGTH;
    if (!how.stride) how.stride = how.length;
    if (path && options->vocabulary && !options->vocabulary[0]) how.bytes = true;
    if (how.length > 1 << 24 || how.stride > 1 << 24)
        status = kn_fail(error, KN_ERROR_ARGUMENT,
                         "data \"text%s\": expected length and stride of at most 16777216", rest);
    else if (how.bytes && how.vocabulary)
        status = kn_fail(error, KN_ERROR_ARGUMENT,
                         "data \"text%s\": expected either bytes or vocabulary, not both", rest);
    else if (path)
        status = read_file(dataset, path, &how, options);
    else if (how.vocabulary)
        status = kn_fail(error, KN_ERROR_ARGUMENT,
                         "data \"text%s\": vocabulary needs a file, as in text:FILE,vocabulary=512", rest);
    else if (how.bytes)
        status = kn_fail(error, KN_ERROR_ARGUMENT,
                         "data \"text%s\": bytes needs a file, as in text:FILE,bytes; the generated "
                         "sentences have %zu characters",
                         rest, sizeof made_characters - 1);
    else
        status = make_sentences(dataset, &how, options);
    kn_release(&dataset->host, path);
    return status;
}

const kn_source_row kn_data_source_sentences = {
    .name = "text",
    .usage = "text[,length=N][,stride=N]",
    .text = "sentences of a small grammar in 30 characters, a million for training and 100,000 for\n"
            "testing: sequences of N characters (as the model expects, else 64), one every `stride`\n"
            "characters (N); the target is the next character at each position",
    .open = open_text,
    .path_optional = true};

const kn_source_row kn_data_source_text = {
    .name = "text",
    .usage = "text:FILE[,length=N][,stride=N][,vocabulary=N][,bytes]",
    .text = "a text in UTF-8, as characters, as N byte-pair tokens trained on it, or any file as bytes;\n"
            "for language models, as tokens of the model; the last tenth is the test part",
    .open = open_text};
