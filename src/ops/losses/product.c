/* Cross-entropy of the logits x · Wᵀ against class indices, without storing all logits: when the sizes are
 * known, the operator becomes products with some rows of W at a time. For the gradient, the logits are
 * computed again. */
#include <math.h>

#include "ops/build.h"
#include "ops/gather/blocks.h"
#include "ops/gradient.h"
#include "ops/losses/losses.h"
#include "ops/lowering.h"
#include "ops/matmul/matmul.h"
#include "ops/pointwise/pointwise.h"
#include "ops/shape/shape.h"
#include "ops/shape_rule.h"

enum { X, W, TARGET, LOSS = 0, HITS, MAX_CLASSES = 1 << 24 /* also numbers in float32 */ };
/* The most slices of W, and parts of x, since they are inputs of a concat; the fewest rows of x in a part,
 * unless the logits of fewer exceed the limit. */
enum { MAX_SLICES = 32, MAX_PARTS = KN_MAX_INPUTS, FEW_ROWS = 256 };

/* ---- shape and cost ------------------------------------------------------------------------------------ */

/* x is (...,D), w (V,D), the target int32 (...); the results are scalars. */
static kn_status shape(kn_shape_call *call) {
    const kn_shape *x = &call->inputs[X]->shape, *w = &call->inputs[W]->shape;
    const kn_shape *target = &call->inputs[TARGET]->shape;
    if (kn_shape_float_input(call, X) || kn_shape_float_input(call, W)) return call->error->status;
    if (x->dtype != KN_FLOAT32 || !(w->dtype == KN_FLOAT32 || kn_is_half(w->dtype)) || x->rank < 1 ||
        w->rank != 2 || w->dims[1] != x->dims[x->rank - 1] || !kn_dim_known(w->dims[0]) || w->dims[0] < 1 ||
        w->dims[0] > MAX_CLASSES)
        return kn_shape_fail(call, KN_ERROR_SHAPE,
                             "x is %s and w is %s; expected float32 (...,inputs) and (classes,inputs)",
                             kn_shape_words_of(call, X), kn_shape_words_of(call, W));
    kn_shape rows = *x;
    rows.rank--;
    rows.dtype = KN_INT32;
    if (target->dtype != KN_INT32 || target->rank != rows.rank || !kn_shape_same(target, &rows))
        return kn_shape_fail(call, KN_ERROR_SHAPE, "x is %s and the target is %s; expected class indices, %s",
                             kn_shape_words_of(call, X), kn_shape_words_of(call, TARGET),
                             kn_shape_words(call->graph, &rows));
    kn_attribute_value *classes = kn_shape_attribute(call, "classes");
    if (classes->integer < 0) classes->number = (double)(classes->integer = w->dims[0]);
    if (classes->integer != w->dims[0])
        return kn_shape_fail(call, KN_ERROR_ARGUMENT, "classes must be the number of rows of w, or -1");
    const double softcap = kn_shape_attribute(call, "softcap")->number;
    if (!(softcap >= 0 && softcap < INFINITY))
        return kn_shape_fail(call, KN_ERROR_ARGUMENT, "a softcap of %g; expected a number of at least 0",
                             softcap);
    if (kn_shape_attribute(call, "limit")->integer < 1)
        return kn_shape_fail(call, KN_ERROR_ARGUMENT, "limit must be above 0");
    call->outputs[LOSS] = call->outputs[HITS] = (kn_shape){.dtype = KN_FLOAT32};
    return KN_OK;
}

static int64_t row_count(const kn_shape *x) {
    int64_t rows = 1;
    for (int i = 0; i < x->rank - 1; i++)
        rows *= x->dims[i];
    return rows;
}

static void cost(const kn_node *node, kn_cost *cost) {
    const kn_shape *w = &node->inputs[W]->shape;
    kn_cost_set(node,
                2.0 * (double)row_count(&node->inputs[X]->shape) * (double)w->dims[0] * (double)w->dims[1],
                cost);
}

/* ---- nodes at known sizes ------------------------------------------------------------------------------ */

