/* tokenizer.json, the file of the tokenizers package. A component that is not in the tables below, or that of
 * models (json_model.c), is an error that names it. */
#include <string.h>

#include "text/json_part.h"

/* ---- normalizers ------------------------------------------------------------------------------------- */

static kn_normalizer *add_normalizer(kn_part_reader *in, kn_normalizer_kind kind) {
    kn_normalizer *made = kn_part_room(in, (void **)&in->vocabulary->normalizers,
                                       &in->vocabulary->normalizer_count, sizeof *made);
    if (made) made->kind = kind;
    return made;
}

static kn_status add_form(kn_part_reader *in, bool compatible, bool composed) {
    kn_normalizer *made = add_normalizer(in, KN_NORMALIZER_FORM);
    if (!made) return in->error->status;
    made->compatible = compatible;
    made->composed = composed;
    return KN_OK;
}

static kn_status read_nfc(kn_part_reader *in, const kn_json *part) {
    return add_form(in, false, true);
}
static kn_status read_nfd(kn_part_reader *in, const kn_json *part) {
    return add_form(in, false, false);
}
static kn_status read_nfkc(kn_part_reader *in, const kn_json *part) {
    return add_form(in, true, true);
}
static kn_status read_nfkd(kn_part_reader *in, const kn_json *part) {
    return add_form(in, true, false);
}
static kn_status read_lowercase(kn_part_reader *in, const kn_json *part) {
    return add_normalizer(in, KN_NORMALIZER_LOWERCASE) ? KN_OK : in->error->status;
}
static kn_status read_strip_accents(kn_part_reader *in, const kn_json *part) {
    return add_normalizer(in, KN_NORMALIZER_STRIP_ACCENTS) ? KN_OK : in->error->status;
}
static kn_status read_bytes(kn_part_reader *in, const kn_json *part) {
    return add_normalizer(in, KN_NORMALIZER_BYTES) ? KN_OK : in->error->status;
}

static kn_status read_prepend(kn_part_reader *in, const kn_json *part) {
    kn_normalizer *made = add_normalizer(in, KN_NORMALIZER_PREPEND);
    return made ? kn_part_text(in, part, "prepend", &made->content, &made->content_length)
                : in->error->status;
}

static kn_status read_replace(kn_part_reader *in, const kn_json *part) {
    kn_normalizer *made = add_normalizer(in, KN_NORMALIZER_REPLACE);
    kn_status status = made ? kn_part_pattern(in, part, &made->pattern) : in->error->status;
    return status == KN_OK ? kn_part_text(in, part, "content", &made->content, &made->content_length)
                           : status;
}

static kn_status read_strip(kn_part_reader *in, const kn_json *part) {
    kn_normalizer *made = add_normalizer(in, KN_NORMALIZER_STRIP);
    if (!made) return in->error->status;
    made->left = made->right = true;
    kn_status status = kn_part_bool(in, part, "strip_left", &made->left);
    return status == KN_OK ? kn_part_bool(in, part, "strip_right", &made->right) : status;
}

static kn_status read_bert(kn_part_reader *in, const kn_json *part) {
    kn_normalizer *made = add_normalizer(in, KN_NORMALIZER_BERT);
    if (!made) return in->error->status;
    made->clean = made->chinese = made->lower = true;
    kn_status status = kn_part_bool(in, part, "clean_text", &made->clean);
    if (status == KN_OK) status = kn_part_bool(in, part, "handle_chinese_chars", &made->chinese);
    if (status == KN_OK) status = kn_part_bool(in, part, "lowercase", &made->lower);
    made->accents = made->lower;
    return status == KN_OK ? kn_part_bool(in, part, "strip_accents", &made->accents) : status;
}

