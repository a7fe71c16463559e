/* A small loss curve on the terminal at the end of training. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train.h"

enum { ROWS = 4, EIGHTHS = 8, MAX_COLUMNS = 60, MIN_COLUMNS = 8, MARGIN = 24 };

void curve_add(loss_curve *curve, double loss) {
    if (!curve->stride) curve->stride = 1;
    if (curve->seen++ % curve->stride) return;
    if (curve->count == CURVE_POINTS) { /* keep every second point and halve the rate from now on */
        for (size_t i = 0; i < CURVE_POINTS / 2; i++)
            curve->losses[i] = curve->losses[2 * i];
        curve->count = CURVE_POINTS / 2;
        curve->stride *= 2;
        if ((curve->seen - 1) % curve->stride) return;
    }
    curve->losses[curve->count++] = (float)loss;
}

/* Whether the terminal is set to UTF-8, as the C library determines it. */
static bool shows_blocks(void) {
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (int i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        if (value && *value) return strstr(value, "UTF-8") || strstr(value, "utf8") || strstr(value, "UTF8");
    }
    return false;
}

/* Averages equal numbers of losses into columns; returns the number of columns. */
static int columns_of(const loss_curve *curve, int room, double *columns) {
    int count = curve->count < (size_t)room ? (int)curve->count : room;
    for (int c = 0; c < count; c++) {
        size_t from = curve->count * (size_t)c / (size_t)count,
               to = curve->count * (size_t)(c + 1) / (size_t)count;
        double sum = 0;
        for (size_t i = from; i < to; i++)
            sum += curve->losses[i];
        columns[c] = sum / (double)(to - from);
    }
    return count;
}

void curve_show(const loss_curve *curve) {
    static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    double columns[MAX_COLUMNS], low = INFINITY, high = -INFINITY;
    int room = progress_width() - MARGIN;
    if (room < MIN_COLUMNS || !shows_blocks()) return;
    int count = columns_of(curve, room < MAX_COLUMNS ? room : MAX_COLUMNS, columns);
    for (int c = 0; c < count; c++) {
        if (!isfinite(columns[c])) return;
        low = fmin(low, columns[c]);
        high = fmax(high, columns[c]);
    }
    if (count < MIN_COLUMNS || !(high > low)) return;
    const char *no_colour = getenv("NO_COLOR");
    bool coloured = !no_colour || !*no_colour;
    progress_clear();
    for (int row = ROWS - 1; row >= 0; row--) {
        if (row == ROWS - 1)
            fprintf(stderr, "%9.4g ", high);
        else if (row == 0)
            fprintf(stderr, "%9.4g ", low);
        else
            fprintf(stderr, "%9s ", row == ROWS - 2 ? "loss" : "");
        fputs(coloured ? "│\033[34m" : "│", stderr);
        for (int c = 0; c < count; c++) {
            /* Keep the lowest value visible. */
            int level =
                1 + (int)((columns[c] - low) / (high - low) * (ROWS * EIGHTHS - 1) + 0.5) - row * EIGHTHS;
            fputs(blocks[level < 0 ? 0 : level > EIGHTHS ? EIGHTHS : level], stderr);
        }
        fputs(coloured ? "\033[0m\n" : "\n", stderr);
    }
    fprintf(stderr, "%9s └", "");
    for (int c = 0; c < count; c++)
        fputs("─", stderr);
    fprintf(stderr, " %llu steps\n", (unsigned long long)curve->seen);
}