KN_POINTWISE(picked_slope, .help = "x - 1 for the class z that is the target y, otherwise x",
             .backward = true, .value = "(y == z ? x - 1 : x) + 0 * y * z",
             KN_CASES({.inputs = {"7,5", "7,1", "5"},
                       .ranges = {NULL, "3..3", "3..3"},
                       .no_gradient = true,
                       .smallest = true},
                      {.inputs = {"31,33", "31,1", "33"}, .no_gradient = true}));

/* Returns its first input. The others are pairs of a value and the gradient of the first with respect to it,
 * which nodes compute before the backward pass. */
static kn_status with_gradients_gradient(kn_gradient_call *call) {
    kn_value *g = call->output_gradients[0];
    for (int i = 1; g && i + 1 < call->node->input_count; i += 2) {
        if (!call->wanted[i]) continue;
        kn_value *pair[2] = {call->node->inputs[i + 1], g};
        call->input_gradients[i] = kn_gradient_build(call, &kn_row_mul, pair, 2, NULL);
    }
    return kn_gradient_status(call);
}

static kn_status with_gradients_reference(kn_reference_call *call) {
    call->outputs[0].data[0] = call->inputs[0].data[0];
    return KN_OK;
}

KN_OPERATOR(with_gradients, .class = KN_CLASS_VIEW,
            .help = "a scalar and its gradients; only in bound graphs", .backward = true, .min_inputs = 3,
            .max_inputs = 5, .shape = kn_shape_like_first, .gradient = with_gradients_gradient,
            .reference = with_gradients_reference,
            KN_CASES({.inputs = {"", "3", "3"}, .no_gradient = true, .smallest = true}));

/* A part of the rows of x, what is known of them, and what is computed. */
typedef struct part {
    int64_t rows;
    kn_value *x;             /* (rows,D) */
    kn_value *given, *known; /* the target, int32 (rows,1); the same with -1 for rows that are ignored */
    kn_value *loss, *hits;   /* scalars */
    kn_value *dx, *dw;       /* gradients of the loss */
} part;

typedef struct chunks {
    kn_graph *graph;
    kn_value *w, *codes; /* the weight; its state, if that is in blocks, or NULL */
    int64_t classes, width;
    bool ignores; /* rows of class `ignored` */
    int32_t ignored;
    int64_t rows; /* of x in a part */
    int64_t size; /* rows of w in a slice */
    int slices;
    bool keeps; /* the logits of a part */
    double softcap;
} chunks;

/* By shape only, so that the same shape gives the same bits. At most `limit` logits at a time, as far as the
 * numbers of parts and slices allow. */
static void choose_sizes(chunks *own, int64_t rows, int64_t limit) {
    const int64_t whole = limit / own->classes, least = limit / kn_divide_up(own->classes, MAX_SLICES);
    own->rows = rows;
    /* Parts whose logits are all kept need them only once, but each reads w, and may dequantize it: this pays
     * for many rows. */
    if (rows > least) own->rows = least;
    if (rows > whole && whole >= FEW_ROWS) own->rows = whole;
    if (own->rows < kn_divide_up(rows, MAX_PARTS)) own->rows = kn_divide_up(rows, MAX_PARTS);
    if (own->rows) own->rows = kn_divide_up(rows, kn_divide_up(rows, own->rows));
    own->keeps = own->rows * own->classes <= limit;
    int64_t slices = kn_divide_up(own->rows * own->classes, limit);
    const int64_t dequantized = own->codes ? kn_divide_up(own->classes * own->width, limit) : 1;
    if (slices < dequantized) slices = dequantized;
    if (slices < 1) slices = 1;
    if (slices > MAX_SLICES) slices = MAX_SLICES;
    own->size = kn_divide_up(own->classes, slices);
    own->slices = (int)kn_divide_up(own->classes, own->size);
}

static int64_t size_of(const chunks *own, int slice) {
    const int64_t rest = own->classes - slice * own->size;
    return rest < own->size ? rest : own->size;
}

/* Rows of w: (size,D). */
static kn_value *weights(const chunks *own, int slice) {
    const int64_t first = slice * own->size, count = size_of(own, slice);
    if (own->codes) return kn_widen_rows(own->codes, own->codes->blocks, first, count);
    if (own->slices == 1) return own->w;
    return kn_slice(own->w, 0, first, first + count);
}

static kn_value *integer(const chunks *own, int64_t number) {
    const int32_t value = (int32_t)number;
    return kn_constant(own->graph, KN_INT32, "", &value, sizeof value);
}

