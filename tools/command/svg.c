/* Charts as SVG: axes with round numbers, lines, dots and bars. Colours come from the page's style. */
#include <math.h>
#include <string.h>

#include "svg.h"

/* The maximum width of a character, in the larger font of narrow screens. */
enum { WIDE = 640, HIGH = 300, LEFT = 74, RIGHT = 14, TOP = 34, BOTTOM = 46, MAX_TICKS = 6, LETTER = 12 };
enum { BAR_LEFT = 250, BAR_WIDE = 280, BAR_STEP = 26 };

void html_text(FILE *file, const char *text) {
    for (; *text; text++)
        if (*text == '<')
            fputs("&lt;", file);
        else if (*text == '>')
            fputs("&gt;", file);
        else if (*text == '&')
            fputs("&amp;", file);
        else if (*text == '"')
            fputs("&quot;", file);
        else if ((unsigned char)*text >= 0x20 || *text == '\n' || *text == '\t')
            fputc(*text, file);
}

/* ---- axes -------------------------------------------------------------------------------------------- */

typedef struct axis {
    double low, high;
    int logarithmic;
} axis;

static void stretch(axis *range, double number) {
    if (range->logarithmic) number = number > 0 ? log10(number) : NAN;
    if (!isfinite(number)) return;
    range->low = fmin(range->low, number);
    range->high = fmax(range->high, number);
}

static void settle(axis *range) {
    if (!(range->low <= range->high)) range->low = 0, range->high = 1;
    const double most = fmax(fabs(range->low), fabs(range->high));
    if (range->high - range->low <= 1e-9 * most) { /* a single value: scale by its magnitude */
        const double half = range->logarithmic || most == 0 ? 0.5 : 0.5 * most;
        range->low -= half;
        range->high += half;
    }
}

/* From 0 to 1, or NaN. */
static double place(const axis *range, double number) {
    if (range->logarithmic) number = number > 0 ? log10(number) : NAN;
    return (number - range->low) / (range->high - range->low);
}

static double across(const axis *range, double number) {
    return LEFT + place(range, number) * (WIDE - LEFT - RIGHT);
}

static double down(const axis *range, double number) {
    return TOP + (1 - place(range, number)) * (HIGH - TOP - BOTTOM);
}

/* 1, 2 or 5 times a power of ten. */
static double step_of(const axis *range) {
    double rough = (range->high - range->low) / MAX_TICKS, power = pow(10, floor(log10(rough))),
           share = rough / power;
    return power * (share <= 1 ? 1 : share <= 2 ? 2 : share <= 5 ? 5 : 10);
}

static void tick(FILE *file, const axis *range, int vertical, double shown) {
    if (vertical)
        fprintf(file,
                "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/><text x=\"%d\" y=\"%.1f\" "
                "text-anchor=\"end\">%.4g</text>",
                LEFT, WIDE - RIGHT, down(range, shown), down(range, shown), LEFT - 6, down(range, shown) + 4,
                shown);
    else
        fprintf(file, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.5g</text>", across(range, shown),
                HIGH - BOTTOM + 18, shown);
}

/* Powers of ten; if they are few, also 2 and 5 times each power. */
static void ticks_logarithmic(FILE *file, const axis *range, int vertical) {
    static const double between[] = {1, 2, 5};
    double decades = range->high - range->low, each = ceil(decades / MAX_TICKS);
    for (double power = floor(range->low); power <= range->high; power += each)
        for (int i = 0; i < (decades < 2.5 ? 3 : 1); i++) {
            double shown = between[i] * pow(10, power), at = log10(shown);
            if (at >= range->low && at <= range->high) tick(file, range, vertical, shown);
        }
}

static void ticks(FILE *file, const axis *range, int vertical) {
    if (range->logarithmic) {
        ticks_logarithmic(file, range, vertical);
        return;
    }
    double step = step_of(range);
    for (double at = ceil(range->low / step) * step; at <= range->high + 1e-9 * step; at += step)
        tick(file, range, vertical, fabs(at) < 1e-9 * step ? 0 : at);
}

