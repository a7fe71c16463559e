/* zip: the directory at the end, and members that are stored or deflated. */
#include "formats/formats_private.h"

#include <string.h>
#include <zlib.h>

enum { END_BYTES = 22, END64_BYTES = 56, LOCATOR_BYTES = 20, ENTRY_BYTES = 46, LOCAL_BYTES = 30 };
enum { METHOD_STORED = 0, METHOD_DEFLATED = 8, FLAG_ENCRYPTED = 1 };
/* zlib's highest compression ratio; bounds the memory that a small file can request. */
enum { MAX_RATIO = 1032 };

typedef struct zip_file {
    const char *name;
    const uint8_t *bytes;
    uint64_t count;
} zip_file;

static kn_status damaged(const zip_file *file, uint64_t at, const char *what, kn_error *error) {
    return kn_fail(error, KN_ERROR_FORMAT, "%s: byte %llu: %s", file->name, (unsigned long long)at, what);
}

/* Whether `length` bytes from `at` on are in the file. */
static bool holds(const zip_file *file, uint64_t at, uint64_t length) {
    return at <= file->count && length <= file->count - at;
}

static bool signed_as(const uint8_t *bytes, uint8_t third, uint8_t fourth) {
    return bytes[0] == 'P' && bytes[1] == 'K' && bytes[2] == third && bytes[3] == fourth;
}

typedef struct directory {
    uint64_t at, bytes, entries;
} directory;

/* Finds the record at the end, which a comment may follow, and the zip64 record of large files. */
static kn_status find_directory(const zip_file *file, directory *found, kn_error *error) {
    uint64_t most = file->count < END_BYTES + 0xffff ? file->count : END_BYTES + 0xffff;
    for (uint64_t back = END_BYTES; back <= most; back++) {
        uint64_t at = file->count - back;
        const uint8_t *end = file->bytes + at;
        if (!signed_as(end, 5, 6) || kn_little_uint(end + 20, 2) != back - END_BYTES) continue;
        found->entries = kn_little_uint(end + 10, 2);
        found->bytes = kn_little_uint(end + 12, 4);
        found->at = kn_little_uint(end + 16, 4);
        if (found->entries == 0xffff || found->bytes == 0xffffffff || found->at == 0xffffffff) {
            if (at < LOCATOR_BYTES || !signed_as(end - LOCATOR_BYTES, 6, 7))
                return damaged(file, at, "the end of a zip64 file without its zip64 record", error);
            uint64_t larger = kn_little_uint(end - LOCATOR_BYTES + 8, 8);
            if (!holds(file, larger, END64_BYTES) || !signed_as(file->bytes + larger, 6, 6))
                return damaged(file, at, "the zip64 record is missing", error);
            found->entries = kn_little_uint(file->bytes + larger + 32, 8);
            found->bytes = kn_little_uint(file->bytes + larger + 40, 8);
            found->at = kn_little_uint(file->bytes + larger + 48, 8);
        }
        if (!holds(file, found->at, found->bytes) || found->entries > found->bytes / ENTRY_BYTES)
            return damaged(file, at, "the zip directory is beyond the end of the file, which is truncated",
                           error);
        return KN_OK;
    }
    return kn_fail(error, KN_ERROR_FORMAT, "%s: not a zip file, or truncated: it has no directory at its end",
                   file->name);
}

/* Reads the sizes of large members from an extra field: the sizes that do not fit the entry, in this order.
 */
static bool read_large(const uint8_t *extra, uint64_t length, kn_zip_member *member) {
    uint64_t *const fields[] = {&member->size, &member->packed, &member->header_at};
    while (length >= 4) {
        uint64_t kind = kn_little_uint(extra, 2), bytes = kn_little_uint(extra + 2, 2);
        if (bytes > length - 4) return false;
        const uint8_t *next = extra + 4;
        for (size_t i = 0; i < KN_COUNT_OF(fields) && kind == 1; i++) {
            if (*fields[i] != 0xffffffff) continue;
            if (extra + 4 + bytes - next < 8) return false;
            *fields[i] = kn_little_uint(next, 8);
            next += 8;
        }
        extra += 4 + bytes;
        length -= 4 + bytes;
    }
    return true;
}

