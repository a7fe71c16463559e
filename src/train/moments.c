/* Storage of moments: the rules compute in float32, but moments may be stored with fewer bits between steps.
 * They are rounded up or down at random, so that a slow average moves even if each change is less than the
 * distance of two stored numbers.
 *
 * An 8-bit moment is float8e4m3fn times one unit per row. The unit is a power of two, so that changing it
 * leaves stored numbers exact: otherwise each change would round all of them anew, and slow averages would
 * drift. The unit follows from a bound of the row's elements, which is computed from the previous bound,
 * like the elements from the previous elements, and from the largest elements of the gradient, since the
 * elements themselves only exist in the kernel. Moments that cannot be negative are stored as their square
 * roots, which have half the range of exponents; roots are not rounded to 0, since updates are divided by
 * them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/ops.h"
#include "train/optimizer.h"

enum {
    MIN_ELEMENTS = 4096, /* of a parameter with 8-bit moments */
    MIN_ROW = 128,       /* elements that share a unit, so that bounds take little memory */
};
/* In units: bounds are in [128, 256); then the largest stored number and the smallest root. */
static const double bound_units = 128, most = 448, least_root = 0x1p-9, least_unit = 0x1p-100;

struct kn_stored_moment {
    const kn_update_part *part;
    const kn_value *numbers; /* the values that the rule reads */
    kn_value *state, *bound; /* bound NULL: the state holds the numbers themselves */
    kn_value *here;          /* the state, or its copy loaded from host memory */
    bool square;             /* the state holds square roots */
    kn_stored_moment *next;
};

/* The first axis of a row: rows have as few axes as give MIN_ROW elements. */
static int first_axis(const kn_shape *shape) {
    int64_t elements = 1;
    int axis = shape->rank;
    while (axis > 0 && elements < MIN_ROW)
        elements *= shape->dims[--axis];
    return axis;
}

/* The state on the device, loaded if its update needs it. */
static kn_value *load_state(const kn_update_part *part, kn_value *state) {
    if (!part->update->params->offload_optimizer) return state;
    return kn_load_add(part->update->graph, state, part->found, part->update->after);
}

static kn_value *note(const kn_update_part *part, kn_value *numbers, kn_stored_moment about) {
    kn_update *update = part->update;
    kn_stored_moment *moment = kn_arena_take(&update->graph->arena, 1, sizeof *moment);
    if (!moment) return kn_graph_fail(update->graph, KN_ERROR_MEMORY, "out of memory for the moments");
    *moment = about;
    moment->part = part;
    moment->numbers = numbers;
    moment->next = update->stored;
    update->stored = moment;
    return numbers;
}

static kn_value *unit_of(kn_value *bound, bool square) {
    kn_value *power = kn_power_below(square ? kn_sqrt(bound) : bound);
    if (kn_value_failed(power)) return power;
    return kn_max(kn_scale(power, 1 / bound_units), kn_scalar(power->graph, least_unit));
}

/* A state with the shape of the part, and a state of any type. */
static kn_value *state_of(const kn_update_part *part, kn_value *owner, const char *kind,
                          const kn_shape *shape, const kn_shape *whole, double start) {
    return kn_update_spread_state(part, kn_update_state_of(owner, kind, shape, start), whole);
}

/* The state has the shape of the parameter, (R..., C...), and the bounds (R..., 1...). */
static kn_value *add_8bit(const kn_update_part *part, const char *kind, double start, bool square) {
    kn_shape shape = part->own->shape, rows = shape, whole = part->parameter->shape, all_rows = whole;
    const double first = square ? sqrt(start) : start;
    const double unit = first != 0 ? exp2(floor(log2(fabs(first)))) / bound_units : 1;
    shape.dtype = whole.dtype = KN_FLOAT8E4M3FN;
    for (int i = first_axis(&whole); i < rows.rank; i++) {
        rows.dims[i] = rows.dims[i] ? 1 : 0;
        all_rows.dims[i] = 1;
    }
    kn_value *state = state_of(part, part->parameter, kind, &shape, &whole, first / unit);
    kn_value *bound = state_of(part, state, "bound", &rows, &all_rows, fabs(start));
    kn_value *loaded = load_state(part, state),
             *numbers = kn_mul(kn_cast(loaded, KN_FLOAT32), unit_of(bound, square));
    return note(part, square ? kn_mul(numbers, numbers) : numbers,
                (kn_stored_moment){.state = state, .bound = bound, .here = loaded, .square = square});
}

static kn_value *add_moment(const kn_update_part *part, const char *kind, double start, bool square) {
    const kn_moments moments = part->update->params->moments;
    kn_shape shape = part->own->shape, whole = part->parameter->shape;
    if (moments == KN_MOMENTS_8BIT && !part->table && kn_shape_elements(&whole) >= MIN_ELEMENTS)
        return add_8bit(part, kind, start, square);
    if (moments != KN_MOMENTS_BFLOAT16) {
        kn_value *state = kn_update_state(part, kind, start), *loaded = load_state(part, state);
        return loaded == state ? state
                               : note(part, loaded, (kn_stored_moment){.state = state, .here = loaded});
    }
    shape.dtype = whole.dtype = KN_BFLOAT16;
    kn_value *state = state_of(part, part->parameter, kind, &shape, &whole, start),
             *loaded = load_state(part, state);
    return note(part, kn_cast(loaded, KN_FLOAT32), (kn_stored_moment){.state = state, .here = loaded});
}

