/* Marks: files that record what a process is doing, for a process that runs after it was killed. The owner
 * holds a lock on the file, which the system releases however the owner ends; so a mark that can be locked
 * belongs to a process that has ended. Unlike process ids, locks are not reused and do not differ between
 * containers. */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MARK_BYTES = 4096, MAX_TRIES = 100 };

struct kn_mark {
    const kn_host *host;
    char *path;
    int file;
    int64_t *slot; /* for kn_marks_clear; NULL: none was free */
};

/* A slot holds the file descriptor + 1 and, in the upper half, the monotonic second from which the mark
 * stays; 0: never. A signal handler may read it at any time. */
static int64_t slot_value(int file, int64_t hangs_from) {
    return hangs_from << 32 | (int64_t)(file + 1);
}

static void put(int64_t *slot, int64_t value) {
    __atomic_store_n(slot, value, __ATOMIC_SEQ_CST);
}

static int64_t seconds_now(void) {
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)(now.tv_sec & 0x3fffffff) + 1;
}

static int64_t *take_slot(int64_t *slots, int slot_count, int file) {
    for (int i = 0; slots && i < slot_count; i++) {
        int64_t empty = 0;
        if (__atomic_compare_exchange_n(&slots[i], &empty, slot_value(file, 0), false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST))
            return &slots[i];
    }
    return NULL;
}

/* Locks an open file that is still in its folder. */
static bool lock_file(int file) {
    struct stat about;
    int result;
    do
        result = flock(file, LOCK_EX | LOCK_NB);
    while (result != 0 && errno == EINTR);
    if (result != 0 || fstat(file, &about) != 0) return false;
    errno = EWOULDBLOCK;
    return about.st_nlink > 0;
}

/* Creates and locks a file with a new name. Another process may take it before it is locked. */
static bool create(kn_mark *mark, const char *prefix) {
    struct timespec now = {0};
    kn_text path;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t parts[4] = {(uint64_t)getpid(), (uint64_t)(uintptr_t)mark, (uint64_t)now.tv_sec,
                         (uint64_t)now.tv_nsec};
    for (int turn = 0; turn < MAX_TRIES; turn++) {
        parts[0] += (uint64_t)1 << 32;
        kn_text_init(&path, mark->host);
        kn_text_format(&path, "%s%016llx" KN_MARK_END, prefix,
                       (unsigned long long)kn_hash_bytes(KN_HASH_START, parts, sizeof parts));
        mark->path = kn_text_take(&path);
        if (!mark->path) return false;
        mark->file = open(mark->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (mark->file >= 0 && lock_file(mark->file)) return true;
        const bool again = errno == EWOULDBLOCK || errno == EEXIST || errno == EINTR;
        if (mark->file >= 0) {
            unlink(mark->path);
            close(mark->file);
        }
        kn_release(mark->host, mark->path);
        if (!again) return false;
    }
    return false;
}

kn_mark *kn_mark_open(const kn_host *host, const char *prefix, int64_t *slots, int slot_count) {
    kn_mark *mark = kn_allocate(host, 1, sizeof *mark);
    if (!mark) return NULL;
    mark->host = host;
    if (!create(mark, prefix)) {
        kn_release(host, mark);
        return NULL;
    }
    mark->slot = take_slot(slots, slot_count, mark->file);
    return mark;
}

void kn_mark_write(kn_mark *mark, const char *text, int hang_seconds, bool sync) {
    if (mark->slot) put(mark->slot, slot_value(mark->file, hang_seconds ? seconds_now() + hang_seconds : 0));
    size_t length = strlen(text);
    /* Write the new text first, so that a death in between leaves no empty mark. */
    bool written = pwrite(mark->file, text, length, 0) == (ssize_t)length;
    written = ftruncate(mark->file, written ? (off_t)length : 0) == 0 && written;
    if (sync && written) fdatasync(mark->file);
}

void kn_mark_close(kn_mark **mark) {
    if (!*mark) return;
    const kn_host *host = (*mark)->host;
    if ((*mark)->slot) put((*mark)->slot, 0);
    unlink((*mark)->path);
    close((*mark)->file);
    kn_release(host, (*mark)->path);
    kn_release(host, *mark);
    *mark = NULL;
}

void kn_marks_clear(int64_t *slots, int slot_count) {
    const int before = errno;
    const int64_t now = seconds_now();
    for (int i = 0; i < slot_count; i++) {
        const int64_t value = __atomic_load_n(&slots[i], __ATOMIC_SEQ_CST), hangs_from = value >> 32;
        if (!value || (hangs_from && now >= hangs_from)) continue;
        (void)!ftruncate((int)(value & 0xffffffff) - 1, 0); /* if it fails, the mark stays */
    }
    errno = before;
}

bool kn_mark_take(const kn_host *host, const char *path, char **text) {
    char bytes[MARK_BYTES + 1];
    *text = NULL;
    int file = open(path, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0) return false;
    bool left = lock_file(file);
    if (left) {
        ssize_t count = pread(file, bytes, MARK_BYTES, 0);
        bytes[count > 0 ? count : 0] = '\0';
        unlink(path);
        *text = kn_copy_text(host, bytes);
    }
    close(file);
    return left && *text;
}
