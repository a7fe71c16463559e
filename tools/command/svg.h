/* Small SVG drawings inside an HTML page, which adapt to any width. */
#ifndef KOINE_COMMAND_SVG_H
#define KOINE_COMMAND_SVG_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct svg_point {
    double x, y;
} svg_point;

typedef struct svg_line {
    const char *name;
    const svg_point *points;
    size_t count;
    int colour; /* 0 to 3 */
} svg_line;

/* Lines on common axes; non-finite points are left out. `log_y` if all are above 0. */
void svg_chart(FILE *file, const char *title, const char *x_name, const svg_line *lines, int count,
               int log_y);
/* Dots of (truth, prediction), with the diagonal. */
void svg_dots(FILE *file, const char *title, const char *x_name, const char *y_name, const svg_point *points,
              size_t count);
/* Bars next to names, scaled to the largest number. Each number is followed by `unit`. */
void svg_bars(FILE *file, const char *title, const char *const *names, const double *numbers, int count,
              const char *unit);
/* A text with HTML special characters escaped. */
void html_text(FILE *file, const char *text);
/* An image (height,width,channels) as the value of a `src`: a PNG. False if out of memory. */
int html_picture(FILE *file, int width, int height, int channels, const uint8_t *pixels);

#endif
