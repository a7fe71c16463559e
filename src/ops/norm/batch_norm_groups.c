/* Batch norm by work-groups with local memory: one launch in each direction if a group can hold a channel;
 * otherwise two, of which the second also finishes the sums of the first (cl/norm/batch_norm_groups.cl). */
#include "ops/norm/norm.h"

static const char *const file = "norm/batch_norm_groups.cl";
enum { MAX_PARTS = 64, HELD = 8 };

/* How a channel's elements are divided among work-groups: in parts for sums, and in slices for results. */
typedef struct division {
    kn_batch_norm_form form;
    int64_t vector, channels, part, parts, slice, slices;
    bool blocked; /* a vector has an element of each of the group's channels, which are a block */
    size_t sum_items, slice_items;
    int partials; /* scratch memory */
} division;

/* Divides `total` elements of a channel into pieces of at most `most`, multiples of the vector. */
static int64_t pieces_of(const division *work, int64_t most, int64_t *piece) {
    int64_t count = kn_divide_up(work->form.total, most);
    *piece = count ? kn_round_up(kn_divide_up(work->form.total, count), work->vector) : work->vector;
    return kn_divide_up(work->form.total, *piece);
}

/* The form of x, and the elements per vector and work-group. */
static division describe(const kn_lowering *lowering) {
    const kn_value *x = lowering->node->inputs[0];
    division work = {.form = kn_batch_norm_form_of(&x->shape), .channels = 1};
    work.blocked = lowering->node->outputs[0]->layout == KN_LAYOUT_BLOCKED;
    work.vector = 1;
    if (work.blocked) return work;
    /* A vector is within one line of the result, as the epilogue sees it. */
    int64_t line = x->shape.rank > 4 ? x->shape.dims[x->shape.rank - 1] : work.form.inner;
    work.vector = line % 4 == 0 ? 4 : 1;
    return work;
}

/* If adjacent elements belong to adjacent channels, a group processes these channels. */
static int64_t adjacent_channels(const division *work) {
    return work->form.inner == 1 && !work->blocked ? 8 : 1;
}

/* Whether the work-items of a group can hold its channels, HELD vectors each: then the group has a single
 * slice. */
static bool is_held(const kn_lowering *lowering, division *work) {
    *work = describe(lowering);
    if (work->blocked) return false;
    int64_t adjacent = adjacent_channels(work);
    work->slice_items = kn_group_items_for(
        lowering->target, file, kn_divide_up(adjacent * work->form.total, work->vector * HELD), 256);
    if ((int64_t)work->slice_items >= adjacent) work->channels = adjacent;
    work->slices = 1;
    return work->form.total <= HELD * work->vector * (int64_t)work->slice_items / work->channels;
}

/* `flight`: vectors of a slice that a work-item loads at once; `each`: values stored per part. */
static division divide_work(kn_lowering *lowering, int64_t flight, int64_t each) {
    const kn_target *target = lowering->target;
    const kn_value *x = lowering->node->inputs[0];
    division work = describe(lowering);
    int64_t total = work.form.total, adjacent = adjacent_channels(&work);
    work.sum_items = kn_group_items_for(target, file, adjacent * total / 8, work.blocked ? 256 : 64);
    work.slice_items = kn_group_items_for(target, file, adjacent * total / (work.vector * flight), 256);
    if ((int64_t)work.sum_items >= adjacent && (int64_t)work.slice_items >= adjacent)
        work.channels = adjacent;
    /* The parts determine rounding, so they depend on the shape and the work-group. */
    int64_t most = 16 * (int64_t)work.sum_items / work.channels, even = kn_divide_up(total, MAX_PARTS);
    work.parts = pieces_of(&work, most > even ? most : even, &work.part);
    work.slices =
        pieces_of(&work, flight * work.vector * (int64_t)work.slice_items / work.channels, &work.slice);
    uint64_t numbers =
        (uint64_t)each * (uint64_t)(work.parts ? work.parts : 1) * (uint64_t)work.form.channels;
    if (work.blocked) work.channels = KN_BLOCK_OF_THREADS;
    work.partials =
        kn_emit_scratch(lowering, numbers * kn_dtype_bytes(kn_accumulator(lowering->node, x->shape.dtype)));
    return work;
}

static kn_step *begin(kn_lowering *lowering, const division *work, const char *kernel, size_t items,
                      int64_t flight) {
    kn_dtype type = lowering->node->inputs[0]->shape.dtype;
    kn_step *step = kn_step_begin(lowering, file, kernel);
    KN_STEP_DEFINE(step, {"KN_ITEMS", items}, {"KN_CHANNELS", work->channels},
                   {"KN_VECTOR", work->blocked ? KN_BLOCK_OF_THREADS : (int)work->vector});
    if (work->blocked) KN_STEP_DEFINE(step, {"KN_BLOCKED", 1});
    KN_STEP_DEFINE(step, {"KN_FLIGHT", flight}, {"KN_MAX_PARTS", MAX_PARTS});
    kn_step_types(step, lowering->node, type);
    return step;
}

