/* The cell of a plain recurrent network (cl/recurrent/rnn.cl) and its rows. Only its result is stored for the
 * gradient */
#include "ops/recurrent/recurrent.h"
#include "ops/row.h"

static void step(kn_cell_step *on) {
    double sum = on->sum[0] + on->x[0];
    on->h = !on->relu ? tanh(sum) : sum < 0 ? 0 : sum; /* NaN propagates */
}

static void back(kn_cell_back *on) {
    double h = on->kept[0];
    on->slopes[0] = on->hidden = !on->relu ? on->dh * (1 - h * h) : h > 0 ? on->dh : 0;
    on->direct = 0;
}

const kn_recurrent_cell kn_cell_rnn = {.kind = "rnn",
                                       .row = &kn_row_rnn,
                                       .gradient_row = &kn_row_rnn_gradient,
                                       .number = 3,
                                       .gates = 1,
                                       .vectors = 4,
                                       .has_relu = true,
                                       .step = step,
                                       .back = back};

#define ATTRIBUTES KN_ATTRIBUTES(KN_RECURRENT_REVERSE, KN_BOOLEAN("relu", 0, "relu instead of tanh"))

/* The weights of the cases are so small that rounding errors of a state decay in later steps. */
KN_OPERATOR(
    rnn,
    .help = "recurrence of a plain recurrent layer over x (B,T,H), the input projection, with weight (H,H), "
            "and optionally an initial state (B,H) and lengths, int32 (B); a second result is the last state",
    ATTRIBUTES, .min_inputs = 2, .max_inputs = 4, .outputs = 2, .hidden = 1, KN_RECURRENT_ROW(0),
    KN_CASES(
        {.inputs = {"2,3,5", "5,5"}, .ranges = {NULL, "-0.3..0.3"}, .smallest = true},
        {.inputs = {"1,7,1", "1,1"}, .ranges = {NULL, "-0.5..0.5"}},
        {.inputs = {"3,7,31", "31,31"}, .ranges = {NULL, "-0.1..0.1"}},
        {.inputs = {"50,4,93", "93,93"}, .ranges = {NULL, "-0.06..0.06"}},
        {.inputs = {"50,4,68", "68,68", "50,68"},
         .ranges = {NULL, "-0.06..0.06"},
         .attributes = "reverse=true"},
        {.inputs = {"9,2,516", "516,516"}, .ranges = {NULL, "-0.02..0.02"}, .no_gradient = true},
        {.inputs = {"1,3,780", "780,780", "1,780", "int32 1"},
         .ranges = {NULL, "-0.02..0.02", [3] = "2..3"},
         .no_gradient = true},
        {.inputs = {"3,4,31", "31,31", "3,31"}, .ranges = {NULL, "-0.1..0.1"}, .attributes = "relu=true"},
        {.inputs = {"50,4,5", "5,5", "-", "int32 50"}, .ranges = {NULL, "-0.3..0.3", [3] = "0..5"}},
        {.inputs = {"5,4,5", "5,5", "5,5", "int32 5"},
         .ranges = {NULL, "-0.3..0.3", [3] = "0..5"},
         .attributes = "reverse=true relu=true",
         .smallest = true},
        {.inputs = {"50,4,5", "5,5"}, .ranges = {NULL, "-0.3..0.3"}, .no_gradient = true},
        {.inputs = {"2,2,5", "5,5"}, .ranges = {"special"}, .attributes = "relu=true", .no_gradient = true},
        {.inputs = {"0,3,5", "5,5"}}, {.inputs = {"2,0,5", "5,5", "2,5"}}));

/* Any results work. */
#define BACK_RANGES(lengths) .ranges = {"-0.3..0.3", "-1..1", [4] = lengths}, .no_gradient = true
KN_OPERATOR(rnn_gradient,
            .help = "gradient of rnn with respect to the input projection and the initial state", ATTRIBUTES,
            .max_inputs = 5, .outputs = 2, KN_RECURRENT_GRADIENT_ROW,
            KN_CASES({.inputs = {"5,5", "2,3,5", "2,3,5"}, BACK_RANGES(NULL), .smallest = true},
                     {.inputs = {"93,93", "50,4,93", "50,4,93"}, BACK_RANGES(NULL)},
                     {.inputs = {"68,68", "50,4,68", "50,4,68", "50,68"},
                      BACK_RANGES(NULL),
                      .attributes = "reverse=true"},
                     {.inputs = {"780,780", "1,3,780", "1,3,780", "1,780", "int32 1"},
                      .ranges = {"-0.02..0.02", "-1..1", [4] = "2..3"},
                      .no_gradient = true},
                     {.inputs = {"5,5", "5,4,5", "-", "5,5", "int32 5"},
                      BACK_RANGES("0..5"),
                      .attributes = "relu=true",
                      .smallest = true}));
