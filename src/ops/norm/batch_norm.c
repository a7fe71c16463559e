/* Batch norm (cl/norm/batch_norm.cl; batch_norm_groups.c). In training, a row with kernels, which also
 * computes the new running statistics; in inference, pointwise operators on the running statistics, which are
 * fused with their neighbors. */
#include <math.h>

#include "ops/build.h"
#include "ops/gradient.h"
#include "ops/layer.h"
#include "ops/lowering.h"
#include "ops/norm/norm.h"
#include "ops/row.h"
#include "ops/shape/shape.h"
#include "ops/shape_rule.h"

extern const kn_operator kn_row_batch_norm, kn_row_batch_norm_gradient;

/* ---- shapes ------------------------------------------------------------------------------------------- */

static kn_status check_channels(kn_shape_call *call, int first) {
    const kn_shape *x = &call->inputs[0]->shape;
    if (kn_shape_float_input(call, 0)) return call->error->status;
    if (x->rank < 2)
        return kn_shape_fail(call, KN_ERROR_SHAPE, "x is %s; expected channels, (N,C,...)",
                             kn_shape_words_of(call, 0));
    for (int i = first; i < 5; i++) {
        const kn_shape *own = &call->inputs[i]->shape;
        if (own->rank != 1 || own->dims[0] != x->dims[1] || own->dtype != x->dtype)
            return kn_shape_fail(call, KN_ERROR_SHAPE,
                                 "x is %s and input %d is %s; expected one element per channel, (C)",
                                 kn_shape_words_of(call, 0), i, kn_shape_words_of(call, i));
    }
    return KN_OK;
}

/* x is (N,C,...); weight, bias, running mean and variance are (C). The result is like x. Hidden outputs, all
 * (C): the batch's mean and 1 / sqrt(variance + epsilon), for the gradient, and the new running statistics,
 * for the builder to assign. */
static kn_status norm_shape(kn_shape_call *call) {
    if (check_channels(call, 1)) return call->error->status;
    call->outputs[KN_NORM_Y] = call->inputs[0]->shape;
    for (int i = KN_NORM_MEAN; i <= KN_NORM_NEXT_VARIANCE; i++)
        call->outputs[i] = call->inputs[1]->shape;
    return KN_OK;
}

/* x, dy are (N,C,...); weight, mean, inverse are (C). The results are the gradients with respect to x, weight
 * and bias. */
static kn_status gradient_shape(kn_shape_call *call) {
    if (check_channels(call, 2)) return call->error->status;
    if (!kn_shape_same(&call->inputs[0]->shape, &call->inputs[1]->shape))
        return kn_shape_fail(call, KN_ERROR_SHAPE, "x is %s and dy %s; expected the same shape",
                             kn_shape_words_of(call, 0), kn_shape_words_of(call, 1));
    call->outputs[KN_NORM_DX] = call->inputs[0]->shape;
    call->outputs[KN_NORM_DWEIGHT] = call->outputs[KN_NORM_DBIAS] = call->inputs[2]->shape;
    return KN_OK;
}

/* ---- references --------------------------------------------------------------------------------------- */

static int64_t element(const kn_batch_norm_form *form, int64_t channel, int64_t i) {
    return (i / form->inner * form->channels + channel) * form->inner + i % form->inner;
}

