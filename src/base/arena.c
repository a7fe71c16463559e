/* An arena: blocks that are divided into small pieces, all freed together. */
#include "base/base.h"

#include <stdio.h>
#include <string.h>

enum { ALIGNMENT = 16, FIRST_BLOCK = 4096, LARGEST_BLOCK = 1 << 20 };

/* The pieces follow the header, which is padded to the alignment. */
struct kn_arena_block {
    kn_arena_block *next;
    size_t used, size; /* of the pieces, in bytes */
};

static size_t round_up(size_t bytes) {
    return (size_t)kn_align_up(bytes, ALIGNMENT);
}

static size_t header_bytes(void) {
    return round_up(sizeof(kn_arena_block));
}

/* The offset of the first aligned piece: an allocator may align less than the arena promises. */
static size_t first_piece(const kn_arena_block *block) {
    uintptr_t start = (uintptr_t)block + header_bytes();
    return header_bytes() + (ALIGNMENT - start % ALIGNMENT) % ALIGNMENT;
}

void kn_arena_init(kn_arena *arena, const kn_host *host) {
    *arena = (kn_arena){.host = host};
}

void kn_arena_finish(kn_arena *arena) {
    kn_arena_block *block = arena->blocks;
    while (block) {
        kn_arena_block *next = block->next;
        kn_release(arena->host, block);
        block = next;
    }
    arena->blocks = NULL;
    arena->bytes = 0;
}

static kn_arena_block *add_block(kn_arena *arena, size_t bytes) {
    size_t size = FIRST_BLOCK;
    while (size < LARGEST_BLOCK && size < arena->bytes)
        size *= 2;
    bool alone = bytes > size / 2 && arena->blocks; /* a large piece gets its own block */
    if (bytes > size || alone) size = bytes;
    kn_arena_block *block = kn_allocate(arena->host, 1, header_bytes() + ALIGNMENT + size);
    if (!block) return NULL;
    block->size = size;
    if (alone) {
        /* Insert it after the head, so that the head's free space stays in use. */
        block->next = arena->blocks->next;
        arena->blocks->next = block;
    } else {
        block->next = arena->blocks;
        arena->blocks = block;
    }
    return block;
}

void *kn_arena_take(kn_arena *arena, size_t count, size_t size) {
    if (size != 0 && count > (size_t)PTRDIFF_MAX / 2 / size) return NULL;
    size_t bytes = round_up(count * size);
    if (bytes == 0) bytes = ALIGNMENT;
    kn_arena_block *block = arena->blocks;
    if (!block || block->size - block->used < bytes) block = add_block(arena, bytes);
    if (!block) return NULL;
    void *piece = (char *)block + first_piece(block) + block->used;
    block->used += bytes;
    arena->bytes += bytes;
    return piece;
}

void *kn_arena_copy(kn_arena *arena, const void *bytes, size_t count, size_t size) {
    void *piece = kn_arena_take(arena, count, size);
    if (piece && count * size > 0) memcpy(piece, bytes, count * size);
    return piece;
}

char *kn_arena_text(kn_arena *arena, const char *text) {
    return text ? kn_arena_copy(arena, text, strlen(text) + 1, 1) : NULL;
}

char *kn_arena_format(kn_arena *arena, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    char *text = length < 0 ? NULL : kn_arena_take(arena, (size_t)length + 1, 1);
    if (text) vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    va_end(arguments);
    return text;
}
