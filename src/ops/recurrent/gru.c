/* The cell of a GRU (cl/recurrent/gru.cl) and its rows. */
#include "ops/recurrent/recurrent.h"
#include "ops/row.h"

static void step(kn_cell_step *on) {
    double r = kn_recurrent_sigmoid(on->sum[0] + on->x[0]), z = kn_recurrent_sigmoid(on->sum[1] + on->x[1]);
    double q = on->sum[2] + on->bias, n = tanh(on->x[2] + r * q);
    on->h = (1 - z) * n + z * on->before;
    on->kept[0] = r;
    on->kept[1] = z;
    on->kept[2] = n;
    on->kept[3] = q;
}

static void back(kn_cell_back *on) {
    double r = on->kept[0], z = on->kept[1], n = on->kept[2], q = on->kept[3];
    double dn = on->dh * (1 - z) * (1 - n * n);
    on->slopes[0] = dn * q * r * (1 - r);
    on->slopes[1] = on->dh * (on->before - n) * z * (1 - z);
    on->slopes[2] = dn;
    on->hidden = dn * r;
    on->direct = on->dh * z;
}

const kn_recurrent_cell kn_cell_gru = {.kind = "gru",
                                       .row = &kn_row_gru,
                                       .gradient_row = &kn_row_gru_gradient,
                                       .number = 2,
                                       .gates = 3,
                                       .kept = 4,
                                       .vectors = 3,
                                       .has_bias = true,
                                       .step = step,
                                       .back = back};

KN_OPERATOR(gru,
            .help = "recurrence of a GRU layer over x (B,T,3H), the input projection for the gates r, z, n, "
                    "with weight (3H,H), bias (H) of the state's contribution to n, and optionally an "
                    "initial state (B,H) and lengths, int32 (B); a second result is the last state",
            KN_ATTRIBUTES(KN_RECURRENT_REVERSE), .min_inputs = 3, .max_inputs = 5, .outputs = 2, .hidden = 2,
            KN_RECURRENT_ROW(1 << 2),
            KN_CASES({.inputs = {"2,3,15", "15,5", "5"}, .smallest = true}, {.inputs = {"1,7,3", "3,1", "1"}},
                     {.inputs = {"3,7,93", "93,31", "31"}, .ranges = {NULL, "-0.5..0.5"}},
                     {.inputs = {"50,4,99", "99,33", "33"}, .ranges = {NULL, "-0.5..0.5"}},
                     {.inputs = {"50,4,204", "204,68", "68", "50,68"},
                      .ranges = {NULL, "-0.3..0.3"},
                      .attributes = "reverse=true"},
                     {.inputs = {"50,4,15", "15,5", "5", "-", "int32 50"}, .ranges = {[4] = "0..5"}},
                     {.inputs = {"5,4,15", "15,5", "5", "5,5", "int32 5"},
                      .ranges = {[4] = "0..5"},
                      .attributes = "reverse=true",
                      .smallest = true},
                     {.inputs = {"1,3,1560", "1560,520", "520", "1,520", "int32 1"},
                      .ranges = {NULL, "-0.05..0.05", [4] = "2..3"},
                      .no_gradient = true},
                     {.inputs = {"50,4,15", "15,5", "5"}, .ranges = {"-200..200"}, .no_gradient = true},
                     {.inputs = {"0,3,15", "15,5", "5"}}, {.inputs = {"2,0,15", "15,5", "5", "2,5"}}));

/* Any gates and states work. */
#define BACK_RANGES(lengths)                                                                                 \
    .ranges = {"-0.3..0.3", "0..1", NULL, "-1..1", [5] = lengths}, .no_gradient = true
KN_OPERATOR(gru_gradient,
            .help = "gradient of gru with respect to the input and state projections and the initial state",
            KN_ATTRIBUTES(KN_RECURRENT_REVERSE), .max_inputs = 6, .outputs = 3, KN_RECURRENT_GRADIENT_ROW,
            KN_CASES({.inputs = {"15,5", "2,3,20", "2,3,5", "2,3,5"}, BACK_RANGES(NULL), .smallest = true},
                     {.inputs = {"93,31", "50,4,124", "50,4,31", "50,4,31"}, BACK_RANGES(NULL)},
                     {.inputs = {"204,68", "50,4,272", "50,4,68", "50,4,68", "50,68"},
                      BACK_RANGES(NULL),
                      .attributes = "reverse=true"},
                     {.inputs = {"1560,520", "1,3,2080", "1,3,520", "1,3,520", "1,520", "int32 1"},
                      .ranges = {"-0.05..0.05", "0..1", NULL, "-1..1", [5] = "2..3"},
                      .no_gradient = true},
                     {.inputs = {"15,5", "5,4,20", "-", "5,4,5", "5,5", "int32 5"},
                      BACK_RANGES("0..5"),
                      .smallest = true}));
