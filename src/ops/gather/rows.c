/* Rows written to or read from an array, starting at a position that is known at run time
 * (cl/gather/rows.cl). */
#include "ops/build.h"
#include "ops/gradient.h"
#include "ops/lowering.h"
#include "ops/row.h"
#include "ops/shape_rule.h"

extern const kn_operator kn_row_put_rows, kn_row_take_rows;

/* x is (S,M,C), rows (B,T,C) for its first B samples, start int32 (B) or (1); the result is like x. */
static kn_status put_shape(kn_shape_call *call) {
    for (int i = 0; i < call->input_count; i++)
        if (!call->inputs[i])
            return kn_shape_fail(call, KN_ERROR_ARGUMENT, "input %d is missing; expected x, rows and start",
                                 i);
    const kn_shape *x = &call->inputs[0]->shape, *rows = &call->inputs[1]->shape;
    if (x->rank != 3 || rows->rank != 3 || x->dtype != rows->dtype || x->dims[2] != rows->dims[2] ||
        !kn_shape_has_samples(x, rows))
        return kn_shape_fail(call, KN_ERROR_SHAPE,
                             "x is %s and rows are %s; expected (S,M,C) and (B,T,C), with B up to S",
                             kn_shape_words_of(call, 0), kn_shape_words_of(call, 1));
    if (kn_shape_starts(call, 2, 1)) return call->error->status;
    return kn_shape_like_first(call);
}

/* x is (B,M,C), start int32 (B) or (1); the result is (B,rows,C). */
static kn_status take_shape(kn_shape_call *call) {
    if (!call->inputs[0] || !call->inputs[1])
        return kn_shape_fail(call, KN_ERROR_ARGUMENT, "an input is missing; expected x and start");
    const kn_shape *x = &call->inputs[0]->shape;
    int64_t count = kn_shape_attribute(call, "rows")->integer;
    if (count < 0)
        return kn_shape_fail(call, KN_ERROR_ARGUMENT, "%lld rows; expected 0 or more", (long long)count);
    if (x->rank != 3)
        return kn_shape_fail(call, KN_ERROR_SHAPE, "x is %s; expected (B,M,C)", kn_shape_words_of(call, 0));
    if (kn_shape_starts(call, 1, 0) || kn_shape_like_first(call)) return call->error->status;
    call->outputs[0].dims[1] = count;
    return KN_OK;
}

/* Replaced rows do not reach the result: their gradient of x is zero, and the new rows receive it */
static kn_status put_gradient(kn_gradient_call *call) {
    const kn_node *node = call->node;
    if (!call->output_gradients[0]) return KN_OK;
    kn_settings settings;
    if (call->wanted[0] && !kn_attribute_of(node, "clear")->integer) {
        kn_value *inputs[3] = {call->output_gradients[0], node->inputs[1], node->inputs[2]};
        kn_settings_init(&settings, call->graph, &kn_row_put_rows);
        kn_settings_int(&settings, "blank", 1);
        call->input_gradients[0] = kn_gradient_build(call, &kn_row_put_rows, inputs, 3, &settings);
    }
    if (call->wanted[1] && !kn_attribute_of(node, "blank")->integer) {
        const kn_shape *rows = &node->inputs[1]->shape;
        kn_value *inputs[2] = {call->output_gradients[0], node->inputs[2]};
        if (rows->dims[0] != node->inputs[0]->shape.dims[0])
            inputs[0] = kn_slice(inputs[0], 0, 0, rows->dims[0]);
        kn_settings_init(&settings, call->graph, &kn_row_take_rows);
        kn_settings_int(&settings, "rows", rows->dims[1]);
        call->input_gradients[1] = kn_gradient_build(call, &kn_row_take_rows, inputs, 2, &settings);
    }
    return kn_gradient_status(call);
}

static kn_status take_gradient(kn_gradient_call *call) {
    const kn_node *node = call->node;
    if (!call->output_gradients[0] || !call->wanted[0]) return KN_OK;
    kn_settings settings;
    kn_settings_init(&settings, call->graph, &kn_row_put_rows);
    kn_settings_int(&settings, "clear", 1);
    kn_value *inputs[3] = {node->inputs[0], call->output_gradients[0], node->inputs[1]};
    call->input_gradients[0] = kn_gradient_build(call, &kn_row_put_rows, inputs, 3, &settings);
    return kn_gradient_status(call);
}

