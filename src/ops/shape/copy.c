/* Copies of elements: steps for cl/shape/strided.cl, cl/shape/transpose.cl and cl/shape/pad.cl */
#include "ops/lowering.h"
#include "ops/shape/shape.h"

/* Minimum elements per work-item on wide-vector devices. */
enum { WIDE_CHUNK = 16384 };

/* An axis of a copy. */
typedef struct axis {
    int64_t size, from, to; /* strides in elements */
} axis;

/* Axes from the innermost to the outermost, without those of size 1; merges axes that are contiguous on both
 * sides */
static int merge_axes(const kn_strided_copy *copy, axis merged[KN_MAX_RANK]) {
    int count = 0;
    for (int i = copy->rank - 1; i >= 0; i--) {
        axis next = {copy->sizes[i], copy->from_strides[i], copy->to_strides[i]};
        if (next.size == 1) continue;
        axis *last = count ? &merged[count - 1] : NULL;
        if (last && next.from == last->from * last->size && next.to == last->to * last->size)
            last->size *= next.size;
        else
            merged[count++] = next;
    }
    if (!count) merged[count++] = (axis){1, 1, 1};
    return count;
}

const char *kn_bits_type(kn_dtype dtype) {
    switch (kn_dtype_bytes(dtype)) {
    case 1:
        return "uchar";
    case 2:
        return "ushort";
    case 8:
        return "ulong";
    default:
        return "uint";
    }
}

/* If several steps write a value, the first must not declare that it writes all of it. */
static void write_result(kn_step *step, const char *name, const kn_strided_copy *copy) {
    if (copy->partial)
        kn_step_update(step, name, copy->to);
    else
        kn_step_write(step, name, copy->to);
}

static void write_axis(kn_step *step, axis next) {
    KN_STEP_SET(step, {"size#", next.size}, {"in_stride#", next.from}, {"out_stride#", next.to});
}

/* The innermost axis is contiguous where it is written; axis `other` is contiguous where it is read. */
static kn_status emit_transpose(kn_lowering *lowering, const kn_strided_copy *copy, const axis *axes,
                                int count, int other, bool wide) {
    int64_t tile = 64, batch = 1;
    int width = lowering->target->vector_width;
    size_t items = kn_group_items(lowering->target, "shape/transpose.cl");
    if (!wide)
        for (tile = 16; (size_t)(tile * tile) > items;)
            tile /= 2;
    kn_step *step =
        kn_step_begin(lowering, "shape/transpose.cl", wide ? "kn_transpose_wide" : "kn_transpose");
    kn_step_define(step, "KN_T", "%s", kn_bits_type(copy->from->shape.dtype));
    KN_STEP_DEFINE(step, {"KN_TILE", tile});
    if (wide && width >= 4 && kn_dtype_bytes(copy->from->shape.dtype) == 4)
        KN_STEP_DEFINE(step, {"KN_WIDTH", width});
    kn_step_read(step, "in", copy->from);
    write_result(step, "out", copy);
    KN_STEP_SET(step, {"a", axes[0].size}, {"b", axes[other].size}, {"in_stride", axes[0].from},
                {"out_stride", axes[other].to});
    int written = 0;
    for (int i = 1; i < count; i++) {
        if (i == other) continue;
        write_axis(step, axes[i]);
        batch *= axes[i].size;
        written++;
    }
    for (; written < 6; written++)
        write_axis(step, (axis){1, 0, 0});
    size_t across = (size_t)kn_divide_up(axes[other].size, tile),
           down = (size_t)kn_divide_up(axes[0].size, tile);
    if (wide)
        kn_step_size_wide(step, across, down, batch);
    else
        kn_step_size3(step, (size_t[3]){across * (size_t)tile, down * (size_t)tile, (size_t)batch},
                      (size_t[3]){(size_t)tile, (size_t)tile, 1});
    return kn_step_end(step, lowering);
}

