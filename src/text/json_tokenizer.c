/* tokenizer.json, the file of the tokenizers package. A component that is not in the tables below is refused
 * by its name. */
#include "text/text_private.h"

#include <stdio.h>
#include <string.h>

enum { PARTS = 64 };

typedef struct reader {
    kn_vocabulary *vocabulary;
    kn_arena *arena;
    kn_error *error;
    const char *where; /* "normalizer", for messages */
} reader;

typedef kn_status read_part(reader *in, const kn_json *part);

/* ---- members -------------------------------------------------------------------------------------- */

static kn_status wrong(reader *in, const char *key, const kn_json *found, const char *expected) {
    return kn_fail(in->error, KN_ERROR_FORMAT, "%s: %s.%s is %s; expected %s", in->vocabulary->name,
                   in->where, key, found ? kn_json_kind_name(found->kind) : "missing", expected);
}

static bool is_null(const kn_json *value) {
    return !value || value->kind == KN_JSON_NULL;
}

static kn_status get_text(reader *in, const kn_json *part, const char *key, const char **text,
                          size_t *length) {
    const kn_json *value = kn_json_member(part, key);
    if (!value || value->kind != KN_JSON_STRING) return wrong(in, key, value, "a string");
    *text = kn_arena_copy(in->arena, value->text, value->length + 1, 1);
    *length = value->length;
    return *text ? KN_OK : kn_fail_memory(in->error, value->length);
}

/* A string that may be missing or null. */
static kn_status get_text_or(reader *in, const kn_json *part, const char *key, const char **text,
                             size_t *length) {
    return is_null(kn_json_member(part, key)) ? KN_OK : get_text(in, part, key, text, length);
}

/* Missing or null: *truth stays as it is. */
static kn_status get_bool(reader *in, const kn_json *part, const char *key, bool *truth) {
    const kn_json *value = kn_json_member(part, key);
    if (is_null(value)) return KN_OK;
    if (value->kind != KN_JSON_BOOL) return wrong(in, key, value, "true or false");
    *truth = value->truth;
    return KN_OK;
}

static kn_status get_count(reader *in, const kn_json *part, const char *key, int64_t *number) {
    const kn_json *value = kn_json_member(part, key);
    if (is_null(value)) return KN_OK;
    if (!kn_json_int64(value, number) || *number < 0 || *number > INT32_MAX)
        return wrong(in, key, value, "an integer of at least 0");
    return KN_OK;
}

/* One of the names, by its position. */
static kn_status get_choice(reader *in, const kn_json *part, const char *key, const char *const *names,
                            int count, int *choice) {
    const kn_json *value = kn_json_member(part, key);
    if (is_null(value)) return KN_OK;
    for (int i = 0; value->kind == KN_JSON_STRING && i < count; i++)
        if (strcmp(value->text, names[i]) == 0) {
            *choice = i;
            return KN_OK;
        }
    if (value->kind != KN_JSON_STRING) return wrong(in, key, value, "a string");
    return kn_fail(in->error, KN_ERROR_UNSUPPORTED, "%s: %s.%s is \"%s\", which Koine does not have",
                   in->vocabulary->name, in->where, key, value->text);
}

/* {"String": …} or {"Regex": …}, or only the string. */
static kn_status get_pattern(reader *in, const kn_json *part, kn_pattern *pattern) {
    const kn_json *value = kn_json_member(part, "pattern");
    if (value && value->kind == KN_JSON_STRING)
        return get_text(in, part, "pattern", &pattern->text, &pattern->length);
    const kn_json *regex = kn_json_member(value, "Regex");
    if (!regex) return get_text(in, value, "String", &pattern->text, &pattern->length);
    if (regex->kind != KN_JSON_STRING) return wrong(in, "pattern.Regex", regex, "a string");
    kn_status status =
        kn_regex_create(&in->vocabulary->host, regex->text, regex->length, &pattern->regex, in->error);
    return status == KN_OK ? KN_OK : kn_fail_in(in->error, "%s: %s", in->vocabulary->name, in->where);
}

/* ---- tables of components --------------------------------------------------------------------------- */

typedef struct component {
    const char *type;
    read_part *read;
    bool characters; /* needs Unicode tables */
} component;

static kn_status read_component(reader *in, const kn_json *part, const component *table, size_t count);

/* The members of a sequence in turn. */
static kn_status read_sequence(reader *in, const kn_json *part, const char *key, const component *table,
                               size_t count) {
    const kn_json *list = kn_json_member(part, key);
    if (!list || list->kind != KN_JSON_ARRAY) return wrong(in, key, list, "an array");
    kn_status status = KN_OK;
    for (const kn_json *item = list->first; item && status == KN_OK; item = item->next)
        status = read_component(in, item, table, count);
    return status;
}

