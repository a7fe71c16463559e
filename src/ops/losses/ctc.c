/* Connectionist temporal classification (cl/losses/ctc.cl): the loss of sequences whose labels have no
 * positions in time. */
#include <math.h>

#include "ops/build.h"
#include "ops/gradient.h"
#include "ops/layer.h"
#include "ops/lowering.h"
#include "ops/row.h"
#include "ops/shape_rule.h"

extern const kn_operator kn_row_ctc, kn_row_ctc_gradient;

/* x is (N,T,C) of log-probabilities, labels (N,S), both lengths (N). The hidden output contains the
 * log-probability of each prefix */
enum { X, LABELS, TIMES_OF, LABELS_OF, ALPHAS, LOSSES, SLOPES };

/* ---- shapes ------------------------------------------------------------------------------------------- */

static kn_status ctc_shape(kn_shape_call *call) {
    const kn_shape *x = &call->inputs[X]->shape, *labels = &call->inputs[LABELS]->shape;
    kn_graph *graph = call->graph;
    if (kn_shape_float_input(call, X)) return call->error->status;
    if (x->rank != 3 || labels->rank != 2 || labels->dtype != KN_INT32 || x->dims[0] != labels->dims[0])
        return kn_shape_fail(call, KN_ERROR_SHAPE,
                             "x is %s and the labels %s; expected (N,times,classes) and int32 (N,labels)",
                             kn_shape_words_of(call, X), kn_shape_words_of(call, LABELS));
    for (int i = TIMES_OF; i <= LABELS_OF; i++) {
        const kn_shape *lengths = &call->inputs[i]->shape;
        if (lengths->rank != 1 || lengths->dtype != KN_INT32 || lengths->dims[0] != x->dims[0])
            return kn_shape_fail(call, KN_ERROR_SHAPE,
                                 "x is %s and input %d is %s; expected lengths, int32 (N)",
                                 kn_shape_words_of(call, X), i, kn_shape_words_of(call, i));
    }
    int64_t blank = kn_shape_attribute(call, "blank")->integer;
    if (blank < 0 || blank > INT32_MAX || (kn_dim_known(x->dims[2]) && blank >= x->dims[2]))
        return kn_shape_fail(call, KN_ERROR_ARGUMENT,
                             "x is %s, and the blank is %lld; expected a class index",
                             kn_shape_words_of(call, X), (long long)blank);
    call->outputs[0] = (kn_shape){.dtype = x->dtype, .rank = 1, .dims = {x->dims[0]}};
    if (call->output_count > 1) {
        call->outputs[1] = *x;
        call->outputs[1].dims[2] = kn_dim_add(graph, kn_dim_multiply(graph, 2, labels->dims[1]), 1);
    }
    return KN_OK;
}

/* ---- references ------------------------------------------------------------------------------ */

/* One sample. */
typedef struct sample {
    const double *x, *labels;
    int64_t times, classes, most, states; /* sizes of the arrays */
    int64_t own_times, own_labels, own_states, blank;
    bool lengths; /* they are valid */
} sample;

static sample sample_of(const kn_reference_call *call, int64_t number) {
    const kn_shape *x = &call->inputs[X].shape;
    sample one = {.times = x->dims[1], .classes = x->dims[2], .most = call->inputs[LABELS].shape.dims[1]};
    one.states = 2 * one.most + 1;
    one.x = call->inputs[X].data + number * one.times * one.classes;
    one.labels = call->inputs[LABELS].data + number * one.most;
    one.own_times = (int64_t)call->inputs[TIMES_OF].data[number];
    one.own_labels = (int64_t)call->inputs[LABELS_OF].data[number];
    one.own_states = 2 * one.own_labels + 1;
    one.blank = kn_attribute_of(call->node, "blank")->integer;
    one.lengths =
        one.own_times >= 0 && one.own_times <= one.times && one.own_labels >= 0 && one.own_labels <= one.most;
    return one;
}

static int64_t class_of(const sample *one, int64_t state) {
    return state % 2 ? (int64_t)one->labels[state / 2] : one->blank;
}

static double emission(const sample *one, int64_t time, int64_t state) {
    int64_t class = class_of(one, state);
    return class >= 0 && class < one->classes ? one->x[time * one->classes + class] : NAN;
}

static double log_sum(double a, double b) {
    double most = a > b ? a : b;
    if (isnan(a) || isnan(b)) return NAN;
    return most == -INFINITY ? most : most + log(exp(a - most) + exp(b - most));
}