static kn_read_part read_normalizers;
static const kn_component normalizers[] = {
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

static kn_status read_normalizers(kn_part_reader *in, const kn_json *part) {
    return kn_components_read(in, part, "normalizers", normalizers, KN_COUNT_OF(normalizers));
}

/* ---- pre-tokenizers ------------------------------------------------------------------------------------ */

static const char *const behaviors[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                        "Contiguous"};
static const char *const prepends[] = {"always", "first", "never"};

static kn_splitter *add_splitter(kn_part_reader *in, kn_splitter_kind kind, kn_split_behavior behavior) {
    kn_splitter *made =
        kn_part_room(in, (void **)&in->vocabulary->splitters, &in->vocabulary->splitter_count, sizeof *made);
    if (made) *made = (kn_splitter){.kind = kind, .behavior = behavior};
    return made;
}

static kn_status get_behavior(kn_part_reader *in, const kn_json *part, kn_split_behavior *behavior) {
    int choice = *behavior;
    kn_status status = kn_part_choice(in, part, "behavior", behaviors, KN_COUNT_OF(behaviors), &choice);
    *behavior = (kn_split_behavior)choice;
    return status;
}

static kn_status read_split(kn_part_reader *in, const kn_json *part) {
    kn_splitter *made = add_splitter(in, KN_SPLITTER_PATTERN, KN_SPLIT_ISOLATED);
    kn_status status = made ? kn_part_pattern(in, part, &made->pattern) : in->error->status;
    if (status == KN_OK) status = get_behavior(in, part, &made->behavior);
    return status == KN_OK ? kn_part_bool(in, part, "invert", &made->invert) : status;
}

static kn_status read_byte_level(kn_part_reader *in, const kn_json *part) {
    bool prefix = true, regex = true;
    kn_status status = kn_part_bool(in, part, "add_prefix_space", &prefix);
    if (status == KN_OK) status = kn_part_bool(in, part, "use_regex", &regex);
    if (status == KN_OK && prefix && !add_splitter(in, KN_SPLITTER_PREFIX, KN_SPLIT_ISOLATED))
        return in->error->status;
    if (status == KN_OK && regex) {
        kn_splitter *made = add_splitter(in, KN_SPLITTER_PATTERN, KN_SPLIT_ISOLATED);
        if (!made) return in->error->status;
        made->pattern.source = KN_REGEX_GPT2;
        status = kn_regex_create(&in->vocabulary->host, KN_REGEX_GPT2, strlen(KN_REGEX_GPT2),
                                 &made->pattern.regex, in->error);
        if (status != KN_OK) return kn_fail_in(in->error, "%s: %s", in->vocabulary->name, in->where);
    }
    if (status == KN_OK && !add_splitter(in, KN_SPLITTER_BYTES, KN_SPLIT_ISOLATED)) return in->error->status;
    return status;
}

static kn_status read_digits(kn_part_reader *in, const kn_json *part) {
    bool individual = false;
    kn_status status = kn_part_bool(in, part, "individual_digits", &individual);
    if (status != KN_OK) return status;
    return add_splitter(in, KN_SPLITTER_DIGITS, individual ? KN_SPLIT_ISOLATED : KN_SPLIT_CONTIGUOUS)
               ? KN_OK
               : in->error->status;
}

static kn_status read_punctuation(kn_part_reader *in, const kn_json *part) {
    kn_splitter *made = add_splitter(in, KN_SPLITTER_PUNCTUATION, KN_SPLIT_ISOLATED);
    return made ? get_behavior(in, part, &made->behavior) : in->error->status;
}

static kn_status read_whitespace(kn_part_reader *in, const kn_json *part) {
    return add_splitter(in, KN_SPLITTER_WORDS, KN_SPLIT_REMOVED) ? KN_OK : in->error->status;
}

static kn_status read_whitespace_split(kn_part_reader *in, const kn_json *part) {
    return add_splitter(in, KN_SPLITTER_SPACE, KN_SPLIT_REMOVED) ? KN_OK : in->error->status;
}

static kn_status read_bert_pre(kn_part_reader *in, const kn_json *part) {
    return add_splitter(in, KN_SPLITTER_SPACE, KN_SPLIT_REMOVED) &&
                   add_splitter(in, KN_SPLITTER_PUNCTUATION, KN_SPLIT_ISOLATED)
               ? KN_OK
               : in->error->status;
}

/* The letter, and where it is put in front; for the pre-tokenizer and the decoder. */
static kn_status get_metaspace(kn_part_reader *in, const kn_json *part, kn_pattern *letter,
                               kn_prepend *prepend) {
    bool prefix = true;
    int choice = KN_PREPEND_ALWAYS;
    kn_status status = kn_part_text(in, part, "replacement", &letter->text, &letter->length);
    if (status == KN_OK && !letter->length)
        return kn_part_wrong(in, "replacement", kn_json_member(part, "replacement"), "a character");
    if (status == KN_OK) status = kn_part_bool(in, part, "add_prefix_space", &prefix);
    if (status == KN_OK)
        status = kn_part_choice(in, part, "prepend_scheme", prepends, KN_COUNT_OF(prepends), &choice);
    *prepend = prefix ? (kn_prepend)choice : KN_PREPEND_NEVER;
    return status;
}

static kn_status read_metaspace(kn_part_reader *in, const kn_json *part) {
    kn_splitter *made = add_splitter(in, KN_SPLITTER_METASPACE, KN_SPLIT_ISOLATED);
    if (!made) return in->error->status;
    bool split = true;
    kn_status status = get_metaspace(in, part, &made->pattern, &made->prepend);
    if (status == KN_OK) status = kn_part_bool(in, part, "split", &split);
    if (split) made->behavior = KN_SPLIT_MERGED_NEXT;
    return status;
}

static kn_read_part read_pre_tokenizers;
static const kn_component pre_tokenizers[] = {
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

static kn_status read_pre_tokenizers(kn_part_reader *in, const kn_json *part) {
    return kn_components_read(in, part, "pretokenizers", pre_tokenizers, KN_COUNT_OF(pre_tokenizers));
}

/* ---- post-processors: the tokens before and after a text ----------------------------------------- */

static kn_status add_end(kn_part_reader *in, bool after, const kn_json *id) {
    kn_vocabulary *vocabulary = in->vocabulary;
    int64_t token;
    if (!kn_json_int64(id, &token) || token < 0 || token >= KN_WORD_NUMBERS)
        return kn_part_wrong(in, "id", id, "the id of a token");
    int32_t *slot = kn_part_room(in, (void **)(after ? &vocabulary->after : &vocabulary->before),
                                 after ? &vocabulary->after_count : &vocabulary->before_count, sizeof *slot);
    if (slot) *slot = (int32_t)token;
    return slot ? KN_OK : in->error->status;
}

static kn_status read_template(kn_part_reader *in, const kn_json *part) {
    const kn_json *single = kn_json_member(part, "single"),
                  *specials = kn_json_member(part, "special_tokens");
    if (!single || single->kind != KN_JSON_ARRAY) return kn_part_wrong(in, "single", single, "an array");
    int texts = 0;
    for (const kn_json *item = single->first; item; item = item->next) {
        const kn_json *special = kn_json_member(item, "SpecialToken"),
                      *text = kn_json_member(item, "Sequence");
        const kn_json *id = kn_json_member(special ? special : text, "id");
        if (!id || id->kind != KN_JSON_STRING)
            return kn_part_wrong(in, "single", item, "SpecialToken or Sequence with an id");
        if (text) {
            texts++;
            continue;
        }
        const kn_json *ids = kn_json_member(kn_json_member(specials, id->text), "ids");
        if (!ids || ids->kind != KN_JSON_ARRAY)
            return kn_part_wrong(in, "special_tokens", ids, "an array of ids for each token");
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
static kn_status read_class_separator(kn_part_reader *in, const kn_json *part) {
    for (int after = 0; after < 2; after++) {
        const char *key = after ? "sep" : "cls";
        const kn_json *pair = kn_json_member(part, key);
        if (!pair || pair->kind != KN_JSON_ARRAY || pair->count != 2)
            return kn_part_wrong(in, key, pair, "an array of a token and its id");
        kn_status status = add_end(in, after, pair->first->next);
        if (status != KN_OK) return status;
    }
    return KN_OK;
}

/* Only moves the offsets of tokens in the text, which Koine does not report. */
static kn_status read_offsets(kn_part_reader *in, const kn_json *part) {
    return KN_OK;
}

static kn_read_part read_processors;
static const kn_component processors[] = {
    {"Sequence", read_processors, false},
    {"TemplateProcessing", read_template, false},
    {"BertProcessing", read_class_separator, false},
    {"RobertaProcessing", read_class_separator, false},
    {"ByteLevel", read_offsets, false},
};

static kn_status read_processors(kn_part_reader *in, const kn_json *part) {
    return kn_components_read(in, part, "processors", processors, KN_COUNT_OF(processors));
}

/* ---- decoders ------------------------------------------------------------------------------------ */

static kn_decoder *add_decoder(kn_part_reader *in, kn_decoder_kind kind) {
    kn_decoder *made =
        kn_part_room(in, (void **)&in->vocabulary->decoders, &in->vocabulary->decoder_count, sizeof *made);
    if (made) *made = (kn_decoder){.kind = kind};
    return made;
}

static kn_status decode_byte_level(kn_part_reader *in, const kn_json *part) {
    return add_decoder(in, KN_DECODER_BYTES) ? KN_OK : in->error->status;
}

static kn_status decode_byte_fallback(kn_part_reader *in, const kn_json *part) {
    return add_decoder(in, KN_DECODER_BYTE_FALLBACK) ? KN_OK : in->error->status;
}

static kn_status decode_replace(kn_part_reader *in, const kn_json *part) {
    kn_decoder *made = add_decoder(in, KN_DECODER_REPLACE);
    kn_status status = made ? kn_part_pattern(in, part, &made->pattern) : in->error->status;
    return status == KN_OK ? kn_part_text(in, part, "content", &made->content, &made->content_length)
                           : status;
}

static kn_status decode_metaspace(kn_part_reader *in, const kn_json *part) {
    kn_decoder *made = add_decoder(in, KN_DECODER_METASPACE);
    return made ? get_metaspace(in, part, &made->pattern, &made->prepend) : in->error->status;
}

static kn_status decode_wordpiece(kn_part_reader *in, const kn_json *part) {
    kn_decoder *made = add_decoder(in, KN_DECODER_WORDPIECE);
    if (!made) return in->error->status;
    made->content = "##";
    made->content_length = 2;
    made->clean = true;
    kn_status status = kn_part_text_or(in, part, "prefix", &made->content, &made->content_length);
    return status == KN_OK ? kn_part_bool(in, part, "cleanup", &made->clean) : status;
}

static kn_status decode_suffix(kn_part_reader *in, const kn_json *part) {
    kn_decoder *made = add_decoder(in, KN_DECODER_SUFFIX);
    if (!made) return in->error->status;
    made->pattern.text = "</w>";
    made->pattern.length = 4;
    made->content = " ";
    made->content_length = 1;
    return kn_part_text_or(in, part, "suffix", &made->pattern.text, &made->pattern.length);
}

/* After Fuse, a decoder treats the whole text as one token. */
static kn_status decode_fuse(kn_part_reader *in, const kn_json *part) {
    return KN_OK;
}

static kn_status decode_strip(kn_part_reader *in, const kn_json *part) {
    kn_decoder *made = add_decoder(in, KN_DECODER_STRIP);
    if (!made) return in->error->status;
    kn_status status = kn_part_text(in, part, "content", &made->pattern.text, &made->pattern.length);
    if (status == KN_OK) status = kn_part_count(in, part, "start", &made->start);
    if (status == KN_OK) status = kn_part_count(in, part, "stop", &made->stop);
    if (status == KN_OK && !made->pattern.length)
        return kn_part_wrong(in, "content", kn_json_member(part, "content"), "a character");
    return status;
}

static kn_read_part read_decoders;
static const kn_component decoders[] = {
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

static kn_status read_decoders(kn_part_reader *in, const kn_json *part) {
    const kn_json *list = kn_json_member(part, "decoders");
    if (!list || list->kind != KN_JSON_ARRAY) return kn_part_wrong(in, "decoders", list, "an array");
    bool fused = false;
    for (const kn_json *item = list->first; item; item = item->next) {
        size_t before = in->vocabulary->decoder_count;
        kn_status status = kn_component_read(in, item, decoders, KN_COUNT_OF(decoders));
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

/* ---- added tokens -------------------------------------------------------------------------------- */

static kn_status read_added(kn_part_reader *in, const kn_json *list) {
    kn_vocabulary *vocabulary = in->vocabulary;
    if (kn_part_is_null(list)) return KN_OK;
    if (list->kind != KN_JSON_ARRAY)
        return kn_fail(in->error, KN_ERROR_FORMAT, "%s: added_tokens is %s; expected an array",
                       vocabulary->name, kn_json_kind_name(list->kind));
    vocabulary->added = kn_arena_take(in->arena, list->count, sizeof *vocabulary->added);
    if (!vocabulary->added) return kn_fail_memory(in->error, list->count * sizeof *vocabulary->added);
    for (const kn_json *item = list->first; item; item = item->next) {
        kn_added added = {0};
        int64_t token = -1;
        kn_status status = kn_part_text(in, item, "content", &added.text, &added.length);
        const kn_json *id = kn_json_member(item, "id");
        if (status == KN_OK && (!kn_json_int64(id, &token) || token < 0 || token >= KN_WORD_NUMBERS))
            return kn_part_wrong(in, "id", id, "the id of a token");
        added.token = (int32_t)token;
        if (status == KN_OK) status = kn_part_bool(in, item, "special", &added.special);
        added.normalized = !added.special;
        if (status == KN_OK) status = kn_part_bool(in, item, "normalized", &added.normalized);
        if (status == KN_OK) status = kn_part_bool(in, item, "single_word", &added.single_word);
        if (status == KN_OK) status = kn_part_bool(in, item, "lstrip", &added.left);
        if (status == KN_OK) status = kn_part_bool(in, item, "rstrip", &added.right);
        if (status == KN_OK && added.single_word)
            status = kn_characters_check("an added token with single_word", in->error);
        if (status != KN_OK) return status;
        if (added.length) vocabulary->added[vocabulary->added_count++] = added;
    }
    return KN_OK;
}

/* ---- the file ------------------------------------------------------------------------------------ */

/* Whether a text may lose its beginning, so that it is unknown which piece begins the text. */
static kn_status check_first(kn_part_reader *in) {
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
    kn_part_reader in = {vocabulary, &vocabulary->arena, &vocabulary->error, ""};
    static const struct {
        const char *key, *where;
        const kn_component *table;
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
    kn_status status = kn_model_part_read(&in, model);
    for (size_t i = 0; i < KN_COUNT_OF(sections) && status == KN_OK; i++) {
        const kn_json *part = kn_json_member(root, sections[i].key);
        in.where = sections[i].where;
        if (!kn_part_is_null(part))
            status = kn_component_read(&in, part, sections[i].table, sections[i].count);
    }
    if (status == KN_OK && kn_part_is_null(kn_json_member(root, "decoder")) &&
        !add_decoder(&in, KN_DECODER_SPACES))
        status = in.error->status;
    if (status == KN_OK) status = check_first(&in);
    in.where = "added_tokens";
    return status == KN_OK ? read_added(&in, kn_json_member(root, "added_tokens")) : status;
}