static void begin(FILE *file, const char *title, int high) {
    fprintf(file, "<figure><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDE, high);
    html_text(file, title);
    fprintf(file, "\"><text class=\"title\" x=\"%d\" y=\"18\">", LEFT);
    html_text(file, title);
    fputs("</text>", file);
}

static void frame(FILE *file, const axis *x, const axis *y, const char *x_name) {
    ticks(file, x, 0);
    ticks(file, y, 1);
    fprintf(file, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">", LEFT + (WIDE - LEFT - RIGHT) / 2,
            HIGH - 6);
    html_text(file, x_name);
    fputs("</text>", file);
}

/* ---- drawings ---------------------------------------------------------------------------------------- */

void svg_chart(FILE *file, const char *title, const char *x_name, const svg_line *lines, int count,
               int log_y) {
    axis x = {INFINITY, -INFINITY, 0}, y = {INFINITY, -INFINITY, log_y};
    for (int i = 0; i < count; i++)
        for (size_t p = 0; p < lines[i].count; p++) {
            if (!isfinite(lines[i].points[p].y)) continue;
            stretch(&x, lines[i].points[p].x);
            stretch(&y, lines[i].points[p].y);
        }
    settle(&x);
    settle(&y);
    begin(file, title, HIGH);
    frame(file, &x, &y, x_name);
    int right = WIDE - RIGHT;
    for (int i = count - 1; i >= 0; i--) {
        if (!lines[i].count) continue;
        right -= LETTER * (int)strlen(lines[i].name) + 24;
        fprintf(
            file,
            "<rect class=\"fill%d\" x=\"%d\" y=\"10\" width=\"10\" height=\"10\"/><text x=\"%d\" y=\"19\">",
            lines[i].colour, right, right + 14);
        html_text(file, lines[i].name);
        fputs("</text>", file);
    }
    for (int i = 0; i < count; i++) {
        int pen = 0;
        fprintf(file, "<path class=\"line%d\" d=\"", lines[i].colour);
        for (size_t p = 0; p < lines[i].count; p++) {
            double right_of = across(&x, lines[i].points[p].x), below = down(&y, lines[i].points[p].y);
            if (!isfinite(right_of) || !isfinite(below)) continue;
            fprintf(file, "%c%.1f %.1f", pen++ ? 'L' : 'M', right_of, below);
        }
        fputs("\"/>", file);
        for (size_t p = 0; p < lines[i].count && lines[i].count <= 30; p++) {
            double right_of = across(&x, lines[i].points[p].x), below = down(&y, lines[i].points[p].y);
            if (isfinite(right_of) && isfinite(below))
                fprintf(file, "<circle class=\"fill%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>", lines[i].colour,
                        right_of, below);
        }
    }
    fputs("</svg></figure>\n", file);
}

void svg_dots(FILE *file, const char *title, const char *x_name, const char *y_name, const svg_point *points,
              size_t count) {
    axis both = {INFINITY, -INFINITY, 0};
    for (size_t p = 0; p < count; p++) {
        stretch(&both, points[p].x);
        stretch(&both, points[p].y);
    }
    settle(&both);
    begin(file, title, HIGH);
    frame(file, &both, &both, x_name);
    fprintf(file, "<text x=\"%d\" y=\"19\" text-anchor=\"end\">vertical: ", WIDE - RIGHT);
    html_text(file, y_name);
    fprintf(file, "</text><path class=\"line3\" d=\"M%.1f %.1fL%.1f %.1f\"/>", across(&both, both.low),
            down(&both, both.low), across(&both, both.high), down(&both, both.high));
    for (size_t p = 0; p < count; p++)
        if (isfinite(points[p].x) && isfinite(points[p].y))
            fprintf(file, "<circle class=\"fill0\" opacity=\"0.5\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\"/>",
                    across(&both, points[p].x), down(&both, points[p].y));
    fputs("</svg></figure>\n", file);
}

void svg_bars(FILE *file, const char *title, const char *const *names, const double *numbers, int count,
              const char *unit) {
    double most = 1e-300;
    for (int i = 0; i < count; i++)
        if (numbers[i] > most) most = numbers[i];
    begin(file, title, 38 + BAR_STEP * count);
    for (int i = 0; i < count; i++) {
        double wide = fmax(0, numbers[i] / most) * BAR_WIDE;
        int y = 36 + BAR_STEP * i;
        fprintf(file, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", BAR_LEFT - 8, y + 14);
        html_text(file, names[i]);
        fprintf(file,
                "</text><rect class=\"fill0\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"18\"/>"
                "<text x=\"%.1f\" y=\"%d\">%.3g%s</text>",
                BAR_LEFT, y, wide, BAR_LEFT + wide + 6, y + 14, numbers[i], unit);
    }
    fputs("</svg></figure>\n", file);
}