/* The positions in a slice, (1,size). */
static kn_value *positions(const chunks *own, int slice) {
    const kn_shape shape = {.dtype = KN_FLOAT32, .rank = 2, .dims = {1, size_of(own, slice)}};
    const size_t count = (size_t)shape.dims[1];
    float *numbers = kn_arena_take(&own->graph->arena, count, sizeof *numbers);
    if (!numbers)
        return kn_graph_fail(own->graph, KN_ERROR_MEMORY, "out of memory for the indices of %zu classes",
                             count);
    for (size_t i = 0; i < count; i++)
        numbers[i] = (float)i;
    return kn_constant_add(own->graph, &shape, numbers, count * sizeof *numbers);
}

/* (rows) as (rows,1), and back. What is computed of rows is of rank 1: the plan may store results of rank 2
 * in 16 bits. */
static kn_value *column_of(const part *p, kn_value *x) {
    const kn_dim column[2] = {p->rows, 1};
    return kn_reshape_to(x, 2, column);
}
static kn_value *flat(const part *p, kn_value *x) {
    const kn_dim rows = p->rows;
    return kn_reshape_to(x, 1, &rows);
}

/* The target as a position in a slice, int32 (rows,1): outside for rows whose target is in another slice. */
static kn_value *target_in(const chunks *own, const part *p, int slice) {
    return kn_sub(p->known, integer(own, slice * own->size));
}

/* The results of a slice for each row, (rows,1), and `picked` (rows). */
typedef struct slice_facts {
    kn_value *logits; /* (rows,size) */
    kn_value *most;   /* the largest logit */
    kn_value *best;   /* its position, int32 */
    kn_value *sum;    /* log(sum(exp(logits))) */
    kn_value *picked; /* the logit of the target; 0 if the target is in another slice */
} slice_facts;

/* log(sum(exp(x))) of each row of x (rows,n), (rows). best: the positions of the largest elements, (rows,1);
 * *most: these elements, (rows). Both are hidden results of the loss of x; the loss itself is not used. */
static kn_value *log_sum_exp(const part *p, kn_value *x, kn_value *best, kn_value **most) {
    kn_value *inputs[2] = {x, flat(p, best)};
    kn_value *loss = kn_build(&kn_row_cross_entropy, inputs, 2, NULL);
    *most = kn_result(loss, 1);
    return kn_add(*most, kn_result(loss, 2));
}

/* The logits of a slice whose rows of w are given, (rows,size). */
static kn_value *logits_of(const chunks *own, const part *p, kn_value *rows) {
    kn_value *product = kn_matmul(p->x, rows, false, true);
    if (!(own->softcap > 0)) return product;
    kn_value *cap = kn_scalar(own->graph, own->softcap);
    return kn_mul(kn_tanh(kn_div(product, cap)), cap);
}

static slice_facts look_at(const chunks *own, const part *p, int slice) {
    slice_facts facts = {.logits = logits_of(own, p, weights(own, slice))};
    facts.best = kn_argmax(facts.logits, -1, true);
    facts.sum = column_of(p, log_sum_exp(p, facts.logits, facts.best, &facts.most));
    facts.most = column_of(p, facts.most);
    kn_value *at = target_in(own, p, slice);
    kn_value *inside = kn_max(kn_min(at, integer(own, size_of(own, slice) - 1)), integer(own, 0));
    kn_value *logit = flat(p, kn_gather_elements(facts.logits, inside, -1));
    facts.picked = kn_where(flat(p, kn_equal(at, inside)), logit, kn_scalar(own->graph, 0));
    return facts;
}

/* The rows of a part that are ignored, bool (rows). */
static kn_value *ignored_rows(const chunks *own, const part *p) {
    return kn_equal(flat(p, p->given), integer(own, own->ignored));
}

/* The sum of the losses of a part, NaN for an unknown class. sum: log(sum(exp(logits))), picked: the target's
 * logit, both (rows). */
static kn_value *loss_of(const chunks *own, const part *p, kn_value *sum, kn_value *picked) {
    kn_value *given = flat(p, p->given);
    kn_value *known =
        kn_and(kn_greater_equal(given, integer(own, 0)), kn_less(given, integer(own, own->classes)));
    kn_value *losses = kn_where(known, kn_sub(sum, picked), kn_scalar(own->graph, NAN));
    if (own->ignores) losses = kn_where(ignored_rows(own, p), kn_scalar(own->graph, 0), losses);
    return kn_sum(losses, NULL, false);
}

