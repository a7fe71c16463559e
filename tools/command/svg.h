/* Small drawings as SVG inside an HTML page, which fit any width. */
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

/* Lines over one pair of axes; numbers that are not finite are left out. `log_y` where all are above 0. */
void svg_chart(FILE *file, const char *title, const char *x_name, const svg_line *lines, int count,
               int log_y);
/* Dots of (truth, said), with the line where both are the same. */
void svg_dots(FILE *file, const char *title, const char *x_name, const char *y_name, const svg_point *points,
              size_t count);
/* Bars beside names: the longest is the largest number. `unit` stands behind each. */
void svg_bars(FILE *file, const char *title, const char *const *names, const double *numbers, int count,
              const char *unit);
/* A text with what HTML would take for a tag made harmless. */
void html_text(FILE *file, const char *text);
/* A picture (height,width,channels) as the value of a `src`: a PNG. False where memory is out. */
int html_picture(FILE *file, int width, int height, int channels, const uint8_t *pixels);

#endif