kn_value *kn_update_moment(const kn_update_part *part, const char *kind) {
    return add_moment(part, kind, 0, false);
}

kn_value *kn_update_square(const kn_update_part *part, const char *kind, double start) {
    return add_moment(part, kind, start, true);
}

/* The largest |x| of each row of a value with the parameter's shape, (R..., 1...), or |x| of a scalar. */
static kn_value *largest_of_rows(kn_value *x) {
    char axes[4 * KN_MAX_RANK] = "";
    size_t used = 0;
    if (kn_value_failed(x) || x->shape.rank == 0) return kn_abs(x);
    if (!kn_shape_elements(&x->shape)) { /* a different worker has the rows */
        for (int i = first_axis(&x->shape); i < x->shape.rank && !kn_value_failed(x); i++)
            if (x->shape.dims[i] > 1) x = kn_slice(x, i, 0, 1);
        return x;
    }
    for (int i = first_axis(&x->shape); i < x->shape.rank; i++)
        used += (size_t)snprintf(axes + used, sizeof axes - used, "%s%d", used ? "," : "", i);
    return kn_max(kn_reduce_max(x, axes, true), kn_neg(kn_reduce_min(x, axes, true)));
}

static const kn_stored_moment *find(const kn_update *update, const kn_value *numbers) {
    const kn_stored_moment *moment = update->stored;
    while (moment && moment->numbers != numbers)
        moment = moment->next;
    return moment;
}

/* A bound of |x| per row. The bounds of sums, products with scalars, squares and choices follow from the
 * bounds of their operands; for other values, such as the gradient, it is the largest element. */
static kn_value *bound_of(const kn_update_part *part, kn_value *x) {
    const kn_stored_moment *moment = find(part->update, x);
    const kn_node *node = kn_value_failed(x) || x == part->found ? NULL : x->producer;
    if (moment && moment->bound) return moment->bound;
    if (!node || node->derivative || moment || x->shape.rank == 0) return largest_of_rows(x);
    kn_value *const *in = node->inputs;
    const char *name = node->op->name;
    if (!strcmp(name, "add") || !strcmp(name, "sub"))
        return kn_add(bound_of(part, in[0]), bound_of(part, in[1]));
    if (!strcmp(name, "max")) return kn_max(bound_of(part, in[0]), bound_of(part, in[1]));
    if (!strcmp(name, "scale")) return kn_scale(bound_of(part, in[0]), fabs(node->attributes[0].number));
    if (!strcmp(name, "clip")) return bound_of(part, in[0]); /* to a range around 0 */
    if (!strcmp(name, "where") && in[0]->shape.rank == 0)
        return kn_where(in[0], bound_of(part, in[1]), bound_of(part, in[2]));
    if (!strcmp(name, "mul") && (in[0] == in[1] || !in[0]->shape.rank || !in[1]->shape.rank))
        return kn_mul(bound_of(part, in[0]), bound_of(part, in[1]));
    return largest_of_rows(x);
}

/* A step without an update leaves all bits unchanged. */
static void store_8bit(const kn_update *update, const kn_stored_moment *moment, kn_value *value) {
    kn_value *bound = bound_of(moment->part, value);
    kn_value *code = kn_div(moment->square ? kn_sqrt(value) : value, unit_of(bound, moment->square));
    code = kn_clip(code, moment->square ? least_root : -most, most);
    code = kn_round_random(code, KN_FLOAT8E4M3FN, moment->state->name);
    if (update->go) {
        kn_value *old = kn_cast(moment->here, KN_FLOAT32);
        code = kn_cast(kn_where(update->go, kn_cast(code, KN_FLOAT32), old), KN_FLOAT8E4M3FN);
        bound = kn_where(update->go, bound, moment->bound);
    }
    kn_assign(update->graph, moment->state, code);
    kn_assign(update->graph, moment->bound, bound);
}

bool kn_update_store(const kn_update *update, kn_value *numbers, kn_value *value) {
    const kn_stored_moment *moment = find(update, numbers);
    if (!moment) return false;
    if (moment->bound) {
        store_8bit(update, moment, value);
        return true;
    }
    /* Rounding a number that was read from bfloat16 leaves it unchanged. */
    if (update->go) value = kn_where(update->go, value, numbers);
    if (moment->state->shape.dtype == KN_BFLOAT16)
        value = kn_round_random(value, KN_BFLOAT16, moment->state->name);
    kn_assign(update->graph, moment->state, value);
    return true;
}

kn_status kn_update_find_tables(const kn_graph *graph, kn_update_part *parts, size_t count, kn_error *error) {
    const kn_operator *row = kn_operator_find("embedding");
    bool *read = kn_allocate(&graph->host, graph->value_count + 1, sizeof *read);
    if (!read) return kn_fail_memory(error, graph->value_count);
    for (size_t n = 0; n < graph->node_count; n++)
        for (int i = 0; graph->nodes[n]->op == row && i < graph->nodes[n]->input_count; i++)
            if (graph->nodes[n]->inputs[i]) read[graph->nodes[n]->inputs[i]->id] = true;
    for (size_t i = 0; i < count; i++)
        parts[i].table = read[parts[i].parameter->id];
    kn_release(&graph->host, read);
    return KN_OK;
}