static kn_status norm_reference(kn_reference_call *call) {
    kn_batch_norm_form form = kn_batch_norm_form_of(&call->inputs[0].shape);
    const double *x = call->inputs[0].data, *weight = call->inputs[1].data, *bias = call->inputs[2].data;
    const double *old_mean = call->inputs[3].data, *old_variance = call->inputs[4].data;
    double epsilon = kn_attribute_of(call->node, "epsilon")->number;
    double momentum = kn_attribute_of(call->node, "momentum")->number, total = (double)form.total;
    for (int64_t c = 0; c < form.channels; c++) {
        double mean = 0, squares = 0;
        for (int64_t i = 0; i < form.total; i++)
            mean += x[element(&form, c, i)] / total;
        for (int64_t i = 0; i < form.total; i++) {
            double deviation = x[element(&form, c, i)] - mean;
            squares += deviation * deviation;
        }
        double inverse = 1 / sqrt((form.total ? squares / total : 0) + epsilon);
        for (int64_t i = 0; i < form.total; i++) {
            int64_t at = element(&form, c, i);
            call->outputs[KN_NORM_Y].data[at] = (x[at] - mean) * inverse * weight[c] + bias[c];
        }
        double update = form.total ? momentum : 0;
        double unbiased = squares / (form.total > 1 ? total - 1 : 1);
        call->outputs[KN_NORM_NEXT_MEAN].data[c] = (1 - update) * old_mean[c] + update * mean;
        call->outputs[KN_NORM_NEXT_VARIANCE].data[c] = (1 - update) * old_variance[c] + update * unbiased;
        call->outputs[KN_NORM_MEAN].data[c] = mean;
        call->outputs[KN_NORM_INVERSE].data[c] = inverse;
    }
    return KN_OK;
}

static kn_status gradient_reference(kn_reference_call *call) {
    kn_batch_norm_form form = kn_batch_norm_form_of(&call->inputs[0].shape);
    const double *x = call->inputs[0].data, *dy = call->inputs[1].data, *weight = call->inputs[2].data;
    const double *mean = call->inputs[3].data, *inverse = call->inputs[4].data;
    for (int64_t c = 0; c < form.channels; c++) {
        double sum = 0, product = 0;
        for (int64_t i = 0; i < form.total; i++) {
            int64_t at = element(&form, c, i);
            sum += dy[at];
            product += dy[at] * (x[at] - mean[c]) * inverse[c];
        }
        for (int64_t i = 0; i < form.total; i++) {
            int64_t at = element(&form, c, i);
            double normal = (x[at] - mean[c]) * inverse[c];
            call->outputs[KN_NORM_DX].data[at] =
                weight[c] * inverse[c] * (dy[at] - (sum + normal * product) / (double)form.total);
        }
        call->outputs[KN_NORM_DWEIGHT].data[c] = product;
        call->outputs[KN_NORM_DBIAS].data[c] = sum;
    }
    return KN_OK;
}

static void norm_cost(const kn_node *node, kn_cost *cost) {
    kn_cost_set(node, 8.0 * (double)kn_elements_of(node->inputs[0]), cost);
}

/* ---- lowering ----------------------------------------------------------------------------------------- */

/* How a channel's elements are divided among work-items. `lanes` channels are adjacent in the blocked
 * layout. */
typedef struct division {
    kn_batch_norm_form form;
    int64_t lanes, blocks, part, parts, count, chunk;
    bool whole;   /* a unit processes whole blocks, which does not change results, so the number of units may
                     matter */
    int partials; /* scratch memory: two values and the element count for each part and channel */
} division;

static division divide_work(kn_lowering *lowering) {
    const kn_target *target = lowering->target;
    const kn_value *x = lowering->node->inputs[0];
    division work = {.form = kn_batch_norm_form_of(&x->shape), .lanes = 1};
    bool blocked = lowering->node->outputs[0]->layout == KN_LAYOUT_BLOCKED;
    if (blocked) work.lanes = target->vector_width;
    work.blocks = work.form.channels / work.lanes;
    work.count = work.form.images * work.form.inner * work.blocks;
    /* The parts determine rounding, so they depend on the shape. */
    int64_t least = blocked ? 2048 : 64;
    work.part = kn_divide_up(work.form.total, 64);
    if (work.part < least) work.part = least;
    work.parts = kn_divide_up(work.form.total, work.part);
    /* A few adjacent elements share the divisions that find their channel. */
    work.chunk = target->wide_vector ? kn_divide_up(work.count, 8 * (int64_t)target->compute_units) : 4;
    if (work.chunk < 1) work.chunk = 1;
    int64_t rounds = kn_divide_up(work.blocks, target->compute_units);
    work.whole = blocked && target->wide_vector && work.count > 0 &&
                 10 * work.blocks >= 8 * rounds * target->compute_units;
    kn_dtype type = kn_accumulator(lowering->node, x->shape.dtype);
    uint64_t numbers = 3 * (uint64_t)(work.parts ? work.parts : 1) * (uint64_t)work.form.channels;
    work.partials = kn_emit_scratch(lowering, numbers * kn_dtype_bytes(type));
    return work;
}

