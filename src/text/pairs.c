/* A hash table from pairs of 32-bit numbers to pairs of them, and a trie in such a table. */
#include "text/text_private.h"

#include <stdlib.h>

static kn_pair *pair_slot(const kn_pair *slots, size_t count, uint64_t key) {
    size_t mask = count - 1;
    uint64_t hash = key * 0x9e3779b97f4a7c15u;
    for (size_t at = (size_t)(hash >> 20) & mask;; at = (at + 1) & mask)
        if (slots[at].key == key || slots[at].key == KN_PAIR_NONE) return (kn_pair *)slots + at;
}

static bool grow(kn_pairs *pairs, const kn_host *host) {
    size_t count = pairs->slot_count ? 2 * pairs->slot_count : 64;
    kn_pair *slots = kn_allocate(host, count, sizeof *slots);
    if (!slots) return false;
    for (size_t i = 0; i < count; i++)
        slots[i].key = KN_PAIR_NONE;
    for (size_t i = 0; i < pairs->slot_count; i++)
        if (pairs->slots[i].key != KN_PAIR_NONE)
            *pair_slot(slots, count, pairs->slots[i].key) = pairs->slots[i];
    kn_release(host, pairs->slots);
    pairs->slots = slots;
    pairs->slot_count = count;
    return true;
}

kn_pair *kn_pairs_put(kn_pairs *pairs, const kn_host *host, uint32_t left, uint32_t right) {
    uint64_t key = (uint64_t)left << 32 | right;
    if (2 * (pairs->count + 1) > pairs->slot_count && !grow(pairs, host)) return NULL;
    kn_pair *slot = pair_slot(pairs->slots, pairs->slot_count, key);
    if (slot->key == KN_PAIR_NONE) {
        *slot = (kn_pair){.key = key};
        pairs->count++;
    }
    return slot;
}

const kn_pair *kn_pairs_find(const kn_pairs *pairs, uint32_t left, uint32_t right) {
    if (!pairs->slot_count) return NULL;
    const kn_pair *slot = pair_slot(pairs->slots, pairs->slot_count, (uint64_t)left << 32 | right);
    return slot->key == KN_PAIR_NONE ? NULL : slot;
}

void kn_pairs_finish(kn_pairs *pairs, const kn_host *host) {
    kn_release(host, pairs->slots);
    *pairs = (kn_pairs){0};
}

static int in_order(const void *left, const void *right) {
    const kn_pair *one = *(const kn_pair *const *)left, *other = *(const kn_pair *const *)right;
    if (one->first != other->first) return one->first < other->first ? -1 : 1;
    if (one->second != other->second) return one->second < other->second ? -1 : 1;
    return (one->key > other->key) - (one->key < other->key);
}

const kn_pair **kn_pairs_sorted(const kn_pairs *pairs, const kn_host *host) {
    const kn_pair **sorted = kn_allocate(host, pairs->count + 1, sizeof *sorted);
    size_t count = 0;
    for (size_t i = 0; i < pairs->slot_count && sorted; i++)
        if (pairs->slots[i].key != KN_PAIR_NONE) sorted[count++] = &pairs->slots[i];
    if (count) qsort(sorted, count, sizeof *sorted, in_order);
    return sorted;
}

/* ---- trie ---------------------------------------------------------------------------------------- */

/* Node 0 is the root. For a pair (node, byte), `first` is the child, and `second` its text's number + 1. */

bool kn_trie_put(kn_trie *trie, const kn_host *host, const char *text, size_t length, uint32_t number) {
    uint32_t node = 0;
    kn_pair *pair = NULL;
    for (size_t i = 0; i < length; i++) {
        pair = kn_pairs_put(&trie->pairs, host, node, (uint8_t)text[i]);
        if (!pair) return false;
        if (!pair->first) pair->first = ++trie->nodes;
        node = pair->first;
    }
    if (pair) pair->second = number + 1;
    if (length) trie->begins[(uint8_t)text[0] / 8] |= (uint8_t)(1 << (uint8_t)text[0] % 8);
    return true;
}

int64_t kn_trie_node(const kn_trie *trie, const char *text, size_t length) {
    uint32_t node = 0;
    for (size_t i = 0; i < length; i++) {
        const kn_pair *pair = kn_pairs_find(&trie->pairs, node, (uint8_t)text[i]);
        if (!pair) return -1;
        node = pair->first;
    }
    return node;
}

int64_t kn_trie_next(const kn_trie *trie, uint32_t *node, uint8_t byte, bool *on) {
    const kn_pair *pair = kn_pairs_find(&trie->pairs, *node, byte);
    *on = pair != NULL;
    if (!pair) return -1;
    *node = pair->first;
    return (int64_t)pair->second - 1;
}

int64_t kn_trie_longest(const kn_trie *trie, uint32_t node, const char *text, size_t room, size_t *length) {
    int64_t found = -1;
    bool on = true;
    for (size_t i = 0; i < room; i++) {
        int64_t number = kn_trie_next(trie, &node, (uint8_t)text[i], &on);
        if (!on) break;
        if (number >= 0) {
            found = number;
            *length = i + 1;
        }
    }
    return found;
}

void kn_trie_finish(kn_trie *trie, const kn_host *host) {
    kn_pairs_finish(&trie->pairs, host);
    *trie = (kn_trie){0};
}
