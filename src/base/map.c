/* A hash map: entries in insertion order, and a table of slots that refer to them.
 *
 * A slot holds an entry's index plus one, or 0 if it is free. A removed entry keeps its slot, so that probing
 * continues past it, until the entries are compacted. */
#include "base/base.h"

#include <string.h>

enum { FIRST_SLOTS = 16 };

void kn_map_init(kn_map *map, const kn_host *host) {
    *map = (kn_map){.host = host};
}

void kn_map_finish(kn_map *map) {
    for (size_t i = 0; i < map->used; i++)
        kn_release(map->host, map->entries[i].key);
    kn_release(map->host, map->entries);
    kn_release(map->host, map->slots);
    *map = (kn_map){.host = map->host};
}

/* The number of slots is a power of two; the low bits of FNV are weak, so the high bits are mixed in. */
static size_t first_slot(uint64_t hash, size_t slot_count) {
    return (size_t)((hash ^ (hash >> 32)) * 0x9e3779b97f4a7c15ull >> 20) & (slot_count - 1);
}

static kn_map_entry *find(const kn_map *map, const void *key, size_t key_bytes, uint64_t hash) {
    if (map->slot_count == 0) return NULL;
    size_t slot = first_slot(hash, map->slot_count);
    while (map->slots[slot] != 0) {
        kn_map_entry *entry = &map->entries[map->slots[slot] - 1];
        if (!entry->removed && entry->hash == hash && entry->key_bytes == key_bytes &&
            (key_bytes == 0 || memcmp(entry->key, key, key_bytes) == 0))
            return entry;
        slot = (slot + 1) & (map->slot_count - 1);
    }
    return NULL;
}

static void take_slot(uint32_t *slots, size_t slot_count, uint64_t hash, size_t index) {
    size_t slot = first_slot(hash, slot_count);
    while (slots[slot] != 0)
        slot = (slot + 1) & (slot_count - 1);
    slots[slot] = (uint32_t)(index + 1);
}

/* Drops the removed entries and keeps the order of the others; cannot fail. */
static void pack(kn_map *map) {
    size_t kept = 0;
    for (size_t i = 0; i < map->used; i++)
        if (!map->entries[i].removed) map->entries[kept++] = map->entries[i];
    map->used = kept;
    memset(map->slots, 0, map->slot_count * sizeof *map->slots);
    for (size_t i = 0; i < kept; i++)
        take_slot(map->slots, map->slot_count, map->entries[i].hash, i);
}

static bool grow_slots(kn_map *map) {
    if (map->slot_count > SIZE_MAX / 2) return false;
    size_t slot_count = map->slot_count ? map->slot_count * 2 : FIRST_SLOTS;
    uint32_t *slots = kn_allocate(map->host, slot_count, sizeof *slots);
    if (!slots) return false;
    for (size_t i = 0; i < map->used; i++)
        take_slot(slots, slot_count, map->entries[i].hash, i);
    kn_release(map->host, map->slots);
    map->slots = slots;
    map->slot_count = slot_count;
    return true;
}

/* Makes room for one more entry, with at least half of the slots free. */
static bool make_room(kn_map *map) {
    if (map->used - map->count > map->count + FIRST_SLOTS) pack(map);
    if (map->used >= UINT32_MAX - 1) return false;
    if (map->used + 1 > map->slot_count / 2 && !grow_slots(map)) return false;
    void *entries = map->entries;
    if (!kn_reserve(map->host, &entries, &map->capacity, map->used + 1, sizeof *map->entries)) return false;
    map->entries = entries;
    return true;
}

bool kn_map_put(kn_map *map, const void *key, size_t key_bytes, void *value) {
    uint64_t hash = kn_hash_bytes(KN_HASH_START, key, key_bytes);
    kn_map_entry *entry = find(map, key, key_bytes, hash);
    if (entry) {
        entry->value = value;
        return true;
    }
    if (key_bytes == SIZE_MAX || !make_room(map)) return false;
    char *copy = kn_allocate(map->host, key_bytes + 1, 1);
    if (!copy) return false;
    if (key_bytes > 0) memcpy(copy, key, key_bytes);
    map->entries[map->used] =
        (kn_map_entry){.key = copy, .key_bytes = key_bytes, .hash = hash, .value = value};
    take_slot(map->slots, map->slot_count, hash, map->used);
    map->used++;
    map->count++;
    return true;
}

void *kn_map_get(const kn_map *map, const void *key, size_t key_bytes) {
    kn_map_entry *entry = find(map, key, key_bytes, kn_hash_bytes(KN_HASH_START, key, key_bytes));
    return entry ? entry->value : NULL;
}

bool kn_map_has(const kn_map *map, const void *key, size_t key_bytes) {
    return find(map, key, key_bytes, kn_hash_bytes(KN_HASH_START, key, key_bytes)) != NULL;
}

/* Never moves entries, so that an iteration may remove the current one. */
bool kn_map_remove(kn_map *map, const void *key, size_t key_bytes) {
    kn_map_entry *entry = find(map, key, key_bytes, kn_hash_bytes(KN_HASH_START, key, key_bytes));
    if (!entry) return false;
    kn_release(map->host, entry->key);
    entry->key = NULL;
    entry->key_bytes = 0;
    entry->value = NULL;
    entry->removed = true;
    map->count--;
    return true;
}

bool kn_map_put_text(kn_map *map, const char *key, void *value) {
    return kn_map_put(map, key, strlen(key), value);
}

void *kn_map_get_text(const kn_map *map, const char *key) {
    return kn_map_get(map, key, strlen(key));
}

const kn_map_entry *kn_map_next(const kn_map *map, size_t *position) {
    while (*position < map->used) {
        const kn_map_entry *entry = &map->entries[(*position)++];
        if (!entry->removed) return entry;
    }
    return NULL;
}