static kn_status read_component(reader *in, const kn_json *part, const component *table, size_t count) {
    const kn_json *type = kn_json_member(part, "type");
    if (!type || type->kind != KN_JSON_STRING) return wrong(in, "type", type, "a string");
    for (size_t i = 0; i < count; i++) {
        if (strcmp(table[i].type, type->text) != 0) continue;
        if (table[i].characters) {
            char what[96];
            kn_error unused;
            kn_status status = kn_characters_check("", &unused);
            if (status != KN_OK) {
                snprintf(what, sizeof what, "the %s %s", in->where, table[i].type);
                kn_characters_check(what, in->error);
                return kn_fail_in(in->error, "%s", in->vocabulary->name);
            }
        }
        return table[i].read(in, part);
    }
    return kn_fail(in->error, KN_ERROR_UNSUPPORTED, "%s: the %s \"%s\" is not one that Koine has",
                   in->vocabulary->name, in->where, type->text);
}

/* Room for one more part of an array in the arena; NULL with an error if there are too many. */
static void *add_part(reader *in, void **parts, size_t *count, size_t size) {
    if (*count == PARTS) {
        kn_fail(in->error, KN_ERROR_UNSUPPORTED, "%s: more than %d parts of the %s", in->vocabulary->name,
                PARTS, in->where);
        return NULL;
    }
    if (!*parts && !(*parts = kn_arena_take(in->arena, PARTS, size))) {
        kn_fail_memory(in->error, PARTS * size);
        return NULL;
    }
    return (char *)*parts + size * (*count)++;
}

/* ---- normalizers ------------------------------------------------------------------------------------- */

static kn_normalizer *add_normalizer(reader *in, kn_normalizer_kind kind) {
    kn_normalizer *made =
        add_part(in, (void **)&in->vocabulary->normalizers, &in->vocabulary->normalizer_count, sizeof *made);
    if (made) made->kind = kind;
    return made;
}

static kn_status add_form(reader *in, bool compatible, bool composed) {
    kn_normalizer *made = add_normalizer(in, KN_NORMALIZER_FORM);
    if (!made) return in->error->status;
    made->compatible = compatible;
    made->composed = composed;
    return KN_OK;
}

static kn_status read_nfc(reader *in, const kn_json *part) {
    return add_form(in, false, true);
}
static kn_status read_nfd(reader *in, const kn_json *part) {
    return add_form(in, false, false);
}
static kn_status read_nfkc(reader *in, const kn_json *part) {
    return add_form(in, true, true);
}
static kn_status read_nfkd(reader *in, const kn_json *part) {
    return add_form(in, true, false);
}
static kn_status read_lowercase(reader *in, const kn_json *part) {
    return add_normalizer(in, KN_NORMALIZER_LOWERCASE) ? KN_OK : in->error->status;
}
static kn_status read_strip_accents(reader *in, const kn_json *part) {
    return add_normalizer(in, KN_NORMALIZER_STRIP_ACCENTS) ? KN_OK : in->error->status;
}
static kn_status read_bytes(reader *in, const kn_json *part) {
    return add_normalizer(in, KN_NORMALIZER_BYTES) ? KN_OK : in->error->status;
}

static kn_status read_prepend(reader *in, const kn_json *part) {
    kn_normalizer *made = add_normalizer(in, KN_NORMALIZER_PREPEND);
    return made ? get_text(in, part, "prepend", &made->content, &made->content_length) : in->error->status;
}

static kn_status read_replace(reader *in, const kn_json *part) {
    kn_normalizer *made = add_normalizer(in, KN_NORMALIZER_REPLACE);
    kn_status status = made ? get_pattern(in, part, &made->pattern) : in->error->status;
    return status == KN_OK ? get_text(in, part, "content", &made->content, &made->content_length) : status;
}

static kn_status read_strip(reader *in, const kn_json *part) {
    kn_normalizer *made = add_normalizer(in, KN_NORMALIZER_STRIP);
    if (!made) return in->error->status;
    made->left = made->right = true;
    kn_status status = get_bool(in, part, "strip_left", &made->left);
    return status == KN_OK ? get_bool(in, part, "strip_right", &made->right) : status;
}

static kn_status read_bert(reader *in, const kn_json *part) {
    kn_normalizer *made = add_normalizer(in, KN_NORMALIZER_BERT);
    if (!made) return in->error->status;
    made->clean = made->chinese = made->lower = true;
    kn_status status = get_bool(in, part, "clean_text", &made->clean);
    if (status == KN_OK) status = get_bool(in, part, "handle_chinese_chars", &made->chinese);
    if (status == KN_OK) status = get_bool(in, part, "lowercase", &made->lower);
    made->accents = made->lower;
    return status == KN_OK ? get_bool(in, part, "strip_accents", &made->accents) : status;
}

