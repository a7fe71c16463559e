/* Lowers reductions to launches of cl/reduce/reduce.cl. */
#include "ops/reduce/reduce.h"

/* A reduction with its axes merged into runs of one kind; [0] is the innermost run. */
typedef struct runs {
    int kept, reduced;
    int64_t kept_size[4], kept_stride[4], reduced_size[4], reduced_stride[4];
    int64_t outputs, count; /* results, and elements per result */
    bool adjacent;          /* the innermost run is reduced */
} runs;

static runs merge_axes(const kn_reduction *reduction) {
    runs merged = {.outputs = 1, .count = 1};
    int64_t stride = 1;
    int last = -1; /* kind of the run before */
    for (int axis = reduction->rank - 1; axis >= 0; axis--) {
        int64_t size = reduction->dims[axis];
        bool reduced = reduction->reduced[axis];
        *(reduced ? &merged.count : &merged.outputs) *= size;
        if (size == 1) continue;
        int *runs_of_kind = reduced ? &merged.reduced : &merged.kept;
        int64_t *sizes = reduced ? merged.reduced_size : merged.kept_size;
        int64_t *strides = reduced ? merged.reduced_stride : merged.kept_stride;
        if (last == (int)reduced) {
            sizes[*runs_of_kind - 1] *= size;
        } else {
            if (last < 0) merged.adjacent = reduced;
            sizes[*runs_of_kind] = size;
            strides[(*runs_of_kind)++] = stride;
        }
        last = reduced;
        stride *= size;
    }
    if (last < 0) merged.adjacent = true; /* one element */
    for (int i = merged.kept; i < 4; i++)
        merged.kept_size[i] = 1;
    for (int i = merged.reduced; i < 4; i++)
        merged.reduced_size[i] = 1;
    if (!merged.reduced && merged.adjacent) merged.reduced_stride[0] = 1;
    if (!merged.kept) merged.kept = 1;
    if (!merged.reduced) merged.reduced = 1;
    return merged;
}

static int64_t smaller(int64_t left, int64_t right) {
    return left < right ? left : right;
}

enum { PLAIN_PART = 4096 };

/* How a reduction is divided among work-items. `part` depends on the shape and the kind of device, never on
 * its number of compute units. */
typedef struct division {
    int64_t parts, part;
    size_t items, lanes;  /* many work-items */
    int vector, flight;   /* elements per load, and loads before the first is used */
    int64_t tasks, chunk; /* few work-items */
} division;

/* On many-thread devices: the work-groups that keep a device's memory busy, and the elements per work-item
 * that justify an additional part, also for SOME_GROUPS groups or more. */
enum { BUSY_GROUPS = 512, SOME_GROUPS = 32, ITEM_ELEMENTS = 16, ITEM_ELEMENTS_OF_SOME = 64 };
/* Loads in flight per work-item, and what the start of lanes is a multiple of (KN_EARLY). */
enum { FLIGHT = 4, LANES_BEGIN = 16 };

static division divide_many(const kn_target *target, const runs *shape) {
    division work = {.parts = 1, .part = shape->count, .vector = 1, .flight = FLIGHT};
    if (shape->adjacent && shape->reduced_size[0] % 4 == 0) work.vector = 4;
    work.items = kn_group_items(target, "reduce/reduce.cl");
    work.lanes = kn_power_of_two(kn_divide_up(shape->count, FLIGHT * work.vector), work.items);
    /* Lanes start before a row that is not aligned, which may need an additional load. */
    const int64_t room = FLIGHT * (int64_t)work.lanes, early = smaller((int64_t)work.lanes, LANES_BEGIN) - 1;
    if (shape->adjacent && shape->reduced == 1 && work.vector == 1 && shape->count <= room &&
        shape->count + early > room)
        work.flight++;
    /* A group reads adjacent results together. */
    size_t slots = kn_power_of_two(shape->outputs, work.items < 32 ? work.items : 32);
    if (!shape->adjacent && work.lanes * slots > work.items) work.lanes = work.items / slots;
    int64_t groups = kn_divide_up(shape->outputs, (int64_t)(work.items / work.lanes));
    const int64_t least = groups < SOME_GROUPS ? ITEM_ELEMENTS : ITEM_ELEMENTS_OF_SOME;
    const int64_t most = shape->count / ((int64_t)work.lanes * least);
    if (groups < BUSY_GROUPS && most > 1) {
        work.part = kn_divide_up(shape->count, smaller(most, kn_divide_up(BUSY_GROUPS, groups)));
        work.part = kn_round_up(work.part, work.vector);
        work.parts = kn_divide_up(shape->count, work.part);
    }
    return work;
}

