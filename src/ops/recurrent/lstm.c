/* The cell of an LSTM (cl/recurrent/lstm.cl) and its rows. */
#include "ops/recurrent/recurrent.h"
#include "ops/row.h"

static void step(kn_cell_step *on) {
    double i = kn_recurrent_sigmoid(on->sum[0] + on->x[0]), f = kn_recurrent_sigmoid(on->sum[1] + on->x[1]);
    double g = tanh(on->sum[2] + on->x[2]), o = kn_recurrent_sigmoid(on->sum[3] + on->x[3]);
    on->cell = f * on->cell_before + i * g;
    on->h = o * tanh(on->cell);
    on->kept[0] = i;
    on->kept[1] = f;
    on->kept[2] = g;
    on->kept[3] = o;
}

static void back(kn_cell_back *on) {
    double i = on->kept[0], f = on->kept[1], g = on->kept[2], o = on->kept[3], c = tanh(on->cell);
    double dc = on->dh * o * (1 - c * c) + on->dc;
    on->slopes[0] = dc * g * i * (1 - i);
    on->slopes[1] = dc * on->cell_before * f * (1 - f);
    on->slopes[2] = dc * i * (1 - g * g);
    on->slopes[3] = on->hidden = on->dh * c * o * (1 - o);
    on->direct = 0;
    on->dc_before = dc * f;
}

const kn_recurrent_cell kn_cell_lstm = {.kind = "lstm",
                                        .row = &kn_row_lstm,
                                        .gradient_row = &kn_row_lstm_gradient,
                                        .number = 1,
                                        .gates = 4,
                                        .kept = 4,
                                        .vectors = 4,
                                        .has_cells = true,
                                        .step = step,
                                        .back = back};

KN_OPERATOR(lstm,
            .help = "recurrence of an LSTM layer over x (B,T,4H), the input projection for the gates i, f, "
                    "g, o, with weight (4H,H), and optionally an initial hidden and cell state, both (B,H), "
                    "and lengths, int32 (B); further results are the last hidden and cell state",
            KN_ATTRIBUTES(KN_RECURRENT_REVERSE), .min_inputs = 2, .max_inputs = 5, .outputs = 3, .hidden = 3,
            KN_RECURRENT_ROW(1 << 3),
            KN_CASES({.inputs = {"2,3,20", "20,5"}, .smallest = true}, {.inputs = {"1,7,4", "4,1"}},
                     {.inputs = {"3,7,124", "124,31"}, .ranges = {NULL, "-0.5..0.5"}},
                     {.inputs = {"7,31,28", "28,7"}, .ranges = {NULL, "-0.5..0.5"}},
                     {.inputs = {"50,4,132", "132,33"}, .ranges = {NULL, "-0.5..0.5"}},
                     {.inputs = {"8,3,272", "272,68"}, .ranges = {NULL, "-0.3..0.3"}},
                     {.inputs = {"17,2,128", "128,32"},
                      .ranges = {NULL, "-0.3..0.3"},
                      .no_gradient = true,
                      .smallest = true},
                     {.inputs = {"50,4,20", "20,5", "50,5", "50,5"}, .attributes = "reverse=true"},
                     {.inputs = {"50,4,20", "20,5", "-", "50,5", "int32 50"}, .ranges = {[4] = "0..5"}},
                     {.inputs = {"5,4,20", "20,5", "5,5", "5,5", "int32 5"},
                      .ranges = {[4] = "0..5"},
                      .attributes = "reverse=true",
                      .smallest = true},
                     {.inputs = {"1,3,2080", "2080,520", "1,520", "1,520", "int32 1"},
                      .ranges = {NULL, "-0.05..0.05", [4] = "2..3"},
                      .no_gradient = true},
                     {.inputs = {"50,4,20", "20,5"}, .ranges = {"-200..200"}, .no_gradient = true},
                     {.inputs = {"0,3,20", "20,5"}}, {.inputs = {"2,0,20", "20,5", "2,5"}}));

/* Any gates and cells work. */
#define BACK_RANGES(lengths)                                                                                 \
    .ranges = {"-0.3..0.3", "0..1", NULL, "-1..1", [7] = lengths}, .no_gradient = true
KN_OPERATOR(
    lstm_gradient, .help = "gradient of lstm with respect to the input projection and the initial state",
    KN_ATTRIBUTES(KN_RECURRENT_REVERSE), .max_inputs = 8, .outputs = 3, KN_RECURRENT_GRADIENT_ROW,
    KN_CASES({.inputs = {"20,5", "2,3,20", "2,3,5", "2,3,5"}, BACK_RANGES(NULL), .smallest = true},
             {.inputs = {"128,32", "17,2,128", "17,2,32", "17,2,32"}, BACK_RANGES(NULL), .smallest = true},
             {.inputs = {"28,7", "7,31,28", "7,31,7", "7,31,7"}, BACK_RANGES(NULL)},
             {.inputs = {"124,31", "50,4,124", "50,4,31", "50,4,31"}, BACK_RANGES(NULL)},
             {.inputs = {"272,68", "50,4,272", "50,4,68", "50,4,68", "50,68", "50,68", "50,68"},
              BACK_RANGES(NULL),
              .attributes = "reverse=true"},
             {.inputs = {"2080,520", "1,3,2080", "1,3,520", "1,3,520", "1,520", "-", "1,520", "int32 1"},
              .ranges = {"-0.05..0.05", "0..1", NULL, "-1..1", [7] = "2..3"},
              .no_gradient = true},
             {.inputs = {"544,136", "9,2,544", "9,2,136", "9,2,136"}, BACK_RANGES(NULL)},
             {.inputs = {"20,5", "5,4,20", "-", "5,4,5", "5,5", "-", "5,5", "int32 5"},
              BACK_RANGES("0..5"),
              .smallest = true},
             {.inputs = {"20,5", "50,4,20", "50,4,5", "50,4,5", "-", "50,5", "-", "int32 50"},
              BACK_RANGES("0..5"),
              .attributes = "reverse=true"},
             {.inputs = {"20,5", "2,0,20", "2,0,5", "2,0,5", "-", "2,5"}, BACK_RANGES(NULL)}));
