/* The glyphs of `digits`: strokes of lines and elliptic arcs, in several styles per digit. */
#include "data/digits_private.h"

#include <stddef.h>

#include "data/made_private.h"

enum { END, START, LINE, ARC };

/* START x y puts the pen down, LINE x y draws to a point, ARC x y rx ry from to draws along an ellipse
 * (angles in 1/64 turn: 0 right, 16 down, 32 left, 48 up; from > to runs backwards), after a line to its
 * first point if the pen is down. An ARC with the pen up starts there: LIFT is START without a point. */
typedef struct piece {
    int8_t kind;
    int16_t x, y, rx, ry, from, to;
} piece;

#define S(x, y)                                                                                              \
    { START, x, y, 0, 0, 0, 0 }
#define L(x, y)                                                                                              \
    { LINE, x, y, 0, 0, 0, 0 }
#define A(x, y, rx, ry, from, to)                                                                            \
    { ARC, x, y, rx, ry, from, to }
#define STOP                                                                                                 \
    { END, 0, 0, 0, 0, 0, 0 }

#define PIECES_MAX 8
#define STYLES_MAX 4

static const piece glyphs[KN_DIGITS_CLASSES][STYLES_MAX][PIECES_MAX] = {
    {
        {A(50, 70, 36, 62, 50, 114), STOP},
        {A(50, 70, 46, 58, 44, 110), STOP},
        {A(50, 70, 30, 62, 54, 116), STOP},
        {A(50, 70, 42, 50, 46, 112), STOP},
    },
    {
        {S(50, 6), L(50, 134), STOP},
        {S(28, 36), L(54, 8), L(54, 134), STOP},
        {S(26, 34), L(52, 8), L(52, 132), S(24, 132), L(80, 132), STOP},
        {S(56, 6), L(44, 134), STOP},
    },
    {
        {A(50, 42, 34, 34, 34, 70), L(14, 132), L(88, 132), STOP},
        {A(48, 40, 32, 32, 36, 72), L(30, 108), A(30, 118, 16, 14, 48, 16), L(88, 126), STOP},
        {A(50, 38, 36, 30, 32, 76), L(12, 130), L(52, 124), L(90, 132), STOP},
        {S(18, 14), L(60, 10), A(58, 42, 28, 32, 48, 74), L(16, 130), L(86, 130), STOP},
    },
    {
        {A(46, 39, 32, 31, 36, 80), A(46, 101, 38, 31, 48, 92), STOP},
        {S(18, 10), L(82, 10), L(46, 56), A(46, 95, 38, 39, 48, 92), STOP},
        {A(44, 38, 34, 28, 38, 78), A(44, 98, 40, 34, 50, 90), STOP},
        {A(48, 36, 28, 28, 34, 80), L(38, 64), L(48, 64), A(46, 99, 34, 35, 48, 94), STOP},
    },
    {
        {S(30, 8), L(16, 82), L(88, 82), S(68, 40), L(66, 134), STOP},
        {S(66, 134), L(66, 8), L(12, 92), L(92, 92), STOP},
        {S(26, 14), L(22, 68), L(78, 66), S(80, 10), L(74, 134), STOP},
        {S(40, 6), L(10, 88), L(90, 84), S(64, 54), L(60, 134), STOP},
    },
    {
        {S(82, 10), L(28, 10), L(22, 62), A(46, 92, 38, 40, 42, 90), STOP},
        {S(84, 12), L(34, 10), L(26, 58), L(46, 54), A(46, 94, 36, 40, 48, 92), STOP},
        {S(30, 12), L(24, 64), A(46, 94, 38, 38, 42, 88), S(30, 12), L(88, 8), STOP},
        {S(78, 8), L(32, 14), L(32, 60), L(52, 58), A(50, 95, 32, 37, 48, 88), STOP},
    },
    {
        {A(78, 74, 60, 66, 50, 32), A(50, 98, 32, 34, 32, 98), STOP},
        {S(68, 6), L(22, 84), A(50, 98, 32, 34, 32, 98), STOP},
        {A(70, 80, 52, 74, 46, 26), A(48, 104, 30, 28, 20, 86), STOP},
        {S(44, 6), L(20, 96), A(52, 100, 34, 32, 32, 98), STOP},
    },
    {
        {S(12, 10), L(86, 10), L(40, 134), STOP},
        {S(12, 10), L(86, 10), L(40, 134), S(34, 72), L(82, 70), STOP},
        {S(10, 26), L(14, 10), L(88, 14), A(140, 140, 88, 84, 42, 32), STOP},
        {S(14, 16), L(48, 10), L(86, 12), L(58, 70), L(48, 134), STOP},
    },
    {
        {A(50, 38, 28, 30, 16, 80), A(50, 102, 35, 33, 48, 112), STOP},
        {A(50, 40, 34, 32, 16, 80), A(50, 104, 34, 30, 48, 112), STOP},
        {A(52, 34, 26, 26, 0, -48), A(46, 100, 32, 36, 48, 114), L(76, 28), STOP},
        {A(50, 42, 24, 34, 16, 80), A(50, 106, 32, 28, 48, 112), STOP},
    },
    {
        {A(48, 42, 32, 34, 64, 0), L(78, 134), STOP},
        {A(46, 42, 32, 34, 66, 0), A(30, 70, 50, 62, 60, 80), STOP},
        {A(48, 44, 34, 36, 68, 4), L(50, 134), STOP},
        {A(50, 40, 28, 32, 64, 0), L(78, 90), A(46, 96, 32, 36, 62, 90), STOP},
    },
};

int kn_digits_style_count(int digit) {
    (void)digit;
    return STYLES_MAX;
}

static void add_point(kn_digits_outline *outline, int *used, int x, int y) {
    if (*used == KN_DIGITS_POINTS_MAX) return;
    outline->points[*used] = (kn_digits_point){x, y};
    *used += 1;
}

void kn_digits_outline_of(int digit, int style, kn_digits_outline *outline) {
    const piece *next = glyphs[digit][style];
    int used = 0;
    outline->strokes = 0;
    outline->first[0] = 0;
    for (; next->kind != END; next++) {
        if (next->kind == START) {
            if (used > 0 && outline->strokes + 1 < KN_DIGITS_STROKES_MAX) {
                outline->strokes += 1;
                outline->first[outline->strokes] = used;
            }
            add_point(outline, &used, next->x, next->y);
        } else if (next->kind == LINE) {
            /* Divided in four, so that the elastic field bends straight lines too. */
            kn_digits_point from = outline->points[used - 1];
            for (int step = 1; step <= 4; step++)
                add_point(outline, &used, from.x + (next->x - from.x) * step / 4,
                          from.y + (next->y - from.y) * step / 4);
        } else {
            int span = next->to > next->from ? next->to - next->from : next->from - next->to;
            int steps = (span + 2) / 3;
            for (int step = 0; step <= steps; step++) {
                int turns = (next->from * steps + (next->to - next->from) * step) * 16 / steps;
                add_point(outline, &used, next->x + next->rx * kn_made_sine(turns + 256) / 16384,
                          next->y + next->ry * kn_made_sine(turns) / 16384);
            }
        }
    }
    outline->strokes += 1;
    outline->first[outline->strokes] = used;
}
