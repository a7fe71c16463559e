/* One line of progress on a terminal, rewritten in place. */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "command.h"

enum { MIN_BAR = 3, LINE_BYTES = 512 };

static bool live;     /* standard error is a terminal */
static bool plain;    /* standard error is not a terminal */
static bool standing; /* the line is not empty */
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

/* ---- fitting -------------------------------------------------------------------------------------- */

/* The width of the bar made by progress_bar in cells, and the number of filled cells; without a bar, cells is
 * 0. */
static const char *find_bar(const char *text, size_t *cells, size_t *full) {
    const char *bar = strchr(text, '[');
    *full = bar ? strspn(bar + 1, "#") : 0;
    *cells = bar ? *full + strspn(bar + 1 + *full, " ") : 0;
    if (*cells && bar[1 + *cells] == ']') return bar + 1;
    *cells = 0;
    return text;
}

/* Prints the fields, separated by two spaces, that fit completely, and a bar of the remaining length. A line
 * wider than the terminal would wrap and could not be rewritten. */
static void print_within(const char *text, size_t room) {
    char kept[LINE_BYTES] = "";
    size_t cells, full;
    const char *bar = find_bar(text, &cells, &full), *field = strstr(bar + cells, "  ");
    const size_t first = field ? (size_t)(field - text) : strlen(text),
                 least = cells < MIN_BAR ? cells : MIN_BAR;
    size_t used = text_columns(text, first) - cells + least;
    if (used > room) {
        fprintf(stderr, "%.*s", (int)text_within(text, first, room), text);
        return;
    }
    for (const char *next; field; field = next) {
        next = strstr(field + 2, "  ");
        size_t bytes = next ? (size_t)(next - field) : strlen(field);
        if (used + text_columns(field, bytes) > room) continue;
        used += text_columns(field, bytes);
        strncat(kept, field, bytes);
    }
    size_t length = cells < least + room - used ? cells : least + room - used;
    fprintf(stderr, "%.*s", (int)(bar - text), text);
    for (size_t i = 0; i < length; i++)
        fputc(i * cells < full * length ? '#' : ' ', stderr);
    fprintf(stderr, "%.*s%s", (int)(first - (size_t)(bar - text) - cells), bar + cells, kept);
}

/* ---- output ----------------------------------------------------------------------------------------- */

static void show(const char *format, va_list arguments) {
    char text[LINE_BYTES];
    vsnprintf(text, sizeof text, format, arguments);
    fputs("\r\033[K", stderr);
    print_within(text, (size_t)progress_width() - 1);
    fflush(stderr);
    standing = true;
    last_shown = clock_now();
}

void progress_line(const char *format, ...) {
    /* Limit updates to ten per second. */
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

const char *progress_bar(double fraction, char *text, size_t room) {
    size_t width = room > 3 ? room - 3 : 0, full;
    if (!(fraction >= 0)) fraction = 0;
    if (fraction > 1) fraction = 1;
    full = (size_t)(fraction * (double)width + 0.5);
    text[0] = '[';
    for (size_t i = 0; i < width; i++)
        text[1 + i] = i < full ? '#' : ' ';
    text[1 + width] = ']';
    text[2 + width] = 0;
    return text;
}

void progress_compile(void *user, const char *label, uint64_t done, uint64_t total) {
    /* concurrent kernels: the line shows these again when one of them begins */
    static uint64_t last_done, last_total;
    char bar[24];
    (void)user;
    if (total)
        last_done = done, last_total = total;
    else
        precompile_start();
    if (last_done >= last_total && !total) {
        progress_now("compiling %s", label);
        return;
    }
    progress_bar((double)last_done / (double)last_total, bar, sizeof bar);
    if (last_done >= last_total)
        progress_now("compiling %s the driver may compile during the first run", bar);
    else
        progress_line("compiling %s %llu of %llu  %s", bar, (unsigned long long)last_done,
                      (unsigned long long)last_total, label);
}