static read_part read_normalizers;
static const component normalizers[] = {
    {"Sequence", read_normalizers, false},
    {"NFC", read_nfc, true},
    {"NFD", read_nfd, true},
    {"NFKC", read_nfkc, true},
    {"NFKD", read_nfkd, true},
    {"Lowercase", read_lowercase, true},
    {"StripAccents", read_strip_accents, true},
    {"BertNormalizer", read_bert, true},
    {"Prepend", read_prepend, false},
    {"Replace", read_replace, false},
    {"Strip", read_strip, false},
    {"ByteLevel", read_bytes, false},
};

static kn_status read_normalizers(reader *in, const kn_json *part) {
    return read_sequence(in, part, "normalizers", normalizers, KN_COUNT_OF(normalizers));
}

/* ---- pre-tokenizers ------------------------------------------------------------------------------------ */

static const char *const behaviors[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                        "Contiguous"};
static const char *const prepends[] = {"always", "first", "never"};

static kn_splitter *add_splitter(reader *in, kn_splitter_kind kind, kn_split_behavior behavior) {
    kn_splitter *made =
        add_part(in, (void **)&in->vocabulary->splitters, &in->vocabulary->splitter_count, sizeof *made);
    if (made) *made = (kn_splitter){.kind = kind, .behavior = behavior};
    return made;
}

static kn_status get_behavior(reader *in, const kn_json *part, kn_split_behavior *behavior) {
    int choice = *behavior;
    kn_status status = get_choice(in, part, "behavior", behaviors, KN_COUNT_OF(behaviors), &choice);
    *behavior = (kn_split_behavior)choice;
    return status;
}

static kn_status read_split(reader *in, const kn_json *part) {
    kn_splitter *made = add_splitter(in, KN_SPLITTER_PATTERN, KN_SPLIT_ISOLATED);
    kn_status status = made ? get_pattern(in, part, &made->pattern) : in->error->status;
    if (status == KN_OK) status = get_behavior(in, part, &made->behavior);
    return status == KN_OK ? get_bool(in, part, "invert", &made->invert) : status;
}

static kn_status read_byte_level(reader *in, const kn_json *part) {
    bool prefix = true, regex = true;
    kn_status status = get_bool(in, part, "add_prefix_space", &prefix);
    if (status == KN_OK) status = get_bool(in, part, "use_regex", &regex);
    if (status == KN_OK && prefix && !add_splitter(in, KN_SPLITTER_PREFIX, KN_SPLIT_ISOLATED))
        return in->error->status;
    if (status == KN_OK && regex) {
        kn_splitter *made = add_splitter(in, KN_SPLITTER_PATTERN, KN_SPLIT_ISOLATED);
        if (!made) return in->error->status;
        status = kn_regex_create(&in->vocabulary->host, KN_REGEX_GPT2, strlen(KN_REGEX_GPT2),
                                 &made->pattern.regex, in->error);
        if (status != KN_OK) return kn_fail_in(in->error, "%s: %s", in->vocabulary->name, in->where);
    }
    if (status == KN_OK && !add_splitter(in, KN_SPLITTER_BYTES, KN_SPLIT_ISOLATED)) return in->error->status;
    return status;
}

static kn_status read_digits(reader *in, const kn_json *part) {
    bool individual = false;
    kn_status status = get_bool(in, part, "individual_digits", &individual);
    if (status != KN_OK) return status;
    return add_splitter(in, KN_SPLITTER_DIGITS, individual ? KN_SPLIT_ISOLATED : KN_SPLIT_CONTIGUOUS)
               ? KN_OK
               : in->error->status;
}

static kn_status read_punctuation(reader *in, const kn_json *part) {
    kn_splitter *made = add_splitter(in, KN_SPLITTER_PUNCTUATION, KN_SPLIT_ISOLATED);
    return made ? get_behavior(in, part, &made->behavior) : in->error->status;
}

static kn_status read_whitespace(reader *in, const kn_json *part) {
    return add_splitter(in, KN_SPLITTER_WORDS, KN_SPLIT_REMOVED) ? KN_OK : in->error->status;
}

static kn_status read_whitespace_split(reader *in, const kn_json *part) {
    return add_splitter(in, KN_SPLITTER_SPACE, KN_SPLIT_REMOVED) ? KN_OK : in->error->status;
}

static kn_status read_bert_pre(reader *in, const kn_json *part) {
    return add_splitter(in, KN_SPLITTER_SPACE, KN_SPLIT_REMOVED) &&
                   add_splitter(in, KN_SPLITTER_PUNCTUATION, KN_SPLIT_ISOLATED)
               ? KN_OK
               : in->error->status;
}

