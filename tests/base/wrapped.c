#include "wrapped.h"

#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wrapping.h"

wrapped wrapped_calls;

WRAPPED(int, fsync, (int file)) {
    struct stat about;
    if (fstat(file, &about) != 0) return -1;
    bool folder = S_ISDIR(about.st_mode);
    if (wrapped_calls.on_fsync) wrapped_calls.on_fsync(folder);
    int failure = folder ? wrapped_calls.fail_fsync_folder : wrapped_calls.fail_fsync_file;
    if (failure) {
        errno = failure;
        return -1;
    }
    return __real_fsync(file);
}

WRAPPED(ssize_t, read, (int file, void *bytes, size_t count)) {
    wrapped_calls.reads++;
    if (wrapped_calls.fail_read || (wrapped_calls.tedious && wrapped_calls.reads % 2)) {
        errno = wrapped_calls.fail_read ? wrapped_calls.fail_read : EINTR;
        return -1;
    }
    return __real_read(file, bytes, wrapped_calls.tedious && count > 3 ? 3 : count);
}

WRAPPED(ssize_t, write, (int file, const void *bytes, size_t count)) {
    wrapped_calls.writes++;
    if (wrapped_calls.write_nothing) return 0;
    if (wrapped_calls.fail_write || (wrapped_calls.tedious && wrapped_calls.writes % 2)) {
        errno = wrapped_calls.fail_write ? wrapped_calls.fail_write : EINTR;
        return -1;
    }
    return __real_write(file, bytes, wrapped_calls.tedious && count > 3 ? 3 : count);
}

WRAPPED(int, pthread_create,
        (pthread_t * thread, const pthread_attr_t *attributes, void *(*work)(void *), void *argument)) {
    if (wrapped_calls.fail_thread) return wrapped_calls.fail_thread;
    return __real_pthread_create(thread, attributes, work, argument);
}

WRAPPED(int, pthread_mutex_init, (pthread_mutex_t * mutex, const pthread_mutexattr_t *attributes)) {
    if (wrapped_calls.fail_mutex) return wrapped_calls.fail_mutex;
    return __real_pthread_mutex_init(mutex, attributes);
}

WRAPPED(int, pthread_cond_init, (pthread_cond_t * condition, const pthread_condattr_t *attributes)) {
    if (wrapped_calls.fail_condition) return wrapped_calls.fail_condition;
    return __real_pthread_cond_init(condition, attributes);
}
