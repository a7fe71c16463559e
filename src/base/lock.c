/* Locks between processes. The system releases the lock on a file however its holder ends. */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

struct kn_lock {
    const kn_host *host;
    char *path;
    int file;
};

/* Whether the lock was taken; *held: another process has it. */
static bool try_once(int file, bool *held) {
    int result;
    do
        result = flock(file, LOCK_EX | LOCK_NB);
    while (result != 0 && errno == EINTR);
    *held = result != 0 && errno == EWOULDBLOCK;
    return result == 0;
}

static bool wait_for(int file, double seconds, bool *held) {
    static const double step = 0.005;
    for (double waited = 0;; waited += step) {
        if (try_once(file, held)) return true;
        if (!*held || !(waited < seconds)) return false;
        nanosleep(&(struct timespec){0, (long)(step * 1e9)}, NULL);
    }
}

kn_lock *kn_lock_take(const kn_host *host, const char *path, double seconds, bool *held) {
    *held = false;
    kn_lock *lock = kn_allocate(host, 1, sizeof *lock);
    if (!lock) return NULL;
    lock->host = host;
    lock->path = kn_copy_text(host, path);
    lock->file = lock->path ? open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666) : -1;
    if (lock->file >= 0 && wait_for(lock->file, seconds, held)) return lock;
    if (lock->file >= 0) close(lock->file);
    kn_release(host, lock->path);
    kn_release(host, lock);
    return NULL;
}

void kn_lock_release(kn_lock **lock) {
    if (!*lock) return;
    const kn_host *host = (*lock)->host;
    /* A process that opened the file before takes a lock that nobody else sees, which only costs it time. */
    unlink((*lock)->path);
    close((*lock)->file);
    kn_release(host, (*lock)->path);
    kn_release(host, *lock);
    *lock = NULL;
}