kn_status kn_emit_strided_copy(kn_lowering *lowering, const kn_strided_copy *copy) {
    const bool wide = lowering->config == KN_METHOD_WIDE;
    axis axes[KN_MAX_RANK];
    int64_t elements = 1;
    for (int i = 0; i < copy->rank; i++)
        elements *= copy->sizes[i];
    if (elements == 0) return KN_OK;
    int count = merge_axes(copy, axes);
    bool whole = count == 1 && axes[0].from == 1 && axes[0].to == 1;
    if (whole && !copy->partial && kn_elements_of(copy->from) == elements)
        return kn_emit_copy(lowering, copy->from, copy->to);
    if (!copy->plain && !copy->partial && axes[0].from != 1 && axes[0].to == 1 && !copy->from_offset)
        for (int i = 1; i < count; i++)
            if (axes[i].from == 1) return emit_transpose(lowering, copy, axes, count, i, wide);
    kn_step *step = kn_step_begin(lowering, "shape/strided.cl", wide ? "kn_strided_rows" : "kn_strided");
    kn_step_define(step, "KN_T", "%s", kn_bits_type(copy->from->shape.dtype));
    KN_STEP_DEFINE(step, {"KN_AXES", count});
    kn_step_read(step, wide ? "all_in" : "in", copy->from);
    write_result(step, wide ? "all_out" : "out", copy);
    KN_STEP_SET(step, {"in_offset", copy->from_offset}, {"out_offset", copy->to_offset});
    if (wide) {
        int64_t rows = elements / axes[0].size, chunk = WIDE_CHUNK / axes[0].size + 1;
        KN_STEP_SET(step, {"rows", rows}, {"chunk", chunk});
        kn_step_size1(step, (size_t)kn_divide_up(rows, chunk), 1);
    } else {
        KN_STEP_SET(step, {"count", elements});
        kn_step_size1(step, (size_t)elements, 0);
    }
    for (int i = 0; i < count; i++)
        write_axis(step, axes[i]);
    return kn_step_end(step, lowering);
}

/* ---- pad ------------------------------------------------------------------------------------- */

/* An axis of a pad: its size in the result, the elements before it, its size in the source. */
typedef struct margin {
    int64_t size, before, source;
} margin;

/* From the innermost to the outermost; an axis without padding is merged with the next outer one. */
static int merge_margins(const kn_shape *source, const kn_shape *result, const int64_t *before,
                         margin merged[KN_MAX_RANK]) {
    int count = 0;
    for (int i = source->rank - 1; i >= 0; i--) {
        margin next = {result->dims[i], before[i], source->dims[i]};
        margin *last = count ? &merged[count - 1] : NULL;
        if (last && last->size == last->source)
            *last = (margin){last->size * next.size, last->size * next.before, last->size * next.source};
        else
            merged[count++] = next;
    }
    if (!count) merged[count++] = (margin){1, 0, 1};
    return count;
}

kn_status kn_emit_pad(kn_lowering *lowering, const int64_t *before, double value, bool wide) {
    kn_value *x = lowering->node->inputs[0];
    int64_t elements = kn_elements_of(lowering->node->outputs[0]);
    margin axes[KN_MAX_RANK];
    if (elements == 0) return KN_OK;
    if (kn_elements_of(x) == elements) return kn_emit_copy(lowering, x, lowering->result);
    int count = merge_margins(&x->shape, &lowering->node->outputs[0]->shape, before, axes);
    kn_step *step = kn_step_begin(lowering, "shape/pad.cl", wide ? "kn_pad_rows" : "kn_pad");
    kn_step_define(step, "KN_T", "%s", kn_bits_type(x->shape.dtype));
    KN_STEP_DEFINE(step, {"KN_AXES", count});
    kn_step_read(step, "in", x);
    kn_step_write(step, "out", lowering->result);
    kn_step_number(step, "value", x->shape.dtype, value);
    if (wide) {
        int64_t rows = elements / axes[0].size, chunk = WIDE_CHUNK / axes[0].size + 1;
        KN_STEP_SET(step, {"rows", rows}, {"chunk", chunk});
        kn_step_size1(step, (size_t)kn_divide_up(rows, chunk), 1);
    } else {
        KN_STEP_SET(step, {"count", elements});
        kn_step_size1(step, (size_t)elements, 0);
    }
    for (int i = 0; i < count; i++) {
        KN_STEP_SET(step, {"size#", axes[i].size}, {"before#", axes[i].before}, {"source#", axes[i].source});
    }
    return kn_step_end(step, lowering);
}