/* Reads the directory entry at *at and advances to the next. */
static kn_status read_entry(kn_arena *arena, const zip_file *file, uint64_t *at, uint64_t end,
                            kn_zip_member *member, kn_error *error) {
    const uint8_t *entry = file->bytes + *at;
    if (end - *at < ENTRY_BYTES || !signed_as(entry, 1, 2))
        return damaged(file, *at, "expected an entry of the zip directory", error);
    uint64_t name = kn_little_uint(entry + 28, 2), extra = kn_little_uint(entry + 30, 2),
             comment = kn_little_uint(entry + 32, 2);
    if (name + extra + comment > end - *at - ENTRY_BYTES)
        return damaged(file, *at, "an entry extends past the end of the zip directory", error);
    *member = (kn_zip_member){.encrypted = (kn_little_uint(entry + 8, 2) & FLAG_ENCRYPTED) != 0,
                              .method = (int)kn_little_uint(entry + 10, 2),
                              .checksum = (uint32_t)kn_little_uint(entry + 16, 4),
                              .packed = kn_little_uint(entry + 20, 4),
                              .size = kn_little_uint(entry + 24, 4),
                              .header_at = kn_little_uint(entry + 42, 4)};
    if (memchr(entry + ENTRY_BYTES, 0, (size_t)name) || name == 0)
        return damaged(file, *at, "a member of the zip file has no valid name", error);
    if (!read_large(entry + ENTRY_BYTES + name, extra, member))
        return damaged(file, *at, "an entry of the zip directory has a damaged extra field", error);
    char *copy = kn_arena_take(arena, (size_t)name + 1, 1);
    if (!copy) return kn_fail_memory(error, (size_t)name + 1);
    memcpy(copy, entry + ENTRY_BYTES, (size_t)name);
    copy[name] = '\0';
    member->name = copy;
    *at += ENTRY_BYTES + name + extra + comment;
    return KN_OK;
}

kn_status kn_zip_read(kn_arena *arena, const char *name, const uint8_t *bytes, uint64_t count, kn_zip *zip,
                      kn_error *error) {
    const zip_file file = {name, bytes, count};
    directory found = {0, 0, 0};
    *zip = (kn_zip){.count = 0};
    kn_status status = find_directory(&file, &found, error);
    if (status != KN_OK) return status;
    kn_zip_member *members = kn_arena_take(arena, (size_t)found.entries + 1, sizeof *members);
    if (!members) return kn_fail_memory(error, (size_t)found.entries * sizeof *members);
    uint64_t at = found.at, end = found.at + found.bytes;
    for (uint64_t i = 0; i < found.entries && status == KN_OK; i++)
        status = read_entry(arena, &file, &at, end, &members[i], error);
    if (status != KN_OK) return status;
    *zip = (kn_zip){.members = members,
                    .count = (size_t)found.entries,
                    .name = name,
                    .bytes = bytes,
                    .byte_count = count};
    return KN_OK;
}

const kn_zip_member *kn_zip_find(const kn_zip *zip, const char *name) {
    for (size_t i = 0; i < zip->count; i++)
        if (strcmp(zip->members[i].name, name) == 0) return &zip->members[i];
    return NULL;
}