/* Describes the work to a kernel, and sets the launch size: `count` groups for each group of channels. */
static void bind(kn_step *step, const kn_lowering *lowering, const division *work, int64_t count,
                 size_t items) {
    const kn_batch_norm_form *form = &work->form;
    kn_step_bind_values(step, lowering);
    KN_STEP_BIND(step, {"channels", form->channels}, {"inner", form->inner},
                 {"line_multiplier", form->inner ? kn_divide_multiplier(form->inner / work->vector) : 0},
                 {"total", form->total}, {"part", work->part}, {"parts", work->parts},
                 {"slice", work->slice});
    kn_step_size2(step, (size_t)count * items, (size_t)kn_divide_up(form->channels, work->channels), items,
                  1);
}

/* The first of two launches: the moments of parts. */
static kn_status lower_moments(kn_lowering *lowering, const division *work, int64_t flight) {
    kn_step *step = begin(lowering, work, "kn_batch_norm_moments", work->sum_items, flight);
    kn_step_scratch(step, "partials", work->partials);
    bind(step, lowering, work, work->parts, work->sum_items);
    kn_batch_norm_cost(step, lowering, 1, 3);
    return kn_step_end(step, lowering);
}

/* Makes the kernel add the parts of x, and store x for the gradient. */
static void read_parts(kn_step *step, kn_value *x, const kn_part_sum *sum) {
    KN_STEP_DEFINE(step, {"KN_X_PARTS", 1});
    kn_step_read(step, "x", NULL);
    kn_step_read_scratch(step, "x_parts", sum->partials);
    kn_step_write(step, "x_sum", x);
    KN_STEP_SET(step, {"x_offset", sum->offset}, {"x_stride", sum->stride}, {"x_count", sum->parts});
}

/* x is (N,C,...). */
kn_status kn_batch_norm_groups_lower(kn_lowering *lowering) {
    enum { FLIGHT = 4 };
    const kn_node *node = lowering->node;
    const kn_shape *x = &node->inputs[0]->shape;
    division work;
    const bool held = is_held(lowering, &work);
    if (!held) work = divide_work(lowering, FLIGHT, 3);
    kn_status status = held ? KN_OK : lower_moments(lowering, &work, FLIGHT);
    if (status != KN_OK) return status;
    kn_part_sum sum = {.parts = 0};
    const bool in_parts = held && kn_take_sum(lowering, node->inputs[0], work.vector, &sum);
    kn_step *step = begin(lowering, &work, held ? "kn_batch_norm_held" : "kn_batch_norm_normalise",
                          work.slice_items, held ? HELD : FLIGHT);
    bool images = x->rank == 3 || x->rank == 4; /* whose axes match the epilogue's */
    KN_STEP_DEFINE(step, {"KN_FLAT", !images});
    if (in_parts) read_parts(step, node->inputs[0], &sum);
    if (!held) kn_step_read_scratch(step, "partials", work.partials);
    bind(step, lowering, &work, work.slices, work.slice_items);
    kn_batch_norm_numbers(step, node);
    kn_step_epilogue_sizes(step, x);
    kn_batch_norm_cost(step, lowering, held ? 3 : 2, held ? 6 : 3);
    kn_step_epilogue(step, lowering);
    return kn_step_end(step, lowering);
}

/* The first of two launches: the sums of parts. */
static kn_status lower_slopes(kn_lowering *lowering, const division *work, int64_t flight) {
    kn_step *step = begin(lowering, work, "kn_batch_norm_slopes", work->sum_items, flight);
    kn_step_scratch(step, "partials", work->partials);
    bind(step, lowering, work, work->parts, work->sum_items);
    kn_batch_norm_cost(step, lowering, 2, 4);
    return kn_step_end(step, lowering);
}

/* x and dy are (N,C,...). */
kn_status kn_batch_norm_groups_gradient_lower(kn_lowering *lowering) {
    enum { FLIGHT = 2 };
    division work;
    const bool held = is_held(lowering, &work);
    if (!held) work = divide_work(lowering, FLIGHT, 2);
    kn_status status = held ? KN_OK : lower_slopes(lowering, &work, FLIGHT);
    if (status != KN_OK) return status;
    kn_step *step = begin(lowering, &work, held ? "kn_batch_norm_held_gradient" : "kn_batch_norm_backward",
                          work.slice_items, held ? HELD : FLIGHT);
    if (!held) kn_step_read_scratch(step, "partials", work.partials);
    bind(step, lowering, &work, work.slices, work.slice_items);
    kn_batch_norm_cost(step, lowering, held ? 5 : 3, held ? 9 : 5);
    return kn_step_end(step, lowering);
}