/* The gradient of the loss by the products of a slice: probabilities, less 1 for the target; 0 in rows that
 * are ignored, whose `sum`, (rows,1), is infinite. */
static kn_value *slopes(const chunks *own, const part *p, int slice, kn_value *logits, kn_value *sum) {
    kn_value *target = kn_cast(target_in(own, p, slice), KN_FLOAT32);
    kn_value *inputs[3] = {kn_exp(kn_sub(logits, sum)), target, positions(own, slice)};
    kn_value *slope = kn_build(&kn_row_picked_slope, inputs, 3, NULL);
    if (!(own->softcap > 0)) return slope;
    kn_value *share = kn_div(logits, kn_scalar(own->graph, own->softcap));
    return kn_mul(slope, kn_sub(kn_scalar(own->graph, 1), kn_mul(share, share)));
}

static void build_part(const chunks *own, part *p) {
    kn_value *most[MAX_SLICES], *best[MAX_SLICES], *sums[MAX_SLICES], *dw[MAX_SLICES], *picked = NULL,
                                                                                       *logits[MAX_SLICES];
    const size_t count = (size_t)own->slices;
    for (int s = 0; s < own->slices; s++) {
        kn_stage_begin(own->graph);
        const slice_facts facts = look_at(own, p, s);
        logits[s] = facts.logits;
        most[s] = facts.most;
        best[s] = facts.best;
        sums[s] = facts.sum;
        picked = s ? kn_add(picked, facts.picked) : facts.picked;
    }
    const bool one = count == 1;
    kn_value *sum = flat(p, sums[0]), *slice_of = integer(own, 0), *largest;
    if (!one) {
        kn_value *all = kn_concat(sums, count, 1);
        sum = log_sum_exp(p, all, kn_argmax(all, -1, true), &largest);
        slice_of = kn_argmax(kn_concat(most, count, 1), -1, true);
    }
    p->loss = loss_of(own, p, sum, picked);
    if (own->ignores) sum = kn_where(ignored_rows(own, p), kn_scalar(own->graph, INFINITY), sum);
    sum = column_of(p, sum);
    for (int s = 0; s < own->slices; s++) {
        if (!one) kn_stage_begin(own->graph);
        kn_value *rows = weights(own, s);
        kn_value *same = own->keeps ? logits[s] : logits_of(own, p, rows);
        kn_value *slope = slopes(own, p, s, same, sum), *dx = kn_matmul(slope, rows, false, false);
        p->dx = s ? kn_add(p->dx, dx) : dx;
        dw[s] = kn_matmul(slope, p->x, true, false);
        kn_value *right =
            kn_and(kn_equal(slice_of, integer(own, s)), kn_equal(best[s], target_in(own, p, s)));
        right = kn_sum(kn_cast(right, KN_FLOAT32), NULL, false);
        p->hits = s ? kn_add(p->hits, right) : right;
    }
    p->dw = one ? dw[0] : kn_concat(dw, count, 0);
}