/* Whether state s may follow state s - 2. */
static bool skips(const sample *one, int64_t s) {
    return s % 2 && s > 1 && one->labels[s / 2] != one->labels[s / 2 - 1];
}

static kn_status ctc_reference(kn_reference_call *call) {
    for (int64_t n = 0; n < call->outputs[0].elements; n++) {
        sample one = sample_of(call, n);
        double *alphas = call->outputs[1].data + n * one.times * one.states;
        for (int64_t i = 0; i < one.times * one.states; i++)
            alphas[i] = -INFINITY;
        if (!one.lengths) {
            call->outputs[0].data[n] = NAN;
            continue;
        }
        for (int64_t t = 0; t < one.own_times; t++) {
            double *here = alphas + t * one.states;
            const double *before = t ? here - one.states : NULL;
            for (int64_t s = 0; s < one.own_states; s++) {
                double sum = !before ? (s < 2 ? 0 : -INFINITY) : before[s];
                if (before && s > 0) sum = log_sum(sum, before[s - 1]);
                if (before && skips(&one, s)) sum = log_sum(sum, before[s - 2]);
                here[s] = sum + emission(&one, t, s);
            }
        }
        double likelihood = one.own_labels ? -INFINITY : 0;
        const double *last = one.own_times ? alphas + (one.own_times - 1) * one.states : alphas;
        if (one.own_times) likelihood = last[one.own_states - 1];
        if (one.own_times && one.own_labels) likelihood = log_sum(likelihood, last[one.own_states - 2]);
        call->outputs[0].data[n] = -likelihood;
    }
    return KN_OK;
}

/* dx of one sample, (times,classes); `later` has space for two times of states. */
static void spread(const sample *one, const double *alphas, double loss, double slope, double *later,
                   double *dx) {
    for (int64_t t = one->own_times - 1; t >= 0; t--) {
        double *here = later + t % 2 * one->states;
        const double *next = later + (t + 1) % 2 * one->states;
        for (int64_t s = 0; s < one->own_states; s++) {
            double sum = s + 2 >= one->own_states ? 0 : -INFINITY;
            if (t + 1 < one->own_times) {
                sum = next[s];
                if (s + 1 < one->own_states) sum = log_sum(sum, next[s + 1]);
                if (s + 2 < one->own_states && skips(one, s + 2)) sum = log_sum(sum, next[s + 2]);
            }
            double alpha = alphas[t * one->states + s];
            here[s] = sum + emission(one, t, s);
            if (alpha > -INFINITY) dx[t * one->classes + class_of(one, s)] -= slope * exp(alpha + sum + loss);
        }
    }
}

static kn_status gradient_reference(kn_reference_call *call) {
    int64_t samples = call->inputs[LOSSES].elements;
    size_t room = 2 * (2 * (size_t)call->inputs[LABELS].shape.dims[1] + 1);
    double *later = kn_allocate(call->host, room, sizeof *later);
    if (!later) return kn_fail(call->error, KN_ERROR_MEMORY, "out of memory for a reference");
    for (int64_t n = 0; n < samples; n++) {
        sample one = sample_of(call, n);
        double loss = call->inputs[LOSSES].data[n];
        double *dx = call->outputs[0].data + n * one.times * one.classes;
        for (int64_t i = 0; i < one.times * one.classes; i++)
            dx[i] = isnan(loss) ? NAN : 0;
        if (isfinite(loss))
            spread(&one, call->inputs[ALPHAS].data + n * one.times * one.states, loss,
                   call->inputs[SLOPES].data[n], later, dx);
    }
    kn_release(call->host, later);
    return KN_OK;
}

static void ctc_cost(const kn_node *node, kn_cost *cost) {
    const kn_shape *x = &node->inputs[X]->shape;
    double states = 2 * (double)node->inputs[LABELS]->shape.dims[1] + 1;
    kn_cost_set(node, 8 * (double)x->dims[0] * (double)x->dims[1] * states, cost);
}

/* ---- lowering -------------------------------------------------------------------------------- */

static int64_t states_of(const kn_node *node) {
    return 2 * node->inputs[LABELS]->shape.dims[1] + 1;
}

static kn_step *begin(kn_lowering *lowering, const char *kernel, bool plain, size_t *items) {
    const kn_target *target = lowering->target;
    *items = target->wide_vector || plain
                 ? 1
                 : kn_group_items_for(target, "losses/ctc.cl", states_of(lowering->node), 256);
    kn_step *step = kn_step_begin(lowering, "losses/ctc.cl", kernel);
    kn_step_define_type(step, "KN_T", lowering->node->outputs[0]->shape.dtype);
    KN_STEP_DEFINE(step, {"KN_ITEMS", *items});
    return step;
}

