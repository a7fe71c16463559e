/* Starts the command again with other words. */
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

int process_start(char *const *arguments, bool silent, pid_t *child) {
    posix_spawn_file_actions_t actions;
    int code = posix_spawn_file_actions_init(&actions);
    if (code) return code;
    fflush(stdout);
    if (silent) code = be_silent(&actions);
    if (!code) code = posix_spawn(child, "/proc/self/exe", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    return code;
}

bool process_wait(pid_t child, int *result) {
    while (waitpid(child, result, 0) < 0)
        if (errno != EINTR) return false;
    return true;
}