/* x is (...,D), the target (...). */
static kn_status at_sizes(kn_graph *bound, const kn_node *node, kn_value *const *inputs, kn_value **results) {
    kn_value *w = inputs[W], *dx[MAX_PARTS];
    const int64_t rows = row_count(&inputs[X]->shape);
    chunks own = {.graph = bound, .w = w, .codes = kn_value_in_blocks(w), .classes = w->shape.dims[0]};
    own.width = w->shape.dims[1];
    own.softcap = kn_attribute_of(node, "softcap")->number;
    const int64_t ignored = kn_attribute_of(node, "ignored")->integer;
    own.ignores = ignored >= INT32_MIN && ignored <= INT32_MAX;
    if (own.ignores) own.ignored = (int32_t)ignored;
    choose_sizes(&own, rows, kn_attribute_of(node, "limit")->integer);
    const kn_dim matrix[2] = {rows, own.width}, column[2] = {rows, 1};
    kn_value *x = kn_reshape_to(inputs[X], 2, matrix), *given = kn_reshape_to(inputs[TARGET], 2, column);
    if (own.codes && bound->rounds_activations) x = kn_round_activations(x);
    kn_value *known = given;
    if (own.ignores) known = kn_where(kn_equal(given, integer(&own, own.ignored)), integer(&own, -1), given);
    part sum = {.rows = 0};
    size_t count = 0;
    for (int64_t first = 0; first < rows || !count; first += own.rows) {
        const int64_t now = rows - first < own.rows ? rows - first : own.rows;
        part p = {.rows = now, .x = x, .given = given, .known = known};
        if (now < rows) {
            p.x = kn_slice(x, 0, first, first + now);
            p.given = kn_slice(given, 0, first, first + now);
            p.known = kn_slice(known, 0, first, first + now);
        }
        build_part(&own, &p);
        dx[count] = p.dx;
        sum.loss = count ? kn_add(sum.loss, p.loss) : p.loss;
        sum.hits = count ? kn_add(sum.hits, p.hits) : p.hits;
        sum.dw = count ? kn_add(sum.dw, p.dw) : p.dw;
        if (++count == MAX_PARTS || kn_value_failed(sum.dw)) break;
    }
    kn_stage_end(bound);
    kn_value *all = count == 1 ? dx[0] : kn_concat(dx, count, 0);
    all = kn_reshape_to(all, inputs[X]->shape.rank, inputs[X]->shape.dims);
    kn_value *pairs[5] = {sum.loss, inputs[X], all, w, sum.dw};
    const bool trained = w->shape.dtype == KN_FLOAT32 && !own.codes;
    results[LOSS] = kn_build(&kn_row_with_gradients, pairs, trained ? 5 : 3, NULL);
    results[HITS] = sum.hits;
    return bound->error.status;
}

/* ---- the row ------------------------------------------------------------------------------------------- */

KN_OPERATOR(
    cross_entropy_of_product,
    .help = "sum of the cross-entropies of softmax(x wᵀ) against class indices, and number of rows whose "
            "largest logit is "
            "the target's; without storing all logits",
    KN_ATTRIBUTES(KN_INT("ignored", -100, "class index of rows to ignore; no int32: none"),
                  KN_INT("classes", -1, "rows of w; -1: all"),
                  KN_INT("limit", 1 << 24, "logits that are stored at a time"),
                  KN_FLOAT("softcap", 0, "logits z become softcap tanh(z / softcap); 0: they stay")),
    .min_inputs = 3, .max_inputs = 3, .outputs = 2, .sums = true, .halves = 1 << W, .index = {.number = 3},
    .at_sizes = at_sizes, .shape = shape, .cost = cost, .tolerance = 4,
    KN_CASES(
        {.inputs = {"3,5", "7,5", "int32 3"}, .ranges = {NULL, NULL, "0..6"}, .smallest = true},
        {.inputs = {"2,3,5", "9,5", "int32 2,3"},
         .ranges = {NULL, NULL, "-1..8"},
         .attributes = "ignored=-1"},
        {.inputs = {"31,7", "93,7", "int32 31"}, .ranges = {NULL, NULL, "0..92"}, .attributes = "limit=700"},
        {.inputs = {"9,7", "11,7", "int32 9"},
         .ranges = {NULL, NULL, "0..4"},
         .attributes = "limit=9 ignored=3"},
        {.inputs = {"700,3", "5,3", "int32 700"}, .ranges = {NULL, NULL, "0..4"}, .attributes = "limit=1300"},
        {.inputs = {"31,7", "93,7", "int32 31"},
         .ranges = {NULL, NULL, "0..4"},
         .attributes = "limit=700 ignored=3 softcap=1.5"},
        {.inputs = {"3,5", "7,5", "int32 3"}, .ranges = {NULL, NULL, "0..6"}, .attributes = "softcap=2"},
        {.inputs = {"5", "6,5", "int32"}, .ranges = {NULL, NULL, "0..5"}},
        {.inputs = {"7,4", "5,4", "int32 7"}, .ranges = {NULL, NULL, "-1..5"}, .no_gradient = true},
        {.inputs = {"7,4", "1,4", "int32 7"}, .ranges = {NULL, NULL, "0..0"}},
        {.inputs = {"0,4", "5,4", "int32 0"}, .no_gradient = true}));