/* The letter, and where it is put in front; for the pre-tokenizer and the decoder. */
static kn_status get_metaspace(reader *in, const kn_json *part, kn_pattern *letter, kn_prepend *prepend) {
    bool prefix = true;
    int choice = KN_PREPEND_ALWAYS;
    kn_status status = get_text(in, part, "replacement", &letter->text, &letter->length);
    if (status == KN_OK && !letter->length)
        return wrong(in, "replacement", kn_json_member(part, "replacement"), "a character");
    if (status == KN_OK) status = get_bool(in, part, "add_prefix_space", &prefix);
    if (status == KN_OK)
        status = get_choice(in, part, "prepend_scheme", prepends, KN_COUNT_OF(prepends), &choice);
    *prepend = prefix ? (kn_prepend)choice : KN_PREPEND_NEVER;
    return status;
}

static kn_status read_metaspace(reader *in, const kn_json *part) {
    kn_splitter *made = add_splitter(in, KN_SPLITTER_METASPACE, KN_SPLIT_ISOLATED);
    if (!made) return in->error->status;
    bool split = true;
    kn_status status = get_metaspace(in, part, &made->pattern, &made->prepend);
    if (status == KN_OK) status = get_bool(in, part, "split", &split);
    if (split) made->behavior = KN_SPLIT_MERGED_NEXT;
    return status;
}

static read_part read_pre_tokenizers;
static const component pre_tokenizers[] = {
    {"Sequence", read_pre_tokenizers, false},
    {"ByteLevel", read_byte_level, false},
    {"Split", read_split, false},
    {"Digits", read_digits, true},
    {"Punctuation", read_punctuation, true},
    {"Whitespace", read_whitespace, true},
    {"WhitespaceSplit", read_whitespace_split, false},
    {"BertPreTokenizer", read_bert_pre, true},
    {"Metaspace", read_metaspace, false},
};

static kn_status read_pre_tokenizers(reader *in, const kn_json *part) {
    return read_sequence(in, part, "pretokenizers", pre_tokenizers, KN_COUNT_OF(pre_tokenizers));
}

/* ---- post-processors: the tokens before and after a text ------------------------------------------------
 */

static kn_status add_end(reader *in, bool after, const kn_json *id) {
    kn_vocabulary *vocabulary = in->vocabulary;
    int64_t token;
    if (!kn_json_int64(id, &token) || token < 0 || token >= KN_WORD_NUMBERS)
        return wrong(in, "id", id, "the id of a token");
    int32_t *slot = add_part(in, (void **)(after ? &vocabulary->after : &vocabulary->before),
                             after ? &vocabulary->after_count : &vocabulary->before_count, sizeof *slot);
    if (slot) *slot = (int32_t)token;
    return slot ? KN_OK : in->error->status;
}

static kn_status read_template(reader *in, const kn_json *part) {
    const kn_json *single = kn_json_member(part, "single"),
                  *specials = kn_json_member(part, "special_tokens");
    if (!single || single->kind != KN_JSON_ARRAY) return wrong(in, "single", single, "an array");
    int texts = 0;
    for (const kn_json *item = single->first; item; item = item->next) {
        const kn_json *special = kn_json_member(item, "SpecialToken"),
                      *text = kn_json_member(item, "Sequence");
        const kn_json *id = kn_json_member(special ? special : text, "id");
        if (!id || id->kind != KN_JSON_STRING)
            return wrong(in, "single", item, "SpecialToken or Sequence with an id");
        if (text) {
            texts++;
            continue;
        }
        const kn_json *ids = kn_json_member(kn_json_member(specials, id->text), "ids");
        if (!ids || ids->kind != KN_JSON_ARRAY)
            return wrong(in, "special_tokens", ids, "an array of ids for each token");
        for (const kn_json *one = ids->first; one; one = one->next) {
            kn_status status = add_end(in, texts > 0, one);
            if (status != KN_OK) return status;
        }
    }
    if (texts == 1) return KN_OK;
    return kn_fail(in->error, KN_ERROR_UNSUPPORTED, "%s: %s.single has the text %d times; expected once",
                   in->vocabulary->name, in->where, texts);
}

/* "cls": ["[CLS]", 101] before the text and "sep" after it. */
static kn_status read_class_separator(reader *in, const kn_json *part) {
    for (int after = 0; after < 2; after++) {
        const char *key = after ? "sep" : "cls";
        const kn_json *pair = kn_json_member(part, key);
        if (!pair || pair->kind != KN_JSON_ARRAY || pair->count != 2)
            return wrong(in, key, pair, "an array of a token and its id");
        kn_status status = add_end(in, after, pair->first->next);
        if (status != KN_OK) return status;
    }
    return KN_OK;
}