static kn_status finish(kn_step *step, kn_lowering *lowering, size_t items) {
    const kn_shape *x = &lowering->node->inputs[X]->shape;
    kn_step_bind_values(step, lowering);
    KN_STEP_SET(step, {"times", x->dims[1]}, {"classes", x->dims[2]},
                {"most", lowering->node->inputs[LABELS]->shape.dims[1]},
                {"blank", kn_attribute_of(lowering->node, "blank")->integer});
    kn_step_size1(step, (size_t)x->dims[0] * items, items);
    return kn_step_end(step, lowering);
}

static kn_status lower_ctc(kn_lowering *lowering) {
    const bool plain = lowering->config == KN_METHOD_PLAIN;
    size_t items;
    if (kn_elements_of(lowering->result) == 0) return KN_OK;
    kn_step *step = begin(lowering, "kn_ctc", plain, &items);
    kn_step_update(step, "alphas", lowering->node->outputs[1]);
    return finish(step, lowering, items);
}

static kn_status lower_gradient(kn_lowering *lowering) {
    const bool plain = lowering->config == KN_METHOD_PLAIN;
    const kn_node *node = lowering->node;
    size_t items;
    if (kn_elements_of(lowering->result) == 0) return KN_OK;
    uint64_t numbers = (uint64_t)node->inputs[X]->shape.dims[0] * (uint64_t)states_of(node);
    int betas = kn_emit_scratch(lowering, 3 * numbers * kn_dtype_bytes(node->outputs[0]->shape.dtype));
    int chains = kn_emit_scratch(lowering, numbers * sizeof(int32_t));
    kn_step *step = begin(lowering, "kn_ctc_gradient", plain, &items);
    kn_step_scratch(step, "betas", betas);
    kn_step_scratch(step, "chains", chains);
    return finish(step, lowering, items);
}

/* ---- gradient, rows -------------------------------------------------------------------------- */

static kn_status ctc_gradient(kn_gradient_call *call) {
    const kn_node *node = call->node;
    if (!call->output_gradients[0] || !call->wanted[X]) return KN_OK;
    kn_value *inputs[7] = {node->inputs[X],          node->inputs[LABELS], node->inputs[TIMES_OF],
                           node->inputs[LABELS_OF],  node->outputs[1],     node->outputs[0],
                           call->output_gradients[0]};
    kn_settings settings;
    kn_settings_init(&settings, call->graph, &kn_row_ctc_gradient);
    kn_settings_int(&settings, "blank", kn_attribute_of(node, "blank")->integer);
    call->input_gradients[X] = kn_gradient_build(call, &kn_row_ctc_gradient, inputs, 7, &settings);
    return kn_gradient_status(call);
}

#define BLANK KN_ATTRIBUTES(KN_INT("blank", 0, "class that separates labels"))
KN_OPERATOR(
    ctc,
    .help = "negative log-likelihood of labels (N,S) for log-probabilities (N,T,C), with lengths (N) of both",
    BLANK, .min_inputs = 4, .max_inputs = 4, .hidden = 1,
    .input_names = {"x", "labels", "times_of", "labels_of"}, .output_names = {"losses"}, .shape = ctc_shape,
    .gradient = ctc_gradient, .reference = ctc_reference, .cost = ctc_cost, .tolerance = 8,
    KN_VARIANTS({.name = "steps",
                 .choice.accepts = kn_takes_kernel_types,
                 .lower = lower_ctc,
                 .config = KN_METHOD_TREE},
                {.name = "plain",
                 .choice.accepts = kn_takes_kernel_types,
                 .lower = lower_ctc,
                 .config = KN_METHOD_PLAIN}),
    KN_CASES({.inputs = {"2,5,4", "int32 2,2", "int32 2", "int32 2"},
              .ranges = {"-4..0", "1..3", "5..5", "1..2"},
              .smallest = true},
             {.inputs = {"3,7,4", "int32 3,3", "int32 3", "int32 3"},
              .ranges = {"-4..0", "1..2", "6..7", "0..3"}},
             {.inputs = {"2,31,7", "int32 2,9", "int32 2", "int32 2"},
              .ranges = {"-4..0", "0..5", "20..31", "3..9"},
              .attributes = "blank=6"},
             {.inputs = {"3,93,33", "int32 3,40", "int32 3", "int32 3"},
              .ranges = {"-4..0", "1..32", "85..93", "30..40"},
              .no_gradient = true},
             {.inputs = {"7,3,4", "int32 7,3", "int32 7", "int32 7"},
              .ranges = {"-4..0", "1..1", "0..3", "0..3"},
              .no_gradient = true},
             {.inputs = {"7,3,4", "int32 7,3", "int32 7", "int32 7"},
              .ranges = {"-4..0", "-1..4", "-1..4", "-1..4"},
              .no_gradient = true},
             {.inputs = {"0,3,4", "int32 0,3", "int32 0", "int32 0"}, .no_gradient = true}));
