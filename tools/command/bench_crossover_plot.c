/* The curves of koine bench-crossover as a self-contained SVG file, readable on light and dark
 * backgrounds. */
#include <math.h>

#include "bench_crossover.h"
#include "svg.h"

enum { WIDE = 720, HIGH = 340, LEFT = 70, RIGHT = 20, TOP = 40, BOTTOM = 50, LEGEND = 22 };

static const char *const colours[CROSS_DEVICES] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                   "#e69f00", "#56b4e9", "#7f7f7f", "#a0522d"};

/* The range of a panel in powers of ten of milliseconds. */
typedef struct panel {
    const cross_curve *curve;
    double top;       /* vertical position of the panel in the image */
    double low, high; /* integer powers of ten */
} panel;

static double across(const panel *self, int place) {
    int last = self->curve->sizes > 1 ? self->curve->sizes - 1 : 1;
    return LEFT + (double)place / last * (WIDE - LEFT - RIGHT);
}

static double down(const panel *self, double milliseconds) {
    double share = (log10(milliseconds) - self->low) / (self->high - self->low);
    return self->top + TOP + (1 - share) * (HIGH - TOP - BOTTOM);
}

static void find_range(panel *self, int devices) {
    double low = INFINITY, high = -INFINITY;
    for (int i = 0; i < self->curve->sizes; i++)
        for (int d = 0; d < devices; d++)
            if (self->curve->seconds[i][d] > 0) {
                low = fmin(low, log10(1e3 * self->curve->seconds[i][d]));
                high = fmax(high, log10(1e3 * self->curve->seconds[i][d]));
            }
    self->low = isfinite(low) ? floor(low) : 0;
    self->high = isfinite(high) ? ceil(high) : 1;
    if (self->high <= self->low) self->high = self->low + 1;
}

static void draw_axes(FILE *file, const panel *self) {
    double bottom = self->top + HIGH - BOTTOM;
    fprintf(file, "<text class=\"title\" x=\"%d\" y=\"%.0f\">", LEFT, self->top + 24);
    html_text(file, self->curve->operation->title);
    fputs("</text>\n", file);
    for (double power = self->low; power <= self->high; power++)
        fprintf(file,
                "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/><text x=\"%d\" y=\"%.1f\" "
                "text-anchor=\"end\">%g ms</text>\n",
                LEFT, WIDE - RIGHT, down(self, pow(10, power)), down(self, pow(10, power)), LEFT - 6,
                down(self, pow(10, power)) + 4, pow(10, power));
    for (int i = 0; i < self->curve->sizes; i++)
        fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%lld</text>\n", across(self, i),
                bottom + 18, (long long)self->curve->size[i]);
    fprintf(file, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"middle\">N</text>\n", (LEFT + WIDE - RIGHT) / 2,
            bottom + 38);
}

static void draw_line(FILE *file, const panel *self, int device) {
    int pen = 0;
    fprintf(file, "<path fill=\"none\" stroke-width=\"2\" stroke=\"%s\" d=\"", colours[device]);
    for (int i = 0; i < self->curve->sizes; i++)
        if (self->curve->seconds[i][device] > 0)
            fprintf(file, "%c%.1f %.1f", pen++ ? 'L' : 'M', across(self, i),
                    down(self, 1e3 * self->curve->seconds[i][device]));
    fputs("\"/>\n", file);
    for (int i = 0; i < self->curve->sizes; i++)
        if (self->curve->seconds[i][device] > 0)
            fprintf(file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" fill=\"%s\"/>\n", across(self, i),
                    down(self, 1e3 * self->curve->seconds[i][device]),
                    self->curve->fastest[i] == device ? 5 : 2, colours[device]);
}

bool cross_plot(const char *path, const cross_curve *curves, int count, const cross_devices *devices) {
    int legend = LEGEND * devices->count + 30;
    whole_file whole;
    if (!whole_open(&whole, path)) return false;
    FILE *file = whole.stream;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" "
            "font-size=\"12\">\n<title>koine bench-crossover</title>\n"
            "<style>text{fill:#222}.title{font-weight:bold;font-size:14px}.grid{stroke:#8886}.back{fill:#fff}"
            "@media(prefers-color-scheme:dark){text{fill:#ddd}.back{fill:#181818}}</style>\n"
            "<rect class=\"back\" width=\"100%%\" height=\"100%%\"/>\n",
            WIDE, legend + HIGH * count);
    for (int d = 0; d < devices->count; d++) {
        fprintf(
            file,
            "<rect x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" fill=\"%s\"/><text x=\"%d\" y=\"%d\">%d: ",
            LEFT, 12 + LEGEND * d, colours[d], LEFT + 18, 22 + LEGEND * d, devices->infos[d]->index);
        html_text(file, devices->infos[d]->name);
        fputs("</text>\n", file);
    }
    fprintf(file, "<text x=\"%d\" y=\"%d\">a step, transfers included; large dots: the fastest</text>\n",
            LEFT, 20 + LEGEND * devices->count);
    for (int i = 0; i < count; i++) {
        panel self = {.curve = &curves[i], .top = legend + HIGH * i};
        find_range(&self, devices->count);
        draw_axes(file, &self);
        for (int d = 0; d < devices->count; d++)
            draw_line(file, &self, d);
    }
    fputs("</svg>\n", file);
    return whole_close(&whole, true);
}