/* Only moves the offsets of tokens in the text, which Koine does not report. */
static kn_status read_offsets(reader *in, const kn_json *part) {
    return KN_OK;
}

static read_part read_processors;
static const component processors[] = {
    {"Sequence", read_processors, false},
    {"TemplateProcessing", read_template, false},
    {"BertProcessing", read_class_separator, false},
    {"RobertaProcessing", read_class_separator, false},
    {"ByteLevel", read_offsets, false},
};

static kn_status read_processors(reader *in, const kn_json *part) {
    return read_sequence(in, part, "processors", processors, KN_COUNT_OF(processors));
}

/* ---- decoders -------------------------------------------------------------------------------------------
 */

static kn_decoder *add_decoder(reader *in, kn_decoder_kind kind) {
    kn_decoder *made =
        add_part(in, (void **)&in->vocabulary->decoders, &in->vocabulary->decoder_count, sizeof *made);
    if (made) *made = (kn_decoder){.kind = kind};
    return made;
}

static kn_status decode_byte_level(reader *in, const kn_json *part) {
    return add_decoder(in, KN_DECODER_BYTES) ? KN_OK : in->error->status;
}

static kn_status decode_byte_fallback(reader *in, const kn_json *part) {
    return add_decoder(in, KN_DECODER_BYTE_FALLBACK) ? KN_OK : in->error->status;
}

static kn_status decode_replace(reader *in, const kn_json *part) {
    kn_decoder *made = add_decoder(in, KN_DECODER_REPLACE);
    kn_status status = made ? get_pattern(in, part, &made->pattern) : in->error->status;
    return status == KN_OK ? get_text(in, part, "content", &made->content, &made->content_length) : status;
}

static kn_status decode_metaspace(reader *in, const kn_json *part) {
    kn_decoder *made = add_decoder(in, KN_DECODER_METASPACE);
    return made ? get_metaspace(in, part, &made->pattern, &made->prepend) : in->error->status;
}

static kn_status decode_wordpiece(reader *in, const kn_json *part) {
    kn_decoder *made = add_decoder(in, KN_DECODER_WORDPIECE);
    if (!made) return in->error->status;
    made->content = "##";
    made->content_length = 2;
    made->clean = true;
    kn_status status = get_text_or(in, part, "prefix", &made->content, &made->content_length);
    return status == KN_OK ? get_bool(in, part, "cleanup", &made->clean) : status;
}

static kn_status decode_suffix(reader *in, const kn_json *part) {
    kn_decoder *made = add_decoder(in, KN_DECODER_SUFFIX);
    if (!made) return in->error->status;
    made->pattern.text = "</w>";
    made->pattern.length = 4;
    made->content = " ";
    made->content_length = 1;
    return get_text_or(in, part, "suffix", &made->pattern.text, &made->pattern.length);
}

/* After Fuse, a decoder treats the whole text as one token. */
static kn_status decode_fuse(reader *in, const kn_json *part) {
    return KN_OK;
}

static kn_status decode_strip(reader *in, const kn_json *part) {
    kn_decoder *made = add_decoder(in, KN_DECODER_STRIP);
    if (!made) return in->error->status;
    kn_status status = get_text(in, part, "content", &made->pattern.text, &made->pattern.length);
    if (status == KN_OK) status = get_count(in, part, "start", &made->start);
    if (status == KN_OK) status = get_count(in, part, "stop", &made->stop);
    if (status == KN_OK && !made->pattern.length)
        return wrong(in, "content", kn_json_member(part, "content"), "a character");
    return status;
}

static read_part read_decoders;
static const component decoders[] = {
    {"Sequence", read_decoders, false},
    {"ByteLevel", decode_byte_level, false},
    {"ByteFallback", decode_byte_fallback, false},
    {"Replace", decode_replace, false},
    {"Metaspace", decode_metaspace, false},
    {"WordPiece", decode_wordpiece, false},
    {"BPEDecoder", decode_suffix, false},
    {"Strip", decode_strip, false},
    {"Fuse", decode_fuse, false},
};