static kn_step *begin(kn_lowering *lowering, const division *work, const char *kernel) {
    kn_dtype type = lowering->node->inputs[0]->shape.dtype;
    kn_step *step = kn_step_begin(lowering, "norm/batch_norm.cl", kernel);
    KN_STEP_DEFINE(step, {"KN_BLOCK", work->lanes});
    kn_step_types(step, lowering->node, type);
    return step;
}

/* Describes the work to a kernel. */
static void bind(kn_step *step, const kn_lowering *lowering, const division *work) {
    kn_step_bind_values(step, lowering);
    KN_STEP_BIND(step, {"channels", work->form.channels}, {"blocks", work->blocks},
                 {"inner", work->form.inner}, {"total", work->form.total}, {"part", work->part},
                 {"parts", work->parts}, {"count", work->count}, {"chunk", work->chunk},
                 {"stream", kn_is_streamed(lowering->result)});
}

static void size_by_part(kn_step *step, const division *work) {
    kn_step_size2(step, (size_t)work->parts, (size_t)work->blocks, 1, 1);
}

static void size_by_element(kn_step *step, const kn_lowering *lowering, const division *work) {
    kn_step_size_free(step, kn_divide_up(work->count, work->chunk), lowering->target);
}

/* The statistics of x that its producer collected, if any. */
static const kn_statistics *gathered(const kn_lowering *lowering) {
    return lowering->gathered && lowering->gathered->parts > 0 ? lowering->gathered : NULL;
}

static kn_status lower_whole_norm(kn_lowering *lowering, const division *work) {
    const kn_statistics *given = gathered(lowering);
    kn_step *step = begin(lowering, work, given ? "kn_batch_norm_gathered" : "kn_batch_norm_whole");
    if (given) {
        kn_step_read_scratch(step, "partials", given->scratch);
        KN_STEP_SET(step, {"parts", given->parts});
    } else {
        kn_step_scratch(step, "partials", work->partials);
    }
    bind(step, lowering, work);
    kn_batch_norm_numbers(step, lowering->node);
    kn_batch_norm_cost(step, lowering, given ? 2 : 3, given ? 3 : 6);
    kn_step_epilogue(step, lowering);
    kn_step_size1(step, (size_t)work->blocks, 1);
    return kn_step_end(step, lowering);
}

static kn_status lower_norm(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    const kn_statistics *given = gathered(lowering);
    division work = divide_work(lowering);
    kn_status status = KN_OK;
    if (work.whole) return lower_whole_norm(lowering, &work);
    if (work.form.total > 0 && !given) {
        kn_step *step = begin(lowering, &work, "kn_batch_norm_statistics");
        kn_step_scratch(step, "partials", work.partials);
        bind(step, lowering, &work);
        kn_batch_norm_cost(step, lowering, 1, 3);
        size_by_part(step, &work);
        status = kn_step_end(step, lowering);
        if (status != KN_OK) return status;
    }
    kn_step *step = begin(lowering, &work, "kn_batch_norm_finish");
    kn_step_read_scratch(step, "partials", given ? given->scratch : work.partials);
    if (given) KN_STEP_SET(step, {"parts", given->parts});
    bind(step, lowering, &work);
    kn_batch_norm_numbers(step, node);
    kn_step_size_free(step, work.blocks, lowering->target);
    status = kn_step_end(step, lowering);
    if (status != KN_OK || work.count == 0) return status;
    step = begin(lowering, &work, "kn_batch_norm_apply");
    bind(step, lowering, &work);
    kn_step_epilogue_sizes(step, &node->inputs[0]->shape);
    kn_batch_norm_cost(step, lowering, 2, 3);
    kn_step_epilogue(step, lowering);
    size_by_element(step, lowering, &work);
    return kn_step_end(step, lowering);
}

