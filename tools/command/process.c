/* Starts this program again with other arguments. */
#define _GNU_SOURCE /* pipe2 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"

extern char **environ;

/* Without input and output. */
static int be_silent(posix_spawn_file_actions_t *actions) {
    int code = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!code) code = posix_spawn_file_actions_addopen(actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    return code ? code : posix_spawn_file_actions_adddup2(actions, STDOUT_FILENO, STDERR_FILENO);
}

static int start(char *const *arguments, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, pid_t *child) {
    fflush(stdout);
    return posix_spawn(child, "/proc/self/exe", actions, attributes, arguments, environ);
}

int process_start(char *const *arguments, bool silent, pid_t *child) {
    posix_spawn_file_actions_t actions;
    int code = posix_spawn_file_actions_init(&actions);
    if (code) return code;
    if (silent) code = be_silent(&actions);
    if (!code) code = start(arguments, &actions, NULL, child);
    posix_spawn_file_actions_destroy(&actions);
    return code;
}

/* In a new group, without input, with the pipes as its output and errors. */
static int start_into(char *const *arguments, const int ends[2], pid_t *child) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int code = posix_spawn_file_actions_init(&actions);
    if (code) return code;
    if (!(code = posix_spawnattr_init(&attributes))) {
        code = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
        if (!code) code = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        if (!code) code = posix_spawn_file_actions_adddup2(&actions, ends[0], STDOUT_FILENO);
        if (!code) code = posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
        if (!code) code = start(arguments, &actions, &attributes, child);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return code;
}

int process_start_read(char *const *arguments, int pipes[2], pid_t *child) {
    int pairs[2][2], code = 0, made = 0;
    /* Closed in other processes, which other threads may be starting. */
    while (made < 2 && pipe2(pairs[made], O_CLOEXEC) == 0)
        made++;
    if (made < 2) code = errno;
    if (!code) code = start_into(arguments, (const int[]){pairs[0][1], pairs[1][1]}, child);
    for (int i = 0; i < made; i++) {
        close(pairs[i][1]);
        if (code) close(pairs[i][0]);
        pipes[i] = pairs[i][0];
    }
    return code;
}

bool process_wait(pid_t child, int *result) {
    while (waitpid(child, result, 0) < 0)
        if (errno != EINTR) return false;
    return true;
}