static kn_status read_decoders(reader *in, const kn_json *part) {
    const kn_json *list = kn_json_member(part, "decoders");
    if (!list || list->kind != KN_JSON_ARRAY) return wrong(in, "decoders", list, "an array");
    bool fused = false;
    for (const kn_json *item = list->first; item; item = item->next) {
        size_t before = in->vocabulary->decoder_count;
        kn_status status = read_component(in, item, decoders, KN_COUNT_OF(decoders));
        if (status != KN_OK) return status;
        const kn_json *type = kn_json_member(item, "type");
        for (size_t i = before; fused && i < in->vocabulary->decoder_count; i++) {
            kn_decoder *decoder = in->vocabulary->decoders + i;
            if (decoder->kind != KN_DECODER_STRIP || decoder->start > 1 || decoder->stop > 0)
                return kn_fail(
                    in->error, KN_ERROR_UNSUPPORTED,
                    "%s: the decoder %s after Fuse; Koine has only Strip with a start of at most 1 there",
                    in->vocabulary->name, type->text);
            decoder->whole = true;
        }
        fused |= strcmp(type->text, "Fuse") == 0;
    }
    return KN_OK;
}

/* ---- models -----------------------------------------------------------------------------------------------
 */

static kn_status add_word(reader *in, int64_t token, const char *text, size_t length) {
    size_t unused;
    if (token < 0 || token >= KN_WORD_NUMBERS)
        return kn_fail(in->error, KN_ERROR_FORMAT, "%s: the id of '%s' in %s.vocab is %lld; expected 0 to %d",
                       in->vocabulary->name, text, in->where, (long long)token, KN_WORD_NUMBERS - 1);
    if (kn_words_at(&in->vocabulary->model.words, token, &unused))
        return kn_fail(in->error, KN_ERROR_FORMAT, "%s: two words of %s.vocab have the id %lld",
                       in->vocabulary->name, in->where, (long long)token);
    return kn_words_put(&in->vocabulary->model.words, (uint32_t)token, text, length)
               ? KN_OK
               : kn_fail_memory(in->error, length);
}

/* {"word": id} */
static kn_status read_words(reader *in, const kn_json *part) {
    const kn_json *vocab = kn_json_member(part, "vocab");
    if (!vocab || vocab->kind != KN_JSON_OBJECT) return wrong(in, "vocab", vocab, "an object");
    for (const kn_json *word = vocab->first; word; word = word->next) {
        int64_t token;
        if (!kn_json_int64(word, &token)) return wrong(in, "vocab", word, "an integer for each word");
        kn_status status = add_word(in, token, word->key, word->key_length);
        if (status != KN_OK) return status;
    }
    return KN_OK;
}

static kn_status get_unknown(reader *in, const kn_json *part) {
    const char *text = NULL;
    size_t length = 0;
    kn_status status = get_text_or(in, part, "unk_token", &text, &length);
    if (status != KN_OK || !text) return status;
    in->vocabulary->model.unknown = kn_words_find(&in->vocabulary->model.words, text, length);
    return KN_OK;
}

/* Both tokens of a merge: "a b", or ["a", "b"]. */
static bool get_merge(const kn_json *item, const char *texts[2], size_t lengths[2]) {
    if (item->kind == KN_JSON_ARRAY && item->count == 2 && item->first->kind == KN_JSON_STRING &&
        item->first->next->kind == KN_JSON_STRING) {
        texts[0] = item->first->text;
        lengths[0] = item->first->length;
        texts[1] = item->first->next->text;
        lengths[1] = item->first->next->length;
        return true;
    }
    const char *space = item->kind == KN_JSON_STRING ? memchr(item->text, ' ', item->length) : NULL;
    if (!space) return false;
    texts[0] = item->text;
    lengths[0] = (size_t)(space - item->text);
    texts[1] = space + 1;
    lengths[1] = item->length - lengths[0] - 1;
    return true;
}

static kn_status read_merges(reader *in, const kn_json *part) {
    kn_text_model *model = &in->vocabulary->model;
    const kn_json *merges = kn_json_member(part, "merges");
    if (!merges || merges->kind != KN_JSON_ARRAY) return wrong(in, "merges", merges, "an array");
    uint32_t rank = 0;
    for (const kn_json *item = merges->first; item; item = item->next, rank++) {
        const char *texts[2];
        size_t lengths[2];
        if (!get_merge(item, texts, lengths)) return wrong(in, "merges", item, "two tokens in each item");
        const char *missing = kn_text_model_add_merge(model, &in->vocabulary->host, rank, texts[0],
                                                      lengths[0], texts[1], lengths[1]);
        if (missing && !missing[0]) return kn_fail_memory(in->error, 0);
        if (missing)
            return kn_fail(in->error, KN_ERROR_FORMAT,
                           "%s: merge %u of %s.merges, '%.*s' and '%.*s': %s is not in the vocabulary",
                           in->vocabulary->name, (unsigned)rank, in->where, (int)(lengths[0] & 0xff),
                           texts[0], (int)(lengths[1] & 0xff), texts[1], missing);
    }
    return KN_OK;
}