static kn_status lower_whole_gradient(kn_lowering *lowering, const division *work) {
    kn_step *step = begin(lowering, work, "kn_batch_norm_whole_gradient");
    kn_step_scratch(step, "partials", work->partials);
    bind(step, lowering, work);
    kn_batch_norm_cost(step, lowering, 5, 9);
    kn_step_size1(step, (size_t)work->blocks, 1);
    return kn_step_end(step, lowering);
}

static kn_status lower_gradient(kn_lowering *lowering) {
    division work = divide_work(lowering);
    kn_status status = KN_OK;
    if (work.whole) return lower_whole_gradient(lowering, &work);
    if (work.form.total > 0) {
        kn_step *step = begin(lowering, &work, "kn_batch_norm_sums");
        kn_step_scratch(step, "partials", work.partials);
        bind(step, lowering, &work);
        kn_batch_norm_cost(step, lowering, 2, 4);
        size_by_part(step, &work);
        status = kn_step_end(step, lowering);
        if (status != KN_OK) return status;
    }
    kn_step *step = begin(lowering, &work, "kn_batch_norm_gather");
    kn_step_scratch(step, "partials", work.partials);
    bind(step, lowering, &work);
    kn_step_size_free(step, work.form.channels, lowering->target);
    status = kn_step_end(step, lowering);
    if (status != KN_OK || work.count == 0) return status;
    step = begin(lowering, &work, "kn_batch_norm_data");
    bind(step, lowering, &work);
    kn_batch_norm_cost(step, lowering, 3, 5);
    size_by_element(step, lowering, &work);
    return kn_step_end(step, lowering);
}

static bool is_blocked_wide(const kn_lowering *lowering, const kn_value *image) {
    return image->layout == KN_LAYOUT_BLOCKED && lowering->target->wide_vector;
}

static kn_status norm_parts(kn_lowering *lowering) {
    return is_blocked_wide(lowering, lowering->node->outputs[KN_NORM_Y])
               ? lower_norm(lowering)
               : kn_batch_norm_groups_lower(lowering);
}
static kn_status gradient_parts(kn_lowering *lowering) {
    return is_blocked_wide(lowering, lowering->node->outputs[KN_NORM_DX])
               ? lower_gradient(lowering)
               : kn_batch_norm_groups_gradient_lower(lowering);
}

/* ---- gradient, and outside training ------------------------------------------------------------------- */

static kn_status norm_gradient(kn_gradient_call *call) {
    const kn_node *node = call->node;
    if (!call->output_gradients[KN_NORM_Y]) return KN_OK;
    kn_value *inputs[5] = {node->inputs[0], call->output_gradients[KN_NORM_Y], node->inputs[1],
                           node->outputs[KN_NORM_MEAN], node->outputs[KN_NORM_INVERSE]};
    kn_value *data = kn_gradient_build(call, &kn_row_batch_norm_gradient, inputs, 5, NULL);
    if (kn_value_failed(data)) return kn_gradient_status(call);
    for (int i = 0; i < 3; i++)
        if (call->wanted[i]) call->input_gradients[i] = data->producer->outputs[i];
    return KN_OK;
}

/* (C) reshaped to (C,1,...), to broadcast over x (N,C,...). */
static kn_value *along_channels(kn_value *value, int rank) {
    if (kn_value_failed(value) || rank == 2) return value;
    kn_dim dims[KN_MAX_RANK] = {value->shape.dims[0], 1, 1, 1, 1, 1, 1, 1};
    return kn_reshape_to(value, rank - 1, dims);
}

/* x * scale + (bias - mean * scale) with scale = weight / sqrt(variance + epsilon): all per-channel values
 * depend only on states. */
