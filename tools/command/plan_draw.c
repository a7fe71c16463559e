/* koine plan --dot and --svg. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan_draw.h"
#include "svg.h"

enum { BOX_WIDE = 230, BOX_HIGH = 46, GAP_ACROSS = 18, GAP_DOWN = 34, EDGE = 12 };

static void dot_text(const char *text) {
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') putchar('\\');
        putchar(*text);
    }
}

void plan_dot(const kn_plan_step *steps, int count) {
    puts("digraph plan {\n  node [shape=box, fontname=\"sans-serif\", fontsize=10]");
    for (int i = 0; i < count; i++) {
        printf("  s%d [label=\"%d  ", i, i);
        dot_text(steps[i].label);
        fputs("\\n", stdout);
        dot_text(steps[i].kernel);
        if (strcmp(steps[i].device, KN_DEVICE_MAIN)) {
            fputs(" on ", stdout);
            dot_text(steps[i].device);
        }
        fputs("\\n", stdout);
        dot_text(steps[i].shape);
        printf("\"%s]\n", steps[i].once ? ", style=dashed" : "");
        for (int j = 0; j < steps[i].input_count; j++)
            printf("  s%d -> s%d\n", steps[i].inputs[j], i);
    }
    puts("}");
}

typedef struct box {
    int row, column;
} box;

/* Assigns rows: each step below its lowest input step. Returns the number of rows and the largest number of
 * columns. */
static int arrange(const kn_plan_step *steps, int count, box *boxes, int *filled, int *columns) {
    int rows = 0;
    *columns = 1;
    for (int i = 0; i < count; i++) {
        int row = 0;
        for (int j = 0; j < steps[i].input_count; j++)
            if (boxes[steps[i].inputs[j]].row >= row) row = boxes[steps[i].inputs[j]].row + 1;
        boxes[i] = (box){row, filled[row]++};
        if (filled[row] > *columns) *columns = filled[row];
        if (row + 1 > rows) rows = row + 1;
    }
    return rows;
}

static void draw_box(const kn_plan_step *step, int position, int x, int y, double share) {
    char label[200];
    snprintf(label, sizeof label, "%d  %.34s", position, step->label);
    printf("<g class=\"step\"><title>");
    html_text(stdout, step->label);
    fputs(", ", stdout);
    html_text(stdout, step->kernel);
    fputs(", on ", stdout);
    html_text(stdout, step->device);
    printf(", %.4g MFLOP, %.4g MB</title><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\" "
           "fill=\"#1668b0\" "
           "fill-opacity=\"%.3f\" stroke=\"#1668b0\"%s/><text x=\"%d\" y=\"%d\" font-weight=\"600\">",
           1e-6 * step->flops, 1e-6 * step->bytes, x, y, BOX_WIDE, BOX_HIGH, 0.05 + 0.5 * share,
           step->once ? " stroke-dasharray=\"4 3\"" : "", x + 8, y + 18);
    html_text(stdout, label);
    printf("</text><text x=\"%d\" y=\"%d\">", x + 8, y + 36);
    snprintf(label, sizeof label, "%.36s", step->shape);
    html_text(stdout, label);
    puts("</text></g>");
}

bool plan_svg(const kn_plan_step *steps, int count) {
    box *boxes = calloc((size_t)count + 1, sizeof *boxes);
    int *filled = calloc((size_t)count + 1, sizeof *filled), columns = 1;
    if (!boxes || !filled) {
        free(boxes);
        free(filled);
        return false;
    }
    int rows = arrange(steps, count, boxes, filled, &columns);
    int wide = columns * (BOX_WIDE + GAP_ACROSS) + 2 * EDGE, high = rows * (BOX_HIGH + GAP_DOWN) + 2 * EDGE;
    double most = 1;
    printf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
           "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" "
           "fill=\"#fff\"/>\n",
           wide, high, wide, high);
    for (int i = 0; i < count; i++)
        most = fmax(most, steps[i].flops);
    for (int i = 0; i < count; i++)
        for (int j = 0; j < steps[i].input_count; j++) {
            const box *from = &boxes[steps[i].inputs[j]], *to = &boxes[i];
            int x1 = EDGE + from->column * (BOX_WIDE + GAP_ACROSS) + BOX_WIDE / 2,
                y1 = EDGE + from->row * (BOX_HIGH + GAP_DOWN) + BOX_HIGH,
                x2 = EDGE + to->column * (BOX_WIDE + GAP_ACROSS) + BOX_WIDE / 2,
                y2 = EDGE + to->row * (BOX_HIGH + GAP_DOWN);
            printf("<path d=\"M%d %dC%d %d %d %d %d %d\" fill=\"none\" stroke=\"#888\" "
                   "stroke-opacity=\"0.7\"/>\n",
                   x1, y1, x1, y1 + GAP_DOWN, x2, y2 - GAP_DOWN, x2, y2);
        }
    for (int i = 0; i < count; i++)
        draw_box(&steps[i], i, EDGE + boxes[i].column * (BOX_WIDE + GAP_ACROSS),
                 EDGE + boxes[i].row * (BOX_HIGH + GAP_DOWN), steps[i].flops / most);
    puts("</svg>");
    free(boxes);
    free(filled);
    return true;
}