static kn_status read_bpe(reader *in, const kn_json *part) {
    kn_text_model *model = &in->vocabulary->model;
    const kn_json *dropout = kn_json_member(part, "dropout");
    size_t unused;
    model->name = "BPE";
    model->encode = kn_bpe_encode;
    if (!is_null(dropout) && !(dropout->kind == KN_JSON_NUMBER && dropout->number == 0))
        return kn_fail(in->error, KN_ERROR_UNSUPPORTED,
                       "%s: %s.dropout is set, which makes tokens random; expected null",
                       in->vocabulary->name, in->where);
    kn_status status = read_words(in, part);
    if (status == KN_OK) status = get_unknown(in, part);
    if (status == KN_OK) status = get_bool(in, part, "fuse_unk", &model->fuse_unknown);
    if (status == KN_OK) status = get_bool(in, part, "byte_fallback", &model->byte_fallback);
    if (status == KN_OK) status = get_bool(in, part, "ignore_merges", &model->ignore_merges);
    if (status == KN_OK) status = get_text_or(in, part, "continuing_subword_prefix", &model->prefix, &unused);
    if (status == KN_OK) status = get_text_or(in, part, "end_of_word_suffix", &model->suffix, &unused);
    return status == KN_OK ? read_merges(in, part) : status;
}

static kn_status read_wordpiece(reader *in, const kn_json *part) {
    kn_text_model *model = &in->vocabulary->model;
    size_t length = 2;
    int64_t longest = 100;
    model->name = "WordPiece";
    model->encode = kn_wordpiece_encode;
    model->prefix = "##";
    kn_status status = read_words(in, part);
    if (status == KN_OK) status = get_unknown(in, part);
    if (status == KN_OK) status = get_text_or(in, part, "continuing_subword_prefix", &model->prefix, &length);
    if (status == KN_OK) status = get_count(in, part, "max_input_chars_per_word", &longest);
    if (status != KN_OK) return status;
    model->longest = (size_t)longest;
    if (!kn_text_model_grow(model, &in->vocabulary->host)) return kn_fail_memory(in->error, 0);
    model->continues = kn_trie_node(&model->trie, model->prefix, length);
    return KN_OK;
}

static kn_status read_wordlevel(reader *in, const kn_json *part) {
    in->vocabulary->model.name = "WordLevel";
    in->vocabulary->model.encode = kn_wordlevel_encode;
    kn_status status = read_words(in, part);
    return status == KN_OK ? get_unknown(in, part) : status;
}

/* [["word", score], …], the position is the id. */
static kn_status read_unigram(reader *in, const kn_json *part) {
    kn_text_model *model = &in->vocabulary->model;
    const kn_json *vocab = kn_json_member(part, "vocab"), *unknown = kn_json_member(part, "unk_id");
    model->name = "Unigram";
    model->encode = kn_unigram_encode;
    if (!vocab || vocab->kind != KN_JSON_ARRAY) return wrong(in, "vocab", vocab, "an array");
    double *scores = kn_arena_take(in->arena, vocab->count, sizeof *scores);
    if (!scores) return kn_fail_memory(in->error, vocab->count * sizeof *scores);
    model->scores = scores;
    int64_t token = 0;
    for (const kn_json *item = vocab->first; item; item = item->next, token++) {
        const kn_json *word = item->first, *score = word ? word->next : NULL;
        if (item->kind != KN_JSON_ARRAY || item->count != 2 || word->kind != KN_JSON_STRING ||
            score->kind != KN_JSON_NUMBER)
            return wrong(in, "vocab", item, "an array of a string and a number for each word");
        kn_status status = add_word(in, token, word->text, word->length);
        if (status != KN_OK) return status;
        scores[token] = score->number;
        if (token == 0 || score->number < model->least) model->least = score->number;
    }
    kn_status status = get_bool(in, part, "byte_fallback", &model->byte_fallback);
    if (status != KN_OK) return status;
    if (!is_null(unknown) &&
        (!kn_json_int64(unknown, &model->unknown) || model->unknown < 0 || model->unknown >= token))
        return wrong(in, "unk_id", unknown, "the id of a word");
    return kn_text_model_grow(model, &in->vocabulary->host) ? KN_OK : kn_fail_memory(in->error, 0);
}

static const component models[] = {
    {"BPE", read_bpe, false},
    {"WordPiece", read_wordpiece, false},
    {"Unigram", read_unigram, false},
    {"WordLevel", read_wordlevel, false},
};

/* ---- added tokens
 * ------------------------------------------------------------------------------------------- */