static kn_value *running_norm(kn_value *const *inputs, double epsilon) {
    int rank = inputs[0]->shape.rank;
    kn_value *inverse = kn_rsqrt(kn_shift(inputs[4], epsilon));
    kn_value *scale = kn_mul(inputs[1], inverse), *shift = kn_sub(inputs[2], kn_mul(inputs[3], scale));
    return kn_add(kn_mul(inputs[0], along_channels(scale, rank)), along_channels(shift, rank));
}

static kn_status without_training(kn_graph *bound, const kn_node *node, kn_value *const *inputs,
                                  kn_value **results) {
    results[KN_NORM_Y] = running_norm(inputs, kn_attribute_of(node, "epsilon")->number);
    results[KN_NORM_NEXT_MEAN] = inputs[3];
    results[KN_NORM_NEXT_VARIANCE] = inputs[4];
    return bound->error.status;
}

/* Describes an error in a gradient node of a program; NULL if there is none. */
static const char *gradient_wrong(const kn_node *node) {
    const kn_shape *x = &node->inputs[0]->shape, *dy = &node->inputs[1]->shape;
    return dy->dtype == x->dtype ? NULL : "dy must be like x";
}

/* ---- the rows ----------------------------------------------------------------------------------------- */

#define NORM_CASE(x, c)                                                                                      \
    .inputs = {x, c, c, c, c}, .ranges = {NULL, NULL, NULL, NULL, "0.5..2"}, .training = true
KN_OPERATOR(batch_norm,
            .help = "normalizes the channels of x (N,C,...) by batch statistics or, outside training, by "
                    "running statistics",
            KN_ATTRIBUTES(KN_FLOAT("epsilon", 1e-5, "added to the variance"),
                          KN_FLOAT("momentum", 0.1, "weight of this batch in the running statistics")),
            .min_inputs = 5, .max_inputs = 5, .hidden = 4,
            .input_names = {"x", "weight", "bias", "running_mean", "running_variance"},
            .output_names = {"y", "mean", "inverse", "next_mean", "next_variance"}, .shape = norm_shape,
            .gradient = norm_gradient, .without_training = without_training, .reference = norm_reference,
            .cost = norm_cost, .hidden_inputs = 1 << 3 | 1 << 4,
            KN_VARIANTS({.name = "parts",
                         .choice.accepts = kn_takes_kernel_types,
                         .lower = norm_parts,
                         .promise.halves = {1, 1},
                         .promise.takes_epilogue = true,
                         .promise.any = true,
                         .promise.takes_statistics = true,
                         .promise.over = {[KN_NORM_NEXT_MEAN] = 4, [KN_NORM_NEXT_VARIANCE] = 5}},
                        {.name = "plain",
                         .choice.accepts = kn_takes_kernel_types,
                         .lower = lower_norm,
                         .promise.halves = {1, 1},
                         .promise.over = {[KN_NORM_NEXT_MEAN] = 4, [KN_NORM_NEXT_VARIANCE] = 5}}),
            KN_CASES({NORM_CASE("3,4,2,3", "4"), .smallest = true}, {NORM_CASE("5,3", "3")},
                     {NORM_CASE("7,5,31", "5")}, {NORM_CASE("33,7,7,9", "7")}, {NORM_CASE("2,32,7,7", "32")},
                     {NORM_CASE("3,16,31,33", "16")}, {NORM_CASE("3,32,31,33", "32")},
                     {NORM_CASE("31,1,3,3,3", "1")}, {NORM_CASE("2,32,128,129", "32"), .no_gradient = true},
                     {NORM_CASE("93,1", "1"), .attributes = "epsilon=0.1 momentum=1"},
                     {NORM_CASE("3,2,67,71", "2")}, {NORM_CASE("5,0,3", "0")}, {NORM_CASE("0,3,2", "3")},
                     {NORM_CASE("301,9", "9"), .no_gradient = true},
                     {NORM_CASE("float64 7,5,31", "float64 5"), .attributes = "epsilon=0.1",
                      .no_gradient = true},
                     {.inputs = {"31,33", "33", "33", "33", "33"},
                      .ranges = {"99..101", NULL, NULL, NULL, "0.5..2"},
                      .training = true,
                      .no_gradient = true}),
            .tolerance = 4);

