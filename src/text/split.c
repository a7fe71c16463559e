/* Splitting a text into pieces, which the model turns into tokens one by one. */
#include "text/text_private.h"

#include <string.h>

void kn_run_init(kn_run *run, const kn_host *host) {
    *run = (kn_run){0};
    kn_text_init(&run->text, host);
}

void kn_run_finish(kn_run *run) {
    kn_release(run->text.host, run->ends);
    kn_text_finish(&run->text);
}

void kn_run_clear(kn_run *run) {
    kn_text_clear(&run->text);
    run->count = 0;
}

void kn_run_end(kn_run *run) {
    if (run->text.length == (run->count ? run->ends[run->count - 1] : 0)) return;
    if (!kn_reserve(run->text.host, (void **)&run->ends, &run->capacity, run->count + 1, sizeof *run->ends))
        run->text.failed = true;
    else
        run->ends[run->count++] = run->text.length;
}

/* ---- what happens to matches ------------------------------------------------------------------- */

typedef struct splitting {
    const char *text;
    kn_run *to;
    kn_split_behavior behavior;
    bool invert, previous;
    bool pending; /* a match that is merged with what follows */
    size_t pending_begin, pending_end;
} splitting;

static void emit(splitting *by, size_t begin, size_t end) {
    kn_text_add_bytes(&by->to->text, by->text + begin, end - begin);
    kn_run_end(by->to);
}

/* Continues the last piece of this text. */
static void extend(splitting *by, size_t begin, size_t end) {
    kn_text_add_bytes(&by->to->text, by->text + begin, end - begin);
    if (by->to->count && !by->to->text.failed) by->to->ends[by->to->count - 1] = by->to->text.length;
}

static void flush(splitting *by) {
    if (by->pending) emit(by, by->pending_begin, by->pending_end);
    by->pending = false;
}

static void split_part(void *user, size_t begin, size_t end, bool match) {
    splitting *by = user;
    match ^= by->invert;
    switch (by->behavior) {
    case KN_SPLIT_REMOVED:
        if (!match) emit(by, begin, end);
        break;
    case KN_SPLIT_ISOLATED:
        emit(by, begin, end);
        break;
    case KN_SPLIT_CONTIGUOUS:
        if (match == by->previous && begin > 0)
            extend(by, begin, end);
        else
            emit(by, begin, end);
        break;
    case KN_SPLIT_MERGED_PREVIOUS:
        if (match && !by->previous && begin > 0)
            extend(by, begin, end);
        else
            emit(by, begin, end);
        break;
    case KN_SPLIT_MERGED_NEXT:
        if (match) {
            flush(by);
            by->pending = true;
            by->pending_begin = begin;
            by->pending_end = end;
        } else if (by->pending) {
            by->pending = false;
            emit(by, by->pending_begin, end);
        } else {
            emit(by, begin, end);
        }
        break;
    }
    by->previous = match;
}

/* Calls split_part for each character of a class, and for what is between them. */
static void split_at(splitting *by, size_t count, kn_character_class what, bool space) {
    size_t kept = 0;
    for (size_t at = 0, length; at < count; at += length) {
        uint32_t code;
        length = kn_character_read(by->text + at, count - at, &code);
        if (!(space ? kn_character_is_space(code) : kn_character_is(code, what))) continue;
        if (at > kept) split_part(by, kept, at, false);
        split_part(by, at, at + length, true);
        kept = at + length;
    }
    if (count > kept) split_part(by, kept, count, false);
}

/* Words, and runs of other characters that are not spaces. */
static void split_words(splitting *by, size_t count) {
    enum { SPACE, WORD, OTHER } last = SPACE, kind;
    size_t begin = 0;
    for (size_t at = 0, length; at < count; at += length) {
        uint32_t code;
        length = kn_character_read(by->text + at, count - at, &code);
        kind = kn_character_is_space(code) ? SPACE : kn_character_is(code, KN_CHARACTER_WORD) ? WORD : OTHER;
        if (kind == last) continue;
        if (last != SPACE) emit(by, begin, at);
        last = kind;
        begin = at;
    }
    if (last != SPACE) emit(by, begin, count);
}

/* ---- GPT-2's letters of bytes -------------------------------------------------------------------- */