static kn_status read_added(reader *in, const kn_json *list) {
    kn_vocabulary *vocabulary = in->vocabulary;
    if (is_null(list)) return KN_OK;
    if (list->kind != KN_JSON_ARRAY)
        return kn_fail(in->error, KN_ERROR_FORMAT, "%s: added_tokens is %s; expected an array",
                       vocabulary->name, kn_json_kind_name(list->kind));
    vocabulary->added = kn_arena_take(in->arena, list->count, sizeof *vocabulary->added);
    if (!vocabulary->added) return kn_fail_memory(in->error, list->count * sizeof *vocabulary->added);
    for (const kn_json *item = list->first; item; item = item->next) {
        kn_added added = {0};
        int64_t token = -1;
        kn_status status = get_text(in, item, "content", &added.text, &added.length);
        const kn_json *id = kn_json_member(item, "id");
        if (status == KN_OK && (!kn_json_int64(id, &token) || token < 0 || token >= KN_WORD_NUMBERS))
            return wrong(in, "id", id, "the id of a token");
        added.token = (int32_t)token;
        if (status == KN_OK) status = get_bool(in, item, "special", &added.special);
        added.normalized = !added.special;
        if (status == KN_OK) status = get_bool(in, item, "normalized", &added.normalized);
        if (status == KN_OK) status = get_bool(in, item, "single_word", &added.single_word);
        if (status == KN_OK) status = get_bool(in, item, "lstrip", &added.left);
        if (status == KN_OK) status = get_bool(in, item, "rstrip", &added.right);
        if (status == KN_OK && added.single_word)
            status = kn_characters_check("an added token with single_word", in->error);
        if (status != KN_OK) return status;
        if (added.length) vocabulary->added[vocabulary->added_count++] = added;
    }
    return KN_OK;
}

/* ---- the file
 * ------------------------------------------------------------------------------------------------ */

/* Whether a text may lose its beginning, so that it is unknown which piece begins the text. */
static kn_status check_first(reader *in) {
    const kn_vocabulary *vocabulary = in->vocabulary;
    bool first = false;
    for (size_t i = 0; i < vocabulary->splitter_count; i++)
        first |= vocabulary->splitters[i].kind == KN_SPLITTER_METASPACE &&
                 vocabulary->splitters[i].prepend == KN_PREPEND_FIRST;
    for (size_t i = 0; first && i < vocabulary->normalizer_count; i++) {
        kn_normalizer_kind kind = vocabulary->normalizers[i].kind;
        if (kind == KN_NORMALIZER_STRIP || kind == KN_NORMALIZER_STRIP_ACCENTS || kind == KN_NORMALIZER_BERT)
            return kn_fail(
                in->error, KN_ERROR_UNSUPPORTED,
                "%s: the pre-tokenizer Metaspace with prepend_scheme \"first\" after a normalizer that "
                "removes characters",
                vocabulary->name);
    }
    return KN_OK;
}

kn_status kn_tokenizer_read(kn_vocabulary *vocabulary, const kn_json *root) {
    reader in = {vocabulary, &vocabulary->arena, &vocabulary->error, ""};
    static const struct {
        const char *key, *where;
        const component *table;
        size_t count;
    } sections[] = {
        {"normalizer", "normalizer", normalizers, KN_COUNT_OF(normalizers)},
        {"pre_tokenizer", "pre_tokenizer", pre_tokenizers, KN_COUNT_OF(pre_tokenizers)},
        {"post_processor", "post_processor", processors, KN_COUNT_OF(processors)},
        {"decoder", "decoder", decoders, KN_COUNT_OF(decoders)},
    };
    const kn_json *model = kn_json_member(root, "model");
    in.where = "model";
    if (!model || model->kind != KN_JSON_OBJECT)
        return kn_fail(
            in.error, KN_ERROR_FORMAT,
            "%s: model is %s; expected an object: this is not the tokenizer.json of a language model",
            vocabulary->name, model ? kn_json_kind_name(model->kind) : "missing");
    /* Old files have no type. */
    kn_status status = kn_json_member(model, "type") ? read_component(&in, model, models, KN_COUNT_OF(models))
                       : kn_json_member(model, "merges") ? read_bpe(&in, model)
                                                         : wrong(&in, "type", NULL, "a string");
    kn_text_model_find_bytes(&vocabulary->model);
    for (size_t i = 0; i < KN_COUNT_OF(sections) && status == KN_OK; i++) {
        const kn_json *part = kn_json_member(root, sections[i].key);
        in.where = sections[i].where;
        if (!is_null(part)) status = read_component(&in, part, sections[i].table, sections[i].count);
    }
    if (status == KN_OK && is_null(kn_json_member(root, "decoder")) && !add_decoder(&in, KN_DECODER_SPACES))
        status = in.error->status;
    if (status == KN_OK) status = check_first(&in);
    in.where = "added_tokens";
    return status == KN_OK ? read_added(&in, kn_json_member(root, "added_tokens")) : status;
}
