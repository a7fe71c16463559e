/* Texts with numbers: the number of a text by a hash table, the text of a number by an array. */
#include "text/text_private.h"

#include <string.h>

void kn_words_init(kn_words *words, const kn_host *host) {
    *words = (kn_words){.host = host};
    kn_text_init(&words->bytes, host);
}

void kn_words_finish(kn_words *words) {
    kn_text_finish(&words->bytes);
    kn_release(words->host, words->items);
    kn_release(words->host, words->slots);
    *words = (kn_words){.host = words->host};
}

/* The slot of a text, or the empty slot for it. */
static uint32_t *slot_of(const kn_words *words, const char *text, size_t length) {
    size_t mask = words->slot_count - 1;
    for (size_t at = kn_hash_bytes(KN_HASH_START, text, length) & mask;; at = (at + 1) & mask) {
        uint32_t number = words->slots[at];
        if (!number) return words->slots + at;
        const kn_word *item = words->items + (number - 1);
        if (item->length == length && memcmp(words->bytes.data + item->begin, text, length) == 0)
            return words->slots + at;
    }
}

static bool grow_slots(kn_words *words) {
    size_t count = words->slot_count ? 2 * words->slot_count : 64;
    uint32_t *slots = kn_allocate(words->host, count, sizeof *slots);
    if (!slots) return false;
    uint32_t *old = words->slots;
    size_t old_count = words->slot_count;
    words->slots = slots;
    words->slot_count = count;
    for (size_t i = 0; i < old_count; i++)
        if (old[i]) {
            const kn_word *item = words->items + (old[i] - 1);
            *slot_of(words, words->bytes.data + item->begin, item->length) = old[i];
        }
    kn_release(words->host, old);
    return true;
}

bool kn_words_put(kn_words *words, uint32_t number, const char *text, size_t length) {
    if (length >= KN_WORD_NONE || number >= KN_WORD_NUMBERS) return false;
    size_t begin = words->bytes.length;
    if (!kn_reserve(words->host, (void **)&words->items, &words->capacity, (size_t)number + 1,
                    sizeof *words->items))
        return false;
    if (2 * (words->used + 1) > words->slot_count && !grow_slots(words)) return false;
    kn_text_add_bytes(&words->bytes, text, length);
    kn_text_add_bytes(&words->bytes, "", 1);
    if (kn_text_failed(&words->bytes)) return false;
    for (; words->count <= number; words->count++)
        words->items[words->count] = (kn_word){.length = KN_WORD_NONE};
    uint32_t *slot = slot_of(words, text, length);
    if (!*slot) words->used++;
    words->items[number] = (kn_word){.begin = begin, .length = (uint32_t)length};
    *slot = number + 1;
    return true;
}

int64_t kn_words_find(const kn_words *words, const char *text, size_t length) {
    return words->slot_count ? (int64_t)*slot_of(words, text, length) - 1 : -1;
}

const char *kn_words_at(const kn_words *words, int64_t number, size_t *length) {
    if (number < 0 || (uint64_t)number >= words->count || words->items[number].length == KN_WORD_NONE)
        return NULL;
    *length = words->items[number].length;
    return words->bytes.data + words->items[number].begin;
}
