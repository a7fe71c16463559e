/* Sums of parts in order, several in a launch (cl/reduce/sums.cl). */
#include "ops/lowering.h"
#include "ops/ops.h"

/* A sum with fewer elements has a work-item per element, so that more loads are in flight. */
enum { ITEMS = 64, FEW = 1 << 14 };

static size_t items_of(const kn_target *target) {
    const size_t most = kn_group_items(target, "reduce/sums.cl");
    return most < ITEMS ? most : ITEMS;
}

static int64_t groups_of(const kn_part_sum *sum, size_t items) {
    const bool by_fours = (sum->offset | sum->stride | sum->elements) % 4 == 0 && sum->elements >= FEW;
    return kn_divide_up(sum->elements, (int64_t)items * (by_fours ? 4 : 1));
}

void kn_step_sums(kn_step *step, const kn_target *target, const kn_part_sum *sums, int count) {
    static const kn_part_sum absent;
    const size_t items = items_of(target);
    int64_t groups = 0, numbers = 0;
    for (int i = 0; i < KN_MAX_SUMS; i++) {
        const kn_part_sum *sum = i < count ? &sums[i] : &absent;
        if (i < count)
            kn_step_read_scratch(step, "partials#", sum->partials);
        else
            kn_step_read(step, "partials#", NULL);
        kn_step_write(step, "result#", sum->result);
        KN_STEP_SET(step, {"offset#", sum->offset}, {"stride#", sum->stride}, {"elements#", sum->elements},
                    {"parts#", sum->parts}, {"groups#", groups_of(sum, items)});
        groups += groups_of(sum, items);
        numbers += sum->elements * (sum->parts + 1);
    }
    kn_step_size1(step, (size_t)groups * items, items);
    const uint64_t size = count ? kn_dtype_bytes(sums[0].result->shape.dtype) : 0;
    kn_step_cost(step, (double)numbers, (double)numbers * (double)size);
    if (!step) return;
    kn_part_sum *kept = kn_arena_copy(step->arena, sums, (size_t)count, sizeof *sums);
    step->sums = kept;
    step->sum_count = kept ? count : 0;
}

kn_status kn_emit_sums(kn_lowering *lowering, const kn_part_sum *sums, int count) {
    kn_dtype type = sums[0].result->shape.dtype;
    kn_step *step = kn_step_begin(lowering, "reduce/sums.cl", "kn_sums");
    kn_step_define_type(step, "KN_T", type);
    kn_step_define_type(step, "KN_A", kn_accumulator(lowering->node, type));
    KN_STEP_DEFINE(step, {"KN_ITEMS", items_of(lowering->target)});
    kn_step_sums(step, lowering->target, sums, count);
    return kn_step_end(step, lowering);
}