static division divide_wide(const kn_target *target, const runs *shape) {
    division work = {.parts = 1, .part = shape->count};
    int64_t columns = 8 * target->vector_width; /* KN_COLUMNS of the kernel */
    work.tasks = shape->adjacent
                     ? shape->outputs
                     : kn_divide_up(shape->kept_size[0], columns) * (shape->outputs / shape->kept_size[0]);
    int64_t most = shape->count / (shape->adjacent ? 4096 : 256);
    if (work.tasks < 16 && most > 1) {
        work.part = kn_divide_up(shape->count, smaller(most, kn_divide_up(32, work.tasks)));
        work.parts = kn_divide_up(shape->count, work.part);
        work.tasks *= work.parts;
    }
    /* A work-item needs about 16,000 elements to pay off. */
    int64_t elements = kn_divide_up(shape->outputs * shape->count, work.tasks) + 1;
    work.chunk = elements >= 16384 ? 1 : 16384 / elements;
    return work;
}

/* Parts of few elements: the sums of one work-item are short. */
static division divide_plain(const runs *shape) {
    division work = {
        .items = 1, .lanes = 1, .vector = 1, .flight = 1, .part = smaller(shape->count, PLAIN_PART)};
    work.parts = shape->count ? kn_divide_up(shape->count, work.part) : 1;
    return work;
}

static void write_start(kn_step *step, const kn_reduction *reduction, kn_dtype accumulator) {
    if (reduction->kind == KN_REDUCE_SUM) {
        KN_STEP_DEFINE(step, {"KN_START", 0});
        return;
    }
    bool least = reduction->kind == KN_REDUCE_MAX;
    if (kn_dtype_is_float(accumulator)) {
        kn_step_define(step, "KN_START", least ? "(-INFINITY)" : "INFINITY");
        return;
    }
    static const char *const bounds[][2] = {
        [KN_INT8] = {"CHAR_MIN", "CHAR_MAX"}, [KN_INT16] = {"SHRT_MIN", "SHRT_MAX"},
        [KN_INT32] = {"INT_MIN", "INT_MAX"},  [KN_INT64] = {"LONG_MIN", "LONG_MAX"},
        [KN_UINT8] = {"0", "UCHAR_MAX"},      [KN_UINT16] = {"0", "USHRT_MAX"},
        [KN_UINT32] = {"0", "UINT_MAX"},      [KN_UINT64] = {"0", "ULONG_MAX"},
    };
    kn_step_define(step, "KN_START", "%s", bounds[accumulator][least ? 0 : 1]);
}

/* One launch. If a reduction has several parts, their results are stored in scratch memory, and a second
 * launch combines them */
