/* Packing of filters and blocking of images for the wide-vector kernels: steps for cl/conv/packing.cl and
 * cl/shape/layout.cl. */
#include "ops/conv/packing.h"

#include "ops/conv/conv.h"
#include "ops/lowering.h"

kn_packed_filter kn_conv_packed_filter(const kn_target *target, const kn_conv_form *form, bool swapped,
                                       bool plain) {
    kn_packed_filter pack = {.width = target->vector_width, .groups = form->groups};
    int64_t channels = form->channels / form->groups, outputs = form->outputs / form->groups;
    pack.targets = swapped ? channels : outputs;
    pack.sources = swapped ? outputs : channels;
    pack.taps = form->filter_height * form->filter_width;
    pack.lanes = plain ? 1 : pack.width;
    pack.vectors = kn_wide_vectors(pack.width, pack.targets);
    int64_t blocks = kn_divide_up(pack.targets, pack.width);
    /* Three vectors compute as fast as four, and may waste less of the last panel. */
    if (pack.vectors == 4 && kn_round_up(blocks, 3) < kn_round_up(blocks, 4)) pack.vectors = 3;
    /* With 16 registers, tiles of four rows and three vectors read less than tiles of six and two. */
    if (pack.width == 8 && pack.taps == 1 && blocks % 3 == 0) pack.vectors = 3;
    kn_conv_panels(&pack);
    return pack;
}

void kn_conv_panels(kn_packed_filter *pack) {
    pack->columns = pack->width * pack->vectors;
    pack->panels = kn_divide_up(pack->targets, pack->columns);
    pack->floats =
        pack->groups * pack->panels * pack->columns * kn_round_up(pack->sources, pack->lanes) * pack->taps;
}

kn_step *kn_conv_begin(kn_lowering *lowering, const kn_packed_filter *pack, const char *file,
                       const char *kernel) {
    kn_step *step = kn_step_begin(lowering, file, kernel);
    KN_STEP_DEFINE(step, {"KN_WIDTH", pack->width}, {"KN_VECTORS", pack->vectors});
    return step;
}

/* Adds the common arguments of kn_pack_filter and kn_unpack_filter: the plain side is (K,C/groups,taps). */
static void add_packing(kn_step *step, const kn_packed_filter *pack, bool swapped) {
    KN_STEP_SET(step, {"targets", pack->targets}, {"sources", pack->sources}, {"taps", pack->taps},
                {"plain_group", pack->targets * pack->sources * pack->taps},
                {"plain_target", swapped ? pack->taps : pack->sources * pack->taps},
                {"plain_source", swapped ? pack->targets * pack->taps : pack->taps}, {"lanes", pack->lanes});
}

static void size_packing(kn_step *step, const kn_packed_filter *pack) {
    kn_step_size2(step, (size_t)kn_divide_up(pack->sources, pack->lanes),
                  (size_t)(pack->groups * pack->panels), 1, 1);
}

kn_status kn_conv_pack(kn_lowering *lowering, kn_packed_filter *pack, kn_value *weight, bool swapped) {
    /* A line of zeros follows the panels; it is read for pixels outside the image. */
    pack->scratch = kn_emit_scratch(lowering, (uint64_t)(pack->floats + pack->width) * sizeof(float));
    kn_step *step = kn_conv_begin(lowering, pack, "conv/packing.cl", "kn_pack_filter");
    kn_step_read(step, "plain", weight);
    kn_step_scratch(step, "packed", pack->scratch);
    add_packing(step, pack, swapped);
    size_packing(step, pack);
    return kn_step_end(step, lowering);
}

kn_status kn_conv_unpack(kn_lowering *lowering, const kn_packed_filter *filter, int scratch, int64_t parts) {
    kn_step *step = kn_conv_begin(lowering, filter, "conv/packing.cl", "kn_unpack_filter");
    kn_step_scratch(step, "packed", scratch);
    kn_step_write(step, "plain", lowering->result);
    add_packing(step, filter, false);
    KN_STEP_SET(step, {"parts", parts}, {"packed_part", filter->floats}, {"accumulate", 0});
    size_packing(step, filter);
    return kn_step_end(step, lowering);
}

kn_status kn_conv_emit_blocks(kn_lowering *lowering, const kn_packed_filter *pack, kn_value *plain,
                              int scratch, int64_t images, int64_t channels, int64_t pixels, bool blocking) {
    int64_t blocks = kn_divide_up(channels, pack->width);
    kn_step *step = kn_conv_begin(lowering, pack, "shape/layout.cl", blocking ? "kn_block" : "kn_unblock");
    if (blocking) kn_step_read(step, "plain", plain);
    kn_step_scratch(step, "blocked", scratch);
    if (!blocking) kn_step_write(step, "plain", plain);
    KN_STEP_SET(step, {"channels", channels}, {"pixels", pixels}, {"plain_image", channels * pixels},
                {"plain_channel", pixels}, {"blocked_image", blocks * pack->width * pixels},
                {"item_pixels", kn_round_up(pixels, pack->width)});
    if (!blocking) kn_step_epilogue(step, lowering);
    kn_step_size_wide(step, 1, blocks, images);
    return kn_step_end(step, lowering);
}

int kn_conv_padded_scratch(kn_lowering *lowering, const kn_packed_filter *pack, int64_t images,
                           int64_t channels, int64_t pixels) {
    uint64_t lanes = (uint64_t)kn_round_up(channels, pack->width);
    return kn_emit_scratch(lowering, lanes * (uint64_t)images * (uint64_t)pixels * sizeof(float));
}

void kn_conv_gather(kn_lowering *lowering, kn_step *step, int64_t channels, int64_t parts, int64_t part) {
    if (!lowering->gathers) return;
    *lowering->gathers = (kn_statistics){
        .parts = parts,
        .scratch = kn_emit_scratch(lowering, 3 * (uint64_t)(parts * channels) * sizeof(float)),
    };
    KN_STEP_DEFINE(step, {"KN_STATISTICS", 1});
    kn_step_scratch(step, "statistics", lowering->gathers->scratch);
    KN_STEP_SET(step, {"part", part});
}

int64_t kn_conv_tile_rows(const kn_packed_filter *filter) {
    if (filter->width == 8 && filter->vectors >= 2) return filter->vectors == 3 ? 4 : 6;
    return filter->vectors == 4 ? 6 : filter->vectors == 3 ? 8 : 12;
}