/* Printable Latin-1 characters are themselves; the 68 others are numbered from 256 on. */
static bool is_own_letter(int byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

static uint32_t letter_of_byte(int byte) {
    if (is_own_letter(byte)) return (uint32_t)byte;
    if (byte <= ' ') return 256 + (uint32_t)byte;
    if (byte < 0xad) return 256 + 33 + (uint32_t)(byte - 0x7f);
    return 256 + 67;
}

int kn_byte_of_letter(uint32_t code) {
    if (code < 256) return is_own_letter((int)code) ? (int)code : -1;
    if (code < 256 + 33) return (int)code - 256;
    if (code < 256 + 67) return (int)code - 256 - 33 + 0x7f;
    return code == 256 + 67 ? 0xad : -1;
}

void kn_byte_letters(const char *bytes, size_t count, kn_text *to) {
    char letters[512];
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        used += kn_utf8_write(letters + used, letter_of_byte((uint8_t)bytes[i]));
        if (used > sizeof letters - 4 || i + 1 == count) {
            kn_text_add_bytes(to, letters, used);
            used = 0;
        }
    }
}

/* ---- one splitter -------------------------------------------------------------------------------- */

/* Spaces become the letter, which may also be put in front; a piece begins at each letter if `split`. */
static void split_metaspace(const kn_splitter *splitter, const char *text, size_t count, bool begins,
                            kn_run *to) {
    const kn_pattern *letter = &splitter->pattern;
    bool has = count >= letter->length && memcmp(text, letter->text, letter->length) == 0;
    bool split = splitter->behavior == KN_SPLIT_MERGED_NEXT;
    has |= count && text[0] == ' ';
    if (!has && (splitter->prepend == KN_PREPEND_ALWAYS || (splitter->prepend == KN_PREPEND_FIRST && begins)))
        kn_text_add_bytes(&to->text, letter->text, letter->length);
    for (size_t at = 0, length; at < count; at += length) {
        bool here = count - at >= letter->length && memcmp(text + at, letter->text, letter->length) == 0;
        length = here ? letter->length : 1;
        here |= text[at] == ' ';
        if (here && split) kn_run_end(to);
        kn_text_add_bytes(&to->text, here ? letter->text : text + at, here ? letter->length : 1);
    }
    kn_run_end(to);
}

static kn_status split_piece(const kn_host *host, const kn_splitter *splitter, const char *text, size_t count,
                             bool begins, kn_run *to) {
    splitting by = {.text = text, .to = to, .behavior = splitter->behavior, .invert = splitter->invert};
    kn_status status = KN_OK;
    switch (splitter->kind) {
    case KN_SPLITTER_PATTERN:
        status = kn_pattern_search(host, &splitter->pattern, text, count, split_part, &by);
        break;
    case KN_SPLITTER_DIGITS:
        split_at(&by, count, KN_CHARACTER_NUMBER, false);
        break;
    case KN_SPLITTER_PUNCTUATION:
        split_at(&by, count, KN_CHARACTER_PUNCTUATION, false);
        break;
    case KN_SPLITTER_SPACE:
        split_at(&by, count, KN_CHARACTER_WORD, true);
        break;
    case KN_SPLITTER_WORDS:
        split_words(&by, count);
        break;
    case KN_SPLITTER_BYTES:
        kn_byte_letters(text, count, &to->text);
        kn_run_end(to);
        break;
    case KN_SPLITTER_METASPACE:
        split_metaspace(splitter, text, count, begins, to);
        break;
    case KN_SPLITTER_PREFIX:
        if (text[0] != ' ') kn_text_add_bytes(&to->text, " ", 1);
        kn_text_add_bytes(&to->text, text, count);
        kn_run_end(to);
        break;
    }
    flush(&by);
    return status;
}

kn_status kn_run_split(const kn_host *host, const kn_splitter *splitter, const kn_run *from, bool begins,
                       kn_run *to) {
    size_t begin = 0;
    for (size_t i = 0; i < from->count; i++) {
        kn_status status =
            split_piece(host, splitter, from->text.data + begin, from->ends[i] - begin, begins && i == 0, to);
        if (status != KN_OK) return status;
        begin = from->ends[i];
    }
    return kn_text_failed(&to->text) ? KN_ERROR_MEMORY : KN_OK;
}