static kn_status emit(kn_lowering *lowering, const kn_reduction *reduction, kn_method method, bool joining) {
    const kn_target *target = lowering->target;
    runs shape = merge_axes(reduction);
    if (shape.outputs == 0) return KN_OK;
    kn_dtype accumulator = kn_accumulator(lowering->node, reduction->dtype);
    bool wide = method == KN_METHOD_WIDE;
    division work = wide                        ? divide_wide(target, &shape)
                    : method == KN_METHOD_PLAIN ? divide_plain(&shape)
                                                : divide_many(target, &shape);
    if (joining) { /* there are few parts */
        work.tasks /= work.parts;
        work.parts = 1;
        work.part = shape.count;
    }
    bool last = work.parts == 1, rows = shape.adjacent;
    const char *kernel = !wide ? "kn_reduce" : rows ? "kn_reduce_rows" : "kn_reduce_columns";
    kn_step *step = kn_step_begin(lowering, "reduce/reduce.cl", kernel);
    KN_STEP_DEFINE(step, {"KN_KIND", reduction->kind});
    write_start(step, reduction, accumulator);
    kn_step_types(step, lowering->node, reduction->dtype);
    kn_dtype result = last ? lowering->result->shape.dtype : accumulator;
    kn_step_define_type(step, "KN_R", kn_is_half(result) ? KN_FLOAT32 : result);
    KN_STEP_DEFINE(step, {"KN_KEPT", shape.kept}, {"KN_REDUCED", shape.reduced},
                   {"KN_DIVIDE", last && reduction->divide});
    if (wide) {
        KN_STEP_DEFINE(step, {"KN_WIDTH", target->vector_width});
    } else {
        KN_STEP_DEFINE(step, {"KN_ADJACENT", rows}, {"KN_VECTOR", work.vector}, {"KN_FLIGHT", work.flight});
    }
    if (reduction->source)
        kn_step_read(step, "in", reduction->source);
    else
        kn_step_scratch(step, "in", reduction->scratch);
    int scratch = 0;
    if (last) {
        kn_step_write(step, "out", lowering->result);
    } else {
        scratch =
            kn_emit_scratch(lowering, (uint64_t)(work.parts * shape.outputs) * kn_dtype_bytes(accumulator));
        kn_step_scratch(step, "out", scratch);
    }
    KN_STEP_SET(step, {"outputs", shape.outputs}, {"count", shape.count}, {"part", work.part},
                {"divisor", reduction->divisor});
    if (wide) {
        KN_STEP_SET(step, {"parts", work.parts}, {"chunk", work.chunk});
    }
    for (int i = 0; i < 4; i++) {
        KN_STEP_SET(step, {"kept#", shape.kept_size[i]}, {"kept_stride#", shape.kept_stride[i]});
    }
    for (int i = 0; i < 4; i++) {
        KN_STEP_SET(step, {"reduced#", shape.reduced_size[i]}, {"reduced_stride#", shape.reduced_stride[i]});
    }
    if (wide) {
        kn_step_size1(step, (size_t)kn_divide_up(work.tasks, work.chunk), 1);
    } else {
        kn_step_lanes(step, target, shape.outputs, work.parts, work.lanes, work.items);
    }
    kn_status status = kn_step_end(step, lowering);
    if (status || last) return status;
    /* The parts are (parts, outputs). */
    result = lowering->result->shape.dtype;
    if (method == KN_METHOD_TREE && reduction->kind == KN_REDUCE_SUM && !reduction->divide &&
        kn_has_kernels(result) && !kn_is_half(result) &&
        kn_accumulator(lowering->node, result) == accumulator && shape.outputs >= work.parts) {
        const kn_part_sum sum = {.partials = scratch,
                                 .result = lowering->result,
                                 .stride = shape.outputs,
                                 .elements = shape.outputs,
                                 .parts = work.parts};
        return kn_emit_sums(lowering, &sum, 1);
    }
    kn_reduction join = {.kind = reduction->kind, .divide = reduction->divide, .divisor = reduction->divisor};
    join.scratch = scratch;
    join.dtype = accumulator;
    join.rank = 2;
    join.dims[0] = work.parts;
    join.dims[1] = shape.outputs;
    join.reduced[0] = true;
    return emit(lowering, &join, method, true);
}

kn_status kn_emit_reduction(kn_lowering *lowering, const kn_reduction *reduction, kn_method method) {
    return emit(lowering, reduction, method, false);
}