/* Any alphas work that are not more likely than the loss. */
#define GRADIENT_CASE(x, labels, n, alphas)                                                                  \
    .inputs = {x, "int32 " labels, "int32 " n, "int32 " n, alphas, n, n}, .no_gradient = true
KN_OPERATOR(ctc_gradient, .help = "gradient of ctc with respect to the log-probabilities", BLANK,
            .min_inputs = 7, .max_inputs = 7, .backward = true,
            .input_names = {"x", "labels", "times_of", "labels_of", "alphas", "losses", "dlosses"},
            .output_names = {"dx"}, .shape = kn_shape_like_first, .reference = gradient_reference,
            .cost = ctc_cost, .tolerance = 8,
            KN_VARIANTS({.name = "steps",
                         .choice.accepts = kn_takes_kernel_types,
                         .lower = lower_gradient,
                         .config = KN_METHOD_TREE},
                        {.name = "plain",
                         .choice.accepts = kn_takes_kernel_types,
                         .lower = lower_gradient,
                         .config = KN_METHOD_PLAIN}),
            KN_CASES({GRADIENT_CASE("2,5,4", "2,2", "2", "2,5,5"),
                      .ranges = {"-2..0", "1..3", "3..5", "1..2", "-4..-2", "-2..1"}, .smallest = true},
                     {GRADIENT_CASE("3,31,7", "3,9", "3", "3,31,19"),
                      .ranges = {"-1..0", "1..6", "20..31", "0..9", "-9..-7", "-2..1"}}));

/* ---- builder --------------------------------------------------------------------------------- */

/* Lengths that were not given: the whole sequence, (N). */
static kn_value *full_length(kn_value *x, kn_dim length, const char *words) {
    if (kn_dim_known(length) && length <= INT32_MAX)
        return kn_filled(x->graph, KN_INT32, x->shape.dims[0], (double)length);
    return kn_graph_fail(x->graph, KN_ERROR_SHAPE,
                         "ctc: x is %s; give the lengths of the %s, since their number is a symbol",
                         kn_shape_words(x->graph, &x->shape), words);
}

/* logits are (N,T,C), labels int32 (N,S), the lengths int32 (N) or NULL. */
kn_value *kn_ctc(kn_value *logits, kn_value *labels, kn_value *times_of, kn_value *labels_of,
                 const kn_ctc_params *params) {
    if (kn_value_failed(logits)) return logits;
    kn_graph *graph = logits->graph;
    kn_ctc_params given = {.size = sizeof given};
    KN_TAKE_PARAMS(logits, kn_ctc_params, &given, params);
    if (kn_value_failed(labels)) return kn_missing(logits, labels, "ctc", "labels");
    if (logits->shape.rank != 3 || labels->shape.rank != 2)
        return kn_graph_fail(
            graph, KN_ERROR_SHAPE,
            "ctc: the logits are %s and the labels %s; expected (N,times,classes) and (N,labels)",
            kn_shape_words(graph, &logits->shape), kn_shape_words(graph, &labels->shape));
    if (!times_of) times_of = full_length(logits, logits->shape.dims[1], "times");
    if (!labels_of) labels_of = full_length(logits, labels->shape.dims[1], "labels");
    kn_value *inputs[4] = {kn_log_softmax(logits, -1), labels, times_of, labels_of};
    kn_settings settings;
    kn_settings_init(&settings, graph, &kn_row_ctc);
    kn_settings_int(&settings, "blank", given.blank);
    kn_value *losses = kn_build(&kn_row_ctc, inputs, 4, &settings);
    if (kn_value_failed(losses)) return &graph->failed;
    kn_dtype dtype = losses->shape.dtype;
    if (given.zero_infinite) {
        kn_value *infinite = kn_equal(losses, kn_cast(kn_scalar(graph, INFINITY), dtype));
        losses = kn_where(infinite, kn_cast(kn_scalar(graph, 0), dtype), losses);
    }
    if (given.sum) return kn_sum(losses, NULL, false);
    kn_value *counts = kn_max(kn_cast(labels_of, dtype), kn_cast(kn_scalar(graph, 1), dtype));
    return kn_mean(kn_div(losses, counts), NULL, false);
}