/* ---- references ---------------------------------------------------------------------------------------- */

typedef struct rows_form {
    int64_t batches, most, count, columns; /* M of x, T of the rows */
    int64_t filled;                        /* samples that get rows: B of the rows */
    int64_t starts_row;                    /* stride between samples; 0: the same for all */
    bool put, clear, blank;
    int starts_at;
} rows_form;

static rows_form form_of(const kn_node *node) {
    const kn_shape *x = &node->inputs[0]->shape;
    rows_form form = {.batches = x->dims[0], .most = x->dims[1], .columns = x->dims[2]};
    form.put = &kn_row_put_rows == node->op;
    form.filled = form.put ? node->inputs[1]->shape.dims[0] : form.batches;
    form.count = form.put ? node->inputs[1]->shape.dims[1] : node->outputs[0]->shape.dims[1];
    form.clear = form.put && kn_attribute_of(node, "clear")->integer;
    form.blank = form.put && kn_attribute_of(node, "blank")->integer;
    form.starts_at = form.put ? 2 : 1;
    form.starts_row = node->inputs[form.starts_at]->shape.dims[0] != 1;
    return form;
}

static kn_status rows_reference(kn_reference_call *call) {
    rows_form form = form_of(call->node);
    const double *x = call->inputs[0].data, *rows = form.put ? call->inputs[1].data : x;
    double *y = call->outputs[0].data;
    int64_t length = form.put ? form.most : form.count; /* of the result */
    for (int64_t b = 0; b < form.batches; b++) {
        const bool filled = b < form.filled;
        const double *starts = call->inputs[form.starts_at].data;
        int64_t start = filled ? (int64_t)starts[b * form.starts_row] : 0;
        for (int64_t i = 0; i < length; i++)
            for (int64_t c = 0; c < form.columns; c++) {
                int64_t from = form.put ? i - start : i + start, rest = (b * length + i) * form.columns + c;
                bool inside = filled && from >= 0 && from < (form.put ? form.count : form.most);
                if (inside && !form.blank)
                    y[rest] = rows[(b * (form.put ? form.count : form.most) + from) * form.columns + c];
                else if (!inside && form.put && !form.clear)
                    y[rest] = x[rest];
            }
    }
    return KN_OK;
}

/* ---- steps ----------------------------------------------------------------------------------- */

enum { CHUNK = 4096 }; /* elements of a work-item, at least */

static kn_status rows_lower(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    rows_form form = form_of(node);
    int64_t elements = kn_elements_of(lowering->result);
    if (elements == 0) return KN_OK;
    kn_step *step = kn_step_begin(lowering, "gather/rows.cl", form.put ? "kn_put_rows" : "kn_take_rows");
    kn_step_define_type(step, "KN_T", node->outputs[0]->shape.dtype);
    kn_step_bind_values(step, lowering);
    KN_STEP_BIND(step, {"elements", elements}, {"most", form.most}, {"count", form.count},
                 {"columns", form.columns}, {"starts_row", form.starts_row}, {"clear", form.clear},
                 {"blank", form.blank});
    int64_t chunk = 1;
    if (form.put && lowering->target->wide_vector) { /* a row in place is few elements: few work-items */
        chunk = kn_divide_up(elements, 4 * (int64_t)lowering->target->compute_units);
        if (chunk < CHUNK) chunk = CHUNK;
    }
    if (form.put) KN_STEP_SET(step, {"filled", form.filled}, {"chunk", chunk});
    kn_step_size1(step, (size_t)kn_divide_up(elements, chunk), 0);
    if (step && form.put) step->joint = "kn_put_rows_joint";
    return kn_step_end(step, lowering);
}

