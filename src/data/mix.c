/* Mixes samples within their batch: mix-up (Zhang et al. 2018) and cut-mix (Yun et al. 2019). Partners and
 * fractions depend only on the batch's key. */
#include <math.h>
#include <string.h>

#include "data/augment.h"

enum { DRAW_ROW, DRAW_COLUMN };
static const double least_beta = 1e-3, most_beta = 1000;

bool kn_mixes(const kn_augmentation *how) {
    return how->mix_up != 0 || how->cut_mix != 0;
}

/* 0: off. */
static bool is_beta(double a) {
    return a == 0 || (a >= least_beta && a <= most_beta);
}

kn_status kn_mix_check(const kn_augmentation *how, const kn_tensor_info *x, bool classes, kn_error *error) {
    if (!kn_mixes(how)) return KN_OK;
    const char *words = how->cut_mix == 0 ? "mix-up" : how->mix_up == 0 ? "cut-mix" : "mix-up and cut-mix";
    if (!is_beta(how->mix_up) || !is_beta(how->cut_mix))
        return kn_fail(error, KN_ERROR_ARGUMENT, "%s: expected a parameter of Beta(a,a) from %g to %g", words,
                       least_beta, most_beta);
    if (!classes)
        return kn_fail(error, KN_ERROR_ARGUMENT,
                       "%s: mixing needs data with one class per sample; remove it from the augmentation",
                       words);
    const bool picture = how->cut_mix != 0;
    if (x->dtype != KN_FLOAT32 || x->rank < 1 || (picture && x->rank != 3))
        return kn_fail(error, KN_ERROR_SHAPE, "%s: the input is %s of rank %d; expected float32%s", words,
                       kn_array_type_name(x->dtype), x->rank,
                       picture ? " images (channels,height,width)" : "");
    return KN_OK;
}

/* ---- the fraction -------------------------------------------------------------------------------- */

/* The logarithm of a number distributed as Gamma(a) (Marsaglia and Tsang 2000). */
static double draw_gamma(uint64_t key, double a) {
    const double d = (a < 1 ? a + 1 : a) - 1.0 / 3, c = 1 / sqrt(9 * d);
    const uint64_t normals = kn_hash_text(key, "normal");
    for (uint64_t i = 0;; i++) {
        const double x = kn_random_normal(normals, i), v = 1 + c * x;
        /* so that its logarithm is finite */
        const double u = ((double)kn_random_word(key, i + 1) + 1) * 0x1p-32;
        if (v <= 0 || log(u) >= 0.5 * x * x + d * (1 - v * v * v + 3 * log(v))) continue;
        const double first = ((double)kn_random_word(key, 0) + 1) * 0x1p-32;
        return log(d) + 3 * log(v) + (a < 1 ? log(first) / a : 0);
    }
}

double kn_random_beta(uint64_t key, double a) {
    return 1 / (1 + exp(draw_gamma(kn_hash_text(key, "other"), a) - draw_gamma(kn_hash_text(key, "own"), a)));
}

/* ---- mixing ------------------------------------------------------------------------------------ */

/* x and other are (planes,height,width). Returns the fraction of the area that stays. */
static float paste(float *x, const float *other, const kn_tensor_info *info, uint64_t key, double fraction) {
    const int64_t planes = info->shape[0], height = info->shape[1], width = info->shape[2];
    const double side = sqrt(1 - fraction);
    const int64_t rows = (int64_t)((double)height * side), columns = (int64_t)((double)width * side);
    int64_t top = (int64_t)kn_random_below(key, DRAW_ROW, (uint32_t)height) - rows / 2, bottom = top + rows;
    int64_t left = (int64_t)kn_random_below(key, DRAW_COLUMN, (uint32_t)width) - columns / 2,
            right = left + columns;
    if (top < 0) top = 0;
    if (left < 0) left = 0;
    if (bottom > height) bottom = height;
    if (right > width) right = width;
    if (bottom <= top || right <= left) return 1;
    for (int64_t plane = 0; plane < planes; plane++)
        for (int64_t row = top; row < bottom; row++) {
            const int64_t from = (plane * height + row) * width + left;
            memcpy(x + from, other + from, (size_t)(right - left) * sizeof *x);
        }
    return (float)(1 - (double)((bottom - top) * (right - left)) / ((double)height * (double)width));
}

void kn_mix(const kn_augmentation *how, const kn_tensor_info *info, uint64_t key, uint64_t count,
            kn_mixture *batch) {
    int64_t elements = 1;
    for (int d = 0; d < info->rank; d++)
        elements *= info->shape[d];
    const bool cuts =
        how->cut_mix > 0 && (how->mix_up == 0 || kn_random_below(kn_hash_text(key, "which"), 0, 2));
    for (uint64_t i = 0; i < count; i++)
        batch->partners[i] = (uint32_t)i;
    kn_random_shuffle(kn_hash_text(key, "partners"), batch->partners, (size_t)count);
    if (elements > 0) memcpy(batch->plain, batch->x, (size_t)count * (size_t)elements * sizeof *batch->x);
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t partner = batch->partners[i], own = kn_hash_number(key, i);
        const double fraction = kn_random_beta(own, cuts ? how->cut_mix : how->mix_up);
        float *x = batch->x + (int64_t)i * elements;
        const float *other = batch->plain + (int64_t)partner * elements;
        batch->other[i] = batch->y[partner];
        batch->fraction[i] = partner == i ? 1 : (float)fraction;
        if (partner == i || elements == 0) continue;
        if (cuts)
            batch->fraction[i] = paste(x, other, info, own, fraction);
        else
            for (int64_t e = 0; e < elements; e++)
                x[e] = (float)fraction * x[e] + (1 - (float)fraction) * other[e];
    }
}
