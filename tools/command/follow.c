/* Runs another process of this program and reads its output line by line. */
#include "follow.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE_BYTES = 1 << 20, SECONDS_TO_CLEAR = 1, SECONDS_TO_END = 10 };

/* The output of a process, split into lines. */
typedef struct stream_lines {
    int number; /* the descriptor; -1 at end of file */
    char *text; /* an incomplete line of up to LINE_BYTES */
    size_t used;
} stream_lines;

static void take_lines(const follow_reader *reader, bool errors, stream_lines *from) {
    const ssize_t got = read(from->number, from->text + from->used, LINE_BYTES - 1 - from->used);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) {
        close(from->number);
        from->number = -1;
    } else
        from->used += (size_t)got;
    from->text[from->used] = '\0';
    char *line = from->text;
    for (char *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        reader->line(reader->user, errors, line);
    }
    from->used = strlen(line);
    memmove(from->text, line, from->used + 1);
    if (from->used && (from->number < 0 || from->used == LINE_BYTES - 1)) {
        reader->line(reader->user, errors, from->text); /* unterminated, or longer than any line */
        from->used = 0;
    }
}

static bool wait_for_end(pid_t child, double seconds, int *result) {
    for (double waited = 0; waited < seconds; waited += 0.1) {
        if (waitpid(child, result, WNOHANG) == child) return true;
        poll(NULL, 0, 100);
    }
    return false;
}

/* Ends the process and those that it started. SIGTERM comes first: a killed process cannot report that the
 * kernel that it was compiling is not to blame. False if the operating system does not release the process.
 */
static bool end_process(pid_t child, int *result) {
    kill(-child, SIGTERM);
    const bool ended = wait_for_end(child, SECONDS_TO_CLEAR, result);
    kill(-child, SIGKILL);
    return ended || wait_for_end(child, SECONDS_TO_END, result);
}

static follow_end read_lines(const follow_reader *reader, pid_t child, stream_lines from[2], int *result) {
    while (from[0].number >= 0 || from[1].number >= 0) {
        struct pollfd wait[2] = {{from[0].number, POLLIN, 0}, {from[1].number, POLLIN, 0}};
        const double left = reader->until(reader->user) - clock_now();
        if (interrupted() || !(left > 0)) {
            if (!end_process(child, result)) return FOLLOW_LOST;
            return interrupted() ? FOLLOW_INTERRUPTED : FOLLOW_STOPPED;
        }
        if (poll(wait, 2, left < 0.5 ? (int)(left * 1000) + 1 : 500) < 0) continue;
        for (int i = 0; i < 2; i++)
            if (wait[i].revents) take_lines(reader, i == 1, &from[i]);
    }
    return process_wait(child, result) ? FOLLOW_ENDED : FOLLOW_LOST;
}

follow_end follow(char *const *arguments, const follow_reader *reader, int *result, int *code) {
    stream_lines from[2] = {{.number = -1}, {.number = -1}};
    follow_end end = FOLLOW_ENDED;
    int pipes[2];
    pid_t child = 0;
    *result = 0;
    *code = 0;
    for (int i = 0; i < 2; i++)
        if (!(from[i].text = malloc(LINE_BYTES))) *code = ENOMEM;
    if (!*code) *code = process_start_read(arguments, pipes, &child);
    if (!*code) {
        from[0].number = pipes[0], from[1].number = pipes[1];
        end = read_lines(reader, child, from, result);
    }
    for (int i = 0; i < 2; i++) {
        if (from[i].number >= 0) close(from[i].number);
        free(from[i].text);
    }
    return end;
}
