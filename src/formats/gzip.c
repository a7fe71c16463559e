/* gzip: inflating with a limit. */
#include "formats/formats_private.h"

#include <string.h>
#include <zlib.h>

bool kn_gzip_is(const uint8_t *bytes, uint64_t count) {
    return count >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

void *kn_zlib_take(void *host, unsigned count, unsigned size) {
    return kn_allocate(host, count, size);
}
void kn_zlib_release(void *host, void *pointer) {
    kn_release(host, pointer);
}

typedef struct inflation {
    z_stream stream;
    const uint8_t *next; /* not yet passed to zlib */
    uint64_t left;
    void *data;
    size_t used, capacity;
} inflation;

static void feed(inflation *work) {
    if (work->stream.avail_in > 0 || work->left == 0) return;
    uInt piece = work->left > 1u << 30 ? 1u << 30 : (uInt)work->left;
    work->stream.next_in = (Bytef *)(uintptr_t)work->next; /* zlib only reads it, see z_const */
    work->stream.avail_in = piece;
    work->next += piece;
    work->left -= piece;
}

/* Makes room for at least one more byte and the terminator. */
static kn_status make_room(const kn_host *host, inflation *work, uint64_t limit, kn_error *error) {
    if (work->used + 2 <= work->capacity) return KN_OK;
    size_t wanted = work->capacity < 4096 ? 4096 : work->capacity * 2;
    /* One byte beyond the limit reveals that the data is too large. */
    if (wanted > limit + 2) wanted = (size_t)limit + 2;
    void *grown = kn_resize(host, work->data, wanted, 1);
    if (!grown) return kn_fail_memory(error, wanted);
    work->data = grown;
    work->capacity = wanted;
    return KN_OK;
}

static kn_status inflate_all(const kn_host *host, const char *name, inflation *work, uint64_t count,
                             uint64_t limit, kn_error *error) {
    for (;;) {
        kn_status status = make_room(host, work, limit, error);
        if (status != KN_OK) return status;
        feed(work);
        size_t room = work->capacity - 1 - work->used;
        work->stream.next_out = (Bytef *)work->data + work->used;
        work->stream.avail_out = room > 1u << 30 ? 1u << 30 : (uInt)room;
        uInt offered = work->stream.avail_out, given = work->stream.avail_in;
        int result = inflate(&work->stream, Z_NO_FLUSH);
        work->used += offered - work->stream.avail_out;
        uint64_t at = count - work->left - work->stream.avail_in;
        if (work->used > limit)
            return kn_fail(error, KN_ERROR_FORMAT, "%s: inflates to more than %llu bytes, the maximum", name,
                           (unsigned long long)limit);
        if (result == Z_STREAM_END) {
            feed(work);
            if (work->stream.avail_in == 0) return KN_OK;
            /* Another member may follow; anything else fails the check of its header. */
            if (inflateReset(&work->stream) != Z_OK)
                return kn_fail(error, KN_ERROR_INTERNAL, "%s: zlib could not be reset", name);
        } else if (result == Z_MEM_ERROR) {
            return kn_fail(error, KN_ERROR_MEMORY, "%s: out of host memory while inflating", name);
        } else if (result != Z_OK && result != Z_BUF_ERROR) {
            return kn_fail(error, KN_ERROR_FORMAT, "%s: byte %llu: damaged gzip data (%s)", name,
                           (unsigned long long)at,
                           work->stream.msg ? work->stream.msg : "zlib gives no reason");
        } else if (work->stream.avail_in == 0 && work->left == 0 && work->stream.avail_out > 0) {
            return kn_fail(error, KN_ERROR_FORMAT,
                           "%s: ends at byte %llu within its gzip data: the file is truncated", name,
                           (unsigned long long)count);
        } else if (result == Z_BUF_ERROR && work->stream.avail_out == offered &&
                   work->stream.avail_in == given && given > 0) {
            return kn_fail(error, KN_ERROR_FORMAT, "%s: byte %llu: damaged gzip data", name,
                           (unsigned long long)at);
        }
    }
}

kn_status kn_gzip_inflate(const kn_host *host, const char *name, const uint8_t *bytes, uint64_t count,
                          uint64_t limit, uint8_t **inflated, uint64_t *inflated_count, kn_error *error) {
    *inflated = NULL;
    *inflated_count = 0;
    if (!kn_gzip_is(bytes, count))
        return kn_fail(error, KN_ERROR_FORMAT, "%s: byte 0: not gzip data, which begins with 1f 8b", name);
    if (limit > (uint64_t)PTRDIFF_MAX - 2) limit = (uint64_t)PTRDIFF_MAX - 2;
    kn_host own = host ? *host : kn_host_defaults();
    inflation work = {.next = bytes, .left = count};
    work.stream.zalloc = kn_zlib_take;
    work.stream.zfree = kn_zlib_release;
    work.stream.opaque = &own;
    /* 16 selects the gzip wrapper, 15 the largest window. */
    if (inflateInit2(&work.stream, 15 + 16) != Z_OK)
        return kn_fail(error, KN_ERROR_MEMORY, "%s: out of host memory for inflating", name);
    kn_status status = inflate_all(host, name, &work, count, limit, error);
    inflateEnd(&work.stream);
    if (status != KN_OK) {
        kn_release(host, work.data);
        return status;
    }
    ((uint8_t *)work.data)[work.used] = 0;
    *inflated = work.data;
    *inflated_count = work.used;
    return KN_OK;
}