#define GRADIENT_CASE(x, c)                                                                                  \
    .inputs = {x, x, c, c, c}, .ranges = {NULL, NULL, NULL, "-0.5..0.5", "0.5..1.5"}, .no_gradient = true
KN_OPERATOR(batch_norm_gradient,
            .help = "gradients of batch_norm in training with respect to x, weight and bias", .min_inputs = 5,
            .max_inputs = 5, .outputs = 3, .backward = true,
            .input_names = {"x", "dy", "weight", "mean", "inverse"},
            .output_names = {"dx", "dweight", "dbias"}, .shape = gradient_shape, .wrong = gradient_wrong,
            .reference = gradient_reference, .cost = norm_cost,
            KN_VARIANTS({.name = "parts",
                         .choice.accepts = kn_takes_kernel_types,
                         .lower = gradient_parts,
                         .promise.halves = {3, 1},
                         .promise.any = true},
                        {.name = "plain",
                         .choice.accepts = kn_takes_kernel_types,
                         .lower = lower_gradient,
                         .promise.halves = {3, 1}}),
            KN_CASES({GRADIENT_CASE("3,4,2,3", "4"), .smallest = true}, {GRADIENT_CASE("5,3", "3")},
                     {GRADIENT_CASE("33,7,7,9", "7")}, {GRADIENT_CASE("2,32,7,7", "32")},
                     {GRADIENT_CASE("3,16,31,33", "16")}, {GRADIENT_CASE("3,32,31,33", "32")},
                     {GRADIENT_CASE("2,32,128,129", "32")}, {GRADIENT_CASE("301,9", "9")},
                     {GRADIENT_CASE("5,0,3", "0")}, {GRADIENT_CASE("0,3,2", "3")}),
            .tolerance = 4);

/* ---- builders ----------------------------------------------------------------------------------------- */

/* Fails the graph if x has no channels, or a parameter is out of range. */
static bool check_params(kn_graph *graph, const kn_value *x, const kn_batch_norm_params *given,
                         const char *layer) {
    if (x->shape.rank < 2 || !kn_dim_known(x->shape.dims[1]))
        kn_graph_fail(graph, KN_ERROR_SHAPE,
                      "batch_norm %s: x is %s; expected (N,C,...) with a known number of channels", layer,
                      kn_shape_words(graph, &x->shape));
    else if (!(given->epsilon >= 0) || !(given->momentum >= 0 && given->momentum <= 1))
        kn_graph_fail(graph, KN_ERROR_ARGUMENT,
                      "batch_norm %s: expected an epsilon of at least 0 and a momentum from 0 to 1", layer);
    return graph->error.status == KN_OK;
}

static bool is_statistic(const kn_value *value) {
    return value->kind == KN_VALUE_STATE && value->role == KN_STATE_STATISTIC;
}

/* The state, or its value after an earlier norm in this graph: norms with the same running statistics update
 * them one after another. */
static kn_value *running(kn_value *state) {
    kn_value *next = is_statistic(state) && state->assign ? state->assign->inputs[1] : NULL;
    return next && next->producer && next->producer->op == &kn_row_batch_norm ? next : state;
}

/* A state is written once per run, by the last norm. `before` is the value that the norm reads. */
static void follow(kn_graph *graph, kn_value *state, const kn_value *before, kn_value *next) {
    if (!is_statistic(state)) return;
    if (before != state)
        kn_assign_replace(graph, state, next);
    else if (!state->assign)
        kn_assign(graph, state, next);
}

