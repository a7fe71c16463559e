/* Added tokens: texts that are cut out before anything else happens to a text. */
#include "text/text_private.h"

typedef struct splitter {
    const kn_vocabulary *vocabulary;
    const kn_trie *trie;
    const char *text;
    size_t count;
    kn_added_part *visit;
    void *user;
} splitter;

static bool may_begin(const kn_trie *trie, char byte) {
    return trie->begins[(uint8_t)byte / 8] >> (uint8_t)byte % 8 & 1;
}

static bool is_word_before(const char *text, size_t at) {
    size_t begin = at;
    uint32_t code = KN_CHARACTER_INVALID;
    while (begin > 0 && at - begin < 4) {
        begin--;
        if (kn_character_read(text + begin, at - begin, &code) == at - begin && code != KN_CHARACTER_INVALID)
            break;
    }
    return at > 0 && kn_character_is(code, KN_CHARACTER_WORD);
}

static bool is_word_after(const char *text, size_t count, size_t at) {
    uint32_t code = KN_CHARACTER_INVALID;
    if (at < count) kn_character_read(text + at, count - at, &code);
    return kn_character_is(code, KN_CHARACTER_WORD);
}

/* Where the spaces before `at` begin, not below `least`. */
static size_t spaces_before(const char *text, size_t at, size_t least) {
    for (size_t size = 1; size <= 3 && size <= at - least;) {
        uint32_t code;
        if (kn_character_read(text + at - size, size, &code) == size && kn_character_is_space(code)) {
            at -= size;
            size = 1;
        } else {
            size++;
        }
    }
    return at;
}

static size_t spaces_after(const char *text, size_t count, size_t at) {
    while (at < count) {
        uint32_t code;
        size_t length = kn_character_read(text + at, count - at, &code);
        if (!kn_character_is_space(code)) break;
        at += length;
    }
    return at;
}

/* The longest token at the first position that has one, again and again. */
static kn_status split_by_position(const splitter *by) {
    kn_status status = KN_OK;
    size_t done = 0;
    for (size_t at = 0, length = 0; at < by->count && status == KN_OK; at++) {
        if (!may_begin(by->trie, by->text[at])) continue;
        int64_t number = kn_trie_longest(by->trie, 0, by->text + at, by->count - at, &length);
        if (number < 0) continue;
        const kn_added *added = by->vocabulary->added + number;
        size_t begin = at, end = at + length;
        at = end - 1;
        if (added->single_word &&
            (is_word_before(by->text, begin) || is_word_after(by->text, by->count, end)))
            continue;
        /* A token within the spaces that the one before took is a token too, as in the tokenizers package. */
        if (added->left) begin = begin > done ? spaces_before(by->text, begin, done) : done;
        if (added->right) end = spaces_after(by->text, by->count, end);
        if (begin > done) status = by->visit(by->user, -1, by->text + done, begin - done);
        /* Nothing is left of one that takes spaces on both sides. */
        if (status == KN_OK && begin < end) status = by->visit(by->user, added->token, by->text + end, 0);
        done = end;
    }
    if (status == KN_OK && done < by->count)
        status = by->visit(by->user, -1, by->text + done, by->count - done);
    return status;
}

typedef struct place {
    size_t at, longest, length; /* length 0: no token */
    int64_t number;
} place;

/* Takes the longest tokens first, wherever they are, then shorter ones in what is left. */
static void take_longest(const splitter *by, place *places, size_t count, size_t longest, uint8_t *taken) {
    for (size_t length = longest; length > 0; length--)
        for (size_t i = 0; i < count; i++) {
            size_t at = places[i].at, size = 0;
            if (places[i].longest < length || taken[at] || taken[at + length - 1]) continue;
            int64_t number = kn_trie_longest(by->trie, 0, by->text + at, length, &size);
            if (number < 0 || size != length) continue;
            places[i].length = length;
            places[i].number = number;
            for (size_t k = 0; k < length; k++)
                taken[at + k] = 1;
        }
}

static kn_status split_by_length(const splitter *by) {
    const kn_host *host = &by->vocabulary->host;
    place *places = NULL;
    size_t count = 0, capacity = 0, longest = 0, done = 0;
    kn_status status = KN_OK;
    for (size_t at = 0; at < by->count; at++) {
        size_t length = 0;
        if (!may_begin(by->trie, by->text[at]) ||
            kn_trie_longest(by->trie, 0, by->text + at, by->count - at, &length) < 0)
            continue;
        if (!kn_reserve(host, (void **)&places, &capacity, count + 1, sizeof *places)) {
            kn_release(host, places);
            return KN_ERROR_MEMORY;
        }
        places[count++] = (place){.at = at, .longest = length};
        if (length > longest) longest = length;
    }
    uint8_t *taken = count ? kn_allocate(host, by->count, 1) : NULL;
    if (count && !taken)
        status = KN_ERROR_MEMORY;
    else
        take_longest(by, places, count, longest, taken);
    for (size_t i = 0; i < count && status == KN_OK; i++) {
        if (!places[i].length) continue;
        if (places[i].at > done) status = by->visit(by->user, -1, by->text + done, places[i].at - done);
        if (status == KN_OK)
            status = by->visit(by->user, by->vocabulary->added[places[i].number].token,
                               by->text + places[i].at, places[i].length);
        done = places[i].at + places[i].length;
    }
    if (status == KN_OK && done < by->count)
        status = by->visit(by->user, -1, by->text + done, by->count - done);
    kn_release(host, places);
    kn_release(host, taken);
    return status;
}

kn_status kn_added_split(const kn_vocabulary *vocabulary, const kn_added_set *set, unsigned flags,
                         const char *text, size_t count, kn_added_part *visit, void *user) {
    splitter by = {vocabulary, flags & KN_TEXT_READ_SPECIAL ? &set->trie : &set->ordinary, text, count, visit,
                   user};
    return set->longest_first ? split_by_length(&by) : split_by_position(&by);
}