KN_OPERATOR(
    put_rows,
    .help = "x (S,M,C) with rows (B,T,C) written to its first B samples, starting at row start, int32 (B) or "
            "(1); rows beyond M are ignored",
    KN_ATTRIBUTES(KN_BOOLEAN("clear", 0, "sets all other rows to 0"),
                  KN_BOOLEAN("blank", 0, "writes zeros instead of the rows")),
    .min_inputs = 3, .max_inputs = 3, .input_names = {"x", "rows", "starts"}, .output_names = {"y"},
    .shape = put_shape, .gradient = put_gradient, .reference = rows_reference,
    KN_VARIANTS({.name = "threads",
                 .choice.accepts = kn_takes_kernel_types,
                 .lower = rows_lower,
                 .promise.over = {1}}),
    KN_CASES(
        {.inputs = {"2,7,3", "2,3,3", "int32 2"}, .ranges = {NULL, NULL, "-2..6"}, .smallest = true},
        {.inputs = {"3,31,5", "3,1,5", "int32 1"}, .ranges = {NULL, NULL, "17..17"}},
        {.inputs = {"3,7,3", "2,3,3", "int32 2"}, .ranges = {NULL, NULL, "-2..6"}, .smallest = true},
        {.inputs = {"3,31,5", "3,7,5", "int32 3"}, .attributes = "clear=1", .ranges = {NULL, NULL, "-3..30"}},
        {.inputs = {"3,31,5", "3,7,5", "int32 3"}, .attributes = "blank=1", .ranges = {NULL, NULL, "-3..30"}},
        {.inputs = {"2,7,3", "2,0,3", "int32 1"}, .ranges = {NULL, NULL, "1..1"}},
        {.inputs = {"0,7,3", "0,2,3", "int32 1"}, .ranges = {NULL, NULL, "1..1"}}));
KN_OPERATOR(take_rows,
            .help = "rows of x (B,M,C) starting at row start, int32 (B) or (1); 0 beyond the end of x",
            KN_ATTRIBUTES(KN_INT("rows", 1, "how many")), .min_inputs = 2, .max_inputs = 2,
            .input_names = {"x", "starts"}, .output_names = {"y"}, .shape = take_shape,
            .gradient = take_gradient, .reference = rows_reference,
            KN_VARIANTS({.name = "threads", .choice.accepts = kn_takes_kernel_types, .lower = rows_lower}),
            KN_CASES({.inputs = {"2,7,3", "int32 2"},
                      .attributes = "rows=3",
                      .ranges = {NULL, "-2..6"},
                      .smallest = true},
                     {.inputs = {"3,31,5", "int32 1"}, .ranges = {NULL, "17..17"}},
                     {.inputs = {"3,31,5", "int32 3"}, .attributes = "rows=40", .ranges = {NULL, "-3..30"}},
                     {.inputs = {"2,7,3", "int32 1"}, .attributes = "rows=0", .ranges = {NULL, "1..1"}},
                     {.inputs = {"2,0,3", "int32 1"}, .attributes = "rows=2", .ranges = {NULL, "0..0"}}));

/* ---- builders ------------------------------------------------------------------------------------------ */

kn_value *kn_put_rows(kn_value *x, kn_value *rows, kn_value *start) {
    if (kn_value_failed(x)) return x;
    kn_value *inputs[3] = {x, rows, start};
    return kn_build(&kn_row_put_rows, inputs, 3, NULL);
}

kn_value *kn_take_rows(kn_value *x, kn_value *start, int64_t count) {
    if (kn_value_failed(x)) return x;
    kn_settings settings;
    kn_settings_init(&settings, x->graph, &kn_row_take_rows);
    kn_settings_int(&settings, "rows", count);
    kn_value *inputs[2] = {x, start};
    return kn_build(&kn_row_take_rows, inputs, 2, &settings);
}

/* The state is (B,most,C). */
kn_value *kn_kv_cache(kn_value *rows, kn_value *start, int64_t most, const char *name) {
    if (kn_value_failed(rows)) return rows;
    kn_graph *graph = rows->graph;
    kn_shape shape = rows->shape;
    const char *whole = kn_name_here(graph, name);
    if (graph->error.status != KN_OK) return &graph->failed;
    if (shape.rank == 3) shape.dims[1] = most;
    if (shape.rank != 3 || most < 1 || kn_shape_elements(&shape) < 0)
        return kn_graph_fail(graph, KN_ERROR_SHAPE,
                             "cache '%s' of %lld rows for %s: expected at least one row, and rows (B,T,C), "
                             "where B and C are not symbols",
                             whole, (long long)most, kn_shape_words(graph, &rows->shape));
    kn_value *state = kn_state_add(graph, whole, &shape, KN_STATE_CACHE, NULL);
    kn_value *all = kn_put_rows(state, rows, start);
    if (!kn_value_failed(all)) kn_assign(graph, state, all);
    return graph->error.status == KN_OK ? all : &graph->failed;
}
