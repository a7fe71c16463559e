/* One line of progress on a terminal, rewritten in place. */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "command.h"

static bool live;     /* a terminal reads along */
static bool plain;    /* somebody else does */
static bool standing; /* something is on the line */
static double last_shown;

void progress_setup(const common_options *common) {
    const char *terminal = getenv("TERM");
    live = !common->quiet && isatty(STDERR_FILENO) && !(terminal && !strcmp(terminal, "dumb"));
    plain = !common->quiet && !live;
    last_shown = clock_now();
}

int progress_width(void) {
    struct winsize size;
    if (!live) return 0;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/* A line that is wider than the terminal would break, and could not be taken back. */
static void show(const char *format, va_list arguments) {
    char text[256];
    size_t width = (size_t)progress_width();
    if (width > sizeof text) width = sizeof text;
    vsnprintf(text, width, format, arguments);
    fprintf(stderr, "\r\033[K%s", text);
    fflush(stderr);
    standing = true;
    last_shown = clock_now();
}

void progress_line(const char *format, ...) {
    /* Ten times a second is enough for eyes, and costs nothing. */
    if (!live || clock_now() - last_shown < 0.1) return;
    va_list arguments;
    va_start(arguments, format);
    show(format, arguments);
    va_end(arguments);
}

void progress_now(const char *format, ...) {
    if (!live) return;
    va_list arguments;
    va_start(arguments, format);
    show(format, arguments);
    va_end(arguments);
}

bool progress_plain_due(void) {
    if (!plain || clock_now() - last_shown < 60) return false;
    last_shown = clock_now();
    return true;
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
    progress_bar(total ? (double)done / (double)total : 0, bar, sizeof bar);
    if (total && done >= total)
        progress_now("compiling %s the first run may still wait for the driver", bar);
    else
        progress_line("compiling %s %llu of %llu  %s", bar, (unsigned long long)done,
                      (unsigned long long)total, label);
}