/* Inflates a member to exactly its size, in chunks, since zlib counts in 32 bits. */
static kn_status inflate_member(const kn_host *host, const uint8_t *bytes, uint64_t packed, uint8_t *data,
                                uint64_t size) {
    kn_host own = host ? *host : kn_host_defaults();
    z_stream stream = {.zalloc = kn_zlib_take, .zfree = kn_zlib_release, .opaque = &own};
    const uint64_t piece = 1u << 30;
    uint8_t beyond;
    if (inflateInit2(&stream, -15) != Z_OK) return KN_ERROR_MEMORY;
    int result = Z_OK;
    while (result == Z_OK) {
        if (stream.avail_in == 0) {
            stream.next_in = (Bytef *)(uintptr_t)bytes; /* zlib only reads it */
            stream.avail_in = (uInt)(packed < piece ? packed : piece);
            bytes += stream.avail_in;
            packed -= stream.avail_in;
        }
        /* A member longer than declared would write here; it is refused. */
        uint8_t *to = size > 0 ? data : &beyond;
        uInt room = size == 0 ? 1 : (uInt)(size < piece ? size : piece);
        stream.next_out = to;
        stream.avail_out = room;
        result = inflate(&stream, Z_NO_FLUSH);
        uInt written = room - stream.avail_out;
        if (written > size) result = Z_DATA_ERROR;
        if (result == Z_OK && written == 0 && stream.avail_in == 0 && packed == 0) result = Z_BUF_ERROR;
        if (written <= size) {
            data += written;
            size -= written;
        }
    }
    inflateEnd(&stream);
    if (result == Z_MEM_ERROR) return KN_ERROR_MEMORY;
    return result == Z_STREAM_END && size == 0 ? KN_OK : KN_ERROR_FORMAT;
}

static uint32_t checksum_of(const uint8_t *bytes, uint64_t count) {
    uLong sum = crc32(0, NULL, 0);
    while (count > 0) {
        uInt piece = (uInt)(count < 1u << 30 ? count : 1u << 30);
        sum = crc32(sum, bytes, piece);
        bytes += piece;
        count -= piece;
    }
    return (uint32_t)sum;
}

kn_status kn_zip_member_read(const kn_host *host, const kn_zip *zip, const kn_zip_member *member,
                             uint64_t limit, const uint8_t **bytes, void **owned, kn_error *error) {
    const zip_file file = {zip->name, zip->bytes, zip->byte_count};
    *bytes = NULL;
    *owned = NULL;
    if (member->encrypted || (member->method != METHOD_STORED && member->method != METHOD_DEFLATED))
        return kn_fail(error, KN_ERROR_UNSUPPORTED,
                       "%s: \"%s\" is %s (method %d); expected stored or deflated", zip->name, member->name,
                       member->encrypted ? "encrypted" : "compressed differently", member->method);
    if (member->size > limit || (member->size > 0 && member->size / MAX_RATIO > member->packed))
        return kn_fail(error, KN_ERROR_FORMAT, "%s: \"%s\" declares %llu bytes; expected at most %llu",
                       zip->name, member->name, (unsigned long long)member->size,
                       (unsigned long long)(member->size > limit ? limit : member->packed * MAX_RATIO));
    if (!holds(&file, member->header_at, LOCAL_BYTES) || !signed_as(file.bytes + member->header_at, 3, 4))
        return damaged(&file, member->header_at, "expected a member of the zip file", error);
    uint64_t at = member->header_at + LOCAL_BYTES + kn_little_uint(file.bytes + member->header_at + 26, 2) +
                  kn_little_uint(file.bytes + member->header_at + 28, 2);
    if (!holds(&file, at, member->packed))
        return damaged(&file, member->header_at, "a member extends past the end of the zip file", error);
    if (member->method == METHOD_STORED) {
        if (member->packed != member->size)
            return damaged(&file, member->header_at, "a stored member of the zip file has two sizes", error);
        *bytes = file.bytes + at;
    } else {
        uint8_t *data = kn_resize(host, NULL, member->size > 0 ? (size_t)member->size : 1, 1);
        if (!data) return kn_fail_memory(error, (size_t)member->size);
        kn_status status = inflate_member(host, file.bytes + at, member->packed, data, member->size);
        if (status != KN_OK) {
            kn_release(host, data);
            return kn_fail(error, status, "%s: \"%s\": %s", zip->name, member->name,
                           status == KN_ERROR_MEMORY ? "out of host memory while inflating"
                                                     : "damaged deflate data");
        }
        *owned = data;
        *bytes = data;
    }
    if (checksum_of(*bytes, member->size) == member->checksum) return KN_OK;
    kn_release(host, *owned);
    *owned = NULL;
    *bytes = NULL;
    return kn_fail(error, KN_ERROR_FORMAT, "%s: \"%s\": its checksum is wrong: the file was damaged",
                   zip->name, member->name);
}