/* inputs are x (N,C,...), weight, bias, mean and variance (C). layer NULL: named by kind and number. */
static kn_value *build(kn_graph *graph, kn_value *const *inputs, const char *layer,
                       const kn_batch_norm_params *given) {
    kn_settings settings;
    if (given->frozen) return running_norm(inputs, given->epsilon);
    kn_settings_init(&settings, graph, &kn_row_batch_norm);
    kn_settings_float(&settings, "epsilon", given->epsilon);
    kn_settings_float(&settings, "momentum", given->momentum);
    kn_value *mean = running(inputs[3]), *variance = running(inputs[4]);
    kn_value *read[5] = {inputs[0], inputs[1], inputs[2], mean, variance};
    kn_value *y = kn_node_add(graph, &kn_row_batch_norm, layer, read, 5, settings.values);
    if (kn_value_failed(y)) return y;
    follow(graph, inputs[3], mean, y->producer->outputs[KN_NORM_NEXT_MEAN]);
    follow(graph, inputs[4], variance, y->producer->outputs[KN_NORM_NEXT_VARIANCE]);
    return graph->error.status ? &graph->failed : y;
}

/* x is (N,C,...); the parameters and running statistics are (C). */
kn_value *kn_batch_norm(kn_value *x, const kn_batch_norm_params *params) {
    if (kn_value_failed(x)) return x;
    kn_graph *graph = x->graph;
    kn_batch_norm_params given;
    kn_batch_norm_params_init(&given);
    KN_TAKE_PARAMS(x, kn_batch_norm_params, &given, params);
    const char *layer = kn_layer_name(graph, given.name, "batchnorm");
    if (!check_params(graph, x, &given, layer)) return &graph->failed;
    static const struct {
        const char *name;
        kn_state_role role;
        double start;
    } states[] = {{"weight", KN_STATE_PARAMETER, 1},
                  {"bias", KN_STATE_PARAMETER, 0},
                  {"running_mean", KN_STATE_STATISTIC, 0},
                  {"running_var", KN_STATE_STATISTIC, 1}};
    kn_shape shape = {.dtype = x->shape.dtype, .rank = 1, .dims = {x->shape.dims[1]}};
    kn_value *inputs[5] = {x};
    for (size_t i = 0; i < KN_COUNT_OF(states); i++) {
        if (given.no_affine && states[i].role == KN_STATE_PARAMETER) {
            inputs[1 + i] = kn_filled(graph, shape.dtype, shape.dims[0], states[i].start);
            continue;
        }
        kn_initializer start = {KN_INITIALIZER_FILL, states[i].start};
        const char *name = kn_arena_format(&graph->arena, "%s.%s", layer, states[i].name);
        if (!name) return kn_graph_fail(graph, KN_ERROR_MEMORY, "out of memory for the name of a parameter");
        inputs[1 + i] = kn_state_add(graph, name, &shape, states[i].role, &start);
    }
    return build(graph, inputs, layer, &given);
}

kn_value *kn_batch_norm_with(kn_value *x, kn_value *weight, kn_value *bias, kn_value *mean,
                             kn_value *variance, const kn_batch_norm_params *params) {
    kn_value *inputs[5] = {x, weight, bias, mean, variance};
    if (kn_value_failed(x)) return x;
    kn_graph *graph = x->graph;
    kn_batch_norm_params given;
    kn_batch_norm_params_init(&given);
    KN_TAKE_PARAMS(x, kn_batch_norm_params, &given, params);
    for (int i = 1; i < 5; i++) {
        if (!inputs[i])
            return kn_graph_fail(graph, KN_ERROR_ARGUMENT, "kn_batch_norm_with: input %d is NULL", i);
        if (inputs[i]->failed) return inputs[i];
        if (inputs[i]->graph != graph)
            return kn_graph_fail(graph, KN_ERROR_ARGUMENT,
                                 "kn_batch_norm_with: input %d belongs to another graph", i);
        if (x->shape.rank >= 2 &&
            (inputs[i]->shape.rank != 1 || inputs[i]->shape.dims[0] != x->shape.dims[1]))
            return kn_graph_fail(
                graph, KN_ERROR_SHAPE,
                "kn_batch_norm_with: x is %s and input %d is %s; expected one element per channel, (C)",
                kn_shape_words(graph, &x->shape), i, kn_shape_words(graph, &inputs[i]->shape));
    }
    if (!check_params(graph, x, &given, "by values")) return &graph->failed;
    return build(graph, inputs, NULL, &given);
}
