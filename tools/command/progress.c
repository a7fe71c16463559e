/* One line of progress on a terminal, rewritten in place. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "command.h"

static bool live;
static bool standing; /* something is on the line */
static double last_shown;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

void progress_setup(const common_options *common) {
    const char *terminal = getenv("TERM");
    live =
        !common->quiet && !common->json && isatty(STDERR_FILENO) && !(terminal && !strcmp(terminal, "dumb"));
}

bool progress_is_live(void) {
    return live;
}

void progress_line(const char *format, ...) {
    /* Ten times a second is enough for eyes, and costs nothing. */
    if (!live || now() - last_shown < 0.1) return;
    last_shown = now();
    char text[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\r\033[K%s", text);
    fflush(stderr);
    standing = true;
}

void progress_clear(void) {
    if (!standing) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    standing = false;
}

const char *progress_bar(double share, char *text, size_t room) {
    size_t width = room > 3 ? room - 3 : 0, full;
    if (!(share >= 0)) share = 0;
    if (share > 1) share = 1;
    full = (size_t)(share * (double)width + 0.5);
    text[0] = '[';
    for (size_t i = 0; i < width; i++)
        text[1 + i] = i < full ? '#' : ' ';
    text[1 + width] = ']';
    text[2 + width] = 0;
    return text;
}

void progress_compile(void *user, const char *label, uint64_t done, uint64_t total) {
    char bar[24];
    (void)user;
    progress_line("compiling %s %llu/%llu %s",
                  progress_bar(total ? (double)done / (double)total : 0, bar, sizeof bar),
                  (unsigned long long)done, (unsigned long long)total, label);
}

const char *time_text(double seconds, char *text, size_t room) {
    unsigned long long whole = seconds > 0 ? (unsigned long long)(seconds + 0.5) : 0;
    if (whole >= 3600)
        snprintf(text, room, "%llu:%02llu:%02llu", whole / 3600, whole / 60 % 60, whole % 60);
    else
        snprintf(text, room, "%llu:%02llu", whole / 60, whole % 60);
    return text;
}
